/* SPDX-License-Identifier: Apache-2.0
 * The program around a model that was compiled to an executable (`tenon compile --emit exe`): reads .npy
 * files, runs, writes .npy files. C over tenon.h alone; the compiler carries its object code and links it
 * with the model, whose register function is behind tenon_native_model. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

extern const TenonSystemLibrary* const tenon_native_model;

#if defined(__x86_64__)
/* The entry of the process: no start files of a C compiler are needed to link. */
__asm__(
    ".text\n.globl tenon_native_start\n.type tenon_native_start, @function\ntenon_native_start:\n"
    "  .cfi_startproc\n  .cfi_undefined rip\n"
    "  xorl %ebp, %ebp\n  movq %rdx, %r9\n  popq %rsi\n  movq %rsp, %rdx\n  andq $-16, %rsp\n"
    "  pushq %rax\n  pushq %rsp\n  xorl %r8d, %r8d\n  xorl %ecx, %ecx\n"
    "  leaq tenon_native_main(%rip), %rdi\n  call *__libc_start_main@GOTPCREL(%rip)\n  hlt\n"
    "  .cfi_endproc\n.size tenon_native_start, .-tenon_native_start\n"
    ".section .note.GNU-stack,\"\",@progbits\n.text\n");
#endif

static int fail(const char* code, const char* where, const char* what, int status) {
  fprintf(stderr, "error[%s]: %s\n", code, what);
  if (where && *where) fprintf(stderr, "  --> %s\n", where);
  return status;
}
static int fail_last(TenonStatus status, const char* where) {
  const TenonError* e = tenon_last_error();
  fprintf(stderr, "error[%s]: %s\n", e->code, e->message);
  if (*e->location || where) fprintf(stderr, "  --> %s\n", *e->location ? e->location : where);
  if (*e->hint) fprintf(stderr, "  = help: %s\n", e->hint);
  return (int)status;
}

static const struct {
  char npy[3];
  const char* tenon;
} types[] = {{"f8", "float64"}, {"f4", "float32"}, {"f2", "float16"}, {"i8", "int64"},
             {"i4", "int32"},   {"i2", "int16"},   {"i1", "int8"},    {"u8", "uint64"},
             {"u4", "uint32"},  {"u2", "uint16"},  {"u1", "uint8"},   {"b1", "bool"}};

#define MAX_DIMS 32
typedef struct {
  void* data;
  DLDataType dtype;
  int32_t ndim;
  int64_t shape[MAX_DIMS];
} Tensor;

static size_t bytes_of(DLDataType t, int32_t ndim, const int64_t* shape) {
  size_t n = (size_t)t.bits / 8 * t.lanes;
  int32_t i;
  for (i = 0; i < ndim; ++i) n *= (size_t)shape[i];
  return n;
}

/* 0, or why the file is no readable .npy file. */
static const char* parse_npy(const unsigned char* file, size_t size, Tensor* out, size_t* at) {
  size_t length, begin, i;
  char header[4096], kind[3] = "";
  const char* p;
  uint64_t count = 1;
  if (size < 10 || memcmp(file, "\x93NUMPY", 6) != 0) return "the magic is missing";
  if (file[6] < 1 || file[6] > 3 || (file[6] > 1 && size < 12)) return "an unknown format version";
  begin = file[6] == 1 ? 10 : 12;
  length = file[8] | (size_t)file[9] << 8;
  if (file[6] > 1) length |= (size_t)file[10] << 16 | (size_t)file[11] << 24;
  if (length > size - begin || length >= sizeof header) return "a broken header";
  memcpy(header, file + begin, length);
  header[length] = 0;
  if (strstr(header, "'fortran_order': True")) return "Fortran order: save it in C order";
  p = strstr(header, "'descr': '");
  if (!p || !strchr("<|=", p[10])) return "only plain little-endian numbers and booleans are read";
  kind[0] = p[11];
  kind[1] = p[12];
  if (p[13] != '\'') return "only plain little-endian numbers and booleans are read";
  out->dtype.bits = 0;
  for (i = 0; i < sizeof types / sizeof *types; ++i)
    if (strcmp(types[i].npy, kind) == 0) out->dtype = tenon_dtype(types[i].tenon);
  if (!out->dtype.bits) return "only plain little-endian numbers and booleans are read";
  p = strstr(header, "'shape': (");
  if (!p) return "it has no shape";
  p += 10;
  out->ndim = 0;
  while (*p && *p != ')') {
    char* end;
    const long long n = strtoll(p, &end, 10);
    if (end == p || n < 0 || out->ndim == MAX_DIMS) return "a shape that cannot be read";
    out->shape[out->ndim++] = n;
    if (__builtin_mul_overflow(count, (uint64_t)n, &count)) return "a shape that cannot be read";
    for (p = end; *p == ',' || *p == ' '; ++p) {
    }
  }
  if (count > SIZE_MAX / 8 || bytes_of(out->dtype, out->ndim, out->shape) > size - begin - length)
    return "it ends inside its elements";
  *at = begin + length;
  return NULL;
}

static int read_npy(const char* path, Tensor* out) {
  FILE* f = fopen(path, "rb");
  unsigned char* bytes = NULL;
  size_t size = 0, room = 0, at = 0, n;
  const char* wrong;
  if (!f) return fail("T3001", path, strerror(errno), 5);
  do {
    if (room - size < (size_t)1 << 16) {
      unsigned char* more = (unsigned char*)realloc(bytes, room = room * 2 + ((size_t)1 << 20));
      if (!more) {
        free(bytes);
        fclose(f);
        return fail("T0401", path, "no memory", 4);
      }
      bytes = more;
    }
    n = fread(bytes + size, 1, room - size, f);
    size += n;
  } while (n > 0);
  if (ferror(f)) {
    free(bytes);
    fclose(f);
    return fail("T3001", path, strerror(errno), 5);
  }
  fclose(f);
  wrong = parse_npy(bytes, size, out, &at);
  if (!wrong) {
    n = bytes_of(out->dtype, out->ndim, out->shape);
    out->data = aligned_alloc(64, (n / 64 + 1) * 64);
    if (!out->data) wrong = "no memory";
    if (out->data && n) memcpy(out->data, bytes + at, n);
  }
  free(bytes);
  return wrong ? fail("T3002", path, wrong, 5) : 0;
}

static int write_npy(const char* path, const DLTensor* t) {
  const char* kind = NULL;
  char header[4096], dims[2048] = "";
  size_t i, n, at = 0;
  int32_t d;
  FILE* f;
  for (i = 0; i < sizeof types / sizeof *types; ++i) {
    const DLDataType known = tenon_dtype(types[i].tenon);
    if (memcmp(&known, &t->dtype, sizeof known) == 0) kind = types[i].npy;
  }
  if (!kind) return fail("T3002", path, "NumPy has no such type of elements", 5);
  for (d = 0; d < t->ndim; ++d)
    at += (size_t)snprintf(dims + at, sizeof dims - at, "%s%" PRId64 "%s", d ? " " : "", t->shape[d],
                           d + 1 < t->ndim || t->ndim == 1 ? "," : "");
  n = (size_t)snprintf(header, sizeof header, "{'descr': '%c%s', 'fortran_order': False, 'shape': (%s), }",
                       kind[1] == '1' ? '|' : '<', kind, dims);
  for (i = 63 - (n + 10) % 64; i; --i) header[n++] = ' ';
  header[n++] = '\n';
  f = fopen(path, "wb");
  if (!f) return fail("T3003", path, strerror(errno), 5);
  {
    const unsigned char head[10] = {
        0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)(n & 255), (unsigned char)(n >> 8)};
    const size_t bytes = bytes_of(t->dtype, t->ndim, t->shape);
    int ok = fwrite(head, 1, sizeof head, f) == sizeof head && fwrite(header, 1, n, f) == n &&
             fwrite((const char*)t->data + t->byte_offset, 1, bytes, f) == bytes;
    ok = fclose(f) == 0 && ok;
    return ok ? 0 : fail("T3003", path, strerror(errno), 5);
  }
}

static void usage(const char* program, const TenonArtifact* model) {
  int32_t i, d;
  printf("%s [--threads N] [-o DIR] INPUT.npy …\n", program);
  for (i = 0; i < tenon_artifact_num_inputs(model); ++i) {
    TenonValueInfo info;
    if (tenon_artifact_input(model, i, &info)) continue;
    printf("  input %d  %s (", i, info.name);
    for (d = 0; d < info.ndim; ++d)
      if (info.dims[d] >= 0)
        printf("%s%" PRId64, d ? ", " : "", info.dims[d]);
      else
        printf("%s%s", d ? ", " : "", *info.symbols[d] ? info.symbols[d] : "?");
    printf(")\n");
  }
  printf(
      "Writes DIR/output_0.npy … (default: this folder). Each input as INPUT.npy in order, or "
      "NAME=INPUT.npy.\n");
}

int tenon_native_main(int argc, char** argv);
__attribute__((used)) int tenon_native_main(int argc, char** argv) {
  TenonArtifact* model = NULL;
  TenonSession* session = NULL;
  TenonSessionOptions options;
  TenonStatus status;
  const char* folder = ".";
  char name[512], path[4096];
  int32_t next = 0;
  int i, code = 0;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  if ((status = tenon_system_register(tenon_native_model))) return fail_last(status, argv[0]);
  snprintf(name, sizeof name, "system:%s", tenon_native_model->name);
  if ((status = tenon_artifact_load(name, 0, &model))) return fail_last(status, argv[0]);
  for (i = 1; i < argc; ++i)
    if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
      usage(argv[0], model);
      tenon_artifact_release(model);
      return 0;
    } else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc) {
      options.threads = atoi(argv[++i]);
    }
  if ((status = tenon_session_create(model, &options, &session))) code = fail_last(status, argv[0]);
  {
    const int32_t inputs = tenon_artifact_num_inputs(model);
    Tensor* given = (Tensor*)calloc((size_t)inputs + 1, sizeof *given);
    if (!given && !code) code = fail("T0401", argv[0], "no memory", 4);
    for (i = 1; i < argc && !code; ++i) {
      const char* file = argv[i];
      const char* equals = strchr(file, '=');
      int32_t index = next;
      if (strcmp(file, "--threads") == 0) {
        ++i;
        continue;
      }
      if (strcmp(file, "-o") == 0 && i + 1 < argc) {
        folder = argv[++i];
        continue;
      }
      if (equals && (size_t)(equals - file) < sizeof name) {
        memcpy(name, file, (size_t)(equals - file));
        name[equals - file] = 0;
        if (tenon_session_input_index(session, name) >= 0) {
          index = tenon_session_input_index(session, name);
          file = equals + 1;
        }
      }
      if (file == argv[i]) ++next;
      if (index >= inputs) {
        code = fail("T0502", file, "more inputs than the model has (--help names them)", 2);
        break;
      }
      free(given[index].data);
      given[index].data = NULL;
      code = read_npy(file, &given[index]);
      if (!code &&
          (status = tenon_session_set_input_data(session, index, given[index].data, given[index].dtype,
                                                 given[index].ndim, given[index].shape)))
        code = fail_last(status, file);
    }
    if (!code && (status = tenon_session_run(session))) code = fail_last(status, NULL);
    for (i = 0; !code && i < tenon_session_num_outputs(session); ++i) {
      DLTensor out;
      if ((status = tenon_session_get_output(session, i, &out))) {
        code = fail_last(status, NULL);
        break;
      }
      snprintf(path, sizeof path, "%s/output_%d.npy", folder, i);
      if (!(code = write_npy(path, &out))) printf("%s\n", path);
    }
    for (i = 0; given && i < inputs; ++i) free(given[i].data);
    free(given);
  }
  tenon_session_release(session);
  tenon_artifact_release(model);
  fflush(stdout);
  return code;
}
