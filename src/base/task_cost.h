// SPDX-License-Identifier: Apache-2.0
// Least work of a thread in a parallel region: the thread pool decides by it, and the cost model knows that.
#pragma once
#include <cstdint>

namespace tenon {

inline constexpr int64_t kTaskNs = 10'000;      ///< no thread is woken to do less than this
inline constexpr int64_t kAwakeTaskNs = 3'000;  ///< nor, where it spins between two regions, asked to do less

}  // namespace tenon
