# SPDX-License-Identifier: Apache-2.0
"""Script text with colours, on terminals and in notebooks, and drawings of modules."""
import html
import os
import re
import sys
import tempfile

from ..error import FileError
from ..ffi import get_global_func
from ..progress import in_notebook

_PARTS = re.compile(r"""(?P<comment>\#[^\n]*)|(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
                    r"""|(?P<decorator>@[\w.]+)|(?P<number>\b\d[\w.+]*)"""
                    r"""|(?P<keyword>\b(?:def|class|for|in|with|if|elif|else|while|return|as|and|or|not|pass|match|case|lambda|"""
                    r"""assert|True|False|None)\b)""")
_COLOURS = {"comment": 90, "string": 32, "decorator": 35, "number": 36, "keyword": 34}
_HTML_COLOURS = {"comment": "#808080", "string": "#3a9140", "decorator": "#a65fc4", "number": "#1f8f9c", "keyword": "#3f7fd1"}
MOST_LINES_DRAWN = 500  # of script text: a picture of more is looked at by nobody


def coloured(text):
    """The text with the colours of terminals."""
    return _PARTS.sub(lambda m: f"\033[{_COLOURS[m.lastgroup]}m{m.group()}\033[0m", text)


def coloured_html(text):
    """The text as HTML, with colours that can be read on light and dark pages."""
    out, end = [], 0
    for m in _PARTS.finditer(text):
        out += [html.escape(text[end:m.start()]), f'<span style="color:{_HTML_COLOURS[m.lastgroup]}">{html.escape(m.group())}</span>']
        end = m.end()
    return f"<pre>{''.join(out)}{html.escape(text[end:])}</pre>"


def svg(module):
    """A drawing of a module's graph functions, or of the loops of its programs, as SVG. FileError T0925 without Graphviz."""
    return get_global_func("compiler.compile")({"module": module, "emit": "svg", "stage": "import"})["text"]


def png(module):
    """The same as PNG, bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "module.png")
        get_global_func("compiler.compile")({"module": module, "emit": "png", "stage": "import", "output": path})
        with open(path, "rb") as file:
            return file.read()


def module_html(module):
    """What notebooks show of a module: its drawing where Graphviz is installed, and its script text."""
    text = module.script()
    words = coloured_html(text)
    if text.count("\n") > MOST_LINES_DRAWN:
        return words
    try:
        drawing = svg(module)
    except FileError:
        return words
    return f"{drawing[drawing.find('<svg'):]}<details><summary>script</summary>{words}</details>"


def show(node, style=None):
    """Prints a node as script text. `style`: "colour" or "plain"; by default colours in notebooks and
    on terminals, unless the environment has NO_COLOR."""
    if style not in (None, "colour", "plain"):
        raise ValueError(f"style is \"colour\" or \"plain\", not {style!r}")
    text = node.script()
    if style is None:
        style = "colour" if (sys.stdout.isatty() or in_notebook()) and not os.environ.get("NO_COLOR") else "plain"
    print(coloured(text) if style == "colour" else text)
