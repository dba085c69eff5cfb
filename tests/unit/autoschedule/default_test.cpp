// SPDX-License-Identifier: Apache-2.0
// Default schedules compute what the unscheduled program computes, on every target record, and have the loops
// that make programs fast.
#include "autoschedule/default.h"

#include <ctime>

#include "../schedule/programs.h"
#include "ir/text.h"
#include "test_targets.h"

namespace tenon::testing {
namespace {

Program dense(PrimExpr m, PrimExpr n, PrimExpr k) {  // the weight is (n, k)
  Tensor a = te::placeholder({m, k}, f32, "A"), w = te::placeholder({n, k}, f32, "W"),
         b = te::placeholder({n}, f32, "B");
  tir::IterVar r = te::reduce_axis(tir::range(PrimExpr(0), k), "k");
  Tensor c = te::compute(
      {m, n}, [&](const Vars& v) { return te::sum(a({v[0], r->var}) * w({v[1], r->var}), {r}); }, "C");
  Tensor d = te::compute({m, n}, [&](const Vars& v) { return c({v[0], v[1]}) + b({v[1]}); }, "D");
  return {"dense", te::create_prim_func({a, w, b, d}), {}};
}
Program global_mean(int64_t c, int64_t h, int64_t w) {
  Tensor a = te::placeholder({1, c, h, w}, f32, "A");
  tir::IterVar y = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(h)), "y"),
               x = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(w)), "x");
  Tensor s = te::compute(
      {1, c, 1, 1}, [&](const Vars& v) { return te::sum(a({v[0], v[1], y->var, x->var}), {y, x}); }, "S");
  Tensor o = te::compute(
      {1, c, 1, 1}, [&](const Vars& v) { return s({v[0], v[1], v[2], v[3]}) * (1.0 / double(h * w)); }, "O");
  return {"global_mean", te::create_prim_func({a, o}), {}};
}
Program softmax_channels(int64_t c, int64_t w) {  // along the first axis
  Tensor a = te::placeholder({2, c, w}, f32, "A");
  tir::IterVar k = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(c)), "k"),
               l = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(c)), "l");
  Tensor mx =
      te::compute({2, 1, w}, [&](const Vars& v) { return te::max(a({v[0], k->var, v[2]}), {k}); }, "mx");
  Tensor ex = te::compute(
      {2, c, w},
      [&](const Vars& v) { return tir::exp(a({v[0], v[1], v[2]}) - mx({v[0], PrimExpr(0), v[2]})); }, "ex");
  Tensor sm =
      te::compute({2, 1, w}, [&](const Vars& v) { return te::sum(ex({v[0], l->var, v[2]}), {l}); }, "sm");
  Tensor o = te::compute(
      {2, c, w},
      [&](const Vars& v) { return tir::div(ex({v[0], v[1], v[2]}), sm({v[0], PrimExpr(0), v[2]})); }, "O");
  return {"softmax_channels", te::create_prim_func({a, o}), {}};
}
Program total(int64_t n) {
  Tensor a = te::placeholder({n}, f32, "A");
  tir::IterVar k = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(n)), "k");
  Tensor s = te::compute({}, [&](const Vars&) { return te::sum(a({k->var}), {k}); }, "S");
  return {"total", te::create_prim_func({a, s}), {}};
}
/// Sums over the image of one picture, whose axis of extent 1 keeps no loop once the sum is in lanes.
Program image_sums(int64_t c, int64_t h, int64_t w) {
  Tensor a = te::placeholder({1, c, h, w}, f32, "A");
  tir::IterVar y = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(h)), "y"),
               x = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(w)), "x");
  Tensor s = te::compute(
      {1, c}, [&](const Vars& v) { return te::sum(a({v[0], v[1], y->var, x->var}), {y, x}); }, "S");
  return {"image_sums", te::create_prim_func({a, s}), {}};
}
/// What remains of each pixel without the sum of its group of channels.
Program group_sums(int64_t c, int64_t group, int64_t h, int64_t w) {
  Tensor a = te::placeholder({1, c, h, w}, f32, "A");
  tir::IterVar k = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(group)), "k"),
               y = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(h)), "y"),
               x = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(w)), "x");
  Tensor s = te::compute(
      {c / group},
      [&](const Vars& v) {
        return te::sum(a({PrimExpr(0), v[0] * PrimExpr(group) + k->var, y->var, x->var}), {k, y, x});
      },
      "S");
  Tensor r = te::compute(
      {1, c, h, w},
      [&](const Vars& v) { return a({v[0], v[1], v[2], v[3]}) - s({tir::floordiv(v[1], PrimExpr(group))}); },
      "R");
  return {"group_sums", te::create_prim_func({a, r}), {}};
}
/// Some channels of each of two tensors, which lie in blocks (the last one is not full), joined in blocks of
/// another size: a block may have parts of both.
Program joined_blocks(int64_t channels, int64_t pixels, int64_t from, int64_t to) {
  const int64_t blocks = (channels + from - 1) / from;
  Tensor a = te::placeholder({blocks, pixels, from}, f32, "A"),
         b = te::placeholder({blocks, pixels, from}, f32, "B");
  Tensor joined = te::compute(
      {2 * channels / to, pixels, to},
      [&](const Vars& v) {
        const PrimExpr channel = v[0] * to + v[2], second = channel - channels;
        auto at = [&](const Tensor& x, const PrimExpr& c) {
          return x({tir::floordiv(c, PrimExpr(from)), v[1], tir::floormod(c, PrimExpr(from))});
        };
        return tir::if_then_else(tir::lt(channel, PrimExpr(channels)), at(a, channel), at(b, second));
      },
      "joined");
  return {"joined_blocks", te::create_prim_func({a, b, joined}), {}};
}
Program pointwise(int64_t ic, int64_t h, int64_t w, int64_t oc, bool add) {  // a 1 × 1 convolution
  Tensor x = te::placeholder({1, ic, h, w}, f32, "X"), k = te::placeholder({oc, ic, 1, 1}, f32, "K"),
         b = te::placeholder({oc}, f32, "B"), y = te::placeholder({1, oc, h, w}, f32, "Y");
  tir::IterVar rc = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(ic)), "rc"),
               ry = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(1)), "ry"),
               rx = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(1)), "rx");
  Tensor c = te::compute(
      {1, oc, h, w},
      [&](const Vars& v) {
        return te::sum(
            x({v[0], rc->var, v[2] + ry->var, v[3] + rx->var}) * k({v[1], rc->var, ry->var, rx->var}),
            {rc, ry, rx});
      },
      "conv");
  if (!add) return {"pointwise", te::create_prim_func({x, k, c}), {}};
  Tensor d = te::compute(
      {1, oc, h, w}, [&](const Vars& v) { return c({v[0], v[1], v[2], v[3]}) + b({v[1]}); }, "bias");
  Tensor e = te::compute(
      {1, oc, h, w}, [&](const Vars& v) { return d({v[0], v[1], v[2], v[3]}) + y({v[0], v[1], v[2], v[3]}); },
      "add");
  return {"pointwise", te::create_prim_func({x, k, b, y, e}), {}};
}
Program scalar() {
  Tensor a = te::placeholder({}, f32, "A");
  Tensor b = te::compute({}, [&](const Vars&) { return a({}) + 1.0; }, "B");
  return {"scalar", te::create_prim_func({a, b}), {}};
}

std::vector<Program> programs() {
  tir::VarRef n = tir::var("n"), m = tir::var("m");
  std::vector<Program> out{elementwise(5, 70),
                           elementwise(40, 64),
                           elementwise(1, 300),
                           matmul(6, 7, 5),
                           matmul(33, 50, 19),
                           matmul(16, 64, 32),
                           matmul(64, 64, 16, false),
                           matmul(1, 37, 20),
                           conv(2, 5, 6, 3, 3, 1, 1),
                           conv(3, 14, 14, 10, 3, 1, 1),
                           conv(4, 7, 7, 9, 1, 1, 0),
                           conv(2, 9, 17, 5, 3, 2, 1),
                           softmax(4, 9),
                           softmax(3, 70),
                           softmax(1, 300),
                           row_sum(5, 11),
                           row_sum(4, 100),
                           row_sum(3, 260),
                           column_max(17, 40),
                           argmax(4, 10),
                           transpose(6, 5),
                           transpose(35, 50),
                           layer_norm(4, 10),
                           layer_norm(3, 96),
                           pool(3, 15, 33),
                           depthwise(3, 14, 18),
                           depthwise(2, 7, 7),
                           dense(1, 10, 64),
                           dense(8, 12, 70),
                           dense(3, 5, 128),
                           global_mean(6, 7, 7),
                           global_mean(3, 8, 8),
                           softmax_channels(5, 33),
                           total(100),
                           total(1000),
                           scalar(),
                           image_sums(3, 20, 32),
                           group_sums(12, 3, 9, 16),
                           group_sums(16, 2, 6, 5),
                           joined_blocks(24, 5, 8, 16),
                           joined_blocks(24, 5, 32, 16),
                           joined_blocks(36, 5, 16, 8),
                           pointwise(6, 7, 7, 10, true),
                           conv(3, 18, 18, 40, 3, 2, 1),
                           conv(20, 12, 12, 33, 3, 2, 1),
                           pointwise(5, 14, 14, 6, true),
                           pointwise(4, 7, 7, 9, false),
                           pointwise(3, 5, 16, 4, true)};
  for (auto make : {0, 1, 2, 3, 4}) {
    Program p = make == 0   ? elementwise(n, m)
                : make == 1 ? matmul(n, m, 5)
                : make == 2 ? softmax(n, m)
                : make == 3 ? dense(n, 12, 64)
                            : row_sum(n, m);
    p.name += "_symbolic";
    p.sizes = {{"n", 13}, {"m", 37}};
    out.push_back(p);
  }
  return out;
}

TEST(DefaultSchedule, ComputesTheSame) {
  for (const Program& p : programs()) {
    std::vector<NDArray> expected = run(p.function, p.sizes);
    for (const Target& t : {target_of({512, 32, 4}), target_of({256, 16, 4}), target_of({128, 16, 4})}) {
      tir::PrimFunc f;
      ASSERT_NO_THROW(f = default_schedule(p.function, t)) << p.name;
      std::vector<NDArray> got;
      const std::string trace = Trace::from_json(f->attrs.at("tenon.trace").as<std::string>()).to_script();
      try {
        got = run(reversed(f), p.sizes);
      } catch (const Error& e) {
        FAIL() << p.name << " " << t->vector_bits << "\n" << e.what() << "\n" << trace;
      }
      ASSERT_TRUE(same(expected, got)) << p.name << " " << t->vector_bits << "\n" << trace;
      ASSERT_EQ(problems_of(f), "") << p.name << " " << t->vector_bits << "\n" << trace;
      // The trace makes the identical program.
      Schedule again =
          Schedule::replay(p.function, Trace::from_json(f->attrs.at("tenon.trace").as<std::string>()));
      ASSERT_TRUE(structural_equal(again.function()->body, f->body)) << p.name;
    }
  }
}

TEST(DefaultSchedule, HasParallelLoopsAndVectors) {
  for (const Program& p :
       {conv(64, 28, 28, 64, 3, 1, 1), matmul(128, 256, 64), depthwise(32, 28, 28), softmax(128, 1000),
        layer_norm(64, 768), pool(32, 56, 56), elementwise(64, 784), pointwise(64, 14, 14, 96, true),
        dense(64, 100, 512), row_sum(100, 500), softmax_channels(64, 784), global_mean(256, 7, 7),
        joined_blocks(24, 12544, 8, 16), joined_blocks(24, 12544, 32, 16), joined_blocks(36, 3136, 16, 8)}) {
    for (const Target& t : {target_of({512, 32, 4}), target_of({256, 16, 4})}) {
      tir::PrimFunc f = default_schedule(p.function, t);
      EXPECT_GE(count_loops(f, tir::ForKind::parallel), 1) << p.name << "\n" << print(f);
      if (p.name != "global_mean") {
        EXPECT_GE(count_loops(f, tir::ForKind::vectorized), 1) << p.name << "\n" << print(f);
      }
    }
  }
}

TEST(DefaultSchedule, VectorsStepAcrossRowsThatTheyDoNotFill) {
  for (auto [c, h, w] :
       std::vector<std::tuple<int64_t, int64_t, int64_t>>{{8, 12, 12}, {8, 14, 14}, {16, 7, 7}, {3, 5, 77}}) {
    Tensor a = te::placeholder({c, h, w}, f32, "A");
    Tensor o = te::compute(
        {c, h, w}, [&](const Vars& v) { return tir::exp(a({v[0], v[1], v[2]})) + a({v[0], v[1], v[2]}); },
        "O");
    const tir::PrimFunc f = te::create_prim_func({a, o});
    for (const Target& t : {target_of({512, 32, 4}), target_of({256, 16, 4})}) {
      const tir::PrimFunc g = default_schedule(f, t);
      EXPECT_EQ(count_loops(g, tir::ForKind::vectorized), 1) << print(g);
      ASSERT_TRUE(same(run(f), run(g))) << print(g);
    }
  }
}

std::vector<int64_t> parallel_loops(const tir::PrimFunc& f) {
  std::vector<int64_t> out;
  post_order(f, [&](const ObjectRef& n) {
    const auto* loop = n.as<tir::For>();
    if (loop && loop->kind == tir::ForKind::parallel) out.push_back(*tir::as_int(loop->extent));
  });
  return out;
}
TEST(DefaultSchedule, RowsOfSumsOverOneImageAreChannels) {
  const tir::PrimFunc f = default_schedule(image_sums(64, 112, 112).function, target_of({512, 32, 4}));
  EXPECT_EQ(parallel_loops(f), std::vector<int64_t>{64}) << print(f);
}
/// A group is read again while it is in the caches, and summed once.
TEST(DefaultSchedule, RowsThatShareASumAreOneGroup) {
  const tir::PrimFunc f = default_schedule(group_sums(128, 4, 56, 56).function, target_of({512, 32, 4}));
  EXPECT_EQ(parallel_loops(f), std::vector<int64_t>{32}) << print(f);
}

/// An image with an edge of zeros; few channels lie together.
Program padded_image(int64_t h, int64_t w, int64_t c) {
  Tensor a = te::placeholder({h, w, c}, f32, "A");
  Tensor p = te::compute(
      {h + 2, w + 2, c},
      [&](const Vars& v) {
        const PrimExpr y = v[0] - 1, x = v[1] - 1;
        const PrimExpr in =
            tir::logical_and(tir::logical_and(tir::ge(y, PrimExpr(0)), tir::lt(y, PrimExpr(h))),
                             tir::logical_and(tir::ge(x, PrimExpr(0)), tir::lt(x, PrimExpr(w))));
        return tir::if_then_else(in, a({y, x, v[2]}), PrimExpr(0.0));
      },
      "pad");
  return {"padded_image", te::create_prim_func({a, p}), {}};
}
TEST(DefaultSchedule, RowsOfAPaddedImageAreTasks) {
  for (const auto& [h, tasks] :
       {std::pair<int64_t, int64_t>{62, 64}, {5, 7 * 302}}) {  // few rows are no tasks
    const Program p = padded_image(h, 300, 4);
    const tir::PrimFunc f = default_schedule(p.function, target_of({512, 32, 4}));
    int64_t outer = 0;
    pre_order(f, [&](const ObjectRef& n) {
      const auto* loop = n.as<tir::For>();
      if (loop && outer == 0) outer = *tir::as_int(loop->extent);
      return true;
    });
    EXPECT_EQ(outer, tasks) << print(f);
    EXPECT_TRUE(same(run(p.function), run(reversed(f)))) << print(f);
  }
}

/// A window of 3 × 3 at every second place of a padded plane of 16-bit floats.
Program halved_plane(int64_t h, int64_t w) {
  Tensor a = te::placeholder({4, h, w, 16}, DataType::bfloat16(), "A"),
         k = te::placeholder({4, 3, 3, 16}, f32, "K");
  Tensor p = te::compute(
      {4, h + 2, w + 2, 16},
      [&](const Vars& v) {
        const PrimExpr y = v[1] - 1, x = v[2] - 1;
        const PrimExpr in =
            tir::logical_and(tir::logical_and(tir::ge(y, PrimExpr(0)), tir::lt(y, PrimExpr(h))),
                             tir::logical_and(tir::ge(x, PrimExpr(0)), tir::lt(x, PrimExpr(w))));
        return tir::if_then_else(in, tir::cast(f32, a({v[0], y, x, v[3]})), PrimExpr(0.0));
      },
      "pad");
  tir::IterVar y = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(3)), "y"),
               x = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(3)), "x");
  Tensor d = te::compute(
      {4, h / 2, w / 2, 16},
      [&](const Vars& v) {
        return te::sum(
            p({v[0], v[1] * 2 + y->var, v[2] * 2 + x->var, v[3]}) * k({v[0], y->var, x->var, v[3]}), {y, x});
      },
      "dw");
  return {"halved_plane", te::create_prim_func({a, k, d}), {}};
}
TEST(DefaultSchedule, AnEdgeIsNotAskedForInEveryStepOfASum) {
  const Program p = halved_plane(28, 28);  // each element is read twice
  const tir::PrimFunc f = default_schedule(p.function, target_of({512, 32, 1}));
  EXPECT_NE(print(f).find("T.block(\"pad\")"), std::string::npos) << print(f);
  EXPECT_TRUE(same(run(p.function), run(reversed(f)))) << print(f);
  EXPECT_EQ(problems_of(f), "");
}

TEST(DefaultSchedule, AccumulatorsArePrivateAndUnguarded) {
  tir::PrimFunc f = default_schedule(conv(16, 14, 14, 24, 3, 1, 1).function, target_of({512, 32, 4}));
  bool found = false;
  post_order(f, [&](const ObjectRef& n) {
    const auto* r = n.as<tir::BlockRealize>();
    if (!r || r->block->name != "conv") return;
    found = true;
    EXPECT_EQ(r->block->writes[0]->buffer->scope, "local");
    EXPECT_TRUE(tir::is_const_int(r->predicate, 1));
  });
  EXPECT_TRUE(found);
}

TEST(DefaultSchedule, LanesOfSumsLieSideBySide) {
  // Eight channels innermost, fewer than the lanes of a vector, beside a long row of plain data.
  Tensor a = te::placeholder({8, 14, 302}, f32, "A"), w = te::placeholder({8, 3, 39, 8}, f32, "W");
  tir::IterVar c = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(8)), "c"),
               y = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(3)), "y"),
               x = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(39)), "x");
  Tensor sum = te::compute(
      {12, 264, 8},
      [&](const Vars& v) {
        return te::sum(a({c->var, v[0] + y->var, v[1] + x->var}) * w({c->var, y->var, x->var, v[2]}),
                       {c, y, x});
      },
      "sum");
  tir::PrimFunc f = default_schedule(te::create_prim_func({a, w, sum}), target_of({512, 32, 4}));
  std::unordered_map<const tir::Var*, tir::ForKind> kinds;
  post_order(f, [&](const ObjectRef& n) {
    if (const auto* l = n.as<tir::For>()) kinds[l->loop_var.get()] = l->kind;
  });
  bool found = false;
  post_order(f, [&](const ObjectRef& n) {
    const auto* r = n.as<tir::BlockRealize>();
    if (!r || r->block->name != "sum") return;
    for (size_t i = 0; i < 3; ++i) {
      const bool inside = found;
      post_order(r->iter_values[i], [&](const ObjectRef& e) {
        auto it = e.is<tir::Var>() ? kinds.find(e.as<tir::Var>()) : kinds.end();
        if (it == kinds.end()) return;
        found = found || it->second == tir::ForKind::vectorized;
        EXPECT_FALSE(inside && it->second == tir::ForKind::unrolled) << print(f);
      });
    }
  });
  EXPECT_TRUE(found) << print(f);
}

TEST(DefaultSchedule, SumsWalkTheOperandOfTheLanesAsItLies) {
  for (const bool back : {false, true}) {  // kernel elements in reverse, as of a transposed convolution
    Tensor a = te::placeholder({8, 14, 16}, f32, "A"), w = te::placeholder({5, 8, 3, 16}, f32, "W");
    tir::IterVar c = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(8)), "c"),
                 y = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(3)), "y"),
                 x = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(5)), "x");
    Tensor sum = te::compute(
        {12, 12, 16},
        [&](const Vars& v) {
          const PrimExpr element = back ? 4 - x->var : PrimExpr(x->var),
                         line = back ? 2 - y->var : PrimExpr(y->var);
          return te::sum(a({c->var, v[0] + y->var, v[1] + x->var}) * w({element, c->var, line, v[2]}),
                         {c, y, x});
        },
        "sum");
    tir::PrimFunc f = default_schedule(te::create_prim_func({a, w, sum}), target_of({512, 32, 4}));
    std::vector<const Object*> loops;  // outermost first
    const tir::BlockRealize* block = nullptr;
    pre_order(f, [&](const ObjectRef& n) {
      if (const auto* l = n.as<tir::For>()) loops.push_back(l->loop_var.get());
      if (const auto* r = n.as<tir::BlockRealize>(); r && r->block->name == "sum") block = r;
      return true;
    });
    ASSERT_TRUE(block) << print(f);
    auto depth = [&](size_t i) {
      return std::ranges::find(loops, (const Object*)block->iter_values[i].get()) - loops.begin();
    };
    EXPECT_LT(depth(5), depth(3)) << print(f);  // x, c, y
    EXPECT_LT(depth(3), depth(4)) << print(f);
  }
}

TEST(DefaultSchedule, IsQuick) {
  const std::clock_t start = std::clock();  // of this process: the machine has other work
  int kernels = 0;
  for (int i = 0; i < 4; ++i)
    for (const Program& p :
         {conv(32, 56, 56, 64, 3, 1, 1), depthwise(96, 56, 56), pointwise(160, 7, 7, 960, true),
          dense(1, 1000, 1280), global_mean(1280, 7, 7)}) {
      default_schedule(p.function, target_of({512, 32, 4}));
      ++kernels;
    }
  const double seconds = double(std::clock() - start) / CLOCKS_PER_SEC;
  RecordProperty("milliseconds_per_kernel", int(seconds * 1000 / kernels));
  EXPECT_LT(seconds / kernels, 0.5);  // generous: sanitizers
}

TEST(DefaultSchedule, BlocksOfTwoChannelsOfThree) {
  // The fourth channel is filled up: both loops under its condition are straight code inside those of the
  // image.
  Tensor x = te::placeholder({3, 6, 10}, f32, "X");
  Tensor y = te::compute(
      {2, 6, 10, 2},
      [&](const Vars& v) {
        const PrimExpr channel = v[0] * 2 + v[3];
        return tir::if_then_else(tir::lt(channel, PrimExpr(3)), x({channel, v[1], v[2]}),
                                 tir::const_of(f32, 0));
      },
      "Y");
  const Program p{"blocks of two", te::create_prim_func({x, y}), {}};
  const tir::PrimFunc f = default_schedule(p.function, target_of({}));
  EXPECT_TRUE(same(run(p.function), run(f))) << print(f);
  EXPECT_NE(print(f).find("T.unroll(2)"), std::string::npos) << print(f);
}

/// A mask that heads share: an axis of one step between does not make heads and columns one array of it.
TEST(DefaultSchedule, AxesOfOneStepJoinNothing) {
  const tir::VarRef n = tir::var("n");
  for (const PrimExpr& columns : {PrimExpr(n), PrimExpr(70)}) {
    Tensor a = te::placeholder({12, 1, columns}, f32, "A"), mask = te::placeholder({1, 1, columns}, f32, "M");
    Tensor b = te::compute(
        {12, 1, columns}, [&](const Vars& v) { return a({v[0], v[1], v[2]}) + mask({0, v[1], v[2]}); }, "B");
    const Program p{"masked", te::create_prim_func({a, mask, b}), {}};
    const tir::PrimFunc f = default_schedule(p.function, target_of({512, 32, 2}));
    EXPECT_EQ(print(f).find("// n"), std::string::npos) << print(f);
    EXPECT_EQ(print(f).find("// 70"), std::string::npos) << print(f);
    ASSERT_TRUE(same(run(p.function, {{"n", 37}}), run(f, {{"n", 37}}))) << print(f);
  }
  // What all walk as one array stays one.
  Tensor a = te::placeholder({12, 1, n}, f32, "A"), c = te::placeholder({12, 1, n}, f32, "C");
  Tensor b = te::compute(
      {12, 1, n}, [&](const Vars& v) { return a({v[0], v[1], v[2]}) + c({v[0], v[1], v[2]}); }, "B");
  const tir::PrimFunc f = default_schedule(te::create_prim_func({a, c, b}), target_of({512, 32, 2}));
  EXPECT_NE(print(f).find("// n"), std::string::npos) << print(f);
}

/// Rows that gather are tasks of their own, however many digits their places have.
TEST(DefaultSchedule, RowsThatGatherDivideAlone) {
  const tir::VarRef a = tir::var("a"), b = tir::var("b"), c = tir::var("c"), n = tir::var("n"),
                    m = tir::var("m");
  Tensor x = te::placeholder({a, b, c, n}, f32, "X"), at = te::placeholder({m}, i64, "I");
  auto rows = [&](bool gathers) {
    return te::compute(
        {a, b, c, m},
        [&](const Vars& v) {
          const PrimExpr column = gathers ? at({v[3]}) : tir::floordiv(v[3], PrimExpr(2));
          return x({v[0], v[1], v[2], tir::max(PrimExpr(0), tir::min(column, n - 1))});
        },
        "Y");
  };
  for (const bool gathers : {true, false}) {
    const tir::PrimFunc f =
        default_schedule(te::create_prim_func({x, at, rows(gathers)}), target_of({512, 32, 2}));
    EXPECT_EQ(print(f).find("// 8") == std::string::npos, gathers) << print(f);
  }
}

}  // namespace
}  // namespace tenon::testing
