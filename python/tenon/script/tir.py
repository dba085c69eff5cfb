# SPDX-License-Identifier: Apache-2.0
"""Tensor programs in script text: `from tenon.script import tir as T`. Outside of a text its functions make
expressions: `T.exp(x)`, `T.float32(1)`, `T.Var("n", "int64")`."""
from ..expr import ScriptFunction, is_word
from ..object import dtype
from .source import caller, in_class, read_function, read_macro
from .words import Word

Buffer, handle, match_buffer = Word("T.Buffer"), Word("T.handle"), Word("T.match_buffer")


def prim_func(func=None, private=False, check_well_formed=True, root=True):
    """A function as a PrimFunc. `root=False`: the text says nothing of a root block; `private` is the text's, too.
    Errors: ScriptError, and ModelError of the verifier."""
    if func is None:
        return lambda f: f if in_class(caller()) else read_function(f, caller(), check_well_formed)
    return func if in_class(caller()) else read_function(func, caller(), check_well_formed)


def macro(func=None, hygienic=True):
    """Statements that are put where the macro is called, with the arguments in place of its parameters. Its other names
    are those around its definition; with `hygienic=False` those around the call come first."""
    if func is None:
        return lambda f: read_macro(f, caller(), hygienic)
    return read_macro(func, caller(), hygienic)


def meta_var(value):
    """A value of Python under a name of the text."""
    return value


def __getattr__(name):
    if name in ("Select", "Var", "var", "Cast", "Let", "StringImm", "Range", "grid", "serial") or (
            not name.startswith("__") and is_word(name)):
        return ScriptFunction("T." + name)
    raise AttributeError(f"script text has no T.{name}")
