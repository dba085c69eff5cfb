// SPDX-License-Identifier: Apache-2.0
// annotate_used_memory: how many bytes of tensors are alive at each binding.
//
//   before   main(x): lv = R.exp(x);  lv1 = R.add(lv, x)                                  # 24 bytes each
//   after    the same, with the attributes "used_memory" = [48, 72] and "peak_memory" = 72
//
// Parameters count from the beginning to their last use, values from their binding to theirs, results to the
// end; constants do not. For functions whose sizes are all known; bodies of branches and loops count as the
// tensors that they take and give. Needs: types. Keeps: everything else.
#include <algorithm>
#include <numeric>

#include "ir/bodies.h"
#include "ir/pass.h"

namespace tenon {
namespace graph {
namespace {

/// Bytes of all tensors of a type; nullopt when a size is not known.
std::optional<int64_t> tensor_bytes(const Type& type) {
  if (const auto* tuple = type.as<TupleType>()) {
    int64_t sum = 0;
    for (const Type& t : tuple->items) {
      const auto n = tensor_bytes(t);
      if (!n) return std::nullopt;
      sum += *n;
    }
    return sum;
  }
  const auto* t = type ? as_tensor(type) : nullptr;
  if (!t)
    return type && (type.is<ShapeType>() || type.is<PrimType>()) ? std::optional<int64_t>(0) : std::nullopt;
  const auto shape = static_shape(type);
  if (!shape || t->dtype.is_void()) return std::nullopt;
  return int64_t(storage_bytes(element_count(*shape), t->dtype));
}

}  // namespace
}  // namespace graph

static IRModule annotate_used_memory(IRModule module, PassContext&) {
  using namespace graph;
  return module.map_graph([](const std::string&, const Ref<graph::Function>& f) -> ObjectRef {
    if (!f->body) return {};
    const std::vector<Binding> bindings = bindings_of(f->body);
    std::unordered_map<const Var*, size_t> end;  // the last use
    end.reserve(bindings.size() + f->params.size());
    for (size_t i = 0; i < bindings.size(); ++i)
      for_each_use(bindings[i]->value, [&](const VarRef& v) { end[v.get()] = i; });
    for_each_use(result_of(f->body), [&](const VarRef& v) { end[v.get()] = bindings.size(); });
    // A tuple and its items are the tensors that they are made of: only what is computed counts.
    auto own = [&](const Expr& value) {
      return !value.is<Tuple>() && !value.is<TupleGetItem>() && !is_leaf(value) && !value.is<Function>();
    };
    for (size_t i = bindings.size(); i-- > 0;) {
      const Expr value = bindings[i]->value;
      if (own(value)) continue;
      const auto mine = end.find(bindings[i]->var.get());
      if (mine == end.end()) continue;
      for_each_use(value, [&](const VarRef& v) { end[v.get()] = std::max(end[v.get()], mine->second); });
    }
    std::vector<int64_t> alive(bindings.size() + 2, 0);  // first what is added and what ends, then the sums
    auto count = [&](const VarRef& v, const Type& type, size_t begin) {
      const auto n = tensor_bytes(type);
      if (!n) return false;
      const auto it = end.find(v.get());
      alive[begin] += *n;
      alive[1 + (it == end.end() ? begin : it->second)] -= *n;
      return true;
    };
    for (const VarRef& p : f->params)
      if (!count(p, p->declared, 0)) return {};
    for (size_t i = 0; i < bindings.size(); ++i)
      if (own(bindings[i]->value) && !count(bindings[i]->var, bindings[i]->var->declared, i)) return {};
    std::partial_sum(alive.begin(), alive.end(), alive.begin());
    alive.resize(bindings.size());
    Ref<graph::Function> out = f;
    out.edit()->attrs.set("used_memory", Any(Array<int64_t>(alive.begin(), alive.end())));
    out.edit()->attrs.set("peak_memory",
                          Any(alive.empty() ? int64_t(0) : *std::max_element(alive.begin(), alive.end())));
    return out;
  });
}

const Pass& annotate_used_memory_pass = register_pass({
    .name = "annotate_used_memory",
    .run = annotate_used_memory,
    .summary = "bytes alive at each binding",
    .needs = {"infer_types"},
});

}  // namespace tenon
