// SPDX-License-Identifier: Apache-2.0
// The steps of recurrent layers, over weights that lie in blocks of units: (blocks, gates, units, block). A
// block of results stays in registers while the sum over the state runs, the gates follow at once, in
// vectors.
//
//   for step:  for block (parallel where the weights are large):  for a few sequences of the batch:
//     sums[sequence, gate, lane] = share[step, …]
//     for k: sums += state[sequence, k] · r[block, gate, k, lane]
//     gates → next state, cell, y
//
// Where the units of the weights lie in groups (bfloat16), the state is rounded to that type in front of its
// products, which instructions for such groups or matrix registers add up; it stays in float32 beside.
//
// The state alternates between two places, since every block reads all of it. Where the reset gate of a gru
// works on the state itself, the third gate's sums are a second pass over the blocks.
#include <fmt/format.h>

#include "base/define_type.h"
#include "op/attrs_recurrent.h"
#include "op/program.h"
#include "op/step_products.h"

namespace tenon::op {

bool in_two_passes(Recurrence kind, const RecurrentAttrs& attrs) {
  return kind == Recurrence::gru && !attrs.linear_before_reset;
}
int64_t gates_of(Recurrence kind) { return kind == Recurrence::lstm ? 4 : kind == Recurrence::gru ? 3 : 1; }

namespace {

/// Lanes that units are filled up to: a vector of the widest targets.
constexpr int64_t kLanes = 16;
/// Vectors of sums that run at once: enough to hide the latency of a multiply-add. Several sequences have as
/// many by fewer vectors each, and more of them share a read of the weights.
constexpr int64_t kVectors = 4, kVectorsOfSeveral = 2;
/// Units that are filled up may cost this share of the work.
constexpr double kFilled = 1.25;

}  // namespace

int64_t unit_block(Recurrence kind, const RecurrentAttrs& attrs, int64_t units, int64_t batch) {
  const int64_t together = in_two_passes(kind, attrs) ? 1 : gates_of(kind);
  const int64_t vectors = batch >= kSequences ? kVectorsOfSeveral : kVectors;
  for (int64_t n = (vectors + together - 1) / together; n > 1; --n) {
    const int64_t block = n * kLanes, filled = (units + block - 1) / block * block;
    if (double(filled) <= kFilled * double(units)) return block;
  }
  return kLanes;
}

namespace {

using Tensors = std::vector<te::Tensor>;
using tir::Buffer;
using tir::Stmt;

/// Weights of a layer, in elements, from which on the blocks of one step are shared between threads.
constexpr int64_t kSharedWeights = int64_t(1) << 18;

/// Formulas of activations, by name.
PrimExpr activated(const std::string& name, double alpha, double beta, const PrimExpr& x) {
  const DataType t = x.dtype();
  auto num = [&](double v) { return constant(t, v); };
  if (name == "sigmoid") return tir::sigmoid(x);
  if (name == "tanh") return tir::tanh(x);
  if (name == "relu") return tir::max(x, num(0));
  if (name == "affine") return x * num(alpha) + num(beta);
  if (name == "scaled_tanh") return tir::tanh(x * num(beta)) * num(alpha);
  if (name == "thresholded_relu") return tir::select(tir::gt(x, num(alpha)), x, num(0));
  if (name == "leaky_relu") return tir::select(tir::lt(x, num(0)), x * num(alpha), x);
  if (name == "elu") return tir::select(tir::lt(x, num(0)), (tir::exp(x) - num(1)) * num(alpha), x);
  if (name == "hard_sigmoid") return tir::max(tir::min(x * num(alpha) + num(beta), num(1)), num(0));
  if (name == "softsign") return tir::div(x, num(1) + tir::abs(x));
  if (name == "softplus") return tir::max(x, num(0)) + tir::log(num(1) + tir::exp(num(0) - tir::abs(x)));
  return {};
}
PrimExpr activated(const RecurrentAttrs& a, size_t i, const PrimExpr& x) {
  const std::string& name = i == 0 ? a.gate : i == 1 ? a.input : a.output;
  return activated(name, a.alphas[i], a.betas[i], x);
}

/// The program. Buffers: share (steps, batch, blocks · gates · block), r (blocks, gates, units, block), the
/// bias of the state's products (gru), lengths, h0, c0, peepholes (blocks, 3, block).
struct Program {
  Recurrence kind;
  const RecurrentAttrs& a;
  DataType t, narrow;  ///< of sums and states; of weights
  StepForm form;
  int64_t block;
  PrimExpr steps, batch, units, blocks;
  Buffer share, r, bias, lengths, h0, c0, peep;
  Buffer y, last, last_cell;  // results
  // (2, batch, blocks · block), the others (batch, blocks · block); of grouped weights the state rounded,
  // too.
  Buffer state, rounded, cell, taken, update;

  int64_t gates() const { return gates_of(kind); }
  bool grouped() const { return a.group > 1; }
  PrimExpr num(double v) const { return constant(t, v); }
  PrimExpr limited(const PrimExpr& e) const {
    return a.clip > 0 ? tir::min(tir::max(e, num(-a.clip)), num(a.clip)) : e;
  }
  /// A statement for each lane of a block.
  template <class F>
  Stmt lanes(F body) const {
    const tir::VarRef v = tir::var("lane");
    const Stmt s = body(PrimExpr(v));
    return tir::for_(v, PrimExpr(0), PrimExpr(block), s, tir::ForKind::vectorized);
  }

  /// A few sequences at one block in one step.
  struct Site {
    PrimExpr count, block;                // the step in the order of the run, the block of units
    std::vector<PrimExpr> n;              // sequences
    std::vector<PrimExpr> inside, place;  // is the step one of the sequence's, and which
  };
  using Body = std::function<Stmt(const Site&)>;

  /// With the place of each sequence's step at hand.
  Stmt placed(Site site, const Body& body) const {
    const size_t i = site.place.size();
    if (i == site.n.size()) return body(site);
    const PrimExpr length = tir::min(tir::cast(i64, tir::load(lengths, {site.n[i]})), steps);
    return named("length", length, [&](const PrimExpr& end) {
      const PrimExpr inside = tir::lt(site.count, end);
      site.inside.push_back(inside);
      if (!a.reverse) {
        site.place.push_back(site.count);
        return placed(site, body);
      }
      return named("place", tir::select(inside, end - 1 - site.count, site.count), [&](const PrimExpr& at) {
        site.place.push_back(at);
        return placed(site, body);
      });
    });
  }
  PrimExpr unit(const Site& s, const PrimExpr& lane) const { return s.block * block + lane; }
  PrimExpr column(const Site& s, int64_t gate, const PrimExpr& lane) const {
    return (s.block * gates() + gate) * block + lane;
  }
  /// Where the state of this step lies, and where the next one goes.
  PrimExpr now(const Site& s) const { return tir::floormod(s.count, PrimExpr(2)); }
  PrimExpr next(const Site& s) const { return tir::floormod(s.count + 1, PrimExpr(2)); }

  using Operand = std::function<PrimExpr(const PrimExpr& n, const PrimExpr& k)>;

  /// Sums of some gates in registers: what `first` says, and products of the weights with `of`.
  Stmt summed(const Site& s, int64_t from, int64_t to,
              const std::function<PrimExpr(size_t i, int64_t gate, const PrimExpr& lane)>& first,
              const Operand& of, const std::function<Stmt(const Buffer& sums)>& then) const {
    const Buffer sums =
        tir::buffer("sums", {PrimExpr(int64_t(s.n.size()) * (to - from) * block)}, t, "local");
    const StepProducts p{r, sums, units, s.block, block, a.group, from, to, s.n, of};
    const bool behind = form.matrix_registers;
    Array<Stmt> begin;
    for (size_t i = 0; i < s.n.size(); ++i)
      for (int64_t g = from; g < to; ++g)
        begin.push_back(lanes([&](const PrimExpr& lane) {
          const PrimExpr at = p.sum_at(PrimExpr(int64_t(i)), g, lane), e = first(i, g, lane);
          return tir::store(sums, behind ? tir::load(sums, {at}) + e : e, {at});
        }));
    const Stmt products = behind      ? products_in_matrix_registers(p)
                          : grouped() ? products_by_groups(p, form.lanes)
                                      : products_one_by_one(p);
    const Stmt all = behind ? tir::seq({products, tir::seq(begin), then(sums)})
                            : tir::seq({tir::seq(begin), products, then(sums)});
    return make<tir::Allocate>(sums, all, AttrMap());
  }
  PrimExpr sum(const Buffer& sums, size_t i, int64_t gate, int64_t from, int64_t to,
               const PrimExpr& lane) const {
    return tir::load(sums, {PrimExpr((int64_t(i) * (to - from) + gate - from) * block) + lane});
  }
  PrimExpr from_input(const Site& s, size_t i, int64_t gate, const PrimExpr& lane) const {
    return tir::load(share, {s.place[i], s.n[i], column(s, gate, lane)});
  }
  PrimExpr from_state(const Site& s, const PrimExpr& n, const PrimExpr& k) const {
    return tir::load(grouped() ? rounded : state, {now(s), n, k});
  }
  PrimExpr bias_of(const Site& s, int64_t gate, const PrimExpr& lane) const {
    return tir::cast(t, tir::load(bias, {column(s, gate, lane)}));
  }

  Stmt put_state(const PrimExpr& value, const Shape& at) const {
    const Stmt s = tir::store(state, value, at);
    return grouped() ? tir::seq({s, tir::store(rounded, tir::cast(narrow, value), at)}) : s;
  }
  /// The new state of a unit: where the next step and the result find it.
  Stmt put(const Site& s, size_t i, const PrimExpr& lane, const PrimExpr& value) const {
    const PrimExpr u = unit(s, lane);
    return named("fresh", value, [&](const PrimExpr& v) {
      return tir::seq({put_state(v, {next(s), s.n[i], u}),
                       when(tir::lt(u, units), tir::store(y, v, {s.place[i], s.n[i], u}))});
    });
  }
  /// Behind the end of a sequence its state stays, and the result is zero.
  Stmt kept(const Site& s, size_t i) const {
    return lanes([&](const PrimExpr& lane) {
      const PrimExpr u = unit(s, lane);
      return tir::seq({put_state(tir::load(state, {now(s), s.n[i], u}), {next(s), s.n[i], u}),
                       when(tir::lt(u, units), tir::store(y, num(0), {s.place[i], s.n[i], u}))});
    });
  }
  /// `gate(i, lane)` for each sequence that has the step.
  Stmt each_inside(const Site& s, const std::function<Stmt(size_t i, const PrimExpr& lane)>& body,
                   bool keeps = true) const {
    Array<Stmt> all;
    for (size_t i = 0; i < s.n.size(); ++i)
      all.push_back(when(s.inside[i], lanes([&](const PrimExpr& lane) { return body(i, lane); }),
                         keeps ? kept(s, i) : Stmt()));
    return tir::seq(all);
  }

  Stmt rnn(const Site& s) const {
    return summed(
        s, 0, 1, [&](size_t i, int64_t g, const PrimExpr& lane) { return from_input(s, i, g, lane); },
        [&](const PrimExpr& n, const PrimExpr& k) { return from_state(s, n, k); },
        [&](const Buffer& sums) {
          return each_inside(s, [&](size_t i, const PrimExpr& lane) {
            return put(s, i, lane, activated(a, 1, limited(sum(sums, i, 0, 0, 1, lane))));
          });
        });
  }
  Stmt lstm(const Site& s) const {
    auto peephole = [&](int64_t gate, const PrimExpr& lane, const PrimExpr& c) {
      return tir::cast(t, tir::load(peep, {s.block, PrimExpr(gate), lane})) * c;
    };
    return summed(
        s, 0, 4, [&](size_t i, int64_t g, const PrimExpr& lane) { return from_input(s, i, g, lane); },
        [&](const PrimExpr& n, const PrimExpr& k) { return from_state(s, n, k); },
        [&](const Buffer& sums) {
          return each_inside(s, [&](size_t i, const PrimExpr& lane) {
            auto total = [&](int64_t g) { return sum(sums, i, g, 0, 4, lane); };
            const Shape at{s.n[i], unit(s, lane)};
            return named("old", tir::load(cell, at), [&](const PrimExpr& old) {
              const PrimExpr in = activated(a, 0, limited(total(0) + peephole(0, lane, old)));
              return named("i", in, [&](const PrimExpr& in) {
                const PrimExpr forget = a.input_forget
                                            ? num(1) - in
                                            : activated(a, 0, limited(total(2) + peephole(2, lane, old)));
                const PrimExpr fresh = forget * old + in * activated(a, 1, limited(total(3)));
                return named("c", fresh, [&](const PrimExpr& c) {
                  const PrimExpr out = activated(a, 0, limited(total(1) + peephole(1, lane, c)));
                  return tir::seq({tir::store(cell, c, at), put(s, i, lane, out * activated(a, 2, c))});
                });
              });
            });
          });
        });
  }
  PrimExpr mixed(const Site& s, size_t i, const PrimExpr& lane, const PrimExpr& z,
                 const PrimExpr& fresh) const {
    return (num(1) - z) * fresh + z * tir::load(state, {now(s), s.n[i], unit(s, lane)});
  }
  /// The whole step where the reset gate works on the product.
  Stmt gru_on_product(const Site& s) const {
    return summed(
        s, 0, 3,
        [&](size_t i, int64_t g, const PrimExpr& lane) {
          return g == 2 ? bias_of(s, g, lane) : from_input(s, i, g, lane) + bias_of(s, g, lane);
        },
        [&](const PrimExpr& n, const PrimExpr& k) { return from_state(s, n, k); },
        [&](const Buffer& sums) {
          return each_inside(s, [&](size_t i, const PrimExpr& lane) {
            auto gate = [&](int64_t g) { return activated(a, 0, limited(sum(sums, i, g, 0, 3, lane))); };
            return named("z", gate(0), [&](const PrimExpr& z) {
              const PrimExpr inner = from_input(s, i, 2, lane) + gate(1) * sum(sums, i, 2, 0, 3, lane);
              return put(s, i, lane, mixed(s, i, lane, z, activated(a, 1, limited(inner))));
            });
          });
        });
  }
  /// Where it works on the state: both gates first, then the sums of the third over what the reset takes.
  Stmt gru_gates(const Site& s) const {
    return summed(
        s, 0, 2,
        [&](size_t i, int64_t g, const PrimExpr& lane) {
          return from_input(s, i, g, lane) + bias_of(s, g, lane);
        },
        [&](const PrimExpr& n, const PrimExpr& k) { return from_state(s, n, k); },
        [&](const Buffer& sums) {
          return each_inside(
              s,
              [&](size_t i, const PrimExpr& lane) {
                auto gate = [&](int64_t g) { return activated(a, 0, limited(sum(sums, i, g, 0, 2, lane))); };
                const Shape at{s.n[i], unit(s, lane)};
                return tir::seq(
                    {tir::store(update, gate(0), at),
                     tir::store(
                         taken,
                         tir::cast(taken->dtype, gate(1) * tir::load(state, {now(s), s.n[i], unit(s, lane)})),
                         at)});
              },
              false);
        });
  }
  Stmt gru_state(const Site& s) const {
    return summed(
        s, 2, 3,
        [&](size_t i, int64_t g, const PrimExpr& lane) {
          return from_input(s, i, g, lane) + bias_of(s, g, lane);
        },
        [&](const PrimExpr& n, const PrimExpr& k) { return tir::load(taken, {n, k}); },
        [&](const Buffer& sums) {
          return each_inside(s, [&](size_t i, const PrimExpr& lane) {
            const PrimExpr fresh = activated(a, 1, limited(sum(sums, i, 2, 2, 3, lane)));
            const PrimExpr z = tir::load(update, {s.n[i], unit(s, lane)});
            return put(s, i, lane, mixed(s, i, lane, z, fresh));
          });
        });
  }

  /// One step of the sequences `n`, block by block.
  Stmt step(const PrimExpr& count, const std::vector<std::vector<PrimExpr>>& groups, bool shared) const {
    auto pass = [&](const Body& body) {
      return each(
          "block", blocks,
          [&](const PrimExpr& b) {
            Array<Stmt> all;
            for (const auto& n : groups) all.push_back(placed({count, b, n, {}, {}}, body));
            return tir::seq(all);
          },
          shared);
    };
    if (in_two_passes(kind, a))
      return tir::seq({pass([&](const Site& s) { return gru_gates(s); }),
                       pass([&](const Site& s) { return gru_state(s); })});
    return pass([&](const Site& s) {
      return kind == Recurrence::lstm ? lstm(s) : kind == Recurrence::gru ? gru_on_product(s) : rnn(s);
    });
  }

  Stmt begin(const PrimExpr& n) const {
    return each("u", simplify(blocks * block), [&](const PrimExpr& u) {
      auto first = [&](const Buffer& from) {
        return tir::if_then_else(tir::lt(u, units), tir::cast(t, tir::load(from, {n, u})), num(0));
      };
      const Stmt s = put_state(first(h0), {PrimExpr(0), n, u});
      return kind == Recurrence::lstm ? tir::seq({s, tir::store(cell, first(c0), {n, u})}) : s;
    });
  }
  Stmt end(const PrimExpr& n) const {
    return each("u", units, [&](const PrimExpr& u) {
      const PrimExpr at = tir::floormod(steps, PrimExpr(2));
      const Stmt s = tir::store(last, tir::load(state, {at, n, u}), {n, u});
      return kind == Recurrence::lstm ? tir::seq({s, tir::store(last_cell, tir::load(cell, {n, u}), {n, u})})
                                      : s;
    });
  }
  /// Sequences [first, first + count) from begin to end.
  Stmt sequences(const PrimExpr& first, int64_t count) const {
    std::vector<PrimExpr> n;
    for (int64_t i = 0; i < count; ++i) n.push_back(simplify(first + i));
    Array<Stmt> all;
    for (const PrimExpr& i : n) all.push_back(begin(i));
    all.push_back(each("step", steps, [&](const PrimExpr& at) { return step(at, {n}, false); }));
    for (const PrimExpr& i : n) all.push_back(end(i));
    return tir::seq(all);
  }

  Stmt program() const {
    const auto known = tir::as_int(batch), width = tir::as_int(units);
    const bool large = width && *width * *width * gates() >= kSharedWeights;
    // Of a known batch groups of about equal size.
    int64_t group = form.sequences;
    if (known && *known > 0) {
      const int64_t groups = (*known + group - 1) / group;
      group = (*known + groups - 1) / groups;
    }
    // Weights that fill a cache are read once a step for all sequences, the blocks shared between threads.
    if (known && *known > 0 && large && *known <= kTogether) {
      std::vector<std::vector<PrimExpr>> groups;
      for (int64_t n = 0; n < *known; n += group) {
        groups.emplace_back();
        for (int64_t i = n; i < std::min(*known, n + group); ++i) groups.back().push_back(PrimExpr(i));
      }
      return tir::seq({each("n", batch, [&](const PrimExpr& n) { return begin(n); }),
                       each("step", steps, [&](const PrimExpr& at) { return step(at, groups, true); }),
                       each("n", batch, [&](const PrimExpr& n) { return end(n); })});
    }
    // Else each thread takes sequences of its own.
    const PrimExpr whole = simplify(tir::floordiv(batch, PrimExpr(group))),
                   rest = simplify(batch - whole * group);
    Array<Stmt> all;
    if (!tir::is_zero(whole))
      all.push_back(
          each("group", whole, [&](const PrimExpr& g) { return sequences(g * group, group); }, true));
    if (const auto left = tir::as_int(rest)) {
      if (*left > 0) all.push_back(sequences(simplify(whole * group), *left));
    } else {
      // A rest of unknown size in halves: two sequences side by side take as long as one.
      PrimExpr done = whole * group;
      for (int64_t part = group / 2; part > 0; part /= 2) {
        const PrimExpr count = simplify(tir::floordiv(batch - done, PrimExpr(part)));
        all.push_back(
            each("part", count, [&](const PrimExpr& g) { return sequences(done + g * part, part); }, true));
        done = simplify(done + count * part);
      }
    }
    return tir::seq(all);
  }
  /// Sequences that one step of the program names one by one.
  static constexpr int64_t kTogether = 64;
};

}  // namespace

std::string unknown_activation(const RecurrentAttrs& a) {
  for (const std::string* name : {&a.gate, &a.input, &a.output})
    if (!activated(*name, 1, 1, constant(f32, 0))) return *name;
  return {};
}

Tensors define_steps(const graph::Call& call, const Tensors& in, Recurrence kind, const StepForm& form) {
  const auto& a = attrs_of<RecurrentAttrs>(call);
  const DataType t = wide_type(in[0].dtype()), narrow = in[1].dtype();
  const PrimExpr steps = in[0].shape()[0], batch = in[0].shape()[1];
  const PrimExpr blocks = in[1].shape()[0], units = simplify(in[1].shape()[2] * a.group);
  const auto width = tir::as_int(in[1].shape()[3]);
  CHECK(width, "recurrent weights in blocks of no known size");
  const int64_t block = *width / a.group;
  const bool lstm = kind == Recurrence::lstm, gru = kind == Recurrence::gru;
  const Shape result{batch, units}, padded{batch, simplify(blocks * block)};
  const bool grouped = a.group > 1, two_passes = in_two_passes(kind, a);
  std::vector<Shape> shapes;
  std::vector<DataType> types;
  auto place = [&](const Shape& shape, DataType type) { shapes.push_back(shape), types.push_back(type); };
  place({steps, batch, units}, t), place(result, t);
  if (lstm) place(result, t);
  const Shape states{PrimExpr(2), batch, padded[1]};
  place(states, t);
  if (grouped) place(states, narrow);
  if (lstm) place(padded, t);
  if (two_passes) place(padded, grouped ? narrow : t), place(padded, t);
  auto body = [&](const Array<Buffer>& ins, const Array<Buffer>& outs) {
    Program p{.kind = kind, .a = a, .t = t, .narrow = narrow, .form = form, .block = block};
    p.steps = steps, p.batch = batch, p.units = units, p.blocks = blocks;
    size_t i = 0, o = 0;
    p.share = ins[i++], p.r = ins[i++];
    if (gru) p.bias = ins[i++];
    p.lengths = ins[i++], p.h0 = ins[i++];
    if (lstm) p.c0 = ins[i++], p.peep = ins[i++];
    p.y = outs[o++], p.last = outs[o++];
    if (lstm) p.last_cell = outs[o++];
    p.state = outs[o++];
    if (grouped) p.rounded = outs[o++];
    if (lstm) p.cell = outs[o++];
    if (two_passes) p.taken = outs[o++], p.update = outs[o++];
    return p.program();
  };
  const Tensors made = te::external(Array<Shape>(shapes.begin(), shapes.end()), types,
                                    Array<te::Tensor>(in.begin(), in.end()), body, short_name(call));
  Tensors out;
  for (size_t i = 0; i < (lstm ? 3u : 2u); ++i) out.push_back(cast_to(made[i], narrow));
  return out;
}

}  // namespace tenon::op
