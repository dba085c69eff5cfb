// SPDX-License-Identifier: Apache-2.0
// Traces: JSON and back, script text, and replay. One table says which handles each primitive takes and
// makes.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "ir/text.h"
#include "schedule/replay.h"

namespace tenon {

using json = nlohmann::ordered_json;

namespace {

/// Inputs and outputs: b block, l loop, e either; a trailing * repeats the last.
struct Signature {
  std::string_view inputs, outputs;
  std::vector<std::string_view> attrs;
};
const std::map<std::string, Signature, std::less<>>& signatures() {
  static const std::map<std::string, Signature, std::less<>> table{
      {"get_block", {"", "b", {"name"}}},
      {"get_loops", {"b", "l*", {}}},
      {"split", {"l", "l*", {"factors"}}},
      {"fuse", {"l*", "l", {}}},
      {"reorder", {"l*", "", {}}},
      {"parallel", {"l", "", {}}},
      {"vectorize", {"l", "", {}}},
      {"unroll", {"l", "", {}}},
      {"add_unit_loop", {"b", "l", {}}},
      {"fuse_iterators", {"b", "l", {"first", "count"}}},
      {"pad_iteration", {"b", "", {"iterator", "multiple", "clamp"}}},
      {"compute_inline", {"b", "", {}}},
      {"reverse_compute_inline", {"b", "", {}}},
      {"compute_at", {"bl", "", {}}},
      {"reverse_compute_at", {"bl", "", {}}},
      {"decompose_reduction", {"bl", "b", {}}},
      {"cache_read", {"b", "b", {"read_index", "scope"}}},
      {"cache_write", {"b", "b", {"write_index", "scope"}}},
      {"reindex", {"b", "b", {"read_index"}}},
      {"rfactor", {"l", "b", {"factor_axis"}}},
      {"blockize", {"l", "b", {}}},
      {"tensorize", {"e", "b", {"tensor_intrin"}}},
      {"transform_layout", {"b", "", {"buffer_index", "buffer_index_type", "index_map", "pad_value"}}},
      {"transform_block_layout", {"b", "", {"index_map"}}},
      {"pad_einsum", {"b", "", {"padding"}}},
      {"decompose_padding", {"bl", "b", {}}},
      {"storage_align", {"b", "", {"write_index", "axis", "factor", "offset"}}},
      {"loop_partition", {"l", "l*", {"sizes"}}},
      {"merge", {"l*", "l", {}}},
      {"sample_perfect_tile", {"l", "", {"n", "max_innermost", "decision"}}},
      {"sample_categorical", {"", "", {"candidates", "probs", "decision"}}},
      {"sample_compute_location", {"b", "l*", {"decision"}}},
      {"set_scope", {"b", "", {"write_index", "scope"}}},
      {"annotate", {"e", "", {"key", "value"}}},
      {"unannotate", {"e", "", {"key"}}},
  };
  return table;
}

[[noreturn]] void bad(const std::string& why) {
  throw ScheduleError(ErrorKind::model, "T0790", "the trace cannot be used: " + why, {},
                      "record it again with this version");
}
const Signature& signature(const std::string& name) {
  auto it = signatures().find(name);
  if (it == signatures().end()) bad(fmt::format("there is no primitive '{}'", name));
  return it->second;
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
char kind_of(std::string_view pattern, size_t i) {
  if (pattern.empty()) return '?';
  if (pattern.back() == '*') return i + 1 < pattern.size() ? pattern[i] : pattern[pattern.size() - 2];
  return i < pattern.size() ? pattern[i] : '?';
}
/// Which handles of a trace are blocks: known from the step that made them.
std::map<int32_t, char> kinds_of(const Trace& t) {
  std::map<int32_t, char> kinds;
  for (const TraceStep& s : t.steps)
    for (size_t i = 0; i < s.outputs.size(); ++i) kinds[s.outputs[i]] = kind_of(signature(s.name).outputs, i);
  return kinds;
}
std::string handle_text(const std::map<int32_t, char>& kinds, int32_t id) {
  auto it = kinds.find(id);
  return fmt::format("{}{}", it == kinds.end() ? 'h' : it->second, id);
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
  bad("a " + v.kind_name() + " has no JSON form");
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
      bad("an unknown data type");
    return Any(t);
  }
  if (j.contains("node")) return Any(from_json(j["node"].dump()));
  bad("a value of unknown form");
}
std::string value_to_script(const Any& v) {
  if (auto s = v.try_as<std::string>()) return json(*s).dump();
  if (auto a = v.try_as<Array<Any>>()) {
    std::string out = "[";
    for (size_t i = 0; i < a->size(); ++i) out += (i ? ", " : "") + value_to_script((*a)[i]);
    return out + "]";
  }
  if (v.tag() == kBool) return v.as<bool>() ? "True" : "False";
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
  if (!list.is_array()) bad("it is no JSON list of steps");
  auto handle = [](const json& j) -> int32_t {
    const std::string t = j.is_string() ? j.get<std::string>() : "";
    if (t.size() < 2 || t.size() > 10 || (t[0] != 'b' && t[0] != 'l') ||
        t.find_first_not_of("0123456789", 1) != t.npos)
      bad("a handle is written \"b3\" or \"l7\"");
    return int32_t(std::stol(t.substr(1)));
  };
  Trace trace;
  for (const json& j : list) {
    if (!j.is_object() || !j.contains("name") || !j["name"].is_string()) bad("a step has no name");
    TraceStep s;
    s.name = j["name"].get<std::string>();
    signature(s.name);
    if (j.contains("in"))
      for (const json& h : j["in"]) s.inputs.emplace_back(handle(h));
    if (j.contains("out"))
      for (const json& h : j["out"]) s.outputs.push_back(handle(h));
    if (j.contains("attrs")) {
      if (!j["attrs"].is_object()) bad("attrs is no object");
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
    const Signature& sig = signature(s.name);
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
        add(s.name == "get_block" ? value_to_script(*v) : fmt::format("{}={}", k, value_to_script(*v)));
    out += line + args + ")\n";
  }
  return out;
}

namespace sched {

void replay_steps(Schedule& s, const Trace& trace) {
  std::map<int32_t, int32_t> made;
  const auto kinds = kinds_of(trace);
  for (size_t at = 0; at < trace.steps.size(); ++at) {
    const TraceStep& t = trace.steps[at];
    const Signature& sig = signature(t.name);
    std::vector<int32_t> in;
    for (const Any& a : t.inputs) {
      const int32_t id = a.try_as<int32_t>().value_or(-1);
      auto it = made.find(id);
      if (it == made.end())
        throw ScheduleError(
            ErrorKind::model, "T0791",
            fmt::format("step {} ({}) uses handle {} that no earlier step made", at + 1, t.name, id));
      in.push_back(it->second);
      const char want = kind_of(sig.inputs, in.size() - 1), is = kinds.at(id);
      if (want != 'e' && want != is)
        bad(fmt::format("input {} of step {} ({}) is a {}", in.size(), at + 1, t.name,
                        is == 'b' ? "block" : "loop"));
    }
    if (!sig.inputs.ends_with('*') && in.size() != sig.inputs.size())
      bad(fmt::format("step {} ({}) has {} inputs", at + 1, t.name, in.size()));
    auto text = [&](const char* key) {
      auto v = t.attrs.find(key);
      auto x = v ? v->try_as<std::string>() : std::nullopt;
      if (!x) bad(fmt::format("step {} ({}) has no text '{}'", at + 1, t.name, key));
      return *x;
    };
    auto number = [&](const char* key) {
      auto v = t.attrs.find(key);
      auto x = v ? v->try_as<int64_t>() : std::nullopt;
      if (!x) bad(fmt::format("step {} ({}) has no number '{}'", at + 1, t.name, key));
      return int(*x);
    };
    auto loops = [&] {
      std::vector<LoopRV> out;
      for (int32_t i : in) out.push_back({i});
      return out;
    };
    auto ids = [](const std::vector<LoopRV>& l) {
      std::vector<int32_t> out;
      for (LoopRV x : l) out.push_back(x.id);
      return out;
    };
    auto numbers = [&](const char* key) {
      auto v = t.attrs.find(key);
      auto items = v ? v->try_as<Array<Any>>() : std::nullopt;
      if (!items) bad(fmt::format("step {} ({}) has no list '{}'", at + 1, t.name, key));
      std::vector<int64_t> out;
      for (const Any& f : *items) {
        auto x = f.try_as<int64_t>();
        if (!x) bad(fmt::format("step {} ({}): an item of '{}' is no number", at + 1, t.name, key));
        out.push_back(*x);
      }
      return out;
    };
    auto index_map_of = [&] {
      auto v = t.attrs.find("index_map");
      auto x = v ? v->try_as<IndexMap>() : std::nullopt;
      if (!x || !*x) bad(fmt::format("step {} ({}) has no index map", at + 1, t.name));
      // Sizes of the program are known by name.
      tir::VarMap sizes;
      const auto known = size_variables(s.function());
      for (const tir::VarRef& free : tir::free_vars((*x)->outputs)) {
        bool input = false;
        for (const tir::VarRef& v : (*x)->inputs) input = input || v.same_as(free);
        if (input) continue;
        auto it = known.find(free->name);
        if (it == known.end())
          bad(fmt::format("step {} ({}) needs a size '{}' that the program does not have", at + 1, t.name,
                          free->name));
        sizes[free.get()] = it->second;
      }
      return sizes.empty() ? *x : make<IndexMapNode>((*x)->inputs, (*x)->outputs.map([&](const PrimExpr& e) {
        return tir::substitute(e, sizes);
      }));
    };
    using Run = std::function<std::vector<int32_t>()>;
    const BlockRV b{in.empty() ? -1 : in[0]};
    const LoopRV l{in.empty() ? -1 : in[0]}, l2{in.size() < 2 ? -1 : in[1]};
    const std::map<std::string_view, Run> runs{
        {"get_block", [&] { return std::vector<int32_t>{s.get_block(text("name")).id}; }},
        {"get_loops", [&] { return ids(s.get_loops(b)); }},
        {"split", [&] { return ids(s.split(l, numbers("factors"))); }},
        {"fuse", [&] { return std::vector<int32_t>{s.fuse(loops()).id}; }},
        {"reorder",
         [&] {
           s.reorder(loops());
           return std::vector<int32_t>();
         }},
        {"parallel",
         [&] {
           s.parallel(l);
           return std::vector<int32_t>();
         }},
        {"vectorize",
         [&] {
           s.vectorize(l);
           return std::vector<int32_t>();
         }},
        {"unroll",
         [&] {
           s.unroll(l);
           return std::vector<int32_t>();
         }},
        {"add_unit_loop", [&] { return std::vector<int32_t>{s.add_unit_loop(b).id}; }},
        {"fuse_iterators",
         [&] { return std::vector<int32_t>{s.fuse_iterators(b, number("first"), number("count")).id}; }},
        {"pad_iteration",
         [&] {
           s.pad_iteration(b, number("iterator"), number("multiple"), number("clamp") != 0);
           return std::vector<int32_t>();
         }},
        {"compute_inline",
         [&] {
           s.compute_inline(b);
           return std::vector<int32_t>();
         }},
        {"reverse_compute_inline",
         [&] {
           s.reverse_compute_inline(b);
           return std::vector<int32_t>();
         }},
        {"compute_at",
         [&] {
           s.compute_at(b, l2);
           return std::vector<int32_t>();
         }},
        {"reverse_compute_at",
         [&] {
           s.reverse_compute_at(b, l2);
           return std::vector<int32_t>();
         }},
        {"decompose_reduction", [&] { return std::vector<int32_t>{s.decompose_reduction(b, l2).id}; }},
        {"cache_read",
         [&] { return std::vector<int32_t>{s.cache_read(b, number("read_index"), text("scope")).id}; }},
        {"cache_write",
         [&] { return std::vector<int32_t>{s.cache_write(b, number("write_index"), text("scope")).id}; }},
        {"reindex", [&] { return std::vector<int32_t>{s.reindex(b, number("read_index")).id}; }},
        {"rfactor", [&] { return std::vector<int32_t>{s.rfactor(l, number("factor_axis")).id}; }},
        {"blockize", [&] { return std::vector<int32_t>{s.blockize(l).id}; }},
        {"tensorize", [&] { return std::vector<int32_t>{s.tensorize(b, text("tensor_intrin")).id}; }},
        {"transform_layout",
         [&] {
           PrimExpr pad;
           if (auto v = t.attrs.find("pad_value"); v && !v->is_none()) {
             auto e = v->try_as<PrimExpr>();
             if (!e) bad("a padding value is no expression");
             pad = *e;
           }
           s.transform_layout(b, number("buffer_index"), text("buffer_index_type"), index_map_of(), pad);
           return std::vector<int32_t>();
         }},
        {"transform_block_layout",
         [&] {
           s.transform_block_layout(b, index_map_of());
           return std::vector<int32_t>();
         }},
        {"pad_einsum",
         [&] {
           s.pad_einsum(b, numbers("padding"));
           return std::vector<int32_t>();
         }},
        {"decompose_padding", [&] { return std::vector<int32_t>{s.decompose_padding(b, l2).id}; }},
        {"storage_align",
         [&] {
           s.storage_align(b, number("write_index"), number("axis"), number("factor"), number("offset"));
           return std::vector<int32_t>();
         }},
        {"loop_partition", [&] { return ids(s.loop_partition(l, numbers("sizes"))); }},
        {"merge", [&] { return std::vector<int32_t>{s.merge(loops()).id}; }},
        {"sample_perfect_tile",
         [&] {
           s.sample_perfect_tile(l, number("n"), number("max_innermost"), numbers("decision"));
           return std::vector<int32_t>();
         }},
        {"sample_categorical",
         [&] {
           auto v = t.attrs.find("probs");
           auto items = v ? v->try_as<Array<Any>>() : std::nullopt;
           if (!items) bad("sample_categorical has no list 'probs'");
           std::vector<double> probs;
           for (const Any& f : *items) {
             auto x = f.try_as<double>();
             if (!x) bad("a probability is no number");
             probs.push_back(*x);
           }
           s.sample_categorical(numbers("candidates"), probs, number("decision"));
           return std::vector<int32_t>();
         }},
        {"sample_compute_location",
         [&] {
           const LoopRV at_loop = s.sample_compute_location(b, number("decision"));
           return at_loop.id < 0 ? std::vector<int32_t>() : std::vector<int32_t>{at_loop.id};
         }},
        {"set_scope",
         [&] {
           s.set_scope(b, number("write_index"), text("scope"));
           return std::vector<int32_t>();
         }},
        {"annotate",
         [&] {
           Any value = t.attrs.get_or("value", Any());
           if (kinds.at(t.inputs[0].as<int32_t>()) == 'b')
             s.annotate(b, text("key"), value);
           else
             s.annotate(l, text("key"), value);
           return std::vector<int32_t>();
         }},
        {"unannotate",
         [&] {
           if (kinds.at(t.inputs[0].as<int32_t>()) == 'b')
             s.unannotate(b, text("key"));
           else
             s.unannotate(l, text("key"));
           return std::vector<int32_t>();
         }},
    };
    std::vector<int32_t> out = runs.at(t.name)();
    if (out.size() != t.outputs.size())
      bad(fmt::format("step {} ({}) made {} handles, the trace has {}: it was recorded on another program",
                      at + 1, t.name, out.size(), t.outputs.size()));
    for (size_t i = 0; i < out.size(); ++i) made[t.outputs[i]] = out[i];
  }
}

}  // namespace sched
}  // namespace tenon
