// SPDX-License-Identifier: Apache-2.0
// Sizes that are not 0. Some operators mean something else where a size is 0 (Reshape copies a dimension),
// and what they make has sizes by cases. The first operand that such a size must equal decides: from there on
// the sizes are those of the case that is left.
#include <algorithm>

#include "analysis/analyzer.h"
#include "import/onnx/importer.h"
#include "ir/find_node.h"

namespace tenon::onnx {

bool equal_but_at_zero(const PrimExpr& x, const PrimExpr& y) {
  const std::vector<tir::VarRef> symbols = tir::free_vars(x + y);
  if (symbols.size() != 1) return false;
  const auto at_zero = [&](const PrimExpr& e) {
    return tir::as_int(simplify(tir::substitute(e, {{symbols[0].get(), PrimExpr(0)}})));
  };
  const auto p = at_zero(x), q = at_zero(y);
  if (!p || !q || (*p != *q && (*p == 1 || *q == 1))) return false;
  Analyzer analyzer;
  analyzer.assume_size(symbols[0], 1);
  return analyzer.can_prove_equal(x, y);
}

bool Importer::is_not_zero(const tir::VarRef& size) const {
  return std::ranges::any_of(not_zero_, [&](const tir::VarRef& v) { return v.same_as(size); });
}

void Importer::note_equal(const PrimExpr& a, const PrimExpr& b) {
  for (const tir::VarRef& v : tir::free_vars(a + b)) {
    if (!visible(PrimExpr(v))) continue;  // a number that the run computes may be below 0
    const tir::VarMap zero{{v.get(), PrimExpr(0)}};
    const auto p = tir::as_int(simplify(tir::substitute(a, zero)));
    const auto q = tir::as_int(simplify(tir::substitute(b, zero)));
    if (p && q && *p != *q && !is_not_zero(v)) not_zero_.push_back(v);
  }
}

PrimExpr Importer::settled(const PrimExpr& size) const {
  if (not_zero_.empty() || !has_node<tir::Select>(size)) return size;
  Analyzer analyzer;
  for (const tir::VarRef& v : not_zero_) analyzer.assume_size(v, 1);
  const PrimExpr known = analyzer.simplify(size);
  return has_node<tir::Select>(known) ? size : known;
}

Expr Importer::settled(const Expr& x) {
  const auto shape = not_zero_.empty() || forks() ? std::nullopt : graph::known_shape(x);
  if (!shape || x.is<graph::Constant>()) return x;
  const Array<PrimExpr> known = shape->map([&](const PrimExpr& d) { return settled(d); });
  bool same = true;
  for (size_t i = 0; i < known.size(); ++i) same = same && known[i].same_as((*shape)[i]);
  if (same) return x;
  const Expr out =
      builder.emit_match_cast(x, graph::tensor_type(known, graph::as_tensor(x)->dtype), "settled");
  ranked_.push_back({x, out});
  return out;
}

}  // namespace tenon::onnx
