/* SPDX-License-Identifier: Apache-2.0
 * The stable C interface of Tenon's runtime: load a compiled model, make a session, run it.
 *
 *   TenonArtifact* model;
 *   TenonSession* session;
 *   if (tenon_artifact_load("model.tenon", 0, &model)) die(tenon_last_error());
 *   tenon_session_create(model, NULL, &session);
 *   float x[1 * 1 * 28 * 28] = {…}, y[10];
 *   int64_t x_shape[] = {1, 1, 28, 28}, y_shape[] = {1, 10};
 *   tenon_session_set_input_data(session, 0, x, tenon_dtype("float32"), 4, x_shape);
 *   tenon_session_set_output_data(session, 0, y, tenon_dtype("float32"), 2, y_shape);
 *   if (tenon_session_run(session)) die(tenon_last_error());
 *
 * Rules. Functions return TENON_OK or the kind of an error, whose words are in tenon_last_error() of the same
 * thread. No function throws, prints or ends the process. An artifact may be used by any number of threads; a
 * session by one thread at a time (tenon_session_cancel excepted). An artifact may be released while its
 * sessions live, and a session while tensors taken from it live. Structures that may grow begin with their
 * size. What is declared here stays as it is; TENON_API_VERSION grows when something is added. */
#ifndef TENON_TENON_H_
#define TENON_TENON_H_

#include <stddef.h>
#include <stdint.h>
#include <tenon/dlpack.h>

#if defined(__GNUC__)
#define TENON_API __attribute__((visibility("default")))
#else
#define TENON_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_API_VERSION 3

/* The same numbers as the command's exit codes. */
typedef enum TenonStatus {
  TENON_OK = 0,
  TENON_ERROR_USAGE = 2,        /* a wrong argument, name, type or shape */
  TENON_ERROR_MODEL = 3,        /* a file or model that cannot be used */
  TENON_ERROR_LIMIT = 4,        /* memory, depth or time */
  TENON_ERROR_IO = 5,           /* the system could not read or write */
  TENON_ERROR_INTERNAL = 70,    /* a bug of Tenon */
  TENON_ERROR_INTERRUPTED = 130 /* the call was cancelled */
} TenonStatus;

/* Texts are never null; they may be empty. */
typedef struct TenonError {
  const char* code;     /* stable, for example "T0505" */
  const char* message;  /* one sentence */
  const char* location; /* where, or "" */
  const char* hint;     /* what to do, or "" */
} TenonError;

/* The last error of this thread; valid until its next failing call. */
TENON_API const TenonError* tenon_last_error(void);

TENON_API int32_t tenon_api_version(void);
TENON_API const char* tenon_version(void); /* for example "0.1.0" */

/* The type of a name such as "float32", "int64", "bfloat16", "bool"; bits 0 if the name is unknown. */
TENON_API DLDataType tenon_dtype(const char* name);

/* ---- Artifacts: compiled models, immutable. */

typedef struct TenonArtifact TenonArtifact;

typedef enum TenonLoadFlags {
  TENON_LOAD_CHECK = 1, /* also verify the hash of every constant */
  TENON_LOAD_COPY = 2   /* into memory: the file may be cut short or overwritten while it is in use */
} TenonLoadFlags;

/* `path` is a file (an artifact, or a graph of operators with its artifact beside it), or "system:NAME": a
 * model that is linked into this program ("system" alone when there is one). */
TENON_API TenonStatus tenon_artifact_load(const char* path, uint32_t flags, TenonArtifact** artifact);
TENON_API void tenon_artifact_release(TenonArtifact* artifact); /* null is allowed */

/* An input or output. The memory belongs to the artifact. */
typedef struct TenonValueInfo {
  const char* name;
  DLDataType dtype;
  int32_t ndim;               /* -1: any number of dimensions */
  const int64_t* dims;        /* -1: a symbolic dimension */
  const char* const* symbols; /* its name; "" for fixed and nameless dimensions */
} TenonValueInfo;

TENON_API int32_t tenon_artifact_num_inputs(const TenonArtifact* artifact);
TENON_API int32_t tenon_artifact_num_outputs(const TenonArtifact* artifact);
TENON_API TenonStatus tenon_artifact_input(const TenonArtifact* artifact, int32_t index,
                                           TenonValueInfo* info);
TENON_API TenonStatus tenon_artifact_output(const TenonArtifact* artifact, int32_t index,
                                            TenonValueInfo* info);
/* What the compiler recorded under a name ("compiler", "target", "model_hash", …); null if nothing. */
TENON_API const char* tenon_artifact_metadata(const TenonArtifact* artifact, const char* key);

/* ---- Sessions: runners of an artifact. */

typedef struct TenonSession TenonSession;

typedef struct TenonSessionOptions {
  size_t size;          /* sizeof(TenonSessionOptions) */
  int32_t threads;      /* 0: all cores this process may use */
  int32_t max_depth;    /* nested calls inside the model; 0: the default */
  int64_t memory_limit; /* bytes; 0: none */
} TenonSessionOptions;

/* Options may be null. */
TENON_API TenonStatus tenon_session_create(TenonArtifact* artifact, const TenonSessionOptions* options,
                                           TenonSession** session);
TENON_API void tenon_session_release(TenonSession* session); /* null is allowed */
TENON_API TenonStatus tenon_session_set_threads(TenonSession* session, int32_t threads);
TENON_API TenonStatus tenon_session_set_memory_limit(TenonSession* session, int64_t bytes);

/* Index of the input with this name, or -1. */
TENON_API int32_t tenon_session_input_index(const TenonSession* session, const char* name);

/* Inputs. Nothing is copied: the data must stay valid until the run has ended (for the next runs too, unless
 * it is set anew). Tensors must be compact, row-major, in CPU memory. A null tensor takes the input back. */
TENON_API TenonStatus tenon_session_set_input(TenonSession* session, int32_t index, const DLTensor* tensor);
TENON_API TenonStatus tenon_session_set_input_data(TenonSession* session, int32_t index, const void* data,
                                                   DLDataType dtype, int32_t ndim, const int64_t* shape);
/* Takes the tensor over: its deleter is called when the input is set anew or the session ends. On an error
 * the tensor stays the caller's. */
TENON_API TenonStatus tenon_session_give_input(TenonSession* session, int32_t index,
                                               DLManagedTensorVersioned* tensor);

/* Optional buffers that outputs are written to, under the same conditions. Their content is undefined after a
 * run that failed. */
TENON_API TenonStatus tenon_session_set_output(TenonSession* session, int32_t index, const DLTensor* tensor);
TENON_API TenonStatus tenon_session_set_output_data(TenonSession* session, int32_t index, void* data,
                                                    DLDataType dtype, int32_t ndim, const int64_t* shape);

TENON_API TenonStatus tenon_session_run(TenonSession* session);
/* From any thread: the running call, or the next one, ends with TENON_ERROR_INTERRUPTED. */
TENON_API void tenon_session_cancel(TenonSession* session);

/* Number of outputs of the last run. */
TENON_API int32_t tenon_session_num_outputs(const TenonSession* session);
/* A view of an output of the last run, valid until the next run or the release of the session. */
TENON_API TenonStatus tenon_session_get_output(TenonSession* session, int32_t index, DLTensor* tensor);
/* The output itself, for the caller to keep and delete; it is then no longer in the session. */
TENON_API TenonStatus tenon_session_take_output(TenonSession* session, int32_t index,
                                                DLManagedTensorVersioned** tensor);

/* ---- Modules: artifacts whose functions are called by name, and that may import one another's. */

typedef struct TenonModule TenonModule;
typedef struct TenonFunction TenonFunction;

/* Names that the artifact calls and does not have (`call_packed`) are looked for in `imports`, in order, and
 * then in the registry, once and here. A module may be used by several threads. */
TENON_API TenonStatus tenon_module_load(const char* path, uint32_t flags, TenonModule* const* imports,
                                        int32_t num_imports, TenonModule** module);
TENON_API void tenon_module_release(TenonModule* module); /* null is allowed */
/* Adds an import whose functions are found by tenon_module_function; a cycle is refused (T0612). */
TENON_API TenonStatus tenon_module_import(TenonModule* module, TenonModule* imported);
TENON_API int32_t tenon_module_num_imports(const TenonModule* module);
TENON_API TenonStatus tenon_module_get_import(const TenonModule* module, int32_t index, TenonModule** import);
TENON_API int32_t tenon_module_num_functions(const TenonModule* module);
TENON_API const char* tenon_module_function_name(const TenonModule* module, int32_t index); /* or null */
/* Writes the artifact, and its imports beside it. Only what came from a file can be saved (T0613). */
TENON_API TenonStatus tenon_module_save(const TenonModule* module, const char* path);
/* Looked up here, not when it is called. `imports` not 0: also in imports, depth first. T0503: none. */
TENON_API TenonStatus tenon_module_function(TenonModule* module, const char* name, int32_t imports,
                                            TenonFunction** function);
TENON_API void tenon_function_release(TenonFunction* function); /* null is allowed */
/* Calls with tensors and gives the tensors of the result, parts of tuples in order, for the caller to delete.
 * `num_outputs`: the room in `outputs`, then how many there are. Several threads may call at once. */
TENON_API TenonStatus tenon_function_call(TenonFunction* function, const DLTensor* inputs, int32_t num_inputs,
                                          DLManagedTensorVersioned** outputs, int32_t* num_outputs);

/* ---- The system library: models that are linked into a program (`tenon compile --emit obj --system-lib
 * NAME`, or `--emit c`). They register themselves when the program starts; where a linker leaves out what
 * nobody names, call tenon_register_NAME(). */

typedef struct TenonSystemLibrary {
  size_t size; /* sizeof(TenonSystemLibrary) */
  uint32_t format, kernel_abi;
  const char* name;
  const void* tables;
  uint64_t tables_bytes;
  const void* const* constants;
  uint64_t num_constants;
  const char* const* kernel_names;
  void (*const* kernels)(void);
  uint64_t num_kernels;
} TenonSystemLibrary;

/* The library stays the caller's and must live as long as the process. Again with the same one: nothing. */
TENON_API TenonStatus tenon_system_register(const TenonSystemLibrary* library);

/* Called behind every step of a run, in its thread; null: off. */
typedef void (*TenonProfile)(void* user, const char* name, double milliseconds);
TENON_API TenonStatus tenon_session_set_profile(TenonSession* session, TenonProfile profile, void* user);

#ifdef __cplusplus
}
#endif

#endif /* TENON_TENON_H_ */
