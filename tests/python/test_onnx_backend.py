# SPDX-License-Identifier: Apache-2.0
"""`tenon.onnx_backend` by hand, and in ONNX's own test runner."""
import importlib.util
import os
import pathlib
import subprocess
import sys
import unittest

try:
    import numpy as np
    import onnx
    from onnx import helper
except ImportError:
    raise unittest.SkipTest("NumPy and onnx are not here") from None

import tenon.onnx_backend

ROOT = pathlib.Path(os.environ.get("TENON_SOURCE_DIR") or pathlib.Path(__file__).parents[2])

class Backend(unittest.TestCase):
    def test_a_node(self):
        x = np.array([[-1, 2]], "f")
        node = helper.make_node("Relu", ["x"], ["y"])
        np.testing.assert_array_equal(tenon.onnx_backend.run_node(node, [x])[0], [[0, 2]])
        np.testing.assert_array_equal(tenon.onnx_backend.run_node(node, [x], outputs_info=[("f", (1, 2))])[0], [[0, 2]])
        with self.assertRaises(ValueError):
            tenon.onnx_backend.run_node(node, [x, x])

    def test_devices(self):
        self.assertTrue(tenon.onnx_backend.supports_device("CPU"))
        self.assertFalse(tenon.onnx_backend.supports_device("CUDA:0"))
        with self.assertRaises(ValueError):
            tenon.onnx_backend.prepare(onnx.ModelProto(), "CUDA")


class Suite(unittest.TestCase):
    def test_the_count_of_the_runner_is_that_of_compare(self):
        """A part of ONNX's stored cases; tests/conformance/onnx_runner.py takes all of them."""
        archive = sorted(pathlib.Path(os.environ.get("TENON_SHARED", "/nowhere"), "conformance").glob("onnx-*.tar.xz"))
        if not archive:
            self.skipTest("TENON_SHARED has no ONNX suite")
        file = ROOT / "tests" / "conformance" / "onnx_runner.py"
        spec = importlib.util.spec_from_file_location("onnx_runner", file)
        onnx_runner = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(onnx_runner)
        with onnx_runner.unpacked(archive[-1], "affine") as folder:
            found = onnx_runner.run(folder, "affine")
            self.assertGreater(len(found), 5)
            for name, outcome in found.items():
                sets = sorted((folder / name).glob("test_data_set_*"))
                compared = [subprocess.run([sys.executable, "-m", "tenon", "compare", folder / name / "model.onnx", "--data", data],
                                           capture_output=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, check=False)
                            for data in sets]
                with self.subTest(name, outcome=outcome):
                    self.assertEqual(all(c.returncode == 0 for c in compared), outcome == "passed", [c.stderr for c in compared])
        self.assertIn("passed", found.values())
        self.assertTrue(set(found.values()) - {"passed"})  # one form of AffineGrid is refused


if __name__ == "__main__":
    unittest.main()
