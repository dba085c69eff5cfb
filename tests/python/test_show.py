# SPDX-License-Identifier: Apache-2.0
"""What notebooks and terminals show of objects."""
import contextlib
import html.parser
import importlib
import io
import os
import pathlib
import tempfile
import unittest
from unittest import mock

import tenon
from tenon import te, tir

show = importlib.import_module("tenon.script.show")


def module():
    A = te.placeholder((8, 8), name="A")
    B = te.compute((8, 8), lambda i, j: A[i, j] + 1, name="B")
    return te.lower(te.create_schedule(B.op), [A, B])


class Text(html.parser.HTMLParser):
    """The words of a piece of HTML; a tag that ends another than the last one opened is an error."""

    def __init__(self, text):
        super().__init__()
        self.words, self.open = "", []
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += data


@contextlib.contextmanager
def graphviz(program):
    """A PATH whose `dot` is this shell script, or none."""
    with tempfile.TemporaryDirectory() as folder:
        if program:
            dot = pathlib.Path(folder) / "dot"
            dot.write_text("#!/bin/sh\n" + program)
            dot.chmod(0o755)
        with mock.patch.dict(os.environ, PATH=folder + (":/usr/bin:/bin" if program else "")):
            yield


class Show(unittest.TestCase):
    def test_nodes(self):
        x = tir.Var(dtype="int64", name="x")
        self.assertEqual(Text((x < 2)._repr_html_()).words, repr(x < 2))

    def test_a_module_without_graphviz_is_its_text(self):
        m = module()
        with graphviz(None):
            self.assertEqual(Text(m._repr_html_()).words, m.script())
            with self.assertRaises(tenon.FileError) as caught:
                m.svg()
            self.assertEqual(caught.exception.code, "T0925")

    def test_a_module_is_drawn(self):
        m = module()
        with graphviz("/bin/cat > /dev/null\necho '<?xml?>'\necho '<svg>drawing</svg>'\n"):
            self.assertIn("<svg>", m.svg())
            text = Text(m._repr_html_()).words
        self.assertTrue(text.startswith("drawing"), text[:80])
        self.assertTrue(text.endswith(m.script()))

    def test_a_module_is_drawn_in_pixels(self):
        with graphviz("[ $1 = -Tpng ] && /bin/cat > /dev/null && printf '\\211PNG\\r\\n\\032\\n'\n"):
            self.assertEqual(module().png(), b"\x89PNG\r\n\x1a\n")
        with graphviz(None), self.assertRaises(tenon.FileError) as caught:
            module().png()
        self.assertEqual(caught.exception.code, "T0925")

    def test_large_modules_are_not_drawn(self):
        m = module()
        with mock.patch.object(show, "MOST_LINES_DRAWN", 3), mock.patch.object(show, "svg", side_effect=AssertionError):
            self.assertEqual(Text(m._repr_html_()).words, m.script())

    def test_colours_in_notebooks(self):
        out = io.StringIO()
        with mock.patch.object(show, "in_notebook", return_value=True), mock.patch.dict(os.environ), contextlib.redirect_stdout(out):
            os.environ.pop("NO_COLOR", None)
            module().show()
        self.assertIn("\033[", out.getvalue())


if __name__ == "__main__":
    unittest.main()
