// SPDX-License-Identifier: Apache-2.0
// Operators that place elements anew, products and lengths of vectors, against definitions written here.
#include "op/attrs_arrange.h"
#include "op_test.h"

namespace tenon::op_test {
namespace {

using Ints = Array<int64_t>;

TEST(Arrange, StackSwapRoll) {
  const NDArray a = random({2, 3}), b = random({2, 3}, f32, 0, 1, 2), c = random({2, 3}, f32, 0, 1, 3);
  const NDArray parts[] = {a, b, c};
  for (int64_t axis : {0, 1, 2, -1, -3}) {
    const size_t d = size_t(axis < 0 ? axis + 3 : axis);
    Dims shape{2, 3};
    shape.insert(shape.begin() + std::ptrdiff_t(d), 3);
    expect_all(run_tuple("stack", {a, b, c}, make_attrs<AxisAttrs>(axis)), shape, [&](const Index& i) {
      Index at_part = i;
      at_part.erase(at_part.begin() + std::ptrdiff_t(d));
      return at(parts[i[d]], at_part);
    });
  }
  EXPECT_THROW(run_tuple("stack", {a, random({3, 2})}), Error);
  const NDArray x = random({2, 3, 4});
  expect_all(run("swap_axes", {x}, make_attrs<AxesAttrs>(Ints{0, -1})), {4, 3, 2},
             [&](const Index& i) { return at(x, {i[2], i[1], i[0]}); });
  expect_refused("swap_axes", {x}, make_attrs<AxesAttrs>(Ints{0, 1, 2}), {"3 axes"});
  expect_all(run("roll", {x}, make_attrs<RollAttrs>(Ints{1, -6}, Ints{1, 2})), {2, 3, 4},
             [&](const Index& i) { return at(x, {i[0], (i[1] + 2) % 3, (i[2] + 6) % 4}); });
  EXPECT_EQ(run("roll", {random({0, 3})}, make_attrs<RollAttrs>(Ints{1}, Ints{0})).shape(), (Dims{0, 3}));
  expect_refused("roll", {x}, make_attrs<RollAttrs>(Ints{1, 2}, Ints{1}), {"roll"});
}

TEST(Arrange, LikeAnotherTensor) {
  const NDArray x = random({3, 1}), y = random({2, 3, 4});
  expect_all(run("broadcast_like", {x, y}), {2, 3, 4}, [&](const Index& i) { return at(x, {i[1], 0}); });
  expect_refused("broadcast_like", {y, x}, {}, {"(2, 3, 4)", "(3, 1)"});
  const NDArray z = random({4, 6});
  expect_all(run("reshape_like", {y, z}), {4, 6}, [&](const Index& i) {
    const int64_t k = i[0] * 6 + i[1];
    return at(y, {k / 12, k / 4 % 3, k % 4});
  });
  expect_refused("reshape_like", {x, z}, {}, {"(3, 1)", "(4, 6)"});
  expect_all(run("slice_like", {z, random({2, 9})}, make_attrs<AxesAttrs>(Ints{0})), {2, 6},
             [&](const Index& i) { return at(z, i); });
  expect_refused("slice_like", {z, random({2, 9})}, {}, {"6 elements", "9"});
}

TEST(Arrange, Sequences) {
  const NDArray x = random({4, 3, 2}), lengths = values({3}, {0, 2, 9}, i64);
  expect_all(run("reverse_sequence", {x, lengths}), {4, 3, 2}, [&](const Index& i) {
    const int64_t n = std::min<int64_t>(4, std::vector<int64_t>{0, 2, 9}[size_t(i[1])]);
    return at(x, {i[0] < n ? n - 1 - i[0] : i[0], i[1], i[2]});
  });
  expect_all(
      run("sequence_mask", {x, lengths}, make_attrs<MaskAttrs>(int64_t(0), -7.0)), {4, 3, 2},
      [&](const Index& i) { return i[0] < std::vector<int64_t>{0, 2, 9}[size_t(i[1])] ? at(x, i) : -7; });
  expect_refused("reverse_sequence", {x, values({2}, {1, 1}, i64)}, {}, {"lengths (2,)", "(3,)"});
  expect_refused("sequence_mask", {x, random({3})}, {}, {"integers"});
  const NDArray mask = values({3, 1}, {1, 0, 1}, boolean);
  expect_all(run("masked_fill", {x, mask}, make_attrs<MaskAttrs>(int64_t(0), -inf)), {4, 3, 2},
             [&](const Index& i) { return i[1] == 1 ? at(x, i) : -inf; });
  expect_refused("masked_fill", {x, lengths}, {}, {"boolean"});
}

TEST(Arrange, DilateAndBlocks) {
  const NDArray x = random({2, 3});
  expect_all(run("dilate", {x}, make_attrs<DilateAttrs>(Ints{1, 3}, 0.5)), {2, 7},
             [&](const Index& i) { return i[1] % 3 ? 0.5 : at(x, {i[0], i[1] / 3}); });
  EXPECT_EQ(run("dilate", {random({0, 2})}, make_attrs<DilateAttrs>(Ints{2, 2}, 0.0)).shape(), (Dims{0, 3}));
  const NDArray y = random({2, 3, 4, 5});
  const NDArray blocks = run("space_to_batch_nd", {y}, make_attrs<BlockAttrs>(Ints{2, 2}, Ints{1, 0, 0, 2}));
  expect_all(blocks, {8, 2, 3, 5}, [&](const Index& i) {
    const int64_t place = i[0] / 2, row = i[1] * 2 + place / 2 - 1, column = i[2] * 2 + place % 2;
    return at_or(y, {i[0] % 2, row, column, i[3]}, 0);
  });
  expect_all(run("batch_to_space_nd", {blocks}, make_attrs<BlockAttrs>(Ints{2, 2}, Ints{1, 0, 0, 2})),
             {2, 3, 4, 5}, [&](const Index& i) { return at(y, i); });
  expect_refused("space_to_batch_nd", {y}, make_attrs<BlockAttrs>(Ints{2, 2}, Ints{}), {"axis 1", "3"});
  expect_refused("batch_to_space_nd", {random({3, 2, 2})}, make_attrs<BlockAttrs>(Ints{2}, Ints{}),
                 {"batch of 3"});
}

TEST(Arrange, WindowsAndChannels) {
  const NDArray x = random({2, 3, 5, 6});
  expect_all(run("im2col", {x}, make_attrs<UnfoldAttrs>(Ints{2, 3}, Ints{2, 1}, Ints{1, 0}, Ints{1, 2})),
             {2, 18, 6}, [&](const Index& i) {
               const int64_t c = i[1] / 6, kh = i[1] / 3 % 2, kw = i[1] % 3, h = i[2] / 2, w = i[2] % 2;
               return at_or(x, {i[0], c, h * 2 + kh - 1, w + kw * 2}, 0);
             });
  expect_refused("im2col", {x}, make_attrs<UnfoldAttrs>(Ints{7}, Ints{}, Ints{}, Ints{}), {"window of 7"});
  const NDArray y = random({1, 6, 2});
  expect_all(run("channel_shuffle", {y}, make_attrs<GroupsAttrs>(int64_t(3))), {1, 6, 2},
             [&](const Index& i) { return at(y, {i[0], i[1] % 3 * 2 + i[1] / 3, i[2]}); });
  expect_refused("channel_shuffle", {y}, make_attrs<GroupsAttrs>(int64_t(4)), {"groups"});
}

TEST(Arrange, DiagonalsAndProducts) {
  const NDArray x = random({2, 3, 4});
  for (int64_t offset : {0, 1, -2, 7})
    expect_all(run("trace", {x}, make_attrs<OffsetAttrs>(offset)), {2}, [&](const Index& i) {
      double s = 0;
      for (int64_t r = 0; r < 3; ++r) s += at_or(x, {i[0], r, r + offset}, 0);
      return s;
    });
  const NDArray d = random({2, 3}, f32, 5, 6);
  expect_all(run("matrix_set_diag", {x, d}), {2, 3, 4},
             [&](const Index& i) { return i[1] == i[2] ? at(d, {i[0], i[1]}) : at(x, i); });
  expect_refused("matrix_set_diag", {x, random({2, 4})}, {}, {"(2, 4)", "(2, 3, 4)"});
  const NDArray a = random({5}), b = random({5}, f32, 0, 1, 4), e = random({3}, f32, 0, 1, 5);
  expect_all(run("outer", {a, e}), {5, 3}, [&](const Index& i) { return at(a, {i[0]}) * at(e, {i[1]}); });
  expect_all(run("dot", {a, b}), {}, [&](const Index&) {
    double s = 0;
    for (int64_t i = 0; i < 5; ++i) s += at(a, {i}) * at(b, {i});
    return s;
  });
  EXPECT_EQ(list(run("dot", {random({0}), random({0})})), (std::vector<double>{0}));
  expect_refused("dot", {a, e}, {}, {"(5,)", "(3,)"});
  const NDArray u = random({2, 3}, f32, -1, 1, 6), v = random({2, 3}, f32, -1, 1, 7);
  expect_all(run("cross", {u, v}), {2, 3}, [&](const Index& i) {
    const int64_t p = (i[1] + 1) % 3, q = (i[1] + 2) % 3;
    return at(u, {i[0], p}) * at(v, {i[0], q}) - at(u, {i[0], q}) * at(v, {i[0], p});
  });
  const NDArray w = random({3, 2});
  expect_all(run("kron", {u, w}), {6, 6},
             [&](const Index& i) { return at(u, {i[0] / 3, i[1] / 2}) * at(w, {i[0] % 3, i[1] % 2}); });
}

TEST(Arrange, SearchSorted) {
  for (int64_t n : {0, 1, 2, 7, 8}) {
    NDArray sorted = NDArray::empty({n}, f32);
    for (int64_t i = 0; i < n; ++i) sorted.set_element(i, double(i / 2));  // pairs of equals
    const NDArray values_ = values({3, 3}, {-1, 0, 0.5, 1, 2, 2.5, 3, 9, inf});
    for (bool right : {false, true})
      expect_all(
          run("searchsorted", {sorted, values_}, make_attrs<RightAttrs>(right)), {3, 3}, [&](const Index& i) {
            int64_t before = 0;
            for (int64_t k = 0; k < n; ++k)
              before += right ? sorted.element(k) <= at(values_, i) : sorted.element(k) < at(values_, i);
            return double(before);
          });
  }
  expect_refused("searchsorted", {random({2, 2}), random({2})}, {}, {"(2, 2)"});
}

TEST(Arrange, GatesAndLengths) {
  const NDArray x = random({3, 4});
  expect_all(run("nn.glu", {x}), {3, 2},
             [&](const Index& i) { return at(x, i) / (1 + std::exp(-at(x, {i[0], i[1] + 2}))); });
  expect_refused("nn.glu", {x}, make_attrs<AxisAttrs>(int64_t(0)), {"halves"});
  expect_all(run("nn.l2_normalize", {x}, make_attrs<NormalizeAttrs>(int64_t(0), 1e-12)), {3, 4},
             [&](const Index& i) {
               double s = 0;
               for (int64_t r = 0; r < 3; ++r) s += at(x, {r, i[1]}) * at(x, {r, i[1]});
               return at(x, i) / std::sqrt(s);
             });
  expect_all(run("nn.l2_normalize", {values({2}, {0, 0})}), {2}, [](const Index&) { return 0.0; });
}

TEST(Arrange, SymbolicSizes) {
  PrimExpr n = tir::var("n");
  const NDArray x = random({4, 3});
  auto check = [&](const char* name, ObjectRef attrs, const Dims& shape,
                   const std::function<double(const Index&)>& want) {
    SCOPED_TRACE(name);
    expect_all(run_call(op_call(name, {input("x", Shape{n, 3})}, attrs), {x})[0], shape, want);
  };
  check("roll", make_attrs<RollAttrs>(Ints{1}, Ints{0}), {4, 3},
        [&](const Index& i) { return at(x, {(i[0] + 3) % 4, i[1]}); });
  check("swap_axes", make_attrs<AxesAttrs>(Ints{0, 1}), {3, 4},
        [&](const Index& i) { return at(x, {i[1], i[0]}); });
  check("dilate", make_attrs<DilateAttrs>(Ints{2, 1}, 0.0), {7, 3},
        [&](const Index& i) { return i[0] % 2 ? 0 : at(x, {i[0] / 2, i[1]}); });
}

}  // namespace
}  // namespace tenon::op_test
