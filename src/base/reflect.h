// SPDX-License-Identifier: Apache-2.0
// Reflection from the one field list of a node: `static void fields(auto& f) { f.add("a", &Add::a)…; }`.
// Children, rewriting, equality, hashing, printing and JSON walk these records, so a new node needs nothing
// else. The records are made once, by `DefineTypes` (base/define_type.h) in one .cpp file.
#pragma once
#include "base/container.h"

namespace tenon {

/// What a field means for structural equality and hashing.
enum class FieldRole : uint8_t {
  normal,
  def,      ///< defines variables: a variable met here may differ in name from its twin, and is mapped to it
  body,     ///< a scope of its own, or a list of what holds such: variables bound inside are not seen outside
  ignored,  ///< a name or a span: not part of the meaning
};

/// What can be done with a member of one C++ type, given its address.
struct MemberType {
  bool is_ref = false;  ///< an object handle
  Any (*get)(const void* member) = nullptr;
  void (*set)(void* member, const Any& value) = nullptr;
  bool (*coerce)(const Any& in, Any* out) = nullptr;
  /// The C++ type by names of other languages: "int", "tir.PrimExpr", "Map[str, Array[tir.Var]]".
  std::string (*name)() = nullptr;
};

struct FieldInfo {
  std::string_view name;
  std::string_view doc;
  FieldRole role = FieldRole::normal;
  bool is_ref = false;   ///< holds an object handle: the field can be a child; see `ref`
  ptrdiff_t offset = 0;  ///< of the member from its object, in bytes
  const MemberType* type = nullptr;

  Any get(const Object* o) const { return type->get(at(o)); }
  /// InternalError if the kind does not fit.
  void set(Object* o, const Any& value) const { type->set(const_cast<void*>(at(o)), value); }
  /// The handle in place (is_ref only), no count change.
  const ObjectRef* ref(const Object* o) const { return static_cast<const ObjectRef*>(at(o)); }
  /// Makes a value from outside (text, JSON) fit the field's type, items of arrays and maps included:
  /// integers become expressions where those are held, names of data types data types. False: it does not
  /// fit.
  bool coerce(const Any& in, Any* out) const { return type->coerce(in, out); }

 private:
  const void* at(const Object* o) const { return reinterpret_cast<const char*>(o) + offset; }
};

inline const TypeInfo* type_of(const Object* o) { return type_table::find(o->type_index); }
inline const TypeInfo* type_of(const ObjectRef& o) { return type_of(o.get()); }
/// Name of the object's type, for example "tir.Add"; "none" for a null handle.
inline std::string_view type_key_of(const ObjectRef& o) { return o ? type_of(o)->key : "none"; }

}  // namespace tenon
