// SPDX-License-Identifier: Apache-2.0
// Random numbers: Philox4x32-10 (Salmon et al., SC'11), a counter-based generator. A number depends on the
// key and its position alone: the same on every machine, for any number of threads, and without a state that
// is passed on.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <numbers>

#include "base/define_type.h"
#include "op/attrs_random.h"
#include "op/family.h"
#include "op/program.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;
const DataType u32 = DataType::uint(32), u64 = DataType::uint(64);

PrimExpr word(uint32_t v) { return PrimExpr::int_imm(int64_t(v), u32); }
PrimExpr low_half(const PrimExpr& e) { return tir::cast(u32, e); }
PrimExpr high_half(const PrimExpr& e) {
  return tir::cast(u32, tir::call(u64, "tir.shift_right", {e, PrimExpr::int_imm(32, u64)}));
}
PrimExpr xor_of(const PrimExpr& a, const PrimExpr& b) { return tir::call(u32, "tir.bitwise_xor", {a, b}); }

/// Ten rounds on the counter; `then` gets the four words. Each round's words have names, so that nothing is
/// computed twice.
tir::Stmt philox(std::array<PrimExpr, 4> c, std::array<PrimExpr, 2> key, int round,
                 const std::function<tir::Stmt(const std::array<PrimExpr, 4>&)>& then) {
  if (round == 10) return then(c);
  auto product = [](const PrimExpr& a, uint32_t m) { return tir::cast(u64, a) * tir::cast(u64, word(m)); };
  const std::array<PrimExpr, 2> next{key[0] + word(0x9E3779B9u), key[1] + word(0xBB67AE85u)};
  return named("p", product(c[0], 0xD2511F53u), [&](const PrimExpr& p) {
    return named("q", product(c[2], 0xCD9E8D57u), [&](const PrimExpr& q) {
      return named("a", xor_of(xor_of(high_half(q), c[1]), key[0]), [&](const PrimExpr& a) {
        return named("b", xor_of(xor_of(high_half(p), c[3]), key[1]), [&](const PrimExpr& b) {
          return philox({a, low_half(q), b, low_half(p)}, next, round + 1, then);
        });
      });
    });
  });
}

/// `count` random words. Word i is the (i mod 4)-th of counter i / 4.
te::Tensor random_words(const te::Tensor& key, const PrimExpr& count) {
  auto body = [&](const Array<tir::Buffer>& in, const Array<tir::Buffer>& out) {
    const PrimExpr k0 = tir::load(in[0], {PrimExpr(0)}), k1 = tir::load(in[0], {PrimExpr(1)});
    return each("block", simplify(tir::ceildiv(count, PrimExpr(4))), [&](const PrimExpr& block) {
      const PrimExpr wide_block = tir::cast(u64, block);
      return philox(
          {low_half(wide_block), high_half(wide_block), word(0), word(0)}, {k0, k1}, 0,
          [&](const std::array<PrimExpr, 4>& words) {
            Array<tir::Stmt> stores;
            for (int64_t i = 0; i < 4; ++i) {
              const PrimExpr at = block * 4 + i;
              stores.push_back(when(tir::lt(at, count), tir::store(out[0], words[size_t(i)], {at})));
            }
            return tir::seq(stores);
          });
    });
  };
  return te::external({Shape{count}}, {u32}, {key}, body, "philox")[0];
}
/// Words in a shape, `each` of them for an element, as a last axis.
te::Tensor words_for(const te::Tensor& key, Shape shape, int64_t each_element) {
  if (each_element > 1) shape.push_back(PrimExpr(each_element));
  return reshape_to(random_words(key, simplify(product(shape))), shape, "random_words");
}

/// From [0, 1): the upper 24 bits of a word, or 53 bits of two words.
PrimExpr unit(DataType t, const std::function<PrimExpr(int64_t)>& bits) {
  auto shifted = [](const PrimExpr& e, int64_t n) {
    return tir::call(u32, "tir.shift_right", {e, PrimExpr::int_imm(n, u32)});
  };
  if (t != f64)
    return tir::cast(f32, tir::cast(i32, shifted(bits(0), 8))) * constant(f32, std::ldexp(1.0, -24));
  const PrimExpr high = tir::cast(f64, tir::cast(i64, shifted(bits(0), 5))),
                 low = tir::cast(f64, tir::cast(i64, shifted(bits(1), 6)));
  return (high * constant(f64, 67108864.0) + low) * constant(f64, std::ldexp(1.0, -53));
}
int64_t words_of(DataType t) { return t == f64 ? 2 : 1; }
/// A number from [0, 1) for each element; `draws` of them as a last axis when more than one.
te::Tensor units(const te::Tensor& key, const Shape& shape, DataType t, int64_t draws = 1) {
  Shape all = shape;
  if (draws > 1) all.push_back(PrimExpr(draws));
  const te::Tensor words = words_for(key, all, words_of(t));
  return te::compute(
      all,
      [&](const Vars& v) {
        return unit(t, [&](int64_t i) {
          Shape at = indices(v);
          if (words_of(t) > 1) at.push_back(PrimExpr(i));
          return words(at);
        });
      },
      "random_units");
}

// ---------------------------------------------------------------- keys
bool expect_key(InferContext& ctx, size_t i) {
  const auto& key = ctx.tensor(i);
  auto s = shape_of(key);
  if (!key.dtype.is_void() && key.dtype != u32) return ctx.error("the key must be two uint32 words");
  if (key.ndim > 1 || (s && (s->size() != 1 || !ctx.require_equal((*s)[0], PrimExpr(2)))))
    return ctx.error("the key must be two uint32 words", "make one with random.key");
  return true;
}
Type infer_key(InferContext&) { return make_type(Shape{PrimExpr(2)}, 1, u32); }
Tensors def_key(const Call& call, const Tensors&) {
  const auto seed = uint64_t(attrs_of<SeedAttrs>(call).seed);
  return {te::compute(
      {PrimExpr(2)},
      [&](const Vars& v) {
        return tir::select(tir::eq(v[0], PrimExpr(0)), word(uint32_t(seed)), word(uint32_t(seed >> 32)));
      },
      "key")};
}
Type infer_split_key(InferContext& ctx) {
  if (!expect_key(ctx, 0)) return {};
  const int64_t n = ctx.attrs<CountAttrs>().count;
  if (n < 1) return ctx.error(fmt::format("{} keys are wanted", n));
  return make_type(Shape{PrimExpr(n), PrimExpr(2)}, 2, u32);
}
Tensors def_split_key(const Call& call, const Tensors& in) {
  return {words_for(in[0], {PrimExpr(attrs_of<CountAttrs>(call).count)}, 2)};
}

// ---------------------------------------------------------------- distributions
template <class A>
Type infer_numbers(InferContext& ctx, Domain domain) {
  if (!expect_key(ctx, 0)) return {};
  const DataType t = ctx.attrs<A>().dtype;
  if (!ctx.expect_domain(t, domain)) return {};
  return make_type(ctx.shape(1), ctx.shape_rank(1), t);
}
Tensors from_units(const Call& call, const Tensors& in, int64_t draws,
                   const std::function<PrimExpr(const std::vector<PrimExpr>&)>& f) {
  const TensorInfo out = output_info(call);
  const te::Tensor u = units(in[0], out.shape, wide_type(out.dtype), draws);
  return {te::compute(
      out.shape,
      [&](const Vars& v) {
        std::vector<PrimExpr> drawn;
        for (int64_t i = 0; i < draws; ++i) {
          Shape at = indices(v);
          if (draws > 1) at.push_back(PrimExpr(i));
          drawn.push_back(u(at));
        }
        return tir::cast(out.dtype, f(drawn));
      },
      short_name(call))};
}
PrimExpr lit(const PrimExpr& like, double v) { return constant(like.dtype(), v); }
/// Never 0, so that it has a logarithm.
PrimExpr nonzero_unit(const PrimExpr& u) { return lit(u, 1) - u; }
PrimExpr box_muller(const PrimExpr& u, const PrimExpr& v) {
  const PrimExpr radius = tir::sqrt(tir::log(nonzero_unit(u)) * lit(u, -2));
  return radius * tir::call(u.dtype(), "tir.cos", {v * lit(v, 2 * std::numbers::pi)});
}

Tensors def_bits(const Call& call, const Tensors& in) {
  return {words_for(in[0], output_info(call).shape, 1)};
}
Type infer_bits(InferContext& ctx) {
  if (!expect_key(ctx, 0)) return {};
  return make_type(ctx.shape(1), ctx.shape_rank(1), u32);
}
Tensors def_uniform(const Call& call, const Tensors& in) {
  const auto& a = attrs_of<RandomAttrs>(call);
  return from_units(call, in, 1, [&](const std::vector<PrimExpr>& u) {
    return lit(u[0], a.low) + u[0] * lit(u[0], a.high - a.low);
  });
}
Tensors def_normal(const Call& call, const Tensors& in) {
  const auto& a = attrs_of<NormalAttrs>(call);
  return from_units(call, in, 2, [&](const std::vector<PrimExpr>& u) {
    return lit(u[0], a.mean) + box_muller(u[0], u[1]) * lit(u[0], a.scale);
  });
}
Tensors def_exponential(const Call& call, const Tensors& in) {
  const auto& a = attrs_of<NormalAttrs>(call);
  return from_units(call, in, 1, [&](const std::vector<PrimExpr>& u) {
    return lit(u[0], a.mean) - tir::log(nonzero_unit(u[0])) * lit(u[0], a.scale);
  });
}
PrimExpr gumbel(const PrimExpr& u) {
  // 1 - u is never 0; where it is 1 its logarithm is kept from 0.
  const PrimExpr least = lit(u, u.dtype() == f64 ? std::ldexp(1.0, -53) : std::ldexp(1.0, -24));
  return -tir::log(tir::max(-tir::log(nonzero_unit(u)), least));
}
Tensors def_gumbel(const Call& call, const Tensors& in) {
  const auto& a = attrs_of<NormalAttrs>(call);
  return from_units(call, in, 1, [&](const std::vector<PrimExpr>& u) {
    return lit(u[0], a.mean) + gumbel(u[0]) * lit(u[0], a.scale);
  });
}
Tensors def_laplace(const Call& call, const Tensors& in) {
  const auto& a = attrs_of<NormalAttrs>(call);
  return from_units(call, in, 1, [&](const std::vector<PrimExpr>& u) {
    // The sign from one half, the length from the other.
    const PrimExpr twice = u[0] * lit(u[0], 2), upper = tir::ge(twice, lit(u[0], 1));
    const PrimExpr rest = tir::select(upper, twice - lit(u[0], 1), twice);
    const PrimExpr length = -tir::log(nonzero_unit(rest));
    return lit(u[0], a.mean) + tir::select(upper, length, -length) * lit(u[0], a.scale);
  });
}
Tensors def_randint(const Call& call, const Tensors& in) {
  const auto& a = attrs_of<RandomAttrs>(call);
  const TensorInfo out = output_info(call);
  const auto low = int64_t(a.low), span = std::max<int64_t>(int64_t(a.high) - low, 1);
  const te::Tensor words = words_for(in[0], out.shape, 1);
  return {te::compute(
      out.shape,
      [&](const Vars& v) {
        // Word times span, upper half: a share of the span.
        const PrimExpr share = tir::cast(u64, words(indices(v))) * PrimExpr::int_imm(span, u64);
        const PrimExpr n = tir::call(u64, "tir.shift_right", {share, PrimExpr::int_imm(32, u64)});
        return tir::cast(out.dtype, tir::cast(i64, n) + low);
      },
      "randint")};
}
Type infer_randint(InferContext& ctx) {
  const auto& a = ctx.attrs<RandomAttrs>();
  if (!(a.high > a.low) || a.high - a.low > 4294967296.0)
    return ctx.error(fmt::format("there is no integer from {} up to {}", a.low, a.high),
                     "at most 2³² values");
  return infer_numbers<RandomAttrs>(ctx, Domain::integer);
}

// ---------------------------------------------------------------- from a tensor
Type infer_bernoulli(InferContext& ctx) {
  if (!expect_key(ctx, 0)) return {};
  const auto& p = ctx.tensor(1);
  if (!ctx.expect_domain(p.dtype, Domain::floating)) return {};
  const DataType t = ctx.attrs<DTypeAttrs>().dtype;
  return like(p, t.is_void() ? p.dtype : t);
}
Tensors def_bernoulli(const Call& call, const Tensors& in) {
  const TensorInfo out = output_info(call);
  const te::Tensor u = units(in[0], out.shape, wide_type(in[1].dtype()));
  return {te::compute(
      out.shape,
      [&](const Vars& v) { return tir::cast(out.dtype, tir::lt(u(indices(v)), wide(in[1](indices(v))))); },
      "bernoulli")};
}
Type infer_categorical(InferContext& ctx) {
  if (!expect_key(ctx, 0)) return {};
  const auto& x = ctx.tensor(1);
  const int64_t n = ctx.attrs<CountAttrs>().count;
  if (!ctx.expect_domain(x.dtype, Domain::floating)) return {};
  if (!ctx.expect_rank(x, "the logits", 2)) return {};
  auto s = shape_of(x);
  if (n < 1 || (s && tir::is_zero((*s)[1]))) return ctx.error(fmt::format("{} samples of no classes", n));
  return make_type(s ? std::optional(Shape{(*s)[0], PrimExpr(n)}) : std::nullopt, 2, i64);
}
/// The largest of logit + Gumbel noise is a sample of the softmax.
Tensors def_categorical(const Call& call, const Tensors& in) {
  const Shape out = output_info(call).shape;
  const PrimExpr classes = in[1].shape()[1];
  const te::Tensor u = units(in[0], {out[0], out[1], classes}, wide_type(in[1].dtype()));
  const auto k = te::reduce_axis(tir::range(PrimExpr(0), classes));
  return {te::compute(
      out,
      [&](const Vars& v) {
        return te::argmax(k->var, wide(in[1]({v[0], k->var})) + gumbel(u({v[0], v[1], k->var})), {k})[0];
      },
      "categorical")};
}
Type infer_permutation(InferContext& ctx) {
  if (!expect_key(ctx, 0)) return {};
  const auto n = ctx.shape(1);
  if (n && n->size() != 1) return ctx.error(fmt::format("{} is not one size", show(*n)));
  return make_type(n, 1, i64);
}
Tensors def_permutation(const Call& call, const Tensors& in) {
  return {order_of(random_words(in[0], output_info(call).shape[0]), 0, false)};
}

const bool random_registered = [] {
  auto add = [](OpName name, const char* doc, InferType infer, TensorDef def) {
    return register_op(std::move(name), doc)
        .infer(std::move(infer))
        .fusion(FusionKind::opaque)
        .tensor_def(std::move(def));
  };
  add("random.key", "A key: the two words of a seed.", infer_key, def_key).attrs<SeedAttrs>();
  add("random.split", "Keys whose numbers are independent of each other.", infer_split_key, def_split_key)
      .argument("key", "Tensor", "two uint32 words")
      .attrs<CountAttrs>();
  auto fill = [&](OpName name, const char* doc, InferType infer, TensorDef def) {
    return add(std::move(name), doc, std::move(infer), std::move(def))
        .argument("key", "Tensor", "two uint32 words")
        .argument("shape", "Shape", "sizes of the result");
  };
  auto floating = infer_numbers<NormalAttrs>;
  auto real = [floating](InferContext& ctx) { return floating(ctx, Domain::floating); };
  fill("random.bits", "Random uint32 words.", infer_bits, def_bits);
  fill(
      "random.uniform", "From low up to high, not included.",
      [](InferContext& ctx) { return infer_numbers<RandomAttrs>(ctx, Domain::floating); }, def_uniform)
      .attrs<RandomAttrs>();
  fill("random.randint", "Integers from low up to high, not included.", infer_randint, def_randint)
      .attrs<RandomAttrs>(0.0, 2.0, i64);
  fill("random.normal", "Normally distributed.", real, def_normal).attrs<NormalAttrs>();
  fill("random.exponential", "Exponentially distributed.", real, def_exponential).attrs<NormalAttrs>();
  fill("random.gumbel", "Gumbel distributed.", real, def_gumbel).attrs<NormalAttrs>();
  fill("random.laplace", "Laplace distributed.", real, def_laplace).attrs<NormalAttrs>();
  fill("random.permutation", "0 … n - 1 in random order.", infer_permutation, def_permutation);
  add("random.bernoulli", "1 with the given probability, else 0.", infer_bernoulli, def_bernoulli)
      .argument("key", "Tensor", "two uint32 words")
      .argument("p", "Tensor", "probabilities")
      .attrs<DTypeAttrs>();
  add("random.categorical", "Classes by the softmax of the logits.", infer_categorical, def_categorical)
      .argument("key", "Tensor", "two uint32 words")
      .argument("logits", "Tensor", "(batch, classes)")
      .attrs<CountAttrs>();
  return true;
}();

}  // namespace
}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::SeedAttrs, tenon::op::CountAttrs, tenon::op::RandomAttrs,
                                   tenon::op::NormalAttrs>;
