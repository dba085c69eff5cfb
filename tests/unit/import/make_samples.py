#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes samples.json: a small model, its inputs and its expected outputs for each ONNX operator with a converter.

    python3 -m venv env && env/bin/pip install onnx==1.23.2 onnxruntime==1.31.1 numpy && env/bin/python make_samples.py

The outputs are those of ONNX's reference evaluator, and of ONNX Runtime for the operators of its own domain
com.microsoft, so the importer is judged by an independent definition. A case
gives inputs at run time unless they are listed as constants. `refused` is the code with which a model is refused
today: samples_test.cpp fails when it is not refused any more, or otherwise. A case with `runs` has symbolic sizes:
one compiled model runs with several inputs, of which some may be refused. One case is one line of the file."""
import json
import pathlib
import warnings
import zlib

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

CONTRIB = "com.microsoft"
LATEST = 26  # the newest operator set of cases that do not ask for another
cases, names, generator = [], set(), np.random.default_rng(0)


def floats(*shape, low=-2.0, high=2.0, dtype=np.float32):
    return np.round(generator.uniform(low, high, shape), 2).astype(dtype)


def ints(*shape, low=-5, high=6, dtype=np.int64):
    return generator.integers(low, high, shape).astype(dtype)


def bools(*shape):
    return generator.integers(0, 2, shape).astype(bool)


def distinct(*shape):
    """No two elements are equal, so that an order of them is the only one."""
    return (generator.permutation(int(np.prod(shape))).reshape(shape) * 0.5 - 3).astype(np.float32)


def i64(*values):
    return np.array(values, np.int64)


def f32(*values):
    return np.array(values, np.float32)


class Node:
    """One node; `inputs` name values of the graph, "" is an optional one left out."""

    def __init__(self, op, inputs, outputs, domain="", **attributes):
        self.op, self.inputs, self.outputs, self.domain, self.attributes = op, inputs, outputs, domain, attributes


class Graph:
    """A body of If, Loop, Scan or FlexAttention: values as (name, array of the type and shape)."""

    def __init__(self, nodes, inputs, outputs, constants=()):
        self.nodes, self.inputs, self.outputs, self.constants = nodes, inputs, outputs, dict(constants)

    def proto(self):
        return helper.make_graph([node_proto(n) for n in self.nodes], "body", [value(n, a) for n, a in self.inputs],
                                 [value(n, a) for n, a in self.outputs],
                                 [numpy_helper.from_array(a, n) for n, a in self.constants.items()])

    def json(self):
        return {"nodes": [node_json(n) for n in self.nodes], "inputs": {n: tensor(a, False) for n, a in self.inputs},
                "outputs": {n: tensor(a, False) for n, a in self.outputs},
                "constants": {n: tensor(a) for n, a in self.constants.items()}}


def value(name, array):
    if array.dtype.kind in "OU":
        return helper.make_tensor_value_info(name, TensorProto.STRING, array.shape)
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def node_proto(n):
    attributes = {k: v.proto() if isinstance(v, Graph) else numpy_helper.from_array(v) if isinstance(v, np.ndarray) else v
                  for k, v in n.attributes.items()}
    return helper.make_node(n.op, n.inputs, n.outputs, domain=n.domain, **attributes)


def node_json(n):
    attributes = {k: {"graph": v.json()} if isinstance(v, Graph) else {"tensor": tensor(v)} if isinstance(v, np.ndarray) else v
                  for k, v in n.attributes.items()}
    out = {"op": n.op, "inputs": n.inputs, "outputs": n.outputs}
    if n.domain:
        out["domain"] = n.domain
    if attributes:
        out["attributes"] = attributes
    return out


def number(x, kind):
    if kind in "ib" or kind == "u":
        return int(x)
    if not np.isfinite(x):
        return str(x)
    short = float(str(x))  # the shortest text that gives the same value of its type
    return int(short) if short.is_integer() and abs(short) < 1e6 and str(short) != "-0.0" else short


def tensor(a, data=True):
    """[type, shape, values]: a type and shape alone where no data are needed."""
    if a.dtype.kind in "OU":
        return ["string", list(a.shape)] + ([[str(x) for x in a.ravel()]] if data else [])
    name = helper.tensor_dtype_to_string(helper.np_dtype_to_tensor_dtype(a.dtype)).split(".")[1].lower()
    kind = "f" if "float" in name else a.dtype.kind
    out = [{"float": "float32", "double": "float64"}.get(name, name), list(a.shape)]
    return out + [[number(x, kind) for x in a.ravel()]] if data else out


def run_by_reference(model, inputs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ReferenceEvaluator(model).run(None, inputs)


def run_by_onnxruntime(model, inputs):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, inputs)


def case(name, nodes, inputs, constants=(), outputs=("y",), opset=LATEST, domains=(), random=False, refused="", expected=None, single=False):
    """inputs and constants: names with arrays. random: only types and shapes are compared."""
    global generator
    assert name not in names, name
    names.add(name)
    inputs, constants = dict(inputs), dict(constants)
    nodes = nodes if isinstance(nodes, list) else [nodes]
    if expected is None:
        expected = evaluated(nodes, inputs, constants, outputs, opset, domains)
    record = {"name": name, "opset": opset}
    if domains:
        record["domains"] = dict(domains)
    record |= {"nodes": [node_json(n) for n in nodes], "inputs": {n: tensor(a) for n, a in inputs.items()}}
    if constants:
        record["constants"] = {n: tensor(a) for n, a in constants.items()}
    if random:
        record["random"] = True
    if refused:
        record["refused"] = refused
    expected = [np.asarray(e) for e in expected]
    if single:  # the evaluator computes some of these in double precision
        expected = [e.astype(np.float32) for e in expected]
    record["outputs"] = {n: tensor(e, not random and not refused) for n, e in zip(outputs, expected)}
    cases.append(record)


def evaluated(nodes, inputs, constants, outputs, opset, domains=()):
    graph = helper.make_graph([node_proto(n) for n in nodes], "g", [value(n, a) for n, a in inputs.items()],
                              [helper.make_empty_tensor_value_info(n) for n in outputs],
                              [numpy_helper.from_array(a, n) for n, a in constants.items()])
    imports = {"": opset, **dict(domains)}
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(d, v) for d, v in imports.items()], ir_version=10)
    return run_by_onnxruntime(model, inputs) if CONTRIB in imports else run_by_reference(model, inputs)


def refused(code, *arrays):
    """Inputs of a run that ends with this error."""
    return {"refused": code, "arrays": arrays}


def expected(results, *arrays):
    """Inputs and results of a run for which the reference evaluator is no authority."""
    return {"expected": results, "arrays": arrays}


def runs(name, nodes, sizes, *given, constants=(), results=1, opset=LATEST, domains=()):
    """One model whose inputs a, b, c, … have these sizes (names or numbers), run with each of the given tuples of
    inputs; results y, y1, …"""
    assert name not in names, name
    names.add(name)
    nodes, constants = nodes if isinstance(nodes, list) else [nodes], dict(constants)
    letters, outputs = "abcdefghijkl", ["y" + (str(k) if k else "") for k in range(results)]
    types, record = {}, []
    for g in given:
        g = g if isinstance(g, dict) else {"arrays": g}
        inputs = dict(zip(letters, g["arrays"]))
        types = {n: tensor(a, False)[:1] + [list(s)] for (n, a), s in zip(inputs.items(), sizes)}
        run = {"inputs": {n: tensor(a) for n, a in inputs.items()}}
        if "refused" in g:
            run["refused"] = g["refused"]
        else:
            results = g["expected"] if "expected" in g else evaluated(nodes, inputs, constants, outputs, opset, domains)
            run["outputs"] = {n: tensor(np.asarray(e)) for n, e in zip(outputs, results)}
        record.append(run)
    case = {"name": name, "opset": opset, **({"domains": dict(domains)} if domains else {}), "nodes": [node_json(n) for n in nodes],
            "inputs": types}
    if constants:
        case["constants"] = {n: tensor(a) for n, a in constants.items()}
    cases.append(case | {"outputs": {n: ["float32", []] for n in outputs}, "runs": record})


def one(op, *arrays, constants=(), results=1, name="", domain="", opset=LATEST, **keywords):
    """A case of one node: inputs a, b, c, … (None: left out), outputs y, y1, …; `constants`: positions of inputs
    that the model holds. Other keywords are attributes, or those of case."""
    global generator
    letters = "abcdefghijklmnopqrstuvwx"
    own = {k: keywords.pop(k) for k in ("random", "refused", "expected", "single", "domains") if k in keywords}
    inputs = ["" if x is None else letters[i] for i, x in enumerate(arrays)]
    given = {letters[i]: x for i, x in enumerate(arrays) if x is not None}
    outputs = [o if isinstance(o, str) else "y" + (str(k) if k else "") for k, o in
               enumerate(results if isinstance(results, list) else range(results))]
    case(name or op, Node(op, inputs, outputs, domain, **keywords),
         {n: a for n, a in given.items() if letters.index(n) not in constants},
         {n: a for n, a in given.items() if letters.index(n) in constants},
         [o for o in outputs if o], opset, own.pop("domains", ((domain, 1),) if domain else ()), **own)


def seed(text):
    """Cases of a group have data of their own: a new case elsewhere does not change them."""
    global generator
    generator = np.random.default_rng(zlib.crc32(text.encode()))


# ---------------------------------------------------------------- element by element
seed("unary")
for op in "Abs Neg Sign Floor Ceil Exp Sin Cos Tan Sinh Cosh Tanh Asinh Atan Erf Sigmoid Relu Softplus Softsign HardSwish Mish".split():
    one(op, floats(2, 5))
for op in ("Asin", "Acos", "Atanh"):
    one(op, floats(2, 5, low=-0.9, high=0.9))
for op in ("Log", "Sqrt", "Reciprocal"):
    one(op, floats(2, 5, low=0.1, high=4))
one("Acosh", floats(2, 5, low=1.1, high=4))
one("Round", f32(-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.4, -2.6))
one("Abs", ints(6, dtype=np.int32), name="Abs of integers")
one("Sign", ints(6), name="Sign of integers")
one("Neg", ints(6, dtype=np.int8), name="Neg of bytes")
one("Not", bools(2, 4))
one("BitwiseNot", ints(6, dtype=np.int32))
one("IsNaN", f32(1, np.nan, -np.inf, np.inf))
one("IsInf", f32(1, np.nan, -np.inf, np.inf))
one("IsInf", f32(1, np.nan, -np.inf, np.inf), detect_negative=0, name="IsInf, positive only")

seed("activations")
one("Celu", floats(2, 5), alpha=1.5)
one("Elu", floats(2, 5), alpha=0.7)
one("Gelu", floats(2, 5))
one("Gelu", floats(2, 5), approximate="tanh", name="Gelu by tanh")
one("HardSigmoid", floats(2, 5), alpha=0.3, beta=0.4)
one("LeakyRelu", floats(2, 5), alpha=0.1)
one("Selu", floats(2, 5))
one("Shrink", floats(2, 5), lambd=0.8, bias=0.2)
one("Swish", floats(2, 5), alpha=0.8)
one("ThresholdedRelu", floats(2, 5), alpha=0.5)
one("PRelu", floats(2, 3, 4), floats(3, 1))
one("Hardmax", floats(3, 4))
one("Softmax", floats(2, 3, 4))
one("Softmax", floats(2, 3, 4), axis=1, name="Softmax over the middle")
data = floats(2, 3, 4)
one("Softmax", data, axis=1, opset=11, name="Softmax of operator set 11, over all from the axis on",
    expected=[(np.exp(data) / np.exp(data).sum(axis=(1, 2), keepdims=True)).astype(np.float32)])
one("LogSoftmax", floats(2, 3, 4), axis=0)

seed("binary")
for op in ("Add", "Sub", "Mul", "Div"):
    one(op, floats(2, 3, 4), floats(3, 1, low=0.5))
one("Div", ints(8, low=-9, high=9, dtype=np.int32), ints(8, low=1, high=5, dtype=np.int32), name="Div of integers")
one("Pow", floats(2, 4, low=0.2), floats(4))
one("Pow", floats(5), ints(5, low=0, high=4), name="Pow of a float by integers")
one("Mod", ints(8, low=-9, high=9), ints(8, low=1, high=5))
one("Mod", floats(8, low=-9, high=9), floats(8, low=0.5, high=5), fmod=1, name="Mod with the sign of the dividend")
for op in ("Max", "Min", "Mean", "Sum"):
    one(op, floats(2, 3), floats(3), floats(2, 1))
one("Max", ints(6, dtype=np.int32), ints(6, dtype=np.int32), name="Max of integers")
for op in ("And", "Or", "Xor"):
    one(op, bools(2, 4), bools(4))
for op in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"):
    one(op, ints(2, 5, low=0, high=3), ints(5, low=0, high=3))
one("Greater", floats(6), floats(6), name="Greater of floats")
for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
    one(op, ints(6, low=0, high=64, dtype=np.int32), ints(6, low=0, high=64, dtype=np.int32))
one("BitShift", ints(5, low=1, high=40, dtype=np.uint8), ints(5, low=0, high=3, dtype=np.uint8), direction="LEFT")
one("BitShift", ints(5, low=1, high=90, dtype=np.uint32), ints(5, low=0, high=3, dtype=np.uint32), direction="RIGHT", name="BitShift to the right")
one("Where", bools(2, 1), floats(2, 3), floats(3))
one("Clip", floats(2, 5), f32(-0.5).reshape(()), f32(1).reshape(()), constants=(1, 2))
one("Clip", floats(2, 5), f32(-0.5).reshape(()), f32(1).reshape(()), name="Clip with limits at run time")
one("Clip", floats(2, 5), min=-0.5, max=1.0, opset=6, name="Clip with limits as attributes")
one("Cast", f32(-2.7, -0.5, 0, 0.4, 3.9), to=TensorProto.INT32)
one("Cast", f32(-2.7, 0, 0.4), to=TensorProto.BOOL, name="Cast to bool")
one("Cast", ints(5), to=TensorProto.FLOAT, name="Cast of integers to float")
one("Cast", floats(5), to=TensorProto.FLOAT16, name="Cast to float16")
one("CastLike", floats(5), ints(1, dtype=np.int64))
one("BitCast", floats(4), to=TensorProto.INT32)
one("QuantizeLinear", floats(2, 6), f32(0.02).reshape(()), np.array(3, np.uint8), constants=(1, 2))
one("QuantizeLinear", floats(2, 3, 2), f32(0.02, 0.05, 0.1), np.zeros(3, np.int8), axis=1, constants=(1, 2), name="QuantizeLinear by channel")
one("DequantizeLinear", ints(2, 6, low=0, high=200, dtype=np.uint8), f32(0.02).reshape(()), np.array(100, np.uint8), constants=(1, 2))
one("DequantizeLinear", ints(2, 3, 2, dtype=np.int8), f32(0.02, 0.05, 0.1), axis=1, constants=(1,), name="DequantizeLinear by channel")
one("DynamicQuantizeLinear", floats(2, 6), results=3)

# ---------------------------------------------------------------- reductions
seed("reductions")
for op in "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare".split():
    data = floats(2, 3, 4, low=0.2)
    one(op, data, i64(1), constants=(1,))
    one(op, data, i64(0, -1), constants=(1,), keepdims=0, name=op + " without the dimensions")
    one(op, data, axes=[-1], opset=11, name=op + " with axes as an attribute")
one("ReduceSum", floats(2, 3), noop_with_empty_axes=1, name="ReduceSum over no axes")
one("ReduceMax", floats(2, 3), name="ReduceMax over all")
one("ReduceSum", floats(2, 3, 4), i64(1), name="ReduceSum with axes at run time")
for op in ("ArgMax", "ArgMin"):
    one(op, distinct(2, 3, 4), axis=1)
    one(op, f32(1, 3, 3, 1, 3, 1).reshape(2, 3), axis=1, keepdims=0, select_last_index=1, name=op + ", the last of equal ones")
one("CumSum", floats(2, 4), np.array(1, np.int64), constants=(1,))
one("CumSum", floats(2, 4), np.array(0, np.int64), constants=(1,), exclusive=1, reverse=1, name="CumSum, exclusive and from the end")
one("CumProd", floats(2, 4), np.array(1, np.int64), constants=(1,))

# ---------------------------------------------------------------- shapes and positions
seed("shapes")
one("Concat", floats(2, 3), floats(2, 1), floats(2, 2), axis=1)
case("Constant", [Node("Constant", [], ["c"], value=floats(3)), Node("Add", ["a", "c"], ["y"])], {"a": floats(2, 3)})
one("ConstantOfShape", i64(2, 3), value=f32(1.5), constants=(0,))
one("ConstantOfShape", i64(2, 3), value=f32(1.5), name="ConstantOfShape of a shape at run time")
one("DepthToSpace", floats(1, 8, 2, 3), blocksize=2)
one("DepthToSpace", floats(1, 8, 2, 3), blocksize=2, mode="CRD", name="DepthToSpace by columns first")
one("SpaceToDepth", floats(1, 2, 4, 6), blocksize=2)
one("Expand", floats(3, 1), i64(2, 3, 4), constants=(1,))
one("EyeLike", floats(3, 4), k=1)
one("Flatten", floats(2, 3, 4), axis=2)
one("Gather", floats(4, 3), ints(2, 2, low=0, high=4), axis=0)
one("Gather", floats(2, 4), i64(-1, 1), axis=1, name="Gather from the end")
one("GatherElements", floats(3, 4), ints(2, 4, low=0, high=3), axis=0)
one("GatherND", floats(2, 3, 4), i64(0, 1, 1, 2).reshape(2, 2))
one("GatherND", floats(2, 3, 4), i64(1, 2).reshape(2, 1), batch_dims=1, name="GatherND in batches")
one("Identity", floats(2, 3))
one("OneHot", i64(1, 0, 2), np.array(4, np.int64), f32(-1, 3), constants=(1,))
one("OneHot", i64(1, 0, 2), np.array(4, np.int64), f32(-1, 3), name="OneHot of a depth at run time")
one("Pad", floats(2, 3), i64(1, 0, 0, 2), f32(1.5).reshape(()), constants=(1, 2))
one("Pad", floats(3, 4), i64(1, 2, 1, 1), mode="reflect", constants=(1,), name="Pad by reflection")
one("Pad", floats(3, 4), i64(1, 2, 1, 1), mode="edge", constants=(1,), name="Pad by the edge")
one("Pad", floats(3, 4), i64(1, 2, 1, 1), mode="wrap", constants=(1,), name="Pad by wrapping")
one("Pad", floats(2, 3), pads=[1, 0, 0, 2], value=0.5, opset=6, name="Pad with pads as an attribute")
one("Range", np.array(1, np.int64), np.array(8, np.int64), np.array(3, np.int64), constants=(0, 1, 2))
one("Reshape", floats(2, 3, 4), i64(0, -1), constants=(1,))
one("Reshape", floats(2, 3, 4), i64(4, 6), name="Reshape to a shape at run time")
data, updates = floats(3, 3), floats(2, 2)
scattered = data.copy()
scattered[[0, 2, 1, 1], [0, 1, 0, 1]] = updates.ravel()
one("Scatter", data, i64(0, 2, 1, 1).reshape(2, 2), updates, opset=9, expected=[scattered])
one("ScatterElements", floats(3, 3), i64(0, 2, 1, 1).reshape(2, 2), floats(2, 2), axis=0)
one("ScatterElements", floats(3, 3), i64(0, 2, 0, 1).reshape(2, 2), floats(2, 2), axis=0, reduction="add", name="ScatterElements, adding")
one("ScatterND", floats(4, 3), i64(2, 0).reshape(2, 1), floats(2, 3))
one("ScatterND", floats(4, 3), i64(2, 2).reshape(2, 1), floats(2, 3), reduction="mul", name="ScatterND, multiplying")
one("Shape", floats(2, 3, 4), start=1)
one("Size", floats(2, 3, 4))
one("Slice", floats(4, 6), i64(1, -1), i64(4, -6), i64(0, 1), i64(1, -2), constants=(1, 2, 3, 4))
one("Slice", floats(4, 6), starts=[1, 2], ends=[3, 1000], axes=[0, 1], opset=9, name="Slice with attributes")
one("Slice", floats(4, 6), i64(1), i64(3), i64(0), name="Slice at places of run time")
one("Split", floats(2, 6), i64(1, 3, 2), axis=1, constants=(1,), results=3)
one("Split", floats(2, 6), axis=1, num_outputs=4, results=4, name="Split into a number of parts")
one("Squeeze", floats(1, 3, 1, 2), i64(0, 2), constants=(1,))
one("Squeeze", floats(1, 3, 1, 2), axes=[2], opset=11, name="Squeeze with axes as an attribute")
one("Unsqueeze", floats(3, 2), i64(0, -1), constants=(1,))
one("Unsqueeze", floats(3, 2), axes=[1], opset=11, name="Unsqueeze with axes as an attribute")
one("Tile", floats(2, 3), i64(2, 2), constants=(1,))
one("Tile", floats(2, 3), i64(2, 2), name="Tile with repeats at run time")
one("Transpose", floats(2, 3, 4), perm=[2, 0, 1])
one("Transpose", floats(2, 3, 4), name="Transpose of all")
one("Trilu", floats(3, 4), np.array(1, np.int64), constants=(1,))
one("Trilu", floats(3, 4), upper=0, name="Trilu, the lower part")
one("CenterCropPad", floats(5, 3), i64(3, 4), constants=(1,))
one("Compress", floats(3, 4), np.array([True, False, True]), axis=0)
one("NonZero", f32(0, 1, 0, 2, 3, 0).reshape(2, 3))
one("ReverseSequence", floats(4, 3), i64(2, 4, 1), time_axis=0, batch_axis=1)
one("TensorScatter", floats(2, 4, 3), floats(2, 2, 3), i64(1, 2), axis=1)
one("TopK", distinct(3, 5), i64(2), axis=1, constants=(1,), results=2)
one("TopK", distinct(3, 5), i64(2), axis=0, largest=0, constants=(1,), results=2, name="TopK, the smallest")
one("TopK", distinct(3, 5), i64(2), axis=1, results=2, name="TopK of a number at run time")
one("Unique", i64(3, 1, 3, 2, 1), results=4)
one("Unique", i64(3, 1, 3, 2, 1), sorted=0, results=4, name="Unique in order of appearance")
one("NonMaxSuppression", f32(0, 0, 1, 1, 0, 0.1, 1, 1.1, 0, 3, 1, 4).reshape(1, 3, 4), f32(0.9, 0.75, 0.6).reshape(1, 1, 3),
    i64(3), f32(0.5), f32(0), constants=(2, 3, 4))

# ---------------------------------------------------------------- neural networks
seed("networks")
one("Conv", floats(1, 3, 5, 5), floats(4, 3, 3, 3), floats(4), pads=[1, 1, 1, 1], constants=(1, 2))
one("Conv", floats(1, 4, 6, 6), floats(4, 1, 3, 3), group=4, strides=[2, 2], constants=(1,), name="Conv, depthwise and strided")
one("Conv", floats(2, 3, 9), floats(4, 3, 3), dilations=[2], constants=(1,), name="Conv of one dimension")
one("Conv", floats(1, 2, 4, 4, 4), floats(3, 2, 2, 2, 2), constants=(1,), name="Conv of three dimensions")
one("Conv", floats(1, 3, 5, 5), floats(4, 3, 3, 3), auto_pad="SAME_UPPER", strides=[2, 2], name="Conv with weights at run time")
one("ConvInteger", ints(1, 2, 4, 4, low=0, high=9, dtype=np.uint8), ints(3, 2, 2, 2, low=0, high=9, dtype=np.uint8), np.array(2, np.uint8), constants=(1, 2))
one("ConvTranspose", floats(1, 3, 4, 4), floats(3, 2, 3, 3), strides=[2, 2], output_padding=[1, 1], pads=[1, 1, 1, 1], constants=(1,))
data, weights, spread = floats(1, 4, 5), floats(4, 2, 3), np.zeros((1, 4, 7), np.float32)
for channel, i, k in np.ndindex(4, 5, 3):  # each value is spread over three places of its group's channels
    first = channel // 2 * 2
    spread[0, first:first + 2, i + k] += data[0, channel, i] * weights[channel, :, k]
one("ConvTranspose", data, weights, group=2, constants=(1,), name="ConvTranspose in groups", expected=[spread])
one("QLinearConv", ints(1, 2, 4, 4, low=0, high=200, dtype=np.uint8), f32(0.02).reshape(()), np.array(100, np.uint8),
    ints(3, 2, 3, 3, low=-90, high=90, dtype=np.int8), f32(0.01, 0.02, 0.03), np.zeros(3, np.int8), f32(0.05).reshape(()), np.array(120, np.uint8),
    ints(3, low=-50, high=50, dtype=np.int32), constants=(1, 2, 3, 4, 5, 6, 7, 8), pads=[1, 1, 1, 1])
one("DeformConv", floats(1, 1, 3, 3), floats(1, 1, 2, 2), floats(1, 8, 2, 2, low=-0.4, high=0.4), constants=(1,))
one("AveragePool", floats(1, 2, 5, 5), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
one("AveragePool", floats(1, 2, 5, 5), kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1, name="AveragePool that counts the padding")
one("MaxPool", floats(1, 2, 6, 6), kernel_shape=[2, 2], strides=[2, 2])
one("MaxPool", distinct(1, 1, 4, 4), kernel_shape=[2, 2], strides=[2, 2], results=2, name="MaxPool with positions")
one("MaxPool", floats(1, 2, 7), kernel_shape=[3], strides=[2], ceil_mode=1, name="MaxPool, rounding up")
one("LpPool", floats(1, 2, 6, 6), kernel_shape=[2, 2], strides=[2, 2], p=2)
one("MaxUnpool", f32(5, 6, 7, 8).reshape(1, 1, 2, 2), i64(5, 7, 13, 15).reshape(1, 1, 2, 2), kernel_shape=[2, 2], strides=[2, 2])
one("GlobalAveragePool", floats(2, 3, 4, 4))
one("GlobalMaxPool", floats(2, 3, 4, 4))
data = floats(2, 3, 4, 4)
one("GlobalLpPool", data, p=2, expected=[np.sqrt((data ** 2).sum(axis=(2, 3), keepdims=True))])
data, pooled = floats(1, 2, 6, 6), np.zeros((2, 2, 2, 2), np.float32)
for r, (x, y) in enumerate(((0, 0), (1, 2))):  # regions of 4 by 4, in quarters
    for i, j in np.ndindex(2, 2):
        pooled[r, :, i, j] = data[0, :, y + 2 * i:y + 2 * i + 2, x + 2 * j:x + 2 * j + 2].max(axis=(1, 2))
one("MaxRoiPool", data, f32(0, 0, 0, 3, 3, 0, 1, 2, 4, 5).reshape(2, 5), pooled_shape=[2, 2], expected=[pooled])
one("RoiAlign", floats(1, 2, 6, 6), f32(0, 0, 4, 4, 1, 1, 5, 5).reshape(2, 4), i64(0, 0), output_height=2, output_width=2, sampling_ratio=2, constants=(2,))
one("BatchNormalization", floats(2, 3, 4), floats(3), floats(3), floats(3), floats(3, low=0.2), constants=(1, 2, 3, 4))
one("BatchNormalization", floats(2, 3, 4), floats(3), floats(3), floats(3), floats(3, low=0.2), constants=(1, 2, 3, 4), training_mode=1, results=3,
    name="BatchNormalization in training")
one("InstanceNormalization", floats(2, 3, 5), floats(3), floats(3), constants=(1, 2))
one("GroupNormalization", floats(2, 4, 5), floats(4), floats(4), num_groups=2, constants=(1, 2))
one("LayerNormalization", floats(2, 3, 4), floats(4), floats(4), constants=(1, 2))
one("LayerNormalization", floats(2, 3, 4), floats(3, 4), axis=1, results=3, constants=(1,), name="LayerNormalization with its mean")
one("RMSNormalization", floats(2, 3, 4), floats(4), constants=(1,))
data = floats(1, 5, 2, 2)  # the evaluator sums only as many channels as there are batches
squares = np.pad(data ** 2, ((0, 0), (1, 1), (0, 0), (0, 0)))
sums = squares[:, :-2] + squares[:, 1:-1] + squares[:, 2:]
one("LRN", data, size=3, alpha=0.1, beta=0.5, bias=1.5, expected=[(data / (1.5 + 0.1 / 3 * sums) ** 0.5).astype(np.float32)])
one("LpNormalization", floats(2, 4), axis=1, p=2)
one("MeanVarianceNormalization", floats(2, 3, 2, 2))
one("Dropout", floats(2, 3))
one("Dropout", floats(2, 3), results=2, name="Dropout with its mask")
one("Einsum", floats(2, 3), floats(3, 4), equation="ij,jk->ik")
one("Einsum", floats(2, 3, 4), floats(2, 4), equation="bij,bj->bi", name="Einsum in batches")
one("Gemm", floats(3, 4), floats(5, 3), floats(5), transA=1, transB=1, alpha=0.5, beta=2.0)
one("MatMul", floats(3, 4), floats(4, 5))
one("MatMul", floats(2, 1, 3, 4), floats(5, 4, 2), name="MatMul in batches")
one("MatMul", floats(4), floats(4, 3), name="MatMul of a vector")
one("MatMulInteger", ints(3, 4, low=0, high=99, dtype=np.uint8), ints(4, 2, low=-50, high=50, dtype=np.int8), np.array(50, np.uint8), np.array(3, np.int8), constants=(1, 2, 3))
one("QLinearMatMul", ints(3, 4, low=0, high=99, dtype=np.uint8), f32(0.02).reshape(()), np.array(50, np.uint8), ints(4, 2, low=0, high=99, dtype=np.uint8),
    f32(0.03).reshape(()), np.array(40, np.uint8), f32(0.05).reshape(()), np.array(120, np.uint8), constants=(1, 2, 3, 4, 5, 6, 7))
one("GridSample", floats(1, 1, 4, 4), floats(1, 2, 3, 2, low=-0.9, high=0.9), mode="linear")
one("AffineGrid", floats(1, 2, 3), i64(1, 1, 2, 3), constants=(1,))
one("Col2Im", floats(1, 4, 4), i64(3, 3), i64(2, 2), constants=(1, 2))
one("Resize", floats(1, 1, 2, 3), None, f32(1, 1, 2, 2), mode="nearest", constants=(2,))
one("Resize", floats(1, 1, 3, 3), None, None, i64(1, 1, 5, 4), mode="linear", constants=(3,), name="Resize to sizes, linear")
one("Resize", floats(1, 1, 4, 4), None, f32(1, 1, 1.5, 1.5), mode="cubic", coordinate_transformation_mode="align_corners", constants=(2,), name="Resize, cubic")
data = floats(1, 1, 2, 2)
one("Upsample", data, f32(1, 1, 2, 3), mode="nearest", opset=9, constants=(1,), expected=[data.repeat(2, axis=2).repeat(3, axis=3)])

# ---------------------------------------------------------------- sequences
seed("sequences")
for op, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
    one(op, floats(3, 2, 4), floats(1, gates * 3, 4), floats(1, gates * 3, 3), floats(1, gates * 6), hidden_size=3, constants=(1, 2, 3), results=2 + (op == "LSTM"))
one("GRU", floats(3, 2, 4), floats(1, 9, 4), floats(1, 9, 3), floats(1, 18), hidden_size=3, linear_before_reset=1, constants=(1, 2, 3), results=2, name="GRU, linear before the reset")
one("RotaryEmbedding", floats(1, 2, 3, 4), floats(5, 2), floats(5, 2), i64(0, 1, 4).reshape(1, 3), constants=(1, 2))
one("Attention", floats(1, 2, 3, 4), floats(1, 2, 5, 4), floats(1, 2, 5, 4))
one("Attention", floats(1, 2, 3, 4), floats(1, 2, 3, 4), floats(1, 2, 3, 4), is_causal=1, name="Attention, causal")

# ---------------------------------------------------------------- losses, windows, signals
seed("signals")
one("NegativeLogLikelihoodLoss", floats(3, 5), i64(1, 0, 4), reduction="mean")
one("NegativeLogLikelihoodLoss", floats(3, 5), i64(1, 0, 4), floats(5, low=0.2), reduction="sum", ignore_index=0, name="NegativeLogLikelihoodLoss with weights")
one("SoftmaxCrossEntropyLoss", floats(3, 5), i64(1, 0, 4), reduction="none")
one("SoftmaxCrossEntropyLoss", floats(3, 5), i64(1, 0, 4), reduction="mean", results=2, name="SoftmaxCrossEntropyLoss with its logarithms")
for op in ("BlackmanWindow", "HammingWindow", "HannWindow"):
    one(op, np.array(8, np.int64), constants=(0,))
    one(op, np.array(8, np.int64), periodic=0, constants=(0,), name=op + ", symmetric")
one("DFT", floats(1, 4, 1), None, np.array(1, np.int64), constants=(2,))
one("DFT", floats(1, 4, 2), None, np.array(1, np.int64), inverse=1, constants=(2,), name="DFT, inverse")
one("DFT", floats(1, 6, 1), axis=1, onesided=1, opset=17, name="DFT, one side")
one("STFT", floats(1, 10, 1), np.array(3, np.int64), floats(4, low=0.2), constants=(1, 2))
one("MelWeightMatrix", np.array(4, np.int64), np.array(8, np.int64), np.array(8000, np.int64), f32(0).reshape(()), f32(4000).reshape(()), constants=(0, 1, 2, 3, 4))
one("Det", floats(2, 3, 3))
one("RandomNormal", shape=[3, 4], seed=1.0, random=True)
one("RandomNormalLike", floats(3, 4), seed=1.0, random=True)
one("RandomUniform", shape=[3, 4], seed=1.0, random=True)
one("RandomUniformLike", floats(3, 4), seed=1.0, random=True)
one("Bernoulli", floats(3, 4, low=0, high=1), seed=1.0, random=True)
one("Multinomial", floats(2, 5), sample_size=3, seed=1.0, random=True, expected=[np.zeros((2, 3), np.int32)])

# ---------------------------------------------------------------- control flow
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

# ---------------------------------------------------------------- symbolic sizes
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

# ---------------------------------------------------------------- other domains
seed("domains")
ML, TRAINING, PREVIEW = "ai.onnx.ml", "ai.onnx.preview.training", "ai.onnx.preview"
one("ArrayFeatureExtractor", floats(2, 5), i64(0, 3, 3), domain=ML)
one("Binarizer", floats(2, 5), domain=ML, threshold=0.3)
rate, step = np.array(0.1, np.float32), np.array(1, np.int64)
one("Adagrad", rate, step, floats(3), floats(3), floats(3, low=0.1), domain=TRAINING, results=2, decay_factor=0.1, epsilon=1e-5, norm_coefficient=0.01)
one("Adam", rate, step, floats(3), floats(3), floats(3), floats(3, low=0.1), domain=TRAINING, results=3, single=True, alpha=0.9, beta=0.99, epsilon=1e-5)
one("Momentum", rate, step, floats(3), floats(3), floats(3), domain=TRAINING, results=2, alpha=0.9, beta=0.8, norm_coefficient=0.01, mode="standard")
one("FlexAttention", floats(1, 2, 3, 4), floats(1, 2, 5, 4), floats(1, 2, 5, 4), domain=PREVIEW)
one("LinearAttention", floats(1, 4, 6), floats(1, 4, 6), floats(1, 4, 6), opset=27, q_num_heads=2, kv_num_heads=2, update_rule="linear", results=2)
one("CausalConvWithState", floats(1, 3, 6), floats(3, 1, 2), floats(3), opset=27, results=2, constants=(1, 2))
data = floats(3, 5)
one("ArrayFeatureExtractor", data, np.array(2), domain=ML, name="ArrayFeatureExtractor of one index", expected=[data[:, 2:3]])
one("ArrayFeatureExtractor", data, i64(4, 0).reshape(1, 2), domain=ML, name="ArrayFeatureExtractor of a row of indices", expected=[data[:, [4, 0]]])

# ---------------------------------------------------------------- com.microsoft, quantised
seed("contrib quantised")


def u8(*shape):
    return generator.integers(0, 256, shape).astype(np.uint8)


def i8(*shape):
    return generator.integers(-127, 128, shape).astype(np.int8)


def contrib(op, *arrays, constants=None, opset=21, **keywords):
    """Scales and zero points, and what else is a parameter, are the model's own."""
    held = [i for i, a in enumerate(arrays) if a is not None and a.ndim == 0] if constants is None else constants
    keywords.setdefault("name", f"{op} of com.microsoft" if op in names else op)
    one(op, *arrays, constants=held, domain=CONTRIB, opset=opset, **keywords)


def scale(x):
    return np.array(x, np.float32)


def zero(z, t=np.uint8):
    return np.array(z, t)


a, b = (scale(0.05), zero(120)), (scale(0.03), zero(7))
contrib("QLinearAdd", u8(2, 3, 4), *a, u8(2, 3, 4), *b, scale(0.06), zero(110))
contrib("QLinearAdd", i8(2, 3), scale(0.05), zero(3, np.int8), i8(3), scale(0.1), zero(-4, np.int8), scale(0.12), zero(1, np.int8), name="QLinearAdd of signed bytes, broadcast")
contrib("QLinearMul", u8(2, 3, 4), *a, u8(3, 1), *b, scale(0.1), zero(100))
contrib("QLinearLeakyRelu", u8(3, 5), *a, scale(0.04), zero(90), alpha=0.2)
contrib("QLinearSigmoid", u8(3, 5), *a, scale(1 / 256), zero(0))
case("QLinearSoftmax", Node("QLinearSoftmax", ["x", "s", "z", "t", "u"], ["y"], CONTRIB, axis=-1, opset=13), {"x": u8(3, 5)},
     {"s": a[0], "z": a[1], "t": scale(1 / 256), "u": zero(0)}, opset=21, domains=((CONTRIB, 1),))
contrib("QLinearAveragePool", u8(1, 2, 6, 5), *a, scale(0.037), zero(118), kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])
contrib("QLinearAveragePool", u8(1, 6, 5, 2), *a, scale(0.037), zero(118), kernel_shape=[3, 2], channels_last=1, name="QLinearAveragePool, channels last")
contrib("QLinearGlobalAveragePool", u8(1, 3, 4, 5), *a, scale(0.02), zero(80))
contrib("QLinearGlobalAveragePool", u8(1, 4, 5, 3), *a, scale(0.02), zero(80), channels_last=1, name="QLinearGlobalAveragePool, channels last")
contrib("QLinearConcat", scale(0.06), zero(100), u8(2, 3), *a, u8(2, 2), *b, axis=1)
contrib("QLinearWhere", bools(2, 3), u8(2, 3), *a, u8(2, 3), *b, scale(0.06), zero(100))
contrib("QGemm", u8(3, 6), *a, i8(6, 4), floats(4, low=0.01, high=0.05), np.zeros(4, np.int8), ints(4, low=-900, high=900, dtype=np.int32), scale(0.3), zero(128), constants=(1, 2, 3, 4, 5, 6, 7, 8))
contrib("QGemm", u8(3, 6), *a, i8(4, 6), scale(0.02), zero(0, np.int8), transB=1, constants=(1, 2, 3, 4, 5), name="QGemm to floats")
contrib("MatMulIntegerToFloat", u8(3, 6), i8(6, 4), scale(0.05), floats(4, low=0.01, high=0.05), zero(120), np.zeros(4, np.int8), floats(4), constants=(1, 2, 3, 4, 5, 6))
contrib("DynamicQuantizeMatMul", floats(3, 6), i8(6, 4), floats(4, low=0.01, high=0.05), np.zeros(4, np.int8), floats(4), constants=(1, 2, 3, 4))

# ---------------------------------------------------------------- com.microsoft, fused
seed("contrib fused")
x, w = floats(1, 4, 6, 5), floats(3, 4, 3, 2)
for activation, parameters in (("Relu", []), ("Tanh", []), ("Sigmoid", []), ("LeakyRelu", [0.2]), ("Clip", [-1.0, 2.0]), ("HardSigmoid", [0.3, 0.4])):
    contrib("FusedConv", x, w, floats(3), constants=(1, 2), activation=activation, pads=[1, 0, 1, 1], name=f"FusedConv ({activation})", **({"activation_params": parameters} if parameters else {}))
contrib("FusedConv", x, w, floats(3), floats(1, 3, 4, 4), constants=(1, 2), activation="Relu", name="FusedConv with a sum")
nhwc = np.transpose(x, (0, 2, 3, 1)).copy()
bias = floats(3)
want = run_by_onnxruntime(helper.make_model(helper.make_graph(
    [helper.make_node("FusedConv", ["a", "b", "c"], ["y"], domain=CONTRIB, activation="Relu"), helper.make_node("Transpose", ["y"], ["z"], perm=[0, 2, 3, 1])],
    "g", [value("a", x), value("b", w), value("c", bias)], [helper.make_empty_tensor_value_info("z")]),
    opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid(CONTRIB, 1)], ir_version=10), {"a": x, "b": w, "c": bias})
contrib("NhwcFusedConv", nhwc, w, bias, constants=(1, 2), activation="Relu", expected=want)
weights = floats(1, 4, 3, 2)
contrib("NhwcConv", nhwc[:, :3, :2].copy(), weights, constants=(1,), expected=[np.einsum("bhwc,ochw->bo", nhwc[:, :3, :2], weights).reshape(1, 1, 1, 1)])
contrib("NhwcMaxPool", u8(1, 6, 5, 3), kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])
contrib("QLinearConv", u8(1, 6, 5, 4), *a, i8(3, 4, 3, 2), floats(3, low=0.01, high=0.05), np.zeros(3, np.int8), scale(0.4), zero(120), ints(3, low=-900, high=900, dtype=np.int32),
        constants=(1, 2, 3, 4, 5, 6, 7, 8), channels_last=1, pads=[1, 0, 1, 1], name="QLinearConv of com.microsoft, channels last")
contrib("QLinearConv", u8(1, 4, 6, 5), *a, i8(4, 1, 3, 2), scale(0.03), zero(2, np.int8), scale(0.1), zero(120), constants=(1, 2, 3, 4, 5, 6, 7), group=4, name="QLinearConv of com.microsoft, channels first")
contrib("ConvTransposeWithDynamicPads", floats(1, 2, 4, 4), floats(2, 3, 3, 3), i64(1, 0, 1, 1), floats(3), constants=(1, 2, 3), strides=[2, 2])
contrib("FusedGemm", floats(3, 4), floats(5, 4), floats(5), transB=1, alpha=0.5, activation="LeakyRelu", activation_alpha=0.1)
contrib("FusedGemm", floats(3, 4), floats(4, 5), activation="Relu", name="FusedGemm without C")
contrib("FusedMatMul", floats(2, 4, 3), floats(2, 5, 4), transA=1, transB=1, alpha=0.25)
contrib("FusedMatMul", floats(3, 2, 4), floats(5, 2, 4), transBatchA=1, transBatchB=1, transB=1, name="FusedMatMul, batches in the middle")
contrib("FusedMatMul", floats(4), floats(2, 4, 3), transA=1, name="FusedMatMul of a vector")
contrib("TransposeMatMul", floats(2, 4, 3), floats(2, 4, 5), transA=1)
fused = floats(3, 4), floats(4, 2)
contrib("FusedMatMulActivation", *fused, activation="Relu", expected=[np.maximum(fused[0] @ fused[1], 0)])
contrib("MatMulInteger16", ints(3, 4, low=-3000, high=3000, dtype=np.int16), ints(4, 2, low=-3000, high=3000, dtype=np.int16))
contrib("Gelu", floats(2, 5), name="Gelu of com.microsoft")
contrib("BiasGelu", floats(2, 5), floats(5))
contrib("FastGelu", floats(2, 5), floats(5))
contrib("FastGelu", floats(2, 5), name="FastGelu without bias")
contrib("QuickGelu", floats(2, 5), alpha=1.5)
contrib("QuickGelu", floats(2, 5), name="QuickGelu as usual")


def gelu(x):
    return run_by_onnxruntime(helper.make_model(helper.make_graph([helper.make_node("Gelu", ["x"], ["y"], domain=CONTRIB)], "g", [value("x", x)],
                              [helper.make_empty_tensor_value_info("y")]), opset_imports=[helper.make_opsetid(CONTRIB, 1)], ir_version=10), {"x": x})[0]


x, bias, skip = floats(1, 3, 4), floats(4), floats(1, 3, 4)
contrib("BiasSplitGelu", x, bias, expected=[(x + bias)[..., :2] * gelu((x + bias)[..., 2:].copy())])
contrib("BiasAdd", x, bias, skip, expected=[x + bias + skip])

runs("FusedMatMul of batches that may be 1", Node("FusedMatMul", ["a", "b"], ["y"], CONTRIB, alpha=0.5), [("n", 2, 4), ("m", 4, 3)], (floats(3, 2, 4), floats(3, 4, 3)), (floats(3, 2, 4), floats(1, 4, 3)),
     (floats(1, 2, 4), floats(3, 4, 3)),
     opset=21, domains=((CONTRIB, 1),))
runs("QLinearAdd of sizes that may be 1", Node("QLinearAdd", list("ahibhjhj"), ["y"], CONTRIB), [("n", 4), ("m", 4)], (u8(3, 4), u8(3, 4)), (u8(3, 4), u8(1, 4)), (u8(1, 4), u8(3, 4)),
     constants={"h": scale(0.05), "i": zero(120), "j": zero(7)}, opset=21, domains=((CONTRIB, 1),))

# ---------------------------------------------------------------- com.microsoft, normalisation
seed("contrib norms")
contrib("SkipLayerNormalization", floats(2, 3, 8), floats(2, 3, 8), floats(8), floats(8), floats(8), results=["y", "", "", "y3"], constants=(2, 3, 4), epsilon=1e-5)
contrib("SkipLayerNormalization", floats(2, 3, 8), floats(3, 8), floats(8), constants=(2,), name="SkipLayerNormalization of a broadcast skip")
contrib("SkipSimplifiedLayerNormalization", floats(2, 3, 8), floats(2, 3, 8), floats(8), floats(8), results=["y", "", "", "y3"], constants=(2, 3))
contrib("SkipSimplifiedLayerNormalization", floats(2, 3, 8), floats(2, 3, 8), floats(8), constants=(2,), name="SkipSimplifiedLayerNormalization without bias")
case("SimplifiedLayerNormalization", Node("SimplifiedLayerNormalization", ["x", "s"], ["y", "d"], axis=-1, epsilon=1e-6), {"x": floats(2, 3, 8), "s": floats(8)},
     outputs=("y", "d"), opset=13, domains=((CONTRIB, 1),))
case("LayerNormalization in an old operator set", Node("LayerNormalization", ["x", "s", "b"], ["y"], axis=-1), {"x": floats(2, 3, 8), "s": floats(8), "b": floats(8)},
     opset=13, domains=((CONTRIB, 1),))
x, gamma, beta, skip, bias = floats(1, 2, 2, 4), floats(4), floats(4), floats(1, 4), floats(4)


def grouped(x, gamma, beta, groups, silu):
    g = x.reshape(x.shape[0], -1, groups, x.shape[3] // groups).astype(np.float64)
    g = ((g - g.mean((1, 3), keepdims=True)) / np.sqrt(g.var((1, 3), keepdims=True) + 1e-5)).reshape(x.shape) * gamma + beta
    return (g / (1 + np.exp(-g)) if silu else g).astype(np.float32)


contrib("GroupNorm", x, gamma, beta, groups=2, activation=1, expected=[grouped(x, gamma, beta, 2, True)])
total = x + skip.reshape(1, 1, 1, 4) + bias
contrib("SkipGroupNorm", x, gamma, beta, skip, bias, groups=2, activation=0, results=2, expected=[grouped(total, gamma, beta, 2, False), total])
words = ints(2, 3, low=0, high=7, dtype=np.int32)
contrib("EmbedLayerNormalization", words, ints(2, 3, low=0, high=2, dtype=np.int32), floats(7, 4), floats(5, 4), floats(2, 4), floats(4), floats(4), np.array([[1, 1, 0], [1, 1, 1]], np.int32),
        results=3, constants=(2, 3, 4, 5, 6))
contrib("EmbedLayerNormalization", words, None, floats(7, 4), floats(5, 4), None, floats(4), floats(4), None, ints(2, 3, low=0, high=5, dtype=np.int32), results=2, constants=(2, 3, 5, 6),
        name="EmbedLayerNormalization at given positions")

# ---------------------------------------------------------------- com.microsoft, attention
seed("contrib attention")


def attention(name, op, *arrays, results=1, constants=(), **attributes):
    contrib(op, *arrays, results=results, constants=constants, name=f"{op} of com.microsoft{name}", **attributes)


x, w, bias = floats(2, 3, 8), floats(8, 24, low=-0.5, high=0.5), floats(24)
i32 = np.int32
attention("", "Attention", x, w, bias, num_heads=2)
attention(" with lengths", "Attention", x, w, bias, np.array([2, 3], i32), num_heads=2)
attention(" with ends and starts", "Attention", x, w, bias, np.array([2, 3, 0, 1], i32), num_heads=2)
attention(" with a mask of keys", "Attention", x, w, bias, np.array([[1, 0, 1], [1, 1, 0]], i32), num_heads=2, mask_filter_value=-3.0)
attention(" with a mask of pairs", "Attention", x, w, bias, ints(2, 3, 3, low=0, high=2, dtype=i32), num_heads=2)
attention(", causal", "Attention", x, w, bias, num_heads=2, unidirectional=1)
attention(" with a past", "Attention", x, w, bias, None, floats(2, 2, 2, 4, 4), num_heads=2, unidirectional=1, results=2)
attention(" with a bias", "Attention", x, w, bias, None, None, floats(2, 2, 3, 3), num_heads=2)
attention(" with a past and a mask", "Attention", x, w, bias, np.array([[1] * 5 + [0, 1], [0] + [1] * 6], i32), floats(2, 2, 2, 4, 4), num_heads=2, scale=0.3, results=2)
attention(" with wider values", "Attention", x, floats(8, 28, low=-0.5, high=0.5), floats(28), num_heads=2, qkv_hidden_sizes=[8, 8, 12])
attention("", "QAttention", u8(2, 3, 8), i8(8, 24), floats(24), scale(0.02), scale(0.01), np.array([2, 3], i32), zero(120), zero(0, np.int8), num_heads=2, constants=(1, 2, 3, 4, 6, 7))
attention(", causal with a past", "QAttention", u8(1, 3, 8), i8(8, 24), floats(24), scale(0.02), scale(0.01), None, zero(120), zero(3, np.int8), floats(2, 1, 2, 2, 4), num_heads=2,
          unidirectional=1, results=2, constants=(1, 2, 3, 4, 6, 7))
q, k, v = floats(2, 3, 8), floats(2, 5, 8), floats(2, 5, 12)
attention("", "MultiHeadAttention", q, k, v, num_heads=2)
attention(" with biases and lengths", "MultiHeadAttention", q, k, v, floats(28), np.array([2, 5], i32), num_heads=2)
attention(" with a mask and a bias", "MultiHeadAttention", q, k, v, None, np.array([[1, 0, 1, 1, 0], [1, 1, 0, 0, 1]], i32), floats(1, 2, 3, 5), num_heads=2, scale=0.4)
attention(" with a mask of pairs", "MultiHeadAttention", q, k, v, None, ints(2, 3, 5, low=0, high=2, dtype=i32), num_heads=2)
attention(" with a past", "MultiHeadAttention", q, floats(2, 3, 8), floats(2, 3, 8), None, None, None, floats(2, 2, 2, 4), floats(2, 2, 2, 4), num_heads=2, unidirectional=1, results=3)
attention(" of keys with split heads", "MultiHeadAttention", q, floats(2, 2, 5, 4), floats(2, 2, 5, 4), num_heads=2)
angles = np.outer(np.arange(9), [1.0, 0.3])
cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
contrib("RotaryEmbedding", floats(2, 3, 8), i64(4), cos, sin, constants=(2, 3), name="RotaryEmbedding of com.microsoft")
contrib("RotaryEmbedding", floats(2, 2, 3, 4), ints(2, 3, low=0, high=9), cos, sin, constants=(2, 3), interleaved=1, name="RotaryEmbedding of com.microsoft, interleaved")
contrib("RotaryEmbedding", floats(2, 3, 12), ints(2, 3, low=0, high=9), cos, sin, constants=(2, 3), num_heads=2, rotary_embedding_dim=4, name="RotaryEmbedding of com.microsoft, a part")
angles = np.outer(np.arange(9), [1.0, 0.8, 0.6, 0.4, 0.3, 0.2, 0.1, 0.05])
cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
lengths, whole = np.array([2, 2], i32), np.array(3, i32)
attention("", "GroupQueryAttention", floats(2, 3, 32), floats(2, 3, 16), floats(2, 3, 16), None, None, lengths, whole, num_heads=4, kv_num_heads=2, results=3)
attention(" with rotary positions", "GroupQueryAttention", floats(2, 3, 32), floats(2, 3, 16), floats(2, 3, 16), None, None, lengths, whole, cos, sin, num_heads=2, kv_num_heads=1, do_rotary=1, results=3)
attention(" of packed inputs", "GroupQueryAttention", floats(2, 3, 64), None, None, None, None, lengths, whole, cos, sin, num_heads=2, kv_num_heads=1, do_rotary=1, rotary_interleaved=1, softcap=5.0, results=3)
attention(" with a past", "GroupQueryAttention", floats(2, 1, 32), floats(2, 1, 16), floats(2, 1, 16), floats(2, 1, 4, 16), floats(2, 1, 4, 16), np.array([4, 4], i32), np.array(5, i32), cos, sin,
          num_heads=2, kv_num_heads=1, do_rotary=1, results=3)
# What lies behind a sequence's own keys is nobody's.
case("GroupQueryAttention of com.microsoft with pasts of different lengths",
     [Node("GroupQueryAttention", list("qkvcdntxz"), ["y", "keys", "values"], CONTRIB, num_heads=2, kv_num_heads=1, do_rotary=1),
      Node("Slice", ["keys", "from", "to", "axis"], ["y1"]), Node("Slice", ["values", "from", "to", "axis"], ["y2"])],
     {"q": floats(2, 1, 32), "k": floats(2, 1, 16), "v": floats(2, 1, 16), "c": floats(2, 1, 4, 16), "d": floats(2, 1, 4, 16), "n": np.array([4, 2], i32), "t": np.array(5, i32)},
     {"x": cos, "z": sin, "from": i64(0), "to": i64(3), "axis": i64(2)}, outputs=("y", "y1", "y2"), opset=21, domains=((CONTRIB, 1),))
attention(" with a window and several steps", "GroupQueryAttention", floats(1, 3, 32), floats(1, 3, 16), floats(1, 3, 16), floats(1, 2, 4, 8), floats(1, 2, 4, 8), np.array([6], i32), np.array(7, i32),
          num_heads=4, kv_num_heads=2, local_window_size=3, results=3)
attention(" with a sink and a bias", "GroupQueryAttention", floats(2, 3, 32), floats(2, 3, 16), floats(2, 3, 16), None, None, lengths, whole, None, None, None, floats(1, 4, 3, 3), floats(4),
          num_heads=4, kv_num_heads=2, scale=0.3, results=1)
attention(" with a smooth softmax", "GroupQueryAttention", floats(2, 3, 32), floats(2, 3, 16), floats(2, 3, 16), None, None, lengths, whole, num_heads=4, kv_num_heads=2, smooth_softmax=1)
runs("GroupQueryAttention with a cache of any length",
     Node("GroupQueryAttention", list("abcde") + ["f", "g"], ["y", "y1", "y2"], CONTRIB, num_heads=4, kv_num_heads=2),
     [("b", "s", 32), ("b", "s", 16), ("b", "s", 16), ("b", 2, "p", 8), ("b", 2, "p", 8), ("b",), ()],
     (floats(2, 1, 32), floats(2, 1, 16), floats(2, 1, 16), floats(2, 2, 4, 8), floats(2, 2, 4, 8), np.array([4, 4], i32), np.array(5, i32)),
     (floats(1, 3, 32), floats(1, 3, 16), floats(1, 3, 16), floats(1, 2, 0, 8), floats(1, 2, 0, 8), np.array([2], i32), np.array(3, i32)),
     (floats(1, 2, 32), floats(1, 2, 16), floats(1, 2, 16), floats(1, 2, 3, 8), floats(1, 2, 3, 8), np.array([4], i32), np.array(5, i32)),
     results=3, opset=21, domains=((CONTRIB, 1),))
runs("MultiHeadAttention of any length", Node("MultiHeadAttention", list("abc") + ["", "d", "", "e", "f"], ["y", "y1", "y2"], CONTRIB, num_heads=2, unidirectional=1),
     [("b", "s", 8), ("b", "s", 8), ("b", "s", 8), ("b", "t"), ("b", 2, "p", 4), ("b", 2, "p", 4)],
     (floats(2, 3, 8), floats(2, 3, 8), floats(2, 3, 8), np.array([[1, 1, 0, 1, 1], [1] * 5], i32), floats(2, 2, 2, 4), floats(2, 2, 2, 4)),
     (floats(1, 1, 8), floats(1, 1, 8), floats(1, 1, 8), np.array([[0, 1, 1, 1]], i32), floats(1, 2, 3, 4), floats(1, 2, 3, 4)),
     results=3, opset=21, domains=((CONTRIB, 1),))

# ---------------------------------------------------------------- com.microsoft, weights in blocks
seed("contrib blocks")
x = floats(2, 3, 40)
for bits in (4, 8):
    blob, rows = 32 * bits // 8, (3 * bits + 7) // 8
    contrib("MatMulNBits", floats(2, 3, 96), u8(5, 3, blob), floats(5, 3, low=0.01, high=0.1), constants=(1, 2), N=5, K=96, bits=bits, block_size=32, name=f"MatMulNBits of {bits} bits")
    contrib("MatMulNBits", floats(2, 80), u8(5, 3, blob), floats(5, 3, low=0.01, high=0.1), u8(5, rows), None, floats(5), constants=(1, 2, 3, 5), N=5, K=80, bits=bits, block_size=32,
            name=f"MatMulNBits of {bits} bits with zero points and a bias")
contrib("MatMulNBits", floats(2, 64), u8(5, 2, 16), floats(5, 2, low=0.01, high=0.1), floats(5, 2, low=0, high=15), constants=(1, 2, 3), N=5, K=64, bits=4, block_size=32, name="MatMulNBits with real zero points")
contrib("GatherBlockQuantized", u8(6, 16), ints(2, 2, low=0, high=6), floats(6, 2, low=0.01, high=0.1), constants=(0, 2), block_size=16)
contrib("GatherBlockQuantized", u8(6, 24), ints(3, low=0, high=6), floats(6, 3, low=0.01, high=0.1), u8(6, 2), constants=(0, 2, 3), block_size=16, name="GatherBlockQuantized with zero points")
x, w, r = floats(3, 2, 4), i8(1, 4, 12), i8(1, 3, 12)
ws, rs = floats(1, 12, low=0.005, high=0.01), floats(1, low=0.005, high=0.01)
real = [(w * ws.reshape(1, 1, 12)).transpose(0, 2, 1).astype(np.float32), (r * rs.reshape(1, 1, 1)).transpose(0, 2, 1).astype(np.float32), floats(1, 24)]
lstm = helper.make_model(helper.make_graph([helper.make_node("LSTM", ["x", "w", "r", "b"], ["y", "h", "c"], hidden_size=3)], "g",
                         [value(n, t) for n, t in zip("xwrb", [x] + real)], [helper.make_empty_tensor_value_info(n) for n in "yhc"]), opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
contrib("DynamicQuantizeLSTM", x, w, r, real[2], None, None, None, None, ws, np.zeros((1, 12), np.int8), rs, np.zeros(1, np.int8), hidden_size=3, results=3, constants=(1, 2, 3, 8, 9, 10, 11),
        expected=run_by_onnxruntime(lstm, dict(zip("xwrb", [x] + real))))

# ---------------------------------------------------------------- com.microsoft, other
seed("contrib other")
contrib("GridSample", floats(1, 2, 4, 4), floats(1, 3, 3, 2, low=-0.9, high=0.9), mode="bicubic", name="GridSample of com.microsoft")
contrib("Trilu", floats(3, 4), np.array(1, np.int64), upper=0, name="Trilu of com.microsoft")
contrib("Inverse", floats(2, 3, 3) + 4 * np.eye(3, dtype=np.float32))
contrib("Pad", floats(2, 3), i64(1, 0, 0, 2), f32(1.5), constants=(1,), name="Pad of com.microsoft")
contrib("CropAndResize", floats(2, 3, 5, 6), f32([0, 0, 1, 1], [0.2, 0.1, 0.7, 1.2], [0.9, 0.5, 0.1, 0.6]), np.array([1, 0, 1], i32), np.array([3, 4], i32), constants=(3,), extrapolation_value=0.5)
contrib("CropAndResize", floats(2, 3, 5, 6), f32([0, 0, 1, 1], [0.2, 0.12, 0.7, 0.95]), np.array([1, 0], i32), np.array([3, 4], i32), constants=(3,), mode="nearest", name="CropAndResize to the nearest")
contrib("ExpandDims", floats(2, 3), np.array(-1, i32))
contrib("Unique", f32(3, 1, 3, 2, 1, 3), results=3, name="Unique of com.microsoft")
contrib("Range", np.array(2, i32), np.array(9, i32), np.array(3, i32), name="Range of com.microsoft")
contrib("GatherND", floats(3, 4, 2), i64(0, 1, 2, 3).reshape(2, 2), name="GatherND of com.microsoft")
contrib("CDist", floats(3, 4), floats(2, 4), metric="euclidean")
contrib("QuantizeLinear", floats(2, 3), scale(0.001), zero(100, np.uint16), name="QuantizeLinear of com.microsoft to 16 bits")
contrib("DequantizeLinear", ints(2, 3, low=-3000, high=3000, dtype=np.int16), f32(0.001, 0.002, 0.003), np.array([5, -3, 0], np.int16), constants=(1, 2), axis=1, name="DequantizeLinear of com.microsoft along an axis")
contrib("NGramRepeatBlock", i64(1, 2, 3, 1, 2, 4, 4, 4, 4, 4).reshape(2, 5), floats(2, 6), ngram_size=3)
contrib("WordConvEmbedding", np.array([[1, 2, 3, 4, 2], [3, 2, 1, 0, 0]], i32), floats(4, 1, 3, 2), floats(4), floats(5, 2), constants=(1, 2, 3), embedding_size=4, conv_window_size=3, char_embedding_size=2)

# ---------------------------------------------------------------- parameters that are inputs
seed("run time")


def at_run_time(op, *arrays, name="", **keywords):
    one(op, *arrays, name=f"{op}{name} at run time", **keywords)


at_run_time("Squeeze", floats(1, 3, 1, 2), i64(-2, 0))
at_run_time("Unsqueeze", floats(3, 2), i64(3, 0))
at_run_time("Reshape", floats(2, 3, 4), i64(0, -1, 2), name=" with rests")
at_run_time("Slice", floats(4, 6), i64(-1, 5), i64(-9, 1), i64(0, -1), i64(-2, -3), name=" backwards over axes")
at_run_time("Split", floats(2, 6), i64(1, 3, 2), axis=1, results=3)
at_run_time("Expand", floats(3, 1), i64(2, 1, 4))
at_run_time("Pad", floats(2, 3), i64(1, 2), f32(1.5).reshape(()), i64(-1), name=" along an axis")
for mode in ("reflect", "edge", "wrap"):
    at_run_time("Pad", floats(3, 4), i64(1, 2, 1, 1), mode=mode, name=f" ({mode})")
at_run_time("Trilu", floats(3, 4), np.array(1, np.int64), upper=0)
at_run_time("CumSum", floats(2, 4), np.array(0, np.int64), reverse=1)
at_run_time("CumProd", floats(2, 4), np.array(-1, np.int64), exclusive=1)
for op in ("ReduceMax", "ReduceMean", "ReduceLogSumExp"):
    at_run_time(op, floats(2, 3, 4), i64(2, 0), keepdims=0)
at_run_time("CenterCropPad", floats(5, 3), i64(3, 4))
at_run_time("Col2Im", floats(1, 4, 4), i64(3, 3), i64(2, 2))
at_run_time("Resize", floats(1, 1, 2, 3), None, f32(1, 1, 2, 2), mode="nearest", name=" by scales")
at_run_time("Resize", floats(1, 1, 4, 5), None, None, i64(1, 1, 3, 7), mode="cubic", exclude_outside=1, name=" to sizes")
one("Resize", floats(1, 1, 4, 5), None, None, i64(1, 1, 2, 3), mode="linear", antialias=1, constants=(3,), name="Resize without aliasing")
at_run_time("HannWindow", np.array(7, np.int64))
at_run_time("DFT", floats(2, 4, 2), None, np.array(0, np.int64))
at_run_time("STFT", floats(1, 10, 1), np.array(3, np.int64), floats(4, low=0.2))
at_run_time("Dropout", floats(2, 3), f32(0.5).reshape(()), np.array(False), results=2)

# ---------------------------------------------------------------- sequences, optionals
seed("sequences")
x, y = floats(2, 3), floats(1, 3)


def sequences(name, nodes, inputs, constants=(), opset=LATEST, **keywords):
    case(name, nodes, inputs, constants, opset=opset, **keywords)


sequences("SequenceInsert, SequenceErase, ConcatFromSequence",
          [Node("SequenceEmpty", [], ["none"]), Node("SequenceInsert", ["none", "a"], ["s1"]), Node("SequenceInsert", ["s1", "b", "zero"], ["s2"]),
           Node("SequenceConstruct", ["a", "b", "a"], ["s3"]), Node("SequenceErase", ["s3", "last"], ["s4"]),
           Node("ConcatFromSequence", ["s2"], ["c2"], axis=0), Node("ConcatFromSequence", ["s4"], ["c4"], axis=0),
           Node("Concat", ["c2", "c4"], ["y"], axis=0)],
          {"a": x, "b": y}, {"zero": np.array(0, np.int64), "last": np.array(-1, np.int64)})
sequences("SplitToSequence, SequenceAt, SequenceLength",
          [Node("SplitToSequence", ["a", "sizes"], ["s"], axis=1), Node("SequenceAt", ["s", "at"], ["y"]), Node("SequenceLength", ["s"], ["y1"])],
          {"a": floats(2, 6), "sizes": i64(1, 3, 2), "at": np.array(-2, np.int64)}, outputs=("y", "y1"))
sequences("SplitToSequence without axis, stacked",
          [Node("SplitToSequence", ["a"], ["s"], axis=0, keepdims=0), Node("ConcatFromSequence", ["s"], ["y"], axis=-1, new_axis=1)], {"a": floats(3, 2)})
sequences("SequenceMap", [Node("SplitToSequence", ["a"], ["s"], axis=0),
                          Node("SequenceMap", ["s", "b"], ["m"], body=Graph([Node("Mul", ["u", "v"], ["w"])], [("u", y), ("v", y)], [("w", y)])),
                          Node("ConcatFromSequence", ["m"], ["y"], axis=0)], {"a": x, "b": y})
sequences("Optional", [Node("Optional", ["a"], ["o"]), Node("OptionalHasElement", ["o"], ["y"]), Node("OptionalGetElement", ["o"], ["y1"])], {"a": x}, outputs=("y", "y1"),
          expected=[np.array(True), x])
at = np.array(0, np.int64)
sequences("Sequence at a position outside", [Node("SequenceConstruct", ["a"], ["s"]), Node("SequenceAt", ["s", "at"], ["y"])], {"a": x, "at": at + 1}, refused="T0521", expected=[x])

# ---------------------------------------------------------------- strings
seed("strings")


def texts(*t):
    return np.array(t, dtype=object)


one("StringConcat", texts("ab", "c", ""), texts("x"))
one("StringSplit", texts("a-b-c", "d", ""), delimiter="-", maxsplit=1, results=2)
one("StringNormalizer", texts("Monday", "tuesday", "ÄRA"), opset=10, case_change_action="LOWER", is_case_sensitive=0, stopwords=["monday"], expected=[texts("tuesday", "ära")])
one("RegexFullMatch", texts("abc12", "abc", "xabc1"), pattern="[a-c]+\\d*", expected=[np.array([True, True, False])])
for name, given, how in (
        ("at separators", texts("a,b  c", "", "d e;f", "ä ö"), {"separators": ["[,;]", " "]}),
        ("at separators in order", texts("aXYbX", "XYX"), {"separators": ["XY", "X"], "mark": 1}),
        ("by an expression", texts("ab aab", "12 abab", "it's b"), {"tokenexp": "(a|ab)+|[[:digit:]]", "mark": 1}),
        ("of words", texts("Hello, world 42", "it's so").reshape(1, 2), {"tokenexp": "\\b\\w\\w+\\b", "mincharnum": 2}),
        ("of characters", texts("äb\nc", "x"), {"separators": [""], "mark": 1}),
        ("of nothing", texts("--", ""), {"separators": ["-"], "mark": 1})):
    contrib("Tokenizer", given, constants=[], name=f"Tokenizer {name}", **{"pad_value": "#", "mincharnum": 1, "mark": 0, **how})
one("Equal", texts("a", "b"), texts("a"), name="Equal of strings")
one("Gather", texts("a", "b", "c"), i64(2, 0), name="Gather of strings")
case("Strings that move", [Node("Concat", ["a", "c"], ["j"], axis=0), Node("Reshape", ["j", "shape"], ["m"]), Node("Transpose", ["m"], ["y"]), Node("Shape", ["m"], ["y1"])],
     {"a": texts("p", "q")}, {"c": texts("r", "s"), "shape": i64(2, 2)}, outputs=("y", "y1"))
one("TfIdfVectorizer", i64(1, 2, 1, 2, 3).reshape(1, 5), min_gram_length=1, max_gram_length=2, max_skip_count=1, mode="TFIDF", ngram_counts=[0, 2], ngram_indexes=[0, 1, 2, 3],
    pool_int64s=[1, 2, 1, 2, 2, 3], weights=[0.5, 1.0, 2.0, 3.0])
pixels = generator.integers(0, 256, (2, 3, 3)).astype(np.uint8)
rows = b"".join(row[:, ::-1].tobytes() + bytes(3) for row in pixels[::-1])
bitmap = b"BM" + (54 + len(rows)).to_bytes(4, "little") + bytes(4) + (54).to_bytes(4, "little") + (40).to_bytes(4, "little") + (3).to_bytes(4, "little") + \
    (2).to_bytes(4, "little") + (1).to_bytes(2, "little") + (24).to_bytes(2, "little") + bytes(24) + rows
one("ImageDecoder", np.frombuffer(bitmap, np.uint8), pixel_format="BGR", expected=[pixels[:, :, ::-1]])

# ---------------------------------------------------------------- ai.onnx.ml


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

# ---------------------------------------------------------------- where ONNX Runtime is the authority
seed("by ONNX Runtime")


def by_onnxruntime(nodes, *arrays, constants=(), results=1, domains=()):
    """Inputs and results of a run, as ONNX Runtime has them."""
    inputs, outputs = dict(zip("abcdefghijkl", arrays)), ["y" + (str(k) if k else "") for k in range(results)]
    nodes = nodes if isinstance(nodes, list) else [nodes]
    graph = helper.make_graph([node_proto(n) for n in nodes], "g", [value(n, a) for n, a in inputs.items()],
                              [helper.make_empty_tensor_value_info(n) for n in outputs], [numpy_helper.from_array(a, n) for n, a in dict(constants).items()])
    imports = [helper.make_opsetid(d, v) for d, v in {"": LATEST, **dict(domains)}.items()]
    return expected(run_by_onnxruntime(helper.make_model(graph, opset_imports=imports, ir_version=10), inputs), *arrays)


def line_of(n):
    return np.arange(n, dtype=np.float32)


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
def misfit(name, node, sizes, fits, *others, **keywords):
    runs(name, node, sizes, fits, *(refused("T0501", *o) for o in others), **keywords)


misfit("OneHot of three values", Node("OneHot", ["a", "d", "b"], ["y"]), [(2,), ("N",)], (i64(0, 2), floats(2)), (i64(0, 2), floats(3)), constants={"d": np.array(3)})
misfit("TensorScatter of rows that do not fit", Node("TensorScatter", ["a", "b"], ["y"], axis=1), [(2, 4, 3), ("N", 2, "M")], (floats(2, 4, 3), floats(2, 2, 3)),
       (floats(2, 4, 3), floats(3, 2, 3)), (floats(2, 4, 3), floats(2, 2, 4)))
deformed = Node("DeformConv", ["a", "w", "b", "", "c"], ["y"])
misfit("DeformConv of batches that do not fit", deformed, [("N", 1, 3, 3), ("M", 8, 2, 2), ("K", 4, 2, 2)], (floats(2, 1, 3, 3), floats(2, 8, 2, 2), floats(2, 4, 2, 2)),
       (floats(1, 1, 3, 3), floats(2, 8, 2, 2), floats(2, 4, 2, 2)), (floats(2, 1, 3, 3), floats(2, 8, 2, 2), floats(1, 4, 2, 2)), constants={"w": floats(1, 1, 2, 2)})
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
zeros = [Node("Shape", ["a"], ["n"], start=1, end=2), Node("Concat", ["copied", "one", "n", "four"], ["s"], axis=0), Node("Reshape", ["a", "s"], ["y"])]
runs("Reshape that copies sizes which the run finds to be 0", zeros, [("N", "N", 4)], (floats(3, 3, 4),), (floats(0, 0, 4),), constants={"copied": i64(0), "one": i64(1), "four": i64(4)})
data = floats(3, 2)
one("Compress", data, np.array([1, 0, 1, 1, 0], bool), axis=0, name="Compress by more conditions than rows", expected=[data[[0, 2]]])
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

# Attention to part of the keys.
seed("Attention of part of the keys")
qkv = floats(2, 2, 3, 4), floats(2, 2, 5, 4), floats(2, 2, 5, 4)
one("Attention", *qkv, left_window_size=1, right_window_size=0, name="Attention in a window")
one("Attention", *qkv, floats(2, 1, 3, 7), floats(2, 2, 2, 4), floats(2, 2, 2, 4), left_window_size=2, is_causal=1, results=3, name="Attention in a window, causal with a past and a mask")
one("Attention", *qkv, None, None, None, i64(2, 5), is_causal=1, name="Attention, causal over padded keys")
one("Attention", *qkv, floats(3, 1), name="Attention with a mask of one key")
one("Attention", *qkv, floats(2, 1, 3, 4), None, None, i64(3, 2), name="Attention with a short mask over padded keys")
for kind, mask in (("floats", floats), ("truth", bools)):
    runs(f"Attention with a mask of {kind} for batches of its own", Node("Attention", ["a", "b", "b", "c"], ["y"]), [("N", 2, "L", 4), ("N", 2, "K", 4), ("M", 1, "L", "P")],
         *((floats(n, 2, 3, 4), floats(n, 2, 5, 4), mask(m, 1, 3, p)) for n, m, p in ((2, 2, 5), (2, 1, 5), (1, 1, 5), (3, 1, 4), (2, 2, 1))),
         refused("T0501", floats(1, 2, 3, 4), floats(1, 2, 5, 4), mask(2, 1, 3, 5)), refused("T0501", floats(2, 2, 3, 4), floats(2, 2, 5, 4), mask(2, 1, 3, 6)))
# Experts, and weights of four bits.
seed("experts")


def experts(name, *arrays, **attributes):
    contrib("MoE", *arrays, constants=range(2, len(arrays)), name=f"MoE {name}", **attributes)


tokens, routes = floats(5, 8), floats(5, 4)
for kind in ("relu", "gelu", "silu", "identity"):
    experts(f"with {kind}", tokens, routes, floats(4, 6, 8), floats(4, 6), floats(4, 8, 6), floats(4, 8), activation_type=kind, k=2, normalize_routing_weights=int(kind == "relu"))
experts("of one best expert for sequences", floats(2, 3, 8), floats(6, 4), floats(4, 6, 8), None, floats(4, 8, 6))
for name, attributes in (("", {}), (", bounded", {"activation_alpha": 1.5, "activation_beta": 1.0, "swiglu_limit": 0.75})):
    experts(f"with gates{name}", tokens, routes, floats(4, 12, 8), floats(4, 12), floats(4, 8, 6), floats(4, 8), activation_type="swiglu", swiglu_fusion=1, k=2, **attributes)
for name, bits, block, zeros in (("4 bits", 4, 0, False), ("4 bits in blocks", 4, 16, False), ("4 bits in blocks with zero points", 4, 16, True), ("2 bits in blocks", 2, 16, False)):
    units, width, parts = 16, 16, (lambda depth: (depth // block,) if block else ())
    packed = lambda *shape: generator.integers(0, 256, shape).astype(np.uint8)
    scales = lambda rows, depth: floats(3, rows, *parts(depth), low=0.02, high=0.1)
    inputs = [floats(4, width), floats(4, 3), packed(3, 2 * units, width * bits // 8), scales(2 * units, width), floats(3, 2 * units), packed(3, width, units * bits // 8), scales(width, units), floats(3, width)]
    if zeros:
        inputs += [None, None, None, packed(3, 2 * units, 1), packed(3, width, 1)]
    contrib("QMoE", *inputs, constants=[i for i in range(2, len(inputs)) if inputs[i] is not None], name=f"QMoE of {name}", activation_type="swiglu", swiglu_fusion=1, k=2, expert_weight_bits=bits,
            normalize_routing_weights=1, **({"block_size": block} if block else {}))
runs("MoE of any number of rows", Node("MoE", ["a", "b", "w", "", "v"], ["y"], CONTRIB, k=2), [("N", 4), ("N", 3)], *((floats(n, 4), floats(n, 3)) for n in (1, 4)),
     constants={"w": floats(3, 5, 4), "v": floats(3, 4, 5)}, domains=((CONTRIB, 1),), opset=21)
for kind, name in ((0, "floats"), (1, "quantiles")):
    contrib("MatMulBnb4", floats(2, 20), generator.integers(0, 256, 30).astype(np.uint8), floats(4, low=0.5, high=2), constants=[1, 2], name=f"MatMulBnb4 of {name}", K=20, N=3, block_size=16, quant_type=kind)
contrib("UnfoldTensor", floats(2, 7, 3), name="UnfoldTensor", constants=[], dim=1, size=3, step=2)
short = [refused("T0501", floats(1, 2))]
runs("UnfoldTensor of any length", Node("UnfoldTensor", ["a"], ["y"], CONTRIB, dim=-1, size=3, step=2), [(1, "N")], *((floats(1, n),) for n in (3, 4, 9)), *short, domains=((CONTRIB, 1),), opset=21)
bytes_of = lambda *shape: generator.integers(0, 256, shape).astype(np.uint8)
ids = np.array([[1, 2, 0], [3, 0, 1]], np.int32)
tables = [bytes_of(5, 8), bytes_of(4, 8), bytes_of(2, 8), bytes_of(8), bytes_of(8)]
steps = [scale(s) for s in (0.02, 0.03, 0.01, 0.05, 0.04)] + [np.array(z, np.uint8) for z in (120, 130, 127, 110, 140)]
contrib("QEmbedLayerNormalization", ids, ids % 2, *tables, ids % 2, *steps, constants=[*range(2, 7), *range(8, 18)], name="QEmbedLayerNormalization", results=2)
contrib("LinearAttention", floats(1, 4, 6), floats(1, 4, 6), floats(1, 4, 6), None, -np.abs(floats(1, 4, 2)), np.abs(floats(1, 4, 2)), constants=[], name="LinearAttention of com.microsoft", q_num_heads=2,
        kv_num_heads=2, update_rule="gated_delta", results=2)
contrib("CausalConvWithState", floats(2, 4, 6), floats(4, 1, 3), floats(4), floats(2, 4, 2), constants=[], name="CausalConvWithState of com.microsoft", activation="silu", results=2)

# What stands around linear attention, and rotary positions of images.
seed("gates")
for kind in ("silu", "sigmoid"):
    contrib("GatedRMSNorm", floats(2, 3, 8), floats(4), floats(2, 3, 8), constants=[1], name=f"GatedRMSNorm with {kind}", activation=kind, epsilon=1e-4)
for name, shape, weight, branches in (("of parts", (3, 8), (4,), 2), ("of parts with a scale for each", (3, 8), (2, 4), 2), ("of groups", (3, 2, 4), (8,), 0), ("of groups with one scale", (3, 2, 4), (4,), 0)):
    contrib("BranchwiseRMSNorm", floats(*shape), floats(*weight), constants=[1], name=f"BranchwiseRMSNorm {name}", num_branches=branches)
contrib("LinearAttentionGate", floats(1, 3, 4), floats(4), floats(4), floats(1, 3, 4), constants=[1, 2], name="LinearAttentionGate", results=2)
contrib("GatedAdd", floats(2, 3), floats(2, 3), floats(2, 1), constants=[], name="GatedAdd")
contrib("ScaledSiLU", floats(2, 3), constants=[], name="ScaledSiLU", alpha=1.5)
places = ints(3, 2, 3, low=0, high=10)
for layout, sections in ((0, [1, 2, 1]), (1, [1, 2, 1]), (1, [2, 1, 1])):
    contrib("MRotaryEmbedding", floats(2, 2, 3, 8), places, floats(10, 4), floats(10, 4), constants=[2, 3], name=f"MRotaryEmbedding, layout {layout}, sections {sections}", mrope_layout=layout, mrope_section=sections,
            interleaved=layout)
contrib("MRotaryEmbedding", floats(2, 3, 24), places, floats(10, 4), floats(10, 4), constants=[2, 3], name="MRotaryEmbedding of part of a head", mrope_section=[1, 2, 1], rotary_embedding_dim=8, num_heads=2)
# ONNX Runtime has normalised queries on other processors only.
grouped = {"num_heads": 2, "kv_num_heads": 1, "do_rotary": 1}
q, k, v, q_scale, k_scale = floats(2, 3, 32), floats(2, 3, 16), floats(2, 3, 16), floats(16), floats(16)
ends, end, cos, sin = np.array([2, 2], np.int32), np.array(3, np.int32), floats(8, 8), floats(8, 8)
over = lambda x, w: (x.reshape(2, 3, -1, 16) / np.sqrt((x.reshape(2, 3, -1, 16) ** 2).mean(-1, keepdims=True) + 1e-3) * w).astype(np.float32).reshape(x.shape)
given = {"a": over(q, q_scale), "b": over(k, k_scale), "c": v, "d": ends, "e": end, "f": cos, "g": sin}
by_hand = evaluated([Node("GroupQueryAttention", ["a", "b", "c", "", "", "d", "e", "f", "g"], ["y", "y1", "y2"], CONTRIB, **grouped)], given, {}, ("y", "y1", "y2"), 21, ((CONTRIB, 1),))
contrib("GroupQueryAttention", q, k, v, None, None, ends, end, cos, sin, None, None, None, None, None, q_scale, k_scale, constants=[6, 7, 8, 14, 15], name="GroupQueryAttention of normalised queries", qk_norm_epsilon=1e-3,
        results=3, expected=by_hand, **grouped)

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

PAGE = pathlib.Path(__file__).resolve().parent / "samples.json"
PAGE.write_text("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")
print(f"{len(cases)} cases, {PAGE.stat().st_size} bytes")
