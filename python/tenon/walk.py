# SPDX-License-Identifier: Apache-2.0
"""Walks over programs of both levels, with a function for each type of node.

    tenon.visit(func, {tir.BufferLoad: lambda n: loads.append(n)})
    func = tenon.rewrite(func, {tir.Add: lambda n: n.a if n.b == zero else None})
"""
from __future__ import annotations

from .arguments import need
from .ffi import get_global_func
from .object import Object

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def _chosen(functions):
    """The function for a node: that of its class or of the nearest class above it."""
    if callable(functions):
        return lambda node: functions
    need(functions, dict, "functions", "a dict from classes of nodes to functions")
    for cls, f in functions.items():
        if not (isinstance(cls, type) and issubclass(cls, Object)):
            raise TypeError(f"the keys are classes of nodes such as tenon.tir.Add, not {cls!r}")
        if not callable(f):
            raise TypeError(f"{cls.__name__}: {f!r} cannot be called")
    known = {}

    def choose(node):
        cls = type(node)
        if cls not in known:
            known[cls] = next((functions[c] for c in cls.__mro__ if c in functions), None)
        return known[cls]

    return choose


def visit(node: Object, functions: Mapping[type[Any], Callable[[Any], Any]] | Callable[[Any], Any]) -> None:
    """Calls the function of its type on every node below and including `node`, children first, each node once; a single
    function is called on all of them."""
    choose = _chosen(functions)

    def call(n):
        f = choose(n)
        if f:
            f(n)

    get_global_func("ir.visit")(node, call)


def rewrite(node: Object, functions: Mapping[type[Any], Callable[[Any], Object | None]]) -> Object:
    """The program with nodes replaced, from the inside out: each function gets a node whose children are rewritten
    already and gives what stands in its place, or None for no change. Untouched parts are shared."""
    choose = _chosen(functions)

    def call(n):
        f = choose(n)
        made = f(n) if f else None
        if made is not None and not isinstance(made, Object):
            raise TypeError(f"the function for {type(n).__name__} must give a node or None, not {made!r}")
        return made

    return get_global_func("ir.rewrite")(node, call)
