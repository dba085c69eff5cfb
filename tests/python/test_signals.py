# SPDX-License-Identifier: Apache-2.0
"""A signal ends a compilation; callbacks of a compilation are Python's."""
import itertools
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import tenon
from tenon import _core

ROOT = pathlib.Path(os.environ.get("TENON_SOURCE_DIR") or pathlib.Path(__file__).parents[2])
MODEL = str(ROOT / "examples" / "digits" / "digits.onnx")


def compile_model(**options):
    return tenon.get_global_func("compiler.compile")({"model": MODEL, "emit": "jit", "opt_level": 2, **options})


class Signals(unittest.TestCase):
    def test_progress_is_called(self):
        steps = []
        reply = compile_model(progress=lambda step, done, total: steps.append((step, done, total)))
        self.assertIn("codegen", [s for s, _, _ in steps])
        self.assertTrue(all(0 <= done <= total for _, done, total in steps))
        self.assertGreater(reply["compile_ms"], 0)

    def test_an_exception_of_progress_ends_it(self):
        class Enough(Exception):
            pass

        def progress(step, done, total):
            if step == "fuse_ops":
                raise Enough(step)

        with self.assertRaises(Enough):
            compile_model(progress=progress)

    def test_cancelled(self):
        with self.assertRaises(tenon.Interrupted) as ended:
            compile_model(cancelled=lambda: True)
        self.assertEqual(ended.exception.code, "T1003")

    def test_a_signal_ends_it_between_items_of_work(self):
        begun = threading.Event()
        before = signal.signal(signal.SIGALRM, signal.default_int_handler)  # raises KeyboardInterrupt
        polls = []

        def cancelled():
            # Between the steps of the last stage too; the signal comes while C++ runs.
            polls.append(1)
            if len(polls) == 20:
                begun.set()
                signal.raise_signal(signal.SIGALRM)
            return False

        try:
            with self.assertRaises(KeyboardInterrupt):
                compile_model(cancelled=cancelled)
        finally:
            signal.signal(signal.SIGALRM, before)
        self.assertTrue(begun.is_set())

    def test_threads_that_work_when_the_process_ends(self):
        """The interpreter ends daemon threads where they ask for its lock, inside calls of C++, too."""
        code = """
import threading, time, tenon
from tenon import tir
call = tenon.convert_func(lambda f: f())
def work():
    while True:
        call(lambda: 1)
        tenon.parse("@T.prim_func\\ndef f():\\n    T.evaluate(0)")
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_ctrl_c(self):
        """As in a terminal: the signal comes from outside while the main thread compiles."""
        code = f"""
import tenon
print("begun", flush=True)
try:
    while True:
        tenon.compile({MODEL!r})
except KeyboardInterrupt:
    print("ended", tenon.compile({MODEL!r}).inputs[0][1])
"""
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        self.assertEqual(child.stdout.readline(), "begun\n")
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        self.assertEqual(child.communicate(timeout=120)[0], "ended float32\n")
        self.assertEqual(child.returncode, 0)

    def test_poll_signals_sees_what_came_while_no_python_ran(self):
        before = signal.signal(signal.SIGALRM, signal.default_int_handler)
        with tempfile.TemporaryDirectory() as folder:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            try:
                with self.assertRaises(KeyboardInterrupt):
                    for number in itertools.count():  # the timer may be slower than a compilation
                        output = os.path.join(folder, str(number))
                        compile_model(cancelled=_core.poll_signals, emit="artifact", output=output)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, before)
            self.assertFalse(os.path.exists(output))  # the compilation was not finished
        self.assertEqual(_core.poll_signals(), False)


if __name__ == "__main__":
    unittest.main()
