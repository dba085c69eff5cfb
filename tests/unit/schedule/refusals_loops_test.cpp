// SPDX-License-Identifier: Apache-2.0
// Refused: loops, reductions, blocks of tiles, threads.
#include "refusal_cases.h"
#include "schedule/tensor_intrin.h"

namespace tenon::testing {

void refuse_loops(Refuser& refuse) {
  const std::string own = "vi, vj = T.axis.remap(\"SS\", [i, j])\n";
  auto triangle = [&](const std::string& block) {
    return program_of(kBuffers,
                      "for i in range(4):\n    for j in range(i + 1):\n        with T.block(\"D\"):\n" +
                          indented(block, 12));
  };
  const Program lower =
      triangle("vi = T.axis.spatial(4, i)\nvj = T.axis.spatial(6, j)\nD[vi, vj] = A[vi, vj]");
  refuse(lower, "T0721", "do not form a rectangle",
         [](Schedule& s) { s.fuse(s.get_loops(s.get_block("D"))); });
  refuse(lower, "T0724", "would come inside it",
         [](Schedule& s) { s.reorder({loop_around(s, "D", 1), loop_around(s, "D", 0)}); });
  refuse(lower, "T0744", "its bounds depend on", [](Schedule& s) { s.blockize(loop_around(s, "D", 1)); });
  refuse(
      program_of(kBuffers, "for i, j in T.grid(4, 6):\n    with T.block(\"D\"):\n" +
                               indented(own + "D[vi, vj] = A[vi, vj]\nT.call_packed(\"test.seen\", vi)", 8)),
      "T0725", "the program calls functions that are not seen here",
      [](Schedule& s) { s.reorder({loop_around(s, "D", 1), loop_around(s, "D", 0)}); });
  refuse(two(kPlain), "T0720", "fuse needs at least one loop", [](Schedule& s) { s.fuse({}); });
  refuse(two(kPlain), "T0718", "is not a usable number of iterations",
         [](Schedule& s) { s.split(loop_around(s, "C", 0), {-1, -3}); });
  refuse(two(kPlain), "T0718", "is not a usable number of iterations",
         [](Schedule& s) { s.loop_partition(loop_around(s, "C", 0), {-1, -3}); });
  refuse(two(kPlain), "T0711", "carries the annotation 'word'", [](Schedule& s) {
    s.annotate(loop_around(s, "C", 0), "word", Any(1));
    s.split(loop_around(s, "C", 0), {-1, 2});
  });
  refuse(two(kPlain), "T0702", "no longer exists: split removed it", [](Schedule& s) {
    const LoopRV l = loop_around(s, "C", 0);
    s.split(l, {-1, 2});
    s.parallel(l);
  });
  const Program raw = program_of(kBuffers,
                                 "for i in range(4):\n    D[i, 0] = B[i]\n    for j in range(6):\n"
                                 "        with T.block(\"D\"):\n" +
                                     indented(own + "D[vi, vj] = A[vi, vj]", 12));
  refuse(raw, "T0712", "statements outside blocks", [](Schedule& s) { s.parallel(loop_around(s, "D", 0)); });
  refuse(raw, "T0743", "it holds statements outside blocks",
         [](Schedule& s) { s.blockize(loop_around(s, "D", 0)); });
  refuse(two("C[vi // 2, vj] = A[vi, vj]"), "T0716", "write the same elements",
         [](Schedule& s) { s.parallel(loop_around(s, "C", 0)); });
  refuse(program_of("A: T.Buffer((4, 6), \"float32\"), D: T.Buffer((4,), \"float32\")",
                    "for i in range(4):\n    for k in range(6):\n        with T.block(\"D\"):\n"
                    "            vi, vk = T.axis.remap(\"SR\", [i, k])\n            D[vi] = A[vi, vk]\n"),
         "T0715", "neither complete nor a reduction",
         [](Schedule& s) { s.parallel(loop_around(s, "D", 0)); });
  // A block that reads what it writes: of its own iteration, or of another one.
  const auto adds = [](const std::string& read) { return two("C[vi, vj] = A[vi, vj] + " + read); };
  for (const auto& [read, loop] : std::vector<std::pair<std::string, size_t>>{
           {"C[vi, 0]", 1}, {"C[3 - vi, vj]", 0}, {"C[vi, 5 - vj]", 1}, {"C[vi // 2, vj]", 0}})
    refuse(adds(read), "T0717", "reads elements that it writes in another one",
           [loop](Schedule& s) { s.parallel(loop_around(s, "C", loop)); });
  const auto swap = [](Schedule& s) { s.reorder({loop_around(s, "C", 1), loop_around(s, "C", 0)}); };
  for (const char* read : {"C[T.max(vi - 1, 0), T.min(vj + 1, 5)]", "C[vi, 0]", "C[0, vj]"})
    refuse(adds(read), "T0725", "reads elements that it writes in other iterations", swap);
  Schedule swapped(adds("C[vi, vj]").function);
  EXPECT_NO_THROW(swap(swapped));
  refuse(sum_then("D[vi] = R[vi] + B[vi]", "R[vi] = R[3 - vi] + A[vi, vk]"), "T0725",
         "reads elements that it writes in other iterations",
         [](Schedule& s) { s.reorder({loop_around(s, "R", 1), loop_around(s, "R", 0)}); });
  for (const auto& [read, loop] : std::vector<std::pair<std::string, size_t>>{
           {"C[vi, 0]", 0}, {"C[3 - vi, vj]", 1}, {"C[vi, vj]", 0}, {"C[vi, vj]", 1}}) {
    Schedule s(adds(read).function);
    EXPECT_NO_THROW(s.parallel(loop_around(s, "C", loop))) << read;
  }
  refuse(two(kPlain), "T0723", "it holds more than", [](Schedule& s) {
    s.compute_at(s.get_block("C"), loop_around(s, "D", 0));
    s.reorder({loop_around(s, "D", 1), loop_around(s, "D", 0)});
  });
  // A row of sums that is added up again for each column that reads it.
  const Program sums = sum_then("D[vi] = R[vi] + B[vi]");
  const Program again =
      program_of("A: T.Buffer((4, 6), \"float32\"), D: T.Buffer((4, 6), \"float32\")",
                 "R = T.alloc_buffer((4,), \"float32\")\nfor i in range(4):\n    for k in range(6):\n"
                 "        with T.block(\"R\"):\n            vi, vk = T.axis.remap(\"SR\", [i, k])\n"
                 "            with T.init():\n                R[vi] = T.float32(0)\n"
                 "            R[vi] = R[vi] + A[vi, vk]\n" +
                     nest("D", "D[vi, vj] = R[vi]"));
  refuse(again, "T0769", "its steps are repeated by the loops around it", [](Schedule& s) {
    s.compute_at(s.get_block("R"), loop_around(s, "D", 1));
    const std::vector<LoopRV> l = s.get_loops(s.get_block("R"));
    s.rfactor(l.back(), 0);
  });
  refuse(again, "T0769", "repeat its steps, which only its init undoes", [](Schedule& s) {
    s.compute_at(s.get_block("R"), loop_around(s, "D", 1));
    s.decompose_reduction(s.get_block("R"), loop_around(s, "R", 1));
  });
  refuse(sums, "T0765", "it does not hold exactly one block", [](Schedule& s) {
    s.reverse_compute_at(s.get_block("D"), loop_around(s, "R", 0));
    s.rfactor(loop_around(s, "R", 0), 0);
  });
  refuse(sums, "T0765", "it holds other blocks too", [](Schedule& s) {
    s.reverse_compute_at(s.get_block("D"), loop_around(s, "R", 0));
    s.rfactor(loop_around(s, "R", 1), 0);
  });
  refuse(sum_then("D[vi] = R[vi]", "R[vi] = R[vi] * T.float32(0.5) + A[vi, vk]"), "T0767",
         "none that is known to be associative", [](Schedule& s) { s.rfactor(loop_around(s, "R", 1), 0); });
  refuse(sum_then("D[vi] = R[vi]", "R[vi] = T.max(R[vi], A[vi, vk])", "", "4",
                  "if vi < 2:\n    R[vi] = T.float32(0)\nelse:\n    R[vi] = T.float32(0)"),
         "T0767", "its init is not one store for each result",
         [](Schedule& s) { s.rfactor(loop_around(s, "R", 1), 0); });
  refuse(sums, "T0710", "the loop already has a kind", [](Schedule& s) {
    s.parallel(loop_around(s, "R", 0));
    s.rfactor(loop_around(s, "R", 1), 0);
  });
  const std::string ssr = "vi, vj, vk = T.axis.remap(\"SSR\", [i, j, k])";
  const Program product = contraction(ssr, "C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]");
  refuse(product, "T0766", "mixes spatial and reduction iterators", [](Schedule& s) {
    const std::vector<LoopRV> k = s.split(loop_around(s, "C", 2), {-1, 2});
    s.fuse({loop_around(s, "C", 1), k[0]});
    s.rfactor(s.get_loops(s.get_block("C")).back(), 0);
  });
  const Program corner =
      contraction(ssr, "C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]",
                  "for i in range(4):\n    for k in range(5):\n        for j in range(k):\n");
  refuse(corner, "T0766", "its bounds depend on", [](Schedule& s) { s.rfactor(loop_around(s, "C", 1), 0); });
  refuse(corner, "T0764", "the bounds of a spatial loop depend on the reduction",
         [](Schedule& s) { s.decompose_reduction(s.get_block("C"), loop_around(s, "C", 0)); });
  refuse(corner, "T0764", "the bounds of a spatial loop depend on the reduction",
         [](Schedule& s) { s.blockize(loop_around(s, "C", 0)); });
  refuse(product, "T0764", "mixes spatial and reduction iterators", [](Schedule& s) {
    s.fuse({loop_around(s, "C", 1), loop_around(s, "C", 2)});
    s.decompose_reduction(s.get_block("C"), loop_around(s, "C", 0));
  });
  refuse(product, "T0764", "mixes spatial and reduction iterators", [](Schedule& s) {
    s.fuse({loop_around(s, "C", 1), loop_around(s, "C", 2)});
    s.blockize(loop_around(s, "C", 0));
  });
  const Program guarded =
      contraction(ssr + "\nT.where(j + k < 6)", "C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]");
  refuse(guarded, "T0764", "its predicate mixes spatial and reduction loops",
         [](Schedule& s) { s.decompose_reduction(s.get_block("C"), loop_around(s, "C", 0)); });
  refuse(guarded, "T0764", "its predicate mixes spatial and reduction loops",
         [](Schedule& s) { s.blockize(loop_around(s, "C", 0)); });
  refuse(guarded, "T0769", "its predicate mixes spatial and reduction loops",
         [](Schedule& s) { s.rfactor(loop_around(s, "C", 2), 0); });
  // What one iteration leaves and another reads, in one nest.
  auto together = [&](const std::string& first, const std::string& second, const std::string& c_shape) {
    return program_of("A: T.Buffer((4, 6), \"float32\"), D: T.Buffer((4, 6), \"float32\")",
                      "C = T.alloc_buffer(" + c_shape +
                          ", \"float32\")\nfor i in range(4):\n    for j in range(6):\n"
                          "        with T.block(\"C\"):\n" +
                          indented(first, 12) + "        with T.block(\"D\"):\n" + indented(second, 12));
  };
  const Program adding = together(
      "vi, vj = T.axis.remap(\"SR\", [i, j])\nwith T.init():\n    C[vi] = T.float32(0)\n"
      "C[vi] = C[vi] + A[vi, vj]",
      own + "D[vi, vj] = C[vi]", "(4,)");
  refuse(together(own + "C[vi, vj] = A[vi, vj]", own + "D[vi, vj] = C[vi, 5 - vj]", "(4, 6)"), "T0726",
         "that an earlier iteration of these loops may have written",
         [](Schedule& s) { s.reorder({loop_around(s, "D", 1), loop_around(s, "D", 0)}); });
  refuse(adding, "T0726", "still adds to it",
         [](Schedule& s) { s.reorder({loop_around(s, "D", 1), loop_around(s, "D", 0)}); });
  refuse(adding, "T0714", "still add to it",
         [](Schedule& s) { s.bind(loop_around(s, "D", 1), "threadIdx.x"); });
  refuse(program_of(kBuffers,
                    kC +
                        "for i0 in range(2):\n    for i1 in range(2):\n        for j in range(6):\n"
                        "            with T.block(\"C\"):\n"
                        "                vi = T.axis.spatial(4, i0 * 2 + i1)\n"
                        "                vj = T.axis.spatial(6, j)\n"
                        "                T.where(i0 + j < 5)\n                C[vi, vj] = A[vi, vj]\n" +
                        nest("D", "D[vi, vj] = C[vi, vj]")),
         "T0745", "its predicate mixes loops outside and inside",
         [](Schedule& s) { s.blockize(loop_around(s, "C", 2)); });

  // blockize
  auto strided = [&](const std::string& at) {
    return program_of("A: T.Buffer((64,), \"float32\"), D: T.Buffer((64,), \"float32\")",
                      "for i in range(4):\n    for j in range(6):\n        with T.block(\"D\"):\n"
                      "            vi = T.axis.spatial(64, " +
                          at + ")\n            D[vi] = A[vi]\n");
  };
  auto tile_d = [](Schedule& s) { s.blockize(loop_around(s, "D", 1)); };
  refuse(strided("i * 4 + j"), "T0744", "in whole tiles", tile_d);
  refuse(strided("i * j"), "T0744", "mixes loops outside and inside", tile_d);
  refuse(strided("40 - i * 6 + j"), "T0744", "up and down", tile_d);
  refuse(strided("i * 6 + (5 - j)"), "T0744", "is unknown", tile_d);

  // merge
  refuse(two(kPlain), "T0792", "one loop alone cannot be merged",
         [](Schedule& s) { s.merge({loop_around(s, "C", 0)}); });
  refuse(two(kPlain), "T0792", "merge needs two loops or more", [](Schedule& s) { s.merge({}); });
  refuse(program_of(kBuffers + ", O: T.Buffer((4, 6), \"float32\")",
                    "for i in range(4):\n    for j in range(6):\n        with T.block(\"C\"):\n" +
                        indented(own + "D[vi, vj] = A[vi, vj]", 12) +
                        "    with T.block(\"E\"):\n"
                        "        vi = T.axis.spatial(4, i)\n        B[vi] = A[vi, 0]\n" +
                        nest("O", "O[vi, vj] = A[vi, vj]")),
         "T0792", "it holds more than",
         [](Schedule& s) { s.merge({loop_around(s, "C", 1), loop_around(s, "O", 1)}); });
  refuse(two(kPlain), "T0792", "a block lies between", [](Schedule& s) {
    const LoopRV inner = loop_around(s, "D", 1);
    s.blockize(inner);
    s.merge({loop_around(s, "C", 1), inner});
  });
  refuse(two(kPlain, "D[vi, vj] = C[vi, vj]", nest("E", "C[vi, vj] = A[vi, vj]")), "T0792", "",
         [](Schedule& s) { s.merge({loop_around(s, "C", 0), loop_around(s, "D", 1)}); });

  // threads
  refuse(two(kPlain), "T0705", "is bound to threadIdx.x already", [](Schedule& s) {
    s.bind(loop_around(s, "C", 0), "threadIdx.x");
    s.bind(loop_around(s, "C", 1), "threadIdx.x");
  });
  refuse(two(kPlain), "T0705", "would lie inside threads", [](Schedule& s) {
    s.bind(loop_around(s, "C", 1), "blockIdx.x");
    s.bind(loop_around(s, "C", 0), "threadIdx.x");
  });
  refuse(two(kPlain), "T0705", "none is number 4",
         [](Schedule& s) { s.add_thread_loop(s.get_block("D"), "threadIdx.x", 4, 4); });
  refuse(two(kPlain), "T0705", "is no thread axis",
         [](Schedule& s) { s.add_thread_loop(s.get_block("D"), "lane", 4, 0); });

  // fuse_iterators
  auto fuse_two = [](Schedule& s) { s.fuse_iterators(s.get_block("C"), 0, 2); };
  refuse(two("T.where(i + j < 8)\n" + kPlain), "T0742", "it is restricted by a predicate", fuse_two);
  refuse(product, "T0783", "is not directly inside", [](Schedule& s) {
    s.reorder({loop_around(s, "C", 0), loop_around(s, "C", 2), loop_around(s, "C", 1)});
    s.fuse_iterators(s.get_block("C"), 0, 2);
  });
  refuse(program_of(kBuffers,
                    kC + nest("C", kPlain, "4", "vi = T.axis.spatial(4, i)\nvj = T.axis.spatial(7, j)") +
                        nest("D", "D[vi, vj] = C[vi, vj]")),
         "T0783", "does not run over all of 'vj'", fuse_two);
  refuse(program_of(kBuffers, kC +
                                  nest("C", kPlain, "4",
                                       "vi = T.axis.spatial(4, i)\nvj = T.axis.spatial(6, j)\n"
                                       "vk = T.axis.spatial(4, i)") +
                                  nest("D", "D[vi, vj] = C[vi, vj]")),
         "T0783", "is bound to two iterators", fuse_two);
  refuse(two(kPlain), "T0783", "holds other blocks too", [](Schedule& s) {
    s.reverse_compute_at(s.get_block("D"), loop_around(s, "C", 1));
    s.fuse_iterators(s.get_block("C"), 0, 2);
  });

  refuse(two(kPlain), "T0704", "the program has no block 'Q'", [](Schedule& s) { s.get_block("Q"); });

  // Blocks inside a block, over a buffer that lives outside.
  const Program inner = program_of(
      kBuffers, kC + "for o in range(1):\n    with T.block(\"outer\"):\n        vo = T.axis.spatial(1, o)\n" +
                    indented(nest("C", kPlain) + nest("D", "D[vi, vj] = C[vi, vj]"), 8));
  refuse(inner, "T0733", "is not allocated by the block around",
         [](Schedule& s) { s.compute_inline(s.get_block("C")); });
  refuse(inner, "T0759", "where others may use it",
         [](Schedule& s) { s.reverse_compute_inline(s.get_block("D")); });

  // tensorize
  const tir::Buffer a4 = tir::buffer("a", {PrimExpr(4)}, f32), b4 = tir::buffer("b", {PrimExpr(4)}, f32),
                    x4 = tir::buffer("x", {PrimExpr(4)}, f32), y4 = tir::buffer("y", {PrimExpr(4)}, f32);
  const tir::VarRef at = tir::var("i");
  const tir::PrimFunc copy4 = tile_function(
      {a4, b4}, tir::for_(at, 0, 4, tir::store(b4, tir::load(a4, {PrimExpr(at)}), {PrimExpr(at)})));
  tir::PrimFunc begins = tile_function({x4, y4}, tir::store(y4, tir::load(x4, {PrimExpr(0)}), {PrimExpr(0)}));
  {
    Ref<tir::BlockRealize> r = begins->body.cast<tir::BlockRealize>();
    Ref<tir::Block> b = r->block;
    b.edit()->init = tir::store(y4, PrimExpr(0.0), {PrimExpr(0)});
    r.edit()->block = b;
    begins.edit()->body = r;
  }
  refuse(sum_then("D[vi] = B[vi]"), "T0749", "begins with an init or a match", [&](Schedule& s) {
    register_tensor_intrin("test.begins", copy4, begins);
    s.tensorize(loop_around(s, "D", 0), "test.begins");
  });
  refuse(two(kPlain), "T0749", "the tensor intrinsic 'test.fewer' is refused", [&](Schedule& s) {
    register_tensor_intrin("test.fewer", copy4,
                           tile_function({x4}, tir::store(x4, PrimExpr(0.0), {PrimExpr(0)})));
    s.tensorize(loop_around(s, "C", 1), "test.fewer");
  });
  refuse(two(kPlain), "T0748", "it does not compute what 'test.copy4' describes", [](Schedule& s) {
    const std::vector<LoopRV> l = s.split(loop_around(s, "C", 1), {-1, 4});
    s.tensorize(l[1], "test.copy4");
  });
}

}  // namespace tenon::testing
