# SPDX-License-Identifier: Apache-2.0
"""Tensor programs: their nodes (`tir.Add(a, b)`), functions that make expressions (`tir.exp(x)`), and schedules.

    sch = tir.Schedule(mod)
    i, j = sch.get_loops("C")
    io, ii = sch.split(i, [None, 8])
    sch.parallel(io)
"""
import functools
import inspect

from .expr import ScriptFunction, is_word
from .ffi import get_global_func, register_func
from .object import class_of, extend, namespace


def index_map(function, rank=None):
    """Where an element goes: `index_map(lambda i, j: (j, i))`. `rank` is needed for a function of `*i`."""
    if rank is None:
        parameters = inspect.signature(function).parameters.values()
        if any(p.kind is p.VAR_POSITIONAL for p in parameters):
            raise TypeError("index_map of a function of any number of variables needs `rank`")
        rank = len(parameters)
    inputs = [class_of("tir.Var")(name=f"i{n}", dtype="int64") for n in range(rank)]
    outputs = function(*inputs)
    return class_of("tir.IndexMap")(inputs, list(outputs) if isinstance(outputs, (tuple, list)) else [outputs])


def _with_maps(method):
    """A primitive that also takes a function of Python for an index map."""
    def call(self, *args, **keywords):
        args = [index_map(a) if inspect.isfunction(a) else a for a in args]
        keywords = {k: index_map(v) if inspect.isfunction(v) else v for k, v in keywords.items()}
        return method(self, *args, **keywords)

    call.__name__, call.__doc__, call.__text_signature__ = method.__name__, method.__doc__, method.__text_signature__
    return call


def _rest_or_listed(method):
    """A primitive that takes None for the rest among sizes, and loops one by one."""
    def call(self, *args, **keywords):
        if method.__name__ in ("fuse", "reorder") and args and not isinstance(args[0], (list, tuple)):
            args = (list(args),)
        return method(self, *map(_rest, args), **{k: _rest(v) for k, v in keywords.items()})

    call.__name__, call.__doc__, call.__text_signature__ = method.__name__, method.__doc__, method.__text_signature__
    return call


def _rest(sizes):
    return [-1 if s is None else s for s in sizes] if isinstance(sizes, (list, tuple)) else sizes


def schedule_rule(name, function=None, override=False):
    """A rule that schedules the programs whose attribute "tenon.schedule_rule" is its name, in place of the default schedule;
    also a decorator. function(sch, target) arranges the program's tir.Schedule. UsageError T0103 when the name is taken and
    `override` is false."""
    def register(f):
        @functools.wraps(f)
        def rule(func, target):
            sch = _schedule()(func)
            f(sch, target)
            return sch.func

        register_func("schedule.rule." + name, rule, override)
        return f

    return register if function is None else register(function)


def primitives():
    """Names of the primitives, which are methods of a schedule."""
    return list(get_global_func("tir.primitives")())


_scheduled = []  # the class, when it is complete
extend("tir.Schedule", show=lambda self, style=None: self.func.show(style))


def _schedule():
    get_global_func("tir.load_schedule")()
    schedule = class_of("tir.Schedule")
    if not _scheduled:
        _scheduled.append(schedule)
        for name in primitives():
            method = getattr(schedule, name)
            if "tir.IndexMap" in method.__doc__.partition("\n")[0]:
                setattr(schedule, name, _with_maps(method))
            elif name in ("split", "loop_partition", "fuse", "reorder"):
                setattr(schedule, name, _rest_or_listed(method))
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
