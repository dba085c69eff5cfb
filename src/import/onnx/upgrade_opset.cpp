// SPDX-License-Identifier: Apache-2.0
#include "import/onnx/upgrade_opset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace tenon::onnx {
namespace {

constexpr int64_t kTo = 13;

/// Operators that mean the same from the set given here up to 13.
struct Unchanged {
  std::string_view op;
  int64_t since = 7;
};
constexpr Unchanged kUnchanged[] = {
    {"Abs"},        {"Add"},           {"AveragePool"}, {"BatchNormalization", 9},
    {"Cast", 9},    {"Ceil"},          {"Clip", 11},    {"Concat"},
    {"Constant"},   {"Conv"},          {"Div"},         {"ConvTranspose"},
    {"Elu"},        {"Equal"},         {"Erf", 9},      {"Exp"},
    {"Expand", 8},  {"Flatten"},       {"Floor"},       {"GlobalAveragePool"},
    {"Gather"},     {"GlobalMaxPool"}, {"Gemm"},        {"HardSigmoid"},
    {"Identity"},   {"LSTM"},          {"LeakyRelu"},   {"InstanceNormalization"},
    {"Log"},        {"MatMul"},        {"MaxPool"},     {"Mul"},
    {"Neg"},        {"PRelu"},         {"Pad", 11},     {"Pow"},
    {"Reciprocal"}, {"ReduceMax"},     {"ReduceMean"},  {"Relu"},
    {"Reshape"},    {"Resize", 11},    {"Shape"},       {"Sigmoid"},
    {"Slice", 10},  {"Softplus"},      {"Sqrt"},        {"Sub"},
    {"Tanh"},       {"Tile"},          {"Transpose"},   {"Where", 9}};

bool unchanged(const proto::NodeProto& node, int64_t from) {
  const auto* row = std::ranges::find(kUnchanged, node.op_type(), &Unchanged::op);
  return row != std::end(kUnchanged) && from >= row->since;
}

/// The attribute `axes` becomes the second input, a constant.
bool axes_to_input(proto::GraphProto& graph, proto::NodeProto& node) {
  static const std::set<std::string_view> ops{"Squeeze", "Unsqueeze", "ReduceSum"};
  if (!ops.contains(node.op_type())) return false;
  auto* attributes = node.mutable_attribute();
  const auto at =
      std::find_if(attributes->begin(), attributes->end(), [](const auto& a) { return a.name() == "axes"; });
  if (at == attributes->end()) return true;
  proto::TensorProto& axes = *graph.add_initializer();
  axes.set_name(node.output(0) + "_axes");
  axes.set_data_type(7);  // int64
  axes.add_dims(at->ints_size());
  for (int64_t axis : at->ints()) axes.add_int64_data(axis);
  node.add_input(axes.name());
  attributes->erase(at);
  return true;
}

/// Up to set 12 a softmax is over all axes from `axis` on as one: flattened, and given its shape again.
bool softmax_flattened(proto::GraphProto& graph, const proto::NodeProto& node) {
  if (node.op_type() != "Softmax" && node.op_type() != "LogSoftmax") return false;
  const std::string x = node.input(0), y = node.output(0);
  int64_t axis = 1;
  for (const auto& a : node.attribute())
    if (a.name() == "axis") axis = a.i();
  auto add = [&](const std::string& op, std::vector<std::string> inputs, const std::string& output,
                 int64_t along, bool has_axis) {
    proto::NodeProto& n = *graph.add_node();
    n.set_op_type(op);
    n.set_name(output + "_" + op);
    for (std::string& i : inputs) n.add_input(std::move(i));
    n.add_output(output);
    if (!has_axis) return;
    proto::AttributeProto& a = *n.add_attribute();
    a.set_name("axis");
    a.set_type(2);  // an integer
    a.set_i(along);
  };
  add("Shape", {x}, y + "_shape", 0, false);
  add("Flatten", {x}, y + "_flat", axis, true);
  add(node.op_type(), {y + "_flat"}, y + "_flat_softmax", -1, true);
  add("Reshape", {y + "_flat_softmax", y + "_shape"}, y, 0, false);
  return true;
}

}  // namespace

void upgrade_opset(proto::ModelProto& model, const std::string& name) {
  proto::OperatorSetIdProto* own = nullptr;
  for (auto& set : *model.mutable_opset_import())
    if (set.domain().empty() || set.domain() == "ai.onnx") own = &set;
  if (!own) fail("T2030", "the model says no operator set", name, "export it again");
  if (own->version() >= kTo) return;
  std::set<std::string> changed;
  proto::GraphProto& graph = *model.mutable_graph();
  const auto nodes = graph.node();
  graph.clear_node();
  for (proto::NodeProto node : nodes) {
    const bool other = !node.domain().empty() && node.domain() != "ai.onnx";
    if (!other && softmax_flattened(graph, node)) continue;
    if (!other && !unchanged(node, own->version()) && !axes_to_input(graph, node))
      changed.insert(node.op_type());
    *graph.add_node() = std::move(node);
  }
  if (!changed.empty())
    fail(
        "T2030",
        fmt::format("operator set {} has no scales for each channel, and these operators mean something else "
                    "in set {}: {}",
                    own->version(), kTo, fmt::join(changed, ", ")),
        name, fmt::format("export the model with operator set {} or later", kTo));
  own->set_version(kTo);
  // Initialisers need not be inputs from version 4 of the file format on.
  constexpr int64_t kFormat = 7;  // that of set 12 and 13
  model.set_ir_version(std::max<int64_t>(model.ir_version(), kFormat));
}

}  // namespace tenon::onnx
