// SPDX-License-Identifier: Apache-2.0
// Mathematical functions from tensor IR through every back end: within the bounds of docs/numerics.md
// on a sample (seeded, special values, neighbourhoods of breakpoints), and the same bits whatever the lanes.
// every_float_test.cpp has the whole of float32.
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

#include "ir/tir.h"
#include "math_reference.h"
#include "pipeline/pass_lists.h"

namespace tenon::test {
namespace {

using namespace tir;

NDArray floats_of(const std::vector<float>& x) {
  return NDArray::from_bytes({int64_t(x.size())}, f32, x.data(), x.size() * 4);
}
bool same_bits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}
void record(const std::string& what, double ulps) {
  testing::Test::RecordProperty(what, fmt::format("{:.3f}", ulps));
}

TEST(Math, TheReferenceIsWithinTwoUnitsOfADouble) {
  std::mt19937 random(7);
  for (const MathCase& c : math_cases())
    for (int k = 0; k < 3000; ++k) {
      const float x = k % 2 ? std::bit_cast<float>(uint32_t(random())) : float(random() % 20000) / 1000 - 10;
      const double got = c.meaning(double(x));
      if (!std::isfinite(got) || got == 0) continue;
      ASSERT_LE(true_error(c.name, double(x), got, 53, -1022), 2) << c.name << "(" << x << ")";
    }
}

TEST(Math, EveryFunctionIsStated) {
  std::ostringstream text;
  text << std::ifstream(TENON_SOURCE_DIR "/docs/numerics.md").rdbuf();
  for (const Intrinsic& i : all_intrinsics()) {
    if (!i.evaluate) continue;
    EXPECT_NE(text.str().find("`" + std::string(i.name.substr(4)) + "`"), std::string::npos) << i.name;
  }
}

void check_unary(const MathCase& c, const Target& target) {
  const std::vector<float>& x = math_samples();
  const int64_t n = int64_t(x.size());
  const NDArray in = floats_of(x), one = NDArray::zeros({n}, f32), many = NDArray::zeros({n}, f32);
  ASSERT_EQ(run_llvm(unary_program(c.name, n, 1).lowered, {in, one}, {}, 2, target), 0);
  ASSERT_EQ(run_llvm(unary_program(c.name, n, 16).lowered, {in, many}, {}, 2, target), 0);
  WorstError worst;
  for (int64_t i = 0; i < n; ++i) {
    const float got = one.as_ptr<float>()[i], lane = many.as_ptr<float>()[i];
    worst.see(c, x[size_t(i)], got);
    if (!same_bits(got, lane))
      FAIL() << c.name << "(" << x[size_t(i)] << "): scalar " << got << ", lane " << lane;
  }
  EXPECT_LE(worst.ulps, c.ulps) << c.name << " is worst at " << worst.at << ": " << c.meaning(worst.at);
  record(std::string(c.name) + "_ulps", worst.ulps);
}

class Functions : public testing::TestWithParam<MathCase> {};
TEST_P(Functions, AreAccurate) { check_unary(GetParam(), host_target()); }
TEST_P(Functions, AreAccurateWithoutFma) { check_unary(GetParam(), parse_target("llvm -mcpu=x86-64-v2")); }
INSTANTIATE_TEST_SUITE_P(Unary, Functions, testing::ValuesIn(math_cases().begin(), math_cases().end()),
                         [](const auto& info) { return std::string(info.param.name); });

/// All functions in one C text.
void check_c(const std::string& compiler) {
  const std::vector<float>& x = math_samples();
  const int64_t n = int64_t(x.size());
  std::vector<PrimFunc> functions;
  for (const MathCase& c : math_cases()) functions.push_back(unary_program(c.name, n, 1).lowered);
  const CLibrary library(functions, compiler);
  const NDArray in = floats_of(x), out = NDArray::zeros({n}, f32);
  std::vector<double> about(size_t(n), 0.0);
  for (const MathCase& c : math_cases()) {
    const TenonKernel kernel = library.find(std::string("k_") + c.name);
    ASSERT_NE(kernel, nullptr);
    void* pointers[] = {in.data(), out.data()};
    ASSERT_EQ(kernel(pointers, nullptr, nullptr), 0);
    WorstError worst;
    judge(c, x.data(), out.as_ptr<float>(), n, about.data(), worst);
    EXPECT_LE(worst.ulps, c.ulps) << compiler << ": " << c.name << " is worst at " << worst.at;
    record(std::string(c.name) + "_ulps", worst.ulps);
  }
}
TEST(Math, TheCTextIsAccurate) { check_c("gcc -std=c11 -O2 -ffp-contract=off"); }
TEST(Math, TheCTextIsAccurateContracted) { check_c("gcc -std=gnu11 -O2 -march=native -ffp-contract=fast"); }

// ---------------------------------------------------------------- the same bits everywhere
TEST(Math, EveryBackEndGivesTheSameBits) {
  // Without fused multiply-add nothing is left to the code generators' choice.
  const std::vector<float>& all = math_samples();
  constexpr int64_t n = 512;
  const NDArray in = NDArray::zeros({n}, f32);
  for (int64_t i = 0; i < n; ++i)
    in.as_ptr<float>()[i] = i < 21 ? all[size_t(i)] : all[size_t(i) * 1021 % all.size()];
  std::vector<Buffer> buffers = {flat("x", n, f32)};
  std::vector<NDArray> arrays = {in};
  std::vector<Stmt> body;

  for (const MathCase& c : math_cases()) {
    buffers.push_back(flat(c.name + std::string("_y"), n, f32));
    arrays.push_back(NDArray::zeros({n}, f32));
    const VarRef i = var("i");
    const PrimExpr at = make<Ramp>(i * PrimExpr(int64_t(8)), PrimExpr(int64_t(1)), int64_t(8));
    body.push_back(
        for_(i, 0, n / 8,
             store(buffers.back(),
                   call(f32.with_lanes(8), std::string("tir.") + c.name, {load(buffers[0], {at})}), {at})));
  }
  const Program p = program("all", buffers, {}, seq(Array<Stmt>(body)));
  const Target plain = parse_target("llvm -mcpu=x86-64-v2");
  const std::vector<NDArray> machine = copies(arrays), text = copies(arrays);
  ASSERT_EQ(run_llvm(p.lowered, machine, {}, 2, plain), 0);
  ASSERT_EQ(run_c(p.lowered, "gcc", text), 0);
  std::vector<NDArray> meaning = copies(arrays);
  PassContext context;
  context.target = plain;
  IRModule module = IRModule::create();
  module.set("all", p.plain);
  module = run_pass("lower_intrin", module, context);
  interpret_prim_func(module.find("all").cast<PrimFuncNode>(), meaning);
  for (size_t k = 1; k < arrays.size(); ++k)
    for (int64_t i = 0; i < n; ++i) {
      const float a = machine[k].as_ptr<float>()[i], b = text[k].as_ptr<float>()[i],
                  m = meaning[k].as_ptr<float>()[i];
      const std::string what = fmt::format("{}({})", math_cases()[k - 1].name, in.as_ptr<float>()[i]);
      ASSERT_TRUE(std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) ||
                  (std::isnan(a) && std::isnan(b)))
          << what << ": machine code " << a << ", C " << b;
      ASSERT_TRUE(std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(m) ||
                  (std::isnan(a) && std::isnan(m)))
          << what << ": machine code " << a << ", interpreter " << m;
    }
}

TEST(Math, LaneCountsDoNotMatter) {
  // Vectors of any length, with lanes left over, and one lane alone.
  const std::vector<float>& all = math_samples();
  constexpr int64_t n = 480;
  std::vector<float> x(all.begin(), all.begin() + n);
  for (size_t i = 21; i < x.size(); ++i) x[i] = all[i * 1021 % all.size()];
  for (const char* name : {"llvm", "llvm -mcpu=x86-64-v2"}) {
    std::vector<NDArray> expected;
    for (const int lanes : {1, 3, 8, 32}) {
      std::vector<Buffer> buffers = {flat("x", n, f32)};
      std::vector<NDArray> arrays = {floats_of(x)};
      std::vector<Stmt> body;
      const VarRef i = var("i");
      const PrimExpr at =
          lanes == 1
              ? PrimExpr(i)
              : PrimExpr(make<Ramp>(i * PrimExpr(int64_t(lanes)), PrimExpr(int64_t(1)), int64_t(lanes)));
      for (const MathCase& c : math_cases()) {
        buffers.push_back(flat(c.name + std::string("_y"), n, f32));
        arrays.push_back(NDArray::zeros({n}, f32));
        body.push_back(
            store(buffers.back(),
                  call(f32.with_lanes(lanes), std::string("tir.") + c.name, {load(buffers[0], {at})}), {at}));
      }
      const Program p = program("all", buffers, {}, for_(i, 0, n / lanes, seq(Array<Stmt>(body))));
      ASSERT_EQ(run_llvm(p.lowered, arrays, {}, 2, parse_target(name)), 0);
      if (expected.empty()) expected = arrays;
      for (size_t k = 1; k < arrays.size(); ++k)
        for (int64_t j = 0; j < n; ++j)
          ASSERT_TRUE(same_bits(arrays[k].as_ptr<float>()[j], expected[k].as_ptr<float>()[j]))
              << name << ", " << lanes << " lanes: " << math_cases()[k - 1].name << "(" << x[size_t(j)]
              << ")";
    }
  }
}

// ---------------------------------------------------------------- other widths
/// Every value of a type of at most 16 bits: computed in float32, rounded once.
void check_narrow(DataType type, int digits, int least_exponent, double bound) {
  const int64_t n = int64_t(1) << type.bits;
  NDArray in = NDArray::empty({n}, type), nearest = NDArray::empty({n}, type);
  for (int64_t k = 0; k < n; ++k)
    if (type.bits == 16)
      in.as_ptr<uint16_t>()[k] = uint16_t(k);
    else
      in.as_ptr<uint8_t>()[k] = uint8_t(k);
  double all = 0;
  int64_t inexact = 0;
  for (const MathCase& c : math_cases()) {
    const NDArray out = NDArray::zeros({n}, type);
    ASSERT_EQ(run_llvm(unary_program(c.name, n, 8, type).lowered, {in, out}), 0);
    double worst = 0, at = 0;
    for (int64_t k = 0; k < n; ++k) {
      const double x = in.element(k), wanted = c.meaning(x), got = out.element(k);
      nearest.set_element(k, wanted);
      const double near = nearest.element(k);
      if (got == near ? std::signbit(got) == std::signbit(near) : std::isnan(got) && std::isnan(near))
        continue;
      ++inexact;
      ASSERT_TRUE(std::isfinite(got) && std::isfinite(near) && (got != 0 || near != 0))
          << to_string(type) << " " << c.name << "(" << x << ") = " << got << ", not " << near;
      const double unit =
          std::ldexp(1.0, std::max(std::ilogb(std::fabs(wanted)), least_exponent) - digits + 1);
      const double e = std::fabs(got - wanted) / unit;
      if (e > worst) worst = e, at = x;
    }
    EXPECT_LE(worst, bound) << to_string(type) << " " << c.name << "(" << at << ")";
    all = std::max(all, worst);
  }
  record(to_string(type) + "_ulps", all);
  record(to_string(type) + "_inexact", double(inexact));
}
TEST(Math, EveryFloat16) { check_narrow(f16, 11, -14, 0.501); }
TEST(Math, EveryBFloat16) { check_narrow(DataType::bfloat16(), 8, -126, 0.5001); }
TEST(Math, EveryFloat8) {
  check_narrow({TypeCode::Float8_e4m3fn, 8}, 4, -6, 0.5);
  check_narrow({TypeCode::Float8_e5m2, 8}, 3, -14, 0.5);
}

TEST(Math, DoublesAreThoseOfTheCLibrary) {
  constexpr int64_t n = 1 << 13;
  std::mt19937_64 random(9);
  std::uniform_real_distribution<double> narrow(-10, 10), wide(-700, 700), unit(-1, 1);
  std::vector<double> x = {0.0, -0.0, 1.0, -1.0, HUGE_VAL, -HUGE_VAL, NAN, 0.5, 1e-310, 709.7, -745.1};
  while (x.size() < size_t(n)) {
    const size_t kind = x.size() % 4;
    x.push_back(kind == 0   ? narrow(random)
                : kind == 1 ? wide(random)
                : kind == 2 ? unit(random)
                            : std::bit_cast<double>(random()));
  }
  const NDArray in = NDArray::from_bytes({n}, f64, x.data(), x.size() * 8);
  for (const MathCase& c : math_cases()) {
    const NDArray out = NDArray::zeros({n}, f64);
    ASSERT_EQ(run_llvm(unary_program(c.name, n, 4, f64).lowered, {in, out}), 0);
    double worst = 0, at = 0;
    for (size_t k = 0; k < x.size(); ++k) {
      const double got = out.as_ptr<double>()[k], wanted = c.meaning(x[k]);
      if (!std::isfinite(wanted) || wanted == 0) {
        ASSERT_TRUE(got == wanted || (std::isnan(got) && std::isnan(wanted))) << c.name << "(" << x[k] << ")";
        continue;
      }
      const double e = true_error(c.name, x[k], got, 53, -1022);
      if (e > worst) worst = e, at = x[k];
    }
    EXPECT_LE(worst, 2.5) << c.name << "(" << at << ")";
    record(std::string(c.name) + "_f64_ulps", worst);
  }
}

// ---------------------------------------------------------------- two arguments
TEST(Math, FunctionsOfTwoArguments) {
  struct Two {
    const char* name;
    double (*meaning)(double, double);
    double ulps;
  };
  const Two list[] = {{"pow", std::pow, 1}, {"atan2", std::atan2, 4}, {"hypot", std::hypot, 1}};
  const float special[] = {0.0f, -0.0f,     1.0f,       -1.0f, 0.5f,  -0.5f,  2.0f,  -2.0f,
                           3.0f, HUGE_VALF, -HUGE_VALF, NAN,   1e38f, 1e-40f, -3.0f, 16777217.0f};
  std::vector<float> x, y;
  for (float a : special)
    for (float b : special) {
      x.push_back(a);
      y.push_back(b);
    }
  std::mt19937 random(3);
  std::uniform_real_distribution<float> near(-8, 8), base(0, 50), power(-20, 20);
  while (x.size() < 1 << 16) {
    const int kind = int(x.size() % 3);
    x.push_back(kind == 0   ? near(random)
                : kind == 1 ? base(random)
                            : std::bit_cast<float>(uint32_t(random())));
    y.push_back(kind == 0   ? std::round(near(random))
                : kind == 1 ? power(random)
                            : std::bit_cast<float>(uint32_t(random())));
  }
  const int64_t n = int64_t(x.size());
  for (const char* cpu : {"llvm", "llvm -mcpu=x86-64-v2"})
    for (const Two& c : list) {
      const Buffer a = flat("a", n, f32), b = flat("b", n, f32), r = flat("r", n, f32);
      const VarRef i = var("i");
      const PrimExpr at = make<Ramp>(i * PrimExpr(int64_t(16)), PrimExpr(int64_t(1)), int64_t(16));
      const Program p = program(
          "two", {a, b, r}, {},
          for_(
              i, 0, n / 16,
              store(r, call(f32.with_lanes(16), std::string("tir.") + c.name, {load(a, {at}), load(b, {at})}),
                    {at})));
      const NDArray out = NDArray::zeros({n}, f32);
      ASSERT_EQ(run_llvm(p.lowered, {floats_of(x), floats_of(y), out}, {}, 2, parse_target(cpu)), 0);
      double worst = 0;
      for (int64_t k = 0; k < n; ++k) {
        const double wanted = c.meaning(double(x[size_t(k)]), double(y[size_t(k)]));
        const double e = error_in_ulps(out.as_ptr<float>()[k], wanted);
        ASSERT_LE(e, c.ulps) << c.name << "(" << x[size_t(k)] << ", " << y[size_t(k)]
                             << ") = " << out.as_ptr<float>()[k] << " instead of " << wanted;
        worst = std::max(worst, e);
      }
      record(fmt::format("{}_ulps{}", c.name, std::strlen(cpu) > 4 ? "_without_fma" : ""), worst);
    }
}

}  // namespace
}  // namespace tenon::test
