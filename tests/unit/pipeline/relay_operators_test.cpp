// SPDX-License-Identifier: Apache-2.0
// Relay's operators: names, defaults and orders of operands that differ from ours, compared with definitions
// written here or with the same program in script text.
#include "relay.h"

namespace tenon::graph::testing_graph {
namespace {

std::string of_one(const std::string& type, const std::string& body) {
  return "def @main(%x: Tensor[" + type + ", float32]) {\n" + body + "\n}";
}

TEST(RelayOperators, ASimpleNetwork) {
  const std::vector<NDArray> inputs{random_array({1, 3, 8, 8}, f32, 1), random_array({4, 3, 3, 3}, f32, 2),
                                    random_array({4}, f32, 3),          random_array({4}, f32, 4),
                                    random_array({4}, f32, 5),          array({4}, {1, 2, 0.5, 1}),
                                    random_array({10, 64}, f32, 6),     random_array({10}, f32, 7)};
  expect_same_as(R"(
@R.function
def main(data: R.Tensor((1, 3, 8, 8), "float32"), w: R.Tensor((4, 3, 3, 3), "float32"), g: R.Tensor((4,), "float32"), b: R.Tensor((4,), "float32"), m: R.Tensor((4,), "float32"), v: R.Tensor((4,), "float32"), fc: R.Tensor((10, 64), "float32"), fb: R.Tensor((10,), "float32")):
    c = R.nn.conv2d(data, w, padding=[1, 1, 1, 1])
    n = R.nn.relu(R.nn.batch_norm(c, g, b, m, v, axis=1, epsilon=2e-5))
    p = R.nn.max_pool2d(n, pool_size=[2, 2], strides=[2, 2])
    d = R.add(R.nn.dense(R.reshape(p, (1, 64)), fc), fb)
    return R.nn.softmax(d, axis=-1)
)",
                 std::string(kVersion) + R"(
def @main(%data: Tensor[(1, 3, 8, 8), float32], %w: Tensor[(4, 3, 3, 3), float32], %g: Tensor[(4), float32], %b: Tensor[(4), float32], %m: Tensor[(4), float32], %v: Tensor[(4), float32], %fc: Tensor[(10, 64), float32], %fb: Tensor[(10), float32]) -> Tensor[(1, 10), float32] {
  %0 = nn.conv2d(%data, %w, padding=[1, 1, 1, 1], channels=4, kernel_size=[3, 3]) /* ty=Tensor[(1, 4, 8, 8), float32] */;
  %1 = nn.batch_norm(%0, %g, %b, %m, %v, epsilon=2e-05f) /* ty=(Tensor[(1, 4, 8, 8), float32], Tensor[(4), float32], Tensor[(4), float32]) */;
  %2 = %1.0;  // the others are mean and variance
  %3 = nn.relu(%2);
  %4 = nn.max_pool2d(%3, pool_size=[2, 2], strides=[2, 2], padding=[0, 0, 0, 0]);
  %5 = nn.batch_flatten(%4);
  %6 = nn.dense(%5, %fc, units=10);
  %7 = nn.bias_add(%6, %fb);
  nn.softmax(%7)
})",
                 inputs, 1e-4);
}

TEST(RelayOperators, LayoutsThereAndBack) {
  const std::string plain = R"(
@R.function
def main(x: R.Tensor((1, 6, 6, 4), "float32"), w: R.Tensor((3, 3, 4, 8), "float32")):
    c = R.nn.conv2d(R.permute_dims(x, axes=[0, 3, 1, 2]), R.permute_dims(w, axes=[3, 2, 0, 1]), strides=[2, 2], padding=[1, 1])
    p = R.nn.avg_pool2d(c, pool_size=[2, 2], strides=[1, 1])
    g = R.nn.global_avg_pool(p)
    return (R.permute_dims(p, axes=[0, 2, 3, 1]), R.permute_dims(g, axes=[0, 2, 3, 1]))
)";
  const std::vector<NDArray> inputs{random_array({1, 6, 6, 4}, f32, 1), random_array({3, 3, 4, 8}, f32, 2)};
  const std::string head =
      "def @main(%x: Tensor[(1, 6, 6, 4), float32], %w: Tensor[(3, 3, 4, 8), float32]) {";
  expect_same_as(plain, head + R"(
  %0 = nn.conv2d(%x, %w, strides=[2, 2], padding=[1, 1, 1, 1], channels=8, kernel_size=[3, 3], data_layout="NHWC", kernel_layout="HWIO");
  %1 = nn.avg_pool2d(%0, pool_size=[2, 2], padding=[0, 0, 0, 0], layout="NHWC");
  %2 = nn.global_avg_pool2d(%1, layout="NHWC");
  (%1, %2)
})",
                 inputs, 1e-4);
  // Channels in blocks, as the reference's layout pass writes them.
  expect_same_as(plain, head + R"(
  %0 = layout_transform(%x, src_layout="NHWC", dst_layout="NCHW4c");
  %1 = layout_transform(%w, src_layout="HWIO", dst_layout="OIHW4i8o");
  %2 = nn.contrib_conv2d_NCHWc(%0, %1, strides=[2, 2], padding=[1, 1, 1, 1], channels=8, kernel_size=[3, 3], data_layout="NCHW4c", kernel_layout="OIHW4i8o", out_layout="NCHW8c");
  %3 = layout_transform(%2, src_layout="NCHW8c", dst_layout="NHWC");
  %4 = nn.avg_pool2d(%3, pool_size=[2, 2], layout="NHWC");
  (%4, nn.global_avg_pool2d(%4, layout="NHWC"))
})",
                 inputs, 1e-4);
}

TEST(RelayOperators, NewShapesInShortForm) {
  const IRModule m = relay::import_relay(of_one("(2, 3, 4, 5)", R"(
  (reshape(%x, newshape=[0, -1]), reshape(%x, newshape=[-3, -2]), reshape(%x, newshape=[-4, -1, 2, -2]),
   reshape(%x, newshape=[0, -3, 5]), reshape(%x, newshape=[6, 20]), reshape(%x, newshape=[-1, 0, 0, 0]))
)"));
  std::vector<std::vector<int64_t>> shapes;
  for (const NDArray& a : run(m, {random_array({2, 3, 4, 5})})) shapes.push_back(a.shape());
  EXPECT_EQ(shapes, (std::vector<std::vector<int64_t>>{
                        {2, 60}, {6, 4, 5}, {1, 2, 3, 4, 5}, {2, 12, 5}, {6, 20}, {2, 3, 4, 5}}));
}

TEST(RelayOperators, Reductions) {
  const std::vector<double> x{1, 2, 3, 4, 5, 6};
  expect_numbers(of_one("(2, 3)", R"(
  (sum(%x), mean(%x, axis=[1]), max(%x, axis=[0], exclude=True), min(%x, axis=[-1], keepdims=True),
   cast(argmax(%x, axis=[1]), dtype="float32"), cast(argmin(%x), dtype="float32"), variance(%x, mean(%x, axis=[1], keepdims=True), axis=[1]),
   cumsum(%x, axis=1))
)"),
                 {array({2, 3}, x)}, {21, 2, 5, 3, 6, 1, 4, 2, 2, 0, 2.0 / 3, 2.0 / 3, 1, 3, 6, 4, 9, 15});
}

TEST(RelayOperators, MovingElements) {
  expect_numbers(of_one("(2, 3)", R"(
  %0 = split(%x, indices_or_sections=[1], axis=1);
  %1 = split(%x, indices_or_sections=3, axis=1);
  (transpose(%x, axes=[1, 0]), %0.1, %1.2, strided_slice(%x, begin=[0, 2], end=[2, -4], strides=[1, -1]),
   strided_slice(%x, begin=[1], end=[2], strides=[1], slice_mode="size", axes=[1]), squeeze(expand_dims(%x, axis=-1, num_newaxis=2), axis=[2, 3]),
   concatenate((%x, %x)), repeat(strided_slice(%x, begin=[0, 0], end=[1, 2]), repeats=2, axis=1), reverse(%x, axis=1))
)"),
                 {array({2, 3}, {1, 2, 3, 4, 5, 6})},
                 {1, 4, 2, 5, 3, 6,                                // transpose
                  2, 3, 5, 6, 3, 6,                                // split
                  3, 2, 1, 6, 5, 4,                                // slice
                  2, 3, 5, 6,                                      // by size
                  1, 2, 3, 4, 5, 6,                                // squeeze
                  1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6, 1, 1, 2, 2,  // repeat
                  3, 2, 1, 6, 5, 4});
}

TEST(RelayOperators, PositionsOutsideAreClipped) {
  expect_numbers(R"(
def @main(%x: Tensor[(3, 2), float32], %i: Tensor[(3), int32]) {
  (take(%x, %i, axis=0), take(%x, %i, axis=0, mode="wrap"), take(%x, %i), gather_nd(%x, expand_dims(clip(%i, a_min=0f, a_max=2f), axis=0)))
})",
                 {array({3, 2}, {1, 2, 3, 4, 5, 6}), array({3}, {-1, 1, 9}, i32)},
                 {1, 2, 3, 4, 5, 6, 5, 6, 3, 4, 1, 2, 1, 2, 6, 1, 2, 3, 4, 5, 6});
}

TEST(RelayOperators, MadeTensors) {
  expect_numbers(R"(
def @main(%i: Tensor[(2), int32]) {
  (zeros(shape=[2], dtype="float32"), ones(shape=[1, 2], dtype="int32"), full(7f, shape=[2], dtype="float32"), arange(0, 6, 2, dtype="int32"),
   one_hot(%i, 5f, -1f, depth=3, axis=-1, dtype="float32"), shape_of(%i, dtype="int32"), cast_like(%i, 1f))
})",
                 {array({2}, {2, 0}, i32)}, {0, 0, 1, 1, 7, 7, 0, 2, 4, -1, -1, 5, 5, -1, -1, 2, 2, 0});
}

TEST(RelayOperators, DefaultsOfTheReference) {
  expect_numbers(R"(
def @main(%x: Tensor[(1, 2, 1, 2), float32], %b: Tensor[(2), float32]) {
  (nn.leaky_relu(%x), nn.bias_add(%x, %b), round(%x), nn.prelu(%x, %b))
})",
                 {array({1, 2, 1, 2}, {-1, 2.5, 0.5, -2.5}), array({2}, {10, 20})},
                 {-0.25, 2.5, 0.5, -0.625, 9, 12.5, 20.5, 17.5, -1, 3, 1, -3, -10, 2.5, 0.5, -50});
}

TEST(RelayOperators, OrdersOfElements) {
  expect_numbers(of_one("(2, 3)", R"(
  %0 = topk(%x, k=2, axis=1, dtype="int32");
  (%0.0, cast(%0.1, dtype="float32"), topk(%x, k=1, axis=1, ret_type="values", is_ascend=True), cast(argsort(%x, axis=1, is_ascend=False), dtype="float32"),
   sort(%x, axis=1))
)"),
                 {array({2, 3}, {1, 3, 2, 6, 4, 5})},
                 {3, 2, 6, 5, 1, 2, 0, 2, 1, 4, 1, 2, 0, 0, 2, 1, 1, 2, 3, 4, 5, 6});
}

TEST(RelayOperators, ProductsWithTurnedOperands) {
  expect_numbers(R"(
def @main(%a: Tensor[(2, 2), float32], %b: Tensor[(2, 2), float32]) {
  %0 = expand_dims(%a, axis=0);
  %1 = expand_dims(%b, axis=0);
  (nn.dense(%a, %b), nn.matmul(%a, %b, transpose_b=True), nn.matmul(%a, %b), nn.batch_matmul(%0, %1, transpose_b=True), nn.batch_matmul(%0, %1))
})",
                 {array({2, 2}, {1, 2, 3, 4}), array({2, 2}, {5, 6, 7, 8})},
                 {17, 23, 39, 53, 17, 23, 39, 53, 19, 22, 43, 50, 17, 23, 39, 53, 19, 22, 43, 50});
}

TEST(RelayOperators, ThoseThatGiveTuples) {
  expect_numbers(of_one("(1, 2)", R"(
  %0 = nn.dropout(%x, rate=0.3f);
  add(%0.0, %0.1)
)"),
                 {array({1, 2}, {1, 2})}, {2, 3});
}

TEST(RelayOperators, PaddingAndResizing) {
  expect_numbers(of_one("(1, 1, 1, 2)", R"(
  (nn.pad(%x, 9f, pad_width=[[0, 0], [0, 0], [0, 1], [1, 0]]), nn.upsampling(%x, scale_h=2f, scale_w=2f),
   image.resize2d(%x, size=[1, 4], roi=[0f, 0f, 0f, 0f], method="nearest_neighbor", coordinate_transformation_mode="asymmetric", rounding_method=""))
)"),
                 {array({1, 1, 1, 2}, {1, 2})}, {9, 1, 2, 9, 9, 9, 1, 1, 2, 2, 1, 1, 2, 2, 1, 1, 2, 2});
}

TEST(RelayOperators, AQuantisedNetwork) {
  // conv on numbers that scales and zero points give, in float64.
  const NDArray x = random_array({1, 2, 4, 4}, DataType::uint(8), 1),
                w = random_array({3, 2, 3, 3}, DataType::int_(8), 2);
  const std::vector<NDArray> got = run_relay(R"(
def @main(%x: Tensor[(1, 2, 4, 4), uint8], %w: Tensor[(3, 2, 3, 3), int8]) {
  %0 = qnn.conv2d(%x, %w, 2, 1, 0.5f, 0.25f, padding=[0, 0, 0, 0], channels=3, kernel_size=[3, 3], out_dtype="int32");
  %1 = qnn.requantize(%0, 0.125f, 0, 0.5f, 3, out_dtype="uint8");
  %2 = qnn.dequantize(%1, 0.5f, 3);
  (%0, %1, qnn.quantize(nn.relu(%2), 1f, 0, out_dtype="int8"))
})",
                                             {x, w});
  ASSERT_EQ(got.size(), 3u);
  for (int64_t o = 0; o < 3; ++o)
    for (int64_t i = 0; i < 2; ++i)
      for (int64_t j = 0; j < 2; ++j) {
        int64_t sum = 0;
        for (int64_t c = 0; c < 2; ++c)
          for (int64_t a = 0; a < 3; ++a)
            for (int64_t b = 0; b < 3; ++b)
              sum += (x.element_int(c * 16 + (i + a) * 4 + j + b) - 2) *
                     (w.element_int(o * 18 + c * 9 + a * 3 + b) - 1);
        const int64_t at = o * 4 + i * 2 + j;
        const double narrow = std::clamp(std::nearbyint(double(sum) * 0.25) + 3, 0.0, 255.0);
        EXPECT_EQ(got[0].element_int(at), sum);
        EXPECT_EQ(got[1].element(at), narrow);
        EXPECT_EQ(got[2].element(at),
                  std::clamp(std::nearbyint(std::max((narrow - 3) * 0.5, 0.0)), -128.0, 127.0));
      }
}

TEST(RelayOperators, QuantisedSumsProductsAndConcatenation) {
  expect_numbers(R"(
def @main(%a: Tensor[(1, 2), uint8], %b: Tensor[(1, 2), uint8]) {
  %0 = qnn.add(%a, %b, 0.5f, 0, 0.25f, 4, 0.5f, 1);
  %1 = qnn.mul(%a, %b, 1f, 0, 1f, 0, 2f, 0);
  %2 = qnn.concatenate((%a, %b), (1f, 2f), (0, 0), 1f, 0, axis=1);
  (%0, %1, %2, qnn.dense(%a, %b, 0, 0, 1f, 1f, units=1, out_dtype="int32"))
})",
                 {array({1, 2}, {4, 6}, u8), array({1, 2}, {8, 4}, u8)}, {7, 7, 16, 12, 4, 6, 16, 8, 56});
}

TEST(RelayOperators, SumsOfTheShapeOfAnother) {
  expect_numbers(R"(
def @main(%x: Tensor[(2, 3), float32], %like: Tensor[(1, 3), float32], %row: Tensor[(3), float32]) {
  (collapse_sum_like(%x, %like), collapse_sum_like(%x, %row), broadcast_to_like(%row, %x))
})",
                 {array({2, 3}, {1, 2, 3, 4, 5, 6}), array({1, 3}, {0, 0, 0}), array({3}, {7, 8, 9})},
                 {5, 7, 9, 5, 7, 9, 7, 8, 9, 7, 8, 9});
}

}  // namespace
}  // namespace tenon::graph::testing_graph
