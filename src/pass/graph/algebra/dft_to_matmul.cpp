// SPDX-License-Identifier: Apache-2.0
// dft_to_matmul: Fourier transforms of a known length are products with a constant matrix.
//
//   before   y = R.signal.dft(x, R.shape([24]), axis=1)                       # x: R.Tensor((n, 24, 1))
//   after    lv = R.reshape(x, R.shape([n, 24]));  lv1 = R.matmul(lv, const)  # (24, 24 * 2)
//            y = R.reshape(lv1, R.shape([n, 24, 2]))
//
// Those of frames (stft) are products of the frames under their window. The matrix is packed like any other
// weight, and rows of unknown number have the kernels of products. Longer transforms than 512 stay sums in
// two factors: one row of 1024 would read 4 MB (36 µs on a Zen 5, 20 in two factors; 100 rows of 400 take 126
// and 460, of 24 they take 0.8 and 17).
// Needs: types; normal form. Keeps: types; values up to the order of sums.
#include <cmath>
#include <numbers>

#include "op/attrs_signal.h"
#include "op/body_rewriter.h"
#include "op/build.h"

namespace tenon {
namespace graph {
namespace {

constexpr int64_t kLongest = 512;  ///< terms of a transform

/// What a transform takes and gives: terms of `in_parts` (real ones: 1) to frequencies of `out_parts`.
struct Transform {
  int64_t length, terms, in_parts, frequencies, out_parts;
  bool inverse = false, from_half = false;  ///< the second half of the terms mirrors the first

  /// cos and sin of so many parts of a turn: whole quarters have no rounding.
  std::pair<double, double> turn(int64_t part) const {
    constexpr int64_t kQuarters = 4;
    if (kQuarters * part % length == 0) {
      const int64_t quarter = kQuarters * part / length;
      return {quarter == 0 ? 1 : quarter == 2 ? -1 : 0, quarter == 1 ? 1 : quarter == 3 ? -1 : 0};
    }
    const double angle = 2 * std::numbers::pi * double(part) / double(length);
    return {std::cos(angle), std::sin(angle)};
  }

  /// Rows: parts of the terms, columns: parts of the frequencies.
  NDArray matrix(DataType dtype) const {
    const int64_t rows = terms * in_parts, columns = frequencies * out_parts;
    std::vector<double> all(size_t(rows * columns), 0);
    for (int64_t k = 0; k < length; ++k) {
      const bool mirrored = from_half && 2 * k > length;
      const int64_t term = mirrored ? length - k : k;
      if (term >= terms) continue;  // zeros follow
      for (int64_t j = 0; j < frequencies; ++j) {
        auto [c, s] = turn(k * j % length);
        if (!inverse) s = -s;
        const double part[2][2] = {{c, s}, {mirrored ? s : -s, mirrored ? -c : c}};
        for (int64_t p = 0; p < in_parts; ++p)
          for (int64_t q = 0; q < out_parts; ++q)
            all[size_t((term * in_parts + p) * columns + j * out_parts + q)] +=
                part[p][q] / (inverse ? double(length) : 1);
      }
    }
    NDArray out = NDArray::empty({rows, columns}, dtype);
    for (size_t i = 0; i < all.size(); ++i) out.set_element(int64_t(i), all[i]);
    return out;
  }
};

class DftToMatmul : public BodyRewriter {
 protected:
  Expr visit(const Expr& value, const VarRef&) override {
    const Op* op = op_of(value);
    const bool frames = op && op->name == "signal.stft";
    if (!frames && !(op && op->name == "signal.dft")) return value;
    const Call& call = *value.as<Call>();
    const auto *x = as_tensor(call.args[0]), *out = as_tensor(value->type);
    const auto from = known_shape(call.args[0]), to = known_shape(value->type);
    if (!x || !out || !from || !to || from->size() < 3 || (x->dtype != f32 && x->dtype != f64)) return value;
    return frames ? of_frames(value, call, *from, *to, x->dtype) : of_axis(value, call, *from, *to, x->dtype);
  }

 private:
  static std::optional<int64_t> length_of(const Expr& shape) {
    const auto dims = known_shape(shape->type);
    const auto n = dims && dims->size() == 1 ? tir::as_int((*dims)[0]) : std::nullopt;
    return n && *n >= 1 && *n <= kLongest ? n : std::nullopt;
  }
  /// `lead` and what follows.
  static Expr shaped(const Array<PrimExpr>& lead, size_t count, std::initializer_list<PrimExpr> rest) {
    Array<PrimExpr> dims;
    for (size_t i = 0; i < count; ++i) dims.push_back(lead[i]);
    for (const PrimExpr& d : rest) dims.push_back(d);
    return shape_expr(dims);
  }

  Expr of_axis(const Expr& value, const Call& call, const Array<PrimExpr>& from, const Array<PrimExpr>& to,
               DataType dtype) {
    const auto& a = op::attrs_of<op::DftAttrs>(call);
    const size_t axis = from.size() - 2;
    const auto length = length_of(call.args[1]), terms = tir::as_int(from[axis]),
               parts = tir::as_int(from.back());
    if (!length || !terms || !parts || *terms < 1 || (a.axis != int64_t(axis) && a.axis != -2)) return value;
    const Transform t{
        *length,   std::min(*terms, *length), *parts, *tir::as_int(to[axis]), *tir::as_int(to.back()),
        a.inverse, a.inverse && a.onesided};
    Expr rows = call.args[0];
    if (t.terms < *terms)  // what is cut off
      rows = emit(op::op_call(
          "strided_slice", {rows},
          op::make_attrs<op::StridedSliceAttrs>(Array<int64_t>{int64_t(axis)}, Array<PrimExpr>{PrimExpr(0)},
                                                Array<PrimExpr>{PrimExpr(t.terms)}, Array<int64_t>{1}),
          call.origin));
    rows = emit(op::op_call("reshape", {rows, shaped(from, axis, {PrimExpr(t.terms * t.in_parts)})}, {},
                            call.origin));
    return product(rows, t, to, dtype, call);
  }

  /// A real signal (batch, length, 1) in frames.
  Expr of_frames(const Expr& value, const Call& call, const Array<PrimExpr>& from, const Array<PrimExpr>& to,
                 DataType dtype) {
    const auto& a = op::attrs_of<op::StftAttrs>(call);
    const auto length = length_of(call.args[1]);
    if (!length || tir::as_int(from[2]) != 1) return value;
    const Transform t{*length, *length, 1, *tir::as_int(to[2]), 2};
    const Expr signal = emit(op::op_call("reshape", {call.args[0], shaped(from, 2, {})}, {}, call.origin)),
               frames = emit(op::op_call("signal.frame", {signal},
                                         op::make_attrs<op::FrameAttrs>(*length, a.frame_step), call.origin));
    Expr window = call.args[1];
    if (as_tensor(window)->dtype != dtype)
      window = emit(op::op_call("cast", {window}, op::make_attrs<op::CastAttrs>(dtype), call.origin));
    return product(emit(op::op_call("multiply", {frames, window}, {}, call.origin)), t, to, dtype, call);
  }

  Expr product(const Expr& rows, const Transform& t, const Array<PrimExpr>& to, DataType dtype,
               const Call& call) {
    const Expr made = emit(op::op_call("matmul", {rows, constant(t.matrix(dtype))}, {}, call.origin));
    return op::op_call("reshape", {made, shape_expr(to)}, {}, call.origin);
  }
};

}  // namespace
}  // namespace graph

static IRModule dft_to_matmul(IRModule module, PassContext&) {
  return graph::rewrite_functions<graph::DftToMatmul>(std::move(module));
}

const Pass& dft_to_matmul_pass = register_pass({
    .name = "dft_to_matmul",
    .run = dft_to_matmul,
    .level = 2,
    .summary = "Fourier transforms of a known length are products with a constant matrix",
    .needs = {"infer_types"},
    .changes = Changes::sum_order,
});

}  // namespace tenon
