// SPDX-License-Identifier: Apache-2.0
// The registry of converters, and a converter called by another.
#include "import/onnx/custom.h"
#include "import/onnx/importer.h"
#include "import/onnx/load.h"

namespace tenon::onnx {
namespace {

std::map<std::string, Converter, std::less<>>& table() {
  static std::map<std::string, Converter, std::less<>> t;
  return t;
}

}  // namespace

RegisterConverter::RegisterConverter(const char* name, std::vector<int64_t> since, ConvertFn fn,
                                     const char* note, Forms forms)
    : RegisterConverter(name, std::move(since), fn, ConverterFacts{.note = note, .forms = forms}) {}
RegisterConverter::RegisterConverter(const char* name, std::vector<int64_t> since, ConvertFn fn,
                                     ConverterFacts facts) {
  table().emplace(name, Converter{std::move(since), fn, std::move(facts)});
}
const std::map<std::string, Converter, std::less<>>& converters() { return table(); }
const Converter* find_converter(const std::string& domain, const std::string& name) {
  const auto it = table().find(is_onnx_domain(domain) ? name : domain + "::" + name);
  if (it != table().end()) return &it->second;
  static const Converter custom{{}, convert_custom, {}};
  return is_custom(domain, name) ? &custom : nullptr;
}

Values convert_as(NodeContext& n, const char* op_type, const Array<Expr>& inputs, int64_t opset,
                  const GivenAttributes& given) {
  const Converter* converter = find_converter("", op_type);
  CHECK(converter, fmt::format("there is no converter of {}", op_type));
  if (const auto known = n.env.opsets.find(""); opset == 0)
    opset = known == n.env.opsets.end() ? kMaxOpset : known->second;
  int64_t since = 1;
  for (int64_t s : converter->since)
    if (s <= opset) since = s;
  proto::NodeProto node = n.node;
  node.set_op_type(op_type);
  node.clear_domain(), node.clear_input();
  for (const auto& [name, values] : given) {
    proto::AttributeProto* a = node.add_attribute();
    a->set_name(name);
    a->set_type(7);
    for (int64_t v : values) a->add_ints(v);
  }
  Scope scope;
  scope.parent = &n.scope;
  for (size_t i = 0; i < inputs.size(); ++i) {
    // No name of a model ends in a zero character.
    std::string name = inputs[i] ? std::to_string(i) + std::string(1, '\0') : std::string();
    if (inputs[i]) scope.values[name] = inputs[i];
    node.add_input(std::move(name));
  }
  NodeContext inner(n.importer, node, scope, n.env, opset, since);
  return converter->fn(inner);
}

std::vector<OnnxCoverage> onnx_coverage() {
  std::vector<OnnxCoverage> out;
  for (const auto& [name, c] : converters())
    out.push_back(
        {name, std::max(kMinOpset, c.since.empty() ? 1 : c.since.front()), kMaxOpset, c.facts.note});
  return out;
}

}  // namespace tenon::onnx
