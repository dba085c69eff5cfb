// SPDX-License-Identifier: Apache-2.0
// What is added to every row of a short sum of narrow types is its first value: an instruction less for each
// vector of results, where dot products are not many more than what the epilogue has. Sums of float32 are
// longer, and keep their order.
#include <algorithm>
#include <climits>

#include "autoschedule/rules.h"

namespace tenon::rules {

using namespace tir;

namespace {

/// Steps of a sum up to which an addition behind it counts.
constexpr int64_t kShortSum = 512;
/// Neighbours of the sum that dot instructions take at most: other sums are filled up, which comes before.
constexpr int64_t kLargestGroup = 4;
constexpr int kNarrowBits = 16;
/// The part of the second cache that a sum's operand along the lanes fills at most, for two vectors of
/// results: more may be taken up block by block, from zero (cost::sum_blocks).
constexpr int64_t kPartOfCache = 16, kVectors = 2;

/// A product of two operands, and no inner product of rows: those are added up in lanes, from zero.
bool is_tiled_product(const Facts& f) {
  if (!f.is_reduction() || !f.block->init || f.loads.size() != 2) return false;
  return f.reduce.size() > 1 ||
         !std::ranges::all_of(f.loads, [&](const Access& l) { return l.stride[size_t(f.reduce[0])] == 1; });
}

/// The sum is short and of narrow operands, and no axis of it or of its lanes is filled up first.
bool is_short_and_whole(const Facts& f, const Target& target) {
  int64_t steps = 1;
  bool grouped = false;
  for (int k : f.reduce) {
    if (f.symbolic(k)) return false;
    steps *= f.extent[size_t(k)];
    const bool pairs = f.extent[size_t(k)] == 2 && std::ranges::all_of(f.loads, [&](const Access& l) {
                         return l.stride[size_t(k)] == 1;
                       });
    grouped = grouped || pairs || f.extent[size_t(k)] % kLargestGroup == 0;
  }
  const bool narrow =
      std::ranges::all_of(f.loads, [](const Access& l) { return l.buffer->dtype.bits <= kNarrowBits; });
  const bool lanes = std::ranges::any_of(f.spatial, [&](int i) {
    return f.write.stride[size_t(i)] == 1 && !f.symbolic(i) && f.extent[size_t(i)] % kMinLanes == 0;
  });
  const int64_t panel = steps * kVectors * target->vector_bits / CHAR_BIT;
  return steps <= kShortSum && panel * kPartOfCache <= target->l2_bytes && lanes && grouped && narrow;
}

/// `result + addend` and nothing else, the addend the same along some axis of the result.
bool adds_along_rows(const Facts& e, const Buffer& result) {
  const auto* store = e.block->body.as<BufferStore>();
  if (e.is_reduction() || !store || !store->value.is<Add>() || e.loads.size() != 2) return false;
  const bool first = e.loads[0].buffer.same_as(result), second = e.loads[1].buffer.same_as(result);
  const Access& addend = e.loads[first ? 1 : 0];
  return first != second && std::ranges::any_of(e.spatial, [&](int i) {
           return e.extent[size_t(i)] != 1 && addend.stride[size_t(i)] == 0;
         });
}

}  // namespace

std::vector<BlockRV> begin_with_addends(Draft& draft) {
  draft.rule = "first_value";
  Schedule& s = draft.schedule;
  std::vector<int32_t> gone;
  std::vector<BlockRV> sums;
  for (BlockRV b : s.blocks()) {
    if (std::ranges::find(gone, b.id) != gone.end()) continue;
    const auto f = facts_of(s, b);
    if (!f || !is_tiled_product(*f) || !is_short_and_whole(*f, draft.target) || writes_parameter(s, b))
      continue;
    const std::vector<BlockRV> readers = s.get_consumers(b);
    const auto e = readers.size() == 1 ? facts_of(s, readers[0]) : std::nullopt;
    if (!e || !adds_along_rows(*e, f->write.buffer)) continue;
    draft.block = f->block->name;
    if (!try_step(draft, "", [&](Schedule& t) { t.fuse_reduction_epilogue(b, readers[0]); })) continue;
    gone.push_back(readers[0].id);
    sums.push_back(b);
  }
  return sums;
}

}  // namespace tenon::rules
