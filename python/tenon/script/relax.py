# SPDX-License-Identifier: Apache-2.0
"""Graph functions in script text: `from tenon.script import relax as R`."""
from .source import caller, in_class, read_function, read_macro
from .words import Word

_WORDS = ("Tensor", "Shape", "Prim", "Tuple", "Callable", "Object", "Ref", "ExternFunc")
Tensor, Shape, Prim, Tuple, Callable, Object, Ref, ExternFunc = (Word("R." + n) for n in _WORDS)


def function(f=None, pure=True, private=False, check_well_formed=True):
    """A function as a graph function. Errors: ScriptError, and ModelError of the verifier."""
    if f is None:
        return lambda g: g if in_class(caller()) else read_function(g, caller(), check_well_formed)
    return f if in_class(caller()) else read_function(f, caller(), check_well_formed)


def macro(func=None, hygienic=True):
    """Bindings that are put where the macro is called, with the arguments in place of its parameters; the call stands for what
    it returns. Names are as those of T.macro."""
    if func is None:
        return lambda f: read_macro(f, caller(), hygienic)
    return read_macro(func, caller(), hygienic)


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    from .. import op
    return getattr(op, name)
