// SPDX-License-Identifier: Apache-2.0
#include "import/onnx/signatures.h"

#include <fmt/ranges.h>

#include <climits>

#include "base/nearest.h"

namespace tenon::onnx {
namespace {

struct Signature {
  const char* name;
  int64_t since;
  int inputs, outputs;     ///< at most
  const char* attributes;  ///< with a space between
};
constexpr int kAnyNumber = INT_MAX;
constexpr Signature kSignatures[] = {
#include "import/onnx/signatures.inc"
};

/// The last one that came no later than the operator set; null: none is known.
const Signature* signature_of(const std::string& name, int64_t opset) {
  static const auto by_name = [] {
    std::multimap<std::string_view, const Signature*> all;
    for (const Signature& s : kSignatures) all.emplace(s.name, &s);
    return all;
  }();
  const Signature* found = nullptr;
  const auto [begin, end] = by_name.equal_range(name);
  for (auto it = begin; it != end; ++it)
    if (it->second->since <= opset) found = it->second;
  return found;
}

std::vector<std::string> words(const char* text) {
  std::vector<std::string> out;
  for (const char* at = text; *at;) {
    const char* end = std::strchr(at, ' ');
    out.emplace_back(at, end ? size_t(end - at) : std::strlen(at));
    at = end ? end + 1 : at + std::strlen(at);
  }
  return out;
}

}  // namespace

void check_signature(NodeContext& n, const std::string& domain) {
  const Signature* s = signature_of(domain.empty() ? n.op_type() : domain + "::" + n.op_type(), n.opset);
  if (!s) return;
  if (n.node.input_size() > s->inputs)
    n.malformed(
        fmt::format("{} takes at most {} inputs, {} are given", n.op_type(), s->inputs, n.node.input_size()));
  if (n.node.output_size() > s->outputs)
    n.malformed(fmt::format("{} has at most {} outputs, {} are asked for", n.op_type(), s->outputs,
                            n.node.output_size()));
  const std::vector<std::string> known = words(s->attributes);
  for (const proto::AttributeProto& a : n.node.attribute()) {
    // Names that begin so are a runtime's own notes, as in ONNX's checker.
    if (a.name().starts_with("__") || std::ranges::find(known, a.name()) != known.end()) continue;
    const std::string has = known.empty() ? "it has none" : fmt::format("it has {}", fmt::join(known, ", "));
    n.malformed(fmt::format("{} has no attribute {}: {}", n.op_type(), in_quotes(a.name()), has));
  }
}

}  // namespace tenon::onnx
