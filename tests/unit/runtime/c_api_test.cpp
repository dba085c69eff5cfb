// SPDX-License-Identifier: Apache-2.0
// The C interface, used from C, and its cost.
#include <gtest/gtest.h>
#include <tenon/tenon.h>

#include <chrono>
#include <thread>

#include "program.h"
#include "runtime/artifact.h"
#include "runtime/dlpack.h"

extern "C" int c_user_run(const char* path);
extern "C" int c_user_mistakes(const char* path);

namespace tenon {
namespace {
using namespace test;

class CApi : public ::testing::Test {
 protected:
  void SetUp() override {
    path = "/tmp/tenon_c_api_" + std::to_string(getpid()) + ".tenon";
    std::ifstream in(TENON_TEST_KERNELS, std::ios::binary);
    std::ostringstream code;
    code << in.rdbuf();
    write_artifact(path, program(), code.str());
  }
  virtual Executable program() { return add_program(); }
  void TearDown() override { unlink(path.c_str()); }
  std::string path;
};

TEST_F(CApi, ProgramInC) { EXPECT_EQ(c_user_run(path.c_str()), 0); }
TEST_F(CApi, MistakesInC) { EXPECT_EQ(c_user_mistakes(path.c_str()), 0); }

TEST_F(CApi, ErrorsBelongToTheirThread) {
  EXPECT_NE(tenon_artifact_load("/no/such/file", 0, nullptr), TENON_OK);
  std::thread([] { EXPECT_STREQ(tenon_last_error()->code, ""); }).join();
  EXPECT_STREQ(tenon_last_error()->code, "T0514");
}

class CApiOneOperator : public CApi {
  Executable program() override {
    Builder b;
    b.begin("main", 2, 3)
        .builtin(2, "alloc_tensor", {imm(dtype_word(f32)), imm(8)})
        .kernel("test_add", 3, {reg(0), reg(1), reg(2), imm(8)})
        .ret(2);
    b.e.functions[0].params = {{"a", f32, true, {{8, ""}}}, {"b", f32, true, {{8, ""}}}};
    b.e.functions[0].results = {{"sum", f32, true, {{8, ""}}}};
    return b.e;
  }
};

TEST_F(CApiOneOperator, CallsInAMicrosecond) {
  TenonArtifact* model = nullptr;
  TenonSession* session = nullptr;
  ASSERT_EQ(tenon_artifact_load(path.c_str(), 0, &model), TENON_OK);
  ASSERT_EQ(tenon_session_create(model, nullptr, &session), TENON_OK);
  alignas(64) float a[8] = {1, 2, 3}, b[8] = {4, 5, 6}, out[8];
  const int64_t shape[] = {8};
  const DLDataType f32 = tenon_dtype("float32");
  auto call = [&](bool own) {
    if (tenon_session_set_input_data(session, 0, a, f32, 1, shape)) return false;
    if (tenon_session_set_input_data(session, 1, b, f32, 1, shape)) return false;
    if (own && tenon_session_set_output_data(session, 0, out, f32, 1, shape)) return false;
    return tenon_session_run(session) == TENON_OK;
  };
  for (bool own : {false, true}) {
    double best = 1e9;
    for (int round = 0; round < 20; ++round) {
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < 1000; ++i) ASSERT_TRUE(call(own));
      best = std::min(
          best,
          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / 1000);
    }
    RecordProperty(own ? "us_own_buffer" : "us_fresh", std::to_string(best));
    std::cout << (own ? "own buffer: " : "fresh output: ") << best << " us per call\n";
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
    EXPECT_LT(best, 1.0);
#endif
  }
  EXPECT_EQ(out[2], 9);
  tenon_session_release(session);
  tenon_artifact_release(model);
}

TEST(DLPack, RoundTripSharesMemory) {
  NDArray a = floats({1, 2, 3, 4, 5, 6}, {2, 3});
  void* place = a.data();
  DLManagedTensorVersioned* out = to_dlpack(a);
  a = NDArray();
  EXPECT_EQ(out->dl_tensor.strides[0], 3);
  NDArray back = from_dlpack(out);
  EXPECT_EQ(back.data(), place);
  EXPECT_EQ(values(back), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  DLManagedTensor* old = to_dlpack_unversioned(back);
  back = NDArray();
  EXPECT_EQ(values(from_dlpack(old)), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  DLManagedTensorVersioned later{};
  later.version.major = 2;
  EXPECT_EQ(error_code([&] { from_dlpack(&later); }), "T0405");
}

}  // namespace
}  // namespace tenon
