// SPDX-License-Identifier: Apache-2.0
// Errors of running and loading compiled models: libtenon_runtime throws them, their words stand here.
#include "base/error_codes/tables.h"

namespace tenon::error_codes {

std::span<const ErrorCode> runtime_codes() {
  static constexpr ErrorCode codes[] = {
      {"T0501", "a value has another shape or type than the model requires",
       "Sizes and types that are known only at run time are checked while the model runs, and this one is "
       "not what the model was written for.",
       "Check the shapes and values of the inputs; `tenon inspect MODEL` shows what the model takes."},
      {"T0502", "the number of inputs, outputs or arguments is wrong",
       "A function or model is given more or fewer values than it has, or one is asked for by a number that "
       "does not exist.",
       "`tenon inspect MODEL` lists inputs and outputs."},
      {"T0503", "the model has no such input or function, or an input is named twice",
       "Inputs are found by name, and each is given once.", "`tenon inspect MODEL` lists the names."},
      {"T0504", "an input has another data type than the model takes", "Tensors are not converted silently.",
       "Convert the data first."},
      {"T0505", "an input or output has another shape than the model takes",
       "A dimension differs from the model's, from another input that shares a symbolic size, or exceeds the "
       "bound given by --dim-max.",
       "Give the shape that the message names, or compile the model with other sizes (`--dim`)."},
      {"T0506", "an input is not a usable tensor",
       "It is missing, is no tensor, lies on another device, has no data, or is not aligned to its elements.",
       "Copy it to aligned memory of the CPU."},
      {"T0507", "the memory limit of the run is reached",
       "Tensors that are alive at one time exceed the limit of the session.",
       "Use smaller inputs, or raise the limit."},
      {"T0508", "calls or tuples are nested too deeply",
       "A recursion of the model has no end, a chain of calls that end in one another is longer than the "
       "limit, or a result is a tuple of more than 100 levels.",
       "Check the condition that ends the recursion."},
      {"T0509", "a kernel refused its inputs",
       "A kernel checks what it cannot trust, such as an index or a divisor, and found it wrong.",
       "Check the values and shapes of the inputs."},
      {"T0510", "the call was cancelled",
       "Another thread cancelled the session, or the program was interrupted.", ""},
      {"T0511", "the bytecode of an artifact is malformed",
       "An instruction got a value of a kind that the compiler never gives it: the file is damaged or was "
       "written by something else.",
       "Compile the model again; if the error stays, report it."},
      {"T0512", "a shape cannot be computed", "A size is divided by zero, or does not fit in 64 bits.",
       "Check the shapes of the inputs."},
      {"T0513", "a session runs one call at a time",
       "Two threads called one session, or a function of the model called its own session.",
       "Make one session for each thread; they share the artifact."},
      {"T0514", "a function of the C interface is given an invalid argument",
       "A pointer is null or an option is outside its range.",
       "See the function's description in include/tenon."},
      {"T0515", "the model is no straight line of operators",
       "The graph executor and the JSON graph know neither branches, loops nor calls.",
       "Run the model by a session."},
      {"T0516", "the graph executor has no such output yet",
       "Outputs exist after the first run, as many as the model has.", "Call run first, and count from 0."},
      {"T0517", "a tensor is larger than the memory planned for it",
       "A symbolic size exceeds the bound that the model was compiled with.",
       "Give smaller inputs, or compile with a larger --dim-max."},
      {"T0518", "a result is no tensor",
       "The function gives a tuple, a closure or another value, and this way of calling returns tensors "
       "only.",
       "Call the function through the interface for values of any kind, or return tensors from it."},
      {"T0519", "no case of a match takes the value",
       "The cases of the compiled function do not cover this value.",
       "Add a case for it, or one of the form `case _:`."},
      {"T0520", "the model has no meaning for these sizes",
       "The importer found that one path of the model cannot be computed, and the sizes of the inputs lead "
       "there.",
       "Check the shapes of the inputs; the message says what the path would do."},
      {"T0521", "a sequence, an optional or a string is not what the model requires",
       "A position is outside of a sequence, an empty optional is read, tensors of different types are "
       "joined, bytes are no UTF-8 or no image, or an input is a value of another kind.",
       "Check the inputs; the message names the operator."},
      {"T0601", "this is no Tenon artifact",
       "The file is empty, a folder, an ordinary library, or something else.",
       "Give the path of a model that `tenon compile` wrote."},
      {"T0602", "the artifact is of another version",
       "Its format or the interface of its kernels differs from this runtime's.",
       "Compile the model again with this version."},
      {"T0603", "this machine cannot run the code",
       "The code was compiled for another kind of machine, or uses instructions that this CPU lacks.",
       "Compile for this machine, or for an older CPU with -mcpu."},
      {"T0604", "the artifact is truncated", "The file is shorter than its header says.",
       "Copy the file again, or compile the model again."},
      {"T0605", "the artifact is damaged",
       "Its header, code or tables do not match their hashes or lie outside the file.",
       "Copy the file again, or compile the model again."},
      {"T0606", "a constant of the artifact is damaged",
       "Its bytes do not match their hash, which is checked on request.",
       "Copy the file again, or compile the model again."},
      {"T0607", "the tables of the artifact contradict one another",
       "An index, size or name in the tables of the executable is not valid.", "Compile the model again."},
      {"T0608", "the artifact lacks a kernel", "Its bytecode calls a kernel that the code does not have.",
       "Compile the model again."},
      {"T0609", "the model needs a function that is not registered",
       "It calls a packed function by name, which this process has not registered.",
       "Register the function before the model is loaded."},
      {"T0610", "the system cannot open the code of the artifact",
       "The dynamic loader refused it; the message has its words.",
       "Check permissions and the mount options of the folder (noexec), or compile the model again."},
      {"T0611", "the name does not pick exactly one linked model",
       "No model of this name is linked into the program, or several are.",
       "Link the object file of `--emit obj --system-lib NAME`, each with its own name."},
      {"T0612", "modules import one another in a circle",
       "A module leads back to itself through its imports, or the chain is too long to be anything else.",
       "Import in one direction only."},
      {"T0613", "the module cannot be saved", "It was not loaded from a file, so its code cannot be copied.",
       "Write it with `tenon compile -o`."},
      {"T0614", "the process has no loader for code of the model",
       "The model holds code of a target whose loader is in a library that was not loaded.",
       "Load the library that registers the loader, then the model."},
      {"T0615", "a library cannot be loaded",
       "The model calls, or the program asks for, what a small library beside libtenon_runtime has (lists, "
       "BLAS, saving), or --custom names one, and the dynamic loader cannot open it; the message has its "
       "words.",
       "Install it in the folder of libtenon_runtime.so: the component `runtime` has all of them; --custom "
       "takes a path."},
  };
  return codes;
}

}  // namespace tenon::error_codes
