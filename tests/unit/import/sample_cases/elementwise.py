# SPDX-License-Identifier: Apache-2.0
"""Element by element, and reductions."""
import numpy as np
from onnx import TensorProto

from sample_cases.case import bools, distinct, f32, floats, i64, ints, one, seed

# Element by element.
seed("unary")
for op in "Abs Neg Sign Floor Ceil Exp Sin Cos Tan Sinh Cosh Tanh Asinh Atan Erf Sigmoid Relu Softplus Softsign HardSwish Mish".split():
    one(op, floats(2, 5))
for op in ("Asin", "Acos", "Atanh"):
    one(op, floats(2, 5, low=-0.9, high=0.9))
for op in ("Log", "Sqrt", "Reciprocal"):
    one(op, floats(2, 5, low=0.1, high=4))
one("Acosh", floats(2, 5, low=1.1, high=4))
one("Round", f32(-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.4, -2.6))
one("Abs", ints(6, dtype=np.int32), name="Abs of integers")
one("Sign", ints(6), name="Sign of integers")
one("Neg", ints(6, dtype=np.int8), name="Neg of bytes")
one("Not", bools(2, 4))
one("BitwiseNot", ints(6, dtype=np.int32))
one("IsNaN", f32(1, np.nan, -np.inf, np.inf))
one("IsInf", f32(1, np.nan, -np.inf, np.inf))
one("IsInf", f32(1, np.nan, -np.inf, np.inf), detect_negative=0, name="IsInf, positive only")

seed("activations")
one("Celu", floats(2, 5), alpha=1.5)
one("Elu", floats(2, 5), alpha=0.7)
one("Gelu", floats(2, 5))
one("Gelu", floats(2, 5), approximate="tanh", name="Gelu by tanh")
one("HardSigmoid", floats(2, 5), alpha=0.3, beta=0.4)
one("LeakyRelu", floats(2, 5), alpha=0.1)
one("Selu", floats(2, 5))
one("Shrink", floats(2, 5), lambd=0.8, bias=0.2)
one("Swish", floats(2, 5), alpha=0.8)
one("ThresholdedRelu", floats(2, 5), alpha=0.5)
one("PRelu", floats(2, 3, 4), floats(3, 1))
one("Hardmax", floats(3, 4))
one("Softmax", floats(2, 3, 4))
one("Softmax", floats(2, 3, 4), axis=1, name="Softmax over the middle")
data = floats(2, 3, 4)
one("Softmax", data, axis=1, opset=11, name="Softmax of operator set 11, over all from the axis on",
    expected=[(np.exp(data) / np.exp(data).sum(axis=(1, 2), keepdims=True)).astype(np.float32)])
one("LogSoftmax", floats(2, 3, 4), axis=0)

seed("binary")
for op in ("Add", "Sub", "Mul", "Div"):
    one(op, floats(2, 3, 4), floats(3, 1, low=0.5))
one("Div", ints(8, low=-9, high=9, dtype=np.int32), ints(8, low=1, high=5, dtype=np.int32), name="Div of integers")
one("Pow", floats(2, 4, low=0.2), floats(4))
one("Pow", floats(5), ints(5, low=0, high=4), name="Pow of a float by integers")
one("Mod", ints(8, low=-9, high=9), ints(8, low=1, high=5))
one("Mod", floats(8, low=-9, high=9), floats(8, low=0.5, high=5), fmod=1, name="Mod with the sign of the dividend")
for op in ("Max", "Min", "Mean", "Sum"):
    one(op, floats(2, 3), floats(3), floats(2, 1))
one("Max", ints(6, dtype=np.int32), ints(6, dtype=np.int32), name="Max of integers")
for op in ("And", "Or", "Xor"):
    one(op, bools(2, 4), bools(4))
for op in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"):
    one(op, ints(2, 5, low=0, high=3), ints(5, low=0, high=3))
one("Greater", floats(6), floats(6), name="Greater of floats")
for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
    one(op, ints(6, low=0, high=64, dtype=np.int32), ints(6, low=0, high=64, dtype=np.int32))
one("BitShift", ints(5, low=1, high=40, dtype=np.uint8), ints(5, low=0, high=3, dtype=np.uint8), direction="LEFT")
one("BitShift", ints(5, low=1, high=90, dtype=np.uint32), ints(5, low=0, high=3, dtype=np.uint32), direction="RIGHT", name="BitShift to the right")
one("Where", bools(2, 1), floats(2, 3), floats(3))
one("Clip", floats(2, 5), f32(-0.5).reshape(()), f32(1).reshape(()), constants=(1, 2))
one("Clip", floats(2, 5), f32(-0.5).reshape(()), f32(1).reshape(()), name="Clip with limits at run time")
one("Clip", floats(2, 5), min=-0.5, max=1.0, opset=6, name="Clip with limits as attributes")
one("Cast", f32(-2.7, -0.5, 0, 0.4, 3.9), to=TensorProto.INT32)
one("Cast", f32(-2.7, 0, 0.4), to=TensorProto.BOOL, name="Cast to bool")
one("Cast", ints(5), to=TensorProto.FLOAT, name="Cast of integers to float")
one("Cast", floats(5), to=TensorProto.FLOAT16, name="Cast to float16")
one("CastLike", floats(5), ints(1, dtype=np.int64))
one("BitCast", floats(4), to=TensorProto.INT32)
one("QuantizeLinear", floats(2, 6), f32(0.02).reshape(()), np.array(3, np.uint8), constants=(1, 2))
one("QuantizeLinear", floats(2, 3, 2), f32(0.02, 0.05, 0.1), np.zeros(3, np.int8), axis=1, constants=(1, 2), name="QuantizeLinear by channel")
one("DequantizeLinear", ints(2, 6, low=0, high=200, dtype=np.uint8), f32(0.02).reshape(()), np.array(100, np.uint8), constants=(1, 2))
one("DequantizeLinear", ints(2, 3, 2, dtype=np.int8), f32(0.02, 0.05, 0.1), axis=1, constants=(1,), name="DequantizeLinear by channel")
one("DynamicQuantizeLinear", floats(2, 6), results=3)

# Reductions.
seed("reductions")
for op in "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare".split():
    data = floats(2, 3, 4, low=0.2)
    one(op, data, i64(1), constants=(1,))
    one(op, data, i64(0, -1), constants=(1,), keepdims=0, name=op + " without the dimensions")
    one(op, data, axes=[-1], opset=11, name=op + " with axes as an attribute")
one("ReduceSum", floats(2, 3), noop_with_empty_axes=1, name="ReduceSum over no axes")
one("ReduceMax", floats(2, 3), name="ReduceMax over all")
one("ReduceSum", floats(2, 3, 4), i64(1), name="ReduceSum with axes at run time")
for op in ("ArgMax", "ArgMin"):
    one(op, distinct(2, 3, 4), axis=1)
    one(op, f32(1, 3, 3, 1, 3, 1).reshape(2, 3), axis=1, keepdims=0, select_last_index=1, name=op + ", the last of equal ones")
one("CumSum", floats(2, 4), np.array(1, np.int64), constants=(1,))
one("CumSum", floats(2, 4), np.array(0, np.int64), constants=(1,), exclusive=1, reverse=1, name="CumSum, exclusive and from the end")
one("CumProd", floats(2, 4), np.array(1, np.int64), constants=(1,))
