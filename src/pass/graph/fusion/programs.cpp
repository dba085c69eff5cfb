// SPDX-License-Identifier: Apache-2.0
#include "pass/graph/fusion/programs.h"

#include <algorithm>
#include <set>

#include "ir/attr_keys.h"
#include "ir/bodies.h"
#include "ir/op.h"
#include "ir/structural.h"
#include "ir/tir.h"
#include "ir/walk.h"

namespace tenon::graph {

std::optional<ProgramCall> program_call(const Expr& value, const IRModule& module) {
  const auto* c = value.as<Call>();
  if (!c || !is_op(value, "call_tir")) return std::nullopt;
  const auto* g = c->args[0].as<GlobalVar>();
  const auto* args = c->args[1].as<Tuple>();
  const auto f = g ? module.find(g->name).cast<tir::PrimFuncNode>() : tir::PrimFunc();
  const auto* scalars = c->args.size() > 2 ? c->args[2].as<ShapeExpr>() : nullptr;
  if (!f || !args || (c->args.size() > 2 && !scalars)) return std::nullopt;
  return ProgramCall{g->name, f, args->items, c->type_args, scalars ? scalars->values : Array<PrimExpr>()};
}

PrimExpr in_caller(const PrimExpr& e, const ProgramCall& call) {
  const size_t buffers = call.program->params.size() - call.scalars.size();
  tir::VarMap sizes;
  for (size_t i = 0; i < call.scalars.size(); ++i)
    sizes[call.program->params[buffers + i].get()] = call.scalars[i];
  return tir::substitute(e, sizes);
}

namespace {
/// `around`: scalars of a program that the stages will be part of.
std::optional<StagedProgram> staged_in(const tir::PrimFunc& f, const std::vector<tir::VarRef>& around) {
  const auto* root = f->body.as<tir::BlockRealize>();
  if (!root || !root->block->iter_vars.empty() || root->block->init || !root->block->match_buffers.empty() ||
      f->attrs.contains(kTraceAttr) || f->attrs.contains(kKernelAttr))
    return std::nullopt;
  StagedProgram out;
  for (const tir::VarRef& p : f->params) {
    const tir::Buffer b = f->buffer_map.get_or(p, {});
    if (b && out.scalars.empty())
      out.params.push_back(b);
    else if (!b && p->dtype.is_int())
      out.scalars.push_back(p);
    else
      return std::nullopt;
  }
  auto in = [](const std::vector<tir::VarRef>& scalars, const tir::VarRef& v) {
    return std::ranges::any_of(scalars, [&](const tir::VarRef& x) { return x.same_as(v); });
  };
  for (const tir::Buffer& b : out.params)
    for (const PrimExpr& d : b->shape)
      for (const tir::VarRef& v : tir::free_vars(d))
        if (!in(out.scalars, v) && !in(around, v)) return std::nullopt;
  for (const tir::Buffer& b : root->block->alloc_buffers) out.allocated.push_back(b);
  if (const auto* seq = root->block->body.as<tir::SeqStmt>())
    for (const tir::Stmt& s : seq->seq) out.stages.push_back(s);
  else
    out.stages.push_back(root->block->body);
  return out;
}
}  // namespace

std::optional<StagedProgram> staged(const tir::PrimFunc& f) { return staged_in(f, {}); }

tir::PrimFunc program_of(const StagedProgram& p, const std::string& name, int64_t num_outputs,
                         const AttrMap& like) {
  Array<tir::VarRef> params;
  Map<tir::VarRef, tir::Buffer> buffers;
  for (const tir::Buffer& b : p.params) {
    const tir::VarRef v = tir::var(b->name, DataType::handle());
    params.push_back(v);
    buffers.set(v, b);
  }
  for (const tir::VarRef& v : p.scalars) params.push_back(v);
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

int64_t program_pattern(const tir::PrimFuncNode& f) {
  auto v = f.attrs.find(kPatternAttr);
  return v ? v->try_as<int64_t>().value_or(int64_t(FusionKind::opaque)) : int64_t(FusionKind::opaque);
}

namespace {

constexpr size_t kLongName = 72, kNameKept = 60;  ///< characters of a joined name, and of a shortened one

std::string joined_name(const ProgramCall& producer, const ProgramCall& consumer) {
  std::string name = producer.name + "_" + consumer.name;
  if (!name.starts_with("fused_")) name = "fused_" + name;
  if (name.size() > kLongName)
    name = name.substr(0, kNameKept) + "_" + std::to_string(hash_bytes(name.data(), name.size()) % 1000000);
  return name;
}

AttrMap joined_attrs(const ProgramCall& producer, const ProgramCall& consumer) {
  AttrMap attrs = consumer.program->attrs;
  attrs.set(kPatternAttr,
            Any(std::max(program_pattern(*producer.program), program_pattern(*consumer.program))));
  Array<std::string> sources;
  for (const tir::PrimFunc& f : {producer.program, consumer.program})
    if (auto list = f->attrs.find(kSourceAttr))
      for (const std::string& s : list->as<Array<std::string>>()) sources.push_back(s);
  if (!sources.empty()) attrs.set(kSourceAttr, Any(sources));
  return attrs;
}

/// The consumer's program with the scalars of the producer's where both are called with the same size; those
/// of the call follow.
tir::PrimFunc with_scalars_of(const ProgramCall& consumer, const StagedProgram& first,
                              Array<PrimExpr>& scalars) {
  const tir::PrimFunc f = tir::rename_all(consumer.program);
  const size_t producers = scalars.size(), buffers = f->params.size() - consumer.scalars.size();
  tir::VarMap same;
  for (size_t i = 0; i < consumer.scalars.size(); ++i) {
    size_t known = 0;
    while (known < producers && !structural_equal(scalars[known], consumer.scalars[i])) ++known;
    if (known < producers)
      same[f->params[buffers + i].get()] = first.scalars[known];
    else
      scalars.push_back(consumer.scalars[i]);
  }
  return same.empty() ? f : tir::specialize(f, same);
}

}  // namespace

std::optional<MergedPrograms> merge_programs(const ProgramCall& producer, const ProgramCall& consumer,
                                             size_t at) {
  const auto first = staged(tir::rename_all(producer.program));
  if (!first || first->params.size() != producer.args.size() + 1 ||
      first->scalars.size() != producer.scalars.size() ||
      consumer.program->params.size() !=
          consumer.args.size() + consumer.outputs.size() + consumer.scalars.size())
    return std::nullopt;
  MergedPrograms out;
  out.call.scalars = producer.scalars;
  const auto second = staged_in(with_scalars_of(consumer, *first, out.call.scalars), first->scalars);
  if (!second) return std::nullopt;
  Array<Expr>& args = out.call.args;
  StagedProgram all;
  tir::BufferMap same;
  const tir::Buffer middle = first->params.back();
  for (size_t i = 0; i < producer.args.size(); ++i) {
    all.params.push_back(first->params[i]);
    args.push_back(producer.args[i]);
  }
  same[second->params[at].get()] = middle;
  for (size_t i = 0; i < consumer.args.size(); ++i) {
    if (i == at) continue;
    if (consumer.args[i].same_as(consumer.args[at])) {
      same[second->params[i].get()] = middle;
      continue;
    }
    size_t known = 0;
    while (known < producer.args.size() && !producer.args[known].same_as(consumer.args[i])) ++known;
    if (known < producer.args.size()) {
      same[second->params[i].get()] = first->params[known];
      continue;
    }
    all.params.push_back(second->params[i]);
    args.push_back(consumer.args[i]);
  }
  for (size_t i = consumer.args.size(); i < second->params.size(); ++i)
    all.params.push_back(second->params[i]);
  all.allocated = first->allocated;
  all.allocated.push_back(middle);
  all.allocated.insert(all.allocated.end(), second->allocated.begin(), second->allocated.end());
  all.scalars = first->scalars;
  for (const tir::VarRef& v : second->scalars) all.scalars.push_back(v);
  all.stages = first->stages;
  for (const tir::Stmt& s : second->stages) all.stages.push_back(tir::replace_buffers(s, same));
  out.stages = all.stages.size();
  out.call.name = joined_name(producer, consumer);
  out.call.outputs = consumer.outputs;
  out.call.program =
      program_of(all, out.call.name, int64_t(consumer.outputs.size()), joined_attrs(producer, consumer));
  return out;
}

IRModule ProgramMerger::run() {
  for (const auto& [name, f] : graph_functions(module_)) {
    uses_ = count_uses(*f);
    const Expr next = body(f->body);
    if (!next.same_as(f->body)) module_.set(name, with_bodies(f, {next}));
  }
  erase_uncalled(module_, merged_);
  return module_;
}

Expr ProgramMerger::body(const Expr& e) {
  Body here;
  Body* const around = at_;
  bool changed = false;
  for (Binding b : bindings_of(e)) {
    if (b.is<VarBindingNode>()) {
      changed |= map_bodies(b, [&](const Expr& x) { return body(x); });
      at_ = &here;
      while (merge(b)) changed = true;
      here.place[b->var.get()] = here.bindings.size();
    }
    here.bindings.push_back(b);
  }
  at_ = around;
  if (!changed) return e;
  std::erase_if(here.bindings, [](const Binding& b) { return !b; });
  return make_body(here.bindings, result_of(e));
}

std::optional<ProgramCall> ProgramMerger::made_by(const Var* v) const {
  const auto at = at_->place.find(v);
  if (at == at_->place.end() || !at_->bindings[at->second]) return std::nullopt;
  return program_call(at_->bindings[at->second]->value, module_);
}

int ProgramMerger::uses(const Var* v) const {
  const auto it = uses_.find(v);
  return it == uses_.end() ? 0 : it->second;
}

void ProgramMerger::replace(Binding& b, ProgramCall call, const std::vector<const Var*>& taken,
                            const std::set<std::string>& names, const PrimExpr& condition) {
  call.name = module_.fresh_name(call.name);
  call.program.edit()->attrs.set("global_symbol", Any(call.name));
  module_.set(call.name, call.program);
  merged_.insert(call.name);
  merged_.insert(names.begin(), names.end());
  const Expr joined = with_type(call_tir(global(call.name), call.args, call.outputs, call.scalars),
                                b->value->type, b->value->origin);
  std::set<size_t> places;
  for (const Var* v : taken) places.insert(at_->place.at(v));
  std::vector<Binding> apart;
  for (const size_t at : places) apart.push_back(std::exchange(at_->bindings[at], Binding()));
  const auto bound = [&](const Expr& value) {
    return make<VarBindingNode>(with_origin(var(b->var->name, value->type), value->origin), value);
  };
  Expr value = joined;
  if (condition) {
    apart.push_back(bound(b->value));
    const Binding one = bound(joined);
    value = with_type(
        make<If>(make<PrimValue>(condition), make_body({one}, one->var), make_body(apart, apart.back()->var)),
        b->value->type, b->value->origin);
  }
  b = make<VarBindingNode>(b->var, value);
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
