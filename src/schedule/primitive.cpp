// SPDX-License-Identifier: Apache-2.0
// The registry of primitives, and what can be said of arguments without knowing the primitive.
#include "schedule/primitive.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "schedule/define.h"

namespace tenon {

namespace {

std::vector<const Primitive*>& registry() {
  static std::vector<const Primitive*> list;
  return list;
}
std::string_view file_of(const Primitive& p) {
  const std::string_view path = p.where.file_name();
  return path.substr(path.rfind('/') + 1);
}

template <HandleKind... kinds>
bool is_handle_of(const Any& v) {
  const auto h = to_handle(v);
  return h && ((h->kind == kinds) || ...);
}
template <AnyTag... tags>
bool is_tagged(const Any& v) {
  return ((v.tag() == tags) || ...);
}
template <class T>
bool is_object(const Any& v) {
  return !v.is_none() && v.try_as<T>();
}
/// What a parameter takes, by ParameterType.
struct Accepts {
  std::string_view words;
  bool (*fits)(const Any&);
};
constexpr Accepts kAccepts[] = {
    {"a block", is_handle_of<HandleKind::block>},
    {"a loop", is_handle_of<HandleKind::loop>},
    {"a block or a loop", is_handle_of<HandleKind::block, HandleKind::loop>},
    {"a loop or a sampled location", is_handle_of<HandleKind::loop, HandleKind::location>},
    {"a number", [](const Any& v) { return is_tagged<kInt>(v) || is_handle_of<HandleKind::number>(v); }},
    {"True or False", is_tagged<kBool, kInt>},
    {"an integer", is_tagged<kInt>},
    {"a number", is_tagged<kFloat, kInt>},
    {"a text", is_object<std::string>},
    {"a data type", is_tagged<kDataType>},
    {"\"read\" or \"write\"",
     [](const Any& v) { return v.try_as<std::string>() == "read" || v.try_as<std::string>() == "write"; }},
    {"an index map", is_object<IndexMap>},
    {"an expression", is_object<PrimExpr>},
    {"a value", [](const Any& v) { return !to_handle(v); }},
};
static_assert(std::size(kAccepts) == size_t(ParameterType::any) + 1);

}  // namespace

bool is_handle(ParameterType type) { return type <= ParameterType::loop_or_location; }

void sched::add_primitive(const Primitive& primitive) {
  for (const Primitive* p : registry())
    CHECK(p->name != primitive.name, fmt::format("two primitives are called {}", p->name));
  registry().push_back(&primitive);
}
const std::vector<const Primitive*>& primitives() {
  static const std::vector<const Primitive*> sorted = [] {
    std::vector<const Primitive*> out = registry();
    std::sort(out.begin(), out.end(), [](const Primitive* a, const Primitive* b) {
      return std::pair(file_of(*a), a->where.line()) < std::pair(file_of(*b), b->where.line());
    });
    return out;
  }();
  return sorted;
}
const Primitive* find_primitive(std::string_view name) {
  static const std::map<std::string_view, const Primitive*> index = [] {
    std::map<std::string_view, const Primitive*> out;
    for (const Primitive* p : primitives()) out.emplace(p->name, p);
    return out;
  }();
  auto it = index.find(name);
  return it == index.end() ? nullptr : it->second;
}

Any& TraceStep::operator[](std::string_view parameter) {
  for (size_t i = 0; i < primitive->parameters.size(); ++i)
    if (primitive->parameters[i].name == parameter) return args[i];
  check_failed("parameter", __FILE__, __LINE__, fmt::format("{} has no '{}'", primitive->name, parameter));
}

Any to_any(Handle handle) { return Any(make<HandleObj>(handle)); }
std::optional<Handle> to_handle(const Any& value) {
  if (value.is_none()) return {};
  const auto h = value.try_as<Ref<HandleObj>>();
  return h ? std::optional((*h)->handle) : std::nullopt;
}
std::vector<Handle> handles_of(const std::vector<Any>& args) {
  std::vector<Handle> out;
  for (const Any& a : args) {
    if (const auto h = to_handle(a)) out.push_back(*h);
    if (const auto list = a.try_as<Array<Any>>())
      for (const Any& x : *list)
        if (const auto h = to_handle(x)) out.push_back(*h);
  }
  return out;
}

void complete_arguments(const Primitive& p, std::vector<Any>& args, std::string_view where) {
  if (args.size() > p.parameters.size())
    throw ScheduleError(
        ErrorKind::model, "T0790",
        fmt::format("{} is given {} arguments and takes {}", where, args.size(), p.parameters.size()));
  args.resize(p.parameters.size());
  for (size_t i = 0; i < args.size(); ++i) {
    const Parameter& want = p.parameters[i];
    const Accepts& accepts = kAccepts[size_t(want.type)];
    if (args[i].is_none() && want.fallback) args[i] = *want.fallback;
    bool good = true;
    if (want.list) {
      const auto list = args[i].try_as<Array<Any>>();  // none is the empty list
      good = list.has_value();
      for (size_t k = 0; good && k < list->size(); ++k) good = accepts.fits((*list)[k]);
    } else {
      good = (args[i].is_none() && want.fallback) || accepts.fits(args[i]);
    }
    if (!good)
      throw ScheduleError(ErrorKind::model, "T0790",
                          fmt::format("{}: '{}' is not {}{}", where, want.name,
                                      want.list ? "a list, each item " : "", accepts.words));
  }
}

IntRV Argument<IntRV>::unpack(const sched::State& s, const Any& v) {
  const auto sampled = to_handle(v);
  return sampled ? IntRV(s.numbers.at(sampled->id), sampled->id) : IntRV(v.as<int64_t>());
}
int Argument<int>::unpack(const sched::State&, const Any& v) {
  const int64_t x = v.as<int64_t>();
  if (x != int(x))
    throw ScheduleError(ErrorKind::model, "T0790", fmt::format("{} is too large a number for a step", x));
  return int(x);
}

}  // namespace tenon
