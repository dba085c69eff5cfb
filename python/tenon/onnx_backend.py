# SPDX-License-Identifier: Apache-2.0
"""ONNX's backend interface, for `onnx.backend.test.BackendTest(tenon.onnx_backend, __name__)`."""
from onnx.backend.base import Backend, BackendRep

from . import executable

__all__ = ["TenonBackend", "TenonBackendRep", "is_compatible", "prepare", "run_model", "run_node", "supports_device"]


class TenonBackendRep(BackendRep):
    """A compiled model."""

    def __init__(self, compiled):
        super().__init__()
        self.executable = compiled

    def run(self, inputs, **kwargs):
        """A tuple of outputs for a list of arrays in the order of the inputs, or a dict by name."""
        if isinstance(inputs, dict):
            return tuple(self.executable._call(**inputs))
        if not isinstance(inputs, (list, tuple)):
            inputs = [inputs]
        return tuple(self.executable._call(*inputs))


class TenonBackend(Backend):
    """Tenon as ONNX's backend (onnx.backend.base.Backend, docs/OnnxBackendTest.md of ONNX)."""

    @classmethod
    def supports_device(cls, device):
        """Whether models run on a device such as "CPU" or "CUDA:0": on the CPU only."""
        return device.split(":")[0] == "CPU"

    @classmethod
    def is_compatible(cls, model, device="CPU", **kwargs):
        """Whether the model can be compiled, which is tried."""
        from .error import Error
        try:
            cls.prepare(model, device, **kwargs)
        except (Error, ValueError):
            return False
        return True

    @classmethod
    def prepare(cls, model, device="CPU", **kwargs):
        """Compiles an onnx.ModelProto; keywords are those of `tenon.compile`. ValueError for another device."""
        if not cls.supports_device(device):
            raise ValueError(f"there is no device {device!r}: models run on the CPU")
        super().prepare(model, device)  # ONNX's checker
        return TenonBackendRep(executable.compile(model, **kwargs))

    @classmethod
    def run_model(cls, model, inputs, device="CPU", **kwargs):
        """Compiles an onnx.ModelProto and runs it once: a tuple of outputs. Keywords are those of `tenon.compile`."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(cls, node, inputs, device="CPU", outputs_info=None, **kwargs):
        """Runs one node. `outputs_info`: (data type, shape) of each output."""
        import numpy
        from onnx import TensorProto, defs, helper
        arrays = [numpy.asarray(a) for a in inputs]
        names = [n for n in node.input if n]
        if len(names) != len(arrays):
            raise ValueError(f"{node.op_type} has {len(names)} inputs, {len(arrays)} were given")
        opset = kwargs.pop("opset_version", min(defs.onnx_opset_version(), 24))
        of = helper.np_dtype_to_tensor_dtype
        ins = [helper.make_tensor_value_info(n, of(a.dtype), a.shape) for n, a in zip(names, arrays)]
        outs = [helper.make_tensor_value_info(n, of(numpy.dtype(outputs_info[i][0])), outputs_info[i][1])
                if outputs_info else helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None)
                for i, n in enumerate(node.output)]
        model = helper.make_model(helper.make_graph([node], "node", ins, outs),
                                  opset_imports=[helper.make_opsetid(node.domain, opset)])
        if not outputs_info:
            from onnx.shape_inference import infer_shapes
            model = infer_shapes(model)
        return cls.run_model(model, arrays, device, **kwargs)


is_compatible = TenonBackend.is_compatible
prepare = TenonBackend.prepare
run_model = TenonBackend.run_model
run_node = TenonBackend.run_node
supports_device = TenonBackend.supports_device
