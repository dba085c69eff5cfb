# SPDX-License-Identifier: Apache-2.0
"""`tenon.lint`: problems of modules, files and bytes."""
import os
import tempfile
import unittest

import tenon

SLOW = b"""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 4), "float32")) -> R.Tensor(("n", 4), "float32"):
        y = R.matmul(x, w)
        s = R.nn.softmax(y)
        return R.log(s)
"""
RULES = [("slow", "symbolic_sizes"), ("slow", "weight_is_input"), ("numeric", "log_of_softmax")]


class Lint(unittest.TestCase):
    def test_modules_bytes_and_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "slow.py")
            with open(path, "wb") as file:
                file.write(SLOW)
            for model in (SLOW, tenon.parse(SLOW.decode()), path):
                self.assertEqual([(p.kind, p.rule) for p in tenon.lint(model)], RULES)
            self.assertEqual([p.rule for p in tenon.lint(path, dims={"n": 3})], [rule for _, rule in RULES[1:]])
            with self.assertRaises(tenon.Error):
                tenon.lint(os.path.join(folder, "none.onnx"))

    def test_what_does_not_compile(self):
        problems = tenon.lint(SLOW.replace(b"R.matmul(x, w)", b"R.matmull(x, w)").replace(b"R.log(s)", b"R.logg(s)"))
        self.assertEqual({p.kind for p in problems}, {"error"})
        self.assertEqual(len(problems), 2)
        for p in problems:
            self.assertIn(p.rule, str(p))
            self.assertIn("-->", str(p))

    def test_arguments(self):
        with self.assertRaises(TypeError):
            tenon.lint(5)
        with self.assertRaises(TypeError):
            tenon.lint(SLOW, dims={"n": "a"})


if __name__ == "__main__":
    unittest.main()
