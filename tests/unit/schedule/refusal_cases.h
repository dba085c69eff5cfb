// SPDX-License-Identifier: Apache-2.0
// Programs and steps that the engine refuses, one for each sentence that random sequences seldom hear.
#pragma once
#include <sstream>

#include "steps.h"

namespace tenon::testing {

using Said = std::set<std::pair<std::string, std::string>>;

/// `text` with each line further right.
inline std::string indented(const std::string& text, size_t by) {
  std::string out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out += std::string(by, ' ') + line + "\n";
  return out;
}
inline Program program_of(const std::string& params, const std::string& body) {
  return text_program("case", "@T.prim_func\ndef main(" + params + "):\n" + indented(body, 4));
}
/// A 4 × 6 nest around one block.
inline std::string nest(const std::string& block, const std::string& body, const std::string& rows = "4",
                        const std::string& iterators = "vi, vj = T.axis.remap(\"SS\", [i, j])") {
  return "for i in range(" + rows + "):\n    for j in range(6):\n        with T.block(\"" + block + "\"):\n" +
         indented(iterators + "\n" + body, 12);
}
inline const std::string kBuffers =
    "A: T.Buffer((4, 6), \"float32\"), B: T.Buffer((4,), \"float32\"), D: T.Buffer((4, 6), \"float32\")";
inline const std::string kC = "C = T.alloc_buffer((4, 6), \"float32\")\n";
/// C = …, D = …
inline Program two(const std::string& c, const std::string& d = "D[vi, vj] = C[vi, vj] + T.float32(1)",
                   const std::string& between = "") {
  return program_of(kBuffers, kC + nest("C", c) + between + nest("D", d));
}
/// R[i] = Σ …, D = …
inline Program sum_then(const std::string& d, const std::string& update = "R[vi] = R[vi] + A[vi, vk]",
                        const std::string& between = "", const std::string& d_rows = "4",
                        const std::string& init = "R[vi] = T.float32(0)") {
  return program_of(
      "A: T.Buffer((4, 6), \"float32\"), B: T.Buffer((4,), \"float32\"), D: T.Buffer((4,), \"float32\"), "
      "O: T.Buffer((4,), \"float32\")",
      "R = T.alloc_buffer((4,), \"float32\")\nE = T.alloc_buffer((4,), \"float32\")\n"
      "for i in range(4):\n    for k in range(6):\n        with T.block(\"R\"):\n"
      "            vi, vk = T.axis.remap(\"SR\", [i, k])\n            with T.init():\n" +
          indented(init, 16) + indented(update, 12) + between + "for i in range(" + d_rows +
          "):\n    with T.block(\"D\"):\n        vi = T.axis.spatial(" + d_rows + ", i)\n" + indented(d, 8));
}
/// A nest of three loops with an init: kinds and bindings as given.
inline Program contraction(
    const std::string& iterators, const std::string& update,
    const std::string& loops = "for i in range(4):\n    for j in range(4):\n        for k in range(5):\n",
    const std::string& init = "C[vi, vj] = T.float32(0)", const std::string& shape = "(4, 4)") {
  return program_of(
      "A: T.Buffer((4, 5), \"float32\"), B: T.Buffer((4, 5), \"float32\"), C: T.Buffer(" + shape +
          ", \"float32\")",
      loops + indented("with T.block(\"C\"):\n" +
                           indented(iterators + "\nwith T.init():\n" + indented(init, 4) + update, 4),
                       12));
}

struct Refuser {
  Said& said;
  template <class F>
  void operator()(const Program& p, const std::string& code, const std::string& words, F steps) {
    try {
      Schedule s(p.function);
      steps(s);
      ADD_FAILURE() << "accepted, expected " << code << ": " << words;
    } catch (const ScheduleError& e) {
      EXPECT_EQ(e.code, code) << e.what();
      EXPECT_NE(e.message.find(words), std::string::npos) << e.what() << "\nexpected: " << words;
      said.emplace(e.code, e.message);
    }
  }
};
inline LoopRV loop_around(Schedule& s, const std::string& block, size_t at) {
  return s.get_loops(s.get_block(block)).at(at);
}

inline const std::string kPlain = "C[vi, vj] = A[vi, vj] * T.float32(2)";
inline const std::string kShifted = "C[vi, (vj + 1) % 6] = A[vi, vj]";
inline const std::string kTwice = "C[vi, vj] = A[vi, vj]\nC[vi, vj] = A[vi, vj] * T.float32(2)";
inline const std::string kEffect =
    "C[vi, vj] = T.call(\"tir.call_extern\", \"f\", A[vi, vj], dtype=\"float32\")";
inline const std::string kGuarded = "T.where(i < 3)\nC[vi, vj] = A[vi, vj]";
inline const std::string kUnread = "D[vi, vj] = A[vi, vj]";

void refuse_moves(Refuser&);    // inlining, compute_at, epilogues, rolling buffers
void refuse_loops(Refuser&);    // loops, reductions, blocks of tiles
void refuse_buffers(Refuser&);  // caches, layouts, padding, annotations, traces

}  // namespace tenon::testing
