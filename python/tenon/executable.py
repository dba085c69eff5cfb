# SPDX-License-Identifier: Apache-2.0
"""Models compiled into this process: `tenon.compile`, `tenon.load`, `Executable`.

    ex = tenon.compile("model.onnx")
    y = ex(x)
    ex.save("model.so")
"""
from __future__ import annotations

import collections.abc
import json
import operator
import os
import re

from . import _core, arrays
from .arguments import listed, need, need_callable
from .error import make_error
from .ffi import convert_func, get_global_func
from .object import class_of
from .progress import reported
from .timing import kernels_of, time_calls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

_PASSES = "a list of names of passes"
__all__ = ["Executable", "compile", "inspect", "load"]


def load_module(model, name="<bytes>", folder="", dims=None, overridden=(), bind=None):
    """A model (path, bytes, or something with `SerializeToString`) as an IRModule. `overridden`: initializers that become
    inputs, of those that the model also names so. `bind`: {name: array} of inputs that become constants."""
    request = {"dims": _sizes(dims, "dims"), "overridden": list(overridden), "bind": _tensors(bind, "bind")}
    need(name, str, "name", "a str")
    content = content_of(model)
    if content is None:
        request["model"] = os.fspath(model)
    else:
        request.update(model=name, bytes=content, folder=os.fspath(folder))
    return get_global_func("compiler.load")(request)["module"]


def _sizes(given, name):
    """{name of a symbolic dimension: size}. TypeError."""
    for key, size in need(given or {}, collections.abc.Mapping, name, "a dict of sizes").items():
        need(key, str, f"{name}: the name of a dimension", "a str")
        if not hasattr(size, "__index__"):
            raise TypeError(f"{name}: the size of {key!r} must be an int, not {type(size).__name__}")
    return {key: operator.index(size) for key, size in (given or {}).items()}


def _tensors(given, name):
    """{name of an input: tensor} of {name: array}. TypeError."""
    for key in need(given or {}, collections.abc.Mapping, name, "a dict of arrays"):
        need(key, str, f"{name}: the name of an input", "a str")
    return {key: arrays.to_tensor(value, key) for key, value in (given or {}).items()}


def content_of(model):
    """The bytes of a model that is in memory; None for a path. TypeError for anything else."""
    if isinstance(model, (bytes, bytearray, memoryview)):
        content = bytes(model)
    elif hasattr(model, "SerializeToString"):  # onnx.ModelProto
        content = model.SerializeToString()
    elif isinstance(model, (str, os.PathLike)):
        return None
    else:
        raise TypeError(f"a model is a path, bytes, an onnx.ModelProto or an IRModule, not {type(model).__name__}")
    if not content:
        raise make_error(3, "T2001", "the model is empty", "<bytes>", "", "T2001: the model is empty", "")
    return content


def is_module(model):
    return getattr(model, "_type_key", None) == "ir.IRModule" or type(model).__name__ == "IRModule"


def compile(model: Any, target: str | None = None, opt_level: int = 2, dims: Mapping[str, int] | None = None,
            precision: str = "f32", cache: str | os.PathLike[str] | bool | None = None,
            progress: Callable[[str, int, int], object] | bool | None = None, *, name: str = "<bytes>",
            folder: str | os.PathLike[str] = "", dim_bounds: Mapping[str, int] | None = None, memory_limit: int = 0,
            threads: int = 0, require_passes: Iterable[str] = (), disable_passes: Iterable[str] = (),
            pass_options: Iterable[str] = (), dump: str | os.PathLike[str] = "", verify: bool = False,
            note: Callable[[str], object] | None = None, bind: Mapping[str, Any] | None = None,
            override: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = ()) -> Executable:
    """Compiles a model for this process.

    model: path of an ONNX file or of script text, its bytes, an onnx.ModelProto, an IRModule, or a PrimFunc.
    target: text such as "llvm -mcpu=x86-64-v3"; None: this machine.
    opt_level: 0 to 3. dims: {name: size} of symbolic dimensions. dim_bounds: {name: largest size}.
    bind: {name: array} of inputs that are fixed: they become constants, and calls do not take them.
    override: a folder of edited kernels that `tenon.extract` wrote, or several. Each is proved to compute what the model's own
    does, or tried on random and corner inputs (`Executable.overrides` says which); one that differs is refused (T1037).
    precision: "f32" (as the model says), "bf16" or "f16" for contractions.
    cache: a folder of compiled models, True for the user's own, None for none. Models in memory have none.
    progress: True shows a bar (one line on a terminal, one output in a notebook), a function is called with (step, done,
    total). note: called with remarks.
    name, folder: of a model in memory, for messages and for its external data.
    threads: of the compiler and of runs; 0: all cores. memory_limit: most bytes of intermediate tensors; 0: none.

    The interpreter lock is free meanwhile; Ctrl-C ends it. UsageError (T09xx) for settings, ModelError (T2xxx) for a
    model that cannot be used.
    """
    for key, value, kind, what in (("target", target, (str, type(None)), "a str"), ("opt_level", opt_level, int, "an int"),
                                   ("precision", precision, str, "a str"), ("threads", threads, int, "an int"),
                                   ("memory_limit", memory_limit, int, "an int of bytes"), ("name", name, str, "a str"),
                                   ("cache", cache, (str, os.PathLike, bool, type(None)), "a folder, True or None")):
        need(value, kind, f"compile: {key}", what)
    if note is not None:
        need_callable(note, "compile: note")
    if not isinstance(progress, (bool, type(None))):
        need_callable(progress, "compile: progress")
    folders = [override] if isinstance(override, (str, os.PathLike)) else listed(override, "compile: override", "a folder or several")
    request = {"emit": "jit", "override": [os.fspath(folder) for folder in folders], "target": target or "", "opt_level": opt_level, "dims": _sizes(dims, "compile: dims"),
               "bind": _tensors(bind, "compile: bind"),
               "dim_bounds": _sizes(dim_bounds, "compile: dim_bounds"), "precision": precision, "memory_limit": memory_limit,
               "threads": threads, "require_passes": listed(require_passes, "compile: require_passes", _PASSES),
               "disable_passes": listed(disable_passes, "compile: disable_passes", _PASSES),
               "pass_options": listed(pass_options, "compile: pass_options"), "dump": os.fspath(dump), "verify": verify,
               "cancelled": _core.poll_signals}
    if note is not None:
        request["note"] = convert_func(note)
    if getattr(model, "_type_key", None) == "tir.PrimFunc":
        model = class_of("ir.IRModule")({"main": model})
    if is_module(model):
        request["module"] = model
    elif content_of(model) is None:
        request["model"] = os.fspath(model)
        request["cache"] = "default" if cache is True else os.fspath(cache or "")
    else:
        request["module"] = load_module(model, name, folder, dims, bind=bind)
        request["dims"] = request["bind"] = {}
    with reported(progress) as function:
        shown = {} if function is None else {"progress": convert_func(function)}
        reply = get_global_func("compiler.compile")({**request, **shown})
    made = Executable(reply["artifact"], reply.get("compiled"), request, json.loads(reply["passes"]),
                      reply["compile_ms"], threads, memory_limit)
    made.overrides = {str(kernel): str(how) for kernel, how in (reply["overrides"] or {}).items()}
    return made


def load(path: str | os.PathLike[str], threads: int = 0, memory_limit: int = 0) -> Executable:
    """An artifact file that `Executable.save` or `tenon compile` wrote; the compiler is not loaded. ModelError T06xx."""
    return Executable(path, threads=threads, memory_limit=memory_limit)


def inspect(model: Any, name: str = "<bytes>") -> dict[str, Any]:
    """Facts about a model without compiling it, as a dict: kind, inputs, outputs, operators, parameters, flop, …"""
    content = content_of(model)
    request = {"model": os.fspath(model)} if content is None else {"model": name, "bytes": content}
    return json.loads(get_global_func("compiler.inspect")(request)["json"])


class Executable(_core.Session):
    """A compiled model. Called with arrays by position or by name it gives the array of its output, or a tuple of the
    arrays of its outputs; tuples and lists inside a model are lists here. Several threads may call it at once.

    inputs, outputs: tuples of (name, data type, shape); symbolic dimensions are names, a shape of None has any rank.
    passes: what the compilation did, as [{"name", "ms", "changed"}]; compile_ms: how long it took.
    overrides: how each kernel of `compile(override=…)` was found to compute the same, by its name.
    """

    inputs: tuple[tuple[str, str, tuple[int | str, ...] | None], ...]
    outputs: tuple[tuple[str, str, tuple[int | str, ...] | None], ...]
    passes: list[dict[str, Any]]
    compile_ms: float
    overrides: dict[str, str]

    _make_error = staticmethod(make_error)
    _prepare = staticmethod(arrays.prepare)
    _result = staticmethod(arrays.result)
    _numpy_dtype = staticmethod(arrays.numpy_dtype)
    _to_value = staticmethod(arrays.to_value)
    _from_value = staticmethod(arrays.numpy_of)

    def __init__(self, artifact, compiled=None, request=None, passes=(), compile_ms=0.0, threads=0, memory_limit=0,
                 profile=False):
        super().__init__(artifact, threads, memory_limit, profile)
        self._options = {"threads": threads, "memory_limit": memory_limit}
        self._artifact, self._compiled, self._request = artifact, compiled, request
        self.passes, self.compile_ms, self.overrides = list(passes), compile_ms, {}

    def __reduce__(self):
        raise TypeError("an Executable is no data for pickle or copy: `save` writes it, `tenon.load` reads it")

    def __call__(self, *args: Any, **named: Any) -> Any:
        results = self._call(*args, **named)
        return results[0] if len(results) == 1 else tuple(results)

    def __repr__(self):
        def words(values):
            return ", ".join(f"{name}: {dtype}{list(shape) if shape is not None else '[...]'}"
                             for name, dtype, shape in values)
        return f"<tenon.Executable ({words(self.inputs)}) -> ({words(self.outputs)})>"

    def _wrong_feed(self, feed, given):
        names = [i[0] for i in self.inputs]
        if given > len(names):
            raise TypeError(f"the model takes {len(names)} inputs, {given} were given: it takes {', '.join(names)}")
        for name in feed:
            if name not in names and (bound := self.metadata(f"bound_input.{name}")):
                text = f"the input {name!r} is given, and was bound to {bound} when the model was compiled"
                raise make_error(2, "T0522", text, "", "leave it out", f"T0522: {text}; leave it out", "")
        twice = [n for n in names[:given] if n in feed]
        unknown = [n for n in feed if n not in names]
        missing = [n for n in names[given:] if n not in feed]
        words = [f"{what} {', '.join(map(repr, which))}" for what, which in
                 (("given twice:", twice), ("no such input:", unknown), ("missing:", missing)) if which]
        raise TypeError(f"{'; '.join(words)}. The model takes {', '.join(names) or 'no inputs'}")

    def _no_output(self, name):
        raise ValueError(f"the model has no output {name!r}: it has {', '.join(o[0] for o in self.outputs)}")

    @property
    def compiled(self):
        """Programs and texts behind the artifact. UsageError for what was loaded from a file; what came from the cache
        is compiled anew here."""
        if self._compiled is None:
            if self._request is None:
                raise make_error(2, "T0613", "an artifact that was loaded has no sources", "", "compile the model", "T0613:"
                                 " an artifact that was loaded has no sources; compile the model", "")
            self._compiled = get_global_func("compiler.compile")({**self._request, "cache": ""})["compiled"]
        return self._compiled

    def save(self, path, kind="artifact", debug_info=False):
        """Writes an artifact, or another kind that the target emits ("obj", "asm", "json" …), and returns its bytes.
        debug_info: it is compiled anew, instructions have lines of the programs' text, which is written beside it for perf and gdb.
        UsageError T0920 for a kind that is not there, FileError T30xx."""
        # Of several processors, code of the best is at hand: an artifact has that of all.
        several = self._request is not None and re.search(r"-mcpu=\S*,", str(self._request.get("target", "")))
        if (debug_info or several) and self._request is not None:
            return get_global_func("compiler.compile")(
                {**self._request, "emit": kind, "output": os.fspath(path), "debug_info": debug_info, "cache": ""})["bytes"]
        return self.compiled.save(os.fspath(path), kind)

    def source(self, kind: str = "asm") -> str:
        """Text of a stage: "tir", "dot", "svg", "llvm", "asm", "json" … or what else the target offers."""
        return self.compiled.source(kind)

    def stage(self, name: str) -> str:
        """The module behind a pass of the compilation ("import": as it came), as script text. UsageError T0931."""
        if self._request is None:
            return self.compiled  # raises
        return get_global_func("compiler.compile")({**self._request, "emit": "tir", "stage": name, "cache": ""})["text"]

    def kernels(self, *args, **named):
        """What runs in one call with these arrays, by falling time: a dict of name, ms, share of the time, calls, flop, bytes,
        gflops, share_of_limit and limit for each. The limit is the least time that this machine needs for the arithmetic and
        the bytes that cannot be spared, whichever takes longer ("arithmetic" or "memory"); None where sizes are known only
        when the model runs. The first call of a process measures the machine, which takes a second or two."""
        session = Executable(self._artifact, **self._options, profile=True)
        return kernels_of(session, lambda: session._call(*args, **named), self._options["threads"])

    def time(self, *args, number=10, repeat=3, **named):
        """Times of one call: `repeat` means over `number` calls each, after one call that is not counted."""
        return time_calls(lambda: self._call(*args, **named), number, repeat)

    def _ordered(self, args, named):
        """A value for each input."""
        names = [name for name, _, _ in self.inputs]
        if len(args) + len(named) != len(names) or any(n not in named for n in names[len(args):]):
            self._wrong_feed(named, len(args))
        return [*args, *(named[n] for n in names[len(args):])]
