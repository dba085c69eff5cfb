# SPDX-License-Identifier: Apache-2.0
"""Old and new operator sets."""
import ml_dtypes
import numpy as np
from onnx import TensorProto

from sample_cases.attention import bytes_of
from sample_cases.case import case, CONTRIB, contrib, evaluated, expected, f32, floats, i64, ints, Node, one, refused, runs, seed, texts

# Axes that keep their size.
image = floats(1, 2, 3, 2)
for nearest in ("ceil", "round_prefer_floor"):
    one("Resize", image, np.zeros(0, np.float32), f32(1, 1, 2, 1), opset=11, constants=[1, 2], coordinate_transformation_mode="tf_half_pixel_for_nn", nearest_mode=nearest,
        name=f"Resize of one axis, tf_half_pixel_for_nn, {nearest}", expected=[image[:, :, {"ceil": [1, 1, 2, 2, 2, 2], "round_prefer_floor": [0, 1, 1, 2, 2, 2]}[nearest]]])

# Operator set 28.
seed("set 28")
one("SwiGLU", floats(2, 3, 4), floats(2, 3, 4), opset=28)
one("SwiGLU", floats(5, dtype=np.float16), floats(5, dtype=np.float16), opset=28, name="SwiGLU of half precision")
one("SwiGLU", floats(2, 3), floats(2, 3), alpha=1.7, opset=28, name="SwiGLU with alpha")
runs("SwiGLU of any shape", Node("SwiGLU", ["a", "b"], ["y"]), [("N", 3), ("M", "K")], *((floats(n, 3), floats(n, 3)) for n in (1, 4)), refused("T0501", floats(2, 3), floats(1, 3)),
     refused("T0501", floats(2, 3), floats(2, 1)), opset=28)
for direction in ("LEFT", "RIGHT"):
    for kind in (np.int8, np.int16, np.int32, np.int64):
        bits = 8 * np.dtype(kind).itemsize
        one("BitShift", np.array([-9, 9, -1, 1, -9, 9, -9, 9, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))], kind), np.array([1, 1, bits, bits, -1, -1, bits - 1, bits - 1, 1, 1], kind), direction=direction,
            opset=28, name=f"BitShift of {np.dtype(kind).name}, {direction}")
sides = f32(5.5, -5.5, 5.5, -5.5, 4, -4, 0.0, -0.0, 0.0, -0.0, 3, -3, np.inf, 1, np.nan, 1), f32(2, 2, -2, -2, -2, 2, 3, 3, -3, -3, np.inf, np.inf, 2, 0, 1, np.nan)
one("Mod", *sides, opset=28, name="Mod of floats with the sign of the divisor", expected=[np.mod(*sides)])
one("Mod", *(x.astype(np.float16) for x in sides), opset=28, name="Mod of half precision with the sign of the divisor", expected=[np.mod(*(x.astype(np.float16) for x in sides))])
one("Mod", ints(6, low=-9, high=9), ints(6, low=1, high=5), fmod=1, opset=28, name="Mod of integers with the sign of the dividend")
for mode in ("DCR", "CRD"):
    one("SpaceToDepth", floats(1, 2, 4, 6), blocksize=2, mode=mode, opset=28, name=f"SpaceToDepth, {mode}")
bf16 = lambda x: x.astype(ml_dtypes.bfloat16)
for kind in (np.float16, np.float64, ml_dtypes.bfloat16):
    one("Celu", floats(2, 5).astype(kind), alpha=0.75, opset=28, name=f"Celu of {np.dtype(kind).name}")
one("Compress", bf16(floats(3, 4)), np.array([True, False, True]), axis=0, opset=28, name="Compress of bfloat16")
one("Einsum", bf16(ints(2, 3, dtype=np.float32)), bf16(ints(3, 4, dtype=np.float32)), equation="ij,jk->ik", opset=28, name="Einsum of bfloat16")
one("OneHot", i64(1, 0, 2), np.array(3), bf16(f32(0.5, 2)), constants=(1,), opset=28, name="OneHot of bfloat16")
one("ReverseSequence", bf16(floats(4, 2)), i64(3, 2), opset=28, name="ReverseSequence of bfloat16")
repeated = bf16(f32(2, 1, 2, -1, 1))
one("Unique", repeated, results=4, opset=28, name="Unique of bfloat16", expected=[bf16(f32(-1, 1, 2)), i64(3, 1, 0), i64(2, 1, 2, 0, 1), i64(1, 2, 2)])
kept = bf16(floats(2, 3))
case("Optional of bfloat16", [Node("Optional", ["a"], ["o"]), Node("OptionalGetElement", ["o"], ["y"])], {"a": kept}, opset=28, expected=[kept])
for code, kind in ((TensorProto.FLOAT6E2M3, "float6e2m3"), (TensorProto.FLOAT6E3M2, "float6e3m2")):
    one("Cast", floats(3), to=code, opset=28, refused="T2102", name=f"Cast to {kind}", expected=[floats(3)])

# Experts of half precision, and weights of 8 bits in blocks, for which ONNX Runtime rounds what it multiplies to 8 bits: expected is
# what it gives for the same weights as real numbers.
seed("experts of other types")
halves = [floats(*s, dtype=np.float16) for s in ((5, 8), (5, 4), (4, 6, 8), (4, 6), (4, 8, 6), (4, 8))]
by_halves = evaluated([Node("MoE", list("abcdef"), ["y"], CONTRIB, k=2)], {n: x.astype(np.float32) for n, x in zip("abcdef", halves)}, {}, ("y",), 21, ((CONTRIB, 1),))
contrib("MoE", *halves, constants=range(2, 6), name="MoE of half precision", k=2, expected=[by_halves[0].astype(np.float16)])
for name, kind, block, zeros in (("half precision, 4 bits", np.float16, 0, False), ("8 bits in blocks", np.float32, 16, False), ("8 bits in blocks with zero points", np.float32, 16, True)):
    bits, depth = (8, 16) if block else (4, 12)
    codes = [bytes_of(3, depth, 32 * bits // 8), bytes_of(3, 32, depth * bits // 8)]
    parts = lambda d: (d // block,) if block else ()
    steps = [floats(3, depth, *parts(32), low=0.002, high=0.01, dtype=kind), floats(3, 32, *parts(depth), low=0.002, high=0.01, dtype=kind)]
    points = [bytes_of(3, depth, 2), bytes_of(3, 32, 1)] if zeros else [None, None]
    sides = [floats(3, depth, dtype=kind), floats(3, 32, dtype=kind)]
    rows = floats(4, 32, dtype=kind), floats(4, 3, dtype=kind)

    def real(k):
        whole = codes[k] if bits == 8 else np.stack([codes[k] & 15, codes[k] >> 4], -1).reshape(3, codes[k].shape[1], -1)
        each = lambda v: np.repeat(v.reshape(3, v.shape[1], -1).astype(np.float32), block or whole.shape[2], 2)
        return (whole - (np.float32(1 << (bits - 1)) if points[k] is None else each(points[k]))) * each(steps[k])

    whole = dict(zip("abcdef", (x.astype(np.float32) for x in (*rows, real(0), sides[0], real(1), sides[1]))))
    by_reals = evaluated([Node("MoE", list("abcdef"), ["y"], CONTRIB, k=2)], whole, {}, ("y",), 21, ((CONTRIB, 1),))
    given = [*rows, codes[0], steps[0], sides[0], codes[1], steps[1], sides[1]] + ([None, None, None, *points] if zeros else [])
    contrib("QMoE", *given, constants=[i for i in range(2, len(given)) if given[i] is not None], name=f"QMoE of {name}", k=2, expert_weight_bits=bits, **({"block_size": block} if block else {}),
            expected=[by_reals[0].astype(kind)])

# The standard clamps a start to the axis. The reference evaluator takes nothing, as Python does.
data = floats(3, 4)
for given, name in (((1, 2, 3, 4), ""), ((), " of run time")):
    one("Slice", data, i64(-9, -2), i64(-9, -9), i64(0, 1), i64(-2, -1), constants=given, name="Slice backward from in front of an axis" + name,
        expected=[data[:1, 2::-1]])
for start, step in ((-9, -1), (-5, -2)):
    table, given = ints(2, 3), ints(2, 1)
    runs(f"Slice of a table backward from {start} by {step}", [Node("Slice", ["t", "i", "e", "x", "s"], ["u"]), Node("Add", ["a", "u"], ["y"])], [("N", 1)],
         expected([given + table[:, :1]], given), constants={"t": table, "i": i64(start), "e": i64(-9), "x": i64(1), "s": i64(step)})
runs("Reshape to a negative size", Node("Reshape", ["a", "b"], ["y"]), [("N",), (2,)], (floats(6), i64(2, -1)), (floats(6), i64(-1, 6)), refused("T0501", floats(6), i64(3, -2)),
     refused("T0401", floats(6), i64(-3, -2)))
runs("DequantizeLinear by a zero point of the run", Node("DequantizeLinear", ["t", "s", "a"], ["y"], axis=-1), [(1,)], (np.array([3], np.uint8),), (np.array([200], np.uint8),),
     constants={"t": np.array([7], np.uint8), "s": f32(0.5)}, opset=21)
one("AveragePool", floats(1, 2, 2, 3), kernel_shape=[3, 2], dilations=[2, 2], strides=[2, 1], ceil_mode=1, name="AveragePool rounded up to no window",
    expected=[np.zeros((1, 2, 0, 1), np.float32)])

# Operator sets before 6, where operators have an attribute more that says nothing of values.
seed("old sets")
for op, given in (("Relu", (floats(2, 3),)), ("Add", (floats(2, 3), floats(2, 3))), ("Max", (floats(3), floats(3), floats(3)))):
    one(op, *given, opset=1, consumed_inputs=[0] * len(given), name=op + " of set 1", expected=[{"Relu": lambda x: np.maximum(x, 0), "Add": np.add, "Max": lambda *v: np.max(v, 0)}[op](*given)])
scale, bias, mean, spread = floats(3), floats(3), floats(3), floats(3, low=0.5)
normalised = floats(2, 3, 4)
over = lambda v: v.reshape(3, 1)
one("BatchNormalization", normalised, scale, bias, mean, spread, opset=5, is_test=1, consumed_inputs=[0, 0, 0, 1, 1], name="BatchNormalization of set 5",
    expected=[(normalised - over(mean)) / np.sqrt(over(spread) + np.float32(1e-5)) * over(scale) + over(bias)])
one("Cast", floats(2), opset=5, to="INT32", name="Cast of set 5", refused="T2008", expected=[f32(0)])
enlarged = Node("Upsample", ["a"], ["y"], mode="nearest", scales=[1.0, 1.0, 2.0, 1.5])
runs("Upsample by parts of a symbolic size", enlarged, [(1, 1, "H", "W")], *(expected([x[:, :, np.arange(2 * h) // 2][:, :, :, (np.arange(int(w * 1.5)) / 1.5).astype(int)]], x)
     for h, w in ((2, 4), (1, 5)) for x in [floats(1, 1, h, w)]), opset=7)
runs("Shape and Size of strings", [Node("Shape", ["a"], ["s"]), Node("Size", ["a"], ["y"]), Node("Concat", ["s", "one"], ["t"], axis=0), Node("Reshape", ["b", "t"], ["y1"])], [("N",), ("M",)],
     (texts("a", "", "c"), floats(3)), (texts("x"), floats(1)), results=2, constants={"one": i64(1)})
framed = Node("STFT", ["a", "step", "w", "b"], ["y"])
runs("STFT of frames whose length the run says", framed, [(1, "L", 1), ()], (floats(1, 8, 1), np.array(4)), refused("T0501", floats(1, 8, 1), np.array(3)), constants={"step": np.array(2), "w": floats(4)})
