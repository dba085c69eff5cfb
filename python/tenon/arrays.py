# SPDX-License-Identifier: Apache-2.0
"""Arrays of Python for compiled models and back. NumPy is imported when it is needed first, `ml_dtypes` for the data
types that NumPy has not: bfloat16, the float8 kinds, float4_e2m1fn, int4, uint4, int2, uint2."""
import operator
import sys

from . import _core
from .ffi import get_global_func

_FOREIGN = {"bfloat16": "bfloat16", "float8_e4m3fn": "float8_e4m3fn", "float8_e5m2": "float8_e5m2",
            "float8_e4m3fnuz": "float8_e4m3fnuz", "float8_e5m2fnuz": "float8_e5m2fnuz", "int4": "int4",
            "uint4": "uint4", "int2": "int2", "uint2": "uint2", "float4_e2m1fn": "float4_e2m1fn",
            "float8_e8m0fnu": "float8_e8m0fnu"}
_PACKED = {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2, "float4_e2m1fn": 4}


def numpy_dtype(name):
    """NumPy's data type for a name such as "float32" or "bfloat16". ImportError without `ml_dtypes` for its own."""
    import numpy
    if name not in _FOREIGN:
        return numpy.dtype(name)
    try:
        import ml_dtypes
    except ImportError:
        raise ImportError(f"{name} needs the package ml_dtypes: NumPy has no such type") from None
    return numpy.dtype(getattr(ml_dtypes, _FOREIGN[name]))


def prepare(value, name, dtype):
    """What `_core` can read: (array, name of its data type, shape when it differs). A view where strides and alignment
    allow, a copy where not. Lists and numbers take `dtype`, the data type of the input `name`."""
    import numpy
    if hasattr(value, "_for_run"):  # OrtValue
        value = value._for_run()
    if not isinstance(value, (numpy.ndarray, numpy.generic)):
        if not isinstance(value, (list, tuple, int, float)):
            return _of_other(value, name)
        try:
            value = numpy.asarray(value, numpy_dtype(dtype) if dtype else None)
        except (TypeError, ValueError, OverflowError) as e:
            raise TypeError(f"input {name!r}: {e}") from None
    array = numpy.asarray(value)
    if array.dtype.name in _FOREIGN:
        return _carried(numpy.ascontiguousarray(array).reshape(array.shape), array.dtype.name)
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise TypeError(f"input {name!r}: an array of {array.dtype} cannot be given to a model")
    array = numpy.require(array, array.dtype.newbyteorder("="), ["C", "A"])
    return array, array.dtype.name, None


def _of_other(value, name):
    """Something with DLPack or a buffer, or none of them."""
    import numpy
    if hasattr(value, "__dlpack__"):
        if value.__dlpack_device__()[0] != 1:
            raise ValueError(f"input {name!r} is not in CPU memory: copy it to the CPU first")
        try:
            tensor = _core.NDArray(value)
        except (BufferError, ValueError):  # gaps between its elements
            return prepare(numpy.array(numpy.from_dlpack(value)), name, None)
        return tensor, str(tensor.dtype), None
    if hasattr(value, "__array__") or hasattr(value, "__array_interface__"):
        return prepare(numpy.asarray(value), name, None)
    try:
        return prepare(numpy.asarray(memoryview(value)), name, None)
    except TypeError:
        raise TypeError(f"input {name!r} must be an array (NumPy, DLPack, a buffer, a list of numbers), not "
                        f"{type(value).__name__}") from None


def _carried(array, dtype):
    """An array of a type that only `ml_dtypes` has, as unsigned integers; several to a byte where models pack them."""
    import numpy
    if dtype not in _PACKED:
        return array.view(f"uint{8 * array.dtype.itemsize}"), dtype, None
    bits = _PACKED[dtype]
    count = 8 // bits
    codes = array.view(numpy.uint8) if dtype[0] == "f" else array.astype(numpy.int8).view(numpy.uint8)
    flat = codes.reshape(-1) & (2**bits - 1)
    flat = numpy.append(flat, numpy.zeros(-flat.size % count, numpy.uint8)).reshape(-1, count)
    packed = numpy.zeros(len(flat), numpy.uint8)
    for i in range(count):
        packed |= flat[:, i] << (bits * i)
    return packed, dtype, array.shape


def result(tensor, dtype):
    """An array of NumPy over a tensor's memory (NDArray); sub-byte integers are unpacked into a copy."""
    import numpy
    if dtype not in _FOREIGN:
        return numpy.asarray(tensor)
    if dtype not in _PACKED:
        return numpy.asarray(tensor._carrier()).view(numpy_dtype(dtype))
    bits, shape = _PACKED[dtype], tensor.shape
    size = int(numpy.prod(shape, dtype=numpy.int64))
    packed = numpy.asarray(tensor._carrier())
    parts = numpy.stack([(packed >> (bits * i)) & (2**bits - 1) for i in range(8 // bits)], -1).reshape(-1)[:size]
    if dtype[0] == "f":
        return parts.view(numpy_dtype(dtype)).reshape(shape)
    if dtype[0] == "i":
        parts = ((parts.astype(numpy.int8) ^ 2**(bits - 1)) - 2**(bits - 1)).astype(numpy.int8)
    return parts.astype(numpy_dtype(dtype)).reshape(shape)


def to_value(value, name="argument", dtype="", kind=""):
    """A value for a model that takes more than tensors: an array as a tensor, a list or tuple as a list, a dict, a text, a
    number, None. `dtype`: of an input that is a tensor. `kind`: of one that is no tensor of numbers, as the model says it."""
    if hasattr(value, "_for_run"):  # OrtValue
        value = value._for_run()
    if kind:
        return _of_kind(value, name, kind)
    if not dtype:
        if isinstance(value, (list, tuple)):
            return [to_value(v, name) for v in value]
        if isinstance(value, dict):
            return {key: to_value(v, name) for key, v in value.items()}
        if value is None or isinstance(value, (str, bytes, bool, int, float, _core.Object)):
            return value
        if getattr(getattr(value, "dtype", None), "kind", "") in ("U", "S", "O", "T"):
            return _texts(value, name)
    return to_tensor(value, name, dtype)


def to_tensor(value, name, dtype=None):
    """An array, a list or a number as a tensor. TypeError."""
    array, dtype, shape = prepare(value, name, dtype)
    return _core.NDArray(array)._of(dtype, tuple(array.shape if shape is None else shape))


def _of_kind(value, name, kind):
    """What a model calls "tensor(string)", "sequence(…)", "optional(…)" or "map(KEY, …)". TypeError."""
    what, _, inner = kind.rstrip()[:-1].partition("(")
    if what == "tensor":
        made = _texts(value, name) if inner == "string" else to_value(value, name, inner)
        if inner != "string" and made.dtype != inner:
            raise TypeError(f"input {name!r} must be of {inner}, not of {made.dtype}")
        return made
    if what == "optional":
        return None if value is None else _of_kind(value, name, inner)
    if what == "sequence":
        if not isinstance(value, (list, tuple)):
            raise TypeError(f"input {name!r} must be a list, as it is a {kind}, not {type(value).__name__}")
        return [_of_kind(v, name, inner) for v in value]
    if not isinstance(value, dict):
        raise TypeError(f"input {name!r} must be a dict, as it is a {kind}, not {type(value).__name__}")
    of_key, _, _ = inner.partition(", ")
    key_type = str if of_key == "string" else int
    keys = {key: operator.index(key) if key_type is int and hasattr(key, "__index__") else key for key in value}
    wrong = [key for key in keys.values() if not isinstance(key, key_type)]
    if wrong:
        raise TypeError(f"input {name!r}: the keys of a {kind} are {key_type.__name__}, not {type(wrong[0]).__name__}")
    return {keys[key]: to_value(v, name) for key, v in value.items()}


def _texts(value, name):
    """A tensor of strings of an array or list of them. TypeError."""
    import numpy
    try:
        array = numpy.asarray(value, object)
    except ValueError as e:
        raise TypeError(f"input {name!r}: {e}") from None
    texts = array.reshape(-1).tolist()
    other = [v for v in texts if not isinstance(v, (str, bytes))]
    if other:
        raise TypeError(f"input {name!r} must be an array or list of strings, not of {type(other[0]).__name__}")
    try:  # results hold bytes that are no UTF-8 as lone surrogates
        texts = [v if isinstance(v, bytes) or v.isascii() else v.encode("utf8", "surrogateescape") for v in texts]
    except UnicodeEncodeError as e:
        raise TypeError(f"input {name!r}: {e}") from None
    return get_global_func("tenon.string.tensor")(list(array.shape), texts)


def numpy_of(value):
    """A value of a model as people take it: tensors as arrays of NumPy, sequences as lists, maps as dicts."""
    if isinstance(value, _core.NDArray):
        return result(value, str(value.dtype))
    if isinstance(value, _core.Array):
        return [numpy_of(v) for v in value]
    if isinstance(value, _core.Map):
        return {k: numpy_of(v) for k, v in value.items()}
    if getattr(value, "_type_key", None) == "Sequence":
        return [numpy_of(v) for v in get_global_func("tenon.sequence.items")(value)]
    if getattr(value, "_type_key", None) == "StringTensor":
        import numpy
        array = numpy.empty(tuple(get_global_func("tenon.string.shape")(value) or ()), object)
        array.reshape(-1)[:] = list(get_global_func("tenon.string.texts")(value) or ())
        return array
    if getattr(value, "_type_key", None) == "Shape":
        import numpy
        return numpy.array(tuple(value), numpy.int64)
    return value


def is_array(value):
    """Whether this is an array of NumPy, without importing it."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)
