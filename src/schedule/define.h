// SPDX-License-Identifier: Apache-2.0
// How a primitive is defined: its record is tied to the method of Schedule, whose signature gives the types
// of parameters and results, and to the function that does the work. Used by the files of the primitives
// only.
//
//   static int32_t fuse(State& s, const std::vector<int32_t>& loops) { … check, then one `replace` … }
//   const Define<&Schedule::fuse, fuse> fuse_record{{.name = "fuse", …}};
//
// The work is done on entries of the state: blocks and loops arrive as their ids, factors as their values,
// and what is made goes back the same way. A sampler takes its decision by reference and leaves there what it
// was.
#pragma once
#include "schedule/primitive.h"
#include "schedule/samples.h"
#include "schedule/state.h"

namespace tenon::sched {

/// What the work takes for an argument.
template <class T>
T& lower(T& v) {
  return v;
}
template <HandleKind kind>
int32_t lower(HandleOf<kind>& h) {
  return h.id;
}
inline int32_t lower(BlockOrLoop& x) {
  return std::visit([](auto h) { return h.id; }, x);
}
inline std::vector<int64_t> lower(Factors& f) { return f; }
template <HandleKind kind>
std::vector<int32_t> lower(std::vector<HandleOf<kind>>& list) {
  std::vector<int32_t> out;
  for (const auto& h : list) out.push_back(h.id);
  return out;
}

/// Handles of what the work gives back.
inline Handle named(State&, HandleKind kind, int32_t id) { return {kind, id}; }
inline Handle named(State& s, HandleKind, int64_t number) { return s.name_number(number); }
inline Handle named(State& s, HandleKind, const Location& l) { return s.name_location(l); }
template <class T>
std::vector<Handle> named(State& s, HandleKind kind, const std::vector<T>& items) {
  std::vector<Handle> out;
  for (const T& x : items) out.push_back(named(s, kind, x));
  return out;
}

/// Makes the primitive known; CHECK when another has its name.
void add_primitive(const Primitive& primitive);

template <auto method, auto work, class = decltype(method)>
struct Define;
template <auto method, auto work, class R, class... A>
struct Define<method, work, R (Schedule::*)(A...)> {
  Define(Primitive p, std::source_location where = std::source_location::current()) : record(std::move(p)) {
    CHECK(record.parameters.size() == sizeof...(A), "parameters of a primitive and of its method differ");
    size_t at = 0;
    ((record.parameters[at].type = Argument<std::decay_t<A>>::type,
      record.parameters[at++].list = Argument<std::decay_t<A>>::list),
     ...);
    if constexpr (!std::is_void_v<R>) record.result = Result<R>::Item::kind;
    record.result_list = Result<R>::list;
    record.where = where;
    record.run = [](State& s, std::vector<Any>& args) {
      return run(s, args, std::index_sequence_for<A...>());
    };
    record_of<method> = &record;
    add_primitive(record);
  }
  Define(const Define&) = delete;

 private:
  template <size_t... i>
  static std::vector<Handle> run(State& s, std::vector<Any>& args, std::index_sequence<i...>) {
    [[maybe_unused]] std::tuple<std::decay_t<A>...> values{Argument<std::decay_t<A>>::unpack(s, args[i])...};
    std::vector<Handle> made;
    if constexpr (std::is_void_v<R>)
      work(s, lower(std::get<i>(values))...);
    else
      made = {named(s, Result<R>::Item::kind, work(s, lower(std::get<i>(values))...))};
    ((args[i] = Argument<std::decay_t<A>>::pack(std::get<i>(values))), ...);  // what a sampler decided
    return made;
  }
  Primitive record;
};

}  // namespace tenon::sched
