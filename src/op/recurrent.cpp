// SPDX-License-Identifier: Apache-2.0
// Recurrent layers over any number of steps, and single steps as cells. The inputs' share of all steps is one
// product; the steps run over weights in blocks (recurrent_steps.cpp). Gates lie in ONNX's order: lstm i o f
// c, gru z r h.
#include <fmt/format.h>

#include "base/define_type.h"
#include "op/attrs_recurrent.h"
#include "op/compose.h"
#include "target/matrix_registers.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;
using Terms = std::vector<Term>;

bool expect_dims(InferContext& ctx, size_t i, const Shape& want) {
  const auto& t = ctx.tensor(i);
  auto s = shape_of(t);
  if (!s) return true;
  bool fits = s->size() == want.size();
  for (size_t k = 0; fits && k < want.size(); ++k) fits = ctx.require_equal((*s)[k], want[k]);
  if (!fits) return ctx.error(fmt::format("{} is {}, not {}", ctx.name(i), show(*s), show(want)));
  return true;
}
bool expect_activations(InferContext& ctx) {
  const auto& a = ctx.attrs<RecurrentAttrs>();
  if (a.alphas.size() != 3 || a.betas.size() != 3)
    return ctx.error("alphas and betas have three numbers each: of gate, input and output");
  if (const std::string name = unknown_activation(a); !name.empty())
    return ctx.error(fmt::format("the activation '{}' is not known", name));
  return true;
}
// Arguments: x, w, r, b, lengths, h0, and for lstm c0 and the peepholes p.
Type infer_recurrent(InferContext& ctx, Recurrence kind) {
  const auto& x = ctx.tensor(0);
  if (!ctx.expect_domain(x.dtype, Domain::floating)) return {};
  if (!ctx.expect_rank(x, "x", 3)) return {};
  if (!ctx.expect_rank(ctx.tensor(2), "r", 2)) return {};
  if (!expect_activations(ctx)) return {};
  if (ctx.attrs<RecurrentAttrs>().group != 1)
    return ctx.error("weights lie in groups in the packed operators only");
  for (size_t i = 1; i < ctx.call.args.size(); ++i)
    if (i != 4 && !ctx.expect_same_type(x.dtype, ctx.tensor(i).dtype)) return {};
  auto s = shape_of(x), r = shape_of(ctx.tensor(2));
  const size_t states = kind == Recurrence::lstm ? 3 : 2;
  if (!s || !r) {
    Array<Type> unknown{make_type(std::nullopt, 3, x.dtype)};
    for (size_t i = 1; i < states; ++i) unknown.push_back(make_type(std::nullopt, 2, x.dtype));
    return graph::tuple_type(unknown);
  }
  const PrimExpr h = (*r)[1], batch = (*s)[1], rows = simplify(h * gates_of(kind));
  if (!expect_dims(ctx, 1, {rows, (*s)[2]})) return {};
  if (!expect_dims(ctx, 2, {rows, h})) return {};
  if (!expect_dims(ctx, 3, {simplify(rows * 2)})) return {};
  if (!expect_dims(ctx, 4, {batch})) return {};
  if (!ctx.expect_domain(ctx.tensor(4).dtype, Domain::integer)) return {};
  if (!expect_dims(ctx, 5, {batch, h})) return {};
  if (kind == Recurrence::lstm) {
    if (!expect_dims(ctx, 6, {batch, h})) return {};
    if (!expect_dims(ctx, 7, {simplify(h * 3)})) return {};
  }
  Array<Type> out{make_type(Shape{(*s)[0], batch, h}, 3, x.dtype)};
  for (size_t i = 1; i < states; ++i) out.push_back(make_type(Shape{batch, h}, 2, x.dtype));
  return graph::tuple_type(out);
}

/// Weights (gates · units, …) whose last axis is `letter`, or that have none, by blocks of units.
Term in_blocks(const Term& w, const Shape& shape, const char* from, const std::string& to,
               const Shape& result) {
  return w.reshaped(shape)
      .op("layout_transform", make_attrs<LayoutTransformAttrs>(std::string(from), to))
      .reshaped(result);
}

/// A layer by the operators that it is made of: the inputs' share of all steps is one product, then the steps
/// run over weights in blocks. Null: sizes are not known.
Term layer_form(InferContext& ctx, const Terms& in, Recurrence kind) {
  const auto x = in[0].dims(), r = in[2].dims();
  if (!x || !r) return {};
  const int64_t gates = gates_of(kind),
                block = unit_block(kind, ctx.attrs<RecurrentAttrs>(), tir::as_int((*r)[1]).value_or(0),
                                   tir::as_int((*x)[1]).value_or(0));
  const PrimExpr units = (*r)[1], blocks = simplify(tir::ceildiv(units, PrimExpr(block)));
  const PrimExpr columns = simplify(blocks * (gates * block));
  const DataType t = wide_type(in[0].dtype());
  const auto attrs = ctx.call.attrs;
  const std::string u = std::to_string(block) + "u";
  const Term w =
      in_blocks(in[1], {PrimExpr(gates), units, (*x)[2]}, "GUI", "UG" + u + "I", {columns, (*x)[2]});
  const Term of_state = in_blocks(in[2], {PrimExpr(gates), units, units}, "GUK", "UGK" + u,
                                  {blocks, PrimExpr(gates), units, PrimExpr(block)});
  const Term biases =
      in_blocks(in[3].as(t), {PrimExpr(2), PrimExpr(gates), units}, "BGU", "BUG" + u, {PrimExpr(2), columns});
  auto bias = [&](int64_t i) {
    return biases
        .op("strided_slice", make_attrs<StridedSliceAttrs>(Array<int64_t>{0}, Shape{PrimExpr(i)},
                                                           Shape{PrimExpr(i + 1)}, Array<int64_t>{1}))
        .reshaped({columns});
  };
  const Term product = in[0].op("nn.dense", {w}, make_attrs<MatmulAttrs>(t));
  if (kind == Recurrence::gru)
    return (product + bias(0)).op("nn.packed_gru", {of_state, bias(1), in[4], in[5]}, attrs);
  const Term share = product + (bias(0) + bias(1));
  if (kind == Recurrence::rnn) return share.op("nn.packed_rnn", {of_state, in[4], in[5]}, attrs);
  const Term peepholes =
      in_blocks(in[7], {PrimExpr(3), units}, "PU", "UP" + u, {blocks, PrimExpr(3), PrimExpr(block)});
  return share.op("nn.packed_lstm", {of_state, in[4], in[5], in[6], peepholes}, attrs);
}

// Arguments: the inputs' share, the state's weights in blocks (and their units in groups), of gru the state's
// bias, lengths, h0, of lstm c0 and the peepholes in blocks.
Type infer_steps(InferContext& ctx, Recurrence kind) {
  const auto &share = ctx.tensor(0), &r = ctx.tensor(1);
  if (!ctx.expect_domain(r.dtype, Domain::floating)) return {};
  if (!ctx.expect_rank(share, "share", 3)) return {};
  if (!ctx.expect_rank(r, "r", 4)) return {};
  if (!ctx.expect_same_type(wide_type(r.dtype), share.dtype)) return {};
  if (!expect_activations(ctx)) return {};
  const auto s = shape_of(share), w = shape_of(r);
  const size_t states = kind == Recurrence::lstm ? 3 : 2;
  auto types = [&](const std::optional<Shape>& all, const std::optional<Shape>& one) {
    Array<Type> out{make_type(all, 3, r.dtype)};
    for (size_t i = 1; i < states; ++i) out.push_back(make_type(one, 2, r.dtype));
    return graph::tuple_type(out);
  };
  if (!s || !w) return types({}, {});
  const int64_t gates = gates_of(kind);
  const int64_t group = ctx.attrs<RecurrentAttrs>().group;
  if (group != 1 && (r.dtype != DataType::bfloat16() || group * r.dtype.bytes() != kMatrixGroupBytes))
    return ctx.error(
        fmt::format("r is of {} in groups of {}: pairs of bfloat16 are known", to_string(r.dtype), group));
  const auto last = tir::as_int((*w)[3]);
  const auto block = last && *last % group == 0 ? std::optional(*last / group) : std::nullopt;
  if (!block || *block < 1 || !tir::is_const_int((*w)[1], gates))
    return ctx.error(fmt::format("r is {}: no blocks of {} gates", show(*w), gates),
                     "(blocks, gates, units / group, block · group)");
  const PrimExpr columns = simplify((*w)[0] * (gates * *block)), units = simplify((*w)[2] * group),
                 batch = (*s)[1];
  if (const auto n = tir::as_int(units), blocks = tir::as_int((*w)[0]); n && blocks && *blocks * *block < *n)
    return ctx.error(fmt::format("r is {}: its blocks hold fewer than {} units", show(*w), *n));
  size_t i = 0;
  if (!expect_dims(ctx, i++, {(*s)[0], batch, columns})) return {};
  ++i;
  if (kind == Recurrence::gru && !expect_dims(ctx, i++, {columns})) return {};
  if (!ctx.expect_domain(ctx.tensor(i).dtype, Domain::integer)) return {};
  if (!expect_dims(ctx, i++, {batch})) return {};
  if (!expect_dims(ctx, i++, {batch, units})) return {};
  if (kind == Recurrence::lstm) {
    if (!expect_dims(ctx, i++, {batch, units})) return {};
    if (!expect_dims(ctx, i++, {(*w)[0], PrimExpr(3), PrimExpr(*block)})) return {};
  }
  return types(Shape{(*s)[0], batch, units}, Shape{batch, units});
}

ObjectRef in_groups(const ObjectRef& attrs, int64_t group) {
  const auto& plain = *attrs.as<RecurrentAttrs>();
  if (plain.group != 1) return {};
  return make_attrs<RecurrentAttrs>([&](RecurrentAttrs& a) { a = plain, a.group = group; });
}

// ---------------------------------------------------------------- cells
/// Gate `i` of the last axis, where each has h values.
Term gate_of(const Term& x, int64_t i, const PrimExpr& h) {
  return x.op("strided_slice",
              make_attrs<StridedSliceAttrs>(Array<int64_t>{-1}, Shape{simplify(h * i)},
                                            Shape{simplify(h * (i + 1))}, Array<int64_t>{1}));
}
/// Inputs and state times their weights, with their biases.
struct Products {
  Term x, h;
  PrimExpr units;
};
std::optional<Products> products_of(InferContext& ctx, const Term& x, const Term& state, const Term& w,
                                    const Term& r, const Term& b, int64_t gates) {
  const auto s = r.dims();
  if (!ctx.expect_domain(x.dtype(), Domain::floating) || !s) return std::nullopt;
  if (s->size() != 2) return ctx.error(fmt::format("r is {}, no matrix", show(*s)));
  const PrimExpr rows = simplify((*s)[1] * gates);
  return Products{x.op("nn.dense", {w}) + gate_of(b, 0, rows),
                  state.op("nn.dense", {r}) + gate_of(b, 1, rows), (*s)[1]};
}
Term lstm_cell(InferContext& ctx, const Terms& a) {
  const auto p = products_of(ctx, a[0], a[1], a[3], a[4], a[5], 4);
  if (!p) return {};
  const Term sums = p->x + p->h;
  auto gate = [&](int64_t i) { return gate_of(sums, i, p->units); };
  const Term in = gate(0).op("sigmoid"), out = gate(1).op("sigmoid"), forget = gate(2).op("sigmoid");
  const Term c = forget * a[2] + in * gate(3).op("tanh");
  return tuple({out * c.op("tanh"), c});
}
Term gru_cell(InferContext& ctx, const Terms& a) {
  const auto p = products_of(ctx, a[0], a[1], a[2], a[3], a[4], 3);
  if (!p) return {};
  auto gate = [&](const Term& x, int64_t i) { return gate_of(x, i, p->units); };
  auto open = [&](int64_t i) { return (gate(p->x, i) + gate(p->h, i)).op("sigmoid"); };
  const Term z = open(0), fresh = (gate(p->x, 2) + open(1) * gate(p->h, 2)).op("tanh");
  return fresh + z * (a[1] - fresh);
}
Term rnn_cell(InferContext& ctx, const Terms& a) {
  const auto p = products_of(ctx, a[0], a[1], a[2], a[3], a[4], 1);
  return p ? (p->x + p->h).op("tanh") : Term();
}

const bool recurrent_registered = [] {
  auto layer = [](OpName name, const char* doc, Recurrence kind) {
    auto form = [kind](InferContext& ctx, const Terms& in) { return layer_form(ctx, in, kind); };
    return register_composed(std::move(name), doc, FusionKind::opaque, form)
        .argument("x", "Tensor", "(steps, batch, inputs)")
        .argument("w", "Tensor", "(gates · units, inputs)")
        .argument("r", "Tensor", "(gates · units, units)")
        .argument("b", "Tensor", "(2 · gates · units): of the inputs, then of the state")
        .argument("lengths", "Tensor", "steps of each sequence (batch); what is behind gives zeros")
        .argument("h0", "Tensor", "first state (batch, units)")
        .infer([kind](InferContext& ctx) { return infer_recurrent(ctx, kind); })
        .canonical([form](InferContext& ctx) {
          Terms in;
          for (const Expr& e : ctx.call.args) in.push_back({ctx, e});
          const Term value = form(ctx, in);
          return value ? value.expr() : Expr();
        })
        .attrs<RecurrentAttrs>();
  };
  layer("nn.rnn", "tanh of inputs and state, step by step: all states, and the last.", Recurrence::rnn);
  layer("nn.gru", "Gated recurrent units: all states, and the last.", Recurrence::gru);
  layer("nn.lstm", "Long short-term memory: all states, the last, and the last cell.", Recurrence::lstm)
      .argument("c0", "Tensor", "first cell (batch, units)")
      .argument("p", "Tensor", "peepholes (3 · units): i, o, f");
  auto steps = [](OpName name, const char* doc, Recurrence kind) {
    auto r =
        register_op(std::move(name), doc)
            .argument("share", "Tensor", "the inputs' share, biases included (steps, batch, columns)")
            .argument("r", "Tensor", "weights of the state (blocks, gates, units / group, block · group)")
            .grouped_weight({1, in_groups});
    if (kind == Recurrence::gru) r.argument("b", "Tensor", "bias of the state's products (columns)");
    r.argument("lengths", "Tensor", "steps of each sequence (batch); what is behind gives zeros")
        .argument("h0", "Tensor", "first state (batch, units)");
    if (kind == Recurrence::lstm)
      r.argument("c0", "Tensor", "first cell (batch, units)")
          .argument("p", "Tensor", "peepholes in blocks (blocks, 3, block): i, o, f");
    r.infer([kind](InferContext& ctx) { return infer_steps(ctx, kind); })
        .fusion(FusionKind::opaque)
        .attrs<RecurrentAttrs>()
        .tensor_def(
            [kind](const Call& c, const Tensors& in) { return define_steps(c, in, kind, StepForm()); });
  };
  steps("nn.packed_rnn", "Steps of nn.rnn: columns are blocks of units.", Recurrence::rnn);
  steps("nn.packed_gru", "Steps of nn.gru: columns are blocks of units, gate by gate.", Recurrence::gru);
  steps("nn.packed_lstm", "Steps of nn.lstm: columns are blocks of units, gate by gate.", Recurrence::lstm);
  auto cell = [](OpName name, const char* doc, Compose f) {
    return register_composed(std::move(name), doc, FusionKind::opaque, std::move(f))
        .argument("x", "Tensor", "(batch, inputs)")
        .argument("h", "Tensor", "state (batch, units)");
  };
  auto weights = [](OpRegistration r) {
    r.argument("w", "Tensor", "(gates · units, inputs)")
        .argument("r", "Tensor", "(gates · units, units)")
        .argument("b", "Tensor", "(2 · gates · units)");
  };
  weights(cell("nn.rnn_cell", "One step of nn.rnn.", rnn_cell));
  weights(cell("nn.gru_cell", "One step of nn.gru with linear_before_reset.", gru_cell));
  weights(cell("nn.lstm_cell", "One step of nn.lstm: state and cell.", lstm_cell)
              .argument("c", "Tensor", "cell (batch, units)"));
  return true;
}();

}  // namespace
}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::RecurrentAttrs>;
