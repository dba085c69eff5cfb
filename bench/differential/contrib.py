# SPDX-License-Identifier: Apache-2.0
"""Operators of com.microsoft, as ONNX Runtime's optimiser and quantiser write them."""
import numpy as np

from draw import Refused, operator
from networks import image, window

DOMAIN = "com.microsoft"


def contrib(*names, weight=0.12):
    return operator(*(f"{DOMAIN}::{n}" for n in names), weight=weight)


def emit(d, op, inputs, outputs=1, **attributes):
    return d.emit(op.split("::")[-1], inputs, outputs, domain=DOMAIN, **attributes)


def scale(d, shape=()):
    """Powers of two, so that quantised arithmetic is exact."""
    return d.const(np.full(shape, d.rng.choice((0.25, 0.5, 1.0)), "float32"))


def zero(d, kind, shape=()):
    low = 0 if kind.startswith("u") else -3
    return d.const(d.generator.integers(low, 4, shape).astype(kind))


def quantised(d, kind, given=None):
    """A tensor of bytes, its scale and its zero point."""
    return [given if given is not None else d.pick((kind,), high=3), scale(d), zero(d, kind)]


@contrib("Gelu", "QuickGelu", "FastGelu", "BiasGelu")
def gelu(d, op):
    a = d.pick("float32", low=1)
    bias = [d.fresh("float32", a.shape[-1:])] if op.endswith("BiasGelu") or (op.endswith("FastGelu") and d.chance(0.5)) else []
    emit(d, op, [a, *bias], alpha=d.rng.choice((None, 1.0, 2.0)) if op.endswith("QuickGelu") else None)


@contrib("FusedMatMul", "TransposeMatMul", weight=0.25)
def product(d, op):
    a = d.pick("float32", low=2)
    left, right = d.chance(0.4), d.chance(0.4)
    k, n = a.shape[-2 if left else -1], d.rng.choice((1, 3, *d.root().sizes.values()))
    lead = [1 if d.chance(0.3) else s for s in a.shape[:-2]]
    b = d.fresh("float32", [*lead, n, k] if right else [*lead, k, n])
    emit(d, op, [a, b], exact=True, transA=int(left), transB=int(right), alpha=d.rng.choice((None, 0.5, 2.0)))


def activation(d, convolution):
    """An activation and its numbers, as FusedConv or FusedGemm have them."""
    name = d.rng.choice(("Relu", "Tanh", "Sigmoid", "LeakyRelu", "HardSigmoid") + (("Clip",) if convolution else ()))
    numbers = {"LeakyRelu": [0.25], "HardSigmoid": [0.25, 0.5], "Clip": [-1.0, 2.0]}.get(name, [])
    if convolution:
        return {"activation": name, "activation_params": numbers or None}
    return {"activation": name, **dict(zip(("activation_alpha", "activation_beta"), numbers))}


@contrib("FusedGemm")
def gemm(d, op):
    a = d.pick("float32", low=2, high=2)
    n = d.rng.choice((1, 3, 5))
    right = d.chance(0.5)
    c = d.fresh("float32", d.rng.choice(((n,), (1, n), (a.shape[0], n)))) if d.chance(0.7) else None
    emit(d, op, [a, d.fresh("float32", (n, a.shape[1]) if right else (a.shape[1], n)), c], transB=int(right), alpha=d.rng.choice((None, 0.5)), **activation(d, False))


@contrib("FusedConv", weight=0.25)
def convolution(d, op):
    a = image(d, ("float32",), (2,))
    kernel, attributes = window(d, a)
    w = d.const(d.generator.integers(-4, 5, (d.rng.choice((1, 2, 3)), a.shape[1], *kernel)).astype("float32") / 4)
    bias = d.fresh("float32", w.shape[:1]) if d.chance(0.5) else None
    emit(d, op, [a, w, bias], **attributes, **activation(d, True))


@contrib("NhwcMaxPool")
def pool_of_bytes(d, op):
    a = d.pick(("uint8", "int8"), low=4, high=4, fits=lambda v: v.array.size and min(v.shape[1:3]) > 1)
    emit(d, op, [a], exact=True, kernel_shape=[d.rng.choice((1, 2)), 2], strides=d.rng.choice((None, [1, 2])), pads=d.rng.choice((None, [0, 0, 0, 1])))


@contrib("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "SimplifiedLayerNormalization", weight=0.2)
def normalisation(d, op):
    a = d.pick("float32", low=3, high=3, fits=lambda v: v.array.size)
    width = a.shape[-1:]
    if op.endswith("::SimplifiedLayerNormalization"):
        d.emit("SimplifiedLayerNormalization", [a, d.fresh("float32", width)], axis=-1, epsilon=0.01, stash_type=1)
        return
    skip = d.fresh("float32", a.shape)
    more = [d.fresh("float32", width) if d.chance(0.6) else None for _ in range(2 if op.endswith("::SkipLayerNormalization") else 1)]
    # Mean and deviation are for training, and ONNX Runtime does not compute them.
    names = [d.name(), "", "", d.name()][:d.rng.choice((1, 1, 4))]
    d.chain([(op.split("::")[-1], [a, skip, d.fresh("float32", width), *more], names, {"epsilon": 0.01}, DOMAIN)], [n for n in names if n])


@contrib("EmbedLayerNormalization")
def embedding(d, op):
    words = d.fresh("int32", d.shape(2, 2), low=0, high=4)
    if not words.array.size or words.shape[1] > 7:
        raise Refused("length")
    table = lambda n: d.const(d.generator.integers(-8, 9, (n, 4)).astype("float32") / 4)  # noqa: E731
    row = lambda: d.fresh("float32", (4,), named=0)  # noqa: E731
    segment = d.chance(0.5)
    kinds = d.fresh("int32", words.shape, low=0, high=1) if segment else None
    emit(d, op, [words, kinds, table(5), table(20), table(2) if segment else None, row(), row()], 2, epsilon=0.01)


@contrib("Attention", "MultiHeadAttention", weight=0.25)
def attention(d, op):
    batch, steps = d.rng.choice((1, 2, *d.root().sizes.values())), d.rng.choice((1, 3, *d.root().sizes.values()))
    heads, size = d.rng.choice((1, 2)), d.rng.choice((2, 4))
    width = heads * size
    mask = None
    if op.endswith("::Attention"):
        if d.chance(0.4):
            mask = d.input("int32", (batch,), low=1, high=1, named=1) if d.chance(0.3) else d.input("int32", (batch, steps), low=0, high=1, named=1)
        q = d.input("float32", (batch, steps, width), fixed=1, named=1)
        w = d.const(d.generator.integers(-4, 5, (width, 3 * width)).astype("float32") / 8)
        emit(d, op, [q, w, d.fresh("float32", (3 * width,), named=0), mask], num_heads=heads, unidirectional=d.rng.choice((None, 1)))
        return
    keys = d.rng.choice((steps, 1, 4, *d.root().sizes.values()))
    q = d.input("float32", (batch, steps, width), fixed=1)
    k, v = (d.input("float32", (batch, keys, width), fixed=1) for _ in range(2))
    bias = d.fresh("float32", (3 * width,), named=0) if d.chance(0.4) else None
    added = d.input("float32", (d.rng.choice((1, batch)), heads, steps, keys), fixed=(1,)) if d.chance(0.4) else None
    emit(d, op, [q, k, v, bias, mask, added], num_heads=heads, scale=d.rng.choice((None, 0.5)), unidirectional=1 if d.chance(0.3) and keys == steps else None)


@contrib("GroupQueryAttention")
def grouped_attention(d, op):
    batch, steps = d.rng.choice((1, 2)), d.rng.choice((1, 3, *d.root().sizes.values()))
    heads, groups, size = d.rng.choice(((2, 1, 8), (4, 2, 8), (2, 2, 16)))
    q = d.input("float32", (batch, steps, heads * size), fixed=1, named=0)
    k, v = (d.input("float32", (batch, steps, groups * size), fixed=1, named=0) for _ in range(2))
    lengths, whole = d.const(np.full((batch,), steps - 1, "int32")), d.const(np.array(steps, "int32"))
    emit(d, op, [q, k, v, None, None, lengths, whole], 3, num_heads=heads, kv_num_heads=groups, scale=d.rng.choice((None, 0.5)), local_window_size=d.rng.choice((None, 2)))


@contrib("RotaryEmbedding")
def rotary(d, op):
    batch, steps, size = d.rng.choice((1, 2)), d.rng.choice((1, 3, *d.root().sizes.values())), d.rng.choice((2, 4))
    angles = np.outer(np.arange(20), 1.0 / (1 + np.arange(size // 2)))
    tables = [d.const(f(angles).astype("float32")) for f in (np.cos, np.sin)]
    heads = d.rng.choice((1, 2))
    if d.chance(0.5):
        a = d.input("float32", (batch, heads, steps, size), fixed=(1, 3))
    else:
        a = d.input("float32", (batch, steps, heads * size), fixed=1)
        tables = [d.const(np.tile(t.array, (1, 1))) for t in tables] if heads == 1 else tables
    if a.rank == 3 and heads > 1:
        raise Refused("the heads of three axes are told by the tables")
    at = d.const(np.array([d.rng.choice((0, 2))])) if d.chance(0.4) else d.input("int64", (batch, steps), low=0, high=9)
    emit(d, op, [a, at, *tables], interleaved=d.rng.choice((None, 1)))


@contrib("QLinearAdd", "QLinearMul", "QLinearLeakyRelu", "QLinearSigmoid", "QLinearWhere", "QLinearConcat", weight=0.2)
def quantised_elements(d, op):
    kind = d.rng.choice(("uint8", "int8"))
    a = quantised(d, kind)
    out = [scale(d), zero(d, kind)]
    if op.endswith(("Add", "Mul")):
        emit(d, op, [*a, *quantised(d, kind, d.partner(a[0])), *out], exact=True)
    elif op.endswith("Where"):
        emit(d, op, [d.partner(a[0], ("bool",)), *a, *quantised(d, kind, d.partner(a[0])), *out], exact=True)
    elif op.endswith("Concat"):
        axis = d.axis(a[0])
        emit(d, op, [*out, *a, *quantised(d, kind, d.fresh(kind, a[0].shape))], exact=True, axis=axis)
    elif op.endswith("LeakyRelu"):
        emit(d, op, [*a, *out], exact=True, alpha=d.rng.choice((0.25, 0.5)))
    else:
        emit(d, op, [*a, d.const(np.float32(1 / 256)), d.const(np.array(0, kind))])


@contrib("QLinearAveragePool", "QLinearGlobalAveragePool")
def quantised_pool(d, op):
    kind = d.rng.choice(("uint8", "int8"))
    a = quantised(d, kind, image(d, (kind,), (2,)))
    last = d.rng.choice((None, 1))
    out = [scale(d), zero(d, kind)]
    if "Global" in op:
        emit(d, op, [*a, *out], channels_last=last)
    else:
        emit(d, op, [*a, *out], channels_last=last, kernel_shape=[1, 2], strides=d.rng.choice((None, [1, 2])), count_include_pad=d.rng.choice((None, 1)))


@contrib("QLinearSoftmax")
def quantised_softmax(d, op):
    kind = d.rng.choice(("uint8", "int8"))
    a = d.pick((kind,), low=1, high=3)
    emit(d, op, [a, scale(d), zero(d, kind), d.const(np.float32(1 / 256)), d.const(np.array(0 if kind == "uint8" else -128, kind))], axis=-1, opset=13)


@contrib("QGemm", "MatMulIntegerToFloat", "DynamicQuantizeMatMul", "MatMulInteger16", weight=0.2)
def quantised_product(d, op):
    if op.endswith("Integer16"):
        a = d.pick("int16", low=2)
        emit(d, op, [a, d.fresh("int16", (a.shape[-1], d.rng.choice((1, 3))), named=0)], exact=True)
        return
    n, kind = d.rng.choice((1, 3, 4)), d.rng.choice(("uint8", "int8"))
    a = d.pick("float32" if op.startswith(f"{DOMAIN}::Dynamic") else ("uint8",), low=2, high=2, fits=lambda v: v.array.size)
    w = d.const(d.generator.integers(0 if kind == "uint8" else -8, 8, (a.shape[1], n)).astype(kind))
    columns = d.rng.choice(((), (n,)))
    of_w = [scale(d, columns), zero(d, kind, columns)]
    bias = d.fresh("float32", (n,), named=0) if d.chance(0.5) else None
    if op.endswith("Dynamic" + "QuantizeMatMul"):
        emit(d, op, [a, w, *of_w, bias])
    elif op.endswith("ToFloat"):
        emit(d, op, [a, w, scale(d), of_w[0], zero(d, "uint8"), of_w[1], bias], exact=True)
    else:
        added = d.const(d.generator.integers(-9, 9, (n,)).astype("int32")) if d.chance(0.5) else None
        out = [scale(d), zero(d, "uint8")] if d.chance(0.5) else []
        emit(d, op, [a, scale(d), zero(d, "uint8"), w, *of_w, added, *out], exact=True)


@operator("QLinearConv", weight=0.12)
@contrib("QLinearConv")
def quantised_convolution(d, op):
    a = image(d, ("uint8",), (2,))
    last = d.rng.choice((None, 1))
    channels = a.shape[3] if last else a.shape[1]
    kernel = [d.rng.choice((1, 2)), 1]
    w = d.const(d.generator.integers(-8, 8, (d.rng.choice((1, 2, 4)), channels, *kernel)).astype("int8"))
    bias = d.const(d.generator.integers(-9, 9, w.shape[:1]).astype("int32")) if d.chance(0.5) else None
    domain = {"channels_last": last, "domain": DOMAIN} if last or op.startswith(DOMAIN) else {}
    d.emit("QLinearConv", [*quantised(d, "uint8", a), w, scale(d, d.rng.choice(((), w.shape[:1]))), d.const(np.array(0, "int8")), scale(d), zero(d, "uint8"), bias], exact=True,
           pads=d.rng.choice((None, [1, 0, 0, 0])), **domain)


@contrib("MatMulNBits", "GatherBlockQuantized")
def blocks_of_bits(d, op):
    if op.endswith("Quantized"):
        table = d.const(d.generator.integers(0, 256, (6, 16)).astype("uint8"))
        at = d.fresh("int64", d.shape(0, 2), low=0, high=5)
        zeros = [d.const(d.generator.integers(0, 256, (6, 1)).astype("uint8"))] if d.chance(0.4) else []
        emit(d, op, [table, at, scale(d, (6, 2)), *zeros], exact=True, block_size=16)
        return
    bits, n = d.rng.choice((4, 8)), d.rng.choice((1, 3, 5))
    k, blocks = d.rng.choice(((32, 1), (40, 2), (64, 2)))
    a = d.input("float32", (*d.shape(1, 2), k), fixed=1)
    w = d.const(d.generator.integers(0, 256, (n, blocks, 32 * bits // 8)).astype("uint8"))
    zeros = d.const(d.generator.integers(0, 256, (n, (blocks * bits + 7) // 8)).astype("uint8")) if d.chance(0.4) else None
    emit(d, op, [a, w, scale(d, (n, blocks)), *([zeros] if zeros else [])], N=n, K=k, bits=bits, block_size=32)


@contrib("ExpandDims", "Trilu", "Unique", "GatherND", "Pad", "Range", "Inverse", "CDist")
def plain(d, op):
    name = op.split("::")[-1]
    if name == "ExpandDims":
        a = d.pick("float32", high=3)
        emit(d, op, [a, d.const(np.array(d.rng.randint(-a.rank - 1, a.rank), "int32"))], exact=True)
    elif name == "Trilu":
        emit(d, op, [d.pick("float32", low=2), d.param(d.rng.choice((0, 1, -2)))], exact=True, upper=d.rng.choice((None, 0)))
    elif name == "Unique":
        emit(d, op, [d.pick("float32", low=1, high=1, exact=True)], 3, exact=True)
    elif name == "GatherND":
        a = d.pick("float32", low=1, fits=lambda v: v.array.size)
        emit(d, op, [a, d.fresh("int64", (2, d.rng.randint(1, a.rank)), low=-1, high=0, named=0)], exact=True)
    elif name == "Pad":
        a = d.pick("float32", low=1)
        emit(d, op, [a, d.param([d.rng.randint(0, 2) for _ in range(2 * a.rank)])], exact=True, mode=d.rng.choice((None, "edge", "reflect")))
    elif name == "Range":
        emit(d, op, [d.param(v, "int32") for v in (d.rng.randint(-3, 1), d.rng.randint(1, 7), d.rng.choice((1, 2)))], exact=True)
    elif name == "Inverse":
        a = d.fresh("float32", (*d.shape(0, 2), 3, 3), named=0)
        emit(d, op, [d.emit("Add", [a, d.const(8 * np.eye(3, dtype="float32"))], exact=True)[0]])
    else:
        a = d.pick("float32", low=2, high=2, fits=lambda v: v.array.size)
        emit(d, op, [a, d.fresh("float32", (d.rng.choice((1, 3)), a.shape[1]))], metric=d.rng.choice(("euclidean", "sqeuclidean")))


@contrib("QuantizeLinear", "DequantizeLinear")
def quantise(d, op):
    kind = d.rng.choice(("uint8", "int8", "uint16", "int16"))
    if op.endswith("::QuantizeLinear"):
        emit(d, op, [d.pick("float32", exact=True), scale(d), zero(d, kind)], exact=True)
    else:
        emit(d, op, [d.pick((kind,)), scale(d), zero(d, kind)], exact=True)
