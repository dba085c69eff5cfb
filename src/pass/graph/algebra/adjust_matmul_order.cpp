// SPDX-License-Identifier: Apache-2.0
// adjust_matmul_order: chains of two products are computed in the order that takes fewer multiplications.
//
//   before   lv = R.matmul(a, b);  lv1 = R.matmul(lv, c)       # (n, k)·(k, m)·(m, 1)
//   after    lv = R.matmul(b, c);  lv1 = R.matmul(a, lv)       # where lv has no other use
//
// Sums are taken in another order, so this runs at -O3. The matrices on the side that is regrouped have two
// axes and known sizes; a symbolic number of rows decides nothing where both orders are linear in it and one
// is cheaper for every row. Needs: types; normal form. Keeps: values up to the order of sums.
#include "op/body_rewriter.h"
#include "op/build.h"

namespace tenon {
namespace graph {
namespace {

class AdjustMatmulOrder : public BodyRewriter {
 public:
  explicit AdjustMatmulOrder(std::unordered_map<const Var*, int> uses) : uses_(std::move(uses)) {}

 protected:
  Expr visit(const Expr& value, const VarRef&) override {
    if (!is_plain(value)) return value;
    const Call& call = *value.as<Call>();
    if (const Call* inner = once(call.args[0])) return from_left(*inner, call, value);
    if (const Call* inner = once(call.args[1])) return from_right(call, *inner, value);
    return value;
  }

 private:
  static bool is_plain(const Expr& value) {
    const Op* op = op_of(value);
    return op && op->name == "matmul" &&
           op::attrs_of<op::MatmulAttrs>(*value.as<Call>()).out_dtype == DataType::void_();
  }
  /// The product that the variable stands for, when only this binding reads it.
  const Call* once(const Expr& e) const {
    const auto* v = e.as<Var>();
    auto uses = v ? uses_.find(v) : uses_.end();
    const Call* call = definition_call(e, "matmul");
    return call && uses != uses_.end() && uses->second == 1 && is_plain(definition(e)) ? call : nullptr;
  }
  static std::optional<std::vector<int64_t>> matrix(const Expr& e) {
    auto shape = static_shape(e->type);
    return shape && shape->size() == 2 ? shape : std::nullopt;
  }
  /// Rows of a tensor: all its elements but the last axis; nullopt when not all are known.
  static std::optional<int64_t> rows(const Expr& e) {
    auto shape = static_shape(e->type);
    if (!shape || shape->size() < 2) return {};
    int64_t n = 1;
    for (size_t i = 0; i + 1 < shape->size(); ++i) n *= (*shape)[i];
    return n;
  }
  static Expr product(const Expr& a, const Expr& b, const Origin& origin) {
    return op::op_call("matmul", {a, b}, {}, origin);
  }

  /// (a·b)·c: with r rows of a, b (k, m) and c (m, n), r·k·m + r·m·n against k·m·n + r·k·n.
  Expr from_left(const Call& inner, const Call& outer, const Expr& value) {
    const Expr &a = inner.args[0], &b = inner.args[1], &c = outer.args[1];
    auto bs = matrix(b), cs = matrix(c);
    const auto* at = as_tensor(a);
    if (!bs || !cs || !at || at->ndim < 2) return value;
    const double k = double((*bs)[0]), m = double((*bs)[1]), n = double((*cs)[1]);
    auto r = rows(a);
    // A product of constants is computed once, by the compiler.
    const double once = b.is<Constant>() && c.is<Constant>() ? 0 : k * m * n;
    if (!r && once > 0) return value;
    const double count = double(r.value_or(1));
    if (once + count * k * n >= count * (k * m + m * n)) return value;
    return product(a, emit(product(b, c, outer.origin)), outer.origin);
  }
  /// a·(b·c): with r rows of a, r·k·n + k·m·n against r·k·m + r·m·n.
  Expr from_right(const Call& outer, const Call& inner, const Expr& value) {
    const Expr &a = outer.args[0], &b = inner.args[0], &c = inner.args[1];
    auto bs = matrix(b), cs = matrix(c);
    auto r = rows(a);
    if (!bs || !cs || !r || (b.is<Constant>() && c.is<Constant>())) return value;
    const double k = double((*bs)[0]), m = double((*bs)[1]), n = double((*cs)[1]), count = double(*r);
    if (count * (k * m + m * n) >= count * k * n + k * m * n) return value;
    return product(emit(product(a, b, outer.origin)), c, outer.origin);
  }

  std::unordered_map<const Var*, int> uses_;
};

}  // namespace
}  // namespace graph

static IRModule adjust_matmul_order(IRModule module, PassContext&) {
  return module.map_graph([&](const std::string&, const Ref<graph::Function>& f) -> ObjectRef {
    graph::AdjustMatmulOrder rewriter(graph::count_uses(*f));
    Ref<graph::Function> out = rewriter.run(f);
    return out.same_as(f) ? ObjectRef() : ObjectRef(out);
  });
}

const Pass& adjust_matmul_order_pass = register_pass({
    .name = "adjust_matmul_order",
    .run = adjust_matmul_order,
    .level = 3,
    .summary = "chains of products in the cheaper order",
    .needs = {"infer_types"},
    .changes = Changes::sum_order,
});

}  // namespace tenon
