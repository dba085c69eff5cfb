// SPDX-License-Identifier: Apache-2.0
#include "pass/graph/lowering/library_choice.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/bodies.h"
#include "ir/text.h"
#include "op/op_def.h"

namespace tenon::graph {
namespace {

/// A library must be this much faster: what is measured alone varies by so much from run to run.
constexpr double kGain = 0.95;
/// Element-wise operators behind a call that are measured with it: what a dense layer of usual networks has
/// (bias, activation, scale, residual), twice.
constexpr size_t kMaxEpilogue = 8;

/// The binding at `at`, and element-wise ones behind it, each of which is the only user of the one before and
/// gives a tensor of its shape.
std::vector<Binding> with_epilogue(const std::vector<Binding>& bindings, size_t at) {
  std::vector<Binding> chain{bindings[at]};
  std::map<const Var*, std::vector<size_t>> users;
  for (size_t i = at + 1; i < bindings.size(); ++i)
    for_each_use(bindings[i]->value, [&](const VarRef& v) { users[v.get()].push_back(i); });
  while (chain.size() <= kMaxEpilogue) {
    const auto it = users.find(chain.back()->var.get());
    if (it == users.end() || it->second.size() != 1) break;
    const Binding& next = bindings[it->second[0]];
    const Expr value = next->value;
    const Op* op = next.is<VarBindingNode>() ? op_of(value) : nullptr;
    if (!op || !op->pure || op::definition(*op).fusion > FusionKind::broadcast) break;
    const auto shape = static_shape(value->type);
    if (!shape || shape != static_shape(chain.back()->value->type)) break;
    chain.push_back(next);
  }
  return chain;
}

/// The chain as a module whose `main` gives the last value. What is read is a parameter; constants stay, or
/// are parameters as well.
IRModule module_of(const std::vector<Binding>& chain, bool keep_constants) {
  Array<VarRef> params;
  std::map<const Object*, Expr> stands_for;
  std::function<Expr(const Expr&, bool)> mapped = [&](const Expr& part, bool) -> Expr {
    if (part.is<Tuple>()) return map_parts(part, mapped);
    const bool constant = part.is<Constant>();
    if (constant ? keep_constants : !part.is<Var>()) return part;
    Expr& here = stands_for[part.get()];
    if (!here) {
      params.push_back(var(fmt::format("{}{}", constant ? "w" : "x", params.size()), part->type));
      here = params.back();
    }
    return here;
  };
  std::vector<Binding> bindings;
  for (const Binding& b : chain) {
    const Expr value = map_parts(b->value, mapped);
    const VarRef result = var(fmt::format("y{}", bindings.size()), value->type);
    bindings.push_back(make<VarBindingNode>(result, value));
    stands_for[b->var.get()] = result;
  }
  const Expr result = bindings.back()->var;
  IRModule module = IRModule::create();
  module.set("main", make<Function>(params, make_body(bindings, result), result->type, AttrMap()));
  return module;
}

std::string milliseconds(double seconds) { return fmt::format("{:.3g} ms", 1e3 * seconds); }

}  // namespace

Expr library_call(const std::string& function, const Call& call, const Type& type) {
  Array<Expr> tensors;
  for (const Expr& a : call.args)
    if (as_tensor(a)) tensors.push_back(a);
  return with_type(graph::call(get_op("call_dps_packed"),
                               {Expr(make<ExternFunc>(function)), make<Tuple>(tensors)}, {}, {type}),
                   type, call.origin);
}

LibraryChooser::LibraryChooser(Target target, Measure measure, bool always)
    : target_(std::move(target)), measure_(std::move(measure)), always_(always) {}

std::optional<LibraryChoice> LibraryChooser::choose(const std::vector<Binding>& bindings, size_t at) {
  const Expr value = bindings[at]->value;
  const Op* op = bindings[at].is<VarBindingNode>() ? op_of(value) : nullptr;
  if (!op || !op->pure || !op::find_strategy(op->name) || !known_shape(value->type)) return std::nullopt;
  const std::vector<op::OpImpl> libraries = op::library_implementations(*value.as<Call>(), target_);
  if (libraries.empty()) return std::nullopt;
  if (always_)
    return LibraryChoice{libraries[0].external, fmt::format("`{}` is asked for always", libraries[0].name)};
  if (!measure_) return LibraryChoice{{}, "nothing can be measured here"};
  const std::vector<Binding> chain = with_epilogue(bindings, at);
  const std::string text = print(module_of(chain, false));
  auto known = known_.find(text);
  if (known == known_.end()) known = known_.emplace(text, measured(libraries, chain)).first;
  return known->second;
}

LibraryChoice LibraryChooser::measured(const std::vector<op::OpImpl>& libraries,
                                       const std::vector<Binding>& chain) {
  std::vector<IRModule> modules{module_of(chain, true)};
  for (const op::OpImpl& l : libraries) {
    std::vector<Binding> other = chain;
    const Expr value = chain[0]->value;
    other[0] = make<VarBindingNode>(chain[0]->var, library_call(l.external, *value.as<Call>(), value->type));
    modules.push_back(module_of(other, true));
  }
  const Measured times = measure_(modules);
  if (times.seconds.empty()) return {{}, times.why_not};
  const auto& own = times.seconds[0];
  const size_t best =
      size_t(std::min_element(times.seconds.begin() + 1, times.seconds.end()) - times.seconds.begin());
  const double seconds = times.seconds[best];
  return {seconds <= kGain * own ? libraries[best - 1].external : std::string(),
          fmt::format("`{}` takes {}, the compiler's own code {}", libraries[best - 1].name,
                      milliseconds(seconds), milliseconds(own))};
}

}  // namespace tenon::graph
