# SPDX-License-Identifier: Apache-2.0
"""Draws networks of layers with the channels that models have: convolutions of all kinds, activations, gates, joins, attention.

Where `draw` looks for corner values of single operators, these reach what depends on channels that fill blocks, registers and groups or
do not, and what neighbours do to one another's layouts, at float32, at 16 bits and quantised. The batch is symbolic."""
import numpy as np
from draw import Case, session_of
from onnx import TensorProto, helper, numpy_helper

CHANNELS = (3, 4, 8, 12, 13, 16, 20, 24, 32, 36, 40, 48, 64, 72, 96, 104, 120, 136)
MOST_CHANNELS = 300
BATCHES = (1, 3)  # of the later runs
PAST = (3, 0, 5)  # entries of a cache in each run


class Network:
    """Layers behind `x`; `at` is the value that the next one reads, `kept` what later ones may read, too."""

    def __init__(self, seed):
        self.r = np.random.default_rng(seed)
        self.nodes, self.constants, self.kept = [], [], []
        self.shape = [self.pick((1, 1, 1, 2)), self.pick((3, 8, 16, 24)), *self.r.integers(5, 30, 2).tolist()]
        self.at, self.channels, self.plane = "x", self.shape[1], tuple(self.shape[2:])
        self.opset = 18
        self.inputs, self.presents = [], []  # name, element type, sizes, values by batch and past; further results

    def pick(self, items):
        return items[int(self.r.integers(len(items)))]

    def chance(self, p):
        return self.r.random() < p

    def const(self, array):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def number(self, v):
        return self.const(np.float32(v))

    def weight(self, *shape):
        """Of a sum over all axes but the first, so that results are about as large as inputs."""
        return self.const((self.r.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype("float32"))

    def per_channel(self, low, high):
        return self.const(self.r.uniform(low, high, (1, self.channels, 1, 1)).astype("float32"))

    def op(self, kind, inputs, outputs=1, **attributes):
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, **{k: v for k, v in attributes.items() if v is not None}))
        return names[0] if outputs == 1 else names

    # ---- layers; each leaves `at`, `channels` and `plane` as they are behind it, or does nothing where it does not fit
    def convolution(self):
        outputs, groups, kind = self.pick(CHANNELS), 1, self.r.random()
        if kind < 0.25:
            groups, outputs = self.channels, self.channels * self.pick((1, 1, 1, 2))
        elif kind < 0.5:
            each = self.pick((1, 2, 4, 8, 16, 32))
            if self.channels % each == 0 and self.channels > each:
                groups = self.channels // each
                outputs = groups * self.pick((each, each, 2 * each))
        k = [self.pick((1, 1, 3, 3, 5, 2))]
        k.append(k[0] if self.chance(0.85) else self.pick((1, 3)))
        stride, dilation = self.pick((1, 1, 1, 2)), self.pick((1, 1, 1, 2))
        pads = [dilation * (n - 1) // 2 for n in k] * 2
        if self.chance(0.2):
            pads[2] += 1
        plane = tuple((n + pads[i] + pads[i + 2] - dilation * (k[i] - 1) - 1) // stride + 1 for i, n in enumerate(self.plane))
        if min(plane) < 1 or outputs > MOST_CHANNELS:
            return
        inputs = [self.at, self.weight(outputs, self.channels // groups, *k)]
        if self.chance(0.7):
            inputs.append(self.const((0.3 * self.r.standard_normal(outputs)).astype("float32")))
        self.at = self.op("Conv", inputs, group=groups, strides=[stride] * 2, dilations=[dilation] * 2, pads=pads, kernel_shape=k)
        self.channels, self.plane = outputs, plane

    def transposed(self):
        k, outputs = self.pick((2, 3, 4)), self.pick((8, 16, 24, 32, 48))
        pad = self.pick((0, 1)) if k > 2 else 0
        if self.plane[0] > 24:
            return
        self.at = self.op("ConvTranspose", [self.at, self.weight(self.channels, outputs, k, k)], strides=[2, 2], pads=[pad] * 4, kernel_shape=[k, k])
        self.channels, self.plane = outputs, tuple((n - 1) * 2 - 2 * pad + k for n in self.plane)

    def activation(self):
        x = self.at
        above_zero = lambda: self.op("Add", [self.op("Abs", [x]), self.per_channel(0.5, 1)])  # noqa: E731
        self.at = self.pick((
            *[lambda kind=kind: self.op(kind, [x]) for kind in ("Relu", "Relu", "Relu", "Sigmoid", "Tanh", "HardSwish", "Elu", "Softplus", "Erf", "Mish")],
            lambda: self.op("Clip", [x, self.number(0), self.number(6)]),
            lambda: self.op("Mul", [x, self.op("Sigmoid", [x])]),
            lambda: self.op("Mul", [x, self.op("Add", [self.op("Erf", [self.op("Div", [x, self.number(2**0.5)])]), self.number(1)])]),
            lambda: self.op("LeakyRelu", [x], alpha=0.1),
            lambda: self.op("PRelu", [x, self.const(self.r.uniform(0, 0.3, (self.channels, 1, 1)).astype("float32"))]),
            # Where channels were added to fill a block these are no numbers.
            *[lambda kind=kind: self.op(kind, [above_zero()]) for kind in ("Reciprocal", "Log") for _ in range(2)],
            lambda: self.op("Exp", [self.op("Clip", [x, self.number(-3), self.number(1)])]),
            lambda: self.op("Sqrt", [self.op("Abs", [x])]),
            lambda: self.op("Add", [self.op("Mul", [x, self.per_channel(0.5, 1.5)]), self.per_channel(-0.5, 0.5)]),
            lambda: self.op("Div", [x, self.per_channel(0.5, 1.5)]),
        ))()

    def pool(self):
        k, stride, kind = self.pick((2, 3)), self.pick((1, 2)), self.pick(("MaxPool", "AveragePool"))
        pad = k // 2 if self.chance(0.5) else 0
        if min(self.plane) <= 3:
            return
        include = self.pick((0, 1)) if kind == "AveragePool" else None
        self.at = self.op(kind, [self.at], kernel_shape=[k, k], strides=[stride] * 2, pads=[pad] * 4, count_include_pad=include)
        self.plane = tuple((n + 2 * pad - k) // stride + 1 for n in self.plane)

    def gate(self):
        """Squeeze and excitation."""
        middle = self.pick((4, 8, 10, 16))
        g = self.op("Relu", [self.op("Conv", [self.op("GlobalAveragePool", [self.at]), self.weight(middle, self.channels, 1, 1)])])
        g = self.op(self.pick(("Sigmoid", "HardSigmoid")), [self.op("Conv", [g, self.weight(self.channels, middle, 1, 1)])])
        self.at = self.op("Mul", [self.at, g])

    def combination(self):
        fits = [name for name, channels, plane in self.kept if (channels, plane) == (self.channels, self.plane)]
        if fits:
            self.at = self.op(self.pick(("Add", "Add", "Mul", "Sub", "Max")), [self.at, self.pick(fits)])

    def joined(self):
        fits = [(name, channels) for name, channels, plane in self.kept if plane == self.plane and channels + self.channels < MOST_CHANNELS]
        if fits:
            name, channels = self.pick(fits)
            self.at = self.op("Concat", [self.at, name] if self.chance(0.5) else [name, self.at], axis=1)
            self.channels += channels

    def split(self):
        if self.channels < 6:
            return
        first = int(self.r.integers(1, self.channels - 1))
        sizes = [first, self.channels - first]
        parts = self.op("Split", [self.at, self.const(np.array(sizes))], outputs=2, axis=1)
        if self.chance(0.5):
            i = int(self.r.integers(2))
            self.at, self.channels = parts[i], sizes[i]
        else:
            self.at = self.op("Concat", [parts[1], self.op("Relu", [parts[0]])], axis=1)

    def shuffled(self):
        if self.channels % 2 == 0:
            x = self.op("Reshape", [self.at, self.const(np.array([0, 2, self.channels // 2, *self.plane]))])
            x = self.op("Transpose", [x], perm=[0, 2, 1, 3, 4])
            self.at = self.op("Reshape", [x, self.const(np.array([0, self.channels, *self.plane]))])

    def resized(self):
        if max(self.plane) >= 24:
            return
        factors = self.const(np.array([1, 1, 2, 2], "float32"))
        how = self.pick((dict(mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
                         dict(mode="linear", coordinate_transformation_mode="half_pixel"), dict(mode="linear", coordinate_transformation_mode="align_corners")))
        self.at, self.plane = self.op("Resize", [self.at, "", factors], **how), tuple(2 * n for n in self.plane)

    def attention(self):
        """Points as tokens: a norm, two products by matrices, a softmax over products of tokens."""
        c, width = self.channels, self.pick(CHANNELS[2:])
        vector = lambda low, high: self.const(self.r.uniform(low, high, c).astype("float32"))  # noqa: E731
        matrix = lambda: self.const((self.r.standard_normal((c, width)) / np.sqrt(c)).astype("float32"))  # noqa: E731
        x = self.op("Transpose", [self.op("Reshape", [self.at, self.const(np.array([0, c, -1]))])], perm=[0, 2, 1])
        x = self.op("LayerNormalization", [x, vector(0.5, 1.5), vector(-0.1, 0.1)], axis=-1)
        q, k = self.op("MatMul", [x, matrix()]), self.op("MatMul", [x, matrix()])
        scores = self.op("Mul", [self.op("MatMul", [q, self.op("Transpose", [k], perm=[0, 2, 1])]), self.number(width**-0.5)])
        x = self.op("MatMul", [self.op("Softmax", [scores], axis=-1), q])
        self.at = self.op("Reshape", [self.op("Transpose", [x], perm=[0, 2, 1]), self.const(np.array([0, width, *self.plane]))])
        self.channels = width


LAYERS = ((Network.convolution, 0.45), (Network.activation, 0.2), (Network.pool, 0.05), (Network.gate, 0.05), (Network.combination, 0.07),
          (Network.joined, 0.06), (Network.split, 0.03), (Network.shuffled, 0.02), (Network.resized, 0.02), (Network.transposed, 0.02), (Network.attention, 0.03))


def draw_network(seed, most, kind=Network, layers=LAYERS):
    """The network of this seed, with up to `most` layers, and inputs for several batches; None where a result is not finite."""
    n = kind(seed)
    for _ in range(int(n.r.integers(3, max(4, most)))):
        n.pick([layer for layer, weight in layers for _ in range(round(100 * weight))])(n)
        n.kept.append((n.at, n.channels, n.plane))
    inner = [name for name, _, _ in n.kept if name not in ("x", n.at)]
    outputs = [n.op("Relu", ["x"]) if n.at == "x" else n.at, *([n.pick(inner)] if inner and n.chance(0.3) else []), *n.presents]
    inputs = [("x", TensorProto.FLOAT, ["N", *n.shape[1:]], None), *n.inputs]
    graph = helper.make_graph(n.nodes, f"network{seed}", [helper.make_tensor_value_info(*i[:3]) for i in inputs],
                              [helper.make_tensor_value_info(o, TensorProto.FLOAT, [None] * 4) for o in outputs], n.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", n.opset)], ir_version=10)
    feeds = [{"x": n.r.standard_normal([b, *n.shape[1:]]).astype("float32"), **{name: values(b, p) for name, _, _, values in n.inputs}}
             for b, p in zip((n.shape[0], *BATCHES), PAST)]
    session = session_of(model.SerializeToString())
    if not all(np.isfinite(v).all() for f in feeds for v in session.run(None, f)):
        return None
    return Case(model, [{"N": len(f["x"])} for f in feeds], feeds, set())


def quantised(model, feed, folder):
    """The model as ONNX Runtime's quantiser writes it: QDQ, per channel or not, calibrated with these inputs."""
    from onnxruntime import quantization as q

    class Once(q.CalibrationDataReader):
        left = [feed]

        def get_next(self):
            return self.left.pop() if self.left else None

    import onnx
    r = np.random.default_rng(len(model.SerializeToString()))
    onnx.save(model, folder / "float.onnx")
    kind = q.QuantType.QUInt8 if r.integers(2) else q.QuantType.QInt8
    q.quantize_static(folder / "float.onnx", folder / "qdq.onnx", Once(), quant_format=q.QuantFormat.QDQ, per_channel=bool(r.integers(2)),
                      activation_type=kind, weight_type=q.QuantType.QInt8)
    return onnx.load(folder / "qdq.onnx")


def finite_inside(model, feed):
    """Is every real number finite that a model computes of these inputs?"""
    import onnx
    opened = onnx.ModelProto()
    opened.CopyFrom(model)
    known = {o.name for o in model.graph.output}
    opened.graph.output.extend(onnx.ValueInfoProto(name=o) for n in model.graph.node for o in n.output if o and o not in known)
    values = (np.asarray(v) for v in session_of(opened.SerializeToString()).run(None, feed))
    return all(np.isfinite(v).all() for v in values if v.dtype.kind == "f")
