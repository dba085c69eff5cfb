# SPDX-License-Identifier: Apache-2.0
"""Control flow, and models with symbolic sizes."""
import numpy as np

from sample_cases.case import bools, case, distinct, evaluated, expected, f32, floats, Graph, i64, ints, LATEST, Node, one, refused, runs, seed

# Control flow.
seed("control")
scalar = np.array(0, np.float32)
condition, count = np.array(True), np.array(3, np.int64)
then_branch = Graph([Node("Add", ["x", "x"], ["t"])], [], [("t", floats(2, 3))])
else_branch = Graph([Node("Neg", ["x"], ["e"])], [], [("e", floats(2, 3))])
for taken in (True, False):
    case(f"If, {'then' if taken else 'else'}", Node("If", ["c"], ["y"], then_branch=then_branch, else_branch=else_branch),
         {"c": np.array(taken), "x": floats(2, 3)})
body = Graph([Node("Add", ["s", "x"], ["s1"]), Node("Identity", ["go"], ["more"]), Node("Mul", ["s1", "s1"], ["scan"])],
             [("i", count), ("go", condition), ("s", floats(2))], [("more", condition), ("s1", floats(2)), ("scan", floats(2))])
case("Loop", Node("Loop", ["n", "c", "s0"], ["y", "all"], body=body), {"x": floats(2), "s0": floats(2)}, {"n": count, "c": condition}, ["y", "all"])
x, s = floats(2), floats(2)
states = [s + (k + 1) * x for k in range(3)]
case("Loop of a number at run time", Node("Loop", ["n", "", "s0"], ["y", "all"], body=body), {"n": count, "x": x, "s0": s}, {}, ["y", "all"],
     expected=[states[2], np.stack([v * v for v in states])])
body = Graph([Node("Add", ["s", "v"], ["s1"]), Node("Identity", ["s1"], ["o"])], [("s", floats(2)), ("v", floats(2))], [("s1", floats(2)), ("o", floats(2))])
case("Scan", Node("Scan", ["s0", "x"], ["y", "all"], body=body, num_scan_inputs=1), {"s0": floats(2), "x": floats(3, 2)}, {}, ["y", "all"])

# Symbolic sizes.
seed("sizes")
x24 = floats(2, 4)
runs("Slice of at most one row", Node("Slice", ["a", "from", "to", "axes"], ["y"]), [("N", 2)], (floats(1, 2),), (floats(3, 2),), (floats(0, 2),),
     constants={"from": i64(0), "to": i64(1), "axes": i64(0)})
runs("Slice from the end, then a product", [Node("Slice", ["b", "from", "to", "axes", "steps"], ["s"]), Node("Transpose", ["s"], ["t"]), Node("MatMul", ["a", "t"], ["y"])],
     [("M", 4), ("N", 4)], *((x24, floats(n, 4)) for n in (1, 7, 8, 9, 20)),
     constants={"from": i64(7), "to": i64(-9), "axes": i64(0), "steps": i64(-1)})
runs("TopK of more than there are", Node("TopK", ["a", "b"], ["y", "y1"]), [("N",), (1,)], (distinct(5), i64(2)), (distinct(5), i64(5)), (distinct(5), i64(0)),
     refused("T0501", distinct(5), i64(9)), refused("T0501", distinct(5), i64(10 ** 8)), refused("T0401", distinct(5), i64(-1)), results=2)
runs("TopK of three", Node("TopK", ["a", "k"], ["y", "y1"]), [("N",)], (distinct(3),), (distinct(5),), refused("T0501", distinct(2)),
     constants={"k": i64(3)}, results=2)
for op, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
    weights = {"w": floats(1, gates * 3, 4), "r": floats(1, gates * 3, 3), "bias": floats(1, gates * 6)}
    def shortened(x, lengths):
        """The evaluator knows no lengths: rows that end early are those of shorter sequences."""
        y = np.zeros((3, 1, 2, 3), np.float32)
        for row, length in enumerate(lengths):
            if length:
                y[:length, :, row:row + 1] = evaluated([Node(op, ["a", "w", "r", "bias"], ["y"], hidden_size=3)], {"a": x[:length, row:row + 1]},
                                                       weights, ["y"], LATEST)[0]
        return [y]
    given = [(floats(3, 2, 4), np.array(lengths, np.int32)) for lengths in ((3, 2), (0, 3))]
    runs(op + " of sequences of different lengths", Node(op, ["a", "w", "r", "bias", "b"], ["y"], hidden_size=3), [(3, 2, 4), (2,)],
         *(expected(shortened(*g), *g) for g in given), constants=weights)

seed("broadcasting of symbolic sizes")
row = lambda n: floats(n)
for op in ("Add", "Max"):
    runs(op + " of symbolic sizes", Node(op, ["a", "b"], ["y"]), [("N",), ("M",)],
         *((row(n), row(m)) for n, m in ((1, 5), (5, 1), (4, 4), (1, 1), (1, 0), (0, 0))), refused("T0501", row(3), row(2)))
runs("Add of a symbolic size and a known one", Node("Add", ["a", "b"], ["y"]), [("N",), (3,)], (row(1), row(3)), (row(3), row(3)), refused("T0501", row(2), row(3)))
runs("Max of three symbolic sizes", Node("Max", ["a", "b", "c"], ["y"]), [("N",), ("M",), ("K",)],
     *((row(n), row(m), row(k)) for n, m, k in ((1, 5, 1), (5, 5, 1), (5, 1, 5), (1, 1, 4), (2, 2, 2))))
runs("Add, then what follows", [Node("Add", ["a", "b"], ["s"]), Node("Mul", ["s", "a"], ["p"]), Node("ReduceSum", ["p", "axes"], ["y"])],
     [("N", 3), ("M", 3)], *((floats(n, 3), floats(m, 3)) for n, m in ((1, 4), (4, 1), (4, 4))), constants={"axes": i64(0)})
runs("Where of symbolic sizes", Node("Where", ["a", "b", "c"], ["y"]), [("A",), ("N",), ("M",)],
     *((bools(a), row(n), row(m)) for a, n, m in ((3, 1, 3), (1, 3, 1), (1, 1, 1), (3, 3, 3))))
runs("MatMul of symbolic batches", Node("MatMul", ["a", "b"], ["y"]), [("N", 4, 5), ("M", 5, 6)],
     *((floats(n, 4, 5), floats(m, 5, 6)) for n, m in ((1, 3), (3, 1), (2, 2))), refused("T0501", floats(2, 4, 5), floats(3, 5, 6)))
runs("Gemm that adds rows of a symbolic number", Node("Gemm", ["a", "b", "c"], ["y"]), [("N", 4), (4, 5), ("M", 5)],
     *((floats(n, 4), floats(4, 5), floats(m, 5)) for n, m in ((3, 1), (3, 3))), refused("T0501", floats(1, 4), floats(4, 5), floats(3, 5)))
runs("PRelu with slopes of a symbolic number", Node("PRelu", ["a", "b"], ["y"]), [("N", 4), ("M",)], (floats(3, 4), row(1)), (floats(3, 4), row(4)),
     refused("T0501", floats(3, 4), row(3)))
runs("Expand to a symbolic shape", [Node("Shape", ["b"], ["s"]), Node("Expand", ["a", "s"], ["y"])], [("N", 1), ("M", 3)],
     *((floats(n, 1), floats(m, 3)) for n, m in ((1, 4), (4, 4), (4, 1))))
runs("Compress, then a sum", [Node("Compress", ["a", "b"], ["s"], axis=0), Node("Add", ["s", "c"], ["y"])], [(4,), (4,), (3,)],
     *((row(4), np.array(kept, bool), row(3)) for kept in ((1, 0, 0, 0), (1, 1, 0, 1))))
runs("Squeeze of all axes of size 1", Node("Squeeze", ["a"], ["y"]), [("N", "M", 3)], *((floats(n, m, 3),) for n, m in ((1, 2), (2, 1), (1, 1), (4, 2))))
runs("Squeeze, then what follows", [Node("Squeeze", ["a"], ["s"]), Node("Shape", ["s"], ["y"])], [("N", 3)], (floats(1, 3),), (floats(2, 3),))

seed("checks")
row = lambda n: floats(n)
runs("Gather of indices outside", Node("Gather", ["a", "b"], ["y"], axis=0), [("N", 3), ("K",)], (floats(2, 3), i64(1, -2)), refused("T0509", floats(2, 3), i64(2)),
     refused("T0509", floats(2, 3), i64(0, -3)), refused("T0509", floats(0, 3), i64(0)), (floats(0, 3), np.zeros(0, np.int64)))
runs("GatherElements of indices outside", Node("GatherElements", ["a", "b"], ["y"]), [("N",), ("K",)], (row(3), i64(-1, 2)), refused("T0509", row(3), i64(3)),
     refused("T0509", row(0), i64(0)))
runs("GatherND of indices outside", Node("GatherND", ["a", "b"], ["y"]), [("N", 3), ("K", 2)], (floats(2, 3), i64(1, 2, -1, -3).reshape(2, 2)),
     refused("T0509", floats(2, 3), i64(1, 3).reshape(1, 2)), refused("T0509", floats(2, 3), i64(2, 1).reshape(1, 2)), refused("T0509", floats(0, 3), i64(0, 0).reshape(1, 2)))
runs("ScatterElements at indices outside", Node("ScatterElements", ["a", "b", "c"], ["y"]), [("N",), ("K",), ("K",)], (row(3), i64(-1), row(1)),
     refused("T0509", row(3), i64(3), row(1)), refused("T0509", row(3), i64(-4), row(1)), refused("T0509", row(0), i64(0), row(1)))
runs("ScatterND at indices outside", Node("ScatterND", ["a", "b", "c"], ["y"]), [("N",), ("K", 1), ("K",)], (row(3), i64(-1).reshape(1, 1), row(1)),
     refused("T0509", row(3), i64(3).reshape(1, 1), row(1)), refused("T0509", row(0), i64(0).reshape(1, 1), row(1)))
box = f32(0, 0, 2, 2).reshape(1, 4)
runs("RoiAlign of images that are not there", Node("RoiAlign", ["a", "b", "c"], ["y"], output_height=1, output_width=1, sampling_ratio=1), [("N", 1, 4, 4), ("K", 4), ("K",)],
     (floats(2, 1, 4, 4), box, i64(1)), refused("T0509", floats(2, 1, 4, 4), box, i64(2)), refused("T0509", floats(2, 1, 4, 4), box, i64(-1)),
     refused("T0509", floats(0, 1, 4, 4), box, i64(0)))
runs("ReverseSequence of lengths outside", Node("ReverseSequence", ["a", "b"], ["y"]), [("T", "B"), ("B",)], (floats(3, 2), i64(3, 2)),
     refused("T0509", floats(3, 2), i64(4, 2)), refused("T0509", floats(3, 2), i64(-1, 2)))
runs("NegativeLogLikelihoodLoss of classes outside", Node("NegativeLogLikelihoodLoss", ["a", "b"], ["y"], ignore_index=-1, reduction="sum"), [("N", "C"), ("N",)],
     (floats(2, 3), i64(0, 2)), (floats(2, 3), i64(1, -1)), refused("T0509", floats(2, 3), i64(0, 3)))
runs("TensorScatter beyond the cache", Node("TensorScatter", ["a", "b", "c"], ["y"], axis=1), [(2, "S", 3), (2, "K", 3), (2,)], (floats(2, 4, 3), floats(2, 2, 3), i64(1, 2)),
     refused("T0509", floats(2, 4, 3), floats(2, 2, 3), i64(1, 3)))
runs("ArgMax of nothing", Node("ArgMax", ["a"], ["y"], axis=0), [("N", 3)], (distinct(2, 3),), refused("T0501", floats(0, 3)))
runs("Split into sizes that do not add up", Node("Split", ["a", "sizes"], ["y", "y1"]), [("N",)], (row(5),), refused("T0501", row(7)), refused("T0501", row(3)),
     constants={"sizes": i64(2, 3)}, results=2)
runs("Split into equal parts that do not fit", Node("Split", ["a"], ["y", "y1"]), [("N",)], (row(4),), refused("T0501", row(5)), opset=13, results=2)
runs("DepthToSpace of channels that do not fit", Node("DepthToSpace", ["a"], ["y"], blocksize=2), [(1, "C", "H", "W")], (floats(1, 8, 2, 2),), refused("T0501", floats(1, 7, 2, 2)))
runs("SpaceToDepth of an image that does not fit", Node("SpaceToDepth", ["a"], ["y"], blocksize=2), [(1, 3, "H", "W")], (floats(1, 3, 4, 2),), refused("T0501", floats(1, 3, 5, 4)))
for mode in ("reflect", "edge", "wrap"):
    runs("Pad of nothing, " + mode, Node("Pad", ["a", "pads"], ["y"], mode=mode), [("N",)], (row(5),), (row(2),), (row(1),), refused("T0501", row(0)), constants={"pads": i64(3, 2)})
runs("Hardmax of a symbolic axis", Node("Hardmax", ["a"], ["y"]), [("N", "M")], (floats(2, 3),), (floats(2, 1),))
data = distinct(1, 2, 3, 4)  # the evaluator counts by rows
tops = [(c, i, j) for c in range(2) for i in range(0, 2) for j in range(0, 3)]
best = {t: max(((data[0, t[0], t[1] + di, t[2] + dj], t[1] + di, t[2] + dj) for di in (0, 1) for dj in (0, 1))) for t in tops}
runs("MaxPool that counts by columns", Node("MaxPool", ["a"], ["y", "y1"], kernel_shape=[2, 2], storage_order=1), [(1, 2, "H", "W")],
     expected([f32(*(best[t][0] for t in tops)).reshape(1, 2, 2, 3), i64(*(t[0] * 12 + best[t][2] * 3 + best[t][1] for t in tops)).reshape(1, 2, 2, 3)], data), results=2)
runs("Conv with a weight of a shape at run time", Node("Conv", ["a", "b"], ["y"], pads=[1, 1, 1, 1]), [(1, 3, 5, 5), ("O", 3, "H", "W")],
     (floats(1, 3, 5, 5), floats(2, 3, 3, 3)), (floats(1, 3, 5, 5), floats(4, 3, 1, 2)))

seed("integers and other types")
whole = np.arange(-4, 5, dtype=np.int32)
one("Shrink", whole, lambd=0.8, bias=1.5, name="Shrink of integers", expected=[np.where(whole < -0.8, whole + 1.5, np.where(whole > 0.8, whole - 1.5, 0)).astype(np.int32)])
data = floats(2, 4, dtype=np.float64)
spread = 1 / np.sqrt(data.var(axis=1, keepdims=True) + 1e-5)
scale = floats(4, dtype=np.float64)
one("LayerNormalization", data, scale, results=3, name="LayerNormalization of doubles", constants=(1,),
    expected=[(data - data.mean(axis=1, keepdims=True)) * spread * scale, data.mean(axis=1, keepdims=True).astype(np.float32), spread.astype(np.float32)])
a, b, c = ints(2, 3, dtype=np.int32), ints(3, 2, dtype=np.int32), ints(2, dtype=np.int32)
one("Gemm", a, b, c, alpha=0.5, beta=1.5, name="Gemm of integers", expected=[(0.5 * (a @ b) + 1.5 * c).astype(np.int32)])
data = ints(2, 3, low=1, dtype=np.int32)
for op, result in (("ReduceL1", np.abs(data).sum(1)), ("ReduceL2", np.sqrt((data * data).sum(1))), ("ReduceLogSum", np.log(data.sum(1))),
                   ("ReduceLogSumExp", np.log(np.exp(data.astype(np.float64)).sum(1)))):
    one(op, data, i64(1), constants=(1,), keepdims=0, name=op + " of integers", expected=[result.astype(np.int32)])
weights = {"w": floats(1, 3, 4), "r": floats(1, 3, 3)}
x = floats(3, 2, 4)
for name, f, given in (("ScaledTanh", lambda v: 0.7 * np.tanh(0.4 * v), {"activation_alpha": [0.7], "activation_beta": [0.4]}),
                       ("ThresholdedRelu", lambda v: np.where(v > 0.3, v, 0), {"activation_alpha": [0.3]}),
                       ("Affine", lambda v: 0.5 * v + 0.1, {"activation_alpha": [0.5], "activation_beta": [0.1]})):
    state, steps = np.zeros((2, 3), np.float32), []
    for t in range(3):
        state = f(x[t] @ weights["w"][0].T + state @ weights["r"][0].T)
        steps.append(state)
    case("RNN with " + name, Node("RNN", ["a", "w", "r"], ["y"], hidden_size=3, activations=[name], **given), {"a": x}, weights,
         expected=[np.stack(steps)[:, None].astype(np.float32)])
