// SPDX-License-Identifier: Apache-2.0
// Calls as the reference compiler's script writes them. Source of the table: python/tvm/relax/op of Apache
// TVM v0.18.
#include "ir/parse_spelling.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ir/parse_impl.h"

namespace tenon::script {
namespace {

struct Row {
  std::string_view names;  ///< of operators, in the reference
  std::string_view op;     ///< ours; empty: the same name
  std::string_view
      parameters;  ///< "name", "theirs=ours" or "theirs:only value" each; "?" behind: None says nothing
};

constexpr std::string_view kConv =
    "data weight strides padding dilation groups data_layout kernel_layout out_layout? out_dtype";
constexpr std::string_view kConvTranspose =
    "data weight strides padding output_padding dilation groups data_layout kernel_layout out_layout? "
    "out_dtype";
constexpr std::string_view kPool =
    "data=x pool_size strides padding dilation ceil_mode count_include_pad layout out_layout?";

constexpr Row kRows[] = {
    {"add subtract multiply divide floor_divide power equal not_equal less less_equal greater greater_equal "
     "maximum "
     "minimum logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor left_shift right_shift",
     "", "x1=a x2=b"},
    {"astype", "cast", "x dtype"},
    {"argsort", "", "data=x axis descending dtype:\"int32\""},
    {"arange", "", "start end=stop step dtype"},
    {"cumsum cumprod", "", "data=x axis dtype:~ exclusive?"},
    {"quantize", "qnn.quantize", "data=x scale zero_point axis out_dtype"},
    {"dequantize", "qnn.dequantize", "data=x scale zero_point axis out_dtype"},
    {"expand_dims squeeze", "", "x axis=axes"},
    {"flip", "", "data=x axis=axes"},
    {"full", "", "shape fill_value=value dtype"},
    {"full_like", "", "x fill_value=value dtype"},
    {"image.resize2d", "",
     "data=x size roi layout method coordinate_transformation_mode rounding_method cubic_alpha "
     "cubic_exclude "
     "extrapolation_value out_dtype:~"},
    {"masked_fill", "", "x mask value"},
    {"matmul", "", "x1=a x2=b out_dtype"},
    {"make_closure", "", "func=function args=captured"},
    {"nn.attention", "", "query=q key=k value=v bias=mask scale? causal_mask window_size:None"},
    {"nn.adaptive_avg_pool1d nn.adaptive_avg_pool2d nn.adaptive_avg_pool3d", "nn.adaptive_avg_pool",
     "data=x output_size layout out_layout?"},
    {"nn.avg_pool1d nn.avg_pool2d nn.avg_pool3d nn.max_pool1d nn.max_pool2d nn.max_pool3d", "", kPool},
    {"nn.conv1d nn.conv2d nn.conv3d", "", kConv},
    {"nn.conv1d_transpose nn.conv2d_transpose nn.conv3d_transpose", "", kConvTranspose},
    {"nn.batch_norm", "",
     "data=x gamma beta moving_mean=mean moving_var=variance axis epsilon center scale momentum:~ "
     "training:False"},
    {"nn.group_norm", "", "data=x gamma beta num_groups channel_axis axes:~ epsilon center scale"},
    {"nn.cross_entropy_with_logits", "", "predictions=x labels=target"},
    {"nn.dropout", "", "data=x rate"},
    {"nn.relu nn.silu nn.gelu", "", "data=x"},
    {"nn.softmax nn.log_softmax", "", "data=x axis"},
    {"nn.leakyrelu", "nn.leaky_relu", "data=x alpha"},
    {"nn.nll_loss", "", "predictions=x targets=target weights=weight reduction ignore_index"},
    {"nn.pad", "pad", "data=x pad_width pad_value pad_mode"},
    {"nn.rms_norm", "", "data=x weight=gamma axes epsilon"},
    {"memory.view", "", "data=x shape dtype relative_byte_offset=offset"},
    {"repeat", "", "data=x repeats axis"},
    {"scatter_elements", "", "data=x indices updates axis reduction"},
    {"scatter_nd", "", "data=x indices updates reduction"},
    {"shape_of tensor_to_shape", "", "expr=x"},
    {"shape_to_tensor", "", "expr=shape"},
    {"split", "", "x indices_or_sections axis"},
    {"strided_slice", "", "x axes begin end strides? assume_inbound:False"},
    {"take", "", "x indices axis mode:\"fast\""},
    {"topk", "", "data=x k axis ret_type:\"both\" largest dtype:\"int32\""},
    {"tile", "", "data=x repeats"},
    {"where", "", "condition x1=x x2=y"},
};

std::vector<std::string_view> words(std::string_view text, char between) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find(between), text.size());
    if (end > 0) out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

SpelledOp entry(const Row& row, std::string_view name) {
  SpelledOp out{.op = row.op.empty() ? name : row.op};
  for (std::string_view word : words(row.parameters, ' ')) {
    const bool none_is_default = word.ends_with('?');
    if (none_is_default) word.remove_suffix(1);
    const size_t other = word.find('='), only = word.find(':');
    if (only != word.npos)
      out.parameters.push_back({word.substr(0, only), "", word.substr(only + 1)});
    else if (other != word.npos)
      out.parameters.push_back({word.substr(0, other), word.substr(other + 1)});
    else
      out.parameters.push_back({word, word});
    out.parameters.back().none_is_default = none_is_default;
  }
  return out;
}

/// What follows from an operator, and may be said once more.
constexpr std::string_view kUsual[] = {"", "NCW", "NCHW", "NCDHW", "IOW", "IOHW", "IODHW"};

}  // namespace

bool changes_nothing(const SpelledParameter& parameter, const Ast& value) {
  if (value.kind == ExprKind::name)
    return value.text == parameter.only || (parameter.only == "~" && value.text == "None");
  if (value.kind != ExprKind::string) return false;
  if (parameter.only == "~")
    return std::find(std::begin(kUsual), std::end(kUsual), value.text) != std::end(kUsual);
  return parameter.only == "\"" + value.text + "\"";
}

const SpelledOp* find_spelling(std::string_view name) {
  static const std::map<std::string_view, SpelledOp> table = [] {
    std::map<std::string_view, SpelledOp> out;
    for (const Row& row : kRows)
      for (const std::string_view n : words(row.names, ' ')) out.emplace(n, entry(row, n));
    return out;
  }();
  const auto it = table.find(name);
  return it == table.end() ? nullptr : &it->second;
}
std::string_view dialect_of(std::string_view path) {
  static constexpr std::string_view distributed[] = {"R.dist.", "R.ccl.", "R.DTensor", "R.device_mesh"};
  static constexpr std::string_view tiles[] = {"T.device_entry",
                                               "T.cta_id",
                                               "T.thread_id",
                                               "T.lane_id",
                                               "T.warp_id",
                                               "T.warpgroup_id",
                                               "T.cluster_id",
                                               "T.nki.",
                                               "T.TileLayout",
                                               "T.ComposeLayout",
                                               "T.ptx.",
                                               "T.cuda.",
                                               "T.metal.",
                                               "T.webgpu.",
                                               "T.nvshmem.",
                                               "T.local_scalar",
                                               "T.alloc_shared",
                                               "T.alloc_local",
                                               "T.hint",
                                               "T.inline",
                                               "T.s_tir.",
                                               "T.thread_return",
                                               "T.TensorMap",
                                               "T.ptr_byte_offset",
                                               "T.handle_add_byte_offset",
                                               "T.tvm_kernel_replace_point"};
  for (const std::string_view name : distributed)
    if (path.starts_with(name)) return "distributed";
  for (const std::string_view name : tiles)
    if (path.starts_with(name)) return "thread-tile";
  return {};
}
std::string spelled_function(std::string name) {
  static constexpr std::pair<std::string_view, std::string_view> table[] = {
      {"fabs", "abs"},
      {"Add", "add"},
      {"Sub", "subtract"},
      {"Mul", "multiply"},
      {"FloorDiv", "floordiv"},
      {"FloorMod", "floormod"},
      {"Mod", "truncmod"},
      {"Min", "min"},
      {"Max", "max"},
      {"boolean", "bool"},
      {"ptr", "handle"},
      {"call_packed", "tvm_call_packed"},
      {"call_cpacked", "tvm_call_cpacked"}};
  for (const auto& [theirs, ours] : table)
    if (name == theirs) return std::string(ours);
  // Device functions stand below the device's name in newer text.
  if (name.starts_with("ptx_legacy.")) return "ptx_" + name.substr(11);
  return name;
}
std::string_view spelled_comparison(std::string_view name) {
  static constexpr std::pair<std::string_view, std::string_view> table[] = {
      {"EQ", "=="}, {"NE", "!="}, {"LT", "<"}, {"LE", "<="}, {"GT", ">"}, {"GE", ">="}};
  for (const auto& [theirs, sign] : table)
    if (name == theirs) return sign;
  return {};
}
std::string_view spelled_iterator_kind(std::string_view name) {
  static constexpr std::pair<std::string_view, std::string_view> table[] = {{"DataPar", "spatial"},
                                                                            {"CommReduce", "reduce"},
                                                                            {"Ordered", "scan"},
                                                                            {"Opaque", "opaque"},
                                                                            {"ThreadIndex", "thread_index"}};
  for (const auto& [theirs, ours] : table)
    if (name == theirs) return ours;
  return name;
}
bool names_output_types(std::string_view argument) {
  return argument == "out_sinfo" || argument == "sinfo_args" || argument == "out_ty" || argument == "ty_args";
}
bool is_read_by_place(std::string_view op, size_t i, std::string_view name) {
  const SpelledOp* spelled = find_spelling(op);
  return !spelled || spelled->parameters.empty() ||
         (i < spelled->parameters.size() && spelled->parameters[i].ours == name);
}

using namespace graph;

void Converter::refuse_dialect(const std::string& p, const Ast* at) {
  if (const std::string_view dialect = dialect_of(p); !dialect.empty())
    fail("T0213", fmt::format("`{}` belongs to the {} dialect, which is not read", p, dialect), at);
}

const Ast* Converter::output_types(const Ast* call) const {
  for (const auto& [name, value] : call->named)
    if (names_output_types(name)) return value;
  return nullptr;
}

void Converter::respell(GivenArguments& given, const SpelledOp& op, std::string_view name, const Ast* value) {
  if (name == "indices_or_sections")
    return given.emplace_back(value->kind == ExprKind::integer ? "sections" : "indices", value), void();
  if (name == "causal_mask") {
    if (is_none(value)) return;
    if (text_of(value, "the causal mask") != "TopLeft")
      fail("T0224", "a causal mask is \"TopLeft\" or None", value);
    Ast yes = *value;
    yes.kind = ExprKind::name, yes.text = "True";
    return given.emplace_back("causal", &made_.emplace_back(yes)), void();
  }
  for (const SpelledParameter& p : op.parameters) {
    if (p.theirs != name) continue;
    if (p.none_is_default && is_none(value)) return;
    if (!p.ours.empty()) return given.emplace_back(std::string(p.ours), value), void();
    if (changes_nothing(p, *value)) return;
    fail("T0226", fmt::format("`{}` with this `{}` has no operator here", op.op, name), value);
  }
  given.emplace_back(std::string(name), value);  // as we write it
}

GivenArguments Converter::respelled(const SpelledOp& op, const Ast* call) {
  GivenArguments out;
  for (size_t i = 1; i < call->items.size(); ++i) {
    if (i > op.parameters.size())
      fail("T0223", fmt::format("`{}` takes {} arguments", path(call->items[0]), op.parameters.size()),
           call->items[i]);
    respell(out, op, op.parameters[i - 1].theirs, call->items[i]);
  }
  for (const auto& [name, value] : call->named) respell(out, op, name, value);
  return out;
}

/// The first form of call_tir: (output shape, function or its name, [inputs]); the data type is the
/// annotation's.
Expr Converter::old_call_tir(const Ast* a, Sequence& seq, const Ast* annotation) {
  const Ast *shape = a->items[1], *f = a->items[2], *inputs = a->items[3];
  Expr given;
  bool ok = attempt(span(shape), [&] {
    given = leaf(shape, seq);
    if (given && given->type && !given->type.is<ShapeType>() && !given->type.is<ObjectType>())
      fail("T0232", fmt::format("the output shape of call_tir is a {}", print(given->type)), shape,
           "a shape such as (n, 4) stands first");
  });
  Array<Expr> items;
  for (const Ast* x : items_of(inputs))
    ok = attempt(span(x),
                 [&] {
                   const Expr e = leaf(x, seq);
                   if (e && ((e->type && e->type.is<ShapeType>()) || e.is<ShapeExpr>()))
                     fail("T0232", "a shape stands where a tensor is needed", x);
                   items.push_back(e);
                 }) &&
         ok;
  if (!ok) throw Failed();
  auto out = make<TensorType>();
  if (annotation) {
    Type t = type(annotation);
    if (const auto* tensor = t.as<TensorType>())
      *out.edit() = *tensor;
    else
      fail("T0240", "the value of call_tir is annotated with its tensor type", annotation);
  } else if (const Ast* d = argument(a, 3, "dtype")) {
    out.edit()->dtype = dtype_of(d);
  } else {
    fail("T0240", "`call_tir` does not tell its output's data type", a, "annotate the name it is bound to");
  }
  if (!out->shape) {
    out.edit()->shape = given;
    if (const auto* s = given.as<ShapeExpr>()) out.edit()->ndim = int64_t(s->values.size());
  }
  Expr e;
  if (f->kind == ExprKind::string && !functions_.count(f->text))
    e = graph::call(get_op("call_dps_packed"), {make<ExternFunc>(f->text), make<Tuple>(items)}, {}, {out});
  else {
    Expr function = f->kind == ExprKind::string ? global(f->text) : callee(f);
    if (!function)
      fail("T0220", "call_tir calls a function of the module, or a registered one by its name in quotes", f);
    e = graph::call(get_op("call_tir"), {function, make<Tuple>(items)}, {}, {out});
  }
  return with_type(std::move(e), out, origin(a));
}

}  // namespace tenon::script
