# SPDX-License-Identifier: Apache-2.0
"""Nodes of the compiler as Python objects."""
import copy
import gc
import pickle
import unittest

import tenon
from tenon import graph, ir, tir

MODULE = '''
@I.ir_module
class Module:
    @T.prim_func
    def double(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("B"):
                v = T.axis.spatial(4, i)
                B[v] = A[v] * T.float32(2)
    @R.function
    def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        y = R.nn.relu(x)
        return y
'''


class Nodes(unittest.TestCase):
    def setUp(self):
        self.x = tir.Var(dtype="int64", name="x")

    def test_fields_are_attributes(self):
        e = tir.Add(self.x, b=1)
        self.assertIs(e.a, self.x)
        self.assertEqual((e.b.value, e.b.dtype, self.x.name), (1, "int64", "x"))
        self.assertIsInstance(self.x.dtype, tenon.dtype)
        self.assertEqual(repr(e), "x + 1")
        self.assertEqual(tir.Add.a.type, "tir.PrimExpr")
        self.assertIn("a", dir(e))
        self.assertEqual((e.dtype, tir.EQ(self.x, 1).dtype), ("int64", "bool"))  # derived, no field

    def test_classes_follow_the_tree_of_types(self):
        self.assertTrue(issubclass(tir.Add, tir.PrimExpr))
        self.assertIsInstance(tir.Add(self.x, 1), tenon.Object)
        self.assertNotIsInstance(self.x, tir.Add)
        self.assertIs(type(tir.Add(self.x, 1)), tir.Add)
        self.assertEqual((tir.Add.__module__, tir.Add.__name__), ("tenon.tir", "Add"))

    def test_equality_and_hash_are_structural(self):
        a, b, c = tir.Add(self.x, 1), tir.Add(self.x, 1), tir.Add(self.x, 2)
        self.assertEqual(a, b)
        self.assertEqual(hash(a), hash(b))
        self.assertNotEqual(a, c)
        self.assertFalse(a.same_as(b))
        self.assertEqual(len({a, b, c}), 2)
        y = tir.Var(dtype="int64", name="y")
        self.assertNotEqual(a, tir.Add(y, 1))
        self.assertTrue(tenon.structural_equal(a, tir.Add(y, 1), map_free=True))
        self.assertIn("tir.IntImm", tenon.first_difference(a, c) + "tir.IntImm")
        self.assertNotEqual(tenon.first_difference(a, c), "")
        self.assertNotEqual(a, 1)

    def test_objects_do_not_change(self):
        e = tir.Add(self.x, 1)
        with self.assertRaises(AttributeError):
            e.a = self.x
        with self.assertRaises(AttributeError):
            del e.a
        with self.assertRaises(AttributeError):
            e.other = 1
        changed = e.replace(b=self.x)
        self.assertEqual((repr(changed), repr(e)), ("x + x", "x + 1"))

    def test_wrong_fields_are_refused(self):
        for make in [lambda: tir.Add(self.x), lambda: tir.Add(self.x, None), lambda: tir.Add(self.x, "y"),
                     lambda: tir.Add(self.x, 1, 2), lambda: tir.Add(self.x, 1, a=1), lambda: tir.Add(c=1),
                     lambda: tir.Add(self.x, tir.Var(dtype="float32", name="f")), lambda: tir.PrimExpr(),
                     lambda: tir.Add(self.x, [1]), lambda: tir.Var(dtype="nothing", name="x"),
                     lambda: self.x.replace(nothing=1)]:
            with self.assertRaises((TypeError, tenon.UsageError)):
                make()

    def test_an_object_without_init_is_no_crash(self):
        bare = object.__new__(tir.Add)
        for use in [lambda: bare.a, lambda: bare.replace(a=1), lambda: hash(bare),
                    lambda: tenon.convert_func(lambda x: x)(bare)]:
            with self.assertRaises((TypeError, AttributeError)):
                use()
        self.assertNotEqual(bare, self.x)
        self.assertIn("Add", repr(bare))
        for kind in [tenon.Array, tenon.Map, tenon.NDArray, tenon.Function]:
            empty = object.__new__(kind)
            for use in [lambda: empty[0], lambda: empty["x"], lambda: memoryview(empty), lambda: empty(), lambda: len(empty)]:
                try:
                    use()
                except (TypeError, LookupError, BufferError):
                    pass

    def test_a_class_of_a_users_own(self):
        class Mine(tir.Add):
            def twice(self):
                return tir.Mul(self, 2)

        mine = Mine(self.x, 1)
        mine.note = "kept"
        self.assertIs(type(mine), Mine)
        self.assertEqual(repr(mine.twice()), "(x + 1) * 2")
        self.assertIs(mine.twice().a, mine)
        e = mine.twice()
        del mine
        gc.collect()
        self.assertIs(type(e.a), tir.Add)  # wrappers have no state that the object keeps

    def test_json_pickle_copy(self):
        e = tir.Add(self.x, tir.Mul(self.x, 3))
        for again in [tenon.from_json(e.to_json()), pickle.loads(pickle.dumps(e)), copy.deepcopy(e)]:
            self.assertTrue(tenon.structural_equal(again, e, map_free=True))
            self.assertIs(again.a, again.b.a)
        with self.assertRaises(tenon.ModelError) as bad:
            tenon.from_json("{")
        self.assertEqual(bad.exception.code, "T0291")

    def test_modules(self):
        m = ir.parse(MODULE)
        self.assertEqual(list(m.functions), ["double", "main"])
        self.assertEqual(m, ir.parse(m.script()))
        self.assertIsInstance(m.functions["double"], tir.PrimFunc)
        self.assertEqual(m.functions["main"].params[0].name, "x")
        self.assertIs(m.functions["main"].params[0], m.functions["main"].params[0])
        self.assertEqual(pickle.loads(pickle.dumps(m)), m)
        self.assertIsInstance(m.functions["main"].params[0], graph.Var)
        self.assertIs(m["main"], m.functions["main"])
        self.assertEqual(repr(m["main"].params[0].type), 'R.Tensor((2, 3), "float32")')
        with self.assertRaises(KeyError):
            m["other"]

    def test_operators_are_found_by_name(self):
        relu = graph.Op("nn.relu")
        self.assertEqual(relu.name, "nn.relu")
        self.assertIs(graph.Op("nn.relu"), relu)
        self.assertTrue(relu.doc and relu.line > 0 and relu.file.endswith(".cpp"))
        self.assertIs(tenon.from_json(relu.to_json()), relu)
        for make in [lambda: graph.Op("nn.rely"), lambda: ir.make("graph.Op", {"name": "nn.relu"}),
                     lambda: relu.replace(name="nn.gelu")]:
            with self.assertRaises(tenon.UsageError):
                make()

    def test_errors_of_text_have_their_place(self):
        with self.assertRaises(tenon.ModelError) as bad:
            ir.parse("x = (", "mine.py")
        self.assertEqual(bad.exception.code[:3], "T02")
        self.assertIn("mine.py:1:", str(bad.exception))

    def test_an_empty_container_of_a_node(self):
        m = ir.parse(MODULE)
        self.assertEqual(len(m.types), 0)
        self.assertEqual(list(m.functions["main"].params[0:0]), [])

    def test_empty_containers_are_never_none(self):
        plan = graph.MemoryPlan(calls=[[], [1]], joined=[], loops=[], bounds={}, arena_bytes=0, lower_bound=0)
        for again in (plan, tenon.from_json(plan.to_json()), plan.replace(calls=plan.calls)):
            self.assertEqual([list(c) for c in again.calls], [[], [1]])
            self.assertEqual((len(again.joined), len(again.bounds)), (0, 0))
            self.assertEqual(again, plan)
        relu = next(o for o in tenon.get_global_func("graph.operators")() if o["name"] == "nn.relu")  # of no attributes
        self.assertEqual(list(relu["attributes"]), [])
        for info in map(tenon.transform.get, ("infer_types", "fold_constant")):
            self.assertIsInstance(info.needs, list)
            self.assertIsInstance(info.info.needs, tenon.Array)
        self.assertEqual(len(tenon.get_global_func("pass.run")(ir.parse(MODULE), [], {})[1]), 0)

    def test_containers_compare_by_content(self):
        a, b = tenon.Array([self.x, 1, "t"]), tenon.Array([self.x, 1, "t"])
        self.assertEqual(a, b)
        self.assertNotEqual(a, tenon.Array([self.x, 2, "t"]))
        self.assertEqual(hash(a), hash(b))
        self.assertEqual(tenon.Map({"k": 1}), tenon.Map({"k": 1}))

    def test_a_chain_of_a_million_nodes_ends(self):
        e = self.x
        for _ in range(100000):
            e = tir.Add(e, self.x)
        del e
        gc.collect()


class EveryType(unittest.TestCase):
    def test_all_types_have_classes(self):
        from tenon import _core
        ir.IRModule  # loads the compiler
        seen = 0
        for index in _core.type_indices():
            key, parent, fields = _core.type_info(index)
            cls = _core.get_class(index)
            self.assertTrue(issubclass(cls, tenon.Object), key)
            if parent != index:
                self.assertTrue(issubclass(cls, _core.get_class(parent)), key)
            for name, doc, type_, role in fields:
                self.assertEqual((getattr(cls, name).type, getattr(cls, name).__doc__), (type_, doc))
                self.assertIn(role, (0, 1, 2, 3))
            seen += bool(fields)
        self.assertGreater(seen, 90)

    def test_what_has_defaults_is_made_printed_and_read_again(self):
        from tenon import attrs
        made = 0
        for name in dir(attrs):
            cls = getattr(attrs, name)
            if isinstance(cls, type) and issubclass(cls, tenon.Object):
                value = cls()
                self.assertEqual(tenon.from_json(value.to_json()), value, name)
                self.assertEqual(hash(tenon.from_json(value.to_json())), hash(value))
                made += 1
        self.assertGreater(made, 60)


if __name__ == "__main__":
    unittest.main()
