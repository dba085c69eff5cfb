# SPDX-License-Identifier: Apache-2.0
"""A signal ends a compilation; callbacks of a compilation are Python's."""
import itertools
import os
import pathlib
import signal
import tempfile
import threading
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
