// SPDX-License-Identifier: Apache-2.0
#include "analysis/cost/rows.h"

#include <algorithm>
#include <set>

#include "analysis/analyzer.h"
#include "analysis/cost/cache.h"
#include "analysis/cost/nest.h"
#include "ir/find_node.h"

namespace tenon::cost {

using namespace tir;

namespace {

/// Second caches that tensors between stages must exceed: of a few, stages that walk rows alike find a part.
constexpr double kFarCaches = 4;
constexpr double kBlockShare = 0.5;  ///< of the second cache, for what lies between the stages of a block
constexpr int64_t kLeastBlock = 32;  ///< rows: fewer read what they share too seldom
constexpr int64_t kLeastApart = 8;   ///< rows of blocks that must divide a part
constexpr int64_t kRowStep = 16;     ///< a block has whole tiles of rows: those of a matrix register
/// Rows whose products take as long as laying out what they share, which each task does for itself: some two
/// cycles an element, where matrix registers do 400 multiplications in one and most of their operands are
/// read twice.
constexpr int64_t kLayOutRows = 256;
/// How often what lies between stages passes: it is made, and read by one stage at least.
constexpr double kPasses = 2;

struct Load {
  Buffer buffer;
  Array<PrimExpr> indices;
};
std::vector<Load> loads_of(const Ref<Block>& b) {
  std::vector<Load> out;
  const Buffer made = b->body.as<BufferStore>()->buffer;
  post_order(b->body, [&](const ObjectRef& n) {
    if (const auto* l = n.as<BufferLoad>(); l && !l->buffer.same_as(made))
      out.push_back({l->buffer, l->indices});
  });
  return out;
}
bool is_reduction(const Ref<Block>& b) {
  return std::any_of(b->iter_vars.begin(), b->iter_vars.end(),
                     [](const IterVar& v) { return v->kind == IterKind::reduce; });
}

struct Traffic {
  double between = 0;      ///< bytes of the tensors that stages hand on, in memory
  PrimExpr between_exact;  ///< the same as an expression of the sizes
  double shared = 0;       ///< bytes that one task reads and all of its rows share
  bool sums = false;       ///< a product sums up the largest of these, which another one leads to
};

/// Bytes of what `b` is read for at each value of the shared axes; 0: it is read for one row only.
double shared_bytes(const StageAxes& stage, const Load& l) {
  const Array<IterVar>& iters = stage.block->block->iter_vars;
  double out = double(l.buffer->dtype.bits) / 8;
  for (size_t i = 0; i < iters.size(); ++i) {
    if (!mentions(l.indices, iters[i]->var.get())) continue;
    const auto axis = std::ranges::find(stage.iterator, int(i));
    if (axis == stage.iterator.end())
      out *= likely_size(iters[i]->dom->extent);
    else if (axis + 1 == stage.iterator.end())
      return 0;
  }
  return out;
}

Traffic traffic_of(const SharedAxes& axes) {
  Traffic out;
  std::set<const Object*> once, stays;  // tensors that one stage reads, and those that are stored for others
  auto between = [&](const Buffer& b) {
    return std::ranges::find_if(axes.buffers,
                                [&](const PrivateBuffer& x) { return x.buffer.same_as(b) && x.has_rows(); });
  };
  std::set<const Object*> made_by_product;
  double largest = 0;
  for (const PrivateBuffer& b : axes.buffers)
    if (b.has_rows()) largest = std::max(largest, b.elements);
  for (const StageAxes& stage : axes.stages) {
    if (stage.in_front()) continue;
    const Ref<Block>& b = stage.block->block;
    const bool reduction = is_reduction(b);
    bool product = false, reads_product = false, reads_largest = false;
    for (const Load& l : loads_of(b)) {
      if (const auto read = between(l.buffer); read != axes.buffers.end()) {
        if (reduction || !once.insert(l.buffer.get()).second) stays.insert(l.buffer.get());
        if (!made_by_product.count(l.buffer.get())) continue;
        reads_product = true;
        reads_largest = reads_largest || read->elements == largest;
      } else if (const double bytes = reduction ? shared_bytes(stage, l) : 0; bytes > 0) {
        out.shared += bytes;
        product = true;
      }
    }
    // What is computed from a product's result goes on being one.
    if (product && reads_largest) out.sums = true;
    if (product || reads_product) made_by_product.insert(b->body.as<BufferStore>()->buffer.get());
  }
  out.between_exact = PrimExpr(0);
  for (const PrivateBuffer& b : axes.buffers)
    if (stays.count(b.buffer.get()) && b.has_rows()) {
      out.between += b.elements * double(b.buffer->dtype.bits) / 8;
      PrimExpr bytes = PrimExpr(b.buffer->dtype.bytes());
      for (const PrimExpr& size : b.buffer->shape) bytes = bytes * size;
      out.between_exact = out.between_exact + bytes;
    }
  return out;
}

/// Parts of the rows, each with the other axes a task, for which all cores are done soonest.
int64_t parts_of(int64_t rows, int64_t tasks, const Target& target) {
  int64_t best = 1;
  auto rounds = [&](int64_t parts) {
    return ceil_div(tasks * parts, target->cores) * (kLayOutRows + rows / parts);
  };
  for (int64_t n = 2; n * kLeastBlock <= rows && n <= tasks_wanted(target); ++n)
    if (rows % n == 0 && rounds(n) < rounds(best)) best = n;
  return best;
}

/// Rows of a block: whole tiles of about equal blocks, or a divisor; 0: there is none.
int64_t rows_of(int64_t part, int64_t most, bool apart) {
  if (apart) {
    int64_t rows = std::min(most, part);
    while (part % rows != 0) --rows;
    return rows >= std::min(kLeastApart, part) ? rows : 0;
  }
  const int64_t even = ceil_div(part, ceil_div(part, most));
  return std::min(ceil_div(even, kRowStep) * kRowStep, part);
}

}  // namespace

std::optional<RowBlocks> row_blocks(const SharedAxes& axes, bool apart, const Target& target) {
  const Traffic traffic = traffic_of(axes);
  const bool known = as_int(axes.extent.back()).has_value();
  const auto rows = int64_t(likely_size(axes.extent.back()));
  int64_t tasks = 1;  // that are known
  double rows_in_all = double(rows);
  for (size_t i = 0; i + 1 < axes.extent.size(); ++i) {
    tasks *= as_int(axes.extent[i]).value_or(1);
    rows_in_all *= likely_size(axes.extent[i]);
  }
  const double cache = double(target->l2_bytes), row_bytes = traffic.between / rows_in_all;
  if (!traffic.sums || traffic.between <= kFarCaches * cache) return std::nullopt;
  const int64_t most = std::max(kLeastBlock, int64_t(kBlockShare * cache / row_bytes) / kRowStep * kRowStep);
  RowBlocks out;
  if (known) {
    out.parts = parts_of(rows, tasks, target);
    out.rows = rows_of(rows / out.parts, most, apart);
  } else {
    out.parts = tasks < target->cores ? 0 : 1;
    out.rows = most;
  }
  if (out.rows == 0) return std::nullopt;
  const int64_t part = out.parts == 0 ? rows : rows / out.parts, blocks = ceil_div(part, out.rows);
  out.overlap = known && part % out.rows != 0;
  // What lies in the third cache, or behind it, no longer passes, but what rows share does for each block.
  auto cycles = [&](double bytes, double held) {
    return bytes / (held <= cache                      ? target->l2_bandwidth
                    : held <= double(target->l3_bytes) ? target->l3_bandwidth
                                                       : target->memory_bandwidth);
  };
  if (!as_int(traffic.between_exact)) {
    Analyzer a;
    out.condition = gt(a.simplify(traffic.between_exact), PrimExpr(int64_t(kFarCaches * cache)));
    if (!known) out.condition = logical_and(out.condition, ge(axes.extent.back(), PrimExpr(kLeastBlock)));
  }
  const double tasks_in_all = rows_in_all / double(part);
  const double again = cycles(traffic.shared * double(blocks) * tasks_in_all,
                              traffic.shared + double(out.rows) * row_bytes),
               saved = cycles(traffic.between * kPasses, traffic.between);
  return again < saved ? std::optional(out) : std::nullopt;
}

}  // namespace tenon::cost
