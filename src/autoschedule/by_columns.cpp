// SPDX-License-Identifier: Apache-2.0
// by_columns: sums, extremes, softmax and the like across memory, whose operands are read for one result
// each. All stages run for a panel of neighbouring columns before the next: a panel is a few vectors wide,
// its results stay in registers, and what a stage leaves for the next one stays in the cache.
#include <algorithm>

#include "autoschedule/stages.h"
#include "autoschedule/tile.h"

namespace tenon::rules {

using namespace tir;

namespace {

int64_t times(int64_t a, int64_t b) { return a == kUnknown || b == kUnknown ? kUnknown : a * b; }

/// The stages, and the iterators of the last one that are rows of results.
struct Columns {
  std::vector<BlockRV> stages;
  std::vector<bool> row;
  size_t column = 0;            ///< the iterator along which columns are neighbours
  int64_t rows = 1, steps = 1;  ///< of results beside the columns; elements of a column; kUnknown
  int64_t passes = 0;           ///< reductions
};

std::optional<Columns> columns_of(Draft& draft, const Facts& last) {
  Schedule& s = draft.schedule;
  Columns out;
  out.stages = leading_to(draft, last.id, [](BlockRV) { return true; });
  out.row.assign(last.extent.size(), true);
  for (BlockRV b : out.stages) {
    const auto f = facts_of(s, b);
    if (!f) return std::nullopt;
    if (!f->is_reduction()) continue;
    if (!folds_columns(*f)) return std::nullopt;
    ++out.passes;
    int64_t steps = 1;
    for (int k : f->reduce) steps = times(steps, f->extent[size_t(k)]);
    out.steps = out.steps == kUnknown ? kUnknown : steps == kUnknown ? kUnknown : std::max(out.steps, steps);
    for (const Access& l : last.loads) {
      if (!l.buffer.same_as(f->write.buffer)) continue;
      for (size_t i = 0; i < out.row.size(); ++i)
        out.row[i] = out.row[i] && (l.stride[i] != 0 || last.extent[i] == 1);
    }
  }
  const auto column = size_t(last.spatial.empty() ? 0 : last.spatial.back());
  for (int k : last.reduce) out.row[size_t(k)] = false;
  if (out.passes == 0 || last.spatial.empty() || (!last.is_reduction() && column + 1 != last.extent.size()) ||
      !out.row[column] || last.write.stride[column] != 1)
    return std::nullopt;
  out.column = column;
  for (size_t i = 0; i < column; ++i)
    if (out.row[i]) out.rows = times(out.rows, last.extent[i]);
  return out;
}

/// The loops of a stage below the first one: its columns as vectors, written out, around nothing.
void arrange_stage(Schedule& s, BlockRV b, int64_t lanes) {
  const std::vector<LoopRV> loops = s.get_loops(b);
  const Ref<BlockRealize> r = s.realize(b);
  const Ref<Block> block = s.get(b);
  int column = -1;
  for (size_t i = 0; i < block->iter_vars.size(); ++i)
    if (block->iter_vars[i]->kind == IterKind::spatial) column = int(i);
  const int at = loop_of(s, b, column, loops, 1);
  CHECK(at > 0, "a stage without its columns");
  std::vector<LoopRV> order, steps;
  for (size_t l = 1; l < loops.size(); ++l) {
    if (int(l) == at) continue;
    bool sum = false;
    for (size_t i = 0; i < r->iter_values.size(); ++i)
      sum = sum || (block->iter_vars[i]->kind == IterKind::reduce &&
                    uses_var(r->iter_values[i], s.get(loops[l])->loop_var.get()));
    (sum ? steps : order).push_back(loops[l]);
  }
  const std::vector<LoopRV> vectors = s.split(loops[size_t(at)], {-1, lanes});
  order.insert(order.end(), steps.begin(), steps.end());
  order.insert(order.end(), vectors.begin(), vectors.end());
  s.reorder(order);
  if (block->init && !steps.empty()) zero_accumulators(s, b, steps[0], 1);
  s.vectorize(vectors[1]);
  s.unroll(vectors[0]);
}

}  // namespace

RuleOutcome by_columns(Draft& draft, const Site& site) {
  Schedule& s = draft.schedule;
  const auto columns = columns_of(draft, *site.facts);
  if (!columns) return RuleOutcome::no_columns;
  const int64_t width = site.facts->extent[columns->column],
                lanes = cost::lanes_for(*site.facts, draft.target);
  const int64_t bits = site.facts->write.element_bits();
  const int64_t vectors = width == kUnknown || width % lanes
                              ? 0
                              : cost::column_vectors({.rows = columns->rows,
                                                      .vectors = width / lanes,
                                                      .steps = columns->steps,
                                                      .bytes = double(lanes * bits) / 8,
                                                      .passes = columns->passes},
                                                     draft.target);
  if (vectors == 0) return RuleOutcome::no_panel;
  BlockRV last = site.block;
  std::vector<BlockRV> stages = columns->stages;
  if (site.facts->is_reduction())
    last = private_result(s, site.block, {-1});
  else
    stages.pop_back();
  // Loops: rows and panels as one, what is no row, the columns of a panel.
  const std::vector<LoopRV> loops = s.get_loops(last);
  if (loops.size() != (site.facts->is_reduction() ? site.facts->spatial.size() : site.facts->extent.size()))
    return RuleOutcome::lost_loop;
  const std::vector<LoopRV> panel = s.split(loops.back(), {-1, vectors * lanes});
  std::vector<LoopRV> rows, rest;
  for (size_t l = 0; l + 1 < loops.size(); ++l) {
    const size_t i = site.facts->is_reduction() ? size_t(site.facts->spatial[l]) : l;
    (columns->row[i] ? rows : rest).push_back(loops[l]);
  }
  rows.push_back(panel[0]);
  std::vector<LoopRV> order = rows;
  order.insert(order.end(), rest.begin(), rest.end());
  order.push_back(panel[1]);
  s.reorder(order);
  const LoopRV all = s.fuse(rows);
  for (size_t i = stages.size(); i-- > 0;) s.compute_at(stages[i], all);
  stages.push_back(last);
  for (BlockRV b : stages) {
    arrange_stage(s, b, lanes);
    draft.set_scheduled(b);
  }
  const int64_t work = times(times(columns->rows, width), columns->steps);
  if (work == kUnknown || cost::worth_parallel(double(work) * site.facts->cost, draft.target))
    draft.parallel(all);
  return RuleOutcome::applied;
}

}  // namespace tenon::rules
