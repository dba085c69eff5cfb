// SPDX-License-Identifier: Apache-2.0
// partial_evaluate: what known values decide is decided while compiling.
//
//   before   lv = sum(Cons(a, Cons(b, Nil())))      with sum(l): match l: Nil(): 0;  Cons(x, r): x + sum(r)
//   after    lv = R.add(b, 0);  lv1 = R.add(a, lv)
//
// Known are constants, tuples, constructors whose fields may be anything, closures, functions of the module,
// and what a reference holds where every write since is seen. Branches of an `if` and cases of a `match` on
// them stand for the whole; calls of known functions become their bindings, of functions that reach
// themselves only where an argument is known and outside of branches that stay; operators on small constants
// are computed (they decide conditions); references that are only written go. "partial_evaluate.max_calls"
// bounds the calls, as their nesting is, so that a recursion that no value ends stays a call. Needs: types;
// normal form; PassContext::evaluate for operators. Keeps: values, order of effects.
#include <set>
#include <unordered_set>

#include "ir/find_node.h"
#include "ir/symbols.h"
#include "ir/tir.h"
#include "ir/walk.h"
#include "op/body_rewriter.h"
#include "op/build.h"
#include "op/infer.h"
#include "pass/graph/lowering/lower_function.h"
#include "pass/graph/module/inline_functions.h"

namespace tenon {
namespace graph {
namespace {

/// Larger results decide nothing; fold_constant computes them.
constexpr int64_t kMaxBytes = 4096;

/// Calls inside of one another that are evaluated: each takes a few frames of the compiler's own stack.
constexpr int64_t kMaxNestedCalls = 100;

/// Functions of the module from which a call leads back to them.
std::set<std::string> recursive_functions(const IRModule& module) {
  std::map<std::string, std::set<std::string>> uses;
  for (auto [name, object] : module.functions())
    if (object.is<Function>())
      post_order(object, [&, caller = name](const ObjectRef& n) {
        if (const auto* g = n.as<GlobalVar>()) uses[caller].insert(g->name);
      });
  std::set<std::string> out;
  for (const auto& [name, callees] : uses) {
    std::set<std::string> reached;
    std::vector<std::string> work(callees.begin(), callees.end());
    while (!work.empty()) {
      const std::string at = work.back();
      work.pop_back();
      if (reached.insert(at).second)
        for (const std::string& next : uses[at]) work.push_back(next);
    }
    if (reached.count(name)) out.insert(name);
  }
  return out;
}

/// Is there a closure in the body? Its own types would name the type parameters of the function around it.
bool holds_function(const Expr& body) { return has_node<Function>(body); }

/// Does a closure name sizes that no parameter of it shows? They are those of the function around it.
bool captures_sizes(const Function& f) {
  std::vector<tir::VarRef> shown, all;
  for (const VarRef& p : f.params) symbols_of(p->declared, shown);
  symbols_of(ObjectRef(&f), all);
  return std::ranges::any_of(all, [&](const tir::VarRef& s) {
    return std::ranges::none_of(shown, [&](const tir::VarRef& p) { return p.same_as(s); });
  });
}

bool has_type_variable(const Type& type) {
  bool found = false;
  if (type) post_order(type, [&](const ObjectRef& n) { found = found || n.is<TypeVar>(); });
  return found;
}

class PartialEvaluator : public BodyRewriter {
 public:
  PartialEvaluator(IRModule module, PassContext& context, int64_t max_calls)
      : module_(std::move(module)),
        context_(context),
        recursive_(recursive_functions(module_)),
        calls_left_(max_calls) {}

 protected:
  bool forward_copies() const override { return true; }
  // A body that may run later, or not at all, sees no reference, and what it writes is not known behind it.
  void enter_scope() override {
    outer_cells_.push_back(std::move(cells_));
    cells_.clear();
    ++depth_;
  }
  void leave_scope() override {
    cells_ = std::move(outer_cells_.back());
    outer_cells_.pop_back();
    --depth_;
  }

  Expr visit(const Expr& given, const VarRef& var) override {
    Expr value = given;
    if (value.is<Call>() && has_type_variable(value->type)) {
      value.edit()->type = Type();
      value = op::typed(value);
    }
    if (const auto* item = value.as<TupleGetItem>()) {
      const auto* tuple = known(item->tuple).as<Tuple>();
      if (!tuple || size_t(item->index) >= tuple->items.size()) return value;
      // Closures of a group name one another through their tuple, which is bound behind them.
      const Expr& part = tuple->items[size_t(item->index)];
      return known(part).is<Function>() ? value : part;
    }
    if (const auto* i = value.as<If>()) {
      const auto holds = scalar_constant(i->condition);
      if (!holds) return forget_cells(value);
      return taken(*holds != 0 ? i->true_branch : i->false_branch);
    }
    if (const auto* m = value.as<Match>()) return matched(*m, value);
    if (value.is<While>()) return forget_cells(value);
    return value.is<Call>() ? called(value, var) : value;
  }

 private:
  /// The constant, tuple, constructor call or closure that a leaf stands for; null: nothing is known.
  Expr known(const Expr& e) const {
    if (e.is<Constant>() || e.is<Tuple>()) return e;
    const Expr d = definition(e);
    if (!d) return {};
    const auto* c = d.as<Call>();
    return d.is<Tuple>() || d.is<Function>() || (c && c->op.is<Constructor>()) ? d : Expr();
  }
  Expr forget_cells(const Expr& value) {
    cells_.clear();
    return value;
  }
  /// The bindings of a body in the place of the value that holds it.
  Expr taken(const Expr& body) {
    for (const Binding& b : bindings_of(body)) splice(b);
    return replaced(result_of(body));
  }

  // ---- match
  enum class Fit { yes, no, unknown };
  /// Whether the value has the pattern; what its variables stand for.
  Fit fit(const Pattern& p, const Expr& value, std::vector<std::pair<VarRef, Expr>>& bound) const {
    if (p->kind == PatternKind::wildcard) return Fit::yes;
    if (p->kind == PatternKind::variable) {
      std::vector<tir::VarRef> sizes;  // that the pattern names
      symbols_of(p->var->declared ? p->var->declared : p->var->type, sizes);
      if (!sizes.empty()) return Fit::unknown;
      bound.emplace_back(p->var, value);
      return Fit::yes;
    }
    const Expr d = known(value);
    if (!d) return Fit::unknown;
    Array<Expr> items;
    if (const auto* t = d.as<Tuple>()) {
      items = t->items;
    } else {
      const auto* c = d.as<Call>();
      const auto* made = c ? c->op.as<Constructor>() : nullptr;
      if (!made || p->kind != PatternKind::constructor) return Fit::unknown;
      if (made->tag != p->constructor->tag) return Fit::no;
      items = c->args;
    }
    if (items.size() != p->items.size()) return Fit::unknown;
    Fit all = Fit::yes;
    for (size_t i = 0; i < items.size(); ++i) {
      const Fit one = fit(p->items[i], items[i], bound);
      if (one == Fit::no) return Fit::no;
      if (one == Fit::unknown) all = Fit::unknown;
    }
    return all;
  }
  Expr matched(const Match& m, const Expr& value) {
    for (const MatchClause& clause : m.clauses) {
      std::vector<std::pair<VarRef, Expr>> bound;
      const Fit f = fit(clause->pattern, m.value, bound);
      if (f == Fit::no) continue;
      if (f == Fit::unknown) break;
      for (const auto& [v, stands_for] : bound) replace(v, stands_for);
      return taken(clause->body);
    }
    return forget_cells(value);
  }

  // ---- calls
  Expr called(const Expr& value, const VarRef& var) {
    const Call& call = *value.as<Call>();
    if (const Op* op = op_of(value)) return operator_on(*op, call, value, var);
    if (call.op.is<Constructor>()) return value;
    const Expr body = body_of(call);
    if (body) {
      --calls_left_;
      ++nested_;
      const Expr result = taken(body);
      --nested_;
      return result;
    }
    return forget_cells(value);  // it may write to what it was given, or captured
  }
  /// What a call of a known function becomes; null: it stays.
  Expr body_of(const Call& call) const {
    if (calls_left_ <= 0 || nested_ >= kMaxNestedCalls) return {};
    Ref<Function> callee;
    bool recursive = false;
    if (const auto* g = call.op.as<GlobalVar>()) {
      callee = module_.find(g->name).cast<Function>();
      recursive = recursive_.count(g->name) != 0;
    } else if (const auto* v = call.op.as<Var>()) {
      callee = known(call.op).cast<Function>();
      if (callee) for_each_use(callee->body, [&](const VarRef& u) { recursive = recursive || u.get() == v; });
    }
    if (!callee || is_primitive(*callee) || callee->attrs.contains("codegen")) return {};
    if (!call.op.is<GlobalVar>() && captures_sizes(*callee)) return {};
    if (!callee->type_params.empty() && holds_function(callee->body)) return {};
    if (recursive) {
      // Inside a branch that stays nothing ends it.
      if (depth_ > 1) return {};
      const bool any =
          std::any_of(call.args.begin(), call.args.end(), [&](const Expr& a) { return bool(known(a)); });
      if (!any) return {};
    }
    return inlined_body(*callee, call.args);
  }

  Expr operator_on(const Op& op, const Call& call, const Expr& value, const VarRef& var) {
    if (op.name == "ref_create") {
      // Bound under this variable, which stands for the reference from now on.
      cells_[var.get()] = call.args[0];
      return value;
    }
    if (op.name == "ref_read") {
      const auto* cell = call.args[0].as<Var>();
      const auto at = cell ? cells_.find(cell) : cells_.end();
      return at == cells_.end() ? value : at->second;
    }
    if (op.name == "ref_write") {
      const auto* cell = call.args[0].as<Var>();
      // Two variables may be one reference, unless both were created here.
      if (!cell || !cells_.count(cell)) cells_.clear();
      if (cell && definition_call(call.args[0], "ref_create")) cells_[cell] = call.args[1];
      return value;
    }
    if (op.pure) return computed(call, value);
    for (const Expr& a : call.args)
      if (!graph::as_tensor(a)) return forget_cells(value);
    return value;
  }
  /// A pure operator on constants.
  Expr computed(const Call& call, const Expr& value) {
    const auto shape = static_shape(value->type);
    std::vector<tir::VarRef> sizes;
    symbols_of(call.attrs, sizes);
    if (!context_.evaluate || !shape || !as_tensor(value->type) || call.args.empty() || !sizes.empty())
      return value;
    if (int64_t(storage_bytes(element_count(*shape), as_tensor(value->type)->dtype)) > kMaxBytes)
      return value;
    std::vector<NDArray> inputs;
    for (const Expr& a : call.args) {
      const auto* c = a.as<Constant>();
      if (!c || int64_t(c->data.byte_size()) > kMaxBytes) return value;
      inputs.push_back(c->data);
    }
    const Ref<Call> whole = value.cast<Call>();
    if (!can_lower(whole)) return value;
    tir::PrimFunc f = op::lower_call(*whole);
    f.edit()->attrs.set("global_symbol", Any("value"));
    IRModule module = IRModule::create();
    module.set("value", f);
    const std::vector<NDArray> outputs = context_.evaluate(module, "value", inputs);
    return outputs.size() == 1 ? constant(outputs[0]) : value;
  }

  const IRModule module_;
  PassContext& context_;
  const std::set<std::string> recursive_;
  int64_t calls_left_;
  int64_t depth_ = 0, nested_ = 0;
  std::unordered_map<const Var*, Expr> cells_;  ///< what references hold here
  std::vector<std::unordered_map<const Var*, Expr>> outer_cells_;
};

/// References that are made here and only written: nobody sees them.
class DeadReferences : public BodyRewriter {
 public:
  explicit DeadReferences(const Function& f) {
    std::unordered_map<const Var*, std::vector<const Var*>> writes;  // bindings by reference
    std::vector<const Var*> made;
    for_each_binding(f.body, [&](const Binding& b) {
      const Expr value = b->value;
      const Op* op = op_of(value);
      if (!op) return;
      const Call& call = *value.as<Call>();
      if (op->name == "ref_create") made.push_back(b->var.get());
      const auto* cell = op->name == "ref_write" ? call.args[0].as<Var>() : nullptr;
      if (cell && !call.args[1].same_as(call.args[0])) writes[cell].push_back(b->var.get());
    });
    const auto uses = count_uses(f);
    for (const Var* v : made) {
      const auto n = uses.find(v);
      if (size_t(n == uses.end() ? 0 : n->second) != writes[v].size()) continue;
      creations_.insert(v);
      writes_.insert(writes[v].begin(), writes[v].end());
    }
  }
  bool any() const { return !creations_.empty(); }

 protected:
  Expr visit(const Expr& value, const VarRef& var) override {
    if (creations_.count(var.get())) return value.as<Call>()->args[0];  // stands in the writes, which go
    if (!writes_.count(var.get())) return value;
    return with_type(make<Tuple>(Array<Expr>()), tuple_type({}));
  }

 private:
  std::unordered_set<const Var*> creations_, writes_;
};

}  // namespace
}  // namespace graph

static constexpr int64_t kMaxCallsByDefault = 1000;
static const Option<int64_t> kMaxCalls("partial_evaluate.max_calls", kMaxCallsByDefault,
                                       "calls of known functions that are evaluated in one function at most",
                                       {.least = 0});

static IRModule partial_evaluate(IRModule module, PassContext& context) {
  using namespace graph;
  const IRModule whole = module;
  const int64_t max_calls = context.options.get(kMaxCalls);
  return module.map_graph([&](const std::string&, const Ref<graph::Function>& f) -> ObjectRef {
    if (is_primitive(*f)) return {};
    Ref<graph::Function> out = PartialEvaluator(whole, context, max_calls).run(f);
    DeadReferences dead(*out);
    if (dead.any()) out = dead.run(out);
    return out.same_as(f) ? ObjectRef() : ObjectRef(out);
  });
}

const Pass& partial_evaluate_pass = register_pass({
    .name = "partial_evaluate",
    .run = partial_evaluate,
    .summary = "what known values decide: branches, cases, calls, closures, references",
    .needs = {"infer_types"},
    .options = {kMaxCalls},
});

}  // namespace tenon
