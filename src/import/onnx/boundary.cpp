// SPDX-License-Identifier: Apache-2.0
// Where values enter the program and leave it: inputs, tensors of the file, outputs, in the forms that the
// program holds.
#include <fmt/ranges.h>

#include "base/nearest.h"
#include "import/onnx/importer.h"

namespace tenon::onnx {
namespace {

Expr dtype_word(DataType t) {
  return make<graph::PrimValue>(PrimExpr(int64_t(t.code) | int64_t(t.bits) << 8));
}
bool holds(const FormRef& form, Form::Kind kind) {
  return form && (form->kind == kind || holds(form->item, kind));
}
graph::Type of_elements(const graph::Type& tensor, DataType t) {
  const auto* type = graph::as_tensor(tensor);
  return make<graph::TensorType>(type->shape, type->ndim, t, type->device);
}
/// Of dimension i where it is no number.
std::string dimension_name(const proto::ValueInfoProto& info, int i) {
  const std::string& given = info.type().tensor_type().shape().dim(i).dim_param();
  return given.empty() || given == "?" ? fmt::format("{}_d{}", info.name(), i) : given;
}

/// The type of a value as it enters the program.
graph::Type outside_type(const graph::Type& held, const FormRef& form) {
  if (!form) return held;
  if (form->kind != Form::codes) return graph::object_type();
  return of_elements(held, form->element);
}

/// Says of values that are no tensors of numbers outside of the program what they are; "" for the others.
void set_kinds(AttrMap& attrs, const char* key, const std::vector<FormRef>& forms) {
  Array<std::string> texts;
  bool any = false;
  for (const FormRef& f : forms) {
    any = any || holds(f, Form::strings) || (f && !f->is_tensor());
    texts.push_back(!f || f->kind == Form::codes ? "" : to_string(f));
  }
  if (any) attrs.set(key, Any(texts));
}

}  // namespace

Expr bytes_constant(const std::string& text) {
  return graph::constant(NDArray::from_bytes({int64_t(text.size())}, u8, text.data(), text.size()));
}

std::pair<graph::Type, FormRef> Importer::input_type(const proto::ValueInfoProto& info) {
  const std::string where = fmt::format("{}, input {}", file.name, in_quotes(info.name()));
  if (!info.has_type() || info.type().value_case() == proto::TypeProto::VALUE_NOT_SET)
    fail("T2022", "the input has no type", where);
  if (info.type().has_sparse_tensor_type())
    fail("T2103", "the input is a sparse tensor, which is not supported", where);
  if (!info.type().has_tensor_type()) {
    const FormRef form = declared_form(info.type());
    if (!form) fail("T2103", "the input is a container of values whose type is not supported", where);
    return {graph::object_type(), form};
  }
  const auto& t = info.type().tensor_type();
  const DataType dtype = held_type(t.elem_type());
  const FormRef form = element_form(t.elem_type());
  if (dtype.is_void()) {
    if (t.elem_type() == 0) fail("T2022", "the input has no element type", where);
    fail("T2103",
         fmt::format("the input has elements of {}, which is not supported", onnx_type_name(t.elem_type())),
         where);
  }
  if (!t.has_shape()) return {graph::tensor_type_unknown(-1, dtype), form};
  if (t.shape().dim_size() > 64)
    fail("T2014", fmt::format("the input has {} dimensions; at most 64 are accepted", t.shape().dim_size()),
         where);
  Array<PrimExpr> shape;
  int64_t known = 1;
  for (int i = 0; i < t.shape().dim_size(); ++i) {
    const auto& d = t.shape().dim(i);
    if (d.value_case() == proto::TensorShapeProto::Dimension::kDimValue && d.dim_value() >= 0) {
      if (d.dim_value() > 0 && __builtin_mul_overflow(known, d.dim_value(), &known))
        fail("T2015", "the input's shape has more elements than can be counted", where, "", ErrorKind::limit);
      shape.push_back(d.dim_value());
    } else if (d.value_case() == proto::TensorShapeProto::Dimension::kDimValue && d.dim_value() < -1) {
      fail("T2014", fmt::format("the input has the negative dimension {}", d.dim_value()), where);
    } else {
      shape.push_back(symbol(dimension_name(info, i)));
    }
  }
  if (known > options.max_tensor_bytes)
    fail("T2015", fmt::format("the input is larger than the limit of {} bytes", options.max_tensor_bytes),
         where, "", ErrorKind::limit);
  return {graph::tensor_type(shape, dtype), form};
}

Expr Importer::packed(const char* function, const Array<Expr>& args, const graph::Type& type,
                      const Origin& origin, const std::string& place) {
  Array<Expr> all{Expr(make<graph::ExternFunc>(function)), bytes_constant(place)};
  for (const Expr& a : args) all.push_back(a);
  return with_origin(graph::call(graph::get_op("call_pure_packed"), all, {}, {type}), origin);
}

Expr Importer::strings() {
  if (!strings_) strings_ = graph::var(builder.fresh_name("strings"), graph::object_type());
  return strings_;
}

Value Importer::tensor_value(proto::TensorProto& t, const std::string& where) {
  const FormRef form = element_form(t.data_type());
  if (!form) return constant_of(t, where);
  if (form->kind == Form::codes) {
    const NDArray codes = constant_of(t, where).as<graph::Constant>()->data;
    return {graph::constant(
                NDArray::view(codes.data(), codes.shape(), DataType::uint(codes.dtype().bits), Any(codes))),
            form};
  }
  const int64_t n = checked_elements(t, i64, options, where);
  if (t.has_raw_data() || t.has_payload() || t.data_location() == 1)
    fail("T2014",
         fmt::format("tensor {} holds strings in another field than string_data", in_quotes(t.name())),
         where);
  if (t.string_data_size() != n)
    fail("T2014",
         fmt::format("tensor {} of {} strings has {} of them", in_quotes(t.name()), n, t.string_data_size()),
         where);
  std::string all;
  Array<Expr> args{strings(), {}};
  Array<PrimExpr> shape;
  for (const auto& s : t.string_data()) all += std::to_string(s.size()) + ":" + s;
  args.set(1, bytes_constant(all));
  for (int64_t d : t.dims()) {
    args.push_back(make<graph::PrimValue>(PrimExpr(d)));
    shape.push_back(d);
  }
  return {builder.emit(packed("tenon.string.constant", args, graph::tensor_type(shape, i64), Origin(), where),
                       "text"),
          form};
}

Value Importer::enter(const graph::VarRef& param, const proto::ValueInfoProto& info,
                      const graph::Type& type) {
  const FormRef form =
      info.type().has_tensor_type() ? element_form(info.type().tensor_type().elem_type()) : nullptr;
  const std::string where = fmt::format("{}, input {}", file.name, in_quotes(info.name()));
  if (info.type().has_tensor_type() && !form) return Value(Expr(param));
  if (form && form->kind == Form::codes)
    return {builder.emit(packed("tenon.sequence.bits_as", {param, dtype_word(graph::as_tensor(type)->dtype)},
                                type, Origin(), where),
                         "codes"),
            form};
  const FormRef all = form ? form : declared_form(info.type());
  Expr entered = param;
  if (holds(all, Form::strings))
    entered = builder.emit(
        packed("tenon.string.enter", {strings(), param}, graph::object_type(), Origin(), where), "text");
  if (form) return {Expr(builder.emit_match_cast(entered, type, "text")), all};
  return {builder.emit(packed("tenon.sequence.given", {entered, bytes_constant(to_string(all))},
                              graph::object_type(), Origin(), where),
                       "given"),
          all};
}

Expr Importer::leave(const Value& v, const std::string& name) {
  const std::string where = fmt::format("{}, output {}", file.name, in_quotes(name));
  if (!v.form) return v.expr;
  if (v.form->kind == Form::codes) {
    return builder.emit(packed("tenon.sequence.bits_as", {v.expr, dtype_word(v.form->element)},
                               of_elements(v.expr->type, v.form->element), Origin(), where),
                        "stored");
  }
  if (holds(v.form, Form::codes))
    fail("T2103", fmt::format("the output is a {}, which is not supported", to_string(v.form)), where);
  if (!holds(v.form, Form::strings)) return v.expr;
  return builder.emit(
      packed("tenon.string.leave", {strings(), v.expr}, graph::object_type(), Origin(), where), "text");
}

void Importer::free_initializers(proto::GraphProto& g) const {
  auto& tensors = *g.mutable_initializer();
  auto& sparse = *g.mutable_sparse_initializer();
  const auto drop = [](auto& list, const auto& which) {
    list.erase(std::remove_if(list.begin(), list.end(), which), list.end());
  };
  for (const auto& i : g.input()) {  // what is bound stands for the value in the file
    if (!options.values.count(i.name())) continue;
    drop(tensors, [&](const auto& t) { return t.name() == i.name(); });
    drop(sparse, [&](const auto& s) { return s.values().name() == i.name(); });
  }
  for (const std::string& name : options.overridden) {
    const auto named = [&](const auto& value) { return value.name() == name; };
    const auto at = std::find_if(tensors.begin(), tensors.end(), named);
    if (at == tensors.end() || std::none_of(g.input().begin(), g.input().end(), named))
      fail("T0503", fmt::format("the model has no initialiser {} that is also an input", in_quotes(name)),
           file.name, "", ErrorKind::usage);
    tensors.erase(at);
  }
}

void Importer::read_bound(const proto::GraphProto& g) {
  DiagnosticList problems(ErrorKind::usage);
  std::vector<std::string> names;
  for (const auto& i : g.input()) names.push_back(i.name());
  for (const auto& [name, value] : options.values) {
    const auto at = std::ranges::find(names, name);
    if (at == names.end()) {
      problems.add({"T0912",
                    fmt::format("the model has no input {}", in_quotes(name)),
                    file.name,
                    did_you_mean(name, names, "its inputs are "),
                    {}});
      continue;
    }
    const auto& info = g.input(int(at - names.begin()));
    const auto refuse = [&](const std::string& why) {
      problems.add({"T0953",
                    fmt::format("the input {} cannot be bound to a tensor {}({}): {}", in_quotes(name),
                                to_string(value.dtype()), fmt::join(value.shape(), ", "), why),
                    file.name,
                    {},
                    {}});
    };
    const auto& t = info.type().tensor_type();
    if (!info.type().has_tensor_type() || stored_type(t.elem_type()).is_void()) {
      refuse("it is no tensor of numbers");
    } else if (const DataType want = stored_type(t.elem_type()); want != value.dtype()) {
      refuse(fmt::format("it is {}", to_string(want)));
    } else if (t.has_shape() && t.shape().dim_size() != int(value.ndim())) {
      refuse(fmt::format("its rank is {}", t.shape().dim_size()));
    } else {
      for (int i = 0; i < t.shape().dim_size(); ++i) {
        const auto& d = t.shape().dim(i);
        const int64_t size = value.shape()[size_t(i)];
        const bool number =
            d.value_case() == proto::TensorShapeProto::Dimension::kDimValue && d.dim_value() >= 0;
        const std::string symbol = number ? std::string() : dimension_name(info, i);
        const int64_t want = number ? d.dim_value() : options.dims.try_emplace(symbol, size).first->second;
        if (!number) dim_names_.insert(symbol);
        if (want != size)
          refuse(fmt::format("dimension {} is {}", number ? std::to_string(i) : in_quotes(symbol), want));
      }
    }
  }
  problems.throw_if_any();
}

Value Importer::bound_value(const proto::ValueInfoProto& info, const NDArray& value) const {
  const FormRef form = element_form(info.type().tensor_type().elem_type());
  const NDArray own = value.copy();  // the caller's may change
  if (!form) return Value(graph::constant(own));
  return {graph::constant(NDArray::view(own.data(), own.shape(), DataType::uint(own.dtype().bits), Any(own))),
          form};
}

void Importer::read_inputs(const proto::GraphProto& g, Scope& scope) {
  std::set<std::string> initializers;
  for (const auto& t : g.initializer()) initializers.insert(t.name());
  for (const auto& s : g.sparse_initializer()) initializers.insert(s.values().name());
  for (const auto& i : g.input()) {
    if (i.name().empty()) fail("T2022", "an input has no name", file.name);
    if (initializers.count(i.name())) continue;  // up to IR version 3 every initialiser is listed as an input
    if (auto fixed = options.values.find(i.name()); fixed != options.values.end()) {
      if (!scope.values.emplace(i.name(), bound_value(i, fixed->second)).second)
        fail("T2010", fmt::format("the input {} is defined twice", in_quotes(i.name())), file.name);
      continue;
    }
    graph::VarRef v;
    Value value;
    try {
      const auto [held, form] = input_type(i);
      v = graph::var(builder.fresh_name(identifier(i.name())), outside_type(held, form));
      value = enter(v, i, held);
    } catch (const DiagnosticError& e) {
      report(e, fmt::format("{}, input {}", file.name, in_quotes(i.name())));
    }
    value.poisoned = !v;
    if (v) {
      inputs_.params.push_back(v);
      inputs_.names.push_back(i.name());
      inputs_.forms.push_back(value.form);
    }
    if (!scope.values.emplace(i.name(), std::move(value)).second)
      fail("T2010", fmt::format("the input {} is defined twice", in_quotes(i.name())), file.name);
  }
}

IRModule Importer::finish(const proto::GraphProto& g, const Values& outputs) {
  Array<Expr> results;
  Array<std::string> names;
  std::vector<FormRef> forms;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = g.output(int(i)).name();
    if (!outputs[i].present())
      fail("T2013", fmt::format("the output {} has no value", in_quotes(name)), file.name);
    check_declared(g.output(int(i)), outputs[i]);
    results.push_back(leave(outputs[i], name));
    names.push_back(name);
    forms.push_back(outputs[i].form);
  }
  Expr body = results.size() == 1 ? results[0] : builder.emit(op::tuple(results), "outputs");
  body = builder.finish(body);
  if (strings_) {
    auto first = make<graph::BindingBlockNode>();
    first.edit()->bindings.push_back(make<graph::VarBindingNode>(
        strings_, packed("tenon.string.table", {}, graph::object_type(), Origin(), file.name)));
    Array<graph::BindingBlock> blocks{first};
    for (const auto& b : body.as<graph::SeqExpr>()->blocks) blocks.push_back(b);
    body = with_type(make<graph::SeqExpr>(blocks, graph::result_of(body)), body->type);
  }
  AttrMap attrs;
  attrs.set("global_symbol", Any(std::string("main")));
  attrs.set("input_names", Any(inputs_.names));
  attrs.set("output_names", Any(names));
  attrs.set("num_inputs", Any(int64_t(inputs_.params.size())));
  set_kinds(attrs, "input_kinds", inputs_.forms);
  Array<std::string> values;
  for (const std::string& name : inputs_.names)
    if (value_inputs_.count(name)) values.push_back(name);
  if (!values.empty()) attrs.set("value_inputs", Any(values));
  set_kinds(attrs, "output_kinds", forms);
  IRModule module = IRModule::create();
  module.set("main", make<graph::Function>(inputs_.params, body, body->type, attrs));
  return module;
}

}  // namespace tenon::onnx
