// SPDX-License-Identifier: Apache-2.0
// What the VM does itself. Bytecode names each "vm.builtin.NAME" among its callees; any other name of a
// builtin is looked up in the registry and called with the arguments as they are.
#pragma once
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

namespace tenon {

/// An int may be an immediate, a heap slot or a register; where dimensions d0, d1, … are listed, one Shape
/// instead of them also serves.
enum class Builtin : uint8_t {
  /// (tensor-or-shape, n, then n pairs (DimMatch, value)); a mismatch is Error "T0501" with both shapes
  match_shape,
  check_tensor,     ///< (tensor, ndim, dtype) → tensor: ndim -1 and dtype 0 mean any; Error "T0501"
  compute_shape,    ///< (slot, then pairs (ShapeWord, value)): postfix int64 arithmetic; to the heap slot
  make_shape,       ///< (d0, d1, …) → Shape
  shape_of,         ///< (tensor) → Shape
  tensor_to_shape,  ///< (1-D int tensor) → Shape
  shape_to_tensor,  ///< (shape) → 1-D int64 tensor
  shape_dim,        ///< (shape-or-tensor, i) → int
  alloc_tensor,     ///< (dtype, d0, d1, …) → NDArray from the session's pool, uninitialised
  arena_tensor,     ///< (slot, dtype, d0, …) → view of the arena from its offset on; Error "T0517" beyond it
  copy_into,        ///< (to, from, to, from, …): the bytes of each, all at once
  reshape,          ///< (tensor, d0, …) → view
  copy,             ///< (tensor) → tensor
  tuple,            ///< (a, …) → tuple
  tuple_get,        ///< (tuple, i)
  scalar,           ///< (tensor of one element) → int or float
  to_tensor,        ///< (int-or-float, dtype) → 0-D tensor
  text,             ///< (tensor) → string of its bytes
  none,             ///< () → none: drops what the register holds, so that its memory can be used again
  /// (a) → the same value; (register, 1): it is not read again, and may keep what the result's register held,
  /// for the next tensor that it takes
  move,
  make_closure,  ///< (function, a, …) → Closure
  make_data,     ///< (tag, a, …) → Data
  data_is,       ///< (data, tag) → 0 or 1
  data_field,    ///< (data, i)
  no_case,       ///< (): Error "T0519"
  ref_create,    ///< (a) → RefCell
  ref_read,      ///< (ref)
  ref_write,     ///< (ref, a)
};

inline constexpr std::string_view kBuiltinPrefix = "vm.builtin.";
/// In the order of `Builtin`; the letters themselves, so that a library needs no addresses of them.
inline constexpr char builtin_names[][16] = {
    "match_shape",     "check_tensor",    "compute_shape", "make_shape",   "shape_of",
    "tensor_to_shape", "shape_to_tensor", "shape_dim",     "alloc_tensor", "arena_tensor",
    "copy_into",       "reshape",         "copy",          "tuple",        "tuple_get",
    "scalar",          "to_tensor",       "text",          "none",         "move",
    "make_closure",    "make_data",       "data_is",       "data_field",   "no_case",
    "ref_create",      "ref_read",        "ref_write"};
static_assert(std::size(builtin_names) == size_t(Builtin::ref_write) + 1);

inline std::string name_of(Builtin b) { return std::string(kBuiltinPrefix) + builtin_names[size_t(b)]; }
/// Nullopt: the name is the registry's.
inline std::optional<Builtin> builtin_of(std::string_view name) {
  if (!name.starts_with(kBuiltinPrefix)) return std::nullopt;
  name.remove_prefix(kBuiltinPrefix.size());
  for (size_t i = 0; i < std::size(builtin_names); ++i)
    if (builtin_names[i] == name) return Builtin(i);
  return std::nullopt;
}

}  // namespace tenon
