// SPDX-License-Identifier: Apache-2.0
// What an artifact says of a result that is no tensor: names of constructors, so that it can be shown.
#include "codegen/vm/result_types.h"

#include <set>

#include "ir/find_node.h"
#include "ir/walk.h"

namespace tenon {
namespace {

using namespace graph;

/// JSON of a type as far as showing a value needs it: {"adt": name, "args": […]}, {"tuple": […]},
/// {"param": name}; null is a value that shows itself.
std::string shown_type(const Type& t, std::set<std::string>& used) {
  auto list = [&](const Array<Type>& items) {
    std::string out;
    for (const Type& i : items) out += (out.empty() ? "" : ",") + shown_type(i, used);
    return "[" + out + "]";
  };
  if (const auto* n = t ? t.as<AdtType>() : nullptr) {
    used.insert(n->name);
    return "{\"adt\":\"" + n->name + "\",\"args\":" + list(n->args) + "}";
  }
  if (const auto* n = t ? t.as<TupleType>() : nullptr) return "{\"tuple\":" + list(n->items) + "}";
  if (const auto* n = t ? t.as<TypeVar>() : nullptr) return "{\"param\":\"" + n->name + "\"}";
  return "null";
}

}  // namespace

std::vector<std::pair<std::string, std::string>> describe_result(const IRModule& module) {
  const auto main = module.find("main").cast<graph::Function>();
  if (!main) return {};
  const Expr result = result_of(main->body);
  const Type type = result->type ? result->type : main->ret_type;
  const bool data = has_node<AdtType, FuncType>(type, [](const ObjectRef& n) { return n.is<TypeNode>(); });
  if (!data) return {};
  std::set<std::string> used, done;
  std::vector<std::pair<std::string, std::string>> out{{"result", shown_type(type, used)}};
  while (done.size() < used.size()) {
    const std::set<std::string> now = used;
    for (const std::string& name : now) {
      if (!done.insert(name).second) continue;
      const AdtDef def = module.find_type(name);
      if (!def) continue;
      std::string params, constructors;
      for (const std::string& p : def->params) params += (params.empty() ? "\"" : ",\"") + p + "\"";
      for (const auto& c : def->constructors) {
        std::string items;
        for (const Type& i : c->items) items += (items.empty() ? "" : ",") + shown_type(i, used);
        constructors +=
            (constructors.empty() ? "" : ",") + ("{\"name\":\"" + c->name + "\",\"items\":[" + items + "]}");
      }
      out.emplace_back("data_type." + name,
                       "{\"params\":[" + params + "],\"constructors\":[" + constructors + "]}");
    }
  }
  return out;
}

}  // namespace tenon
