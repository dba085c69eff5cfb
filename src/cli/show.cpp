// SPDX-License-Identifier: Apache-2.0
#include "cli/show.h"

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "cli/values.h"
#include "runtime/string_tensor.h"

namespace tenon::cli {
namespace {

constexpr int kDeepest = 100;       // levels of a value that are shown
constexpr int64_t kElements = 256;  // of a tensor that are shown one by one
constexpr size_t kItems = 10000;    // of a list

/// Goes through a value beside its type.
class Shower {
 public:
  explicit Shower(const Artifact& artifact) : artifact_(artifact) {}

  json result(const Any& value) {
    const std::string* type = artifact_.metadata("result");
    return show(value, type ? json::parse(*type) : json(), 0);
  }

 private:
  using Types = std::map<std::string, json>;

  /// A type with the parameters of its data type replaced.
  static json applied(const json& type, const Types& params) {
    if (type.is_object() && type.contains("param")) {
      auto it = params.find(type["param"].get<std::string>());
      return it == params.end() ? json() : it->second;
    }
    json out = type;
    for (const char* key : {"args", "tuple"})
      if (out.is_object() && out.contains(key))
        for (json& item : out[key]) item = applied(item, params);
    return out;
  }

  json definition(const json& type, Types& params) const {
    const std::string* text = artifact_.metadata("data_type." + type["adt"].get<std::string>());
    if (!text) return {};
    json out = json::parse(*text);
    for (size_t i = 0; i < out["params"].size() && i < type["args"].size(); ++i)
      params[out["params"][i].get<std::string>()] = type["args"][i];
    return out;
  }
  /// The constructor of an item and the rest, when the type has it and one of nothing.
  static int64_t list_tag(const json& type, const json& def) {
    const json& all = def["constructors"];
    if (all.size() != 2) return -1;
    for (int64_t tag = 0; tag < 2; ++tag) {
      const json &items = all[size_t(tag)]["items"], &other = all[size_t(1 - tag)]["items"];
      if (items.size() == 2 && other.empty() && items[1].is_object() && items[1].contains("adt") &&
          items[1]["adt"] == type["adt"])
        return tag;
    }
    return -1;
  }

  json show(const Any& v, const json& type, int depth) {
    if (depth > kDeepest) return "…";
    if (v.is_none()) return nullptr;
    if (auto a = v.try_as<NDArray>(); a && a->get()) return tensor(*a);
    if (auto s = v.try_as<StringTensor>(); s && *s) return strings(**s);
    if (auto shape = v.try_as<Shape>(); shape && *shape) return json((*shape)->dims);
    if (auto n = v.try_as<int64_t>()) return *n;
    if (auto x = v.try_as<double>()) return *x;
    if (auto tuple = v.try_as<Ref<ArrayObj>>(); tuple && *tuple) {
      json out = json::array();
      const bool typed = type.is_object() && type.contains("tuple");
      for (size_t i = 0; i < (*tuple)->items.size(); ++i)
        out.push_back(show((*tuple)->items[i], typed && i < type["tuple"].size() ? type["tuple"][i] : json(),
                           depth + 1));
      return {{"tuple", out}};
    }
    if (auto data = v.try_as<Data>(); data && *data) return constructed(*data, type, depth);
    return {{"kind", v.kind_name()}};
  }

  json constructed(Data data, const json& type, int depth) {
    Types params;
    const json def = type.is_object() && type.contains("adt") ? definition(type, params) : json();
    const json none;
    auto items_of = [&](const DataObj& d) -> const json& {
      const bool known = def.is_object() && d.tag >= 0 && size_t(d.tag) < def["constructors"].size();
      return known ? def["constructors"][size_t(d.tag)]["items"] : none;
    };
    auto item = [&](const DataObj& d, size_t i) {
      const json& types = items_of(d);
      return show(d.items[i], types.is_array() && i < types.size() ? applied(types[i], params) : json(),
                  depth + 1);
    };
    if (const int64_t more = def.is_object() ? list_tag(type, def) : -1; more >= 0) {
      json out = json::array();
      while (data && data->tag == more && data->items.size() == 2) {
        if (out.size() == kItems) {
          out.push_back("…");
          break;
        }
        out.push_back(item(*data.get(), 0));
        data = data->items[1].try_as<Data>().value_or(Data());
      }
      return {{"list", type["adt"]}, {"items", out}};
    }
    json out = json::array();
    for (size_t i = 0; i < data->items.size(); ++i) out.push_back(item(*data.get(), i));
    const bool known = def.is_object() && data->tag >= 0 && size_t(data->tag) < def["constructors"].size();
    return {{"constructor", known ? def["constructors"][size_t(data->tag)]["name"] : json(data->tag)},
            {"items", out}};
  }

  static json number(const NDArray& a, int64_t i) {
    if (a.dtype().is_bool()) return a.element_int(i) != 0;
    if (!a.dtype().is_float()) return a.element_int(i);
    const double v = a.element(i);
    if (std::isfinite(v)) return v;
    return std::isnan(v) ? "nan" : v > 0 ? "inf" : "-inf";
  }
  static json strings(const StringTensorObj& s) {
    if (int64_t(s.items.size()) > kElements) return {{"strings", s.items.size()}};
    size_t next = 0;
    const std::function<json(size_t)> list = [&](size_t axis) -> json {
      if (axis == s.shape.size()) return next < s.items.size() ? json(s.items[next++]) : json();
      json out = json::array();
      for (int64_t i = 0; i < s.shape[axis]; ++i) out.push_back(list(axis + 1));
      return out;
    };
    return list(0);
  }
  static json tensor(const NDArray& a) {
    if (a.size() > kElements) return {{"tensor", type_text(a)}};
    if (a.shape().empty()) return number(a, 0);
    int64_t next = 0;
    return nested(a, 0, next);
  }
  static json nested(const NDArray& a, size_t axis, int64_t& next) {
    if (axis == a.shape().size()) return number(a, next++);
    json out = json::array();
    for (int64_t i = 0; i < a.shape()[axis]; ++i) out.push_back(nested(a, axis + 1, next));
    return out;
  }

  const Artifact& artifact_;
};

std::string text_of(const json& v) {
  auto list = [](const json& items) {
    std::string out;
    for (const json& i : items) out += (out.empty() ? "" : ", ") + text_of(i);
    return out;
  };
  if (v.is_null()) return "none";
  if (v.is_array()) return "[" + list(v) + "]";
  if (v.is_number_float()) return fmt::format("{:.6g}", v.get<double>());
  if (v.is_string()) return v.get<std::string>();
  if (!v.is_object()) return v.dump();
  if (v.contains("list")) return v["list"].get<std::string>() + "[" + list(v["items"]) + "]";
  if (v.contains("tuple")) return "(" + list(v["tuple"]) + ")";
  if (v.contains("constructor"))
    return (v["constructor"].is_string() ? v["constructor"].get<std::string>()
                                         : "#" + v["constructor"].dump()) +
           "(" + list(v["items"]) + ")";
  if (v.contains("tensor")) return v["tensor"].get<std::string>();
  return v.value("kind", "?");
}

/// Constructors as keys, lists as lists.
json plain(const json& v) {
  auto list = [](const json& items) {
    json out = json::array();
    for (const json& i : items) out.push_back(plain(i));
    return out;
  };
  if (v.is_array()) return list(v);
  if (!v.is_object()) return v;
  if (v.contains("list")) return list(v["items"]);
  if (v.contains("tuple")) return list(v["tuple"]);
  if (v.contains("constructor")) return {{text_of(v["constructor"]), list(v["items"])}};
  return v;
}

}  // namespace

bool has_data_result(const Artifact& artifact) { return artifact.metadata("result") != nullptr; }
std::string show_value(const Artifact& artifact, const Any& value) {
  return text_of(Shower(artifact).result(value));
}
json value_json(const Artifact& artifact, const Any& value) { return plain(Shower(artifact).result(value)); }

}  // namespace tenon::cli
