// SPDX-License-Identifier: Apache-2.0
// narrow_contraction: convolutions and products of quantised values, which arrive as sums of integers of 32
// bits, multiply bytes where the target has an instruction for it (dot_intrin.h).
//
//   before   lv = R.subtract(R.cast(x, "int32"), z);  lv1 = R.nn.conv2d(lv, w, padding=1)
//   after    lv1 = R.nn.conv2d(x, w', z', padding=1);  lv2 = R.subtract(lv1, z · Σ w)
//
// w is a constant of 32 bits, or one of bytes that is widened and loses a zero point; w' are bytes, and the
// same constant where there is nothing to take off; what leaves a byte is the sum of two of them, and so is
// the result. z' is the zero point as x has it: what the image is padded with, so that the padding is worth
// 0. A zero point that is no constant may stand too. Needs: types, a target; constants need not be folded, so
// that no weight is held with 32 bits on the way. Keeps: values.
#include <algorithm>
#include <cmath>

#include "op/body_rewriter.h"
#include "op/build.h"
#include "schedule/dot_intrin.h"
#include "target/target.h"

namespace tenon {
namespace graph {
namespace {

class NarrowContraction : public BodyRewriter {
 public:
  explicit NarrowContraction(Target target) : target_(std::move(target)) {}

 protected:
  Expr visit(const Expr& value, const VarRef& var) override {
    const auto sum = op::contraction_of(value);
    if (!sum) return value;
    const Op* op = op_of(value);
    const Call& call = *value.as<Call>();
    const auto* out = as_tensor(var->declared ? var->declared : value->type);
    if (sum->transposed || sum->batch > 0 || call.args.size() != 2 || !out || out->dtype != i32) return value;
    const auto source = unshifted(call.args[0]);
    const std::vector<NDArray> parts = source ? narrow_weights(call.args[1]) : std::vector<NDArray>{};
    if (parts.empty() || !fits(call, *sum, as_tensor(source->x)->dtype, parts[0])) return value;
    Array<Expr> args{source->x, constant(parts[0])};
    ObjectRef attrs;
    if (sum->spatial > 0) {
      const auto& a = op::attrs_of<op::ConvAttrs>(call);
      const bool pads = std::any_of(a.padding.begin(), a.padding.end(), [](int64_t p) { return p != 0; });
      if (source->zero && pads) {
        const Expr border = padded_with(*source, var->name);
        if (!border) return value;
        args.push_back(border);
      }
      attrs = op::make_attrs<op::ConvAttrs>([&](op::ConvAttrs& to) { to = a, to.out_dtype = i32; });
    } else {
      attrs = op::make_attrs<op::MatmulAttrs>([&](op::MatmulAttrs& to) { to.out_dtype = i32; });
    }
    Expr products = op::op_call(op->name, args, attrs, call.origin);
    for (size_t i = 1; i < parts.size(); ++i) {
      args.set(1, constant(parts[i]));
      const Expr part = emit(op::op_call(op->name, args, attrs, call.origin), var->name + "_part");
      products = op::op_call("add", {emit(products, var->name + "_part"), part}, {}, call.origin);
    }
    if (!source->zero) return products;
    const auto z = number(source->zero);
    const Expr sums = constant(sums_of(parts, *sum, z ? int64_t(*z) : 1));
    const Expr worth =
        z ? sums : emit(op::op_call("multiply", {sums, source->zero}, {}, call.origin), var->name + "_worth");
    return op::op_call("subtract", {emit(products, var->name + "_products"), worth}, {}, call.origin);
  }

 private:
  /// x of bytes and the scalar that was taken off it, of 32 bits; null when there was none.
  struct Source {
    Expr x, zero;
  };
  static bool byte(DataType t) { return t.is_integer() && t.bits == 8 && t.lanes == 1; }
  static bool byte(const Expr& e) {
    const auto* t = as_tensor(e);
    return t && byte(t->dtype);
  }
  /// A constant behind casts between integers and changes of shape; null: it is none.
  std::optional<NDArray> constant_of(const Expr& e) const {
    if (const auto* c = e.as<Constant>()) return c->data;
    const Call* c = definition(e).as<Call>();
    const auto shape = known_shape(e->type);
    if (!c || !shape || c->args.empty()) return std::nullopt;
    const auto x = constant_of(c->args[0]);
    if (!x || !x->dtype().is_integer() || !as_tensor(e)->dtype.is_integer()) return std::nullopt;
    const std::string& name = op_of(definition(e))->name;
    if (name == "reshape" || name == "expand_dims" || name == "squeeze")
      return x->reshape(*static_shape(e->type));
    if (name != "cast") return std::nullopt;
    NDArray out = NDArray::empty(x->shape(), as_tensor(e)->dtype);
    for (int64_t i = 0; i < x->size(); ++i) out.set_element_int(i, x->element_int(i));
    return out;
  }
  std::optional<int64_t> number(const Expr& e) const {
    const auto c = constant_of(e);
    return c && c->size() == 1 ? std::optional(c->element_int(0)) : std::nullopt;
  }

  std::optional<Source> unshifted(const Expr& data) const {
    constexpr int64_t kFarthest = 1 << 20;  // its products with sums of weights stay exact modulo 2³²
    Source s;
    Expr widened = data;
    if (const Call* c = definition_call(data, "subtract")) {
      s.zero = c->args[1];
      widened = c->args[0];
      const auto z = number(s.zero);
      if (z ? std::abs(*z) > kFarthest : !was_byte(s.zero, widened)) return std::nullopt;
      if (z && *z == 0) s.zero = {};
    }
    const Call* cast = definition_call(widened, "cast");
    if (!cast || !byte(cast->args[0]) || as_tensor(widened)->dtype != i32) return std::nullopt;
    const auto *narrow = as_tensor(cast->args[0]), *wide = as_tensor(data);
    if (!wide || wide->dtype != i32 || narrow->ndim != wide->ndim) return std::nullopt;
    s.x = cast->args[0];
    return s;
  }
  /// A scalar made of one byte of the type of what `widened` was, so that it fits there.
  bool was_byte(const Expr& zero, const Expr& widened) const {
    const auto shape = known_shape(zero->type);
    if (!shape || !shape->empty()) return false;
    Expr at = zero;
    while (const Call* c = definition_call(at, "reshape")) at = c->args[0];
    const Call *z = definition_call(at, "cast"), *x = definition_call(widened, "cast");
    return z && x && byte(z->args[0]) && byte(x->args[0]) &&
           as_tensor(z->args[0])->dtype == as_tensor(x->args[0])->dtype;
  }
  /// The zero point of x in x's type; null: x cannot hold it, and only what x can hold stands for 0.
  Expr padded_with(const Source& source, const std::string& name) {
    const DataType type = as_tensor(source.x)->dtype;
    if (const auto z = number(source.zero)) {
      const int64_t least = type.is_int() ? -128 : 0;
      return *z < least || *z > least + 255 ? Expr() : op::scalar(double(*z), type);
    }
    return emit(op::op_call("cast", {source.zero}, op::make_attrs<op::CastAttrs>(type)), name + "_zero");
  }

  /// Constant weights of 32 bits as the sum of at most two constants of bytes, which are of one type; empty
  /// where they do not fit. Weights that were bytes and have no zero point come back as they are.
  std::vector<NDArray> narrow_weights(const Expr& wide) const {
    Expr whole = wide;
    std::optional<NDArray> zero;
    if (const Call* c = definition_call(wide, "subtract")) {
      zero = constant_of(c->args[1]);
      whole = c->args[0];
      if (!zero) return {};
    }
    if (const Call* cast = definition_call(whole, "cast")) whole = cast->args[0];
    const auto* c = whole.as<Constant>();
    if (!c || c->data.size() == 0 || !(byte(c->data.dtype()) || c->data.dtype() == i32)) return {};
    const NDArray& w = c->data;
    // The zero points belong to one axis: neighbours along it are `stride` elements apart.
    int64_t stride = 1, points = 1;
    bool none = true;
    if (zero) {
      points = zero->size();
      const auto wide_axes = std::count_if(zero->shape().begin(), zero->shape().end(),
                                           [](int64_t extent) { return extent != 1; });
      if (zero->ndim() > w.ndim() || wide_axes > 1) return {};
      for (int64_t i = 1; i <= zero->ndim() && zero->shape()[size_t(zero->ndim() - i)] != points; ++i)
        stride *= w.shape()[size_t(w.ndim() - i)];
      for (int64_t i = 0; i < points; ++i) none = none && zero->element_int(i) == 0;
    }
    if (none && byte(w.dtype())) return {w};
    std::vector<int64_t> offset(static_cast<size_t>(points), 0);
    for (int64_t i = 0; zero && i < points; ++i) offset[size_t(i)] = zero->element_int(i);
    auto value = [&](int64_t i) { return w.element_int(i) - offset[size_t(i / stride % points)]; };
    int64_t low = 0, high = 0;
    for (int64_t i = 0, n = w.size(); i < n; ++i)
      low = std::min(low, value(i)), high = std::max(high, value(i));
    constexpr int64_t least = -128, most = 127;
    if (low < 2 * least || (high > 2 * most && !(low >= 0 && high <= 255))) return {};
    const bool whole_byte = low >= least && high <= most, positive = !whole_byte && low >= 0 && high <= 255;
    std::vector<NDArray> parts;
    for (int i = 0; i < (whole_byte || positive ? 1 : 2); ++i)
      parts.push_back(NDArray::empty(w.shape(), positive ? u8 : DataType::int_(8)));
    for (int64_t i = 0, n = w.size(); i < n; ++i) {
      int64_t rest = value(i);
      for (NDArray& part : parts) {
        const int64_t now = positive ? rest : std::clamp(rest, least, most);
        static_cast<uint8_t*>(part.data())[i] = uint8_t(now);
        rest -= now;
      }
    }
    return parts;
  }
  /// Whether the target multiplies such bytes, and the call's shapes and layouts suit it.
  bool fits(const Call& call, const op::Contraction& sum, DataType x, const NDArray& w) const {
    const auto form = dot_form(target_, x, w.dtype(), i32);
    if (!form) return false;
    if (sum.spatial == 0)
      return w.ndim() == 2 && as_tensor(call.args[0])->ndim >= 2 &&
             w.shape()[size_t(sum.weight_in)] % form->group == 0;
    const auto& a = op::attrs_of<op::ConvAttrs>(call);
    return w.ndim() >= 3 && a.data_layout.empty() && a.kernel_layout.empty() && a.out_layout.empty();
  }
  /// The sum of the weights of each output channel, in all parts, times `factor`, modulo 2³²:
  /// (1, channels, 1 …) of a convolution, (columns) of a product.
  static NDArray sums_of(const std::vector<NDArray>& parts, const op::Contraction& sum, int64_t factor) {
    const NDArray& w = parts[0];
    const int64_t channels = w.shape()[size_t(sum.weight_out)], count = w.size();
    std::vector<int64_t> shape{channels};
    if (sum.spatial > 0) {
      shape.assign(size_t(w.ndim()), 1);
      shape[1] = channels;
    }
    const int64_t stride = sum.weight_out == 0 ? count / channels : 1;
    std::vector<uint32_t> total(size_t(channels), 0);
    const bool is_signed = w.dtype().is_int();
    for (const NDArray& part : parts) {
      const auto* from = static_cast<const uint8_t*>(part.data());
      for (int64_t i = 0; i < count; ++i)
        total[size_t(i / stride % channels)] += is_signed ? uint32_t(int8_t(from[i])) : from[i];
    }
    NDArray out = NDArray::empty(shape, i32);
    auto* sums = static_cast<int32_t*>(out.data());
    for (int64_t i = 0; i < channels; ++i) sums[i] = int32_t(total[size_t(i)] * uint32_t(factor));
    return out;
  }

  Target target_;
};

}  // namespace
}  // namespace graph

static IRModule narrow_contraction(IRModule module, PassContext& context) {
  Target target = context.target.cast<TargetNode>();
  if (!target || !context.evaluate) return module;
  return graph::rewrite_functions<graph::NarrowContraction>(std::move(module), target);
}

const Pass& narrow_contraction_pass = register_pass({
    .name = "narrow_contraction",
    .run = narrow_contraction,
    .level = 2,
    .summary = "sums of products of quantised values multiply bytes",
    .needs = {"infer_types"},
});

}  // namespace tenon
