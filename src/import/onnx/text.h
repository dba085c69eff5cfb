// SPDX-License-Identifier: Apache-2.0
// Strings in a program: their numbers in the table of the run.
#pragma once
#include "import/onnx/importer.h"

namespace tenon::onnx {

/// A tensor of numbers of strings as a value.
Value strings_value(const Expr& e);
/// A vector of strings.
Value strings_constant(NodeContext& n, const std::vector<std::string>& texts);
/// Texts as the functions of libtenon_string read a list of them.
Expr list_constant(const std::vector<std::string>& texts);
/// Numbers as strings: as a cast writes them, or with six digits behind the point.
Value strings_of_numbers(NodeContext& n, const Expr& x, bool fixed = false);
/// Strings as numbers of that type; one that is none ends the run.
Expr numbers_of_strings(NodeContext& n, const Expr& x, DataType t);
/// Input i, which must be strings: T2020 otherwise.
Expr strings_input(NodeContext& n, size_t i);
/// The type of a tensor of that shape, as far as it is known.
graph::Type like(const Expr& e, DataType t);

}  // namespace tenon::onnx
