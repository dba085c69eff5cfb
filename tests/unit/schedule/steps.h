// SPDX-License-Identifier: Apache-2.0
// Random steps of every primitive, on programs of many kinds.
#pragma once
#include <set>

#include "more_programs.h"
#include "programs.h"
#include "schedule/primitive.h"
#include "schedule/tensor_intrin.h"

namespace tenon::testing {

inline std::vector<Program> all_programs() {
  tir::VarRef n = tir::var("n"), m = tir::var("m");
  std::vector<Program> out{elementwise(5, 7),
                           matmul(6, 7, 5),
                           matmul(8, 8, 4, false),
                           batched_matmul(2, 4, 5, 3),
                           conv(2, 5, 4, 3, 3, 1, 1),
                           conv(2, 6, 5, 2, 3, 2, 1),
                           conv_transposed(2, 3, 2, 2, 2),
                           depthwise(2, 4, 5),
                           pool(2, 7, 5),
                           softmax(4, 9),
                           layer_norm(3, 8),
                           row_sum(5, 11),
                           column_max(7, 5),
                           argmax(4, 10),
                           mean_of_two_axes(3, 4, 5),
                           gather(4, 5, 6),
                           transpose(6, 5),
                           transposes(3, 4, 5),
                           concat_pad(3, 2, 4),
                           matmul_int8(5, 8, 6)};
  Program e = elementwise(n, m), k = matmul(n, m, 5), s = softmax(n, m);
  e.sizes = k.sizes = s.sizes = {{"n", 5}, {"m", 6}};
  e.name += "_symbolic", k.name += "_symbolic", s.name += "_symbolic";
  out.push_back(e), out.push_back(k), out.push_back(s);
  for (Program& p : more_programs()) out.push_back(std::move(p));
  return out;
}

/// A body over buffers of constant shape: description or implementation of an intrinsic.
inline tir::PrimFunc tile_function(const std::vector<tir::Buffer>& buffers, const tir::Stmt& body) {
  Array<tir::VarRef> params;
  Map<tir::VarRef, tir::Buffer> map;
  for (const tir::Buffer& b : buffers) {
    params.push_back(tir::var(b->name, DataType::handle()));
    map.set(params.back(), b);
  }
  auto root = make<tir::Block>(Array<tir::IterVar>(), Array<tir::BufferRegion>(), Array<tir::BufferRegion>(),
                               std::string("root"), body, tir::Stmt(), Array<tir::Buffer>(),
                               Array<tir::MatchBufferRegion>(), AttrMap());
  return make<tir::PrimFuncNode>(params, map, make<tir::BlockRealize>(Array<PrimExpr>(), tir::true_(), root),
                                 DataType::void_(), AttrMap());
}
/// "test.copy4": four elements of a row by one vector; "test.update2x2": C[2, 2] += A[2, 2] · B[2, 2].
inline void register_test_intrins() {
  using namespace tir;
  auto strided = [](const std::string& name, std::vector<int64_t> shape, DataType t) {
    Buffer b = buffer(name, Array<PrimExpr>(std::vector<PrimExpr>(shape.begin(), shape.end())), t);
    std::vector<PrimExpr> strides(shape.size(), PrimExpr(1));
    for (size_t i = 0; i + 1 < shape.size(); ++i) strides[i] = var("s");
    b.edit()->strides = Array<PrimExpr>(strides);
    b.edit()->elem_offset = var("o");
    return b;
  };
  {
    Buffer a = buffer("a", {PrimExpr(4)}, f32), b = buffer("b", {PrimExpr(4)}, f32);
    VarRef i = var("i");
    Buffer x = strided("x", {4}, f32), y = strided("y", {4}, f32);
    PrimExpr lanes = make<Ramp>(PrimExpr(0), PrimExpr(1), int64_t(4));
    register_tensor_intrin("test.copy4", tile_function({a, b}, for_(i, 0, 4, store(b, load(a, {i}), {i}))),
                           tile_function({x, y}, store(y, load(x, {lanes}), {lanes})));
  }
  for (bool quantised : {false, true}) {
    const DataType in = quantised ? DataType::int_(8) : f32, out = quantised ? i32 : f32;
    auto product = [&](const PrimExpr& x, const PrimExpr& y) { return cast(out, x) * cast(out, y); };
    auto body = [&](const Buffer& a, const Buffer& b, const Buffer& c) {
      VarRef i = var("i"), j = var("j"), k = var("k");
      return for_(
          i, 0, 2,
          for_(j, 0, 2,
               for_(k, 0, 2, store(c, load(c, {i, j}) + product(load(a, {i, k}), load(b, {k, j})), {i, j}))));
    };
    auto rows = [&](const Buffer& a, const Buffer& b, const Buffer& c) {
      PrimExpr row = make<Ramp>(PrimExpr(0), PrimExpr(1), int64_t(2));
      Array<Stmt> all;
      for (int64_t i = 0; i < 2; ++i)
        for (int64_t k = 0; k < 2; ++k) {
          PrimExpr left = make<Broadcast>(cast(out, load(a, {PrimExpr(i), PrimExpr(k)})), int64_t(2));
          PrimExpr right = cast(out.with_lanes(2), load(b, {PrimExpr(k), row}));
          all.push_back(store(c, load(c, {PrimExpr(i), row}) + left * right, {PrimExpr(i), row}));
        }
      return seq(all);
    };
    const Array<PrimExpr> shape{PrimExpr(2), PrimExpr(2)};
    Buffer a = buffer("a", shape, in), b = buffer("b", shape, in), c = buffer("c", shape, out);
    Buffer x = strided("x", {2, 2}, in), y = strided("y", {2, 2}, in), z = strided("z", {2, 2}, out);
    register_tensor_intrin(quantised ? "test.update2x2_i8" : "test.update2x2",
                           tile_function({a, b, c}, body(a, b, c)), tile_function({x, y, z}, rows(x, y, z)));
  }
}

struct Random {
  std::mt19937_64 engine;
  int below(size_t n) { return n == 0 ? 0 : int(engine() % n); }
};

/// How often each primitive was accepted, and how often it changed a program.
struct Counts {
  std::map<std::string, std::pair<int, int>> accepted;
  std::map<std::string, int> refused;                       ///< by code
  std::set<std::pair<std::string, std::string>> sentences;  ///< code and sentence of what was refused
  bool keep_sentences = false;
};

inline IndexMap random_map(Random& r, int rank, bool may_pad, const Array<PrimExpr>& shape) {
  const int kind = r.below(3);
  const int at = r.below(size_t(rank));
  return index_map(rank, [&](const Array<tir::VarRef>& i) {
    std::vector<PrimExpr> out(i.begin(), i.end());
    if (kind == 0) {
      std::shuffle(out.begin(), out.end(), r.engine);
    } else if (kind == 1) {
      const auto size = tir::as_int(shape[size_t(at)]);
      int64_t factor = 2 + r.below(3);
      while (!may_pad && size && factor > 1 && *size % factor) --factor;
      out[size_t(at)] = tir::floordiv(i[size_t(at)], factor);
      out.insert(r.below(2) ? out.end() : out.begin() + at + 1, tir::floormod(i[size_t(at)], factor));
    } else if (at + 1 < rank) {
      out[size_t(at)] = i[size_t(at)] * shape[size_t(at) + 1] + i[size_t(at) + 1];
      out.erase(out.begin() + at + 1);
    }
    return Array<PrimExpr>(out);
  });
}

/// A map of all iterators of a block, those of the reduction left out for results; now and then not legal.
inline IndexMap random_iterator_map(Random& r, const Ref<tir::Block>& b, bool of_write) {
  std::vector<size_t> used;
  for (size_t i = 0; i < b->iter_vars.size(); ++i)
    if (!of_write || b->iter_vars[i]->kind == tir::IterKind::spatial) used.push_back(i);
  std::shuffle(used.begin(), used.end(), r.engine);
  const bool join = r.below(2);
  return index_map(int(b->iter_vars.size()), [&](const Array<tir::VarRef>& i) {
    Array<PrimExpr> out;
    for (size_t k = 0; k < used.size(); ++k) {
      if (join && k + 1 < used.size() && out.empty()) {
        out.push_back(i[used[k]] * b->iter_vars[used[k + 1]]->dom->extent + i[used[k + 1]]);
        ++k;
      } else {
        out.push_back(i[used[k]]);
      }
    }
    return out;
  });
}

/// One random step of the primitives that need some preparation, or that few blocks allow.
template <class Run>
void act_rare(Schedule& s, Random& r, Run run, BlockRV b, const std::vector<LoopRV>& loops, int kind = -1) {
  const Ref<tir::Block> block = s.get(b);
  auto any_loop = [&] { return loops.at(size_t(r.below(loops.size()))); };
  switch (kind >= 0 ? kind : r.below(22)) {
    case 0: {
      static const char* axes[] = {"blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y", "vthread"};
      if (r.below(4) == 0)
        return run("add_thread_loop",
                   [&] { s.add_thread_loop(b, axes[r.below(5)], 1 + r.below(4), r.below(2)); });
      return run("bind", [&] { s.bind(any_loop(), axes[r.below(5)]); });
    }
    case 1: {
      std::vector<int> order;
      for (size_t i = 0; i < block->iter_vars.size(); ++i) order.push_back(int(i));
      std::shuffle(order.begin(), order.end(), r.engine);
      return run("reorder_block_iter_var", [&] { s.reorder_block_iter_var(b, order); });
    }
    case 2: {
      if (block->writes.empty()) return;
      const DataType t = block->writes[0]->buffer->dtype;
      return run("unsafe_set_dtype", [&] { s.unsafe_set_dtype(b, 0, t.is_float() ? f64 : i64); });
    }
    case 3: {
      if (block->writes.empty()) return;
      const int rank = int(block->writes[0]->buffer->shape.size());
      return run("set_axis_separator",
                 [&] { s.set_axis_separator(b, 0, BufferIndexType::write, {1 + r.below(size_t(rank))}); });
    }
    case 4:
    case 5: {
      for (BlockRV x : s.blocks())
        for (const char* name : {"T", "X", "pad"})
          if (s.get(x)->name == name && r.below(2)) b = x;
      const std::vector<BlockRV> consumers = s.get_consumers(b);
      if (consumers.empty()) return;
      const std::vector<LoopRV> around = s.get_loops(consumers[size_t(r.below(consumers.size()))]);
      if (r.below(4))
        run("compute_at",
            [&] { s.compute_at(b, around.at(size_t(r.below(std::min<size_t>(2, around.size()))))); });
      return run("rolling_buffer", [&] { s.rolling_buffer(b, 0); });
    }
    case 6:
      return run("reindex_cache_read", [&] {
        s.reindex_cache_read(b, r.below(block->reads.size()), "local", random_iterator_map(r, block, false));
      });
    case 7:
      return run("reindex_cache_write",
                 [&] { s.reindex_cache_write(b, 0, "local", random_iterator_map(r, block, true)); });
    case 8: {
      if (block->init) run("decompose_reduction", [&] { s.decompose_reduction(b, loops.at(0)); });
      const Ref<tir::Block> now = s.get(b);
      for (size_t i = 0; i < now->reads.size(); ++i)
        if (!now->writes.empty() && now->reads[i]->buffer.same_as(now->writes[0]->buffer))
          return run("cache_inplace", [&] { s.cache_inplace(b, int(i), "local"); });
      return;
    }
    case 9:
      return run("cache_index", [&] { s.cache_index(b, "global", r.below(2)); });
    case 10:
      return run("read_at", [&] { s.read_at(any_loop(), b, r.below(block->reads.size()), "local"); });
    case 11:
      return run("write_at", [&] { s.write_at(any_loop(), b, 0, "local"); });
    case 12:
    case 14:
    case 15: {
      for (BlockRV x : s.blocks())
        if (s.get(x)->init && r.below(2)) b = x;
      const std::vector<BlockRV> consumers = s.get_consumers(b);
      if (consumers.empty()) return;
      return run("fuse_reduction_epilogue", [&] { s.fuse_reduction_epilogue(b, consumers[0]); });
    }
    case 16:
    case 17: {
      for (BlockRV x : s.blocks())
        for (const char* name : {"pad", "dilate", "border"})
          if (s.get(x)->name == name) b = x;
      return run("decompose_padding", [&] { s.decompose_padding(b, s.get_loops(b).at(size_t(r.below(2)))); });
    }
    case 18:
    case 19:
    case 20: {
      run("block_rows", [&] { s.block_rows(b, 1 + r.below(2), 1 + r.below(3)); });
      const BlockRV reader = r.below(2) ? b : s.blocks().at(size_t(r.below(s.blocks().size())));
      BlockRV copy;
      run("cache_read", [&] { copy = s.cache_read(reader, r.below(s.get(reader)->reads.size()), "global"); });
      run("hoist", [&] { s.hoist(copy); });
      return run("hoist", [&] { s.hoist(copy); });  // out of the loops over tasks, too
    }
    case 13: {
      if (block->reads.empty()) return;
      const int at = r.below(block->reads.size());
      const tir::Buffer buffer = block->reads[size_t(at)]->buffer;
      const IndexMap whole = index_map(int(block->iter_vars.size()), [&](const Array<tir::VarRef>&) {
        Array<PrimExpr> out;
        for (const PrimExpr& d : buffer->shape) out.push_back(PrimExpr(0)), out.push_back(d);
        return out;
      });
      return run("annotate_buffer_access",
                 [&] { s.annotate_buffer_access(b, at, BufferIndexType::read, whole); });
    }
    default: {
      Factors factors;
      run("sample_partitioned_tile",
          [&] { factors = s.sample_partitioned_tile(any_loop(), 2 + r.below(2), 1, 1 + r.below(3)); });
      return run("split", [&] { s.split(LoopRV{to_handle(s.trace().steps.back().args[0])->id}, factors); });
    }
  }
}

/// A value of a parameter's type, one of a list.
inline Any random_argument(const Parameter& p, Random& r, BlockRV b, LoopRV l, size_t rank) {
  static const char* texts[] = {"local", "global", "blockIdx.x", "threadIdx.x", "vthread", "note"};
  switch (p.type) {
    case ParameterType::block:
      return to_any({b.kind, b.id});
    case ParameterType::loop:
    case ParameterType::loop_or_location:
      return to_any({l.kind, l.id});
    case ParameterType::block_or_loop:
      return r.below(2) ? to_any({b.kind, b.id}) : to_any({l.kind, l.id});
    case ParameterType::number:
    case ParameterType::integer:
    case ParameterType::any:
      return Any(r.below(4));
    case ParameterType::boolean:
      return Any(r.below(2) == 1);
    case ParameterType::real:
      return Any(0.5);
    case ParameterType::text:
      return Any(texts[r.below(std::size(texts))]);
    case ParameterType::dtype:
      return Any(f64);
    case ParameterType::buffer_index_type:
      return Any(r.below(2) ? "read" : "write");
    case ParameterType::index_map:
      return Any(index_map(int(rank), [](const Array<tir::VarRef>& i) {
        std::vector<PrimExpr> out(i.begin(), i.end());
        std::reverse(out.begin(), out.end());
        return Array<PrimExpr>(out);
      }));
    case ParameterType::expression:
      return Any(PrimExpr(r.below(4)));
  }
  return {};
}
/// A step of any primitive whose results are promised, its arguments drawn by their types: one that has no
/// case of its own is tried, too.
template <class Run>
void act_any(Schedule& s, Random& r, Run run, const std::vector<BlockRV>& blocks,
             const std::vector<LoopRV>& loops) {
  static const std::vector<const Primitive*> all = [] {
    std::vector<const Primitive*> out = primitives();
    std::erase_if(out, [](const Primitive* p) { return p->kind != StepKind::change || p->trusts_caller; });
    return out;
  }();
  const Primitive& p = *all[size_t(r.below(all.size()))];
  const BlockRV b = blocks[size_t(r.below(blocks.size()))];
  const size_t rank = s.get(b)->iter_vars.size();
  std::vector<Any> args;
  for (const Parameter& x : p.parameters) {
    auto draw = [&] { return random_argument(x, r, b, loops.at(size_t(r.below(loops.size()))), rank); };
    std::vector<Any> list;
    if (x.list && x.type == ParameterType::integer && r.below(2)) {  // positions of the iterators
      for (size_t i = 0; i < rank; ++i) list.push_back(Any(i));
      std::shuffle(list.begin(), list.end(), r.engine);
    } else {
      for (int i = x.list ? r.below(3) : 0; i >= 0; --i) list.push_back(draw());
    }
    args.push_back(x.list ? Any(Array<Any>(list)) : list[0]);
  }
  run(std::string(p.name), [&] { s.apply(p, args); });
}

/// One random step (a few kinds of step are several primitives in a row). Steps that are refused change
/// nothing.
inline void act(Schedule& s, Random& r, Counts& counts, int kind = -1, int rare = -1) {
  auto run = [&](const std::string& name, auto f) {
    const tir::PrimFunc before = s.function();
    f();
    auto& c = counts.accepted[name];
    ++c.first;
    c.second += !s.function().same_as(before) && !structural_equal(s.function(), before);
  };
  std::vector<BlockRV> blocks = s.blocks();
  if (blocks.empty()) return;
  BlockRV b = blocks[size_t(r.below(blocks.size()))];
  std::vector<LoopRV> loops = s.get_loops(b);
  BlockRV other = blocks[size_t(r.below(blocks.size()))];
  std::vector<LoopRV> target = s.get_loops(other);
  auto any = [&](const std::vector<LoopRV>& l) {
    return l.empty() ? LoopRV{-1} : l[size_t(r.below(l.size()))];
  };
  LoopRV loop = any(loops);
  if (rare >= 0 || (kind < 0 && r.below(3) == 0)) return act_rare(s, r, run, b, loops, rare);
  if (kind < 0 && r.below(8) == 0) return act_any(s, r, run, blocks, loops);
  switch (kind >= 0 ? kind : r.below(36)) {
    case 0:
      return run("split", [&] {
        s.split(loop, r.below(2) ? std::vector<int64_t>{-1, 2 + r.below(4)}
                                 : std::vector<int64_t>{2 + r.below(3), -1});
      });
    case 1:
      return run("split", [&] { s.split(loop, {-1, 2, 2}); });
    case 2:
      return run("fuse", [&] {
        const size_t at = size_t(r.below(loops.size()));
        s.fuse({loops.at(at), loops.at(std::min(at + 1, loops.size() - 1))});
      });
    case 3:
      return run("fuse", [&] { s.fuse(loops); });
    case 4:
    case 5:
      return run("reorder", [&] {
        std::vector<LoopRV> order = loops;
        std::shuffle(order.begin(), order.end(), r.engine);
        if (r.below(2) && order.size() > 2) order.resize(2);
        s.reorder(order);
      });
    case 6:
      return run("parallel", [&] { s.parallel(loop); });
    case 7:
      return run("vectorize", [&] { s.vectorize(loop); });
    case 8:
      return run("unroll", [&] { s.unroll(loop); });
    case 9:
      return run("compute_inline", [&] { s.compute_inline(b); });
    case 10:
      return run("reverse_compute_inline", [&] { s.reverse_compute_inline(b); });
    case 11:
      return run("compute_at", [&] { s.compute_at(b, any(target), r.below(3) == 0); });
    case 12: {
      if (const auto producers = s.get_producers(b); !producers.empty() && r.below(2))
        target = s.get_loops(producers[size_t(r.below(producers.size()))]);
      return run("reverse_compute_at", [&] { s.reverse_compute_at(b, any(target)); });
    }
    case 13:
    case 14:
      return run("decompose_reduction", [&] { s.decompose_reduction(b, loop); });
    case 15:
      return run("rfactor", [&] { s.rfactor(loop, r.below(3) - 1); });
    case 16:
      return run("cache_write", [&] { s.cache_write(b, r.below(4) ? 0 : -1, "local"); });
    case 17:
      return run("cache_read", [&] {
        std::vector<BlockRV> others;
        if (r.below(3) == 0) others.push_back(other);
        s.cache_read(b, r.below(2), "local", others);
      });
    case 18:
      return run("pad_iteration", [&] {
        s.pad_iteration(b, r.below(s.get(b)->iter_vars.size()), 2 + r.below(4), r.below(2));
      });
    case 19:
      return run("fuse_iterators",
                 [&] { s.fuse_iterators(b, r.below(s.get(b)->iter_vars.size()), 2 + r.below(2)); });
    case 20:
      return run("reindex", [&] {
        if (r.below(3))
          s.reindex(b, r.below(3));
        else
          s.reindex(b, {}, 0);
      });
    case 21:
      return run("add_unit_loop", [&] { s.add_unit_loop(b); });
    case 22:
    case 23:
      return run("blockize", [&] { s.blockize(loop); });
    case 24:
    case 25: {
      const Ref<tir::Block> block = s.get(b);
      const bool write = r.below(2);
      const auto& regions = write ? block->writes : block->reads;
      if (regions.empty()) return;
      const int at = r.below(regions.size());
      const tir::Buffer buffer = regions[size_t(at)]->buffer;
      if (buffer->shape.empty()) return;
      const IndexMap map = random_map(r, int(buffer->shape.size()), true, buffer->shape);
      PrimExpr pad;
      if (r.below(2)) pad = tir::const_of(buffer->dtype, double(r.below(9)));
      return run("transform_layout", [&] {
        s.transform_layout(b, at, write ? BufferIndexType::write : BufferIndexType::read, map, pad);
      });
    }
    case 26: {
      Array<PrimExpr> extents;
      for (const tir::IterVar& v : s.get(b)->iter_vars) extents.push_back(v->dom->extent);
      if (extents.empty()) return;
      const IndexMap map = random_map(r, int(extents.size()), false, extents);
      return run("transform_block_layout", [&] { s.transform_block_layout(b, map); });
    }
    case 27:
      return run("pad_einsum", [&] {
        std::vector<int64_t> padding;
        for (size_t i = 0; i < s.get(b)->iter_vars.size(); ++i)
          padding.push_back(r.below(2) ? 1 : 2 + r.below(3));
        s.pad_einsum(b, padding);
      });
    case 28:
      return run("decompose_padding", [&] { s.decompose_padding(b, loop); });
    case 29:
      return run("storage_align", [&] { s.storage_align(b, 0, r.below(3) - 1, 8, r.below(8)); });
    case 30:
      return run("loop_partition", [&] {
        s.loop_partition(loop, r.below(2) ? std::vector<int64_t>{1 + r.below(3), -1}
                                          : std::vector<int64_t>{1, -1, 1 + r.below(2)});
      });
    case 31:
    case 32:
      return run("merge", [&] {
        LoopRV a = loop, c = any(target);
        if (r.below(2)) a = loops.at(0), c = target.at(0);
        s.merge({a, c});
      });
    case 33: {
      // Tiles that an intrinsic computes.
      const Ref<tir::Block> block = s.get(b);
      if (block->iter_vars.size() == 3 && loops.size() == 3 && block->init) {
        if (r.below(2)) run("pad_einsum", [&] { s.pad_einsum(b, {2, 2, 2}); });
        std::vector<LoopRV> order, inner;
        for (LoopRV l : s.get_loops(b)) {
          std::vector<LoopRV> parts;
          run("split", [&] { parts = s.split(l, {-1, 2}); });
          order.push_back(parts[0]);
          inner.push_back(parts[1]);
        }
        order.insert(order.end(), inner.begin(), inner.end());
        run("reorder", [&] { s.reorder(order); });
        const bool quantised = block->writes[0]->buffer->dtype == i32;
        return run("tensorize",
                   [&] { s.tensorize(inner[0], quantised ? "test.update2x2_i8" : "test.update2x2"); });
      }
      BlockRV copy = b;
      if (block->init || block->reads.size() != 1)
        run("cache_read", [&] { copy = s.cache_read(b, 0, "local"); });
      std::vector<LoopRV> parts;
      const std::vector<LoopRV> around = s.get_loops(copy);
      run("split", [&] { parts = s.split(around.at(around.size() - 1), {-1, 4}); });
      return run("tensorize", [&] { s.tensorize(parts[1], "test.copy4"); });
    }
    case 34:
      switch (r.below(3)) {
        case 0: {
          Factors factors;
          run("sample_perfect_tile", [&] { factors = s.sample_perfect_tile(loop, 2 + r.below(2), 8); });
          return run("split", [&] { s.split(loop, factors); });
        }
        case 1: {
          IntRV factor = 1;
          run("sample_categorical", [&] { factor = s.sample_categorical({2, 3, 4}, {0.5, 0.25, 0.25}); });
          return run("split", [&] { s.split(loop, {-1, factor}); });
        }
        default: {
          LocationRV at;
          run("sample_compute_location", [&] { at = s.sample_compute_location(b); });
          return run("compute_at", [&] { s.compute_at(b, at); });
        }
      }
    default:
      switch (r.below(4)) {
        case 0:
          return run("set_scope", [&] { s.set_scope(b, 0, r.below(2) ? "local" : "global"); });
        case 1:
          return run("annotate", [&] { s.annotate(b, "note", Any(r.below(9))); });
        case 2:
          return run("annotate", [&] {
            s.annotate(loop, "hint", Any(r.below(9)));
            run("unannotate", [&] { s.unannotate(loop, "hint"); });
          });
        default:
          return run("unannotate", [&] { s.unannotate(b, "note"); });
      }
  }
}

/// Accepted steps, queries left out.
inline size_t steps_of(const Schedule& s) {
  size_t n = 0;
  for (const TraceStep& t : s.trace().steps) n += t.primitive->kind != StepKind::query;
  return n;
}

/// A schedule of `steps` accepted steps or more (fewer when most of `attempts` are refused).
inline Schedule random_schedule(const Program& p, uint64_t seed, size_t steps, int attempts, Counts& counts) {
  Random r{std::mt19937_64(seed * 7919 + 3)};
  Schedule s(p.function, seed);
  // What few programs allow, and hardly any once they were changed, comes first now and then.
  constexpr std::pair<int, int> first[] = {{12, -1}, {15, -1}, {27, -1}, {33, -1}, {-1, 4},
                                           {-1, 9},  {-1, 12}, {-1, 16}, {-1, 18}};
  std::pair<int, int> opening = first[r.below(std::size(first))];
  const bool windows = p.name == "row_windows" || p.name == "blurs";
  if (windows) opening = {-1, 4};
  const int tries = r.below(windows ? 4 : 2) ? 6 : 0;
  for (int i = 0; i < attempts + tries && steps_of(s) < steps; ++i) {
    const tir::PrimFunc before = s.function();
    const size_t length = s.trace().steps.size();
    try {
      if (i < tries && steps_of(s) == 0)
        act(s, r, counts, opening.first, opening.second);
      else
        act(s, r, counts);
    } catch (const ScheduleError& e) {
      ++counts.refused[e.code];
      if (counts.keep_sentences) counts.sentences.emplace(e.code, e.message);
      EXPECT_TRUE(e.code.starts_with("T07")) << e.what();
      EXPECT_GT(e.message.size(), 20u) << e.what();
      EXPECT_TRUE(s.trace().steps.size() != length || s.function().same_as(before)) << e.what();
    } catch (const std::out_of_range&) {  // no loops to choose from
    }
  }
  // Nothing may follow what hides accesses: no check sees them.
  if (r.below(8) == 0 && !s.blocks().empty()) {
    const std::vector<BlockRV> blocks = s.blocks();
    const BlockRV b = blocks[size_t(r.below(blocks.size()))];
    if (!s.get(b)->reads.empty()) {
      s.enter_postproc();
      s.unsafe_hide_buffer_access(b, BufferIndexType::read, {0});
      for (const char* name : {"unsafe_hide_buffer_access", "enter_postproc"}) {
        auto& c = counts.accepted[name];
        ++c.first;
        c.second += std::string_view(name) != "enter_postproc";
      }
    }
  }
  return s;
}

}  // namespace tenon::testing
