// SPDX-License-Identifier: Apache-2.0
// einsum_to_matmul: sums of products of two operands are products of matrices.
//
//   before   y = R.einsum((q, k), subscripts="bihd,bjhd->bhij")
//   after    lv = R.permute_dims(q, axes=[0, 2, 1, 3]);  lv1 = R.permute_dims(k, axes=[0, 2, 3, 1])
//            y = R.matmul(lv, lv1)
//
// Each label of the einsum is one of the batch, of the rows, of the columns or of the sum; where one of the
// last three has none, or a label is in one operand alone, the einsum stays. Constants fold and are packed
// like those of any product. More than two operands are first taken two at a time, those with the fewest
// products before the others; results between them are rounded, so that narrow types stay.
// Needs: types; normal form. Keeps: types; values up to the order of sums.
#include <algorithm>
#include <map>

#include "ir/structural.h"
#include "op/body_rewriter.h"
#include "op/build.h"
#include "op/subscripts.h"

namespace tenon {
namespace graph {
namespace {

/// Axes of one kind: their labels and sizes.
struct Group {
  std::string labels;
  std::vector<PrimExpr> sizes;
  PrimExpr size() const {
    PrimExpr n(1);
    for (const PrimExpr& d : sizes) n = n * d;
    return simplify(n);
  }
  void add(char label, const PrimExpr& d) {
    labels += label;
    sizes.push_back(d);
  }
};

struct Product {
  Group batch, rows, columns, sum;
  bool swapped = false;  ///< the second operand has the rows
};

/// Empty: it is no product of matrices.
std::optional<Product> product_of(const op::Subscripts& s, const Array<PrimExpr>& p,
                                  const Array<PrimExpr>& q) {
  const std::string &x = s.inputs[0], &y = s.inputs[1], &out = s.output;
  for (const std::string& term : {x, y})
    for (size_t i = 0; i < term.size(); ++i)
      if (term.find(term[i], i + 1) != std::string::npos) return {};
  Product made;
  for (const char c : out) {
    const size_t i = x.find(c), j = y.find(c);
    if (i != std::string::npos && j != std::string::npos) {
      if (!structural_equal(p[i], q[j])) return {};
      made.batch.add(c, p[i]);
    } else if (i != std::string::npos) {
      made.rows.add(c, p[i]);
    } else {
      if (made.rows.labels.empty() && made.columns.labels.empty()) made.swapped = true;
      made.columns.add(c, q[j]);
    }
  }
  for (size_t i = 0; i < x.size(); ++i) {
    if (out.find(x[i]) != std::string::npos) continue;
    const size_t j = y.find(x[i]);
    if (j == std::string::npos || !structural_equal(p[i], q[j])) return {};
    made.sum.add(x[i], p[i]);
  }
  for (const char c : y)
    if (out.find(c) == std::string::npos && x.find(c) == std::string::npos) return {};
  if (made.rows.labels.empty() || made.columns.labels.empty() || made.sum.labels.empty()) return {};
  if (made.swapped) std::swap(made.rows, made.columns);
  return made;
}

constexpr size_t kLetters = 26;

/// Operands that are taken together first, and what their product is summed to.
struct Pair {
  size_t first = 0, second = 1;
  std::string output;
};
/// The cheapest pair by known sizes. Null: nothing is summed, a label has two sizes or occurs twice, or there
/// are more of them than letters.
std::optional<Pair> cheapest_pair(const op::Subscripts& s, const std::vector<Array<PrimExpr>>& shapes) {
  std::map<char, PrimExpr> sizes;
  for (size_t k = 0; k < shapes.size(); ++k)
    for (size_t i = 0; i < s.inputs[k].size(); ++i) {
      const auto [at, fresh] = sizes.emplace(s.inputs[k][i], shapes[k][i]);
      if (s.inputs[k].find(s.inputs[k][i], i + 1) != std::string::npos) return {};
      if (!fresh && !structural_equal(at->second, shapes[k][i])) return {};
    }
  if (sizes.size() == s.output.size() || sizes.size() > kLetters) return {};
  std::optional<Pair> best;
  double least = 0;
  for (size_t i = 0; i < shapes.size(); ++i)
    for (size_t j = i + 1; j < shapes.size(); ++j) {
      std::string others = s.output, both = s.inputs[i];
      for (size_t k = 0; k < shapes.size(); ++k)
        if (k != i && k != j) others += s.inputs[k];
      for (const char c : s.inputs[j])
        if (both.find(c) == std::string::npos) both += c;
      double products = 1;
      for (const char c : both)
        if (const auto n = tir::as_int(sizes.at(c))) products *= double(*n);
      if (best && products >= least) continue;
      least = products;
      best = Pair{i, j, {}};
      for (const char c : both)
        if (others.find(c) != std::string::npos) best->output += c;
    }
  return best;
}

class EinsumToMatmul : public BodyRewriter {
 protected:
  Expr visit(const Expr& value, const VarRef&) override {
    const Op* op = op_of(value);
    if (!op) return value;
    const Call& call = *value.as<Call>();
    return op->name == "einsum" ? einsum(value, call) : value;
  }

 private:
  Expr permuted(const Expr& x, const std::string& from, const std::string& to, const Origin& origin) {
    if (from == to) return x;
    std::vector<int64_t> axes;
    for (const char c : to) axes.push_back(int64_t(from.find(c)));
    return emit(op::op_call("permute_dims", {x}, op::make_attrs<op::AxesAttrs>([&](auto& a) {
                              a.axes = Array<int64_t>(axes.begin(), axes.end());
                            }),
                            origin));
  }
  Expr reshaped(const Expr& x, const Array<PrimExpr>& shape, const Origin& origin) {
    if (const auto have = known_shape(x); have && structural_equal(*have, shape)) return x;
    return emit(op::op_call("reshape", {x, shape_expr(shape)}, {}, origin));
  }
  static Array<PrimExpr> shape_of(const Group& batch, std::initializer_list<PrimExpr> more) {
    Array<PrimExpr> out(batch.sizes.begin(), batch.sizes.end());
    for (const PrimExpr& d : more) out.push_back(d);
    return out;
  }

  /// Two operands become one, and what is left is looked at again.
  Expr pairwise(const Expr& value, const Call& call, const Array<Expr>& operands) {
    const auto* out = as_tensor(value->type);
    if (!out || !(out->dtype == f32 || out->dtype == f64)) return value;
    std::vector<Array<PrimExpr>> shapes;
    std::vector<int64_t> ranks;
    for (const Expr& e : operands) {
      const auto shape = known_shape(e);
      if (!shape || as_tensor(e)->dtype != out->dtype) return value;
      shapes.push_back(*shape);
      ranks.push_back(int64_t(shape->size()));
    }
    const op::Subscripts s = op::parse_subscripts(op::attrs_of<op::EinsumAttrs>(call).subscripts, ranks);
    const auto pair = s.problem.empty() ? cheapest_pair(s, shapes) : std::nullopt;
    if (!pair) return value;
    Array<Expr> left{sum_of(call, {operands[pair->first], operands[pair->second]},
                            {s.inputs[pair->first], s.inputs[pair->second]}, pair->output)};
    std::vector<std::string> labels{pair->output};
    for (size_t k = 0; k < shapes.size(); ++k) {
      if (k == pair->first || k == pair->second) continue;
      left.push_back(operands[k]);
      labels.push_back(s.inputs[k]);
    }
    return sum_of(call, left, labels, s.output);
  }
  /// An einsum of these labels, as products of matrices where it is one.
  Expr sum_of(const Call& of, const Array<Expr>& operands, const std::vector<std::string>& labels,
              const std::string& output) {
    std::map<char, char> letters;
    auto spelled = [&](const std::string& term) {
      std::string text;
      for (const char c : term) text += letters.emplace(c, char('a' + letters.size())).first->second;
      return text;
    };
    std::string text;
    for (const std::string& term : labels) text += (text.empty() ? "" : ",") + spelled(term);
    text += "->" + spelled(output);
    const Expr sum =
        emit(op::op_call("einsum", {emit(op::tuple(operands))},
                         op::make_attrs<op::EinsumAttrs>([&](auto& a) { a.subscripts = text; }), of.origin));
    const Expr made = definition(sum), better = einsum(made, *made.as<Call>());
    return better.same_as(made) ? sum : emit(better);
  }

  Expr einsum(const Expr& value, const Call& call) {
    const Expr whole = definition(call.args[0]);
    const auto* operands = (whole ? whole : call.args[0]).as<Tuple>();
    if (!operands || operands->items.size() < 2) return value;
    if (operands->items.size() > 2) return pairwise(value, call, operands->items);
    Expr x = operands->items[0], y = operands->items[1];
    const auto *of_x = as_tensor(x), *of_y = as_tensor(y), *out = as_tensor(value->type);
    const auto p = known_shape(x), q = known_shape(y);
    if (!of_x || !of_y || !out || !p || !q || !of_x->dtype.is_float() || of_x->dtype != of_y->dtype ||
        of_x->dtype != out->dtype)
      return value;
    op::Subscripts s = op::parse_subscripts(op::attrs_of<op::EinsumAttrs>(call).subscripts,
                                            {int64_t(p->size()), int64_t(q->size())});
    if (!s.problem.empty()) return value;
    const auto found = product_of(s, *p, *q);
    if (!found) return value;
    if (found->swapped) {
      std::swap(x, y);
      std::swap(s.inputs[0], s.inputs[1]);
    }
    const Group &batch = found->batch, &rows = found->rows, &columns = found->columns, &sum = found->sum;
    x = permuted(x, s.inputs[0], batch.labels + rows.labels + sum.labels, call.origin);
    y = permuted(y, s.inputs[1], batch.labels + sum.labels + columns.labels, call.origin);
    x = reshaped(x, shape_of(batch, {rows.size(), sum.size()}), call.origin);
    y = reshaped(y, shape_of(batch, {sum.size(), columns.size()}), call.origin);
    Expr product = emit(op::op_call("matmul", {x, y}, {}, call.origin));
    Array<PrimExpr> apart = shape_of(batch, {});
    for (const Group* g : {&rows, &columns})
      for (const PrimExpr& d : g->sizes) apart.push_back(d);
    product = reshaped(product, apart, call.origin);
    return permuted(product, batch.labels + rows.labels + columns.labels, s.output, call.origin);
  }
};

}  // namespace
}  // namespace graph

static IRModule einsum_to_matmul(IRModule module, PassContext&) {
  return graph::rewrite_functions<graph::EinsumToMatmul>(std::move(module));
}

const Pass& einsum_to_matmul_pass = register_pass({
    .name = "einsum_to_matmul",
    .run = einsum_to_matmul,
    .level = 2,
    .summary = "sums of products of two operands are products of matrices",
    .needs = {"infer_types"},
    .changes = Changes::sum_order,
});

}  // namespace tenon
