// SPDX-License-Identifier: Apache-2.0
// The strategies of operators that have more than one implementation. What is not listed here has its tensor
// definition only.
#include <fmt/format.h>

#include <algorithm>

#include "analysis/cost/layout.h"
#include "ir/structural.h"
#include "op/attrs_recurrent.h"
#include "op/conv.h"
#include "op/family.h"
#include "op/folds.h"
#include "op/pool.h"
#include "op/strategy.h"
#include "target/matrix_registers.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;

/// The operator's own definition under a name.
OpImpl own(const Call& call, std::string name, int priority = 10) {
  const TensorDef& define = definition(*call.op.as<graph::Op>()).tensor_def;
  CHECK(define, "a strategy for an operator without a tensor definition");
  return {.name = std::move(name), .priority = priority, .define = define};
}

// ---------------------------------------------------------------- products
struct ProductSizes {
  int64_t rows = 0, columns = 0, inputs = 0;
};
/// x · w with w of two axes of known size; rows that are not known count as none.
std::optional<ProductSizes> product_sizes(const Call& call, bool dense) {
  const auto &x = tensor_arg(call, 0), &w = tensor_arg(call, 1);
  auto p = shape_of(x), q = shape_of(w);
  if (!p || !q || p->size() < 2 || q->size() != 2) return std::nullopt;
  ProductSizes s;
  // A tile takes its rows from one axis: the longest.
  for (size_t i = 0; i + 1 < p->size(); ++i) s.rows = std::max(s.rows, tir::as_int((*p)[i]).value_or(0));
  auto columns = tir::as_int((*q)[dense ? 0 : 1]), inputs = tir::as_int((*q)[dense ? 1 : 0]);
  if (!columns || !inputs) return std::nullopt;
  s.columns = *columns;
  s.inputs = *inputs;
  return s;
}

/// Columns of one panel: two vectors of the target.
int64_t panel_width(const Target& target, DataType t) { return 2 * std::max<int64_t>(1, target->lanes(t)); }

std::string cannot_pack(const Call& call, const Target& target) {
  if (!target) return "the width of a panel is the target's, and none is given";
  const auto &x = tensor_arg(call, 0), &w = tensor_arg(call, 1);
  if (x.dtype != w.dtype || !w.dtype.is_float() || w.dtype.bits < 32)
    return "panels are for two matrices of one type of 32 bits or more";
  const auto s = product_sizes(call, true);
  if (!s) return "a size is not known";
  const int64_t width = panel_width(target, w.dtype);
  if (s->columns == 0 || s->columns % width)
    return fmt::format("{} columns are no whole panels of {}", s->columns, width);
  if (call.args[1].is<graph::Constant>()) return {};  // laid out once, at compile time (pack_weights)
  // As pack_weights does it, which comes before lowering from -O2 on.
  if (!cost::worth_packing(s->rows, s->columns * s->inputs * w.dtype.bytes(), target))
    return fmt::format("{} rows of such a matrix do not pay for packing in every call", s->rows);
  return {};
}

/// The weight in panels first, (outputs / w, inputs, w), then the product over them.
Tensors define_dense_pack(const Call& call, const Tensors& in, int64_t width) {
  const TensorInfo out = output_info(call);
  const te::Tensor &x = in[0], &w = in[1];
  const DataType acc = accumulator_type(out.dtype);
  const PrimExpr panel(width), outputs = w.shape()[0], inputs = w.shape()[1];
  const te::Tensor panels = te::compute(
      {simplify(tir::floordiv(outputs, panel)), inputs, panel},
      [&](const Vars& v) { return w({v[0] * panel + v[2], v[1]}); }, "dense_panels");
  const tir::IterVar k = te::reduce_axis(tir::range(PrimExpr(0), inputs), "k");
  const te::Tensor sum = te::compute(
      out.shape,
      [&](const Vars& v) {
        Shape at = indices(v);
        const PrimExpr column = v[v.size() - 1];
        at.set(at.size() - 1, k->var);
        return te::sum(tir::cast(acc, x(at)) * tir::cast(acc, panels({tir::floordiv(column, panel), k->var,
                                                                      tir::floormod(column, panel)})),
                       {k});
      },
      "dense_pack");
  return {cast_to(sum, out.dtype)};
}

std::string no_library_product(const Call& call, const Target&) {
  const auto &x = tensor_arg(call, 0), &w = tensor_arg(call, 1);
  const auto* result = call.type ? graph::as_tensor(call.type) : nullptr;
  if (x.dtype != f32 || w.dtype != f32 || !result || result->dtype != f32)
    return "it multiplies float32 only";
  auto p = shape_of(x), q = shape_of(w);
  if (!p || !q || p->size() < 2 || q->size() < 2) return "a shape is not known";
  if (q->size() == 2) return {};
  bool same_batch = p->size() == q->size();
  for (size_t i = 0; same_batch && i + 2 < q->size(); ++i) same_batch = structural_equal((*p)[i], (*q)[i]);
  return same_batch ? "" : "it takes a second operand of two axes, or of the same batch";
}
/// "dense" by the library "cblas": `dense.cblas`, which calls tenon.cblas.dense (runtime/libraries/blas.cpp).
OpImpl by_library(const std::string& product, const std::string& library) {
  return {.name = product + "." + library,
          .priority = 15,
          .library = library,
          .refuse = no_library_product,
          .external = "tenon." + library + "." + product};
}
constexpr const char* kProductLibraries[] = {"cblas", "dnnl"};

Strategy dense_strategy() {
  Strategy s([](const Call& call, const Target&) { return std::vector<OpImpl>{own(call, "dense.sum")}; });
  s.override_for("cpu", [](const Call& call, const Target& target) {
    OpImpl pack{.name = "dense.panels", .priority = 10, .refuse = cannot_pack};
    pack.define = [target](const Call& c, const Tensors& in) {
      return define_dense_pack(c, in, panel_width(target, in[1].dtype()));
    };
    std::vector<OpImpl> all{own(call, "dense.sum", 5), std::move(pack)};
    for (const char* library : kProductLibraries) all.push_back(by_library("dense", library));
    return all;
  });
  return s;
}

Strategy matmul_strategy() {
  Strategy s([](const Call& call, const Target&) { return std::vector<OpImpl>{own(call, "matmul.sum")}; });
  s.override_for("cpu", [](const Call& call, const Target&) {
    std::vector<OpImpl> all{own(call, "matmul.sum")};
    for (const char* library : kProductLibraries) all.push_back(by_library("matmul", library));
    return all;
  });
  return s;
}

// ---------------------------------------------------------------- convolutions
std::string not_depthwise(const Call& call, size_t n) {
  const auto& a = attrs_of<ConvAttrs>(call);
  const auto q = shape_of(tensor_arg(call, 1));
  if (!q || !in_plain_layouts(call) || q->size() != n + 2) return kOtherLayouts;
  if (a.groups == 1 || !tir::is_one((*q)[1])) return "channels of a group are summed up";
  return {};
}
std::string cannot_be_product(const Call& call, size_t n) {
  const auto& a = attrs_of<ConvAttrs>(call);
  const auto &x = tensor_arg(call, 0), &w = tensor_arg(call, 1);
  if (!in_plain_layouts(call)) return kOtherLayouts;
  if (a.groups != 1) return fmt::format("{} groups are as many products", a.groups);
  if (x.dtype != w.dtype || !x.dtype.is_float() || x.dtype.bits < 32)
    return "it copies data of one type of 32 bits or more";
  const auto p = shape_of(x), q = shape_of(w);
  if (!p || !q || p->size() != n + 2 || q->size() != n + 2) return "a shape is not known";
  for (const Shape& s : {*p, *q})
    for (const PrimExpr& d : s)
      if (!tir::as_int(d)) return "a size is not known";
  if (std::all_of(q->begin() + 2, q->end(), tir::is_one)) return "windows of one element need no copy";
  return {};
}
/// The direct sum is faster wherever both were measured (float32, one core, Zen 4, weights that are inputs):
/// 2.6 ms against 4.2 (64 channels at 56×56), 2.4 against 2.9 (256 at 14×14), 2.7 against 7.6 (512 at 7×7),
/// 0.09 against 0.17 (3 at 112×112). The product is for targets and shapes that say otherwise.
Strategy conv_strategy(size_t n) {
  return Strategy([n](const Call& call, const Target&) {
    const std::string name = short_name(call);
    OpImpl depthwise = own(call, name + ".depthwise", 12), direct = own(call, name + ".direct", 10);
    depthwise.refuse = [n](const Call& c, const Target&) { return not_depthwise(c, n); };
    direct.refuse = [n](const Call& c, const Target&) -> std::string {
      return not_depthwise(c, n).empty() ? "no channels are summed up" : "";
    };
    OpImpl product{.name = name + ".im2col", .priority = 5};
    product.refuse = [n](const Call& c, const Target&) { return cannot_be_product(c, n); };
    product.define = [n](const Call& c, const Tensors& in) { return define_conv_as_product(c, in, n); };
    return std::vector<OpImpl>{std::move(depthwise), std::move(direct), std::move(product)};
  });
}

// ---------------------------------------------------------------- windows
/// Folds axis by axis pay for the tensor between the axes where they look at more than so many times fewer
/// elements: the figures are in the README of this folder.
constexpr int64_t kWindowGain = 2;
/// Where that tensor does not stay in the second cache, within this many times its size (one of symbolic size
/// does), or a whole axis of channels comes last, …
constexpr int64_t kCachesBetweenAxes = 2;
/// … they gain from here on: maxima of 5 × 5 at 64 × 112 × 112 take as long, means in NHWC up to twice as
/// long.
constexpr int64_t kWindowGainFar = 3;
/// Results that are this far apart along the lanes cost at once as if each of their elements were so many; by
/// axes the first folds have no gaps.
constexpr int64_t kMostLaneStride = 8;

Strategy pool_strategy(size_t n, Pooling kind) {
  return Strategy([n, kind](const Call& call, const Target&) {
    const std::string name = short_name(call);
    OpImpl by_axes{.name = name + ".by_axes", .priority = 12};
    by_axes.refuse = [n, kind](const Call& c, const Target& target) -> std::string {
      const WindowWork work = window_work(c, n, kind);
      const bool near =
          target && !work.channels_last && work.bytes.value_or(0) <= kCachesBetweenAxes * target->l2_bytes;
      const int64_t gain = near ? kWindowGain : kWindowGainFar;
      const int64_t at_once = work.at_once * std::min(work.lane_stride, kMostLaneStride);
      if (at_once > gain * work.by_axes) return {};
      return fmt::format("{} elements at once are no more than {} times {} axis by axis", at_once, gain,
                         work.by_axes);
    };
    by_axes.define = [n, kind](const Call& c, const Tensors& in) {
      return define_pool_by_axes(c, in, n, kind);
    };
    return std::vector<OpImpl>{std::move(by_axes), own(call, name + ".at_once")};
  });
}

// ---------------------------------------------------------------- rows that are folded twice
using FoldedBy = Shape (*)(const Call& call, const Shape& x);
using DefineFold = std::function<Tensors(const Call& call, const Tensors& in, const Blocked& blocks)>;

Strategy fold_strategy(FoldedBy folded, DefineFold define) {
  return Strategy([folded, define = std::move(define)](const Call& call, const Target& target) {
    const auto blocks_of = [folded](const Call& c, const Target& t) -> std::pair<Blocked, std::string> {
      const auto& x = tensor_arg(c, 0);
      const auto shape = shape_of(x);
      if (!shape) return {std::nullopt, "its shape is not known"};
      return row_blocks(*shape, folded(c, *shape), x.dtype.bytes(), t);
    };
    const std::string name = short_name(call);
    OpImpl by_blocks{.name = name + ".by_blocks", .priority = 12};
    by_blocks.refuse = [blocks_of](const Call& c, const Target& t) { return blocks_of(c, t).second; };
    by_blocks.define = [define, blocks_of, target](const Call& c, const Tensors& in) {
      return define(c, in, blocks_of(c, target).first);
    };
    return std::vector<OpImpl>{std::move(by_blocks), own(call, name + ".at_once")};
  });
}

// ---------------------------------------------------------------- recurrent layers
/// Vector registers that hold no sums: weights, states, addresses.
constexpr int64_t kOtherRegisters = 4;

/// Sequences whose sums by one block of weights are computed at once in matrix registers: more of them are
/// fewer reads of the weights, and longer code for their gates.
constexpr int64_t kMatrixSequences = 8;

/// How the target runs the steps: by as many sequences as have sums in its registers.
StepForm step_form(const Call& call, Recurrence kind, const Target& target) {
  const auto& attrs = attrs_of<RecurrentAttrs>(call);
  const auto r = shape_of(tensor_arg(call, 1));
  const auto width = r ? tir::as_int((*r)[3]) : std::nullopt;
  StepForm form;
  if (!width || !target) return form;
  const DataType type = tensor_arg(call, 1).dtype;
  const int64_t gates = in_two_passes(kind, attrs) ? 2 : gates_of(kind), block = *width / attrs.group;
  form.lanes = std::max<int64_t>(1, target->lanes(wide_type(type)));
  const int64_t vectors = std::max<int64_t>(1, gates * block / form.lanes);
  form.sequences =
      std::clamp<int64_t>((target->vector_registers - kOtherRegisters) / vectors, 1, form.sequences);
  const auto groups = tir::as_int((*r)[2]);
  form.matrix_registers = attrs.group > 1 && multiplies_matrices(target, type, type) && groups &&
                          *groups * kMatrixGroupBytes % kMatrixRowBytes == 0 && block % kMatrixLanes == 0;
  if (form.matrix_registers) form.sequences = kMatrixSequences;
  return form;
}
Strategy steps_strategy(Recurrence kind, const char* name) {
  return Strategy([kind, name](const Call& call, const Target& target) {
    OpImpl steps = own(call, name);
    steps.define = [kind, target](const Call& c, const Tensors& in) {
      return define_steps(c, in, kind, step_form(c, kind, target));
    };
    return std::vector<OpImpl>{std::move(steps)};
  });
}

const bool strategies_registered = [] {
  for (const char* library : kProductLibraries) register_target_library(library);
  register_strategy("nn.dense", dense_strategy());
  register_strategy("matmul", matmul_strategy());
  register_strategy("nn.conv1d", conv_strategy(1));
  register_strategy("nn.conv2d", conv_strategy(2));
  register_strategy("nn.conv3d", conv_strategy(3));
  register_strategy("nn.max_pool2d", pool_strategy(2, Pooling::max));
  register_strategy("nn.max_pool3d", pool_strategy(3, Pooling::max));
  register_strategy("nn.avg_pool2d", pool_strategy(2, Pooling::avg));
  register_strategy("nn.avg_pool3d", pool_strategy(3, Pooling::avg));
  register_strategy("nn.lp_pool2d", pool_strategy(2, Pooling::lp));
  register_strategy("nn.lp_pool3d", pool_strategy(3, Pooling::lp));
  register_strategy("nn.layer_norm", fold_strategy(folded_by_layer_norm, define_layer_norm));
  register_strategy("nn.group_norm", fold_strategy(folded_by_group_norm, define_group_norm));
  register_strategy("nn.instance_norm", fold_strategy(folded_by_instance_norm, define_instance_norm));
  register_strategy("nn.softmax", fold_strategy(folded_by_softmax, define_softmax));
  register_strategy("nn.log_softmax", fold_strategy(folded_by_softmax, define_log_softmax));
  register_strategy("logsumexp", fold_strategy(folded_by_reduction, define_logsumexp));
  for (const bool rooted : {false, true})
    register_strategy(
        rooted ? "std" : "variance",
        fold_strategy(folded_by_reduction, [rooted](const Call& c, const Tensors& in, const Blocked& b) {
          return define_spread(c, in, rooted, b);
        }));
  register_strategy("nn.packed_rnn", steps_strategy(Recurrence::rnn, "packed_rnn.blocks"));
  register_strategy("nn.packed_gru", steps_strategy(Recurrence::gru, "packed_gru.blocks"));
  register_strategy("nn.packed_lstm", steps_strategy(Recurrence::lstm, "packed_lstm.blocks"));
  return true;
}();

}  // namespace
}  // namespace tenon::op
