# SPDX-License-Identifier: Apache-2.0
"""What is wrong is an exception that says so, and everything stays usable."""
import gc
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

import tenon
from tenon import tir

try:
    import numpy as np
except ImportError:
    np = None

ADD = b"""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        y = R.add(x, x)
        return y
"""
CALLS_PYTHON = b"""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        y = R.call_packed("test.bad.again", x, sinfo_args=R.Tensor((2,), "float32"))
        z = R.add(y, y)
        return z
"""


class Arguments(unittest.TestCase):
    def test_a_wrong_type_names_function_argument_expectation_and_what_came(self):
        for call, words in ((lambda: tenon.get_global_func("ir.first_difference")(None, 2), ("ir.first_difference", "`b`", "Object", "int")),
                            (lambda: tenon.parse(3), ("ir.parse", "`text`", "str", "int")),
                            (lambda: tir.Add(1, "x"), ("tir.Add", "b", "tir.PrimExpr")),
                            (lambda: tenon.compile(ADD, opt_level="two"), ("opt_level",))):
            with self.assertRaises(TypeError) as refused:
                call()
            for word in words:
                self.assertIn(word, str(refused.exception))

    def test_an_error_of_cpp_has_class_code_hint_and_both_tracebacks(self):
        def outer():
            return tenon.get_global_func("pass.get")("fold_constants")

        try:
            tenon.convert_func(outer)()
            self.fail("nothing was raised")
        except tenon.UsageError as caught:
            e = caught
        self.assertEqual(e.code, "T0919")
        self.assertIn("fold_constant", e.hint)
        self.assertRegex(e.passed, r"pass_functions\.cpp:\d+, in pass\.get")
        names, t = [], e.__traceback__
        while t:
            names.append(t.tb_frame.f_code.co_name)
            t = t.tb_next
        self.assertIn("outer", names)


@unittest.skipIf(np is None, "NumPy is not here")
class Sessions(unittest.TestCase):
    def setUp(self):
        self.x = np.array([1, 2], "f")

    def tearDown(self):
        tenon.remove_global_func("test.bad.again")

    def test_a_freed_artifact(self):
        ex = tenon.compile(ADD)
        call, vm = ex.__call__, tenon.VirtualMachine(ex)
        session = tenon.InferenceSession(ADD)
        binding = session.io_binding()
        binding.bind_cpu_input("x", self.x)
        del ex, session
        gc.collect()
        np.testing.assert_array_equal(call(self.x), 2 * self.x)
        np.testing.assert_array_equal(vm["main"](self.x), 2 * self.x)
        binding._session.run_with_iobinding(binding)
        bare = object.__new__(tenon.Executable)
        with self.assertRaises(RuntimeError):
            bare._call(self.x)

    def test_a_binding_of_two_threads(self):
        inside, errors = [], []

        def again(x):
            def other():
                try:
                    session.run_with_iobinding(binding)
                except RuntimeError as e:
                    errors.append(str(e))
            t = threading.Thread(target=other)
            t.start()
            t.join()
            inside.append(session.run(None, {"x": self.x})[0] if len(inside) < 1 else None)
            return x

        tenon.register_func("test.bad.again", again)
        session = tenon.InferenceSession(CALLS_PYTHON)
        binding = session.io_binding()
        binding.bind_cpu_input("x", self.x)
        binding.bind_output(session.get_outputs()[0].name)
        inside.append(None)  # no further session inside
        session.run_with_iobinding(binding)
        self.assertIn("one call at a time", errors[0])
        np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], 2 * self.x)

    def test_an_array_of_another_device_or_type(self):
        class Elsewhere:
            def __dlpack__(self, **keywords):
                raise AssertionError("its memory is read")

            def __dlpack_device__(self):
                return 2, 0

        ex, session = tenon.compile(ADD), tenon.InferenceSession(ADD)
        for run in (lambda v: ex(v), lambda v: session.run(None, {"x": v})):
            with self.assertRaisesRegex(ValueError, "'x' is not in CPU memory"):
                run(Elsewhere())
            for wrong in (self.x.astype("d"), self.x.astype("c8"), np.array(["a", "b"]), np.array([object(), None])):
                with self.assertRaises((tenon.UsageError, TypeError)) as refused:
                    run(wrong)
                self.assertIn("x", str(refused.exception))
            np.testing.assert_array_equal(np.asarray(run(self.x)).reshape(2), 2 * self.x)

    def test_a_file_that_is_no_model(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, content in (("empty", b""), ("text", b"hello"), ("bytes", bytes(range(256)) * 9), ("elf", b"\x7fELF" + bytes(400)),
                                  ("cut.tir", ADD[:90])):
                path = os.path.join(folder, name)
                with open(path, "wb") as file:
                    file.write(content)
                with self.subTest(name):
                    for make in (tenon.compile, tenon.load, tenon.VirtualMachine):
                        with self.assertRaises(tenon.ModelError):
                            make(path)
                    with self.assertRaises((tenon.InvalidProtobuf, tenon.InvalidGraph, tenon.RuntimeException, tenon.Fail)):
                        tenon.InferenceSession(path)
            for make in (tenon.compile, tenon.load):
                with self.assertRaises(tenon.FileError):
                    make(os.path.join(folder, "nowhere"))
            with self.assertRaises(tenon.Error):
                tenon.compile(folder)


class Versions(unittest.TestCase):
    def test_a_library_of_another_version(self):
        compiler = shutil.which("cc") or shutil.which("gcc")
        if not compiler:
            self.skipTest("no C compiler is here")
        with tempfile.TemporaryDirectory() as folder:
            with open(folder + "/old.c", "w") as file:
                file.write("int tenon_ffi_version(void) { return 0; }\n")
            subprocess.run([compiler, "-shared", "-fPIC", "-o", folder + "/old.so", folder + "/old.c"], check=True)
            before = os.environ.get("LD_PRELOAD", "")
            done = subprocess.run([sys.executable, "-c", "import tenon"], capture_output=True, text=True,
                                  env={**os.environ, "LD_PRELOAD": f"{before} {folder}/old.so".strip()})
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"ImportError: .*version 0, the package needs \d+")


if __name__ == "__main__":
    unittest.main()
