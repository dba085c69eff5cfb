// SPDX-License-Identifier: Apache-2.0
// Bad files of numbers that do not fit: sizes that overflow, quantised blocks, absurd attributes.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "hostile_models.h"

namespace tenon {
namespace {

using namespace test;

std::vector<HostileFile> sizes() {
  Cases c;
  const auto add = [&](const std::string& name, const std::string& code, const std::string& part,
                       const Msg& n, std::vector<Msg> given = {}) {
    c.add("size_" + name, code, part, of({n}, std::move(given)));
  };
  // What the importer refuses, and what the type rule of the operator does.
  const auto absurd = [&](const std::string& name, const Msg& n, std::vector<Msg> given = {}) {
    add(name, "T20", "here", n, std::move(given));
  };
  const auto untyped = [&](const std::string& name, const Msg& n, std::vector<Msg> given = {}) {
    add(name, "T1101", "here", n, std::move(given));
  };
  const Msg image = floats("im", {1, 1, 2, 2}, {1, 2, 3, 4}),
            kernel = floats("k", {1, 1, 2, 2}, {1, 2, 3, 4});
  absurd("one_hot", here("OneHot", {"i", "d", "f"}), {ints("d", {}, {kBig}), floats("f", {2}, {0, 1})});
  absurd("one_hot_negative", here("OneHot", {"i", "d", "f"}),
         {ints("d", {}, {-1}), floats("f", {2}, {0, 1})});
  absurd("pad", here("Pad", {"x", "p"}), {ints("p", {4}, {kBig, kBig, 0, 0})});
  untyped("pad_negative", here("Pad", {"x", "p"}), {ints("p", {4}, {-kBig, 0, 0, 0})});
  absurd("resize", here("Resize", {"x", "", "", "s"}), {ints("s", {2}, {kBig, kBig})});
  absurd("resize_negative", here("Resize", {"x", "", "", "s"}), {ints("s", {2}, {-1, 3})});
  absurd("resize_scale", here("Resize", {"x", "", "s"}), {floats("s", {2}, {1e30f, 1})});
  absurd("resize_nan", here("Resize", {"x", "", "s"}), {floats("s", {2}, {NAN, 1})});
  absurd("resize_least", here("Resize", {"x", "", "s"}), {floats("s", {2}, {1e-45f, -1})});
  absurd("conv_transpose", here("ConvTranspose", {"im", "k"}, {attr_ints("strides", {kBig, kBig})}),
         {image, kernel});
  absurd("conv_transpose_output",
         here("ConvTranspose", {"im", "k"}, {attr_ints("output_shape", {kBig, kBig})}), {image, kernel});
  absurd("conv_dilation", here("Conv", {"im", "k"}, {attr_ints("dilations", {INT64_MAX, INT64_MAX})}),
         {image, kernel});
  absurd("conv_pads",
         here("Conv", {"im", "k"}, {attr_ints("pads", {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX})}),
         {image, kernel});
  absurd("conv_group", here("Conv", {"im", "k"}, {attr_i("group", INT64_MIN)}), {image, kernel});
  absurd("pool_kernel", here("MaxPool", {"im"}, {attr_ints("kernel_shape", {INT64_MAX, INT64_MAX})}),
         {image});
  absurd("pool_pads",
         here("AveragePool", {"im"},
              {attr_ints("kernel_shape", {kBig, kBig}),
               attr_ints("pads", {kBig - 1, kBig - 1, kBig - 1, kBig - 1})}),
         {image});
  absurd("unpool", here("MaxUnpool", {"im", "ix", "s"}, {attr_ints("kernel_shape", {2, 2})}),
         {image, ints("ix", {1, 1, 2, 2}, {0, 1, 2, 3}), ints("s", {4}, {1, 1, kBig, kBig})});
  absurd("unpool_strides",
         here("MaxUnpool", {"im", "ix"},
              {attr_ints("kernel_shape", {kBig, kBig}), attr_ints("strides", {kBig, kBig})}),
         {image, ints("ix", {1, 1, 2, 2}, {0, 1, 2, 3})});
  absurd("depth_to_space", here("DepthToSpace", {"im"}, {attr_i("blocksize", int64_t(1) << 32)}), {image});
  absurd("space_to_depth", here("SpaceToDepth", {"im"}, {attr_i("blocksize", int64_t(1) << 32)}), {image});
  untyped("col2im", here("Col2Im", {"c", "s", "bs"}),
          {floats("c", {1, 4, 1}, {1, 2, 3, 4}), ints("s", {2}, {kBig, kBig}), ints("bs", {2}, {2, 2})});
  absurd("window", here("HannWindow", {"s"}), {ints("s", {}, {kBig})});
  absurd("window_negative", here("BlackmanWindow", {"s"}), {ints("s", {}, {-5})});
  untyped("mel", here("MelWeightMatrix", {"s", "s", "s", "f", "f"}),
          {ints("s", {}, {int64_t(1) << 31}), floats("f", {}, {1})});
  absurd("affine_grid", here("AffineGrid", {"th", "s"}),
         {floats("th", {1, 2, 3}, {1, 0, 0, 0, 1, 0}), ints("s", {4}, {1, 1, kBig, kBig})});
  absurd("split", node("Split", {"v"}, {"y"}, {attr_i("num_outputs", kBig)}, "here"));
  absurd("split_sum", node("Split", {"v", "s"}, {"y", "z"}, {}, "here"),
         {ints("s", {2}, {INT64_MAX, 5 - INT64_MAX})});
  absurd("split_negative", node("Split", {"v", "s"}, {"y", "z"}, {}, "here"), {ints("s", {2}, {-1, 5})});
  untyped("reshape", here("Reshape", {"x", "s"}), {ints("s", {3}, {INT64_MAX, 2, 3})});
  untyped("reshape_wraps", here("Reshape", {"x", "s"}), {ints("s", {3}, {int64_t(1) << 62, 4, 6})});
  absurd("expand_wraps", here("Expand", {"x", "s"}), {ints("s", {4}, {int64_t(1) << 62, 4, 2, 3})});
  absurd("tile_wraps", here("Tile", {"x", "s"}), {ints("s", {2}, {int64_t(1) << 62, int64_t(1) << 62})});
  absurd("tile_negative", here("Tile", {"x", "s"}), {ints("s", {2}, {-1, 1})});
  absurd("unsqueeze", here("Unsqueeze", {"x", "s"}), {ints("s", {1}, {INT64_MIN})});
  untyped("top_k", node("TopK", {"x", "s"}, {"y", "z"}, {}, "here"), {ints("s", {1}, {INT64_MAX})});
  untyped("top_k_negative", node("TopK", {"x", "s"}, {"y", "z"}, {}, "here"), {ints("s", {1}, {-1})});
  untyped("range_step", here("Range", {"a", "e", "d"}),
          {ints("a", {}, {INT64_MIN}), ints("e", {}, {INT64_MAX}), ints("d", {}, {1})});
  untyped("range_zero", here("Range", {"a", "e", "d"}),
          {ints("a", {}, {0}), ints("e", {}, {5}), ints("d", {}, {0})});
  untyped("range_nan", here("Range", {"a", "e", "d"}),
          {floats("a", {}, {0}), floats("e", {}, {NAN}), floats("d", {}, {1})});
  untyped("range_tiny", here("Range", {"a", "e", "d"}),
          {floats("a", {}, {0}), floats("e", {}, {1e30f}), floats("d", {}, {1e-30f})});
  absurd("multinomial", here("Multinomial", {"x"}, {attr_i("sample_size", kBig)}));
  untyped("multinomial_negative", here("Multinomial", {"x"}, {attr_i("sample_size", -1)}));
  absurd("random", here("RandomNormal", {}, {attr_ints("shape", {INT64_MAX, 2})}));
  absurd("random_negative", here("RandomUniform", {}, {attr_ints("shape", {-1})}));
  add("eye", "T2102", "here", here("EyeLike", {"x"}, {attr_i("k", INT64_MIN), attr_i("dtype", 99)}));
  absurd("roi_pool",
         here("MaxRoiPool", {"im", "r"}, {attr_ints("pooled_shape", {int64_t(1) << 31, int64_t(1) << 31})}),
         {image, floats("r", {1, 5}, {0, 0, 0, 1, 1})});
  absurd("roi_align",
         here("RoiAlign", {"im", "r", "bi"}, {attr_i("output_height", kBig), attr_i("output_width", kBig)}),
         {image, floats("r", {1, 4}, {0, 0, 1, 1}), ints("bi", {1}, {0})});
  untyped("roi_samples", here("RoiAlign", {"im", "r", "bi"}, {attr_i("sampling_ratio", kBig)}),
          {image, floats("r", {1, 4}, {0, 0, 1, 1}), ints("bi", {1}, {0})});
  untyped("stft", here("STFT", {"sg", "st", "", "fl"}),
          {floats("sg", {1, 4, 1}, {1, 2, 3, 4}), ints("st", {}, {0}), ints("fl", {}, {2})});
  untyped("frames", here("STFT", {"sg", "st", "", "fl"}),
          {floats("sg", {1, 4, 1}, {1, 2, 3, 4}), ints("st", {}, {1}), ints("fl", {}, {kBig})});
  absurd("crop", here("CropAndResize", {"im", "r", "bi", "s"}, {}, "com.microsoft"),
         {image, floats("r", {1, 4}, {0, 0, 1, 1}), tensor_head("bi", INT32, {1}).i(5, 0),
          ints("s", {2}, {kBig, kBig})});
  absurd("trees",
         here("TreeEnsemble", {"x"},
              {attr_i("n_targets", kBig), attr_ints("tree_roots", {0}), attr_ints("nodes_featureids", {0}),
               attr_ints("nodes_truenodeids", {0}), attr_ints("nodes_falsenodeids", {0}),
               attr_ints("nodes_trueleafs", {1}), attr_ints("nodes_falseleafs", {1}),
               attr_ints("leaf_targetids", {0}), attr_t("nodes_splits", floats("", {1}, {1})),
               attr_t("leaf_weights", floats("", {1}, {1})),
               attr_t("nodes_modes", tensor_head("", UINT8, {1}).s(9, std::string(1, '\0')))},
              "ai.onnx.ml"));
  return c.all;
}

std::vector<HostileFile> blocks() {
  Cases c;
  const auto add = [&](const std::string& name, const Msg& n, std::vector<Msg> given,
                       const std::string& part = "here") {
    c.add("blocks_" + name, "T", part, of({n}, std::move(given)));
  };
  const auto bytes = [](const std::string& name, const std::vector<int64_t>& dims, int elem = UINT8) {
    int64_t n = 1;
    for (int64_t d : dims) n *= d;
    return tensor_head(name, elem, dims).s(9, std::string(size_t(n), '\1'));
  };
  const auto scales = [](const std::vector<int64_t>& dims) {
    int64_t n = 1;
    for (int64_t d : dims) n *= d;
    return floats("s", dims, std::vector<float>(size_t(n), 0.5f));
  };
  const auto dequantize = [&](const std::string& name, int64_t block, const std::vector<int64_t>& dims,
                              int64_t axis = 1) {
    for (const char* op : {"DequantizeLinear", "QuantizeLinear"})
      add(name + (op[0] == 'D' ? "" : "_of_floats"),
          here(op, {op[0] == 'D' ? "q" : "w", "s"}, {attr_i("block_size", block), attr_i("axis", axis)}),
          {scales(dims), floats("w", {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8})});
  };
  dequantize("negative", -2, {2, 2});
  dequantize("least", INT64_MIN, {2, 2});
  dequantize("largest", INT64_MAX, {2, 2});
  dequantize("of_three", 3, {2, 3});
  dequantize("too_few", 2, {2, 1});
  dequantize("too_many", 2, {2, 4});
  dequantize("of_other_rows", 2, {3, 2});
  dequantize("of_another_rank", 2, {2});
  dequantize("axis_behind", 2, {2, 2}, 2);
  dequantize("axis_least", 2, {2, 2}, INT64_MIN);
  dequantize("scales_of_an_axis", 0, {3});
  add("zero_of_another_size", here("DequantizeLinear", {"q", "s", "z"}, {attr_i("axis", 1)}),
      {scales({4}), bytes("z", {3})});
  add("zero_of_another_type", here("DequantizeLinear", {"q", "s", "z"}), {scales({}), bytes("z", {}, INT8)});
  add("scale_of_integers", here("DequantizeLinear", {"q", "s"}), {ints("s", {}, {1})});
  add("of_floats", here("DequantizeLinear", {"x", "s"}), {scales({})});
  add("to_an_absurd_type", here("QuantizeLinear", {"x", "s"}, {attr_i("output_dtype", 8)}), {scales({})});
  add("to_int32", here("QuantizeLinear", {"x", "s", "z"}), {scales({}), ints("z", {}, {3})});
  add("to_wide_zero", here("QuantizeLinear", {"x", "s", "z"}),
      {scales({}), tensor_head("z", INT32, {}).s(9, std::string(4, '\0'))});
  add("scale_of_doubles", here("DequantizeLinear", {"q", "s"}),
      {tensor_head("s", DOUBLE, {}).s(9, std::string("\0\0\0\0\0\0\xe0\x3f", 8))});
  add("to_no_type", here("QuantizeLinear", {"x", "s"}, {attr_i("output_dtype", INT64_MAX)}), {scales({})});

  const auto bits = [&](const std::string& name, int64_t k, int64_t n, int64_t width, int64_t block,
                        const std::vector<int64_t>& packed = {2, 1, 8},
                        const std::vector<int64_t>& dims = {2}) {
    add("n_bits_" + name,
        here("MatMulNBits", {"m", "p", "s"},
             {attr_i("K", k), attr_i("N", n), attr_i("bits", width), attr_i("block_size", block)},
             "com.microsoft"),
        {floats("m", {1, 16}, std::vector<float>(16, 1)), bytes("p", packed), scales(dims)});
  };
  bits("of_three_bits", 16, 2, 3, 16);
  bits("of_minus_one_bit", 16, 2, -1, 16);
  bits("in_no_block", 16, 2, 4, 0);
  bits("in_a_negative_block", 16, 2, 4, -16);
  bits("in_a_huge_block", 16, 2, 4, kBig);
  bits("in_blocks_of_15", 16, 2, 4, 15);
  bits("of_no_rows", 0, 2, 4, 16);
  bits("of_negative_rows", -16, 2, 4, 16);
  bits("of_huge_rows", INT64_MAX, 2, 4, 16);
  bits("of_huge_columns", 16, INT64_MAX, 4, 16);
  bits("of_negative_columns", 16, -2, 4, 16);
  bits("of_other_rows", 32, 2, 4, 16);
  bits("cut", 16, 2, 4, 16, {2, 1, 7});
  bits("scales_cut", 16, 2, 4, 16, {2, 1, 8}, {1});
  add("gathered_from_no_block",
      here("GatherBlockQuantized", {"p", "i", "s"}, {attr_i("block_size", 0), attr_i("bits", 4)},
           "com.microsoft"),
      {bytes("p", {2, 8}), scales({2, 1})});
  add("gathered_scales",
      here("GatherBlockQuantized", {"p", "i", "s"}, {attr_i("block_size", 16), attr_i("bits", 4)},
           "com.microsoft"),
      {bytes("p", {2, 8}), scales({3, 1})});
  add("gathered_axis",
      here("GatherBlockQuantized", {"p", "i", "s"},
           {attr_i("block_size", 16), attr_i("bits", 4), attr_i("gather_axis", 7)}, "com.microsoft"),
      {bytes("p", {2, 8}), scales({2, 1})});
  add("int4_cut", here("DequantizeLinear", {"w", "s"}), {tensor_head("w", INT4, {3}).s(9, "\1"), scales({})},
      "w");
  add("int4_long", here("DequantizeLinear", {"w", "s"}),
      {tensor_head("w", INT4, {3}).s(9, "\1\1\1"), scales({})}, "w");
  add("fp4_cut", here("DequantizeLinear", {"w", "s"}), {tensor_head("w", 23, {4}).s(9, "\1"), scales({})},
      "w");
  add("product_of_other_zeros", here("QLinearMatMul", {"q", "s", "z", "p", "s", "z", "s", "z"}),
      {scales({}), bytes("z", {}), bytes("p", {3, 2})});
  add("product_of_floats", here("QLinearMatMul", {"x", "s", "z", "x", "s", "z", "s", "z"}),
      {scales({}), bytes("z", {})});
  add("integers_of_floats", here("MatMulInteger", {"x", "x"}), {});
  // Zero points that the bytes cannot have.
  const Msg wide = tensor_head("o", INT32, {}).s(9, std::string("\xE7\3\0\0", 4)), b = bytes("p", {4, 2}),
            zero = bytes("z", {});
  add("product_of_wide_zeros", here("QLinearMatMul", {"q", "s", "o", "p", "s", "z", "s", "z"}),
      {scales({}), wide, b, zero});
  for (const float step : {0.0f, std::numeric_limits<float>::infinity(), std::nanf("")})
    add(fmt::format("product_in_steps_of_{}", step),
        here("QLinearMatMul", {"q", "s", "z", "p", "s", "z", "t", "z"}),
        {scales({}), floats("t", {}, {step}), b, zero});
  add("convolution_of_wide_zeros", here("QLinearConv", {"im", "s", "z", "k", "s", "o", "s", "z"}),
      {scales({}), wide, bytes("im", {1, 2, 2, 2}), bytes("k", {1, 2, 1, 1}), zero});
  add("integers_of_wide_zeros", here("MatMulInteger", {"q", "p", "z", "o"}), {wide, b, zero});
  add("sum_of_wide_zeros", here("QLinearAdd", {"q", "s", "o", "q", "s", "z", "s", "z"}, {}, "com.microsoft"),
      {scales({}), wide, zero});
  add("sum_of_a_wide_zero", here("QLinearAdd", {"q", "s", "z", "q", "s", "z", "s", "o"}, {}, "com.microsoft"),
      {scales({}), wide, zero});
  return c.all;
}

std::vector<HostileFile> attributes() {
  Cases c;
  const auto add = [&](const std::string& name, const Msg& n, std::vector<Msg> given = {},
                       const std::string& code = "T2020") {
    c.add("attribute_" + name, code, "here", of({n}, std::move(given)));
  };
  add("is_a_graph", here("Softmax", {"x"}, {attr_g("axis", graph_with({}, {}, {}))}));
  add("is_a_type", here("Softmax", {"x"}, {Msg().s(1, "axis").m(14, kFloats).i(20, 13)}));
  add("is_a_list", here("Softmax", {"x"}, {attr_ints("axis", {1})}));
  add("kind_is_unknown", here("Softmax", {"x"}, {Msg().s(1, "axis").i(3, 1).i(20, 99)}));
  add("axis_least", here("Softmax", {"x"}, {attr_i("axis", INT64_MIN)}));
  add("perm_is_long", here("Transpose", {"x"}, {attr_ints("perm", std::vector<int64_t>(100'000, 0))}));
  add("perm_is_large", here("Transpose", {"x"}, {attr_ints("perm", {INT64_MAX, INT64_MIN})}));
  add("type_is_large", here("Cast", {"x"}, {attr_i("to", int64_t(1) << 33 | 1)}), {}, "T2102");
  add("type_is_negative", here("Cast", {"x"}, {attr_i("to", -1)}), {}, "T2102");
  add("type_is_complex", here("Cast", {"x"}, {attr_i("to", COMPLEX64)}), {}, "T2102");
  add("value_is_sparse_nonsense", here("Constant", {}, {Msg().s(1, "sparse_value").m(22, Msg()).i(20, 11)}),
      {}, "T2014");
  add("value_is_a_list_of_tensors",
      here("Constant", {}, {Msg().s(1, "value").m(10, floats("", {1}, {1})).i(20, 9)}));
  add("values_of_two_kinds", here("Constant", {}, {attr_f("value_float", 1), attr_i("value_int", 1)}));
  add("group_is_negative", here("GroupNormalization", {"im", "s", "s"}, {attr_i("num_groups", -1)}),
      {floats("im", {1, 2, 2}, {1, 2, 3, 4}), floats("s", {2}, {1, 1})});
  add("group_is_zero", here("GroupNormalization", {"im", "s", "s"}, {attr_i("num_groups", 0)}),
      {floats("im", {1, 2, 2}, {1, 2, 3, 4}), floats("s", {2}, {1, 1})});
  add("size_is_zero", here("LRN", {"im"}, {attr_i("size", 0)}), {floats("im", {1, 2, 2}, {1, 2, 3, 4})});
  add("hidden_is_negative", here("LSTM", {"im", "w", "r"}, {attr_i("hidden_size", -1)}),
      {floats("im", {1, 1, 1}, {1}), floats("w", {1, 4, 1}, {1, 2, 3, 4}),
       floats("r", {1, 4, 1}, {1, 2, 3, 4})});
  add("heads_are_zero",
      here("Attention", {"im", "im", "im"}, {attr_i("q_num_heads", 0), attr_i("kv_num_heads", 0)}),
      {floats("im", {1, 1, 4}, {1, 2, 3, 4})});
  add("heads_are_negative",
      here("MultiHeadAttention", {"im", "im", "im"}, {attr_i("num_heads", -2)}, "com.microsoft"),
      {floats("im", {1, 1, 4}, {1, 2, 3, 4})});
  add("equation_is_long", here("Einsum", {"x"}, {attr_s("equation", std::string(100'000, 'a'))}), {},
      "T1101");
  add("equation_is_nothing", here("Einsum", {"x"}, {attr_s("equation", "")}));
  add("equation_has_arrows", here("Einsum", {"x"}, {attr_s("equation", "ij->->ji")}), {}, "T1101");
  add("equation_counts_more", here("Einsum", {"x"}, {attr_s("equation", "ij,jk->ik")}), {}, "T1101");
  add("activation_is_unknown",
      here("RNN", {"im", "w", "r"},
           {attr_i("hidden_size", 1), Msg().s(1, "activations").s(9, "\xff").i(20, 8)}),
      {floats("im", {1, 1, 1}, {1}), floats("w", {1, 1, 1}, {1}), floats("r", {1, 1, 1}, {1})}, "T2102");
  return c.all;
}

class HostileNumbers : public testing::TestWithParam<HostileFile> {};
TEST_P(HostileNumbers, AreRefusedByName) { expect_refused(GetParam()); }
TENON_HOSTILE(HostileNumbers, Sizes, sizes);
TENON_HOSTILE(HostileNumbers, Blocks, blocks);
TENON_HOSTILE(HostileNumbers, Attributes, attributes);

}  // namespace
}  // namespace tenon
