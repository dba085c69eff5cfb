// SPDX-License-Identifier: Apache-2.0
// tenon reduce: the smallest module found on which the same pass still does the same wrong thing.
#pragma once
#include <optional>

#include "tools/verify_passes.h"

namespace tenon {

/// How a module fails: the first pass that changed a result (code "T1010"), threw, or left a module that the
/// verifier refuses; `pass` is "codegen" when only the compiled model differs.
struct PassFailure {
  std::string pass, code, message;
  bool same_as(const PassFailure& o) const { return pass == o.pass && code == o.code; }
};

/// Runs `passes` on the module with a copy of `context` and executes `options.function` around each of them;
/// the first failure. With `compile`, what the passes leave is compiled and run as well when they agree.
/// `evaluate` as in verify_passes. Nothing when all agree, or when the module cannot be run to begin with.
std::optional<PassFailure> find_failure(const IRModule& module, std::span<const Pass> passes,
                                        const PassContext& context, const VerifyPassesOptions& options = {},
                                        bool compile = false, const Evaluate& evaluate = {});

struct ReduceOptions {
  std::string function = "main";
  int max_tries = 2000;
  std::function<void(int tries, size_t bindings)> progress;  ///< called when a smaller module was found
};

/// Delta debugging (Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input, 2002) on the
/// bindings of one function: earlier and single results, values turned into parameters, operators left out,
/// branches taken, constants turned into parameters, as long as `fails` holds. The module itself when nothing
/// smaller fails.
IRModule reduce_module(IRModule module, const std::function<bool(const IRModule&)>& fails,
                       const ReduceOptions& options = {});

}  // namespace tenon
