// SPDX-License-Identifier: Apache-2.0
// fuse_tir: a program whose result only one other program reads becomes part of it.
//
//   before   lv = R.call_tir(conv, (x, w), …);  lv1 = R.call_tir(relu, (lv,), …)
//   after    lv1 = R.call_tir(fused_conv_relu, (x, w), …)          # both stages, lv allocated inside
//
// For modules that arrive as call_tir: operators are fused before they are lowered (fuse_ops). Joins what
// "op_pattern" allows (annotate_tir_op_pattern sets it): anything element-wise to injective into what reads
// it, and element-wise readers into contractions. Constant shapes; at most "fuse_tir.max_stages" (32) stages.
// Needs: call_tir. Keeps: values; programs that nothing calls any more go.
#include <algorithm>

#include "ir/attr_keys.h"
#include "ir/bodies.h"
#include "ir/pass.h"
#include "ir/tir.h"
#include "pass/graph/fusion/programs.h"

namespace tenon {
namespace graph {
namespace {

class FuseTir {
 public:
  FuseTir(IRModule module, size_t most) : module_(std::move(module)), most_(most) {}

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
    std::unordered_map<const Var*, size_t> place;  // of calls in `out`
    bool changed = false;
    for (Binding b : bindings_of(e)) {
      if (b.is<VarBindingNode>()) {
        changed |= map_bodies(b, [&](const Expr& x) { return body(x); });
        for (bool again = true; again;) again = merge_one(b, out, place, changed);
        place[b->var.get()] = out.size();
      }
      out.push_back(b);
    }
    if (!changed) return e;
    std::erase_if(out, [](const Binding& b) { return !b; });
    return make_body(out, result_of(e));
  }

  /// Takes one producer into the call that `b` binds.
  bool merge_one(Binding& b, std::vector<Binding>& out, const std::unordered_map<const Var*, size_t>& place,
                 bool& changed) {
    const auto consumer = program_call(b->value, module_);
    if (!consumer) return false;
    for (size_t i = 0; i < consumer->args.size(); ++i) {
      const auto* v = consumer->args[i].as<Var>();
      auto at = v ? place.find(v) : place.end();
      if (at == place.end() || !out[at->second] || uses_[v] != 1) continue;
      const auto producer = program_call(out[at->second]->value, module_);
      if (!producer || producer->outputs.size() != 1 || !may_join(*producer->program, *consumer->program))
        continue;
      Array<Expr> args;
      const std::string name = merged(*producer, *consumer, i, args);
      if (name.empty()) continue;
      Expr call =
          with_type(call_tir(global(name), args, consumer->outputs), b->value->type, b->value->origin);
      b = make<VarBindingNode>(b->var, call);
      out[at->second] = Binding();
      return changed = true;
    }
    return false;
  }

  static bool may_join(const tir::PrimFuncNode& producer, const tir::PrimFuncNode& consumer) {
    const int64_t p = program_pattern(producer), c = program_pattern(consumer);
    if (p <= int64_t(FusionKind::injective)) return c <= int64_t(FusionKind::out_element_wise_fusable);
    return p == int64_t(FusionKind::out_element_wise_fusable) && c <= int64_t(FusionKind::broadcast);
  }

  /// The program of both, argument `at` of the consumer computed inside; its name, or "".
  std::string merged(const ProgramCall& producer, const ProgramCall& consumer, size_t at, Array<Expr>& args) {
    const auto both = merge_programs(producer, consumer, at);
    if (!both || both->stages > most_) return {};
    const std::string name = module_.fresh_name(both->call.name);
    tir::PrimFunc program = both->call.program;
    program.edit()->attrs.set("global_symbol", Any(name));
    args = both->call.args;
    module_.set(name, program);
    merged_.insert(producer.name);
    merged_.insert(consumer.name);
    merged_.insert(name);
    return name;
  }

  IRModule module_;
  size_t most_;
  std::unordered_map<const Var*, int> uses_;
  std::set<std::string> merged_;
};

}  // namespace
}  // namespace graph

static const Option<int64_t> kFuseTirStages("fuse_tir.max_stages", 32, "stages of one program at most",
                                            {.least = 2});

static IRModule fuse_tir(IRModule module, PassContext& context) {
  const int64_t most = context.options.get(kFuseTirStages);
  return graph::FuseTir(std::move(module), size_t(most)).run();
}

const Pass& fuse_tir_pass = register_pass({
    .name = "fuse_tir",
    .run = fuse_tir,
    .summary = "programs that only one other reads become part of it",
    .needs = {"lower_to_call_tir"},
    .options = {kFuseTirStages},
});

}  // namespace tenon
