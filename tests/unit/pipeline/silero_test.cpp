// SPDX-License-Identifier: Apache-2.0
// The voice activity models, window by window over a minute of speech with their state carried along: nested
// branches on shapes, a recurrent cell, sizes left symbolic. Judged by ONNX Runtime's probabilities, which
// stand in silero_vad.txt (one line per window: the model, and the one in half precision).
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "../import/files.h"
#include "import/onnx/load.h"
#include "pipeline/runner.h"

namespace tenon {
namespace {

constexpr int64_t kWindow = 512, kBefore = 64;

std::vector<float> read_speech(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  const size_t at = bytes.find("data", 12);
  if (at == bytes.npos || at + 8 > bytes.size()) return {};
  std::vector<float> out((bytes.size() - at - 8) / 2);
  for (size_t i = 0; i < out.size(); ++i) {
    int16_t v;
    std::memcpy(&v, bytes.data() + at + 8 + 2 * i, 2);
    out[i] = float(v) / 32768.0f;
  }
  return out;
}

/// Stretches of speech in windows: begun above 0.5, ended by a tenth of a second below 0.35, at least a
/// quarter of a second long.
std::vector<std::pair<int, int>> segments(const std::vector<double>& p) {
  std::vector<std::pair<int, int>> out;
  int begin = -1, silent = -1;
  const int n = int(p.size());
  auto close = [&](int end) {
    if (end - begin >= 8) out.emplace_back(begin, end);
    begin = silent = -1;
  };
  for (int i = 0; i < n; ++i) {
    if (p[size_t(i)] >= 0.5) {
      silent = -1;
      if (begin < 0) begin = i;
    } else if (begin >= 0 && p[size_t(i)] < 0.35) {
      if (silent < 0) silent = i;
      if (i - silent >= 3) close(silent);
    }
  }
  if (begin >= 0) close(n);
  return out;
}

void stream(const char* file, size_t column, bool has_rate, bool fixed) {
  const std::string folder = test::shared_folder() + "/models/";
  for (const std::string& f : {folder + file, folder + "speech.wav"})
    if (!std::filesystem::exists(f)) GTEST_SKIP() << "the model or the recording is missing: " << f;
  std::ifstream in(std::string(TENON_SOURCE_DIR) + "/tests/unit/pipeline/silero_vad.txt");
  std::vector<double> wanted;
  for (double a = 0, b = 0; in >> a >> b;) wanted.push_back(column == 0 ? a : b);
  ASSERT_EQ(wanted.size(), 1875u);
  const std::vector<float> speech = read_speech(folder + "speech.wav");
  ASSERT_EQ(int64_t(speech.size()), kWindow * int64_t(wanted.size()));

  onnx::ImportOptions options;
  if (fixed) options.dims = {{"input_d0", 1}, {"input_d1", kWindow + kBefore}, {"state_d1", 1}};
  Runner runner(onnx::import_onnx(folder + file, options));
  NDArray state = NDArray::zeros({2, 1, 128}, f32), rate = NDArray::scalar(16000, i64);
  std::vector<float> window(size_t(kBefore + kWindow), 0.0f);
  std::vector<double> got;
  double worst = 0;
  for (size_t w = 0; w < wanted.size(); ++w) {
    std::copy(window.end() - kBefore, window.end(), window.begin());
    if (w == 0) std::fill(window.begin(), window.begin() + kBefore, 0.0f);
    std::copy_n(speech.begin() + int64_t(w) * kWindow, kWindow, window.begin() + kBefore);
    const NDArray x = NDArray::from_bytes({1, kBefore + kWindow}, f32, window.data(), window.size() * 4);
    std::vector<NDArray> inputs{x, state};
    if (has_rate) inputs.push_back(rate);
    std::vector<NDArray> y = runner.run(inputs);
    ASSERT_EQ(y[0].shape(), (std::vector<int64_t>{1, 1}));
    ASSERT_EQ(y[1].shape(), (std::vector<int64_t>{2, 1, 128}));
    got.push_back(y[0].element(0));
    worst = std::max(worst, std::abs(got.back() - wanted[w]));
    state = y[1];
  }
  EXPECT_LE(worst, 1e-4);
  EXPECT_EQ(segments(got), segments(wanted));
  EXPECT_GT(segments(wanted).size(), 5u);  // the recording does hold speech and silence
}

TEST(Silero, StreamsOverSpeechWithSymbolicSizes) { stream("silero_vad.onnx", 0, true, false); }
TEST(Silero, StreamsOverSpeechWithFixedSizes) { stream("silero_vad.onnx", 0, true, true); }
TEST(Silero, HalfPrecisionStreamsOverSpeech) { stream("silero_vad_half.onnx", 1, false, false); }

}  // namespace
}  // namespace tenon
