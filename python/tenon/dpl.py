# SPDX-License-Identifier: Apache-2.0
"""Dataflow patterns: what a stretch of a graph function looks like.

    x, w = wildcard(), is_const()
    dense = is_op("nn.dense")(x, w).has_dtype("float32")
    pattern = dense.optional(lambda y: is_op("nn.relu")(y))
    pattern.match(value, mod["main"])          # {pattern: value, …}, or None
    pattern.rewrite(lambda root, found: op.tanh(found[x]), mod["main"])
"""
from __future__ import annotations

from .arguments import need
from .ffi import get_global_func
from .object import class_of, extend, namespace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def wildcard() -> Any:
    """Any value; the same object met twice in a pattern stands for the same value."""
    return get_global_func("dpl.wildcard")()


def is_const() -> Any:
    """Any constant."""
    return get_global_func("dpl.is_const")()


def is_var(name="") -> Any:
    """A variable of this name; "": any."""
    return class_of("dpl.VarPattern")(name, False)


def is_dfv(name="") -> Any:
    """A variable that the body binds and does not give back; "": any."""
    return class_of("dpl.VarPattern")(name, True)


def is_gv(name="") -> Any:
    """A function of the module by its name; "": any."""
    return class_of("dpl.GlobalVarPattern")(name)


def is_shape(values) -> Any:
    """A value that is a shape: these sizes."""
    return class_of("dpl.PrimArrPattern")(list(values))


def is_if(condition, true_branch, false_branch) -> Any:
    """A choice by its condition and what its ways give."""
    return class_of("dpl.IfPattern")(condition, true_branch, false_branch)


def is_let(var, value, body) -> Any:
    """The body, in which what `var` stands for is bound to the value."""
    return class_of("dpl.LetPattern")(var, value, body)


def _arguments(args):
    """The tuple of a call's arguments: a pattern, or those of its items."""
    return is_tuple(args) if isinstance(args, (list, tuple)) else args


def is_call_tir(name, args=None) -> Any:
    """A call of the tensor program; `args`: the pattern of their tuple, or those of its items; None: whatever they are."""
    return get_global_func("dpl.is_call_tir")(name, _arguments(args))


def is_call_dps_packed(name, args=None) -> Any:
    """A call of the packed function in destination-passing style; `args` as for is_call_tir."""
    return get_global_func("dpl.is_call_dps_packed")(name, _arguments(args))


def is_call_packed(name, args=None) -> Any:
    """A call of the packed function; `args`: patterns of the arguments; None: whatever they are."""
    return get_global_func("dpl.is_call_packed")(name, args if args is None else list(args))


def is_expr(expr) -> Any:
    """This value: an operator, a constant, a function by name, a variable of the function."""
    return class_of("dpl.ExprPattern")(expr)


def is_op(name) -> Any:
    """The operator, to be called with the patterns of its arguments (none: whatever they are). UsageError T0108."""
    return class_of("dpl.ExprPattern")(class_of("graph.Op")(name))


def is_tuple(items=None, unordered=False) -> Any:
    """A tuple of these items; None: whatever it holds. `unordered`: in any order."""
    return class_of("dpl.TuplePattern")(list(items or ()), items is None, unordered)


def is_tuple_get_item(tuple_, index=-1) -> Any:
    """An item of a tuple; -1: any."""
    return class_of("dpl.TupleGetItemPattern")(tuple_, index)


def parse_patterns(text, name="<patterns>") -> list:
    """(name, pattern) of each entry of a table that is written as here: assignments of patterns to names, then the list
    `[("library.name", pattern)]`. UsageError T1155 with every mistake and its place."""
    return list(get_global_func("dpl.parse_patterns")(text, name).patterns.items())


def to_text(patterns) -> str:
    """(name, pattern) pairs as text that `parse_patterns` reads. UsageError T1155 when a pattern has none."""
    return get_global_func("dpl.to_text")(class_of("dpl.PatternTable")(dict(patterns)))


class Found(dict):
    """What the parts of a pattern stand for: `found[pattern]`. Patterns are keys as objects: two wildcards differ."""

    def __init__(self, pairs):
        super().__init__((id(pattern), value) for pattern, value in pairs)
        self.patterns = [pattern for pattern, _ in pairs]  # the objects stay, and so their ids

    def __getitem__(self, pattern):
        return super().__getitem__(id(pattern))

    def __contains__(self, pattern):
        return super().__contains__(id(pattern))


def _call(self, *args, varg_default_wildcard=False):
    return class_of("dpl.CallPattern")(self, list(args), varg_default_wildcard or not args)


def _sequence(only):
    def joined(self, other, index=-1):
        return get_global_func("dpl.in_sequence")(self, other, only, index)

    return joined


def _match(self, value, function, mod=None):
    """What the parts of the pattern stand for where it matches a value of the function, else None. `mod`: where
    functions that the function calls are found. UsageError T1150, LimitError T1151."""
    pairs = get_global_func("dpl.match")(self, value, function, mod)
    return None if pairs is None else Found([(p, v) for p, v in pairs])


def _partition(self, mod, name="partitioned", check=None, bind_constants=False):
    """The module with a private function, marked Composite = name, in the place of every match."""
    return get_global_func("dpl.fuse_ops_by_pattern")(mod, [[name, self, check]], bind_constants)


def _rewrite(self, callback, function):
    """The function with `callback(root, found)` in the place of every match's root; None leaves it."""
    return get_global_func("dpl.rewrite")(
        self, function, lambda root, pairs: callback(root, Found([(p, v) for p, v in pairs])))


extend("dpl.DFPattern",
       __call__=_call,
       __or__=lambda self, other: class_of("dpl.OrPattern")(self, other),
       __and__=lambda self, other: class_of("dpl.AndPattern")(self, other),
       __invert__=lambda self: class_of("dpl.NotPattern")(self),
       __xor__=_sequence(False),
       __rshift__=_sequence(True),
       used_by=_sequence(False), only_used_by=_sequence(True),
       same_shape_as=lambda self, other: class_of("dpl.SameShapePattern")(self, other),
       dup=lambda self: get_global_func("dpl.dup")(self),
       has_attr=lambda self, attrs: class_of("dpl.AttrPattern")(self, need(attrs, dict, "has_attr: attrs", "a dict")),
       has_type=lambda self, type: class_of("dpl.TypePattern")(self, type),
       has_shape=lambda self, shape: class_of("dpl.ShapePattern")(self, list(shape)),
       has_dtype=lambda self, dtype: class_of("dpl.DataTypePattern")(self, dtype),
       optional=lambda self, wrap: class_of("dpl.OrPattern")(wrap(self), self),
       dominates=lambda self, child, path=None: class_of("dpl.DominatorPattern")(self, wildcard() if path is None else path, child),
       match=_match, partition=_partition, rewrite=_rewrite)


def rewrite_call(pattern, callback, function) -> Any:
    """`pattern.rewrite(callback, function)`."""
    return pattern.rewrite(callback, function)


__getattr__, __dir__ = namespace("dpl")
