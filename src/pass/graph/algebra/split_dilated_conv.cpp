// SPDX-License-Identifier: Apache-2.0
// split_dilated_conv: a convolution whose kernel elements mostly meet padding is a sum of products, of each
// element with the part of the data that it meets.
//
//   before   lv = R.nn.conv2d(x, w, padding=[12, 12, 12, 12], dilation=[12, 12])   # x (1, 960, 16, 16)
//   after    p = R.nn.conv2d(x, w[:, :, 1:2, 1:2])                                # a constant
//            q = R.nn.conv2d(x[:, :, 0:4, :], w[:, :, 0:1, 1:2])                   # results of rows 12 to 16
//            lv = p + R.nn.pad(q, 12 rows in front) + …                            # of 3 × 3 elements
//
// Where the padding holds a number (the zero point of quantised data), a channel's products with it are
// constants, which the parts are without and the sum gets in the end. Large steps between kernel elements on
// a small map (the pyramids of segmentation networks) leave a quarter of the products or less. A map of
// symbolic size may be smaller than a step, so that parts have no elements and what is around them is cut:
//
//   after    lv = p + R.nn.pad(q, 12 rows in front)[:, :, 0:h, :] + …             # x (1, 960, h, 16)
//
// For constant weights without infinities or NaN, which padding would make NaN of, where the model of the
// machine sees a gain. Needs: types, a target. Keeps: values up to the order of sums.
#include <cstring>

#include "analysis/cost/products.h"
#include "op/body_rewriter.h"
#include "op/build.h"
#include "pass/graph/algebra/conv_taps.h"

namespace tenon {
namespace graph {
namespace {

/// Parts of a convolution at most: code and weights of each stand by themselves.
constexpr int64_t kMostParts = 9;
/// Parts have to save this share of the time: of few rows each, they run at less of the machine's speed.
constexpr double kSaved = 0.1;
/// A map of symbolic size, for the model: that of a picture of 224 or 448 points after three or four
/// halvings.
constexpr int64_t kUsualMap = 28;

/// The results [first, last) along an axis that a kernel element has data for, where that begins, and the
/// place of the first result's element.
struct Reach {
  int64_t first = 0, last = 0, data = 0, place = 0;
  int64_t results() const { return last - first; }
};
Reach reach_of(int64_t size, int64_t results, int64_t stride, int64_t place) {
  Reach r{.place = place};
  r.first = std::clamp<int64_t>(place >= 0 ? 0 : (-place + stride - 1) / stride, 0, results);
  r.last = std::clamp<int64_t>(size > place ? (size - place - 1) / stride + 1 : 0, r.first, results);
  r.data = place + r.first * stride;
  return r;
}

/// A kernel element, by its place among all, and its reach along each axis.
struct Part {
  int64_t element = 0;
  std::vector<Reach> reach;
  int64_t results() const {
    int64_t n = 1;
    for (const Reach& r : reach) n *= r.results();
    return n;
  }
};

/// Every element of the kernel that meets data; `reach`: of the elements along each axis.
std::vector<Part> parts_of(const std::vector<std::vector<Reach>>& reach) {
  std::vector<Part> out{Part()};
  for (const std::vector<Reach>& axis : reach) {
    std::vector<Part> longer;
    for (const Part& p : out)
      for (size_t k = 0; k < axis.size(); ++k) {
        longer.push_back(p);
        longer.back().element = p.element * int64_t(axis.size()) + int64_t(k);
        longer.back().reach.push_back(axis[k]);
      }
    out = std::move(longer);
  }
  std::erase_if(out, [](const Part& p) { return p.results() == 0; });
  return out;
}

/// What one group of a convolution multiplies.
struct Sizes {
  DataType data, sum;
  int64_t inputs, outputs, elements, results;
};
double whole_cycles(const Sizes& s, const Target& target) {
  const double products = double(s.elements) * double(s.results) * double(s.inputs) * double(s.outputs);
  return products / cost::multiply_adds(s.data, target);
}
/// Each part reads a copy of its data; its results are stored, and padded, and added to the others.
double cycles(const std::vector<Part>& parts, const Sizes& s, const Target& target) {
  double products = 0, bytes = 0;
  for (const Part& p : parts) {
    const double n = double(p.results());
    products += n * double(s.inputs) * double(s.outputs);
    bytes += 2 * n * double(s.inputs) * s.data.bytes();
    bytes += 2 * (n + double(s.results)) * double(s.outputs) * s.sum.bytes();
  }
  return products / cost::multiply_adds(s.data, target) + bytes / cost::moved_bytes(target);
}

class SplitDilatedConv : public BodyRewriter {
 public:
  explicit SplitDilatedConv(Target target) : target_(std::move(target)) {}

 protected:
  Expr visit(const Expr& value, const VarRef& var) override {
    const auto conv = constant_conv(value);
    if (!conv) return value;
    const auto data = known_shape(conv->call->args[0]), result = known_shape(var->declared);
    const auto filled = padding_value(*conv->call);
    const auto& kernel = conv->weight.shape();
    const size_t n = conv->axes();
    if (!filled || !data || !result || data->size() != n + 2 || conv->weight.dtype().bits % 8 != 0)
      return value;
    std::vector<std::vector<Reach>> reach(n);
    int64_t elements = 1, results = 1;
    for (size_t i = 0; i < n; ++i) {
      const auto sizes = sizes_of((*data)[i + 2], (*result)[i + 2], conv->strides[i]);
      if (!sizes) return value;
      elements *= kernel[i + 2], results *= sizes->second;
      for (int64_t k = 0; k < kernel[i + 2]; ++k)
        reach[i].push_back(reach_of(sizes->first, sizes->second, conv->strides[i],
                                    k * conv->dilation[i] - conv->padding[i]));
    }
    if (elements == 1 || elements > kMostParts || results == 0) return value;
    const std::vector<Part> parts = parts_of(reach);
    const Sizes sizes{conv->weight.dtype(),
                      as_tensor(var->declared)->dtype,
                      kernel[1],
                      kernel[0] / conv->groups,
                      elements,
                      results};
    const bool gains = cycles(parts, sizes, target_) <= (1 - kSaved) * whole_cycles(sizes, target_);
    if (parts.empty() || !gains || !is_finite(conv->weight)) return value;
    return sum_of(*conv, parts, *filled, *result, sizes.sum, var);
  }

 private:
  /// Elements and results along an axis; symbolic ones are those of a usual map. Null: results of symbolic
  /// number that are not one for each element.
  static std::optional<std::pair<int64_t, int64_t>> sizes_of(const PrimExpr& data, const PrimExpr& result,
                                                             int64_t stride) {
    const auto n = tir::as_int(data), m = tir::as_int(result);
    if (n && m) return std::pair(*n, *m);
    if (stride != 1 || !structural_equal(data, result)) return std::nullopt;
    return std::pair(kUsualMap, kUsualMap);
  }
  Expr sum_of(const ConstantConv& conv, const std::vector<Part>& parts, double filled,
              const Array<PrimExpr>& result, DataType type, const VarRef& var) {
    Expr total;
    for (const Part& p : parts) {
      const NDArray element = element_of(conv.weight, p.element);
      Expr part = product(conv, p, element, result, var);
      // Less what padding would give: around the part are zeros then.
      if (filled != 0) part = emit_op("subtract", {part, of_padding(element, filled, type)});
      part = placed(part, p, result);
      total = total ? emit_op("add", {total, part}) : part;
    }
    return filled == 0 ? total : emit_op("add", {total, of_padding(conv.weight, filled, type)});
  }
  /// What the padding holds; null: only the run knows.
  static std::optional<double> padding_value(const Call& call) {
    if (call.args.size() < 3) return 0;
    const auto* value = call.args[2].as<Constant>();
    return value && value->data.size() == 1 ? std::optional(value->data.element(0)) : std::nullopt;
  }
  /// The weights of one kernel element.
  static NDArray element_of(const NDArray& weight, int64_t element) {
    std::vector<int64_t> shape = weight.shape();
    std::fill(shape.begin() + 2, shape.end(), 1);
    const NDArray out = NDArray::empty(shape, weight.dtype());
    const size_t bytes = size_t(weight.dtype().bytes()), step = size_t(weight.size() / out.size()) * bytes;
    const auto* from = static_cast<const char*>(weight.data()) + size_t(element) * bytes;
    auto* to = static_cast<char*>(out.data());
    for (int64_t i = 0; i < out.size(); ++i)
      std::memcpy(to + size_t(i) * bytes, from + size_t(i) * step, bytes);
    return out;
  }
  /// The sums of each channel's products with what the padding holds.
  static Expr of_padding(const NDArray& weight, double filled, DataType type) {
    std::vector<int64_t> shape(weight.shape().size() - 1, 1);
    shape[0] = weight.shape()[0];
    const NDArray out = NDArray::zeros(shape, type);
    const int64_t row = weight.size() / shape[0];
    for (int64_t channel = 0; channel < shape[0]; ++channel) {
      double sum = 0;
      for (int64_t i = 0; i < row; ++i) sum += weight.element(channel * row + i);
      out.set_element(channel, filled * sum);
    }
    return constant(out);
  }
  /// A kernel element times the data that it meets.
  Expr product(const ConstantConv& conv, const Part& p, const NDArray& element, const Array<PrimExpr>& shape,
               const VarRef& var) {
    Array<int64_t> axes, steps;
    Array<PrimExpr> begin, end;
    for (size_t i = 0; i < conv.axes(); ++i) {
      const Reach& r = p.reach[i];
      axes.push_back(int64_t(i) + 2), steps.push_back(conv.strides[i]);
      // Of a symbolic size, positions from the end, which are moved to the nearest end as they are.
      const bool known = tir::as_int(shape[i + 2]).has_value();
      begin.push_back(PrimExpr(known ? r.data : std::max<int64_t>(r.place, 0)));
      end.push_back(known         ? PrimExpr(r.data + (r.results() - 1) * conv.strides[i] + 1)
                    : r.place < 0 ? PrimExpr(r.place)
                                  : shape[i + 2]);
    }
    const Expr data =
        emit_op("strided_slice", {conv.call->args[0]},
                op::make_attrs<op::StridedSliceAttrs>(axes, begin, end, steps), var->name + "_part");
    Ref<op::ConvAttrs> next = conv.call->attrs.cast<op::ConvAttrs>();
    next.edit()->padding = next.edit()->strides = next.edit()->dilation = Array<int64_t>();
    return emit(op::op_call(conv.op->name, {data, constant(element)}, next, conv.call->origin),
                var->name + "_part");
  }
  /// Where these results belong, zeros around them.
  Expr placed(const Expr& x, const Part& p, const Array<PrimExpr>& result) {
    Array<int64_t> width{0, 0, 0, 0}, axes, steps;
    Array<PrimExpr> begin, end;
    bool whole = true;
    for (size_t i = 0; i < p.reach.size(); ++i) {
      const Reach& r = p.reach[i];
      const auto size = tir::as_int(result[i + 2]);
      width.push_back(size ? r.first : std::max<int64_t>(-r.place, 0));
      width.push_back(size ? *size - r.last : std::max<int64_t>(r.place, 0));
      whole = whole && width[2 * i + 4] == 0 && width[2 * i + 5] == 0;
      if (size || r.place == 0) continue;
      axes.push_back(int64_t(i) + 2), steps.push_back(1);
      begin.push_back(PrimExpr(0)), end.push_back(result[i + 2]);
    }
    if (whole) return x;
    const Expr out =
        emit_op("pad", {x}, op::make_attrs<op::PadAttrs>([&](op::PadAttrs& a) { a.pad_width = width; }));
    if (axes.empty()) return out;
    return emit_op("strided_slice", {out}, op::make_attrs<op::StridedSliceAttrs>(axes, begin, end, steps));
  }

  Target target_;
};

}  // namespace
}  // namespace graph

static IRModule split_dilated_conv(IRModule module, PassContext& context) {
  const Target target = context.target.cast<TargetNode>();
  if (!target) return module;
  return graph::rewrite_functions<graph::SplitDilatedConv>(std::move(module), target);
}

const Pass& split_dilated_conv_pass = register_pass({
    .name = "split_dilated_conv",
    .run = split_dilated_conv,
    .level = 2,
    .summary = "convolutions that mostly meet padding are sums of products of parts",
    .needs = {"infer_types"},
    .changes = Changes::sum_order,
});

}  // namespace tenon
