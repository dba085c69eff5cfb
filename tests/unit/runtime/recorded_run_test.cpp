// SPDX-License-Identifier: Apache-2.0
// Runs that are recorded and replayed give what runs step by step give: the same call many times, other sizes
// in between, results that the caller keeps.
#include <gtest/gtest.h>

#include <random>

#include "program.h"

namespace tenon {
namespace {
using namespace test;

Artifact make_artifact(Executable e) { return Artifact::from_executable(std::move(e), resolve); }

/// main(x: f32[n], y: f32[n]) = (4x + 3y, 2x + y as [1, n], x): the first result is written by the last of a
/// chain whose tensors take turns, the second is a view, the third is an input.
Executable chain() {
  Builder b;
  auto alloc = [&](int32_t dst) { b.builtin(dst, "alloc_tensor", {imm(dtype_word(f32)), heap(0)}); };
  auto add = [&](Arg x, Arg y, int32_t out) { b.kernel("test_add", 3, {x, y, reg(out), heap(0)}); };
  b.begin("main", 2, 9, 1)
      .builtin(-1, "match_shape", {reg(0), imm(1), imm(1), imm(0)})
      .builtin(-1, "match_shape", {reg(1), imm(1), imm(2), imm(0)});
  alloc(2), add(reg(0), reg(0), 2);  // 2x
  alloc(3), add(reg(2), reg(1), 3);  // 2x + y
  b.builtin(4, "reshape", {reg(3), imm(1), heap(0)});
  alloc(5), add(reg(2), reg(1), 5);  // 2x + y
  alloc(2), add(reg(5), reg(5), 2);  // 4x + 2y
  b.builtin(5, "none", {});
  alloc(6), add(reg(2), reg(1), 6);  // 4x + 3y
  b.builtin(7, "tuple", {reg(6), reg(4), reg(0)}).ret(7);
  b.e.functions[0].params = {{"x", f32, true, {{-1, "n"}}}, {"y", f32, true, {{-1, "n"}}}};
  return b.e;
}

std::vector<float> drawn(std::mt19937& random, int64_t n) {
  std::vector<float> v(static_cast<size_t>(n));
  for (float& x : v) x = float(int(random() % 100));
  return v;
}

struct Kept {
  std::vector<NDArray> out;
  std::vector<float> x, y;
};

void expect_chain(const Kept& k) {
  ASSERT_EQ(k.out.size(), 3u);
  const int64_t n = int64_t(k.x.size());
  EXPECT_EQ(k.out[1].shape(), (std::vector<int64_t>{1, n}));
  for (size_t i = 0; i < k.x.size(); ++i) {
    EXPECT_EQ(values(k.out[0])[i], 4 * k.x[i] + 3 * k.y[i]);
    EXPECT_EQ(values(k.out[1])[i], 2 * k.x[i] + k.y[i]);
    EXPECT_EQ(values(k.out[2])[i], k.x[i]);
  }
}

TEST(RecordedRun, ResultsThatAreKeptStayAsTheyWere) {
  Session session(make_artifact(chain()));
  std::mt19937 random(7);
  std::vector<Kept> kept;
  for (int run = 0; run < 200; ++run) {
    // Runs of equal sizes of many lengths: some are recorded, some are not worth it.
    static int64_t n = 5;
    if (random() % 12 == 0) n = int64_t(random() % 3000);
    Kept k{{}, drawn(random, n), drawn(random, n)};
    k.out = session.invoke({floats(k.x, {n}), floats(k.y, {n})});
    expect_chain(k);
    kept.push_back(std::move(k));
    if (kept.size() > 20) kept.erase(kept.begin() + int64_t(random() % kept.size()));
  }
  for (const Kept& k : kept) expect_chain(k);
}

TEST(RecordedRun, WritesIntoBuffersOfTheCaller) {
  Session session(make_artifact(chain()));
  for (int run = 0; run < 10; ++run) {
    const NDArray x = floats(std::vector<float>(4, float(run))), y = floats({1, 2, 3, 4});
    NDArray out[3] = {NDArray::zeros({4}, f32), run % 2 ? NDArray::zeros({1, 4}, f32) : NDArray(), NDArray()};
    void* place = out[0].data();
    const NDArray inputs[] = {x, y};
    session.invoke_into(inputs, out);
    EXPECT_EQ(out[0].data(), place);
    EXPECT_NE(out[2].data(), x.data());
    expect_chain({{out[0], out[1], out[2]}, values(x), values(y)});
    // A buffer that is an input, too, is written when the run is over.
    NDArray again[3] = {x, NDArray(), NDArray()};
    const std::vector<float> before = values(x);
    session.invoke_into(inputs, again);
    EXPECT_EQ(values(again[0])[3], 4 * before[3] + 12);
    EXPECT_EQ(values(again[1])[3], 2 * before[3] + 4);
  }
}

TEST(RecordedRun, OneTensorForTwoInputs) {
  Session session(make_artifact(chain()));
  for (int run = 0; run < 8; ++run) {
    const NDArray x = floats({1, 2, float(run)}), y = floats({4, 5, 6});
    expect_chain({session.invoke({x, x}), values(x), values(x)});
    expect_chain({session.invoke({x, y}), values(x), values(y)});
  }
  Session other(make_artifact(chain()));
  for (int run = 0; run < 8; ++run) {
    const NDArray x = floats({1, 2, float(run)}), y = floats({4, 5, 6});
    expect_chain({other.invoke({x, y}), values(x), values(y)});
    if (run > 4) expect_chain({other.invoke({y, y}), values(y), values(y)});
  }
}

TEST(RecordedRun, ElementsOfTensorsThatDecideAreReadEachTime) {
  // main(x: f32[n], k: int64) = 2x, of as many elements as k says
  Builder b;
  b.begin("main", 2, 4)
      .builtin(2, "alloc_tensor", {imm(dtype_word(f32)), reg(1)})
      .kernel("test_add", 3, {reg(0), reg(0), reg(2), reg(1)})
      .ret(2);
  Session session(make_artifact(b.e));
  for (int64_t k : {3, 3, 3, 3, 2, 1, 3}) {
    NDArray count = NDArray::empty({}, i64);
    count.set_element_int(0, k);
    EXPECT_EQ(session.invoke({floats({1, 2, 3}), count})[0].shape(), std::vector<int64_t>{k});
  }
}

TEST(RecordedRun, ConstantsAndTheArenaAreCopied) {
  Session session(make_artifact(add_program()));
  std::vector<NDArray> kept;
  for (int run = 0; run < 8; ++run) {
    const NDArray a = floats(std::vector<float>(8, float(run)), {2, 4}),
                  c = floats(std::vector<float>(8, 1), {2, 4});
    kept.push_back(session.invoke({a, c})[0]);
  }
  for (int run = 0; run < 8; ++run)
    EXPECT_EQ(values(kept[size_t(run)]), std::vector<float>(8, float(run) + 1.5f));

  Builder b;  // main(x) = (a constant, what the arena holds)
  b.e.constants.push_back(floats({7, 8}));
  b.e.arena_tensors.push_back({0, {2}, f32});
  b.e.arena_bytes = 64;
  b.begin("main", 1, 2)
      .kernel("test_add", 3, {reg(0), reg(0), arena(0), imm(2)})
      .builtin(1, "tuple", {constant(0), arena(0)})
      .ret(1);
  Session copies(make_artifact(b.e));
  std::vector<std::vector<NDArray>> all;
  for (int run = 0; run < 8; ++run) {
    all.push_back(copies.invoke({floats({float(run), 1})}));
    all.back()[0].as_ptr<float>()[0] = -1;  // the caller's own
  }
  for (int run = 0; run < 8; ++run) {
    EXPECT_EQ(values(all[size_t(run)][0]), (std::vector<float>{-1, 8}));
    EXPECT_EQ(values(all[size_t(run)][1]), (std::vector<float>{2 * float(run), 2}));
  }
}

TEST(RecordedRun, AKernelThatFailsLeavesTheSessionUsable) {
  // main(x: f32[n]) = 2x, or an error where the first element is negative
  Builder b;
  b.e.metadata.emplace_back("outputs.negative", "0");
  b.begin("main", 1, 2, 1)
      .builtin(-1, "match_shape", {reg(0), imm(1), imm(1), imm(0)})
      .builtin(1, "alloc_tensor", {imm(dtype_word(f32)), heap(0)})
      .kernel("test_add", 3, {reg(0), reg(0), reg(1), heap(0)})
      .kernel("negative", 1, {reg(1)})
      .ret(1);
  Session session(make_artifact(b.e));
  const NDArray good = floats({1, 2, 3}), bad = floats({-1, 2, 3});
  for (int run = 0; run < 8; ++run) {
    EXPECT_EQ(values(session.invoke({good})[0]), (std::vector<float>{2, 4, 6}));
    EXPECT_EQ(error_code([&] { session.invoke({bad}); }), "T0509") << run;
    EXPECT_EQ(bad.use_count(), 1) << run;  // nothing holds the caller's tensor
  }
}

int counted = 0;
/// (out[n], n): out = n.
int32_t counted_kernel(void* const* buffers, const int64_t* scalars, const TenonKernelContext*) {
  ++counted;
  for (int64_t i = 0; i < scalars[0]; ++i) static_cast<float*>(buffers[0])[i] = float(scalars[0]);
  return 0;
}
Artifact with_counted(Executable e) {
  return Artifact::from_executable(std::move(e), [](const std::string& name) {
    return name == "counted" ? reinterpret_cast<void*>(counted_kernel) : resolve(name);
  });
}

TEST(RecordedRun, WhatFollowsFromShapesIsComputedOnce) {
  // main(x: f32[n]) = (4x + 2k, k) where k = n: 2k is written once, k is a result and written anew
  Builder b;
  auto alloc = [&](int32_t dst) { b.builtin(dst, "alloc_tensor", {imm(dtype_word(f32)), heap(0)}); };
  auto add = [&](int32_t x, int32_t y, int32_t out) {
    b.kernel("test_add", 3, {reg(x), reg(y), reg(out), heap(0)});
  };
  b.begin("main", 1, 6, 1).builtin(-1, "match_shape", {reg(0), imm(1), imm(1), imm(0)});
  alloc(2), add(0, 0, 2);  // 2x, in a place that is free when 2k comes
  alloc(3), add(2, 2, 3);  // 4x
  alloc(1), b.kernel("counted", 1, {reg(1), heap(0)});
  alloc(2), add(1, 1, 2);                               // 2k
  alloc(4), b.kernel("counted", 1, {reg(4), heap(0)});  // read by none
  alloc(4), add(3, 2, 4);                               // 4x + 2k
  alloc(2), add(4, 4, 2);                               // in no place that is kept
  b.builtin(5, "tuple", {reg(4), reg(1)}).ret(5);
  Session session(with_counted(b.e));
  counted = 0;
  for (int64_t n : {3, 4})
    for (int run = 0; run < 8; ++run) {
      const auto out = session.invoke({floats(std::vector<float>(size_t(n), float(run)), {n})});
      EXPECT_EQ(values(out[0]), std::vector<float>(size_t(n), 4 * float(run) + 2 * float(n)));
      EXPECT_EQ(values(out[1]), std::vector<float>(size_t(n), float(n)));
      out[1].as_ptr<float>()[0] = -1;  // the caller's own
    }
  // Twice in the runs before and the recorded one, of which there are 3 and then 4, else once.
  EXPECT_EQ(counted, 2 * 3 + 5 + 2 * 4 + 4);
}

TEST(RecordedRun, ShapesFromFixedTensors) {
  // main(x: f32[n]) = 2x of as many elements as a constant says, or an input
  for (const bool fixed : {true, false}) {
    Builder b;
    b.begin("main", 2, 6, 1).builtin(-1, "match_shape", {reg(0), imm(1), imm(1), imm(0)});
    b.e.constants.push_back(NDArray::zeros({1}, i64));
    b.builtin(3, "tensor_to_shape", {fixed ? constant(0) : reg(1)});
    b.builtin(4, "alloc_tensor", {imm(dtype_word(f32)), reg(3)});
    b.builtin(-1, "match_shape", {reg(4), imm(1), imm(1), imm(0)});
    b.kernel("test_add", 3, {reg(0), reg(0), reg(4), heap(0)}).ret(4);
    b.e.constants[0].as_ptr<int64_t>()[0] = 2;
    Session session(make_artifact(b.e));
    for (int64_t k : {2, 2, 2, 2, 2, 1, 3}) {
      NDArray count = NDArray::zeros({1}, i64);
      count.set_element_int(0, k);
      const auto out = session.invoke({floats({1, 2, 3}), count})[0];
      EXPECT_EQ(out.shape(), std::vector<int64_t>{fixed ? 2 : k});
      EXPECT_EQ(values(out)[0], 2);
    }
  }
}

/// main(x: f32[n], k: i64) = ((4 - k) x, the same as [1, n], 2x, x) for k up to 0, which is counted up in a
/// loop: what it adds to is a tensor of the steps in front of it, one of the results is left from there.
Executable counts_up() {
  Builder b;
  auto alloc = [&](int32_t dst) { b.builtin(dst, "alloc_tensor", {imm(dtype_word(f32)), heap(0)}); };
  auto add = [&](int32_t x, int32_t y, int32_t out) {
    b.kernel("test_add", 3, {reg(x), reg(y), reg(out), heap(0)});
  };
  b.begin("main", 2, 10, 2)
      .builtin(-1, "match_shape", {reg(0), imm(1), imm(1), imm(0)})
      .builtin(-1, "compute_shape", {imm(1), imm(1), imm(0)})
      .builtin(-1, "match_shape", {reg(0), imm(1), imm(2), imm(1)});
  alloc(2), add(0, 0, 2);  // 2x
  alloc(8), add(2, 0, 8);  // 3x
  alloc(3), add(8, 0, 3);  // 4x
  b.builtin(4, "reshape", {reg(3), imm(1), heap(0)}).builtin(5, "move", {reg(1)});
  b.builtin(6, "scalar", {reg(5)}).branch(reg(6), 8);
  alloc(8), add(3, 0, 8);
  b.builtin(-1, "copy_into", {reg(3), reg(8)});
  b.builtin(7, "alloc_tensor", {imm(dtype_word(i64))}).kernel("increment", 2, {reg(5), reg(7), imm(1)});
  b.builtin(5, "move", {reg(7), imm(1)}).jump(-8);
  b.builtin(9, "tuple", {reg(3), reg(4), reg(2), reg(0)}).ret(9);
  return b.e;
}

TEST(RecordedRun, StepsBeforeWhatElementsDecideAreReplayed) {
  Session session(make_artifact(counts_up()));
  struct Run {
    std::vector<NDArray> out;
    float x, k;
  };
  std::vector<Run> all;
  for (int64_t n : {3, 3000, 0, 4})
    for (int run = 0; run < 12; ++run) {
      const NDArray x = floats(std::vector<float>(size_t(n), float(run)), {n});
      NDArray k = NDArray::empty({}, i64);
      k.set_element_int(0, -(run % 3));
      all.push_back({session.invoke({x, k}), float(run), float(-(run % 3))});
      EXPECT_EQ(x.use_count(), 1) << run;
    }
  for (const Run& r : all) {
    const int64_t n = r.out[0].size();
    const auto times = [&](float f) { return std::vector<float>(size_t(n), f * r.x); };
    ASSERT_EQ(r.out.size(), 4u);
    EXPECT_EQ(values(r.out[0]), times(4 - r.k));
    EXPECT_EQ(r.out[1].shape(), (std::vector<int64_t>{1, n}));
    EXPECT_EQ(values(r.out[1]), times(4 - r.k));
    EXPECT_EQ(values(r.out[2]), times(2));
    EXPECT_EQ(values(r.out[3]), times(1));
  }
}

TEST(RecordedRun, AProfileSeesEveryStepOfLaterRuns) {
  Session session(make_artifact(chain()));
  const NDArray x = floats({1, 2}), y = floats({3, 4});
  for (int run = 0; run < 5; ++run) session.invoke({x, y});
  int steps = 0;
  session.set_profile([&](std::string_view, double) { ++steps; });
  session.invoke({x, y});
  EXPECT_EQ(steps, 15);
  session.set_profile(nullptr);
  expect_chain({session.invoke({x, y}), {1, 2}, {3, 4}});
}

}  // namespace
}  // namespace tenon
