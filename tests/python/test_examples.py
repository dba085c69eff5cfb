# SPDX-License-Identifier: Apache-2.0
"""Programs that posts about such compilers show, compiled and run from Python: values beside NumPy, decorated programs beside
their text. Those of tensor expressions and script text alone are in test_posts.py; test_post_groups.py lists every group of
their examples, those without a part here too."""
from __future__ import annotations

import unittest

import tenon
from tenon import graph, op, te, tir, transform
from tenon.script import relax as R, tir as T

try:
    import numpy as np
except ImportError:
    raise unittest.SkipTest("NumPy is not here") from None

RNG = np.random.default_rng(7)


def normal(*shape):
    return RNG.standard_normal(shape).astype("f")


def built(f, *params):
    """A module of one function over variables: `f` makes its result with the builder."""
    bb = graph.BlockBuilder()
    with bb.function("main", list(params)):
        bb.emit_func_output(f(bb, *params))
    return bb.finalize()


def variable(name, *shape, dtype="float32"):
    return graph.var(name, graph.Tensor(shape, dtype))


def ops_of(module, name="main"):
    """Names of the operators that a function calls, in order."""
    found = []
    tenon.visit(module[name], {graph.Call: lambda c: found.append(getattr(c.op, "name", None))})
    return found


def conv_reference(x, w, stride=1, pad=0):
    """A convolution as sums of shifted products."""
    n, c, h, wd = x.shape
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    oh, ow = (h + 2 * pad - w.shape[2]) // stride + 1, (wd + 2 * pad - w.shape[3]) // stride + 1
    out = np.zeros((n, w.shape[0], oh, ow), "f")
    for i in range(w.shape[2]):
        for j in range(w.shape[3]):
            part = x[:, :, i:i + stride * oh:stride, j:j + stride * ow:stride]
            out += np.einsum("nchw,oc->nohw", part, w[:, :, i, j])
    return out


class Unity(unittest.TestCase):
    """Two levels in one module, shapes as values, calls that write their results."""

    def test_bias_add(self):
        x, b = variable("x", 2, 3, 4), variable("b", 3)
        module = built(lambda bb, x, b: bb.emit(op.nn.bias_add(x, b, axis=1)), x, b)
        out = tenon.compile(module)(a := normal(2, 3, 4), c := normal(3))
        np.testing.assert_allclose(out, a + c[:, None], rtol=1e-6)
        with self.assertRaises(tenon.ModelError) as refused:
            op.nn.bias_add(x, b, axis=7)
        self.assertIn("axis", str(refused.exception))
        with self.assertRaises(tenon.ModelError):
            op.nn.bias_add(x, variable("b", 5), axis=1)

    def test_shapes_and_registered_functions(self):
        def myshape(shape):
            return tenon.Shape(tuple(shape))

        def custom(x, out):
            np.asarray(out)[:] = np.asarray(x) * 2

        tenon.register_func("test.examples.myshape", myshape)
        tenon.register_func("test.examples.custom", custom)
        try:
            @tenon.script.ir_module
            class Module:
                @R.function
                def main(x: R.Tensor[(n, 2, 2), "f32"]):
                    with R.dataflow():
                        lv0: R.Tensor[(n, 4), "f32"] = R.reshape(x, (n, 4))
                        lv1: R.Tensor[(n * 4,), "f32"] = R.flatten(lv0)
                        lv2: R.Shape = (n * 4,)
                        lv3: R.Shape = R.call_packed("test.examples.myshape", lv2, sinfo_args=R.Shape(ndim=1))
                        lv4 = R.call_dps_packed("test.examples.custom", (lv1,), out_sinfo=R.Tensor((n * 4,), "float32"))
                        # data dependent case
                        lv5: R.Tensor[_, "f32"] = R.unique(lv4)
                        # re-match shape
                        lv6: R.Tensor[(m,), "f32"] = R.match_shape(lv5, (m,))
                        gv0: R.Tensor[(m,), "f32"] = R.exp(lv6)
                        R.outputs(gv0)
                    return gv0

            self.assertEqual(tenon.parse(Module.script()), Module)
            ex = tenon.compile(Module)
            for rows in (1, 3, 5):
                x = RNG.integers(0, 4, (rows, 2, 2)).astype("f") / 2
                np.testing.assert_allclose(ex(x), np.exp(np.unique(2 * x)), rtol=1e-5)
        finally:
            for name in ("myshape", "custom"):
                tenon.remove_global_func("test.examples." + name)

    def test_a_tensor_is_no_shape(self):
        """As the post prints it: a tensor where a shape stands."""
        with self.assertRaises(tenon.ModelError) as refused:
            @R.function
            def main(x: R.Tensor[(n, 4), "f32"]):
                lv = R.reshape(x, (n * 4,))
                gv = R.call_tir(lv, "custom_func", [lv])
                return gv
        self.assertIn("test_examples.py", str(refused.exception))

    def test_match_shape_binds_then_asserts(self):
        @R.function
        def main(x: R.Tensor[_, "f32"], y: R.Tensor[_, "f32"]):
            with R.dataflow():
                lv0: R.Tensor[(n, m), "f32"] = R.match_shape(x, (n, m))
                lv1: R.Tensor[(m,), "f32"] = R.match_shape(y, (m,))
                gv = R.add(lv0, lv1)
                R.outputs(gv)
            return gv

        ex = tenon.compile(tenon.ir.IRModule({"main": main}))
        x, y = normal(2, 3), normal(3)
        np.testing.assert_allclose(ex(x, y), x + y, rtol=1e-6)
        with self.assertRaises(tenon.ModelError) as refused:
            ex(x, normal(4))
        self.assertIn("4", str(refused.exception))
        np.testing.assert_allclose(ex(x, y), x + y, rtol=1e-6)

    def test_both_levels_in_one_module(self):
        @tenon.script.ir_module
        class Module:
            @T.prim_func
            def tir_exp(x: T.handle, y: T.handle):
                X = T.match_buffer(x, (n,), "float32")
                Y = T.match_buffer(y, (n,), "float32")
                for i in T.grid(n):
                    with T.block("Y"):
                        v = T.axis.spatial(n, i)
                        Y[v] = T.exp(X[v])

            @R.function
            def main(x: R.Tensor[(n, k), "f32"], w: R.Tensor[(k, m), "f32"]):
                with R.dataflow():
                    lv1 = R.matmul(x, w)
                    lv2 = R.reshape(lv1, (n * m,))
                    gv0 = R.call_tir(tir_exp, [lv2], out_sinfo=R.Tensor((n * m,), "float32"))
                    R.outputs(gv0)
                return gv0

        x, w = normal(2, 3), normal(3, 4)
        np.testing.assert_allclose(tenon.compile(Module)(x, w), np.exp(x @ w).reshape(-1), rtol=1e-5)

    def test_simplenet(self):
        """conv, batch_norm, relu: built, optimised, run by the graph executor; its source and its picture."""
        params = {"w": RNG.uniform(-1, 1, (32, 3, 3, 3)).astype("f"),
                  **{k: RNG.uniform(0.1, 1, (32,)).astype("f") for k in ("gamma", "beta", "mean", "var")}}
        data = variable("data", 1, 3, 224, 224)

        def net(bb, x, w, gamma, beta, mean, var):
            y = bb.emit(op.nn.conv2d(x, w, strides=[2, 2], padding=[1, 1, 1, 1]))
            y = bb.emit(op.nn.batch_norm(y, gamma, beta, mean, var, epsilon=1e-5))
            y = bb.emit(graph.TupleGetItem(y, 0)) if isinstance(y.type, tenon.ir.TupleType) else y
            return bb.emit(op.nn.relu(y))

        module = built(net, data, variable("w", 32, 3, 3, 3), *(variable(k, 32) for k in ("gamma", "beta", "mean", "var")))
        with transform.PassContext(opt_level=3, required_pass=["bind_params"], config={"bind_params.values": params}):
            module = transform.Sequential(["infer_types", "bind_params"])(module)
        ex = tenon.compile(module, opt_level=3)
        executor = tenon.GraphExecutor(ex)
        x = RNG.uniform(-1, 1, (1, 3, 224, 224)).astype("f")
        executor.set_input("data", x)
        executor.run()
        out = executor.get_output(0)
        y = conv_reference(x, params["w"], 2, 1)
        scale = params["gamma"] / np.sqrt(params["var"] + 1e-5)
        want = np.maximum((y - params["mean"][:, None, None]) * scale[:, None, None] + params["beta"][:, None, None], 0)
        self.assertEqual(out.shape, (1, 32, 112, 112))
        np.testing.assert_allclose(out, want, rtol=1e-3, atol=1e-3)
        self.assertIn("digraph", ex.source("dot"))
        self.assertTrue(ex.source("llvm") and ex.source("asm"))
        self.assertIn("#include", tenon.compile(module, target="c").source("c"))


class Fusion(unittest.TestCase):
    def groups(self, module):
        with transform.PassContext(opt_level=3):
            fused = transform.Sequential(["infer_types", "fuse_ops"])(module)
        return [name for name in fused.functions if name != "main"], fused

    def test_add_exp_squeeze(self):
        module = built(lambda bb, x: bb.emit(op.squeeze(bb.emit(op.exp(bb.emit(x + 1.0))))), variable("x", 10, 20))
        self.assertEqual(ops_of(module), ["add", "exp", "squeeze"])
        self.assertEqual(len(self.groups(module)[0]), 1)
        x = normal(10, 20)
        np.testing.assert_allclose(tenon.compile(module)(x), np.exp(x + 1).squeeze(), rtol=1e-5)

    def test_prelu(self):
        module = built(lambda bb, x, a: bb.emit(op.nn.prelu(x, a)), variable("x", 2, 3, 4), variable("a", 3, 1))
        x, a = normal(2, 3, 4), normal(3, 1)
        ex = tenon.compile(module)
        np.testing.assert_allclose(ex(x, a), np.where(x > 0, x, x * a), rtol=1e-6)
        self.assertRegex(ex.compiled.planned.script(), r"T\.(Select|if_then_else|max)")

    def test_two_convolutions_and_their_concatenation(self):
        x = variable("x", 1, 1, 4, 4)
        w = variable("w", 1, 1, 1, 1)

        def net(bb, x, w):
            a = bb.emit(op.nn.relu(bb.emit(op.nn.conv2d(x, w))))
            b = bb.emit(op.nn.relu(bb.emit(op.nn.conv2d(x, w))))
            return bb.emit(op.concat([a, b], axis=1))

        module = built(net, x, w)
        self.assertEqual([o for o in ops_of(module)], ["nn.conv2d", "nn.relu"] * 2 + ["concat"])
        data = normal(1, 1, 4, 4)
        out = tenon.compile(module)(data, np.ones((1, 1, 1, 1), "f"))
        np.testing.assert_allclose(out, np.concatenate([np.maximum(data, 0)] * 2, 1), rtol=1e-6)

    def test_dense_sigmoid_is_one_program(self):
        module = built(lambda bb, x, w: bb.emit(op.sigmoid(bb.emit(op.matmul(x, w)))), variable("x", 16, 32),
                       variable("w", 32, 64))
        self.assertEqual(len(self.groups(module)[0]), 1)
        ex = tenon.compile(module)
        x, w = normal(16, 32), normal(32, 64)
        np.testing.assert_allclose(ex(x, w), 1 / (1 + np.exp(-(x @ w))), rtol=1e-4, atol=1e-5)

    def test_parallel_convolutions(self):
        """Convolutions of one tensor become one, with what follows each; their results are slices of its result."""
        weights = [normal(2 + k, 3, 1, 1) for k in range(3)]

        def net(bb, x):
            outs = [bb.emit(op.nn.relu(bb.emit(op.nn.conv2d(x, graph.Constant(tenon.NDArray(w)))))) for w in weights]
            return bb.emit(op.concat(outs, axis=1))

        module = built(net, variable("x", 1, 3, 5, 5))
        x = normal(1, 3, 5, 5)
        want = np.maximum(np.concatenate([conv_reference(x, w) for w in weights], 1), 0)
        for least, convolutions in ((3, 1), (4, 3)):
            with transform.PassContext(opt_level=3, required_pass=["combine_parallel_conv2d"],
                                       config={"combine_parallel_conv2d.min_branches": least}):
                combined = transform.Sequential(["infer_types", "combine_parallel_conv2d", "eliminate_dead_code"])(module)
            self.assertEqual(ops_of(combined).count("nn.conv2d"), convolutions)
            np.testing.assert_allclose(tenon.compile(combined)(x), want, rtol=1e-4, atol=1e-5)

    def test_dead_values_go(self):
        def net(bb, x):
            bb.emit(op.exp(x))
            return bb.emit(op.nn.relu(x))

        module = built(net, variable("x", 4))
        with transform.PassContext(opt_level=3):
            self.assertEqual(ops_of(transform.Sequential(["infer_types", "eliminate_dead_code"])(module)), ["nn.relu"])

    def test_values_bound_once(self):
        """What nothing needs goes, whatever it is bound to. A value that is needed once stays bound, as values of graph
        functions do, and is computed where it is needed by fusion."""
        def net(bb, x):
            a = bb.emit(op.exp(x))
            bb.emit(op.nn.relu(a))                # dead, and with it nothing else
            b = bb.emit(op.sqrt(bb.emit(op.exp(x))))  # both dead
            del b
            return bb.emit(a + 1.0)

        module = built(net, variable("x", 4))
        with transform.PassContext(opt_level=3):
            self.assertEqual(ops_of(transform.Sequential(["infer_types", "eliminate_dead_code"])(module)), ["exp", "add"])
        self.assertEqual(len(self.groups(module)[0]), 1)
        x = normal(4)
        np.testing.assert_allclose(tenon.compile(module)(x), np.exp(x) + 1, rtol=1e-5)

    def test_layouts_of_weights_are_folded(self):
        """A convolution wants its constant weights in blocks: a transform is put on them, and computed when it compiles."""
        w = normal(32, 16, 3, 3)
        module = built(lambda bb, x: bb.emit(op.nn.conv2d(x, graph.Constant(tenon.NDArray(w)), padding=1)),
                       variable("x", 1, 16, 14, 14))
        with transform.PassContext(opt_level=3):
            blocked = transform.Sequential(["infer_types", "convert_layout"])(module)
            folded = transform.Sequential(["infer_types", "fold_constant"])(blocked)

        def transforms_of_constants(module):
            found = []
            tenon.visit(module["main"], {graph.Call: lambda c: found.append(c) if getattr(c.op, "name", "") == "layout_transform"
                                         and isinstance(c.args[0], graph.Constant) else None})
            return len(found)

        self.assertEqual((transforms_of_constants(module), transforms_of_constants(blocked), transforms_of_constants(folded)),
                         (0, 1, 0))
        x = normal(1, 16, 14, 14)
        want = conv_reference(x, w, 1, 1)
        for m in (module, blocked, folded):
            np.testing.assert_allclose(tenon.compile(m)(x), want, rtol=1e-3, atol=1e-3)

    def test_order_of_passes_and_of_a_pipeline(self):
        names = [p.name for p in transform.pipeline("graph").passes]
        self.assertLess(names.index("infer_types"), names.index("fold_constant"))
        self.assertLess(names.index("fold_constant"), names.index("fuse_ops"))
        self.assertLess(names.index("fuse_ops"), names.index("lower_to_call_tir"))


class Schedules(unittest.TestCase):
    def test_injective(self):
        """Split by 4, vectorised; the producer inline."""
        A = te.placeholder((8, 8), name="A")
        B = te.compute((8, 8), lambda i, j: A[i, j] + 1.0, name="B")
        C = te.compute((8, 8), lambda i, j: B[i, j] * 2.0, name="C")
        s = te.create_schedule(C.op)
        s[B].compute_inline()
        fused = s[C].fuse(*C.op.axis)
        outer, inner = s[C].split(fused, factor=4)
        s[C].vectorize(inner).parallel(outer)
        module = te.lower(s, [A, C])
        self.assertIn("T.vectorized(4)", module.script())
        a, c = normal(8, 8), np.zeros((8, 8), "f")
        tenon.get_global_func("ir.interpret")(module, [tenon.NDArray(a), tenon.NDArray(c)], "main")
        np.testing.assert_allclose(c, (a + 1) * 2, rtol=1e-6)

    def test_concatenation_as_conditions(self):
        A, B = te.placeholder((3,), name="A"), te.placeholder((5,), name="B")
        C = te.compute((8,), lambda i: tir.if_then_else(i < 3, A[i], B[i - 3]), name="C")
        a, b, c = normal(3), normal(5), np.zeros(8, "f")
        tenon.get_global_func("ir.interpret")(te.create_prim_func([A, B, C]), [tenon.NDArray(x) for x in (a, b, c)])
        np.testing.assert_array_equal(c, np.concatenate([a, b]))

    def test_recorded_steps_repeat(self):
        A, B = te.placeholder((64, 32), name="A"), te.placeholder((32, 48), name="B")
        k = te.reduce_axis((0, 32), name="k")
        C = te.compute((64, 48), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
        program = te.create_prim_func([A, B, C])
        sch = tir.Schedule(program)
        i, j, k = sch.get_loops("C")
        io, ii = sch.split(i, factors=[None, 8])
        jo, ji = sch.split(j, factors=[None, 16])
        ko, ki = sch.split(k, factors=[None, 4])
        sch.reorder(io, jo, ko, ii, ki, ji)
        sch.decompose_reduction("C", ko)
        sch.vectorize(ji)
        sch.unroll(ki)
        sch.parallel(io)
        again = tir.Schedule(program)
        again.run(sch.trace)
        self.assertEqual(again.func, sch.func)
        self.assertEqual(again.trace.script, sch.trace.script)
        a, b, c = normal(64, 32), normal(32, 48), np.zeros((64, 48), "f")
        tenon.get_global_func("ir.interpret")(again.func, [tenon.NDArray(x) for x in (a, b, c)])
        np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)


class Onnx(unittest.TestCase):
    def setUp(self):
        try:
            import onnx
        except ImportError:
            self.skipTest("onnx is not here")
        self.helper, self.float = onnx.helper, onnx.TensorProto.FLOAT

    def model(self, kind, inputs, out, opset=17, constants=(), **attributes):
        h = self.helper
        node = h.make_node(kind, [*inputs, *(c.name for c in constants)], ["y"], **attributes)
        infos = [h.make_tensor_value_info(n, self.float, s) for n, s in inputs.items()]
        return h.make_model(h.make_graph([node], "g", infos, [h.make_tensor_value_info("y", self.float, out)], list(constants)),
                            opset_imports=[h.make_opsetid("", opset)], ir_version=8)

    def test_convolutions_and_their_padding(self):
        x, w, b = normal(1, 2, 5, 5), normal(3, 2, 3, 3), normal(3)
        same = conv_reference(x, w, 1, 1) + b[:, None, None]
        for auto_pad, want in (("NOTSET", same[:, :, 1:-1, 1:-1]), ("VALID", same[:, :, 1:-1, 1:-1]), ("SAME_UPPER", same),
                               ("SAME_LOWER", same)):
            ex = tenon.compile(self.model("Conv", {"x": x.shape, "w": w.shape, "b": b.shape}, None, auto_pad=auto_pad))
            np.testing.assert_allclose(ex(x, w, b), want, rtol=1e-4, atol=1e-5)
        with self.assertRaises(tenon.ModelError) as refused:
            tenon.compile(self.model("Conv", {"x": x.shape, "w": w.shape, "b": b.shape}, None, auto_pad="SOME"))
        self.assertIn("auto_pad", str(refused.exception))

    def test_resize_of_opset_10(self):
        import onnx
        x = normal(1, 1, 2, 3)
        scales = onnx.numpy_helper.from_array(np.array([1, 1, 2, 2], "f"), "scales")
        ex = tenon.compile(self.model("Resize", {"x": x.shape}, None, 10, [scales], mode="nearest"))
        np.testing.assert_array_equal(ex(x), x.repeat(2, 2).repeat(2, 3))
        self.assertEqual(tenon.compile(self.model("Resize", {"x": x.shape}, None, 10, [scales], mode="linear"))(x).shape, (1, 1, 4, 6))
        with self.assertRaises(tenon.ModelError) as refused:
            tenon.compile(self.model("Resize", {"x": x.shape}, None, 10, [scales], mode="cubist"))
        self.assertIn("cubist", str(refused.exception))

    def test_resize_to_sizes_of_the_model_and_of_the_run(self):
        import onnx
        h, x = self.helper, normal(1, 1, 2, 3)
        infos = [h.make_tensor_value_info("x", self.float, x.shape), h.make_tensor_value_info("sizes", onnx.TensorProto.INT64, (4,))]
        sizes = np.array([1, 1, 4, 6], np.int64)
        for constant in (True, False):
            node = h.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="nearest", coordinate_transformation_mode="asymmetric",
                               nearest_mode="floor")
            model = h.make_model(h.make_graph([node], "g", infos[:1] if constant else infos,
                                              [h.make_tensor_value_info("y", self.float, None)],
                                              [onnx.numpy_helper.from_array(sizes, "sizes")] if constant else []),
                                 opset_imports=[h.make_opsetid("", 17)], ir_version=8)
            ex = tenon.compile(model)
            np.testing.assert_array_equal(ex(x) if constant else ex(x, sizes), x.repeat(2, 2).repeat(2, 3))
        np.testing.assert_array_equal(ex(x, np.array([1, 1, 2, 9], np.int64)), x.repeat(3, 3))

    def test_operators_are_found_by_name(self):
        self.assertEqual(graph.Op("nn.conv2d").name, "nn.conv2d")
        with self.assertRaises(tenon.UsageError):
            graph.Op("nn.conv2e")


if __name__ == "__main__":
    unittest.main()
