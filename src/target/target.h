// SPDX-License-Identifier: Apache-2.0
// Target: what a machine offers, as plain data. Decisions read this record only, so builds are reproducible
// and cross-compile; measurements of the machine never enter it unasked.
#pragma once
#include "base/container.h"
#include "base/reflect.h"

namespace tenon {

struct TargetNode : Object {
  static constexpr std::string_view type_key = "target.Target";
  std::string kind = "llvm";  ///< of code generator (target_kind.h): "llvm", "c"
  std::string triple;         ///< LLVM triple
  std::string cpu;            ///< LLVM CPU name to tune for ("znver5"); `features` alone say what may be used
  Array<std::string> features;  ///< as /proc/cpuinfo spells them: "avx2", "fma", "avx512f", …
  int64_t vector_bits = 128;    ///< preferred vector width
  int64_t vector_registers = 16;
  int64_t l1d_bytes = 32 << 10, l2_bytes = 512 << 10, l3_bytes = 4 << 20, line_bytes = 64;
  int64_t cores = 1;              ///< physical cores to plan for; the result never depends on it
  int64_t fma_ports = 2;          ///< multiply-adds of full vectors that begin in a cycle
  double bf16_dots = 2;           ///< dot products of bfloat16 over full vectors that begin in a cycle
  int64_t load_ports = 2;         ///< full vectors that are loaded from the first cache in a cycle
  int64_t fma_latency = 4;        ///< cycles from one multiply-add of a chain to the next
  double l2_bandwidth = 64;       ///< bytes a cycle from the second cache to the first
  double l3_bandwidth = 32;       ///< bytes a cycle of one core from the third cache
  double memory_bandwidth = 6.4;  ///< bytes a cycle of one core from memory
  int64_t fork_ns = 4096;         ///< to wake the other threads for a parallel loop and to wait for their end
  bool fma = false;
  Array<std::string>
      libs;  ///< libraries that may be called: "cblas", "dnnl"; none unless named ("-libs=cblas")
  static void fields(auto& f) {
    f.add("kind", &TargetNode::kind)
        .add("triple", &TargetNode::triple)
        .add("cpu", &TargetNode::cpu)
        .add("features", &TargetNode::features)
        .add("vector_bits", &TargetNode::vector_bits)
        .add("vector_registers", &TargetNode::vector_registers)
        .add("l1d_bytes", &TargetNode::l1d_bytes)
        .add("l2_bytes", &TargetNode::l2_bytes)
        .add("l3_bytes", &TargetNode::l3_bytes)
        .add("line_bytes", &TargetNode::line_bytes)
        .add("cores", &TargetNode::cores)
        .add("fma_ports", &TargetNode::fma_ports)
        .add("bf16_dots", &TargetNode::bf16_dots)
        .add("load_ports", &TargetNode::load_ports)
        .add("fma_latency", &TargetNode::fma_latency)
        .add("l2_bandwidth", &TargetNode::l2_bandwidth)
        .add("l3_bandwidth", &TargetNode::l3_bandwidth)
        .add("memory_bandwidth", &TargetNode::memory_bandwidth)
        .add("fork_ns", &TargetNode::fork_ns)
        .add("fma", &TargetNode::fma)
        .add("libs", &TargetNode::libs);
  }
  bool has(std::string_view feature) const;
  bool has_library(std::string_view name) const;
  int64_t lanes(DataType t) const { return vector_bits / t.bits; }  ///< vector lanes of a scalar type
};
using Target = Ref<TargetNode>;

/// The machine this process runs on, from cpuid and the operating system's cache records.
Target host_target();
/// A registered kind and its options: "llvm", "llvm -mcpu=x86-64-v3", "llvm -libs=cblas", "c"; or a file of a
/// record, "@machine.json"; or a record, as to_json writes it. DiagnosticError "T0901" for words that are not
/// known, with the nearest one.
Target parse_target(std::string_view text);
std::string to_string(const Target& target);
std::string to_json(const Target& target);
Target target_from_json(std::string_view text);

}  // namespace tenon
