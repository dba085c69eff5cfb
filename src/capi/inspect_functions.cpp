// SPDX-License-Identifier: Apache-2.0
// "compiler.inspect" and "compiler.lint": facts about a model, and what looks wrong with it, without
// compiling.
#include <fmt/format.h>

#include <cstdio>

#include "capi/compiler_function.h"
#include "capi/request_model.h"
#include "import/onnx/load.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ir/walk.h"
#include "pipeline/program_entry.h"
#include "tools/lint.h"
#include "tools/proofs.h"
#include "tools/strategy_report.h"

namespace tenon {
namespace {

using json = nlohmann::ordered_json;

json dims_json(const std::vector<std::string>& shape) {
  json out = json::array();
  for (const std::string& d : shape) {
    const bool number = !d.empty() && d.find_first_not_of("0123456789") == std::string::npos;
    out.push_back(number ? json(std::stoll(d)) : json(d));
  }
  return out;
}
json value_json(const onnx::OnnxValueInfo& v) {
  json out = {{"name", v.name},
              {"dtype", v.dtype.empty() ? "void" : v.dtype},
              {"shape", v.has_shape ? dims_json(v.shape) : json()}};
  if (!v.container.empty()) out["container"] = v.container;
  return out;
}

json inspect_onnx(const onnx::OnnxInfo& info) {
  json out = {{"kind", "onnx"},
              {"producer", fmt::format("{} {}", info.producer, info.producer_version)},
              {"ir_version", info.ir_version},
              {"opset", info.opset},
              {"graph", info.graph},
              {"description", info.description},
              {"graph_description", info.graph_description},
              {"producer_name", info.producer},
              {"domain", info.domain},
              {"model_version", info.model_version},
              {"metadata", info.metadata},
              {"inputs", json::array()},
              {"outputs", json::array()},
              {"overridable", json::array()},
              {"operators", json::object()},
              {"parameters", info.parameters},
              {"parameter_bytes", info.parameter_bytes},
              {"flop", info.flops},
              {"flop_unknown_nodes", info.flops_unknown},
              {"unsupported", json::array()},
              {"nodes", json::array()}};
  for (const auto& v : info.inputs) {
    out["inputs"].push_back(value_json(v));
    out["inputs"].back()["read_as"] = info.value_inputs.count(v.name) ? "value" : "data";
  }
  for (const auto& v : info.outputs) out["outputs"].push_back(value_json(v));
  for (const auto& v : info.overridable) out["overridable"].push_back(value_json(v));
  for (const auto& op : info.operators) {
    const std::string name = op.domain.empty() ? op.name : op.domain + "." + op.name;
    out["operators"][name] = op.count;
    if (!op.supported) out["unsupported"].push_back(name);
  }
  for (const auto& n : info.nodes)
    if (n.flops > 0) out["nodes"].push_back({{"name", n.name}, {"op", n.op}, {"flop", n.flops}});
  return out;
}

json type_json(const std::string& name, const graph::Type& type) {
  json shape;
  std::string dtype = "void";
  if (const auto* t = type.as<graph::TensorType>()) {
    dtype = to_string(t->dtype);
    if (auto dims = graph::known_shape(type)) {
      shape = json::array();
      for (const PrimExpr& d : *dims) shape.push_back(as_int(d) ? json(*as_int(d)) : json(print(d)));
    }
  }
  json out = {{"name", name}, {"dtype", dtype}, {"shape", shape}};
  if (const auto* t = type.as<graph::ShapeType>()) {  // given and shown as a vector of its sizes
    out["dtype"] = "int64";
    if (t->ndim >= 0) out["shape"] = json::array({t->ndim});
  } else if (const auto* t = type.as<graph::PrimType>()) {
    out["dtype"] = to_string(t->dtype);
    out["shape"] = json::array();
  } else if (type && !type.is<graph::TensorType>() && !type.is<graph::ObjectType>()) {
    out["value"] = print(type);
  }
  return out;
}

json inspect_module(IRModule module) {
  try {
    module = with_entry(module);
  } catch (const DiagnosticError&) {
    // There is something to see of a module that cannot run.
  }
  json out = {{"kind", "module"},         {"inputs", json::array()},
              {"outputs", json::array()}, {"operators", json::object()},
              {"parameters", 0},          {"flop", nullptr}};
  std::map<std::string, int64_t> counts;
  int64_t parameters = 0;
  for (const auto& [name, f] : module.functions())
    post_order(f, [&](const ObjectRef& o) {
      if (const auto* call = o.as<graph::Call>())
        if (const graph::Op* op = call->op.as<graph::Op>()) ++counts[op->name];
      if (const auto* c = o.as<graph::Constant>()) parameters += c->data.size();
    });
  for (const auto& [name, count] : counts) out["operators"][name] = count;
  out["parameters"] = parameters;
  if (auto main = module.find(entry_name(module)).cast<graph::Function>()) {
    for (const auto& p : main->params) out["inputs"].push_back(type_json(p->name, p->type));
    const graph::Type result = main->body->type;
    if (const auto* t = result ? result.as<graph::TupleType>() : nullptr)
      for (size_t i = 0; i < t->items.size(); ++i)
        out["outputs"].push_back(type_json(fmt::format("output_{}", i), t->items[i]));
    else if (result)
      out["outputs"].push_back(type_json("output_0", result));
  }
  return out;
}

bool is_onnx(const std::string& path) {
  FILE* file = path == "-" ? nullptr : std::fopen(path.c_str(), "rb");
  if (!file) return false;  // loading it says why
  char head[4096];
  const size_t n = std::fread(head, 1, sizeof head, file);
  std::fclose(file);
  return model_kind({head, n}) == ModelKind::onnx;
}

AttrMap inspect(const InspectRequest& r) {
  if (r.proofs) {
    CompileOptions options = options_of<ModelSettings>(r);
    IRModule module = load_with_dims(r.model, options);
    return {{"json", proofs_json(std::move(module), std::move(options))}};
  }
  if (!r.strategies && !r.bytes.empty())
    return reply_json(model_kind(r.bytes) == ModelKind::onnx
                          ? inspect_onnx(onnx::read_onnx_info_bytes(r.bytes, r.model))
                          : inspect_module(load_model_bytes(r.bytes, r.model)));
  if (!r.strategies)
    return reply_json(is_onnx(r.model) ? inspect_onnx(onnx::read_onnx_info(r.model))
                                       : inspect_module(load_model(r.model)));
  CompileOptions options = options_of<ModelSettings>(r);
  const IRModule module = load_with_dims(r.model, options);
  return {{"json", strategies_json(module, target_of(r), context_of(options))}};
}

IRModule read_for_lint(const LintRequest& r) {
  LoadModelOptions options;
  options.dims = r.dims;
  const IRModule module = r.module          ? IRModule(r.module.cast<IRModuleNode>())
                          : r.bytes.empty() ? load_model(r.model, options)
                                            : load_model_bytes(r.bytes, r.model, {}, options);
  verify_or_throw(module);
  return with_entry(module);
}

AttrMap lint_function(const LintRequest& r) {
  json problems = json::array();
  try {
    for (const LintRemark& m : lint(read_for_lint(r)))
      problems.push_back({{"kind", to_string(m.kind)},
                          {"rule", m.rule},
                          {"message", m.message},
                          {"place", m.place},
                          {"hint", m.hint}});
  } catch (const DiagnosticError& e) {
    for (const Diagnostic& d : e.diagnostics)
      problems.push_back({{"kind", "error"},
                          {"rule", d.code},
                          {"message", d.message},
                          {"place", d.location},
                          {"hint", d.hint}});
  }
  return reply_json({{"problems", std::move(problems)}});
}

const bool inspect_registered = [] {
  add_compiler_function("inspect", inspect, "facts about a model, without compiling");
  add_compiler_function("lint", lint_function,
                        "what keeps a model from compiling, makes it slow, or endangers its numbers");
  return true;
}();

}  // namespace
}  // namespace tenon
