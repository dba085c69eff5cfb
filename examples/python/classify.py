# SPDX-License-Identifier: Apache-2.0
"""Compiles the digits model and classifies the held-out pictures."""
import pathlib

import numpy as np
import tenon

DIGITS = pathlib.Path(__file__).resolve().parents[1] / "digits"


def main() -> None:
    pictures = np.load(DIGITS / "test_images.npy")
    labels = np.load(DIGITS / "test_labels.npy")
    model = tenon.compile(DIGITS / "digits.onnx", progress=True)
    found = np.asarray(model(pictures)).argmax(axis=1)
    print(model)
    print(f"{(found == labels).mean():.1%} of {len(labels)} pictures")


if __name__ == "__main__":
    main()
