// SPDX-License-Identifier: Apache-2.0
// The table of strategies, and the choice among implementations.
#include "op/strategy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "base/diagnostic.h"

namespace tenon::op {
namespace {

struct StrategyTable {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<Strategy>> strategies;
  std::vector<std::unique_ptr<Strategy>> replaced;  // pointers to them stay valid
  static StrategyTable& get() {
    static auto* table = new StrategyTable;
    return *table;
  }
};

OpImpl own_definition(const Call& call) {
  const auto* op = call.op.as<graph::Op>();
  OpImpl impl{.name = short_name(call) + ".default"};
  if (op) impl.define = definition(*op).tensor_def;
  return impl;
}

/// Why the implementation does not take the call; "" when it does.
std::string refusal(const OpImpl& impl, const Call& call, const Target& target, bool externals) {
  if (!impl.library.empty() && !(target && target->has_library(impl.library)))
    return fmt::format("the target does not name the library `{}`", impl.library);
  if (!impl.external.empty() && !externals) return "a library call, and this is a tensor program";
  if (impl.external.empty() && !impl.define) return "it has no tensor definition";
  return impl.refuse ? impl.refuse(call, target) : std::string();
}

}  // namespace

void register_strategy(const std::string& op, Strategy strategy) {
  StrategyTable& table = StrategyTable::get();
  std::lock_guard lock(table.mutex);
  auto& slot = table.strategies[op];
  if (slot) table.replaced.push_back(std::move(slot));
  slot = std::make_unique<Strategy>(std::move(strategy));
}

const Strategy* find_strategy(const std::string& op) {
  StrategyTable& table = StrategyTable::get();
  std::lock_guard lock(table.mutex);
  auto it = table.strategies.find(op);
  return it == table.strategies.end() ? nullptr : it->second.get();
}

OpImpl specialized(OpImpl impl, std::function<bool(const Call&)> holds, std::string what) {
  impl.refuse = [inner = std::move(impl.refuse), holds = std::move(holds), what = std::move(what)](
                    const Call& call, const Target& target) -> std::string {
    if (!holds(call)) return fmt::format("specialised for {}", what);
    return inner ? inner(call, target) : std::string();
  };
  return impl;
}

std::vector<OpImpl> implementations(const Call& call, const Target& target) {
  const auto* op = call.op.as<graph::Op>();
  CHECK(op, "implementations of a call that is not of an operator");
  if (const Strategy* strategy = find_strategy(op->name)) return (*strategy)(target, call, target);
  return {own_definition(call)};
}

std::optional<Selection> select(const Call& call, const Target& target, bool externals) {
  const auto* op = call.op.as<graph::Op>();
  CHECK(op, "a choice for a call that is not of an operator");
  const Strategy* strategy = find_strategy(op->name);
  std::vector<OpImpl> all =
      strategy ? (*strategy)(target, call, target) : std::vector<OpImpl>{own_definition(call)};
  std::stable_sort(all.begin(), all.end(),
                   [](const OpImpl& a, const OpImpl& b) { return a.priority > b.priority; });
  Selection out;
  out.key = strategy ? std::string(strategy->key(target)) : "default";
  bool found = false;
  for (OpImpl& impl : all) {
    std::string reason = refusal(impl, call, target, externals);
    if (reason.empty() && !found) {
      out.chosen = std::move(impl);
      found = true;
      continue;
    }
    if (reason.empty())
      reason = fmt::format("`{}` has {} priority", out.chosen.name,
                           impl.priority == out.chosen.priority ? "the same" : "a higher");
    out.rejected.push_back({impl.name, impl.priority, std::move(reason)});
  }
  if (!found) return std::nullopt;
  const bool library = !out.chosen.library.empty();
  out.why = all.size() == 1 ? "its only implementation"
            : library       ? fmt::format("the target names the library `{}`", out.chosen.library)
                            : "the highest priority of those that apply";
  return out;
}

std::vector<OpImpl> library_implementations(const Call& call, const Target& target) {
  std::vector<OpImpl> all = implementations(call, target);
  std::erase_if(all, [&](const OpImpl& impl) {
    return impl.external.empty() || !refusal(impl, call, target, true).empty();
  });
  std::stable_sort(all.begin(), all.end(),
                   [](const OpImpl& a, const OpImpl& b) { return a.priority > b.priority; });
  return all;
}

namespace {
OpImpl wanted_of(const Call& call, const Target& target, const std::string& wanted) {
  const std::string& op = call.op.as<graph::Op>()->name;
  std::vector<std::string> names;
  for (OpImpl& impl : implementations(call, target)) {
    names.push_back(impl.name);
    if (impl.name != wanted) continue;
    const std::string reason = refusal(impl, call, target, false);
    if (reason.empty()) return std::move(impl);
    fail("T1108", fmt::format("`{}` does not compute this `{}`: {}", wanted, op, reason), {},
         reason == kOtherLayouts
             ? "the layout was chosen before; --disable-pass convert_layout keeps the plain one"
             : "`tenon inspect MODEL --strategies` shows what takes which call");
  }
  fail("T1108", fmt::format("`{}` has no implementation `{}`", op, wanted), {},
       fmt::format("it has {}", fmt::join(names, ", ")));
}
}  // namespace

OpImpl lowering_of(const Call& call, const Target& target, const std::string& wanted) {
  const auto* op = call.op.as<graph::Op>();
  if (op && !wanted.empty()) return wanted_of(call, target, wanted);
  if (!op || !find_strategy(op->name)) return own_definition(call);
  if (auto choice = select(call, target, false)) return std::move(choice->chosen);
  return own_definition(call);
}

}  // namespace tenon::op
