# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements, and arithmetic on shapes."""
import numpy as np

from draw import FLOATS, INTEGERS, Refused, operator

ANY = FLOATS * 2 + INTEGERS + ("bool",)


@operator("Reshape", weight=1.5)
def reshape(d, op):
    a = d.pick(ANY)
    count, dims = a.array.size, []
    for _ in range(d.rng.randint(0, 3)):
        left = max(1, count // max(1, int(np.prod(dims))))
        dims.append(d.rng.choice([k for k in range(1, left + 1) if left % k == 0]))
    dims.append(-1)
    if a.rank and d.chance(0.5):
        dims = [0] * d.rng.randint(1, a.rank) + [-1]
    if d.chance(0.3):
        dims[d.rng.randrange(len(dims))] = -1
    if dims.count(-1) > 1:
        dims = [-1]
    d.emit(op, [a, d.param(dims)], exact=True)


def sizes_of(d, a):
    """A vector of sizes that is computed from the shape of a."""
    whole = d.emit("Shape", [a], exact=True, **({"start": d.rng.choice((None, 0)), "end": None} if d.opset >= 15 else {}))[0]
    return whole


@operator("Shape", "Size", weight=0.4)
def shape(d, op):
    a = d.pick(ANY)
    if op == "Shape" and d.opset >= 15:
        d.emit(op, [a], exact=True, start=d.rng.choice((None, 0, 1, -1, -9)), end=d.rng.choice((None, 1, 9, -1)))
    else:
        d.emit(op, [a], exact=True)


@operator("ShapeArithmetic", weight=1.5)
def shape_arithmetic(d, op):
    """Shape, Gather, arithmetic, Concat, and an operator that takes the sizes."""
    a = d.pick(ANY, low=1)
    sizes = sizes_of(d, a)
    parts = []
    for i in range(a.rank):
        one = d.emit("Gather", [sizes, d.const(np.int64(i - (a.rank if d.chance(0.3) else 0)))], exact=True, axis=0)[0]
        parts.append(d.emit("Unsqueeze", [one, d.const(np.array([0]))], exact=True)[0])
    what = d.rng.choice(("merge", "split", "expand", "fill", "tile", "slice"))
    if what == "merge" and a.rank >= 2:
        k = d.rng.randrange(a.rank - 1)
        merged = d.emit("Mul", [parts[k], parts[k + 1]], exact=True)[0]
        parts[k:k + 2] = [merged if d.chance(0.6) else d.const(np.array([-1]))]
        d.emit("Reshape", [a, d.emit("Concat", parts, exact=True, axis=0)[0]], exact=True)
    elif what == "split":
        factor = d.const(np.array([d.rng.choice((1, 2, 3))]))
        k = d.rng.randrange(a.rank)
        parts[k:k + 1] = [factor, d.emit("Div", [parts[k], factor], exact=True)[0]]
        d.emit("Reshape", [a, d.emit("Concat", parts, exact=True, axis=0)[0]], exact=True)
    elif what == "expand":
        d.emit("Expand", [d.partner(a), d.emit("Concat", parts, exact=True, axis=0)[0]], exact=True)
    elif what == "tile":
        d.emit("Tile", [d.pick(ANY, low=a.rank, high=a.rank), d.emit("Concat", parts, exact=True, axis=0)[0]], exact=True)
    elif what == "slice":
        b = d.pick(ANY, low=1)
        end = d.emit(d.rng.choice(("Add", "Sub")), [parts[0], d.const(np.array([d.rng.randint(-1, 2)]))], exact=True)[0]
        d.emit("Slice", [b, d.const(np.array([0])), end, d.const(np.array([d.axis(b)]))], exact=True)
    else:
        d.emit("ConstantOfShape", [d.emit("Concat", parts[:3], exact=True, axis=0)[0]], exact=True)


@operator("ConstantOfShape", "Range", "EyeLike", weight=0.3)
def made(d, op):
    import onnx
    if op == "ConstantOfShape":
        value = onnx.numpy_helper.from_array(np.array([3], d.rng.choice(ANY)))
        d.emit(op, [d.param(list(d.shape(0, 3)))], exact=True, value=value)
    elif op == "Range":
        kind = d.rng.choice(("int64", "int32", "float32"))
        d.emit(op, [d.param(v, kind) for v in (d.rng.randint(-3, 1), d.rng.randint(0, 7), d.rng.choice((1, 2, -1)))], exact=True)
    else:
        d.emit(op, [d.pick(("float32", "int32", "int64", "float64"), low=2, high=2)], exact=True, k=d.rng.choice((None, 0, 1, -1, 9)))


@operator("Transpose", weight=1.2)
def transpose(d, op):
    a = d.pick(ANY)
    d.emit(op, [a], exact=True, perm=d.rng.sample(range(a.rank), a.rank) if a.rank and d.chance(0.85) else None)


@operator("Squeeze", "Unsqueeze", weight=0.6)
def ones(d, op):
    a = d.pick(ANY, high=3 if op == "Unsqueeze" else 5)
    if op == "Unsqueeze":
        more = d.rng.randint(1, 2)
        axes = [x - (a.rank + more if d.chance(0.3) else 0) for x in d.rng.sample(range(a.rank + more), more)]
        d.emit(op, [a, d.param(axes, run_time=0)], exact=True)
    elif d.chance(0.3):
        d.emit(op, [a], exact=True)
    else:
        single = [i - (a.rank if d.chance(0.3) else 0) for i, s in enumerate(a.shape) if s == 1]
        d.emit(op, [a, d.param(d.rng.sample(single, d.rng.randint(min(1, len(single)), len(single))), run_time=0)], exact=True)


@operator("Flatten", weight=0.4)
def flatten(d, op):
    a = d.pick(ANY)
    d.emit(op, [a], exact=True, axis=d.rng.choice((None, d.rng.randint(-a.rank, a.rank))))


@operator("Expand", "Tile", weight=0.6)
def repeat(d, op):
    a = d.pick(ANY)
    if op == "Tile":
        d.emit(op, [a, d.param([d.rng.choice((1, 1, 2, 3, 0)) for _ in a.shape])], exact=True)
    else:
        shape = [d.rng.choice((1, s)) if s != 1 else d.rng.choice((1, 2, 3)) for s in a.shape]
        d.emit(op, [a, d.param(([2] if d.chance(0.3) else []) + shape)], exact=True)


@operator("Concat")
def concat(d, op):
    a = d.pick(ANY, low=1)
    axis = d.axis(a)
    parts = [a]
    for _ in range(d.rng.randint(0, 2)):
        shape = list(a.shape)
        same = [v for v in d.visible() if v.dtype == a.dtype and v.rank == a.rank and all(p == q for k, (p, q) in enumerate(zip(v.shape, a.shape)) if k != axis % a.rank)]
        if d.chance(0.5):
            parts.append(d.rng.choice(same))
        else:
            shape[axis] = d.rng.choice((0, 1, 2, 3))
            parts.append(d.fresh(a.dtype, shape))
    d.rng.shuffle(parts)
    d.emit(op, parts, exact=True, axis=axis)


@operator("Split", weight=0.6)
def split(d, op):
    a = d.pick(ANY, low=1)
    axis = d.axis(a)
    size = a.shape[axis]
    if d.chance(0.5):
        first = d.rng.randint(0, size)
        d.emit(op, [a, d.param([first, size - first])], 2, exact=True, axis=axis)
    else:
        count = d.rng.randint(1, 3)
        d.emit(op, [a], count, exact=True, axis=axis, num_outputs=count if d.opset >= 18 else None)


@operator("Slice", weight=1.2)
def cut(d, op):
    a = d.pick(ANY, low=1)
    axes = d.axes(a, 1)
    edge = lambda: d.rng.choice((0, 1, 2, -1, -2, 5, -9, 2**31 - 1, 2**63 - 1, -2**63))  # noqa: E731
    starts, ends = [edge() for _ in axes], [edge() for _ in axes]
    steps = [d.rng.choice((1, 1, 2, -1, -2)) for _ in axes]
    given = [a, d.param(starts), d.param(ends), d.param(axes, run_time=0)]
    d.emit(op, given + ([d.param(steps)] if d.chance(0.7) else []), exact=True)


@operator("Pad", weight=0.8)
def pad(d, op):
    a = d.pick(FLOATS + ("int64", "int32", "bool"), low=1)
    mode = d.rng.choice((None, "constant", "reflect", "edge") + (("wrap",) if d.opset >= 19 else ()))
    low = -1 if d.chance(0.3) else 0
    axes = d.axes(a, 1) if d.opset >= 18 and d.chance(0.4) else None
    width = 2 * len(axes if axes is not None else a.shape)
    pads = d.param([d.rng.randint(low, 2) for _ in range(width)])
    value = d.param(1, a.dtype) if mode in (None, "constant") and d.chance(0.5) else None
    d.emit(op, [a, pads, value] + ([d.param(axes, run_time=0)] if axes is not None else []), exact=True, mode=mode)


@operator("Gather", "GatherElements", "GatherND", weight=0.6)
def gather(d, op):
    a = d.pick(ANY, low=1, fits=lambda v: v.array.size)
    kind = d.rng.choice(("int64", "int32"))
    if op == "Gather":
        axis = d.axis(a)
        d.emit(op, [a, d.fresh(kind, d.shape(0, 2), low=-1, high=0)], exact=True, axis=axis)
    elif op == "GatherElements":
        shape = [d.rng.randint(1, s) if s else 0 for s in a.shape] if d.chance(0.5) else a.shape
        d.emit(op, [a, d.fresh(kind, shape, low=-1, high=0)], exact=True, axis=d.axis(a))
    else:
        batch = d.rng.randint(0, min(1, a.rank - 1))
        width = d.rng.randint(1, a.rank - batch)
        d.emit(op, [a, d.fresh("int64", [*a.shape[:batch], d.rng.choice((1, 2)), width], low=-1, high=0, named=0)], exact=True, batch_dims=batch)


@operator("ScatterElements", "ScatterND", weight=0.5)
def scatter(d, op):
    a = d.pick(FLOATS + ("int32", "int64"), low=1, fits=lambda v: v.array.size)
    reduction = d.rng.choice((None, "add", "mul") + (("min", "max") if d.opset >= 18 else ())) if d.opset >= 16 else None
    if op == "ScatterElements":
        axis = d.axis(a)
        shape = [1 if k == axis % a.rank and reduction is None else d.rng.randint(1, s) for k, s in enumerate(a.shape)]
        index = d.fresh("int64", shape, low=-1, high=0)
        d.emit(op, [a, index, d.fresh(a.dtype, shape)], exact=True, axis=axis, reduction=reduction)
    else:
        width = d.rng.randint(1, a.rank)
        count = 1 if reduction is None else 2
        index = d.fresh("int64", [count, width], low=-1, high=0, named=0)
        d.emit(op, [a, index, d.fresh(a.dtype, [count, *a.shape[width:]])], exact=True, reduction=reduction)


@operator("Trilu", weight=0.4)
def trilu(d, op):
    k = d.param(d.rng.choice((0, 1, -1, 9, -9))) if d.chance(0.6) else None
    d.emit(op, [d.pick(ANY, low=2), k], exact=True, upper=d.rng.choice((None, 0, 1)))


@operator("OneHot", weight=0.3)
def one_hot(d, op):
    a = d.pick(("int64", "int32"), high=2)
    kind = d.rng.choice(("float32", "int64"))
    d.emit(op, [a, d.param(d.rng.choice((1, 3, 4))), d.const(np.array([0, 1], kind))], exact=True, axis=d.rng.choice((None, d.axis(a, 1))))


@operator("NonZero", "Compress", "Unique", weight=0.3)
def from_data(d, op):
    if op == "NonZero":
        d.emit(op, [d.pick(("float32", "int32", "int64", "bool", "uint8"), exact=True, low=1)], exact=True)
    elif op == "Compress":
        a = d.pick(ANY, low=1)
        axis = d.rng.choice((None, d.axis(a)))
        length = a.array.size if axis is None else a.shape[axis]
        d.emit(op, [a, d.fresh("bool", [d.rng.randint(0, length)])], exact=True, axis=axis)
    else:
        a = d.pick(("float32", "int64", "int8", "float64"), exact=True, low=1)
        d.emit(op, [a], 4, exact=True, axis=d.rng.choice((None, d.axis(a))), sorted=d.rng.choice((None, 0, 1)))


@operator("TopK", weight=0.4)
def top(d, op):
    a = d.pick(FLOATS + ("int64", "int32"), low=1, exact=True)
    axis = d.axis(a)
    d.emit(op, [a, d.param([d.rng.randint(0, a.shape[axis])])], 2, exact=True, axis=axis, largest=d.rng.choice((None, 0)))


@operator("DepthToSpace", "SpaceToDepth", weight=0.3)
def blocks(d, op):
    b = d.rng.choice((1, 2))
    shape = list(d.shape(4, 4))
    shape[1] *= b * b if op == "DepthToSpace" else 1
    shape[2:] = shape[2:] if op == "DepthToSpace" else [s * b for s in shape[2:]]
    a = d.fresh("float32", shape)
    d.emit(op, [a], exact=True, blocksize=b, mode=d.rng.choice((None, "CRD", "DCR")) if op == "DepthToSpace" else None)


@operator("ReverseSequence", weight=0.2)
def reverse(d, op):
    a = d.pick(ANY, low=2, fits=lambda v: v.array.size)
    batch = d.rng.choice((0, 1))
    d.emit(op, [a, d.fresh("int64", [a.shape[batch]], low=1, high=1 if d.chance(0.3) else a.shape[1 - batch])], exact=True, batch_axis=batch, time_axis=1 - batch)


@operator("Einsum", weight=0.5)
def einsum(d, op):
    a = d.pick(("float32", "float64"), low=1, high=3)
    letters = "ijkl"[:a.rank]
    b = d.pick(a.dtype, low=1, high=3, fits=lambda v: v.shape[0] in a.shape)
    other = letters[a.shape.index(b.shape[0])] + "xyz"[:b.rank - 1]
    every = sorted(set(letters + other))
    result = "".join(d.rng.sample(every, d.rng.randint(0, len(every))))
    d.emit(op, [a, b], exact=True, equation=f"{letters},{other}->{result}" if d.chance(0.8) else f"{letters},{other}")


@operator("Resize", weight=0.5)
def resize(d, op):
    a = d.pick("float32", low=2, high=4, fits=lambda v: v.array.size)
    mode = d.rng.choice(("nearest", "linear", "cubic"))
    scaled = [k >= a.rank - 2 for k in range(a.rank)]
    transform = d.rng.choice((None, "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"))
    nearest = d.rng.choice((None, "floor", "ceil", "round_prefer_ceil")) if mode == "nearest" else None
    if d.chance(0.5):
        given = [a, None, d.param([d.rng.choice((1.0, 2.0, 0.5, 1.5)) if s else 1.0 for s in scaled], "float32")]
    else:
        given = [a, None, None, d.param([d.rng.randint(1, 7) if s else v for s, v in zip(scaled, a.shape)])]
    if mode == "cubic" and a.rank < 4:
        raise Refused("rank")
    d.emit(op, given, mode=mode, coordinate_transformation_mode=transform, nearest_mode=nearest)
