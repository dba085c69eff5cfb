# SPDX-License-Identifier: Apache-2.0
"""Operators of images and signals: what samples at computed positions, boxes, windows, transforms."""
import numpy as np

from draw import FLOATS, Refused, operator
from networks import image


@operator("GridSample", weight=0.3)
def grid_sample(d, op):
    a = image(d, ("float32",), (2, 2, 3))
    axes = a.rank - 2
    modes = ("bilinear", "nearest", "bicubic") if d.opset < 20 else ("linear", "nearest") + (("cubic",) if axes == 2 else ())
    if d.opset < 20 and axes == 3:
        raise Refused("rank")
    # Multiples of 1/4 that are no borders between two elements.
    grid = d.fresh("float32", (a.shape[0], *(d.rng.choice((1, 2, 3)) for _ in range(axes)), axes), low=-1.1, high=1.1, step=0.275)
    d.emit(op, [a, grid], mode=d.rng.choice((None, *modes)), padding_mode=d.rng.choice((None, "border", "reflection", "zeros")), align_corners=d.rng.choice((None, 1)))


@operator("AffineGrid", weight=0.2)
def affine_grid(d, op):
    batch, axes = d.rng.choice((1, 2)), d.rng.choice((2, 3))
    theta = d.fresh("float32", (batch, axes, axes + 1), named=0)
    d.emit(op, [theta, d.param([batch, 2, *(d.rng.choice((1, 2, 4)) for _ in range(axes))], run_time=0.3)], align_corners=d.rng.choice((None, 1)))


@operator("RoiAlign", "MaxRoiPool", weight=0.2)
def regions(d, op):
    a = image(d, ("float32",), (2,))
    count = d.rng.choice((1, 2, *d.root().sizes.values()))
    corners = [0, 0, 1.5, 1.25] if op == "RoiAlign" else [0, 0, 1, 1]
    rows = np.tile(np.array(corners, "float32"), (count, 1))
    if op == "MaxRoiPool":
        d.emit(op, [a, d.param(np.hstack([np.zeros((count, 1)), rows]), "float32")], pooled_shape=[d.rng.choice((1, 2)), 2], spatial_scale=d.rng.choice((None, 0.5)))
        return
    boxes, batch = d.param(rows, "float32"), d.param(np.zeros(count), "int64")
    mode = d.rng.choice((None, "output_half_pixel", "half_pixel")) if d.opset >= 16 else None
    d.emit(op, [a, boxes, batch], output_height=d.rng.choice((1, 2)), output_width=2, sampling_ratio=d.rng.choice((1, 2)), spatial_scale=d.rng.choice((None, 0.5)), mode="avg",
           coordinate_transformation_mode=mode)


@operator("NonMaxSuppression", weight=0.2)
def suppression(d, op):
    batch, count, classes = d.rng.choice((1, 2)), d.rng.choice((1, 3, *d.root().sizes.values())), d.rng.choice((1, 2))
    corners = d.generator.permutation(8 * batch * count).reshape(batch, count, 8)[..., :2].astype("float32") / 4
    boxes = d.param(np.concatenate([corners, corners + 1.5], 2), "float32", run_time=0.7)
    scores = d.param(d.generator.permutation(batch * classes * count).reshape(batch, classes, count) / 16, "float32", run_time=0.7)
    limits = [d.param([d.rng.choice((1, 2, 5))]), d.param([d.rng.choice((0.0, 0.3))], "float32"), d.param([0.1], "float32")][:d.rng.randint(1, 3)]
    d.emit(op, [boxes, scores, *limits], exact=True, center_point_box=d.rng.choice((None, 1)))


@operator("CenterCropPad", weight=0.2)
def centre(d, op):
    a = d.pick(FLOATS + ("int32",), low=1)
    axes = d.axes(a, 1) if d.chance(0.5) else None
    d.emit(op, [a, d.param([d.rng.choice((1, 2, 4, 6)) for _ in (axes or a.shape)])], exact=True, axes=axes)


@operator("Col2Im", weight=0.2)
def columns(d, op):
    kernel, size = [d.rng.choice((1, 2)) for _ in range(2)], [d.rng.choice((2, 3, 4)) for _ in range(2)]
    steps = [d.rng.choice((1, 2)) for _ in range(2)]
    count = int(np.prod([(s - k) // t + 1 for s, k, t in zip(size, kernel, steps)]))
    a = d.fresh("float32", (d.rng.choice((1, 2, *d.root().sizes.values())), 2 * kernel[0] * kernel[1], count), fixed=2)
    d.emit(op, [a, d.const(np.array(size)), d.const(np.array(kernel))], exact=True, strides=steps)


@operator("DeformConv", weight=0.2)
def deformed(d, op):
    batch, size = d.rng.choice((1, 2, *d.root().sizes.values())), d.rng.choice((2, 3, 4))
    a = d.input("float32", (batch, 2, size, size), fixed=3)
    w = d.const(d.generator.integers(-4, 5, (2, 2, 2, 1)).astype("float32") / 4)
    offsets = d.fresh("float32", (batch, 4, size - 1, size), fixed=3, low=-0.8, high=0.8, step=0.4)
    mask = [None, d.fresh("float32", (batch, 2, size - 1, size), fixed=3)] if d.chance(0.5) else []
    d.emit(op, [a, w, offsets, *mask], kernel_shape=[2, 1])


@operator("MaxUnpool", weight=0.2)
def unpooled(d, op):
    a = image(d, ("float32",), (2,))
    if not a.exact or a.shape[2] % 2 or a.shape[3] % 2:
        raise Refused("windows")
    top, at = d.emit("MaxPool", [a], 2, exact=True, kernel_shape=[2, 2], strides=[2, 2])
    d.emit(op, [top, at], exact=True, kernel_shape=[2, 2], strides=[2, 2])


@operator("DFT", "STFT", weight=0.2)
def transform(d, op):
    if op == "STFT":
        a = d.fresh("float32", (d.rng.choice((1, 2, *d.root().sizes.values())), d.rng.choice((6, 8, 9)), 1), fixed=2)
        frame = d.const(np.full(4, 0.5, "float32")) if d.chance(0.6) else None
        d.emit(op, [a, d.const(np.array(d.rng.choice((1, 2, 3)))), frame, None if frame else d.const(np.array(4))], onesided=d.rng.choice((None, 0, 1)))
        return
    rank = d.rng.choice((1, 2))
    a = d.fresh("float32", (*d.shape(rank, rank), d.rng.choice((3, 4, 8)), d.rng.choice((1, 2))), fixed=2)
    axis = a.rank - 2
    inverse = d.rng.choice((None, 1)) if a.shape[-1] == 2 else None
    onesided = 1 if a.shape[-1] == 1 and not inverse and d.chance(0.4) else None
    if d.opset >= 20:
        d.emit(op, [a, None, d.const(np.array(axis))], inverse=inverse, onesided=onesided)
    else:
        d.emit(op, [a], axis=axis, inverse=inverse, onesided=onesided)


@operator("BlackmanWindow", "HammingWindow", "HannWindow", "MelWeightMatrix", weight=0.1)
def windows(d, op):
    if op == "MelWeightMatrix":
        d.emit(op, [d.const(np.array(v)) for v in (d.rng.choice((2, 4)), 16, 8000)] + [d.const(np.float32(v)) for v in (100, 3900)])
    else:
        d.emit(op, [d.param(d.rng.choice((2, 5, 8)), d.rng.choice(("int64", "int32")))], periodic=d.rng.choice((None, 0)))


@operator("Det", weight=0.15)
def determinant(d, op):
    n = d.rng.choice((1, 2, 3))
    d.emit(op, [d.fresh(d.rng.choice(("float32", "float64")), (*d.shape(0, 2), n, n), fixed=2)])


@operator("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss", weight=0.2)
def loss(d, op):
    classes, inner = d.rng.choice((2, 3, 5)), d.rng.choice(((), (2,)))
    batch = d.rng.choice((1, 2, *d.root().sizes.values()))
    scores = d.input("float32", (batch, classes, *inner), fixed=1 + len(inner))
    target = d.input("int64", (batch, *inner), low=0, high=classes - 1, fixed=len(inner))
    weights = [d.fresh("float32", (classes,), low=0.25, high=1, named=0)] if d.chance(0.4) else []
    both = 2 if op.startswith("Softmax") and d.chance(0.4) else 1
    d.emit(op, [scores, target, *weights], both, reduction=d.rng.choice((None, "sum", "none", "mean")), ignore_index=d.rng.choice((None, 0, 1)))


@operator("Attention", weight=0.3)
def attention(d, op):
    batch, steps, keys = (d.rng.choice((1, 2, 3, *d.root().sizes.values())) for _ in range(3))
    heads, groups = d.rng.choice(((2, 2), (4, 2), (1, 1)))
    size = 4
    q = d.input("float32", (batch, heads, steps, size), fixed=(1, 3))
    k, v = (d.input("float32", (batch, groups, keys, size), fixed=(1, 3)) for _ in range(2))
    mask = [d.input(d.rng.choice(("float32", "bool")), (steps, keys))] if d.chance(0.4) else []
    d.emit(op, [q, k, v, *mask], is_causal=d.rng.choice((None, 1)), scale=d.rng.choice((None, 0.5)), softcap=d.rng.choice((None, 2.0)))


@operator("RotaryEmbedding", weight=0.2)
def rotary(d, op):
    batch, steps, size = d.rng.choice((1, 2)), d.rng.choice((1, 3, *d.root().sizes.values())), d.rng.choice((2, 4))
    angles = np.outer(np.arange(12), 1.0 / (1 + np.arange(size // 2)))
    tables = [d.const(f(angles).astype("float32")) for f in (np.cos, np.sin)]
    a = d.input("float32", (batch, 2, steps, size), fixed=(1, 3))
    d.emit(op, [a, *tables, d.input("int64", (batch, steps), low=0, high=9)], interleaved=d.rng.choice((None, 1)))


@operator("TensorScatter", weight=0.15)
def cache(d, op):
    batch = d.rng.choice((1, 2))
    a = d.input("float32", (batch, 6, 2), fixed=2, named=0)
    d.emit(op, [a, d.input("float32", (batch, 2, 2), fixed=2, named=0), d.input("int64", (batch,), low=0, high=4, named=0)], exact=True, axis=1, mode=d.rng.choice((None, "circular")))
