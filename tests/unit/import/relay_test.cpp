// SPDX-License-Identifier: Apache-2.0
// Relay text with mistakes: each is told with code, line and column, all at once; whatever bytes come,
// nothing but success or an error follows.
#include <gtest/gtest.h>

#include <random>

#include "base/diagnostic.h"
#include "import/relay/load.h"
#include "ir/graph.h"
#include "limits.h"

namespace tenon {
namespace {

std::vector<Diagnostic> mistakes(const std::string& text) {
  try {
    relay::import_relay(text, "t.relay");
  } catch (const DiagnosticError& e) {
    return e.diagnostics;
  }
  return {};
}

/// The one mistake of a text, as "code place".
std::string only(const std::string& text) {
  const auto found = mistakes(text);
  if (found.size() != 1) {
    std::string all = std::to_string(found.size()) + " mistakes";
    for (const Diagnostic& d : found) all += "\n" + render(d);
    return all;
  }
  return found[0].code + " " + found[0].location;
}

TEST(RelayMistakes, HaveACodeAndAPlace) {
  struct Case {
    const char *text, *want;
  };
  const Case cases[] = {
      {"def @main(%x: int32) { %y }", "T0220 t.relay:1:24"},
      {"def @main(%x: int32) { @f(%x) }", "T0220 t.relay:1:24"},
      {"def @main(%x: int32) {\n  nn.magic(%x)\n}", "T0222 t.relay:2:3"},
      {"def @main(%x: int32) { conv2d(%x) }", "T0222 t.relay:1:24"},
      {"def @main(%x: int32) { abs(%x, %x) }", "T0223 t.relay:1:24"},
      {"def @main(%x: int32) { abs(%x, scale=1f) }", "T0226 t.relay:1:32"},
      {"def @main(%x: int32) { clip(%x, a_min=\"low\", a_max=1f) }", "T0227 t.relay:1:33"},
      {"def @main(%x: int32) { nn.depth_to_space(%x, block_size=\"two\") }", "T0227 t.relay:1:46"},
      {"def @main(%x) { mean(%x, axis=[0], exclude=True) }", "T0245 t.relay:1:17"},
      {"def @main(%x: int32) { %x }\ndef @main(%x: int32) { %x }", "T0212 t.relay:2:1"},
      {"def @main(%x: int32, %x: int32) { 1 }", "T0212 t.relay:1:22"},
      {"type A { B }\ntype A { C }\ndef @main() { 1 }", "T0212 t.relay:2:6"},
      {"type A { B }\ntype C { B }\ndef @main() { 1 }", "T0212 t.relay:2:10"},
      {"def @main(%x: Foo) { %x }", "T0220 t.relay:1:15"},
      {"type L[A] { N }\ndef @main(%x: L) { %x }", "T0242 t.relay:2:15"},
      {"def @main(%x: Tensor[(3), float33]) { %x }", "T0229 t.relay:1:27"},
      {"def @main(%x: Tensor[(-3), float32]) { %x }", "T0224 t.relay:1:23"},
      {"def @main() { 32768i16 }", "T0204 t.relay:1:15"},
      {"def @main() { 3.41e+38f }", "T0204 t.relay:1:15"},
      {"def @main() { 1.5 }", "T0204 t.relay:1:15"},
      {"def @main() { 12ab }", "T0204 t.relay:1:15"},
      {"def @main() { meta[relay.Constant][0] }", "T0228 t.relay:1:15"},
      {"def @main() { 1 $ }", "T0201 t.relay:1:17"},
      {"def @main() { abs(1, name=\"x) }", "T0202 t.relay:1:27"},
      {"def @main() { 1 /* }", "T0205 t.relay:1:17"},
      {"def @main(%x: int32) { %x +", "T0206 t.relay:1:28"},
      {"let @x = 1; ()", "T0206 t.relay:1:5"},
      {"def @main(%x: int32) { match (%x) { } }", "T0241 t.relay:1:24"},
      {"type A { B(int32) }\ndef @main(%a: A) { match (%a) { C(%x) => %x } }", "T0242 t.relay:2:33"},
      {"type A { B(int32) }\ndef @main(%a: A) { match (%a) { B => 1 } }", "T0242 t.relay:2:33"},
      {"type A { B(int32) }\ndef @main() { B(1, 2) }", "T0242 t.relay:2:15"},
      {"extern type A { B }\ndef @main() { 1 }", "T0242 t.relay:1:13"},
      {"#[version = \"0.0.9\"]\ndef @main() { 1 }", "T0206 t.relay:1:1"},
      {"def @main() { 1 }\n#[metadata]\n{\"root\": 1}", "T0246 t.relay:2:12"},
      {"def @main(%x: int32) { %0 = abs(%0); %0 }", "T0220 t.relay:1:33"},
      {"def @main(%x: int32) { %0 = fn (%y: int32) { %0(%y) }; %0(%x) }", "T0220 t.relay:1:46"},
      {"def @main(%x: int32) { if (True) { %0 = %0; 1 } else { %0 } }", "T0220 t.relay:1:41"},
  };
  for (const Case& c : cases) EXPECT_EQ(only(c.text), c.want) << c.text;
}

TEST(RelayMistakes, AreToldAllAtOnce) {
  const auto found = mistakes(R"(#[version = "0.0.5"]
def @main(%x: Tensor[(3), float32]) {
  nn.foo(%x, 1);
  let %y = nn.relu(%z);
  add(%x, %y, axis=1);
  let %q: Foo[int32] = 5;
  let %w = (1, ;
  reshape(%x, newshape=[1, 3], bar=2);
  nn.bar((%u, %x), %v)
}
def @b(%x: Tensor[(3), float33]) { %x }
def @c(%x { %x }
def @d(%x: int32) { contrib.bar(%x + 1) }
)");
  std::vector<std::string> lines;
  for (const Diagnostic& d : found) lines.push_back(d.code + d.location.substr(d.location.find(':')));
  std::sort(lines.begin(), lines.end());
  // %y follows from a mistake that was told.
  EXPECT_EQ(lines, (std::vector<std::string>{"T0206:12:11", "T0206:7:16", "T0220:4:20", "T0220:6:11",
                                             "T0220:9:11", "T0220:9:20", "T0222:13:21", "T0222:3:3",
                                             "T0222:9:3", "T0226:8:32", "T0229:11:24"}));
}

TEST(RelayMistakes, MetadataThatIsDamaged) {
  const std::string head = "def @main() { meta[relay.Constant][0] }\n#[metadata]\n";
  auto json = [&](const std::string& tensor) {
    return head +
           R"({"root": 1, "nodes": [{"type_key": ""}, {"type_key": "Map", "keys": ["relay.Constant"], "data": [2]},
      {"type_key": "Array", "data": [3]}, {"type_key": "relay.Constant", "attrs": {"data": "0"}}], "b64ndarrays": [")" +
           tensor + "\"]}";
  };
  for (const std::string& text :
       {head + "[[[[", head + "{}", head + R"({"root": 7, "nodes": []})", head + std::string(200000, '['),
        json("!!"), json("AAAA"),
        json("P6G0lvBAXt0AAAAAAAAAAAEAAAAAAAAAAgAAAAIgAQD///////9/AgAAAAAAAAAQAAAAAAAAAA==")}) {
    const auto found = mistakes(text);
    ASSERT_FALSE(found.empty());
    EXPECT_EQ(found[0].code, "T0246") << found[0].message;
  }
  // What the text needs is not there.
  EXPECT_EQ(
      only(head +
           R"({"root": 1, "nodes": [{"type_key": ""}, {"type_key": "Map", "keys": ["IntImm"], "data": [2]},
      {"type_key": "Array", "data": []}]})"),
      "T0228 t.relay:1:15");
}

TEST(RelayMistakes, NestingHasALimit) {
  constexpr int deep = 100000;
  auto nested = [](const std::string& open, const std::string& inside, const std::string& close) {
    std::string text = "def @main(%x: int32) { ";
    for (int i = 0; i < deep; ++i) text += open;
    text += inside;
    for (int i = 0; i < deep; ++i) text += close;
    return text + " }";
  };
  for (const std::string& text :
       {nested("(", "%x", ")"), nested("abs(", "%x", ")"), nested("{", "%x", "}"), nested("1 + ", "%x", ""),
        nested("fn () { ", "%x", " }"), nested("if (True) { ", "%x", " } else { 1 }"), nested("", "%x", "()"),
        nested("", "%x", ".0"), nested("match (%x) { _ => ", "%x", " }"),
        "def @main(%x: " + std::string(deep, '(') + "int32) { 1 }",
        "def @main(%x: int32) { abs(%x, a=" + std::string(deep, '[') + ") }",
        "def @main(%x: int32) { match (%x) { " + std::string(deep, '(') + "_ => 1 } }"}) {
    const auto found = mistakes(text);
    ASSERT_FALSE(found.empty());
    EXPECT_EQ(found[0].code, "T0209") << render(found[0]).substr(0, 300);
  }
}

TEST(RelayMistakes, TextsCutShortAndChanged) {
  const std::string text = R"(#[version = "0.0.5"]
type List[A] { Cons(A, List[A]), Nil }
def @map[A, B](%f: fn (A) -> B, %xs: List[A]) -> List[B] {
  match (%xs) { Cons(%x, %rest) => Cons(%f(%x), @map(%f, %rest)), Nil => Nil }
}
def @main(%x: Tensor[(1, ?), float32], Primitive=1) -> Tensor[(1, 3), float32] {
  %0 = nn.dense(%x, meta[relay.Constant][0], units=None) /* ty=… */;
  let %y: _ = if (True) { (%0, 1f, -3i64).0 } else { %0 };
  strided_slice(%y, begin=[0, 0], end=[1, 3], strides=[1])
}
#[metadata]
{"root": 1, "nodes": []}
)";
  std::mt19937 random(1);
  for (size_t n = 0; n < text.size(); ++n) mistakes(text.substr(0, n));
  for (int i = 0; i < 3000; ++i) {
    std::string changed = text;
    for (uint32_t k = random() % 4 + 1; k > 0; --k) {
      const size_t at = random() % changed.size(), from = random() % text.size();
      switch (random() % 3) {
        case 0:
          changed[at] = text[from];
          break;
        case 1:
          changed.erase(at, random() % 9);
          break;
        default:
          changed.insert(at, text.substr(from, random() % 12));
      }
      if (changed.empty()) break;
    }
    for (const Diagnostic& d : mistakes(changed)) ASSERT_FALSE(d.code.empty());
  }
}

TEST(RelayText, IsToldByItsContent) {
  for (const char* text :
       {"#[version = \"0.0.5\"]\n", "def @main() { 1 }", "// note\n/* note */ free_var %x: int32; %x",
        "type List[A] {", "extern type T", "let %x = 1; %x", "fn (%x) { %x }", "%0 = 1; %0"})
    EXPECT_TRUE(relay::looks_like_relay(text)) << text;
  for (const char* text : {"@R.function\ndef main(x):\n", "# comment\nimport tvm\n",
                           "def main(x):", "class M:", "", "type x = 1\n"})
    EXPECT_FALSE(relay::looks_like_relay(text)) << text;
}

TEST(RelayText, SizesOfParametersHaveNames) {
  const IRModule m = relay::import_relay("def @main(%a/b: Tensor[(?, 2, Any), float32]) { %a/b }");
  const auto f = m.find("main").cast<graph::Function>();
  const auto shape = graph::known_shape(f->params[0]->declared);
  ASSERT_TRUE(shape);
  EXPECT_EQ((*shape)[0].as<tir::Var>()->name, "a_b_0");
  EXPECT_EQ((*shape)[2].as<tir::Var>()->name, "a_b_2");
}

}  // namespace
}  // namespace tenon
