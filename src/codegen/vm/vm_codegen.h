// SPDX-License-Identifier: Apache-2.0
// From graph functions of call_tir to the VM's program: the last step of the graph level.
#pragma once
#include "ir/module.h"
#include "runtime/executable.h"
#include "target/target.h"

namespace tenon {

/// Every graph function of the module (planned by plan_memory, or not) as VM functions; programs are kernels
/// by their global symbol. DiagnosticError "T0811" names operators that nothing lowered, with their place.
Executable vm_codegen(const IRModule& module, const Target& target);

}  // namespace tenon
