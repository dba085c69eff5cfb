// SPDX-License-Identifier: Apache-2.0
// split_call_tir_by_pattern: a program is cut behind the stages that a pattern finds.
//
//   before   lv = R.call_tir(matmul_relu, (x, w), …)                  split_call_tir_by_pattern.blocks:
//   matmul after    lv_head = R.call_tir(matmul_relu_head, (x, w), …)
//            lv = R.call_tir(matmul_relu_tail, (lv_head,), …)
//
// So a library or another schedule can take the first part. The pattern is the name of a block: the cut is
// behind the last stage at the front of the program up to that block. Programs of constant shapes, of whose
// results none is written in front of the cut. Keeps: values; fuse_tir makes one program again.
#include <algorithm>
#include <set>

#include "ir/find_node.h"
#include "ir/tir.h"
#include "op/body_rewriter.h"
#include "pass/graph/fusion/programs.h"

namespace tenon {
namespace graph {
namespace {

bool contains(const std::vector<tir::Buffer>& list, const tir::Buffer& b) {
  return std::any_of(list.begin(), list.end(), [&](const tir::Buffer& o) { return o.same_as(b); });
}

class SplitCallTir : public BodyRewriter {
 public:
  SplitCallTir(IRModule& module, std::set<std::string> blocks)
      : module_(module), blocks_(std::move(blocks)) {}
  std::set<std::string> split;

 protected:
  Expr visit(const Expr& value, const VarRef& var) override {
    const auto call = program_call(value, module_);
    if (!call || !call->scalars.empty()) return value;
    const Parts* parts = cut(*call);
    if (!parts || !parts->possible) return value;
    auto pick = [&](const std::vector<size_t>& which) {
      Array<Expr> args;
      for (size_t i : which) args.push_back(call->args[i]);
      return args;
    };
    Expr head =
        with_origin(call_tir(global(parts->head), pick(parts->head_args), parts->between), value->origin);
    const Expr made = emit(head, var->name + "_head");
    Array<Expr> args = pick(parts->tail_args);
    for (size_t i = 0; i < parts->between.size(); ++i) {
      if (parts->between.size() == 1) {
        args.push_back(made);
        break;
      }
      args.push_back(emit(make<TupleGetItem>(made, int64_t(i)), var->name + "_part"));
    }
    return with_origin(call_tir(global(parts->tail), args, call->outputs), value->origin);
  }

 private:
  struct Parts {
    bool possible = false;
    std::string head, tail;
    std::vector<size_t> head_args, tail_args;
    Array<Type> between;
  };

  size_t stages_in_front(const StagedProgram& p) const {
    for (size_t i = 0; i < p.stages.size(); ++i) {
      const bool found = any_node(p.stages[i], [&](const ObjectRef& n) {
        const auto* b = n.as<tir::Block>();
        return b && blocks_.count(b->name);
      });
      if (found) return i + 1;
    }
    return 0;
  }

  const Parts* cut(const ProgramCall& call) {
    auto [it, fresh] = parts_.try_emplace(call.name);
    Parts& out = it->second;
    if (!fresh) return &out;
    const auto p = staged(tir::rename_all(call.program));
    const size_t at = p ? stages_in_front(*p) : 0;
    if (at == 0 || at == p->stages.size() || p->params.size() != call.args.size() + call.outputs.size())
      return &out;
    BufferUses front, back;
    auto gather = [](BufferUses& into, const tir::Stmt& s) {
      const BufferUses u = buffer_uses(s);
      for (const tir::Buffer& b : u.loads)
        if (!contains(into.loads, b)) into.loads.push_back(b);
      for (const tir::Buffer& b : u.stores)
        if (!contains(into.stores, b)) into.stores.push_back(b);
    };
    for (size_t i = 0; i < p->stages.size(); ++i) gather(i < at ? front : back, p->stages[i]);
    for (size_t i = call.args.size(); i < p->params.size(); ++i)
      if (contains(front.stores, p->params[i]) || contains(front.loads, p->params[i])) return &out;
    StagedProgram head, tail;
    std::vector<tir::Buffer> between;
    for (size_t i = 0; i < call.args.size(); ++i) {
      if (contains(front.loads, p->params[i]))
        head.params.push_back(p->params[i]), out.head_args.push_back(i);
      if (contains(back.loads, p->params[i])) tail.params.push_back(p->params[i]), out.tail_args.push_back(i);
    }
    for (const tir::Buffer& b : p->allocated) {
      const bool before = contains(front.stores, b), after = contains(back.loads, b);
      if (before && contains(back.stores, b)) return &out;  // half of it here, half there
      if (before && after)
        between.push_back(b);
      else
        (before ? head : tail).allocated.push_back(b);
    }
    if (between.empty()) return &out;
    for (const tir::Buffer& b : between) {
      head.params.push_back(b);
      tail.params.push_back(b);
      out.between.push_back(tensor_type(b->shape, b->dtype));
    }
    for (size_t i = call.args.size(); i < p->params.size(); ++i) tail.params.push_back(p->params[i]);
    head.stages.assign(p->stages.begin(), p->stages.begin() + std::ptrdiff_t(at));
    tail.stages.assign(p->stages.begin() + std::ptrdiff_t(at), p->stages.end());
    out.head = module_.fresh_name(call.name + "_head");
    module_.set(out.head,
                tir::rename_all(program_of(head, out.head, int64_t(between.size()), call.program->attrs)));
    out.tail = module_.fresh_name(call.name + "_tail");
    module_.set(out.tail, tir::rename_all(
                              program_of(tail, out.tail, int64_t(call.outputs.size()), call.program->attrs)));
    split.insert(call.name);
    out.possible = true;
    return &out;
  }

  IRModule& module_;
  std::set<std::string> blocks_;
  std::map<std::string, Parts> parts_;
};

}  // namespace
}  // namespace graph

static const Option<Array<std::string>> kBlocks("split_call_tir_by_pattern.blocks", {},
                                                "names of blocks: programs are cut behind them");

static IRModule split_call_tir_by_pattern(IRModule module, PassContext& context) {
  using namespace graph;
  const auto names = context.options.get(kBlocks);
  if (names.empty()) return module;
  SplitCallTir rewriter(module, std::set<std::string>(names.begin(), names.end()));
  for (const auto& [name, f] : graph_functions(module)) {
    Ref<graph::Function> out = rewriter.run(f);
    if (!out.same_as(f)) module.set(name, out);
  }
  erase_uncalled(module, rewriter.split);
  return module;
}

const Pass& split_call_tir_by_pattern_pass = register_pass({
    .name = "split_call_tir_by_pattern",
    .run = split_call_tir_by_pattern,
    .summary = "programs are cut behind the stages that a pattern finds",
    .needs = {"lower_to_call_tir"},
    .options = {kBlocks},
});

}  // namespace tenon
