// SPDX-License-Identifier: Apache-2.0
// Converters: products of matrices and of any axes.
#include "import/onnx/importer.h"

namespace tenon::onnx {
namespace {

using namespace op;
using N = NodeContext;
using R = RegisterConverter;
using Shape = Array<PrimExpr>;

Values gemm(N& n) {
  Expr a = n.in(0), b = n.in(1);
  const DataType t = n.dtype(0);
  if (n.rank(0) != 2 || n.rank(1) != 2)
    n.malformed(fmt::format("Gemm takes matrices, not tensors of rank {} and {}", n.rank(0), n.rank(1)));
  if (n.attr_int("transA", 0) != 0) a = n.transpose(a, {1, 0});
  const double alpha = n.attr_float("alpha", 1), beta = n.attr_float("beta", 1);
  Expr y = n.attr_int("transB", 0) != 0 ? n.op("nn.dense", {a, b}) : n.op("matmul", {a, b});
  // Integers are scaled as real numbers.
  const DataType scaled = t.is_float() || (alpha == 1 && beta == 1) ? t : f64;
  y = n.cast(y, scaled);
  if (alpha != 1) y = n.op("multiply", {y, n.scalar(alpha, scaled)});
  if (n.has(2) && beta != 0) {
    Expr c = n.cast(n.in(2), scaled);
    if (beta != 1) c = n.op("multiply", {c, n.scalar(beta, scaled)});
    n.align(y, c, true);
    y = n.op("add", {y, c});
  }
  return {n.cast(y, t)};
}
Values matmul(N& n) {
  Expr a = n.in(0), b = n.in(1);
  n.align(a, b, false, 2);
  return {n.op("matmul", {a, b})};
}
/// The operands of an einsum with sizes by which axes of one label broadcast: what is symbolic is found to be
/// equal or 1 when it runs. Axes under "..." stay as they are.
void broadcast_labels(N& n, const std::string& equation, Array<Expr>& operands) {
  if (equation.find('.') != std::string::npos) return;
  std::vector<std::vector<PrimExpr>> shapes;
  for (const Expr& e : operands) {
    const auto s = graph::known_shape(e);
    shapes.push_back(s ? std::vector<PrimExpr>(s->begin(), s->end()) : std::vector<PrimExpr>());
  }
  std::map<char, PrimExpr*> sizes;  // of each label, where it is not 1
  size_t at = 0;
  for (size_t i = 0; i < operands.size(); ++i, ++at) {
    for (size_t d = 0; at < equation.size() && std::isalpha(static_cast<unsigned char>(equation[at]));
         ++at, ++d) {
      if (d >= shapes[i].size()) continue;
      PrimExpr& size = shapes[i][d];
      PrimExpr*& known = sizes.emplace(equation[at], &size).first->second;
      if (known == &size) continue;
      if (const auto both = n.broadcast_sizes(*known, size, false)) *known = both->first, size = both->second;
      if (tir::is_one(*known)) known = &size;
    }
  }
  for (size_t i = 0; i < operands.size(); ++i)
    if (graph::known_shape(operands[i])) operands.set(i, n.checked(operands[i], Shape(shapes[i])));
}
Values einsum(N& n) {
  std::string equation = n.attr_string("equation", "");
  if (equation.empty()) n.malformed("Einsum needs the attribute 'equation'");
  std::erase(equation, ' ');
  Array<Expr> parts;
  for (size_t i = 0; i < n.inputs(); ++i) parts.push_back(n.in(i));
  broadcast_labels(n, equation, parts);
  return {n.op("einsum", {n.emit(tuple(parts))}, make_attrs<EinsumAttrs>(equation))};
}
const R g1("Gemm", {1, 6, 7, 9, 11, 13}, gemm, {.as_in_six = true}), g2("MatMul", {1, 9, 13}, matmul),
    g3("Einsum", {12, 28}, einsum);

}  // namespace
}  // namespace tenon::onnx
