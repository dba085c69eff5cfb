// SPDX-License-Identifier: Apache-2.0
#include "analysis/races.h"

#include <fmt/format.h>

#include <unordered_set>

#include "analysis/int_set.h"
#include "analysis/iter_map.h"
#include "ir/find_node.h"
#include "ir/intrinsic_table.h"
#include "ir/structural.h"

namespace tenon {

using namespace tir;

namespace {

struct Access {
  Buffer buffer;
  Array<PrimExpr> at;  ///< in terms of loops; null where vectors stand
  bool writes = false, atomic = false;
};

/// All accesses of a loop's body to memory that iterations share.
class Accesses {
 public:
  explicit Accesses(const For& loop) : loop_(loop) {}
  std::vector<Access> found;
  std::vector<std::pair<VarRef, Range>> inner;  ///< loops inside, outer ones first
  std::string opaque;                           ///< why not all accesses are known

  void stmt(const Stmt& s) {
    if (!s || !opaque.empty()) return;
    if (const auto* n = s.as<For>()) {
      value(n->min);
      value(n->extent);
      inner.emplace_back(n->loop_var, range(inlined(n->min), inlined(n->extent)));
      return stmt(n->body);
    }
    if (const auto* n = s.as<IfThenElse>()) {
      value(n->condition);
      if (!picks_one(n->condition)) stmt(n->then_case);
      return stmt(n->else_case);
    }
    if (const auto* n = s.as<LetStmt>()) {
      if (n->var->dtype.is_handle()) return give_up("a pointer is defined in the loop");
      value(n->value);
      values_[n->var.get()] = inlined(n->value);
      return stmt(n->body);
    }
    if (const auto* n = s.as<BlockRealize>()) return realize(*n);
    if (const auto* n = s.as<Allocate>()) own_.insert(n->buffer->data.get());
    if (const auto* n = s.as<AllocateConst>()) own_.insert(n->buffer->data.get());
    if (const auto* n = s.as<BufferRealize>()) own_.insert(n->buffer->data.get());
    if (s.is<ProducerStore>()) return give_up("a tensor without a buffer is written");
    if (const auto* n = s.as<BufferStore>()) {
      value(n->value);
      value(n->predicate);
      for (const PrimExpr& i : n->indices) value(i);
      return access(n->buffer, n->indices, true, false);
    }
    for (const ObjectRef& c : children(s)) {
      if (c.is<StmtNode>()) stmt(c.cast<StmtNode>());
      if (c.is<PrimExprNode>()) value(PrimExpr(c.cast<PrimExprNode>()));
    }
  }

 private:
  void give_up(std::string why) {
    if (opaque.empty()) opaque = std::move(why);
  }
  PrimExpr inlined(const PrimExpr& e) const { return values_.empty() ? e : substitute(e, values_); }
  /// Does it hold in one iteration only?
  bool picks_one(const PrimExpr& condition) const {
    if (const auto* n = condition.as<And>()) return picks_one(n->a) || picks_one(n->b);
    const auto* n = condition.as<EQ>();
    return n && n->a.get() == loop_.loop_var.get() && as_int(n->b);
  }
  void realize(const BlockRealize& n) {
    for (size_t i = 0; i < n.iter_values.size(); ++i) {
      value(n.iter_values[i]);
      values_[n.block->iter_vars[i]->var.get()] = inlined(n.iter_values[i]);
    }
    value(n.predicate);
    if (n.predicate && picks_one(n.predicate)) return;
    for (const MatchBufferRegion& m : n.block->match_buffers) match(*m);
    for (const Buffer& b : n.block->alloc_buffers) own_.insert(b->data.get());
    if (n.block->init) stmt(n.block->init);
    stmt(n.block->body);
  }
  /// An access through a match may be to any element of its region.
  void match(const MatchBufferRegionNode& m) {
    Array<PrimExpr> at;
    for (const Range& r : m.source->region) {
      value(r->min);
      const VarRef any = var("any");
      inner.emplace_back(any, range(PrimExpr(0), inlined(cast(i64, r->extent))));
      at.push_back(inlined(cast(i64, r->min)) + any);
    }
    if (own_.count(m.source->buffer->data.get()))
      own_.insert(m.buffer->data.get());
    else
      matches_[m.buffer->data.get()] = {m.source->buffer, at};
  }
  void value(const PrimExpr& e) {
    if (!e) return;
    pre_order(e, [&](const ObjectRef& o) {
      if (const auto* n = o.as<Let>()) values_[n->var.get()] = inlined(n->value);
      if (const auto* n = o.as<BufferLoad>()) access(n->buffer, n->indices, false, false);
      const auto* c = o.as<tir::Call>();
      if (!c) return !o.is<BufferNode>();
      if (c->op == "tir.prefetch") return false;
      const Intrinsic* known = find_intrinsic(c->op);
      const auto* place = c->args.empty() ? nullptr : c->args[0].as<tir::Call>();
      const auto* element =
          place && place->op == "tir.address_of" ? place->args[0].as<BufferLoad>() : nullptr;
      if (c->op.starts_with("tir.atomic_") && element) {
        access(element->buffer, element->indices, true, true);
        for (const PrimExpr& i : element->indices) value(i);
        for (size_t i = 1; i < c->args.size(); ++i) value(c->args[i]);
        return false;
      }
      if (known && known->pure && c->op != "tir.address_of") return true;
      if (c->op == "tir.assume") return true;
      give_up(fmt::format("`{}` may write anything", c->op));
      return false;
    });
  }
  void access(const Buffer& b, const Array<PrimExpr>& at, bool writes, bool atomic) {
    if (own_.count(b->data.get())) return;
    if (auto it = matches_.find(b->data.get()); it != matches_.end())
      return enter(it->second.first, it->second.second, writes, atomic);
    Array<PrimExpr> indices;
    for (const PrimExpr& i : at)
      indices.push_back(i.dtype().is_scalar() ? inlined(cast(i64, i)) : PrimExpr());
    enter(b, indices, writes, atomic);
  }
  void enter(const Buffer& b, const Array<PrimExpr>& indices, bool writes, bool atomic) {
    for (const Access& a : found)
      if (a.buffer.same_as(b) && a.writes == writes && a.atomic == atomic && same(a.at, indices)) return;
    found.push_back({b, indices, writes, atomic});
    constexpr size_t kMost = 256;
    if (found.size() > kMost) give_up(fmt::format("there are more than {} accesses", kMost));
  }
  static bool same(const Array<PrimExpr>& a, const Array<PrimExpr>& b) {
    for (size_t i = 0; i < a.size(); ++i)
      if (!a[i] || !b[i] || !structural_equal(a[i], b[i])) return false;
    return a.size() == b.size();
  }

  const For& loop_;
  VarMap values_;
  std::unordered_set<const Var*> own_;
  std::unordered_map<const Var*, std::pair<Buffer, Array<PrimExpr>>> matches_;
};

class Apart {
 public:
  Apart(const For& loop, const Accesses& all, Analyzer& analyzer)
      : loop_(loop), all_(all), analyzer_(analyzer) {
    analyzer_.bind(loop.loop_var, range(loop.min, loop.extent), true);
    for (const auto& [v, r] : all.inner) {
      analyzer_.bind(v, r, true);
      domain_[v.get()] = IntSet::of(r);
    }
  }

  /// Does some dimension, or all of them together, tell the iterations apart in these accesses?
  bool run(const std::vector<const Access*>& accesses) {
    for (size_t d = 0; d < accesses[0]->at.size(); ++d)
      if (in_steps(accesses, d)) return true;
    return by_digits(accesses);
  }

 private:
  static bool is_data(const PrimExpr& e) { return has_node<BufferLoad, ProducerLoad>(e, not_in_buffers); }
  PrimExpr next(const PrimExpr& e) const {
    return substitute(
        e, {{loop_.loop_var.get(), PrimExpr(loop_.loop_var) + PrimExpr::int_imm(1, loop_.loop_var->dtype)}});
  }
  /// Each iteration touches an interval of dimension d that lies behind that of the iteration before.
  bool in_steps(const std::vector<const Access*>& accesses, size_t d) {
    struct Ends {
      PrimExpr low, high;
    };
    std::vector<Ends> ends;
    for (const Access* a : accesses) {
      if (!a->at[d] || is_data(a->at[d])) return false;
      const IntSet s = relax(a->at[d], domain_, analyzer_);
      if (s.is_nothing() || !s.min() || !s.max()) return false;
      ends.push_back({s.min(), s.max()});
    }
    auto holds = [&](const PrimExpr& c) { return analyzer_.can_prove(c); };
    bool up = true, down = true;
    for (const Ends& x : ends) {
      up = up && holds(le(x.low, next(x.low)));
      down = down && holds(ge(x.high, next(x.high)));
      for (const Ends& y : ends) {
        up = up && holds(lt(x.high, next(y.low)));
        down = down && holds(gt(x.low, next(y.high)));
      }
      if (!up && !down) return false;
    }
    return true;
  }
  /// All accesses name their elements by the same digits of the loop's variable, and these tell it.
  bool by_digits(const std::vector<const Access*>& accesses) {
    std::vector<VarRef> inner;
    IterMap map(analyzer_), own(analyzer_);
    map.add(loop_.loop_var, loop_.min, loop_.extent);
    own.add(loop_.loop_var, loop_.min, loop_.extent);
    for (const auto& [v, r] : all_.inner) {
      // A number of digits that changes with the iteration tells nothing.
      if (depends(r->min) || depends(r->extent)) return false;
      map.add(v, r->min, r->extent);
      inner.push_back(v);
    }
    Array<PrimExpr> digits;
    for (size_t d = 0; d < accesses[0]->at.size(); ++d) {
      std::optional<IterMap::Division> first;
      bool common = true;
      for (const Access* a : accesses) {
        if (!common || !a->at[d] || is_data(a->at[d])) {
          common = false;
          break;
        }
        const auto parts = map.divide_subspace({a->at[d]}, inner);
        common = parts && (!first || (equal(first->outer, (*parts)[0].outer) &&
                                      equal(first->inner_extent, (*parts)[0].inner_extent) &&
                                      equal(first->base, (*parts)[0].base)));
        if (common && !first) first = (*parts)[0];
      }
      if (common && first) digits.push_back(first->outer);
    }
    return !digits.empty() && own.run(digits).injective;
  }
  bool depends(const PrimExpr& e) const {
    for (const VarRef& v : free_vars(e))
      if (v.same_as(loop_.loop_var) || domain_.count(v.get())) return true;
    return is_data(e);
  }
  bool equal(const PrimExpr& a, const PrimExpr& b) { return analyzer_.can_prove_equal(a, b); }

  const For& loop_;
  const Accesses& all_;
  Analyzer& analyzer_;
  std::unordered_map<const Var*, IntSet> domain_;
};

}  // namespace

std::string shared_by_iterations(const For& loop, Analyzer& analyzer) {
  if (is_one(loop.extent) || is_zero(loop.extent)) return {};
  Accesses all(loop);
  all.stmt(loop.body);
  if (!all.opaque.empty()) return all.opaque;
  Apart apart(loop, all, analyzer);
  std::unordered_set<const Var*> judged;
  for (const Access& w : all.found) {
    if (!w.writes || !judged.insert(w.buffer->data.get()).second) continue;
    std::vector<const Access*> same;
    bool atomic = true, views = false;
    for (const Access& a : all.found)
      if (a.buffer->data.same_as(w.buffer->data)) {
        same.push_back(&a);
        atomic = atomic && a.atomic;
        views = views || !a.buffer.same_as(w.buffer);
      }
    if (atomic) continue;
    if (views) return fmt::format("buffer `{}` is written through several views", w.buffer->name);
    if (!apart.run(same))
      return fmt::format("iterations may touch the same elements of buffer `{}`", w.buffer->name);
  }
  return {};
}

}  // namespace tenon
