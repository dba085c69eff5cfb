// SPDX-License-Identifier: Apache-2.0
// What the import of a hostile file may cost.
#pragma once
#include <sys/resource.h>

namespace tenon::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TENON_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TENON_SANITIZED 1
#endif
#endif
/// Of processor time; the sanitizers slow the compiler by a factor of about 20, and keep freed memory.
#ifdef TENON_SANITIZED
constexpr double kSecondsAllowed = 20;
constexpr bool kMemoryCounts = false;
#else
constexpr double kSecondsAllowed = 1;
constexpr bool kMemoryCounts = true;
#endif
constexpr long kKilobytesAllowed = 256 * 1024;  ///< above what the file itself takes

inline long peak_kilobytes() {
  rusage u{};
  getrusage(RUSAGE_SELF, &u);
  return u.ru_maxrss;
}

}  // namespace tenon::test
