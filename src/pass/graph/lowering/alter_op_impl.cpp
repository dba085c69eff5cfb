// SPDX-License-Identifier: Apache-2.0
// alter_op_impl: calls of programs of one kind get another program.
//
//   before   lv = R.call_tir(add, (x, y), …)                with add: "operator_name" = "relax.add"
//   after    lv = R.call_tir(my_add, (x, y), …)             alter_op_impl.programs: relax.add=my_add
//
// `programs` names programs of the module for values of the attribute "operator_name"; those of other
// parameters are refused (T1034). Keeps: values, when the new program computes the same.
#include <fmt/format.h>

#include "base/diagnostic.h"
#include "ir/structural.h"
#include "ir/tir.h"
#include "op/body_rewriter.h"
#include "pass/graph/fusion/programs.h"

namespace tenon {
namespace graph {

using Programs = Map<std::string, std::string>;  ///< by operator

namespace {

class AlterOpImpl : public BodyRewriter {
 public:
  AlterOpImpl(IRModule& module, const Programs& programs) : module_(module), programs_(programs) {}
  std::set<std::string> replaced;

 protected:
  Expr visit(const Expr& value, const VarRef&) override {
    if (!value.is<Call>() || !is_op(value, "call_tir")) return value;
    const Call& c = *value.as<Call>();
    const auto* g = c.args[0].as<GlobalVar>();
    const auto f = g ? module_.find(g->name).cast<tir::PrimFuncNode>() : tir::PrimFunc();
    auto kind = f ? f->attrs.find("operator_name") : std::nullopt;
    auto other = kind ? programs_.find(kind->as<std::string>()) : std::nullopt;
    if (!other) return value;
    Array<Expr> args = c.args;
    args.set(0, global(name_of(g->name, kind->as<std::string>(), *f, *other)));
    replaced.insert(g->name);
    return with_type(call(c.op, args, c.attrs, c.type_args), value->type, c.origin);
  }

 private:
  const std::string& name_of(const std::string& old, const std::string& kind, const tir::PrimFuncNode& f,
                             const std::string& other) {
    auto [it, fresh] = names_.try_emplace(old);
    if (!fresh) return it->second;
    tir::PrimFunc next = module_.find(other).cast<tir::PrimFuncNode>();
    bool same = next && next->params.size() == f.params.size();
    for (size_t i = 0; same && i < f.params.size(); ++i) {
      const tir::Buffer a = f.buffer_map.get_or(f.params[i], {}),
                        b = next->buffer_map.get_or(next->params[i], {});
      same = bool(a) == bool(b) && (!a || (a->dtype == b->dtype && a->shape.size() == b->shape.size()));
      if (same && a)
        for (size_t d = 0; d < a->shape.size(); ++d)
          same = same && (!tir::as_int(a->shape[d]) || structural_equal(a->shape[d], b->shape[d]));
    }
    if (!same)
      fail("T1034", fmt::format("`{}` is no program that takes what `{}` takes", other, old), {},
           "the module has it, with the same parameters", ErrorKind::usage);
    it->second = module_.fresh_name(old + "_altered");
    next.edit()->attrs.set("global_symbol", Any(it->second));
    next.edit()->attrs.set("operator_name", Any(kind + ".altered"));
    module_.set(it->second, next);
    return it->second;
  }

  IRModule& module_;
  const Programs& programs_;
  std::map<std::string, std::string> names_;
};

}  // namespace
}  // namespace graph

static const Option<graph::Programs> kPrograms(
    "alter_op_impl.programs", {}, "programs of the module, each for those of one \"operator_name\"");

static IRModule alter_op_impl(IRModule module, PassContext& context) {
  using namespace graph;
  const Programs programs = context.options.get(kPrograms);
  if (programs.empty()) return module;
  AlterOpImpl rewriter(module, programs);
  for (const auto& [name, f] : graph_functions(module)) {
    Ref<graph::Function> out = rewriter.run(f);
    if (!out.same_as(f)) module.set(name, out);
  }
  erase_uncalled(module, rewriter.replaced);
  return module;
}

const Pass& alter_op_impl_pass = register_pass({
    .name = "alter_op_impl",
    .run = alter_op_impl,
    .summary = "programs of one kind are replaced by another",
    .needs = {"lower_to_call_tir"},
    .options = {kPrograms},
});

}  // namespace tenon
