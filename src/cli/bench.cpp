// SPDX-License-Identifier: Apache-2.0
// tenon bench: latency of a model, and where it goes.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "cli/model.h"
#include "cli/verbs.h"
#include "runtime/libraries/measure.h"

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

/// Time of all calls of one kernel in one run of the model.
struct Sum {
  double ms = 0;
  int64_t calls = 0;
};
using KernelProfile = std::map<std::string, Sum, std::less<>>;

/// The shortest time of each call of a kernel over several runs, so that what else the machine does is left
/// out, as it is in the shortest time of whole runs.
class ShortestCalls {
 public:
  void begin_run() {
    for (auto& [name, calls] : calls_) calls.next = 0;
  }
  void add(std::string_view name, double ms) {
    auto it = calls_.find(name);
    if (it == calls_.end()) it = calls_.emplace(std::string(name), Calls{}).first;
    Calls& calls = it->second;
    if (calls.next == calls.ms.size()) calls.ms.push_back(ms);
    double& shortest = calls.ms[calls.next++];
    shortest = std::min(shortest, ms);
  }
  KernelProfile profile() const {
    KernelProfile out;
    for (const auto& [name, calls] : calls_)
      out[name] = {std::accumulate(calls.ms.begin(), calls.ms.end(), 0.0), int64_t(calls.ms.size())};
    return out;
  }

 private:
  struct Calls {
    std::vector<double> ms;  // by place in a run
    size_t next = 0;
  };
  std::map<std::string, Calls, std::less<>> calls_;
};

KernelProfile profile_kernels(Session& session, const std::vector<NDArray>& inputs, double seconds) {
  constexpr int least_runs = 10;
  ShortestCalls calls;
  session.set_profile([&](std::string_view name, double ms) { calls.add(name, ms); });
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < least_runs || ms_since(begin) < seconds * 1e3; ++i) {
    calls.begin_run();
    session.invoke(inputs);
  }
  session.set_profile({});
  return calls.profile();
}

/// Kernels by time, beside the least time that this machine needs for their arithmetic and bytes. Both are
/// null where sizes are known only when the model runs, and for what the runtime itself does.
json kernel_table(const KernelProfile& profile, const Artifact& artifact, int threads) {
  const MachineLimits machine = measure_machine();
  double total = 0;
  for (const auto& [name, k] : profile) total += k.ms;
  json kernels = json::array();
  for (const auto& [name, k] : profile) {
    json row = {{"name", name},
                {"ms", k.ms},
                {"share", total > 0 ? k.ms / total : 0},
                {"calls", k.calls},
                {"flop", nullptr},
                {"bytes", nullptr},
                {"gflops", nullptr},
                {"share_of_peak", nullptr},
                {"share_of_limit", nullptr},
                {"limit", nullptr}};
    MachineWork w;
    const std::string* work = artifact.metadata("work." + name);
    if (work && k.ms > 0 &&
        std::sscanf(work->c_str(), "%lf %lf %lf %lf", &w.flop, &w.bytes, &w.dot_bytes, &w.dot_bf16) == 4) {
      const double calls = double(k.calls);
      row["flop"] = w.flop * calls;
      row["bytes"] = w.bytes * calls;
      row["gflops"] = w.flop * calls / k.ms * 1e-6;
      row["share_of_peak"] = machine.arithmetic_ms(w, threads) * calls / k.ms;
      row["share_of_limit"] = machine.least_ms(w, threads) * calls / k.ms;
      row["limit"] = machine.arithmetic_bound(w, threads) ? "arithmetic" : "memory";
    }
    kernels.push_back(std::move(row));
  }
  std::sort(kernels.begin(), kernels.end(), [](const json& a, const json& b) { return a["ms"] > b["ms"]; });
  return kernels;
}

void print_kernels(const json& kernels, Console& console) {
  if (kernels.empty()) return;
  console.print(fmt::format("{:>10} {:>7} {:>5} {:>9} {:>7} {:>9} {:>7}  {}", "time", "share", "calls",
                            "GFLOP/s", "of peak", "GB/s", "limit", "kernel"));
  for (const json& k : kernels) {
    std::string gflops, peak, gbytes, limit;
    if (!k["flop"].is_null()) {
      gflops = fmt::format("{:.1f}", k["gflops"].get<double>());
      peak = fmt::format("{:.1f} %", 100 * k["share_of_peak"].get<double>());
      gbytes = fmt::format("{:.1f}", k["bytes"].get<double>() / k["ms"].get<double>() * 1e-6);
      limit = fmt::format("{:.0f} % {}", 100 * k["share_of_limit"].get<double>(),
                          k["limit"] == "arithmetic" ? "a" : "m");
    }
    console.print(fmt::format("{:>10} {:>5.1f} % {:>5} {:>9} {:>7} {:>9} {:>7}  {}", time_text(k["ms"]),
                              100 * k["share"].get<double>(), k["calls"].get<int64_t>(), gflops, peak, gbytes,
                              limit, k["name"].get<std::string>()));
  }
  console.print("limit: share of the best possible speed, set by arithmetic (a) or memory (m)");
}

void bench(const BenchOptions& o, Console& console) {
  Prepared p = prepare(o.model, console);
  Session session(p.artifact, session_options(o.model));
  const std::vector<NDArray> inputs = p.tensors();
  using Clock = std::chrono::steady_clock;
  for (int i = 0; i < o.warmup; ++i) session.invoke(inputs);
  std::vector<double> runs;
  const auto begin = Clock::now();
  while (o.repeat > 0 ? int(runs.size()) < o.repeat : runs.size() < 3 || ms_since(begin) < o.seconds * 1e3) {
    const auto start = Clock::now();
    session.invoke(inputs);
    runs.push_back(ms_since(start));
    console.progress("timing", int64_t(runs.size()), o.repeat);
  }
  console.end_progress();
  const int64_t peak = peak_memory_bytes();  // before the machine is measured, which takes memory too
  json kernels = json::array();
  if (o.kernels) {
    const KernelProfile profile = profile_kernels(session, inputs, o.repeat > 0 ? 0 : o.seconds);
    kernels = kernel_table(profile, p.artifact, session.threads());
  }
  std::sort(runs.begin(), runs.end());
  const double mean = std::accumulate(runs.begin(), runs.end(), 0.0) / double(runs.size());
  int64_t weights = 0;
  for (const NDArray& c : p.artifact.executable().constants) weights += int64_t(c.byte_size());
  const int64_t arena = p.artifact.executable().arena_bytes;
  console.print(fmt::format("{:>8} {:>10} {:>10} {:>10} {:>10} {:>10} {:>7}", "threads", "min", "median",
                            "p90", "p99", "mean", "runs"));
  console.print(fmt::format("{:>8} {:>10} {:>10} {:>10} {:>10} {:>10} {:>7}", session.threads(),
                            time_text(runs.front()), time_text(percentile(runs, 0.5)),
                            time_text(percentile(runs, 0.9)), time_text(percentile(runs, 0.99)),
                            time_text(mean), runs.size()));
  console.print(fmt::format("{}, weights {}, intermediate tensors {}, peak memory {}", p.origin_text(),
                            bytes_text(double(weights)), bytes_text(double(arena)),
                            bytes_text(double(peak))));
  print_kernels(kernels, console);
  json out = {{"threads", session.threads()},
              {"latency_ms",
               {{"min", runs.front()},
                {"median", percentile(runs, 0.5)},
                {"p90", percentile(runs, 0.9)},
                {"p99", percentile(runs, 0.99)},
                {"mean", mean},
                {"runs", runs.size()}}},
              {"compile_ms", p.compile_ms},
              {"cached", p.cached},
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
      ->check(CLI::Range(1, 1000000000).description(""))
      ->type_name("R");
  verb->add_option("--seconds", options->seconds, "time for timed runs")
      ->check(CLI::Range(0.001, 86400.0).description(""))
      ->check(is_a_number())
      ->capture_default_str()
      ->type_name("S");
  verb->add_option("--warmup", options->warmup, "runs before timing begins")
      ->check(CLI::Range(0, 1000000).description(""))
      ->capture_default_str()
      ->type_name("N");
  verb->add_flag("--kernels", options->kernels,
                 "shortest time of every kernel, beside what this machine could reach");
  verb->callback([options, &console] { bench(*options, console); });
}

}  // namespace tenon::cli
