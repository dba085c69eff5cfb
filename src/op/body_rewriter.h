// SPDX-License-Identifier: Apache-2.0
// A walk that rebuilds a function binding by binding; what graph passes derive from.
#pragma once
#include "ir/bodies.h"
#include "ir/pass.h"
#include "ir/walk.h"

namespace tenon::graph {

/// The type of a normalised value from the types of its arguments; null when nothing is known.
Type infer_value(const Expr& value);

/// Rebuilds a function in order. Variables keep their identity while their type stays the same, so what does
/// not change is shared with the input. Dataflow regions stay around what stands for their bindings.
class BodyRewriter {
 public:
  virtual ~BodyRewriter() = default;
  /// The rewritten function; the same object when nothing changed. A function that nobody else holds is
  /// taken apart on the way: what a binding held (weights) goes as soon as the next stands for it.
  Ref<Function> run(Ref<Function> function);

 protected:
  /// What to bind in place of `value`, whose variables are already replaced: the value itself for "no
  /// change", or a leaf, which then stands wherever the variable was used. `emit` adds bindings before it.
  virtual Expr visit(const Expr& value, const VarRef& var) {
    (void)var;
    return value;
  }
  /// The same for match_cast; null keeps it.
  virtual Expr visit_match_cast(const Expr& value, const Type& type, const VarRef& var) {
    (void)value, (void)type, (void)var;
    return {};
  }
  /// Called before the bindings of a function body, branch or loop are walked, and after.
  virtual void enter_scope() {}
  virtual void leave_scope() {}
  /// Called before a closure is walked that `var` is bound to: `replace` puts another variable in its place.
  virtual void enter_function(const VarRef& var, const Function& function) { (void)var, (void)function; }
  /// Other patterns for a match, before its cases are walked; `value` is what is matched now. Empty: they
  /// stay.
  virtual std::vector<Pattern> patterns(const Match& match, const Expr& value) {
    (void)match, (void)value;
    return {};
  }
  /// Bindings `x = y` disappear, uses of x become uses of y.
  virtual bool forward_copies() const { return false; }
  /// The value with a type; one that did not change is left alone.
  virtual Expr typed(const Expr& value, bool changed);
  /// A type for the variable that `value` is bound to; null leaves the variable as it is.
  virtual Type variable_type(const Expr& value, const VarRef& var, bool changed);

  /// Binds a value before the one being visited; leaves come back unchanged.
  Expr emit(Expr value, const std::string& name = "");
  Expr emit_op(std::string_view op, Array<Expr> args, ObjectRef attrs = {}, const std::string& name = "");
  /// The value that a variable of the new function is bound to; null for parameters and leaves.
  Expr definition(const Expr& variable) const;
  /// `definition` when it is a call of that operator, else null.
  const Call* definition_call(const Expr& variable, std::string_view op) const;
  /// For `visit_match_cast`: the value itself where its type says already what the cast does, else null. A
  /// cast that names sizes of its own is where they come from.
  static Expr without_known_cast(const Expr& value, const Type& type, const VarRef& var);
  /// Applies the replacements made so far to a leaf.
  Expr replaced(const Expr& e) const;
  void replace(const VarRef& var, Expr by) {
    replaced_[var.get()] = std::move(by);
    keep_.push_back(var);
  }
  /// Takes a binding made in this scope away again, if it is one of the latest: nothing uses it any more.
  void drop(const Expr& variable);
  /// Binds what a binding of another body binds, its value visited as if it stood here.
  void splice(const Binding& binding) { bind(binding); }
  /// Rewrites a nested body (branch, loop body).
  Expr rewrite_body(Expr body);

 private:
  Expr substitute(const Expr& value);
  void bind(const Binding& binding);
  void append(const VarRef& var, const Expr& value, bool changed, const Binding& binding);
  std::string fresh_name(const std::string& hint);

  std::unordered_map<const Var*, Expr> replaced_;
  std::unordered_map<const Var*, Expr> definitions_;
  std::vector<Expr> keep_;  // keys of the maps stay alive
  std::unordered_map<std::string, int> names_;
  std::unordered_map<const Var*, int> uses_left_;  // in the old function, when it is taken apart
  Array<Binding> bindings_;                        // of the scope being built
};

/// The module with `make_rewriter()` run over every graph function; shared where nothing changed.
template <class Rewriter, class... Args>
IRModule rewrite_functions(IRModule module, Args&&... args) {
  return module.map_graph([&](const std::string&, const Ref<Function>& f) -> ObjectRef {
    Rewriter rewriter(args...);
    Ref<Function> out = rewriter.run(f);
    return out.same_as(f) ? ObjectRef() : ObjectRef(out);
  });
}

/// A pass that runs `Rewriter()` over every graph function.
template <class Rewriter>
IRModule each_function(IRModule module, PassContext&) {
  return rewrite_functions<Rewriter>(std::move(module));
}

/// The same for passes that replace weights: the old ones go one by one when nobody else holds the module.
IRModule consume_functions(IRModule module, FunctionRef<Ref<Function>(Ref<Function>)> rewrite);

}  // namespace tenon::graph
