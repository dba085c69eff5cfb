// SPDX-License-Identifier: Apache-2.0
// Errors of reading a program's text.
#include "base/error_codes/tables.h"

namespace tenon::error_codes {

std::span<const ErrorCode> script_codes() {
  static constexpr ErrorCode codes[] = {
      {"T0200", "the text is larger than 2 GiB", "Places in a text are kept as 32-bit offsets.",
       "Keep constants in the file beside the text (`--emit tir` writes them there), or split the module."},
      {"T0201", "a character has no meaning here",
       "The text holds a character that belongs to no word of the language, often a control character or a "
       "typographic quote.",
       "Remove it; strings stand in plain \" or ' quotes."},
      {"T0202", "a text in quotes is never closed",
       "The closing quote is missing before the end of the line, or of the file for a text in triple quotes.",
       "Close it."},
      {"T0203", "the indentation of a line matches no open block",
       "A line goes back to a column at which no enclosing block began.",
       "Align it with the block it belongs to; do not mix tabs and spaces."},
      {"T0204", "a number cannot be read",
       "Its digits are malformed, such as `12ab`, or it does not fit in 64 bits, or in the type that it is "
       "given.",
       "Correct it; write large values as floating numbers."},
      {"T0205", "a bracket is never closed", "The text ends, or a block begins, inside (, [ or {.",
       "Close the bracket at the place shown."},
      {"T0206", "a word or sign stands where another was expected",
       "The text does not follow the grammar at this place.",
       "See docs/script.md for the form of each statement and expression."},
      {"T0207", "the arguments of a call are in disorder",
       "An argument is given twice by name, or one without a name follows one with a name.",
       "Give positional arguments first and each name once."},
      {"T0208", "an indented block is missing or not expected",
       "A line that opens a block has none, or a line is indented although nothing opens a block.",
       "Indent the body of `def`, `for`, `with`, `if` and `class`, and nothing else."},
      {"T0209", "the text is nested too deeply",
       "Brackets, blocks or a chain of operators exceed the limit that keeps the parser from running out of "
       "stack.",
       "Give parts of the expression a name of their own."},
      {"T0210", "a statement has no meaning at the level of a module",
       "Outside functions only imports, one module class and function definitions are read.",
       "Move the statement into a function."},
      {"T0211", "a decorator is missing or unknown",
       "Functions are marked @T.prim_func or @R.function, modules @I.ir_module; nothing else tells what they "
       "are.",
       "Add or correct the decorator."},
      {"T0212", "a name is defined twice",
       "Two functions, parameters, constructors or variables of one pattern share a name.",
       "Rename one of them."},
      {"T0213", "this text is in a language that is not read",
       "The text is in the older `primfn` form of tensor programs, in the text form of Relay where only "
       "script text "
       "is taken, or in a dialect of the script for distributed tensors or for tiles of threads.",
       "Write it as @T.prim_func or @R.function; `tenon opt FILE` reads Relay text and prints it as script "
       "text."},
      {"T0220", "nothing has this name here",
       "A variable, buffer, type or function is used that is not defined in this scope.",
       "Define it first, or correct the name; the nearest known name is suggested."},
      {"T0221", "this has no meaning here",
       "The expression or statement exists in the language, but not at this place: tensor programs and graph "
       "functions each allow a part of it.",
       "See docs/script.md for what each kind of function may contain."},
      {"T0222", "there is no such operator, function or method",
       "The name after R., T. or a buffer is unknown, or belongs to the other kind of function.",
       "`tenon ops` lists the operators R.…; docs/script.md lists the functions T.…."},
      {"T0223", "a call has too few, too many or unknown arguments",
       "The arguments do not fit the signature of the operator, function or type constructor.",
       "`tenon ops NAME` shows an operator's arguments and attributes."},
      {"T0224", "an argument has the wrong kind or value",
       "A constant, text, data type or list of a certain form is needed here, or the number given is outside "
       "its range.",
       "Give what the message names."},
      {"T0225", "a name or an element was expected",
       "What stands here cannot be assigned, indexed, called or declared: it is no variable, no buffer, or "
       "already something else.",
       "Give the value a name of its own, or index the buffer."},
      {"T0226", "the operator has no such attribute", "A keyword argument names none of its attributes.",
       "`tenon ops NAME` lists them with their defaults."},
      {"T0227", "an attribute cannot hold this value",
       "The value is of another kind than the attribute, or outside what it allows.",
       "`tenon ops NAME` says what each attribute takes."},
      {"T0228", "the data of a constant is not there",
       "Large constants stand in a table beside the text, and the table is missing, lacks this one, or has "
       "another shape or type for it.",
       "Give the file of constants that was written with the text, unchanged."},
      {"T0229", "a type was expected", "What stands in the annotation is no type of graph functions.",
       "Write a type such as R.Tensor((2, 3), \"float32\"), R.Shape, R.Tuple(…) or R.Object."},
      {"T0230", "the data types of a tensor program do not fit together",
       "Operands, a condition, an index, a dimension or a stored value have a data type that this place does "
       "not take; nothing is converted silently.",
       "Convert one of them with T.cast."},
      {"T0232", "a shape and a tensor are confused",
       "A tuple of sizes stands where a tensor is needed, or the other way round.",
       "Write a shape as (n, 4), and R.shape_of(x) to read one off a tensor."},
      {"T0233", "the number of indices or dimensions is wrong",
       "A buffer or tensor is indexed with more or fewer values than it has dimensions, or its strides, "
       "bounds or region differ in number.",
       "Give one index for each dimension."},
      {"T0234", "the iterators of a block are malformed",
       "Names, kinds, domains and values of a block's iterators do not match one another in number or kind.",
       "Declare each as v = T.axis.spatial(extent, value) or T.axis.reduce(extent, value)."},
      {"T0235", "a declaration stands at the wrong place of a block or function",
       "Iterators, T.init(), T.alloc_buffer, T.match_buffer and attributes stand directly in their block or "
       "function, each once.",
       "Move it out of loops and conditions."},
      {"T0236", "a loop is malformed",
       "What follows `in` is no kind of loop, or the numbers of variables and domains differ.",
       "Use range, T.grid, T.serial, T.parallel, T.vectorized, T.unroll or T.thread_binding."},
      {"T0237", "this cannot stand after `with`",
       "`with` opens blocks, allocations and dataflow regions only.",
       "Use T.block(…), T.init(), T.allocate(…) or R.dataflow()."},
      {"T0238", "T.match_buffer names no free parameter",
       "The handle is no parameter of the function, or already stands for a buffer.",
       "Match each handle parameter once."},
      {"T0239", "a statement does nothing",
       "An expression without effect stands alone, or a statement is not known in this kind of function.",
       "Give its value a name, or remove it."},
      {"T0240", "a call does not tell its output types",
       "The outputs of call_tir and of packed calls cannot be inferred.",
       "Write out_sinfo=R.Tensor((…), \"float32\"), or annotate the name that the value is bound to."},
      {"T0241", "the flow of a graph function is malformed",
       "Each branch, case and loop of a graph function ends with the assignment of its value, all to the "
       "same name, and a function ends with one return.",
       "Give `if` an `else`, assign the same name in every branch, and end with `return value`."},
      {"T0242", "a data type, its constructors or a pattern are malformed",
       "A constructor is unknown or ambiguous, or has another number of parts than the definition, or the "
       "definition holds something else.",
       "Compare it with the definition of the data type; see docs/script.md."},
      {"T0243", "too many closures call one another",
       "A group of closures that may call those behind them is limited in number.",
       "Write them as functions of the module."},
      {"T0245", "an operator of Relay text needs to know more of a value",
       "What the operator becomes depends on the rank, the shape or the data type of a value, or on the "
       "value "
       "itself, and the text does not say it.",
       "Write the types of parameters, as in `%x: Tensor[(1, 3), float32]`, or a constant in the value's "
       "place."},
      {"T0246", "the metadata of Relay text is damaged",
       "What stands behind #[metadata] is no JSON of the reference compiler, or a tensor in it is cut short.",
       "Take the text as it was printed, metadata and all."},
      {"T0290", "the file of constants is damaged",
       "The file beside a program's text is truncated, altered or of another format.",
       "Print the program again."},
      {"T0291", "this JSON is no program",
       "The text is no JSON, or not the JSON form that Tenon writes of a node.",
       "Use a file that Tenon wrote, unchanged."},
  };
  return codes;
}

}  // namespace tenon::error_codes
