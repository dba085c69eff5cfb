// SPDX-License-Identifier: Apache-2.0
#include "tools/replay_schedules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include "ir/attr_keys.h"
#include "pipeline/compile.h"
#include "schedule/schedule.h"

namespace tenon {

IRModule replay_schedules(IRModule module, const std::string& path, const std::string& function) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(ErrorKind::io, "T3001", "cannot read " + path + ": " + std::strerror(errno));
  std::ostringstream bytes;
  bytes << in.rdbuf();
  const std::string text = bytes.str();
  std::map<std::string, std::string> traces;  // by function
  std::vector<std::string> programs;
  for (const auto& [name, f] : module.functions())
    if (f.cast<tir::PrimFuncNode>()) programs.push_back(name);
  if (!function.empty() && std::find(programs.begin(), programs.end(), function) == programs.end())
    throw Error(ErrorKind::usage, "T0923", fmt::format("the module has no tensor program '{}'", function), {},
                programs.empty() ? "lower_to_call_tir makes them" : "its first is " + programs.front());
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin != text.npos && text[begin] == '[') {
    if (function.empty() && programs.size() != 1)
      throw Error(ErrorKind::usage, "T0923",
                  fmt::format("the module has {} tensor programs, and a trace is for one", programs.size()),
                  {}, "--function NAME names it");
    traces[function.empty() ? programs.front() : function] = text;
  } else {
    // A module whose programs carry their traces.
    const IRModule carrier = load_model(path);
    for (const auto& [name, f] : carrier.functions())
      if (auto p = f.cast<tir::PrimFuncNode>())
        if (auto trace = p->attrs.find(kTraceAttr); trace && (function.empty() || name == function))
          if (auto t = trace->try_as<std::string>()) traces[name] = *t;
    std::erase_if(traces, [&](const auto& entry) {
      return std::find(programs.begin(), programs.end(), entry.first) == programs.end();
    });
    if (traces.empty())
      throw Error(ErrorKind::usage, "T0923", path + " has no trace for a tensor program of the module", {},
                  "give a trace (JSON), or a module behind the pass default_schedule");
  }
  return module.map_prim([&](const std::string& name, const tir::PrimFunc& f) -> ObjectRef {
    auto it = traces.find(name);
    if (it == traces.end()) return {};
    const Schedule s = Schedule::replay(f, Trace::from_json(it->second));
    tir::PrimFunc out = s.function();
    out.edit()->attrs.set(kTraceAttr, Any(s.trace().to_json()));
    return out;
  });
}

}  // namespace tenon
