# SPDX-License-Identifier: Apache-2.0
"""Draws networks whose layers `layers` has not: transposed convolutions of all attributes, norms over instances and groups, attention with
masks and a cache, recurrent layers between convolutions, einsum, resizing in every mode, other gates, slices that shapes or data place."""
import numpy as np
from layers import CHANNELS, LAYERS, MOST_CHANNELS, Network, draw_network
from onnx import TensorProto

MOST_POINTS = 900  # of an image


class Blocks(Network):
    def __init__(self, seed):
        super().__init__(seed)
        self.opset = self.pick((18, 21))

    def input(self, kind, sizes, values):
        name = f"i{len(self.inputs)}"
        self.inputs.append((name, kind, sizes, values))
        return name

    def ints(self, *values):
        return self.const(np.array(values, "int64"))

    def vector(self, low, high, n):
        return self.const(self.r.uniform(low, high, n).astype("float32"))

    def matrix(self, rows, columns):
        return self.const((self.r.standard_normal((rows, columns)) / np.sqrt(rows)).astype("float32"))

    def reshaped(self, x, *shape):
        return self.op("Reshape", [x, self.ints(*shape)])

    def size(self, axis):
        """The size of an axis of `at` as a vector of one element, from its shape."""
        return self.op("Gather", [self.op("Shape", [self.at]), self.ints(axis)], axis=0)

    # ---- layers
    def transposed_convolution(self):
        k, strides, dilations = ([self.pick(of) for _ in range(2)] for of in ((1, 2, 3, 4), (1, 1, 2, 2, 3), (1, 1, 1, 2)))
        groups = self.pick([g for g in (1, 1, 2, 4, self.channels) if self.channels % g == 0])
        each = self.pick((1, 2, 4, 8, 12))
        pads = [int(self.r.integers(0, n)) for n in k * 2]
        more = [int(self.r.integers(0, s)) if self.chance(0.3) else 0 for s in strides]
        plane = tuple((n - 1) * strides[i] + more[i] + dilations[i] * (k[i] - 1) + 1 - pads[i] - pads[i + 2] for i, n in enumerate(self.plane))
        if min(plane) < 1 or np.prod(plane) > MOST_POINTS or groups * each > MOST_CHANNELS:
            return
        inputs = [self.at, self.weight(self.channels, each, *k)]
        if self.chance(0.5):
            inputs.append(self.vector(-0.5, 0.5, groups * each))
        self.at = self.op("ConvTranspose", inputs, group=groups, strides=strides, dilations=dilations, pads=pads, output_padding=more, kernel_shape=k)
        self.channels, self.plane = groups * each, plane

    def norm(self):
        c = self.channels
        groups = self.pick([g for g in (1, 2, 4, 8, c) if c % g == 0])
        scale = lambda n: (self.vector(0.5, 1.5, n), self.vector(-0.3, 0.3, n))  # noqa: E731
        affine = lambda x: self.op("Add", [self.op("Mul", [x, self.per_channel(0.5, 1.5)]), self.per_channel(-0.3, 0.3)])  # noqa: E731
        kind = self.pick(("instance", "groups", "by groups", "batch", "channels last", "root mean square"))
        if kind == "instance":
            self.at = self.op("InstanceNormalization", [self.at, *scale(c)], epsilon=1e-3)
        elif kind == "by groups" and self.opset >= 21:
            self.at = self.op("GroupNormalization", [self.at, *scale(c)], num_groups=groups, epsilon=1e-3)
        elif kind in ("groups", "by groups"):  # as PyTorch writes it
            x = self.op("InstanceNormalization", [self.reshaped(self.at, 0, groups, -1), self.const(np.ones(groups, "float32")), self.const(np.zeros(groups, "float32"))], epsilon=1e-3)
            self.at = affine(self.op("Reshape", [x, self.op("Shape", [self.at])]))
        elif kind == "batch":
            self.at = self.op("BatchNormalization", [self.at, *scale(c), self.vector(-0.3, 0.3, c), self.vector(0.5, 2, c)])
        elif kind == "channels last":
            x = self.op("LayerNormalization", [self.op("Transpose", [self.at], perm=[0, 2, 3, 1]), *scale(c)], axis=-1)
            self.at = self.op("Transpose", [x], perm=[0, 3, 1, 2])
        else:
            mean = self.op("ReduceMean", [self.op("Mul", [self.at, self.at]), self.ints(1)], keepdims=1)
            self.at = affine(self.op("Div", [self.at, self.op("Sqrt", [self.op("Add", [mean, self.number(1e-3)])])]))

    def masked_attention(self):
        """Points as tokens of several heads; their keys and values behind those of a cache, and a mask."""
        heads, width, tokens = self.pick((1, 2, 3, 4)), self.pick((4, 8, 12, 16)), int(np.prod(self.plane))
        if tokens > 200:
            return
        inner, kind = heads * width, self.pick(("none", "causal", "lengths", "bias"))
        x = self.op("Transpose", [self.reshaped(self.at, 0, self.channels, -1)], perm=[0, 2, 1])
        split = lambda y: self.op("Transpose", [self.reshaped(y, 0, -1, heads, width)], perm=[0, 2, 1, 3])  # noqa: E731
        if self.chance(0.4):
            joined = self.op("MatMul", [x, self.matrix(self.channels, 3 * inner)])
            q, k, v = (split(part) for part in self.op("Split", [joined, self.ints(inner, inner, inner)], outputs=3, axis=-1))
        else:
            q, k, v = (split(self.op("Add", [self.op("MatMul", [x, self.matrix(self.channels, inner)]), self.vector(-0.3, 0.3, inner)])) for _ in range(3))
        past = not self.presents and self.chance(0.5)
        if past:
            values = [lambda b, p: self.r.standard_normal((b, heads, p, width)).astype("float32") for _ in range(2)]
            k, v = (self.op("Concat", [self.input(TensorProto.FLOAT, ["N", heads, "P", width], of), y], axis=2) for y, of in zip((k, v), values))
            self.presents += [k, v]
        scores = self.op("Mul", [self.op("MatMul", [q, self.op("Transpose", [k], perm=[0, 1, 3, 2])]), self.number(width**-0.5)])
        if kind == "causal" and not past:
            seen = self.const(np.tril(np.ones((tokens, tokens), bool)))
            scores = self.op("Where", [seen, scores, self.number(self.pick((-1e9, -1e4, float("-inf"))))])
        elif kind == "lengths":
            last = self.op("Gather", [self.op("Shape", [k]), self.const(np.int64(2))])
            places = self.op("Range", [self.const(np.int64(0)), last, self.const(np.int64(1))])
            lengths = self.input(TensorProto.INT64, ["N", 1, 1, 1], lambda b, p: self.r.integers(1, tokens + 1, (b, 1, 1, 1)))
            hidden = self.op("Cast", [self.op("Less", [places, lengths])], to=TensorProto.FLOAT)
            scores = self.op("Add", [scores, self.op("Mul", [self.op("Sub", [self.number(1), hidden]), self.number(-1e4)])])
        elif kind == "bias" and not past:
            scores = self.op("Add", [scores, self.const(self.r.standard_normal((1, heads, tokens, tokens)).astype("float32"))])
        x = self.op("MatMul", [self.op("Softmax", [scores], axis=-1), v])
        x = self.op("MatMul", [self.reshaped(self.op("Transpose", [x], perm=[0, 2, 1, 3]), 0, -1, inner), self.matrix(inner, self.channels)])
        x = self.reshaped(self.op("Transpose", [x], perm=[0, 2, 1]), 0, self.channels, *self.plane)
        self.at = self.op("Add", [self.at, x]) if self.chance(0.7) else x

    def recurrent(self):
        """Columns of the image as steps."""
        kind = self.pick(("LSTM", "GRU", "RNN"))
        hidden, gates, height = self.pick((3, 8, 16, 24)), {"RNN": 1, "GRU": 3, "LSTM": 4}[kind], self.plane[0]
        if self.chance(0.5) or self.channels * height > MOST_CHANNELS:
            x, height = self.op("ReduceMean", [self.at, self.ints(2)], keepdims=0), 1
        else:
            x = self.reshaped(self.at, 0, -1, self.plane[1])
        direction = self.pick(("forward", "reverse", "bidirectional"))
        k = 2 if direction == "bidirectional" else 1
        weights = [self.const((self.r.standard_normal((k, gates * hidden, n)) / np.sqrt(n)).astype("float32")) for n in (self.channels * height, hidden)]
        bias = self.const((0.3 * self.r.standard_normal((k, 2 * gates * hidden))).astype("float32"))
        extra = {"linear_before_reset": self.pick((None, 0, 1))} if kind == "GRU" else {}
        y = self.op(kind, [self.op("Transpose", [x], perm=[2, 0, 1]), *weights, *([bias] if self.chance(0.7) else [])], hidden_size=hidden, direction=direction, **extra)
        if self.chance(0.5):  # directions as rows
            self.at = self.op("Transpose", [y], perm=[2, 3, 1, 0])
            self.channels, self.plane = hidden, (k, self.plane[1])
        else:
            self.at = self.reshaped(self.op("Transpose", [y], perm=[2, 1, 3, 0]), 0, k * hidden, 1, -1)
            self.channels, self.plane = k * hidden, (1, self.plane[1])

    def einsum(self):
        c, (h, w), outputs = self.channels, self.plane, self.pick(CHANNELS[1:10])
        equation, operands, channels, plane = self.pick((
            ("nchw,cd->ndhw", lambda: [self.matrix(c, outputs)], outputs, (h, w)),
            ("nchw,dc->ndwh", lambda: [self.weight(outputs, c)], outputs, (w, h)),
            ("nchw,wv->nchv", lambda: [self.matrix(w, outputs)], c, (h, outputs)),
            ("nchw,hk,wv->nckv", lambda: [self.matrix(h, 7), self.matrix(w, 5)], c, (7, 5)),
            ("nchw,nchv->ncwv", lambda: [self.op("Tanh", [self.at])], c, (w, w)),
            ("nchw,ndhw->ncdh", lambda: [self.op("Sigmoid", [self.at])], c, (c, h)),
            ("nchw,c->nchw", lambda: [self.vector(0.5, 1.5, c)], c, (h, w)),
            ("nchw,chw->nhcw", lambda: [self.const(self.r.standard_normal((c, h, w)).astype("float32"))], h, (c, w)),
        ))
        if np.prod(plane) <= MOST_POINTS:
            x = self.op("Einsum", [self.at, *operands()], equation=equation)
            self.at, self.channels, self.plane = self.op("Mul", [x, self.number(0.25)]), channels, plane

    def resized_anyhow(self):
        mode = self.pick(("nearest", "linear", "cubic"))
        how = dict(mode=mode, coordinate_transformation_mode=self.pick(("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")))
        if mode == "nearest":
            how["nearest_mode"] = self.pick(("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"))
        elif how["coordinate_transformation_mode"] not in ("align_corners", "asymmetric") and self.chance(0.3):
            how["antialias"] = 1
        if mode == "cubic":
            how.update(cubic_coeff_a=self.pick((None, -0.5)), exclude_outside=self.pick((None, 1)))
        # Which element is nearest to a middle between two must not hang on the rounding of a factor.
        factors = [self.pick((0.5, 1.0, 2.0) if mode == "nearest" else (0.5, 0.75, 1.0, 1.5, 2.0, 3.0)) for _ in range(2)]
        plane = tuple(int(np.floor(n * f)) for n, f in zip(self.plane, factors))
        whole = all(n * f == size for n, f, size in zip(self.plane, factors, plane))
        if min(plane) < 1 or np.prod(plane) > MOST_POINTS:
            return
        # Corners of an image that ends within a point are another matter (`explained`).
        if self.chance(0.5) and (whole or how["coordinate_transformation_mode"] != "align_corners"):
            inputs = [self.at, "", self.const(np.array([1, 1, *factors], "float32"))]
        else:  # by sizes, as exporters write them
            batch = self.op("Concat", [self.size(0), self.ints(self.channels, *plane)], axis=0)
            inputs = [self.at, "", "", batch]
        self.at, self.plane = self.op("Resize", inputs, **how), plane

    def other_gate(self):
        c, kind = self.channels, self.pick(("dense", "spatial", "neighbours", "maximum"))
        if kind == "spatial":
            both = self.op("Concat", [self.op("ReduceMean", [self.at, self.ints(1)]), self.op("ReduceMax", [self.at, self.ints(1)])], axis=1)
            g = self.op("Conv", [both, self.weight(1, 2, 3, 3)], pads=[1] * 4, kernel_shape=[3, 3])
        elif kind == "neighbours":  # a convolution over the channels
            x = self.op("Unsqueeze", [self.op("ReduceMean", [self.at, self.ints(2, 3)], keepdims=0), self.ints(1)])
            g = self.op("Conv", [x, self.weight(1, 1, 3)], pads=[1, 1], kernel_shape=[3])
            g = self.reshaped(g, 0, c, 1, 1)
        else:
            x = self.op("ReduceMean" if kind == "dense" else "ReduceMax", [self.at, self.ints(2, 3)], keepdims=0)
            g = self.op("Relu", [self.op("Gemm", [x, self.weight(6, c), self.vector(-0.3, 0.3, 6)], transB=1)])
            g = self.op("Unsqueeze", [self.op("MatMul", [g, self.matrix(6, c)]), self.ints(2, 3)])
        self.at = self.op("Mul", [self.at, self.op(self.pick(("Sigmoid", "HardSigmoid", "Tanh")), [g])])

    def slice(self):
        kind, axis = self.pick(("half", "turned", "rolled", "placed", "strided")), self.pick((2, 3))
        n, sizes = self.plane[axis - 2], list(self.plane)
        if n < 4:
            return
        cut = lambda x, start, end, step=1: self.op("Slice", [x, start, end, self.ints(axis), self.ints(step)])  # noqa: E731
        most = self.ints(np.iinfo(np.int64).max)
        if kind == "half":
            self.at = cut(self.at, self.ints(0), self.op("Div", [self.size(axis), self.ints(2)]))
            sizes[axis - 2] = n // 2
        elif kind == "turned":
            self.at = cut(self.at, self.ints(-1), self.ints(np.iinfo(np.int64).min), -1)
        elif kind == "rolled":
            by = int(self.r.integers(1, n))
            self.at = self.op("Concat", [cut(self.at, self.ints(by), most), cut(self.at, self.ints(0), self.ints(by))], axis=axis)
        elif kind == "placed":  # where an input says
            length = int(self.r.integers(1, n))
            start = self.input(TensorProto.INT64, [1], lambda b, p: self.r.integers(0, n - length + 1, 1))
            sizes[axis - 2] = length
            self.at = self.reshaped(cut(self.at, start, self.op("Add", [start, self.ints(length)])), 0, self.channels, *sizes)
        else:
            first, step = int(self.r.integers(0, 3)), self.pick((2, 3))
            self.at = cut(self.at, self.ints(first), most, step)
            sizes[axis - 2] = -(-(n - first) // step)
        self.plane = tuple(sizes)

    def rearranged(self):
        """Points become channels or channels points; or a border of another kind."""
        h, w = self.plane
        if self.chance(0.4) and min(h, w) > 3:
            pads = self.r.integers(0, 3, 4).tolist()
            self.at = self.op("Pad", [self.at, self.ints(0, 0, *pads[:2], 0, 0, *pads[2:])], mode=self.pick(("reflect", "edge", "constant")))
            self.plane = (h + pads[0] + pads[2], w + pads[1] + pads[3])
        elif self.channels % 4 == 0 and h * w * 4 <= MOST_POINTS and self.chance(0.5):
            self.at = self.op("DepthToSpace", [self.at], blocksize=2, mode=self.pick(("DCR", "CRD")))
            self.channels, self.plane = self.channels // 4, (2 * h, 2 * w)
        elif h % 2 == 0 and w % 2 == 0 and 4 * self.channels <= MOST_CHANNELS:
            self.at = self.op("SpaceToDepth", [self.at], blocksize=2)
            self.channels, self.plane = 4 * self.channels, (h // 2, w // 2)


SHARE_OF_OTHERS = 0.4  # of layers that `layers` has
OF_BLOCKS = ((Blocks.transposed_convolution, 0.1), (Blocks.norm, 0.12), (Blocks.masked_attention, 0.08), (Blocks.recurrent, 0.05), (Blocks.einsum, 0.05),
             (Blocks.resized_anyhow, 0.08), (Blocks.other_gate, 0.07), (Blocks.slice, 0.07), (Blocks.rearranged, 0.05))
BLOCKS = (*((layer, SHARE_OF_OTHERS * weight) for layer, weight in LAYERS), *OF_BLOCKS)


def draw_blocks(seed, most):
    return draw_network(seed, most, Blocks, BLOCKS)
