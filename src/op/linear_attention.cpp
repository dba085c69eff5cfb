// SPDX-License-Identifier: Apache-2.0
// Linear attention: a state per head, a matrix of key size by value size, that each step writes its key and
// value to and its query reads. Heads of a batch are independent of each other.
#include <fmt/format.h>

#include <cmath>

#include "base/define_type.h"
#include "op/attrs_linear_attention.h"
#include "op/family.h"
#include "op/program.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;

Type infer_linear_attention(InferContext& ctx) {
  const auto& q = ctx.tensor(0);
  Shape s[6];
  for (size_t i = 0; i < 6; ++i) {
    const auto& t = ctx.tensor(i);
    if (!ctx.expect_rank(t, ctx.name(i), 4)) return {};
    if (!ctx.expect_domain(t.dtype, Domain::floating)) return {};
    auto have = shape_of(t);
    if (!have)
      return graph::tuple_type(
          {make_type(std::nullopt, 4, q.dtype), make_type(std::nullopt, 4, ctx.tensor(5).dtype)});
    s[i] = *have;
  }
  // Decay and beta may be one number for all heads or all elements of a key.
  const Shape &key = s[1], &value = s[2];
  const Shape wanted[] = {{key[0], s[0][1], key[2], key[3]},     key,
                          {key[0], key[1], key[2], value[3]},    key,
                          {key[0], key[1], key[2], PrimExpr(1)}, {key[0], key[1], key[3], value[3]}};
  for (size_t i = 0; i < 6; ++i)
    for (size_t k = 0; k < 4; ++k)
      if (!tir::is_one(s[i][k]) && !ctx.require_equal(s[i][k], wanted[i][k]))
        return ctx.error(fmt::format("{} is {}, not {}", ctx.name(i), show(s[i]), show(wanted[i])));
  const auto heads = tir::as_int(s[0][1]), shared = tir::as_int(key[1]);
  if (heads && shared && (*shared < 1 || *heads % *shared != 0))
    return ctx.error(fmt::format("{} query heads share {} key heads", *heads, *shared));
  return graph::tuple_type({make_type(Shape{s[0][0], s[0][1], s[0][2], value[3]}, 4, q.dtype),
                            make_type(s[5], 4, ctx.tensor(5).dtype)});
}

Tensors def_linear_attention(const Call& call, const Tensors& in) {
  const auto& a = attrs_of<LinearAttentionAttrs>(call);
  const Shape key = in[1].shape(), out = output_info(call).shape;
  const PrimExpr steps = key[2], width = key[3], size = in[2].shape()[3];
  const PrimExpr share = simplify(tir::floordiv(out[1], key[1]));  // query heads of a key head
  auto body = [&](const Array<tir::Buffer>& ins, const Array<tir::Buffer>& outs) {
    const tir::Buffer &y = outs[0], &state = outs[1], &error = outs[2];
    auto read = [&](size_t i, const Shape& at) {
      Shape from;
      for (size_t k = 0; k < 4; ++k) from.push_back(tir::is_one(in[i].shape()[k]) ? PrimExpr(0) : at[k]);
      return tir::cast(f32, tir::load(ins[i], from));
    };
    auto head = [&](const Shape& at) {
      const PrimExpr b = at[0], h = at[1];
      auto cell = [&](const PrimExpr& d, const PrimExpr& m) { return Shape{b, h, d, m}; };
      auto over_state = [&](const std::function<tir::Stmt(const PrimExpr&, const PrimExpr&)>& f) {
        return each("d", width, [&](const PrimExpr& d) {
          return each("m", size, [&](const PrimExpr& m) { return f(d, m); });
        });
      };
      const PrimExpr zero = constant(f32, 0);
      const tir::Stmt begin = over_state([&](const PrimExpr& d, const PrimExpr& m) {
        return tir::store(state, read(5, cell(d, m)), cell(d, m));
      });
      auto step = [&](const PrimExpr& t) {
        Array<tir::Stmt> work;
        if (a.gated)
          work.push_back(each("d", width, [&](const PrimExpr& d) {
            return named("keep", tir::exp(read(3, {b, h, t, d})), [&](const PrimExpr& keep) {
              return each("m", size, [&](const PrimExpr& m) {
                return tir::store(state, tir::load(state, cell(d, m)) * keep, cell(d, m));
              });
            });
          }));
        // What is written: the value, or beta times its difference from what the state says of the key.
        work.push_back(each("m", size, [&](const PrimExpr& m) {
          const Shape at_m{b, h, m};
          if (!a.delta) return tir::store(error, read(2, {b, h, t, m}), at_m);
          const tir::Stmt sum = each("d", width, [&](const PrimExpr& d) {
            return tir::store(
                error, tir::load(error, at_m) + read(1, {b, h, t, d}) * tir::load(state, cell(d, m)), at_m);
          });
          const PrimExpr rest = read(2, {b, h, t, m}) - tir::load(error, at_m);
          return tir::seq({tir::store(error, zero, at_m), sum,
                           tir::store(error, rest * read(4, {b, h, t, PrimExpr(0)}), at_m)});
        }));
        work.push_back(over_state([&](const PrimExpr& d, const PrimExpr& m) {
          const PrimExpr more = read(1, {b, h, t, d}) * tir::load(error, {b, h, m});
          return tir::store(state, tir::load(state, cell(d, m)) + more, cell(d, m));
        }));
        work.push_back(each("g", share, [&](const PrimExpr& g) {
          const PrimExpr query = h * share + g;
          return each("m", size, [&](const PrimExpr& m) {
            const Shape to{b, query, t, m};
            return tir::seq({tir::store(y, zero, to), each("d", width, [&](const PrimExpr& d) {
                               const PrimExpr term = read(0, {b, query, t, d}) * tir::load(state, cell(d, m));
                               return tir::store(y, tir::load(y, to) + term, to);
                             })});
          });
        }));
        return tir::seq(work);
      };
      return tir::seq({begin, each("t", steps, step)});
    };
    return each_of({key[0], key[1]}, head, true);
  };
  const Tensors r = te::external({out, in[5].shape(), Shape{key[0], key[1], size}}, {f32, f32, f32}, in, body,
                                 "linear_attention");
  return {te::compute(
              out,
              [&](const Vars& v) {
                const PrimExpr scale = a.scale != 0
                                           ? constant(f32, a.scale)
                                           : tir::div(constant(f32, 1), tir::sqrt(tir::cast(f32, width)));
                return tir::cast(in[0].dtype(), r[0](indices(v)) * scale);
              },
              "linear_attention_result"),
          cast_to(r[1], in[5].dtype())};
}

const bool linear_attention_registered = [] {
  register_op("nn.linear_attention",
              "A state that steps write keys and values to and queries read; and its end.")
      .argument("q", "Tensor", "(batch, query heads, steps, key size)")
      .argument("k", "Tensor", "(batch, heads, steps, key size)")
      .argument("v", "Tensor", "(batch, heads, steps, value size)")
      .argument("decay", "Tensor", "(batch, heads, steps, key size or 1): logarithm of what is kept")
      .argument("beta", "Tensor", "(batch, heads or 1, steps, 1): share that is written")
      .argument("state", "Tensor", "(batch, heads, key size, value size)")
      .attrs<LinearAttentionAttrs>()
      .infer(infer_linear_attention)
      .fusion(FusionKind::opaque)
      .tensor_def(def_linear_attention);
  return true;
}();

}  // namespace
}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::LinearAttentionAttrs>;
