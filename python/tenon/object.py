# SPDX-License-Identifier: Apache-2.0
"""Objects of C++ in Python. Classes are made from the records of reflection when one is needed first: an attribute for
each field, a method for each registered function "TYPE.NAME", a property for "TYPE.property.NAME", a constructor from
fields or from "TYPE.new". Objects are shared and do not change; `replace` gives a changed copy.
"""
from __future__ import annotations

import collections.abc
import operator
import sys

from . import _core
from ._core import Array, Map, NDArray, Object
from .ffi import (describe, described, function_info, get_global_func, list_global_func_names, load_compiler,
                  parameters_of)

TYPE_CHECKING = False  # type checkers take it for true
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Array", "Map", "NDArray", "Object", "dtype", "first_difference", "from_json", "structural_equal",
           "structural_hash"]


class dtype(str):
    """A data type by its name: "float32", "int64x8", "bool"."""

    __slots__ = ()


# ---------------------------------------------------------------- classes
def class_of(key):
    """The class of a type key such as "tir.Add"; the compiler's library is loaded when it has the type. KeyError."""
    index = _core.type_index(key)
    if not index and key != "Object":
        load_compiler()
        index = _core.type_index(key)
    if not index and key != "Object":
        raise KeyError(f"there is no type {key!r}")
    return _core.get_class(index)


def namespace(prefix):
    """`__getattr__` and `__dir__` of a module `tenon.PREFIX`: the types "PREFIX.NAME" as classes and the registered
    functions "PREFIX.NAME", each looked up when it is used first."""
    module = sys.modules["tenon." + prefix]

    def get(name):
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{prefix}.{name}"
        try:
            found = class_of(full)
        except KeyError:
            if get_global_func(full, allow_missing=True) is None:
                raise AttributeError(f"module tenon.{prefix} has no {name}") from None
            found = described(full)
        setattr(module, name, found)
        return found

    def names():
        load_compiler()
        types = (_core.type_info(i)[0] for i in _core.type_indices())
        found = [n[len(prefix) + 1:] for n in (*types, *list_global_func_names(prefix + ".")) if n.startswith(prefix + ".")]
        return sorted({*vars(module), *(n for n in found if n.isidentifier())})

    return get, names


def make_class(index):
    """What `_core` calls for a type that it sees first."""
    key, parent, fields = _core.type_info(index)
    base = _core.get_class(parent) if parent != index else Object
    namespace, _, name = key.rpartition(".")
    members = {"__slots__": (), "__module__": "tenon." + namespace if namespace else "tenon",
               "_type_key": key, "_fields": tuple(f[0] for f in fields), "__doc__": _class_doc(key, fields)}
    for i, (field, *_) in enumerate(fields):
        members[field] = _core.Field(index, i)
    members.update(_methods(key))
    members.update(_EXTRA.get(key, {}))
    return type(base)(name, (base,), members)


def _class_doc(key, fields):
    made = function_info(key + ".new")
    names = parameters_of(made[2]) if made and made[2] else [f[0] for f in fields]
    lines = [f"{key}({', '.join(names)})", ""]
    return "\n".join(lines + [f"{name}: {type_}" + (f" – {doc}" if doc else "") for name, doc, type_, _ in fields])


def _methods(key):
    members = {}
    for full in list_global_func_names(key + "."):
        name = full[len(key) + 1:]
        if name == "new":
            members["_make"] = staticmethod(_method(full, _constructor))
        elif name.startswith("property."):
            members[name[9:]] = property(get_global_func(full), doc=function_info(full)[3])
        elif "." not in name:
            members[name] = _method(full, _plain)
    return members


def _plain(function):
    return lambda self, *args, **keywords: function(self, *args, **keywords)


def _constructor(function):
    return lambda cls, *args, **keywords: function(*args, **keywords)


def _method(full, how):
    method = how(get_global_func(full))
    describe(method, full)
    return method


# ---------------------------------------------------------------- what a class has beside its record
def _sizes(shape):
    return _core.shape_dims(shape)


# Sizes as a value of a model: `tenon.Shape((2, 3))`, a sequence of integers.
_SHAPE = {"_make": staticmethod(lambda cls, sizes=(): _core.shape_of(tuple(map(operator.index, sizes)))),
          "__len__": lambda self: len(_sizes(self)), "__getitem__": lambda self, i: _sizes(self)[i],
          "__eq__": lambda self, other: _sizes(self) == (_sizes(other) if isinstance(other, Object) else other),
          "__hash__": lambda self: hash(_sizes(self)), "__repr__": lambda self: f"Shape({_sizes(self)})"}


def _module_html(self):
    from .script.show import module_html
    return module_html(self)


def _svg(self):
    """A drawing of the module as SVG. FileError T0925 without Graphviz."""
    from .script.show import svg
    return svg(self)


def _png(self):
    """A drawing of the module as PNG, bytes. FileError T0925 without Graphviz."""
    from .script.show import png
    return png(self)


def _global_vars(self):
    """The GlobalVar of every function."""
    return [class_of("graph.GlobalVar")(name) for name in self.functions]


def with_attr(self, key, value):
    """The function or module with an attribute more, or with another value of it."""
    return self.replace(attrs={**dict((self.attrs or {}).items()), key: value})


_EXTRA = {"ir.IRModule": {"__getitem__": lambda self, name: self.functions[getattr(name, "name", name)],
                          "__contains__": lambda self, name: getattr(name, "name", name) in self.functions,
                          "get_global_vars": _global_vars, "with_attr": with_attr, "_repr_html_": _module_html,
                          "svg": _svg, "png": _png},
          "graph.Function": {"with_attr": with_attr}, "tir.PrimFunc": {"with_attr": with_attr},
          "Shape": _SHAPE}


def extend(key, **members):
    """Gives the class of a type what its record does not have; called before the class is made."""
    _EXTRA.setdefault(key, {}).update(members)


# ---------------------------------------------------------------- every object
def _new(cls, *args, **fields):
    """What calling a class gives: the one wrapper of the object that is made. Only a class of a user's own is another
    than that of its objects, and has wrappers of its own."""
    if cls._make is None:  # its __init__ does it
        return object.__new__(cls)
    made = cls._make(cls, *args, **fields)
    if "_type_key" in cls.__dict__:
        return made
    self = object.__new__(cls)
    self._init_by(made)
    return self


def _make(cls, *args, **fields):
    """From the values of its fields, by position or by name."""
    names = cls._fields
    if not names:
        raise TypeError(f"{cls.__name__} is not made by hand")
    if len(args) > len(names):
        raise TypeError(f"{cls.__name__} has {len(names)} fields, {len(args)} values were given")
    for name, value in zip(names, args):
        if name in fields:
            raise TypeError(f"{cls.__name__}: `{name}` is given twice")
        fields[name] = value
    return get_global_func("ir.make")(cls._type_key, fields)


def _replace(self, /, **fields):
    """The object with other values of some fields."""
    return get_global_func("ir.replace")(self, fields)


def _to_json(self):
    """JSON text, which `tenon.from_json` reads."""
    return get_global_func("ir.to_json")(self)


def _script(self, inline_elements=16):
    """Script text; constants of more elements are printed by their hash."""
    return get_global_func("ir.script")(self, inline_elements)


def _show(self, style=None):
    """Prints the script text. `style`: "colour" or "plain"; by default colours on terminals and in notebooks."""
    from .script.show import show
    show(self, style)


def _html(self):
    """What notebooks show."""
    from .script.show import coloured_html
    return coloured_html(repr(self))


def _reduce(self):
    return from_json, (self.to_json(),)


for _name, _f in {"__new__": _new, "_make": staticmethod(_make), "replace": _replace, "__replace__": _replace, "to_json": _to_json,
                  "script": _script, "show": _show, "_repr_html_": _html, "__reduce__": _reduce}.items():
    setattr(Object, _name, _f)
Object._type_key = "Object"
Object._fields = ()


def from_json(text: str) -> Any:
    """The object of a text that `to_json` wrote. ModelError T0291."""
    return get_global_func("ir.from_json")(text)


def structural_equal(a: Object, b: Object, map_free: bool = False) -> bool:
    """Equal up to the names of variables; `map_free`: variables free on both sides, the memory of buffers
    among them, may be paired."""
    return get_global_func("ir.structural_equal")(a, b, map_free)


def structural_hash(node: Object, map_free: bool = False) -> int:
    """The same for equal nodes, in every process."""
    return get_global_func("ir.structural_hash")(node, map_free)


def first_difference(a: Object, b: Object, map_free: bool = False) -> str:
    """Path to the first difference of two nodes, or an empty text."""
    return get_global_func("ir.first_difference")(a, b, map_free)


def _is_value(o):
    """Compared by contents: nodes, arrays and maps; all else is the object itself."""
    return bool(o._fields) or isinstance(o, (Array, Map))


def equal(a, b):
    return _is_value(a) and type(a) is type(b) and structural_equal(a, b)


def hash_of(o):
    return structural_hash(o) if _is_value(o) else id(o)


def repr_of(o):
    if o._fields:
        return o.script()
    return f"<{o._type_key}>"


# ---------------------------------------------------------------- containers
def _array_repr(self):
    return repr(list(self))


def _count(self, value):
    """How often a value is in the array."""
    return sum(1 for item in self if item is value or item == value)


def _index(self, value, start=0, stop=None):
    """The first place of a value from `start` to `stop`. ValueError when it is not there."""
    for i in range(*slice(start, stop).indices(len(self))):
        if self[i] is value or self[i] == value:
            return i
    raise ValueError(f"{value!r} is not in the array")


Array.count, Array.index, Array.__repr__ = _count, _index, _array_repr
Array.__reversed__ = lambda self: reversed(list(self))


def _keys(self):
    """The keys, as of a dict."""
    return collections.abc.KeysView(self)


def _values(self):
    """The values, as of a dict."""
    return collections.abc.ValuesView(self)


def _items(self):
    """Pairs of key and value, as of a dict."""
    return collections.abc.ItemsView(self)


Map.keys, Map.values, Map.items = _keys, _values, _items
Map.get = collections.abc.Mapping.get
Map.__repr__ = lambda self: repr(dict(self))
def _numpy(self):
    """The tensor as an array of NumPy over the same memory; integers of fewer than 8 bits are unpacked."""
    from .arrays import numpy_of
    return numpy_of(self)


def _array(self, dtype=None, copy=None):
    import numpy
    array = numpy.asarray(_numpy(self), dtype)
    return array.copy() if copy else array


NDArray.numpy, NDArray.__array__ = _numpy, _array
NDArray.__repr__ = lambda self: f"<NDArray {self.dtype}{list(self.shape)}>"
for _own in (Array, Map, NDArray, _core.Function):
    _own._type_key = _own.__name__
    _own._fields = ()
    _own._make = None
collections.abc.Sequence.register(Array)
collections.abc.Mapping.register(Map)
