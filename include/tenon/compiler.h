/* SPDX-License-Identifier: Apache-2.0
 * The stable C interface of Tenon's compiler (libtenon_compiler): a model file in, an artifact out. Errors
 * are reported as in tenon.h. What it makes is run with tenon.h alone; the compiler need not be installed
 * there. */
#ifndef TENON_COMPILER_H_
#define TENON_COMPILER_H_

#include <tenon/tenon.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct TenonCompileOptions {
  size_t size;                  /* sizeof(TenonCompileOptions) */
  const char* target;           /* for example "llvm -mcpu=x86-64-v3"; null: this machine */
  int32_t opt_level;            /* 0 to 3 */
  int32_t threads;              /* of the compiler; 0: all cores this process may use */
  int64_t memory_limit;         /* bytes of the model's arena; 0: none */
  int32_t num_dims;             /* symbolic dimensions that get a value … */
  const char* const* dim_names; /* … their names … */
  const int64_t* dim_values;    /* … and sizes */
  /* Since 3: inputs that are fixed and become constants, their names, and their values, which are copied. */
  int32_t num_bound;
  const char* const* bound_names;
  const DLTensor* const* bound_values;
} TenonCompileOptions;

/* This machine, level 2, nothing else: what a null pointer means too. */
TENON_API TenonCompileOptions tenon_compile_defaults(void);

/* Compiles an ONNX or script file and writes the artifact. */
TENON_API TenonStatus tenon_compile_file(const char* model, const char* artifact,
                                         const TenonCompileOptions* options);

/* Compiles into this process, without a file. */
TENON_API TenonStatus tenon_compile_load(const char* model, const TenonCompileOptions* options,
                                         TenonArtifact** artifact);

#ifdef __cplusplus
}
#endif

#endif /* TENON_COMPILER_H_ */
