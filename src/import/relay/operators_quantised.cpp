// SPDX-License-Identifier: Apache-2.0
// Relay's dialect of quantised networks. Products take the scales of their operands along; here requantize
// alone needs them. The reference computes requantize in fixed point, we in real numbers: results may differ
// by one step.
#include "import/relay/operators.h"

namespace tenon::relay {
using namespace graph;

namespace {

/// quantize, dequantize and requantize.
Expr rescaled(OpCall& call, size_t operands) {
  call.expect_args(operands, operands);
  const Ref<Op> op = get_op(call.name);
  ObjectRef attrs = op->default_attrs;
  const bool narrow = call.name != "qnn.dequantize";
  const DataType type = call.dtype("out_dtype", narrow ? DataType::int_(8) : DataType::void_());
  for (const FieldInfo& f : op->attrs_type->fields) {
    if (f.name == "axis") f.set(attrs.edit(), call.integer("axis", -1));
    if (f.name == "out_dtype") f.set(attrs.edit(), type);
  }
  return call.emit(call.name, call.args, attrs);
}
Expr quantize(OpCall& call) { return rescaled(call, 3); }
Expr requantize(OpCall& call) {
  call.ignore({"rounding", "compute_dtype"});
  return rescaled(call, 5);
}

/// data, weight, their zero points, their scales.
Expr dense(OpCall& call) {
  call.expect_args(6, 6);
  call.ignore({"units"});
  return call.emit("qnn.dense", {call.args[0], call.args[1], call.args[2], call.args[3]},
                   make<op::MatmulAttrs>(call.dtype("out_dtype", i32)));
}
Expr batch_matmul(OpCall& call) {
  call.expect_args(6, 6);
  call.only("transpose_a", "False");
  call.ignore({"transpose_b"});
  const Expr turned = call.axes("permute_dims", call.args[1], {0, 2, 1});
  return call.emit("qnn.matmul", {call.args[0], turned, call.args[2], call.args[3]},
                   make<op::MatmulAttrs>(call.dtype("out_dtype", i32)));
}
Expr conv2d(OpCall& call) {
  call.expect_args(6, 6);
  call.ignore({"channels", "kernel_size"});
  const std::string data = call.text("data_layout", "NCHW"), kernel = call.text("kernel_layout", "OIHW"),
                    out = call.text("out_layout", "");
  auto attrs = make<op::ConvAttrs>();
  op::ConvAttrs* a = attrs.edit();
  a->strides = call.integers("strides");
  a->padding = call.integers("padding");
  a->dilation = call.integers("dilation");
  a->groups = call.integer("groups", 1);
  a->out_dtype = call.dtype("out_dtype", i32);
  const Expr x = call.emit("qnn.conv2d",
                           {call.relayout(call.args[0], data, "NCHW"),
                            call.relayout(call.args[1], kernel, "OIHW"), call.args[2], call.args[3]},
                           attrs);
  return call.relayout(x, "NCHW", out.empty() ? data : out);
}

Expr binary(OpCall& call) {
  call.expect_args(8, 8);
  call.ignore({"lhs_axis", "rhs_axis"});
  return call.emit(call.name == "qnn.mul" ? "qnn.multiply" : call.name, call.args);
}
Expr unary(OpCall& call) {
  call.expect_args(5, 5);
  return call.emit(call.name, call.args);
}
Expr leaky_relu(OpCall& call) {
  call.expect_args(5, 5);
  constexpr double alpha = 0.25;
  return call.emit("qnn.leaky_relu", call.args, make<op::AlphaAttrs>(call.number("alpha", alpha)));
}
Expr softmax(OpCall& call) {
  call.expect_args(5, 5);
  return call.emit("qnn.softmax", call.args, make<op::AxisAttrs>(call.integer("axis", -1)));
}
/// Scales and zero points come as tuples there.
Expr concatenate(OpCall& call) {
  call.expect_args(5, 5);
  auto vector = [&](size_t i) { return call.emit("stack", {call.args[i]}, make<op::AxisAttrs>(int64_t(0))); };
  const Expr scales = vector(1), zeros = vector(2);
  return call.emit("qnn.concat", {call.args[0], scales, zeros, call.args[3], call.args[4]},
                   make<op::AxisAttrs>(call.integer("axis", 0)));
}

constexpr Converted kConverters[] = {
    {"qnn.quantize qnn.dequantize", quantize, 0},
    {"qnn.requantize", requantize, 0},
    {"qnn.dense", dense, 0},
    {"qnn.batch_matmul", batch_matmul, 0},
    {"qnn.conv2d", conv2d, 0},
    {"qnn.add qnn.subtract qnn.mul", binary, 8},
    {"qnn.tanh qnn.exp qnn.sqrt qnn.rsqrt qnn.erf qnn.sigmoid qnn.log", unary, 5},
    {"qnn.leaky_relu", leaky_relu, 0},
    {"qnn.softmax", softmax, 0},
    {"qnn.concatenate", concatenate, 0},
};

}  // namespace

std::span<const Converted> quantised_converters() { return kConverters; }

}  // namespace tenon::relay
