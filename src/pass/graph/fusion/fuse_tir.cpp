// SPDX-License-Identifier: Apache-2.0
// fuse_tir: a program whose result only one other program reads becomes part of it.
//
//   before   lv = R.call_tir(conv, (x, w), …);  lv1 = R.call_tir(relu, (lv,), …)
//   after    lv1 = R.call_tir(fused_conv_relu, (x, w), …)          # both stages, lv allocated inside
//
// For modules that arrive as call_tir: operators are fused before they are lowered (fuse_ops). Joins what
// "op_pattern" allows (annotate_tir_op_pattern sets it): anything element-wise to injective into what reads
// it, and element-wise readers into contractions. At most "fuse_tir.max_stages" (32) stages.
// Needs: call_tir. Keeps: values; programs that nothing calls any more go.
#include "ir/op.h"
#include "ir/pass.h"
#include "pass/graph/fusion/programs.h"

namespace tenon {
namespace graph {
namespace {

class FuseTir : public ProgramMerger {
 public:
  FuseTir(IRModule module, size_t most) : ProgramMerger(std::move(module)), most_(most) {}

 private:
  /// Takes one producer into the call that `b` binds.
  bool merge(Binding& b) override {
    const auto consumer = program_call(b->value, module());
    if (!consumer) return false;
    for (size_t i = 0; i < consumer->args.size(); ++i) {
      const auto* v = consumer->args[i].as<Var>();
      const auto producer = v && uses(v) == 1 ? made_by(v) : std::nullopt;
      if (!producer || producer->outputs.size() != 1 || !may_join(*producer->program, *consumer->program))
        continue;
      const auto both = merge_programs(*producer, *consumer, i);
      if (!both || both->stages > most_) continue;
      replace(b, both->call, {v}, {producer->name, consumer->name});
      return true;
    }
    return false;
  }

  static bool may_join(const tir::PrimFuncNode& producer, const tir::PrimFuncNode& consumer) {
    const int64_t p = program_pattern(producer), c = program_pattern(consumer);
    if (p <= int64_t(FusionKind::injective)) return c <= int64_t(FusionKind::out_element_wise_fusable);
    return p == int64_t(FusionKind::out_element_wise_fusable) && c <= int64_t(FusionKind::broadcast);
  }

  size_t most_;
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
