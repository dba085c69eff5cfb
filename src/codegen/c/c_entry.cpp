// SPDX-License-Identifier: Apache-2.0
// The file around the functions of c_program: memory, helpers, `tenon_run`, `main`, what registers the model.
#include "codegen/c/c_entry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "base/diagnostic.h"
#include "codegen/c/c_program.h"
#include "codegen/calls.h"
#include "ir/tir.h"
#include "ir/walk.h"
#include "runtime/artifact.h"

namespace tenon::codegen {
namespace {

constexpr int64_t kMaxConstantBytes = int64_t(64) << 20;

/// Bytes as an array of words, in this machine's order.
std::string words_text(const std::string& name, const char* bytes, size_t size, int64_t alignment) {
  const size_t words = std::max<size_t>(1, (size + 7) / 8);
  std::string out = fmt::format("static const _Alignas({}) uint64_t {}[{}] = {{", alignment, name, words);
  for (size_t w = 0; w < words; ++w) {
    uint64_t v = 0;
    const size_t n = std::min<size_t>(8, size - std::min(size, w * 8));
    if (n) std::memcpy(&v, bytes + w * 8, n);
    out += fmt::format("{}0x{:x}u", w == 0 ? "" : w % 8 ? "," : ",\n  ", v);
  }
  return out + "};\n";
}

std::string constants_text(const Executable& e, const std::set<std::string>* used, int64_t alignment) {
  std::string out;
  for (size_t i = 0; i < e.constants.size(); ++i) {
    const std::string name = fmt::format("tenon_constant_{}", i);
    if (!used || used->count(name))
      out += words_text(name, e.constants[i].as_ptr<char>(), e.constants[i].byte_size(), alignment);
  }
  return out;
}
int64_t constant_bytes(const Executable& e) {
  int64_t bytes = 0;
  for (const NDArray& c : e.constants) bytes += int64_t(c.byte_size());
  return bytes;
}

/// Everything that a kernel may ask for at once.
int64_t workspace_of(const IRModule& lowered, const std::string& symbol, int64_t alignment) {
  int64_t total = 0;
  for (auto [name, object] : lowered.functions()) {
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
      total += (bytes + 2 * alignment - 1) / alignment * alignment;
    });
  }
  return total;
}

// The context of kernels: one thread, scratch space from static memory.
constexpr const char* kContext = R"(static int64_t tenon_workspace_used;
static int32_t tenon_serial(const TenonKernelContext* context, TenonParallelBody body, void* closure,
                            int64_t extent, int64_t cost) {
  (void)cost;
  return extent > 0 ? body(closure, 0, extent, context) : 0;
}
static void* tenon_workspace(const TenonKernelContext* context, int64_t bytes) {
  int64_t begin = tenon_workspace_used;
  (void)context;
  bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  if (bytes > (int64_t)sizeof tenon_workspace_memory - begin) return 0;
  tenon_workspace_used = begin + bytes;
  return tenon_workspace_memory + begin;
}
static void tenon_workspace_release(const TenonKernelContext* context, void* memory) {
  (void)context;
  if (memory) tenon_workspace_used = (unsigned char*)memory - tenon_workspace_memory;
}
static const TenonKernelContext tenon_context = {tenon_serial, tenon_workspace, tenon_workspace_release, 0, 0, 0};
)";

/// Functions that the statements call, each printed when it is.
struct Helper {
  const char *name, *text;
};
constexpr Helper kHelpers[] = {
    {"tenon_unused", R"(/* The first of the copies that none of `held` is: one more than those are there. */
static void* tenon_unused(unsigned char* memory, size_t bytes, const void* const* held, int count) {
  for (;; memory += bytes) {
    int k = 0;
    while (k < count && held[k] != memory) ++k;
    if (k == count) return memory;
  }
}
)"},
    {"tenon_bits", R"(static int64_t tenon_bits(double v) {
  int64_t bits;
  memcpy(&bits, &v, sizeof bits);
  return bits;
}
)"},
    {"tenon_size", R"(/* A step of the computation of a size; -3 where it overflows or divides by zero. */
static int32_t tenon_size(int op, int64_t a, int64_t b, int64_t* out) {
  int64_t q = 0, r = 0;
  switch (op) {
    case 0:
      if (b > 0 ? a > INT64_MAX - b : a < INT64_MIN - b) return -3;
      *out = a + b;
      return 0;
    case 1:
      if (b < 0 ? a > INT64_MAX + b : a < INT64_MIN + b) return -3;
      *out = a - b;
      return 0;
    case 2:
      if (a != 0 && b != 0 &&
          (a == -1 ? b == INT64_MIN : a > 0 ? (b > INT64_MAX / a || b < INT64_MIN / a) : (b < INT64_MAX / a || b > INT64_MIN / a)))
        return -3;
      *out = a * b;
      return 0;
    case 5:
      *out = a < b ? a : b;
      return 0;
    case 6:
      *out = a > b ? a : b;
      return 0;
    default:
      if (b == 0 || (b == -1 && a == INT64_MIN)) return -3;
      q = a / b - (a % b != 0 && (a < 0) != (b < 0));
      r = a - q * b;
      *out = op == 3 ? q : op == 4 ? r : q + (r != 0);
      return 0;
  }
}
)"}};
static_assert(int(ShapeOp::Add) == 0 && int(ShapeOp::Sub) == 1 && int(ShapeOp::Mul) == 2 &&
              int(ShapeOp::FloorDiv) == 3 && int(ShapeOp::FloorMod) == 4 && int(ShapeOp::Min) == 5 &&
              int(ShapeOp::Max) == 6 && int(ShapeOp::CeilDiv) == 7);

/// Elements of memory as numbers: tenon_get_float32, tenon_put_int64, …
std::string element_helpers(const std::set<std::string>& used) {
  constexpr const char* kTypes[][2] = {{"int8", "int8_t"},     {"int16", "int16_t"},   {"int32", "int32_t"},
                                       {"int64", "int64_t"},   {"uint8", "uint8_t"},   {"uint16", "uint16_t"},
                                       {"uint32", "uint32_t"}, {"uint64", "uint64_t"}, {"float32", "float"},
                                       {"float64", "double"}};
  std::string out;
  for (const auto& [name, type] : kTypes) {
    const char* wide = name[0] == 'f' ? "double" : "int64_t";
    if (used.count(fmt::format("tenon_get_{}", name)))
      out += fmt::format(
          "static {1} tenon_get_{0}(const void* p) {{\n  {2} v;\n  memcpy(&v, p, sizeof v);\n  return "
          "({1})v;\n}}\n",
          name, wide, type);
    if (used.count(fmt::format("tenon_put_{}", name)))
      out += fmt::format(
          "static void tenon_put_{0}(void* p, {1} x) {{\n  const {2} v = ({2})x;\n  memcpy(p, &v, sizeof "
          "v);\n}}\n",
          name, wide, type);
  }
  return out;
}

std::string describe(const char* what, const std::vector<ValueInfo>& values) {
  std::string out;
  for (size_t i = 0; i < values.size(); ++i) {
    std::vector<int64_t> shape;
    for (const DimInfo& d : values[i].shape) shape.push_back(d.value);
    out += fmt::format(" * {} {}: {} [{}] {}\n", what, i, to_string(values[i].dtype), fmt::join(shape, ", "),
                       values[i].name);
  }
  return out;
}
const VMFunction& main_of(const Executable& e) {
  for (const VMFunction& f : e.functions)
    if (f.name == "main") return f;
  return e.functions.at(0);
}
std::string upper(std::string text) {
  for (char& c : text)
    if (c >= 'a' && c <= 'z') c = char(c - 'a' + 'A');
  return text;
}

std::string native_main(const std::string& prefix, const std::vector<int64_t>& inputs,
                        const std::vector<int64_t>& outputs) {
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
  unsigned char* const inputs[] = {{{0}}};
  unsigned char* const outputs[] = {{{1}}};
  static const long input_bytes[] = {{{2}}}, output_bytes[] = {{{3}}};
  int i;
  if (argc != 1 + {4}_NUM_INPUTS + {4}_NUM_OUTPUTS) return 2;
  for (i = 0; i < {4}_NUM_INPUTS; ++i) {{
    FILE* f = fopen(argv[1 + i], "rb");
    if (!f) return 5;
    if ((long)fread(inputs[i], 1, (size_t)input_bytes[i], f) != input_bytes[i]) return 5;
    fclose(f);
  }}
  if ({5}_run((const void* const*)inputs, (void* const*)outputs) != 0) return 1;
  for (i = 0; i < {4}_NUM_OUTPUTS; ++i) {{
    FILE* f = fopen(argv[1 + {4}_NUM_INPUTS + i], "wb");
    if (!f) return 5;
    if ((long)fwrite(outputs[i], 1, (size_t)output_bytes[i], f) != output_bytes[i]) return 5;
    fclose(f);
  }}
  return 0;
}}
#endif
)",
                     list("input", inputs), list("output", outputs), sizes(inputs), sizes(outputs),
                     upper(prefix), prefix);
  return out;
}

/// Memory, functions, `PREFIX_run` and `main`. NoEntry when C cannot express the model.
std::string model_text(const Executable& e, const IRModule& lowered, const COptions& options,
                       bool all_constants) {
  if (constant_bytes(e) > kMaxConstantBytes)
    throw NoEntry{fmt::format("its constants are {} MiB, more than {}", constant_bytes(e) >> 20,
                              kMaxConstantBytes >> 20)};
  CProgram program{.executable = e, .alignment = options.alignment};
  const CMain main = c_main(program);
  const std::string statements = program.functions + main.body;
  std::set<std::string> used = identifiers(statements);
  const int64_t alignment = options.alignment;
  auto memory = [&](const std::string& name, int64_t bytes) {
    return fmt::format("static _Alignas({}) unsigned char {}[{}];\n", alignment, name,
                       std::max<int64_t>(1, bytes));
  };
  std::string out = "\n/* ---- The model: static memory, no heap. Little-endian data.\n" +
                    describe("input", main_of(e).params) + describe("output", main.outputs) +
                    " */\n#include <string.h>\n";
  out += fmt::format("#define {0}_NUM_INPUTS {1}\n#define {0}_NUM_OUTPUTS {2}\n", upper(options.prefix),
                     main.input_bytes.size(), main.output_bytes.size());
  out += constants_text(e, all_constants ? nullptr : &used, alignment);
  if (used.count("tenon_arena")) out += memory("tenon_arena", e.arena_bytes);
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    const CBuffer& b = program.buffers[i];
    const std::string name = fmt::format("tenon_buffer_{}", i);
    const int64_t bytes =
        b.copies == 1 ? b.bytes
                      : (std::max<int64_t>(1, b.bytes) + alignment - 1) / alignment * alignment * b.copies;
    if (used.count(name)) out += memory(name, bytes);
  }
  if (used.count("tenon_context")) {
    int64_t workspace = 1;
    for (const std::string& symbol : program.kernels)
      workspace = std::max(workspace, workspace_of(lowered, symbol, alignment));
    std::string context = kContext;
    for (size_t at; (at = context.find("ALIGNMENT")) != context.npos;)
      context.replace(at, 9, std::to_string(alignment));
    out += memory("tenon_workspace_memory", workspace) + context;
  }
  for (const Helper& h : kHelpers)
    if (used.count(h.name)) out += h.text;
  out += element_helpers(used) + program.functions;
  out += fmt::format(R"(
/* Runs the model; 0, the code of the kernel that failed, -3 where a size is another than the model was compiled
 * for, or -4 where the model cannot run on these inputs. Not for two threads at once. */
int32_t {0}_run(const void* const* inputs, void* const* outputs);
int32_t {0}_run(const void* const* inputs, void* const* outputs) {{
{1}{2}{3}}}
)",
                     options.prefix, used.count("inputs") ? "" : "  (void)inputs;\n",
                     used.count("outputs") ? "" : "  (void)outputs;\n", main.body);
  return out + native_main(options.prefix, main.input_bytes, main.output_bytes);
}

/// What registers the model with the runtime.
std::string registration(const Executable& e, const std::string& name, bool has_constants,
                         int64_t alignment) {
  std::string out = "\n/* ---- The model for libtenon_runtime: tenon_artifact_load(\"system:" + name +
                    "\", 0, &model). */\n#include <tenon/tenon.h>\n";
  if (!has_constants) out += constants_text(e, nullptr, alignment);
  const std::string tables = executable_tables(e);
  out += words_text("tenon_tables", tables.data(), tables.size(), 16);
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

std::string c_entry(const Executable& executable, const IRModule& lowered, const std::string& system,
                    const TextOptions& given) {
  COptions options = c_options(given);
  if (!system.empty()) options.prefix = system;  // two models in one program: each has its own function
  std::string entry;
  bool has_constants = false;
  if (executable.functions.empty()) {
    entry = "\n/* The kernels alone: there is no model around them. */\n";
  } else if (!options.entry) {
    entry = "\n/* The kernels alone, as entry=none says. */\n";
  } else {
    try {
      for (const auto& [kernel, names] : packed_functions(lowered))
        throw NoEntry{fmt::format("kernel `{}` calls the packed function `{}`", kernel, names[0])};
      entry = model_text(executable, lowered, options, !system.empty());
      has_constants = true;
    } catch (const NoEntry& e) {
      if (system.empty())
        fail("T0924", "the model cannot be a C function over static memory: " + e.why, {},
             "give sizes with --dim; or link it with the runtime (--system-lib NAME), or write the kernels "
             "alone "
             "(--emit-option entry=none)",
             ErrorKind::model);
      entry = fmt::format("\n/* No {}_run: {}. The runtime runs the model. */\n", options.prefix, e.why);
    }
  }
  if (system.empty()) return entry;
  if (constant_bytes(executable) > kMaxConstantBytes)
    fail("T0924",
         fmt::format("the model's constants are {} MiB, more than {} as C text",
                     constant_bytes(executable) >> 20, kMaxConstantBytes >> 20),
         {}, "use --emit obj --system-lib NAME", ErrorKind::usage);
  return entry + registration(executable, system, has_constants, options.alignment);
}

std::string c_header(const Executable& executable, const std::string& system, const TextOptions& given) {
  COptions options = c_options(given);
  if (!system.empty() || executable.functions.empty() || !options.entry) return {};
  CProgram program{.executable = executable, .alignment = options.alignment};
  const CMain main = c_main(program);  // the text was made before, so that it can be
  std::string sizes = fmt::format("#define {0}_NUM_INPUTS {1}\n#define {0}_NUM_OUTPUTS {2}\n",
                                  upper(options.prefix), main.input_bytes.size(), main.output_bytes.size());
  auto bytes = [&](const char* what, const std::vector<int64_t>& values) {
    for (size_t i = 0; i < values.size(); ++i)
      sizes += fmt::format("#define {}_{}_{}_BYTES {}\n", upper(options.prefix), what, i, values[i]);
  };
  bytes("INPUT", main.input_bytes);
  bytes("OUTPUT", main.output_bytes);
  return fmt::format(R"(/* SPDX-License-Identifier: Apache-2.0
 * A model compiled by Tenon: static memory, no heap. Little-endian data.
{0}{1} */
#ifndef {2}_MODEL_H
#define {2}_MODEL_H
#include <stdint.h>
{3}#ifdef __cplusplus
extern "C" {{
#endif
/* Runs the model; 0, the code of the kernel that failed, -3 where a size is another than the model was compiled
 * for, or -4 where the model cannot run on these inputs. Inputs and outputs do not overlap. Not for two threads at once. */
int32_t {4}_run(const void* const* inputs, void* const* outputs);
#ifdef __cplusplus
}}
#endif
#endif
)",
                     describe("input", main_of(executable).params), describe("output", main.outputs),
                     upper(options.prefix), sizes, options.prefix);
}

}  // namespace tenon::codegen
