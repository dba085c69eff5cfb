// SPDX-License-Identifier: Apache-2.0
#include "analysis/value_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "ir/intrinsic.h"
#include "ir/structural.h"
#include "ir/text.h"

namespace tenon {

using namespace tir;

namespace {

template <class T>
std::optional<Combination> combination(Combine op, const PrimExpr& e) {
  const auto* n = e.as<T>();
  return n ? std::optional(Combination{op, n->a, n->b}) : std::nullopt;
}

/// A value that combining with changes nothing; -0 beside 0 is left out of account.
bool is_identity(Combine op, const PrimExpr& e) {
  const auto* f = e.as<FloatImm>();
  const auto i = as_int(e);
  switch (op) {
    case Combine::add:
      return f ? f->value == 0 : i && *i == 0;
    case Combine::mul:
      return f ? f->value == 1 : i && *i == 1;
    case Combine::min:
      return f && std::isinf(f->value) && f->value > 0;
    case Combine::max:
      return f && std::isinf(f->value) && f->value < 0;
    case Combine::logical_and:
      return i && *i != 0;
    case Combine::logical_or:
      return i && *i == 0;
  }
  return false;
}

std::optional<Combine> op_of(const Reduce& r) {
  const auto c = combination_of(r.combiner->result[0]);
  return c ? std::optional(c->op) : std::nullopt;
}

PrimExpr reduce_node(Combine op, const PrimExpr& source, const Array<IterVar>& axes) {
  const VarRef lhs = var("lhs", source.dtype()), rhs = var("rhs", source.dtype());
  auto combiner = make<CommReducerNode>(Array<VarRef>{lhs}, Array<VarRef>{rhs},
                                        Array<PrimExpr>{combined(op, lhs, rhs)}, Array<PrimExpr>());
  return make<Reduce>(combiner, Array<PrimExpr>{source}, Array<PrimExpr>(), axes, PrimExpr(), int64_t(0));
}

int quotients_in(const PrimExpr& e) {
  int n = 0;
  post_order(e, [&](const ObjectRef& o) { n += o.is<FloorDiv>() || o.is<FloorMod>(); });
  return n;
}

/// Loads and dimensions that a variable stands in: the same however operands are ordered.
std::string uses_of(const VarRef& v, const PrimExpr& source) {
  std::vector<std::string> uses;
  pre_order(source, [&](const ObjectRef& o) {
    if (const auto* l = o.as<BufferLoad>())
      for (size_t d = 0; d < l->indices.size(); ++d)
        for (const VarRef& u : free_vars(l->indices[d]))
          if (u.same_as(v)) uses.push_back(fmt::format("{}.{}", l->buffer->name, d));
    return !o.is<BufferNode>();
  });
  std::sort(uses.begin(), uses.end());
  std::string out;
  for (const std::string& u : uses) out += u + " ";
  return out;
}

PrimExpr rewritten(const PrimExpr& e, FunctionRef<ObjectRef(const ObjectRef&)> f) {
  return PrimExpr(rewrite_any(e, f).cast<PrimExprNode>());
}
void operands(Combine op, const PrimExpr& e, std::vector<PrimExpr>& out) {
  const auto c = combination_of(e);
  if (!c || c->op != op) return out.push_back(e);
  operands(op, c->a, out);
  operands(op, c->b, out);
}
/// Operands of sums and extremes, which are in order already where they are such themselves.
PrimExpr in_order(const PrimExpr& e) {
  const auto c = combination_of(e);
  if (!c) return {};
  std::vector<PrimExpr> parts{c->a, c->b};
  if (c->op != Combine::mul) parts.clear(), operands(c->op, e, parts);
  std::vector<std::pair<std::string, PrimExpr>> keyed;
  for (const PrimExpr& p : parts) keyed.emplace_back(print(p), p);
  std::stable_sort(keyed.begin(), keyed.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  PrimExpr out = keyed[0].second;
  for (size_t i = 1; i < keyed.size(); ++i) out = combined(c->op, out, keyed[i].second);
  return out;
}

}  // namespace

std::optional<Combination> combination_of(const PrimExpr& e) {
  if (auto c = combination<Add>(Combine::add, e)) return c;
  if (auto c = combination<Mul>(Combine::mul, e)) return c;
  if (auto c = combination<Min>(Combine::min, e)) return c;
  if (auto c = combination<Max>(Combine::max, e)) return c;
  if (auto c = combination<And>(Combine::logical_and, e)) return c;
  return combination<Or>(Combine::logical_or, e);
}

PrimExpr combined(Combine op, const PrimExpr& a, const PrimExpr& b) {
  switch (op) {
    case Combine::add:
      return make<Add>(a, b);
    case Combine::mul:
      return make<Mul>(a, b);
    case Combine::min:
      return make<Min>(a, b);
    case Combine::max:
      return make<Max>(a, b);
    case Combine::logical_and:
      return make<And>(a, b);
    case Combine::logical_or:
      return make<Or>(a, b);
  }
  return {};
}

PrimExpr reduction(Combine op, const PrimExpr& init, const PrimExpr& source, const Array<IterVar>& axes) {
  const PrimExpr all = axes.empty() ? source : reduce_node(op, source, axes);
  return is_identity(op, init) ? all : combined(op, init, all);
}

int nodes_of(const PrimExpr& e) {
  std::unordered_map<const Object*, int> sizes;
  post_order(e, [&](const ObjectRef& o) {
    int n = 1;
    for (const ObjectRef& c : children(o)) {
      const auto it = sizes.find(c.get());
      n = std::min(n + (it == sizes.end() ? 1 : it->second), kMostNodes + 1);
    }
    sizes[o.get()] = n;
  });
  return sizes[e.get()];
}

PrimExpr ValueForms::of(const PrimExpr& e) {
  const PrimExpr reduced = rewritten(e, [&](const ObjectRef& o) -> ObjectRef {
    const auto* r = o.as<Reduce>();
    return r ? ObjectRef(one_reduction(*r)) : ObjectRef();
  });
  return rewritten(analyzer_.simplify(reduced), [&](const ObjectRef& o) -> ObjectRef {
    const auto n = o.cast<PrimExprNode>();
    return n ? ObjectRef(in_order(PrimExpr(n))) : ObjectRef();
  });
}

PrimExpr ValueForms::simplified(const PrimExpr& source, const std::vector<IterVar>& axes) {
  for (const IterVar& a : axes) analyzer_.bind(a->var, a->dom, true);
  return analyzer_.simplify(source);
}

/// Axes of length 1 and axes that are two digits of one go; what stays gets its name by its place.
PrimExpr ValueForms::one_reduction(const Reduce& r) {
  const std::optional<Combine> op = op_of(r);
  std::vector<IterVar> axes = r.axis.vec();
  PrimExpr source = r.source[0];
  if (const auto* inner = source.as<Reduce>(); inner && op && op_of(*inner) == op) {
    for (const IterVar& a : inner->axis) axes.push_back(a);
    source = inner->source[0];
  }
  std::erase_if(axes, [&](const IterVar& a) {
    if (!is_one(a->dom->extent)) return false;
    source = substitute(source, {{a->var.get(), a->dom->min}});
    return true;
  });
  source = simplified(source, axes);
  while (fuse_two(axes, source)) {
  }
  return axes.empty() || !op ? source : named(*op, source, axes);
}

bool ValueForms::fuse_two(std::vector<IterVar>& axes, PrimExpr& source) {
  const int before = quotients_in(source);
  for (size_t outer = 0; outer < axes.size(); ++outer)
    for (size_t inner = 0; inner < axes.size(); ++inner) {
      const tir::Range high = axes[outer]->dom, low = axes[inner]->dom;
      if (outer == inner || !is_zero(high->min) || !is_zero(low->min)) continue;
      const PrimExpr length = analyzer_.simplify(high->extent * low->extent);
      const IterVar both = iter_var(range(PrimExpr(0), length), "r", IterKind::reduce);
      analyzer_.bind(both->var, both->dom, true);
      const PrimExpr fused = analyzer_.simplify(
          substitute(source, {{axes[outer]->var.get(), floordiv(both->var, low->extent)},
                              {axes[inner]->var.get(), floormod(both->var, low->extent)}}));
      if (quotients_in(fused) > before) continue;
      axes[outer] = both;
      axes.erase(axes.begin() + std::ptrdiff_t(inner));
      source = fused;
      return true;
    }
  return false;
}

PrimExpr ValueForms::named(Combine op, const PrimExpr& source, std::vector<IterVar> axes) {
  std::map<const Object*, std::string> keys;
  for (const IterVar& a : axes) keys[a.get()] = uses_of(a->var, source) + print(a->dom->extent);
  std::stable_sort(axes.begin(), axes.end(),
                   [&](const IterVar& a, const IterVar& b) { return keys[a.get()] < keys[b.get()]; });
  const int height = height_of(source) + 1;
  VarMap names;
  Array<IterVar> out;
  for (size_t i = 0; i < axes.size(); ++i) {
    IterVar a = axes[i];
    a.edit()->var = axis(height, i, a->dom->extent);
    analyzer_.bind(a->var, a->dom, true);
    names[axes[i]->var.get()] = a->var;
    out.push_back(a);
  }
  return reduce_node(op, substitute(source, names), out);
}

/// Reductions inside of one another have axes of different heights.
int ValueForms::height_of(const PrimExpr& e) {
  int height = 0;
  std::unordered_map<const Object*, int> heights;
  for (const auto& [place, v] : axes_) heights[v.get()] = std::get<0>(place);
  post_order(e, [&](const ObjectRef& o) {
    if (const auto it = heights.find(o.get()); it != heights.end()) height = std::max(height, it->second);
  });
  return height;
}

VarRef ValueForms::axis(int height, size_t place, const PrimExpr& extent) {
  VarRef& v = axes_[{height, place, print(extent)}];
  if (!v) v = var(fmt::format("r{}_{}", height, place));
  return v;
}

}  // namespace tenon
