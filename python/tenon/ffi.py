# SPDX-License-Identifier: Apache-2.0
"""Functions across the border: the registry of named functions, in both directions.

    @tenon.register_func("my.add")
    def add(a, b): return a + b

    tenon.get_global_func("my.add")(1, 2)
"""
from __future__ import annotations

import sys

from . import _core
from ._core import Function
from .arguments import need, need_callable

TYPE_CHECKING = False  # type checkers take it for true
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["Function", "convert_func", "function_info", "get_global_func", "init_api", "list_global_func_names",
           "register_func", "remove_global_func"]


def _place(callable_):
    """File, line and first words of a callable, or of what it wraps."""
    callable_ = getattr(callable_, "__wrapped__", callable_)
    code = getattr(callable_, "__code__", None)
    doc = getattr(callable_, "__doc__", None) or ""
    return (code.co_filename, code.co_firstlineno, doc) if code else ("", 0, doc)


def register_func(name: str | Callable[..., Any], func: Callable[..., Any] | None = None, override: bool = False) -> Callable[..., Any]:
    """Registers a callable under a name, as a decorator or directly. UsageError T0103 when the name is taken and
    `override` is false. Compiled models call it by `call_packed`, C++ by its registry."""
    if callable(name):  # @register_func without a name
        return register_func(name.__name__, name)
    if not need(name, str, "register_func: name", "a str"):
        raise ValueError("register_func: name is empty")

    def register(f):
        need_callable(f, "register_func: func")
        _core.set_function(name, f, override, *_place(f))
        return f

    return register if func is None else register(func)


def get_global_func(name: str, allow_missing: bool = False) -> Any:
    """The function of a name. A name that is not there is looked for in the compiler's library, which is loaded then;
    ValueError when it is nowhere (None with `allow_missing`)."""
    found = _core.get_function(need(name, str, "get_global_func: name", "a str"))
    if found is None:
        load_compiler()
        found = _core.get_function(name)
    if found is None and not allow_missing:
        raise ValueError(f"there is no function {name!r}: " + _nearest(name))
    return found


def _nearest(name):
    import difflib
    near = difflib.get_close_matches(name, list_global_func_names(), 3)
    return "did you mean " + " or ".join(near) + "?" if near else "tenon.list_global_func_names() has all"


def list_global_func_names(prefix: str = "") -> list[str]:
    """Names of all registered functions with a prefix, sorted."""
    return list(_core.function_names(need(prefix, str, "list_global_func_names: prefix", "a str")))


def remove_global_func(name: str) -> None:
    """Takes a name out of the registry; nothing when it is not there."""
    _core.remove_function(need(name, str, "remove_global_func: name", "a str"))


def function_info(name: str) -> tuple[str, int, str, str] | None:
    """(file, line, signature, words) of a registered function; None when there is none."""
    info = _core.function_info(need(name, str, "function_info: name", "a str"))
    if info is None:
        return None
    head, dashes, words = info[3].partition("\n--\n\n")
    return (info[1], info[2], head, words) if dashes else (info[1], info[2], "", info[3])


def convert_func(f: Callable[..., Any]) -> Function:
    """A callable as a packed function."""
    return f if isinstance(f, Function) else _core.function_of(need_callable(f, "convert_func: f"))


def init_api(prefix: str, module: str | None = None) -> None:
    """Gives a Python module (its name; the caller's by default) a function for each registered name that begins with
    `prefix` and a dot, under what follows. Names with further dots are left out."""
    need(prefix, str, "init_api: prefix", "a str")
    module = module or sys._getframe(1).f_globals["__name__"]
    if module not in sys.modules:
        raise ValueError(f"init_api: no module {module!r} is imported")
    module = sys.modules[module]
    for name in list_global_func_names(prefix + "."):
        short = name[len(prefix) + 1:]
        if short.isidentifier():
            setattr(module, short, described(name))


def parameters_of(head):
    """Names of the parameters of a signature "f(a: int, b: str = ...) -> int"."""
    inner = head[head.find("(") + 1:head.rfind(") ->")]
    names, depth, start = [], 0, 0
    for i, c in enumerate(inner + ","):
        depth += (c in "[(") - (c in "])")
        if c == "," and not depth:
            names.append(inner[start:i].split(":")[0].split("=")[0].strip())
            start = i + 1
    return [n for n in names if n]


def bind(function, args, keywords):
    """Positional arguments for a call with names, by the signature in the registry."""
    info = function_info(function.name) if function.name else None
    if not info or not info[2]:
        raise TypeError(f"{function.name or 'this function'} takes no names of arguments")
    names = parameters_of(info[2])
    values = list(args)
    for name in names[len(args):]:
        if not keywords:
            break
        values.append(keywords.pop(name, None))  # none: its default
    if keywords:
        raise TypeError(f"{function.name}: no such argument: {', '.join(keywords)}; "
                        f"its signature is {info[2]}")
    return tuple(values)


def described(name):
    """The registered function as a Python function with name, words and signature."""
    function = get_global_func(name)

    def call(*args, **keywords):
        return function(*args, **keywords)

    describe(call, name)
    return call


def describe(call, name):
    """Gives a Python function the words of a registered one."""
    _, _, head, words = function_info(name)
    call.__name__ = call.__qualname__ = name.rpartition(".")[2]
    call.__doc__ = f"{head}\n\n{words}" if head else words
    if head:
        call.__text_signature__ = "(" + ", ".join(parameters_of(head)) + ")"


_compiler_loaded = False


def load_compiler():
    """Loads the compiler's library (LLVM with it) when it is needed first. FileError T0910 when it is not there."""
    global _compiler_loaded
    if not _compiler_loaded:
        _core.load_compiler()
        _compiler_loaded = True
