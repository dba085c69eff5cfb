# SPDX-License-Identifier: Apache-2.0
"""Settings of `InferenceSession` under ONNX Runtime's names. What has no effect here is warned about or refused."""
import enum
import os
import warnings

from .arguments import need
from .error import UsageError

__all__ = ["ExecutionMode", "GraphOptimizationLevel", "RunOptions", "SessionOptions"]


class GraphOptimizationLevel(enum.IntEnum):
    """How hard the compiler works: -O0, -O1, -O2 and -O2."""
    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    """Whether ONNX Runtime runs operators side by side; no effect here, where loops inside them are."""
    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


def no_effect(what):
    warnings.warn(f"{what} has no effect in Tenon", UserWarning, stacklevel=4)


class _Settings:
    """Attributes with a default and a type. Those of `_IDLE` are accepted for programs that set them, with a warning when
    another value than the default is set; names that are not there are refused."""

    _DEFAULTS = {}
    _IDLE = frozenset()

    def __init__(self):
        self.__dict__.update(self._DEFAULTS)

    def __setattr__(self, name, value):
        if name.startswith("_"):
            return object.__setattr__(self, name, value)
        if name not in self._DEFAULTS:
            raise AttributeError(f"{type(self).__name__} has no setting {name!r}: it has {', '.join(self._DEFAULTS)}")
        default = self._DEFAULTS[name]
        if not isinstance(value, (str, os.PathLike) if isinstance(default, str) else int) or (
                isinstance(default, enum.Enum) and not isinstance(value, type(default))):
            raise TypeError(f"{type(self).__name__}.{name} must be {type(default).__name__}, not {type(value).__name__}")
        if name in self._IDLE and value != default:
            no_effect(f"{type(self).__name__}.{name}")
        self.__dict__[name] = value


class SessionOptions(_Settings):
    """Settings of a session: threads, optimisation level, profiling, sizes of symbolic dimensions.

    Session config entries that Tenon knows: "tenon.target", "tenon.precision", "tenon.cache", "tenon.memory_limit".
    """

    _DEFAULTS = {"intra_op_num_threads": 0, "inter_op_num_threads": 0,
                 "graph_optimization_level": GraphOptimizationLevel.ORT_ENABLE_ALL,
                 "execution_mode": ExecutionMode.ORT_SEQUENTIAL, "enable_profiling": False,
                 "profile_file_prefix": "tenon_profile_", "optimized_model_filepath": "", "logid": "",
                 "log_severity_level": -1, "log_verbosity_level": 0, "enable_cpu_mem_arena": True,
                 "enable_mem_pattern": True, "enable_mem_reuse": True, "use_deterministic_compute": False}
    _IDLE = frozenset(("inter_op_num_threads", "execution_mode", "optimized_model_filepath", "logid",
                       "log_verbosity_level", "enable_cpu_mem_arena", "enable_mem_pattern", "enable_mem_reuse"))
    _ENTRIES = ("tenon.target", "tenon.precision", "tenon.cache", "tenon.memory_limit")

    def __init__(self):
        super().__init__()
        self._entries, self._dims = {}, {}

    def add_session_config_entry(self, key, value):
        """A setting by its key; those that Tenon does not know warn."""
        if key not in self._ENTRIES:
            no_effect(f"the session config entry {key!r}")
        self._entries[key] = str(value)

    def _memory_limit(self):
        """Bytes of the entry "tenon.memory_limit", 0 without one. ValueError."""
        text = self._entries.get("tenon.memory_limit", "0")
        if not text.isdecimal():
            raise ValueError(f"the session config entry tenon.memory_limit must be a number of bytes, not {text!r}")
        return int(text)

    def get_session_config_entry(self, key):
        """What was set under a key. UsageError when nothing was."""
        if key not in self._entries:
            raise UsageError(f"there is no session config entry {key!r}")
        return self._entries[key]

    def add_free_dimension_override_by_name(self, name, size):
        """A size for a symbolic dimension."""
        need(name, str, "add_free_dimension_override_by_name: name", "a str")
        self._dims[name] = need(size, int, "add_free_dimension_override_by_name: size", "an int")

    def add_free_dimension_override_by_denotation(self, denotation, size):
        """NotImplementedError: dimensions are overridden by name."""
        raise NotImplementedError("dimensions are overridden by name: add_free_dimension_override_by_name")

    def add_initializer(self, name, value):
        """NotImplementedError: initializers stand in the model."""
        raise NotImplementedError("initializers from outside are not supported: store them in the model")

    def add_external_initializers(self, names, values):
        """NotImplementedError: initializers stand in the model."""
        raise NotImplementedError("initializers from outside are not supported: store them in the model")

    def register_custom_ops_library(self, path):
        """NotImplementedError: give the model a local function for the operator."""
        raise NotImplementedError("libraries of ONNX Runtime's custom operators cannot be loaded: give the model a "
                                  "local function for the operator")

    def has_providers(self):
        """False: settings name no provider."""
        return False


class RunOptions(_Settings):
    """Settings of a run. `terminate = True`, from any thread, ends the runs that were given these options, and the next
    ones until it is False again."""

    _DEFAULTS = {"terminate": False, "log_severity_level": -1, "log_verbosity_level": 0, "logid": "",
                 "only_execute_path_to_fetches": False}
    _IDLE = frozenset(("log_severity_level", "log_verbosity_level", "logid", "only_execute_path_to_fetches"))

    def __init__(self):
        super().__init__()
        self._running = []

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if name == "terminate" and value:
            for session, run in list(self._running):
                session._cancel(run)

    def add_run_config_entry(self, key, value):
        """No effect; warns."""
        no_effect(f"the run config entry {key!r}")

    def _begin(self, session, run):
        self._running.append((session, run))
        if self.terminate:
            session._cancel(run)

    def _end(self, session, run):
        self._running.remove((session, run))
