# SPDX-License-Identifier: Apache-2.0
"""ONNX models as modules: `tenon.onnx.load`."""
from .executable import load_module

__all__ = ["load"]


def load(model, dims=None, name="<bytes>", folder=""):
    """An ONNX model (path, bytes or onnx.ModelProto) as an IRModule. dims: {name: size} of symbolic dimensions.
    name, folder: of a model in memory, for messages and for its external data. ModelError T2xxx."""
    return load_module(model, name, folder, dims)
