// SPDX-License-Identifier: Apache-2.0
#include "analysis/cost/branches.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/task_cost.h"

namespace tenon::cost {
namespace {

/// Of the time apart, at most: estimates are no more exact, and neighbours in time share caches. Chosen on
/// the models of docs/cost_model.md, where 0.95 lost on two.
constexpr double kWorthIt = 0.85;
/// Units that are tried, for each core; a finer loop is split more evenly and counts more iterations.
constexpr int64_t kUnitsPerCore[] = {1, 2, 4, 8, 16, 32};
constexpr int64_t kMostUnits = 4096;

/// Threads that the runtime gives to a loop, of which each has so much to do at least.
int64_t tasks_for(double ns, int64_t task_ns, int64_t iterations, const Target& target) {
  return std::max<int64_t>(1, std::min({target->cores, iterations, int64_t(ns / double(task_ns))}));
}

int64_t nearest_divisor(int64_t n, double wanted) {
  int64_t best = 1;
  for (int64_t d = 2; d <= n; ++d)
    if (n % d == 0 && std::abs(std::log(double(d) / wanted)) < std::abs(std::log(double(best) / wanted)))
      best = d;
  return best;
}
int64_t units_of(const Branch& b, double unit_ns) {
  const double wanted = std::clamp(b.ns / unit_ns, 1.0, double(kMostUnits));
  return wanted >= double(b.parts) ? b.parts * std::max<int64_t>(1, std::llround(wanted / double(b.parts)))
                                   : nearest_divisor(b.parts, wanted);
}

/// What the units [begin, end) of a branch take.
double time_of_units(const Branch& b, int64_t units, int64_t begin, int64_t end) {
  const double part = b.ns / double(b.parts);
  if (units <= b.parts) return part * double(b.parts / units) * double(end - begin);
  const int64_t step = units / b.parts;
  return part * double((end + step - 1) / step - (begin + step - 1) / step);
}

/// The longest of the tasks that a loop of these shares is split into.
double longest_task(std::span<const Branch> branches, const SideBySide& loop, int64_t tasks) {
  const int64_t all = loop.units();
  double longest = 0;
  for (int64_t t = 0, begin = 0; t < tasks; ++t) {
    const int64_t end = begin + all / tasks + int64_t(t < all % tasks);
    double ns = 0;
    int64_t first = 0;
    for (const Share& s : loop.shares) {
      const int64_t from = std::clamp(begin - first, int64_t(0), s.units),
                    to = std::clamp(end - first, int64_t(0), s.units);
      ns += time_of_units(branches[s.branch], s.units, from, to);
      first += s.units;
    }
    longest = std::max(longest, ns);
    begin = end;
  }
  return longest;
}

}  // namespace

int64_t SideBySide::units() const {
  return std::accumulate(shares.begin(), shares.end(), int64_t(0),
                         [](int64_t n, const Share& s) { return n + s.units; });
}

double time_apart(std::span<const Branch> branches, const Target& target) {
  double sum = 0;
  for (const Branch& b : branches) {
    // The other threads are awake, at the best.
    const int64_t tasks = tasks_for(b.ns, kAwakeTaskNs, b.parts, target);
    const int64_t most = (b.parts + tasks - 1) / tasks;
    sum += std::min(b.ns, double(target->fork_ns) + b.ns * double(most) / double(b.parts));
  }
  return sum;
}

std::optional<SideBySide> side_by_side(std::span<const Branch> branches, const Target& target, bool always) {
  double total = 0;
  for (const Branch& b : branches) total += b.ns;
  const int64_t cores = always ? 2 : target->cores;
  const int64_t tasks = always ? cores : tasks_for(total, kTaskNs, INT64_MAX, target);
  if (branches.size() < 2 || tasks < 2) return std::nullopt;
  // Those that are one piece first, the longest of them at the front: what can be cut fills the cores up.
  std::vector<size_t> order(branches.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::ranges::stable_sort(order, [&](size_t a, size_t b) {
    const bool whole_a = branches[a].parts == 1, whole_b = branches[b].parts == 1;
    return whole_a != whole_b ? whole_a : whole_a && branches[a].ns > branches[b].ns;
  });
  SideBySide best;
  best.ns = always ? std::numeric_limits<double>::infinity() : kWorthIt * time_apart(branches, target);
  for (int64_t per_core : kUnitsPerCore) {
    SideBySide loop;
    const double unit = total / double(per_core * cores);
    for (size_t i : order) loop.shares.push_back({i, units_of(branches[i], unit)});
    if (loop.units() > kMostUnits) continue;
    loop.ns = double(target->fork_ns) + longest_task(branches, loop, std::min(tasks, loop.units()));
    if (loop.ns < best.ns) best = std::move(loop);
  }
  return best.shares.empty() ? std::nullopt : std::optional(best);
}

}  // namespace tenon::cost
