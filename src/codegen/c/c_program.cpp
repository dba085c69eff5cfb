// SPDX-License-Identifier: Apache-2.0
// One function of the VM followed over all ways through it until nothing changes, then printed.
#include "codegen/c/c_entry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/diagnostic.h"

namespace tenon::codegen {

std::set<std::string> identifiers(const std::string& text) {
  std::set<std::string> out;
  auto part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (size_t i = 0; i < text.size(); ++i) {
    if (!part(text[i])) continue;
    size_t end = i;
    while (end < text.size() && part(text[end])) ++end;
    out.insert(text.substr(i, end - i));
    i = end;
  }
  return out;
}

namespace {

// What `PREFIX_run` returns besides the codes of kernels (the header says the same).
constexpr int kWrongSize = -3, kRefused = -4;

CValue number(std::optional<int64_t> known, bool is_float = false) {
  CValue v;
  v.kind = CValue::number;
  v.is_float = is_float;
  v.known = known;
  return v;
}
CValue tensor(DataType dtype, const std::vector<int64_t>& dims, CPlace place) {
  CValue v;
  v.kind = CValue::tensor;
  v.dtype = dtype;
  v.dims = dims;
  v.bytes = int64_t(storage_bytes(element_count(dims), dtype));
  v.place = place;
  return v;
}
CValue list(std::vector<CValue> items) {
  CValue v;
  v.kind = CValue::list;
  v.items = std::move(items);
  return v;
}

/// What holds on both ways.
CValue join(const CValue& a, const CValue& b) {
  if (a == b) return a;
  if (a.kind != b.kind) return {};
  CValue out = a;
  if (a.kind == CValue::tensor) {
    if (a.dtype != b.dtype || a.bytes != b.bytes) return {};
    if (a.dims != b.dims) out.dims.reset();
    if (a.place != b.place) out.place = {};
    out.buffers.insert(b.buffers.begin(), b.buffers.end());
  } else if (a.kind == CValue::number) {
    if (a.is_float != b.is_float) return {};
    if (a.known != b.known) out.known.reset();
  } else if (a.kind == CValue::list) {
    if (a.items.size() != b.items.size()) return {};
    for (size_t i = 0; i < a.items.size(); ++i) out.items[i] = join(a.items[i], b.items[i]);
  }
  return out;
}

/// What a function is followed for: types, sizes and numbers that are known.
std::string signature(const CValue& v) {
  std::string out;
  if (v.kind == CValue::tensor)
    return fmt::format("{}{}", to_string(v.dtype),
                       v.dims ? fmt::format("{}", *v.dims) : std::to_string(v.bytes));
  if (v.kind == CValue::number) return v.known ? std::to_string(*v.known) : v.is_float ? "float" : "int";
  if (v.kind == CValue::none) return "none";
  for (const CValue& i : v.items) out += signature(i) + ",";
  return "(" + out + ")";
}

/// A value, and the variables of which register hold what is not known of it.
struct Operand {
  CValue value;
  std::string holder;  ///< "5", "5_0"; "h3" of a slot of the shape heap
};
template <class F>
void leaves(const CValue& v, const std::string& holder, F f) {
  if (v.kind != CValue::list) return f(v, holder);
  for (size_t i = 0; i < v.items.size(); ++i) leaves(v.items[i], fmt::format("{}_{}", holder, i), f);
}
std::string variable(const CValue& leaf, const std::string& holder) {
  if (holder[0] == 'h') return holder;
  return (leaf.kind == CValue::tensor ? "p" : leaf.is_float ? "d" : "n") + holder;
}
std::string declaration(const std::string& name) {
  return fmt::format("{}{}", name[0] == 'p' ? "void* " : name[0] == 'd' ? "double " : "int64_t ", name);
}
std::string literal(int64_t v) {
  return v == INT64_MIN                     ? "INT64_MIN"
         : v >= INT32_MIN && v <= INT32_MAX ? std::to_string(v)
                                            : fmt::format("INT64_C({})", v);
}
std::string text(const CValue& leaf, const std::string& holder) {
  if (leaf.kind == CValue::number) return leaf.known ? literal(*leaf.known) : variable(leaf, holder);
  switch (leaf.place.kind) {
    case CPlace::input:
      return fmt::format("(void*)inputs[{}]", leaf.place.index);
    case CPlace::constant:
      return fmt::format("(void*)tenon_constant_{}", leaf.place.index);
    case CPlace::arena:
      return fmt::format("(tenon_arena + {})", leaf.place.index);
    case CPlace::buffer:
      return fmt::format("tenon_buffer_{}", leaf.place.index);
    default:
      return variable(leaf, holder);
  }
}

/// The helper that reads one element as a number, or writes one (c_entry.cpp); none for types that C has not.
std::string access(const char* verb, DataType t) {
  const bool known = t.is_bool() || (t.is_integer() && t.bits % 8 == 0) || (t.is_float() && t.bits >= 32);
  if (!known) throw NoEntry{"it uses a tensor of " + to_string(t) + " as one number"};
  return fmt::format("tenon_{}_{}", verb, t.is_bool() ? "uint8" : to_string(t.element()));
}

struct State {
  std::vector<CValue> registers;
  std::map<int64_t, CValue> heap;
  bool operator==(const State&) const = default;
};
State join(const State& a, const State& b) {
  State out = a;
  for (size_t r = 0; r < a.registers.size(); ++r) out.registers[r] = join(a.registers[r], b.registers[r]);
  for (auto& [slot, v] : out.heap) {
    const auto other = b.heap.find(slot);
    v = other == b.heap.end() ? CValue() : join(v, other->second);
  }
  return out;
}

struct Line {
  std::string variable;  ///< that it assigns, which nobody may read; empty: it stays
  std::string text;
};

class Body {
 public:
  Body(CProgram& program, const VMFunction& f, bool main)
      : p_(program), e_(program.executable), f_(f), main_(main), before_(f.num_instructions) {}

  /// Follows the function from `arguments` on; what it returns.
  CValue follow(std::vector<CValue> arguments) {
    State first;
    first.registers = std::move(arguments);
    first.registers.resize(size_t(f_.num_registers));
    find_jumps();
    reach(0, first);
    while (!waiting_.empty()) {
      const uint32_t begin = *waiting_.begin();
      waiting_.erase(waiting_.begin());
      State s = *before_[begin];
      for (uint32_t i = begin;; ++i) {
        const bool on = step(i, s);
        if (!on) break;
        if (i + 1 < f_.num_instructions && leaders_.count(i + 1)) {
          reach(i + 1, s);
          break;
        }
      }
    }
    return result_.value_or(CValue());
  }
  /// The statements; `follow` came before.
  std::string print() {
    printing_ = true;
    if (!loops_.empty()) find_live();
    for (uint32_t i = 0; i < f_.num_instructions;) {
      if (!before_[i]) {
        ++i;
        continue;
      }
      State s = *before_[i];
      do {
        if (targets_.count(i)) lines_.push_back({{}, fmt::format("L{}:;", i)});
      } while (step(i++, s) && i < f_.num_instructions && !leaders_.count(i));
    }
    return joined();
  }
  std::set<std::string> parameters;  ///< variables that are the function's own parameters
  std::map<int, size_t> given;  ///< buffers of `main` that are the caller's memory from the start → output
  std::vector<int64_t> output_bytes;

 private:
  const Instruction& at(uint32_t i) const { return e_.code[f_.first_instruction + i]; }

  void find_jumps() {
    for (uint32_t i = 0; i < f_.num_instructions; ++i) {
      const Instruction& in = at(i);
      if (in.op != Opcode::Goto && in.op != Opcode::If) continue;
      const auto to = uint32_t(int64_t(i) + in.offset);
      leaders_.insert({to, i + 1});
      if (to <= i) loops_.emplace_back(to, i);
    }
    branches_ = !leaders_.empty();
    leaders_.insert(0);
  }
  bool in_loop(uint32_t i) const {
    return std::ranges::any_of(loops_, [&](const auto& l) { return l.first <= i && i <= l.second; });
  }
  void reach(uint32_t i, const State& s) {
    std::optional<State>& known = before_[i];
    State next = known ? join(*known, s) : s;
    if (known && *known == next) return;
    known = std::move(next);
    waiting_.insert(i);
  }

  /// Registers that are read behind each instruction, by the jumps and loops of the function.
  void find_live() {
    const size_t n = f_.num_instructions, registers = size_t(f_.num_registers);
    live_.assign(n, std::vector<bool>(registers));
    auto live_before = [&](uint32_t i) {
      std::vector<bool> live = live_[i];
      const Instruction& in = at(i);
      if (in.op == Opcode::Ret) {
        live.assign(registers, false);
        live[size_t(in.dst)] = true;
        return live;
      }
      if (in.dst >= 0) live[size_t(in.dst)] = false;
      for (uint32_t k = 0; k < in.num_args; ++k)
        if (const Arg a = e_.args[in.first_arg + k]; a.kind() == ArgKind::Register)
          live[size_t(a.value())] = true;
      return live;
    };
    for (bool changed = true; changed;) {
      changed = false;
      for (uint32_t i = uint32_t(n); i-- > 0;) {
        std::vector<bool> after(registers);
        auto add = [&](int64_t next) {
          if (next < 0 || next >= int64_t(n)) return;
          const std::vector<bool> live = live_before(uint32_t(next));
          for (size_t r = 0; r < registers; ++r)
            if (live[r]) after[r] = true;
        };
        const Instruction& in = at(i);
        if (in.op == Opcode::Goto || in.op == Opcode::If) add(int64_t(i) + in.offset);
        if (in.op == Opcode::Call || in.op == Opcode::If) add(int64_t(i) + 1);
        if (after == live_[i]) continue;
        live_[i] = std::move(after);
        changed = true;
      }
    }
  }

  // ---------------------------------------------------------------- operands
  Operand operand(const Arg& a, const State& s) const {
    switch (a.kind()) {
      case ArgKind::Register:
        return {s.registers[size_t(a.value())], std::to_string(a.value())};
      case ArgKind::Constant: {
        const NDArray& c = e_.constants[size_t(a.value())];
        return {tensor(c.dtype(), c.shape(), {CPlace::constant, a.value()}), {}};
      }
      case ArgKind::Arena: {
        const ArenaTensor& t = e_.arena_tensors[size_t(a.value())];
        return {tensor(t.dtype, t.shape, {CPlace::arena, t.offset}), {}};
      }
      case ArgKind::Immediate:
        return {number(a.value()), {}};
      case ArgKind::Heap:
        if (auto it = s.heap.find(a.value()); it != s.heap.end() && it->second.kind == CValue::number)
          return {it->second, fmt::format("h{}", a.value())};
        break;
    }
    throw NoEntry{"its sizes are not known before it runs"};
  }
  Operand operand(const Instruction& in, uint32_t k, const State& s) const {
    return operand(e_.args[in.first_arg + k], s);
  }
  static int64_t known(const Operand& o) {
    if (o.value.kind == CValue::number && o.value.known) return *o.value.known;
    throw NoEntry{"its sizes are not known before it runs"};
  }
  /// The sizes that arguments from `from` on are: numbers, or one shape.
  std::vector<Operand> sizes(const Instruction& in, uint32_t from, const State& s) const {
    std::vector<Operand> out;
    for (uint32_t k = from; k < in.num_args; ++k) {
      const Operand o = operand(in, k, s);
      if (o.value.kind == CValue::list && in.num_args == from + 1) return items(o);
      out.push_back(o);
    }
    return out;
  }
  static std::vector<Operand> items(const Operand& o) {
    std::vector<Operand> out;
    for (size_t i = 0; i < o.value.items.size(); ++i)
      out.push_back({o.value.items[i], fmt::format("{}_{}", o.holder, i)});
    return out;
  }
  /// The sizes of a tensor, or those that a shape is.
  std::vector<Operand> shape_of(const Operand& o) const {
    if (o.value.kind == CValue::list) return items(o);
    if (o.value.kind != CValue::tensor || !o.value.dims) throw NoEntry{"a tensor has no known shape"};
    std::vector<Operand> out;
    for (int64_t d : *o.value.dims) out.push_back({number(d), {}});
    return out;
  }
  static const Operand& tensor_of(const Operand& o) {
    if (o.value.kind != CValue::tensor) throw NoEntry{"a kernel takes what is no tensor of a known size"};
    return o;
  }
  /// A number, or the element of a tensor of one.
  Operand scalar_of(const Operand& o) const {
    if (o.value.kind == CValue::number) return o;
    if (o.value.kind != CValue::tensor || !o.value.dims || element_count(*o.value.dims) != 1)
      throw NoEntry{"a condition or a scalar is no number of a known type"};
    const DataType t = o.value.dtype;
    if (o.value.place.kind == CPlace::constant && !t.is_float())
      return {number(e_.constants[size_t(o.value.place.index)].element_int(0)), {}};
    (void)access("get", t);
    return {number({}, t.is_float()), {}};
  }
  static std::string scalar_text(const Operand& o, const Operand& scalar) {
    if (o.value.kind == CValue::number || scalar.value.known) return text(scalar.value, scalar.holder);
    return fmt::format("{}({})", access("get", o.value.dtype), text(o.value, o.holder));
  }

  // ---------------------------------------------------------------- lines
  void line(std::string what) {
    if (printing_) lines_.push_back({{}, std::move(what)});
  }
  void assign(const std::string& name, const std::string& value) {
    if (printing_ && name != value) lines_.push_back({name, value});
  }
  void failing(const std::string& call) { line(fmt::format("if ((code = {}) != 0) return code;", call)); }

  /// The register holds the value from here on. `parts`: where each of its items was, all read before any is
  /// written.
  void put(int32_t dst, State& s, const CValue& value, const std::vector<Operand>& parts) {
    if (dst < 0) return;
    if (printing_) {
      std::vector<std::pair<std::string, std::string>> moves;
      const std::string to = std::to_string(dst);
      for (size_t i = 0; i < parts.size(); ++i) {
        std::vector<std::string> from;
        leaves(parts[i].value, parts[i].holder,
               [&](const CValue& leaf, const std::string& holder) { from.push_back(text(leaf, holder)); });
        size_t k = 0;
        leaves(parts[i].value, value.kind == CValue::list ? fmt::format("{}_{}", to, i) : to,
               [&](const CValue& leaf, const std::string& holder) {
                 if (leaf.kind != CValue::none) moves.emplace_back(variable(leaf, holder), from[k]);
                 ++k;
               });
      }
      std::set<std::string> written;
      bool crossed = false;
      for (const auto& [name, from] : moves) {
        crossed |= written.count(from) != 0;
        written.insert(name);
      }
      for (size_t i = 0; crossed && i < moves.size(); ++i) {
        const std::string held = fmt::format("{}t{}", moves[i].first[0], i);
        assign(held, moves[i].second);
        moves[i].second = held;
      }
      for (const auto& [name, from] : moves) assign(name, from);
    }
    s.registers[size_t(dst)] = value;
  }
  void put(int32_t dst, State& s, const Operand& o) {
    put(dst, s, o.value, o.value.kind == CValue::list ? items(o) : std::vector<Operand>{o});
  }
  /// A number with the expression that computes it.
  void put_number(int32_t dst, State& s, const CValue& v, const std::string& expression) {
    if (dst < 0) return;
    assign(variable(v, std::to_string(dst)), v.known ? literal(*v.known) : expression);
    s.registers[size_t(dst)] = v;
  }

  // ---------------------------------------------------------------- memory
  int buffer(uint32_t i, int leaf, int64_t bytes) {
    const auto [it, fresh] = buffers_.try_emplace({i, leaf}, int(p_.buffers.size()));
    if (fresh) p_.buffers.push_back({bytes, 1});
    return it->second;
  }
  /// New memory at an instruction. In a loop it is a copy that no register which is read later holds.
  CValue fresh(uint32_t i, const Instruction& in, const State& s, DataType t,
               const std::vector<int64_t>& dims, int leaf, const std::string& name) {
    const bool again = in_loop(i);
    CValue v = tensor(t, dims, {});
    const int b = buffer(i, leaf, v.bytes);
    v.buffers = {b};
    if (!again) {
      v.place = {CPlace::buffer, b};
      assign(name, text(v, {}));
      return v;
    }
    if (!printing_) return v;
    std::set<std::string> held;
    auto hold = [&](const CValue& value, const std::string& holder) {
      leaves(value, holder, [&](const CValue& l, const std::string& h) {
        if (l.kind == CValue::tensor && l.buffers.count(b)) held.insert(text(l, h));
      });
    };
    for (size_t r = 0; r < s.registers.size(); ++r)
      if (live_[i][r] && int32_t(r) != in.dst) hold(s.registers[r], std::to_string(r));
    for (uint32_t k = 0; k < in.num_args; ++k)
      if (const Arg a = e_.args[in.first_arg + k]; a.kind() == ArgKind::Register)
        hold(s.registers[size_t(a.value())], std::to_string(a.value()));
    CBuffer& memory = p_.buffers[size_t(b)];
    memory.copies = std::max(memory.copies, int64_t(held.size()) + 1);
    if (held.empty())
      assign(name, fmt::format("tenon_buffer_{}", b));
    else
      assign(name,
             fmt::format(
                 "tenon_unused(tenon_buffer_{0}, sizeof tenon_buffer_{0} / {1}, (const void*[]){{{2}}}, {3})",
                 b, memory.copies, fmt::join(held, ", "), held.size()));
    return v;
  }

  // ---------------------------------------------------------------- instructions
  /// Follows one instruction; false: the next in the text is not the next that runs.
  bool step(uint32_t i, State& s) {
    const Instruction& in = at(i);
    switch (in.op) {
      case Opcode::Call:
        return call(i, in, s);
      case Opcode::Ret:
        returned(in, s);
        return false;
      case Opcode::Goto:
        jump(i, in.offset, s, "");
        return false;
      case Opcode::If: {
        const Operand o = operand(in, 0, s), c = scalar_of(o);
        const bool first = c.value.known && *c.value.known != 0, second = c.value.known && !first;
        if (second) {
          jump(i, in.offset, s, "");
          return false;
        }
        if (!first) jump(i, in.offset, s, fmt::format("if ({} == 0) ", scalar_text(o, c)));
        return true;
      }
    }
    return false;
  }
  void jump(uint32_t i, int32_t offset, const State& s, const std::string& condition) {
    const auto to = uint32_t(int64_t(i) + offset);
    targets_.insert(to);
    if (printing_)
      line(fmt::format("{}goto L{};", condition, to));
    else
      reach(to, s);
  }

  void returned(const Instruction& in, const State& s) {
    const Operand o{s.registers[size_t(in.dst)], std::to_string(in.dst)};
    if (!printing_) {
      result_ = result_ ? join(*result_, o.value) : o.value;
      return;
    }
    size_t k = 0;
    leaves(o.value, o.holder, [&](const CValue& leaf, const std::string& holder) {
      const std::string out = main_ ? fmt::format("outputs[{}]", k) : fmt::format("out{}", k);
      ++k;
      if (leaf.kind == CValue::number && !main_) {
        line(fmt::format("*{} = {};", out, text(leaf, holder)));
        return;
      }
      if (leaf.kind != CValue::tensor) throw NoEntry{"a result is no tensor"};
      if (main_) output_bytes.resize(std::max(output_bytes.size(), k)), output_bytes[k - 1] = leaf.bytes;
      // A fresh tensor that is a result is the caller's memory from the start.
      if (main_ && !branches_ && leaf.place.kind == CPlace::buffer &&
          given.emplace(int(leaf.place.index), k - 1).second)
        return;
      if (leaf.bytes) line(fmt::format("memcpy({}, {}, {});", out, text(leaf, holder), leaf.bytes));
    });
    line("return 0;");
  }

  /// False: nothing comes behind it.
  bool call(uint32_t i, const Instruction& in, State& s) {
    const Callee& c = e_.callees[size_t(in.callee)];
    if (c.kind == CalleeKind::Kernel) return kernel(c, in, s), true;
    if (c.kind == CalleeKind::Function) return function(i, c, in, s), true;
    if (c.kind == CalleeKind::Closure) throw NoEntry{"it calls a function that is a value"};
    // A path that the inputs do not allow, in the model's own words.
    if (c.name == "tenon.refuse") return line(fmt::format("return {};", kRefused)), false;
    const std::string_view prefix = "vm.builtin.";
    if (!c.name.starts_with(prefix)) throw NoEntry{"it calls `" + c.name + "` while it runs"};
    builtin(c.name.substr(prefix.size()), i, in, s);
    return true;
  }

  void kernel(const Callee& c, const Instruction& in, const State& s) {
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

  void function(uint32_t i, const Callee& c, const Instruction& in, State& s) {
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
  static void as_parameter(CValue& v) {
    v.place = {};
    v.buffers.clear();
    for (CValue& i : v.items) as_parameter(i);
  }
  template <class F>
  static void own(CValue& v, const std::string& holder, F f) {
    if (v.kind == CValue::none || (v.kind == CValue::tensor && !v.dims))
      throw NoEntry{"a function's result has no known type"};
    if (v.kind != CValue::list) return f(v, holder);
    for (size_t i = 0; i < v.items.size(); ++i) own(v.items[i], fmt::format("{}_{}", holder, i), f);
  }
  CValue result_of(int32_t index, const std::string& key, const std::vector<CValue>& values) {
    const auto known_result = p_.results.find(key);
    if (known_result != p_.results.end()) return known_result->second;
    p_.active.push_back(index);
    const CValue result = Body(p_, e_.functions[size_t(index)], false).follow(values);
    p_.active.pop_back();
    return p_.results[key] = result;
  }
  /// The name of the function in the text, which is printed once for each kind of arguments. `taken`: the
  /// variables that are its parameters, before pointers of the types in `results`.
  std::string printed(int32_t index, const VMFunction& f, const std::string& key,
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

  void builtin(const std::string& name, uint32_t i, const Instruction& in, State& s) {
    auto arg = [&](uint32_t k) { return operand(in, k, s); };
    if (name == "none") return put(in.dst, s, Operand{});
    if (name == "move" || name == "check_tensor") return put(in.dst, s, arg(0));
    if (name == "alloc_tensor") return allocate(dtype_of_word(known(arg(0))), sizes(in, 1, s), i, in, s);
    if (name == "reshape") {
      Operand o = tensor_of(arg(0));
      std::vector<int64_t> dims;
      for (const Operand& d : sizes(in, 1, s)) dims.push_back(known(d));
      if (int64_t(storage_bytes(element_count(dims), o.value.dtype)) != o.value.bytes)
        throw NoEntry{"a reshape has a size that is inferred while it runs"};
      o.value.dims = dims;
      return put(in.dst, s, o);
    }
    if (name == "tuple" || name == "make_shape") {
      std::vector<Operand> parts;
      std::vector<CValue> values;
      if (name == "make_shape")
        parts = sizes(in, 0, s);
      else
        for (uint32_t k = 0; k < in.num_args; ++k) parts.push_back(arg(k));
      for (const Operand& o : parts) values.push_back(o.value);
      return put(in.dst, s, list(values), parts);
    }
    if (name == "tuple_get" || name == "shape_dim") {
      const std::vector<Operand> all = name == "shape_dim" ? shape_of(arg(0)) : items(arg(0));
      const int64_t k = known(arg(1));
      if (k < 0 || k >= int64_t(all.size())) throw NoEntry{"it takes a part that a tuple has not"};
      return put(in.dst, s, all[size_t(k)]);
    }
    if (name == "shape_of") {
      const std::vector<Operand> dims = shape_of(arg(0));
      std::vector<CValue> values;
      for (const Operand& d : dims) values.push_back(d.value);
      return put(in.dst, s, list(values), dims);
    }
    if (name == "match_shape") return match_shape(in, s);
    if (name == "compute_shape") return compute_shape(in, s);
    if (name == "copy") {
      const Operand from = tensor_of(arg(0));
      if (!from.value.dims) throw NoEntry{"a tensor has no known shape"};
      const CValue to = fresh(i, in, s, from.value.dtype, *from.value.dims, 0, "pc");
      copy_bytes("pc", text(from.value, from.holder), to.bytes);
      return put_fresh(in.dst, s, to, "pc");
    }
    if (name == "copy_into") return copy_into(i, in, s);
    if (name == "scalar") {
      const Operand o = arg(0), n = scalar_of(o);
      return put_number(in.dst, s, n.value, scalar_text(o, n));
    }
    if (name == "to_tensor") {
      const Operand n = arg(0);
      const DataType t = dtype_of_word(known(arg(1)));
      if (n.value.kind != CValue::number) throw NoEntry{"it makes a tensor of what is no number"};
      const std::string put_element = access("put", t);
      const CValue to = fresh(i, in, s, t, {}, 0, "pc");
      line(fmt::format("{}(pc, {});", put_element, text(n.value, n.holder)));
      return put_fresh(in.dst, s, to, "pc");
    }
    if (name == "shape_to_tensor") {
      const std::vector<Operand> dims = shape_of(arg(0));
      const CValue to = fresh(i, in, s, i64, {int64_t(dims.size())}, 0, "pc");
      for (size_t k = 0; k < dims.size(); ++k)
        line(fmt::format("tenon_put_int64((char*)pc + {}, {});", 8 * k, text(dims[k].value, dims[k].holder)));
      return put_fresh(in.dst, s, to, "pc");
    }
    if (name == "tensor_to_shape") return tensor_to_shape(in, s);
    throw NoEntry{"it calls `vm.builtin." + name + "` while it runs"};
  }
  void put_fresh(int32_t dst, State& s, const CValue& v, const std::string& variable_name) {
    if (dst < 0) return;
    assign("p" + std::to_string(dst), variable_name);
    s.registers[size_t(dst)] = v;
  }
  void copy_bytes(const std::string& to, const std::string& from, int64_t bytes) {
    if (bytes) line(fmt::format("memmove({}, {}, {});", to, from, bytes));
  }
  void allocate(DataType t, const std::vector<Operand>& dims, uint32_t i, const Instruction& in, State& s) {
    std::vector<int64_t> numbers;
    for (const Operand& d : dims) numbers.push_back(known(d));
    const CValue v = fresh(i, in, s, t, numbers, 0, in.dst < 0 ? "px" : fmt::format("p{}", in.dst));
    if (in.dst >= 0) s.registers[size_t(in.dst)] = v;
  }
  void tensor_to_shape(const Instruction& in, State& s) {
    const Operand o = tensor_of(operand(in, 0, s));
    if (!o.value.dims || o.value.dims->size() != 1 || !o.value.dtype.is_integer())
      throw NoEntry{"a shape is no list of integers"};
    std::vector<CValue> values;
    for (int64_t k = 0; k < (*o.value.dims)[0]; ++k) {
      const bool constant = o.value.place.kind == CPlace::constant;
      values.push_back(number(
          constant ? std::optional(e_.constants[size_t(o.value.place.index)].element_int(k)) : std::nullopt));
      if (!constant && in.dst >= 0)
        assign(fmt::format("n{}_{}", in.dst, k),
               fmt::format("{}((char*){} + {})", access("get", o.value.dtype), text(o.value, o.holder),
                           k * o.value.dtype.bytes()));
    }
    if (in.dst >= 0) s.registers[size_t(in.dst)] = list(values);
  }
  void match_shape(const Instruction& in, State& s) {
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
  void compute_shape(const Instruction& in, State& s) {
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
  /// The result over known numbers that neither overflow nor divide by zero.
  static std::optional<int64_t> folded(ShapeOp op, const Operand& a, const Operand& b) {
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
  /// All at once: what is written first must not be what is read later.
  void copy_into(uint32_t i, const Instruction& in, State& s) {
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

  // ---------------------------------------------------------------- text
  /// The lines without assignments that nobody reads, the variables before them.
  std::string joined() {
    auto read = [&](const std::string& what) {
      bool more = false;
      for (const std::string& name : identifiers(what)) more |= read_.insert(name).second;
      return more;
    };
    for (const Line& l : lines_)
      if (l.variable.empty()) read(l.text);
    for (bool more = true; more;) {
      more = false;
      for (const Line& l : lines_)
        if (!l.variable.empty() && read_.count(l.variable)) more |= read(l.text);
    }
    std::string out;
    std::set<std::string> declared;
    for (const Line& l : lines_)
      if (!l.variable.empty() && read_.count(l.variable)) declared.insert(l.variable);
    declared.insert(addressed_.begin(), addressed_.end());
    for (const std::string& name : parameters) declared.erase(name);
    for (const std::string& name : declared) out += fmt::format("  {} = 0;\n", declaration(name));
    if (read_.count("code")) out = "  int32_t code = 0;\n" + out;
    for (const Line& l : lines_) {
      if (l.variable.empty())
        out += (l.text[0] == 'L' ? "" : "  ") + l.text + "\n";
      else if (read_.count(l.variable))
        out += fmt::format("  {} = {};\n", l.variable, l.text);
    }
    return out;
  }
  CProgram& p_;
  const Executable& e_;
  const VMFunction& f_;
  bool main_, branches_ = false, printing_ = false;
  std::vector<std::optional<State>> before_;  ///< where a block begins
  std::set<uint32_t> leaders_, targets_, waiting_;
  std::vector<std::pair<uint32_t, uint32_t>> loops_;  ///< first and last instruction
  std::vector<std::vector<bool>> live_;               ///< registers that are read behind an instruction
  std::map<std::pair<uint32_t, int>, int> buffers_;
  std::optional<CValue> result_;
  std::vector<Line> lines_;
  std::set<std::string> read_, addressed_;
};

/// The bytes of an input of the model.
CValue input_value(const ValueInfo& v, int64_t index) {
  if (!v.known_rank) throw NoEntry{"input " + v.name + " has no known shape"};
  if (v.dtype.is_void()) throw NoEntry{"input " + v.name + " is no tensor"};
  std::vector<int64_t> dims;
  for (const DimInfo& d : v.shape) {
    if (d.value < 0) throw NoEntry{"input " + v.name + " has a symbolic size"};
    dims.push_back(d.value);
  }
  return tensor(v.dtype, dims, {CPlace::input, index});
}

}  // namespace

CMain c_main(CProgram& program) {
  const Executable& e = program.executable;
  const VMFunction* main = nullptr;
  for (const VMFunction& f : e.functions)
    if (f.name == "main" || (!main && e.functions.size() == 1)) main = &f;
  if (!main) throw NoEntry{"there is no function `main`"};
  CMain out;
  std::vector<CValue> inputs;
  for (int32_t i = 0; i < main->num_params; ++i) {
    inputs.push_back(input_value(main->params[size_t(i)], i));
    out.input_bytes.push_back(inputs.back().bytes);
  }
  program.active = {int32_t(main - e.functions.data())};
  Body body(program, *main, true);
  body.follow(std::move(inputs));
  out.body = body.print();
  out.output_bytes = body.output_bytes;
  for (const auto& [buffer, output] : body.given) {
    const std::string name = fmt::format("tenon_buffer_{}", buffer), own = fmt::format("outputs[{}]", output);
    for (size_t at = 0; (at = out.body.find(name, at)) != out.body.npos;) {
      const size_t end = at + name.size();
      if (end < out.body.size() && std::isdigit(static_cast<unsigned char>(out.body[end]))) {
        at = end;
        continue;
      }
      out.body.replace(at, name.size(), own);
      at += own.size();
    }
  }
  return out;
}

}  // namespace tenon::codegen
