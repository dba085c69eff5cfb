// SPDX-License-Identifier: Apache-2.0
// Linux lets a process use the matrix registers of x86-64 (AMX) once it has asked, as they make its saved
// state 8 KiB larger (Documentation/arch/x86/xstate.rst of the kernel).
#pragma once
#include <sys/syscall.h>
#include <unistd.h>

namespace tenon {

/// Asks; false where the system has no such registers or refuses. Holds for all threads from then on.
inline bool may_use_matrix_registers() {
#if defined(__x86_64__)
  constexpr int kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

}  // namespace tenon
