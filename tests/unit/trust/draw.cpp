// SPDX-License-Identifier: Apache-2.0
#include "draw.h"

#include <fstream>
#include <sstream>

#include "base/reflect.h"
#include "ir/text.h"
#include "ir/walk.h"
#include "op/op_def.h"

namespace tenon::testing_trust {

using namespace graph;

const std::set<std::string>& left_out() {
  static const std::set<std::string> names{"call_dps_packed",  "call_packed",      "call_pure_packed",
                                           "call_tir",         "call_tir_inplace", "layout_transform",
                                           "nn.packed_matmul", "shape_of",         "shape_to_tensor",
                                           "tensor_to_shape",  "nn.dropout",       "to_device"};
  return names;
}
bool of_another_kind(const Op& op) {
  static const std::set<std::string> families{
      "sort", "select", "random", "vision",       "roi",       "window", "place",
      "qnn",  "linalg", "sparse", "qnn_contract", "recurrent", "sample", "linear_attention"};
  const size_t slash = op.file.rfind('/');
  const std::string name = op.file.substr(slash == std::string::npos ? 0 : slash + 1);
  return families.count(name.substr(0, name.find('.'))) > 0;
}
bool jumps(const std::string& name) {
  static const std::set<std::string> names{"floor",         "ceil",          "round",
                                           "trunc",         "sign",          "signbit",
                                           "copysign",      "logit",         "atanh",
                                           "floor_divide",  "floor_mod",     "mod",
                                           "equal",         "not_equal",     "less",
                                           "less_equal",    "greater",       "greater_equal",
                                           "argmax",        "argmin",        "isinf",
                                           "isnan",         "isfinite",      "nn.thresholded_relu",
                                           "cast",          "divide",        "reciprocal",
                                           "log",           "log2",          "log10",
                                           "log1p",         "sqrt",          "rsqrt",
                                           "tan",           "acos",          "asin",
                                           "acosh",         "atanh",         "power",
                                           "atan2",         "l2_norm",       "nn.instance_norm",
                                           "nn.group_norm", "nn.layer_norm", "nn.rms_norm",
                                           "variance",      "logsumexp",     "nn.lp_pool1d",
                                           "nn.lp_pool2d",  "nn.lp_pool3d",  "nn.global_lp_pool"};
  return names.count(name);
}
bool grows(const std::string& name) {
  static const std::set<std::string> names{"fast_exp", "exp",        "exp2",     "expm1",  "sinh",
                                           "cosh",     "power",      "prod",     "square", "sum_square",
                                           "divide",   "reciprocal", "rsqrt",    "tan",    "matmul",
                                           "nn.dense", "einsum",     "multiply", "cumsum"};
  return names.count(name) || name.starts_with("nn.conv");
}

const std::vector<Ref<Call>>& recorded_calls() {
  static const std::vector<Ref<Call>> calls = [] {
    std::ifstream in(TENON_SOURCE_DIR "/tests/unit/trust/operators.tir");
    std::ostringstream text;
    text << in.rdbuf();
    std::vector<Ref<Call>> out;
    if (text.str().empty()) return out;
    const IRModule module = parse_module(text.str());
    for (auto [name, f] : module.functions()) {
      const Expr body = f.cast<Function>()->body;
      for (const Binding& b : bindings_of(body))
        if (auto call = b->value.cast<Call>(); call && op_of(call) && op_of(call)->pure) out.push_back(call);
      if (auto call = body.cast<Call>()) out.push_back(call);
    }
    return out;
  }();
  return calls;
}

ObjectRef Draw::attributes(const Op& op, const std::vector<int64_t>& dims) {
  if (!op.attrs_type) return {};
  const int64_t rank = int64_t(dims.size()), spatial = std::max<int64_t>(0, rank - 2);
  ObjectRef attrs(op.attrs_type->create());
  auto list = [&](int64_t n, int64_t low, int64_t high) {
    Array<int64_t> out;
    for (int64_t i = 0; i < n; ++i) out.push_back(low + int64_t(below(uint64_t(high - low + 1))));
    return out;
  };
  auto some_axes = [&](bool all) {
    std::vector<int64_t> axes;
    for (int64_t i = 0; i < rank; ++i)
      if (all || chance(0.5)) axes.push_back(chance(0.2) ? i - rank : i);
    std::shuffle(axes.begin(), axes.end(), random_);
    return Array<int64_t>(axes);
  };
  for (const FieldInfo& f : op.attrs_type->fields) {
    Any v;
    if (f.name == "axis" && f.get(attrs.get()).tag() == kInt)
      v = Any(rank == 0 ? int64_t(0) : int64_t(below(uint64_t(2 * rank))) - rank);
    else if (f.name == "axis" || (f.name == "axes" && op.name != "permute_dims"))
      v = Any(some_axes(false));
    else if (f.name == "axes")
      v = Any(some_axes(true));
    else if (f.name == "keepdims" || f.name == "exclusive" || f.name == "reverse" ||
             f.name == "select_last_index" || f.name == "ceil_mode" || f.name == "count_include_pad")
      v = Any(chance(0.5));
    else if ((f.name == "strides" || f.name == "dilation") && op.name != "strided_slice")
      v = Any(chance(0.5) ? Array<int64_t>() : list(spatial, 1, 2));
    else if (f.name == "padding")
      v = Any(chance(0.5) ? Array<int64_t>() : list(2 * spatial, 0, 1));
    else if (f.name == "pool_size" || f.name == "kernel_size")
      v = Any(list(spatial, 1, 3));
    else if (f.name == "output_size")
      v = Any(list(spatial, 1, 3));
    else if (f.name == "pad_width")
      v = Any(list(2 * rank, 0, 2));
    else if (f.name == "repeats" && f.get(attrs.get()).tag() == kInt)
      v = Any(int64_t(1 + below(3)));
    else if (f.name == "repeats")
      v = Any(list(rank, 1, 2));
    else if (f.name == "sections")
      v = Any(int64_t(1 + below(3)));
    else if (f.name == "groups" && rank > 1 && chance(0.3))
      v = Any(one_of(std::vector<int64_t>{1, 2, dims[1]}));
    else if (f.name == "num_groups" && rank > 1)
      v = Any(one_of(std::vector<int64_t>{1, 2, dims[1]}));
    else if (f.name == "block_size")
      v = Any(int64_t(2));
    else if (f.name == "depth")
      v = Any(int64_t(1 + below(5)));
    else if (f.name == "k")
      v = Any(int64_t(below(5)) - 2);
    else if (f.name == "dtype" && op.name == "cast")
      v = Any(one_of(std::vector<DataType>{f32, i64, i32, boolean, f16, DataType::bfloat16(), f64}));
    else if (f.name == "device")
      v = Any(std::string(chance(0.5) ? "cpu:0" : "cpu:1"));
    else if (f.name == "subscripts")
      v = Any(
          one_of(std::vector<std::string>{"ij,jk->ik", "ij,ij->i", "bij,bjk->bik", "ij,ij->", "ij,kj->ki"}));
    else if (f.name == "size" || f.name == "sizes")
      v = Any(list(spatial, 1, 6));
    else if (op.name == "strided_slice" && f.name == "begin") {
      Array<PrimExpr> at;
      for (int64_t d : dims) at.push_back(PrimExpr(int64_t(below(uint64_t(std::max<int64_t>(1, d))))));
      v = Any(at);
    } else if (op.name == "strided_slice" && f.name == "end") {
      Array<PrimExpr> at;
      for (int64_t d : dims) at.push_back(PrimExpr(chance(0.5) ? INT64_MAX : d));
      v = Any(at);
    } else if (op.name == "strided_slice" && f.name == "strides")
      v = Any(list(rank, 1, 2));
    else
      continue;
    if (op.name == "strided_slice" && f.name == "axes") continue;
    Any fitting;
    if (f.coerce(v, &fitting)) f.set(attrs.edit(), fitting);
  }
  return attrs;
}

}  // namespace tenon::testing_trust
