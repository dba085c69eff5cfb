# SPDX-License-Identifier: Apache-2.0
"""Programs built by Python: tensor expressions, schedules, graph functions, walks. What they compute is judged by NumPy,
or by plain Python where NumPy is not."""
import array
import glob
import os
import re
import unittest

import tenon
from tenon import graph, op, te, tir
from tenon.script import tir as T

GOLDEN = os.path.join(os.environ.get("TENON_SOURCE_DIR") or os.path.join(os.path.dirname(__file__), "../.."),
                      "tests/golden/schedule")


def floats(*values):
    return array.array("f", values)


def shaped(values, shape):
    return memoryview(values).cast("B").cast(values.typecode, list(shape))


def run(program, *inputs):
    """A tensor program whose last argument is its result; the arguments are numbers in a row."""
    f = program if isinstance(program, tir.PrimFunc) else program.functions["main"]
    shapes = [[d.value for d in f.buffer_map[p].shape] for p in f.params]
    tenon.get_global_func("ir.interpret")(program, [tenon.NDArray(shaped(x, s)) for x, s in zip(inputs, shapes)])
    return list(inputs[-1])


def run_graph(module, *inputs):
    out = tenon.get_global_func("ir.interpret")(module, [tenon.NDArray(x) for x in inputs])
    return list(memoryview(out).cast("B").cast("f"))


def matrix(values, columns):
    return shaped(floats(*values), (len(values) // columns, columns))


def floats_2x3():
    return matrix([1, 2, 3, 0, -1, 6], 3)


class SpellingsOfTvm(unittest.TestCase):
    """What users of TVM type (docs/python.md, From TVM)."""

    def setUp(self):
        A, B = te.placeholder((8, 6), name="A"), te.placeholder((6, 4), name="B")
        k = te.reduce_axis(tir.Range(0, 6), name="k")
        C = te.compute((8, 4), lambda *i: te.sum(A[i[0], k] * B[k, i[1]], axis=k), name="C")
        self.D = te.compute(C.shape, lambda *i: te.if_then_else(te.all(C[i] > 0.0, C[i] < 1e6), te.exp(C[i] * te.const(0.0)), C[i]),
                            name="D")
        self.args = [A, B, self.D]
        self.func = te.create_prim_func(self.args)

    def result(self, func):
        return run(func, floats(*(i % 5 - 2 for i in range(48))), floats(*(i % 3 for i in range(24))), floats(*[0] * 32))

    def test_schedules(self):
        sch = tir.Schedule(self.func)
        block = sch.get_block("C")
        i, j, k = sch.get_loops(block)
        outer, inner = sch.split(loop=i, factors=[None, 4], preserve_unit_iters=True)
        sch.reorder(outer, j, k, inner)
        sch.fuse(outer, j)
        sch.cache_read(block, "A", storage_scope="global")
        sch.cache_write(block, write_buffer_index=0, storage_scope="global")
        sch.transform_layout("C", ("write", 0), lambda m, n: (n, m))
        sch.transform_layout(block="C", buffer="A_global", index_map=lambda m, n: (n // 2, m, n % 2))
        sch.annotate(block_or_loop=sch.get_loops("D")[0], ann_key="note", ann_val=1)
        self.assertEqual(self.result(sch.func), self.result(self.func))
        for wrong, kind in ((lambda: sch.split(k, [2, None], disable_predication=True), TypeError),
                            (lambda: sch.cache_read("C", "Z", "global"), ValueError),
                            (lambda: sch.cache_write("C", "A", "global"), ValueError),
                            (lambda: sch.annotate(k, "a", key="b", value=1), TypeError)):
            with self.assertRaises(kind):
                wrong()

    def test_stages_and_modules(self):
        module = tenon.lower(te.create_schedule(self.D.op), self.args)
        self.assertIsInstance(module, tenon.IRModule)
        self.assertEqual([v.name for v in module.get_global_vars()], ["main"])
        self.assertIn("main", module)
        func = module[module.get_global_vars()[0]]
        self.assertEqual(self.result(func), self.result(self.func))
        self.assertEqual(func.with_attr("note", 3).attrs["note"], 3)
        self.assertIsNone(func.attrs.get("note") if func.attrs else None)
        tenon.ir.assert_structural_equal(func, func)
        with self.assertRaisesRegex(ValueError, "attrs"):
            tenon.ir.assert_structural_equal(func, func.with_attr("note", 3))
        self.assertEqual(self.D.ndim, 2)
        seen = []
        tenon.visit(func, seen.append)
        self.assertIn(func.body, seen)

    def test_graph(self):
        bb = graph.BlockBuilder()
        x = te.placeholder((3,), name="x")
        program = bb.add_func(te.create_prim_func([x, te.compute((3,), lambda i: x[i] + 1.0)]), "one_more")
        a = graph.var("a", graph.Tensor((3,), "float32"))
        with bb.function("main", [a]):
            with bb.dataflow():
                b = bb.emit(op.call_tir(program, [a], graph.Tensor((3,), "float32")))
                c = bb.emit_te(lambda t: te.compute(t.shape, lambda i: t[i] * 2.0), b, primfunc_name_hint="twice")
                c = bb.emit_output(c)
            bb.emit_func_output(c)
        module = bb.finalize()
        self.assertIn("twice", module)
        self.assertEqual(run_graph(module, floats(1, 2, 3)), [4, 6, 8])


class Expressions(unittest.TestCase):
    def test_operators(self):
        i, j = te.var("i"), te.var("j")
        for built, text in [(i + 1, "i + 1"), (2 * i - j, "2 * i - j"), (i // 4 % j, "i // 4 % j"), (-i, "0 - i"),
                            ((i < j) & (j >= 3), "i < j and j >= 3"), ((7 - i).equal(j), "7 - i == j"),
                            (i.astype("float32") * 0.5, "T.cast(i, \"float32\") * T.float32(0.5)"),
                            (tir.max(i, j), "T.max(i, j)"), (tir.exp(i.astype("float32")), "T.exp(T.cast(i, \"float32\"))")]:
            with self.subTest(text):
                self.assertEqual(built.script().strip(), text)
                self.assertIsInstance(built, tir.PrimExpr)

    def test_a_condition_is_no_truth(self):
        i = te.var("i")
        with self.assertRaisesRegex(tenon.UsageError, "Select"):
            bool(i < 3)
        self.assertTrue(te.const(3) < 4)

    def test_wrong_kinds(self):
        with self.assertRaises(TypeError):
            te.var("i") + "text"
        with self.assertRaises(tenon.Error):
            te.var("i").astype("float33")
        with self.assertRaises(tenon.ScriptError):
            tir.exp(1, 2)


class TensorExpressions(unittest.TestCase):
    def matmul(self, n=3, m=4, depth=5):
        A, B = te.placeholder((n, depth), name="A"), te.placeholder((depth, m), name="B")
        k = te.reduce_axis((0, depth), name="k")
        C = te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
        return A, B, C

    def expected(self, a, b, n=3, m=4, depth=5):
        return [sum(a[i * depth + k] * b[k * m + j] for k in range(depth)) for i in range(n) for j in range(m)]

    def test_matmul(self):
        a, b = floats(*range(15)), floats(*range(20))
        f = te.create_prim_func(self.matmul())
        self.assertEqual(run(f, a, b, floats(*[0] * 12)), self.expected(a, b))

    def test_schedule(self):
        a, b = floats(*range(15)), floats(*range(20))
        A, B, C = self.matmul()
        s = te.create_schedule(C.op)
        cc = s.cache_write(C, "global")
        xo, yo, xi, yi = s[C].tile(C.op.axis[0], C.op.axis[1], 2, 2)
        s[cc].compute_at(s[C], yo)
        k = s[cc].op.reduce_axis[0]
        ko, ki = s[cc].split(k, factor=2)
        s[cc].reorder(ko, ki, *s[cc].op.axis)
        s[cc].unroll(ki)
        s[C].vectorize(yi).parallel(xo)
        module = te.lower(s, [A, B, C])
        self.assertEqual(run(module, a, b, floats(*[0] * 12)), self.expected(a, b))
        self.assertIn("T.parallel", module.script())
        self.assertIn("T.vectorized", module.script())
        self.assertIn("sch.split", s.apply([A, B, C]).trace.script)

    def test_every_method_of_a_stage(self):
        stage = te.Stage
        for name in ("split", "fuse", "reorder", "tile", "compute_at", "compute_inline", "compute_root", "vectorize", "unroll",
                     "parallel", "bind", "tensorize", "pragma", "prefetch", "storage_align", "double_buffer",
                     "rolling_buffer", "transform_layout", "set_scope", "env_threads", "set_store_predicate",
                     "set_axis_separators"):
            self.assertTrue(getattr(stage, name).__doc__, name)
        A = te.placeholder((8, 8), name="A")
        B = te.compute((8, 8), lambda i, j: A[i, j] + 1, name="B")
        C = te.compute((8, 8), lambda i, j: B[i, j] * 2, name="C")
        a = floats(*range(64))
        for use in (lambda s: s[B].compute_inline(), lambda s: s[B].compute_root(),
                    lambda s: s[B].compute_at(s[C], C.op.axis[0]), lambda s: s[B].set_scope("local"),
                    lambda s: s[C].fuse(*C.op.axis), lambda s: s[C].split(C.op.axis[0], nparts=2),
                    lambda s: s[C].pragma(C.op.axis[0], "auto_unroll_max_step", 3), lambda s: s[B].storage_align(B.op.axis[0], 16, 4),
                    lambda s: s[C].prefetch(B, C.op.axis[0], 1), lambda s: s[B].double_buffer(),
                    lambda s: s[B].transform_layout(lambda i, j: [j, i]), lambda s: s.cache_read(A, "global", [B]),
                    lambda s: s[C].bind(C.op.axis[0], te.thread_axis("threadIdx.x"))):
            s = te.create_schedule(C.op)
            use(s)
            self.assertEqual(run(te.lower(s, [A, C]), a, floats(*[0] * 64)), [(x + 1) * 2 for x in a])

    def test_scan(self):
        X = te.placeholder((5, 2), name="X")
        state = te.placeholder((5, 2), name="state")
        init = te.compute((1, 2), lambda _, i: X[0, i], name="init")
        update = te.compute((5, 2), lambda t, i: state[t - 1, i] + X[t, i], name="update")
        S = te.scan(init, update, state, inputs=[X])
        out = run(te.create_prim_func([X, S]), floats(*range(10)), floats(*[0] * 10))
        self.assertEqual(out, [0, 1, 2, 4, 6, 9, 12, 16, 20, 25])

    def test_reducers(self):
        A = te.placeholder((2, 3), name="A")
        k = te.reduce_axis((0, 3), name="k")
        a = floats(5, -1, 7, 2, 9, 4)
        for reduction, expected in ((te.max, [7, 9]), (te.min, [-1, 2]), (te.prod, [-35, 72]),
                                    (te.comm_reducer(lambda x, y: x + y * 1, lambda t: te.const(0, t)), [11, 15])):
            B = te.compute((2,), lambda i: reduction(A[i, k], axis=k))
            self.assertEqual(run(te.create_prim_func([A, B]), a, floats(0, 0)), expected)
        argmax = te.comm_reducer(
            lambda x, y: (tir.Select(x[1] >= y[1], x[0], y[0]), tir.Select(x[1] >= y[1], x[1], y[1])),
            lambda t0, t1: (te.const(-1, t0), tir.min_value(t1)))
        at, value = te.compute((2,), lambda i: argmax((k.var, A[i, k]), axis=k), name="argmax")
        out = array.array("q", [0, 0])
        f = te.create_prim_func([A, at, value])
        self.assertEqual(run(f, a, out, floats(0, 0)), [7, 9])
        self.assertEqual(list(out), [2, 1])

    def test_extern(self):
        A = te.placeholder((4,), name="A")

        def body(ins, outs):
            i = te.var("i")
            store = tir.BufferStore(buffer=outs[0], value=ins[0][i] * 3, indices=[i])
            return tir.For(loop_var=i, min=0, extent=4, kind=0, body=store)

        B = te.extern((4,), [A], body, name="triple")
        self.assertEqual(run(te.create_prim_func([A, B]), floats(1, 2, 3, 4), floats(0, 0, 0, 0)), [3, 6, 9, 12])

    def test_bad_requests(self):
        A, B, C = self.matmul()
        with self.assertRaises(tenon.Error) as caught:
            te.create_schedule(C.op)[C].split(C.op.axis[0])
        self.assertEqual(caught.exception.code, "T0102")
        with self.assertRaises(tenon.Error) as caught:
            te.create_schedule(C.op)[C].split(A.op, 4)
        self.assertEqual(caught.exception.code, "T0102")
        with self.assertRaisesRegex(TypeError, "2 variables"):
            te.compute((2, 2), lambda i: A[i, 0])
        with self.assertRaises(tenon.Error):
            te.compute((2,), lambda i: "text")
        with self.assertRaises(ZeroDivisionError):  # the user's own error passes
            te.compute((2,), lambda i: 1 // 0)


class Schedules(unittest.TestCase):
    def test_every_primitive_does_what_its_sample_says(self):
        """tests/golden/schedule: a program, steps as a person writes them, the program behind."""
        called = set()
        for path in sorted(glob.glob(os.path.join(GOLDEN, "*.txt"))):
            name = os.path.basename(path)[:-4]
            with open(path) as f:
                parts = re.split(r"^# (?:BEFORE|STEPS|AFTER)\n", f.read(), flags=re.M)
            if len(parts) != 4:
                continue
            with self.subTest(name):
                before, steps, after = parts[1:]
                sch = tir.Schedule(tenon.parse(before))
                exec(steps, {"sch": sch, "T": T})
                self.assertEqual(sch.mod, tenon.parse(after))
                again = tir.Schedule(tenon.parse(before))
                again.run(sch.trace)
                self.assertEqual(again.func, sch.func)
                third = tir.Schedule(tenon.parse(before))
                third.run(sch.trace.json)
                self.assertEqual(third.func, sch.func)
            called.update(re.findall(r"sch\.(\w+)\(", steps))
        self.assertGreater(len(called), 40)
        self.assertEqual(called, set(tir.primitives()))

    def test_primitives_have_words(self):
        for name in tir.primitives():
            method = getattr(tir.Schedule, name)
            self.assertIn("->", method.__doc__, name)
            self.assertTrue(method.__text_signature__.startswith("(self"), name)

    def program(self):
        A = te.placeholder((8, 8), name="A")
        B = te.compute((8, 8), lambda i, j: A[i, j] + 1, name="B")
        return te.create_prim_func([A, B])

    def test_arguments(self):
        sch = tir.Schedule(self.program())
        i, j = sch.get_loops("B")  # blocks by their names
        outer, inner = sch.split(loop=i, factors=[2, 4])
        sch.parallel(outer)
        sch.annotate(inner, "note", [1, 2])
        self.assertEqual((i.kind, sch.get(outer).extent.value), ("loop", 2))
        self.assertEqual(run(sch.func, floats(*range(64)), floats(*[0] * 64)), [x + 1 for x in range(64)])
        copy = sch.copy()
        copy.vectorize(j)
        self.assertNotEqual(copy.func, sch.func)

    def test_handles_belong_to_a_schedule_and_its_copies(self):
        sch = tir.Schedule(self.program())
        i, j = sch.get_loops("B")
        copy = sch.copy()
        (mine, _), (its, _) = sch.split(i, [2, 4]), copy.split(i, [4, 2])  # made before the copy: of both
        later = sch.copy()
        later.parallel(mine)
        for schedule, handle in ((sch, its), (copy, mine), (later, its), (tir.Schedule(self.program()), i)):
            with self.assertRaises(tenon.UsageError) as caught:
                schedule.unroll(handle)
            self.assertIn("another schedule", str(caught.exception))
        copy.parallel(its)
        self.assertEqual((copy.get(its).extent.value, sch.get(mine).extent.value), (4, 2))

    def test_loops_one_by_one_and_listed(self):
        for listed in (False, True):
            sch = tir.Schedule(self.program())

            def give(method, loops):
                return method(loops) if listed else method(*loops)

            outer, inner = sch.split(sch.get_loops("B")[0], factors=[None, 4])
            give(sch.reorder, [inner, outer])
            give(sch.fuse, sch.get_loops("B"))  # a container of C++ is a list, too
            (loop,) = sch.get_loops("B")
            self.assertEqual(sch.get(loop).extent.value, 64)
            self.assertEqual(run(sch.func, floats(*range(64)), floats(*[0] * 64)), [x + 1 for x in range(64)])

    def test_refusals(self):
        sch = tir.Schedule(self.program())
        for call, code in ((lambda: sch.get_block("none"), "T07"), (lambda: sch.split("B", [2, 4]), "T0790"),
                           (lambda: sch.parallel(), "T0790"), (lambda: sch.parallel(1, 2), "T0101"),
                           (lambda: tir.Schedule(3), "T0102")):
            with self.assertRaises(tenon.Error) as caught:
                call()
            self.assertTrue(caught.exception.code.startswith(code), caught.exception.code)
        with self.assertRaises(TypeError):
            sch.split(loop=None, facts=[2])
        self.assertEqual(sch.func, self.program())  # it stays as it was


class Graphs(unittest.TestCase):
    def test_builder(self):
        bb = graph.BlockBuilder()
        x = graph.var("x", graph.Tensor((2, 3), "float32"))
        with bb.function("main", [x]):
            with bb.dataflow():
                y = bb.emit(op.nn.relu(x) * 2 + 1.0)
                z = bb.emit_output(-y)
            bb.emit_func_output(z)
        module = bb.finalize()
        self.assertEqual(run_graph(module, floats_2x3()), [-3.0, -5.0, -7.0, -1.0, -1.0, -13.0])
        self.assertIn("with R.dataflow()", module.script())
        self.assertEqual(tenon.parse(module.script()), module)

    def test_emit_te(self):
        bb = graph.BlockBuilder()
        n = te.var("n")
        x, w = graph.var("x", graph.Tensor((n, 2), "float32")), graph.var("w", graph.Tensor((2, 2), "float32"))

        def product(a, b, plus=0):
            k = te.reduce_axis((0, 2), name="k")
            c = te.compute((a.shape[0], 2), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
            return te.compute(c.shape, lambda *i: c[i] + plus, name="d")

        with bb.function("main", [x, w]):
            y = bb.emit_te(product, x, w, plus=5)
            bb.emit_func_output(y)
        module = bb.finalize()
        self.assertIn("product", list(module.functions))
        x, w = matrix([1, 2, 3, 4], 2), matrix([1, 0, 1, 1], 2)
        self.assertEqual(run_graph(module, x, w), [8.0, 7.0, 12.0, 9.0])

    def test_match_cast_and_tuples(self):
        bb = graph.BlockBuilder()
        x = graph.var("x", graph.Tensor(dtype="float32", ndim=2))
        n = te.var("n")
        with bb.function("main", [x]):
            y = bb.match_cast(x, graph.Tensor((n, 3), "float32"))
            bb.emit_func_output(y + 1.0)
        self.assertEqual(run_graph(bb.finalize(), floats_2x3()), [2, 3, 4, 1, 0, 7])

    def test_operators_from_their_records(self):
        x = graph.var("x", graph.Tensor((1, 3, 8, 8), "float32"))
        w = graph.var("w", graph.Tensor((4, 3, 3, 3), "float32"))
        y = op.nn.conv2d(x, w, padding=1)
        self.assertEqual([d.value for d in y.type.shape.values], [1, 4, 8, 8])
        y = op.nn.conv2d(x, w, strides=[2, 2], padding=[1, 1, 1, 1])
        self.assertEqual([d.value for d in y.type.shape.values], [1, 4, 4, 4])
        self.assertIn("padding", op.nn.conv2d.__doc__)
        self.assertIn("conv2d", dir(op.nn))
        self.assertEqual((x @ graph.var("m", graph.Tensor((8, 2), "float32"))).type.dtype, "float32")
        self.assertEqual((x < 1).type.dtype, "bool")

    def test_mistakes(self):
        x = graph.var("x", graph.Tensor((1, 3, 8, 8), "float32"))
        w = graph.var("w", graph.Tensor((4, 5, 3, 3), "float32"))
        with self.assertRaises(tenon.Error) as caught:
            op.nn.conv2d(x, w)
        self.assertTrue(caught.exception.code.startswith("T"))
        with self.assertRaises(tenon.UsageError) as caught:
            op.nn.conv2d(x, w, paddings=1)
        self.assertEqual((caught.exception.code, "padding" in caught.exception.hint), ("T0226", True))
        with self.assertRaises(tenon.UsageError):
            op.nn.conv2d(x)
        with self.assertRaisesRegex(AttributeError, "conv2d"):
            op.nn.conv2D
        bb = graph.BlockBuilder()
        with self.assertRaises(ValueError):
            bb.emit(x)
        with self.assertRaisesRegex(ValueError, "no result"):
            with bb.function("main", [x]):
                pass


class Walks(unittest.TestCase):
    def test_visit_and_rewrite(self):
        A = te.placeholder((4,), name="A")
        f = te.create_prim_func([A, te.compute((4,), lambda i: A[i] * 2 + 1)])
        seen = []
        tenon.visit(f, {tir.BufferLoad: lambda n: seen.append(n.buffer.name), tir.PrimExpr: lambda n: seen.append("e")})
        self.assertIn("A", seen)
        self.assertIn("e", seen)
        g = tenon.rewrite(f, {tir.Mul: lambda n: n.a * 5, tir.Add: lambda n: None})
        self.assertEqual(run(g, floats(1, 2, 3, 4), floats(0, 0, 0, 0)), [6, 11, 16, 21])
        self.assertIs(tenon.rewrite(f, {tir.Sub: lambda n: n.a}), f)
        with self.assertRaises(TypeError):
            tenon.rewrite(f, {tir.Mul: lambda n: "text"})
        with self.assertRaises(TypeError):
            tenon.visit(f, {"tir.Mul": print})


if __name__ == "__main__":
    unittest.main()
