// SPDX-License-Identifier: Apache-2.0
// Whatever bytes come, nothing but success or an error follows: every prefix, every bit and random edits of a
// model with a bit of everything that the reader knows.
#include "hostile.h"

namespace tenon {
namespace {

using namespace test;

std::string sample() {
  GraphParts p;
  p.initializers = {floats("w", {2, 1, 3, 3}, std::vector<float>(18, 0.25f)), floats("b", {2}, {1, 2}),
                    ints("shape", {2}, {0, -1}), tensor_head("h", FLOAT16, {2}).i(5, 15360).i(5, 16384)};
  p.nodes = {
      node("Conv", {"x", "w", "b"}, {"c"},
           {attr_ints("pads", {1, 1, 1, 1}), attr_ints("kernel_shape", {3, 3})}, "conv"),
      node("Relu", {"c"}, {"r"}, {}, "relu"),
      node("MaxPool", {"r"}, {"p"}, {attr_ints("kernel_shape", {2, 2}), attr_ints("strides", {2, 2})},
           "pool"),
      node("Shape", {"p"}, {"s"}),
      node("Gather", {"s", "i"}, {"g"}),
      node("Constant", {}, {"i"}, {attr_t("value", ints("", {1}, {0}))}),
      node("Reshape", {"p", "shape"}, {"f"}, {}, "flat"),
      node("Softmax", {"f"}, {"y"}, {attr_i("axis", -1)}, "soft"),
      node("If", {"cond"}, {"z"},
           {attr_g("then_branch", onnx_graph({{node("Neg", {"f"}, {"t"})}, {}, {}, {value("t", FLOAT, {})}})),
            attr_g("else_branch",
                   onnx_graph({{node("Abs", {"f"}, {"e"})}, {}, {}, {value("e", FLOAT, {})}}))})};
  p.inputs = {value("x", FLOAT, {"n", 1, 4, 4}), value("cond", BOOL, {})};
  p.outputs = {value("y", FLOAT, {"n", 8}), value("z", FLOAT, {}), value("g", INT64, {1}),
               value("h", FLOAT16, {2})};
  return model(p).bytes;
}
/// Success or a user's error; an own bug (InternalError) fails the test.
bool survives(const std::string& bytes, std::string* why) {
  try {
    onnx::import_onnx_bytes(bytes, "m.onnx");
  } catch (const Error& e) {
    if (e.kind == ErrorKind::internal) *why = e.what();
  }
  try {
    onnx::read_onnx_info_bytes(bytes, "m.onnx");
  } catch (const Error& e) {
    if (e.kind == ErrorKind::internal) *why = e.what();
  }
  return why->empty();
}

TEST(Info, WindowsOfNumbersAtTheEndsOfTheirTypeHaveNoEstimate) {
  for (const char* name : {"strides", "dilations", "kernel_shape", "pads"})
    for (const int64_t end : {INT64_MIN, INT64_MAX}) {
      const std::vector<int64_t> given(std::string(name) == "pads" ? 4 : 2, end);
      const Msg m = model({{node("MaxPool", {"x"}, {"y"}, {attr_ints(name, given), attr_i("ceil_mode", 1)})},
                           {},
                           {value("x", FLOAT, {1, 1, 8, 8})},
                           {value("y", FLOAT, {"a", "b", "c", "d"})}});
      EXPECT_EQ(onnx::read_onnx_info_bytes(m.bytes, "m.onnx").nodes.at(0).flops, -1) << name << " " << end;
    }
}

TEST(Fuzz, TheSampleIsGood) { EXPECT_TRUE(onnx::import_onnx_bytes(sample(), "m.onnx").find("main")); }

TEST(Fuzz, EveryPrefix) {
  const std::string s = sample();
  for (size_t n = 0; n < s.size(); ++n) {
    std::string why;
    ASSERT_TRUE(survives(s.substr(0, n), &why)) << n << ": " << why;
  }
}

TEST(Fuzz, EveryBit) {
  const std::string s = sample();
  for (size_t i = 0; i < s.size() * 8; ++i) {
    std::string t = s, why;
    t[i / 8] = char(t[i / 8] ^ (1 << i % 8));
    ASSERT_TRUE(survives(t, &why)) << "bit " << i << ": " << why;
  }
}

TEST(Fuzz, RandomEdits) {
  const std::string s = sample();
  uint64_t state = 42;
  auto random = [&] {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state;
  };
  for (int round = 0; round < 3000; ++round) {
    std::string t = s, why;
    for (uint64_t k = 0; k < 1 + random() % 4; ++k) {
      const size_t at = random() % t.size();
      switch (random() % 4) {
        case 0:
          t[at] = char(random());
          break;
        case 1:
          t.erase(at, 1 + random() % 4);
          break;
        case 2:
          t.insert(at, 1 + random() % 4, char(random()));
          break;
        default: {
          const size_t n = std::min<size_t>(1 + random() % 32, t.size() - at);
          t.insert(random() % t.size(), t.substr(at, n));
        }
      }
      if (t.empty()) break;
    }
    ASSERT_TRUE(survives(t, &why)) << "round " << round << ": " << why;
  }
}

}  // namespace
}  // namespace tenon
