# SPDX-License-Identifier: Apache-2.0
"""What keeps a model from compiling, makes it slow, or endangers its numbers: `tenon.lint`."""
from __future__ import annotations

import dataclasses
import json
import os

from .executable import _sizes, content_of, is_module
from .ffi import get_global_func

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

__all__ = ["LintProblem", "lint"]


@dataclasses.dataclass(frozen=True)
class LintProblem:
    """A problem of a model. Printed, it is as `tenon lint` shows it.

    kind: "error" (it does not compile), "slow" or "numeric". rule: the code of an error, or the rule's name.
    place: the node or line; empty for the whole model. hint: what helps."""

    kind: str
    rule: str
    message: str
    place: str
    hint: str

    def __str__(self) -> str:
        lines = [f"{self.kind}[{self.rule}]: {self.message}"]
        return "\n".join(lines + [f"  --> {self.place}"] * bool(self.place) + [f"  = help: {self.hint}"] * bool(self.hint))


def lint(model: Any, dims: Mapping[str, int] | None = None) -> list[LintProblem]:
    """Every problem of a model, without compiling it.

    model: path, bytes, onnx.ModelProto or IRModule. dims: {name of a symbolic dimension: size}.
    OSError for a file that cannot be read; what is wrong inside it is in the list."""
    request = {"dims": _sizes(dims, "lint: dims")}
    if is_module(model):
        request["module"] = model
    else:
        content = content_of(model)
        request.update({"model": os.fspath(model)} if content is None else {"model": "<bytes>", "bytes": content})
    return [LintProblem(**problem) for problem in json.loads(get_global_func("compiler.lint")(request)["json"])["problems"]]
