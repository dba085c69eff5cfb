// SPDX-License-Identifier: Apache-2.0
// Runs of `main` are written down: the kernels that it calls, with the addresses and numbers that they get.
// Where inputs have the same shapes again, all of it is the same again but the addresses of inputs and
// results, so that the next run calls the kernels and does nothing else, as CUDA's graphs do with launches.
// The intermediate tensors keep the places that they had, in memory of the recording's own. What follows from
// constants and shapes alone (masks, positions) is computed once, and branches may depend on it.
// Where elements decide what a later step does (what a detector found), the steps before it are written down,
// and a run goes on step by step from there.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "runtime/machine.h"

namespace tenon {

/// A step that a run of `main` did; the last one is its return, or the step that the rest goes on from.
struct PathStep {
  const Step* step;
  bool fresh = false;  ///< alloc_tensor: the tensor reaches a result
  /// A kernel that reads nothing but constants, shapes and what such kernels wrote, and writes tensors that
  /// it alone writes; alloc_tensor of one of these. All of it is the same for all inputs of equal shapes.
  bool fixed = false;
};

/// Runs `main`, and leaves its results in `machine.flat`. True: it does the steps of `path` for all inputs of
/// equal shapes, which are kernels and builtins that read no element of a tensor but of fixed ones, and these
/// are all of its steps or enough to be worth writing down.
bool follow_main(Machine& machine, std::span<const NDArray> inputs, std::vector<PathStep>& path);

/// One run of `main`, which run_main has checked the inputs of.
class RecordedRun {
 public:
  /// Runs `main` and writes down what it does; leaves the results in `machine.flat`. Null where two inputs
  /// are one, a result is no tensor, or the steps before the rest of a run leave too much.
  static std::unique_ptr<RecordedRun> record(Machine& machine, std::span<const NDArray> inputs,
                                             std::span<const PathStep> path);
  /// The same as `main` on inputs of the same shapes.
  void replay(Machine& machine, std::span<const NDArray> inputs);

 private:
  struct Call {
    TenonKernel kernel;
    const Step* step;
    size_t buffer, scalar;  ///< the first of each
  };
  /// A fresh tensor, which `step` allocates anew in each run: `value` has its sizes. Or result
  /// `place`, or what that register holds where the steps that are written down end: an input or a fresh
  /// tensor, of which `value` has the sizes alone, or (`source` is -1) `value`, the same in every run.
  struct Left {
    const Step* step;
    size_t place;
    int64_t source;
    Any value;
  };

  void allocate(Machine& machine, const PathStep& at);
  void write_down(Machine& machine, const PathStep& at);
  bool leave(const Any& value, size_t place);
  void go_on(Machine& machine);
  int64_t source_of(const void* address) const;
  Any value_of(const Left& left) const;

  std::shared_ptr<MemoryRegion> region_ = std::make_shared<MemoryRegion>();
  std::vector<NDArray> blocks_;  ///< what stays, and what the region refused
  std::vector<Call> calls_;
  std::vector<void*> buffers_;
  std::vector<int64_t> scalars_;
  /// Pairs: a buffer whose address each run has anew, and an input or, behind these, a fresh tensor.
  std::vector<int64_t> patches_;
  std::vector<Left> fresh_;
  std::vector<Left> left_;        ///< the results, or the registers that the rest reads
  const Step* next_ = nullptr;    ///< the first step that is not written down; null: all are
  std::vector<int64_t> heap_;     ///< the shape heap in front of `next_`
  std::vector<NDArray> sources_;  ///< of the run that goes on
};

/// Decides which runs of a session are recorded and replayed.
class RunRecorder {
 public:
  /// Runs `main` if it is a run to record or to replay; false: nothing is done.
  bool run(Machine& machine, std::span<const NDArray> inputs);

 private:
  void forget();
  std::unique_ptr<RecordedRun> recorded_;
  std::vector<PathStep> path_;  ///< of runs with the last inputs' shapes; empty: not known
  std::vector<int64_t> sizes_;  ///< ranks and dimensions of the last inputs
  int64_t equal_ = 0;           ///< runs with these shapes so far
  int64_t wanted_ = 1;          ///< so many come before one is followed and one recorded
  int64_t replays_ = 0;
  bool never_ = false;
};

}  // namespace tenon
