// SPDX-License-Identifier: Apache-2.0
// row_by_row: softmax, normalisation, sums along memory. All stages run for one row before the next, rows are
// parallel, sums along memory keep one partial result for each lane.
#include <algorithm>

#include "autoschedule/row_sums.h"

namespace tenon::rules {

using namespace tir;

namespace {

constexpr double kStageCost = 4;  ///< operations of an instance, where stages are counted together

/// The stages of a computation: the last block, and those that lead to it and are not scheduled yet.
struct Stages {
  BlockRV last;
  Facts facts;                  ///< of the last block, as it came
  std::vector<BlockRV> blocks;  ///< in program order, factored sums before their reductions
  int64_t instances = 0;        ///< of all; kUnknown
};

/// What a stage makes of a row that may end within a vector runs on to whole vectors where other stages alone
/// read it: they would wait for a vector that is stored in part. Sums have their masks for themselves.
bool makes_whole_vectors(Draft& draft, const Facts& f) {
  if (f.is_reduction() || f.extent.empty() || writes_parameter(draft.schedule, f.id)) return false;
  const int64_t length = f.extent.back(), lanes = cost::lanes_for(f, draft.target);
  if (length != kUnknown && (length < lanes / 2 || length % lanes == 0)) return false;
  return try_step(draft, "whole vectors of a row", [&](Schedule& s) {
    s.pad_iteration(f.id, int(f.extent.size()) - 1, cost::lanes_for(f, draft.target));
  });
}

/// Does a stage make more results than there are sums? Each symbolic size counts as more than any known one.
bool makes_more(const Facts& stage, const Facts& sum) {
  auto results = [](const Facts& f) {
    std::pair<int, double> out{0, 1};  // symbolic sizes, and the product of the others
    for (int i : f.spatial)
      if (f.symbolic(i))
        ++out.first;
      else
        out.second *= double(f.extent[size_t(i)]);
    return out;
  };
  return results(stage) > results(sum);
}

/// Sums along memory get their lanes.
Stages stages_of(Draft& draft, const Facts& last, const std::vector<BlockRV>& blocks) {
  Stages out{last.id, last};
  const bool sums = std::ranges::any_of(blocks, [&](BlockRV b) {
    const auto f = facts_of(draft.schedule, b);
    return f && f->is_reduction() && along_memory(*f);
  });
  for (BlockRV b : blocks) {
    auto f = facts_of(draft.schedule, b);
    // The last stage may be read by a loop that walks all rows as one.
    if (sums && f && b.id != last.id.id && makes_whole_vectors(draft, *f)) f = facts_of(draft.schedule, b);
    const int64_t instances = f ? f->instances(false) : kUnknown;
    out.instances = out.instances == kUnknown || instances == kUnknown ? kUnknown : out.instances + instances;
    if (f && f->is_reduction() && along_memory(*f))
      for (const BlockRV part : factor_lanes(draft, *f, makes_more(last, *f))) out.blocks.push_back(part);
    out.blocks.push_back(b);
  }
  return out;
}

/// Which iterators of the last block are rows: they lead to the results of all reductions it needs. Null: it
/// reads none of them.
std::optional<std::vector<bool>> rows_of(Schedule& s, const Facts& f, const std::vector<BlockRV>& leading) {
  std::vector<bool> row(f.extent.size(), f.is_reduction());
  for (int k : f.reduce) row[size_t(k)] = false;
  bool any = f.is_reduction();
  auto reduced = [&](const Access& l) {
    return std::any_of(leading.begin(), leading.end(), [&](BlockRV b) {
      const Ref<Block> block = s.get(b);
      return b.id != f.id.id && block->init &&
             std::any_of(block->writes.begin(), block->writes.end(),
                         [&](const BufferRegion& w) { return w->buffer.same_as(l.buffer); });
    });
  };
  for (const Access& l : f.loads) {
    if (f.is_reduction() || !reduced(l)) continue;
    for (size_t i = 0; i < row.size(); ++i) row[i] = l.stride[i] != 0 && f.extent[i] != 1 && (!any || row[i]);
    any = true;
  }
  if (!any) return std::nullopt;
  // Reductions across memory: rows of the contiguous axis stay inside, as vectors.
  const bool sums_along_memory = std::any_of(leading.begin(), leading.end(), [&](BlockRV b) {
    const auto of = facts_of(s, b);
    return of && of->is_reduction() && along_memory(*of);
  });
  if (!sums_along_memory && !row.empty() && row.back()) row.back() = false;
  return row;
}

/// The last axes inside of a row that every access walks as one (rows of an image) are one axis.
void join_axes(Draft& draft, Site& site, std::vector<bool>& row) {
  for (const Fusion& run : fusable(*site.facts)) {
    int first = run.first;
    const int end = run.first + run.count;
    while (first < end && row[size_t(first)]) ++first;
    if (end != int(row.size()) || end - first < 2) continue;
    const bool done = try_step(draft, "axes of a row as one",
                               [&](Schedule& s) { s.fuse_iterators(site.block, first, end - first); });
    const auto joined = done ? facts_of(draft.schedule, site.block) : std::nullopt;
    if (!joined) return;
    site.facts = joined;
    row.resize(size_t(first) + 1);
  }
}

/// The loops of rows of the last block, made one around the others; id < 0: there are none.
LoopRV fuse_rows(Schedule& s, BlockRV last, const std::vector<bool>& row) {
  std::vector<LoopRV> rows, rest;
  const std::vector<LoopRV> loops = s.get_loops(last);
  std::vector<bool> is_row(loops.size(), false);  // an iterator of extent 1 may have no loop
  for (size_t i = 0; i < row.size(); ++i)
    if (const int l = row[i] ? loop_of(s, last, int(i), loops, 0) : -1; l >= 0) is_row[size_t(l)] = true;
  for (size_t l = 0; l < loops.size(); ++l) (is_row[l] ? rows : rest).push_back(loops[l]);
  if (rows.empty()) return {-1};
  std::vector<LoopRV> order = rows;
  order.insert(order.end(), rest.begin(), rest.end());
  if (!rest.empty()) s.reorder(order);
  return s.fuse(rows);
}

/// Moves the stages into the loop over rows. Those that are inside, the last first.
std::vector<BlockRV> place_stages(Draft& draft, const Stages& stages, LoopRV rows) {
  std::vector<BlockRV> inside;
  for (size_t i = stages.blocks.size(); i-- > 0;) {
    const BlockRV b = stages.blocks[i];
    if (b.id == stages.last.id ||
        try_step(draft, "a stage at the rows", [&](Schedule& s) { s.compute_at(b, rows); }))
      inside.push_back(b);
  }
  return inside;
}

int64_t count_of(const Facts& f, const std::vector<bool>& row) {
  int64_t count = 1;
  for (size_t i = 0; i < row.size(); ++i)
    if (row[i]) count = count == kUnknown || f.extent[i] == kUnknown ? kUnknown : count * f.extent[i];
  return count;
}

/// Groups of rows that read the same results of reductions, as the channels of a group norm do; `count`: each
/// row has its own, or there are too few groups for the cores.
int64_t groups_of(Schedule& s, const std::vector<BlockRV>& leading, BlockRV last, int64_t count,
                  const Target& target) {
  int64_t groups = count;
  for (BlockRV b : leading) {
    if (b.id == last.id || !s.get(b)->init || groups == kUnknown) continue;
    const auto f = facts_of(s, b);
    const int64_t made = f ? f->instances(true) : kUnknown;
    groups = made == kUnknown ? count : std::min(groups, made);
  }
  const bool all_cores = groups != kUnknown && groups > 1 && groups >= target->cores;
  return all_cores && count % groups == 0 ? groups : count;
}

/// Below the `outer` first loops a block makes one result.
bool makes_one_result(Schedule& s, BlockRV b, size_t outer) {
  const std::vector<LoopRV> loops = s.get_loops(b);
  const Ref<BlockRealize> r = s.realize(b);
  for (size_t l = outer; l < loops.size(); ++l)
    for (size_t i = 0; i < r->iter_values.size(); ++i)
      if (r->block->iter_vars[i]->kind != IterKind::reduce && !tir::is_one(s.get(loops[l])->extent) &&
          uses_var(r->iter_values[i], s.get(loops[l])->loop_var.get()))
        return false;
  return true;
}

/// A stage that later ones read as well is made piece by piece beside the rows that fold it, where each row
/// folds a piece of its last axis: what a row reads is still in the cache. It is added to `made`. The loop
/// over both.
LoopRV make_beside(Draft& draft, const Stages& stages, LoopRV rows, std::vector<BlockRV>& made) {
  const Facts& of = stages.facts;
  if (of.reduce.size() != 1 || of.symbolic(of.reduce[0])) return rows;
  const int64_t piece = of.extent[size_t(of.reduce[0])];
  for (BlockRV b : stages.blocks)
    for (BlockRV p : draft.schedule.get_producers(b)) {
      const auto f = facts_of(draft.schedule, p);
      if (draft.is_scheduled(p) || !f || f->is_reduction() || f->instances(false) != of.instances(false))
        continue;
      attempt(draft, "a stage beside the rows", [&](Draft& d) {
        Schedule& s = d.schedule;
        std::vector<LoopRV> outer = s.get_loops(p);
        outer.back() = s.split(outer.back(), {-1, piece})[0];
        const LoopRV pieces = s.fuse(outer);
        vectorize_inner(d, p, 1);
        rows = s.merge({pieces, rows});
        d.set_scheduled(p);
        made.push_back(p);
        return RuleOutcome::applied;
      });
    }
  return rows;
}

/// A fold of pieces of rows that later stages put together: it is a nest of its own, with pieces for rows.
bool folds_pieces(Schedule& s, BlockRV b, const Facts& f, int64_t rows) {
  if (!f.is_reduction() || rows == kUnknown || f.instances(true) <= rows) return false;
  const std::vector<BlockRV> readers = s.get_consumers(b);
  return std::ranges::any_of(readers, [&](BlockRV r) {
    const auto of = facts_of(s, r);
    return of && of->is_reduction() && of->instances(true) < f.instances(true);
  });
}

/// A fold of the same rows, which the rows read and later stages, too, is made beside them, row by row: what
/// both read is still in the cache. `made`: stages at the rows. The loop over both.
LoopRV fold_beside(Draft& draft, const Stages& stages, const std::vector<BlockRV>& made, LoopRV rows) {
  if (!stages.facts.is_reduction()) return rows;
  for (BlockRV b : made)
    for (BlockRV p : draft.schedule.get_producers(b)) {
      const auto f = facts_of(draft.schedule, p);
      if (draft.is_scheduled(p) || !f || !f->is_reduction() || !along_memory(*f) ||
          f->instances(true) != stages.facts.instances(true))
        continue;
      attempt(draft, "a fold beside the rows", [&](Draft& d) {
        Schedule& s = d.schedule;
        std::vector<BlockRV> parts = factor_lanes(d, *f, false);
        parts.push_back(p);
        std::vector<bool> row(f->extent.size(), true);
        for (int k : f->reduce) row[size_t(k)] = false;
        const LoopRV own = fuse_rows(s, p, row);
        for (size_t i = parts.size() - 1; i-- > 0;) s.compute_at(parts[i], own);
        for (BlockRV part : parts) {
          arrange_reduction(d, part, 1);
          d.set_scheduled(part);
        }
        rows = s.merge({own, rows});
        return RuleOutcome::applied;
      });
    }
  return rows;
}

/// The stages at a loop over rows, or over `groups` of them whose reductions are made once for each.
RuleOutcome arrange_rows(Draft& draft, const Site& site, const std::vector<BlockRV>& leading,
                         const std::vector<bool>& row, int64_t count, int64_t groups) {
  Schedule& s = draft.schedule;
  // What does not differ from row to row stays outside and is arranged for itself, as are all stages of one
  // row, whose own loops may be parallel, and what is read elsewhere.
  const Stages stages = stages_of(
      draft, *site.facts, leading_to(draft, site.block, [&](BlockRV b) {
        const auto f = facts_of(s, b);
        if (f && f->is_reduction() && shares_an_operand(*f)) return false;  // a product has tiles
        if (f && folds_pieces(s, b, *f, count)) return false;
        const int64_t made = f ? f->instances(true) : kUnknown;
        const std::vector<BlockRV> readers = s.get_consumers(b);
        return count != 1 && (count == kUnknown || made == kUnknown || made >= groups) &&
               std::none_of(readers.begin(), readers.end(), [&](BlockRV r) { return draft.is_scheduled(r); });
      }));
  LoopRV rows = fuse_rows(s, stages.last, row);
  if (rows.id < 0) {
    if (!site.facts->is_reduction()) return RuleOutcome::no_rows;
    for (BlockRV b : stages.blocks) {
      arrange_reduction(draft, b, 0);
      draft.set_scheduled(b);
    }
    return RuleOutcome::applied;
  }
  const bool grouped = groups != count;
  if (grouped) rows = s.split(rows, {-1, count / groups})[0];
  const std::vector<BlockRV> inside = place_stages(draft, stages, rows);
  if (inside.size() < 2 && !stages.facts.is_reduction()) return RuleOutcome::no_rows;
  // Rows of one group may not be neighbours.
  if (grouped && std::ranges::any_of(leading, [&](BlockRV b) {
        return b.id != site.block.id && s.get(b)->init && !makes_one_result(s, b, 1);
      }))
    return RuleOutcome::no_rows;
  for (size_t i = 0; i < inside.size(); ++i) {
    const BlockRV b = inside[i];
    draft.set_scheduled(b);
    if (!s.get(b)->init) {
      vectorize_inner(draft, b, 1);
    } else if (i + 1 < inside.size() && !s.get(inside[i + 1])->init &&
               sum_beside(draft, inside[i + 1], b, 1)) {
      draft.set_scheduled(inside[++i]);
    } else {
      arrange_reduction(draft, b, 1);
    }
  }
  std::vector<BlockRV> made = stages.blocks;
  rows = make_beside(draft, stages, rows, made);
  rows = fold_beside(draft, stages, made, rows);
  const bool worth = stages.instances == kUnknown ||
                     cost::worth_parallel(double(stages.instances) * kStageCost, draft.target);
  if (count != 1 && worth) try_step(draft, "parallel", [&](Schedule& s) { draft.parallel(s, rows); });
  return RuleOutcome::applied;
}

/// Pieces of a sum of `size` steps that give all cores something to do where there are only `count` rows; 0:
/// that does not pay, or none divides it.
int64_t pieces_of_row(const Facts& f, int64_t size, int64_t count, const Target& target) {
  if (size == kUnknown || count == kUnknown || count >= target->cores) return 0;
  const int64_t lanes = kSumVectors * cost::lanes_for(f, target);
  if (!cost::worth_parallel(double(size) * double(count) / double(lanes) * kSumVectors * f.cost, target))
    return 0;
  for (int64_t pieces = cost::ceil_div(cost::tasks_wanted(target), count); pieces >= target->cores; --pieces)
    if (size % (pieces * lanes) == 0) return pieces;
  return 0;
}

/// A long sum of few rows in pieces of each row, which are rows of their own, and a sum of these.
RuleOutcome sum_in_pieces(Draft& draft, const Facts& f, const Fusion& sum, int64_t pieces) {
  Schedule& s = draft.schedule;
  if (sum.any()) s.fuse_iterators(f.id, sum.first, sum.count);
  const BlockRV part = s.rfactor(s.split(s.get_loops(f.id)[size_t(sum.first)], {pieces, -1})[0], -1);
  const Site site{.block = part, .facts = facts_of(s, part), .rows = true};
  if (!site.facts) return RuleOutcome::opaque;
  if (const RuleOutcome o = row_by_row(draft, site); o != RuleOutcome::applied) return o;
  draft.set_scheduled(part);
  return RuleOutcome::applied;
}

}  // namespace

RuleOutcome row_by_row(Draft& draft, const Site& given) {
  Schedule& s = draft.schedule;
  Site site = given;
  const std::vector<BlockRV> leading = leading_to(draft, site.block, [](BlockRV) { return true; });
  if (std::none_of(leading.begin(), leading.end(), [&](BlockRV b) { return bool(s.get(b)->init); }))
    return RuleOutcome::no_reduction;
  auto row = rows_of(s, *site.facts, leading);
  if (!row) return RuleOutcome::no_rows;
  join_axes(draft, site, *row);
  const int64_t count = count_of(*site.facts, *row),
                groups = groups_of(s, leading, site.block, count, draft.target);
  if (site.facts->is_reduction() && site.facts->block->init && along_memory(*site.facts)) {
    const Fusion sum = sum_along_memory(*site.facts);
    const int64_t size = fused(*site.facts, sum).extent[size_t(sum.first)];
    if (const int64_t pieces = pieces_of_row(*site.facts, size, count, draft.target); pieces > 0)
      if (attempt(draft, "pieces of a row", [&](Draft& d) {
            return sum_in_pieces(d, *site.facts, sum, pieces);
          }) == RuleOutcome::applied)
        return RuleOutcome::applied;
  }
  if (groups != count && attempt(draft, "groups of rows", [&](Draft& d) {
                           return arrange_rows(d, site, leading, *row, count, groups);
                         }) == RuleOutcome::applied)
    return RuleOutcome::applied;
  return arrange_rows(draft, site, leading, *row, count, count);
}

}  // namespace tenon::rules
