// SPDX-License-Identifier: Apache-2.0
// Recurrent layers: one operator for each direction, whatever is known of the number of steps.
#include <cmath>

#include "analysis/analyzer.h"
#include "import/onnx/importer.h"
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

/// An activation of ONNX: the operator's name for it, and the numbers that it has when none are given.
struct Activation {
  const char* onnx;
  const char* name;
  bool takes_alpha, takes_beta;
  double alpha, beta;
};
constexpr Activation kActivations[] = {{"Affine", "affine", true, true, 1, 0},
                                       {"Elu", "elu", true, false, 1, 0},
                                       {"HardSigmoid", "hard_sigmoid", true, true, 0.2, 0.5},
                                       {"LeakyRelu", "leaky_relu", true, false, 0.01, 0},
                                       {"Relu", "relu", false, false, 0, 0},
                                       {"ScaledTanh", "scaled_tanh", true, true, 1, 1},
                                       {"Sigmoid", "sigmoid", false, false, 0, 0},
                                       {"Softplus", "softplus", false, false, 0, 0},
                                       {"Softsign", "softsign", false, false, 0, 0},
                                       {"Tanh", "tanh", false, false, 0, 0},
                                       {"ThresholdedRelu", "thresholded_relu", true, false, 1, 0}};

/// Which activations of the operator's attributes the node's list gives, in order, by kind.
std::vector<size_t> places_of(const std::string& kind) {
  return kind == "LSTM"  ? std::vector<size_t>{0, 1, 2}
         : kind == "GRU" ? std::vector<size_t>{0, 1}
                         : std::vector<size_t>{1};
}

/// Attributes of each direction. Numbers of activations are given to those that take them, in order.
std::vector<Ref<RecurrentAttrs>> attrs_of_directions(NodeContext& n, int64_t directions) {
  const std::string& kind = n.op_type();
  const std::vector<size_t> places = places_of(kind);
  std::vector<Ref<RecurrentAttrs>> out;
  for (int64_t d = 0; d < directions; ++d) {
    auto a = make<RecurrentAttrs>();
    a.edit()->reverse = n.attr_string("direction", "forward") == "reverse" || d == 1;
    a.edit()->linear_before_reset = n.attr_int("linear_before_reset", 0) != 0;
    a.edit()->input_forget = n.attr_int("input_forget", 0) != 0;
    a.edit()->clip = n.attr_float("clip", 0);
    out.push_back(a);
  }
  const auto* given = n.attr("activations");
  if (!given) return out;
  const size_t wanted = places.size() * size_t(directions);
  if (size_t(given->strings_size()) != wanted)
    n.malformed(fmt::format("{} needs {} activations, {} are given", kind, wanted, given->strings_size()));
  const auto alphas = n.attr_floats("activation_alpha"), betas = n.attr_floats("activation_beta");
  size_t next_alpha = 0, next_beta = 0;
  for (size_t i = 0; i < wanted; ++i) {
    const std::string& name = given->strings(int(i));
    const auto* f = std::ranges::find(kActivations, name, &Activation::onnx);
    if (f == std::end(kActivations))
      n.unsupported(fmt::format("the activation {} of {} is not supported", in_quotes(name), kind));
    RecurrentAttrs* a = out[i / places.size()].edit();
    const size_t place = places[i % places.size()];
    (place == 0 ? a->gate : place == 1 ? a->input : a->output) = f->name;
    a->alphas.set(place, f->takes_alpha && next_alpha < alphas.size() ? alphas[next_alpha++] : f->alpha);
    a->betas.set(place, f->takes_beta && next_beta < betas.size() ? betas[next_beta++] : f->beta);
  }
  return out;
}

Values recurrent(NodeContext& n) {
  const std::string& kind = n.op_type();
  const int64_t gates = kind == "LSTM" ? 4 : kind == "GRU" ? 3 : 1;
  if (n.rank(0) != 3) n.malformed(fmt::format("{} takes a tensor of rank 3", kind));
  n.expect_one_dtype({0, 1, 2, 3, 5, 6, 7});
  const std::string direction = n.attr_string("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    n.malformed(fmt::format("the direction {} of {} is not known", in_quotes(direction), kind));
  const int64_t directions = direction == "bidirectional" ? 2 : 1;
  const auto attrs = attrs_of_directions(n, directions);
  const bool batch_first = n.attr_int("layout", 0) != 0;
  const Expr x = batch_first ? n.transpose(n.in(0), {1, 0, 2}) : n.in(0);
  const DataType t = n.dtype(0);
  const auto s = n.known_shape(0, 3, 3), w = n.known_shape(1, 3, 3), r = n.known_shape(2, 3, 3);
  const PrimExpr steps = s[batch_first ? 1 : 0], batch = s[batch_first ? 0 : 1], units = r[2];
  if (!tir::is_const_int(w[0], directions) || !tir::is_const_int(r[0], directions))
    n.malformed(fmt::format("the weights of {} do not fit its direction", kind));
  if (const auto h = tir::as_int(units); h && !tir::is_const_int(r[1], *h * gates))
    n.malformed(fmt::format("the weights of {} do not fit its gates", kind));
  if (const auto h = tir::as_int(units); h && n.attr_int("hidden_size", *h) != *h)
    n.malformed(fmt::format("'hidden_size' of {} is {}, its weights have {}", kind,
                            n.attr_int("hidden_size", *h), *h));
  auto zeros = [&](Array<PrimExpr> shape) {
    return n.op("full", {graph::shape_expr(std::move(shape)), n.scalar(0, t)}, make_attrs<DTypeAttrs>(t));
  };
  auto state = [&](size_t i, int64_t d) {
    if (!n.has(i)) return zeros({batch, units});
    const Expr given = batch_first ? n.transpose(n.in(i), {1, 0, 2}) : n.in(i);
    return direction_of(n, n.checked(given, {PrimExpr(directions), batch, units}), d);
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
    const Expr out = n.op(kind == "LSTM"  ? "nn.lstm"
                          : kind == "GRU" ? "nn.gru"
                                          : "nn.rnn",
                          args, attrs[size_t(d)]);
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
const RegisterConverter l1("LSTM", {1, 7, 14, 22}, recurrent), l2("GRU", {1, 3, 7, 14, 22}, recurrent),
    l3("RNN", {1, 7, 14, 22}, recurrent);

}  // namespace
}  // namespace tenon::onnx
