// SPDX-License-Identifier: Apache-2.0
// Builders of tensor expressions: placeholder, compute, reductions and hand-written statements.
#include "te/te.h"

#include <fmt/format.h>

#include <unordered_set>

#include "base/define_type.h"
#include "ir/find_node.h"
#include "ir/tir.h"

namespace tenon::te {
namespace {

/// Sizes and indices are int64 everywhere; they are made of integers and conditions. Messages name the place
/// as `what` 'name'.
PrimExpr as_index(const PrimExpr& e, const char* what, const std::string& name) {
  if (e.dtype() == i64) return e;
  if (!e.dtype().is_scalar() || !(e.dtype().is_integer() || e.dtype().is_bool()))
    fail("T0343", fmt::format("a size or index of type {}", to_string(e.dtype())),
         fmt::format("{} '{}'", what, name), "give an integer");
  return tir::cast(i64, e);
}
PrimExpr as_size(const PrimExpr& e, const char* what, const std::string& name) {
  if (const auto size = tir::as_int(e); size && *size < 0)
    fail("T0343", fmt::format("a dimension of size {}", *size), fmt::format("{} '{}'", what, name),
         "sizes are not negative");
  return as_index(e, what, name);
}
Array<PrimExpr> as_sizes(const Array<PrimExpr>& shape, const char* what, const std::string& name) {
  return shape.map([&](const PrimExpr& e) { return as_size(e, what, name); });
}

Tensor make_tensor(const Operation& op, int64_t index, const Array<PrimExpr>& shape, DataType dtype,
                   const std::string& name) {
  auto t = make<TensorNode>();
  TensorNode* node = t.edit();
  node->shape = shape;
  node->dtype = dtype;
  node->name = name;
  node->op = op;
  node->index = index;
  return Tensor(t);
}

bool contains_reduce(const PrimExpr& e) { return has_node<tir::Reduce>(e); }

/// Tensors that the body reads, each once, in order of appearance.
Array<Tensor> tensors_read(const Array<PrimExpr>& body) {
  Array<Tensor> out;
  std::unordered_set<const Object*> seen;
  for (const PrimExpr& e : body)
    post_order(e, [&](const ObjectRef& n) {
      const auto* load = n.as<tir::ProducerLoad>();
      if (!load) return;
      const auto* t = load->producer.as<TensorNode>();
      CHECK(t, "a tensor expression reads something that is no tensor");
      if (seen.insert(t).second) out.push_back(Tensor(Ref<TensorNode>(t)));
    });
  return out;
}

std::vector<Tensor> make_compute(const Array<PrimExpr>& shape, const MultiLambda& f, std::string name,
                                 std::string tag, AttrMap attrs) {
  auto op = make<OperationNode>();
  OperationNode* node = op.edit();
  node->kind = OperationKind::compute;
  node->name = std::move(name);
  node->tag = std::move(tag);
  node->attrs = std::move(attrs);
  node->shape = as_sizes(shape, "te.compute", node->name);
  Array<tir::VarRef> vars;
  for (size_t i = 0; i < node->shape.size(); ++i) {
    tir::IterVar axis = tir::iter_var(tir::range(PrimExpr(0), node->shape[i]), fmt::format("i{}", i));
    node->axis.push_back(axis);
    vars.push_back(axis->var);
  }
  node->body = f(vars);
  const std::string where = fmt::format("te.compute '{}'", node->name);
  if (node->body.empty()) fail("T0343", "a compute without a value", where, "return one value per output");
  const auto* first = node->body[0].as<tir::Reduce>();
  for (const PrimExpr& e : node->body) {
    const auto* r = e.as<tir::Reduce>();
    if ((r != nullptr) != (first != nullptr))
      fail("T0343", "a compute mixes reductions and plain values", where, "make them two computes");
    if (r) {
      if (!r->combiner.same_as(first->combiner) || r->source.get() != first->source.get())
        fail("T0343", "the outputs of one compute must be values of one reduction", where,
             "make them two computes");
      for (const PrimExpr& s : r->source)
        if (contains_reduce(s))
          fail("T0343", "reductions do not nest", where, "make the inner one a tensor of its own");
    } else if (contains_reduce(e)) {
      fail("T0343", "a reduction must be the whole value of a compute", where,
           "make the reduction a tensor, and what follows it the next compute");
    }
  }
  if (first) node->reduce_axis = first->axis;
  node->inputs = tensors_read(node->body);
  return op->outputs();
}

using Fold = PrimExpr (*)(const PrimExpr&, const PrimExpr&);
PrimExpr reduce_with(Fold fold, const PrimExpr& e, const PrimExpr& identity, Array<tir::IterVar> axis,
                     PrimExpr condition) {
  if (axis.empty()) return condition ? tir::if_then_else(condition, e, identity) : e;
  return reduce(
      {e}, [&](const auto& x, const auto& y) { return Array<PrimExpr>{fold(x[0], y[0])}; }, {identity},
      std::move(axis), std::move(condition))[0];
}

bool has_infinity(DataType t) {
  return t.is_float() && t.code != TypeCode::Float8_e4m3fn && t.code != TypeCode::Float8_e4m3fnuz &&
         t.code != TypeCode::Float8_e5m2fnuz;
}
/// Not the largest finite value: a row of infinities must reduce to infinity.
PrimExpr lowest(DataType t) {
  if (t.is_bool()) return PrimExpr::int_imm(0, t);
  return has_infinity(t) ? -tir::infinity(t) : tir::min_value(t);
}
PrimExpr highest(DataType t) {
  if (t.is_bool()) return PrimExpr::int_imm(1, t);
  return has_infinity(t) ? tir::infinity(t) : tir::max_value(t);
}

PrimExpr is_nan(const PrimExpr& e) {
  return e.dtype().is_float() ? tir::call(boolean, "tir.isnan", {e}) : PrimExpr::int_imm(0, boolean);
}

Array<PrimExpr> arg_extreme(bool want_max, PrimExpr index, PrimExpr value, Array<tir::IterVar> axis) {
  const DataType index_type = index.dtype(), value_type = value.dtype();
  // The identity's index is the largest, so that an element equal to the identity's value wins over it.
  Array<PrimExpr> identity{tir::max_value(index_type), want_max ? lowest(value_type) : highest(value_type)};
  auto combine = [&](const Array<tir::VarRef>& l, const Array<tir::VarRef>& r) {
    PrimExpr li = l[0], lv = l[1], ri = r[0], rv = r[1];
    PrimExpr better = want_max ? tir::gt(lv, rv) : tir::lt(lv, rv), same = tir::eq(lv, rv);
    // NaN counts as the extreme, as it does for max and min themselves.
    better = tir::logical_or(better, tir::logical_and(is_nan(lv), tir::logical_not(is_nan(rv))));
    same = tir::logical_or(same, tir::logical_and(is_nan(lv), is_nan(rv)));
    PrimExpr left = tir::logical_or(better, tir::logical_and(same, tir::lt(li, ri)));
    return Array<PrimExpr>{tir::select(left, li, ri), tir::select(left, lv, rv)};
  };
  return reduce({std::move(index), std::move(value)}, combine, identity, std::move(axis));
}

}  // namespace

PrimExpr Tensor::operator()(Array<PrimExpr> indices) const {
  if (indices.size() != ndim())
    fail("T0343",
         fmt::format("tensor '{}' of rank {} read with {} indices", get()->name, ndim(), indices.size()), {},
         "give one index for each dimension");
  return make<tir::ProducerLoad>(tir::DataProducer(*this), indices.map([&](const PrimExpr& i) {
    return as_index(i, "tensor", get()->name);
  }));
}

std::vector<Tensor> OperationNode::outputs() const {
  Operation self(this);
  std::vector<Tensor> out;
  auto output_name = [&](size_t i, size_t n) { return n == 1 ? name : fmt::format("{}_v{}", name, i); };
  switch (kind) {
    case OperationKind::placeholder:
      out.push_back(make_tensor(self, 0, shape, dtype, name));
      break;
    case OperationKind::external:
      for (size_t i = 0; i < output_buffers.size(); ++i)
        out.push_back(make_tensor(self, int64_t(i), output_buffers[i]->shape, output_buffers[i]->dtype,
                                  output_name(i, output_buffers.size())));
      break;
    case OperationKind::scan:
      for (size_t i = 0; i < state.size(); ++i)
        out.push_back(
            make_tensor(self, int64_t(i), state[i].shape(), state[i].dtype(), output_name(i, state.size())));
      break;
    case OperationKind::compute:
      for (size_t i = 0; i < body.size(); ++i)
        out.push_back(make_tensor(self, int64_t(i), shape, body[i].dtype(), output_name(i, body.size())));
      break;
  }
  return out;
}

Tensor placeholder(Array<PrimExpr> shape, DataType dtype, std::string name) {
  auto op = make<OperationNode>();
  OperationNode* node = op.edit();
  node->kind = OperationKind::placeholder;
  node->name = std::move(name);
  if (dtype.is_void())
    fail("T0343", "a tensor without a data type", fmt::format("te.placeholder '{}'", node->name),
         "give one, such as float32");
  node->shape = as_sizes(shape, "te.placeholder", node->name);
  node->dtype = dtype;
  return op->outputs()[0];
}

Tensor compute(Array<PrimExpr> shape, Lambda f, std::string name, std::string tag, AttrMap attrs) {
  auto one = [&](const Array<tir::VarRef>& v) { return Array<PrimExpr>{f(v)}; };
  return make_compute(shape, one, std::move(name), std::move(tag), std::move(attrs))[0];
}

std::vector<Tensor> compute_multi(Array<PrimExpr> shape, MultiLambda f, std::string name, std::string tag,
                                  AttrMap attrs) {
  return make_compute(shape, f, std::move(name), std::move(tag), std::move(attrs));
}

tir::IterVar reduce_axis(tir::Range dom, std::string name) {
  const tir::Range range =
      tir::range(as_index(dom->min, "te.reduce_axis", name), as_size(dom->extent, "te.reduce_axis", name));
  return tir::iter_var(range, std::move(name), tir::IterKind::reduce);
}

std::vector<Tensor> scan(Array<Tensor> init, Array<Tensor> update, Array<Tensor> state, std::string name,
                         std::string tag) {
  const std::string where = fmt::format("te.scan '{}'", name);
  if (state.empty() || init.size() != state.size() || update.size() != state.size())
    fail("T0344", fmt::format("{} inits, {} updates and {} states", init.size(), update.size(), state.size()),
         where, "give one init and one update for each state");
  Analyzer a;
  for (size_t i = 0; i < state.size(); ++i) {
    const Tensor &s = state[i], &u = update[i], &b = init[i];
    if (s->op->kind != OperationKind::placeholder)
      fail("T0344", fmt::format("the state '{}' is no placeholder", s->name), where,
           "the state stands for the result; make it a placeholder of the result's shape");
    if (s.ndim() == 0 || u.ndim() != s.ndim() || b.ndim() != s.ndim())
      fail("T0344",
           fmt::format("state '{}', init and update have {}, {} and {} dimensions", s->name, s.ndim(),
                       b.ndim(), u.ndim()),
           where, "dimension 0 is the step; all three have it");
    if (s.dtype() != u.dtype() || s.dtype() != b.dtype())
      fail("T0344", fmt::format("state '{}', init and update differ in data type", s->name), where,
           "cast in the update");
    for (size_t d = 0; d < s.ndim(); ++d)
      if (!a.can_prove_equal(s.shape()[d], u.shape()[d]) ||
          (d > 0 && !a.can_prove_equal(s.shape()[d], b.shape()[d])) ||
          (d == 0 && (!a.can_prove_equal(b.shape()[0], init[0].shape()[0]) ||
                      !a.can_prove_equal(s.shape()[0], state[0].shape()[0]))))
        fail("T0344",
             fmt::format("dimension {} of state '{}', its init or its update has another size", d, s->name),
             where, "the update has the state's shape; the init too, but for its number of steps");
    if (u->op->kind != OperationKind::compute)
      fail("T0344", fmt::format("the update of state '{}' is no compute", s->name), where,
           "compute the row of one step from rows before it");
    for (size_t k = 0; k < i; ++k)
      if (update[k]->op.same_as(u->op) && update[k]->index == u->index)
        fail("T0344", fmt::format("'{}' is the update of two states", u->name), where,
             "write a compute for each state");
  }
  auto op = make<OperationNode>();
  OperationNode* node = op.edit();
  node->kind = OperationKind::scan;
  node->name = std::move(name);
  node->tag = std::move(tag);
  node->init = init;
  node->update = update;
  node->state = state;
  const PrimExpr from = init[0].shape()[0];
  node->scan_axis = tir::iter_var(tir::range(from, a.simplify(state[0].shape()[0] - from)), node->name + "_t",
                                  tir::IterKind::scan);
  for (const Tensor& t : init) node->inputs.push_back(t);
  for (const Tensor& t : update) node->inputs.push_back(t);
  return op->outputs();
}

Reducer comm_reducer(Combine combine, Reducer::Identity identity) {
  return Reducer(std::move(combine), std::move(identity));
}
Array<PrimExpr> Reducer::operator()(Array<PrimExpr> values, Array<tir::IterVar> axis,
                                    PrimExpr condition) const {
  std::vector<DataType> types;
  for (const PrimExpr& v : values) types.push_back(v.dtype());
  Array<PrimExpr> identity = identity_(types);
  return reduce(std::move(values), combine_, std::move(identity), std::move(axis), std::move(condition));
}

std::vector<Tensor> external(
    Array<Array<PrimExpr>> shapes, std::vector<DataType> dtypes, Array<Tensor> inputs,
    std::function<tir::Stmt(const Array<tir::Buffer>&, const Array<tir::Buffer>&)> body, std::string name,
    AttrMap attrs) {
  if (shapes.size() != dtypes.size())
    fail("T0343", fmt::format("{} shapes and {} data types", shapes.size(), dtypes.size()),
         fmt::format("te.extern '{}'", name), "give one data type for each output");
  auto op = make<OperationNode>();
  OperationNode* node = op.edit();
  node->kind = OperationKind::external;
  node->name = std::move(name);
  node->attrs = std::move(attrs);
  node->inputs = inputs;
  for (const Tensor& t : inputs) node->input_buffers.push_back(tir::buffer(t->name, t.shape(), t.dtype()));
  for (size_t i = 0; i < shapes.size(); ++i)
    node->output_buffers.push_back(
        tir::buffer(node->name, as_sizes(shapes[i], "te.extern", node->name), dtypes[i]));
  node->statement = body(node->input_buffers, node->output_buffers);
  return op->outputs();
}

Array<PrimExpr> reduce(Array<PrimExpr> values, Combine combine, Array<PrimExpr> identity,
                       Array<tir::IterVar> axis, PrimExpr condition) {
  if (values.size() != identity.size() || values.empty())
    fail("T0343", fmt::format("{} values are reduced with {} identities", values.size(), identity.size()), {},
         "give one identity for each value");
  if (axis.empty()) fail("T0343", "a reduction needs an axis", {}, "make one with te::reduce_axis");
  for (const tir::IterVar& v : axis)
    if (v->kind != tir::IterKind::reduce)
      fail("T0343", fmt::format("'{}' is no axis of a reduction", v->var->name), {},
           "make one with te::reduce_axis");
  Array<tir::VarRef> lhs, rhs;
  for (size_t i = 0; i < values.size(); ++i) {
    lhs.push_back(tir::var(fmt::format("x{}", i), values[i].dtype()));
    rhs.push_back(tir::var(fmt::format("y{}", i), values[i].dtype()));
  }
  Array<PrimExpr> combined = combine(lhs, rhs);
  if (combined.size() != values.size())
    fail("T0343", fmt::format("the combination of {} values gives {}", values.size(), combined.size()), {},
         "return one value for each");
  for (size_t i = 0; i < values.size(); ++i)
    if (combined[i].dtype() != values[i].dtype() || identity[i].dtype() != values[i].dtype())
      fail("T0343",
           fmt::format("value {} of a reduction is {}, its combination {} and its identity {}", i,
                       to_string(values[i].dtype()), to_string(combined[i].dtype()),
                       to_string(identity[i].dtype())),
           {}, "all three have one data type");
  auto reducer = make<tir::CommReducerNode>(lhs, rhs, combined, identity);
  Array<PrimExpr> out;
  for (size_t i = 0; i < values.size(); ++i)
    out.push_back(make<tir::Reduce>(reducer, values, Array<PrimExpr>(), axis, condition, int64_t(i)));
  return out;
}

PrimExpr sum(PrimExpr e, Array<tir::IterVar> axis, PrimExpr condition) {
  return reduce_with([](const PrimExpr& x, const PrimExpr& y) { return x + y; }, e,
                     tir::const_of(e.dtype(), 0), std::move(axis), std::move(condition));
}
PrimExpr prod(PrimExpr e, Array<tir::IterVar> axis, PrimExpr condition) {
  return reduce_with([](const PrimExpr& x, const PrimExpr& y) { return x * y; }, e,
                     tir::const_of(e.dtype(), 1), std::move(axis), std::move(condition));
}
PrimExpr max(PrimExpr e, Array<tir::IterVar> axis, PrimExpr condition) {
  return reduce_with([](const PrimExpr& x, const PrimExpr& y) { return tir::max(x, y); }, e,
                     lowest(e.dtype()), std::move(axis), std::move(condition));
}
PrimExpr min(PrimExpr e, Array<tir::IterVar> axis, PrimExpr condition) {
  return reduce_with([](const PrimExpr& x, const PrimExpr& y) { return tir::min(x, y); }, e,
                     highest(e.dtype()), std::move(axis), std::move(condition));
}
Array<PrimExpr> argmax(PrimExpr index, PrimExpr value, Array<tir::IterVar> axis) {
  return arg_extreme(true, std::move(index), std::move(value), std::move(axis));
}
Array<PrimExpr> argmin(PrimExpr index, PrimExpr value, Array<tir::IterVar> axis) {
  return arg_extreme(false, std::move(index), std::move(value), std::move(axis));
}

}  // namespace tenon::te

template struct tenon::DefineTypes<tenon::te::TensorNode>;
