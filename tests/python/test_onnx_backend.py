# SPDX-License-Identifier: Apache-2.0
"""`tenon.onnx_backend` by hand."""
import unittest

try:
    import numpy as np
    import onnx
    from onnx import helper
except ImportError:
    raise unittest.SkipTest("NumPy and onnx are not here") from None

import tenon.onnx_backend


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


if __name__ == "__main__":
    unittest.main()
