// SPDX-License-Identifier: Apache-2.0
#include "pass/graph/fusion/programs.h"

#include <algorithm>
#include <set>

#include "ir/attr_keys.h"
#include "ir/tir.h"
#include "ir/walk.h"

namespace tenon::graph {

std::optional<ProgramCall> program_call(const Expr& value, const IRModule& module) {
  const auto* c = value.as<Call>();
  if (!c || !is_op(value, "call_tir") || c->args.size() != 2) return std::nullopt;
  const auto* g = c->args[0].as<GlobalVar>();
  const auto* args = c->args[1].as<Tuple>();
  const auto f = g ? module.find(g->name).cast<tir::PrimFuncNode>() : tir::PrimFunc();
  if (!f || !args) return std::nullopt;
  return ProgramCall{g->name, f, args->items, c->type_args};
}

std::optional<StagedProgram> staged(const tir::PrimFunc& f) {
  const auto* root = f->body.as<tir::BlockRealize>();
  if (!root || !root->block->iter_vars.empty() || root->block->init || !root->block->match_buffers.empty() ||
      f->attrs.contains(kTraceAttr) || f->attrs.contains(kKernelAttr))
    return std::nullopt;
  StagedProgram out;
  for (const tir::VarRef& p : f->params) {
    const tir::Buffer b = f->buffer_map.get_or(p, {});
    if (!b) return std::nullopt;
    for (const PrimExpr& d : b->shape)
      if (!tir::as_int(d)) return std::nullopt;
    out.params.push_back(b);
  }
  for (const tir::Buffer& b : root->block->alloc_buffers) out.allocated.push_back(b);
  if (const auto* seq = root->block->body.as<tir::SeqStmt>())
    for (const tir::Stmt& s : seq->seq) out.stages.push_back(s);
  else
    out.stages.push_back(root->block->body);
  return out;
}

tir::PrimFunc program_of(const StagedProgram& p, const std::string& name, int64_t num_outputs,
                         const AttrMap& like) {
  Array<tir::VarRef> params;
  Map<tir::VarRef, tir::Buffer> buffers;
  for (const tir::Buffer& b : p.params) {
    const tir::VarRef v = tir::var(b->name, DataType::handle());
    params.push_back(v);
    buffers.set(v, b);
  }
  auto root = make<tir::Block>();
  root.edit()->name = "root";
  root.edit()->alloc_buffers = Array<tir::Buffer>(p.allocated.begin(), p.allocated.end());
  root.edit()->body = p.stages.size() == 1
                          ? p.stages[0]
                          : tir::Stmt(make<tir::SeqStmt>(Array<tir::Stmt>(p.stages.begin(), p.stages.end())));
  auto realize = make<tir::BlockRealize>(Array<PrimExpr>(), tir::true_(), root);
  AttrMap attrs = like;
  attrs.set("global_symbol", Any(name));
  attrs.set("num_outputs", Any(num_outputs));
  attrs.erase(kConcatAxisAttr);
  return make<tir::PrimFuncNode>(params, buffers, realize, DataType::void_(), attrs);
}

BufferUses buffer_uses(const tir::Stmt& s) {
  BufferUses out;
  auto add = [](std::vector<tir::Buffer>& list, const tir::Buffer& b) {
    if (std::none_of(list.begin(), list.end(), [&](const tir::Buffer& o) { return o.same_as(b); }))
      list.push_back(b);
  };
  post_order(s, [&](const ObjectRef& n) {
    if (const auto* l = n.as<tir::BufferLoad>()) add(out.loads, l->buffer);
    if (const auto* l = n.as<tir::BufferStore>()) add(out.stores, l->buffer);
  });
  return out;
}

void erase_functions(IRModule& module, const std::set<std::string>& names) {
  if (names.empty()) return;
  Map<std::string, ObjectRef> kept;
  for (auto [name, object] : module.functions())
    if (!names.count(name)) kept.set(name, object);
  if (kept.size() != module.functions().size()) module.edit()->functions = kept;
}

void erase_uncalled(IRModule& module, const std::set<std::string>& candidates) {
  std::set<std::string> used;
  for (auto [name, object] : module.functions())
    post_order(object, [&](const ObjectRef& n) {
      if (const auto* g = n.as<GlobalVar>()) used.insert(g->name);
      if (const auto* c = n.as<tir::Call>(); c && c->op == "tir.call_prim_func" && !c->args.empty())
        if (const auto* s = c->args[0].as<tir::StringImm>()) used.insert(s->value);
    });
  std::set<std::string> gone;
  for (const std::string& name : candidates)
    if (!used.count(name)) gone.insert(name);
  erase_functions(module, gone);
}

}  // namespace tenon::graph
