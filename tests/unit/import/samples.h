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
      {"float32", FLOAT}, {"uint8", UINT8},   {"int8", INT8},     {"uint16", 4},        {"int16", 5},
      {"int32", INT32},   {"int64", INT64},   {"bool", BOOL},     {"float16", FLOAT16}, {"float64", DOUBLE},
      {"uint32", 12},     {"uint64", UINT64}, {"string", STRING}, {"bfloat16", 16}};
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

inline Msg node_of(const json& n) {
  std::vector<Msg> attributes;
  for (const auto& [name, v] : object_of(n, "attributes").items())
    attributes.push_back(attribute_of(name, v));
  return node(n.at("op"), n.at("inputs"), n.at("outputs"), attributes, "", n.value("domain", std::string()));
}

/// [type, shape, values] as a sparse tensor that leaves out zeros.
inline Msg sparse_of(const std::string& name, const json& j) {
  const NDArray all = tensor_of(j);
  std::vector<int64_t> at;
  json kept = json::array();
  for (int64_t i = 0; i < all.size(); ++i)
    if (!(all.element(i) == 0)) at.push_back(i), kept.push_back(j.at(2).at(size_t(i)));
  const json values{j.at(0), {at.size()}, kept};
  Msg s = Msg().m(1, constant_of(name, values)).m(2, ints("", {int64_t(at.size())}, at));
  for (const int64_t d : all.shape()) s.i(3, d);
  return s;
}

/// Most samples say nothing of their outputs: ["float32", []].
inline Msg output_of(const std::string& name, const json& j) {
  return j.at(0) == "float32" && j.at(1).empty() ? Msg().s(1, name) : value_of(name, j);
}

inline Msg graph_of(const json& g) {
  GraphParts parts;
  for (const json& n : g.at("nodes")) parts.nodes.push_back(node_of(n));
  for (const auto& [name, v] : object_of(g, "constants").items())
    parts.initializers.push_back(constant_of(name, v));
  for (const auto& [name, v] : g.at("inputs").items()) parts.inputs.push_back(value_of(name, v));
  for (const auto& [name, v] : g.at("outputs").items()) parts.outputs.push_back(output_of(name, v));
  Msg made = onnx_graph(parts);
  for (const auto& [name, v] : object_of(g, "sparse").items()) made.m(15, sparse_of(name, v));
  return made;
}

inline std::string model_of(const json& sample) {
  Msg m = model(graph_of(sample), sample.at("opset"), 10);
  for (const auto& [domain, version] : object_of(sample, "domains").items()) m.m(8, opset(version, domain));
  for (const auto& [name, f] : object_of(sample, "functions").items()) {
    Msg function = Msg().s(1, name).s(10, f.at("domain")).m(9, opset(sample.at("opset")));
    for (const auto& [domain, version] : object_of(sample, "domains").items())
      function.m(9, opset(version, domain));
    for (const json& in : f.at("inputs")) function.s(4, in);
    for (const json& out : f.at("outputs")) function.s(5, out);
    for (const json& n : f.at("nodes")) function.m(7, node_of(n));
    m.m(25, function);
  }
  return m.bytes;
}

inline std::vector<Any> values(const json& named) {
  std::vector<Any> out;
  for (const auto& [name, j] : named.items()) out.push_back(value_of(j));
  return out;
}

}  // namespace tenon::test
