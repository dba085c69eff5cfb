// SPDX-License-Identifier: Apache-2.0
// lower_cross_thread_reduction
//   before: for t in threadIdx.x: for k: block: init: B[i] = 0; B[i] = B[i] + A[i, k * 32 + t]
//   after:  for t: p = local; p = 0; for k: p = p + A[…]; r = allreduce("add", p, "threadIdx.x"); if t == 0:
//   B[i] = r
// A reduction whose iterations lie on threads is done by each thread for its part; then all combine.
// Needs: blocks with their iterators, one accumulator, an operation that is known (sum, product, minimum,
// maximum, and, or). Keeps: the value, up to the order of the combination.
#include <limits>

#include "ir/intrinsic.h"
#include "ir/structural.h"
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;
using tensor_detail::imm;
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
    return below(s);
  }
  PrimExpr expr(const PrimExpr& e) override { return e; }

 private:
  static Stmt lowered(const Stmt& s) {
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
    // A predicate that the reduction does not change holds for the result too.
    std::vector<PrimExpr> todo{realize->predicate};
    PrimExpr guard = update->buffer->scope == "local" ? true_() : first;
    while (!todo.empty()) {
      const PrimExpr e = todo.back();
      todo.pop_back();
      if (const auto* both = e.as<And>()) {
        todo.push_back(both->a);
        todo.push_back(both->b);
        continue;
      }
      bool spatial = true;
      for (const Ref<For>& f : loops) spatial = spatial && !mentions(e, f->loop_var.get());
      if (spatial && !is_one(e)) guard = logical_and(guard, e);
    }
    if (!is_one(guard)) result = make<IfThenElse>(guard, result, Stmt());
    result = make<LetStmt>(total, call(t, "tir.thread_allreduce", args), result);

    auto whole = [](const Array<BufferRegion>& list) {
      return list.map([](const BufferRegion& r) {
        Array<Range> all;
        for (const PrimExpr& d : r->buffer->shape) all.push_back(range(PrimExpr::int_imm(0, d.dtype()), d));
        return make<BufferRegionNode>(r->buffer, all);
      });
    };
    const Stmt steps = seq({store(partial, op.identity, {imm(0)}), body, result});
    auto outer = make<Block>(Array<IterVar>(), whole(block.reads), whole(block.writes), block.name, steps,
                             Stmt(), Array<Buffer>{partial}, Array<MatchBufferRegion>(), AttrMap());
    Stmt out = make<BlockRealize>(Array<PrimExpr>(), true_(), outer);
    for (size_t i = loops.size(); i-- > 0;)
      if (tensor_detail::is_thread_loop(*loops[i]))
        out = tensor_detail::edited<For>(loops[i], [&](For* m) { m->body = out; });
    return out;
  }
};

}  // namespace

IRModule lower_cross_thread_reduction(IRModule module, PassContext&) {
  return tensor_detail::map_bodies(module, [](const std::string&, const PrimFunc& f) {
    return tensor_detail::has_threads(f->body) ? CrossThread().stmt(f->body) : Stmt();
  });
}

}  // namespace tenon
