// SPDX-License-Identifier: Apache-2.0
// Sequences, optionals and strings: what a run refuses, by the interpreter and compiled, and that the session
// works on; values in files.
#include <gtest/gtest.h>

#include <fstream>

#include "base/diagnostic.h"
#include "base/temporary_folder.h"
#include "import/onnx/load.h"
#include "interpret/interpret.h"
#include "judge.h"
#include "pipeline/emit.h"
#include "writer.h"

namespace tenon {
namespace {

using namespace test;

NDArray floats_array(const std::vector<float>& v) {
  return NDArray::from_bytes({int64_t(v.size())}, f32, v.data(), v.size() * 4);
}
Any list(const std::vector<Any>& items) {
  auto a = make<ArrayObj>();
  a.mut()->items = items;
  return Any(std::move(a));
}
Any text(const std::vector<std::string>& items) {
  auto t = make<StringTensorObj>();
  t.mut()->shape = {int64_t(items.size())};
  t.mut()->items = items;
  return Any(std::move(t));
}

/// A model that is run both ways, again and again.
class Both {
 public:
  explicit Both(const GraphParts& parts, int64_t version = 20)
      : module_(onnx::import_onnx_bytes(model(parts, version).bytes, "m")),
        session_(jit_artifact(compile(module_, {}))) {}
  void gives(const std::vector<Any>& inputs, const Any& want) {
    EXPECT_EQ(difference(interpret(module_, "main", inputs), want), "");
    EXPECT_EQ(difference(session_.call("main", inputs), want), "");
  }
  /// Ends with this code, at a place.
  void refuses(const std::vector<Any>& inputs, const std::string& code, const std::string& words) {
    for (const bool compiled : {false, true}) {
      std::string got, message;
      try {
        compiled ? session_.call("main", inputs) : interpret(module_, "main", inputs);
      } catch (const Error& e) {
        got = e.code, message = e.what();
      }
      if (compiled || code == "T0521") {
        EXPECT_EQ(got, code) << message;
        EXPECT_NE(message.find(words), std::string::npos) << message;
      } else {
        EXPECT_NE(got, "") << "the interpreter took it";
      }
    }
  }

 private:
  IRModule module_;
  Session session_;
};

TEST(Values, PositionsOutsideOfASequenceEndTheRunAlone) {
  Both m({{node("SequenceAt", {"x", "i"}, {"y"}, {}, "pick")},
          {},
          {typed("x", sequence_of(kFloats)), value("i", INT64, {})},
          {typed("y", kFloats)}});
  const Any x = list({Any(floats_array({1, 2})), Any(floats_array({3}))});
  const auto at = [](int64_t i) { return Any(NDArray::scalar(double(i), i64)); };
  m.gives({x, at(-2)}, Any(floats_array({1, 2})));
  m.refuses({x, at(2)}, "T0521", "pick");
  m.refuses({x, at(-3)}, "T0521", "outside of a sequence of 2");
  m.refuses({list({}), at(0)}, "T0521", "sequence of 0");
  m.refuses({Any(floats_array({1})), at(0)}, "T0521",
            "a sequence(tensor(float32)) is needed, not tensor(float32)");
  m.refuses({Any(), at(0)}, "T0521", "an empty optional");
  m.refuses({list({Any(NDArray::scalar(1.0, f64))}), at(0)}, "T0521", "not sequence(tensor(float64))");
  m.refuses({list({x}), at(0)}, "T0521", "not sequence(sequence(tensor(float32)))");
  m.gives({x, at(1)}, Any(floats_array({3})));
}

TEST(Values, AnEmptyOptionalIsNotRead) {
  Both m({{node("OptionalGetElement", {"x"}, {"y"}, {}, "read")},
          {},
          {typed("x", optional_of(kFloats))},
          {typed("y", kFloats)}});
  m.refuses({Any()}, "T0521", "read");
  m.gives({Any(floats_array({4}))}, Any(floats_array({4})));
}

TEST(Values, TensorsThatDoNotFitAreNotJoined) {
  Both m({{node("ConcatFromSequence", {"x"}, {"y"}, {attr_i("axis", 0)}, "join")},
          {},
          {typed("x", sequence_of(kFloats))},
          {typed("y", kFloats)}});
  const NDArray matrix = NDArray::zeros({2, 2}, f32);
  m.refuses({list({Any(matrix), Any(floats_array({1}))})}, "T0521", "join");
  m.refuses({list({Any(floats_array({1})), Any(NDArray::zeros({1}, f64))})}, "T0521",
            "not sequence(tensor(float32), tensor(float64))");
  m.refuses({list({})}, "T0521", "empty sequence");
  m.gives({list({Any(floats_array({1})), Any(floats_array({2, 3}))})}, Any(floats_array({1, 2, 3})));
}

TEST(Values, StringsMayHoldAnyBytesUntilTheyAreRead) {
  Both same({{node("Identity", {"x"}, {"y"})}, {}, {value("x", STRING, {"n"})}, {value("y", STRING, {"n"})}});
  const std::string bytes("\xff\x00zero", 6);
  same.gives({text({"a", bytes, ""})}, text({"a", bytes, ""}));
  same.refuses({Any(floats_array({1}))}, "T0521", "strings are needed");
  Any nested = text({"a"});
  for (int i = 0; i < 200; ++i) nested = list({nested});
  same.refuses({nested}, "T0521", "nested deeper");
  auto wrong = make<StringTensorObj>();
  wrong.mut()->shape = {3};
  same.refuses({Any(wrong)}, "T0521", "another number");
  Both match({{node("RegexFullMatch", {"x"}, {"y"}, {attr_s("pattern", "a+")}, "match")},
              {},
              {value("x", STRING, {"n"})},
              {value("y", BOOL, {"n"})}});
  match.refuses({text({"a", bytes})}, "T0521", "not UTF-8");
  Both broken({{node("RegexFullMatch", {"x"}, {"y"}, {attr_s("pattern", "(a")}, "match")},
               {},
               {value("x", STRING, {"n"})},
               {value("y", BOOL, {"n"})}});
  broken.refuses({text({"a"})}, "T0521", "no regular expression");
}

TEST(Values, DamagedImagesAreRefused) {
  Both m({{node("ImageDecoder", {"x"}, {"y"}, {}, "decode")},
          {},
          {value("x", UINT8, {"n"})},
          {value("y", UINT8, {"h", "w", 3})}});
  const auto bytes = [](const std::string& s) {
    return Any(NDArray::from_bytes({int64_t(s.size())}, u8, s.data(), s.size()));
  };
  m.refuses({bytes("")}, "T0521", "decode");
  m.refuses({bytes("hello")}, "T0521", "no image");
  m.refuses({bytes("P6 99999999 99999999 255\n")}, "T0521", "damaged");
  m.refuses({bytes("BM" + std::string(60, '\xff'))}, "T0521", "damaged");
  m.gives({bytes("P6 1 1 255\nabc")}, Any(NDArray::from_bytes({1, 1, 3}, u8, "abc", 3)));
}

TEST(Values, FilesOfContainersAreReadByTheirType) {
  const TemporaryFolder folder("values");
  const auto path = (folder.path / "x.pb").string();
  const auto write = [&](const Msg& m) { std::ofstream(path, std::ios::binary) << m.bytes; };
  const Msg tensor = floats("", {2}, {1, 2});
  write(Msg().s(1, "x").i(2, 1).m(3, tensor).m(3, tensor));
  const Any item(floats_array({1, 2}));
  EXPECT_EQ(difference(onnx::read_value_proto(path, "sequence(tensor(float))"), list({item, item})), "");
  write(Msg().s(1, "x").i(2, 0));
  EXPECT_TRUE(onnx::read_value_proto(path, "optional(tensor(float))").is_none());
  write(Msg().s(1, "x").i(2, 3).m(5, Msg().m(3, tensor)));
  EXPECT_EQ(difference(onnx::read_value_proto(path, "optional(sequence(tensor(float)))"), list({item})), "");
  write(tensor_head("x", STRING, {2}).s(6, "a").s(6, "b"));
  EXPECT_EQ(difference(onnx::read_value_proto(path, ""), text({"a", "b"})), "");
  write(tensor_head("x", STRING, {3}).s(6, "a"));
  EXPECT_THROW(onnx::read_value_proto(path, ""), DiagnosticError);
  Msg deep = tensor;
  for (int i = 0; i < 2000; ++i) deep = Msg().m(5, deep);
  write(deep);
  EXPECT_THROW(onnx::read_value_proto(path, "sequence(tensor(float))"), DiagnosticError);
}

}  // namespace
}  // namespace tenon
