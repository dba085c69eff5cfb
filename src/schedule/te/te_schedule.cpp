// SPDX-License-Identifier: Apache-2.0
// The requests on a schedule of tensor expressions: what can be judged from the axes alone is refused here,
// the rest is kept for `apply`.
#include "schedule/te/te_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "ir/text.h"
#include "schedule/te/data.h"
#include "schedule/tensor_intrin.h"

namespace tenon::te {

using tir::IterVar;

void refuse_request(const std::string& why, const std::string& where, const std::string& hint) {
  throw ScheduleError(ErrorKind::model, "T0795", why, where, hint);
}

IterVar thread_axis(const std::string& tag, PrimExpr extent) {
  auto v = make<tir::IterVarNode>(tir::range(PrimExpr(0), extent ? extent : PrimExpr(0)),
                                  tir::var(tag.substr(tag.find('.') == tag.npos ? 0 : tag.find('.') + 1)),
                                  tir::IterKind::thread_index, tag);
  return v;
}

namespace {

std::string where_of(const StageData& s) { return fmt::format("stage '{}'", s.name); }

/// The operation without what it computes: names, axes and shape.
Operation shell(const std::string& name, const Array<PrimExpr>& shape, DataType dtype, Array<IterVar> axis,
                Array<IterVar> reduce) {
  auto op = make<OperationNode>();
  OperationNode* n = op.edit();
  n->kind = OperationKind::compute;
  n->name = name;
  n->shape = shape;
  n->dtype = dtype;
  n->axis = std::move(axis);
  n->reduce_axis = std::move(reduce);
  return op;
}
Tensor tensor_of(const Operation& op, int64_t index, const Array<PrimExpr>& shape, DataType dtype,
                 const std::string& name) {
  auto t = make<TensorNode>();
  TensorNode* n = t.edit();
  n->shape = shape;
  n->dtype = dtype;
  n->name = name;
  n->op = op;
  n->index = index;
  return Tensor(t);
}
Array<IterVar> fresh_axes(const Array<PrimExpr>& shape, const std::string& suffix) {
  Array<IterVar> out;
  for (size_t d = 0; d < shape.size(); ++d)
    out.push_back(tir::iter_var(tir::range(PrimExpr(0), shape[d]), fmt::format("i{}{}", d, suffix)));
  return out;
}

void reset_axes(StageData& s) {
  s.roots.clear();
  const Operation& op = s.op;
  if (op->kind == OperationKind::scan) {
    s.roots.push_back(op->scan_axis);
  } else if (op->kind == OperationKind::compute) {
    for (const IterVar& v : op->axis) s.roots.push_back(v);
    for (const IterVar& v : op->reduce_axis) s.roots.push_back(v);
  }
  s.leaves = s.roots;
}

size_t leaf_at(const StageData& s, const IterVar& axis) {
  for (size_t i = 0; i < s.leaves.size(); ++i)
    if (s.leaves[i].same_as(axis)) return i;
  if (!axis) refuse_request("no axis is given", where_of(s), "");
  for (const Relation& r : s.relations)
    for (const IterVar& v : r.in)
      if (v.same_as(axis) && r.kind != RelationKind::reorder)
        refuse_request(fmt::format("axis '{}' was {} before", axis->var->name,
                                   r.kind == RelationKind::split ? "split" : "fused"),
                       where_of(s), "use the axes that came out of it");
  refuse_request(fmt::format("axis '{}' is none of its loops", axis->var->name), where_of(s),
                 "axes belong to one stage; cache_write and rfactor make new ones: ask the stage for them");
}
void require_operation(const StageData& s, std::string_view what) {
  if (s.is_group)
    refuse_request(fmt::format("a group cannot be told to {}", what), where_of(s),
                   "groups are placed by compute_at; schedule their members one by one");
  if (s.op->kind == OperationKind::placeholder)
    refuse_request(fmt::format("a placeholder has no loops to {}", what), where_of(s),
                   "cache_read makes a stage that copies it");
}
void require_loops(const StageData& s, std::string_view what) {
  require_operation(s, what);
  if (s.op->kind == OperationKind::external)
    refuse_request(fmt::format("the statement of an extern has no axes to {}", what), where_of(s),
                   "write its loops as they should be");
}
bool changed(const StageData& s) {
  return !s.relations.empty() || !s.loops.empty() || !s.tensorize.empty() || s.attach != Attach::root;
}

}  // namespace

// ---------------------------------------------------------------- the schedule
Schedule::Schedule(const std::vector<Operation>& outputs) : data_(std::make_shared<ScheduleData>()) {
  if (outputs.empty())
    refuse_request("a schedule needs an operation to compute", "create_schedule", "give the outputs");
  std::set<const OperationNode*> seen;
  std::vector<std::pair<Operation, size_t>> stack;
  auto push = [&](const Operation& op) {
    if (seen.insert(op.get()).second) stack.emplace_back(op, 0);
  };
  for (const Operation& out : outputs) {
    push(out);
    while (!stack.empty()) {
      auto& [op, next] = stack.back();
      if (next < op->inputs.size()) {
        const Operation input = op->inputs[next++]->op;
        push(input);
        continue;
      }
      StageData s;
      s.op = op;
      s.name = op->name;
      reset_axes(s);
      data_->order.push_back(int(data_->stages.size()));
      data_->key(op, int(data_->stages.size()));
      data_->stages.push_back(std::move(s));
      stack.pop_back();
    }
    for (const Tensor& t : out->outputs()) data_->outputs.push_back(t);
  }
  // The first dimension of what runs inside a scan is the scan's loop.
  for (const StageData& scan : data_->stages)
    if (scan.op->kind == OperationKind::scan) {
      std::set<const OperationNode*> inside;
      for (const Tensor& t : scan.op->state) inside.insert(t->op.get());
      for (StageData& s : data_->stages) {
        bool step = false;
        for (const Tensor& t : s.op->inputs) step = step || inside.count(t->op.get());
        for (const Tensor& t : scan.op->update) step = step || t->op.same_as(s.op);
        if (!step || s.op->kind != OperationKind::compute) continue;
        inside.insert(s.op.get());
        std::erase_if(s.leaves, [&](const IterVar& v) { return v.same_as(s.op->axis[0]); });
      }
    }
}

Stage Schedule::operator[](const Operation& op) const {
  auto it = data_->of.find(op.get());
  if (it == data_->of.end())
    refuse_request(fmt::format("'{}' is not computed by this schedule", op ? op->name : "null"), "schedule",
                   "create the schedule from operations that need it");
  return Stage(data_, it->second);
}
std::vector<Stage> Schedule::stages() const {
  std::vector<Stage> out;
  for (int i : data_->order)
    if (!data_->stages[size_t(i)].is_group) out.push_back(Stage(data_, i));
  return out;
}
Schedule Schedule::normalize() const { return Schedule(std::make_shared<ScheduleData>(*data_)); }

Tensor Schedule::cache_read(const Tensor& tensor, const std::string& scope,
                            const std::vector<Operation>& readers) {
  const int source = (*this)[tensor].id_;
  if (readers.empty())
    refuse_request(fmt::format("nothing is to read the copy of '{}'", tensor->name),
                   where_of(data_->stages[size_t(source)]), "name one reader or more");
  std::vector<int> all;
  for (const Operation& r : readers) {
    all.push_back((*this)[r].id_);
    require_operation(data_->stages[size_t(all.back())], "read a copy");
    if (data_->stages[size_t(all.back())].attach == Attach::at)
      refuse_request("cache_read comes after compute_at", where_of(data_->stages[size_t(all.back())]),
                     "make copies first, place stages then");
  }
  Array<IterVar> axes = fresh_axes(tensor.shape(), ".c");
  const std::string name = tensor->name + "." + scope;
  Operation op = shell(name, tensor.shape(), tensor.dtype(), axes, {});
  StageData s;
  s.op = op;
  s.name = name;
  reset_axes(s);
  const int made = int(data_->stages.size());
  data_->stages.push_back(std::move(s));
  data_->key(op, made);
  auto& order = data_->order;
  order.insert(std::find_first_of(order.begin(), order.end(), all.begin(), all.end()), made);
  Change c;
  c.kind = ChangeKind::cache_read;
  c.stage = all[0];
  c.others.assign(all.begin() + 1, all.end());
  c.made = made;
  c.tensor = tensor;
  c.scope = scope;
  data_->changes.push_back(c);
  return tensor_of(op, 0, tensor.shape(), tensor.dtype(), name);
}

Tensor Schedule::cache_write(const Tensor& tensor, const std::string& scope) {
  return cache_write(std::vector<Tensor>{tensor}, scope)[0];
}
std::vector<Tensor> Schedule::cache_write(const std::vector<Tensor>& tensors, const std::string& scope) {
  if (tensors.empty())
    refuse_request("nothing is to be cached", "cache_write", "name the results of an operation");
  const int id = (*this)[tensors[0]].id_;
  StageData& s = data_->stages[size_t(id)];
  require_operation(s, "compute into a cache");
  for (const Tensor& t : tensors)
    if ((*this)[t].id_ != id)
      refuse_request(fmt::format("'{}' and '{}' are results of two operations", tensors[0]->name, t->name),
                     where_of(s), "one call for each operation");
  if (s.op->kind != OperationKind::compute)
    refuse_request("cache_write takes the results of a compute", where_of(s),
                   "an extern and a scan write where they say; copy that by a compute of its own");
  if (changed(s))
    refuse_request("cache_write comes after its loops were changed", where_of(s),
                   "make caches first, change loops then");
  const size_t results = std::max<size_t>(1, s.op->body.size());
  if (tensors.size() != results)
    refuse_request(fmt::format("{} of its {} results are named", tensors.size(), results), where_of(s),
                   "the copy takes all results together: name each of them, once");
  for (size_t i = 0; i < tensors.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (tensors[i]->index == tensors[j]->index)
        refuse_request(fmt::format("'{}' is named twice", tensors[i]->name), where_of(s),
                       "name each result once");
  const Array<PrimExpr> shape = tensors[0].shape();
  const DataType dtype = tensors[0].dtype();
  Operation cached =
      shell(s.op->name + "." + scope, shape, dtype, fresh_axes(shape, ".c"), s.op->reduce_axis);
  Operation copy = shell(s.op->name, shape, dtype, s.op->axis, {});
  const int made = int(data_->stages.size());
  StageData n;
  n.op = cached;
  n.name = cached->name;
  reset_axes(n);
  s.op = copy;
  reset_axes(s);
  data_->stages.push_back(std::move(n));  // `s` is invalid from here on
  data_->key(cached, made);
  data_->key(copy, id);
  auto& order = data_->order;
  order.insert(std::find(order.begin(), order.end(), id), made);
  Change c;
  c.kind = ChangeKind::cache_write;
  c.stage = id;
  c.made = made;
  c.tensor = tensors[0];
  c.results = int(results);
  c.scope = scope;
  data_->changes.push_back(c);
  std::vector<Tensor> out;
  for (const Tensor& t : tensors)
    out.push_back(tensor_of(cached, t->index, t.shape(), t.dtype(), t->name + "." + scope));
  return out;
}

std::vector<Tensor> Schedule::rfactor(const Tensor& tensor, const IterVar& axis, int factor_axis) {
  const int id = (*this)[tensor].id_;
  StageData& s = data_->stages[size_t(id)];
  require_loops(s, "factor");
  leaf_at(s, axis);
  if (axis->kind != tir::IterKind::reduce)
    refuse_request(fmt::format("axis '{}' is no loop of a reduction", axis->var->name), where_of(s),
                   "give a reduction axis, or a part that split made of one");
  for (const Relation& r : s.relations)
    for (const IterVar& v : r.in)
      if (v->kind != tir::IterKind::reduce)
        refuse_request("rfactor comes after loops that are no reduction were changed", where_of(s),
                       "rfactor first");
  if (!s.loops.empty() || !s.tensorize.empty() || s.attach != Attach::root)
    refuse_request("rfactor comes after its loops got their kinds or a place", where_of(s), "rfactor first");
  const int rank = int(tensor.ndim());
  if (factor_axis < 0) factor_axis += rank + 1;
  if (factor_axis < 0 || factor_axis > rank)
    refuse_request(fmt::format("the partial results have {} dimensions", rank + 1), where_of(s),
                   fmt::format("the axis of the factor is 0 to {}", rank));
  Array<PrimExpr> shape = tensor.shape();
  shape.insert(size_t(factor_axis), axis->dom->extent);
  IterVar part = tir::iter_var(axis->dom, axis->var->name);
  Array<IterVar> spatial = fresh_axes(tensor.shape(), ".rf"), axes = spatial, rest;
  axes.insert(size_t(factor_axis), part);
  for (const IterVar& v : s.leaves)
    if (v->kind == tir::IterKind::reduce && !v.same_as(axis)) rest.push_back(v);
  const std::string name = tensor->name + ".rf";
  Operation factored = shell(name, shape, tensor.dtype(), axes, rest);
  IterVar last = tir::iter_var(axis->dom, axis->var->name + ".v", tir::IterKind::reduce);
  Operation combine = shell(s.op->name, tensor.shape(), tensor.dtype(), s.op->axis, Array<IterVar>{last});
  const std::vector<Tensor> results = s.op->body.empty() ? std::vector<Tensor>{tensor} : s.op->outputs();
  Change c;
  c.kind = ChangeKind::rfactor;
  c.stage = id;
  c.made = int(data_->stages.size());
  c.relations = s.relations;
  for (const IterVar& v : s.op->reduce_axis) c.reduce.push_back(v);
  c.axis = axis;
  c.factor_axis = factor_axis;
  StageData n;
  n.op = factored;
  n.name = name;
  reset_axes(n);
  // The block's iterators: spatial ones, the factor, the rest of the reduction.
  n.roots.clear();
  for (const IterVar& v : spatial) n.roots.push_back(v);
  n.roots.push_back(part);
  for (const IterVar& v : rest) n.roots.push_back(v);
  s.relations.clear();
  s.op = combine;
  reset_axes(s);
  data_->stages.push_back(std::move(n));
  data_->key(factored, c.made);
  data_->key(combine, id);
  auto& order = data_->order;
  order.insert(std::find(order.begin(), order.end(), id), c.made);
  data_->changes.push_back(c);
  std::vector<Tensor> out;
  for (size_t i = 0; i < results.size(); ++i)
    out.push_back(tensor_of(factored, int64_t(i), shape, results[i].dtype(), results[i]->name + ".rf"));
  return out;
}

Stage Schedule::create_group(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                             bool include_inputs) {
  std::set<int> stop, members;
  for (const Tensor& t : inputs) stop.insert((*this)[t].id_);
  std::vector<int> todo;
  for (const Tensor& t : outputs) todo.push_back((*this)[t].id_);
  while (!todo.empty()) {
    const int id = todo.back();
    todo.pop_back();
    const StageData& s = data_->stages[size_t(id)];
    if (s.op->kind == OperationKind::placeholder) continue;
    if (stop.count(id) && !include_inputs) continue;
    if (!members.insert(id).second || stop.count(id)) continue;
    for (const Tensor& t : s.op->inputs) todo.push_back((*this)[t].id_);
  }
  StageData g;
  g.is_group = true;
  for (int id : data_->order)
    if (members.count(id)) {
      g.group.push_back(id);
      g.name += (g.name.empty() ? "group of " : ", ") + data_->stages[size_t(id)].name;
    }
  if (g.group.empty())
    refuse_request("nothing lies between the inputs and the outputs of the group", "create_group",
                   "outputs are computed from inputs, which are not part of the group unless asked for");
  data_->stages.push_back(std::move(g));
  return Stage(data_, int(data_->stages.size()) - 1);
}

// ---------------------------------------------------------------- stages
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
  std::vector<PrimExpr> parts{condition};
  std::map<const tir::Var*, std::pair<IterVar, std::vector<PrimExpr>>> of;
  while (!parts.empty()) {
    const PrimExpr part = parts.back();
    parts.pop_back();
    if (const auto* both = part.as<tir::And>()) {
      parts.push_back(both->b);
      parts.push_back(both->a);
      continue;
    }
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

// ---------------------------------------------------------------- intrinsics
void decl_tensor_intrin(
    const std::string& name, const Operation& op,
    std::function<tir::Stmt(const Array<tir::Buffer>& ins, const Array<tir::Buffer>& outs)> body) {
  if (op->kind != OperationKind::compute)
    refuse_request(fmt::format("the intrinsic '{}' describes no compute", name), "decl_tensor_intrin",
                   "describe a tile by one compute over placeholders");
  Array<Tensor> args = op->inputs;
  for (const Tensor& t : op->outputs()) args.push_back(t);
  for (const Tensor& t : op->inputs)
    if (t->op->kind != OperationKind::placeholder)
      refuse_request(fmt::format("the intrinsic '{}' reads '{}', which is no placeholder", name, t->name),
                     "decl_tensor_intrin", "describe a tile by one compute over placeholders");
  tir::PrimFunc whole = create_prim_func(args);
  tir::PrimFunc description = rewrite(whole, [](const tir::Block& b) -> tir::Stmt {
    if (!b.init) return {};
    Ref<tir::Block> copy{&b};
    copy.edit()->init = tir::Stmt();  // the program's block keeps its own
    return copy;
  });
  Array<tir::VarRef> params;
  Map<tir::VarRef, tir::Buffer> map;
  Array<tir::Buffer> ins, outs;
  for (size_t i = 0; i < args.size(); ++i) {
    tir::Buffer b = tir::buffer(args[i]->name, args[i].shape(), args[i].dtype());
    params.push_back(tir::var("var_" + args[i]->name, DataType::handle()));
    map.set(params.back(), b);
    (i < op->inputs.size() ? ins : outs).push_back(b);
  }
  auto root = make<tir::Block>(Array<IterVar>(), Array<tir::BufferRegion>(), Array<tir::BufferRegion>(),
                               std::string("root"), body(ins, outs), tir::Stmt(), Array<tir::Buffer>(),
                               Array<tir::MatchBufferRegion>(), AttrMap());
  register_tensor_intrin(
      name, description,
      make<tir::PrimFuncNode>(params, map, make<tir::BlockRealize>(Array<PrimExpr>(), tir::true_(), root),
                              DataType::void_(), AttrMap()));
}

}  // namespace tenon::te
