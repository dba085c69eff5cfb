// SPDX-License-Identifier: Apache-2.0
// Errors of any part: our own bugs, functions, tensors, files.
#include "base/error_codes/tables.h"

namespace tenon::error_codes {

std::span<const ErrorCode> general_codes() {
  static constexpr ErrorCode codes[] = {
      {"T0001", "an internal check of Tenon failed",
       "Tenon met a state that its own code rules out. The input may be valid or not: either way it should "
       "not have come to this.",
       "Report it with the command and the model. `tenon reduce MODEL` writes a small module that shows the "
       "same fault; a lower `-O` may avoid it meanwhile."},
      {"T0101", "a registered function is called with another number of arguments",
       "The caller of a packed function passes fewer or more values than its signature has.",
       "Compare the call with the function's signature."},
      {"T0102", "an argument of a registered function has the wrong kind",
       "A packed function takes an integer, a tensor, a text and so on at this position, and the value is of "
       "another kind and cannot be converted.",
       "Pass a value of the kind that the message names."},
      {"T0103", "a function is registered twice under one name",
       "Two libraries or two places of a program register a packed function of the same name without asking "
       "to replace the first.",
       "Rename one of them, or register the second with leave to override."},
      {"T0104", "a function of another language raised an exception",
       "A callable of Python (or of another language) was called by Tenon and did not return. The error "
       "carries "
       "the exception itself, and its own language raises it again.",
       "Read the exception and the lines of the function that raised it."},
      {"T0105", "a function of another language failed without saying why",
       "A function given by tenon_ffi_function returned a status other than TENON_OK and left no error "
       "object "
       "in its result.",
       "Make one with tenon_ffi_error before the function returns."},
      {"T0106", "a field is set in an object that others hold",
       "Objects are shared and do not change once somebody else holds them; whoever has a reference relies "
       "on "
       "that.",
       "Make a copy, set the field there and use the copy."},
      {"T0107", "an object of this type cannot be copied",
       "Tensors, functions and running things are shared by reference; only nodes and values are copied.",
       "Use the object itself, or make a new one from its parts."},
      {"T0108", "a node cannot be made from these fields",
       "Another language makes a node by the names of its fields, and a name is unknown, a value does not "
       "fit, or "
       "what the node's type derives from is missing.",
       "The message names the field and what it holds."},
      {"T0401", "there is not enough memory",
       "A tensor, the memory plan of a model or the scratch space of a kernel is larger than what the system "
       "gives, or a size is negative or beyond 2^62 bytes.",
       "Use smaller inputs or batches and check the sizes given; `--memory-limit` refuses at compile time "
       "what would not fit at run time."},
      {"T0402", "the bytes given do not fill the tensor",
       "A tensor is made of raw bytes, and their number is not the product of its dimensions times the size "
       "of an element.",
       "Give exactly the number of bytes that the message names."},
      {"T0403", "a tensor cannot be seen with another shape",
       "A view keeps the elements, so both shapes need the same number of them.",
       "Choose a shape with the same product of dimensions."},
      {"T0404", "the strides of a DLPack tensor are not supported",
       "Tenon uses a foreign tensor without copying it only when it is compact and row-major; this one "
       "leaves gaps or runs in another order.",
       "Make a contiguous copy first (`numpy.ascontiguousarray`, `tensor.contiguous()`)."},
      {"T0405", "a DLPack tensor is malformed",
       "Its fields contradict one another: a null pointer, a negative dimension, an unknown type or device.",
       "Check the library that made the tensor."},
      {"T0406", "a tensor may only be read",
       "Its memory is a constant or an array that its owner made read-only; it is to be written, or to be "
       "given "
       "out in the older form of DLPack, which cannot say so.",
       "Give a copy."},
      {"T0410", "the operands of a library's product do not fit together",
       "The shapes or element types that a compiled model passes to a BLAS library or oneDNN are not those "
       "of a "
       "matrix product.",
       "Compile the model again; if the error stays, compile without `-libs` and report it."},
      {"T3001", "a file or folder cannot be opened or read",
       "It does not exist, its permissions forbid it, it is no regular file, or reading it failed.",
       "Check the path and the permissions."},
      {"T3002", "a .npy file cannot be understood",
       "The file is no NumPy array, is truncated, or holds elements of a type that Tenon does not have; on "
       "output, that NumPy has no such type of elements.",
       "Write it with `numpy.save`, without pickled objects."},
      {"T3003", "a file or folder cannot be written",
       "The folder does not exist, its permissions forbid it, or the disk is full. Temporary files lie below "
       "$TMPDIR.",
       "Choose another path, make room, or set TMPDIR to a writable folder."},
      {"T3004", "a file is larger than the limit",
       "The header of a .npy file announces more bytes than any file that NumPy writes has.",
       "Write it again with `numpy.save`, or give raw data as NAME=SHAPExTYPE=@FILE."},
      {"T3005", "a data file has another size than its tensor",
       "A value such as `x=2x3xf32=@x.bin` says how many bytes the file must have.",
       "Correct the shape or the type, or write the file again."},
      {"T3010", "a library that the model calls is not found on this machine",
       "The model was compiled with `-libs=cblas` or `-libs=dnnl`, and no CBLAS library, or no oneDNN, can "
       "be "
       "loaded.",
       "Install libopenblas0, libblas3 or libdnnl2, name the file in TENON_BLAS or TENON_DNNL, or compile "
       "without `-libs`."},
      {"T3011", "a library that the model calls cannot compute a product",
       "oneDNN refused the sizes, or had not enough memory; the message has its status.",
       "Compile without `-libs=dnnl`."},
  };
  return codes;
}

}  // namespace tenon::error_codes
