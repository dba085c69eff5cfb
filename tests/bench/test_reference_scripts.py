#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/reference_scripts.py on a repository of a few made-up programs: which are counted, read, refused and run."""
import importlib.util
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

TOOL, TENON = pathlib.Path(sys.argv.pop(1)), sys.argv.pop(1)

PROGRAMS = '''
import pytest

size = 8


def test_right():
    @T.prim_func
    def twice(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            B[i] = A[i] * T.float32(2)

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            y = R.add(x, x)
            return y

        @R.function
        def other(x: R.Tensor(("n",), "float32"), y: R.Tensor((8,), "float32")) -> R.Tensor(("n",), "float32"):
            return R.multiply(x, y)

    @T.prim_func
    def of_python(A: T.Buffer((size,), "float32")):  # no program: a value of Python
        A[0] = T.float32(1)


def test_wrong():
    with pytest.raises(Error):
        @T.prim_func
        def refused(A: T.Buffer((8,), "float32")):
            A[0, 0] = T.float32(1)

    with pytest.raises(Error):
        @T.prim_func
        def accepted(A: T.Buffer((8,), "float32")):
            A[0] = T.float32(1)


def test_not_read():
    @R.function
    def of_dialect(x: R.DTensor((8,), "float32")):
        return x

    @T.prim_func
    def outside(A: T.Buffer((8,), "float32")):
        A[8] = T.float32(1)

    @T.prim_func(check_well_formed=False)
    def either(A: T.Buffer((8,), "float32")):
        A[9] = T.float32(1)
'''


class ReferenceScripts(unittest.TestCase):
    def counted(self, *words):
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder) / "tests" / "python"
            place.mkdir(parents=True)
            (place / "test_programs.py").write_text(PROGRAMS)
            who = ["-c", "user.name=test", "-c", "user.email=test"]
            for command in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "programs"]):
                subprocess.run(["git", "-C", folder, *command], check=True)
            run = subprocess.run([sys.executable, TOOL, folder, "HEAD", "--tenon", TENON, *words], capture_output=True, text=True)
            self.assertEqual(run.returncode, 0, run.stderr)
            return run.stdout

    @unittest.skipUnless(shutil.which("git"), "git is not installed")
    def test_programs_are_read_or_refused(self):
        out = self.counted("--show", "outside")
        self.assertIn("HEAD: 4 of 6 programs (2 of them meant to be wrong); 1 more are of dialects that are not read; 1 of those refused", out)
        self.assertIn("meant to be wrong, and accepted", out)
        self.assertRegex(out, r"tests/python/test_programs\.py:\d+: error\[T0337\]")

    @unittest.skipUnless(shutil.which("git") and importlib.util.find_spec("numpy"), "git or NumPy is not installed")
    def test_functions_are_run(self):
        out = self.counted("--run", "1")
        self.assertIn("compiled and interpreted: 1 of 2 functions equal", out)
        self.assertIn("both refuse", out)


if __name__ == "__main__":
    unittest.main()
