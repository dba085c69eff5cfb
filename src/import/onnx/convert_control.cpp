// SPDX-License-Identifier: Apache-2.0
// Converters: branches and loops. A loop becomes a While whose state is the iteration's number, the condition
// where it changes, the carried values, and a list for each output that is collected.
#include "import/onnx/loop.h"
#include "ir/structural.h"

namespace tenon::onnx {
namespace {

using namespace op;
using N = NodeContext;
using R = RegisterConverter;
using graph::Type;

Values poisoned(size_t count) {
  Value none;
  none.poisoned = true;
  return Values(count, none);
}

/// A condition as one truth value.
Expr truth(N& n, const Expr& e, const char* what) {
  const auto* t = graph::as_tensor(e);
  const auto shape = t ? graph::known_shape(e) : std::nullopt;
  bool one = t && t->dtype.is_bool();
  for (size_t i = 0; one && shape && i < shape->size(); ++i) one = tir::as_int((*shape)[i]).value_or(1) == 1;
  if (!one) n.malformed(fmt::format("{} must be a truth value", what));
  return t->ndim == 0 ? e : n.reshape(e, {});
}

// ---------------------------------------------------------------- branches
Values if_(N& n) {
  proto::GraphProto &yes = *n.attr_graph("then_branch"), &no = *n.attr_graph("else_branch");
  if (yes.output_size() != no.output_size() || yes.output_size() < n.node.output_size())
    n.malformed(fmt::format("the branches of If have {} and {} outputs, the node {}", yes.output_size(),
                            no.output_size(), n.node.output_size()));
  if (SmallRef c = n.small(0); c && c->items.size() == 1 && c->all_const()) {
    Scope inner;
    inner.parent = &n.scope;
    return n.importer.convert_graph(*number_of(c->items[0]) != 0 ? yes : no, inner, n.env,
                                    n.importer.depth + 1);
  }
  const Expr condition = truth(n, n.in(0), "the condition of If");
  auto side = [&](proto::GraphProto& g, const char* what) {
    return n.importer.convert_body(what, [&] {
      Scope inner;
      inner.parent = &n.scope;
      return n.importer.convert_graph(g, inner, n.env, n.importer.depth + 1);
    });
  };
  Importer::Body t = side(yes, "then branch"), f = side(no, "else branch");
  const int64_t outputs = yes.output_size();
  if (!t.poisoned && !f.poisoned) {
    // Values of another rank mean other operators behind the If: each branch goes on by itself.
    auto rank = [&](const Importer::Body& b, int64_t i) -> int64_t {
      Type type = graph::result_of(b.expr)->type;
      if (outputs > 1) type = type.as<graph::TupleType>()->items[size_t(i)];
      const auto* tensor = type.as<graph::TensorType>();
      return tensor ? tensor->ndim : -1;
    };
    for (int64_t i = 0; i < outputs; ++i)
      if (rank(t, i) != rank(f, i)) {
        n.importer.fork({{condition},
                         [&importer = n.importer, &node = n.node, &env = n.env, level = n.importer.depth,
                          &yes, &no](size_t variant, Scope& rest) {
                           Scope inner;
                           inner.parent = rest.parent;
                           const Values made =
                               importer.convert_graph(variant == 0 ? yes : no, inner, env, level + 1);
                           for (int k = 0; k < node.output_size() && size_t(k) < made.size(); ++k)
                             if (!node.output(k).empty()) rest.values[node.output(k)] = made[size_t(k)];
                         },
                         n.opset,
                         n.since});
        return poisoned(size_t(outputs));
      }
  }
  const std::vector<FormRef> forms = n.importer.joined(t, f, n.where());
  const std::vector<Array<PrimExpr>> sizes = n.importer.agreed_sizes(t, f);
  const Expr branch = n.importer.branches(condition, std::move(t), std::move(f), n.origin, n.where());
  if (!branch) return poisoned(size_t(outputs));
  Expr result = n.emit(branch);
  Values out;
  for (int64_t i = 0; i < outputs; ++i)
    out.push_back(
        {n.with_sizes(outputs == 1 ? result : n.item(result, i), sizes[size_t(i)]), forms[size_t(i)]});
  return out;
}
const R i1("If", {1, 11, 13, 16, 19, 21, 23, 24, 25}, if_,
           "a branch that the given shapes forbid is refused when it is taken", Forms::any);

// ---------------------------------------------------------------- loops
Expr packed(const char* name, Array<Expr> args, const Type& type) {
  Array<Expr> all{Expr(make<graph::ExternFunc>(name))};
  for (const Expr& a : args) all.push_back(a);
  return graph::call(graph::get_op("call_pure_packed"), all, {}, {type});
}

/// What a carried value is before the loop and after an iteration; T2020 where they do not agree.
FormRef carried_form(N& n, size_t i, const FormRef& was, const FormRef& is) {
  if (!was && !is) return nullptr;
  if (was && was->kind == Form::sequence && !was->item && is) return is;
  const FormRef f = join(was, is);
  if (!f)
    n.malformed(fmt::format("the carried value {} of {} is a {} before and a {} after an iteration", i,
                            n.op_type(), to_string(was), to_string(is)));
  return f;
}

/// Sizes that are other ones after an iteration become null; whether one did.
bool drop_changed(Array<PrimExpr>& kept, const Array<PrimExpr>& next) {
  bool changed = false;
  for (size_t d = 0; d < kept.size(); ++d) {
    if (!kept[d] || (d < next.size() && next[d] && op::same_dim(kept[d], next[d]))) continue;
    kept.set(d, {});
    changed = true;
  }
  return changed;
}

}  // namespace

LoopResult convert_loop(N& n, const LoopPlan& plan) {
  LoopResult out;
  const size_t carried = plan.init.size();
  std::vector<Type> types;
  std::vector<FormRef> forms;
  std::vector<Array<PrimExpr>> kept;  // the sizes of each carried value that no iteration changes
  for (const Value& v : plan.init) {
    types.push_back(v.expr->type), forms.push_back(v.form);
    kept.push_back(n.importer.visible_sizes(v.expr->type));
  }
  Array<graph::VarRef> vars;
  Importer::Body body;
  std::vector<Array<PrimExpr>> made(plan.collected);  // the sizes of what is collected, null where unknown
  std::vector<DataType> kinds(plan.collected);
  std::vector<FormRef> collected_forms(plan.collected);
  // Types that an iteration does not keep become less exact until it does.
  for (int round = 0;; ++round) {
    auto var = [&](const char* name, const Type& type) {
      graph::VarRef v = graph::var(n.importer.builder.fresh_name(name), type);
      vars.push_back(v);
      return v;
    };
    vars = {};
    const graph::VarRef index = var("step", graph::tensor_type({}, i64));
    const graph::VarRef more = plan.may_stop ? var("more", graph::tensor_type({}, boolean)) : graph::VarRef();
    std::vector<graph::VarRef> state, lists;
    for (const Type& t : types) state.push_back(var("carried", t));
    for (size_t i = 0; i < plan.collected; ++i) lists.push_back(var("collected", graph::object_type()));
    std::vector<Type> next;
    std::vector<Array<PrimExpr>> next_sizes;
    std::vector<FormRef> next_forms;
    body = n.importer.convert_body("loop body", [&]() -> Values {
      Values given;
      for (size_t i = 0; i < carried; ++i) given.push_back({n.with_sizes(state[i], kept[i]), forms[i]});
      Values made_now = plan.body(index, more ? Value(more) : Value(), given);
      for (const Value& v : made_now)
        if (v.poisoned || !v.present()) return poisoned(1);
      const size_t first = plan.may_stop ? 1 : 0;
      CHECK(made_now.size() == first + carried + plan.collected, "a loop body of another size");
      Values all{n.op("add", {index, n.scalar(1, i64)})};
      if (plan.may_stop) all.push_back(truth(n, made_now[0].expr, "the condition of a loop"));
      next.clear(), next_sizes.clear(), next_forms.clear();
      for (size_t i = 0; i < carried; ++i) {
        const Expr e = made_now[first + i].expr;
        all.push_back(e);
        next.push_back(n.importer.visible(e->type));
        next_sizes.push_back(n.importer.visible_sizes(e->type));
        next_forms.push_back(made_now[first + i].form);
      }
      for (size_t i = 0; i < plan.collected; ++i) {
        const Expr e = made_now[first + carried + i].expr;
        const auto* t = graph::as_tensor(e);
        if (!t || t->ndim < 0) n.not_known("a loop that collects values of unknown rank is not supported");
        made[i] = n.importer.visible_sizes(e->type);
        while (int64_t(made[i].size()) < t->ndim) made[i].push_back({});
        kinds[i] = t->dtype;
        collected_forms[i] = made_now[first + carried + i].form;
        all.push_back(n.emit(packed("tenon.sequence.append", {Expr(lists[i]), e}, graph::object_type())));
      }
      return all;
    });
    if (body.poisoned) {
      out.poisoned = true;
      return out;
    }
    bool fits = true;
    for (size_t i = 0; i < carried; ++i) {
      const FormRef form = carried_form(n, i, forms[i], next_forms[i]);
      fits = fits && same(form, forms[i]);
      forms[i] = form;
      if (form && !form->is_tensor()) continue;
      const auto *was = types[i].as<graph::TensorType>(), *is = next[i].as<graph::TensorType>();
      if (!was || !is || was->dtype != is->dtype)
        n.malformed(fmt::format("the carried value {} of {} changes its data type", i, n.op_type()));
      fits = !drop_changed(kept[i], next_sizes[i]) && fits;
      const Type both = op::join(types[i], next[i]);
      if (structural_equal(both, types[i])) continue;
      fits = false;
      types[i] = both;
      if (both.as<graph::TensorType>()->ndim < 0)
        n.unsupported(fmt::format("the carried value {} of {} changes its rank", i, n.op_type()));
    }
    if (fits) break;
    if (round > int(8 + 4 * carried))
      n.unsupported(fmt::format("the types of {} do not settle", n.op_type()));
  }
  const Importer::Body condition = n.importer.convert_body("loop condition", [&]() -> Values {
    Expr c;
    if (plan.limit) c = n.op("less", {vars[0], plan.limit});
    if (plan.may_stop) c = c ? n.op("logical_and", {c, vars[1]}) : Expr(vars[1]);
    return {c ? c : n.scalar(1, boolean)};
  });
  Array<Expr> init{n.scalar(0, i64)};
  if (plan.may_stop) init.push_back(plan.condition ? plan.condition : n.scalar(1, boolean));
  for (const Value& v : plan.init) init.push_back(v.expr);
  for (size_t i = 0; i < plan.collected; ++i)
    init.push_back(n.emit(packed("tenon.sequence.empty", {}, graph::object_type())));
  auto w = with_origin(make<graph::While>(vars, init, condition.expr, body.expr), n.origin);
  const Expr result = n.emit(w);
  const int64_t first = plan.may_stop ? 2 : 1;
  for (size_t i = 0; i < carried; ++i)
    out.carried.push_back({n.with_sizes(n.item(result, first + int64_t(i)), kept[i]), forms[i]});
  for (size_t i = 0; i < plan.collected; ++i) {
    const Expr list = n.item(result, first + int64_t(carried + i));
    Array<Expr> args{list, n.scalar(0, kinds[i])};
    Array<PrimExpr> shape{plan.trips ? plan.trips : PrimExpr(tir::var("trips", i64))};
    for (const PrimExpr& d : made[i]) {
      args.push_back(make<graph::PrimValue>(d ? d : PrimExpr(0)));
      shape.push_back(d);
    }
    const Expr all = n.emit(
        packed("tenon.sequence.stack", args, graph::tensor_type_unknown(int64_t(shape.size()), kinds[i])));
    out.collected.push_back({n.with_sizes(all, shape), collected_forms[i]});
  }
  return out;
}

namespace {

Values loop_(N& n) {
  proto::GraphProto& g = *n.attr_graph("body");
  const size_t carried = n.inputs() > 2 ? n.inputs() - 2 : 0;
  if (size_t(g.input_size()) != carried + 2 || size_t(g.output_size()) < carried + 1)
    n.malformed(fmt::format("the body of Loop has {} inputs and {} outputs for {} carried values",
                            g.input_size(), g.output_size(), carried));
  LoopPlan plan;
  plan.collected = size_t(g.output_size()) - 1 - carried;
  for (size_t i = 0; i < carried; ++i) {
    const Expr e = n.in(i + 2);
    plan.init.push_back({e, n.form(i + 2)});
  }
  if (n.has(0)) {
    n.expect_integers(0, "the number of iterations");
    plan.limit = n.cast(n.type(0).ndim == 0 ? n.in(0) : n.reshape(n.in(0), {}), i64);
    if (SmallRef s = n.small(0); s && s->items.size() == 1 && s->items[0].dtype() == i64)
      plan.trips = s->items[0];
  }
  bool certain = true;  // the first iteration runs
  if (n.has(1)) {
    SmallRef s = n.small(1);
    certain = s && s->all_const() && s->items.size() == 1 && *number_of(s->items[0]) != 0;
    plan.condition = truth(n, n.in(1), "the condition of Loop");
  }
  auto body = [&](const Expr& index, const Value& condition, const Values& values) {
    Scope inner;
    inner.parent = &n.scope;
    inner.define(g.input(0).name(), index, n.where());
    inner.define(g.input(1).name(), condition, n.where());
    for (size_t i = 0; i < values.size(); ++i) inner.define(g.input(int(i) + 2).name(), values[i], n.where());
    return n.importer.convert_graph(g, inner, n.env, n.importer.depth + 1);
  };
  const SmallRef yes = small_of(boolean, {}, {PrimExpr::int_imm(1, boolean)});
  // Loops whose condition is always true need not carry it.
  plan.may_stop = false;
  bool stops = !certain;
  plan.body = [&](const Expr& index, const Value& condition, const Values& values) {
    Values v = body(index, plan.may_stop ? condition : Value(yes), values);
    if (plan.may_stop || v.empty()) return v;
    SmallRef s = v[0].small;
    if (!s && v[0].expr)
      if (const auto* c = v[0].expr.as<graph::Constant>()) s = small_of(c->data);
    stops |= !v[0].poisoned && !(s && s->all_const() && *number_of(s->items[0]) != 0);
    v.erase(v.begin());
    return v;
  };
  if (certain) {
    // A trial: what it emits goes away with its builder.
    n.importer.convert_body("loop body", [&] {
      Values given;
      for (const Value& v : plan.init) given.push_back({Expr(graph::var("trial", v.expr->type)), v.form});
      Values v = plan.body(graph::var("trial", graph::tensor_type({}, i64)), {}, given);
      return v.empty() ? Values{Value(yes)} : v;
    });
  }
  plan.may_stop = stops;
  if (stops) plan.trips = {};
  const LoopResult r = convert_loop(n, plan);
  if (r.poisoned) return poisoned(size_t(n.node.output_size()));
  Values out = r.carried;
  out.insert(out.end(), r.collected.begin(), r.collected.end());
  return out;
}
const R l1("Loop", {1, 11, 13, 16, 19, 21, 23, 24, 25}, loop_, "carried values keep their rank", Forms::any);

/// The state and the collected outputs of a scan along one axis of each input.
LoopResult scan_along(N& n, proto::GraphProto& g, const Values& states, const Values& inputs,
                      const std::vector<int64_t>& axes, const std::vector<int64_t>& backward) {
  LoopPlan plan;
  plan.init = states;
  plan.collected = size_t(g.output_size()) - states.size();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto shape = graph::known_shape(inputs[i].expr);
    if (!shape) n.not_known("Scan over a tensor whose shape is not known at import is not supported");
    const PrimExpr length = (*shape)[size_t(axes[i])];
    if (!plan.trips) plan.trips = length;
    if (tir::as_int(simplify(length - plan.trips)).value_or(0) != 0)
      n.malformed(fmt::format("input {} of Scan has another length than the first", states.size() + i));
    n.require_equal(length, plan.trips);
  }
  Value trips(small_of(i64, {}, {plan.trips}));
  plan.limit = n.importer.expr_of(trips, n.origin);
  plan.body = [&](const Expr& index, const Value&, const Values& values) {
    Scope inner;
    inner.parent = &n.scope;
    for (size_t i = 0; i < states.size(); ++i) inner.define(g.input(int(i)).name(), values[i], n.where());
    for (size_t i = 0; i < inputs.size(); ++i) {
      Expr at = index;
      if (backward[i]) at = n.op("subtract", {n.op("subtract", {plan.limit, n.scalar(1, i64)}), index});
      const Expr row = n.op("take", {inputs[i].expr, at}, make_attrs<AxisAttrs>(axes[i]));
      inner.define(g.input(int(states.size() + i)).name(), {row, inputs[i].form}, n.where());
    }
    return n.importer.convert_graph(g, inner, n.env, n.importer.depth + 1);
  };
  return convert_loop(n, plan);
}
std::vector<int64_t> list_of(N& n, const char* name, size_t count) {
  std::vector<int64_t> v = n.attr_ints(name);
  if (v.empty()) v.assign(count, 0);
  if (v.size() != count)
    n.malformed(fmt::format("'{}' of Scan has {} entries, not {}", name, v.size(), count));
  return v;
}
/// 1 for each that is scanned backward.
std::vector<int64_t> directions_of(N& n, const char* name, size_t count) {
  std::vector<int64_t> v = list_of(n, name, count);
  for (const int64_t d : v)
    if (d != 0 && d != 1) n.malformed(fmt::format("'{}' of Scan is {}", name, d));
  return v;
}
/// The body's inputs and outputs fit `given` values, of which `scans` are scanned.
void check_scan(N& n, const proto::GraphProto& g, int64_t scans, int64_t given) {
  if (scans < 1 || scans > given || g.input_size() != given || g.output_size() < given - scans)
    n.malformed(fmt::format("Scan of {} inputs, {} of them scanned, has a body of {} inputs and {} outputs",
                            given, scans, g.input_size(), g.output_size()));
}

Values scan(N& n) {
  proto::GraphProto& g = *n.attr_graph("body");
  const int64_t scans = n.need_int("num_scan_inputs"), all = int64_t(n.inputs());
  check_scan(n, g, scans, all);
  const size_t states = size_t(all - scans), outputs = size_t(g.output_size()) - states;
  const auto in_axes = list_of(n, "scan_input_axes", size_t(scans)),
             in_back = directions_of(n, "scan_input_directions", size_t(scans));
  const auto out_axes = list_of(n, "scan_output_axes", outputs),
             out_back = directions_of(n, "scan_output_directions", outputs);
  Values init, inputs;
  std::vector<int64_t> axes;
  for (size_t i = 0; i < states; ++i) init.push_back({n.in(i), n.form(i)});
  for (size_t i = 0; i < size_t(scans); ++i) {
    inputs.push_back({n.in(states + i), n.form(states + i)});
    axes.push_back(n.axis(in_axes[i], n.rank(states + i)));
  }
  const LoopResult r = scan_along(n, g, init, inputs, axes, in_back);
  if (r.poisoned) return poisoned(size_t(n.node.output_size()));
  Values out = r.carried;
  for (size_t i = 0; i < outputs; ++i) {
    Expr e = r.collected[i].expr;
    const int64_t rank = graph::as_tensor(e)->ndim, axis = n.axis(out_axes[i], rank);
    if (out_back[i]) e = n.op("flip", {e}, make_attrs<AxesAttrs>(Array<int64_t>{0}));
    if (axis != 0) {
      std::vector<int64_t> order;
      for (int64_t d = 1; d < rank; ++d) order.push_back(d);
      order.insert(order.begin() + axis, 0);
      e = n.transpose(e, order);
    }
    out.push_back({e, r.collected[i].form});
  }
  return out;
}

/// Version 8: a scan along axis 1 for each entry of axis 0; what each gives is collected.
Values scan_of_batches(N& n) {
  proto::GraphProto& g = *n.attr_graph("body");
  const int64_t scans = n.need_int("num_scan_inputs"), all = int64_t(n.inputs()) - 1;
  check_scan(n, g, scans, all);
  if (n.has(0)) n.unsupported("Scan over sequences of their own lengths is not supported");
  const size_t states = size_t(all - scans);
  const auto backward = directions_of(n, "directions", size_t(scans));
  for (size_t i = 1; i < n.inputs(); ++i)
    if (n.rank(i) < (i <= states ? 1 : 2)) n.malformed(fmt::format("input {} of Scan has no batches", i));
  LoopPlan plan;
  plan.collected = size_t(g.output_size());
  plan.trips = n.known_shape(states + 1)[0];
  Value trips(small_of(i64, {}, {plan.trips}));
  plan.limit = n.importer.expr_of(trips, n.origin);
  plan.body = [&](const Expr& batch, const Value&, const Values&) -> Values {
    Values init, inputs;
    for (size_t i = 1; i < n.inputs(); ++i)
      (i <= states ? init : inputs)
          .push_back({n.op("take", {n.in(i), batch}, make_attrs<AxisAttrs>(int64_t(0))), n.form(i)});
    const LoopResult r = scan_along(n, g, init, inputs, std::vector<int64_t>(size_t(scans), 0), backward);
    if (r.poisoned) return poisoned(1);
    Values made = r.carried;
    made.insert(made.end(), r.collected.begin(), r.collected.end());
    return made;
  };
  const LoopResult r = convert_loop(n, plan);
  return r.poisoned ? poisoned(size_t(n.node.output_size())) : r.collected;
}
Values any_scan(N& n) { return n.since < 9 ? scan_of_batches(n) : scan(n); }
const R l2("Scan", {8, 9, 11, 16, 19, 21, 23, 24, 25}, any_scan,
           "states keep their rank; version 8 without lengths of sequences", Forms::any);

}  // namespace
}  // namespace tenon::onnx
