// SPDX-License-Identifier: Apache-2.0
// Which CPU features an artifact needs and this machine lacks. Names are those of /proc/cpuinfo.
#include <fcntl.h>
#if defined(__aarch64__) || defined(__riscv)
#include <sys/auxv.h>
#endif
#include <unistd.h>

#include <string>

#include "base/matrix_permission.h"
#include "runtime/artifact.h"

namespace tenon {
namespace {

#if defined(__aarch64__) || defined(__riscv)
/// The features of this machine, each between spaces, as the kernel tells a process.
std::string detect() {
  const unsigned long first = getauxval(AT_HWCAP);
  std::string words = " ";
#if defined(__aarch64__)
  const unsigned long second = getauxval(AT_HWCAP2);
  constexpr struct {
    const char* name;
    bool second;
    int bit;  ///< HWCAP_… and HWCAP2_… of the kernel's interface
  } known[] = {{"asimd", false, 1},
               {"asimdhp", false, 10},
               {"asimddp", false, 20},
               {"i8mm", true, 13},
               {"bf16", true, 14}};
  for (const auto& f : known)
    if (((f.second ? second : first) >> f.bit) & 1) words += std::string(f.name) + " ";
#else
  if ((first >> ('v' - 'a')) & 1) words += "v ";  // a bit for each letter
#endif
  return words;
}
#else
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

/// The features of this machine, each between spaces.
std::string detect() {
  std::string words;
  const std::string text = first_record();
  if (const size_t colon = text.find(':', text.find("\nflags")); colon != text.npos)
    words = text.substr(colon + 1, text.find('\n', colon) - colon - 1) + " ";
#if defined(__x86_64__)
  // Without /proc the compiler's own detection stands in; it also knows whether the system saves the
  // registers.
  if (words.empty()) {
    words = " ";
    __builtin_cpu_init();
    if (__builtin_cpu_supports("ssse3")) words += "ssse3 ";
    if (__builtin_cpu_supports("sse4.1")) words += "sse4_1 ";
    if (__builtin_cpu_supports("sse4.2")) words += "sse4_2 ";
    if (__builtin_cpu_supports("popcnt")) words += "popcnt ";
    if (__builtin_cpu_supports("sse3")) words += "pni ";
    if (__builtin_cpu_supports("avx")) words += "avx ";
    if (__builtin_cpu_supports("avx2")) words += "avx2 ";
    if (__builtin_cpu_supports("fma")) words += "fma ";
    if (__builtin_cpu_supports("bmi")) words += "bmi1 ";
    if (__builtin_cpu_supports("bmi2")) words += "bmi2 ";
    if (__builtin_cpu_supports("avx512f")) words += "avx512f ";
    if (__builtin_cpu_supports("avx512bw")) words += "avx512bw ";
    if (__builtin_cpu_supports("avx512cd")) words += "avx512cd ";
    if (__builtin_cpu_supports("avx512dq")) words += "avx512dq ";
    if (__builtin_cpu_supports("avx512vl")) words += "avx512vl ";
    if (__builtin_cpu_supports("avx512vnni")) words += "avx512_vnni ";
    if (__builtin_cpu_supports("avx2")) words += "f16c ";
  }
#endif
  if (words.find(" pni ") != words.npos) words += "sse3 ";
  return words;
}
#endif

}  // namespace

std::vector<std::string> missing_features(const TargetNeeds& needs) {
  static const std::string present = detect();
  std::vector<std::string> missing;
  for (const std::string& f : needs.features)
    if (present.find(" " + f + " ") == present.npos || (f == "amx_tile" && !may_use_matrix_registers()))
      missing.push_back(f);
  return missing;
}

}  // namespace tenon
