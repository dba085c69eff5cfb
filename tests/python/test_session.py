# SPDX-License-Identifier: Apache-2.0
"""Compiling and running from memory, and `InferenceSession` beside ONNX Runtime: every program below runs against both
packages with nothing changed but the module that it is given."""
import json
import os
import tempfile
import threading
import unittest
import warnings

import tenon

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper
except ImportError:
    raise unittest.SkipTest("NumPy and onnx are not here") from None
try:
    import onnxruntime
except ImportError:
    onnxruntime = None


def info(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def model_of(nodes, inputs, outputs, constants=(), **keywords):
    graph = helper.make_graph(nodes, "graph", inputs, outputs, list(constants))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, **keywords)


def relu(shape=("n", 4)):
    return model_of([helper.make_node("Relu", ["x"], ["y"])], [info("x", shape)], [info("y", shape)])


def two_layers():
    rng = np.random.default_rng(1)
    constants = [onnx.numpy_helper.from_array(rng.standard_normal(s).astype("f"), n)
                 for n, s in (("w", (4, 8)), ("b", (8,)), ("v", (8, 3)))]
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["h"]), helper.make_node("Relu", ["h"], ["r"]),
             helper.make_node("MatMul", ["r", "v"], ["y"]), helper.make_node("Softmax", ["y"], ["p"])]
    return model_of(nodes, [info("x", ("n", 4))], [info("p", ("n", 3)), info("y", ("n", 3))], constants)


def sum_and_product():
    nodes = [helper.make_node("Add", ["a", "b"], ["s"]), helper.make_node("Mul", ["a", "b"], ["p"])]
    return model_of(nodes, [info("a", (2, 3)), info("b", (2, 3))], [info("s", (2, 3)), info("p", (2, 3))])


X = np.arange(8, dtype="f").reshape(2, 4) - 3.5 if "np" in globals() else None
A, B = (np.full((2, 3), v, "f") for v in (2, 5))


def session(ort, model, **keywords):
    return ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"], **keywords)


# ---------------------------------------------------------------- the programs
def run_all_outputs(ort):
    return session(ort, two_layers()).run(None, {"x": X})


def run_named_outputs(ort):
    return session(ort, two_layers()).run(["y"], {"x": X})


def run_outputs_in_another_order(ort):
    return session(ort, two_layers()).run(["y", "p"], {"x": X})


def run_from_a_file(ort):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        onnx.save(relu(), path)
        return ort.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": X})


def names_types_and_shapes(ort):
    s = session(ort, two_layers())
    return [(v.name, v.type, v.shape) for v in s.get_inputs() + s.get_outputs()]


def feed_by_asked_names(ort):
    s = session(ort, sum_and_product())
    feed = {i.name: v for i, v in zip(s.get_inputs(), (A, B))}
    return s.run([o.name for o in s.get_outputs()], feed)


def several_sizes_of_one_session(ort):
    s = session(ort, relu())
    return [s.run(None, {"x": np.full((n, 4), n - 2, "f")})[0] for n in (1, 3, 2, 7)]


def an_empty_batch(ort):
    return session(ort, relu()).run(None, {"x": np.zeros((0, 4), "f")})


def strided_inputs(ort):
    s = session(ort, relu())
    return [s.run(None, {"x": v})[0] for v in (X[:, ::-1], X[::-1], np.asfortranarray(X), X.T.copy().T)]


def read_only_inputs(ort):
    x = X.copy()
    x.flags.writeable = False
    return session(ort, relu()).run(None, {"x": x})


def results_outlive_later_runs(ort):
    s = session(ort, relu())
    first = s.run(None, {"x": X})[0]
    s.run(None, {"x": X + 10})
    return first


def results_outlive_the_session(ort):
    s = session(ort, relu())
    result = s.run(None, {"x": X})[0]
    del s
    return result + 0


def results_can_be_written(ort):
    result = session(ort, relu((2, 4))).run(None, {"x": X})[0]
    result += 1
    return result


def lists_become_tensors(ort):
    return session(ort, relu()).run(None, {"x": X.tolist()})


def session_settings(ort):
    o = ort.SessionOptions()
    o.intra_op_num_threads = 1
    o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    return session(ort, two_layers(), sess_options=o).run(None, {"x": X})


def no_optimisation(ort):
    o = ort.SessionOptions()
    o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return session(ort, two_layers(), sess_options=o).run(None, {"x": X})


def a_size_for_a_symbolic_dimension(ort):
    o = ort.SessionOptions()
    o.add_free_dimension_override_by_name("n", 2)
    s = session(ort, relu(), sess_options=o)
    return s.get_inputs()[0].shape, s.run(None, {"x": X})


def run_settings(ort):
    return session(ort, relu()).run(None, {"x": X}, ort.RunOptions())


def values(ort):
    v = ort.OrtValue.ortvalue_from_numpy(X)
    return v.shape(), v.data_type(), v.is_tensor(), v.has_value(), v.device_name(), v.element_type(), v.numpy()


def values_of_a_run(ort):
    s = session(ort, relu())
    return [v.numpy() for v in s.run_with_ort_values(None, {"x": ort.OrtValue.ortvalue_from_numpy(X)})]


def values_change_in_place(ort):
    v = ort.OrtValue.ortvalue_from_numpy(X.copy())
    v.update_inplace(X + 1)
    return v.numpy()


def values_by_shape(ort):
    v = ort.OrtValue.ortvalue_from_shape_and_type([2, 3], np.int64)
    return v.shape(), v.data_type(), v.element_type()


def binding_with_fresh_outputs(ort):
    s = session(ort, relu((2, 4)))
    b = s.io_binding()
    b.bind_cpu_input("x", X)
    b.bind_output("y")
    s.run_with_iobinding(b)
    return b.copy_outputs_to_cpu()


def binding_to_values(ort):
    s = session(ort, sum_and_product())
    b, out = s.io_binding(), ort.OrtValue.ortvalue_from_numpy(np.zeros((2, 3), "f"))
    b.bind_ortvalue_input("a", ort.OrtValue.ortvalue_from_numpy(A))
    b.bind_ortvalue_input("b", ort.OrtValue.ortvalue_from_numpy(B))
    b.bind_ortvalue_output("p", out)
    s.run_with_iobinding(b)
    return out.numpy(), [v.shape() for v in b.get_outputs()]


def binding_by_address(ort):
    s, out = session(ort, relu((2, 4))), np.zeros((2, 4), "f")
    b = s.io_binding()
    b.bind_input("x", "cpu", 0, np.float32, X.shape, X.ctypes.data)
    b.bind_output("y", "cpu", 0, np.float32, out.shape, out.ctypes.data)
    s.run_with_iobinding(b)
    return out


def binding_for_many_runs(ort):
    s, x, seen = session(ort, relu((2, 4))), X.copy(), []
    b = s.io_binding()
    b.bind_cpu_input("x", x)
    b.bind_output("y")
    for _ in range(3):
        s.run_with_iobinding(b)
        seen.append(b.copy_outputs_to_cpu()[0].copy())
    return seen


def several_threads(ort):
    s, out = session(ort, two_layers()), [None] * 8

    def work(i):
        for _ in range(20):
            out[i] = s.run(None, {"x": X + i})[0]
    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return out


def a_run_of_its_own_thread(ort):
    s, done, got = session(ort, relu()), threading.Event(), []

    def callback(results, user, message):
        got.extend([results[0], user, message])
        done.set()
    s.run_async(None, {"x": X}, callback, "user")
    done.wait(60)
    return got


def a_missing_input(ort):
    try:
        session(ort, sum_and_product()).run(None, {"a": A})
    except ValueError as e:
        return "['b']" in str(e)
    return None


def what_is_refused(ort):
    s, seen = session(ort, relu((2, 4))), []
    for feed, outputs in (({"x": X.astype("d")}, None), ({"x": X[:1]}, None), ({"x": X[0]}, None),
                          ({"x": X, "z": X}, None), ({"x": X}, ["z"])):
        try:
            s.run(outputs, feed)
            seen.append("taken")
        except Exception as e:
            seen.append("refused" if isinstance(e, Exception) else e)
    return seen, s.run(None, {"x": X})  # the session stays usable


def providers(ort):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        s = ort.InferenceSession(relu().SerializeToString(), providers=["NoSuchProvider", "CPUExecutionProvider"])
    return s.get_providers(), any("NoSuchProvider" in str(w.message) for w in seen)


PROGRAMS = [run_all_outputs, run_named_outputs, run_outputs_in_another_order, run_from_a_file, names_types_and_shapes,
            feed_by_asked_names, several_sizes_of_one_session, an_empty_batch, strided_inputs, read_only_inputs,
            results_outlive_later_runs, results_outlive_the_session, results_can_be_written, lists_become_tensors,
            session_settings, no_optimisation, a_size_for_a_symbolic_dimension, run_settings, values, values_of_a_run,
            values_change_in_place, values_by_shape, binding_with_fresh_outputs, binding_to_values, binding_by_address,
            binding_for_many_runs, several_threads, a_run_of_its_own_thread, a_missing_input, what_is_refused,
            providers]


class BesideOnnxRuntime(unittest.TestCase):
    def same(self, a, b):
        if isinstance(a, (list, tuple)):
            self.assertEqual(len(a), len(b))
            for x, y in zip(a, b):
                self.same(x, y)
        elif isinstance(a, np.ndarray):
            self.assertEqual((a.dtype, a.shape), (b.dtype, b.shape))
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
        else:
            self.assertEqual(a, b)

    @unittest.skipIf(onnxruntime is None, "ONNX Runtime is not here")
    def test_programs(self):
        for program in PROGRAMS:
            with self.subTest(program.__name__):
                self.same(program(tenon), program(onnxruntime))


class Session(unittest.TestCase):
    def test_exceptions_of_models(self):
        foo = model_of([helper.make_node("Foo", ["x"], ["y"])], [info("x", (1,))], [info("y", (1,))])
        for model, kind in ((b"", tenon.InvalidProtobuf), (b"nonsense", tenon.InvalidProtobuf),
                            ("/nonexistent.onnx", tenon.NoSuchFile), (foo.SerializeToString(), tenon.NotImplemented)):
            with self.assertRaises(kind):
                tenon.InferenceSession(model)
        with self.assertRaises(TypeError):
            tenon.InferenceSession(5)

    def test_exceptions_of_inputs(self):
        s = tenon.InferenceSession(relu((2, 4)).SerializeToString())
        for value in (X.astype("d"), X[:1], X[0], X.astype("i4")):
            with self.assertRaises(tenon.InvalidArgument):
                s.run(None, {"x": value})
        for value in (None, object(), np.array(["a"]), "text", [[1, 2], [3]]):
            with self.assertRaisesRegex(TypeError, "'x'"):
                s.run(None, {"x": value})
        for wrong in ((), (None,), (None, {"x": X}, None, 4), (None, [X])):
            with self.assertRaises(TypeError):
                s.run(*wrong)
        np.testing.assert_array_equal(s.run(None, {"x": X})[0], np.maximum(X, 0))

    def test_settings_are_not_taken_silently(self):
        o = tenon.SessionOptions()
        with self.assertRaises(AttributeError):
            o.no_such_setting = 1
        with self.assertRaises(TypeError):
            o.intra_op_num_threads = "two"
        with self.assertWarnsRegex(UserWarning, "enable_mem_pattern"):
            o.enable_mem_pattern = False
        with self.assertWarnsRegex(UserWarning, "session.load_model_format"):
            o.add_session_config_entry("session.load_model_format", "ORT")
        with self.assertRaises(NotImplementedError):
            o.register_custom_ops_library("lib.so")
        with self.assertRaises(TypeError):
            tenon.InferenceSession(relu().SerializeToString(), no_such=1)

    def test_terminate(self):
        s, o = tenon.InferenceSession(relu().SerializeToString()), tenon.RunOptions()
        o.terminate = True
        with self.assertRaises(tenon.Fail):
            s.run(None, {"x": X}, o)
        o.terminate = False
        np.testing.assert_array_equal(s.run(None, {"x": X}, o)[0], np.maximum(X, 0))

    def test_profile(self):
        o = tenon.SessionOptions()
        o.enable_profiling = True
        with tempfile.TemporaryDirectory() as folder:
            o.profile_file_prefix = os.path.join(folder, "p_")
            s = tenon.InferenceSession(relu().SerializeToString(), o)
            s.run(None, {"x": X})
            with open(s.end_profiling()) as file:
                events = json.load(file)
        self.assertIn("model_run", [e["name"] for e in events])
        self.assertIn("Node", [e["cat"] for e in events])
        self.assertTrue(all(e["ph"] == "X" and e["dur"] >= 0 for e in events))

    def test_bindings_belong_to_their_session(self):
        s, other = (tenon.InferenceSession(relu((2, 4)).SerializeToString()) for _ in range(2))
        b = s.io_binding()
        with self.assertRaises(tenon.InvalidArgument):  # nothing is bound
            s.run_with_iobinding(b)
        with self.assertRaises(ValueError):
            other.run_with_iobinding(b)
        with self.assertRaises(tenon.InvalidArgument):
            b.bind_cpu_input("z", X)
        with self.assertRaises(TypeError):
            s.run_with_iobinding(None)

    def test_types_that_numpy_has_not(self):
        try:
            import ml_dtypes
        except ImportError:
            self.skipTest("ml_dtypes is not here")
        for dtype, kind in ((ml_dtypes.bfloat16, TensorProto.BFLOAT16),
                            (ml_dtypes.float8_e4m3fn, TensorProto.FLOAT8E4M3FN), (ml_dtypes.int4, TensorProto.INT4),
                            (ml_dtypes.uint4, TensorProto.UINT4)):
            x = np.array([[1, 0, 3], [2, 1, 1]]).astype(dtype)
            for shape in ((2, 3), ("n", 3)):
                model = model_of([helper.make_node("Identity", ["x"], ["y"])], [info("x", shape, kind)],
                                 [info("y", shape, kind)])
                model.opset_import[0].version, model.ir_version = 21, 10
                got = tenon.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]
                self.assertEqual(got.dtype, x.dtype)
                np.testing.assert_array_equal(got.astype("f"), x.astype("f"))


class Compile(unittest.TestCase):
    def test_call_by_position_and_name(self):
        ex = tenon.compile(sum_and_product())
        for s, p in (ex(A, B), ex(A, b=B), ex(b=B, a=A)):
            np.testing.assert_array_equal(s, A + B)
            np.testing.assert_array_equal(p, A * B)
        for args, named in (((A,), {}), ((A, B, A), {}), ((A,), {"a": A, "b": B}), ((A,), {"c": B})):
            with self.assertRaises(TypeError):
                ex(*args, **named)

    def test_module_script_and_artifact(self):
        module = tenon.onnx.load(relu())
        want = np.maximum(X, 0)
        np.testing.assert_array_equal(tenon.compile(module)(X), want)
        np.testing.assert_array_equal(tenon.compile(module.script().encode())(X), want)
        ex = tenon.compile(relu(), dims={"n": 2}, opt_level=3)
        self.assertEqual(ex.inputs, (("x", "float32", (2, 4)),))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "relu.so")
            self.assertEqual(ex.save(path), os.path.getsize(path))
            loaded = tenon.load(path)
            np.testing.assert_array_equal(loaded(X), want)
            with self.assertRaises(tenon.UsageError):
                loaded.source()
            with open(path, "wb") as file:
                file.write(b"\x7fELF nonsense")
            with self.assertRaises(tenon.ModelError):
                tenon.load(path)

    def test_sources(self):
        ex = tenon.compile(relu())
        self.assertIn("@T.prim_func", ex.source("tir"))
        self.assertIn("R.nn.relu", ex.stage("import"))
        self.assertTrue(ex.source("asm"))
        with self.assertRaises(tenon.UsageError):
            ex.source("no such kind")

    def test_kernels(self):
        kernels = tenon.compile(relu((2, 4))).kernels(X)
        self.assertTrue(any(k["calls"] == 1 and k["bytes"] == 64 for k in kernels), kernels)

    def test_progress_and_what_it_raises(self):
        steps = []
        tenon.compile(relu(), progress=lambda step, done, total: steps.append((step, done, total)))
        self.assertTrue(steps)

        def stop(*_):
            raise KeyError("stopped")
        with self.assertRaises(KeyError):
            tenon.compile(relu(), progress=stop)

    def test_the_cache(self):
        """Of a file that is older than this process: what has just changed is not kept."""
        root = os.environ.get("TENON_SOURCE_DIR") or os.path.join(os.path.dirname(__file__), "../..")
        model = os.path.join(root, "examples/digits/digits.onnx")
        with tempfile.TemporaryDirectory() as cache:
            def steps():
                seen = []
                ex = tenon.compile(model, cache=cache, progress=lambda step, done, total: seen.append(step))
                x = np.zeros([d if isinstance(d, int) else 1 for d in ex.inputs[0][2]], "f")
                return seen, ex, ex(x)

            seen, _, first = steps()
            self.assertIn("codegen", seen)
            kept = sorted(os.listdir(cache))
            self.assertTrue(kept)
            seen, ex, second = steps()
            self.assertNotIn("codegen", seen)
            self.assertEqual(sorted(os.listdir(cache)), kept)
            np.testing.assert_array_equal(second, first)
            self.assertTrue(ex.source("asm"))  # compiled anew for it

    def test_precision_and_dims(self):
        w = onnx.numpy_helper.from_array(np.random.default_rng(2).standard_normal((256, 256)).astype("f"), "w")
        model = model_of([helper.make_node("MatMul", ["x", "w"], ["y"])], [info("x", ("n", 256))], [info("y", ("n", 256))], [w])
        x = np.random.default_rng(3).standard_normal((64, 256)).astype("f")
        exact, narrow = (tenon.compile(model, dims={"n": 64}, precision=p) for p in ("f32", "bf16"))
        self.assertEqual(exact.inputs[0][2], (64, 256))
        want = x @ onnx.numpy_helper.to_array(w)
        np.testing.assert_allclose(exact(x), want, rtol=1e-4, atol=1e-3)
        np.testing.assert_allclose(narrow(x), want, rtol=0.05, atol=0.5)
        self.assertGreater(np.abs(narrow(x) - want).max(), 1e-3)
        with self.assertRaises(tenon.UsageError):
            exact(x[:3])

    def test_every_stage(self):
        ex = tenon.compile(two_layers())
        passes = tenon.transform.names()
        names = [name for name in dict.fromkeys(p["name"] for p in ex.passes) if name in passes]
        self.assertGreater(len(names), 20)
        for name in names[::4]:
            with self.subTest(name):
                self.assertRegex(ex.stage(name), "@(R.function|T.prim_func)")
        with self.assertRaises(tenon.UsageError):
            ex.stage("no_such_pass")

    def test_overridable_initializers(self):
        w = onnx.numpy_helper.from_array(np.full((4,), 2, "f"), "w")
        model = model_of([helper.make_node("Mul", ["x", "w"], ["y"])], [info("x", ("n", 4)), info("w", (4,))],
                         [info("y", ("n", 4))], [w])
        s = tenon.InferenceSession(model.SerializeToString())
        self.assertEqual([(v.name, v.type, v.shape) for v in s.get_overridable_initializers()], [("w", "tensor(float)", [4])])
        self.assertEqual([v.name for v in s.get_inputs()], ["x"])
        np.testing.assert_array_equal(s.run(None, {"x": X})[0], 2 * X)
        with self.assertRaisesRegex(tenon.InvalidArgument, "w: the value of an initializer is compiled into the code"):
            s.run(None, {"x": X, "w": np.ones(4, "f")})
        model.ir_version = 3  # every initializer has to be listed there
        self.assertEqual(tenon.InferenceSession(model.SerializeToString()).get_overridable_initializers(), [])
        self.assertEqual(tenon.InferenceSession(relu().SerializeToString()).get_overridable_initializers(), [])

    def test_settings(self):
        for wrong in ({"target": "no such"}, {"opt_level": 9}, {"precision": "f8"}, {"dims": {"m": 3}}):
            with self.assertRaises(tenon.Error):
                tenon.compile(relu(), **wrong)


if __name__ == "__main__":
    unittest.main()
