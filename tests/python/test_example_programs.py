# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/python run."""
import importlib.util
import os
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(os.environ.get("TENON_SOURCE_DIR") or pathlib.Path(__file__).parents[2])
WORDS = {"classify.py": "97.8% of 359", "count_nodes.py": "A[v_i0] + T.float32(1) * T.float32(2)",
         "graph_and_passes.py": "fused_relu_multiply", "schedules.py": "float32 [0. 2. 4. 6.]",
         "session.py": "image ['batch', 1, 8, 8]"}


@unittest.skipUnless(importlib.util.find_spec("numpy"), "NumPy is not here")
class Programs(unittest.TestCase):
    def test_each(self):
        programs = sorted((ROOT / "examples" / "python").glob("*.py"))
        self.assertEqual([p.name for p in programs], sorted(WORDS))
        for program in programs:
            with self.subTest(program.name):
                done = subprocess.run([sys.executable, program], text=True, check=False, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
                self.assertEqual(done.returncode, 0, done.stdout)
                self.assertIn(WORDS[program.name], done.stdout)


if __name__ == "__main__":
    unittest.main()
