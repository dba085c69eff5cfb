// SPDX-License-Identifier: Apache-2.0
// Requests on schedules of tensor expressions by their identities, one at a time (scripts/mutate).
#include "identity.h"
#include "schedule/te/te_schedule.h"

namespace tenon::te {

using mutate::chosen;
using mutate::next;

std::pair<tir::IterVar, tir::IterVar> Stage::split(const Axis& axis, int64_t factor) {
  if (chosen("te:split")) return {axis, axis};
  return next(this, &Stage::split, axis, factor);
}
std::pair<tir::IterVar, tir::IterVar> Stage::split_nparts(const Axis& axis, int64_t parts) {
  if (chosen("te:split_nparts")) return {axis, axis};
  return next(this, &Stage::split_nparts, axis, parts);
}
tir::IterVar Stage::fuse(const std::vector<Axis>& axes) {
  if (chosen("te:fuse")) return axes.at(0);
  return next(this, &Stage::fuse, axes);
}
Stage& Stage::reorder(const std::vector<Axis>& axes) {
  if (chosen("te:reorder")) return *this;
  return next(this, &Stage::reorder, axes);
}
std::array<tir::IterVar, 4> Stage::tile(const Axis& x, const Axis& y, int64_t x_factor, int64_t y_factor) {
  if (chosen("te:tile")) return {x, y, x, y};
  return next(this, &Stage::tile, x, y, x_factor, y_factor);
}
Stage& Stage::parallel(const Axis& axis) {
  if (chosen("te:parallel")) return *this;
  return next(this, &Stage::parallel, axis);
}
Stage& Stage::vectorize(const Axis& axis) {
  if (chosen("te:vectorize")) return *this;
  return next(this, &Stage::vectorize, axis);
}
Stage& Stage::unroll(const Axis& axis) {
  if (chosen("te:unroll")) return *this;
  return next(this, &Stage::unroll, axis);
}
Stage& Stage::bind(const Axis& axis, const Axis& thread) {
  if (chosen("te:bind")) return *this;
  return next(this, &Stage::bind, axis, thread);
}
Stage& Stage::pragma(const Axis& axis, const std::string& key, Any value) {
  if (chosen("te:pragma")) return *this;
  return next(this, &Stage::pragma, axis, key, std::move(value));
}
Stage& Stage::prefetch(const Tensor& tensor, const Axis& axis, int64_t offset) {
  if (chosen("te:prefetch")) return *this;
  return next(this, &Stage::prefetch, tensor, axis, offset);
}
Stage& Stage::tensorize(const Axis& axis, const std::string& intrin) {
  if (chosen("te:tensorize")) return *this;
  return next(this, &Stage::tensorize, axis, intrin);
}
Stage& Stage::compute_at(const Stage& parent, const Axis& axis) {
  if (chosen("te:compute_at")) return *this;
  return next(this, &Stage::compute_at, parent, axis);
}
Stage& Stage::compute_inline() {
  if (chosen("te:compute_inline")) return *this;
  return next(this, &Stage::compute_inline);
}
Stage& Stage::compute_root() {
  if (chosen("te:compute_root")) return *this;
  return next(this, &Stage::compute_root);
}
Stage& Stage::set_scope(const std::string& scope) {
  if (chosen("te:set_scope")) return *this;
  return next(this, &Stage::set_scope, scope);
}
Stage& Stage::storage_align(const Axis& axis, int64_t factor, int64_t offset) {
  if (chosen("te:storage_align")) return *this;
  return next(this, &Stage::storage_align, axis, factor, offset);
}
Stage& Stage::double_buffer() {
  if (chosen("te:double_buffer")) return *this;
  return next(this, &Stage::double_buffer);
}
Stage& Stage::rolling_buffer() {
  if (chosen("te:rolling_buffer")) return *this;
  return next(this, &Stage::rolling_buffer);
}
Array<tir::IterVar> Stage::transform_layout(std::function<Array<PrimExpr>(const Array<tir::VarRef>&)> map) {
  if (chosen("te:transform_layout")) return axis();
  return next(this, &Stage::transform_layout, std::move(map));
}
Stage& Stage::set_axis_separators(const std::vector<int64_t>& separators) {
  if (chosen("te:set_axis_separators")) return *this;
  return next(this, &Stage::set_axis_separators, separators);
}
Stage& Stage::env_threads(const std::vector<Axis>& threads) {
  if (chosen("te:env_threads")) return *this;
  return next(this, &Stage::env_threads, threads);
}
Stage& Stage::set_store_predicate(const PrimExpr& condition) {
  if (chosen("te:set_store_predicate")) return *this;
  return next(this, &Stage::set_store_predicate, condition);
}
Tensor Schedule::cache_read(const Tensor& tensor, const std::string& scope,
                            const std::vector<Operation>& readers) {
  if (chosen("te:cache_read")) return tensor;
  return next(this, &Schedule::cache_read, tensor, scope, readers);
}
Tensor Schedule::cache_write(const Tensor& tensor, const std::string& scope) {
  if (chosen("te:cache_write")) return tensor;
  return next(this,
              static_cast<Tensor (Schedule::*)(const Tensor&, const std::string&)>(&Schedule::cache_write),
              tensor, scope);
}
std::vector<Tensor> Schedule::cache_write(const std::vector<Tensor>& tensors, const std::string& scope) {
  if (chosen("te:cache_write")) return tensors;
  return next(this,
              static_cast<std::vector<Tensor> (Schedule::*)(const std::vector<Tensor>&, const std::string&)>(
                  &Schedule::cache_write),
              tensors, scope);
}
std::vector<Tensor> Schedule::rfactor(const Tensor& tensor, const tir::IterVar& axis, int factor_axis) {
  if (chosen("te:rfactor")) return {tensor};
  return next(this, &Schedule::rfactor, tensor, axis, factor_axis);
}
Stage Schedule::create_group(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                             bool include_inputs) {
  if (chosen("te:create_group")) return (*this)[outputs.at(0)];
  return next(this, &Schedule::create_group, outputs, inputs, include_inputs);
}
Schedule Schedule::normalize() const {
  if (chosen("te:normalize")) return *this;
  return next(this, &Schedule::normalize);
}

}  // namespace tenon::te
