// SPDX-License-Identifier: Apache-2.0
// tenon opt: apply passes to a module in text (or a model) and print it, and what its programs became.
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "cli/compiler.h"
#include "cli/model.h"
#include "cli/verbs.h"
#include "runtime/libraries/measure.h"

namespace tenon::cli {
namespace {

struct OptOptions : OptRequest {
  bool list = false;
};

/// "12 fma, 3 load", what there is none of left out.
std::string mix_text(const json& m) {
  std::string out;
  for (const char* kind : {"fma", "arithmetic", "load", "store", "spill", "reload", "move"})
    if (const auto n = m[kind].get<int64_t>())
      out += fmt::format("{}{} {}", out.empty() ? "" : ", ", n, kind);
  return out;
}

/// One line on a machine loop: what it is made of.
std::string machine_text(const json& m) {
  std::string out = fmt::format("{} instructions", m["instructions"].get<int64_t>());
  if (const std::string mix = mix_text(m); !mix.empty()) out += ": " + mix;
  if (const auto bits = m["vector_bits"].get<int64_t>()) out += fmt::format("; {}-bit vectors", bits);
  if (const auto n = m["iterations"].get<int64_t>(); n > 1) out += fmt::format("; {} iterations a round", n);
  return out;
}

/// How fast a nest of loops is, beside what one core of this machine could.
std::string speed_text(json& nest, const MachineLimits& machine) {
  const double ms = nest["ms"];
  const MachineWork work{nest["flop"], nest["bytes"], nest["dot_bytes"], nest["dot_bf16"]};
  if (ms <= 0) return {};
  std::string out = time_text(ms);
  if (work.flop <= 0 && work.bytes <= 0) return out;
  const bool arithmetic = machine.arithmetic_bound(work, 1);
  const double share = machine.least_ms(work, 1) / ms;
  nest["gflops"] = work.flop / ms * 1e-6;
  nest["gbytes"] = work.bytes / ms * 1e-6;
  nest["share_of_limit"] = share;
  nest["limit"] = arithmetic ? "arithmetic" : "memory";
  return out + fmt::format(", {:.1f} GFLOP/s, {:.1f} GB/s, {:.0f} % of what {} allows on one core",
                           work.flop / ms * 1e-6, work.bytes / ms * 1e-6, 100 * share,
                           arithmetic ? "arithmetic" : "memory");
}

std::string given_up_text(const std::string& asker, int proofs, int steps) {
  return fmt::format("{}: {} given up after {} steps", asker,
                     proofs == 1 ? "a proof" : fmt::format("{} proofs", proofs), steps);
}

/// Which rule scheduled each block of a program, and why those before it did not. Steps of a rule that gave
/// up stand below it, and proofs that were given up; steps that went well are not worth a line.
void print_rules(const json& report, Console& console) {
  console.print(fmt::format("\n# ---- rules of {}", report["function"].get<std::string>()));
  std::string block;
  std::vector<std::string> steps;
  for (const json& a : report["attempts"]) {
    const std::string step = a["step"], code = a["code"];
    const bool applied = a["outcome"] == "applied";
    const std::string why = a["why"].get<std::string>() + (code.empty() ? "" : " (" + code + ")");
    const std::string tile = a["tile"].empty() ? "" : " " + a["tile"].dump();
    if (!step.empty() && (!applied || !tile.empty()))
      steps.push_back(fmt::format("#       {}{}: {}", step, tile, why));
    std::map<std::string, int> given_up;
    for (const std::string asker : a["given_up"]) ++given_up[asker];
    for (const auto& [asker, times] : given_up)
      steps.push_back("#       " + given_up_text(asker, times, report["proof_steps"].get<int>()));
    if (!step.empty()) continue;
    if (a["block"] != block) console.print("# " + (block = a["block"]));
    console.print(fmt::format("#   {}: {}", a["rule"].get<std::string>(), why));
    for (const std::string& line : steps) console.print(line);
    steps.clear();
  }
}

size_t indent_of(const std::string& line) { return std::min(line.find_first_not_of(' '), line.size()); }

/// The program, with what became of each loop behind its first line, and the assembly of the innermost ones
/// behind their last. All of it as comments, so that the output stays a module.
void print_kernel(json& kernel, const MachineLimits* machine, Console& console) {
  console.print(fmt::format("\n# ---- {}", kernel["name"].get<std::string>()));
  if (const auto note = kernel["note"].get<std::string>(); !note.empty()) console.print("# " + note);
  std::vector<std::string> lines;
  const std::string text = kernel["text"];
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  const std::vector<size_t> starts = kernel["loop_lines"];
  std::vector<std::vector<std::string>> before(lines.size() + 1), behind(lines.size() + 1);
  for (size_t k = 0; k < starts.size(); ++k) {
    const size_t line = starts[k];
    size_t last = line;
    while (last + 1 < lines.size() && indent_of(lines[last + 1]) > indent_of(lines[line])) ++last;
    const std::string pad(indent_of(lines[line]) + 4, ' ');
    for (json& nest : kernel["nests"])
      if (nest["loop"].get<size_t>() == k && machine)
        if (const std::string speed = speed_text(nest, *machine); !speed.empty())
          before[line].push_back(std::string(indent_of(lines[line]), ' ') + "-- " + speed);
    bool left = kernel["machine_loops"].empty();
    for (const json& m : kernel["machine_loops"]) left = left || m["loop"].get<int64_t>() == int64_t(k);
    if (!left)
      before[line].push_back(std::string(indent_of(lines[line]), ' ') +
                             "-- unrolled, or made one with what is around it");
    for (const json& m : kernel["machine_loops"]) {
      if (m["loop"].get<int64_t>() != int64_t(k)) continue;
      if (!m["innermost"].get<bool>()) {
        before[line].push_back(std::string(indent_of(lines[line]), ' ') +
                               "-- around the loops inside: " + machine_text(m));
        continue;
      }
      behind[last].push_back(pad + "-- " + machine_text(m));
      for (const std::string a : m["assembly"])
        behind[last].push_back(pad + (a.starts_with(".L") ? "| " : "|     ") + a);
    }
  }
  for (size_t k = 0; k < lines.size(); ++k) {
    for (const std::string& note : before[k]) console.print("# " + note);
    console.print("# " + lines[k]);
    for (const std::string& note : behind[k]) console.print("# " + note);
  }
}

/// Name, subject, the least -O that runs it, what it does, and its options with their defaults.
void print_pass(const json& p, Console& console) {
  const std::string level = p.contains("level") ? fmt::format("-O{}", p.at("level").get<int>()) : "request";
  console.print(fmt::format("{:<34} {:<15} {:<8} {}", p.at("name").get<std::string>(),
                            p.at("kind").get<std::string>(), level, p.at("doc").get<std::string>()));
  for (const json& o : p.at("options"))
    console.print(fmt::format("    {}={}  ({}) {}", o.at("name").get<std::string>(),
                              o.at("default").get<std::string>(), o.at("type").get<std::string>(),
                              o.at("doc").get<std::string>()));
}

void opt(OptOptions& o, Console& console) {
  if (o.list) {
    const json passes = ask_compiler("passes");
    console.result(passes);
    for (const json& p : passes.at("passes")) print_pass(p, console);
    return;
  }
  if (o.model.empty())
    throw Error(ErrorKind::usage, "T0916", "no module is given", {},
                "tenon opt FILE --pass NAME, or tenon opt --list");
  o.explain = o.explain || o.measure;
  const bool is_text = o.emit != "png";
  if (!is_text && o.output.empty())
    throw Error(ErrorKind::usage, "T0921", "the png cannot go to standard output", {}, "name a file with -o");
  const AttrMap reply = call_compiler<OptRequest>("opt", o);
  const std::string text = reply.at("text").as<std::string>();
  if (o.output.empty()) console.print(text);
  json out = {{"passes", json::parse(reply.at("passes").as<std::string>())}};
  if (is_text) out["text"] = text;
  if (o.time)
    for (const json& pass : out["passes"])
      console.print(
          fmt::format("# {:>10.3f} ms  {}", pass.at("ms").get<double>(), pass.at("name").get<std::string>()));
  if (const auto fusion = reply.find("fusion"); fusion && !fusion->as<std::string>().empty()) {
    out["fusion"] = fusion->as<std::string>();
    std::istringstream lines(fusion->as<std::string>());
    console.print("");
    for (std::string line; std::getline(lines, line);) console.print("# " + line);
  }
  if (const auto sentences = reply.find("sentences")) {
    out["sentences"] = json::parse(sentences->as<std::string>());
    for (const json& line : out["sentences"])
      console.print(
          fmt::format("# {}: {}", line["pass"].get<std::string>(), line["what"].get<std::string>()));
  }
  if (const auto given_up = reply.find("given_up")) {
    out["given_up"] = json::parse(given_up->as<std::string>());
    for (const json& g : out["given_up"])
      console.print("# " + given_up_text(g["pass"], g["proofs"].get<int>(), g["steps"].get<int>()) +
                    ": what they would have shown is checked, or done the slower way");
  }
  if (const auto proofs = reply.find("proofs")) {
    out["proofs"] = json::parse(proofs->as<std::string>());
    for (const json& p : out["proofs"])
      console.print(fmt::format(
          "# {} of {}: {} accesses, {} iterators and {} loops, of which {} are checked because of data, {} "
          "because "
          "no proof was found, and {} run in order",
          p["pass"].get<std::string>(), p["function"].get<std::string>(), p["accesses"].get<int64_t>(),
          p["iterators"].get<int64_t>(), p["loops"].get<int64_t>(), p["guarded_data"].get<int64_t>(),
          p["guarded_unknown"].get<int64_t>(), p["serial"].get<int64_t>()));
  }
  if (const auto schedule = reply.find("schedule")) {
    out["schedule"] = json::parse(schedule->as<std::string>());
    for (const json& report : out["schedule"]) print_rules(report, console);
  }
  if (const auto kernels = reply.find("kernels")) {
    out["kernels"] = json::parse(kernels->as<std::string>());
    MachineLimits machine;
    if (o.measure) machine = measure_machine();
    for (json& k : out["kernels"]) print_kernel(k, o.measure ? &machine : nullptr, console);
  }
  console.result(out);
}

}  // namespace

void add_opt(CLI::App& app, Console& console) {
  auto options = std::make_shared<OptOptions>();
  CLI::App* verb = add_verb(app, console, "opt", "apply passes to a module in text and print it",
                            "echo '…' | tenon opt - --pass fuse_ops --pass lower_to_call_tir");
  verb->add_option("FILE", options->model, "module in script text, or any model (-: standard input)");
  add_list_option(*verb, "--pass", options->passes, "a pass, repeatable, applied in this order", "NAME");
  add_pass_option(*verb, options->pass_options);
  verb->add_option("--schedule", options->schedule,
                   "then the steps of a trace (JSON), or of the traces that the programs of a module carry")
      ->type_name("FILE");
  verb->add_option("--function", options->function,
                   "the program that --schedule, --explain or a picture is for")
      ->type_name("NAME");
  verb->add_option("--emit", options->emit, "tir, dot, svg or png")
      ->check(CLI::IsMember({"tir", "dot", "svg", "png"}))
      ->capture_default_str()
      ->type_name("KIND");
  add_target_options(*verb, *options);
  add_sizes_option(*verb, "--dim", options->dims, "value of a symbolic dimension, repeatable");
  verb->add_option("-o,--output", options->output, "write the text here, its large constants beside it")
      ->type_name("FILE");
  verb->add_flag("--list", options->list, "name all passes");
  verb->add_flag("--verify", options->verify, "execute the module before and after every pass");
  verb->add_flag("--explain", options->explain,
                 "say why operators were fused and which rules scheduled each block, and print loops beside "
                 "their assembly");
  verb->add_flag("--measure", options->measure, "with it run each program, and say how fast its loops are");
  verb->add_option("--seconds", options->seconds, "time for the runs of each program that is measured")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  verb->add_flag("--time-passes", options->time, "print the processor time of every pass");
  verb->callback([options, &console] { opt(*options, console); });
}

}  // namespace tenon::cli
