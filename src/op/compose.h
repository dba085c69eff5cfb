// SPDX-License-Identifier: Apache-2.0
// Operators that are made of other operators: one formula gives their type and their tensor definition.
#pragma once
#include "op/build.h"
#include "op/family.h"

namespace tenon::op {

/// A value in the formula of a composed operator. Arithmetic makes calls of operators, typed as they are
/// made; numbers take the element type of the other operand. A term is null where a mistake was noted or a
/// shape or element type that is needed is not known, and so is what is made from it.
class Term {
 public:
  Term() = default;
  Term(InferContext& ctx, Expr expr) : ctx_(&ctx), expr_(std::move(expr)) {}
  explicit operator bool() const { return bool(expr_); }
  const Expr& expr() const { return expr_; }
  InferContext* context() const { return ctx_; }
  DataType dtype() const;
  std::optional<Shape> dims() const;  ///< nullopt: not known
  Term number(double v) const;        ///< a scalar of this element type, which is needed

  /// The operator on this value and `others`.
  Term op(std::string_view name, std::vector<Term> others = {}, ObjectRef attrs = {}) const;
  Term op(std::string_view name, ObjectRef attrs) const { return op(name, {}, std::move(attrs)); }
  Term as(DataType t) const;                ///< cast
  Term widened() const;                     ///< as f32 or wider
  Term reshaped(const Shape& shape) const;  ///< its elements in this shape
  Term item(int64_t i) const;               ///< of a tuple

 private:
  InferContext* ctx_ = nullptr;
  Expr expr_;
};
inline Mistake::operator Term() const { return {}; }
Term operator+(const Term& a, const Term& b);
Term operator-(const Term& a, const Term& b);
Term operator*(const Term& a, const Term& b);
Term operator/(const Term& a, const Term& b);
Term operator-(const Term& a);
Term operator+(const Term& a, double b);
Term operator-(const Term& a, double b);
Term operator-(double a, const Term& b);
Term operator*(const Term& a, double b);
/// A tuple of one or more.
Term tuple(const std::vector<Term>& items);

/// The value of a call by other operators. `args` are variables for tensors, and the call's own expressions
/// for shapes and scalars.
using Compose = std::function<Term(InferContext& ctx, const std::vector<Term>& args)>;

/// The definition of a call by the formula of its value.
std::vector<te::Tensor> define_composed(const Call& call, const std::vector<te::Tensor>& in,
                                        const Compose& f);
/// A composed operator; mistakes inside are reported as mistakes in the call.
OpRegistration register_composed(OpName name, std::string doc, FusionKind kind, Compose f);
/// The operator's definition on tensors of its own; `tail`: shapes and scalars behind the tensors.
std::vector<te::Tensor> define(std::string_view op, const std::vector<te::Tensor>& in, ObjectRef attrs = {},
                               Array<Expr> tail = {});

}  // namespace tenon::op
