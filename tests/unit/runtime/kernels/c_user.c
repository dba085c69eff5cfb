/* SPDX-License-Identifier: Apache-2.0
 * A user of the C interface, compiled as C. Returns 0, or the line of the first thing that went wrong. */
#include <math.h>
#include <string.h>
#include <tenon/tenon.h>

int c_user_run(const char* path);
int c_user_mistakes(const char* path);

#define EXPECT(condition) \
  if (!(condition)) return __LINE__

static int steps;
static void count_steps(void* user, const char* name, double milliseconds) {
  if (name[0] && milliseconds >= 0 && user == &steps) ++steps;
}

static int deleted;
static void delete_input(struct DLManagedTensorVersioned* self) {
  (void)self;
  ++deleted;
}

int c_user_run(const char* path) {
  TenonArtifact* model = NULL;
  TenonSession* session = NULL;
  EXPECT(tenon_api_version() == TENON_API_VERSION);
  EXPECT(strlen(tenon_version()) > 0);
  EXPECT(tenon_artifact_load(path, TENON_LOAD_CHECK, &model) == TENON_OK);
  EXPECT(tenon_artifact_num_inputs(model) == 2 && tenon_artifact_num_outputs(model) == 1);
  TenonValueInfo info;
  EXPECT(tenon_artifact_input(model, 1, &info) == TENON_OK);
  EXPECT(strcmp(info.name, "b") == 0 && info.ndim == 2 && info.dims[0] == 2 && info.dims[1] == 4);
  EXPECT(info.dtype.code == kDLFloat && info.dtype.bits == 32 && strcmp(info.symbols[0], "") == 0);
  EXPECT(strcmp(tenon_artifact_metadata(model, "compiler"), "test") == 0);
  EXPECT(tenon_artifact_metadata(model, "nothing") == NULL);

  TenonSessionOptions options = {sizeof options, 1, 0, 0};
  EXPECT(tenon_session_create(model, &options, &session) == TENON_OK);
  tenon_artifact_release(model); /* the session keeps it */

  float a[8], b[8], out[8];
  int64_t shape[2] = {2, 4};
  for (int i = 0; i < 8; ++i) a[i] = (float)i, b[i] = 10;
  DLTensor tensor = {a, {kDLCPU, 0}, 2, tenon_dtype("float32"), shape, NULL, 0};
  EXPECT(tenon_session_input_index(session, "b") == 1 && tenon_session_input_index(session, "x") == -1);
  EXPECT(tenon_session_set_input(session, 0, &tensor) == TENON_OK);
  EXPECT(tenon_session_set_input_data(session, 1, b, tenon_dtype("float32"), 2, shape) == TENON_OK);
  EXPECT(tenon_session_run(session) == TENON_OK);
  EXPECT(tenon_session_num_outputs(session) == 1);
  DLTensor view;
  EXPECT(tenon_session_get_output(session, 0, &view) == TENON_OK);
  EXPECT(view.ndim == 2 && view.shape[1] == 4);
  for (int i = 0; i < 8; ++i) EXPECT(((float*)view.data)[i] == (float)i + 10.5f);

  /* Ownership of an output outlives the session. */
  DLManagedTensorVersioned *taken, *none;
  EXPECT(tenon_session_take_output(session, 0, &taken) == TENON_OK);
  EXPECT(taken->version.major == 1 && taken->dl_tensor.strides[0] == 4 && taken->dl_tensor.strides[1] == 1);
  EXPECT(tenon_session_take_output(session, 0, &none) == TENON_ERROR_USAGE && none == NULL);
  taken->deleter(taken);
  EXPECT(tenon_session_run(session) == TENON_OK);
  EXPECT(tenon_session_take_output(session, 0, &taken) == TENON_OK);

  /* The caller's buffer, and inputs that are not copied. */
  EXPECT(tenon_session_set_output_data(session, 0, out, tenon_dtype("float32"), 2, shape) == TENON_OK);
  EXPECT(tenon_session_set_profile(session, count_steps, &steps) == TENON_OK);
  a[3] = 100;
  EXPECT(tenon_session_run(session) == TENON_OK);
  EXPECT(out[3] == 110.5f && steps == 3);
  EXPECT(tenon_session_set_profile(session, NULL, NULL) == TENON_OK);

  /* A given input is deleted once, when it is replaced. */
  DLManagedTensorVersioned managed;
  memset(&managed, 0, sizeof managed);
  managed.version.major = DLPACK_MAJOR_VERSION;
  managed.dl_tensor = tensor;
  managed.deleter = delete_input;
  EXPECT(tenon_session_give_input(session, 1, &managed) == TENON_OK);
  EXPECT(tenon_session_run(session) == TENON_OK);
  EXPECT(out[3] == 200.5f && deleted == 0);
  EXPECT(tenon_session_set_input_data(session, 1, b, tenon_dtype("float32"), 2, shape) == TENON_OK);
  EXPECT(deleted == 1);

  tenon_session_cancel(session);
  EXPECT(tenon_session_run(session) == TENON_ERROR_INTERRUPTED);
  EXPECT(tenon_session_run(session) == TENON_OK);
  EXPECT(tenon_session_set_threads(session, 2) == TENON_OK);
  tenon_session_release(session);
  EXPECT(fabs(((float*)taken->dl_tensor.data)[7] - 17.5f) == 0);
  taken->deleter(taken);
  return 0;
}

int c_user_mistakes(const char* path) {
  TenonArtifact* model = NULL;
  TenonSession* session = NULL;
  EXPECT(tenon_artifact_load("/no/such/file", 0, &model) == TENON_ERROR_IO && model == NULL);
  EXPECT(strcmp(tenon_last_error()->code, "T3001") == 0);
  EXPECT(strcmp(tenon_last_error()->location, "/no/such/file") == 0);
  EXPECT(tenon_artifact_load(NULL, 0, &model) == TENON_ERROR_USAGE);
  EXPECT(tenon_artifact_load(path, 64, &model) == TENON_ERROR_USAGE);
  EXPECT(tenon_artifact_load(path, 0, NULL) == TENON_ERROR_USAGE);
  EXPECT(tenon_artifact_load(path, 0, &model) == TENON_OK);
  TenonValueInfo info;
  EXPECT(tenon_artifact_input(model, 2, &info) == TENON_ERROR_USAGE);
  EXPECT(tenon_artifact_output(model, -1, &info) == TENON_ERROR_USAGE);
  TenonSessionOptions options = {0, 0, 0, 0};
  EXPECT(tenon_session_create(model, &options, &session) == TENON_ERROR_USAGE && session == NULL);
  EXPECT(tenon_session_create(NULL, NULL, &session) == TENON_ERROR_USAGE);
  EXPECT(tenon_session_create(model, NULL, &session) == TENON_OK);
  EXPECT(tenon_session_run(session) == TENON_ERROR_USAGE);
  EXPECT(strcmp(tenon_last_error()->code, "T0506") == 0);
  EXPECT(strstr(tenon_last_error()->message, "`a` is not set") != NULL);

  float a[16] = {0};
  int64_t shape[2] = {2, 4}, wrong[2] = {4, 2}, negative[2] = {-2, 4};
  int64_t gaps[2] = {8, 1}, compact[2] = {4, 1};
  DLDataType f32 = tenon_dtype("float32");
  EXPECT(tenon_dtype("float33").bits == 0 && tenon_dtype(NULL).bits == 0);
  EXPECT(tenon_session_set_input_data(session, 5, a, f32, 2, shape) == TENON_ERROR_USAGE);
  EXPECT(tenon_session_set_input_data(session, 0, a, f32, 2, NULL) == TENON_ERROR_USAGE);
  EXPECT(tenon_session_set_input_data(session, 0, a, f32, 2, negative) != TENON_OK);
  EXPECT(tenon_session_set_input_data(session, 0, a, f32, -2, shape) == TENON_ERROR_USAGE);
  EXPECT(tenon_session_set_input_data(session, 0, a, f32, 2, wrong) == TENON_OK); /* found by the run */
  EXPECT(tenon_session_set_input_data(session, 1, a, f32, 2, shape) == TENON_OK);
  EXPECT(tenon_session_run(session) == TENON_ERROR_USAGE);
  EXPECT(strcmp(tenon_last_error()->code, "T0505") == 0);
  DLTensor strided = {a, {kDLCPU, 0}, 2, f32, shape, gaps, 0};
  EXPECT(tenon_session_set_input(session, 0, &strided) == TENON_ERROR_USAGE);
  EXPECT(strcmp(tenon_last_error()->code, "T0404") == 0);
  strided.strides = compact;
  strided.byte_offset = 8 * sizeof(float);
  EXPECT(tenon_session_set_input(session, 0, &strided) == TENON_OK);
  EXPECT(tenon_session_run(session) == TENON_OK);
  DLTensor view;
  EXPECT(tenon_session_get_output(session, 3, &view) == TENON_ERROR_USAGE);
  DLTensor gpu = {a, {kDLCUDA, 0}, 2, f32, shape, NULL, 0};
  EXPECT(tenon_session_set_input(session, 0, &gpu) == TENON_OK);
  EXPECT(tenon_session_run(session) == TENON_ERROR_USAGE);
  EXPECT(strcmp(tenon_last_error()->code, "T0506") == 0);
  tenon_session_cancel(NULL);
  tenon_session_release(session);
  tenon_session_release(NULL);
  tenon_artifact_release(model);
  tenon_artifact_release(NULL);
  return 0;
}
