// SPDX-License-Identifier: Apache-2.0
// lower_cross_thread_reduction
//   before: for t in threadIdx.x: for k: block: init: B[i] = 0; B[i] = B[i] + A[i, k * 32 + t]
//   after:  for t: p = local; p = 0; for k: p = p + A[…]; r = allreduce("add", p, "threadIdx.x")
//           if t == 0: B[i] = r
// A reduction whose iterations lie on threads is done by each thread for its part; then all combine. Several
// values at once (argmax, argmin) are combined in shared memory, half with half, between barriers of their
// own. Needs: blocks with their iterators, an operation that is known (sum, product, minimum, maximum, and,
// or; argmax and argmin of any number of values). Keeps: the value, up to the order of the combination.
#include <limits>

#include "analysis/condition.h"
#include "ir/intrinsic.h"
#include "ir/structural.h"
#include "pass/tensor/lowering.h"
#include "pass/tensor/own_barriers.h"
#include "schedule/combiner.h"

namespace tenon {

using namespace tir;
using tensor_detail::imm;
using tensor_detail::kOwnBarriers;
using tensor_detail::mentions;

namespace {

PrimExpr least(DataType t) {
  return t.is_float() ? PrimExpr::float_imm(-std::numeric_limits<double>::infinity(), t) : min_value(t);
}
PrimExpr greatest(DataType t) {
  return t.is_float() ? PrimExpr::float_imm(std::numeric_limits<double>::infinity(), t) : max_value(t);
}

/// value = op(accumulator, part)
struct Operation {
  std::string name;
  PrimExpr part, identity;
  PrimExpr (*combine)(const PrimExpr&, const PrimExpr&) = nullptr;
};
template <class T>
bool operation(const PrimExpr& value, const BufferStore& s, const char* name, const PrimExpr& identity,
               Operation& out) {
  const T* n = value.as<T>();
  if (!n) return false;
  auto accumulator = [&](const PrimExpr& e) {
    const auto* l = e.as<BufferLoad>();
    return l && l->buffer.same_as(s.buffer) && structural_equal(l->indices, s.indices);
  };
  const bool left = accumulator(n->a);
  if (!left && !accumulator(n->b)) return false;
  out = {name, left ? n->b : n->a, identity,
         [](const PrimExpr& a, const PrimExpr& b) { return PrimExpr(make<T>(a, b)); }};
  return true;
}

class CrossThread : public tensor_detail::Rewriter {
 public:
  Stmt stmt(const Stmt& s) override {
    if (!s) return s;
    if (s.is<For>())
      if (Stmt r = lowered(s)) return r;
    const auto* loop = s.as<For>();
    const bool threads = loop && tensor_detail::is_thread_loop(*loop);
    if (threads) around_.push_back(s.cast<For>());
    const Stmt r = below(s);
    if (threads) around_.pop_back();
    return r;
  }
  PrimExpr expr(const PrimExpr& e) override { return e; }

 private:
  Stmt lowered(const Stmt& s) const {
    std::vector<Ref<For>> loops;
    Stmt inner = s;
    while (const auto* f = inner.as<For>()) {
      loops.push_back(inner.cast<For>());
      inner = f->body;
    }
    const auto* realize = inner.as<BlockRealize>();
    if (!realize || !realize->block->init) return {};
    const Block& block = *realize->block;
    auto feeds = [&](const For& f, bool reduction) {
      for (size_t i = 0; i < block.iter_vars.size(); ++i)
        if ((block.iter_vars[i]->kind == IterKind::reduce) == reduction &&
            mentions(realize->iter_values[i], f.loop_var.get()))
          return true;
      return false;
    };
    if (!feeds(*loops[0], true)) return {};
    bool threads = false;
    for (const Ref<For>& f : loops)
      threads = threads || (tensor_detail::is_thread_loop(*f) && feeds(*f, true));
    if (!threads) return {};
    for (const Ref<For>& f : loops)
      if (feeds(*f, false))
        tensor_detail::refuse(
            "T0815",
            fmt::format(
                "loop '{}' of block '{}' runs over other than the reduction, inside a reduction that lies "
                "on threads",
                f->loop_var->name, block.name),
            s, "reorder the loops of the reduction to be innermost");
    if (block.body.is<LetStmt>() || block.body.is<SeqStmt>())
      if (const auto combiner = sched::combiner_of(realize->block); combiner && combiner->buffers.size() > 1)
        return several(*combiner, *realize, loops, s);
    const auto* update = block.body.as<BufferStore>();
    const auto* init = block.init.as<BufferStore>();
    Operation op;
    const DataType t = update ? update->value.dtype() : DataType();
    if (!update || !init || !init->buffer.same_as(update->buffer) || update->predicate ||
        !(operation<Add>(update->value, *update, "add", const_of(t, 0), op) ||
          operation<Mul>(update->value, *update, "mul", const_of(t, 1), op) ||
          operation<Min>(update->value, *update, "min", greatest(t), op) ||
          operation<Max>(update->value, *update, "max", least(t), op) ||
          operation<And>(update->value, *update, "and", PrimExpr::int_imm(1, t), op) ||
          operation<Or>(update->value, *update, "or", PrimExpr::int_imm(0, t), op)))
      tensor_detail::refuse(
          "T0815",
          fmt::format("the reduction of block '{}' has no operation that threads can combine", block.name), s,
          "bind a spatial loop instead, or split the reduction with rfactor");

    VarMap values;
    for (size_t i = 0; i < block.iter_vars.size(); ++i)
      values[block.iter_vars[i]->var.get()] = realize->iter_values[i];
    const Buffer partial = buffer(update->buffer->name + "_partial", {imm(1)}, t, "local");
    const BufferRegion own = make<BufferRegionNode>(partial, Array<Range>{range(imm(0), imm(1))});

    // The thread's own part.
    Ref<Block> part(&block);
    Block* p = part.edit();
    p->init = Stmt();
    p->name = block.name + "_partial";
    p->writes = {own};
    Array<BufferRegion> reads{own};
    for (const BufferRegion& r : block.reads)
      if (!r->buffer.same_as(update->buffer)) reads.push_back(r);
    p->reads = reads;
    p->body = store(partial, op.combine(load(partial, {imm(0)}), op.part), {imm(0)});
    Stmt body = make<BlockRealize>(realize->iter_values, realize->predicate, part);
    for (size_t i = loops.size(); i-- > 0;)
      if (!tensor_detail::is_thread_loop(*loops[i]))
        body = tensor_detail::edited<For>(loops[i], [&](For* m) { m->body = body; });

    // What all of them have found.
    Array<PrimExpr> args{make<tir::StringImm>(op.name), load(partial, {imm(0)})};
    PrimExpr first = true_();
    for (const Ref<For>& f : loops)
      if (tensor_detail::is_thread_loop(*f)) {
        args.push_back(make<tir::StringImm>(f->thread_tag));
        first = logical_and(first, eq(PrimExpr(f->loop_var), f->min));
      }
    const VarRef total = var(update->buffer->name + "_total", t);
    const PrimExpr start = substitute(init->value, values);
    const bool from_identity = structural_equal(start, op.identity);
    Stmt result = store(update->buffer, from_identity ? PrimExpr(total) : op.combine(start, total),
                        update->indices.map([&](const PrimExpr& e) { return substitute(e, values); }));
    const PrimExpr guard =
        guard_of(realize->predicate, loops, update->buffer->scope == "local" ? true_() : first);
    if (!is_one(guard)) result = make<IfThenElse>(guard, result, Stmt());
    result = make<LetStmt>(total, call(t, "tir.thread_allreduce", args), result);

    const Stmt steps = seq({store(partial, op.identity, {imm(0)}), body, result});
    auto outer = make<Block>(Array<IterVar>(), whole(block.reads), whole(block.writes), block.name, steps,
                             Stmt(), Array<Buffer>{partial}, Array<MatchBufferRegion>(), AttrMap());
    Stmt out = make<BlockRealize>(Array<PrimExpr>(), true_(), outer);
    for (size_t i = loops.size(); i-- > 0;)
      if (tensor_detail::is_thread_loop(*loops[i]))
        out = tensor_detail::edited<For>(loops[i], [&](For* m) { m->body = out; });
    return out;
  }

  static Array<BufferRegion> whole(const Array<BufferRegion>& list) {
    return list.map([](const BufferRegion& r) {
      Array<Range> all;
      for (const PrimExpr& d : r->buffer->shape) all.push_back(range(PrimExpr::int_imm(0, d.dtype()), d));
      return make<BufferRegionNode>(r->buffer, all);
    });
  }
  /// A predicate that the reduction does not change holds for the result too.
  static PrimExpr guard_of(const PrimExpr& predicate, const std::vector<Ref<For>>& loops, PrimExpr guard) {
    const std::vector<PrimExpr> parts = conjuncts(predicate);
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      bool spatial = true;
      for (const Ref<For>& f : loops) spatial = spatial && !mentions(*part, f->loop_var.get());
      if (spatial) guard = logical_and(guard, *part);
    }
    return guard;
  }

  /// Values that are chosen together. Each thread begins with the start values: to choose them again changes
  /// nothing.
  Stmt several(const sched::Combiner& c, const BlockRealize& realize, const std::vector<Ref<For>>& loops,
               const Stmt& at) const {
    const Block& block = *realize.block;
    const size_t n = c.buffers.size();
    VarMap values;
    for (size_t i = 0; i < block.iter_vars.size(); ++i)
      values[block.iter_vars[i]->var.get()] = realize.iter_values[i];
    // Where this thread's values lie among those of its block.
    PrimExpr place = imm(0), base = imm(0), first = true_();
    int64_t count = 1, others = 1;
    auto number = [&](const Ref<For>& f, PrimExpr& to, int64_t& total) {
      const auto extent = as_int(f->extent);
      if (!extent)
        tensor_detail::refuse(
            "T0815", fmt::format("the number of threads along '{}' is not constant", f->thread_tag), at);
      to = to + (cast(i64, PrimExpr(f->loop_var)) - cast(i64, f->min)) * imm(total);
      total *= *extent;
    };
    for (const Ref<For>& f : loops)
      if (tensor_detail::is_thread_loop(*f)) {
        number(f, place, count);
        first = logical_and(first, eq(PrimExpr(f->loop_var), f->min));
      }
    for (const Ref<For>& f : around_) number(f, base, others);
    base = simplify(base * imm(count));
    place = simplify(place);
    const PrimExpr mine = simplify(base + place);

    std::vector<Buffer> partial, red;
    const std::vector<Array<PrimExpr>> own(n, Array<PrimExpr>{imm(0)}), slot(n, Array<PrimExpr>{mine});
    for (size_t i = 0; i < n; ++i) {
      const Buffer& b = c.buffers[i];
      partial.push_back(buffer(b->name + "_partial", {imm(1)}, b->dtype, "local"));
      red.push_back(buffer(b->name + "_red", {imm(count * others)}, b->dtype, "shared"));
    }
    auto to_partial = [&](const Stmt& s) {
      auto which = [&](const Buffer& b) -> const Buffer* {
        for (size_t i = 0; i < n; ++i)
          if (b.same_as(c.buffers[i])) return &partial[i];
        return nullptr;
      };
      return rewrite_any(
                 s,
                 [&](const ObjectRef& node) -> ObjectRef {
                   if (const auto* l = node.as<BufferLoad>())
                     if (const Buffer* p = which(l->buffer)) return load(*p, {imm(0)});
                   if (const auto* l = node.as<BufferStore>())
                     if (const Buffer* p = which(l->buffer)) return store(*p, l->value, {imm(0)});
                   return {};
                 },
                 [](const ObjectRef& node) { return node.is<BufferNode>(); })
          .cast<StmtNode>();
    };
    Array<Stmt> steps{substitute(to_partial(block.init), values)};

    // The thread's own part.
    Ref<Block> part(&block);
    Block* p = part.edit();
    p->init = Stmt();
    p->name = block.name + "_partial";
    Array<BufferRegion> writes;
    for (const Buffer& b : partial)
      writes.push_back(make<BufferRegionNode>(b, Array<Range>{range(imm(0), imm(1))}));
    p->writes = writes;
    Array<BufferRegion> reads = writes;
    for (const BufferRegion& r : block.reads)
      if (std::none_of(c.buffers.begin(), c.buffers.end(),
                       [&](const Buffer& b) { return b.same_as(r->buffer); }))
        reads.push_back(r);
    p->reads = reads;
    p->body = to_partial(block.body);
    Stmt body = make<BlockRealize>(realize.iter_values, realize.predicate, part);
    for (size_t i = loops.size(); i-- > 0;)
      if (!tensor_detail::is_thread_loop(*loops[i]))
        body = tensor_detail::edited<For>(loops[i], [&](For* m) { m->body = body; });
    steps.push_back(body);

    // What all of them have found: half with half, between barriers that thread_sync leaves as they are.
    const auto barrier = [] {
      return make<tir::Evaluate>(
          call(DataType::void_(), "tir.storage_sync", {make<tir::StringImm>(std::string("shared"))}));
    };
    Array<Stmt> exchange;
    for (size_t i = 0; i < n; ++i) exchange.push_back(store(red[i], load(partial[i], {imm(0)}), {mine}));
    exchange.push_back(barrier());
    int64_t half = 1;
    while (half * 2 < count) half *= 2;
    for (; half >= 1 && count > 1; half /= 2) {
      std::vector<PrimExpr> other;
      for (size_t i = 0; i < n; ++i) other.push_back(load(red[i], {simplify(mine + imm(half))}));
      exchange.push_back(make<IfThenElse>(lt(place, imm(std::min(half, count - half))),
                                          sched::combine_stmt(c, red, slot, other), Stmt()));
      exchange.push_back(barrier());
      count = half;
    }
    for (size_t i = 0; i < n; ++i) exchange.push_back(store(partial[i], load(red[i], {base}), {imm(0)}));
    exchange.push_back(barrier());
    Stmt together = seq(exchange);
    for (const Buffer& b : red) together = make<Allocate>(b, together, AttrMap());
    steps.push_back(
        make<AttrStmt>(make<tir::StringImm>(block.name), std::string(kOwnBarriers), imm(1), together));

    bool local = true;
    for (const Buffer& b : c.buffers) local = local && b->scope == "local";
    const PrimExpr guard = guard_of(realize.predicate, loops, local ? true_() : first);
    Array<Stmt> results;
    for (size_t i = 0; i < n; ++i)
      results.push_back(store(c.buffers[i], load(partial[i], {imm(0)}),
                              c.indices[i].map([&](const PrimExpr& e) { return substitute(e, values); })));
    steps.push_back(is_one(guard) ? seq(results) : Stmt(make<IfThenElse>(guard, seq(results), Stmt())));

    Array<Buffer> allocated;
    for (const Buffer& b : partial) allocated.push_back(b);
    auto outer = make<Block>(Array<IterVar>(), whole(block.reads), whole(block.writes), block.name,
                             seq(steps), Stmt(), allocated, Array<MatchBufferRegion>(), AttrMap());
    Stmt out = make<BlockRealize>(Array<PrimExpr>(), true_(), outer);
    for (size_t i = loops.size(); i-- > 0;)
      if (tensor_detail::is_thread_loop(*loops[i]))
        out = tensor_detail::edited<For>(loops[i], [&](For* m) { m->body = out; });
    return out;
  }

  std::vector<Ref<For>> around_;  ///< loops over threads around the statement
};

}  // namespace

const Pass& lower_cross_thread_reduction_pass = register_pass({
    .name = "lower_cross_thread_reduction",
    .run = tensor_detail::each_body_with_threads<CrossThread>,
    .level = 0,
    .summary = "threads reduce their parts, then together",
    .changes = Changes::sum_order,
});

}  // namespace tenon
