// SPDX-License-Identifier: Apache-2.0
// Recurrent layers and cells against step-by-step definitions in double.
#include "op/attrs_linear_attention.h"
#include "op/attrs_recurrent.h"
#include "op_test.h"

namespace tenon::op_test {
namespace {

double logistic(double v) { return 1 / (1 + std::exp(-v)); }
ObjectRef copied(const RecurrentAttrs& a) {
  return make_attrs<RecurrentAttrs>([&](RecurrentAttrs& to) { to = a; });
}
struct Layer {
  int64_t gates, steps = 4, batch = 3, inputs = 5, units = 2;
  NDArray x, w, r, b, lengths, h0, c0, p;
  std::function<double(double)> gate = logistic, input = [](double v) { return std::tanh(v); },
                                output = input;
  explicit Layer(int64_t g, DataType t = f32, int64_t n = 2) : gates(g), units(n) {
    x = random({steps, batch, inputs}, t, -1, 1, 1), w = random({g * units, inputs}, t, -1, 1, 2);
    r = random({g * units, units}, t, -1, 1, 3), b = random({2 * g * units}, t, -1, 1, 4);
    lengths = values({batch}, {4, 2, 0}, i64), h0 = random({batch, units}, t, -1, 1, 5);
    c0 = random({batch, units}, t, -1, 1, 6), p = random({3 * units}, t, -1, 1, 7);
  }
  std::vector<NDArray> arguments() const {
    std::vector<NDArray> a{x, w, r, b, lengths, h0};
    if (gates == 4) a.push_back(c0), a.push_back(p);
    return a;
  }
  /// Share of the inputs, and of a state, of a gate's unit, with their biases.
  double from_x(int64_t t, int64_t n, int64_t g, int64_t u) const {
    double sum = at(b, {g * units + u});
    for (int64_t k = 0; k < inputs; ++k) sum += at(x, {t, n, k}) * at(w, {g * units + u, k});
    return sum;
  }
  double from_h(const std::vector<double>& h, int64_t g, int64_t u) const {
    double sum = at(b, {(gates + g) * units + u});
    for (int64_t k = 0; k < units; ++k) sum += h[size_t(k)] * at(r, {g * units + u, k});
    return sum;
  }
  std::vector<double> row(const NDArray& a, int64_t n) const {
    std::vector<double> out;
    for (int64_t u = 0; u < units; ++u) out.push_back(at(a, {n, u}));
    return out;
  }
  using Vector = std::vector<double>;
  void step(int64_t t, int64_t n, Vector& h, Vector& c, const RecurrentAttrs& a) const {
    auto limit = [&](double v) { return a.clip > 0 ? std::clamp(v, -a.clip, a.clip) : v; };
    Vector fresh(static_cast<size_t>(units));
    if (gates == 1) {
      for (int64_t u = 0; u < units; ++u)
        fresh[size_t(u)] = input(limit(from_x(t, n, 0, u) + from_h(h, 0, u)));
    } else if (gates == 3) {
      Vector z, reset, taken = h;
      for (int64_t u = 0; u < units; ++u) {
        z.push_back(gate(limit(from_x(t, n, 0, u) + from_h(h, 0, u))));
        reset.push_back(gate(limit(from_x(t, n, 1, u) + from_h(h, 1, u))));
        taken[size_t(u)] *= reset.back();
      }
      for (int64_t u = 0; u < units; ++u) {
        const auto i = size_t(u);
        const double inner = a.linear_before_reset ? reset[i] * from_h(h, 2, u) : from_h(taken, 2, u);
        fresh[i] = (1 - z[i]) * input(limit(from_x(t, n, 2, u) + inner)) + z[i] * h[i];
      }
    } else {
      for (int64_t u = 0; u < units; ++u) {
        const auto k = size_t(u);
        auto sum = [&](int64_t g) { return from_x(t, n, g, u) + from_h(h, g, u); };
        auto peep = [&](int64_t g, double cell) { return at(p, {g * units + u}) * cell; };
        const double i = gate(limit(sum(0) + peep(0, c[k])));
        const double f = a.input_forget ? 1 - i : gate(limit(sum(2) + peep(2, c[k])));
        c[k] = f * c[k] + i * input(limit(sum(3)));
        fresh[k] = gate(limit(sum(1) + peep(1, c[k]))) * output(c[k]);
      }
    }
    h = fresh;
  }
  void check(const char* name, const RecurrentAttrs& a, double tolerance) const {
    compare(run_all(name, arguments(), copied(a)), a, tolerance);
  }
  /// The packed operator's arguments: units in blocks of `block`, zeros where the last is filled up.
  std::vector<NDArray> packed_arguments(int64_t block) const {
    const int64_t blocks = (units + block - 1) / block, columns = blocks * gates * block;
    const NDArray share = NDArray::zeros({steps, batch, columns}, f32), bias = NDArray::zeros({columns}, f32),
                  weights = NDArray::zeros({blocks, gates, units, block}, f32),
                  peepholes = NDArray::zeros({blocks, 3, block}, f32);
    for_each_index({gates, units}, [&](const Index& i) {
      const int64_t g = i[0], u = i[1], column = (u / block * gates + g) * block + u % block;
      const double of_state = at(b, {(gates + g) * units + u});
      bias.set_element(column, of_state);
      for_each_index({steps, batch}, [&](const Index& k) {
        share.set_element((k[0] * batch + k[1]) * columns + column,
                          from_x(k[0], k[1], g, u) + (gates == 3 ? 0 : of_state));
      });
      for (int64_t k = 0; k < units; ++k)
        weights.set_element(((u / block * gates + g) * units + k) * block + u % block,
                            at(r, {g * units + u, k}));
      if (g < 3 && gates == 4)
        peepholes.set_element((u / block * 3 + g) * block + u % block, at(p, {g * units + u}));
    });
    std::vector<NDArray> a{share, weights};
    if (gates == 3) a.push_back(bias);
    a.push_back(lengths), a.push_back(h0);
    if (gates == 4) a.push_back(c0), a.push_back(peepholes);
    return a;
  }
  /// The packed operator's arguments with the state's weights rounded to bfloat16 and units in pairs.
  std::vector<NDArray> paired_arguments(int64_t block) const {
    std::vector<NDArray> in = packed_arguments(block);
    const NDArray plain = in[1];
    const std::vector<int64_t> d = plain.shape();
    in[1] = NDArray::zeros({d[0], d[1], units / 2, block * 2}, DataType::bfloat16());
    for_each_index({d[0] * d[1], units, block}, [&](const Index& i) {
      in[1].set_element(((i[0] * (units / 2) + i[1] / 2) * block + i[2]) * 2 + i[1] % 2,
                        plain.element((i[0] * units + i[1]) * block + i[2]));
    });
    return in;
  }
  void compare(const std::vector<NDArray>& got, const RecurrentAttrs& a, double tolerance) const {
    std::vector<Vector> last_h, last_c;
    std::map<Index, double> y;
    for (int64_t n = 0; n < batch; ++n) {
      Vector h = row(h0, n), c = row(c0, n);
      const auto length = int64_t(at(lengths, {n}));
      for (int64_t t = 0; t < length; ++t) {
        const int64_t place = a.reverse ? length - 1 - t : t;
        step(place, n, h, c, a);
        for (int64_t u = 0; u < units; ++u) y[{place, n, u}] = h[size_t(u)];
      }
      last_h.push_back(h), last_c.push_back(c);
    }
    expect_all(
        got[0], {steps, batch, units}, [&](const Index& i) { return y.count(i) ? y[i] : 0; }, tolerance);
    expect_all(
        got[1], {batch, units}, [&](const Index& i) { return last_h[size_t(i[0])][size_t(i[1])]; },
        tolerance);
    if (gates == 4)
      expect_all(
          got[2], {batch, units}, [&](const Index& i) { return last_c[size_t(i[0])][size_t(i[1])]; },
          tolerance);
  }
};
TEST(Recurrent, LayersInEveryForm) {
  for (auto [name, gates] : {std::pair("nn.rnn", 1), std::pair("nn.gru", 3), std::pair("nn.lstm", 4)})
    for (const bool reverse : {false, true})
      for (const bool other : {false, true})
        for (double clip : {0.0, 0.4}) {
          RecurrentAttrs a;
          a.reverse = reverse, a.clip = clip, a.linear_before_reset = other, a.input_forget = other;
          Layer(gates).check(name, a, 1e-5);
        }
  Layer(4, f64).check("nn.lstm", RecurrentAttrs(), 1e-12);
  Layer(3, f16).check("nn.gru", RecurrentAttrs(), 5e-3);
}
TEST(Recurrent, StepsOverWeightsInBlocks) {
  for (auto [name, gates] :
       {std::pair("nn.packed_rnn", 1), std::pair("nn.packed_gru", 3), std::pair("nn.packed_lstm", 4)})
    for (const int64_t block : {1, 4, 16})
      for (const int64_t units : {3, 20})
        for (const bool other : {false, true}) {
          RecurrentAttrs a;
          a.reverse = other, a.linear_before_reset = other, a.input_forget = other;
          const Layer l(gates, f32, units);
          l.compare(run_all(name, l.packed_arguments(block), copied(a)), a, 1e-4);
        }
  const Layer l(1);
  std::vector<NDArray> in = l.packed_arguments(4);
  in[0] = random({4, 3, 5});
  expect_refused("nn.packed_rnn", in, {}, {"share", "(4, 3, 5)", "(4, 3, 4)"});
  in = l.packed_arguments(4);
  in[1] = random({1, 1, 9, 4});
  expect_refused("nn.packed_rnn", in, {}, {"9 units"});
  std::vector<NDArray> gru = Layer(3).packed_arguments(4);
  gru[1] = random({1, 2, 2, 4});
  expect_refused("nn.packed_gru", gru, {}, {"no blocks of 3 gates"});
}
/// Steps over weights of bfloat16 in pairs, by vectors or in matrix registers.
std::vector<NDArray> run_paired(const std::string& name, Recurrence kind, const std::vector<NDArray>& in,
                                const RecurrentAttrs& a, const StepForm& form) {
  const Expr e = typed_call(name, in, copied(a));
  std::vector<te::Tensor> inputs;
  for (const NDArray& x : in) {
    Shape shape;
    for (const int64_t d : x.shape()) shape.push_back(PrimExpr(d));
    inputs.push_back(te::placeholder(shape, x.dtype(), "in"));
  }
  Array<te::Tensor> all(inputs.begin(), inputs.end());
  std::vector<NDArray> args = in, out;
  for (const te::Tensor& t : define_steps(*e.as<Call>(), inputs, kind, form)) {
    Dims shape;
    for (const PrimExpr& d : t.shape()) shape.push_back(*tir::as_int(d));
    all.push_back(t), args.push_back(NDArray::zeros(shape, t.dtype())), out.push_back(args.back());
  }
  interpret_prim_func(te::create_prim_func(all), args);
  return out;
}
TEST(Recurrent, StepsOverPairsOfWeights) {
  struct Layers {
    const char* name;
    Recurrence kind;
    int64_t gates;
  };
  for (const auto& [name, kind, gates] :
       {Layers{"nn.packed_rnn", Recurrence::rnn, 1}, Layers{"nn.packed_gru", Recurrence::gru, 3},
        Layers{"nn.packed_lstm", Recurrence::lstm, 4}})
    for (const int64_t block : {16, 48})
      for (const int64_t units : {6, 64})
        for (const bool other : {false, true})
          for (const bool registers : {false, true}) {
            if (registers && units % 32 != 0) continue;
            RecurrentAttrs a;
            a.group = 2, a.reverse = other, a.linear_before_reset = other, a.input_forget = other;
            Layer l(gates, f32, units);
            for (int64_t i = 0; i < l.r.size(); ++i) l.r.set_element(i, l.r.element(i) / 4);
            const StepForm form{.sequences = 2, .lanes = 16, .matrix_registers = registers};
            SCOPED_TRACE(fmt::format("{} of {} units in blocks of {}, {}", name, units, block, registers));
            l.compare(run_paired(name, kind, l.paired_arguments(block), a, form), a, 2e-2);
          }
  std::vector<NDArray> in = Layer(1, f32, 6).paired_arguments(16);
  RecurrentAttrs a;
  a.group = 4;
  expect_refused("nn.packed_rnn", in, copied(a), {"groups of 4", "pairs of bfloat16"});
  a.group = 2;
  in[1] = random({1, 1, 3, 31}, DataType::bfloat16());
  expect_refused("nn.packed_rnn", in, copied(a), {"no blocks of 1 gates"});
}
TEST(Recurrent, Activations) {
  struct Case {
    const char* name;
    double alpha, beta;
    std::function<double(double)> f;
  };
  const Case cases[] = {
      {"relu", 0, 0, [](double v) { return std::max(v, 0.0); }},
      {"affine", 0.5, 0.25, [](double v) { return 0.5 * v + 0.25; }},
      {"scaled_tanh", 0.5, 2, [](double v) { return 0.5 * std::tanh(2 * v); }},
      {"thresholded_relu", 0.3, 0, [](double v) { return v > 0.3 ? v : 0; }},
      {"leaky_relu", 0.1, 0, [](double v) { return v < 0 ? 0.1 * v : v; }},
      {"elu", 0.7, 0, [](double v) { return v < 0 ? 0.7 * (std::exp(v) - 1) : v; }},
      {"hard_sigmoid", 0.2, 0.5, [](double v) { return std::clamp(0.2 * v + 0.5, 0.0, 1.0); }},
      {"softsign", 0, 0, [](double v) { return v / (1 + std::abs(v)); }},
      {"softplus", 0, 0, [](double v) { return std::log1p(std::exp(v)); }},
      {"sigmoid", 0, 0, logistic},
      {"tanh", 0, 0, [](double v) { return std::tanh(v); }}};
  for (const Case& c : cases)
    for (auto [name, gates] : {std::pair("nn.rnn", 1), std::pair("nn.gru", 3), std::pair("nn.lstm", 4)}) {
      SCOPED_TRACE(std::string(c.name) + " of " + name);
      Layer l(gates);
      RecurrentAttrs a;
      a.gate = c.name, a.alphas = {c.alpha, 0, 0}, a.betas = {c.beta, 0, 0};
      l.gate = c.f;
      l.check(name, a, 1e-4);
      l = Layer(gates), a = RecurrentAttrs();
      a.input = a.output = c.name, a.alphas = {0, c.alpha, c.alpha}, a.betas = {0, c.beta, c.beta};
      l.input = l.output = c.f;
      l.check(name, a, 1e-4);
    }
  RecurrentAttrs a;
  a.gate = "sigmod";
  expect_refused("nn.rnn", Layer(1).arguments(), copied(a), {"'sigmod'"});
}
TEST(Recurrent, AnyNumberOfSteps) {
  auto steps = tir::var("t");
  Layer l(1);
  const Expr e =
      op_call("nn.rnn", {input("x", Shape{steps, PrimExpr(3), PrimExpr(5)}), input("w", Dims{2, 5}, f32),
                         input("r", Dims{2, 2}, f32), input("b", Dims{4}, f32), input("n", Dims{3}, i64),
                         input("h", Dims{3, 2}, f32)});
  const auto got = run_call(e, l.arguments()), same = run_all("nn.rnn", l.arguments());
  expect_all(got[0], {4, 3, 2}, [&](const Index& i) { return at(same[0], i); });
  expect_refused("nn.rnn", {l.x, l.w, l.r, l.b, random({2}, i64), l.h0}, {}, {"lengths", "(2,)", "(3,)"});
}
TEST(Recurrent, CellsAreOneStep) {
  RecurrentAttrs linear;
  linear.linear_before_reset = true;
  for (auto [name, gates] :
       {std::pair("nn.rnn_cell", 1), std::pair("nn.gru_cell", 3), std::pair("nn.lstm_cell", 4)}) {
    Layer l(gates);
    l.p = NDArray::zeros({6}, f32);
    const NDArray x = NDArray::empty({3, 5}, f32);
    for (int64_t i = 0; i < 15; ++i) x.set_element(i, l.x.element(i));
    std::vector<NDArray> in{x, l.h0, l.w, l.r, l.b};
    if (gates == 4) in.insert(in.begin() + 2, l.c0);
    const auto got = run_all(name, in);
    for (int64_t n = 0; n < 3; ++n) {
      auto h = l.row(l.h0, n), c = l.row(l.c0, n);
      l.step(0, n, h, c, linear);
      for (int64_t u = 0; u < 2; ++u) {
        EXPECT_NEAR(at(got[0], {n, u}), h[size_t(u)], 1e-5) << name;
        EXPECT_TRUE(gates != 4 || std::abs(at(got[1], {n, u}) - c[size_t(u)]) < 1e-5);
      }
    }
  }
}

TEST(Recurrent, LinearAttention) {
  const int64_t batch = 2, heads = 4, shared = 2, steps = 3, width = 3, size = 2;
  const NDArray q = random({batch, heads, steps, width}),
                k = random({batch, shared, steps, width}, f32, -1, 1, 2),
                v = random({batch, shared, steps, size}, f32, -1, 1, 3),
                s0 = random({batch, shared, width, size}, f32, -1, 1, 6);
  for (const bool gated : {false, true})
    for (const bool delta : {false, true})
      for (const bool narrow : {false, true})
        for (double scale : {0.0, 0.5}) {
          const NDArray decay = random({batch, shared, steps, narrow ? 1 : width}, f32, -1, 0, 4),
                        beta = random({batch, narrow ? 1 : shared, steps, 1}, f32, 0, 1, 5);
          std::map<Index, double> y, state;
          for_each_index({batch, shared, width, size}, [&](const Index& i) { state[i] = at(s0, i); });
          for_each_index({batch, shared}, [&](const Index& b) {
            auto cell = [&](int64_t d, int64_t m) -> double& { return state[{b[0], b[1], d, m}]; };
            for (int64_t t = 0; t < steps; ++t) {
              std::vector<double> write(size_t(size), 0);
              for (int64_t m = 0; m < size; ++m) {
                double said = 0;
                for (int64_t d = 0; d < width; ++d) {
                  if (gated) cell(d, m) *= std::exp(at(decay, {b[0], b[1], t, narrow ? 0 : d}));
                  said += at(k, {b[0], b[1], t, d}) * cell(d, m);
                }
                const double value = at(v, {b[0], b[1], t, m});
                write[size_t(m)] = delta ? (value - said) * at(beta, {b[0], narrow ? 0 : b[1], t, 0}) : value;
              }
              for (int64_t m = 0; m < size; ++m)
                for (int64_t d = 0; d < width; ++d)
                  cell(d, m) += at(k, {b[0], b[1], t, d}) * write[size_t(m)];
              for (int64_t g = 0; g < heads / shared; ++g)
                for (int64_t m = 0; m < size; ++m) {
                  const int64_t h = b[1] * (heads / shared) + g;
                  double sum = 0;
                  for (int64_t d = 0; d < width; ++d) sum += at(q, {b[0], h, t, d}) * cell(d, m);
                  y[{b[0], h, t, m}] = sum * (scale == 0 ? 1 / std::sqrt(3.0) : scale);
                }
            }
          });
          const auto got = run_all("nn.linear_attention", {q, k, v, decay, beta, s0},
                                   make_attrs<LinearAttentionAttrs>(gated, delta, scale));
          expect_all(got[0], {batch, heads, steps, size}, [&](const Index& i) { return y[i]; });
          expect_all(got[1], {batch, shared, width, size}, [&](const Index& i) { return state[i]; });
        }
  expect_refused("nn.linear_attention", {q, k, v, random({2, 3, 3, 1}), random({2, 1, 3, 1}), s0}, {},
                 {"(2, 3, 3, 1)"});
}

}  // namespace
}  // namespace tenon::op_test
