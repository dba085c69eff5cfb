// SPDX-License-Identifier: Apache-2.0
#include "ir/packed_call.h"

#include <fmt/format.h>

namespace tenon::tir {
namespace {

constexpr size_t kBeforeSizes = 3;  // pointer, type, access

/// Steps between neighbours in each dimension, in elements.
std::vector<PrimExpr> strides_of(const Buffer& b) {
  std::vector<PrimExpr> out(b->shape.size());
  PrimExpr step(1);
  for (size_t i = out.size(); i-- > 0;) {
    out[i] = b->strides.empty() ? step : cast(i64, b->strides[i]);
    step = step * cast(i64, b->shape[i]);
  }
  return out;
}

}  // namespace

std::optional<TensorView> tensor_view(const PrimExpr& e) {
  const auto* c = e.as<Call>();
  if (!c || c->op != "tir.tensor_view" || c->args.size() < kBeforeSizes ||
      (c->args.size() - kBeforeSizes) % 2 != 0)
    return std::nullopt;
  const auto* type = c->args[1].as<StringImm>();
  const auto access = as_int(c->args[2]);
  if (!type || !access) return std::nullopt;
  TensorView out{c->args[0], type->value, *access, {}, {}};
  const size_t rank = (c->args.size() - kBeforeSizes) / 2;
  for (size_t i = 0; i < rank; ++i) {
    out.shape.push_back(c->args[kBeforeSizes + i]);
    out.strides.push_back(c->args[kBeforeSizes + rank + i]);
  }
  return out;
}

PrimExpr to_expr(const TensorView& view) {
  Array<PrimExpr> args{view.pointer, make<StringImm>(view.dtype), PrimExpr::int_imm(view.access, i32)};
  for (const PrimExpr& e : view.shape) args.push_back(e);
  for (const PrimExpr& e : view.strides) args.push_back(e);
  return call(DataType::handle(), "tir.tensor_view", args);
}

PrimExpr tensor_view(const BufferRegion& region, const std::vector<bool>& dropped, int64_t access) {
  const Buffer& b = region->buffer;
  const std::vector<PrimExpr> steps = strides_of(b);
  TensorView view{{}, to_string(b->dtype), access, {}, {}};
  PrimExpr first(0), reach(1);
  bool constant = true;
  for (size_t i = 0; i < steps.size(); ++i) {
    const PrimExpr extent = cast(i64, region->region[i]->extent);
    first = first + cast(i64, region->region[i]->min) * steps[i];
    reach = reach + (extent - 1) * steps[i];
    constant = constant && as_int(extent).value_or(0) > 0;
    if (i < dropped.size() && dropped[i]) continue;
    view.shape.push_back(extent);
    view.strides.push_back(steps[i]);
  }
  if (!constant) {  // it may be empty
    PrimExpr empty = PrimExpr::int_imm(0, boolean);
    for (const Range& r : region->region) empty = logical_or(empty, le(cast(i64, r->extent), PrimExpr(0)));
    reach = make<Select>(empty, PrimExpr(0), reach);
  }
  const Array<PrimExpr> origin = b->shape.map([](const PrimExpr&) { return PrimExpr(0); });
  view.pointer = call(DataType::handle(), "tir.access_ptr",
                      {load(b, origin), first, reach, PrimExpr::int_imm(access, i32)});
  return to_expr(view);
}

PrimExpr whole_tensor_view(const Buffer& b, int64_t access) {
  const auto all = make<BufferRegionNode>(
      b, b->shape.map([](const PrimExpr& e) { return range(PrimExpr::int_imm(0, e.dtype()), e); }));
  PrimExpr out = tensor_view(all, {}, access);
  if (!b->strides.empty()) return out;
  // Row-major: as many elements as it has, whatever is empty.
  TensorView view = *tensor_view(out);
  PrimExpr elements(1);
  for (const PrimExpr& e : b->shape) elements = elements * cast(i64, e);
  Array<PrimExpr> args = view.pointer.as<Call>()->args;
  args.set(2, elements);
  view.pointer = call(DataType::handle(), "tir.access_ptr", args);
  return to_expr(view);
}

PrimExpr as_statement(const PrimExpr& e) {
  const auto* c = e.as<Call>();
  return c && c->op == "tir.call_packed" ? call(DataType::void_(), c->op, c->args) : e;
}

static std::string_view kind_of(DataType t) {
  return t.is_void()     ? "none"
         : t.is_bool()   ? "bool"
         : t.is_float()  ? "float"
         : t.is_handle() ? "pointer"
                         : "int";
}

PackedCallForm packed_call_form(const Call& n, bool wide) {
  PackedCallForm out;
  out.text = fmt::format("{}\n{}", n.args[0].as<StringImm>()->value, kind_of(n.dtype));
  for (size_t i = 1; i < n.args.size(); ++i) {
    const PrimExpr& a = n.args[i];
    if (const auto view = tensor_view(a)) {
      DataType t;
      parse_dtype(view->dtype, &t);
      out.text += fmt::format("\ntensor {} {} {}", wide && t.is_float() ? "float64" : view->dtype,
                              view->shape.size(), view->access);
      out.values.push_back(view->pointer);
      for (const PrimExpr& e : view->shape) out.values.push_back(cast(i64, e));
      for (const PrimExpr& e : view->strides) out.values.push_back(cast(i64, e));
      continue;
    }
    const DataType t = a.dtype();
    const bool as_is = a.is<StringImm>() || t.is_handle();
    out.text += fmt::format("\n{}", a.is<StringImm>() ? "text" : kind_of(t));
    out.values.push_back(as_is ? a : cast(t.is_float() ? f64 : i64, a));
  }
  return out;
}

}  // namespace tenon::tir
