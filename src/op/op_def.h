// SPDX-License-Identifier: Apache-2.0
// The definition of an operator, its registration, and what definitions are written with: helpers for
// inference, shapes and tensor expressions.
#pragma once
#include <functional>
#include <source_location>

#include "op/infer_context.h"
#include "te/te.h"

namespace tenon::op {

using graph::FusionKind;
using Vars = Array<tir::VarRef>;

// ---------------------------------------------------------------- the definition of an operator
/// Type inference of one call: the result's type, or null where it noted a mistake.
using InferType = std::function<Type(InferContext& ctx)>;
/// The type of argument i where the text leaves it open, as the operator says it from argument 0, a tensor: a
/// bias has one value per channel. Null: it says nothing, or it noted a mistake.
using ParameterType = std::function<Type(InferContext& ctx, size_t i)>;
/// What an operator computes: its outputs as tensor expressions of `inputs`, the tensor arguments in order,
/// tuples flattened; shapes and scalars are read from the call. `call.type` must be inferred and its shapes
/// known.
using TensorDef =
    std::function<std::vector<te::Tensor>(const Call& call, const std::vector<te::Tensor>& inputs)>;
/// What an operator on values that are no tensors computes (shape_of, shape_to_tensor, tensor_to_shape);
/// arguments are NDArray for a tensor and Array<int64_t> for a shape; so is the result.
using Evaluate = std::function<Any(const Call& call, const std::vector<Any>& args)>;

class LayoutContext;
struct LaidOut;
/// How an operator computes its result in another layout (layout_rule.h); nullopt: not from these operands.
using LayoutRule = std::function<std::optional<LaidOut>(LayoutContext& ctx)>;

/// A sum of products of data, argument 0, and a weight, argument 1, as passes that change weights see it.
/// Axes count from the front.
struct Contraction {
  int64_t weight_out = 0,
          weight_in = 0;         ///< axes of the weight: channels of the result, channels of the data
  int64_t data = 1, result = 1;  ///< the axis of channels
  int64_t groups = 1;            ///< the weight's second axis counts channels of one group
  int64_t spatial = 0;           ///< axes that windows slide along; 0: a product
  int64_t batch = 0;             ///< axes in front that data and weight share
  bool transposed = false;       ///< a transposed convolution
  DataType out_dtype;            ///< of the result; void: the operands'
};
/// Nullopt: the call's shapes or layouts make it none.
using ContractionRule = std::function<std::optional<Contraction>(const Call& call)>;

/// Constant weights of an operator that is more than one contraction (steps of recurrent layers): its sums
/// run along the last axis but one, which may lie in groups of neighbours inside of the last one, as
/// instructions for narrow types read them (dot_intrin.h).
struct GroupedWeight {
  size_t argument = 0;
  ObjectRef (*with_group)(const ObjectRef& attrs, int64_t group) = nullptr;  ///< null: it has
};

struct LetterRule;  // letters.h: layouts that attributes name

/// The value of a call by other operators, on the call's own arguments.
using CanonicalForm = std::function<Expr(InferContext& ctx)>;

/// What an operator does in a program of 16-bit floats.
enum class Precision {
  by_kind,  ///< injective operators follow, others stay wide
  wide,     ///< computes on float32: exponentials, sums, normalisations
  follows,  ///< exact in any float type, or rounded once: takes 16 bits when all its operands have them
  bytes,    ///< sees the bytes of its operand, whose element type no pass changes
  narrow    ///< sums of products, which the element type of the operands makes fast: always takes 16 bits
};

/// Where an operator runs.
enum class Placement {
  with_operands,  ///< where its first placed operand lies
  hint,           ///< it only says where its operand lies (DeviceAttrs)
  copy,           ///< it copies its operand to a device (DeviceAttrs)
  own             ///< whatever it calls decides
};

/// What an approximation is exact enough for.
enum class Approximation {
  float32,  ///< a few units in the last place, which a program has to ask for (fast_math)
  bfloat16  ///< results that are rounded to bfloat16, by a few digits more than it has (to_mixed_precision)
};

/// What stages ask of an operator beside its signature (graph::Op): one field for each question, filled in
/// where the operator is registered, in the file of its family.
struct OpDef : graph::OpRules {
  InferType infer;          ///< null: its type is what the call says (type_args)
  ParameterType parameter;  ///< null: no argument's type follows from another one's
  FusionKind fusion = FusionKind::opaque;
  TensorDef tensor_def;                         ///< null: it is no tensor program
  Evaluate evaluate;                            ///< null: the interpreter runs tensor_def
  LayoutRule layout;                            ///< null: that of its kind (layout_rule)
  ContractionRule contraction;                  ///< null: it is none
  std::optional<GroupedWeight> grouped_weight;  ///< nullopt: it has none
  CanonicalForm canonical;                      ///< null: none but itself (qnn_canonicalize)
  std::shared_ptr<const LetterRule> letters;    ///< null: no attribute names a layout
  /// Each element of the result is one of operand 0, a tensor or a tuple of them, whatever the element type.
  bool moves = false;
  /// Its result, or the first item of it, is rounded to steps of few bits.
  bool quantizes = false;
  bool view = false;         ///< only says the shape anew: alone it shares the memory of its first argument
  bool commutative = false;  ///< the two operands may change places
  Precision precision = Precision::by_kind;
  Placement placement = Placement::with_operands;

  Any property(std::string_view name) const override;
  bool commutes() const override { return commutative; }
};
const OpDef& definition(const graph::Op& op);
/// What a call of an operator multiplies and adds up; null: it is none, or does more.
std::optional<Contraction> contraction_of(const graph::Expr& value);
/// The operator that approximates `op` well enough for that; null: there is none.
const graph::Op* approximation_of(const graph::Op& op, Approximation enough_for);

/// The name of an operator and the line where it stands in the source. Text becomes one in a call or a table,
/// so helpers and tables that hand an OpName on keep the line of each operator.
struct OpName {
  OpName(std::convertible_to<std::string> auto&& name,
         std::source_location where = std::source_location::current())
      : text(std::forward<decltype(name)>(name)), where(where) {}
  std::string text;
  std::source_location where;
};

/// Registration: `register_op("nn.relu", "max(x, 0)").argument(…).infer(…).fusion(…)`, at namespace scope.
class OpRegistration {
 public:
  OpRegistration(OpName name, std::string doc);
  OpRegistration& argument(std::string name, std::string type, std::string doc, bool optional = false);
  OpRegistration& variadic();  ///< the last argument repeats
  OpRegistration& impure();
  /// Attributes of type T; `defaults`: values of its fields in order, in calls that give none.
  template <class T, class... Defaults>
  OpRegistration& attrs(Defaults&&... defaults) {
    return attrs(type_info<T>(), make<T>(std::forward<Defaults>(defaults)...));
  }
  OpRegistration& infer(InferType f);
  OpRegistration& parameter(ParameterType f);
  OpRegistration& fusion(FusionKind kind);
  OpRegistration& tensor_def(TensorDef f);
  OpRegistration& evaluate(Evaluate f);
  OpRegistration& layout(LayoutRule f);
  OpRegistration& contraction(ContractionRule f);  ///< and narrow precision
  OpRegistration& grouped_weight(GroupedWeight w);
  OpRegistration& canonical(CanonicalForm f);
  OpRegistration& moves();
  OpRegistration& quantizes();
  OpRegistration& view();  ///< and moves
  OpRegistration& commutative();
  OpRegistration& precision(Precision p);
  OpRegistration& placement(Placement p);
  /// It computes what `op` does, on the same arguments and attributes, less exactly (approximation_of).
  OpRegistration& approximates(std::string op, Approximation enough_for);
  /// Attributes name layouts: the other fields, given before, are for the plain ones.
  OpRegistration& letters(LetterRule rule);

 private:
  OpRegistration& attrs(const TypeInfo* type, ObjectRef defaults);
  graph::Op* op_;
  OpDef* def_;
};
OpRegistration register_op(OpName name, std::string doc);
OpRegistration register_op(OpName name, std::string doc, FusionKind kind, InferType infer, TensorDef def);

// ---------------------------------------------------------------- types
/// Type of the tensor that argument i is; CHECK when it is none.
const graph::TensorType& tensor_arg(const Call& call, size_t i);
/// Dimensions given by argument i (a ShapeExpr or a variable of known shape value); nullopt: not known.
std::optional<Shape> shape_arg(const Call& call, size_t i);
std::optional<Shape> shape_of(const graph::TensorType& t);
/// A tensor of known or unknown shape.
Type make_type(const std::optional<Shape>& shape, int64_t ndim, DataType dtype);
/// The argument's own type with another element type.
Type like(const graph::TensorType& t, DataType dtype);
/// Infer function: type of the first argument.
Type infer_same(InferContext& ctx);
/// -ndim ≤ axis < ndim as 0 ≤ result < ndim.
inline int64_t normal_axis(int64_t axis, int64_t ndim) { return axis < 0 ? axis + ndim : axis; }
/// All of them, sorted when `sorted`.
std::vector<int64_t> normal_axes(const Array<int64_t>& axes, int64_t ndim, bool sorted = true);
/// A size, or sizes, as people write them: "n + 1", "(2, n, 3)". For messages, so that they do not depend on
/// the printer of programs.
std::string show_dim(const PrimExpr& size);
std::string show(const Shape& shape);

// ---------------------------------------------------------------- sizes
bool same_dim(const PrimExpr& a, const PrimExpr& b);  ///< provably equal
bool differ(const PrimExpr& a, const PrimExpr& b);    ///< both constant and not equal
PrimExpr product(const Shape& shape);
/// NumPy broadcasting of shapes that broadcast. Nullopt: the result cannot be decided at compile time.
std::optional<Shape> broadcast_shapes(const Shape& a, const Shape& b);

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
std::vector<int64_t> per_axis(const Array<int64_t>& list, size_t n, int64_t otherwise);
/// Begins then ends from a padding list of length 0, 1, n or 2n.
std::vector<int64_t> paddings(const Array<int64_t>& list, size_t n);
/// Type of a product of a and b: `wanted` when it is given, i32 of 8-bit integers, else theirs.
DataType contraction_type(DataType a, DataType b, DataType wanted);

}  // namespace tenon::op
