// SPDX-License-Identifier: Apache-2.0
// fold_transpose_into_product: a product of few rows reads its second operand where it lies, one of many rows
// a transposed copy.
//
//   before   lv = R.permute_dims(y, axes=[0, 2, 1]);  lv1 = R.matmul(x, lv)
//   after    lv1 = R.einsum((x, y), subscripts="abc,adc->abd")
//   before   lv = R.nn.dense(x, y)       # of many rows, where y is no constant
//   after    lv1 = R.permute_dims(y, axes=[1, 0]);  lv = R.matmul(x, lv1)
//
// Both operands of the first then lie along the sum, and nothing is written that the product reads once:
// queries of one step of an attention by its keys. Needs: types; normal form. Keeps: types; values up to the
// order of sums.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analysis/cost/products.h"
#include "ir/bodies.h"
#include "ir/structural.h"
#include "op/body_rewriter.h"
#include "op/build.h"

namespace tenon {
namespace graph {
namespace {

/// Of the product of `call` with the second operand before `transpose`; empty when the product stays.
std::string subscripts_of(const Call& call, const Call& transpose, const Type& result) {
  const auto *x = as_tensor(call.args[0]), *y = as_tensor(transpose.args[0]), *out = as_tensor(result);
  const auto p = known_shape(call.args[0]), q = known_shape(call.args[1]);
  if (!x || !y || !out || !p || !q || p->size() < 3 || p->size() != q->size()) return {};
  if (!x->dtype.is_float() || x->dtype != y->dtype || x->dtype != out->dtype) return {};
  const size_t rank = p->size();
  const auto rows = tir::as_int((*p)[rank - 2]);
  if (!rows || *rows > cost::kRowsReadInPlace) return {};
  if (const auto sum = tir::as_int((*p)[rank - 1]); sum && *sum < cost::kSumReadInPlace) return {};
  for (size_t i = 0; i + 2 < rank; ++i)
    if (!structural_equal((*p)[i], (*q)[i])) return {};
  const auto& axes = op::attrs_of<op::AxesAttrs>(transpose).axes;
  const auto source = [&](size_t axis) {
    return axes.empty() ? rank - 1 - axis : size_t((axes[axis] + int64_t(rank)) % int64_t(rank));
  };
  // Before it is transposed the operand must lie along the sum.
  if (source(rank - 2) != rank - 1) return {};
  std::string left, right(rank, ' ');
  for (size_t i = 0; i < rank; ++i) left += char('a' + i);
  const char column = char('a' + rank);
  std::string of_result = left;
  of_result.back() = column;
  for (size_t i = 0; i + 2 < rank; ++i) right[source(i)] = left[i];
  right[source(rank - 2)] = left.back();
  right[source(rank - 1)] = column;
  return fmt::format("{},{}->{}", left, right, of_result);
}

class FoldTranspose : public BodyRewriter {
 public:
  explicit FoldTranspose(const Function& f) {
    for_each_binding(f.body, [&](const Binding& b) {
      for_each_use(b->value, [&](const VarRef& v) { ++uses_[v.get()]; });
    });
  }

 protected:
  Expr visit(const Expr& value, const VarRef&) override {
    const Op* op = op_of(value);
    if (op && op->name == "nn.dense") return dense(value, *value.as<Call>());
    if (!op || op->name != "matmul") return value;
    const Call& call = *value.as<Call>();
    const Call* t = definition_call(call.args[1], "permute_dims");
    const auto* read_once = call.args[1].as<Var>();
    if (!t || !read_once || uses_[read_once] != 1) return value;
    const std::string subscripts = subscripts_of(call, *t, value->type);
    if (subscripts.empty()) return value;
    return op::op_call("einsum", {op::tuple({call.args[0], t->args[0]})},
                       op::make_attrs<op::EinsumAttrs>([&](auto& a) { a.subscripts = subscripts; }),
                       call.origin);
  }

 private:
  /// Made of constants alone, it is a weight that will be one, and packed.
  bool folds(const Expr& e) const {
    if (e.is<Constant>()) return true;
    const auto* made = definition(e).as<Call>();
    return made && std::all_of(made->args.begin(), made->args.end(), [&](const Expr& a) { return folds(a); });
  }
  Expr dense(const Expr& value, const Call& call) {
    const Expr &x = call.args[0], &w = call.args[1];
    const auto shape = static_shape(x->type);
    const auto* type = as_tensor(value->type);
    // Instructions for sums of narrow numbers want both operands along the sum.
    constexpr int kWide = 32;
    if (!type || !type->dtype.is_float() || type->dtype.bits < kWide || folds(w) || !shape ||
        shape->size() < 2 || op::attrs_of<op::MatmulAttrs>(call).out_dtype != DataType::void_())
      return value;
    int64_t rows = 1;
    for (size_t i = 0; i + 1 < shape->size(); ++i) rows *= (*shape)[i];
    if (rows <= cost::kRowsReadInPlace) return value;
    const Expr columns = emit(
        op::op_call("permute_dims", {w}, op::make_attrs<op::AxesAttrs>(Array<int64_t>{1, 0}), call.origin));
    return op::op_call("matmul", {x, columns}, {}, call.origin);
  }

  std::map<const Var*, int> uses_;
};

}  // namespace
}  // namespace graph

static IRModule fold_transpose_into_product(IRModule module, PassContext&) {
  return module.map_graph([&](const std::string&, const Ref<graph::Function>& f) -> ObjectRef {
    Ref<graph::Function> out = graph::FoldTranspose(*f).run(f);
    return out.same_as(f) ? ObjectRef() : ObjectRef(out);
  });
}

const Pass& fold_transpose_into_product_pass = register_pass({
    .name = "fold_transpose_into_product",
    .run = fold_transpose_into_product,
    .level = 2,
    .summary = "products of few rows read a transposed operand where it lies, others a copy",
    .needs = {"infer_types"},
    .changes = Changes::sum_order,
});

}  // namespace tenon
