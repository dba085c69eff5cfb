// SPDX-License-Identifier: Apache-2.0
// default_schedule: which rule for which block. Blocks are taken from the last one on, so that producers
// follow their consumers.
#include "autoschedule/default.h"

#include <algorithm>

#include "analysis/cost/rows.h"
#include "autoschedule/rules.h"
#include "ir/attr_keys.h"
#include "ir/find_node.h"

namespace tenon {

using namespace tir;

namespace rules {
namespace {

/// Steps of a window that reads each element for one result only, and strides between its results, for which
/// vectors of results pay.
constexpr int64_t kSmallWindow = 64, kWindowStride = 4;
constexpr double kOverlap = 1.25;  ///< reads of each element, at least, where windows overlap

/// Windows side by side: vectors of results read with small strides.
bool windows_side_by_side(const Facts& f) {
  int64_t window = 1;
  for (int k : f.reduce)
    window = window == kUnknown || f.symbolic(k) ? kUnknown : window * f.extent[size_t(k)];
  if (window == kUnknown || window > kSmallWindow || f.spatial.empty()) return false;
  const size_t last = size_t(f.spatial.back());
  return f.write.stride[last] == 1 && std::any_of(f.loads.begin(), f.loads.end(), [&](const Access& l) {
           const int64_t step = l.stride[last];
           return step > 1 && step <= kWindowStride && step >= f.extent[size_t(f.reduce.back())];
         });
}

/// The window of a result reaches into that of its neighbour along some axis; sizes may be symbolic.
bool reaches_its_neighbour(const Facts& f, const Access& l) {
  return std::ranges::any_of(f.reduce, [&](int k) {
    const int64_t step = l.stride[size_t(k)];
    return step > 0 && !f.symbolic(k) && std::ranges::any_of(f.spatial, [&](int i) {
             const int64_t next = l.stride[size_t(i)];
             return next >= step && double(f.extent[size_t(k)] * step) > kOverlap * double(next);
           });
  });
}

/// Windows that overlap: one element serves several results.
bool windows_overlap(const Facts& f) {
  const int64_t all = f.instances(false);
  if (all == kUnknown)
    return std::ranges::any_of(f.loads, [&](const Access& l) { return reaches_its_neighbour(f, l); });
  return std::any_of(f.loads.begin(), f.loads.end(), [&](const Access& l) {
    if (!is_operand(f, l)) return false;
    double elements = 1;
    for (const PrimExpr& d : l.buffer->shape) {
      const auto n = as_int(d);
      if (!n) return false;
      elements *= double(*n);
    }
    return double(all) > kOverlap * elements;
  });
}

/// A reduction across memory is a tile of one row.
bool across_memory(const Facts& f) {
  const size_t k = size_t(f.reduce.back());
  return std::none_of(f.loads.begin(), f.loads.end(), [&](const Access& l) { return l.stride[k] == 1; });
}

/// Should the results of the reduction stay in registers as a tile?
bool wants_tile(const Facts& f) {
  return f.is_reduction() &&
         (shares_an_operand(f) || windows_side_by_side(f) || windows_overlap(f) || across_memory(f));
}

Site site_of(Draft& draft, BlockRV b) {
  Schedule& s = draft.schedule;
  Site site{b, facts_of(s, b)};
  if (!site.facts) return site;
  if (site.facts->is_reduction()) {
    site.rows = true;
    if (wants_tile(*site.facts)) site.reduction = b;
    return site;
  }
  // An element-wise block behind one tiled reduction is its epilogue.
  BlockRV tiled;
  int reductions = 0;
  for (BlockRV p : s.get_producers(b)) {
    if (draft.is_scheduled(p) || !s.get(p)->init) continue;
    ++reductions;
    const auto f = facts_of(s, p);
    if (f && wants_tile(*f) && s.get_consumers(p).size() == 1 && !writes_parameter(s, p)) tiled = p;
  }
  site.rows = reductions > 0 && tiled.id < 0;
  if (reductions == 1 && tiled.id >= 0) site.reduction = tiled, site.epilogue = b;
  return site;
}

// ---------------------------------------------------------------- the rules
/// Why a rule is not for a block; null: it is.
using NotFor = std::optional<RuleOutcome>;
NotFor needs_reuse(const Site& site) {
  if (!site.facts) return RuleOutcome::opaque;
  if (site.reduction.id >= 0) return {};
  return site.rows ? RuleOutcome::no_reuse : RuleOutcome::no_reduction;
}
NotFor needs_one_store(const Site& site) { return site.facts ? NotFor() : RuleOutcome::opaque; }
NotFor needs_rows(const Site& site) {
  if (!site.facts) return RuleOutcome::opaque;
  return site.rows ? NotFor() : RuleOutcome::no_reduction;
}
NotFor needs_no_reduction(const Site& site) {
  if (!site.facts) return RuleOutcome::opaque;
  return site.facts->is_reduction() ? RuleOutcome::is_reduction : NotFor();
}
NotFor needs_nothing(const Site&) { return {}; }

struct Rule {
  RuleInfo info;
  NotFor (*not_for)(const Site&);
  RuleOutcome (*apply)(Draft&, const Site&);
};
constexpr Rule kRules[] = {
    {{"fold_in_order",
      "sums and extremes across memory that come from memory, or whose rows fill no vectors: whole rows one "
      "after the other, narrow ones side by side"},
     needs_one_store,
     fold_in_order},
    {{"by_columns",
      "sums, extremes, softmax and the like across memory: all stages for a panel of columns, whose results "
      "stay in "
      "registers"},
     needs_one_store,
     by_columns},
    {{"dot_instruction",
      "products of bytes, int16 or bf16 where the target has a dot instruction: a register tile whose "
      "innermost step is that tensor intrinsic; operands are used as they lie in groups, or laid out anew"},
     needs_reuse,
     dot_instruction},
    {{"inner_product",
      "contractions whose operands are both contiguous along the sum: lanes of partial sums for a tile of "
      "results"},
     needs_reuse,
     inner_product},
    {{"register_tile",
      "contractions, windows, sums across memory: a tile (rows × vectors × lanes) of accumulators in "
      "registers, the epilogue at the tile"},
     needs_reuse,
     register_tile},
    {{"row_by_row",
      "softmax, normalisation, sums along memory: all stages at one parallel loop over rows, sums in lanes"},
     needs_rows,
     row_by_row},
    {{"elementwise",
      "no reduction: contiguous axes fused, the outer ones parallel, the inner one in vectors; tiles for "
      "transpositions"},
     needs_no_reduction,
     elementwise},
    {{"parallel_outer", "the rest: outer loops that are independent, as one, parallel"},
     needs_nothing,
     parallel_outer}};

/// By the first rule that can.
void schedule_block(Draft& draft, BlockRV b) {
  const Site site = site_of(draft, b);
  draft.in_task = draft.in_front && std::ranges::find(*draft.in_front, b.id) == draft.in_front->end();
  draft.block = draft.schedule.get(b)->name;
  for (const Rule& rule : kRules) {
    draft.rule = rule.info.name;
    const RuleOutcome outcome = attempt(draft, "", [&](Draft& d) {
      const NotFor why = rule.not_for(site);
      return why ? *why : rule.apply(d, site);
    });
    if (outcome != RuleOutcome::applied) continue;
    draft.set_scheduled(b);
    if (rule.not_for == needs_reuse) draft.set_scheduled(site.reduction);
    if (rule.apply == dot_instruction) draft.dots.push_back(site.reduction.id);
    return;
  }
}

/// What a block of rows makes as every other one does (a copy of an operand) is made once for each task.
void hoist_copies(Draft& draft) {
  draft.rule = "block_rows";
  for (BlockRV b : draft.schedule.blocks())
    try_step(draft, "made once for all blocks of rows", [&](Schedule& s) { s.hoist(b); });
}

void schedule_blocks(Draft& draft) {
  if (!draft.in_front) inline_producers(draft);
  const std::vector<BlockRV> blocks = draft.schedule.blocks();
  for (size_t at = blocks.size(); at-- > 0;) {
    if (draft.is_scheduled(blocks[at])) continue;
    const std::vector<BlockRV> living = draft.schedule.blocks();  // a rule may have inlined it
    if (std::find(living.begin(), living.end(), blocks[at]) != living.end())
      schedule_block(draft, blocks[at]);
  }
  if (draft.in_front) hoist_copies(draft);
}

/// Where what lies between the stages of a program would not stay in the cache, it runs a block of rows at a
/// time.
void block_rows(Draft& draft) {
  auto choose = [&](const Draft& d) {
    const auto axes = shared_axes(d.schedule.function());
    return axes ? cost::row_blocks(*axes, may_alias(d.schedule.function()), d.target) : std::nullopt;
  };
  if (!choose(draft)) return;
  draft.rule = "block_rows";
  attempt(draft, "rows in blocks", [&](Draft& d) {
    Schedule& s = d.schedule;
    // Before what is read by all blocks and what each makes are apart.
    inline_producers(d);
    const auto rows = choose(d);
    if (!rows) return RuleOutcome::no_rows;
    BlockRV last = s.blocks().back();
    // A result is stored in rows of the whole tensor: a copy does that, which follows the sum.
    if (s.get(last)->init) last = s.cache_write(last, 0, "global");
    d.in_front.emplace();
    const auto axes = shared_axes(s.function());
    if (!axes) return RuleOutcome::no_rows;
    for (const StageAxes& stage : axes->stages)
      if (stage.in_front()) d.in_front->push_back(s.get_block(stage.block->block->name).id);
    const std::vector<LoopRV> tasks = s.block_rows(last, rows->parts, rows->rows);
    s.parallel(s.fuse(tasks));
    return RuleOutcome::applied;
  });
}

/// With sums that begin with what is added to them, where dot instructions then compute all of these.
void schedule_all(Draft& draft) {
  block_rows(draft);
  Draft begun = draft;
  const size_t attempts = draft.attempts ? draft.attempts->size() : 0;
  const std::vector<BlockRV> sums = begin_with_addends(begun);
  if (!sums.empty()) {
    schedule_blocks(begun);
    const bool kept = std::ranges::all_of(
        sums, [&](BlockRV b) { return std::ranges::find(begun.dots, b.id) != begun.dots.end(); });
    if (kept) {
      draft = std::move(begun);
      return;
    }
    if (draft.attempts) draft.attempts->resize(attempts);
  }
  schedule_blocks(draft);
}

/// Tensors without a buffer stand in the way; code generation will name them. Programs with a block that
/// never runs stay as they are: for axes without elements there is no order to choose, nor a loop that binds
/// them.
bool schedulable(const PrimFunc& f) {
  return !any_node(f->body, [&](const ObjectRef& n) {
    const auto* block = n.as<Block>();
    return n.is<ProducerLoad>() || n.is<ProducerStore>() ||
           (block && std::any_of(block->iter_vars.begin(), block->iter_vars.end(),
                                 [](const IterVar& v) { return is_zero(v->dom->extent); }));
  });
}

}  // namespace
}  // namespace rules

std::span<const RuleInfo> schedule_rules() {
  static const std::vector<RuleInfo> list = [] {
    std::vector<RuleInfo> out;
    for (const rules::Rule& rule : rules::kRules) out.push_back(rule.info);
    return out;
  }();
  return list;
}

PrimFunc default_schedule(const PrimFunc& function, const Target& target,
                          std::vector<RuleAttempt>* attempts) {
  if (!rules::schedulable(function)) return function;
  rules::Draft draft{.schedule = Schedule(function), .target = target, .attempts = attempts};
  rules::schedule_all(draft);
  PrimFunc out = draft.schedule.function();
  out.edit()->attrs.set(kTraceAttr, Any(draft.schedule.trace().to_json()));
  return out;
}

}  // namespace tenon
