// SPDX-License-Identifier: Apache-2.0
// Attribute values and constants of script text.
#include <fmt/format.h>

#include <limits>

#include "ir/parse_impl.h"

namespace tenon::script {

AttrMap Converter::dict(const Ast* a) {
  if (a->kind != ExprKind::dict) fail("T0224", "a map such as {\"key\": value} was expected", a);
  AttrMap m;
  for (size_t i = 0; i + 1 < a->items.size(); i += 2) {
    const Ast* key = a->items[i];
    const bool name_of_buffer =
        key->kind == ExprKind::attribute && key->text == "name" && is_buffer(key->items[0]);
    m.set(name_of_buffer ? key->items[0]->text : text_of(key, "a key"), any(a->items[i + 1]));
  }
  return m;
}

Any Converter::any(const Ast* a) {
  switch (a->kind) {
    case ExprKind::integer:
      return a->integer;
    case ExprKind::number:
      return a->number;
    case ExprKind::string:
      return Any(a->text);
    case ExprKind::object:
      return a->object;
    case ExprKind::tuple:
    case ExprKind::list: {
      auto list = make<ArrayObj>();
      for (const Ast* x : a->items) list.edit()->items.push_back(any(x));
      return list;
    }
    case ExprKind::dict:
      return dict(a);
    case ExprKind::unary:
      if (a->text == "-" && a->items[0]->kind == ExprKind::integer)
        return int64_t(0 - uint64_t(a->items[0]->integer));
      if (a->text == "-" && a->items[0]->kind == ExprKind::number) return -a->items[0]->number;
      return expr(a);
    case ExprKind::name:
      if (a->text == "None") return {};
      if (a->text == "True" || a->text == "False") return a->text == "True";
      return name_of(a);
    case ExprKind::attribute:
    case ExprKind::call:
    case ExprKind::subscript: {
      const Ast* head = a->kind == ExprKind::attribute ? a : a->items[0];
      const std::string p = path(head);
      if (a->kind == ExprKind::call) {
        if (p == "float") return expr(a).as<tir::FloatImm>()->value;
        if (p == "T.bool" && a->items.size() == 2) {  // as the attribute that it stands for
          const PrimExpr value = expr(a);
          if (const auto* truth = value.as<tir::IntImm>()) return truth->value != 0;
        }
        if (p == "I.dtype") return dtype_of(need(a, 0, "dtype"));
        if (p.starts_with("I.ndarray")) return ndarray(a);
        if (p == "I.json") return from_json(text_of(need(a, 0, "text"), "the JSON text"));
        if (p == "I.opaque") return {};
        if (p == "T.Range") return range(a);
        if (p == "T.target") {  // a name with options, or a map of them; {"host": …} beside it
          only(a, 1, {"host"});
          const Any target = any(need(a, 0, "target"));
          if (!named(a, "host")) return target;
          return AttrMap{{"target", target}, {"host", any(named(a, "host"))}};
        }
        if (p == "T.comm_reducer") {
          Scope scope(*this);
          return comm_reducer(a);
        }
        if (p == "T.IterVar" || p == "T.iter_var") return iter_var(a);
        if (p == "T.region") return region(need(a, 0, "region"));
        if (p == "T.StringImm") return make<tir::StringImm>(text_of(need(a, 0, "value"), "a string"));
        if (p == "R.ExternFunc" || p.starts_with("R.const") || p == "R.shape" || p == "R.prim_value" ||
            p == "R.str" || p == "R.dtype" || p == "R.tuple" || p == "I.GlobalVar" || p == "R.Op") {
          Sequence seq;
          graph::Expr e = graph_expr(a, seq);
          if (!seq.plain.empty()) fail("T0224", "an attribute must be a constant", a);
          return e;
        }
      }
      if (p == "R.Tensor" || p == "R.Shape" || p == "R.Prim" || p == "R.Tuple" || p == "R.Callable" ||
          p == "R.Object" || p == "R.Ref")
        return type(a);
      if (!member_of_module(a).empty()) return callee(a);
      return expr(a);
    }
    default:
      return expr(a);
  }
}

std::optional<Any> Converter::attribute(const Ast* a) {
  std::optional<Any> out;
  attempt(span(a), [&] { out = any(a); });
  return out;
}

/// Numbers of attributes may be written as values of the graph: R.prim_value(T.float32(0.5)).
static Any plain_number(const Any& given) {
  if (!given.is_object()) return given;
  ObjectRef o(given.object());
  if (const auto* list = o.as<ArrayObj>()) {
    auto out = make<ArrayObj>();
    for (const Any& x : list->items) out.edit()->items.push_back(plain_number(x));
    return out;
  }
  if (const auto* sizes = o.as<graph::ShapeExpr>()) {
    auto out = make<ArrayObj>();
    for (const PrimExpr& x : sizes->values) out.edit()->items.push_back(plain_number(Any(ObjectRef(x))));
    return out;
  }
  if (const auto* tuple = o.as<graph::Tuple>()) {
    auto out = make<ArrayObj>();
    for (const graph::Expr& x : tuple->items) out.edit()->items.push_back(plain_number(Any(ObjectRef(x))));
    return out;
  }
  if (const auto* type = o.as<graph::DataTypeImm>()) return type->value;
  if (const auto* value = o.as<graph::PrimValue>()) o = value->value;
  if (const auto* i = o.as<tir::IntImm>()) return i->dtype.is_bool() ? Any(i->value != 0) : Any(i->value);
  if (const auto* x = o.as<tir::FloatImm>()) return x->value;
  return Any(o);
}

void Converter::set_field(const FieldInfo& f, Object* node, const Ast* a) {
  Any given = any(a);
  Any fit;
  // One value stands for a list of it, None or "" for no data type.
  auto one_of_list = [&] {
    auto list = make<ArrayObj>();
    list.edit()->items.push_back(given);
    return given.tag() != kNone && f.coerce(list, &fit);
  };
  const bool none = is_none(a) || (a->kind == ExprKind::string && a->text.empty());
  if (!f.coerce(given, &fit)) given = plain_number(given);
  if (!f.coerce(given, &fit) && !one_of_list() && !(none && f.coerce(DataType(), &fit)))
    fail("T0227", fmt::format("attribute `{}` cannot hold this value", f.name), a,
         f.doc.empty() ? "" : std::string(f.doc));
  f.set(node, fit);
}

Ref<graph::MemoryPlan> Converter::memory_plan(const Ast* call) {
  auto plan = make<graph::MemoryPlan>();
  std::vector<std::string_view> names;
  for (const FieldInfo& f : type_of(plan)->fields) names.push_back(f.name);
  only(call, 0, names);
  for (const FieldInfo& f : type_of(plan)->fields)
    if (const Ast* value = named(call, f.name)) set_field(f, plan.edit(), value);
  return plan;
}

/// `(values, "dtype")`, `_ref(hash, shape, "dtype")`, `_bytes("hex", shape, "dtype")`.
NDArray Converter::ndarray(const Ast* call) {
  const std::string p = path(call->items[0]);
  auto shape_of = [&](const Ast* a) {
    std::vector<int64_t> shape;
    for (const Ast* d : items_of(a)) {
      shape.push_back(integer_of(d, "a dimension"));
      if (shape.back() < 0) fail("T0224", "a dimension is negative", d);
    }
    return shape;
  };
  if (p.ends_with("_ref")) {
    only(call, 3, {"shape", "dtype"});
    const uint64_t hash = uint64_t(integer_of(need(call, 0, "hash"), "the hash"));
    const auto shape = shape_of(need(call, 1, "shape"));
    const DataType dtype = dtype_of(need(call, 2, "dtype"));
    if (!options_.constants)
      fail("T0228",
           fmt::format("the constant 0x{:016x} stands beside the text, and no table of constants was given",
                       hash),
           call);
    auto it = options_.constants->find(hash);
    if (it == options_.constants->end())
      fail("T0228", fmt::format("the table of constants has no 0x{:016x}", hash), call);
    if (it->second.shape() != shape || it->second.dtype() != dtype)
      fail("T0228", fmt::format("the constant 0x{:016x} has another shape or type in the table", hash), call);
    return it->second;
  }
  if (p.ends_with("_bytes")) {
    const std::string hex = text_of(need(call, 0, "bytes"), "the bytes");
    std::vector<uint8_t> bytes;
    auto digit = [&](char c) -> int {
      if (c >= '0' && c <= '9') return c - '0';
      if (c >= 'a' && c <= 'f') return c - 'a' + 10;
      fail("T0224", "bytes are written as pairs of the digits 0-9a-f", call);
    };
    for (size_t i = 0; i + 1 < hex.size(); i += 2)
      bytes.push_back(uint8_t(digit(hex[i]) * 16 + digit(hex[i + 1])));
    const auto shape = shape_of(need(call, 1, "shape"));
    const DataType dtype = dtype_of(need(call, 2, "dtype"));
    if (storage_bytes(element_count(shape), dtype) != bytes.size() || hex.size() % 2)
      fail("T0224", "the bytes do not fill the shape", call);
    return NDArray::from_bytes(shape, dtype, bytes.data(), bytes.size());
  }
  only(call, 2, {"dtype", "shape"});
  const Ast* values = need(call, 0, "value");
  // Flatten the nested lists; every list of one level must have one length.
  std::vector<const Ast*> flat;
  std::vector<int64_t> shape;
  struct Level {
    const Ast* list;
    size_t next;
  };
  std::vector<Level> stack;
  auto is_list = [](const Ast* a) { return a->kind == ExprKind::list || a->kind == ExprKind::tuple; };
  for (const Ast* a = values; is_list(a); a = a->items[0]) {
    shape.push_back(int64_t(a->items.size()));
    if (a->items.empty()) break;
  }
  if (!is_list(values))
    flat.push_back(values);
  else {
    stack.push_back({values, 0});
    while (!stack.empty()) {
      if (int64_t(stack.back().list->items.size()) != shape[stack.size() - 1])
        fail("T0224", "the lists of a constant have different lengths", stack.back().list);
      if (stack.back().next == stack.back().list->items.size()) {
        stack.pop_back();
        continue;
      }
      const Ast* item = stack.back().list->items[stack.back().next++];
      const bool inner = stack.size() < shape.size();
      if (is_list(item) != inner) fail("T0224", "the lists of a constant are nested unevenly", item);
      if (inner)
        stack.push_back({item, 0});
      else
        flat.push_back(item);
    }
  }
  if (const Ast* s = named(call, "shape")) {
    shape = shape_of(s);
    if (element_count(shape) != int64_t(flat.size())) fail("T0224", "the values do not fill the shape", s);
  }
  struct Number {
    bool real;
    int64_t i;
    double d;
  };
  std::vector<Number> numbers;
  bool real = false, logical = !flat.empty();
  for (const Ast* a : flat) {
    const Any v = any(a);
    Number n{false, 0, 0};
    if (auto i = v.try_as<int64_t>(); i && v.tag() != kFloat)
      n = {false, *i, double(*i)};
    else if (v.tag() == kFloat)
      n = {true, int64_t(0), v.as<double>()};
    else
      fail("T0224", "a constant is made of numbers", a);
    real = real || n.real;
    logical = logical && v.tag() == kBool;
    numbers.push_back(n);
  }
  const Ast* d = argument(call, 1, "dtype");
  const DataType dtype = d ? dtype_of(d) : real ? f32 : logical ? boolean : i64;
  if (dtype.is_vector() || dtype.is_void() || dtype.is_handle())
    fail("T0224", "a constant cannot have this data type", d ? d : call);
  NDArray out = NDArray::empty(shape, dtype);
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i].real && !dtype.is_float())
      fail("T0230", fmt::format("a number with a fraction stands in a constant of type {}", to_string(dtype)),
           flat[i]);
    if (dtype.is_float())
      out.set_element(int64_t(i), numbers[i].d);
    else
      out.set_element_int(int64_t(i), numbers[i].i);
  }
  return out;
}

}  // namespace tenon::script
