// SPDX-License-Identifier: Apache-2.0
// Kinds of scalar expressions that passes treat alike: a case of `match` for all of a group is
// `[&](const ArithmeticNode auto& n) {…}`. A case for one kind goes before it.
#pragma once
#include <concepts>

#include "ir/prim_expr.h"

namespace tenon::tir {

template <class T, class... Kinds>
concept OneOf = (std::same_as<T, Kinds> || ...);
template <class T>
concept ArithmeticNode = OneOf<T, Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod, Min, Max>;
template <class T>
concept ComparisonNode = OneOf<T, EQ, NE, LT, LE, GT, GE>;
/// Of two operands `a` and `b`.
template <class T>
concept BinaryNode = ArithmeticNode<T> || ComparisonNode<T> || OneOf<T, And, Or>;

}  // namespace tenon::tir
