# SPDX-License-Identifier: Apache-2.0
"""Programs as Python functions, in script text (docs/script.md):

    from tenon.script import ir as I, tir as T, relax as R

    @T.prim_func
    def add_one(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32")): ...

The text of what is decorated goes to the one parser of script text. It may name values of the Python program around it,
by Python's rules for names. Mistakes are ScriptError with the file, line and column where they stand.
"""
from . import ir, relax, tir
from .show import show
from .source import parse

graph, ir_module = relax, ir.ir_module

__all__ = ["graph", "ir", "ir_module", "parse", "relax", "show", "tir"]
