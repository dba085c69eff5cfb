// SPDX-License-Identifier: Apache-2.0
// Facts that the rules read off a block.
#include "autoschedule/facts.h"

#include <algorithm>
#include <numeric>

#include "ir/find_node.h"
#include "ir/structural.h"

namespace tenon::rules {

using namespace tir;

namespace {

// What counts as how many operations of an instance: arithmetic is 1.
constexpr double kLoadCost = 0.5, kCallCost = 12, kDivisionCost = 4;
/// Panels of a symbolic iterator, where a range is needed.
constexpr int64_t kManyPanels = 1 << 20;
/// Steps of the innermost axis of a sum, over which the pointers of rows across an image pay.
constexpr int64_t kPlaneChannels = 8;

/// Elements from one dimension to the next one out.
int64_t times(int64_t step, const PrimExpr& size) {
  const auto n = as_int(size);
  return !n || step >= kIrregular ? kIrregular : std::min(kIrregular, step * std::max<int64_t>(1, *n));
}
/// stride + c · step.
int64_t plus(int64_t stride, int64_t c, int64_t step) {
  if (stride == kIrregular) return kIrregular;
  return step >= kIrregular || std::abs(c) >= kIrregular / step ? kIrregular : stride + c * step;
}

/// Finds strides that no dimension shows by itself: the indices of a reshape are digits of one number, and
/// the address is that number again.
void find_strides_of_address(const Buffer& b, const Array<PrimExpr>& indices, const std::vector<VarRef>& vars,
                             std::vector<int64_t>& strides, Analyzer& a) {
  if (!b->strides.empty()) return;
  PrimExpr address(0);
  int64_t step = 1;
  for (size_t d = indices.size(); d-- > 0; step = times(step, b->shape[d])) {
    if (step >= kIrregular) return;
    address = address + cast(i64, indices[d]) * PrimExpr(step);
  }
  address = a.simplify(address);
  for (size_t i = 0; i < vars.size(); ++i) {
    if (strides[i] != kIrregular) continue;
    const auto alone = affine_form(address, {vars[i]}, a);
    if (!alone || uses_var(alone->base, vars[i].get())) continue;
    strides[i] = 0;
    for (auto& [v, c] : alone->terms) strides[i] = plus(strides[i], c, 1);
  }
}

std::vector<int64_t> strides_of(const Buffer& b, const Array<PrimExpr>& indices,
                                const std::vector<VarRef>& vars, Analyzer& a) {
  std::vector<int64_t> out(vars.size(), 0);
  int64_t step = 1;
  for (size_t d = indices.size(); d-- > 0; step = times(step, b->shape[d])) {
    if (auto form = affine_form(indices[d], vars, a)) {
      for (auto& [v, c] : form->terms)
        for (size_t i = 0; i < vars.size(); ++i)
          if (vars[i].get() == v.get()) out[i] = plus(out[i], c, step);
      // The base may still hold iterators (a division of one).
      for (size_t i = 0; i < vars.size(); ++i)
        if (uses_var(form->base, vars[i].get())) out[i] = kIrregular;
      continue;
    }
    // Beside a division of one iterator the others may have strides.
    for (size_t i = 0; i < vars.size(); ++i) {
      if (!uses_var(indices[d], vars[i].get())) continue;
      auto alone = affine_form(indices[d], {vars[i]}, a);
      if (!alone || uses_var(alone->base, vars[i].get()))
        out[i] = kIrregular;
      else
        for (auto& [v, c] : alone->terms) out[i] = plus(out[i], c, step);
    }
  }
  if (std::ranges::find(out, kIrregular) != out.end()) find_strides_of_address(b, indices, vars, out, a);
  return out;
}

/// Widths of panels that an iterator may fall into: the constants by which the indices divide it, ascending;
/// then the whole numbers of which all that is added in front of such a division is a multiple (the second
/// half of a block, which begins in the middle of one).
std::vector<int64_t> widths_of_panels(const Array<PrimExpr>& indices, const Var* v) {
  std::vector<int64_t> divisors, parts;
  auto add = [](std::vector<int64_t>& to, int64_t width) {
    if (width > 1 && std::ranges::find(to, width) == to.end()) to.push_back(width);
  };
  auto divided = [&](const auto* d) {
    if (!d || !uses_var(d->a, v)) return;
    const auto c = as_int(d->b);
    if (!c) return;
    add(divisors, *c);
    int64_t part = *c;
    pre_order(d->a, [&](const ObjectRef& n) {
      if (const auto* added = n.as<IntImm>()) part = std::gcd(part, added->value);
      return true;
    });
    add(parts, part);
  };
  for (const PrimExpr& index : indices)
    pre_order(index, [&](const ObjectRef& n) {
      divided(n.as<FloorDiv>()), divided(n.as<FloorMod>());
      return true;
    });
  std::ranges::sort(divisors), std::ranges::sort(parts, std::greater<>());
  for (int64_t width : parts) add(divisors, width);
  return divisors;
}

/// Stride of `v` inside panels of `width`, or kIrregular.
int64_t stride_in_panel(const Access& access, const VarRef& v, int64_t width, int64_t extent, Analyzer& a) {
  VarRef outer = var(v->name + "_panel"), inner = var(v->name + "_column");
  const int64_t panels = extent == kUnknown ? kManyPanels : ceil_div(extent, width);
  a.bind(outer, range(PrimExpr(0), PrimExpr(panels)));
  a.bind(inner, range(PrimExpr(0), PrimExpr(width)));
  const VarMap split{{v.get(), PrimExpr(outer) * PrimExpr(width) + PrimExpr(inner)}};
  int64_t step = 1, stride = 0;
  for (size_t d = access.indices.size(); d-- > 0; step = times(step, access.buffer->shape[d])) {
    auto form = affine_form(a.simplify(substitute(access.indices[d], split)), {inner}, a);
    if (!form || uses_var(form->base, inner.get())) return kIrregular;
    for (auto& [x, c] : form->terms)
      if (c != 0) stride = plus(stride, c, step);
    if (stride == kIrregular) break;
  }
  return stride;
}

/// Finds the panels of iterators that no single stride describes.
void find_panels(Access& access, const std::vector<VarRef>& vars, const std::vector<int64_t>& extent,
                 Analyzer& a) {
  access.panel.assign(vars.size(), 0);
  access.panel_stride.assign(vars.size(), 0);
  for (size_t i = 0; i < vars.size(); ++i) {
    if (access.stride[i] != kIrregular) continue;
    for (int64_t width : widths_of_panels(access.indices, vars[i].get())) {
      const int64_t stride = stride_in_panel(access, vars[i], width, extent[i], a);
      if (stride == kIrregular) continue;
      access.panel[i] = width;
      access.panel_stride[i] = stride;
      break;
    }
  }
}

Access access_of(const Buffer& b, const Array<PrimExpr>& indices, const std::vector<VarRef>& vars,
                 Analyzer& a) {
  Access out{b, indices, {}, strides_of(b, indices, vars, a)};
  for (const PrimExpr& e : indices) {
    cost::Index index{{}, e.is<Var>() || is_zero(e)};
    for (size_t i = 0; i < vars.size(); ++i)
      if (uses_var(e, vars[i].get())) index.iterators.push_back(int(i));
    out.index.push_back(index);
  }
  return out;
}

/// Reads the loads, the operations and what is used outside indices off the stored value.
void read_value(Facts& f, const BufferStore& store, const std::vector<VarRef>& vars, Analyzer& a) {
  double cost = 0;
  f.in_value.assign(vars.size(), false);
  pre_order(store.value, [&](const ObjectRef& n) {
    if (const auto* l = n.as<BufferLoad>()) {
      cost += kLoadCost;
      const bool known = l->buffer.same_as(store.buffer) ||
                         std::any_of(f.loads.begin(), f.loads.end(), [&](const Access& x) {
                           return x.buffer.same_as(l->buffer) && structural_equal(x.indices, l->indices);
                         });
      if (!known) {
        f.loads.push_back(access_of(l->buffer, l->indices, vars, a));
        find_panels(f.loads.back(), vars, f.extent, a);
      }
      return false;
    }
    if (const auto* v = n.as<Var>()) {
      for (size_t i = 0; i < vars.size(); ++i)
        if (vars[i].get() == v) f.in_value[i] = true;
    } else if (const auto* c = n.as<Call>()) {
      if (c->op != "tir.ordered_term")
        cost +=
            c->op == "tir.if_then_else" || c->op == "tir.likely" || c->op == "tir.wide_term" ? 1 : kCallCost;
    } else if (n.is<Div>()) {
      cost += kDivisionCost;
    } else if (n.is<PrimExprNode>() && !n.is<IntImm>() && !n.is<FloatImm>()) {
      cost += 1;
    }
    return true;
  });
  f.cost = std::max(1.0, cost);
}

/// The number that a size is at most, when it says so; else 0.
int64_t most_of(const PrimExpr& size) {
  const auto* m = size.as<Min>();
  return m ? as_int(m->a).value_or(as_int(m->b).value_or(0)) : 0;
}

}  // namespace

bool uses_var(const PrimExpr& e, const Var* v) { return mentions(e, v); }

int64_t bits_of_sum(const BufferStore& store) {
  int64_t bits = store.buffer->dtype.bits;
  pre_order(store.value, [&](const ObjectRef& n) {
    const auto* c = n.as<Call>();
    if (c && c->op == "tir.wide_term") bits = c->args[0].dtype().bits;
    return !n.is<BufferLoad>();
  });
  return bits;
}

std::optional<Facts> facts_of(Schedule& s, BlockRV id) {
  Facts f;
  f.id = id;
  f.block = s.get(id);
  Ref<BlockRealize> r = s.realize(id);
  const auto* store = f.block->body.as<BufferStore>();
  if (!store || store->predicate || !f.block->match_buffers.empty() || !is_const_int(r->predicate, 1))
    return std::nullopt;
  std::vector<LoopRV> loops = s.get_loops(id);
  if (loops.size() != f.block->iter_vars.size()) return std::nullopt;
  std::vector<VarRef> vars;
  Analyzer a(s.given_up(), kAccessAnalysis);
  for (size_t i = 0; i < loops.size(); ++i) {
    Ref<For> l = s.get(loops[i]);
    const IterVar& v = f.block->iter_vars[i];
    // An axis of one element may have lost its loop variable, but not its loop.
    const bool still = is_zero(r->iter_values[i]) && is_one(v->dom->extent) && is_one(l->extent);
    if ((!still && r->iter_values[i].get() != l->loop_var.get()) || l->kind != ForKind::serial ||
        !is_zero(l->min))
      return std::nullopt;
    if (v->kind == IterKind::spatial)
      f.spatial.push_back(int(i));
    else if (v->kind == IterKind::reduce)
      f.reduce.push_back(int(i));
    else
      return std::nullopt;
    f.extent.push_back(as_int(v->dom->extent).value_or(kUnknown));
    f.most.push_back(most_of(v->dom->extent));
    vars.push_back(v->var);
    a.bind(v->var, v->dom, true);
  }
  f.write = access_of(store->buffer, store->indices, vars, a);
  f.write.sum_bits = bits_of_sum(*store);
  read_value(f, *store, vars, a);
  return f;
}

Facts fused(const Facts& f, const Fusion& fusion) {
  Facts g = f;
  if (!fusion.any()) return g;
  const auto begin = std::ptrdiff_t(fusion.first), end = begin + fusion.count;
  const size_t last = size_t(end) - 1;
  auto shrink = [&](auto& v, auto value) {
    v.erase(v.begin() + begin, v.begin() + end);
    v.insert(v.begin() + begin, value);
  };
  auto shrink_access = [&](Access& to, const Access& from) {
    shrink(to.stride, from.stride[last]);
    if (!to.panel.empty()) shrink(to.panel, 0), shrink(to.panel_stride, 0);
    for (cost::Index& index : to.index)
      for (int& i : index.iterators) i = fusion.after(i);
  };
  int64_t extent = 1;
  for (size_t i = size_t(begin); i <= last; ++i)
    extent = extent == kUnknown || f.extent[i] == kUnknown ? kUnknown : extent * f.extent[i];
  shrink(g.extent, extent);
  shrink(g.most, 0);
  shrink(g.in_value, false);
  shrink_access(g.write, f.write);
  for (size_t l = 0; l < g.loads.size(); ++l) {
    shrink_access(g.loads[l], f.loads[l]);
    for (size_t i = size_t(begin); i < last; ++i)
      if (!walks_as_one(f, f.loads[l], i))
        g.loads[l].stride[size_t(begin)] = kIrregular, g.plane = fusion.first;
  }
  for (std::vector<int>* list : {&g.spatial, &g.reduce}) {
    std::erase_if(*list, [&](int i) { return i > fusion.first && i <= int(last); });
    for (int& i : *list) i = fusion.after(i);
  }
  return g;
}

bool walks_as_one(const Facts& f, const Access& a, size_t i) {
  size_t j = i + 1;  // one of one step is no step for any access
  while (j + 1 < f.extent.size() && f.extent[j] == 1) ++j;
  if (a.stride[i] != kIrregular && a.stride[j] != kIrregular && f.extent[j] != kUnknown)
    return a.stride[i] == a.stride[j] * f.extent[j];
  if (a.stride[i] == 0 && a.stride[j] == 0) return true;
  if (f.block->iter_vars.size() != f.extent.size()) return false;
  // Symbolic sizes, here or further in: two dimensions next to each other, indexed by these iterators alone
  // (and such of one step).
  const IterVar &outer = f.block->iter_vars[i], &inner = f.block->iter_vars[j];
  VarMap still;
  for (size_t k = 0; k < f.extent.size(); ++k)
    if (f.extent[k] == 1) still[f.block->iter_vars[k]->var.get()] = f.block->iter_vars[k]->dom->min;
  auto alone = [&](const PrimExpr& index, const IterVar& v) {
    return index.get() == v->var.get() ||
           (!still.empty() && simplify(substitute(index, still)).get() == v->var.get());
  };
  // Rows of a window, along which the sum moves, are as far apart as those of the outer iterator.
  auto steps = [&](const PrimExpr& index) {
    const PrimExpr rest = simplify(index - outer->var);
    return std::ranges::none_of(
               f.spatial, [&](int k) { return uses_var(rest, f.block->iter_vars[size_t(k)]->var.get()); }) &&
           outer->kind == IterKind::spatial;
  };
  // One dimension that both walk is a reshape of two.
  auto run = [&](const PrimExpr& index) {
    return uses_var(index, outer->var.get()) && uses_var(index, inner->var.get()) &&
           is_zero(simplify(index - (outer->var * inner->dom->extent + inner->var)));
  };
  bool found = false;
  for (size_t d = 0; d < a.indices.size(); ++d) {
    if (!found && run(a.indices[d])) {
      found = true;
      continue;
    }
    size_t next = d + 1;
    while (next + 1 < a.indices.size() && is_one(a.buffer->shape[next])) ++next;
    if (next < a.indices.size() && (alone(a.indices[d], outer) || steps(a.indices[d])) &&
        alone(a.indices[next], inner) && structural_equal(a.buffer->shape[next], inner->dom->extent) &&
        !found) {
      found = true;
      d = next;
      continue;
    }
    if (uses_var(a.indices[d], outer->var.get()) || uses_var(a.indices[d], inner->var.get())) return false;
  }
  return found;
}

std::vector<Fusion> fusable(const Facts& f) {
  auto neighbours = [&](size_t i) {
    if (f.block->iter_vars[i]->kind != IterKind::spatial ||
        f.block->iter_vars[i + 1]->kind != IterKind::spatial)
      return false;
    if (f.extent[i] == 1 || f.extent[i + 1] == 1 || f.in_value[i] || f.in_value[i + 1] ||
        f.write.stride[i + 1] == 0)
      return false;
    return walks_as_one(f, f.write, i) && std::all_of(f.loads.begin(), f.loads.end(),
                                                      [&](const Access& l) { return walks_as_one(f, l, i); });
  };
  std::vector<Fusion> runs;
  for (size_t i = 0; i + 1 < f.extent.size(); ++i) {
    if (!neighbours(i)) continue;
    if (!runs.empty() && runs.back().first + runs.back().count == int(i) + 1)
      ++runs.back().count;
    else
      runs.push_back({int(i), 2});
  }
  return runs;
}

std::optional<Fusion> plane(const Facts& f) {
  if (f.reduce.size() < 2 || f.symbolic(f.reduce.back()) ||
      f.extent[size_t(f.reduce.back())] < kPlaneChannels)
    return std::nullopt;
  for (size_t i = f.extent.size() - 1; i-- > 0;) {
    const bool images = f.result_dim(int(i)) > 0 && f.symbolic(int(i)) && f.symbolic(int(i) + 1) &&
                        !f.in_value[i] && !f.in_value[i + 1] && walks_as_one(f, f.write, i);
    if (images && !std::ranges::all_of(f.loads, [&](const Access& l) { return walks_as_one(f, l, i); }))
      return Fusion{int(i), 2};
  }
  return std::nullopt;
}

bool is_parameter(const Schedule& s, const Buffer& b) {
  const PrimFunc f = s.function();
  for (auto [p, buffer] : f->buffer_map)
    if (buffer.same_as(b)) return true;
  return false;
}

bool writes_parameter(const Schedule& s, BlockRV b) {
  for (const BufferRegion& w : s.get(b)->writes)
    if (is_parameter(s, w->buffer)) return true;
  return false;
}

bool is_operand(const Facts& f, const Access& l) {
  return std::any_of(f.reduce.begin(), f.reduce.end(), [&](int k) { return l.stride[size_t(k)] != 0; });
}

bool shares_an_operand(const Facts& f) {
  return std::any_of(f.loads.begin(), f.loads.end(), [&](const Access& l) {
    return is_operand(f, l) && std::any_of(f.spatial.begin(), f.spatial.end(), [&](int i) {
             return f.extent[size_t(i)] != 1 && l.stride[size_t(i)] == 0;
           });
  });
}

bool plain_result(const Facts& f) {
  return f.write.all_plain() && std::all_of(f.spatial.begin(), f.spatial.end(), [&](int i) {
           return f.extent[size_t(i)] == 1 || f.result_dim(i) >= 0;
         });
}

std::optional<std::vector<int>> reads_of(const Facts& e, const Buffer& b) {
  std::optional<std::vector<int>> out;
  for (const Access& l : e.loads) {
    if (!l.buffer.same_as(b)) continue;
    if (out) return std::nullopt;
    out.emplace();
    for (size_t d = 0; d < l.indices.size(); ++d) {
      const cost::Index& index = l.index[d];
      if (!index.plain || (index.iterators.empty() && !is_zero(l.indices[d]))) return std::nullopt;
      out->push_back(index.iterators.empty() ? -1 : index.iterators[0]);
    }
  }
  return out;
}

}  // namespace tenon::rules
