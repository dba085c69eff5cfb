// SPDX-License-Identifier: Apache-2.0
// What the compiler has, by name: passes and operators, and where each thing is defined.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "base/function.h"
#include "base/source_file.h"
#include "capi/compiler_function.h"
#include "import/onnx/load.h"
#include "ir/pass.h"
#include "ir/text.h"
#include "op/op_def.h"
#include "op/strategy.h"
#include "pipeline/compile.h"
#include "schedule/primitive.h"

namespace tenon {
namespace {

using json = nlohmann::ordered_json;

/// Every pass as its record has it, and the lists of a compilation by chapters.
AttrMap passes(const NoRequest&) {
  json out = json::array();
  for (const Pass* p : all_passes()) {
    json options = json::array();
    for (const PassOption& o : p->options)
      options.push_back({{"name", o.name},
                         {"type", o.type_in_words()},
                         {"default", o.to_text(o.otherwise)},
                         {"doc", o.help}});
    // The subject is the folder: graph/fusion, tensor, …
    std::string subject = p->file.substr(0, p->file.rfind('/'));
    for (const char* prefix : {"src/", "pass/"})
      if (subject.starts_with(prefix)) subject.erase(0, std::strlen(prefix));
    json entry = {{"name", p->name},
                  {"kind", subject},
                  {"doc", p->summary},
                  {"needs", p->needs},
                  {"changes", to_string(p->changes)},
                  {"rounds", p->rounds},
                  {"options", options},
                  {"file", p->file}};
    if (p->level == kOnRequest)
      entry["on_request"] = true;
    else
      entry["level"] = p->level;
    out.push_back(entry);
  }
  json lists = json::object();
  for (const auto& [name, chapters] : all_pass_lists())
    for (const Chapter& c : chapters)
      lists[name].push_back({{"title", c.title}, {"passes", c.passes}, {"on_request", c.on_request}});
  return reply_json({{"passes", out}, {"pipelines", lists}});
}

/// A default value as people write it.
std::string default_text(const Any& v) {
  if (v.is_none()) return "[]";
  if (v.tag() == kBool) return v.as<bool>() ? "true" : "false";
  if (v.tag() == kInt) return std::to_string(v.as<int64_t>());
  if (v.tag() == kFloat) return fmt::format("{}", v.as<double>());
  if (v.tag() == kDataType) return to_string(v.as<DataType>());
  if (auto text = v.try_as<std::string>()) return "'" + *text + "'";
  if (auto list = v.try_as<Array<Any>>()) {
    std::vector<std::string> items;
    for (const Any& item : *list) items.push_back(default_text(item));
    return fmt::format("[{}]", fmt::join(items, ", "));
  }
  return print(v.as<ObjectRef>());
}

/// How the operator is computed on a processor: names by falling priority, with the library that each needs.
json implementations_of(const Ref<graph::Op>& op) {
  json out = json::array();
  if (!op::find_strategy(op->name)) return out;
  const Target target = parse_target("llvm");
  const auto call = make<graph::Call>(graph::Expr(op), Array<graph::Expr>(), op->default_attrs);
  std::vector<op::OpImpl> all = op::implementations(*call, target);
  std::ranges::stable_sort(all, std::greater<>(), &op::OpImpl::priority);
  for (const op::OpImpl& i : all)
    out.push_back({{"name", i.name}, {"priority", i.priority}, {"library", i.library}});
  return out;
}

AttrMap operators(const NoRequest&) {
  json list = json::array();
  for (const Ref<graph::Op>& op : graph::all_ops()) {
    json arguments = json::array(), attributes = json::array();
    for (const auto& a : op->arguments)
      arguments.push_back({{"name", a.name}, {"type", a.type}, {"doc", a.doc}, {"optional", a.optional}});
    if (op->attrs_type) {
      for (const FieldInfo& f : op->attrs_type->fields)
        attributes.push_back(
            {{"name", f.name}, {"default", default_text(f.get(op->default_attrs.get()))}, {"doc", f.doc}});
    }
    list.push_back({{"name", op->name},
                    {"doc", op->doc},
                    {"arguments", arguments},
                    {"attributes", attributes},
                    {"implementations", implementations_of(op)},
                    {"fusion", graph::to_string(op::definition(*op).fusion)},
                    {"pure", op->pure},
                    {"file", op->file},
                    {"line", op->line}});
  }
  return reply_json({{"operators", list}});
}

AttrMap definitions(const NoRequest&) {
  json list = json::array();
  auto add = [&](const char* kind, std::string_view name, std::string_view file, int line) {
    list.push_back({{"kind", kind}, {"name", name}, {"file", source_file(file)}, {"line", line}});
  };
  for (const Ref<graph::Op>& op : graph::all_ops()) add("operator", op->name, op->file, op->line);
  for (const Pass* pass : all_passes()) add("pass", pass->name, pass->file, pass->line);
  for (const Primitive* p : primitives())
    add("primitive", p->name, p->where.file_name(), int(p->where.line()));
  for (const std::string& name : registry::names())
    if (const auto f = registry::entry(name)) add("function", name, f->file, f->line);
  return reply_json({{"definitions", list}});
}

AttrMap onnx_operators(const NoRequest&) {
  json list = json::array();
  for (const auto& op : onnx::onnx_coverage())
    list.push_back({{"name", op.name},
                    {"opsets", fmt::format("{}-{}", op.first_opset, op.last_opset)},
                    {"note", op.note}});
  return reply_json({{"operators", list}});
}

const bool lists_registered = [] {
  add_compiler_function("passes", passes, "all passes");
  add_compiler_function("operators", operators, "all graph operators");
  add_compiler_function("definitions", definitions,
                        "where operators, passes, schedule primitives and functions are registered");
  add_compiler_function("onnx_operators", onnx_operators, "what the ONNX importer covers");
  return true;
}();

}  // namespace
}  // namespace tenon
