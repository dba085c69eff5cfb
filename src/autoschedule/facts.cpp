// SPDX-License-Identifier: Apache-2.0
// Facts that default rules read off a block.
#include "autoschedule/rules.h"

#include <algorithm>

#include "ir/structural.h"

namespace tenon::rules {

using namespace tir;

namespace {

bool uses_var(const PrimExpr& e, const Var* v) {
  bool found = false;
  pre_order(e, [&](const ObjectRef& n) {
    found = found || n.get() == v;
    return !found;
  });
  return found;
}

std::vector<int64_t> strides(const Buffer& b, const Array<PrimExpr>& indices, const std::vector<VarRef>& vars,
                             Analyzer& a) {
  std::vector<int64_t> out(vars.size(), 0);
  int64_t step = 1;
  for (size_t d = indices.size(); d-- > 0;) {
    auto add = [&](size_t i, int64_t c) {
      if (out[i] == kIrregular) return;
      out[i] = step >= kIrregular || std::abs(c) >= kIrregular / step ? kIrregular : out[i] + c * step;
    };
    if (auto form = affine_form(indices[d], vars, a)) {
      for (auto& [v, c] : form->terms)
        for (size_t i = 0; i < vars.size(); ++i)
          if (vars[i].get() == v.get()) add(i, c);
      // The base may still hold iterators (a division of one).
      for (size_t i = 0; i < vars.size(); ++i)
        if (uses_var(form->base, vars[i].get())) out[i] = kIrregular;
    } else {
      // Beside a division of one iterator the others may have strides.
      for (size_t i = 0; i < vars.size(); ++i) {
        if (!uses_var(indices[d], vars[i].get())) continue;
        auto alone = affine_form(indices[d], {vars[i]}, a);
        if (!alone || uses_var(alone->base, vars[i].get()))
          out[i] = kIrregular;
        else
          for (auto& [v, c] : alone->terms) add(i, c);
      }
    }
    auto size = as_int(b->shape[d]);
    step = !size || step >= kIrregular ? kIrregular
                                       : std::min<int64_t>(kIrregular, step * std::max<int64_t>(1, *size));
  }
  return out;
}

/// Finds the panels of iterators that no single stride describes.
void find_panels(Access& access, const std::vector<VarRef>& vars, const std::vector<int64_t>& extent,
                 Analyzer& a) {
  access.panel.assign(vars.size(), 0);
  access.panel_stride.assign(vars.size(), 0);
  for (size_t i = 0; i < vars.size(); ++i) {
    if (access.stride[i] != kIrregular) continue;
    std::vector<int64_t> widths;
    for (const PrimExpr& index : access.indices)
      pre_order(index, [&](const ObjectRef& n) {
        auto divided = [&](const auto* d) {
          if (!d || !uses_var(d->a, vars[i].get())) return;
          auto c = as_int(d->b);
          if (c && *c > 1 && std::find(widths.begin(), widths.end(), *c) == widths.end())
            widths.push_back(*c);
        };
        divided(n.as<FloorDiv>()), divided(n.as<FloorMod>());
        return true;
      });
    std::sort(widths.begin(), widths.end());
    for (int64_t width : widths) {
      VarRef outer = var(vars[i]->name + "_panel"), inner = var(vars[i]->name + "_column");
      const int64_t panels = extent[i] == kUnknown ? 1 << 20 : (extent[i] + width - 1) / width;
      a.bind(outer, range(PrimExpr(0), PrimExpr(panels)));
      a.bind(inner, range(PrimExpr(0), PrimExpr(width)));
      const VarMap split{{vars[i].get(), PrimExpr(outer) * PrimExpr(width) + PrimExpr(inner)}};
      int64_t step = 1, stride = 0;
      for (size_t d = access.indices.size(); d-- > 0;) {
        auto form = affine_form(a.simplify(substitute(access.indices[d], split)), {inner}, a);
        if (!form || uses_var(form->base, inner.get())) {
          stride = kIrregular;
          break;
        }
        for (auto& [v, c] : form->terms)
          stride = c != 0 && (step >= kIrregular || std::abs(c) >= kIrregular / step) ? kIrregular
                                                                                      : stride + c * step;
        if (stride == kIrregular) break;
        auto size = as_int(access.buffer->shape[d]);
        step = !size || step >= kIrregular
                   ? kIrregular
                   : std::min<int64_t>(kIrregular, step * std::max<int64_t>(1, *size));
      }
      if (stride == kIrregular) continue;
      access.panel[i] = width;
      access.panel_stride[i] = stride;
      break;
    }
  }
}

}  // namespace

int64_t Facts::instances(bool only_spatial) const {
  int64_t n = 1;
  for (size_t i = 0; i < extent.size(); ++i) {
    if (only_spatial && std::find(spatial.begin(), spatial.end(), int(i)) == spatial.end()) continue;
    if (extent[i] == kUnknown) return kUnknown;
    if (extent[i] > 0 && n > (int64_t(1) << 50) / extent[i]) return int64_t(1) << 50;
    n *= extent[i];
  }
  return n;
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
  Analyzer a;
  for (size_t i = 0; i < loops.size(); ++i) {
    Ref<For> l = s.get(loops[i]);
    const IterVar& v = f.block->iter_vars[i];
    if (r->iter_values[i].get() != l->loop_var.get() || l->kind != ForKind::serial || !is_zero(l->min))
      return std::nullopt;
    if (v->kind == IterKind::spatial)
      f.spatial.push_back(int(i));
    else if (v->kind == IterKind::reduce)
      f.reduce.push_back(int(i));
    else
      return std::nullopt;
    f.extent.push_back(as_int(v->dom->extent).value_or(kUnknown));
    vars.push_back(v->var);
    a.bind(v->var, v->dom, true);
  }
  f.write = {store->buffer, store->indices, strides(store->buffer, store->indices, vars, a)};
  f.in_value.assign(vars.size(), false);
  double cost = 0;
  pre_order(store->value, [&](const ObjectRef& n) {
    if (const auto* l = n.as<BufferLoad>()) {
      cost += 0.5;
      const bool own = l->buffer.same_as(store->buffer);
      bool known = own;
      for (const Access& x : f.loads)
        known = known || (x.buffer.same_as(l->buffer) && structural_equal(x.indices, l->indices));
      if (!known) {
        f.loads.push_back({l->buffer, l->indices, strides(l->buffer, l->indices, vars, a)});
        find_panels(f.loads.back(), vars, f.extent, a);
      }
      return false;
    }
    if (const auto* v = n.as<Var>()) {
      for (size_t i = 0; i < vars.size(); ++i)
        if (vars[i].get() == v) f.in_value[i] = true;
    } else if (const auto* c = n.as<Call>()) {
      cost += c->op == "tir.if_then_else" || c->op == "tir.likely" ? 1 : 12;
    } else if (n.is<Div>()) {
      cost += 4;
    } else if (n.is<PrimExprNode>() && !n.is<IntImm>() && !n.is<FloatImm>()) {
      cost += 1;
    }
    return true;
  });
  f.cost = std::max(1.0, cost);
  return f;
}

bool one_array(const Facts& f, const Access& a, size_t i) {
  if (a.stride[i] != kIrregular && a.stride[i + 1] != kIrregular && f.extent[i + 1] != kUnknown)
    return a.stride[i] == a.stride[i + 1] * f.extent[i + 1];
  if (a.stride[i] == 0 && a.stride[i + 1] == 0) return true;
  if (f.extent[i] != kUnknown && f.extent[i + 1] != kUnknown) return false;
  if (f.block->iter_vars.size() != f.extent.size()) return false;
  // Symbolic sizes: two dimensions next to each other, indexed by these iterators alone (and such of one
  // step).
  const IterVar &outer = f.block->iter_vars[i], &inner = f.block->iter_vars[i + 1];
  VarMap still;
  for (size_t k = 0; k < f.extent.size(); ++k)
    if (f.extent[k] == 1) still[f.block->iter_vars[k]->var.get()] = f.block->iter_vars[k]->dom->min;
  auto alone = [&](const PrimExpr& index, const IterVar& v) {
    return index.get() == v->var.get() ||
           (!still.empty() && simplify(substitute(index, still)).get() == v->var.get());
  };
  int at = -1;
  for (size_t d = 0; d < a.indices.size(); ++d) {
    if (d + 1 < a.indices.size() && alone(a.indices[d], outer) && alone(a.indices[d + 1], inner) &&
        structural_equal(a.buffer->shape[d + 1], inner->dom->extent) && at < 0) {
      at = int(d);
      ++d;
      continue;
    }
    if (uses_var(a.indices[d], outer->var.get()) || uses_var(a.indices[d], inner->var.get())) return false;
  }
  return at >= 0;
}

bool writes_parameter(const Schedule& s, BlockRV b) {
  const PrimFunc f = s.function();
  for (const BufferRegion& w : s.get(b)->writes)
    for (auto [p, buffer] : f->buffer_map)
      if (buffer.same_as(w->buffer)) return true;
  return false;
}

int64_t lanes_for(const Facts& f, const Target& target) {
  int bits = std::max<int>(8, f.write.buffer->dtype.bits);
  for (const Access& l : f.loads) bits = std::max<int>(bits, l.buffer->dtype.bits);
  int64_t lanes = std::max<int64_t>(1, target->vector_bits / bits), power = 1;
  while (power * 2 <= lanes) power *= 2;
  return power;
}

bool attempt(Schedule& s, FunctionRef<void(Schedule&)> f) {
  Schedule trial = s;
  try {
    f(trial);
  } catch (const ScheduleError&) {
    return false;
  }
  s = trial;
  return true;
}

}  // namespace tenon::rules
