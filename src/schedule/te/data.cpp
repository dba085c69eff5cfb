// SPDX-License-Identifier: Apache-2.0
// What requests on schedules and on stages share: axes of a stage, and what can be judged from them alone.
#include "schedule/te/data.h"

#include <fmt/format.h>

namespace tenon::te {

using tir::IterVar;

void refuse_request(const std::string& why, const std::string& where, const std::string& hint) {
  throw ScheduleError(ErrorKind::model, "T0795", why, where, hint);
}

std::string where_of(const StageData& s) { return fmt::format("stage '{}'", s.name); }

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

}  // namespace tenon::te
