/* SPDX-License-Identifier: Apache-2.0
 * Kernels as the compiler would emit them, for tests of the artifact file. */
#include "runtime/kernel.h"

/* c[i] = a[i] + b[i], n in scalars[0] */
int32_t test_add(void* const* buffers, const int64_t* scalars, const TenonKernelContext* context) {
  const float *a = buffers[0], *b = buffers[1];
  float* c = buffers[2];
  (void)context;
  for (int64_t i = 0; i < scalars[0]; ++i) c[i] = a[i] + b[i];
  return 0;
}

/* b[i] = 2 a[i], with scratch memory, in parallel */
struct Closure {
  const float* from;
  float* to;
};
static int32_t scale_body(void* closure, int64_t begin, int64_t end, const TenonKernelContext* context) {
  const struct Closure* c = closure;
  (void)context;
  for (int64_t i = begin; i < end; ++i) c->to[i] = 2 * c->from[i];
  return 0;
}
int32_t test_scale(void* const* buffers, const int64_t* scalars, const TenonKernelContext* context) {
  struct Closure c = {buffers[0], buffers[1]};
  return context->parallel_for(context, scale_body, &c, scalars[0], 1000);
}
