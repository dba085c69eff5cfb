// SPDX-License-Identifier: Apache-2.0
// tenon run: compile if needed, run once, show or write the outputs.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <optional>

#include "base/function_ref.h"
#include "cli/model.h"
#include "cli/npy.h"
#include "cli/profile.h"
#include "cli/show.h"
#include "cli/values.h"
#include "cli/verbs.h"

namespace tenon::cli {
namespace {

/// What a person wants to see of a tensor: range, mean, largest place.
json summary(const NDArray& a) {
  double low = INFINITY, high = -INFINITY, sum = 0;
  int64_t nans = 0, at = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    const double v = a.element(i);
    if (std::isnan(v)) {
      ++nans;
      continue;
    }
    if (v > high) {
      high = v;
      at = i;
    }
    low = std::min(low, v);
    sum += v;
  }
  if (a.size() == nans) return {{"elements", a.size()}, {"nan", nans}};
  return {{"elements", a.size()}, {"min", low}, {"max", high}, {"mean", sum / double(a.size() - nans)},
          {"argmax", at},         {"nan", nans}};
}

struct RunOptions {
  ModelOptions model;
  std::string out, trace;
  bool profile = false;
};

/// Listens to the run that follows, when somebody wants to know. First touches of memory are not the
/// instructions': `first` runs before.
std::optional<RunProfile> profile_of(const RunOptions& o, Session& session, FunctionRef<void()> first) {
  if (!o.profile && o.trace.empty()) return std::nullopt;
  first();
  return std::optional<RunProfile>(std::in_place, session);
}

/// What every run ends with: `result` is what it gave.
void tell_end(const RunOptions& o, Console& console, const Prepared& p, json result, double run_ms,
              const std::optional<RunProfile>& profile) {
  console.print(fmt::format("{}, ran in {}", p.origin_text(), time_text(run_ms)));
  result.update(
      {{"compile_ms", p.compile_ms}, {"cached", p.cached}, {"load_ms", p.load_ms}, {"run_ms", run_ms}});
  if (o.profile) result["profile"] = profile->show(console);
  if (!o.trace.empty()) write_file(o.trace, profile->chrome_trace().dump() + "\n");
  console.result(result);
}

/// Inputs or results that are no tensors: results are shown whole, there is nothing that .npy can hold.
void run_for_value(const RunOptions& o, Console& console, const Prepared& p, Session& session) {
  if (!o.out.empty())
    throw Error(ErrorKind::usage, "T0930", "the result is no tensor, so that no .npy can hold it", {},
                "leave --output away; --json prints the result");
  const std::vector<Any>& arguments = p.inputs;
  const auto profile = profile_of(o, session, [&] { session.call("main", Arguments(arguments)); });
  const auto start = std::chrono::steady_clock::now();
  const Any value = session.call("main", Arguments(arguments));
  const double run_ms = ms_since(start);
  if (has_data_result(p.artifact)) {
    console.print(fmt::format("{}: {}", p.signature.output_name(0), show_value(p.artifact, value)));
    return tell_end(o, console, p, {{"result", value_json(p.artifact, value)}}, run_ms, profile);
  }
  // A model of one output gives it, one of several a tuple of them.
  const size_t count = p.signature.outputs.size();
  const auto all = count == 1 ? std::nullopt : value.try_as<Ref<ArrayObj>>();
  json list = json::array();
  for (size_t i = 0; i < (all && *all ? (*all)->items.size() : 1); ++i) {
    const Any& output = all && *all ? (*all)->items[i] : value;
    console.print(fmt::format("{}: {}", p.signature.output_name(i), show_value(p.artifact, output)));
    list.push_back({{"name", p.signature.output_name(i)}, {"value", value_json(p.artifact, output)}});
  }
  tell_end(o, console, p, {{"outputs", list}}, run_ms, profile);
}

void run(const RunOptions& o, Console& console) {
  Prepared p = prepare(o.model, console);
  Session session(p.artifact, session_options(o.model));
  if (has_data_result(p.artifact) || !p.is_plain()) return run_for_value(o, console, p, session);
  const std::vector<NDArray> inputs = p.tensors();
  const auto profile = profile_of(o, session, [&] { session.invoke(inputs); });
  const auto start = std::chrono::steady_clock::now();
  const std::vector<NDArray> outputs = session.invoke(inputs);
  const double run_ms = ms_since(start);
  json list = json::array(), files = json::array();
  if (!o.out.empty()) {
    std::error_code failure;
    std::filesystem::create_directories(o.out, failure);
    if (failure)
      throw Error(ErrorKind::io, "T3003", "the folder cannot be made: " + failure.message(), o.out);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const NDArray& a = outputs[i];
    json entry = {
        {"name", p.signature.output_name(i)}, {"dtype", to_string(a.dtype())}, {"shape", a.shape()}};
    if (!o.out.empty()) {
      const std::string file = fmt::format("output_{}.npy", i);
      write_npy(o.out + "/" + file, a);
      entry["file"] = file;
      files.push_back(entry);
    }
    const json facts = summary(a);
    std::string line = fmt::format("{}: {}", p.signature.output_name(i), type_text(a));
    if (facts.contains("min"))
      line += fmt::format("  min {:.6g}  max {:.6g} at {}  mean {:.6g}", facts["min"].get<double>(),
                          facts["max"].get<double>(), facts["argmax"].get<int64_t>(),
                          facts["mean"].get<double>());
    if (facts["nan"].get<int64_t>() > 0) line += fmt::format("  NaN {}", facts["nan"].get<int64_t>());
    console.print(line);
    entry["summary"] = facts;
    list.push_back(entry);
  }
  if (!o.out.empty()) write_file(o.out + "/outputs.json", files.dump(2) + "\n");
  tell_end(o, console, p, {{"outputs", list}}, run_ms, profile);
}

}  // namespace

void add_run(CLI::App& app, Console& console) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* verb = add_verb(app, console, "run", "compile if needed, run once, show each output",
                            "tenon run model.onnx -i x=@photo.npy -o out/");
  add_run_options(*verb, options->model);
  verb->add_option("-o,--output", options->out, "write output_0.npy … and outputs.json")->type_name("DIR");
  verb->add_flag("--profile", options->profile, "also show the time of each instruction (second run)");
  verb->add_option(
          "--trace", options->trace,
          "write when each instruction, thread and byte of a second run was at work, for ui.perfetto.dev")
      ->type_name("FILE.json");
  verb->callback([options, &console] { run(*options, console); });
}

}  // namespace tenon::cli
