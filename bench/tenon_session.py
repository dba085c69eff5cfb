# SPDX-License-Identifier: Apache-2.0
"""A compiled model whose inputs and outputs stay, as the bench times it: `tenon.InferenceSession` with a binding."""
import numpy as np

BFLOAT16 = 16  # ONNX's number


class Session:
    """`artifact` with fixed inputs, in order, on `threads` threads; outputs are this object's own arrays: a first run tells
    the sizes of symbolic ones. bfloat16 is given and taken as uint16, its bits."""

    def __init__(self, artifact, inputs, threads):
        import tenon
        from tenon import arrays

        options = tenon.SessionOptions()
        options.intra_op_num_threads = threads
        self._session = tenon.InferenceSession(str(artifact), options)
        self._binding = self._session.io_binding()
        for info, array in zip(self._session.get_inputs(), inputs, strict=True):
            array = np.ascontiguousarray(array)
            if info.type == "tensor(bfloat16)" and array.dtype == np.uint16:
                value = tenon.OrtValue.ortvalue_from_numpy_with_onnx_type(array, BFLOAT16)
            else:
                value = tenon.OrtValue.ortvalue_from_numpy(array)
            self._binding.bind_ortvalue_input(info.name, value)
        free = []
        for name, dtype, shape in self._session.outputs:
            if shape is not None and all(isinstance(size, int) for size in shape):
                self._binding.bind_ortvalue_output(name, tenon.OrtValue(np.zeros(shape, arrays.numpy_dtype(dtype))))
            else:
                self._binding.bind_output(name)
                free.append(name)
        if free and all(dtype for _, dtype, _ in self._session.outputs):
            self.run()
            for (name, _, _), value in zip(self._session.outputs, self._binding.get_outputs()):
                if name in free:
                    self._binding.bind_ortvalue_output(name, value)

    def run(self):
        self._session.run_with_iobinding(self._binding)

    def outputs(self):
        """The results of the last run."""
        arrays = self._binding.copy_outputs_to_cpu()
        return [a.view(np.uint16) if a.dtype.name == "bfloat16" else a for a in arrays]

    def close(self):
        self._binding = self._session = None
