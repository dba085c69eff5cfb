// SPDX-License-Identifier: Apache-2.0
// tenon bench: latency of a model, and where it goes.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <numeric>

#include "cli/model.h"
#include "cli/verbs.h"

namespace tenon::cli {
namespace {

struct BenchOptions {
  ModelOptions model;
  int repeat = 0, warmup = 5;
  double seconds = 2;
  bool kernels = false;
};

double percentile(const std::vector<double>& sorted, double p) {
  const double at = p * double(sorted.size() - 1);
  const size_t low = size_t(at);
  return sorted[low] + (sorted[std::min(low + 1, sorted.size() - 1)] - sorted[low]) * (at - double(low));
}

/// Most memory this process has held; getrusage would also count the process that started this one.
int64_t peak_memory_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::strtoll(line.c_str() + 6, nullptr, 10) * 1024;
  return 0;
}

void bench(const BenchOptions& o, Console& console) {
  Prepared p = prepare(o.model, console);
  Session session(p.artifact);
  if (o.model.threads > 0) session.set_threads(o.model.threads);
  using Clock = std::chrono::steady_clock;
  for (int i = 0; i < o.warmup; ++i) session.invoke(p.inputs);
  std::vector<double> runs;
  const auto begin = Clock::now();
  while (o.repeat > 0 ? int(runs.size()) < o.repeat : runs.size() < 3 || ms_since(begin) < o.seconds * 1e3) {
    const auto start = Clock::now();
    session.invoke(p.inputs);
    runs.push_back(ms_since(start));
    console.progress("timing", int64_t(runs.size()), o.repeat);
  }
  console.end_progress();
  json kernels = json::array();
  if (o.kernels) {
    constexpr int profiled_runs = 10;
    struct Profile {
      double ms = 0;
      int64_t calls = 0;
    };
    std::map<std::string, Profile, std::less<>> profile;
    session.set_profile([&](std::string_view name, double ms) {
      Profile& k = profile.try_emplace(std::string(name)).first->second;
      k.ms += ms / profiled_runs;
      ++k.calls;
    });
    for (int i = 0; i < profiled_runs; ++i) session.invoke(p.inputs);
    session.set_profile({});
    double total = 0;
    for (const auto& [name, k] : profile) total += k.ms;
    for (const auto& [name, k] : profile)
      kernels.push_back({{"name", name},
                         {"ms", k.ms},
                         {"share", total > 0 ? k.ms / total : 0},
                         {"calls", k.calls / profiled_runs}});
    std::sort(kernels.begin(), kernels.end(), [](const json& a, const json& b) { return a["ms"] > b["ms"]; });
  }
  std::sort(runs.begin(), runs.end());
  const double mean = std::accumulate(runs.begin(), runs.end(), 0.0) / double(runs.size());
  const int64_t peak = peak_memory_bytes();
  int64_t weights = 0;
  for (const NDArray& c : p.artifact.executable().constants) weights += int64_t(c.byte_size());
  const int64_t arena = p.artifact.executable().arena_bytes;
  console.print(fmt::format("{:>8} {:>10} {:>10} {:>10} {:>10} {:>10} {:>7}", "threads", "min", "median",
                            "p90", "p99", "mean", "runs"));
  console.print(fmt::format("{:>8} {:>10} {:>10} {:>10} {:>10} {:>10} {:>7}", session.threads(),
                            time_text(runs.front()), time_text(percentile(runs, 0.5)),
                            time_text(percentile(runs, 0.9)), time_text(percentile(runs, 0.99)),
                            time_text(mean), runs.size()));
  console.print(fmt::format(
      "{} {}, weights {}, intermediate tensors {}, peak memory {}",
      p.compile_ms > 0 ? "compiled in" : "loaded in", time_text(p.compile_ms > 0 ? p.compile_ms : p.load_ms),
      bytes_text(double(weights)), bytes_text(double(arena)), bytes_text(double(peak))));
  for (const json& k : kernels)
    console.print(fmt::format("{:>10} {:5.1f} %  {}", time_text(k["ms"]), 100 * k["share"].get<double>(),
                              k["name"].get<std::string>()));
  json out = {{"threads", session.threads()},
              {"latency_ms",
               {{"min", runs.front()},
                {"median", percentile(runs, 0.5)},
                {"p90", percentile(runs, 0.9)},
                {"p99", percentile(runs, 0.99)},
                {"mean", mean},
                {"runs", runs.size()}}},
              {"compile_ms", p.compile_ms},
              {"load_ms", p.load_ms},
              {"peak_rss_bytes", peak},
              {"weights_bytes", weights},
              {"arena_bytes", arena}};
  if (o.kernels) out["kernels"] = kernels;
  console.result(out);
}

}  // namespace

void add_bench(CLI::App& app, Console& console) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* verb =
      add_verb(app, console, "bench", "time a model", "tenon bench model.so --threads 2 --kernels");
  add_run_options(*verb, options->model);
  verb->add_option("--repeat", options->repeat,
                   "number of timed runs (default: as many as fit into --seconds)")
      ->check(CLI::Range(1, 100000000))
      ->type_name("R");
  verb->add_option("--seconds", options->seconds, "time for timed runs")
      ->check(CLI::Range(0.001, 86400.0))
      ->capture_default_str()
      ->type_name("S");
  verb->add_option("--warmup", options->warmup, "runs before timing begins")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str()
      ->type_name("N");
  verb->add_flag("--kernels", options->kernels, "time of every kernel");
  verb->callback([options, &console] { bench(*options, console); });
}

}  // namespace tenon::cli
