// SPDX-License-Identifier: Apache-2.0
// Inputs that are fixed when a model is compiled, and which inputs are read as values.
#include <gtest/gtest.h>

#include "base/diagnostic.h"
#include "import/onnx/load.h"
#include "interpret/interpret.h"
#include "pipeline/bind_inputs.h"
#include "pipeline/emit.h"
#include "runtime/vm.h"
#include "writer.h"

namespace tenon {
namespace {

using namespace test;

NDArray numbers(std::vector<int64_t> shape, const std::vector<int64_t>& v) {
  return NDArray::from_bytes(std::move(shape), i64, v.data(), v.size() * 8);
}
NDArray reals(std::vector<int64_t> shape, const std::vector<float>& v) {
  return NDArray::from_bytes(std::move(shape), f32, v.data(), v.size() * 4);
}
using Bound = std::map<std::string, NDArray>;
IRModule import(const Msg& m, Bound values) {
  onnx::ImportOptions options;
  options.values = std::move(values);
  return onnx::import_onnx_bytes(m.bytes, "m.onnx", options);
}
std::vector<double> elements(const NDArray& a) {
  std::vector<double> out;
  for (int64_t i = 0; i < a.size(); ++i) out.push_back(a.element(i));
  return out;
}
/// Code and text of what an import ends with.
std::string refusal(const Msg& m, Bound values) {
  try {
    import(m, std::move(values));
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

/// y = transpose(reshape(x, shape)), whose rank only the value of `shape` says.
Msg reshaped() {
  return model({{node("Cast", {"shape"}, {"s"}, {attr_i("to", INT64)}), node("Reshape", {"x", "s"}, {"h"}),
                 node("Transpose", {"h"}, {"y"})},
                {},
                {value("x", FLOAT, {"N"}), value("shape", INT32, {"K"})},
                {value("y", FLOAT, {"a", "b"})}});
}

TEST(Bind, AValueIsNoParameterAndCountsAsKnown) {
  const int32_t shape[] = {2, 3};
  const NDArray s = NDArray::from_bytes({2}, DataType::int_(32), shape, sizeof shape);
  const IRModule m = import(reshaped(), {{"shape", s}});
  const auto main = m.find("main").as<graph::Function>();
  EXPECT_EQ(main->params.size(), 1u);
  EXPECT_EQ(main->attrs.at("input_names").as<Array<std::string>>().size(), 1u);
  const Any x(reals({6}, {0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(elements(interpret(m, "main", {x}).as<NDArray>()), (std::vector<double>{0, 3, 1, 4, 2, 5}));
  Session session(jit_artifact(compile(m, {})));
  EXPECT_EQ(elements(session.invoke(std::vector{x.as<NDArray>()})[0]),
            (std::vector<double>{0, 3, 1, 4, 2, 5}));
}

/// One shape after the other, of ranks that only the run knows: more than there are variants for.
Msg reshaped_often() {
  std::vector<Msg> nodes;
  std::vector<Msg> inputs{value("x", FLOAT, {"N"})};
  std::string last = "x";
  for (const std::string name : {"shape", "second", "third"}) {
    inputs.push_back(value(name, INT64, {name + "_rank"}));
    nodes.push_back(node("Reshape", {last, name}, {name + "d"}));
    last = name + "d";
  }
  nodes.push_back(node("Identity", {last}, {"y"}));
  return model({nodes, {}, inputs, {value("y", FLOAT, {"a", "b"})}});
}

TEST(Bind, WhatIsNotKnownSaysHowToBindIt) {
  const std::string text = refusal(reshaped_often(), {});
  EXPECT_NE(text.find("T2102"), std::string::npos) << text;
  EXPECT_NE(text.find("--bind third=@FILE"), std::string::npos) << text;
}

/// z = x + y over a dimension that both name.
Msg sum() {
  return model({{node("Add", {"x", "y"}, {"z"})},
                {},
                {value("x", FLOAT, {"N"}), value("y", FLOAT, {"N"})},
                {value("z", FLOAT, {"N"})}});
}

TEST(Bind, SizesOfAValueHoldForOtherInputs) {
  const IRModule m = import(sum(), {{"y", reals({2}, {10, 20})}});
  const auto shape = graph::known_shape(m.find("main").as<graph::Function>()->params[0]->declared);
  ASSERT_TRUE(shape);
  EXPECT_EQ(tir::as_int((*shape)[0]), 2);
  EXPECT_EQ(elements(interpret(m, "main", {Any(reals({2}, {1, 2}))}).as<NDArray>()),
            (std::vector<double>{11, 22}));
}

TEST(Bind, WhatDoesNotFitIsRefusedAllAtOnce) {
  const std::string names = refusal(sum(), {{"yy", reals({1}, {1})}, {"x", numbers({1}, {1})}});
  for (const char* words : {"T0912", "no input 'yy'", "did you mean `y`?", "T0953", "it is float32"})
    EXPECT_NE(names.find(words), std::string::npos) << words << "\n" << names;
  const std::string rank = refusal(sum(), {{"x", reals({1, 1}, {1})}});
  EXPECT_NE(rank.find("its rank is 1"), std::string::npos) << rank;
  const std::string sizes = refusal(sum(), {{"x", reals({1}, {1})}, {"y", reals({2}, {1, 2})}});
  EXPECT_NE(sizes.find("dimension 'N' is 1"), std::string::npos) << sizes;
}

TEST(Bind, AnInitialiserThatIsAnInputIsReplaced) {
  const Msg m = model({{node("Add", {"x", "w"}, {"y"})},
                       {floats("w", {1}, {5})},
                       {value("x", FLOAT, {1}), value("w", FLOAT, {1})},
                       {value("y", FLOAT, {1})}});
  const auto run = [&](Bound values) {
    return elements(interpret(import(m, std::move(values)), "main", {Any(reals({1}, {1}))}).as<NDArray>());
  };
  EXPECT_EQ(run({}), std::vector<double>{6});
  EXPECT_EQ(run({{"w", reals({1}, {7})}}), std::vector<double>{8});
}

TEST(Bind, InputsOfScriptTextAreBoundByTheSameRules) {
  const IRModule m = parse_module(R"(
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        z = R.add(x, y)
        return z
)");
  PassContext context;
  const IRModule typed = run_pass("infer_types", m, context);
  const IRModule bound = bind_inputs(typed, {{"y", reals({2}, {10, 20})}});
  EXPECT_EQ(elements(interpret(bound, "main", {Any(reals({2}, {1, 2}))}).as<NDArray>()),
            (std::vector<double>{11, 22}));
  const Compiled compiled = compile(bound, {});
  bool noted = false;
  for (const auto& [key, text] : compiled.executable.metadata)
    noted = noted || (key == "bound_input.y" && text == "float32(2) [10, 20]");
  EXPECT_TRUE(noted);
  for (const auto& [name, value] :
       {std::pair("q", reals({2}, {1, 2})), std::pair("y", numbers({2}, {1, 2}))}) {
    try {
      bind_inputs(typed, {{name, value}});
      ADD_FAILURE() << name;
    } catch (const DiagnosticError& e) {
      EXPECT_EQ(e.code, name == std::string("q") ? "T0912" : "T0953");
    }
  }
}

TEST(Bind, ABoundInputThatIsGivenIsRefusedWithBothNamed) {
  const IRModule m =
      with_bound_inputs(import(sum(), {{"y", reals({2}, {10, 20})}}), {{"y", reals({2}, {10, 20})}});
  Session session(jit_artifact(compile(m, {})));
  const std::vector<std::pair<std::string, NDArray>> both{{"x", reals({2}, {1, 2})},
                                                          {"y", reals({2}, {3, 4})}};
  try {
    session.invoke_named(both);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code, "T0522");
    const std::string text = e.what();
    EXPECT_NE(text.find("input `y` is given, and was bound to float32(2) [10, 20]"), std::string::npos)
        << text;
  }
  EXPECT_EQ(elements(session.invoke_named(std::span(both).first(1))[0]), (std::vector<double>{11, 22}));
}

std::set<std::string> values_of(const Msg& m) {
  return onnx::read_onnx_info_bytes(m.bytes, "m").value_inputs;
}

TEST(ValueInputs, AreFoundBehindShapeArithmeticAndInBranches) {
  EXPECT_EQ(values_of(reshaped()), (std::set<std::string>{"shape"}));
  EXPECT_EQ(values_of(sum()), std::set<std::string>());
  // The starts of a slice in a branch are joined of two inputs; indices of Gather are data.
  const Msg inner = onnx_graph({{node("Concat", {"p", "q"}, {"starts"}, {attr_i("axis", 0)}),
                                 node("Slice", {"x", "starts", "ends"}, {"s"})},
                                {ints("ends", {2}, {9, 9})},
                                {},
                                {value("s", FLOAT, {"a", "b"})}});
  const Msg m =
      model({{node("If", {"c"}, {"h"}, {attr_g("then_branch", inner), attr_g("else_branch", inner)}),
              node("Gather", {"h", "i"}, {"y"})},
             {},
             {value("x", FLOAT, {4, 4}), value("c", BOOL, {}), value("p", INT64, {1}), value("q", INT64, {1}),
              value("i", INT64, {2})},
             {value("y", FLOAT, {"a", "b"})}});
  EXPECT_EQ(values_of(m), (std::set<std::string>{"p", "q"}));
}

TEST(ValueInputs, OfOtherDomains) {
  Msg m = model({{node("Trilu", {"x", "k"}, {"y"}, {}, "t", "com.microsoft")},
                 {},
                 {value("x", FLOAT, {2, 2}), value("k", INT64, {})},
                 {value("y", FLOAT, {2, 2})}});
  m.m(8, opset(1, "com.microsoft"));
  EXPECT_EQ(values_of(m), (std::set<std::string>{"k"}));
}

TEST(ValueInputs, OfAFunctionAreThoseOfItsCaller) {
  Msg f = Msg().s(1, "F").s(4, "a").s(4, "k").s(5, "b").m(7, node("Tile", {"a", "k"}, {"b"}));
  f.m(9, opset(17)).s(10, "f");
  Msg m = model({{node("F", {"x", "n"}, {"y"}, {}, "one", "f")},
                 {},
                 {value("x", FLOAT, {2}), value("n", INT64, {1})},
                 {value("y", FLOAT, {"M"})}});
  m.m(8, opset(1, "f")).m(25, f);
  EXPECT_EQ(values_of(m), (std::set<std::string>{"n"}));
  const IRModule module = onnx::import_onnx_bytes(m.bytes, "m");
  const auto names =
      module.find("main").as<graph::Function>()->attrs.at("value_inputs").as<Array<std::string>>();
  EXPECT_EQ(names.vec(), std::vector<std::string>{"n"});
}

}  // namespace
}  // namespace tenon
