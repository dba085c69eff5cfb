// SPDX-License-Identifier: Apache-2.0
// fake_quantization_to_integer: what a quantiser wrote as real numbers computes on the stored integers.
//
//   before   lv = R.qnn.dequantize(x, s, z);  lv1 = R.nn.conv2d(lv, R.qnn.dequantize(w, t, u))
//   after    lv2 = R.qnn.conv2d(x, w, z, u);  lv1 = R.qnn.dequantize(lv2, s · t, 0)
//   before   lv = R.qnn.dequantize(x, s, z);  lv1 = R.nn.max_pool2d(lv)
//   after    lv2 = R.nn.max_pool2d(x);  lv1 = R.qnn.dequantize(lv2, s, z)
//   before   lv = R.concat((R.qnn.dequantize(x, s, z), R.qnn.dequantize(y, t, u)));  lv1 = R.qnn.quantize(lv,
//   t, u) after    lv = R.qnn.quantize(R.qnn.dequantize(x, s, z), t, u);  lv1 = R.concat((lv, y))
//
// So dequantisation moves down to where a float is wanted, often to the next quantisation, and becomes part
// of the kernel there; a quantisation of parts that have scales of their own moves up to them. Scales and
// zero points are constants; sums stay exact in 32 bits. Needs: types. Keeps: values up to rounding: sums of
// integers are exact, and the scales are multiplied once.
#include <algorithm>
#include <cmath>

#include "op/attrs_qnn.h"
#include "op/body_rewriter.h"
#include "op/build.h"
#include "op/qnn.h"

namespace tenon {
namespace graph {
namespace {

/// Real numbers (q - zero) · scale.
struct Quantized {
  Expr q, scale, zero;
  int64_t axis = 0;  ///< of q that the scales belong to; scalar: one for all
  bool scalar = true;
  bool constant() const { return scale.is<Constant>() && zero.is<Constant>(); }
  DataType dtype() const { return as_tensor(q)->dtype; }
  bool byte() const { return dtype().is_integer() && dtype().bits == 8; }
};

/// The value of a constant of one element.
std::optional<double> value_of(const Expr& e) {
  const auto* c = e.as<Constant>();
  return c && c->data.size() == 1 ? std::optional(c->data.element(0)) : std::nullopt;
}
bool same(const Expr& a, const Expr& b) {
  return a.same_as(b) || (value_of(a) && value_of(a) == value_of(b));
}
/// One element, whatever its value.
bool one(const Expr& e) {
  const auto shape = known_shape(e->type);
  return shape && std::all_of(shape->begin(), shape->end(), tir::is_one);
}

/// Sums of what an infinite scale made are infinities that may cancel: they are no sums of integers, scaled.
bool known_to_be_infinite(const Expr& scale) {
  const auto* c = scale.as<Constant>();
  for (int64_t i = 0; c && i < c->data.size(); ++i)
    if (!std::isfinite(c->data.element(i))) return true;
  return false;
}

class FakeQuantizationToInteger : public BodyRewriter {
 public:
  explicit FakeQuantizationToInteger(std::unordered_map<const Var*, int> uses) : uses_(std::move(uses)) {}

 protected:
  Expr visit(const Expr& value, const VarRef& var) override {
    const Op* op = op_of(value);
    if (!op) return value;
    const Call& call = *value.as<Call>();
    const op::OpDef& def = op::definition(*op);
    if (op->name == "qnn.dequantize") order_.emplace(var.get(), order_.size());
    if (op->name == "qnn.quantize") return joined(call).value_or(requantized(call, value));
    if (def.contraction) return contraction(*op, call, var).value_or(value);
    if (def.moves) return moved(*op, call, var).value_or(value);
    return value;
  }

 private:
  std::optional<Quantized> quantized(const Expr& e) const {
    const Call* c = definition_call(e, "qnn.dequantize");
    if (!c) return std::nullopt;
    const auto& a = op::attrs_of<op::QuantizeAttrs>(*c);
    const auto* x = as_tensor(c->args[0]);
    Quantized out{c->args[0], c->args[1], c->args[2]};
    if (a.block_size || !x || x->ndim < 0 || as_tensor(e)->dtype != f32 || known_to_be_infinite(out.scale))
      return std::nullopt;
    out.scalar = one(out.scale) && one(out.zero);
    if (!out.scalar) out.axis = op::normal_axis(a.axis, x->ndim);
    return out;
  }
  /// The call quantises what it undoes: with the same scale, zero point and type.
  bool same_steps(const Call& call) const {
    const auto x = quantized(call.args[0]);
    const auto& a = op::attrs_of<op::QuantizeAttrs>(call);
    const DataType to = a.out_dtype.is_void() ? as_tensor(call.args[2])->dtype : a.out_dtype;
    return x && x->scalar && a.block_size == 0 && to == x->dtype() && same(call.args[1], x->scale) &&
           same(call.args[2], x->zero);
  }

  /// Quantisation is element by element: parts of a concatenation, each in steps of its own, take it apart.
  std::optional<Expr> joined(const Call& call) {
    const Call* concat = definition_call(call.args[0], "concat");
    const bool whole =
        one(call.args[1]) && one(call.args[2]) && op::attrs_of<op::QuantizeAttrs>(call).block_size == 0;
    if (!concat || !whole || !once(call.args[0])) return std::nullopt;
    const Expr tuple = concat->args[0].is<Tuple>() ? concat->args[0] : definition(concat->args[0]);
    const auto* parts = tuple.as<Tuple>();
    if (!parts || !std::all_of(parts->items.begin(), parts->items.end(),
                               [&](const Expr& part) { return quantized(part).has_value(); }))
      return std::nullopt;
    Array<Expr> items;
    for (const Expr& part : parts->items) {
      const Expr own =
          op::op_call("qnn.quantize", {part, call.args[1], call.args[2]}, call.attrs, call.origin);
      const Expr q = requantized(*own.as<Call>(), own);
      items.push_back(q.is<Call>() ? emit(q) : q);
    }
    return op::op_call("concat", {op::tuple(items)}, concat->attrs, concat->origin);
  }

  /// The same integers where nothing changes. Else the scale that a quantisation divides by moves up into the
  /// scales and constants that its operand is made of: multiplications that are there anyway.
  Expr requantized(const Call& call, const Expr& value) {
    if (same_steps(call)) return quantized(call.args[0])->q;
    const auto* scale = call.args[1].as<Constant>();
    if (!scale || scale->data.size() != 1 || op::attrs_of<op::QuantizeAttrs>(call).block_size) return value;
    const double step = scale->data.element(0);
    if (!(step > 0) || !in_steps_of(call.args[0])) return value;
    const Expr x = in_steps(call.args[0], step, latest(call.args[0]));
    return op::op_call("qnn.quantize", {x, op::scalar(1, f32), call.args[2]}, call.attrs, call.origin);
  }
  /// x / step can be written with x's own constants changed.
  bool in_steps_of(const Expr& x) const {
    if (const auto q = quantized(x)) return q->constant();
    if (!once(x)) return false;
    const Call* c = definition(x).as<Call>();
    const Op* op = c ? op_of(definition(x)) : nullptr;
    if (!op || as_tensor(x)->dtype != f32) return false;
    if (op->name == "add" || op->name == "nn.bias_add" || op->name == "maximum" || op->name == "minimum")
      return (in_steps_of(c->args[0]) && (c->args[1].is<Constant>() || in_steps_of(c->args[1]))) ||
             (c->args[0].is<Constant>() && in_steps_of(c->args[1]));
    return (op->name == "nn.relu" || op->name == "clip") && in_steps_of(c->args[0]);
  }
  /// Of the dequantised values that x is made of, the one whose integers were made last and for it alone: the
  /// same kernel computes both. Null: there is none.
  const Var* latest(const Expr& x) const {
    if (const auto q = quantized(x))
      return once(x) && once(q->q) && definition_call(q->q, "qnn.quantize") ? x.as<Var>() : nullptr;
    const Var* out = nullptr;
    if (const Call* c = definition(x).as<Call>())
      for (const Expr& a : c->args)
        if (const Var* v = latest(a); v && (!out || order_.at(v) > order_.at(out))) out = v;
    return out;
  }
  /// x / step; `simulated`: the value that stays a real number between its quantisation and this one.
  Expr in_steps(const Expr& x, double step, const Var* simulated) {
    if (x.is<Constant>()) return constant(divided(x.as<Constant>()->data, step));
    if (const auto q = quantized(x)) {
      const Call& c = *definition(x).as<Call>();
      const Expr scale = constant(divided(q->scale.as<Constant>()->data, step));
      if (x.as<Var>() != simulated)
        return emit(op::op_call("qnn.dequantize", {q->q, scale, c.args[2]}, c.attrs, c.origin));
      const Call* before = definition_call(q->q, "qnn.quantize");
      const auto attrs = op::make_attrs<op::QuantizeAttrs>([&](op::QuantizeAttrs& a) {
        a = op::attrs_of<op::QuantizeAttrs>(*before);
        a.out_dtype = q->dtype();
      });
      const Expr rounded = emit(op::op_call("qnn.simulated_quantize", before->args, attrs, before->origin));
      return emit(op::op_call("qnn.simulated_dequantize", {rounded, scale, c.args[2]}, c.attrs, c.origin));
    }
    const Expr whole = definition(x);
    const Call& c = *whole.as<Call>();
    Array<Expr> args;
    for (const Expr& a : c.args) args.push_back(in_steps(a, step, simulated));
    ObjectRef attrs = c.attrs;
    if (is_op(whole, "clip")) {
      const auto& range = op::attrs_of<op::ClipAttrs>(c);
      attrs = op::make_attrs<op::ClipAttrs>(range.min / step, range.max / step);
    }
    return emit(op::op_call(op_of(whole)->name, args, attrs, c.origin));
  }
  static NDArray divided(const NDArray& x, double step) {
    NDArray out = NDArray::empty(x.shape(), f32);
    for (int64_t i = 0; i < x.size(); ++i) out.set_element(i, x.element(i) / step);
    return out;
  }
  bool once(const Expr& x) const {
    const auto* v = x.as<Var>();
    const auto it = v ? uses_.find(v) : uses_.end();
    return it != uses_.end() && it->second == 1;
  }

  Expr dequantized(const Expr& q, const Expr& scale, const Expr& zero, int64_t axis, const Origin& origin) {
    return op::op_call("qnn.dequantize", {q, scale, zero},
                       op::make_attrs<op::QuantizeAttrs>([&](op::QuantizeAttrs& a) { a.axis = axis; }),
                       origin);
  }

  /// Elements in other places are dequantised there.
  std::optional<Expr> moved(const Op& op, const Call& call, const VarRef& var) {
    const Expr whole = call.args[0].is<Tuple>() ? call.args[0] : definition(call.args[0]);
    Array<Expr> args = call.args;
    std::optional<Quantized> x;
    int64_t axis = 0;
    if (const auto* parts = whole.as<Tuple>()) {
      Array<Expr> items;
      for (const Expr& part : parts->items) {
        const auto p = quantized(part);
        if (!p || !p->scalar) return std::nullopt;
        if (x && !(p->dtype() == x->dtype() && same(p->scale, x->scale) && same(p->zero, x->zero)))
          return std::nullopt;
        x = p;
        items.push_back(p->q);
      }
      args.set(0, op::tuple(items));
    } else {
      x = quantized(call.args[0]);
      if (!x) return std::nullopt;
      if (!x->scalar) {
        if (op.name != "permute_dims") return std::nullopt;
        axis = permuted(call, x->axis);
      }
      args.set(0, x->q);
    }
    if (!x || !as_tensor(var)) return std::nullopt;
    const Expr q = emit(op::op_call(op.name, args, call.attrs, call.origin), var->name);
    return dequantized(q, x->scale, x->zero, axis, call.origin);
  }
  /// Where axis `from` of the operand lies in the result of permute_dims.
  static int64_t permuted(const Call& call, int64_t from) {
    const auto& axes = op::attrs_of<op::AxesAttrs>(call).axes;
    const int64_t rank = as_tensor(call.args[0])->ndim;
    if (axes.empty()) return rank - 1 - from;
    for (size_t i = 0; i < axes.size(); ++i)
      if (op::normal_axis(axes[i], rank) == from) return int64_t(i);
    return from;
  }

  /// Sums of products of bytes, scaled behind.
  std::optional<Expr> contraction(const Op& op, const Call& call, const VarRef& var) {
    if (call.args.size() != 2) return std::nullopt;
    const auto x = quantized(call.args[0]), w = quantized(call.args[1]);
    const auto sum = op::definition(op).contraction(call);
    const Ref<Op> integer = find_op("qnn." + op.name.substr(op.name.rfind('.') + 1));
    if (!x || !w || !sum || !integer || !x->scalar || !x->byte() || !w->byte() || !sum->out_dtype.is_void())
      return std::nullopt;
    if (!w->scalar && (w->axis != sum->weight_out || sum->transposed)) return std::nullopt;
    const auto terms = reduced(*w, *sum);
    if (!terms || *terms > kExactTerms) return std::nullopt;
    const Expr sums =
        emit(op::op_call(integer->name, {x->q, w->q, x->zero, w->zero}, call.attrs, call.origin), var->name);
    const Expr scale = emit(op::product_of_scales(x->scale, w->scale));
    return dequantized(sums, scale, op::scalar(0, i32), sum->result, call.origin);
  }
  /// So many products of two differences of bytes add up exactly in 32 bits: 2³¹ / 255².
  static constexpr int64_t kExactTerms = 33025;
  /// How many products one element of the result adds up.
  static std::optional<int64_t> reduced(const Quantized& w, const op::Contraction& sum) {
    const auto shape = known_shape(w.q->type);
    if (!shape) return std::nullopt;
    int64_t n = 1;
    for (size_t i = size_t(sum.batch); i < shape->size(); ++i) {
      const auto extent = tir::as_int((*shape)[i]);
      if (!extent) return std::nullopt;
      if (int64_t(i) != sum.weight_out) n *= *extent;
      if (n > kExactTerms) return n;
    }
    return n;
  }

  std::unordered_map<const Var*, int> uses_;      ///< in the function as it was
  std::unordered_map<const Var*, size_t> order_;  ///< of dequantisations
};

}  // namespace
}  // namespace graph

static IRModule fake_quantization_to_integer(IRModule module, PassContext&) {
  return graph::consume_functions(std::move(module), [](Ref<graph::Function> f) {
    graph::FakeQuantizationToInteger rewriter(graph::count_uses(*f));
    return rewriter.run(std::move(f));
  });
}

const Pass& fake_quantization_to_integer_pass = register_pass({
    .name = "fake_quantization_to_integer",
    .run = fake_quantization_to_integer,
    .level = 1,
    .summary = "quantised networks compute on the stored integers",
    .needs = {"infer_types"},
    .changes = Changes::rounding,
});

}  // namespace tenon
