# SPDX-License-Identifier: Apache-2.0
"""Every registered type: made from random fields, printed, written and read again, compared. Random modules: printed, parsed,
rebuilt node by node."""
import array
import glob
import os
import pickle
import random
import re
import unittest

import tenon
from tenon import _core, dpl, graph, ir, op, te, tir

ROOT = os.environ.get("TENON_SOURCE_DIR") or os.path.join(os.path.dirname(__file__), "../..")


def types():
    """(key, key of the parent, fields) of all types that have fields."""
    ir.IRModule  # loads the compiler
    for index in _core.type_indices():
        key, parent, fields = _core.type_info(index)
        if fields:
            yield key, _core.type_info(parent)[0], fields


def class_of(key):
    return _core.get_class(_core.type_index(key))


# Fields whose values a type restricts beyond their static type, and those that may be none.
BOOLEANS = {"tir.And.a", "tir.And.b", "tir.Or.a", "tir.Or.b", "tir.Not.a", "tir.Select.condition", "tir.While.condition",
            "tir.IfThenElse.condition", "tir.AssertStmt.condition", "tir.BlockRealize.predicate", "tir.Reduce.condition",
            "tir.BufferRealize.condition"}
NONE = {"tir.BufferLoad.predicate", "tir.BufferStore.predicate", "graph.Function.plan", "ir.PrimType.value", "tir.Buffer.elem_offset",
        "tir.Buffer.strides", "ir.ShapeType.values", "graph.Call.attrs", "graph.Pattern.constructor", "graph.Function.type_params"}
OPTIONAL = {"tir.IfThenElse.else_case", "tir.Block.init", "graph.Function.ret_type"}
GIVEN = {"tir.BijectiveLayout.src": ["NCHW"], "tir.BijectiveLayout.dst": ["NHWC", "NCHW4c"], "tir.Buffer.align": [16, 64], "tir.Buffer.data": [tir.Var(dtype="handle", name="p")], "tir.For.kind": range(4), "tir.IterVar.kind": range(3), "ir.TensorType.ndim": [1], "ir.TensorType.device": [""],
         "graph.Pattern.kind": [0, 1], "graph.Pattern.items": [[]], "ir.ShapeType.ndim": [2], "ir.ShapeType.known": [False], "tir.Ramp.lanes": [4],
         "tir.Broadcast.lanes": [4], "tir.Shuffle.indices": [[0, 1]], "tir.Reduce.value_index": [0],
         "tir.Call.op": ["tir.exp"], "tir.Call.dtype": ["float32"], "graph.TupleGetItem.index": [0],
         "tir.Cast.dtype": ["int32", "float32", "float64"], "tir.IntImm.dtype": ["int32", "int64", "uint8"],
         "tir.FloatImm.dtype": ["float32", "float64"], "tir.PrimFunc.ret_type": ["void"]}
DTYPES = ["int64", "float32", "bool", "int8", "float16"]


class Maker:
    """Random objects of every type, from fields that were made before."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.types = {key: fields for key, _, fields in types() if not key.startswith("attrs.") and key != "graph.Op"}
        self.pool = {"graph.Op": [graph.Op("nn.relu"), graph.Op("add")], "tir.Stmt": [tir.Evaluate(0)],
                     "tir.PrimExpr": [tir.Var(dtype="int64", name="n"), tir.IntImm("int64", 3)],
                     "Object": [tir.IntImm("int64", 3)], "graph.Binding": []}

    def round(self):
        """One more object of every type for which there are fields; gives (type, object)."""
        for key in self.random.sample(list(self.types), len(self.types)):
            node = self.node(key)
            if node is None:
                continue
            yield key, node
            for cls in type(node).__mro__:
                name = getattr(cls, "_type_key", None)
                if name and name != "Object" and not (name == "tir.PrimExpr" and node.dtype != "int64"):
                    known = self.pool.setdefault(name, [])
                    known.append(node)
                    del known[:-12]

    def node(self, key):
        """An object of exactly this type; None when no attempt was accepted."""
        for _ in range(12):
            try:
                return class_of(key)(**{name: self.field(f"{key}.{name}", type_) for name, _, type_, _ in self.types[key]})
            except (TypeError, LookupError, tenon.UsageError):
                pass
        return None

    def field(self, path, type_):
        if path in GIVEN:
            return self.random.choice(GIVEN[path])
        if path in NONE or (path in OPTIONAL and self.random.random() < 0.5):
            return None
        if path in BOOLEANS:
            return tir.LT(self.value("tir.PrimExpr"), 3)
        return self.value(type_)

    def value(self, type_):
        r = self.random
        if type_.startswith("Array["):
            return [self.value(type_[6:-1]) for _ in range(r.choice([1, 2]))]
        if type_.startswith("Map["):
            key, _, item = type_[4:-1].partition(", ")
            return {self.value(key): self.value(item) for _ in range(r.choice([1, 2]))}
        simple = {"int": lambda: r.randrange(1, 100), "float": lambda: r.choice([0.5, -2.0, 1e30]),
                  "bool": lambda: r.random() < 0.5, "str": lambda: r.choice("abcdefgh") + str(r.randrange(9)),
                  "dtype": lambda: r.choice(DTYPES), "Any": lambda: r.choice([1, "text", 2.5]),
                  "NDArray": lambda: tenon.NDArray(array.array("f", [r.randrange(9), 0.5]))}
        return simple[type_]() if type_ in simple else r.choice(self.pool[type_])


class EveryType(unittest.TestCase):
    def check(self, node, key):
        cls = class_of(key)
        self.assertIs(type(node), cls)
        again = cls(**{name: getattr(node, name) for name in cls._fields})
        self.assertEqual(tenon.first_difference(node, again, map_free=True), "")
        self.assertEqual(tenon.structural_hash(again, True), tenon.structural_hash(node, True))
        self.assertEqual(node, node)
        for read in (tenon.from_json(node.to_json()), pickle.loads(pickle.dumps(node))):
            self.assertIs(type(read), cls)
            self.assertTrue(tenon.structural_equal(read, node, map_free=True), node.to_json())
            self.assertEqual(tenon.structural_hash(read, True), tenon.structural_hash(node, True))
        self.assertTrue(repr(node).strip())

    def test_random_fields(self):
        made = set()
        for seed in range(3):
            maker = Maker(seed)
            for _ in range(4):
                for key, node in maker.round():
                    made.add(key)
                    with self.subTest(key, seed=seed):
                        self.check(node, key)
        self.assertEqual(set(maker.types) - made, set())
        self.assertGreater(len(made), 90)

    def test_attributes_of_operators(self):
        seen = 0
        for key, _, fields in types():
            if not key.startswith("attrs."):
                continue
            cls = class_of(key)
            node = cls()
            with self.subTest(key):
                self.check(node, key)
                for name, _, type_, _ in fields:
                    if type_ in ("int", "bool", "float"):
                        other = node.replace(**{name: type(getattr(node, name))(getattr(node, name) + 1)})
                        self.assertEqual(other == node, getattr(other, name) == getattr(node, name))
                        self.check(other, key)
            seen += 1
        self.assertGreater(seen, 80)


def tensors():
    A = te.placeholder((4,), name="A")
    return A, te.compute((4,), lambda i: A[i] + 1.0, name="B")


def stage():
    B = tensors()[1]
    return te.create_schedule(B.op)[B]


# Types that list no fields: what makes an object of each, and those that only have kinds.
WITHOUT_FIELDS = {
    "ir.ObjectType": lambda: class_of("ir.ObjectType")(), "Function": lambda: tenon.convert_func(len),
    "Array": lambda: tenon.convert_func(lambda x: x)([1, "a"]), "Map": lambda: tenon.convert_func(lambda x: x)({"a": 1}),
    "Shape": lambda: tenon.Shape((2, 3)), "NDArray": lambda: tenon.NDArray(array.array("f", [1.0])),
    "te.Tensor": lambda: tensors()[1], "te.Operation": lambda: tensors()[1].op, "te.Schedule": lambda: te.create_schedule(tensors()[1].op),
    "te.Stage": lambda: stage(), "tir.Schedule": lambda: tir.Schedule(te.create_prim_func(tensors())),
    "schedule.Handle": lambda: tir.Schedule(te.create_prim_func(tensors())).get_block("B"),
    "tir.Trace": lambda: tir.Schedule(te.create_prim_func(tensors())).trace,
    "ir.Pass": lambda: tenon.transform.get("fold_constant").info,
    "Compiled": lambda: tenon.compile(tenon.ir.IRModule({"main": te.create_prim_func(tensors())})).compiled,
    "graph.Bindings": lambda: class_of("graph.Bindings")(), "dpl.WildcardPattern": lambda: dpl.wildcard(),
    "dpl.ConstantPattern": lambda: dpl.is_const()}
KINDS = {"Object", "tir.PrimExpr", "tir.Stmt", "ir.Type", "graph.Expr", "graph.Binding", "ir.Attrs", "dpl.DFPattern"}
# Python has str, bytes, the object itself and exceptions for the first four; places of nodes and mistakes of a text are the parser's.
VALUES = {"String", "Bytes", "Foreign", "Error", "ir.Origin", "script.Poison", "script.Names"}
# What models and the interpreter hold while they run; macros of script text.
OF_RUNS = {"Artifact", "ArtifactMap", "Closure", "Data", "MemoryPool", "ReadOnlyMemory", "RefCell", "Sequence", "StringTable", "StringTensor",
           "interpret.Function", "script.Macro", "script.Storage", "script.Allocated", "analysis.ProofReport"}


class TypesWithoutFields(unittest.TestCase):
    def test_each_is_made_or_has_a_reason(self):
        te.create_prim_func(tensors()), tir.Schedule  # registers what comes with them
        keys = {key for index in _core.type_indices() for key, _, fields in [_core.type_info(index)] if not fields}
        self.assertEqual(keys - set(WITHOUT_FIELDS) - KINDS - VALUES - OF_RUNS, set())
        for key, make in WITHOUT_FIELDS.items():
            with self.subTest(key):
                made = make()
                self.assertTrue(isinstance(made, class_of(key)) and repr(made).strip(), made)
                self.assertEqual(made, made)
        for key in KINDS:
            with self.subTest(key), self.assertRaises(TypeError):
                class_of(key)()


# ---------------------------------------------------------------- modules
def sequence(*statements):
    """Statements one behind another; text knows no sequences in sequences."""
    return tir.SeqStmt([x for s in statements for x in (s.seq if isinstance(s, tir.SeqStmt) else [s])])


class Programs:
    """Random tensor programs: loops over a buffer, conditions, lets, blocks; whatever they compute is in range."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def integer(self, variables, depth):
        r = self.random
        if depth <= 0 or r.random() < 0.25:
            return r.choice([*variables, tir.IntImm("int64", r.randrange(1, 7))])
        a, b = self.integer(variables, depth - 1), self.integer(variables, depth - 1)
        return r.choice([lambda: tir.Add(a, b), lambda: tir.Sub(a, b), lambda: tir.Mul(a, b), lambda: tir.FloorDiv(a, 3),
                         lambda: tir.FloorMod(a, 5), lambda: tir.Div(a, 3), lambda: tir.Mod(a, 5), lambda: tir.Min(a, b), lambda: tir.Max(a, b),
                         lambda: tir.Select(self.condition(variables, depth - 1), a, b),
                         lambda: tir.Cast("int64", tir.Cast("int32", a))])()

    def condition(self, variables, depth):
        r = self.random
        a, b = self.integer(variables, depth - 1), self.integer(variables, depth - 1)
        simple = r.choice([tir.EQ, tir.NE, tir.LT, tir.LE, tir.GT, tir.GE])(a, b)
        if depth <= 0:
            return simple
        other = self.condition(variables, depth - 2)
        return r.choice([lambda: simple, lambda: tir.And(simple, other), lambda: tir.Or(simple, other),
                         lambda: tir.Not(other)])()

    def number(self, A, variables, depth):
        r = self.random
        load = tir.BufferLoad(A, [tir.FloorMod(self.integer(variables, 1), 8)], None)
        if depth <= 0:
            return r.choice([load, tir.FloatImm("float32", r.choice([0.5, -3.0])), tir.Cast("float32", self.integer(variables, 1))])
        a, b = self.number(A, variables, depth - 1), self.number(A, variables, depth - 1)
        v = tir.Var(dtype="float32", name="t")
        return r.choice([lambda: tir.Add(a, b), lambda: tir.Mul(a, b), lambda: tir.Max(a, b), lambda: tir.exp(a),
                         lambda: tir.Select(self.condition(variables, 1), a, b), lambda: tir.if_then_else(tir.LT(1, 2), a, b),
                         lambda: tir.Let(value=a, var=v, body=tir.Add(v, b))])()

    def statement(self, A, B, variables, depth):
        r = self.random
        store = tir.BufferStore(buffer=B, value=self.number(A, variables, 2), indices=[tir.FloorMod(self.integer(variables, 2), 8)])
        if depth <= 0:
            return r.choice([store, store, tir.Evaluate(self.integer(variables, 1))])

        def body(*more):
            return self.statement(A, B, [*variables, *more], depth - 1)

        def loop():
            i = tir.Var(dtype="int64", name=f"i{depth}")
            return tir.For(loop_var=i, min=0, extent=r.randrange(1, 5), kind=r.choice([0, 0, 1, 3]), body=body(i),
                           annotations=r.choice([{}, {"note": 3}]))

        def let():
            v = tir.Var(dtype="int64", name=f"v{depth}")
            return tir.LetStmt(value=self.integer(variables, 2), var=v, body=body(v))

        def block():
            v = tir.Var(dtype="int64", name=f"b{depth}")
            axis = tir.IterVar(dom=tir.Range(0, 8), var=v, kind=0, thread_tag="")
            inner = tir.Block(iter_vars=[axis], alloc_buffers=[], match_buffers=[], name=f"block{depth}", annotations={},
                              reads=[tir.BufferRegion(A, [tir.Range(0, 8)])], writes=[tir.BufferRegion(B, [tir.Range(0, 8)])],
                              init=None, body=body(v))
            return tir.BlockRealize(iter_values=[tir.FloorMod(self.integer(variables, 1), 8)], predicate=tir.EQ(1, 1),
                                    block=inner)

        def branch():
            return tir.IfThenElse(self.condition(variables, 2), body(), r.choice([None, body()]))

        return r.choice([loop, let, block, branch,
                         lambda: sequence(body(), tir.AssertStmt(self.condition(variables, 1), "text"), store),
                         lambda: sequence(store, body())])()

    def function(self):
        A, B = (te.placeholder((8,), name=n) for n in "AB")
        base = te.create_prim_func([A, te.compute((8,), lambda i: A[i], name="B")])
        a, b = (base.buffer_map[p] for p in base.params)
        return base.replace(body=self.statement(a, b, [], 4))

    def graph(self):
        r, bb = self.random, graph.BlockBuilder()
        n = te.var("n")
        values = [graph.var(f"x{k}", graph.Tensor((n, 4), "float32")) for k in range(2)]
        params = list(values)
        with bb.function("main", params):
            for _ in range(r.randrange(1, 6)):
                x, y = r.choice(values), r.choice(values)
                values.append(bb.emit(r.choice([
                    lambda: x + y, lambda: x * 2.0, lambda: op.nn.relu(x), lambda: op.nn.softmax(x, axis=r.choice([0, 1])),
                    lambda: op.maximum(x, y), lambda: op.exp(op.minimum(x, y)),
                    lambda: bb.match_cast(x, graph.Tensor((te.var(f"m{len(values)}"), 4), "float32")) and x])()))
            out = values[-1] if r.random() < 0.5 else (values[-1], values[0])
            bb.emit_func_output(out)
        return bb.finalize()


class Modules(unittest.TestCase):
    def same_when_read_again(self, module):
        text = module.script()
        read = tenon.parse(text)
        self.assertEqual(tenon.first_difference(read, module), "", text)
        self.assertEqual((read, hash(read), read.script()), (module, hash(module), text))
        self.assertEqual(tenon.from_json(module.to_json()), module)
        self.assertEqual(pickle.loads(pickle.dumps(module)), module)
        seen = set()

        def rebuilt(node):
            seen.add(node._type_key)
            if node._fields and node._type_key != "graph.Op":
                again = type(node)(**{f: getattr(node, f) for f in node._fields})
                self.assertTrue(tenon.structural_equal(again, node, map_free=True), repr(node))
        tenon.visit(module, {tenon.Object: rebuilt})
        return seen

    def test_random_modules(self):
        seen = set()
        for seed in range(60):
            made = Programs(seed)
            with self.subTest(seed=seed):
                module = made.graph()
                functions = {**dict(module.functions.items()), **{f"f{k}": made.function() for k in range(2)}}
                seen |= self.same_when_read_again(module.replace(functions=functions))
        self.assertLessEqual({"tir." + n for n in """Add Sub Mul FloorDiv FloorMod Div Mod Min Max EQ NE LT LE GT GE And Or Not
            Select Cast Let BufferLoad Call BufferStore For LetStmt Block BlockRealize IfThenElse SeqStmt AssertStmt Evaluate
            PrimFunc""".split()}, seen)

    def test_modules_of_the_golden_tests(self):
        """Programs that people wrote, with nearly every node there is."""
        seen, count = set(), 0
        for path in sorted(glob.glob(os.path.join(ROOT, "tests/golden/**/*.tir"), recursive=True)):
            with open(path) as f:
                text = re.split(r"^# (?:EXPECT|ERROR.*)$", f.read(), flags=re.M)[0]
            try:
                module = tenon.parse(text)
            except tenon.ScriptError:
                continue  # a test of mistakes
            with self.subTest(os.path.relpath(path, ROOT)):
                seen |= self.same_when_read_again(module)
            count += 1
        self.assertGreater(count, 120)
        self.assertGreater(len(seen), 80)


if __name__ == "__main__":
    unittest.main()
