// SPDX-License-Identifier: Apache-2.0
#include "pass/graph/lowering/plan_memory_order.h"

#include <algorithm>
#include <set>

#include "ir/binding_order.h"

namespace tenon::graph {
namespace {

/// Bytes of a value, the parts of a tuple together.
int64_t bytes_of(const Type& type, const SizeBounds& bounds) {
  const auto* tuple = type.as<TupleType>();
  if (!tuple) return std::max<int64_t>(0, most_bytes(type, bounds));
  int64_t sum = 0;
  for (const Type& field : tuple->items) sum += bytes_of(field, bounds);
  return sum;
}

/// A run of bindings. A view and an item of a tuple hold what they are made of: they take as much as they
/// free.
struct Run {
  const RunReads& reads;
  std::vector<int64_t> bytes;

  Run(const RunReads& reads, const std::vector<Binding>& bindings, const SizeBounds& bounds) : reads(reads) {
    for (size_t i = 0; i < bindings.size(); ++i)
      // Results lie in memory of their own, whatever the order.
      bytes.push_back(reads.readers[i].empty() ? 0 : bytes_of(bindings[i]->var->type, bounds));
  }
  size_t size() const { return bytes.size(); }
};

/// List scheduling: a set of what is ready, by what it takes beyond what it frees; the first of equals.
class ListSchedule {
 public:
  explicit ListSchedule(const Run& run)
      : run_(run), takes_(run.bytes), waits_(run.size()), unread_(run.size()) {
    for (size_t i = 0; i < run.size(); ++i) unread_[i] = run.reads.readers[i].size();
    for (size_t i = 0; i < run.size(); ++i) {
      waits_[i] = run.reads.operands[i].size();
      for (size_t operand : run.reads.operands[i])
        if (unread_[operand] == 1) takes_[i] -= run.bytes[operand];
      if (!waits_[i]) ready_.emplace(takes_[i], i);
    }
  }

  std::vector<size_t> order() {
    std::vector<size_t> out;
    while (!ready_.empty()) {
      const size_t i = ready_.begin()->second;
      ready_.erase(ready_.begin());
      out.push_back(i);
      for (size_t operand : run_.reads.operands[i])
        if (--unread_[operand] == 1) one_reader_left(operand);
      for (size_t reader : run_.reads.readers[i])
        if (--waits_[reader] == 0) ready_.emplace(takes_[reader], reader);
    }
    return out;
  }

 private:
  /// That reader takes less by the value's bytes; of the others, which stand already, nobody asks.
  void one_reader_left(size_t value) {
    for (size_t reader : run_.reads.readers[value]) {
      const bool was_ready = ready_.erase({takes_[reader], reader}) > 0;
      takes_[reader] -= run_.bytes[value];
      if (was_ready) ready_.emplace(takes_[reader], reader);
    }
  }

  const Run& run_;
  std::vector<int64_t> takes_;
  std::vector<size_t> waits_, unread_;
  std::set<std::pair<int64_t, size_t>> ready_;
};

/// The operands of each binding in the order in which they are best made, as if no value were read twice.
std::vector<std::vector<size_t>> operands_by_need(const Run& run) {
  std::vector<int64_t> need(run.size(), 0);
  std::vector<std::vector<size_t>> out = run.reads.operands;
  for (size_t i = 0; i < run.size(); ++i) {
    std::ranges::stable_sort(out[i], std::greater<>(), [&](size_t o) { return need[o] - run.bytes[o]; });
    int64_t held = 0;
    for (size_t operand : out[i]) {
      need[i] = std::max(need[i], held + need[operand]);
      held += run.bytes[operand];
    }
    need[i] = std::max(need[i], held + run.bytes[i]);
  }
  return out;
}

}  // namespace

Expr reordered_for_memory(const Expr& body, MemoryOrder order, const SizeBounds& bounds) {
  return reorder_pure_runs(body, [&](const RunReads& reads, const std::vector<Binding>& bindings) {
    const Run run(reads, bindings, bounds);
    return order == MemoryOrder::list ? ListSchedule(run).order() : depth_first(reads, operands_by_need(run));
  });
}

}  // namespace tenon::graph
