// SPDX-License-Identifier: Apache-2.0
// The schedule of tensor expressions: stages and axes instead of blocks and loops. What a caller asks for is
// kept until `apply`, which carries it out on a `tenon::Schedule`: consumers first, so that every axis gets
// the range that its consumers need. One engine: the result is a tensor-IR schedule with its trace.
#pragma once
#include "ir/module.h"
#include "schedule/schedule.h"
#include "te/te.h"

namespace tenon::te {

/// A thread that `bind` takes: tag "threadIdx.x", "blockIdx.y", "vthread", …
tir::IterVar thread_axis(const std::string& tag, PrimExpr extent = {});

struct ScheduleData;

/// One operation's place in a schedule. Axes are those of the operation (`axis`, `reduce_axis`) or what
/// split, fuse, tile and transform_layout gave back; each names a loop until it is split or fused. T0795: a
/// request that makes no sense; what is not legal in the program is refused by `Schedule::apply` with the
/// engine's sentence.
class Stage {
 public:
  using Axis = tir::IterVar;
  const Operation& op() const;  ///< what the stage computes now (cache_write and rfactor change it)
  Array<Axis> axis() const { return op()->axis; }
  Array<Axis> reduce_axis() const { return op()->reduce_axis; }
  Axis scan_axis() const { return op()->scan_axis; }
  Array<Axis> leaf_axes() const;  ///< the loops, outermost first

  std::pair<Axis, Axis> split(const Axis& axis, int64_t factor);
  std::pair<Axis, Axis> split_nparts(const Axis& axis, int64_t parts);
  Axis fuse(const std::vector<Axis>& axes);
  Stage& reorder(const std::vector<Axis>& axes);
  /// x outer, y outer, x inner, y inner
  std::array<Axis, 4> tile(const Axis& x, const Axis& y, int64_t x_factor, int64_t y_factor);

  Stage& parallel(const Axis& axis);
  Stage& vectorize(const Axis& axis);
  Stage& unroll(const Axis& axis);
  Stage& bind(const Axis& axis, const Axis& thread);
  /// The loop carries the annotation "pragma_" + key.
  Stage& pragma(const Axis& axis, const std::string& key, Any value = Any(true));
  /// While an iteration of `axis` runs, what the one `offset` later reads of `tensor` is fetched.
  Stage& prefetch(const Tensor& tensor, const Axis& axis, int64_t offset);
  /// The loops from `axis` on become the intrinsic (te::decl_tensor_intrin, register_tensor_intrin).
  Stage& tensorize(const Axis& axis, const std::string& intrin);

  Stage& compute_at(const Stage& parent, const Axis& axis);
  Stage& compute_inline();
  Stage& compute_root();

  Stage& set_scope(const std::string& scope);
  Stage& storage_align(const Axis& axis, int64_t factor, int64_t offset = 0);
  Stage& double_buffer();
  Stage& rolling_buffer();
  /// Result and loops are laid out anew; the new axes.
  Array<Axis> transform_layout(std::function<Array<PrimExpr>(const Array<tir::VarRef>&)> map);
  Stage& set_axis_separators(const std::vector<int64_t>& separators);
  /// Threads that run the whole scan: what a step computes is bound to them.
  Stage& env_threads(const std::vector<Axis>& threads);
  /// Of the threads that compute the same, only one that fulfils the condition stores: `thread.var == 0`,
  /// several joined by `and`.
  Stage& set_store_predicate(const PrimExpr& condition);

 private:
  friend class Schedule;
  Stage(std::shared_ptr<ScheduleData> data, int id) : data_(std::move(data)), id_(id) {}
  std::shared_ptr<ScheduleData> data_;
  int id_;
};

class Schedule {
 public:
  explicit Schedule(const std::vector<Operation>& outputs);
  Stage operator[](const Tensor& tensor) const { return (*this)[tensor->op]; }
  Stage operator[](const Operation& op) const;
  std::vector<Stage> stages() const;  ///< producers first

  /// The readers get `tensor` from a copy of it; the copy is a stage.
  Tensor cache_read(const Tensor& tensor, const std::string& scope, const std::vector<Operation>& readers);
  /// The operation computes into the new tensor and copies that to its result.
  Tensor cache_write(const Tensor& tensor, const std::string& scope);
  /// All results of one operation, which its stage then copies together.
  std::vector<Tensor> cache_write(const std::vector<Tensor>& tensors, const std::string& scope);
  /// Partial results over a loop of the reduction become a tensor of their own, with the loop as dimension
  /// `factor_axis`.
  std::vector<Tensor> rfactor(const Tensor& tensor, const tir::IterVar& axis, int factor_axis = 0);
  /// What lies between inputs and outputs moves together: compute_at of the group places all of them.
  Stage create_group(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                     bool include_inputs = false);
  /// Inlined stages and ranges as `apply` will see them: a copy that stands alone.
  Schedule normalize() const;

  /// The tensor-IR schedule of create_prim_func(args, symbolic).
  tenon::Schedule apply(const Array<Tensor>& args, const Array<tir::VarRef>& symbolic = {}) const;

  /// The part from `inputs`, which the caller has, to `outputs`.
  tenon::Schedule apply_part(const Array<Tensor>& inputs, const Array<Tensor>& outputs) const;

 private:
  explicit Schedule(std::shared_ptr<ScheduleData> data) : data_(std::move(data)) {}
  std::shared_ptr<ScheduleData> data_;
};

inline Schedule create_schedule(const std::vector<Operation>& outputs) { return Schedule(outputs); }
inline Schedule create_schedule(const Operation& output) { return Schedule(std::vector<Operation>{output}); }

/// The scheduled program as function `name` of a module, with its trace.
IRModule lower(const Schedule& schedule, const Array<Tensor>& args, const std::string& name = "main",
               const Array<tir::VarRef>& symbolic = {});

/// Makes an intrinsic known to `Stage::tensorize`: it computes `op` (constant sizes); `body` gives the
/// statement that does so over buffers of op's inputs and of its result (one update, where op is a
/// reduction).
void decl_tensor_intrin(
    const std::string& name, const Operation& op,
    std::function<tir::Stmt(const Array<tir::Buffer>& ins, const Array<tir::Buffer>& outs)> body);

}  // namespace tenon::te
