# SPDX-License-Identifier: Apache-2.0
"""Values under ONNX Runtime's names: `OrtValue`, and the names of ONNX's types."""
from . import arrays
from .arguments import listed, need
from .error import UsageError

__all__ = ["OrtValue"]

# Names of Tenon → (ONNX Runtime's, TensorProto's number).
TYPES = {"float32": ("float", 1), "uint8": ("uint8", 2), "int8": ("int8", 3), "uint16": ("uint16", 4),
         "int16": ("int16", 5), "int32": ("int32", 6), "int64": ("int64", 7), "string": ("string", 8),
         "bool": ("bool", 9), "float16": ("float16", 10), "float64": ("double", 11), "uint32": ("uint32", 12),
         "uint64": ("uint64", 13), "bfloat16": ("bfloat16", 16), "float8_e4m3fn": ("float8e4m3fn", 17),
         "float8_e4m3fnuz": ("float8e4m3fnuz", 18), "float8_e5m2": ("float8e5m2", 19),
         "float8_e5m2fnuz": ("float8e5m2fnuz", 20), "uint4": ("uint4", 21), "int4": ("int4", 22),
         "float4_e2m1fn": ("float4e2m1", 23), "float8_e8m0fnu": ("float8e8m0", 24),
         "uint2": ("uint2", 25), "int2": ("int2", 26)}
NAMES = {number: name for name, (_, number) in TYPES.items()}


def type_name(dtype):
    """"tensor(float)" for "float32"."""
    return f"tensor({TYPES[dtype][0] if dtype in TYPES else dtype})"


def dtype_of(element_type):
    """NumPy's data type for one of its own or a number of TensorProto. TypeError, UsageError."""
    import numpy
    if element_type is None:
        raise TypeError("element_type must be a type of NumPy or ONNX's number of it, not None")
    if isinstance(element_type, int) and not isinstance(element_type, bool):
        if element_type not in NAMES or element_type == 8:
            raise UsageError(f"there is no tensor type {element_type}")
        return arrays.numpy_dtype(NAMES[element_type])
    return numpy.dtype(element_type)


def on_cpu(device_type, device_id=0):
    if str(device_type).lower() != "cpu":
        raise UsageError(f"there is no device {device_type!r}: values are in CPU memory")
    if device_id != 0:
        raise UsageError(f"the CPU has the number 0, not {device_id}")


class OrtValue:
    """A tensor in CPU memory (an array of NumPy, not copied), a sequence (list) or a map (dict)."""

    __slots__ = ("_value",)

    def __init__(self, value):
        self._value = value

    @staticmethod
    def ortvalue_from_numpy(numpy_obj, device_type="cpu", device_id=0):
        """Shares the array's memory."""
        on_cpu(device_type, device_id)
        if not arrays.is_array(numpy_obj):
            raise TypeError(f"ortvalue_from_numpy takes an array of NumPy, not {type(numpy_obj).__name__}")
        return OrtValue(numpy_obj)

    @staticmethod
    def ortvalue_from_numpy_with_onnx_type(data, onnx_element_type):
        """The bytes of an array as another type of the same width, such as uint16 as bfloat16 (16)."""
        if not arrays.is_array(data):
            raise TypeError(f"ortvalue_from_numpy_with_onnx_type takes an array of NumPy, not {type(data).__name__}")
        dtype = dtype_of(onnx_element_type)
        if dtype.itemsize != data.dtype.itemsize:
            raise UsageError(f"elements of {data.dtype} cannot be seen as {dtype}: their widths differ")
        return OrtValue(data.view(dtype))

    @staticmethod
    def ortvalue_from_shape_and_type(shape, element_type=1, device_type="cpu", device_id=0):
        """A tensor with memory of its own whose elements are not set; `element_type`: a type of NumPy, or ONNX's
        number of it."""
        import numpy
        on_cpu(device_type, device_id)
        shape = listed(shape, "ortvalue_from_shape_and_type: shape", "a tuple of sizes")
        return OrtValue(numpy.empty(tuple(shape), dtype_of(element_type)))

    @staticmethod
    def from_dlpack(data, is_bool_tensor=False):
        """Shares the memory of anything with DLPack. `is_bool_tensor`: bytes are truth values."""
        import numpy
        if not hasattr(data, "__dlpack__"):
            raise TypeError(f"from_dlpack: data must be something with __dlpack__, not {type(data).__name__}")
        array = numpy.from_dlpack(data)
        if is_bool_tensor and array.dtype.itemsize != 1:
            raise UsageError(f"a tensor of {array.dtype} holds no truth values: they are bytes")
        return OrtValue(array.view(numpy.bool_) if is_bool_tensor else array)

    def numpy(self):
        """The array, without a copy."""
        return self._value

    def __array__(self, dtype=None, copy=None):
        import numpy
        value = numpy.asarray(self._value, dtype)
        return value.copy() if copy else value

    def _tensor(self):
        """The array. UsageError for what is no tensor."""
        if not self.is_tensor():
            raise UsageError(f"the value is {self.data_type()}, no tensor")
        return self._value

    def __dlpack__(self, **keywords):
        return self._tensor().__dlpack__(**keywords)

    def __dlpack_device__(self):
        return 1, 0

    def to_dlpack(self):
        """A DLPack capsule over the array."""
        return self.__dlpack__()

    def _for_run(self):
        return self._value

    def is_tensor(self):
        """Whether it is a tensor."""
        return arrays.is_array(self._value)

    def is_sparse_tensor(self):
        """False: there are none."""
        return False

    def is_tensor_sequence(self):
        """Whether it is a sequence."""
        return isinstance(self._value, list)

    def has_value(self):
        """False for an optional without a value."""
        return self._value is not None

    def shape(self):
        """Sizes, as a list."""
        return list(self._tensor().shape)

    def data_type(self):
        """Its type in ONNX's words: "tensor(float)", "seq(tensor(float))"."""
        if self.is_tensor():
            return type_name(self._value.dtype.name)
        if isinstance(self._value, list):
            first = self._value[0] if self._value else None
            return f"seq({OrtValue(first).data_type()})" if self._value else "seq"
        if isinstance(self._value, dict):
            return "map"
        return "optional" if self._value is None else type(self._value).__name__

    def element_type(self):
        """ONNX's number of the element type: 1 is float32."""
        value = self._value[0] if isinstance(self._value, list) and self._value else self._tensor()
        return TYPES[value.dtype.name][1]

    def data_ptr(self):
        """The address of the first element."""
        return self._tensor().__array_interface__["data"][0]

    def tensor_size_in_bytes(self):
        """Bytes of all elements."""
        return self._tensor().nbytes

    def device_name(self):
        """"cpu"."""
        return "cpu"

    def update_inplace(self, np_arr):
        """Writes an array of the same shape and type over the value."""
        if not arrays.is_array(np_arr):
            raise TypeError(f"update_inplace: np_arr must be an array of NumPy, not {type(np_arr).__name__}")
        if np_arr.shape != self._tensor().shape or np_arr.dtype != self._value.dtype:
            raise UsageError(f"the value is {self._value.dtype}{self.shape()}, "
                             f"{np_arr.dtype}{list(np_arr.shape)} was given")
        self._value[...] = np_arr
