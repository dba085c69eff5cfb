// SPDX-License-Identifier: Apache-2.0
// Layouts of tensors that suit the register tiles behind them: panels of matrices, blocks of channels.
#pragma once
#include "base/dtype.h"
#include "target/target.h"

namespace tenon::cost {

/// Is a matrix of `bytes` that `rows` (0: unknown) read worth packing in panels for every call? (One that is
/// constant is packed at compile time, which is always worth it.)
bool worth_packing(int64_t rows, int64_t bytes, const Target& target);

/// Are so few columns of a constant matrix better multiplied by rows one by one, as sums along memory, than
/// as lanes of a panel, most of which would be empty?
bool worth_dots(int64_t columns, int64_t inputs, const Target& target);

/// Is a constant matrix of `bytes` whose elements a narrower type holds exactly worth keeping in that, and
/// widening where `rows` (0: unknown) read it? Products of few rows wait for it; unknown ones often are (a
/// decoder's steps).
bool worth_narrow_storage(int64_t rows, int64_t bytes, const Target& target);

/// Channels of one block of a convolution's data of type `data`: a vector of f32 or half of one, whichever
/// divides them, or more that fill the rows of matrix registers; 0: neither does.
int64_t channel_block(int64_t channels, DataType data, const Target& target);
/// What takes the time of a convolution whose results are filled up: products, reading weights, products in
/// matrix registers, moving slices of the results that begin inside of a block, or dot instructions whose
/// results fill no block, which they need.
enum class Filled : uint8_t { products, reads, matrices, slices, dots };
/// Channels with those added that fill the last vector, where whole vectors are worth more than the added
/// work.
int64_t filled_channels(int64_t channels, Filled why, const Target& target);
/// The same of the inputs of a convolution whose weights lie in groups for a dot instruction: the last block
/// is filled up.
int64_t grouped_channel_block(int64_t channels, DataType data, const Target& target);
/// Neighbouring groups of channels of a convolution that become one, whose weights are 0 between them.
struct Groups {
  int64_t number, inputs, outputs;  ///< inputs and outputs of each one
  DataType data;                    ///< bytes, or floats of 16 bits
  int64_t block;                    ///< of channels as the data lies; 0: it is plain
};
/// How many of them fill vectors, or rows of matrix registers; the last ones may have to be filled up with
/// groups of zeros. 1: they stay.
int64_t joined_groups(const Groups& groups, const Target& target);

}  // namespace tenon::cost
