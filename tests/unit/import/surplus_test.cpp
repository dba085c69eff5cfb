// SPDX-License-Identifier: Apache-2.0
// Nodes with more than their operator's specification names: attributes, inputs, outputs. And what a model
// declares of its values beside what their nodes make.
#include "hostile_models.h"
#include "import/onnx/load.h"

namespace tenon {
namespace {

using namespace test;

/// The code and the first sentence of the model's refusal; "": it is accepted.
std::string refused(const std::string& bytes) {
  try {
    onnx::import_onnx_bytes(bytes, "m.onnx");
    return "";
  } catch (const DiagnosticError& e) {
    EXPECT_NE(e.diagnostics[0].location.find("m.onnx"), std::string::npos);
    return e.diagnostics[0].code + " " + e.diagnostics[0].message;
  }
}

TEST(Surplus, AttributesThatTheOperatorDoesNotHave) {
  EXPECT_EQ(refused(one(node("Relu", {"x"}, {"y"}, {attr_i("axis", 1)}))),
            "T2020 Relu has no attribute 'axis': it has none");
  EXPECT_EQ(refused(one(node("Softmax", {"x"}, {"y"}, {attr_i("axes", 1)}))),
            "T2020 Softmax has no attribute 'axes': it has axis");
  EXPECT_EQ(refused(one(node("Softmax", {"x"}, {"y"}, {attr_i("axis", 1)}))), "");
  // A version that takes axes as an input has no attribute of the name, the one before has.
  const Msg squeeze = node("ReduceSum", {"x"}, {"y"}, {attr_ints("axes", {0})});
  EXPECT_EQ(refused(one(squeeze, {}, 11)), "");
  EXPECT_EQ(refused(one(squeeze, {}, 13)),
            "T2020 ReduceSum has no attribute 'axes': it has keepdims, noop_with_empty_axes");
  // A runtime's own notes are not looked at; those of other domains are.
  EXPECT_EQ(refused(one(node("Relu", {"x"}, {"y"}, {attr_i("__seen", 1)}))), "");
  EXPECT_EQ(refused(of({here("Gelu", {"x"}, {attr_i("axis", 1)}, "com.microsoft")})),
            "T2020 Gelu has no attribute 'axis': it has none");
  // It is refused where sizes are computed, too.
  EXPECT_EQ(refused(model({{node("Shape", {"x"}, {"y"}, {attr_i("first", 1)})},
                           {},
                           {value("x", FLOAT, {2, 3})},
                           {value("y", INT64, {2})}})
                        .bytes),
            "T2020 Shape has no attribute 'first': it has end, start");
}

TEST(Surplus, InputsAndOutputs) {
  EXPECT_EQ(refused(one(node("Relu", {"x", "x"}, {"y"}))), "T2020 Relu takes at most 1 inputs, 2 are given");
  EXPECT_EQ(refused(one(node("Relu", {"x", ""}, {"y"}))), "T2020 Relu takes at most 1 inputs, 2 are given");
  EXPECT_EQ(refused(one(node("Max", {"x", "x", "x", "x"}, {"y"}))), "");
  EXPECT_EQ(refused(one(node("Clip", {"x", "", ""}, {"y"}))), "");
  EXPECT_EQ(refused(one(node("Neg", {"x"}, {"y", "z"}))), "T2020 Neg has at most 1 outputs, 2 are asked for");
}

TEST(Surplus, TypesOfValuesThatContradictTheirNodes) {
  const auto declared = [](const Msg& info) {
    return refused(model(onnx_graph({{node("Relu", {"x"}, {"t"}), node("Neg", {"t"}, {"y"})},
                                     {},
                                     {value("x", FLOAT, {2, 3})},
                                     {value("y", FLOAT, {2, 3})}})
                             .m(13, info))
                       .bytes);
  };
  EXPECT_EQ(declared(value("t", FLOAT, {2, 3})), "");
  EXPECT_EQ(declared(value("t", FLOAT, {7})), "");  // sizes are often of before
  EXPECT_EQ(declared(value("nobody", INT64, {2, 3})), "");
  EXPECT_EQ(declared(value("t", INT64, {2, 3})),
            "T2023 the model declares the value as tensor(int64), and its node makes tensor(float32)");
}

TEST(Surplus, TypesOfConstantsThatContradictTheirValueInfo) {
  EXPECT_EQ(refused(model(onnx_graph({{node("Mul", {"x", "two"}, {"y"})},
                                      {floats("two", {1}, {2})},
                                      {value("x", FLOAT, {2, 3})},
                                      {value("y", FLOAT, {2, 3})}})
                              .m(13, value("two", 10 /* FLOAT16 */, {1})))
                        .bytes),
            "");
}

}  // namespace
}  // namespace tenon
