// SPDX-License-Identifier: Apache-2.0
// Linear algebra on batches of square matrices: determinant, inverse, Cholesky, solutions. Leading axes are a
// batch.
#include <fmt/format.h>

#include "base/define_type.h"
#include "op/attrs_signal.h"
#include "op/family.h"
#include "op/program.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;

/// Argument i is a batch of square matrices of real numbers.
bool expect_square(InferContext& ctx, size_t i) {
  const auto& x = ctx.tensor(i);
  if (!ctx.expect_domain(x.dtype, Domain::floating)) return false;
  if (x.ndim >= 0 && x.ndim < 2) return ctx.error(fmt::format("takes matrices, not {} dimensions", x.ndim));
  auto s = shape_of(x);
  if (s && !ctx.require_equal(s->back(), (*s)[s->size() - 2]))
    return ctx.error(fmt::format("matrices {} are not square", show(*s)));
  return true;
}
Type infer_det(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  if (!expect_square(ctx, 0)) return {};
  auto s = shape_of(x);
  if (!s) return make_type(std::nullopt, x.ndim < 0 ? -1 : x.ndim - 2, x.dtype);
  return make_type(Shape(s->begin(), s->begin() + (std::ptrdiff_t(s->size()) - 2)), 0, x.dtype);
}
Type infer_square(InferContext& ctx) {
  if (!expect_square(ctx, 0)) return {};
  return infer_same(ctx);
}
Type infer_solve(InferContext& ctx) {
  const auto& b = ctx.tensor(1);
  if (!expect_square(ctx, 0) || !ctx.expect_same_type(ctx.tensor(0).dtype, b.dtype)) return {};
  auto s = shape_of(ctx.tensor(0)), r = shape_of(b);
  if (s && r) {
    bool fits = r->size() == s->size();
    for (size_t i = 0; fits && i + 1 < s->size(); ++i) fits = ctx.require_equal((*s)[i], (*r)[i]);
    if (!fits) return ctx.error(fmt::format("matrices {} and right sides {} do not fit", show(*s), show(*r)));
  }
  return like(b, b.dtype);
}

/// Indices of a matrix of a batch.
struct At {
  Shape batch;
  Shape operator()(const PrimExpr& i, const PrimExpr& j) const {
    Shape s = batch;
    s.push_back(i), s.push_back(j);
    return s;
  }
  Shape operator()(int64_t cell) const {
    Shape s = batch;
    s.push_back(PrimExpr(cell));
    return s;
  }
};
Shape batch_of(const te::Tensor& x) {
  return Shape(x.shape().begin(), x.shape().begin() + (std::ptrdiff_t(x.ndim()) - 2));
}
Shape with_cells(Shape batch, int64_t n) {
  batch.push_back(PrimExpr(n));
  return batch;
}
tir::Stmt copy_matrix(const tir::Buffer& to, const tir::Buffer& from, const At& at, const PrimExpr& rows,
                      const PrimExpr& columns) {
  return each("i", rows, [&](const PrimExpr& i) {
    return each("j", columns, [&](const PrimExpr& j) {
      return tir::store(to, tir::cast(to->dtype, tir::load(from, at(i, j))), at(i, j));
    });
  });
}
/// Swaps rows i and k of the first `columns` columns, through a cell.
tir::Stmt swap_rows(const tir::Buffer& m, const At& at, const PrimExpr& i, const PrimExpr& k,
                    const PrimExpr& columns) {
  return each("j", columns, [&](const PrimExpr& j) {
    return named("kept", tir::load(m, at(i, j)), [&](const PrimExpr& kept) {
      return tir::seq({tir::store(m, tir::load(m, at(k, j)), at(i, j)), tir::store(m, kept, at(k, j))});
    });
  });
}
/// cells[0] becomes the row of the largest element of column k at or below the diagonal.
tir::Stmt find_pivot(const tir::Buffer& m, const tir::Buffer& cells, const At& at, const PrimExpr& k,
                     const PrimExpr& n) {
  return tir::seq({tir::store(cells, k, at(0)), each("i", n, [&](const PrimExpr& i) {
                     const PrimExpr best = tir::abs(tir::load(m, at(tir::load(cells, at(0)), k)));
                     const PrimExpr mine = tir::abs(tir::load(m, at(i, k)));
                     return when(and_then(tir::gt(i, k), tir::gt(mine, best)), tir::store(cells, i, at(0)));
                   })});
}
/// rows below k less their share of row k, for columns from `first` on, in m.
PrimExpr ratio(const tir::Buffer& m, const At& at, const PrimExpr& i, const PrimExpr& k) {
  return tir::div(tir::load(m, at(i, k)), tir::load(m, at(k, k)));
}

Tensors def_det(const Call& call, const Tensors& in) {
  const TensorInfo out = output_info(call);
  const te::Tensor& x = in[0];
  const PrimExpr n = x.shape()[x.ndim() - 1];
  const DataType t = wide_type(x.dtype());
  auto body = [&](const Array<tir::Buffer>& ins, const Array<tir::Buffer>& outs) {
    const tir::Buffer &result = outs[0], &m = outs[1], &cells = outs[2];
    return each_of(out.shape, [&](const Shape& batch) {
      const At at{batch};
      auto step = [&](const PrimExpr& k) {
        const PrimExpr pivot = tir::load(m, at(k, k)), row = tir::load(cells, at(0));
        const tir::Stmt swap = when(
            tir::ne(row, k),
            tir::seq({swap_rows(m, at, k, row, n), tir::store(result, -tir::load(result, batch), batch)}));
        const tir::Stmt below = each("i", n, [&](const PrimExpr& i) {
          return when(tir::gt(i, k), named("part", ratio(m, at, i, k), [&](const PrimExpr& part) {
                        return each("j", n, [&](const PrimExpr& j) {
                          return tir::store(m, tir::load(m, at(i, j)) - part * tir::load(m, at(k, j)),
                                            at(i, j));
                        });
                      }));
        });
        const tir::Stmt take = tir::store(result, tir::load(result, batch) * pivot, batch);
        return tir::seq(
            {find_pivot(m, cells, at, k, n), swap, take, when(tir::ne(pivot, constant(t, 0)), below)});
      };
      return tir::seq(
          {copy_matrix(m, ins[0], at, n, n), tir::store(result, constant(t, 1), batch), each("k", n, step)});
    });
  };
  const te::Tensor det =
      te::external({out.shape, x.shape(), with_cells(out.shape, 1)}, {t, t, i64}, {x}, body, "det")[0];
  return {cast_to(det, x.dtype())};
}

/// Gauss and Jordan on the matrix beside the right sides, with partial pivots.
te::Tensor solved(const te::Tensor& a, const te::Tensor& b) {
  const Shape all = batch_of(a);
  const PrimExpr n = a.shape()[a.ndim() - 1], m = b.shape()[b.ndim() - 1];
  const DataType t = wide_type(a.dtype());
  auto body = [&](const Array<tir::Buffer>& ins, const Array<tir::Buffer>& outs) {
    const tir::Buffer &y = outs[0], &w = outs[1], &cells = outs[2];
    return each_of(all, [&](const Shape& batch) {
      const At at{batch};
      auto step = [&](const PrimExpr& k) {
        const PrimExpr row = tir::load(cells, at(0));
        const tir::Stmt swap =
            when(tir::ne(row, k), tir::seq({swap_rows(w, at, k, row, n), swap_rows(y, at, k, row, m)}));
        const tir::Stmt scale = named("pivot", tir::load(w, at(k, k)), [&](const PrimExpr& pivot) {
          auto divide = [&](const tir::Buffer& buffer, const PrimExpr& columns) {
            return each("j", columns, [&](const PrimExpr& j) {
              return tir::store(buffer, tir::div(tir::load(buffer, at(k, j)), pivot), at(k, j));
            });
          };
          return tir::seq({divide(w, n), divide(y, m)});
        });
        const tir::Stmt others = each("i", n, [&](const PrimExpr& i) {
          return when(tir::ne(i, k), named("part", tir::load(w, at(i, k)), [&](const PrimExpr& part) {
                        auto take = [&](const tir::Buffer& buffer, const PrimExpr& columns) {
                          return each("j", columns, [&](const PrimExpr& j) {
                            return tir::store(
                                buffer, tir::load(buffer, at(i, j)) - part * tir::load(buffer, at(k, j)),
                                at(i, j));
                          });
                        };
                        return tir::seq({take(w, n), take(y, m)});
                      }));
        });
        return tir::seq({find_pivot(w, cells, at, k, n), swap, scale, others});
      };
      return tir::seq(
          {copy_matrix(w, ins[0], at, n, n), copy_matrix(y, ins[1], at, n, m), each("k", n, step)});
    });
  };
  return te::external({b.shape(), a.shape(), with_cells(all, 1)}, {t, t, i64}, {a, b}, body, "solve")[0];
}
Tensors def_solve(const Call&, const Tensors& in) { return {cast_to(solved(in[0], in[1]), in[1].dtype())}; }
Tensors def_inverse(const Call&, const Tensors& in) {
  const te::Tensor& x = in[0];
  const te::Tensor one = te::compute(
      x.shape(),
      [&](const Vars& v) {
        return tir::select(tir::eq(v[v.size() - 1], v[v.size() - 2]), constant(x.dtype(), 1),
                           constant(x.dtype(), 0));
      },
      "identity");
  return {cast_to(solved(x, one), x.dtype())};
}

Tensors def_cholesky(const Call&, const Tensors& in) {
  const te::Tensor& x = in[0];
  const PrimExpr n = x.shape()[x.ndim() - 1];
  const DataType t = wide_type(x.dtype());
  auto body = [&](const Array<tir::Buffer>& ins, const Array<tir::Buffer>& outs) {
    return each_of(batch_of(x), [&](const Shape& batch) {
      const At at{batch};
      const tir::Buffer& y = outs[0];
      auto element = [&](const PrimExpr& i, const PrimExpr& j) {
        const PrimExpr sum = tir::load(y, at(i, j));
        const tir::Stmt start = tir::store(y, tir::cast(t, tir::load(ins[0], at(i, j))), at(i, j));
        const tir::Stmt less = each("k", n, [&](const PrimExpr& k) {
          return when(tir::lt(k, j),
                      tir::store(y, sum - tir::load(y, at(i, k)) * tir::load(y, at(j, k)), at(i, j)));
        });
        const tir::Stmt finish = when(tir::eq(i, j), tir::store(y, tir::sqrt(sum), at(i, j)),
                                      tir::store(y, tir::div(sum, tir::load(y, at(j, j))), at(i, j)));
        return when(tir::le(j, i), tir::seq({start, less, finish}), tir::store(y, constant(t, 0), at(i, j)));
      };
      return each("i", n, [&](const PrimExpr& i) {
        return each("j", n, [&](const PrimExpr& j) { return element(i, j); });
      });
    });
  };
  return {cast_to(te::external({x.shape()}, {t}, {x}, body, "cholesky")[0], x.dtype())};
}

Tensors def_triangular(const Call& call, const Tensors& in) {
  const auto& a = attrs_of<TriangularAttrs>(call);
  const te::Tensor &x = in[0], &b = in[1];
  const PrimExpr n = x.shape()[x.ndim() - 1], m = b.shape()[b.ndim() - 1];
  const DataType t = wide_type(x.dtype());
  auto body = [&](const Array<tir::Buffer>& ins, const Array<tir::Buffer>& outs) {
    return each_of(batch_of(x), [&](const Shape& batch) {
      const At at{batch};
      const tir::Buffer& y = outs[0];
      auto line = [&](const PrimExpr& step) {
        return named("i", a.lower ? step : n - 1 - step, [&](const PrimExpr& i) {
          return each("j", m, [&](const PrimExpr& j) {
            const PrimExpr sum = tir::load(y, at(i, j));
            const tir::Stmt start = tir::store(y, tir::cast(t, tir::load(ins[1], at(i, j))), at(i, j));
            const tir::Stmt less = each("k", n, [&](const PrimExpr& k) {
              return when(
                  a.lower ? tir::lt(k, i) : tir::gt(k, i),
                  tir::store(y, sum - tir::cast(t, tir::load(ins[0], at(i, k))) * tir::load(y, at(k, j)),
                             at(i, j)));
            });
            if (a.unit_diagonal) return tir::seq({start, less});
            const PrimExpr pivot = tir::cast(t, tir::load(ins[0], at(i, i)));
            return tir::seq({start, less, tir::store(y, tir::div(sum, pivot), at(i, j))});
          });
        });
      };
      return each("step", n, line);
    });
  };
  return {cast_to(te::external({b.shape()}, {t}, {x, b}, body, "triangular_solve")[0], b.dtype())};
}

const bool linalg_registered = [] {
  auto add = [](OpName name, const char* doc, InferType infer, TensorDef def) {
    return register_op(std::move(name), doc)
        .argument("a", "Tensor", "square matrices (…, n, n)")
        .infer(std::move(infer))
        .fusion(FusionKind::opaque)
        .tensor_def(std::move(def));
  };
  const char* const sides = "right sides (…, n, m)";
  add("linalg.det", "Determinant.", infer_det, def_det);
  add("linalg.inverse", "Inverse matrix; infinities and NaN where a pivot is 0, which rounding may hide.",
      infer_square, def_inverse);
  add("linalg.cholesky", "The lower L with L · Lᵀ = a, of symmetric positive matrices.", infer_square,
      def_cholesky);
  add("linalg.solve", "y with a · y = b.", infer_solve, def_solve).argument("b", "Tensor", sides);
  add("linalg.triangular_solve", "y with a · y = b, where only a triangle of a counts.", infer_solve,
      def_triangular)
      .argument("b", "Tensor", sides)
      .attrs<TriangularAttrs>();
  return true;
}();

}  // namespace
}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::TriangularAttrs>;
