// SPDX-License-Identifier: Apache-2.0
#include "ir/regions.h"

#include <algorithm>

namespace tenon::graph {

namespace {

bool has_effects(const Binding& b) {
  const auto* c = b->value.as<Call>();
  const auto* op = c ? c->op.as<Op>() : nullptr;
  return op && !op->pure;
}

}  // namespace

Regions::Regions(const Expr& body) {
  const auto* s = body.as<SeqExpr>();
  bool any = false;
  size_t end = 0;
  for (const BindingBlock& b : s ? s->blocks : Array<BindingBlock>()) {
    any = any || b->dataflow;
    blocks_.push_back({.old_end = end += b->bindings.size(), .dataflow = b->dataflow});
  }
  if (!any) blocks_.clear();
}

void Regions::reached(size_t old, size_t now) {
  for (; next_ < blocks_.size() && blocks_[next_].old_end <= old; ++next_) blocks_[next_].end = now;
}

Array<BindingBlock> Regions::blocks(const Array<Binding>& bindings, const Expr& result) const {
  if (blocks_.empty())
    return bindings.empty() ? Array<BindingBlock>()
                            : Array<BindingBlock>{make<BindingBlockNode>(bindings, false, Array<VarRef>())};
  std::unordered_map<const Var*, size_t> last;  // the last binding that reads a variable
  for (size_t i = 0; i < bindings.size(); ++i)
    for_each_use(bindings[i]->value, [&](const VarRef& v) { last[v.get()] = i; });
  if (result) for_each_use(result, [&](const VarRef& v) { last[v.get()] = bindings.size(); });
  Array<BindingBlock> out;
  size_t next = 0;
  auto take = [&](size_t end, bool dataflow) {
    Array<Binding> part;
    Array<VarRef> outputs;
    for (; next < end; ++next) {
      const Binding& b = bindings[next];
      part.push_back(b);
      dataflow = dataflow && !has_effects(b);
      if (const auto use = last.find(b->var.get()); use != last.end() && use->second >= end)
        outputs.push_back(b->var);
    }
    if (!part.empty())
      out.push_back(make<BindingBlockNode>(part, dataflow, dataflow ? outputs : Array<VarRef>()));
  };
  for (const Block& b : blocks_) take(std::max(next, b.end), b.dataflow);
  take(bindings.size(), false);
  return out;
}

Expr in_regions(const Expr& body, const std::vector<Binding>& now, const Expr& result) {
  Regions regions(body);
  Array<Binding> bindings;
  for (size_t i = 0; i < now.size(); ++i) {
    if (now[i]) bindings.push_back(now[i]);
    regions.reached(i + 1, bindings.size());
  }
  return with_type(make<SeqExpr>(regions.blocks(bindings, result), result), result->type);
}

}  // namespace tenon::graph
