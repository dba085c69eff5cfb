// SPDX-License-Identifier: Apache-2.0
// Errors of lowering, code generation, graph passes and type inference.
#include "base/error_codes/tables.h"

namespace tenon::error_codes {

std::span<const ErrorCode> lowering_codes() {
  static constexpr ErrorCode codes[] = {
      {"T0801", "code generation cannot express this",
       "The program holds a type, node or intrinsic that the target has no code for, or a pass that replaces "
       "it did not run.",
       "Run the whole lowering pipeline, or write the computation in a form that the target has."},
      {"T0802", "LLVM has no code generator for the target",
       "The LLVM library in use was built without this kind of processor.",
       "Use a target that `llc --version` lists, or install an LLVM that has it."},
      {"T0803", "linking failed",
       "The linker refused the objects; the message has its words. Often the target is another kind of "
       "machine than this one.",
       "For another machine use `--emit obj` and its own linker."},
      {"T0804", "machine code cannot be loaded",
       "A kernel refers to a function that this process does not have, or the system refuses executable "
       "memory.",
       "Report it with the message; an artifact of `tenon compile` may load instead."},
      {"T0805", "a pass is run before the ones it needs",
       "Blocks, iterators, inits or matched buffers are left that an earlier pass removes; the message names "
       "it.",
       "Run that pass first, or the whole lowering pipeline."},
      {"T0806", "a matched buffer does not fit its region",
       "The view has another number of dimensions or other sizes than the region of its source, or is a view "
       "of a view.",
       "Match the buffer to a region of its own shape."},
      {"T0807", "the target has no such threads",
       "A loop is bound to a thread axis of a device, and this target is a CPU.",
       "Use parallel for the host, or interpret the program."},
      {"T0808", "the layout of a buffer cannot be made flat",
       "An allocated buffer has an offset, a parameter's layout uses a value that is no parameter, or an "
       "access has the wrong number of indices.",
       "Pass what the layout depends on as a scalar."},
      {"T0809", "the function cannot be a kernel",
       "Kernels write their results to buffers and get every size as a parameter.",
       "Give it an output parameter, and pass its sizes as scalars."},
      {"T0811", "an operator cannot be compiled here",
       "No program can be made for this call: its rank or the number of its sizes is not known, or it exists "
       "for earlier passes only.",
       "State the type with R.match_cast, or run the passes of the compilation before."},
      {"T0812", "a size that a function needs is not known",
       "No parameter's shape and no match_cast tells the symbolic size, or it cannot be computed from them.",
       "Bind it with R.match_cast, or by the shape of a parameter."},
      {"T0813", "a value is not in the form that bytecode is made from",
       "Closures, packed calls or nested values are left that an earlier pass replaces.",
       "Run the whole pipeline; lambda_lift turns closures into functions."},
      {"T0814", "a function calls what the module does not have",
       "The name is missing, or stands for a function of another kind.", "Add the function to the module."},
      {"T0815", "a program for threads of a device cannot be lowered",
       "Numbers of threads are not constant or change inside a kernel, memory belongs to a part of the "
       "threads only, or a reduction over threads has no operation for it.",
       "Follow the message: constant extents, shared memory with a dimension for the threads, or rfactor."},
      {"T0816", "the loop cannot be pipelined",
       "Its stages or their order would let a statement run before what it needs.",
       "Change the stages, or the order."},
      {"T0817", "a barrier is needed where threads branch differently",
       "Memory is shared between threads, and not all of them come to the place where they must wait.",
       "Let all threads take the branch, and guard the stores alone."},
      {"T0818", "an operation on a narrow type is left",
       "Values of 4, 8 or 16 bits are replaced by passes, and one remains or its buffer is not flat.",
       "Run the passes *_compute_legalize, *_storage_legalize and flatten_buffer before."},
      {"T0819", "the C compiler cannot be used",
       "The target c compiles its text with the C compiler of this machine; it is missing or refused the "
       "text.",
       "Install one, name it with TENON_CC, or write the text with `--emit c`."},
      {"T0820", "a result of the model is nothing a caller can use",
       "`main` gives a reference, which lives only inside a run, or a function inside of a data type.",
       "Read the reference inside `main`; give the function itself, or in a tuple."},
      {"T0821", "the host accesses memory of a device",
       "A buffer of the device is read or written outside its kernels.",
       "Copy it, or bind the loops around the access to threads."},
      {"T0822", "imported code cannot be used",
       "A program's attribute import_c or import_llvm holds text that its compiler refuses, that does not "
       "define what "
       "the program calls, that declares it with other arguments than programs give, or that defines what "
       "another "
       "text defines, too.",
       "See what the message quotes; the text defines every function that `T.call_extern` names, with "
       "external linkage."},
      {"T0823", "a pragma cannot take effect",
       "An annotation `pragma_…` is unknown, has a value of the wrong kind, stands at a loop that it is not "
       "for, "
       "or asks for what this compiler does another way; the message says which.",
       "Leave it out, or follow the hint; docs/schedule.md lists what each pragma does."},
      {"T0824", "an assumption is never true",
       "The condition of a `T.assume` is false whenever the program comes to it.",
       "Correct the condition; what is assumed must hold for every input."},
      {"T1003", "the compilation was cancelled", "The caller asked for it.", ""},
      {"T1004", "a pass needs one that is disabled", "Passes that a pass needs run whenever it does.",
       "Disable both, or neither."},
      {"T1005", "the compilation took too long",
       "It was given so many seconds with --compile-timeout; the message says at which pass, program and "
       "node "
       "they were over.",
       "Give it more, or compile with a lower level; what takes long is shown by --time-passes."},
      {"T1010", "a pass changed a result",
       "With --verify the module is run before and after each pass, and this one gives other values than its "
       "bound allows. This is a bug in Tenon.",
       "Report it; `tenon reduce MODEL` writes a small case."},
      {"T1031", "a parameter cannot be bound to this value",
       "The function or the parameter does not exist, or the tensor has another type.",
       "Use one of the names that the message lists, and a tensor of its type."},
      {"T1033", "two functions have the same symbol",
       "Kernels and exported functions are found by their symbol, which must be unique in a module.",
       "Give them different `global_symbol` attributes."},
      {"T1034", "a replacement program does not fit the operator",
       "alter_op_impl puts a program in the place of another, with the same parameters.",
       "Give it the same parameters, in the same order."},
      {"T1035", "an edited kernel fits none of the model's",
       "--override takes the programs of the files NAME.tir of a folder, and the model has no kernel of that "
       "name, or two files hold it, or there is no file.",
       "Use one of the names that the message lists; `tenon extract` writes such a folder."},
      {"T1036", "an edited kernel has another signature than the model's",
       "Its parameters or results differ in number, type or shape: the model was compiled for other sizes or "
       "another target, or the text was changed.",
       "Extract the kernel with the options that the model is compiled with."},
      {"T1037", "an edited kernel computes something else than the model's",
       "It was neither proved by its structure, schedule or values, nor gave the same on random and corner "
       "inputs; "
       "the "
       "message has the first input on which it differs.",
       "Correct it; `tenon compare NAME.tir --data DIR` runs it on the inputs that `tenon extract` wrote."},
      {"T1038", "a layout that a kernel wants of its caller cannot be made",
       "The schedule of an edited kernel lays a parameter out anew, and a caller passes a tensor whose shape "
       "is "
       "not known when the model is compiled.",
       "Give the sizes (`--dim`), or schedule the kernel without that transform_layout."},
      {"T1101", "the arguments of an operator do not fit it",
       "Type inference found ranks, sizes, data types or attributes that the operator does not take.",
       "Compare with `tenon ops NAME`; the message shows the types that were given."},
      {"T1102", "a shape must be known at compile time",
       "The operator is computed from a formula over its shapes, and one is not known.",
       "Bind it with R.match_cast, or give the model static input shapes (`--dim`)."},
      {"T1103", "a call has the wrong number of arguments",
       "An operator or function is called with more or fewer than it has.",
       "Give as many as its signature has."},
      {"T1104", "a value has another type than is needed",
       "An argument, pattern or loop value cannot have the type of its place.",
       "Correct the value, or the annotation that states the type."},
      {"T1105", "a declared type is not the value's",
       "The annotation of a variable or of a function's result contradicts what is inferred.",
       "Correct or remove the annotation."},
      {"T1106", "a type is not known, or given in two ways",
       "A parameter without an annotation is used in no call that tells its type, or calls contradict one "
       "another.",
       "Annotate it."},
      {"T1107", "a layout that is asked for cannot be used",
       "`convert_layout.desired` names an operator that is not there or takes no layout, or a layout that "
       "does "
       "not have its axes.",
       "Write OPERATOR=DATA or OPERATOR=DATA:WEIGHT with the letters that the message lists."},
      {"T1108", "an implementation that is asked for cannot be used",
       "`lower_to_call_tir.implementations` names an operator or an implementation that is not there, or one "
       "that "
       "does not take a call of the model; the message says why.",
       "`tenon ops NAME` lists implementations; `tenon inspect MODEL --strategies` says which take which "
       "call."},
      {"T1109", "the model calls its own functions without end",
       "On every way through the model a function calls itself, or one that waits for it.",
       "Put the call under a condition that ends the recursion."},
      {"T1150", "a pattern can match nothing",
       "A part of it is missing, an operator does not take so many arguments or has no such attribute, "
       "it is the opposite of everything, or asks for two things that no value is at once.",
       "Correct the pattern; `tenon ops NAME` shows what the operator takes."},
      {"T1151", "matching a pattern takes too many steps", "Alternatives inside alternatives multiply.",
       "Write the pattern as several smaller ones."},
      {"T1152", "a table of patterns cannot be used",
       "There is none of that name, or an entry is no (name, pattern) or (name, pattern, check).",
       "Register a function \"tenon.patterns.NAME\" that gives the table."},
      {"T1153", "there is no external code generator of that name",
       "No function \"tenon.ext.NAME\" is registered for the regions that the message lists.",
       "Register it, name another one, or leave the pass run_codegen out: regions are compiled here then."},
      {"T1154", "an external code generator failed",
       "It raised an error, left a region out, or gave a function of other parameters or results.",
       "The message says which region, and what it computes."},
      {"T1155", "patterns and their text do not fit together",
       "The text is no list of (NAME, PATTERN) behind names of patterns, or a pattern has no text.",
       "docs/external_codegen.md shows what patterns look like."},
  };
  return codes;
}

}  // namespace tenon::error_codes
