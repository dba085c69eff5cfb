// SPDX-License-Identifier: Apache-2.0
// Programs for other languages: text, JSON, equality, nodes from their fields.
#include <fmt/format.h>

#include "base/nearest.h"
#include "capi/methods.h"
#include "import/relay/load.h"
#include "ir/make_node.h"
#include "ir/structural.h"
#include "ir/text.h"

namespace tenon {
namespace {

[[noreturn]] void no_node(const std::string& key, const std::string& problem) {
  fail("T0108", fmt::format("{}: {}", key, problem), {}, {}, ErrorKind::usage);
}

/// A node of `type` by named fields; those without a name here are those of `base`.
ObjectRef node_of(const TypeInfo& type, const ObjectRef& base, const AttrMap& fields) {
  const std::string key(type.key);
  if (&type == type_info<graph::Op>()) no_node(key, "operators are found by their names, not made");
  if (type.fields.empty()) no_node(key, "this type has no fields to make it from");
  std::vector<std::string_view> names;
  for (const FieldInfo& f : type.fields) names.push_back(f.name);
  for (const auto& [name, value] : fields)
    if (!std::ranges::count(names, name))
      fail("T0108", fmt::format("{} has no field `{}`", key, name), {}, did_you_mean(name, names, "it has: "),
           ErrorKind::usage);
  return make_node(
      type, base, [&](const std::string& field) { return fields.find(field); },
      [&](const std::string& problem) { no_node(key, problem); });
}

ObjectRef make_named(const std::string& key, const AttrMap& fields) {
  const TypeInfo* type = type_table::find(std::string_view(key));
  if (!type) no_node(key, "there is no such type");
  return node_of(*type, {}, fields);
}

ObjectRef replace_fields(const ObjectRef& node, const AttrMap& fields) {
  if (!node) no_node("none", "it has no fields");
  return node_of(*type_of(node), node, fields);
}

std::string text_of(const ObjectRef& node, int64_t inline_elements) {
  PrintOptions options;
  options.inline_elements = inline_elements;
  return print(node, options);
}

IRModule parse_text(const std::string& text, const std::string& name) {
  if (relay::looks_like_relay(text)) return relay::import_relay(text, name);
  ParseOptions options;
  options.name = name;
  return parse_module(text, options);
}

Ref<graph::Op> operator_named(const std::string& name) {
  if (Ref<graph::Op> op = graph::find_op(name)) return op;
  std::vector<std::string> names;
  for (const Ref<graph::Op>& op : graph::all_ops()) names.push_back(op->name);
  fail("T0108", fmt::format("there is no operator `{}`", name), {},
       did_you_mean(name, names, "`tenon ops` lists all; "), ErrorKind::usage);
}

/// What nodes know beside their fields.
void add_methods() {
  Methods<tir::PrimExprNode>().property(
      "dtype", [](const PrimExpr& e) { return e.dtype(); }, "type of the value");
  Methods<graph::ExprNode>().property(
      "type", [](const graph::Expr& e) { return e->type; }, "type of the value; None until it is inferred");
  Methods<graph::Op>()
      .make({"name"}, operator_named, "the operator of a name, such as \"nn.relu\"")
      .property(
          "doc", [](const Ref<graph::Op>& op) { return op->doc; }, "what it computes")
      .property(
          "pure", [](const Ref<graph::Op>& op) { return op->pure; }, "whether it has no effect")
      .property(
          "file", [](const Ref<graph::Op>& op) { return op->file; }, "where it is defined")
      .property("line", [](const Ref<graph::Op>& op) { return int64_t(op->line); }, "where it is defined");
}

const bool ir_functions_registered = [] {
  add_methods();
  add_function("ir.make", {"key", "fields"}, make_named, "a node of a type by its fields (T0108)");
  add_function("ir.replace", {"node", "fields"}, replace_fields, "the node with other values of some fields");
  add_function("ir.script", {"node", {"inline_elements", int64_t(16)}}, text_of,
               "script text; constants of more elements are printed by their hash");
  add_function("ir.parse", {"text", {"name", "<text>"}}, parse_text, "a module from script text (T02xx)");
  add_function(
      "ir.to_json", {"node"}, [](const ObjectRef& node) { return to_json(node); },
      "JSON from the field lists");
  add_function(
      "ir.from_json", {"text"}, [](const std::string& text) { return from_json(text); },
      "what to_json wrote (T0291)");
  add_function("ir.structural_equal", {"a", "b", {"map_free", false}}, structural_equal,
               "equal up to names; map_free: free variables may be paired");
  add_function(
      "ir.structural_hash", {"node", {"map_free", false}},
      [](const ObjectRef& node, bool map_free) { return int64_t(structural_hash(node, map_free)); },
      "the same for equal nodes");
  add_function("ir.first_difference", {"a", "b", {"map_free", false}}, first_difference,
               "path to the first difference, or an empty text");
  return true;
}();

}  // namespace
}  // namespace tenon
