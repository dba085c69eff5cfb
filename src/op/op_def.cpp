// SPDX-License-Identifier: Apache-2.0
// Helpers that operator definitions share: types of arguments, axes, broadcasting, and pieces of tensor
// expressions.
#include "op/op_def.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/source_file.h"
#include "ir/origin.h"
#include "ir/structural.h"

namespace tenon::op {

// ---------------------------------------------------------------- registration
const OpDef& definition(const graph::Op& op) { return static_cast<const OpDef&>(*op.rules); }

std::optional<Contraction> contraction_of(const graph::Expr& value) {
  const graph::Op* op = graph::op_of(value);
  const OpDef* def = op ? &definition(*op) : nullptr;
  return def && def->contraction ? def->contraction(*value.as<graph::Call>()) : std::nullopt;
}

/// Approximations by the name of the operator that they compute.
static std::map<std::pair<std::string, Approximation>, const graph::Op*>& approximations() {
  static std::map<std::pair<std::string, Approximation>, const graph::Op*> known;
  return known;
}

const graph::Op* approximation_of(const graph::Op& op, Approximation enough_for) {
  const auto found = approximations().find({op.name, enough_for});
  return found == approximations().end() ? nullptr : found->second;
}

Any OpDef::property(std::string_view name) const {
  if (name == "TOpPattern") return int64_t(fusion);
  return {};
}

OpRegistration::OpRegistration(OpName name, std::string doc) {
  auto def = std::make_shared<OpDef>();
  def_ = def.get();
  Ref<graph::Op> op = make<graph::Op>(std::move(name.text));
  op_ = op.edit();
  op_->doc = std::move(doc);
  op_->rules = std::move(def);
  op_->file = source_file(name.where.file_name());
  op_->line = int(name.where.line());
  graph::add_op(op);
}
OpRegistration& OpRegistration::argument(std::string name, std::string type, std::string doc, bool optional) {
  op_->arguments.push_back({std::move(name), std::move(type), std::move(doc), optional});
  return *this;
}
OpRegistration& OpRegistration::variadic() {
  op_->variadic = true;
  return *this;
}
OpRegistration& OpRegistration::impure() {
  op_->pure = false;
  return *this;
}
OpRegistration& OpRegistration::attrs(const TypeInfo* type, ObjectRef defaults) {
  op_->attrs_type = type;
  op_->default_attrs = std::move(defaults);
  return *this;
}
OpRegistration& OpRegistration::infer(InferType f) {
  def_->infer = std::move(f);
  return *this;
}
OpRegistration& OpRegistration::fusion(FusionKind kind) {
  def_->fusion = kind;
  return *this;
}
OpRegistration& OpRegistration::tensor_def(TensorDef f) {
  def_->tensor_def = std::move(f);
  return *this;
}
OpRegistration& OpRegistration::evaluate(Evaluate f) {
  def_->evaluate = std::move(f);
  return *this;
}
OpRegistration& OpRegistration::parameter(ParameterType f) {
  def_->parameter = std::move(f);
  return *this;
}
OpRegistration& OpRegistration::layout(LayoutRule f) {
  def_->layout = std::move(f);
  return *this;
}
OpRegistration& OpRegistration::contraction(ContractionRule f) {
  def_->contraction = std::move(f);
  return precision(Precision::narrow);
}
OpRegistration& OpRegistration::grouped_weight(GroupedWeight w) {
  def_->grouped_weight = w;
  return *this;
}
OpRegistration& OpRegistration::canonical(CanonicalForm f) {
  def_->canonical = std::move(f);
  return *this;
}
OpRegistration& OpRegistration::moves() {
  def_->moves = true;
  return *this;
}
OpRegistration& OpRegistration::quantizes() {
  def_->quantizes = true;
  return *this;
}
OpRegistration& OpRegistration::view() {
  def_->view = def_->moves = true;
  return *this;
}
OpRegistration& OpRegistration::commutative() {
  def_->commutative = true;
  return *this;
}
OpRegistration& OpRegistration::precision(Precision p) {
  def_->precision = p;
  return *this;
}
OpRegistration& OpRegistration::placement(Placement p) {
  def_->placement = p;
  return *this;
}
OpRegistration& OpRegistration::approximates(std::string op, Approximation enough_for) {
  approximations()[{std::move(op), enough_for}] = op_;
  return *this;
}
OpRegistration register_op(OpName name, std::string doc) {
  return OpRegistration(std::move(name), std::move(doc));
}
OpRegistration register_op(OpName name, std::string doc, FusionKind kind, InferType infer, TensorDef def) {
  OpRegistration r(std::move(name), std::move(doc));
  return r.infer(std::move(infer)).fusion(kind).tensor_def(std::move(def));
}

// ---------------------------------------------------------------- types
const graph::TensorType& tensor_arg(const Call& call, size_t i) {
  CHECK(i < call.args.size() && call.args[i], "an operator looks at an argument that the call does not have");
  const auto* t = call.args[i]->type.as<graph::TensorType>();
  CHECK(t, "an operator looks at the tensor type of an argument that is none");
  return *t;
}

std::optional<Shape> shape_arg(const Call& call, size_t i) {
  const auto* s = call.args[i]->type.as<graph::ShapeType>();
  if (!s || !s->known) return std::nullopt;
  return s->values;
}

std::optional<Shape> shape_of(const graph::TensorType& t) {
  if (const auto* s = t.shape.as<graph::ShapeExpr>()) return s->values;
  if (t.shape && t.shape->type) return graph::known_shape(t.shape->type);
  return std::nullopt;
}

Type make_type(const std::optional<Shape>& shape, int64_t ndim, DataType dtype) {
  return shape ? graph::tensor_type(*shape, dtype) : graph::tensor_type_unknown(ndim, dtype);
}

Type like(const graph::TensorType& t, DataType dtype) {
  if (t.dtype == dtype) return Ref<graph::TensorType>(&t);
  return make<graph::TensorType>(t.shape, t.ndim, dtype, t.device);
}

Type infer_same(InferContext& ctx) { return Ref<graph::TensorType>(&ctx.tensor(0)); }

std::vector<int64_t> normal_axes(const Array<int64_t>& axes, int64_t ndim, bool sorted) {
  std::vector<int64_t> out;
  for (int64_t axis : axes) out.push_back(normal_axis(axis, ndim));
  if (sorted) std::sort(out.begin(), out.end());
  return out;
}

std::string show_dim(const PrimExpr& e) {
  if (auto v = tir::as_int(e)) return std::to_string(*v);
  if (const auto* v = e.as<tir::Var>()) return v->name;
  auto two = [&](const PrimExpr& a, const char* op, const PrimExpr& b) {
    auto side = [](const PrimExpr& x) {
      return x.is<tir::IntImm>() || x.is<tir::Var>() ? show_dim(x) : "(" + show_dim(x) + ")";
    };
    return side(a) + " " + op + " " + side(b);
  };
  if (const auto* n = e.as<tir::Add>()) return two(n->a, "+", n->b);
  if (const auto* n = e.as<tir::Sub>()) return two(n->a, "-", n->b);
  if (const auto* n = e.as<tir::Mul>()) return two(n->a, "*", n->b);
  if (const auto* n = e.as<tir::FloorDiv>()) return two(n->a, "//", n->b);
  if (const auto* n = e.as<tir::FloorMod>()) return two(n->a, "%", n->b);
  return "…";
}

std::string show(const Shape& shape) {
  std::string out = "(";
  for (size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + show_dim(shape[i]);
  return out + (shape.size() == 1 ? ",)" : ")");
}

// ---------------------------------------------------------------- sizes
bool same_dim(const PrimExpr& a, const PrimExpr& b) {
  auto x = tir::as_int(a), y = tir::as_int(b);
  if (x && y) return *x == *y;
  if (a.same_as(b)) return true;
  if (x || y || (a.is<tir::Var>() && b.is<tir::Var>())) return false;
  return structural_equal(a, b) || Analyzer().can_prove_equal(a, b);
}
bool differ(const PrimExpr& a, const PrimExpr& b) {
  auto x = tir::as_int(a), y = tir::as_int(b);
  return x && y && *x != *y;
}
PrimExpr product(const Shape& shape) {
  PrimExpr p = 1;
  for (const PrimExpr& d : shape) p = p * d;
  return p;
}

std::optional<Shape> broadcast_shapes(const Shape& a, const Shape& b) {
  const size_t n = std::max(a.size(), b.size());
  Shape out;
  for (size_t i = 0; i < n; ++i) {
    // From the left: a missing leading axis counts as 1.
    const bool in_a = i + a.size() >= n, in_b = i + b.size() >= n;
    const PrimExpr x = in_a ? a[i + a.size() - n] : PrimExpr(1), y = in_b ? b[i + b.size() - n] : PrimExpr(1);
    if (tir::is_one(x))
      out.push_back(y);
    else if (tir::is_one(y) || tir::as_int(x) || same_dim(x, y))
      out.push_back(x);  // a number against a symbol: the symbolic side is 1 or the same
    else if (tir::as_int(y))
      out.push_back(y);
    else
      return std::nullopt;
  }
  return out;
}

// ---------------------------------------------------------------- tensor definitions
TensorInfo output_info(const Call& call, size_t i) {
  const graph::TensorType* t = nullptr;
  if (const auto* tuple = call.type.as<graph::TupleType>())
    t = tuple->items[i].as<graph::TensorType>();
  else
    t = call.type.as<graph::TensorType>();
  CHECK(t, "a tensor definition needs the type of its call");
  auto shape = shape_of(*t);
  if (!shape)
    fail("T1102", fmt::format("{}: the shape of the result is not known at compile time", short_name(call)),
         place(call.origin), "bind it with match_cast, or give the model static input shapes");
  return {*shape, t->dtype};
}

std::string short_name(const Call& call) {
  const auto* op = call.op.as<graph::Op>();
  if (!op) return "call";
  const size_t dot = op->name.rfind('.');
  return dot == std::string::npos ? op->name : op->name.substr(dot + 1);
}

Shape indices(const Vars& vars) {
  Shape out;
  for (const tir::VarRef& v : vars) out.push_back(v);
  return out;
}

PrimExpr broadcast_at(const te::Tensor& t, const Shape& out_shape, const Shape& index) {
  CHECK(index.size() >= t.ndim(), "broadcast to fewer dimensions");
  const size_t skip = index.size() - t.ndim();
  Shape at;
  for (size_t i = 0; i < t.ndim(); ++i) {
    const PrimExpr &have = t.shape()[i], &want = out_shape[i + skip], &j = index[i + skip];
    if (tir::is_one(have))
      at.push_back(PrimExpr(0));
    else if (tir::is_one(want) || same_dim(have, want))
      at.push_back(j);
    else
      at.push_back(tir::select(tir::eq(have, PrimExpr(1)), PrimExpr(0), j));  // decided at run time
  }
  return t(at);
}

DataType wide_type(DataType t) { return t.is_float() && t.bits < 32 ? f32 : t; }
PrimExpr wide(const PrimExpr& e) { return tir::cast(wide_type(e.dtype()), e); }

PrimExpr constant(DataType t, double v) {
  if (t.is_float()) return PrimExpr::float_imm(v, t);
  if (t.is_bool()) return PrimExpr::int_imm(v != 0, t);
  // Saturates: an infinite bound of an integer clip is no bound.
  if (std::isnan(v)) return PrimExpr::int_imm(0, t);
  const double high = std::ldexp(1.0, t.is_uint() ? t.bits : t.bits - 1), low = t.is_uint() ? 0 : -high;
  if (v >= high) return tir::max_value(t);
  if (v <= low) return tir::min_value(t);
  return PrimExpr::int_imm(t.is_uint() ? int64_t(uint64_t(v)) : int64_t(v), t);
}

te::Tensor cast_to(const te::Tensor& t, DataType dtype, const std::string& name) {
  if (t.dtype() == dtype) return t;
  return te::compute(t.shape(), [&](const Vars& v) { return tir::cast(dtype, t(indices(v))); }, name);
}

namespace {
/// Sums of floats that are longer are made of sums of blocks: the error of a sum grows with its length, and
/// what vectors and chunks of a schedule gain is a constant factor.
constexpr int64_t kLongSum = int64_t(1) << 18;

/// The length of blocks that is nearest to `root` from below and leaves none of `n` over; `root` when there
/// is none of at least half of it.
int64_t block_near(int64_t n, int64_t root) {
  for (int64_t block = root; 2 * block >= root; --block)
    if (n % block == 0) return block;
  return root;
}

/// A long sum as sums over parts of `axes`, then over those; none where the sum is short or its length
/// unknown.
std::optional<te::Tensor> sum_in_blocks(const te::Tensor& x, const std::vector<int64_t>& axes, bool keepdims,
                                        const Element& value, const std::string& name) {
  const auto extent = [&](int64_t axis) { return tir::as_int(x.shape()[size_t(axis)]); };
  double count = 1;
  int64_t longest = -1;
  for (int64_t a : axes) {
    if (!extent(a)) return std::nullopt;
    count *= double(*extent(a));
    if (longest < 0 || *extent(a) > *extent(longest)) longest = a;
  }
  if (count <= double(kLongSum)) return std::nullopt;
  const int64_t n = *extent(longest), others = int64_t(count / double(n));
  // The longest axis alone comes last; where it has nearly all elements, blocks of it do.
  const auto root = int64_t(std::ceil(std::sqrt(double(n))));
  const int64_t block = others >= root ? 1 : block_near(n, root), blocks = (n + block - 1) / block;
  // The blocks stand where the axis does, so that elements behind it stay neighbours.
  Shape parts;
  size_t at_blocks = 0;
  for (size_t i = 0; i < x.ndim(); ++i) {
    if (int64_t(i) == longest) at_blocks = parts.size();
    if (int64_t(i) == longest)
      parts.push_back(PrimExpr(blocks));
    else if (std::ranges::count(axes, int64_t(i)) == 0)
      parts.push_back(x.shape()[i]);
  }
  Array<tir::IterVar> ks;
  for (int64_t a : axes)
    if (a != longest || block > 1)
      ks.push_back(
          te::reduce_axis(tir::range(PrimExpr(0), a == longest ? PrimExpr(block) : x.shape()[size_t(a)]),
                          fmt::format("k{}", ks.size())));
  const te::Tensor partial = te::compute(
      parts,
      [&](const Vars& v) {
        Shape at;
        size_t next = 0, k = 0;
        PrimExpr inside = tir::true_();
        for (size_t i = 0; i < x.ndim(); ++i) {
          if (std::ranges::count(axes, int64_t(i)) == 0) {
            at.push_back(v[next++]);
          } else if (int64_t(i) == longest) {
            const PrimExpr which = v[next++];
            at.push_back(block > 1 ? which * PrimExpr(block) + ks[k++]->var : which);
            if (blocks * block > n) inside = tir::lt(at.back(), PrimExpr(n));
          } else {
            at.push_back(ks[k++]->var);
          }
        }
        const PrimExpr e = value(x(at), at);
        return te::sum(tir::is_one(inside) ? e : tir::if_then_else(inside, e, constant(e.dtype(), 0)), ks);
      },
      name + "_blocks");
  Shape shape;
  for (size_t i = 0; i < x.ndim(); ++i) {
    const bool summed = std::ranges::count(axes, int64_t(i)) > 0;
    if (!summed || keepdims) shape.push_back(summed ? PrimExpr(1) : x.shape()[i]);
  }
  const tir::IterVar k = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(blocks)), "block");
  return te::compute(
      shape,
      [&](const Vars& v) {
        Shape at = keepdims ? drop_axes(indices(v), axes) : indices(v);
        at.insert(at_blocks, PrimExpr(k->var));
        return te::sum(partial(at), {k});
      },
      name);
}
}  // namespace

te::Tensor reduce_over(const te::Tensor& x, const std::vector<int64_t>& axes, bool keepdims, ReduceOne f,
                       const Element& value, const std::string& name) {
  if (f == te::sum && x.dtype().is_float())
    if (const auto sum = sum_in_blocks(x, axes, keepdims, value, name)) return *sum;
  std::vector<bool> reduced(x.ndim(), false);
  for (int64_t a : axes) reduced[size_t(a)] = true;
  Shape shape;
  Array<tir::IterVar> ks;
  for (size_t i = 0; i < x.ndim(); ++i) {
    if (!reduced[i])
      shape.push_back(x.shape()[i]);
    else if (keepdims)
      shape.push_back(PrimExpr(1));
    if (reduced[i])
      ks.push_back(te::reduce_axis(tir::range(PrimExpr(0), x.shape()[i]), fmt::format("k{}", ks.size())));
  }
  return te::compute(
      shape,
      [&](const Vars& v) {
        Shape at;
        size_t next = 0, k = 0;
        for (size_t i = 0; i < x.ndim(); ++i) {
          if (reduced[i]) {
            at.push_back(ks[k++]->var);
            if (keepdims) ++next;
          } else {
            at.push_back(v[next++]);
          }
        }
        return f(value(x(at), at), ks, {});
      },
      name);
}

Shape drop_axes(const Shape& index, const std::vector<int64_t>& axes) {
  Shape out;
  for (size_t i = 0; i < index.size(); ++i)
    if (std::find(axes.begin(), axes.end(), int64_t(i)) == axes.end()) out.push_back(index[i]);
  return out;
}

PrimExpr safe_index(const PrimExpr& index, const PrimExpr& extent) {
  const PrimExpr i = tir::cast(i64, index);
  const PrimExpr from_end = tir::select(tir::lt(i, PrimExpr(0)), i + extent, i);
  return tir::max(tir::min(from_end, extent - 1), PrimExpr(0));
}

te::Tensor pad_with(const te::Tensor& x, const Shape& before, const Shape& after, const PrimExpr& value,
                    const std::string& name) {
  bool none = true;
  Shape shape;
  for (size_t i = 0; i < x.ndim(); ++i) {
    none = none && tir::is_zero(before[i]) && tir::is_zero(after[i]);
    shape.push_back(x.shape()[i] + before[i] + after[i]);
  }
  if (none) return x;
  return te::compute(
      shape,
      [&](const Vars& v) {
        Shape at;
        PrimExpr inside = tir::true_();
        for (size_t i = 0; i < x.ndim(); ++i) {
          const PrimExpr index = v[i] - before[i];
          at.push_back(index);
          auto adds = [](const PrimExpr& n) { return tir::as_int(n).value_or(1) > 0; };
          if (adds(before[i])) inside = tir::logical_and(inside, tir::ge(v[i], before[i]));
          if (adds(after[i])) inside = tir::logical_and(inside, tir::lt(v[i], x.shape()[i] + before[i]));
        }
        return tir::if_then_else(inside, x(at), value);
      },
      name);
}

std::vector<int64_t> per_axis(const Array<int64_t>& list, size_t n, int64_t otherwise) {
  if (list.size() <= 1) return std::vector<int64_t>(n, list.empty() ? otherwise : list[0]);
  CHECK(list.size() == n, "a list of another length than inference has accepted");
  return list.vec();
}

std::vector<int64_t> paddings(const Array<int64_t>& list, size_t n) {
  if (list.size() == 2 * n) return list.vec();
  const std::vector<int64_t> begins = per_axis(list, n, 0);
  std::vector<int64_t> out = begins;
  out.insert(out.end(), begins.begin(), begins.end());
  return out;
}

DataType contraction_type(DataType a, DataType b, DataType wanted) {
  if (!wanted.is_void()) return wanted;
  const bool bytes = a.is_integer() && b.is_integer() && a.bits == 8 && b.bits == 8;
  return bytes ? i32 : a.is_void() ? b : a;
}

}  // namespace tenon::op
