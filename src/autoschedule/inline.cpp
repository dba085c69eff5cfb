// SPDX-License-Identifier: Apache-2.0
// Element-wise blocks that are computed where they are read.
#include <algorithm>

#include "autoschedule/rules.h"

namespace tenon::rules {

using namespace tir;

namespace {

// Operations (Facts::cost) up to which a block may be computed several times.
constexpr double kMoveCost = 1.5;    ///< a load at another place: for every read, in a reduction too
constexpr double kOpaqueCost = 4;    ///< for a block that cannot be read as facts
constexpr double kAgainCost = 8;     ///< for every read of an element
constexpr double kSeveralCost = 10;  ///< for each of several readers
/// More instances of the reader than elements, by this factor: each is read again.
constexpr double kReadAgain = 2, kReadAgainInSum = 1.5;
constexpr double kSymbolicExtent = 64;  ///< what matters is how often one element is read

double nominal_instances(const Facts& f, bool only_spatial) {
  double n = 1;
  for (size_t i = 0; i < f.extent.size(); ++i)
    if (!only_spatial || std::find(f.spatial.begin(), f.spatial.end(), int(i)) != f.spatial.end())
      n *= f.extent[i] == kUnknown ? kSymbolicExtent : double(f.extent[i]);
  return n;
}

/// A load at another place and nothing else; its own index is regular. A conversion to fewer bits is more
/// than that: products take narrow operands from memory, not what they would make of wide ones again and
/// again.
bool moves_only(const Facts& f) {
  return f.cost <= kMoveCost &&
         std::none_of(f.in_value.begin(), f.in_value.end(), [](bool used) { return used; }) &&
         std::all_of(f.loads.begin(), f.loads.end(), [&](const Access& l) {
           const DataType to = f.write.buffer->dtype;
           return (!to.is_float() || l.buffer->dtype.bits <= to.bits) &&
                  std::all_of(l.stride.begin(), l.stride.end(), [](int64_t s) { return s < kIrregular; });
         });
}

constexpr int kGatheredBits = 32;  ///< lanes that lie apart are loaded at once from elements of as many bits

/// Gathered lanes come from what it makes, and not from what it is made of.
bool widens_to_gather(const Facts& f) {
  return f.write.element_bits() >= kGatheredBits &&
         std::ranges::any_of(f.loads, [](const Access& l) { return l.element_bits() < kGatheredBits; });
}

/// Does the reader compute `f` again and again through this access, where that costs more than it saves?
bool costs_again(const Facts& f, const Facts& reader, const Access& l) {
  bool again = nominal_instances(reader, false) >
               nominal_instances(f, true) * (reader.is_reduction() ? kReadAgainInSum : kReadAgain);
  bool regular = true;
  for (size_t i = 0; i < l.stride.size(); ++i) {
    again = again || (l.stride[i] == 0 && reader.extent[i] != 1);
    regular = regular && l.stride[i] != kIrregular;
  }
  if (!again || (regular && moves_only(f))) return false;
  return reader.is_reduction() || f.cost > kAgainCost || (!regular && widens_to_gather(f));
}

bool wants_inline(Schedule& s, const Facts& f) {
  const std::vector<BlockRV> readers = s.get_consumers(f.id);
  int reads = 0;
  for (BlockRV b : readers) {
    const auto reader = facts_of(s, b);
    if (!reader) {
      if (f.cost > kOpaqueCost) return false;
      ++reads;
      continue;
    }
    for (const Access& l : reader->loads) {
      if (!l.buffer.same_as(f.write.buffer)) continue;
      if (costs_again(f, *reader, l)) return false;
      ++reads;
    }
  }
  return !readers.empty() && (reads <= 1 || f.cost <= kSeveralCost);
}

}  // namespace

void inline_producers(Draft& draft) {
  draft.rule = "inline";
  for (BlockRV b : draft.schedule.blocks()) {
    if (writes_parameter(draft.schedule, b)) continue;
    const auto f = facts_of(draft.schedule, b);
    if (!f || f->is_reduction() || f->block->init || !wants_inline(draft.schedule, *f)) continue;
    draft.block = f->block->name;
    try_step(draft, "", [&](Schedule& s) { s.compute_inline(b); });
  }
}

}  // namespace tenon::rules
