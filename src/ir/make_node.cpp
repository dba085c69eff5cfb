// SPDX-License-Identifier: Apache-2.0
#include "ir/make_node.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenon {
namespace {

/// Fields of programs that may be none; all others must be there. Lists may be empty.
constexpr std::pair<std::string_view, std::string_view> kOptional[] = {
    {"tir.BufferLoad", "predicate"}, {"tir.BufferStore", "predicate"},
    {"tir.Reduce", "condition"},     {"tir.IfThenElse", "else_case"},
    {"tir.Block", "init"},           {"tir.Buffer", "elem_offset"},
    {"tir.IterVar", "dom"},          {"tir.AttrStmt", "node"},
    {"ir.TensorType", "shape"},      {"ir.PrimType", "value"},
    {"ir.FuncType", "ret"},          {"graph.Var", "declared"},
    {"graph.Call", "attrs"},         {"graph.Function", "ret_type"},
    {"graph.Function", "plan"},      {"graph.Pattern", "constructor"},
    {"graph.Pattern", "var"}};
/// Lists whose items may be none: operands that are left out, types that are not found yet.
constexpr std::pair<std::string_view, std::string_view> kOptionalItems[] = {
    {"graph.Call", "args"}, {"graph.Tuple", "items"}, {"ir.FuncType", "params"}};

/// Attributes of operators have values of their own for what is left out.
bool is_program(const TypeInfo& type) { return !type.key.starts_with("attrs."); }

bool is_list(const FieldInfo& f) {
  const std::string type = f.type->name();
  return type.starts_with("Array[") || type.starts_with("Map[");
}
bool must_be_there(const TypeInfo& type, const FieldInfo& f) {
  return f.is_ref && is_program(type) && !is_list(f) &&
         !std::ranges::count(kOptional, std::pair{type.key, f.name});
}
bool must_have_items(const TypeInfo& type, const FieldInfo& f) {
  return f.is_ref && is_program(type) && is_list(f) && !f.type->name().ends_with(", Any]") &&
         !std::ranges::count(kOptionalItems, std::pair{type.key, f.name});
}

bool has_null_item(const Any& a) {
  if (!a.is_object()) return false;
  if (is_type_index<ArrayObj>(a.tag())) {
    for (const Any& x : static_cast<const ArrayObj*>(a.object())->items)
      if (x.is_none()) return true;
  } else if (is_type_index<MapObj>(a.tag())) {
    for (const auto& [key, x] : static_cast<const MapObj*>(a.object())->items)
      if (x.is_none()) return true;
  }
  return false;
}

/// A floating constant as its type holds it.
void round(ObjectRef& o) {
  if (!o.is<tir::FloatImm>()) return;
  auto* n = static_cast<tir::FloatImm*>(o.edit());
  n->value = PrimExpr::float_imm(n->value, n->dtype).as<tir::FloatImm>()->value;
}

}  // namespace

ObjectRef make_node(const TypeInfo& type, const ObjectRef& base,
                    FunctionRef<std::optional<Any>(const std::string& field)> value,
                    FunctionRef<void(const std::string&)> problem) {
  if (base ? !type.clone : !type.create) problem("it is made by no text");
  ObjectRef o(base ? type.clone(base.get()) : type.create());
  for (const FieldInfo& f : type.fields) {
    const std::string name(f.name);
    const std::optional<Any> given = value(name);
    if (!given) continue;
    Any fit;
    if (!f.coerce(*given, &fit))
      problem(fmt::format("`{}` holds {}, not {}", name, f.type->name(), given->kind_name()));
    if (must_have_items(type, f) && has_null_item(fit))
      problem(fmt::format("an item of `{}` is missing", name));
    f.set(o.edit(), fit);
  }
  for (const FieldInfo& f : type.fields)
    if (must_be_there(type, f) && !f.ref(o.get())->get()) problem(fmt::format("`{}` is missing", f.name));
  check_values(o, problem);
  round(o);
  try {
    if (type.finish) type.finish(o.edit());
  } catch (const Error& e) {
    problem(e.message);
  }
  return o;
}

}  // namespace tenon
