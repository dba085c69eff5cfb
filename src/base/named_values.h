// SPDX-License-Identifier: Apache-2.0
// Options between callers that share no types (the command and the compiler library, other languages): a
// struct with `fields` as a map of named values, and read back from one. Unknown names and values of wrong
// kinds are refused.
#pragma once
#include "base/define_type.h"
#include "base/diagnostic.h"
#include "base/nearest.h"

namespace tenon {

template <class T>
const std::vector<FieldInfo>& fields_of() {
  static const FieldList* all = [] {
    auto* list = new FieldList;
    T::fields(*list);
    return list;
  }();
  return all->list;
}

template <class T>
AttrMap to_named_values(const T& options) {
  AttrMap out;
  for (const FieldInfo& f : fields_of<T>()) out.set(std::string(f.name), f.get(&options));
  return out;
}

/// What is not named, or is none, keeps its default. DiagnosticError "T0942" lists every name that `what`
/// does not take, with the nearest one, and every value that does not fit.
template <class T>
T from_named_values(const AttrMap& values, const std::string& what) {
  T out;
  DiagnosticList problems(ErrorKind::usage);
  std::vector<std::string_view> names;
  for (const FieldInfo& f : fields_of<T>()) names.push_back(f.name);
  for (const auto& [name, value] : values) {
    const auto field = std::ranges::find(fields_of<T>(), name, &FieldInfo::name);
    Any fit;
    if (field == fields_of<T>().end())
      problems.add("T0942", what + " takes no `" + name + "`", {}, did_you_mean(name, names, "it takes: "));
    else if (value.is_none())
      continue;
    else if (!field->coerce(value, &fit))
      problems.add("T0942", what + ": `" + name + "` cannot be " + std::string(value.kind_name()), {},
                   std::string(field->doc));
    else
      field->set(&out, fit);
  }
  problems.throw_if_any();
  return out;
}

}  // namespace tenon
