// SPDX-License-Identifier: Apache-2.0
// From a model's text to numbers through the C interface alone.
#include <gtest/gtest.h>
#include <tenon/compiler.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace {

class Compiler : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tenon_capi_XXXXXX";
    folder = mkdtemp(name);
    model = folder + "/model.py";
    artifact = folder + "/model.tenon";
    write(R"(
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        z = R.add(x, y)
        w = R.nn.relu(z)
        return w
)");
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  void write(const std::string& text) { std::ofstream(model) << text; }
  /// relu(x + y) over six numbers.
  void run(TenonArtifact* loaded) {
    TenonSession* session = nullptr;
    ASSERT_EQ(tenon_session_create(loaded, nullptr, &session), TENON_OK) << tenon_last_error()->message;
    float x[6] = {-3, -2, -1, 0, 1, 2}, y[6] = {1, 1, 1, 1, 1, 1}, out[6];
    const int64_t shape[] = {2, 3};
    const DLDataType f32 = tenon_dtype("float32");
    ASSERT_EQ(tenon_session_input_index(session, "y"), 1);
    ASSERT_EQ(tenon_session_set_input_data(session, 0, x, f32, 2, shape), TENON_OK);
    ASSERT_EQ(tenon_session_set_input_data(session, 1, y, f32, 2, shape), TENON_OK);
    ASSERT_EQ(tenon_session_set_output_data(session, 0, out, f32, 2, shape), TENON_OK);
    ASSERT_EQ(tenon_session_run(session), TENON_OK) << tenon_last_error()->message;
    for (int i = 0; i < 6; ++i) EXPECT_EQ(out[i], std::max(0.0f, x[i] + y[i])) << i;
    tenon_session_release(session);
  }
  std::string folder, model, artifact;
};

TEST_F(Compiler, WritesAnArtifactThatRuns) {
  ASSERT_EQ(tenon_compile_file(model.c_str(), artifact.c_str(), nullptr), TENON_OK)
      << tenon_last_error()->message;
  TenonArtifact* loaded = nullptr;
  ASSERT_EQ(tenon_artifact_load(artifact.c_str(), TENON_LOAD_CHECK, &loaded), TENON_OK)
      << tenon_last_error()->message;
  EXPECT_EQ(tenon_artifact_num_inputs(loaded), 2);
  run(loaded);
  tenon_artifact_release(loaded);
}

TEST_F(Compiler, LoadsWithoutAFile) {
  TenonCompileOptions options = tenon_compile_defaults();
  options.opt_level = 0;
  options.threads = 1;
  TenonArtifact* loaded = nullptr;
  ASSERT_EQ(tenon_compile_load(model.c_str(), &options, &loaded), TENON_OK) << tenon_last_error()->message;
  run(loaded);
  tenon_artifact_release(loaded);
  EXPECT_FALSE(std::filesystem::exists(artifact));
}

TEST_F(Compiler, BindsInputs) {
  float y[6] = {1, 1, 1, 1, 1, 1}, x[6] = {-3, -2, -1, 0, 1, 2}, out[6];
  int64_t shape[] = {2, 3};
  const DLTensor value{y, {kDLCPU, 0}, 2, tenon_dtype("float32"), shape, nullptr, 0};
  const char* const names[] = {"y"};
  const DLTensor* const values[] = {&value};
  TenonCompileOptions options = tenon_compile_defaults();
  options.num_bound = 1, options.bound_names = names, options.bound_values = values;
  TenonArtifact* loaded = nullptr;
  ASSERT_EQ(tenon_compile_load(model.c_str(), &options, &loaded), TENON_OK) << tenon_last_error()->message;
  std::fill_n(y, 6, 100.0f);  // the compiler has its own copy
  EXPECT_EQ(tenon_artifact_num_inputs(loaded), 1);
  EXPECT_STREQ(tenon_artifact_metadata(loaded, "bound_input.y"), "float32(2, 3) [1, 1, 1, 1, 1, 1]");
  TenonSession* session = nullptr;
  ASSERT_EQ(tenon_session_create(loaded, nullptr, &session), TENON_OK);
  ASSERT_EQ(tenon_session_set_input_data(session, 0, x, tenon_dtype("float32"), 2, shape), TENON_OK);
  ASSERT_EQ(tenon_session_set_output_data(session, 0, out, tenon_dtype("float32"), 2, shape), TENON_OK);
  ASSERT_EQ(tenon_session_run(session), TENON_OK) << tenon_last_error()->message;
  for (int i = 0; i < 6; ++i) EXPECT_EQ(out[i], std::max(0.0f, x[i] + 1)) << i;
  tenon_session_release(session);
  tenon_artifact_release(loaded);
  options.bound_values = nullptr;
  EXPECT_EQ(tenon_compile_load(model.c_str(), &options, &loaded), TENON_ERROR_USAGE);
}

TEST_F(Compiler, MistakesHaveCodesAndLeaveNoFile) {
  auto compile = [&](const TenonCompileOptions* o = nullptr) {
    return tenon_compile_file(model.c_str(), artifact.c_str(), o);
  };
  EXPECT_EQ(tenon_compile_file(nullptr, artifact.c_str(), nullptr), TENON_ERROR_USAGE);
  EXPECT_EQ(tenon_compile_file((folder + "/none.onnx").c_str(), artifact.c_str(), nullptr), TENON_ERROR_IO)
      << tenon_last_error()->code;
  TenonCompileOptions o = tenon_compile_defaults();
  o.opt_level = 9;
  EXPECT_EQ(compile(&o), TENON_ERROR_USAGE);
  o = tenon_compile_defaults();
  o.size = 0;
  EXPECT_EQ(compile(&o), TENON_ERROR_USAGE);
  o = tenon_compile_defaults();
  o.target = "abacus";
  EXPECT_EQ(compile(&o), TENON_ERROR_USAGE);
  EXPECT_STREQ(tenon_last_error()->code, "T0901");
  write(
      "@I.ir_module\nclass Module:\n    @R.function\n    def main(x: R.Tensor((2, 3), \"float32\")):\n       "
      " return R.no_such_operator(x)\n");
  EXPECT_EQ(compile(), TENON_ERROR_MODEL);
  EXPECT_NE(std::string(tenon_last_error()->location + std::string(tenon_last_error()->message))
                .find("no_such_operator"),
            std::string::npos)
      << tenon_last_error()->message;
  write(std::string(1000, '\x01'));
  EXPECT_EQ(compile(), TENON_ERROR_MODEL) << tenon_last_error()->message;
  EXPECT_FALSE(std::filesystem::exists(artifact));
}

}  // namespace
