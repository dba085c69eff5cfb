// SPDX-License-Identifier: Apache-2.0
// The ways through a function, memory for what it makes, and its text.
#include "codegen/c/c_program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/diagnostic.h"

namespace tenon::codegen {

CValue Body::follow(std::vector<CValue> arguments) {
  State first;
  first.registers = std::move(arguments);
  first.registers.resize(size_t(f_.num_registers));
  find_jumps();
  do {  // until nothing new is known of lists
    learned_ = false;
    known_lists_ = lists_;
    std::ranges::fill(before_, std::nullopt);
    result_.reset();
    reach(0, first);
    follow_waiting();
  } while (learned_);
  return result_.value_or(CValue());
}

void Body::follow_waiting() {
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
}

std::string Body::print() {
  printing_ = true;
  if (!loops_.empty() || !lists_.empty()) find_live();
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

void Body::find_jumps() {
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

void Body::find_live() {
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

Operand Body::operand(const Arg& a, const State& s) const {
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
Operand Body::operand(const Instruction& in, uint32_t k, const State& s) const {
  return operand(e_.args[in.first_arg + k], s);
}

std::vector<Operand> Body::sizes(const Instruction& in, uint32_t from, const State& s) const {
  std::vector<Operand> out;
  for (uint32_t k = from; k < in.num_args; ++k) {
    const Operand o = operand(in, k, s);
    if (o.value.kind == CValue::list && in.num_args == from + 1) return items(o);
    out.push_back(o);
  }
  return out;
}

std::vector<Operand> Body::shape_of(const Operand& o) const {
  if (o.value.kind == CValue::list) return items(o);
  if (o.value.kind != CValue::tensor || !o.value.dims) throw NoEntry{"a tensor has no known shape"};
  std::vector<Operand> out;
  for (int64_t d : *o.value.dims) out.push_back({number(d), {}});
  return out;
}

Operand Body::scalar_of(const Operand& o) const {
  if (o.value.kind == CValue::number) return o;
  if (o.value.kind != CValue::tensor || !o.value.dims || element_count(*o.value.dims) != 1)
    throw NoEntry{"a condition or a scalar is no number of a known type"};
  const DataType t = o.value.dtype;
  if (o.value.place.kind == CPlace::constant && !t.is_float())
    return {number(e_.constants[size_t(o.value.place.index)].element_int(0)), {}};
  (void)access("get", t);
  return {number({}, t.is_float()), {}};
}

void Body::put(int32_t dst, State& s, const CValue& value, const std::vector<Operand>& parts) {
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
void Body::put(int32_t dst, State& s, const Operand& o) {
  put(dst, s, o.value, o.value.kind == CValue::list ? items(o) : std::vector<Operand>{o});
}

CValue Body::fresh(uint32_t i, const Instruction& in, const State& s, DataType t,
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

bool Body::step(uint32_t i, State& s) {
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

void Body::jump(uint32_t i, int32_t offset, const State& s, const std::string& condition) {
  const auto to = uint32_t(int64_t(i) + offset);
  targets_.insert(to);
  if (printing_)
    line(fmt::format("{}goto L{};", condition, to));
  else
    reach(to, s);
}

void Body::returned(const Instruction& in, const State& s) {
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
    if (main_) outputs.resize(std::max(outputs.size(), k)), outputs[k - 1] = leaf;
    // A fresh tensor that is a result is the caller's memory from the start.
    if (main_ && !branches_ && leaf.place.kind == CPlace::buffer &&
        given.emplace(int(leaf.place.index), k - 1).second)
      return;
    if (leaf.bytes) line(fmt::format("memcpy({}, {}, {});", out, text(leaf, holder), leaf.bytes));
  });
  line("return 0;");
}

std::string Body::joined() {
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

namespace {
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
  const bool named =
      std::ranges::none_of(main->results, [](const ValueInfo& r) { return r.dtype.is_void(); });
  for (size_t k = 0; k < body.outputs.size(); ++k) {
    const CValue& value = body.outputs[k];
    out.output_bytes.push_back(value.bytes);
    ValueInfo info{
        .name = named && k < main->results.size() ? main->results[k].name : fmt::format("output_{}", k),
        .dtype = value.dtype};
    for (int64_t d : value.dims.value_or(std::vector<int64_t>())) info.shape.push_back({.value = d});
    out.outputs.push_back(std::move(info));
  }
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
