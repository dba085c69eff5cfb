// SPDX-License-Identifier: Apache-2.0
#include "import/onnx/form.h"

#include <fmt/format.h>

#include <map>

#include "base/stored_types.h"
#include "ir/structural.h"
#include "op/infer.h"

namespace tenon::onnx {
namespace {

constexpr int kMaxNesting = 32;  // of declared types

FormRef make_form(Form f) { return std::make_shared<const Form>(std::move(f)); }

graph::Type declared_tensor(const proto::TypeProto::Tensor& t) {
  const DataType held = held_type(t.elem_type());
  if (!t.has_shape()) return graph::tensor_type_unknown(-1, held);
  Array<PrimExpr> shape;
  for (const auto& d : t.shape().dim()) {
    if (d.value_case() != proto::TensorShapeProto::Dimension::kDimValue || d.dim_value() < 0)
      return graph::tensor_type_unknown(t.shape().dim_size(), held);
    shape.push_back(d.dim_value());
  }
  return graph::tensor_type(shape, held);
}

FormRef declared(const proto::TypeProto& type, int nesting) {
  if (nesting > kMaxNesting) return nullptr;
  if (type.has_tensor_type()) {
    const auto& t = type.tensor_type();
    if (held_type(t.elem_type()).is_void() || t.shape().dim_size() > 64) return nullptr;
    const graph::Type held = declared_tensor(t);
    const FormRef element = element_form(t.elem_type());
    return element ? with_type(element, held) : tensor_form(held);
  }
  if (type.has_map_type()) {
    const auto& m = type.map_type();
    const FormRef item = declared(m.value_type(), nesting + 1);
    const DataType key = held_type(m.key_type());
    if (!item || item->kind != Form::numbers || key.is_void() || !key.is_integer()) return nullptr;
    const FormRef texts = element_form(m.key_type());
    return map_form(texts ? texts : tensor_form(graph::tensor_type({}, key)), item);
  }
  const auto kind = type.has_sequence_type() ? Form::sequence : Form::optional;
  if (kind == Form::optional && !type.has_optional_type()) return nullptr;
  const FormRef item =
      declared(kind == Form::sequence ? type.sequence_type().elem_type() : type.optional_type().elem_type(),
               nesting + 1);
  return item ? container_form(kind, item) : nullptr;
}

}  // namespace

FormRef tensor_form(const graph::Type& type) {
  return make_form({Form::numbers, graph::as_tensor(type)->dtype, type, nullptr});
}
FormRef element_form(int onnx_type) {
  if (onnx_type == kString) return make_form({Form::strings, {}, {}, nullptr});
  const DataType t = stored_type(onnx_type);
  return is_stored_only(t) ? make_form({Form::codes, t, {}, nullptr}) : nullptr;
}
DataType held_type(int onnx_type) {
  if (onnx_type == kString) return i64;
  const DataType t = stored_type(onnx_type);
  return is_stored_only(t) ? DataType::uint(t.bits) : t;
}
DataType held_type(const FormRef& tensor) {
  return tensor->kind == Form::strings ? i64
         : tensor->kind == Form::codes ? DataType::uint(tensor->element.bits)
                                       : tensor->element;
}
FormRef with_type(const FormRef& form, const graph::Type& type) {
  Form f = *form;
  f.type = type;
  return make_form(std::move(f));
}
FormRef container_form(Form::Kind kind, FormRef item) { return make_form({kind, {}, {}, std::move(item)}); }
FormRef map_form(FormRef key, FormRef item) {
  return make_form({Form::map, {}, {}, std::move(item), std::move(key)});
}
FormRef declared_form(const proto::TypeProto& type) { return declared(type, 0); }

FormRef join(const FormRef& a, const FormRef& b) {
  if (!a || !b) return nullptr;
  if (a->kind != b->kind) {
    if (a->kind != Form::optional && b->kind != Form::optional) return nullptr;
    const bool first = a->kind == Form::optional;
    const FormRef item = join(first ? a->item : a, first ? b : b->item);
    return item ? container_form(Form::optional, item) : nullptr;
  }
  if (!a->is_tensor()) {
    const FormRef item = join(a->item, b->item);
    if (a->kind == Form::map) {
      const FormRef key = join(a->key, b->key);
      return item && key ? map_form(key, item) : nullptr;
    }
    return item ? container_form(a->kind, item) : nullptr;
  }
  if (a->element != b->element) return nullptr;
  if (!a->type || !b->type) return a->type ? a : b;
  return with_type(a, op::join(a->type, b->type));
}
bool same(const FormRef& a, const FormRef& b) {
  if (!a || !b) return a == b;
  if (!a->type != !b->type || (a->type && !structural_equal(a->type, b->type))) return false;
  return a->kind == b->kind && a->element == b->element && same(a->item, b->item) && same(a->key, b->key);
}
std::string to_string(const FormRef& form) {
  if (!form) return "tensor";
  switch (form->kind) {
    case Form::strings:
      return "tensor(string)";
    case Form::sequence:
      return "sequence(" + to_string(form->item) + ")";
    case Form::optional:
      return "optional(" + to_string(form->item) + ")";
    case Form::map:
      return "map(" + (form->key->kind == Form::strings ? "string" : tenon::to_string(form->key->element)) +
             ", " + to_string(form->item) + ")";
    default:
      return "tensor(" + tenon::to_string(form->element) + ")";
  }
}

const Moves* moves_of(const std::string& op_type) {
  static const std::map<std::string, Moves> table{
      {"Identity", {{0}}},        {"Reshape", {{0}}},        {"Squeeze", {{0}}},
      {"Unsqueeze", {{0}}},       {"Flatten", {{0}}},        {"Transpose", {{0}}},
      {"Concat", {{}}},           {"Slice", {{0}}},          {"Split", {{0}}},
      {"Gather", {{0}}},          {"GatherElements", {{0}}}, {"GatherND", {{0}}},
      {"Expand", {{0}}},          {"Tile", {{0}}},           {"Compress", {{0}}},
      {"Where", {{1, 2}}},        {"Scatter", {{0, 2}}},     {"ScatterElements", {{0, 2}}},
      {"ScatterND", {{0, 2}}},    {"DepthToSpace", {{0}}},   {"SpaceToDepth", {{0}}},
      {"ReverseSequence", {{0}}}, {"Shape", {{0}, false}},   {"Size", {{0}, false}},
      {"Equal", {{}, false}}};
  const auto at = table.find(op_type);
  return at == table.end() ? nullptr : &at->second;
}

}  // namespace tenon::onnx
