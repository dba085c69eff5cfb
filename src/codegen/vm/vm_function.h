// SPDX-License-Identifier: Apache-2.0
// Below vm_codegen: the code of one graph function. vm_function.cpp has its frame, values and the checks of
// their types, vm_control.cpp branches, loops and matches, vm_calls.cpp what calls become.
#pragma once
#include "codegen/vm/vm_emitter.h"
#include "ir/memory_plan.h"

namespace tenon {

class FunctionCodegen : VMEmitter {
 public:
  FunctionCodegen(ModuleCodegen& owner, const std::string& name, const Ref<graph::Function>& f, bool entry);
  VMFunction run();

 private:
  // ---------------------------------------------------------------- sizes
  /// A scalar argument for an integer expression of sizes.
  Arg size(const PrimExpr& e);
  /// Where the value of an expression lies that was computed before.
  std::optional<int64_t> computed_slot(const PrimExpr& e) const;
  /// Binds the symbols that `type` shows first; `check`: also compares what is known already.
  void bind_type(const graph::Type& type, const Operand& o, bool check);
  /// Dimensions that are expressions, once every symbol has its value.
  void check_expressions(const graph::Type& type, const Operand& o);

  // ---------------------------------------------------------------- values
  Operand leaf(const graph::Expr& e);
  Operand body(const graph::Expr& e);
  void bind(const graph::Binding& b);
  void check_value(const graph::Type& type, const graph::Type& known, const Operand& o);
  /// A tensor of this data type and rank.
  void check_kind(const graph::Type& type, const Operand& o);
  void check_kinds(const graph::Type& type, const Operand& o);

  // ---------------------------------------------------------------- ends of functions
  /// A body whose value the function returns. Each branch returns on its own, so that a last call stands
  /// directly before its return: the VM lets it take the frame.
  void tail(const graph::Expr& e);

  // ---------------------------------------------------------------- data
  Operand part(const graph::PatternNode& p, const Operand& o, size_t i);
  /// Jumps in `fails` leave when the value is another one.
  void test(const graph::PatternNode& p, const Operand& o, std::vector<size_t>& fails);
  void bind_pattern(const graph::PatternNode& p, const Operand& o);
  /// The clauses in order; `body` makes one's code and says whether it goes on behind the match.
  void cases(const graph::Match& n, FunctionRef<bool(const graph::Expr&)> body);
  Operand match_value(const graph::Match& n);
  Operand value(const graph::Expr& e, const graph::VarRef& var);

  /// An int that is 0 for false.
  Arg condition(const graph::Expr& e, const Operand& o);
  /// What `f` binds and computes is known to nobody behind it.
  void scoped(FunctionRef<void()> f);
  Operand branch(const graph::If& n);
  /// A state with a place in the arena is copied there by each turn; the others are held in registers.
  Operand loop(const graph::While& n, const graph::VarRef& var);

  /// Of the items of a loop's state that are held in registers. All new values are there before the first old
  /// one goes.
  void next_state(const Operand& state, const std::vector<size_t>& held, const Operand& fresh);
  Operand closure(const graph::GlobalVar& g, const std::vector<Arg>& captured, const Origin& origin);
  Operand call(const graph::Call& c, const graph::VarRef& var);
  std::vector<Operand> tensors(const graph::Expr& e);
  /// New memory for one output: at its offset in the arena, or from the pool (-1).
  Operand destination(const graph::Type& type, int64_t at);
  static Operand result(const graph::Call& c, std::vector<Operand> outputs);
  void kernel(const graph::Call& c, std::vector<Arg> args, int num_buffers);
  Operand call_kernel(const graph::Call& c, const graph::VarRef& var);
  Operand call_inplace(const graph::Call& c);
  /// Writing over a value that someone else may read later needs a copy first.
  Operand owned_copy(const Operand& o) { return {builtin_value(Builtin::copy, {arg(o)}), false, false, {}}; }
  Operand call_dps(const graph::Call& c);
  Operand call_packed(const graph::Call& c);

  std::string name_;
  Ref<graph::Function> function_;
  bool entry_;
  /// The memory plan by what calls and loops are bound to: offsets of their results and variables.
  std::unordered_map<const graph::Var*, std::vector<int64_t>> places_;
  std::set<const graph::Var*> joined_;  ///< results of calls that are left out
  graph::SizeBounds bounds_;            ///< of symbolic sizes in the arena
  std::unordered_map<const graph::Var*, Operand> values_;
  std::map<const tir::Var*, int> slots_;
  std::unordered_map<uint64_t, std::vector<std::pair<PrimExpr, int>>> computed_;  ///< by symbol_hash
  int32_t heap_ = 0;
};

}  // namespace tenon
