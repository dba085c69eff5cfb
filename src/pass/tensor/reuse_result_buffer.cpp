// SPDX-License-Identifier: Apache-2.0
// reuse_result_buffer
//   before: for i: E = alloc((64, n)); for k: E[i, k] = exp(x[i, k]); …; for k: y[i, k] = E[i, k] * s[i]
//   after:  for i: for k: y[i, k] = exp(x[i, k]); …; for k: y[i, k] = y[i, k] * s[i]
// A local tensor lies in the memory of the result that is made of it, element by element, in the last
// statement that touches it: caches and memory hold one tensor instead of two. The result is read nowhere and
// stored in one place, which reaches each element of a part once in each run of the block; all other accesses
// to the local tensor stay in that part. Tensors that the target's first cache holds stay as they are.
// Needs: opaque blocks, parameters that do not share memory ("tir.noalias"). Keeps: loops, values of results.
#include <algorithm>

#include "analysis/condition.h"
#include "analysis/cost/cache.h"
#include "analysis/iter_map.h"
#include "analysis/program_target.h"
#include "ir/program_results.h"
#include "ir/structural.h"
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;

namespace {

/// Memory that is its variable's only, with a plain layout.
bool is_plain(const Buffer& b, const ObjectRef& body) {
  if (!b->strides.empty() || b->elem_offset || !b->axis_separators.empty()) return false;
  return !any_node(body, [&](const ObjectRef& n) {
    if (const auto* other = n.as<BufferNode>()) return other != b.get() && other->data.same_as(b->data);
    const auto* c = n.as<Call>();  // its address, or the variable itself, is given away
    return c && std::any_of(c->args.begin(), c->args.end(), [&](const PrimExpr& a) {
             const auto* l = a.as<BufferLoad>();
             return a.same_as(b->data) || (l && l->buffer.same_as(b) && c->op == "tir.address_of");
           });
  });
}

struct Accesses {
  std::vector<const BufferLoad*> loads;
  std::vector<const BufferStore*> stores;
};
Accesses accesses(const ObjectRef& root, const Buffer& b) {
  Accesses out;
  pre_order(root, [&](const ObjectRef& n) {
    if (const auto* l = n.as<BufferLoad>(); l && l->buffer.same_as(b)) out.loads.push_back(l);
    if (const auto* s = n.as<BufferStore>(); s && s->buffer.same_as(b)) out.stores.push_back(s);
    return not_in_buffers(n);
  });
  return out;
}

/// A store, and what stands around it below a statement.
struct Place {
  const BufferStore* store = nullptr;
  std::vector<const For*> loops;
  std::vector<PrimExpr> conditions;
};
/// Null where something else than loops, blocks and conditions stands around it.
std::optional<Place> place_of(const BufferStore* store, Stmt s) {
  Place out;
  while (s.get() != store) {
    if (const auto* n = s.as<For>()) {
      out.loops.push_back(n);
      s = n->body;
    } else if (const auto* n = s.as<BlockRealize>()) {
      if (n->block->init) return std::nullopt;
      for (const PrimExpr& c : conjuncts(n->predicate)) out.conditions.push_back(c);
      s = n->block->body;
    } else if (const auto* n = s.as<IfThenElse>(); n && !n->else_case) {
      for (const PrimExpr& c : conjuncts(n->condition)) out.conditions.push_back(c);
      s = n->then_case;
    } else if (const auto* n = s.as<SeqStmt>()) {
      const auto in =
          std::find_if(n->seq.begin(), n->seq.end(), [&](const Stmt& x) { return mentions(x, store); });
      if (in == n->seq.end()) return std::nullopt;
      s = *in;
    } else {
      return std::nullopt;
    }
  }
  out.store = store;
  return out;
}

/// The part of a tensor that stores reach, each element once: along some dimensions one index, which loops
/// around tell, along the others all of them.
struct Part {
  std::vector<PrimExpr> points;  ///< null: the whole dimension
};
std::optional<Part> part_of(const Place& place, Analyzer& analyzer) {
  if (place.store->predicate) return std::nullopt;
  const Buffer& b = place.store->buffer;
  IterMap map(analyzer);
  PrimExpr runs(int64_t(1)), reached(int64_t(1));
  std::unordered_set<const Var*> inner;
  for (const For* l : place.loops) {
    map.add(l->loop_var, l->min, l->extent);
    inner.insert(l->loop_var.get());
    runs = runs * l->extent;
  }
  if (!map.run(place.store->indices).injective) return std::nullopt;
  Part out;
  size_t cuts = 0;  // conditions that keep an index inside of the tensor
  for (size_t d = 0; d < b->shape.size(); ++d) {
    const PrimExpr& index = place.store->indices[d];
    if (!mentions_any(index, inner)) {
      out.points.push_back(index);
      continue;
    }
    const PrimExpr end = map.end_of(index);
    if (!end || !analyzer.can_prove(ge(end, b->shape[d]))) return std::nullopt;
    reached = reached * end;
    const PrimExpr inside = lt(index, b->shape[d]);
    cuts += size_t(std::ranges::count_if(place.conditions,
                                         [&](const PrimExpr& c) { return structural_equal(c, inside); }));
    out.points.emplace_back();
  }
  // As many stores as elements, all apart: each is reached. What conditions leave out lies outside.
  if (cuts != place.conditions.size() || !analyzer.can_prove(eq(runs, reached))) return std::nullopt;
  return out;
}

class Reuse : public tensor_detail::Rewriter {
 public:
  Reuse(const PrimFunc& f, Target target, GivenUpProofs& given_up)
      : function_(f), target_(std::move(target)), analyzer_(given_up, "reuse_result_buffer") {
    for (const VarRef& v : tensor_detail::sizes_of(f)) analyzer_.assume_size(v, 0);
    const auto outputs = size_t(num_outputs(f));
    std::vector<Buffer> tensors;
    for (const VarRef& p : f->params)
      if (const auto b = f->buffer_map.find(p)) tensors.push_back(*b);
    for (size_t i = tensors.size() - std::min(outputs, tensors.size()); i < tensors.size(); ++i) {
      const Accesses all = accesses(f->body, tensors[i]);
      if (all.loads.empty() && all.stores.size() == 1 && is_plain(tensors[i], f->body))
        results_.emplace_back(tensors[i], all.stores[0]);
    }
  }
  bool any() const { return !results_.empty(); }

  Stmt stmt(const Stmt& s) override {
    if (const auto* n = s.as<For>()) analyzer_.bind(n->loop_var, range(n->min, n->extent));
    const auto* block = s.as<Block>();
    const auto* all = block ? block->body.as<SeqStmt>() : nullptr;
    if (!all || block->alloc_buffers.empty()) return below(s);
    BufferMap moved;
    Array<Buffer> kept;
    for (const Buffer& b : block->alloc_buffers)
      if (const Buffer result = result_for(b, all->seq))
        moved[b.get()] = result;
      else
        kept.push_back(b);
    if (moved.empty()) return below(s);
    return below(tensor_detail::edited<Block>(s, [&](Block* b) {
      b->alloc_buffers = kept;
      b->body = replace_buffers(b->body, moved);
      Ref<Block> now(b);
      const AccessRegions touched = detect_access_regions(now);
      b->reads = touched.reads;
      b->writes = touched.writes;
    }));
  }

 private:
  /// The result whose memory the local tensor may take; null: none. Each is given once.
  Buffer result_for(const Buffer& local, const Array<Stmt>& statements) {
    if (!local->scope.empty() && local->scope != "global") return {};
    for (auto r = results_.begin(); r != results_.end(); ++r) {
      const Buffer result = r->first;
      if (local->dtype != result->dtype || !structural_equal(local->shape, result->shape)) continue;
      if (!is_plain(local, function_->body) || !may_take(local, r->second, statements)) continue;
      results_.erase(r);
      return result;
    }
    return {};
  }
  bool may_take(const Buffer& local, const BufferStore* store, const Array<Stmt>& statements) {
    size_t last = statements.size();
    while (last > 0 && !mentions(statements[last - 1], local.get())) --last;
    if (last-- < 2) return false;
    const auto place = mentions(statements[last], store) ? place_of(store, statements[last]) : std::nullopt;
    const auto part = place ? part_of(*place, analyzer_) : std::nullopt;
    if (!part || !pays(*part, local)) return false;
    const Accesses at_end = accesses(statements[last], local), in_store = accesses(store->value, local);
    if (!at_end.stores.empty() || at_end.loads.size() != in_store.loads.size()) return false;
    const auto same_element = [&](const BufferLoad* l) {
      return !l->predicate && structural_equal(l->indices, store->indices);
    };
    const auto in_part = [&](const auto* access) {
      for (size_t d = 0; d < part->points.size(); ++d)
        if (part->points[d] && !analyzer_.can_prove(eq(access->indices[d], part->points[d]))) return false;
      return true;
    };
    if (!std::ranges::all_of(in_store.loads, same_element)) return false;
    for (size_t i = 0; i < last; ++i) {
      const Accesses before = accesses(statements[i], local);
      if (!std::ranges::all_of(before.loads, in_part) || !std::ranges::all_of(before.stores, in_part))
        return false;
    }
    return true;
  }
  /// Of a part of unknown size it is taken for granted: memory of that size is asked for when it runs.
  bool pays(const Part& part, const Buffer& b) const {
    int64_t bytes = b->dtype.bytes();
    for (size_t d = 0; d < part.points.size(); ++d) {
      if (part.points[d]) continue;
      const auto n = as_int(b->shape[d]);
      if (!n) return true;
      bytes *= *n;
    }
    return !target_ || cost::leaves_first_cache(bytes, target_);
  }

  const PrimFunc& function_;
  const Target target_;
  Analyzer analyzer_;
  std::vector<std::pair<Buffer, const BufferStore*>> results_;
};

}  // namespace

static IRModule reuse_result_buffer(IRModule module, PassContext& context) {
  const Target target = context.target.cast<TargetNode>();
  return tensor_detail::map_bodies(
      module, context, [&](const std::string&, const PrimFunc& f, GivenUpProofs& given_up) -> Stmt {
        const auto apart = f->attrs.find("tir.noalias");
        if (!apart || !apart->try_as<bool>().value_or(false)) return {};
        Reuse reuse(f, target ? program_target(*f, target) : target, given_up);
        return reuse.any() ? reuse.stmt(f->body) : Stmt();
      });
}

const Pass& reuse_result_buffer_pass = register_pass({
    .name = "reuse_result_buffer",
    .run = reuse_result_buffer,
    .level = 1,
    .summary = "local tensors of which a result is made lie in its memory",
    .needs = {"convert_blocks_to_opaque"},
});

}  // namespace tenon
