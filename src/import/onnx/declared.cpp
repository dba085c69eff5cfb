// SPDX-License-Identifier: Apache-2.0
// What a model declares of its outputs and of values in between, beside what their nodes make. Sizes are not
// compared: those of a model whose inputs were given other ones since are often of before, and nothing is
// computed by them.

#include <string_view>
#include <unordered_set>

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

void Importer::check_declared(const proto::ValueInfoProto& info, const Value& v, const char* what) const {
  const proto::TypeProto& said = info.type();
  if (!info.has_type() || said.value_case() == proto::TypeProto::VALUE_NOT_SET) return;
  const auto* tensor = v.form || !v.expr ? nullptr : graph::as_tensor(v.expr->type);
  const bool only_small = !v.expr && v.small;
  const FormRef made = only_small ? tensor_form(graph::tensor_type_unknown(-1, v.small->dtype)) : v.form,
                form = tensor ? tensor_form(v.expr->type) : made, declared = declared_form(said);
  if (!declared || !form || may_be(declared, form)) return;
  fail("T2023",
       fmt::format("the model declares the {} as {}, and its node makes {}", what, to_string(declared),
                   to_string(form)),
       fmt::format("{}, {} {}", file.name, what, in_quotes(info.name())),
       "correct the declaration; onnx.shape_inference.infer_shapes says what nodes make");
}

/// Values that nodes make: inputs and constants have types of their own, beside which a value_info says
/// nothing (converters to half precision change the latter and leave the constants that an operator wants as
/// they are).
void Importer::check_value_info(const proto::GraphProto& g, const Scope& scope) {
  std::unordered_set<std::string_view> made;
  for (const auto& node : g.node()) made.insert(node.output().begin(), node.output().end());
  for (const auto& info : g.value_info()) {
    const auto it = scope.values.find(info.name());
    if (it == scope.values.end() || it->second.poisoned || !made.count(info.name())) continue;
    try {
      check_declared(info, it->second, "value");
    } catch (const DiagnosticError& e) {
      report(e, file.name);
    }
  }
}

}  // namespace tenon::onnx
