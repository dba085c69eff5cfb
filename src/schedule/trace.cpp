// SPDX-License-Identifier: Apache-2.0
// Traces: JSON and back, script text. The table of instructions says which handles each takes and makes.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "ir/text.h"
#include "schedule/replay.h"
#include "schedule/trace_impl.h"

namespace tenon {

using json = nlohmann::ordered_json;

namespace sched {

void bad_trace(const std::string& why) {
  throw ScheduleError(ErrorKind::model, "T0790", "the trace cannot be used: " + why, {},
                      "record it again with this version");
}
const PrimitiveInfo& signature(const std::string& name) {
  const PrimitiveInfo* found = find_instruction(name);
  if (!found) bad_trace(fmt::format("there is no primitive '{}'", name));
  return *found;
}
char kind_of(std::string_view pattern, size_t i) {
  if (pattern.empty()) return '?';
  if (pattern.back() == '*') return i + 1 < pattern.size() ? pattern[i] : pattern[pattern.size() - 2];
  return i < pattern.size() ? pattern[i] : '?';
}
std::map<int32_t, char> kinds_of(const Trace& t) {
  std::map<int32_t, char> kinds;
  for (const TraceStep& s : t.steps)
    for (size_t i = 0; i < s.outputs.size(); ++i) kinds[s.outputs[i]] = kind_of(signature(s.name).outputs, i);
  return kinds;
}
std::string handle_text(char kind, int32_t id) {
  if (kind == 'l' && id >= IntRV::first) kind = 'p';  // a sampled place
  return fmt::format("{}{}", kind, kind == 'v' || kind == 'p' ? id - IntRV::first : id);
}
int32_t handle_id(std::string_view t) {
  if (t.size() < 2 || t.size() > 9 || (t[0] != 'b' && t[0] != 'l' && t[0] != 'v' && t[0] != 'p') ||
      t.find_first_not_of("0123456789", 1) != t.npos)
    return -1;
  return int32_t(std::stol(std::string(t.substr(1)))) + (t[0] == 'v' || t[0] == 'p' ? IntRV::first : 0);
}

}  // namespace sched

using sched::bad_trace;
using sched::kinds_of;
using sched::signature;

namespace {

std::string handle_text(const std::map<int32_t, char>& kinds, int32_t id) {
  auto it = kinds.find(id);
  return sched::handle_text(it == kinds.end() ? 'h' : it->second, id);
}
json value_to_json(const Any& v) {
  if (v.is_none()) return nullptr;
  if (v.tag() == kBool) return v.as<bool>();
  if (v.tag() == kInt) return v.as<int64_t>();
  if (v.tag() == kFloat) return v.as<double>();
  if (v.tag() == kDataType) return json{{"dtype", to_string(v.as<DataType>())}};
  if (auto s = v.try_as<std::string>()) return *s;
  if (auto a = v.try_as<Array<Any>>()) {
    json list = json::array();
    for (const Any& x : *a) list.push_back(value_to_json(x));
    return list;
  }
  if (auto o = v.try_as<ObjectRef>()) return json{{"node", json::parse(to_json(*o))}};
  bad_trace("a " + v.kind_name() + " has no JSON form");
}
Any value_from_json(const json& j) {
  if (j.is_null()) return {};
  if (j.is_boolean()) return Any(j.get<bool>());
  if (j.is_number_integer()) return Any(j.get<int64_t>());
  if (j.is_number()) return Any(j.get<double>());
  if (j.is_string()) return Any(j.get<std::string>());
  if (j.is_array()) {
    Array<Any> list;
    for (const json& x : j) list.push_back(value_from_json(x));
    return Any(list);
  }
  if (j.contains("dtype")) {
    DataType t;
    if (!j["dtype"].is_string() || !parse_dtype(j["dtype"].get<std::string>(), &t))
      bad_trace("an unknown data type");
    return Any(t);
  }
  if (j.contains("node")) return Any(from_json(j["node"].dump()));
  bad_trace("a value of unknown form");
}
/// Factors: numbers, or what a sampler made ("v3").
std::string factors_to_script(const Any& v) {
  std::string out;
  for (const Any& x : v.as<Array<Any>>()) {
    auto text = x.try_as<std::string>();
    out += (out.empty() ? "" : ", ") + (text ? *text : fmt::format("{}", x.as<int64_t>()));
  }
  return "[" + out + "]";
}
std::string value_to_script(const Any& v) {
  if (auto s = v.try_as<std::string>()) return json(*s).dump();
  if (auto a = v.try_as<Array<Any>>()) {
    std::string out = "[";
    for (size_t i = 0; i < a->size(); ++i) out += (i ? ", " : "") + value_to_script((*a)[i]);
    return out + "]";
  }
  if (v.tag() == kBool) return v.as<bool>() ? "True" : "False";
  if (v.tag() == kDataType) return json(to_string(v.as<DataType>())).dump();
  if (auto map = v.try_as<IndexMap>(); map && *map) return tenon::to_text(*map);
  if (auto e = v.try_as<PrimExpr>(); e && *e) return print(*e);
  return value_to_json(v).dump();
}

}  // namespace

std::string Trace::to_json() const {
  const auto kinds = kinds_of(*this);
  json list = json::array();
  for (const TraceStep& s : steps) {
    json step;
    step["name"] = s.name;
    json in = json::array(), out = json::array();
    for (const Any& a : s.inputs)
      in.push_back(a.tag() == kInt ? json(handle_text(kinds, a.as<int32_t>())) : value_to_json(a));
    for (int32_t o : s.outputs) out.push_back(handle_text(kinds, o));
    if (!in.empty()) step["in"] = in;
    if (!out.empty()) step["out"] = out;
    json attrs = json::object();
    for (auto [k, v] : s.attrs) attrs[k] = value_to_json(v);
    if (!attrs.empty()) step["attrs"] = attrs;
    list.push_back(step);
  }
  return list.dump();
}

Trace Trace::from_json(std::string_view text) {
  json list = json::parse(text, nullptr, false);
  if (!list.is_array()) bad_trace("it is no JSON list of steps");
  auto handle = [](const json& j) -> int32_t {
    const int32_t id = j.is_string() ? sched::handle_id(j.get<std::string>()) : -1;
    if (id < 0) bad_trace("a handle is written \"b3\", \"l7\", \"v2\" or \"p2\"");
    return id;
  };
  Trace trace;
  for (const json& j : list) {
    if (!j.is_object() || !j.contains("name") || !j["name"].is_string()) bad_trace("a step has no name");
    TraceStep s;
    s.name = j["name"].get<std::string>();
    signature(s.name);
    if (j.contains("in"))
      for (const json& h : j["in"]) s.inputs.emplace_back(handle(h));
    if (j.contains("out"))
      for (const json& h : j["out"]) s.outputs.push_back(handle(h));
    if (j.contains("attrs")) {
      if (!j["attrs"].is_object()) bad_trace("attrs is no object");
      for (auto& [k, v] : j["attrs"].items()) s.attrs.set(k, value_from_json(v));
    }
    trace.steps.push_back(std::move(s));
  }
  return trace;
}

std::string Trace::to_script() const {
  const auto kinds = kinds_of(*this);
  std::string out;
  for (const TraceStep& s : steps) {
    const PrimitiveInfo& sig = signature(s.name);
    std::string line;
    for (size_t i = 0; i < s.outputs.size(); ++i) line += (i ? ", " : "") + handle_text(kinds, s.outputs[i]);
    if (!line.empty())
      line += (s.outputs.size() == 1 && sig.outputs.ends_with('*') ? "," : "") + std::string(" = ");
    line += "sch." + s.name + "(";
    std::string args;
    auto add = [&](const std::string& a) { args += (args.empty() ? "" : ", ") + a; };
    if (s.name == "fuse" || s.name == "reorder" || s.name == "merge") {
      for (const Any& a : s.inputs) add(handle_text(kinds, a.as<int32_t>()));
      args = "[" + args + "]";
    } else {
      for (const Any& a : s.inputs) add(handle_text(kinds, a.as<int32_t>()));
    }
    for (std::string_view k : sig.attrs)
      if (auto v = s.attrs.find(std::string(k)))
        add(s.name == "get_block" ? value_to_script(*v)
            : k == "factors"      ? fmt::format("{}={}", k, factors_to_script(*v))
                                  : fmt::format("{}={}", k, value_to_script(*v)));
    out += line + args + ")\n";
  }
  return out;
}

}  // namespace tenon
