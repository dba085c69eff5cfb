// SPDX-License-Identifier: Apache-2.0
// What a model declares of its outputs, beside what their nodes make.
#include <fmt/ranges.h>

#include "import/onnx/importer.h"

namespace tenon::onnx {
namespace {

FormRef without_optional(FormRef form) {
  while (form && form->kind == Form::optional) form = form->item;
  return form;
}
/// Whether a value of one form may be declared as the other. An empty sequence's items may be anything, and
/// the standard lets a value stand for an optional of it.
bool may_be(const FormRef& declared, const FormRef& form) {
  const FormRef a = without_optional(declared), b = without_optional(form);
  if (!a || !b) return true;
  if (a->kind != b->kind) return false;
  if (a->is_tensor()) return a->element == b->element || a->element.is_void() || b->element.is_void();
  return may_be(a->item, b->item) && may_be(a->key, b->key);
}
/// "[2, 3]"; names stand for sizes that are not known.
std::string sizes_text(const Array<PrimExpr>& shape) {
  std::vector<std::string> sizes;
  for (const PrimExpr& d : shape) {
    const auto n = tir::as_int(d);
    sizes.push_back(n ? std::to_string(*n) : "?");
  }
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}
std::string sizes_text(const proto::TensorShapeProto& shape) {
  std::vector<std::string> sizes;
  for (const auto& d : shape.dim())
    sizes.push_back(d.value_case() == d.kDimValue ? std::to_string(d.dim_value()) : "?");
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}
/// What is declared of a tensor's sizes and what they are, where one is certainly not the other.
std::optional<std::pair<std::string, std::string>> other_sizes(const proto::TypeProto& said,
                                                               const graph::Type& type) {
  const auto shape = type ? graph::known_shape(type) : std::nullopt;
  if (!shape || !said.has_tensor_type() || !said.tensor_type().has_shape()) return std::nullopt;
  const auto& sizes = said.tensor_type().shape();
  if (sizes.dim_size() == 0) return std::nullopt;  // tools write so what they do not know, too
  // Nor what a loop of no iteration collects: inference does not see its other axes.
  for (const PrimExpr& d : *shape)
    if (tir::is_zero(d)) return std::nullopt;
  bool differ = sizes.dim_size() != int(shape->size());
  for (int i = 0; !differ && i < sizes.dim_size(); ++i) {
    const auto& d = sizes.dim(i);
    const auto n = tir::as_int((*shape)[size_t(i)]);
    differ = n && d.value_case() == d.kDimValue && d.dim_value() >= 0 && d.dim_value() != *n;
  }
  if (!differ) return std::nullopt;
  return std::pair(sizes_text(sizes), sizes_text(*shape));
}

}  // namespace

void Importer::check_declared(const proto::ValueInfoProto& info, const Value& v) const {
  const proto::TypeProto& said = info.type();
  const std::string where = fmt::format("{}, output {}", file.name, in_quotes(info.name()));
  const auto refuse = [&](const std::string& declared, const std::string& is) {
    fail("T2023", fmt::format("the model declares the output as {}, and its node makes {}", declared, is),
         where, "correct the declaration; onnx.shape_inference.infer_shapes says what nodes make");
  };
  if (!info.has_type() || said.value_case() == proto::TypeProto::VALUE_NOT_SET) return;
  const auto* tensor = v.form ? nullptr : graph::as_tensor(v.expr->type);
  const FormRef form = tensor ? tensor_form(v.expr->type) : v.form, declared = declared_form(said);
  if (declared && form && !may_be(declared, form)) refuse(to_string(declared), to_string(form));
  // A value that is bound may have other sizes than the initialiser that it stands for.
  if (!options.values.empty() || (v.form && !v.form->is_tensor())) return;
  if (const auto sizes = other_sizes(said, v.form && v.form->type ? v.form->type : v.expr->type))
    refuse(fmt::format("a tensor of {}", sizes->first), fmt::format("one of {}", sizes->second));
}

}  // namespace tenon::onnx
