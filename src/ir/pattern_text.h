// SPDX-License-Identifier: Apache-2.0
// Tables of dataflow patterns as text: the Python that a user of tenon.dpl writes, names first, then the
// list.
//
//   dense = is_op("nn.dense")(wildcard(), is_const())
//   [
//     ("numpy.dense_relu", is_op("nn.relu")(dense)),
//     ("numpy.dense", dense),
//   ]
//
// Every pattern but ExprPattern of other values than operators has a text; parse(print(t)) equals t.
#pragma once
#include "ir/dataflow_pattern.h"

namespace tenon::dpl {

/// DiagnosticError T1155 with every mistake and its place; T02xx where the text is no Python.
Ref<PatternTable> parse_patterns(std::string_view text, const std::string& name = "<patterns>");
/// Parts that stand at several places have names. DiagnosticError T1155 when a part has no text.
std::string to_text(const Ref<PatternTable>& table);

}  // namespace tenon::dpl
