// SPDX-License-Identifier: Apache-2.0
// Codes of elements and positions.
#include "op/codes.h"

#include "op/family.h"

namespace tenon::op {
namespace {

PrimExpr number_like(int64_t v, const PrimExpr& like) {
  return splat(PrimExpr::int_imm(v, like.dtype().element()), like.dtype().lanes);
}
PrimExpr bitwise(const char* op, const PrimExpr& a, int64_t b) {
  return tir::call(a.dtype(), op, {a, number_like(b, a)});
}

constexpr int64_t kSign = 31;
constexpr int64_t kAllButSign = 0x7fffffff;

/// The bits of a float, those of negative ones turned round, ascend as the numbers do.
PrimExpr float_key(const PrimExpr& x) {
  const int lanes = x.dtype().lanes;
  const PrimExpr bits = tir::call(i32.with_lanes(lanes), "tir.reinterpret", {x});
  const PrimExpr turned = bitwise("tir.bitwise_and", bitwise("tir.shift_right", bits, kSign), kAllButSign);
  PrimExpr key = tir::call(bits.dtype(), "tir.bitwise_xor", {bits, turned});
  key = tir::select(tir::eq(x, splat(constant(x.dtype().element(), 0), lanes)), number_like(0, key), key);
  return tir::select(tir::call(boolean.with_lanes(lanes), "tir.isnan", {x}), number_like(kAllButSign, key),
                     key);
}

}  // namespace

tir::Stmt assumed(const PrimExpr& condition) {
  return make<tir::Evaluate>(tir::call(boolean, "tir.assume", {condition}));
}

PrimExpr key_of_element(const PrimExpr& e, bool descending) {
  const int lanes = e.dtype().lanes;
  PrimExpr key;
  if (e.dtype().is_float())
    key = float_key(tir::cast(f32.with_lanes(lanes), e));
  else
    key = tir::cast(i32.with_lanes(lanes), e);
  if (e.dtype().is_uint() && e.dtype().bits == 32) key = bitwise("tir.bitwise_xor", key, INT32_MIN);
  return descending ? bitwise("tir.bitwise_xor", key, -1) : key;
}
PrimExpr code_of(const PrimExpr& key, const PrimExpr& position) {
  const DataType t = i64.with_lanes(key.dtype().lanes);
  return bitwise("tir.shift_left", tir::cast(t, key), kKeyShift) + tir::cast(t, position);
}
PrimExpr key_of_code(const PrimExpr& code) {
  return tir::cast(i32.with_lanes(code.dtype().lanes), bitwise("tir.shift_right", code, kKeyShift));
}
PrimExpr position_of_code(const PrimExpr& code) {
  return bitwise("tir.bitwise_and", code, (int64_t(1) << kKeyShift) - 1);
}

PrimExpr Codes::key(const PrimExpr& position) const {
  Shape at = row;
  at.push_back(position);
  return key_of_element(tir::load(x, at), descending);
}

tir::Stmt each_row(const Shape& rows, const std::function<tir::Stmt(const Shape& row)>& body) {
  return each(
      "row", simplify(product(rows)), [&](const PrimExpr& row) { return body(unflatten_index(row, rows)); },
      true);
}

te::Tensor axis_last(const te::Tensor& x, size_t axis) {
  if (axis + 1 == x.ndim()) return x;
  Shape shape = x.shape();
  shape.erase(axis);
  shape.push_back(x.shape()[axis]);
  return te::compute(
      shape,
      [&](const Vars& v) {
        Shape at = indices(v);
        const PrimExpr last = at.back();
        at.pop_back();
        at.insert(axis, last);
        return x(at);
      },
      "axis_last");
}

te::Tensor positions_of(const te::Tensor& codes, size_t axis, const std::string& name) {
  Shape shape = codes.shape();
  const PrimExpr n = shape.back();
  shape.pop_back();
  shape.insert(axis, n);
  return te::compute(
      shape,
      [&](const Vars& v) {
        Shape at = indices(v);
        const PrimExpr p = at[axis];
        at.erase(axis);
        at.push_back(p);
        return position_of_code(codes(at));
      },
      name);
}

}  // namespace tenon::op
