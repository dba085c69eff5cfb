# SPDX-License-Identifier: Apache-2.0
"""Float models and samples of their inputs become models that compute on bytes: `tenon.quantize`."""
from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import tempfile

from .executable import content_of
from .ffi import convert_func, get_global_func
from .object import NDArray
from .progress import reported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

__all__ = ["QuantizedModel", "quantize"]


@dataclasses.dataclass(frozen=True)
class QuantizedModel:
    """What `tenon.quantize` made, and what it costs. Printed, it is a table of the layers.

    model: the bytes of an ONNX file in QDQ form, for `tenon.compile` and others; None when it was written to a file.
    layers: a dict for each in the model's order: name, op, error (root mean square of what changed in its result,
    relative to the result), own_error (without what its inputs brought).
    accuracy_before, accuracy_after: shares of the samples whose largest first output is the label; None without labels.
    leave_in_float: names of the layers that add most of the error, for `exclude`."""

    model: bytes | None
    layers: list[dict[str, Any]]
    samples: int
    accuracy_before: float | None
    accuracy_after: float | None
    leave_in_float: list[str]

    def __str__(self) -> str:
        rows = [f"{'layer':<32} {'operator':<8} {'error':>10} {'its own':>10}"]
        rows += [f"{x['name']:<32} {x['op']:<8} {x['error']:>10.2%} {x['own_error']:>10.2%}" for x in self.layers]
        if self.accuracy_before is not None:
            rows.append(f"accuracy on {self.samples} samples: {self.accuracy_before:.2%} before, {self.accuracy_after:.2%} after")
        return "\n".join(rows)


def quantize(model: Any, samples: Mapping[str, Any], output: str | os.PathLike[str] | None = None, *, labels: Any = None,
             method: str = "minmax", percentile: float = 99.99, symmetric: bool = False, per_channel: bool = True,
             equalize: bool = False, exclude: Iterable[str] = (), threads: int = 0,
             progress: Callable[[str, int, int], object] | bool | None = None) -> QuantizedModel:
    """Writes a float ONNX model as one in QDQ form (QuantizeLinear and DequantizeLinear), whose networks compute on bytes.

    model: path, bytes or onnx.ModelProto. samples: {input's name: array (samples, …)}. output: a file; None: into the result.
    labels: integers (samples,), to count the accuracy before and after.
    method: how the range of an activation is found: "minmax", "percentile" (of `percentile` % of the values) or "entropy".
    symmetric: activations as int8 around 0 in place of uint8. per_channel: a scale for each output channel of a weight.
    equalize: balance channels of neighbouring convolutions first. exclude: names of nodes that stay in float.
    progress: as `tenon.compile`. UsageError T0950 for settings, T0951 for samples of another shape or type, none, or with
    what is no number, T0952 for activations that are none; then no file is written."""
    content = content_of(model)
    request = {"names": list(samples), "labels": [] if labels is None else [NDArray(labels)],
               "samples": [NDArray(value) for value in samples.values()], "method": method, "percentile": percentile,
               "symmetric": symmetric, "per_tensor": not per_channel, "equalize": equalize, "excluded": list(exclude),
               "threads": threads}
    with tempfile.TemporaryDirectory() as folder, reported(progress) as function:
        path = os.fspath(model) if content is None else os.path.join(folder, "model.onnx")
        if content is not None:
            pathlib.Path(path).write_bytes(content)
        if function is not None:
            request["progress"] = convert_func(function)
        written = os.fspath(output or os.path.join(folder, "quantized.onnx"))
        report = json.loads(get_global_func("compiler.quantize")({**request, "model": path, "output": written})["json"])
        made = None if output else pathlib.Path(written).read_bytes()
    return QuantizedModel(made, *(report[key] for key in ("layers", "samples", "accuracy_before", "accuracy_after",
                                                          "leave_in_float")))
