// SPDX-License-Identifier: Apache-2.0
// Mistakes in script text: each has its code and line, all of one text are reported, none crashes.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "ir/text.h"

namespace tenon {
namespace {

std::vector<Diagnostic> mistakes(const std::string& text) {
  try {
    parse_module(text);
  } catch (const DiagnosticError& e) {
    return e.diagnostics;
  }
  return {};
}
std::string line_of(const Diagnostic& d) {  // "<text>:12:3"
  const size_t a = d.location.find(':');
  const size_t b = d.location.find(':', a + 1);
  return a == std::string::npos ? "" : d.location.substr(a + 1, b - a - 1);
}

struct Case {
  const char* code;
  int line;
  const char* text;
};

// Bodies of a tensor program; line 1 is the first line of the text.
const Case tensor_cases[] = {
    {"T0201", 1, "A[0] = 1 $ 2"},
    {"T0202", 1, "assert n > 0, \"open"},
    {"T0203", 3, "if n > 1:\n        pass\n  pass"},
    {"T0204", 1, "A[0] = 12ab"},
    {"T0204", 1, "for i in range(9223372036854775800, 9223372036854775807 + 9):\n    A[0] = 1.0"},
    {"T0204", 1, "A[0] = T.float32(T.int8(300))"},
    {"T0204", 1, "A[0] = T.float32(T.uint8(-1))"},
    {"T0204", 1, "A[0] = T.float32(T.uint8(7) + 256)"},
    {"T0204", 1, "A[99999999999999999999] = 1.0"},
    {"T0205", 1, "A[0 = 1.0\nfor i in range(3):\n    pass"},
    {"T0206", 1, "A[0] = = 1.0"},
    {"T0205", 1, "A[0] = (1.0"},
    {"T0206", 1, "for i range(8):\n    pass"},
    {"T0206", 1, "A[0] = 1.0 1.0"},
    {"T0207", 1, "for i in T.serial(8, thread=\"a\", thread=\"b\"):\n    pass"},
    {"T0207", 1, "for i in T.serial(extent=8, 3):\n    pass"},
    {"T0208", 2, "A[0] = 1.0\n    A[1] = 1.0"},
    {"T0208", 2, "for i in range(8):\nA[0] = 1.0"},
    {"T0220", 1, "A[0] = y"},
    {"T0220", 1, "Aa[0] = 1.0"},
    {"T0220", 3, "for i in range(8):\n    pass\nA[i] = 1.0"},
    {"T0221", 1, "A[0] = None"},
    {"T0221", 1, "n += 1"},
    {"T0222", 1, "A[0] = T.expp(A[1])"},
    {"T0222", 1, "A[0] = numpy.exp(A[1])"},
    {"T0222", 1, "A[0] = max(A[1], A[2])"},
    {"T0222", 1, "A.frob(1)"},
    {"T0223", 1, "A[0] = T.exp(A[1], A[2])"},
    {"T0223", 1, "C = T.allocate((8,), \"float32\", colour=3)"},
    {"T0223", 1, "for i in T.parallel():\n    pass"},
    {"T0224", 1, "C = T.allocate((8,), \"float33\")"},
    {"T0224", 1, "A[0] = T.Broadcast(T.float32(1), n)"},
    {"T0224", 1, "T.func_attr([1, 2])"},
    {"T0224", 1, "C = T.allocate((8,), \"float32\", align=3)"},
    {"T0225", 1, "A[0] = A"},
    {"T0225", 1, "n[0] = 1.0"},
    {"T0230", 1, "A[0] = A.data"},
    {"T0230", 1, "A[0] = A[1] + n"},
    {"T0230", 1, "if n:\n    pass"},
    {"T0230", 1, "A[0] = T.int32(1.5)"},
    {"T0233", 1, "A[0, 1] = 1.0"},
    {"T0230", 1, "A[0] = A[0:4]"},
    {"T0233", 1, "A[1.0] = 1.0"},
    {"T0234", 3,
     "for i in range(8):\n    with T.block(\"b\"):\n        v, w = T.axis.remap(\"SS\", [i])\n        A[v] = "
     "1.0"},
    {"T0234", 2, "with T.block(\"b\"):\n    v = T.axis.remap(\"S\", [n])\n    A[v] = 1.0"},
    {"T0234", 1, "with T.block(\"b\"):\n    v = T.axis.spatial(8)\n    A[v] = 1.0"},
    {"T0235", 2, "for i in range(8):\n    T.where(i < 3)"},
    {"T0235", 2, "T.func_attr({\"a\": 1})\nT.func_attr({\"a\": 2})\nA[0] = 1.0"},
    {"T0235", 3,
     "with T.block(\"x\"):\n    T.block_attr({\"a\": 1})\n    T.block_attr({\"a\": 2})\n    A[0] = 1.0"},
    {"T0235", 3, "with T.block(\"x\"):\n    T.writes(A[0])\n    T.writes(A[1])\n    A[0] = 1.0"},
    {"T0224", 1, "C = T.decl_buffer((8,), \"float32\", offset_factor=-2)"},
    {"T0224", 1, "C = T.decl_buffer((8,), \"float32\", buffer_type=\"banana\")"},
    {"T0235", 1, "v = T.axis.spatial(8, 1)\nfor i in range(2):\n    pass"},
    {"T0236", 1, "for i in [1, 2]:\n    pass"},
    {"T0236", 1, "for i, j in T.grid(8):\n    pass"},
    {"T0236", 1, "for i in T.frob(8):\n    pass"},
    {"T0237", 1, "with open:\n    pass"},
    {"T0237", 1, "with T.frob(1):\n    pass"},
    {"T0238", 1, "B = T.match_buffer(n, (8,), \"float32\")"},
    {"T0239", 1, "n + 1"},
    {"T0239", 1, "class X:\n    pass"},
};

TEST(ParseError, TensorPrograms) {
  for (const Case& c : tensor_cases) {
    std::string text = "@T.prim_func\ndef f(A: T.Buffer((8,), \"float32\"), n: T.int64):\n    ";
    for (const char* p = c.text; *p; ++p) {
      text += *p;
      if (*p == '\n') text += "    ";
    }
    const auto found = mistakes(text + "\n");
    ASSERT_FALSE(found.empty()) << text;
    EXPECT_EQ(found[0].code, c.code) << text << "\n" << render(found[0]);
    EXPECT_EQ(line_of(found[0]), std::to_string(c.line + 2)) << text << "\n" << render(found[0]);
  }
}

const Case graph_cases[] = {
    {"T0220", 1, "return y"},
    {"T0220", 1, "y = cls.missing(x)\nreturn y"},
    {"T0221", 1, "x += x\nreturn x"},
    {"T0222", 1, "y = R.frobnicate(x)\nreturn y"},
    {"T0222", 1, "y = T.exp(x)\nreturn y"},
    {"T0223", 1, "y = R.call_tir()\nreturn y"},
    {"T0224", 1, "y = R.const([1, [2]], \"int64\")\nreturn y"},
    {"T0226", 1, "y = R.call_packed(\"f\", x, wrong=1)\nreturn y"},
    {"T0227", 1,
     "y = R.call_tir_inplace(cls.p, (x,), inplace_indices=\"a\", out_sinfo=R.Tensor((2,), "
     "\"float32\"))\nreturn y"},
    {"T0228", 1, "y = R.const_ref(0x12, (2,), \"float32\")\nreturn y"},
    {"T0229", 1, "y: R.Matrix((2,), \"float32\") = x\nreturn y"},
    {"T0230", 1, "y: R.Tensor((\"n +\",), \"float32\") = x\nreturn y"},
    {"T0230", 1, "y = R.const([1.5], \"int64\")\nreturn y"},
    {"T0232", 1, "y: R.Tensor(x, \"float32\") = x\nreturn y"},
    {"T0240", 1, "y = R.call_tir(cls.p, (x,))\nreturn y"},
    {"T0221", 1, "return R.match_cast(x, R.Tensor((n,), \"float32\"))"},
    {"T0241", 1, "y = x\ny2 = y"},
    {"T0241", 2, "if x:\n    pass\nelse:\n    y = x\nreturn x"},
    {"T0241", 1, "if x:\n    y = x\nreturn x"},
    {"T0241", 1, "if x:\n    y = x\nelse:\n    z = x\nreturn x"},
    {"T0241", 2, "return x\ny = x"},
    {"T0239", 1, "for i in range(3):\n    pass\nreturn x"},
    {"T0237", 1, "with T.block(\"b\"):\n    pass\nreturn x"},
};

TEST(ParseError, GraphFunctions) {
  for (const Case& c : graph_cases) {
    std::string text =
        "@I.ir_module\nclass M:\n    @T.prim_func\n    def p(A: T.Buffer((2,), \"float32\"), B: "
        "T.Buffer((2,), \"float32\")):\n        pass\n    @R.function\n    def f(x: R.Tensor((2,), "
        "\"float32\")):\n        ";
    for (const char* p = c.text; *p; ++p) {
      text += *p;
      if (*p == '\n') text += "        ";
    }
    const auto found = mistakes(text + "\n");
    ASSERT_FALSE(found.empty()) << text;
    EXPECT_EQ(found[0].code, c.code) << text << "\n" << render(found[0]);
    // A missing return is reported at the function's head.
    const bool at_head = std::string(c.text) == "y = x\ny2 = y";
    EXPECT_EQ(line_of(found[0]), std::to_string(at_head ? 7 : c.line + 7)) << text << "\n"
                                                                           << render(found[0]);
  }
}

TEST(ParseError, OtherFormsAreRefusedByName) {
  for (const char* text : {"primfn(A_1: handle) -> ()\n  attr = {}\n",
                           "#[version = \"0.0.5\"]\ndef @main(%x: Tensor[(1), float32]) {\n  %x\n}\n"}) {
    const auto found = mistakes(text);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].code, "T0213");
  }
}

TEST(ParseError, AllMistakesAreReported) {
  const auto found = mistakes(R"(
@I.ir_module
class M:
    @T.prim_func
    def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "floot32")):
        A[0] = x1
        for i in range(8):
            A[i, i] = 1.0
            B[i] = 1.0
        t = unknown
        A[2] = t + t
        A[1] = = 3
        A[3] = x2
    @R.function
    def g(x: R.Tensor((2,), "float32")):
        y = R.nothing(x)
        z = R.also_nothing(y)
        return z
    def plain():
        pass
)");
  std::vector<std::string> got;
  for (const Diagnostic& d : found) got.push_back(d.code + ":" + line_of(d));
  std::sort(got.begin(), got.end());
  // What follows from another mistake (B, t, y) is not reported again.
  EXPECT_EQ(got, (std::vector<std::string>{"T0206:12", "T0211:19", "T0220:10", "T0220:13", "T0220:6",
                                           "T0222:16", "T0222:17", "T0224:5", "T0233:8"}));
}

TEST(ParseError, ModulesAndFunctions) {
  struct {
    const char* code;
    int line;
    const char* text;
  } cases[] = {
      {"T0210", 1, "x = 3\n"},
      {"T0211", 1, "class A:\n    pass\n"},
      {"T0211", 1, "@frob\nclass A:\n    pass\n"},
      {"T0211", 1, "def f():\n    pass\n"},
      {"T0212", 5, "@T.prim_func\ndef f():\n    pass\n@T.prim_func\ndef f():\n    pass\n"},
      {"T0212", 2, "@T.prim_func\ndef f(a: T.handle, a: T.handle):\n    pass\n"},
      {"T0224", 2, "@T.prim_func\ndef f(a: R.Tensor((2,), \"float32\")):\n    pass\n"},
      {"T0206", 1, "@T.prim_func\nx = 3\n"},
      {"T0206", 2, "@T.prim_func\ndef (a):\n    pass\n"},
      {"T0241", 1, "@R.function\ndef f(x: R.Tensor((2,), \"float32\")):\n    return\n"},
  };
  for (const auto& c : cases) {
    const auto found = mistakes(c.text);
    ASSERT_FALSE(found.empty()) << c.text;
    EXPECT_EQ(found[0].code, c.code) << c.text << render(found[0]);
  }
}

// The examples that the older texts give with mistakes in them, and their corrected twins.
TEST(ParseError, ExamplesWithMistakes) {
  const std::string head = R"(
@tvm.script.ir_module
class MyIRModule:
    @T.prim_func
    def tir_exp_func(x: T.handle, y: T.handle): ## <= D2
        X = T.match_buffer(x, (n,), "float32")
        Y = T.match_buffer(y, (n,), "float32")
        with T.grid(n) as i:
            Y[i] = T.exp(X[i])
    @R.function
    def relax_func(x: R.Tensor[(n, k), "f32"], w: R.Tensor[_, "f32"]):
        with R.dataflow(): ### <= D0
            lv0 = R.match_shape(w, (k, m)) ## <= D1
            lv1: R.Tensor[(n, m), "f32"] = R.call_packed("dot", x, lv0)
            lv2: R.Tensor[(n * m,), "f32"] = R.call_packed("flatten", lv1) ## <= D1
            lv3: R.Shape = (n * m,)  ## <= D1
)";
  const std::string tail = R"(            R.outputs(gv0)
        R.call_packed("custom_inplace_update", gv0)
        return gv0
)";
  const auto found = mistakes(
      head + "            gv0: R.Tensor[lv2, \"f32\"] = R.call_tir(lv2, tir_exp_func, [lv3])\n" + tail);
  ASSERT_EQ(found.size(), 2u);  // a tensor as the shape, and a shape as a tensor
  for (const Diagnostic& d : found) {
    EXPECT_EQ(d.code, "T0232") << render(d);
    EXPECT_EQ(line_of(d), "17");
  }
  EXPECT_EQ(
      mistakes(head + "            gv0: R.Tensor[lv3, \"f32\"] = R.call_tir(lv3, tir_exp_func, [lv3])\n" +
               tail)[0]
          .code,
      "T0232");
  const std::string right =
      head + "            gv0: R.Tensor[lv3, \"f32\"] = R.call_tir(lv3, tir_exp_func, [lv2])\n" + tail;
  const auto none = mistakes(right);
  EXPECT_TRUE(none.empty()) << render(none[0]);
  // match_shape binds, then checks; the text lacks its return.
  const std::string shapes = R"(
@R.function
def shape_example(x: R.Tensor[_, "f32"], y: R.Tensor[_, "f32"]):
    with R.dataflow():
        lv0: R.Tensor[(n, m)] = R.match_shape(x, (n, m))
        lv1: R.Tensor[(n, m)] = R.match_shape(y, (n, m))
        lv2: Shape = R.match_shape(R.call_packed("shape_of", y), (n, m))
)";
  const auto missing = mistakes(shapes);
  ASSERT_EQ(missing.size(), 1u);
  EXPECT_EQ(missing[0].code, "T0241");
  IRModule m = parse_module(shapes + "        R.outputs(lv1)\n    return lv1\n");
  const auto bindings = graph::bindings_of(m.find("shape_example").as<graph::Function>()->body);
  ASSERT_EQ(bindings.size(), 4u);
  EXPECT_TRUE(bindings[3].as<graph::MatchCastNode>()->type.is<graph::ShapeType>());
  EXPECT_EQ(graph::as_tensor(bindings[0].as<graph::MatchCastNode>()->type)->dtype, f32);
  // An opaque shape function and a registered destination-passing function.
  EXPECT_TRUE(mistakes(R"(
@R.function
def shape_example(x: R.Tensor[(n, 2, 2), "f32"]):
    with R.dataflow():
        lv2: R.Shape = (n * 4,)
        lv3: R.Shape = R.call_packed("myshape_func", lv2)
        lv4: R.Tensor[lv3, "f32"] = R.call_tir(lv3, "custom_func", [x])
        lv6: R.Tensor[(m,), "f32"] = R.match_shape(lv4, (m,))
        R.outputs(lv6)
    return lv6
)")
                  .empty());
}

TEST(ParseError, DeepNestingIsRefused) {
  const int n = 100000;
  auto times = [&](const std::string& s) {
    std::string out;
    for (int i = 0; i < n; ++i) out += s;
    return out;
  };
  const std::string head = "@T.prim_func\ndef f(A: T.Buffer((8,), \"float32\"), n: T.int64):\n    ";
  std::string lines;
  for (int i = 0; i < 3000; ++i) lines += std::string(size_t(i) + 4, ' ') + "if n > 1:\n";
  const std::string texts[] = {
      head + "A[0] = " + times("(") + "1.0" + times(")") + "\n",
      head + "A[" + times("A[") + "\n",
      head + "A[0] = " + times("-") + "1.0\n",
      head + "if " + times("not ") + "True:\n        pass\n",
      head + "A[0] = 1.0" + times(" + 1.0") + "\n",
      head + "A[0] = A" + times(".data") + "\n",
      head + "A[0] = " + times("{1:") + "\n",
      head + "A[0] = " + times("lambda: ") + "\n",
      head + "A[0] = 1.0" + times(" if True else 1.0") + "\n",
      head.substr(0, head.size() - 4) + lines,
      head + "A[0] = 2" + times("**2") + "\n",
      head + "if n > 1:\n        pass\n    " + times("elif n > 2:\n        pass\n    ") + "\n",
  };
  for (const std::string& text : texts) {
    const auto found = mistakes(text);
    ASSERT_FALSE(found.empty()) << text.substr(0, 200);
    bool deep = false;
    for (const Diagnostic& d : found) deep = deep || d.code == "T0209";
    EXPECT_TRUE(deep) << text.substr(0, 200) << render(found[0]);
    EXPECT_EQ(found[0].code.substr(0, 3), "T02");
  }
}

TEST(ParseError, ALostBlockHasNoFollowers) {
  std::string text = "@R.function\ndef f(x: R.Tensor((4,), \"float32\"), c: R.Tensor((), \"bool\")):\n";
  for (int i = 0; i < 2000; ++i) text += std::string(size_t(i) + 4, ' ') + "if c:\n";
  text += std::string(2004, ' ') + "y = x\n";
  for (int i = 1999; i >= 0; --i)
    text += std::string(size_t(i) + 4, ' ') + "else:\n" + std::string(size_t(i) + 5, ' ') + "y = x\n";
  const auto found = mistakes(text + "    return y\n");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].code, "T0209");
}

// Damaged text of a correct module is refused or read, and never crashes.
TEST(ParseError, DamagedText) {
  const std::string good = R"(
@I.ir_module
class Module:
    @T.prim_func
    def f(A: T.Buffer((n, 128), "float32"), n: T.int64):
        for i, k in T.grid(16, 128):
            with T.block("rows"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.where(i * 8 < 120)
                A[vi, vk] = T.Select(vi < 3, T.max(A[vi, 0], T.float32(1)), T.float32("inf"))
    @R.function
    def main(x: R.Tensor((n, 4), "float32")) -> R.Tensor((n, 4), "float32"):
        with R.dataflow():
            b: R.Tensor((n,), "float32") = R.call_packed("f", x, R.const([[1, 2]], "int64"), sinfo_args=R.Object)
            R.output(b)
        if b:
            c = b
        else:
            c = x
        return c
)";
  ASSERT_TRUE(mistakes(good).empty());
  std::mt19937 rng(5);
  const std::string letters = "()[]{}:,.=+-*/<>\"'\n\t @#\\0aTR_%";
  for (int i = 0; i < 3000; ++i) {
    std::string bad = good;
    for (int k = int(rng() % 3); k >= 0; --k) {
      const size_t at = rng() % bad.size();
      switch (rng() % 4) {
        case 0:
          bad.erase(at, 1 + rng() % 8);
          break;
        case 1:
          bad[at] = letters[rng() % letters.size()];
          break;
        case 2:
          bad.insert(at, 1, letters[rng() % letters.size()]);
          break;
        default:
          bad.insert(at, bad.substr(rng() % bad.size(), rng() % 30));
          break;
      }
    }
    for (const Diagnostic& d : mistakes(bad)) EXPECT_FALSE(d.code.empty()) << bad;
  }
}

TEST(ParseError, BadJson) {
  const std::string good =
      to_json(parse_module("@T.prim_func\ndef f(A: T.Buffer((8,), \"float32\")):\n    for i in range(8):\n   "
                           "     A[i] = A[i] * T.exp(A[0])\n"));
  std::mt19937 rng(9);
  for (int i = 0; i < 3000; ++i) {
    std::string bad = good;
    const size_t at = rng() % bad.size();
    if (rng() % 2)
      bad.erase(at, 1 + rng() % 12);
    else
      bad[at] = "0123456789{}[],\"ntrul"[rng() % 21];
    try {
      from_json(bad);
    } catch (const Error& e) {
      EXPECT_TRUE(e.code == "T0291" || e.code == "T0401") << e.what() << bad;
    }
  }
}

}  // namespace
}  // namespace tenon
