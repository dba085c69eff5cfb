// SPDX-License-Identifier: Apache-2.0
// Names of memories that buffers lie in: a kind, and behind a point a part of it that a machine gives a name.
#pragma once
#include <string>
#include <string_view>

namespace tenon::tir {

struct MemoryKind {
  std::string_view name;
  bool of_device = false;  ///< other processors do not have it
};
/// Memory of every processor and the matrix registers that schedules ask for; of devices: a block's, a
/// warp's, matrix fragments, textures, of Trainium its banks.
inline constexpr MemoryKind kMemoryKinds[] = {{"global"},
                                              {"local"},
                                              {"matrix"},
                                              {"shared", true},
                                              {"warp", true},
                                              {"wmma.matrix_a", true},
                                              {"wmma.matrix_b", true},
                                              {"wmma.accumulator", true},
                                              {"texture", true},
                                              {"amx.tmm", true},
                                              {"m16n8k8.matrixA", true},
                                              {"m16n8k8.matrixB", true},
                                              {"m16n8k8.matrixC", true},
                                              {"metal.simdgroup", true},
                                              {"trn.sbuf", true},
                                              {"trn.psum", true}};

/// `global`, or `global.vtcm`; a buffer that names none is in global memory.
constexpr bool known_memory_scope(std::string_view scope) {
  if (scope.empty()) return true;
  for (const MemoryKind& kind : kMemoryKinds)
    if (scope == kind.name || (scope.starts_with(kind.name) && scope[kind.name.size()] == '.')) return true;
  return false;
}
/// Memory that some device alone has: a kind of its own, or a part that it gives a name.
constexpr bool is_device_memory(std::string_view scope) {
  for (const MemoryKind& kind : kMemoryKinds)
    if (scope == kind.name) return kind.of_device;
  return !scope.empty();
}

/// What a hint says of them.
inline std::string known_memories() {
  std::string out = "memories are ";
  for (const MemoryKind& kind : kMemoryKinds) out += std::string(kind.name) + ", ";
  return out + "and parts of them, such as shared.dyn";
}

}  // namespace tenon::tir
