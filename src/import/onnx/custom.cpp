// SPDX-License-Identifier: Apache-2.0
// Operators of a user's own: registered functions give their types and do their work.
#include "import/onnx/custom.h"

#include "analysis/analyzer.h"
#include "base/function.h"
#include "ir/bind_nested.h"
#include "op/infer.h"

namespace tenon::onnx {
namespace {

std::string full_name(const std::string& domain, const std::string& name) { return domain + "::" + name; }

Any attribute_value(NodeContext& n, const proto::AttributeProto& a) {
  const auto list = [](const auto& items) {
    Array<Any> out;
    for (const auto& i : items) out.push_back(Any(i));
    return Any(out);
  };
  switch (a.type()) {
    case 1:
      return Any(double(a.f()));
    case 2:
      return Any(int64_t(a.i()));
    case 3:
      return Any(a.s());
    case 4:
      return Any(n.importer.constant_of(*n.attr_tensor(a.name()), n.where()).as<graph::Constant>()->data);
    case 6:
      return list(a.floats());
    case 7:
      return list(a.ints());
    case 8:
      return list(a.strings());
    default:
      n.unsupported(fmt::format("the attribute {} of {} has a kind that custom operators do not take",
                                in_quotes(a.name()), n.op_type()));
  }
}

/// [type, sizes]; a size is a number, or the expression of a symbolic one.
Any described(NodeContext& n, size_t i) {
  Array<Any> sizes;
  for (const PrimExpr& s : n.known_shape(i)) {
    const auto v = tir::as_int(s);
    sizes.push_back(v ? Any(*v) : Any(s));
  }
  return Any(Array<Any>{Any(n.dtype(i)), Any(sizes)});
}

[[noreturn]] void bad_rule(NodeContext& n, const std::string& what) {
  n.unsupported(fmt::format("the type rule of the custom operator {} gives {}", n.op_type(), what),
                "it gives an Array of the outputs' types, each an Array of type and sizes, and an Array of "
                "parameters");
}
graph::Type type_of(NodeContext& n, const Any& described) {
  const auto parts = described.try_as<Array<Any>>();
  const auto type = parts && parts->size() == 2 ? (*parts)[0].try_as<DataType>() : std::nullopt;
  const auto sizes = type ? (*parts)[1].try_as<Array<Any>>() : std::nullopt;
  if (!sizes) bad_rule(n, "an output that is no pair of type and sizes");
  Array<PrimExpr> shape;
  for (const Any& s : *sizes) {
    const auto number = s.try_as<int64_t>();
    const auto expression = number ? std::nullopt : s.try_as<PrimExpr>();
    if (number ? *number < 0 : !expression || !*expression) bad_rule(n, "a size that is none");
    shape.push_back(number ? PrimExpr(*number) : *expression);
  }
  return graph::tensor_type(shape, *type);
}
Expr parameter(NodeContext& n, const Any& value) {
  if (const auto tensor = value.try_as<NDArray>(); tensor && *tensor) return graph::constant(*tensor);
  if (const auto number = value.try_as<int64_t>()) {
    NDArray scalar = NDArray::empty({}, i64);
    scalar.set_element_int(0, *number);
    return graph::constant(scalar);
  }
  if (const auto number = value.try_as<double>()) return graph::constant(NDArray::scalar(*number, f64));
  bad_rule(n, "a parameter that is neither a number nor a tensor");
}

Any attributes_of(NodeContext& n) {
  Map<std::string, Any> attributes(make<MapObj>());
  for (const auto& a : n.node.attribute())
    if (const auto* known = n.attr(a.name())) attributes.set(a.name(), attribute_value(n, *known));
  return Any(attributes);
}

Values converted(NodeContext& n, const Function& converter) {
  Array<Any> inputs(make<ArrayObj>());
  for (size_t i = 0; i < n.inputs(); ++i) inputs.push_back(n.has(i) ? Any(n.in(i)) : Any());
  const Any made = converter(inputs, attributes_of(n));
  const auto list = made.try_as<Array<Any>>();
  const auto wanted = size_t(n.node.output_size());
  Values out;
  for (size_t i = 0; i < (list ? list->size() : 1); ++i) {
    const auto e = (list ? (*list)[i] : made).try_as<Expr>();
    if (!e || !*e) break;
    out.push_back(
        n.emit(graph::bind_nested(*e, [&](Expr part) { return n.emit(op::typed(std::move(part))); })));
  }
  if (out.size() < wanted)
    n.unsupported(fmt::format("the converter of {} gives {} graph expressions where the node has {} outputs",
                              n.op_type(), out.size(), wanted));
  out.resize(wanted);
  return out;
}

}  // namespace

bool is_custom(const std::string& domain, const std::string& name) {
  const std::string full = full_name(domain, name);
  return registry::find(kConverterPrefix + full) || registry::find(kTypeRulePrefix + full);
}

Values convert_custom(NodeContext& n) {
  const std::string name = full_name(n.node.domain(), n.op_type());
  if (const Function converter = registry::find(kConverterPrefix + name)) return converted(n, converter);
  Array<Any> types;
  Array<Expr> inputs;
  for (size_t i = 0; i < n.inputs(); ++i) {
    types.push_back(n.has(i) ? described(n, i) : Any());
    if (n.has(i)) inputs.push_back(n.in(i));
  }
  const auto given = registry::find(kTypeRulePrefix + name)(types, attributes_of(n)).try_as<Array<Any>>();
  const auto outputs = given && given->size() == 2 ? (*given)[0].try_as<Array<Any>>() : std::nullopt;
  const auto parameters = outputs ? (*given)[1].try_as<Array<Any>>() : std::nullopt;
  if (!parameters) bad_rule(n, "no pair of types and parameters");
  if (outputs->empty() || outputs->size() < size_t(n.node.output_size()))
    bad_rule(n, fmt::format("{} outputs where the node has {}", outputs->size(), n.node.output_size()));
  for (const Any& p : *parameters) inputs.push_back(parameter(n, p));
  Array<graph::Type> results;
  for (const Any& o : *outputs) results.push_back(type_of(n, o));
  const Expr y = n.emit(graph::call(
      graph::get_op("call_dps_packed"),
      {Expr(make<graph::ExternFunc>(kKernelPrefix + name)), n.emit(op::tuple(inputs))}, {}, results));
  if (results.size() == 1) return {y};
  Values out;
  for (size_t i = 0; i < results.size(); ++i) out.push_back(n.item(y, int64_t(i)));
  return out;
}

}  // namespace tenon::onnx
