# SPDX-License-Identifier: Apache-2.0
"""Seeded inputs of the benchmark's models, the same for everyone who runs them."""
import numpy as np
import onnx


def page(shape, rng):
    """Dark strokes in rows on a light page, so that a text detector finds something: on noise its outputs are 1e-7."""
    image = np.full(shape, 0.9, np.float32) + 0.02 * rng.standard_normal(shape).astype(np.float32)
    height, width = shape[-2:]
    for top in range(24, height - 40, 56):
        left = int(rng.integers(16, 60))
        while left < width - 60 and rng.random() > 0.05:
            for _ in range(int(rng.integers(2, 5))):
                y, x = top + int(rng.integers(0, 18)), left + int(rng.integers(0, 12))
                if rng.random() < 0.5:
                    image[..., y : y + 4, x : x + int(rng.integers(8, 16))] = 0.05
                else:
                    image[..., y : y + int(rng.integers(8, 18)), x : x + 4] = 0.05
            left += int(rng.integers(18, 26))
    return (image - 0.5) / 0.5


def inputs_of(path, seed=1):
    """Values for the model's inputs, by name. Symbolic dimensions are 1; the benchmark's own models have none."""
    rng = np.random.default_rng(seed)
    model = onnx.load(path, load_external_data=False)
    constants = {t.name for t in model.graph.initializer}
    feed = {}
    for value in model.graph.input:
        if value.name in constants:
            continue
        tensor = value.type.tensor_type
        shape = [d.dim_value if d.dim_value > 0 else 1 for d in tensor.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if path.stem == "ppocr_v4_det":
            feed[value.name] = page(shape, rng)
        elif value.name == "attention_mask":  # the last fifth is padding
            mask = np.ones(shape, dtype)
            mask[..., shape[-1] - shape[-1] // 5 :] = 0
            feed[value.name] = mask
        elif value.name == "input_ids":
            feed[value.name] = rng.integers(0, 30522, shape).astype(dtype)
        elif dtype.kind == "f":
            feed[value.name] = rng.random(shape).astype(dtype)
        else:
            feed[value.name] = rng.integers(0, 10, shape).astype(dtype)
    return feed


def dims_arguments(path, feed):
    """--dim NAME=N for every symbolic dimension, as the inputs have it."""
    dims = {}
    for value in onnx.load(path, load_external_data=False).graph.input:
        for i, dim in enumerate(value.type.tensor_type.shape.dim):
            if value.name in feed and dim.dim_value <= 0:
                name = dim.dim_param if dim.dim_param not in ("", "?") else f"{value.name}_d{i}"
                dims[name] = feed[value.name].shape[i]
    return [a for n, size in sorted(dims.items()) for a in ("--dim", f"{n}={size}")]
