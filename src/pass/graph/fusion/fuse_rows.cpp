// SPDX-License-Identifier: Apache-2.0
// fuse_rows: programs that hand on a large tensor row by row become one, which makes and uses a block of rows
// at a time (the schedule's block_rows), so that the tensor stays in the cache and is never whole.
//
//   before   s = R.call_tir(matmul, (q, k), …);  p = R.call_tir(softmax, (s,), …);  o = R.call_tir(matmul1,
//   (p, v), …) after    o = R.call_tir(fused_matmul_softmax_matmul1, (q, k, v), …)
//
// A chain ends with a program that sums up the tensor, and is followed back through the largest argument,
// which nothing outside of the chain reads, up to where the model of the machine says that a block of rows at
// a time pays (cost::row_blocks). Constant shapes. Needs: call_tir. Keeps: values; programs that nothing
// calls any more go.
#include <algorithm>
#include <map>

#include "analysis/cost/rows.h"
#include "ir/attr_keys.h"
#include "ir/bodies.h"
#include "ir/memory_plan.h"
#include "ir/op.h"
#include "ir/pass.h"
#include "pass/graph/fusion/programs.h"

namespace tenon {
namespace graph {
namespace {

/// Programs of one chain: two products, what is between them in up to this many programs less two.
constexpr size_t kLongestChain = 6;

class FuseRows {
 public:
  FuseRows(IRModule module, Target target) : module_(std::move(module)), target_(std::move(target)) {}

  IRModule run() {
    for (const auto& [name, f] : graph_functions(module_)) {
      uses_ = count_uses(*f);
      Expr next = body(f->body);
      if (!next.same_as(f->body)) module_.set(name, with_bodies(f, {next}));
    }
    erase_uncalled(module_, merged_);
    return module_;
  }

 private:
  Expr body(const Expr& e) {
    std::vector<Binding> out;
    Places places;
    bool changed = false;
    for (Binding b : bindings_of(e)) {
      if (b.is<VarBindingNode>()) {
        changed |= map_bodies(b, [&](const Expr& x) { return body(x); });
        changed |= merge_chain(b, out, places);
        places[b->var.get()] = out.size();
      }
      out.push_back(b);
    }
    if (!changed) return e;
    std::erase_if(out, [](const Binding& b) { return !b; });
    return make_body(out, result_of(e));
  }

  using Places = std::unordered_map<const Var*, size_t>;  ///< of calls, in the list of bindings

  /// A chain while it is followed back: the programs taken into one call.
  struct Chain {
    ProgramCall call;
    std::vector<size_t> taken;            ///< bindings
    std::set<std::string> names;          ///< of the programs
    std::map<const Var*, int> once = {};  ///< uses of its arguments that have become one with another
  };

  /// Is the argument a program's, which nothing but the chain reads?
  bool is_ours(const Chain& chain, const Var* v, const std::vector<Binding>& bindings,
               const Places& places) const {
    const auto at = places.find(v);
    const auto uses = uses_.find(v);
    const auto once = chain.once.find(v);
    return at != places.end() && bindings[at->second] && uses != uses_.end() &&
           uses->second - (once == chain.once.end() ? 0 : once->second) == 1;
  }

  /// The argument to follow back: the largest one, or one whose program reads that, too (sums of its rows).
  int handed_on(const Chain& chain, const std::vector<Binding>& bindings, const Places& places) const {
    const Array<Expr>& args = chain.call.args;
    int largest = -1;
    int64_t most = 0;
    for (size_t i = 0; i < args.size(); ++i) {
      if (!places.count(args[i].as<Var>())) continue;
      const int64_t bytes = most_bytes(args[i]->type, {});
      if (bytes > most) largest = int(i), most = bytes;
    }
    if (largest < 0 || is_ours(chain, args[size_t(largest)].as<Var>(), bindings, places)) return largest;
    for (size_t i = 0; i < args.size(); ++i) {
      const auto* v = args[i].as<Var>();
      if (!v || !is_ours(chain, v, bindings, places)) continue;
      const auto call = program_call(bindings[places.at(v)]->value, module_);
      if (call && contains(call->args, args[size_t(largest)])) return int(i);
    }
    return -1;
  }
  static bool contains(const Array<Expr>& list, const Expr& e) {
    return std::any_of(list.begin(), list.end(), [&](const Expr& x) { return x.same_as(e); });
  }

  /// Takes the program behind argument `at` into the chain.
  bool follow(Chain& chain, int at, const std::vector<Binding>& bindings, const Places& places) const {
    const size_t binding = places.at(chain.call.args[size_t(at)].as<Var>());
    const auto producer = program_call(bindings[binding]->value, module_);
    if (!producer || producer->outputs.size() != 1 || made_.count(producer->name)) return false;
    const auto both = merge_programs(*producer, chain.call, size_t(at));
    if (!both) return false;
    for (const Expr& e : producer->args)
      if (e.is<Var>() && contains(chain.call.args, e)) ++chain.once[e.as<Var>()];
    chain.taken.push_back(binding);
    chain.names.insert(producer->name);
    chain.call = both->call;
    return true;
  }

  /// Takes the programs of a chain that ends with `b` into it.
  bool merge_chain(Binding& b, std::vector<Binding>& out, const Places& places) {
    const auto call = program_call(b->value, module_);
    if (!call || program_pattern(*call->program) != int64_t(FusionKind::out_element_wise_fusable))
      return false;
    Chain chain{*call, {}, {call->name}};
    while (chain.names.size() < kLongestChain) {
      const int at = handed_on(chain, out, places);
      if (at < 0 || !follow(chain, at, out, places)) return false;
      const auto axes = shared_axes(chain.call.program);
      if (!axes) return false;
      const auto rows = cost::row_blocks(*axes, may_alias(chain.call.program), target_);
      if (!rows) continue;
      // A result that takes the memory of an operand would be read again by a block that overlaps.
      if (rows->overlap) chain.call.program.edit()->attrs.set(kNotInPlaceAttr, Any(true));
      merged_.insert(chain.names.begin(), chain.names.end());
      put(b, chain.call);
      for (size_t i : chain.taken) out[i] = Binding();
      return true;
    }
    return false;
  }

  void put(Binding& b, const ProgramCall& call) {
    const std::string name = module_.fresh_name(call.name);
    made_.insert(name);
    tir::PrimFunc program = call.program;
    program.edit()->attrs.set("global_symbol", Any(name));
    module_.set(name, program);
    b = make<VarBindingNode>(
        b->var, with_type(call_tir(global(name), call.args, call.outputs), b->value->type, b->value->origin));
  }

  IRModule module_;
  Target target_;
  std::unordered_map<const Var*, int> uses_;
  std::set<std::string> merged_, made_;  ///< programs that may go, and chains, which go on no further
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
