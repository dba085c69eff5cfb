// SPDX-License-Identifier: Apache-2.0
// Programs that schedule tests transform, and the check that a transformed program still computes the same.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <unordered_set>

#include "interpret/interpret.h"
#include "ir/structural.h"
#include "ir/verify.h"
#include "ir/walk.h"
#include "schedule/schedule.h"
#include "te/te.h"

namespace tenon::testing {

using te::Tensor;
using Vars = Array<tir::VarRef>;

struct Program {
  std::string name;
  tir::PrimFunc function;
  std::map<std::string, int64_t> sizes;  ///< of symbolic dimensions
};

inline Program elementwise(PrimExpr n, PrimExpr m) {
  Tensor a = te::placeholder({n, m}, f32, "A"), b = te::placeholder({m}, f32, "B");
  Tensor c = te::compute(a.shape(), [&](const Vars& v) { return a({v[0], v[1]}) * 2.0 + b({v[1]}); }, "C");
  Tensor d =
      te::compute(a.shape(), [&](const Vars& v) { return tir::max(c({v[0], v[1]}), PrimExpr(0.0)); }, "D");
  Tensor e = te::compute(a.shape(), [&](const Vars& v) { return d({v[0], v[1]}) + c({v[0], v[1]}); }, "E");
  return {"elementwise", te::create_prim_func({a, b, e}), {}};
}
inline Program matmul(PrimExpr m, PrimExpr n, PrimExpr k, bool epilogue = true) {
  Tensor a = te::placeholder({m, k}, f32, "A"), b = te::placeholder({k, n}, f32, "B"),
         bias = te::placeholder({n}, f32, "bias");
  tir::IterVar r = te::reduce_axis(tir::range(PrimExpr(0), k), "k");
  Tensor c = te::compute(
      {m, n}, [&](const Vars& v) { return te::sum(a({v[0], r->var}) * b({r->var, v[1]}), {r}); }, "C");
  if (!epilogue) return {"matmul", te::create_prim_func({a, b, c}), {}};
  Tensor d = te::compute(
      {m, n}, [&](const Vars& v) { return tir::max(c({v[0], v[1]}) + bias({v[1]}), PrimExpr(0.0)); }, "D");
  return {"matmul", te::create_prim_func({a, b, bias, d}), {}};
}
inline Program conv(int64_t ic, int64_t h, int64_t w, int64_t oc, int64_t kernel, int64_t stride,
                    int64_t pad) {
  Tensor x = te::placeholder({1, ic, h, w}, f32, "X"),
         k = te::placeholder({oc, ic, kernel, kernel}, f32, "K");
  Tensor p = te::compute(
      {1, ic, h + 2 * pad, w + 2 * pad},
      [&](const Vars& v) {
        PrimExpr y = v[2] - pad, z = v[3] - pad;
        PrimExpr in = tir::logical_and(tir::logical_and(tir::ge(y, PrimExpr(0)), tir::lt(y, PrimExpr(h))),
                                       tir::logical_and(tir::ge(z, PrimExpr(0)), tir::lt(z, PrimExpr(w))));
        return tir::if_then_else(in, x({v[0], v[1], y, z}), PrimExpr(0.0));
      },
      "pad");
  const int64_t oh = (h + 2 * pad - kernel) / stride + 1, ow = (w + 2 * pad - kernel) / stride + 1;
  tir::IterVar rc = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(ic)), "rc"),
               ry = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(kernel)), "ry"),
               rx = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(kernel)), "rx");
  Tensor c = te::compute(
      {1, oc, oh, ow},
      [&](const Vars& v) {
        return te::sum(p({v[0], rc->var, v[2] * stride + ry->var, v[3] * stride + rx->var}) *
                           k({v[1], rc->var, ry->var, rx->var}),
                       {rc, ry, rx});
      },
      "conv");
  Tensor d = te::compute(
      {1, oc, oh, ow}, [&](const Vars& v) { return tir::max(c({v[0], v[1], v[2], v[3]}), PrimExpr(0.0)); },
      "relu");
  return {"conv", te::create_prim_func({x, k, d}), {}};
}
inline Program softmax(PrimExpr n, PrimExpr m) {
  Tensor a = te::placeholder({n, m}, f32, "A");
  tir::IterVar k = te::reduce_axis(tir::range(PrimExpr(0), m), "k"),
               l = te::reduce_axis(tir::range(PrimExpr(0), m), "l");
  Tensor mx = te::compute({n}, [&](const Vars& v) { return te::max(a({v[0], k->var}), {k}); }, "mx");
  Tensor ex =
      te::compute({n, m}, [&](const Vars& v) { return tir::exp(a({v[0], v[1]}) - mx({v[0]})); }, "ex");
  Tensor sm = te::compute({n}, [&](const Vars& v) { return te::sum(ex({v[0], l->var}), {l}); }, "sm");
  Tensor out =
      te::compute({n, m}, [&](const Vars& v) { return tir::div(ex({v[0], v[1]}), sm({v[0]})); }, "out");
  return {"softmax", te::create_prim_func({a, out}), {}};
}
inline Program row_sum(PrimExpr n, PrimExpr m) {
  Tensor a = te::placeholder({n, m}, f32, "A");
  tir::IterVar k = te::reduce_axis(tir::range(PrimExpr(0), m), "k");
  Tensor s = te::compute({n}, [&](const Vars& v) { return te::sum(a({v[0], k->var}), {k}); }, "S");
  Tensor o = te::compute({n}, [&](const Vars& v) { return s({v[0]}) * 0.5; }, "O");
  return {"row_sum", te::create_prim_func({a, o}), {}};
}
inline Program column_max(PrimExpr n, PrimExpr m) {
  Tensor a = te::placeholder({n, m}, f32, "A");
  tir::IterVar k = te::reduce_axis(tir::range(PrimExpr(0), n), "k");
  Tensor s = te::compute({m}, [&](const Vars& v) { return te::max(a({k->var, v[0]}), {k}); }, "S");
  return {"column_max", te::create_prim_func({a, s}), {}};
}
inline Program argmax(PrimExpr n, PrimExpr m) {
  Tensor a = te::placeholder({n, m}, f32, "A");
  tir::IterVar k = te::reduce_axis(tir::range(PrimExpr(0), m), "k");
  std::vector<Tensor> t = te::compute_multi(
      {n}, [&](const Vars& v) { return te::argmax(k->var, a({v[0], k->var}), {k}); }, "arg");
  return {"argmax", te::create_prim_func({a, t[0], t[1]}), {}};
}
inline Program transpose(PrimExpr n, PrimExpr m) {
  Tensor a = te::placeholder({n, m}, f32, "A");
  Tensor t = te::compute({m, n}, [&](const Vars& v) { return a({v[1], v[0]}); }, "T");
  Tensor o = te::compute({m, n}, [&](const Vars& v) { return t({v[0], v[1]}) + 1.0; }, "O");
  return {"transpose", te::create_prim_func({a, o}), {}};
}
inline Program layer_norm(PrimExpr n, int64_t m) {
  Tensor a = te::placeholder({n, m}, f32, "A"), g = te::placeholder({m}, f32, "G");
  tir::IterVar k = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(m)), "k"),
               l = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(m)), "l");
  Tensor s = te::compute({n}, [&](const Vars& v) { return te::sum(a({v[0], k->var}), {k}); }, "S");
  Tensor c = te::compute(
      {n, m}, [&](const Vars& v) { return a({v[0], v[1]}) - s({v[0]}) * (1.0 / double(m)); }, "Cn");
  Tensor q = te::compute(
      {n}, [&](const Vars& v) { return te::sum(c({v[0], l->var}) * c({v[0], l->var}), {l}); }, "Q");
  Tensor o = te::compute(
      {n, m},
      [&](const Vars& v) {
        return c({v[0], v[1]}) * tir::div(PrimExpr(1.0), tir::sqrt(q({v[0]}) * (1.0 / double(m)) + 1e-5)) *
               g({v[1]});
      },
      "O");
  return {"layer_norm", te::create_prim_func({a, g, o}), {}};
}
inline Program pool(int64_t c, int64_t h, int64_t w) {
  Tensor a = te::placeholder({1, c, h, w}, f32, "A");
  tir::IterVar y = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(3)), "y"),
               x = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(3)), "x");
  Tensor p = te::compute(
      {1, c, (h - 3) / 2 + 1, (w - 3) / 2 + 1},
      [&](const Vars& v) { return te::max(a({v[0], v[1], v[2] * 2 + y->var, v[3] * 2 + x->var}), {y, x}); },
      "P");
  return {"pool", te::create_prim_func({a, p}), {}};
}
inline Program depthwise(int64_t c, int64_t h, int64_t w) {
  Tensor a = te::placeholder({1, c, h, w}, f32, "A"), k = te::placeholder({c, 3, 3}, f32, "K");
  tir::IterVar y = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(3)), "y"),
               x = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(3)), "x");
  Tensor p = te::compute(
      {1, c, h + 2, w + 2},
      [&](const Vars& v) {
        PrimExpr i = v[2] - 1, j = v[3] - 1;
        PrimExpr in = tir::logical_and(tir::logical_and(tir::ge(i, PrimExpr(0)), tir::lt(i, PrimExpr(h))),
                                       tir::logical_and(tir::ge(j, PrimExpr(0)), tir::lt(j, PrimExpr(w))));
        return tir::if_then_else(in, a({v[0], v[1], i, j}), PrimExpr(0.0));
      },
      "pad");
  Tensor d = te::compute(
      {1, c, h, w},
      [&](const Vars& v) {
        return te::sum(p({v[0], v[1], v[2] + y->var, v[3] + x->var}) * k({v[1], y->var, x->var}), {y, x});
      },
      "dw");
  Tensor o = te::compute(
      {1, c, h, w},
      [&](const Vars& v) {
        return tir::min(tir::max(d({v[0], v[1], v[2], v[3]}), PrimExpr(0.0)), PrimExpr(6.0));
      },
      "clip");
  return {"depthwise", te::create_prim_func({a, k, o}), {}};
}

inline Program batched_matmul(int64_t b, int64_t m, int64_t n, int64_t k) {
  Tensor x = te::placeholder({b, m, k}, f32, "A"), y = te::placeholder({b, n, k}, f32, "B");
  tir::IterVar r = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(k)), "k");
  Tensor c = te::compute(
      {b, m, n},
      [&](const Vars& v) { return te::sum(x({v[0], v[1], r->var}) * y({v[0], v[2], r->var}), {r}); }, "C");
  Tensor d = te::compute({b, m, n}, [&](const Vars& v) { return c({v[0], v[1], v[2]}) * 0.5; }, "D");
  return {"batched_matmul", te::create_prim_func({x, y, d}), {}};
}
/// Zeros between and around the inputs, then a convolution.
inline Program conv_transposed(int64_t ic, int64_t h, int64_t oc, int64_t kernel, int64_t stride) {
  const int64_t spread = (h - 1) * stride + 1 + 2 * (kernel - 1), out = spread - kernel + 1;
  Tensor x = te::placeholder({ic, h, h}, f32, "X"), k = te::placeholder({ic, oc, kernel, kernel}, f32, "K");
  Tensor p = te::compute(
      {ic, spread, spread},
      [&](const Vars& v) {
        PrimExpr y = v[1] - (kernel - 1), z = v[2] - (kernel - 1);
        PrimExpr in = tir::true_();
        for (const PrimExpr& e : {y, z})
          in = tir::logical_and(
              in, tir::logical_and(
                      tir::logical_and(tir::ge(e, PrimExpr(0)), tir::lt(e, PrimExpr((h - 1) * stride + 1))),
                      tir::eq(tir::floormod(e, stride), PrimExpr(0))));
        return tir::if_then_else(in, x({v[0], tir::floordiv(y, stride), tir::floordiv(z, stride)}),
                                 PrimExpr(0.0));
      },
      "dilate");
  tir::IterVar rc = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(ic)), "rc"),
               ry = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(kernel)), "ry"),
               rx = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(kernel)), "rx");
  Tensor c = te::compute(
      {oc, out, out},
      [&](const Vars& v) {
        return te::sum(p({rc->var, v[1] + ry->var, v[2] + rx->var}) *
                           k({rc->var, v[0], PrimExpr(kernel - 1) - ry->var, PrimExpr(kernel - 1) - rx->var}),
                       {rc, ry, rx});
      },
      "conv");
  return {"conv_transposed", te::create_prim_func({x, k, c}), {}};
}
inline Program gather(int64_t rows, int64_t n, int64_t m) {
  Tensor a = te::placeholder({rows, m}, f32, "A"), i = te::placeholder({n}, i64, "I");
  Tensor g = te::compute(
      {n, m},
      [&](const Vars& v) {
        return a({tir::max(tir::min(i({v[0]}), PrimExpr(rows - 1)), PrimExpr(0)), v[1]});
      },
      "G");
  Tensor o = te::compute({n, m}, [&](const Vars& v) { return g({v[0], v[1]}) * 2.0 + 1.0; }, "O");
  return {"gather", te::create_prim_func({a, i, o}), {}};
}
inline Program transposes(int64_t n, int64_t m, int64_t k) {
  Tensor a = te::placeholder({n, m, k}, f32, "A");
  Tensor t = te::compute({k, n, m}, [&](const Vars& v) { return a({v[1], v[2], v[0]}); }, "T");
  Tensor u = te::compute({m, k, n}, [&](const Vars& v) { return t({v[1], v[2], v[0]}) + 1.0; }, "U");
  Tensor w = te::compute({n, k, m}, [&](const Vars& v) { return u({v[2], v[1], v[0]}) * 2.0; }, "W");
  return {"transposes", te::create_prim_func({a, w}), {}};
}
inline Program mean_of_two_axes(int64_t n, int64_t h, int64_t w) {
  Tensor a = te::placeholder({n, h, w}, f32, "A");
  tir::IterVar y = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(h)), "y"),
               x = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(w)), "x");
  Tensor s = te::compute({n}, [&](const Vars& v) { return te::sum(a({v[0], y->var, x->var}), {y, x}); }, "S");
  Tensor o = te::compute({n}, [&](const Vars& v) { return s({v[0]}) * (1.0 / double(h * w)); }, "O");
  return {"mean_of_two_axes", te::create_prim_func({a, o}), {}};
}
/// Two tensors beside one another with a border of ones.
inline Program concat_pad(int64_t n, int64_t a, int64_t b) {
  Tensor x = te::placeholder({n, a}, f32, "A"), y = te::placeholder({n, b}, f32, "B");
  Tensor c = te::compute(
      {n, a + b},
      [&](const Vars& v) {
        return tir::if_then_else(tir::lt(v[1], PrimExpr(a)), x({v[0], v[1]}), y({v[0], v[1] - a}));
      },
      "cat");
  Tensor p = te::compute(
      {n + 2, a + b + 3},
      [&](const Vars& v) {
        PrimExpr i = v[0] - 1, j = v[1] - 1;
        PrimExpr in =
            tir::logical_and(tir::logical_and(tir::le(PrimExpr(0), i), tir::lt(i, PrimExpr(n))),
                             tir::logical_and(tir::ge(j, PrimExpr(0)), tir::lt(j, PrimExpr(a + b))));
        return tir::if_then_else(in, c({i, j}), PrimExpr(1.0));
      },
      "border");
  Tensor o = te::compute({n + 2, a + b + 3}, [&](const Vars& v) { return p({v[0], v[1]}) * 3.0; }, "O");
  return {"concat_pad", te::create_prim_func({x, y, o}), {}};
}
inline Program matmul_int8(int64_t m, int64_t n, int64_t k) {
  Tensor a = te::placeholder({m, k}, DataType::int_(8), "A"),
         b = te::placeholder({k, n}, DataType::int_(8), "B");
  tir::IterVar r = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(k)), "k");
  Tensor c = te::compute(
      {m, n},
      [&](const Vars& v) {
        return te::sum(tir::cast(i32, a({v[0], r->var})) * tir::cast(i32, b({r->var, v[1]})), {r});
      },
      "C");
  Tensor d = te::compute({m, n}, [&](const Vars& v) { return tir::cast(f32, c({v[0], v[1]})) * 0.25; }, "D");
  return {"matmul_int8", te::create_prim_func({a, b, d}), {}};
}

inline std::string problems_of(const tir::PrimFunc& f) {
  DiagnosticList problems;
  verify_prim_func("main", f, problems);
  std::string out;
  for (const Diagnostic& d : problems.all()) out += render(d) + "\n";
  return out;
}
/// Does the loop carry a reduction of some block below?
inline bool carries_reduction(const tir::For& l) {
  bool found = false;
  std::unordered_set<const Object*> carried{l.loop_var.get()};
  auto uses = [&](const PrimExpr& e) {
    bool any = false;
    pre_order(e, [&](const ObjectRef& n) {
      any = any || carried.count(n.get());
      return !any;
    });
    return any;
  };
  pre_order(l.body, [&](const ObjectRef& n) {
    if (const auto* r = n.as<tir::BlockRealize>())
      for (size_t i = 0; i < r->iter_values.size(); ++i) {
        if (!uses(r->iter_values[i])) continue;
        carried.insert(r->block->iter_vars[i]->var.get());
        found = found || r->block->iter_vars[i]->kind == tir::IterKind::reduce;
      }
    return n.is<tir::StmtNode>() || n.is<ArrayObj>();
  });
  return found;
}
/// Independent loops run backwards: what is parallel, vectorised or bound may not depend on the order.
/// (Threads that reduce together keep theirs: the block's init comes first.)
inline tir::PrimFunc reversed(const tir::PrimFunc& f) {
  return rewrite(f, [](const tir::For& l) -> tir::Stmt {
    if (l.kind != tir::ForKind::parallel && l.kind != tir::ForKind::vectorized &&
        l.kind != tir::ForKind::thread_binding)
      return {};
    if (l.kind == tir::ForKind::thread_binding && carries_reduction(l)) return {};
    tir::VarMap map{{l.loop_var.get(), l.min + l.min + l.extent - 1 - l.loop_var}};
    return make<tir::For>(l.loop_var, l.min, l.extent, tir::ForKind::serial, tir::substitute(l.body, map),
                          l.thread_tag, l.annotations);
  });
}
inline int count_loops(const tir::PrimFunc& f, tir::ForKind kind) {
  int n = 0;
  post_order(f, [&](const ObjectRef& o) {
    if (const auto* l = o.as<tir::For>()) n += l->kind == kind;
  });
  return n;
}

/// Seeded arguments; sizes of symbolic dimensions are given by name.
inline std::vector<NDArray> arguments(const tir::PrimFunc& f,
                                      const std::map<std::string, int64_t>& sizes = {}, uint64_t seed = 7) {
  std::mt19937_64 random(seed);
  std::vector<NDArray> args;
  for (const tir::VarRef& p : f->params) {
    auto b = f->buffer_map.find(p);
    if (!b) {
      NDArray a = NDArray::empty({}, p->dtype);
      a.set_element_int(0, sizes.at(p->name));
      args.push_back(a);
      continue;
    }
    std::vector<int64_t> shape;
    for (const PrimExpr& d : (*b)->shape) {
      tir::VarMap values;
      for (const tir::VarRef& v : tir::free_vars(d)) values[v.get()] = PrimExpr(sizes.at(v->name));
      shape.push_back(*tir::as_int(simplify(tir::substitute(d, values))));
    }
    NDArray a = NDArray::empty(shape, (*b)->dtype);
    for (int64_t i = 0; i < a.size(); ++i)
      if (a.dtype().is_float())
        a.set_element(i, double(int64_t(random() % 17)) / 4 - 2);
      else
        a.set_element_int(i, int64_t(random() % 9) - 4);
    args.push_back(a);
  }
  return args;
}
/// Runs f on seeded inputs; returns every buffer after the run.
inline std::vector<NDArray> run(const tir::PrimFunc& f, const std::map<std::string, int64_t>& sizes = {},
                                uint64_t seed = 7) {
  std::vector<NDArray> args = arguments(f, sizes, seed);
  interpret_prim_func(f, args);
  return args;
}
inline ::testing::AssertionResult same(const std::vector<NDArray>& a, const std::vector<NDArray>& b) {
  for (size_t i = 0; i < a.size(); ++i)
    for (int64_t j = 0; j < a[i].size(); ++j) {
      const double x = a[i].element(j), y = b[i].element(j);
      if (std::isnan(x) && std::isnan(y)) continue;
      if (!(std::abs(x - y) <= 1e-4 * (1 + std::abs(x))))
        return ::testing::AssertionFailure()
               << "argument " << i << " element " << j << ": " << x << " against " << y;
    }
  return ::testing::AssertionSuccess();
}

inline int64_t extent(const Schedule& s, LoopRV l) { return tir::as_int(s.get(l)->extent).value_or(-1); }

/// The step is refused with this code; the sentence names the place and says why; nothing changes.
template <class F>
void refused(Schedule& s, const std::string& code, const std::string& words, F step) {
  const tir::PrimFunc before = s.function();
  const size_t steps = s.trace().steps.size();
  try {
    step();
    ADD_FAILURE() << "accepted, expected " << code << ": " << words;
  } catch (const ScheduleError& e) {
    EXPECT_EQ(e.code, code) << e.what();
    EXPECT_NE(e.message.find(words), std::string::npos) << e.what();
  }
  EXPECT_TRUE(s.function().same_as(before));
  EXPECT_EQ(s.trace().steps.size(), steps);
}
inline void check(const Program& p, const Schedule& s) {
  EXPECT_TRUE(same(run(p.function, p.sizes), run(s.function(), p.sizes))) << s.trace().to_script();
}

}  // namespace tenon::testing
