# SPDX-License-Identifier: Apache-2.0
"""Forms for which ONNX Runtime is the authority."""
import numpy as np

from sample_cases.case import by_onnxruntime, expected, f32, floats, i64, LATEST, line_of, Node, one, refused, runs, seed, texts
from sample_cases.learned import bytes_of, features, several
from sample_cases.microsoft import ML

# Where ONNX Runtime is the authority.
seed("by ONNX Runtime")

# Negative widths crop, and what is left is padded.
for mode in ("reflect", "edge", "wrap"):
    pad = Node("Pad", ["a", "b"], ["y"], mode=mode)
    for widths in (i64(-2, 2), i64(2, -1), i64(-1, -2)):
        at = " ".join(map(str, widths))
        fixed = Node("Pad", ["a", "pads"], ["y"], mode=mode)
        given = [by_onnxruntime(fixed, line_of(n), constants={"pads": widths}) for n in (5, 6)]
        runs(f"Pad by {at} ({mode})", fixed, [("N",)], *given, *([refused("T0501", line_of(-min(widths)))] if max(widths) > 0 else []), constants={"pads": widths})
    given = [by_onnxruntime(pad, line_of(5), i64(*widths)) for widths in ((-2, 2), (2, -1), (-1, -2), (1, 1))]
    runs(f"Pad at run time that crops ({mode})", pad, [("N",), (2,)], *given, refused("T0520", line_of(3), i64(-3, 1)))
# Windows that begin at every stride of an axis whose size is symbolic.
weight, spans = floats(2, 3, 3, 3), ((5, 6), (1, 2), (7, 4), (8, 3))
for side in ("SAME_UPPER", "SAME_LOWER"):
    for name, node, channels in (
            ("Conv", Node("Conv", ["a", "w"], ["y"], auto_pad=side, strides=[2, 3]), 3),
            ("MaxPool", Node("MaxPool", ["a"], ["y"], auto_pad=side, kernel_shape=[3, 2], strides=[2, 2]), 2),
            ("AveragePool", Node("AveragePool", ["a"], ["y"], auto_pad=side, kernel_shape=[3, 2], strides=[2, 2]), 2),
            ("AveragePool that counts all", Node("AveragePool", ["a"], ["y"], auto_pad=side, kernel_shape=[3, 2], strides=[2, 2], count_include_pad=1), 2),
            ("LpPool", Node("LpPool", ["a"], ["y"], auto_pad=side, kernel_shape=[3, 2], strides=[2, 2]), 2)):
        held = {"w": weight} if node.op == "Conv" else {}
        runs(f"{name}, {side} of symbolic sizes", node, [(1, channels, "H", "W")], *(by_onnxruntime(node, floats(1, channels, *s), constants=held) for s in spans), constants=held)
# Windows apart, for which ONNX Runtime computes negative pads: with at most one element of padding in front.
apart = Node("MaxPool", ["a"], ["y"], auto_pad="SAME_UPPER", kernel_shape=[2], strides=[3])
runs("MaxPool of windows apart, of a symbolic size", apart, [(1, 1, "W")],
     *(expected([np.array([[[max(x[0, 0, i:i + 2]) for i in range(0, n, 3)]]])], x) for n in (5, 6, 7, 1) for x in [floats(1, 1, n)]))
dynamic = Node("DynamicQuantizeLinear", ["a"], ["y", "y1", "y2"])
runs("DynamicQuantizeLinear of nothing and of zeros", dynamic, [("N",)], *(by_onnxruntime(dynamic, x, results=3) for x in (floats(5), f32(), f32(0, 0))), results=3)
one("DequantizeLinear", bytes_of(2, 1, 3), f32(1, 2, 3, 4), axis=1, name="DequantizeLinear of more scales than elements", refused="T2020", expected=[f32(0)])
one("QLinearMatMul", bytes_of(1, 3), f32(1, 2), np.array([0, 0], np.uint8), bytes_of(3, 2), np.array(1, np.float32), np.array(0, np.uint8), np.array(1, np.float32), np.array(0, np.uint8),
    name="QLinearMatMul of more scales than rows", refused="T2020", expected=[f32(0)])
# A size of 0 that a symbol has copies the dimension, as one that is written does.
swapped = [Node("Shape", ["a"], ["s"], start=1), Node("Concat", ["s", "rest"], ["t"], axis=0), Node("Reshape", ["a", "t"], ["y"])]
runs("Reshape to a size that may be 0", swapped, [(2, "N")], (floats(2, 3),), (floats(2, 0),), (floats(2, 1),), constants={"rest": i64(-1)})

machine = dict(coefficients=[0.5, -1.0, 2.0], support_vectors=[1.0, 0.0, 0.5, -1.0, 2.0, 1.0], kernel_params=[0.5, 0.25, 2.0])
for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID"):
    node = Node("SVMRegressor", ["a"], ["y"], domain=ML, n_supports=3, rho=[0.1], kernel_type=kernel, one_class=int(kernel == "RBF"), **machine)
    runs(f"SVMRegressor ({kernel})", node, [("N", 2)], by_onnxruntime(node, floats(4, 2), domains=((ML, 3),)), by_onnxruntime(node, floats(1, 2), domains=((ML, 3),)), domains=((ML, 3),))
node = Node("SVMRegressor", ["a"], ["y"], domain=ML, rho=[0.1], coefficients=[0.5, -1.0], kernel_type="LINEAR", kernel_params=[0.0, 0.0, 3.0])
runs("SVMRegressor of a line", node, [("N", 2)], by_onnxruntime(node, floats(3, 2), domains=((ML, 3),)), domains=((ML, 3),))


def machine_of(classes, **attributes):
    pairs, vectors = classes * (classes - 1) // 2, 2 * classes
    return dict(coefficients=floats((classes - 1) * vectors).tolist(), support_vectors=floats(2 * vectors).tolist(), vectors_per_class=[2] * classes,
                rho=floats(pairs, low=-0.2, high=0.2).tolist(), kernel_type="RBF", kernel_params=[0.5, 0.0, 3.0], classlabels_ints=list(range(5, 5 + classes)), **attributes)


for name, attributes in (("two classes", machine_of(2)), ("two classes, LOGISTIC", machine_of(2, post_transform="LOGISTIC")), ("two classes, SOFTMAX", machine_of(2, post_transform="SOFTMAX")),
                         ("two probabilities", machine_of(2, prob_a=[-1.5], prob_b=[0.1])), ("three classes", machine_of(3)), ("three probabilities", machine_of(3, prob_a=[-1.5, -1.0, -2.0], prob_b=[0.1, 0.0, -0.1])), ("four classes, SOFTMAX", machine_of(4, post_transform="SOFTMAX"))):
    node = Node("SVMClassifier", ["a"], ["y", "y1"], domain=ML, **attributes)
    runs(f"SVMClassifier of {name}", node, [("N", 2)], by_onnxruntime(node, floats(6, 2), results=2, domains=((ML, 3),)), results=2, domains=((ML, 3),))

for name, form in (("CastMap", dict(cast_to="TO_FLOAT")), ("CastMap by columns", dict(cast_to="TO_INT64", map_form="SPARSE", max_map=4))):
    several(name, [("ZipMap", ["a"], ["maps"], dict(classlabels_int64s=[3, 1])), ("SequenceAt", ["maps", "at"], ["map"], {}), ("CastMap", ["map"], ["y"], form)],
            {"a": features, "at": np.array(1, np.int64)}, [f32(3, 0.5).reshape(1, 2) if form["cast_to"] == "TO_FLOAT" else i64(0, 3, 0, 0).reshape(1, 4)])
for name, form, row in (("CastMap to texts", dict(), texts("3.000000", "0.500000").reshape(1, 2)),
                        ("CastMap to texts by columns", dict(map_form="SPARSE", max_map=3), texts("0.f", "3.000000", "0.f").reshape(1, 3))):
    several(name, [("ZipMap", ["a"], ["maps"], dict(classlabels_int64s=[3, 1])), ("SequenceAt", ["maps", "at"], ["map"], {}), ("CastMap", ["map"], ["y"], dict(cast_to="TO_STRING", **form))],
            {"a": features, "at": np.array(1, np.int64)}, [row])

# Resizing of symbolic sizes.
held = {"s": f32(1, 1, 1.5, 0.7)}
for mode in ("nearest", "linear", "cubic"):
    node = Node("Resize", ["a", "", "s"], ["y"], mode=mode)
    runs(f"Resize of symbolic sizes by fractions ({mode})", node, [(1, 2, "H", "W")], *(by_onnxruntime(node, floats(1, 2, *s), constants=held) for s in ((4, 6), (3, 5), (1, 9))), constants=held)
node, held = Node("Resize", ["a", "", "s"], ["y"], mode="linear"), {"s": f32(2, 0.5, 1.5, 2)}
runs("Resize of four symbolic axes", node, [tuple("ABCD")], (floats(1, 4, 2, 2),), (floats(2, 2, 3, 1),), constants=held)
node, held = Node("Resize", ["a", "", "", "s"], ["y"], mode="nearest", keep_aspect_ratio_policy="not_larger", axes=[2, 3]), {"s": i64(6, 6)}
runs("Resize that keeps the aspect of symbolic sizes", node, [(1, 1, "H", "W")], (floats(1, 1, 3, 2),), (floats(1, 1, 4, 12),), constants=held)

# Ranks that only the run knows: a variant for each of them.
node = [Node("Reshape", ["a", "b"], ["h"]), Node("Transpose", ["h"], ["y"])]
runs("Reshape to a rank that only the run knows", node, [(2, "N"), ("K",)], *((floats(2, 6), i64(*s)) for s in ((12,), (3, 4), (2, 2, 3), (1, 2, 1, 2, 3, 1), (-1,))))
runs("Unsqueeze at as many axes as the run says", Node("Unsqueeze", ["a", "b"], ["y"]), [(2, "N"), ("K",)], *((floats(2, 3), i64(*s)) for s in ((0,), (0, 3), (1, -1, 0))))
runs("Expand to a rank that only the run knows", [Node("Expand", ["a", "b"], ["h"]), Node("Add", ["h", "h"], ["y"])], [(2, "N"), ("K",)],
     *((floats(2, 3), i64(*s)) for s in ((3,), (2, 1), (4, 2, 3))))

# What operators take for granted of symbolic sizes ends a run that has others.
runs("AveragePool of windows larger than the image", Node("AveragePool", ["a"], ["y"], kernel_shape=[3, 2], strides=[2, 2]), [(1, 2, "H", "W")], (floats(1, 2, 5, 4),), refused("T0501", floats(1, 2, 1, 4)[:, :, :0]))
runs("Conv of a kernel larger than the image", Node("Conv", ["a", "w"], ["y"], dilations=[2]), [(1, 1, "W")], (floats(1, 1, 6),), refused("T0501", floats(1, 1, 4)), constants={"w": floats(1, 1, 3)})
runs("RoiAlign of regions of a symbolic width", Node("RoiAlign", ["a", "b", "c"], ["y"], output_height=2, output_width=2), [(1, 2, 6, 6), (2, "m"), (2,)],
     refused("T0501", floats(1, 2, 6, 6), floats(2, 3), i64(0, 0)))
runs("Col2Im of a symbolic number of windows", Node("Col2Im", ["a", "s", "k"], ["y"]), [(1, 4, "L")], (floats(1, 4, 9),), refused("T0501", floats(1, 4, 5)), constants={"s": i64(4, 4), "k": i64(2, 2)})
runs("GroupNormalization of symbolic channels", Node("GroupNormalization", ["a", "b", "c"], ["y"], num_groups=2), [(1, "C", 3), ("C",), ("C",)],
     (floats(1, 4, 3), floats(4), floats(4)), refused("T0501", floats(1, 3, 3), floats(3), floats(3)))
runs("Pad that crops more than there is", Node("Pad", ["a", "p"], ["y"], mode="reflect"), [("N",)], by_onnxruntime(Node("Pad", ["a", "p"], ["y"], mode="reflect"), f32(1, 2, 3, 4), constants={"p": i64(2, -1)}), refused("T0501", f32()), constants={"p": i64(2, -1)})
runs("Resize of nothing", Node("Resize", ["a", "", "", "s"], ["y"]), [("N",)], (floats(3),), refused("T0501", f32()), constants={"s": i64(4)})
runs("DFT of symbolic parts", Node("DFT", ["a"], ["y"], axis=1) if LATEST < 20 else Node("DFT", ["a", "", "x"], ["y"]), [(1, 4, "P")], (floats(1, 4, 1),), (floats(1, 4, 2),), refused("T0501", floats(1, 4, 3)), constants={"x": i64(1).reshape(())})
runs("Reshape to a computed rest", [Node("Shape", ["a"], ["h"], start=1), Node("Min", ["h", "m"], ["t"]), Node("Reshape", ["a", "t"], ["y"])], [(2, "N")], (floats(2, 3),), constants={"m": i64(-1)})

runs("Einsum of sizes that may be 1", Node("Einsum", ["a", "b"], ["y"], equation="ij,jk->ik"), [(2, "J"), ("K", 4)], (floats(2, 3), floats(3, 4)), (floats(2, 3), floats(1, 4)), (floats(2, 1), floats(3, 4)),
     refused("T0501", floats(2, 3), floats(2, 4)))

seed("scores")
for transform in ("SOFTMAX", "LOGISTIC", "PROBIT", "SOFTMAX_ZERO"):
    for name, attributes in (("probabilities", machine_of(3, prob_a=[-1.5, -1.0, -2.0], prob_b=[0.1, 0.0, -0.1])), ("two probabilities", machine_of(2, prob_a=[-1.5], prob_b=[0.1])),
                             ("lines", dict(coefficients=floats(6).tolist(), rho=[0.25], kernel_type="LINEAR", kernel_params=[0.0, 0.0, 3.0], classlabels_ints=[4, 5, 6]))):
        node = Node("SVMClassifier", ["a"], ["y", "y1"], domain=ML, post_transform=transform, **attributes)
        runs(f"SVMClassifier of {name}, {transform}", node, [("N", 2)], by_onnxruntime(node, floats(6, 2), results=2, domains=((ML, 3),)), results=2, domains=((ML, 3),))
for name, coefficients in (("two lines", [0.5, -1.0, 1.0, 0.5]), ("two lines that rise", [0.5, 1.0, 1.0, 0.5])):
    node = Node("SVMClassifier", ["a"], ["y", "y1"], domain=ML, coefficients=coefficients, rho=[0.25], kernel_type="LINEAR", kernel_params=[0.0, 0.0, 3.0], classlabels_ints=[4, 5])
    runs(f"SVMClassifier of {name}", node, [("N", 2)], by_onnxruntime(node, floats(8, 2), results=2, domains=((ML, 3),)), results=2, domains=((ML, 3),))
node = Node("LinearClassifier", ["a"], ["y", "y1"], domain=ML, coefficients=[1.0, 0.5, -1.0, 2.0], intercepts=[0.5, 0.25], classlabels_ints=[1, 2], post_transform="PROBIT")
runs("LinearClassifier, PROBIT", node, [("N", 2)], by_onnxruntime(node, floats(3, 2, low=0, high=0.3), results=2, domains=((ML, 3),)), results=2, domains=((ML, 3),))
