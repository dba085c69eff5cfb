// SPDX-License-Identifier: Apache-2.0
// Operators as the reference compiler's script writes them, where a name or the order of parameters differs
// from ours. Private to src/ir.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/parse_syntax.h"

namespace tenon::script {

/// One parameter of an operator in the reference's order.
struct SpelledParameter {
  std::string_view theirs;
  std::string_view ours;  ///< our argument or attribute; empty: there is none, and only `only` may be given
  std::string_view only =
      {};  ///< the one value that changes nothing, as script text; "~": None, "" or the usual layout
  bool none_is_default = false;  ///< None says nothing
};

struct SpelledOp {
  std::string_view op;                       ///< our operator
  std::vector<SpelledParameter> parameters;  ///< empty: ours, in our order
};

/// Null when the reference writes the operator as we do, or has none of this name.
const SpelledOp* find_spelling(std::string_view name);

/// Whether argument `i` of our operator, called `name`, is read back where it stands; else it is written by
/// its name.
bool is_read_by_place(std::string_view op, size_t i, std::string_view name);

/// Does an argument of this name say what a call gives? `out_ty` and `ty_args` in newer text.
bool names_output_types(std::string_view argument);

/// The dialect of the reference that a name belongs to and that is not read ("distributed", "thread-tile");
/// empty: none.
std::string_view dialect_of(std::string_view path);
/// Functions of tensor programs under other names: "fabs" is "abs", "Mul" is "multiply".
std::string spelled_function(std::string name);
/// The sign of "LT", "GE", …; empty for other names.
std::string_view spelled_comparison(std::string_view name);
/// "spatial" for "DataPar", and so on; ours as they are.
std::string_view spelled_iterator_kind(std::string_view name);

/// Is it a value that such a parameter may have?
bool changes_nothing(const SpelledParameter& parameter, const Ast& value);

/// A call's arguments under our names, in the order in which they are given.
using GivenArguments = std::vector<std::pair<std::string, const Ast*>>;

}  // namespace tenon::script
