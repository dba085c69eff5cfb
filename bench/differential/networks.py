# SPDX-License-Identifier: Apache-2.0
"""Products, convolutions, pooling, normalisations, recurrent layers and quantised chains."""
import numpy as np

from draw import FLOATS, Refused, operator

REAL = ("float32", "float32", "float32", "float64")


@operator("MatMul", weight=1.2)
def matmul(d, op):
    a = d.pick(REAL + ("int32", "int64"), low=1)
    lead = [1 if d.chance(0.3) else s for s in a.shape[:-2]][d.rng.choice((0, 0, 1, 9)):]
    shape = [a.shape[-1]] if d.chance(0.15) else [*lead, a.shape[-1], d.rng.choice((1, 2, 5, *d.root().sizes.values()))]
    d.emit(op, [a, d.fresh(a.dtype, shape)], exact=True)


@operator("Gemm", weight=0.6)
def gemm(d, op):
    a = d.pick(REAL, low=2, high=2)
    left, right = d.chance(0.4), d.chance(0.5)
    m, k = a.shape[::-1] if left else a.shape
    n = d.rng.choice((1, 3, *d.root().sizes.values()))
    c = d.fresh(a.dtype, d.rng.choice(((), (n,), (1, n), (m, 1), (m, n)))) if d.chance(0.7) else None
    number = lambda: d.rng.choice((None, 0.5, 2.0, 0.0))  # noqa: E731
    d.emit(op, [a, d.fresh(a.dtype, (n, k) if right else (k, n)), c], exact=True, transA=int(left), transB=int(right), alpha=number(), beta=number())


def image(d, kinds=REAL, dims=(1, 2, 2, 2, 3)):
    """A batch of channels over some axes."""
    axes = d.rng.choice(dims)
    return d.pick(kinds, low=axes + 2, high=axes + 2, fits=lambda v: v.array.size and min(v.shape[2:]) > 1)


def window(d, a, transposed=False):
    axes = a.rank - 2
    kernel = [d.rng.choice((1, 2, 3)) for _ in range(axes)]
    attributes = {"strides": [d.rng.choice((1, 1, 2)) for _ in range(axes)] if d.chance(0.5) else None}
    if d.chance(0.3):
        attributes["auto_pad"] = d.rng.choice(("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"))
    elif d.chance(0.6):
        attributes["pads"] = [d.rng.randint(0, max(0, k - 1)) for k in kernel * 2]
    if d.chance(0.3):
        attributes["dilations"] = [d.rng.choice((1, 2)) for _ in range(axes)]
    if transposed and d.chance(0.3):
        attributes["output_padding"] = [d.rng.choice((0, 1)) for _ in range(axes)]
    return kernel, attributes


@operator("Conv", "ConvTranspose", weight=0.8)
def convolution(d, op):
    a = image(d, ("float32",))
    kernel, attributes = window(d, a, op == "ConvTranspose")
    channels = a.shape[1]
    group = d.rng.choice([g for g in (1, 1, 2, channels) if channels % g == 0])
    filters = group * d.rng.choice((1, 2, 3))
    shape = (filters, channels // group, *kernel) if op == "Conv" else (channels, filters // group, *kernel)
    w = d.const(d.generator.integers(-4, 5, shape).astype("float32") / 4) if d.chance(0.75) else d.fresh("float32", shape, named=0.1)
    bias = [d.fresh("float32", (filters,))] if d.chance(0.4) else []
    d.emit(op, [a, w, *bias], exact=True, group=group if group > 1 or d.chance(0.3) else None, kernel_shape=kernel if d.chance(0.5) else None, **attributes)


@operator("MaxPool", "AveragePool", "LpPool", weight=0.4)
def pool(d, op):
    a = image(d, ("float32", "float32", "float64") + (("int8", "uint8") if op == "MaxPool" else ()))
    kernel, attributes = window(d, a)
    if op == "LpPool":
        attributes["p"] = d.rng.choice((None, 1, 2, 3))
    if op == "AveragePool":
        attributes["count_include_pad"] = d.rng.choice((None, 1))
    if (op == "AveragePool" and d.opset < 19) or (op == "LpPool" and d.opset < 18):
        attributes.pop("dilations", None)
    if op != "LpPool" or d.opset >= 18:
        attributes["ceil_mode"] = d.rng.choice((None, None, 1))
    outputs = 2 if op == "MaxPool" and d.chance(0.3) else 1
    if outputs == 2:
        attributes["storage_order"] = d.rng.choice((None, 1))
    d.emit(op, [a], outputs, exact=op == "MaxPool", kernel_shape=kernel, **attributes)


@operator("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", weight=0.2)
def global_pool(d, op):
    d.emit(op, [image(d)], exact=op == "GlobalMaxPool", p=d.rng.choice((None, 1, 3)) if op == "GlobalLpPool" else None)


@operator("BatchNormalization", "InstanceNormalization", "LRN", "GroupNormalization", weight=0.3)
def channel_normalisation(d, op):
    a = image(d, ("float32",))
    c = a.shape[1]
    if op == "LRN":
        d.emit(op, [a], size=d.rng.choice((1, 2, 3, 5)), alpha=d.rng.choice((None, 0.5)), bias=d.rng.choice((None, 2.0)))
    elif op == "BatchNormalization":
        d.emit(op, [a, *(d.fresh("float32", (c,)) for _ in range(3)), d.fresh("float32", (c,), low=0.5, high=2)])
    elif op == "InstanceNormalization":
        d.emit(op, [a, d.fresh("float32", (c,)), d.fresh("float32", (c,))], epsilon=0.01)
    elif d.opset >= 21:
        g = d.rng.choice([k for k in (1, 2, c) if c % k == 0])
        d.emit(op, [a, d.fresh("float32", (c,)), d.fresh("float32", (c,))], num_groups=g, epsilon=0.01)


@operator("LayerNormalization", "RMSNormalization", "LpNormalization", "MeanVarianceNormalization", weight=0.3)
def row_normalisation(d, op):
    a = d.pick(("float32", "float32", "float16", "float64"), low=4 if op.startswith("Mean") else 1, fits=lambda v: v.array.size)
    if op.startswith("Mean"):
        d.emit(op, [a], axes=d.rng.choice((None, [a % 4 for a in d.axes(a, 1)])))
    elif op == "LpNormalization":
        d.emit(op, [a], axis=d.rng.choice((None, d.axis(a))), p=d.rng.choice((None, 1, 2)))
    else:
        axis = d.rng.choice((None, d.axis(a)))
        tail = a.shape[-1 if axis is None else axis:] if axis is None or axis < 0 else a.shape[axis:]
        scale = d.fresh(a.dtype, tail)
        bias = [d.fresh(a.dtype, tail)] if op.startswith("Layer") and d.chance(0.5) else []
        d.emit(op, [a, scale, *bias], d.rng.choice((1, 1, 3)) if op.startswith("Layer") else 1, axis=axis, epsilon=0.01)


@operator("MatMulInteger", "ConvInteger", "QLinearMatMul", weight=0.4)
def integer_product(d, op):
    left, right = d.rng.choice(("uint8", "int8")), d.rng.choice(("uint8", "int8"))
    if op == "ConvInteger":
        a = image(d, (left,), (1, 2))
        kernel, attributes = window(d, a)
        zero = [d.const(np.array(2, a.dtype))] if d.chance(0.5) else []
        d.emit(op, [a, d.fresh(right, (d.rng.choice((1, 2, 4)), a.shape[1], *kernel), named=0.1), *zero], exact=True, **attributes)
        return
    a = d.pick((left,), low=2)
    n = d.rng.choice((1, 3, 5, *d.root().sizes.values()))
    b = d.fresh(right, (a.shape[-1], n))
    if op == "MatMulInteger":
        zeros = [d.fresh(left, ()), d.fresh(right, d.rng.choice(((), (n,))))][:d.rng.randint(0, 2)]
        d.emit(op, [a, b, *zeros], exact=True)
    else:
        scale = lambda shape=(): d.const(np.full(shape, d.rng.choice((0.25, 0.5, 1.0)), "float32"))  # noqa: E731
        columns = d.rng.choice(((), (n,)))
        d.emit(op, [a, scale(), d.fresh(left, ()), b, scale(columns), d.fresh(right, columns), scale(), d.fresh(left, ())], exact=True)


@operator("QuantisedChain", weight=1)
def quantised_chain(d, op):
    """QuantizeLinear and DequantizeLinear around operators, as quantisers write them."""
    kind = d.rng.choice(("uint8", "int8"))
    a = d.pick("float32", low=2, exact=True)

    def rounded(v, axis=None, kind=kind):
        shape = (v.shape[axis],) if axis is not None else ()
        scale = d.const(np.full(shape, d.rng.choice((0.25, 0.5)), "float32"))
        zero = d.const(np.full(shape, d.rng.choice((0, 3)), kind))
        q = d.emit("QuantizeLinear", [v, scale, zero], exact=True, axis=axis)[0]
        return d.emit("DequantizeLinear", [q, scale, zero], exact=True, axis=axis)[0]

    v = rounded(a)
    for _ in range(d.rng.randint(1, 3)):
        what = d.rng.choice(("Relu", "Add", "MatMul", "Transpose", "MaxPool", "Conv", "Concat", "Reshape"))
        if what == "Add":
            v = d.emit(what, [v, rounded(d.partner(v))], exact=True)[0]
        elif what == "MatMul":
            v = d.emit(what, [v, rounded(d.const(d.generator.integers(-4, 5, (v.shape[-1], 3)).astype("float32") / 4), 1, "int8")], exact=True)[0]
        elif what == "Conv" and v.rank == 4:
            v = d.emit(what, [v, rounded(d.const(d.generator.integers(-4, 5, (2, v.shape[1], 1, 1)).astype("float32") / 4), 0, "int8")], exact=True)[0]
        elif what == "MaxPool" and v.rank == 4:
            v = d.emit(what, [v], exact=True, kernel_shape=[1, 2])[0]
        elif what == "Concat":
            v = d.emit(what, [v, v], exact=True, axis=0)[0]
        elif what == "Reshape":
            v = d.emit(what, [v, d.const(np.array([0, -1]))], exact=True)[0]
        elif what == "Transpose":
            v = d.emit(what, [v], exact=True, perm=d.rng.sample(range(v.rank), v.rank))[0]
        else:
            v = d.emit("Relu", [v], exact=True)[0]
        if not v.exact:
            raise Refused("not exact")
        v = rounded(v) if d.chance(0.7) else v


@operator("RNN", "GRU", "LSTM", weight=0.2)
def recurrent(d, op):
    a = d.pick("float32", low=3, high=3, fits=lambda v: v.array.size)
    steps, batch, width = a.shape
    hidden, gates = d.rng.choice((1, 2, 4)), {"RNN": 1, "GRU": 3, "LSTM": 4}[op]
    direction = d.rng.choice((None, "forward", "reverse", "bidirectional"))
    k = 2 if direction == "bidirectional" else 1
    bias = d.fresh("float32", (k, 2 * gates * hidden)) if d.chance(0.6) else None
    lengths = d.fresh("int32", (batch,), low=1, high=1 if d.chance(0.3) else steps) if d.chance(0.3) else None
    start = d.fresh("float32", (k, batch, hidden)) if d.chance(0.4) else None
    cell = [d.fresh("float32", (k, batch, hidden)) if d.chance(0.4) else None] if op == "LSTM" else []
    extra = {"linear_before_reset": d.rng.choice((None, 1))} if op == "GRU" else {}
    outputs = 3 if op == "LSTM" and d.chance(0.5) else 2
    d.emit(op, [a, d.fresh("float32", (k, gates * hidden, width), named=0), d.fresh("float32", (k, gates * hidden, hidden), named=0), bias, lengths, start, *cell],
           outputs, hidden_size=hidden, direction=direction, **extra)


@operator("FloatChain", weight=0.5)
def attention_like(d, op):
    """Scaled products of queries and keys, softmax, product with values."""
    q = d.pick("float32", low=3, high=4, fits=lambda v: v.array.size)
    keys = list(q.shape)
    keys[-2] = d.rng.choice((1, 3, q.shape[-2]))
    k, v = d.fresh("float32", keys), d.fresh("float32", keys)
    order = [*range(q.rank - 2), q.rank - 1, q.rank - 2]
    scores = d.emit("MatMul", [q, d.emit("Transpose", [k], exact=True, perm=order)[0]], exact=True)[0]
    scores = d.emit("Mul", [scores, d.const(np.float32(0.5))], exact=True)[0]
    if d.chance(0.5):
        scores = d.emit("Add", [scores, d.partner(scores)], exact=True)[0]
    d.emit("MatMul", [d.emit("Softmax", [scores], axis=-1)[0], v])
