# SPDX-License-Identifier: Apache-2.0
"""`InferenceSession` in ONNX Runtime's shape: models compiled when the session is made.

    session = tenon.InferenceSession("model.onnx")
    outputs = session.run(None, {"x": x})
"""
from __future__ import annotations

import itertools
import json
import logging
import os
import re
import threading
import time
import warnings

from . import _core, arrays, error, executable
from .arguments import listed, need, need_callable
from .ort_value import OrtValue, on_cpu, dtype_of, type_name
from .session_options import GraphOptimizationLevel, RunOptions, SessionOptions, no_effect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["Fail", "IOBinding", "InferenceSession", "InvalidArgument", "InvalidGraph", "InvalidProtobuf",
           "ModelMetadata", "NoSuchFile", "NodeArg", "NotImplemented", "RuntimeException", "get_all_providers",
           "get_available_providers", "get_device", "set_default_logger_severity", "set_default_logger_verbosity",
           "set_seed"]

_log = logging.getLogger("tenon")
_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)


# ---------------------------------------------------------------- exceptions
class Fail(error.Error):
    """What has no class of its own."""


class InvalidArgument(error.UsageError):
    """An input that the model does not take: its name, type, shape or memory."""


class NoSuchFile(error.FileError):
    """The model cannot be read."""


class InvalidProtobuf(error.ModelError):
    """The bytes are no model."""


class InvalidGraph(error.ModelError):
    """The model contradicts itself or its operators."""


class NotImplemented(error.ModelError, NotImplementedError):  # noqa: A001
    """An operator or type of the model is not supported."""


class RuntimeException(error.Error, RuntimeError):
    """The run failed."""


def _class_of(kind, code):
    if code == "T3001":
        return NoSuchFile
    if code in ("T2001", "T2002", "T2003", "T2004", "T2005"):
        return InvalidProtobuf
    if code.startswith("T20"):
        return InvalidGraph
    if code.startswith("T21"):
        return NotImplemented
    if kind == 2:
        return InvalidArgument
    return Fail if kind == 130 else RuntimeException


def _make_error(kind, code, message, location, hint, text, passed):
    made = _class_of(kind, code)(text)
    made.code, made.message, made.location, made.hint, made.passed = code, message, location, hint, passed
    return made


def _translated(e):
    kinds = {error.UsageError: 2, error.ModelError: 3, error.LimitError: 4, error.FileError: 5,
             error.Interrupted: 130}
    kind = next((k for c, k in kinds.items() if isinstance(e, c)), 70)
    return _make_error(kind, e.code, e.message, e.location, e.hint, str(e), e.passed)


# ---------------------------------------------------------------- what a session says about itself
class NodeArg:
    """An input or output: `name`, `type` such as "tensor(float)" or "seq(tensor(float))", `shape`: sizes, names of symbolic
    ones, None."""

    name: str
    type: str
    shape: list[int | str | None] | None

    def __init__(self, name, dtype, shape, kind="", invented=()):
        self.name, self.type = name, _type_of_kind(kind) if kind else type_name(dtype) if dtype else ""
        # What the model leaves without a name has one that the compiler made.
        invented = {"", *(f"{name}_d{i}" for i in range(len(shape or ()))), *invented}
        self.shape = None if shape is None else [None if d in invented else d for d in shape]

    def __repr__(self):
        return f"NodeArg(name={self.name!r}, type={self.type!r}, shape={self.shape})"


def _type_of_kind(kind):
    """"seq(tensor(float))" for what is no tensor, as the artifact says it: "sequence(tensor(float32))"."""
    named = re.sub(r"tensor\((\w+)\)", lambda found: type_name(found[1]), kind)
    return named.replace("sequence(", "seq(").replace(", ", ",")


class ModelMetadata:
    """producer_name, graph_name, domain, description, graph_description, version, custom_metadata_map."""

    def __init__(self, facts):
        self.producer_name = facts.get("producer_name", "")
        self.graph_name = facts.get("graph", "")
        self.domain = facts.get("domain", "")
        self.description, self.graph_description = facts.get("description", ""), facts.get("graph_description", "")
        self.version = facts.get("model_version", 0)
        self.custom_metadata_map = dict(facts.get("metadata") or {})


def get_available_providers():
    """The one provider, ["CPUExecutionProvider"]."""
    return ["CPUExecutionProvider"]


get_all_providers = get_available_providers


def get_device():
    """"CPU"."""
    return "CPU"


def set_default_logger_severity(severity):
    """0 (everything) to 4 (only what ends the process), of the logger "tenon"."""
    if not 0 <= need(severity, int, "set_default_logger_severity: severity", "an int") < len(_LEVELS):
        raise ValueError(f"set_default_logger_severity: severity is 0 to {len(_LEVELS) - 1}, not {severity}")
    _log.setLevel(_LEVELS[severity])


def set_default_logger_verbosity(verbosity):
    """No effect; warns."""
    no_effect("set_default_logger_verbosity")


def set_seed(seed):
    """No effect; warns: random operators take their seed from the model."""
    no_effect("set_seed: random operators take their seed from the model;")


def _checked_providers(providers, options):
    """The names that are there; a warning for each that is not."""
    if providers is not None:
        providers = listed(providers, "providers", "a list of names of providers")
    if options is not None:
        options = listed(options, "provider_options", "a list of dicts")
    if options is not None and (providers is None or len(options) != len(providers)):
        raise ValueError("'providers' and 'provider_options' must have the same length")
    for i, provider in enumerate(providers or ()):
        if isinstance(provider, tuple) and len(provider) == 2:
            provider, given = provider
        else:
            given = options[i] if options else {}
        if not isinstance(provider, str):
            raise ValueError(f"a provider is a name or a pair of a name and a dict, not {provider!r}")
        if provider not in get_available_providers():
            warnings.warn(f"Specified provider {provider!r} is not in available provider names. Available providers: "
                          "'CPUExecutionProvider'", UserWarning, stacklevel=4)
        elif given:
            no_effect(f"options of {provider}")
    return get_available_providers()


# ---------------------------------------------------------------- the session
class InferenceSession(_core.Session):
    """A model that runs. Several threads may call `run` at once.

    path_or_bytes: path of an ONNX file, of script text or of an artifact; the bytes of a model; an onnx.ModelProto.
    Errors: NoSuchFile, InvalidProtobuf, InvalidGraph, NotImplemented for the model, InvalidArgument for inputs.
    """

    _make_error = staticmethod(_make_error)
    _prepare = staticmethod(arrays.prepare)
    _result = staticmethod(arrays.result)
    _numpy_dtype = staticmethod(arrays.numpy_dtype)
    _to_value = staticmethod(arrays.to_value)
    _from_value = staticmethod(arrays.numpy_of)

    _free = ()  # initializers that are inputs of this session

    def __init__(self, path_or_bytes: Any, sess_options: SessionOptions | None = None, providers: Sequence[Any] | None = None,
                 provider_options: Sequence[dict[str, Any]] | None = None, **kwargs: Any) -> None:
        options = sess_options if sess_options is not None else SessionOptions()
        if not isinstance(options, SessionOptions):
            raise TypeError(f"sess_options must be SessionOptions, not {type(options).__name__}")
        for name in kwargs:
            if name not in ("disabled_optimizers", "enable_fallback", "read_config_from_model"):
                raise TypeError(f"InferenceSession takes no argument {name!r}")
            no_effect(f"the argument {name}")
        self._providers = _checked_providers(providers, provider_options)
        self._lock, self._overridden = threading.Lock(), {}  # names of initializers → _Overriding
        self._made_from = (path_or_bytes, options, providers, provider_options)
        self._options = options
        limit = options._memory_limit()
        super().__init__(self._artifact(path_or_bytes), max(0, options.intra_op_num_threads), limit,
                         bool(options.enable_profiling))
        self._profile_start = time.time_ns()
        self._facts = None

    def _artifact(self, model):
        entries, o = self._options._entries, self._options
        try:
            content = executable.content_of(model)
            if content is None and _is_artifact(model):
                return model
            if self._free:
                model = executable.load_module(model, dims=o._dims, overridden=self._free)
            level = min(int(o.graph_optimization_level), 2)
            return executable.compile(model, target=entries.get("tenon.target"), opt_level=level,
                                      dims={} if self._free else o._dims, precision=entries.get("tenon.precision", "f32"),
                                      cache=entries.get("tenon.cache", True),
                                      memory_limit=o._memory_limit(),
                                      note=self._note)._artifact
        except error.Error as e:
            raise _translated(e) from None

    def _note(self, text):
        if 0 <= self._options.log_severity_level <= 1:
            _log.warning(text)
        else:
            _log.info(text)

    def __reduce__(self):
        path_or_bytes, options, providers, provider_options = self._made_from
        return InferenceSession, (path_or_bytes, options, providers, provider_options)

    # Wrong names, called by the extension.
    def _wrong_feed(self, feed, given):
        names = [i[0] for i in self.inputs]
        missing = [n for n in names if n not in feed]
        if missing:
            raise ValueError(f"Required inputs ({missing}) are missing from input feed ({list(feed)}).")
        unknown = [n for n in feed if n not in names]
        if unknown and {v.name for v in self.get_overridable_initializers()}.issuperset(unknown):
            return self._overriding(frozenset(unknown))
        raise _make_error(2, "T0503", "", "", "", f"T0503: Invalid input name: {', '.join(map(str, unknown))}; the inputs "
                          f"are: {', '.join(names)}", "")

    def _overriding(self, names):
        """The session of the model with these initializers as inputs, made when they are given first."""
        with self._lock:
            if names not in self._overridden:
                self._overridden[names] = _Overriding(self, names)
            return self._overridden[names]

    def _no_output(self, name):
        raise _make_error(2, "T0503", "", "", "", f"T0503: Invalid output name: {name}; the outputs are: "
                          f"{', '.join(o[0] for o in self.outputs)}", "")

    # Facts.
    def get_inputs(self) -> list[NodeArg]:
        """Name, type and shape of each input."""
        return self._node_args("inputs")

    def get_outputs(self) -> list[NodeArg]:
        """Name, type and shape of each output."""
        return self._node_args("outputs")

    def _node_args(self, which):
        values, kinds = getattr(self, which), (self.metadata(which) or "").split("\n")
        invented = [f"{name}_d{i}" for name, _, shape in self.inputs for i in range(len(shape or ()))]
        return [NodeArg(name, dtype, self._declared(which, name) if kind else shape, kind, invented)
                for (name, dtype, shape), kind in itertools.zip_longest(values, kinds[:len(values)], fillvalue="")]

    def _declared(self, which, name):
        """The shape that the model declares for what is no tensor of numbers: [] of a container."""
        return next((v["shape"] or [] for v in self._inspected().get(which, ()) if v["name"] == name), None)

    def get_overridable_initializers(self):
        """Initializers that the model also names as inputs: `run` takes values for them. Those of the model are compiled in;
        the first run with others compiles the model anew, with these as inputs."""
        return [NodeArg(v["name"], v["dtype"], v["shape"]) for v in self._inspected().get("overridable", ())
                if v["name"] not in self._free]

    def get_modelmeta(self):
        """What the model says about itself."""
        return ModelMetadata(self._inspected())

    def _inspected(self):
        """What the model says about itself; nothing for an artifact."""
        if self._facts is None:
            model = self._made_from[0]
            try:
                self._facts = {} if executable.content_of(model) is None and _is_artifact(model) else executable.inspect(
                    model)
            except error.Error as e:
                raise _translated(e) from None
        return self._facts

    def get_session_options(self):
        """The settings that the session was made with."""
        return self._options

    def get_providers(self):
        """["CPUExecutionProvider"]."""
        return list(self._providers)

    def set_providers(self, providers=None, provider_options=None):
        """Checks the names; UserWarning for each that is not there."""
        self._providers = _checked_providers(providers, provider_options)

    def get_provider_options(self):
        """The settings of each provider, of which there are none."""
        return {name: {} for name in self._providers}

    def disable_fallback(self):
        """Nothing: there is no other provider that a run could go to."""

    enable_fallback = disable_fallback

    # Further ways to run.
    def run_with_ort_values(self, output_names, input_dict_ort_values, run_options=None):
        """`run` with an OrtValue for each input and output."""
        values = need(input_dict_ort_values, dict, "run_with_ort_values: input_dict_ort_values", "a dict of OrtValue")
        for name, value in values.items():
            need(value, OrtValue, f"run_with_ort_values: the input {name!r}", "an OrtValue")
        return [OrtValue(v) for v in self.run(output_names, dict(values), run_options)]

    def run_async(self, output_names, input_feed, callback, user_data, run_options=None):
        """Runs in a thread of its own and calls callback(results, user_data, message) there; the message is empty when
        all went well."""
        need_callable(callback, "run_async: callback")

        def work():
            try:
                results, message = self.run(output_names, input_feed, run_options), ""
            except Exception as e:  # for the callback
                results, message = [], str(e)
            callback(results, user_data, message)
        threading.Thread(target=work, name="tenon run_async").start()

    def io_binding(self):
        """A binding of inputs and outputs for many runs."""
        return IOBinding(self)

    # Profiling.
    def get_profiling_start_time_ns(self):
        """When the session was made, in nanoseconds since 1970."""
        return self._profile_start

    def end_profiling(self):
        """Writes what ran as a Chrome trace and returns the file's name; "" without `enable_profiling`."""
        if not self._options.enable_profiling:
            return ""
        path = f"{os.fspath(self._options.profile_file_prefix)}{time.strftime('%Y-%m-%d_%H-%M-%S')}_{os.getpid()}.json"
        events = [{"cat": "Session" if name == "model_run" else "Node", "name": name, "ph": "X", "ts": start,
                   "dur": duration, "pid": os.getpid(), "tid": thread, "args": {}}
                  for session in (self, *self._overridden.values())
                  for name, start, duration, thread in session._take_profile()]
        with open(path, "w") as file:
            json.dump(sorted(events, key=lambda e: e["ts"]), file, indent=0)
        return path


class _Overriding(InferenceSession):
    """A session of the same model that takes some of its initializers as inputs."""

    def __init__(self, session, names):
        self._free = sorted(names)
        path_or_bytes, options, _, _ = session._made_from
        super().__init__(path_or_bytes, options)


def _is_artifact(path):
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False  # the compiler says why


# ---------------------------------------------------------------- bindings
class IOBinding(_core.Binding):
    """Inputs and outputs that are bound once for many runs, by one thread at a time. Memory that is bound is read and
    written as it is at each run. Sequences, maps and tensors of strings go in by `bind_ortvalue_input`, and come out of
    outputs without a buffer."""

    def __init__(self, session):
        need(session, InferenceSession, "IOBinding: session", "an InferenceSession")
        super().__init__(session)
        self._session, self._bound = session, {}
        self._inputs = {name: (i, dtype) for i, (name, dtype, _) in enumerate(session.inputs)}
        self._outputs = {name: (i, dtype, shape) for i, (name, dtype, shape) in enumerate(session.outputs)}
        # A model that takes or gives what is no tensor of numbers: values by name, and what the last run gave.
        tensors = all(dtype for _, dtype, _ in (*session.inputs, *session.outputs))
        self._values, self._results = None if tensors else {}, {}

    def _input(self, name):
        if name not in self._inputs:
            raise _make_error(2, "T0503", "", "", "", f"T0503: Invalid input name: {name}; inputs that can be bound are: "
                              f"{', '.join(self._inputs)}", "")
        return self._inputs[name]

    def _output(self, name):
        if name not in self._outputs:
            self._session._no_output(name)
        return self._outputs[name]

    def bind_cpu_input(self, name, arr_on_cpu):
        """An array for an input, read in place where type, alignment and strides allow. InvalidArgument for another
        type or shape."""
        index, dtype = self._input(name)
        if not dtype:
            raise error.UsageError(f"input {name!r} is no tensor of numbers: bind_ortvalue_input takes its value")
        array, dtype, shape = arrays.prepare(arr_on_cpu, name, dtype)
        if self._values is not None:
            self._values[name] = arr_on_cpu
            return
        address = array.__array_interface__["data"][0] if arrays.is_array(array) else array.data_ptr
        self._set_data(True, index, address, dtype, tuple(array.shape if shape is None else shape), array)

    def bind_ortvalue_input(self, name, ortvalue):
        """The value of an OrtValue for an input: an array, a sequence, a map."""
        need(ortvalue, OrtValue, "bind_ortvalue_input: ortvalue", "an OrtValue")
        if self._values is not None and not self._input(name)[1]:
            self._values[name] = ortvalue.numpy()
        elif not ortvalue.is_tensor():
            raise error.UsageError(f"input {name!r} is a tensor, and the value is {ortvalue.data_type()}")
        else:
            self.bind_cpu_input(name, ortvalue.numpy())

    def bind_input(self, name, device_type, device_id, element_type, shape, buffer_ptr):
        """Memory by its address; the caller keeps it alive."""
        on_cpu(device_type, device_id)
        index, memory = self._input(name)[0], _memory(buffer_ptr, element_type, shape, "bind_input")
        if self._values is not None:
            return self.bind_cpu_input(name, memory.numpy())
        self._set_data(True, index, buffer_ptr, dtype_of(element_type).name, tuple(shape), None)

    def bind_output(self, name, device_type="cpu", device_id=0, element_type=None, shape=None, buffer_ptr=None):
        """Without an address each run gives a fresh tensor."""
        on_cpu(device_type, device_id)
        index, dtype, _ = self._output(name)
        if buffer_ptr is None:
            self._clear(False, index)
            self._bound[name] = None
            return
        memory = _memory(buffer_ptr, element_type, shape, "bind_output")
        if self._values is None:
            self._set_data(False, index, buffer_ptr, dtype_of(element_type).name, tuple(shape), None)
        self._bound[name] = memory

    def bind_ortvalue_output(self, name, ortvalue):
        """The array of an OrtValue that each run writes. UsageError when it is read-only or has gaps."""
        array = need(ortvalue, OrtValue, "bind_ortvalue_output: ortvalue", "an OrtValue").numpy()
        if not ortvalue.is_tensor() or not self._output(name)[1]:
            raise error.UsageError(f"output {name!r}: only tensors are written into memory of the caller; bind_output gives the others")
        if not (array.flags.c_contiguous and array.flags.writeable):
            raise error.UsageError(f"output {name!r} needs an array that can be written and lies without gaps")
        if self._values is None:
            self._set_data(False, self._output(name)[0], ortvalue.data_ptr(), array.dtype.name, array.shape, array)
        self._bound[name] = ortvalue

    def synchronize_inputs(self):
        """Nothing: values are in CPU memory."""

    synchronize_outputs = synchronize_inputs

    def get_outputs(self):
        """The outputs of the last run in the order in which they were bound."""
        return [value if value is not None else self._fresh(name) for name, value in self._bound.items()]

    def _run(self, options):
        """A run of a model of values, called by `run_with_iobinding`."""
        self._results = dict(zip(self._bound, self._session.run(list(self._bound), self._values, options)))
        for name, value in self._bound.items():
            if value is not None:
                value.update_inplace(self._results[name])

    def _fresh(self, name):
        if self._values is not None:
            if name not in self._results:
                raise error.UsageError(f"output {name!r} has no value before the first run")
            return OrtValue(self._results[name])
        return OrtValue(self._take(self._outputs[name][0]))

    def copy_outputs_to_cpu(self):
        """The outputs of the last run as arrays."""
        return [value.numpy() for value in self.get_outputs()]

    def clear_binding_inputs(self):
        """No input is bound any more."""
        for index, _ in self._inputs.values():
            self._clear(True, index)
        if self._values is not None:
            self._values.clear()

    def clear_binding_outputs(self):
        """No output is bound any more."""
        for index, _, _ in self._outputs.values():
            self._clear(False, index)
        self._bound.clear()


def _memory(address, element_type, shape, where):
    """Memory of the caller as a value. TypeError, ValueError for what is no address, type or shape."""
    import ctypes

    import numpy
    if need(address, int, f"{where}: buffer_ptr", "an address") <= 0:
        raise ValueError(f"{where}: buffer_ptr must be an address, not {address}")
    dtype = dtype_of(element_type)
    shape = listed(shape, f"{where}: shape", "a tuple of sizes")
    if any(need(d, int, f"{where}: a size", "an int") < 0 for d in shape):
        raise ValueError(f"{where}: the shape {shape} has a negative size")
    size = dtype.itemsize * int(numpy.prod(shape, dtype=numpy.int64))
    bytes_ = (ctypes.c_uint8 * size).from_address(address)
    return OrtValue(numpy.frombuffer(bytes_, dtype).reshape(shape))
