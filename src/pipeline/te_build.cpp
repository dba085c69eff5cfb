// SPDX-License-Identifier: Apache-2.0
// A graph function around one scheduled program, so that it compiles and runs as any model does.
#include "pipeline/te_build.h"

#include <fmt/format.h>

#include "ir/op.h"
#include "op/infer.h"
#include "pass/tensor/passes.h"

namespace tenon::te {

IRModule runnable(IRModule module, const std::string& program) {
  const auto f = module.find(program).cast<tir::PrimFuncNode>();
  if (!f) fail("T0347", fmt::format("the module has no tensor program '{}'", program));
  const int64_t count = f->attrs.get_or("num_outputs", Any(int64_t(1))).as<int64_t>();
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
    if (it == sizes.end())
      fail("T0347", fmt::format("the size '{}' is no dimension of an input", s->name), program,
           "take an input that has it");
    symbolic.push_back(it->second);
  }
  graph::BlockBuilder b = op::make_builder();
  graph::Expr out = b.emit(graph::call_tir(graph::global(program), args, outputs, symbolic), "out");
  module.set("main", make<graph::Function>(params, b.finish(out), graph::Type(), AttrMap()));
  return module;
}

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
  return Runner(runnable(lower(schedule, args, "te_program", symbolic), "te_program"), std::move(options),
                session);
}

}  // namespace tenon::te
