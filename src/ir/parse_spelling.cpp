// SPDX-License-Identifier: Apache-2.0
// Source of the table: python/tvm/relax/op of Apache TVM v0.18.
#include "ir/parse_spelling.h"

#include <algorithm>
#include <map>

namespace tenon::script {
namespace {

struct Row {
  std::string_view names;       ///< of operators, in the reference
  std::string_view op;          ///< ours; empty: the same name
  std::string_view parameters;  ///< "name", "theirs=ours" or "theirs:only value" each
};

constexpr std::string_view kConv =
    "data weight strides padding dilation groups data_layout kernel_layout out_layout out_dtype";
constexpr std::string_view kConvTranspose =
    "data weight strides padding output_padding dilation groups data_layout:~ kernel_layout:~ out_layout:~ "
    "out_dtype";
constexpr std::string_view kPool =
    "data=x pool_size strides padding dilation ceil_mode count_include_pad layout out_layout:~";

constexpr Row kRows[] = {
    {"add subtract multiply divide floor_divide power equal not_equal less less_equal greater greater_equal "
     "maximum "
     "minimum logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor left_shift right_shift",
     "", "x1=a x2=b"},
    {"astype", "cast", "x dtype"},
    {"argsort", "", "data=x axis descending dtype:\"int32\""},
    {"arange", "", "start end=stop step dtype"},
    {"cumsum cumprod", "", "data=x axis dtype:None exclusive"},
    {"quantize", "qnn.quantize", "data=x scale zero_point axis out_dtype"},
    {"dequantize", "qnn.dequantize", "data=x scale zero_point axis out_dtype"},
    {"expand_dims squeeze", "", "x axis=axes"},
    {"flip", "", "data=x axis=axes"},
    {"full", "", "shape fill_value=value dtype"},
    {"full_like", "", "x fill_value=value dtype"},
    {"hint_on_device", "", "data=x dst_vdevice=device"},
    {"image.resize2d", "",
     "data=x size roi layout:\"NCHW\" method coordinate_transformation_mode rounding_method cubic_alpha "
     "cubic_exclude "
     "extrapolation_value out_dtype:~"},
    {"masked_fill", "", "x mask value"},
    {"matmul", "", "x1=a x2=b out_dtype"},
    {"make_closure", "", "func=function args=captured"},
    {"nn.attention", "", "query=q key=k value=v bias=mask scale causal_mask window_size:None"},
    {"nn.adaptive_avg_pool1d nn.adaptive_avg_pool2d nn.adaptive_avg_pool3d", "nn.adaptive_avg_pool",
     "data=x output_size layout:~ out_layout:~"},
    {"nn.avg_pool1d nn.avg_pool2d nn.avg_pool3d nn.max_pool1d nn.max_pool2d nn.max_pool3d", "", kPool},
    {"nn.conv1d nn.conv2d nn.conv3d", "", kConv},
    {"nn.conv1d_transpose nn.conv2d_transpose nn.conv3d_transpose", "", kConvTranspose},
    {"nn.cross_entropy_with_logits", "", "predictions=x labels=target"},
    {"nn.dropout", "", "data=x rate"},
    {"nn.relu nn.silu nn.gelu", "", "data=x"},
    {"nn.softmax nn.log_softmax", "", "data=x axis"},
    {"nn.leakyrelu", "nn.leaky_relu", "data=x alpha"},
    {"nn.nll_loss", "", "predictions=x targets=target weights=weight reduction ignore_index"},
    {"nn.pad", "pad", "data=x pad_width pad_value pad_mode"},
    {"nn.rms_norm", "", "data=x weight=gamma axes epsilon"},
    {"repeat", "", "data=x repeats axis"},
    {"scatter_elements", "", "data=x indices updates axis reduction"},
    {"scatter_nd", "", "data=x indices updates reduction"},
    {"shape_of tensor_to_shape", "", "expr=x"},
    {"shape_to_tensor", "", "expr=shape"},
    {"split", "", "x indices_or_sections axis"},
    {"strided_slice", "", "x axes begin end strides assume_inbound:False"},
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
  for (const std::string_view word : words(row.parameters, ' ')) {
    const size_t other = word.find('='), only = word.find(':');
    if (only != word.npos)
      out.parameters.push_back({word.substr(0, only), "", word.substr(only + 1)});
    else if (other != word.npos)
      out.parameters.push_back({word.substr(0, other), word.substr(other + 1)});
    else
      out.parameters.push_back({word, word});
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

}  // namespace tenon::script
