// SPDX-License-Identifier: Apache-2.0
// What a converter asks of its node: inputs, attributes, types, and the calls that it emits.
#include <cmath>

#include "analysis/analyzer.h"
#include "import/onnx/importer.h"
#include "import/onnx/value_inputs.h"
#include "import/onnx/values.h"

#include "op/attrs_check.h"
#include "op/infer.h"

namespace tenon::onnx {

Value* Scope::find(const std::string& name) {
  for (Scope* s = this; s; s = s->parent)
    if (auto it = s->values.find(name); it != s->values.end()) return &it->second;
  return nullptr;
}
void Scope::define(const std::string& name, Value value, const std::string& where) {
  if (!values.emplace(name, std::move(value)).second)
    fail("T2010", fmt::format("the parameter {} is defined twice", in_quotes(name)), where);
}

NodeContext::NodeContext(Importer& importer, proto::NodeProto& node, Scope& scope, const Env& env,
                         int64_t opset, int64_t since)
    : importer(importer), node(node), scope(scope), env(env), opset(opset), since(since) {
  origin = make<OriginObj>(where());
}

std::string NodeContext::where() const {
  const std::string name = env.prefix + name_of(node);
  return fmt::format("{}, node {} ({}-{})", importer.file.name, in_quotes(name), node.op_type(), since);
}

static std::string type_text(const Expr& e) {
  const auto* t = e ? graph::as_tensor(e) : nullptr;
  if (!t) return "";
  std::string s = to_string(t->dtype);
  const auto shape = graph::known_shape(e);
  if (!shape) return s + (t->ndim >= 0 ? fmt::format("[rank {}]", t->ndim) : "[?]");
  s += "[";
  for (size_t i = 0; i < shape->size(); ++i) {
    const auto v = tir::as_int((*shape)[i]);
    const auto* var = (*shape)[i].as<tir::Var>();
    s += (i ? ", " : "") + (v ? std::to_string(*v) : var ? var->name : "…");
  }
  return s + "]";
}

static std::string inputs_text(NodeContext& n) {
  std::string s;
  for (size_t i = 0; i < n.inputs() && i < 8; ++i) {
    if (!n.has(i)) continue;
    const Value* v = n.scope.find(n.node.input(int(i)));
    s += (s.empty() ? "; inputs " : ", ") + in_quotes(n.node.input(int(i)));
    if (v && v->expr) s += " " + type_text(v->expr);
  }
  return n.inputs() > 8 ? s + ", …" : s;
}

void NodeContext::malformed(std::string message) {
  fail("T2020", std::move(message), where() + inputs_text(*this));
}
void NodeContext::unsupported(std::string message, std::string hint) {
  fail("T2102", std::move(message), where() + inputs_text(*this), std::move(hint));
}

Expr NodeContext::in(size_t i) {
  if (!has(i)) malformed(fmt::format("{} needs input {}, which is missing", op_type(), i));
  Value* v = scope.find(node.input(int(i)));
  if (!v || !v->present()) malformed(fmt::format("input {} of {} has no value", i, op_type()));
  return importer.settled(importer.ranked(importer.expr_of(*v, origin)));
}

void NodeContext::not_known(const std::string& message, std::string otherwise) {
  std::string bind;
  for (const std::string& name : value_inputs_behind(importer.file.model.graph(), node))
    bind += fmt::format(" --bind {}=@FILE", name);
  unsupported(message, bind.empty()
                           ? std::move(otherwise)
                           : fmt::format("give the values when compiling:{} (bind= in Python)", bind));
}

Value& NodeContext::value(size_t i) {
  in(i);
  return *scope.find(node.input(int(i)));
}
FormRef NodeContext::form(size_t i) {
  if (!has(i)) return nullptr;
  const Value* v = scope.find(node.input(int(i)));
  return v ? v->form : nullptr;
}
FormRef NodeContext::item_form(const Value& v) {
  if (v.form && !v.form->is_tensor()) return v.form;
  const graph::Type type = importer.visible(v.expr->type);
  return v.form ? onnx::with_type(v.form, type) : tensor_form(type);
}
Value NodeContext::item_value(const Expr& object, const FormRef& form) {
  if (!form->is_tensor()) return {object, form};
  const graph::Type type = form->type ? form->type : graph::tensor_type_unknown(-1, held_type(form));
  if (importer.forks()) return {Expr(graph::var("unused", type)), form};
  const Expr e = with_sizes(importer.builder.emit_match_cast(object, type, "item"));
  return {e, form->kind == Form::numbers ? nullptr : form};
}
Expr NodeContext::packed(const char* function, const Array<Expr>& args, const graph::Type& type) {
  return emit(importer.packed(function, args, type, origin, where()));
}

SmallRef NodeContext::small(size_t i) {
  if (!has(i) || form(i)) return nullptr;
  Value* v = scope.find(node.input(int(i)));
  if (!v) return nullptr;
  if (!v->small && v->expr)
    if (const auto* c = v->expr.as<graph::Constant>()) v->small = small_of(c->data);
  return v->small;
}

std::vector<int64_t> NodeContext::const_ints(size_t i, const char* what) {
  if (!has(i)) malformed(fmt::format("{} needs the input '{}', which is missing", op_type(), what));
  if (SmallRef s = small(i)) {
    if (!s->dtype.is_integer() && !s->dtype.is_bool())
      malformed(fmt::format("'{}' of {} must be integers", what, op_type()));
    if (auto v = ints_of(*s)) return *v;
  }
  not_known(fmt::format("{} with '{}' not known at import is not supported", op_type(), what),
            "export the model with constant folding, or give symbolic dimensions values with --dim");
}

std::vector<double> NodeContext::const_floats(size_t i, const char* what) {
  if (!has(i)) malformed(fmt::format("{} needs the input '{}', which is missing", op_type(), what));
  std::vector<double> out;
  if (const auto* c = in(i).as<graph::Constant>(); c && c->data.size() <= 1 << 16) {
    for (int64_t k = 0; k < c->data.size(); ++k) out.push_back(c->data.element(k));
    return out;
  }
  not_known(fmt::format("{} with '{}' not known at import is not supported", op_type(), what),
            "export the model with constant folding, or give symbolic dimensions values with --dim");
}

Array<PrimExpr> NodeContext::sizes(size_t i, const char* what) {
  if (!has(i)) malformed(fmt::format("{} needs the input '{}', which is missing", op_type(), what));
  SmallRef s = small(i);
  if (!s)
    not_known(fmt::format("{} with '{}' not known at import is not supported", op_type(), what),
              "export the model with constant folding, or give symbolic dimensions values with --dim");
  if (s->rank() > 1 || !s->dtype.is_integer())
    malformed(fmt::format("'{}' of {} must be a vector of integers", what, op_type()));
  Array<PrimExpr> out;
  for (const PrimExpr& e : s->items) out.push_back(importer.settled(size_of(e)));
  return out;
}

PrimExpr NodeContext::size_of(const PrimExpr& e) {
  const auto* c = e.as<tir::Cast>();
  if (!c || e.dtype() != i32 || c->value.dtype() != i64) return tir::cast(i64, e);
  require_at_most(c->value, PrimExpr(int64_t(std::numeric_limits<int32_t>::max())),
                  "a size does not fit 32 bits");
  return c->value;
}

const graph::TensorType& NodeContext::type(size_t i) {
  Expr e = in(i);
  const auto* t = graph::as_tensor(e);
  if (!t) malformed(fmt::format("input {} of {} must be a tensor", i, op_type()));
  return *t;
}

int64_t NodeContext::rank(size_t i) {
  const int64_t n = type(i).ndim;
  if (n < 0) {
    importer.fork_on_unknown_rank(*this, in(i));
    not_known(fmt::format("{} of a tensor of unknown rank is not supported", op_type()),
              "give the model's inputs shapes");
  }
  return n;
}

std::optional<Array<PrimExpr>> NodeContext::shape(size_t i) { return graph::known_shape(in(i)); }
Array<PrimExpr> NodeContext::known_shape(size_t i) {
  auto s = shape(i);
  if (!s) {
    rank(i);  // asks for variants where that is unknown, too
    not_known(fmt::format("{} of a tensor whose shape is not known at import is not supported", op_type()));
  }
  return *s;
}

Array<PrimExpr> NodeContext::known_shape(size_t i, size_t least, size_t most) {
  const auto s = known_shape(i);
  if (s.size() < least || s.size() > most)
    malformed(fmt::format("input {} of {} has rank {}", i, op_type(), s.size()));
  return s;
}

int64_t NodeContext::axis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank)
    malformed(fmt::format("axis {} of {} is outside of rank {}", axis, op_type(), rank));
  return axis < 0 ? axis + rank : axis;
}

void NodeContext::check_references() {
  for (const auto& a : node.attribute())
    if (!a.ref_attr_name().empty() && !env.attributes.contains(a.ref_attr_name()))
      malformed(fmt::format("attribute {} of {} refers to {}, which is no attribute of a function around it",
                            in_quotes(a.name()), op_type(), in_quotes(a.ref_attr_name())));
}
const proto::AttributeProto* NodeContext::attr(const std::string& name) {
  for (const auto& a : node.attribute()) {
    if (a.name() != name) continue;
    if (a.ref_attr_name().empty()) return &a;
    auto it = env.attributes.find(a.ref_attr_name());
    return it == env.attributes.end() ? nullptr : it->second;
  }
  return nullptr;
}

// The type field is missing in old files; what is set tells then.
static bool is_kind(const proto::AttributeProto& a, int type, bool present) {
  return a.type() == type || (a.type() == 0 && present);
}

int64_t NodeContext::attr_int(const std::string& name, int64_t otherwise) {
  const auto* a = attr(name);
  if (!a) return otherwise;
  if (!is_kind(*a, 2, a->has_i()))
    malformed(fmt::format("attribute '{}' of {} must be an integer", name, op_type()));
  return a->i();
}
double NodeContext::attr_float(const std::string& name, double otherwise) {
  const auto* a = attr(name);
  if (!a) return otherwise;
  if (!is_kind(*a, 1, a->has_f()))
    malformed(fmt::format("attribute '{}' of {} must be a number", name, op_type()));
  return double(a->f());
}
std::string NodeContext::attr_string(const std::string& name, const std::string& otherwise) {
  const auto* a = attr(name);
  if (!a) return otherwise;
  if (!is_kind(*a, 3, a->has_s()))
    malformed(fmt::format("attribute '{}' of {} must be a string", name, op_type()));
  return a->s();
}
std::vector<int64_t> NodeContext::attr_ints(const std::string& name) {
  const auto* a = attr(name);
  if (!a) return {};
  if (!is_kind(*a, 7, true))
    malformed(fmt::format("attribute '{}' of {} must be a list of integers", name, op_type()));
  return {a->ints().begin(), a->ints().end()};
}
std::vector<double> NodeContext::attr_floats(const std::string& name) {
  const auto* a = attr(name);
  if (!a) return {};
  if (!is_kind(*a, 6, true))
    malformed(fmt::format("attribute '{}' of {} must be a list of numbers", name, op_type()));
  return {a->floats().begin(), a->floats().end()};
}
std::vector<std::string> NodeContext::attr_strings(const std::string& name) {
  const auto* a = attr(name);
  if (!a) return {};
  if (!is_kind(*a, 8, true))
    malformed(fmt::format("attribute '{}' of {} must be a list of strings", name, op_type()));
  return {a->strings().begin(), a->strings().end()};
}
proto::TensorProto* NodeContext::attr_tensor(const std::string& name) {
  const auto* a = attr(name);
  if (!a) return nullptr;
  if (!is_kind(*a, 4, a->has_t()) || !a->has_t())
    malformed(fmt::format("attribute '{}' of {} must be a tensor", name, op_type()));
  return const_cast<proto::AttributeProto*>(a)->mutable_t();  // payloads are released once read
}
proto::GraphProto* NodeContext::attr_graph(const std::string& name) {
  const auto* a = attr(name);
  if (!a || !a->has_g()) malformed(fmt::format("{} needs the graph '{}'", op_type(), name));
  return const_cast<proto::AttributeProto*>(a)->mutable_g();
}
int64_t NodeContext::need_int(const std::string& name) {
  if (!attr(name)) malformed(fmt::format("{} needs the attribute '{}'", op_type(), name));
  return attr_int(name, 0);
}
std::vector<int64_t> NodeContext::need_ints(const std::string& name) {
  if (!attr(name)) malformed(fmt::format("{} needs the attribute '{}'", op_type(), name));
  return attr_ints(name);
}

void NodeContext::expect_one_dtype(std::initializer_list<size_t> inputs) {
  const size_t first = *inputs.begin();
  for (size_t i : inputs)
    if (has(i) && dtype(i) != dtype(first))
      malformed(fmt::format("inputs {} and {} of {} have different data types", first, i, op_type()));
}

void NodeContext::expect_integers(size_t i, const char* what) {
  if (form(i) || !dtype(i).is_integer())
    malformed(fmt::format("{} of {} holds no integers", what, op_type()));
}

void NodeContext::expect_quantised(std::initializer_list<size_t> inputs) {
  for (size_t i : inputs)
    if (has(i) && (!dtype(i).is_integer() || dtype(i).bits > 16))
      malformed(fmt::format("input {} of {} holds no integers of at most 16 bits", i, op_type()));
}

bool NodeContext::is_input(const Expr& e) {
  for (int i = 0; i < node.input_size(); ++i)
    if (has(size_t(i)) && in(size_t(i)).same_as(e)) return true;
  return false;
}

Expr NodeContext::op(std::string_view name, Array<Expr> args, ObjectRef attrs) {
  if (!graph::find_op(name))
    unsupported(fmt::format("{} needs the graph operator '{}', which this build lacks", op_type(), name));
  // Kernels are made for known ranks.
  if (op::definition(*graph::find_op(name)).tensor_def)
    for (const Expr& a : args)
      if (const auto* t = graph::as_tensor(a); t && t->ndim < 0 && is_input(a))
        importer.fork_on_unknown_rank(*this, a);
  return emit(op::op_call(name, std::move(args), std::move(attrs), origin));
}

Expr NodeContext::emit(Expr e) {
  if (importer.forks()) {  // each variant converts the node again
    if (!e->type) e.edit()->type = op::infer_type(e);
    return graph::var("unused", e->type);
  }
  if (!e->origin && !e.is<graph::Var>()) e.edit()->origin = origin;
  return importer.builder.emit(std::move(e),
                               importer.identifier(node.output_size() > 0 ? node.output(0) : std::string()));
}

Expr NodeContext::cast(const Expr& x, DataType t) {
  const auto* type = graph::as_tensor(x);
  if (type && type->dtype == t) return x;
  return op("cast", {x}, op::make_attrs<op::CastAttrs>(t));
}

Expr NodeContext::with_sizes(const Expr& e, const Array<PrimExpr>& known) {
  const auto* t = graph::as_tensor(e);
  if (!t || t->ndim < 0 || graph::known_shape(e)) return e;
  Array<PrimExpr> shape;
  for (int64_t i = 0; i < t->ndim; ++i)
    shape.push_back(size_t(i) < known.size() && known[size_t(i)]
                        ? known[size_t(i)]
                        : PrimExpr(tir::var(fmt::format("n{}", i), i64)));
  return importer.builder.emit_match_cast(e, graph::tensor_type(shape, t->dtype), "sized");
}

void NodeContext::require_equal(const PrimExpr& a, const PrimExpr& b) {
  if (importer.forks() || importer.sizes_equal(a, b) == true) return;
  const auto wanted = make<graph::ShapeType>(Array<PrimExpr>{b}, int64_t(1), true);
  importer.builder.emit_match_cast(graph::shape_expr({a}), wanted, "checked");
  importer.note_equal(a, b);
}

void NodeContext::require_at_most(const PrimExpr& a, const PrimExpr& b, const char* message) {
  const auto p = tir::as_int(a), q = tir::as_int(b);
  if (p && q && *p > *q) malformed(message);
  if (!p || !q) require_equal(simplify(tir::max(a, b)), b);
}

void NodeContext::check_size(const Array<PrimExpr>& shape, DataType t) {
  const int64_t most = importer.options.max_tensor_bytes;
  int64_t total = std::max(1, t.bytes());
  for (const PrimExpr& d : shape) {
    const auto v = tir::as_int(d);
    if (v && *v < 0) malformed(fmt::format("{} has the negative size {}", op_type(), *v));
    if (v && *v == 0) return;
    if (v && (__builtin_mul_overflow(total, *v, &total) || total > most))
      fail("T2015", fmt::format("{} makes a tensor larger than the limit of {} bytes", op_type(), most),
           where(), "", ErrorKind::limit);
  }
}

Expr NodeContext::checked_indices(const Expr& at, const Array<PrimExpr>& sizes, bool from_end) {
  const auto* c = at.as<graph::Constant>();
  bool known = c != nullptr;
  for (const PrimExpr& s : sizes) known = known && tir::as_int(s);
  for (int64_t i = 0; known && i < c->data.size(); ++i) {
    const int64_t v = c->data.element_int(i), size = *tir::as_int(sizes[size_t(i) % sizes.size()]);
    if (v >= size || v < (from_end ? -size : 0))
      malformed(fmt::format("the index {} of {} is outside of an axis of {} elements", v, op_type(), size));
  }
  const auto shape = graph::known_shape(at);
  if (known || !shape) return at;
  PrimExpr count(1);
  for (const PrimExpr& d : *shape) count = count * d;
  for (const PrimExpr& s : sizes)
    if (!tir::as_int(s)) importer.picked_.push_back({simplify(count), s});
  auto a = op::make_attrs<op::CheckIndicesAttrs>(from_end, fmt::format("{} ({})", op_type(), where()));
  return op("check_indices", {at, graph::shape_expr(sizes)}, a);
}

Expr NodeContext::transpose(const Expr& x, std::vector<int64_t> axes) {
  return op("permute_dims", {x}, op::make_attrs<op::AxesAttrs>(Array<int64_t>(axes)));
}

Expr NodeContext::checked(const Expr& x, const Array<PrimExpr>& shape) {
  const auto have = graph::known_shape(x);
  const auto* t = graph::as_tensor(x);
  if (!t || importer.forks()) return x;
  bool same = have && have->size() == shape.size();
  if (x.is<graph::Constant>()) {  // it keeps its type: the sizes that it meets are checked
    for (size_t i = 0; same && i < shape.size(); ++i)
      if (!tir::as_int(shape[i])) require_equal(shape[i], (*have)[i]);
    return x;
  }
  for (size_t i = 0; same && i < shape.size(); ++i)
    same = (*have)[i].same_as(shape[i]) || is_zero(simplify((*have)[i] - shape[i]));
  if (same) return x;
  for (size_t i = 0; have && i < std::min(have->size(), shape.size()); ++i)
    importer.note_equal((*have)[i], shape[i]);
  return importer.builder.emit_match_cast(x, graph::tensor_type(shape, t->dtype), "checked");
}

Expr NodeContext::slice(const Expr& x, int64_t axis, const PrimExpr& begin, const PrimExpr& end,
                        int64_t step) {
  return op("strided_slice", {x},
            op::make_attrs<op::StridedSliceAttrs>(Array<int64_t>{axis}, Array<PrimExpr>{begin},
                                                  Array<PrimExpr>{end}, Array<int64_t>{step}));
}
Expr NodeContext::concat(const Array<Expr>& parts, int64_t axis) {
  return parts.size() == 1 ? parts[0]
                           : op("concat", {emit(op::tuple(parts))}, op::make_attrs<op::AxisAttrs>(axis));
}
Expr NodeContext::full(Array<PrimExpr> shape, double value, DataType t) {
  return op("full", {graph::shape_expr(std::move(shape)), scalar(value, t)},
            op::make_attrs<op::DTypeAttrs>(t));
}
Array<PrimExpr> NodeContext::shape_of(const Expr& e) {
  if (auto s = graph::known_shape(e)) return *s;
  not_known(fmt::format("{} of a tensor whose shape is not known at import is not supported", op_type()));
}

/// An expression that is 1 just where the size e is: a bound of 2 or more, or of 0 and less, makes no 1.
static PrimExpr one_with(const PrimExpr& e) {
  const auto bounded = [](const PrimExpr& a, const PrimExpr& b, auto makes_no_one) {
    if (const auto bound = tir::as_int(b); bound && makes_no_one(*bound)) return one_with(a);
    if (const auto bound = tir::as_int(a); bound && makes_no_one(*bound)) return one_with(b);
    return PrimExpr();
  };
  PrimExpr inner;
  if (const auto* n = e.as<tir::Min>()) inner = bounded(n->a, n->b, [](int64_t bound) { return bound > 1; });
  if (const auto* n = e.as<tir::Max>()) inner = bounded(n->a, n->b, [](int64_t bound) { return bound < 1; });
  return inner ? inner : e;
}

/// Whether one of two sizes is 1 where the other is larger, for any values of their symbols that are tried.
static bool may_stretch(const PrimExpr& x, const PrimExpr& y) {
  const std::vector<tir::VarRef> symbols = tir::free_vars(x + y);
  constexpr double kTried = 64;  // of all symbols together
  const auto of_each =
      int64_t(std::lround(std::pow(kTried, 1.0 / double(std::max<size_t>(symbols.size(), 1)))));
  std::vector<int64_t> values(symbols.size(), 0);
  for (bool more = true; more;) {
    tir::VarMap at;
    for (size_t k = 0; k < values.size(); ++k) at[symbols[k].get()] = PrimExpr(values[k]);
    const auto p = tir::as_int(simplify(tir::substitute(x, at)));
    const auto q = tir::as_int(simplify(tir::substitute(y, at)));
    if (p && q && *p != *q && std::min(*p, *q) == 1) return true;
    size_t next = 0;
    while (next < values.size() && values[next] + 1 == of_each) values[next++] = 0;
    more = next < values.size();
    if (more) ++values[next];
  }
  return false;
}

std::optional<std::pair<PrimExpr, PrimExpr>> NodeContext::broadcast_sizes(const PrimExpr& x,
                                                                          const PrimExpr& y, bool one_way) {
  const PrimExpr one(1);
  if (tir::is_one(x) || tir::is_one(y) || (tir::as_int(x) && tir::as_int(y))) return {{x, y}};
  const auto same = importer.sizes_equal(x, y);
  if (same == true && tir::is_zero(simplify(x - y))) return {{x, y}};
  const PrimExpr both = tir::as_int(y) || (y.is<tir::Var>() && !x.is<tir::Var>()) ? y : x;
  if (equal_but_at_zero(x, y)) return {{both, both}};
  Analyzer analyzer;  // a slice of the last element: how it stretches is no matter of variants
  const auto at_most_one = [&](const PrimExpr& e) { return !tir::as_int(e) && analyzer.can_prove_lt(e, 2); };
  if (same != true && (at_most_one(y) || (at_most_one(x) && !one_way))) return {};
  const auto may_be_one = [&](const PrimExpr& e) {
    return !tir::as_int(e) && importer.sizes_equal(e, one) != false;
  };
  const bool first = may_be_one(x) && !one_way, second = may_be_one(y);
  if (same != true) {
    if (first && importer.sizes_equal(x, one) == true) return {{one, y}};
    if (second && importer.sizes_equal(y, one) == true) return {{x, one}};
    // Sums and quotients of sizes mostly come from the same sizes: where none stretches, or there are too
    // many variants, they are taken to be equal.
    const bool plain = x.is<tir::Var>() || y.is<tir::Var>();
    // Positions cut from a table, min(length, 512) of them, meet the length: where one is 1 the other is,
    // too.
    if (first && second && tir::is_zero(simplify(one_with(x) - one_with(y)))) {
      const PrimExpr both = y.is<tir::Var>() ? y : x;
      return {{both, both}};
    }
    std::vector<Importer::KnownSizes> equal{{x, y}};
    if (first && second) equal.push_back({x, one});
    if ((first || second) && (plain || importer.forks() || may_stretch(x, y)) &&
        !importer.fork_on_sizes(*this, equal, Importer::KnownSizes{second ? y : x, one}) && plain)
      return {};
  }
  return {{both, both}};
}

void NodeContext::align(Expr& a, Expr& b, bool one_way, size_t inner) {
  const auto sa = graph::known_shape(a), sb = graph::known_shape(b);
  if (!sa || !sb) return;
  Array<PrimExpr> to_a = *sa, to_b = *sb;
  for (size_t i = 1 + inner; i <= std::min(sa->size(), sb->size()); ++i) {
    const PrimExpr &x = (*sa)[sa->size() - i], &y = (*sb)[sb->size() - i];
    const size_t at_a = sa->size() - i, at_b = sb->size() - i;
    if (const auto sizes = broadcast_sizes(x, y, one_way)) {
      to_a.set(at_a, sizes->first);
      to_b.set(at_b, sizes->second);
      continue;
    }
    const PrimExpr size = broadcast_size(*this, x, y, one_way);
    a = stretch(*this, a, int64_t(at_a), size);
    b = stretch(*this, b, int64_t(at_b), size);
    to_a.set(at_a, size);
    to_b.set(at_b, size);
  }
  a = checked(a, to_a);
  b = checked(b, to_b);
}

Expr NodeContext::along_last(size_t i, size_t of) {
  const auto vector = shape(i), data = shape(of);
  if (!vector || !data || data->empty()) return in(i);
  const PrimExpr size = data->back();
  const auto p = vector->size() == 1 ? tir::as_int((*vector)[0]) : std::nullopt, q = tir::as_int(size);
  if (vector->size() != 1 || (p && q && *p != *q))
    malformed(
        fmt::format("input {} of {} must be a vector as long as the last axis of its data", i, op_type()));
  if (p && !q) require_equal(size, PrimExpr(*p));
  return p ? in(i) : checked(in(i), {size});
}

Expr NodeContext::onto(std::string_view name, Expr x, Expr y) {
  align(x, y, true);
  const auto before = graph::known_shape(x);
  const Expr both = op(name, {x, y});
  const auto after = graph::known_shape(both);
  if (!before || !after) return both;
  bool fits = before->size() == after->size();
  for (size_t i = 0; fits && i < after->size(); ++i) {
    const auto p = tir::as_int((*before)[i]), q = tir::as_int((*after)[i]);
    fits = !p || !q || *p == *q;
  }
  if (!fits) malformed(fmt::format("an input of {} cannot be stretched to the shape of its data", op_type()));
  return checked(both, *before);
}

}  // namespace tenon::onnx
