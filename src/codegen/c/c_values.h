// SPDX-License-Identifier: Apache-2.0
// What is known of the VM's values where C text is made of its program, and how they are written.
#pragma once
#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/executable.h"

namespace tenon::codegen {

/// Why a model has no C entry.
struct NoEntry {
  std::string why;
};

/// Where a tensor is. `variable`: in the C variable of the register that holds it.
struct CPlace {
  enum Kind : uint8_t { variable, input, constant, arena, buffer } kind = variable;
  int64_t index = 0;
  bool operator==(const CPlace&) const = default;
};

/// What is known of a value of the VM at a place of the program.
struct CValue {
  enum Kind : uint8_t { none, tensor, number, list } kind = none;
  // tensor
  DataType dtype;
  int64_t bytes = 0;
  std::optional<std::vector<int64_t>> dims;
  CPlace place;
  std::set<int> buffers;  ///< of the static buffers, those that it may be in
  // number
  bool is_float = false;
  std::optional<int64_t> known;
  std::vector<CValue> items;  ///< of a list: a tuple, or the sizes of a shape
  /// Of a list that grows: the instruction that made it. Its items are the memory of its tensors and their
  /// number, or nothing as long as their type is not known.
  int64_t growing = -1;
  bool operator==(const CValue&) const = default;
};

CValue number(std::optional<int64_t> known, bool is_float = false);
CValue tensor(DataType dtype, const std::vector<int64_t>& dims, CPlace place);
CValue list(std::vector<CValue> items);
/// What holds on both ways.
CValue join(const CValue& a, const CValue& b);
/// What a function is followed for: types, sizes and numbers that are known.
std::string signature(const CValue& v);

/// A value, and the variables of which register hold what is not known of it.
struct Operand {
  CValue value;
  std::string holder;  ///< "5", "5_0"; "h3" of a slot of the shape heap
};
template <class F>
void leaves(const CValue& v, const std::string& holder, F f) {
  if (v.kind != CValue::list) return f(v, holder);
  for (size_t i = 0; i < v.items.size(); ++i) leaves(v.items[i], fmt::format("{}_{}", holder, i), f);
}
std::string variable(const CValue& leaf, const std::string& holder);
std::string declaration(const std::string& variable);
std::string literal(int64_t v);
/// The expression of a value that is no list.
std::string text(const CValue& leaf, const std::string& holder);
/// The helper that reads one element as a number, or writes one (c_entry.cpp); NoEntry for types that C has
/// not.
std::string access(const char* verb, DataType t);

/// What the registers and the shape heap hold.
struct State {
  std::vector<CValue> registers;
  std::map<int64_t, CValue> heap;
  bool operator==(const State&) const = default;
};
State join(const State& a, const State& b);

/// The identifiers in a text.
std::set<std::string> identifiers(const std::string& text);

}  // namespace tenon::codegen
