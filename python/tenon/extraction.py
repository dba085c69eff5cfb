# SPDX-License-Identifier: Apache-2.0
"""One kernel of a model by itself: `tenon.extract`. `tenon.compile(override=…)` puts an edited one back."""
from __future__ import annotations

import dataclasses
import os

from .arguments import listed, need
from .arrays import to_tensor
from .executable import _sizes, _tensors
from .ffi import get_global_func

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

__all__ = ["ExtractedKernel", "extract"]


@dataclasses.dataclass(frozen=True)
class ExtractedKernel:
    """A kernel of a model.

    name: its name. program: its script text with its loops placed, as it is compiled. unscheduled: the same as the graph
    was lowered to it. trace: the steps between both, JSON. inputs, outputs: tensors in the order of its parameters;
    from_run: they are those of its first call in a run of the model, else random values."""

    name: str
    program: str
    unscheduled: str
    trace: str
    inputs: list[Any]
    outputs: list[Any]
    from_run: bool


def extract(model: Any, kernel: str, folder: str | os.PathLike[str] | None = None, *, inputs: Iterable[Any] = (),
            target: str | None = None, opt_level: int = 2, dims: Mapping[str, int] | None = None,
            bind: Mapping[str, Any] | None = None) -> ExtractedKernel:
    """One kernel of a model, by the name that `Executable.kernels` and `tenon bench --kernels` show.

    model: a path. folder: receives NAME.tir, unscheduled/NAME.tir and NAME.trace.json; an edited NAME.tir there goes
    back by `tenon.compile(model, override=folder)`. inputs: arrays that the model is run on, in order; none: the kernel's
    inputs are drawn. The other options are those that the model is compiled with.
    UsageError T0923 for a kernel that it does not have."""
    need(kernel, str, "extract: kernel", "a str")
    need(opt_level, int, "extract: opt_level", "an int")
    need(target, (str, type(None)), "extract: target", "a str")
    reply = get_global_func("compiler.extract")(
        {"model": os.fspath(model), "kernel": kernel, "output": os.fspath(folder or ""), "target": target or "",
         "opt_level": opt_level, "dims": _sizes(dims, "extract: dims"), "bind": _tensors(bind, "extract: bind"),
         "inputs": [to_tensor(x, f"extract: inputs[{i}]") for i, x in enumerate(listed(inputs, "extract: inputs"))]})
    return ExtractedKernel(kernel, str(reply["program"]), str(reply["unscheduled"]), str(reply["trace"]),
                           list(reply["inputs"]), list(reply["outputs"]), reply["from_run"])
