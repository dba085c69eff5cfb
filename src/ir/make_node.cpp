// SPDX-License-Identifier: Apache-2.0
#include "ir/make_node.h"

#include <fmt/format.h>

namespace tenon {
namespace {

/// What types derive from must exist; lists may be empty.
bool must_be_there(const ObjectRef& o, std::string_view field) {
  if (o.is<tir::PrimExprNode>())
    return field != "predicate" && field != "condition" && field != "init" && field != "args" &&
           field != "indices" && field != "axis";
  return (o.is<graph::Constant>() && field == "data") || (o.is<graph::PrimValue>() && field == "value");
}

bool has_null_item(const Any& a) {
  if (!a.is_object() || !is_type_index<ArrayObj>(a.tag())) return false;
  for (const Any& x : static_cast<const ArrayObj*>(a.object())->items)
    if (x.is_none()) return true;
  return false;
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
    if (fit.is_none() && f.is_ref && must_be_there(o, name)) problem(fmt::format("`{}` is missing", name));
    if (o.is<tir::PrimExprNode>() && has_null_item(fit))
      problem(fmt::format("an item of `{}` is missing", name));
    f.set(o.edit(), fit);
  }
  for (const FieldInfo& f : type.fields)
    if (f.is_ref && !f.ref(o.get())->get() && must_be_there(o, f.name))
      problem(fmt::format("`{}` is missing", f.name));
  try {
    if (type.finish) type.finish(o.edit());
  } catch (const Error& e) {
    problem(e.message);
  }
  return o;
}

}  // namespace tenon
