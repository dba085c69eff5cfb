// SPDX-License-Identifier: Apache-2.0
#include "tools/lint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "analysis/proof_report.h"
#include "ir/bodies.h"
#include "ir/origin.h"
#include "ir/pass.h"
#include "ir/symbols.h"
#include "op/op_def.h"

namespace tenon {
namespace {

using namespace graph;

struct Words {
  std::string message, hint;
};
using Answer = std::optional<Words>;

/// A function as the rules see it: what variables are bound to, and which are inputs of the model.
class Facts {
 public:
  Facts(const std::string& name, const Function& f) {
    for_each_binding(f.body, [&](const Binding& b) { values_[b->var.get()] = b->value; });
    if (is_entry(name, f))
      for (const VarRef& p : f.params) inputs_.insert(p.get());
  }
  /// The value that a leaf stands for; the leaf itself when nothing more is known.
  Expr value_of(const Expr& e) const {
    const auto it = values_.find(e.get());
    return it == values_.end() ? e : it->second;
  }
  /// The name of the operator that made it; empty for anything else.
  std::string_view made_by(const Expr& e) const {
    const Op* op = op_of(value_of(e));
    return op ? std::string_view(op->name) : std::string_view();
  }
  bool is_input(const Expr& e) const { return inputs_.count(e.get()) > 0; }

 private:
  std::unordered_map<const Object*, Expr> values_;
  std::unordered_set<const Object*> inputs_;
};

/// A call of an operator that a rule looks at.
struct Site {
  const Facts& facts;
  const Op& op;
  const Call& call;
  const VarRef& var;

  bool is(std::initializer_list<std::string_view> names) const {
    return std::ranges::find(names, op.name) != names.end();
  }
  const TensorType* argument(size_t i) const {
    return i < call.args.size() ? as_tensor(call.args[i]) : nullptr;
  }
  /// A product or convolution.
  bool is_contraction() const {
    return op::definition(op).fusion == op::FusionKind::out_element_wise_fusable;
  }
};

int64_t count_if(const NDArray& a, FunctionRef<bool(double)> what) {
  int64_t n = 0;
  for (int64_t i = 0; i < a.size(); ++i) n += what(a.element(i));
  return n;
}

// ---------------------------------------------------------------- numbers
Answer log_of_softmax(const Site& s) {
  if (!s.is({"log"}) || s.facts.made_by(s.call.args[0]) != "nn.softmax") return {};
  return Words{"the logarithm of a softmax: probabilities that round to 0 become -inf", "use log_softmax"};
}

Answer division_by_zero(const Site& s) {
  if (!s.is({"divide", "floor_divide", "mod", "floor_mod", "trunc_divide"})) return {};
  const auto* divisor = s.facts.value_of(s.call.args[1]).as<Constant>();
  if (!divisor) return {};
  const int64_t zeros = count_if(divisor->data, [](double v) { return v == 0; });
  if (!zeros) return {};
  return Words{fmt::format("{} of {} constant divisors are 0", zeros, divisor->data.size()),
               "mask these elements, or add a small number to the divisor"};
}

Answer constant_is_nan(const Site& s) {
  for (const Expr& a : s.call.args) {
    const auto* c = a.as<Constant>();
    if (!c || !c->data.dtype().is_float()) continue;
    if (const int64_t n = count_if(c->data, [](double v) { return std::isnan(v); }))
      return Words{fmt::format("{} of {} elements of a constant are NaN", n, c->data.size()),
                   "were the weights saved from a training that diverged?"};
  }
  return {};
}

Answer cast_out_of_range(const Site& s) {
  constexpr int kWide = 32;  // bits that sizes and indices have, whose casts are everywhere and harmless
  const TensorType *from = s.argument(0), *to = as_tensor(s.var);
  if (!s.is({"cast"}) || !from || !to || !from->dtype.is_float() || !to->dtype.is_integer() ||
      to->dtype.bits >= kWide)
    return {};
  Expr value = s.facts.value_of(s.call.args[0]);
  for (const Op* op = op_of(value); op; op = op_of(value)) {
    if (op->name == "clip") return {};
    if (op->name != "round" && op->name != "floor" && op->name != "ceil" && op->name != "trunc") break;
    value = s.facts.value_of(value.as<Call>()->args[0]);
  }
  return Words{fmt::format("{} becomes {} unbounded: what lies outside has no defined value",
                           to_string(from->dtype), to_string(to->dtype)),
               "clip it to the range of the type first"};
}

Answer root_may_be_zero(const Site& s) {
  if (!s.is({"divide"}) || s.call.args.size() != 2) return {};
  const Expr divisor = s.facts.value_of(s.call.args[1]);
  std::string_view measure = s.facts.made_by(s.call.args[1]);
  if (measure == "sqrt") measure = s.facts.made_by(divisor.as<Call>()->args[0]);
  for (const char* m : {"variance", "mean_square", "sum_square", "std", "l2_norm"})
    if (measure == m)
      return Words{fmt::format("divides by a {} that may be 0", m), "add an epsilon below the root"};
  return {};
}

Answer sum_overflows(const Site& s) {
  // Products of bytes are less than 2^15 (u8 times s8), or 2^16 where both are unsigned.
  constexpr int64_t kMostProducts = (int64_t(1) << 31) / (255 * 128);
  if (!s.is({"matmul", "nn.dense", "qnn.matmul", "qnn.dense"})) return {};
  const TensorType *a = s.argument(0), *out = as_tensor(s.var);
  if (!a || !out || out->dtype != i32 || a->dtype.bits != 8) return {};
  const auto shape = known_shape(Type(a));
  const auto depth = shape && !shape->empty() ? tir::as_int((*shape)[shape->size() - 1]) : std::nullopt;
  if (!depth || *depth <= kMostProducts) return {};
  return Words{fmt::format("a sum of {} products of bytes may leave int32", *depth),
               fmt::format("sums of up to {} products cannot", kMostProducts)};
}

// ---------------------------------------------------------------- speed
Answer float64_arithmetic(const Site& s) {
  const TensorType* out = as_tensor(s.var);
  if (!out || out->dtype != f64 || !s.is_contraction()) return {};
  return Words{"computes on float64: half as many elements fit a vector as of float32",
               "export the model in float32 when its accuracy allows it"};
}

Answer weight_is_input(const Site& s) {
  if (!s.is_contraction() || s.call.args.size() < 2 || !s.facts.is_input(s.call.args[1])) return {};
  const TensorType* weight = s.argument(1);
  if (!weight || (s.is({"matmul"}) && weight->ndim != 2)) return {};
  return Words{"its weight is an input of the model: it is laid out anew in every run",
               "make it an initializer, or compile with bind_params"};
}

Answer size_from_data(const Site& s) {
  if (!s.is({"nonzero", "unique", "compress", "masked_select"})) return {};
  return Words{
      "the size of its result is known only from the data: memory comes from the pool, and kernels behind it "
      "are for all sizes",
      "where a bound is known, TopK or a mask keeps sizes fixed"};
}

Answer float_among_bytes(const Site& s) {
  if (!s.is_contraction() || !as_tensor(s.var) || !as_tensor(s.var)->dtype.is_float()) return {};
  for (size_t i = 0; i < std::min<size_t>(s.call.args.size(), 2); ++i)
    if (s.facts.made_by(s.call.args[i]) != "qnn.dequantize") return {};
  return Words{
      "both operands are dequantised, and it is computed in float all the same",
      "its result needs a QuantizeLinear, its weight a scale for the whole or for each output channel"};
}

Answer integer_division(const Site& s) {
  constexpr int64_t kMany = 4096;  // elements, from which on it shows beside the rest of a model
  if (!s.is({"floor_divide", "mod", "floor_mod", "trunc_divide", "divide"})) return {};
  const TensorType* out = as_tensor(s.var);
  if (!out || !out->dtype.is_integer() || s.facts.value_of(s.call.args[1]).is<Constant>()) return {};
  int64_t elements = 1;
  if (const auto shape = known_shape(s.var->type))
    for (const PrimExpr& d : *shape) elements *= tir::as_int(d).value_or(1);
  if (elements < kMany) return {};
  return Words{fmt::format("{} divisions of integers: processors divide them one by one", elements),
               "divide by a constant, or in floating numbers where the values allow it"};
}

struct CallRule : LintRule {
  Answer (*check)(const Site&);
};
constexpr CallRule kCallRules[] = {
    {{"log_of_softmax", "log(softmax(x))", LintKind::numeric}, log_of_softmax},
    {{"division_by_zero", "a constant divisor that is 0", LintKind::numeric}, division_by_zero},
    {{"constant_is_nan", "constants with elements that are no numbers", LintKind::numeric}, constant_is_nan},
    {{"cast_out_of_range", "floats that become small integers without a clip", LintKind::numeric},
     cast_out_of_range},
    {{"root_may_be_zero", "a variance or norm as divisor without an epsilon", LintKind::numeric},
     root_may_be_zero},
    {{"sum_overflows", "sums of products of bytes too long for int32", LintKind::numeric}, sum_overflows},
    {{"float64_arithmetic", "products and convolutions on float64", LintKind::slow}, float64_arithmetic},
    {{"weight_is_input", "weights that are inputs of the model", LintKind::slow}, weight_is_input},
    {{"size_from_data", "results whose size only the data tells", LintKind::slow}, size_from_data},
    {{"float_among_bytes", "layers of a quantised model that stay in float", LintKind::slow},
     float_among_bytes},
    {{"integer_division", "many divisions by integers that are no constants", LintKind::slow},
     integer_division},
};
constexpr LintRule kLoopInOrder{"loop_in_order", "loops of given programs that run in order", LintKind::slow};
constexpr LintRule kSymbolicSizes{"symbolic_sizes", "inputs of unknown size", LintKind::slow};

void symbolic_sizes(const Function& f, std::vector<LintRemark>& out) {
  std::vector<tir::VarRef> symbols;
  for (const VarRef& p : f.params) symbols_of(p->declared, symbols);
  std::vector<std::string> names;
  for (const tir::VarRef& s : symbols) names.push_back(s->name);
  if (names.empty()) return;
  out.push_back({kSymbolicSizes.kind, std::string(kSymbolicSizes.name),
                 fmt::format("kernels are for all sizes of {}", fmt::join(names, ", ")), "",
                 "--dim NAME=N compiles for one size, --dim-max plans memory for a bound (tenon inspect "
                 "shows the names)"});
}

/// Parallel and vectorised loops of programs in text whose iterations are not proved to be independent.
void loops_in_order(const IRModule& module, std::vector<LintRemark>& out) {
  PassContext context;
  context.report = [&](std::string_view, const Any& found) {
    const auto report = found.as<Ref<ProofReport>>();
    for (const OpenProof& o : report->open)
      if (o.end == ProofEnd::serial)
        out.push_back({kLoopInOrder.kind, std::string(kLoopInOrder.name),
                       fmt::format("{}: {}", report->function, o.what), o.where,
                       "give each iteration elements of its own, at an index that tells iterations apart"});
  };
  run_pass("prove_programs", run_pass("lower_jumps", module, context), context);
}

}  // namespace

std::string_view to_string(LintKind kind) { return kind == LintKind::slow ? "slow" : "numeric"; }

std::vector<LintRule> lint_rules() {
  std::vector<LintRule> out(std::begin(kCallRules), std::end(kCallRules));
  out.push_back(kSymbolicSizes);
  out.push_back(kLoopInOrder);
  return out;
}

std::vector<LintRemark> lint(const IRModule& module) {
  // What a compilation makes of quantised layers: those that it leaves in float are remarked.
  PassContext context;
  const IRModule seen =
      run_pass("fake_quantization_to_integer", run_pass("infer_types", module, context), context);
  std::vector<LintRemark> out;
  loops_in_order(module, out);
  for (const auto& [name, f] : graph_functions(seen)) {
    if (is_entry(name, *f)) symbolic_sizes(*f, out);
    const Facts facts(name, *f);
    for_each_binding(f->body, [&](const Binding& b) {
      const Op* op = op_of(b->value);
      if (!op) return;
      const Site site{facts, *op, *b->value.as<Call>(), b->var};
      for (const CallRule& rule : kCallRules)
        if (const Answer words = rule.check(site))
          out.push_back({rule.kind, std::string(rule.name), fmt::format("{}: {}", op->name, words->message),
                         place(b->value->origin), words->hint});
    });
  }
  return out;
}

}  // namespace tenon
