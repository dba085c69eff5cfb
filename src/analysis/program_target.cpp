// SPDX-License-Identifier: Apache-2.0
#include "analysis/program_target.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/graph.h"
#include "ir/origin.h"
#include "ir/walk.h"

namespace tenon {

namespace {

constexpr const char* kAttribute = "target";

/// {"kind": "llvm", "mcpu": "x86-64-v3"} as the words of a command: "llvm -mcpu=x86-64-v3". What stands
/// beside "target" (a host) is not the program's.
std::string words_of(const Any& attribute) {
  if (const auto text = attribute.try_as<std::string>()) return *text;
  const auto map = attribute.try_as<AttrMap>();
  if (!map) return {};
  if (const auto own = map->find("target")) return words_of(*own);
  const auto kind = map->find("kind");
  std::string out = kind ? kind->try_as<std::string>().value_or("") : "";
  for (const auto& [key, value] : *map) {
    if (key == "kind" || key == "host") continue;
    std::string text;
    if (const auto one = value.try_as<std::string>()) text = *one;
    if (const auto number = value.try_as<int64_t>()) text = std::to_string(*number);
    if (const auto list = value.try_as<Array<Any>>())
      for (const Any& item : *list)
        text += (text.empty() ? "" : ",") + item.try_as<std::string>().value_or("?");
    out += fmt::format(" -{}={}", key, text);
  }
  return out;
}

std::string architecture(const Target& t) {
  return t->triple.empty() ? "x86_64" : t->triple.substr(0, t->triple.find('-'));
}

/// The first statement of which it is known.
std::string where(const tir::PrimFuncNode& f) {
  std::string out;
  if (f.body)
    pre_order(f.body, [&](const ObjectRef& o) {
      if (const auto* s = o.as<tir::StmtNode>(); s && out.empty()) out = place(s->origin);
      return out.empty() && (o.is<tir::StmtNode>() || o.is<ArrayObj>());
    });
  return out;
}

}  // namespace

Target program_target(const tir::PrimFuncNode& f, const Target& given) {
  const Target whole = given ? given : host_target();
  const auto attribute = f.attrs.find(kAttribute);
  if (!attribute) return whole;
  const std::string words = words_of(*attribute), kind = words.substr(0, words.find(' '));
  auto refuse = [&](const std::string& code, const std::string& why, const std::string& hint) {
    fail(code, fmt::format("the program is for the target `{}`, {}", words, why), where(f), hint);
  };
  if (kind != whole->kind)
    refuse("T0949", fmt::format("and this compilation is for `{}`", to_string(whole)),
           "compile for that target, or take the attribute out");
  if (words == kind) return whole;
  Target own;
  try {
    own = parse_target(words);
  } catch (const DiagnosticError& e) {
    refuse("T0949", std::string("which is not known: ") + e.what(), "see `tenon compile --help`");
  }
  if (architecture(own) != architecture(whole))
    refuse("T0949",
           fmt::format("whose processor is {}, and this compilation makes code for {}", architecture(own),
                       architecture(whole)),
           "one artifact holds code for processors of one architecture");
  return own;
}

void check_graph_targets(const IRModule& module, const Target& whole) {
  for (const auto& [name, object] : module.functions()) {
    const auto* f = object.as<graph::Function>();
    const auto attribute = f ? f->attrs.find(kAttribute) : std::nullopt;
    if (!attribute || words_of(*attribute) == whole->kind) continue;
    fail("T0949",
         fmt::format("the graph function `{}` is for the target `{}`, and this compilation is for `{}`", name,
                     words_of(*attribute), to_string(whole)),
         place(f->origin),
         "give the target to the compilation, or to the tensor programs (@T.prim_func) that are for another "
         "processor");
  }
}

Array<std::string> more_features(const IRModule& module, const Target& whole) {
  Array<std::string> out;
  for (const auto& [name, object] : module.functions()) {
    const auto* f = object.as<tir::PrimFuncNode>();
    if (!f || !f->attrs.contains(kAttribute)) continue;
    const Target own = program_target(*f, whole);
    for (const std::string& feature : own->features)
      if (!whole->has(feature) && std::find(out.begin(), out.end(), feature) == out.end())
        out.push_back(feature);
  }
  return out;
}

}  // namespace tenon
