// SPDX-License-Identifier: Apache-2.0
// Calls of the reference's script that are several of our operators: other element types stand behind a cast.
// Source of parameters and defaults: python/tvm/relax/op of Apache TVM v0.18.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ir/parse_impl.h"

namespace tenon::script {
using namespace graph;

namespace {

/// Element types that a parameter changes: of the data before the operator, or of its result.
struct Typed {
  std::string_view op, parameter;
  bool before;
  std::string_view usual;  ///< what changes nothing
};
constexpr Typed kTyped[] = {
    {"cumsum", "dtype", true, ""},
    {"cumprod", "dtype", true, ""},
    {"argsort", "dtype", false, "int32"},
    {"image.resize2d", "out_dtype", false, ""},
};

/// Blocked layouts by letters: {"ABC", "AB4bC"} of `lambda i, j, k: (i, j // 4, j % 4, k)`, and {"A4a", "A"}
/// of `lambda i, j: (i * 4 + j,)`.
class LayoutLetters {
 public:
  explicit LayoutLetters(const std::vector<std::string>& inputs) : inputs_(inputs) {}
  /// False: an output is neither an input nor its quotient or remainder.
  bool output(const Ast* e) {
    if (e->kind == ExprKind::name) return add(letter(e), 0);
    if (e->kind == ExprKind::binary && e->text == "+") return joined(e->items[0], e->items[1]);
    if (e->kind != ExprKind::binary || e->items[1]->kind != ExprKind::integer) return false;
    const int64_t by = e->items[1]->integer;
    const char c = letter(e->items[0]);
    if (by < 1 || !c) return false;
    if (e->text == "//") return divided(c, by) && add(c, 0);
    return e->text == "%" && divided(c, by) && add(char(c - 'A' + 'a'), by);
  }
  bool complete() const {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const char c = char('A' + i);
      if (inner_.count(c)) continue;  // it is the block of another one
      const auto block = blocks_.find(c);
      if (std::count(out_.begin(), out_.end(), c) != 1) return false;
      if (std::count(out_.begin(), out_.end(), char(c - 'A' + 'a')) != (block != blocks_.end() ? 1 : 0))
        return false;
    }
    return inputs_.size() <= 26;
  }
  std::string from() const {
    std::string s;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const auto inner = inner_.find(char('A' + i));
      s += inner == inner_.end() ? std::string(1, char('A' + i)) : inner->second;
    }
    return s;
  }
  const std::string& to() const { return out_; }

 private:
  char letter(const Ast* e) const {
    if (e->kind != ExprKind::name) return 0;
    const auto it = std::find(inputs_.begin(), inputs_.end(), e->text);
    return it == inputs_.end() ? char(0) : char('A' + (it - inputs_.begin()));
  }
  bool joined(const Ast* outer, const Ast* inner) {  // outer * 4 + inner
    if (outer->kind != ExprKind::binary || outer->text != "*" || outer->items[1]->kind != ExprKind::integer)
      return false;
    const char c = letter(outer->items[0]), d = letter(inner);
    if (!c || !d || c == d || outer->items[1]->integer < 1) return false;
    const std::string block = std::to_string(outer->items[1]->integer) + char(c - 'A' + 'a');
    return inner_.emplace(d, block).second && add(c, 0);
  }
  bool divided(char c, int64_t by) { return blocks_.emplace(c, by).first->second == by; }
  bool add(char c, int64_t block) {
    if (!c) return false;
    if (block) out_ += std::to_string(block);
    out_ += c;
    return true;
  }
  const std::vector<std::string>& inputs_;
  std::map<char, int64_t> blocks_;  ///< of inputs that the map splits
  std::map<char, std::string>
      inner_;  ///< inputs that become blocks of others, as the source layout says them
  std::string out_;
};

/// The argument of this name, which the call then lacks; null: it says nothing.
const Ast* taken(Ast& call, std::string_view name) {
  for (size_t i = 0; i < call.named.size(); ++i) {
    if (call.named[i].first != name) continue;
    const Ast* v = call.named[i].second;
    call.named.erase(call.named.begin() + long(i));
    const bool empty = v->kind == ExprKind::string && (v->text.empty() || v->text == "void");
    return is_none(v) || empty ? nullptr : v;
  }
  return nullptr;
}

}  // namespace

/// A value that stands where the text has an expression.
const Ast* Converter::standing_for(ObjectRef value, const Ast* at) {
  Ast a;
  a.kind = ExprKind::object;
  a.begin = at->begin;
  a.end = at->end;
  a.text = at->text;
  a.object = std::move(value);
  return &made_.emplace_back(std::move(a));
}

/// A call of an operator with attributes by name, the others as they are by default.
Expr Converter::plain_call(std::string_view op, Array<Expr> args,
                           std::initializer_list<std::pair<std::string_view, Any>> attributes) {
  const Ref<Op> o = get_op(op);
  ObjectRef attrs = o->default_attrs;
  for (const auto& [name, value] : attributes)
    for (const FieldInfo& f : o->attrs_type->fields) {
      Any fit;
      if (f.name != name) continue;
      CHECK(f.coerce(value, &fit), "an attribute of another type");
      f.set(attrs.edit(), fit);
    }
  return graph::call(o, std::move(args), attrs);
}

/// A call's arguments by the reference's names, all of them by name.
Ast Converter::all_named(const SpelledOp& op, const Ast* call) {
  Ast out = *call;
  out.items = {call->items[0]};
  out.named.clear();
  for (size_t i = 1; i < call->items.size(); ++i) {
    if (i > op.parameters.size()) fail("T0223", "there are too many arguments", call->items[i]);
    out.named.emplace_back(std::string(op.parameters[i - 1].theirs), call->items[i]);
  }
  out.named.insert(out.named.end(), call->named.begin(), call->named.end());
  return out;
}

/// Calls with marks for the reference's own passes, of which the value is left.
Expr Converter::marked_call(const std::string& f, const Ast* a, Sequence& seq) {
  if (f == "grad.start_checkpoint" || f == "grad.end_checkpoint" || f == "builtin.stop_lift_params" ||
      f == "memory.ensure_zero_offset") {
    only(a, 1, {"input", "x"});
    return leaf(a->items.size() > 1 ? a->items[1] : need(a, 0, a->named.empty() ? "x" : a->named[0].first),
                seq);
  }
  if (f == "call_tir_with_grad" || f == "call_inplace_packed") {
    Ast call = *a;
    std::erase_if(call.named, [](const auto& n) {
      return n.first == "te_grad_name" || n.first == "te_grad_kwargs" || n.first == "inplace_indices";
    });
    return op_call(get_op(f == "call_inplace_packed" ? "call_packed" : "call_tir"), nullptr,
                   &made_.emplace_back(std::move(call)), seq, nullptr);
  }
  if (f == "ewise_fma" && a->items.size() == 4) {
    const Expr product = graph::call(get_op("multiply"), {leaf(a->items[1], seq), leaf(a->items[2], seq)});
    return graph::call(get_op("add"), {normal(product, seq, a), leaf(a->items[3], seq)});
  }
  return {};
}

Expr Converter::composed_call(const std::string& f, const Ast* a, Sequence& seq) {
  if (f == "nn.gelu_tanh" && a->items.size() == 2)
    return plain_call("nn.gelu", {leaf(a->items[1], seq)}, {{"approximate", Any(std::string("tanh"))}});
  if (f == "flatten" && a->items.size() == 2 && a->named.empty())  // one dimension of all; ours says its axis
    return graph::call(get_op("reshape"), {leaf(a->items[1], seq), shape_expr({PrimExpr(-1)})},
                       get_op("reshape")->default_attrs);
  if (f == "dot" && a->items.size() == 3) return product_of(a, seq);
  if (f == "unique" && !named(a, "flat")) return unique_values(a, seq);
  if (f == "to_vdevice") {
    only(a, 2, {"data", "dst_vdevice"});
    return plain_call("to_device", {leaf(need(a, 0, "data"), seq)},
                      {{"device", Any(device_of(need(a, 1, "dst_vdevice")))}});
  }
  if (f == "hint_on_device") {
    only(a, 3, {"data", "dst_vdevice", "memory_scope", "x", "device"});
    const Ast *x = argument(a, 0, "data") ? argument(a, 0, "data") : need(a, 0, "x"),
              *where = argument(a, 1, "dst_vdevice") ? argument(a, 1, "dst_vdevice") : need(a, 1, "device");
    return plain_call("hint_on_device", {leaf(x, seq)}, {{"device", Any(device_of(where))}});
  }
  if (Expr said = program_call(f, a, seq)) return said;
  if (Expr marked = marked_call(f, a, seq)) return marked;
  if (f == "nn.group_norm") {
    check_norm_axes(a, seq);
    Ast call = all_named(*find_spelling(f), a);
    std::erase_if(call.named, [](const auto& n) { return n.first == "axes"; });
    return op_call(get_op(f), find_spelling(f), &made_.emplace_back(std::move(call)), seq, nullptr);
  }
  if (f == "argmax" || f == "argmin") return position_of_all(f, a, seq);
  if (f == "invoke_closure" || f == "invoke_pure_closure") {
    only(a, 2, {"sinfo_args", "ty_args", "closure", "args"});
    Array<Expr> args;
    for (const Ast* x : items_of(need(a, 1, "args"))) args.push_back(leaf(x, seq));
    const Ast* types = output_types(a);
    return graph::call(leaf(need(a, 0, "closure"), seq), args, {}, types ? types_of(types) : Array<Type>());
  }
  // What the function is given first is a tuple there.
  if (const Ast* first =
          f == "make_closure" && a->items.size() + a->named.size() == 3 ? argument(a, 1, "args") : nullptr;
      first && first->kind == ExprKind::tuple) {
    Array<Expr> args{leaf(need(a, 0, "func"), seq)};
    for (const Ast* x : first->items) args.push_back(leaf(x, seq));
    return graph::call(get_op(f), args);
  }
  const SpelledOp* spelled = find_spelling(f);
  const auto* typed =
      std::find_if(std::begin(kTyped), std::end(kTyped), [&](const Typed& t) { return t.op == f; });
  if (!spelled || typed == std::end(kTyped)) return {};
  Ast call = all_named(*spelled, a);
  auto take = [&](std::string_view name) { return taken(call, name); };
  auto replace = [&](std::string_view name, auto change) {
    for (auto& [n, v] : call.named)
      if (n == name) v = standing_for(change(leaf(v, seq)), v);
  };
  auto cast_to = [&](const Expr& x, const Ast* type) {
    return plain_call("cast", {x}, {{"dtype", Any(dtype_of(type))}});
  };
  const Ast* type = take(typed->parameter);
  if (type && type->kind == ExprKind::string && type->text == typed->usual) type = nullptr;
  if (type && typed->before) {
    replace("data", [&](const Expr& x) { return normal(cast_to(x, type), seq, a); });
    type = nullptr;
  }
  if (f == "image.resize2d") {  // "round" chooses a pixel, and only the nearest one is chosen
    const Ast *method = named(&call, "method"), *rounding = named(&call, "rounding_method");
    if (rounding && rounding->text == "round" && method && method->text != "nearest_neighbor")
      take("rounding_method");
    if (rounding && rounding->text.empty()) take("rounding_method");
  }
  const Ref<Op> op = get_op(spelled->op);
  Expr value = op_call(op, spelled, &made_.emplace_back(std::move(call)), seq, nullptr);
  if (type) value = cast_to(normal(value, seq, a), type);
  return value;
}

/// A device as types and operators name it: "llvm:0" and tvm.cpu(0) are "cpu:0".
std::string Converter::device_of(const Ast* a) {
  std::string kind, number = "0";
  if (a->kind == ExprKind::string) {
    kind = a->text.substr(0, a->text.find(':'));
    if (kind.size() < a->text.size()) number = a->text.substr(kind.size() + 1);
  } else if (a->kind == ExprKind::call && path(a->items[0]).starts_with("tvm.")) {
    kind = path(a->items[0]).substr(4);
    if (a->items.size() > 1) number = std::to_string(integer_of(a->items[1], "a device's number"));
  } else {
    fail("T0224", "a device is text such as \"cpu:0\", or tvm.cpu(0)", a);
  }
  if (kind == "llvm" || kind == "c") kind = "cpu";
  return kind + ":" + number;
}

/// What programs say and check while they run: functions of the runtime.
Expr Converter::program_call(const std::string& f, const Ast* a, Sequence& seq) {
  const bool checks = f == "assert_op";
  if (f != "print" && f != "null_value" && !checks) return {};
  auto call = [&](const char* name, Array<Expr> args, Type type) {
    Array<Expr> all{Expr(make<ExternFunc>(name))};
    for (const Expr& e : args) all.push_back(e);
    return with_type(
        graph::call(get_op(f == "null_value" ? "call_pure_packed" : "call_packed"), all, {}, {type}), type,
        origin(a));
  };
  if (f == "null_value") {
    only(a, 0, {});
    return call("tenon.program.null", {}, object_type());
  }
  for (const auto& [name, v] : a->named)
    if (name != "format" && !(checks && (name == "format_args" || name == "condition")))
      fail("T0223", fmt::format("`R.{}` has no argument `{}`", f, name), v);
  const Ast* format = named(a, "format");
  Array<Expr> args{Expr(make<graph::StringImm>(format ? text_of(format, "a format") : std::string()))};
  if (checks && named(a, "condition")) args.push_back(leaf(named(a, "condition"), seq));
  auto add = [&](const Ast* x) {
    if (x->kind == ExprKind::list)
      for (const Ast* one : x->items) args.push_back(leaf(one, seq));
    else
      args.push_back(leaf(x, seq));
  };
  for (size_t i = 1; i < a->items.size(); ++i) add(a->items[i]);
  if (checks && named(a, "format_args")) add(named(a, "format_args"));
  if (checks && args.size() < 2) fail("T0223", "`R.assert_op` lacks its condition", a);
  return call(checks ? "tenon.program.assert" : "tenon.program.print", args, tuple_type({}));
}

/// dot(a, b): of two vectors as ours, else the product of matrices.
Expr Converter::product_of(const Ast* a, Sequence& seq) {
  const Expr x = leaf(a->items[1], seq), y = leaf(a->items[2], seq);
  auto is_vector = [](const Expr& e) {
    const auto* v = e.as<graph::Var>();
    const Type t = v && v->declared ? v->declared : e ? e->type : Type();
    const TensorType* tensor = t ? as_tensor(t) : nullptr;
    return !tensor || tensor->ndim < 0 || tensor->ndim == 1;
  };
  const Ref<Op> op = get_op(is_vector(x) && is_vector(y) ? "dot" : "matmul");
  return graph::call(op, {x, y}, op->default_attrs);
}

/// unique(x): the different values, in ascending order, as many as the data have; with flags a tuple of them,
/// the positions of the first ones, where each element of x is among them, and how often each stands there.
Expr Converter::unique_values(const Ast* a, Sequence& seq) {
  static constexpr std::string_view order[] = {"sorted", "return_index", "return_inverse", "return_counts"};
  only(a, 6, {"x", "sorted", "return_index", "return_inverse", "return_counts", "axis"});
  if (const Ast* axis = argument(a, 5, "axis"); axis && !is_none(axis))
    fail("T0226", "`unique` of slices of an axis gives no plain values", axis,
         "R.unique(x, axis=…, flat=False)");
  auto flag = [&](size_t i) {
    const Ast* v = argument(a, i + 1, order[i]);
    if (v && is_call(v, "R.prim_value")) v = need(v, 0, "value");
    if (!v) return i == 0;
    const auto number = tir::as_int(expr(v));
    if (!number) fail("T0224", fmt::format("`{}` is True or False", order[i]), v);
    return *number != 0;
  };
  auto bound = [&](Expr e) { return normal(std::move(e), seq, a); };
  Expr x = leaf(need(a, 0, "x"), seq);
  const TensorType* t = x && x.is<graph::Var>() && x.as<graph::Var>()->declared
                            ? as_tensor(x.as<graph::Var>()->declared)
                            : nullptr;
  if (t && t->ndim < 0 && !known_shape(Type(t)))  // whatever its rank is, one dimension has all
    x = bound(
        graph::call(get_op("reshape"), {x, shape_expr({PrimExpr(-1)})}, get_op("reshape")->default_attrs));
  const Expr all = bound(plain_call("unique", {x}, {{"flat", Any(true)}, {"sorted", Any(flag(0))}}));
  auto item = [&](int64_t i) { return bound(make<TupleGetItem>(all, i)); };
  constexpr int64_t kCount = 4;  // the number of values stands behind values, positions, places and counts
  auto reshaped = [&](const Expr& e) {
    return bound(
        graph::call(get_op("reshape"), {e, shape_expr({PrimExpr(1)})}, get_op("reshape")->default_attrs));
  };
  const Expr size = bound(graph::call(get_op("tensor_to_shape"), {reshaped(item(kCount))}));
  const tir::VarRef n = tir::var("unique_values");
  const Type known = make<ShapeType>(Array<PrimExpr>{n}, int64_t(1), true);
  seq.plain.push_back(make<MatchCastNode>(with_origin(graph::var("count", known), origin(a)), size, known));
  auto cut = [&](int64_t i) {
    return graph::call(get_op("slice_to"), {item(i), shape_expr({PrimExpr(n)})},
                       get_op("slice_to")->default_attrs);
  };
  Array<Expr> out{cut(0)};
  if (flag(1)) out.push_back(bound(cut(1)));
  if (flag(2)) out.push_back(item(2));
  if (flag(3)) out.push_back(bound(cut(3)));
  if (out.size() == 1) return out[0];
  out.set(0, bound(out[0]));
  return make<Tuple>(out);
}

/// argmax(x, axis=None): the position in all of x, row by row; null: along an axis.
Expr Converter::position_of_all(const std::string& f, const Ast* a, Sequence& seq) {
  const Ast *axis = argument(a, 1, "axis"), *keeps = argument(a, 2, "keepdims");
  if (axis ? !is_none(axis) : named(a, "flat") != nullptr) return {};
  const Ast* x = argument(a, 0, "x") ? argument(a, 0, "x") : need(a, 0, "data");
  const Expr data = leaf(x, seq);
  const Expr at = plain_call(f, {data}, {{"flat", Any(true)}, {"keepdims", Any(false)}});
  if (!keeps || keeps->text == "False") return at;
  const TensorType* t = data->type ? as_tensor(data->type) : nullptr;
  if (!t || t->ndim < 0)
    fail("T0226", fmt::format("`{}` that keeps all axes has to know how many there are", f), keeps);
  return graph::call(
      get_op("reshape"),
      {normal(at, seq, a), shape_expr(Array<PrimExpr>(std::vector<PrimExpr>(size_t(t->ndim), PrimExpr(1))))},
      get_op("reshape")->default_attrs);
}

/// group_norm(axes=[2, 3]): ours reduces all axes behind the channels, which are those where the rank is
/// known.
void Converter::check_norm_axes(const Ast* call, Sequence& seq) {
  const SpelledOp* spelled = find_spelling("nn.group_norm");
  Ast by_name = all_named(*spelled, call);
  const Ast *axes = named(&by_name, "axes"), *channel = named(&by_name, "channel_axis"),
            *data = named(&by_name, "data");
  if (!axes || !data || is_none(axes)) return;
  const Expr x = leaf(data, seq);
  const TensorType* t = x && x->type ? as_tensor(x->type) : nullptr;
  const int64_t rank = t ? t->ndim : -1, at = channel ? integer_of(channel, "an axis") : 1;
  std::vector<int64_t> given, wanted;
  for (const Ast* i : items_of(axes)) {
    const int64_t axis = integer_of(i, "an axis");
    given.push_back(axis < 0 ? axis + rank : axis);
  }
  for (int64_t i = (at < 0 ? at + rank : at) + 1; i < rank; ++i) wanted.push_back(i);
  std::sort(given.begin(), given.end());
  if (rank < 0 || given != wanted)
    fail("T0226", "`nn.group_norm` reduces all axes behind the channels", axes,
         "the rank of its operand must be declared");
}

/// layout_transform(x, index_map=lambda i, j: (i // 4, j, i % 4), pad_value=0): the map as letters.
Expr Converter::mapped_layout(const Ast* a, Sequence& seq) {
  only(a, 3, {"x", "data", "index_map", "pad_value", "axis_separators", "input_axis_separators"});
  const Ast* x = argument(a, 0, "x") ? argument(a, 0, "x") : need(a, 0, "data");
  const Ast* map = need(a, 1, "index_map");
  if (is_call(map, "T.index_map")) {
    only(map, 1, {"mapping", "inverse_index_map", "index_dtype"});
    map = need(map, 0, "mapping");
  }
  if (map->kind != ExprKind::lambda) fail("T0224", "an index map is a lambda", map);
  for (const std::string_view name : {"axis_separators", "input_axis_separators"})
    if (const Ast* v = named(a, name); v && !is_none(v) && !items_of(v).empty())
      fail("T0226", fmt::format("`layout_transform` with this `{}` has no operator here", name), v);
  if (const Ast* pad = argument(a, 2, "pad_value"); pad && !is_none(pad)) {
    const PrimExpr value = expr(is_call(pad, "R.prim_value") ? need(pad, 0, "value") : pad);
    if (!tir::is_zero(value) && !(value.is<tir::FloatImm>() && value.as<tir::FloatImm>()->value == 0))
      fail("T0226", "`layout_transform` fills the last block with zeros", pad);
  }
  LayoutLetters letters(map->params);
  bool fits = true;
  for (const Ast* out : items_of(map->items[0])) fits = fits && letters.output(out);
  if (!fits || !letters.complete())
    fail("T0226", "this index map is no order of axes and of their blocks", map,
         "outputs are inputs, quotients and remainders by numbers: (i, j // 4, j % 4)");
  return plain_call("layout_transform", {leaf(x, seq)},
                    {{"src_layout", Any(letters.from())}, {"dst_layout", Any(letters.to())}});
}

/// batch_norm gives (y, mean, variance) there: those that come out are those that went in.
Expr Converter::normalised_batch(const Ast* a, Sequence& seq) {
  const SpelledOp* spelled = find_spelling("nn.batch_norm");
  Ast call = all_named(*spelled, a);
  std::array<Expr, 2> running;
  for (auto it = call.named.begin(); it != call.named.end();) {
    auto& [name, v] = *it;
    if (name == "training" && v->text == "True")
      fail("T0226", "`nn.batch_norm` of training has no operator here", v, "nn.batch_norm_train is one");
    if (name == "moving_mean" || name == "moving_var") {
      const Expr e = leaf(v, seq);
      running[name == "moving_var"] = e;
      v = standing_for(e, v);
    }
    it = name == "training" || name == "momentum" ? call.named.erase(it) : it + 1;
  }
  const Expr y =
      op_call(get_op("nn.batch_norm"), spelled, &made_.emplace_back(std::move(call)), seq, nullptr);
  return make<Tuple>(Array<Expr>{normal(y, seq, a), running[0], running[1]});
}

/// dropout gives (y, mask) there: at inference the mask is of ones.
Expr Converter::dropped_values(const Ast* a, Sequence& seq) {
  const Expr y = op_call(get_op("nn.dropout"), find_spelling("nn.dropout"), a, seq, nullptr);
  const Expr kept = normal(y, seq, a);
  return make<Tuple>(Array<Expr>{kept, normal(plain_call("ones_like", {kept}, {}), seq, a)});
}

/// An item of a tuple; of what batch_norm and dropout give without a word of the others that there are, the
/// first is the value itself.
Expr Converter::item_of(const Expr& tuple, int64_t index, const Sequence& seq) {
  for (const Binding& b : seq.plain) {
    const auto* call = b->var.same_as(tuple) ? b->value.as<graph::Call>() : nullptr;
    if (!call) continue;
    const bool norm = is_op(b->value, "nn.batch_norm");
    if (index == 0 && (norm || is_op(b->value, "nn.dropout"))) return tuple;
    if (norm && (index == 1 || index == 2)) return call->args[size_t(index) + 2];
  }
  return make<TupleGetItem>(tuple, index);
}

}  // namespace tenon::script
