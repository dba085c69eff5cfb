// SPDX-License-Identifier: Apache-2.0
// The requests on one stage: what can be judged from its axes alone is refused here, the rest is kept for
// `apply`.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analysis/condition.h"
#include "ir/text.h"
#include "schedule/te/data.h"
#include "schedule/tensor_intrin.h"

namespace tenon::te {

using tir::IterVar;

const Operation& Stage::op() const { return data_->stages[size_t(id_)].op; }
Array<IterVar> Stage::leaf_axes() const {
  const auto& l = data_->stages[size_t(id_)].leaves;
  return Array<IterVar>(l);
}

static std::pair<IterVar, IterVar> split_axis(StageData& s, const IterVar& axis, int64_t factor, bool parts) {
  require_loops(s, "split");
  const size_t at = leaf_at(s, axis);
  if (factor < 1)
    refuse_request(fmt::format("axis '{}' cannot be split by {}", axis->var->name, factor), where_of(s),
                   "factors are 1 or more");
  const PrimExpr extent = axis->dom->extent, other = simplify(tir::ceildiv(extent, PrimExpr(factor)));
  IterVar outer = tir::iter_var(tir::range(PrimExpr(0), parts ? PrimExpr(factor) : other),
                                axis->var->name + ".outer", axis->kind);
  IterVar inner = tir::iter_var(tir::range(PrimExpr(0), parts ? other : PrimExpr(factor)),
                                axis->var->name + ".inner", axis->kind);
  s.leaves[at] = outer;
  s.leaves.insert(s.leaves.begin() + int64_t(at) + 1, inner);
  s.relations.push_back({RelationKind::split, {axis}, {outer, inner}, factor, parts});
  return {outer, inner};
}
std::pair<IterVar, IterVar> Stage::split(const Axis& axis, int64_t factor) {
  return split_axis(data_->stages[size_t(id_)], axis, factor, false);
}
std::pair<IterVar, IterVar> Stage::split_nparts(const Axis& axis, int64_t parts) {
  return split_axis(data_->stages[size_t(id_)], axis, parts, true);
}

IterVar Stage::fuse(const std::vector<Axis>& axes) {
  StageData& s = data_->stages[size_t(id_)];
  require_loops(s, "fuse");
  if (axes.empty()) refuse_request("fuse needs at least one axis", where_of(s), "");
  const size_t at = leaf_at(s, axes[0]);
  PrimExpr extent = axes[0]->dom->extent;
  std::string name = axes[0]->var->name;
  for (size_t i = 1; i < axes.size(); ++i) {
    if (leaf_at(s, axes[i]) != at + i)
      refuse_request(
          fmt::format("axis '{}' does not follow axis '{}'", axes[i]->var->name, axes[i - 1]->var->name),
          where_of(s), "give neighbouring loops, outermost first; reorder brings them together");
    if (axes[i]->kind != axes[0]->kind)
      refuse_request(fmt::format("axis '{}' and axis '{}' are of two kinds, spatial and reduction",
                                 axes[0]->var->name, axes[i]->var->name),
                     where_of(s), "fuse loops of one kind");
    extent = extent * axes[i]->dom->extent;
    name += "." + axes[i]->var->name;
  }
  IterVar fused = tir::iter_var(tir::range(PrimExpr(0), simplify(extent)), name + ".fused", axes[0]->kind);
  s.leaves.erase(s.leaves.begin() + int64_t(at), s.leaves.begin() + int64_t(at + axes.size()));
  s.leaves.insert(s.leaves.begin() + int64_t(at), fused);
  s.relations.push_back({RelationKind::fuse, axes, {fused}, 0, false});
  return fused;
}

Stage& Stage::reorder(const std::vector<Axis>& axes) {
  StageData& s = data_->stages[size_t(id_)];
  require_loops(s, "reorder");
  std::vector<size_t> places;
  for (const IterVar& v : axes) {
    const size_t at = leaf_at(s, v);
    if (std::find(places.begin(), places.end(), at) != places.end())
      refuse_request(fmt::format("axis '{}' is given twice", v->var->name), where_of(s),
                     "give each axis once");
    places.push_back(at);
  }
  std::sort(places.begin(), places.end());
  for (size_t i = 0; i < axes.size(); ++i) s.leaves[places[i]] = axes[i];
  s.relations.push_back({RelationKind::reorder, axes, {}, 0, false});
  return *this;
}

std::array<IterVar, 4> Stage::tile(const Axis& x, const Axis& y, int64_t x_factor, int64_t y_factor) {
  auto [xo, xi] = split(x, x_factor);
  auto [yo, yi] = split(y, y_factor);
  reorder({xo, yo, xi, yi});
  return {xo, yo, xi, yi};
}

static std::string_view to_string(LoopRequestKind kind) {
  static constexpr std::string_view names[] = {"parallel", "vectorize", "unroll", "bind", "annotate"};
  return names[size_t(kind)];
}
static void loop_request(StageData& s, LoopRequest r) {
  require_loops(s, to_string(r.kind));
  leaf_at(s, r.axis);
  if (r.kind != LoopRequestKind::annotate)
    for (const LoopRequest& other : s.loops)
      if (other.kind != LoopRequestKind::annotate && other.axis.same_as(r.axis))
        refuse_request(fmt::format("axis '{}' is asked to {} and to {}", r.axis->var->name,
                                   to_string(other.kind), to_string(r.kind)),
                       where_of(s), "one kind for each loop");
  s.loops.push_back(std::move(r));
}
Stage& Stage::parallel(const Axis& axis) {
  loop_request(data_->stages[size_t(id_)], {LoopRequestKind::parallel, axis, {}, {}, {}});
  return *this;
}
Stage& Stage::vectorize(const Axis& axis) {
  loop_request(data_->stages[size_t(id_)], {LoopRequestKind::vectorize, axis, {}, {}, {}});
  return *this;
}
Stage& Stage::unroll(const Axis& axis) {
  loop_request(data_->stages[size_t(id_)], {LoopRequestKind::unroll, axis, {}, {}, {}});
  return *this;
}
Stage& Stage::bind(const Axis& axis, const Axis& thread) {
  StageData& s = data_->stages[size_t(id_)];
  if (!thread || thread->thread_tag.empty())
    refuse_request(fmt::format("axis '{}' is bound to something that is no thread", axis->var->name),
                   where_of(s), "make one with te::thread_axis");
  loop_request(s, {LoopRequestKind::bind, axis, thread, {}, {}});
  return *this;
}
Stage& Stage::pragma(const Axis& axis, const std::string& key, Any value) {
  loop_request(data_->stages[size_t(id_)],
               {LoopRequestKind::annotate, axis, {}, "pragma_" + key, std::move(value)});
  return *this;
}
Stage& Stage::prefetch(const Tensor& tensor, const Axis& axis, int64_t offset) {
  StageData& s = data_->stages[size_t(id_)];
  if (offset < 1)
    refuse_request(fmt::format("'{}' is to be fetched {} iterations ahead", tensor->name, offset),
                   where_of(s), "1 or more");
  LoopRequest r{LoopRequestKind::annotate, axis, {}, "prefetch", Any(offset)};
  r.tensor = tensor;
  loop_request(s, std::move(r));
  return *this;
}
Stage& Stage::tensorize(const Axis& axis, const std::string& intrin) {
  StageData& s = data_->stages[size_t(id_)];
  require_loops(s, "tensorize");
  leaf_at(s, axis);
  if (!find_tensor_intrin(intrin))
    refuse_request(fmt::format("there is no intrinsic '{}'", intrin), where_of(s),
                   "te::decl_tensor_intrin or register_tensor_intrin makes one known");
  s.tensorize.emplace_back(axis, intrin);
  return *this;
}

Stage& Stage::compute_at(const Stage& parent, const Axis& axis) {
  StageData& s = data_->stages[size_t(id_)];
  if (parent.data_ != data_) refuse_request("the parent belongs to another schedule", where_of(s), "");
  if (parent.id_ == id_) refuse_request("a stage cannot be computed at its own loops", where_of(s), "");
  const StageData& p = data_->stages[size_t(parent.id_)];
  if (p.is_group) refuse_request("a group has no loops", where_of(s), "give a stage");
  leaf_at(p, axis);
  if (!s.is_group) require_operation(s, "move");
  const std::vector<int> members = s.is_group ? s.group : std::vector<int>{id_};
  for (int m : members) {
    StageData& x = data_->stages[size_t(m)];
    if (x.attach != Attach::root && s.is_group) continue;  // has a place of its own
    x.attach = Attach::at;
    x.at_stage = parent.id_;
    x.at_axis = axis;
  }
  return *this;
}
Stage& Stage::compute_inline() {
  StageData& s = data_->stages[size_t(id_)];
  require_operation(s, "be inlined");
  if (!s.relations.empty() || !s.loops.empty())
    refuse_request("its loops were changed, and an inlined stage has none", where_of(s),
                   "inline without touching its axes");
  s.attach = Attach::inlined;
  return *this;
}
Stage& Stage::compute_root() {
  StageData& s = data_->stages[size_t(id_)];
  for (int m : s.is_group ? s.group : std::vector<int>{id_}) {
    data_->stages[size_t(m)].attach = Attach::root;
    data_->stages[size_t(m)].at_stage = -1;
  }
  return *this;
}

Stage& Stage::set_scope(const std::string& scope) {
  StageData& s = data_->stages[size_t(id_)];
  require_operation(s, "live in a scope");
  s.block.push_back({BlockRequestKind::set_scope, scope, {}});
  return *this;
}
Stage& Stage::storage_align(const Axis& axis, int64_t factor, int64_t offset) {
  StageData& s = data_->stages[size_t(id_)];
  require_loops(s, "align");
  int64_t dim = -1;
  for (size_t i = 0; i < s.op->axis.size(); ++i)
    if (s.op->axis[i].same_as(axis)) dim = int64_t(i);
  if (dim < 0)
    refuse_request(fmt::format("axis '{}' is no dimension of its result", axis->var->name), where_of(s),
                   "give one of its own axes, before any split");
  s.block.push_back({BlockRequestKind::storage_align, {}, {dim, factor, offset}});
  return *this;
}
Stage& Stage::double_buffer() {
  StageData& s = data_->stages[size_t(id_)];
  require_operation(s, "be buffered twice");
  s.block.push_back({BlockRequestKind::double_buffer, {}, {}});
  return *this;
}
Stage& Stage::rolling_buffer() {
  StageData& s = data_->stages[size_t(id_)];
  require_loops(s, "roll");
  if (s.attach != Attach::at)
    refuse_request("a rolling buffer belongs to a stage inside a loop of its consumer", where_of(s),
                   "compute_at first");
  s.block.push_back({BlockRequestKind::rolling_buffer, {}, {}});
  return *this;
}
Array<IterVar> Stage::transform_layout(std::function<Array<PrimExpr>(const Array<tir::VarRef>&)> map) {
  StageData& s = data_->stages[size_t(id_)];
  require_loops(s, "lay out anew");
  if (s.op->kind != OperationKind::compute)
    refuse_request("only computes are laid out anew", where_of(s), "");
  if (changed(s))
    refuse_request("transform_layout comes after its loops were changed", where_of(s), "transform first");
  const int rank = int(s.op->axis.size());
  IndexMap buffers = index_map(rank, map);
  Array<PrimExpr> extents;
  for (const IterVar& v : s.op->axis) extents.push_back(v->dom->extent);
  Analyzer a;
  auto shape = map_shape(buffers, extents, a);
  if (!shape)
    refuse_request(fmt::format("{} is no map of digits of the indices", to_text(buffers)), where_of(s),
                   "outputs are sums of digits: i // c, i % c, i * c + j");
  // Loops follow; those of a reduction stay as they are, innermost.
  IndexMap loops = index_map(rank + int(s.op->reduce_axis.size()), [&](const Array<tir::VarRef>& v) {
    Array<tir::VarRef> own;
    for (int i = 0; i < rank; ++i) own.push_back(v[size_t(i)]);
    Array<PrimExpr> out = map(own);
    for (size_t i = size_t(rank); i < v.size(); ++i) out.push_back(v[i]);
    return out;
  });
  Array<IterVar> axes = fresh_axes(*shape, ".t");
  Operation op = shell(s.op->name, s.op->shape, s.op->dtype, axes, s.op->reduce_axis);
  op.edit()->inputs = s.op->inputs;
  s.op = op;
  reset_axes(s);
  data_->key(op, id_);
  Change c;
  c.kind = ChangeKind::transform_layout;
  c.stage = id_;
  c.buffer_map = buffers;
  c.block_map = loops;
  data_->changes.push_back(c);
  return axes;
}
Stage& Stage::set_axis_separators(const std::vector<int64_t>& separators) {
  StageData& s = data_->stages[size_t(id_)];
  require_operation(s, "have its dimensions separated");
  s.block.push_back({BlockRequestKind::set_axis_separators, {}, separators});
  return *this;
}
Stage& Stage::env_threads(const std::vector<Axis>& threads) {
  StageData& s = data_->stages[size_t(id_)];
  if (s.is_group || s.op->kind != OperationKind::scan)
    refuse_request("only a scan has threads around its steps", where_of(s),
                   "bind the axes of other stages to threads");
  for (const IterVar& v : threads)
    if (!v || v->thread_tag.empty())
      refuse_request("one of the threads is none", where_of(s), "make one with te::thread_axis");
  s.env = threads;
  return *this;
}
Stage& Stage::set_store_predicate(const PrimExpr& condition) {
  StageData& s = data_->stages[size_t(id_)];
  require_loops(s, "store on a condition");
  // Each part of the condition names one thread, that some axis is bound to.
  s.guards.clear();
  std::map<const tir::Var*, std::pair<IterVar, std::vector<PrimExpr>>> of;
  for (const PrimExpr& part : conjuncts(condition)) {
    const std::vector<tir::VarRef> vars = tir::free_vars(part);
    IterVar thread;
    for (const StageData& x : data_->stages)
      for (const LoopRequest& r : x.loops)
        if (r.thread && vars.size() == 1 && r.thread->var.same_as(vars[0])) thread = r.thread;
    if (!thread)
      refuse_request(fmt::format("{} is no condition on one thread that some axis is bound to", print(part)),
                     where_of(s),
                     "of threads that compute the same value one may store it: thread == 0, several of them "
                     "joined by 'and'");
    auto& [t, conditions] = of[vars[0].get()];
    t = thread;
    conditions.push_back(part);
    if (std::none_of(s.guards.begin(), s.guards.end(),
                     [&](const auto& g) { return g.first.same_as(thread); }))
      s.guards.emplace_back(thread, 0);
  }
  // All of a thread's values compute the same: of those that the condition admits the first stores.
  for (auto& [thread, which] : s.guards) {
    const auto extent = tir::as_int(thread->dom->extent);
    const auto& conditions = of.at(thread->var.get()).second;
    int64_t value = 0;
    const int64_t end = extent && *extent > 0 ? *extent : 1024;
    auto holds = [&](const PrimExpr& c) {
      return tir::is_const_int(simplify(tir::substitute(c, {{thread->var.get(), PrimExpr(value)}})), 1);
    };
    while (value < end && !std::all_of(conditions.begin(), conditions.end(), holds)) ++value;
    if (value == end) {
      s.guards.clear();
      refuse_request(fmt::format("no thread of '{}' fulfils {}", thread->thread_tag, print(condition)),
                     where_of(s), "its elements would never be stored");
    }
    which = value;
  }
  return *this;
}

}  // namespace tenon::te
