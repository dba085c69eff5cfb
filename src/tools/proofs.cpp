// SPDX-License-Identifier: Apache-2.0
#include "tools/proofs.h"

#include <map>
#include <nlohmann/json.hpp>

namespace tenon {

std::string_view name_of(ProofKind kind) {
  constexpr std::string_view names[] = {"access", "memory", "iterator", "loop"};
  return names[size_t(kind)];
}
std::string_view name_of(ProofEnd end) {
  constexpr std::string_view names[] = {"data", "unknown", "serial"};
  return names[size_t(end)];
}

OpenCounts count_open(const ProofReport& report) {
  OpenCounts out;
  for (const OpenProof& o : report.open)
    ++(o.end == ProofEnd::guarded_data ? out.data : o.end == ProofEnd::serial ? out.serial : out.unknown);
  return out;
}

std::string proofs_json(IRModule module, CompileOptions options) {
  using json = nlohmann::ordered_json;
  std::map<std::string, json> kernels;
  std::map<std::string, int64_t> total;
  options.code = CodeForm::none;
  options.context.report = [&](std::string_view pass, const Any& found) {
    if (pass != "prove_programs" && pass != "guard_accesses") return;
    const auto report = found.as<Ref<ProofReport>>();
    json& kernel = kernels[report->function];
    if (kernel.is_null())
      kernel = {{"name", report->function},
                {"accesses", 0},
                {"iterators", 0},
                {"loops", 0},
                {"open", json::array()}};
    for (const auto& [key, n] :
         {std::pair("accesses", report->accesses), std::pair("iterators", report->iterators),
          std::pair("loops", report->loops)}) {
      kernel[key] = kernel[key].get<int64_t>() + n;
      total[key] += n;
    }
    for (const OpenProof& o : report->open)
      kernel["open"].push_back(
          {{"kind", name_of(o.kind)}, {"end", name_of(o.end)}, {"what", o.what}, {"where", o.where}});
  };
  const Compiled compiled = compile(std::move(module), std::move(options));
  double ms = 0;
  for (const PassTiming& t : compiled.timings)
    if (t.name == "prove_programs" || t.name == "guard_accesses") ms += t.ms;
  json out = {{"target", to_string(compiled.target)},
              {"accesses", total["accesses"]},
              {"iterators", total["iterators"]},
              {"loops", total["loops"]},
              {"ms", ms},
              {"kernels", json::array()}};
  for (auto& [name, kernel] : kernels) out["kernels"].push_back(std::move(kernel));
  return out.dump();
}

}  // namespace tenon
