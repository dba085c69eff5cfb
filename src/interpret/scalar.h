// SPDX-License-Identifier: Apache-2.0
// Values and arithmetic of the tensor-program interpreter: lanes of int64 or double, rounded to their type
// after every operation (or kept in double where that is asked for).
#pragma once
#include "ir/intrinsic.h"

namespace tenon::interpret_detail {

/// One lane: `i` for integers and booleans (sign- or zero-extended to 64 bits), `d` for floats.
union Lane {
  int64_t i;
  double d;
};

/// A scalar (no allocation) or vector value.
class Lanes {
 public:
  Lanes() = default;
  explicit Lanes(DataType t) : type(t) {
    if (t.lanes > 1) rest_.resize(t.lanes - 1, Lane{0});
  }
  Lanes(DataType t, int64_t v) : Lanes(t) {
    if (t.is_float())
      first_.d = double(v);
    else
      first_.i = v;
  }
  Lanes(DataType t, double v) : Lanes(t) { first_.d = v; }
  size_t size() const { return 1 + rest_.size(); }
  Lane& operator[](size_t i) { return i == 0 ? first_ : rest_[i - 1]; }
  const Lane& operator[](size_t i) const { return i == 0 ? first_ : rest_[i - 1]; }
  DataType type;

 private:
  Lane first_{0};
  std::vector<Lane> rest_;
};

using tir::wrap;
/// Rounds to a floating type, to nearest even.
double round_to(double v, DataType t);

struct Arithmetic {
  bool float64 = false;  ///< keep every floating value in double
  double round(double v, DataType t) const { return float64 ? v : round_to(v, t); }
  /// `node` is the type index of the arithmetic, comparison or logic node.
  Lanes binary(uint32_t node, const Lanes& a, const Lanes& b, DataType result) const;
  Lanes cast(const Lanes& v, DataType to) const;
  Lanes intrinsic(const tir::Intrinsic& op, const std::vector<Lanes>& args, DataType result) const;
  /// Lane l gains the products of `group` neighbours, in order; an operand of one group serves all lanes.
  Lanes dot(Lanes accumulator, const Lanes& a, const Lanes& b, int64_t group) const;
  /// Pairwise: lanes i and i + n/2 are combined until one is left.
  Lanes reduce_lanes(const std::string& op, Lanes v) const;
};

}  // namespace tenon::interpret_detail
