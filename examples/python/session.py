# SPDX-License-Identifier: Apache-2.0
"""A program for ONNX Runtime: one import makes it one for Tenon."""
import pathlib
from typing import Any

import numpy as np
import tenon as onnxruntime

DIGITS = pathlib.Path(__file__).resolve().parents[1] / "digits"


def main() -> None:
    session = onnxruntime.InferenceSession(str(DIGITS / "digits.onnx"), providers=["CPUExecutionProvider"])
    image = session.get_inputs()[0]
    outputs: list[Any] = session.run(None, {image.name: np.load(DIGITS / "test_images.npy")[:4]})
    print(image.name, image.shape, np.asarray(outputs[0]).argmax(axis=1))


if __name__ == "__main__":
    main()
