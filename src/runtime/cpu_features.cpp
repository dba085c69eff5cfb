// SPDX-License-Identifier: Apache-2.0
// Which CPU features an artifact needs and this machine lacks. Names are those of /proc/cpuinfo.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <string>

#include "runtime/artifact.h"

namespace tenon {
namespace {

/// Only the first processor's record is read: the file has one for each of hundreds.
std::string first_record() {
  std::string text;
  const int fd = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return text;
  char buffer[4096];
  for (ssize_t n; text.size() < 16384 && (n = read(fd, buffer, sizeof buffer)) > 0;)
    text.append(buffer, size_t(n));
  close(fd);
  return text;
}

std::set<std::string, std::less<>> detect() {
  std::set<std::string, std::less<>> features;
  const std::string text = first_record();
  for (std::string_view key : {"\nflags", "\nFeatures"}) {
    const size_t at = text.find(key);
    if (at == text.npos) continue;
    const size_t colon = text.find(':', at), end = std::min(text.find('\n', at + 1), text.size());
    for (size_t i = colon; i < end;) {
      const size_t from = text.find_first_not_of(" :\t", i);
      if (from == text.npos || from >= end) break;
      i = std::min(text.find(' ', from), end);
      features.insert(text.substr(from, i - from));
    }
  }
#if defined(__x86_64__)
  // Without /proc the compiler's own detection stands in; it also knows whether the system saves the
  // registers.
  if (features.empty()) {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("ssse3")) features.insert("ssse3");
    if (__builtin_cpu_supports("sse4.1")) features.insert("sse4_1");
    if (__builtin_cpu_supports("sse4.2")) features.insert("sse4_2");
    if (__builtin_cpu_supports("popcnt")) features.insert("popcnt");
    if (__builtin_cpu_supports("sse3")) features.insert("pni");
    if (__builtin_cpu_supports("avx")) features.insert("avx");
    if (__builtin_cpu_supports("avx2")) features.insert("avx2");
    if (__builtin_cpu_supports("fma")) features.insert("fma");
    if (__builtin_cpu_supports("bmi")) features.insert("bmi1");
    if (__builtin_cpu_supports("bmi2")) features.insert("bmi2");
    if (__builtin_cpu_supports("avx512f")) features.insert("avx512f");
    if (__builtin_cpu_supports("avx512bw")) features.insert("avx512bw");
    if (__builtin_cpu_supports("avx512cd")) features.insert("avx512cd");
    if (__builtin_cpu_supports("avx512dq")) features.insert("avx512dq");
    if (__builtin_cpu_supports("avx512vl")) features.insert("avx512vl");
    if (__builtin_cpu_supports("avx512vnni")) features.insert("avx512_vnni");
    if (features.count("avx2")) features.insert("f16c");
  }
#endif
  if (features.count("pni")) features.insert("sse3");
  return features;
}

}  // namespace

std::vector<std::string> missing_features(const TargetNeeds& needs) {
  static const auto present = detect();
  std::vector<std::string> missing;
  for (const std::string& f : needs.features)
    if (!present.count(f)) missing.push_back(f);
  return missing;
}

}  // namespace tenon
