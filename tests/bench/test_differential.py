#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What bench/differential takes for a part of a model. Needs onnx and onnxruntime: build/bench/env/bin/python has them."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(sys.argv.pop(1)) / "differential"))
try:
    import numpy as np
    import onnx.parser
    from judge import by_onnxruntime, needed, session_of
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(0)

# The body of the scan picks elements that are not there, and nobody reads them.
MODEL = '''<ir_version: 10, opset_import: ["": 21, "ai.onnx.ml": 3]>
picks (float[N,2] x) => (float[N] y) <float one = {1}> {
  y = Scan <num_scan_inputs: int = 1, body = rows (float[2] row) => (float[] sum) <int64[1] at = {5}> {
    picked = ai.onnx.ml.ArrayFeatureExtractor (x, at)
    squared = Mul (picked, picked)
    whole = ReduceSum <keepdims: int = 0> (row)
    sum = Add (whole, one)
  }> (x)
}'''


class Needed(unittest.TestCase):
    def test_nodes_of_bodies_that_nobody_reads_go(self):
        model, feed = onnx.parser.parse_model(MODEL), {"x": np.array([[1, 2], [3, 4]], np.float32)}
        self.assertIn("out of range", by_onnxruntime(session_of(model.SerializeToString()), feed)[1])
        part = needed(model, list(model.graph.output))
        results, refusal = by_onnxruntime(session_of(part.SerializeToString()), feed)
        self.assertIsNone(refusal)
        self.assertEqual([4, 8], results[0].tolist())
        body = next(a.g for a in part.graph.node[0].attribute if a.type == onnx.AttributeProto.GRAPH)
        self.assertEqual(["ReduceSum", "Add"], [n.op_type for n in body.node])
        self.assertEqual([], list(body.initializer))

    def test_what_bodies_take_from_outside_stays(self):
        model = onnx.parser.parse_model(MODEL)
        self.assertEqual(["one"], [i.name for i in needed(model, list(model.graph.output)).graph.initializer])


if __name__ == "__main__":
    unittest.main()
