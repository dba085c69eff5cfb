# SPDX-License-Identifier: Apache-2.0
"""`InferenceSession`: what it refuses, settings, profiles, types; test_ort_programs.py has what runs with ONNX Runtime, too."""
import json
import os
import tempfile
import unittest

import tenon
from models import X, info, model_of, np, onnx, relu
from onnx import TensorProto, helper


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

    def test_bindings_of_values(self):
        """Sequences and strings: beside tensors, in buffers, unbound again."""
        kind = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
        nodes = [helper.make_node("SequenceAt", ["s", "i"], ["y"]), helper.make_node("Identity", ["t"], ["u"])]
        s = tenon.InferenceSession(model_of(nodes, [kind, info("i", (), TensorProto.INT64), info("t", ("m",), TensorProto.STRING)],
                                            [info("y", (2, 4)), info("u", ("m",), TensorProto.STRING)]).SerializeToString())
        b, y, index = s.io_binding(), np.zeros((2, 4), "f"), np.array(0)
        with self.assertRaises(ValueError):
            s.run_with_iobinding(b)  # nothing is bound
        for name, value in (("s", [X]), ("t", np.array(["a"]))):
            with self.assertRaisesRegex(tenon.UsageError, "bind_ortvalue_input"):
                b.bind_cpu_input(name, value)
        b.bind_ortvalue_input("s", tenon.OrtValue([X, 2 * X]))
        b.bind_ortvalue_input("t", tenon.OrtValue(np.array(["a", "bc"], object)))
        b.bind_cpu_input("i", index)
        b.bind_ortvalue_output("y", tenon.OrtValue(y))
        b.bind_output("u")
        with self.assertRaisesRegex(tenon.UsageError, "'u'"):
            b.get_outputs()
        with self.assertRaisesRegex(tenon.UsageError, "'u'"):
            b.bind_ortvalue_output("u", tenon.OrtValue(y))
        for number in (0, 1):
            index[...] = number
            s.run_with_iobinding(b)
            np.testing.assert_array_equal(y, (number + 1) * X)
            self.assertEqual(b.copy_outputs_to_cpu()[1].tolist(), ["a", "bc"])
        b.bind_ortvalue_input("s", tenon.OrtValue([X]))
        with self.assertRaises(tenon.Error):
            s.run_with_iobinding(b)  # there is no item 1
        index[...] = 0
        s.run_with_iobinding(b)
        b.clear_binding_inputs()
        with self.assertRaises(ValueError):
            s.run_with_iobinding(b)

    def test_strings_of_any_bytes(self):
        model = model_of([helper.make_node("Identity", ["x"], ["y"])], [info("x", ("n",), TensorProto.STRING)], [info("y", ("n",), TensorProto.STRING)]).SerializeToString()
        s, ex = tenon.InferenceSession(model), tenon.compile(model)
        got = s.run(None, {"x": np.array([b"\xff\x00", "\u00e9", b"a"], object)})[0]
        self.assertEqual(got.tolist(), ["\udcff\x00", "\u00e9", "a"])
        self.assertEqual(np.asarray(ex(x=got)).tolist(), got.tolist())
        for wrong in (["\ud800"], [1], [None]):
            with self.assertRaisesRegex(TypeError, "'x'"):
                ex(x=wrong)

    def test_types_that_numpy_has_not(self):
        try:
            import ml_dtypes
        except ImportError:
            self.skipTest("ml_dtypes is not here")
        for dtype, kind in ((ml_dtypes.bfloat16, TensorProto.BFLOAT16),
                            (ml_dtypes.float8_e4m3fn, TensorProto.FLOAT8E4M3FN), (ml_dtypes.int4, TensorProto.INT4),
                            (ml_dtypes.uint4, TensorProto.UINT4), (ml_dtypes.float4_e2m1fn, TensorProto.FLOAT4E2M1),
                            (ml_dtypes.float8_e8m0fnu, TensorProto.FLOAT8E8M0)):
            x = np.array([[1, 4, 2], [2, 1, 1]]).astype(dtype)
            for shape in ((2, 3), ("n", 3)):
                model = model_of([helper.make_node("Identity", ["x"], ["y"])], [info("x", shape, kind)],
                                 [info("y", shape, kind)])
                model.opset_import[0].version, model.ir_version = 24, 11
                got = tenon.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]
                self.assertEqual(got.dtype, x.dtype)
                np.testing.assert_array_equal(got.astype("f"), x.astype("f"))

    def test_overridable_initializers(self):
        w = onnx.numpy_helper.from_array(np.full((4,), 2, "f"), "w")
        model = model_of([helper.make_node("Mul", ["x", "w"], ["y"])], [info("x", ("n", 4)), info("w", (4,))],
                         [info("y", ("n", 4))], [w])
        s = tenon.InferenceSession(model.SerializeToString())
        self.assertEqual([(v.name, v.type, v.shape) for v in s.get_overridable_initializers()], [("w", "tensor(float)", [4])])
        self.assertEqual([v.name for v in s.get_inputs()], ["x"])
        np.testing.assert_array_equal(s.run(None, {"x": X})[0], 2 * X)
        np.testing.assert_array_equal(s.run(None, {"x": X, "w": np.full(4, 3, "f")})[0], 3 * X)
        np.testing.assert_array_equal(s.run(None, {"x": X})[0], 2 * X)
        for feed in ({"w": X[0]}, {"x": X, "w": X[0], "v": X[0]}, {"x": X, "w": X}, {"x": X, "w": X[0].astype("d")}):
            with self.assertRaises(ValueError):
                s.run(None, feed)
        with self.assertRaisesRegex(tenon.InvalidArgument, "can be bound"):
            s.io_binding().bind_cpu_input("w", X[0])
        model.ir_version = 3  # every initializer has to be listed there
        self.assertEqual(tenon.InferenceSession(model.SerializeToString()).get_overridable_initializers(), [])
        self.assertEqual(tenon.InferenceSession(relu().SerializeToString()).get_overridable_initializers(), [])


if __name__ == "__main__":
    unittest.main()
