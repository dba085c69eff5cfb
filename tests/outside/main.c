/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

static int die(const char* what) {
  const TenonError* e = tenon_last_error();
  fprintf(stderr, "%s: %s %s\n", what, e->code, e->message);
  return 1;
}

/* Does this process hold the library? */
static int holds(const char* library) {
  char line[4096];
  int found = 0;
  FILE* maps = fopen("/proc/self/maps", "r");
  while (maps && fgets(line, sizeof line, maps)) found |= strstr(line, library) != NULL;
  if (maps) fclose(maps);
  return found;
}

/* Sums of tensors: the runtime alone. */
static int add(const char* path) {
  TenonArtifact* model = NULL;
  TenonSession* session = NULL;
  float a[8], b[8], sum[8];
  int64_t shape[2] = {2, 4};
  int i;
  if (tenon_artifact_load(path, 0, &model)) return die("load");
  if (tenon_session_create(model, NULL, &session)) return die("session");
  for (i = 0; i < 8; ++i) a[i] = (float)i, b[i] = 2;
  if (tenon_session_set_input_data(session, 0, a, tenon_dtype("float32"), 2, shape)) return die("input");
  if (tenon_session_set_input_data(session, 1, b, tenon_dtype("float32"), 2, shape)) return die("input");
  if (tenon_session_set_output_data(session, 0, sum, tenon_dtype("float32"), 2, shape)) return die("output");
  if (tenon_session_run(session)) return die("run");
  for (i = 0; i < 8; ++i)
    if (sum[i] != (float)i + 2.5f) return die("wrong result");
  tenon_session_release(session);
  tenon_artifact_release(model);
  return 0;
}

/* A list of tensors: the runtime loads what it needs for them. */
static int lists(const char* path) {
  TenonArtifact* model = NULL;
  TenonSession* session = NULL;
  float x[2] = {3, 4}, y[4] = {0};
  int64_t in[1] = {2}, out[2] = {2, 2};
  if (tenon_artifact_load(path, 0, &model)) return die("load");
  if (tenon_session_create(model, NULL, &session)) return die("session");
  if (tenon_session_set_input_data(session, 0, x, tenon_dtype("float32"), 1, in)) return die("input");
  if (tenon_session_set_output_data(session, 0, y, tenon_dtype("float32"), 2, out)) return die("output");
  if (tenon_session_run(session)) return die("run");
  if (y[0] != 3 || y[1] != 4 || y[2] != 3 || y[3] != 4) return die("wrong result");
  tenon_session_release(session);
  tenon_artifact_release(model);
  return 0;
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  if (add(argv[1])) return 1;
  if (holds("libtenon_sequence")) return fprintf(stderr, "a model of tensors loaded libtenon_sequence\n"), 1;
  if (lists(argv[2])) return 1;
  if (!holds("libtenon_sequence")) return fprintf(stderr, "lists came from elsewhere\n"), 1;
  printf("tenon %s: right\n", tenon_version());
  return 0;
}
