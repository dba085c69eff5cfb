# SPDX-License-Identifier: Apache-2.0
"""A program for ONNX Runtime: one import makes it one for Tenon."""
import pathlib

import numpy as np
import tenon as onnxruntime

DIGITS = pathlib.Path(__file__).resolve().parents[1] / "digits"


def main() -> None:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    session = onnxruntime.InferenceSession(str(DIGITS / "digits.onnx"), options, providers=["CPUExecutionProvider"])
    image = session.get_inputs()[0]
    (scores,) = session.run(None, {image.name: np.load(DIGITS / "test_images.npy")[:4]})
    print(image.name, image.shape, scores.argmax(axis=1))


if __name__ == "__main__":
    main()
