// SPDX-License-Identifier: Apache-2.0
// Weights of products that are kept in a narrower type: compiled against sums of the test's own, by rows that
// are known and not, with matrices (k, n) and (n, k), and what stays in float32.
#include <fmt/format.h>

#include "pipeline/runner.h"
#include "support.h"
#include "target/target.h"

namespace tenon::graph::testing_graph {
namespace {

constexpr int64_t kInputs = 37, kColumns = 50;
const DataType i8 = DataType::int_(8), bf16 = DataType::bfloat16();

/// This machine with a second cache that the weights leave.
CompileOptions small_cache() {
  Target t = host_target();
  t.edit()->l1d_bytes = t.edit()->l2_bytes = 4096;
  CompileOptions o;
  o.target = to_json(t);
  return o;
}

NDArray stored(DataType type, bool dense) {
  const std::vector<int64_t> shape = dense ? std::vector{kColumns, kInputs} : std::vector{kInputs, kColumns};
  if (type.is_float()) return random_array(shape, type, 7);
  NDArray w = NDArray::empty(shape, type);
  for (int64_t i = 0; i < w.size(); ++i) w.set_element_int(i, i * 89 % 256 - (type == i8 ? 128 : 0));
  return w;
}
NDArray widened(const NDArray& w) {
  NDArray out = NDArray::empty(w.shape(), f32);
  for (int64_t i = 0; i < w.size(); ++i) out.set_element(i, w.element(i));
  return out;
}

void expect_products(const NDArray& got, const NDArray& x, const NDArray& w, bool dense, double scale,
                     double zero, const std::string& what) {
  const int64_t rows = x.shape()[0];
  ASSERT_EQ(got.shape(), (std::vector<int64_t>{rows, kColumns})) << what;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < kColumns; ++j) {
      double sum = 0, sizes = 1;
      for (int64_t k = 0; k < kInputs; ++k) {
        const double stored = w.element(dense ? j * kInputs + k : k * kColumns + j) - zero;
        const double term = x.element(i * kInputs + k) * stored * scale * (1 + double(j % 3));
        sum += term, sizes += std::abs(term);
      }
      EXPECT_NEAR(got.element(i * kColumns + j), sum, 1e-6 * sizes)
          << what << ", row " << i << ", column " << j;
    }
}

/// Does the program hold a constant of this type, of more than scales?
bool keeps(const Runner& r, DataType type) {
  return print(r.compiled().planned).find(fmt::format("\"{}\"", to_string(type))) != std::string::npos;
}

TEST(NarrowWeights, OfProductsOfFewRowsKeepTheirType) {
  for (const DataType type : {i8, bf16, f16})
    for (const bool dense : {false, true})
      for (const int64_t rows : {int64_t(1), int64_t(5), int64_t(8), int64_t(0)}) {  // 0: any number
        const NDArray w = stored(type, dense);
        Model m;
        const PrimExpr n = rows ? PrimExpr(rows) : PrimExpr(tir::var("n", i64));
        const auto x = m.param("x", {n, kInputs});
        // Columns with factors of their own do not go back into the weight.
        NDArray factors = NDArray::empty({kColumns}, f32);
        for (int64_t j = 0; j < kColumns; ++j) factors.set_element(j, double(1 + j % 3));
        const Expr y = m.op(dense ? "nn.dense" : "matmul", {x, constant(widened(w))});
        Runner runner(m.done(m.op("multiply", {y, constant(factors)})), small_cache());
        EXPECT_TRUE(keeps(runner, type)) << print(runner.compiled().planned);
        for (const int64_t count : rows ? std::vector{rows} : std::vector<int64_t>{0, 1, 3, 40}) {
          const NDArray in = random_array({count, kInputs}, f32, 3);
          expect_products(runner.run({in}).at(0), in, w, dense, 1, 0,
                          fmt::format("{} {} rows {}", to_string(type), dense, rows));
        }
      }
}

TEST(NarrowWeights, StayWhereNothingIsGained) {
  auto type_of_panels = [](int64_t rows, const NDArray& w) {
    Model m;
    PassContext context;
    const auto x = m.param("x", {rows, kInputs});
    Target t = make<TargetNode>();
    t.edit()->features = {"avx2", "f16c"}, t.edit()->vector_bits = 256, t.edit()->l2_bytes = 4096;
    context.target = t;
    context.evaluate = evaluate_by_interpreter;
    IRModule out = run_pass("pack_weights", m.done(m.op("matmul", {x, constant(w)})), context);
    const auto ops = ops_of(out);
    return std::count(ops.begin(), ops.end(), "cast");
  };
  NDArray fractions = random_array({kInputs, kColumns}, f32, 5);
  EXPECT_EQ(type_of_panels(2, widened(stored(f16, false))), 1);
  EXPECT_EQ(type_of_panels(9, widened(stored(f16, false))), 0) << "many rows";
  EXPECT_EQ(type_of_panels(2, fractions), 0) << "digits of float32";
  NDArray minus = widened(stored(i8, false));
  minus.set_element(5, -0.0);
  EXPECT_EQ(type_of_panels(2, minus), 1) << "bfloat16 has a zero with a sign";
}

TEST(NarrowWeights, ScalesOfBytesComeBehindTheProduct) {
  for (const DataType type : {i8, u8})
    for (const bool dense : {false, true})
      for (const bool each : {false, true}) {
        const NDArray w = stored(type, dense);
        const double zero = type == u8 ? 128 : 0, scale = 0.01;
        Model m;
        const auto x = m.param("x", {3, kInputs});
        Expr wide = m.op("cast", {constant(w)}, op::make_attrs<op::CastAttrs>(f32));
        if (zero != 0) wide = m.op("subtract", {wide, op::scalar(zero, f32)});
        NDArray factors =
            NDArray::empty(dense ? std::vector<int64_t>{kColumns, 1} : std::vector{kColumns}, f32);
        for (int64_t j = 0; j < kColumns; ++j) factors.set_element(j, scale * double(1 + (each ? j % 3 : 0)));
        const Expr w_f32 = m.op("multiply", {wide, each ? constant(factors) : op::scalar(scale, f32)});
        Expr y = m.op(dense ? "nn.dense" : "matmul", {x, w_f32});
        if (!each) {
          NDArray behind = NDArray::empty({kColumns}, f32);
          for (int64_t j = 0; j < kColumns; ++j) behind.set_element(j, double(1 + j % 3));
          y = m.op("multiply", {y, constant(behind)});
        }
        Runner runner(m.done(y), small_cache());
        EXPECT_TRUE(keeps(runner, i8)) << print(runner.compiled().planned);
        const NDArray in = random_array({3, kInputs}, f32, 3);
        expect_products(runner.run({in}).at(0), in, w, dense, scale, zero, to_string(type));
      }
}

TEST(NarrowWeights, OfBlocksWithScalesStayBytes) {
  constexpr int64_t block = 12, blocks = 5, inputs = block * blocks;
  for (const int64_t rows : {1, 3, 0}) {  // 0: any number
    NDArray q = NDArray::empty({kColumns, inputs}, i8), s = random_array({kColumns, blocks}, f32, 9);
    for (int64_t i = 0; i < q.size(); ++i) q.set_element_int(i, i * 89 % 256 - 128);
    Model m;
    const auto x = m.param("x", {rows ? PrimExpr(rows) : PrimExpr(tir::var("n", i64)), inputs});
    const Expr w = m.op("qnn.block_dequantize", {constant(q), constant(s)});
    Runner runner(m.done(m.op("nn.dense", {x, w})), small_cache());
    EXPECT_TRUE(keeps(runner, i8)) << print(runner.compiled().planned);
    for (const int64_t count : rows ? std::vector{rows} : std::vector<int64_t>{0, 1, 17}) {
      const NDArray in = random_array({count, inputs}, f32, 3), got = runner.run({in}).at(0);
      for (int64_t i = 0; i < count; ++i)
        for (int64_t j = 0; j < kColumns; ++j) {
          double sum = 0, sizes = 1;
          for (int64_t k = 0; k < inputs; ++k) {
            const double term =
                in.element(i * inputs + k) * q.element(j * inputs + k) * s.element(j * blocks + k / block);
            sum += term, sizes += std::abs(term);
          }
          EXPECT_NEAR(got.element(i * kColumns + j), sum, 1e-6 * sizes) << "row " << i << ", column " << j;
        }
    }
  }
}

}  // namespace
}  // namespace tenon::graph::testing_graph
