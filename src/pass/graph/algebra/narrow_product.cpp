// SPDX-License-Identifier: Apache-2.0
// narrow_product: products of matrices of widened bytes multiply the bytes where the target has an
// instruction for it (dot_intrin.h), whatever the two are.
//
//   before   lv = R.subtract(R.cast(x, "int32"), z);  lv1 = R.subtract(R.cast(w, "int32"), v)
//            lv2 = R.matmul(lv, lv1)
//   after    lv = R.matmul(x, w, out_dtype="int32")
//            lv1 = z · Σ w + v · (Σ x - z · k), sums along the k that both have;  lv2 = R.subtract(lv, lv1)
//
// Integers of 32 bits wrap, so that this is exact for every zero point. A sum that is no whole number of
// groups is filled up where w is a constant, x before the product; a kernel fills up what it lays out anew.
// Behind narrow_contraction, which takes zero points off constant weights that hold the difference. Needs:
// types, a target. Keeps: values.
#include "analysis/cost/cache.h"
#include "op/body_rewriter.h"
#include "op/build.h"
#include "schedule/dot_intrin.h"
#include "target/target.h"

namespace tenon {
namespace graph {
namespace {

/// A shorter sum, or fewer columns, is over before operands lie in groups.
constexpr int64_t kLeastSum = 16, kLeastColumns = 16;

class NarrowProduct : public BodyRewriter {
 public:
  explicit NarrowProduct(Target target) : target_(std::move(target)) {}

 protected:
  Expr visit(const Expr& value, const VarRef& var) override {
    const auto sum = op::contraction_of(value);
    if (!sum || sum->spatial != 0) return value;
    const Op* op = op_of(value);
    const Call& call = *value.as<Call>();
    const auto* out = as_tensor(var->declared ? var->declared : value->type);
    if (!out || out->dtype != i32) return value;
    Operand x = operand(call.args[0], as_tensor(call.args[0])->ndim - 1),
            w = operand(call.args[1], sum->weight_in);
    if (!x.narrow || !w.narrow || !pays(x, w, sum->weight_out)) return value;
    // A zero point of each column lies along the result only where the columns do.
    if (w.zero && w.by_columns() && !one_value(w.zero)) return value;
    const auto form = dot_form(target_, as_tensor(x.narrow)->dtype, as_tensor(w.narrow)->dtype, i32);
    if (!form) return value;
    const Expr worth = worth_of(x, w, call.origin, var->name);
    if (w.narrow.is<Constant>()) fill_up(x, w, form->group, var->name);
    const ObjectRef attrs = op::make_attrs<op::MatmulAttrs>([&](op::MatmulAttrs& to) { to.out_dtype = i32; });
    const Expr product = op::op_call(op->name, {x.narrow, w.narrow}, attrs, call.origin);
    if (!worth) return product;
    return op::op_call("subtract", {emit(product, var->name + "_products"), worth}, {}, call.origin);
  }

 private:
  /// A widened matrix of bytes and what was taken off it; null bytes: it is none.
  struct Operand {
    Expr narrow, zero;
    int64_t sum = 0;             ///< the axis that is summed
    std::vector<int64_t> shape;  ///< -1: of a size that is not known
    /// Does it lie with the sum innermost?
    bool by_columns() const { return sum + 1 == int64_t(shape.size()); }
  };

  Operand operand(const Expr& wide, int64_t sum) const {
    Operand o;
    Expr at = wide;
    if (const Call* c = definition_call(wide, "subtract")) at = c->args[0], o.zero = c->args[1];
    const Call* cast = definition_call(at, "cast");
    const auto *t = cast ? as_tensor(cast->args[0]) : nullptr, *whole = as_tensor(wide);
    const auto shape = known_shape(wide->type), before = cast ? known_shape(cast->args[0]->type) : shape;
    if (!t || !t->dtype.is_integer() || t->dtype.bits != 8 || !whole || whole->dtype != i32 || !shape ||
        !before || shape->size() < 2 || before->size() != shape->size())
      return o;
    for (size_t i = 0; i < shape->size(); ++i) {
      const auto n = tir::as_int((*shape)[i]), m = tir::as_int((*before)[i]);
      if (n != m) return o;
      o.shape.push_back(n.value_or(-1));
    }
    if (o.zero && !same_along(o.zero, int64_t(shape->size()) - sum)) return o;
    o.sum = sum;
    o.narrow = cast->args[0];
    return o;
  }
  static bool one_value(const Expr& zero) {
    const auto shape = static_shape(zero->type);
    return shape && element_count(*shape) == 1;
  }
  /// One value for all elements along the axis, which counts from the end.
  static bool same_along(const Expr& zero, int64_t from_end) {
    const auto shape = static_shape(zero->type);
    return shape && (int64_t(shape->size()) < from_end || (*shape)[shape->size() - size_t(from_end)] == 1);
  }
  /// A sum that is long enough, of as many columns; and where the kernel lays w out, rows that read it.
  static bool pays(const Operand& x, const Operand& w, int64_t columns) {
    const int64_t rows = x.shape[x.shape.size() - 2];
    return w.shape[size_t(w.sum)] >= kLeastSum && w.shape[size_t(columns)] >= kLeastColumns &&
           (w.narrow.is<Constant>() || rows < 0 || cost::pays_for_groups(rows));
  }

  /// Sums along k that lie as the product does: of x for each row, of w for each column.
  Expr sums_of(const Operand& o, bool keep, const std::string& name) {
    const Expr wide =
        emit(op::op_call("cast", {o.narrow}, op::make_attrs<op::CastAttrs>(i32)), name + "_wide");
    return emit(op::op_call("sum", {wide}, op::make_attrs<op::ReduceAttrs>(Array<int64_t>{o.sum}, keep)),
                name + "_sums");
  }
  /// What zero points add to the products: z · Σ w + v · (Σ x - z · k); null: there are none.
  Expr worth_of(const Operand& x, const Operand& w, const Origin& origin, const std::string& name) {
    auto of = [&](std::string_view op, const Expr& a, const Expr& b) {
      return emit(op::op_call(op, {a, b}, {}, origin), name + "_worth");
    };
    Expr worth;
    if (x.zero) worth = of("multiply", sums_of(w, !w.by_columns(), name + "_w"), x.zero);
    if (!w.zero) return worth;
    Expr sums = sums_of(x, true, name + "_x");
    if (x.zero) {
      const Expr k = op::scalar(double(w.shape[size_t(w.sum)]), i32);
      sums = of("subtract", sums, of("multiply", x.zero, k));
    }
    const Expr rows = of("multiply", sums, w.zero);
    return worth ? of("add", worth, rows) : rows;
  }

  /// Zeros behind the elements of a constant, so that its sum runs over whole groups, and of x.
  void fill_up(Operand& x, Operand& w, int64_t group, const std::string& name) {
    const int64_t more = (group - w.shape[size_t(w.sum)] % group) % group;
    for (Operand* o : {&x, &w}) {
      std::vector<int64_t> width(2 * o->shape.size(), 0);
      width[2 * size_t(o->sum) + 1] = more;
      if (more > 0)
        o->narrow = emit(op::op_call("pad", {o->narrow}, op::make_attrs<op::PadAttrs>([&](op::PadAttrs& a) {
                                       a.pad_width = Array<int64_t>(width);
                                     })),
                         name + "_filled");
    }
  }

  Target target_;
};

}  // namespace
}  // namespace graph

static IRModule narrow_product(IRModule module, PassContext& context) {
  Target target = context.target.cast<TargetNode>();
  if (!target || !context.evaluate) return module;
  return graph::rewrite_functions<graph::NarrowProduct>(std::move(module), target);
}

const Pass& narrow_product_pass = register_pass({
    .name = "narrow_product",
    .run = narrow_product,
    .level = 2,
    .summary = "products of widened bytes multiply the bytes",
    .needs = {"infer_types"},
});

}  // namespace tenon
