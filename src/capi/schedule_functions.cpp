// SPDX-License-Identifier: Apache-2.0
// Schedules of tensor programs for other languages: the methods are the records of the primitives.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "capi/expressions.h"
#include "capi/methods.h"
#include "capi/schedules.h"
#include "schedule/primitive.h"

namespace tenon {
namespace {

struct ScheduleObj : Object {
  static constexpr std::string_view type_key = "tir.Schedule";
  explicit ScheduleObj(Schedule value, std::vector<uint64_t> takes = {})
      : value(std::move(value)), makers(std::move(takes)) {
    makers.push_back(fresh_maker());
  }
  static uint64_t fresh_maker() {
    static std::atomic<uint64_t> last = 0;
    return ++last;
  }
  Any give(Handle h) {
    gave = true;
    return Any(make<HandleObj>(h, makers.back()));
  }
  /// Takes the handles given so far; those that either gives from here on are its own.
  Ref<ScheduleObj> copy() {
    if (gave) makers.push_back(fresh_maker());
    gave = false;
    return make<ScheduleObj>(value, std::vector(makers.begin(), makers.end() - 1));
  }

  Schedule value;
  std::vector<uint64_t> makers;  ///< whose handles it takes; the last is its own
  bool gave = false;             ///< a handle, since the last copy
};
using ScheduleRef = Ref<ScheduleObj>;
struct TraceObj : Object {
  static constexpr std::string_view type_key = "tir.Trace";
  explicit TraceObj(Trace value) : value(std::move(value)) {}
  Trace value;
};
using TraceRef = Ref<TraceObj>;

ScheduleObj& object(const ScheduleRef& s) { return const_cast<ScheduleObj&>(*s); }
Schedule& of(const ScheduleRef& s) { return object(s).value; }

/// T0102 for a handle that another schedule gave.
void require_own(const ScheduleObj& s, const Any& value, std::string_view place) {
  const auto h = value.try_as<Ref<HandleObj>>();
  if (h && *h && (*h)->made_by && std::ranges::find(s.makers, (*h)->made_by) == s.makers.end())
    throw Error(
        ErrorKind::usage, "T0102",
        fmt::format("{} is a handle of another schedule: ask this one for it (get_block, get_loops)", place));
}

/// The one PrimFunc of a module, or the one of that name.
tir::PrimFunc program_of(const ObjectRef& given, const std::string& name) {
  if (auto f = given.cast<tir::PrimFuncNode>()) return f;
  const auto module = given.cast<IRModuleNode>();
  if (!module) throw Error(ErrorKind::usage, "T0102", "a schedule is made of a PrimFunc or an IRModule");
  tir::PrimFunc found;
  size_t programs = 0;
  for (const auto& [key, f] : module->functions)
    if (auto p = f.cast<tir::PrimFuncNode>(); p && (name.empty() || key == name)) {
      found = p;
      ++programs;
    }
  if (programs == 1) return found;
  throw Error(ErrorKind::usage, "T0102",
              programs ? "the module has several PrimFuncs: name one (`name=`)"
                       : "the module has no PrimFunc" + (name.empty() ? "" : " `" + name + "`"));
}

/// A value for a parameter: blocks also by their names.
Any argument(ScheduleObj& s, const Primitive& primitive, const Parameter& p, const Any& value) {
  require_own(s, value, fmt::format("{}: `{}`", primitive.name, p.name));
  const bool block = p.type == ParameterType::block || p.type == ParameterType::block_or_loop;
  if (auto name = value.try_as<std::string>(); name && block)
    return to_any({HandleKind::block, s.value.get_block(*name).id});
  if (const auto list = value.try_as<Ref<ArrayObj>>(); p.list && list && *list) {
    Array<Any> out;
    for (const Any& x : (*list)->items) {
      Parameter item = p;
      item.list = false;
      out.push_back(argument(s, primitive, item, x));
    }
    return Any(out);
  }
  DataType type;
  if (auto text = value.try_as<std::string>();
      text && p.type == ParameterType::dtype && parse_dtype(*text, &type))
    return type;
  if (p.type == ParameterType::expression && !value.is_none()) return expr_of(value, std::string(p.name));
  return value;
}

Any run(ScheduleObj& s, const Primitive& primitive, Arguments given) {
  std::vector<Any> args(primitive.parameters.size());
  if (given.size() > args.size())
    argument_count_error(std::string(primitive.name), args.size(), given.size());
  for (size_t i = 0; i < given.size(); ++i)
    args[i] = argument(s, primitive, primitive.parameters[i], given[i]);
  complete_arguments(primitive, args, std::string(primitive.name));
  const std::vector<Handle> made = s.value.apply(primitive, std::move(args));
  if (!primitive.result) return {};
  if (!primitive.result_list) return s.give(made.at(0));
  Array<Any> out;
  for (const Handle& h : made) out.push_back(s.give(h));
  return Any(out);
}

std::string type_of_parameter(const Parameter& p) {
  static constexpr std::pair<ParameterType, std::string_view> names[] = {
      {ParameterType::block, "Block"},
      {ParameterType::loop, "Loop"},
      {ParameterType::block_or_loop, "BlockOrLoop"},
      {ParameterType::loop_or_location, "LoopOrLocation"},
      {ParameterType::number, "int"},
      {ParameterType::boolean, "bool"},
      {ParameterType::integer, "int"},
      {ParameterType::real, "float"},
      {ParameterType::text, "str"},
      {ParameterType::dtype, "dtype"},
      {ParameterType::buffer_index_type, "str"},
      {ParameterType::index_map, "tir.IndexMap"},
      {ParameterType::expression, "tir.PrimExpr"},
      {ParameterType::any, "Any"}};
  for (auto [type, name] : names)
    if (type == p.type) return p.list ? fmt::format("Array[{}]", name) : std::string(name);
  return "Any";
}

std::string result_of(const Primitive& p) {
  if (!p.result) return "None";
  const std::string one = *p.result == HandleKind::block  ? "Block"
                          : *p.result == HandleKind::loop ? "Loop"
                                                          : "Handle";
  return p.result_list ? "Array[" + one + "]" : one;
}

/// "split(self: tir.Schedule, loop: Loop, factors: Array[int]) -> Array[Loop]", dashes, what it does.
std::string doc_of(const Primitive& p) {
  std::string head = fmt::format("{}(self: tir.Schedule", p.name), words;
  for (const Parameter& x : p.parameters) {
    head += fmt::format(", {}: {}{}", x.name, type_of_parameter(x), x.fallback ? " = ..." : "");
    words += fmt::format("\n{}: {}", x.name, x.doc);
  }
  return fmt::format("{}) -> {}\n--\n\nIt {}.{}{}\n{}", head, result_of(p), p.does,
                     p.legal.empty() ? "" : " ", p.legal, words);
}

void add_primitives() {
  for (const Primitive* p : primitives()) {
    const std::string name = "tir.Schedule." + std::string(p->name);
    registry::Entry entry{name, Function([p, name](Arguments args) {
                            const auto s =
                                args.empty() ? std::optional<ScheduleRef>() : args[0].try_as<ScheduleRef>();
                            if (!s || !*s)
                              argument_kind_error(name, 0, args.empty() ? "none" : args[0].kind_name());
                            return run(object(*s), *p, args.subspan(1));
                          }),
                          p->where.file_name(), int(p->where.line()), doc_of(*p)};
    registry::add(std::move(entry), false);
  }
}

Any node_of_handle(const ScheduleRef& s, const Any& handle) {
  const auto h = to_handle(handle);
  if (!h) throw Error(ErrorKind::usage, "T0102", "Schedule.get takes what a primitive gave");
  require_own(*s, handle, "Schedule.get: `handle`");
  if (h->kind == HandleKind::block) return of(s).get(BlockRV{h->id});
  if (h->kind == HandleKind::loop) return of(s).get(LoopRV{h->id});
  return of(s).get(*h);
}

void add_schedule() {
  Methods<TraceObj>()
      .property(
          "script", [](const TraceRef& t) { return t->value.to_script(); }, "the calls a person would write")
      .property(
          "json", [](const TraceRef& t) { return t->value.to_json(); }, "what Schedule.run reads, too")
      .property("size", [](const TraceRef& t) { return int64_t(t->value.steps.size()); }, "number of steps");
  Methods<ScheduleObj>()
      .make(
          {"mod", {"name", ""}, {"seed", int64_t(0)}},
          [](const ObjectRef& m, const std::string& name, int64_t seed) {
            return make<ScheduleObj>(Schedule(program_of(m, name), uint64_t(seed)));
          },
          "of a PrimFunc, or the one of a module (that is called `name`)")
      .property(
          "func", [](const ScheduleRef& s) { return of(s).function(); }, "the program as it is now")
      .property(
          "mod",
          [](const ScheduleRef& s) {
            IRModule m = IRModule::create();
            m.set("main", of(s).function());
            return m;
          },
          "a module with the program as `main`")
      .property(
          "trace", [](const ScheduleRef& s) { return make<TraceObj>(of(s).trace()); }, "the steps so far")
      .add(
          "copy", {}, [](const ScheduleRef& s) { return object(s).copy(); },
          "another schedule, at this point; it takes the handles made so far, too")
      .add("get", {"handle"}, node_of_handle,
           "the block or loop behind a handle, or the number that a sampler picked")
      .add(
          "run", {"trace"},
          [](const ScheduleRef& s, const Any& trace) {
            if (auto t = trace.try_as<TraceRef>(); t && *t) return of(s).run((*t)->value);
            const auto text = trace.try_as<std::string>();
            if (!text)
              throw Error(ErrorKind::usage, "T0102", "Schedule.run takes a trace, its script or its JSON");
            const size_t start = text->find_first_not_of(" \n\t");
            of(s).run(start != text->npos && ((*text)[start] == '[' || (*text)[start] == '{')
                          ? Trace::from_json(*text)
                          : Trace::from_script(*text));
          },
          "the steps of a trace (T0790, T0791)");
  Methods<HandleObj>()
      .property(
          "kind",
          [](const Ref<HandleObj>& h) {
            static constexpr const char* names[] = {"block", "loop", "number", "location"};
            return std::string(names[int(h->handle.kind)]);
          },
          "block, loop, number or location")
      .property(
          "id", [](const Ref<HandleObj>& h) { return int64_t(h->handle.id); }, "its number in the trace");
}

/// When the first schedule is asked for: the records of all primitives are there then.
void load_schedule() {
  static std::once_flag once;
  std::call_once(once, [] {
    add_schedule();
    add_primitives();
  });
}

const bool schedule_functions_registered = [] {
  add_function("tir.load_schedule", {}, load_schedule, "makes tir.Schedule and its methods known");
  add_function(
      "tir.primitives", {},
      [] {
        Array<std::string> names;
        for (const Primitive* p : primitives()) names.push_back(std::string(p->name));
        return names;
      },
      "names of the primitives of a schedule");
  return true;
}();

}  // namespace

ObjectRef schedule_object(Schedule schedule) {
  load_schedule();
  return make<ScheduleObj>(std::move(schedule));
}

}  // namespace tenon
