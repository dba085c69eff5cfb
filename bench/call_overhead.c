/* SPDX-License-Identifier: Apache-2.0
 * Time of one call of a one-operator model through the C interface: session_run with bound input and output.
 *   call_overhead ARTIFACT   prints nanoseconds per call, the best of ten rounds */
#include <stdio.h>
#include <tenon/tenon.h>
#include <time.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}
static int failed(const char* what) {
  fprintf(stderr, "%s: %s: %s\n", what, tenon_last_error()->code, tenon_last_error()->message);
  return 1;
}

int main(int argc, char** argv) {
  TenonArtifact* model;
  TenonSession* session;
  float x[4] = {-1, 2, -3, 4}, y[4];
  const int64_t shape[] = {4};
  if (argc != 2) return 2;
  if (tenon_artifact_load(argv[1], 0, &model)) return failed("load");
  if (tenon_session_create(model, NULL, &session)) return failed("session");
  if (tenon_session_set_input_data(session, 0, x, tenon_dtype("float32"), 1, shape)) return failed("input");
  if (tenon_session_set_output_data(session, 0, y, tenon_dtype("float32"), 1, shape)) return failed("output");
  double best = 1e30;
  const int calls = 200000;
  for (int round = 0; round < 10; ++round) {
    const double start = now();
    for (int i = 0; i < calls; ++i)
      if (tenon_session_run(session)) return failed("run");
    const double each = (now() - start) / calls;
    if (each < best) best = each;
  }
  if (y[0] != 0 || y[3] != 4) return 1;
  printf("%.0f ns per call of a one-operator model\n", best);
  tenon_session_release(session);
  tenon_artifact_release(model);
  return 0;
}
