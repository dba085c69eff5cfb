// SPDX-License-Identifier: Apache-2.0
// Placement is a packing problem (NP-hard): greedy by several orders, tightest gap first, and then the pieces
// that stand highest are moved to the front of the order for as long as that helps.
#include "pass/graph/lowering/plan_memory_place.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace tenon::graph {

namespace {
// Long lives see the height of the whole program soon; a bounded look is enough for an order.
constexpr int kMostLevels = 256;
// The search places some 400,000 pieces in all, which takes about 50 ms, in rounds of all pieces each.
constexpr int64_t kPlacements = 400000, kFewestRounds = 8, kMostRounds = 400;
// How far forward a piece moves: half, a third or a quarter of its way, in turns.
constexpr int kWays = 3;
// Rounds until the search goes on from the best order again.
constexpr int kRestart = 40;
}  // namespace

std::vector<int> Branches::path(int branch) const {
  std::vector<int> out;
  for (; branch >= 0; branch = all_[size_t(branch)].parent) out.push_back(branch);
  std::reverse(out.begin(), out.end());
  return out;
}

bool Branches::exclusive(int a, int b) const {
  if (a < 0 || b < 0 || a == b) return false;
  const std::vector<int> x = path(a), y = path(b);
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i)
    if (x[i] != y[i]) return all_[size_t(x[i])].choice == all_[size_t(y[i])].choice;
  return false;
}

int Branches::common(int a, int b) const {
  if (a == b) return a;
  const std::vector<int> x = path(a), y = path(b);
  int out = -1;
  for (size_t i = 0; i < std::min(x.size(), y.size()) && x[i] == y[i]; ++i) out = x[i];
  return out;
}

namespace {

/// For each piece, those that may not share memory with it: found once, by stretches of time.
std::vector<std::vector<int>> find_conflicts(const std::vector<MemoryPiece>& pieces,
                                             const Branches& branches) {
  std::vector<int> order(pieces.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    const MemoryPiece &x = pieces[size_t(a)], &y = pieces[size_t(b)];
    return x.begin != y.begin ? x.begin < y.begin : a < b;
  });
  std::vector<std::vector<int>> out(pieces.size());
  std::vector<int> alive;
  for (int i : order) {
    const MemoryPiece& p = pieces[size_t(i)];
    std::erase_if(alive, [&](int j) { return pieces[size_t(j)].end < p.begin; });
    for (int j : alive)
      if (!branches.exclusive(p.branch, pieces[size_t(j)].branch)) {
        out[size_t(i)].push_back(j);
        out[size_t(j)].push_back(i);
      }
    alive.push_back(i);
  }
  return out;
}

struct Placement {
  std::vector<int64_t> offsets;
  int64_t bytes = INT64_MAX;
};

/// One after the other: the tightest gap among what conflicts and is placed (`tight`), or the lowest.
Placement place_in_order(const std::vector<MemoryPiece>& pieces,
                         const std::vector<std::vector<int>>& conflicts, const std::vector<int>& order,
                         bool tight, int64_t give_up) {
  Placement out;
  out.offsets.assign(pieces.size(), -1);
  out.bytes = 0;
  std::vector<std::pair<int64_t, int64_t>> busy;
  for (int i : order) {
    busy.clear();
    for (int j : conflicts[size_t(i)])
      if (out.offsets[size_t(j)] >= 0)
        busy.emplace_back(out.offsets[size_t(j)], out.offsets[size_t(j)] + pieces[size_t(j)].bytes);
    std::sort(busy.begin(), busy.end());
    const int64_t bytes = pieces[size_t(i)].bytes;
    int64_t at = 0, best = -1, best_gap = INT64_MAX;
    for (auto& [from, to] : busy) {
      if (from - at >= bytes && from - at < best_gap) {
        best = at, best_gap = from - at;
        if (!tight) break;
      }
      at = std::max(at, to);
    }
    const int64_t offset = best >= 0 ? best : at;
    out.offsets[size_t(i)] = offset;
    out.bytes = std::max(out.bytes, offset + bytes);
    if (out.bytes >= give_up) return {{}, INT64_MAX};
  }
  return out;
}

/// Bytes alive at each step, without regard to branches: how crowded a piece's time is.
std::vector<int64_t> crowds(const std::vector<MemoryPiece>& pieces) {
  std::map<int, int64_t> change;
  for (const MemoryPiece& p : pieces) change[p.begin] += p.bytes, change[p.end + 1] -= p.bytes;
  std::vector<std::pair<int, int64_t>> levels;
  int64_t now = 0;
  for (auto& [step, bytes] : change) levels.emplace_back(step, now += bytes);
  std::vector<int64_t> out;
  for (const MemoryPiece& p : pieces) {
    auto it = std::upper_bound(levels.begin(), levels.end(), std::pair(p.begin, INT64_MAX));
    if (it != levels.begin()) --it;
    int64_t most = 0;
    for (int k = 0; k < kMostLevels && it != levels.end() && it->first <= p.end; ++it, ++k)
      most = std::max(most, it->second);
    out.push_back(most);
  }
  return out;
}

}  // namespace

int64_t place_pieces(std::vector<MemoryPiece>& pieces, const Branches& branches, int64_t bound) {
  if (pieces.empty()) return 0;
  const auto conflicts = find_conflicts(pieces, branches);
  const std::vector<int64_t> crowd = crowds(pieces);
  std::vector<int> start(pieces.size());
  std::iota(start.begin(), start.end(), 0);
  auto length = [&](int i) { return int64_t(pieces[size_t(i)].end) - pieces[size_t(i)].begin + 1; };
  auto bytes = [&](int i) { return pieces[size_t(i)].bytes; };
  auto sorted = [&](auto key) {
    std::vector<int> order = start;
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return key(a) > key(b); });
    return order;
  };
  Placement best;
  std::vector<int> best_order;
  bool best_tight = true;
  auto attempt = [&](const std::vector<int>& order, bool tight) {
    Placement p = place_in_order(pieces, conflicts, order, tight, best.bytes);
    if (p.bytes >= best.bytes) return false;
    best = std::move(p);
    best_order = order;
    best_tight = tight;
    return true;
  };
  const std::vector<int> orders[] = {
      sorted([&](int i) { return std::pair(bytes(i), int64_t(0)); }),
      sorted([&](int i) { return std::pair(bytes(i), length(i)); }),
      sorted([&](int i) { return std::pair(crowd[size_t(i)], bytes(i)); }),
      sorted([&](int i) { return std::pair(crowd[size_t(i)], length(i)); }),
      sorted([&](int i) { return std::pair(double(bytes(i)) * double(length(i)), int64_t(0)); }),
      sorted([&](int i) { return std::pair(length(i), bytes(i)); }),
      sorted([&](int i) { return std::pair(int64_t(-pieces[size_t(i)].begin), bytes(i)); }),
  };
  for (const auto& order : orders)
    for (bool tight : {true, false})
      if (best.bytes > bound) attempt(order, tight);
  // The piece at the top, and what holds it up, are placed earlier.
  const int64_t work = std::max<int64_t>(1, int64_t(pieces.size()));
  const int rounds = int(std::clamp<int64_t>(kPlacements / work, kFewestRounds, kMostRounds));
  std::vector<int> order = best_order;
  Placement now = best;
  for (int round = 0; round < rounds && best.bytes > bound; ++round) {
    std::vector<int> top;
    for (int i : order)
      if (now.offsets[size_t(i)] + bytes(i) == now.bytes) top.push_back(i);
    if (top.empty()) break;
    const int lift = top[size_t(round) % top.size()];
    // In front of the first piece that it collides with, further forward in later rounds.
    auto at = std::find(order.begin(), order.end(), lift);
    const auto position = at - order.begin();
    order.erase(at);
    order.insert(order.begin() + position / (2 + round % kWays), lift);
    Placement next = place_in_order(pieces, conflicts, order, best_tight, INT64_MAX);
    if (next.bytes < best.bytes) {
      best = next;
      best_order = order;
    }
    now = std::move(next);
    if (round % kRestart == kRestart - 1) {  // lost: from the best again, with another rule for gaps
      order = best_order;
      now = best;
      best_tight = !best_tight;
    }
  }
  for (size_t i = 0; i < pieces.size(); ++i) pieces[i].offset = best.offsets[i];
  return best.bytes;
}

int64_t most_alive(const std::vector<MemoryPiece>& pieces, const Branches& branches,
                   const std::vector<int>& branch_of_step) {
  std::map<int, std::vector<int>> events;  // step → pieces that begin (i) or have ended (~i)
  for (size_t i = 0; i < pieces.size(); ++i) {
    events[pieces[i].begin].push_back(int(i));
    events[pieces[i].end + 1].push_back(~int(i));
  }
  const auto& all = branches.all();
  // Inside a branch nothing of the other branches exists: looked at whenever the branch changes too.
  if (!all.empty())
    for (size_t s = 1; s < branch_of_step.size(); ++s)
      if (branch_of_step[s] != branch_of_step[s - 1]) events[int(s)];
  std::vector<int64_t> own(all.size() + 1, 0);  // by branch + 1
  int64_t most = 0;
  std::vector<int64_t> sum(all.size() + 1);
  for (const auto& [step, list] : events) {
    for (int i : list) {
      const MemoryPiece& p = pieces[size_t(i < 0 ? ~i : i)];
      own[size_t(p.branch + 1)] += i < 0 ? -p.bytes : p.bytes;
    }
    if (all.empty()) {
      most = std::max(most, own[0]);
      continue;
    }
    int here = step >= 0 && size_t(step) < branch_of_step.size() ? branch_of_step[size_t(step)] : -1;
    std::map<int, int> taken;  // choice → the branch that this step is in
    for (; here >= 0; here = all[size_t(here)].parent) taken[all[size_t(here)].choice] = here;
    sum = own;
    // Children have larger numbers than their parents; those of a choice stand in any order.
    std::map<std::pair<int, int>, int64_t> best;  // (parent + 1, choice) → the most of its branches
    for (size_t b = all.size(); b-- > 0;) {
      // Inner choices of b are complete: every branch of theirs has a larger number.
      for (auto it = best.lower_bound({int(b) + 1, INT32_MIN});
           it != best.end() && it->first.first == int(b) + 1; ++it)
        sum[b + 1] += it->second;
      auto t = taken.find(all[b].choice);
      if (t != taken.end() && t->second != int(b)) continue;
      int64_t& m = best[{all[b].parent + 1, all[b].choice}];
      m = std::max(m, sum[b + 1]);
    }
    for (auto it = best.lower_bound({0, INT32_MIN}); it != best.end() && it->first.first == 0; ++it)
      sum[0] += it->second;
    most = std::max(most, sum[0]);
  }
  return most;
}

}  // namespace tenon::graph
