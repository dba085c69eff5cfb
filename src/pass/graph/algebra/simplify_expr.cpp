// SPDX-License-Identifier: Apache-2.0
// simplify_expr: algebra on operators that saves work.
//
//   before   lv = R.nn.pad(x, 0);  lv1 = R.nn.conv2d(lv, w)
//   after    lv1 = R.nn.conv2d(x, w, padding = …)
//
// Covers: zero padding into convolutions; slices, pads, tiles, repeats and concatenations that do nothing;
// relu and clip chains; maximum and minimum of a value with itself; where on a constant condition; division
// by powers of two; a + (-b); a zero point that is added before a clip and taken off behind it; matmul with a
// transposed matrix (nn.dense); indices that are checked again, or many times over. Needs: types. Keeps:
// values bit by bit.
#include <cmath>
#include <optional>

#include "ir/structural.h"
#include "op/attrs_check.h"
#include "op/body_rewriter.h"
#include "op/build.h"

namespace tenon {
namespace graph {
namespace {

// Pad widths come in pairs: those of the batch and the channels, then the spatial ones.
constexpr size_t kSpatial = 4;
// 1 / v is exact for a power of two, and no result underflows where |exponent| stays far from f32's 126.
constexpr int kLargestExponent = 60;
// Divisors are looked at one by one: vectors of a channel, not whole tensors.
constexpr int64_t kMostDivisors = 4096;

// Up to here sums and differences of whole numbers are exact, and what is larger is clipped on either side.
constexpr double kExactWhole = 0x1p22;

bool is_conv(const std::string& name) {
  return name == "nn.conv1d" || name == "nn.conv2d" || name == "nn.conv3d";
}

class SimplifyExpr : public BodyRewriter {
 public:
  explicit SimplifyExpr(const Function& f) {
    for_each_binding(f.body, [&](const Binding& b) {
      const Op* op = op_of(b->value);
      if (!op) return;
      const Call* call = b->value.as<Call>();
      calls_[b->var.get()] = {op->name, call};
      if (op->name != "add") return;
      for (size_t i = 0; i < 2; ++i)
        if (never_minus_zero(call->args[1 - i])) beside_zero_.insert(call->args[i].get());
    });
    for (const auto& [v, n] : count_uses(f))
      if (n > 1) beside_zero_.erase(v);
  }

 protected:
  Expr visit(const Expr& value, const VarRef& var) override {
    const Op* op = op_of(value);
    if (!op) return value;
    const Call& call = *value.as<Call>();
    const std::string& name = op->name;
    if (call.args.empty() || !call.args[0]) return value;
    const Expr& x = call.args[0];
    const Type type = var->declared ? var->declared : value->type;
    const bool same = x->type && type && known_shape(type) && structural_equal(x->type, type);
    if (is_conv(name)) return call.args.size() == 2 ? convolution(call, value) : value;
    if (name == "concat") {
      Expr tuple = x.is<Tuple>() ? x : definition(x);
      const auto* t = tuple.as<Tuple>();
      return t && t->items.size() == 1 ? t->items[0] : value;
    }
    if (name == "pad") return pad_does_nothing(call) ? x : value;
    if ((name == "tile" || name == "repeat") && same && copies_are_one(call)) return x;
    if (name == "strided_slice" && same && steps_forward(call)) return x;
    if (name == "nn.relu" && definition_call(x, "nn.relu")) return x;
    if (name == "nn.relu") {
      const Call* clip = definition_call(x, "clip");
      return clip && op::attrs_of<op::ClipAttrs>(*clip).min >= 0 ? x : value;
    }
    if (name == "clip") return clip(call, value);
    if ((name == "maximum" || name == "minimum") && x.same_as(call.args[1]) && same) return x;
    if (name == "where") return where(call, value, type);
    if (name == "divide") return divide(call, value);
    if (name == "add") return add(call, value);
    if (name == "multiply" && beside_zero_.contains(var.get())) return without_zero_point(call, value);
    if (name == "matmul") return matmul(call, value);
    if (name == "check_indices") return check_indices(call, value, var);
    return value;
  }
  void enter_scope() override { scopes_.push_back(checked_.size()); }
  void leave_scope() override {
    checked_.resize(scopes_.back());
    scopes_.pop_back();
  }

 private:
  /// Begins then ends of a padding list of any of its forms.
  static std::vector<int64_t> both_ends(const Array<int64_t>& list, size_t n) {
    std::vector<int64_t> out(2 * n, 0);
    for (size_t i = 0; i < 2 * n && !list.empty(); ++i)
      out[i] = list[list.size() == 1 ? 0 : list.size() == n ? i % n : i];
    return out;
  }

  Expr convolution(const Call& call, const Expr& value) {
    const Call* pad = definition_call(call.args[0], "pad");
    const auto* type = as_tensor(call.args[0]);
    if (!pad || !type || type->ndim < 3) return value;
    const auto& p = op::attrs_of<op::PadAttrs>(*pad);
    const size_t n = size_t(type->ndim) - 2;
    if (p.pad_mode != "constant" || p.pad_value != 0 || p.pad_width.size() != 2 * (n + 2)) return value;
    for (size_t i = 0; i < p.pad_width.size(); ++i)
      if (p.pad_width[i] < 0 || (i < kSpatial && p.pad_width[i] != 0)) return value;
    Ref<op::ConvAttrs> attrs = call.attrs.cast<op::ConvAttrs>();
    if (!attrs) return value;
    std::vector<int64_t> padding = both_ends(attrs->padding, n);
    for (size_t i = 0; i < n; ++i) {
      padding[i] += p.pad_width[kSpatial + 2 * i];
      padding[i + n] += p.pad_width[kSpatial + 1 + 2 * i];
    }
    attrs.edit()->padding = Array<int64_t>(padding);
    Array<Expr> args = call.args;
    args.set(0, pad->args[0]);
    return with_origin(tenon::graph::call(call.op, args, attrs), call.origin);
  }

  static bool pad_does_nothing(const Call& call) {
    for (int64_t w : op::attrs_of<op::PadAttrs>(call).pad_width)
      if (w != 0) return false;
    return true;
  }
  static bool copies_are_one(const Call& call) {
    if (const auto* a = call.attrs.as<op::TileAttrs>()) {
      for (int64_t r : a->repeats)
        if (r != 1) return false;
      return true;
    }
    const auto* a = call.attrs.as<op::RepeatAttrs>();
    return a && a->repeats == 1;
  }
  /// With the operand's shape as its result, a slice of steps of one takes everything.
  static bool steps_forward(const Call& call) {
    for (int64_t s : op::attrs_of<op::StridedSliceAttrs>(call).strides)
      if (s != 1) return false;
    return true;
  }

  Expr clip(const Call& call, const Expr& value) {
    const auto& a = op::attrs_of<op::ClipAttrs>(call);
    if (!(a.min <= a.max)) return value;
    const Expr& x = call.args[0];
    if (definition_call(x, "nn.relu") && a.min >= 0)
      return again(call, definition_call(x, "nn.relu")->args[0], call.attrs);
    const Call* inner = definition_call(x, "clip");
    if (!inner) return value;
    const auto& b = op::attrs_of<op::ClipAttrs>(*inner);
    if (!(b.min <= b.max) || b.max < a.min || b.min > a.max) return value;
    return again(call, inner->args[0],
                 op::make_attrs<op::ClipAttrs>(std::max(a.min, b.min), std::min(a.max, b.max)));
  }
  static Expr again(const Call& call, const Expr& x, const ObjectRef& attrs) {
    return with_origin(tenon::graph::call(call.op, {x}, attrs), call.origin);
  }

  Expr where(const Call& call, const Expr& value, const Type& type) {
    for (bool v : {true, false}) {
      const auto* c = call.args[0].as<Constant>();
      if (!c || c->data.size() > 4096 || !is_constant_filled(call.args[0], v)) continue;
      const Expr& taken = call.args[v ? 1 : 2];
      if (taken->type && known_shape(type) && structural_equal(taken->type, type)) return taken;
    }
    return value;
  }

  /// x / 2ᵏ is x * 2⁻ᵏ, exactly.
  Expr divide(const Call& call, const Expr& value) {
    const auto* c = call.args[1].as<Constant>();
    if (!c || !c->data.dtype().is_float() || c->data.dtype().bits < 32 || c->data.size() == 0 ||
        c->data.size() > kMostDivisors)
      return value;
    NDArray inverse = NDArray::empty(c->data.shape(), c->data.dtype());
    for (int64_t i = 0; i < c->data.size(); ++i) {
      int exponent = 0;
      const double v = c->data.element(i);
      if (!std::isfinite(v) || std::abs(std::frexp(v, &exponent)) != 0.5 ||
          std::abs(exponent) > kLargestExponent)
        return value;
      inverse.set_element(i, 1 / v);
    }
    return with_origin(tenon::graph::call(get_op("multiply"), {call.args[0], constant(inverse)}),
                       call.origin);
  }

  Expr add(const Call& call, const Expr& value) {
    for (size_t i = 0; i < 2; ++i)
      if (const Call* n = definition_call(call.args[i], "negative")) {
        return with_origin(tenon::graph::call(get_op("subtract"), {call.args[1 - i], n->args[0]}),
                           call.origin);
      }
    return value;
  }

  /// A whole number of float32 that fills a tensor of one element.
  static std::optional<double> whole(const Expr& e) {
    const auto* c = e.as<Constant>();
    if (!c || c->data.size() != 1 || c->data.dtype() != f32) return std::nullopt;
    const double v = c->data.element(0);
    return v == std::round(v) && std::abs(v) <= kExactWhole ? std::optional(v) : std::nullopt;
  }
  /// (clip(round(x) + z, low, high) - z) * s as clip(round(x), low - z, high - z) * s, which differs in the
  /// sign of zeros alone.
  Expr without_zero_point(const Call& scaled, const Expr& value) {
    const Call* taken = scaled.args[1].is<Constant>() ? definition_call(scaled.args[0], "subtract") : nullptr;
    const Call* clip = taken ? definition_call(taken->args[0], "clip") : nullptr;
    const Call* added = clip ? definition_call(clip->args[0], "add") : nullptr;
    if (!added || !definition_call(added->args[0], "round")) return value;
    const auto zero = whole(added->args[1]), again = whole(taken->args[1]);
    const auto& bounds = op::attrs_of<op::ClipAttrs>(*clip);
    const auto usable = [](double v) { return v == std::round(v) && std::abs(v) <= kExactWhole; };
    if (!zero || zero != again || !usable(bounds.min) || !usable(bounds.max)) return value;
    const ObjectRef shifted = op::make_attrs<op::ClipAttrs>(bounds.min - *zero, bounds.max - *zero);
    const Expr x = emit(op::op_call("clip", {added->args[0]}, shifted, clip->origin));
    return op::op_call("multiply", {x, scaled.args[1]}, {}, scaled.origin);
  }
  const Call* given(const Expr& e, std::string_view op) const {
    const auto it = calls_.find(e.get());
    return it != calls_.end() && it->second.first == op ? it->second.second : nullptr;
  }
  /// A sum with such a value has the sign of zero that it would have beside +0: integers by a positive
  /// factor, less a zero point or not.
  bool never_minus_zero(const Expr& e) const {
    const Call* scaled = given(e, "multiply");
    const auto* factor = scaled ? scaled->args[1].as<Constant>() : nullptr;
    if (!factor || factor->data.size() != 1 || !(factor->data.element(0) > 0)) return false;
    const Call* difference = given(scaled->args[0], "subtract");
    const Call* from = given(difference ? difference->args[0] : scaled->args[0], "cast");
    const auto* type = from ? as_tensor(from->args[0]) : nullptr;
    return type && type->dtype.is_integer() && (!difference || whole(difference->args[1]));
  }

  Expr matmul(const Call& call, const Expr& value) {
    const Call* t = definition_call(call.args[1], "permute_dims");
    const auto *a = as_tensor(call.args[0]), *b = as_tensor(call.args[1]);
    if (!t || !a || !b || a->ndim < 2 || b->ndim != 2) return value;
    const auto& axes = op::attrs_of<op::AxesAttrs>(*t).axes;
    const bool swapped = axes.empty() || (((axes[0] + 2) % 2) == 1 && ((axes[1] + 2) % 2) == 0);
    if (!swapped) return value;
    return with_origin(tenon::graph::call(get_op("nn.dense"), {call.args[0], t->args[0]}, call.attrs),
                       call.origin);
  }

  /// The same elements, each at least once: a reshape, or a stretch to numbers of copies.
  const Call* spread(const Expr& e) const {
    if (const Call* shaped = definition_call(e, "reshape")) return shaped;
    const Call* stretched = definition_call(e, "broadcast_to");
    const auto from = stretched ? known_shape(stretched->args[0]) : std::nullopt, to = known_shape(e);
    if (!from || !to || to->size() < from->size()) return nullptr;
    for (size_t i = 0; i < to->size(); ++i) {
      const size_t added = to->size() - from->size();
      const auto copies = tir::as_int((*to)[i]);
      const bool kept = i >= added && structural_equal((*from)[i - added], (*to)[i]);
      if (!kept && !(copies && *copies >= 1)) return nullptr;
    }
    return stretched;
  }
  /// Indices are checked before they are spread, and once for each size.
  Expr check_indices(const Call& call, const Expr& value, const VarRef& var) {
    const auto* sizes = call.args[1].as<ShapeExpr>();
    if (!sizes) return value;
    std::vector<const Call*> outside;
    Expr x = call.args[0];
    for (const Call* s = spread(x); s && sizes->values.size() == 1; s = spread(x)) {
      outside.push_back(s);
      x = s->args[0];
    }
    const bool from_end = op::attrs_of<op::CheckIndicesAttrs>(call).from_end;
    const auto again = std::ranges::find_if(checked_, [&](const Checked& c) {
      return c.indices.same_as(x) && (from_end || !c.from_end) && structural_equal(c.sizes, call.args[1]);
    });
    const bool fresh = again == checked_.end();
    if (fresh && outside.empty()) {
      checked_.push_back({x, call.args[1], var, from_end});
      return value;
    }
    Expr out = fresh ? emit_op("check_indices", {x, call.args[1]}, call.attrs) : replaced(again->result);
    if (fresh) checked_.push_back({x, call.args[1], out, from_end});
    for (size_t i = outside.size(); i-- > 0;) {
      Array<Expr> args = outside[i]->args;
      args.set(0, out);
      out = emit(op::op_call(outside[i]->op.as<Op>()->name, args, outside[i]->attrs, outside[i]->origin));
    }
    return out;
  }

  struct Checked {
    Expr indices, sizes, result;
    bool from_end;
  };
  std::vector<Checked> checked_;  ///< in this scope and those around it
  std::vector<size_t> scopes_;

  std::unordered_map<const Object*, std::pair<std::string_view, const Call*>> calls_;  ///< as they are given
  std::unordered_set<const Object*> beside_zero_;  ///< read by one sum, whose other side is never -0
};

}  // namespace
}  // namespace graph

static IRModule simplify_expr(IRModule module, PassContext&) {
  return graph::consume_functions(std::move(module), [](Ref<graph::Function> f) {
    graph::SimplifyExpr rewriter(*f);
    return rewriter.run(std::move(f));
  });
}

const Pass& simplify_expr_pass = register_pass({
    .name = "simplify_expr",
    .run = simplify_expr,
    .level = 2,
    .summary = "algebra on operators: pads, slices, concatenations, chains",
    .needs = {"infer_types"},
});

}  // namespace tenon
