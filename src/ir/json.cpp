// SPDX-License-Identifier: Apache-2.0
// JSON of any node from its field list: {"root": i, "nodes": [{"@": "tir.Add", "a": {"n": 3}, …}, …]},
// children before parents, so that shared nodes stay shared and no depth of nesting matters.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/base64.h"
#include "ir/make_node.h"
#include "ir/text.h"

namespace tenon {
namespace {

using Json = nlohmann::json;

bool is_inline(const Object* o) {
  return is_type_index<StringObj>(o->type_index) || is_type_index<ArrayObj>(o->type_index) ||
         is_type_index<MapObj>(o->type_index);
}

/// Objects that a value refers to by number, through strings, arrays and maps.
void referred(const Any& value, std::vector<const Object*>& out) {
  std::vector<Any> stack{value};
  while (!stack.empty()) {
    const Any a = std::move(stack.back());
    stack.pop_back();
    if (!a.is_object()) continue;
    const Object* o = a.object();
    if (!is_inline(o))
      out.push_back(o);
    else if (is_type_index<ArrayObj>(o->type_index)) {
      const auto& items = static_cast<const ArrayObj*>(o)->items;
      stack.insert(stack.end(), items.rbegin(), items.rend());
    } else if (is_type_index<MapObj>(o->type_index)) {
      for (const auto& [k, v] : static_cast<const MapObj*>(o)->items) {
        stack.push_back(v);
        stack.push_back(k);
      }
    }
  }
}
/// A tensor expression's tensor is written as the declaration that stands for it in text.
const TypeInfo* written_type(const Object* o) {
  return is_type_index<tir::DataProducerNode>(o->type_index) ? type_info<tir::DataProducerNode>()
                                                             : type_of(o);
}
/// An object without text form (a run-time object) is written as null.
bool writable(const Object* o) {
  return is_type_index<NDArrayObj>(o->type_index) || is_type_index<graph::Op>(o->type_index) ||
         !type_of(o)->fields.empty() || type_of(o)->create;
}

class Writer {
 public:
  std::string run(const ObjectRef& root) {
    struct Frame {
      const Object* node;
      bool entered;
    };
    std::vector<Frame> stack;
    std::vector<const Object*> below;
    referred(Any(root), below);
    for (size_t i = below.size(); i-- > 0;) stack.push_back({below[i], false});
    while (!stack.empty()) {
      Frame f = stack.back();
      stack.pop_back();
      if (numbers_.count(f.node) || !writable(f.node)) continue;
      if (f.entered) {
        node(f.node);
        continue;
      }
      stack.push_back({f.node, true});
      if (is_type_index<graph::Op>(f.node->type_index)) continue;
      below.clear();
      for (const FieldInfo& field : written_type(f.node)->fields) referred(field.get(f.node), below);
      for (size_t i = below.size(); i-- > 0;)
        if (!numbers_.count(below[i])) stack.push_back({below[i], false});
    }
    std::string text = "{\"root\": ";
    value(Any(root), text);
    return text + ", \"nodes\": [\n" + nodes_ + "\n]}\n";
  }

 private:
  static void quote(std::string_view s, std::string& out) {
    out += Json(std::string(s)).dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  void node(const Object* o) {
    std::string text = nodes_.empty() ? "{\"@\": " : ",\n{\"@\": ";
    quote(written_type(o)->key, text);
    if (is_type_index<NDArrayObj>(o->type_index)) {
      const NDArray a(Ref<NDArrayObj>(static_cast<const NDArrayObj*>(o)));
      text += ", \"dtype\": ";
      quote(to_string(a.dtype()), text);
      text += fmt::format(", \"shape\": {}", Json(a.shape()).dump()) + ", \"data\": \"" +
              base64(a.as_ptr<uint8_t>(), a.byte_size()) + '"';
    } else if (is_type_index<graph::Op>(o->type_index)) {
      text += ", \"name\": ";
      quote(static_cast<const graph::Op*>(o)->name, text);
    } else {
      for (const FieldInfo& f : written_type(o)->fields) {
        text += ", ";
        quote(f.name, text);
        text += ": ";
        value(f.get(o), text);
      }
    }
    nodes_ += text + '}';
    numbers_.emplace(o, numbers_.size());
  }
  void value(const Any& a, std::string& out) {
    switch (a.tag()) {
      case kNone:
      case kPointer:
        out += "null";
        return;
      case kBool:
        out += a.as<bool>() ? "true" : "false";
        return;
      case kInt:
        out += std::to_string(a.as<int64_t>());
        return;
      case kFloat: {
        const double v = a.as<double>();
        uint64_t bits;
        std::memcpy(&bits, &v, sizeof bits);
        if (std::isfinite(v)) {
          const std::string text = fmt::format("{}", v);
          out += text.find_first_of(".e") == text.npos ? text + ".0" : text;
        } else {
          out += fmt::format("{{\"bits\": \"{:016x}\"}}", bits);
        }
        return;
      }
      case kDataType:
        out += "{\"dtype\": \"" + to_string(a.as<DataType>()) + "\"}";
        return;
      default:
        break;
    }
    const Object* o = a.object();
    if (is_type_index<StringObj>(o->type_index)) return quote(static_cast<const StringObj*>(o)->value, out);
    if (is_type_index<ArrayObj>(o->type_index)) {
      out += '[';
      bool first = true;
      for (const Any& x : static_cast<const ArrayObj*>(o)->items) {
        if (!first) out += ", ";
        first = false;
        value(x, out);
      }
      out += ']';
      return;
    }
    if (is_type_index<MapObj>(o->type_index)) {
      out += "{\"map\": [";
      bool first = true;
      for (const auto& [k, v] : static_cast<const MapObj*>(o)->items) {
        if (!first) out += ", ";
        first = false;
        out += '[';
        value(k, out);
        out += ", ";
        value(v, out);
        out += ']';
      }
      out += "]}";
      return;
    }
    auto it = numbers_.find(o);
    out += it == numbers_.end() ? "null" : fmt::format("{{\"n\": {}}}", it->second);
  }

  std::unordered_map<const Object*, size_t> numbers_;
  std::string nodes_;
};

[[noreturn]] void bad(const std::string& message) {
  fail("T0291", "this JSON is no program: " + message, "JSON");
}

class Reader {
 public:
  ObjectRef run(std::string_view text) {
    const Json doc = Json::parse(text.begin(), text.end(), nullptr, false);
    if (doc.is_discarded()) bad("it is not well formed");
    if (!doc.is_object() || !doc.contains("nodes") || !doc["nodes"].is_array() || !doc.contains("root"))
      bad("`root` and `nodes` are missing");
    for (const Json& j : doc["nodes"]) nodes_.push_back(node(j));
    const Any root = value(doc["root"]);
    auto o = root.try_as<ObjectRef>();
    if (!o) bad("the root is no node");
    return *o;
  }

 private:
  ObjectRef node(const Json& j) {
    const std::string where = fmt::format("node {}", nodes_.size());
    if (!j.is_object() || !j.contains("@") || !j["@"].is_string()) bad(where + " has no type");
    const std::string key = j["@"];
    const TypeInfo* info = type_table::find(std::string_view(key));
    if (!info) bad(fmt::format("{} has the unknown type `{}`", where, key));
    auto string_of = [&](const char* name) -> std::string {
      if (!j.contains(name) || !j[name].is_string()) bad(fmt::format("{} lacks `{}`", where, name));
      return j[name];
    };
    if (info == type_info<graph::Op>()) {
      Ref<graph::Op> op = graph::find_op(string_of("name"));
      if (!op) bad(fmt::format("there is no operator `{}`", string_of("name")));
      return op;
    }
    if (info == type_info<NDArrayObj>()) {
      DataType dtype;
      std::vector<uint8_t> bytes;
      std::vector<int64_t> shape;
      if (!parse_dtype(string_of("dtype"), &dtype) || !unbase64(string_of("data"), &bytes) ||
          !j.contains("shape") || !j["shape"].is_array())
        bad(where + " is no array");
      for (const Json& d : j["shape"]) {
        if (!d.is_number_integer() || d.get<int64_t>() < 0) bad(where + " has a bad shape");
        shape.push_back(d);
      }
      if (storage_bytes(element_count(shape), dtype) != bytes.size())
        bad(where + ": the bytes do not fill the shape");
      return NDArray::from_bytes(shape, dtype, bytes.data(), bytes.size());
    }
    return make_node(
        *info, {},
        [&](const std::string& field) -> std::optional<Any> {
          if (!j.contains(field)) return std::nullopt;
          return value(j[field]);
        },
        [&](const std::string& problem) { bad(fmt::format("{} ({}): {}", where, key, problem)); });
  }
  Any value(const Json& j, int depth = 0) {
    if (depth > 200) bad("lists are nested too deeply");
    switch (j.type()) {
      case Json::value_t::null:
        return {};
      case Json::value_t::boolean:
        return j.get<bool>();
      case Json::value_t::number_integer:
      case Json::value_t::number_unsigned:
        return j.get<int64_t>();
      case Json::value_t::number_float:
        return j.get<double>();
      case Json::value_t::string:
        return Any(j.get<std::string>());
      case Json::value_t::array: {
        auto list = make<ArrayObj>();
        for (const Json& x : j) list.edit()->items.push_back(value(x, depth + 1));
        return list;
      }
      case Json::value_t::object:
        break;
      default:
        bad("a value has an unknown kind");
    }
    if (j.contains("n") && j["n"].is_number_unsigned()) {
      const auto i = j["n"].get<uint64_t>();
      if (i >= nodes_.size()) bad(fmt::format("node {} is used before it is given", i));
      return nodes_[i];
    }
    if (j.contains("dtype") && j["dtype"].is_string()) {
      DataType t;
      if (!parse_dtype(j["dtype"].get<std::string>(), &t)) bad("a data type is unknown");
      return t;
    }
    if (j.contains("bits") && j["bits"].is_string()) {
      const uint64_t bits = std::strtoull(j["bits"].get<std::string>().c_str(), nullptr, 16);
      double v;
      std::memcpy(&v, &bits, sizeof v);
      return v;
    }
    if (j.contains("map") && j["map"].is_array()) {
      auto map = make<MapObj>();
      for (const Json& pair : j["map"]) {
        if (!pair.is_array() || pair.size() != 2) bad("a map is a list of pairs");
        Any k = value(pair[0], depth + 1);
        if (k.is_none()) bad("a map's key is missing");
        map_detail::set(map.edit(), std::move(k), value(pair[1], depth + 1));
      }
      return map;
    }
    bad("a value has an unknown form");
  }

  std::vector<ObjectRef> nodes_;
};

}  // namespace

std::string to_json(const ObjectRef& node) { return Writer().run(node); }
ObjectRef from_json(std::string_view text) { return Reader().run(text); }

}  // namespace tenon
