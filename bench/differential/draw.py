# SPDX-License-Identifier: Apache-2.0
"""Typed random ONNX models: a node is drawn, run by ONNX Runtime on values at the first sizes, and kept when it is valid."""
import dataclasses
import itertools
import random

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

FLOATS = ("float32", "float32", "float32", "float64", "float16")
INTEGERS = ("int64", "int64", "int32", "int8", "uint8", "int16", "uint16", "uint32", "uint64")
OPSETS = (13, 17, 18, 19, 21, 22, 23, 24, 26)
VERSIONS = {"com.microsoft": 1, "ai.onnx.ml": 3}
SIZES = (2, 3, 4, 5, 7)
LATER_SIZES = (0, 1, 1, 1, 2, 3, 6, 9, 17)
OPERATORS = {}


class Refused(Exception):
    """ONNX Runtime does not take this node, or no operand fits."""


@dataclasses.dataclass(eq=False)
class Value:
    """A value of the graph at the first sizes. `exact`: every correct implementation gives the same bits."""
    name: str
    array: np.ndarray
    exact: bool
    node: object = None

    @property
    def shape(self):
        return self.array.shape

    @property
    def rank(self):
        return self.array.ndim

    @property
    def dtype(self):
        return self.array.dtype.name


@dataclasses.dataclass(eq=False)
class Input:
    """An input: sizes are numbers or names; elements lie in [low, high], floats are multiples of `step`; or they are `data`."""
    name: str
    dtype: str
    sizes: tuple
    low: float
    high: float
    step: float
    data: np.ndarray | None = None

    def draw(self, sizes, generator):
        if self.data is not None:
            return self.data
        shape = [sizes.get(s, s) for s in self.sizes]
        if self.dtype == "bool":
            return generator.integers(0, 2, shape).astype(bool)
        count = round((self.high - self.low) / self.step)
        return np.asarray(self.low + self.step * generator.integers(0, count + 1, shape)).astype(self.dtype)


def operator(*names, weight=1):
    """Registers the function below it as what draws nodes of these operators; it is called with a Draw and a name."""
    def register(function):
        for name in names:
            OPERATORS[name] = (function, weight)
        return function
    return register


def session_of(model, level="ORT_DISABLE_ALL"):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def value_info(name, dtype, shape):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)


def outer_names(graph):
    """Names that the nodes of a body take from outside of it."""
    inside = {i.name for i in graph.input} | {i.name for i in graph.initializer}
    names = set()
    for node in graph.node:
        names |= {i for i in node.input if i} - inside
        for a in node.attribute:
            if a.type == onnx.AttributeProto.GRAPH:
                names |= outer_names(a.g) - inside
        inside |= set(node.output)
    return names | ({o.name for o in graph.output} - inside)


def domains_of(graph):
    """Domains of the operators of a graph and of its bodies."""
    return {n.domain for n in graph.node}.union(*(domains_of(a.g) for n in graph.node for a in n.attribute if a.type == onnx.AttributeProto.GRAPH))


class Draw:
    """A graph in the making, or the body of a control-flow node of `outer`."""

    def __init__(self, seed, outer=None):
        self.outer = outer
        self.rng = outer.rng if outer else random.Random(seed)
        self.opset = outer.opset if outer else self.rng.choice(OPSETS)
        self.numbers = outer.numbers if outer else itertools.count()
        self.generator = outer.generator if outer else np.random.default_rng(seed)
        names = self.rng.sample("NMKL", self.rng.choice((0, 1, 2, 2, 3))) if not outer else ()
        self.sizes = outer.sizes if outer else dict(zip(names, self.rng.sample(SIZES, len(names))))
        self.nodes, self.inputs, self.initializers, self.values = [], [], [], []

    def name(self, kind="v"):
        return f"{kind}{next(self.numbers)}"

    def chance(self, p):
        return self.rng.random() < p

    # ---- operands

    def visible(self):
        return self.values + (self.outer.visible() if self.outer else [])

    def value_of(self, name):
        return next(v for v in self.visible() if v.name == name)

    def root(self):
        return self.outer.root() if self.outer else self

    def const(self, array):
        array = np.asarray(array)
        value = Value(self.name("c"), array, array.dtype.kind != "f" or bool(np.all(array * 1024 == np.round(array * 1024))))
        self.initializers.append(numpy_helper.from_array(value.array, value.name))
        self.values.append(value)
        return value

    def param(self, values, dtype="int64", run_time=0.12):
        """A constant that says how an operator works, now and then an input of the model."""
        array = np.asarray(values, dtype)
        if not self.chance(run_time):
            return self.const(array)
        return self.input(array.dtype.name, array.shape, data=array)

    def input(self, dtype, shape, low=None, high=None, step=None, data=None, named=0.75, fixed=0):
        """A new input of the model; some of its sizes get names, but none of the last `fixed`, or of those axes."""
        root = self.root()
        kind = np.dtype(dtype).kind
        low = {"u": 0, "i": -4, "b": 0}.get(kind, -2) if low is None else low
        high = {"u": 6, "i": 5, "b": 1}.get(kind, 2) if high is None else high
        step = {"f": 0.25}.get(kind, 1) if step is None else step
        held = range(len(shape) - fixed, len(shape)) if isinstance(fixed, int) else fixed
        sizes = [next((n for n, v in root.sizes.items() if k not in held and v == s and self.chance(named)), s) for k, s in enumerate(shape)]
        one = Input(self.name("x"), dtype, tuple(shape if data is not None else sizes), low, high, step, data)
        root.inputs.append(one)
        steps = np.asarray(one.data if one.data is not None else (one.low, one.step))
        exact = kind != "f" or bool(np.all(steps * 1024 == np.round(steps * 1024)))
        value = Value(one.name, one.draw(root.sizes, self.generator), exact)
        root.values.append(value)
        return value

    def shape(self, low=0, high=4):
        rank = self.rng.choice([r for r in (0, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5) if low <= r <= high] or [low])
        choices = list(self.root().sizes.values()) * 3 + [1, 2, 3, 4]
        return tuple(self.rng.choice(choices) for _ in range(rank))

    def fresh(self, dtype, shape, **bounds):
        """A new input, or a constant of the same kind."""
        if self.chance(0.7):
            return self.input(dtype, shape, **bounds)
        value = self.input(dtype, shape, **bounds)
        one = self.root().inputs.pop()
        self.root().values.remove(value)
        return self.const(one.draw(self.root().sizes, self.generator))

    def pick(self, types=FLOATS, low=0, high=4, fits=None, exact=False, reuse=0.8, **bounds):
        """A value of one of the types and of a rank from low to high, mostly one that is there."""
        types = (types,) if isinstance(types, str) else types
        found = [v for v in self.visible() if v.dtype in types and low <= v.rank <= high and v.array.size <= 4000
                 and (v.exact or not exact) and (fits is None or fits(v))]
        if found and self.chance(reuse):
            return self.rng.choice(found[-6:] if self.chance(0.6) else found)
        for _ in range(20):
            shape = self.shape(low, high)
            if fits is None or fits(Value("", np.zeros(shape, types[0]), True)):
                return self.fresh(self.rng.choice(types), shape, **bounds)
        raise Refused("no operand")

    def partner(self, a, types=None, **bounds):
        """An operand that broadcasts with a."""
        types = types or (a.dtype,)

        def fits(v):
            try:
                return np.broadcast_shapes(v.shape, a.shape) is not None
            except ValueError:
                return False
        found = [v for v in self.visible() if v.dtype in types and fits(v)]
        if found and self.chance(0.5):
            return self.rng.choice(found)
        shape = [1 if self.chance(0.25) else s for s in a.shape][self.rng.choice((0, 0, 0, 1, 2)):]
        if self.chance(0.1):
            shape = [self.rng.choice(SIZES) if s == 1 and self.chance(0.5) else s for s in shape]
        return self.fresh(self.rng.choice(types), shape, **bounds)

    def axis(self, v, more=0):
        """An axis of v, counted from either end."""
        rank = v.rank + more
        if not rank:
            raise Refused("no axis")
        return self.rng.randrange(-rank, rank)

    def axes(self, v, low=0):
        chosen = self.rng.sample(range(v.rank), self.rng.randint(min(low, v.rank), v.rank))
        return [a - v.rank if self.chance(0.4) else a for a in chosen]

    # ---- nodes

    def emit(self, op, inputs, outputs=1, exact=False, domain="", **attributes):
        """Adds a node when ONNX Runtime runs it, and gives its results. `exact`: exact operands give exact results."""
        names = [self.name() for _ in range(outputs)]
        return self.chain([(op, inputs, names, attributes, domain)], names, exact)

    def chain(self, steps, results, exact=False):
        """Adds nodes (operator, operands, names of results, attributes, domain or nothing) of which only these results are tensors."""
        nodes, operands = [], {}
        for op, inputs, outputs, attributes, *domain in steps:
            names = ["" if i is None else i.name if isinstance(i, Value) else i for i in inputs]
            attributes = {k: v for k, v in attributes.items() if v is not None}
            nodes.append(helper.make_node(op, names, outputs, name=self.name(op.lower()), domain="".join(domain), **attributes))
            captured = set().union(*(outer_names(a.g) for a in nodes[-1].attribute if a.type == onnx.AttributeProto.GRAPH))
            operands |= {v.name: v for v in [*inputs, *(self.value_of(n) for n in captured)] if isinstance(v, Value)}
        arrays = self.evaluate(nodes, operands, results)
        if any(a.size > 20000 for a in arrays):
            raise Refused("large")
        whole = exact and all(v.exact for v in operands.values())
        values = [Value(n, a, whole or a.dtype.kind in "iubO", nodes[-1]) for n, a in zip(results, arrays)]
        for v in values:
            if v.array.dtype.kind == "f" and v.array.size:
                top = np.max(np.abs(np.where(np.isfinite(v.array), v.array, 0).astype(np.float64)))
                if top > (200 if v.dtype == "float16" else 1e5):
                    raise Refused("large values")
                v.exact = v.exact and bool(np.all(np.isfinite(v.array)))
        self.nodes += nodes
        self.values += values
        return values

    def evaluate(self, nodes, operands, results):
        constants = {i.name for i in self.all_initializers()}
        graph = helper.make_graph(nodes, "g", [value_info(n, v.dtype, v.shape) for n, v in operands.items() if n not in constants],
                                  [helper.make_empty_tensor_value_info(o) for o in results],
                                  [i for i in self.all_initializers() if i.name in operands])
        try:
            session = session_of(self.wrap(graph).SerializeToString())
            return [np.asarray(r) for r in session.run(None, {n: v.array for n, v in operands.items() if n not in constants})]
        except Exception as e:
            raise Refused(str(e)) from None

    def all_initializers(self):
        return self.initializers + (self.outer.all_initializers() if self.outer else [])

    def wrap(self, graph):
        imports = {"": self.opset, **{d: VERSIONS[d] for d in sorted(domains_of(graph)) if d}}
        return helper.make_model(graph, opset_imports=[helper.make_opsetid(d, v) for d, v in imports.items()], ir_version=10)

    def body(self, inputs, outputs):
        """The graph of a body; `inputs` are Values of it, `outputs` Values that it gives."""
        return helper.make_graph(self.nodes, self.name("body"), [value_info(v.name, v.dtype, [None] * v.rank) for v in inputs],
                                 [value_info(v.name, v.dtype, None) for v in outputs], self.initializers)

    def grow(self, count, names=None):
        """Draws `count` nodes."""
        names = names or list(OPERATORS)
        weights = [OPERATORS[n][1] for n in names]
        wanted, tries = len(self.nodes) + count, 0
        while len(self.nodes) < wanted and tries < 12 * count:
            tries += 1
            name = self.rng.choices(names, weights)[0]
            try:
                OPERATORS[name][0](self, name)
            except Refused:
                pass


@dataclasses.dataclass
class Case:
    """A model and its inputs at several sizes; `exact` names the values that have to agree bit for bit."""
    model: onnx.ModelProto
    sizes: list
    feeds: list
    exact: set


def draw_case(seed, nodes):
    """The model of this seed."""
    d = Draw(seed)
    d.grow(d.rng.randint(1, nodes))
    used = {i for n in d.nodes for i in n.input}
    for n in d.nodes:
        for a in n.attribute:
            if a.type == onnx.AttributeProto.GRAPH:
                used |= outer_names(a.g)
    made = [v for v in d.values if v.node is not None]
    if not made:
        return None
    ends = [v for v in made if v.name not in used]
    outputs = {v.name: v for v in ends + d.rng.sample(made, min(2, len(made)))}
    inputs = [i for i in d.inputs if i.name in used]
    graph = helper.make_graph(d.nodes, f"seed{seed}", [value_info(i.name, i.dtype, i.sizes) for i in inputs],
                              [value_info(v.name, v.dtype, None if v.node.op_type == "If" else [None] * v.rank) for v in outputs.values()],
                              [i for i in d.initializers if i.name in used])
    names = sorted({s for i in inputs for s in i.sizes if isinstance(s, str)})
    sizes = [{n: d.sizes[n] for n in names}]
    if names:
        sizes += [{n: d.rng.choice(LATER_SIZES) if d.chance(0.7) else d.sizes[n] for n in names} for _ in range(3)]
    feeds = [{i.name: i.draw(s, d.generator) for i in inputs} for s in sizes]
    model = d.wrap(graph)
    return Case(model, sizes, feeds, {v.name for v in d.values if v.exact})
