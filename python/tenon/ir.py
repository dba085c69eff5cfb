# SPDX-License-Identifier: Apache-2.0
"""Modules, types and what both levels of programs share. Names are looked up in the compiler when they are used first."""
from .object import first_difference, namespace


def assert_structural_equal(a, b, map_free=False):
    """ValueError with the path to the first difference of two nodes."""
    path = first_difference(a, b, map_free)
    if path:
        raise ValueError(f"the nodes differ at {path}")


__getattr__, __dir__ = namespace(__name__.rpartition(".")[2])
