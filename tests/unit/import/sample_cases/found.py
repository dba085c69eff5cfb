# SPDX-License-Identifier: Apache-2.0
"""What random models found."""
import numpy as np
from onnx import TensorProto

from sample_cases.case import by_onnxruntime, CONTRIB, contrib, distinct, expected, f32, floats, i64, ints, Node, one, refused, runs, seed, texts
from sample_cases.learned import features, stump
from sample_cases.microsoft import ML, words

# What random models found.
seed("found by random models")
node = Node("MaxRoiPool", ["a", "b"], ["y"], pooled_shape=[2, 2], spatial_scale=0.5)
data = floats(1, 1, 4, 4)  # corners at 0.5, 1.5 and 2.5 belong to the next element
runs("MaxRoiPool between two elements", node, [("N", 1, 4, 4), ("K", 5)],
     expected([np.stack([data[0, :, :2, :2], np.stack([data[0, :, 1:3, 2:].max(1), data[0, :, 3, 2:]], 1)])], data, f32(0, 0, 0, 1, 1, 0, 3, 1, 5, 7).reshape(2, 5)))
for op, t, end in (("ReduceMin", np.int64, 2**63 - 1), ("ReduceMax", np.int64, -2**63), ("ReduceMin", np.uint64, 2**64 - 1), ("ReduceMax", np.int8, -128)):
    one(op, np.zeros((2, 0), t), i64(1), constants=(1,), keepdims=0, name=f"{op} of nothing, {np.dtype(t).name}", expected=[np.full(2, end, t)])
node = Node("LayerNormalization", ["a", "b", "c"], ["y"])
runs("LayerNormalization of a bias that does not fit", node, [(2, "N"), ("M",), ("K",)], (floats(2, 3), floats(3), floats(3)), (floats(2, 3), floats(1), floats(3)),
     refused("T0501", floats(2, 1), floats(1), floats(3)), refused("T0501", floats(2, 3), floats(3), floats(2)))
for side in ("SAME_UPPER", "SAME_LOWER"):
    node = Node("MaxPool", ["a"], ["y", "y1"], kernel_shape=[3, 2], strides=[2, 3], auto_pad=side)
    runs(f"MaxPool with positions, {side} of symbolic sizes", node, [("N", 2, "H", "W")], *(by_onnxruntime(node, distinct(*s), results=2) for s in ((1, 2, 5, 6), (2, 2, 4, 5), (1, 2, 1, 1))), results=2)
node = Node("MaxPool", ["a"], ["y", "y1"], kernel_shape=[2, 2], strides=[2, 2], auto_pad="SAME_LOWER")
runs("MaxPool of bytes with positions in padding", node, [(1, 1, "H", "W")], by_onnxruntime(node, np.zeros((1, 1, 3, 3), np.uint8), results=2), results=2)
skip = Node("SkipLayerNormalization", ["a", "b", "c"], ["y"], CONTRIB)
runs("SkipLayerNormalization of vectors that do not fit", skip, [("N", 2, "M"), ("K", 2, "M"), ("L",)], by_onnxruntime(skip, floats(2, 2, 3), floats(2, 2, 3), floats(3), domains=((CONTRIB, 1),)),
     refused("T0501", floats(2, 2, 3), floats(2, 2, 3), floats(2)), refused("T0501", floats(1, 2, 3), floats(2, 2, 3), floats(3)), opset=21, domains=((CONTRIB, 1),))
contrib("FastGelu", floats(2, 3), floats(1), refused="T2020", expected=[f32(0)], constants=(1,), name="FastGelu of a bias that does not fit")
contrib("Pad", floats(2, 3), i64(1, 0, 0, 2), name="Pad of com.microsoft at run time")
contrib("EmbedLayerNormalization", words, ints(2, 3, low=0, high=2, dtype=np.int32), floats(7, 4), floats(5, 4), floats(2, 4), floats(4), floats(4), constants=(2, 3, 4, 5, 6), results=2,
        name="EmbedLayerNormalization without a mask")
embed, held = Node("EmbedLayerNormalization", ["a", "", "w", "p", "", "g", "s"], ["y", "y1"], CONTRIB), dict(w=floats(7, 4), p=floats(5, 4), g=floats(4), s=floats(4))
runs("EmbedLayerNormalization of any length", embed, [("N", "M")], *(by_onnxruntime(embed, ints(*s, low=0, high=7, dtype=np.int32), constants=held, results=2, domains=((CONTRIB, 1),)) for s in ((2, 3), (1, 5))),
     refused("T0509", ints(1, 6, low=0, high=7, dtype=np.int32)), constants=held, results=2, opset=21, domains=((CONTRIB, 1),))
attend = Node("Attention", ["a", "b", "b", "c"], ["y"])
runs("Attention of a query that sees nothing", attend, [(1, 1, "L", 4), (1, 1, "K", 4), ("L", "K")],
     (floats(1, 1, 2, 4), floats(1, 1, 3, 4), np.array([[True, False, True], [False, False, False]])), opset=24)
runs("Attention of batches that do not fit", Node("Attention", ["a", "a", "b"], ["y"]), [("N", 1, 2, 4), ("M", 1, 2, 4)], (floats(2, 1, 2, 4), floats(2, 1, 2, 4)),
     refused("T0501", floats(1, 1, 2, 4), floats(2, 1, 2, 4)))
attend = Node("Attention", ["a", "b", "b"], ["y"], is_causal=1)
runs("Attention, causal, of any lengths", attend, [(1, 1, "L", 4), (1, 1, "K", 4)], *((floats(1, 1, n, 4), floats(1, 1, m, 4)) for n, m in ((3, 3), (2, 4), (4, 2), (1, 1))))
shrinking = Node("Resize", ["a", "", "s"], ["y"])
runs("Resize to nothing", shrinking, [(2, 1)], by_onnxruntime(shrinking, floats(2, 1), constants={"s": f32(1, 0.5)}), constants={"s": f32(1, 0.5)})
for ids in (0, 1):
    for name, leaves in (("that are positive", [0.25, 0.75]), ("of both signs", [0.5, -0.25])):
        for transform in ("NONE", "LOGISTIC"):
            node = Node("TreeEnsembleClassifier", ["a"], ["y", "y1"], domain=ML, **stump, class_ids=[ids, ids], class_weights=leaves, classlabels_int64s=[4, 5], post_transform=transform)
            runs(f"TreeEnsembleClassifier of class {ids} with weights {name}, {transform}", node, [("N", 2)], by_onnxruntime(node, features, results=2, domains=((ML, 3),)), results=2, domains=((ML, 3),))
pairs = Node("CDist", ["a", "b"], ["y"], CONTRIB)
runs("CDist of rows of any length", pairs, [("N", "K"), ("M", "L")], by_onnxruntime(pairs, floats(2, 3), floats(4, 3), domains=((CONTRIB, 1),)), refused("T0501", floats(2, 3), floats(4, 1)), opset=21,
     domains=((CONTRIB, 1),))
simple = Node("SimplifiedLayerNormalization", ["a", "b"], ["y"], axis=-1, epsilon=0.01)
runs("SimplifiedLayerNormalization by one scale", simple, [(2, 3), ("K",)], by_onnxruntime(simple, floats(2, 3), floats(3), domains=((CONTRIB, 1),)), by_onnxruntime(simple, floats(2, 3), floats(1), domains=((CONTRIB, 1),)),
     refused("T0501", floats(2, 3), floats(2)), opset=13, domains=((CONTRIB, 1),))
turn = Node("RotaryEmbedding", ["a", "b", "b", "c"], ["y"])
runs("RotaryEmbedding at positions that do not fit", turn, [(1, 2, "S", 4), (5, 2), (1, "P")], (floats(1, 2, 3, 4), floats(5, 2), i64(0, 1, 4).reshape(1, 3)),
     refused("T0501", floats(1, 2, 3, 4), floats(5, 2), i64(1).reshape(1, 1)))
runs("MaxUnpool at positions outside", Node("MaxUnpool", ["a", "b"], ["y"], kernel_shape=[2], strides=[2]), [(1, 1, "W"), (1, 1, "W")], (floats(1, 1, 2), i64(1, 3).reshape(1, 1, 2)),
     refused("T0509", floats(1, 1, 2), i64(1, 4).reshape(1, 1, 2)), refused("T0509", floats(1, 1, 2), i64(-1, 3).reshape(1, 1, 2)))
one("Cast", ints(2, 3), to=TensorProto.STRING, name="Cast of integers to texts")
one("Cast", f32(0.5, -2, 1e-9, 12345678, 1e20, np.inf, np.nan), to=TensorProto.STRING, name="Cast of floats to texts",
    expected=[texts("0.5", "-2", "9.9999997e-10", "12345678", "1e+20", "INF", "NaN")])
one("Cast", texts("1.5", "-2e3", "+7", "inf", "NaN"), to=TensorProto.FLOAT, name="Cast of texts to floats", expected=[f32(1.5, -2000, 7, np.inf, np.nan)])
one("Cast", texts("12", "-3", " 7.9 "), to=TensorProto.INT32, name="Cast of texts to integers", expected=[np.array([12, -3, 7], np.int32)])
one("CastLike", ints(3), texts("a"), name="CastLike of texts", expected=None)
runs("Cast of a text that is no number", Node("Cast", ["a"], ["y"], to=TensorProto.INT64), [("N",)], (texts("1", "2"),), refused("T0521", texts("1", "x")))
for side in ("border", "reflection", "zeros"):
    node = Node("GridSample", ["a", "b"], ["y"], mode="cubic", padding_mode=side)
    runs(f"GridSample beyond the image, cubic ({side})", node, [("N", 1, "H", "W"), ("N", 2, 3, 2)], by_onnxruntime(node, floats(2, 1, 3, 4), floats(2, 2, 3, 2, low=-1.4, high=1.4)),
         refused("T0501", floats(1, 1, 0, 4), floats(1, 2, 3, 2)))
runs("Add of positions cut from a table", [Node("Shape", ["a"], ["n"], start=1, end=2), Node("Slice", ["c", "zero", "n", "one"], ["p"]), Node("Add", ["a", "p"], ["y"])], [("B", "L")],
     (floats(2, 5),), (floats(3, 1),), (floats(1, 6),), (floats(2, 0),), refused("T0501", floats(1, 7)), constants={"c": floats(1, 6), "zero": i64(0), "one": i64(1)})
# Sizes that follow from others: padding to the next multiple, and a size said in other words.
padded = [Node("Shape", ["a"], ["n"], start=1, end=2), Node("Mod", ["n", "four"], ["m"]), Node("Sub", ["four", "m"], ["d"]), Node("Mod", ["d", "four"], ["w"]),
          Node("Concat", ["zero", "zero", "zero", "w"], ["pads"], axis=0), Node("Pad", ["a", "pads", "half"], ["p"]), Node("Reshape", ["p", "to"], ["y"])]
runs("Pad to the next multiple", padded, [("B", "L")], (floats(2, 5),), (floats(1, 8),), (floats(3, 1),), constants={"four": i64(4), "zero": i64(0), "half": np.array(0.5, np.float32), "to": i64(0, -1, 4)})
halves = [Node("Conv", ["a", "k"], ["c"], kernel_shape=[2], strides=[2], pads=[0, 1]), Node("Shape", ["a"], ["n"], start=2, end=3), Node("Sub", ["n", "one"], ["m"]), Node("Div", ["m", "two"], ["h"]),
          Node("Add", ["h", "one"], ["e"]), Node("Concat", ["one", "one", "one", "e"], ["s"], axis=0), Node("Reshape", ["c", "s"], ["y"])]
runs("Reshape to a size in other words", halves, [(1, 1, "L")], (floats(1, 1, 5),), (floats(1, 1, 6),), (floats(1, 1, 1),), refused("T0501", floats(1, 1, 0)),
     constants={"k": floats(1, 1, 2), "one": i64(1), "two": i64(2)})
towards_zero = [Node("Shape", ["a"], ["n"]), Node("Sub", ["n", "five"], ["m"]), Node("Div", ["m", "three"], ["y"])]
runs("Div of sizes rounds towards zero", towards_zero, [("L",)], (floats(0),), (floats(1),), (floats(2),), (floats(4),), (floats(9),), constants={"five": i64(5), "three": i64(3)})
runs("Expand of a constant to a symbolic size", [Node("Shape", ["a"], ["s"]), Node("Expand", ["c", "s"], ["y"])], [("L",)], (floats(5),), (floats(1),), refused("T0501", floats(3)),
     constants={"c": floats(5)})
step = [Node("Shape", ["a"], ["s"]), Node("Expand", ["b", "s"], ["y"])]
runs("Expand to a symbolic size", step, [("L",), (5,)], (floats(5), floats(5)), (floats(1), floats(5)), refused("T0501", floats(3), floats(5)))
runs("Expand to a sum of sizes", [Node("Concat", ["a", "a"], ["d"], axis=0), Node("Shape", ["d"], ["s"]), Node("Expand", ["b", "s"], ["y"])], [("L",), (4,)], (floats(2), floats(4)),
     refused("T0501", floats(3), floats(4)))
runs("MaxPool of the least bytes beside padding", Node("MaxPool", ["a"], ["y", "y1"], kernel_shape=[1, 2], pads=[0, 0, 0, 1], storage_order=1), [(1, 1, "H", "W")],
     by_onnxruntime(Node("MaxPool", ["a"], ["y", "y1"], kernel_shape=[1, 2], pads=[0, 0, 0, 1], storage_order=1), np.zeros((1, 1, 3, 2), np.uint8), results=2), results=2)
one("Flatten", i64(9, 1, -1), constants=(0,), axis=-1, name="Flatten of a constant vector from the end")
# Known values are computed when a model is imported.
huge = np.array([2**64 - 1, 3, 2**63], np.uint64)
one("Greater", huge, np.array([3], np.uint64), constants=(0, 1), name="Greater of known numbers from 2^63 on")
one("Abs", huge, constants=(0,), name="Abs of known numbers from 2^63 on")
one("Cast", huge, constants=(0,), to=TensorProto.DOUBLE, name="Cast of known numbers from 2^63 on")
one("Cast", f32(300, -300, np.nan, 1.5), constants=(0,), to=TensorProto.INT8, name="Cast of known floats beyond bytes", expected=[np.array([127, -128, 0, 1], np.int8)])
one("Cast", f32(300, -300, np.nan, 1.5), to=TensorProto.INT8, name="Cast of floats beyond bytes", expected=[np.array([127, -128, 0, 1], np.int8)])
one("Mod", i64(1), i64(2, 2**63 - 1), constants=(0, 1), name="Mod of known numbers by a large one")
one("Range", i64(0).reshape(()), i64(10).reshape(()), i64(2**63 - 1).reshape(()), constants=(0, 1, 2), name="Range by a large step")
one("Transpose", floats(3), constants=(0,), perm=[1], name="Transpose of a known vector by a second axis", refused="T2020", expected=[f32(0)])
one("Split", floats(3), constants=(0,), axis=1, num_outputs=1, name="Split of a known vector along a second axis", refused="T2020", expected=[f32(0)])
one("ReduceMax", i64(3, 4), i64(1), constants=(0, 1), name="ReduceMax of a known vector along a second axis", refused="T2020", expected=[f32(0)])
one("ReduceMin", np.array(True), name="ReduceMin of one truth value", expected=[np.array(True)])
# Operands that have to fit, and are not stretched.
def misfit(name, node, sizes, fits, *others, code="T0501", **keywords):
    runs(name, node, sizes, fits, *(refused(code, *o) for o in others), **keywords)


misfit("OneHot of three values", Node("OneHot", ["a", "d", "b"], ["y"]), [(2,), ("N",)], (i64(0, 2), floats(2)), (i64(0, 2), floats(3)), constants={"d": np.array(3)})
misfit("TensorScatter of rows that do not fit", Node("TensorScatter", ["a", "b"], ["y"], axis=1), [(2, 4, 3), ("N", 2, "M")], (floats(2, 4, 3), floats(2, 2, 3)),
       (floats(2, 4, 3), floats(3, 2, 3)), (floats(2, 4, 3), floats(2, 2, 4)))
deformed = Node("DeformConv", ["a", "w", "b", "", "c"], ["y"])
misfit("DeformConv of batches that do not fit", deformed, [("N", 1, 3, 3), ("M", 8, 2, 2), ("K", 4, 2, 2)], (floats(2, 1, 3, 3), floats(2, 8, 2, 2), floats(2, 4, 2, 2)),
       (floats(1, 1, 3, 3), floats(2, 8, 2, 2), floats(2, 4, 2, 2)), (floats(2, 1, 3, 3), floats(2, 8, 2, 2), floats(1, 4, 2, 2)), constants={"w": floats(1, 1, 2, 2)}, code="T0505")
linear = Node("LinearAttention", ["a", "b", "c"], ["y", "y1"], q_num_heads=2, kv_num_heads=2, update_rule="linear")
misfit("LinearAttention of values that do not fit", linear, [(1, "L", 6), (1, "L", 6), (1, "M", 6)], (floats(1, 4, 6), floats(1, 4, 6), floats(1, 4, 6)),
       (floats(1, 4, 6), floats(1, 4, 6), floats(1, 1, 6)), results=2, opset=27)
fused = Node("FusedConv", ["a", "w", "", "b"], ["y"], CONTRIB, activation="Relu")
misfit("FusedConv of a sum that does not fit", fused, [("N", 2, 4), ("N", 2, "M")], (floats(1, 2, 4), floats(1, 2, 3)), (floats(1, 2, 4), floats(1, 2, 1)), constants={"w": floats(2, 2, 2)},
       domains=((CONTRIB, 1),), opset=21)
for op in ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"):
    misfit(f"{op} of a step that does not fit", Node(op, ["a", "b", "w"], ["y"], CONTRIB), [(2, 3, 4), ("N", "L", 4)], (floats(2, 3, 4), floats(2, 3, 4)),
           (floats(2, 3, 4), floats(2, 1, 4)), constants={"w": floats(4)}, domains=((CONTRIB, 1),), opset=21)
embed = Node("EmbedLayerNormalization", ["a", "b", "w", "p", "t", "g", "s", "c"], ["y", "y1"], CONTRIB)
ids = [ints(2, 3, low=0, high=2, dtype=np.int32) for _ in range(3)]
misfit("EmbedLayerNormalization of segments that do not fit", embed, [(2, 3), ("N", 3), ("M", 3)], (*ids,), (ids[0], ids[1][:1], ids[2]), (ids[0], ids[1], ids[2][:1]), results=2,
       constants={"w": floats(7, 4), "p": floats(5, 4), "t": floats(2, 4), "g": floats(4), "s": floats(4)}, domains=((CONTRIB, 1),), opset=21)
repeats = Node("NGramRepeatBlock", ["a", "b"], ["y"], CONTRIB, ngram_size=2)
misfit("NGramRepeatBlock of a batch that does not fit", repeats, [("N", 4), ("M", 3)], (ints(2, 4, low=0, high=2), floats(2, 3)), (ints(1, 4, low=0, high=2), floats(2, 3)), domains=((CONTRIB, 1),), opset=21)
vectors = Node("FeatureVectorizer", ["a", "b"], ["y"], ML, inputdimensions=[2, 2])
runs("FeatureVectorizer of other widths", vectors, [(2, "N"), (2, "M")], *(by_onnxruntime(vectors, floats(2, n), floats(2, m), domains=((ML, 3),)) for n, m in ((2, 2), (1, 3))), domains=((ML, 3),), opset=21)
one("DequantizeLinear", np.array([[-2, 0, 2, -1, 5]], np.int8), f32(0.75), np.array([-4, 5, -3, 4, 2], np.int8), axis=-1, name="DequantizeLinear by one scale and five zero points", refused="T2020", expected=[f32(0)])
one("MatMulInteger", np.array([[1, -1, -3]], np.int8), np.array([[-3], [5], [3]], np.int8), np.array(5, np.int8), np.array([4, -3], np.int8), name="MatMulInteger with more zero points than columns", refused="T2020",
    expected=[f32(0)])
points = Node("MatMulInteger", ["a", "b", "c", "d"], ["y"])
runs("MatMulInteger with a zero point for each column", points, [(1, 3), (3, "N"), (), ("P",)], by_onnxruntime(points, np.array([[1, -1, -3]], np.int8), np.array([[-3, 2], [5, 1], [3, 0]], np.int8), np.array(5, np.int8), np.array([4, -3], np.int8)),
     refused("T0501", np.array([[1, -1, -3]], np.int8), np.array([[-3], [5], [3]], np.int8), np.array(5, np.int8), np.array([4, -3], np.int8)))

# Axes of nothing: no element, or those that are put beside them.
empty = floats(0, 3)
runs("CenterCropPad of a symbolic size that may be 0", Node("CenterCropPad", ["a", "s"], ["y"]), [("N", "M")], (floats(2, 5),), (empty,), (floats(3, 0),), constants={"s": i64(4, 2)})
one("CenterCropPad", empty, i64(4, 2), constants=(1,), name="CenterCropPad of nothing")
runs("Pad of nothing by widths that the run knows", Node("Pad", ["a", "b", "v"], ["y"]), [("N", 3), (4,)], (floats(2, 3), i64(1, 0, 2, 0)), (empty, i64(1, 0, 2, 0)), (empty, i64(0, 1, 0, 0)),
     constants={"v": np.array(0.5, np.float32)})
runs("Pad of nothing that gives nothing", Node("Pad", ["a", "p"], ["y"], mode="edge"), [("N", "M")], (floats(2, 0),), refused("T0501", floats(0, 0)), constants={"p": i64(1, 0, 2, 0)})
largest = Node("Hardmax", ["a"], ["y"])
runs("Hardmax of a symbolic axis that may be 0", largest, [("N", "M")], (floats(2, 3),), (f32(-np.inf, -np.inf).reshape(1, 2),), expected([floats(2, 0)], floats(2, 0)), expected([empty], empty))
one("Hardmax", floats(2, 0), name="Hardmax of nothing", expected=[floats(2, 0)])
backward = Node("Slice", ["a", "b", "e", "x", "s"], ["y"])
runs("Slice backward through an axis that may be 0", backward, [("N", 3)], (floats(5, 3),), (floats(1, 3),), (empty,), constants={"b": i64(2**63 - 1), "e": i64(-2), "x": i64(0), "s": i64(-2)})
one("Resize", floats(1, 1, 5, 2), None, f32(1, 1, 0.5, 0.5), constants=(2,), mode="linear", coordinate_transformation_mode="align_corners", name="Resize of aligned corners to one column")
# Its middle stays: elements 1 and 3 of five are exactly those that floor takes.
row = np.arange(5, dtype=np.float32).reshape(1, 1, 1, 5)
for form, constants in (("", (2,)), (" by scales at run time", ())):
    one("Resize", row, None, f32(1, 1, 1, 0.5), constants=constants, mode="nearest", coordinate_transformation_mode="half_pixel_symmetric", nearest_mode="floor",
        expected=[row[..., [1, 3]]], name=f"Resize that keeps the middle{form}")
zeros = [Node("Shape", ["a"], ["n"], start=1, end=2), Node("Concat", ["copied", "one", "n", "four"], ["s"], axis=0), Node("Reshape", ["a", "s"], ["y"])]
runs("Reshape that copies sizes which the run finds to be 0", zeros, [("N", "N", 4)], (floats(3, 3, 4),), (floats(0, 0, 4),), constants={"copied": i64(0), "one": i64(1), "four": i64(4)})
data = floats(3, 2)
one("Compress", data, np.array([1, 0, 1, 1, 0], bool), axis=0, name="Compress by more conditions than rows", expected=[data[[0, 2]]])
runs("Compress by more conditions than a symbolic size", Node("Compress", ["a", "c"], ["y"]), [("N", 2)],
     *({"arrays": (a,), "expected": [a.reshape(-1)[[k for k in (0, 2, 3, 6) if k < a.size]]]} for a in (floats(n, 2) for n in (1, 3, 4))),
     constants={"c": np.array([1, 0, 1, 1, 0, 0, 1], bool)})
# Windows of any size, and more rows than the image has.
for op in ("AveragePool", "MaxPool", "LpPool"):
    node = Node(op, ["a"], ["y"], kernel_shape=[2, 1])
    runs(f"{op} of windows that may not fit", node, [(1, 1, "H", 4)], (floats(1, 1, 3, 4),), expected([floats(1, 1, 0, 4)], floats(1, 1, 1, 4)), refused("T0501", floats(1, 1, 0, 4)))
bytes_of_images = [np.arange(2 * h * w, dtype=np.uint8).reshape(1, 2, h, w) for h, w in ((1, 5), (6, 3))]
rows = Node("ConvInteger", ["a", "w"], ["y"], pads=[1, 0, 0, 0])
runs("ConvInteger of as few rows as there may be", rows, [(1, 2, "H", "W")], *((x,) for x in bytes_of_images), constants={"w": ints(1, 2, 2, 1, dtype=np.int8)})
for op, side, strides in (("Conv", "SAME_UPPER", [2, 2]), ("Conv", "SAME_LOWER", [1, 1]), ("ConvInteger", "SAME_LOWER", [1, 1]), ("ConvInteger", "SAME_UPPER", [1, 3])):
    node = Node(op, ["a", "b"], ["y"], auto_pad=side, strides=strides)
    given = [(floats(1, 1, 5, 6), floats(2, 1, h, w)) if op == "Conv" else (ints(1, 1, 5, 6, low=0, dtype=np.uint8), ints(2, 1, h, w, dtype=np.int8)) for h, w in ((3, 2), (1, 1), (2, 4))]
    runs(f"{op} with auto_pad {side} in steps of {strides[1]} and a weight of a shape at run time", node, [(1, 1, "H", "W"), (2, 1, "K", "L")], *(by_onnxruntime(node, *g) for g in given))
# Attention.
across = Node("MultiHeadAttention", ["a", "b", "c"], ["y"], CONTRIB, num_heads=2, unidirectional=1)
runs("MultiHeadAttention that is causal across sequences", across, [(1, "L", 4), (1, "K", 4), (1, "K", 4)], *((floats(1, steps, 4), floats(1, keys, 4), floats(1, keys, 4)) for steps, keys in ((3, 3), (2, 5), (1, 2), (4, 2))),
     domains=((CONTRIB, 1),), opset=21)
biased = Node("MultiHeadAttention", ["a", "b", "c", "", "", "d"], ["y"], CONTRIB, num_heads=2)
misfit("MultiHeadAttention with a bias of another batch", biased, [("N", 2, 4), ("N", 3, 4), ("N", 3, 4), ("M", 2, 2, 3)], (floats(1, 2, 4), floats(1, 3, 4), floats(1, 3, 4), floats(1, 2, 2, 3)),
       (floats(1, 2, 4), floats(1, 3, 4), floats(1, 3, 4), floats(2, 2, 2, 3)), domains=((CONTRIB, 1),), opset=21)
misfit("MultiHeadAttention with a bias of other keys", biased, [(1, "L", 4), (1, "K", 4), (1, "K", 4), (1, 1, "M", "P")], (floats(1, 2, 4), floats(1, 3, 4), floats(1, 3, 4), floats(1, 1, 2, 3)),
       (floats(1, 2, 4), floats(1, 3, 4), floats(1, 3, 4), floats(1, 1, 2, 1)), (floats(1, 2, 4), floats(1, 3, 4), floats(1, 3, 4), floats(1, 1, 1, 3)), domains=((CONTRIB, 1),), opset=21)
# What is longer than what it goes into.
misfit("TensorScatter of more rows than the cache has", Node("TensorScatter", ["a", "b"], ["y"], axis=1), [(2, "S", 3), (2, "K", 3)], (floats(2, 4, 3), floats(2, 4, 3)), (floats(2, 4, 3), floats(2, 5, 3)))
framed = Node("STFT", ["a", "step", "w"], ["y"])
misfit("STFT of fewer elements than a frame", framed, [(1, "L", 1)], (floats(1, 8, 1),), (floats(1, 3, 1),), constants={"step": np.array(2), "w": floats(4)})
misfit("STFT of fewer elements than a frame, in steps that the run knows", Node("STFT", ["a", "b", "w"], ["y"]), [(1, "L", 1), ()], (floats(1, 8, 1), np.array(2)), (floats(1, 3, 1), np.array(2)),
       constants={"w": floats(4)})
# Positions as floats, up to a size and back: x[i] + i·step.
for name, limits, step in (("up to a size", ("o", "n"), 1), ("from a size to its negative", ("n", "m"), -1), ("by halves up to a size", ("o", "n"), 0.5)):
    runs(f"Range of floats {name}", [Node("Shape", ["a"], ["s"]), Node("Squeeze", ["s"], ["d"]), Node("Cast", ["d"], ["n"], to=TensorProto.FLOAT), Node("Neg", ["n"], ["m"]), Node("Range", [*limits, "i"], ["y"])],
         [("N",)], (floats(5),), (floats(1),), (floats(0),), constants=[("o", np.array(0, np.float32)), ("i", np.array(step, np.float32))])
one("Clip", floats(2, 3), np.array(0, np.int32), constants=(1,), name="Clip by a bound of another type", refused="T2020", expected=[f32(0)])
one("Clip", floats(2, 3), None, np.array(1.0), name="Clip by a bound of another type that the run gives", refused="T2020", expected=[f32(0)])
one("QuantizeLinear", floats(2, 3), f32(0.5).reshape(()), np.array(3, np.uint8), constants=(1, 2), output_dtype=TensorProto.INT8, name="QuantizeLinear to another type than its zero point's", refused="T2020",
    expected=[f32(0)])
