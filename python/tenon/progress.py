# SPDX-License-Identifier: Apache-2.0
"""A bar that shows how far a compilation is: one line on a terminal, one output in a notebook, nothing elsewhere."""
import contextlib
import sys

WIDTH = 24


def line(step, done, total):
    """"codegen  ████████····  12/18"."""
    filled = WIDTH * done // total if total > 0 else 0
    return f"{step:<16.16} {'█' * filled}{'·' * (WIDTH - filled)} {done}/{total}"


def in_notebook():
    """Whether a kernel of Jupyter runs this program: it shows outputs, and standard error is no terminal."""
    ipython = sys.modules.get("IPython")
    shell = ipython and ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


@contextlib.contextmanager
def reported(progress):
    """The function that is called with (step, done, total) for what `tenon.compile` takes as `progress`, or None."""
    if progress is not True:
        yield progress or None
        return
    bar = Bar()
    try:
        yield bar
    finally:
        bar.close()


class Bar:
    """What a function of progress does that shows it; `close` takes the bar away."""

    def __init__(self, stream=None):
        self.stream, self.handle, self.shown = stream or sys.stderr, None, ""
        self.notebook = in_notebook()
        self.terminal = not self.notebook and self.stream.isatty()

    def __call__(self, step, done, total):
        text = line(step, done, total)
        if text == self.shown:
            return
        self.shown = text
        if self.terminal:
            self.stream.write(f"\r{text}\x1b[K")
            self.stream.flush()
        elif self.notebook:
            self._display(text)

    def close(self):
        """Takes the bar off the screen."""
        if self.shown and self.terminal:
            self.stream.write("\r\x1b[K")
            self.stream.flush()
        elif self.shown and self.notebook:
            self._display("")

    def _display(self, text):
        from IPython.display import display
        data = {"text/plain": text}
        if self.handle is None:
            self.handle = display(data, raw=True, display_id=True)
        else:
            self.handle.update(data, raw=True)
