# SPDX-License-Identifier: Apache-2.0
"""Script text with colours, on terminals."""
import os
import re
import sys

_PARTS = re.compile(r"""(?P<comment>\#[^\n]*)|(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
                    r"""|(?P<decorator>@[\w.]+)|(?P<number>\b\d[\w.+]*)"""
                    r"""|(?P<keyword>\b(?:def|class|for|in|with|if|elif|else|while|return|as|and|or|not|pass|match|case|lambda|"""
                    r"""assert|True|False|None)\b)""")
_COLOURS = {"comment": 90, "string": 32, "decorator": 35, "number": 36, "keyword": 34}


def coloured(text):
    """The text with the colours of terminals."""
    return _PARTS.sub(lambda m: f"\033[{_COLOURS[m.lastgroup]}m{m.group()}\033[0m", text)


def show(node, style=None):
    """Prints a node as script text. `style`: "colour" or "plain"; by default colours where a terminal reads it, unless
    the environment has NO_COLOR."""
    if style not in (None, "colour", "plain"):
        raise ValueError(f"style is \"colour\" or \"plain\", not {style!r}")
    text = node.script()
    if style is None:
        style = "colour" if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else "plain"
    print(coloured(text) if style == "colour" else text)
