# SPDX-License-Identifier: Apache-2.0
"""Element-wise operators, casts and reductions."""
import numpy as np
import onnx

from draw import FLOATS, INTEGERS, Refused, operator

NUMBERS = FLOATS * 2 + INTEGERS
BOOLS = ("bool",)


@operator("Abs", "Neg", "Sign", "Relu", "Identity", weight=0.6)
def exact_unary(d, op):
    # The sign of what is 0 but for rounding is anyone's.
    d.emit(op, [d.pick(NUMBERS, exact=op == "Sign")], exact=True)


@operator("Floor", "Ceil", "Round", weight=0.4)
def rounding(d, op):
    d.emit(op, [d.pick(FLOATS, exact=True)], exact=True)


@operator("Sigmoid", "Tanh", "Exp", "Erf", "Softplus", "Softsign", "Sin", "Cos", "Atan", "Sinh", "Asinh", "Cosh", "Mish", "HardSwish", weight=0.25)
def smooth(d, op):
    d.emit(op, [d.pick(FLOATS)])


@operator("Elu", "Selu", "Celu", "LeakyRelu", "HardSigmoid", "ThresholdedRelu", "Gelu", "Swish", weight=0.25)
def with_alpha(d, op):
    attributes = {"Selu": ("alpha", "gamma"), "HardSigmoid": ("alpha", "beta"), "Gelu": ()}.get(op, ("alpha",))
    given = {a: d.rng.choice((0.25, 1.0, 2.0, 0.5)) for a in attributes if d.chance(0.6)}
    if op == "Gelu" and d.chance(0.5):
        given["approximate"] = "tanh"
    d.emit(op, [d.pick(FLOATS, exact=op == "ThresholdedRelu")], **given)


@operator("Log", "Sqrt", "Reciprocal", "Acosh", "Asin", "Acos", "Atanh", "Tan", weight=0.15)
def partial(d, op):
    low, high = {"Acosh": (1, 4), "Asin": (-1, 1), "Acos": (-1, 1), "Atanh": (-0.75, 0.75), "Tan": (-1, 1)}.get(op, (0.25, 4))
    d.emit(op, [d.pick(FLOATS, reuse=0, low=0)] if d.chance(0.1) else [d.fresh(d.rng.choice(FLOATS), d.shape(), low=low, high=high)])


@operator("Not", "IsNaN", "IsInf", "BitwiseNot", weight=0.3)
def tests(d, op):
    d.emit(op, [d.pick({"Not": BOOLS, "BitwiseNot": INTEGERS}.get(op, FLOATS))], exact=True)


@operator("Add", "Sub", "Mul", weight=1.5)
def arithmetic(d, op):
    a = d.pick(NUMBERS)
    pair = [a, d.partner(a)]
    d.rng.shuffle(pair)
    d.emit(op, pair, exact=True)


@operator("Min", "Max", "Sum", "Mean", weight=0.5)
def variadic(d, op):
    a = d.pick(NUMBERS if op in ("Min", "Max") else FLOATS)
    d.emit(op, [a, *(d.partner(a) for _ in range(d.rng.randint(0, 2)))], exact=op != "Mean")


@operator("Div", "Mod", "Pow", weight=0.5)
def division(d, op):
    a = d.pick(NUMBERS, exact=True)
    kind = a.array.dtype.kind
    b = d.fresh(a.dtype, [1 if d.chance(0.3) else s for s in a.shape][d.rng.choice((0, 0, 1)):], low=1, high=3, step=0.5 if kind == "f" else 1)
    d.emit(op, [a, b], exact=kind != "f" or op == "Mod", fmod=(1 if kind == "f" else d.rng.choice((0, 1))) if op == "Mod" else None)


@operator("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", weight=0.4)
def comparison(d, op):
    a = d.pick(NUMBERS, exact=True)
    b = d.partner(a)
    if not b.exact:
        raise Refused("not exact")
    d.emit(op, [a, b], exact=True)


@operator("And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift", weight=0.3)
def bits(d, op):
    a = d.pick(INTEGERS if op.startswith("Bit") else BOOLS)
    d.emit(op, [a, d.partner(a)], exact=True, direction=d.rng.choice(("LEFT", "RIGHT")) if op == "BitShift" else None)


@operator("Where")
def where(d, op):
    a = d.pick(NUMBERS + BOOLS)
    d.emit(op, [d.partner(a, BOOLS), a, d.partner(a)], exact=True)


@operator("PRelu", weight=0.4)
def prelu(d, op):
    a = d.pick(FLOATS + ("int32", "int64"))
    d.emit(op, [a, d.fresh(a.dtype, [1 if d.chance(0.4) else s for s in a.shape][d.rng.choice((0, 1)):])], exact=True)


@operator("Clip", weight=0.6)
def clip(d, op):
    a = d.pick(NUMBERS)
    bound = lambda v: None if d.chance(0.3) else d.param(v, a.dtype)  # noqa: E731
    low = 0 if a.array.dtype.kind == "u" else -1
    d.emit(op, [a, bound(low), bound(d.rng.choice((1, 2)))], exact=True)


@operator("BitCast", weight=0.2)
def bit_cast(d, op):
    a = d.pick(("float32", "int32", "uint8", "int64", "float64"), exact=True)
    to = {"float32": "int32", "int32": d.rng.choice(("float32", "uint32")), "uint8": "int8", "int64": "uint64", "float64": "int64"}[a.dtype]
    d.emit(op, [a], exact=True, to=onnx.helper.np_dtype_to_tensor_dtype(np.dtype(to)))


@operator("Dropout", "Constant", weight=0.15)
def held(d, op):
    if op == "Constant":
        d.emit(op, [], exact=True, value=onnx.numpy_helper.from_array(d.generator.integers(-4, 5, d.shape(0, 3)).astype(d.rng.choice(NUMBERS[:6]))))
    else:
        d.emit(op, [d.pick(FLOATS), *([d.param(np.float32(0.5), "float32")] if d.chance(0.5) else [])], d.rng.choice((1, 2)), exact=True)


@operator("Shrink", weight=0.2)
def shrink(d, op):
    d.emit(op, [d.pick(NUMBERS, exact=True)], lambd=d.rng.choice((0.5, 1.0, 1.5)), bias=d.rng.choice((0.0, 0.5, 1.0)))


@operator("Cast", "CastLike", weight=0.8)
def cast(d, op):
    a = d.pick(NUMBERS + BOOLS, exact=d.chance(0.8))
    to = d.rng.choice(FLOATS + INTEGERS + BOOLS)
    kind, target = a.array.dtype.kind, np.dtype(to)
    if target.kind in "iub" and not a.exact:
        raise Refused("not exact")
    if target.kind == "u" and kind in "if" and a.array.size and a.array.min() < 0:
        raise Refused("undefined")
    if op == "CastLike":
        d.emit(op, [a, d.pick(to)], exact=True)
    else:
        d.emit(op, [a], exact=True, to=onnx.helper.np_dtype_to_tensor_dtype(target))


@operator("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum",
          "ReduceLogSumExp", weight=0.4)
def reduction(d, op):
    a = d.pick(FLOATS * 3 + ("int32", "int64") + (("bool", "int8") if op in ("ReduceMax", "ReduceMin") else ()))
    keep = d.rng.choice((None, 0, 1))
    axes = d.rng.choice((None, [], d.axes(a, 1)))
    exact = op in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceSumSquare")
    if op == "ReduceSum" or d.opset >= 18:
        given = [a] if axes is None else [a, d.param(np.array(axes, np.int64))]
        d.emit(op, given, exact=exact, keepdims=keep, noop_with_empty_axes=d.rng.choice((None, None, 1, 0)))
    else:
        d.emit(op, [a], exact=exact, keepdims=keep, axes=axes or None)


@operator("ArgMax", "ArgMin", weight=0.4)
def arg(d, op):
    a = d.pick(FLOATS + ("int32", "int8", "int64"), low=1, exact=True)
    d.emit(op, [a], exact=True, axis=d.axis(a), keepdims=d.rng.choice((None, 0, 1)), select_last_index=d.rng.choice((None, 0, 1)))


@operator("CumSum", "CumProd", weight=0.3)
def cumulative(d, op):
    a = d.pick(("float32", "float64", "int32", "int64"), low=1)
    d.emit(op, [a, d.param(d.axis(a), d.rng.choice(("int64", "int32")))], exact=True, exclusive=d.rng.choice((None, 1)), reverse=d.rng.choice((None, 1)))


@operator("Softmax", "LogSoftmax", "Hardmax", weight=0.4)
def softmax(d, op):
    a = d.pick(FLOATS, low=1, exact=op == "Hardmax")
    d.emit(op, [a], exact=op == "Hardmax", axis=d.rng.choice((None, d.axis(a))))


@operator("DequantizeLinear", "QuantizeLinear", weight=0.7)
def quantise(d, op):
    kind = d.rng.choice(("uint8", "int8", "int8", "uint16", "int16") if d.opset >= 21 else ("uint8", "int8"))
    a = d.pick("float32", exact=True) if op == "QuantizeLinear" else d.pick((kind,))
    axis, shape = None, ()
    if a.rank and d.chance(0.5):
        axis = d.axis(a)
        shape = (a.shape[axis],)
    scale = d.fresh("float32", shape, low=0.25, high=1, step=0.25) if shape else d.const(np.float32(d.rng.choice((0.25, 0.5, 0.125))))
    zero = d.fresh(kind, shape) if d.chance(0.7) else None
    d.emit(op, [a, scale, zero], exact=op != "QuantizeLinear" or not shape, axis=axis)


@operator("DynamicQuantizeLinear", weight=0.2)
def quantise_by_range(d, op):
    a = d.pick("float32", low=1)
    results = d.emit(op, [a], 3)
    for r in results:
        r.exact = False
