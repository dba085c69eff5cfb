# SPDX-License-Identifier: Apache-2.0
"""Operators of graph functions, from their records: `op.nn.conv2d(x, w, padding=1)`, `op.add(x, 1.0)`.

Operands are graph values, arrays and numbers; attributes are given by name, or by position behind the operands. The type
of what comes back is known when those of the operands are. Errors: ModelError with the code of the operator's rule.
"""
import functools

from .ffi import get_global_func


@functools.cache
def _records():
    return {r["name"]: r for r in get_global_func("graph.operators")()}


@functools.cache
def _operator(name):
    record = _records()[name]
    operands, attributes = list(record["arguments"]), list(record["attributes"])
    emit = get_global_func("graph.op_call")

    def operator(*args, **keywords):
        return emit(name, list(args), keywords)

    operator.__name__ = operator.__qualname__ = name.rpartition(".")[2]
    operator.__module__ = __name__
    operator.__text_signature__ = "(" + ", ".join(a["name"] for a in operands + attributes) + ")"
    operator.__doc__ = "\n".join([record["doc"], ""] + [
        f"{a['name']}: {a['type']}" + (f" – {a['doc']}" if a["doc"] else "") for a in operands + attributes])
    return operator


def call_tir(func, args, out_sinfo, tir_vars=()):
    """A call of a tensor program of the module: `func` is its GlobalVar or name, `args` its inputs, `out_sinfo` the type of
    its output, or a list of types; `tir_vars`: values of its scalar parameters."""
    outputs = list(out_sinfo) if isinstance(out_sinfo, (tuple, list)) else [out_sinfo]
    args = list(args) if isinstance(args, (tuple, list)) else [args]
    return get_global_func("graph.call_tir")(getattr(func, "name", func), args, outputs, list(tir_vars))


class _Namespace:
    """Operators with one prefix."""

    def __init__(self, prefix):
        self._prefix = prefix

    def __getattr__(self, name):
        return _find(self._prefix + name)

    def __dir__(self):
        return _names(self._prefix)

    def __repr__(self):
        return f"<operators {self._prefix}*>"


def _names(prefix):
    return sorted({n[len(prefix):].partition(".")[0] for n in _records() if n.startswith(prefix)})


def _find(name):
    if name in _records():
        return _operator(name)
    if any(n.startswith(name + ".") for n in _records()):
        return _Namespace(name + ".")
    import difflib
    near = difflib.get_close_matches(name, _records(), 1)
    raise AttributeError(f"there is no operator {name!r}" + (f": is {near[0]!r} meant?" if near else ""))


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _find(name)


def __dir__():
    return _names("")
