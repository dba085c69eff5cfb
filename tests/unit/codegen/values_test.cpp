// SPDX-License-Identifier: Apache-2.0
// Every kind of expression in every data type, scalar and vector, through LLVM and C, against the
// interpreter.
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <random>

#include "ir/lookup.h"
#include "ir/tir.h"
#include "kernels.h"

namespace tenon::test {
namespace {

using namespace tir;

const std::vector<DataType> integers = {
    DataType::int_(8),  DataType::int_(16), i32, i64, u8, DataType::uint(16),
    DataType::uint(32), DataType::uint(64)};
const std::vector<DataType> floats = {f32,
                                      f64,
                                      f16,
                                      DataType::bfloat16(),
                                      {TypeCode::Float8_e4m3fn, 8},
                                      {TypeCode::Float8_e5m2, 8},
                                      {TypeCode::Float8_e4m3fnuz, 8},
                                      {TypeCode::Float8_e5m2fnuz, 8}};
constexpr int64_t N = 48;

using Binary = PrimExpr (*)(const PrimExpr&, const PrimExpr&);
template <class T>
PrimExpr node(const PrimExpr& a, const PrimExpr& b) {
  return make<T>(a, b);
}
struct Named {
  const char* name;
  Binary f;
};
const std::vector<Named> arithmetic = {
    {"add", node<Add>}, {"sub", node<Sub>}, {"mul", node<Mul>}, {"min", node<Min>}, {"max", node<Max>}};
const std::vector<Named> divisions = {
    {"div", node<Div>}, {"mod", node<Mod>}, {"floordiv", node<FloorDiv>}, {"floormod", node<FloorMod>}};
const std::vector<Named> comparisons = {{"eq", node<EQ>}, {"ne", node<NE>}, {"lt", node<LT>},
                                        {"le", node<LE>}, {"gt", node<GT>}, {"ge", node<GE>}};

PrimExpr at_lanes(const VarRef& i, int lanes) {
  if (lanes == 1) return i;
  return make<Ramp>(i * PrimExpr(int64_t(lanes)), PrimExpr(int64_t(1)), int64_t(lanes));
}
/// One kernel with an output per operation: o_k[i] = op_k(a[i], b[i]), `lanes` at a time.
Program all_of(const std::string& name, const std::vector<Named>& ops, DataType in, bool boolean_result,
               int lanes) {
  const Buffer a = flat("a", N, in), b = flat("b", N, in);
  std::vector<Buffer> buffers{a, b};
  Array<Stmt> body;
  const VarRef i = var("i");
  const PrimExpr at = at_lanes(i, lanes);
  for (const Named& op : ops) {
    buffers.push_back(flat(op.name, N, boolean_result ? boolean : in));
    body.push_back(store(buffers.back(), op.f(load(a, {at}), load(b, {at})), {at}));
  }
  return program(name, buffers, {}, for_(i, 0, N / lanes, seq(body)));
}
std::vector<NDArray> inputs_for(DataType t, size_t outputs, bool nonzero) {
  NDArray a = random_array({N}, t, 1), b = random_array({N}, t, 2);
  if (t.is_float()) {
    const double special[] = {0.0, -0.0, HUGE_VAL, -HUGE_VAL, NAN, 1, -1, 448};
    for (int64_t k = 0; k < 8; ++k) {
      a.set_element(k, special[k]);
      b.set_element(7 - k, special[(k * 3 + 1) % 8]);
    }
    a.set_element(8, NAN);
    b.set_element(8, 1);
    a.set_element(9, 1);
    b.set_element(9, NAN);
  } else if (t.is_integer()) {
    a.set_element_int(0, t.is_uint() ? -1 : t.bits == 64 ? INT64_MIN : -(int64_t(1) << (t.bits - 1)));
    b.set_element_int(0, -1);
    for (int64_t i = 0; i < N; ++i)
      if (nonzero && b.element_int(i) == 0) b.set_element_int(i, 1);
  }
  std::vector<NDArray> all{a, b};
  for (size_t k = 0; k < outputs; ++k) all.push_back({});
  return all;
}
std::vector<NDArray> with_outputs(std::vector<NDArray> all, DataType t) {
  for (size_t k = 2; k < all.size(); ++k) all[k] = NDArray::zeros({N}, t);
  return all;
}

class Types : public testing::TestWithParam<DataType> {};
std::string type_name(const testing::TestParamInfo<DataType>& info) { return to_string(info.param); }

TEST_P(Types, Arithmetic) {
  for (int lanes : {1, 8})
    expect_same(all_of("arithmetic", arithmetic, GetParam(), false, lanes),
                with_outputs(inputs_for(GetParam(), arithmetic.size(), false), GetParam()), {}, 0,
                lanes == 8);
}
TEST_P(Types, Division) {
  const int64_t ulps = GetParam().bits == 16 || GetParam().bits == 8 ? 1 : 0;
  for (int lanes : {1, 4})
    expect_same(all_of("division", divisions, GetParam(), false, lanes),
                with_outputs(inputs_for(GetParam(), divisions.size(), true), GetParam()), {}, ulps,
                lanes == 1);
}
TEST_P(Types, Comparison) {
  for (int lanes : {1, 16})
    expect_same(all_of("comparison", comparisons, GetParam(), true, lanes),
                with_outputs(inputs_for(GetParam(), comparisons.size(), false), boolean), {}, 0, lanes == 16);
}
TEST_P(Types, CastToEveryType) {
  std::vector<DataType> all = integers;
  all.insert(all.end(), floats.begin(), floats.end());
  all.push_back(boolean);
  for (int lanes : {1, 16}) {
    const Buffer a = flat("a", N, GetParam());
    std::vector<Buffer> buffers{a};
    NDArray in = inputs_for(GetParam(), 0, false)[0];
    if (GetParam() == f32 || GetParam() == f64) {
      const double edges[] = {127.5,        128,     -128.5,  -129,   255.9,        256,
                              -0.9,         32767.5, 65535.9, 65520,  2147483648.0, -2147483904.0,
                              4294967296.0, 9.3e18,  -9.3e18, 1.9e19, 1e-8,         3e-5,
                              57344,        61440,   464,     2.5,    3.5};
      int64_t k = 10;
      for (double x : edges) in.set_element(k++, x);
    }
    std::vector<NDArray> arrays{in};
    Array<Stmt> body;
    const VarRef i = var("i");
    for (DataType t : all) {
      buffers.push_back(flat("o_" + to_string(t), N, t));
      arrays.push_back(NDArray::zeros({N}, t));
      body.push_back(store(buffers.back(), cast(t.with_lanes(lanes), load(a, {at_lanes(i, lanes)})),
                           {at_lanes(i, lanes)}));
    }
    expect_same(program("casts", buffers, {}, for_(i, 0, N / lanes, seq(body))), arrays, {}, 0, lanes == 1);
  }
}
/// Quantisation: a clamp between whole numbers and a rounding, in any order, before the conversion.
TEST(Quantised, RoundedAndClamped) {
  const double values[] = {NAN,   HUGE_VAL, -HUGE_VAL, 2147483648.0, -2147483648.0, 1e30,  -1e30, 0.5,
                           -0.5,  1.5,      2.5,       -1.5,         -2.5,          126.5, 127.5, 128.5,
                           254.5, 255.5,    256.5,     -127.5,       -128.5,        -129,  5e9,   -5e9,
                           -0.0,  1e-8,     65534.5,   65535.5,      32767.5,       3.7,   -3.7,  99.5};
  const auto round = [](PrimExpr x) { return call(x.dtype(), "tir.round", {x}); };
  const auto clamp = [](PrimExpr x, double low, double high) {
    const auto bound = [&](double b) { return cast(x.dtype(), PrimExpr(float(b))); };
    return make<Min>(make<Max>(x, bound(low)), bound(high));
  };
  const std::function<PrimExpr(PrimExpr)> forms[] = {
      [&](PrimExpr x) { return clamp(round(x), 0, 255); },
      [&](PrimExpr x) { return clamp(round(x), -128, 127); },
      [&](PrimExpr x) { return round(clamp(x, -100, 100)); },
      [&](PrimExpr x) { return clamp(round(clamp(x, 0, 6)), -3, 255); },
      [&](PrimExpr x) { return clamp(round(x), 5, 100); },     // NaN becomes 0, which is outside
      [&](PrimExpr x) { return clamp(round(x), -9, -5); },     // the same below
      [&](PrimExpr x) { return clamp(round(x), -1e9, 1e9); },  // the type's own range is narrower
      [&](PrimExpr x) { return round(clamp(x, 0.5, 2.5)); },   // bounds that a rounding moves
      [&](PrimExpr x) { return clamp(x, 0, 7); },
      [&](PrimExpr x) { return round(x); }};
  constexpr int64_t n = 64;
  for (int lanes : {1, 4, 8, 16, 32})
    for (DataType from : {f32, f64}) {
      const Buffer a = flat("a", n, from);
      std::vector<Buffer> buffers{a};
      std::vector<NDArray> arrays{NDArray::zeros({n}, from)};
      for (int64_t k = 0; k < n; ++k) arrays[0].set_element(k, values[k % std::ssize(values)]);
      Array<Stmt> body;
      const VarRef i = var("i");
      for (DataType to : {u8, DataType::int_(8), DataType::uint(16), DataType::int_(16)})
        for (const auto& form : forms) {
          buffers.push_back(flat("o" + std::to_string(buffers.size()), n, to));
          arrays.push_back(NDArray::zeros({n}, to));
          const PrimExpr at = at_lanes(i, lanes);
          body.push_back(store(buffers.back(), cast(to.with_lanes(lanes), form(load(a, {at}))), {at}));
        }
      expect_same(program("quantised", buffers, {}, for_(i, 0, n / lanes, seq(body))), arrays, {}, 0,
                  lanes == 1);
    }
}
INSTANTIATE_TEST_SUITE_P(Integers, Types, testing::ValuesIn(integers), type_name);
INSTANTIATE_TEST_SUITE_P(Floats, Types, testing::ValuesIn(floats), type_name);

TEST(Values, DivisionByZeroAndOverflowDoNotTrap) {
  for (DataType t : integers) {
    const NDArray a = array_of({7, -7, 0, 100}, t), b = array_of({0, 0, 0, -1}, t);
    if (t.is_int()) a.set_element_int(3, t.bits == 64 ? INT64_MIN : -(int64_t(1) << (t.bits - 1)));
    for (int lanes : {1, 4}) {
      const Buffer x = flat("a", 4, t), y = flat("b", 4, t), o = flat("o", 4, t);
      const VarRef i = var("i");
      const PrimExpr at = at_lanes(i, lanes);
      for (const Named& op : divisions) {
        const Program p = program("k", {x, y, o}, {},
                                  for_(i, 0, 4 / lanes, store(o, op.f(load(x, {at}), load(y, {at})), {at})));
        const NDArray out = NDArray::zeros({4}, t), out_c = NDArray::zeros({4}, t);
        EXPECT_EQ(run_llvm(p.lowered, {a, b, out}), 0);
        if (t.is_int() && std::string(op.name).find("div") != std::string::npos) {
          EXPECT_EQ(out.element_int(3), a.element_int(3)) << op.name << " " << to_string(t);
        }
        if (lanes == 1 && t.bits == 32) {
          EXPECT_EQ(run_c(p.lowered, "gcc", {a, b, out_c}), 0);
          expect_close(out, out_c, 0, op.name);
        }
      }
    }
  }
}

TEST(Values, QuotientsOfLanesAreThoseOfOne) {
  std::mt19937_64 random(3);
  for (const DataType t :
       {DataType::int_(8), u8, DataType::int_(16), DataType::uint(16), i32, DataType::uint(32)}) {
    const int64_t n = 4096, lowest = t.is_uint() ? 0 : -(int64_t(1) << (t.bits - 1)),
                  highest = (int64_t(1) << (t.is_uint() ? t.bits : t.bits - 1)) - 1;
    const Buffer a = flat("a", n, t), b = flat("b", n, t), q = flat("q", n, t), r = flat("r", n, t);
    NDArray x = NDArray::empty({n}, t), y = NDArray::empty({n}, t);
    auto within = [&](int64_t v) { return std::clamp(v, lowest, highest); };
    for (int64_t k = 0; k < n; ++k) {
      // Multiples of the divisor and their neighbours, of divisors of every size.
      const int64_t wide = int64_t(random() >> 1), shift = int64_t(random() % uint64_t(t.bits));
      int64_t d = within(lowest + wide % (highest - lowest + 1)) >> shift;
      if (d == 0) d = 1;
      const int64_t m = int64_t(random() % uint64_t(highest / std::abs(d) + 1)) * d;
      y.set_element_int(k, d);
      x.set_element_int(k, k % 5 == 0 ? (k % 10 ? lowest : highest) : within((k % 3 ? m : -m) + k % 4 - 1));
    }
    const VarRef i = var("i");
    const PrimExpr at = at_lanes(i, 16), u = load(a, {at}), v = load(b, {at});
    const Stmt body = seq({store(q, make<Div>(u, v), {at}), store(r, make<Mod>(u, v), {at})});
    const NDArray quotients = NDArray::zeros({n}, t), remainders = NDArray::zeros({n}, t);
    ASSERT_EQ(run_llvm(program("lanes", {a, b, q, r}, {}, for_(i, 0, n / 16, body)).lowered,
                       {x, y, quotients, remainders}),
              0);
    for (int64_t k = 0; k < n; ++k) {
      const int64_t c = x.element_int(k), d = y.element_int(k);
      if (c == lowest && d == -1) continue;  // it wraps
      ASSERT_EQ(quotients.element_int(k), c / d) << to_string(t) << " " << c << " / " << d;
      ASSERT_EQ(remainders.element_int(k), c % d) << to_string(t) << " " << c << " / " << d;
    }
  }
}

TEST(Values, LogicSelectAndLazyChoice) {
  for (int lanes : {1, 8}) {
    const Buffer a = flat("a", N, boolean), b = flat("b", N, boolean), x = flat("x", N, f32),
                 o = flat("o", N, boolean), s = flat("s", N, f32), z = flat("z", N, f32);
    const VarRef i = var("i");
    const PrimExpr at = at_lanes(i, lanes), p = load(a, {at}), q = load(b, {at});
    const PrimExpr logic = make<Or>(make<And>(p, make<Not>(q)), make<And>(q, make<Not>(p)));
    Array<Stmt> body{store(o, logic, {at}), store(s, make<Select>(p, load(x, {at}), -load(x, {at})), {at})};
    // The lazy choice reads one element before the buffer unless it is guarded.
    if (lanes == 1)
      body.push_back(
          store(z, if_then_else(gt(i, 0), load(x, {i - PrimExpr(int64_t(1))}), PrimExpr(5.0)), {at}));
    else
      body.push_back(store(z, load(x, {at}), {at}));
    NDArray odd = random_array({N}, boolean, 3);
    expect_same(program("logic", {a, b, x, o, s, z}, {}, for_(i, 0, N / lanes, seq(body))),
                {odd, random_array({N}, boolean, 4), random_array({N}, f32, 5), NDArray::zeros({N}, boolean),
                 NDArray::zeros({N}, f32), NDArray::zeros({N}, f32)});
  }
}

TEST(Values, BitsOfIntegers) {
  for (DataType t : integers) {
    const Buffer a = flat("a", N, t), b = flat("b", N, t);
    std::vector<Buffer> buffers{a, b};
    NDArray y = random_array({N}, t, 9);
    for (int64_t k = 0; k < N; ++k) y.set_element_int(k, k % (t.bits + 3));
    std::vector<NDArray> arrays{random_array({N}, t, 8), y};
    Array<Stmt> body;
    const VarRef i = var("i");
    const PrimExpr at = at_lanes(i, 16);
    auto add = [&](const PrimExpr& v) {
      buffers.push_back(flat("o" + std::to_string(buffers.size()), N, t));
      arrays.push_back(NDArray::zeros({N}, t));
      body.push_back(store(buffers.back(), v, {at}));
    };
    const PrimExpr x = load(a, {at}), n = load(b, {at});
    for (const char* op : {"tir.shift_left", "tir.shift_right", "tir.bitwise_and", "tir.bitwise_or",
                           "tir.bitwise_xor", "tir.pow"})
      add(call(x.dtype(), op, {x, n}));
    for (const char* op : {"tir.bitwise_not", "tir.popcount", "tir.clz", "tir.abs"})
      add(call(x.dtype(), op, {x}));
    expect_same(program("bits", buffers, {}, for_(i, 0, N / 16, seq(body))), arrays, {}, 0,
                t == i32 || t == u8 || t == i64);
  }
}

/// A count may be of a wider type than what is shifted: what does not fit there is too many bits all the
/// same.
TEST(Values, ShiftsByCountsOfOtherTypes) {
  for (DataType t : integers)
    for (DataType c : {DataType::int_(8), i32, DataType::uint(32), i64}) {
      const Buffer a = flat("a", N, t), b = flat("b", N, c), left = flat("l", N, t), right = flat("r", N, t);
      NDArray counts = random_array({N}, c, 9);
      const int64_t few[] = {0, 1, 7, t.bits - 1, t.bits, 256, 257, -1, -256, (int64_t(1) << 32) + 1};
      for (int64_t k = 0; k < N; ++k)
        if (const int64_t n = few[k % 10]; c.bits == 64 || std::abs(n) < (int64_t(1) << (c.bits - 1)))
          counts.set_element_int(k, c.is_uint() ? std::abs(n) : n);
      const VarRef i = var("i");
      const PrimExpr at = at_lanes(i, 16), x = load(a, {at}), n = load(b, {at});
      const Stmt body = seq({store(left, call(x.dtype(), "tir.shift_left", {x, n}), {at}),
                             store(right, call(x.dtype(), "tir.shift_right", {x, n}), {at})});
      expect_same(program("shifts", {a, b, left, right}, {}, for_(i, 0, N / 16, body)),
                  {random_array({N}, t, 8), counts, NDArray::zeros({N}, t), NDArray::zeros({N}, t)}, {}, 0,
                  t == u8 || t == i32 || t == i64);
    }
}

/// Every byte, in vectors of several widths, by every back end and by the table itself.
TEST(Values, LookupOfBytes) {
  constexpr int64_t kAll = kByteValues;
  std::array<uint8_t, kByteValues> table;
  for (int64_t i = 0; i < kAll; ++i) table[size_t(i)] = uint8_t(i * 167 + 41);
  for (DataType from : {u8, DataType::int_(8)})
    for (DataType to : {u8, DataType::int_(8)})
      for (int lanes : {1, 8, 16, 32, 64, 128}) {
        const Buffer a = flat("a", kAll, from), o = flat("o", kAll, to);
        const VarRef i = var("i");
        const PrimExpr at = lanes == 1 ? PrimExpr(i) : at_lanes(i, lanes);
        NDArray x = NDArray::empty({kAll}, from), y = NDArray::zeros({kAll}, to);
        for (int64_t k = 0; k < kAll; ++k) x.as_ptr<uint8_t>()[k] = uint8_t(k);
        const Stmt body = store(o, lookup(load(a, {at}), table, to), {at});
        const Program p = program("table", {a, o}, {}, for_(i, 0, kAll / lanes, body));
        expect_same(p, {x, y}, {}, 0, lanes == 16);
        interpret_prim_func(p.plain, {x, y}, IRModule::create());
        for (int64_t k = 0; k < kAll; ++k) EXPECT_EQ(y.as_ptr<uint8_t>()[k], table[size_t(k)]) << k;
      }
}

TEST(Values, ReinterpretAndScalars) {
  const Buffer a = flat("a", N, f32), o = flat("o", N, i32), p = flat("p", N, f32);
  const VarRef i = var("i"), n = var("n"), alpha = var("alpha", f32);
  const PrimExpr bits = call(i32, "tir.reinterpret", {load(a, {i})});
  expect_same(
      program(
          "reinterpret", {a, o, p}, {n, alpha},
          for_(i, 0, n,
               seq({store(o, bits + PrimExpr::int_imm(1, i32), {i}), store(p, load(a, {i}) * alpha, {i})}))),
      {random_array({N}, f32, 5), NDArray::zeros({N}, i32), NDArray::zeros({N}, f32)},
      {37, std::bit_cast<int64_t>(0.25)});
}

TEST(Values, NaNAndRoundingFunctions) {
  const std::vector<double> values = {0,    -0.0, 0.5,      1.5,       2.5, -0.5, -1.5, 3.7,
                                      -3.7, 1e10, HUGE_VAL, -HUGE_VAL, NAN, 4,    9,    1e-3};
  for (DataType t : {f32, f64, f16, DataType::bfloat16()}) {
    const int64_t n = int64_t(values.size());
    const Buffer a = flat("a", n, t);
    std::vector<Buffer> buffers{a};
    std::vector<NDArray> arrays{array_of(values, t)};
    Array<Stmt> body;
    const VarRef i = var("i");
    const PrimExpr at = at_lanes(i, 16), x = load(a, {at});
    auto add = [&](const PrimExpr& v) {
      buffers.push_back(flat("o" + std::to_string(buffers.size()), n, v.dtype().element()));
      arrays.push_back(NDArray::zeros({n}, v.dtype().element()));
      body.push_back(store(buffers.back(), v, {at}));
    };
    for (const char* op : {"tir.floor", "tir.ceil", "tir.round", "tir.trunc", "tir.abs", "tir.sqrt"})
      add(call(x.dtype(), op, {x}));
    for (const char* op : {"tir.isnan", "tir.isinf", "tir.isfinite"})
      add(call(boolean.with_lanes(16), op, {x}));
    add(call(x.dtype(), "tir.copysign", {x, make<Sub>(const_of(x.dtype(), 0), x)}));
    expect_same(program("rounding", buffers, {}, for_(i, 0, 1, seq(body))), arrays);
  }
}

TEST(Values, TwoArgumentFunctions) {
  const std::vector<double> xs = {0,         -0.0, 1,  -1, 2,   -2,   0.5,   HUGE_VAL,
                                  -HUGE_VAL, NAN,  10, -8, 3.5, 1e30, 1e-30, 7};
  std::vector<double> left, right;
  for (double x : xs)
    for (double y : xs) {
      left.push_back(x);
      right.push_back(y);
    }
  const int64_t n = int64_t(left.size());
  for (DataType t : {f32, f64}) {
    const Buffer a = flat("a", n, t), b = flat("b", n, t);
    std::vector<Buffer> buffers{a, b};
    std::vector<NDArray> arrays{array_of(left, t), array_of(right, t)};
    Array<Stmt> body;
    const VarRef i = var("i");
    const PrimExpr at = at_lanes(i, 8), x = load(a, {at}), y = load(b, {at});
    for (const char* op : {"tir.pow", "tir.atan2", "tir.hypot", "tir.fmod", "tir.nextafter"}) {
      buffers.push_back(flat(std::string("o") + (op + 4), n, t));
      arrays.push_back(NDArray::zeros({n}, t));
      body.push_back(store(buffers.back(), call(x.dtype(), op, {x, y}), {at}));
    }
    expect_same(program("two", buffers, {}, for_(i, 0, n / 8, seq(body))), arrays, {}, 3);
  }
}

/// Quotients at whole numbers and beside them, small and beyond the digits of the type; and special values.
std::vector<std::pair<double, double>> remainders_of(DataType t) {
  std::vector<std::pair<double, double>> out;
  std::mt19937_64 random(7);
  auto real = [&](double exponent) {
    const double v = std::ldexp(double(random() % 1000003 + 1) / 500000, int(exponent));
    return t == f32 ? double(float(v)) : v;
  };
  auto next = [&](double v, double to) {
    return t == f32 ? double(std::nextafterf(float(v), float(to))) : std::nextafter(v, to);
  };
  for (int k = 0; k < 4000; ++k) {
    const double y = real(double(random() % 40) - 20), n = double(random() % (k % 2 ? 50 : 1 << 23));
    const double near = t == f32 ? double(float(n * y)) : n * y, x = next(near, k % 3 ? 1e30 : 0);
    out.emplace_back(k % 3 == 2 ? near : x, y);
    out.emplace_back(-real(double(random() % 100) - 50), k % 5 ? y : -y);
  }
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const double small = t == f32 ? 1e-45 : 5e-324, large = t == f32 ? 3e38 : 1.7e308;
  const double special[] = {0.0,  -0.0, 1,     -1,         4,     -4,     2,  inf,
                            -inf, nan,  small, -3 * small, large, -large, 0.1};
  for (double x : special)
    for (double y : special) out.emplace_back(x, y);
  out.resize(out.size() / 8 * 8);
  return out;
}

TEST(Values, RemaindersAreExact) {
  for (const DataType t : {f32, f64}) {
    const auto pairs = remainders_of(t);
    const auto n = int64_t(pairs.size());
    std::vector<double> left, right;
    for (const auto& [x, y] : pairs) left.push_back(x), right.push_back(y);
    const Buffer a = flat("a", n, t), b = flat("b", n, t), o = flat("o", n, t);
    const VarRef i = var("i");
    const PrimExpr at = at_lanes(i, 8), x = load(a, {at}), y = load(b, {at});
    const Program p = program("remainder", {a, b, o}, {},
                              for_(i, 0, n / 8, store(o, call(x.dtype(), "tir.fmod", {x, y}), {at})));
    const std::vector<NDArray> arrays{array_of(left, t), array_of(right, t), NDArray::zeros({n}, t)};
    ASSERT_EQ(run_llvm(p.lowered, arrays), 0);
    for (int64_t k = 0; k < n; ++k) {
      const double u = arrays[0].element(k), v = arrays[1].element(k), r = arrays[2].element(k);
      const double wanted = t == f32 ? double(std::fmod(float(u), float(v))) : std::fmod(u, v);
      if (std::isnan(wanted))
        EXPECT_TRUE(std::isnan(r)) << u << " mod " << v << ": " << r;
      else
        EXPECT_TRUE(r == wanted && std::signbit(r) == std::signbit(wanted)) << u << " mod " << v << ": " << r;
    }
  }
}

TEST(Values, UnaryFunctionsOfNarrowAndWideFloats) {
  for (DataType t : {f64, f16, DataType::bfloat16()}) {
    const Buffer a = flat("a", N, t);
    std::vector<Buffer> buffers{a};
    std::vector<NDArray> arrays{random_array({N}, t, 5)};
    Array<Stmt> body;
    const VarRef i = var("i");
    const PrimExpr at = at_lanes(i, 4), x = load(a, {at});
    for (const char* op : {"exp", "exp2", "expm1", "log", "log1p", "tanh", "sigmoid", "erf", "sin", "cos",
                           "atan", "rsqrt", "exp10"}) {
      buffers.push_back(flat(std::string("o_") + op, N, t));
      arrays.push_back(NDArray::zeros({N}, t));
      body.push_back(store(buffers.back(), call(x.dtype(), std::string("tir.") + op, {x}), {at}));
    }
    expect_same(program("unary", buffers, {}, for_(i, 0, N / 4, seq(body))), arrays, {}, t == f64 ? 4 : 1);
  }
}

TEST(Values, Float16ConversionsOfEveryCode) {
  // Every 16-bit code to float32 and back, with the instructions and without.
  const Buffer a = flat("a", 65536, f16), w = flat("w", 65536, f32), back = flat("back", 65536, f16);
  const VarRef i = var("i");
  const PrimExpr at = at_lanes(i, 16);
  const Program p = program("codes", {a, w, back}, {},
                            for_(i, 0, 4096,
                                 seq({store(w, cast(f32.with_lanes(16), load(a, {at})), {at}),
                                      store(back, cast(f16.with_lanes(16), load(w, {at})), {at})})));
  NDArray codes = NDArray::empty({65536}, f16);
  for (int k = 0; k < 65536; ++k) codes.as_ptr<uint16_t>()[k] = uint16_t(k);
  for (const char* name : {"llvm", "llvm -mcpu=x86-64"}) {
    const NDArray wide = NDArray::zeros({65536}, f32), again = NDArray::zeros({65536}, f16);
    ASSERT_EQ(run_llvm(p.lowered, {codes, wide, again}, {}, 2, parse_target(name)), 0);
    for (int k = 0; k < 65536; ++k) {
      const float wanted = f16_to_float(uint16_t(k)), got = wide.as_ptr<float>()[k];
      ASSERT_TRUE(got == wanted || (std::isnan(got) && std::isnan(wanted))) << name << " " << k;
      if (!std::isnan(wanted)) {
        ASSERT_EQ(again.as_ptr<uint16_t>()[k], k) << name;
      }
    }
  }
}

TEST(Values, BFloat16RoundsSubnormalsToo) {
  const int64_t n = 1 << 14;
  NDArray x = NDArray::empty({n}, f32), wanted = NDArray::empty({n}, DataType::bfloat16());
  uint32_t code = 12345;
  for (int64_t k = 0; k < n; ++k) {
    code = code * 1664525u + 1013904223u;
    // One block of lanes in four holds subnormals, others hold anything.
    x.as_ptr<uint32_t>()[k] = k / 16 % 4 == 0 ? code & 0x807fffffu : code;
    wanted.set_element(k, double(x.as_ptr<float>()[k]));
  }
  const Buffer a = flat("a", n, f32), o = flat("o", n, DataType::bfloat16());
  const VarRef i = var("i");
  const Program p =
      program("round", {a, o}, {},
              for_(i, 0, n / 16,
                   store(o, cast(DataType::bfloat16(16), load(a, {at_lanes(i, 16)})), {at_lanes(i, 16)})));
  const NDArray got = NDArray::zeros({n}, DataType::bfloat16());
  ASSERT_EQ(run_llvm(p.lowered, {x, got}), 0);
  for (int64_t k = 0; k < n; ++k) {
    if (std::isnan(wanted.element(k)) && std::isnan(got.element(k))) continue;
    ASSERT_EQ(wanted.as_ptr<uint16_t>()[k], got.as_ptr<uint16_t>()[k]) << x.as_ptr<float>()[k];
  }
}

TEST(Values, OneLaneOfANarrowVectorLeavesItsNeighbours) {
  // 49 elements in vectors of 16: one lane of the last one, by a condition that is a constant, or becomes one
  // where the loop is unrolled.
  for (DataType t : {u8, DataType::int_(8), DataType::int_(16), DataType::uint(16)})
    for (bool loop : {true, false}) {
      const Buffer a = flat("a", 64, i32), o = flat("o", 64, t);
      const VarRef i = var("i");
      const PrimExpr step = loop ? PrimExpr(i) : PrimExpr(3);
      const PrimExpr at = make<Ramp>(step * 16, PrimExpr(int64_t(1)), int64_t(16)),
                     inside = make<LT>(at, make<Broadcast>(PrimExpr(int64_t(49)), int64_t(16)));
      const PrimExpr wide = make<Ramp>(step * 16, PrimExpr(int64_t(1)), int64_t(16));
      const Stmt s = store(o, cast(t.with_lanes(16), load(a, {wide})), {at}, inside);
      expect_same(program("one_lane", {a, o}, {}, loop ? for_(i, 0, 4, s) : s),
                  {random_array({64}, i32, 3), random_array({64}, t, 4)});
    }
}

TEST(Values, SharedExpressionsAreComputedOnce) {
  // A chain in which every step uses the previous one twice: as a tree it has 2^60 nodes.
  const Buffer a = flat("a", 4, f32), o = flat("o", 4, f32);
  const VarRef i = var("i");
  PrimExpr x = load(a, {i});
  for (int k = 0; k < 60; ++k) x = make<Add>(x, x);
  const NDArray in = array_of({1, 2, 3, 4}, f32);
  const Program p = program("shared", {a, o}, {}, for_(i, 0, 4, store(o, x, {i})));
  const NDArray out = NDArray::zeros({4}, f32), out_c = NDArray::zeros({4}, f32);
  ASSERT_EQ(run_llvm(p.lowered, {in, out}), 0);
  ASSERT_EQ(run_c(p.lowered, "gcc", {in, out_c}), 0);
  EXPECT_EQ(out.element(2), 3 * std::ldexp(1.0, 60));
  EXPECT_EQ(out_c.element(2), 3 * std::ldexp(1.0, 60));
}

TEST(Values, DeepExpressions) {
  const Buffer a = flat("a", 4, f32), o = flat("o", 4, f32);
  const VarRef i = var("i");
  PrimExpr x = load(a, {i});
  for (int k = 0; k < 20000; ++k) x = make<Add>(x, PrimExpr(1.0));
  const Program p = program("deep", {a, o}, {}, for_(i, 0, 4, store(o, x, {i})));
  const NDArray out = NDArray::zeros({4}, f32);
  ASSERT_EQ(run_llvm(p.lowered, {array_of({1, 2, 3, 4}, f32), out}, {}, 1), 0);
  EXPECT_EQ(out.element(1), 20002);
}

}  // namespace
}  // namespace tenon::test
