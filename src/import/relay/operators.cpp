// SPDX-License-Identifier: Apache-2.0
// The table of Relay's operators. Names, defaults and meanings are those of Apache TVM v0.11:
// include/tvm/relay/attrs and src/relay/op.
#include "import/relay/operators.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>

namespace tenon::relay {
using namespace graph;

namespace {

/// Operators that differ from ours by names at most. An attribute is a word:
///   theirs=ours     another name; the same one where there is no `=`
///   …|value         the default there, where ours is another
///   theirs~         follows from the operands, and is not looked at
///   theirs:value    only this value is read
struct Row {
  std::string_view names;  ///< in Relay
  std::string_view op;     ///< ours; empty: the same name
  std::string_view attributes;
};

constexpr Row kRows[] = {
    {"abs acos acosh asin asinh atan atanh bitwise_not ceil cos cosh erf exp floor isfinite isinf isnan log "
     "log10 "
     "log2 logical_not negative rsqrt sigmoid sign sin sinh sqrt tan tanh trunc zeros_like ones_like nn.relu "
     "fast_exp fast_erf fast_tanh",
     "", ""},
    {"add subtract multiply divide floor_divide floor_mod mod power maximum minimum equal not_equal less "
     "less_equal "
     "greater greater_equal logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor left_shift "
     "right_shift",
     "", ""},
    {"trunc_divide", "", ""},
    {"trunc_mod", "mod", ""},
    {"cast", "", "dtype"},
    {"reinterpret", "bitcast", "dtype"},
    {"clip", "", "a_min=min a_max=max"},
    {"fixed_point_multiply", "qnn.fixed_point_multiply", "multiplier shift"},

    // moving elements
    {"transpose", "permute_dims", "axes"},
    {"nn.batch_flatten", "flatten", "=axis|1"},
    {"squeeze", "", "axis=axes"},
    {"concatenate", "concat", "axis|0"},
    {"stack", "", "axis|0"},
    {"tile", "", "reps=repeats"},
    {"reverse", "flip", "axis=axes"},
    {"reverse_sequence", "", "seq_axis|1 batch_axis|0"},
    {"sequence_mask", "", "mask_value=value|0 axis|0"},
    {"layout_transform", "", "src_layout dst_layout"},
    {"gather", "gather_elements", "axis|0"},
    {"full_like", "", ""},
    {"reshape_like", "", "lhs_begin:0 lhs_end:~ rhs_begin:0 rhs_end:~"},
    {"broadcast_to_like", "broadcast_like", ""},
    {"slice_like", "", "axes"},
    {"einsum", "", "equation=subscripts"},
    {"meshgrid", "", "indexing"},
    {"nn.depth_to_space", "depth_to_space", "block_size layout mode"},
    {"nn.space_to_depth", "space_to_depth", "block_size layout mode"},
    {"nn.dilate", "dilate", "strides dilation_value=value"},
    {"nn.space_to_batch_nd", "space_to_batch_nd", "block_shape paddings=margins pad_value:0"},
    {"nn.batch_to_space_nd", "batch_to_space_nd", "block_shape crops=margins"},
    {"matrix_set_diag", "", "k1:0 k2:0 super_diag_right_align~ sub_diag_right_align~"},

    // networks
    {"nn.bias_add", "", "axis|1"},
    {"nn.batch_matmul", "", "transpose_a|false transpose_b|false out_dtype"},
    {"nn.softmax nn.log_softmax nn.fast_softmax", "", "axis"},
    {"nn.leaky_relu", "", "alpha|0.25"},
    {"nn.instance_norm", "", "axis|1 epsilon center scale"},
    {"nn.layer_norm", "", "axis=axes epsilon center scale"},
    {"nn.group_norm", "", "num_groups axis=channel_axis|1 epsilon center scale"},
    {"nn.lrn", "", "size axis bias|2 alpha beta"},
    {"nn.l2_normalize", "", "eps=epsilon axis"},
};

struct Attribute {
  std::string_view theirs, ours;
  std::optional<std::string_view> otherwise, only;
  bool ignored = false;
};
struct Entry {
  std::string_view op;
  std::vector<Attribute> attributes;
  Convert convert = nullptr;
  int args = 0;
};

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (end > 0) out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

Attribute attribute(std::string_view word) {
  Attribute a;
  if (word.ends_with('~') && word.find(':') == word.npos) {
    a.ignored = true;
    word.remove_suffix(1);
  } else if (const size_t bar = word.find('|'); bar != word.npos) {
    a.otherwise = word.substr(bar + 1);
    word = word.substr(0, bar);
  } else if (const size_t colon = word.find(':'); colon != word.npos) {
    a.only = word.substr(colon + 1);
    word = word.substr(0, colon);
  }
  const size_t equals = word.find('=');
  a.theirs = word.substr(0, equals);
  a.ours = equals == word.npos ? word : word.substr(equals + 1);
  return a;
}

Any default_value(std::string_view text) {
  if (text == "true" || text == "false") return text == "true";
  int64_t i = 0;
  const char* last = text.data() + text.size();
  if (std::from_chars(text.data(), last, i).ptr == last) return i;
  double d = 0;
  std::from_chars(text.data(), last, d);
  return d;
}

const FieldInfo* field_of(const Op& op, std::string_view name) {
  if (op.attrs_type)
    for (const FieldInfo& f : op.attrs_type->fields)
      if (f.name == name) return &f;
  return nullptr;
}

/// A row is right for all texts or for none.
void check(const Entry& e) {
  const Ref<Op> op = get_op(e.op);
  for (const Attribute& a : e.attributes) {
    if (a.ignored || a.only) continue;
    const FieldInfo* field = field_of(*op, a.ours);
    CHECK(field, "a row of the table names an attribute that its operator does not have");
    Any fit;
    CHECK(!a.otherwise || field->coerce(default_value(*a.otherwise), &fit),
          "a default of the table is of another kind than the attribute");
  }
}

const std::map<std::string_view, Entry>& table() {
  static const std::map<std::string_view, Entry> all = [] {
    std::map<std::string_view, Entry> out;
    for (const Row& row : kRows)
      for (const std::string_view name : words(row.names)) {
        Entry& e = out[name];
        e.op = row.op.empty() ? name : row.op;
        for (const std::string_view word : words(row.attributes)) e.attributes.push_back(attribute(word));
        check(e);
      }
    for (const auto& list : {shape_converters(), network_converters(), quantised_converters()})
      for (const Converted& c : list)
        for (const std::string_view name : words(c.names)) out[name] = {{}, {}, c.convert, c.args};
    return out;
  }();
  return all;
}

const Entry& entry(Converter& c, const std::string& name, const Placed& at) {
  const auto it = table().find(name);
  if (it != table().end()) return it->second;
  std::string hint;
  for (const auto& [other, e] : table())
    if (other.ends_with("." + name)) hint = fmt::format("is `{}` meant?", other);
  c.fail("T0222", fmt::format("Relay's operator `{}` has no counterpart here", name), at, hint);
}

Expr convert_row(OpCall& call, const Entry& e) {
  const Ref<Op> op = get_op(e.op);
  size_t required = 0;
  for (const OpArgument& a : op->arguments) required += !a.optional;
  call.expect_args(required, op->variadic ? std::numeric_limits<size_t>::max() : op->arguments.size());
  ObjectRef attrs;
  if (op->attrs_type) attrs = op->default_attrs;
  for (const Attribute& a : e.attributes) {
    if (a.ignored) {
      call.ignore({a.theirs});
      continue;
    }
    if (a.only) {
      call.only(a.theirs, std::string(*a.only));
      continue;
    }
    const FieldInfo* field = field_of(*op, a.ours);
    if (const NamedAttr* value = call.given(a.theirs)) {
      call.set(*field, attrs.edit(), *value);
    } else if (a.otherwise) {
      Any fit;
      field->coerce(default_value(*a.otherwise), &fit);
      field->set(attrs.edit(), fit);
    }
  }
  return call.value(e.op, call.args, attrs);
}

}  // namespace

Expr convert_operator(Converter& c, const std::string& name, Array<Expr> args,
                      const std::vector<NamedAttr>& attrs, const Placed& at) {
  const Entry& e = entry(c, name, at);
  OpCall call(c, name, std::move(args), attrs, at);
  const Expr value = e.convert ? e.convert(call) : convert_row(call, e);
  call.check_all_read();
  return value;
}

void check_operator(Converter& c, const std::string& name, const Placed& at) { entry(c, name, at); }

size_t operator_arity(Converter& c, const std::string& name, const Placed& at) {
  const Entry& e = entry(c, name, at);
  if (e.convert && e.args == 0)
    c.fail("T0223", fmt::format("`{}` has attributes and is no function by itself", name), at,
           fmt::format("write a function around it: fn (%x) {{ {}(%x, …) }}", name));
  return e.convert ? size_t(e.args) : get_op(e.op)->arguments.size();
}

// ---------------------------------------------------------------- one call
void OpCall::fail(std::string code, std::string message, std::string hint) {
  c_.fail(std::move(code), fmt::format("`{}`: {}", name, message), at_, std::move(hint));
}

const NamedAttr* OpCall::given(std::string_view attribute) {
  for (size_t i = 0; i < attrs_.size(); ++i)
    if (attrs_[i].name == attribute) {
      read_[i] = true;
      return attrs_[i].value->kind == AttrKind::none ? nullptr : &attrs_[i];
    }
  return nullptr;
}

Any value_of(const AttrAst& a) {
  switch (a.kind) {
    case AttrKind::boolean:
      return a.integer != 0;
    case AttrKind::integer:
      return a.integer;
    case AttrKind::number:
      return a.number;
    case AttrKind::string:
      return Any(a.text);
    case AttrKind::list: {
      auto list = make<ArrayObj>();
      for (const AttrAst* x : a.items) list.edit()->items.push_back(value_of(*x));
      return list;
    }
    default:
      return {};
  }
}

namespace {
/// All whole numbers of nested lists; false: something else stands there.
bool flatten(const AttrAst& a, Array<int64_t>& out) {
  if (a.kind == AttrKind::list)
    return std::all_of(a.items.begin(), a.items.end(), [&](const AttrAst* x) { return flatten(*x, out); });
  if (a.kind != AttrKind::integer) return false;
  out.push_back(a.integer);
  return true;
}
}  // namespace

void OpCall::set(const FieldInfo& field, Object* node, const NamedAttr& a) {
  Any value = value_of(*a.value), fit;
  const bool empty = a.value->kind == AttrKind::string && a.value->text.empty();
  if (empty && field.coerce(DataType(), &fit)) return field.set(node, fit);
  if (a.value->kind == AttrKind::list) {
    // Pairs of pairs stand in one row here; a list of one for the value itself.
    Array<int64_t> flat;
    if (flatten(*a.value, flat) && field.coerce(Any(flat), &fit)) return field.set(node, fit);
    if (a.value->items.size() == 1) value = value_of(*a.value->items[0]);
  }
  if (field.coerce(value, &fit)) return field.set(node, fit);
  auto list = make<ArrayObj>();
  list.edit()->items.push_back(value);
  if (value.tag() != kNone && field.coerce(list, &fit)) return field.set(node, fit);
  c_.fail("T0227", fmt::format("`{}`: attribute `{}` cannot hold this value", name, a.name), a,
          std::string(field.doc));
}

bool OpCall::flag(std::string_view attribute, bool otherwise) {
  const NamedAttr* a = given(attribute);
  if (!a) return otherwise;
  if (a->value->kind != AttrKind::boolean && a->value->kind != AttrKind::integer)
    c_.fail("T0227", fmt::format("`{}`: `{}` is True or False", name, attribute), *a);
  return a->value->integer != 0;
}
int64_t OpCall::integer(std::string_view attribute, int64_t otherwise) {
  const NamedAttr* a = given(attribute);
  if (!a) return otherwise;
  Array<int64_t> all;
  if (!flatten(*a->value, all) || all.size() != 1)
    c_.fail("T0227", fmt::format("`{}`: `{}` is a whole number", name, attribute), *a);
  return all[0];
}
double OpCall::number(std::string_view attribute, double otherwise) {
  const NamedAttr* a = given(attribute);
  if (!a) return otherwise;
  if (a->value->kind == AttrKind::integer) return double(a->value->integer);
  if (a->value->kind != AttrKind::number)
    c_.fail("T0227", fmt::format("`{}`: `{}` is a number", name, attribute), *a);
  return a->value->number;
}
std::string OpCall::text(std::string_view attribute, std::string otherwise) {
  const NamedAttr* a = given(attribute);
  if (!a) return otherwise;
  if (a->value->kind != AttrKind::string)
    c_.fail("T0227", fmt::format("`{}`: `{}` is a text in quotes", name, attribute), *a);
  return a->value->text;
}
DataType OpCall::dtype(std::string_view attribute, DataType otherwise) {
  const NamedAttr* a = given(attribute);
  if (!a || (a->value->kind == AttrKind::string && a->value->text.empty())) return otherwise;
  DataType t;
  if (a->value->kind != AttrKind::string || !parse_dtype(a->value->text, &t) || t.is_vector())
    c_.fail("T0227", fmt::format("`{}`: `{}` is a data type such as \"float32\"", name, attribute), *a);
  return t;
}
Array<int64_t> OpCall::integers(std::string_view attribute) {
  Array<int64_t> out;
  const NamedAttr* a = given(attribute);
  if (a && !flatten(*a->value, out))
    c_.fail("T0227", fmt::format("`{}`: `{}` is a list of whole numbers", name, attribute), *a);
  return out;
}
void OpCall::ignore(std::initializer_list<std::string_view> attributes) {
  for (const std::string_view a : attributes) given(a);
}
void OpCall::only(std::string_view attribute, const std::string& value) {
  const NamedAttr* a = given(attribute);
  if (!a) return;
  const AttrAst& v = *a->value;
  const std::string shown = v.kind == AttrKind::string    ? v.text
                            : v.kind == AttrKind::number  ? fmt::format("{}", v.number)
                            : v.kind == AttrKind::boolean ? (v.integer ? "True" : "False")
                                                          : std::to_string(v.integer);
  if (shown != value)
    c_.fail("T0227", fmt::format("`{}` with {}={} has no counterpart here", name, attribute, shown), *a,
            value == "~" ? "leave it out" : fmt::format("`{}` is what is read", value));
}
void OpCall::check_all_read() {
  for (size_t i = 0; i < attrs_.size(); ++i)
    if (!read_[i])
      c_.note("T0226", fmt::format("`{}` has no attribute `{}` that is read", name, attrs_[i].name),
              attrs_[i]);
}

void OpCall::expect_args(size_t least, size_t most) {
  if (args.size() >= least && args.size() <= most) return;
  fail("T0223", least == most
                    ? fmt::format("it takes {} values and is given {}", least, args.size())
                    : fmt::format("it takes {} to {} values and is given {}", least, most, args.size()));
}
const TensorType* OpCall::tensor(size_t i) const { return as_tensor(args[i]->type); }
int64_t OpCall::rank(size_t i) {
  if (const TensorType* t = tensor(i); t && t->ndim >= 0) return t->ndim;
  fail("T0245", fmt::format("the number of dimensions of value {} must be known", i + 1),
       "write the type of the parameter that it comes from");
}
DataType OpCall::element(size_t i) {
  if (const TensorType* t = tensor(i); t && !t->dtype.is_void()) return t->dtype;
  fail("T0245", fmt::format("the data type of value {} must be known", i + 1),
       "write the type of the parameter that it comes from");
}
const op::Shape& OpCall::shape(size_t i) {
  const TensorType* t = tensor(i);
  if (const auto* s = t ? t->shape.as<ShapeExpr>() : nullptr) return s->values;
  fail("T0245", fmt::format("the shape of value {} must be known", i + 1),
       "write the type of the parameter that it comes from");
}
NDArray OpCall::constant(size_t i, std::string_view what) {
  if (const auto* c = args[i].as<Constant>()) return c->data;
  fail("T0245", fmt::format("{} must be a constant", what));
}

bool OpCall::is_open(size_t i) const { return i < args.size() && c_.is_open(args[i]); }
void OpCall::learn(size_t i, const Type& type) {
  args.set(i, c_.learned(args[i].cast<graph::Var>(), type, c_.origin(at_)));
}

Expr OpCall::value(std::string_view op, Array<Expr> operands, ObjectRef attributes) {
  const Ref<Op> o = get_op(op);
  if (!attributes) attributes = o->default_attrs;
  for (size_t i = 1; i < operands.size(); ++i) {
    if (!c_.is_open(operands[i])) continue;
    // Mistakes are told by infer_types, at their place.
    op::Inference run;
    const Ref<Call> call = graph::call(o, operands, attributes).cast<Call>();
    if (const Type t = op::parameter_type(run, *call, i))
      operands.set(i, c_.learned(operands[i].cast<graph::Var>(), t, c_.origin(at_)));
  }
  return graph::call(o, std::move(operands), std::move(attributes));
}
Expr OpCall::emit(std::string_view op, Array<Expr> operands, ObjectRef attributes) {
  return c_.bind(value(op, std::move(operands), std::move(attributes)), c_.origin(at_));
}
Expr OpCall::get(const Expr& tuple, int64_t i) {
  return c_.bind(make<TupleGetItem>(tuple, i), c_.origin(at_));
}
Expr OpCall::cast(const Expr& x, DataType t) {
  if (const TensorType* have = as_tensor(x->type); have && have->dtype == t) return x;
  return emit("cast", {x}, make<op::CastAttrs>(t));
}
Expr OpCall::axes(std::string_view op, const Expr& x, Array<int64_t> axes) {
  return emit(op, {x}, make<op::AxesAttrs>(std::move(axes)));
}
Expr OpCall::reduced(std::string_view op, const Expr& x, Array<int64_t> axes, bool keepdims) {
  return emit(op, {x}, make<op::ReduceAttrs>(std::move(axes), keepdims));
}
Expr OpCall::relayout(const Expr& x, const std::string& from, const std::string& to) {
  return from == to ? x : emit("layout_transform", {x}, make<op::LayoutTransformAttrs>(from, to));
}
Expr OpCall::like(size_t i, double value) { return op::scalar(value, element(i)); }

}  // namespace tenon::relay
