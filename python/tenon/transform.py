# SPDX-License-Identifier: Apache-2.0
"""Passes: functions IRModule → IRModule, Tenon's own and yours.

    @transform.prim_func_pass(name="count_loads")
    def count_loads(func, mod, ctx): ...

    with transform.PassContext(opt_level=3, instruments=[Timer()]) as ctx:
        mod = transform.Sequential(["infer_types", "fold_constant", count_loads])(mod)
    print(ctx.timings)
"""
from __future__ import annotations

import contextvars

from .arguments import listed, need
from .ffi import get_global_func
from .object import class_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Protocol, TypeVar, overload

    _T = TypeVar("_T")

    class _Decorator(Protocol):
        """With settings or without."""

        @overload
        def __call__(self, func: Callable[..., Any], /) -> Pass: ...
        @overload
        def __call__(self, func: None = None, /, opt_level: int = 0, name: str | None = None, required: Iterable[str] = (),
                     before: str | None = None) -> Callable[[Any], Pass]: ...

_current = contextvars.ContextVar("tenon.PassContext")


class PassContext:
    """What holds for passes that run inside `with PassContext(…)`:

    opt_level: passes of a higher level do not run; required_pass, disabled_pass: names of passes that run, and do not,
    whatever their level; config: options of passes, {"fuse_ops.max_depth": 8} (UsageError T0943 names the nearest, T0944 a
    value of another type); instruments: objects of classes with @pass_instrument; target: as for compile; verify: check
    the module behind every pass; print_after: names of passes, or "all"; dump: a folder for the module behind every pass.
    `timings` has (name, milliseconds, whether it changed anything) of every pass that ran."""

    opt_level: int
    required_pass: list[str]
    disabled_pass: list[str]
    config: dict[str, Any]
    instruments: list[Any]
    timings: list[tuple[str, float, bool]]

    def __init__(self, opt_level=2, required_pass=None, disabled_pass=None, instruments=None, config=None, *, target="",
                 verify=False, print_after=(), dump="", report=None):
        def names_of(values, name):
            return listed(values or [], f"PassContext: {name}", "a list of names of passes")

        self.opt_level = need(opt_level, int, "PassContext: opt_level", "an int")
        self.target, self.verify, self.dump, self.report = target, verify, dump, report
        self.required_pass, self.disabled_pass = names_of(required_pass, "required_pass"), names_of(disabled_pass, "disabled_pass")
        self.print_after = [print_after] if isinstance(print_after, str) else names_of(print_after, "print_after")
        self.config = dict(need(config or {}, dict, "PassContext: config", "a dict"))
        self.instruments = [_instrument(i) for i in listed(instruments or [], "PassContext: instruments", "a list of instruments")]
        self.timings = []
        self._tokens = []

    @staticmethod
    def current() -> PassContext:
        """The innermost context, or one of defaults."""
        return _current.get(None) or PassContext()

    def __enter__(self) -> PassContext:
        entered = []
        try:
            for i in self.instruments:
                _method(i, "enter_pass_ctx")()
                entered.append(i)
        except BaseException:
            for i in entered:
                _method(i, "exit_pass_ctx")()
            raise
        self._tokens.append(_current.set(self))
        return self

    def __exit__(self, *error: object) -> None:
        _current.reset(self._tokens.pop())
        for i in self.instruments:
            _method(i, "exit_pass_ctx")()

    def settings(self):
        """As compile and the runner take them."""
        hooks = ("should_run", "run_before_pass", "run_after_pass")
        made = {"opt_level": self.opt_level, "require_passes": self.required_pass, "disable_passes": self.disabled_pass,
                "options": self.config, "verify": self.verify, "print_after": self.print_after, "dump": self.dump,
                "target": self.target,
                "instruments": [{h: getattr(i, h) for h in hooks if hasattr(i, h)} for i in self.instruments]}
        if self.print_after:
            made["print"] = lambda name, text: print(f"# behind {name}\n{text}")
        if self.report:
            made["report"] = self.report
        return made

    def run(self, mod, passes):
        """The module behind the passes."""
        mod, timings = get_global_func("pass.run")(mod, passes, self.settings())
        self.timings += [(name, ms, changed) for name, ms, changed in timings]
        return mod


_HOOKS = ("enter_pass_ctx", "exit_pass_ctx", "should_run", "run_before_pass", "run_after_pass")


def _instrument(value, where="PassContext: an instrument"):
    if not any(hasattr(value, name) for name in _HOOKS):
        raise TypeError(f"{where} has one of {', '.join(_HOOKS)}, {value!r} has none")
    return value


def _method(instrument, name):
    return getattr(instrument, name, lambda: None)


class Pass:
    """A pass; called with a module, it gives the module behind it, under the current PassContext. `info` has name,
    opt_level, summary, needs, changes and options."""

    def __init__(self, info):
        self.info = info

    @property
    def name(self):
        """Its name, as in docs/passes.md."""
        return self.info.name

    @property
    def opt_level(self):
        """It runs from this level on."""
        return self.info.opt_level

    @property
    def needs(self):
        """Passes before it that run whenever it does."""
        return list(self.info.needs)

    @property
    def options(self):
        """Its options: name, type, default and help of each."""
        return [dict(o.items()) for o in self.info.options]

    def __call__(self, mod):
        return PassContext.current().run(mod, self._list())

    def _list(self):
        return [self.info]

    def __repr__(self):
        return f"<pass {self.name}>"


class Sequential(Pass):
    """Passes in order: Pass objects or names. It is a pass, too."""

    def __init__(self, passes, opt_level=0, name="sequential"):
        self.passes = [get(p) for p in listed(passes, "Sequential: passes", "a list of passes")]
        need(opt_level, int, "Sequential: opt_level", "an int")
        super().__init__(_new_pass(name, self._inner, opt_level))

    def _inner(self, mod):
        return PassContext.current().run(mod, self._list())

    def _list(self):
        return [info for p in self.passes for info in p._list()]


def _new_pass(name, function, level, summary="", needs=()):
    needs = [get(n).name for n in listed(needs, f"the pass `{name}`: required", "a list of names of passes")]
    return class_of("ir.Pass")(name, function, level, summary, needs)


def get(name):
    """A pass by its name (UsageError T0919 names the nearest); a Pass comes back as it is."""
    return name if isinstance(name, Pass) else Pass(get_global_func("pass.get")(name))


def names() -> list[str]:
    """Names of all of Tenon's passes (docs/passes.md)."""
    return list(get_global_func("pass.names")())


def pipeline(part="graph"):
    """The passes of a compilation, in order: of "graph", "schedule" or "tensor"."""
    return Sequential([Pass(info) for info in get_global_func("pass.pipeline")(part)], name=part)


def insert_pass(pass_, before):
    """Every compilation of this process runs the pass in front of the pass `before`; the cache of compilations is not used
    then. UsageError T0919, T0947, T0948."""
    get_global_func("pass.insert")(get(pass_).info, before)


def remove_pass(name):
    """Takes out what insert_pass put in."""
    get_global_func("pass.remove")(getattr(name, "name", name))


def _decorator(wrap):
    def decorator(func=None, opt_level=0, name=None, required=(), before=None):
        def decorate(f):
            label = name or getattr(f, "__name__", "")
            if not label:
                raise TypeError(f"a pass is a function or a class, not {f!r}")
            target = f() if isinstance(f, type) else f  # a class: its object has the function
            doc = (f.__doc__ or "").strip().partition("\n")[0]
            made = Pass(_new_pass(label, wrap(_function_of(target, label)), opt_level, doc, required))
            if before:
                insert_pass(made, before)
            return made

        return decorate if func is None else decorate(func)

    return decorator


def _function_of(target, label):
    for method in ("transform_module", "transform_function", "transform_prim_func"):
        if hasattr(target, method):
            return getattr(target, method)
    if not callable(target):
        raise TypeError(f"the pass `{label}` is no function")
    return target


def _each(key):
    def wrap(f):
        def run(mod):
            cls, context = class_of(key), PassContext.current()
            changed = {}
            for name, function in mod.functions.items():
                if isinstance(function, cls):
                    made = f(function, mod, context)
                    if not isinstance(made, cls):
                        raise TypeError(f"the pass must give a {cls.__name__} for `{name}`, not {made!r}")
                    changed[name] = made
            return mod.replace(functions={**dict(mod.functions.items()), **changed})

        return run

    return wrap


_PASS = """A decorator: {what} as a Pass.

    opt_level: runs from this level on; required: names of passes that run before it whenever it does; before: the name of a
    pass of the compilation, in front of which every compilation of this process runs it. A class may stand in place of the
    function, with {method}."""

module_pass: _Decorator = _decorator(lambda f: lambda mod: f(mod, PassContext.current()))
module_pass.__doc__ = _PASS.format(what="a function (mod, ctx) → IRModule", method="transform_module")
function_pass: _Decorator = _decorator(_each("graph.Function"))
function_pass.__doc__ = _PASS.format(what="a function (func, mod, ctx) → graph.Function, for each graph function",
                                     method="transform_function")
prim_func_pass: _Decorator = _decorator(_each("tir.PrimFunc"))
prim_func_pass.__doc__ = _PASS.format(what="a function (func, mod, ctx) → tir.PrimFunc, for each tensor program",
                                      method="transform_prim_func")


def pass_instrument(cls: type[_T]) -> type[_T]:
    """A class whose objects see every pass: any of enter_pass_ctx(), exit_pass_ctx(), should_run(mod, info) → bool,
    run_before_pass(mod, info) and run_after_pass(mod, info); info is as Pass.info. An exception ends the run."""
    return _instrument(need(cls, type, "pass_instrument: what it decorates", "a class"), "an instrument")


# ---------------------------------------------------------------- parts for external code generators
def _with_options(name, **options):
    """A pass of Tenon with values of its options."""
    def run(mod):
        config = {f"{name}.{key}": value for key, value in options.items()}
        context = PassContext(required_pass=[name], config=config, verify=PassContext.current().verify)
        return context.run(mod, [get(name).info])

    return Pass(_new_pass(name, run, 0, get(name).info.summary, get(name).needs))


def ConvertLayout(desired):
    """A pass: operators work in the layouts that are named, what lies between follows: {"nn.conv2d": "NHWC"} or, with the
    weight, {"nn.conv2d": ["NHWC", "HWIO"]}; "default" is the usual weight. UsageError T1107 for letters that do not fit."""
    layouts = {}
    for name, wanted in need(desired, dict, "ConvertLayout: desired", "a dict of layouts by operator").items():
        parts = [wanted] if isinstance(wanted, str) else listed(wanted, f"ConvertLayout: {name}", "a layout or a list")
        layouts[name] = ":".join(parts)
    return _with_options("convert_layout", desired=layouts)


def FuseOpsByPattern(patterns, bind_constants=False):
    """A pass: every match of (name, pattern[, check]) becomes a private function with the attribute Composite = name. check
    gets that function and says whether to take it. Of patterns that overlap the first wins. UsageError T1150, T1152."""
    entries = [list(p) for p in listed(patterns, "FuseOpsByPattern: patterns", "a list of (name, pattern[, check])")]
    need(bind_constants, bool, "FuseOpsByPattern: bind_constants", "a bool")
    fuse = get_global_func("dpl.fuse_ops_by_pattern")
    return Pass(_new_pass("fuse_ops_by_pattern", lambda mod: fuse(mod, entries, bind_constants), 0,
                          get("fuse_ops_by_pattern").info.summary, ["infer_types"]))


MergeComposite = FuseOpsByPattern


def AnnotateTarget(targets):
    """A pass: composites "NAME.…", and what "tenon.ext.NAME.supports" says yes to, become regions with Codegen = NAME."""
    names_ = [targets] if isinstance(targets, str) else listed(targets, "AnnotateTarget: targets", "a list of names")
    return _with_options("annotate_target", targets=names_)


def MergeCompilerRegions():
    """A pass: regions of one code generator that feed one another become one."""
    return _with_options("merge_compiler_regions")


def PartitionGraph(bind_constants=False):
    """A pass: regions get a global symbol; `bind_constants`: constants belong to them and are no arguments."""
    return _with_options("partition_graph", bind_constants=need(bind_constants, bool, "PartitionGraph: bind_constants", "a bool"))


def RunCodegen(options=None):
    """A pass: the function "tenon.ext.NAME" (regions: IRModule, options: dict) gives for each region the name of a packed
    function or a module. UsageError T1153, T1154."""
    given = need(options or {}, dict, "RunCodegen: options", "a dict")
    return _with_options("run_codegen", options={k: str(v) for k, v in given.items()})


def __getattr__(name):
    """`transform.fold_constant`: a pass of Tenon by its name."""
    if name.startswith("__") or name not in names():
        raise AttributeError(f"module 'tenon.transform' has no attribute {name!r}")
    return get(name)
