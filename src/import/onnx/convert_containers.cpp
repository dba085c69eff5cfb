// SPDX-License-Identifier: Apache-2.0
// Converters: sequences, optionals and maps. The program holds them as objects that functions of
// libtenon_sequence make and read; what is taken out of one is a tensor again, whose type is checked there.
#include <set>

#include "import/onnx/loop.h"
#include "import/onnx/text.h"

namespace tenon::onnx {
namespace {

using N = NodeContext;
using R = RegisterConverter;

/// The form of the items of input i, a sequence.
FormRef items_of(N& n, size_t i) {
  const FormRef f = n.value(i).form;
  if (!f || f->kind != Form::sequence)
    n.malformed(fmt::format("input {} of {} must be a sequence, not a {}", i, n.op_type(), to_string(f)));
  return f->item;
}
/// The form of a tensor that a sequence takes in.
FormRef tensor_item(N& n, size_t i) {
  const FormRef f = n.item_form({n.in(i), n.form(i)});
  if (!f->is_tensor()) n.malformed(fmt::format("{} takes tensors, not a {}", n.op_type(), to_string(f)));
  return f;
}
FormRef both(N& n, const FormRef& a, const FormRef& b) {
  const FormRef f = join(a, b);
  if (!f) n.malformed(fmt::format("{} joins a {} and a {}", n.op_type(), to_string(a), to_string(b)));
  return f;
}
Expr is_tensor(N& n, const FormRef& item) { return n.number(int64_t(item->is_tensor())); }
Value sequence(const Expr& e, const FormRef& item) { return {e, container_form(Form::sequence, item)}; }

// ---------------------------------------------------------------- sequences
Values sequence_empty(N& n) {
  const int64_t code = n.attr_int("dtype", 1);
  Form none;
  if (const FormRef f = element_form(int(code)))
    none = *f;
  else if ((none.element = element_type(int(code))).is_void())
    n.unsupported(fmt::format("sequences of {} are not supported", onnx_type_name(int(code))));
  return {sequence(n.packed("tenon.sequence.construct", {}), std::make_shared<const Form>(none))};
}
Values sequence_construct(N& n) {
  Array<Expr> items;
  FormRef item;
  for (size_t i = 0; i < n.inputs(); ++i) {
    items.push_back(n.in(i));
    const FormRef f = tensor_item(n, i);
    item = item ? both(n, item, f) : f;
  }
  if (!item) n.malformed("SequenceConstruct needs a tensor");
  return {sequence(n.packed("tenon.sequence.construct", items), item)};
}
Values sequence_insert(N& n) {
  FormRef item = items_of(n, 0);
  item = both(n, item, tensor_item(n, 1));
  Array<Expr> args{n.in(0), n.in(1)};
  if (n.has(2)) n.expect_integers(2, "the position"), args.push_back(n.in(2));
  return {sequence(n.packed("tenon.sequence.insert", args), item)};
}
Values sequence_erase(N& n) {
  const FormRef item = items_of(n, 0);
  Array<Expr> args{n.in(0)};
  if (n.has(1)) n.expect_integers(1, "the position"), args.push_back(n.in(1));
  return {sequence(n.packed("tenon.sequence.erase", args), item)};
}
Values sequence_at(N& n) {
  const FormRef item = items_of(n, 0);
  n.expect_integers(1, "the position");
  return {n.item_value(n.packed("tenon.sequence.at", {n.in(0), n.in(1), is_tensor(n, item)}), item)};
}
Values sequence_length(N& n) {
  items_of(n, 0);
  return {n.packed("tenon.sequence.length", {n.in(0)}, graph::tensor_type({}, i64))};
}
Values concat_from_sequence(N& n) {
  FormRef item = items_of(n, 0);
  if (!item->is_tensor()) n.malformed("ConcatFromSequence takes a sequence of tensors");
  const bool stack = n.attr_int("new_axis", 0) != 0;
  const int64_t given = n.need_int("axis");
  const int64_t inner = item->type ? graph::as_tensor(item->type)->ndim : -1;
  const int64_t rank = inner < 0 ? -1 : inner + int64_t(stack);
  if (rank >= 0) n.axis(given, rank);
  item = onnx::with_type(item, graph::tensor_type_unknown(rank, held_type(item)));
  return {n.item_value(
      n.packed("tenon.sequence.concat", {n.in(0), n.number(given), n.number(int64_t(stack))}), item)};
}
Values split_to_sequence(N& n) {
  const Expr x = n.in(0);
  const FormRef whole = n.item_form({x, n.form(0)});
  if (!whole->is_tensor()) n.malformed("SplitToSequence takes a tensor");
  const int64_t rank = graph::as_tensor(x)->ndim, axis = n.attr_int("axis", 0);
  const bool keep = n.attr_int("keepdims", 1) != 0 || n.has(1);
  if (rank >= 0) n.axis(axis, rank);
  Array<Expr> args{x, n.number(axis), n.number(int64_t(keep))};
  if (n.has(1)) {
    n.expect_integers(1, "the sizes");
    args.push_back(n.in(1));
  }
  const graph::Type piece = graph::tensor_type_unknown(rank < 0 || keep ? rank : rank - 1, held_type(whole));
  return {sequence(n.packed("tenon.sequence.split", args), onnx::with_type(whole, piece))};
}

/// The body once for each item; its outputs are collected in sequences.
Values sequence_map(N& n) {
  proto::GraphProto& g = *n.attr_graph("body");
  if (size_t(g.input_size()) != n.inputs() || g.output_size() < n.node.output_size())
    n.malformed(fmt::format("the body of SequenceMap has {} inputs and {} outputs, the node {} and {}",
                            g.input_size(), g.output_size(), n.inputs(), n.node.output_size()));
  items_of(n, 0);
  LoopPlan plan;
  plan.limit = n.packed("tenon.sequence.length", {n.in(0)}, graph::tensor_type({}, i64));
  const Expr empty = n.packed("tenon.sequence.construct", {});
  for (int i = 0; i < g.output_size(); ++i)
    plan.init.push_back({empty, container_form(Form::sequence, nullptr)});
  plan.body = [&](const Expr& index, const Value&, const Values& carried) {
    Scope inner;
    inner.parent = &n.scope;
    for (size_t i = 0; i < n.inputs(); ++i) {
      const Value& v = n.value(i);
      const bool list = v.form && v.form->kind == Form::sequence;
      inner.define(
          g.input(int(i)).name(),
          list ? n.item_value(n.packed("tenon.sequence.at", {v.expr, index, is_tensor(n, v.form->item)}),
                              v.form->item)
               : v,
          n.where());
    }
    Values made = n.importer.convert_graph(g, inner, n.env, n.importer.depth + 1);
    for (size_t i = 0; i < made.size(); ++i) {
      if (made[i].poisoned || !made[i].present()) continue;
      const FormRef before = carried[i].form->item, item = n.item_form(made[i]);
      if (!item->is_tensor()) n.malformed("the body of SequenceMap must give tensors");
      made[i] = sequence(n.packed("tenon.sequence.insert", {carried[i].expr, made[i].expr}),
                         before ? both(n, before, item) : item);
    }
    return made;
  };
  const LoopResult r = convert_loop(n, plan);
  if (!r.poisoned) return r.carried;
  Value none_made;
  none_made.poisoned = true;
  return Values(size_t(n.node.output_size()), none_made);
}

// ---------------------------------------------------------------- optionals
Values optional(N& n) {
  if (n.has(0)) {
    const Expr e = n.in(0);
    const FormRef f = n.item_form({e, n.form(0)});
    if (f->kind == Form::optional) n.malformed("an Optional of an optional is not allowed");
    return {{n.packed("tenon.sequence.kept", {e}), container_form(Form::optional, f)}};
  }
  const auto* a = n.attr("type");
  if (!a || !a->has_tp()) n.malformed("an Optional without content needs the attribute 'type'");
  const FormRef item = declared_form(a->tp());
  if (!item) n.unsupported("an Optional of this type is not supported");
  return {{n.packed("tenon.optional.none", {}),
           item->kind == Form::optional ? item : container_form(Form::optional, item)}};
}
Values has_element(N& n) {
  if (!n.has(0)) return {Value(small_of(boolean, {}, {PrimExpr::int_imm(0, boolean)}))};
  const Expr e = n.in(0);
  const FormRef f = n.value(0).form;
  if (!f || f->kind != Form::optional) return {Value(small_of(boolean, {}, {PrimExpr::int_imm(1, boolean)}))};
  return {n.packed("tenon.optional.has", {e}, graph::tensor_type({}, boolean))};
}
Values get_element(N& n) {
  const Expr e = n.in(0);
  const FormRef f = n.value(0).form;
  if (!f || f->kind != Form::optional) return {n.value(0)};
  return {n.item_value(n.packed("tenon.optional.get", {e, is_tensor(n, f->item)}), f->item)};
}

// ---------------------------------------------------------------- maps
template <class Key>
void expect_different(N& n, const std::vector<Key>& keys) {
  if (std::set<Key>(keys.begin(), keys.end()).size() < keys.size())
    n.malformed(fmt::format("{} has a key twice", n.op_type()));
}
/// Keys as the functions of maps take them, from a list of texts or one of integers.
Expr map_keys(N& n, const std::string& texts, const std::string& integers) {
  if (n.has_attr(texts)) {
    expect_different(n, n.attr_strings(texts));
    return list_constant(n.attr_strings(texts));
  }
  const std::vector<int64_t> v = n.need_ints(integers);
  expect_different(n, v);
  return graph::constant(NDArray::from_bytes({int64_t(v.size())}, i64, v.data(), v.size() * sizeof(int64_t)));
}
Values zip_map(N& n) {
  const bool texts = n.has_attr("classlabels_strings");
  if (n.form(0) || !n.dtype(0).is_float()) n.malformed("ZipMap takes floating values");
  const FormRef key = texts ? element_form(kString) : tensor_form(graph::tensor_type({}, i64));
  return {sequence(n.packed("tenon.map.zip",
                            {n.cast(n.in(0), f32), map_keys(n, "classlabels_strings", "classlabels_int64s")}),
                   map_form(key, tensor_form(graph::tensor_type({}, f32))))};
}
Values dict_vectorizer(N& n) {
  const FormRef f = n.form(0);
  if (!f || f->kind != Form::map)
    n.malformed(fmt::format("DictVectorizer takes a map, not a {}", to_string(f)));
  const bool texts = n.has_attr("string_vocabulary");
  if (texts != (f->key->kind == Form::strings))
    n.malformed("the vocabulary of DictVectorizer is of another type than the keys of its input");
  const Expr keys = map_keys(n, "string_vocabulary", "int64_vocabulary");
  const auto columns =
      int64_t(texts ? n.attr_strings("string_vocabulary").size() : n.need_ints("int64_vocabulary").size());
  const DataType t = f->item->element;
  return {n.packed("tenon.map.row", {n.in(0), keys, graph::constant(NDArray::zeros({0}, t))},
                   graph::tensor_type({1, columns}, t))};
}

constexpr int64_t kMostColumns = int64_t(1) << 20;  // of CastMap: its constant of keys has 8 MB then
/// The values of a map of integers in the order of its keys, or each in the column that its key says. A
/// column without a key is 0; as text it is "0.f", as ONNX Runtime has it.
Values cast_map(N& n) {
  const FormRef f = n.form(0);
  if (!f || f->kind != Form::map || f->key->kind == Form::strings)
    n.malformed(fmt::format("CastMap takes a map of integers, not a {}", to_string(f)));
  const std::string to = n.attr_string("cast_to", "TO_FLOAT"), form = n.attr_string("map_form", "DENSE");
  if (to != "TO_FLOAT" && to != "TO_INT64" && to != "TO_STRING")
    n.malformed(fmt::format("'cast_to' of CastMap is {}", in_quotes(to)));
  const bool texts = f->item->kind == Form::strings, to_text = to == "TO_STRING";
  const DataType t = texts ? i64 : f->item->element;
  std::function<Expr(const Expr&)> row;  // missing columns have the element of what it is given, or 0
  if (form == "DENSE") {
    row = [&](const Expr& like) {
      const Expr all =
          n.with_sizes(n.packed("tenon.map.values", {n.in(0), like}, graph::tensor_type_unknown(2, t)));
      return n.reshape(all, {PrimExpr(1), n.shape_of(all)[1]});
    };
  } else {
    const int64_t columns = n.attr_int("max_map", 1);
    if (form != "SPARSE" || columns < 1 || columns > kMostColumns)
      n.malformed(fmt::format("CastMap has the form {} of {} columns", in_quotes(form), columns));
    const NDArray keys = NDArray::empty({columns}, i64);
    for (int64_t i = 0; i < columns; ++i) keys.set_element_int(i, i);
    row = [&n, t, columns, keys = Expr(graph::constant(keys))](const Expr& like) {
      return n.packed("tenon.map.row", {n.in(0), keys, like}, graph::tensor_type({1, columns}, t));
    };
  }
  const auto text = [&](const char* s) { return strings_constant(n, {s}).expr; };
  const DataType target = to == "TO_FLOAT" ? f32 : i64;
  if (texts && to_text) return {strings_value(row(text("0.f")))};
  if (texts) return {numbers_of_strings(n, row(text("0")), target)};
  const Expr numbers = row(n.scalar(0, t));
  if (!to_text) return {n.cast(numbers, target)};
  const Value all = strings_of_numbers(n, numbers, true);
  if (form == "DENSE") return {all};
  // Where another number for what is missing shows.
  const Expr missing = n.op("not_equal", {numbers, row(n.scalar(1, t))});
  return {strings_value(n.op("where", {missing, text("0.f"), all.expr}))};
}

const R m1("ai.onnx.ml::ZipMap", {1}, zip_map, "", Forms::any),
    m2("ai.onnx.ml::DictVectorizer", {1}, dict_vectorizer, "values are numbers", Forms::any),
    m3("ai.onnx.ml::CastMap", {1}, cast_map, "", Forms::any);
const R s1("SequenceEmpty", {11}, sequence_empty, "", Forms::any),
    s2("SequenceConstruct", {11}, sequence_construct, "", Forms::any),
    s3("SequenceInsert", {11}, sequence_insert, "", Forms::any),
    s4("SequenceErase", {11}, sequence_erase, "", Forms::any),
    s5("SequenceAt", {11}, sequence_at, "", Forms::any),
    s6("SequenceLength", {11}, sequence_length, "", Forms::any),
    s7("ConcatFromSequence", {11}, concat_from_sequence, "", Forms::any),
    s8("SplitToSequence", {11, 24}, split_to_sequence, {.values = {1}, .forms = Forms::any}),
    s9("SequenceMap", {17}, sequence_map, "", Forms::any), o1("Optional", {15, 28}, optional, "", Forms::any),
    o2("OptionalHasElement", {15, 18, 28}, has_element, "", Forms::any),
    o3("OptionalGetElement", {15, 18, 28}, get_element, "", Forms::any);

}  // namespace
}  // namespace tenon::onnx
