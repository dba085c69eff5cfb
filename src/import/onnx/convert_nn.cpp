// SPDX-License-Identifier: Apache-2.0
// Converters: convolutions, pooling, normalisation, products, resizing.
#include <algorithm>
#include <cmath>

#include "analysis/analyzer.h"
#include "import/onnx/values.h"
#include "op/attrs_place.h"
#include "op/attrs_qnn.h"
#include "op/qnn.h"

namespace tenon::onnx {
namespace {

using namespace op;
using N = NodeContext;
using R = RegisterConverter;
using Ints = std::vector<int64_t>;

Array<int64_t> list(const Ints& v) { return Array<int64_t>(v); }

// ---------------------------------------------------------------- windows
/// Strides, dilations and padding of a sliding window over the spatial axes of input 0.
struct Window {
  Ints kernel, strides, dilations, pads;  // pads: begins, then ends
  struct Same {
    size_t axis;            // of input 0
    PrimExpr before, size;  // of the padded data
  };
  std::vector<Same> same;  // axes of symbolic sizes that are padded in front of the operator
};

/// SAME padding of an axis where its size, or the reach of the window, is symbolic: windows that begin at
/// every stride inside of it.
Window::Same same_padding(size_t axis, const PrimExpr& have, int64_t stride, const PrimExpr& reach,
                          bool upper) {
  const PrimExpr last =
      (tir::floordiv(have + PrimExpr(stride - 1), PrimExpr(stride)) - PrimExpr(1)) * PrimExpr(stride);
  PrimExpr size = simplify(last + reach);
  if (tir::as_int(reach).value_or(1) < stride) size = tir::max(size, have);
  const PrimExpr total = size - have;
  return {axis, simplify(tir::floordiv(total + PrimExpr(upper ? 0 : 1), PrimExpr(2))), size};
}

/// x with `value` around the axes whose padding depends on their size.
Expr with_same_padding(N& n, Expr x, const Window& w, double value) {
  for (const Window::Same& s : w.same) {
    const PrimExpr have = n.shape_of(x)[s.axis];
    const Index at = iota(n, s.size) - index_of(n, {s.before})[0];
    x = pick_or(n, x, at, index_of(n, {have})[0], int64_t(s.axis),
                n.scalar(value, graph::as_tensor(x)->dtype), false);
  }
  return x;
}

Ints per_axis(N& n, const char* name, size_t spatial, int64_t otherwise, int64_t least) {
  Ints v = n.attr_ints(name);
  if (v.empty()) v.assign(spatial, otherwise);
  if (v.size() != spatial)
    n.malformed(
        fmt::format("'{}' of {} needs {} values, {} are given", name, n.op_type(), spatial, v.size()));
  for (int64_t x : v)
    if (x < least || x > (int64_t(1) << 31))
      n.malformed(fmt::format("'{}' of {} has the impossible value {}", name, n.op_type(), x));
  return v;
}

size_t spatial_axes(N& n) {
  const int64_t r = n.rank(0);
  if (r < 3)
    n.malformed(fmt::format("{} of a tensor of {} dimensions, where batch, channels and others are needed",
                            n.op_type(), r));
  if (r > 5) n.unsupported(fmt::format("{} of a tensor of rank {} is not supported", n.op_type(), r));
  return size_t(r - 2);
}

/// `weight`: the input by whose shape the window goes, where an extent is 0; none for 0.
Window window(N& n, Ints kernel, bool dilated, size_t weight = 0) {
  const size_t spatial = spatial_axes(n);
  Window w;
  w.kernel = std::move(kernel);
  if (w.kernel.size() != spatial)
    n.malformed(fmt::format("'kernel_shape' of {} needs {} values, {} are given", n.op_type(), spatial,
                            w.kernel.size()));
  for (int64_t k : w.kernel)
    if (k < 0 || k > (int64_t(1) << 31))
      n.malformed(fmt::format("'kernel_shape' of {} has the impossible value {}", n.op_type(), k));
  w.strides = per_axis(n, "strides", spatial, 1, 1);
  w.dilations = dilated ? per_axis(n, "dilations", spatial, 1, 1) : Ints(spatial, 1);
  const std::string mode = n.attr_string("auto_pad", "NOTSET");
  w.pads.assign(2 * spatial, 0);
  if (mode == "NOTSET" || mode.empty()) {
    w.pads = per_axis(n, "pads", 2 * spatial, 0, 0);
  } else if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
    auto shape = n.shape(0);
    for (size_t i = 0; i < spatial; ++i) {
      if (w.kernel[i] == 0 && weight == 0)
        n.malformed(fmt::format("'kernel_shape' of {} has the value 0", n.op_type()));
      const PrimExpr extent = w.kernel[i] ? PrimExpr(w.kernel[i]) : n.known_shape(weight)[i + 2];
      const PrimExpr window_reach = simplify((extent - PrimExpr(1)) * PrimExpr(w.dilations[i]) + PrimExpr(1));
      const auto reach = tir::as_int(window_reach);
      int64_t total = std::max<int64_t>(0, reach.value_or(1) - 1);
      if (w.strides[i] != 1 || !reach) {
        if (!shape) n.not_known(fmt::format("{} with auto_pad={} needs a known shape", n.op_type(), mode));
        const auto in = tir::as_int((*shape)[i + 2]);
        if (!in || !reach) {
          w.same.push_back(
              same_padding(i + 2, (*shape)[i + 2], w.strides[i], window_reach, mode == "SAME_UPPER"));
          continue;
        }
        const int64_t out = (*in + w.strides[i] - 1) / w.strides[i];
        total = std::max<int64_t>(0, (out - 1) * w.strides[i] + *reach - *in);
      }
      const int64_t small = total / 2, large = total - small;
      w.pads[i] = mode == "SAME_UPPER" ? small : large;
      w.pads[i + spatial] = mode == "SAME_UPPER" ? large : small;
    }
  } else if (mode != "VALID") {
    n.malformed(fmt::format("auto_pad={} of {} is not known", in_quotes(mode), n.op_type()));
  }
  return w;
}

/// Extents of the weight's spatial axes, checked against kernel_shape; 0: known only when the model runs.
Ints kernel_of(N& n, size_t input) {
  const size_t spatial = spatial_axes(n);
  if (n.rank(input) != int64_t(spatial) + 2)
    n.malformed(fmt::format("the weight of {} has rank {}, the data has {}", n.op_type(), n.rank(input),
                            spatial + 2));
  auto shape = n.shape(input);
  Ints given = n.attr_ints("kernel_shape"), kernel;
  for (size_t i = 0; i < spatial; ++i) {
    const auto v = shape ? tir::as_int((*shape)[i + 2]) : std::nullopt;
    if (!v && i < given.size() && shape) n.require_equal((*shape)[i + 2], PrimExpr(given[i]));
    kernel.push_back(v ? *v : i < given.size() ? given[i] : 0);
    if (v && *v < 1) n.malformed(fmt::format("the weight of {} has no elements", n.op_type()));
  }
  if (!given.empty() && given != kernel)
    n.malformed(fmt::format("'kernel_shape' of {} does not agree with the weight", n.op_type()));
  return kernel;
}

Expr with_bias(N& n, Expr y, size_t i) {
  return n.has(i) ? n.op("nn.bias_add", {y, n.in(i)}, make_attrs<AxisAttrs>(int64_t(1))) : y;
}

Values conv(N& n) {
  Window w = window(n, kernel_of(n, 1), true, 1);
  auto a = make<ConvAttrs>();
  a.edit()->strides = list(w.strides), a.edit()->padding = list(w.pads),
  a.edit()->dilation = list(w.dilations);
  a.edit()->groups = n.attr_int("group", 1);
  if (a->groups < 1) n.malformed(fmt::format("Conv has {} groups", a->groups));
  const Expr x = with_same_padding(n, n.in(0), w, 0);
  Expr y = n.op(fmt::format("nn.conv{}d", w.kernel.size()), {x, n.in(1)}, a);
  return {with_bias(n, y, 2)};
}
const R c1("Conv", {1, 11, 22}, conv, "1-D to 3-D");

Values conv_transpose(N& n) {
  const Ints kernel = kernel_of(n, 1);
  if (std::ranges::count(kernel, 0) > 0) n.unsupported("ConvTranspose needs a weight of known shape");
  const size_t spatial = kernel.size();
  const Ints strides = per_axis(n, "strides", spatial, 1, 1),
             dilations = per_axis(n, "dilations", spatial, 1, 1);
  Ints extra = per_axis(n, "output_padding", spatial, 0, 0), pads(2 * spatial, 0),
       want = n.attr_ints("output_shape");
  const std::string mode = n.attr_string("auto_pad", "NOTSET");
  const bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
  if (!same && mode != "NOTSET" && mode != "VALID" && !mode.empty())
    n.malformed(fmt::format("auto_pad={} of ConvTranspose is not known", in_quotes(mode)));
  if (want.size() == spatial + 2) want.erase(want.begin(), want.begin() + 2);
  if (!want.empty() && want.size() != spatial)
    n.malformed("'output_shape' of ConvTranspose has the wrong length");
  if (want.empty() && !same) {
    if (mode != "VALID") pads = per_axis(n, "pads", 2 * spatial, 0, 0);
  } else {
    auto shape = n.shape(0);
    for (size_t i = 0; i < spatial; ++i) {
      // total = stride (in - 1) + extra + reach - out; with out = in stride the size itself drops out.
      const int64_t reach = (kernel[i] - 1) * dilations[i] + 1;
      int64_t total = reach + extra[i] - strides[i];
      if (!want.empty()) {
        const auto in = shape ? tir::as_int((*shape)[i + 2]) : std::nullopt;
        if (!in) n.unsupported("ConvTranspose with 'output_shape' needs a known spatial size");
        if (want[i] < 1 || want[i] > (int64_t(1) << 40))
          n.malformed(fmt::format("ConvTranspose has the output size {}", want[i]));
        total = strides[i] * (*in - 1) + extra[i] + reach - want[i];
      }
      if (total < 0) extra[i] -= total, total = 0;
      const int64_t small = total / 2, large = total - small;
      pads[i] = mode == "SAME_UPPER" ? small : large;
      pads[i + spatial] = mode == "SAME_UPPER" ? large : small;
    }
  }
  auto a = make<ConvTransposeAttrs>();
  a.edit()->strides = list(strides), a.edit()->padding = list(pads), a.edit()->dilation = list(dilations);
  a.edit()->output_padding = list(extra), a.edit()->groups = n.attr_int("group", 1);
  if (a->groups < 1) n.malformed(fmt::format("ConvTranspose has {} groups", a->groups));
  Expr y = n.op(fmt::format("nn.conv{}d_transpose", spatial), {n.in(0), n.in(1)}, a);
  return {with_bias(n, y, 2)};
}
const R c2("ConvTranspose", {1, 11, 22}, conv_transpose, "1-D to 3-D");

// ---------------------------------------------------------------- pooling
Expr beside_size(N& n, const char* op, const Expr& e, const PrimExpr& size) {
  return n.op(op, {e, n.reshape(n.op("shape_to_tensor", {graph::shape_expr({simplify(size)})}), {})});
}
/// Positions in the padded data as positions in the data: one in the padding, where all elements of a window
/// are the least there is, becomes that of the element next to it.
Expr without_padding(N& n, const Expr& at, const Array<PrimExpr>& padded, const Array<PrimExpr>& shape,
                     const Window& w) {
  Expr rest = at, out = n.scalar(0, i64);
  PrimExpr step = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    Expr place = beside_size(n, "floor_mod", rest, padded[i]);
    rest = beside_size(n, "floor_divide", rest, padded[i]);
    for (const Window::Same& s : w.same)
      if (s.axis == i) {
        place = n.op("maximum", {beside_size(n, "subtract", place, s.before), n.scalar(0, i64)});
        place = beside_size(n, "minimum", place, shape[i] - PrimExpr(1));
      }
    out = n.op("add", {out, beside_size(n, "multiply", place, step)});
    step = step * shape[i];
  }
  return out;
}
double lowest(DataType t) { return t.is_float() ? -INFINITY : t.is_int() ? -std::ldexp(1.0, t.bits - 1) : 0; }
/// Positions count through the whole tensor; storage_order 1 wants them column by column.
Values pool_with_indices(N& n, const ObjectRef& a, const Window& w) {
  const DataType t = n.dtype(0);
  Expr x = n.in(0);
  // Padding is less than what bytes can be.
  if (!w.same.empty() && !t.is_float())
    x = with_same_padding(n, n.cast(x, i32), w, lowest(i32));
  else
    x = with_same_padding(n, x, w, lowest(t));
  const Expr r = n.op("nn.max_pool_with_indices", {x}, a);
  const auto s = n.known_shape(0);
  Expr at = n.item(r, 1);
  if (!w.same.empty()) at = without_padding(n, at, n.shape_of(x), s, w);
  if (n.attr_int("storage_order", 0) != 0) {
    std::vector<PrimExpr> columns{1};  // the step of each axis, then the plane: products, as sizes may be 0
    for (size_t i = 2; i < s.size(); ++i) columns.push_back(columns.back() * s[i]);
    Expr rest = beside_size(n, "floor_mod", at, columns.back());
    at = n.op("subtract", {at, rest});
    for (size_t i = s.size(); i-- > 2;) {  // the last axis has the largest step
      at = n.op("add",
                {at, beside_size(n, "multiply", beside_size(n, "floor_mod", rest, s[i]), columns[i - 2])});
      rest = beside_size(n, "floor_divide", rest, s[i]);
    }
  }
  return {n.cast(n.item(r, 0), t), at};
}
Values pool(N& n) {
  const std::string kind = n.op_type();
  Window w = window(n, n.need_ints("kernel_shape"), true);
  if (std::ranges::count(w.kernel, 0) > 0)
    n.malformed(fmt::format("'kernel_shape' of {} has the value 0", kind));
  const std::string mode = n.attr_string("auto_pad", "NOTSET");
  auto a = make<PoolAttrs>();
  a.edit()->pool_size = list(w.kernel), a.edit()->strides = list(w.strides), a.edit()->padding = list(w.pads),
  a.edit()->dilation = list(w.dilations);
  a.edit()->ceil_mode = n.attr_int("ceil_mode", 0) != 0 && (mode == "NOTSET" || mode.empty());
  a.edit()->count_include_pad = n.attr_int("count_include_pad", 0) != 0;
  if (kind == "LpPool") a.edit()->p = double(n.attr_int("p", 2));
  for (size_t i = 0; i < w.kernel.size(); ++i) {
    const int64_t reach = (w.kernel[i] - 1) * w.dilations[i] + 1;
    if (w.pads[i] >= reach || w.pads[i + w.kernel.size()] >= reach)
      n.malformed(
          fmt::format("{} pads by {} where its window reaches {}: whole windows would lie in the padding",
                      kind, std::max(w.pads[i], w.pads[i + w.kernel.size()]), reach));
  }
  const char* name = kind == "MaxPool" ? "max" : kind == "AveragePool" ? "avg" : "lp";
  if (n.wants_output(1)) return pool_with_indices(n, a, w);
  const std::string op = fmt::format("nn.{}_pool{}d", name, w.kernel.size());
  if (w.same.empty()) return {n.op(op, {n.in(0)}, a)};
  const Expr y = n.op(op, {with_same_padding(n, n.in(0), w, kind == "MaxPool" ? lowest(n.dtype(0)) : 0)}, a);
  if (kind != "AveragePool" || a->count_include_pad) return {y};
  // The padding counts in y: its share of each window is taken out.
  Array<PrimExpr> plane = n.known_shape(0);
  plane.set(0, 1), plane.set(1, 1);
  const Expr share = n.op(op, {with_same_padding(n, n.full(plane, 1, n.dtype(0)), w, 0)}, a);
  return {n.op("divide", {y, share})};
}
Values global_pool(N& n) {
  const std::string& kind = n.op_type();
  if (kind == "GlobalLpPool") {
    auto a = make<PoolAttrs>();
    a.edit()->p = double(n.attr_int("p", 2));
    return {n.op("nn.global_lp_pool", {n.in(0)}, a)};
  }
  return {n.op(kind == "GlobalMaxPool" ? "nn.global_max_pool" : "nn.global_avg_pool", {n.in(0)})};
}
const R p1("MaxPool", {1, 8, 10, 11, 12, 22}, pool), p2("AveragePool", {1, 7, 10, 11, 19, 22}, pool),
    p3("LpPool", {1, 2, 11, 18, 22}, pool), p4("GlobalAveragePool", {1, 22}, global_pool),
    p5("GlobalMaxPool", {1, 22}, global_pool), p6("GlobalLpPool", {1, 2, 22}, global_pool);

// ---------------------------------------------------------------- normalisation
Values batch_norm(N& n) {
  if (n.since >= 14 && n.attr_int("training_mode", 0) != 0) {
    auto a = make<BatchNormTrainAttrs>();
    a.edit()->epsilon = n.attr_float("epsilon", 1e-5), a.edit()->momentum = n.attr_float("momentum", 0.9);
    const Expr r = n.op("nn.batch_norm_train", {n.in(0), n.in(1), n.in(2), n.in(3), n.in(4)}, a);
    return {n.item(r, 0), n.item(r, 1), n.item(r, 2)};
  }
  if (n.opset < 7 && n.attr_int("is_test", 0) == 0)
    n.unsupported("BatchNormalization in training mode is not supported",
                  "export the model in inference mode (model.eval())");
  if (n.since < 9 && n.attr_int("spatial", 1) == 0)
    n.unsupported("BatchNormalization with spatial=0 is not supported");
  for (size_t i = 1; i < size_t(n.node.output_size()); ++i)
    if (n.wants_output(i))
      n.unsupported("BatchNormalization with outputs of training is not supported",
                    "export the model in inference mode (model.eval())");
  Expr x = n.in(0);
  const DataType t = n.dtype(0);
  auto a = make<BatchNormAttrs>();
  a.edit()->epsilon = n.attr_float("epsilon", 1e-5);
  // Statistics may be wider than the data.
  const DataType wide = n.dtype(3);
  Array<Expr> args{n.cast(x, wide)};
  for (size_t i = 1; i < 5; ++i) args.push_back(n.cast(n.in(i), wide));
  Expr y = n.op("nn.batch_norm", args, a);
  if (y->type.is<graph::TupleType>()) y = n.item(y, 0);
  return {n.cast(y, t)};
}
Values instance_norm(N& n) {
  auto a = make<BatchNormAttrs>();
  a.edit()->epsilon = n.attr_float("epsilon", 1e-5);
  return {n.op("nn.instance_norm", {n.in(0), n.in(1), n.in(2)}, a)};
}
Values group_norm(N& n) {
  const int64_t groups = n.need_int("num_groups");
  auto a = make<GroupNormAttrs>();
  a.edit()->epsilon = n.attr_float("epsilon", 1e-5), a.edit()->num_groups = groups;
  Expr gamma = n.in(1), beta = n.in(2);
  auto s = n.known_shape(0);
  const auto channels = s.size() > 1 ? tir::as_int(s[1]) : std::nullopt;
  if (groups < 1 || (channels && *channels % groups != 0))
    n.malformed(fmt::format("GroupNormalization cannot split the channels into {} groups", groups));
  if (n.since < 21) {
    // The first version scales per group: every channel of a group takes its value.
    if (!channels) n.unsupported("GroupNormalization of an unknown number of channels is not supported");
    auto spread = [&](const Expr& v) {
      return n.op("repeat", {v}, make_attrs<RepeatAttrs>(*channels / groups, int64_t(0)));
    };
    gamma = spread(gamma), beta = spread(beta);
  }
  return {n.op("nn.group_norm", {n.in(0), gamma, beta}, a)};
}
Values layer_norm(N& n) {
  const bool rms = n.op_type() == "RMSNormalization";
  const int64_t r = n.rank(0), axis = n.axis(n.attr_int("axis", -1), r);
  Expr x = n.in(0);
  // Mean and deviation are floats, or bfloat16 where the attribute says so, whatever x is.
  const DataType stash = element_type(int(n.attr_int("stash_type", 1))) == DataType::bfloat16()
                             ? DataType::bfloat16()
                             : f32,
                 wide = n.dtype(0) == f64 ? f64 : f32;
  auto a = make<LayerNormAttrs>();
  for (int64_t i = axis; i < r; ++i) a.edit()->axes.push_back(i);
  a.edit()->epsilon = n.attr_float("epsilon", 1e-5);
  // A scale of another shape than the normalised axes is multiplied afterwards.
  auto fits = [&](size_t i) {
    const auto s = n.shape(i), d = n.shape(0);
    if (!s || !d || int64_t(s->size()) != r - axis) return false;
    for (size_t k = 0; k < s->size(); ++k) {
      const auto p = tir::as_int((*s)[k]), q = tir::as_int((*d)[size_t(axis) + k]);
      if (!(p && q && *p == *q) && !(*s)[k].same_as((*d)[size_t(axis) + k])) return false;
    }
    return true;
  };
  const bool inside = (!n.has(1) || fits(1)) && (rms || !n.has(2) || fits(2)) && (n.has(1) || !n.has(2));
  a.edit()->scale = inside && n.has(1);
  a.edit()->center = !rms && inside && n.has(2);
  Array<Expr> args{x};
  if (a->scale) args.push_back(n.in(1));
  if (a->center) args.push_back(n.in(2));
  Expr y = n.op(rms ? "nn.rms_norm" : "nn.layer_norm", args, a);
  if (!inside) {
    if (n.has(1)) y = n.onto("multiply", y, n.in(1));
    if (!rms && n.has(2)) y = n.onto("add", y, n.in(2));
  }
  Values out{y};
  if (!rms && (n.wants_output(1) || n.wants_output(2))) {
    Expr w = n.cast(x, wide);
    auto axes = make_attrs<ReduceAttrs>(a->axes, true);
    out.push_back(n.cast(n.op("mean", {w}, axes), stash));
    const Expr variance = n.op("add", {n.op("variance", {w}, axes), n.scalar(a->epsilon, wide)});
    out.push_back(n.cast(n.op("rsqrt", {variance}), stash));
  }
  return out;
}
Values lrn(N& n) {
  auto a = make<LrnAttrs>();
  a.edit()->size = n.need_int("size"), a.edit()->alpha = n.attr_float("alpha", 1e-4),
  a.edit()->beta = n.attr_float("beta", 0.75), a.edit()->bias = n.attr_float("bias", 1);
  if (a->size < 1 || a->size > (int64_t(1) << 31)) n.malformed(fmt::format("LRN has the size {}", a->size));
  return {n.op("nn.lrn", {n.in(0)}, a)};
}
Values lp_norm(N& n) {
  const int64_t p = n.attr_int("p", 2);
  if (p != 1 && p != 2) n.malformed("'p' of LpNormalization must be 1 or 2");
  Array<int64_t> axis{n.axis(n.attr_int("axis", -1), n.rank(0))};
  Expr norm = n.op(p == 1 ? "l1_norm" : "l2_norm", {n.in(0)}, make_attrs<ReduceAttrs>(axis, true));
  Expr zero = n.scalar(0, n.dtype(0)), y = n.op("divide", {n.in(0), norm});
  return {n.op("where", {n.op("equal", {norm, zero}), zero, y})};
}
Values mvn(N& n) {
  Ints axes = n.attr_ints("axes");
  if (!n.has_attr("axes")) axes = {0, 2, 3};
  auto a = make_attrs<ReduceAttrs>(list(axes), true);
  Expr x = n.in(0), centred = n.op("subtract", {x, n.op("mean", {x}, a)});
  Expr deviation = n.op("sqrt", {n.op("mean", {n.op("square", {centred})}, a)});
  return {n.op("divide", {centred, n.op("add", {deviation, n.scalar(1e-9, n.dtype(0))})})};
}
const R m1("BatchNormalization", {1, 6, 7, 9, 14, 15}, batch_norm,
           {.operations = 2, .note = "inference", .as_in_six = true}),
    m2("InstanceNormalization", {1, 6, 22}, instance_norm, {.operations = 8, .as_in_six = true}),
    m3("GroupNormalization", {18, 21}, group_norm),
    m4("LayerNormalization", {1, 17}, layer_norm, {.operations = 8}),
    m5("RMSNormalization", {23}, layer_norm), m6("LRN", {1, 13}, lrn, {.operations = 8}),
    m7("LpNormalization", {1, 22}, lp_norm), m8("MeanVarianceNormalization", {9, 13}, mvn);

Values softmax(N& n) {
  const char* name = n.op_type() == "Softmax" ? "nn.softmax" : "nn.log_softmax";
  const int64_t r = n.rank(0);
  if (r == 0) n.malformed(fmt::format("{} of a scalar", n.op_type()));
  const int64_t axis = n.axis(n.attr_int("axis", n.since < 13 ? 1 : -1), r);
  auto last = make_attrs<AxisAttrs>(axis);
  if (n.since >= 13 || axis == r - 1) return {n.op(name, {n.in(0)}, last)};
  // Up to version 12 all axes from `axis` on are one.
  auto s = n.known_shape(0);
  PrimExpr a = 1, b = 1;
  for (int64_t i = 0; i < r; ++i) (i < axis ? a : b) = (i < axis ? a : b) * s[size_t(i)];
  Expr y = n.op(name, {n.reshape(n.in(0), {simplify(a), simplify(b)})}, make_attrs<AxisAttrs>(int64_t(1)));
  return {n.reshape(y, s)};
}
Values hardmax(N& n) {
  const int64_t r = n.rank(0), axis = n.axis(n.attr_int("axis", n.since < 13 ? 1 : -1), r);
  auto s = n.known_shape(0);
  Expr x = n.in(0);
  PrimExpr a = 1, b = 1;
  const bool flat = n.since < 13 && axis != r - 1;
  for (int64_t i = 0; i < r; ++i) (i < axis ? a : b) = (i < axis ? a : b) * s[size_t(i)];
  if (flat) x = n.reshape(x, {simplify(a), simplify(b)});
  const PrimExpr extent = flat ? simplify(b) : s[size_t(axis)];
  const int64_t at = flat ? 1 : axis;
  auto args = make<ArgReduceAttrs>();
  args.edit()->axis = at, args.edit()->keepdims = true;
  auto prim = [](const PrimExpr& e) { return Expr(make<graph::PrimValue>(e)); };
  Array<PrimExpr> line;
  line.resize(size_t(flat ? 2 : r), PrimExpr(1));
  line.set(size_t(at), extent);
  const Expr positions =
      n.reshape(n.op("arange", {prim(0), prim(extent), prim(1)}, make_attrs<DTypeAttrs>(i64)), line);
  // There is no largest of nothing, and nothing that it would be compared with: behind the elements lies one
  // that is never found, for the first of equals is.
  if (tir::as_int(extent).value_or(0) < 1) {
    std::vector<int64_t> widths(2 * line.size(), 0);
    widths[size_t(2 * at + 1)] = 1;
    x = n.op("pad", {x}, make_attrs<PadAttrs>(list(widths), std::string("constant"), lowest(n.dtype(0))));
  }
  const Expr y = n.cast(n.op("equal", {positions, n.op("argmax", {x}, args)}), n.dtype(0));
  return {flat ? n.reshape(y, s) : y};
}
const R s1("Softmax", {1, 11, 13}, softmax, {.operations = 5}),
    s2("LogSoftmax", {1, 11, 13}, softmax, {.operations = 6}), s3("Hardmax", {1, 11, 13}, hardmax);

// ---------------------------------------------------------------- products
Values gemm(N& n) {
  Expr a = n.in(0), b = n.in(1);
  const DataType t = n.dtype(0);
  if (n.rank(0) != 2 || n.rank(1) != 2)
    n.malformed(fmt::format("Gemm takes matrices, not tensors of rank {} and {}", n.rank(0), n.rank(1)));
  if (n.attr_int("transA", 0) != 0) a = n.transpose(a, {1, 0});
  const double alpha = n.attr_float("alpha", 1), beta = n.attr_float("beta", 1);
  Expr y = n.attr_int("transB", 0) != 0 ? n.op("nn.dense", {a, b}) : n.op("matmul", {a, b});
  // Integers are scaled as real numbers.
  const DataType scaled = t.is_float() || (alpha == 1 && beta == 1) ? t : f64;
  y = n.cast(y, scaled);
  if (alpha != 1) y = n.op("multiply", {y, n.scalar(alpha, scaled)});
  if (n.has(2) && beta != 0) {
    Expr c = n.cast(n.in(2), scaled);
    if (beta != 1) c = n.op("multiply", {c, n.scalar(beta, scaled)});
    n.align(y, c, true);
    y = n.op("add", {y, c});
  }
  return {n.cast(y, t)};
}
Values matmul(N& n) {
  Expr a = n.in(0), b = n.in(1);
  n.align(a, b, false, 2);
  return {n.op("matmul", {a, b})};
}
/// The operands of an einsum with sizes by which axes of one label broadcast: what is symbolic is found to be
/// equal or 1 when it runs. Axes under "..." stay as they are.
void broadcast_labels(N& n, const std::string& equation, Array<Expr>& operands) {
  if (equation.find('.') != std::string::npos) return;
  std::vector<std::vector<PrimExpr>> shapes;
  for (const Expr& e : operands) {
    const auto s = graph::known_shape(e);
    shapes.push_back(s ? std::vector<PrimExpr>(s->begin(), s->end()) : std::vector<PrimExpr>());
  }
  std::map<char, PrimExpr*> sizes;  // of each label, where it is not 1
  size_t at = 0;
  for (size_t i = 0; i < operands.size(); ++i, ++at) {
    for (size_t d = 0; at < equation.size() && std::isalpha(static_cast<unsigned char>(equation[at]));
         ++at, ++d) {
      if (d >= shapes[i].size()) continue;
      PrimExpr& size = shapes[i][d];
      PrimExpr*& known = sizes.emplace(equation[at], &size).first->second;
      if (known == &size) continue;
      if (const auto both = n.broadcast_sizes(*known, size, false)) *known = both->first, size = both->second;
      if (tir::is_one(*known)) known = &size;
    }
  }
  for (size_t i = 0; i < operands.size(); ++i)
    if (graph::known_shape(operands[i])) operands.set(i, n.checked(operands[i], Shape(shapes[i])));
}
Values einsum(N& n) {
  std::string equation = n.attr_string("equation", "");
  if (equation.empty()) n.malformed("Einsum needs the attribute 'equation'");
  std::erase(equation, ' ');
  Array<Expr> parts;
  for (size_t i = 0; i < n.inputs(); ++i) parts.push_back(n.in(i));
  broadcast_labels(n, equation, parts);
  return {n.op("einsum", {n.emit(tuple(parts))}, make_attrs<EinsumAttrs>(equation))};
}
const R g1("Gemm", {1, 6, 7, 9, 11, 13}, gemm, {.as_in_six = true}), g2("MatMul", {1, 9, 13}, matmul),
    g3("Einsum", {12, 28}, einsum);

/// Integers minus their zero point, as int32; per-row and per-column zero points are shaped by `axis`.
Expr shifted(N& n, size_t x, size_t zero, int64_t rank, int64_t axis) {
  n.expect_one_dtype({x, zero});
  Expr v = n.cast(n.in(x), i32);
  if (!n.has(zero)) return v;
  Expr z = n.cast(n.in(zero), i32);
  auto s = n.known_shape(zero);
  if (s.size() == 1 && tir::is_const_int(s[0], 1))
    z = n.reshape(z, {});
  else if (s.size() == 1 && axis >= 0 && axis < rank) {
    const PrimExpr size = n.known_shape(x)[size_t(axis)];
    const auto points = tir::as_int(s[0]), elements = tir::as_int(size);
    if (points && elements && *points != *elements)
      n.malformed(
          fmt::format("{} has {} zero points for an axis of {} elements", n.op_type(), *points, *elements));
    Array<PrimExpr> shape;
    for (int64_t i = 0; i < rank; ++i) shape.push_back(i == axis ? s[0] : PrimExpr(1));
    z = n.reshape(z, shape);
    if (!points || !elements) return n.onto("subtract", v, z);  // a symbol may be 1: one for all
  }
  return n.op("subtract", {v, z});
}
Values matmul_integer(N& n) {
  const int64_t ra = n.rank(0), rb = n.rank(1);
  Expr a = shifted(n, 0, 2, ra, ra - 2), b = shifted(n, 1, 3, rb, rb - 1);
  n.align(a, b, false, 2);
  return {n.op("matmul", {a, b})};
}
Values conv_integer(N& n) {
  Window w = window(n, kernel_of(n, 1), true, 1);
  auto a = make<ConvAttrs>();
  a.edit()->strides = list(w.strides), a.edit()->padding = list(w.pads),
  a.edit()->dilation = list(w.dilations), a.edit()->groups = n.attr_int("group", 1);
  return {n.op(fmt::format("nn.conv{}d", w.kernel.size()),
               {with_same_padding(n, shifted(n, 0, 2, n.rank(0), -1), w, 0), shifted(n, 1, 3, n.rank(1), 0)},
               a)};
}
Values qlinear_conv(N& n) {
  // Inputs x, its scale and zero point, w, its scale and zero point, the output's scale and zero point, bias.
  n.expect_quantised({0, 3, 7});
  const size_t spatial = spatial_axes(n);
  auto shape = n.known_shape(3);
  Ints kernel;
  for (size_t i = 2; i < shape.size(); ++i) {
    const auto v = tir::as_int(shape[i]);
    if (!v || *v < 1) n.unsupported("QLinearConv needs a weight of known shape");
    kernel.push_back(*v);
  }
  Window w = window(n, kernel, true);
  auto a = make<ConvAttrs>();
  a.edit()->strides = list(w.strides), a.edit()->padding = list(w.pads),
  a.edit()->dilation = list(w.dilations), a.edit()->groups = n.attr_int("group", 1);
  const int64_t rank = int64_t(spatial) + 2;
  const Expr x = with_same_padding(n, shifted(n, 0, 2, rank, -1), w, 0);
  Expr y = n.op(fmt::format("nn.conv{}d", spatial), {x, shifted(n, 3, 5, rank, 0)}, a);
  y = with_bias(n, y, 8);
  const DataType to = n.dtype(7);
  if (!to.is_integer()) n.unsupported("quantisation to this type is not supported");
  auto axis = [](DataType out) {
    return make_attrs<QuantizeAttrs>([&](QuantizeAttrs& q) { q.axis = 1, q.out_dtype = out; });
  };
  const Expr steps = n.emit(op::product_of_scales(n.in(1), n.in(4)));
  const Expr real = n.op("qnn.dequantize", {y, steps, n.scalar(0, i32)}, axis(DataType::void_()));
  return {n.op("qnn.quantize", {real, n.in(6), n.in(7)}, axis(to))};
}
const R g6("QLinearConv", {10}, qlinear_conv);

const R g4("MatMulInteger", {10}, matmul_integer), g5("ConvInteger", {10}, conv_integer);

/// Dropout in training; where only the run knows the mode, a ratio of 0 keeps everything.
Values dropout_in_training(N& n, const Expr& training) {
  const DataType t = n.dtype(0);
  Expr ratio = scalar_input(n, 1, f32, 0.5);
  if (const auto* c = ratio.as<graph::Constant>(); c && !(c->data.element(0) >= 0 && c->data.element(0) < 1))
    n.malformed("'ratio' of Dropout must be one number from 0 up to 1");
  if (training) ratio = n.op("where", {training, ratio, n.scalar(0, f32)});
  const Expr share = n.op("subtract", {n.scalar(1, f32), ratio});
  const Expr shares = n.op("full_like", {n.in(0), share}, make_attrs<DTypeAttrs>(f32));
  const Expr kept = n.op("random.bernoulli", {random_key(n), shares}, make_attrs<DTypeAttrs>(boolean));
  const Expr scaled = n.op("divide", {n.in(0), n.cast(share, t)});
  return {n.op("where", {kept, scaled, n.scalar(0, t)}), kept};
}
Values dropout(N& n) {
  if (n.opset < 7 && n.attr_int("is_test", 0) == 0)
    n.unsupported("Dropout in training mode is not supported",
                  "export the model in inference mode (model.eval())");
  if (!known_numbers(n, 2)) return dropout_in_training(n, scalar_input(n, 2, boolean, 0));
  if (SmallRef training = n.small(2)) {
    if (training->items.size() != 1) n.malformed("'training_mode' of Dropout must be one truth value");
    if (!tir::is_zero(training->items[0])) return dropout_in_training(n, {});
  }
  Values out{n.in(0)};
  if (n.wants_output(1)) {
    const DataType t =
        n.since < 10 ? n.dtype(0) : boolean;  // the first versions give the mask the data's type
    out.push_back(n.op("full_like", {n.in(0), n.scalar(1, t)}, make_attrs<DTypeAttrs>(t)));
  }
  return out;
}
const R d1("Dropout", {1, 6, 7, 10, 12, 13, 22}, dropout, {.values = {2}, .as_in_six = true});

}  // namespace
}  // namespace tenon::onnx
