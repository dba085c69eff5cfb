// SPDX-License-Identifier: Apache-2.0
// Numbers that only the run knows and that make no size, and the memory of what a loop collects: located
// errors, not empty tensors or a machine without memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/diagnostic.h"
#include "import/onnx/load.h"
#include "pipeline/emit.h"
#include "writer.h"

namespace tenon {
namespace {

using namespace test;
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(), kMost = std::numeric_limits<int64_t>::max();

NDArray integer(int64_t v) {
  NDArray a = NDArray::empty({}, i64);
  a.set_element_int(0, v);
  return a;
}
NDArray integers(const std::vector<int64_t>& v) {
  return NDArray::from_bytes({int64_t(v.size())}, i64, v.data(), v.size() * sizeof(int64_t));
}

/// Code and words of the error with which a run ends, or nothing.
std::string refusal(Session& session, const std::vector<NDArray>& inputs) {
  try {
    session.invoke(inputs);
  } catch (const Error& e) {
    return e.code + ": " + e.what();
  }
  return {};
}
Session session_of(const GraphParts& parts) {
  return Session(jit_artifact(compile(onnx::import_onnx_bytes(model(parts, 21).bytes, "m"), {})));
}

TEST(RunTimeNumbers, RangesOfMoreElementsThanThereAreNumbers) {
  Session s = session_of({{node("Range", {"a", "b", "c"}, {"y"}, {}, "range")},
                          {},
                          {value("a", INT64, {}), value("b", INT64, {}), value("c", INT64, {})},
                          {value("y", INT64, {"n"})}});
  const auto run = [&](int64_t a, int64_t b, int64_t c) {
    return refusal(s, {integer(a), integer(b), integer(c)});
  };
  for (const auto& [a, b, c] : {std::tuple(kLeast, kMost, int64_t(1)),
                                {kMost, kLeast, -1},
                                {int64_t(-2), kMost, 2},
                                {int64_t(0), kLeast, -4}})
    EXPECT_THAT(run(a, b, c), testing::StartsWith("T0520: ")) << a << " " << b << " " << c;
  EXPECT_THAT(run(0, 10, 0), testing::HasSubstr("the step of Range is zero"));
  EXPECT_EQ(run(kMost, kMost - 5, -2), "");
  EXPECT_EQ(run(kMost, kLeast + kMost, 1), "");
}

TEST(RunTimeNumbers, RepeatsAndWidthsWhoseSizesWrap) {
  Session tile = session_of({{node("Tile", {"x", "r"}, {"y"}, {}, "tile")},
                             {},
                             {value("x", FLOAT, {4}), value("r", INT64, {1})},
                             {value("y", FLOAT, {"n"})}});
  const NDArray x = NDArray::zeros({4}, f32);
  for (const int64_t r : {int64_t(1) << 62, kLeast, int64_t(-1), kMost})
    EXPECT_THAT(refusal(tile, {x, integers({r})}), testing::HasSubstr("a repeat of Tile is negative")) << r;
  EXPECT_EQ(refusal(tile, {x, integers({3})}), "");
  EXPECT_EQ(refusal(tile, {x, integers({0})}), "");
  Session pad = session_of({{node("Pad", {"x", "p"}, {"y"}, {}, "pad")},
                            {},
                            {value("x", FLOAT, {4}), value("p", INT64, {2})},
                            {value("y", FLOAT, {"n"})}});
  for (const auto& [before, after] : {std::pair(kMost, kMost - 2), {kLeast, kLeast}, {kMost, int64_t(0)}})
    EXPECT_THAT(refusal(pad, {x, integers({before, after})}),
                testing::HasSubstr("a width of Pad is too large"));
  EXPECT_EQ(refusal(pad, {x, integers({-2, 5})}), "");
}

TEST(RunTimeNumbers, WhatALoopCollectsCountsAgainstTheLimit) {
  GraphParts body;
  body.nodes = {node("Identity", {"more"}, {"go"}), node("Add", {"s", "s"}, {"t"}),
                node("Neg", {"t"}, {"e"})};
  body.inputs = {value("i", INT64, {}), value("more", BOOL, {}), value("s", FLOAT, {256})};
  body.outputs = {value("go", BOOL, {}), value("t", FLOAT, {256}), value("e", FLOAT, {256})};
  Session s =
      session_of({{node("Loop", {"n", "", "x"}, {"last", "all"}, {attr_g("body", onnx_graph(body))}, "loop")},
                  {},
                  {value("n", INT64, {}), value("x", FLOAT, {256})},
                  {value("all", FLOAT, {"t", 256})}});
  const NDArray x = NDArray::zeros({256}, f32);
  s.set_memory_limit(1 << 20);
  EXPECT_EQ(refusal(s, {integer(100), x}), "");
  EXPECT_THAT(refusal(s, {integer(kMost), x}), testing::StartsWith("T0507: "));
  EXPECT_EQ(refusal(s, {integer(100), x}), "");
}

}  // namespace
}  // namespace tenon
