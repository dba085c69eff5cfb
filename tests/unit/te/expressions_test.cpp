// SPDX-License-Identifier: Apache-2.0
// Tensor expressions: every builder, run by the interpreter against plain loops; the sentence of each
// refusal.
#include "check.h"

namespace tenon::testing {
namespace {

tir::IterVar axis_of(PrimExpr n, const char* name) {
  return te::reduce_axis(tir::range(PrimExpr(0), n), name);
}

TEST(Reducers, AgreeWithPlainLoops) {
  for (auto [n, m] : {std::pair<int64_t, int64_t>{3, 5}, {1, 1}, {4, 0}, {7, 13}}) {
    tir::VarRef vn = tir::var("n"), vm = tir::var("m");
    Tensor a = te::placeholder({vn, vm}, f32, "A");
    std::vector<tir::IterVar> k;
    for (int i = 0; i < 4; ++i) k.push_back(axis_of(vm, "k"));
    auto at = [&](const Vars& v, int i) { return a({v[0], k[size_t(i)]->var}); };
    Tensor s = te::compute({vn}, [&](const Vars& v) { return te::sum(at(v, 0), {k[0]}); }, "S");
    Tensor p = te::compute({vn}, [&](const Vars& v) { return te::prod(at(v, 1), {k[1]}); }, "P");
    Tensor lo = te::compute({vn}, [&](const Vars& v) { return te::min(at(v, 2), {k[2]}); }, "Lo");
    Tensor hi = te::compute({vn}, [&](const Vars& v) { return te::max(at(v, 3), {k[3]}); }, "Hi");
    tir::PrimFunc f = te::create_prim_func({a, s, p, lo, hi});
    std::vector<NDArray> args = arguments(f, {{"n", n}, {"m", m}});
    interpret_prim_func(f, args);
    for (int64_t i = 0; i < n; ++i) {
      double sum = 0, product = 1, least = INFINITY, most = -INFINITY;
      for (int64_t j = 0; j < m; ++j) {
        const double x = args[0].element(i * m + j);
        sum += x, product *= x, least = std::min(least, x), most = std::max(most, x);
      }
      EXPECT_FLOAT_EQ(float(args[1].element(i)), float(sum));
      EXPECT_FLOAT_EQ(float(args[2].element(i)), float(product));
      EXPECT_EQ(args[3].element(i), least);
      EXPECT_EQ(args[4].element(i), most);
    }
  }
}

TEST(Reducers, ConditionLeavesElementsOut) {
  Tensor a = te::placeholder({6}, f32, "A");
  tir::IterVar k = axis_of(6, "k");
  Tensor s = te::compute(
      {}, [&](const Vars&) { return te::sum(a({k->var}), {k}, tir::lt(k->var, PrimExpr(4))); }, "S");
  tir::PrimFunc f = te::create_prim_func({a, s});
  std::vector<NDArray> args = arguments(f);
  interpret_prim_func(f, args);
  double sum = 0;
  for (int i = 0; i < 4; ++i) sum += args[0].element(i);
  EXPECT_EQ(args[1].element(0), sum);
}

TEST(Reducers, ArgumentsOfExtremes) {
  Tensor a = te::placeholder({5, 9}, f32, "A");
  tir::IterVar k = axis_of(9, "k"), l = axis_of(9, "l");
  auto hi =
      te::compute_multi({5}, [&](const Vars& v) { return te::argmax(k->var, a({v[0], k->var}), {k}); }, "hi");
  auto lo =
      te::compute_multi({5}, [&](const Vars& v) { return te::argmin(l->var, a({v[0], l->var}), {l}); }, "lo");
  tir::PrimFunc f = te::create_prim_func({a, hi[0], hi[1], lo[0], lo[1]});
  std::vector<NDArray> args = arguments(f);
  args[0].set_element(7, NAN);  // row 0
  interpret_prim_func(f, args);
  for (int64_t i = 0; i < 5; ++i) {
    int64_t best = 0, least = 0;
    for (int64_t j = 1; j < 9; ++j) {
      auto x = [&](int64_t at) { return args[0].element(i * 9 + at); };
      if (!std::isnan(x(best)) && (std::isnan(x(j)) || x(j) > x(best))) best = j;
      if (!std::isnan(x(least)) && (std::isnan(x(j)) || x(j) < x(least))) least = j;
    }
    EXPECT_EQ(args[1].element_int(i), best);
    EXPECT_EQ(args[3].element_int(i), least);
  }
  EXPECT_EQ(args[1].element_int(0), 7);
}

/// Sum and sum of squares at once: a tuple that no ready-made reducer has.
TEST(Reducers, CustomTuple) {
  te::Reducer both =
      te::comm_reducer([](const Vars& x, const Vars& y) { return Array<PrimExpr>{x[0] + y[0], x[1] + y[1]}; },
                       [](const std::vector<DataType>& t) {
                         return Array<PrimExpr>{tir::const_of(t[0], 0), tir::const_of(t[1], 0)};
                       });
  tir::VarRef m = tir::var("m");
  Tensor a = te::placeholder({4, m}, f32, "A");
  tir::IterVar k = axis_of(m, "k");
  auto t = te::compute_multi(
      {4},
      [&](const Vars& v) { return both({a({v[0], k->var}), a({v[0], k->var}) * a({v[0], k->var})}, {k}); },
      "moments");
  tir::PrimFunc f = te::create_prim_func({a, t[0], t[1]});
  for (int64_t size : {1, 6, 11}) {
    std::vector<NDArray> args = arguments(f, {{"m", size}});
    interpret_prim_func(f, args);
    for (int64_t i = 0; i < 4; ++i) {
      double sum = 0, squares = 0;
      for (int64_t j = 0; j < size; ++j) {
        const double x = args[0].element(i * size + j);
        sum += x, squares += x * x;
      }
      EXPECT_FLOAT_EQ(float(args[1].element(i)), float(sum));
      EXPECT_FLOAT_EQ(float(args[2].element(i)), float(squares));
    }
  }
}

TEST(Compute, SeveralOutputsOfOneNest) {
  Tensor a = te::placeholder({4, 6}, f32, "A");
  auto t = te::compute_multi(
      {4, 6}, [&](const Vars& v) { return Array<PrimExpr>{a({v[0], v[1]}) + 1.0, a({v[0], v[1]}) * 2.0}; },
      "T", "elementwise");
  EXPECT_EQ(t[0]->op->tag, "elementwise");
  te::Program p = te::create_program({a, t[0], t[1]});
  ASSERT_EQ(p.blocks.size(), 1u);  // one block, two results
  std::vector<NDArray> args = arguments(p.function);
  interpret_prim_func(p.function, args);
  for (int64_t i = 0; i < 24; ++i) {
    EXPECT_EQ(args[1].element(i), args[0].element(i) + 1);
    EXPECT_EQ(args[2].element(i), args[0].element(i) * 2);
  }
}

Tensor cumsum(const Tensor& x, const PrimExpr& m, const PrimExpr& n) {
  Tensor state = te::placeholder({m, n}, f32, "state");
  Tensor init = te::compute({1, n}, [&](const Vars& v) { return x({0, v[1]}); }, "first");
  Tensor update =
      te::compute({m, n}, [&](const Vars& v) { return state({v[0] - 1, v[1]}) + x({v[0], v[1]}); }, "next");
  return te::scan({init}, {update}, {state}, "cumsum")[0];
}

TEST(Scan, CumulativeSumOfSymbolicSizes) {
  tir::VarRef m = tir::var("m"), n = tir::var("n");
  Tensor x = te::placeholder({m, n}, f32, "X");
  tir::PrimFunc f = te::create_prim_func({x, cumsum(x, m, n)});
  EXPECT_EQ(problems_of(f), "");
  tir::PrimFunc again = parse_module(print([&] {
                          IRModule mod = IRModule::create();
                          mod.set("main", f);
                          return mod;
                        }()))
                            .find("main")
                            .cast<tir::PrimFuncNode>();
  for (auto [rows, columns] : {std::pair<int64_t, int64_t>{1, 3}, {5, 4}, {9, 1}}) {
    for (const tir::PrimFunc& g : {f, again}) {
      std::vector<NDArray> args = arguments(g, {{"m", rows}, {"n", columns}});
      interpret_prim_func(g, args);
      for (int64_t j = 0; j < columns; ++j) {
        double sum = 0;
        for (int64_t i = 0; i < rows; ++i) {
          sum += args[0].element(i * columns + j);
          EXPECT_FLOAT_EQ(float(args[1].element(i * columns + j)), float(sum));
        }
      }
    }
  }
}

TEST(Scan, TwoStepsBack) {  // Fibonacci, with an init that somebody else reads too
  Tensor seed = te::placeholder({2, 1}, f32, "seed"), state = te::placeholder({10, 1}, f32, "state");
  Tensor update = te::compute(
      {10, 1}, [&](const Vars& v) { return state({v[0] - 1, v[1]}) + state({v[0] - 2, v[1]}); }, "next");
  Tensor out = te::scan({seed}, {update}, {state}, "fib")[0];
  tir::PrimFunc f = te::create_prim_func({seed, out});
  std::vector<NDArray> args = arguments(f);
  args[0].set_element(0, 1), args[0].set_element(1, 1);
  interpret_prim_func(f, args);
  EXPECT_EQ(args[1].element(9), 55);
}

/// h[t] = tanh(W x[t] + U h[t - 1]), y[t] = the largest value so far: two states, a reduction and a step
/// between.
struct Rnn {
  Tensor x, w, u, h, y;
  Tensor from_x, from_h, next;
  Rnn(int64_t steps, int64_t in, int64_t hidden) {
    x = te::placeholder({steps, in}, f32, "X");
    w = te::placeholder({in, hidden}, f32, "W");
    u = te::placeholder({hidden, hidden}, f32, "U");
    Tensor hs = te::placeholder({steps, hidden}, f32, "hs"), ys = te::placeholder({steps, hidden}, f32, "ys");
    tir::IterVar i = axis_of(in, "i"), j = axis_of(hidden, "j");
    from_x = te::compute(
        {steps, hidden}, [&](const Vars& v) { return te::sum(x({v[0], i->var}) * w({i->var, v[1]}), {i}); },
        "Wx");
    from_h = te::compute(
        {steps, hidden},
        [&](const Vars& v) { return te::sum(hs({v[0] - 1, j->var}) * u({j->var, v[1]}), {j}); }, "Uh");
    next = te::compute(
        {steps, hidden},
        [&](const Vars& v) {
          return tir::call(f32, "tir.tanh", {from_x({v[0], v[1]}) + from_h({v[0], v[1]})});
        },
        "h");
    Tensor best = te::compute(
        {steps, hidden}, [&](const Vars& v) { return tir::max(ys({v[0] - 1, v[1]}), next({v[0], v[1]})); },
        "y");
    Tensor h0 = te::compute({1, hidden}, [&](const Vars&) { return PrimExpr(0.0); }, "h0");
    Tensor y0 = te::compute({1, hidden}, [&](const Vars&) { return PrimExpr(-1.0); }, "y0");
    auto out = te::scan({h0, y0}, {next, best}, {hs, ys}, "rnn");
    h = out[0], y = out[1];
  }
  Args args() const { return {x, w, u, h, y}; }
};

TEST(Scan, RecurrentStepWithTwoStates) {
  const int64_t steps = 5, in = 3, hidden = 4;
  Rnn r(steps, in, hidden);
  tir::PrimFunc f = te::create_prim_func(r.args());
  EXPECT_EQ(problems_of(f), "");
  std::vector<NDArray> args = arguments(f);
  interpret_prim_func(f, args);
  std::vector<double> h(hidden, 0), best(hidden, -1);
  for (int64_t t = 1; t < steps; ++t) {
    std::vector<double> next(hidden);
    for (int64_t a = 0; a < hidden; ++a) {
      double sum = 0;
      for (int64_t i = 0; i < in; ++i) sum += args[0].element(t * in + i) * args[1].element(i * hidden + a);
      for (int64_t j = 0; j < hidden; ++j) sum += h[size_t(j)] * args[2].element(j * hidden + a);
      next[size_t(a)] = std::tanh(sum);
    }
    h = next;
    for (int64_t a = 0; a < hidden; ++a) {
      best[size_t(a)] = std::max(best[size_t(a)], h[size_t(a)]);
      EXPECT_NEAR(args[3].element(t * hidden + a), h[size_t(a)], 1e-5);
      EXPECT_NEAR(args[4].element(t * hidden + a), best[size_t(a)], 1e-5);
    }
  }
}

TEST(Scan, Scheduled) {
  tir::VarRef m = tir::var("m"), n = tir::var("n");
  Tensor x = te::placeholder({m, n}, f32, "X");
  Tensor out = cumsum(x, m, n);
  te::Schedule s = te::create_schedule(out->op);
  const Tensor init = out->op->init[0], update = out->op->update[0];
  s[init].split(init->op->axis[1], 4);
  auto [o, i] = s[update].split(update->op->axis[1], 4);
  s[update].vectorize(i).parallel(o);
  for (auto [rows, columns] : {std::pair<int64_t, int64_t>{1, 3}, {5, 9}})
    check_te(s, {x, out}, {{"m", rows}, {"n", columns}});
  Rnn r(4, 3, 5);
  te::Schedule t = te::create_schedule(r.h->op);
  t[r.from_h].split(r.from_h->op->axis[1], 2);
  t[r.from_h].reorder({t[r.from_h].leaf_axes()[2], t[r.from_h].leaf_axes()[0]});
  t[r.from_x].parallel(r.from_x->op->axis[0]);
  t[r.next].parallel(r.next->op->axis[1]);
  check_te(t, r.args());
}

TEST(Scan, StagesOfAStepMoveTogether) {
  Rnn r(4, 3, 6);
  te::Schedule s = te::create_schedule(r.h->op);
  auto [o, i] = s[r.next].split(r.next->op->axis[1], 4);
  s[r.from_h].compute_at(s[r.next], o);
  s[r.from_x].compute_at(s[r.next], i);
  tenon::Schedule done = check_te(s, r.args());
  EXPECT_EQ(extents(done, "Uh"),
            (std::vector<int64_t>{3, 2, 4, 6}));  // steps, tiles, four of a tile, the sum
  EXPECT_EQ(extents(done, "Wx"), (std::vector<int64_t>{3, 2, 4, 3}));
  tenon::Schedule e(te::create_prim_func(r.args()));
  refused(e, "T0752", "drives its steps",
          [&] { e.compute_at(e.get_block("Uh"), e.get_loops(e.get_block("Wx"))[0]); });
}

TEST(Scan, StepsKeepTheirOrder) {
  // A text may call an axis spatial though a step reads its neighbour in the same row.
  const IRModule m = parse_module(R"(
@T.prim_func
def main(X: T.Buffer((4, 5), "float32"), S: T.Buffer((4, 5), "float32")):
    for t in range(4):
        for i in range(4):
            with T.block("S"):
                vt = T.axis.scan(4, t)
                vi = T.axis.spatial(4, i)
                S[vt, vi + 1] = S[vt, vi] + X[vt, vi]
)");
  tenon::Schedule s(m.find("main").cast<tir::PrimFuncNode>());
  auto loops = s.get_loops(s.get_block("S"));
  refused(s, "T0713", "neither spatial nor a reduction", [&] { s.parallel(loops[1]); });
  refused(s, "T0725", "runs in a fixed order", [&] { s.reorder({loops[1], loops[0]}); });
}

TEST(Scan, Refusals) {
  Tensor x = te::placeholder({6, 3}, f32, "X"), state = te::placeholder({6, 3}, f32, "state");
  Tensor init = te::compute({1, 3}, [&](const Vars& v) { return x({0, v[1]}); }, "first");
  auto update = [&](int64_t back) {
    return te::compute(
        {6, 3}, [=](const Vars& v) { return state({v[0] - back, v[1]}) + x({v[0], v[1]}); }, "next");
  };
  refused_te("T0344", "0 inits, 1 updates", [&] { te::scan({}, {update(1)}, {state}); });
  refused_te("T0344", "is no placeholder", [&] { te::scan({init}, {update(1)}, {update(1)}); });
  refused_te("T0344", "is no compute", [&] { te::scan({init}, {x}, {state}); });
  Tensor wide = te::compute({1, 4}, [&](const Vars&) { return PrimExpr(0.0); }, "wide");
  refused_te("T0344", "another size", [&] { te::scan({wide}, {update(1)}, {state}); });
  Tensor whole = te::compute({1, 3}, [&](const Vars&) { return PrimExpr(int64_t(0)); }, "whole");
  refused_te("T0344", "differ in data type", [&] { te::scan({whole}, {update(1)}, {state}); });
  refused_te("T0346", "not provably an earlier",
             [&] { te::create_prim_func({x, te::scan({init}, {update(0)}, {state})[0]}); });
  refused_te("T0346", "not provably an earlier", [&] {  // the init has one row only
    te::create_prim_func({x, te::scan({init}, {update(2)}, {state})[0]});
  });
  Tensor next = update(1);
  Tensor out = te::scan({init}, {next}, {state})[0];
  Tensor leak = te::compute({6, 3}, [&](const Vars& v) { return next({v[0], v[1]}); }, "leak");
  refused_te("T0345", "lives inside a step", [&] { te::create_prim_func({x, out, leak}); });
  Tensor twice = te::compute({6, 3}, [&](const Vars& v) { return state({v[0] - 1, v[1]}) * 2.0; }, "twice");
  Tensor late = te::compute(
      {6, 3}, [&](const Vars& v) { return twice({v[0] - 1, v[1]}) + state({v[0] - 1, v[1]}); }, "late");
  refused_te("T0346", "only the state lives longer",
             [&] { te::create_prim_func({x, te::scan({init}, {late}, {state})[0]}); });
}

TEST(Extern, StatementOverBuffers) {
  Tensor a = te::placeholder({3, 4}, f32, "A");
  auto out = te::external({{3, 4}, {3}}, {f32, f32}, {a}, [](const auto& in, const auto& result) {
    tir::VarRef i = tir::var("i"), j = tir::var("j");
    tir::Stmt copy = tir::store(result[0], tir::load(in[0], {i, 3 - PrimExpr(j)}), {i, j});
    tir::Stmt last = tir::store(result[1], tir::load(in[0], {i, 3}), {i});
    return tir::for_(i, PrimExpr(0), PrimExpr(3),
                     tir::seq({tir::for_(j, PrimExpr(0), PrimExpr(4), copy), last}));
  });
  Tensor sum =
      te::compute({3, 4}, [&](const Vars& v) { return out[0]({v[0], v[1]}) + out[1]({v[0]}); }, "sum");
  te::Schedule s = te::create_schedule(sum->op);
  auto [o, i] = s[sum].split(sum->op->axis[1], 3);
  s[sum].vectorize(i);
  check_te(s, {a, sum});
  refused_te("T0795", "no axes to split", [&] { s[out[0]].split(te::reduce_axis(tir::range(0, 2)), 2); });
  std::vector<NDArray> args = run(s.apply({a, sum}).function());
  EXPECT_EQ(args[1].element(0), args[0].element(3) + args[0].element(3));
}

TEST(Refusals, Expressions) {
  Tensor a = te::placeholder({4, 4}, f32, "A");
  tir::IterVar k = axis_of(4, "k"), l = axis_of(4, "l");
  refused_te("T0343", "read with 1 indices", [&] { a({PrimExpr(0)}); });
  auto row = [&](const Vars& v) { return te::sum(a({v[0], k->var}), {k}); };
  refused_te("T0343", "must be the whole value",
             [&] { te::compute({4}, [&](const Vars& v) { return row(v) * 2.0; }); });
  refused_te("T0343", "do not nest", [&] {
    te::compute({4}, [&](const Vars&) { return te::sum(te::sum(a({l->var, k->var}), {k}), {l}); });
  });
  refused_te("T0343", "mixes reductions", [&] {
    te::compute_multi({4}, [&](const Vars& v) { return Array<PrimExpr>{row(v), a({v[0], v[0]})}; });
  });
  refused_te("T0343", "values of one reduction",
             [&] { te::compute_multi({4}, [&](const Vars& v) { return Array<PrimExpr>{row(v), row(v)}; }); });
  refused_te("T0343", "without a value",
             [&] { te::compute_multi({4}, [&](const Vars&) { return Array<PrimExpr>{}; }); });
  refused_te("T0343", "no axis of a reduction",
             [&] { te::sum(a({0, 0}), {tir::iter_var(tir::range(PrimExpr(0), PrimExpr(4)), "i")}); });
  auto combine = [](const Vars& x, const Vars& y) { return Array<PrimExpr>{x[0] + y[0]}; };
  refused_te("T0343", "needs an axis", [&] { te::reduce({a({0, 0})}, combine, {PrimExpr(0.0)}, {}); });
  refused_te("T0343", "2 values are reduced with 1",
             [&] { te::reduce({a({0, 0}), a({0, 0})}, combine, {PrimExpr(0.0)}, {k}); });
  refused_te("T0343", "its identity int64",
             [&] { te::reduce({a({0, k->var})}, combine, {PrimExpr(int64_t(0))}, {k}); });
  refused_te("T0343", "combination of 2 values gives 1", [&] {
    te::reduce({a({0, k->var}), a({0, k->var})}, combine, {PrimExpr(0.0), PrimExpr(0.0)}, {k});
  });
  Tensor b = te::compute({4}, [&](const Vars& v) { return row(v); }, "B");
  refused_te("T0341", "not among the parameters", [&] { te::create_prim_func({b}); });
  refused_te("T0340", "given twice", [&] { te::create_prim_func({a, b, b}); });
  tir::VarRef n = tir::var("n");
  Tensor c = te::compute({n}, [&](const Vars& v) { return a({0, tir::floormod(v[0], 4)}); }, "C");
  Tensor d = te::compute({4}, [&](const Vars& v) { return c({v[0]}) * tir::cast(f32, n); }, "D");
  refused_te("T0342", "the size 'n'", [&] { te::create_prim_func({a, d}); });
  EXPECT_EQ(problems_of(te::create_prim_func({a, d}, {n})), "");
}

}  // namespace
}  // namespace tenon::testing
