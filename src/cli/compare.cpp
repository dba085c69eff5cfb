// SPDX-License-Identifier: Apache-2.0
// tenon compare: outputs against expected ones, the interpreter or ONNX Runtime.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstdlib>

#include "base/temporary_folder.h"
#include "cli/model.h"
#include "cli/npy.h"
#include "cli/verbs.h"

namespace tenon::cli {
namespace {

struct CompareOptions {
  ModelOptions model;
  std::string against;
  double rtol = 1e-3, atol = 1e-7, rms_tol = 0;
};

constexpr const char* onnxruntime_script = R"(import sys, json, numpy as np
try:
    import onnxruntime as ort
except ImportError:
    sys.exit(77)
model, folder = sys.argv[1:3]
o = ort.SessionOptions(); o.log_severity_level = 4
s = ort.InferenceSession(model, o, providers=["CPUExecutionProvider"])
feed = {i.name: np.load(f"{folder}/in_{k}.npy") for k, i in enumerate(s.get_inputs())}
for k, v in enumerate(s.run(None, feed)):
    np.save(f"{folder}/out_{k}.npy", np.ascontiguousarray(v))
)";

std::string shell_quoted(const std::string& text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

std::vector<NDArray> run_onnxruntime(const ModelOptions& options, const Prepared& p) {
  const TemporaryFolder temporary("the files of ONNX Runtime");
  const std::string folder = temporary.path.string();
  const std::vector<NDArray> inputs = p.tensors();
  const std::vector<ValueInfo> declared = p.bind.empty() ? p.signature.inputs : signature_of(options).inputs;
  for (size_t i = 0, free = 0; i < declared.size(); ++i) {  // a peer gets bound values as inputs
    const auto bound = p.bind.find(declared[i].name);
    write_npy(fmt::format("{}/in_{}.npy", folder, i), bound ? *bound : inputs[free++]);
  }
  write_file(folder + "/run.py", onnxruntime_script);
  const char* python = std::getenv("TENON_PYTHON");
  const std::string command = fmt::format("{} {} {} {} 2> {}/log", shell_quoted(python ? python : "python3"),
                                          shell_quoted(folder + "/run.py"), shell_quoted(options.model),
                                          shell_quoted(folder), shell_quoted(folder));
  const int status = std::system(command.c_str());
  if (status != 0) {
    const bool absent = WIFEXITED(status) && (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127);
    std::string log = read_file(folder + "/log");
    while (!log.empty() && log.back() == '\n') log.pop_back();
    if (log.size() > 400) log = "…" + log.substr(log.size() - 400);
    throw Error(
        ErrorKind::io, "T0914",
        absent ? "Python with onnxruntime is not there" : "ONNX Runtime did not run the model: " + log,
        options.model, "`make bench` sets up an environment; set TENON_PYTHON to its python");
  }
  std::vector<NDArray> out;
  auto path_of = [&](size_t i) { return fmt::format("{}/out_{}.npy", folder, i); };
  for (size_t i = 0; std::filesystem::exists(path_of(i)); ++i) out.push_back(read_npy(path_of(i)));
  return out;
}

std::vector<NDArray> run_interpreter(const ModelOptions& options, const Prepared& p) {
  InterpretRequest request;
  request.model = options.model;
  request.inputs = Array<NDArray>(p.tensors());
  request.bind = p.bind;
  request.dims = dims_of(options, p.signature, p.inputs);
  const AttrMap reply = call_compiler("interpret", request);
  return reply.at("outputs").as<Array<NDArray>>().vec();
}

json compare_one(const std::string& name, const NDArray& got, const NDArray& want, const CompareOptions& o) {
  json entry = {{"name", name}};
  if (got.shape() != want.shape() || got.dtype() != want.dtype()) {
    entry.update(
        {{"max_abs", nullptr}, {"max_rel", nullptr}, {"mismatches", std::max<int64_t>(want.size(), 1)}});
    entry["reason"] =
        fmt::format("{}({}) instead of {}({})", to_string(got.dtype()), fmt::join(got.shape(), ", "),
                    to_string(want.dtype()), fmt::join(want.shape(), ", "));
    return entry;
  }
  double max_abs = 0, max_rel = 0, squares = 0;
  int64_t mismatches = 0;
  for (int64_t i = 0; i < want.size(); ++i)
    if (const double v = want.element(i); std::isfinite(v)) squares += v * v;
  const double floor = o.rms_tol * std::sqrt(squares / double(std::max<int64_t>(want.size(), 1)));
  for (int64_t i = 0; i < want.size(); ++i) {
    const double a = got.element(i), b = want.element(i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    const double d = std::abs(a - b);
    if (!(d <= o.atol + floor + o.rtol * std::abs(b))) ++mismatches;
    if (std::isnan(d)) continue;
    max_abs = std::max(max_abs, d);
    if (b != 0) max_rel = std::max(max_rel, d / std::abs(b));
  }
  entry.update(
      {{"max_abs", max_abs}, {"max_rel", max_rel}, {"mismatches", mismatches}, {"elements", want.size()}});
  return entry;
}

int compare(const CompareOptions& o, Console& console) {
  Prepared p = prepare(o.model, console);
  Session session(p.artifact, session_options(o.model));
  const std::vector<NDArray> got = session.invoke(p.tensors());
  std::vector<NDArray> want;
  if (o.against == "onnxruntime")
    want = run_onnxruntime(o.model, p);
  else if (o.against == "interpreter")
    want = run_interpreter(o.model, p);
  else
    want = expected_outputs(o.model.data, got.size());
  if (want.size() != got.size())
    throw Error(ErrorKind::comparison, "T0922",
                fmt::format("{} outputs are expected, the model gives {}", want.size(), got.size()),
                o.model.model);
  json outputs = json::array();
  bool passed = true;
  for (size_t i = 0; i < got.size(); ++i) {
    const json entry = compare_one(p.signature.output_name(i), got[i], want[i], o);
    const bool ok = entry["mismatches"] == 0;
    passed = passed && ok;
    if (entry.contains("reason"))
      console.print(fmt::format("{}  {}: {}", ok ? "ok  " : "FAIL", entry["name"].get<std::string>(),
                                entry["reason"].get<std::string>()));
    else
      console.print(
          fmt::format("{}  {}: largest difference {:.3g} (relative {:.3g}), {} of {} elements outside",
                      ok ? "ok  " : "FAIL", entry["name"].get<std::string>(), entry["max_abs"].get<double>(),
                      entry["max_rel"].get<double>(), entry["mismatches"].get<int64_t>(), want[i].size()));
    outputs.push_back(entry);
  }
  console.result({{"passed", passed}, {"outputs", outputs}});
  return passed ? 0 : int(ErrorKind::comparison);
}

}  // namespace

void add_compare(CLI::App& app, Console& console, int& exit_code) {
  auto options = std::make_shared<CompareOptions>();
  CLI::App* verb = add_verb(app, console, "compare", "check outputs against expected ones or another runtime",
                            "tenon compare model.onnx --data test_data_set_0");
  add_run_options(*verb, options->model);
  verb->add_option("--rtol", options->rtol, "relative tolerance")
      ->check(is_a_number())
      ->capture_default_str();
  verb->add_option("--atol", options->atol, "absolute tolerance")
      ->check(is_a_number())
      ->capture_default_str();
  verb->add_option("--rms-tol", options->rms_tol,
                   "absolute tolerance as a share of the expected output's root mean square")
      ->check(is_a_number())
      ->capture_default_str();
  verb->add_option("--against", options->against, "interpreter or onnxruntime, in place of --data")
      ->check(CLI::IsMember({"interpreter", "onnxruntime"}).description(""))
      ->type_name("PEER");
  verb->callback([options, &console, &exit_code] {
    if (options->against.empty() && options->model.data.empty())
      throw Error(ErrorKind::usage, "T0915", "nothing to compare with", {},
                  "--data DIR, --against interpreter or --against onnxruntime");
    exit_code = compare(*options, console);
  });
}

}  // namespace tenon::cli
