// SPDX-License-Identifier: Apache-2.0
// Samplers: random decisions of a schedule. The generator is the schedule's own; the trace keeps what was
// decided, so that a replay decides the same.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "schedule/define.h"

namespace tenon::sched {

using namespace tir;

namespace {

// Decisions of sample_compute_location below 0; others are numbers of loops.
constexpr int kHere = -1, kInlined = -2;

/// Of weighted positions the one at which the weights before it reach `at`.
int pick(const std::vector<double>& weights, double at) {
  int last = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!(weights[i] > 0)) continue;
    last = int(i);
    if (at < weights[i]) return last;
    at -= weights[i];
  }
  return last;
}
/// SplitMix64: the next number of the schedule's generator.
uint64_t draw(State& s) {
  uint64_t z = (s.seed += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

}  // namespace

static std::vector<int64_t> sample_perfect_tile(State& s, int32_t loop_id, int n, int64_t max_innermost,
                                                std::vector<int64_t>& decision) {
  const auto extent = as_int(s.loop(loop_id)->extent);
  if (!extent || *extent < 1)
    s.refuse("T0793", loop_id, "its extent is no positive constant, so it has no divisors to choose from",
             "split symbolic loops by constant factors");
  if (n < 1 || n > 16 || max_innermost < 1)
    s.refuse("T0793", loop_id,
             fmt::format("{} parts with at most {} innermost iterations are no tiling", n, max_innermost),
             "1 to 16 parts, an innermost limit of 1 or more");
  if (!decision.empty()) {
    int64_t product = 1;
    for (int64_t f : decision) product = f < 1 || product > *extent ? -1 : product * f;
    if (product != *extent || decision.size() != size_t(n) || (n > 1 && decision.back() > max_innermost))
      s.refuse("T0793", loop_id,
               fmt::format("the recorded decision is no tiling of its {} iterations", *extent),
               "the trace was recorded on another program");
    return decision;
  }
  std::vector<int64_t> out(static_cast<size_t>(n), 1);
  int64_t rest = *extent;
  for (size_t i = size_t(n); i-- > 1;) {
    std::vector<int64_t> divisors;
    for (int64_t d = 1; d * d <= rest; ++d)
      if (rest % d == 0) {
        divisors.push_back(d);
        if (d * d != rest) divisors.push_back(rest / d);
      }
    if (i + 1 == size_t(n)) std::erase_if(divisors, [&](int64_t d) { return d > max_innermost; });
    out[i] = divisors[draw(s) % divisors.size()];
    rest /= out[i];
  }
  out[0] = rest;
  return decision = out;
}

static std::vector<int64_t> sample_partitioned_tile(State& s, int32_t loop_id, int n, int partition_pos,
                                                    int64_t innerpart_factor,
                                                    std::vector<int64_t>& decision) {
  const auto extent = as_int(s.loop(loop_id)->extent);
  if (!extent || *extent < 1)
    s.refuse("T0793", loop_id, "its extent is no positive constant, so it has no divisors to choose from",
             "split symbolic loops by constant factors");
  if (n < 1 || n > 16 || partition_pos < 1 || partition_pos > n || innerpart_factor < 1 ||
      (partition_pos == n && innerpart_factor != 1) || *extent % innerpart_factor)
    s.refuse(
        "T0793", loop_id,
        fmt::format("{} iterations in {} parts, of which those from number {} on are together a multiple of "
                    "{}, are no tiling",
                    *extent, n, partition_pos, innerpart_factor),
        "1 to 16 parts, a cut between two of them, a number that divides the extent");
  if (!decision.empty()) {
    int64_t product = 1, inner = 1;
    for (size_t i = 0; i < decision.size(); ++i) {
      product = decision[i] < 1 || product > *extent || product < 0 ? -1 : product * decision[i];
      if (i >= size_t(partition_pos)) inner *= std::max<int64_t>(1, decision[i]);
    }
    if (product != *extent || decision.size() != size_t(n) || inner % innerpart_factor)
      s.refuse("T0793", loop_id,
               fmt::format("the recorded decision is no such tiling of its {} iterations", *extent),
               "the trace was recorded on another program");
    return decision;
  }
  // The outer parts share a divisor of what the inner parts need not have; the inner parts get the rest.
  auto divisor = [&](int64_t of) {
    std::vector<int64_t> all;
    for (int64_t d = 1; d * d <= of; ++d)
      if (of % d == 0) {
        all.push_back(d);
        if (d * d != of) all.push_back(of / d);
      }
    return all[draw(s) % all.size()];
  };
  const int64_t free = *extent / innerpart_factor;
  const int64_t outer = partition_pos == n ? free : divisor(free);
  std::vector<int64_t> out(static_cast<size_t>(n), 1);
  auto fill = [&](size_t first, size_t last, int64_t rest) {
    for (size_t i = last; i-- > first + 1;) {
      out[i] = divisor(rest);
      rest /= out[i];
    }
    if (first < last) out[first] = rest;
  };
  fill(0, size_t(partition_pos), outer);
  fill(size_t(partition_pos), size_t(n), *extent / outer);
  return decision = out;
}

static int64_t sample_categorical(State& s, const std::vector<int64_t>& candidates,
                                  const std::vector<double>& probs, std::optional<int>& decision) {
  const int given = decision.value_or(-1);
  double total = 0;
  bool good = !candidates.empty() && candidates.size() == probs.size();
  for (double p : probs) good = good && p >= 0 && std::isfinite(p), total += p;
  if (!good || !(total > 0) || given >= int(candidates.size()))
    throw ScheduleError(
        ErrorKind::model, "T0793",
        fmt::format("{} candidates with {} probabilities cannot be sampled", candidates.size(), probs.size()),
        {}, "give one probability, 0 or more, for each candidate; one must be above 0");
  if (given < 0) decision = pick(probs, double(draw(s) >> 11) * 0x1p-53 * total);
  return candidates[size_t(*decision)];
}

static Location sample_compute_location(State& s, int32_t id, std::optional<int>& decision) {
  auto scope = s.scope(s.scope_of(id));
  Ref<Block> block = s.block(id);
  std::vector<int32_t> loops;  // of the first consumer
  const int at = scope->find(id);
  for (size_t i = 0; i < scope->leaves.size() && loops.empty(); ++i)
    for (const BufferRegion& w : block->writes)
      if (int(i) > at && scope->leaves[i].reads(w->buffer)) loops = scope->leaves[i].loops;
  auto location = [&](int choice) {
    return choice == kHere      ? Location{Location::Kind::here}
           : choice == kInlined ? Location{Location::Kind::inlined}
                                : Location{Location::Kind::loop, loops[size_t(choice)]};
  };
  if (decision) {
    if (*decision < kInlined || *decision >= int(loops.size()))
      s.refuse("T0794", id,
               fmt::format("its consumer has {} loops, the recorded decision is number {}", loops.size(),
                           *decision),
               "the trace was recorded on another program");
    return location(*decision);
  }
  std::vector<int> choices{kHere};
  auto legal = [&](auto run) {
    State trial = s;
    trial.facts = std::make_shared<FactCache>();
    return !refusal_of([&] { run(trial); });
  };
  if (legal([&](State& t) { compute_inline(t, id); })) choices.push_back(kInlined);
  for (size_t i = 0; i < loops.size(); ++i)
    if (legal([&](State& t) { compute_at(t, id, loops[i]); })) choices.push_back(int(i));
  decision = choices[draw(s) % choices.size()];
  return location(*decision);
}

const Define<&Schedule::sample_perfect_tile, sample_perfect_tile> sample_perfect_tile_record{
    {.name = "sample_perfect_tile",
     .kind = StepKind::sample,
     .does = "picks factors whose product is a loop's extent",
     .legal = "the extent is a positive constant",
     .parameters = {{"loop", "that is to be split"},
                    {"n", "how many factors, up to 16"},
                    {"max_innermost", "the last is at most this", 16},
                    {"decision", "the factors, in place of drawing them", Any()}},
     .sample = {samples::matmul, R"(
c = sch.get_block("C")
i, j, k = sch.get_loops(c)
outer, inner = sch.sample_perfect_tile(j, n=2, max_innermost=4, decision=[2, 4])
sch.split(j, factors=[outer, inner])
)"}}};
const Define<&Schedule::sample_partitioned_tile, sample_partitioned_tile> sample_partitioned_tile_record{
    {.name = "sample_partitioned_tile",
     .kind = StepKind::sample,
     .does = "picks factors whose product is a loop's extent, the product of the inner ones being a multiple "
             "of a number",
     .legal = "the extent is a positive constant that the number divides",
     .parameters = {{"loop", "that is to be split"},
                    {"n", "how many factors, up to 16"},
                    {"partition_pos", "position of the first inner factor"},
                    {"innerpart_factor", "divides the product of the inner factors"},
                    {"decision", "the factors, in place of drawing them", Any()}},
     .sample = {samples::matmul, R"(
c = sch.get_block("C")
i, j, k = sch.get_loops(c)
x, y, z = sch.sample_partitioned_tile(j, n=3, partition_pos=1, innerpart_factor=4, decision=[2, 2, 2])
sch.split(j, factors=[x, y, z])
)"}}};
const Define<&Schedule::sample_categorical, sample_categorical> sample_categorical_record{
    {.name = "sample_categorical",
     .kind = StepKind::sample,
     .does = "picks one of several numbers by their probabilities",
     .legal = "each candidate has a probability of 0 or more, one of them above 0",
     .parameters = {{"candidates", "to pick from"},
                    {"probs", "a weight for each"},
                    {"decision", "position of the one to pick, in place of drawing it", Any()}},
     .sample = {samples::matmul, R"(
f = sch.sample_categorical(candidates=[2, 4], probs=[0.5, 0.5], decision=1)
c = sch.get_block("C")
i, j, k = sch.get_loops(c)
sch.split(j, factors=[-1, f])
)"}}};
const Define<&Schedule::sample_compute_location, sample_compute_location> sample_compute_location_record{
    {.name = "sample_compute_location",
     .kind = StepKind::sample,
     .does = "picks where compute_at accepts a block: at a loop of its consumer, where it is, or inlined",
     .parameters = {{"block", "that is to be moved"},
                    {"decision", "number of the loop, outermost first; -1: where it is, -2: inlined", Any()}},
     .sample = {samples::matmul, R"(
c = sch.get_block("C")
place = sch.sample_compute_location(c, decision=0)
sch.compute_at(c, place)
)"}}};

}  // namespace tenon::sched
