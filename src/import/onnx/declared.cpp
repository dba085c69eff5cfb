// SPDX-License-Identifier: Apache-2.0
// What a model declares of its outputs, beside what their nodes make. Sizes are not compared: those of a
// model whose inputs were given other ones since are often of before, and nothing is computed by them.

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

}  // namespace

void Importer::check_declared(const proto::ValueInfoProto& info, const Value& v) const {
  const proto::TypeProto& said = info.type();
  if (!info.has_type() || said.value_case() == proto::TypeProto::VALUE_NOT_SET) return;
  const auto* tensor = v.form ? nullptr : graph::as_tensor(v.expr->type);
  const FormRef form = tensor ? tensor_form(v.expr->type) : v.form, declared = declared_form(said);
  if (!declared || !form || may_be(declared, form)) return;
  fail("T2023",
       fmt::format("the model declares the output as {}, and its node makes {}", to_string(declared),
                   to_string(form)),
       fmt::format("{}, output {}", file.name, in_quotes(info.name())),
       "correct the declaration; onnx.shape_inference.infer_shapes says what nodes make");
}

}  // namespace tenon::onnx
