# SPDX-License-Identifier: Apache-2.0
"""The installed distribution, in the interpreter that runs this: what is in it, and that it works with nothing of the
tree. `make python` calls it in a fresh virtual environment with TENON_WHEEL naming the file."""
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
DIGITS = ROOT / "examples" / "digits"
PEERS = [name for name in ("llvmlite.binding", "torch", "tvm") if subprocess.run(
    [sys.executable, "-c", f"import {name}"], stderr=subprocess.DEVNULL, check=False).returncode == 0]
CLASSIFY = f"""
import numpy, tenon
pictures = numpy.load({str(DIGITS / "test_images.npy")!r})
labels = numpy.load({str(DIGITS / "test_labels.npy")!r})
found = tenon.compile({str(DIGITS / "digits.onnx")!r})(pictures).argmax(1)
assert (found == labels).mean() > 0.97, (found == labels).mean()
"""
# What makes another LLVM of the process work: code of its own.
USE = {"llvmlite.binding": """
import llvmlite.binding as llvm
llvm.initialize_native_target(); llvm.initialize_native_asmprinter()
m = llvm.parse_assembly("define i64 @f(i64 %x) { %y = mul i64 %x, 3 \\n ret i64 %y }")
engine = llvm.create_mcjit_compiler(m, llvm.Target.from_default_triple().create_target_machine())
engine.finalize_object()
import ctypes
assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(engine.get_function_address("f"))(14) == 42
""", "torch": """
import torch
f = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()))
assert f(torch.ones(2, 4)).shape == (2, 4)
""", "tvm": """
import numpy, tvm
from tvm import te
A = te.placeholder((8,), name="A")
B = te.compute((8,), lambda i: A[i] * 3.0, name="B")
f = tvm.compile(tvm.IRModule({"main": te.create_prim_func([A, B])}), target="llvm")
a, b = tvm.runtime.tensor(numpy.ones(8, "float32")), tvm.runtime.tensor(numpy.zeros(8, "float32"))
f["main"](a, b)
assert (b.numpy() == 3).all()
"""}


def python(code, **more):
    """A fresh interpreter, outside the tree, that knows nothing of it."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "TENON_SOURCE_DIR")}
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)


class Wheel(unittest.TestCase):
    def runs(self, code):
        done = python(code)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    @unittest.skipUnless(os.environ.get("TENON_WHEEL"), "TENON_WHEEL names no file")
    def test_the_file_serves_all_interpreters_and_holds_everything(self):
        path = pathlib.Path(os.environ["TENON_WHEEL"])
        self.assertRegex(path.name, r"^tenon_compiler-[\d.]+-cp311-abi3-manylinux_2_36_x86_64\.whl$")
        self.assertLessEqual(path.stat().st_size, 60 << 20)
        names = set(zipfile.ZipFile(path).namelist())
        sources = {"tenon/" + str(p.relative_to(ROOT / "python/tenon")) for p in (ROOT / "python/tenon").rglob("*.py*")
                   if p.suffix in (".py", ".pyi")}
        libraries = {f"tenon/lib/libtenon_{p.stem}.so.0" for p in (ROOT / "src/runtime/libraries").glob("*.cpp")}
        wanted = sources | libraries | {"tenon/_core.abi3.so", "tenon/py.typed", "tenon/bin/tenon", "tenon/tir.pyi",
                                        "tenon/lib/libtenon_compiler.so", "tenon/lib/libtenon_runtime.so.0"}
        self.assertFalse(wanted - names)

    def test_nothing_is_imported_before_it_is_needed(self):
        self.runs("import sys, tenon\n"
                  "assert 'numpy' not in sys.modules\n"
                  "assert 'libtenon_compiler' not in open('/proc/self/maps').read()\n"
                  "assert 'site-packages' in tenon.__file__")

    def test_digits(self):
        self.runs(CLASSIFY)

    def test_no_other_llvm_is_loaded_nor_seen(self):
        self.runs(CLASSIFY + "assert 'libLLVM' not in open('/proc/self/maps').read()\n"
                  "import ctypes, pathlib\n"
                  "library = ctypes.CDLL(str(pathlib.Path(tenon.__file__).parent / 'lib/libtenon_compiler.so'))\n"
                  "assert not hasattr(library, 'LLVMContextCreate') and not hasattr(library, 'LLVMInitializeX86Target')")

    def test_another_processor(self):
        record = {"kind": "llvm", "triple": "aarch64-unknown-linux-gnu", "features": ["asimd"], "vector_bits": 128,
                  "vector_registers": 32, "fma": True}
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "arm.json").write_text(json.dumps(record))
            subprocess.run([sys.executable, "-m", "tenon", "compile", DIGITS / "digits.onnx", "--target", "@arm.json", "--emit", "asm",
                            "-o", "m.s"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
            self.assertIn("fmla", (pathlib.Path(folder) / "m.s").read_text())

    def test_beside_another_llvm_in_both_orders(self):
        if not PEERS:
            self.skipTest("no other package with LLVM is installed")
        for peer in PEERS:
            for code in (USE[peer] + CLASSIFY, CLASSIFY + USE[peer], f"import tenon, {peer}\n" + USE[peer] + CLASSIFY):
                with self.subTest(peer=peer):
                    self.runs(code)

    def test_the_command(self):
        with tempfile.TemporaryDirectory() as folder:
            for command in ([sys.executable, "-m", "tenon"], [str(pathlib.Path(sys.executable).parent / "tenon")]):
                done = subprocess.run([*command, "compile", DIGITS / "digits.onnx", "-o", "m.so"], cwd=folder, check=False,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                self.assertEqual(done.returncode, 0, done.stdout)
                self.assertTrue((pathlib.Path(folder) / "m.so").stat().st_size)
                wrong = subprocess.run([*command, "compile", "a b.onnx"], cwd=folder, check=False, text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                self.assertNotEqual(wrong.returncode, 0)
                self.assertIn("a b.onnx", wrong.stdout)
                self.assertTrue(re.search(r"T\d{4}", wrong.stdout), wrong.stdout)


class Sources(unittest.TestCase):
    """What is built from the tree."""

    @unittest.skipUnless(importlib.util.find_spec("scikit_build_core"), "scikit-build-core is not here")
    def test_the_source_distribution_holds_what_a_build_needs(self):
        with tempfile.TemporaryDirectory() as folder:
            code = f"import os; os.chdir({str(ROOT)!r}); import scikit_build_core.build as b; print(b.build_sdist({folder!r}))"
            done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            with tarfile.open(pathlib.Path(folder) / done.stdout.split()[-1]) as archive:
                names = {name.partition("/")[2] for name in archive.getnames()}
        needed = [p for part in ("src", "include", "python", "cmake") for p in (ROOT / part).rglob("*")
                  if p.is_file() and "__pycache__" not in p.parts]
        self.assertGreater(len(needed), 500)
        self.assertEqual({str(p.relative_to(ROOT)) for p in needed} - names, set())
        self.assertLessEqual({"pyproject.toml", "CMakeLists.txt", "README.md", "LICENSE"}, names)
        self.assertEqual([n for n in names if n.startswith(("build", "tests", "docs", "bench"))], [])

    @unittest.skipUnless(os.environ.get("TENON_BUILDS"), "TENON_BUILDS is not set: these builds take minutes")
    def test_pip_installs_the_tree(self):
        for options in ([], ["--editable"]):
            with self.subTest(options), tempfile.TemporaryDirectory() as folder:
                interpreter = pathlib.Path(folder) / "bin" / "python"
                subprocess.run([sys.executable, "-m", "venv", folder], check=True)
                subprocess.run([interpreter, "-m", "pip", "install", "--quiet", "numpy", *options, ROOT], check=True)
                for command in ([interpreter, "-c", CLASSIFY], [interpreter, "-m", "tenon", "--version"],
                                [interpreter.with_name("tenon"), "--version"]):
                    done = subprocess.run(command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                                          env={k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "LD_LIBRARY_PATH")})
                    self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
