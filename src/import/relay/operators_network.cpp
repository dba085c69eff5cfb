// SPDX-License-Identifier: Apache-2.0
// Operators of Relay that networks are made of. Layouts other than the plain ones are taken there and back.
#include <algorithm>

#include "import/relay/operators.h"

namespace tenon::relay {
using namespace graph;

namespace {

/// The number in "nn.conv2d": spatial axes.
size_t spatial_axes(const std::string& name) {
  const size_t d = name.find_first_of("123");
  return d == name.npos ? 2 : size_t(name[d] - '0');
}
const std::string& plain_data(size_t spatial) {
  static const std::string names[] = {"NCW", "NCHW", "NCDHW"};
  return names[spatial - 1];
}
/// Where "OIHW" ends: output channels first.
std::string plain_kernel(size_t spatial, bool transposed) {
  return (transposed ? "IO" : "OI") + plain_data(spatial).substr(2);
}

/// The operands of a convolution in plain layouts, and the layout of its result.
struct Laid {
  Expr data, weight;
  std::string plain, out;
};
Laid laid_out(OpCall& call, size_t spatial, bool transposed) {
  const std::string &plain = plain_data(spatial), kernel = plain_kernel(spatial, transposed);
  std::string data = call.text("data_layout", plain), weight = call.text("kernel_layout", kernel);
  // A transposed kernel of the first versions is called OIHW and is IOHW.
  if (transposed && weight == plain_kernel(spatial, false)) weight = kernel;
  std::string out = call.text("out_layout", "");
  if (out.empty()) out = data;
  return {call.relayout(call.args[0], data, plain), call.relayout(call.args[1], weight, kernel), plain, out};
}

/// 8-bit products are sums of 32 bits here; there they stay narrow unless the call says so.
DataType product_type(OpCall& call, bool* narrow) {
  const DataType wanted = call.dtype("out_dtype");
  const TensorType* t = call.tensor(0);
  *narrow = wanted.is_void() && t && t->dtype.is_integer() && t->dtype.bits == 8;
  return wanted;
}

/// The weight of a convolution, where the text leaves its type open: `channels`, `kernel_size`, `groups` and
/// the data say it, in the plain layouts and those of the same letters.
void learn_weight(OpCall& call, size_t spatial) {
  const int64_t channels = call.integer("channels", 0), groups = call.integer("groups", 1);
  const Array<int64_t> kernel = call.integers("kernel_size");
  const std::string layout = call.text("data_layout", plain_data(spatial)),
                    letters = call.text("kernel_layout", plain_kernel(spatial, false));
  const size_t channel = layout.find('C');
  if (!call.is_open(1) || channels < 1 || groups < 1 || kernel.size() != spatial ||
      layout.size() != spatial + 2 || letters.size() != spatial + 2 || channel == layout.npos)
    return;
  const TensorType* x = call.tensor(0);
  const auto have = x ? known_shape(call.args[0]->type) : std::nullopt;
  if (!have || have->size() != spatial + 2) return;
  op::Shape dims;
  for (const char c : letters) {
    const size_t axis = plain_data(spatial).find(c);
    if (c == 'O')
      dims.push_back(channels);
    else if (c == 'I')
      dims.push_back(simplify(tir::floordiv((*have)[channel], PrimExpr(groups))));
    else if (axis != std::string::npos && axis >= 2)
      dims.push_back(kernel[axis - 2]);
  }
  if (dims.size() == spatial + 2) call.learn(1, tensor_type(dims, x->dtype));
}

Expr conv(OpCall& call) {
  call.expect_args(2, 2);
  const size_t spatial = spatial_axes(call.name);
  learn_weight(call, spatial);
  const Laid l = laid_out(call, spatial, false);
  bool narrow = false;
  auto attrs = make<op::ConvAttrs>();
  op::ConvAttrs* a = attrs.edit();
  a->out_dtype = product_type(call, &narrow);
  a->strides = call.integers("strides");
  a->padding = call.integers("padding");
  a->dilation = call.integers("dilation");
  a->groups = call.integer("groups", 1);
  Expr x = call.emit(fmt::format("nn.conv{}d", spatial), {l.data, l.weight}, attrs);
  if (narrow) x = call.cast(x, call.element(0));
  return call.relayout(x, l.plain, l.out);
}

Expr conv_transpose(OpCall& call) {
  call.expect_args(2, 2);
  const size_t spatial = spatial_axes(call.name);
  call.ignore({"channels", "kernel_size"});
  const Laid l = laid_out(call, spatial, true);
  auto attrs = make<op::ConvTransposeAttrs>();
  op::ConvTransposeAttrs* a = attrs.edit();
  a->out_dtype = call.dtype("out_dtype");
  a->strides = call.integers("strides");
  a->padding = call.integers("padding");
  a->output_padding = call.integers("output_padding");
  a->dilation = call.integers("dilation");
  a->groups = call.integer("groups", 1);
  return call.relayout(call.emit(fmt::format("nn.conv{}d_transpose", spatial), {l.data, l.weight}, attrs),
                       l.plain, l.out);
}

// ---------------------------------------------------------------- pooling
template <class Attributes>
Expr pooled(OpCall& call, const std::string& op, size_t spatial, Attributes attributes) {
  call.expect_args(1, 1);
  const std::string& plain = plain_data(spatial);
  const std::string layout = call.text("layout", plain), out = call.text("out_layout", "");
  const Expr x = call.emit(op, {call.relayout(call.args[0], layout, plain)}, attributes());
  return call.relayout(x, plain, out.empty() ? layout : out);
}
Expr pool(OpCall& call) {
  return pooled(call, call.name, spatial_axes(call.name), [&] {
    auto attrs = make<op::PoolAttrs>();
    op::PoolAttrs* a = attrs.edit();
    a->pool_size = call.integers("pool_size");
    a->strides = call.integers("strides");
    a->padding = call.integers("padding");
    a->dilation = call.integers("dilation");
    a->ceil_mode = call.flag("ceil_mode", false);
    if (call.name.find("avg") != call.name.npos) a->count_include_pad = call.flag("count_include_pad", false);
    return ObjectRef(attrs);
  });
}
Expr global_pool(OpCall& call) {
  const std::string op = call.name.substr(0, call.name.size() - 2);  // without "2d"
  return pooled(call, op, spatial_axes(call.name), [] { return ObjectRef(); });
}
Expr adaptive_pool(OpCall& call) {
  const size_t spatial = spatial_axes(call.name);
  const bool largest = call.name.find("max") != call.name.npos;
  const Array<int64_t> size = call.integers("output_size");
  if (size.empty()) call.fail("T0223", "`output_size` is missing");
  return pooled(call, largest ? "nn.adaptive_max_pool" : "nn.adaptive_avg_pool", spatial,
                [&] { return ObjectRef(make<op::AdaptivePoolAttrs>(size)); });
}

// ---------------------------------------------------------------- normalisation
/// A tuple there: the result, and mean and variance, which inference leaves as they are.
Expr batch_norm(OpCall& call) {
  call.expect_args(5, 5);
  constexpr double epsilon = 1e-5;
  const Expr x = call.emit("nn.batch_norm", call.args,
                           make<op::BatchNormAttrs>(call.integer("axis", 1), call.number("epsilon", epsilon),
                                                    call.flag("center", true), call.flag("scale", true)));
  return make<Tuple>(Array<Expr>{x, call.args[3], call.args[4]});
}
/// A tuple there: the operand and which elements are kept, in inference all.
Expr dropout(OpCall& call) {
  call.expect_args(1, 1);
  call.ignore({"rate"});
  return make<Tuple>(Array<Expr>{call.args[0], call.emit("ones_like", {call.args[0]})});
}
Expr prelu(OpCall& call) {
  call.expect_args(2, 2);
  const int64_t rank = call.rank(0), axis = op::normal_axis(call.integer("axis", 1), rank);
  Array<int64_t> axes;
  for (int64_t i = 1; i < rank - axis; ++i) axes.push_back(i);
  return call.emit(
      "nn.prelu", {call.args[0], axes.empty() ? call.args[1] : call.axes("expand_dims", call.args[1], axes)});
}

// ---------------------------------------------------------------- products
Expr dense(OpCall& call) {
  call.expect_args(2, 2);
  call.only("weight_layout", "NC");
  const int64_t units = call.integer("units", 0);
  const auto have = call.tensor(0) ? known_shape(call.args[0]->type) : std::nullopt;
  if (call.is_open(1) && units > 0 && have && !have->empty())
    call.learn(1, tensor_type({PrimExpr(units), have->back()}, call.tensor(0)->dtype));
  return call.value("nn.dense", call.args, make<op::MatmulAttrs>(call.dtype("out_dtype")));
}
Expr matmul(OpCall& call) {
  call.expect_args(2, 2);
  call.ignore({"units"});
  Expr operands[2] = {call.args[0], call.args[1]};
  const bool turn[2] = {call.flag("transpose_a", false), call.flag("transpose_b", false)};
  for (size_t i : {0, 1})
    if (turn[i]) {
      Array<int64_t> axes;
      const int64_t rank = call.rank(i);
      if (rank < 2) call.fail("T0227", "a vector has no other order of axes");
      for (int64_t a = 0; a < rank - 2; ++a) axes.push_back(a);
      axes.push_back(rank - 1);
      axes.push_back(rank - 2);
      operands[i] = call.axes("permute_dims", operands[i], axes);
    }
  return call.emit("matmul", {operands[0], operands[1]}, make<op::MatmulAttrs>(call.dtype("out_dtype")));
}

// ---------------------------------------------------------------- the rest
/// The value is an operand there.
Expr pad(OpCall& call) {
  call.expect_args(1, 2);
  const double value = call.args.size() < 2 ? call.number("pad_value", 0)
                                            : call.constant(1, "the value that is put around").element(0);
  return call.emit("pad", {call.args[0]},
                   make<op::PadAttrs>(call.integers("pad_width"), call.text("pad_mode", "constant"), value));
}
Expr mirror_pad(OpCall& call) {
  call.expect_args(1, 1);
  call.only("mode", "REFLECT");
  if (!call.given("mode")) call.fail("T0227", "a mirror that shows the edge twice has no counterpart here");
  return call.emit("pad", {call.args[0]}, make<op::PadAttrs>(call.integers("pad_width"), "reflect", 0.0));
}

/// Sizes, methods and rounding in our words.
Expr resized(OpCall& call, const std::string& op, const std::string& plain, const std::string& layout,
             const Expr& x, const Array<int64_t>& size, const std::string& coordinates, std::string method) {
  static constexpr std::pair<std::string_view, std::string_view> roundings[] = {
      {"", ""},
      {"round", "round_prefer_floor"},
      {"round_prefer_floor", "round_prefer_floor"},
      {"round_prefer_ceil", "round_prefer_ceil"},
      {"floor", "floor"},
      {"ceil", "ceil"}};
  auto attrs = make<op::ResizeAttrs>();
  op::ResizeAttrs* a = attrs.edit();
  method = call.text("method", method);
  if (method.starts_with("bi") || method.starts_with("tri")) method = method.substr(method.find("i") + 1);
  if (method != "linear" && method != "cubic" && method != "nearest_neighbor")
    call.fail("T0227", fmt::format("`method` is no \"{}\"", method));
  const std::string rounding = call.text("rounding_method", "");
  const auto* known =
      std::find_if(std::begin(roundings), std::end(roundings), [&](auto& r) { return r.first == rounding; });
  if (known == std::end(roundings))
    call.fail("T0227", fmt::format("`rounding_method` is no \"{}\"", rounding));
  a->method = method;
  a->coordinate_transformation_mode = coordinates;
  a->rounding_method = rounding.empty() ? (coordinates == "align_corners" ? "round_prefer_floor" : "floor")
                                        : std::string(known->second);
  constexpr double cubic = -0.5;
  a->cubic_alpha = call.number("cubic_alpha", cubic);
  a->cubic_exclude = call.flag("cubic_exclude", false);
  a->extrapolation_value = call.number("extrapolation_value", 0);
  std::vector<int64_t> dims(size.begin(), size.end());
  return call.relayout(call.emit(op, {call.relayout(x, layout, plain), op::shape(dims)}, attrs), plain,
                       layout);
}
Expr resize(OpCall& call) {
  call.expect_args(1, 1);
  const size_t spatial = spatial_axes(call.name);
  const std::string& plain = plain_data(spatial);
  const std::string coordinates = call.text("coordinate_transformation_mode", "half_pixel");
  if (coordinates == "tf_crop_and_resize") call.fail("T0227", "regions have no counterpart here");
  call.ignore({"roi"});
  call.only("out_dtype", "");
  const Array<int64_t> size = call.integers("size");
  if (size.size() != spatial) call.fail("T0227", fmt::format("`size` has {} numbers", size.size()));
  return resized(call, call.name, plain, call.text("layout", plain), call.args[0], size, coordinates,
                 "linear");
}
/// Whole and other factors of a size.
Expr upsampling(OpCall& call) {
  call.expect_args(1, 1);
  const std::string& plain = plain_data(2);
  const std::string layout = call.text("layout", plain);
  const auto height = layout.find('H'), width = layout.find('W');
  const op::Shape& have = call.shape(0);
  const auto h = height < have.size() ? tir::as_int(have[height]) : std::nullopt,
             w = width < have.size() ? tir::as_int(have[width]) : std::nullopt;
  if (!h || !w) call.fail("T0245", "height and width must be known");
  const double scales[2] = {call.number("scale_h", 1), call.number("scale_w", 1)};
  constexpr double most = 1 << 20;
  for (const double s : scales)
    if (!(s > 0 && s < most)) call.fail("T0227", fmt::format("a factor is {}", s));
  const Array<int64_t> size{int64_t(std::llround(double(*h) * scales[0])),
                            int64_t(std::llround(double(*w) * scales[1]))};
  const bool corners = call.flag("align_corners", false);
  return resized(call, "image.resize2d", plain, layout, call.args[0], size,
                 corners ? "align_corners" : "asymmetric", "nearest_neighbor");
}

constexpr Converted kConverters[] = {
    {"nn.conv1d nn.conv2d nn.conv3d nn.contrib_conv2d_NCHWc", conv, 0},
    {"nn.conv1d_transpose nn.conv2d_transpose nn.conv3d_transpose", conv_transpose, 0},
    {"nn.max_pool1d nn.max_pool2d nn.max_pool3d nn.avg_pool1d nn.avg_pool2d nn.avg_pool3d", pool, 0},
    {"nn.global_avg_pool2d nn.global_max_pool2d", global_pool, 1},
    {"nn.adaptive_avg_pool1d nn.adaptive_avg_pool2d nn.adaptive_avg_pool3d nn.adaptive_max_pool1d "
     "nn.adaptive_max_pool2d nn.adaptive_max_pool3d",
     adaptive_pool, 0},
    {"nn.batch_norm", batch_norm, 0},
    {"nn.dropout", dropout, 0},
    {"nn.prelu", prelu, 0},
    {"nn.dense nn.contrib_dense_pack", dense, 2},
    {"nn.matmul", matmul, 2},
    {"nn.pad", pad, 0},
    {"nn.mirror_pad", mirror_pad, 0},
    {"image.resize1d image.resize2d image.resize3d", resize, 0},
    {"nn.upsampling", upsampling, 0},
};

}  // namespace

std::span<const Converted> network_converters() { return kConverters; }

}  // namespace tenon::relay
