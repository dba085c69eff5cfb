// SPDX-License-Identifier: Apache-2.0
// drop_padding_taps: elements of a convolution's kernel that only ever meet padding are left out, with the
// padding that they need.
//
//   before   lv = R.nn.conv2d(x, w, padding=[24, 24, 24, 24], dilation=[24, 24])   # x (1, 960, 4, 4)
//   after    w1 = R.strided_slice(w, axes=[2, 3], begin=[1, 1], end=[2, 2])        # of 3 × 3; folded
//            lv = R.nn.conv2d(x, w1, padding=[0, 0, 0, 0], dilation=[24, 24])
//
// Dilated convolutions behind a small map are mostly such elements: their padding is many times the map.
// Where only the run knows the size of the map, it is asked, and a map that is small enough takes a
// convolution of its own:
//
//   after    if n <= 24: the convolution of the middle alone   else: the whole one
//
// For constant weights without infinities or NaN, which padding would make NaN of. Needs: types. Keeps:
// values.
#include "op/body_rewriter.h"
#include "op/build.h"
#include "pass/graph/algebra/conv_taps.h"

namespace tenon {
namespace graph {
namespace {

/// Kernel elements [first, last) of one axis, and the padding around the data for them.
struct Taps {
  int64_t first = 0, last = 0, before = 0, after = 0;
  bool operator==(const Taps&) const = default;
};
/// Those that meet data of `size` elements for one of the results; the padding must not become negative.
Taps taps_of(int64_t size, int64_t results, int64_t taps, int64_t stride, int64_t dilation, int64_t before,
             int64_t after) {
  auto meets = [&](int64_t k) {
    // The first result whose place of this element is not in front of the data.
    const int64_t place = k * dilation - before;
    const int64_t o = place >= 0 ? 0 : (-place + stride - 1) / stride;
    return o < results && place + o * stride < size;
  };
  int64_t first = 0, last = taps;
  while (first < taps && !meets(first)) ++first;
  while (last > first && !meets(last - 1)) --last;
  if (first == last) return {0, taps, before, after};
  first = std::min(first, before / dilation);
  last = std::max(last, taps - after / dilation);
  return {first, last, before - first * dilation, after - (taps - last) * dilation};
}

/// Up to `most` elements of a map along an axis, these kernel elements are all that meet data.
struct TapsOfSmallMaps {
  int64_t most = 0;
  Taps taps;
};
/// A second convolution for small maps is worth it from this size on: kernels that reach beyond smaller ones
/// only reach beyond no map that models have.
constexpr int64_t kWorthAsking = 8;

/// What a size of 1 needs, and up to which size that is enough; null when that is seldom, or all of them.
std::optional<TapsOfSmallMaps> taps_of_small_maps(int64_t taps, int64_t stride, int64_t dilation,
                                                  int64_t before, int64_t after) {
  const auto at = [&](int64_t size) {
    const int64_t results = (size + before + after - (taps - 1) * dilation - 1) / stride + 1;
    return taps_of(size, results, taps, stride, dilation, before, after);
  };
  if (before + after < (taps - 1) * dilation) return std::nullopt;  // a map of one element has no result
  TapsOfSmallMaps out{1, at(1)};
  while (out.most < taps * dilation && at(out.most + 1) == out.taps) ++out.most;
  if (out.taps.last - out.taps.first == taps || out.most < kWorthAsking) return std::nullopt;
  return out;
}

class DropPaddingTaps : public BodyRewriter {
 protected:
  Expr visit(const Expr& value, const VarRef& var) override {
    const auto conv = constant_conv(value);
    // Elements are 0 in the padding.
    if (!conv || !conv->weight.dtype().is_float() || conv->call->args.size() > 2) return value;
    const auto data = known_shape(conv->call->args[0]), result = known_shape(var->declared);
    const auto& kernel = conv->weight.shape();
    const size_t n = conv->axes();
    if (!data || !result || data->size() != n + 2) return value;
    const auto &strides = conv->strides, &dilation = conv->dilation, &padding = conv->padding;
    std::vector<Taps> taps, of_small;
    Expr small;
    bool fewer = false;
    for (size_t i = 0; i < n; ++i) {
      Taps t{0, kernel[i + 2], padding[i], padding[n + i]};
      const auto size = tir::as_int((*data)[i + 2]), results = tir::as_int((*result)[i + 2]);
      if (size && results && *size > 0 && *results > 0)
        t = taps_of(*size, *results, kernel[i + 2], strides[i], dilation[i], padding[i], padding[n + i]);
      fewer = fewer || t.last - t.first < kernel[i + 2];
      taps.push_back(t);
      of_small.push_back(t);
      if (size) continue;
      if (const auto f =
              taps_of_small_maps(kernel[i + 2], strides[i], dilation[i], padding[i], padding[n + i])) {
        small = both(small, at_most((*data)[i + 2], f->most));
        of_small.back() = f->taps;
      }
    }
    if ((!fewer && !small) || !is_finite(conv->weight)) return value;
    const auto plainly = [&] { return fewer ? with_taps(*conv->call, *conv->op, taps, var) : value; };
    if (!small) return plainly();
    const Expr yes = branch(with_taps(*conv->call, *conv->op, of_small, var), var),
               no = branch(plainly(), var);
    return with_type(make<If>(small, yes, no), var->declared);
  }

 private:
  /// Is a size at most that many? A scalar that the run computes.
  Expr at_most(const PrimExpr& size, int64_t most) {
    const Expr sizes = emit_op("shape_to_tensor", {shape_expr(Array<PrimExpr>{size})});
    const Expr one = emit_op("reshape", {sizes, op::shape({})});
    return emit_op("less_equal", {one, op::scalar(double(most), i64)});
  }
  Expr both(const Expr& a, const Expr& b) { return a ? emit_op("logical_and", {a, b}) : b; }
  /// A body that gives a convolution.
  static Expr branch(const Expr& convolution, const VarRef& var) {
    const VarRef v = graph::var(var->name, var->declared);
    return make_body({make<VarBindingNode>(v, convolution)}, v);
  }

  Expr with_taps(const Call& call, const Op& op, const std::vector<Taps>& taps, const VarRef& var) {
    Array<int64_t> axes, steps, padding;
    Array<PrimExpr> begin, end;
    for (size_t i = 0; i < taps.size(); ++i) {
      axes.push_back(int64_t(i) + 2);
      steps.push_back(1);
      begin.push_back(PrimExpr(taps[i].first));
      end.push_back(PrimExpr(taps[i].last));
      padding.push_back(taps[i].before);
    }
    for (const Taps& t : taps) padding.push_back(t.after);
    const Expr fewer =
        emit(op::op_call("strided_slice", {call.args[1]},
                         op::make_attrs<op::StridedSliceAttrs>(axes, begin, end, steps), call.origin),
             var->name + "_taps");
    Ref<op::ConvAttrs> next = call.attrs.cast<op::ConvAttrs>();
    next.edit()->padding = padding;
    return op::op_call(op.name, {call.args[0], fewer}, next, call.origin);
  }
};

}  // namespace
}  // namespace graph

const Pass& drop_padding_taps_pass = register_pass({
    .name = "drop_padding_taps",
    .run = graph::each_function<graph::DropPaddingTaps>,
    .level = 2,
    .summary = "kernel elements of convolutions that only meet padding are left out",
    .needs = {"infer_types"},
});

}  // namespace tenon
