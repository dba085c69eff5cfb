// SPDX-License-Identifier: Apache-2.0
#include "codegen/c/c_values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tenon::codegen {

CValue number(std::optional<int64_t> known, bool is_float) {
  CValue v;
  v.kind = CValue::number;
  v.is_float = is_float;
  v.known = known;
  return v;
}
CValue tensor(DataType dtype, const std::vector<int64_t>& dims, CPlace place) {
  CValue v;
  v.kind = CValue::tensor;
  v.dtype = dtype;
  v.dims = dims;
  v.bytes = int64_t(storage_bytes(element_count(dims), dtype));
  v.place = place;
  return v;
}
CValue list(std::vector<CValue> items) {
  CValue v;
  v.kind = CValue::list;
  v.items = std::move(items);
  return v;
}

CValue join(const CValue& a, const CValue& b) {
  if (a == b) return a;
  if (a.kind != b.kind) return {};
  CValue out = a;
  if (a.kind == CValue::tensor) {
    if (a.dtype != b.dtype || a.bytes != b.bytes) return {};
    if (a.dims != b.dims) out.dims.reset();
    if (a.place != b.place) out.place = {};
    out.buffers.insert(b.buffers.begin(), b.buffers.end());
  } else if (a.kind == CValue::number) {
    if (a.is_float != b.is_float) return {};
    if (a.known != b.known) out.known.reset();
  } else if (a.kind == CValue::list) {
    if (a.items.size() != b.items.size() || a.growing != b.growing) return {};
    for (size_t i = 0; i < a.items.size(); ++i) out.items[i] = join(a.items[i], b.items[i]);
  }
  return out;
}

std::string signature(const CValue& v) {
  std::string out;
  if (v.kind == CValue::tensor)
    return fmt::format("{}{}", to_string(v.dtype),
                       v.dims ? fmt::format("{}", *v.dims) : std::to_string(v.bytes));
  if (v.kind == CValue::number) return v.known ? std::to_string(*v.known) : v.is_float ? "float" : "int";
  if (v.kind == CValue::none) return "none";
  for (const CValue& i : v.items) out += signature(i) + ",";
  return "(" + out + ")";
}

std::string variable(const CValue& leaf, const std::string& holder) {
  if (holder[0] == 'h') return holder;
  return (leaf.kind == CValue::tensor ? "p" : leaf.is_float ? "d" : "n") + holder;
}
std::string declaration(const std::string& name) {
  return fmt::format("{}{}", name[0] == 'p' ? "void* " : name[0] == 'd' ? "double " : "int64_t ", name);
}
std::string literal(int64_t v) {
  return v == INT64_MIN                     ? "INT64_MIN"
         : v >= INT32_MIN && v <= INT32_MAX ? std::to_string(v)
                                            : fmt::format("INT64_C({})", v);
}
std::string text(const CValue& leaf, const std::string& holder) {
  if (leaf.kind == CValue::number) return leaf.known ? literal(*leaf.known) : variable(leaf, holder);
  switch (leaf.place.kind) {
    case CPlace::input:
      return fmt::format("(void*)inputs[{}]", leaf.place.index);
    case CPlace::constant:
      return fmt::format("(void*)tenon_constant_{}", leaf.place.index);
    case CPlace::arena:
      return fmt::format("(tenon_arena + {})", leaf.place.index);
    case CPlace::buffer:
      return fmt::format("tenon_buffer_{}", leaf.place.index);
    default:
      return variable(leaf, holder);
  }
}

std::string access(const char* verb, DataType t) {
  const bool known = t.is_bool() || (t.is_integer() && t.bits % 8 == 0) || (t.is_float() && t.bits >= 32);
  if (!known) throw NoEntry{"it uses a tensor of " + to_string(t) + " as one number"};
  return fmt::format("tenon_{}_{}", verb, t.is_bool() ? "uint8" : to_string(t.element()));
}

State join(const State& a, const State& b) {
  State out = a;
  for (size_t r = 0; r < a.registers.size(); ++r) out.registers[r] = join(a.registers[r], b.registers[r]);
  for (auto& [slot, v] : out.heap) {
    const auto other = b.heap.find(slot);
    v = other == b.heap.end() ? CValue() : join(v, other->second);
  }
  return out;
}

std::set<std::string> identifiers(const std::string& text) {
  std::set<std::string> out;
  auto part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (size_t i = 0; i < text.size(); ++i) {
    if (!part(text[i])) continue;
    size_t end = i;
    while (end < text.size() && part(text[end])) ++end;
    out.insert(text.substr(i, end - i));
    i = end;
  }
  return out;
}

}  // namespace tenon::codegen
