// SPDX-License-Identifier: Apache-2.0
// Widths of panels and of blocks of channels.
#include "analysis/cost/layout.h"

#include "analysis/cost/nest.h"
#include "target/matrix_registers.h"
#include "target/narrow_float.h"

namespace tenon::cost {
namespace {

/// Rows that read a matrix, and second caches that it fills, for packing it in every call.
constexpr int64_t kPackedRows = 64, kPackedCaches = 2;
/// Rows of which each vector of weights is read for so few that widening it (two instructions, on the ports
/// of multiply-adds at worst) costs less than the bytes from behind the second cache.
constexpr int64_t kNarrowRows = 8;
/// Columns that are multiplied by rows one by one at most; what adding up the lanes of each takes, in steps
/// of a vector; and what a panel takes for each input, in the same (Zen 5, 64 and 768 inputs, 1 to 1536
/// rows).
constexpr int64_t kMostDots = 4;
constexpr double kLanesOfDot = 8, kPanelStep = 0.9;
constexpr int64_t kLeastBlock = 4;    ///< narrower ones are slower than plain channels
constexpr int64_t kGroupedBlock = 8;  ///< two groups of four bytes
/// Channels for each one that is added: whole vectors save more than an eighth more work costs.
constexpr int64_t kAddedShare = 8;
/// The same where channels fill blocks of half a vector otherwise, which multiply half as many at a time. Who
/// reads them reads those added, too: four 3×3 in a row take 0.75 of the time with 48 channels for 40, and
/// 0.92 with 32 for 24, but one of 24 to 72 channels 1.33 (Zen 5; PP-OCRv4's detector 0.85, a detector by
/// centre points 1.1).
constexpr int64_t kHalvesShare = 3;
/// The same where time goes into reading weights, which vectors read in a row, and where sums are in matrix
/// registers, which hold no fewer lanes.
constexpr int64_t kReadsShare = 1, kMatricesShare = 2;
/// The same where slices begin behind the added channels, which would move one by one.
constexpr int64_t kSlicesShare = 4;
/// The same where a dot instruction has a group of inputs and results fill no block: in plain layout they
/// reach a tenth of its peak.
constexpr int64_t kDotsShare = 2;
/// Products for each one that counts: a dot instruction over whole vectors is worth more than so many.
constexpr int64_t kMostJoined = 4;
/// The same where sums are in matrix registers, which have seven times the products of dot instructions, and
/// neighbours of the convolution have their channels in blocks of that width, too.
constexpr int64_t kMostJoinedInMatrices = 16;

/// Channels that fill a row of a matrix register, or half of one, whichever divides them.
int64_t matrix_block(int64_t channels, DataType data, const Target& target) {
  if (!multiplies_matrices(target, data, data) || channels <= 0) return 0;
  const int64_t row = kMatrixRowBytes / data.bytes();
  for (int64_t block : {row, row / 2})
    if (block > target->lanes(f32) && channels % block == 0) return block;
  return 0;
}

}  // namespace

bool worth_packing(int64_t rows, int64_t bytes, const Target& target) {
  return rows >= kPackedRows && bytes >= kPackedCaches * target->l2_bytes;
}

bool worth_dots(int64_t columns, int64_t inputs, const Target& target) {
  const double steps = double(inputs) / double(target->lanes(f32));
  return columns <= kMostDots && double(columns) * (steps + kLanesOfDot) < kPanelStep * double(inputs);
}

bool worth_narrow_storage(int64_t rows, int64_t bytes, const Target& target) {
  return rows <= kNarrowRows && bytes > target->l2_bytes;
}

int64_t channel_block(int64_t channels, DataType data, const Target& target) {
  if (const int64_t block = matrix_block(channels, data, target)) return block;
  for (int64_t block : {target->lanes(f32), target->lanes(f32) / 2})
    if (block >= kLeastBlock && channels > 0 && channels % block == 0) return block;
  return 0;
}

int64_t filled_channels(int64_t channels, Filled why, const Target& target) {
  const int64_t lanes = target->lanes(f32), more = (lanes - channels % lanes) % lanes;
  const int64_t share = why == Filled::reads                       ? kReadsShare
                        : why == Filled::matrices                  ? kMatricesShare
                        : why == Filled::slices                    ? kSlicesShare
                        : why == Filled::dots                      ? kDotsShare
                        : more == lanes / 2 && more >= kLeastBlock ? kHalvesShare
                                                                   : kAddedShare;
  return more * share <= channels ? channels + more : channels;
}

int64_t grouped_channel_block(int64_t channels, DataType data, const Target& target) {
  if (const int64_t block = matrix_block(channels, data, target)) return block;
  if (channels % target->lanes(f32) == 0) return target->lanes(f32);
  if (channels % kGroupedBlock == 0) return kGroupedBlock;
  // Few channels, as of a picture: taps of a group each lie side by side in a row of a matrix register.
  return multiplies_matrices(target, data, data) ? kMatrixGroupBytes / data.bytes() : kLeastBlock;
}

int64_t joined_groups(const Groups& g, const Target& target) {
  const int64_t lanes = target->lanes(f32), row = kMatrixRowBytes / g.data.bytes();
  const bool matrices = multiplies_matrices(target, g.data, g.data);
  if (!matrices && g.data.is_float() && !bf16_dots_pay(target)) return 1;
  const int64_t most = matrices ? kMostJoinedInMatrices : kMostJoined;
  auto fit = [&](int64_t k, int64_t width) {
    const int64_t whole = ceil_div(g.number, k) * k;  // with those that fill up the last one
    return k > 1 && g.inputs * k % width == 0 && g.outputs * k % width == 0 && whole * k <= most * g.number;
  };
  if (matrices)
    for (int64_t width : {g.block, row})
      if (width >= lanes && fit(width / g.inputs, width)) return width / g.inputs;
  if (g.inputs % lanes == 0 && g.outputs % lanes == 0) return 1;
  for (int64_t k = 2; k <= kMostJoined; ++k)
    if (fit(k, lanes)) return k;
  return 1;
}

}  // namespace tenon::cost
