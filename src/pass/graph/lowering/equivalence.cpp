// SPDX-License-Identifier: Apache-2.0
#include "pass/graph/lowering/equivalence.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "analysis/analyzer.h"
#include "analysis/element_values.h"
#include "ir/attr_keys.h"
#include "ir/calls_out.h"
#include "ir/imported_code.h"
#include "ir/program_results.h"
#include "ir/structural.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ir/walk.h"
#include "pass/graph/lowering/program_trials.h"
#include "schedule/schedule.h"

namespace tenon::tir {
namespace {

bool same_body(const PrimFunc& a, const PrimFunc& b) {
  PrimFunc x = a, y = b;
  x.edit()->attrs = y.edit()->attrs = AttrMap();
  if (structural_equal(x, y)) return true;
  x.edit()->body = simplify(a->body), y.edit()->body = simplify(b->body);
  return structural_equal(x, y);
}

/// The trace that the edited program carries, replayed on the other one, gives it.
std::optional<Equivalence> by_schedule(const PrimFunc& program, const PrimFunc& edited) {
  const auto trace = edited->attrs.find(kTraceAttr);
  const auto text = trace ? trace->try_as<std::string>() : std::nullopt;
  if (!text) return std::nullopt;
  PrimFunc start = program;
  if (const auto released = edited->attrs.find(kLayoutFreeBuffers))
    start.edit()->attrs.set(kLayoutFreeBuffers, *released);
  std::optional<Equivalence> out;
  refusal_of([&] {
    const Schedule s = Schedule::replay(start, Trace::from_json(*text));
    if (same_body(s.function(), edited))
      out = Equivalence{Equivalence::By::schedule, 0, s.param_layouts(), {}};
  });
  return out;
}

/// Half the distance of two neighbouring numbers of the type around 1.
double unit_roundoff(DataType t) {
  if (t.bits == 64) return 0x1p-53;
  if (t.bits == 32) return 0x1p-24;
  if (t.bits == 16) return t == f16 ? 0x1p-11 : 0x1p-8;
  return 0x1p-3;
}

// Roundings of a few operations, and of a sum whose terms are added in another order: errors of K terms grow
// as √K where their signs are random, and as K where the terms have few values, which are rounded alike.
constexpr double kRoundings = 16, kRoundingsOfSums = 8;
double roundings_of(double terms, bool few_values) {
  return kRoundings + std::max(kRoundingsOfSums * std::sqrt(terms), few_values ? terms : 0);
}

std::string place_of(int64_t flat, const std::vector<int64_t>& shape) {
  std::vector<int64_t> at(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    at[d] = flat % shape[d];
    flat /= shape[d];
  }
  return fmt::format("[{}]", fmt::join(at, ", "));
}

/// The first element that differs by more than so many roundings; "" where none does.
std::string difference(const std::vector<NDArray>& want, const std::vector<NDArray>& got, double roundings,
                       const std::vector<std::string>& names) {
  if (want.size() != got.size()) return fmt::format("{} results became {}", want.size(), got.size());
  for (size_t k = 0; k < want.size(); ++k) {
    const NDArray &a = want[k], &b = got[k];
    if (a.shape() != b.shape() || a.dtype() != b.dtype())
      return fmt::format("`{}` changed its type", names[k]);
    double squares = 0;
    int64_t finite = 0;
    for (int64_t i = 0; a.dtype().is_float() && i < a.size(); ++i)
      if (const double x = a.element(i); std::isfinite(x)) squares += x * x, ++finite;
    const double usual = finite ? std::sqrt(squares / double(finite)) : 0;
    const double slack = unit_roundoff(a.dtype()) * roundings;
    for (int64_t i = 0; i < a.size(); ++i) {
      if (a.dtype().is_float()) {
        const double x = a.element(i), y = b.element(i);
        const bool same = x == y || (std::isnan(x) && std::isnan(y)) ||
                          (std::isfinite(x) && std::abs(x - y) <= slack * std::max(std::abs(x), usual));
        if (!same) return fmt::format("`{}` at {} is {}, not {}", names[k], place_of(i, a.shape()), y, x);
      } else if (const int64_t x = a.element_int(i), y = b.element_int(i); x != y) {
        return fmt::format("`{}` at {} is {}, not {}", names[k], place_of(i, a.shape()), y, x);
      }
    }
  }
  return {};
}

std::vector<std::string> result_names(const PrimFunc& f) {
  std::vector<std::string> tensors;
  for (const VarRef& p : f->params)
    if (const auto b = f->buffer_map.find(p)) tensors.push_back((*b)->name);
  const size_t results = std::min(tensors.size(), size_t(num_outputs(f)));
  return {tensors.end() - std::ptrdiff_t(results), tensors.end()};
}

std::vector<NDArray> run(const PrimFunc& f, const Trial& trial, const tenon::Evaluate& evaluate) {
  IRModule module = IRModule::create();
  PrimFunc fixed = at_sizes(f, trial.sizes);
  fixed.edit()->attrs.set("global_symbol", Any("program"));
  module.set("program", fixed);
  // What is outside at these sizes alone is found before anything runs.
  DiagnosticList problems;
  verify(module, problems);
  problems.throw_if_any();
  return evaluate(module, "program", trial.inputs);
}

/// The functions outside of the program that it calls.
std::set<std::string> called_by(const PrimFunc& f) {
  std::set<std::string> out;
  pre_order(f->body, [&](const ObjectRef& n) {
    const auto* c = n.as<Call>();
    const auto* name = c && calls_out(c->op) && !c->args.empty() ? c->args[0].as<StringImm>() : nullptr;
    if (name && !(c->op == "tir.call_extern" && is_mathematics(name->value))) out.insert(name->value);
    return true;
  });
  return out;
}

Equivalence by_trials(const PrimFunc& program, const PrimFunc& edited, const tenon::Evaluate& evaluate) {
  Equivalence out;
  const std::set<std::string> known = called_by(program);
  for (const std::string& name : called_by(edited)) {
    if (known.contains(name)) continue;
    // It may end this process, or change what the process holds.
    out.difference =
        fmt::format("it calls `{}`, which the model's does not, and what that does is not tried", name);
    return out;
  }
  if (!evaluate) {
    out.difference = "nothing here can run the two, and they are not of one structure";
    return out;
  }
  const ProgramTrials trials(program, num_outputs(program));
  for (int k = 0; k < trials.count(); ++k) {
    const Trial trial = trials.trial(k);
    const std::string sizes = trials.sizes_text(trial);
    const std::string on = trial.values + (sizes.empty() ? "" : " with " + sizes);
    std::vector<NDArray> want;
    try {
      want = run(program, trial, evaluate);
    } catch (const Error&) {
      continue;  // an input that the model's own kernel does not take
    }
    ++out.trials;
    try {
      const double terms = longest_reduction(at_sizes(program, trial.sizes));
      const std::string wrong = difference(want, run(edited, trial, evaluate),
                                           roundings_of(terms, trial.few_values), result_names(program));
      if (wrong.empty()) continue;
      out.difference = fmt::format("on {}: {}", on, wrong);
    } catch (const Error& e) {
      out.difference = fmt::format("on {}: it ends with {}: {}", on, e.code, e.message);
    }
    return out;
  }
  if (out.trials)
    out.by = Equivalence::By::trials;
  else
    out.difference = "no input was found that the model's own kernel takes";
  return out;
}

/// The function without what it does.
PrimFunc signature_alone(const PrimFunc& f) {
  PrimFunc out = f;
  PrimFuncNode* n = out.edit();
  n->body = make<tir::Evaluate>(PrimExpr(0));
  n->attrs = AttrMap();
  n->attrs.set("num_outputs", Any(num_outputs(f)));
  return out;
}

}  // namespace

std::string to_string(const Equivalence& e) {
  if (!e.by) return e.difference;
  switch (*e.by) {
    case Equivalence::By::structure:
      return "proved by its structure";
    case Equivalence::By::schedule:
      return "proved by its schedule";
    case Equivalence::By::values:
      return "proved by its values";
    case Equivalence::By::trials:
      return fmt::format("equal on {} random and corner inputs", e.trials);
  }
  return {};
}

std::string signature_of(const PrimFunc& f) {
  const std::string text = print(signature_alone(f));
  const size_t begin = text.find("def main("), end = text.find("):\n", begin);
  if (begin == text.npos || end == text.npos) return text;
  const int64_t results = num_outputs(f);
  return fmt::format("{}), {} result{}", text.substr(begin + 8, end - begin - 8), results,
                     results == 1 ? "" : "s");
}

bool same_signature(const PrimFunc& a, const PrimFunc& b) {
  return structural_equal(signature_alone(a), signature_alone(b));
}

Equivalence equivalence_of(const PrimFunc& program, const PrimFunc& edited, const tenon::Evaluate& evaluate) {
  if (auto proved = by_schedule(program, edited)) return std::move(*proved);
  if (same_body(program, edited)) return {Equivalence::By::structure, 0, {}, {}};
  if (!same_signature(program, edited))
    return {{}, 0, {}, "its parameters lie otherwise, and no trace that it carries made them so"};
  if (same_element_values(program, edited)) return {Equivalence::By::values, 0, {}, {}};
  return by_trials(program, edited, evaluate);
}

}  // namespace tenon::tir
