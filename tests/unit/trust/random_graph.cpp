// SPDX-License-Identifier: Apache-2.0
#include "random_graph.h"

#include <cmath>
#include <set>

#include "base/reflect.h"
#include "draw.h"
#include "ir/op.h"
#include "ir/text.h"
#include "ir/walk.h"
#include "op/build.h"
#include "op/unify.h"
#include "random_patterns.h"

namespace tenon::testing_trust {
namespace {

using namespace graph;

constexpr int64_t kMostElements = 320;

/// A value of the graph. `exact`: no pass may change a bit of it, so operators that jump may read it.
struct Item {
  Expr expr;
  bool exact = true;
};

class Generator : Draw {
 public:
  Generator(uint64_t seed, const RandomGraphOptions& options, std::map<std::string, int64_t>* uses)
      : Draw(seed * 0x9E3779B97F4A7C15ull + 1), options_(options), uses_(uses) {}

  IRModule run() {
    BlockBuilder builder = op::make_builder();
    builder_ = &builder;
    const int inputs = 1 + int(below(3));
    for (int i = 0; i < inputs; ++i) parameter(i);
    const int operators =
        options_.min_operators + int(below(uint64_t(options_.max_operators - options_.min_operators + 1)));
    for (int i = 0; i < operators; ++i) step();
    // Results: the last value and sometimes others.
    Array<Expr> results;
    for (size_t i = pool_.size(); i-- > 0 && results.size() < 3;)
      if (pool_[i].expr.is<Var>() && (results.empty() || chance(0.2))) results.push_back(pool_[i].expr);
    Expr result = results.size() == 1 ? results[0] : op::tuple(results);
    if (!result->type) result.edit()->type = op::infer_type(result);
    Expr body = options_.patterns && chance(0.08) ? nested_expressions(builder.bindings(), result)
                                                  : builder.finish(result);
    AttrMap attrs;
    attrs.set("global_symbol", Any("main"));
    if (chance(0.3)) attrs.set("num_inputs", Any(int64_t(below(params_.size() + 1))));
    IRModule m = types_;
    m.set("main", make<Function>(Array<VarRef>(params_), body, result->type, attrs));
    for (const auto& [name, f] : functions_) m.set(name, f);
    return m;
  }

 private:
  // ---------------------------------------------------------------- values
  int64_t size() { return one_of(std::vector<int64_t>{1, 2, 3, 4, 4, 5, 8, 16}); }

  void parameter(int i) {
    static const std::vector<size_t> ranks{1, 2, 2, 3, 4, 4};
    std::vector<int64_t> dims(one_of(ranks));
    for (int64_t& d : dims) d = size();
    while (product(dims) > kMostElements) dims[below(dims.size())] = 2;
    if (chance(0.03)) dims[below(dims.size())] = 0;
    Array<PrimExpr> shape;
    for (int64_t d : dims) shape.push_back(PrimExpr(d));
    if (options_.symbolic_sizes && chance(0.15)) shape.set(0, PrimExpr(symbol()));
    const DataType t = i > 0 && chance(0.2) ? (chance(0.5) ? i64 : boolean) : f32;
    VarRef v = var("x" + std::to_string(i), tensor_type(shape, t));
    params_.push_back(v);
    pool_.push_back({v, true});
  }
  tir::VarRef symbol() {
    if (!symbol_) symbol_ = tir::var("n");
    return symbol_;
  }
  static int64_t product(const std::vector<int64_t>& dims) {
    int64_t n = 1;
    for (int64_t d : dims) n *= d;
    return n;
  }
  Expr constant_of(const std::vector<int64_t>& dims, DataType t, int64_t most = 4) {
    NDArray a = NDArray::empty(dims, t);
    for (int64_t i = 0; i < a.size(); ++i) {
      if (t.is_float())
        a.set_element(i, double(int64_t(below(33)) - 16) / 16);
      else
        a.set_element_int(i, int64_t(below(uint64_t(t.is_bool() ? 2 : std::max<int64_t>(1, most)))));
    }
    return constant(a);
  }
  const Item& any_item() {
    // Late values more often than early ones.
    const size_t back = size_t(std::min(below(pool_.size()), below(pool_.size())));
    return pool_[pool_.size() - 1 - back];
  }
  static std::vector<int64_t> dims_of(const Expr& e) {
    std::vector<int64_t> out;
    if (auto shape = known_shape(e))
      for (const PrimExpr& d : *shape) out.push_back(tir::as_int(d).value_or(3));
    return out;
  }

  // ---------------------------------------------------------------- operators
  void step() {
    if (options_.control_flow && chance(0.06)) return branch();
    if (options_.control_flow && chance(0.05)) return loop();
    if (options_.functions && chance(0.05)) return function();
    if (options_.patterns && chance(0.3)) return pattern();
    if (options_.recorded && chance(0.2)) return recorded();
    for (int i = 0; i < 60; ++i)
      if (auto item = draw()) return add(*item);
  }
  void add(Item item) {
    if (const auto* t = item.expr->type.as<TupleType>()) {
      for (size_t i = 0; i < t->items.size(); ++i)
        if (as_tensor(t->items[i]))
          pool_.push_back({builder_->emit(op::get_item(item.expr, int64_t(i))), item.exact});
      return;
    }
    pool_.push_back(item);
  }
  /// One operator on random operands; nothing when they do not fit.
  std::optional<Item> draw() {
    static const std::vector<Ref<Op>> ops = [] {
      std::vector<Ref<Op>> out;
      for (const Ref<Op>& o : all_ops())
        if (o->pure && op::definition(*o).infer && !left_out().count(o->name) && !of_another_kind(*o) &&
            !o->name.starts_with("vm."))
          out.push_back(o);
      return out;
    }();
    const Ref<Op>& op = one_of(ops);
    Array<Expr> args;
    bool exact = true;
    const Item first = any_item();
    const std::vector<int64_t> dims = dims_of(first.expr);
    for (size_t i = 0; i < op->arguments.size(); ++i) {
      const OpArgument& a = op->arguments[i];
      if (a.optional && chance(0.5)) break;
      Expr e = operand(*op, a, i, first, dims, exact);
      if (!e) return {};
      args.push_back(e);
    }
    if (op->variadic) return {};
    if (jumps(op->name) && !exact) return {};
    ObjectRef attrs = attributes(*op, dims);
    try {
      Expr y = op::op_call(op->name, args, attrs);
      if (!fine(y->type)) return {};
      const bool keeps = exact && (op::definition(*op).fusion == FusionKind::injective ||
                                   op->name == "nn.relu" || op->name == "negative" || op->name == "abs" ||
                                   op->name == "maximum" || op->name == "minimum" || !is_float(y->type));
      if (uses_) ++(*uses_)[op->name];
      y = builder_->emit(y);
      if (grows(op->name) && is_float(y->type) && as_tensor(y)) y = builder_->emit(op::op_call("tanh", {y}));
      return Item{y, keeps};
    } catch (const Error&) {
      return {};
    }
  }
  static bool is_float(const Type& t) {
    if (const auto* tuple = t.as<TupleType>())
      return std::any_of(tuple->items.begin(), tuple->items.end(), is_float);
    const auto* tensor = as_tensor(t);
    return !tensor || tensor->dtype.is_float();
  }
  /// Known sizes up to the one symbol, few elements, data types that all parts know.
  bool fine(const Type& t) const {
    if (const auto* tuple = t.as<TupleType>()) {
      for (const Type& i : tuple->items)
        if (!fine(i)) return false;
      return true;
    }
    const auto* tensor = as_tensor(t);
    auto shape = known_shape(t);
    if (!tensor || !shape || shape->size() > 6) return false;
    int64_t n = 1;
    for (const PrimExpr& d : *shape) {
      auto k = tir::as_int(d);
      if (k && (*k < 0 || *k > 4096)) return false;
      if (!k)
        for (const tir::VarRef& v : tir::free_vars(d))
          if (!v.same_as(symbol_)) return false;
      n *= k.value_or(6);
    }
    return n <= kMostElements && tensor->dtype.bits >= 1 && tensor->dtype.lanes == 1;
  }
  Expr operand(const Op& op, const OpArgument& a, size_t index, const Item& first,
               const std::vector<int64_t>& dims, bool& exact) {
    if (a.type.find("Tuple") != std::string::npos) {
      Array<Expr> items{first.expr};
      exact = exact && first.exact;
      for (const Item& other : pool_)
        if (items.size() < 3 && as_tensor(other.expr)->dtype == as_tensor(first.expr)->dtype &&
            dims_of(other.expr).size() == dims.size() && chance(0.6)) {
          items.push_back(other.expr);
          exact = exact && other.exact;
        }
      return op::tuple(items);
    }
    if (a.type.find("Shape") != std::string::npos) return shape_argument(first.expr, dims);
    if (a.type.find("Tensor") == std::string::npos) return {};
    if (index == 0) {
      exact = exact && first.exact;
      return first.expr;
    }
    if (chance(0.5)) {
      const Item other = any_item();
      exact = exact && other.exact;
      return other.expr;
    }
    return weight(op, dims, as_tensor(first.expr)->dtype);
  }
  /// A constant of a shape that operators with weights, scales or indices ask for.
  Expr weight(const Op& op, const std::vector<int64_t>& dims, DataType t) {
    const size_t r = dims.size();
    if (r == 0) return constant_of({}, t);
    const int64_t last = dims[r - 1];
    if (op.name.starts_with("nn.conv") && r >= 3) {
      std::vector<int64_t> w{size(), dims[1]};
      if (op.name.ends_with("transpose")) std::swap(w[0], w[1]);
      for (size_t i = 2; i < r; ++i) w.push_back(1 + int64_t(below(3)));
      return product(w) > kMostElements ? Expr() : constant_of(w, t);
    }
    switch (below(7)) {
      case 0:
        return constant_of(dims, t);
      case 1:
        return constant_of({last}, t);
      case 2:
        return r >= 2 ? constant_of({dims[1]}, t) : constant_of({last}, t);
      case 3:
        return constant_of({last, size()}, t);
      case 4:
        return constant_of({size(), last}, t);
      case 5:
        return constant_of({}, t);
      default:
        return constant_of({1 + int64_t(below(4))}, i64, *std::min_element(dims.begin(), dims.end()));
    }
  }
  Expr shape_argument(const Expr& x, const std::vector<int64_t>& dims) {
    auto known = known_shape(x);
    if (!known) return {};
    Array<PrimExpr> out;
    switch (below(4)) {
      case 0: {  // two axes become one
        if (known->size() < 2) return {};
        const size_t at = size_t(below(known->size() - 1));
        for (size_t i = 0; i < known->size(); ++i)
          if (i == at + 1)
            out.set(at, out[at] * (*known)[i]);
          else
            out.push_back((*known)[i]);
        return shape_expr(out);
      }
      case 1:  // one axis becomes two
        for (size_t i = 0; i < known->size(); ++i) {
          out.push_back((*known)[i]);
          if (auto n = tir::as_int((*known)[i]); n && *n % 2 == 0 && *n > 0 && out.size() == i + 1) {
            out.set(i, PrimExpr(*n / 2));
            out.push_back(PrimExpr(2));
          }
        }
        return shape_expr(out);
      case 2:  // more axes, and axes of one element grow: for broadcasts
        out.push_back(PrimExpr(size()));
        for (const PrimExpr& d : *known) out.push_back(tir::is_one(d) ? PrimExpr(size()) : d);
        return shape_expr(out);
      default:
        return op::shape(std::vector<int64_t>(dims.begin(), dims.end()));
    }
  }

  // ---------------------------------------------------------------- control flow
  /// A few operators in a scope of their own; their values are not seen outside.
  Expr nested(const Expr& x, const Type& want) {
    BlockBuilder* outer = builder_;
    std::vector<Item> seen = pool_;
    BlockBuilder inner = op::make_builder();
    builder_ = &inner;
    Expr y = x;
    static const std::vector<std::string> unary{"nn.relu", "tanh", "negative", "sigmoid", "sin", "abs"};
    for (uint64_t i = 0, n = 1 + below(3); i < n; ++i) {
      y = inner.emit(op::op_call(one_of(unary), {y}));
      if (chance(0.5)) y = inner.emit(op::op_call(chance(0.5) ? "add" : "maximum", {y, x}));
    }
    builder_ = outer;
    pool_ = std::move(seen);
    (void)want;
    return inner.finish(y);
  }
  const Item* float_item() {
    for (int i = 0; i < 8; ++i) {
      const Item& it = any_item();
      if (as_tensor(it.expr)->dtype == f32) return &it;
    }
    return nullptr;
  }
  void branch() {
    const Item* x = float_item();
    if (!x) return;
    const Expr value = x->expr;
    VarRef condition;
    for (const VarRef& p : params_)
      if (p->name == "go") condition = p;
    if (!condition) {
      condition = var("go", tensor_type({}, boolean));
      params_.push_back(condition);
    }
    Expr yes = nested(value, value->type), no = nested(value, value->type);
    Expr choice = make<If>(Expr(condition), yes, no);
    choice.edit()->type = op::infer_type(choice);
    if (uses_) ++(*uses_)["if"];
    pool_.push_back({builder_->emit(choice), false});
  }
  /// A private function of two values, sometimes given or returned as a tuple, one of them sometimes not
  /// used.
  void function() {
    const Item *a = float_item(), *b = float_item();
    if (!a || !b || !static_shape(a->expr->type) || !static_shape(b->expr->type)) return;
    const Expr x = a->expr, y = b->expr;
    const bool as_tuple = chance(0.3), two_results = chance(0.5), reads_both = chance(0.6);
    BlockBuilder* outer = builder_;
    BlockBuilder inner = op::make_builder();
    builder_ = &inner;
    Array<VarRef> params;
    Expr p, q;
    if (as_tuple) {
      params.push_back(var("t", tuple_type({x->type, y->type})));
      p = inner.emit(op::get_item(params[0], 0));
      q = inner.emit(op::get_item(params[0], 1));
    } else {
      params = {var("p", x->type), var("q", y->type)};
      p = params[0];
      q = params[1];
    }
    Expr u = inner.emit(op::op_call(chance(0.5) ? "tanh" : "nn.relu", {p}));
    u = inner.emit(op::op_call("add", {u, p}));
    Expr v = inner.emit(op::op_call("sin", {reads_both ? q : p}));
    Expr result = two_results ? inner.emit(op::tuple({u, v})) : u;
    Expr body = inner.finish(result);
    builder_ = outer;
    const std::string name = "f" + std::to_string(functions_.size());
    const Ref<Function> f = make<Function>(params, body, result->type, AttrMap());
    functions_.emplace_back(name, f);
    Expr callee = global(name);
    callee.edit()->type = op::function_type(*f);
    Array<Expr> args{x, y};
    if (as_tuple) args = {builder_->emit(op::tuple({x, y}))};
    Expr made = call(callee, args);
    made.edit()->type = result->type;
    if (uses_) ++(*uses_)["function"];
    made = builder_->emit(made);
    if (!two_results) return pool_.push_back({made, false});
    for (int64_t i = 0; i < 2; ++i)
      if (chance(0.7)) pool_.push_back({builder_->emit(op::get_item(made, i)), false});
  }
  void loop() {
    const Item* x = float_item();
    if (!x) return;
    const Expr value = x->expr;
    VarRef i = var("i", tensor_type({}, i64)), s = var("s", value->type);
    BlockBuilder condition = op::make_builder(), body = op::make_builder();
    const double turns = double(below(4));
    Expr go = condition.finish(condition.emit(op::op_call("less", {i, op::scalar(turns, i64)})));
    Expr next = body.emit(op::op_call("add", {i, op::scalar(1, i64)}));
    Expr y = body.emit(op::op_call("tanh", {body.emit(op::op_call("add", {s, value}))}));
    Expr step = body.finish(op::tuple({next, y}));
    Expr all = make<While>(Array<VarRef>{i, s}, Array<Expr>{op::scalar(0, i64), value}, go, step);
    all.edit()->type = op::infer_type(all);
    if (uses_) ++(*uses_)["while"];
    all = builder_->emit(all);
    pool_.push_back({builder_->emit(op::get_item(all, 1)), false});
  }

  // ---------------------------------------------------------------- patterns and recorded calls
  /// A value of the wanted type: one of the graph, a new parameter, or a constant.
  Item supply(const Type& type, char kind) {
    const auto* t = as_tensor(type);
    const auto shape = static_shape(type);
    if (!t || !shape) return {};
    if (kind == 'w' && chance(0.85)) return {constant_of(*shape, t->dtype), true};
    if (kind == 's' || kind == 'v') {
      NDArray a = NDArray::empty(*shape, t->dtype);
      for (int64_t i = 0; i < a.size(); ++i)
        a.set_element(i, double(4 + below(29)) / 16 * (kind == 's' && chance(0.2) ? -1 : 1));
      return {constant(a), true};
    }
    std::vector<size_t> same, as_large;
    for (size_t i = 0; i < pool_.size(); ++i) {
      const auto* other = as_tensor(pool_[i].expr);
      const auto dims = static_shape(pool_[i].expr->type);
      if (!dims || other->dtype != t->dtype) continue;
      if (*dims == *shape) same.push_back(i);
      if (product(*dims) == product(*shape)) as_large.push_back(i);
    }
    if (!same.empty() && chance(0.8)) return pool_[one_of(same)];
    if (!as_large.empty() && chance(0.7)) {
      const Item from = pool_[one_of(as_large)];
      return {builder_->emit(op::op_call("reshape", {from.expr, op::shape(*shape)})), from.exact};
    }
    if (params_.size() >= 9) return {constant_of(*shape, t->dtype), true};
    VarRef v = var("x" + std::to_string(params_.size()) + "_", type);
    params_.push_back(v);
    pool_.push_back({v, true});
    return pool_.back();
  }
  void pattern() {
    const RandomPattern p = random_pattern([&](uint64_t n) { return below(n); }, instances_++);
    std::unordered_map<const Object*, Expr> given;
    const Ref<Function> f = p.module.find("main").cast<Function>();
    for (const VarRef& v : f->params) {
      const Item item = supply(v->declared, v->name[0]);
      CHECK(item.expr, "a pattern's parameter has no value");
      given[v.get()] = item.expr;
    }
    auto placed = [&](const ObjectRef& o) {
      return rewrite_any(o, [&](const ObjectRef& n) -> ObjectRef {
        auto it = given.find(n.get());
        return it == given.end() ? ObjectRef() : ObjectRef(it->second);
      });
    };
    for (const Binding& b : bindings_of(f->body)) builder_->append(placed(b).cast<BindingNode>());
    for (auto [name, other] : p.module.functions())
      if (name != "main") functions_.emplace_back(name, other.cast<Function>());
    for (auto [name, type] : p.module->types) types_.edit()->types.set(name, type);
    if (uses_) {
      ++(*uses_)["pattern " + p.name];
      for (auto [name, other] : p.module.functions())
        post_order(other, [&](const ObjectRef& n) {
          if (n.is<Call>() && op_of(n.cast<Call>())) ++(*uses_)[op_of(n.cast<Call>())->name];
        });
    }
    const Expr result = result_of(f->body);
    const auto* items = result.as<Tuple>();
    for (const Expr& e : items ? items->items : Array<Expr>{result})
      if (e.is<Var>() && !given.count(e.get()) && fine(e->type)) pool_.push_back({e, false});
  }
  /// An operator as a test of it calls it, sometimes on other values.
  void recorded() {
    const std::vector<Ref<Call>>& calls = recorded_calls();
    if (calls.empty()) return;
    const Ref<Call>& call = one_of(calls);
    const Op& op = *op_of(call);
    const bool others = op.file.find("linalg") == std::string::npos && chance(0.8);
    auto operand_for = [&](const Expr& e) -> Expr {
      const auto* c = e.as<Constant>();
      if (!c || !c->data.dtype().is_float() || !others) return e;
      for (int i = 0; i < 3; ++i) {
        const Item item = supply(e->type, 'x');
        if (item.exact) return item.expr;
      }
      return e;
    };
    Array<Expr> args;
    for (const Expr& a : call->args) {
      if (const auto* t = a.as<Tuple>()) {
        Array<Expr> items;
        for (const Expr& i : t->items) items.push_back(operand_for(i));
        args.push_back(op::tuple(items));
      } else {
        args.push_back(operand_for(a));
      }
    }
    Expr y;
    try {
      y = op::op_call(op.name, args, call->attrs);
    } catch (const Error&) {
      return;
    }
    if (!fine(y->type)) return;
    if (uses_) ++(*uses_)[op.name];
    y = builder_->emit(y);
    if (is_float(y->type) && as_tensor(y)) y = builder_->emit(op::op_call("tanh", {y}));
    add({y, !is_float(y->type)});
  }
  /// The same body with some values written where they are read, as trees.
  Expr nested_expressions(const Array<Binding>& bindings, const Expr& result) {
    std::unordered_map<const Object*, int> uses, direct;
    auto count = [&](const ObjectRef& o) {
      post_order(o, [&](const ObjectRef& n) {
        for (const ObjectRef& child : children(n))
          if (child.is<Var>()) ++uses[child.get()];
      });
    };
    if (result.is<Var>()) ++uses[result.get()];
    count(result);
    for (const Binding& b : bindings) {
      const Expr value = b->value;
      count(value);
      if (op_of(value))
        for (const Expr& a : value.as<Call>()->args) ++direct[a.get()];
    }
    std::unordered_map<const Object*, Expr> inside;
    BlockBuilder out;
    for (const Binding& b : bindings) {
      Expr value = b->value;
      const auto* call = value.as<Call>();
      const VarRef v = b->var;
      if (!b.is<VarBindingNode>() || !call || !op_of(value)) {
        out.append(b);
        continue;
      }
      Array<Expr> args = call->args;
      for (size_t i = 0; i < args.size(); ++i)
        if (auto it = inside.find(args[i].get()); it != inside.end()) args.set(i, it->second);
      Expr tree = make<Call>(call->op, args, call->attrs, call->type_args);
      tree.edit()->type = value->type;
      if (op_of(value)->pure && uses[v.get()] == 1 && direct[v.get()] == 1 && chance(0.5))
        inside[v.get()] = tree;
      else
        out.append(make<VarBindingNode>(v, tree));
    }
    return out.finish(result);
  }

  RandomGraphOptions options_;
  std::map<std::string, int64_t>* uses_;
  BlockBuilder* builder_ = nullptr;
  std::vector<VarRef> params_;
  std::vector<Item> pool_;
  std::vector<std::pair<std::string, Ref<Function>>> functions_;
  IRModule types_ = IRModule::create();
  int instances_ = 0;
  tir::VarRef symbol_;
};

}  // namespace

IRModule random_graph(uint64_t seed, const RandomGraphOptions& options,
                      std::map<std::string, int64_t>* uses) {
  return Generator(seed, options, uses).run();
}

}  // namespace tenon::testing_trust
