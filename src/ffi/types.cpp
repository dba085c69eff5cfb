// SPDX-License-Identifier: Apache-2.0
// References, types and fields for C. The records of a type are made when somebody asks for it first.
#include <algorithm>
#include <memory>
#include <mutex>

#include "base/function.h"
#include "base/reflect.h"
#include "ffi/guard.h"
#include "runtime/executable.h"

namespace tenon::ffi {
namespace {

TenonFieldRole role_of(FieldRole role) {
  switch (role) {
    case FieldRole::normal:
      return TENON_FIELD_NORMAL;
    case FieldRole::def:
      return TENON_FIELD_DEFINES;
    case FieldRole::body:
      return TENON_FIELD_BODY;
    case FieldRole::ignored:
      return TENON_FIELD_IGNORED;
  }
  return TENON_FIELD_NORMAL;
}

/// A field, and what stands for null in it and in its items: C++ keeps an empty Array or Map as null.
struct FieldRecord {
  const FieldInfo* info;
  Any empty, empty_item;
};

/// The empty value of a type, none for what is no container.
Any empty_of(std::string_view type) {
  if (type.starts_with("Array[")) return Any(make<ArrayObj>());
  return type.starts_with("Map[") ? Any(make<MapObj>()) : Any();
}

/// What the pointers of a TenonTypeInfo point to.
struct TypeRecord {
  std::string key;
  std::vector<std::string> texts;
  std::vector<FieldRecord> records;
  std::vector<TenonFieldInfo> fields;
  TenonTypeInfo info{};
};

std::unique_ptr<const TypeRecord> make_record(const TypeInfo& type) {
  auto r = std::make_unique<TypeRecord>();
  r->key = type.key;
  r->texts.reserve(3 * type.fields.size());
  r->records.reserve(type.fields.size());
  for (const FieldInfo& f : type.fields) {
    const std::string name = f.type->name();
    const bool array = name.starts_with("Array[");
    r->records.push_back({&f, empty_of(name), array ? empty_of(name.substr(6)) : Any()});
    const auto keep = [&](std::string text) { return r->texts.emplace_back(std::move(text)).c_str(); };
    r->fields.push_back({keep(std::string(f.name)), keep(std::string(f.doc)), keep(name), role_of(f.role),
                         &r->records.back()});
  }
  r->info = {sizeof(TenonTypeInfo),
             type.index,
             type.parent ? type.parent->index : type.index,
             r->key.c_str(),
             int32_t(r->fields.size()),
             r->fields.data()};
  return r;
}

/// By index; entries live for ever.
struct Records {
  std::mutex mutex;
  std::vector<std::unique_ptr<const TypeRecord>> list;
  static Records& get() {
    static auto* records = new Records;
    return *records;
  }
};

constexpr uint32_t kTypeTableSize = 1 << 14;  // of base/object.cpp

/// So that their types are there before the first object.
const TypeInfo* const border_types[] = {
    type_info<Object>(),     type_info<StringObj>(), type_info<BytesObj>(),   type_info<ArrayObj>(),
    type_info<MapObj>(),     type_info<ShapeObj>(),  type_info<NDArrayObj>(), type_info<FunctionObj>(),
    type_info<ForeignObj>(), type_info<ErrorObj>()};

const FieldRecord& record(const TenonFieldInfo* field) {
  return *static_cast<const FieldRecord*>(field->record);
}

/// An array with something in place of its null items.
Any filled(const Any& array, const Any& item) {
  auto copy = make<ArrayObj>();
  copy.edit()->items = array.as<Ref<ArrayObj>>()->items;
  for (Any& i : copy.edit()->items)
    if (i.is_none()) i = item;
  return Any(std::move(copy));
}

bool has_none(const Any& value) {
  if (value.is_none()) return true;
  const auto items = value.is_object() ? value.try_as<Ref<ArrayObj>>() : std::nullopt;
  return items && *items && std::ranges::any_of((*items)->items, &Any::is_none);
}

}  // namespace
}  // namespace tenon::ffi

using namespace tenon;
using namespace tenon::ffi;

extern "C" {

void tenon_ffi_retain(TenonObject* o) {
  if (o) object(o)->ref_count.fetch_add(1, std::memory_order_relaxed);
}
void tenon_ffi_release(TenonObject* o) {
  if (o && object(o)->ref_count.fetch_sub(1, std::memory_order_acq_rel) == 1) detail::release(object(o));
}
uint32_t tenon_ffi_use_count(const TenonObject* o) {
  return o ? object(o)->ref_count.load(std::memory_order_relaxed) : 0;
}
void tenon_ffi_any_retain(const TenonAny* value) {
  if (value->tag >= TENON_FIRST_OBJECT) tenon_ffi_retain(value->v.object);
}
void tenon_ffi_any_release(TenonAny* value) {
  if (value->tag >= TENON_FIRST_OBJECT) tenon_ffi_release(value->v.object);
  *value = tenon_any_none();
}

uint32_t tenon_ffi_type_index(const char* key) {
  const TypeInfo* type = type_table::find(std::string_view(key));
  return type ? type->index : 0;
}

const TenonTypeInfo* tenon_ffi_type(uint32_t index) {
  const TypeInfo* type = type_table::find(index);
  if (!type) return nullptr;
  Records& records = Records::get();
  std::lock_guard lock(records.mutex);
  if (records.list.size() <= index) records.list.resize(index + 1);
  if (!records.list[index]) records.list[index] = make_record(*type);
  return &records.list[index]->info;
}

int32_t tenon_ffi_types(uint32_t* indices, int32_t capacity) {
  int32_t n = 0;
  for (uint32_t i = 0; i < kTypeTableSize; ++i)
    if (type_table::find(i)) {
      if (n < capacity) indices[n] = i;
      ++n;
    }
  return n;
}

int32_t tenon_ffi_is_instance(uint32_t index, uint32_t ancestor) {
  const TypeInfo* of = type_table::find(ancestor);
  return of && type_table::is_derived(index, of);
}

TenonStatus tenon_ffi_field_get(const TenonObject* o, const TenonFieldInfo* field, TenonAny* result) {
  return guard(result, [&] {
    Any value = record(field).info->get(object(o));
    if (value.is_none()) return record(field).empty;
    const Any& item = record(field).empty_item;
    return !item.is_none() && has_none(value) ? filled(value, item) : value;
  });
}

TenonStatus tenon_ffi_field_set(TenonObject* o, const TenonFieldInfo* field, const TenonAny* value,
                                TenonAny* result) {
  return guard(result, [&] {
    if (tenon_ffi_use_count(o) > 1)
      throw Error(ErrorKind::usage, "T0106",
                  std::string("the field `") + field->name + "` of an object that others hold is set", {},
                  "set it in a copy");
    const FieldInfo& f = *record(field).info;
    Any fit;
    if (has_none(any(value)) || !f.coerce(any(value), &fit))
      throw Error(ErrorKind::usage, "T0102",
                  std::string("the field `") + field->name + "` holds " + field->type + ", not " +
                      any(value).kind_name());
    f.set(object(o), fit);
    if (const TypeInfo* type = type_of(object(o)); type->finish) type->finish(object(o));
    return Any();
  });
}

TenonStatus tenon_ffi_copy(const TenonObject* o, TenonAny* result) {
  return guard(result, [&] {
    const TypeInfo* type = type_of(object(o));
    if (!type->clone)
      throw Error(ErrorKind::usage, "T0107", "a " + std::string(type->key) + " cannot be copied");
    return Any(ObjectRef(type->clone(object(o))));
  });
}

}  // extern "C"
