// SPDX-License-Identifier: Apache-2.0
// The types of the primitives' parameters and results: handles, numbers that a sampler may have picked, and
// how a value of each type travels as an argument of a recorded step.
#pragma once
#include <variant>

#include "analysis/index_map.h"

namespace tenon {

namespace sched {
struct State;
}

// ---------------------------------------------------------------- handles
enum class HandleKind : uint8_t { block, loop, number, location };

/// A name in a schedule and its trace: b3, l7, v2, p1. Blocks and loops are counted together, and so are
/// numbers and locations.
struct Handle {
  HandleKind kind = HandleKind::block;
  int32_t id = -1;
  auto operator<=>(const Handle&) const = default;
};
template <HandleKind of>
struct HandleOf {
  static constexpr HandleKind kind = of;
  int32_t id = -1;
  bool operator==(const HandleOf&) const = default;
};
using BlockRV = HandleOf<HandleKind::block>;
using LoopRV = HandleOf<HandleKind::loop>;
/// What sample_compute_location chose: a loop, where the block is, or inlined.
using LocationRV = HandleOf<HandleKind::location>;
using BlockOrLoop = std::variant<BlockRV, LoopRV>;
using LoopOrLocation = std::variant<LoopRV, LocationRV>;

/// A number that a sampler picked (`id` names it in the trace), or that is given.
struct IntRV {
  static constexpr HandleKind kind = HandleKind::number;
  int64_t value = 0;
  int32_t id = -1;
  IntRV(int64_t v, int32_t name = -1) : value(v), id(name) {}
  operator int64_t() const { return value; }
};
/// Factors of a split, sampled or given: a trace keeps which, so that another decision gives another program.
struct Factors {
  std::vector<IntRV> items;
  Factors() = default;
  explicit Factors(std::vector<IntRV> list) : items(std::move(list)) {}
  Factors(std::initializer_list<IntRV> list) : items(list) {}
  Factors(const std::vector<int64_t>& list) : items(list.begin(), list.end()) {}
  operator std::vector<int64_t>() const { return {items.begin(), items.end()}; }
  bool operator==(const std::vector<int64_t>& o) const { return std::vector<int64_t>(*this) == o; }
  size_t size() const { return items.size(); }
  const IntRV& operator[](size_t i) const { return items[i]; }
};
/// Which of a block's regions an index counts.
enum class BufferIndexType : uint8_t { read, write };

/// A handle as an argument of a step.
struct HandleObj : Object {
  static constexpr std::string_view type_key = "schedule.Handle";
  explicit HandleObj(Handle h, uint64_t made_by = 0) : handle(h), made_by(made_by) {}
  Handle handle;
  /// Names the schedule that gave it to a program in another language; 0 inside the engine and in traces.
  uint64_t made_by = 0;
};
Any to_any(Handle handle);
std::optional<Handle> to_handle(const Any& value);

// ---------------------------------------------------------------- arguments
enum class ParameterType : uint8_t {
  block,
  loop,
  block_or_loop,
  loop_or_location,
  number,  ///< an integer, or what a sampler picked
  boolean,
  integer,
  real,
  text,
  dtype,
  buffer_index_type,  ///< "read" or "write"
  index_map,
  expression,
  any,  ///< what an annotation may hold
};

/// A C++ type as that of a parameter.
template <class T>
struct Argument;

template <class T, ParameterType parameter>
struct PlainArgument {
  static constexpr ParameterType type = parameter;
  static constexpr bool list = false;
  static Any pack(const T& v) { return Any(v); }
  static T unpack(const sched::State&, const Any& v) { return v.as<T>(); }
};
template <>
struct Argument<bool> : PlainArgument<bool, ParameterType::boolean> {};
template <>
struct Argument<int64_t> : PlainArgument<int64_t, ParameterType::integer> {};
template <>
struct Argument<double> : PlainArgument<double, ParameterType::real> {};
template <>
struct Argument<std::string> : PlainArgument<std::string, ParameterType::text> {};
template <>
struct Argument<DataType> : PlainArgument<DataType, ParameterType::dtype> {};
template <>
struct Argument<IndexMap> : PlainArgument<IndexMap, ParameterType::index_map> {};
template <>
struct Argument<PrimExpr> : PlainArgument<PrimExpr, ParameterType::expression> {};
template <>
struct Argument<Any> : PlainArgument<Any, ParameterType::any> {};
template <>
struct Argument<int> : PlainArgument<int, ParameterType::integer> {
  static int unpack(const sched::State&, const Any& v);  ///< T0790 for what no int holds
};
template <>
struct Argument<BufferIndexType> : PlainArgument<BufferIndexType, ParameterType::buffer_index_type> {
  static Any pack(BufferIndexType t) { return t == BufferIndexType::read ? "read" : "write"; }
  static BufferIndexType unpack(const sched::State&, const Any& v) {
    return v.as<std::string>() == "read" ? BufferIndexType::read : BufferIndexType::write;
  }
};
template <>
struct Argument<IntRV> : PlainArgument<IntRV, ParameterType::number> {
  static Any pack(const IntRV& v) { return v.id < 0 ? Any(v.value) : to_any({IntRV::kind, v.id}); }
  static IntRV unpack(const sched::State& s, const Any& v);
};
template <HandleKind kind>
struct Argument<HandleOf<kind>>
    : PlainArgument<HandleOf<kind>, kind == HandleKind::block ? ParameterType::block : ParameterType::loop> {
  static Any pack(HandleOf<kind> v) { return to_any({kind, v.id}); }
  static HandleOf<kind> unpack(const sched::State&, const Any& v) { return {to_handle(v)->id}; }
};
template <HandleKind x, HandleKind y>
struct Argument<std::variant<HandleOf<x>, HandleOf<y>>> {
  using T = std::variant<HandleOf<x>, HandleOf<y>>;
  static constexpr ParameterType type =
      x == HandleKind::block ? ParameterType::block_or_loop : ParameterType::loop_or_location;
  static constexpr bool list = false;
  static Any pack(const T& v) {
    return std::visit([](auto h) { return to_any({h.kind, h.id}); }, v);
  }
  static T unpack(const sched::State&, const Any& v) {
    const Handle h = *to_handle(v);
    return h.kind == x ? T(HandleOf<x>{h.id}) : T(HandleOf<y>{h.id});
  }
};
template <class T>
struct Argument<std::optional<T>> {
  static constexpr ParameterType type = Argument<T>::type;
  static constexpr bool list = false;
  static Any pack(const std::optional<T>& v) { return v ? Argument<T>::pack(*v) : Any(); }
  static std::optional<T> unpack(const sched::State& s, const Any& v) {
    return v.is_none() ? std::nullopt : std::optional(Argument<T>::unpack(s, v));
  }
};
template <class T>
struct Argument<std::vector<T>> {
  static constexpr ParameterType type = Argument<T>::type;
  static constexpr bool list = true;
  static Any pack(const std::vector<T>& items) {
    Array<Any> out;
    for (const T& x : items) out.push_back(Argument<T>::pack(x));
    return Any(out);
  }
  static std::vector<T> unpack(const sched::State& s, const Any& v) {
    std::vector<T> out;
    for (const Any& x : v.as<Array<Any>>()) out.push_back(Argument<T>::unpack(s, x));
    return out;
  }
};
template <>
struct Argument<Factors> : Argument<std::vector<IntRV>> {
  static Any pack(const Factors& f) { return Argument<std::vector<IntRV>>::pack(f.items); }
  static Factors unpack(const sched::State& s, const Any& v) {
    return Factors(Argument<std::vector<IntRV>>::unpack(s, v));
  }
};

// ---------------------------------------------------------------- results
/// A C++ type as that of what a primitive makes.
template <class T>
struct Result {
  using Item = T;
  static constexpr bool list = false;
};
template <class T>
struct Result<std::vector<T>> {
  using Item = T;
  static constexpr bool list = true;
};
template <>
struct Result<Factors> : Result<std::vector<IntRV>> {};

/// What a step of `schedule` made, typed.
template <class R>
R typed(const auto& schedule, const std::vector<Handle>& made) {
  using Item = typename Result<R>::Item;
  if constexpr (!std::is_void_v<R>) {
    auto item = [&](const Handle& h) -> Item {
      if constexpr (std::is_same_v<Item, IntRV>)
        return {schedule.get(h), h.id};
      else
        return {h.id};
    };
    if constexpr (!Result<R>::list) {
      return item(made.at(0));
    } else {
      std::vector<Item> out;
      for (const Handle& h : made) out.push_back(item(h));
      return R(std::move(out));
    }
  }
}

}  // namespace tenon
