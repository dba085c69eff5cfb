// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "ir/calls_out.h"
#include "ir/intrinsic_table.h"
#include "ir/lookup.h"

namespace tenon::tir {
namespace {
using D = const double*;
constexpr Intrinsic table[] = {
    // name, arguments, pure, lane by lane, doc, meaning
    {"tir.exp", 1, true, true, "e to the power x", [](D a) { return std::exp(a[0]); }},
    {"tir.exp2", 1, true, true, "2 to the power x", [](D a) { return std::exp2(a[0]); }},
    {"tir.exp10", 1, true, true, "10 to the power x", [](D a) { return std::pow(10.0, a[0]); }},
    {"tir.expm1", 1, true, true, "exp(x) - 1", [](D a) { return std::expm1(a[0]); }},
    {"tir.log", 1, true, true, "natural logarithm", [](D a) { return std::log(a[0]); }},
    {"tir.log2", 1, true, true, "logarithm to base 2", [](D a) { return std::log2(a[0]); }},
    {"tir.log10", 1, true, true, "logarithm to base 10", [](D a) { return std::log10(a[0]); }},
    {"tir.log1p", 1, true, true, "log(1 + x)", [](D a) { return std::log1p(a[0]); }},
    {"tir.sqrt", 1, true, true, "square root", [](D a) { return std::sqrt(a[0]); }},
    {"tir.rsqrt", 1, true, true, "1 / sqrt(x)", [](D a) { return 1.0 / std::sqrt(a[0]); }},
    {"tir.sin", 1, true, true, "sine", [](D a) { return std::sin(a[0]); }},
    {"tir.cos", 1, true, true, "cosine", [](D a) { return std::cos(a[0]); }},
    {"tir.tan", 1, true, true, "tangent", [](D a) { return std::tan(a[0]); }},
    {"tir.asin", 1, true, true, "arc sine", [](D a) { return std::asin(a[0]); }},
    {"tir.acos", 1, true, true, "arc cosine", [](D a) { return std::acos(a[0]); }},
    {"tir.atan", 1, true, true, "arc tangent", [](D a) { return std::atan(a[0]); }},
    {"tir.sinh", 1, true, true, "hyperbolic sine", [](D a) { return std::sinh(a[0]); }},
    {"tir.cosh", 1, true, true, "hyperbolic cosine", [](D a) { return std::cosh(a[0]); }},
    {"tir.tanh", 1, true, true, "hyperbolic tangent", [](D a) { return std::tanh(a[0]); }},
    {"tir.asinh", 1, true, true, "inverse hyperbolic sine", [](D a) { return std::asinh(a[0]); }},
    {"tir.acosh", 1, true, true, "inverse hyperbolic cosine", [](D a) { return std::acosh(a[0]); }},
    {"tir.atanh", 1, true, true, "inverse hyperbolic tangent", [](D a) { return std::atanh(a[0]); }},
    {"tir.erf", 1, true, true, "error function", [](D a) { return std::erf(a[0]); }},
    {"tir.sigmoid", 1, true, true, "1 / (1 + exp(-x))", [](D a) { return 1.0 / (1.0 + std::exp(-a[0])); }},
    {"tir.floor", 1, true, true, "largest integer not above x", [](D a) { return std::floor(a[0]); }},
    {"tir.ceil", 1, true, true, "smallest integer not below x", [](D a) { return std::ceil(a[0]); }},
    {"tir.round", 1, true, true, "nearest integer, ties to even", [](D a) { return std::nearbyint(a[0]); }},
    {"tir.trunc", 1, true, true, "x without its fraction", [](D a) { return std::trunc(a[0]); }},
    {"tir.abs", 1, true, true, "absolute value; integers too (the minimum stays)",
     [](D a) { return std::fabs(a[0]); }},
    {"tir.isnan", 1, true, true, "is not a number (bool)", [](D a) { return double(std::isnan(a[0])); }},
    {"tir.isinf", 1, true, true, "is an infinity (bool)", [](D a) { return double(std::isinf(a[0])); }},
    {"tir.isfinite", 1, true, true, "is neither (bool)", [](D a) { return double(std::isfinite(a[0])); }},
    {"tir.pow", 2, true, true, "x to the power y", [](D a) { return std::pow(a[0], a[1]); }},
    {"tir.atan2", 2, true, true, "angle of the point (y, x)", [](D a) { return std::atan2(a[0], a[1]); }},
    {"tir.fmod", 2, true, true, "remainder with the sign of x", [](D a) { return std::fmod(a[0], a[1]); }},
    {"tir.copysign", 2, true, true, "magnitude of x, sign of y",
     [](D a) { return std::copysign(a[0], a[1]); }},
    {"tir.hypot", 2, true, true, "sqrt(x² + y²) without overflow",
     [](D a) { return std::hypot(a[0], a[1]); }},
    {"tir.ldexp", 2, true, true, "x · 2ʸ",
     [](D a) { return std::ldexp(a[0], int(std::fmax(-9999, std::fmin(9999, a[1])))); }},
    {"tir.nextafter", 2, true, true, "next value of the type towards y", nullptr},
    {"tir.fma", 3, true, true, "x·y + z, rounded once", [](D a) { return std::fma(a[0], a[1], a[2]); }},
    {"tir.shift_left", 2, true, true, "x << y; 0 when y is at least the width", nullptr},
    {"tir.shift_right", 2, true, true, "x >> y, arithmetic for signed", nullptr},
    {"tir.bitwise_and", 2, true, true, "bits in both", nullptr},
    {"tir.bitwise_or", 2, true, true, "bits in either", nullptr},
    {"tir.bitwise_xor", 2, true, true, "bits in one", nullptr},
    {"tir.bitwise_not", 1, true, true, "inverted bits", nullptr},
    {"tir.popcount", 1, true, true, "number of bits set", nullptr},
    {"tir.clz", 1, true, true, "number of leading zero bits", nullptr},
    {"tir.lookup", 1 + kLookupWords, true, true,
     "the element of a table that a byte names: the byte, then the table's 256 bytes as int32 words, the "
     "first "
     "in the lowest bits",
     nullptr},
    {"tir.if_then_else", 3, true, false, "second or third argument; only the chosen one is evaluated",
     nullptr, true},
    {"tir.select_rare", 3, true, false,
     "by lane the second argument where the first holds, else the third; the second is computed only when "
     "some "
     "lane needs it",
     nullptr, true},
    {"tir.exact", 1, true, true,
     "the argument, its operations rounded one by one: nothing in it is contracted",
     [](D a) { return a[0]; }},
    {"tir.wide_term", 1, true, true,
     "a float32 as the float64 term of a sum, of which short stretches may be added up in float32",
     [](D a) { return a[0]; }},
    {"tir.ordered_term", 1, true, true,
     "the argument, a term of a maximum that may be any number where one of its terms is NaN",
     [](D a) { return a[0]; }},
    {"tir.likely", 1, true, true, "the condition, expected to hold", nullptr},
    {"tir.reinterpret", 1, true, true, "the same bits as another type", nullptr},
    {"tir.dot", 3, true, false,
     "lane l of the first plus the sum of a[g l + q] b[g l + q] over g neighbours q; g values serve all "
     "lanes",
     nullptr},
    {"tir.vector_reduce_add", 1, true, false, "sum of the lanes, in a fixed pairwise order", nullptr},
    {"tir.vector_reduce_max", 1, true, false, "largest lane; NaN propagates", nullptr},
    {"tir.vector_reduce_min", 1, true, false, "smallest lane; NaN propagates", nullptr},
    {"tir.address_of", 1, true, false, "pointer to the element that the BufferLoad argument names", nullptr},
    {"tir.access_ptr", 4, true, false,
     "pointer to elements of a buffer: its first one, how many elements further on, how many are used, and "
     "whether they are read (1), written (2) or both (3)",
     nullptr},
    {"tir.prefetch", 1, false, false, "hint: the address will be read", nullptr},
    {"tir.call_extern", -1, false, false, "calls a C symbol: first argument StringImm", nullptr},
    {"tir.call_packed", -1, false, false,
     "calls a packed function: its name, then scalars, texts, pointers, and tensor_view of buffers", nullptr},
    {"tir.tensor_view", -1, true, false,
     "what a packed function is given of a buffer: pointer, type of an element, 1 (read), 2 (written) or 3, "
     "sizes, strides",
     nullptr},
    {"tir.call_llvm_intrin", -1, false, false, "an intrinsic of LLVM: its name, then its arguments", nullptr},
    {"tir.call_llvm_pure_intrin", -1, true, false,
     "an intrinsic of LLVM without effect: its name, then its arguments", nullptr},
    {"tir.call_prim_func", -1, false, false,
     "calls a PrimFunc of the module: first argument StringImm, then pointers and scalars", nullptr},
    {"tir.ret", 1, false, false, "ends the function with a value", nullptr},
    {"tir.break_loop", 0, false, false, "ends the innermost loop around", nullptr},
    {"tir.continue_loop", 0, false, false, "ends the present iteration of the innermost loop around",
     nullptr},
    {"tir.assume", 1, false, false, "the condition holds here", nullptr},
    {"tir.kernel_buffer", 2, true, false, "the kernel's buffers and k: data pointer of buffer parameter k",
     nullptr},
    {"tir.kernel_scalar", 2, true, false,
     "the kernel's scalars and k: the 64 bits of scalar parameter k (int64; floats as a double's image)",
     nullptr},
    {"tir.kernel_size", 2, true, false, "the same of a scalar that is a size of a tensor: 0 to 2^48",
     nullptr},
    {"tir.undef", 0, true, true, "any value of the type", nullptr},
    // Memory that several threads change: pointer (address_of) and value; the old value is the result.
    {"tir.atomic_add", 2, false, false, "adds to the element, gives what it was", nullptr},
    {"tir.atomic_max", 2, false, false, "maximum of the element and the value, gives what it was", nullptr},
    {"tir.atomic_min", 2, false, false, "minimum of the element and the value, gives what it was", nullptr},
    {"tir.atomic_and", 2, false, false, "bits in both, gives what it was", nullptr},
    {"tir.atomic_or", 2, false, false, "bits in either, gives what it was", nullptr},
    {"tir.atomic_xor", 2, false, false, "bits in one, gives what it was", nullptr},
    {"tir.atomic_exchange", 2, false, false, "stores the value, gives what it was", nullptr},
    {"tir.atomic_compare_exchange", 3, false, false,
     "stores the third argument where the element equals the second, gives what it was", nullptr},
    // Threads of a block wait for or hear of each other; all of them must come here.
    {"tir.storage_sync", 1, false, false,
     "threads of a block wait for each other; the scope (\"shared\", \"warp\", \"global\") whose writes are "
     "then seen",
     nullptr},
    {"tir.thread_allreduce", -1, false, false,
     "name of an operation (add, mul, min, max, and, or), value, names of thread axes: every thread gets the "
     "combination over these axes",
     nullptr},
    {"tir.warp_shuffle", 2, false, false, "the value that thread k of the warp gives", nullptr},
    {"tir.warp_shuffle_up", 2, false, false, "the value of the thread k before; own where there is none",
     nullptr},
    {"tir.warp_shuffle_down", 2, false, false, "the value of the thread k behind; own where there is none",
     nullptr},
    {"tir.warp_shuffle_xor", 2, false, false, "the value of the thread whose number differs by the bits of k",
     nullptr},
    // Copies that run beside the program until they are waited for.
    {"tir.async_copy", 3, false, false, "destination, source, elements: begins a copy", nullptr},
    {"tir.async_commit", 0, false, false, "closes a group of the copies begun", nullptr},
    {"tir.async_wait", 1, false, false, "waits until at most k groups are under way", nullptr},
    // Matrix fragments: a buffer of scope "wmma.…" holds rows x columns values of the warp's tile.
    {"tir.mma_fill", 3, false, false, "fragment, elements, value", nullptr},
    {"tir.mma_load", 6, false, false, "fragment, rows, columns, source, row stride, \"row\" or \"col\"",
     nullptr},
    {"tir.mma_store", 6, false, false, "destination, row stride, \"row\" or \"col\", fragment, rows, columns",
     nullptr},
    {"tir.mma_sync", 7, false, false, "fragments d, a, b, c and m, n, k: d = a · b + c", nullptr},
    {"tir.vscale", 0, true, false, "how many times longer the machine's scalable vectors are than 128 bits",
     nullptr},
};

bool is_any(std::string_view name, std::initializer_list<std::string_view> names) {
  for (std::string_view n : names)
    if (name == n) return true;
  return false;
}
}  // namespace

std::string_view to_string(IntrinsicGroup group) {
  constexpr std::string_view names[] = {"math",   "bit",  "vector",     "memory",          "call",   "kernel",
                                        "atomic", "sync", "async copy", "matrix fragment", "foreign"};
  return names[size_t(group)];
}
IntrinsicGroup group_of(const Intrinsic& i) {
  if (is_foreign(i)) return IntrinsicGroup::foreign;
  const std::string_view n = i.name.substr(4);
  if (n.starts_with("atomic_")) return IntrinsicGroup::atomic;
  if (n.starts_with("async_")) return IntrinsicGroup::async_copy;
  if (n.starts_with("mma_")) return IntrinsicGroup::fragment;
  if (n.starts_with("warp_") || is_any(n, {"storage_sync", "thread_allreduce"})) return IntrinsicGroup::sync;
  if (n.starts_with("kernel_")) return IntrinsicGroup::kernel;
  if (n.starts_with("vector_")) return IntrinsicGroup::vector;
  if (is_any(n, {"address_of", "access_ptr", "tensor_view", "prefetch"})) return IntrinsicGroup::memory;
  if (n.starts_with("call_llvm_") ||
      is_any(n, {"call_extern", "call_packed", "call_prim_func", "ret", "break_loop", "continue_loop",
                 "assume", "undef", "likely", "if_then_else", "select_rare", "vscale"}))
    return IntrinsicGroup::call;
  if (n.starts_with("bitwise_") || n.starts_with("shift_") ||
      is_any(n, {"popcount", "clz", "lookup", "reinterpret"}))
    return IntrinsicGroup::bit;
  return IntrinsicGroup::math;
}

IntrinsicType type_rule(const Intrinsic& i) {
  if (is_foreign(i)) return IntrinsicType::given;
  const std::string_view n = i.name.substr(4);
  if (is_any(n, {"isnan", "isinf", "isfinite"})) return IntrinsicType::boolean;
  if (is_any(n, {"if_then_else", "select_rare", "thread_allreduce"}) || n.starts_with("atomic_"))
    return IntrinsicType::second;
  if (n.starts_with("warp_shuffle")) return IntrinsicType::first;
  if (n == "wide_term") return IntrinsicType::given;
  if (is_any(n, {"address_of", "access_ptr", "tensor_view", "kernel_buffer"})) return IntrinsicType::handle;
  if (is_any(n, {"break_loop", "continue_loop"})) return IntrinsicType::none;
  switch (group_of(i)) {
    case IntrinsicGroup::vector:
      return IntrinsicType::element;
    case IntrinsicGroup::sync:
    case IntrinsicGroup::async_copy:
    case IntrinsicGroup::fragment:
      return IntrinsicType::none;
    case IntrinsicGroup::math:
      return IntrinsicType::first;
    case IntrinsicGroup::bit:
      return is_any(n, {"popcount", "clz", "lookup", "reinterpret"}) ? IntrinsicType::given
                                                                     : IntrinsicType::first;
    default:
      return n == "likely" ? IntrinsicType::first : IntrinsicType::given;
  }
}

std::string type_problem(const Intrinsic& i, const Call& c) {
  auto arg = [&](size_t k) { return k < c.args.size() && c.args[k] ? c.args[k].dtype() : DataType(); };
  DataType want;
  switch (type_rule(i)) {
    case IntrinsicType::first:
      want = arg(0);
      break;
    case IntrinsicType::second:
      want = arg(1);
      break;
    case IntrinsicType::boolean:
      want = tenon::boolean.with_lanes(arg(0).lanes);
      break;
    case IntrinsicType::element:
      want = arg(0).element();
      break;
    case IntrinsicType::handle:
      want = DataType::handle();
      break;
    case IntrinsicType::none:
      want = DataType::void_();
      break;
    case IntrinsicType::given:
      return {};
  }
  if (c.dtype == want) return {};
  return "`" + c.op + "` has type " + to_string(c.dtype) + " where its arguments make it " + to_string(want);
}

bool calls_out(std::string_view op) {
  return is_any(op, {"tir.call_extern", "tir.call_packed", "tir.call_prim_func"});
}

const Intrinsic* find_intrinsic(std::string_view name) {
  for (const Intrinsic& i : table)
    if (i.name == name) return &i;
  return find_foreign_intrinsic(name);
}
bool chooses(const Call& call) {
  const Intrinsic* known = find_intrinsic(call.op);
  return known && known->chooses;
}
std::span<const Intrinsic> all_intrinsics() { return table; }

int64_t dot_group(const PrimExpr& accumulator, const PrimExpr& a, const PrimExpr& b) {
  const DataType t = accumulator.dtype(), x = a.dtype(), y = b.dtype();
  const int64_t most = std::max<int64_t>(x.lanes, y.lanes), group = most / std::max<int64_t>(1, t.lanes);
  auto fits = [&](DataType o) { return o.lanes == most || o.lanes == group; };
  auto small = [](DataType o) { return (o.is_int() || o.is_uint()) && (o.bits == 8 || o.bits == 16); };
  const bool types = t.element() == i32   ? small(x) && small(y) && x.bits == y.bits
                     : t.element() == f32 ? x.element() == y.element() &&
                                                (x.element() == DataType::bfloat16() || x.element() == f16)
                                          : false;
  return types && (group == 2 || group == 4) && group * t.lanes == most && fits(x) && fits(y) ? group : 0;
}

static PrimExpr unary(const char* op, const PrimExpr& x) { return call(x.dtype(), op, {x}); }
PrimExpr exp(const PrimExpr& x) { return unary("tir.exp", x); }
PrimExpr log(const PrimExpr& x) { return unary("tir.log", x); }
PrimExpr sqrt(const PrimExpr& x) { return unary("tir.sqrt", x); }
PrimExpr tanh(const PrimExpr& x) { return unary("tir.tanh", x); }
PrimExpr sigmoid(const PrimExpr& x) { return unary("tir.sigmoid", x); }
PrimExpr erf(const PrimExpr& x) { return unary("tir.erf", x); }
PrimExpr abs(const PrimExpr& x) { return unary("tir.abs", x); }
PrimExpr pow(const PrimExpr& x, const PrimExpr& y) { return call(x.dtype(), "tir.pow", {x, y}); }

static double largest(DataType t) {
  switch (t.code) {
    case TypeCode::Float:
      return t.bits == 64   ? std::numeric_limits<double>::max()
             : t.bits == 32 ? std::numeric_limits<float>::max()
                            : 65504.0;
    case TypeCode::BFloat:
      return std::ldexp(255.0, 120);
    case TypeCode::Float8_e4m3fn:
      return 448;
    case TypeCode::Float8_e4m3fnuz:
      return 240;
    default:
      return 57344;
  }
}
PrimExpr max_value(DataType t) {
  if (t.is_float()) return PrimExpr::float_imm(largest(t), t);
  if (t.is_bool()) return PrimExpr::int_imm(1, t);
  const int64_t all = t.bits == 64 ? -1 : int64_t((uint64_t(1) << t.bits) - 1);
  return PrimExpr::int_imm(t.is_uint()    ? all
                           : t.bits == 64 ? INT64_MAX
                                          : (int64_t(1) << (t.bits - 1)) - 1,
                           t);
}
PrimExpr min_value(DataType t) {
  if (t.is_float()) return PrimExpr::float_imm(-largest(t), t);
  if (t.is_bool() || t.is_uint()) return PrimExpr::int_imm(0, t);
  return PrimExpr::int_imm(t.bits == 64 ? INT64_MIN : -(int64_t(1) << (t.bits - 1)), t);
}
PrimExpr infinity(DataType t) { return PrimExpr::float_imm(std::numeric_limits<double>::infinity(), t); }

}  // namespace tenon::tir
