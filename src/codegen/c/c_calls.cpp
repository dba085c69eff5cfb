// SPDX-License-Identifier: Apache-2.0
// Calls of kernels, functions and builtins of the VM as C statements.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/diagnostic.h"
#include "codegen/c/c_program.h"

namespace tenon::codegen {

bool Body::call(uint32_t i, const Instruction& in, State& s) {
  const Callee& c = e_.callees[size_t(in.callee)];
  if (c.kind == CalleeKind::Kernel) return kernel(c, in, s), true;
  if (c.kind == CalleeKind::Function) return function(i, c, in, s), true;
  if (c.kind == CalleeKind::Closure) throw NoEntry{"it calls a function that is a value"};
  // A path that the inputs do not allow, in the model's own words.
  if (c.name == "tenon.refuse") return line(fmt::format("return {};", kRefused)), false;
  if (list_call(c.name, i, in, s)) return true;
  const std::optional<Builtin> own = builtin_of(c.name);
  if (!own) throw NoEntry{"it calls `" + c.name + "` while it runs"};
  builtin(*own, i, in, s);
  return true;
}

void Body::kernel(const Callee& c, const Instruction& in, const State& s) {
  std::string buffers, scalars;
  bool fixed = true;
  for (uint32_t k = 0; k < in.num_args; ++k) {
    if (int32_t(k) < c.num_buffers) {
      if (e_.args[in.first_arg + k].kind() == ArgKind::Heap)
        throw NoEntry{"a kernel finds a size while it runs"};
      const Operand o = tensor_of(operand(in, k, s));
      buffers += (buffers.empty() ? "" : ", ") + text(o.value, o.holder);
      continue;
    }
    const Operand o = operand(in, k, s), n = scalar_of(o);
    fixed = fixed && n.value.known.has_value();
    const std::string value = scalar_text(o, n);
    scalars +=
        (scalars.empty() ? "" : ", ") + (n.value.is_float ? fmt::format("tenon_bits({})", value) : value);
  }
  p_.kernels.insert(c.name);
  if (!printing_) return;
  line("{");
  line(fmt::format("  void* const buffers[] = {{{}}};", buffers.empty() ? "0" : buffers));
  line(fmt::format("  {}const int64_t scalars[] = {{{}}};", fixed ? "static " : "",
                   scalars.empty() ? "0" : scalars));
  line("  tenon_workspace_used = 0;");
  failing(fmt::format("{}{}(buffers, scalars, &tenon_context)", p_.prefix, c.name));
  lines_.back().text.insert(0, "  ");
  line("}");
}

void Body::function(uint32_t i, const Callee& c, const Instruction& in, State& s) {
  const VMFunction& f = e_.functions[size_t(c.index)];
  if (std::ranges::count(p_.active, c.index)) throw NoEntry{"`" + f.name + "` calls itself"};
  std::string key = std::to_string(c.index), arguments;
  std::vector<std::string> taken, results;
  std::vector<CValue> values;
  for (uint32_t k = 0; k < in.num_args; ++k) {
    const Operand o = operand(in, k, s);
    key += ":" + signature(o.value);
    values.push_back(o.value);
    as_parameter(values.back());
    leaves(o.value, o.holder, [&](const CValue& leaf, const std::string& holder) {
      if (leaf.kind == CValue::none) throw NoEntry{"`" + f.name + "` takes a value of no known type"};
      if (leaf.kind == CValue::tensor || !leaf.known) arguments += text(leaf, holder) + ", ";
    });
    leaves(values.back(), std::to_string(k), [&](const CValue& leaf, const std::string& holder) {
      if (leaf.kind == CValue::tensor || !leaf.known) taken.push_back(variable(leaf, holder));
    });
  }
  const CValue result = result_of(c.index, key, values);
  // What it returns goes to memory of the caller's.
  CValue out = result;
  const std::string to = in.dst < 0 ? "x" : std::to_string(in.dst);
  own(out, to, [&](CValue& v, const std::string& holder) {
    const int k = int(results.size());
    results.push_back(v.kind == CValue::tensor ? "void*" : v.is_float ? "double*" : "int64_t*");
    if (v.kind == CValue::number) {
      addressed_.insert(variable(v, holder));
      arguments += fmt::format("&{}, ", variable(v, holder));
      v.known.reset();
      return;
    }
    const std::string name = "pr" + holder;
    v = fresh(i, in, s, v.dtype, *v.dims, k, name);
    arguments += name + ", ";
  });
  if (printing_) {
    const std::string name = printed(c.index, f, key, values, taken, results);
    if (!arguments.empty()) arguments.resize(arguments.size() - 2);
    failing(fmt::format("{}({})", name, arguments));
    own(out, to, [&](CValue& v, const std::string& holder) {
      if (v.kind == CValue::tensor) assign("p" + holder, "pr" + holder);
    });
  }
  if (in.dst >= 0) s.registers[size_t(in.dst)] = out;
}

void Body::as_parameter(CValue& v) {
  v.place = {};
  v.buffers.clear();
  v.growing = -1;
  for (CValue& i : v.items) as_parameter(i);
}

CValue Body::result_of(int32_t index, const std::string& key, const std::vector<CValue>& values) {
  const auto known_result = p_.results.find(key);
  if (known_result != p_.results.end()) return known_result->second;
  p_.active.push_back(index);
  CValue result = Body(p_, e_.functions[size_t(index)], false).follow(values);
  as_parameter(result);
  p_.active.pop_back();
  return p_.results[key] = result;
}

std::string Body::printed(int32_t index, const VMFunction& f, const std::string& key,
                          const std::vector<CValue>& values, const std::vector<std::string>& taken,
                          const std::vector<std::string>& results) {
  std::string& name = p_.named[key];
  if (!name.empty()) return name;
  name = fmt::format("tenon_function_{}_", p_.named.size());
  for (char c : f.name)
    name += std::isalnum(static_cast<unsigned char>(c)) && static_cast<unsigned char>(c) < 128 ? c : '_';
  p_.active.push_back(index);
  Body body(p_, f, false);
  body.parameters.insert(taken.begin(), taken.end());
  body.follow(values);
  const std::string statements = body.print();
  p_.active.pop_back();
  std::vector<std::string> parameters;
  for (const std::string& p : taken) parameters.push_back(declaration(p));
  for (size_t k = 0; k < results.size(); ++k) parameters.push_back(fmt::format("{} out{}", results[k], k));
  const std::set<std::string> used = identifiers(statements);
  std::string unused;
  for (const std::string& p : taken)
    if (!used.count(p)) unused += fmt::format("  (void){};\n", p);
  p_.functions += fmt::format("\nstatic int32_t {}({}) {{\n{}{}}}\n", name,
                              parameters.empty() ? "void" : fmt::format("{}", fmt::join(parameters, ", ")),
                              unused, statements);
  return name;
}

void Body::builtin(Builtin b, uint32_t i, const Instruction& in, State& s) {
  auto arg = [&](uint32_t k) { return operand(in, k, s); };
  if (b == Builtin::none) return put(in.dst, s, Operand{});
  if (b == Builtin::move || b == Builtin::check_tensor) return put(in.dst, s, arg(0));
  if (b == Builtin::alloc_tensor) return allocate(dtype_of_word(known(arg(0))), sizes(in, 1, s), i, in, s);
  if (b == Builtin::reshape) {
    Operand o = tensor_of(arg(0));
    std::vector<int64_t> dims;
    for (const Operand& d : sizes(in, 1, s)) dims.push_back(known(d));
    if (int64_t(storage_bytes(element_count(dims), o.value.dtype)) != o.value.bytes)
      throw NoEntry{"a reshape has a size that is inferred while it runs"};
    o.value.dims = dims;
    return put(in.dst, s, o);
  }
  if (b == Builtin::tuple || b == Builtin::make_shape) {
    std::vector<Operand> parts;
    std::vector<CValue> values;
    if (b == Builtin::make_shape)
      parts = sizes(in, 0, s);
    else
      for (uint32_t k = 0; k < in.num_args; ++k) parts.push_back(arg(k));
    for (const Operand& o : parts) values.push_back(o.value);
    return put(in.dst, s, list(values), parts);
  }
  if (b == Builtin::tuple_get || b == Builtin::shape_dim) {
    const std::vector<Operand> all = b == Builtin::shape_dim ? shape_of(arg(0)) : items(arg(0));
    const int64_t k = known(arg(1));
    if (k < 0 || k >= int64_t(all.size())) throw NoEntry{"it takes a part that a tuple has not"};
    return put(in.dst, s, all[size_t(k)]);
  }
  if (b == Builtin::shape_of) {
    const std::vector<Operand> dims = shape_of(arg(0));
    std::vector<CValue> values;
    for (const Operand& d : dims) values.push_back(d.value);
    return put(in.dst, s, list(values), dims);
  }
  if (b == Builtin::match_shape) return match_shape(in, s);
  if (b == Builtin::compute_shape) return compute_shape(in, s);
  if (b == Builtin::copy) {
    const Operand from = tensor_of(arg(0));
    if (!from.value.dims) throw NoEntry{"a tensor has no known shape"};
    const CValue to = fresh(i, in, s, from.value.dtype, *from.value.dims, 0, "pc");
    copy_bytes("pc", text(from.value, from.holder), to.bytes);
    return put_fresh(in.dst, s, to, "pc");
  }
  if (b == Builtin::copy_into) return copy_into(i, in, s);
  if (b == Builtin::scalar) {
    const Operand o = arg(0), n = scalar_of(o);
    return put_number(in.dst, s, n.value, scalar_text(o, n));
  }
  if (b == Builtin::to_tensor) {
    const Operand n = arg(0);
    const DataType t = dtype_of_word(known(arg(1)));
    if (n.value.kind != CValue::number) throw NoEntry{"it makes a tensor of what is no number"};
    const std::string put_element = access("put", t);
    const CValue to = fresh(i, in, s, t, {}, 0, "pc");
    line(fmt::format("{}(pc, {});", put_element, text(n.value, n.holder)));
    return put_fresh(in.dst, s, to, "pc");
  }
  if (b == Builtin::shape_to_tensor) {
    const std::vector<Operand> dims = shape_of(arg(0));
    const CValue to = fresh(i, in, s, i64, {int64_t(dims.size())}, 0, "pc");
    for (size_t k = 0; k < dims.size(); ++k)
      line(fmt::format("tenon_put_int64((char*)pc + {}, {});", 8 * k, text(dims[k].value, dims[k].holder)));
    return put_fresh(in.dst, s, to, "pc");
  }
  if (b == Builtin::tensor_to_shape) return tensor_to_shape(in, s);
  throw NoEntry{fmt::format("it calls `{}` while it runs", name_of(b))};
}

void Body::tensor_to_shape(const Instruction& in, State& s) {
  const Operand o = tensor_of(operand(in, 0, s));
  if (!o.value.dims || o.value.dims->size() != 1 || !o.value.dtype.is_integer())
    throw NoEntry{"a shape is no list of integers"};
  std::vector<CValue> values;
  for (int64_t k = 0; k < (*o.value.dims)[0]; ++k) {
    const bool constant = o.value.place.kind == CPlace::constant;
    values.push_back(number(constant ? std::optional(e_.constants[size_t(o.value.place.index)].element_int(k))
                                     : std::nullopt));
    if (!constant && in.dst >= 0)
      assign(fmt::format("n{}_{}", in.dst, k),
             fmt::format("{}((char*){} + {})", access("get", o.value.dtype), text(o.value, o.holder),
                         k * o.value.dtype.bytes()));
  }
  if (in.dst >= 0) s.registers[size_t(in.dst)] = list(values);
}

void Body::match_shape(const Instruction& in, State& s) {
  const std::vector<Operand> dims = shape_of(operand(in, 0, s));
  auto differs = [&](const Operand& a, const Operand& b) {
    if (!a.value.known || !b.value.known)
      line(fmt::format("if ({} != {}) return {};", text(a.value, a.holder), text(b.value, b.holder),
                       kWrongSize));
    else if (*a.value.known != *b.value.known)
      line(fmt::format("return {};", kWrongSize));
  };
  differs({number(int64_t(dims.size())), {}}, operand(in, 1, s));
  for (uint32_t k = 0; k < dims.size() && 3 + 2 * k < in.num_args; ++k) {
    const auto match = DimMatch(known(operand(in, 2 + 2 * k, s)));
    const int64_t value = known(operand(in, 3 + 2 * k, s));
    if (match == DimMatch::Number) differs(dims[k], {number(value), {}});
    if (match == DimMatch::Slot) differs(dims[k], operand(Arg::of(ArgKind::Heap, value), s));
    if (match != DimMatch::Bind) continue;
    assign(fmt::format("h{}", value), text(dims[k].value, dims[k].holder));
    s.heap[value] = dims[k].value;
  }
}

void Body::compute_shape(const Instruction& in, State& s) {
  std::vector<Operand> stack;
  const int64_t slot = known(operand(in, 0, s));
  const std::string to = fmt::format("h{}", slot);
  for (uint32_t k = 1; k + 1 < in.num_args; k += 2) {
    const auto word = ShapeWord(known(operand(in, k, s)));
    const int64_t value = known(operand(in, k + 1, s));
    if (word == ShapeWord::Number) stack.push_back({number(value), {}});
    if (word == ShapeWord::Slot) stack.push_back(operand(Arg::of(ArgKind::Heap, value), s));
    if (word != ShapeWord::Apply) continue;
    if (stack.size() < 2) throw NoEntry{"a size has no operands"};
    const Operand b = stack.back(), a = stack[stack.size() - 2];
    stack.resize(stack.size() - 2);
    // A variable for each step: it is not a register's, so nothing else writes it.
    const std::string step = fmt::format("h{}_{}", slot, k);
    const CValue result = number(folded(ShapeOp(value), a, b));
    if (!result.known) {
      failing(fmt::format("tenon_size({}, {}, {}, &{})", value, text(a.value, a.holder),
                          text(b.value, b.holder), step));
      addressed_.insert(step);
    }
    stack.push_back({result, step});
  }
  if (stack.size() != 1) throw NoEntry{"a size has no value"};
  assign(to, text(stack[0].value, stack[0].holder));
  s.heap[slot] = stack[0].value;
}

std::optional<int64_t> Body::folded(ShapeOp op, const Operand& a, const Operand& b) {
  if (!a.value.known || !b.value.known) return {};
  const __int128 x = *a.value.known, y = *b.value.known;
  __int128 r = 0;
  auto floor_div = [](__int128 n, __int128 d) { return n / d - (n % d != 0 && (n < 0) != (d < 0)); };
  const bool division = op == ShapeOp::FloorDiv || op == ShapeOp::FloorMod || op == ShapeOp::CeilDiv;
  if (division && y == 0) return {};
  switch (op) {
    case ShapeOp::Add:
      r = x + y;
      break;
    case ShapeOp::Sub:
      r = x - y;
      break;
    case ShapeOp::Mul:
      r = x * y;
      break;
    case ShapeOp::FloorDiv:
      r = floor_div(x, y);
      break;
    case ShapeOp::FloorMod:
      r = x - floor_div(x, y) * y;
      break;
    case ShapeOp::CeilDiv:
      r = floor_div(x, y) + (x % y != 0);
      break;
    case ShapeOp::Min:
      r = std::min(x, y);
      break;
    case ShapeOp::Max:
      r = std::max(x, y);
      break;
  }
  if (r < INT64_MIN || r > INT64_MAX) return {};
  return int64_t(r);
}

void Body::copy_into(uint32_t i, const Instruction& in, State& s) {
  std::vector<Operand> to, from;
  for (uint32_t k = 0; k + 1 < in.num_args; k += 2) {
    const Operand a = tensor_of(operand(in, k, s)), b = tensor_of(operand(in, k + 1, s));
    if (a.value.bytes != b.value.bytes) throw NoEntry{"a state of a loop changes its size"};
    if (a.value.place == b.value.place && a.value.place.kind != CPlace::variable) continue;
    to.push_back(a);
    from.push_back(b);
  }
  std::vector<std::string> sources;
  for (size_t k = 0; k < from.size(); ++k) {
    const CValue& v = from[k].value;
    const bool apart = std::all_of(to.begin(), to.begin() + int64_t(k), [&](const Operand& o) {
      if (v.place.kind != CPlace::arena || o.value.place.kind != CPlace::arena)
        return v.place.kind != CPlace::variable && o.value.place.kind == CPlace::arena;
      return v.place.index + v.bytes <= o.value.place.index ||
             o.value.place.index + o.value.bytes <= v.place.index;
    });
    sources.push_back(text(from[k].value, from[k].holder));
    if (apart) continue;
    const std::string held = fmt::format("tenon_buffer_{}", buffer(i, int(k), from[k].value.bytes));
    copy_bytes(held, sources.back(), from[k].value.bytes);
    sources.back() = held;
  }
  for (size_t k = 0; k < to.size(); ++k)
    copy_bytes(text(to[k].value, to[k].holder), sources[k], to[k].value.bytes);
}

}  // namespace tenon::codegen
