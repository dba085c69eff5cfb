// SPDX-License-Identifier: Apache-2.0
// Attributes of the quantised operators in qnn.cpp and qnn_contract.cpp.
#pragma once
#include "op/attrs.h"

namespace tenon::op {

struct QuantizeAttrs : Attrs<QuantizeAttrs> {
  int64_t axis = -1, block_size = 0;
  DataType out_dtype = DataType::void_();
  static constexpr std::string_view type_key = "attrs.Quantize";
  static void fields(auto& f) {
    f.add("axis", &QuantizeAttrs::axis, "axis of scales and zero points that are no scalars")
        .add("block_size", &QuantizeAttrs::block_size,
             "above 0: a scale for each so many elements of the axis, in a tensor of x's rank")
        .add("out_dtype", &QuantizeAttrs::out_dtype,
             "type of the result; void: the zero point's (quantize), the scale's (dequantize)");
  }
};
struct RequantizeAttrs : Attrs<RequantizeAttrs> {
  int64_t axis = -1;
  DataType out_dtype = DataType::int_(8);
  static constexpr std::string_view type_key = "attrs.Requantize";
  static void fields(auto& f) {
    f.add("axis", &RequantizeAttrs::axis, "axis of the scales of x, when they are no scalar")
        .add("out_dtype", &RequantizeAttrs::out_dtype, "type of the result");
  }
};
struct FixedPointAttrs : Attrs<FixedPointAttrs> {
  int64_t multiplier = 1073741824, shift = 0;
  static constexpr std::string_view type_key = "attrs.FixedPoint";
  static void fields(auto& f) {
    f.add("multiplier", &FixedPointAttrs::multiplier, "factor in units of 2⁻³¹")
        .add("shift", &FixedPointAttrs::shift, "power of two that multiplies, too");
  }
};
struct LookupAttrs : Attrs<LookupAttrs> {
  Array<int64_t> table;
  DataType out_dtype = DataType::uint(8);
  static constexpr std::string_view type_key = "attrs.Lookup";
  static void fields(auto& f) {
    f.add("table", &LookupAttrs::table, "256 results, in the order of the operand's bits")
        .add("out_dtype", &LookupAttrs::out_dtype, "type of the result, of one byte");
  }
};

}  // namespace tenon::op
