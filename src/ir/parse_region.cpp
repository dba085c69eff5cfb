// SPDX-License-Identifier: Apache-2.0
// Regions of blocks whose text does not tell them: accesses relaxed over the loops inside the block, one
// region for each buffer. An index that is not affine in those loops covers its whole dimension.
#include "ir/find_node.h"
#include "ir/parse_impl.h"
#include "ir/structural.h"
#include "ir/walk.h"

namespace tenon::script {
using namespace tir;

namespace {

struct Affine {
  PrimExpr base;
  std::vector<std::pair<const Var*, int64_t>> terms;
};

class Regions {
 public:
  explicit Regions(const BlockParts& parts) {
    for (const Buffer& b : parts.alloc_buffers) local_.insert(b.get());
    for (const MatchBufferRegion& m : parts.match_buffers) matched_[m->buffer.get()] = m->source;
  }
  struct List {
    std::vector<Buffer> order;
    std::unordered_map<const BufferNode*, Array<Range>> regions;
    /// Regions but those that lie in one of `without`.
    Array<BufferRegion> take(const List* without) const {
      Array<BufferRegion> out;
      for (const Buffer& b : order)
        if (!without || !without->holds(b, regions.at(b.get())))
          out.push_back(make<BufferRegionNode>(b, regions.at(b.get())));
      return out;
    }
    bool holds(const Buffer& b, const Array<Range>& region) const {
      const auto own = regions.find(b.get());
      if (own == regions.end()) return false;
      for (size_t i = 0; i < region.size(); ++i) {
        const Range &x = own->second[i], &y = region[i];
        if (structural_equal(x, y)) continue;
        const auto a = as_int(x->min), b0 = as_int(y->min), n = as_int(x->extent), m = as_int(y->extent);
        if (!a || !b0 || !n || !m || *b0 < *a || *b0 + *m > *a + *n) return false;
      }
      return true;
    }
  };
  List reads, writes;

  void visit(const Stmt& s) {
    if (!s) return;
    match(
        s,
        [&](const For& n) {
          loads(n.min);
          loads(n.extent);
          loops_[n.loop_var.get()] = &n;
          visit(n.body);
          loops_.erase(n.loop_var.get());
        },
        [&](const While& n) {
          loads(n.condition);
          visit(n.body);
        },
        [&](const IfThenElse& n) {
          loads(n.condition);
          visit(n.then_case);
          visit(n.else_case);
        },
        [&](const LetStmt& n) {
          loads(n.value);
          visit(n.body);
        },
        [&](const Allocate& n) {
          local_.insert(n.buffer.get());
          visit(n.body);
        },
        [&](const AllocateConst& n) {
          local_.insert(n.buffer.get());
          visit(n.body);
        },
        [&](const DeclBuffer& n) {
          local_.insert(n.buffer.get());
          visit(n.body);
        },
        [&](const BufferRealize& n) {
          local_.insert(n.buffer.get());
          visit(n.body);
        },
        [&](const BufferStore& n) {
          for (const PrimExpr& i : n.indices) loads(i);
          loads(n.value);
          loads(n.predicate);
          add(writes, n.buffer, points(n.indices));
        },
        [&](const AssertStmt& n) { loads(n.condition); }, [&](const Evaluate& n) { loads(n.value); },
        [&](const SeqStmt& n) {
          for (const Stmt& x : n.seq) visit(x);
        },
        [&](const AttrStmt& n) {
          loads(n.value);
          visit(n.body);
        },
        [&](const BlockRealize& n) {
          for (const PrimExpr& v : n.iter_values) loads(v);
          loads(n.predicate);
          VarMap values;
          for (size_t i = 0; i < n.iter_values.size() && i < n.block->iter_vars.size(); ++i)
            values[n.block->iter_vars[i]->var.get()] = n.iter_values[i];
          for (bool write : {false, true})
            for (const BufferRegion& r : write ? n.block->writes : n.block->reads)
              add(write ? writes : reads, r->buffer, r->region.map([&](const Range& x) {
                return range(substitute(x->min, values), substitute(x->extent, values));
              }));
        },
        [&](const StmtNode&) {});
  }

 private:
  static Array<Range> points(const Array<PrimExpr>& indices) {
    return indices.map([](const PrimExpr& i) {
      if (const auto* r = i.as<Ramp>())
        if (is_one(r->stride) && r->lanes > 0)
          return range(r->base, PrimExpr::int_imm(r->lanes, r->base.dtype()));
      return range(i, PrimExpr::int_imm(1, i.dtype().element()));
    });
  }
  void loads(const PrimExpr& e) {
    if (!e) return;
    pre_order(e, [&](const ObjectRef& n) {
      if (const auto* l = n.as<BufferLoad>()) add(reads, l->buffer, points(l->indices));
      const auto* c = n.as<tir::Call>();
      const auto* first = c && c->op == "tir.access_ptr" ? c->args[0].as<BufferLoad>() : nullptr;
      if (!first) return true;
      // A pointer reaches what its range says, in no order that is known here.
      const Array<Range> all = first->buffer->shape.map(
          [](const PrimExpr& d) { return range(PrimExpr::int_imm(0, d.dtype()), d); });
      const int64_t how = as_int(c->args[3]).value_or(3);
      if (how & 1) add(reads, first->buffer, all);
      if (how & 2) add(writes, first->buffer, all);
      loads(c->args[1]);
      loads(c->args[2]);
      return false;
    });
  }
  std::optional<Affine> affine(const PrimExpr& e) const {
    if (const auto* v = e.as<Var>()) {
      if (loops_.count(v)) return Affine{PrimExpr::int_imm(0, e.dtype()), {{v, 1}}};
      return Affine{e, {}};
    }
    if (e.is<IntImm>()) return Affine{e, {}};
    auto scale = [](Affine a, int64_t c) {
      a.base = a.base * PrimExpr::int_imm(c, a.base.dtype());
      for (auto& t : a.terms) t.second *= c;
      return a;
    };
    auto sum = [](Affine a, Affine b, bool minus) {
      a.base = minus ? a.base - b.base : a.base + b.base;
      for (auto [v, c] : b.terms) a.terms.emplace_back(v, minus ? -c : c);
      return a;
    };
    if (const auto* n = e.as<Add>()) {
      auto a = affine(n->a), b = affine(n->b);
      if (a && b) return sum(*a, *b, false);
    }
    if (const auto* n = e.as<Sub>()) {
      auto a = affine(n->a), b = affine(n->b);
      if (a && b) return sum(*a, *b, true);
    }
    if (const auto* n = e.as<Mul>()) {
      if (auto c = as_int(n->b)) {
        if (auto a = affine(n->a)) return scale(*a, *c);
      }
      if (auto c = as_int(n->a)) {
        if (auto b = affine(n->b)) return scale(*b, *c);
      }
    }
    const bool inner = any_node(e, [&](const ObjectRef& n) {
      return (n.is<Var>() && loops_.count(n.as<Var>())) || n.is<BufferLoad>();
    });
    if (inner) return std::nullopt;
    return Affine{e, {}};
  }
  Range relaxed(const Range& r, const PrimExpr& dim) const {
    const Range whole = range(PrimExpr::int_imm(0, dim.dtype()), dim);
    if (r->min.dtype().is_vector()) return whole;
    auto a = affine(r->min);
    const bool extent_moves =
        any_node(r->extent, [&](const ObjectRef& n) { return n.is<Var>() && loops_.count(n.as<Var>()); });
    if (!a || extent_moves) return whole;
    PrimExpr min = a->base, extent = r->extent;
    for (auto [v, c] : a->terms) {
      const For* loop = loops_.at(v);
      const PrimExpr span = (loop->extent - 1) * PrimExpr::int_imm(c < 0 ? -c : c, loop->extent.dtype());
      min = min + loop->min * PrimExpr::int_imm(c, loop->min.dtype());
      if (c < 0) min = min - span;
      extent = extent + span;
    }
    return range(min, extent);
  }
  void add(List& list, const Buffer& given, const Array<Range>& region) {
    Buffer b = given;
    Array<Range> box;
    for (auto it = matched_.find(b.get()); it != matched_.end(); it = matched_.find(b.get())) {
      b = it->second->buffer;
      box = it->second->region;
    }
    if (local_.count(b.get())) return;
    if (b.same_as(given)) {
      if (region.size() != b->shape.size()) return;
      for (size_t i = 0; i < region.size(); ++i) box.push_back(relaxed(region[i], b->shape[i]));
    }
    auto [it, fresh] = list.regions.emplace(b.get(), box);
    if (fresh) {
      list.order.push_back(b);
      return;
    }
    for (size_t i = 0; i < box.size(); ++i) {
      const Range &x = it->second[i], &y = box[i];
      if (structural_equal(x, y)) continue;
      const auto a = as_int(x->min), b0 = as_int(y->min), n = as_int(x->extent), m = as_int(y->extent);
      if (a && b0 && n && m) {
        const int64_t lo = std::min(*a, *b0), hi = std::max(*a + *n, *b0 + *m);
        it->second.set(
            i, range(PrimExpr::int_imm(lo, x->min.dtype()), PrimExpr::int_imm(hi - lo, x->min.dtype())));
      } else {
        it->second.set(i, range(PrimExpr::int_imm(0, b->shape[i].dtype()), b->shape[i]));
      }
    }
  }

  std::unordered_set<const Object*> local_;
  std::unordered_map<const BufferNode*, BufferRegion> matched_;
  std::unordered_map<const Var*, const For*> loops_;
};

}  // namespace

void infer_regions(const BlockParts& parts, const Stmt& body, Array<BufferRegion>* reads,
                   Array<BufferRegion>* writes) {
  Regions r(parts);
  r.visit(parts.init);
  r.visit(body);
  *writes = r.writes.take(nullptr);
  // A reduction's own accumulator is written, not read.
  *reads = r.reads.take(parts.init ? &r.writes : nullptr);
}

}  // namespace tenon::script
