// SPDX-License-Identifier: Apache-2.0
#include "cli/model.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstdio>
#include <filesystem>

#include "base/nearest.h"
#include "cli/npy.h"
#include "cli/sizes.h"
#include "cli/values.h"

namespace tenon::cli {
namespace fs = std::filesystem;

void add_compile_options(CLI::App& app, ModelOptions& o) {
  app.add_option("MODEL", o.model,
                 "ONNX file, artifact (.so) or module in script text (.tir, - for standard input)")
      ->required();
  add_sizes_option(app, "--dim", o.dims, "value of a symbolic dimension, repeatable");
  add_sizes_option(app, "--dim-max", o.dim_bounds, "most of a symbolic dimension (plans memory)");
  add_bind_option(app, o.bound, "an input that is fixed: values as for -i, repeatable");
  add_target_options(app, o);
  add_precision_option(app, o);
  app.add_option_function<std::string>(
         "--memory-limit", [&o](const std::string& text) { o.memory_limit = parse_bytes(text); },
         "most bytes for intermediate tensors and results, such as 64M")
      ->type_name("BYTES");
  app.add_option("--compile-timeout", o.compile_timeout, "most seconds that compiling may take")
      ->check([](const std::string& text) {
        return std::strtod(text.c_str(), nullptr) > 0 ? "" : text + " is no time";  // nor is NaN
      })
      ->type_name("SEC");
  app.add_option("--threads", o.threads, "threads to compile and run with (default: all cores)")
      ->check(CLI::Range(1, 1024).description(""))
      ->type_name("N");
  app.add_flag("--verify", o.verify, "check every pass by executing the module before and after it");
  add_list_option(app, "--print-after", o.print_after, "print the module behind a pass (all: every pass)",
                  "PASS");
  add_pass_options(app, o);
  add_list_option(app, "--override", o.overrides, "folder of edited kernels that `extract` wrote, repeatable",
                  "DIR");
  app.add_option("--dump", o.dump, "write the module behind every pass into a folder")->type_name("DIR");
  app.add_flag("--time-passes", o.time_passes, "print the processor time of every pass");
  app.add_option("--cache", o.cache, "folder of the compile cache (default: $TENON_CACHE or ~/.cache/tenon)")
      ->type_name("DIR");
  app.add_flag("--no-cache", o.no_cache, "compile, whatever was compiled before");
  for (const char* name :
       {"--dim-max", "--target", "-O", "--precision", "--compile-timeout", "--verify", "--print-after",
        "--require-pass", "--disable-pass", "--pass-option", "--override", "--dump", "--time-passes"})
    o.of_compiling.push_back(app.get_option(name));
  // The cache does not know what a library makes of a model.
  add_custom_option(app)->each([&o](const std::string&) { o.no_cache = true; });
}
void add_precision_option(CLI::App& app, CompileSettings& s) {
  app.add_option("--precision", s.precision,
                 "f32 (as the model says), bf16 or f16 for contractions and what lies between them")
      ->type_name("TYPE")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}).description(""));
}
void add_bind_option(CLI::App& app, std::vector<std::string>& bound, const std::string& doc) {
  app.add_option("--bind", bound, doc)->type_name("NAME=V")->allow_extra_args(false);
}
namespace {

/// The C interface that a library of operators is linked with lies beside this command, where the loader
/// would not look for it; when it is loaded already, it is found by its name. One without it may do, too.
void load_custom(const std::string& path) {
  [[maybe_unused]] static void* const ffi =
      dlopen("libtenon_ffi.so." TENON_SOVERSION, RTLD_LAZY | RTLD_LOCAL);
  // A name without a folder is a file here first of all, as every other file of the command is.
  const std::string file = fs::exists(path) ? fs::absolute(path).string() : path;
  if (!dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL))
    throw Error(ErrorKind::io, "T0615", fmt::format("cannot load {}: {}", path, dlerror()), {},
                "it is a shared library that registers its operators when it is loaded");
}

}  // namespace

CLI::Option* add_custom_option(CLI::App& app) {
  return app
      .add_option_function<std::vector<std::string>>(
          "--custom",
          [](const std::vector<std::string>& libraries) {
            for (const std::string& path : libraries) load_custom(path);
          },
          "library with operators of its own, loaded before the model, repeatable")
      ->allow_extra_args(false)
      ->type_name("LIB.so");
}
void add_target_options(CLI::App& app, ModelSettings& s) {
  app.add_option("--target", s.target, "llvm (this host), llvm -mcpu=NAME, c, or @record.json")
      ->type_name("TARGET");
  app.add_option("-O", s.opt_level, "optimisation level")
      ->check(CLI::Range(0, 3).description(""))
      ->capture_default_str()
      ->type_name("0..3");
}
void add_list_option(CLI::App& app, const std::string& name, Array<std::string>& list, const std::string& doc,
                     const std::string& type) {
  app.add_option_function<std::vector<std::string>>(
         name, [&list](const std::vector<std::string>& items) { list = Array<std::string>(items); }, doc)
      ->allow_extra_args(false)
      ->type_name(type);
}
void add_pass_option(CLI::App& app, Array<std::string>& options) {
  add_list_option(app, "--pass-option", options, "PASS.KEY=VALUE: an option of a pass, repeatable", "TEXT");
}
void add_pass_options(CLI::App& app, PassSettings& s) {
  add_list_option(app, "--require-pass", s.require_passes, "run a pass that runs on request only, repeatable",
                  "PASS");
  add_list_option(app, "--disable-pass", s.disable_passes, "leave a pass out, repeatable", "PASS");
  add_pass_option(app, s.pass_options);
}
void add_sizes_option(CLI::App& app, const std::string& name, Map<std::string, int64_t>& sizes,
                      const std::string& doc) {
  app.add_option_function<std::vector<std::string>>(
         name,
         [name, &sizes](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) {
             const auto [symbol, value] = split_assignment(text, name.c_str());
             char* end = nullptr;
             const int64_t n = std::strtoll(value.c_str(), &end, 10);
             if (value.empty() || *end || n < 0)
               throw Error(ErrorKind::usage, "T0905",
                           fmt::format("{} {}: `{}` is no size", name, symbol, value));
             sizes.set(symbol, n);
           }
         },
         doc)
      ->type_name("NAME=N")
      ->allow_extra_args(false);
}
void add_run_options(CLI::App& app, ModelOptions& o) {
  add_compile_options(app, o);
  add_input_options(app, o);
}
void add_input_options(CLI::App& app, ModelOptions& o) {
  app.add_option("-i,--input", o.inputs,
                 "an input: @file.npy, @file.pb, 2x3xf32=@file.bin, 2x3xf32=0.5, 2x3xf32 (random), [1,2,3]")
      ->type_name("NAME=V")
      ->allow_extra_args(false);
  app.add_option("--data", o.data, "test data: input_0.pb … and output_0.pb …, or .npy")->type_name("DIR");
  app.add_option("--seed", o.seed, "seed of inputs that are not given")
      ->capture_default_str()
      ->type_name("N");
}

CLI::Validator is_a_number() {
  return CLI::Validator(
      [](std::string& text) {
        const double value = std::strtod(text.c_str(), nullptr);
        return std::isfinite(value) && value >= 0 ? std::string() : text + " is no number from 0 on";
      },
      "");
}

int64_t parse_bytes(const std::string& text) {
  if (text.empty()) return 0;
  char* end = nullptr;
  const double n = std::strtod(text.c_str(), &end);
  double scale = 1;
  switch (*end) {
    case 'k':
    case 'K':
      scale = 1 << 10;
      ++end;
      break;
    case 'm':
    case 'M':
      scale = 1 << 20;
      ++end;
      break;
    case 'g':
    case 'G':
      scale = 1 << 30;
      ++end;
      break;
    default:
      break;
  }
  if (end == text.c_str() || *end || !(n > 0) || n * scale > 9e18)
    throw Error(ErrorKind::usage, "T0911", fmt::format("`{}` is no number of bytes", text), {},
                "4096, 64K, 64M or 2G");
  return int64_t(n * scale);
}

bool is_compiled(const std::string& path) {
  FILE* file = path == "-" ? nullptr : std::fopen(path.c_str(), "rb");
  char magic[4] = {};
  const size_t read = file ? std::fread(magic, 1, 4, file) : 0;
  if (file) std::fclose(file);
  const std::string_view begin(magic, read);
  return begin.starts_with("{") || begin ==
                                       "\x7f"
                                       "ELF";
}

namespace {
ValueInfo info_from(const json& j) {
  ValueInfo info;
  info.name = j.at("name");
  info.dtype = parse_dtype(j.at("dtype").get<std::string>());
  info.known_rank = !j.at("shape").is_null();
  if (info.known_rank)
    for (const json& d : j.at("shape")) {
      DimInfo dim;
      if (d.is_number())
        dim.value = d;
      else
        dim.symbol = d;
      info.shape.push_back(dim);
    }
  return info;
}

Any read_proto(const std::string& path, const std::string& container) {
  return call_compiler("read_value", ReadValueRequest{{}, path, container}).at("value");
}
/// A value of a program's data type, written as an expression.
Any evaluate(const std::string& model, const std::string& type, const std::string& expression) {
  return call_compiler("evaluate", EvaluateRequest{{}, model, type, expression}).at("value");
}
std::optional<NDArray> as_tensor(const Any& v) {
  auto a = v.try_as<NDArray>();
  return a && a->get() ? a : std::nullopt;
}
}  // namespace

/// What the artifact says of values that are no tensors: a line for each.
std::vector<std::string> containers_of(const Artifact& artifact, const char* key) {
  std::vector<std::string> out;
  const std::string* lines = artifact.metadata(key);
  for (size_t at = 0; lines && at < lines->size();) {
    const size_t end = lines->find('\n', at);
    out.push_back(lines->substr(at, end - at));
    at += out.back().size() + 1;
  }
  return out;
}

static std::map<std::string, std::string> bound_inputs_of(const Artifact& artifact) {
  constexpr std::string_view prefix = "bound_input.";
  std::map<std::string, std::string> out;
  for (const auto& [key, value] : artifact.executable().metadata)
    if (key.starts_with(prefix)) out.emplace(key.substr(prefix.size()), value);
  return out;
}

std::string Signature::output_name(size_t i) const {
  return i < outputs.size() && !outputs[i].name.empty() ? outputs[i].name : fmt::format("output_{}", i);
}

bool Signature::names(const std::string& symbol) const {
  return !symbol.empty() && (!expressions || is_size_name(symbol));
}

Signature signature_of(const ModelOptions& options) {
  Signature s;
  const json info = ask_compiler("inspect", InspectRequest{{}, options.model});
  s.expressions = info.value("kind", "") == "module";
  for (const json& j : info.at("inputs")) {
    s.inputs.push_back(info_from(j));
    s.input_types.push_back(j.value("value", ""));
    s.input_containers.push_back(j.value("container", ""));
  }
  if (info.contains("overridable"))
    for (const json& j : info.at("overridable")) s.overridable.push_back(info_from(j));
  for (const json& j : info.at("outputs")) {
    s.outputs.push_back(info_from(j));
    s.output_containers.push_back(j.value("container", ""));
  }
  return s;
}

/// T0912: the model has no inputs of these names.
[[noreturn]] static void unknown_inputs(const ModelOptions& options, const Signature& signature,
                                        const std::vector<std::string>& unknown) {
  std::vector<std::string> known, names;
  for (const ValueInfo& i : signature.inputs) {
    known.push_back(fmt::format("{}: {}", i.name, type_text(i)));
    names.push_back(i.name);
  }
  const std::string meant = nearest_name(unknown[0], names);
  throw Error(
      ErrorKind::usage, "T0912", fmt::format("the model has no input `{}`", fmt::join(unknown, "`, `")),
      options.model,
      fmt::format("{}its inputs are {}", meant.empty() ? "" : fmt::format("did you mean `{}`? ", meant),
                  fmt::join(known, ", ")));
}

Map<std::string, NDArray> bound_values(const ModelOptions& options, Signature& signature) {
  Map<std::string, NDArray> out;
  if (options.bound.empty()) return out;
  if (is_compiled(options.model))
    throw Error(ErrorKind::usage, "T0953", "--bind fixes inputs of a model that is compiled", options.model,
                "this is an artifact: give its values with -i, or compile the model with --bind");
  std::vector<ValueInfo> all = signature.inputs;
  all.insert(all.end(), signature.overridable.begin(), signature.overridable.end());
  std::vector<std::string> unknown;
  for (const std::string& text : options.bound) {
    const auto [name, value] = split_assignment(text, "--bind");
    const auto info = std::ranges::find(all, name, &ValueInfo::name);
    if (info == all.end()) {
      unknown.push_back(name);
      continue;
    }
    const auto tensor = as_tensor(
        parse_value(value, *info, options.seed, [&](const std::string& p) { return read_proto(p, ""); }));
    if (!tensor)
      throw Error(ErrorKind::usage, "T0953",
                  fmt::format("input `{}` cannot be bound: this is no tensor of numbers", name),
                  options.model);
    if (!signature.bound.emplace(name, value).second)
      throw Error(
          ErrorKind::usage, "T0522",
          fmt::format("input `{}` is bound twice: to {} and to {}", name, signature.bound.at(name), value),
          options.model);
    out.set(name, *tensor);
  }
  if (!unknown.empty()) unknown_inputs(options, signature, unknown);
  return out;
}

/// A file of a data set: NAME_i.pb, as ONNX has them, or NAME_i.npy where there is none.
static std::string data_file(const std::string& folder, const char* name, size_t i) {
  const std::string base = fmt::format("{}/{}_{}", folder, name, i);
  return !fs::exists(base + ".pb") && fs::exists(base + ".npy") ? base + ".npy" : base + ".pb";
}

std::vector<Any> make_inputs(const ModelOptions& options, const Signature& signature) {
  std::map<std::string, int64_t> dims;
  for (const auto& [name, value] : options.dims) dims[name] = value;
  std::vector<Any> values(signature.inputs.size());
  std::vector<char> given(values.size());
  const auto container = [&](size_t i) {
    return i < signature.input_containers.size() ? signature.input_containers[i] : std::string();
  };
  const auto type = [&](size_t i) {
    return i < signature.input_types.size() ? signature.input_types[i] : std::string();
  };
  std::vector<std::string> unknown;
  for (const std::string& text : options.inputs) {
    const auto [name, value] = split_assignment(text, "-i");
    if (const auto bound = signature.bound.find(name); bound != signature.bound.end())
      throw Error(ErrorKind::usage, "T0522",
                  fmt::format("input `{}` is bound to {}, and -i gives it {}", name, bound->second, value),
                  options.model, "leave out one of the two");
    size_t at = 0;
    while (at < values.size() && signature.inputs[at].name != name) ++at;
    if (at == values.size())
      unknown.push_back(name);
    else if (given[at])
      throw Error(ErrorKind::usage, "T0522", fmt::format("input `{}` is given twice", name), options.model,
                  "leave out one of the two");
    else if (!type(at).empty())
      given[at] = 1, values[at] = evaluate(options.model, type(at), value);
    else
      given[at] = 1,
      values[at] = parse_value(value, signature.inputs[at], options.seed + at,
                               [&](const std::string& p) { return read_proto(p, container(at)); });
  }
  if (!unknown.empty()) unknown_inputs(options, signature, unknown);
  for (size_t i = 0; i < values.size(); ++i)
    if (signature.bound.count(signature.inputs[i].name)) given[i] = 1;
  if (!options.data.empty()) {
    for (size_t i = 0; i < values.size(); ++i) {
      const std::string path = data_file(options.data, "input", i);
      if (given[i] || !fs::exists(path)) continue;
      given[i] = 1;
      values[i] = path.ends_with(".npy") ? parse_value("@" + path, signature.inputs[i], options.seed, {})
                                         : read_proto(path, container(i));
    }
    if (!fs::is_directory(options.data)) throw Error(ErrorKind::io, "T3001", "no such folder", options.data);
  }
  // What the given inputs say of symbolic dimensions holds for the others too.
  for (size_t i = 0; i < values.size(); ++i)
    if (const auto a = as_tensor(values[i]); a && a->shape().size() == signature.inputs[i].shape.size())
      for (size_t d = 0; d < a->shape().size(); ++d)
        if (const std::string& symbol = signature.inputs[i].shape[d].symbol; signature.names(symbol))
          dims.emplace(symbol, a->shape()[d]);
  for (size_t i = 0; i < values.size(); ++i) {
    if (given[i]) continue;
    const ValueInfo& info = signature.inputs[i];
    if (!type(i).empty())
      throw Error(ErrorKind::usage, "T0913",
                  fmt::format("input `{}` is {} and must be given", info.name, type(i)), options.model,
                  fmt::format("-i {}='…' with an expression of its constructors", info.name));
    if (!container(i).empty() || info.dtype.code == TypeCode::String)
      throw Error(ErrorKind::usage, "T0913",
                  fmt::format("input `{}` is a {} and must be given", info.name,
                              container(i).empty() ? "tensor of strings" : container(i)),
                  options.model, "-i NAME=@file.pb");
    if (info.dtype.is_void())
      throw Error(ErrorKind::usage, "T0913",
                  fmt::format("input `{}` has no declared element type and must be given", info.name),
                  options.model, "-i NAME=@file.npy, or declare it");
    if (!info.known_rank)
      throw Error(ErrorKind::usage, "T0913",
                  fmt::format("input `{}` has no declared shape and must be given", info.name),
                  options.model);
    std::vector<int64_t> shape;
    for (const DimInfo& d : info.shape) {
      auto it = dims.find(d.symbol);
      shape.push_back(d.value >= 0       ? d.value
                      : it != dims.end() ? it->second
                                         : std::max<int64_t>(0, size_value(d.symbol, dims).value_or(1)));
    }
    values[i] = Any(random_value(shape, info.dtype, options.seed + i));
  }
  return values;
}

std::vector<NDArray> expected_outputs(const std::string& data, size_t count) {
  auto path_of = [&](size_t i) { return data_file(data, "output", i); };
  if (count > 0 && !fs::exists(path_of(0)))
    throw Error(ErrorKind::io, "T3001", "the data set has no such file", path_of(0));
  size_t there = 0;
  while (fs::exists(path_of(there))) ++there;
  if (there != count)
    throw Error(ErrorKind::usage, "T0922",
                fmt::format("the data set has {} expected output{}, the model gives {}", there,
                            there == 1 ? "" : "s", count),
                data, "each output needs its output_0.pb, output_1.pb …");
  std::vector<NDArray> out;
  for (size_t i = 0; i < count; ++i) {
    const std::string path = path_of(i);
    const auto a = path.ends_with(".npy") ? read_npy(path) : as_tensor(read_proto(path, ""));
    if (!a) throw Error(ErrorKind::usage, "T0929", "the expected output is no tensor of numbers", path_of(i));
    out.push_back(*a);
  }
  return out;
}

Map<std::string, int64_t> dims_of(const ModelOptions& options, const Signature& signature,
                                  const std::vector<Any>& inputs) {
  Map<std::string, int64_t> dims = options.dims;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ValueInfo& info = signature.inputs[i];
    const auto a = as_tensor(inputs[i]);
    if (!a || info.shape.size() != a->shape().size()) continue;  // the session names the mismatch
    for (size_t d = 0; d < info.shape.size(); ++d)
      if (const std::string& symbol = info.shape[d].symbol; signature.names(symbol) && !dims.contains(symbol))
        dims.set(symbol, a->shape()[d]);
  }
  return dims;
}

CompileRequest compile_request(const ModelOptions& o, Console& console) {
  CompileRequest r;
  static_cast<CompileSettings&>(r) = o;
  r.model = o.model;
  r.verify = o.verify;
  if (!o.no_cache && !o.time_passes)
    r.cache = o.cache.empty() ? "default" : o.cache == "default" ? "./default" : o.cache;
  r.note = Function([&console](Arguments a) -> Any {
    if (console.verbose > 0) console.note(a[0].as<std::string>());
    return {};
  });
  r.progress = Function([&console](Arguments a) -> Any {
    console.progress(a[0].as<std::string>(), a[1].as<int64_t>(), a[2].as<int64_t>());
    return {};
  });
  r.print = Function([&console](Arguments a) -> Any {
    console.end_progress();
    fmt::print(console.as_json ? stderr : stdout, "# after {}\n{}\n", a[0].as<std::string>(),
               a[1].as<std::string>());
    return {};
  });
  return r;
}

void tell_note(const AttrMap& reply, Console& console) {
  if (const auto note = reply.find("note")) console.note(note->as<std::string>());
}

json tell_overrides(const AttrMap& reply, Console& console) {
  json out = json::object();
  const auto overrides = reply.find("overrides");  // of a whole compilation, not of a stage
  if (!overrides) return out;
  for (const auto& [kernel, how] : overrides->as<AttrMap>()) {
    out[kernel] = how.as<std::string>();
    console.note(fmt::format("{} is overridden by {}", kernel, how.as<std::string>()));
  }
  return out;
}

SessionOptions session_options(const ModelOptions& options) {
  SessionOptions out;
  out.threads = int(options.threads);
  out.memory_limit = options.memory_limit;
  return out;
}

std::vector<NDArray> Prepared::tensors() const {
  std::vector<NDArray> out;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto a = as_tensor(inputs[i]);
    if (!a)
      throw Error(ErrorKind::usage, "T0929",
                  fmt::format("input `{}` is no tensor of numbers", signature.inputs[i].name), {},
                  "`tenon run` takes values of any kind");
    out.push_back(*a);
  }
  return out;
}
void Prepared::leave_out_bound() {
  Signature& s = signature;
  for (size_t i = s.inputs.size(); i-- > 0;) {
    if (!bind.contains(s.inputs[i].name)) continue;
    const auto at = std::ptrdiff_t(i);
    s.inputs.erase(s.inputs.begin() + at);
    s.input_containers.erase(s.input_containers.begin() + at);
    if (i < s.input_types.size()) s.input_types.erase(s.input_types.begin() + at);
    inputs.erase(inputs.begin() + at);
  }
}
bool Prepared::is_all_tensors() const {
  return std::ranges::all_of(inputs, [](const Any& v) { return as_tensor(v).has_value(); });
}
bool Prepared::is_plain() const {
  if (!is_all_tensors()) return false;
  const std::string* types = artifact.metadata("outputs");
  return !types;
}
std::string Prepared::origin_text() const {
  if (cached) return "taken from the compile cache in " + time_text(compile_ms);
  return compile_ms > 0 ? "compiled in " + time_text(compile_ms) : "loaded in " + time_text(load_ms);
}

/// T0954: what an artifact was compiled with is past; T0903: a dimension that it has not.
static void check_artifact_options(const ModelOptions& options, const Signature& signature) {
  for (const CLI::Option* o : options.of_compiling)
    if (o->count() > 0)
      throw Error(ErrorKind::usage, "T0954",
                  fmt::format("{} says how a model is compiled, and this one is compiled", o->get_name()),
                  options.model,
                  "give it to `tenon compile`, or give the model that this one was compiled from");
  for (const auto& [name, value] : options.dims) {
    bool found = false;
    for (const ValueInfo& i : signature.inputs)
      for (const DimInfo& d : i.shape) found = found || (signature.names(d.symbol) && d.symbol == name);
    if (!found)
      throw Error(ErrorKind::usage, "T0903", fmt::format("no input has a dimension named '{}'", name),
                  options.model, "`tenon inspect` shows the inputs of an artifact");
  }
}

Prepared prepare(const ModelOptions& options, Console& console) {
  Prepared p;
  if (is_compiled(options.model)) {
    const auto start = std::chrono::steady_clock::now();
    p.artifact = Artifact::load(options.model);
    p.load_ms = ms_since(start);
    p.signature = {{p.artifact.inputs().begin(), p.artifact.inputs().end()},
                   {p.artifact.outputs().begin(), p.artifact.outputs().end()},
                   {},
                   bound_inputs_of(p.artifact),
                   containers_of(p.artifact, "inputs"),
                   containers_of(p.artifact, "outputs"),
                   true};
    bound_values(options, p.signature);
    check_artifact_options(options, p.signature);
    p.inputs = make_inputs(options, p.signature);
    return p;
  }
  p.signature = signature_of(options);
  p.bind = bound_values(options, p.signature);
  p.inputs = make_inputs(options, p.signature);
  p.leave_out_bound();
  CompileRequest request = compile_request(options, console);
  request.bind = p.bind;
  request.dims = dims_of(options, p.signature, p.inputs);
  request.emit = "jit";
  if (options.verify) request.verify_inputs = Array<Any>(p.inputs);  // what is asked for has to be right
  const AttrMap reply = call_compiler("compile", request);
  console.end_progress();
  p.artifact = reply.at("artifact").as<Artifact>();
  p.compile_ms = reply.at("compile_ms").as<double>();
  tell_note(reply, console);
  tell_overrides(reply, console);
  if (auto cached = reply.find("cached")) p.cached = cached->as<bool>();
  p.passes = json::parse(reply.at("passes").as<std::string>());
  if (options.time_passes)
    for (const json& pass : p.passes)
      console.note(
          fmt::format("{:>10.3f} ms  {}", pass.at("ms").get<double>(), pass.at("name").get<std::string>()));
  return p;
}

}  // namespace tenon::cli
