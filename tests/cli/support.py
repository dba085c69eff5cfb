# SPDX-License-Identifier: Apache-2.0
"""What tests of the command share: it is called with TENON SOURCE-DIR, as the tests are."""
import array
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

TENON = pathlib.Path(sys.argv[1]).resolve()
SOURCE = pathlib.Path(sys.argv[2]).resolve()
DIGITS = SOURCE / "examples" / "digits" / "digits.onnx"
SHARED = pathlib.Path(os.environ.get("TENON_SHARED", SOURCE.parent / "shared"))
SANITIZED = "TENON_SANITIZED" in os.environ
LINKS_THE_RUNTIME = unittest.skipIf(SANITIZED, "a program without the sanitizer does not load an instrumented runtime")

MODULE = '''
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        z = R.add(x, y)
        w = R.nn.relu(z)
        return w
'''


CACHE = tempfile.TemporaryDirectory()  # of this run of the tests: never the user's
os.environ["TENON_CACHE"] = os.path.join(CACHE.name, "cache")


def tenon(*arguments, stdin=None, cwd=None, **options):
    return subprocess.run([TENON, *map(str, arguments)], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd, timeout=120, check=False, **options)


def npy(path, shape, values, descr="<f4", code="f"):
    header = repr({"descr": descr, "fortran_order": False, "shape": tuple(shape)}).encode()
    header += b" " * (63 - (len(header) + 10) % 64) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + array.array(code, values).tobytes())


def read_floats(path):
    raw = path.read_bytes()
    (length,) = struct.unpack_from("<H", raw, 8)
    return list(array.array("f", raw[10 + length:]))


class Command(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.tmp = pathlib.Path(self.folder.name)
        self.module = self.tmp / "add_relu.tir"
        self.module.write_text(MODULE)

    def ok(self, *arguments, **options):
        done = tenon(*arguments, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def refused(self, status, *arguments, words=(), **options):
        done = tenon(*arguments, **options)
        self.assertEqual(done.returncode, status, f"{arguments}: {done.stdout[-300:]} {done.stderr[-600:]}")
        self.assertRegex(done.stderr, r"error\[T\d{4}\]: ")
        for word in words:
            self.assertIn(word, done.stderr)
        return done

    def cached(self, *arguments, **options):
        """Whether the compile cache had it, and what the model gave."""
        result = json.loads(self.ok("run", *arguments, "--json", **options))
        return result["cached"], result["outputs"]
