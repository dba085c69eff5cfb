# SPDX-License-Identifier: Apache-2.0
"""Neural networks, signals, losses."""
import numpy as np

from sample_cases.case import distinct, f32, floats, i64, ints, one, seed

# Neural networks.
seed("networks")
one("Conv", floats(1, 3, 5, 5), floats(4, 3, 3, 3), floats(4), pads=[1, 1, 1, 1], constants=(1, 2))
one("Conv", floats(1, 4, 6, 6), floats(4, 1, 3, 3), group=4, strides=[2, 2], constants=(1,), name="Conv, depthwise and strided")
one("Conv", floats(2, 3, 9), floats(4, 3, 3), dilations=[2], constants=(1,), name="Conv of one dimension")
one("Conv", floats(1, 2, 4, 4, 4), floats(3, 2, 2, 2, 2), constants=(1,), name="Conv of three dimensions")
one("Conv", floats(1, 3, 5, 5), floats(4, 3, 3, 3), auto_pad="SAME_UPPER", strides=[2, 2], name="Conv with weights at run time")
one("ConvInteger", ints(1, 2, 4, 4, low=0, high=9, dtype=np.uint8), ints(3, 2, 2, 2, low=0, high=9, dtype=np.uint8), np.array(2, np.uint8), constants=(1, 2))
one("ConvTranspose", floats(1, 3, 4, 4), floats(3, 2, 3, 3), strides=[2, 2], output_padding=[1, 1], pads=[1, 1, 1, 1], constants=(1,))
data, weights, spread = floats(1, 4, 5), floats(4, 2, 3), np.zeros((1, 4, 7), np.float32)
for channel, i, k in np.ndindex(4, 5, 3):  # each value is spread over three places of its group's channels
    first = channel // 2 * 2
    spread[0, first:first + 2, i + k] += data[0, channel, i] * weights[channel, :, k]
one("ConvTranspose", data, weights, group=2, constants=(1,), name="ConvTranspose in groups", expected=[spread])
one("QLinearConv", ints(1, 2, 4, 4, low=0, high=200, dtype=np.uint8), f32(0.02).reshape(()), np.array(100, np.uint8),
    ints(3, 2, 3, 3, low=-90, high=90, dtype=np.int8), f32(0.01, 0.02, 0.03), np.zeros(3, np.int8), f32(0.05).reshape(()), np.array(120, np.uint8),
    ints(3, low=-50, high=50, dtype=np.int32), constants=(1, 2, 3, 4, 5, 6, 7, 8), pads=[1, 1, 1, 1])
one("DeformConv", floats(1, 1, 3, 3), floats(1, 1, 2, 2), floats(1, 8, 2, 2, low=-0.4, high=0.4), constants=(1,))
one("AveragePool", floats(1, 2, 5, 5), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
one("AveragePool", floats(1, 2, 5, 5), kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1, name="AveragePool that counts the padding")
one("MaxPool", floats(1, 2, 6, 6), kernel_shape=[2, 2], strides=[2, 2])
one("MaxPool", distinct(1, 1, 4, 4), kernel_shape=[2, 2], strides=[2, 2], results=2, name="MaxPool with positions")
one("MaxPool", floats(1, 2, 7), kernel_shape=[3], strides=[2], ceil_mode=1, name="MaxPool, rounding up")
one("LpPool", floats(1, 2, 6, 6), kernel_shape=[2, 2], strides=[2, 2], p=2)
one("MaxUnpool", f32(5, 6, 7, 8).reshape(1, 1, 2, 2), i64(5, 7, 13, 15).reshape(1, 1, 2, 2), kernel_shape=[2, 2], strides=[2, 2])
one("GlobalAveragePool", floats(2, 3, 4, 4))
one("GlobalMaxPool", floats(2, 3, 4, 4))
data = floats(2, 3, 4, 4)
one("GlobalLpPool", data, p=2, expected=[np.sqrt((data ** 2).sum(axis=(2, 3), keepdims=True))])
data, pooled = floats(1, 2, 6, 6), np.zeros((2, 2, 2, 2), np.float32)
for r, (x, y) in enumerate(((0, 0), (1, 2))):  # regions of 4 by 4, in quarters
    for i, j in np.ndindex(2, 2):
        pooled[r, :, i, j] = data[0, :, y + 2 * i:y + 2 * i + 2, x + 2 * j:x + 2 * j + 2].max(axis=(1, 2))
one("MaxRoiPool", data, f32(0, 0, 0, 3, 3, 0, 1, 2, 4, 5).reshape(2, 5), pooled_shape=[2, 2], expected=[pooled])
one("RoiAlign", floats(1, 2, 6, 6), f32(0, 0, 4, 4, 1, 1, 5, 5).reshape(2, 4), i64(0, 0), output_height=2, output_width=2, sampling_ratio=2, constants=(2,))
one("BatchNormalization", floats(2, 3, 4), floats(3), floats(3), floats(3), floats(3, low=0.2), constants=(1, 2, 3, 4))
one("BatchNormalization", floats(2, 3, 4), floats(3), floats(3), floats(3), floats(3, low=0.2), constants=(1, 2, 3, 4), training_mode=1, results=3,
    name="BatchNormalization in training")
one("InstanceNormalization", floats(2, 3, 5), floats(3), floats(3), constants=(1, 2))
one("GroupNormalization", floats(2, 4, 5), floats(4), floats(4), num_groups=2, constants=(1, 2))
one("LayerNormalization", floats(2, 3, 4), floats(4), floats(4), constants=(1, 2))
one("LayerNormalization", floats(2, 3, 4), floats(3, 4), axis=1, results=3, constants=(1,), name="LayerNormalization with its mean")
one("RMSNormalization", floats(2, 3, 4), floats(4), constants=(1,))
data = floats(1, 5, 2, 2)  # the evaluator sums only as many channels as there are batches
squares = np.pad(data ** 2, ((0, 0), (1, 1), (0, 0), (0, 0)))
sums = squares[:, :-2] + squares[:, 1:-1] + squares[:, 2:]
one("LRN", data, size=3, alpha=0.1, beta=0.5, bias=1.5, expected=[(data / (1.5 + 0.1 / 3 * sums) ** 0.5).astype(np.float32)])
one("LpNormalization", floats(2, 4), axis=1, p=2)
one("MeanVarianceNormalization", floats(2, 3, 2, 2))
one("Dropout", floats(2, 3))
one("Dropout", floats(2, 3), results=2, name="Dropout with its mask")
one("Einsum", floats(2, 3), floats(3, 4), equation="ij,jk->ik")
one("Einsum", floats(2, 3, 4), floats(2, 4), equation="bij,bj->bi", name="Einsum in batches")
one("Gemm", floats(3, 4), floats(5, 3), floats(5), transA=1, transB=1, alpha=0.5, beta=2.0)
one("MatMul", floats(3, 4), floats(4, 5))
one("MatMul", floats(2, 1, 3, 4), floats(5, 4, 2), name="MatMul in batches")
one("MatMul", floats(4), floats(4, 3), name="MatMul of a vector")
one("MatMulInteger", ints(3, 4, low=0, high=99, dtype=np.uint8), ints(4, 2, low=-50, high=50, dtype=np.int8), np.array(50, np.uint8), np.array(3, np.int8), constants=(1, 2, 3))
one("QLinearMatMul", ints(3, 4, low=0, high=99, dtype=np.uint8), f32(0.02).reshape(()), np.array(50, np.uint8), ints(4, 2, low=0, high=99, dtype=np.uint8),
    f32(0.03).reshape(()), np.array(40, np.uint8), f32(0.05).reshape(()), np.array(120, np.uint8), constants=(1, 2, 3, 4, 5, 6, 7))
one("GridSample", floats(1, 1, 4, 4), floats(1, 2, 3, 2, low=-0.9, high=0.9), mode="linear")
one("AffineGrid", floats(1, 2, 3), i64(1, 1, 2, 3), constants=(1,))
one("Col2Im", floats(1, 4, 4), i64(3, 3), i64(2, 2), constants=(1, 2))
one("Resize", floats(1, 1, 2, 3), None, f32(1, 1, 2, 2), mode="nearest", constants=(2,))
one("Resize", floats(1, 1, 3, 3), None, None, i64(1, 1, 5, 4), mode="linear", constants=(3,), name="Resize to sizes, linear")
one("Resize", floats(1, 1, 4, 4), None, f32(1, 1, 1.5, 1.5), mode="cubic", coordinate_transformation_mode="align_corners", constants=(2,), name="Resize, cubic")
data = floats(1, 1, 2, 2)
one("Upsample", data, f32(1, 1, 2, 3), mode="nearest", opset=9, constants=(1,), expected=[data.repeat(2, axis=2).repeat(3, axis=3)])

# Sequences.
seed("sequences")
for op, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
    one(op, floats(3, 2, 4), floats(1, gates * 3, 4), floats(1, gates * 3, 3), floats(1, gates * 6), hidden_size=3, constants=(1, 2, 3), results=2 + (op == "LSTM"))
one("GRU", floats(3, 2, 4), floats(1, 9, 4), floats(1, 9, 3), floats(1, 18), hidden_size=3, linear_before_reset=1, constants=(1, 2, 3), results=2, name="GRU, linear before the reset")
one("RotaryEmbedding", floats(1, 2, 3, 4), floats(5, 2), floats(5, 2), i64(0, 1, 4).reshape(1, 3), constants=(1, 2))
one("Attention", floats(1, 2, 3, 4), floats(1, 2, 5, 4), floats(1, 2, 5, 4))
one("Attention", floats(1, 2, 3, 4), floats(1, 2, 3, 4), floats(1, 2, 3, 4), is_causal=1, name="Attention, causal")

# Losses, windows, signals.
seed("signals")
one("NegativeLogLikelihoodLoss", floats(3, 5), i64(1, 0, 4), reduction="mean")
one("NegativeLogLikelihoodLoss", floats(3, 5), i64(1, 0, 4), floats(5, low=0.2), reduction="sum", ignore_index=0, name="NegativeLogLikelihoodLoss with weights")
one("SoftmaxCrossEntropyLoss", floats(3, 5), i64(1, 0, 4), reduction="none")
one("SoftmaxCrossEntropyLoss", floats(3, 5), i64(1, 0, 4), reduction="mean", results=2, name="SoftmaxCrossEntropyLoss with its logarithms")
for op in ("BlackmanWindow", "HammingWindow", "HannWindow"):
    one(op, np.array(8, np.int64), constants=(0,))
    one(op, np.array(8, np.int64), periodic=0, constants=(0,), name=op + ", symmetric")
one("DFT", floats(1, 4, 1), None, np.array(1, np.int64), constants=(2,))
one("DFT", floats(1, 4, 2), None, np.array(1, np.int64), inverse=1, constants=(2,), name="DFT, inverse")
one("DFT", floats(1, 6, 1), axis=1, onesided=1, opset=17, name="DFT, one side")
one("STFT", floats(1, 10, 1), np.array(3, np.int64), floats(4, low=0.2), constants=(1, 2))
one("MelWeightMatrix", np.array(4, np.int64), np.array(8, np.int64), np.array(8000, np.int64), f32(0).reshape(()), f32(4000).reshape(()), constants=(0, 1, 2, 3, 4))
one("Det", floats(2, 3, 3))
one("RandomNormal", shape=[3, 4], seed=1.0, random=True)
one("RandomNormalLike", floats(3, 4), seed=1.0, random=True)
one("RandomUniform", shape=[3, 4], seed=1.0, random=True)
one("RandomUniformLike", floats(3, 4), seed=1.0, random=True)
one("Bernoulli", floats(3, 4, low=0, high=1), seed=1.0, random=True)
one("Multinomial", floats(2, 5), sample_size=3, seed=1.0, random=True, expected=[np.zeros((2, 3), np.int32)])
