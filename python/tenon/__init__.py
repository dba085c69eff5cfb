# SPDX-License-Identifier: Apache-2.0
"""Tenon: a deep-learning compiler. Importing it loads the runtime only; the compiler comes with the first need."""
from . import _core
from .error import *
from .ffi import *
from . import error, ffi, object  # noqa: A004
from .executable import *
from .object import *
from .object import dtype

TYPE_CHECKING = False
__version__ = _core.version

# What few programs need is imported when it is asked for: name → module.
_LATER = {**dict.fromkeys(("attrs", "dpl", "graph", "ir", "onnx", "onnx_backend", "op", "script", "target", "te", "tir", "transform")),
          "GraphExecutor": "virtual_machine", "VirtualMachine": "virtual_machine",
          "VMInstrumentReturnKind": "virtual_machine", "IRModule": "ir", "build": "te", "lower": "te",
          "QuantizedModel": "quantization", "quantize": "quantization", "LintProblem": "linting", "lint": "linting",
          "ExtractedKernel": "extraction", "extract": "extraction",
          "OrtValue": "ort_value", "parse": "script", "rewrite": "walk", "visit": "walk",
          **dict.fromkeys(("ExecutionMode", "GraphOptimizationLevel", "RunOptions", "SessionOptions"),
                          "session_options"),
          **dict.fromkeys(("Fail", "IOBinding", "InferenceSession", "InvalidArgument", "InvalidGraph",
                           "InvalidProtobuf", "ModelMetadata", "NoSuchFile", "NodeArg", "NotImplemented",
                           "RuntimeException", "get_all_providers", "get_available_providers", "get_device",
                           "set_default_logger_severity", "set_default_logger_verbosity", "set_seed"), "session")}


if TYPE_CHECKING:  # what `__getattr__` hides from editors and checkers of types
    from typing import Any

    from . import attrs as attrs, dpl as dpl, graph as graph, ir as ir, onnx as onnx, op as op, script as script, target as target
    from . import te as te, tir as tir, transform as transform
    from .extraction import ExtractedKernel as ExtractedKernel, extract as extract
    from .ir import IRModule as IRModule
    from .linting import LintProblem as LintProblem, lint as lint
    from .ort_value import OrtValue as OrtValue
    from .quantization import QuantizedModel as QuantizedModel, quantize as quantize
    from .session import (Fail as Fail, IOBinding as IOBinding, InferenceSession as InferenceSession,
                          InvalidArgument as InvalidArgument, InvalidGraph as InvalidGraph, InvalidProtobuf as InvalidProtobuf,
                          ModelMetadata as ModelMetadata, NoSuchFile as NoSuchFile, NodeArg as NodeArg,
                          NotImplemented as NotImplemented, RuntimeException as RuntimeException,
                          get_all_providers as get_all_providers, get_available_providers as get_available_providers,
                          get_device as get_device, set_default_logger_severity as set_default_logger_severity,
                          set_default_logger_verbosity as set_default_logger_verbosity, set_seed as set_seed)
    from .te import build as build, lower as lower
    from .virtual_machine import (GraphExecutor as GraphExecutor, VMInstrumentReturnKind as VMInstrumentReturnKind,
                                  VirtualMachine as VirtualMachine)
    from .session_options import (ExecutionMode as ExecutionMode, GraphOptimizationLevel as GraphOptimizationLevel,
                                  RunOptions as RunOptions, SessionOptions as SessionOptions)
    from .walk import rewrite as rewrite, visit as visit


def __getattr__(name: "str") -> "Any":
    if name == "Shape":
        return object.class_of(name)
    if name not in _LATER:
        raise AttributeError(f"module tenon has no {name}")
    import importlib
    module = importlib.import_module("tenon." + (_LATER[name] or name))
    if not _LATER[name]:
        return module
    value = globals()[name] = getattr(module, name)
    return value


def __dir__():
    return sorted({*globals(), *_LATER})


_core.setup(dtype=dtype, make_class=object.make_class, make_error=error.make_error, equal=object.equal,
            hash=object.hash_of, repr=object.repr_of, bind=ffi.bind, to_tensor=lambda value: value)
