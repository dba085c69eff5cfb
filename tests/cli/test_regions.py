#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dataflow regions of a text stand in every text that the command makes of it. Standard library only.

Run by ctest: test_regions.py TENON SOURCE-DIR"""
import json
import sys
import unittest

sys.dont_write_bytecode = True
from support import Command as Case  # noqa: E402

TEXT = '''@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 3), "float32"), w: R.Tensor((3,), "float32")):
        n = T.int64()
        with R.dataflow():
            unread = R.exp(w)
            a = R.exp(R.add(x, w))
            b = R.multiply(a, R.const(2.0, "float32"))
            R.output(b)
        c = R.nn.relu(b)
        with R.dataflow():
            d = R.sqrt(c)
            e = R.add(d, c)
            R.output(e)
        return (b, e)
'''


def regions(text):
    """The names that each region gives out, in order."""
    return [line.strip() for line in text.splitlines() if "R.output(" in line]


class Regions(Case):
    def setUp(self):
        super().setUp()
        self.file = self.tmp / "regions.tir"
        self.file.write_text(TEXT)
        self.kept = ["R.output(b)", "R.output(e)"]

    def expect_kept(self, text, again=True):
        self.assertEqual(regions(text), self.kept, text)
        if again:
            self.assertEqual(self.ok("opt", "-", stdin=text).rstrip(), text.rstrip())

    def test_opt(self):
        self.expect_kept(self.ok("opt", self.file))
        self.expect_kept(self.ok("opt", self.file, "--dim", "n=2"))
        passes = ["infer_types", "check_types", "lambda_lift", "check_sizes", "eliminate_dead_code", "canonicalize", "fold_constant",
                  "simplify_expr", "fold_scale_axis", "to_mixed_precision", "convert_layout", "pack_weights", "eliminate_common_subexpr",
                  "fuse_ops", "lower_to_call_tir"]
        for count in range(1, len(passes) + 1):
            self.expect_kept(self.ok("opt", self.file, *(word for name in passes[:count] for word in ("--pass", name))), again=False)

    def test_a_region_that_is_left_empty_goes(self):
        text = self.ok("opt", "-", "--pass", "eliminate_dead_code", stdin=TEXT.replace("(b, e)", "b"))
        self.assertEqual(regions(text), ["R.output(b)"], text)

    def test_compile(self):
        out = self.tmp / "out.tir"
        for more in ([], ["--dim", "n=2"], ["--bind", "w=[1,2,3]"], ["--stage", "eliminate_dead_code"], ["--stage", "lower_to_call_tir"]):
            stage = [] if "--stage" in more else ["--stage", "import"]
            self.ok("compile", self.file, "--emit", "tir", *stage, *more, "-o", out)
            self.expect_kept(out.read_text(), again="--stage" not in more)

    def test_texts_of_passes(self):
        out = self.tmp / "out.so"
        self.expect_kept(self.ok("compile", self.file, "--no-cache", "--print-after", "fuse_ops", "-o", out), again=False)
        folder = self.tmp / "dump"
        self.ok("compile", self.file, "--no-cache", "--dump", folder, "-o", out)
        dumped = sorted(folder.glob("*.tir"))
        last = next(i for i, path in enumerate(dumped) if "lower_to_call_tir" in path.name)
        for path in dumped[:last + 1]:
            self.expect_kept(path.read_text(), again=False)

    def test_explain_and_json(self):
        told = json.loads(self.ok("opt", self.file, "--json", "--pass", "infer_types"))
        self.expect_kept(told["text"])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
