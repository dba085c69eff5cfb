// SPDX-License-Identifier: Apache-2.0
// Script text in programs of other languages (ir/captured.h).
#include "capi/methods.h"
#include "ir/captured.h"
#include "ir/intrinsic.h"
#include "ir/verify.h"

namespace tenon {
namespace {

CapturedValues captured_values(const Function& has, const Function& evaluate, const AttrMap& aliases) {
  CapturedValues values;
  values.has = [has](const std::string& name) { return has(name).as<bool>(); };
  values.evaluate = [evaluate](const std::string& expression, const std::string& place) {
    return evaluate(expression, place);
  };
  for (const auto& [name, module] : aliases) values.aliases[name] = module.as<std::string>();
  return values;
}

IRModule parse_in(const std::string& text, const std::string& name, const Function& has,
                  const Function& evaluate, const AttrMap& aliases) {
  ParseOptions options;
  options.name = name;
  return parse_module(text, options, captured_values(has, evaluate, aliases));
}

Ref<MacroObj> macro(const std::string& text, const std::string& name, const Function& has,
                    const Function& evaluate, const AttrMap& aliases, bool hygienic) {
  auto m = make<MacroObj>();
  m.mut()->text = text;
  m.mut()->options.name = name;
  m.mut()->captured = captured_values(has, evaluate, aliases);
  m.mut()->hygienic = hygienic;
  return m;
}

ObjectRef value_of(const std::string& text, const AttrMap& values) {
  CapturedValues captured;
  captured.has = [&](const std::string& name) { return values.contains(name); };
  captured.evaluate = [&](const std::string& name, const std::string&) { return values.get_or(name, Any()); };
  return parse_value(text, captured);
}

const bool script_functions_registered = [] {
  Methods<IRModuleNode>().make(
      {{"functions", Map<std::string, ObjectRef>()},
       {"attrs", AttrMap()},
       {"types", Map<std::string, graph::AdtDef>()}},
      [](const Map<std::string, ObjectRef>& functions, const AttrMap& attrs,
         const Map<std::string, graph::AdtDef>& types) {
        auto m = make<IRModuleNode>();
        m.edit()->functions = functions;
        m.edit()->attrs = attrs;
        m.edit()->types = types;
        return m;
      },
      "a module of functions by name");
  add_function("script.parse", {"text", "name", "has", "evaluate", "aliases"}, parse_in,
               "a module from script text in a program whose values it may name (T02xx)");
  add_function("script.macro", {"text", "name", "has", "evaluate", "aliases", {"hygienic", true}}, macro,
               "statements that are put where the macro is called");
  add_function("script.value", {"text", "values"}, value_of,
               "an expression, graph value or type from script text over named values (T02xx)");
  add_function(
      "script.intrinsics", {},
      [] {
        Array<std::string> names;
        for (const tir::Intrinsic& i : tir::all_intrinsics()) names.push_back(std::string(i.name.substr(4)));
        return names;
      },
      "names of the intrinsics T.NAME");
  add_function(
      "ir.verify", {"module"}, [](const IRModule& module) { verify_or_throw(module); },
      "every mistake of a module (T03xx)");
  return true;
}();

}  // namespace
}  // namespace tenon
