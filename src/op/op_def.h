// SPDX-License-Identifier: Apache-2.0
// The definition of an operator, its registration, and what definitions are written with: helpers for
// inference, shapes and tensor expressions.
#pragma once
#include <functional>
#include <source_location>

#include "ir/op.h"
#include "op/attrs.h"
#include "te/te.h"

namespace tenon::op {

using graph::Call;
using graph::Expr;
using graph::FusionKind;
using graph::Type;
using Shape = Array<PrimExpr>;
using Vars = Array<tir::VarRef>;

// ---------------------------------------------------------------- the definition of an operator
/// Type inference of one call: argument types are set; returns the result's type. A user's mistake is a
/// DiagnosticError made by `infer_error` (names operator, arguments with types, and the call's origin).
using InferType = std::function<Type(const Call& call)>;
[[noreturn]] void infer_error(const Call& call, std::string message, std::string hint = {});
/// What an operator computes: its outputs as tensor expressions of `inputs`, the tensor arguments in order,
/// tuples flattened; shapes and scalars are read from the call. `call.type` must be inferred and its shapes
/// known.
using TensorDef =
    std::function<std::vector<te::Tensor>(const Call& call, const std::vector<te::Tensor>& inputs)>;
/// What an operator on values that are no tensors computes (shape_of, shape_to_tensor, tensor_to_shape);
/// arguments are NDArray for a tensor and Array<int64_t> for a shape; so is the result.
using Evaluate = std::function<Any(const Call& call, const std::vector<Any>& args)>;

/// What stages ask of an operator beside its signature (graph::Op): one field for each question, filled in
/// where the operator is registered, in the file of its family.
struct OpDef : graph::OpRules {
  InferType infer;  ///< null: its type is what the call says (type_args)
  FusionKind fusion = FusionKind::opaque;
  TensorDef tensor_def;  ///< null: it is no tensor program
  Evaluate evaluate;     ///< null: the interpreter runs tensor_def
};
const OpDef& definition(const graph::Op& op);

/// Registration: `register_op("nn.relu", "max(x, 0)").argument(…).infer(…).fusion(…)`, at namespace scope.
class OpRegistration {
 public:
  OpRegistration(std::string name, std::string doc, std::source_location where);
  OpRegistration& argument(std::string name, std::string type, std::string doc, bool optional = false);
  OpRegistration& variadic();  ///< the last argument repeats
  OpRegistration& impure();
  /// Attributes of type T; `defaults`: values of its fields in order, in calls that give none.
  template <class T, class... Defaults>
  OpRegistration& attrs(Defaults&&... defaults) {
    return attrs(type_info<T>(), make<T>(std::forward<Defaults>(defaults)...));
  }
  OpRegistration& infer(InferType f);
  OpRegistration& fusion(FusionKind kind);
  OpRegistration& tensor_def(TensorDef f);
  OpRegistration& evaluate(Evaluate f);

 private:
  OpRegistration& attrs(const TypeInfo* type, ObjectRef defaults);
  graph::Op* op_;
  OpDef* def_;
};
OpRegistration register_op(std::string name, std::string doc,
                           std::source_location where = std::source_location::current());

// ---------------------------------------------------------------- attributes
/// The call's attributes; its operator's defaults when it has none.
template <class T>
const T& attrs_of(const Call& call) {
  if (const T* a = call.attrs.as<T>()) return *a;
  CHECK(!call.attrs, "a call carries attributes of another operator");
  const T* defaults = call.op.as<graph::Op>()->default_attrs.as<T>();
  CHECK(defaults, "an operator reads attributes that it does not have");
  return *defaults;
}

// ---------------------------------------------------------------- types of arguments
/// Type of argument i (leaves without one are inferred); never null.
Type arg_type(const Call& call, size_t i);
/// Argument i must be a tensor; infer_error otherwise.
const graph::TensorType& tensor_arg(const Call& call, size_t i);
/// Argument i is a tuple of tensors: their types.
std::vector<const graph::TensorType*> tuple_arg(const Call& call, size_t i);
/// Dimensions given by argument i (a ShapeExpr or a variable of known shape value), or nullopt.
std::optional<Shape> shape_arg(const Call& call, size_t i);
std::optional<Shape> shape_of(const graph::TensorType& t);
/// A tensor of known or unknown shape.
Type make_type(const std::optional<Shape>& shape, int64_t ndim, DataType dtype);
/// The argument's own type with another element type.
Type like(const graph::TensorType& t, DataType dtype);
/// Infer function: type of the first argument.
Type infer_same(const Call& call);
/// infer_error unless the rank is known and one of the given.
void expect_rank(const Call& call, const graph::TensorType& t, std::string_view what, int64_t rank);
/// 0 ≤ result < ndim; infer_error when out of range.
int64_t normal_axis(const Call& call, int64_t axis, int64_t ndim, std::string_view what = "axis");
/// Normalised, checked against repetition, sorted when `sorted`.
std::vector<int64_t> normal_axes(const Call& call, const Array<int64_t>& axes, int64_t ndim,
                                 bool sorted = true);
std::string show(const Shape& shape);  ///< "(2, n, 3)"

// ---------------------------------------------------------------- sizes
bool same_dim(const PrimExpr& a, const PrimExpr& b);  ///< provably equal
bool differ(const PrimExpr& a, const PrimExpr& b);    ///< both constant and not equal
PrimExpr product(const Shape& shape);
/// NumPy broadcasting. Nullopt: cannot be decided at compile time. infer_error names both shapes.
std::optional<Shape> broadcast_shapes(const Call& call, const Shape& a, const Shape& b);

// ---------------------------------------------------------------- tensor definitions
struct TensorInfo {
  Shape shape;
  DataType dtype;
};
/// Shape and element type of output i of the call; DiagnosticError "T1102" when the shape is not known.
TensorInfo output_info(const Call& call, size_t i = 0);
/// Last part of the operator's name, for blocks: "conv2d".
std::string short_name(const Call& call);
Shape indices(const Vars& vars);
/// Element of t for output indices of NumPy broadcasting: leading axes dropped, axes of extent 1 read at 0.
PrimExpr broadcast_at(const te::Tensor& t, const Shape& out_shape, const Shape& index);
/// f32 for floats narrower than 32 bits, else the type itself: arithmetic is done wide and rounded once.
DataType wide_type(DataType t);
PrimExpr wide(const PrimExpr& e);
PrimExpr constant(DataType t, double v);
/// A tensor with another element type (the tensor itself when it has it already).
te::Tensor cast_to(const te::Tensor& t, DataType dtype, const std::string& name = "cast");
/// Reductions over `axes` (sorted), which are left out of the result. `value` maps an element and its
/// indices.
using Element = std::function<PrimExpr(const PrimExpr& value, const Shape& index)>;
using ReduceOne = PrimExpr (*)(PrimExpr, Array<tir::IterVar>, PrimExpr);
te::Tensor reduce_over(const te::Tensor& x, const std::vector<int64_t>& axes, bool keepdims, ReduceOne f,
                       const Element& value, const std::string& name);
/// Indices into the result of reduce_over (keepdims false) for an element of the whole tensor.
Shape drop_axes(const Shape& index, const std::vector<int64_t>& axes);
/// 0 ≤ result < extent: negative counts from the end, then clamped, so that nothing outside is ever read.
PrimExpr safe_index(const PrimExpr& index, const PrimExpr& extent);
/// x with `before` and `after` more elements per axis, filled with `value`; x itself when all are zero.
te::Tensor pad_with(const te::Tensor& x, const Shape& before, const Shape& after, const PrimExpr& value,
                    const std::string& name = "pad_temp");

/// One value per spatial axis from a list that is empty (`otherwise`), has one value, or one per axis.
std::vector<int64_t> per_axis(const Call& call, const Array<int64_t>& list, size_t n, int64_t otherwise,
                              std::string_view what);
/// Begins then ends from a padding list of length 0, 1, n or 2n.
std::vector<int64_t> paddings(const Call& call, const Array<int64_t>& list, size_t n);
/// Type of a product of a and b (equal types, or both 8-bit integers); infer_error otherwise.
DataType contraction_type(const Call& call, DataType a, DataType b, DataType wanted);

}  // namespace tenon::op
