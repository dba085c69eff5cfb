#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The benchmark's results page from a made-up run: numbers, crosses of missed goals, a chart that is valid XML."""
import pathlib
import sys
import tempfile
import unittest
import xml.etree.ElementTree

sys.path.insert(0, sys.argv.pop(1))
import report


def row(threads, tenon, peer, **more):
    ratio = tenon / peer
    return {"threads": threads, "create_s": {"onnxruntime sleep": 0.1, "openvino f32": 0.2}, "error": {}, "better_peer": "openvino f32",
            "median_ms": {"tenon": tenon, "onnxruntime sleep": 2 * peer, "openvino f32": peer, "openvino default": peer / 2}, "min_ms": {"tenon": tenon},
            "ratio": ratio, "low": ratio - 0.05, "high": ratio + 0.05, "ratio_of_minima": ratio, **more}


def run():
    held = {"compile_s": 9.0, "load_ms": 1.0, "peak_rss_bytes": 200_000_000, "weights_bytes": 100_000_000, "arena_bytes": 10_000_000}
    models = [{"model": "resnet50", "rows": [row(1, 20.0, 10.0), row(2, 11.0, 10.0)], "problems": [], "tenon": held, "openvino_precision": "<Type: 'bfloat16'>"},
              {"model": "gemm_512x512x512", "rows": [row(1, 2.0, 2.5, peak_gflops=268.0)], "problems": [], "tenon": held},
              {"model": "vgg19", "rows": [], "problems": ["tenon: did not compile & says why"]}]
    return {"time": 0, "seconds": 60, "pairs": 30, "pause_s": 0.01, "slot_s": 0.02, "load_after": 0.5, "versions": {"onnxruntime": "1", "openvino": "2"}, "models": models,
            "machine": {"cpu": "A & B", "cores": 2, "memory_bytes": 2**34, "kernel": "Linux", "python": "3", "virtual": True, "load_before": 0.1,
                        "target": {"cpu": "znver5"}, "limits": {"fma_gflops_one_thread": 270, "fma_gflops_all_threads": 540, "vector_bits": 512}, "commit": "abc", "tenon": "tenon 0.1.0"}}


class Report(unittest.TestCase):
    def setUp(self):
        self.page = report.page(run())

    def test_ratio_against_its_goal(self):
        self.assertIn("| 20.00 | 20.00 | – | 10.00 | 5.00 | **2.00** | 1.95–2.05 | 2.00 | 1.25 ✗ |", self.page)
        self.assertIn("| **1.10** | 1.05–1.15 | 1.10 | 1.25 ✓ |", self.page)

    def test_multiplication_beside_the_peak(self):
        self.assertIn("| 512×512×512 | 1 | 2.00 | 134 | 268 | 50 % ✗ |", self.page)  # 2·512³ in 2 ms

    def test_costs(self):
        # 1.25 · 110 MB + 25 MB are allowed; two threads take 11 of 20 ms.
        self.assertIn("| ResNet-50 | 9.00 ✗ | 0.10 | 0.20 | 1.0 | 100 | 10.0 | 200 ✗ | 162 | – | 0.55 |", self.page)

    def test_says_what_failed_and_what_is_missing(self):
        self.assertIn("- VGG-19: tenon: did not compile & says why", self.page)
        self.assertRegex(self.page, r"Not among the models of this run: .*ViT-B/16")

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            report.write(run(), folder)
            root = xml.etree.ElementTree.parse(pathlib.Path(folder) / "benchmarks.svg").getroot()
        texts = [e.text for e in root.iter("{http://www.w3.org/2000/svg}text")]
        self.assertIn("ResNet-50", texts)
        self.assertIn("2.00", texts)
        self.assertNotIn("VGG-19", texts)


if __name__ == "__main__":
    unittest.main()
