// SPDX-License-Identifier: Apache-2.0
#include "codegen/kernel_abi_text.h"

#include <fmt/format.h>

#include "runtime/kernel.h"

namespace tenon::codegen {

std::string kernel_abi_text() {
  return R"(#ifndef TENON_KERNEL_ABI
/* The kernel calling convention: data pointers of the buffers, 64-bit scalars (floats as the bits of a double),
 * and what the runtime offers. Returns 0, or a code: 1 + k when assertion k fails, -1 when out of memory, -3 when a
 * function that the kernel calls fails. */
)" + fmt::format("#define TENON_KERNEL_ABI {}\n", TENON_KERNEL_ABI) +
         R"(struct TenonKernelContext;
typedef int32_t (*TenonParallelBody)(void* closure, int64_t begin, int64_t end, const struct TenonKernelContext* context);
typedef struct TenonKernelContext {
  int32_t (*parallel_for)(const struct TenonKernelContext* context, TenonParallelBody body, void* closure, int64_t extent, int64_t cost);
  void* (*workspace)(const struct TenonKernelContext* context, int64_t bytes);
  void (*workspace_release)(const struct TenonKernelContext* context, void* memory);
  void* runtime;
  int32_t (*call)(const struct TenonKernelContext* context, const char* text, int64_t* values);
  void* calls;
} TenonKernelContext;
typedef int32_t (*TenonKernel)(void* const* buffers, const int64_t* scalars, const TenonKernelContext* context);
#endif
)";
}

}  // namespace tenon::codegen
