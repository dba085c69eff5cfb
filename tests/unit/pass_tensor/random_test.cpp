// SPDX-License-Identifier: Apache-2.0
// Random element-wise and reducing programs with random kinds of loops, pass by pass.
#include "programs.h"

namespace tenon {
namespace {

using namespace tir;
using te::Tensor;

struct Random {
  std::mt19937_64 r;
  Tensor a, ints;
  int64_t rows = 0, columns = 0;
  int64_t pick(int64_t lo, int64_t hi) { return std::uniform_int_distribution<int64_t>(lo, hi)(r); }

  PrimExpr inside(const PrimExpr& e, int64_t size) {
    switch (pick(0, 2)) {
      case 0:
        return floormod(e, n64(size));
      case 1:
        return tir::max(tir::min(e, n64(size - 1)), n64(0));
      default:
        return floormod(floordiv(e, n64(pick(2, 3))), n64(size));
    }
  }
  PrimExpr index(const Array<VarRef>& v, int depth = 2) {
    const PrimExpr x = v[size_t(pick(0, int64_t(v.size()) - 1))];
    if (depth == 0) return x;
    const PrimExpr y = index(v, depth - 1);
    switch (pick(0, 6)) {
      case 0:
        return x * n64(pick(1, 5)) + y;
      case 1:
        return floordiv(y, n64(pick(2, 5)));
      case 2:
        return floormod(y, n64(pick(2, 5)));
      case 3:
        return x - y;
      case 4:
        return select(condition(v), x, y);
      case 5:
        return ints({inside(y, rows * columns)}) + x;
      default:
        return y + n64(pick(-3, 3));
    }
  }
  PrimExpr condition(const Array<VarRef>& v) {
    const PrimExpr x = v[size_t(pick(0, int64_t(v.size()) - 1))];
    switch (pick(0, 3)) {
      case 0:
        return lt(x, n64(pick(0, 9)));
      case 1:
        return eq(floormod(x, n64(2)), n64(1));
      case 2:
        return logical_and(ge(x, n64(1)), logical_not(eq(x, n64(3))));
      default:
        return logical_or(gt(x, n64(4)), le(x, v[0]));
    }
  }
  PrimExpr value(const Array<VarRef>& v, int depth) {
    if (depth == 0)
      return pick(0, 3) ? a({inside(index(v), rows), inside(index(v), columns)}) : cast(f32, index(v, 1));
    const PrimExpr x = value(v, depth - 1);
    switch (pick(0, 7)) {
      case 0:
        return x + value(v, depth - 1);
      case 1:
        return x * PrimExpr(0.5);
      case 2:
        return tir::max(x, value(v, depth - 1));
      case 3:
        return if_then_else(condition(v), x, value(v, depth - 1));
      case 4:
        return select(condition(v), x, PrimExpr(1.5));
      case 5:
        return abs(x);
      case 6: {  // an access that only the condition makes safe
        const PrimExpr at = index(v);
        return if_then_else(logical_and(ge(at, n64(0)), lt(at, n64(rows))), a({at, n64(0)}), x);
      }
      default: {
        VarRef t = var("t", f32);
        return make<Let>(t, x, PrimExpr(t) * t + PrimExpr(t));
      }
    }
  }
};

TEST(RandomPrograms, KeepTheirMeaningThroughEveryPass) {
  Random g{std::mt19937_64(11), {}, {}};
  for (int n = 0; n < 250; ++n) {
    g.rows = g.pick(1, 5);
    g.columns = g.pick(1, 18);
    g.a = te::placeholder({n64(g.rows), n64(g.columns)}, f32, "A");
    g.ints = te::placeholder({n64(g.rows * g.columns)}, i64, "I");
    Tensor t = te::compute(
        {n64(g.rows), n64(g.columns)}, [&](const Array<VarRef>& v) { return g.value(v, int(g.pick(0, 3))); },
        "T");
    Tensor y = t;
    if (g.pick(0, 1)) {
      IterVar k = te::reduce_axis(range(n64(0), n64(g.columns)), "k");
      y = te::compute(
          {n64(g.rows), n64(3)},
          [&](const Array<VarRef>& v) { return te::sum(t({v[0], k->var}) * cast(f32, v[1] + k->var), {k}); },
          "Y");
    }
    PrimFunc f = te::create_prim_func({g.a, g.ints, y});
    if (y->op.same_as(t->op)) f = te::create_prim_func({g.a, g.ints, t});
    // Data-parallel loops get any kind.
    f.edit()->body = rewrite(f->body, [&](const For& l) -> Stmt {
      if (l.loop_var->name == "k") return {};
      Ref<For> r(&l);
      r.edit()->kind = ForKind(g.pick(0, 3));
      return r;
    });
    const std::vector<int64_t> shape = {g.rows, y->op.same_as(t->op) ? g.columns : 3};
    check_pipeline(f, {random_array({g.rows, g.columns}, f32, uint64_t(n)),
                       random_array({g.rows * g.columns}, i64, 5), NDArray::zeros(shape, f32)});
    if (HasFailure()) {
      ADD_FAILURE() << "program " << n << "\n" << print(f);
      return;
    }
  }
}

}  // namespace
}  // namespace tenon
