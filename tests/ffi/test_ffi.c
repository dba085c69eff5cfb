/* SPDX-License-Identifier: Apache-2.0
 * The interface of objects and functions, used from plain C: values, containers, tensors, functions both
 * ways, the registry, fields of the compiler's nodes, compiled models, errors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/ffi.h>

#define EXPECT(condition)                                                     \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                \
    }                                                                         \
  } while (0)

/* The result of a call that must go well. */
#define OK(call)                                                    \
  do {                                                              \
    TenonStatus status_ = (call);                                   \
    if (status_ != TENON_OK) fail_with(__LINE__, status_, &result); \
  } while (0)

static void fail_with(int line, TenonStatus status, const TenonAny* result) {
  TenonErrorInfo e;
  if (result->tag >= TENON_FIRST_OBJECT && tenon_ffi_error_info(result->v.object, &e))
    fprintf(stderr, "line %d: status %d: %s\n", line, (int)status, e.text);
  exit(1);
}

static int is_code(const TenonAny* result, const char* code) {
  TenonErrorInfo e;
  return result->tag >= TENON_FIRST_OBJECT && tenon_ffi_error_info(result->v.object, &e) &&
         strcmp(e.code, code) == 0;
}

static void values_and_containers(void) {
  TenonAny result, items[3], text, pairs[4], found;
  size_t n;
  OK(tenon_ffi_string("a text", 6, &result));
  text = result;
  EXPECT(strcmp(tenon_ffi_text(text.v.object, &n), "a text") == 0 && n == 6);
  items[0] = tenon_any_int(7);
  items[1] = text;
  items[2] = tenon_any_float(0.5);
  OK(tenon_ffi_array(items, 3, &result));
  EXPECT(tenon_ffi_use_count(text.v.object) == 2);
  const TenonAny* inside = tenon_ffi_array_items(result.v.object, &n);
  EXPECT(n == 3 && inside[0].v.i == 7 && inside[1].v.object == text.v.object && inside[2].v.f == 0.5);
  EXPECT(result.tag == tenon_ffi_type_index("Array"));
  tenon_ffi_any_release(&result);
  EXPECT(tenon_ffi_use_count(text.v.object) == 1);

  pairs[0] = text;
  pairs[1] = tenon_any_bool(1);
  pairs[2] = tenon_any_int(3);
  pairs[3] = tenon_any_none();
  OK(tenon_ffi_map(pairs, 2, &result));
  found = *tenon_ffi_map_find(result.v.object, &text);
  EXPECT(found.tag == TENON_BOOL && found.v.i == 1);
  found = tenon_any_int(4);
  EXPECT(tenon_ffi_map_find(result.v.object, &found) == NULL);
  EXPECT(tenon_ffi_map_pairs(result.v.object, &n)[2].v.i == 3 && n == 2);
  tenon_ffi_any_release(&result);
  tenon_ffi_any_release(&text);

  OK(tenon_ffi_bytes("\0\1", 2, &result));
  EXPECT(memcmp(tenon_ffi_text(result.v.object, &n), "\0\1", 3) == 0 && n == 2);
  EXPECT(tenon_ffi_is_instance(result.tag, tenon_ffi_type_index("String")));
  EXPECT(!tenon_ffi_is_instance(tenon_ffi_type_index("String"), result.tag));
  tenon_ffi_any_release(&result);

  const int64_t dims[2] = {2, 3};
  OK(tenon_ffi_shape(dims, 2, &result));
  EXPECT(tenon_ffi_shape_dims(result.v.object, &n)[1] == 3 && n == 2);
  tenon_ffi_any_release(&result);

  char name[16];
  EXPECT(tenon_ffi_dtype_name(tenon_dtype("float32"), name, sizeof name) == 7 && !strcmp(name, "float32"));
}

static int released;
static void release(void* owner) { ++*(int*)owner; }

/* Memory that may not be written is said to be so on both ways. */
static DLManagedTensorVersioned constant;
static void drop_constant(DLManagedTensorVersioned* self) { release(self->manager_ctx); }
static void read_only(const DLTensor* t) {
  TenonAny result, tensor;
  DLManagedTensorVersioned* again;
  DLManagedTensor* unversioned;
  constant.version.major = DLPACK_MAJOR_VERSION;
  constant.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  constant.dl_tensor = *t;
  constant.manager_ctx = &released;
  constant.deleter = drop_constant;
  OK(tenon_ffi_from_dlpack(&constant, &tensor));
  OK(tenon_ffi_to_dlpack(tensor.v.object, &again, &result));
  EXPECT(again->flags & DLPACK_FLAG_BITMASK_READ_ONLY);
  again->deleter(again);
  EXPECT(tenon_ffi_to_dlpack_unversioned(tensor.v.object, &unversioned, &result) == TENON_ERROR_USAGE &&
         is_code(&result, "T0406"));
  tenon_ffi_any_release(&result);
  tenon_ffi_any_release(&tensor);
  EXPECT(released == 2);
}

static void tensors(void) {
  TenonAny result, tensor;
  float data[6] = {0, 1, 2, 3, 4, 5};
  int64_t shape[2] = {2, 3}, strides[2] = {1, 2};
  DLTensor t = {data, {kDLCPU, 0}, 2, tenon_dtype("float32"), shape, NULL, 0}, view;
  DLManagedTensorVersioned* versioned;
  DLManagedTensor* unversioned;
  OK(tenon_ffi_tensor(&t, &released, release, &result));
  tensor = result;
  EXPECT(tenon_ffi_tensor_view(tensor.v.object, &view) && view.data == data && view.shape[1] == 3);
  OK(tenon_ffi_to_dlpack(tensor.v.object, &versioned, &result));
  OK(tenon_ffi_to_dlpack_unversioned(tensor.v.object, &unversioned, &result));
  tenon_ffi_any_release(&tensor);
  EXPECT(released == 0 && versioned->dl_tensor.data == data);
  OK(tenon_ffi_from_dlpack(versioned, &tensor)); /* takes it back */
  unversioned->deleter(unversioned);
  EXPECT(released == 0);
  OK(tenon_ffi_to_dlpack_unversioned(tensor.v.object, &unversioned, &result));
  tenon_ffi_any_release(&tensor);
  OK(tenon_ffi_from_dlpack_unversioned(unversioned, &tensor));
  EXPECT(released == 0);
  tenon_ffi_any_release(&tensor);
  EXPECT(released == 1);
  read_only(&t);
  t.dtype.code = kDLComplex;
  t.dtype.bits = 64;
  EXPECT(tenon_ffi_tensor(&t, NULL, NULL, &result) == TENON_ERROR_USAGE && is_code(&result, "T0405"));
  tenon_ffi_any_release(&result);
  t.dtype = tenon_dtype("float32");
  t.strides = strides;
  EXPECT(tenon_ffi_tensor(&t, NULL, NULL, &result) == TENON_ERROR_USAGE && is_code(&result, "T0404"));
  tenon_ffi_any_release(&result);
}

static TenonAny number(float value) {
  static float data[1];
  static int64_t shape[1] = {1};
  const DLTensor t = {data, {kDLCPU, 0}, 1, tenon_dtype("float32"), shape, NULL, 0};
  TenonAny result;
  data[0] = value;
  OK(tenon_ffi_tensor(&t, NULL, NULL, &result));
  return result;
}
static float value_of(TenonAny* tensor) {
  DLTensor view;
  EXPECT(tenon_ffi_tensor_view(tensor->v.object, &view));
  const float value = *(const float*)view.data;
  tenon_ffi_any_release(tensor);
  return value;
}

static TenonStatus add(void* self, const TenonAny* arguments, int32_t count, TenonAny* result) {
  int64_t sum = *(int64_t*)self;
  for (int32_t i = 0; i < count; ++i) {
    if (arguments[i].tag != TENON_INT) {
      const TenonErrorInfo e = {
          TENON_ERROR_USAGE, "T0102", "it adds integers", "", "give integers", NULL, NULL, NULL};
      tenon_ffi_error(&e, result);
      tenon_ffi_error_passed(result->v.object, "test_ffi.c", 7, "add");
      return TENON_ERROR_USAGE;
    }
    sum += arguments[i].v.i;
  }
  *result = tenon_any_int(sum);
  return TENON_OK;
}
static void count_destroyed(void* self) { *(int64_t*)self += 1000; }

static void functions(void) {
  int64_t start = 10;
  TenonAny result, f, two[2];
  OK(tenon_ffi_function(add, &start, count_destroyed, &result));
  f = result;
  two[0] = tenon_any_int(1);
  two[1] = tenon_any_int(2);
  OK(tenon_ffi_call(f.v.object, two, 2, &result));
  EXPECT(result.tag == TENON_INT && result.v.i == 13);

  const TenonFunctionInfo info = {"test.add", "test_ffi.c", 42, "adds"};
  OK(tenon_ffi_function_set(&info, f.v.object, 0, &result));
  EXPECT(tenon_ffi_function_set(&info, f.v.object, 0, &result) == TENON_ERROR_USAGE &&
         is_code(&result, "T0103"));
  tenon_ffi_any_release(&result);
  OK(tenon_ffi_function_set(&info, f.v.object, 1, &result));
  tenon_ffi_any_release(&f);
  OK(tenon_ffi_function_get("test.add", &result));
  f = result;
  OK(tenon_ffi_function_info("test.add", &result));
  size_t n;
  EXPECT(tenon_ffi_array_items(result.v.object, &n)[2].v.i == 42 && n == 4);
  tenon_ffi_any_release(&result);
  OK(tenon_ffi_function_names("test.", &result));
  (void)tenon_ffi_array_items(result.v.object, &n);
  EXPECT(n == 1);
  tenon_ffi_any_release(&result);

  /* An error goes through C++ and stays the same object's words. */
  two[1] = tenon_any_float(2);
  EXPECT(tenon_ffi_call(f.v.object, two, 2, &result) == TENON_ERROR_USAGE && is_code(&result, "T0102"));
  TenonErrorInfo e;
  tenon_ffi_error_info(result.v.object, &e);
  EXPECT(!strcmp(e.hint, "give integers") && strstr(e.traceback, "test_ffi.c:7, in add") && !e.foreign);
  tenon_ffi_any_release(&result);

  tenon_ffi_function_remove("test.add");
  OK(tenon_ffi_function_get("test.add", &result));
  EXPECT(result.tag == TENON_NONE && start == 10);
  tenon_ffi_any_release(&f);
  EXPECT(start == 1010);
  OK(tenon_ffi_string("x", 1, &result));
  EXPECT(tenon_ffi_call(result.v.object, two, 0, &f) == TENON_ERROR_USAGE && is_code(&f, "T0102"));
  tenon_ffi_any_release(&result);
  tenon_ffi_any_release(&f);
}

static void foreign(void) {
  TenonAny result;
  int here = 0;
  OK(tenon_ffi_foreign(&here, release, &result));
  EXPECT(tenon_ffi_foreign_handle(result.v.object, release) == &here);
  EXPECT(tenon_ffi_foreign_handle(result.v.object, free) == NULL);
  tenon_ffi_any_release(&result);
  EXPECT(here == 1);
}

/* An object of the compiler: its fields, a change in a copy, a refusal. */
static void nodes(void) {
  TenonAny result, node, f, text;
  EXPECT(tenon_ffi_type_index("tir.IntImm") == 0);
  OK(tenon_ffi_load_compiler(&result));
  const uint32_t index = tenon_ffi_type_index("tir.IntImm");
  const TenonTypeInfo* type = tenon_ffi_type(index);
  EXPECT(type && !strcmp(type->key, "tir.IntImm") && type->num_fields == 2);
  EXPECT(!strcmp(tenon_ffi_type(type->parent)->key, "tir.PrimExpr"));
  EXPECT(!strcmp(type->fields[1].name, "value") && !strcmp(type->fields[1].type, "int"));
  EXPECT(tenon_ffi_types(NULL, 0) > 90);
  OK(tenon_ffi_function_get("ir.from_json", &f));
  const char* json =
      "{\"root\": {\"n\": 0}, \"nodes\": [{\"@\": \"tir.IntImm\", \"dtype\": \"int32\", \"value\": 5}]}";
  OK(tenon_ffi_string(json, strlen(json), &text));
  OK(tenon_ffi_call(f.v.object, &text, 1, &node));
  EXPECT(node.tag == index);
  OK(tenon_ffi_field_get(node.v.object, &type->fields[1], &result));
  EXPECT(result.tag == TENON_INT && result.v.i == 5);
  TenonAny copy, six = tenon_any_int(6), none = tenon_any_none();
  OK(tenon_ffi_copy(node.v.object, &copy));
  OK(tenon_ffi_field_set(copy.v.object, &type->fields[1], &six, &result));
  OK(tenon_ffi_field_get(copy.v.object, &type->fields[1], &result));
  EXPECT(result.v.i == 6);
  EXPECT(tenon_ffi_field_set(copy.v.object, &type->fields[1], &none, &result) && is_code(&result, "T0102"));
  tenon_ffi_any_release(&result);
  tenon_ffi_retain(copy.v.object);
  EXPECT(tenon_ffi_field_set(copy.v.object, &type->fields[1], &six, &result) && is_code(&result, "T0106"));
  tenon_ffi_any_release(&result);
  tenon_ffi_release(copy.v.object);
  tenon_ffi_any_release(&copy);
  tenon_ffi_any_release(&node);
  EXPECT(tenon_ffi_copy(f.v.object, &result) == TENON_OK || is_code(&result, "T0107"));
  tenon_ffi_any_release(&result);
  tenon_ffi_any_release(&text);
  tenon_ffi_any_release(&f);
}

/* ---- Compiled models. */

static TenonAny text_of(const char* text) {
  TenonAny result;
  OK(tenon_ffi_string(text, strlen(text), &result));
  return result;
}
/* Calls a function of the registry; its arguments are released. */
static TenonAny called(const char* name, TenonAny* arguments, int32_t count) {
  TenonAny result, f;
  OK(tenon_ffi_function_get(name, &result));
  f = result;
  OK(tenon_ffi_call(f.v.object, arguments, count, &result));
  tenon_ffi_any_release(&f);
  for (int32_t i = 0; i < count; ++i) tenon_ffi_any_release(&arguments[i]);
  return result;
}
/* main(x) = 2 * x, as an object of the type "Artifact". */
static TenonAny compiled_double(void) {
  TenonAny result, arguments[1], pairs[4], found;
  arguments[0] =
      text_of("@R.function\ndef main(x: R.Tensor((1,), 'float32')):\n    y = R.add(x, x)\n    return y\n");
  pairs[0] = text_of("module");
  pairs[1] = called("ir.parse", arguments, 1);
  pairs[2] = text_of("emit");
  pairs[3] = text_of("jit");
  OK(tenon_ffi_map(pairs, 2, &result));
  arguments[0] = result;
  for (int i = 0; i < 4; ++i) tenon_ffi_any_release(&pairs[i]);
  TenonAny reply = called("compiler.compile", arguments, 1), key = text_of("artifact");
  found = *tenon_ffi_map_find(reply.v.object, &key);
  tenon_ffi_any_retain(&found);
  tenon_ffi_any_release(&key);
  tenon_ffi_any_release(&reply);
  return found;
}

/* What an instrument sees, and what it answers. */
static struct {
  int before, after;
  int32_t arguments;
  int skip, fail;
} seen;
static TenonStatus watch(void* self, const TenonAny* arguments, int32_t count, TenonAny* result) {
  (void)self;
  size_t n;
  EXPECT(count >= 3 && tenon_ffi_text(arguments[0].v.object, &n) && arguments[1].tag == TENON_BOOL);
  *(arguments[1].v.i ? &seen.before : &seen.after) += 1;
  EXPECT(!arguments[1].v.i || arguments[2].tag == TENON_NONE);
  seen.arguments = count - 3;
  if (seen.fail) {
    const TenonErrorInfo e = {TENON_ERROR_LIMIT, "T0351", "enough", "", "", NULL, NULL, NULL};
    tenon_ffi_error(&e, result);
    return TENON_ERROR_LIMIT;
  }
  *result = tenon_any_bool(seen.skip && arguments[1].v.i);
  return TENON_OK;
}

static float run_on(TenonSession* session, const char* function, float value) {
  TenonAny result, x = number(value);
  OK(tenon_ffi_session_call(session, function, &x, 1, &result));
  tenon_ffi_any_release(&x);
  return value_of(&result);
}

static void instruments(TenonSession* session) {
  TenonAny result, f, x = number(3);
  OK(tenon_ffi_function(watch, NULL, NULL, &result));
  f = result;
  OK(tenon_ffi_session_set_instrument(session, f.v.object, &result));
  EXPECT(run_on(session, NULL, 3) == 6 && seen.before >= 1 && seen.before == seen.after &&
         seen.arguments >= 1);
  seen.fail = 1;
  EXPECT(tenon_ffi_session_call(session, NULL, &x, 1, &result) == TENON_ERROR_LIMIT &&
         is_code(&result, "T0351"));
  tenon_ffi_any_release(&result);
  seen.fail = 0, seen.skip = 1, seen.after = 0;
  OK(tenon_ffi_session_call(session, NULL, &x, 1, &result)); /* what was left out gives no values */
  tenon_ffi_any_release(&result);
  EXPECT(seen.after == 0);
  EXPECT(tenon_ffi_session_set_instrument(session, x.v.object, &result) == TENON_ERROR_USAGE &&
         is_code(&result, "T0102"));
  tenon_ffi_any_release(&result);
  const int count = seen.before;
  OK(tenon_ffi_session_set_instrument(session, NULL, &result));
  EXPECT(run_on(session, "main", 4) == 8 && seen.before == count);
  EXPECT(tenon_ffi_use_count(f.v.object) == 1);
  EXPECT(tenon_ffi_session_set_instrument(NULL, NULL, &result) == TENON_ERROR_USAGE &&
         is_code(&result, "T0514"));
  tenon_ffi_any_release(&result);
  tenon_ffi_any_release(&f);
  tenon_ffi_any_release(&x);
}

static void models(void) {
  TenonAny result, object = compiled_double(), x = number(1);
  TenonArtifact* artifact;
  TenonSession* session;
  EXPECT(tenon_ffi_artifact(x.v.object, &artifact, &result) == TENON_ERROR_USAGE &&
         is_code(&result, "T0102") && !artifact);
  tenon_ffi_any_release(&result);
  OK(tenon_ffi_artifact(object.v.object, &artifact, &result));
  tenon_ffi_any_release(&object);
  OK(tenon_ffi_artifact_functions(artifact, &result));
  size_t n;
  const TenonAny* names = tenon_ffi_array_items(result.v.object, &n);
  EXPECT(n >= 1 && !strcmp(tenon_ffi_text(names[0].v.object, &n), "main"));
  tenon_ffi_any_release(&result);
  EXPECT(tenon_session_create(artifact, NULL, &session) == TENON_OK);
  tenon_artifact_release(artifact);
  EXPECT(run_on(session, NULL, 3) == 6 && run_on(session, "main", 5) == 10);
  EXPECT(tenon_ffi_session_call(session, "other", &x, 1, &result) == TENON_ERROR_USAGE &&
         is_code(&result, "T0503"));
  tenon_ffi_any_release(&result);
  EXPECT(tenon_ffi_session_call(session, NULL, NULL, 0, &result) == TENON_ERROR_USAGE);
  tenon_ffi_any_release(&result);
  instruments(session);
  tenon_ffi_any_release(&x);
  tenon_session_release(session);
}

int main(int argc, char** argv) {
  EXPECT(tenon_ffi_version() == TENON_FFI_VERSION);
  values_and_containers();
  tensors();
  functions();
  foreign();
  if (argc < 2 || strcmp(argv[1], "--runtime")) { /* --runtime: without the compiler */
    nodes();
    models();
  }
  puts("ok");
  return 0;
}
