// SPDX-License-Identifier: Apache-2.0
// pack_weights: constant matrices of products lie in panels as wide as the register tile, so that the inner
// loop reads them one after the other; so do large matrices that are not constant when many rows read them.
//
//   before   lv = R.matmul(x, w)             # w (k, n), a constant; R.nn.dense with w (n, k) alike
//   after    lv = R.layout_transform(w, "KN" → "NK32n")        # folded by the next fold_constant
//            lv1 = R.nn.packed_matmul(x, lv, units=n)
//
// The width of a panel comes from the target record and the number of rows of x: the tile of rows × vectors
// with the largest useful share that the vector registers hold. Needs: types, a target. Keeps: values; sums
// run over k in the same order.
#include <fmt/format.h>

#include <algorithm>

#include "op/build.h"
#include "pass/graph/passes.h"
#include "pass/graph/rewriter.h"
#include "target/target.h"

namespace tenon {
namespace graph {
namespace {

double use_of(int64_t size, int64_t step) {
  const int64_t whole = (size + step - 1) / step * step;
  return whole == 0 ? 1 : double(size) / double(whole);
}

/// Vectors side by side in a panel for `rows` (0: unknown) and `columns` of the result.
int64_t panel_vectors(int64_t rows, int64_t columns, int64_t lanes, int64_t bytes, int64_t registers) {
  int64_t best = 1;
  double best_speed = 0;
  for (int64_t vectors : {1, 2, 3, 4, 6}) {
    for (int64_t m = 1; m <= 14; ++m) {
      const int64_t tile = m * vectors;
      if (tile + vectors > registers - 2 || (rows > 0 && m > rows)) continue;
      // Two multiply-adds a cycle with a latency of four; two loads a cycle, broadcasts among them; what a
      // step reads comes from the second cache at best.
      const double cycles = std::max({double(tile) / 2, (double(vectors) + 0.6 * double(m)) / 2, 4.0}) +
                            double((vectors * lanes + m) * bytes) / 256;
      const double speed = double(tile) / cycles * use_of(columns, vectors * lanes) *
                           (rows > 0 ? use_of(rows, m) : 1 / (1 + 0.01 * double(m)));
      if (speed > best_speed * 1.001) {
        best_speed = speed;
        best = vectors;
      }
    }
  }
  return best;
}

class PackWeights : public BodyRewriter {
 public:
  explicit PackWeights(Target target) : target_(std::move(target)) {}

 protected:
  Expr visit(const Expr& value, const VarRef& var) override {
    const Op* op = op_of(value);
    const bool dense = op && op->name == "nn.dense";
    if (!op || (!dense && op->name != "matmul")) return value;
    const Call& call = *value.as<Call>();
    const auto *x = as_tensor(call.args[0]), *w = as_tensor(call.args[1]);
    const auto shape_w = static_shape(call.args[1]->type);
    if (!x || !w || !shape_w || x->ndim < 2 || shape_w->size() != 2 || element_count(*shape_w) == 0)
      return value;
    const DataType type = w->dtype;
    if (type != x->dtype || !type.is_float() || type.bits < 32) return value;
    const int64_t columns = (*shape_w)[dense ? 0 : 1];
    // A tile takes its rows from one axis: the longest.
    int64_t rows = 0;
    if (auto shape = known_shape(call.args[0]))
      for (size_t i = 0; i + 1 < shape->size(); ++i)
        rows = std::max(rows, tir::as_int((*shape)[i]).value_or(0));
    // What is not constant is packed for every call: worth it for matrices that no near cache holds, read
    // often.
    if (!call.args[1].is<Constant>() &&
        (rows < 64 || element_count(*shape_w) * type.bytes() < 2 * target_->l2_bytes))
      return value;
    const int64_t lanes = std::max<int64_t>(1, target_->lanes(type));
    const int64_t vectors =
        panel_vectors(rows, columns, lanes, type.bytes(), std::max<int64_t>(8, target_->vector_registers));
    const std::string source = dense ? "NK" : "KN", packed = fmt::format("NK{}n", vectors * lanes);
    Expr panels = emit(op::op_call("layout_transform", {call.args[1]},
                                   op::make_attrs<op::LayoutTransformAttrs>(source, packed), call.origin),
                       var->name + "_panels");
    return op::op_call(
        "nn.packed_matmul", {call.args[0], panels},
        op::make_attrs<op::PackedMatmulAttrs>(columns, op::attrs_of<op::MatmulAttrs>(call).out_dtype),
        call.origin);
  }

 private:
  Target target_;
};

}  // namespace
}  // namespace graph

IRModule pack_weights(IRModule module, PassContext& context) {
  Target target = context.target.cast<TargetNode>();
  // Without evaluation constants would be packed again in every call.
  if (!target || !context.evaluate) return module;
  return graph::rewrite_functions<graph::PackWeights>(std::move(module), target);
}

}  // namespace tenon
