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
  if (!t || !t->dtype.is_bool()) n.malformed(fmt::format("{} must be a truth value", what));
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
                         }});
        return poisoned(size_t(outputs));
      }
  }
  const Expr branch = n.importer.branches(condition, std::move(t), std::move(f), n.origin, n.where());
  if (!branch) return poisoned(size_t(outputs));
  Expr result = n.emit(branch);
  if (outputs == 1) return {result};
  Values out;
  for (int64_t i = 0; i < outputs; ++i) out.push_back(n.item(result, i));
  return out;
}
const R i1("If", {1, 11, 13, 16, 19, 21, 23, 24, 25}, if_,
           "a branch that the given shapes forbid is refused when it is taken");

// ---------------------------------------------------------------- loops
Expr packed(const char* name, Array<Expr> args, const Type& type) {
  Array<Expr> all{Expr(make<graph::ExternFunc>(name))};
  for (const Expr& a : args) all.push_back(a);
  return graph::call(graph::get_op("call_pure_packed"), all, {}, {type});
}

}  // namespace

LoopResult convert_loop(N& n, const LoopPlan& plan) {
  LoopResult out;
  const size_t carried = plan.init.size();
  std::vector<Type> types;
  for (const Expr& e : plan.init) types.push_back(e->type);
  Array<graph::VarRef> vars;
  Importer::Body body;
  std::vector<Type> made(plan.collected);
  std::vector<DataType> kinds(plan.collected);
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
    body = n.importer.convert_body("loop body", [&]() -> Values {
      Array<Expr> given;
      for (const graph::VarRef& v : state) given.push_back(n.with_sizes(v));
      Values made_now = plan.body(index, more, given);
      for (const Value& v : made_now)
        if (v.poisoned || !v.present()) return poisoned(1);
      const size_t first = plan.may_stop ? 1 : 0;
      CHECK(made_now.size() == first + carried + plan.collected, "a loop body of another size");
      Values all{n.op("add", {index, n.scalar(1, i64)})};
      if (plan.may_stop) all.push_back(truth(n, made_now[0].expr, "the condition of a loop"));
      next.clear();
      for (size_t i = 0; i < carried; ++i) {
        const Expr e = made_now[first + i].expr;
        all.push_back(e);
        next.push_back(n.importer.visible(e->type));
      }
      for (size_t i = 0; i < plan.collected; ++i) {
        const Expr e = made_now[first + carried + i].expr;
        const auto* t = graph::as_tensor(e);
        if (!t || t->ndim < 0) n.unsupported("a loop that collects values of unknown rank is not supported");
        made[i] = n.importer.visible(e->type);
        kinds[i] = t->dtype;
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
      const auto *was = types[i].as<graph::TensorType>(), *is = next[i].as<graph::TensorType>();
      if (!was || !is || was->dtype != is->dtype)
        n.malformed(fmt::format("the carried value {} of {} changes its data type", i, n.op_type()));
      const Type both = op::join(types[i], next[i]);
      if (structural_equal(both, types[i])) continue;
      fits = false;
      types[i] = both;
      if (both.as<graph::TensorType>()->ndim < 0)
        n.unsupported(fmt::format("the carried value {} of {} changes its rank", i, n.op_type()));
    }
    if (fits) break;
    CHECK(round < 8, "the types of a loop do not settle");
  }
  const Importer::Body condition = n.importer.convert_body("loop condition", [&]() -> Values {
    Expr c;
    if (plan.limit) c = n.op("less", {vars[0], plan.limit});
    if (plan.may_stop) c = c ? n.op("logical_and", {c, vars[1]}) : Expr(vars[1]);
    return {c ? c : n.scalar(1, boolean)};
  });
  Array<Expr> init{n.scalar(0, i64)};
  if (plan.may_stop) init.push_back(plan.condition ? plan.condition : n.scalar(1, boolean));
  for (const Expr& e : plan.init) init.push_back(e);
  for (size_t i = 0; i < plan.collected; ++i)
    init.push_back(n.emit(packed("tenon.sequence.empty", {}, graph::object_type())));
  auto w = with_origin(make<graph::While>(vars, init, condition.expr, body.expr), n.origin);
  const Expr result = n.emit(w);
  const int64_t first = plan.may_stop ? 2 : 1;
  for (size_t i = 0; i < carried; ++i)
    out.carried.push_back(n.with_sizes(n.item(result, first + int64_t(i))));
  for (size_t i = 0; i < plan.collected; ++i) {
    const Expr list = n.item(result, first + int64_t(carried + i));
    Array<Expr> args{list, n.scalar(0, kinds[i])};
    const auto each = graph::known_shape(made[i]);
    const int64_t rank = made[i].as<graph::TensorType>()->ndim;
    for (int64_t d = 0; d < rank; ++d)
      args.push_back(make<graph::PrimValue>(each ? (*each)[size_t(d)] : PrimExpr(0)));
    Expr all = n.emit(packed("tenon.sequence.stack", args, graph::tensor_type_unknown(rank + 1, kinds[i])));
    if (each) {
      Array<PrimExpr> shape{plan.trips ? plan.trips : PrimExpr(tir::var("trips", i64))};
      for (const PrimExpr& d : *each) shape.push_back(d);
      all = n.importer.builder.emit_match_cast(all, graph::tensor_type(shape, kinds[i]), "stacked");
    } else {
      all = n.with_sizes(all, plan.trips);
    }
    out.collected.push_back(all);
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
    if (!graph::as_tensor(e)) n.unsupported("a Loop that carries a sequence is not supported");
    plan.init.push_back(e);
  }
  if (n.has(0)) {
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
  auto body = [&](const Expr& index, const Value& condition, const Array<Expr>& values) {
    Scope inner;
    inner.parent = &n.scope;
    inner.values[g.input(0).name()] = index;
    inner.values[g.input(1).name()] = condition;
    for (size_t i = 0; i < values.size(); ++i) inner.values[g.input(int(i) + 2).name()] = values[i];
    return n.importer.convert_graph(g, inner, n.env, n.importer.depth + 1);
  };
  const SmallRef yes = small_of(boolean, {}, {PrimExpr::int_imm(1, boolean)});
  // Loops whose condition is always true need not carry it.
  plan.may_stop = false;
  bool stops = !certain;
  plan.body = [&](const Expr& index, const Expr& condition, const Array<Expr>& values) {
    Values v = body(index, plan.may_stop ? Value(condition) : Value(yes), values);
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
      Array<Expr> given;
      for (const Expr& e : plan.init) given.push_back(graph::var("trial", e->type));
      Values v = plan.body(graph::var("trial", graph::tensor_type({}, i64)), {}, given);
      return v.empty() ? Values{Value(yes)} : v;
    });
  }
  plan.may_stop = stops;
  if (stops) plan.trips = {};
  const LoopResult r = convert_loop(n, plan);
  if (r.poisoned) return poisoned(size_t(n.node.output_size()));
  Values out;
  for (const Expr& e : r.carried) out.push_back(e);
  for (const Expr& e : r.collected) out.push_back(e);
  return out;
}
const R l1("Loop", {1, 11, 13, 16, 19, 21, 23, 24, 25}, loop_,
           "carried values keep their rank; no sequences");

Values scan(N& n) {
  if (n.since < 9) n.unsupported("Scan over batches (operator set 8) is not supported");
  proto::GraphProto& g = *n.attr_graph("body");
  const int64_t scans = n.need_int("num_scan_inputs"), all = int64_t(n.inputs());
  if (scans < 1 || scans > all || g.input_size() != all || g.output_size() < all - scans)
    n.malformed(fmt::format("Scan of {} inputs, {} of them scanned, has a body of {} inputs and {} outputs",
                            all, scans, g.input_size(), g.output_size()));
  const size_t states = size_t(all - scans), outputs = size_t(g.output_size()) - states;
  auto list = [&](const char* name, size_t count) {
    std::vector<int64_t> v = n.attr_ints(name);
    if (v.empty()) v.assign(count, 0);
    if (v.size() != count)
      n.malformed(fmt::format("'{}' of Scan has {} entries, not {}", name, v.size(), count));
    return v;
  };
  const auto in_axes = list("scan_input_axes", size_t(scans)),
             in_back = list("scan_input_directions", size_t(scans));
  const auto out_axes = list("scan_output_axes", outputs), out_back = list("scan_output_directions", outputs);
  LoopPlan plan;
  plan.collected = outputs;
  for (size_t i = 0; i < states; ++i) plan.init.push_back(n.in(i));
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < scans; ++i) {
    const Array<PrimExpr> shape = n.known_shape(states + size_t(i));
    axes.push_back(n.axis(in_axes[size_t(i)], int64_t(shape.size())));
    const PrimExpr& extent = shape[size_t(axes.back())];
    if (!plan.trips) plan.trips = extent;
  }
  Value trips(small_of(i64, {}, {plan.trips}));
  plan.limit = n.importer.expr_of(trips, n.origin);
  plan.body = [&](const Expr& index, const Expr&, const Array<Expr>& values) {
    Scope inner;
    inner.parent = &n.scope;
    for (size_t i = 0; i < states; ++i) inner.values[g.input(int(i)).name()] = values[i];
    for (size_t i = 0; i < size_t(scans); ++i) {
      Expr at = index;
      if (in_back[i]) at = n.op("subtract", {n.op("subtract", {plan.limit, n.scalar(1, i64)}), index});
      inner.values[g.input(int(states + i)).name()] =
          n.op("take", {n.in(states + i), at}, make_attrs<AxisAttrs>(axes[i]));
    }
    return n.importer.convert_graph(g, inner, n.env, n.importer.depth + 1);
  };
  const LoopResult r = convert_loop(n, plan);
  if (r.poisoned) return poisoned(size_t(n.node.output_size()));
  Values out;
  for (const Expr& e : r.carried) out.push_back(e);
  for (size_t i = 0; i < outputs; ++i) {
    Expr e = r.collected[i];
    const int64_t rank = graph::as_tensor(e)->ndim, axis = n.axis(out_axes[i], rank);
    if (out_back[i]) e = n.op("flip", {e}, make_attrs<AxesAttrs>(Array<int64_t>{0}));
    if (axis != 0) {
      std::vector<int64_t> order;
      for (int64_t d = 1; d < rank; ++d) order.push_back(d);
      order.insert(order.begin() + axis, 0);
      e = n.transpose(e, order);
    }
    out.push_back(e);
  }
  return out;
}
const R l2("Scan", {8, 9, 11, 16, 19, 21, 23, 24, 25}, scan, "from version 9 on; states keep their rank");

}  // namespace
}  // namespace tenon::onnx
