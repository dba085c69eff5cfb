// SPDX-License-Identifier: Apache-2.0
// Zero points whose number only the run tells: one for all, or one for each, and nothing else, by the
// interpreter and compiled.
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

/// "" where both give the same; the codes of both where both refuse.
std::string outcome(const IRModule& module, Session& session, const std::vector<Any>& inputs) {
  std::string meant, got;
  Any want, have;
  try {
    want = interpret(module, "main", inputs);
  } catch (const Error& e) {
    meant = e.code;
  }
  try {
    have = session.call("main", inputs);
  } catch (const Error& e) {
    got = e.code;
  }
  if (meant.empty() && got.empty()) return difference(have, want);
  return meant + " " + got;
}

NDArray counted(int64_t n, DataType t) {
  NDArray a = NDArray::zeros({n}, t);
  for (int64_t i = 0; i < n; ++i) a.set_element_int(i, i + 1);
  return a;
}

TEST(ZeroPoints, OneOrOneForEachColumn) {
  const Msg m =
      model(GraphParts{{node("MatMulInteger", {"a", "b", "", "z"}, {"y"})},
                       {},
                       {value("a", INT8, {2, 3}), value("b", INT8, {3, 4}), value("z", INT8, {"M"})},
                       {value("y", INT32, {})}},
            13);
  const IRModule module = onnx::import_onnx_bytes(m.bytes, "m.onnx");
  Session session(jit_artifact(compile(module, {})));
  const NDArray a = counted(6, DataType::int_(8)).reshape({2, 3}),
                b = counted(12, DataType::int_(8)).reshape({3, 4});
  for (const int64_t points : {1, 4})
    EXPECT_EQ(outcome(module, session, {Any(a), Any(b), Any(counted(points, DataType::int_(8)))}), "")
        << points;
  EXPECT_EQ(outcome(module, session, {Any(a), Any(b), Any(counted(3, DataType::int_(8)))}), "T0357 T0501");
}

TEST(ZeroPoints, AsManyAsScales) {
  const Msg m = model(GraphParts{{node("QuantizeLinear", {"x", "s", "z"}, {"y"}, {attr_i("axis", 1)})},
                                 {floats("s", {2}, {0.5f, 0.25f})},
                                 {value("x", FLOAT, {1, 2}), value("z", UINT8, {"K"})},
                                 {value("y", UINT8, {})}},
                      19);
  const IRModule module = onnx::import_onnx_bytes(m.bytes, "m.onnx");
  Session session(jit_artifact(compile(module, {})));
  const NDArray x = NDArray::zeros({1, 2}, f32);
  EXPECT_EQ(outcome(module, session, {Any(x), Any(counted(2, u8))}), "");
  EXPECT_EQ(outcome(module, session, {Any(x), Any(counted(1, u8))}), "T0357 T0501");
}

}  // namespace
}  // namespace tenon
