# SPDX-License-Identifier: Apache-2.0
"""Modules in script text: `from tenon.script import ir as I`."""
from .source import caller, read_module
from .words import Word

module_attrs, module_global_infos, GlobalVar = (Word("I." + n) for n in ("module_attrs", "module_global_infos",
                                                                         "GlobalVar"))


def ir_module(mod=None, check_well_formed=True):
    """A class as an IRModule. Errors: ScriptError, and ModelError of the verifier."""
    if mod is not None:
        return read_module(mod, caller(), check_well_formed)
    return lambda cls: read_module(cls, caller(), check_well_formed)


def name(text):
    """The name of a function that is no identifier."""
    return lambda f: f


def data_type(cls):
    """A class as an algebraic data type."""
    return cls
