// SPDX-License-Identifier: Apache-2.0
#include "analysis/shared_axes.h"

#include <algorithm>

#include "ir/find_node.h"
#include "ir/structural.h"

namespace tenon {

using namespace tir;

namespace {

/// Iterators of stages and dimensions of private buffers as one set of places; those that an index joins are
/// one axis.
class Places {
 public:
  size_t add(const PrimExpr& extent) {
    parent_.push_back(parent_.size());
    extent_.push_back(extent);
    broken_.push_back(false);
    return parent_.size() - 1;
  }
  size_t axis(size_t place) const {
    while (parent_[place] != place) place = parent_[place];
    return place;
  }
  void join(size_t a, size_t b) {
    a = axis(a), b = axis(b);
    broken_[a] = broken_[a] || broken_[b] || !structural_equal(extent_[a], extent_[b]);
    parent_[b] = a;
  }
  void break_axis(size_t place) { broken_[axis(place)] = true; }
  bool whole(size_t place) const { return !broken_[axis(place)]; }
  const PrimExpr& extent(size_t place) const { return extent_[place]; }

 private:
  std::vector<size_t> parent_;
  std::vector<PrimExpr> extent_;
  std::vector<bool> broken_;
};

struct Stage {
  Ref<BlockRealize> realize;
  std::vector<size_t> place;  ///< of each iterator
};
struct Between {
  Buffer buffer;
  std::vector<size_t> place;  ///< of each dimension
};

/// The block of a nest of whole loops, one for each of its iterators; null: it is anything else.
Ref<BlockRealize> plain_nest(const Stmt& s) {
  Stmt at = s;
  std::vector<const For*> loops;
  while (const auto* l = at.as<For>()) {
    if (!is_zero(l->min) || l->kind != ForKind::serial) return {};
    loops.push_back(l);
    at = l->body;
  }
  if (!at.is<BlockRealize>()) return {};
  const Ref<BlockRealize> r = at.cast<BlockRealize>();
  const auto* store = r->block->body.as<BufferStore>();
  if (!store || store->predicate || !is_const_int(r->predicate, 1) || !r->block->match_buffers.empty() ||
      !r->block->alloc_buffers.empty() || loops.size() != r->iter_values.size())
    return {};
  for (size_t i = 0; i < loops.size(); ++i) {
    const Range& whole = r->block->iter_vars[i]->dom;
    if (r->iter_values[i].get() != loops[i]->loop_var.get() || !is_zero(whole->min) ||
        !structural_equal(loops[i]->extent, whole->extent))
      return {};
  }
  return r;
}

class Finder {
 public:
  std::optional<SharedAxes> run(const PrimFunc& f) {
    const auto* root = f->body.as<BlockRealize>();
    if (!root || !root->block->iter_vars.empty() || root->block->init ||
        !root->block->match_buffers.empty() || !read_buffers(root->block) || between_.empty() ||
        !read_stages(root->block->body))
      return std::nullopt;
    return axes();
  }

 private:
  bool read_buffers(const Ref<Block>& root) {
    for (const Buffer& b : root->alloc_buffers) {
      between_.push_back({b, {}});
      if (!b->strides.empty()) return false;
      for (const PrimExpr& size : b->shape) between_.back().place.push_back(places_.add(size));
    }
    return true;
  }

  bool read_stages(const Stmt& body) {
    const auto* seq = body.as<SeqStmt>();
    std::vector<Buffer> made;  // parameters
    for (const Stmt& s : seq ? seq->seq : Array<Stmt>{body}) {
      const Ref<BlockRealize> r = plain_nest(s);
      if (!r || mentions_any_buffer(r, made)) return false;  // results that another stage reads
      const BufferStore& store = *r->block->body.as<BufferStore>();
      if (!is_between(store.buffer)) made.push_back(store.buffer);
      stages_.push_back({r, {}});
      for (const IterVar& v : r->block->iter_vars) {
        stages_.back().place.push_back(places_.add(v->dom->extent));
        // Runs along an axis that the result does not tell apart would write over one another.
        if (v->kind != IterKind::spatial || !mentions(store.indices, v->var.get()))
          places_.break_axis(stages_.back().place.back());
      }
      read_accesses(stages_.back());
    }
    return true;
  }

  bool is_between(const Buffer& b) const {
    return std::ranges::any_of(between_, [&](const Between& x) { return x.buffer.same_as(b); });
  }
  static bool mentions_any_buffer(const Stmt& s, const std::vector<Buffer>& buffers) {
    return std::ranges::any_of(buffers, [&](const Buffer& b) { return mentions(s, b.get()); });
  }

  void read_accesses(const Stage& stage) {
    for (const Stmt& part : {stage.realize->block->body, stage.realize->block->init}) {
      if (!part) continue;
      post_order(part, [&](const ObjectRef& n) {
        if (const auto* l = n.as<BufferLoad>()) access(stage, l->buffer, l->indices);
        if (const auto* s = n.as<BufferStore>()) access(stage, s->buffer, s->indices);
      });
    }
  }

  void access(const Stage& stage, const Buffer& b, const Array<PrimExpr>& indices) {
    const auto between =
        std::ranges::find_if(between_, [&](const Between& x) { return x.buffer.same_as(b); });
    if (between == between_.end()) return;
    for (size_t d = 0; d < indices.size(); ++d) {
      const Array<IterVar>& iters = stage.realize->block->iter_vars;
      size_t plain = iters.size();
      for (size_t i = 0; i < iters.size(); ++i) {
        if (indices[d].get() == iters[i]->var.get())
          plain = i;
        else if (mentions(indices[d], iters[i]->var.get()))
          places_.break_axis(stage.place[i]);
      }
      if (plain < iters.size())
        places_.join(stage.place[plain], between->place[d]);
      else
        places_.break_axis(between->place[d]);
    }
  }

  /// Where `places` meets an axis; null: not once.
  std::optional<int> only(const std::vector<size_t>& places, size_t axis) const {
    std::optional<int> out;
    for (size_t i = 0; i < places.size(); ++i) {
      if (places_.axis(places[i]) != axis) continue;
      if (out) return std::nullopt;
      out = int(i);
    }
    return out;
  }
  bool meets(const std::vector<size_t>& places, size_t axis) const {
    return std::ranges::any_of(places, [&](size_t p) { return places_.axis(p) == axis; });
  }
  std::vector<int> of_axes(const std::vector<size_t>& places, const std::vector<size_t>& axes) const {
    std::vector<int> out;
    for (size_t axis : axes) out.push_back(only(places, axis).value_or(-1));
    return out;
  }
  double elements(const Between& b) const {
    double n = 1;
    for (size_t p : b.place) n *= likely_size(places_.extent(p));
    return n;
  }

  std::optional<SharedAxes> axes() const {
    if (stages_.empty()) return std::nullopt;
    const Between& largest =
        *std::ranges::max_element(between_, {}, [&](const Between& b) { return elements(b); });
    SharedAxes out;
    std::vector<size_t> axes;
    for (const size_t place : stages_.back().place) {
      const size_t axis = places_.axis(place);
      auto once = [&](const auto& x) { return !meets(x.place, axis) || only(x.place, axis); };
      if (is_one(places_.extent(place)) || !places_.whole(axis) || !meets(largest.place, axis) ||
          !std::ranges::all_of(stages_, once) || !std::ranges::all_of(between_, once))
        continue;
      axes.push_back(axis);
      out.extent.push_back(places_.extent(place));
    }
    if (axes.empty()) return std::nullopt;
    for (const Stage& s : stages_) out.stages.push_back({s.realize, of_axes(s.place, axes)});
    for (const Between& b : between_) out.buffers.push_back({b.buffer, of_axes(b.place, axes), elements(b)});
    return out;
  }

  Places places_;
  std::vector<Stage> stages_;
  std::vector<Between> between_;
};

bool lacks_one_in_front(const std::vector<int>& axes) {
  return std::any_of(axes.begin(), axes.end() - 1, [](int at) { return at < 0; });
}

}  // namespace

double likely_size(const PrimExpr& size) {
  constexpr double kLikely = 1024;
  const auto n = as_int(size);
  return n ? double(*n) : kLikely;
}

bool StageAxes::in_front() const { return lacks_one_in_front(iterator); }
bool PrivateBuffer::in_front() const { return lacks_one_in_front(dim); }

bool may_alias(const PrimFunc& program) {
  return !program->attrs.get_or("tir.noalias", Any(true)).try_as<bool>().value_or(true);
}

std::optional<SharedAxes> shared_axes(const PrimFunc& program) { return Finder().run(program); }

}  // namespace tenon
