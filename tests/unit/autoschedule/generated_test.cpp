// SPDX-License-Identifier: Apache-2.0
// Contractions and convolutions that no rule was written for: a seeded generator of einsums, matrix products
// (over panels too), convolutions with strides, dilations and groups, of odd sizes; each gets the default
// schedule and is compared with its unscheduled program.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "../schedule/programs.h"
#include "autoschedule/default.h"
#include "ir/text.h"
#include "test_targets.h"

namespace tenon::testing {
namespace {

using Random = std::mt19937_64;
int64_t pick(Random& r, int64_t low, int64_t high) { return low + int64_t(r() % uint64_t(high - low + 1)); }
PrimExpr at(int64_t v) { return PrimExpr(v); }

/// Labels a…f with random sizes: each operand has some of them, the result has those that are not summed.
Program einsum(Random& r) {
  const int labels = int(pick(r, 3, 5)), operands = int(pick(r, 2, 3));
  std::vector<int64_t> size;
  int64_t left = 20000;  // the interpreter visits every combination
  for (int i = 0; i < labels; ++i) {
    size.push_back(std::min(left, pick(r, 0, 4) ? pick(r, 2, 9) : pick(r, 15, 37)));
    left /= size.back();
  }
  std::vector<std::vector<int>> terms(static_cast<size_t>(operands));
  std::string name = "einsum ";
  std::vector<bool> used(size.size(), false);
  for (auto& t : terms) {
    for (int i = 0; i < labels; ++i)
      if (pick(r, 0, 2) != 0) t.push_back(i);
    if (t.empty()) t.push_back(int(pick(r, 0, labels - 1)));
    std::shuffle(t.begin(), t.end(), r);
    for (int i : t) used[size_t(i)] = true, name += char('a' + i);
    name += ' ';
  }
  std::vector<int> result, summed;
  for (int i = 0; i < labels; ++i)
    if (used[size_t(i)]) (pick(r, 0, 1) ? result : summed).push_back(i);
  if (summed.empty()) std::swap(result, summed);
  std::shuffle(result.begin(), result.end(), r);
  name += "->";
  for (int i : result) name += char('a' + i);
  Array<Tensor> all;
  for (const auto& t : terms) {
    Array<PrimExpr> shape;
    for (int i : t) shape.push_back(at(size[size_t(i)]));
    all.push_back(te::placeholder(shape, f32, fmt::format("A{}", all.size())));
  }
  Array<PrimExpr> shape;
  for (int i : result) shape.push_back(at(size[size_t(i)]));
  Array<tir::IterVar> ks;
  std::vector<PrimExpr> index(size.size());
  for (int i : summed) {
    ks.push_back(te::reduce_axis(tir::range(at(0), at(size[size_t(i)])), fmt::format("k{}", i)));
    index[size_t(i)] = ks.back()->var;
  }
  Tensor sum = te::compute(
      shape,
      [&](const Vars& v) {
        for (size_t i = 0; i < result.size(); ++i) index[size_t(result[i])] = v[i];
        PrimExpr product;
        for (size_t i = 0; i < terms.size(); ++i) {
          Array<PrimExpr> where;
          for (int l : terms[i]) where.push_back(index[size_t(l)]);
          const PrimExpr x = all[i](where);
          product = product ? product * x : x;
        }
        return te::sum(product, ks);
      },
      "C");
  Array<Tensor> args = all;
  if (pick(r, 0, 1)) {
    sum = te::compute(
        shape,
        [&](const Vars& v) {
          return tir::max(sum(Array<PrimExpr>(v.begin(), v.end())) * 0.5, PrimExpr(0.0));
        },
        "D");
    name += " relu";
  }
  args.push_back(sum);
  return {name, te::create_prim_func(args), {}};
}

/// x (…, m, k) times panels (n / width, k, width), with a bias.
Program packed(Random& r) {
  const int64_t b = pick(r, 1, 3), m = pick(r, 1, 19), k = pick(r, 1, 25), n = pick(r, 1, 70),
                width = std::array<int64_t, 5>{8, 16, 32, 48, 64}[size_t(pick(r, 0, 4))];
  const int64_t panels = (n + width - 1) / width;
  Tensor x = te::placeholder({at(b), at(m), at(k)}, f32, "X"),
         w = te::placeholder({at(panels), at(k), at(width)}, f32, "W"),
         bias = te::placeholder({at(n)}, f32, "B");
  tir::IterVar kk = te::reduce_axis(tir::range(at(0), at(k)), "k");
  Tensor c = te::compute(
      {at(b), at(m), at(n)},
      [&](const Vars& v) {
        return te::sum(x({v[0], v[1], kk->var}) *
                           w({tir::floordiv(v[2], at(width)), kk->var, tir::floormod(v[2], at(width))}),
                       {kk});
      },
      "C");
  Tensor d = te::compute(
      {at(b), at(m), at(n)}, [&](const Vars& v) { return c({v[0], v[1], v[2]}) + bias({v[2]}); }, "D");
  return {
      fmt::format("packed {}x{}x{}x{} in {}", b, m, k, n, width), te::create_prim_func({x, w, bias, d}), {}};
}

/// A convolution with groups, strides and dilations.
Program convolution(Random& r) {
  const int64_t groups = pick(r, 0, 2) ? 1 : pick(r, 2, 4), ic = pick(r, 1, 5), oc = pick(r, 1, 9),
                kh = pick(r, 1, 4), kw = pick(r, 1, 4), stride = pick(r, 1, 3), dilation = pick(r, 1, 2),
                h = dilation * (kh - 1) + pick(r, 1, 12), w = dilation * (kw - 1) + pick(r, 1, 21);
  const int64_t oh = (h - dilation * (kh - 1) - 1) / stride + 1,
                ow = (w - dilation * (kw - 1) - 1) / stride + 1;
  Tensor x = te::placeholder({at(1), at(groups * ic), at(h), at(w)}, f32, "X"),
         k = te::placeholder({at(groups * oc), at(ic), at(kh), at(kw)}, f32, "K");
  tir::IterVar rc = te::reduce_axis(tir::range(at(0), at(ic)), "rc"),
               ry = te::reduce_axis(tir::range(at(0), at(kh)), "ry"),
               rx = te::reduce_axis(tir::range(at(0), at(kw)), "rx");
  Tensor c = te::compute(
      {at(1), at(groups * oc), at(oh), at(ow)},
      [&](const Vars& v) {
        const PrimExpr channel = groups == 1 ? PrimExpr(rc->var) : tir::floordiv(v[1], at(oc)) * ic + rc->var;
        return te::sum(
            x({v[0], channel, v[2] * stride + ry->var * dilation, v[3] * stride + rx->var * dilation}) *
                k({v[1], rc->var, ry->var, rx->var}),
            {rc, ry, rx});
      },
      "conv");
  return {fmt::format("conv {}x{}x{}x{} {}x{} s{} d{} g{}", ic, oc, h, w, kh, kw, stride, dilation, groups),
          te::create_prim_func({x, k, c}),
          {}};
}

TEST(Generated, DefaultSchedulesComputeTheSame) {
  const std::vector<Target> targets = {target_of({512, 32}), target_of({256, 16})};
  Random random(20261121);
  for (int i = 0; i < 90; ++i) {
    const Program p = i % 3 == 0 ? einsum(random) : i % 3 == 1 ? packed(random) : convolution(random);
    const std::vector<NDArray> expected = run(p.function, p.sizes);
    for (const Target& t : targets) {
      tir::PrimFunc f;
      ASSERT_NO_THROW(f = default_schedule(p.function, t)) << p.name;
      const std::string trace = Trace::from_json(f->attrs.at("tenon.trace").as<std::string>()).to_script();
      std::vector<NDArray> got;
      try {
        got = run(reversed(f), p.sizes);
      } catch (const Error& e) {
        FAIL() << p.name << " " << t->vector_bits << "\n" << e.what() << "\n" << trace;
      }
      ASSERT_TRUE(same(expected, got)) << p.name << " " << t->vector_bits << "\n" << trace;
      ASSERT_EQ(problems_of(f), "") << p.name << " " << t->vector_bits << "\n" << trace;
    }
  }
}

/// A product over panels runs in the register tile without masks on its loads.
TEST(Generated, PanelsFillTheTile) {
  Tensor x = te::placeholder({at(26), at(64)}, f32, "X"),
         w = te::placeholder({at(4), at(64), at(32)}, f32, "W");
  tir::IterVar k = te::reduce_axis(tir::range(at(0), at(64)), "k");
  Tensor c = te::compute(
      {at(26), at(100)},
      [&](const Vars& v) {
        return te::sum(
            x({v[0], k->var}) * w({tir::floordiv(v[1], at(32)), k->var, tir::floormod(v[1], at(32))}), {k});
      },
      "C");
  tir::PrimFunc f = default_schedule(te::create_prim_func({x, w, c}), target_of({512, 32, 1}));
  int loads = 0, masked = 0, unrolled = 1;
  post_order(f, [&](const ObjectRef& n) {
    if (const auto* l = n.as<tir::BufferLoad>(); l && l->buffer->shape.size() == 3)
      ++loads, masked += bool(l->predicate);
    if (const auto* l = n.as<tir::For>(); l && l->kind == tir::ForKind::unrolled)
      unrolled = std::max(unrolled, int(tir::as_int(l->extent).value_or(1)));
  });
  EXPECT_GE(loads, 1);
  EXPECT_EQ(masked, 0) << print(f);
  EXPECT_GE(unrolled, 8) << print(f);
}

}  // namespace
}  // namespace tenon::testing
