/* SPDX-License-Identifier: Apache-2.0
 * Time of one call of a one-operator model through the C interface: session_run with bound input and output;
 * and of one kernel called by the VM, as the difference that more kernels make.
 *   call_overhead ARTIFACT [CHAIN KERNELS]   prints nanoseconds, the best of 400 short rounds */
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>
#include <time.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}
static double failed(const char* what) {
  fprintf(stderr, "%s: %s: %s\n", what, tenon_last_error()->code, tenon_last_error()->message);
  return -1;
}

/* Nanoseconds per run of a model from four floats to four floats; negative: it failed. */
static double time_model(const char* path, int calls, float* y) {
  TenonArtifact* model;
  TenonSession* session;
  float x[4] = {-1, 2, -3, 4};
  const int64_t shape[] = {4};
  double best = 1e30;
  if (tenon_artifact_load(path, 0, &model)) return failed("load");
  if (tenon_session_create(model, NULL, &session)) return failed("session");
  if (tenon_session_set_input_data(session, 0, x, tenon_dtype("float32"), 1, shape)) return failed("input");
  if (tenon_session_set_output_data(session, 0, y, tenon_dtype("float32"), 1, shape)) return failed("output");
  for (int round = 0; round < 400; ++round) {
    const double start = now();
    for (int i = 0; i < calls; ++i)
      if (tenon_session_run(session)) return failed("run");
    const double each = (now() - start) / calls;
    if (each < best) best = each;
  }
  tenon_session_release(session);
  tenon_artifact_release(model);
  return best;
}

int main(int argc, char** argv) {
  float y[4];
  if (argc != 2 && argc != 4) return 2;
  const double one = time_model(argv[1], 5000, y);
  if (one < 0 || y[0] != 0 || y[3] != 4) return 1;
  printf("%.0f ns per call of a one-operator model\n", one);
  if (argc == 4) {
    const int kernels = atoi(argv[3]);
    const double all = time_model(argv[2], 50, y);
    if (all < 0 || kernels < 2) return 1;
    printf("%.1f ns per kernel called by the VM, of %d in a row\n", (all - one) / (kernels - 1), kernels);
  }
  return 0;
}
