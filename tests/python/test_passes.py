# SPDX-License-Identifier: Apache-2.0
"""Passes, contexts and instruments written in Python."""
import contextlib
import io
import os
import tempfile
import unittest

import tenon
from tenon import graph, op, te, tir, transform


def model():
    """relu(x * 2 + 1), with a constant that folds."""
    bb = graph.BlockBuilder()
    x = graph.var("x", graph.Tensor((4,), "float32"))
    with bb.function("main", [x]):
        two = bb.emit(op.add(op.ones([4], "float32"), op.ones([4], "float32")))
        bb.emit_func_output(op.nn.relu(x * two + 1.0))
    return bb.finalize()


class Sequences(unittest.TestCase):
    def test_names_passes_and_timings(self):
        with transform.PassContext() as ctx:
            out = transform.Sequential(["infer_types", transform.get("fold_constant"), transform.eliminate_dead_code])(model())
        self.assertEqual([t[0] for t in ctx.timings], ["infer_types", "fold_constant", "eliminate_dead_code"])
        self.assertTrue(all(isinstance(ms, float) and isinstance(changed, bool) for _, ms, changed in ctx.timings))
        self.assertNotIn("R.ones", out.script())

    def test_layouts_that_are_named(self):
        bb = graph.BlockBuilder()
        x, w = graph.var("x", graph.Tensor((1, 2, 4, 4), "float32")), graph.var("w", graph.Tensor((3, 2, 1, 1), "float32"))
        with bb.function("main", [x, w]):
            bb.emit_func_output(op.nn.relu(bb.emit(op.nn.conv2d(x, w))))
        mod = bb.finalize()
        for wanted in ("NHWC", "NHWC:HWIO", ["NHWC", "default"]):
            out = transform.Sequential(["infer_types", transform.ConvertLayout({"nn.conv2d": wanted})])(mod)
            self.assertIn('data_layout="NHWC", kernel_layout="HWIO"', out.script())
        with self.assertRaises(tenon.UsageError) as caught:
            transform.ConvertLayout({"nn.conv2d": ["NHWX", "HWIO"], "nn.relu": "NHWC"})(mod)
        self.assertIn("T1107", str(caught.exception))
        self.assertIn("takes no layout", str(caught.exception))

    def test_layouts_are_objects(self):
        layout = tir.BijectiveLayout("NCHW", "NCHW4c")
        self.assertEqual([n.value for n in layout.forward_shape([1, 10, 3, 3])], [1, 3, 3, 3, 4])
        self.assertEqual([n.value for n in layout.backward_index(layout.forward_index([0, 6, 1, 2]))], [0, 6, 1, 2])
        self.assertEqual(len(layout.index_map.outputs), 5)
        with self.assertRaises(tenon.UsageError):
            tir.BijectiveLayout("NCHW", "NCHX")

    def test_every_pass_has_its_record(self):
        names = transform.names()
        self.assertGreater(len(names), 60)
        for name in names:
            p = transform.get(name)
            self.assertTrue(p.info.summary, name)
            self.assertIn(p.info.changes, ("nothing", "sum_order", "rounding"))

    def test_the_pipeline(self):
        parts = [transform.pipeline(part) for part in ("graph", "schedule", "tensor")]
        self.assertIn("fuse_ops", [p.name for p in parts[0].passes])
        out = parts[1](parts[0](model()))
        self.assertTrue(any(isinstance(f, tir.PrimFunc) for f in out.functions.values()))

    def test_levels_required_and_disabled(self):
        def ran(**settings):
            with transform.PassContext(**settings) as ctx:
                transform.Sequential(["infer_types", "fold_constant", "label_ops"])(model())
            return [t[0] for t in ctx.timings]
        self.assertEqual(ran(opt_level=2), ["infer_types", "fold_constant"])
        self.assertEqual(ran(required_pass=["label_ops"]), ["infer_types", "fold_constant", "label_ops"])
        self.assertEqual(ran(disabled_pass=["fold_constant"]), ["infer_types"])
        self.assertEqual(ran(opt_level=0, required_pass=["label_ops"])[-1], "label_ops")

    def test_options(self):
        options = [o["name"] for name in transform.names() for o in transform.get(name).options]
        self.assertGreater(len(options), 10)
        wrong = options[0][:-1]
        for config, code in (({wrong: 1}, "T0943"), ({"fold_constants.x": 1}, "T0919"), ({options[0]: object()}, "T0944"),
                             ({"split_args.max": 1}, "T0944"), ({"topological_sort.order": "up"}, "T0944")):
            with self.assertRaises(tenon.UsageError) as caught:
                with transform.PassContext(config=config):
                    transform.Sequential(["infer_types"])(model())
            self.assertEqual(caught.exception.code, code)
            if code != "T0944":
                self.assertIn("did you mean", caught.exception.hint)

    def test_unknown_passes(self):
        with self.assertRaises(tenon.UsageError) as caught:
            transform.Sequential(["fold_constants"])
        self.assertEqual((caught.exception.code, "fold_constant" in caught.exception.hint), ("T0919", True))
        with self.assertRaises(AttributeError):
            transform.no_such_pass

    def test_dump_and_print(self):
        out = io.StringIO()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(out):
            with transform.PassContext(dump=folder, print_after=["fold_constant"], verify=True):
                transform.Sequential(["infer_types", "fold_constant"])(model())
            self.assertEqual([f for f in sorted(os.listdir(folder)) if f.endswith(".tir")],
                             ["00_infer_types.tir", "01_fold_constant.tir"])
        self.assertIn("# behind fold_constant", out.getvalue())


class Decorators(unittest.TestCase):
    def test_module_pass(self):
        @transform.module_pass(opt_level=1, name="mark")
        def mark(mod, ctx):
            """Marks the module."""
            self.assertIsInstance(ctx, transform.PassContext)
            return mod.replace(attrs={"marked": ctx.opt_level})

        self.assertEqual((mark.name, mark.opt_level, mark.info.summary), ("mark", 1, "Marks the module."))
        with transform.PassContext(opt_level=3):
            self.assertEqual(mark(model()).attrs["marked"], 3)
        with transform.PassContext(opt_level=0):
            self.assertNotIn("marked", mark(model()).attrs or {})

    def test_function_and_prim_func_passes(self):
        seen = []

        @transform.function_pass
        def rename(func, mod, ctx):
            seen.append(type(func).__name__)
            return tenon.rewrite(func, {graph.Call: lambda c: op.sigmoid(c.args[0])
                                        if getattr(c.op, "name", "") == "nn.relu" else None})

        @transform.prim_func_pass(opt_level=0)
        class Double:
            def transform_prim_func(self, func, mod, ctx):
                seen.append(type(func).__name__)
                return tenon.rewrite(func, {tir.Add: lambda n: n * 2})

        A = te.placeholder((4,), name="A")
        program = te.create_prim_func([A, te.compute((4,), lambda i: A[i] + 1)])
        module = model()
        module = module.replace(functions={**dict(module.functions.items()), "f": program})
        out = transform.Sequential([rename, Double])(module)
        self.assertEqual(seen, ["Function", "PrimFunc"])
        self.assertIn("R.sigmoid", out.script())
        self.assertIn("* T.float32(2)", out.script())

    def test_what_a_pass_may_not_give(self):
        @transform.module_pass
        def nothing(mod, ctx):
            return None

        @transform.function_pass
        def text(func, mod, ctx):
            return "text"

        @transform.module_pass
        def fails(mod, ctx):
            raise KeyError("mine")

        with self.assertRaises(tenon.Error):
            nothing(model())
        with self.assertRaises(TypeError):
            text(model())
        with self.assertRaises(KeyError):
            fails(model())

    def test_inside_the_default_pipeline(self):
        ran = []

        @transform.function_pass(before="fuse_ops")
        def watch(func, mod, ctx):
            ran.append(func)
            return func

        try:
            names = [p.name for p in transform.pipeline("graph").passes]
            self.assertEqual(names[names.index("watch") + 1], "fuse_ops")
            transform.pipeline("graph")(model())
            self.assertEqual(len(ran), 1)
            with self.assertRaises(tenon.UsageError) as caught:
                transform.insert_pass(watch, "fuse_ops")
            self.assertEqual(caught.exception.code, "T0948")
        finally:
            transform.remove_pass("watch")
        self.assertNotIn("watch", [p.name for p in transform.pipeline("graph").passes])
        for before, code in (("fuse_op", "T0919"), ("label_op", "T0919")):
            with self.assertRaises(tenon.UsageError) as caught:
                transform.insert_pass(watch, before)
            self.assertEqual(caught.exception.code, code)


class Instruments(unittest.TestCase):
    def test_calls_and_vetoes(self):
        calls = []

        @transform.pass_instrument
        class Watch:
            def enter_pass_ctx(self):
                calls.append("enter")

            def exit_pass_ctx(self):
                calls.append("exit")

            def should_run(self, mod, info):
                return info.name != "fold_constant"

            def run_before_pass(self, mod, info):
                calls.append("before " + info.name)

            def run_after_pass(self, mod, info):
                calls.append("after " + info.name)

        with transform.PassContext(instruments=[Watch()]):
            transform.Sequential(["infer_types", "fold_constant"])(model())
        self.assertEqual(calls, ["enter", "before infer_types", "after infer_types", "exit"])
        with self.assertRaises(TypeError):
            @transform.pass_instrument
            class Nothing:
                pass

    def test_an_exception_ends_the_run(self):
        @transform.pass_instrument
        class Stop:
            def run_before_pass(self, mod, info):
                raise RuntimeError("stop")
        with self.assertRaisesRegex(RuntimeError, "stop"):
            with transform.PassContext(instruments=[Stop()]):
                transform.Sequential(["infer_types"])(model())

    def test_contexts_nest(self):
        with transform.PassContext(opt_level=1) as outer:
            with transform.PassContext(opt_level=3) as inner:
                self.assertIs(transform.PassContext.current(), inner)
            self.assertIs(transform.PassContext.current(), outer)
        self.assertEqual(transform.PassContext.current().opt_level, 2)


if __name__ == "__main__":
    unittest.main()
