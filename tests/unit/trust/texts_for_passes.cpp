// SPDX-License-Identifier: Apache-2.0
// Random patterns that graph passes look for; pattern_texts.h says how they are written.
#include "pattern_texts.h"

namespace tenon::testing_trust {
namespace {

const PatternText kTexts[] = {
    {"conv_batch_norm", R"(
    def main(x: F($a, $b, 4, 4), w: F($c, $b, {{1, 1|3, 3}}), s: F($c), wb: F($c), wm: F($c), v: F($c)):
        y = R.nn.conv2d(x, w, padding=[1, 1, 1, 1])
        t = R.nn.batch_norm(y, s, wb, wm, v, axis=1)
        z = R.{{nn.relu|tanh|abs}}(t)
        return z
)"},
    {"conv_bias_batch_norm", R"(
    def main(x: F($a, $b, 4, 4), w: F($c, $b, 3, 3), wc: F($c), s: F($c), wb: F($c), wm: F($c), v: F($c)):
        y = R.nn.conv2d(x, w{{|, strides=[2, 2]}})
        y1 = R.nn.bias_add(y, wc, axis=1)
        t = R.nn.batch_norm(y1, s, wb, wm, v, axis=1)
        return R.nn.relu(t)
)"},
    {"scale_conv", R"(
    def main(x: F($a, $b, 3, 4), w: F($c, $b, 2, 2), s: F($b, 1, 1), s1: F($c, 1, 1), wb: F($c, 1, 1)):
        p = R.multiply(x, s)
        y = R.nn.conv2d(p, w{{|, padding=[1, 1, 1, 1]}})
        {{y1 = R.add(y, wb)|y1 = R.nn.relu(y)|y1 = R.nn.leaky_relu(y)}}
        return R.multiply(y1, s1)
)"},
    {"scale_behind_conv", R"(
    def main(x: F($a, $b, 3, 4), w: F($c, $b, 2, 1), s1: F($c, 1, 1), wb: F($c, 1, 1)):
        y = R.nn.conv2d(x, w)
        {{y1 = R.add(y, wb)|y1 = R.nn.relu(y)}}
        return R.multiply(y1, s1)
)"},
    {"scale_before_conv", R"(
    def main(x: F($a, $b, 3, 4), w: F($c, $b, 2, 1), s: F($b, 1, 1)):
        x1 = R.$U(x)
        p = R.multiply(x1, s)
        {{q = R.nn.relu(p)|q = R.nn.max_pool2d(p, pool_size=[2, 2])|q = p}}
        return R.nn.conv2d(q, w)
)"},
    {"scale_dense", R"(
    def main(x: F($a, $b), w: F($c, $b), s: F($b), s1: F($c)):
        p = R.multiply(x, s)
        y = R.nn.dense(p, w)
        return R.multiply(y, s1)
)"},
    {"scale_matmul", R"(
    def main(x: F($a, $b), w: F($b, $c), s: F($b), s1: F($c)):
        {{p = R.multiply(x, s)|p = R.$U(x)}}
        y = R.matmul(p, w)
        return R.multiply(y, s1)
)"},
    {"parallel_conv2d", R"(
    def main(x: F($a, $b, 4, 4), w: F($c, $b, 3, 3), w1: F($d, $b, 3, 3), w2: F($e, $b, 3, 3), wb: F($c, 1, 1)):
        y = R.nn.conv2d(x, w, padding=[1, 1, 1, 1])
        y1 = R.nn.conv2d(x, w1, padding=[1, 1, 1, 1])
        z = R.add(y, wb)
        {{y2 = R.nn.conv2d(x, w2, padding=[1, 1, 1, 1])|y2 = R.nn.conv2d(x, w2)}}
        z1 = R.nn.relu(y1)
        return (z, z1, y2)
)"},
    {"parallel_conv2d_and_what_follows", R"(
    def main(x: F($a, $b, 4, 4), w: F($c, $b, 3, 3), w1: F($d, $b, 3, 3), wb: F($c, 1, 1), wc: F($d, 1, 1)):
        y = R.nn.conv2d(x, w)
        y1 = R.nn.conv2d(x, w1)
        z = R.add(y, wb)
        z1 = R.add(y1, wc)
        u = R.$U(z)
        {{u1 = R.$U(z1)|u1 = R.tanh(z1)}}
        return (u, u1)
)"},
    {"conv_channels_last", R"(
    def main(x: F($a, 4, 5, $b), w: F(2, 3, $b, $c), wb: F($c)):
        y = R.nn.conv2d(x, w, padding=[1, 0, 0, 2], data_layout="NHWC", kernel_layout="HWIO")
        z = R.add(y, wb)
        u = R.$U(z)
        {{v = R.nn.max_pool2d(u, pool_size=[2, 2], layout="NHWC")|v = R.nn.global_avg_pool(u, layout="NHWC")|v = u}}
        return v
)"},
    {"conv_in_letters", R"(
    def main(x: F($b, 3, $a, 4), w: F(3, $c, 2, $b), x1: F(2, 1, 5, 4, 3)):
        y = R.nn.conv2d(x, w, strides=[{{1, 2|2, 1}}], data_layout="CHNW", kernel_layout="HOWI"{{|, out_layout="NHWC"|, out_layout="NCHW2c"}})
        y1 = R.nn.{{max|avg}}_pool2d(x1, pool_size=[2, 2], layout="NCHW3c"{{|, out_layout="HWCN"}})
        z = R.$U(y)
        return (z, y1)
)"},
    {"parallel_dense", R"(
    def main(x: F($a, $b), w: F($c, $b), w1: F($d, $b), w2: F($e, $b)):
        y = R.nn.dense(x, w)
        y1 = R.nn.dense(x, w1)
        y2 = R.nn.dense(x, w2)
        z = R.$U(y1)
        return (y, z, y2)
)"},
    {"parallel_matmul", R"(
    def main(x: F($a, $b), w: F($b, $c), w1: F($b, $d)):
        y = R.matmul(x, w)
        y1 = R.matmul(x, w1)
        z = R.$U(y1)
        return (y, z)
)"},
    {"parallel_batch_matmul", R"(
    def main(x: F($h, $a, $b), x1: F($h, $b, $c), w1: F($h, $b, $d)):
        y = R.matmul(x, x1)
        y1 = R.matmul(x, w1)
        return (y, y1)
)"},
    {"matmul_chain", R"(
    def main(x: F(${a+3}, ${b+2}), x1: F(${b+2}, ${c+4}), x2: F(${c+4}, 1)):
        y = R.matmul(x, x1)
        return R.matmul(y, x2)
)"},
    {"low_rank_update", R"(
    def main(x: F($a, $b), w: F($b, $c), x1: F($b, 1), x2: F(1, $c)):
        d = R.matmul(x1, x2)
        s = R.add(w, d)
        return R.matmul(x, s)
)"},
    {"transposed_parts", R"(
    def main(x: F($a, $b), x1: F($c, $b)):
        p = R.permute_dims(x)
        q = R.permute_dims(x1)
        return R.concat((p, q), axis=1)
)"},
    {"taken_columns", R"(
    def main(x: F($a, $b), w: F($b, 4)):
        t = R.take(w, R.const([3, 0, {{1|2}}], "int64"), axis=1)
        return R.matmul(x, t)
)"},
    {"atrous", R"(
    def main(x: F(1, $b, 6, 6), w: F($c, $b, 3, 3)):
        p = R.space_to_batch_nd(x, block_shape=[1, 2, 2], margins=[0, 0, 2, 2, 2, 2])
        y = R.nn.conv2d(p, w)
        return R.batch_to_space_nd(y, block_shape=[1, 2, 2])
)"},
    {"pad_conv", R"(
    def main(x: F($a, $b, 3, 3), w: F($c, $b, 3, 3)):
        p = R.pad(x, pad_width=[0, 0, 0, 0, 1, 1, 1, 1])
        y = R.nn.conv2d(p, w)
        return R.nn.{{relu|relu6}}(R.nn.relu(y))
)"},
    {"transposed_weight", R"(
    def main(x: F($a, $b), x1: F($c, $b)):
        t = R.permute_dims(x1, axes=[1, 0])
        y = R.matmul(x, t)
        return R.divide(y, R.const({{4.0|3.0|0.7}}, "float32"))
)"},
    {"divided", R"(
    def main(x: F($a, $b)):
        y = R.divide(x, R.const({{3.0|-1.7|0.3}}, "float32"))
        z = R.negative(y)
        return R.add(x, z)
)"},
    {"reshape_chain", R"(
    def main(x: F($a, $b, $c)):
        p = R.reshape(x, R.shape([${a*b}, $c]))
        q = R.reshape(p, R.shape([$a, ${b*c}]))
        r = R.expand_dims(q, axes=[1])
        return R.squeeze(r, axes=[1])
)"},
    {"transpose_chain", R"(
    def main(x: F($a, $b, $c)):
        p = R.permute_dims(x, axes=[{{2, 0, 1|1, 2, 0|0, 2, 1}}])
        q = R.permute_dims(p, axes=[{{2, 0, 1|1, 2, 0|0, 2, 1}}])
        return R.$U(q)
)"},
    {"cast_chain", R"(
    def main(x: F($a, $b)):
        p = R.cast(x, dtype="float64")
        q = R.cast(p, dtype="float32")
        r = R.multiply(q, R.const(1.0, "float32"))
        return R.add(r, x)
)"},
    {"narrow_values", R"(
    def main(x: R.Tensor(($a, $b), "{{float16|bfloat16}}"), x1: F($a, $b)):
        p = R.cast(x, dtype="float32")
        y = R.{{tanh|sin|sigmoid}}(p)
        z = R.$B(p, x1)
        u = R.{{cos|abs|negative}}(p)
        return (y, z, u)
)"},
    {"float16_sum", R"(
    def main(x: R.Tensor(($a, $b), "{{float16|bfloat16|float64}}")):
        y = R.$U(x)
        z = R.{{maximum|minimum}}(y, x)
        return R.cast(z, dtype="float32")
)"},
    {"layer_norm", R"(
    def main(x: F($a, ${b+1}), s: F(${b+1}), wb: F(${b+1})):
        y = R.nn.layer_norm(x, s, wb, axes=[-1])
        return R.nn.{{gelu|silu|relu}}(y)
)"},
    {"rms_norm", R"(
    def main(x: F($a, ${b+1}), s: F(${b+1})):
        y = R.nn.rms_norm(x, s)
        return R.tanh(y)
)"},
    {"batch_norm_alone", R"(
    def main(x: F($a, $b, $c), s: F($b), wb: F($b), wm: F($b), v: F($b)):
        y = R.$U(x)
        d = R.nn.dropout(y)
        return R.nn.batch_norm(d, s, wb, wm, v, axis=1)
)"},
    {"attention", R"(
    def main(x: F(1, $a, $b), x1: F(1, $c, $b), x2: F(1, $c, $d)):
        t = R.permute_dims(x1, axes=[0, 2, 1])
        y = R.matmul(x, t)
        z = R.multiply(y, R.const(0.5, "float32"))
        p = R.nn.softmax(z, axis=-1)
        return R.matmul(p, x2)
)"},
    {"exponentials", R"(
    def main(x: F($a, $b)):
        y = R.tanh(x)
        z = R.exp(y)
        e = R.erf(y)
        p = R.nn.softmax(e)
        return R.{{add|multiply}}(z, p)
)"},
    {"parts", R"(
    def main(x: F(${a*2}, $b)):
        t = R.split(x, sections=2, axis=0)
        p = R.$U(t[0])
        y = R.concat((p, t[1], t[0], p, t[1]), axis=0)
        z = R.concat((t[0], t[1]), axis=0)
        return (y, z)
)"},
    {"slices", R"(
    def main(x: F(${a+2}, $b)):
        p = R.strided_slice(x, axes=[0], begin=[1], end=[${a+2}])
        q = R.strided_slice(p, axes=[0], begin=[0], end=[${a+1}])
        r = R.pad(q, pad_width=[0, 0, 0, 0])
        return R.$U(r)
)"},
    {"branches_of_one_tensor", R"(
    def main(x: F($a, $b), x1: F($a, $b)):
        p = R.exp(R.tanh(x))
        q = R.negative(R.sin(x))
        r = R.$B(x, x1)
        d = R.{{max|sum}}(p, axis=[1])
        return (p, q, r, d)
)"},
    {"same_twice", R"(
    def main(x: F($a, $b), x1: F($a, $b)):
        p = R.$U(R.add(x, x1))
        q = R.sin(R.add(x, x1))
        u = R.exp(R.tanh(q))
        return (p, q)
)"},
    {"constants", R"(
    def main(x: F($a, $b), w: F($a, $b), w1: F($b, $b)):
        p = R.matmul(w, w1)
        q = R.$U(p)
        c = R.where(R.const(True, "bool"), x, q)
        return R.add(c, q)
)"},
    {"devices", R"(
    def main(x: F($a, $b), x1: F($a, $b)):
        p = R.$U(x)
        h = R.hint_on_device(p, device="cpu:{{0|1}}")
        q = R.sin(h)
        return R.$B(q, x1)
)"},
    {"blocked_channels", R"(
    def main(x: F(1, {{8|16}}, 2, 2), w: F(16, 4, 1, 1)):
        y = R.strided_slice(x, axes=[1], begin=[0], end=[4])
        z = R.nn.conv2d(y, w)
        r = R.nn.relu(z)
        m = R.nn.max_pool2d(r, pool_size=[2, 2])
        return (m, r)
)"},
    {"quantised_conv", R"(
    def main(x: R.Tensor((1, 4, 3, 3), "uint8"), x1: F($a)):
        c = R.cast(x, dtype="int32")
        z = R.subtract(c, R.const({{1|0|3}}, "int32"))
        w = R.cast(R.const([[[[1]], [[-2]], [[3]], [[5]]], [[[0]], [[7]], [[-1]], [[2]]]], "int8"), dtype="int32")
        y = R.nn.conv2d(z, w{{|, padding=[1, 1, 1, 1]}})
        f = R.cast(y, dtype="float32")
        return R.multiply(f, R.const(0.125, "float32"))
)"},
    {"quantised_values", R"(
    def main(x: F($a, $b)):
        q = R.qnn.quantize(x, R.const(0.0625, "float32"), R.const({{0|3}}, "{{int8|uint8}}"))
        d = R.cast(q, dtype="int32")
        e = R.add(d, d)
        return R.cast(e, dtype="float32")
)"},
    {"sizes_from_constants", R"(
    def main(x: F($a, $b)):
        s = R.tensor_to_shape(R.const([$b, $a], "int64"))
        y = R.reshape(x, s)
        z = R.match_cast(y, R.Tensor(($b, $a), "float32"))
        return R.$U(z)
)"},
    {"sizes_from_tensors", R"(
    def main(x: F($a, $b), x1: F($b, $a)):
        s = R.shape_of(x)
        t = R.shape_to_tensor(s)
        u = R.tensor_to_shape(t)
        y = R.reshape(x1, u)
        z = R.match_cast(y, R.Tensor(($a, $b), "float32"))
        return R.$B(z, x)
)"},
    {"sizes_of_data", R"(
    def main(x: F($a, $b)):
        y = R.{{abs|sin}}(x)
        t = R.nonzero(x)
        c = R.reshape(t[1], R.shape([1]))
        s = R.tensor_to_shape(c)
        n = R.match_cast(s, R.Shape([n_$I]))
        p = R.slice_to(t[0], R.shape([2, n_$I]))
        f = R.cast(p, dtype="float32")
        r = R.sum(f, axis=[1])
        return (r, y)
)"},
};

}  // namespace

std::span<const PatternText> texts_for_passes() { return kTexts; }

}  // namespace tenon::testing_trust
