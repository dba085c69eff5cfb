// SPDX-License-Identifier: Apache-2.0
// Types narrower than a byte's usual guests: 4-bit integers and the four 8-bit floats, against their
// definitions.
#include "support.h"

namespace tenon::interpret_test {
namespace {

/// The value of a code, from the format's definition: sign, exponent, mantissa, bias; what the top codes
/// mean.
double fp8_value(int code, int exponent_bits, int bias, bool infinities, bool unsigned_zero) {
  const int mantissa_bits = 7 - exponent_bits, e = (code & 0x7f) >> mantissa_bits,
            m = code & ((1 << mantissa_bits) - 1), top = (1 << exponent_bits) - 1;
  const double sign = code & 0x80 ? -1 : 1, fraction = double(m) / double(1 << mantissa_bits);
  if (unsigned_zero) {
    if (code == 0x80) return NAN;
  } else if (infinities ? e == top : (code & 0x7f) == 0x7f) {
    return infinities && m == 0 ? sign * INFINITY : NAN;
  }
  return e == 0 ? sign * std::ldexp(fraction, 1 - bias) : sign * std::ldexp(1 + fraction, e - bias);
}
struct Format {
  const char* name;
  int exponent_bits, bias;
  bool infinities, unsigned_zero;
};
const Format formats[] = {{"float8_e4m3fn", 4, 7, false, false},
                          {"float8_e5m2", 5, 15, true, false},
                          {"float8_e4m3fnuz", 4, 8, false, true},
                          {"float8_e5m2fnuz", 5, 16, false, true}};

TEST(Float8, EveryCodeHasItsValue) {
  for (const Format& f : formats) {
    const IRModule m = read(std::string(R"(
@T.prim_func
def f(A: T.Buffer((256,), "uint8"), B: T.Buffer((256,), "float32"), C: T.Buffer((256,), "uint8")):
    for i in range(256):
        x: T.)") + f.name + " = T.reinterpret(\"" +
                            f.name + R"(", A[i])
        B[i] = T.cast(x, "float32")
        C[i] = T.reinterpret("uint8", T.cast(B[i], ")" +
                            f.name + R"("))
)");
    NDArray a = numbers({256}, u8), b = NDArray::zeros({256}, f32), c = NDArray::zeros({256}, u8);
    interpret_prim_func(function(m), {a, b, c}, m);
    for (int code = 0; code < 256; ++code) {
      const double want = fp8_value(code, f.exponent_bits, f.bias, f.infinities, f.unsigned_zero);
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(b.element(code))) << f.name << " " << code;
        continue;
      }
      EXPECT_EQ(b.element(code), want) << f.name << " " << code;
      EXPECT_EQ(std::signbit(b.element(code)), std::signbit(want)) << f.name << " " << code;
      EXPECT_EQ(c.element_int(code), code) << f.name;
    }
  }
}

TEST(Float8, SumsAndProductsRoundToTheNearestCode) {
  for (const Format& f : formats) {
    const IRModule m = read(std::string(R"(
@T.prim_func
def f(A: T.Buffer((256,), ")") +
                            f.name + R"("), S: T.Buffer((256, 256), ")" + f.name +
                            R"("), P: T.Buffer((256, 256), ")" + f.name + R"(")):
    for i, j in T.grid(256, 256):
        S[i, j] = A[i] + A[j]
        P[i, j] = A[i] * A[j]
)");
    DataType t;
    ASSERT_TRUE(parse_dtype(f.name, &t));
    NDArray a = NDArray::empty({256}, t), s = NDArray::zeros({256, 256}, t),
            p = NDArray::zeros({256, 256}, t);
    std::vector<double> finite;  // all values, rising
    for (int code = 0; code < 256; ++code) {
      const double v = fp8_value(code, f.exponent_bits, f.bias, f.infinities, f.unsigned_zero);
      a.as_ptr<uint8_t>()[code] = uint8_t(code);
      if (std::isfinite(v)) finite.push_back(v);
    }
    std::sort(finite.begin(), finite.end());
    interpret_prim_func(function(m), {a, s, p}, m);
    for (int64_t i = 0; i < 256; ++i)
      for (int64_t j = 0; j < 256; ++j)
        for (const bool sum : {true, false}) {
          const double exact = sum ? a.element(i) + a.element(j) : a.element(i) * a.element(j),
                       got = (sum ? s : p).element(i * 256 + j);
          if (std::isnan(exact)) {
            ASSERT_TRUE(std::isnan(got)) << f.name;
            continue;
          }
          if (!std::isfinite(got)) {  // beyond the largest value, by half a step at least
            const double largest = finite.back(), step = largest - finite[finite.size() - 2];
            ASSERT_GE(std::fabs(exact), largest + step / 2) << f.name << " " << i << " " << j;
            continue;
          }
          if (std::isinf(exact)) continue;  // formats without infinities say what becomes of it
          auto above = std::lower_bound(finite.begin(), finite.end(), exact);
          double best = HUGE_VAL;
          if (above != finite.end()) best = *above - exact;
          if (above != finite.begin()) best = std::min(best, exact - *(above - 1));
          ASSERT_EQ(std::fabs(got - exact), best)
              << f.name << " " << a.element(i) << (sum ? " + " : " * ") << a.element(j);
        }
  }
}

TEST(Int4, WrapsAndIsPacked) {
  const IRModule m = read(R"(
@T.prim_func
def f(A: T.Buffer((16,), "int4"), U: T.Buffer((16,), "uint4"), S: T.Buffer((16, 16), "int4"), P: T.Buffer((16, 16), "uint4"), D: T.Buffer((16, 16), "int8")):
    T4 = T.alloc_buffer((16,), "int4")
    for i in range(16):
        A[i] = T.cast(i - 8, "int4")
        U[i] = T.cast(i, "uint4")
        T4[i] = A[i]
    for i, j in T.grid(16, 16):
        S[i, j] = T4[i] + A[j]
        P[i, j] = U[i] * U[j]
        D[i, j] = T.if_then_else(A[j] == T.int4(0), T.int8(0), T.cast(A[i], "int8") // T.cast(T.max(A[j], T.int4(-8)), "int8"))
)");
  NDArray a = NDArray::zeros({16}, DataType::int_(4)), u = NDArray::zeros({16}, DataType::uint(4)),
          s = NDArray::zeros({16, 16}, DataType::int_(4)), p = NDArray::zeros({16, 16}, DataType::uint(4)),
          d = NDArray::zeros({16, 16}, DataType::int_(8));
  EXPECT_EQ(s.byte_size(), 128u);
  interpret_prim_func(function(m), {a, u, s, p, d}, m);
  auto wrap4 = [](int v) { return ((v + 8) & 15) - 8; };
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(a.element_int(i), i - 8);
    for (int j = 0; j < 16; ++j) {
      EXPECT_EQ(s.element_int(i * 16 + j), wrap4(i - 8 + j - 8));
      EXPECT_EQ(p.element_int(i * 16 + j), (i * j) & 15);
      const int x = i - 8, y = j - 8;
      EXPECT_EQ(d.element_int(i * 16 + j), y == 0 ? 0 : int(std::floor(double(x) / y)));
    }
  }
}

TEST(Int4, CastsSaturateFromFloatsAndWrapFromIntegers) {
  const IRModule m = read(R"(
@T.prim_func
def f(X: T.Buffer((5,), "float32"), A: T.Buffer((5,), "int4"), B: T.Buffer((5,), "int4")):
    for i in range(5):
        A[i] = T.cast(X[i], "int4")
        B[i] = T.cast(T.cast(X[i], "int32"), "int4")
)");
  NDArray x = NDArray::zeros({5}, f32), a = NDArray::zeros({5}, DataType::int_(4)),
          b = NDArray::zeros({5}, DataType::int_(4));
  const double in[] = {-100, -8.9, 7.9, 8, 100};
  for (int i = 0; i < 5; ++i) x.set_element(i, in[i]);
  interpret_prim_func(function(m), {x, a, b}, m);
  EXPECT_EQ(values(a), (std::vector<double>{-8, -8, 7, 7, 7}));
  EXPECT_EQ(values(b), (std::vector<double>{-4, -8, 7, -8, 4}));
}

}  // namespace
}  // namespace tenon::interpret_test
