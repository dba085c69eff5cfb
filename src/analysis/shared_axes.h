// SPDX-License-Identifier: Apache-2.0
// Axes that the stages of a tensor program share: what a stage makes at an index of one, the stages behind it
// read at that index only. Such a program may run block by block of an axis, and what lies between its stages
// is then as large as a block. Stages that prepare what several blocks read lack the last axis, those in
// front of all others a further one.
#pragma once
#include <optional>
#include <vector>

#include "ir/tir.h"

namespace tenon {

/// A stage: one store under loops of its own, each over all of an iterator.
struct StageAxes {
  Ref<tir::BlockRealize> block;
  std::vector<int> iterator;  ///< of each shared axis; -1: what it makes is for all of them
  bool in_front() const;      ///< it lacks an axis beside the last one
};
/// A tensor between stages.
struct PrivateBuffer {
  tir::Buffer buffer;
  std::vector<int> dim;   ///< of each shared axis; -1: all of them read it
  double elements = 0;    ///< symbolic sizes count as likely_size
  bool in_front() const;  ///< a stage in front of the others makes it
  bool has_rows() const { return dim.back() >= 0; }
};
struct SharedAxes {
  /// Those of the largest tensor between stages, in the order of the last stage's iterators; axes of one step
  /// are left out.
  std::vector<PrimExpr> extent;
  std::vector<StageAxes> stages;
  std::vector<PrivateBuffer> buffers;
};
/// A size for the model of the machine: a symbolic one may be a long sequence.
double likely_size(const PrimExpr& size);
/// Null when the program is anything but such stages, or they share no axis. To be taken before a schedule
/// changes the loops.
std::optional<SharedAxes> shared_axes(const tir::PrimFunc& program);

/// Does the caller say that a result may lie where an operand does ("tir.noalias" is false)? Blocks of rows
/// must not overlap then: the second one would read what the first one wrote.
bool may_alias(const tir::PrimFunc& program);

}  // namespace tenon
