// SPDX-License-Identifier: Apache-2.0
// narrow_conv: convolutions of quantised values, which arrive as convolutions of integers of 32 bits, become
// convolutions of bytes where the target has an instruction that multiplies them (dot_intrin.h).
//
//   before   lv = R.subtract(R.cast(x, "int32"), z);  lv1 = R.nn.conv2d(lv, w, padding=1)     # w a constant
//   after    lv1 = R.nn.conv2d(x, w', z', padding=1);  lv2 = R.subtract(lv1, z · Σ w)
//
// w' are bytes, z' is the zero point as x has it: what the image is padded with, so that the padding is worth
// 0. A zero point that is no constant may stand too. Needs: types, constants folded, a target. Keeps: values.
#include <algorithm>
#include <cmath>

#include "op/body_rewriter.h"
#include "op/build.h"
#include "schedule/dot_intrin.h"
#include "target/target.h"

namespace tenon {
namespace graph {
namespace {

class NarrowConv : public BodyRewriter {
 public:
  explicit NarrowConv(Target target) : target_(std::move(target)) {}

 protected:
  Expr visit(const Expr& value, const VarRef& var) override {
    const Op* op = op_of(value);
    if (!op || !op::definition(*op).contraction) return value;
    const Call& call = *value.as<Call>();
    const auto sum = op::definition(*op).contraction(call);
    if (!sum || sum->spatial == 0 || sum->transposed) return value;
    const auto& a = op::attrs_of<op::ConvAttrs>(call);
    const auto* w = call.args[1].as<Constant>();
    if (call.args.size() != 2 || !w || w->data.dtype() != i32 || w->data.ndim() < 3 || w->data.size() == 0 ||
        !(a.data_layout.empty() && a.kernel_layout.empty() && a.out_layout.empty()))
      return value;
    const auto source = unshifted(call.args[0]);
    if (!source) return value;
    const DataType narrow = as_tensor(source->x)->dtype;
    int64_t low = 0, high = 0;
    const auto* from = static_cast<const int32_t*>(w->data.data());
    const int64_t count = w->data.size();
    for (int64_t i = 0; i < count; ++i)
      low = std::min<int64_t>(low, from[i]), high = std::max<int64_t>(high, from[i]);
    const DataType type = low >= -128 && high <= 127 ? DataType::int_(8) : u8;
    if ((type == u8 && (low < 0 || high > 255)) || !dot_form(target_, narrow, type, i32)) return value;
    Array<Expr> args{source->x, constant(bytes_of(*w, type))};
    const bool pads = std::any_of(a.padding.begin(), a.padding.end(), [](int64_t p) { return p != 0; });
    if (source->zero && pads) {
      if (const auto z = scalar_constant(source->zero)) {
        // Only what x can hold stands for 0.
        const double least = narrow.is_int() ? -128 : 0;
        if (*z < least || *z > least + 255) return value;
        args.push_back(op::scalar(*z, narrow));
      } else {
        args.push_back(
            emit(op::op_call("cast", {source->zero}, op::make_attrs<op::CastAttrs>(narrow), call.origin),
                 var->name + "_zero"));
      }
    }
    ObjectRef attrs = op::make_attrs<op::ConvAttrs>([&](op::ConvAttrs& to) {
      to = a;
      to.out_dtype = i32;
    });
    const Expr products = op::op_call(op->name, args, attrs, call.origin);
    if (!source->zero) return products;
    const Expr sums = constant(sums_of(*w));
    const auto z = scalar_constant(source->zero);
    const Expr worth =
        z ? constant(sums_of(*w, int64_t(*z)))
          : emit(op::op_call("multiply", {sums, source->zero}, {}, call.origin), var->name + "_worth");
    return op::op_call("subtract", {emit(products, var->name + "_products"), worth}, {}, call.origin);
  }

 private:
  /// x of bytes and the scalar that was taken off it, of 32 bits; null when there was none.
  struct Source {
    Expr x, zero;
  };
  static bool byte(const Expr& e) {
    const auto* t = as_tensor(e);
    return t && t->dtype.is_integer() && t->dtype.bits == 8 && t->dtype.lanes == 1;
  }
  std::optional<Source> unshifted(const Expr& data) const {
    Source s;
    Expr widened = data;
    if (const Call* c = definition_call(data, "subtract")) {
      s.zero = c->args[1];
      widened = c->args[0];
      if (!scalar_constant(s.zero) && !was_byte(s.zero, widened)) return std::nullopt;
      if (const auto z = scalar_constant(s.zero); z && std::abs(*z) > 1 << 20) return std::nullopt;
      if (const auto z = scalar_constant(s.zero); z && *z == 0) s.zero = {};
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
  static NDArray bytes_of(const Constant& w, DataType type) {
    NDArray out = NDArray::empty(w.data.shape(), type);
    const auto* from = static_cast<const int32_t*>(w.data.data());
    auto* to = static_cast<uint8_t*>(out.data());
    for (int64_t i = 0, n = w.data.size(); i < n; ++i) to[i] = uint8_t(from[i]);
    return out;
  }
  /// The sum of the weights of each output channel times `factor`, modulo 2³², as (1, channels, 1 …).
  static NDArray sums_of(const Constant& w, int64_t factor = 1) {
    const std::vector<int64_t>& shape = w.data.shape();
    std::vector<int64_t> to(shape.size(), 1);
    to[1] = shape[0];
    NDArray out = NDArray::empty(to, i32);
    const auto* from = static_cast<const int32_t*>(w.data.data());
    auto* sums = static_cast<int32_t*>(out.data());
    const int64_t each = w.data.size() / shape[0];
    for (int64_t o = 0; o < shape[0]; ++o) {
      uint32_t total = 0;
      for (int64_t i = 0; i < each; ++i) total += uint32_t(from[o * each + i]);
      sums[o] = int32_t(total * uint32_t(factor));
    }
    return out;
  }

  Target target_;
};

}  // namespace
}  // namespace graph

static IRModule narrow_conv(IRModule module, PassContext& context) {
  Target target = context.target.cast<TargetNode>();
  if (!target || !context.evaluate) return module;
  return graph::rewrite_functions<graph::NarrowConv>(std::move(module), target);
}

const Pass& narrow_conv_pass = register_pass({
    .name = "narrow_conv",
    .run = narrow_conv,
    .level = 2,
    .summary = "convolutions of quantised values become convolutions of bytes",
    .needs = {"infer_types"},
});

}  // namespace tenon
