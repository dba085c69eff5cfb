# SPDX-License-Identifier: Apache-2.0
"""The C interface of libtenon_runtime for the benchmark: ctypes, NumPy in and out, no copies."""
import ctypes
import pathlib

import numpy as np


# By code and bits of DLPack's data type; bf16 as its bits.
_NUMPY = {(0, 32): np.int32, (0, 64): np.int64, (1, 8): np.uint8, (2, 16): np.float16, (2, 32): np.float32, (2, 64): np.float64, (4, 16): np.uint16, (6, 8): np.bool_}


class _DType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Error(ctypes.Structure):
    _fields_ = [(n, ctypes.c_char_p) for n in ("code", "message", "location", "hint")]


class _ValueInfo(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", _DType), ("ndim", ctypes.c_int32),
                ("dims", ctypes.POINTER(ctypes.c_int64)), ("symbols", ctypes.POINTER(ctypes.c_char_p))]


class Runtime:
    def __init__(self, path):
        self.lib = ctypes.CDLL(str(path))
        self.lib.tenon_last_error.restype = ctypes.POINTER(_Error)
        self.lib.tenon_dtype.restype = _DType
        self.lib.tenon_dtype.argtypes = [ctypes.c_char_p]
        for name in ("tenon_session_set_input_data", "tenon_session_set_output_data"):
            getattr(self.lib, name).argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p, _DType, ctypes.c_int32, ctypes.POINTER(ctypes.c_int64)]
        for name in ("tenon_session_run", "tenon_session_release", "tenon_artifact_release"):
            getattr(self.lib, name).argtypes = [ctypes.c_void_p]
        self.lib.tenon_session_set_threads.argtypes = [ctypes.c_void_p, ctypes.c_int32]
        self.lib.tenon_artifact_num_outputs.argtypes = [ctypes.c_void_p]
        self.lib.tenon_artifact_output.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.POINTER(_ValueInfo)]

    def check(self, status):
        if status:
            e = self.lib.tenon_last_error().contents
            raise RuntimeError(f"{e.code.decode()}: {e.message.decode()} {e.location.decode()}")


class Session:
    """One session with fixed inputs; outputs are this object's own arrays, but for those of symbolic size."""

    def __init__(self, runtime: Runtime, artifact: pathlib.Path, inputs, threads, types=None):
        """`types` names those of inputs that NumPy lacks (bfloat16 as uint16)."""
        self.runtime, lib = runtime, runtime.lib
        model, session = ctypes.c_void_p(), ctypes.c_void_p()
        runtime.check(lib.tenon_artifact_load(str(artifact).encode(), 0, ctypes.byref(model)))
        runtime.check(lib.tenon_session_create(model, None, ctypes.byref(session)))
        runtime.check(lib.tenon_session_set_threads(session, threads))
        self.session, self.inputs, self.outputs = session, inputs, []
        for i, array in enumerate(inputs):
            self._bind(lib.tenon_session_set_input_data, i, array, types[i] if types else array.dtype.name)
        for i in range(lib.tenon_artifact_num_outputs(model)):
            info = _ValueInfo()
            runtime.check(lib.tenon_artifact_output(model, i, ctypes.byref(info)))
            shape = [info.dims[d] for d in range(info.ndim)]
            if any(d < 0 for d in shape):
                continue
            self.outputs.append(np.zeros(shape, _NUMPY[info.dtype.code, info.dtype.bits]))
            name = "bfloat16" if info.dtype.code == 4 else self.outputs[-1].dtype.name
            self._bind(lib.tenon_session_set_output_data, i, self.outputs[-1], name)
        lib.tenon_artifact_release(model)

    def _bind(self, function, index, array, name):
        shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        dtype = self.runtime.lib.tenon_dtype(name.encode())
        self.runtime.check(function(self.session, index, array.ctypes.data, dtype, array.ndim, shape))

    def run(self):
        self.runtime.check(self.runtime.lib.tenon_session_run(self.session))
        return self.outputs

    def close(self):
        """The arrays stay; the session goes."""
        self.runtime.lib.tenon_session_release(self.session)
