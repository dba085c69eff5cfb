// SPDX-License-Identifier: Apache-2.0
// The reference compiler's spellings of script text: each means what our own text says.
#include <gtest/gtest.h>

#include "ir/structural.h"
#include "ir/text.h"
#include "ir/tir.h"
#include "ir/verify.h"

namespace tenon {
namespace {

std::string indented(const std::string& text, const std::string& by) {
  std::string out = by;
  for (const char c : text) out += c == '\n' ? "\n" + by : std::string(1, c);
  return out;
}

std::string graph(const std::string& body) {
  return "@I.ir_module\nclass Module:\n"
         "    @T.prim_func(private=True)\n"
         "    def copy(a: T.Buffer((4, 6), \"float32\"), b: T.Buffer((4, 6), \"float32\")):\n"
         "        for i, j in T.grid(4, 6):\n"
         "            with T.block(\"b\"):\n"
         "                v, w = T.axis.remap(\"SS\", [i, j])\n"
         "                b[v, w] = a[v, w]\n"
         "    @R.function\n"
         "    def main(x: R.Tensor((4, 6), \"float32\"), y: R.Tensor((\"n\", 6), \"float32\")):\n" +
         indented(body, "        ") + "\n        return z\n";
}

std::string program(const std::string& body) {
  return "@T.prim_func\ndef main(A: T.Buffer((8,), \"float32\"), B: T.Buffer((8,), \"float32\")):\n" +
         indented(body, "    ") + "\n";
}

struct Spelling {
  std::string name, theirs, ours;
};

const Spelling kGraph[] = {
    {"OutputTypesByPlace", "z = R.call_tir(Module.copy, (x,), R.Tensor((4, 6), \"float32\"))",
     "z = R.call_tir(cls.copy, (x,), out_sinfo=R.Tensor((4, 6), \"float32\"))"},
    {"NameOfTheModule", "mod = Module\nz = R.call_tir(mod.copy, (x,), R.Tensor((4, 6), \"float32\"))",
     "z = R.call_tir(cls.copy, (x,), out_sinfo=R.Tensor((4, 6), \"float32\"))"},
    {"PackedTypesByPlace", "z = R.call_dps_packed(\"f\", (x,), R.Tensor((4, 6), \"float32\"))",
     "z = R.call_dps_packed(\"f\", (x,), out_sinfo=R.Tensor((4, 6), \"float32\"))"},
    {"InPlaceIndicesByPlace", "z = R.call_tir_inplace(cls.copy, (x,), [0], R.Tensor((4, 6), \"float32\"))",
     "z = R.call_tir_inplace(cls.copy, (x,), inplace_indices=[0], out_sinfo=R.Tensor((4, 6), \"float32\"))"},
    {"SplitIntoSections", "z = R.split(x, 2, 1)", "z = R.split(x, axis=1, sections=2)"},
    {"SplitAtIndices", "z = R.split(x, indices_or_sections=[2, 3], axis=1)",
     "z = R.split(x, axis=1, indices=[2, 3])"},
    {"Cast", "z = R.astype(x, \"int32\")", "z = R.cast(x, dtype=\"int32\")"},
    {"OneAxisOfAList", "z = R.max(x, axis=0)", "z = R.max(x, axis=[0])"},
    {"NewAxis", "z = R.expand_dims(x, 1)", "z = R.expand_dims(x, axes=[1])"},
    {"Flip", "z = R.flip(x, axis=1)", "z = R.flip(x, axes=[1])"},
    {"Slices", "z = R.strided_slice(x, [0], [1], [3], assume_inbound=False)",
     "z = R.strided_slice(x, axes=[0], begin=[1], end=[3])"},
    {"NamedOperands", "z = R.add(x1=x, x2=x)", "z = R.add(x, x)"},
    {"Comparison", "z = x > x", "z = R.greater(x, x)"},
    {"HowMany", "z = R.topk(x, 2)", "z = R.topk(x, (2,))"},
    {"NoDataType", "z = R.matmul(x, R.permute_dims(x), None)", "z = R.matmul(x, R.permute_dims(x))"},
    {"NamespaceOfOperators", "z = relax.op.add(x, x)", "z = R.add(x, x)"},
    {"SizeOfTheSignature", "n = T.int64()\nz = R.zeros((n, 2), \"float32\")",
     "z = R.zeros((n, 2), \"float32\")"},
    {"SeveralSizes",
     "n, m = T.int64(), T.int64()\nw = R.match_cast(x, R.Tensor((m, 6)))\nz = R.zeros((n, m), \"float32\")",
     "m = T.int64()\nw = R.match_cast(x, R.Tensor((m, 6)))\nz = R.zeros((n, m), \"float32\")"},
};

const Spelling kPrograms[] = {
    {"BufferOfAPointer", "C = T.Buffer((4,), \"float32\", data=A.data)\nC[0] = B[0]",
     "C = T.decl_buffer((4,), \"float32\", data=A.data)\nC[0] = B[0]"},
    {"PointerOfAnAllocation",
     "p = T.allocate([4], \"float32\", \"global\")\nC = T.Buffer((4,), \"float32\", data=p)\nC[0] = B[0]",
     "p = T.allocate([4], \"float32\", scope=\"global\")\nC = T.decl_buffer((4,), \"float32\", "
     "data=p.data)\nC[0] = B[0]"},
    {"SlicesAreVectors", "A[0:4] = B[4:8]", "A[T.Ramp(0, 1, 4)] = B[T.Ramp(4, 1, 4)]"},
    {"ThreadsByPlace", "for i in T.thread_binding(0, 8, \"threadIdx.x\"):\n    A[i] = B[i]",
     "for i in T.thread_binding(8, thread=\"threadIdx.x\"):\n    A[i] = B[i]"},
    {"NameOfAnExpression", "k = T.meta_var(T.int64(3))\nA[k] = B[k]", "A[T.int64(3)] = B[T.int64(3)]"},
    {"ConstantsAsAList", "C = T.allocate_const([1.0, 2.0], \"float32\", [2])\nA[0] = C[1]",
     "C = T.allocate_const(I.ndarray([1.0, 2.0], \"float32\"), (2,), \"float32\")\nA[0] = C[1]"},
    {"WiderIterator",
     "for i in range(8):\n    with T.block(\"b\"):\n        v = T.axis.spatial(T.int32(8), i)\n        A[v] "
     "= B[v]",
     "for i in range(8):\n    with T.block(\"b\"):\n        v = T.axis.spatial(T.int64(T.int32(8)), i)\n     "
     "   A[v] = B[v]"},
};

void same(const std::string& theirs, const std::string& ours) {
  try {
    EXPECT_EQ(first_difference(parse_module(theirs), parse_module(ours)), "") << theirs;
  } catch (const Error& e) {
    ADD_FAILURE() << e.what() << "\n" << theirs << "\n" << ours;
  }
}

class GraphSpelling : public testing::TestWithParam<Spelling> {};
TEST_P(GraphSpelling, MeansOurs) { same(graph(GetParam().theirs), graph(GetParam().ours)); }
class ProgramSpelling : public testing::TestWithParam<Spelling> {};
TEST_P(ProgramSpelling, MeansOurs) { same(program(GetParam().theirs), program(GetParam().ours)); }

std::string name_of(const testing::TestParamInfo<Spelling>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Reference, GraphSpelling, testing::ValuesIn(kGraph), name_of);
INSTANTIATE_TEST_SUITE_P(Reference, ProgramSpelling, testing::ValuesIn(kPrograms), name_of);

TEST(Spelling, WhatChangesTheResultIsRefused) {
  for (const char* body :
       {"z = R.cumsum(x, 0, \"int64\")", "z = R.nn.attention(x, x, x, causal_mask=\"BottomRight\")",
        "z = R.strided_slice(x, [0], [1], [3], assume_inbound=True)"})
    EXPECT_THROW(parse_module(graph(body)), DiagnosticError) << body;
}

TEST(Spelling, ArgumentsThatTheReferencePlacesOtherwiseArePrintedByName) {
  const IRModule m = parse_module(
      "@R.function\ndef main(x: R.Tensor((1, 3, 8, 8), \"float32\"), w: R.Tensor((4, 3, 3, 3), \"float32\"), "
      "p: "
      "R.Tensor((), \"float32\")):\n    y = R.nn.conv2d(x, w, padding_value=p, padding=[1, 1, 1, 1])\n    "
      "return y\n");
  const std::string text = print(m);
  EXPECT_NE(text.find("R.nn.conv2d(x, w, padding_value=p, "), text.npos) << text;
  EXPECT_EQ(first_difference(m, parse_module(text)), "") << text;
}

TEST(Spelling, ProgramsOfTheModuleAreCalled) {
  const std::string head =
      "@I.ir_module\nclass Module:\n    @T.prim_func(private=True)\n    def f(x: T.int32) -> T.int32:\n"
      "        return x + 1\n    @T.prim_func\n    def main(A: T.Buffer((8,), \"int32\")):\n";
  same(head + "        A[0] = Module.f(A[1])\n",
       head + "        A[0] = T.call_prim_func(\"int32\", \"f\", A[1])\n");
  EXPECT_THROW(parse_module(head + "        A[0] = Module.g(A[1])\n"), DiagnosticError);
}

}  // namespace
}  // namespace tenon
