// SPDX-License-Identifier: Apache-2.0
// The importer's own work: functions, branches, order, symbolic shapes, payload encodings, external data.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/diagnostic.h"
#include "base/temporary_folder.h"
#include "import/onnx/load.h"
#include "interpret/interpret.h"
#include "writer.h"

namespace tenon {
namespace {

using namespace test;

IRModule import(const Msg& m, const onnx::ImportOptions& options = {}) {
  return onnx::import_onnx_bytes(m.bytes, "m.onnx", options);
}
NDArray array(std::vector<int64_t> shape, const std::vector<float>& v) {
  return NDArray::from_bytes(std::move(shape), f32, v.data(), v.size() * 4);
}
NDArray indices(const std::vector<int64_t>& v) {
  return NDArray::from_bytes({int64_t(v.size())}, i64, v.data(), v.size() * 8);
}
std::vector<double> run(const IRModule& m, const std::vector<Any>& args) {
  const NDArray y = interpret(m, "main", args).as<NDArray>();
  std::vector<double> out;
  for (int64_t i = 0; i < y.size(); ++i) out.push_back(y.element(i));
  return out;
}
using Doubles = std::vector<double>;
/// Shape of the (single) result; -1: symbolic.
std::vector<int64_t> result_shape(const IRModule& m) {
  std::vector<int64_t> out;
  auto s = graph::known_shape(m.find("main").as<graph::Function>()->ret_type);
  if (!s) return {-2};
  for (const PrimExpr& d : *s) out.push_back(tir::as_int(d).value_or(-1));
  return out;
}

TEST(Import, FunctionsAreInlinedWithTheirAttributes) {
  // F(a; slope = 0.5) = LeakyRelu(a, alpha = slope), called with the default and with 2.
  Msg f = Msg().s(1, "F").s(4, "a").s(5, "b").m(
      7, node("LeakyRelu", {"a"}, {"b"}, {attr_ref("alpha", "slope", 1)}));
  f.m(9, opset(17)).s(10, "f").m(11, attr_f("slope", 0.5f));
  Msg m = model(
      {{node("F", {"x"}, {"h"}, {}, "one", "f"), node("F", {"h"}, {"y"}, {attr_f("slope", 2)}, "two", "f")},
       {},
       {value("x", FLOAT, {2})},
       {value("y", FLOAT, {2})}});
  m.m(8, opset(1, "f")).m(25, f);
  EXPECT_EQ(run(import(m), {array({2}, {-4, 3})}), (Doubles{-4, 3}));  // -4 · 0.5 · 2
}

TEST(Import, TensorsOfAFunctionsAttributesLastWhileTheyAreRead) {
  Msg f = Msg().s(1, "F").s(4, "a").s(5, "b").m(7, node("Shape", {"a"}, {"s"}));
  f.m(7, node("ConstantOfShape", {"s"}, {"k"}, {attr_t("value", floats("", {1}, {7}))}));
  f.m(7, node("Add", {"a", "k"}, {"b"})).m(9, opset(17)).s(10, "f");
  for (const bool known : {true, false}) {
    Msg m = model({{node("F", {"x"}, {"y"}, {}, "one", "f")},
                   {},
                   {known ? value("x", FLOAT, {2}) : value("x", FLOAT, {"n"})},
                   {value("y", FLOAT, {"n"})}});
    m.m(8, opset(1, "f")).m(25, f);
    EXPECT_EQ(run(import(m), {array({2}, {-4, 3})}), (Doubles{3, 10})) << known;
  }
}

TEST(Import, NodesOutOfOrderAreSorted) {
  Msg m = model({{node("Neg", {"h"}, {"y"}), node("Relu", {"x"}, {"h"})},
                 {},
                 {value("x", FLOAT, {2})},
                 {value("y", FLOAT, {2})}});
  EXPECT_EQ(run(import(m), {array({2}, {-1, 2})}), (Doubles{0, -2}));
}

TEST(Import, SizesOfOutputsAreThoseThatNodesMake) {
  // Declared for a batch of before.
  for (const Msg& declared : {value("y", FLOAT, {1}), value("y", FLOAT, {2, 1}), value("y", FLOAT, {})}) {
    Msg m = model({{node("Relu", {"x"}, {"y"})}, {}, {value("x", FLOAT, {2})}, {declared}});
    EXPECT_EQ(run(import(m), {array({2}, {-1, 2})}), (Doubles{0, 2}));
  }
}
TEST(Import, BranchesCaptureOuterValues) {
  Msg then_graph = onnx_graph({{node("Add", {"x", "w"}, {"t"})}, {}, {}, {value("t", FLOAT, {})}});
  Msg else_graph = onnx_graph({{node("Mul", {"x", "w"}, {"e"})}, {}, {}, {value("e", FLOAT, {})}});
  Msg m = model(
      {{node("If", {"c"}, {"y"}, {attr_g("then_branch", then_graph), attr_g("else_branch", else_graph)})},
       {floats("w", {2}, {10, 20})},
       {value("x", FLOAT, {2}), value("c", BOOL, {})},
       {value("y", FLOAT, {2})}});
  IRModule module = import(m);
  EXPECT_EQ(run(module, {array({2}, {1, 2}), NDArray::scalar(1, boolean)}), (Doubles{11, 22}));
  EXPECT_EQ(run(module, {array({2}, {1, 2}), NDArray::scalar(0, boolean)}), (Doubles{10, 40}));
}

TEST(Import, ConstantConditionsPickTheirBranch) {
  // The other branch holds an operator that does not exist: it is never looked at.
  Msg then_graph = onnx_graph({{node("Nonsense", {"x"}, {"t"})}, {}, {}, {value("t", FLOAT, {})}});
  Msg else_graph = onnx_graph({{node("Neg", {"x"}, {"e"})}, {}, {}, {value("e", FLOAT, {})}});
  Msg m = model(
      {{node("If", {"c"}, {"y"}, {attr_g("then_branch", then_graph), attr_g("else_branch", else_graph)})},
       {tensor_head("c", BOOL, {}).i(5, 0)},
       {value("x", FLOAT, {2})},
       {value("y", FLOAT, {2})}});
  EXPECT_EQ(run(import(m), {array({2}, {1, 2})}), (Doubles{-1, -2}));
}

/// Reshape(x, Concat(Shape(x)[0], -1)): what exporters write for flatten.
Msg flatten_model() {
  return model({{node("Shape", {"x"}, {"s"}), node("Gather", {"s", "zero"}, {"n"}),
                 node("Unsqueeze", {"n", "axes"}, {"n1"}),
                 node("Concat", {"n1", "rest"}, {"shape"}, {attr_i("axis", 0)}),
                 node("Reshape", {"x", "shape"}, {"y"})},
                {ints("zero", {}, {0}), ints("axes", {1}, {0}), ints("rest", {1}, {-1})},
                {value("x", FLOAT, {"batch", 2, 3})},
                {value("y", FLOAT, {"batch", 6})}});
}
TEST(Import, ShapeArithmeticFoldsToSymbolicSizes) {
  IRModule m = import(flatten_model());
  EXPECT_EQ(result_shape(m), (std::vector<int64_t>{-1, 6}));
  const auto* f = m.find("main").as<graph::Function>();
  EXPECT_EQ(graph::bindings_of(f->body).size(), 1u);  // one reshape; nothing of Shape, Gather, Concat is left
  EXPECT_EQ(run(m, {array({1, 2, 3}, {1, 2, 3, 4, 5, 6})}), (Doubles{1, 2, 3, 4, 5, 6}));
}
/// What a model makes of x[n, 6], with sizes computed by `nodes` from its shape s into `to`.
IRModule sized(std::vector<Msg> nodes, const Msg& last, std::vector<Msg> constants) {
  nodes.insert(nodes.begin(), node("Shape", {"x"}, {"s"}));
  nodes.push_back(last);
  return import(model({nodes, constants, {value("x", FLOAT, {"n", 6})}, {value("y", FLOAT, {"a", "b"})}}));
}
TEST(Import, SizesAreDividedAsNodesDo) {
  // (n - 3) / 2 towards 0, then (n - 3) mod 2, never negative: so many rows and columns of ones.
  const IRModule m = sized(
      {node("Slice", {"s", "zero", "one"}, {"n"}), node("Sub", {"n", "three"}, {"d"}),
       node("Div", {"d", "two"}, {"q"}), node("Add", {"q", "one"}, {"rows"}),
       node("Mod", {"d", "two"}, {"cols"}), node("Concat", {"rows", "cols"}, {"to"}, {attr_i("axis", 0)})},
      node("ConstantOfShape", {"to"}, {"y"}),
      {ints("zero", {1}, {0}), ints("one", {1}, {1}), ints("two", {1}, {2}), ints("three", {1}, {3})});
  for (const int64_t n : {0, 1, 2, 3, 4, 8, 9}) {
    const NDArray y =
        interpret(m, "main", {array({n, 6}, std::vector<float>(size_t(n * 6), 1))}).as<NDArray>();
    EXPECT_EQ(y.shape(), (std::vector<int64_t>{(n - 3) / 2 + 1, ((n - 3) % 2 + 2) % 2})) << n;
  }
  for (const graph::Binding& b : graph::bindings_of(m.find("main").as<graph::Function>()->body))
    EXPECT_FALSE(graph::is_op(b->value, "divide") || graph::is_op(b->value, "tensor_to_shape"));
}
TEST(Import, FloatsThatComeOutEvenAreSizes) {
  // ceil(float(-2 n) / -1), as exporters count steps of a range that goes down.
  const IRModule m = sized(
      {node("Slice", {"s", "zero", "one"}, {"n"}), node("Mul", {"n", "two"}, {"n2"}),
       node("Cast", {"n2"}, {"f"}, {attr_i("to", FLOAT)}), node("Div", {"f", "down"}, {"q"}),
       node("Ceil", {"q"}, {"c"}), node("Cast", {"c"}, {"rows"}, {attr_i("to", INT64)}),
       node("Concat", {"rows", "one"}, {"to"}, {attr_i("axis", 0)})},
      node("ConstantOfShape", {"to"}, {"y"}),
      {ints("zero", {1}, {0}), ints("one", {1}, {1}), ints("two", {1}, {-2}), floats("down", {1}, {-1})});
  for (const int64_t n : {0, 1, 4})
    EXPECT_EQ(
        interpret(m, "main", {array({n, 6}, std::vector<float>(size_t(n * 6), 1))}).as<NDArray>().shape(),
        (std::vector<int64_t>{2 * n, 1}));
  for (const graph::Binding& b : graph::bindings_of(m.find("main").as<graph::Function>()->body))
    EXPECT_FALSE(graph::is_op(b->value, "divide") || graph::is_op(b->value, "tensor_to_shape"));
}
TEST(Import, TheRestOfAReshapeIsAQuotientOfSizes) {
  // (n, 6) as (2 n, -1) and as (-1, 3 n).
  const auto to = [](const char* rows, const char* cols) {
    return sized(
        {node("Slice", {"s", "zero", "one"}, {"n"}), node("Mul", {"n", "two"}, {"n2"}),
         node("Mul", {"n", "three"}, {"n3"}), node("Concat", {rows, cols}, {"to"}, {attr_i("axis", 0)})},
        node("Reshape", {"x", "to"}, {"y"}),
        {ints("zero", {1}, {0}), ints("one", {1}, {1}), ints("two", {1}, {2}), ints("three", {1}, {3}),
         ints("rest", {1}, {-1})});
  };
  EXPECT_EQ((*graph::known_shape(to("n2", "rest").find("main").as<graph::Function>()->ret_type))[1]
                .as<tir::IntImm>()
                ->value,
            3);
  EXPECT_EQ((*graph::known_shape(to("rest", "n3").find("main").as<graph::Function>()->ret_type))[0]
                .as<tir::IntImm>()
                ->value,
            2);
}
TEST(Import, TilesAsOftenAsASizeSays) {
  const IRModule m = sized(
      {node("Slice", {"s", "zero", "one"}, {"n"}), node("Concat", {"n", "two"}, {"to"}, {attr_i("axis", 0)})},
      node("Tile", {"table", "to"}, {"y"}),
      {ints("zero", {1}, {0}), ints("one", {1}, {1}), ints("two", {1}, {2}),
       floats("table", {2, 2}, {1, 2, 3, 4})});
  EXPECT_EQ(run(m, {array({2, 6}, std::vector<float>(12, 1))}),
            (Doubles{1, 2, 1, 2, 3, 4, 3, 4, 1, 2, 1, 2, 3, 4, 3, 4}));
  EXPECT_EQ(run(m, {array({0, 6}, {})}), Doubles{});
  for (const graph::Binding& b : graph::bindings_of(m.find("main").as<graph::Function>()->body))
    EXPECT_FALSE(graph::is_op(b->value, "take"));
}
/// x + i + table[i] for every column i: positions counted up to a size, and those of a table cut there.
Msg positions_model() {
  return model({{node("Shape", {"x"}, {"s"}), node("Slice", {"s", "one", "two"}, {"n1"}),
                 node("Squeeze", {"n1"}, {"n"}), node("Range", {"start", "n", "step"}, {"i"}),
                 node("Cast", {"i"}, {"f"}, {attr_i("to", FLOAT)}), node("Add", {"x", "f"}, {"h"}),
                 node("Slice", {"table", "zero", "n1"}, {"t"}), node("Expand", {"t", "s"}, {"e"}),
                 node("Add", {"h", "e"}, {"y"})},
                {ints("one", {1}, {1}), ints("two", {1}, {2}), ints("zero", {1}, {0}), ints("start", {}, {0}),
                 ints("step", {}, {1}), floats("table", {4}, {10, 20, 30, 40})},
                {value("x", FLOAT, {"batch", "sequence"})},
                {value("y", FLOAT, {"batch", "sequence"})}});
}
TEST(Import, CountsAndCutsUpToASize) {
  IRModule m = import(positions_model());
  const auto* f = m.find("main").as<graph::Function>();
  const auto shape = graph::known_shape(f->ret_type);
  ASSERT_TRUE(shape);
  for (const PrimExpr& d : *shape) EXPECT_TRUE(d.is<tir::Var>());
  EXPECT_EQ(run(m, {array({2, 3}, {1, 1, 1, 2, 2, 2})}), (Doubles{11, 22, 33, 12, 23, 34}));
  EXPECT_EQ(run(m, {array({1, 4}, {0, 0, 0, 0})}), (Doubles{10, 21, 32, 43}));
  EXPECT_EQ(run(m, {array({2, 0}, {})}), Doubles{});
  EXPECT_THROW(run(m, {array({1, 5}, {0, 0, 0, 0, 0})}), Error);  // the table has no fifth position
}
/// Rows that indices pick, stretched to a slice of at most one row of the same table.
TEST(Import, RowsThatArePickedAreNotStretchedToOne) {
  const IRModule m =
      import(model({{node("Slice", {"x", "zero", "one"}, {"first"}), node("Shape", {"first"}, {"s"}),
                     node("Gather", {"x", "at"}, {"g"}), node("Expand", {"g", "s"}, {"y"})},
                    {ints("zero", {1}, {0}), ints("one", {1}, {1})},
                    {value("x", FLOAT, {"nodes", "width"}), value("at", INT64, {"edges"})},
                    {value("y", FLOAT, {"edges", "width"})}}));
  const auto shape = graph::known_shape(m.find("main").as<graph::Function>()->ret_type);
  ASSERT_TRUE(shape);
  EXPECT_TRUE((*shape)[0].is<tir::Var>());
  const NDArray table = array({2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(run(m, {table, indices({1, 0, 1})}), (Doubles{3, 4, 1, 2, 3, 4}));
  EXPECT_EQ(run(m, {table, indices({})}), Doubles{});
  EXPECT_EQ(run(m, {array({0, 2}, {}), indices({})}), Doubles{});
  EXPECT_THROW(run(m, {array({0, 2}, {}), indices({0})}), Error);  // there is no row
}
/// Pairs of rows, of which there is never a single one, stretched to a slice of at most one row.
TEST(Import, RowsThatAreNeverOneAreNotStretchedToOne) {
  const IRModule m = import(
      model({{node("Slice", {"z", "zero", "one"}, {"first"}), node("Shape", {"first"}, {"s"}),
              node("Concat", {"x", "x"}, {"p"}, {attr_i("axis", 0)}), node("Expand", {"p", "s"}, {"y"})},
             {ints("zero", {1}, {0}), ints("one", {1}, {1})},
             {value("x", FLOAT, {"rows", "width"}), value("z", FLOAT, {"others", "width"})},
             {value("y", FLOAT, {"pairs", "width"})}}));
  const auto shape = graph::known_shape(m.find("main").as<graph::Function>()->ret_type);
  ASSERT_TRUE(shape);
  EXPECT_TRUE((*shape)[0].is<tir::Mul>());
  const NDArray row = array({1, 2}, {1, 2}), none = array({0, 2}, {});
  EXPECT_EQ(run(m, {row, array({2, 2}, {5, 6, 7, 8})}), (Doubles{1, 2, 1, 2}));
  EXPECT_EQ(run(m, {none, row}), Doubles{});
  EXPECT_EQ(run(m, {none, none}), Doubles{});
  EXPECT_THROW(run(m, {row, none}), Error);
}
TEST(Import, DimensionsAreBoundByName) {
  onnx::ImportOptions options;
  options.dims["batch"] = 4;
  EXPECT_EQ(result_shape(import(flatten_model(), options)), (std::vector<int64_t>{4, 6}));
  options.dims.clear();
  options.specialize_missing_dims = true;
  EXPECT_EQ(result_shape(import(flatten_model(), options)), (std::vector<int64_t>{1, 6}));
}
TEST(Import, OneNameIsOneSize) {
  Msg m = model({{node("Add", {"a", "b"}, {"y"})},
                 {},
                 {value("a", FLOAT, {"n"}), value("b", FLOAT, {"n"})},
                 {value("y", FLOAT, {"n"})}});
  IRModule module = import(m);
  const auto* f = module.find("main").as<graph::Function>();
  auto a = graph::known_shape(Ref<graph::Var>(f->params[0])->type),
       b = graph::known_shape(Ref<graph::Var>(f->params[1])->type);
  EXPECT_TRUE((*a)[0].same_as((*b)[0]));
}

TEST(Import, SoftmaxBeforeVersion13FlattensItsAxes) {
  auto softmax = [](int64_t version) {
    return model({{node("Softmax", {"x"}, {"y"}, {attr_i("axis", 1)})},
                  {},
                  {value("x", FLOAT, {1, 2, 2})},
                  {value("y", FLOAT, {1, 2, 2})}},
                 version);
  };
  EXPECT_EQ(run(import(softmax(11)), {array({1, 2, 2}, {0, 0, 0, 0})}), (Doubles{0.25, 0.25, 0.25, 0.25}));
  EXPECT_EQ(run(import(softmax(13)), {array({1, 2, 2}, {0, 0, 0, 0})}), (Doubles{0.5, 0.5, 0.5, 0.5}));
}

TEST(Import, PayloadsOfEveryEncoding) {
  struct Case {
    Msg tensor;
    Doubles want;
  };
  const std::vector<Case> cases{
      {floats("w", {2}, {1.5f, -2}), {1.5, -2}},
      {tensor_head("w", FLOAT, {2}).f(4, 1.5f).f(4, -2.f), {1.5, -2}},                         // not packed
      {tensor_head("w", FLOAT, {2}).s(4, bytes_of(std::vector<float>{1.5f, -2})), {1.5, -2}},  // packed
      {tensor_head("w", FLOAT16, {2}).i(5, 0x3e00).i(5, 0xc000), {1.5, -2}},
      {tensor_head("w", BFLOAT16, {2}).i(5, 0x3fc0).i(5, 0xc000), {1.5, -2}},
      {tensor_head("w", DOUBLE, {1}).s(10, bytes_of(std::vector<double>{0.1})), {0.1}},
      {tensor_head("w", INT8, {2}).i(5, 7).i(5, -8), {7, -8}},
      {tensor_head("w", INT8, {2}).s(9, "\x07\xf8"), {7, -8}},
      {tensor_head("w", BOOL, {3}).i(5, 1).i(5, 0).i(5, 1), {1, 0, 1}},
      {tensor_head("w", INT4, {3}).i(5, 0x81).i(5, 0x07), {1, -8, 7}},  // two to a byte, low half first
      {tensor_head("w", UINT64, {1}).i(11, 5), {5}},
      {tensor_head("w", INT64, {0}), {}},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    IRModule m = import(model(
        {{node("Identity", {"w"}, {"y"})}, {cases[i].tensor}, {value("x", FLOAT, {1})}, {Msg().s(1, "y")}}));
    EXPECT_EQ(run(m, {array({1}, {0})}), cases[i].want) << "case " << i;
  }
}

TEST(Import, LongPayloadsAreReadInPlace) {
  // Long payloads are not copied while the file is parsed, and their pages go once they are read, except
  // those of a function's body, which is read for every call: constants of an initialiser, of an attribute,
  // and of a function that is called twice, from memory and from a file, with short and typed payloads
  // between them.
  std::vector<float> a(4096), b(3000), c(5000), d(2000);
  for (size_t i = 0; i < c.size(); ++i) {
    if (i < a.size()) a[i] = float(i);
    if (i < b.size()) b[i] = float(i) * 2;
    c[i] = 1 - float(i);
    if (i < d.size()) d[i] = float(i % 7);
  }
  Msg f = Msg().s(1, "F").s(4, "p").s(5, "q");
  f.m(7, node("Constant", {}, {"k"}, {attr_t("value", floats("", {5000}, c))}));
  f.m(7, node("ReduceMax", {"k"}, {"top"}, {attr_i("keepdims", 0)})).m(7, node("Add", {"p", "top"}, {"q"}));
  f.m(9, opset(17)).s(10, "f");
  Msg m = model(
      {{node("ReduceSum", {"a"}, {"sum"}, {attr_i("keepdims", 0)}), node("Add", {"x", "sum"}, {"h"}),
        node("F", {"h"}, {"i"}, {}, "one", "f"), node("F", {"i"}, {"j"}, {}, "two", "f"),
        node("Constant", {}, {"kb"}, {attr_t("value", floats("", {3000}, b))}),
        node("ReduceMax", {"kb"}, {"tb"}, {attr_i("keepdims", 0)}), node("Add", {"j", "tb"}, {"k"}),
        node("Add", {"k", "short"}, {"l"}), node("ReduceSum", {"d"}, {"sd"}, {attr_i("keepdims", 0)}),
        node("Add", {"l", "sd"}, {"y"})},
       {floats("a", {4096}, a), floats("short", {1}, {3}), tensor_head("d", FLOAT, {2000}).s(4, bytes_of(d))},
       {value("x", FLOAT, {1})},
       {value("y", FLOAT, {1})}});
  m.m(8, opset(1, "f")).m(25, f);
  double want = 10 + 4095.0 * 4096 / 2 + 2 * 1 + 5998 + 3;
  for (float v : d) want += v;
  EXPECT_EQ(run(import(m), {array({1}, {10})}), (Doubles{want}));
  const TemporaryFolder temporary("a test");
  const std::string folder = temporary.path.string();
  std::ofstream(folder + "/m.onnx", std::ios::binary) << m.bytes;
  EXPECT_EQ(run(onnx::import_onnx(folder + "/m.onnx"), {array({1}, {10})}), (Doubles{want}));
}

TEST(Import, InitialisersListedAsInputsAreNoParameters) {
  Msg m = model(onnx_graph({{node("Add", {"x", "w"}, {"y"})},
                            {floats("w", {1}, {3})},
                            {value("x", FLOAT, {1}), value("w", FLOAT, {1})},
                            {value("y", FLOAT, {1})}}),
                8, 3);
  IRModule module = import(m);
  EXPECT_EQ(module.find("main").as<graph::Function>()->params.size(), 1u);
  EXPECT_EQ(run(module, {array({1}, {4})}), (Doubles{7}));
}

TEST(Import, ExternalDataBesideTheModel) {
  const TemporaryFolder temporary("a test");
  const std::string folder = temporary.path.string();
  std::filesystem::create_directory(folder + "/weights");
  std::ofstream(folder + "/weights/w.bin", std::ios::binary)
      << std::string(8, 'x') + bytes_of(std::vector<float>{1, 2, 3});
  Msg m = model({{node("Add", {"x", "w"}, {"y"})},
                 {external("w", {3}, {{"location", "weights/w.bin"}, {"offset", "8"}, {"length", "12"}})},
                 {value("x", FLOAT, {3})},
                 {value("y", FLOAT, {3})}});
  std::ofstream(folder + "/m.onnx", std::ios::binary) << m.bytes;
  EXPECT_EQ(run(onnx::import_onnx(folder + "/m.onnx"), {array({3}, {10, 10, 10})}), (Doubles{11, 12, 13}));
  EXPECT_THROW(import(m), DiagnosticError);  // bytes without a folder have no place for it
}

TEST(Import, NamesAndOriginsAreKept) {
  IRModule m = import(model({{node("Relu", {"in:0"}, {"out/0"}, {}, "block/relu")},
                             {},
                             {value("in:0", FLOAT, {2})},
                             {value("out/0", FLOAT, {2})}}));
  const auto* f = m.find("main").as<graph::Function>();
  EXPECT_EQ(f->attrs.at("input_names").as<Array<std::string>>()[0], "in:0");
  EXPECT_EQ(f->attrs.at("output_names").as<Array<std::string>>()[0], "out/0");
  EXPECT_EQ(graph::bindings_of(f->body).at(0)->value->origin->text, "m.onnx, node 'block/relu' (Relu-14)");
}

TEST(Coverage, ListsEveryConverterWithItsRange) {
  auto list = onnx::onnx_coverage();
  EXPECT_GT(list.size(), 150u);
  for (const auto& c : list) {
    EXPECT_LE(c.first_opset, c.last_opset) << c.name;
    if (c.name == "Gelu") {
      EXPECT_EQ(c.first_opset, 20);
    }
  }
}

}  // namespace
}  // namespace tenon
