// SPDX-License-Identifier: Apache-2.0
// Recurrent layers as one operator each, and linear attention: recurrent layers: for sequences of different
// lengths, and for step counts that are large or only known when the model runs. Few known steps are unrolled
// instead (convert_sequence.cpp).
#include "analysis/analyzer.h"
#include "import/onnx/dynamic.h"
#include "op/attrs_recurrent.h"

namespace tenon::onnx {

using namespace op;

namespace {

/// Direction d of a tensor whose first axis is the direction.
Expr direction_of(NodeContext& n, const Expr& e, int64_t d) {
  auto shape = graph::known_shape(e);
  if (!shape || shape->empty()) n.unsupported(fmt::format("{} needs weights of known shape", n.op_type()));
  Array<PrimExpr> rest(shape->begin() + 1, shape->end());
  const Expr one = n.op("strided_slice", {e},
                        make_attrs<StridedSliceAttrs>(Array<int64_t>{0}, Array<PrimExpr>{PrimExpr(d)},
                                                      Array<PrimExpr>{PrimExpr(d + 1)}, Array<int64_t>{1}));
  return n.reshape(one, rest);
}

void expect_plain_activations(NodeContext& n, int64_t directions) {
  const auto* a = n.attr("activations");
  if (!a) return;
  const std::string& kind = n.op_type();
  const std::vector<std::string> usual = kind == "LSTM"  ? std::vector<std::string>{"Sigmoid", "Tanh", "Tanh"}
                                         : kind == "GRU" ? std::vector<std::string>{"Sigmoid", "Tanh"}
                                                         : std::vector<std::string>{"Tanh"};
  bool plain = int64_t(a->strings_size()) == directions * int64_t(usual.size());
  for (int i = 0; plain && i < a->strings_size(); ++i)
    plain = a->strings(i) == usual[size_t(i) % usual.size()];
  if (!plain)
    n.unsupported(
        fmt::format("{} in this form with other activations than the usual ones is not supported", kind));
}

}  // namespace

Values recurrent_layer(NodeContext& n) {
  const std::string& kind = n.op_type();
  const int64_t gates = kind == "LSTM" ? 4 : kind == "GRU" ? 3 : 1;
  const std::string direction = n.attr_string("direction", "forward");
  const int64_t directions = direction == "bidirectional" ? 2 : 1;
  expect_plain_activations(n, directions);
  const bool batch_first = n.attr_int("layout", 0) != 0;
  const Expr x = batch_first ? n.transpose(n.in(0), {1, 0, 2}) : n.in(0);
  const DataType t = n.dtype(0);
  const auto s = n.known_shape(0, 3, 3), r = n.known_shape(2, 3, 3);
  const PrimExpr steps = s[batch_first ? 1 : 0], batch = s[batch_first ? 0 : 1], units = r[2];
  auto zeros = [&](Array<PrimExpr> shape) {
    return n.op("full", {graph::shape_expr(std::move(shape)), n.scalar(0, t)}, make_attrs<DTypeAttrs>(t));
  };
  auto state = [&](size_t i, int64_t d) {
    if (!n.has(i)) return zeros({batch, units});
    return direction_of(n, batch_first ? n.transpose(n.in(i), {1, 0, 2}) : n.in(i), d);
  };
  Expr lengths;
  if (n.has(4)) {
    lengths = n.checked_indices(n.cast(n.in(4), i64), {simplify(steps + 1)}, false);
  } else {
    const Expr count = n.op("shape_to_tensor", {graph::shape_expr({steps})});
    lengths = n.op("broadcast_to", {count, graph::shape_expr({batch})});
  }
  Array<Expr> ys, hs, cs;
  for (int64_t d = 0; d < directions; ++d) {
    auto a = make<RecurrentAttrs>();
    a.edit()->reverse = direction == "reverse" || d == 1;
    a.edit()->linear_before_reset = n.attr_int("linear_before_reset", 0) != 0;
    a.edit()->input_forget = n.attr_int("input_forget", 0) != 0;
    a.edit()->clip = n.attr_float("clip", 0);
    Array<Expr> args{x,
                     direction_of(n, n.in(1), d),
                     direction_of(n, n.in(2), d),
                     n.has(3) ? direction_of(n, n.in(3), d) : zeros({simplify(units * (2 * gates))}),
                     lengths,
                     state(5, d)};
    if (kind == "LSTM") {
      args.push_back(state(6, d));
      args.push_back(n.has(7) ? direction_of(n, n.in(7), d) : zeros({simplify(units * 3)}));
    }
    const Expr out = n.op(kind == "LSTM" ? "nn.lstm" : kind == "GRU" ? "nn.gru" : "nn.rnn", args, a);
    ys.push_back(n.reshape(n.item(out, 0), {steps, PrimExpr(1), batch, units}));
    hs.push_back(n.reshape(n.item(out, 1), {PrimExpr(1), batch, units}));
    if (kind == "LSTM") cs.push_back(n.reshape(n.item(out, 2), {PrimExpr(1), batch, units}));
  }
  auto joined = [&](const Array<Expr>& parts, int64_t axis) {
    return parts.size() == 1 ? parts[0] : n.op("concat", {n.emit(tuple(parts))}, make_attrs<AxisAttrs>(axis));
  };
  auto last = [&](const Array<Expr>& parts) {
    const Expr e = joined(parts, 0);
    return batch_first ? n.transpose(e, {1, 0, 2}) : e;
  };
  const Expr y = joined(ys, 1);
  Values out{batch_first ? n.transpose(y, {2, 0, 1, 3}) : y, last(hs)};
  if (kind == "LSTM") out.push_back(last(cs));
  return out;
}

}  // namespace tenon::onnx
