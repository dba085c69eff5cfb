// SPDX-License-Identifier: Apache-2.0
// The VM's program of `main`, followed at compile time: every register holds a place in memory that is known.
#include "codegen/c/c_entry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <map>

#include "ir/tir.h"
#include "ir/walk.h"
#include "runtime/artifact.h"

namespace tenon {
namespace {

constexpr int64_t kMaxConstantBytes = int64_t(64) << 20;

/// Why a model has no entry.
struct NoEntry {
  std::string why;
};

struct Place {
  enum Kind : uint8_t { none, input, constant, arena, buffer, number, shape, tuple } kind = none;
  int64_t index = 0;
  int64_t bytes = 0;
  std::vector<int64_t> dims;
  std::vector<Place> items;
};

int64_t bytes_of(const ValueInfo& v, const std::string& what) {
  if (!v.known_rank) throw NoEntry{what + " has no known shape"};
  std::vector<int64_t> dims;
  for (const DimInfo& d : v.shape) {
    if (d.value < 0) throw NoEntry{what + " has a symbolic size"};
    dims.push_back(d.value);
  }
  if (v.dtype.is_void()) throw NoEntry{what + " is no tensor"};
  return int64_t(storage_bytes(element_count(dims), v.dtype));
}

/// Bytes as an array of words, in this machine's order.
std::string words_text(const std::string& name, const char* bytes, size_t size) {
  const size_t words = std::max<size_t>(1, (size + 7) / 8);
  std::string out = fmt::format("static const _Alignas(64) uint64_t {}[{}] = {{", name, words);
  for (size_t w = 0; w < words; ++w) {
    uint64_t v = 0;
    const size_t n = std::min<size_t>(8, size - std::min(size, w * 8));
    if (n) std::memcpy(&v, bytes + w * 8, n);
    out += fmt::format("{}0x{:x}u", w == 0 ? "" : w % 8 ? "," : ",\n  ", v);
  }
  return out + "};\n";
}
std::string constants_text(const Executable& e) {
  std::string out;
  for (size_t i = 0; i < e.constants.size(); ++i)
    out += words_text(fmt::format("tenon_constant_{}", i), e.constants[i].as_ptr<char>(),
                      e.constants[i].byte_size());
  return out;
}

class Entry {
 public:
  Entry(const Executable& e, const IRModule& lowered) : e_(e), lowered_(lowered) {}

  std::string text() {
    const VMFunction* main = nullptr;
    for (const VMFunction& f : e_.functions)
      if (f.name == "main" || (!main && e_.functions.size() == 1)) main = &f;
    if (!main) throw NoEntry{"there is no function `main`"};
    int64_t constants = 0;
    for (const NDArray& c : e_.constants) constants += int64_t(c.byte_size());
    if (constants > kMaxConstantBytes)
      throw NoEntry{
          fmt::format("its constants are {} MiB, more than {}", constants >> 20, kMaxConstantBytes >> 20)};
    std::vector<Place> registers(size_t(main->num_registers));
    std::vector<int64_t> input_bytes;
    for (int32_t i = 0; i < main->num_params; ++i) {
      input_bytes.push_back(bytes_of(main->params[size_t(i)], "input " + main->params[size_t(i)].name));
      registers[size_t(i)] = {Place::input, i, input_bytes.back(), {}, {}};
    }
    Place result;
    bool returned = false;
    for (uint32_t k = 0; k < main->num_instructions && !returned; ++k) {
      const Instruction& in = e_.code[main->first_instruction + k];
      if (in.op == Opcode::Ret) {
        result = registers[size_t(in.dst)];
        returned = true;
        continue;
      }
      if (in.op != Opcode::Call) throw NoEntry{"it has branches or loops"};
      Place out = call(in, registers);
      if (in.dst >= 0) registers[size_t(in.dst)] = std::move(out);
    }
    std::vector<Place> results = result.kind == Place::tuple ? result.items : std::vector<Place>{result};
    // A fresh tensor that is a result is the caller's memory from the start.
    std::map<int64_t, size_t> output_of;
    std::string copies;
    std::vector<int64_t> output_bytes;
    for (size_t i = 0; i < results.size(); ++i) {
      const Place& r = results[i];
      if (r.kind == Place::none || r.kind >= Place::number) throw NoEntry{"a result is no tensor"};
      output_bytes.push_back(r.bytes);
      if (r.kind == Place::buffer && output_of.emplace(r.index, i).second) continue;
      copies += fmt::format("  memcpy(outputs[{}], {}, {});\n", i, "@" + std::to_string(places_.size()) + "@",
                            r.bytes);
      places_.push_back(r);
    }
    std::string body = body_ + copies;
    // Places are written once it is known which of them are outputs.
    for (size_t i = 0; i < places_.size(); ++i) {
      const std::string mark = "@" + std::to_string(i) + "@";
      const size_t at = body.find(mark);
      if (at != body.npos) body.replace(at, mark.size(), address(places_[i], output_of));
    }
    return declarations(*main, input_bytes, output_bytes, output_of) + run(body) +
           native_main(input_bytes, output_bytes);
  }

 private:
  int64_t number(const Arg& a, const std::vector<Place>& registers) const {
    if (a.kind() == ArgKind::Immediate) return a.value();
    if (a.kind() == ArgKind::Register && registers[size_t(a.value())].kind == Place::number)
      return registers[size_t(a.value())].index;
    throw NoEntry{"its sizes are not known before it runs"};
  }
  Place place(const Arg& a, const std::vector<Place>& registers) const {
    switch (a.kind()) {
      case ArgKind::Register:
        return registers[size_t(a.value())];
      case ArgKind::Constant:
        return {Place::constant, a.value(), int64_t(e_.constants[size_t(a.value())].byte_size()), {}, {}};
      case ArgKind::Arena: {
        const ArenaTensor& t = e_.arena_tensors[size_t(a.value())];
        return {Place::arena, t.offset, int64_t(storage_bytes(element_count(t.shape), t.dtype)), {}, {}};
      }
      case ArgKind::Immediate:
        return {Place::number, a.value(), 0, {}, {}};
      case ArgKind::Heap:
        break;
    }
    throw NoEntry{"its sizes are not known before it runs"};
  }
  std::vector<int64_t> dims(const Instruction& in, uint32_t from, const std::vector<Place>& registers) const {
    std::vector<int64_t> out;
    for (uint32_t i = from; i < in.num_args; ++i) {
      const Arg a = e_.args[in.first_arg + i];
      if (a.kind() == ArgKind::Register && registers[size_t(a.value())].kind == Place::shape)
        return registers[size_t(a.value())].dims;
      out.push_back(number(a, registers));
    }
    return out;
  }

  Place call(const Instruction& in, const std::vector<Place>& registers) {
    const Callee& c = e_.callees[size_t(in.callee)];
    const Arg* args = e_.args.data() + in.first_arg;
    if (c.kind == CalleeKind::Kernel) {
      kernel(c, in, registers);
      return {};
    }
    if (c.kind != CalleeKind::Builtin) throw NoEntry{"it calls functions"};
    const std::string name = c.name.starts_with("vm.builtin.") ? c.name.substr(11) : c.name;
    if (name == "alloc_tensor") {
      const DataType t = dtype_of_word(number(args[0], registers));
      return fresh(int64_t(storage_bytes(element_count(dims(in, 1, registers)), t)));
    }
    if (name == "tuple") {
      Place p{Place::tuple, 0, 0, {}, {}};
      for (uint32_t i = 0; i < in.num_args; ++i) p.items.push_back(place(args[i], registers));
      return p;
    }
    if (name == "tuple_get") {
      const Place t = place(args[0], registers);
      return t.items.at(size_t(number(args[1], registers)));
    }
    if (name == "move" || name == "reshape" || name == "check_tensor") return place(args[0], registers);
    if (name == "copy") {
      const Place from = place(args[0], registers);
      const Place to = fresh(from.bytes);
      body_ += fmt::format("  memcpy({}, {}, {});\n", mark(to), mark(from), from.bytes);
      return to;
    }
    if (name == "make_shape") return {Place::shape, 0, 0, dims(in, 0, registers), {}};
    if (name == "match_shape" || name == "none") return {};  // every shape is known
    throw NoEntry{"it calls `" + c.name + "` while it runs"};
  }
  Place fresh(int64_t bytes) {
    buffers_.push_back(bytes);
    return {Place::buffer, int64_t(buffers_.size()) - 1, bytes, {}, {}};
  }
  std::string mark(const Place& p) {
    places_.push_back(p);
    return "@" + std::to_string(places_.size() - 1) + "@";
  }
  void kernel(const Callee& c, const Instruction& in, const std::vector<Place>& registers) {
    const Arg* args = e_.args.data() + in.first_arg;
    std::string buffers, scalars;
    for (uint32_t i = 0; i < in.num_args; ++i) {
      if (i < uint32_t(c.num_buffers)) {
        const Place p = place(args[i], registers);
        if (p.kind == Place::none || p.kind >= Place::number) throw NoEntry{"a kernel takes no tensor"};
        buffers += (buffers.empty() ? "" : ", ") + std::string("(void*)") + mark(p);
      } else {
        scalars += fmt::format("{}{}", scalars.empty() ? "" : ", ", number(args[i], registers));
      }
    }
    body_ += fmt::format("  {{\n    void* const buffers[] = {{{}}};\n", buffers.empty() ? "0" : buffers);
    body_ += fmt::format("    static const int64_t scalars[] = {{{}}};\n", scalars.empty() ? "0" : scalars);
    body_ += "    tenon_workspace_used = 0;\n";
    body_ +=
        fmt::format("    if ((code = {}(buffers, scalars, &context)) != 0) return code;\n  }}\n", c.name);
    workspace_ = std::max(workspace_, workspace_of(c.name));
  }
  /// Everything that a kernel may ask for at once.
  int64_t workspace_of(const std::string& symbol) const {
    int64_t total = 0;
    for (auto [name, object] : lowered_.functions()) {
      const auto* f = object.as<tir::PrimFuncNode>();
      if (!f || f->attrs.get_or("global_symbol", Any(name)).as<std::string>() != symbol) continue;
      post_order(f->body, [&](const ObjectRef& n) {
        const auto* a = n.as<tir::Allocate>();
        if (!a) return;
        int64_t bytes = std::max<int64_t>(1, a->buffer->dtype.bytes());
        for (const PrimExpr& x : a->buffer->shape) {
          const auto extent = tir::as_int(x);
          if (!extent) throw NoEntry{"a kernel's scratch space has no known size"};
          bytes *= *extent;
        }
        total += (bytes + 127) / 64 * 64;
      });
    }
    return total;
  }

  static std::string address(const Place& p, const std::map<int64_t, size_t>& output_of) {
    switch (p.kind) {
      case Place::input:
        return fmt::format("inputs[{}]", p.index);
      case Place::constant:
        return fmt::format("tenon_constant_{}", p.index);
      case Place::arena:
        return fmt::format("(tenon_arena + {})", p.index);
      default:
        if (auto it = output_of.find(p.index); it != output_of.end())
          return fmt::format("outputs[{}]", it->second);
        return fmt::format("tenon_buffer_{}", p.index);
    }
  }

  std::string declarations(const VMFunction& main, const std::vector<int64_t>& inputs,
                           const std::vector<int64_t>& outputs,
                           const std::map<int64_t, size_t>& output_of) const {
    std::string out = "\n/* ---- The model: static memory, no heap. Little-endian data.\n";
    auto describe = [&](const char* what, const std::vector<ValueInfo>& values) {
      for (size_t i = 0; i < values.size(); ++i) {
        std::vector<int64_t> shape;
        for (const DimInfo& d : values[i].shape) shape.push_back(d.value);
        out +=
            fmt::format(" * {} {}: {} [{}]\n", what, i, to_string(values[i].dtype), fmt::join(shape, ", "));
      }
    };
    describe("input", main.params);
    describe("output", main.results);
    out += " */\n#include <string.h>\n";
    out += fmt::format("#define TENON_NUM_INPUTS {}\n#define TENON_NUM_OUTPUTS {}\n", inputs.size(),
                       outputs.size());
    out += constants_text(e_);
    out += fmt::format("static _Alignas(64) unsigned char tenon_arena[{}];\n",
                       std::max<int64_t>(64, e_.arena_bytes));
    for (size_t i = 0; i < buffers_.size(); ++i)
      if (!output_of.count(int64_t(i)))
        out += fmt::format("static _Alignas(64) unsigned char tenon_buffer_{}[{}];\n", i,
                           std::max<int64_t>(1, buffers_[i]));
    out += fmt::format("static _Alignas(64) unsigned char tenon_workspace_memory[{}];\n",
                       std::max<int64_t>(64, workspace_));
    out += R"(static int64_t tenon_workspace_used;
static int32_t tenon_serial(const TenonKernelContext* context, TenonParallelBody body, void* closure,
                            int64_t extent, int64_t cost) {
  (void)cost;
  return extent > 0 ? body(closure, 0, extent, context) : 0;
}
static void* tenon_workspace(const TenonKernelContext* context, int64_t bytes) {
  int64_t begin = tenon_workspace_used;
  (void)context;
  bytes = (bytes + 63) / 64 * 64;
  if (bytes > (int64_t)sizeof tenon_workspace_memory - begin) return 0;
  tenon_workspace_used = begin + bytes;
  return tenon_workspace_memory + begin;
}
static void tenon_workspace_release(const TenonKernelContext* context, void* memory) {
  (void)context;
  if (memory) tenon_workspace_used = (unsigned char*)memory - tenon_workspace_memory;
}
)";
    return out;
  }
  static std::string run(const std::string& body) {
    return R"(
/* Runs the model; 0, or the code of the kernel that failed. Not for two threads at once. */
int32_t tenon_run(const void* const* inputs, void* const* outputs) {
  const TenonKernelContext context = {tenon_serial, tenon_workspace, tenon_workspace_release, 0};
  int32_t code = 0;
  (void)inputs;
  (void)outputs;
  (void)code;
  (void)context;
)" + body + "  return 0;\n}\n";
  }
  static std::string native_main(const std::vector<int64_t>& inputs, const std::vector<int64_t>& outputs) {
    std::string out =
        "\n#ifdef TENON_MAIN /* model INPUT.bin … OUTPUT.bin …: raw bytes */\n#include <stdio.h>\n";
    auto arrays = [&](const char* name, const std::vector<int64_t>& bytes) {
      for (size_t i = 0; i < bytes.size(); ++i)
        out += fmt::format("static _Alignas(64) unsigned char tenon_{}_{}[{}];\n", name, i,
                           std::max<int64_t>(1, bytes[i]));
    };
    arrays("input", inputs);
    arrays("output", outputs);
    auto list = [&](const char* name, const std::vector<int64_t>& bytes) {
      std::string text;
      for (size_t i = 0; i < bytes.size(); ++i) text += fmt::format("{}tenon_{}_{}", i ? ", " : "", name, i);
      return text.empty() ? std::string("0") : text;
    };
    auto sizes = [&](const std::vector<int64_t>& bytes) {
      return bytes.empty() ? std::string("0") : fmt::format("{}", fmt::join(bytes, ", "));
    };
    out += fmt::format(R"(int main(int argc, char** argv) {{
  unsigned char* const inputs[] = {{{}}};
  unsigned char* const outputs[] = {{{}}};
  static const long input_bytes[] = {{{}}}, output_bytes[] = {{{}}};
  int i;
  if (argc != 1 + TENON_NUM_INPUTS + TENON_NUM_OUTPUTS) return 2;
  for (i = 0; i < TENON_NUM_INPUTS; ++i) {{
    FILE* f = fopen(argv[1 + i], "rb");
    if (!f) return 5;
    if ((long)fread(inputs[i], 1, (size_t)input_bytes[i], f) != input_bytes[i]) return 5;
    fclose(f);
  }}
  if (tenon_run((const void* const*)inputs, (void* const*)outputs) != 0) return 1;
  for (i = 0; i < TENON_NUM_OUTPUTS; ++i) {{
    FILE* f = fopen(argv[1 + TENON_NUM_INPUTS + i], "wb");
    if (!f) return 5;
    if ((long)fwrite(outputs[i], 1, (size_t)output_bytes[i], f) != output_bytes[i]) return 5;
    fclose(f);
  }}
  return 0;
}}
#endif
)",
                       list("input", inputs), list("output", outputs), sizes(inputs), sizes(outputs));
    return out;
  }

  const Executable& e_;
  const IRModule& lowered_;
  std::string body_;
  std::vector<Place> places_;  ///< by the marks in the text
  std::vector<int64_t> buffers_;
  int64_t workspace_ = 0;
};

}  // namespace

namespace {

/// What registers the model with the runtime.
std::string registration(const Executable& e, const std::string& name, bool has_constants) {
  std::string out = "\n/* ---- The model for libtenon_runtime: tenon_artifact_load(\"system:" + name +
                    "\", 0, &model). */\n#include <tenon/tenon.h>\n";
  if (!has_constants) out += constants_text(e);
  const std::string tables = executable_tables(e);
  out += words_text("tenon_tables", tables.data(), tables.size());
  std::string constants, names, kernels;
  for (size_t i = 0; i < e.constants.size(); ++i) constants += fmt::format("tenon_constant_{}, ", i);
  size_t count = 0;
  std::map<std::string, int> symbols;
  for (const Callee& c : e.callees)
    if (c.kind == CalleeKind::Kernel && symbols.emplace(c.name, 0).second) {
      ++count;
      names += "\n  \"" + c.name + "\",";
      kernels += "\n  (void (*)(void))" + c.name + ",";
    }
  out += fmt::format("static const void* const tenon_constants[] = {{{}0}};\n", constants);
  out += fmt::format("static const char* const tenon_kernel_names[] = {{{}\n  0}};\n", names);
  out += fmt::format("static void (*const tenon_kernels[])(void) = {{{}\n  0}};\n", kernels);
  out += fmt::format(R"(static const TenonSystemLibrary tenon_library = {{
  sizeof(TenonSystemLibrary), {}, {}, "{}", tenon_tables, {}, tenon_constants, {}, tenon_kernel_names, tenon_kernels, {}}};
int32_t tenon_register_{}(void);
int32_t tenon_register_{}(void) {{ return (int32_t)tenon_system_register(&tenon_library); }}
#if defined(__GNUC__)
__attribute__((constructor)) static void tenon_register_before_main(void) {{ (void)tenon_register_{}(); }}
#endif
)",
                     kArtifactFormat, TENON_KERNEL_ABI, name, tables.size(), e.constants.size(), count, name,
                     name, name);
  return out;
}

}  // namespace

std::string c_entry(const Executable& executable, const IRModule& lowered, const std::string& system) {
  std::string entry;
  bool has_constants = true;
  try {
    entry = Entry(executable, lowered).text();
    // Two models in one program: each has its own function.
    if (!system.empty()) entry = fmt::format("\n#define tenon_run {}_run\n", system) + entry;
  } catch (const NoEntry& e) {
    entry = "\n/* The kernels alone: this model has no C entry, because " + e.why + ". */\n";
    has_constants = false;
  }
  if (system.empty()) return entry;
  int64_t constants = 0;
  for (const NDArray& c : executable.constants) constants += int64_t(c.byte_size());
  if (constants > kMaxConstantBytes)
    fail("T0924",
         fmt::format("the model's constants are {} MiB, more than {} as C text", constants >> 20,
                     kMaxConstantBytes >> 20),
         {}, "use --emit obj --system-lib NAME", ErrorKind::usage);
  return entry + registration(executable, system, has_constants);
}

}  // namespace tenon
