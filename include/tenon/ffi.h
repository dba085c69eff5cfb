/* SPDX-License-Identifier: Apache-2.0
 * The stable C interface to Tenon's objects and functions (libtenon_ffi), on which other languages stand:
 *
 *   TenonAny three[2] = {tenon_any_int(1), tenon_any_int(2)}, result, function;
 *   if (tenon_ffi_function_get("my.add", &function) || tenon_ffi_call(function.v.object, three, 2, &result))
 *     …
 *
 * Rules. A function that can fail returns a status and writes to `result`: when it returned TENON_OK the
 * result, otherwise an object of the type "Error". Either way the caller owns what is there and gives it back
 * with tenon_ffi_any_release. Arguments are borrowed. No function throws. Objects are shared and must not be
 * changed once somebody else holds them; their reference counts are safe in any thread. Texts of records
 * (types, fields) live as long as the process; all other borrowed memory as long as the object that it
 * belongs to. What is declared here stays as it is. TENON_FFI_VERSION grows with every change that adds
 * something (a caller may rely on a function when the version in which it came, listed in
 * tests/ffi/versions.txt, is at most that of the library), and a library serves every caller that was
 * compiled with its version or an earlier one. */
#ifndef TENON_FFI_H_
#define TENON_FFI_H_

#include <tenon/tenon.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_FFI_VERSION 4

TENON_API int32_t tenon_ffi_version(void);

/* ---- Values. */

typedef enum TenonTag {
  TENON_NONE = 0,
  TENON_BOOL = 1,
  TENON_INT = 2,
  TENON_FLOAT = 3,
  TENON_DTYPE = 4,
  TENON_POINTER = 5,
  TENON_FIRST_OBJECT = 64 /* from here on: the type index of an object */
} TenonTag;

/* The header of every object. Read only; the count is changed by the functions below alone. */
typedef struct TenonObject {
  uint32_t ref_count;
  uint32_t type_index;
} TenonObject;

/* A value of 16 bytes. Unused bytes of `v` are zero. */
typedef struct TenonAny {
  uint32_t tag;
  uint32_t unused;
  union {
    int64_t i; /* TENON_BOOL and TENON_INT */
    double f;
    DLDataType dtype;
    void* pointer;
    TenonObject* object;
  } v;
} TenonAny;

static inline TenonAny tenon_any_none(void) {
  TenonAny a = {TENON_NONE, 0, {0}};
  return a;
}
static inline TenonAny tenon_any_int(int64_t value) {
  TenonAny a = {TENON_INT, 0, {0}};
  a.v.i = value;
  return a;
}
static inline TenonAny tenon_any_bool(int value) {
  TenonAny a = {TENON_BOOL, 0, {0}};
  a.v.i = value != 0;
  return a;
}
static inline TenonAny tenon_any_float(double value) {
  TenonAny a = {TENON_FLOAT, 0, {0}};
  a.v.f = value;
  return a;
}
static inline TenonAny tenon_any_dtype(DLDataType value) {
  TenonAny a = {TENON_DTYPE, 0, {0}};
  a.v.dtype = value;
  return a;
}
/* Borrows the object; null gives none. */
static inline TenonAny tenon_any_object(TenonObject* object) {
  TenonAny a = {TENON_NONE, 0, {0}};
  if (object) {
    a.tag = object->type_index;
    a.v.object = object;
  }
  return a;
}

TENON_API void tenon_ffi_retain(TenonObject* object);  /* null is allowed */
TENON_API void tenon_ffi_release(TenonObject* object); /* null is allowed */
TENON_API uint32_t tenon_ffi_use_count(const TenonObject* object);
TENON_API void tenon_ffi_any_retain(const TenonAny* value); /* of its object, when it is one */
TENON_API void tenon_ffi_any_release(TenonAny* value);      /* leaves none */

/* ---- Types and fields. */

typedef enum TenonFieldRole {
  TENON_FIELD_NORMAL = 0,
  TENON_FIELD_DEFINES = 1, /* defines variables: they may differ in name in equal objects */
  TENON_FIELD_IGNORED = 2, /* no part of the meaning */
  TENON_FIELD_BODY = 3     /* a scope of its own: variables bound inside are not seen outside */
} TenonFieldRole;

typedef struct TenonFieldInfo {
  const char* name;
  const char* doc;
  const char* type; /* "int", "str", "tir.PrimExpr", "Map[str, Array[tir.Var]]", … */
  int32_t role;
  const void* record; /* of the library */
} TenonFieldInfo;

typedef struct TenonTypeInfo {
  size_t size; /* sizeof(TenonTypeInfo) of the library */
  uint32_t index;
  uint32_t parent; /* its index; the type itself for "Object" */
  const char* key; /* "tir.Add" */
  int32_t num_fields;
  const TenonFieldInfo* fields;
} TenonTypeInfo;

TENON_API uint32_t tenon_ffi_type_index(const char* key);      /* 0: no such type is registered */
TENON_API const TenonTypeInfo* tenon_ffi_type(uint32_t index); /* null: no such type */
/* The indices of all types that are registered now, in rising order: at most `capacity` of them are written,
 * how many there are is returned. */
TENON_API int32_t tenon_ffi_types(uint32_t* indices, int32_t capacity);
TENON_API int32_t tenon_ffi_is_instance(uint32_t index, uint32_t ancestor); /* 1 or 0 */

/* An empty container is given as one, though C++ may keep it as none. */
TENON_API TenonStatus tenon_ffi_field_get(const TenonObject* object, const TenonFieldInfo* field,
                                          TenonAny* result);
/* Of an object that the caller alone holds (T0106 otherwise); what follows from the fields is derived anew.
 * The value is converted where the field's type allows it; none is refused (T0102). */
TENON_API TenonStatus tenon_ffi_field_set(TenonObject* object, const TenonFieldInfo* field,
                                          const TenonAny* value, TenonAny* result);
/* A shallow copy, of types that can be copied (T0107 otherwise). */
TENON_API TenonStatus tenon_ffi_copy(const TenonObject* object, TenonAny* result);

/* ---- Texts, bytes, data types. */

TENON_API TenonStatus tenon_ffi_string(const char* data, size_t size, TenonAny* result);
TENON_API TenonStatus tenon_ffi_bytes(const void* data, size_t size,
                                      TenonAny* result); /* taken as text, too */
/* Of a String or Bytes; null for anything else. Ends with a zero that `size` does not count. */
TENON_API const char* tenon_ffi_text(const TenonObject* object, size_t* size);
/* The name of a data type: writes at most `capacity` characters with the zero and returns the length. */
TENON_API size_t tenon_ffi_dtype_name(DLDataType dtype, char* name, size_t capacity);

/* ---- Containers. They keep the order of their items. */

TENON_API TenonStatus tenon_ffi_array(const TenonAny* items, size_t size, TenonAny* result);
/* Its items, borrowed; null and size 0 for what is no Array. */
TENON_API const TenonAny* tenon_ffi_array_items(const TenonObject* array, size_t* size);
/* `pairs`: key, value, key, value …; keys are texts, integers or objects (by identity). */
TENON_API TenonStatus tenon_ffi_map(const TenonAny* pairs, size_t size, TenonAny* result);
TENON_API const TenonAny* tenon_ffi_map_pairs(const TenonObject* map, size_t* size);
TENON_API const TenonAny* tenon_ffi_map_find(const TenonObject* map,
                                             const TenonAny* key); /* null: not there */
TENON_API TenonStatus tenon_ffi_shape(const int64_t* dims, size_t ndim, TenonAny* result);
TENON_API const int64_t* tenon_ffi_shape_dims(const TenonObject* shape, size_t* ndim);

/* ---- Tensors (NDArray): compact and row-major. */

/* Takes the tensor over: its deleter is called when the last reference drops. On an error it stays the
 * caller's. */
TENON_API TenonStatus tenon_ffi_from_dlpack(DLManagedTensorVersioned* tensor, TenonAny* result);
TENON_API TenonStatus tenon_ffi_from_dlpack_unversioned(DLManagedTensor* tensor, TenonAny* result);
/* For the caller to delete; keeps the tensor alive. T0102 for what is no NDArray. What DLPack's flags say is
 * read-only stays so; the form without a version cannot say it (T0406). */
TENON_API TenonStatus tenon_ffi_to_dlpack(const TenonObject* tensor, DLManagedTensorVersioned** managed,
                                          TenonAny* result);
TENON_API TenonStatus tenon_ffi_to_dlpack_unversioned(const TenonObject* tensor, DLManagedTensor** managed,
                                                      TenonAny* result);
/* A view of borrowed memory; `release(owner)` is called, in any thread, when the last reference drops. */
TENON_API TenonStatus tenon_ffi_tensor(const DLTensor* tensor, void* owner, void (*release)(void* owner),
                                       TenonAny* result);
/* The borrowed fields of an NDArray; strides are null. Returns 0 for what is no NDArray. */
TENON_API int32_t tenon_ffi_tensor_view(const TenonObject* tensor, DLTensor* view);

/* ---- Functions. */

/* Writes to `result` what it gives, or an error object when it returns another status. `arguments` are
 * borrowed. */
typedef TenonStatus (*TenonCall)(void* self, const TenonAny* arguments, int32_t count, TenonAny* result);

/* `destroy(self)` is called once, in any thread, when the last reference drops; it may be null. */
TENON_API TenonStatus tenon_ffi_function(TenonCall call, void* self, void (*destroy)(void* self),
                                         TenonAny* result);
TENON_API TenonStatus tenon_ffi_call(TenonObject* function, const TenonAny* arguments, int32_t count,
                                     TenonAny* result);

/* The registry of named functions. */
typedef struct TenonFunctionInfo {
  const char* name;
  const char* file; /* where it was registered, or "" */
  int32_t line;
  const char* doc; /* "" or a text; may begin with "NAME(ARGUMENTS) -> RESULT\n--\n\n" */
} TenonFunctionInfo;

/* T0103: the name is taken, and `replace` is 0. */
TENON_API TenonStatus tenon_ffi_function_set(const TenonFunctionInfo* info, TenonObject* function,
                                             int32_t replace, TenonAny* result);
TENON_API TenonStatus tenon_ffi_function_get(const char* name, TenonAny* result); /* none: no such name */
TENON_API void tenon_ffi_function_remove(const char* name);
TENON_API TenonStatus tenon_ffi_function_names(const char* prefix, TenonAny* result); /* sorted Array */
/* Name, file, line and doc as an Array; none: no such name. */
TENON_API TenonStatus tenon_ffi_function_info(const char* name, TenonAny* result);

/* Loads the compiler library, which registers the types and functions of the compiler, from the folder of
 * this library or where the system finds libraries. Once; T0910 when it cannot be loaded. */
TENON_API TenonStatus tenon_ffi_load_compiler(TenonAny* result);

/* ---- Compiled models. */

/* An object of the type "Artifact" as one of tenon.h, for tenon_artifact_release. T0102 for anything else. */
TENON_API TenonStatus tenon_ffi_artifact(const TenonObject* object, TenonArtifact** artifact,
                                         TenonAny* result);
/* The names of its functions, an Array. */
TENON_API TenonStatus tenon_ffi_artifact_functions(const TenonArtifact* artifact, TenonAny* result);
/* Calls a function of the model (null: `main`, what tenon_session_run runs) with values of any kind: tensors,
 * numbers, an Array for a tuple, what another call gave. Buffers of outputs are not used; the result shares
 * no memory with the session. One call at a time (T0513); errors as of tenon_session_run. */
TENON_API TenonStatus tenon_ffi_session_call(TenonSession* session, const char* function,
                                             const TenonAny* arguments, int32_t count, TenonAny* result);
/* Calls a function around every kernel, builtin and packed call of the session's runs: name, whether it is
 * before, the result (behind it; none where there is none), then the arguments, whose memory is that of the
 * run. True before a call: it is left out. Null: none. What it fails with ends the run. */
TENON_API TenonStatus tenon_ffi_session_set_instrument(TenonSession* session, const TenonObject* function,
                                                       TenonAny* result);

/* ---- Foreign objects: a value of another language that Tenon only hands on. */

TENON_API TenonStatus tenon_ffi_foreign(void* handle, void (*destroy)(void* handle), TenonAny* result);
/* Its handle when it was made with this `destroy`, else null. */
TENON_API void* tenon_ffi_foreign_handle(const TenonObject* object, void (*destroy)(void* handle));

/* ---- Errors, objects of the type "Error". */

typedef struct TenonErrorInfo {
  TenonStatus kind;
  const char* code;      /* "T0505" */
  const char* message;   /* one sentence, or several mistakes */
  const char* location;  /* or "" */
  const char* hint;      /* or "" */
  const char* text;      /* all of it as the command prints it */
  const char* traceback; /* what the error passed, the innermost first, a line each: "FILE:LINE, in NAME" */
  TenonObject* foreign;  /* the exception of another language that it carries, or null */
} TenonErrorInfo;

/* `text` and `traceback` of `info` may be null; `kind` is not TENON_OK. */
TENON_API TenonStatus tenon_ffi_error(const TenonErrorInfo* info, TenonAny* result);
TENON_API int32_t tenon_ffi_error_info(const TenonObject* error,
                                       TenonErrorInfo* info); /* 0: it is no error */
/* Appends a line to the traceback, for who hands an error on. */
TENON_API void tenon_ffi_error_passed(TenonObject* error, const char* file, int32_t line, const char* name);

#ifdef __cplusplus
}
#endif

#endif /* TENON_FFI_H_ */
