// SPDX-License-Identifier: Apache-2.0
// The tables of src/runtime/executable.h in the order of a reader: what runs, then what it uses.
#include "cli/bytecode.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/console.h"
#include "runtime/builtin.h"

namespace tenon::cli {
namespace {

std::string arg_text(Arg a) {
  const char* prefix = "";
  switch (a.kind()) {
    case ArgKind::Register:
      prefix = "r";
      break;
    case ArgKind::Constant:
      prefix = "c";
      break;
    case ArgKind::Immediate:
      break;
    case ArgKind::Arena:
      prefix = "a";
      break;
    case ArgKind::Heap:
      prefix = "h";
      break;
  }
  return fmt::format("{}{}", prefix, a.value());
}

std::string args_text(std::span<const Arg> args) {
  std::vector<std::string> texts;
  for (const Arg& a : args) texts.push_back(arg_text(a));
  return fmt::format("{}", fmt::join(texts, ", "));
}

/// Builtins that take a data type, and which operand it is.
constexpr std::pair<Builtin, size_t> kDataTypeOperands[] = {{Builtin::alloc_tensor, 0},
                                                            {Builtin::arena_tensor, 1},
                                                            {Builtin::check_tensor, 2},
                                                            {Builtin::to_tensor, 1}};
std::string builtin_text(const std::string& name, std::span<const Arg> args) {
  std::vector<std::string> texts;
  for (const Arg& a : args) texts.push_back(arg_text(a));
  for (const auto& [builtin, k] : kDataTypeOperands)
    if (builtin_of(name) == builtin && k < args.size() && args[k].kind() == ArgKind::Immediate &&
        args[k].value() != 0)
      texts[k] = to_string(dtype_of_word(args[k].value()));
  return fmt::format("{}({})", name, fmt::join(texts, ", "));
}

/// Kernels show their tensors and their scalars apart: `kernel NAME(r0, a1; h0, 3)`.
std::string call_text(const Callee& callee, std::span<const Arg> args) {
  switch (callee.kind) {
    case CalleeKind::Kernel: {
      const size_t buffers = std::min(size_t(callee.num_buffers), args.size());
      const std::string scalars = args_text(args.subspan(buffers));
      return fmt::format("kernel {}({}{}{})", callee.name, args_text(args.first(buffers)),
                         scalars.empty() ? "" : "; ", scalars);
    }
    case CalleeKind::Function:
      return fmt::format("function {}({})", callee.name, args_text(args));
    case CalleeKind::Builtin:
      return builtin_text(callee.name, args);
    case CalleeKind::Closure:
      return fmt::format("closure {}({})", args_text(args.first(1)), args_text(args.subspan(1)));
  }
  return {};
}

std::string value_text(const ValueInfo& v) {
  std::vector<std::string> dims;
  for (const DimInfo& d : v.shape)
    dims.push_back(d.value >= 0 ? std::to_string(d.value) : d.symbol.empty() ? "?" : d.symbol);
  return fmt::format("{}: {}({})", v.name, to_string(v.dtype),
                     v.known_rank ? fmt::format("{}", fmt::join(dims, ", ")) : "…");
}
std::string values_text(const std::vector<ValueInfo>& values) {
  std::vector<std::string> texts;
  for (const ValueInfo& v : values) texts.push_back(value_text(v));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string function_text(const Executable& e, const VMFunction& f) {
  std::string out =
      fmt::format("function {}({}) -> ({}):  # {} parameters, {} registers, {} heap slots\n", f.name,
                  values_text(f.params), values_text(f.results), f.num_params, f.num_registers, f.heap_size);
  for (uint32_t k = 0; k < f.num_instructions; ++k) {
    const Instruction& i = e.code[f.first_instruction + k];
    const auto args = std::span(e.args).subspan(i.first_arg, i.num_args);
    std::string text;
    switch (i.op) {
      case Opcode::Call:
        text = (i.dst < 0 ? "" : fmt::format("r{} = ", i.dst)) + call_text(e.callees[size_t(i.callee)], args);
        break;
      case Opcode::Ret:
        text = fmt::format("return r{}", i.dst);
        break;
      case Opcode::Goto:
        text = fmt::format("goto {}", int64_t(k) + i.offset);
        break;
      case Opcode::If:
        text = fmt::format("unless {} goto {}", args_text(args), int64_t(k) + i.offset);
        break;
    }
    out += fmt::format("  {:>4}  {}\n", k, text);
  }
  return out;
}

}  // namespace

std::string bytecode_text(const Executable& e) {
  std::string out;
  for (const VMFunction& f : e.functions) out += function_text(e, f);
  out += fmt::format("arena: {} bytes\n", e.arena_bytes);
  for (size_t k = 0; k < e.arena_tensors.size(); ++k) {
    const ArenaTensor& t = e.arena_tensors[k];
    out += fmt::format("  a{} = {}({}) at {}\n", k, to_string(t.dtype), fmt::join(t.shape, ", "), t.offset);
  }
  out += "constants:\n";
  for (size_t k = 0; k < e.constants.size(); ++k) {
    const NDArray& c = e.constants[k];
    out += fmt::format("  c{} = {}({}) hash {:016x}\n", k, to_string(c.dtype()), fmt::join(c.shape(), ", "),
                       c.hash());
  }
  out += fmt::format("needs: {} {} {}\n", e.needs.triple, e.needs.cpu, fmt::join(e.needs.features, " "));
  out += "metadata:";
  for (const auto& [key, value] : e.metadata)
    out += fmt::format("\n  {} = {}", key, json(value).dump(-1, ' ', false, json::error_handler_t::replace));
  return out;
}

}  // namespace tenon::cli
