// SPDX-License-Identifier: Apache-2.0
// Traces as JSON and back, and replay: handles are mapped to those which the steps make anew, so that another
// decision of a sampler reaches the steps that use it.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "ir/text.h"
#include "schedule/trace_text.h"

namespace tenon {

using json = nlohmann::ordered_json;

namespace sched {

void bad_trace(const std::string& why) {
  throw ScheduleError(ErrorKind::model, "T0790", "the trace cannot be used: " + why, {},
                      "record it again with this version");
}
std::string handle_text(Handle h) { return fmt::format("{}{}", "blvp"[int(h.kind)], h.id); }
std::optional<Handle> read_handle(std::string_view t) {
  const size_t kind = t.empty() ? t.npos : std::string_view("blvp").find(t[0]);
  if (kind == t.npos || t.size() < 2 || t.size() > 9 || t.find_first_not_of("0123456789", 1) != t.npos)
    return {};
  return Handle{HandleKind(kind), int32_t(std::stol(std::string(t.substr(1))))};
}

}  // namespace sched

using sched::bad_trace;
using sched::handle_text;

namespace {

json value_to_json(const Any& v) {
  if (v.is_none()) return nullptr;
  if (v.tag() == kBool) return v.as<bool>();
  if (v.tag() == kInt) return v.as<int64_t>();
  if (v.tag() == kFloat) return v.as<double>();
  if (v.tag() == kDataType) return json{{"dtype", to_string(v.as<DataType>())}};
  if (auto h = to_handle(v)) return handle_text(*h);
  if (auto s = v.try_as<std::string>()) return *s;
  if (auto a = v.try_as<Array<Any>>()) {
    json list = json::array();
    for (const Any& x : *a) list.push_back(value_to_json(x));
    return list;
  }
  if (auto o = v.try_as<ObjectRef>()) return json{{"node", json::parse(to_json(*o))}};
  bad_trace("a " + v.kind_name() + " has no JSON form");
}
Any value_from_json(const json& j, ParameterType type) {
  if (j.is_null()) return {};
  if (j.is_boolean()) return Any(j.get<bool>());
  if (j.is_number_integer()) return Any(j.get<int64_t>());
  if (j.is_number()) return Any(j.get<double>());
  if (j.is_string()) {
    const std::string text = j.get<std::string>();
    if (type == ParameterType::number)
      if (auto h = sched::read_handle(text)) return to_any(*h);
    return Any(text);
  }
  if (j.is_array()) {
    Array<Any> list;
    for (const json& x : j) list.push_back(value_from_json(x, type));
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
Handle handle_from_json(const json& j) {
  const auto h = j.is_string() ? sched::read_handle(j.get<std::string>()) : std::nullopt;
  if (!h) bad_trace("a handle is written \"b3\", \"l7\", \"v2\" or \"p2\"");
  return *h;
}
/// Handles of a step in the order of the parameters; a list takes all that the others leave.
void take_inputs(TraceStep& s, const json& in) {
  const std::vector<Parameter>& parameters = s.primitive->parameters;
  size_t single = 0, at = 0;
  bool list = false;
  for (const Parameter& p : parameters)
    if (is_handle(p.type)) p.list ? void(list = true) : void(++single);
  if (in.size() < single || (in.size() > single && !list))
    bad_trace(fmt::format("{} has {} inputs", s.primitive->name, in.size()));
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!is_handle(parameters[i].type)) continue;
    if (!parameters[i].list) {
      s.args[i] = to_any(handle_from_json(in[at++]));
      continue;
    }
    Array<Any> rest;
    for (size_t n = in.size() - single; n > 0; --n) rest.push_back(to_any(handle_from_json(in[at++])));
    s.args[i] = Any(rest);
  }
}

/// Variables of the program's sizes, by name.
std::map<std::string, tir::VarRef> size_variables(const tir::PrimFunc& f) {
  std::map<std::string, tir::VarRef> out;
  for (const tir::VarRef& p : f->params)
    if (p->dtype.is_integer()) out.emplace(p->name, p);
  for (auto [p, b] : f->buffer_map)
    for (const PrimExpr& d : b->shape)
      for (const tir::VarRef& v : tir::free_vars(d)) out.emplace(v->name, v);
  return out;
}
/// An index map of a trace over the program's own sizes, which it names.
IndexMap with_sizes(const IndexMap& map, const tir::PrimFunc& f, const std::string& where) {
  tir::VarMap sizes;
  const auto known = size_variables(f);
  for (const tir::VarRef& free : tir::free_vars(map->outputs)) {
    bool input = false;
    for (const tir::VarRef& x : map->inputs) input = input || x.same_as(free);
    if (input) continue;
    auto it = known.find(free->name);
    if (it == known.end())
      bad_trace(fmt::format("{} needs a size '{}' that the program does not have", where, free->name));
    sizes[free.get()] = it->second;
  }
  return sizes.empty() ? map : make<IndexMapNode>(map->inputs, map->outputs.map([&](const PrimExpr& e) {
    return tir::substitute(e, sizes);
  }));
}

}  // namespace

std::string Trace::to_json() const {
  json list = json::array();
  for (const TraceStep& s : steps) {
    json step, in = json::array(), out = json::array(), attrs = json::object();
    step["name"] = s.primitive->name;
    for (size_t i = 0; i < s.args.size(); ++i) {
      const Parameter& p = s.primitive->parameters[i];
      if (is_handle(p.type))
        for (const Handle& h : handles_of({s.args[i]})) in.push_back(handle_text(h));
      else if (!s.args[i].is_none())
        attrs[std::string(p.name)] = value_to_json(s.args[i]);
    }
    for (const Handle& h : s.results) out.push_back(handle_text(h));
    if (!in.empty()) step["in"] = in;
    if (!out.empty()) step["out"] = out;
    if (!attrs.empty()) step["attrs"] = attrs;
    list.push_back(step);
  }
  return list.dump();
}

Trace Trace::from_json(std::string_view text) {
  const json list = json::parse(text, nullptr, false);
  if (!list.is_array()) bad_trace("it is no JSON list of steps");
  Trace trace;
  for (const json& j : list) {
    if (!j.is_object() || !j.contains("name") || !j["name"].is_string()) bad_trace("a step has no name");
    TraceStep s;
    s.primitive = find_primitive(j["name"].get<std::string>());
    if (!s.primitive) bad_trace(fmt::format("there is no primitive '{}'", j["name"].get<std::string>()));
    s.args.resize(s.primitive->parameters.size());
    take_inputs(s, j.contains("in") ? j["in"] : json::array());
    if (j.contains("out"))
      for (const json& h : j["out"]) s.results.push_back(handle_from_json(h));
    if (j.contains("attrs")) {
      if (!j["attrs"].is_object()) bad_trace("attrs is no object");
      for (auto& [key, value] : j["attrs"].items()) {
        size_t i = 0;
        while (i < s.args.size() && s.primitive->parameters[i].name != key) ++i;
        if (i == s.args.size()) bad_trace(fmt::format("{} has no '{}'", s.primitive->name, key));
        s.args[i] = value_from_json(value, s.primitive->parameters[i].type);
      }
    }
    trace.steps.push_back(std::move(s));
  }
  return trace;
}

void Schedule::run(const Trace& trace) {
  std::map<Handle, Handle> made;
  for (size_t at = 0; at < trace.steps.size(); ++at) {
    const TraceStep& t = trace.steps[at];
    const std::string where = fmt::format("step {} ({})", at + 1, t.primitive->name);
    auto mapped = [&](const Any& a) {
      const auto h = to_handle(a);
      if (!h) return a;
      auto it = made.find(*h);
      if (it == made.end())
        throw ScheduleError(ErrorKind::model, "T0791",
                            fmt::format("{} uses {} that no earlier step made", where, handle_text(*h)));
      return to_any(it->second);
    };
    std::vector<Any> args = t.args;
    for (Any& a : args) {
      if (auto list = a.try_as<Array<Any>>(); list && !list->empty())
        a = Any(list->map(mapped));
      else if (auto map = a.try_as<IndexMap>(); map && *map)
        a = Any(with_sizes(*map, function(), where));
      else
        a = mapped(a);
    }
    complete_arguments(*t.primitive, args, where);
    const std::vector<Handle> out = apply(*t.primitive, std::move(args));
    if (out.size() != t.results.size() && !t.results.empty())  // what nothing uses may stay without names
      bad_trace(fmt::format("{} made {} handles, the trace has {}: it was recorded on another program", where,
                            out.size(), t.results.size()));
    for (size_t i = 0; i < t.results.size(); ++i) made[t.results[i]] = out[i];
  }
}
Schedule Schedule::replay(tir::PrimFunc function, const Trace& trace) {
  Schedule s(std::move(function));
  s.run(trace);
  return s;
}

}  // namespace tenon
