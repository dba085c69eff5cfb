// SPDX-License-Identifier: Apache-2.0
// Further programs that random sequences of steps transform: forty and more together with programs.h.
#pragma once
#include "ir/text.h"
#include "programs.h"

namespace tenon::testing {

inline tir::IterVar axis_of(PrimExpr extent, const std::string& name) {
  return te::reduce_axis(tir::range(PrimExpr(0), std::move(extent)), name);
}
/// A program written as text (its function is `main`).
inline Program text_program(const std::string& name, const std::string& text,
                            std::map<std::string, int64_t> sizes = {}) {
  return {name, parse_module(text).find("main").cast<tir::PrimFuncNode>(), std::move(sizes)};
}

inline Program dot(PrimExpr n) {
  Tensor a = te::placeholder({n}, f32, "A"), b = te::placeholder({n}, f32, "B");
  tir::IterVar k = axis_of(n, "k");
  Tensor s = te::compute({1}, [&](const Vars&) { return te::sum(a({k->var}) * b({k->var}), {k}); }, "S");
  return {"dot", te::create_prim_func({a, b, s}), {}};
}
inline Program outer_product(PrimExpr n, PrimExpr m) {
  Tensor a = te::placeholder({n}, f32, "A"), b = te::placeholder({m}, f32, "B");
  Tensor o = te::compute({n, m}, [&](const Vars& v) { return a({v[0]}) * b({v[1]}); }, "O");
  Tensor d = te::compute({n, m}, [&](const Vars& v) { return o({v[0], v[1]}) - 1.0; }, "D");
  return {"outer_product", te::create_prim_func({a, b, d}), {}};
}
inline Program matvec(PrimExpr n, int64_t m) {
  Tensor x = te::placeholder({m}, f32, "X"), a = te::placeholder({n, PrimExpr(m)}, f32, "A");
  tir::IterVar k = axis_of(PrimExpr(m), "k");
  Tensor y =
      te::compute({n}, [&](const Vars& v) { return te::sum(a({v[0], k->var}) * x({k->var}), {k}); }, "Y");
  Tensor z = te::compute({n}, [&](const Vars& v) { return y({v[0]}) + 0.5; }, "Z");
  return {"matvec", te::create_prim_func({x, a, z}), {}};
}
/// Aᵀ · B + bias, where the bias is added to the sum itself.
inline Program matmul_bias(PrimExpr m, int64_t n, int64_t k) {
  Tensor a = te::placeholder({PrimExpr(k), m}, f32, "A"), b = te::placeholder({k, n}, f32, "B"),
         bias = te::placeholder({n}, f32, "bias");
  tir::IterVar r = axis_of(PrimExpr(k), "k");
  Tensor c = te::compute(
      {m, PrimExpr(n)}, [&](const Vars& v) { return te::sum(a({r->var, v[0]}) * b({r->var, v[1]}), {r}); },
      "C");
  Tensor d =
      te::compute({m, PrimExpr(n)}, [&](const Vars& v) { return c({v[0], v[1]}) + bias({v[1]}); }, "D");
  return {"matmul_bias", te::create_prim_func({a, b, bias, d}), {}};
}
/// Row maxima with a lower bound, row products with a factor: reductions with epilogues of their own kind.
inline Program bounded_maxima(PrimExpr n, int64_t m) {
  Tensor a = te::placeholder({n, PrimExpr(m)}, f32, "A");
  tir::IterVar k = axis_of(PrimExpr(m), "k");
  Tensor x = te::compute({n}, [&](const Vars& v) { return te::max(a({v[0], k->var}), {k}); }, "mx");
  Tensor o = te::compute({n}, [&](const Vars& v) { return tir::max(x({v[0]}), PrimExpr(0.25)); }, "O");
  return {"bounded_maxima", te::create_prim_func({a, o}), {}};
}
inline Program column_minima(int64_t n, int64_t m) {
  Tensor a = te::placeholder({n, m}, f32, "A"), b = te::placeholder({m}, f32, "B");
  tir::IterVar k = axis_of(PrimExpr(n), "k");
  Tensor x = te::compute({m}, [&](const Vars& v) { return te::min(a({k->var, v[0]}), {k}); }, "mn");
  Tensor o = te::compute({m}, [&](const Vars& v) { return tir::min(b({v[0]}), x({v[0]})); }, "O");
  return {"column_minima", te::create_prim_func({a, b, o}), {}};
}
/// softmax(Q · Kᵀ) · V
inline Program attention(PrimExpr n, int64_t d) {
  Tensor q = te::placeholder({n, PrimExpr(d)}, f32, "Q"), k = te::placeholder({n, PrimExpr(d)}, f32, "K"),
         w = te::placeholder({n, PrimExpr(d)}, f32, "V");
  tir::IterVar i = axis_of(PrimExpr(d), "i"), j = axis_of(n, "j"), l = axis_of(n, "l"), m = axis_of(n, "m");
  Tensor s = te::compute(
      {n, n}, [&](const Vars& v) { return te::sum(q({v[0], i->var}) * k({v[1], i->var}), {i}); }, "S");
  Tensor mx = te::compute({n}, [&](const Vars& v) { return te::max(s({v[0], j->var}), {j}); }, "mx");
  Tensor e = te::compute({n, n}, [&](const Vars& v) { return tir::exp(s({v[0], v[1]}) - mx({v[0]})); }, "E");
  Tensor t = te::compute({n}, [&](const Vars& v) { return te::sum(e({v[0], l->var}), {l}); }, "T");
  Tensor p = te::compute({n, n}, [&](const Vars& v) { return tir::div(e({v[0], v[1]}), t({v[0]})); }, "P");
  Tensor o = te::compute(
      {n, PrimExpr(d)}, [&](const Vars& v) { return te::sum(p({v[0], m->var}) * w({m->var, v[1]}), {m}); },
      "O");
  return {"attention", te::create_prim_func({q, k, w, o}), {}};
}
inline Program rms_norm(PrimExpr n, int64_t m) {
  Tensor a = te::placeholder({n, PrimExpr(m)}, f32, "A"), g = te::placeholder({m}, f32, "G");
  tir::IterVar k = axis_of(PrimExpr(m), "k");
  Tensor q = te::compute(
      {n}, [&](const Vars& v) { return te::sum(a({v[0], k->var}) * a({v[0], k->var}), {k}); }, "Q");
  Tensor o = te::compute(
      {n, PrimExpr(m)},
      [&](const Vars& v) {
        return a({v[0], v[1]}) * g({v[1]}) *
               tir::div(PrimExpr(1.0), tir::sqrt(q({v[0]}) * (1.0 / double(m)) + 1e-5));
      },
      "O");
  return {"rms_norm", te::create_prim_func({a, g, o}), {}};
}
inline Program batch_norm(int64_t n, int64_t c, int64_t h) {
  Tensor a = te::placeholder({n, c, h}, f32, "A"), mean = te::placeholder({c}, f32, "mean"),
         scale = te::placeholder({c}, f32, "scale"), shift = te::placeholder({c}, f32, "shift");
  Tensor x = te::compute(a.shape(), [&](const Vars& v) { return a({v[0], v[1], v[2]}) - mean({v[1]}); }, "X");
  Tensor y =
      te::compute(a.shape(), [&](const Vars& v) { return x({v[0], v[1], v[2]}) * scale({v[1]}); }, "Y");
  Tensor z = te::compute(
      a.shape(),
      [&](const Vars& v) { return tir::max(y({v[0], v[1], v[2]}) + shift({v[1]}), PrimExpr(0.0)); }, "Z");
  return {"batch_norm", te::create_prim_func({a, mean, scale, shift, z}), {}};
}
/// A sum over `window` rows of what a block makes of each row: windows that move by `step`.
inline Program row_windows(int64_t rows, int64_t columns, int64_t window, int64_t step) {
  Tensor a = te::placeholder({(rows - 1) * step + window, columns}, f32, "A");
  Tensor t = te::compute(a.shape(), [&](const Vars& v) { return a({v[0], v[1]}) * 2.0 + 1.0; }, "T");
  tir::IterVar y = axis_of(PrimExpr(window), "y");
  Tensor o = te::compute(
      {rows, columns}, [&](const Vars& v) { return te::sum(t({v[0] * step + y->var, v[1]}), {y}); }, "O");
  return {"row_windows", te::create_prim_func({a, o}), {}};
}
/// Two blurs after one another, of rows and of columns.
inline Program blurs(int64_t n, int64_t m) {
  Tensor a = te::placeholder({n + 2, m + 2}, f32, "A");
  Tensor x = te::compute(
      {n + 2, m},
      [&](const Vars& v) { return (a({v[0], v[1]}) + a({v[0], v[1] + 1}) + a({v[0], v[1] + 2})) * 0.25; },
      "X");
  Tensor y = te::compute(
      {n, m},
      [&](const Vars& v) { return (x({v[0], v[1]}) + x({v[0] + 1, v[1]}) + x({v[0] + 2, v[1]})) * 0.5; },
      "Y");
  return {"blurs", te::create_prim_func({a, y}), {}};
}
inline Program conv1d(int64_t c, int64_t n, int64_t o, int64_t kernel, int64_t dilation) {
  Tensor x = te::placeholder({c, n}, f32, "X"), w = te::placeholder({o, c, kernel}, f32, "W");
  tir::IterVar i = axis_of(PrimExpr(c), "i"), k = axis_of(PrimExpr(kernel), "k");
  Tensor y = te::compute(
      {o, n - (kernel - 1) * dilation},
      [&](const Vars& v) {
        return te::sum(x({i->var, v[1] + k->var * dilation}) * w({v[0], i->var, k->var}), {i, k});
      },
      "Y");
  Tensor z = te::compute(
      {o, n - (kernel - 1) * dilation}, [&](const Vars& v) { return tir::tanh(y({v[0], v[1]})); }, "Z");
  return {"conv1d", te::create_prim_func({x, w, z}), {}};
}
inline Program grouped_conv(int64_t groups, int64_t c, int64_t h, int64_t o) {
  Tensor x = te::placeholder({groups, c, h, h}, f32, "X"),
         w = te::placeholder({groups, o, c, 3, 3}, f32, "W");
  tir::IterVar i = axis_of(PrimExpr(c), "i"), y = axis_of(PrimExpr(3), "y"), z = axis_of(PrimExpr(3), "z");
  Tensor r = te::compute(
      {groups, o, h - 2, h - 2},
      [&](const Vars& v) {
        return te::sum(
            x({v[0], i->var, v[2] + y->var, v[3] + z->var}) * w({v[0], v[1], i->var, y->var, z->var}),
            {i, y, z});
      },
      "R");
  return {"grouped_conv", te::create_prim_func({x, w, r}), {}};
}
inline Program average_pool(int64_t c, int64_t h) {
  Tensor a = te::placeholder({c, h, h}, f32, "A");
  tir::IterVar y = axis_of(PrimExpr(2), "y"), x = axis_of(PrimExpr(2), "x");
  Tensor s = te::compute(
      {c, h / 2, h / 2},
      [&](const Vars& v) { return te::sum(a({v[0], v[1] * 2 + y->var, v[2] * 2 + x->var}), {y, x}); }, "S");
  Tensor o = te::compute({c, h / 2, h / 2}, [&](const Vars& v) { return s({v[0], v[1], v[2]}) * 0.25; }, "O");
  return {"average_pool", te::create_prim_func({a, o}), {}};
}
inline Program resize(int64_t h, int64_t scale) {
  Tensor a = te::placeholder({h, h}, f32, "A");
  Tensor u = te::compute(
      {h * scale, h * scale},
      [&](const Vars& v) { return a({tir::floordiv(v[0], scale), tir::floordiv(v[1], scale)}); }, "U");
  Tensor o =
      te::compute({h * scale, h * scale}, [&](const Vars& v) { return u({v[0], v[1]}) * 0.5 + 1.0; }, "O");
  return {"resize", te::create_prim_func({a, o}), {}};
}
/// Channels to space: indices that are computed.
inline Program depth_to_space(int64_t c, int64_t h, int64_t b) {
  Tensor a = te::placeholder({c * b * b, h, h}, f32, "A");
  Tensor o = te::compute(
      {c, h * b, h * b},
      [&](const Vars& v) {
        return a({(tir::floormod(v[1], b) * b + tir::floormod(v[2], b)) * c + v[0], tir::floordiv(v[1], b),
                  tir::floordiv(v[2], b)});
      },
      "O");
  return {"depth_to_space", te::create_prim_func({a, o}), {}};
}
inline Program strided_slice(int64_t n, int64_t m) {
  Tensor a = te::placeholder({2 * n + 1, m + 4}, f32, "A");
  Tensor t = te::compute({n, m}, [&](const Vars& v) { return a({v[0] * 2 + 1, v[1] + 3}); }, "T");
  Tensor o = te::compute({n, m}, [&](const Vars& v) { return t({v[0], v[1]}) + a({v[0], v[1]}); }, "O");
  return {"strided_slice", te::create_prim_func({a, o}), {}};
}
inline Program reflect_pad(int64_t n, int64_t m) {
  Tensor a = te::placeholder({n, m}, f32, "A");
  Tensor p = te::compute(
      {n, m + 2},
      [&](const Vars& v) {
        PrimExpr x = v[1] - 1;
        x = tir::select(tir::lt(x, PrimExpr(0)), PrimExpr(0) - x, x);
        x = tir::select(tir::ge(x, PrimExpr(m)), PrimExpr(2 * m - 2) - x, x);
        return a({v[0], x});
      },
      "Pd");
  Tensor o = te::compute({n, m}, [&](const Vars& v) { return p({v[0], v[1]}) + p({v[0], v[1] + 2}); }, "O");
  return {"reflect_pad", te::create_prim_func({a, o}), {}};
}
inline Program product_of_rows(int64_t n, int64_t m) {
  Tensor a = te::placeholder({n, m}, f32, "A");
  tir::IterVar k = axis_of(PrimExpr(m), "k");
  Tensor h = te::compute({n, m}, [&](const Vars& v) { return a({v[0], v[1]}) * 0.125 + 1.0; }, "H");
  Tensor p = te::compute({n}, [&](const Vars& v) { return te::prod(h({v[0], k->var}), {k}); }, "P");
  return {"product_of_rows", te::create_prim_func({a, p}), {}};
}
inline Program gelu(PrimExpr n, PrimExpr m) {
  Tensor a = te::placeholder({n, m}, f32, "A");
  Tensor c = te::compute(
      {n, m}, [&](const Vars& v) { return a({v[0], v[1]}) * a({v[0], v[1]}) * a({v[0], v[1]}) * 0.044715; },
      "cube");
  Tensor t = te::compute(
      {n, m}, [&](const Vars& v) { return tir::tanh((a({v[0], v[1]}) + c({v[0], v[1]})) * 0.7978846); },
      "th");
  Tensor o = te::compute(
      {n, m}, [&](const Vars& v) { return a({v[0], v[1]}) * (t({v[0], v[1]}) + 1.0) * 0.5; }, "O");
  return {"gelu", te::create_prim_func({a, o}), {}};
}
inline Program argmin(int64_t n, int64_t m) {
  Tensor a = te::placeholder({m, n}, f32, "A");
  tir::IterVar k = axis_of(PrimExpr(m), "k");
  std::vector<Tensor> t = te::compute_multi(
      {n}, [&](const Vars& v) { return te::argmin(k->var, a({k->var, v[0]}), {k}); }, "arg");
  return {"argmin", te::create_prim_func({a, t[0], t[1]}), {}};
}
inline Program quantised_conv(int64_t c, int64_t n, int64_t o) {
  Tensor x = te::placeholder({c, n}, DataType::int_(8), "X"),
         w = te::placeholder({o, c, 3}, DataType::int_(8), "W");
  tir::IterVar i = axis_of(PrimExpr(c), "i"), k = axis_of(PrimExpr(3), "k");
  Tensor y = te::compute(
      {o, n - 2},
      [&](const Vars& v) {
        return te::sum(tir::cast(i32, x({i->var, v[1] + k->var})) * tir::cast(i32, w({v[0], i->var, k->var})),
                       {i, k});
      },
      "Y");
  Tensor z =
      te::compute({o, n - 2}, [&](const Vars& v) { return tir::cast(f32, y({v[0], v[1]})) * 0.125; }, "Z");
  return {"quantised_conv", te::create_prim_func({x, w, z}), {}};
}
/// y[t] = 0.5 · y[t - 1] + x[t], in place, row by row: a block that runs in a fixed order.
inline Program scan() {
  return text_program("scan", R"(
@T.prim_func
def main(X: T.Buffer((4, 7), "float32"), O: T.Buffer((4, 7), "float32")):
    Y = T.alloc_buffer((4, 7), "float32")
    for i in range(4):
        with T.block("first"):
            vi = T.axis.spatial(4, i)
            Y[vi, 0] = X[vi, 0]
    for i in range(4):
        for t in range(6):
            with T.block("step"):
                vi = T.axis.spatial(4, i)
                vt = T.axis.opaque(6, t)
                Y[vi, vt + 1] = Y[vi, vt] * T.float32(0.5) + X[vi, vt + 1]
    for i in range(4):
        for j in range(7):
            with T.block("O"):
                vi, vj = T.axis.remap("SS", [i, j])
                O[vi, vj] = Y[vi, vj] + T.float32(1)
)");
}
inline Program scatter_add() {
  return text_program("scatter_add", R"(
@T.prim_func
def main(I: T.Buffer((9,), "int64"), X: T.Buffer((9, 3), "float32"), O: T.Buffer((5, 3), "float32")):
    Z = T.alloc_buffer((5, 3), "float32")
    for i in range(5):
        for j in range(3):
            with T.block("zero"):
                vi, vj = T.axis.remap("SS", [i, j])
                Z[vi, vj] = T.float32(0)
    for i in range(9):
        for j in range(3):
            with T.block("add"):
                vi = T.axis.opaque(9, i)
                vj = T.axis.spatial(3, j)
                Z[T.max(T.min(I[vi], 4), 0), vj] = Z[T.max(T.min(I[vi], 4), 0), vj] + X[vi, vj]
    for i in range(5):
        for j in range(3):
            with T.block("O"):
                vi, vj = T.axis.remap("SS", [i, j])
                O[vi, vj] = Z[vi, vj] * T.float32(2)
)");
}
/// Rows sorted by exchanging neighbours: one opaque block for each row.
inline Program sort_rows() {
  return text_program("sort_rows", R"(
@T.prim_func
def main(X: T.Buffer((4, 6), "float32"), O: T.Buffer((4, 6), "float32")):
    Y = T.alloc_buffer((4, 6), "float32")
    for i in range(4):
        for j in range(6):
            with T.block("copy"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = X[vi, vj] * T.float32(2)
    for i in range(4):
        with T.block("sort"):
            vi = T.axis.spatial(4, i)
            for a in range(5):
                for b in range(5):
                    if Y[vi, b] > Y[vi, b + 1]:
                        with T.let(Y[vi, b]) as t:
                            Y[vi, b] = Y[vi, b + 1]
                            Y[vi, b + 1] = t
    for i in range(4):
        for j in range(6):
            with T.block("O"):
                vi, vj = T.axis.remap("SS", [i, j])
                O[vi, vj] = Y[vi, vj] + T.float32(1)
)");
}

inline std::vector<Program> more_programs() {
  tir::VarRef n = tir::var("n"), m = tir::var("m");
  std::vector<Program> out{dot(PrimExpr(13)),
                           outer_product(5, 6),
                           matmul_bias(PrimExpr(5), 6, 7),
                           bounded_maxima(PrimExpr(5), 6),
                           column_minima(6, 5),
                           attention(PrimExpr(4), 3),
                           rms_norm(PrimExpr(3), 7),
                           batch_norm(2, 3, 5),
                           row_windows(5, 4, 3, 1),
                           row_windows(4, 3, 4, 2),
                           blurs(5, 4),
                           conv1d(2, 9, 3, 3, 2),
                           grouped_conv(2, 2, 5, 2),
                           average_pool(2, 6),
                           resize(3, 2),
                           depth_to_space(2, 3, 2),
                           strided_slice(4, 5),
                           reflect_pad(3, 5),
                           product_of_rows(3, 5),
                           argmin(4, 6),
                           quantised_conv(2, 7, 3),
                           scan(),
                           scatter_add(),
                           sort_rows()};
  std::vector<Program> symbolic{matvec(n, 5), matmul_bias(n, 4, 3), attention(n, 2), gelu(n, m),
                                bounded_maxima(n, 4)};
  for (Program& p : symbolic) {
    p.sizes = {{"n", 5}, {"m", 6}};
    p.name += "_symbolic";
    out.push_back(p);
  }
  return out;
}

}  // namespace tenon::testing
