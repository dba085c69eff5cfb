// SPDX-License-Identifier: Apache-2.0
// A graph function around one scheduled program, so that it compiles and runs as any model does.
#include "pipeline/te_build.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/attr_keys.h"
#include "ir/op.h"
#include "ir/program_results.h"
#include "ir/symbols.h"
#include "op/infer.h"
#include "te/packed.h"

namespace tenon::te {

IRModule runnable(IRModule module, const std::string& program) {
  const auto f = module.find(program).cast<tir::PrimFuncNode>();
  if (!f) fail("T0347", fmt::format("the module has no tensor program '{}'", program));
  const int64_t count = tir::num_outputs(f);
  std::vector<tir::Buffer> buffers;
  Array<tir::VarRef> scalars;
  for (const tir::VarRef& p : f->params) {
    if (auto b = f->buffer_map.find(p))
      buffers.push_back(*b);
    else
      scalars.push_back(p);
  }
  if (count < 1 || size_t(count) > buffers.size())
    fail("T0347",
         fmt::format("the program '{}' has {} tensors and {} outputs", program, buffers.size(), count));
  // A variable has one definition in a module: the graph has sizes of its own.
  tir::VarMap sizes;
  auto mapped = [&](const PrimExpr& e, bool input) {
    for (const tir::VarRef& v : tir::free_vars(e)) {
      if (sizes.count(v.get())) continue;
      if (!input || !e.is<tir::Var>())
        fail("T0347", fmt::format("the size '{}' is no dimension of an input", v->name), program,
             "take an input that has it");
      sizes.emplace(v.get(), tir::var(v->name, v->dtype));
    }
    return tir::substitute(e, sizes);
  };
  Array<Ref<graph::Var>> params;
  Array<graph::Expr> args;
  Array<graph::Type> outputs;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const tir::Buffer& b = buffers[i];
    const bool input = i + size_t(count) < buffers.size();
    if (input)  // dimensions that are a variable alone define it
      for (const PrimExpr& d : b->shape)
        if (d.is<tir::Var>()) mapped(d, true);
    graph::Type t =
        graph::tensor_type(b->shape.map([&](const PrimExpr& e) { return mapped(e, false); }), b->dtype);
    if (input) {
      params.push_back(graph::var(b->name, t));
      args.push_back(params.back());
    } else {
      outputs.push_back(t);
    }
  }
  // Every size is passed as a scalar, those of the shapes behind those that the program lists.
  Array<PrimExpr> symbolic;
  const std::vector<tir::VarRef> used = tir::free_vars(f->body);
  tir::PrimFunc with_scalars = f;
  for (const tir::VarRef& s : kernel_scalars(f)) {
    bool listed = false;
    for (const tir::VarRef& p : scalars) listed = listed || p.same_as(s);
    if (listed) continue;
    scalars.push_back(s);
    with_scalars.edit()->params.push_back(s);
  }
  module.set(program, with_scalars);
  for (const tir::VarRef& s : scalars) {
    auto it = sizes.find(s.get());
    // Kernels of a model take every size of the graph that their shapes once named: some use none of it.
    if (it == sizes.end() && std::ranges::none_of(used, [&](const tir::VarRef& v) { return v.same_as(s); })) {
      symbolic.push_back(PrimExpr::int_imm(0, s->dtype));
      continue;
    }
    if (it == sizes.end())
      fail("T0347", fmt::format("the size '{}' is no dimension of an input", s->name), program,
           "take an input that has it");
    symbolic.push_back(it->second);
  }
  graph::BlockBuilder b = op::make_builder();
  const graph::Expr call = graph::call_tir(graph::global(program), args, outputs, symbolic);
  graph::Expr out = b.emit(with_origin(call, f->body->origin), "out");
  module.set("main", make<graph::Function>(params, b.finish(out), graph::Type(), AttrMap()));
  return module;
}

namespace {

using Key = std::pair<const OperationNode*, int64_t>;
Key key(const Tensor& t) { return {t->op.get(), t->index}; }

/// Calls of registered functions that `outputs` need, in an order in which they can run.
std::vector<Operation> packed_calls(const Array<Tensor>& outputs) {
  std::vector<Operation> out;
  std::set<const OperationNode*> seen;
  std::vector<std::pair<Operation, size_t>> stack;
  auto push = [&](const Operation& op) {
    if (seen.insert(op.get()).second) stack.emplace_back(op, 0);
  };
  for (const Tensor& t : outputs) {
    push(t->op);
    while (!stack.empty()) {
      auto& [op, next] = stack.back();
      if (next < op->inputs.size()) {
        const Operation input = op->inputs[next++]->op;
        push(input);
        continue;
      }
      if (op->attrs.contains("packed")) out.push_back(op);
      stack.pop_back();
    }
  }
  return out;
}

/// Tensor programs with calls of registered functions between them.
class Calls {
 public:
  Calls(const Schedule& schedule, const Array<Tensor>& args) : schedule_(schedule) {
    for (const Tensor& t : args)
      if (t->op->kind == OperationKind::placeholder)
        input(t);
      else
        outputs_.push_back(t);
  }
  IRModule run(const std::vector<Operation>& packed) {
    for (const Operation& op : packed) {
      compute(op->inputs);
      Array<graph::Expr> args;
      for (const Tensor& t : op->inputs) args.push_back(values_.at(key(t)));
      Array<graph::Type> types;
      for (const Tensor& t : op->outputs()) types.push_back(type_of(t));
      graph::Expr callee = make<graph::ExternFunc>(op->attrs.find("packed")->as<std::string>());
      take(op->outputs(),
           graph::call(graph::get_op("call_dps_packed"), {callee, make<graph::Tuple>(args)}, {}, types));
    }
    compute(outputs_);
    Array<graph::Expr> results;
    for (const Tensor& t : outputs_) results.push_back(values_.at(key(t)));
    graph::Expr out = results.size() == 1 ? results[0] : builder_.emit(make<graph::Tuple>(results), "out");
    module_.set("main", make<graph::Function>(params_, builder_.finish(out), graph::Type(), AttrMap()));
    return module_;
  }

 private:
  void input(const Tensor& t) {
    for (const PrimExpr& d : t.shape())
      if (const auto* v = d.as<tir::Var>(); v && !sizes_.count(v))
        sizes_.emplace(v, tir::var(v->name, v->dtype));
    params_.push_back(graph::var(t->name, type_of(t)));
    have(t, params_.back());
  }
  void have(const Tensor& t, const graph::Expr& e) {
    values_[key(t)] = e;
    given_.push_back(t);
  }
  graph::Type type_of(const Tensor& t) {
    return graph::tensor_type(t.shape().map([&](const PrimExpr& e) {
      for (const tir::VarRef& v : tir::free_vars(e))
        if (!sizes_.count(v.get()))
          fail("T0347", fmt::format("the size '{}' is no dimension of an input", v->name), "te::build",
               "take an input that has it");
      return tir::substitute(e, sizes_);
    }),
                              t.dtype());
  }
  void take(const std::vector<Tensor>& tensors, const graph::Expr& call) {
    graph::Expr out = builder_.emit(call);
    for (size_t i = 0; i < tensors.size(); ++i)
      have(tensors[i], tensors.size() == 1 ? out : builder_.emit(make<graph::TupleGetItem>(out, int64_t(i))));
  }
  /// One program for those of `wanted` that are not there yet.
  void compute(const Array<Tensor>& wanted) {
    std::vector<Tensor> missing;
    Array<Tensor> outputs;
    for (const Tensor& t : wanted)
      if (!values_.count(key(t))) missing.push_back(t), outputs.push_back(t);
    if (missing.empty()) return;
    Array<Tensor> inputs;
    std::set<Key> seen;
    std::vector<Tensor> todo = missing;
    while (!todo.empty()) {
      const Operation op = todo.back()->op;
      todo.pop_back();
      for (const Tensor& t : op->inputs)
        if (seen.insert(key(t)).second && !values_.count(key(t))) todo.push_back(t);
    }
    for (const Tensor& t : given_)
      if (seen.count(key(t))) inputs.push_back(t);
    const tenon::Schedule s = schedule_.apply_part(inputs, outputs);
    tir::PrimFunc f = s.function();
    const std::string name = module_.fresh_name("te_program");
    // Sizes of the program, by the tensors that have them.
    tir::VarMap own;
    Array<Tensor> all = inputs;
    for (const Tensor& t : outputs) all.push_back(t);
    for (size_t i = 0; i < all.size(); ++i) {
      const tir::Buffer b = f->buffer_map.at(f->params[i]);
      for (size_t d = 0; d < all[i].ndim(); ++d)
        if (const auto *from = all[i].shape()[d].as<tir::Var>(), *to = b->shape[d].as<tir::Var>(); from && to)
          own[to] = sizes_.at(from);
    }
    Array<PrimExpr> symbolic;
    const auto scalars = kernel_scalars(f);
    {
      tir::PrimFuncNode* e = f.edit();
      e->attrs.set("global_symbol", Any(name));
      e->attrs.set(kTraceAttr, Any(s.trace().to_json()));
      for (const tir::VarRef& v : scalars) {
        e->params.push_back(v);
        symbolic.push_back(own.at(v.get()));
      }
    }
    module_.set(name, f);
    Array<graph::Expr> args;
    for (const Tensor& t : inputs) args.push_back(values_.at(key(t)));
    Array<graph::Type> types;
    for (const Tensor& t : missing) types.push_back(type_of(t));
    take(missing, graph::call_tir(graph::global(name), args, types, symbolic));
  }

  const Schedule& schedule_;
  IRModule module_ = IRModule::create();
  graph::BlockBuilder builder_ = op::make_builder();
  Array<Tensor> outputs_;
  tir::VarMap sizes_;
  Array<Ref<graph::Var>> params_;
  std::map<Key, graph::Expr> values_;
  std::vector<Tensor> given_;  // in the order in which they came
};

}  // namespace

Runner build(const Schedule& schedule, const Array<Tensor>& args, CompileOptions options,
             SessionOptions session, const Array<tir::VarRef>& symbolic) {
  bool output = false;
  for (const Tensor& t : args) {
    if (t->op->kind != OperationKind::placeholder)
      output = true;
    else if (output)
      fail("T0347", fmt::format("the input '{}' comes after an output", t->name), "te::build",
           "give inputs first, then outputs");
  }
  if (const std::vector<Operation> packed = packed_calls(args); !packed.empty())
    return Runner(Calls(schedule, args).run(packed), std::move(options), session);
  return Runner(runnable(lower(schedule, args, "te_program", symbolic), "te_program"), std::move(options),
                session);
}

}  // namespace tenon::te
