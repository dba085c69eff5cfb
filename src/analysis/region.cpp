// SPDX-License-Identifier: Apache-2.0
// Regions of buffers that statements touch, boxes around them, affine forms.
#include "analysis/region.h"

#include <unordered_set>

#include "analysis/analyzer_impl.h"
#include "ir/calls_out.h"
#include "ir/find_node.h"

namespace tenon {

using namespace tir;
using analysis_detail::imm;
using analysis_detail::is_index;

namespace {

using Domain = std::unordered_map<const Var*, IntInterval>;

/// The interval of e over the domain, taken again while its ends still mention moving variables (an inner
/// loop's range may depend on an outer one). Null ends: unknown.
IntInterval relax(const PrimExpr& e, const Domain& domain, Analyzer& analyzer) {
  IntInterval r = interval_of(e, domain, analyzer);
  for (int i = 0; i < 16; ++i) {
    const bool low = r.min && mentions_any(r.min, domain, not_in_buffers),
               high = r.max && mentions_any(r.max, domain, not_in_buffers);
    if (!low && !high) return r;
    if (low) r.min = interval_of(r.min, domain, analyzer).min;
    if (high) r.max = interval_of(r.max, domain, analyzer).max;
  }
  if (r.min && mentions_any(r.min, domain, not_in_buffers)) r.min = PrimExpr();
  if (r.max && mentions_any(r.max, domain, not_in_buffers)) r.max = PrimExpr();
  return r;
}

class Detector {
 public:
  explicit Detector(Analyzer& analyzer) : analyzer_(analyzer) {}
  AccessRegions run(const Ref<Block>& block) {
    root_ = block.get();
    for (const IterVar& v : block->iter_vars) analyzer_.bind(v->var, v->dom);
    for (const IterVar& v : block->iter_vars)
      if (is_one(analyzer_.simplify(v->dom->extent))) analyzer_.assume_size(v->var, ConstBound::neg_inf);
    for (const Buffer& b : block->alloc_buffers) hide(b);
    for (const MatchBufferRegion& m : block->match_buffers) add_match(m);
    if (block->init) stmt(block->init);
    stmt(block->body);
    AccessRegions out;
    out.opaque = opaque_;
    for (auto& [b, regions] : reads_) out.reads.push_back(union_regions(regions, {}, analyzer_));
    for (auto& [b, regions] : writes_) out.writes.push_back(union_regions(regions, {}, analyzer_));
    return out;
  }

 private:
  using List = std::vector<std::pair<Buffer, std::vector<BufferRegion>>>;

  void hide(const Buffer& b) { hidden_.insert(b->data.get()); }

  void add(List& list, const Buffer& b, Array<Range> region) {
    if (hidden_.count(b->data.get())) return;
    for (auto& [known, regions] : list)
      if (known.same_as(b)) {
        regions.push_back(make<BufferRegionNode>(b, region));
        return;
      }
    list.push_back({b, {make<BufferRegionNode>(b, region)}});
  }

  static Array<Range> whole(const Buffer& b) {
    return b->shape.map([](const PrimExpr& d) { return range(imm(0), d); });
  }

  PrimExpr inlined(const PrimExpr& e) { return lets_.empty() ? e : substitute(e, lets_); }

  Range dimension(const PrimExpr& first, const PrimExpr& last, const PrimExpr& size) {
    const PrimExpr lo = analyzer_.simplify(inlined(first));
    if (first.same_as(last) && !mentions_any(lo, domain_, not_in_buffers)) {
      if (is_data(lo)) return range(imm(0), size);
      return range(lo, imm(1));
    }
    const PrimExpr hi = first.same_as(last) ? lo : analyzer_.simplify(inlined(last));
    IntInterval a = relax(lo, domain_, analyzer_);
    IntInterval b = first.same_as(last) ? a : relax(hi, domain_, analyzer_);
    PrimExpr min = a.min, max = b.max;
    if (!min || is_data(min)) min = imm(0);
    if (!max || is_data(max)) max = size - 1;
    // Accesses outside the buffer are never made (something guards them): the box ends at the buffer.
    if (!analyzer_.can_prove_ge(min, 0)) min = analyzer_.simplify(tir::max(min, imm(0)));
    if (is_index(size) && !analyzer_.can_prove(le(max, size - 1)))
      max = analyzer_.simplify(tir::min(max, size - 1));
    return range(min, analyzer_.simplify(max - min + 1));
  }
  /// An index read from memory has no place in a region.
  static bool is_data(const PrimExpr& e) {
    return any_node(e, [&](const ObjectRef& n) {
      return n.is<BufferLoad>() ||
             (n.is<Call>() && n.as<Call>()->op != "tir.if_then_else" && n.as<Call>()->op != "tir.likely");
    });
  }

  void access(List& list, const Buffer& b, const Array<PrimExpr>& indices) {
    Array<Range> region;
    for (size_t i = 0; i < indices.size(); ++i) {
      const PrimExpr& at = indices[i];
      if (at.dtype().is_scalar()) {
        if (!is_index(at)) {
          if (auto v = as_int(at))
            region.push_back(range(imm(*v), imm(1)));
          else
            region.push_back(dimension(cast(i64, at), cast(i64, at), b->shape[i]));
        } else {
          region.push_back(dimension(at, at, b->shape[i]));
        }
      } else if (const auto* r = at.as<Ramp>(); r && r->lanes > 0 && as_int(r->stride) && is_index(r->base)) {
        const int64_t reach = *as_int(r->stride) * (r->lanes - 1);
        const PrimExpr other = r->base + imm(reach);
        region.push_back(reach >= 0 ? dimension(r->base, other, b->shape[i])
                                    : dimension(other, r->base, b->shape[i]));
      } else {
        region.push_back(range(imm(0), b->shape[i]));
      }
    }
    add(list, b, region);
  }

  void expr(const PrimExpr& e) {
    if (!e) return;
    pre_order(e, [&](const ObjectRef& n) {
      if (const auto* l = n.as<BufferLoad>()) {
        access(reads_, l->buffer, l->indices);
        for (const PrimExpr& i : l->indices) expr(i);
        expr(l->predicate);
        return false;
      }
      if (const auto* c = n.as<Call>()) {
        if (c->op == "tir.prefetch") return false;  // a hint touches nothing
        const bool range = c->op == "tir.access_ptr";
        if ((c->op == "tir.address_of" || range) && c->args[0].is<BufferLoad>()) {
          // A pointer may be used for anything, one to a range as it says.
          const auto* l = c->args[0].as<BufferLoad>();
          const int64_t how = range ? as_int(c->args[3]).value_or(3) : 3;
          if (how & 1) add(reads_, l->buffer, whole(l->buffer));
          if (how & 2) add(writes_, l->buffer, whole(l->buffer));
          opaque_ = true;
          return false;
        }
        if (calls_out(c->op)) opaque_ = true;
      }
      if (const auto* l = n.as<Let>()) {
        lets_[l->var.get()] = inlined(l->value);
        return true;
      }
      return !n.is<BufferNode>();
    });
  }

  void stmt(const Stmt& s) {
    match<void>(
        s,
        [&](const For& n) {
          expr(n.min);
          expr(n.extent);
          const PrimExpr min = inlined(n.min), extent = inlined(n.extent);
          domain_[n.loop_var.get()] = {min, analyzer_.simplify(min + extent - 1)};
          analyzer_.bind(n.loop_var, range(min, extent));
          if (is_one(analyzer_.simplify(extent))) analyzer_.assume_size(n.loop_var, ConstBound::neg_inf);
          stmt(n.body);
          domain_.erase(n.loop_var.get());
        },
        [&](const While& n) {
          expr(n.condition);
          stmt(n.body);
        },
        [&](const IfThenElse& n) {
          expr(n.condition);
          stmt(n.then_case);
          if (n.else_case) stmt(n.else_case);
        },
        [&](const LetStmt& n) {
          expr(n.value);
          if (!n.var->dtype.is_handle()) lets_[n.var.get()] = inlined(n.value);
          stmt(n.body);
        },
        [&](const BlockRealize& n) {
          expr(n.predicate);
          for (const PrimExpr& v : n.iter_values) expr(v);
          for (size_t i = 0; i < n.block->iter_vars.size(); ++i)
            lets_[n.block->iter_vars[i]->var.get()] = inlined(n.iter_values[i]);
          nested(*n.block);
        },
        [&](const Block& n) { nested(n); },
        [&](const Allocate& n) {
          hide(n.buffer);
          stmt(n.body);
        },
        [&](const AllocateConst& n) {
          hide(n.buffer);
          stmt(n.body);
        },
        [&](const DeclBuffer& n) { stmt(n.body); },
        [&](const BufferRealize& n) {
          hide(n.buffer);
          stmt(n.body);
        },
        [&](const BufferStore& n) {
          expr(n.value);
          expr(n.predicate);
          for (const PrimExpr& i : n.indices) expr(i);
          access(writes_, n.buffer, n.indices);
        },
        [&](const AssertStmt& n) { expr(n.condition); }, [&](const tir::Evaluate& n) { expr(n.value); },
        [&](const SeqStmt& n) {
          for (const Stmt& t : n.seq) stmt(t);
        },
        [&](const AttrStmt& n) {
          expr(n.value);
          stmt(n.body);
        },
        [&](const StmtNode&) { opaque_ = true; });
  }

  void nested(const Block& n) {
    if (!n.match_buffers.empty() && !(n.reads.empty() && n.writes.empty())) {
      // Seen through matches everything is read and written: what the block declares is the truth.
      for (const BufferRegion& r : n.reads) declared(reads_, r);
      for (const BufferRegion& r : n.writes) declared(writes_, r);
      return;
    }
    for (const Buffer& b : n.alloc_buffers) hide(b);
    for (const MatchBufferRegion& m : n.match_buffers) add_match(m);
    if (n.init) stmt(n.init);
    stmt(n.body);
  }

  void declared(List& list, const BufferRegion& r) {
    Array<Range> region;
    for (size_t i = 0; i < r->region.size(); ++i)
      region.push_back(is_one(r->region[i]->extent)
                           ? dimension(r->region[i]->min, r->region[i]->min, r->buffer->shape[i])
                           : dimension(r->region[i]->min, r->region[i]->min + r->region[i]->extent - 1,
                                       r->buffer->shape[i]));
    add(list, r->buffer, region);
  }
  /// A matched buffer touches its source's region (taken as read and written).
  void add_match(const MatchBufferRegion& m) {
    hide(m->buffer);
    Array<Range> region;
    for (size_t i = 0; i < m->source->region.size(); ++i) {
      const Range& r = m->source->region[i];
      region.push_back(dimension(r->min, r->min + r->extent - 1, m->source->buffer->shape[i]));
    }
    add(reads_, m->source->buffer, region);
    add(writes_, m->source->buffer, region);
  }

  const Block* root_ = nullptr;
  Analyzer& analyzer_;
  Domain domain_;
  VarMap lets_;
  std::unordered_set<const Var*> hidden_;
  List reads_, writes_;
  bool opaque_ = false;
};

}  // namespace

AccessRegions detect_access_regions(const Ref<tir::Block>& block) {
  Analyzer analyzer;
  return Detector(analyzer).run(block);
}
AccessRegions detect_access_regions(const Ref<tir::Block>& block, Analyzer& analyzer) {
  return Detector(analyzer).run(block);
}

tir::BufferRegion union_regions(const std::vector<tir::BufferRegion>& regions,
                                const std::unordered_map<const tir::Var*, tir::Range>& domain,
                                Analyzer& analyzer) {
  CHECK(!regions.empty(), "union of no regions");
  Domain over;
  for (auto& [v, r] : domain) over[v] = {r->min, analyzer.simplify(r->min + r->extent - 1)};
  const Buffer& b = regions[0]->buffer;
  if (regions.size() == 1 && domain.empty()) return regions[0];
  Array<Range> out;
  for (size_t d = 0; d < regions[0]->region.size(); ++d) {
    PrimExpr low, high;  // [low, high)
    bool unknown = false;
    for (const BufferRegion& r : regions) {
      const PrimExpr first = r->region[d]->min, end = first + r->region[d]->extent;
      const IntInterval a = relax(first, over, analyzer), e = relax(end - 1, over, analyzer);
      if (!a.min || !e.max) {
        unknown = true;
        break;
      }
      const PrimExpr end_ = e.max + 1;
      low = low ? tir::min(low, a.min) : a.min;
      high = high ? tir::max(high, end_) : end_;
    }
    if (unknown) {
      out.push_back(range(imm(0), b->shape[d]));
      continue;
    }
    low = analyzer.simplify(low);
    // The extent is easiest to see end by end: min and max of several ends hide what they share.
    PrimExpr extent = analyzer.simplify(high - low);
    out.push_back(range(low, extent));
  }
  return make<BufferRegionNode>(b, out);
}

bool region_covers(const tir::BufferRegion& outer, const tir::BufferRegion& inner, Analyzer& analyzer) {
  if (!outer->buffer.same_as(inner->buffer) || outer->region.size() != inner->region.size()) return false;
  for (size_t d = 0; d < outer->region.size(); ++d) {
    const Range &o = outer->region[d], &i = inner->region[d];
    if (!analyzer.can_prove(le(o->min, i->min))) return false;
    if (!analyzer.can_prove(le(i->min + i->extent, o->min + o->extent))) return false;
  }
  return true;
}

std::optional<AffineForm> affine_form(const PrimExpr& e, const std::vector<tir::VarRef>& vars,
                                      Analyzer& analyzer) {
  AnalyzerAccess::Impl& impl = AnalyzerAccess::of(analyzer);
  if (!is_index(e)) return std::nullopt;
  const auto s = impl.parse(analyzer.simplify(e));
  Domain moving;
  for (const VarRef& v : vars) moving[v.get()] = {};
  AffineForm out;
  AnalyzerAccess::Impl::Sum base;
  base.base = s.base;
  for (const auto& t : s.terms) {
    const auto* v = t.atoms.size() == 1 ? t.atoms[0].as<Var>() : nullptr;
    if (v && moving.count(v)) {
      out.terms.emplace_back(VarRef(Ref<Var>(v)), t.coeff);
      continue;
    }
    for (const PrimExpr& a : t.atoms)
      if (mentions_any(a, moving, not_in_buffers)) return std::nullopt;
    base.terms.push_back(t);
  }
  out.base = impl.expr_of(base);
  return out;
}

}  // namespace tenon
