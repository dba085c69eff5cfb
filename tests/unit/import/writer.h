// SPDX-License-Identifier: Apache-2.0
// Writes ONNX files byte by byte from the specification's field numbers, independent of the importer's
// schema, so that tests can also write what no library would.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <variant>
#include <vector>

namespace tenon::test {

/// A protobuf message under construction.
struct Msg {
  std::string bytes;
  static std::string varint(uint64_t v) {
    std::string s;
    for (; v >= 128; v >>= 7) s += char(v | 128);
    return s + char(v);
  }
  Msg& raw(std::string b) {
    bytes += b;
    return *this;
  }
  Msg& i(int field, int64_t v) { return raw(varint(uint64_t(field) << 3) + varint(uint64_t(v))); }
  Msg& s(int field, const std::string& v) {
    return raw(varint(uint64_t(field) << 3 | 2) + varint(v.size()) + v);
  }
  Msg& m(int field, const Msg& v) { return s(field, v.bytes); }
  Msg& f(int field, float v) {
    char b[4];
    std::memcpy(b, &v, 4);
    return raw(varint(uint64_t(field) << 3 | 5) + std::string(b, 4));
  }
};

enum Elem {
  FLOAT = 1,
  UINT8 = 2,
  INT8 = 3,
  INT32 = 6,
  INT64 = 7,
  STRING = 8,
  BOOL = 9,
  FLOAT16 = 10,
  DOUBLE = 11,
  UINT64 = 13,
  COMPLEX64 = 14,
  BFLOAT16 = 16,
  INT4 = 22
};

using Dim = std::variant<int64_t, std::string>;
inline Msg value(const std::string& name, int elem, const std::vector<Dim>& dims, bool with_shape = true) {
  Msg shape, tensor, type;
  for (const Dim& d : dims) {
    Msg dim;
    if (const auto* v = std::get_if<int64_t>(&d))
      dim.i(1, *v);
    else if (!std::get<std::string>(d).empty())
      dim.s(2, std::get<std::string>(d));
    shape.m(1, dim);
  }
  if (elem) tensor.i(1, elem);
  if (with_shape) tensor.m(2, shape);
  return Msg().s(1, name).m(2, type.m(1, tensor));
}
// ---- types of values
inline Msg elements_of(int elem) { return Msg().m(1, Msg().i(1, elem)); }
inline const Msg kFloats = elements_of(FLOAT);
inline Msg sequence_of(const Msg& type) { return Msg().m(4, Msg().m(1, type)); }
inline Msg optional_of(const Msg& type) { return Msg().m(9, Msg().m(1, type)); }
inline Msg map_of(int key, const Msg& value) { return Msg().m(5, Msg().i(1, key).m(2, value)); }
inline Msg typed(const std::string& name, const Msg& type) { return Msg().s(1, name).m(2, type); }

inline Msg tensor_head(const std::string& name, int elem, const std::vector<int64_t>& dims) {
  Msg t;
  for (int64_t d : dims) t.i(1, d);
  if (elem) t.i(2, elem);
  if (!name.empty()) t.s(8, name);
  return t;
}
template <class T>
std::string bytes_of(const std::vector<T>& v) {
  return {reinterpret_cast<const char*>(v.data()), v.size() * sizeof(T)};
}
inline Msg floats(const std::string& name, const std::vector<int64_t>& dims, const std::vector<float>& v) {
  return tensor_head(name, FLOAT, dims).s(9, bytes_of(v));
}
inline Msg ints(const std::string& name, const std::vector<int64_t>& dims, const std::vector<int64_t>& v) {
  return tensor_head(name, INT64, dims).s(9, bytes_of(v));
}
inline Msg external(const std::string& name, const std::vector<int64_t>& dims,
                    const std::vector<std::pair<std::string, std::string>>& entries) {
  Msg t = tensor_head(name, FLOAT, dims);
  for (const auto& [k, v] : entries) t.m(13, Msg().s(1, k).s(2, v));
  return t.i(14, 1);
}

inline Msg attr_i(const std::string& name, int64_t v) { return Msg().s(1, name).i(3, v).i(20, 2); }
inline Msg attr_f(const std::string& name, float v) { return Msg().s(1, name).f(2, v).i(20, 1); }
inline Msg attr_s(const std::string& name, const std::string& v) { return Msg().s(1, name).s(4, v).i(20, 3); }
inline Msg attr_t(const std::string& name, const Msg& t) { return Msg().s(1, name).m(5, t).i(20, 4); }
inline Msg attr_g(const std::string& name, const Msg& g) { return Msg().s(1, name).m(6, g).i(20, 5); }
inline Msg attr_ref(const std::string& name, const std::string& of, int type) {
  return Msg().s(1, name).s(21, of).i(20, type);
}
inline Msg attr_ints(const std::string& name, const std::vector<int64_t>& v) {
  Msg a = Msg().s(1, name);
  for (int64_t x : v) a.i(8, x);
  return a.i(20, 7);
}
inline Msg node(const std::string& op, const std::vector<std::string>& in,
                const std::vector<std::string>& out, const std::vector<Msg>& attributes = {},
                const std::string& name = "", const std::string& domain = "") {
  Msg n;
  for (const auto& x : in) n.s(1, x);
  for (const auto& x : out) n.s(2, x);
  if (!name.empty()) n.s(3, name);
  n.s(4, op);
  for (const Msg& a : attributes) n.m(5, a);
  if (!domain.empty()) n.s(7, domain);
  return n;
}
struct GraphParts {
  std::vector<Msg> nodes, initializers, inputs, outputs;
};
inline Msg onnx_graph(const GraphParts& p) {
  Msg g;
  for (const Msg& n : p.nodes) g.m(1, n);
  g.s(2, "g");
  for (const Msg& t : p.initializers) g.m(5, t);
  for (const Msg& v : p.inputs) g.m(11, v);
  for (const Msg& v : p.outputs) g.m(12, v);
  return g;
}
inline Msg opset(int64_t version, const std::string& domain = "") {
  Msg o;
  if (!domain.empty()) o.s(1, domain);
  return o.i(2, version);
}
inline Msg model(const Msg& g, int64_t version = 17, int64_t ir = 8) {
  return Msg().i(1, ir).s(2, "tests").m(7, g).m(8, opset(version));
}
inline Msg model(const GraphParts& p, int64_t version = 17) { return model(onnx_graph(p), version); }

/// x → Relu → y over float[2, 3].
inline GraphParts relu_parts() {
  return {
      {node("Relu", {"x"}, {"y"}, {}, "r")}, {}, {value("x", FLOAT, {2, 3})}, {value("y", FLOAT, {2, 3})}};
}

}  // namespace tenon::test
