# SPDX-License-Identifier: Apache-2.0
"""What the run alone knows: parameters, parts of sizes, ranks."""
import numpy as np

from sample_cases.by_onnxruntime import dynamic
from sample_cases.case import CONTRIB, expected, f32, floats, Graph, i64, Node, one, refused, runs, seed

# What operators of com.microsoft are given when the model runs.
seed("contrib at run time")
ours = ((CONTRIB, 1),)
weights = {"w": floats(8, 24), "bias": floats(24)}
masked = Node("Attention", ["a", "w", "bias", "b"], ["y"], CONTRIB, num_heads=2)
lengths = lambda *v: np.array(v, np.int32)
runs("Attention with lengths or ends, which the run tells", masked, [("N", "S", 8), ("M",)], (floats(2, 3, 8), lengths(3, 2)), (floats(2, 3, 8), lengths(3, 2, 1, 0)), (floats(1, 2, 8), lengths(2)),
     refused("T0501", floats(2, 3, 8), lengths(1, 2, 3)), constants=weights, opset=17, domains=ours)
for mode in ("bilinear", "nearest"):
    cropped = Node("CropAndResize", ["a", "b", "c", "d"], ["y"], CONTRIB, mode=mode, extrapolation_value=5.0)
    boxes = f32(0, 0, 1, 1, 0.2, 0.1, 0.7, 0.9, -0.5, -0.5, 1.5, 1.5).reshape(3, 4)
    runs(f"CropAndResize to a size at run time ({mode})", cropped, [("N", 2, "H", "W"), ("K", 4), ("K",), (2,)], (floats(2, 2, 4, 5), boxes, lengths(0, 1, 1), lengths(3, 2)),
         (floats(2, 2, 4, 5), boxes[:1], lengths(1), lengths(1, 1)), opset=17, domains=ours)
words = Node("WordConvEmbedding", ["a", "w", "v", "e"], ["y"], CONTRIB, embedding_size=8, conv_window_size=3, char_embedding_size=4)
runs("WordConvEmbedding of words of any length", words, [("S", "W")], (np.array([[1, 2, 3, 4, 0, 0], [5, 6, 0, 0, 0, 0]], np.int32),), (np.array([[1, 2, 3]], np.int32),),
     refused("T0501", np.array([[1, 2]], np.int32)), constants={"w": floats(8, 1, 3, 4), "v": floats(8), "e": floats(10, 4)}, opset=17, domains=ours)
cropping = Node("ConvTransposeWithDynamicPads", ["a", "w", "b", "v"], ["y"], CONTRIB, kernel_shape=[3, 2], strides=[2, 3], output_padding=[1, 2])
runs("ConvTransposeWithDynamicPads at run time", cropping, [(1, 2, "H", "W"), (4,)], *((floats(1, 2, 3, 4), i64(*p)) for p in ((1, 0, 0, 1), (0, 0, 0, 0), (2, 1, 3, 3))),
     refused("T0520", floats(1, 2, 3, 4), i64(-1, 0, 0, 0)), refused("T0501", floats(1, 2, 3, 4), i64(9, 0, 0, 0)), constants={"w": floats(2, 3, 3, 2), "v": f32(10, 20, 30)}, opset=17, domains=ours)

# Parts of a symbolic size and sums of sizes may be 1 beside a larger one, too.
seed("parts")
parts, line = Node("Split", ["a"], ["p", "q", "r"], axis=0, num_outputs=3), floats
for node in (Node("Sub", ["p", "r"], ["y"]), Node("Sub", ["r", "p"], ["y"]), Node("Max", ["r", "p", "q"], ["y"])):
    runs(f"{node.op} of parts {', '.join(node.inputs)}", [parts, node], [("N",)], *((line(n),) for n in (3, 5, 6, 9)), refused("T0501", line(8)), refused("T0501", line(4)))
runs("Where of parts", [parts, Node("Less", ["p", "r"], ["l"]), Node("Where", ["l", "q", "r"], ["y"])], [("N",)], *((line(n),) for n in (3, 5, 6)), refused("T0501", line(8)))
runs("MatMul of parts", [parts, Node("MatMul", ["r", "p"], ["y"])], [("N", 2, 2)], *((floats(n, 2, 2),) for n in (3, 5, 6)), refused("T0501", floats(8, 2, 2)))
runs("PRelu of parts", [parts, Node("PRelu", ["p", "r"], ["y"])], [("N",)], (line(5),), (line(9),), refused("T0501", line(8)))
runs("Add of every second element", [Node("Slice", ["a", "i", "j", "i", "k"], ["s"]), Node("Add", ["s", "b"], ["y"])], [("N",), (3,)],
     *((line(n), line(3)) for n in (1, 2, 5, 6)), refused("T0501", line(4), line(3)), constants={"i": i64(0), "j": i64(2 ** 62), "k": i64(2)})
runs("Mul of sums of sizes", [Node("Concat", ["a", "b"], ["s"], axis=0), Node("Concat", ["a", "c"], ["t"], axis=0), Node("Mul", ["s", "t"], ["y"])], [("N",), ("M",), ("K",)],
     *((line(n), line(m), line(k)) for n, m, k in ((1, 0, 4), (1, 4, 0), (2, 3, 3), (0, 1, 5), (0, 0, 1))), refused("T0501", line(2), line(1), line(2)))

# The function of the standard, computed by its rules: a range that is infinite makes a scale that is, and a zero point of NaN, which is 0.
runs("DynamicQuantizeLinear of infinities and NaN", dynamic, [("N",)],
     *(expected([np.zeros(len(x), np.uint8), np.float32(scale), np.uint8(0)], x) for scale, values in (
         (np.inf, (np.inf, 1, 2)), (np.inf, (-np.inf, 1, 2)), (np.inf, (np.inf, -np.inf, 1)), (np.nan, (np.nan, 1, 2)), (np.nan, (-np.inf, np.nan)))
       for x in [f32(*values)]), results=3)

# A rank that only the run knows: only one branch gives a matrix.
for domain in ("", CONTRIB):
    either = Node("If", ["a"], ["m"], then_branch=Graph([Node("ReduceSum", ["b", "k"], ["t"], keepdims=0)], [], [("t", floats(3))], {"k": i64(0)}),
                  else_branch=Graph([Node("Neg", ["b"], ["e"])], [], [("e", floats(2, 3))]))
    runs(f"Trilu of a rank at run time{', com.microsoft' if domain else ''}", [either, Node("Trilu", ["m"], ["y"], domain)], [(), (2, "N")],
         (np.array(False), floats(2, 3)), refused("T0520", np.array(True), floats(2, 3)), domains=((domain, 1),) if domain else (), opset=18)

# Sums of more elements than one expression holds, along one of the axes; the others keep what they have.
one("Resize", floats(1, 2, 3, 40), None, f32(1, 1, 1, 0.15), mode="cubic", antialias=1, constants=(2,), name="Resize without aliasing, of many elements")
one("Resize", floats(1, 2, 9, 8), None, f32(1, 1, 0.5, 0.25), mode="cubic", antialias=1, constants=(2,), name="Resize without aliasing, cubic")
