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
    {"SizeByItsName", "n = T.Var(\"n\", \"int64\")\nz = R.zeros((n, 2), \"float32\")",
     "z = R.zeros((n, 2), \"float32\")"},
    {"OutputTypesOfNewerText", "z = R.call_tir(cls.copy, (x,), out_ty=R.Tensor((4, 6), \"float32\"))",
     "z = R.call_tir(cls.copy, (x,), out_sinfo=R.Tensor((4, 6), \"float32\"))"},
    {"PackedTypesOfNewerText", "z = R.call_pure_packed(\"f\", x, ty_args=R.Tensor((4, 6), \"float32\"))",
     "z = R.call_pure_packed(\"f\", x, sinfo_args=R.Tensor((4, 6), \"float32\"))"},
    {"TypeOfAValue", "z = R.call_pure_packed(\"f\", x, sinfo_args=x.struct_info)",
     "z = R.call_pure_packed(\"f\", x, sinfo_args=R.Tensor((4, 6), \"float32\"))"},
    {"CastAsAMethod", "z = x.astype(\"int32\")", "z = R.cast(x, dtype=\"int32\")"},
    {"NumbersAsValues", "z = R.clip(x, R.prim_value(T.float32(0)), R.prim_value(T.float32(6)))",
     "z = R.clip(x, min=0.0, max=6.0)"},
    {"AxesAsValues", "z = R.strided_slice(x, (R.prim_value(0),), (R.prim_value(1),), (R.prim_value(3),))",
     "z = R.strided_slice(x, axes=[0], begin=[1], end=[3])"},
    {"SumInAnotherType", "z = R.cumsum(x, 0, \"float64\")",
     "w = R.cast(x, dtype=\"float64\")\nz = R.cumsum(w, axis=0)"},
    {"PositionsInAnotherType", "z = R.argsort(x, 0, False, \"int64\")",
     "w = R.argsort(x, axis=0, descending=False)\nz = R.cast(w, dtype=\"int64\")"},
    {"ChannelsLast",
     "v = R.reshape(x, (1, 2, 2, 6))\nk = R.reshape(x, (4, 1, 1, 6))\n"
     "z = R.nn.conv2d(data=v, weight=k, data_layout=\"NHWC\", kernel_layout=\"OHWI\", out_layout=None)",
     "v = R.reshape(x, (1, 2, 2, 6))\nk = R.reshape(x, (4, 1, 1, 6))\n"
     "z = R.nn.conv2d(v, k, data_layout=\"NHWC\", kernel_layout=\"OHWI\")"},
    {"ResultInTheUsualLayout",
     "v = R.reshape(x, (1, 2, 2, 6))\n"
     "z = R.nn.adaptive_avg_pool2d(v, (1, 1), layout=\"NHWC\", out_layout=\"NCHW\")",
     "v = R.reshape(x, (1, 2, 2, 6))\n"
     "z = R.nn.adaptive_avg_pool(v, output_size=[1, 1], layout=\"NHWC\", out_layout=\"NCHW\")"},
    {"BlocksByAMap", "z = R.layout_transform(x, index_map=lambda i, j: (i, j // 2, j % 2), pad_value=None)",
     "z = R.layout_transform(x, src_layout=\"AB\", dst_layout=\"AB2b\")"},
    {"BlocksMadeOne", "z = R.layout_transform(x, index_map=T.index_map(lambda i, j: (i * 6 + j,)))",
     "z = R.layout_transform(x, src_layout=\"A6a\", dst_layout=\"A\")"},
    {"PositionInAll", "z = R.argmax(x, axis=None, keepdims=False)", "z = R.argmax(x, flat=True)"},
    {"PositionInAllByDefault", "z = R.argmin(x)", "z = R.argmin(x, flat=True)"},
    {"PositionInAllThatKeepsAxes", "z = R.argmax(x, None, True)",
     "w = R.argmax(x, flat=True)\nz = R.reshape(w, (1, 1))"},
    {"NumbersOfAProgram", "z = R.call_tir(cls.copy, (x, 3), out_sinfo=R.Tensor((4, 6), \"float32\"))",
     "z = R.call_tir(cls.copy, (x,), out_sinfo=R.Tensor((4, 6), \"float32\"), tir_vars=R.shape([3]))"},
    {"OneDimension", "z = R.flatten(x)", "z = R.reshape(x, (-1,))"},
    {"ProductOfMatrices", "z = R.dot(x, R.zeros((6, 2), \"float32\"))",
     "z = R.matmul(x, R.zeros((6, 2), \"float32\"))"},
    {"NameWithoutItsPrefix", "z = R.leaky_relu(x)", "z = R.nn.leaky_relu(x)"},
    {"NumberAsATensor", "z = R.add(x, R.prim_value(T.float32(2)))", "z = R.add(x, R.const(2, \"float32\"))"},
    {"AxesBehindTheChannels",
     "v = R.reshape(x, (1, 6, 4))\ng = R.ones((6,), \"float32\")\nw: R.Tensor((1, 6, 4), \"float32\") = v\n"
     "z = R.nn.group_norm(w, g, g, num_groups=2, channel_axis=1, axes=[2])",
     "v = R.reshape(x, (1, 6, 4))\ng = R.ones((6,), \"float32\")\nw: R.Tensor((1, 6, 4), \"float32\") = v\n"
     "z = R.nn.group_norm(w, g, g, num_groups=2, channel_axis=1)"},
    {"ClosureWithATupleOfArguments",
     "f = R.make_closure(cls.main, (x,))\nz = R.invoke_pure_closure(f, (y,), sinfo_args=R.Object)",
     "f = R.make_closure(cls.main, x)\nz = f(y, sinfo_args=R.Object)"},
    {"BatchNormWithWhatItKeeps",
     "g = R.ones((6,), \"float32\")\nt = R.nn.batch_norm(x, g, g, g, g, axis=1, momentum=0.1)\nz = t[0]",
     "g = R.ones((6,), \"float32\")\ny1 = R.nn.batch_norm(x, g, g, g, g, axis=1)\nt = (y1, g, g)\nz = t[0]"},
    {"DropoutByItsItem", "t = R.nn.dropout(x, rate=0.5)\nz = R.add(t[0], x)",
     "t = R.nn.dropout(x, rate=0.5)\nz = R.add(t, x)"},
    {"DropoutWithItsMask",
     "t: R.Tuple(R.Tensor((4, 6), \"float32\"), R.Tensor((4, 6), \"float32\")) = R.nn.dropout(x, 0.5)\nz = "
     "t[1]",
     "y1 = R.nn.dropout(x, rate=0.5)\ny2 = R.ones_like(y1)\nt: R.Tuple(R.Tensor((4, 6), \"float32\"), "
     "R.Tensor((4, 6), \"float32\")) = (y1, y2)\nz = t[1]"},
    {"BatchNormByItsItems",
     "g = R.ones((6,), \"float32\")\nt = R.nn.batch_norm(x, g, g, g, g, axis=1)\nz = R.add(t[0], t[1])",
     "g = R.ones((6,), \"float32\")\nt = R.nn.batch_norm(x, g, g, g, g, axis=1)\nz = R.add(t, g)"},
    {"Device", "z = R.to_vdevice(x, \"llvm:0\")", "z = R.to_device(x, device=\"cpu:0\")"},
    {"WishForADevice", "z = R.hint_on_device(x, tvm.cpu(1))", "z = R.hint_on_device(x, device=\"cpu:1\")"},
    {"ViewOfBytes", "z = R.memory.view(x, [12], \"float64\", 0)",
     "z = R.memory.view(x, shape=R.shape([12]), offset=R.prim_value(0), dtype=\"float64\")"},
    {"WhatAProgramSays", "R.print(x, format=\"x: {}\")\nz = x",
     "_ = R.call_packed(\"tenon.program.print\", R.str(\"x: {}\"), x, sinfo_args=R.Tuple())\nz = x"},
    {"WhatAProgramChecks", "_ = R.assert_op(R.const(True, \"bool\"), x, format=\"x: {}\")\nz = x",
     "_ = R.call_packed(\"tenon.program.assert\", R.str(\"x: {}\"), R.const(True, \"bool\"), x, "
     "sinfo_args=R.Tuple())\nz = x"},
    {"Nothing", "z = R.null_value()", "z = R.call_pure_packed(\"tenon.program.null\", sinfo_args=R.Object)"},
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
    {"FunctionsByOtherNames", "A[0] = T.fabs(T.Mul(B[0], B[1]))", "A[0] = T.abs(B[0] * B[1])"},
    {"ComparisonsByName", "A[0] = T.Select(T.LT(B[0], B[1]), B[0], B[1])",
     "A[0] = T.Select(B[0] < B[1], B[0], B[1])"},
    {"OneNameForAllLoops",
     "for i in T.grid(2, 4):\n    with T.block(\"b\"):\n        v, w = T.axis.remap(\"SS\", i)\n        "
     "A[v * 4 + w] = B[v * 4 + w]",
     "for i, j in T.grid(2, 4):\n    with T.block(\"b\"):\n        v, w = T.axis.remap(\"SS\", [i, j])\n     "
     "   "
     "A[v * 4 + w] = B[v * 4 + w]"},
    {"ExtentsOfABuffer", "for i in T.grid(*A.shape):\n    A[i] = B[i]",
     "for i in T.grid(8):\n    A[i] = B[i]"},
    {"Steps", "for i in range(1, 8, 3):\n    A[i] = B[i]",
     "for j in range(3):\n    i: T.int64 = 1 + j * 3\n    A[i] = B[i]"},
    {"ValueOfNewerText", "x: T.let[T.float32] = B[0]\nA[0] = x", "x: T.float32 = B[0]\nA[0] = x"},
    {"ValueBoundToAName", "x = T.bind(B[0])\nA[0] = x", "x: T.float32 = B[0]\nA[0] = x"},
    {"MemoryInALoop",
     "for i in range(8):\n    C = T.alloc_buffer((1,), \"float32\")\n    C[0] = B[i]\n    A[i] = C[0]",
     "for i in range(8):\n    C = T.allocate((1,), \"float32\")\n    C[0] = B[i]\n    A[i] = C[0]"},
    {"StoresConvert", "for i in range(8):\n    A[i] = i",
     "for i in range(8):\n    A[i] = T.cast(i, \"float32\")"},
    {"MessageInParts", "assert A[0] < B[0], (\"ValueError\", [\"not \", \"so\"])",
     "assert A[0] < B[0], \"ValueError: not so\""},
    {"DeviceCallsByName", "T.ptx_wait_group(0, dtype=\"\")",
     "T.evaluate(T.call(\"tir.ptx_wait_group\", 0, dtype=\"\"))"},
    {"DeviceCallsWithTheirTypeInFront", "A[0] = T.tvm_warp_shuffle(\"float32\", 1, B[0], 2, 32, 32)",
     "A[0] = T.call(\"tir.tvm_warp_shuffle\", 1, B[0], 2, 32, 32, dtype=\"float32\")"},
    {"PointerToAPart", "T.evaluate(A.access_ptr(\"rw\", offset=2))",
     "T.evaluate(T.call(\"tir.access_ptr\", A[0], 2, 6, T.int32(3), dtype=\"handle\"))"},
    {"PointerToAPartOfData", "T.evaluate(T.tvm_access_ptr(T.type_annotation(\"float32\"), A.data, 2, 6, 1))",
     "T.evaluate(A.access_ptr(\"r\", offset=2, extent=6))"},
    {"Jumps",
     "for i in range(8):\n    if A[i] > B[0]:\n        T.break_loop()\n    "
     "T.evaluate(T.continue_loop())\nT.ret(0)",
     "for i in range(8):\n    if A[i] > B[0]:\n        break\n    continue\nreturn 0"},
    {"IntrinsicsOfLlvmThatAreOurs",
     "A[0] = T.call_llvm_pure_intrin(\"float32\", \"llvm.sqrt.f32\", T.uint32(1), B[0])",
     "A[0] = T.sqrt(B[0])"},
    {"CastOfAnExpression", "A[0] = (B[0] + B[1]).astype(\"int32\")",
     "A[0] = T.cast(T.cast(B[0] + B[1], \"int32\"), \"float32\")"},
    {"PointersOfATypeInAnnotations", "p: T.Ptr[T.float32] = T.address_of(B[0])\nT.evaluate(p)",
     "p: T.handle = T.address_of(B[0])\nT.evaluate(p)"},
    {"ThreadsByTheirTag", "t = T.env_thread(\"threadIdx.x\")\nT.launch_thread(t, 8)\nA[t] = B[t]",
     "t = T.launch_thread(\"threadIdx.x\", 8)\nA[t] = B[t]"},
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
       {"z = R.nn.attention(x, x, x, causal_mask=\"BottomRight\")",
        "z = R.strided_slice(x, [0], [1], [3], assume_inbound=True)",
        "z = R.layout_transform(x, index_map=lambda i, j: (i + j,))",
        "v = R.call_pure_packed(\"f\", x, sinfo_args=R.Tensor(dtype=\"float32\"))\nz = R.argmax(v, "
        "axis=None, keepdims=True)",
        "z = R.nn.group_norm(x, x, x, num_groups=2, channel_axis=0, axes=[0])",
        "z = R.layout_transform(x, index_map=lambda i, j: (j, i // 4, i % 2))",
        "z = R.layout_transform(x, index_map=lambda i, j: (i, j // 2, j % 2), pad_value=1.0)",
        "z = R.take(x, R.const([0], \"int64\"), axis=0, mode=\"wrap\")",
        "z = R.nn.batch_norm(x, x, x, x, x, axis=1, training=True)"})
    EXPECT_THROW(parse_module(graph(body)), DiagnosticError) << body;
}

TEST(Spelling, DialectsThatAreNotReadAreRefusedByName) {
  auto code = [](const std::string& text) {
    try {
      parse_module(text);
    } catch (const DiagnosticError& e) {
      return e.diagnostics[0].code + " " + e.diagnostics[0].message;
    }
    return std::string();
  };
  EXPECT_NE(code(graph("z = R.dist.redistribute(x, \"mesh[0]\", \"S[1]\")")).find("distributed dialect"),
            std::string::npos);
  EXPECT_NE(code(program("T.device_entry()")).find("thread-tile dialect"), std::string::npos);
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
