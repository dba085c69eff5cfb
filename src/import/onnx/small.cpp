// SPDX-License-Identifier: Apache-2.0
#include "import/onnx/small.h"

#include <cmath>

#include "analysis/analyzer.h"

namespace tenon::onnx {

std::optional<double> number_of(const PrimExpr& e) {
  if (const auto* i = e.as<tir::IntImm>()) return double(i->value);
  if (const auto* f = e.as<tir::FloatImm>()) return f->value;
  return std::nullopt;
}

PrimExpr exact_integer(const PrimExpr& e) {
  if (e.dtype().is_integer()) return e;
  if (const auto* c = e.as<tir::Cast>(); c && c->value.dtype() == i64) return c->value;
  if (const auto* f = e.as<tir::FloatImm>();
      f && std::floor(f->value) == f->value && std::abs(f->value) < 9e15)
    return int64_t(f->value);
  return {};
}

bool Small::all_const() const {
  for (const PrimExpr& e : items)
    if (!e.is<tir::IntImm>() && !e.is<tir::FloatImm>()) return false;
  return true;
}

SmallRef small_of(DataType dtype, std::vector<int64_t> dims, std::vector<PrimExpr> items) {
  return std::make_shared<const Small>(Small{dtype, std::move(dims), std::move(items)});
}

SmallRef small_of(const NDArray& data) {
  const DataType t = data.dtype();
  if (data.size() > kMaxSmall || t.bits < 8 || !(t.is_integer() || t.is_bool() || t == f32 || t == f64))
    return nullptr;
  std::vector<PrimExpr> items;
  for (int64_t i = 0; i < data.size(); ++i)
    items.push_back(t.is_float() ? PrimExpr::float_imm(data.element(i), t)
                                 : PrimExpr::int_imm(data.element_int(i), t));
  return small_of(t, data.shape(), std::move(items));
}

NDArray array_of(const Small& s) {
  NDArray a = NDArray::empty(s.dims, s.dtype);
  for (size_t i = 0; i < s.items.size(); ++i) {
    if (const auto* v = s.items[i].as<tir::IntImm>())
      a.set_element_int(int64_t(i), v->value);
    else
      a.set_element(int64_t(i), *number_of(s.items[i]));
  }
  return a;
}

std::optional<std::vector<int64_t>> ints_of(const Small& s) {
  std::vector<int64_t> out;
  for (const PrimExpr& e : s.items) {
    auto v = tir::as_int(e);
    if (!v) return std::nullopt;
    out.push_back(*v);
  }
  return out;
}

bool not_negative(const PrimExpr& e) {
  if (const auto* i = e.as<tir::IntImm>()) return i->value >= 0;
  if (e.is<tir::Var>()) return true;
  Analyzer analyzer;
  for (const tir::VarRef& v : tir::free_vars(e)) analyzer.assume_size(v);
  return analyzer.can_prove_ge(e, 0);
}

}  // namespace tenon::onnx
