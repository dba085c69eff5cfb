// SPDX-License-Identifier: Apache-2.0
// compact_buffer_allocation
//   before: for i: B = alloc((64, 64)); for j: B[i * 4 + j, 0] = …
//   after:  for i: B = alloc((4, 1)); for j: B[j, 0] = …
// Strides of buffers that a block asks to align ("buffer_dim_align": write index, axis, factor, offset) are
// padded. A dimension shrinks when the box of its accesses is provably smaller. Buffers whose address escapes
// keep their shape. Needs: opaque blocks. Keeps: loops, and the values of every element that is accessed.
#include <map>

#include "analysis/condition.h"
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;

namespace {

class Compact : public tensor_detail::Rewriter {
 public:
  Compact(const Stmt& body, const std::vector<VarRef>& sizes, GivenUpProofs& given_up)
      : analyzer_(given_up, "compact_buffer_allocation") {
    for (const VarRef& v : sizes) analyzer_.assume_size(v, 0);
    pre_order(body, [&](const ObjectRef& n) {
      const auto* b = n.as<Block>();
      auto list = b ? b->annotations.find("buffer_dim_align") : nullptr;
      auto items = list ? list->try_as<Array<Any>>() : std::nullopt;
      for (const Any& item : items ? *items : Array<Any>()) {
        auto one = item.try_as<Array<Any>>();
        if (!one || one->size() != 4) continue;
        int64_t v[4];
        for (size_t i = 0; i < 4; ++i) v[i] = (*one)[i].try_as<int64_t>().value_or(-1);
        if (v[0] < 0 || size_t(v[0]) >= b->writes.size() || v[2] < 1 || v[3] < 0 || v[3] >= v[2]) continue;
        const Buffer& w = b->writes[size_t(v[0])]->buffer;
        if (v[1] >= 0 && size_t(v[1]) < w->shape.size()) aligned_[w.get()][size_t(v[1])] = {v[2], v[3]};
      }
      return n.is<StmtNode>() || n.is<ArrayObj>();
    });
  }
  Stmt stmt(const Stmt& s) override {
    if (!s) return s;
    if (const auto* n = s.as<For>()) {
      analyzer_.bind(n->loop_var, range(n->min, n->extent));
      if (tensor_detail::is_thread_loop(*n)) threads_[n->loop_var.get()] = range(n->min, n->extent);
      const Stmt r = below(s);
      threads_.erase(n->loop_var.get());
      return r;
    }
    if (const auto* n = s.as<IfThenElse>()) {
      const auto sides = visit_branches(*n, analyzer_, [&](const Stmt& x) { return stmt(x); });
      const PrimExpr c = expr(n->condition);
      return tensor_detail::edited<IfThenElse>(s, [&](IfThenElse* m) {
        m->condition = c;
        m->then_case = sides.first;
        m->else_case = sides.second;
      });
    }
    if (const auto* n = s.as<Block>()) {
      Array<Buffer> allocs;
      if (!n->alloc_buffers.empty()) {
        Ref<Block> open(n);
        open.edit()->alloc_buffers = Array<Buffer>();
        Analyzer& known = analyzer_;
        const AccessRegions regions = detect_access_regions(open, known);
        for (const Buffer& b : n->alloc_buffers)
          allocs.push_back(regions.opaque ? b : compacted(b, regions, open));
      }
      forget();
      auto moved = [&](const Array<BufferRegion>& a) {
        return a.map([&](const BufferRegion& r) {
          auto it = changes_.find(r->buffer.get());
          if (it == changes_.end()) return r;
          Array<Range> box;
          for (size_t i = 0; i < r->region.size(); ++i)
            box.push_back(range(shifted(r->region[i]->min, it->second.mins[i]), r->region[i]->extent));
          return make<BufferRegionNode>(it->second.buffer, box);
        });
      };
      const Stmt out = below(s);
      return tensor_detail::edited<Block>(out, [&](Block* b) {
        b->alloc_buffers = allocs;
        b->reads = moved(b->reads);
        b->writes = moved(b->writes);
      });
    }
    if (const auto* n = s.as<BufferStore>()) {
      const PrimExpr value = expr(n->value), predicate = expr(n->predicate);
      auto it = changes_.find(n->buffer.get());
      Array<PrimExpr> at = n->indices.map([&](const PrimExpr& e) { return expr(e); });
      return tensor_detail::edited<BufferStore>(s, [&](BufferStore* m) {
        m->value = value;
        m->predicate = predicate;
        m->indices = it == changes_.end() ? at : indices(it->second, at);
        if (it != changes_.end()) m->buffer = it->second.buffer;
      });
    }
    return below(s);
  }
  PrimExpr expr(const PrimExpr& e) override {
    if (!e) return e;
    if (const auto* n = e.as<BufferLoad>()) {
      auto it = changes_.find(n->buffer.get());
      if (it != changes_.end())
        return load(it->second.buffer,
                    indices(it->second, n->indices.map([&](const PrimExpr& i) { return expr(i); })),
                    expr(n->predicate));
    }
    return below(e);
  }

 private:
  struct Change {
    Buffer buffer;
    std::vector<PrimExpr> mins;
  };

  PrimExpr shifted(const PrimExpr& e, const PrimExpr& min) {
    return is_zero(min) ? e : e.dtype() == i64 ? analyzer_.simplify(e - min) : e - min;
  }
  Array<PrimExpr> indices(const Change& c, const Array<PrimExpr>& at) {
    Array<PrimExpr> out;
    for (size_t i = 0; i < at.size(); ++i) out.push_back(shifted(at[i], c.mins[i]));
    return out;
  }

  /// Dimension d of all accesses of b below `root` as [min, min + a number), from the indices themselves:
  /// boxes of buffers of symbolic size end at the buffer, and that hides how small they are.
  std::optional<std::pair<PrimExpr, int64_t>> plain_box(const Buffer& b, size_t d, const ObjectRef& root) {
    std::vector<VarRef> inner;
    std::unordered_map<const Var*, int64_t> extents;
    std::vector<PrimExpr> indices;
    bool ok = true;
    pre_order(root, [&](const ObjectRef& n) {
      if (const auto* l = n.as<For>()) {
        inner.push_back(l->loop_var);
        const auto extent = as_int(l->extent);
        extents[l->loop_var.get()] = extent && is_zero(l->min) ? *extent : 0;
      }
      if (const auto* l = n.as<LetStmt>()) inner.push_back(l->var);
      if (const auto* l = n.as<Let>()) inner.push_back(l->var);
      if (const auto* l = n.as<BufferLoad>(); l && l->buffer.same_as(b)) indices.push_back(l->indices[d]);
      if (const auto* st = n.as<BufferStore>(); st && st->buffer.same_as(b))
        indices.push_back(st->indices[d]);
      return !n.is<BufferNode>();
    });
    PrimExpr first;
    int64_t low = 0, high = 0;
    for (const PrimExpr& written : indices) {
      const PrimExpr index = analyzer_.simplify(written);
      const auto* lanes = index.as<Ramp>();
      const auto stride = lanes ? as_int(lanes->stride) : std::optional<int64_t>(0);
      const PrimExpr at = lanes ? lanes->base : index;
      if (at.dtype() != i64 || !stride) return std::nullopt;
      const auto form = affine_form(at, inner, analyzer_);
      if (!form) return std::nullopt;
      for (const VarRef& v : free_vars(form->base))
        for (const VarRef& i : inner) ok = ok && !v.same_as(i);
      if (!ok) return std::nullopt;
      if (!first) first = form->base;
      const auto apart = as_int(analyzer_.simplify(form->base - first));
      if (!apart) return std::nullopt;
      int64_t from = *apart, to = *apart;
      if (lanes) (*stride < 0 ? from : to) += *stride * (lanes->dtype.lanes - 1);
      for (auto& [v, c] : form->terms) {
        const int64_t extent = extents[v.get()];
        if (extent < 1 || std::abs(c) > 4096) return std::nullopt;
        (c < 0 ? from : to) += c * (extent - 1);
      }
      low = std::min(low, from), high = std::max(high, to);
    }
    if (!first || high - low > 4096) return std::nullopt;
    return std::pair{analyzer_.simplify(first + low), high - low + 1};
  }

  /// The largest region of known size along a dimension, where no two of them reach further together: what
  /// is made begins earlier than what is read at the end of an axis (compute_at, inwards). 0: not known.
  int64_t one_reach(const std::vector<BufferRegion>& regions, size_t dim) {
    int64_t most = 0;
    for (const BufferRegion& r : regions)
      most = std::max(most, as_int(analyzer_.simplify(r->region[dim]->extent)).value_or(0));
    if (most == 0) return 0;
    for (const BufferRegion& x : regions)
      for (const BufferRegion& y : regions) {
        const PrimExpr end = y->region[dim]->min + y->region[dim]->extent;
        if (!analyzer_.can_prove(le(end, x->region[dim]->min + most))) return 0;
      }
    return most;
  }

  Buffer compacted(const Buffer& b, const AccessRegions& regions, const ObjectRef& root) {
    if (!b->strides.empty() || b->elem_offset || !b->axis_separators.empty()) return b;
    std::vector<BufferRegion> all;
    for (const auto* list : {&regions.reads, &regions.writes})
      for (const BufferRegion& r : *list) {
        if (r->buffer.same_as(b))
          all.push_back(r);
        else if (r->buffer->data.same_as(b->data))
          return b;  // a second view
      }
    if (all.empty()) return b;
    // Memory of a block of threads holds what all of them touch, wherever it is allocated.
    const bool shared = b->scope.starts_with("shared") || b->scope == "warp";
    const BufferRegion box =
        union_regions(all, shared ? threads_ : std::unordered_map<const Var*, Range>(), analyzer_);
    Change c;
    Array<PrimExpr> shape;
    bool changed = false;
    for (size_t i = 0; i < b->shape.size(); ++i) {
      PrimExpr extent = analyzer_.simplify(box->region[i]->extent);
      PrimExpr min = analyzer_.simplify(box->region[i]->min);
      // A tile of a loop over tiles of symbolic number (t // n * 32 …) has no bounds, but a size.
      if (const auto known = as_int(extent); !known || (*known > 1 && is_zero(min)))
        if (auto box = plain_box(b, i, root); box && box->second < known.value_or(box->second + 1))
          min = box->first, extent = tensor_detail::imm(box->second);
      if (const int64_t reach = as_int(extent) || shared ? 0 : one_reach(all, i); reach > 0)
        extent = tensor_detail::imm(reach);
      const ConstBound top = analyzer_.bound(extent);
      if (top.max != ConstBound::pos_inf && top.max >= 0) extent = tensor_detail::imm(top.max);
      const bool smaller =
          defined_here(extent) && defined_here(min) && analyzer_.can_prove(lt(extent, b->shape[i]));
      // A constant size is worth having even when it is not provably smaller, but only for small ones.
      const bool constant =
          as_int(extent) && !as_int(b->shape[i]) && *as_int(extent) <= 4096 && defined_here(min);
      if (!smaller && !constant) {
        extent = b->shape[i];
        min = tensor_detail::imm(0);
      } else {
        changed = true;
      }
      shape.push_back(extent);
      c.mins.push_back(min);
    }
    Array<PrimExpr> strides;
    if (auto align = aligned_.find(b.get()); align != aligned_.end()) {
      std::vector<PrimExpr> s(shape.size(), tensor_detail::imm(1));
      for (size_t i = shape.size(); i-- > 0;) {
        if (i + 1 < shape.size()) s[i] = s[i + 1] * shape[i + 1];
        if (auto a = align->second.find(i); a != align->second.end()) {
          const auto [factor, offset] = a->second;
          s[i] = s[i] + floormod(tensor_detail::imm(offset) - s[i], tensor_detail::imm(factor));
          changed = true;
        }
        s[i] = analyzer_.simplify(s[i]);
      }
      strides = Array<PrimExpr>(s);
    }
    if (!changed) return b;
    c.buffer = b;
    c.buffer.edit()->shape = shape;
    c.buffer.edit()->strides = strides;
    c.buffer.edit()->data = var(b->data->name, b->data->dtype);
    changes_[b.get()] = c;
    return c.buffer;
  }
  /// No loads: an allocation's size is known before its block runs.
  static bool defined_here(const PrimExpr& e) {
    bool ok = true;
    pre_order(e, [&](const ObjectRef& n) {
      ok = ok && !n.is<BufferLoad>() && !n.is<Call>();
      return ok;
    });
    return ok;
  }

  Analyzer analyzer_;
  std::unordered_map<const Var*, Range> threads_;  ///< of the loops around
  std::unordered_map<const BufferNode*, Change> changes_;
  std::unordered_map<const BufferNode*, std::map<size_t, std::pair<int64_t, int64_t>>> aligned_;
};

}  // namespace

static IRModule compact_buffer_allocation(IRModule module, PassContext& context) {
  return tensor_detail::map_bodies(
      module, context, [](const std::string&, const PrimFunc& f, GivenUpProofs& given_up) {
        return Compact(f->body, tensor_detail::sizes_of(f), given_up).stmt(f->body);
      });
}

const Pass& compact_buffer_allocation_pass = register_pass({
    .name = "compact_buffer_allocation",
    .run = compact_buffer_allocation,
    .level = 1,
    .summary = "buffers shrink to the region that is used",
    .needs = {"convert_blocks_to_opaque"},
});

}  // namespace tenon
