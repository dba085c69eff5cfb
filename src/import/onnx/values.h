// SPDX-License-Identifier: Apache-2.0
// Values that only the run knows and that shape the graph: axes, sizes, starts, widths. A converter whose
// parameter is not known at import computes with it as the model would (Index), makes symbolic sizes of what
// are sizes (sizes_of) and moves elements by computed positions (pick, transposed). One program serves all
// values; only the number of values, and with it every rank, must be known.
#pragma once
#include "import/onnx/dynamic.h"

namespace tenon::onnx {

/// A tensor of int64 computed when the model runs; operators broadcast. Truth values are 0 and 1.
class Index {
 public:
  Index(NodeContext& n, Expr e) : n_(&n), e_(std::move(e)) {}
  const Expr& expr() const { return e_; }
  operator Expr() const { return e_; }
  NodeContext& node() const { return *n_; }
  /// The number of elements of a vector, which must be known: T2102 otherwise.
  int64_t length() const;
  /// Element i of a vector, as a scalar.
  Index operator[](int64_t i) const;
  /// Elements [begin, end) of a vector.
  Index range(int64_t begin, int64_t end) const;
  /// The same elements in another shape.
  Index shaped(Array<PrimExpr> shape) const;
  Index with(std::string_view op, const Index& b) const { return {*n_, n_->op(op, {e_, b.e_})}; }
  Index with(std::string_view op, int64_t b) const {
    return {*n_, n_->op(op, {e_, n_->scalar(double(b), i64)})};
  }

 private:
  NodeContext* n_;
  Expr e_;
};

// b: an Index or an int64.
template <class B>
Index operator+(const Index& a, const B& b) {
  return a.with("add", b);
}
template <class B>
Index operator-(const Index& a, const B& b) {
  return a.with("subtract", b);
}
template <class B>
Index operator*(const Index& a, const B& b) {
  return a.with("multiply", b);
}
/// Rounded down; x / 0 is 0.
template <class B>
Index floor_div(const Index& a, const B& b) {
  return a.with("floor_divide", b);
}
/// With the sign of b; x mod 0 is 0.
template <class B>
Index floor_mod(const Index& a, const B& b) {
  return a.with("floor_mod", b);
}
template <class B>
Index min(const Index& a, const B& b) {
  return a.with("minimum", b);
}
template <class B>
Index max(const Index& a, const B& b) {
  return a.with("maximum", b);
}
/// a < b, a = b as boolean tensors.
template <class B>
Expr less(const Index& a, const B& b) {
  return a.with("less", b);
}
template <class B>
Expr equal(const Index& a, const B& b) {
  return a.with("equal", b);
}
Index where(const Expr& condition, const Index& yes, const Index& no);
Index sum(const Index& a, int64_t axis);
Index product(const Index& a);
/// Running sums of a vector.
Index running_sum(const Index& a);

/// Input i as a vector; a scalar is a vector of one element.
Index index_input(NodeContext& n, size_t i);
/// Whether the elements of input i are known at import: as numbers, or as sizes (numbers or symbolic).
/// True where the input is left out.
bool known_numbers(NodeContext& n, size_t i);
bool known_sizes(NodeContext& n, size_t i);
/// Sizes as a vector.
Index index_of(NodeContext& n, const Array<PrimExpr>& sizes);
/// 0, 1, … as a vector.
Index iota(NodeContext& n, const PrimExpr& size);
/// Sizes that a vector holds, bound when the model runs; constants where it is one. A negative one ends the
/// run.
Array<PrimExpr> sizes_of(const Index& vector, std::string_view name);
/// x with a symbol for each size that is not known, and its shape: T2102 where the rank is not known.
std::pair<Expr, Array<PrimExpr>> with_shape(NodeContext& n, size_t i);

/// Axes of a tensor of a rank that only the run knows. One outside, or twice, ends the run.
struct RunTimeAxes {
  Index marks;    ///< (rank): 1 for an axis that is named
  Index matches;  ///< (count, rank): 1 where entry i names axis j
  int64_t count;
  /// (rank): `values` (count) at their axes, `otherwise` (rank) at the others.
  Index spread(const Index& values, const Index& otherwise) const;
  /// (rank): the axes that are not named and then those that are, both rising.
  Index order() const;
};
RunTimeAxes run_time_axes(const Index& axes, int64_t rank);

/// Elements along an axis, at positions that are inside; of an empty axis: zeros.
Expr pick(NodeContext& n, const Expr& x, const Index& positions, int64_t axis);
/// The shape of a vector of that size along one axis of a tensor.
Array<PrimExpr> beside(const PrimExpr& size, int64_t axis, int64_t rank);
/// x where the positions (a vector) along an axis of `extent` elements are inside of it, else `otherwise`.
/// Without `may_be_empty`, an axis of nothing ends the run; what is picked needs no copy of x then.
Expr pick_or(NodeContext& n, const Expr& x, const Index& positions, const Index& extent, int64_t axis,
             const Expr& otherwise, bool may_be_empty = true);
/// The axes of x, whose shape is known, in an order (rank) that only the run knows.
Expr transposed(NodeContext& n, const Expr& x, const Index& order);
/// An operator along one axis that only the run knows; `make` sees it as axis `at`.
Expr along_axis(NodeContext& n, const Expr& x, const Index& axis, int64_t at,
                FunctionRef<Expr(const Expr&)> make);
/// Ends the run with this message where the condition, a scalar, does not hold.
Index require(const Index& value, const Expr& condition, const std::string& message);

/// The size that two sizes broadcast to, bound when the run finds it; `one_way`: it is x. A pair that does
/// not fit ends the run.
PrimExpr broadcast_size(NodeContext& n, const PrimExpr& x, const PrimExpr& y, bool one_way = false);
/// x with its axis, whose size is that or 1, of that size.
Expr stretch(NodeContext& n, const Expr& x, int64_t axis, const PrimExpr& size);

// ---------------------------------------------------------------- operators whose parameters are Index
Values reshape_at_run_time(NodeContext& n);
Values squeeze_at_run_time(NodeContext& n);
Values unsqueeze_at_run_time(NodeContext& n);
Values slice_at_run_time(NodeContext& n);
Values split_at_run_time(NodeContext& n);
Values expand_at_run_time(NodeContext& n);
Values tile_at_run_time(NodeContext& n);
Values pad_at_run_time(NodeContext& n, const std::string& mode);
Values one_hot_at_run_time(NodeContext& n);
Values trilu_at_run_time(NodeContext& n);
Values crop_pad_at_run_time(NodeContext& n);
Values window_at_run_time(NodeContext& n);

/// Inference allows for ends that are negative or before the start; symbols of a model are sizes, which are
/// neither. The shape is said without those cases, and nothing is cut off.
Expr of_sizes(NodeContext& n, const Expr& x);

}  // namespace tenon::onnx
