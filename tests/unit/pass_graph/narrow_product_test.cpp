// SPDX-License-Identifier: Apache-2.0
// narrow_product: products of widened bytes against sums of the test's own, with zero points of every kind,
// sums that fill no group and operands of two and three axes.
#include "support.h"
#include "target/target.h"

namespace tenon::graph::testing_graph {
namespace {

constexpr DataType i8 = DataType::int_(8);

Ref<TargetNode> with_dots() {
  Ref<TargetNode> t = make<TargetNode>();
  TargetNode* n = t.edit();
  n->triple = "x86_64-unknown-linux-gnu";
  n->features = {"sse4_2", "avx", "avx2", "fma", "avx512f", "avx512bw", "avx512vl", "avx512_vnni"};
  n->vector_bits = 512;
  n->vector_registers = 32;
  return t;
}

NDArray bytes(std::vector<int64_t> shape, DataType t, uint64_t seed) {
  std::mt19937_64 random(seed);
  NDArray a = NDArray::empty(std::move(shape), t);
  for (int64_t i = 0; i < a.size(); ++i)
    a.set_element_int(i, int64_t(random() % 256) - (t == DataType::uint(8) ? 0 : 128));
  return a;
}

/// (b, m, k) by (b, k, n), or (n, k) of nn.dense; zero points of one value, or of each row and each column.
struct Case {
  int64_t b, m, k, n;
  DataType x = u8, w = u8;
  enum class Zero : uint8_t { none, one, each } zx = Zero::none, zw = Zero::none;
  bool constant = false, dense = false;

  std::vector<int64_t> shape(int64_t rows, int64_t columns) const {
    return b > 0 ? std::vector<int64_t>{b, rows, columns} : std::vector<int64_t>{rows, columns};
  }
  std::vector<int64_t> shape_x() const { return shape(m, k); }
  std::vector<int64_t> shape_w() const { return dense ? shape(n, k) : shape(k, n); }
  std::vector<int64_t> zero_shape_w() const { return dense ? shape(n, 1) : std::vector<int64_t>{n}; }
};

NDArray zero_of(Case::Zero kind, std::vector<int64_t> each) {
  if (kind == Case::Zero::one) each = {};
  NDArray z = NDArray::empty(each, i32);
  for (int64_t i = 0; i < z.size(); ++i) z.set_element_int(i, 5 + 40 * i % 301);
  return z;
}

IRModule product(const Case& c) {
  Model m;
  auto shape = [](const std::vector<int64_t>& s) {
    Array<PrimExpr> out;
    for (const int64_t d : s) out.push_back(PrimExpr(d));
    return out;
  };
  auto widened = [&](const Expr& e, Case::Zero kind, const NDArray& zero) {
    const Expr wide = m.op("cast", {e}, op::make_attrs<op::CastAttrs>(i32));
    return kind == Case::Zero::none ? wide : m.op("subtract", {wide, constant(zero)});
  };
  const Expr x = m.param("x", shape(c.shape_x()), c.x);
  const Expr w =
      c.constant ? Expr(constant(bytes(c.shape_w(), c.w, 2))) : Expr(m.param("w", shape(c.shape_w()), c.w));
  const Expr a = widened(x, c.zx, zero_of(c.zx, {c.m, 1})),
             b = widened(w, c.zw, zero_of(c.zw, c.zero_shape_w()));
  return m.done(m.op(c.dense ? "nn.dense" : "matmul", {a, b}));
}

/// Element by element, in 64 bits.
NDArray expected(const Case& c, const NDArray& x, const NDArray& w) {
  const NDArray zx = zero_of(c.zx, {c.m, 1}), zw = zero_of(c.zw, c.zero_shape_w());
  auto off = [](Case::Zero kind, const NDArray& z, int64_t at) {
    return kind == Case::Zero::none ? 0 : z.element_int(kind == Case::Zero::one ? 0 : at);
  };
  NDArray out = NDArray::empty(c.shape(c.m, c.n), i32);
  for (int64_t b = 0; b < std::max<int64_t>(c.b, 1); ++b)
    for (int64_t i = 0; i < c.m; ++i)
      for (int64_t j = 0; j < c.n; ++j) {
        int64_t sum = 0;
        for (int64_t k = 0; k < c.k; ++k) {
          const int64_t at = c.dense ? j * c.k + k : (b * c.k + k) * c.n + j;
          sum += (x.element_int((b * c.m + i) * c.k + k) - off(c.zx, zx, i)) *
                 (w.element_int(at) - off(c.zw, zw, j));
        }
        out.set_element_int((b * c.m + i) * c.n + j, sum);
      }
  return out;
}

/// The types of the operands of the product.
std::string operands_of(const IRModule& m) {
  std::string out;
  for_each_binding(main_of(m)->body, [&](const Binding& b) {
    const Expr v = b->value;
    const auto* c = v.as<Call>();
    if (c && op_of(v) && (op_of(v)->name == "matmul" || op_of(v)->name == "nn.dense"))
      out += to_string(as_tensor(c->args[0])->dtype) + " " + to_string(as_tensor(c->args[1])->dtype);
  });
  return out;
}

void expect_operands(const Case& c, const std::string& operands) {
  PassContext context = make_context();
  context.target = with_dots();
  const IRModule in = run_pass("infer_types", product(c), context);
  const NDArray x = bytes(c.shape_x(), c.x, 1), w = bytes(c.shape_w(), c.w, 2);
  const std::vector<NDArray> inputs = c.constant ? std::vector{x} : std::vector{x, w},
                             want{expected(c, x, w)};
  const IRModule out = run_pass("narrow_product", in, context);
  expect_valid(out);
  EXPECT_EQ(operands_of(out), operands);
  expect_close(want, run(in, inputs), 0);
  expect_close(want, run(out, inputs), 0);
}

using Zero = Case::Zero;

TEST(NarrowProduct, OfValuesThatAreComputed) {
  expect_operands({0, 25, 18, 17, u8, i8}, "uint8 int8");
  expect_operands({3, 24, 16, 19, i8, i8}, "int8 int8");
  expect_operands({0, 26, 21, 16, u8, u8, Zero::one, Zero::none}, "uint8 uint8");
  expect_operands({0, 26, 21, 16, u8, u8, Zero::none, Zero::one}, "uint8 uint8");
  expect_operands({2, 24, 17, 18, i8, u8, Zero::one, Zero::each}, "int8 uint8");
  expect_operands({0, 27, 16, 20, u8, i8, Zero::each, Zero::each}, "uint8 int8");
  expect_operands({0, 27, 18, 20, u8, i8, Zero::each, Zero::one, false, true}, "uint8 int8");
}

TEST(NarrowProduct, OfConstantsWhoseSumFillsNoGroup) {
  // One row: nothing is laid out when the model runs.
  expect_operands({0, 1, 18, 17, u8, i8, Zero::none, Zero::none, true}, "uint8 int8");
  expect_operands({0, 5, 19, 33, u8, u8, Zero::one, Zero::each, true}, "uint8 uint8");
  expect_operands({0, 5, 21, 17, u8, u8, Zero::each, Zero::one, true, true}, "uint8 uint8");
}

TEST(NarrowProduct, LeavesWhatDoesNotPay) {
  expect_operands({0, 3, 32, 32, u8, i8}, "int32 int32");  // w would be laid out for three rows
  expect_operands({0, 30, 7, 32, u8, i8}, "int32 int32");  // a short sum
  expect_operands({0, 30, 32, 9, u8, i8}, "int32 int32");  // few columns
  expect_operands({0, 30, 32, 32, u8, i8, Zero::none, Zero::each, false, true}, "int32 int32");  // by columns
}

}  // namespace
}  // namespace tenon::graph::testing_graph
