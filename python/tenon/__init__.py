# SPDX-License-Identifier: Apache-2.0
"""Tenon: a deep-learning compiler. Importing it loads the runtime only; the compiler comes with the first need."""
from . import _core
from .error import *
from .ffi import *
from . import error, ffi, object  # noqa: A004
from .object import *
from .object import dtype

__version__ = _core.version
_SUBMODULES = {"attrs", "graph", "ir", "target", "te", "tir"}


def __getattr__(name):
    if name not in _SUBMODULES:
        raise AttributeError(f"module tenon has no {name}")
    import importlib
    return importlib.import_module("tenon." + name)


def __dir__():
    return sorted({*globals(), *_SUBMODULES})


_core.setup(dtype=dtype, make_class=object.make_class, make_error=error.make_error, equal=object.equal,
            hash=object.hash_of, repr=object.repr_of, bind=ffi.bind, to_tensor=lambda value: value)
