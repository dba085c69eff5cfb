// SPDX-License-Identifier: Apache-2.0
// What the table of intrinsics says beside names and arguments: groups, type rules, lowering on each kind of
// target.
#pragma once
#include "ir/intrinsic.h"

namespace tenon::tir {

/// What an intrinsic is for; those behind `atomic` need the threads of a GPU, `foreign` ones a machine or run
/// time that no code generator here is for (foreign_intrinsic.cpp).
enum class IntrinsicGroup {
  math,
  bit,
  vector,
  memory,
  call,
  kernel,
  atomic,
  sync,
  async_copy,
  fragment,
  foreign
};
std::string_view to_string(IntrinsicGroup group);
IntrinsicGroup group_of(const Intrinsic& intrinsic);
/// An entry of the foreign ones, or null; `find_intrinsic` finds them, `all_intrinsics` does not list them.
const Intrinsic* find_foreign_intrinsic(std::string_view name);
bool is_foreign(const Intrinsic& intrinsic);
/// The type of a foreign call whose text gives none.
DataType foreign_type(std::string_view name, const Array<PrimExpr>& args);
/// How the type of a call follows from its arguments; `given`: the call says it.
enum class IntrinsicType { first, second, boolean, element, handle, none, given };
IntrinsicType type_rule(const Intrinsic& intrinsic);
/// What is wrong with the type of a call, or "".
std::string type_problem(const Intrinsic& intrinsic, const Call& call);

}  // namespace tenon::tir
