// SPDX-License-Identifier: Apache-2.0
// fuse_rows: programs that hand on a large tensor row by row become one, which makes and uses a block of rows
// at a time (the schedule's block_rows), so that the tensor stays in the cache and is never whole.
//
//   before   s = R.call_tir(matmul, (q, k), …);  p = R.call_tir(softmax, (s,), …)
//            o = R.call_tir(matmul1, (p, v), …)
//   after    o = R.call_tir(fused_matmul_softmax_matmul1, (q, k, v), …)
//
// A chain ends with a program that sums up the tensor, and is followed back through the largest argument,
// which nothing outside of the chain reads, up to where the model of the machine says that a block of rows at
// a time pays (cost::row_blocks). Where that depends on symbolic sizes, those of a run decide:
//
//   after    if R.prim_value(n * n * 96 > 4194304 and n >= 32): o = R.call_tir(fused…, (q, k, v), …)
//            else: s = …;  p = …;  o = …
//
// Needs: call_tir. Keeps: values; programs that nothing calls any more go.
#include <algorithm>
#include <map>

#include "analysis/cost/rows.h"
#include "ir/attr_keys.h"
#include "ir/op.h"
#include "ir/pass.h"
#include "pass/graph/fusion/programs.h"

namespace tenon {
namespace graph {
namespace {

/// Programs of one chain: two products, what is between them in up to this many programs less two.
constexpr size_t kLongestChain = 6;

class FuseRows : public ProgramMerger {
 public:
  FuseRows(IRModule module, Target target) : ProgramMerger(std::move(module)), target_(std::move(target)) {}

 private:
  /// A chain while it is followed back: the programs taken into one call.
  struct Chain {
    ProgramCall call;
    std::vector<const Var*> taken;        ///< what they make
    std::set<std::string> names;          ///< theirs
    std::map<const Var*, int> once = {};  ///< uses of its arguments that have become one with another
  };

  /// The program behind an argument that nothing but the chain reads.
  std::optional<ProgramCall> ours(const Chain& chain, const Var* v) const {
    const auto once = chain.once.find(v);
    if (uses(v) - (once == chain.once.end() ? 0 : once->second) != 1) return std::nullopt;
    return made_by(v);
  }

  /// Elements as the model of the machine counts them; 0: no tensor of known shape.
  static double likely_elements(const Expr& e) {
    const auto shape = known_shape(e);
    double n = shape ? 1 : 0;
    if (shape)
      for (const PrimExpr& d : *shape) n *= likely_size(d);
    return n;
  }

  /// The argument to follow back: the largest one, or one whose program reads that, too (sums of its rows).
  int handed_on(const Chain& chain) const {
    const Array<Expr>& args = chain.call.args;
    int largest = -1;
    double most = 0;
    for (size_t i = 0; i < args.size(); ++i) {
      if (!args[i].is<Var>() || !made_by(args[i].as<Var>())) continue;
      const double elements = likely_elements(args[i]);
      if (elements > most) largest = int(i), most = elements;
    }
    if (largest < 0 || ours(chain, args[size_t(largest)].as<Var>())) return largest;
    for (size_t i = 0; i < args.size(); ++i) {
      const auto* v = args[i].as<Var>();
      const auto call = v ? ours(chain, v) : std::nullopt;
      if (call && contains(call->args, args[size_t(largest)])) return int(i);
    }
    return -1;
  }
  static bool contains(const Array<Expr>& list, const Expr& e) {
    return std::any_of(list.begin(), list.end(), [&](const Expr& x) { return x.same_as(e); });
  }

  /// Takes the program behind argument `at` into the chain. Those that are chains already go on no further.
  bool follow(Chain& chain, int at) const {
    const auto* v = chain.call.args[size_t(at)].as<Var>();
    const auto producer = made_by(v);
    if (!producer || producer->outputs.size() != 1 || chains_.count(v)) return false;
    const auto both = merge_programs(*producer, chain.call, size_t(at));
    if (!both) return false;
    for (const Expr& e : producer->args)
      if (e.is<Var>() && contains(chain.call.args, e)) ++chain.once[e.as<Var>()];
    chain.taken.push_back(v);
    chain.names.insert(producer->name);
    chain.call = both->call;
    return true;
  }

  /// Takes the programs of a chain that ends with `b` into it.
  bool merge(Binding& b) override {
    const auto call = program_call(b->value, module());
    if (!call || chains_.count(b->var.get()) ||
        program_pattern(*call->program) != int64_t(FusionKind::out_element_wise_fusable))
      return false;
    Chain chain{*call, {}, {call->name}};
    while (chain.taken.size() + 1 < kLongestChain) {
      const int at = handed_on(chain);
      if (at < 0 || !follow(chain, at)) return false;
      const auto axes = shared_axes(chain.call.program);
      if (!axes) return false;
      const auto rows = cost::row_blocks(*axes, may_alias(chain.call.program), target_);
      if (!rows) continue;
      // A result that takes the memory of an operand would be read again by a block that overlaps.
      if (rows->overlap) chain.call.program.edit()->attrs.set(kNotInPlaceAttr, Any(true));
      replace(b, chain.call, chain.taken, chain.names,
              rows->condition ? in_caller(rows->condition, chain.call) : PrimExpr());
      chains_.insert(b->var.get());
      return true;
    }
    return false;
  }

  Target target_;
  std::set<const Var*> chains_;  ///< what programs make that were merged
};

}  // namespace
}  // namespace graph

static IRModule fuse_rows(IRModule module, PassContext& context) {
  const Target target = context.target.cast<TargetNode>();
  return target ? graph::FuseRows(std::move(module), target).run() : module;
}

const Pass& fuse_rows_pass = register_pass({
    .name = "fuse_rows",
    .run = fuse_rows,
    .level = 2,
    .summary = "programs that hand on a large tensor row by row become one, for a block of rows at a time",
    .needs = {"lower_to_call_tir"},
});

}  // namespace tenon
