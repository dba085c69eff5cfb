# SPDX-License-Identifier: Apache-2.0
"""Graph functions: their nodes (`graph.Call`), types (`graph.Tensor((n, 64), "float32")`) and the builder.

    bb = graph.BlockBuilder()
    x = graph.var("x", graph.Tensor((n, 64), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            y = bb.emit_output(op.nn.relu(x) + 1.0)
        bb.emit_func_output(y)
    module = bb.get()
"""
from __future__ import annotations

import contextlib

from .arguments import need
from .expr import ScriptFunction
from .ffi import get_global_func
from .object import class_of, namespace

TYPE_CHECKING = False
if TYPE_CHECKING:
    import tenon.ir

_TYPES = ("Tensor", "Shape", "Prim", "Tuple", "Callable", "Ref")


def var(name, type=None):
    """A variable of a type (None: found out later)."""
    return get_global_func("graph.var")(name, type)


def const(value, dtype=None):
    """An array, list or number as a constant. `dtype` of lists and numbers: int64, float32 or bool by their kind without
    it."""
    given = value
    if dtype is not None or not hasattr(value, "dtype"):
        import numpy
        kind = {"i": "int64", "f": "float32"}
        value = numpy.asarray(value)
        if value.dtype.kind not in "biuf":
            raise TypeError(f"graph.const: value must be an array, a list of numbers or a number, not {type(given).__name__}")
        value = numpy.ascontiguousarray(value.astype(str(dtype or kind.get(value.dtype.kind, value.dtype))))
    return class_of("graph.Constant")(value)


class BlockBuilder:
    """Builds a module, function by function. What is emitted is brought into normal form, and its type is inferred at
    once: mistakes are ModelError (T11xx) where they are made."""

    def __init__(self, mod=None):
        module = class_of("ir.IRModule")
        self._module = module() if mod is None else need(mod, module, "BlockBuilder: mod", "an IRModule")
        self._functions = []

    # ---- functions
    @contextlib.contextmanager
    def function(self, name, params=(), attrs=None):
        """A function while the scope lasts, which ends with `emit_func_output`. Whether it is pure follows from what it
        calls; private is one without the attribute "global_symbol"."""
        f = _Function(name, list(params), attrs or {})
        self._functions.append(f)
        try:
            yield
        finally:
            self._functions.pop()
        if f.output is None:
            raise ValueError(f"function `{name}` has no result: call emit_func_output")
        self.update_func(name, f.finish())

    def emit_func_output(self, output, params=None):
        """The result of the function, a value or a tuple or list of values. `params` where `function` had none."""
        f = self._now()
        if f.dataflow:
            raise ValueError("the result of a function is given behind its dataflow regions")
        if params is not None:
            f.params = list(params)
        f.output = self._emit(list(output) if isinstance(output, (tuple, list)) else output, "")

    def add_func(self, func, name):
        """Adds a function and gives its GlobalVar; the name is made unique."""
        unique, n = need(name, str, "add_func: name", "a str"), 0
        while unique in self._module.functions:
            n += 1
            unique = f"{name}_{n}"
        self.update_func(unique, func)
        return class_of("graph.GlobalVar")(unique)

    def update_func(self, name, func):
        """Puts a function under a name (or a GlobalVar)."""
        need(func, (class_of("tir.PrimFunc"), class_of("graph.Function")), "update_func: func", "a PrimFunc or a graph.Function")
        functions = dict(self._module.functions.items())
        functions[need(getattr(name, "name", name), str, "update_func: name", "a str or a GlobalVar")] = func
        self._module = self._module.replace(functions=functions)

    # ---- values
    def emit(self, expr, name_hint=""):
        """Binds a value: an expression, array or number. Gives the variable."""
        return self._emit(expr, name_hint)

    def match_cast(self, value, type, name_hint=""):
        """The value as a type that is checked when the program runs; sizes that are new in it are defined."""
        return self._now().bindings.match_cast(value, type, name_hint)

    def call_te(self, func, *args, name_hint=None, primfunc_name_hint=None, **keywords):
        """A call of the tensor program that `func` says with tensor expressions: graph values among its arguments, also
        in lists, become placeholders. `name_hint` (`primfunc_name_hint`): the name of the program."""
        te_args, inputs, values = [], [], []
        f = self._now()

        def placeholder(x):
            if isinstance(x, (tuple, list)):
                return [placeholder(y) for y in x]
            if not isinstance(x, class_of("graph.Expr")):
                return x
            x = f.bindings.emit(x)
            inputs.append(_placeholder(x, len(inputs)))
            values.append(x)
            return inputs[-1]

        te_args = [placeholder(x) for x in args]
        keywords = {k: placeholder(x) for k, x in keywords.items()}
        made = func(*te_args, **keywords)
        outputs = list(made) if isinstance(made, (tuple, list)) or type(made).__name__ == "Array" else [made]
        program = get_global_func("tir.rename_all")(get_global_func("te.create_prim_func")(inputs + outputs))
        name = self.add_func(program, name_hint or primfunc_name_hint or getattr(func, "__name__", "te").strip("<>")).name
        return get_global_func("graph.call_tir")(name, values, [_type_of(t) for t in outputs])

    def emit_te(self, func, *args, **keywords):
        """`call_te`, bound."""
        return self.emit(self.call_te(func, *args, **keywords))

    def normalize(self, expr):
        """The value in normal form, with its type: its parts are bound."""
        return self._emit(expr, "")

    def lookup_binding(self, var):
        """The value that a variable of this function was bound to, or None."""
        f = self._now()
        f.close(False)
        for block in f.blocks:
            for binding in block.bindings:
                if binding.var is var:
                    return binding.value
        return None

    # ---- dataflow
    @contextlib.contextmanager
    def dataflow(self):
        """A dataflow region; what `emit_output` gives is seen behind it."""
        f = self._now()
        if f.dataflow:
            raise ValueError("a dataflow region stands in another one")
        f.close(False)
        f.dataflow, f.outputs = True, []
        yield
        f.close(True)
        f.dataflow = False

    def emit_output(self, expr, name_hint=""):
        """Binds a value that the dataflow region gives out."""
        f = self._now()
        if not f.dataflow:
            raise ValueError("emit_output stands in a dataflow region")
        made = self._emit(expr, name_hint)
        f.outputs.append(made)
        return made

    # ---- results
    def get(self) -> tenon.ir.IRModule:
        """The module as it is now."""
        return self._module

    def finalize(self) -> tenon.ir.IRModule:
        """The module. ModelError of the verifier."""
        get_global_func("ir.verify")(self._module)
        return self._module

    def _now(self):
        if not self._functions:
            raise ValueError("this stands in a function: with bb.function(name, params):")
        return self._functions[-1]

    def _emit(self, expr, name):
        return self._now().bindings.emit(expr, name)


class _Function:
    """A function that is being built."""

    def __init__(self, name, params, attrs):
        self.name, self.params, self.attrs = name, params, attrs
        self.bindings, self.blocks, self.output = class_of("graph.Bindings")(), [], None
        self.dataflow, self.outputs = False, []

    def close(self, dataflow):
        bindings = self.bindings.take()
        if bindings:
            self.blocks.append(class_of("graph.BindingBlock")(bindings, dataflow, self.outputs if dataflow else []))

    def finish(self):
        self.close(False)
        return get_global_func("graph.function")(self.params, self.blocks, self.output, self.attrs)


def _placeholder(value, number):
    t = value.type
    shape = getattr(t, "shape", None)
    if shape is None or not hasattr(shape, "values"):
        raise TypeError(f"call_te needs tensors of known shape, not {t}")
    name = getattr(value, "name", "") or f"arg{number}"
    return get_global_func("te.placeholder")(shape.values, t.dtype, name)


def _type_of(tensor):
    return Tensor(list(tensor.shape), tensor.dtype)




def Tensor(shape=None, dtype=None, ndim=None):  # noqa: N802
    """The type of tensors: sizes are numbers and expressions."""
    if shape is not None and not hasattr(shape, "__iter__"):
        raise TypeError(f"graph.Tensor: shape must be a tuple or list of sizes, not {type(shape).__name__}")
    words = [(k, v) for k, v in (("shape", shape), ("dtype", dtype), ("ndim", ndim)) if v is not None]
    return ScriptFunction("R.Tensor")(**{k: list(v) if k == "shape" else v for k, v in words})


_named, __dir__ = namespace("graph")


def __getattr__(name):
    return ScriptFunction("R." + name) if name in _TYPES else _named(name)
