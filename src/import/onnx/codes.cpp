// SPDX-License-Identifier: Apache-2.0
#include "import/onnx/codes.h"

#include <cmath>
#include <limits>

#include "base/stored_types.h"
#include "op/attrs_arrange.h"

namespace tenon::onnx {

using namespace op;

namespace {

constexpr int kFours = 8;   // magnitudes of 4 bits, without the sign
constexpr int kLast = 254;  // code of the largest number of 8 bits; the next one is NaN

Expr constant_of(const std::vector<double>& values, DataType t) {
  const NDArray a = NDArray::empty({int64_t(values.size())}, t);
  for (size_t i = 0; i < values.size(); ++i) a.set_element(int64_t(i), values[i]);
  return graph::constant(a);
}
double number_of_code(DataType t, int code) {
  NDArray a = NDArray::empty({1}, DataType::uint(t.bits));
  a.set_element_int(0, code);
  return NDArray::view(a.data(), {1}, t).element(0);
}

/// The least numbers, as `wide` has them, whose codes are 1, 2, …: a number's code is how many are not above
/// it.
std::vector<double> first_numbers(DataType t, CodeRounding rounding, DataType wide) {
  std::vector<double> out;
  const auto next = [&](double v) {
    return wide == f64 ? std::nextafter(v, INFINITY) : double(std::nextafter(float(v), INFINITY));
  };
  for (int code = 0; code + 1 < (t == f4_e2m1fn ? kFours : kLast + 1); ++code) {
    const double low = number_of_code(t, code), high = number_of_code(t, code + 1), half = (low + high) / 2;
    if (t == f4_e2m1fn)
      out.push_back(code % 2 == 0 ? next(half) : half);
    else
      out.push_back(rounding == CodeRounding::up ? next(low) : rounding == CodeRounding::down ? high : half);
  }
  return out;
}

}  // namespace

Expr number_input(NodeContext& n, size_t i) {
  const Expr codes = n.in(i);
  const FormRef form = n.form(i);
  if (!form) return codes;
  if (form->kind != Form::codes)
    fail("T2103", fmt::format("{} of a {} is not supported", n.op_type(), to_string(form)), n.where());
  std::vector<double> table;
  for (int code = 0; code < 1 << form->element.bits; ++code)
    table.push_back(number_of_code(form->element, code));
  return n.op("take", {constant_of(table, f32), n.cast(codes, i32)}, make_attrs<AxisAttrs>(int64_t(0)));
}

Value codes_of(NodeContext& n, const Expr& x, DataType t, CodeRounding rounding, bool saturate) {
  const DataType wide = graph::as_tensor(x)->dtype == f64 ? f64 : f32;
  const Expr v = n.cast(x, wide);
  const Expr numbers = constant_of(first_numbers(t, rounding, wide), wide);
  const Expr magnitude = t == f4_e2m1fn ? n.op("abs", {v}) : v;
  Expr code = n.cast(n.op("searchsorted", {numbers, magnitude}, make_attrs<RightAttrs>(true)), i32);
  if (t == f4_e2m1fn) {
    // The sign of zero is that of its reciprocal.
    const Expr zero = n.op("equal", {v, n.scalar(0, wide)});
    const Expr sign = n.op("where", {zero, n.op("divide", {n.scalar(1, wide), v}), v});
    const Expr negative = n.op("less", {sign, n.scalar(0, wide)});
    code = n.op("add", {code, n.op("where", {negative, n.scalar(kFours, i32), n.scalar(0, i32)})});
  } else {
    Expr none = n.op("not_equal", {v, v});
    if (!saturate) {
      const Expr above = n.op("greater", {v, n.scalar(number_of_code(t, kLast), wide)}),
                 below = n.op("less", {v, n.scalar(number_of_code(t, 0), wide)});
      none = n.op("logical_or", {none, n.op("logical_or", {above, below})});
    }
    code = n.op("where", {none, n.scalar(kLast + 1, i32), code});
  }
  Form form;
  form.kind = Form::codes;
  form.element = t;
  return {n.cast(code, DataType::uint(t.bits)), std::make_shared<const Form>(form)};
}

}  // namespace tenon::onnx
