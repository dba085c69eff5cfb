// SPDX-License-Identifier: Apache-2.0
// tenon ops: the operators, one operator in full, where something is defined, and what of ONNX is covered.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/nearest.h"
#include "cli/compiler.h"
#include "cli/verbs.h"

namespace tenon::cli {
namespace {

struct OpsOptions {
  std::vector<std::string> names;
  bool onnx = false;
};

void one(const json& op, Console& console) {
  console.print(fmt::format("{}  {}", op.at("name").get<std::string>(), op.at("doc").get<std::string>()));
  console.print(fmt::format("  fusion kind {}, {}, registered at {}:{}", op.at("fusion").get<std::string>(),
                            op.at("pure").get<bool>() ? "pure" : "with effects",
                            op.at("file").get<std::string>(), op.at("line").get<int>()));
  for (const json& a : op.at("arguments"))
    console.print(fmt::format("  {:<16} {:<12} {}{}", a.at("name").get<std::string>(),
                              a.at("type").get<std::string>(), a.at("doc").get<std::string>(),
                              a.at("optional").get<bool>() ? " (optional)" : ""));
  for (const json& a : op.at("attributes"))
    console.print(fmt::format("  {:<16} = {:<10} {}", a.at("name").get<std::string>(),
                              a.at("default").get<std::string>(), a.at("doc").get<std::string>()));
  for (const json& i : op.at("implementations")) {
    const std::string library = i.at("library");
    console.print(fmt::format("  computed by {:<22} priority {}{}", i.at("name").get<std::string>(),
                              i.at("priority").get<int>(),
                              library.empty() ? "" : fmt::format(", where the target names `{}`", library)));
  }
}

constexpr size_t kNamesInHelp = 5;  ///< names that hold what was asked for; more would hide the error

/// The entries of `list` that are called `wanted`, or end in ".wanted"; all where it is empty. T0918 when
/// none is.
json named(const json& list, const std::string& wanted, const char* what) {
  json found = json::array();
  std::vector<std::string> names, holding;
  for (const json& entry : list) {
    const std::string name = entry.at("name");
    if (wanted.empty() || name == wanted || name.ends_with("." + wanted)) found.push_back(entry);
    names.push_back(name);
    if (name.find(wanted) != std::string::npos && holding.size() < kNamesInHelp) holding.push_back(name);
  }
  if (!found.empty()) return found;
  if (holding.empty()) holding.push_back(nearest_name(wanted, names));
  throw Error(ErrorKind::usage, "T0918", fmt::format("there is no {} `{}`", what, wanted), {},
              holding[0].empty() ? "`tenon ops` lists operators, `tenon opt --list` passes"
                                 : fmt::format("did you mean {}?", fmt::join(holding, ", ")));
}

void where(const std::string& name, Console& console) {
  const json found = named(ask_compiler("definitions").at("definitions"), name,
                           "operator, pass, schedule primitive or function");
  console.result({{"definitions", found}});
  for (const json& d : found) {
    const std::string place = fmt::format("{}:{}", d.at("file").get<std::string>(), d.at("line").get<int>());
    console.print(found.size() == 1 ? place
                                    : fmt::format("{}  {} {}", place, d.at("kind").get<std::string>(),
                                                  d.at("name").get<std::string>()));
  }
}

void ops(const OpsOptions& o, Console& console) {
  if (o.onnx) {
    const json coverage = ask_compiler("onnx_operators");
    console.result(coverage);
    for (const json& op : coverage.at("operators"))
      console.print(fmt::format("{:<28} opset {}", op.at("name").get<std::string>(),
                                op.at("opsets").get<std::string>()));
    return;
  }
  if (!o.names.empty() && o.names[0] == "where") {
    if (o.names.size() < 2) throw Error(ErrorKind::usage, "T0917", "`ops where` needs a name");
    return where(o.names[1], console);
  }
  const std::string wanted = o.names.empty() ? "" : o.names[0];
  const json found = named(ask_compiler("operators").at("operators"), wanted, "operator");
  console.result({{"operators", found}});
  for (const json& op : found) {
    if (!wanted.empty())
      one(op, console);
    else
      console.print(
          fmt::format("{:<32} {}", op.at("name").get<std::string>(), op.at("doc").get<std::string>()));
  }
}

}  // namespace

void add_ops(CLI::App& app, Console& console) {
  auto options = std::make_shared<OpsOptions>();
  CLI::App* verb = add_verb(app, console, "ops", "all operators, or one with its arguments and attributes",
                            "tenon ops nn.conv2d; tenon ops where nn.conv2d; tenon ops --onnx");
  verb->add_option("NAME", options->names, "[where] NAME")->expected(0, 2);
  verb->add_flag("--onnx", options->onnx, "what the importer covers, by operator and opset");
  verb->callback([options, &console] { ops(*options, console); });
}

}  // namespace tenon::cli
