#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the digits classifier and writes digits.onnx, test_images.npy and test_labels.npy.

The data are scikit-learn's 8x8 handwritten digits (1,797 pictures; UCI ML repository, CC BY 4.0), a fixed split:
one picture in five is held out and never trained on. The network is two 3x3 convolutions with batch
normalisation, a pooling layer each, and two dense layers, trained with NumPy alone so that a reader sees every
step. Fixed seed: running it again writes the same files.

    python3 -m venv env && env/bin/pip install numpy scikit-learn onnx && env/bin/python examples/digits/train.py
"""
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits

HERE = pathlib.Path(__file__).resolve().parent
EPSILON = 1e-5


def columns(x):
    """im2col of a 3x3 convolution with padding 1: (n, c, h, w) -> (n, h, w, c*9)."""
    n, c, h, w = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    out = np.empty((n, h, w, c, 3, 3), x.dtype)
    for i in range(3):
        for j in range(3):
            out[..., i, j] = padded[:, :, i:i + h, j:j + w].transpose(0, 2, 3, 1)
    return out.reshape(n, h, w, c * 9)


class Conv:
    def __init__(self, rng, inputs, outputs):
        self.w = rng.normal(0, np.sqrt(2 / (inputs * 9)), (outputs, inputs, 3, 3)).astype(np.float32)
        self.parameters = ["w"]

    def forward(self, x, training):
        self.shape, self.cols = x.shape, columns(x)
        return (self.cols @ self.w.reshape(len(self.w), -1).T).transpose(0, 3, 1, 2)

    def backward(self, g):
        flat = g.transpose(0, 2, 3, 1)
        self.dw = np.tensordot(flat, self.cols, ((0, 1, 2), (0, 1, 2))).reshape(self.w.shape)
        turned = self.w[:, :, ::-1, ::-1].transpose(1, 0, 2, 3)
        return (columns(g) @ turned.reshape(len(turned), -1).T).transpose(0, 3, 1, 2)


class BatchNorm:
    def __init__(self, channels):
        self.scale, self.shift = np.ones(channels, np.float32), np.zeros(channels, np.float32)
        self.mean, self.var = np.zeros(channels, np.float32), np.ones(channels, np.float32)
        self.parameters = ["scale", "shift"]

    def forward(self, x, training):
        axes = (0, 2, 3)
        mean, var = (x.mean(axes), x.var(axes)) if training else (self.mean, self.var)
        if training:
            self.mean, self.var = 0.9 * self.mean + 0.1 * mean, 0.9 * self.var + 0.1 * var
        self.inv = 1 / np.sqrt(var + EPSILON)
        self.norm = (x - mean[:, None, None]) * self.inv[:, None, None]
        return self.norm * self.scale[:, None, None] + self.shift[:, None, None]

    def backward(self, g):
        axes = (0, 2, 3)
        self.dscale, self.dshift = (g * self.norm).sum(axes), g.sum(axes)
        count = g.size / g.shape[1]
        inner = g - (self.dshift / count)[:, None, None] - self.norm * (self.dscale / count)[:, None, None]
        return inner * (self.scale * self.inv)[:, None, None]


class Relu:
    parameters = []

    def forward(self, x, training):
        self.mask = x > 0
        return x * self.mask

    def backward(self, g):
        return g * self.mask


class MaxPool:
    parameters = []

    def forward(self, x, training):
        n, c, h, w = x.shape
        windows = x.reshape(n, c, h // 2, 2, w // 2, 2)
        out = windows.max((3, 5))
        mask = windows == out[:, :, :, None, :, None]
        self.mask = mask / mask.sum((3, 5), keepdims=True)
        return out

    def backward(self, g):
        n, c, h, w = g.shape
        return (self.mask * g[:, :, :, None, :, None]).reshape(n, c, h * 2, w * 2).astype(np.float32)


class Flatten:
    parameters = []

    def forward(self, x, training):
        self.shape = x.shape
        return x.reshape(len(x), -1)

    def backward(self, g):
        return g.reshape(self.shape)


class Dense:
    def __init__(self, rng, inputs, outputs):
        self.w = rng.normal(0, np.sqrt(2 / inputs), (outputs, inputs)).astype(np.float32)
        self.b = np.zeros(outputs, np.float32)
        self.parameters = ["w", "b"]

    def forward(self, x, training):
        self.x = x
        return x @ self.w.T + self.b

    def backward(self, g):
        self.dw, self.db = g.T @ self.x, g.sum(0)
        return g @ self.w


def softmax(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def train(layers, images, labels, rng, epochs=30, batch=32, rate=2e-3):
    moments = {}
    step = 0
    for epoch in range(epochs):
        order = rng.permutation(len(images))
        for start in range(0, len(order), batch):
            pick = order[start:start + batch]
            x = images[pick]
            for layer in layers:
                x = layer.forward(x, True)
            g = softmax(x)
            g[np.arange(len(pick)), labels[pick]] -= 1
            g = (g / len(pick)).astype(np.float32)
            for layer in reversed(layers):
                g = layer.backward(g)
            step += 1
            for layer in layers:
                for name in layer.parameters:
                    grad = getattr(layer, "d" + name)
                    m, v = moments.get((id(layer), name), (0, 0))
                    m, v = 0.9 * m + 0.1 * grad, 0.999 * v + 0.001 * grad * grad
                    moments[id(layer), name] = m, v
                    slope = (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
                    decay = rate * (1 - epoch / epochs)
                    setattr(layer, name, (getattr(layer, name) - decay * slope).astype(np.float32))


def predict(layers, images):
    x = images
    for layer in layers:
        x = layer.forward(x, False)
    return x


def export(layers, path):
    conv1, norm1, _, _, conv2, norm2, _, _, _, dense1, _, dense2 = layers
    initializers = []

    def constant(name, value):
        initializers.append(numpy_helper.from_array(np.ascontiguousarray(value, np.float32), name))
        return name

    nodes, value = [], "image"
    for index, (conv, norm) in enumerate(((conv1, norm1), (conv2, norm2)), 1):
        nodes.append(helper.make_node("Conv", [value, constant(f"conv{index}.weight", conv.w)], [f"conv{index}"], f"conv{index}",
                                      kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1]))
        nodes.append(helper.make_node("BatchNormalization",
                                      [f"conv{index}"] + [constant(f"norm{index}.{n}", v) for n, v in
                                                          (("scale", norm.scale), ("shift", norm.shift), ("mean", norm.mean), ("var", norm.var))],
                                      [f"norm{index}"], f"norm{index}", epsilon=EPSILON))
        nodes.append(helper.make_node("Relu", [f"norm{index}"], [f"relu{index}"], f"relu{index}"))
        nodes.append(helper.make_node("MaxPool", [f"relu{index}"], [f"pool{index}"], f"pool{index}", kernel_shape=[2, 2], strides=[2, 2]))
        value = f"pool{index}"
    nodes.append(helper.make_node("Flatten", [value], ["flat"], "flatten", axis=1))
    nodes.append(helper.make_node("Gemm", ["flat", constant("dense1.weight", dense1.w), constant("dense1.bias", dense1.b)],
                                  ["dense1"], "dense1", transB=1))
    nodes.append(helper.make_node("Relu", ["dense1"], ["relu3"], "relu3"))
    nodes.append(helper.make_node("Gemm", ["relu3", constant("dense2.weight", dense2.w), constant("dense2.bias", dense2.b)],
                                  ["logits"], "dense2", transB=1))
    nodes.append(helper.make_node("Softmax", ["logits"], ["probability"], "softmax", axis=1))
    graph = helper.make_graph(
        nodes, "digits", [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])],
        [helper.make_tensor_value_info("probability", TensorProto.FLOAT, ["batch", 10])], initializers)
    model = helper.make_model(graph, producer_name="tenon-digits", opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString(deterministic=True))


def main():
    rng = np.random.default_rng(20260101)
    data = load_digits()
    images = (data.images / 16).astype(np.float32)[:, None]
    labels = data.target
    order = rng.permutation(len(images))
    held_out, kept = order[:len(order) // 5], order[len(order) // 5:]
    layers = [Conv(rng, 1, 16), BatchNorm(16), Relu(), MaxPool(), Conv(rng, 16, 32), BatchNorm(32), Relu(), MaxPool(),
              Flatten(), Dense(rng, 128, 64), Relu(), Dense(rng, 64, 10)]
    train(layers, images[kept], labels[kept], rng)
    accuracy = (predict(layers, images[held_out]).argmax(1) == labels[held_out]).mean()
    print(f"accuracy on {len(held_out)} held-out pictures: {accuracy:.2%}")
    export(layers, HERE / "digits.onnx")
    np.save(HERE / "test_images.npy", images[held_out])
    np.save(HERE / "test_labels.npy", labels[held_out].astype(np.int64))


if __name__ == "__main__":
    main()
