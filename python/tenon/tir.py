# SPDX-License-Identifier: Apache-2.0
"""Tensor programs: their nodes (`tir.Add(a, b)`), functions that make expressions (`tir.exp(x)`), and schedules.

    sch = tir.Schedule(mod)
    i, j = sch.get_loops("C")
    io, ii = sch.split(i, [None, 8])
    sch.parallel(io)
"""
from __future__ import annotations

import functools
import inspect
import operator
import re
from collections.abc import Sequence

from .arguments import need, need_callable
from .expr import ScriptFunction, is_word
from .ffi import get_global_func, register_func
from .object import class_of, extend, namespace


TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def index_map(function, rank=None):
    """Where an element goes: `index_map(lambda i, j: (j, i))`. `rank` is needed for a function of `*i`."""
    if rank is None:
        parameters = inspect.signature(function).parameters.values()
        if [p for p in parameters if p.kind is p.VAR_POSITIONAL]:
            raise TypeError("index_map of a function of any number of variables needs `rank`")
        rank = len(parameters)
    inputs = [class_of("tir.Var")(name=f"i{n}", dtype="int64") for n in range(rank)]
    outputs = function(*inputs)
    return class_of("tir.IndexMap")(inputs, list(outputs) if isinstance(outputs, (tuple, list)) else [outputs])


# Names of TVM for parameters that have another here.
_ALSO = {"read_buffer_index": ("read_index",), "write_buffer_index": ("write_index",), "storage_scope": ("scope",),
         "buffer_index": ("write_index",), "consumer_blocks": ("others",), "ann_key": ("key",), "ann_val": ("value",),
         "max_innermost_factor": ("max_innermost",), "target": ("loop",)}
# Parameters of TVM that have no choice here: what always holds.
_ALWAYS = {"preserve_unit_iters": True, "disable_predication": False, "preserve_unit_loops": False, "index": -1}


def _accessed(schedule, block, buffer):
    """("read" or "write", number) of a buffer that a block accesses, given by name, as itself, or as that pair."""
    if isinstance(buffer, (tuple, list)):
        kind, number = buffer
        return kind, number
    node = schedule.get(schedule.get_block(block) if isinstance(block, str) else block)
    for kind, regions in (("write", node.writes), ("read", node.reads)):
        for number, region in enumerate(regions):
            if region.buffer is buffer or region.buffer.name == buffer:
                return kind, number
    raise ValueError(f"the block `{node.name}` accesses no buffer {buffer!r}")


def _primitive(method):
    """A primitive under TVM's spellings: a function of Python stands for an index map, None among sizes for the rest,
    loops come one by one or listed, buffers by number, name or as ("read", 0)."""
    name, parameters = method.__name__, re.findall(r"\w+", method.__text_signature__ or "")[1:]

    def value(v):
        if inspect.isfunction(v):
            return index_map(v)
        return [-1 if s is None else s for s in v] if isinstance(v, (list, tuple)) else v

    def call(self, *args, **keywords):
        if parameters == ["loops"] and args and not isinstance(args[0], Sequence):
            args = (list(args),)
        if len(args) > len(parameters):
            return method(self, *args, **keywords)
        given = dict(zip(parameters, args))
        if "buffer_index_type" in parameters and not isinstance(given.get("buffer_index", 0), int):
            given = dict(zip([parameters[0], "buffer", *parameters[3:]], args))
        for key, v in keywords.items():
            if key in _ALWAYS and key not in parameters:
                if v != _ALWAYS[key]:
                    raise TypeError(f"{name}: {key}={v!r} is not offered, {_ALWAYS[key]!r} always holds")
                continue
            if key not in parameters:
                key = next((k for k in _ALSO.get(key, ()) if k in parameters), key)
            if key in given:
                raise TypeError(f"{name}: {key} is given twice")
            given[key] = v
        if "buffer" in given and "buffer_index_type" in parameters:
            given["buffer_index_type"], given["buffer_index"] = _accessed(self, given["block"], given.pop("buffer"))
        for key, kind in (("read_index", "read"), ("write_index", "write")):
            if key in given and given[key] is not None and not isinstance(given[key], int):
                found, number = _accessed(self, given["block"], given.pop(key))
                given[key if found == kind or f"{found}_index" not in parameters else f"{found}_index"] = number
                if found != kind and f"{found}_index" not in parameters:
                    raise ValueError(f"{name}: the block {'writes' if kind == 'read' else 'reads'} this buffer only")
        return method(self, **{k: value(v) for k, v in given.items()})

    call.__name__, call.__doc__, call.__text_signature__ = name, method.__doc__, method.__text_signature__
    return call


def schedule_rule(name: str, function: Callable[..., Any] | None = None, override: bool = False) -> Callable[..., Any]:
    """A rule that schedules the programs whose attribute "tenon.schedule_rule" is its name, in place of the default schedule;
    also a decorator. function(sch, target) arranges the program's tir.Schedule. UsageError T0103 when the name is taken and
    `override` is false."""
    if not need(name, str, "schedule_rule: name", "a str"):
        raise ValueError("schedule_rule: name is empty")

    def register(f):
        need_callable(f, "schedule_rule: function")

        @functools.wraps(f)
        def rule(func, target):
            sch = _schedule()(func)
            f(sch, target)
            return sch.func

        register_func("schedule.rule." + name, rule, override)
        return f

    return register if function is None else register(function)


def primitives() -> list[str]:
    """Names of the primitives, which are methods of a schedule."""
    return list(get_global_func("tir.primitives")())


def const(value, dtype=None):
    """A number as an expression: of `dtype`, or bool, int64 or float32 by its kind."""
    need(value, (bool, int, float), "const: value", "a number")
    need(dtype, (str, type(None)), "const: dtype", "a data type")
    dtype = dtype or ("bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else "float32")
    if isinstance(value, int) and not isinstance(value, bool) and re.fullmatch(r"u?int\d+", dtype):
        return class_of("tir.IntImm")(dtype, value)
    from .script import tir
    if not is_word(dtype):
        raise ValueError(f"const: there is no data type {dtype!r}")
    return getattr(tir, dtype)(value)


def all(*conditions):  # noqa: A001
    """Whether all conditions hold, as an expression."""
    return functools.reduce(operator.and_, _conditions("all", conditions))


def any(*conditions):  # noqa: A001
    """Whether one of the conditions holds, as an expression."""
    return functools.reduce(operator.or_, _conditions("any", conditions))


def _conditions(name, values):
    if not values:
        raise TypeError(f"{name}: at least one condition is needed")
    return [need(v, class_of("tir.PrimExpr"), f"{name}: a condition", "an expression") for v in values]


_scheduled = []  # the class, when it is complete
extend("tir.Trace", show=lambda self, style=None: print(self.script))
extend("tir.Schedule", show=lambda self, style=None: self.func.show(style))


def _schedule():
    get_global_func("tir.load_schedule")()
    schedule = class_of("tir.Schedule")
    if not _scheduled:
        _scheduled.append(schedule)
        for name in primitives():
            setattr(schedule, name, _primitive(getattr(schedule, name)))
    return schedule


_named, __dir__ = namespace("tir")


def __getattr__(name):
    if name == "Schedule":
        return _schedule()
    if name == "Trace":
        _schedule()
    try:
        return _named(name)
    except AttributeError:
        if is_word(name):
            return ScriptFunction("T." + name)
        raise
