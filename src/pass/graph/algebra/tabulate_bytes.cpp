// SPDX-License-Identifier: Apache-2.0
// tabulate_bytes: what a quantiser wrote around functions of real numbers is a function of a byte, and
// becomes the table of its 256 results where the target looks many bytes up at once.
//
//   before   lv = R.qnn.dequantize(x, s, z);  lv1 = R.sigmoid(lv);  lv2 = R.qnn.quantize(lv1, t, u)
//   after    lv2 = R.qnn.lookup(x, table=[…])
//
// A chain may go through several quantisations and join itself: x · sigmoid(x) is one table of x. Its other
// operands are constants of one element, which a quantiser writes as bytes, too. Needs: types, a target,
// PassContext::evaluate. Keeps: values; each operator of a chain is computed for every byte, rounded as it
// stands.
#include "analysis/region.h"
#include "ir/lookup.h"
#include "op/attrs_qnn.h"
#include "op/body_rewriter.h"
#include "op/build.h"
#include "target/byte_tables.h"

namespace tenon {
namespace graph {
namespace {

/// What estimate_work says of a lookup: it takes about as long as so many operations of real numbers.
constexpr double kLookupWork = 16;
/// Operators from a byte to its function; what is longer is no activation.
constexpr int kLongestChain = 32;

class TabulateBytes : public BodyRewriter {
 public:
  explicit TabulateBytes(PassContext& context) : context_(context) {}

 protected:
  Expr visit(const Expr& value, const VarRef& var) override {
    auto chain = chain_of(value);
    if (!chain) return value;
    const bool table = is_byte(value) && chain->work >= kLookupWork;
    const Expr out = table ? lookup(value, chain->source) : value;
    if (table) chain->work = kLookupWork, chain->length = 1;
    chains_.emplace(var.get(), *chain);
    return out;
  }

 private:
  /// How a value follows from bytes, element by element.
  struct Chain {
    Expr source;
    double work = 0;  ///< operations for an element
    int length = 0;
  };
  static bool is_byte(const Expr& e) {
    const auto* t = as_tensor(e);
    return t && t->dtype.is_integer() && t->dtype.bits == 8;
  }
  static bool pointwise(const Op& op) {
    const FusionKind kind = op::definition(op).fusion;
    return op.pure && (kind == FusionKind::element_wise || kind == FusionKind::broadcast);
  }

  /// Scales and zero points are of the whole tensor, or of its axis: no element follows from one of them.
  static bool is_parameter(const Op& op, size_t argument) {
    if (!op.name.starts_with("qnn.") || argument >= op.arguments.size()) return false;
    const std::string& name = op.arguments[argument].name;
    return name.ends_with("scale") || name.ends_with("zero_point");
  }

  static bool is_element(const Expr& e) {
    const auto* c = e.as<Constant>();
    return c && c->data.size() == 1;
  }
  /// The constant that an operand is, also one that a quantiser wrote as a byte and its scale; null for none.
  Expr constant_of(const Expr& e) {
    const auto* v = e.as<Var>();
    if (!v) return e.is<Constant>() ? e : Expr();
    const auto [known, first] = elements_.emplace(v, Expr());
    if (!first) return known->second;
    const Expr value = definition(e);
    const Op* op = value ? op_of(value) : nullptr;
    if (!op || !pointwise(*op)) return Expr();
    const Call& call = *value.as<Call>();
    if (!std::all_of(call.args.begin(), call.args.end(), is_element) || !op::can_lower(call)) return Expr();
    std::unordered_map<const Object*, NDArray> nothing;
    return elements_[v] = constant(results_of(value, nothing));
  }

  /// Null when the value follows from no bytes, or from several tensors, or is of another shape.
  std::optional<Chain> chain_of(const Expr& value) {
    const Op* op = op_of(value);
    const auto* type = as_tensor(value);
    if (!op || !pointwise(*op) || !type || type->ndim < 1) return std::nullopt;
    Chain out;
    const Array<Expr>& args = value.as<Call>()->args;
    for (size_t i = 0; i < args.size(); ++i) {
      const Expr a = args[i];
      if (const Expr held = constant_of(a)) {
        if (!is_element(held) || held.as<Constant>()->data.ndim() > type->ndim) return std::nullopt;
        continue;
      }
      if (is_parameter(*op, i)) return std::nullopt;
      const auto* v = a.as<Var>();
      const auto known = v ? chains_.find(v) : chains_.end();
      const Chain of = known != chains_.end() ? known->second : Chain{v && is_byte(a) ? a : Expr()};
      if (!of.source || (out.source && !out.source.same_as(of.source))) return std::nullopt;
      out = {of.source, out.work + of.work, std::max(out.length, of.length)};
    }
    if (!out.source || as_tensor(out.source)->ndim != type->ndim || ++out.length > kLongestChain)
      return std::nullopt;
    const Expr sample = with_args(value, [&](const Expr& a) -> Expr {
      return var("x", tensor_type(every_byte(type->ndim), as_tensor(a)->dtype));
    });
    if (!op::can_lower(*sample.as<Call>())) return std::nullopt;
    out.work += estimate_work(op::lower_call(*sample.as<Call>())->body).flop / double(tir::kByteValues);
    return out;
  }
  /// The shape of all bytes in one row, of that rank.
  static Array<PrimExpr> every_byte(int64_t rank) {
    Array<PrimExpr> shape;
    for (int64_t i = 0; i + 1 < rank; ++i) shape.push_back(PrimExpr(1));
    shape.push_back(PrimExpr(tir::kByteValues));
    return shape;
  }
  /// The call with other operands in the places of its variables, and constants as such.
  Expr with_args(const Expr& value, FunctionRef<Expr(const Expr&)> f) {
    const Call& call = *value.as<Call>();
    return op::op_call(op_of(value)->name, call.args.map([&](const Expr& a) {
      const Expr held = constant_of(a);
      return held ? held : f(a);
    }),
                       call.attrs);
  }

  Expr lookup(const Expr& value, const Expr& source) {
    std::vector<int64_t> shape(size_t(as_tensor(source)->ndim), 1);
    shape.back() = tir::kByteValues;
    NDArray bytes = NDArray::empty(shape, as_tensor(source)->dtype);
    for (int64_t i = 0; i < bytes.size(); ++i) bytes.as_ptr<uint8_t>()[i] = uint8_t(i);
    std::unordered_map<const Object*, NDArray> known{{source.get(), bytes}};
    const NDArray results = results_of(value, known);
    const auto attrs = op::make_attrs<op::LookupAttrs>([&](op::LookupAttrs& a) {
      for (int64_t i = 0; i < results.size(); ++i) a.table.push_back(results.element_int(i));
      a.out_dtype = results.dtype();
    });
    return op::op_call("qnn.lookup", {source}, attrs, value.as<Call>()->origin);
  }
  /// The value for every byte of the source, operator by operator.
  NDArray results_of(const Expr& value, std::unordered_map<const Object*, NDArray>& known) {
    const Expr whole = with_args(value, [&](const Expr& a) -> Expr {
      auto it = known.find(a.get());
      if (it == known.end()) it = known.emplace(a.get(), results_of(definition(a), known)).first;
      return constant(it->second);
    });
    std::vector<NDArray> inputs;
    for (const Expr& a : whole.as<Call>()->args) inputs.push_back(a.as<Constant>()->data);
    tir::PrimFunc f = op::lower_call(*whole.as<Call>());
    f.edit()->attrs.set("global_symbol", Any("table"));
    IRModule module = IRModule::create();
    module.set("table", f);
    return context_.evaluate(module, "table", inputs)[0];
  }

  PassContext& context_;
  std::unordered_map<const Var*, Chain> chains_;
  std::unordered_map<const Var*, Expr> elements_;  ///< `constant_of` of variables
};

}  // namespace
}  // namespace graph

static IRModule tabulate_bytes(IRModule module, PassContext& context) {
  const Target target = context.target.cast<TargetNode>();
  if (!target || !context.evaluate || !looks_up_bytes(target)) return module;
  return graph::consume_functions(std::move(module), [&](Ref<graph::Function> f) {
    return graph::TabulateBytes(context).run(std::move(f));
  });
}

const Pass& tabulate_bytes_pass = register_pass({
    .name = "tabulate_bytes",
    .run = tabulate_bytes,
    .level = 2,
    .summary = "functions between quantised values become tables of bytes",
    .needs = {"infer_types"},
    .changes = Changes::rounding,
});

}  // namespace tenon
