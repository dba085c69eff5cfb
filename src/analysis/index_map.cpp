// SPDX-License-Identifier: Apache-2.0
// Index maps over the digits that iter_map finds.
#include "analysis/index_map.h"

#include <fmt/format.h>

#include "analysis/iter_map.h"
#include "base/define_type.h"
#include "ir/text.h"

namespace tenon {

using namespace tir;

namespace {

void add_inputs(IterMap& digits, Analyzer& a, const IndexMap& map, const Array<PrimExpr>& shape) {
  for (size_t i = 0; i < map->inputs.size(); ++i) {
    a.bind(map->inputs[i], range(PrimExpr(0), shape[i]), true);
    digits.add(map->inputs[i], PrimExpr(0), shape[i]);
  }
}
}  // namespace

IndexMap index_map(int rank, FunctionRef<Array<PrimExpr>(const Array<VarRef>&)> f) {
  Array<VarRef> inputs;
  for (int i = 0; i < rank; ++i) inputs.push_back(var(fmt::format("i{}", i)));
  return make<IndexMapNode>(inputs, f(inputs));
}

Array<PrimExpr> apply(const IndexMap& map, const Array<PrimExpr>& indices, Analyzer& analyzer) {
  CHECK(indices.size() == map->inputs.size(), "an index map is applied to another number of indices");
  VarMap values;
  for (size_t i = 0; i < indices.size(); ++i) values[map->inputs[i].get()] = indices[i];
  return map->outputs.map([&](const PrimExpr& e) { return analyzer.simplify(substitute(e, values)); });
}

std::optional<Array<PrimExpr>> map_shape(const IndexMap& map, const Array<PrimExpr>& shape,
                                         Analyzer& analyzer) {
  IterMap digits(analyzer);
  add_inputs(digits, analyzer, map, shape);
  Array<PrimExpr> out;
  for (const PrimExpr& e : map->outputs) {
    PrimExpr end = digits.end_of(e);
    if (!end) return std::nullopt;
    out.push_back(end);
  }
  return out;
}

std::optional<InverseMap> invert(const IndexMap& map, const Array<PrimExpr>& shape, Analyzer& analyzer) {
  const auto box = map_shape(map, shape, analyzer);
  if (!box) return std::nullopt;
  IterMap digits(analyzer);
  add_inputs(digits, analyzer, map, shape);
  Array<VarRef> positions;
  Array<PrimExpr> at;
  for (size_t i = 0; i < box->size(); ++i) {
    VarRef v = var(fmt::format("o{}", i));
    analyzer.bind(v, range(PrimExpr(0), (*box)[i]), true);
    positions.push_back(v);
    at.push_back(v);
  }
  const auto back = digits.invert(map->outputs, at);
  if (!back) return std::nullopt;
  InverseMap out;
  out.map = make<IndexMapNode>(positions, *back);
  out.inside = true_();
  auto require = [&](const PrimExpr& c) {
    if (!analyzer.can_prove(c)) out.inside = logical_and(out.inside, analyzer.simplify(c));
  };
  for (size_t i = 0; i < shape.size(); ++i) {
    require(ge((*back)[i], PrimExpr(0)));
    require(lt((*back)[i], shape[i]));
  }
  // Places that no element reaches give one that goes elsewhere.
  const Array<PrimExpr> again = apply(map, *back, analyzer);
  for (size_t i = 0; i < at.size(); ++i)
    if (!analyzer.can_prove_equal(again[i], at[i])) out.inside = logical_and(out.inside, eq(again[i], at[i]));
  out.exact = is_one(out.inside);
  return out;
}

std::string to_text(const IndexMap& map) {
  std::string inputs, outputs;
  for (const VarRef& v : map->inputs) inputs += (inputs.empty() ? "" : ", ") + v->name;
  for (const PrimExpr& e : map->outputs) outputs += (outputs.empty() ? "" : ", ") + print(e);
  return fmt::format("lambda {}: ({}{})", inputs, outputs, map->outputs.size() == 1 ? "," : "");
}

}  // namespace tenon

template struct tenon::DefineTypes<tenon::IndexMapNode>;
