/* SPDX-License-Identifier: Apache-2.0
 * The operator SquareDifference of the domain "example": alpha · (a - b)² of two float32 tensors of one
 * shape. Built into a shared library, which registers its two functions when it is loaded:
 *
 *   cc -shared -fPIC square_difference.c -o libsquare_difference.so -ltenon_ffi
 *
 *   tenon run --custom libsquare_difference.so model.onnx
 *
 * The first needs -I and -L where Tenon is not in the folders of the system; the command finds its own
 * libtenon_ffi for the library. */
#include <string.h>
#include <tenon/ffi.h>

static TenonStatus refuse(TenonAny* result, const char* message) {
  const TenonErrorInfo e = {TENON_ERROR_MODEL, "T2020", message, "", "", NULL, NULL, NULL};
  tenon_ffi_error(&e, result);
  return TENON_ERROR_MODEL;
}

/* (types, attributes) -> [[type of the output], [alpha]]. A type is an Array of element type and sizes. */
static TenonStatus type_rule(void* self, const TenonAny* arguments, int32_t count, TenonAny* result) {
  (void)self;
  size_t inputs = 0;
  const TenonAny* types = count == 2 ? tenon_ffi_array_items(arguments[0].v.object, &inputs) : NULL;
  if (inputs != 2 || types[0].tag == TENON_NONE || types[1].tag == TENON_NONE)
    return refuse(result, "SquareDifference takes two tensors");
  TenonAny name, alpha = tenon_any_float(1), lists[2];
  TenonStatus status = tenon_ffi_string("alpha", 5, &name);
  if (status != TENON_OK) return status;
  const TenonAny* given = tenon_ffi_map_find(arguments[1].v.object, &name);
  if (given && given->tag == TENON_FLOAT) alpha = *given;
  tenon_ffi_any_release(&name);
  status = tenon_ffi_array(types, 1, &lists[0]); /* as the first input */
  if (status != TENON_OK) return *result = lists[0], status;
  status = tenon_ffi_array(&alpha, 1, &lists[1]);
  if (status == TENON_OK) {
    status = tenon_ffi_array(lists, 2, result);
    tenon_ffi_any_release(&lists[1]);
  } else {
    *result = lists[1];
  }
  tenon_ffi_any_release(&lists[0]);
  return status;
}

/* (a, b, alpha, y): the inputs, the parameters of the type rule, and outputs to be filled. */
static TenonStatus kernel(void* self, const TenonAny* arguments, int32_t count, TenonAny* result) {
  (void)self;
  DLTensor t[4];
  if (count != 4) return refuse(result, "SquareDifference takes a, b, alpha and y");
  for (int32_t i = 0; i < 4; ++i)
    if (!tenon_ffi_tensor_view(arguments[i].v.object, &t[i])) return refuse(result, "that is no tensor");
  int64_t elements[2] = {1, 1};
  for (int32_t i = 0; i < 2; ++i) {
    if (t[i].dtype.code != kDLFloat || t[i].dtype.bits != 32)
      return refuse(result, "SquareDifference takes float32");
    for (int32_t axis = 0; axis < t[i].ndim; ++axis) elements[i] *= t[i].shape[axis];
  }
  if (elements[0] != elements[1]) return refuse(result, "the inputs of SquareDifference differ in size");
  const float *a = t[0].data, *b = t[1].data;
  const double alpha = *(const double*)t[2].data;
  float* y = t[3].data;
  for (int64_t i = 0; i < elements[0]; ++i) y[i] = (float)(alpha * (a[i] - b[i]) * (a[i] - b[i]));
  *result = tenon_any_none();
  return TENON_OK;
}

static void add(const char* name, TenonCall call, const char* doc) {
  const TenonFunctionInfo info = {name, __FILE__, __LINE__, doc};
  TenonAny function, result;
  if (tenon_ffi_function(call, NULL, NULL, &function) != TENON_OK) return;
  if (tenon_ffi_function_set(&info, function.v.object, 1, &result) != TENON_OK)
    tenon_ffi_any_release(&result);
  tenon_ffi_any_release(&function);
}
__attribute__((constructor)) static void register_operator(void) {
  add("onnx.type.example::SquareDifference", type_rule, "the type of alpha · (a - b)²");
  add("onnx.kernel.example::SquareDifference", kernel, "alpha · (a - b)²");
}
