// SPDX-License-Identifier: Apache-2.0
// fold_scale_axis, backward_fold_scale_axis, forward_fold_scale_axis: scales per channel around a contraction
// move into its constant weight (batch norm among them).
//
//   before   lv = R.nn.conv2d(x, w);  lv1 = R.add(lv, b);  lv2 = R.multiply(lv1, s)     # w, b, s constants
//   after    lv = R.nn.conv2d(x, w * s);  lv2 = R.add(lv, b * s)
//   before   lv = R.multiply(x, s);  lv1 = R.nn.conv2d(lv, w)
//   after    lv1 = R.nn.conv2d(x, w * s)
//
//   before   lv = R.add(x, b);  lv1 = R.add(lv, c)      after   lv1 = R.add(x, b + c)      (and products
//   alike)
//
// backward_fold_scale_axis moves scales behind a contraction back into it, forward_fold_scale_axis those in
// front of it forward; fold_scale_axis does both.
//
// For convolutions of any rank and groups, transposed ones (scales behind), nn.dense and matmul with a weight
// of two axes; floating element types; values between that are used once. Needs: types. Keeps: values up to
// the rounding of the new weights, which are computed in double.
#include "op/body_rewriter.h"
#include "op/build.h"
#include "pass/graph/layout/narrow_storage.h"

namespace tenon {
namespace graph {
namespace {

/// A contraction with a constant weight of floats, which no narrower type holds as it is.
struct WeightedSum {
  const Call* call = nullptr;
  NDArray weight;
  op::Contraction axes;
};

std::optional<WeightedSum> weighted_sum(const Expr& value, const Target& target) {
  const Op* op = value ? op_of(value) : nullptr;
  const Call* call = value.as<Call>();
  const auto* w = op && call->args.size() == 2 ? call->args[1].as<Constant>() : nullptr;
  if (!w || !w->data.dtype().is_float() || !op::definition(*op).contraction) return std::nullopt;
  const auto axes = op::definition(*op).contraction(*call);
  const auto* x = as_tensor(call->args[0]);
  if (!axes || axes->batch || !x || x->ndim < 2 || narrow_storage(value, target)) return std::nullopt;
  return WeightedSum{call, w->data, *axes};
}

/// One value per element of `axis` when the constant varies along that axis only.
std::optional<std::vector<double>> along_axis(const Expr& e, int64_t axis, int64_t ndim, int64_t extent) {
  const auto* c = e.as<Constant>();
  if (!c || c->data.ndim() > ndim || c->data.size() == 0) return std::nullopt;
  const auto& shape = c->data.shape();
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t at = int64_t(i) + ndim - int64_t(shape.size());
    if (shape[i] != 1 && !(at == axis && shape[i] == extent)) return std::nullopt;
  }
  std::vector<double> out;
  for (int64_t i = 0; i < extent; ++i) out.push_back(c->data.element(c->data.size() == 1 ? 0 : i));
  return out;
}

/// weight with every element times `factor(out channel, in channel)`, channels over all groups.
template <class F>
NDArray scaled(const WeightedSum& c, F factor) {
  NDArray out = NDArray::empty(c.weight.shape(), c.weight.dtype());
  const auto& s = c.weight.shape();
  const int64_t rows = s[0], columns = s[1];
  int64_t inner = 1;
  for (size_t i = 2; i < s.size(); ++i) inner *= s[i];
  const int64_t per_group = std::max<int64_t>(1, rows / c.axes.groups);
  const bool plain = c.weight.dtype() == f32;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = 0; k < columns; ++k) {
      const int64_t other =
          c.axes.groups == 1 ? k : (r / per_group) * columns + k;  // the grouped axis over all groups
      const double f = c.axes.weight_out == 0 ? factor(r, other) : factor(other, r);
      const int64_t begin = (r * columns + k) * inner;
      for (int64_t i = begin; i < begin + inner; ++i) {
        if (plain)
          out.as_ptr<float>()[i] = float(double(c.weight.as_ptr<float>()[i]) * f);
        else
          out.set_element(i, c.weight.element(i) * f);
      }
    }
  return out;
}

class FoldScaleAxis : public BodyRewriter {
 public:
  FoldScaleAxis(std::unordered_map<const Var*, int> uses, Target target, bool backward, bool forward)
      : uses_(std::move(uses)), target_(std::move(target)), backward_(backward), forward_(forward) {}

 protected:
  Expr visit(const Expr& value, const VarRef& var) override {
    const Op* op = op_of(value);
    if (!op) return value;
    const Call& call = *value.as<Call>();
    if (op->name == "multiply" || op->name == "add")
      if (Expr e = merge(op->name, call, value, var)) return e;
    if (op->name == "multiply" && backward_) {
      if (Expr e = behind(call.args[0], call.args[1], false, value, var)) return e;
      if (Expr e = behind(call.args[1], call.args[0], false, value, var)) return e;
    } else if (op->name == "divide" && backward_) {
      if (Expr e = behind(call.args[0], call.args[1], true, value, var)) return e;
    } else if (auto c = forward_ ? weighted_sum(value, target_) : std::nullopt; c && !c->axes.transposed) {
      if (Expr e = before(*c)) return e;
    }
    return value;
  }

 private:
  bool once(const Expr& e) const {
    const auto* v = e.as<Var>();
    auto it = v ? uses_.find(v) : uses_.end();
    return it != uses_.end() && it->second == 1;
  }

  /// (x ∘ a) ∘ b is x ∘ (a ∘ b), and (x * a + t) * b is x * (a * b) + t * b, for constants along one axis.
  Expr merge(const std::string& name, const Call& call, const Expr& value, const VarRef& var) {
    const bool right = call.args[1].is<Constant>();
    const Expr &y = call.args[right ? 0 : 1], &b = call.args[right ? 1 : 0];
    const auto *type = as_tensor(y), *result = as_tensor(var);
    if (!b.is<Constant>() || !type || !result || !type->dtype.is_float() || type->ndim != result->ndim ||
        !once(y))
      return {};
    auto operand = [&](const Expr& e, std::string_view op) -> std::pair<Expr, Expr> {
      const Call* inner = definition_call(e, op);
      if (!inner) return {};
      const bool second = inner->args[1].is<Constant>();
      const Expr &x = inner->args[second ? 0 : 1], &c = inner->args[second ? 1 : 0];
      const auto* t = as_tensor(x);
      if (!c.is<Constant>() || x.is<Constant>() || !t || t->ndim != type->ndim) return {};
      return {x, c};
    };
    if (auto [x, a] = operand(y, name); x) {
      NDArray both = combined(name, a, b, type->ndim);
      if (!both) return {};
      drop(y);  // what stays would use values that go with a scale behind
      return with_origin(tenon::graph::call(call.op, {x, constant(both)}), value->origin);
    }
    if (name != "multiply") return {};
    auto [sum, t] = operand(y, "add");
    if (!sum || !once(sum)) return {};
    auto [x, a] = operand(sum, "multiply");
    if (!x) return {};
    NDArray scale = combined("multiply", a, b, type->ndim), shift = combined("multiply", t, b, type->ndim);
    if (!scale || !shift) return {};
    drop(y);
    drop(sum);
    Expr product = with_origin(tenon::graph::call(call.op, {x, constant(scale)}), value->origin);
    return with_origin(tenon::graph::call(get_op("add"), {emit(product, var->name), constant(shift)}),
                       value->origin);
  }

  /// a ∘ b when both vary along the same one axis at most; null otherwise. In double, rounded once.
  static NDArray combined(const std::string& name, const Expr& a, const Expr& b, int64_t ndim) {
    int64_t axis = -1, extent = 1;
    for (const Expr* e : {&a, &b}) {
      const NDArray& c = e->as<Constant>()->data;
      for (int64_t i = 0; i < c.ndim(); ++i) {
        const int64_t n = c.shape()[size_t(i)], at = i + ndim - c.ndim();
        if (n == 1) continue;
        if (axis >= 0 && (axis != at || extent != n)) return {};
        axis = at;
        extent = n;
      }
    }
    auto p = along_axis(a, axis, ndim, extent), q = along_axis(b, axis, ndim, extent);
    if (!p || !q) return {};
    std::vector<int64_t> shape(axis < 0 ? 0 : size_t(ndim - axis), 1);
    if (axis >= 0) shape[0] = extent;
    NDArray out = NDArray::empty(shape, a.as<Constant>()->data.dtype());
    for (int64_t i = 0; i < extent; ++i)
      out.set_element(i,
                      name == "add" ? (*p)[size_t(i)] + (*q)[size_t(i)] : (*p)[size_t(i)] * (*q)[size_t(i)]);
    return out;
  }

  /// The scale `s` behind `y`, a contraction or a contraction and a shift.
  Expr behind(const Expr& y, const Expr& s, bool divide, const Expr& value, const VarRef& var) {
    const auto* type = as_tensor(y);
    if (!s.is<Constant>() || !type || type->ndim < 1 || !type->dtype.is_float() || !once(y)) return {};
    if (!as_tensor(var) || as_tensor(var)->ndim != type->ndim) return {};
    Expr producer = y, shift;
    if (const Call* sum = definition_call(y, "add")) {
      const bool left = sum->args[1].is<Constant>();
      producer = sum->args[left ? 0 : 1];
      shift = sum->args[left ? 1 : 0];
      if (!shift.is<Constant>() || !once(producer)) return {};
    } else if (const Call* bias = definition_call(y, "nn.bias_add")) {
      const int64_t axis = op::attrs_of<op::AxisAttrs>(*bias).axis;
      producer = bias->args[0];
      const auto* b = bias->args[1].as<Constant>();
      if (!b || !once(producer)) return {};
      std::vector<int64_t> shape(size_t(type->ndim - (axis < 0 ? axis + type->ndim : axis)), 1);
      shape[0] = b->data.size();
      shift = constant(b->data.reshape(shape));
    }
    auto c = weighted_sum(definition(producer), target_);
    if (!c || c->weight.dtype() != type->dtype) return {};
    const auto* p = as_tensor(producer);
    if (!p || p->ndim != type->ndim) return {};
    const int64_t channels =
        c->weight.shape()[size_t(c->axes.weight_out)] * (c->axes.transposed ? c->axes.groups : 1);
    auto factors = along_axis(s, c->axes.result, type->ndim, channels);
    if (!factors) return {};
    if (divide)
      for (double& f : *factors) f = 1 / f;
    std::optional<std::vector<double>> shifts;
    if (shift) {
      shifts = along_axis(shift, c->axes.result, type->ndim, channels);
      if (!shifts) return {};
    }
    Expr weight = constant(scaled(*c, [&](int64_t o, int64_t) { return (*factors)[size_t(o)]; }));
    Expr product =
        with_origin(call(c->call->op, {c->call->args[0], weight}, c->call->attrs), c->call->origin);
    // Nothing reads the unscaled values any more; their weights go now.
    const int64_t result_axis = c->axes.result;
    c.reset();
    drop(y);
    if (!producer.same_as(y)) drop(producer);
    if (!shifts) return product;
    std::vector<int64_t> shape(size_t(type->ndim - result_axis), 1);
    shape[0] = channels;
    NDArray moved = NDArray::empty(shape, type->dtype);
    for (int64_t i = 0; i < channels; ++i) moved.set_element(i, (*shifts)[size_t(i)] * (*factors)[size_t(i)]);
    return with_origin(call(get_op("add"), {emit(product, var->name), constant(moved)}), value->origin);
  }

  /// A scale of the data in front of the contraction.
  Expr before(const WeightedSum& c) {
    const Expr& x = c.call->args[0];
    const Call* product = definition_call(x, "multiply");
    const auto* type = as_tensor(x);
    if (!product || !once(x) || !type || type->dtype != c.weight.dtype()) return {};
    const int64_t channels = c.weight.shape()[size_t(c.axes.weight_in)] * c.axes.groups;
    for (size_t side = 0; side < 2; ++side) {
      const Expr &data = product->args[1 - side], &s = product->args[side];
      if (!as_tensor(data) || as_tensor(data)->ndim != type->ndim || data.is<Constant>()) continue;
      auto have = known_shape(data), want = known_shape(x);
      if (!have || !want) continue;
      bool same = true;
      for (size_t i = 0; i < have->size(); ++i) same &= op::same_dim((*have)[i], (*want)[i]);
      auto factors = same ? along_axis(s, c.axes.data, type->ndim, channels) : std::nullopt;
      if (!factors) continue;
      Expr weight = constant(scaled(c, [&](int64_t, int64_t i) { return (*factors)[size_t(i)]; }));
      return with_origin(call(c.call->op, {data, weight}, c.call->attrs), c.call->origin);
    }
    return {};
  }

  std::unordered_map<const Var*, int> uses_;
  Target target_;
  bool backward_, forward_;
};

IRModule fold_scales(IRModule module, const PassContext& context, bool backward, bool forward) {
  const Target target = context.target.cast<TargetNode>();
  return consume_functions(std::move(module), [=](Ref<Function> f) -> Ref<Function> {
    FoldScaleAxis rewriter(count_uses(*f), target, backward, forward);
    return rewriter.run(std::move(f));
  });
}

}  // namespace
}  // namespace graph

static IRModule fold_scale_axis(IRModule module, PassContext& context) {
  return graph::fold_scales(std::move(module), context, true, true);
}
static IRModule backward_fold_scale_axis(IRModule module, PassContext& context) {
  return graph::fold_scales(std::move(module), context, true, false);
}
static IRModule forward_fold_scale_axis(IRModule module, PassContext& context) {
  return graph::fold_scales(std::move(module), context, false, true);
}

const Pass& fold_scale_axis_pass = register_pass({
    .name = "fold_scale_axis",
    .run = fold_scale_axis,
    .level = 2,
    .summary = "scales around contractions move into constant weights",
    .needs = {"infer_types"},
    .changes = Changes::rounding,
});
const Pass& backward_fold_scale_axis_pass = register_pass({
    .name = "backward_fold_scale_axis",
    .run = backward_fold_scale_axis,
    .summary = "scales behind contractions move back into constant weights",
    .needs = {"infer_types"},
    .changes = Changes::rounding,
});
const Pass& forward_fold_scale_axis_pass = register_pass({
    .name = "forward_fold_scale_axis",
    .run = forward_fold_scale_axis,
    .summary = "scales in front of contractions move forward into constant weights",
    .needs = {"infer_types"},
    .changes = Changes::rounding,
});

}  // namespace tenon
