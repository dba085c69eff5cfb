// SPDX-License-Identifier: Apache-2.0
// tenon quantize on a trained model, its digits and their labels: what it costs, and what it refuses.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "import/onnx/load.h"
#include "tools/quantize/quantize.h"

namespace tenon {
namespace {

const std::string kDigits = std::string(TENON_SOURCE_DIR) + "/examples/digits/";
const std::string kModel = kDigits + "digits.onnx";

/// The numbers behind the header of a .npy file.
NDArray numbers(const std::string& file, std::vector<int64_t> shape, DataType t) {
  std::ifstream in(kDigits + file, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  const std::string bytes = text.str(), data = bytes.substr(bytes.find('\n') + 1);
  return NDArray::from_bytes(std::move(shape), t, data.data(), data.size());
}
constexpr int64_t kCount = 359;
SampleSet images() { return {{"image", numbers("test_images.npy", {kCount, 1, 8, 8}, f32)}}; }
NDArray labels() { return numbers("test_labels.npy", {kCount}, i64); }

std::string code_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.code;
  }
  return "";
}

std::map<std::string, int64_t> operators(const std::string& model) {
  std::map<std::string, int64_t> out;
  for (const auto& op : onnx::read_onnx_info_bytes(model, "quantised").operators) out[op.name] = op.count;
  return out;
}

TEST(Quantize, KeepsTheAccuracyOfEveryMethod) {
  for (const RangeMethod method : {RangeMethod::min_max, RangeMethod::percentile, RangeMethod::entropy})
    for (const bool symmetric : {false, true}) {
      QuantizeOptions options;
      options.method = method;
      options.form.symmetric = symmetric;
      const QuantizeReport r = quantize_model(kModel, images(), labels(), options);
      ASSERT_TRUE(r.accuracy_before && r.accuracy_after);
      EXPECT_GT(*r.accuracy_before, 0.95);
      EXPECT_GE(*r.accuracy_after, *r.accuracy_before - 0.005);
      ASSERT_EQ(r.layers.size(), 4u);
      for (const LayerError& l : r.layers) {
        EXPECT_GT(l.error, 0) << l.layer.name;
        // Entropy cuts what is rare however far it lies.
        EXPECT_LT(l.error, method == RangeMethod::entropy ? 0.5 : 0.1) << l.layer.name;
        EXPECT_LE(l.own, l.error);
      }
      // Weights are bytes, batch normalisation is part of them.
      std::ifstream file(kModel, std::ios::binary | std::ios::ate);
      EXPECT_LT(r.model.size(), size_t(file.tellg()) / 2);
      const auto ops = operators(r.model);
      EXPECT_EQ(ops.count("BatchNormalization"), 0u);
      EXPECT_GE(ops.at("QuantizeLinear"), 4);
    }
}

TEST(Quantize, LeavesNodesInFloat) {
  const QuantizeReport all = quantize_model(kModel, images(), {}, {});
  EXPECT_FALSE(all.accuracy_before);
  QuantizeOptions options;
  options.form.excluded = {all.layers[0].layer.name};
  options.form.per_channel = false;
  const QuantizeReport rest = quantize_model(kModel, images(), {}, options);
  ASSERT_EQ(rest.layers.size(), 3u);
  EXPECT_EQ(rest.layers[0].layer.name, all.layers[1].layer.name);
  options.form.excluded = {"no such node"};
  EXPECT_EQ(code_of([&] { (void)quantize_model(kModel, images(), {}, options); }), "T2031");
}

TEST(Quantize, EqualizesWithoutChangingTheFloatModel) {
  QuantizeOptions options;
  options.form.equalize = true;
  const QuantizeReport r = quantize_model(kModel, images(), labels(), options);
  EXPECT_EQ(*r.accuracy_before, *quantize_model(kModel, images(), labels(), {}).accuracy_before);
  EXPECT_GE(*r.accuracy_after, *r.accuracy_before - 0.005);
}

TEST(Quantize, RefusesSamplesThatDoNotFit) {
  auto refused = [](const SampleSet& samples, const std::optional<NDArray>& given = {}) {
    return code_of([&] {
      try {
        (void)quantize_model(kModel, samples, given, {});
      } catch (const Error& e) {
        EXPECT_EQ(e.location, kModel);
        throw;
      }
    });
  };
  EXPECT_EQ(refused({}), "T0951");
  EXPECT_EQ(refused({{"picture", images().at("image")}}), "T0951");
  EXPECT_EQ(refused({{"image", NDArray::zeros({0, 1, 8, 8}, f32)}}), "T0951");
  EXPECT_EQ(refused({{"image", NDArray::zeros({2, 1, 8, 9}, f32)}}), "T0951");
  EXPECT_EQ(refused({{"image", NDArray::zeros({2, 8, 8, 1, 1}, f32)}}), "T0951");
  EXPECT_EQ(refused({{"image", NDArray::zeros({2, 1, 8, 8}, f64)}}), "T0951");
  NDArray broken = NDArray::zeros({2, 1, 8, 8}, f32);
  broken.set_element(70, std::nan(""));
  EXPECT_EQ(refused({{"image", broken}}), "T0951");
  EXPECT_EQ(refused(images(), NDArray::zeros({5}, i64)), "T0951");
  EXPECT_EQ(code_of([] { (void)parse_range_method("best"); }), "T0950");
}

TEST(Histogram, RangesCutWhatIsRare) {
  std::vector<float> values;
  for (int i = 0; i < 100000; ++i) values.push_back(float(i % 1000) / 1000);
  values.push_back(50);
  Histogram h;
  ASSERT_TRUE(h.widen(values.data(), int64_t(values.size())));
  h.count(values.data(), int64_t(values.size()));
  EXPECT_FLOAT_EQ(float(h.range(RangeMethod::min_max, 1).high), 50);
  EXPECT_NEAR(h.range(RangeMethod::percentile, 0.999).high, 1, 0.05);
  EXPECT_LT(h.range(RangeMethod::entropy, 1).high, 50);
  EXPECT_EQ(h.range(RangeMethod::min_max, 1).low, 0);  // 0 is always in it
}

}  // namespace
}  // namespace tenon
