// SPDX-License-Identifier: Apache-2.0
// Kinds of targets: the first word of a target's text, and the options behind it. A kind is registered by the
// code generator that makes code for it, so that what can be named is what can be compiled for.
#pragma once
#include <functional>

#include "target/target.h"

namespace tenon {

/// Where the programs of a kind of target run: what strategies and checks go by.
enum class DeviceKind : uint8_t { cpu, gpu };

/// An option of a target's text, "-NAME=VALUE".
struct TargetOption {
  std::string name;  ///< "mcpu"
  std::string doc;   ///< one line, with the values it takes
  /// Writes the value into the record; DiagnosticError "T0901" for one that it does not take.
  std::function<void(Target& record, const std::string& value)> set;
};

struct TargetKind {
  std::string name;  ///< "llvm"
  std::string doc;   ///< one line
  DeviceKind device = DeviceKind::cpu;
  /// This machine is of the kind with the highest rank when none is named; 0: of another one.
  int host_rank = 0;
  /// The code generator makes machine instructions, so that those which the record's features name can be
  /// asked for by programs: fused multiply-add, dot products, conversions of narrow floats. False: it makes
  /// text for a compiler that finds its own.
  bool selects_instructions = false;
  std::vector<TargetOption> options;
};

/// Error "T0940" when a kind of that name is registered already.
void register_target_kind(TargetKind kind);
/// Null when there is none. What is returned lives as long as the process.
const TargetKind* find_target_kind(std::string_view name);
/// All of them, sorted by name.
std::vector<const TargetKind*> target_kinds();

/// The kind that this machine is of when none is named.
std::string host_kind();

/// As TargetKind says of the record's kind; a kind that is not registered is a processor without a code
/// generator.
DeviceKind device_of(const Target& target);
bool selects_instructions(const Target& target);

/// The options of kinds whose records describe a processor: -mcpu and -libs.
std::vector<TargetOption> processor_options();

/// A library whose functions operators can be computed by (op/strategy.h): what -libs may name.
void register_target_library(const std::string& name);

}  // namespace tenon
