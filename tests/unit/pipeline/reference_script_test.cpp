// SPDX-License-Identifier: Apache-2.0
// Programs as the reference compiler's script writes them, run by the interpreter and by the VM's code; what
// they give is written down here.
#include "graph_language.h"

namespace tenon::graph::testing_graph {
namespace {

TEST_F(Graph, ChannelsLastAsTheReferenceWritesIt) {
  // One pixel of two channels by a kernel of one output: 1 * 10 + 2 * 20, and 3 * 10 + 4 * 20.
  expect_value(R"(
    @R.function
    def main(x: R.Tensor((4,), "float32"), k: R.Tensor((2,), "float32")):
        with R.dataflow():
            image: R.Tensor((1, 1, 2, 2), "float32") = R.reshape(x, R.shape([1, 1, 2, 2]))
            weight: R.Tensor((1, 1, 1, 2), "float32") = R.reshape(k, R.shape([1, 1, 1, 2]))
            gv: R.Tensor((1, 1, 2, 1), "float32") = R.nn.conv2d(image, weight, data_layout="NHWC", kernel_layout="OHWI", out_layout="NHWC")
            R.output(gv)
        return gv
)",
               {vector({1, 2, 3, 4}), vector({10, 20})}, {50, 110});
}

TEST_F(Graph, ViewOfBytesFromOneOn) {
  expect_value(R"(
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        y: R.Tensor((2, 1), "float32") = R.memory.view(x, [2, 1], relative_byte_offset=R.prim_value(8))
        return y
)",
               {vector({1, 2, 3, 4})}, {3, 4});
}

TEST_F(Graph, ViewOfATensorOfUnknownRankIsRefused) {
  EXPECT_EQ(compile_error(R"(
    @R.function
    def main(x: R.Tensor, offset: R.Prim("int64")):
        y = R.memory.view(x, relative_byte_offset=offset)
        return y
)")
                .substr(0, 5),
            "T0811");
}

TEST_F(Graph, ClosuresOfATupleOfWhatTheyCapture) {
  const IRModule m = module(R"(
    @R.function
    def sum(a: R.Tensor((3,), "float32"), x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        return R.add(a, x)
    @R.function
    def twice(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        return R.add(x, x)
    @R.function
    def main(x: R.Tensor((3,), "float32")):
        f = R.make_closure(cls.sum, (x,))
        y = R.invoke_closure(f, (x,), sinfo_args=R.Tensor((3,), "float32"))
        g = R.make_closure(cls.twice, ())
        z = R.invoke_pure_closure(g, (y,), sinfo_args=R.Tensor((3,), "float32"))
        return z
)");
  const std::vector<NDArray> got = expect_vm_agrees(m, {vector({1, 2, 3})});
  ASSERT_EQ(got.size(), 1u);
  for (int64_t k = 0; k < 3; ++k) EXPECT_EQ(got[0].element(k), 4 * (k + 1));
  EXPECT_EQ(compile_error(R"(
    @R.function
    def twice(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        return R.add(x, x)
    @R.function
    def main(x: R.Tensor((3,), "float32")):
        g = R.make_closure(cls.twice, (x, x))
        z = R.invoke_pure_closure(g, (x,), sinfo_args=R.Tensor((3,), "float32"))
        return z
)")
                .substr(0, 5),
            "T0325");
}

// A match_cast that says no element type is one of the value's.
TEST_F(Graph, MatchCastKeepsTheElementType) {
  expect_value(R"(
    @R.function
    def main(x: R.Tensor(dtype="float32", ndim=1)):
        n = T.int64()
        y = R.match_cast(x, R.Tensor((n,)))
        z = R.add(y, y)
        return z
)",
               {vector({1, 2, 3})}, {2, 4, 6});
}

TEST_F(Graph, ALineBecomesBlocksAndComesBack) {
  expect_value(R"(
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        y: R.Tensor((2, 2), "float32") = R.layout_transform(x, index_map=lambda i: (i // 2, i % 2))
        z: R.Tensor((2, 2), "float32") = R.add(y, y)
        w: R.Tensor((4,), "float32") = R.layout_transform(z, index_map=lambda i, j: (i * 2 + j,))
        return w
)",
               {vector({1, 2, 3, 4})}, {2, 4, 6, 8});
}

// An attribute may be written as a value of tensor programs.
TEST_F(Graph, AttributesWrittenAsTypedTruth) {
  expect_value(R"(
    @T.prim_func
    def twice(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        for i in range(4):
            with T.block("y"):
                v = T.axis.spatial(4, i)
                y[v] = x[v] * T.float32(2)
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        y = R.call_tir(cls.twice, (x,), R.Tensor((4,), "float32"))
        return y
)",
               {vector({1, 2, 3, 4})}, {2, 4, 6, 8});
}

TEST_F(Graph, SumsInAnotherTypeAndPositionsOfAll) {
  expect_value(R"(
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        whole = R.cumsum(R.astype(x, "int8"), axis=0, dtype="int32")
        most = R.argmax(R.reshape(x, (2, 2)), axis=None)
        return (R.astype(whole, "float32"), R.astype(most, "float32"))
)",
               {vector({100, 101, 102, 3})}, {100, 201, 303, 306, 2});
}

TEST_F(Graph, BatchNormGivesWhatItKeeps) {
  expect_value(R"(
    @R.function
    def main(x: R.Tensor((1, 2), "float32"), mean: R.Tensor((2,), "float32")):
        one: R.Tensor((2,), "float32") = R.ones((2,), "float32")
        zero: R.Tensor((2,), "float32") = R.zeros((2,), "float32")
        all: R.Tuple(R.Tensor((1, 2), "float32"), R.Tensor((2,), "float32"), R.Tensor((2,), "float32")) = R.nn.batch_norm(x, one, zero, mean, one, axis=1, epsilon=0.0, momentum=0.1)
        return (all[0], all[1])
)",
               {NDArray::from_bytes({1, 2}, f32, std::vector<float>{5, 7}.data(), 8), vector({1, 2})},
               {4, 5, 1, 2});
}

TEST_F(Graph, FixedPointProducts) {
  expect_value(R"(
    @T.prim_func(private=True)
    def scaled(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            B[i] = T.cast(T.q_multiply_shift(T.cast(A[i], "int32"), 1963325822, 31, 1, dtype="int32"), "float32")

    @R.function
    def main(x: R.Tensor((4,), "float32")):
        y = R.call_tir(cls.scaled, (x,), out_ty=R.Tensor((4,), "float32"))
        return y
)",
               {vector({10, -7, 100, 3})}, {18, -13, 183, 5});
}

TEST_F(Graph, DifferentValuesAreAsManyAsTheDataHave) {
  expect_value(R"(
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        with R.dataflow():
            lv: R.Tensor(dtype="float32") = R.unique(x)
            lv1: R.Tensor(("m",), "float32") = R.match_shape(lv, ("m",))
            gv: R.Tensor(("m",), "float32") = R.add(lv1, lv1)
            R.output(gv)
        return gv
)",
               {vector({3, 1, 3, 2, 1})}, {2, 4, 6});
}

constexpr const char* kChecked = R"(
    @R.function(pure=False)
    def main(x: R.Tensor((), "float32")):
        R.print(x, format="x is {}")
        _ = R.assert_op(R.less(x, R.const(3, "float32")), x, format="x is too large: {}")
        return R.add(x, x)
)";

TEST_F(Graph, AProgramSaysAndChecks) {
  testing::internal::CaptureStdout();
  expect_value(kChecked, {number(2)}, {4});
  EXPECT_NE(testing::internal::GetCapturedStdout().find("x is 2\n"), std::string::npos);
  const IRModule m = module(kChecked);
  EXPECT_EQ(run_error([&] { run(m, {number(5)}); }), "T0523");
}

TEST_F(Graph, FunctionsThatFillTensorsTakeShapesAndNumbers) {
  registry::add("test.reference.fill", tenon::Function([](Arguments a) -> Any {
                  const auto out = a[3].as<NDArray>();
                  const auto shape = a[1].as<tenon::Shape>();
                  auto* to = static_cast<float*>(out.data());
                  for (int64_t i = 0; i < out.size(); ++i)
                    to[i] = float(shape->dims[0] * 10 + a[2].as<int64_t>());
                  return {};
                }),
                true);
  expect_value(R"(
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        y = R.call_dps_packed("test.reference.fill", (x, R.shape([4]), R.prim_value(2)), out_sinfo=R.Tensor((2,), "float32"))
        return R.add(x, y)
)",
               {vector({1, 2})}, {43, 44});
}

TEST_F(Graph, ATupleIsNoTensorForAProgram) {
  const IRModule m = module(R"(
    @T.prim_func
    def twice(x: T.Buffer((2,), "float32"), y: T.Buffer((2,), "float32")):
        for i in range(2):
            y[i] = x[i] * T.float32(2)
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        y = R.call_tir(cls.twice, ((x,),), R.Tensor((2,), "float32"))
        return y
)");
  EXPECT_EQ(run_error([&] { interpret(m, "main", {vector({1, 2})}); }), "T0353");
}

}  // namespace
}  // namespace tenon::graph::testing_graph
