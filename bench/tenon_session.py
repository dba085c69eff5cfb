# SPDX-License-Identifier: Apache-2.0
"""A compiled model whose inputs and outputs stay, as the bench times it: `tenon.InferenceSession` with a binding."""
import numpy as np

BFLOAT16 = 16  # ONNX's number


class Session:
    """`artifact` with fixed inputs, in order, on `threads` threads; outputs are the tensors that a first run made: aligned to
    lines of the cache, as those of an array of NumPy are not. bfloat16 is given and taken as uint16, its bits."""

    def __init__(self, artifact, inputs, threads):
        import tenon

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
        for name, _, _ in self._session.outputs:
            self._binding.bind_output(name)
        if all(dtype for _, dtype, _ in self._session.outputs):
            self.run()
            for (name, _, _), value in zip(self._session.outputs, self._binding.get_outputs()):
                self._binding.bind_ortvalue_output(name, value)

    def run(self):
        self._session.run_with_iobinding(self._binding)

    def outputs(self):
        """The results of the last run."""
        arrays = self._binding.copy_outputs_to_cpu()
        return [a.view(np.uint16) if a.dtype.name == "bfloat16" else a for a in arrays]

    def close(self):
        self._binding = self._session = None
