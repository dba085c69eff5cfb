#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Networks without float parts, as a quantiser writes them in the QLinear form: every integer is that of ONNX's reference
evaluator. Sizes are odd and channels no whole vectors, so that edges are masked as well."""
import unittest

import tenon
from models import TensorProto, helper, info, model_of, np, onnx

try:
    from onnx.reference import ReferenceEvaluator
except ImportError:
    raise unittest.SkipTest("this onnx has no reference evaluator") from None

KINDS = {np.uint8: TensorProto.UINT8, np.int8: TensorProto.INT8, np.int32: TensorProto.INT32}


class Network:
    """Nodes and constants one after another. Factors are no powers of two: the reference adds zero points before it rounds,
    the standard's text behind it, and they are the same integer where nothing meets a half."""

    def __init__(self, seed, kind=np.uint8):
        self.rng, self.kind, self.nodes, self.constants = np.random.default_rng(seed), kind, [], []
        self.last, self.channels = "x", 3
        self.scale, self.zero = self.next_quantisation()

    def constant(self, value):
        name = f"c{len(self.constants)}"
        self.constants.append(onnx.numpy_helper.from_array(np.asarray(value), name))
        return name

    def next_quantisation(self):
        low = np.iinfo(self.kind).min
        return (self.constant(np.float32(self.rng.uniform(0.011, 0.043))),
                self.constant(self.kind(low + self.rng.integers(90, 160))))

    def node(self, op, inputs, **attributes):
        made = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [made], **attributes))
        return made

    def weights(self, shape):
        """Bytes, and a scale for each output that spreads the results over the bytes."""
        values = self.constant(self.rng.integers(-127, 128, shape).astype(np.int8))
        taps = int(np.prod(shape[1:]))
        return values, (self.rng.uniform(0.9, 1.7, shape[0]) / (73 * taps**0.5)).astype(np.float32)

    def conv(self, outputs, kernel, group=1, bias=True, **attributes):
        values, scales = self.weights((outputs, self.channels // group, *kernel))
        scales = scales if len(kernel) == 2 else scales[0]  # the evaluator has a scale for each channel of images only
        scale, zero = self.next_quantisation()
        inputs = [self.last, self.scale, self.zero, values, self.constant(scales), self.constant(np.zeros(scales.shape, np.int8)), scale, zero]
        if bias:
            inputs.append(self.constant(self.rng.integers(-2000, 2000, outputs).astype(np.int32)))
        self.last, self.scale, self.zero, self.channels = self.node("QLinearConv", inputs, group=group, **attributes), scale, zero, outputs

    def product(self, columns, outputs):
        values = self.constant(self.rng.integers(-127, 128, (columns, outputs)).astype(np.int8))
        scale, zero = self.next_quantisation()
        inputs = [self.last, self.scale, self.zero, values, self.constant(np.float32(1 / (73 * columns**0.5))), self.constant(np.int8(0)), scale, zero]
        self.last, self.scale, self.zero = self.node("QLinearMatMul", inputs), scale, zero

    def model(self, shape, kind=None):
        self.nodes[-1].output[0] = "y"
        return model_of(self.nodes, [info("x", shape, KINDS[self.kind])], [info("y", None, KINDS[kind or self.kind])], self.constants)


def convolutions(kind, seed):
    """First layer of three channels, depthwise, grouped, strided, dilated, pointwise; a pool and a product at the end."""
    net = Network(seed, kind)
    net.conv(20, (3, 3), strides=[2, 2], pads=[1, 1, 1, 1])
    net.conv(20, (3, 3), group=20, pads=[1, 1, 1, 1])
    net.conv(36, (1, 1), bias=False)
    if kind is np.uint8:  # MaxPool takes both, the evaluator pads signed bytes with what is none
        net.last = net.node("MaxPool", [net.last], kernel_shape=[3, 3], strides=[2, 2])
    net.conv(36, (3, 3), group=4, dilations=[2, 2], pads=[2, 2, 2, 2])
    net.conv(17, (5, 3), strides=[1, 2], pads=[2, 1, 2, 1])
    net.last = net.node("Transpose", [net.last], perm=[0, 2, 3, 1])
    net.product(17, 10)
    return net.model((1, 3, 27, 29))


def lines(kind, seed):
    net = Network(seed, kind)
    net.channels = 12
    net.conv(24, (5,), pads=[2, 2])
    net.conv(24, (3,), group=24, pads=[1, 1])
    net.conv(9, (1,), strides=[2])
    return net.model((2, 12, 33))


def products(kind, seed):
    net = Network(seed, kind)
    net.product(37, 65)
    net.product(65, 21)
    return net.model((2, 5, 37))


def sums(kind, seed):
    """ConvInteger and MatMulInteger: the sums themselves."""
    net = Network(seed, kind)
    point = kind(7)
    net.last = net.node("ConvInteger", [net.last, net.weights((21, 3, 3, 3))[0], net.constant(point), net.constant(np.int8(0))], pads=[1, 1, 1, 1], strides=[2, 2])
    return net.model((1, 3, 19, 17), np.int32)


def sums_of_products(kind, seed):
    net = Network(seed, kind)
    net.last = net.node("MatMulInteger", [net.last, net.constant(net.rng.integers(-127, 128, (37, 21)).astype(np.int8)), net.constant(kind(5)), net.constant(np.int8(3))])
    return net.model((3, 5, 37), np.int32)


class Integers(unittest.TestCase):
    def same(self, model, kind, seed):
        shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
        limits = np.iinfo(kind)
        x = np.random.default_rng(100 + seed).integers(limits.min, limits.max + 1, shape).astype(kind)
        want = ReferenceEvaluator(model).run(None, {"x": x})[0]
        run = tenon.compile(model.SerializeToString())
        self.assertGreater(len(np.unique(want)), 50, "the results are to be spread over the bytes")
        np.testing.assert_array_equal(np.asarray(run(x)), want)

    def test_networks(self):
        for make in (convolutions, lines, products, sums, sums_of_products):
            for kind in (np.uint8, np.int8):
                for seed in range(2):
                    with self.subTest(make.__name__, kind=kind.__name__, seed=seed):
                        self.same(make(kind, seed), kind, seed)


if __name__ == "__main__":
    unittest.main()
