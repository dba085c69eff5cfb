// SPDX-License-Identifier: Apache-2.0
// Primitives on what a buffer or a block is declared as: unsafe_set_dtype, set_axis_separator,
// reorder_block_iter_var.
#include <fmt/format.h>

#include "schedule/define.h"

namespace tenon::sched {

using namespace tir;

namespace {

/// No matched region, pointer or view of `b` in the block that owns it: every access names the buffer.
void require_named_accesses(const State& s, int32_t id, int32_t owner, const Buffer& b) {
  bool matched = false;
  pre_order(s.block(owner)->body, [&](const ObjectRef& n) {
    if (const auto* m = n.as<MatchBufferRegionNode>()) matched = matched || m->source->buffer.same_as(b);
    if (const auto* d = n.as<DeclBuffer>()) matched = matched || d->buffer->data.same_as(b->data);
    if (const auto* c = n.as<Call>())
      matched = matched || (c->op == "tir.address_of" && c->args[0].is<BufferLoad>() &&
                            c->args[0].as<BufferLoad>()->buffer.same_as(b));
    if (n.get() == b->data.get()) matched = true;
    return !matched && !n.is<BufferNode>();
  });
  if (matched)
    s.refuse("T0736", id, fmt::format("'{}' is used through a matched region or a pointer", b->name),
             "do this before tensorize");
}
int32_t require_allocated(const State& s, int32_t id, const Buffer& b, const char* what) {
  const int32_t owner = owner_of(s, id, b);
  if (owner < 0)
    s.refuse("T0775", id,
             fmt::format("'{}' is not allocated by the program: its {} the caller's", b->name, what),
             "use cache_read or cache_write, and change the copy");
  return owner;
}

}  // namespace

static void unsafe_set_dtype(State& s, int32_t id, int write_index, DataType dtype) {
  s.scope_of(id);
  const Buffer b = region_buffer(s, id, write_index, true);
  if (dtype.is_handle() || dtype.lanes != 1 || dtype.is_void() || dtype.is_bool())
    s.refuse("T0707", id, fmt::format("a buffer of {} cannot hold its values", to_string(dtype)),
             "choose a scalar number type");
  if (b->dtype.is_bool() || b->dtype.lanes != 1)
    s.refuse("T0707", id,
             fmt::format("'{}' holds {}, which is no scalar number", b->name, to_string(b->dtype)));
  if (b->dtype.is_float() != dtype.is_float())
    s.refuse("T0707", id,
             fmt::format("'{}' holds {}; {} is a number of another kind", b->name, to_string(b->dtype),
                         to_string(dtype)),
             "floating types become floating types, integers integers");
  const int32_t owner = require_allocated(s, id, b, "type is");
  if (b->dtype == dtype) return;
  require_named_accesses(s, id, owner, b);
  Buffer next = b;
  {
    BufferNode* e = next.edit();
    e->dtype = dtype;
    e->data = var(b->data->name, b->data->dtype);
  }
  const DataType old = b->dtype;
  const Stmt body = rewrite_any(
                        s.block(owner)->body,
                        [&](const ObjectRef& n) -> ObjectRef {
                          if (const auto* l = n.as<BufferLoad>(); l && l->buffer.same_as(b))
                            return cast(old.with_lanes(l->dtype.lanes), load(next, l->indices, l->predicate));
                          if (const auto* t = n.as<BufferStore>(); t && t->buffer.same_as(b))
                            return store(next, cast(dtype.with_lanes(t->value.dtype().lanes), t->value),
                                         t->indices, t->predicate);
                          if (const auto* r = n.as<BufferRegionNode>(); r && r->buffer.same_as(b))
                            return make<BufferRegionNode>(next, r->region);
                          return {};
                        },
                        [](const ObjectRef& n) { return n.is<BufferNode>(); })
                        .cast<StmtNode>();
  Array<Buffer> allocs;
  for (const Buffer& x : s.block(owner)->alloc_buffers) allocs.push_back(x.same_as(b) ? next : x);
  s.replace_body(owner, body, allocs);
}

static void set_axis_separator(State& s, int32_t id, int index, BufferIndexType type,
                               const std::vector<int>& separators) {
  const bool of_write = type == BufferIndexType::write;
  s.scope_of(id);
  const Buffer b = region_buffer(s, id, index, of_write);
  const int rank = int(b->shape.size());
  int last = 0;
  for (int x : separators) {
    if (x <= last || x >= rank)
      s.refuse("T0708", id,
               fmt::format("{} does not cut the {} dimensions of '{}' into groups", x, rank, b->name),
               "separators rise, each above 0 and below the number of dimensions");
    last = x;
  }
  const int32_t owner = require_allocated(s, id, b, "axes are");
  Array<int64_t> next_separators;
  for (int x : separators) next_separators.push_back(x);
  bool same = next_separators.size() == b->axis_separators.size();
  for (size_t i = 0; same && i < next_separators.size(); ++i)
    same = next_separators[i] == b->axis_separators[i];
  if (same) return;
  Buffer next = b;
  {
    BufferNode* e = next.edit();
    e->axis_separators = next_separators;
    e->data = var(b->data->name, b->data->dtype);
  }
  s.replace(owner, replace_buffers(s.realize(owner), {{b.get(), next}}));
}

static void reorder_block_iter_var(State& s, int32_t id, const std::vector<int>& order) {
  s.scope_of(id);
  Ref<BlockRealize> r = s.realize(id);
  const size_t n = r->block->iter_vars.size();
  std::vector<bool> used(n);
  bool good = order.size() == n, same = true;
  for (size_t i = 0; i < order.size(); ++i) {
    good = good && order[i] >= 0 && size_t(order[i]) < n && !used[size_t(order[i])];
    if (!good) break;
    used[size_t(order[i])] = true;
    same = same && order[i] == int(i);
  }
  if (!good)
    s.refuse("T0789", id,
             fmt::format("the {} positions given are not an order of its {} iterators", order.size(), n),
             fmt::format("give each of 0 to {} once", n == 0 ? 0 : n - 1));
  if (same) return;
  Array<IterVar> iters;
  Array<PrimExpr> values;
  for (int at : order) {
    iters.push_back(r->block->iter_vars[size_t(at)]);
    values.push_back(r->iter_values[size_t(at)]);
  }
  Ref<Block> block = r->block;
  block.edit()->iter_vars = iters;
  {
    BlockRealize* e = r.edit();
    e->iter_values = values;
    e->block = block;
  }
  s.replace(id, r);
}

const Define<&Schedule::unsafe_set_dtype, unsafe_set_dtype> unsafe_set_dtype_record{
    {.name = "unsafe_set_dtype",
     .reference = "UnsafeSetDType",
     .trusts_caller = true,
     .does = "a buffer holds another type; values are converted at each access, and a narrower type changes "
             "results",
     .legal = "the program allocates the buffer; floating types become floating types, integers integers",
     .parameters = {{"block", "a writer of the buffer"},
                    {"write_index", "which of its write regions"},
                    {"dtype", "the new type, a scalar number"}},
     .sample = {samples::matmul, R"(
c = sch.get_block("C")
sch.unsafe_set_dtype(c, write_index=0, dtype="float64")
)"}}};
const Define<&Schedule::set_axis_separator, set_axis_separator> set_axis_separator_record{
    {.name = "set_axis_separator",
     .calls = CallOrder::moved,
     .does = "a buffer's dimensions are grouped into the axes of the memory that it lives in",
     .legal = "the program allocates the buffer",
     .parameters = {{"block", "that uses the buffer"},
                    {"buffer_index", "which of its regions"},
                    {"buffer_index_type", "of those that it reads or of those that it writes"},
                    {"separators", "where a group ends and the next begins, rising"}},
     .sample = {samples::matmul, R"(
c = sch.get_block("C")
sch.set_axis_separator(c, buffer_index=0, buffer_index_type="write", separators=[1])
)"}}};
const Define<&Schedule::reorder_block_iter_var, reorder_block_iter_var> reorder_block_iter_var_record{
    {.name = "reorder_block_iter_var",
     .does = "a block's iterators change places",
     .legal = "each position is given once",
     .parameters = {{"block", "whose iterators"}, {"order", "position i gets what was at order[i]"}},
     .sample = {samples::matmul, R"(
c = sch.get_block("C")
sch.reorder_block_iter_var(c, order=[2, 1, 0])
)"}}};

}  // namespace tenon::sched
