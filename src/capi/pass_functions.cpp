// SPDX-License-Identifier: Apache-2.0
// Passes for other languages, in both directions.
#include "base/named_values.h"
#include "capi/methods.h"
#include "pipeline/compile.h"

namespace tenon {
namespace {

struct PassObj : Object {
  static constexpr std::string_view type_key = "ir.Pass";
  explicit PassObj(Pass pass) : pass(std::move(pass)) {}
  Pass pass;
};
using PassRef = Ref<PassObj>;

/// A pass of another language: `f` takes the module.
PassRef make_pass(const std::string& name, const Function& f, int64_t level, const std::string& summary,
                  const Array<std::string>& needs) {
  Pass pass;
  pass.name = name;
  pass.level = int(level);
  pass.summary = summary;
  pass.needs = {needs.begin(), needs.end()};
  pass.file = "";
  pass.run = [f, name](IRModule module, PassContext&) {
    const Any made = f(module);
    auto out = made.try_as<IRModule>();
    if (!out || !*out)
      throw Error(ErrorKind::usage, "T0102",
                  "the pass `" + name + "` must give an IRModule, not " + made.kind_name());
    return *out;
  };
  return make<PassObj>(std::move(pass));
}

/// What an instrument of another language does; none where it does not care.
struct Instrument : PassInstrument {
  explicit Instrument(const AttrMap& functions) {
    auto get = [&](const char* name) { return functions.get_or(name, Any()).as<Function>(); };
    should = get("should_run");
    first = get("run_before_pass");
    then = get("run_after_pass");
  }
  bool should_run(const Pass& pass, const IRModule& module) override {
    return !should || should(module, about(pass)).as<bool>();
  }
  void before(const Pass& pass, const IRModule& module) override {
    if (first) first(module, about(pass));
  }
  void after(const Pass& pass, const IRModule& module) override {
    if (then) then(module, about(pass));
  }
  static PassRef about(const Pass& pass) { return make<PassObj>(pass); }
  Function should, first, then;
};

/// What `PassContext` of another language says.
struct RunRequest : PassSettings {
  AttrMap options;
  Array<AttrMap> instruments;
  Function print, report;
  Array<std::string> print_after;
  std::string dump;
  bool verify = false;

  static void fields(auto& f) {
    using R = RunRequest;
    PassSettings::fields(f);
    f.add("options", &R::options, "values of options, by PASS.KEY")
        .add("instruments", &R::instruments, "functions should_run, run_before_pass and run_after_pass")
        .add("print", &R::print, "called with pass and text, for print_after")
        .add("report", &R::report, "called with pass and what it found")
        .add("print_after", &R::print_after, "names of passes behind which the module is printed; \"all\"")
        .add("dump", &R::dump, "a folder for the module behind every pass")
        .add("verify", &R::verify, "check the module behind every pass");
  }
};

/// The passes, and those that the context speaks of: it may hold for other lists, too. Unknown ones are left
/// to the check of requests.
std::vector<Pass> with_requested(std::vector<Pass> list, const RunRequest& request) {
  std::vector<std::string> names;
  for (const auto* given : {&request.require_passes, &request.disable_passes})
    for (const std::string& name : *given) names.push_back(name);
  for (const auto& [option, value] : request.options) names.push_back(option.substr(0, option.rfind('.')));
  for (const std::string& name : names)
    if (const Pass* p = find_pass(name)) list.push_back(*p);
  return list;
}

/// The module behind the passes, and (name, milliseconds, whether it changed anything) of each that ran.
Array<Any> run_all(const IRModule& module, const Array<PassRef>& passes, const AttrMap& settings) {
  const auto request = from_named_values<RunRequest>(settings, "PassContext");
  CompileOptions options;
  static_cast<PassSettings&>(options) = request;
  options.print_after = request.print_after;
  options.dump = request.dump;
  options.context.verify = request.verify;
  for (const auto& [name, value] : request.options) options.context.options.set(name, value);
  if (request.print)
    options.context.print_sink = [print = request.print](const std::string& pass, const std::string& text) {
      print(pass, text);
    };
  if (request.report)
    options.context.report = [report = request.report](std::string_view pass, const Any& found) {
      report(pass, found);
    };
  std::vector<std::unique_ptr<Instrument>> instruments;
  for (const AttrMap& functions : request.instruments) {
    instruments.push_back(std::make_unique<Instrument>(functions));
    options.context.instruments.push_back(instruments.back().get());
  }
  std::vector<Pass> list;
  for (const PassRef& p : passes) list.push_back(p->pass);
  const std::vector<Pass> running = with_requested(list, request);
  DiagnosticList problems(ErrorKind::usage);
  PassContext context = context_of(options, problems, running);
  problems.throw_if_any();
  Array<Any> out{run_passes(module, list, context)};
  Array<Any> timings;
  for (const PassTiming& t : context.timings) timings.push_back(Array<Any>{t.name, t.ms, t.changed});
  out.push_back(or_empty(timings));
  return out;
}

AttrMap describe(const PassOption& o) {
  AttrMap m;
  m.set("name", o.name);
  m.set("type", o.type);
  m.set("takes", o.type_in_words());
  m.set("default", o.otherwise);
  m.set("help", o.help);
  return m;
}

const bool pass_functions_registered = [] {
  Methods<PassObj>()
      .make({"name", "function", {"level", int64_t(0)}, {"summary", ""}, {"needs", Array<std::string>()}},
            make_pass, "a pass whose function takes a module and gives one")
      .property(
          "name", [](const PassRef& p) { return p->pass.name; }, "its name")
      .property(
          "opt_level", [](const PassRef& p) { return int64_t(p->pass.level); }, "runs from this level on")
      .property(
          "summary", [](const PassRef& p) { return p->pass.summary; }, "what it does, in a line")
      .property(
          "needs",
          [](const PassRef& p) { return Array<std::string>(p->pass.needs.begin(), p->pass.needs.end()); },
          "passes before it that run whenever it does")
      .property(
          "changes", [](const PassRef& p) { return std::string(to_string(p->pass.changes)); },
          "what it changes of values: nothing, sum_order or rounding")
      .property(
          "options",
          [](const PassRef& p) {
            Array<AttrMap> out;
            for (const PassOption& o : p->pass.options) out.push_back(describe(o));
            return out;
          },
          "its options: name, type, default, help");
  add_function(
      "pass.get", {"name"}, [](const std::string& name) { return make<PassObj>(get_pass(name)); },
      "a pass by its name (T0919)");
  add_function(
      "pass.names", {},
      [] {
        Array<std::string> names;
        for (const Pass* p : all_passes()) names.push_back(p->name);
        return names;
      },
      "names of all passes");
  add_function(
      "pass.pipeline", {"list"},
      [](const std::string& list) {
        const auto passes = list == "graph"      ? graph_passes()
                            : list == "schedule" ? schedule_passes()
                            : list == "tensor"
                                ? tensor_passes()
                                : throw Error(ErrorKind::usage, "T0102",
                                              "the lists of passes are graph, schedule and tensor");
        Array<PassRef> out;
        for (const Pass& p : passes) out.push_back(make<PassObj>(p));
        return out;
      },
      "the passes of a compilation in their order: of \"graph\", \"schedule\" or \"tensor\"");
  add_function(
      "pass.insert", {"pass", "before"},
      [](const PassRef& p, const std::string& before) { insert_pass(p->pass, before); },
      "every compilation of this process runs the pass in front of another one (T0919, T0947)");
  add_function("pass.remove", {"name"}, remove_pass, "what pass.insert put there");
  add_function("pass.run", {"module", "passes", "settings"}, run_all,
               "the module behind the passes, and (name, milliseconds, changed) of each that ran");
  return true;
}();

}  // namespace
}  // namespace tenon
