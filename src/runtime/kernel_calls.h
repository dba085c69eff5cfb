// SPDX-License-Identifier: Apache-2.0
// Packed functions that kernels call (`tir.call_packed`). A kernel says what it calls as text, a line each:
//
//   name of the function
//   none | bool | int | float                      what it gives
//   bool | int | float | text | pointer            an argument: one of the values
//   tensor TYPE RANK ACCESS                        a pointer, the sizes, the strides (elements)
//
// and its values as 64 bits each (floats as a double's image, texts as pointers to what a zero ends); the
// first receives the result. ACCESS is 1 (read), 2 (written) or 3. libtenon_kernel_call makes the call.
// Metadata of an executable: "calls.SYMBOL" holds the names of the functions that a kernel calls, and
// "externals.SYMBOL" those of C functions, one a line.
#pragma once
#include <memory>
#include <vector>

#include "base/function.h"
#include "runtime/executable.h"
#include "runtime/kernel.h"

namespace tenon {

struct LoadOptions;

/// Packed functions of libtenon_kernel_call. The first gives the address of its PackedCall. The others take
/// an address: of KernelNames, whose functions are found (Error "T0609"; it gives the PackedCall, too), of an
/// Executable (Error "T0625" for a C function that this process lacks), of KernelCalls, whose failure is
/// thrown.
inline constexpr const char *kKernelCall = "tenon.kernel.call", *kKernelBind = "tenon.kernel.bind",
                            *kKernelExternals = "tenon.kernel.externals",
                            *kKernelRaise = "tenon.kernel.raise";
/// What metadata of such functions begins with.
inline constexpr const char *kCallsKey = "calls.", *kExternalsKey = "externals.";
bool names_any(const Executable& e, const char* key);

using PackedCall = int32_t (*)(const TenonKernelContext* context, const char* text, int64_t* values);
inline constexpr int32_t kCallFailed = -3;

/// What `TenonKernelContext::calls` points to, while kernels of a session run.
struct KernelCalls {
  struct Named {
    std::string name;
    Function function;
  };
  const std::vector<Named>* functions = nullptr;
  std::unique_ptr<Error> failure;  ///< why the last call gave kCallFailed
};

struct KernelNames {
  const Executable* executable;
  const LoadOptions* options;
  std::vector<KernelCalls::Named>* functions;
};

}  // namespace tenon
