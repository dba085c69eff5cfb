// SPDX-License-Identifier: Apache-2.0
// The requests on a schedule of tensor expressions as a whole (those on one stage: stage.cpp), and the
// declaration of intrinsics.
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

IterVar thread_axis(const std::string& tag, PrimExpr extent) {
  auto v = make<tir::IterVarNode>(tir::range(PrimExpr(0), extent ? extent : PrimExpr(0)),
                                  tir::var(tag.substr(tag.find('.') == tag.npos ? 0 : tag.find('.') + 1)),
                                  tir::IterKind::thread_index, tag);
  return v;
}

static Tensor tensor_of(const Operation& op, int64_t index, const Array<PrimExpr>& shape, DataType dtype,
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
