# SPDX-License-Identifier: Apache-2.0
"""ONNX models as modules: `tenon.onnx.load`; operators of your own: `tenon.onnx.register_converter`."""
from __future__ import annotations

import functools

from .arguments import need, need_callable
from .executable import load_module
from .ffi import register_func

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    import tenon.ir

__all__ = ["load", "register_converter"]


def load(model: Any, dims: dict[str, int] | None = None, name: str = "<bytes>", folder: str = "",
         bind: dict[str, Any] | None = None) -> tenon.ir.IRModule:
    """An ONNX model (path, bytes or onnx.ModelProto) as an IRModule. dims: {name: size} of symbolic dimensions.
    bind: {name: array} of inputs that become constants. name, folder: of a model in memory, for messages and for its
    external data. ModelError T2xxx."""
    return load_module(model, name, folder, dims, bind=bind)


def register_converter(name: str, function: Callable[..., Any] | None = None, override: bool = False) -> Callable[..., Any]:
    """Says an operator of a model with graph operators, for every import of this process; also a decorator.

        @tenon.onnx.register_converter("my.domain::Swish")
        def swish(inputs, attributes):
            return inputs[0] * op.sigmoid(inputs[0])

    name: "DOMAIN::NAME" of an operator that Tenon has none for. The function gets the inputs as a list of graph expressions
    (None where one is left out) and the attributes as a dict, and gives an expression, or a list of one for each output.
    UsageError T0103 when the name is taken and `override` is false; ModelError T2102 for what gives no expressions."""
    domain, separator, operator = need(name, str, "register_converter: name", "a str").partition("::")
    if not (domain and separator and operator):
        raise ValueError(f"register_converter: name must be DOMAIN::NAME, not {name!r}")

    def register(f):
        need_callable(f, "register_converter: function")

        @functools.wraps(f)
        def convert(inputs, attributes):
            return f(list(inputs), dict(attributes.items()))

        register_func("onnx.converter." + name, convert, override)
        return f

    return register if function is None else register(function)
