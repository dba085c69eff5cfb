// SPDX-License-Identifier: Apache-2.0
// Refused: inlining, moving blocks, epilogues, rolling buffers.
#include "refusal_cases.h"

namespace tenon::testing {

void refuse_moves(Refuser& refuse) {
  auto inline_c = [](Schedule& s) { s.compute_inline(s.get_block("C")); };
  auto inline_d = [](Schedule& s) { s.reverse_compute_inline(s.get_block("D")); };
  auto roll_c = [](Schedule& s) { s.rolling_buffer(s.get_block("C"), 0); };
  auto c_at_d = [](Schedule& s) { s.compute_at(s.get_block("C"), loop_around(s, "D", 0)); };
  auto d_at_c = [](Schedule& s) { s.reverse_compute_at(s.get_block("D"), loop_around(s, "C", 0)); };

  // block_rows, hoist
  auto block_rows = [](int64_t parts, int64_t count) {
    return [=](Schedule& t) { t.block_rows(t.get_block("D"), parts, count); };
  };
  refuse(two(kTwice), "T0783", "the program's stages share no axis", block_rows(1, 2));
  refuse(program_of(kBuffers,
                    kC + nest("F", "C[vi, vj] = T.float32(0)") +
                        nest("C", kPlain, "3", "vi = T.axis.spatial(4, i)\nvj = T.axis.spatial(6, j)") +
                        nest("D", "D[vi, vj] = C[vi, vj]")),
         "T0783", "the program's stages share no axis", block_rows(1, 2));
  refuse(two(kPlain), "T0782", "6 rows have no 4 equal parts", block_rows(4, 1));
  refuse(two(kPlain), "T0782", "a part of 3 rows has no block of 4", block_rows(2, 4));
  refuse(softmax(tir::var("n"), 9), "T0782", "rows of unknown number are one part",
         [](Schedule& t) { t.block_rows(t.get_block("out"), 2, 4); });
  Program aliased = two(kPlain);
  aliased.function.edit()->attrs.set("tir.noalias", Any(false));
  refuse(aliased, "T0782", "blocks of 4 in 6 rows overlap", block_rows(1, 4));
  refuse(two(kPlain), "T0750", "no block stands around it that a whole program was put into",
         [](Schedule& t) { t.hoist(t.get_block("C")); });
  refuse(program_of(kBuffers, kC + "E = T.alloc_buffer((4, 6), \"float32\")\n" + nest("C", kPlain) +
                                  nest("E", "E[vi, vj] = C[vi, vj]") + nest("D", "D[vi, vj] = E[vi, vj]")),
         "T0733", "uses 'C' too", [](Schedule& t) {
           t.block_rows(t.get_block("D"), 1, 2);
           t.hoist(t.get_block("E"));
         });
  refuse(two(kPlain), "T0750", "it differs from one run of", [](Schedule& t) {
    t.block_rows(t.get_block("D"), 1, 2);
    t.hoist(t.get_block("C"));
  });
  // copies that go back where other runs of the block around write, too
  auto in_rows = [&](auto work) {
    return [=](Schedule& t) {
      t.block_rows(t.get_block("D"), 1, 3);
      work(t, t.get_block("D"));
    };
  };
  auto cache_d = [](Schedule& t, BlockRV d) { t.cache_write(d, 0, "local"); };
  refuse(two(kPlain), "T0774", "is not provably a box of 'D'", in_rows([=](Schedule& t, BlockRV d) {
           t.split(t.get_loops(d).back(), {-1, 2});
           cache_d(t, d);
         }));
  refuse(program_of("A: T.Buffer((4, 6), \"float32\"), D: T.Buffer((24,), \"float32\")",
                    kC + nest("C", kPlain) + nest("D", "D[vj * 4 + vi] = C[vi, vj]")),
         "T0774", "is not provably a box of 'D'", in_rows(cache_d));
  refuse(two(kPlain, "D[vi, vj] = D[vi, vj] + C[vi, vj]"), "T0759", "'D' lives outside block 'rows'",
         in_rows([](Schedule& t, BlockRV d) { t.cache_inplace(d, 0, "local"); }));
  refuse(two(kPlain), "T0759", "'D' lives outside block 'rows'", in_rows([](Schedule& t, BlockRV d) {
           t.reindex_cache_write(d, 0, "local", index_map(2, [](const Array<tir::VarRef>& i) {
                                   return Array<PrimExpr>{i[1], i[0]};
                                 }));
         }));
  refuse(program_of(kBuffers, kC + nest("C", kPlain) +
                                  "for i in range(4):\n    for j in range(6):\n        for k in range(4):\n"
                                  "            with T.block(\"D\"):\n"
                                  "                vi, vj, vk = T.axis.remap(\"SSR\", [i, j, k])\n"
                                  "                with T.init():\n"
                                  "                    D[vi, vj] = T.float32(0)\n"
                                  "                D[vi, vj] = D[vi, vj] + C[vi, vk] * A[vk, vj]\n"),
         "T0759", "'D' lives outside block 'rows'",
         in_rows([](Schedule& t, BlockRV d) { t.pad_einsum(d, {1, 4, 1}); }));

  // compute_inline
  refuse(two(kTwice), "T0731", "its body is not a single store", inline_c);
  refuse(two(kEffect), "T0731", "so it must be computed exactly once", inline_c);
  refuse(two(kShifted), "T0734", "one for each dimension", inline_c);
  refuse(program_of(kBuffers, kC +
                                  "for i in range(4):\n    for j in range(6):\n        for k in range(2):\n"
                                  "            with T.block(\"C\"):\n"
                                  "                vi, vj, vk = T.axis.remap(\"SSS\", [i, j, k])\n"
                                  "                C[vi, vj] = A[vi, vj] + T.cast(vk, \"float32\")\n" +
                                  nest("D", "D[vi, vj] = C[vi, vj]")),
         "T0734", "its value depends on iterator 'vk'", inline_c);
  refuse(two(kPlain, kUnread), "T0735", "no block reads 'C'", inline_c);

  // reverse_compute_inline
  refuse(two(kPlain, "D[vi, vj] = D[vi, vj] + C[vi, vj]"), "T0730", "only element-wise blocks", inline_d);
  refuse(two(kPlain, "D[vi, vj] = C[vi, vj]\nD[vi, vj] = C[vi, vj] * T.float32(2)"), "T0731",
         "its body is not a single store", inline_d);
  refuse(two(kPlain, kUnread), "T0737", "it reads nothing that a block of the program makes", inline_d);
  refuse(two(kPlain, "D[vi, vj] = C[vi, vj]", nest("E", "C[vi, vj] = A[vi, vj]")), "T0733",
         "is written by several blocks", inline_d);
  refuse(two(kTwice), "T0731", "its body is not a single store", inline_d);
  refuse(two(kShifted), "T0734", "it does not write 'C' at an index made of its own iterators", inline_d);
  refuse(two(kPlain, "D[vi, vj] = C[vi, 5 - vj]"), "T0734", "it does not read 'C' at one index", inline_d);
  refuse(two(kPlain, "T.reads(A[vi, vj], C[vi, vj])\nT.writes(D[vi, vj])\nD[vi, vj] = A[vi, vj]"), "T0737",
         "it only mentions 'C'", inline_d);
  refuse(program_of(kBuffers,
                    "C = T.alloc_buffer((4,), \"float32\")\nfor i in range(4):\n    with T.block(\"C\"):\n"
                    "        vi = T.axis.spatial(4, i)\n        C[vi] = B[vi]\n" +
                        nest("D", "D[vi, vj] = C[vi]")),
         "T0734", "iterator 'vj' is no index of 'C'", inline_d);
  refuse(program_of(kBuffers, kC + nest("C", kPlain) + nest("D", "D[vi, vj] = C[vi, vj]", "3")), "T0740",
         "does not run over the whole dimension", inline_d);
  refuse(program_of(kBuffers, kC + nest("C", kPlain, "3") + nest("D", "D[vi, vj] = C[vi, vj]")), "T0740",
         "'C' is refused: iterator 'vi' does not run over the whole dimension", inline_d);
  refuse(two(kPlain, "T.where(i < 3)\nD[vi, vj] = C[vi, vj]"), "T0742", "restricts the block by a predicate",
         inline_d);

  // compute_at, reverse_compute_at
  refuse(two(kPlain), "T0750", "belongs to another block", [](Schedule& s) {
    s.blockize(loop_around(s, "D", 1));
    s.compute_at(s.get_block("C"), loop_around(s, "D", 0));
  });
  refuse(two(kGuarded), "T0742", "which has no meaning elsewhere", c_at_d);
  refuse(two(kShifted), "T0734", "it does not write 'C' at an index", c_at_d);
  refuse(program_of(kBuffers, kC + nest("D", "D[vi, vj] = C[vi, vj]") + nest("C", kPlain)), "T0754",
         "before the block runs", c_at_d);
  refuse(two(kPlain, kUnread), "T0754", "nothing under", c_at_d);
  refuse(program_of(kBuffers, kC + "E = T.alloc_buffer((4, 6), \"float32\")\n" +
                                  nest("C", "C[vi, vj] = E[vi, vj]") + nest("E", "E[vi, vj] = A[vi, vj]") +
                                  nest("D", "D[vi, vj] = C[vi, vj]")),
         "T0741", "after the block reads it", c_at_d);
  refuse(program_of(kBuffers, kC + "E = T.alloc_buffer((4, 6), \"float32\")\n" + nest("C", kPlain) +
                                  nest("E", "E[vi, vj] = A[vi, vj]") +
                                  nest("D", "D[vi, vj] = C[vi, vj] + E[vi, vj]")),
         "T0741", "which it reads, comes after", d_at_c);
  refuse(two(kPlain, "D[vi, vj] = C[vi, 5 - vj]"), "T0734", "it does not read 'C' at one index", d_at_c);
  refuse(program_of(kBuffers, kC + nest("D", "D[vi, vj] = C[vi, vj]") + nest("C", kPlain)), "T0741",
         "is written after the block reads it", d_at_c);
  refuse(two(kPlain, "D[vi, vj] = C[vi, vj]", nest("E", "C[vi, vj] = A[vi, vj]")), "T0741",
         "which it reads, comes after", d_at_c);
  refuse(two(kGuarded), "T0757", "only where a condition holds", d_at_c);
  refuse(matmul(6, 8, 5), "T0757", "mixes spatial and reduction iterators", [](Schedule& s) {
    const std::vector<LoopRV> l = s.get_loops(s.get_block("C"));
    s.fuse({l[1], l[2]});
    s.reverse_compute_at(s.get_block("D"), l[0]);
  });
  refuse(program_of(kBuffers, kC + "E = T.alloc_buffer((4, 6), \"float32\")\n" + nest("C", kPlain) +
                                  nest("E", "E[vi, vj] = A[vi, vj]") + nest("D", "D[vi, vj] = C[vi, vj]")),
         "T0756", "nothing under",
         [](Schedule& s) { s.reverse_compute_at(s.get_block("D"), loop_around(s, "E", 0)); });
  refuse(two(kPlain, "D[vi, vj] = C[vi, vj]",
             "E = T.alloc_buffer((4, 6), \"float32\")\n" + nest("E", "E[vi, vj] = D[vi, vj]")),
         "T0741", "before the block writes it", d_at_c);
  refuse(two(kShifted), "T0757", "is not a box of 'C'",
         [](Schedule& s) { s.reverse_compute_at(s.get_block("D"), loop_around(s, "C", 1)); });

  // fuse_reduction_epilogue
  auto epilogue = [](Schedule& s) { s.fuse_reduction_epilogue(s.get_block("R"), s.get_block("D")); };
  const std::string plus = "D[vi] = R[vi] + B[vi]";
  refuse(sum_then(plus), "T0750", "belongs to another block", [](Schedule& s) {
    s.blockize(loop_around(s, "R", 1));
    s.fuse_reduction_epilogue(s.get_block("R"), s.get_block("D"));
  });
  refuse(sum_then(plus, "R[vi] = R[vi] - A[vi, vk]"), "T0797", "it is no sum, product, minimum or maximum",
         epilogue);
  refuse(sum_then(plus, "R[vi] = R[vi] + A[vi, vk] * R[vi]"), "T0797", "one element with one value",
         epilogue);
  refuse(sum_then("D[vi] = D[vi] + R[vi]"), "T0730", "over all of a reduction", epilogue);
  refuse(sum_then(plus + "\nD[vi] = R[vi]"), "T0731", "a single store of a value", epilogue);
  refuse(sum_then("D[vi] = B[vi] + B[vi]"), "T0737", "it does not read 'R' after", epilogue);
  refuse(sum_then("D[vi] = R[vi] + R[vi] * B[vi]"), "T0797", "the other value reads 'R' too", epilogue);
  auto one = [](const std::string& name, const std::string& body) {
    return "for i in range(4):\n    with T.block(\"" + name + "\"):\n        vi = T.axis.spatial(4, i)\n" +
           indented(body, 8);
  };
  refuse(sum_then("D[vi] = R[vi] + E[vi]", "R[vi] = R[vi] + A[vi, vk]", one("E", "E[vi] = B[vi]")), "T0741",
         "is made after", epilogue);
  refuse(sum_then(plus, "R[vi] = R[vi] + A[vi, vk]", one("O", "O[vi] = D[vi]")), "T0741",
         "it reads 'D' before", epilogue);
  refuse(sum_then("D[vi // 2] = R[vi] + B[vi]"), "T0774", "at an index of its own", epilogue);
  refuse(sum_then("D[vi] = R[3 - vi] + B[vi]"), "T0734", "it does not use 'R'", epilogue);
  refuse(sum_then(plus, "R[vi] = R[vi] + A[vi, vk]", "", "3"), "T0740",
         "does not run over the whole dimension", epilogue);
  refuse(program_of("A: T.Buffer((4, 6), \"float32\"), B: T.Buffer((4,), \"float32\"), D: T.Buffer((4, 6), "
                    "\"float32\")",
                    "R = T.alloc_buffer((4,), \"float32\")\nfor i in range(4):\n    for k in range(6):\n"
                    "        with T.block(\"R\"):\n            vi, vk = T.axis.remap(\"SR\", [i, k])\n"
                    "            with T.init():\n                R[vi] = T.float32(0)\n"
                    "            R[vi] = R[vi] + A[vi, vk]\n" +
                        nest("D", "D[vi, vj] = R[vi] + B[vi]")),
         "T0734", "iterator 'vj' is no index of 'R'", epilogue);

  // rolling_buffer
  refuse(two("C[vi, vj] = C[vi, vj] + A[vi, vj]"), "T0752", "it accumulates or reads what it writes", roll_c);
  refuse(two(kTwice), "T0731", "its body is not a single store", roll_c);
  refuse(two(kEffect), "T0731", "its value has effects", roll_c);
  refuse(two(kShifted), "T0734", "one for each dimension", roll_c);
  refuse(two(kGuarded), "T0742", "restricts the block by a predicate", roll_c);
  auto rows = [&](const std::string& c, const std::string& d, const std::string& jc = "6",
                  const std::string& jd = "6", const std::string& shape = "(12, 12)") {
    return program_of("A: T.Buffer((12, 12), \"float32\"), D: T.Buffer((12, 12), \"float32\")",
                      "C = T.alloc_buffer(" + shape +
                          ", \"float32\")\nfor i in range(4):\n    for j in range(" + jc +
                          "):\n        with T.block(\"C\"):\n" + indented(c, 12) + "    for j in range(" +
                          jd + "):\n        with T.block(\"D\"):\n" + indented(d, 12));
  };
  const std::string own = "vi, vj = T.axis.remap(\"SS\", [i, j])\n";
  refuse(rows(own + "C[vi, vj] = A[vi, vj]", own + "D[vi, vj] = A[vi, vj]"), "T0735", "no block reads 'C'",
         roll_c);
  refuse(rows("vi = T.axis.spatial(12, i)\nvj = T.axis.spatial(12, j)\nC[vi, vj] = A[vi, vj]",
              own + "D[vi, vj] = C[vi, vj]", "i + 2", "1"),
         "T0706", "its window changes size", roll_c);
  refuse(rows("vi = T.axis.spatial(12, i)\nvj = T.axis.spatial(12, i + j)\nC[vi, vj] = A[vi, vj]",
              "vi = T.axis.spatial(12, i)\nvj = T.axis.spatial(12, i + j)\nD[vi, vj] = C[vi, vj]"),
         "T0706", "moves its window in two dimensions", roll_c);
  refuse(rows("vi = T.axis.spatial(12, j)\nvj = T.axis.spatial(12, 0)\nC[vi, vj] = A[vi, vj]",
              "vi = T.axis.spatial(12, j)\nvj = T.axis.spatial(12, i)\nD[vi, vj] = C[vi, 0]"),
         "T0706", "does not move its window", roll_c);
  refuse(rows("vi = T.axis.spatial(12, i - 2 + j)\nvj = T.axis.spatial(12, 0)\n"
              "C[vi, vj] = A[vi, vj]",
              "vi = T.axis.spatial(12, i)\nvj = T.axis.spatial(12, j)\nD[vi, vj] = C[vi, 0]"),
         "T0706", "its window may begin before 'C'", roll_c);
  refuse(rows("vi = T.axis.spatial(12, i + j)\nvj = T.axis.spatial(12, 0)\nC[vi, vj] = A[vi, vj]",
              "vi = T.axis.spatial(12, i)\nvj = T.axis.spatial(12, j)\nD[vi, vj] = C[11, 0]"),
         "T0706", "it reads more of 'C' than the window", roll_c);
  auto rolled = [](Schedule& s) {
    s.compute_at(s.get_block("T"), loop_around(s, "O", 0));
    s.rolling_buffer(s.get_block("T"), 0);
  };
  refuse(row_windows(5, 4, 3, 1), "T0706", "it uses the circular buffer 'T'", [&](Schedule& s) {
    rolled(s);
    s.compute_at(s.get_block("O"), loop_around(s, "T", 1));
  });
  refuse(row_windows(5, 4, 3, 1), "T0706", "it uses the circular buffer 'T_local'", [&](Schedule& s) {
    rolled(s);
    s.read_at(loop_around(s, "O", 1), s.get_block("O"), 0, "local");
    const BlockRV out = s.cache_write(s.get_block("O"), 0, "local");
    s.compute_at(s.get_block("O"), s.get_loops(out)[0]);
  });
  refuse(row_windows(5, 4, 3, 1), "T0706", "leaves elements of its window of 'T' out", [](Schedule& s) {
    s.compute_at(s.get_block("T"), loop_around(s, "O", 0));
    s.split(loop_around(s, "T", 1), {-1, 4});
    s.rolling_buffer(s.get_block("T"), 0);
  });
  refuse(row_windows(5, 4, 3, 1), "T0781", "it fills a circular buffer", [&](Schedule& s) {
    rolled(s);
    s.unannotate(s.get_block("T"), "rolling_buffer");
  });
}

}  // namespace tenon::testing
