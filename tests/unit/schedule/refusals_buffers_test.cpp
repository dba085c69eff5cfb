// SPDX-License-Identifier: Apache-2.0
// Refused: caches, layouts, padding, annotations, traces.
#include "refusal_cases.h"
#include "schedule/primitive.h"

namespace tenon::testing {

void refuse_buffers(Refuser& refuse) {
  auto map = [](int rank, FunctionRef<Array<PrimExpr>(const Array<tir::VarRef>&)> f) {
    return index_map(rank, f);
  };
  const IndexMap none = map(2, [](const Array<tir::VarRef>&) { return Array<PrimExpr>(); });
  const IndexMap same2 = map(2, [](const Array<tir::VarRef>& i) -> Array<PrimExpr> { return {i[0], i[1]}; });
  const IndexMap foreign =
      map(2, [](const Array<tir::VarRef>& i) -> Array<PrimExpr> { return {i[0], i[1] + tir::var("q")}; });

  // cache_read, cache_write, cache_inplace, reindex
  auto read_d = [](Schedule& s) { s.cache_read(s.get_block("D"), 0, "local"); };
  auto reindex_d = [](Schedule& s) { s.reindex(s.get_block("D"), 0); };
  const Program updated = two(kPlain, "D[vi, vj] = D[vi, vj] + C[vi, vj]");
  refuse(updated, "T0772", "it also writes 'D'", read_d);
  refuse(updated, "T0772", "it also writes 'D'", reindex_d);
  refuse(updated, "T0772", "it also writes 'D'",
         [](Schedule& s) { s.read_at(loop_around(s, "D", 0), s.get_block("D"), 0, "local"); });
  refuse(updated, "T0772", "it both reads and writes 'D'",
         [&](Schedule& s) { s.reindex_cache_read(s.get_block("D"), 0, "local", same2); });
  refuse(two(kPlain), "T0737", "it does not read 'A'",
         [](Schedule& s) { s.cache_read(s.get_block("C"), 0, "local", {s.get_block("D")}); });
  refuse(two(kPlain), "T0750", "belongs to another block", [](Schedule& s) {
    s.blockize(loop_around(s, "D", 1));
    s.cache_read(s.get_block("C"), 0, "local", {s.get_block("D")});
  });
  refuse(two(kGuarded), "T0742", "would read what was never written",
         [](Schedule& s) { s.cache_write(s.get_block("C"), 0, "local"); });
  refuse(two("C[vi // 2, vj] = A[vi, vj]"), "T0774", "at an index of its own",
         [](Schedule& s) { s.cache_write(s.get_block("C"), 0, "local"); });
  refuse(program_of(kBuffers, kC + "E = T.alloc_buffer((4, 11), \"float32\")\n" +
                                  nest("C", "C[vi, vj] = A[vi, vj]\nE[vi, vj * 2] = A[vi, vj]") +
                                  nest("D", "D[vi, vj] = C[vi, vj]")),
         "T0774", "are of different shapes",
         [](Schedule& s) { s.cache_write(s.get_block("C"), -1, "local"); });
  refuse(two("T.where(i < 3)\n" + kPlain), "T0742", "restricts the block by a predicate",
         [](Schedule& s) { s.reindex(s.get_block("C"), 0); });
  refuse(two(kPlain, "D[vi, vj] = C[vi, vj] + C[vi, 5 - vj]"), "T0776", "it reads 'C' at 2 places",
         reindex_d);
  refuse(two(kPlain, "D[vi, vj] = C[vi, i]"), "T0776", "is not made of its iterators", reindex_d);
  refuse(two(kPlain, "D[vi, vj] = C[vi, vj + 1]"), "T0776", "it may read outside 'C'", reindex_d);
  refuse(program_of(kBuffers, kC + nest("C", kPlain) +
                                  nest("D", "D[vi, vj] = C[vi, vj]", "3",
                                       "vi = T.axis.spatial((1, 4), i + 1)\n"
                                       "vj = T.axis.spatial(6, j)")),
         "T0776", "does not start at 0", reindex_d);

  // reindex_cache_read, reindex_cache_write, cache_index
  auto lay_out_d = [&](Schedule& s) { s.reindex_cache_read(s.get_block("D"), 0, "local", same2); };
  refuse(two(kPlain, "D[vi, vj] = C[vi, vj] + C[vi, 5 - vj]"), "T0776", "it reads 'C' at 2 places",
         lay_out_d);
  refuse(two(kGuarded), "T0742", "restricts the block by a predicate",
         [&](Schedule& s) { s.reindex_cache_read(s.get_block("C"), 0, "local", same2); });
  refuse(two("C[vi // 2, vj] = A[vi, vj]"), "T0774", "at an index of its own",
         [&](Schedule& s) { s.reindex_cache_write(s.get_block("C"), 0, "local", same2); });
  refuse(two(kPlain), "T0778", "gives no index",
         [&](Schedule& s) { s.reindex_cache_read(s.get_block("D"), 0, "local", none); });
  refuse(two(kPlain), "T0778", "neither an input of the map nor a size",
         [&](Schedule& s) { s.reindex_cache_read(s.get_block("D"), 0, "local", foreign); });
  refuse(two(kPlain, "D[vi, vj] = C[vi, vj + 1]"), "T0776", "it may touch what lies outside 'C'", lay_out_d);
  refuse(program_of(kBuffers, kC + nest("C", kPlain) +
                                  nest("D", "D[vi, vj] = C[vi, vj]", "3",
                                       "vi = T.axis.spatial((1, 4), i + 1)\n"
                                       "vj = T.axis.spatial(6, j)")),
         "T0776", "does not start at 0", lay_out_d);
  refuse(two(kEffect), "T0731", "effects, matches regions or takes an address",
         [](Schedule& s) { s.cache_index(s.get_block("C"), "global"); });
  refuse(program_of(kBuffers, kC + nest("C", kPlain) +
                                  nest("D", "D[vi, vj] = C[(vi * 3 + vj) % 4, vj]", "3",
                                       "vi = T.axis.spatial((1, 4), i + 1)\nvj = T.axis.spatial(6, j)")),
         "T0776", "does not start at 0", [](Schedule& s) { s.cache_index(s.get_block("D"), "global"); });
  refuse(two("C[vi // 2, vj] = A[vi, vj]"), "T0757", "is not provably a box",
         [](Schedule& s) { s.write_at(loop_around(s, "C", 1), s.get_block("C"), 0, "local"); });

  refuse(matmul_bias(PrimExpr(4), 5, 6), "T0778", "and the first value, which reads 'bias', knows none",
         [&](Schedule& s) {
           s.fuse_reduction_epilogue(s.get_block("C"), s.get_block("D"));
           const auto reads = s.get(s.get_block("C"))->reads;
           int bias = 0;
           while (reads[size_t(bias)]->buffer->name != "bias") ++bias;
           s.reindex_cache_read(
               s.get_block("C"), bias, "local",
               map(3, [](const Array<tir::VarRef>& i) -> Array<PrimExpr> { return {i[2], i[1]}; }));
         });

  // layouts
  refuse(two(kPlain), "T0778", "neither an input of the map nor a size",
         [&](Schedule& s) { s.transform_layout(s.get_block("C"), 0, BufferIndexType::write, foreign); });
  refuse(two(kPlain), "T0778", "gives no index",
         [&](Schedule& s) { s.transform_layout(s.get_block("C"), 0, BufferIndexType::write, none); });
  refuse(two(kPlain), "T0778", "gives no index",
         [&](Schedule& s) { s.transform_block_layout(s.get_block("C"), none); });
  refuse(program_of(kBuffers, "T.func_attr({\"layout_free_buffers\": [0]})\n" + kC + nest("C", kPlain) +
                                  nest("D", "D[vi, vj] = C[vi, vj]")),
         "T0779", "is the caller's", [&](Schedule& s) {
           s.transform_layout(s.get_block("C"), 0, BufferIndexType::read, same2, PrimExpr(0.0));
         });
  refuse(two("T.where(i + j < 8)\n" + kPlain), "T0742", "it is restricted by a predicate",
         [&](Schedule& s) { s.transform_block_layout(s.get_block("C"), same2); });
  refuse(two(kEffect), "T0731", "effects, matches regions",
         [&](Schedule& s) { s.transform_block_layout(s.get_block("C"), same2); });
  refuse(two(kPlain), "T0783", "does not belong to this block alone", [&](Schedule& s) {
    s.reverse_compute_at(s.get_block("D"), loop_around(s, "C", 1));
    s.transform_block_layout(s.get_block("C"), same2);
  });
  refuse(two(kPlain), "T0710", "already has a kind or an annotation", [&](Schedule& s) {
    s.parallel(loop_around(s, "C", 0));
    s.transform_block_layout(s.get_block("C"), same2);
  });

  refuse(
      program_of(kBuffers, "with T.block(\"C\"):\n    vi = T.axis.spatial(1, 0)\n    D[vi, 0] = A[vi, 0]\n"),
      "T0783", "no loops belong to this block alone", [&](Schedule& s) {
        s.transform_block_layout(
            s.get_block("C"), map(1, [](const Array<tir::VarRef>& i) -> Array<PrimExpr> { return {i[0]}; }));
      });

  // pad_iteration
  auto pad = [](int at) { return [at](Schedule& s) { s.pad_iteration(s.get_block("C"), at, 5); }; };
  refuse(two(kTwice), "T0731", "its body is not a single store", pad(0));
  refuse(two(kEffect), "T0731", "its value has effects", pad(0));
  refuse(program_of("A: T.Buffer((4, 6), \"int32\"), C: T.Buffer((4, 6), \"int32\")",
                    nest("C", "C[vi, vj] = A[vi, vj] // A[vi, 0]")),
         "T0784", "it divides integers", pad(0));
  refuse(program_of(kBuffers,
                    kC + nest("C", kPlain, "4", "vi = T.axis.opaque(4, i)\nvj = T.axis.spatial(6, j)") +
                        nest("D", "D[vi, vj] = C[vi, vj]")),
         "T0784", "neither spatial nor a reduction", pad(0));
  refuse(program_of(kBuffers, kC +
                                  "for i in range(4):\n    for j in range(6):\n        for k in range(3):\n"
                                  "            with T.block(\"C\"):\n"
                                  "                vi, vj, vk = T.axis.remap(\"SSS\", [i, j, k])\n"
                                  "                C[vi, vj] = A[vi, vj]\n" +
                                  nest("D", "D[vi, vj] = C[vi, vj]")),
         "T0784", "iterator 'vk' is no index of 'C'", pad(2));
  refuse(program_of(kBuffers, kC +
                                  nest("C", kPlain, "4",
                                       "vi = T.axis.spatial(4, i)\nvj = T.axis.spatial(6, j)\n"
                                       "vk = T.axis.spatial(4, i)") +
                                  nest("D", "D[vi, vj] = C[vi, vj]")),
         "T0783", "is bound to two iterators", pad(0));

  // pad_einsum
  auto einsum = [](std::vector<int64_t> by) {
    return [by](Schedule& s) { s.pad_einsum(s.get_block("C"), by); };
  };
  const std::string ssr = "vi, vj, vk = T.axis.remap(\"SSR\", [i, j, k])", sum = "C[vi, vj] = C[vi, vj] + ";
  refuse(contraction(ssr, sum + "A[vi, vk]\n" + sum + "A[vi, vk] * B[vj, vk]"), "T0786",
         "its body is not a single store", einsum({8, 1, 1}));
  refuse(contraction(ssr + "\nT.where(j + k < 6)", sum + "A[vi, vk] * B[vj, vk]"), "T0742",
         "it is restricted by a predicate", einsum({8, 1, 1}));
  refuse(contraction("vi = T.axis.spatial(4, i)\nvj = T.axis.spatial(4, i)\nvk = T.axis.reduce(5, k)",
                     sum + "A[vi, vk] * B[vj, vk]"),
         "T0783", "is bound to two iterators", einsum({8, 1, 1}));
  refuse(contraction("vi = T.axis.spatial(3, i)\nvj = T.axis.spatial(4, j)\nvk = T.axis.reduce(5, k)",
                     sum + "A[vi, vk] * B[vj, vk]",
                     "for i in range(3):\n    for j in range(4):\n        for k in range(5):\n"),
         "T0786", "does not run over the whole dimension", einsum({8, 1, 1}));
  refuse(contraction(ssr, sum + "A[vi, vk] * B[vj, 0]"), "T0786", "0 times an infinite value is no 0",
         einsum({1, 1, 8}));
  refuse(contraction(ssr, sum + "A[vi, vk] * A[vj, vk]"), "T0786", "it reads 'A' at several places",
         einsum({8, 6, 1}));
  refuse(contraction(ssr, sum + "A[vi, vk] * A[vj, vk]"), "T0786", "it reads 'A' at several places",
         einsum({8, 1, 1}));
  refuse(contraction(ssr, "C[vi] = C[vi] + A[vi, vk] * B[vi, vk]",
                     "for i in range(4):\n    for j in range(4):\n        for k in range(5):\n",
                     "C[vi] = T.float32(0)", "(4,)"),
         "T0786", "would write the same elements", einsum({1, 8, 1}));
  refuse(contraction(ssr, "C[vi] = C[vi] + A[vi, vk] * B[vi, vk]",
                     "for i in range(4):\n    for j in range(4):\n        for k in range(5):\n",
                     "C[vi] = T.float32(0)", "(4,)"),
         "T0774", "it does not write all of 'C'", einsum({8, 1, 1}));

  // decompose_padding
  auto choose = [&](const std::string& condition, const std::string& value, const std::string& other) {
    return two("C[vi, vj] = T.if_then_else(" + condition + ", " + value + ", " + other + ")");
  };
  auto fill = [](Schedule& s) { s.decompose_padding(s.get_block("C"), loop_around(s, "C", 0)); };
  refuse(choose("vi < 3", "A[vi, vj]", "B[vi]"), "T0787", "is no number", fill);
  refuse(choose("vi < 3", "T.call(\"tir.call_extern\", \"f\", A[vi, vj], dtype=\"float32\")", "T.float32(0)"),
         "T0731", "its value has effects", fill);
  refuse(choose("A[vi, vj] > T.float32(0)", "A[vi, vj]", "T.float32(0)"), "T0787",
         "the condition reads memory", fill);

  // annotations, alignment, types
  refuse(two(kPlain), "T0799", "the map takes 2 indices and gives 2",
         [&](Schedule& s) { s.annotate_buffer_access(s.get_block("D"), 0, BufferIndexType::read, same2); });
  refuse(two(kPlain), "T0780", "which a trace cannot record",
         [](Schedule& s) { s.annotate(s.get_block("C"), "word", Any(s.get(s.get_block("C")))); });
  refuse(program_of("A: T.Buffer((4, 6), \"float32\"), B: T.Buffer((4,), \"float32\"), D: T.Buffer((4, 6), "
                    "\"float32\")",
                    "C = T.alloc_buffer((4, 6), \"float32\", strides=(8, 1))\n" + nest("C", kPlain) +
                        nest("D", "D[vi, vj] = C[vi, vj]")),
         "T0788", "has strides already", [](Schedule& s) { s.storage_align(s.get_block("C"), 0, 0, 16, 0); });
  refuse(
      program_of(
          "A: T.Buffer((4, 6), \"float32\"), B: T.Buffer((4,), \"float32\"), D: T.Buffer((4, 6), \"bool\")",
          "C = T.alloc_buffer((4, 6), \"bool\")\n" + nest("C", "C[vi, vj] = A[vi, vj] > T.float32(0)") +
              nest("D", "D[vi, vj] = C[vi, vj]")),
      "T0707", "", [](Schedule& s) { s.unsafe_set_dtype(s.get_block("C"), 0, f32); });

  refuse(two(kPlain), "T0771", "one region is needed", [](Schedule& s) { s.reindex(s.get_block("C")); });

  // traces
  refuse(two(kPlain), "T0790", "the trace cannot be used", [](Schedule&) { Trace::from_json("{}"); });
  refuse(two(kPlain), "T0790", "is given 2 arguments and takes 1",
         [](Schedule& s) { s.apply(*find_primitive("get_block"), {Any("C"), Any("D")}); });
  refuse(two(kPlain), "T0790", "get_block: 'name' is not a text",
         [](Schedule& s) { s.apply(*find_primitive("get_block"), {Any(3)}); });
  refuse(two(kPlain), "T0790", "'loops' is not a list, each item a loop",
         [](Schedule& s) { s.apply(*find_primitive("fuse"), {Any(Array<Any>{Any(3)})}); });
  refuse(two(kPlain), "T0790", "is not \"read\" or \"write\"", [](Schedule& s) {
    s.apply(*find_primitive("set_axis_separator"),
            {to_any({HandleKind::block, s.get_block("C").id}), Any(0), Any("both"), Any(Array<Any>{Any(1)})});
  });
  refuse(two(kPlain), "T0790", "is too large a number", [](Schedule& s) {
    s.apply(*find_primitive("set_scope"),
            {to_any({HandleKind::block, s.get_block("C").id}), Any(int64_t(1) << 40), Any("local")});
  });
  refuse(two(kPlain), "T0791", "that no earlier step made", [](Schedule& s) {
    Schedule::replay(s.function(), Trace::from_json(R"([{"name":"parallel","in":["l7"]}])"));
  });
  refuse(two(kPlain), "T0798", "its program cannot be scheduled", [](Schedule&) {
    Tensor a = te::placeholder({4}, f32, "A");
    Tensor c = te::compute({4}, [&](const Vars& v) { return a({v[0]}) * 2.0; }, "C");
    tir::PrimFunc f = te::create_prim_func({a, c});
    tir::VarRef i = tir::var("i");
    f.edit()->body = tir::for_(i, 0, 4, make<tir::Evaluate>(a({PrimExpr(i)})));
    Schedule made(f);
  });
  refuse(two(kPlain), "T0798", "the program jumps: it cannot be scheduled", [](Schedule& s) {
    tir::PrimFunc f = s.function();
    f.edit()->body = make<tir::Evaluate>(tir::call({}, "tir.ret", {PrimExpr(0)}));
    Schedule made(f);
  });
}

}  // namespace tenon::testing
