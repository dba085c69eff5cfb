// SPDX-License-Identifier: Apache-2.0
#include "pipeline/dimensions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <set>

#include "ir/symbols.h"

namespace tenon {
namespace {

/// As the importer makes one of a file's name: what is no letter, digit or _ becomes one _.
std::string identifier(const std::string& name) {
  std::string out;
  for (const char c : name)
    if (c == '_' || std::isalnum(static_cast<unsigned char>(c)))
      out += c;
    else if (!out.empty() && out.back() != '_')
      out += '_';
  return out;
}

}  // namespace

std::map<std::string, int64_t> sizes_of(const Map<std::string, int64_t>& named) {
  std::map<std::string, int64_t> out;
  for (const auto& [name, size] : named) out[name] = size;
  return out;
}

std::map<std::string, int64_t> known_bounds(const IRModule& module,
                                            const std::map<std::string, int64_t>& bounds,
                                            const std::map<std::string, int64_t>& dims) {
  std::map<std::string, int64_t> out;
  if (bounds.empty()) return out;
  std::set<std::string> known;
  if (const auto main = module.find("main").cast<graph::Function>()) {
    std::vector<tir::VarRef> symbols;
    for (const graph::VarRef& p : main->params) graph::symbols_of(p->declared, symbols);
    for (const tir::VarRef& s : symbols) known.insert(s->name);
  }
  for (const auto& [given, most] : bounds) {
    // A file's names need not be identifiers; the importer makes some of them.
    const std::string name = known.count(given) ? given : identifier(given);
    if (dims.count(given) || dims.count(name)) continue;  // it has a value
    if (most < 0 || !known.count(name))
      fail("T0903",
           most < 0 ? fmt::format("the bound of dimension '{}' is {}", given, most)
                    : fmt::format("no input has a symbolic dimension named '{}'", given),
           {}, known.empty() ? "" : fmt::format("the model has: {}", fmt::join(known, ", ")),
           ErrorKind::usage);
    out[name] = most;
  }
  return out;
}

IRModule specialize_dims(IRModule module, const std::map<std::string, int64_t>& dims,
                         bool missing_become_one) {
  using namespace graph;
  std::set<std::string> known;
  IRModule out = module.map_graph([&](const std::string&, const Ref<Function>& f) -> ObjectRef {
    std::vector<tir::VarRef> symbols;
    for (const VarRef& p : f->params) symbols_of(p->declared, symbols);
    tir::VarMap map;
    for (const tir::VarRef& s : symbols) {
      known.insert(s->name);
      auto it = dims.find(s->name);
      if (it != dims.end())
        map[s.get()] = PrimExpr::int_imm(it->second, s->dtype);
      else if (missing_become_one)
        map[s.get()] = PrimExpr::int_imm(1, s->dtype);
    }
    return map.empty() ? ObjectRef() : ObjectRef(with_sizes(f, map));
  });
  for (auto& [name, value] : dims) {
    if (value < 0)
      fail("T0903", fmt::format("dimension '{}' is {}", name, value), {}, "dimensions are not negative",
           ErrorKind::usage);
    if (known.count(name)) continue;
    std::string list;
    for (const std::string& k : known) list += (list.empty() ? "" : ", ") + k;
    fail("T0903", fmt::format("no input has a dimension named '{}'", name), {},
         list.empty() ? "all dimensions of this model are numbers" : "the model has: " + list,
         ErrorKind::usage);
  }
  return out;
}

}  // namespace tenon
