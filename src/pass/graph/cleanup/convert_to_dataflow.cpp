// SPDX-License-Identifier: Apache-2.0
// convert_to_dataflow: stretches of pure bindings are marked as dataflow regions.
//
//   before   lv = R.exp(x);  lv1 = R.sin(lv);  p = R.call_packed("f", lv1)
//   after    with R.dataflow(): lv = R.exp(x);  lv1 = R.sin(lv);  R.output(lv1)        p = R.call_packed(…)
//
// A mark has no meaning for the compiler, which asks what is called; it is for those who read the text, and
// for tools that know regions. At least "convert_to_dataflow.min_bindings" (2) bindings. Control flow and
// match_cast stay outside. Keeps: values, order.
#include "ir/bodies.h"
#include "ir/pass.h"

namespace tenon {
namespace graph {
namespace {

bool flows(const Binding& b) {
  const Expr value = b->value;
  if (!b.is<VarBindingNode>()) return false;
  if (value.is<Tuple>() || value.is<TupleGetItem>() || is_leaf(value)) return true;
  const Op* op = op_of(value);
  return op && op->pure;
}

Expr marked(const Expr& body, size_t least) {
  std::vector<Binding> bindings = bindings_of(body);
  bool changed = false;
  for (Binding& b : bindings) {
    changed |= map_bodies(b, [&](const Expr& x) { return marked(x, least); });
  }
  std::unordered_map<const Var*, size_t> last;  // the last binding that reads a variable
  for (size_t i = 0; i < bindings.size(); ++i)
    for_each_use(bindings[i]->value, [&](const VarRef& v) { last[v.get()] = i; });
  for_each_use(result_of(body), [&](const VarRef& v) { last[v.get()] = bindings.size(); });
  Array<BindingBlock> blocks;
  for (size_t i = 0; i < bindings.size();) {
    size_t end = i;
    while (end < bindings.size() && flows(bindings[end])) ++end;
    const bool mark = end - i >= least;
    if (end == i) {
      while (end < bindings.size() && !flows(bindings[end])) ++end;
    }
    BindingBlock block = make<BindingBlockNode>(
        Array<Binding>(bindings.begin() + std::ptrdiff_t(i), bindings.begin() + std::ptrdiff_t(end)));
    if (mark) {
      block.edit()->dataflow = true;
      for (size_t k = i; k < end; ++k) {
        auto it = last.find(bindings[k]->var.get());
        if (it != last.end() && it->second >= end) block.edit()->outputs.push_back(bindings[k]->var);
      }
      changed = true;
    }
    blocks.push_back(block);
    i = end;
  }
  if (!changed) return body;
  return with_type(make<SeqExpr>(blocks, result_of(body)), body->type);
}

}  // namespace
}  // namespace graph

static const Option<int64_t> kMinBindings("convert_to_dataflow.min_bindings", 2,
                                          "shorter stretches stay as they are", {.least = 1});

static IRModule convert_to_dataflow(IRModule module, PassContext& context) {
  using namespace graph;
  const int64_t least = context.options.get(kMinBindings);
  return module.map_graph([&](const std::string&, const Ref<graph::Function>& f) -> ObjectRef {
    if (!f->body) return {};
    Expr next = marked(f->body, size_t(least));
    return next.same_as(f->body) ? ObjectRef() : ObjectRef(with_bodies(f, {next}));
  });
}

const Pass& convert_to_dataflow_pass = register_pass({
    .name = "convert_to_dataflow",
    .run = convert_to_dataflow,
    .summary = "stretches of pure bindings are marked",
    .options = {kMinBindings},
});

}  // namespace tenon
