# SPDX-License-Identifier: Apache-2.0
"""The bar that shows how far a compilation is."""
import io
import sys
import types
import unittest
from unittest import mock

import tenon
from tenon import progress

MODEL = b"""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        y = R.nn.relu(x)
        return y
"""


class Stream(io.StringIO):
    def __init__(self, terminal):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal


class Progress(unittest.TestCase):
    def test_line(self):
        self.assertEqual(progress.line("codegen", 6, 12), "codegen          " + "█" * 12 + "·" * 12 + " 6/12")
        self.assertEqual(progress.line("x", 0, 0), "x" + " " * 16 + "·" * 24 + " 0/0")

    def test_terminals_show_one_line_that_goes(self):
        stream = Stream(True)
        bar = progress.Bar(stream)
        for step in range(3):
            bar("step", step, 2)
            bar("step", step, 2)
        bar.close()
        text = stream.getvalue()
        self.assertNotIn("\n", text)
        self.assertEqual(text.count("\r"), 4)  # what is shown already is not written again
        self.assertTrue(text.endswith("\r\x1b[K"))

    def test_files_get_nothing(self):
        stream = Stream(False)
        bar = progress.Bar(stream)
        bar("step", 1, 2)
        bar.close()
        self.assertEqual(stream.getvalue(), "")

    def test_notebooks_have_one_output_that_changes(self):
        shown, updates = [], []

        class Handle:
            def update(self, data, raw):
                updates.append((data["text/plain"], raw))

        def display(data, raw, display_id):
            shown.append((data["text/plain"], raw, display_id))
            return Handle()

        notebook = {"IPython": types.SimpleNamespace(get_ipython=lambda: types.SimpleNamespace(kernel=object())),
                    "IPython.display": types.SimpleNamespace(display=display)}
        with mock.patch.dict(sys.modules, notebook):
            tenon.compile(MODEL, progress=True)
        self.assertEqual(len(shown), 1)
        self.assertEqual(shown[0][1:], (True, True))
        self.assertGreater(len(updates), 3)
        self.assertEqual(updates[-1], ("", True))  # the bar goes
        self.assertTrue(all("█" in text or "·" in text for text, _ in updates[:-1]))

    def test_compile_calls_it_and_closes_it(self):
        calls, bar = [], progress.Bar

        class Counted(bar):
            def __init__(self):
                super().__init__(Stream(True))
                calls.append(self)

        progress.Bar = Counted
        try:
            tenon.compile(MODEL, progress=True)
            with self.assertRaises(tenon.Error):
                tenon.compile(MODEL, progress=True, opt_level=77)
        finally:
            progress.Bar = bar
        self.assertEqual(len(calls), 2)
        self.assertTrue(calls[0].stream.getvalue().endswith("\r\x1b[K"))


if __name__ == "__main__":
    unittest.main()
