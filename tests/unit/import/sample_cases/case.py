# SPDX-License-Identifier: Apache-2.0
"""What a case of samples.json is made of: drawn values, nodes and graphs, expected outputs, the records."""
import warnings
import zlib

import numpy as np
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


def u8(*shape):
    return ints(*shape, low=0, high=256, dtype=np.uint8)


def i8(*shape):
    return ints(*shape, low=-127, high=128, dtype=np.int8)


def line_of(n):
    return np.arange(n, dtype=np.float32)


def texts(*t):
    return np.array(t, dtype=object)


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


def by_onnxruntime(nodes, *arrays, constants=(), results=1, domains=()):
    """Inputs and results of a run, as ONNX Runtime has them."""
    inputs, outputs = dict(zip("abcdefghijkl", arrays)), ["y" + (str(k) if k else "") for k in range(results)]
    nodes = nodes if isinstance(nodes, list) else [nodes]
    graph = helper.make_graph([node_proto(n) for n in nodes], "g", [value(n, a) for n, a in inputs.items()],
                              [helper.make_empty_tensor_value_info(n) for n in outputs], [numpy_helper.from_array(a, n) for n, a in dict(constants).items()])
    imports = [helper.make_opsetid(d, v) for d, v in {"": LATEST, **dict(domains)}.items()]
    return expected(run_by_onnxruntime(helper.make_model(graph, opset_imports=imports, ir_version=10), inputs), *arrays)


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


def contrib(op, *arrays, constants=None, opset=21, **keywords):
    """Scales and zero points, and what else is a parameter, are the model's own."""
    held = [i for i, a in enumerate(arrays) if a is not None and a.ndim == 0] if constants is None else constants
    keywords.setdefault("name", f"{op} of com.microsoft" if op in names else op)
    one(op, *arrays, constants=held, domain=CONTRIB, opset=opset, **keywords)


def seed(text):
    """Cases of a group have data of their own: a new case elsewhere does not change them."""
    global generator
    generator = np.random.default_rng(zlib.crc32(text.encode()))
