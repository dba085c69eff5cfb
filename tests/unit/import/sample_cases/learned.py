# SPDX-License-Identifier: Apache-2.0
"""ai.onnx.ml."""
import numpy as np

from sample_cases.case import case, f32, floats, Graph, i64, ints, Node, refused, runs, texts
from sample_cases.microsoft import ML

# Ai.onnx.ml.


def learned(op, *arrays, version=4, **keywords):
    case(keywords.pop("name", op), Node(op, list("abcdef"[:len(arrays)]), ["y"], domain=ML, **{k: v for k, v in keywords.items() if k != "expected"}),
         dict(zip("abcdef", arrays)), domains=((ML, version),), expected=keywords.get("expected"))


learned("LabelEncoder", texts("b", "x", "a"), keys_strings=["a", "b"], values_int64s=[5, 7], default_int64=9)
learned("LabelEncoder", f32(1.5, np.nan, 2), name="LabelEncoder of numbers", keys_tensor=f32(1.5, np.nan), values_strings=["one", "none"], default_string="?", expected=[texts("one", "none", "?")])
learned("CategoryMapper", texts("b", "x"), version=1, cats_strings=["a", "b"], cats_int64s=[3, 4], default_int64=-7, expected=[i64(4, -7)])
learned("OneHotEncoder", i64(1, 3, 9), version=1, cats_int64s=[1, 3], zeros=1, expected=[np.array([[1, 0], [0, 1], [0, 0]], np.float32)])
learned("Scaler", floats(2, 3), version=1, offset=[0.5, 1.0, -1.0], scale=[2.0, 0.5, 1.0])
row = floats(2, 3)
learned("Normalizer", row, version=1, norm="L2", expected=[(row / np.sqrt((row * row).sum(1, keepdims=True))).astype(np.float32)])
learned("Imputer", f32(1, 9, 3, 9).reshape(2, 2), version=1, imputed_value_floats=[7.0, 8.0], replaced_value_float=9.0, expected=[f32(1, 8, 3, 8).reshape(2, 2)])
learned("FeatureVectorizer", floats(2, 2), floats(2, 1), version=1, inputdimensions=[2, 1])
splits = floats(3)
learned("TreeEnsemble", floats(6, 2), version=5, n_targets=1, aggregate_function=1, post_transform=0, tree_roots=[0], nodes_featureids=[0, 1, 1],
        nodes_splits=splits, nodes_modes=np.array([0, 1, 3], np.uint8), nodes_truenodeids=[1, 0, 2], nodes_falsenodeids=[2, 1, 3],
        nodes_trueleafs=[0, 1, 1], nodes_falseleafs=[0, 1, 1], leaf_targetids=[0, 0, 0, 0], leaf_weights=f32(1, 2, 4, 8))
learned("TreeEnsembleRegressor", floats(6, 2), version=3, n_targets=2, nodes_treeids=[0, 0, 0, 1, 1, 1], nodes_nodeids=[0, 1, 2, 0, 1, 2], nodes_featureids=[0, 0, 0, 1, 0, 0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF", "BRANCH_GT", "LEAF", "LEAF"], nodes_values=[0.1, 0.0, 0.0, -0.2, 0.0, 0.0], nodes_truenodeids=[1, 0, 0, 2, 0, 0],
        nodes_falsenodeids=[2, 0, 0, 1, 0, 0], target_treeids=[0, 0, 1, 1], target_nodeids=[1, 2, 1, 2], target_ids=[0, 1, 0, 1], target_weights=[1.0, 2.0, 4.0, 8.0],
        base_values=[0.5, 0.25])


def several(name, nodes, inputs, expected, **keywords):
    case(name, [Node(op, given, made, domain="" if op == "SequenceAt" else ML, **attributes) for op, given, made, attributes in nodes], inputs,
         domains=((ML, 3),), expected=expected, outputs=keywords.pop("outputs", ("y",)), **keywords)


features = f32(1, -2, 0.5, 3).reshape(2, 2)
line = dict(coefficients=[1.0, 0.5, -1.0, 2.0, 0.0, 1.0], intercepts=[0.5, 0.0, -0.5])
weights, added = np.array(line["coefficients"], np.float32).reshape(3, 2), np.array(line["intercepts"], np.float32)
scores = features @ weights.T + added
several("LinearClassifier", [("LinearClassifier", ["a"], ["y", "y1"], dict(line, classlabels_ints=[7, 8, 9]))], {"a": features},
        [i64(7, 8, 9)[scores.argmax(1)], scores], outputs=("y", "y1"))
several("LinearClassifier of one score", [("LinearClassifier", ["a"], ["y", "y1"], dict(coefficients=[1.0, 0.5], intercepts=[0.25], classlabels_strings=["no", "yes"]))],
        {"a": features}, [texts("yes", "yes"), f32(0.75, 0.25, -1.25, 2.25).reshape(2, 2)], outputs=("y", "y1"))
learned("LinearRegressor", features, version=1, targets=3, expected=[scores], **line)
stump = dict(nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2], nodes_featureids=[0, 0, 0], nodes_values=[0.75, 0.0, 0.0], nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
             nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0], class_treeids=[0, 0], class_nodeids=[1, 2])
several("TreeEnsembleClassifier", [("TreeEnsembleClassifier", ["a"], ["y", "y1"], dict(stump, class_ids=[0, 1], class_weights=[2.0, 3.0], base_values=[0.5, 0.0, 1.0], classlabels_int64s=[4, 5, 6]))],
        {"a": features}, [i64(5, 4), f32(0.5, 3, 1, 2.5, 0, 1).reshape(2, 3)], outputs=("y", "y1"))
several("TreeEnsembleClassifier of one class", [("TreeEnsembleClassifier", ["a"], ["y", "y1"], dict(stump, class_ids=[0, 0], class_weights=[0.25, 0.75], classlabels_strings=["no", "yes"]))],
        {"a": features}, [texts("yes", "no"), f32(0.25, 0.75, 0.75, 0.25).reshape(2, 2)], outputs=("y", "y1"))
for name, zipped, vocabulary in (("ZipMap, DictVectorizer", dict(classlabels_strings=["p", "q"]), dict(string_vocabulary=["q", "none", "p"])),
                                 ("ZipMap, DictVectorizer of integers", dict(classlabels_int64s=[5, -1]), dict(int64_vocabulary=[-1, 0, 5]))):
    several(name, [("ZipMap", ["a"], ["maps"], zipped), ("SequenceAt", ["maps", "at"], ["map"], {}), ("DictVectorizer", ["map"], ["y"], vocabulary)],
            {"a": features, "at": np.array(1, np.int64)}, [f32(3, 0, 0.5).reshape(1, 3)])
# More pairs of symbolic sizes than a model has variants for: the run stretches what variants do not.
chain = [Node("Add", ["a", "b"], ["s1"]), Node("Add", ["s1", "c"], ["s2"]), Node("Add", ["s2", "d"], ["s3"])]
runs("Add of more sizes than variants", chain + [Node("Add", ["s3", "e"], ["y"])], [(s,) for s in "ABCDE"],
     *(tuple(floats(n) for n in sizes) for sizes in ((4, 4, 4, 4, 4), (3, 1, 3, 1, 3), (1, 1, 1, 1, 3), (1, 1, 1, 1, 1), (1, 1, 1, 0, 1))),
     refused("T0501", *(floats(n) for n in (4, 4, 4, 4, 5))), refused("T0520", *(floats(n) for n in (4, 1, 4, 3, 4))))
runs("Expand behind more sizes than variants", chain + [Node("Shape", ["e"], ["s"]), Node("Expand", ["s3", "s"], ["y"])], [(s,) for s in "ABCDE"],
     *(tuple(floats(n) for n in sizes) for sizes in ((4, 4, 4, 4, 4), (1, 1, 1, 1, 3), (3, 3, 1, 3, 1))))
runs("Div by the last row, of any number of rows", [Node("Slice", ["a", "i", "j", "k"], ["s"]), Node("Div", ["a", "s"], ["y"])], [("N", 3)],
     (floats(4, 3, low=1),), (floats(1, 3, low=1),), (floats(0, 3),), constants=[("i", i64(-1)), ("j", i64(2**62)), ("k", i64(0))])
runs("Add of a first element", [Node("Slice", ["b", "k", "i", "k"], ["s"]), Node("Add", ["a", "s"], ["y"])], [("N",), ("M",)],
     (floats(4), floats(3)), (floats(4), floats(1)), (floats(1), floats(4)), (floats(1), floats(0)), refused("T0520", floats(4), floats(0)),
     constants=[("i", i64(1)), ("k", i64(0))])
def bytes_of(*shape):
    return ints(*shape, low=0, high=20, dtype=np.uint8)


runs("MatMulInteger of batches that may be 1", Node("MatMulInteger", ["a", "b"], ["y"]), [("N", 2, 3), ("M", 3, 2)],
     *((bytes_of(n, 2, 3), bytes_of(m, 3, 2)) for n, m in ((4, 4), (4, 1), (1, 4), (0, 1))))
runs("QLinearMatMul of batches that may be 1", Node("QLinearMatMul", ["a", "s", "z", "b", "s", "z", "t", "z"], ["y"]), [("N", 2, 3), ("M", 3, 2)],
     *((bytes_of(n, 2, 3), bytes_of(m, 3, 2)) for n, m in ((4, 4), (4, 1), (1, 4))), constants=[("s", np.array(0.25, np.float32)), ("t", np.array(0.31, np.float32)), ("z", np.array(3, np.uint8))])
runs("NonZero of what a branch gives", [Node("If", ["a"], ["m"], then_branch=Graph([Node("Concat", ["b", "b"], ["t"], axis=0)], [], [("t", floats(2))]),
                                             else_branch=Graph([Node("Neg", ["b"], ["e"])], [], [("e", floats(1))])), Node("NonZero", ["m"], ["y"])], [(), ("N",)],
     (np.array(True), f32(1, 0, 2)), (np.array(False), f32(0, 0)), (np.array(True), f32()))
runs("Div and Mod of sizes by a size", [Node("Size", ["a"], ["n"]), Node("Shape", ["b"], ["s"]), Node("Squeeze", ["s"], ["d"]), Node("Div", ["n", "d"], ["q"]), Node("Mod", ["n", "d"], ["r"]),
                                        Node("Range", ["o", "q", "i"], ["y"]), Node("Range", ["o", "r", "i"], ["y1"])], [("N", "M"), ("K",)],
     (floats(2, 6), floats(4)), (floats(3, 3), floats(4)), (floats(0, 3), floats(2)), (floats(1, 3), floats(5)), constants=[("o", np.array(0)), ("i", np.array(1))], results=2)
runs("Scan over two inputs of one length", Node("Scan", ["a", "b"], ["y"], num_scan_inputs=2, body=Graph([Node("Add", ["p", "q"], ["r"])],
     [("p", floats(2)), ("q", floats(2))], [("r", floats(2))])), [("N", 2), ("M", 2)],
     (floats(3, 2), floats(3, 2)), (floats(1, 2), floats(1, 2)), refused("T0501", floats(3, 2), floats(2, 2)), refused("T0501", floats(2, 2), floats(3, 2)))
for op, attributes in (("LpPool", {"kernel_shape": [2]}), ("MaxPool", {"kernel_shape": [2]}), ("AveragePool", {"kernel_shape": [2]})):
    runs(f"{op} of what one branch cannot give", [
        Node("If", ["a"], ["m"], then_branch=Graph([Node("ReduceSum", ["b"], ["t"], keepdims=0)], [], [("t", floats())]),
             else_branch=Graph([Node("Neg", ["b"], ["e"])], [], [("e", floats(1, 2, 5))])), Node(op, ["m"], ["y"], **attributes)], [(), (1, 2, "N")],
         (np.array(False), floats(1, 2, 5)), refused("T0520", np.array(True), floats(1, 2, 4)))
