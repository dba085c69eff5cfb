// SPDX-License-Identifier: Apache-2.0
// tenon inspect: what a model or an artifact is, without running it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/bytecode.h"
#include "cli/model.h"
#include "cli/values.h"
#include "cli/verbs.h"
#include "runtime/artifact.h"

namespace tenon::cli {
namespace {

/// What an artifact says of inputs that are values (axes, shapes …), not data: a name on each line.
constexpr std::string_view kValueInputs = "value_inputs";

json info_json(const ValueInfo& info) {
  json shape = nullptr;
  if (info.known_rank) {
    shape = json::array();
    for (const DimInfo& d : info.shape) shape.push_back(d.value >= 0 ? json(d.value) : json(d.symbol));
  }
  return {{"name", info.name}, {"dtype", to_string(info.dtype)}, {"shape", shape}};
}

/// Arithmetic of one run where every kernel states its own and none stands in a loop, null otherwise.
json flop_of(const Executable& e) {
  std::map<std::string_view, double> work;
  for (const auto& [key, value] : e.metadata)
    if (key.starts_with("work.")) work[std::string_view(key).substr(5)] = std::strtod(value.c_str(), nullptr);
  double total = 0;
  for (const Instruction& i : e.code) {
    if (i.op == Opcode::Goto && i.offset < 0) return nullptr;
    if (i.op != Opcode::Call || e.callees[size_t(i.callee)].kind != CalleeKind::Kernel) continue;
    const auto it = work.find(e.callees[size_t(i.callee)].name);
    if (it == work.end()) return nullptr;
    total += it->second;
  }
  return total;
}

json inspect_artifact(const std::string& path) {
  const ArtifactFile file = read_artifact(path);  // its code is not opened
  const Executable& e = file.executable;
  const VMFunction* main = nullptr;
  for (const VMFunction& f : e.functions)
    if (!main || f.name == "main") main = &f;
  const bool graph = file.code_path != path;
  json out = {{"kind", graph ? "graph" : "artifact"},
              {"inputs", json::array()},
              {"outputs", json::array()},
              {"operators", json::object()}};
  if (!main) return out;
  std::string values;
  for (const auto& [key, value] : e.metadata)
    if (key == kValueInputs) values = "\n" + value + "\n";
  for (const ValueInfo& i : main->params) {
    out["inputs"].push_back(info_json(i));
    out["inputs"].back()["read_as"] = values.find("\n" + i.name + "\n") == values.npos ? "data" : "value";
  }
  for (const ValueInfo& i : main->results) out["outputs"].push_back(info_json(i));
  std::map<std::string, int64_t> kernels;
  for (const Callee& c : e.callees)
    if (c.kind == CalleeKind::Kernel) ++kernels[c.name];
  for (const auto& [name, count] : kernels) out["operators"][name] = count;
  int64_t parameters = 0;
  for (const NDArray& c : e.constants) parameters += c.size();
  out["parameters"] = parameters;
  out["flop"] = flop_of(e);
  int64_t constant_bytes = 0, bound = 0;
  for (const NDArray& c : e.constants) constant_bytes += int64_t(c.byte_size());
  for (const auto& [key, value] : e.metadata)
    if (key == "memory.lower_bound") bound = std::strtoll(value.c_str(), nullptr, 10);
  out["arena_bytes"] = e.arena_bytes;
  out["memory"] = {{"arena_bytes", e.arena_bytes},
                   {"lower_bound_bytes", bound},
                   {"ratio", bound ? double(e.arena_bytes) / double(bound) : 1.0},
                   {"constant_bytes", constant_bytes}};
  out["needs"] = {{"triple", e.needs.triple}, {"cpu", e.needs.cpu}, {"features", e.needs.features}};
  out["file_bytes"] = file.info.file_bytes;
  out["code_bytes"] = file.info.code_bytes;
  if (graph) out["metadata"]["code"] = file.code_path;
  for (const VariantInfo& v : file.variants)
    out["variants"].push_back(
        {{"cpu", v.cpu}, {"code_bytes", v.code_bytes}, {"missing", v.missing}, {"chosen", v.chosen}});
  for (const auto& [key, value] : e.metadata)
    if (!key.starts_with("work.") && key != "memory.lower_bound" && key != kValueInputs)
      out["metadata"][key] = value;
  return out;
}

std::string shape_text(const json& value) {
  if (value.contains("container")) return value.at("container").get<std::string>();
  if (value.at("shape").is_null()) return value.at("dtype").get<std::string>() + "(?)";
  std::vector<std::string> dims;
  for (const json& d : value.at("shape"))
    dims.push_back(d.is_number()                  ? std::to_string(d.get<int64_t>())
                   : d.get<std::string>().empty() ? "?"
                                                  : d.get<std::string>());
  return fmt::format("{}({})", value.at("dtype").get<std::string>(), fmt::join(dims, ", "));
}

/// Peak of the planned tensors beside the least that any plan needs.
void print_memory(const json& m, Console& console) {
  if (m.at("arena_bytes") == 0 && m.at("lower_bound_bytes") == 0) {
    console.print(
        fmt::format("  memory      from the pool, as sizes are known at run time (--dim-max plans), "
                    "constants {} (mapped)",
                    bytes_text(m.at("constant_bytes").get<double>())));
    return;
  }
  console.print(fmt::format("  memory      peak {}, lower bound {} ({:.3f} times), constants {} (mapped)",
                            bytes_text(m.at("arena_bytes").get<double>()),
                            bytes_text(m.at("lower_bound_bytes").get<double>()), m.at("ratio").get<double>(),
                            bytes_text(m.at("constant_bytes").get<double>())));
  if (!m.contains("functions")) return;
  for (const json& f : m.at("functions"))
    console.print(
        fmt::format("              {}: {} tensors planned, {} from the pool, {} concatenations in place",
                    f.at("name").get<std::string>(), f.at("planned").get<int64_t>(),
                    f.at("pool").get<int64_t>(), f.at("joined").get<int64_t>()));
}

struct InspectOptions : MemoryRequest {
  std::vector<std::string> bound;
  bool memory = false, strategies = false, proofs = false, bytecode = false;
};

void inspect(const InspectOptions& o, Console& console) {
  const std::string& model = o.model;
  json info =
      is_compiled(model) ? inspect_artifact(model) : ask_compiler("inspect", InspectRequest{{}, model});
  if (o.memory && !info.contains("memory")) info["memory"] = ask_compiler<MemoryRequest>("memory", o);
  console.result(info);
  console.print(fmt::format("{}: {}", model, info.value("kind", "model")));
  for (const char* key : {"format", "producer", "ir_version", "opset"})
    if (info.contains(key) && !info[key].is_null())
      console.print(fmt::format("  {:<11} {}", key,
                                info[key].is_string() ? info[key].get<std::string>() : info[key].dump()));
  for (const json& v : info.at("inputs"))
    console.print(fmt::format("  input       {}: {}{}", v.at("name").get<std::string>(), shape_text(v),
                              v.value("read_as", "") == "value" ? ", read as a value" : ""));
  for (const json& v : info.at("outputs"))
    console.print(fmt::format("  output      {}: {}", v.at("name").get<std::string>(), shape_text(v)));
  console.print(fmt::format("  parameters  {}", info.at("parameters").get<int64_t>()));
  if (info.contains("flop") && info["flop"].is_number())
    console.print(fmt::format("  work        {:.3f} GFLOP", info["flop"].get<double>() / 1e9));
  if (info.contains("memory")) print_memory(info["memory"], console);
  if (info.contains("needs"))
    console.print(fmt::format("  target      {} {}", info["needs"]["triple"].get<std::string>(),
                              info["needs"]["cpu"].get<std::string>()));
  if (info.contains("variants"))
    for (const json& v : info["variants"])
      console.print(fmt::format(
          "  variant     {}: {} of code{}{}", v.at("cpu").get<std::string>(),
          bytes_text(v.at("code_bytes").get<double>()), v.at("chosen").get<bool>() ? ", taken here" : "",
          v.at("missing").empty()
              ? ""
              : fmt::format(", this machine lacks {}",
                            fmt::join(v.at("missing").get<std::vector<std::string>>(), ", "))));
  if (info.contains("metadata"))
    for (const auto& [key, value] : info["metadata"].items())
      if (value.get<std::string>().size() <= 120)
        console.print(fmt::format("  {:<11} {}", key, value.get<std::string>()));
  for (const auto& [name, count] : info.at("operators").items())
    console.print(fmt::format("  {:>5} x     {}", count.get<int64_t>(), name));
}

void bytecode(const std::string& model, Console& console) {
  if (!is_compiled(model))
    throw Error(ErrorKind::usage, "T0921", "--bytecode shows an artifact, and this is none", model,
                "tenon compile MODEL -o model.so, then tenon inspect model.so --bytecode");
  const std::string text = bytecode_text(read_artifact(model).executable);
  console.result({{"bytecode", text}});
  console.print(text);
}

/// Which implementation each call gets, and why not the others.
void strategies(const InspectOptions& options, Console& console) {
  const json info = ask_compiler("inspect", InspectRequest{options, options.model, {}, true});
  console.result(info);
  console.print(
      fmt::format("{}: implementations for {}", options.model, info.at("target").get<std::string>()));
  for (const json& c : info.at("calls")) {
    console.print(fmt::format("  {}.{} = {}: {}, priority {}: {}", c.at("function").get<std::string>(),
                              c.at("value").get<std::string>(), c.at("operator").get<std::string>(),
                              c.at("chosen").get<std::string>(), c.at("priority").get<int>(),
                              c.at("why").get<std::string>()));
    for (const json& r : c.at("rejected"))
      console.print(fmt::format("      not {}, priority {}: {}", r.at("name").get<std::string>(),
                                r.at("priority").get<int>(), r.at("reason").get<std::string>()));
  }
}

/// What is proved of each kernel; what is not, with the reason.
void proofs(const InspectOptions& options, Console& console) {
  InspectRequest request{options, options.model};
  request.proofs = true;
  const json info = ask_compiler("inspect", request);
  console.result(info);
  console.print(fmt::format("{}: proofs for {}", options.model, info.at("target").get<std::string>()));
  int64_t checked = 0;
  for (const json& k : info.at("kernels")) {
    const json& open = k.at("open");
    checked += int64_t(open.size());
    console.print(fmt::format("  {}: {} accesses, {}", k.at("name").get<std::string>(),
                              k.at("accesses").get<int64_t>(),
                              open.empty() ? "all proved" : fmt::format("{} not proved", open.size())));
    for (const json& o : open) {
      const std::string end = o.at("end"), where = o.at("where");
      console.print(fmt::format("      {}{}{}", o.at("what").get<std::string>(),
                                end == "data"      ? ": checked, as data decide it"
                                : end == "unknown" ? ": checked, as no proof was found"
                                                   : "",
                                where.empty() ? "" : " (" + where + ")"));
    }
  }
  console.print(fmt::format("  {} accesses, {} iterators and {} loops, {} not proved, in {:.1f} ms",
                            info.at("accesses").get<int64_t>(), info.at("iterators").get<int64_t>(),
                            info.at("loops").get<int64_t>(), checked, info.at("ms").get<double>()));
}

}  // namespace

void add_inspect(CLI::App& app, Console& console) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* verb = add_verb(app, console, "inspect", "inputs, outputs, operators, parameters and work",
                            "tenon inspect model.onnx --json; tenon inspect model.onnx --strategies");
  verb->add_option("MODEL", options->model, "ONNX file, artifact or module in script text")->required();
  verb->add_flag("--memory", options->memory, "also plan the memory: its peak beside the least possible");
  verb->add_flag("--strategies", options->strategies,
                 "the implementation that each call gets, and why not the others");
  verb->add_flag("--proofs", options->proofs,
                 "what is proved of the accesses and loops of each kernel, and what is checked");
  verb->add_flag("--bytecode", options->bytecode, "the program of the VM in an artifact");
  add_target_options(*verb, *options);
  add_sizes_option(*verb, "--dim", options->dims,
                   "with --memory, --strategies or --proofs: value of a symbolic dimension, repeatable");
  add_sizes_option(*verb, "--dim-max", options->dim_bounds,
                   "with --memory: the most of a symbolic dimension");
  add_bind_option(*verb, options->bound,
                  "with --memory, --strategies or --proofs: an input that is fixed, repeatable");
  add_pass_options(*verb, *options);
  add_custom_option(*verb);
  verb->callback([options, &console] {
    if (!options->memory &&
        options->require_passes.size() + options->disable_passes.size() + options->pass_options.size())
      throw Error(ErrorKind::usage, "T0921",
                  "options of passes change what --memory says, which is not given", options->model,
                  "add --memory");
    if (!options->bound.empty()) {
      ModelOptions named;
      named.model = options->model, named.bound = options->bound;
      Signature signature = is_compiled(named.model) ? Signature() : signature_of(named);
      options->bind = bound_values(named, signature);
    }
    if (options->bytecode)
      bytecode(options->model, console);
    else if (options->strategies)
      strategies(*options, console);
    else if (options->proofs)
      proofs(*options, console);
    else
      inspect(*options, console);
  });
}

}  // namespace tenon::cli
