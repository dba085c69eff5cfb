// SPDX-License-Identifier: Apache-2.0
// What the tables of operator families are made of: which element types are taken, and element-wise
// definitions.
#pragma once
#include "op/op_def.h"

namespace tenon::op {

/// One operand and one result of the same shape. `f` gets the call and the element (floats at least 32 bits
/// wide).
using UnaryRule = std::function<PrimExpr(const Call& call, const PrimExpr& x)>;
OpRegistration register_unary(OpName name, std::string doc, Domain domain, UnaryRule f, bool to_bool = false);

/// Two operands broadcast together (NumPy). `f` gets the elements, floats at least 32 bits wide.
using BinaryRule = PrimExpr (*)(const PrimExpr& a, const PrimExpr& b);
OpRegistration register_binary(OpName name, const char* doc, Domain domain, BinaryRule f,
                               bool to_bool = false);

/// Type of operands broadcast together; its shape is unknown when it cannot be told.
Type broadcast_type(InferContext& ctx, std::initializer_list<const graph::TensorType*> operands,
                    DataType dtype);

/// The constant v in the type of x.
PrimExpr like(const PrimExpr& x, double v);
/// log(1 + exp(x)) without overflow.
PrimExpr softplus(const PrimExpr& x);
/// The exponential of what an element of a softmax lies below the largest one; 0 where it is no normal number
/// of float32 any more, as elements that a mask takes off are: products with subnormal numbers take a hundred
/// times as long as others on Intel's processors.
PrimExpr exp_of_share(const PrimExpr& x);
/// A share that was made of parts, with the same rule.
PrimExpr share_or_zero(const PrimExpr& x);
double alpha_attr(const Call& call);  ///< the attribute `alpha`

/// A copy of t, element by element: the definition of operators that do nothing but must own their result.
te::Tensor copy_of(const te::Tensor& t, const std::string& name);
/// t read in row-major order as a tensor of another shape with as many elements.
te::Tensor reshape_to(const te::Tensor& t, const Shape& shape, const std::string& name);
/// Flat row-major index.
PrimExpr flatten_index(const Shape& index, const Shape& shape);
/// Index of the k-th element in row-major order.
Shape unflatten_index(PrimExpr flat, const Shape& shape);
/// a · b, integers and floats alike, in the accumulator's type.
DataType accumulator_type(DataType out);

}  // namespace tenon::op
