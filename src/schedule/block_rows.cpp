// SPDX-License-Identifier: Apache-2.0
// block_rows: a whole program runs for a block of rows at a time. Its stages move into a block inside loops
// over tasks and blocks of rows, where tensors between stages hold one block; those that prepare what all
// tasks read stay in front.
#include <fmt/format.h>

#include <algorithm>

#include "analysis/shared_axes.h"
#include "schedule/define.h"

namespace tenon::sched {

using namespace tir;

namespace {

/// The block in loops of these names, one for each of its iterators.
Stmt in_loops(const Ref<Block>& block, const std::vector<std::string>& names) {
  Array<PrimExpr> values;
  std::vector<VarRef> loops;
  for (size_t i = 0; i < names.size(); ++i) {
    loops.push_back(var(names[i], block->iter_vars[i]->var->dtype));
    values.push_back(loops.back());
  }
  Stmt out = make<BlockRealize>(values, true_(), with_regions(block));
  for (size_t i = loops.size(); i-- > 0;)
    out = for_(loops[i], PrimExpr(0), block->iter_vars[i]->dom->extent, out, ForKind::serial);
  return out;
}

/// A block around others, over `iters`, which are called as its loops are behind a "v".
Stmt around(const Array<IterVar>& iters, const Stmt& body, const Array<Buffer>& allocs,
            const std::string& name) {
  std::vector<std::string> names;
  for (const IterVar& v : iters) names.push_back(v->var->name.substr(1));
  return in_loops(make<Block>(iters, Array<BufferRegion>(), Array<BufferRegion>(), name, body, Stmt(), allocs,
                              Array<MatchBufferRegion>(), AttrMap()),
                  names);
}

struct RowBlocker {
  const SharedAxes axes;
  const int64_t parts, rows;
  const PrimExpr part = part_of(axes.extent.back(), parts, rows),
                 blocks = floordiv(part + PrimExpr(rows - 1), PrimExpr(rows));
  /// Blocks do not overlap: those of an unknown number of rows end with a shorter one.
  const bool symbolic = !as_int(axes.extent.back()),
             apart = symbolic || *as_int(blocks) * rows == *as_int(part);
  /// Iterators of the block around: the axes of tasks, then the part, and, in the block of rows, its number.
  Array<IterVar> tasks = {}, numbers = {};
  BufferMap smaller = {};

  static PrimExpr part_of(const PrimExpr& extent, int64_t parts, int64_t rows) {
    if (parts == 0) return PrimExpr(rows);
    return parts == 1 ? extent : floordiv(extent, PrimExpr(parts));
  }
  PrimExpr number_of_parts() const {
    return parts == 0 ? floordiv(axes.extent.back() + PrimExpr(rows - 1), PrimExpr(rows)) : PrimExpr(parts);
  }

  PrimExpr first_row() const {
    const VarRef &p = tasks.back()->var, &n = numbers[0]->var;
    if (parts == 0) return p * PrimExpr(rows);
    const PrimExpr at = apart ? n * PrimExpr(rows) : min(n * PrimExpr(rows), part - PrimExpr(rows));
    return parts == 1 ? at : p * part + at;
  }
  /// Of the block.
  PrimExpr number_of_rows() const {
    return symbolic ? min(PrimExpr(rows), axes.extent.back() - first_row()) : PrimExpr(rows);
  }

  /// Positions of the axes of tasks among `places` (one for each shared axis) go.
  bool goes(const std::vector<int>& places, size_t at) const {
    const auto found = std::ranges::find(places, int(at));
    return found != places.end() && found + 1 != places.end();
  }
  bool is_row(const std::vector<int>& places, size_t at) const { return places.back() == int(at); }

  void make_buffers() {
    for (const PrivateBuffer& b : axes.buffers) {
      if (b.in_front()) continue;
      Array<PrimExpr> shape;
      for (size_t d = 0; d < b.buffer->shape.size(); ++d)
        if (!goes(b.dim, d)) shape.push_back(is_row(b.dim, d) ? number_of_rows() : b.buffer->shape[d]);
      smaller[b.buffer.get()] = buffer(b.buffer->name, shape, b.buffer->dtype, b.buffer->scope);
    }
  }
  const PrivateBuffer* between(const Buffer& b) const {
    for (const PrivateBuffer& x : axes.buffers)
      if (x.buffer.same_as(b) && !x.in_front()) return &x;
    return nullptr;
  }

  /// The stage for one block of rows.
  Stmt stage(const StageAxes& of) {
    const Ref<Block>& old = of.block->block;
    VarMap whole;  // iterators as the program has them
    VarRef row;
    Array<IterVar> iters;
    std::vector<std::string> loops;
    for (size_t i = 0; i < old->iter_vars.size(); ++i) {
      const IterVar& v = old->iter_vars[i];
      if (goes(of.iterator, i)) {
        const auto at = std::ranges::find(of.iterator, int(i)) - of.iterator.begin();
        whole[v->var.get()] = tasks[size_t(at)]->var;
        continue;
      }
      const bool is = is_row(of.iterator, i);
      iters.push_back(
          iter_var(range(PrimExpr(0), is ? number_of_rows() : v->dom->extent), v->var->name, v->kind));
      const VarRef& next = iters.back()->var;
      if (is) row = next;
      whole[v->var.get()] = is ? first_row() + next : PrimExpr(next);
      loops.push_back(of.block->iter_values[i].as<Var>()->name);
    }
    auto moved = [&](const Stmt& t) { return t ? inside(t, whole, row) : t; };
    return in_loops(
        make<Block>(iters, Array<BufferRegion>(), Array<BufferRegion>(), old->name, moved(old->body),
                    moved(old->init), Array<Buffer>(), Array<MatchBufferRegion>(), old->annotations),
        loops);
  }

  /// `t` with iterators as `whole` has them; tensors between stages are indexed by the row of the block.
  Stmt inside(const Stmt& t, const VarMap& whole, const VarRef& row) {
    auto indices = [&](const PrivateBuffer& b, const Array<PrimExpr>& old) {
      Array<PrimExpr> out;
      for (size_t d = 0; d < old.size(); ++d)
        if (!goes(b.dim, d)) out.push_back(is_row(b.dim, d) ? PrimExpr(row) : substitute(old[d], whole));
      return out;
    };
    return rewrite_any(
               t,
               [&](const ObjectRef& n) -> ObjectRef {
                 if (const auto* l = n.as<BufferLoad>())
                   if (const PrivateBuffer* b = between(l->buffer))
                     return load(smaller.at(l->buffer.get()), indices(*b, l->indices),
                                 inside_value(l->predicate, whole, row));
                 if (const auto* w = n.as<BufferStore>())
                   if (const PrivateBuffer* b = between(w->buffer))
                     return store(smaller.at(w->buffer.get()), inside_value(w->value, whole, row),
                                  indices(*b, w->indices));
                 if (const auto* v = n.as<Var>())
                   if (auto at = whole.find(v); at != whole.end()) return at->second;
                 return {};
               },
               [](const ObjectRef& n) { return n.is<BufferNode>(); })
        .cast<StmtNode>();
  }
  PrimExpr inside_value(const PrimExpr& value, const VarMap& whole, const VarRef& row) {
    return value ? inside(make<Evaluate>(value), whole, row).as<Evaluate>()->value : value;
  }
};

}  // namespace

static std::vector<int32_t> block_rows(State& s, int32_t id, int64_t parts, int64_t rows) {
  require_root_scope(s, id);
  const int32_t root = s.scope_of(id);
  auto axes = shared_axes(s.function);
  if (!axes)
    s.refuse(
        "T0783", id, "the program's stages share no axis",
        "each stage is one store under whole loops of its own, and reads what others make at its own index");
  const auto extent = as_int(axes->extent.back());
  if (extent ? parts < 1 || *extent % parts != 0 : parts != 0 && parts != 1)
    s.refuse(
        "T0782", id,
        extent ? fmt::format("{} rows have no {} equal parts", *extent, parts)
               : fmt::format("rows of unknown number are one part, or each block is one (0), not {}", parts));
  if (rows < 1 || (extent && rows > *extent / parts))
    s.refuse("T0782", id,
             fmt::format("a part of {} rows has no block of {}",
                         extent ? std::to_string(*extent / parts) : "any number of", rows));
  RowBlocker b{*axes, parts, rows};
  if (!b.apart && may_alias(s.function))
    s.refuse("T0782", id,
             fmt::format("blocks of {} in {} rows overlap, and results may lie where operands do", rows,
                         *as_int(b.part)),
             "take rows that divide a part");
  for (size_t i = 0; i + 1 < axes->extent.size(); ++i)
    b.tasks.push_back(iter_var(range(PrimExpr(0), axes->extent[i]), fmt::format("vtask{}", i)));
  b.tasks.push_back(iter_var(range(PrimExpr(0), b.number_of_parts()), "vpart"));
  // Blocks that overlap make the same rows twice, one after the other.
  b.numbers.push_back(
      iter_var(range(PrimExpr(0), b.blocks), "vrows", b.apart ? IterKind::spatial : IterKind::opaque));
  b.make_buffers();
  Array<Stmt> stages, all;
  for (const int32_t nest : s.children(root)) {
    const int32_t block = s.is_block(nest) ? nest : s.blocks_below(nest)[0];
    const auto stage = std::ranges::find_if(
        axes->stages, [&](const StageAxes& x) { return x.block.same_as(s.realize(block)); });
    CHECK(stage != axes->stages.end(), "a stage of a program is no block of it");
    if (stage->in_front())
      all.push_back(s.entry(nest).node);
    else
      stages.push_back(b.stage(*stage));
  }
  Array<Buffer> allocs, kept;
  for (const PrivateBuffer& x : axes->buffers) {
    if (x.in_front())
      kept.push_back(x.buffer);
    else
      allocs.push_back(b.smaller.at(x.buffer.get()));
  }
  const std::string rows_name = s.fresh_block_name("rows"), task_name = s.fresh_block_name("task");
  const Stmt inner = around(b.numbers, seq(stages), allocs, rows_name);
  s.open.insert({rows_name, task_name});
  all.push_back(around(b.tasks, inner, {}, task_name));
  s.replace_body(root, seq(all), kept);
  return s.loops_of(s.names.at(task_name));
}

const Define<&Schedule::block_rows, block_rows> block_rows_record{
    {.name = "block_rows",
     .does =
         "the program runs for a block of rows at a time, the last axis that all its stages share: "
         "tensors between stages hold one block, and tasks (the other shared axes, and equal parts of the "
         "rows) are independent; the loops over tasks",
     .legal =
         "every stage is one store under whole loops of its own, and what a stage makes at an index of the "
         "shared axes others read at that index only; blocks do not overlap where results may lie where "
         "operands do (\"tir.noalias\" is false)",
     .parameters = {{"block", "any one of the program"},
                    {"parts", "of the rows, equal ones; of an unknown number 1, or 0: each block is one"},
                    {"rows",
                     "of a block; the last of a part begins earlier where they do not fill it, that of an "
                     "unknown number has fewer"}},
     .sample = {samples::two_products, R"(
d = sch.get_block("D")
part, = sch.block_rows(d, 1, 4)
)"}}};

}  // namespace tenon::sched
