// SPDX-License-Identifier: Apache-2.0
// Elapsed time, as reports and limits of every stage count it.
#pragma once
#include <chrono>

namespace tenon {

/// Milliseconds since `start`.
inline double ms_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace tenon
