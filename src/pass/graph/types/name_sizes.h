// SPDX-License-Identifier: Apache-2.0
// Names for sizes that only the run tells; infer_types uses it.
#pragma once
#include <map>

#include "op/body_rewriter.h"

namespace tenon::graph {

/// The symbols made so far, by the binding that needs them: every round of inference finds the same ones.
using SizeSymbols = std::map<std::tuple<const Var*, size_t, size_t, size_t>, tir::VarRef>;

/// A walk that can name the sizes of an operator's arguments where they are not known:
///   before   y: R.Tensor(ndim=2) = R.reshape(x, h)                    # h: R.Shape(ndim=2)
///   after    h_sizes = R.match_cast(h, R.Shape([h_0, h_1]))
///            y: R.Tensor((h_0, h_1)) = R.reshape(x, h_sizes)
/// An operator that works element by element takes a tensor of unknown rank in one dimension, others as
/// any_rank.cpp says; ranks without a rule and element types that are not known stay so.
class SizeNaming : public BodyRewriter {
 public:
  explicit SizeNaming(SizeSymbols& symbols) : symbols_(symbols) {}

 protected:
  void enter_scope() override { scopes_.push_back(added_.size()); }
  void leave_scope() override;
  /// The call of an operator with its sizes named; `value` itself when nothing is left to name. `var` is what
  /// the program binds it to.
  Expr with_named_sizes(const Expr& value, const VarRef& var);

 private:
  struct Key {
    const Var* var;
    size_t argument, item;
  };
  Expr named(const Expr& e, const Key& key);
  Expr broadcast(const Expr& value, const Key& key);
  static Expr unknown_rank(const Call& call, const Op& op);
  Expr in_one_dimension(const Call& call, const Expr& x, const VarRef& var);
  // any_rank.cpp: null where there is no rule
  Expr of_any_rank(const Call& call, const VarRef& var);
  Expr spread_together(const Call& call, const VarRef& var);
  Expr over_all_axes(const Call& call, const Expr& x, const VarRef& var);
  Expr along_one_axis(const Call& call, const Expr& x, const VarRef& var);
  Expr by_rows(const Call& call, const Expr& x, const VarRef& var);
  static Expr moved(const Call& call);
  Expr by_rank(const char* function, Array<Expr> args, const Type& type, const std::string& name);
  Expr reshaped(const Expr& x, const Expr& shape, const std::string& name);
  tir::VarRef symbol(const Key& key, size_t dim, const std::string& name, DataType dtype);
  Expr cast(const Expr& value, const Type& type, const std::string& name);
  void remember(const Var* v, const Expr& by);

  SizeSymbols& symbols_;
  std::unordered_map<const Var*, Expr> known_;  ///< in this scope: variable → the same with sizes
  std::vector<Expr> added_;                     ///< keys of `known_`, in order
  std::vector<size_t> scopes_;
};

}  // namespace tenon::graph
