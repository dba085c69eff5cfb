/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <tenon/tenon.h>

static int die(const char* what) {
  const TenonError* e = tenon_last_error();
  fprintf(stderr, "%s: %s %s\n", what, e->code, e->message);
  return 1;
}

int main(int argc, char** argv) {
  TenonArtifact* model = NULL;
  TenonSession* session = NULL;
  float a[8], b[8], sum[8];
  int64_t shape[2] = {2, 4};
  int i;
  if (argc != 2) return 2;
  if (tenon_artifact_load(argv[1], 0, &model)) return die("load");
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
  printf("tenon %s: right\n", tenon_version());
  return 0;
}
