// SPDX-License-Identifier: Apache-2.0
// Operators that compute where they read, over images without elements: nothing outside of them is read, by
// the interpreter and compiled, whether import knows the sizes or the run alone.
#include <gtest/gtest.h>

#include "base/diagnostic.h"
#include "import/onnx/load.h"
#include "interpret/interpret.h"
#include "judge.h"
#include "pipeline/emit.h"
#include "writer.h"

namespace tenon {
namespace {

using namespace test;

struct Case {
  std::string name;
  Msg node;
  std::vector<Msg> initializers;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::vector<Case> cases() {
  std::vector<Case> c;
  const Msg grid = floats("g", {1, 2, 1, 2}, {0, 0, 1.5f, -3}), boxes = floats("r", {1, 4}, {0, 0, 1, 1}),
            first = ints("bi", {1}, {0});
  for (const char* mode : {"linear", "nearest", "cubic"})
    for (const char* padding : {"zeros", "border", "reflection"})
      for (const int64_t align : {0, 1})
        c.push_back(
            {fmt::format("grid_sample_{}_{}_{}", mode, padding, align),
             node("GridSample", {"x", "g"}, {"y"},
                  {attr_s("mode", mode), attr_s("padding_mode", padding), attr_i("align_corners", align)}),
             {grid}});
  for (const char* mode : {"linear", "nearest", "cubic"})
    c.push_back({fmt::format("resize_{}", mode),
                 node("Resize", {"x", "", "", "s"}, {"y"}, {attr_s("mode", mode)}),
                 {ints("s", {4}, {1, 1, 2, 3})}});
  for (const char* mode : {"avg", "max"})
    c.push_back({fmt::format("roi_align_{}", mode),
                 node("RoiAlign", {"x", "r", "bi"}, {"y"},
                      {attr_s("mode", mode), attr_i("output_height", 2), attr_i("output_width", 2)}),
                 {boxes, first}});
  c.push_back({"max_roi_pool",
               node("MaxRoiPool", {"x", "r"}, {"y"}, {attr_ints("pooled_shape", {2, 2})}),
               {floats("r", {1, 5}, {0, 0, 0, 1, 1})}});
  c.push_back({"crop_and_resize",
               node("CropAndResize", {"x", "r", "bi", "s"}, {"y"}, {}, "", "com.microsoft"),
               {boxes, tensor_head("bi", INT32, {1}).i(5, 0), tensor_head("s", INT32, {2}).i(5, 2).i(5, 2)}});
  c.push_back({"deform_conv",
               node("DeformConv", {"x", "w", "o"}, {"y"}, {attr_ints("pads", {1, 1, 1, 1})}),
               {floats("w", {1, 1, 1, 1}, {1}), floats("o", {1, 2, 2, 6}, std::vector<float>(24, 0.5f))}});
  c.push_back({"pool_positions",
               node("MaxPool", {"x"}, {"y", "at"},
                    {attr_ints("kernel_shape", {2, 1}), attr_ints("pads", {1, 0, 1, 0})}),
               {}});
  c.push_back(
      {"pool_positions_by_column",
       node("MaxPool", {"x"}, {"y", "at"}, {attr_ints("kernel_shape", {1, 2}), attr_i("storage_order", 1)}),
       {}});
  c.push_back({"reflect",
               node("Pad", {"x", "p"}, {"y"}, {attr_s("mode", "reflect")}),
               {ints("p", {8}, {0, 0, 1, 0, 0, 0, 1, 0})}});
  c.push_back({"edge",
               node("Pad", {"x", "p"}, {"y"}, {attr_s("mode", "edge")}),
               {ints("p", {8}, {0, 0, 1, 0, 0, 0, 1, 0})}});
  c.push_back({"wrap",
               node("Pad", {"x", "p"}, {"y"}, {attr_s("mode", "wrap")}),
               {ints("p", {8}, {0, 0, 1, 0, 0, 0, 1, 0})}});
  return c;
}

class EmptyImages : public testing::TestWithParam<Case> {};
TEST_P(EmptyImages, NothingOutsideIsRead) {
  const Any image(NDArray::zeros({1, 1, 0, 4}, f32));
  for (const bool known : {true, false}) {
    SCOPED_TRACE(known ? "known sizes" : "symbolic sizes");
    const Dim height = known ? Dim(int64_t(0)) : Dim("h");
    const Msg m = model(GraphParts{{GetParam().node},
                                   GetParam().initializers,
                                   {value("x", FLOAT, {1, 1, height, 4})},
                                   {value("y", FLOAT, {})}},
                        20)
                      .m(8, opset(1, "com.microsoft"));
    try {
      const IRModule module = onnx::import_onnx_bytes(m.bytes, "m.onnx");
      Session session(jit_artifact(compile(module, {})));
      std::string meant, got;
      Any want, have;
      try {
        want = interpret(module, "main", {image});
      } catch (const Error& e) {
        meant = e.code;
        EXPECT_NE(meant, "T0355") << e.what();
      }
      try {
        have = session.call("main", std::vector<Any>{image});
      } catch (const Error& e) {
        got = e.code;
      }
      EXPECT_EQ(got.empty(), meant.empty()) << got << " " << meant;
      if (got.empty() && meant.empty()) {
        EXPECT_EQ(difference(have, want), "");
      }
    } catch (const DiagnosticError& e) {
      EXPECT_NE(e.kind, ErrorKind::internal) << e.what();
      RecordProperty("refused", e.what());
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Onnx, EmptyImages, testing::ValuesIn(cases()),
                         [](const auto& i) { return i.param.name; });

}  // namespace
}  // namespace tenon
