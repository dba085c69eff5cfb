// SPDX-License-Identifier: Apache-2.0
// The models of samples.json, as bytes, and the values that they are run with.
#pragma once
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/diagnostic.h"
#include "judge.h"
#include "runtime/ndarray.h"
#include "writer.h"

namespace tenon::test {

using json = nlohmann::ordered_json;

inline const json& samples() {
  static const json all = json::parse(std::ifstream(TENON_SOURCE_DIR "/tests/unit/import/samples.json"));
  return all;
}

/// ONNX's number of an element type.
inline int element_type(const std::string& name) {
  static const std::map<std::string, int> types{
      {"float32", FLOAT}, {"uint8", UINT8},   {"int8", INT8},    {"uint16", 4},        {"int16", 5},
      {"int32", INT32},   {"int64", INT64},   {"bool", BOOL},    {"float16", FLOAT16}, {"float64", DOUBLE},
      {"uint32", 12},     {"uint64", UINT64}, {"string", STRING}};
  return types.at(name);
}

/// [type, shape, values]; zeros where the values are left out.
inline NDArray tensor_of(const json& j) {
  DataType type;
  CHECK(parse_dtype(j.at(0).get<std::string>(), &type), "a sample's type");
  NDArray a = NDArray::zeros(j.at(1), type);
  if (j.size() < 3) return a;
  for (int64_t i = 0; i < a.size(); ++i) {
    const json& x = j.at(2).at(size_t(i));
    if (x.is_number_integer() && !a.dtype().is_float())
      a.set_element_int(i, x);
    else
      a.set_element(i, x.is_string() ? std::stod(x.get<std::string>()) : x.get<double>());
  }
  return a;
}

/// The same for texts, too.
inline Any value_of(const json& j) {
  if (j.at(0) != "string") return Any(tensor_of(j));
  auto t = make<StringTensorObj>();
  t.mut()->shape = j.at(1).get<std::vector<int64_t>>();
  if (j.size() > 2) t.mut()->items = j.at(2).get<std::vector<std::string>>();
  return Any(std::move(t));
}

/// A tensor, or a sequence or an optional of tensors of float32.
inline Msg value_of(const std::string& name, const json& j) {
  if (j.at(0) == "sequence" || j.at(0) == "optional") {
    const Msg tensor = Msg().m(1, Msg().i(1, FLOAT));
    return Msg().s(1, name).m(2, Msg().m(j.at(0) == "sequence" ? 4 : 9, Msg().m(1, tensor)));
  }
  std::vector<Dim> dims;
  for (const json& d : j.at(1))
    d.is_string() ? dims.emplace_back(d.get<std::string>()) : dims.emplace_back(d.get<int64_t>());
  return value(name, element_type(j.at(0)), dims);
}
inline Msg constant_of(const std::string& name, const json& j) {
  if (j.at(0) == "string") {
    Msg texts = tensor_head(name, STRING, j.at(1));
    for (const json& text : j.at(2)) texts.s(6, text);
    return texts;
  }
  const NDArray a = tensor_of(j);
  return tensor_head(name, element_type(j.at(0)), a.shape())
      .s(9, std::string(static_cast<const char*>(a.data()), size_t(a.byte_size())));
}

inline Msg graph_of(const json& g);

inline Msg attribute_of(const std::string& name, const json& v) {
  if (v.is_string()) return attr_s(name, v);
  if (v.is_number_integer()) return attr_i(name, v);
  if (v.is_number()) return attr_f(name, v);
  if (v.is_object())
    return v.contains("graph") ? attr_g(name, graph_of(v.at("graph")))
                               : attr_t(name, constant_of("", v.at("tensor")));
  if (v.empty() || v[0].is_number_integer()) return attr_ints(name, v);
  Msg list = Msg().s(1, name);
  for (const json& x : v) x.is_string() ? list.s(9, x) : list.f(7, x);
  return list.i(20, v[0].is_string() ? 8 : 6);
}

/// The object `key` of `j`; empty where there is none.
inline const json& object_of(const json& j, const char* key) {
  static const json none = json::object();
  const auto found = j.find(key);
  return found == j.end() ? none : *found;
}

inline Msg graph_of(const json& g) {
  GraphParts parts;
  for (const json& n : g.at("nodes")) {
    std::vector<Msg> attributes;
    for (const auto& [name, v] : object_of(n, "attributes").items())
      attributes.push_back(attribute_of(name, v));
    parts.nodes.push_back(
        node(n.at("op"), n.at("inputs"), n.at("outputs"), attributes, "", n.value("domain", std::string())));
  }
  for (const auto& [name, v] : object_of(g, "constants").items())
    parts.initializers.push_back(constant_of(name, v));
  for (const auto& [name, v] : g.at("inputs").items()) parts.inputs.push_back(value_of(name, v));
  for (const auto& [name, v] : g.at("outputs").items()) parts.outputs.push_back(value_of(name, v));
  return onnx_graph(parts);
}

inline std::string model_of(const json& sample) {
  Msg m = model(graph_of(sample), sample.at("opset"), 10);
  for (const auto& [domain, version] : object_of(sample, "domains").items()) m.m(8, opset(version, domain));
  return m.bytes;
}

inline std::vector<Any> values(const json& named) {
  std::vector<Any> out;
  for (const auto& [name, j] : named.items()) out.push_back(value_of(j));
  return out;
}

}  // namespace tenon::test
