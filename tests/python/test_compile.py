# SPDX-License-Identifier: Apache-2.0
"""`tenon.compile`: models, modules and text in memory, what an `Executable` says about itself, the cache."""
import os
import tempfile
import unittest

import tenon
from models import A, B, X, info, model_of, np, onnx, relu, sum_and_product, two_layers
from onnx import helper


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
        exact = tenon.compile(model, dims={"n": 64})
        # Required by name, as this machine may multiply float32 no slower.
        narrow = tenon.compile(model, dims={"n": 64}, precision="bf16", require_passes=["to_mixed_precision"])
        self.assertEqual(exact.inputs[0][2], (64, 256))
        want = x @ onnx.numpy_helper.to_array(w)
        np.testing.assert_allclose(exact(x), want, rtol=1e-4, atol=1e-3)
        np.testing.assert_allclose(narrow(x), want, rtol=0.05, atol=0.5)
        self.assertGreater(np.abs(narrow(x) - want).max(), 1e-3)
        with self.assertRaises(tenon.UsageError):
            exact(x[:3])

    def test_bind(self):
        ex = tenon.compile(sum_and_product(), bind={"b": B})
        self.assertEqual([i[0] for i in ex.inputs], ["a"])
        np.testing.assert_array_equal(ex(A)[0], A + B)
        with self.assertRaisesRegex(tenon.UsageError, "T0522.*'b' is given, and was bound to float32"):
            ex(A, b=B)
        for wrong, words in (({"c": B}, "T0912"), ({"b": B.astype(np.int64)}, "T0953")):
            with self.assertRaisesRegex(tenon.UsageError, words):
                tenon.compile(sum_and_product(), bind=wrong)
        with self.assertRaises(TypeError):
            tenon.compile(sum_and_product(), bind={"b": "text"})

    def test_values_are_told_from_data(self):
        model = model_of([helper.make_node("Reshape", ["x", "s"], ["y"])],
                         [info("x", ["n"]), info("s", [2], onnx.TensorProto.INT64)], [info("y", ["a", "b"])])
        self.assertEqual([i["read_as"] for i in tenon.inspect(model)["inputs"]], ["data", "value"])
        np.testing.assert_array_equal(tenon.compile(model, bind={"s": [3, 2]})(np.arange(6, dtype=np.float32)),
                                      np.arange(6, dtype=np.float32).reshape(3, 2))
        self.assertEqual(tenon.compile(model).metadata("value_inputs"), "s")

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

    def test_settings(self):
        for wrong in ({"target": "no such"}, {"opt_level": 9}, {"precision": "f8"}, {"dims": {"m": 3}}):
            with self.assertRaises(tenon.Error):
                tenon.compile(relu(), **wrong)


if __name__ == "__main__":
    unittest.main()
