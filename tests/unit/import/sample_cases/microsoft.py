# SPDX-License-Identifier: Apache-2.0
"""Other domains, most of all com.microsoft."""
import numpy as np
from onnx import helper

from sample_cases.case import bools, case, CONTRIB, contrib, f32, floats, i64, i8, ints, Node, one, run_by_onnxruntime, runs, seed, u8, value

# Other domains.
seed("domains")
ML, TRAINING, PREVIEW = "ai.onnx.ml", "ai.onnx.preview.training", "ai.onnx.preview"
one("ArrayFeatureExtractor", floats(2, 5), i64(0, 3, 3), domain=ML)
one("Binarizer", floats(2, 5), domain=ML, threshold=0.3)
rate, step = np.array(0.1, np.float32), np.array(1, np.int64)
one("Adagrad", rate, step, floats(3), floats(3), floats(3, low=0.1), domain=TRAINING, results=2, decay_factor=0.1, epsilon=1e-5, norm_coefficient=0.01)
one("Adam", rate, step, floats(3), floats(3), floats(3), floats(3, low=0.1), domain=TRAINING, results=3, single=True, alpha=0.9, beta=0.99, epsilon=1e-5)
one("Momentum", rate, step, floats(3), floats(3), floats(3), domain=TRAINING, results=2, alpha=0.9, beta=0.8, norm_coefficient=0.01, mode="standard")
one("FlexAttention", floats(1, 2, 3, 4), floats(1, 2, 5, 4), floats(1, 2, 5, 4), domain=PREVIEW)
one("LinearAttention", floats(1, 4, 6), floats(1, 4, 6), floats(1, 4, 6), opset=27, q_num_heads=2, kv_num_heads=2, update_rule="linear", results=2)
one("CausalConvWithState", floats(1, 3, 6), floats(3, 1, 2), floats(3), opset=27, results=2, constants=(1, 2))
data = floats(3, 5)
one("ArrayFeatureExtractor", data, np.array(2), domain=ML, name="ArrayFeatureExtractor of one index", expected=[data[:, 2:3]])
one("ArrayFeatureExtractor", data, i64(4, 0).reshape(1, 2), domain=ML, name="ArrayFeatureExtractor of a row of indices", expected=[data[:, [4, 0]]])

# Com.microsoft, quantised.
seed("contrib quantised")

def scale(x):
    return np.array(x, np.float32)


def zero(z, t=np.uint8):
    return np.array(z, t)


a, b = (scale(0.05), zero(120)), (scale(0.03), zero(7))
contrib("QLinearAdd", u8(2, 3, 4), *a, u8(2, 3, 4), *b, scale(0.06), zero(110))
contrib("QLinearAdd", i8(2, 3), scale(0.05), zero(3, np.int8), i8(3), scale(0.1), zero(-4, np.int8), scale(0.12), zero(1, np.int8), name="QLinearAdd of signed bytes, broadcast")
contrib("QLinearMul", u8(2, 3, 4), *a, u8(3, 1), *b, scale(0.1), zero(100))
contrib("QLinearLeakyRelu", u8(3, 5), *a, scale(0.04), zero(90), alpha=0.2)
contrib("QLinearSigmoid", u8(3, 5), *a, scale(1 / 256), zero(0))
case("QLinearSoftmax", Node("QLinearSoftmax", ["x", "s", "z", "t", "u"], ["y"], CONTRIB, axis=-1, opset=13), {"x": u8(3, 5)},
     {"s": a[0], "z": a[1], "t": scale(1 / 256), "u": zero(0)}, opset=21, domains=((CONTRIB, 1),))
contrib("QLinearAveragePool", u8(1, 2, 6, 5), *a, scale(0.037), zero(118), kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])
contrib("QLinearAveragePool", u8(1, 6, 5, 2), *a, scale(0.037), zero(118), kernel_shape=[3, 2], channels_last=1, name="QLinearAveragePool, channels last")
contrib("QLinearGlobalAveragePool", u8(1, 3, 4, 5), *a, scale(0.02), zero(80))
contrib("QLinearGlobalAveragePool", u8(1, 4, 5, 3), *a, scale(0.02), zero(80), channels_last=1, name="QLinearGlobalAveragePool, channels last")
contrib("QLinearConcat", scale(0.06), zero(100), u8(2, 3), *a, u8(2, 2), *b, axis=1)
contrib("QLinearWhere", bools(2, 3), u8(2, 3), *a, u8(2, 3), *b, scale(0.06), zero(100))
contrib("QGemm", u8(3, 6), *a, i8(6, 4), floats(4, low=0.01, high=0.05), np.zeros(4, np.int8), ints(4, low=-900, high=900, dtype=np.int32), scale(0.3), zero(128), constants=(1, 2, 3, 4, 5, 6, 7, 8))
contrib("QGemm", u8(3, 6), *a, i8(4, 6), scale(0.02), zero(0, np.int8), transB=1, constants=(1, 2, 3, 4, 5), name="QGemm to floats")
contrib("MatMulIntegerToFloat", u8(3, 6), i8(6, 4), scale(0.05), floats(4, low=0.01, high=0.05), zero(120), np.zeros(4, np.int8), floats(4), constants=(1, 2, 3, 4, 5, 6))
contrib("DynamicQuantizeMatMul", floats(3, 6), i8(6, 4), floats(4, low=0.01, high=0.05), np.zeros(4, np.int8), floats(4), constants=(1, 2, 3, 4))

# Com.microsoft, fused.
seed("contrib fused")
x, w = floats(1, 4, 6, 5), floats(3, 4, 3, 2)
for activation, parameters in (("Relu", []), ("Tanh", []), ("Sigmoid", []), ("LeakyRelu", [0.2]), ("Clip", [-1.0, 2.0]), ("HardSigmoid", [0.3, 0.4])):
    contrib("FusedConv", x, w, floats(3), constants=(1, 2), activation=activation, pads=[1, 0, 1, 1], name=f"FusedConv ({activation})", **({"activation_params": parameters} if parameters else {}))
contrib("FusedConv", x, w, floats(3), floats(1, 3, 4, 4), constants=(1, 2), activation="Relu", name="FusedConv with a sum")
nhwc = np.transpose(x, (0, 2, 3, 1)).copy()
bias = floats(3)
want = run_by_onnxruntime(helper.make_model(helper.make_graph(
    [helper.make_node("FusedConv", ["a", "b", "c"], ["y"], domain=CONTRIB, activation="Relu"), helper.make_node("Transpose", ["y"], ["z"], perm=[0, 2, 3, 1])],
    "g", [value("a", x), value("b", w), value("c", bias)], [helper.make_empty_tensor_value_info("z")]),
    opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid(CONTRIB, 1)], ir_version=10), {"a": x, "b": w, "c": bias})
contrib("NhwcFusedConv", nhwc, w, bias, constants=(1, 2), activation="Relu", expected=want)
weights = floats(1, 4, 3, 2)
contrib("NhwcConv", nhwc[:, :3, :2].copy(), weights, constants=(1,), expected=[np.einsum("bhwc,ochw->bo", nhwc[:, :3, :2], weights).reshape(1, 1, 1, 1)])
contrib("NhwcMaxPool", u8(1, 6, 5, 3), kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])
contrib("QLinearConv", u8(1, 6, 5, 4), *a, i8(3, 4, 3, 2), floats(3, low=0.01, high=0.05), np.zeros(3, np.int8), scale(0.4), zero(120), ints(3, low=-900, high=900, dtype=np.int32),
        constants=(1, 2, 3, 4, 5, 6, 7, 8), channels_last=1, pads=[1, 0, 1, 1], name="QLinearConv of com.microsoft, channels last")
contrib("QLinearConv", u8(1, 4, 6, 5), *a, i8(4, 1, 3, 2), scale(0.03), zero(2, np.int8), scale(0.1), zero(120), constants=(1, 2, 3, 4, 5, 6, 7), group=4, name="QLinearConv of com.microsoft, channels first")
contrib("ConvTransposeWithDynamicPads", floats(1, 2, 4, 4), floats(2, 3, 3, 3), i64(1, 0, 1, 1), floats(3), constants=(1, 2, 3), strides=[2, 2])
contrib("FusedGemm", floats(3, 4), floats(5, 4), floats(5), transB=1, alpha=0.5, activation="LeakyRelu", activation_alpha=0.1)
contrib("FusedGemm", floats(3, 4), floats(4, 5), activation="Relu", name="FusedGemm without C")
contrib("FusedMatMul", floats(2, 4, 3), floats(2, 5, 4), transA=1, transB=1, alpha=0.25)
contrib("FusedMatMul", floats(3, 2, 4), floats(5, 2, 4), transBatchA=1, transBatchB=1, transB=1, name="FusedMatMul, batches in the middle")
contrib("FusedMatMul", floats(4), floats(2, 4, 3), transA=1, name="FusedMatMul of a vector")
contrib("TransposeMatMul", floats(2, 4, 3), floats(2, 4, 5), transA=1)
fused = floats(3, 4), floats(4, 2)
contrib("FusedMatMulActivation", *fused, activation="Relu", expected=[np.maximum(fused[0] @ fused[1], 0)])
contrib("MatMulInteger16", ints(3, 4, low=-3000, high=3000, dtype=np.int16), ints(4, 2, low=-3000, high=3000, dtype=np.int16))
contrib("Gelu", floats(2, 5), name="Gelu of com.microsoft")
contrib("BiasGelu", floats(2, 5), floats(5))
contrib("FastGelu", floats(2, 5), floats(5))
contrib("FastGelu", floats(2, 5), name="FastGelu without bias")
contrib("QuickGelu", floats(2, 5), alpha=1.5)
contrib("QuickGelu", floats(2, 5), name="QuickGelu as usual")


def gelu(x):
    return run_by_onnxruntime(helper.make_model(helper.make_graph([helper.make_node("Gelu", ["x"], ["y"], domain=CONTRIB)], "g", [value("x", x)],
                              [helper.make_empty_tensor_value_info("y")]), opset_imports=[helper.make_opsetid(CONTRIB, 1)], ir_version=10), {"x": x})[0]


x, bias, skip = floats(1, 3, 4), floats(4), floats(1, 3, 4)
contrib("BiasSplitGelu", x, bias, expected=[(x + bias)[..., :2] * gelu((x + bias)[..., 2:].copy())])
contrib("BiasAdd", x, bias, skip, expected=[x + bias + skip])

runs("FusedMatMul of batches that may be 1", Node("FusedMatMul", ["a", "b"], ["y"], CONTRIB, alpha=0.5), [("n", 2, 4), ("m", 4, 3)], (floats(3, 2, 4), floats(3, 4, 3)), (floats(3, 2, 4), floats(1, 4, 3)),
     (floats(1, 2, 4), floats(3, 4, 3)),
     opset=21, domains=((CONTRIB, 1),))
runs("QLinearAdd of sizes that may be 1", Node("QLinearAdd", list("ahibhjhj"), ["y"], CONTRIB), [("n", 4), ("m", 4)], (u8(3, 4), u8(3, 4)), (u8(3, 4), u8(1, 4)), (u8(1, 4), u8(3, 4)),
     constants={"h": scale(0.05), "i": zero(120), "j": zero(7)}, opset=21, domains=((CONTRIB, 1),))

# Com.microsoft, normalisation.
seed("contrib norms")
contrib("SkipLayerNormalization", floats(2, 3, 8), floats(2, 3, 8), floats(8), floats(8), floats(8), results=["y", "", "", "y3"], constants=(2, 3, 4), epsilon=1e-5)
contrib("SkipLayerNormalization", floats(2, 3, 8), floats(3, 8), floats(8), constants=(2,), name="SkipLayerNormalization of a broadcast skip")
contrib("SkipSimplifiedLayerNormalization", floats(2, 3, 8), floats(2, 3, 8), floats(8), floats(8), results=["y", "", "", "y3"], constants=(2, 3))
contrib("SkipSimplifiedLayerNormalization", floats(2, 3, 8), floats(2, 3, 8), floats(8), constants=(2,), name="SkipSimplifiedLayerNormalization without bias")
case("SimplifiedLayerNormalization", Node("SimplifiedLayerNormalization", ["x", "s"], ["y", "d"], axis=-1, epsilon=1e-6), {"x": floats(2, 3, 8), "s": floats(8)},
     outputs=("y", "d"), opset=13, domains=((CONTRIB, 1),))
case("LayerNormalization in an old operator set", Node("LayerNormalization", ["x", "s", "b"], ["y"], axis=-1), {"x": floats(2, 3, 8), "s": floats(8), "b": floats(8)},
     opset=13, domains=((CONTRIB, 1),))
x, gamma, beta, skip, bias = floats(1, 2, 2, 4), floats(4), floats(4), floats(1, 4), floats(4)


def grouped(x, gamma, beta, groups, silu):
    g = x.reshape(x.shape[0], -1, groups, x.shape[3] // groups).astype(np.float64)
    g = ((g - g.mean((1, 3), keepdims=True)) / np.sqrt(g.var((1, 3), keepdims=True) + 1e-5)).reshape(x.shape) * gamma + beta
    return (g / (1 + np.exp(-g)) if silu else g).astype(np.float32)


contrib("GroupNorm", x, gamma, beta, groups=2, activation=1, expected=[grouped(x, gamma, beta, 2, True)])
total = x + skip.reshape(1, 1, 1, 4) + bias
contrib("SkipGroupNorm", x, gamma, beta, skip, bias, groups=2, activation=0, results=2, expected=[grouped(total, gamma, beta, 2, False), total])
words = ints(2, 3, low=0, high=7, dtype=np.int32)
contrib("EmbedLayerNormalization", words, ints(2, 3, low=0, high=2, dtype=np.int32), floats(7, 4), floats(5, 4), floats(2, 4), floats(4), floats(4), np.array([[1, 1, 0], [1, 1, 1]], np.int32),
        results=3, constants=(2, 3, 4, 5, 6))
contrib("EmbedLayerNormalization", words, None, floats(7, 4), floats(5, 4), None, floats(4), floats(4), None, ints(2, 3, low=0, high=5, dtype=np.int32), results=2, constants=(2, 3, 5, 6),
        name="EmbedLayerNormalization at given positions")

# Com.microsoft, attention.
seed("contrib attention")


def attention(name, op, *arrays, results=1, constants=(), **attributes):
    contrib(op, *arrays, results=results, constants=constants, name=f"{op} of com.microsoft{name}", **attributes)


x, w, bias = floats(2, 3, 8), floats(8, 24, low=-0.5, high=0.5), floats(24)
i32 = np.int32
attention("", "Attention", x, w, bias, num_heads=2)
attention(" with lengths", "Attention", x, w, bias, np.array([2, 3], i32), num_heads=2)
attention(" with ends and starts", "Attention", x, w, bias, np.array([2, 3, 0, 1], i32), num_heads=2)
attention(" with a mask of keys", "Attention", x, w, bias, np.array([[1, 0, 1], [1, 1, 0]], i32), num_heads=2, mask_filter_value=-3.0)
attention(" with a mask of pairs", "Attention", x, w, bias, ints(2, 3, 3, low=0, high=2, dtype=i32), num_heads=2)
attention(", causal", "Attention", x, w, bias, num_heads=2, unidirectional=1)
attention(" with a past", "Attention", x, w, bias, None, floats(2, 2, 2, 4, 4), num_heads=2, unidirectional=1, results=2)
attention(" with a bias", "Attention", x, w, bias, None, None, floats(2, 2, 3, 3), num_heads=2)
attention(" with a past and a mask", "Attention", x, w, bias, np.array([[1] * 5 + [0, 1], [0] + [1] * 6], i32), floats(2, 2, 2, 4, 4), num_heads=2, scale=0.3, results=2)
attention(" with wider values", "Attention", x, floats(8, 28, low=-0.5, high=0.5), floats(28), num_heads=2, qkv_hidden_sizes=[8, 8, 12])
attention("", "QAttention", u8(2, 3, 8), i8(8, 24), floats(24), scale(0.02), scale(0.01), np.array([2, 3], i32), zero(120), zero(0, np.int8), num_heads=2, constants=(1, 2, 3, 4, 6, 7))
attention(", causal with a past", "QAttention", u8(1, 3, 8), i8(8, 24), floats(24), scale(0.02), scale(0.01), None, zero(120), zero(3, np.int8), floats(2, 1, 2, 2, 4), num_heads=2,
          unidirectional=1, results=2, constants=(1, 2, 3, 4, 6, 7))
q, k, v = floats(2, 3, 8), floats(2, 5, 8), floats(2, 5, 12)
attention("", "MultiHeadAttention", q, k, v, num_heads=2)
attention(" with biases and lengths", "MultiHeadAttention", q, k, v, floats(28), np.array([2, 5], i32), num_heads=2)
attention(" with a mask and a bias", "MultiHeadAttention", q, k, v, None, np.array([[1, 0, 1, 1, 0], [1, 1, 0, 0, 1]], i32), floats(1, 2, 3, 5), num_heads=2, scale=0.4)
attention(" with a mask of pairs", "MultiHeadAttention", q, k, v, None, ints(2, 3, 5, low=0, high=2, dtype=i32), num_heads=2)
attention(" with a past", "MultiHeadAttention", q, floats(2, 3, 8), floats(2, 3, 8), None, None, None, floats(2, 2, 2, 4), floats(2, 2, 2, 4), num_heads=2, unidirectional=1, results=3)
attention(" of keys with split heads", "MultiHeadAttention", q, floats(2, 2, 5, 4), floats(2, 2, 5, 4), num_heads=2)
angles = np.outer(np.arange(9), [1.0, 0.3])
cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
contrib("RotaryEmbedding", floats(2, 3, 8), i64(4), cos, sin, constants=(2, 3), name="RotaryEmbedding of com.microsoft")
contrib("RotaryEmbedding", floats(2, 2, 3, 4), ints(2, 3, low=0, high=9), cos, sin, constants=(2, 3), interleaved=1, name="RotaryEmbedding of com.microsoft, interleaved")
contrib("RotaryEmbedding", floats(2, 3, 12), ints(2, 3, low=0, high=9), cos, sin, constants=(2, 3), num_heads=2, rotary_embedding_dim=4, name="RotaryEmbedding of com.microsoft, a part")
angles = np.outer(np.arange(9), [1.0, 0.8, 0.6, 0.4, 0.3, 0.2, 0.1, 0.05])
cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
lengths, whole = np.array([2, 2], i32), np.array(3, i32)
attention("", "GroupQueryAttention", floats(2, 3, 32), floats(2, 3, 16), floats(2, 3, 16), None, None, lengths, whole, num_heads=4, kv_num_heads=2, results=3)
attention(" with rotary positions", "GroupQueryAttention", floats(2, 3, 32), floats(2, 3, 16), floats(2, 3, 16), None, None, lengths, whole, cos, sin, num_heads=2, kv_num_heads=1, do_rotary=1, results=3)
attention(" of packed inputs", "GroupQueryAttention", floats(2, 3, 64), None, None, None, None, lengths, whole, cos, sin, num_heads=2, kv_num_heads=1, do_rotary=1, rotary_interleaved=1, softcap=5.0, results=3)
attention(" with a past", "GroupQueryAttention", floats(2, 1, 32), floats(2, 1, 16), floats(2, 1, 16), floats(2, 1, 4, 16), floats(2, 1, 4, 16), np.array([4, 4], i32), np.array(5, i32), cos, sin,
          num_heads=2, kv_num_heads=1, do_rotary=1, results=3)
# What lies behind a sequence's own keys is nobody's.
case("GroupQueryAttention of com.microsoft with pasts of different lengths",
     [Node("GroupQueryAttention", list("qkvcdntxz"), ["y", "keys", "values"], CONTRIB, num_heads=2, kv_num_heads=1, do_rotary=1),
      Node("Slice", ["keys", "from", "to", "axis"], ["y1"]), Node("Slice", ["values", "from", "to", "axis"], ["y2"])],
     {"q": floats(2, 1, 32), "k": floats(2, 1, 16), "v": floats(2, 1, 16), "c": floats(2, 1, 4, 16), "d": floats(2, 1, 4, 16), "n": np.array([4, 2], i32), "t": np.array(5, i32)},
     {"x": cos, "z": sin, "from": i64(0), "to": i64(3), "axis": i64(2)}, outputs=("y", "y1", "y2"), opset=21, domains=((CONTRIB, 1),))
attention(" with a window and several steps", "GroupQueryAttention", floats(1, 3, 32), floats(1, 3, 16), floats(1, 3, 16), floats(1, 2, 4, 8), floats(1, 2, 4, 8), np.array([6], i32), np.array(7, i32),
          num_heads=4, kv_num_heads=2, local_window_size=3, results=3)
attention(" with a sink and a bias", "GroupQueryAttention", floats(2, 3, 32), floats(2, 3, 16), floats(2, 3, 16), None, None, lengths, whole, None, None, None, floats(1, 4, 3, 3), floats(4),
          num_heads=4, kv_num_heads=2, scale=0.3, results=1)
attention(" with a smooth softmax", "GroupQueryAttention", floats(2, 3, 32), floats(2, 3, 16), floats(2, 3, 16), None, None, lengths, whole, num_heads=4, kv_num_heads=2, smooth_softmax=1)
runs("GroupQueryAttention with a cache of any length",
     Node("GroupQueryAttention", list("abcde") + ["f", "g"], ["y", "y1", "y2"], CONTRIB, num_heads=4, kv_num_heads=2),
     [("b", "s", 32), ("b", "s", 16), ("b", "s", 16), ("b", 2, "p", 8), ("b", 2, "p", 8), ("b",), ()],
     (floats(2, 1, 32), floats(2, 1, 16), floats(2, 1, 16), floats(2, 2, 4, 8), floats(2, 2, 4, 8), np.array([4, 4], i32), np.array(5, i32)),
     (floats(1, 3, 32), floats(1, 3, 16), floats(1, 3, 16), floats(1, 2, 0, 8), floats(1, 2, 0, 8), np.array([2], i32), np.array(3, i32)),
     (floats(1, 2, 32), floats(1, 2, 16), floats(1, 2, 16), floats(1, 2, 3, 8), floats(1, 2, 3, 8), np.array([4], i32), np.array(5, i32)),
     results=3, opset=21, domains=((CONTRIB, 1),))
runs("MultiHeadAttention of any length", Node("MultiHeadAttention", list("abc") + ["", "d", "", "e", "f"], ["y", "y1", "y2"], CONTRIB, num_heads=2, unidirectional=1),
     [("b", "s", 8), ("b", "s", 8), ("b", "s", 8), ("b", "t"), ("b", 2, "p", 4), ("b", 2, "p", 4)],
     (floats(2, 3, 8), floats(2, 3, 8), floats(2, 3, 8), np.array([[1, 1, 0, 1, 1], [1] * 5], i32), floats(2, 2, 2, 4), floats(2, 2, 2, 4)),
     (floats(1, 1, 8), floats(1, 1, 8), floats(1, 1, 8), np.array([[0, 1, 1, 1]], i32), floats(1, 2, 3, 4), floats(1, 2, 3, 4)),
     results=3, opset=21, domains=((CONTRIB, 1),))

# Com.microsoft, weights in blocks.
seed("contrib blocks")
x = floats(2, 3, 40)
for bits in (4, 8):
    blob, rows = 32 * bits // 8, (3 * bits + 7) // 8
    contrib("MatMulNBits", floats(2, 3, 96), u8(5, 3, blob), floats(5, 3, low=0.01, high=0.1), constants=(1, 2), N=5, K=96, bits=bits, block_size=32, name=f"MatMulNBits of {bits} bits")
    contrib("MatMulNBits", floats(2, 80), u8(5, 3, blob), floats(5, 3, low=0.01, high=0.1), u8(5, rows), None, floats(5), constants=(1, 2, 3, 5), N=5, K=80, bits=bits, block_size=32,
            name=f"MatMulNBits of {bits} bits with zero points and a bias")
contrib("MatMulNBits", floats(2, 64), u8(5, 2, 16), floats(5, 2, low=0.01, high=0.1), floats(5, 2, low=0, high=15), constants=(1, 2, 3), N=5, K=64, bits=4, block_size=32, name="MatMulNBits with real zero points")
contrib("GatherBlockQuantized", u8(6, 16), ints(2, 2, low=0, high=6), floats(6, 2, low=0.01, high=0.1), constants=(0, 2), block_size=16)
contrib("GatherBlockQuantized", u8(6, 24), ints(3, low=0, high=6), floats(6, 3, low=0.01, high=0.1), u8(6, 2), constants=(0, 2, 3), block_size=16, name="GatherBlockQuantized with zero points")
x, w, r = floats(3, 2, 4), i8(1, 4, 12), i8(1, 3, 12)
ws, rs = floats(1, 12, low=0.005, high=0.01), floats(1, low=0.005, high=0.01)
real = [(w * ws.reshape(1, 1, 12)).transpose(0, 2, 1).astype(np.float32), (r * rs.reshape(1, 1, 1)).transpose(0, 2, 1).astype(np.float32), floats(1, 24)]
lstm = helper.make_model(helper.make_graph([helper.make_node("LSTM", ["x", "w", "r", "b"], ["y", "h", "c"], hidden_size=3)], "g",
                         [value(n, t) for n, t in zip("xwrb", [x] + real)], [helper.make_empty_tensor_value_info(n) for n in "yhc"]), opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
contrib("DynamicQuantizeLSTM", x, w, r, real[2], None, None, None, None, ws, np.zeros((1, 12), np.int8), rs, np.zeros(1, np.int8), hidden_size=3, results=3, constants=(1, 2, 3, 8, 9, 10, 11),
        expected=run_by_onnxruntime(lstm, dict(zip("xwrb", [x] + real))))

# Com.microsoft, other.
seed("contrib other")
contrib("GridSample", floats(1, 2, 4, 4), floats(1, 3, 3, 2, low=-0.9, high=0.9), mode="bicubic", name="GridSample of com.microsoft")
contrib("Trilu", floats(3, 4), np.array(1, np.int64), upper=0, name="Trilu of com.microsoft")
contrib("Inverse", floats(2, 3, 3) + 4 * np.eye(3, dtype=np.float32))
contrib("Pad", floats(2, 3), i64(1, 0, 0, 2), f32(1.5), constants=(1,), name="Pad of com.microsoft")
contrib("CropAndResize", floats(2, 3, 5, 6), f32([0, 0, 1, 1], [0.2, 0.1, 0.7, 1.2], [0.9, 0.5, 0.1, 0.6]), np.array([1, 0, 1], i32), np.array([3, 4], i32), constants=(3,), extrapolation_value=0.5)
contrib("CropAndResize", floats(2, 3, 5, 6), f32([0, 0, 1, 1], [0.2, 0.12, 0.7, 0.95]), np.array([1, 0], i32), np.array([3, 4], i32), constants=(3,), mode="nearest", name="CropAndResize to the nearest")
contrib("ExpandDims", floats(2, 3), np.array(-1, i32))
contrib("Unique", f32(3, 1, 3, 2, 1, 3), results=3, name="Unique of com.microsoft")
contrib("Range", np.array(2, i32), np.array(9, i32), np.array(3, i32), name="Range of com.microsoft")
contrib("GatherND", floats(3, 4, 2), i64(0, 1, 2, 3).reshape(2, 2), name="GatherND of com.microsoft")
contrib("CDist", floats(3, 4), floats(2, 4), metric="euclidean")
contrib("QuantizeLinear", floats(2, 3), scale(0.001), zero(100, np.uint16), name="QuantizeLinear of com.microsoft to 16 bits")
contrib("DequantizeLinear", ints(2, 3, low=-3000, high=3000, dtype=np.int16), f32(0.001, 0.002, 0.003), np.array([5, -3, 0], np.int16), constants=(1, 2), axis=1, name="DequantizeLinear of com.microsoft along an axis")
contrib("NGramRepeatBlock", i64(1, 2, 3, 1, 2, 4, 4, 4, 4, 4).reshape(2, 5), floats(2, 6), ngram_size=3)
contrib("WordConvEmbedding", np.array([[1, 2, 3, 4, 2], [3, 2, 1, 0, 0]], i32), floats(4, 1, 3, 2), floats(4), floats(5, 2), constants=(1, 2, 3), embedding_size=4, conv_window_size=3, char_embedding_size=2)
