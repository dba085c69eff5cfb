# SPDX-License-Identifier: Apache-2.0
"""The functions of a compiled model by name, under the names of TVM's virtual machine.

    vm = tenon.VirtualMachine(tenon.compile(module))
    y = vm["main"](x)
"""
import enum

from . import arrays
from .arguments import need
from .error import UsageError
from .executable import Executable
from .ffi import convert_func
from .ort_value import on_cpu
from .timing import kernels_of, time_calls

__all__ = ["GraphExecutor", "VMInstrumentReturnKind", "VirtualMachine"]


class VMInstrumentReturnKind(enum.IntEnum):
    """What an instrument gives before a call; None is NO_OP."""
    NO_OP = 0
    SKIP_RUN = 1


def _executable(model, device, **options):
    if device is not None:
        on_cpu(device)
    return Executable(getattr(model, "_artifact", model), **options)


class VirtualMachine:
    """The functions of a compiled model.

    model: an Executable, or the path of an artifact. device: None or "cpu". threads, memory_limit: as for `tenon.load`.
    Functions take and give values of any kind: arrays, numbers, lists for tuples, what other functions gave (closures,
    references). Several threads may call at once.
    """

    def __init__(self, model, device=None, *, threads=0, memory_limit=0):
        self._options = {"threads": threads, "memory_limit": memory_limit}
        self._run = _executable(model, device, **self._options)
        self._saved, self._inputs, self._outputs = {}, {}, {}

    @property
    def functions(self):
        """Names of the functions."""
        return [*self._run.functions, *self._saved]

    def __getitem__(self, name):
        """The function of a name. UsageError for a name that is not there."""
        if name in self._saved:
            return self._saved[name]
        if name not in self._run.functions:
            raise UsageError(f"the model has no function {name!r}: it has {', '.join(self.functions)}")

        def call(*args, **named):
            return self._run._invoke(name, *self._ordered(name, args, named))

        call.__name__ = call.__qualname__ = name
        return call

    def _ordered(self, name, args, named):
        if not named:
            return args
        if name != "main":
            raise TypeError(f"{name} takes no names of arguments: only the inputs of `main` have names")
        return self._run._ordered(args, named)

    # ---- inputs that stay
    def set_input(self, name, *args, **named):
        """Arguments for `invoke_stateful`; arrays are not copied."""
        self[name]
        self._inputs[name] = self._ordered(name, args, named)

    def invoke_stateful(self, name):
        """Calls a function with the arguments of `set_input`; `get_outputs` has its result."""
        if name not in self._inputs:
            raise UsageError(f"no inputs are set for {name!r}: call set_input")
        self._outputs[name] = self[name](*self._inputs[name])

    def get_outputs(self, name):
        """The result of the last `invoke_stateful`; a list where the function gives a tuple."""
        if name not in self._outputs:
            raise UsageError(f"{name!r} has no outputs yet: call invoke_stateful")
        return self._outputs[name]

    def save_function(self, name, saved_name, *args, **named):
        """`vm[saved_name]()` calls a function with these arguments."""
        if need(saved_name, str, "save_function: saved_name", "a str") in self.functions:
            raise UsageError(f"the name {saved_name!r} is taken")
        function, values = self[name], self._ordered(name, args, named)
        self._saved[saved_name] = lambda: function(*values)

    # ---- watching
    def set_instrument(self, instrument):
        """Calls instrument(func, name, before_run, ret_val, *args) before and behind every kernel, builtin and packed function
        of later runs; None: no more. `func` is None: a kernel has no function of its own. `ret_val` is what a packed
        function or builtin gave, None before; a kernel writes its last arguments. Arrays are the run's memory: copy what
        is kept. SKIP_RUN before a call leaves it out. An exception ends the run."""
        if instrument is None:
            return self._run._set_instrument(None)
        if not callable(instrument):
            raise TypeError(f"an instrument is a function, not {type(instrument).__name__}")

        def watch(name, before, result, *args):
            made = instrument(None, name, before, arrays.numpy_of(result), *map(arrays.numpy_of, args))
            return before and made is not None and VMInstrumentReturnKind(made) == VMInstrumentReturnKind.SKIP_RUN

        self._run._set_instrument(convert_func(watch))

    # ---- times
    def time_evaluator(self, name, device=None, number=10, repeat=1, min_repeat_ms=0):
        """A function that takes the arguments of a function and gives its Times."""
        if device is not None:
            on_cpu(device)
        function = self[name]
        return lambda *args, **named: time_calls(lambda: function(*args, **named), number, repeat, min_repeat_ms)

    def profile(self, name, *args, **named):
        """What runs in one call: as `Executable.kernels`."""
        self[name]
        session = Executable(self._run._artifact, **self._options, profile=True)
        values = self._ordered(name, args, named)
        return kernels_of(session, lambda: session._invoke(name, *values), self._options["threads"])


class GraphExecutor:
    """A model with inputs that stay set, under the names of TVM's graph executor.

        executor = tenon.GraphExecutor(tenon.compile("model.onnx"))
        executor.set_input("x", x)
        executor.run()
        y = executor.get_output(0)
    """

    def __init__(self, model, device=None, *, threads=0, memory_limit=0):
        self._threads = threads
        self._run = _executable(model, device, threads=threads, memory_limit=memory_limit)
        self._names = [name for name, _, _ in self._run.inputs]
        self._inputs, self._outputs = {}, None

    def get_num_inputs(self):
        """The number of inputs."""
        return len(self._names)

    def get_num_outputs(self):
        """The number of outputs."""
        return len(self._run.outputs)

    def get_input_index(self, name):
        """-1 when the model has no such input."""
        return self._names.index(name) if name in self._names else -1

    def get_input_info(self):
        """({name: shape}, {name: data type})"""
        return ({name: shape for name, _, shape in self._run.inputs}, {name: dtype for name, dtype, _ in self._run.inputs})

    def _name(self, key):
        if isinstance(key, int) and 0 <= key < len(self._names):
            return self._names[key]
        if key in self._names:
            return key
        raise UsageError(f"the model has no input {key!r}: it has {', '.join(self._names)}")

    def set_input(self, key=None, value=None, **params):
        """An input by name or number, and further ones by name. Arrays are not copied: what they hold when `run` is called
        is what is read."""
        if key is None and value is not None:
            raise TypeError("set_input: a value needs the key of its input")
        for name, given in [*([(key, value)] if key is not None else []), *params.items()]:
            self._inputs[self._name(name)] = given

    def get_input(self, key):
        """What was set; None before."""
        return self._inputs.get(self._name(key))

    def run(self, **inputs):
        """Runs on the inputs that are set, these among them."""
        self.set_input(**inputs)
        self._outputs = self._run.run(None, self._inputs)

    def get_output(self, index, out=None):
        """An output of the last run, by number, written to the array `out` where it is given."""
        if self._outputs is None:
            raise UsageError("there are no outputs before the first run")
        if not 0 <= need(index, int, "get_output: index", "an int") < len(self._outputs):
            raise UsageError(f"there is no output {index}: there are {len(self._outputs)}")
        if out is None:
            return self._outputs[index]
        if not arrays.is_array(out):
            raise TypeError(f"get_output: out must be an array of NumPy, not {type(out).__name__}")
        out[...] = self._outputs[index]
        return out

    def benchmark(self, device=None, repeat=5, number=5, min_repeat_ms=0):
        """Times of `run` on the inputs that are set."""
        if device is not None:
            on_cpu(device)
        return time_calls(self.run, number, repeat, min_repeat_ms)

    def debug_run(self):
        """What runs in one `run`: as `Executable.kernels`."""
        return Executable(self._run._artifact, threads=self._threads).kernels(**self._inputs)
