/* SPDX-License-Identifier: Apache-2.0
 * The kernel calling convention: what compiled tensor programs look like to the runtime. C, because the C
 * code generator prints it and artifacts are checked against its version.
 *
 *   int32_t kernel(void* const* buffers, const int64_t* scalars, const TenonKernelContext* context);
 *
 * `buffers`: data pointer of every buffer parameter (inputs, then outputs), in parameter order. `scalars`:
 * every scalar parameter and symbolic dimension, in parameter order; floats are their 64-bit double image.
 * Returns 0, or a code: the VM turns it into an error (assertion k of the kernel: 1 + k, out of memory: -1,
 * cancelled: -2, a function that it calls failed: -3). Kernels never call libc but for mathematics, and never
 * allocate except by `workspace`; what else they call the program says. */
#pragma once
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_KERNEL_ABI 2

/* One task of a parallel loop: runs iterations [begin, end). `closure` is the loop's captured values. */
struct TenonKernelContext;
typedef int32_t (*TenonParallelBody)(void* closure, int64_t begin, int64_t end,
                                     const struct TenonKernelContext* context);

typedef struct TenonKernelContext {
  /* Runs body over [0, extent), split statically over the pool; returns the first non-zero code.
   * `cost` estimates one iteration in nanoseconds: small loops run on the caller alone. */
  int32_t (*parallel_for)(const struct TenonKernelContext* context, TenonParallelBody body, void* closure,
                          int64_t extent, int64_t cost);
  /* Scratch memory of this thread, 64-byte aligned, valid until the matching release; null when out of
   * memory. */
  void* (*workspace)(const struct TenonKernelContext* context, int64_t bytes);
  void (*workspace_release)(const struct TenonKernelContext* context, void* memory);
  void* runtime; /* owned by the runtime */
  /* Calls a packed function: what, and with which values, is said by runtime/kernel_calls.h. Returns 0 or -3.
   * Not inside of parallel loops. */
  int32_t (*call)(const struct TenonKernelContext* context, const char* text, int64_t* values);
  void* calls; /* owned by the runtime */
} TenonKernelContext;

typedef int32_t (*TenonKernel)(void* const* buffers, const int64_t* scalars,
                               const TenonKernelContext* context);

#ifdef __cplusplus
}
#endif
