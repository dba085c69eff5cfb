// SPDX-License-Identifier: Apache-2.0
// Recurrent layers over any number of steps, and single steps as cells. The inputs' share of all steps is one
// product; then each sequence of the batch runs through its steps by itself. Gates lie in ONNX's order:
// lstm i o f c, gru z r h.
#include <fmt/format.h>

#include "base/define_type.h"
#include "op/attrs_recurrent.h"
#include "op/compose.h"
#include "op/program.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;

enum class Recurrence { rnn, gru, lstm };
int64_t gates_of(Recurrence r) { return r == Recurrence::lstm ? 4 : r == Recurrence::gru ? 3 : 1; }

bool expect_dims(InferContext& ctx, size_t i, const Shape& want) {
  const auto& t = ctx.tensor(i);
  auto s = shape_of(t);
  if (!s) return true;
  bool fits = s->size() == want.size();
  for (size_t k = 0; fits && k < want.size(); ++k) fits = ctx.require_equal((*s)[k], want[k]);
  if (!fits) return ctx.error(fmt::format("{} is {}, not {}", ctx.name(i), show(*s), show(want)));
  return true;
}
// Arguments: x, w, r, b, lengths, h0, and for lstm c0 and the peepholes p.
Type infer_recurrent(InferContext& ctx, Recurrence kind) {
  const auto& x = ctx.tensor(0);
  if (!ctx.expect_domain(x.dtype, Domain::floating)) return {};
  if (!ctx.expect_rank(x, "x", 3)) return {};
  if (!ctx.expect_rank(ctx.tensor(2), "r", 2)) return {};
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

/// The program of the steps. Buffers: the inputs' share (steps, batch, gates · h), r, b, lengths, h0, c0, p.
struct Steps {
  Recurrence kind;
  const RecurrentAttrs& a;
  DataType t;
  PrimExpr steps, batch, h;
  tir::Buffer share, r, b, lengths, h0, c0, peep, y, state, cell, sums;

  PrimExpr num(double v) const { return constant(t, v); }
  PrimExpr limited(const PrimExpr& e) const {
    return a.clip > 0 ? tir::min(tir::max(e, num(-a.clip)), num(a.clip)) : e;
  }
  PrimExpr gate_index(int64_t gate, const PrimExpr& u) const { return h * gate + u; }
  /// The state's share of a gate of unit u.
  tir::Stmt product(const PrimExpr& n, const PrimExpr& row, const tir::Buffer& of) const {
    const Shape at{n, row};
    const tir::Stmt clear = tir::store(sums, num(0), at);
    return tir::seq({clear, each("k", h, [&](const PrimExpr& k) {
                       const PrimExpr term = tir::load(of, {n, k}) * tir::cast(t, tir::load(r, {row, k}));
                       return tir::store(sums, tir::load(sums, at) + term, at);
                     })});
  }
  PrimExpr sum(const PrimExpr& n, int64_t gate, const PrimExpr& u) const {
    return tir::load(sums, {n, gate_index(gate, u)});
  }
  PrimExpr input(const PrimExpr& step, const PrimExpr& n, int64_t gate, const PrimExpr& u) const {
    return tir::load(share, {step, n, gate_index(gate, u)});
  }
  PrimExpr bias(int64_t gate, const PrimExpr& u) const {
    return tir::cast(t, tir::load(b, {h * gates_of(kind) + gate_index(gate, u)}));
  }
  PrimExpr peephole(int64_t gate, const PrimExpr& u, const PrimExpr& c) const {
    return tir::cast(t, tir::load(peep, {gate_index(gate, u)})) * c;
  }

  tir::Stmt lstm(const PrimExpr& step, const PrimExpr& n) const {
    auto total = [&](int64_t g, const PrimExpr& u) {
      return input(step, n, g, u) + bias(g, u) + sum(n, g, u);
    };
    return each("u", h, [&](const PrimExpr& u) {
      const Shape at{n, u};
      return named("old", tir::load(cell, at), [&](const PrimExpr& old) {
        return named("i", tir::sigmoid(limited(total(0, u) + peephole(0, u, old))), [&](const PrimExpr& i) {
          const PrimExpr forget =
              a.input_forget ? num(1) - i : tir::sigmoid(limited(total(2, u) + peephole(2, u, old)));
          const PrimExpr fresh = forget * old + i * tir::tanh(limited(total(3, u)));
          return named("fresh", fresh, [&](const PrimExpr& c) {
            const PrimExpr o = tir::sigmoid(limited(total(1, u) + peephole(1, u, c)));
            return tir::seq({tir::store(cell, c, at), tir::store(state, o * tir::tanh(c), at)});
          });
        });
      });
    });
  }
  tir::Stmt gru(const PrimExpr& step, const PrimExpr& n) const {
    auto gate = [&](int64_t g, const PrimExpr& u) {
      return tir::sigmoid(limited(input(step, n, g, u) + bias(g, u) + sum(n, g, u)));
    };
    auto put = [&](int64_t g, const PrimExpr& u, const PrimExpr& v) {
      return tir::store(sums, v, {n, gate_index(g, u)});
    };
    // Both gates first; then the sums of the third, of the state or of the state less what the reset gate
    // takes.
    const tir::Stmt gates = each(
        "u", h, [&](const PrimExpr& u) { return tir::seq({put(0, u, gate(0, u)), put(1, u, gate(1, u))}); });
    const tir::Stmt kept = each("u", h, [&](const PrimExpr& u) {
      return tir::store(
          cell, a.linear_before_reset ? tir::load(state, {n, u}) : tir::load(state, {n, u}) * sum(n, 1, u),
          {n, u});
    });
    const tir::Stmt products =
        each("u", h, [&](const PrimExpr& u) { return product(n, gate_index(2, u), cell); });
    const tir::Stmt update = each("u", h, [&](const PrimExpr& u) {
      const PrimExpr inner =
          a.linear_before_reset ? sum(n, 1, u) * (sum(n, 2, u) + bias(2, u)) : sum(n, 2, u) + bias(2, u);
      const PrimExpr fresh = tir::tanh(limited(input(step, n, 2, u) + inner)), z = sum(n, 0, u);
      return tir::store(state, (num(1) - z) * fresh + z * tir::load(state, {n, u}), {n, u});
    });
    return tir::seq({gates, kept, products, update});
  }
  tir::Stmt rnn(const PrimExpr& step, const PrimExpr& n) const {
    return each("u", h, [&](const PrimExpr& u) {
      return tir::store(state, tir::tanh(limited(input(step, n, 0, u) + bias(0, u) + sum(n, 0, u))), {n, u});
    });
  }

  tir::Stmt program() const {
    auto sequence = [&](const PrimExpr& n) {
      const PrimExpr length = tir::min(tir::cast(i64, tir::load(lengths, {n})), steps);
      const tir::Stmt begin = each("u", h, [&](const PrimExpr& u) {
        const Shape at{n, u};
        const tir::Stmt first = tir::store(state, tir::cast(t, tir::load(h0, at)), at);
        return kind == Recurrence::lstm
                   ? tir::seq({first, tir::store(cell, tir::cast(t, tir::load(c0, at)), at)})
                   : first;
      });
      const tir::Stmt run = each("step", steps, [&](const PrimExpr& count) {
        return named("length", length, [&](const PrimExpr& end) {
          const PrimExpr place = a.reverse ? tir::select(tir::lt(count, end), end - 1 - count, count) : count;
          return named("place", place, [&](const PrimExpr& at) {
            const PrimExpr rows = h * (kind == Recurrence::gru ? 2 : gates_of(kind));
            const tir::Stmt products =
                each("row", rows, [&](const PrimExpr& row) { return product(n, row, state); });
            const tir::Stmt gates = kind == Recurrence::lstm  ? lstm(at, n)
                                    : kind == Recurrence::gru ? gru(at, n)
                                                              : rnn(at, n);
            auto put = [&](bool inside) {
              return each("u", h, [&](const PrimExpr& u) {
                return tir::store(y, inside ? tir::load(state, {n, u}) : num(0), {at, n, u});
              });
            };
            return when(tir::lt(count, end), tir::seq({products, gates, put(true)}), put(false));
          });
        });
      });
      return tir::seq({begin, run});
    };
    return each("n", batch, sequence, true);
  }
};

Tensors def_recurrent(const Call& call, const Tensors& in, Recurrence kind) {
  const auto& a = attrs_of<RecurrentAttrs>(call);
  const te::Tensor& x = in[0];
  const DataType t = wide_type(x.dtype());
  const PrimExpr steps = x.shape()[0], batch = x.shape()[1], h = in[2].shape()[1];
  const PrimExpr rows = simplify(h * gates_of(kind));
  const auto k = te::reduce_axis(tir::range(PrimExpr(0), x.shape()[2]));
  const te::Tensor product = te::compute(
      {steps, batch, rows},
      [&](const Vars& v) {
        return te::sum(wide(x({v[0], v[1], k->var})) * wide(in[1]({v[2], k->var})), {k});
      },
      "input_product");
  const te::Tensor share = te::compute(
      product.shape(), [&](const Vars& v) { return product(indices(v)) + tir::cast(t, in[3]({v[2]})); },
      "input_share");
  const bool lstm = kind == Recurrence::lstm;
  Array<te::Tensor> given{share, in[2], in[3], in[4], in[5]};
  if (lstm) given.push_back(in[6]), given.push_back(in[7]);
  auto body = [&](const Array<tir::Buffer>& ins, const Array<tir::Buffer>& outs) {
    return Steps{kind,
                 a,
                 t,
                 steps,
                 batch,
                 h,
                 ins[0],
                 ins[1],
                 ins[2],
                 ins[3],
                 ins[4],
                 lstm ? ins[5] : tir::Buffer(),
                 lstm ? ins[6] : tir::Buffer(),
                 outs[0],
                 outs[1],
                 outs[2],
                 outs[3]}
        .program();
  };
  const Shape per_batch{batch, h};
  const Tensors r = te::external({Shape{steps, batch, h}, per_batch, per_batch, Shape{batch, rows}},
                                 {t, t, t, t}, given, body, short_name(call));
  Tensors out{cast_to(r[0], x.dtype()), cast_to(r[1], x.dtype())};
  if (lstm) out.push_back(cast_to(r[2], x.dtype()));
  return out;
}

// ---------------------------------------------------------------- cells
using Terms = std::vector<Term>;

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
    return register_op(std::move(name), doc)
        .argument("x", "Tensor", "(steps, batch, inputs)")
        .argument("w", "Tensor", "(gates · units, inputs)")
        .argument("r", "Tensor", "(gates · units, units)")
        .argument("b", "Tensor", "(2 · gates · units): of the inputs, then of the state")
        .argument("lengths", "Tensor", "steps of each sequence (batch); what is behind gives zeros")
        .argument("h0", "Tensor", "first state (batch, units)")
        .infer([kind](InferContext& ctx) { return infer_recurrent(ctx, kind); })
        .fusion(FusionKind::opaque)
        .attrs<RecurrentAttrs>()
        .tensor_def([kind](const Call& c, const Tensors& in) { return def_recurrent(c, in, kind); });
  };
  layer("nn.rnn", "tanh of inputs and state, step by step: all states, and the last.", Recurrence::rnn);
  layer("nn.gru", "Gated recurrent units: all states, and the last.", Recurrence::gru);
  layer("nn.lstm", "Long short-term memory: all states, the last, and the last cell.", Recurrence::lstm)
      .argument("c0", "Tensor", "first cell (batch, units)")
      .argument("p", "Tensor", "peepholes (3 · units): i, o, f");
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
