# SPDX-License-Identifier: Apache-2.0
"""Errors of Tenon as exceptions: one class for each kind, each with code, message, location and hint.

The kinds are those of the command's exit codes; `tenon explain CODE` says more about a code.
"""

import linecache

__all__ = ["Error", "UsageError", "ArgumentError", "ModelError", "LimitError", "FileError", "InternalError",
           "ScriptError",            "Interrupted"]


class Error(Exception):
    """What Tenon reports. `code` is stable ("T0505"), `location` and `hint` may be empty, `passed` has a line for each
    function that the error left on its way, the innermost first."""

    code: str = ""
    message: str = ""
    location: str = ""
    hint: str = ""
    passed: str = ""

    def __reduce__(self):
        return _rebuild, (type(self), self.args, dict(self.__dict__))


class UsageError(Error, ValueError):
    """A wrong argument, name, type or shape."""


class ArgumentError(UsageError, TypeError):
    """An argument of the wrong kind, or a wrong number of them."""


class ModelError(Error, ValueError):
    """A model or text that cannot be used."""


class ScriptError(ModelError, SyntaxError):
    """Script text that cannot be read. `filename`, `lineno`, `offset` and `text` are of the first mistake, str() has
    all of them."""

    def __str__(self):
        return self.args[0] if self.args else ""

    def locate(self):
        """Where the first mistake stands, from `location`."""
        name, line, column = (self.location.rsplit(":", 2) + ["", ""])[:3]
        if line.isdigit() and column.isdigit():
            self.msg, self.filename, self.lineno, self.offset = str(self), name, int(line), int(column)
            self.text = linecache.getline(name, self.lineno) or None
        return self


class LimitError(Error, MemoryError):
    """Memory, depth or time ended."""


class FileError(Error, OSError):
    """The system could not read or write."""


class InternalError(Error, RuntimeError):
    """A bug of Tenon: please report it."""


class Interrupted(Error):
    """The call was cancelled."""


_KINDS = {2: UsageError, 3: ModelError, 4: LimitError, 5: FileError, 70: InternalError, 130: Interrupted}
_ARGUMENTS = {"T0101", "T0102", "T0108", "T0942"}


def _rebuild(kind, args, values):
    error = kind(*args)
    error.__dict__.update(values)
    return error


def make_error(kind, code, message, location, hint, text, passed):
    """The exception for an error of C++."""
    script = kind == 3 and code.startswith("T02") and code < "T0290"
    error = (ScriptError if script else ArgumentError if code in _ARGUMENTS else _KINDS.get(kind, Error))(text)
    error.code, error.message, error.location, error.hint, error.passed = code, message, location, hint, passed
    if script:
        error.locate()
    for line in passed.splitlines():
        error.add_note("  C++ " + line)
    return error
