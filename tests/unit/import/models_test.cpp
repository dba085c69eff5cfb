// SPDX-License-Identifier: Apache-2.0
// Real models import completely, keep their names, and end in normal form.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/diagnostic.h"
#include "files.h"
#include "import/onnx/load.h"
#include "ir/verify.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

struct Expected {
  const char *file, *input, *output;
  std::vector<int64_t> shape;
};  // -1: symbolic

void check(const std::string& path, const Expected& e) {
  if (!fs::exists(path)) GTEST_SKIP() << "the model is missing: " << path;
  IRModule m = onnx::import_onnx(path);
  const auto* f = m.find("main").as<graph::Function>();
  ASSERT_TRUE(f);
  auto inputs = f->attrs.at("input_names").as<Array<std::string>>();
  auto outputs = f->attrs.at("output_names").as<Array<std::string>>();
  if (e.input) {
    EXPECT_EQ(inputs[0], e.input);
  }
  if (e.output) {
    EXPECT_EQ(outputs[0], e.output);
  }
  graph::Type type = f->ret_type;
  if (const auto* t = type.as<graph::TupleType>()) type = t->items[0];
  auto shape = graph::known_shape(type);
  ASSERT_TRUE(shape) << "the output's shape is not known";
  ASSERT_EQ(shape->size(), e.shape.size());
  for (size_t i = 0; i < e.shape.size(); ++i)
    EXPECT_EQ(tir::as_int((*shape)[i]).value_or(-1), e.shape[i]) << "axis " << i;
  DiagnosticList problems;
  verify(m, problems, true);
  for (const Diagnostic& d : problems.all()) ADD_FAILURE() << render(d);
}

class SharedModel : public testing::TestWithParam<Expected> {};
TEST_P(SharedModel, Imports) { check(test::shared_folder() + "/models/" + GetParam().file, GetParam()); }
INSTANTIATE_TEST_SUITE_P(Onnx, SharedModel,
                         testing::Values(Expected{"mnist.onnx", "Input3", "Plus214_Output_0", {1, 10}},
                                         Expected{"ppocr_v2_cls.onnx", "x", nullptr, {-1, 2}},
                                         Expected{"ppocr_v4_det.onnx", "x", nullptr, {-1, 1, -1, -1}},
                                         Expected{"ppocr_v4_rec.onnx", "x", nullptr, {-1, -1, 6625}},
                                         Expected{"basic_pitch.onnx", nullptr, nullptr, {-1, 172, 88}}),
                         [](const auto& i) {
                           std::string s = i.param.file;
                           return s.substr(0, s.find('.'));
                         });

class LightModel : public testing::TestWithParam<Expected> {};
TEST_P(LightModel, Imports) {
  const std::string root = test::conformance_folder();
  if (root.empty()) GTEST_SKIP() << "the conformance archive is missing below " << test::shared_folder();
  check(root + "/light/" + GetParam().file, GetParam());
}
INSTANTIATE_TEST_SUITE_P(Onnx, LightModel,
                         testing::Values(Expected{"light_bvlc_alexnet.onnx", nullptr, nullptr, {1, 1000}},
                                         Expected{
                                             "light_densenet121.onnx", nullptr, nullptr, {1, 1000, 1, 1}},
                                         Expected{"light_inception_v1.onnx", nullptr, nullptr, {1, 1000}},
                                         Expected{"light_inception_v2.onnx", nullptr, nullptr, {1, 1000}},
                                         Expected{"light_resnet50.onnx", nullptr, nullptr, {1, 1000}},
                                         Expected{"light_shufflenet.onnx", nullptr, nullptr, {1, 1000}},
                                         Expected{"light_squeezenet.onnx", nullptr, nullptr, {1, 1000, 1, 1}},
                                         Expected{"light_vgg19.onnx", nullptr, nullptr, {1, 1000}},
                                         Expected{"light_zfnet512.onnx", nullptr, nullptr, {1, 1000}}),
                         [](const auto& i) {
                           std::string s = i.param.file;
                           return s.substr(0, s.find('.'));
                         });

TEST(Info, DescribesWithoutConverting) {
  const std::string path = test::shared_folder() + "/models/mnist.onnx";
  if (!fs::exists(path)) GTEST_SKIP() << "the model is missing: " << path;
  onnx::OnnxInfo info = onnx::read_onnx_info(path);
  EXPECT_EQ(info.opset, 8);
  ASSERT_EQ(info.inputs.size(), 1u);
  EXPECT_EQ(info.inputs[0].name, "Input3");
  EXPECT_EQ(info.inputs[0].dtype, "float32");
  EXPECT_EQ(info.inputs[0].shape, (std::vector<std::string>{"1", "1", "28", "28"}));
  // Two convolutions of 5×5: 28·28·8·25 and 14·14·16·8·25 multiply-adds; the product 256 × 10.
  EXPECT_GE(info.flops, 2.0 * (28 * 28 * 8 * 25 + 14 * 14 * 16 * 8 * 25 + 2560));
  EXPECT_LE(info.flops, 2.2 * (28 * 28 * 8 * 25 + 14 * 14 * 16 * 8 * 25 + 2560));
  int64_t nodes = 0;
  for (const auto& op : info.operators) {
    nodes += op.count;
    EXPECT_TRUE(op.supported) << op.name;
  }
  EXPECT_EQ(nodes, int64_t(info.nodes.size()));
}

TEST(Info, EveryFileOfTheSuiteEndsInSuccessOrRefusal) {
  const std::string root = test::conformance_folder();
  if (root.empty()) GTEST_SKIP() << "the conformance archive is missing below " << test::shared_folder();
  int files = 0;
  for (const auto& e : fs::recursive_directory_iterator(root)) {
    if (!e.is_regular_file() || e.file_size() > 1 << 20) continue;
    ++files;
    try {
      onnx::read_onnx_info(e.path().string());
    } catch (const DiagnosticError& error) {
      EXPECT_EQ(error.kind, ErrorKind::model) << error.what();
    }
  }
  EXPECT_GT(files, 5000);
}

}  // namespace
}  // namespace tenon
