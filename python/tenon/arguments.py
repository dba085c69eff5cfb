# SPDX-License-Identifier: Apache-2.0
"""Checks of arguments: a TypeError that names function, argument, what was expected and what came."""


def need(value, kind, where, what):
    """The value, which is of a class (or of one of several). `where`: "te.lower: args"; `what`: "a list of tensors"."""
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TypeError(f"{where} must be {what}, not {type(value).__name__}")
    return value


def need_callable(value, where):
    """The value, which can be called."""
    if not callable(value):
        raise TypeError(f"{where} must be a function, not {type(value).__name__}")
    return value


def listed(value, where, what="a list"):
    """A list of the items of a list, tuple or other iterable, but of no text."""
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        raise TypeError(f"{where} must be {what}, not {type(value).__name__}")
    return list(value)
