# SPDX-License-Identifier: Apache-2.0
"""`tenon.quantize`: a float model and samples become a model that computes on bytes."""
import os
import pathlib
import tempfile
import unittest

import tenon
from models import np, onnx

DIGITS = pathlib.Path(os.environ["TENON_SOURCE_DIR"]) / "examples" / "digits" / "digits.onnx"


class Quantize(unittest.TestCase):
    def setUp(self):
        self.images = np.load(DIGITS.parent / "test_images.npy")
        self.labels = np.load(DIGITS.parent / "test_labels.npy")

    def test_digits(self):
        steps = []
        made = tenon.quantize(DIGITS, {"image": self.images}, labels=self.labels, progress=lambda *step: steps.append(step))
        self.assertTrue(steps)
        self.assertEqual((made.samples, len(made.layers)), (359, 4))
        self.assertGreaterEqual(made.accuracy_after, made.accuracy_before - 0.005)
        self.assertIn("accuracy on 359 samples", str(made))
        self.assertIn("QuantizeLinear", {node.op_type for node in onnx.load_from_string(made.model).graph.node})
        run = tenon.compile(made.model)
        right = sum(run(image[None]).argmax() == label for image, label in zip(self.images, self.labels))
        self.assertEqual(right / len(self.labels), made.accuracy_after)

    def test_a_file_and_what_stays_in_float(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "digits_int8.onnx")
            first = tenon.quantize(DIGITS, {"image": self.images}).layers[0]["name"]
            made = tenon.quantize(DIGITS.read_bytes(), {"image": self.images}, path, method="entropy", symmetric=True,
                                  per_channel=False, equalize=True, exclude=[first])
            self.assertIsNone(made.model)
            self.assertIsNone(made.accuracy_after)
            self.assertNotIn(first, [layer["name"] for layer in made.layers])
            self.assertLess(os.path.getsize(path), DIGITS.stat().st_size)

    def test_what_cannot_be_calibrated_leaves_no_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "digits_int8.onnx")
            bad = {"T0951": ({"image": self.images[..., :5]}, {"image": self.images[:0]}, {"image": self.images * np.nan}, {},
                             {"picture": self.images})}
            for code, sets in bad.items():
                for samples in sets:
                    with self.assertRaisesRegex(tenon.UsageError, code):
                        tenon.quantize(DIGITS, samples, path)
            for settings in (dict(method="minmix"), dict(percentile=0.0), dict(labels=self.labels[:3])):
                with self.assertRaisesRegex(tenon.UsageError, "T095"):
                    tenon.quantize(DIGITS, {"image": self.images}, path, **settings)
            with self.assertRaises(TypeError):
                tenon.quantize(DIGITS, {"image": "pixels"}, path)
            self.assertFalse(os.path.exists(path))


if __name__ == "__main__":
    unittest.main()
