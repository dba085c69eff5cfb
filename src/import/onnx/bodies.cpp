// SPDX-License-Identifier: Apache-2.0
// Branches and bodies of loops: sequences of their own, what of their values is known outside, and branches
// that these shapes do not allow.
#include <algorithm>

#include "import/onnx/importer.h"
#include "op/infer.h"

namespace tenon::onnx {

Importer::Body Importer::convert_body(std::string_view what, FunctionRef<Values()> make) {
  // What `make` itself throws leaves the outer sequence as it was.
  struct Outer {
    Importer& importer;
    graph::BlockBuilder saved;
    size_t stretched, picked, not_zero, ranked;
    ~Outer() {
      importer.builder = std::move(saved);
      importer.stretched_.resize(stretched);
      importer.picked_.resize(picked);
      importer.not_zero_.resize(not_zero);
      importer.ranked_.resize(ranked);
      --importer.branches_;
    }
  } outer{*this,
          std::exchange(builder, op::make_builder()),
          stretched_.size(),
          picked_.size(),
          not_zero_.size(),
          ranked_.size()};
  const size_t problems = problems_.size();
  const int64_t unsupported = unsupported_nodes_;
  ++branches_;
  Values values = make();
  Body out;
  Array<Expr> items;
  for (const Value& v : values) {
    out.poisoned |= v.poisoned || !v.present();
    if (!v.poisoned && v.present()) items.push_back(v.expr);
    out.forms.push_back(v.form);
  }
  if (!out.poisoned) {
    if (items.empty()) fail("T2013", fmt::format("the {} has no outputs", what), file.name);
    out.expr = items.size() == 1 ? items[0] : builder.emit(op::tuple(items), "outputs");
    out.expr = builder.finish(out.expr);
  }
  if (!out.poisoned || problems_.size() == problems || unsupported != unsupported_nodes_) return out;
  // Shapes that contradict an operator, and nothing else.
  for (size_t i = problems; i < problems_.size(); ++i)
    if (const std::string& code = problems_[i].code;
        code != "T2020" && code != kTooManyDimensions && !code.starts_with("T11"))
      return out;
  const Diagnostic& first = problems_[problems];
  out.impossible = first.message + (first.location.empty() ? "" : " (" + first.location + ")");
  out.first_problem = problems;
  out.problems = problems_.size() - problems;
  return out;
}

Expr Importer::refusal(const std::string& message, const graph::Type& type) {
  NDArray text = NDArray::empty({int64_t(message.size())}, u8);
  std::copy(message.begin(), message.end(), static_cast<char*>(text.data()));
  graph::BlockBuilder b = op::make_builder();
  Expr call = graph::call(graph::get_op("call_packed"),
                          {Expr(make<graph::ExternFunc>("tenon.refuse")), graph::constant(text)}, {},
                          {visible(type)});
  return b.finish(b.emit(call, "refused"));
}

bool Importer::visible(const PrimExpr& size) const {
  for (const tir::VarRef& v : tir::free_vars(size))
    if (std::ranges::none_of(symbols_, [&](const auto& s) { return s.second.get() == v.get(); }))
      return false;
  return true;
}

graph::Type Importer::visible(const graph::Type& type) const {
  if (const auto* t = type.as<graph::TupleType>())
    return graph::tuple_type(t->items.map([&](const graph::Type& i) { return visible(i); }));
  const auto shape = type && type.is<graph::TensorType>() ? graph::known_shape(type) : std::nullopt;
  const auto known = [&](const PrimExpr& d) { return visible(d); };
  if (!shape || std::all_of(shape->begin(), shape->end(), known)) return type;
  return graph::tensor_type_unknown(int64_t(shape->size()), type.as<graph::TensorType>()->dtype);
}

Array<PrimExpr> Importer::visible_sizes(const graph::Type& type) const {
  const auto shape = type && type.is<graph::TensorType>() ? graph::known_shape(type) : std::nullopt;
  if (!shape) return {};
  return shape->map([&](const PrimExpr& d) { return visible(d) ? d : PrimExpr(); });
}

std::vector<Array<PrimExpr>> Importer::agreed_sizes(const Body& yes, const Body& no) const {
  const auto values = [](const Body& b) -> Array<graph::Type> {
    if (!b.expr) return {};
    const graph::Type type = graph::result_of(b.expr)->type;
    return b.forms.size() == 1 ? Array<graph::Type>{type} : type.as<graph::TupleType>()->items;
  };
  const Array<graph::Type> a = values(yes), b = values(no);
  std::vector<Array<PrimExpr>> out(std::max(a.size(), b.size()));
  for (size_t i = 0; i < out.size(); ++i) {
    if (a.empty() || b.empty()) {
      out[i] = visible_sizes(a.empty() ? b[i] : a[i]);
      continue;
    }
    const auto x = graph::known_shape(a[i]), y = i < b.size() ? graph::known_shape(b[i]) : std::nullopt;
    if (!x || !y || x->size() != y->size()) continue;
    for (size_t d = 0; d < x->size(); ++d)
      out[i].push_back(op::same_dim((*x)[d], (*y)[d]) ? (*x)[d] : PrimExpr());
  }
  return out;
}

Expr Importer::branches(const Expr& condition, Body yes, Body no, const Origin& origin,
                        const std::string& where) {
  // One branch that cannot be for these shapes must not stand in the way of the other, nor hide what is wrong
  // with it: it is refused when it is taken.
  if (yes.impossible.empty() != no.impossible.empty()) {
    Body &bad = yes.impossible.empty() ? no : yes, &good = yes.impossible.empty() ? yes : no;
    if (!good.poisoned) {
      const std::string branch = yes.impossible.empty() ? "else" : "then";
      bad.expr = refusal(fmt::format("the {} branch of {} cannot run for inputs of these shapes: {}", branch,
                                     where, bad.impossible),
                         graph::result_of(good.expr)->type);
      bad.poisoned = false;
    }
    const auto from = problems_.begin() + std::ptrdiff_t(bad.first_problem);
    problems_.erase(from, from + std::ptrdiff_t(bad.problems));
  }
  if (yes.poisoned || no.poisoned) return {};
  return with_origin(make<graph::If>(condition, yes.expr, no.expr), origin);
}

std::vector<FormRef> Importer::joined(const Body& yes, const Body& no, const std::string& where) {
  if (yes.poisoned || no.poisoned) return yes.poisoned ? no.forms : yes.forms;
  std::vector<FormRef> out = yes.forms;
  const auto kind = [&](const Body& b, size_t i) {
    graph::Type type = graph::result_of(b.expr)->type;
    if (out.size() > 1) type = type.as<graph::TupleType>()->items[i];
    return graph::as_tensor(type)->dtype;
  };
  for (size_t i = 0; i < out.size() && i < no.forms.size(); ++i) {
    if (!yes.forms[i] && !no.forms[i]) {
      if (kind(yes, i) == kind(no, i)) continue;
      fail("T2020",
           fmt::format("output {} is {} in one branch and {} in the other", i, to_string(kind(yes, i)),
                       to_string(kind(no, i))),
           where);
    }
    out[i] = join(yes.forms[i], no.forms[i]);
    if (!out[i])
      fail("T2020",
           fmt::format("output {} is a {} in one branch and a {} in the other", i, to_string(yes.forms[i]),
                       to_string(no.forms[i])),
           where);
  }
  return out;
}

}  // namespace tenon::onnx
