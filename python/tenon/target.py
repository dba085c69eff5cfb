# SPDX-License-Identifier: Apache-2.0
"""Targets: what a machine offers. Names are looked up in the compiler when they are used first."""
import re

from .arguments import need, need_callable
from .ffi import get_global_func, register_func
from .object import namespace

__getattr__, __dir__ = namespace(__name__.rpartition(".")[2])


def register_code_generator(kind, make, load=None, doc=""):
    """A kind of target whose code a function of Python makes, for the rest of the process.

    kind: the first word of the target's text, `tenon.compile(model, target=kind)`, and the kind of its source,
    `Executable.source(kind)`. make(module, target, opt_level): the code, as str or bytes, of a module of lowered programs: flat
    buffers, which are `tir.kernel_buffer(buffers, k)`, scalars likewise. load(code): what runs it, a function from the name of a
    program to a callable over its tensors, in that order, and its scalars, or None; without `load` the code cannot run here. UsageError T0940 when there is such a kind."""
    if not re.fullmatch(r"[\w.-]+", need(kind, str, "register_code_generator: kind", "a str")):
        raise ValueError(f"register_code_generator: kind is one word, not {kind!r}")
    need_callable(make, "register_code_generator: make")
    if load is not None:
        need_callable(load, "register_code_generator: load")
    get_global_func("target.register_code_generator")(kind, make, doc or (make.__doc__ or "").strip().partition("\n")[0])
    if load is not None:
        register_func("loader." + kind, load)
