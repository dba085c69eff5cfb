// SPDX-License-Identifier: Apache-2.0
// tenon doctor: what this machine offers, what it reaches, what is installed, what is missing.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>

#include "cli/compiler.h"
#include "cli/verbs.h"
#include "runtime/libraries/measure.h"

namespace tenon::cli {
namespace {

/// First line of a command's output; empty when it fails.
std::string ask(const std::string& command) {
  FILE* pipe = popen((command + " 2>/dev/null").c_str(), "r");
  if (!pipe) return {};
  char line[256] = {};
  const bool any = std::fgets(line, sizeof line, pipe) != nullptr;
  const int status = pclose(pipe);
  std::string out = any && status == 0 ? line : "";
  while (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

void doctor(Console& console) {
  console.progress("measuring", 0, 0);
  const MachineLimits m = measure_machine();
  console.end_progress();
  json cpu, problems = json::array();
  try {
    cpu = ask_compiler("target", TargetRequest());
  } catch (const Error& e) {
    problems.push_back(e.message);
  }
  const char* python = std::getenv("TENON_PYTHON");
  const std::string py = python ? python : "python3";
  json peers = json::object();
  for (const char* name : {"onnxruntime", "openvino", "numpy"})
    peers[name] =
        ask(fmt::format("'{}' -c 'import importlib.metadata as m; print(m.version(\"{}\"))'", py, name));
  json tools = json::object();
  for (const char* name : {"clang-22", "gcc", "dot"}) tools[name] = ask(fmt::format("command -v {}", name));
  const json limits = {
      {"threads", m.threads},
      {"vector_bits", m.vector_bits},
      {"fma_gflops_one_thread", m.fma_gflops_one},
      {"fma_gflops_all_threads", m.fma_gflops_all},
      {"dot_bytes_gops_one_thread", m.dot_bytes_gops_one},
      {"dot_bf16_gops_one_thread", m.dot_bf16_gops_one},
      {"memory_read_gbytes_one_thread", m.read_gbytes_one},
      {"memory_read_gbytes_all_threads", m.read_gbytes_all},
      {"l2_read_gbytes_one_thread", m.l2_gbytes_one},
      {"l3_read_gbytes_one_thread", m.l3_gbytes_one},
      {"l3_read_gbytes_all_threads", m.l3_gbytes_all},
      {"clock_ghz", m.clock_ghz},
      {"fma_vectors_per_cycle", m.fma_gflops_one / (m.clock_ghz * double(m.vector_bits) / 32 * 2)}};
  console.result({{"cpu", cpu},
                  {"limits", limits},
                  {"devices", json::array({{{"kind", "cpu"}, {"threads", m.threads}}})},
                  {"peers", peers},
                  {"tools", tools},
                  {"problems", problems}});
  if (!cpu.is_null()) {
    console.print(fmt::format("target      {} {}, {}-bit vectors, {} vector registers, {} cores",
                              cpu.value("kind", ""), cpu.value("cpu", ""), cpu.value("vector_bits", 0),
                              cpu.value("vector_registers", 0), cpu.value("cores", 0)));
    console.print(fmt::format("caches      L1 {}, L2 {}, L3 {}", bytes_text(cpu.value("l1d_bytes", 0.0)),
                              bytes_text(cpu.value("l2_bytes", 0.0)),
                              bytes_text(cpu.value("l3_bytes", 0.0))));
    console.print(
        fmt::format("features    {}", fmt::join(cpu.value("features", std::vector<std::string>()), " ")));
  }
  console.print(
      fmt::format("arithmetic  {:.0f} GFLOP/s f32 on one thread, {:.0f} on {} ({}-bit fused multiply-add)",
                  m.fma_gflops_one, m.fma_gflops_all, m.threads, m.vector_bits));
  console.print(fmt::format("            {:.2f} vectors a cycle at {:.2f} GHz",
                            m.fma_gflops_one / (m.clock_ghz * double(m.vector_bits) / 32 * 2), m.clock_ghz));
  console.print(
      fmt::format("memory      {:.1f} GB/s read by one thread, {:.1f} by {}; {:.0f} GB/s from the L3 cache, "
                  "{:.0f} from L2",
                  m.read_gbytes_one, m.read_gbytes_all, m.threads, m.l3_gbytes_one, m.l2_gbytes_one));
  for (const auto& [name, version] : peers.items())
    console.print(fmt::format("{:<11} {}", name,
                              version.get<std::string>().empty()
                                  ? "not found by " + py + " (only bench and compare use it)"
                                  : version.get<std::string>()));
  for (const auto& [name, path] : tools.items())
    console.print(fmt::format("{:<11} {}", name,
                              path.get<std::string>().empty() ? "not found" : path.get<std::string>()));
  for (const json& p : problems) console.print("problem     " + p.get<std::string>());
}

}  // namespace

void add_doctor(CLI::App& app, Console& console) {
  CLI::App* verb =
      add_verb(app, console, "doctor", "what this machine offers and what is missing", "tenon doctor --json");
  verb->callback([&console] { doctor(console); });
}

}  // namespace tenon::cli
