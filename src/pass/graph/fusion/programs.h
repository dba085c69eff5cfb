// SPDX-License-Identifier: Apache-2.0
// Tensor programs as the stages that lowering makes, and their calls: what fuse_tir,
// split_call_tir_by_pattern and dataflow_use_inplace_calls work on.
#pragma once
#include <set>

#include "ir/module.h"
#include "ir/tir.h"
#include "ir/walk.h"

namespace tenon::graph {

/// A call_tir of a program of the module.
struct ProgramCall {
  std::string name;
  tir::PrimFunc program;
  Array<Expr> args;
  Array<Type> outputs;
  Array<PrimExpr> scalars = {};  ///< symbolic sizes
};
std::optional<ProgramCall> program_call(const Expr& value, const IRModule& module);
/// An expression of the program's sizes as the caller says it.
PrimExpr in_caller(const PrimExpr& e, const ProgramCall& call);

/// A program of stages: statements of the root block, in order, over parameters and the buffers allocated
/// there.
struct StagedProgram {
  std::vector<tir::Buffer> params, allocated;
  std::vector<tir::Stmt> stages;
  std::vector<tir::VarRef> scalars = {};  ///< parameters behind the buffers: symbolic sizes
};
/// Nullopt when the program is no list of stages, has sizes that are none of its scalars, or was scheduled.
std::optional<StagedProgram> staged(const tir::PrimFunc& f);
/// The program back; `like` gives the attributes.
tir::PrimFunc program_of(const StagedProgram& p, const std::string& name, int64_t num_outputs,
                         const AttrMap& like);

/// The fusion kind that a program says it has (annotate_tir_op_pattern, lowering); opaque: none.
int64_t program_pattern(const tir::PrimFuncNode& f);

/// One program that does what a producer and its consumer do, argument `at` of the consumer computed inside.
struct MergedPrograms {
  ProgramCall call;  ///< its name is a hint
  size_t stages = 0;
};
/// Nullopt when either is no list of stages.
std::optional<MergedPrograms> merge_programs(const ProgramCall& producer, const ProgramCall& consumer,
                                             size_t at);

/// Takes programs into those that read them, in all graph functions of a module.
class ProgramMerger {
 public:
  explicit ProgramMerger(IRModule module) : module_(std::move(module)) {}
  virtual ~ProgramMerger() = default;
  IRModule run();

 protected:
  /// Takes some of the programs that are bound before it into the call that `b` binds (`replace`); asked
  /// again until there is none.
  virtual bool merge(Binding& b) = 0;
  /// The call that binds `v` in front of the one at hand, in the same body; nullopt: none, or it was taken.
  std::optional<ProgramCall> made_by(const Var* v) const;
  int uses(const Var* v) const;
  /// `b` binds the call in place of its own, and what it was made of goes: the bindings of `taken`, and the
  /// programs `names` where nothing else calls them. With a `condition` on sizes, what it was made of is what
  /// runs otherwise.
  void replace(Binding& b, ProgramCall call, const std::vector<const Var*>& taken,
               const std::set<std::string>& names, const PrimExpr& condition = {});
  const IRModule& module() const { return module_; }

 private:
  struct Body {
    std::vector<Binding> bindings;
    std::unordered_map<const Var*, size_t> place;
  };
  Expr body(const Expr& e);

  IRModule module_;
  Body* at_ = nullptr;
  std::unordered_map<const Var*, int> uses_;
  std::set<std::string> merged_;
};

/// Buffers that a statement loads from, and those that it stores to, each once, in order of appearance.
struct BufferUses {
  std::vector<tir::Buffer> loads, stores;
};
BufferUses buffer_uses(const tir::Stmt& s);

/// Removes functions at one go: `IRModule::erase` moves all that follow.
void erase_functions(IRModule& module, const std::set<std::string>& names);
/// Programs that nothing in the module calls go, of those in `candidates`.
void erase_uncalled(IRModule& module, const std::set<std::string>& candidates);

}  // namespace tenon::graph
