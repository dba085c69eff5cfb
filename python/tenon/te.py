# SPDX-License-Identifier: Apache-2.0
"""Tensor expressions: what each element is, before any loop (docs/te.md).

    A, B = te.placeholder((n, 64), name="A"), te.placeholder((64, m), name="B")
    k = te.reduce_axis((0, 64), name="k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
"""
from __future__ import annotations

import inspect

from .arguments import listed, need_callable
from .expr import is_word
from .ffi import get_global_func
from .object import class_of, extend, namespace
from .tir import all, any, const  # noqa: A004

__all__ = ["Schedule", "Stage", "Tensor", "all", "any", "build", "comm_reducer", "compute", "const", "create_prim_func", "create_schedule", "extern",
           "lower", "max", "min", "placeholder", "prod", "reduce_axis", "scan", "size_var", "sum", "thread_axis", "var"]


TYPE_CHECKING = False
if TYPE_CHECKING:
    import tenon

_TENSORS = "a list of tensors"


def _call(name, *args):
    return get_global_func("te." + name)(*args)


def placeholder(shape, dtype="float32", name="placeholder"):
    """A tensor that is given: `shape` of ints or expressions."""
    return _call("placeholder", _shape(shape), dtype, name)


def compute(shape, fcompute, name="compute", tag="", attrs=None):
    """The tensor whose element at (i, j, …) is `fcompute(i, j, …)`, an expression or number; a tuple or list of them
    gives as many tensors. A parameter `*i` takes all variables. ArgumentError when `fcompute` takes another number of
    them."""
    shape = _shape(shape)
    need_callable(fcompute, "te.compute: fcompute")
    try:
        inspect.signature(fcompute).bind(*shape)
    except TypeError:
        raise TypeError(f"{name}: fcompute must take {len(shape)} variables, one for each dimension") from None
    return _call("compute", shape, fcompute, name, tag, attrs or {})


def reduce_axis(dom, name="k"):
    """An iterator of reductions over (begin, end), or over a tir.Range."""
    if not hasattr(dom, "extent") and not (isinstance(dom, (tuple, list)) and len(dom) == 2):
        raise TypeError(f"te.reduce_axis: dom must be a pair (begin, end) or a tir.Range, not {dom!r}")
    begin, end = (dom.min, dom.min + dom.extent) if hasattr(dom, "extent") else dom
    return _call("reduce_axis", begin, end, name)


def thread_axis(dom=None, tag=""):
    """A thread to bind loops to: `thread_axis("threadIdx.x")` or with its extent, `thread_axis(32, "threadIdx.x")`."""
    if isinstance(dom, str):
        dom, tag = None, dom
    if isinstance(dom, (tuple, list)):
        begin, dom = dom
        if begin != 0:
            raise ValueError("threads are counted from 0")
    return _call("thread_axis", tag, dom)


def var(name="n", dtype="int64"):
    """A variable."""
    return class_of("tir.Var")(name=name, dtype=dtype)


size_var = var


def _reduction(kind, words):
    def reduction(expr, axis, where=None):
        return _call("reduction", kind, expr, axis, where)

    reduction.__name__ = reduction.__qualname__ = kind
    reduction.__doc__ = f"{words} of an expression over one axis or several, where the condition holds."
    return reduction


sum, prod, max, min = (_reduction(kind, words) for kind, words in (  # noqa: A001
    ("sum", "Sum"), ("prod", "Product"), ("max", "Greatest value"), ("min", "Least value")))


def comm_reducer(fcombine, fidentity, name="reduce"):
    """A reducer of your own: `fcombine(x, y)` is associative and commutative, `fidentity(dtype, …)` neutral for it. Of
    tuples, x and y are tuples, and the reducer gives a list."""

    need_callable(fcombine, "te.comm_reducer: fcombine")
    need_callable(fidentity, "te.comm_reducer: fidentity")

    def combine(x, y):
        return fcombine(*x, *y) if len(x) == 1 else fcombine(tuple(x), tuple(y))

    def reducer(expr, axis, where=None):
        many = isinstance(expr, (tuple, list))
        made = _call("reduce", list(expr) if many else [expr], combine, fidentity, axis, where)
        return list(made) if many else made[0]

    reducer.__name__ = reducer.__qualname__ = name
    return reducer


def scan(init, update, state_placeholder, inputs=None, name="scan", tag=""):
    """Steps along dimension 0: `init` gives the first rows, `update` one more from rows of the state before it.
    `inputs` follow from `update`."""
    return _call("scan", init, update, state_placeholder, name, tag)


def extern(shape, inputs, fcompute, name="extern", dtype="float32"):
    """Tensors made by hand: `fcompute(input buffers, output buffers)` gives a statement, or an expression for its
    effect. A text instead names a registered function that stores the results."""
    shapes = list(shape) if shape and isinstance(shape[0], (tuple, list)) else [shape]
    dtypes = list(dtype) if isinstance(dtype, (tuple, list)) else [dtype] * len(shapes)
    if not isinstance(fcompute, str):
        need_callable(fcompute, "te.extern: fcompute")
    how = "external_packed" if isinstance(fcompute, str) else "external"
    return _call(how, [_shape(s) for s in shapes], listed(inputs, "te.extern: inputs", _TENSORS), fcompute, name, dtypes)


def create_prim_func(ops, symbolic=()):
    """The PrimFunc of tensors: inputs, then outputs. `symbolic`: variables that no shape of an argument names alone."""
    return _call("create_prim_func", listed(ops, "te.create_prim_func: ops", _TENSORS), list(symbolic))


def create_schedule(ops):
    """A schedule of operations, or of their tensors; `s[C]` is the stage of C."""
    return _call("create_schedule", ops)


def lower(sch, args, name="main", symbolic=()):
    """The scheduled program as function `name` of an IRModule."""
    return _call("lower", sch, listed(args, "te.lower: args", _TENSORS), name, list(symbolic))


def build(inputs, args=None, target=None, name="main") -> tenon.Executable:
    """What `tenon.compile` makes of a schedule and its arguments, of a PrimFunc or of an IRModule."""
    from .executable import compile
    return compile(lower(inputs, args, name) if args is not None else inputs, target)


def _shape(shape):
    return list(shape) if isinstance(shape, (tuple, list)) or hasattr(shape, "__len__") else [shape]


def _several(name):
    """`fuse(a, b)` and `fuse([a, b])` are the same."""
    def call(self, *axes):
        return _call("Stage." + name, self, list(axes[0] if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = "Of axes, or of a list of them."
    return call


extend("te.Stage", fuse=_several("fuse"), reorder=_several("reorder"))
extend("te.Tensor", __call__=lambda self, *indices: self[indices])
extend("te.Tensor", ndim=property(lambda self: len(self.shape), doc="The number of dimensions."))
_named, __dir__ = namespace("te")


def __getattr__(name):
    """`te.exp(x)`: the functions of expressions are those of `tenon.tir`."""
    try:
        return _named(name)
    except AttributeError:
        if not is_word(name):
            raise
    from . import tir
    return getattr(tir, name)
