// SPDX-License-Identifier: Apache-2.0
// The type rule of each intrinsic: what `tir::Call` may be given and what it gives. Whoever visits a verified
// call may rely on it.
#include <fmt/format.h>

#include <algorithm>

#include "ir/intrinsic.h"
#include "ir/packed_call.h"
#include "ir/scalable.h"
#include "ir/verify_impl.h"

namespace tenon {
namespace {
using namespace tir;

bool one_of(std::string_view name, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), name) != list.end();
}
bool is_string(const PrimExpr& e) { return e.is<StringImm>(); }

/// What the arguments of an intrinsic that works lane by lane have to be.
std::string lanewise_problem(std::string_view name, const Call& n) {
  if (n.args.empty()) return {};
  const DataType first = n.args[0].dtype();
  for (const PrimExpr& a : n.args)
    if (a.dtype().lanes != 1 && a.dtype().lanes != n.dtype.lanes)
      return fmt::format("gives {} and is given {}", to_string(n.dtype), to_string(a.dtype()));
  auto needs = [&](bool ok, std::string_view what) {
    return ok ? std::string() : fmt::format("needs {} and is given {}", what, to_string(first));
  };
  auto gives = [&](DataType t) {
    return n.dtype.element() == t.element()
               ? std::string()
               : fmt::format("of {} gives {}, not {}", to_string(first), to_string(t.element()),
                             to_string(n.dtype.element()));
  };
  auto each = [&](auto ok, std::string_view what) {
    for (const PrimExpr& a : n.args)
      if (!ok(a.dtype())) return fmt::format("needs {} and is given {}", what, to_string(a.dtype()));
    return std::string();
  };
  auto bits = [](DataType t) { return t.is_integer() || t.is_bool(); };
  auto numbers = [](DataType t) { return t.is_integer() || t.is_float(); };
  auto all = [](std::initializer_list<std::string> problems) {
    for (const std::string& p : problems)
      if (!p.empty()) return p;
    return std::string();
  };
  const bool number = first.is_float() || first.is_integer();
  if (name == "reinterpret")
    return first.bits == n.dtype.bits && first.lanes == n.dtype.lanes && !first.is_void()
               ? std::string()
               : fmt::format("of {} has not the bits of {}", to_string(first), to_string(n.dtype));
  if (one_of(name, {"likely"})) return all({needs(first.is_bool(), "a condition"), gives(first)});
  if (one_of(name, {"isnan", "isinf", "isfinite"})) return all({needs(number, "a number"), gives(boolean)});
  if (one_of(name, {"bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"}))
    return all({each(bits, "integers"), gives(first)});
  if (one_of(name, {"shift_left", "shift_right"}))
    return all({needs(first.is_integer() && n.args[1].dtype().is_integer(), "integers"), gives(first)});
  if (one_of(name, {"popcount", "clz"}))
    return all(
        {needs(first.is_integer(), "an integer"), n.dtype.is_integer() ? std::string() : "gives an integer"});
  if (name == "lookup") {
    auto byte = [](DataType t) { return t.is_integer() && t.bits == 8; };
    const bool words = std::all_of(n.args.begin() + 1, n.args.end(),
                                   [](const PrimExpr& a) { return a.dtype() == i32 && as_int(a); });
    return all({needs(byte(first), "a byte"), words ? std::string() : "needs a table of int32 constants",
                byte(n.dtype) ? std::string() : "gives a byte"});
  }
  if (one_of(name, {"abs", "floor", "ceil", "round", "trunc"}))
    return all({needs(number, "a number"), gives(first)});
  if (name == "pow") return all({each(numbers, "numbers"), gives(first)});
  if (name == "ldexp")
    return all({needs(first.is_float() && (n.args[1].dtype().is_integer() || n.args[1].dtype().is_float()),
                      "a float and an exponent"),
                gives(first)});
  if (name == "exact") return gives(first);
  if (name == "wide_term")
    return all(
        {needs(first.is_float() && first.bits == 32, "a float32"), gives(f64.with_lanes(first.lanes))});
  return all({needs(first.is_float(), "a float"), each(numbers, "numbers"), gives(first)});
}

/// A result is a number; arguments are what a value of the runtime can hold.
std::string packed_problem(const Call& n) {
  const auto* name = n.args.empty() ? nullptr : n.args[0].as<StringImm>();
  if (!name || name->value.empty() ||
      name->value.find_first_of(std::string_view("\n\0", 2)) != std::string::npos)
    return "needs the name of a packed function first";
  auto number = [](DataType t) {
    return t.is_scalar() &&
           ((t.is_integer() && t.bits >= 8) || (t.is_float() && t.bits >= 32) || t.is_bool());
  };
  if (!n.dtype.is_void() && !number(n.dtype))
    return fmt::format("gives a number or nothing, not {}", to_string(n.dtype));
  for (size_t i = 1; i < n.args.size(); ++i) {
    const PrimExpr& a = n.args[i];
    if (const auto* text = a.as<StringImm>()) {
      if (text->value.find('\0') != std::string::npos) return "cannot be given a text with a zero inside";
    } else if (!number(a.dtype()) && !a.dtype().is_handle()) {
      return fmt::format("takes scalars, texts, pointers and tensors, not {}", to_string(a.dtype()));
    }
  }
  return {};
}

std::string view_problem(const Call& n) {
  const auto view = tensor_view(PrimExpr(Ref<PrimExprNode>(&n)));
  DataType t;
  if (!view || !view->pointer.dtype().is_handle() || !parse_dtype(view->dtype, &t) || t.is_vector() ||
      t.is_handle() || (t.bits < 8 && !t.is_bool()) || view->access < 1 || view->access > 3)
    return "needs a pointer, the type of an element of whole bytes, a mask of 1 to 3, sizes and strides";
  for (size_t i = 3; i < n.args.size(); ++i)
    if (!n.args[i].dtype().is_integer() || n.args[i].dtype().is_vector())
      return fmt::format("needs integers as sizes and strides, not {}", to_string(n.args[i].dtype()));
  return {};
}

}  // namespace

std::string call_problem(const tir::Call& n) {
  using namespace tir;
  const Intrinsic* known = find_intrinsic(n.op);
  if (!known) return "is no intrinsic";
  if (known->arguments >= 0 && size_t(known->arguments) != n.args.size())
    return fmt::format("takes {} arguments and is given {}", known->arguments, n.args.size());
  for (const PrimExpr& a : n.args)
    if (!a) return "is given nothing";
  const std::string_view name = known->name.substr(4);
  if (known->vector) return lanewise_problem(name, n);
  auto type = [&](size_t i) { return n.args[i].dtype(); };
  if (name == "if_then_else") {
    if (!type(0).is_bool()) return fmt::format("needs a condition and is given {}", to_string(type(0)));
    if (type(1) != n.dtype || type(2) != n.dtype)
      return fmt::format("of {} and {} does not give {}", to_string(type(1)), to_string(type(2)),
                         to_string(n.dtype));
  } else if (name == "select_rare") {
    if (!type(0).is_bool() || (type(0).lanes != 1 && type(0).lanes != n.dtype.lanes))
      return fmt::format("needs conditions and is given {}", to_string(type(0)));
    if (type(1) != n.dtype || type(2) != n.dtype)
      return fmt::format("of {} and {} does not give {}", to_string(type(1)), to_string(type(2)),
                         to_string(n.dtype));
  } else if (name == "dot") {
    if (n.dtype != type(0) || is_scalable(type(1)) || is_scalable(type(2)) || is_scalable(n.dtype) ||
        dot_group(n.args[0], n.args[1], n.args[2]) == 0)
      return "is given types that do not fit one another";
  } else if (name.starts_with("vector_reduce_")) {
    if (n.dtype != type(0).element() || type(0).is_handle())
      return fmt::format("of {} does not give {}", to_string(type(0)), to_string(n.dtype));
  } else if (name == "address_of") {
    if (!n.args[0].is<BufferLoad>() || type(0).lanes != n.args[0].as<BufferLoad>()->buffer->dtype.lanes)
      return "needs one element of a buffer";
  } else if (name == "access_ptr") {
    const auto mask = as_int(n.args[3]);
    if (!n.args[0].is<BufferLoad>() || type(1) != i64 || type(2) != i64 || !mask || *mask < 1 || *mask > 3)
      return "needs an element of a buffer, an offset, an extent (int64) and a mask of 1 to 3";
  } else if (name == "call_llvm_intrin" || name == "call_llvm_pure_intrin") {
    if (n.args.empty() || !is_string(n.args[0])) return "needs the name of an intrinsic first";
  } else if (name == "call_extern" || name == "call_prim_func") {
    if (n.args.empty() || !is_string(n.args[0])) return "needs a name first";
  } else if (name == "call_packed") {
    return packed_problem(n);
  } else if (name == "tensor_view") {
    return view_problem(n);
  } else if (name == "thread_allreduce") {
    if (n.args.size() < 2 || !is_string(n.args[0])) return "needs an operation and a value";
    for (size_t i = 2; i < n.args.size(); ++i)
      if (!is_string(n.args[i])) return "names axes behind its value";
  } else if (name == "assume") {
    if (type(0) != boolean) return fmt::format("needs a condition and is given {}", to_string(type(0)));
  } else if (name == "vscale") {
    if (!n.dtype.is_integer() || n.dtype.is_vector()) return "gives an integer";
  }
  return {};
}

}  // namespace tenon
