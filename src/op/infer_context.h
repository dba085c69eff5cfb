// SPDX-License-Identifier: Apache-2.0
// What type inference hands from rule to rule. A rule reads one call through an InferContext and reports to
// it: a mistake, sizes that must be equal. Nothing is global: two inferences do not see one another.
#pragma once
#include "base/diagnostic.h"
#include "op/attrs.h"

namespace tenon::op {

using graph::Call;
using graph::Expr;
using graph::Type;
using Shape = Array<PrimExpr>;
class Term;

/// Element types that an operator takes.
enum class Domain { any, number, signed_number, floating, integer, bits, boolean };
bool in_domain(DataType t, Domain d);

/// What inferred types take for granted of sizes that cannot be compared while compiling: `have` equals
/// `want`, or is 1 if `or_one`. check_sizes checks it at run time.
struct SizeFact {
  PrimExpr have, want;
  bool or_one = false;
};

/// Types that the text leaves open, while inference looks for them (pass/graph/types/open_types.h). As long
/// as one stands in a type, that type is incomplete.
struct OpenTypes {
  using Site = std::map<int64_t, Type>;  ///< what one call says of some of them, by their numbers
  std::unordered_map<const graph::Var*, int64_t> of;  ///< parameters, and closures whose result is open
  Site known;                                         ///< so far
  std::vector<Site> sites;
  /// The open type of a parameter; null: it has none.
  Type parameter(const graph::Var* p) const;
  /// What a call, or an operator's rule, says an open type is.
  void constrain(int64_t id, const Type& type);
  /// What is known of an open type; any other type as it is.
  Type resolved(const Type& type) const;
};
/// The number of an open type that may be constrained, else 0.
int64_t open_id(const Type& type);
/// The type of a value of which nothing is known yet: it agrees with everything.
Type incomplete_type();
bool is_incomplete(const Type& type);
/// An open type stands somewhere in it.
bool has_incomplete(const Type& type);

/// What one run of inference gathers, over an expression or a module.
struct Inference {
  DiagnosticList problems;
  std::vector<SizeFact> facts;
  OpenTypes* open = nullptr;  ///< null: no type is open
  /// A result that no memory has is a mistake. Importers have limits of their own.
  bool within_memory = false;
};

/// Stands for the result of a rule or helper that noted a mistake: a null type, false, nothing.
struct Mistake {
  operator Type() const { return {}; }
  operator Term() const;
  operator bool() const { return false; }
  template <class T>
  operator std::optional<T>() const {
    return std::nullopt;
  }
};

/// The inference of one call as its operator's rule sees it. Every argument that is given has a type; one
/// declared a tensor has a TensorType, a shape a ShapeType or ObjectType, a scalar a PrimType. Each `require`
/// and `expect` notes a mistake and returns false where its condition cannot hold; the rule then returns
/// null.
class InferContext {
 public:
  InferContext(Inference& run, const Call& call) : run(run), call(call) {}
  Inference& run;
  const Call& call;

  // ---- the call
  const graph::Op& op() const { return *call.op.as<graph::Op>(); }
  template <class T>
  const T& attrs() const {
    return attrs_of<T>(call);
  }
  size_t size() const { return call.args.size(); }
  bool has(size_t i) const { return i < call.args.size() && call.args[i]; }
  const std::string& name(size_t i) const { return op().arguments[i].name; }
  const Type& type(size_t i) const;
  const graph::TensorType& tensor(size_t i) const;
  /// Argument i, a tuple of tensors: their types; nullopt: it is none.
  std::optional<std::vector<const graph::TensorType*>> tuple(size_t i);
  std::optional<Shape> shape(size_t i) const;
  int64_t shape_rank(size_t i) const;  ///< how many dimensions argument i gives; -1: not known
  /// Every argument is of the kind that its operator declares.
  [[nodiscard]] bool expect_kinds();

  // ---- mistakes
  /// Notes a mistake in the call (T1101: operator, arguments with their types, the call's place):
  /// `return ctx.error(…)`.
  Mistake error(std::string message, std::string hint = {});

  // ---- other operators
  /// The typed call of an operator by which this one is defined; null where it has a mistake, which is one in
  /// this call.
  Expr call_op(std::string_view op, Array<Expr> args, ObjectRef attrs = {});

  // ---- sizes
  /// False when both are known and not equal, which is for the rule to report; a fact when they cannot be
  /// compared.
  [[nodiscard]] bool require_equal(const PrimExpr& a, const PrimExpr& b);
  /// The same rank, and all dimensions in pairs.
  [[nodiscard]] bool require_equal(const Shape& a, const Shape& b);
  /// `have` is at most `most`: as require_equal.
  [[nodiscard]] bool require_at_most(const PrimExpr& have, const PrimExpr& most);
  /// A size that a rule computes is not below 0: as require_equal.
  [[nodiscard]] bool require_not_negative(const PrimExpr& size);
  /// n, which is positive, divides the size: as require_equal.
  [[nodiscard]] bool require_multiple(const PrimExpr& size, int64_t n);
  /// Axis i of `from` has elements where `count`, the number of those that are picked from it, is not 0.
  [[nodiscard]] bool expect_elements(const Shape& from, size_t i, const PrimExpr& count);
  /// `have` is `want` or 1, as broadcasting needs it.
  void require_equal_or_one(const PrimExpr& have, const PrimExpr& want);
  /// NumPy broadcasting (broadcast_shapes); a mistake names both shapes.
  [[nodiscard]] bool expect_broadcast(const Shape& a, const Shape& b);
  /// A tensor of shape `from` can be broadcast to `to`.
  [[nodiscard]] bool require_broadcast_to(const Shape& from, const Shape& to);
  /// The tensor's shape is known; it goes to `shape`.
  [[nodiscard]] bool expect_shape(const graph::TensorType& t, std::string_view what, Shape& shape);

  // ---- arguments
  /// The rank is known and the one given.
  [[nodiscard]] bool expect_rank(const graph::TensorType& t, std::string_view what, int64_t rank);
  /// The element type, when it is known, is taken.
  [[nodiscard]] bool expect_domain(DataType t, Domain d);
  /// Argument i holds integers.
  [[nodiscard]] bool expect_integers(size_t i);
  /// One element type, as far as they are known.
  [[nodiscard]] bool expect_same_type(DataType a, DataType b);
  /// Element types that can be multiplied (contraction_type): equal ones, or both 8-bit integers.
  [[nodiscard]] bool expect_factors(DataType a, DataType b);

  // ---- attributes
  /// An axis of a tensor of `ndim` dimensions (-1: not known).
  [[nodiscard]] bool expect_axis(int64_t axis, int64_t ndim, std::string_view what = "axis");
  /// The same for several; none is given twice.
  [[nodiscard]] bool expect_axes(const Array<int64_t>& axes, int64_t ndim);
  /// As many values as per_axis takes.
  [[nodiscard]] bool expect_per_axis(const Array<int64_t>& list, size_t n, std::string_view what);
  /// As many values as paddings takes.
  [[nodiscard]] bool expect_paddings(const Array<int64_t>& list, size_t n);
  /// The attribute's word is one of those known, which the mistake names.
  [[nodiscard]] bool expect_one_of(const char* what, const std::string& value,
                                   std::initializer_list<const char*> known);
};

}  // namespace tenon::op
