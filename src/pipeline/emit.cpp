// SPDX-License-Identifier: Apache-2.0
// The ends of the way: artifacts, and each stage as a file.
#include "pipeline/emit.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/nearest.h"
#include "codegen/kernel_abi_text.h"
#include "runtime/artifact.h"
#include "runtime/libraries/graph/graph.h"

namespace tenon {

using codegen::code_generator;
using codegen::CodeGenerator;
using codegen::CodeText;
using codegen::LinkedAs;
using codegen::linker_for;

std::vector<EmitKind> emit_kinds() {
  const codegen::TextOption prefix{"prefix",
                                   "of the names that the file defines: letters, digits and _ (tenon)",
                                   [](const std::string& v) { return !v.empty() && v == system_name(v); }};
  std::vector<EmitKind> out{{.name = "artifact",
                             .ending = ".so",
                             .doc = "the compiled model, for `tenon run` and the runtime library",
                             .code = CodeForm::shared,
                             .is_text = false,
                             .whole_model = true},
                            {.name = "obj",
                             .ending = ".o",
                             .doc = "one relocatable object",
                             .code = CodeForm::objects,
                             .is_text = false,
                             .registers = true,
                             .options = {prefix}},
                            {.name = "exe",
                             .ending = "",
                             .doc = "a program that reads and writes .npy files",
                             .code = CodeForm::objects,
                             .is_text = false,
                             .whole_model = true},
                            {.name = "json",
                             .ending = ".json",
                             .doc = "graph of operators with storage plan, and its code",
                             .code = CodeForm::shared,
                             .whole_model = true}};
  for (const CodeGenerator* g : codegen::code_generators())
    for (const CodeText& t : g->texts) {
      out.push_back({.name = t.name,
                     .ending = t.ending,
                     .doc = t.doc,
                     .target = g->target.name,
                     .registers = t.model != nullptr,
                     .options = t.options});
      if (t.model) out.back().options.push_back(prefix);
    }
  return out;
}

codegen::TextOptions emit_options(const EmitKind& kind, const std::vector<std::string>& given) {
  codegen::TextOptions out;
  for (const std::string& text : given) {
    const size_t equals = std::min(text.find('='), text.size());
    const std::string name = text.substr(0, equals), value = text.substr(std::min(equals + 1, text.size()));
    const auto option = std::ranges::find(kind.options, name, &codegen::TextOption::name);
    std::vector<std::string> names;
    for (const codegen::TextOption& o : kind.options) names.push_back(o.name);
    if (option == kind.options.end())
      fail("T0970", fmt::format("the output {} has no option `{}`", kind.name, name), "--emit-option",
           names.empty() ? "it has none" : did_you_mean(name, names, "its options are "), ErrorKind::usage);
    if (!option->accepts(value))
      fail("T0970", fmt::format("the option {} takes no value `{}`", name, value), "--emit-option",
           name + ": " + option->doc, ErrorKind::usage);
    out[name] = value;
  }
  return out;
}

namespace {
const CodeText* find_text(const CodeGenerator& generator, const std::string& kind) {
  const auto it = std::ranges::find(generator.texts, kind, &CodeText::name);
  return it == generator.texts.end() ? nullptr : &*it;
}
}  // namespace

Target target_for(const std::string& kind, const Target& target, bool registered) {
  if (kind == "obj" && !registered && target->has("amx_tile")) {
    Target out = target;
    std::vector<std::string> kept = target->features.vec();
    std::erase_if(kept, [](const std::string& f) { return f.starts_with("amx_"); });
    out.edit()->features = Array<std::string>(kept);
    return out;
  }
  if (find_text(code_generator(target), kind)) return target;
  for (const CodeGenerator* g : codegen::code_generators()) {
    if (!find_text(*g, kind) || g->target.device != device_of(target)) continue;
    Target out = target;
    out.edit()->kind = g->target.name;
    return out;
  }
  return target;
}

Artifact jit_artifact(const Compiled& compiled) {
  auto machine = [](const std::string& triple) { return triple.substr(0, triple.find('-')); };
  const std::string made_for = machine(compiled.executable.needs.triple),
                    here = machine(host_target()->triple);
  if (!made_for.empty() && made_for != here)
    fail("T0603", fmt::format("code for {} does not run on {}", made_for, here), {},
         "write an artifact with `tenon compile` and run it on that machine");
  std::string missing;
  for (const std::string& f : missing_features(compiled.executable.needs))
    missing += (missing.empty() ? "" : ", ") + f;
  if (!missing.empty())
    fail("T0603", "this machine's CPU lacks what the target has: " + missing, {},
         "leave out --target, or write an artifact with `tenon compile` and run it on that machine");
  const codegen::LoadedCode code = linker_for(compiled.target).load(compiled.object, compiled.target);
  return Artifact::from_executable(compiled.executable, code.find, code.keep);
}

std::string shared_code(const Compiled& compiled) {
  if (!compiled.shared_object.empty()) return compiled.shared_object;
  return linker_for(compiled.target).link(compiled.object, compiled.target, LinkedAs::shared, nullptr);
}

void refuse_variants(const std::string& kind) {
  fail("T0924", fmt::format("{} is of one processor, and the target names several", kind), "--target",
       "artifacts have code for several", ErrorKind::usage);
}

void write_text_file(const std::string& path, std::string_view bytes) {
  // A device or pipe is written to; only a file is replaced, at once when all is there.
  struct stat there;
  const bool replace = stat(path.c_str(), &there) != 0 || S_ISREG(there.st_mode);
  const std::string temporary = replace ? fmt::format("{}.{}.tmp", path, getpid()) : path;
  FILE* file = std::fopen(temporary.c_str(), "wb");
  bool ok = file && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  if (file) ok = (std::fclose(file) == 0) && ok;
  if (ok && replace) ok = std::rename(temporary.c_str(), path.c_str()) == 0;
  if (!ok) {
    const int why = errno;
    if (replace) std::remove(temporary.c_str());
    throw Error(ErrorKind::io, "T3003", std::string("cannot be written: ") + std::strerror(why), path);
  }
}

namespace {

codegen::SystemLibrary system_library(const Compiled& compiled, const std::string& name) {
  codegen::SystemLibrary out;
  out.name = name;
  out.format = kArtifactFormat;
  out.kernel_abi = TENON_KERNEL_ABI;
  out.tables = executable_tables(compiled.executable);
  for (const NDArray& c : compiled.executable.constants)
    out.constants.emplace_back(c.as_ptr<char>(), c.byte_size());
  for (const Callee& c : compiled.executable.callees)
    if (c.kind == CalleeKind::Kernel) out.kernels.push_back(c.name);
  std::sort(out.kernels.begin(), out.kernels.end());
  out.kernels.erase(std::unique(out.kernels.begin(), out.kernels.end()), out.kernels.end());
  return out;
}
constexpr const char* kSystemHeader = R"(/* SPDX-License-Identifier: Apache-2.0
 * The model `{0}`, linked into a program with libtenon_runtime: tenon_artifact_load("system:{0}", 0, &model). */
#pragma once
#include <stdint.h>
#ifdef __cplusplus
extern "C" {{
#endif
/* Registers the model. Runs before main by itself where the linker keeps it; again it does nothing. */
int32_t tenon_register_{0}(void);
#ifdef __cplusplus
}}
#endif
)";

/// What an object of kernels alone defines.
std::string kernels_header(const Compiled& compiled) {
  std::string out = R"(/* SPDX-License-Identifier: Apache-2.0
 * Kernels compiled by Tenon. `buffers`: the data of every tensor, inputs before outputs; `scalars`: sizes and
 * numbers in the order of the parameters, floats as the bits of a double; `context`: what the runtime offers.
 * Each returns 0, 1 + k when its assertion k fails, or -1 when out of memory. */
#pragma once
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
)" + codegen::kernel_abi_text();
  for (const std::string& symbol : compiled.object.symbols)
    out += fmt::format(
        "int32_t {}(void* const* buffers, const int64_t* scalars, const TenonKernelContext* context);\n",
        symbol);
  return out + "#ifdef __cplusplus\n}\n#endif\n";
}

/// The header beside a file of that kind; "" when it has none.
std::string header_of(const std::string& kind, const Compiled& compiled, const std::string& system,
                      const codegen::TextOptions& options) {
  if (kind == "obj") return system.empty() ? kernels_header(compiled) : fmt::format(kSystemHeader, system);
  const CodeText* text = find_text(code_generator(compiled.target), kind);
  if (!text || !text->model) return {};
  if (!system.empty()) return fmt::format(kSystemHeader, system);
  return text->header ? text->header(compiled.executable, system, options) : "";
}

/// The text of a graph; the artifact of its code is written beside it, unless it goes to a device or pipe.
std::string graph_with_code(const std::string& path, const Compiled& compiled) {
  const auto graph = operator_graph::graph_of(compiled.executable);  // refuses before anything is written
  namespace fs = std::filesystem;
  const fs::path code = path + ".so";
  std::error_code none;
  if (fs::exists(path, none) && !fs::is_regular_file(path, none))
    return operator_graph::graph_json(graph, {});
  return operator_graph::graph_json(
      graph,
      {code.filename().string(), write_artifact(code.string(), compiled.executable, shared_code(compiled))});
}

}  // namespace

std::string system_name(const std::string& path) {
  std::string out;
  for (const char c : std::filesystem::path(path).stem().string())
    out += std::isalnum(static_cast<unsigned char>(c)) && static_cast<unsigned char>(c) < 128 ? c : '_';
  return out.empty() || std::isdigit(static_cast<unsigned char>(out[0])) ? "m" + out : out;
}

std::string emit_text(const std::string& kind, const Compiled& compiled, const std::string& system,
                      const codegen::TextOptions& options) {
  if (kind == "obj" && system.empty())
    return linker_for(compiled.target).link(compiled.object, compiled.target, LinkedAs::object, nullptr);
  if (kind == "obj" || kind == "exe") {
    const codegen::SystemLibrary model = system_library(compiled, system.empty() ? "model" : system);
    return linker_for(compiled.target)
        .link(compiled.object, compiled.target, kind == "exe" ? LinkedAs::executable : LinkedAs::object,
              &model);
  }
  if (kind == "json") return operator_graph::graph_json(operator_graph::graph_of(compiled.executable), {});
  if (const CodeText* text = find_text(code_generator(compiled.target), kind))
    return text->kernels(compiled.lowered, compiled.target, compiled.opt_level, options) +
           (text->model ? text->model(compiled.executable, compiled.lowered, system, options) : "");
  fail("T0920", fmt::format("the target {} emits nothing of the kind `{}`", compiled.target->kind, kind), {},
       "`tenon compile --help` lists the kinds", ErrorKind::usage);
}

int64_t write_emitted(const std::string& kind, const std::string& path, const Compiled& compiled,
                      const std::string& system, const codegen::TextOptions& options) {
  if (!compiled.variants.empty() && kind != "artifact") refuse_variants(kind);
  if (kind == "artifact") {
    std::vector<std::string> code{shared_code(compiled)};
    for (const Compiled& c : compiled.variants) code.push_back(shared_code(c));
    std::vector<Variant> variants{{&compiled.executable, code[0]}};
    for (const Compiled& c : compiled.variants) variants.push_back({&c.executable, code[variants.size()]});
    write_artifact(path, variants);
    std::error_code device;  // has no size
    const auto bytes = std::filesystem::file_size(path, device);
    return device ? 0 : int64_t(bytes);
  }
  const std::string text =
      kind == "json" ? graph_with_code(path, compiled) : emit_text(kind, compiled, system, options);
  write_text_file(path, text);
  if (kind == "exe") {
    using std::filesystem::perms;
    const auto readers = std::filesystem::status(path).permissions();
    auto runs = perms::owner_exec;
    if ((readers & perms::group_read) != perms::none) runs |= perms::group_exec;
    if ((readers & perms::others_read) != perms::none) runs |= perms::others_exec;
    std::filesystem::permissions(path, runs, std::filesystem::perm_options::add);
  }
  if (const std::string header = header_of(kind, compiled, system, options); !header.empty())
    write_text_file(std::filesystem::path(path).replace_extension(".h").string(), header);
  return int64_t(text.size());
}

}  // namespace tenon
