// SPDX-License-Identifier: Apache-2.0
#include "pass/graph/lowering/lay_out_arguments.h"

#include <fmt/format.h>

#include "base/diagnostic.h"
#include "ir/calls_out.h"
#include "op/body_rewriter.h"
#include "te/te.h"

namespace tenon::graph {
namespace {

/// The tensor laid out by the map: an element of the result is the one that comes there, or 0 where none
/// does.
tir::PrimFunc layout_program(const std::vector<int64_t>& shape, DataType dtype, const IndexMap& map) {
  Array<PrimExpr> from;
  for (const int64_t d : shape) from.push_back(PrimExpr(d));
  Analyzer analyzer;
  const auto to = map_shape(map, from, analyzer);
  const auto inverse = invert(map, from, analyzer);
  CHECK(to && inverse, "a map that transform_layout took");
  const te::Tensor x = te::placeholder(from, dtype, "x");
  const te::Tensor y = te::compute(
      *to,
      [&](const Array<tir::VarRef>& v) {
        tir::VarMap here;
        for (size_t i = 0; i < v.size(); ++i) here[inverse->map->inputs[i].get()] = v[i];
        Array<PrimExpr> at;
        for (const PrimExpr& e : inverse->map->outputs) at.push_back(tir::substitute(e, here));
        const PrimExpr element = x(at);
        return inverse->exact ? element
                              : tir::if_then_else(tir::substitute(inverse->inside, here), element,
                                                  tir::cast(dtype, PrimExpr(0)));
      },
      "laid_out");
  return te::create_prim_func({x, y});
}

class LayOutArguments : public BodyRewriter {
 public:
  LayOutArguments(IRModule& module, std::string program, const std::vector<ParamLayout>& layouts,
                  const Evaluate& evaluate)
      : module_(module), program_(std::move(program)), layouts_(layouts), evaluate_(evaluate) {}

 protected:
  Expr visit(const Expr& value, const VarRef&) override {
    if (!value.is<Call>() || !is_call_tir(value)) return value;
    const Call& call = *value.as<Call>();
    const auto* function = call.args[0].as<GlobalVar>();
    const auto* given = call.args[1].as<Tuple>();
    if (!function || function->name != program_ || !given) return value;
    Array<Expr> tensors = given->items, args = call.args;
    for (const ParamLayout& l : layouts_)
      tensors.set(size_t(l.position), laid_out(tensors[size_t(l.position)], l.map));
    args.set(1, make<Tuple>(tensors));
    return with_type(make<Call>(call.op, args, call.attrs, call.type_args), value->type, value->origin);
  }

 private:
  Expr laid_out(const Expr& tensor, const IndexMap& map) {
    const auto shape = static_shape(tensor->type);
    if (!shape)
      fail("T1038",
           fmt::format("`{}` wants a tensor laid out by {}, and its shape is not known", program_,
                       to_text(map)),
           {}, "give the sizes (--dim), or keep that parameter's layout");
    tir::PrimFunc f = layout_program(*shape, as_tensor(tensor->type)->dtype, map);
    const std::string name = module_.fresh_name(program_ + "_layout");
    f.edit()->attrs.set("global_symbol", Any(name));
    const tir::Buffer result = *f->buffer_map.find(f->params.back());
    if (const auto* c = tensor.as<Constant>(); c && evaluate_) {
      IRModule alone = IRModule::create();
      alone.set(name, f);
      return constant(evaluate_(alone, name, {c->data})[0]);
    }
    module_.set(name, f);
    return emit(call_tir(global(name), {tensor}, {tensor_type(result->shape, result->dtype)}), name);
  }

  IRModule& module_;
  std::string program_;
  const std::vector<ParamLayout>& layouts_;
  const Evaluate& evaluate_;
};

}  // namespace

IRModule lay_out_arguments(IRModule module, const std::string& program,
                           const std::vector<ParamLayout>& layouts, const Evaluate& evaluate) {
  if (layouts.empty()) return module;
  for (const auto& [name, f] : graph_functions(module))
    module.set(name, LayOutArguments(module, program, layouts, evaluate).run(f));
  return module;
}

}  // namespace tenon::graph
