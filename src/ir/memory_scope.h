// SPDX-License-Identifier: Apache-2.0
// Names of memories that buffers lie in: a kind, and behind a point a part of it that a machine gives a name.
#pragma once
#include <array>
#include <string>
#include <string_view>

namespace tenon::tir {

/// Memory of every processor, of devices (a block's, a warp's, matrix fragments, textures), and the matrix
/// registers that schedules ask for.
inline constexpr std::array<std::string_view, 14> kMemoryKinds = {
    "global",          "local",           "shared",           "warp",
    "wmma.matrix_a",   "wmma.matrix_b",   "wmma.accumulator", "texture",
    "amx.tmm",         "m16n8k8.matrixA", "m16n8k8.matrixB",  "m16n8k8.matrixC",
    "metal.simdgroup", "matrix"};

/// `global`, or `global.vtcm`; a buffer that names none is in global memory.
constexpr bool known_memory_scope(std::string_view scope) {
  if (scope.empty()) return true;
  for (const std::string_view kind : kMemoryKinds)
    if (scope == kind || (scope.starts_with(kind) && scope[kind.size()] == '.')) return true;
  return false;
}

/// What a hint says of them.
inline std::string known_memories() {
  std::string out = "memories are ";
  for (const std::string_view kind : kMemoryKinds) out += std::string(kind) + ", ";
  return out + "and parts of them, such as shared.dyn";
}

}  // namespace tenon::tir
