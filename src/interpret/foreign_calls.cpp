// SPDX-License-Identifier: Apache-2.0
// Calls of packed functions and of C functions of the process from tensor programs.
#include <dlfcn.h>

#include <array>

#include "interpret/prim_impl.h"
#include "ir/imported_code.h"
#include "ir/packed_call.h"
#include "runtime/kernel_calls.h"
#include "runtime/library.h"

namespace tenon::prim_interpreter {
namespace {

int64_t address_of(const Storage& s) {
  const DataType t = s.array.dtype();
  return int64_t(reinterpret_cast<uintptr_t>(s.array.data())) + s.offset * t.bytes();
}

int64_t bits_of(double value) {
  int64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
double with_bits(int64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// A C function takes integers and pointers in registers of one kind and floats in those of another, each in
// order, on every processor here: so a call that fills all of them gives any function its arguments.
#if defined(__x86_64__)
constexpr size_t kIntegers = 6;
#else
constexpr size_t kIntegers = 8;
#endif
constexpr size_t kFloats = 8;

struct Registers {
  std::array<int64_t, kIntegers> i{};
  std::array<double, kFloats> d{};
};

template <class R>
R called(void* function, const Registers& r) {
  const auto& [i, d] = r;
#if defined(__x86_64__)
  using F = R (*)(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, double, double, double, double,
                  double, double, double, double);
  return reinterpret_cast<F>(function)(i[0], i[1], i[2], i[3], i[4], i[5], d[0], d[1], d[2], d[3], d[4], d[5],
                                       d[6], d[7]);
#else
  using F = R (*)(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, double, double,
                  double, double, double, double, double, double);
  return reinterpret_cast<F>(function)(i[0], i[1], i[2], i[3], i[4], i[5], i[6], i[7], d[0], d[1], d[2], d[3],
                                       d[4], d[5], d[6], d[7]);
#endif
}

/// A float of 32 bits in a register of 64: the other bits are ones where a processor looks at them.
double single(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return with_bits(int64_t(0xffffffff00000000u | bits));
}

}  // namespace

Lanes Interpreter::call_packed(const tir::Call& n) {
  // Memory that may only be read is given as such.
  Array<PrimExpr> args = n.args;
  for (size_t i = 1; i < args.size(); ++i)
    if (auto view = tensor_view(args[i]); view && is_read_only(pointer(view->pointer).array)) {
      view->access = 1;
      args.set(i, to_expr(*view));
    }
  const PrimExpr given = tir::call(n.dtype, n.op, args);
  const PackedCallForm form = packed_call_form(*given.as<tir::Call>(), options_.float64);
  const std::string name = n.args[0].as<tir::StringImm>()->value;
  const std::vector<KernelCalls::Named> functions{{name, find_function(name)}};
  if (!functions[0].function)
    error("T0609", fmt::format("the function `{}` is not registered in this process", name));
  std::vector<int64_t> values;
  for (const PrimExpr& e : form.values) {
    if (const auto* text = e.as<tir::StringImm>())
      values.push_back(int64_t(reinterpret_cast<uintptr_t>(text->value.c_str())));
    else if (e.dtype().is_handle())
      values.push_back(address_of(pointer(e)));
    else
      values.push_back(e.dtype().is_float() ? bits_of(eval(e)[0].d) : integer(e));
  }
  if (values.empty()) values.push_back(0);
  KernelCalls calls;
  calls.functions = &functions;
  TenonKernelContext context{};
  context.calls = &calls;
  const auto call = reinterpret_cast<PackedCall>(find_function(kKernelCall)().as<void*>());
  if (call(&context, form.text.c_str(), values.data()) != 0) throw Error(*calls.failure);
  Lanes out(n.dtype.is_void() ? i32 : n.dtype);
  if (n.dtype.is_float())
    out[0].d = n.dtype.bits == 32 ? double(float(with_bits(values[0]))) : with_bits(values[0]);
  else if (!n.dtype.is_void())
    out[0].i = wrap(values[0], n.dtype);
  return out;
}

Lanes Interpreter::call_extern(const tir::Call& n) {
  const auto* text = n.args.empty() ? nullptr : n.args[0].as<tir::StringImm>();
  if (!text) error("T0350", "a call of a C function names none");
  const std::string& name = text->value;
  if (imports_)
    error("T0350", fmt::format("the interpreter cannot run `{}`, which the program imports", name));
  void* function = dlsym(RTLD_DEFAULT, name.c_str());
  if (!function) error("T0625", fmt::format("this process has no C function `{}`", name));
  Registers r;
  size_t integers = 0, floats = 0;
  for (size_t k = 1; k < n.args.size(); ++k) {
    const DataType t = n.args[k].dtype();
    if (t.is_vector() || (t.is_float() ? floats : integers) == (t.is_float() ? kFloats : kIntegers) ||
        (t.is_float() && t.bits < 32) || (t.is_handle() && options_.float64))
      error("T0350", fmt::format("the interpreter cannot give `{}` its argument {}", name, k));
    if (t.is_float()) {
      const double v = eval(n.args[k])[0].d;
      r.d[floats++] = t.bits == 32 ? single(float(v)) : v;
    } else {
      r.i[integers++] = t.is_handle() ? address_of(pointer(n.args[k])) : integer(n.args[k]);
    }
  }
  Lanes out(n.dtype.is_void() ? i32 : n.dtype);
  if (n.dtype.is_float() && n.dtype.bits == 32)
    out[0].d = called<float>(function, r);
  else if (n.dtype.is_float() && n.dtype.bits == 64)
    out[0].d = called<double>(function, r);
  else if (n.dtype.is_void() || n.dtype.is_integer() || n.dtype.is_bool())
    out[0].i = n.dtype.is_void()   ? (called<int64_t>(function, r), 0)
               : n.dtype.is_bool() ? int64_t((called<int64_t>(function, r) & 0xff) != 0)
                                   : wrap(called<int64_t>(function, r), n.dtype);
  else
    error("T0350", fmt::format("the interpreter cannot take what `{}` gives", name));
  return out;
}

}  // namespace tenon::prim_interpreter
