// SPDX-License-Identifier: Apache-2.0
// Models around one bad node, of operators of every domain.
#pragma once
#include "hostile.h"

namespace tenon::test {

inline constexpr int64_t kBig = int64_t(1) << 40;

inline Msg here(const std::string& op, const std::vector<std::string>& in,
                const std::vector<Msg>& attributes = {}, const std::string& domain = "") {
  return node(op, in, {"y"}, attributes, "here", domain);
}
/// A model over x of float[2, 3], v of float[4], q of uint8[2, 4], b of bool, i of int64.
inline std::string of(std::vector<Msg> nodes, std::vector<Msg> initializers = {}, int64_t version = 21) {
  return model({std::move(nodes),
                std::move(initializers),
                {value("x", FLOAT, {2, 3}), value("v", FLOAT, {4}), value("q", UINT8, {2, 4}),
                 value("b", BOOL, {}), value("i", INT64, {})},
                {value("y", FLOAT, {})}},
               version)
      .m(8, opset(1, "com.microsoft"))
      .m(8, opset(3, "ai.onnx.ml"))
      .bytes;
}

/// One node over x of float[2, 3] that gives y.
inline GraphParts with_node(Msg n, std::vector<Msg> initializers = {}) {
  return {{std::move(n)}, std::move(initializers), {value("x", FLOAT, {2, 3})}, {value("y", FLOAT, {2, 3})}};
}
inline std::string one(Msg n, std::vector<Msg> initializers = {}, int64_t version = 17) {
  return model(with_node(std::move(n), std::move(initializers)), version).bytes;
}

inline Msg graph_with(std::vector<Msg> nodes, const std::vector<std::string>& in,
                      const std::vector<std::string>& out) {
  GraphParts p{std::move(nodes), {}, {}, {}};
  for (const auto& i : in) p.inputs.push_back(value(i, FLOAT, {}, false));
  for (const auto& o : out) p.outputs.push_back(value(o, FLOAT, {}, false));
  return onnx_graph(p);
}
}  // namespace tenon::test
