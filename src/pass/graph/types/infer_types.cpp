// SPDX-License-Identifier: Apache-2.0
// infer_types: every binding's variable gets the type that follows from its value.
//
//   before   lv = R.matmul(x, w)
//   after    lv: R.Tensor((n, 128), dtype="float32") = R.matmul(x, w)
//
// Sizes of operators' arguments that only the run tells get names by match_cast (name_sizes.h), so that
// everything of known rank can be compiled. Parameters without a type get theirs from the calls
// (open_types.h).
//
// Needs: normal form. Keeps: values; a declared type stays where it says more than inference. A user's type
// errors (T1101 of operators, T1105) are told all at once, each at its place.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/origin.h"
#include "ir/structural.h"
#include "ir/symbols.h"
#include "ir/text.h"
#include "op/body_rewriter.h"
#include "op/infer.h"
#include "op/unify.h"
#include "pass/graph/types/name_sizes.h"
#include "pass/graph/types/open_types.h"

namespace tenon {
namespace graph {
namespace {

/// Notes a mistake once, with the line of the text where that is its place.
void add_problem(DiagnosticList& problems, Diagnostic d, const Origin& at) {
  if (d.location.empty()) d.location = place(at);
  if (at && at->span && d.location == at->span.to_string()) d.span = at->span;
  for (const Diagnostic& told : problems.all())  // the rounds of a recursive function meet it again
    if (told.code == d.code && told.location == d.location && told.message == d.message) return;
  problems.add(std::move(d));
}

class InferTypes : public SizeNaming {
 public:
  /// Mistakes go to `problems`; what follows from one has an incomplete type.
  InferTypes(SizeSymbols& symbols, op::OpenTypes* open, DiagnosticList& problems)
      : SizeNaming(symbols), open_(open), problems_(problems) {}

 protected:
  Expr visit(const Expr& old, const VarRef& var) override {
    Expr value = with_named_sizes(old, var);
    const Type declared = var->declared;
    if (value.same_as(old) || !declared || value.is<Function>()) return value;
    value = typed(value, true);
    if (structural_equal(declared, value->type) || op::conflict(declared, value->type, open_)) return value;
    // What is declared of sizes that the run tells is checked then.
    if (known_shape(declared) && known_shape(value->type)) {
      const VarRef checked = graph::var(var->name, declared);
      splice(make<MatchCastNode>(checked, emit(value, var->name + "_made"), declared));
      return checked;
    }
    if (op::knowledge(declared) > op::knowledge(value->type)) value.edit()->type = declared;
    return value;
  }
  /// A match_cast that says no element type keeps that of its value.
  Expr visit_match_cast(const Expr& value, const Type& type, const VarRef& var) override {
    const auto *wanted = type.as<TensorType>(), *given = as_tensor(value);
    if (!wanted || !given || !wanted->dtype.is_void() || given->dtype.is_void()) return {};
    Ref<TensorType> full(wanted);
    full.edit()->dtype = given->dtype;
    VarRef checked = graph::var(var->name, full);
    checked.edit()->origin = var->origin;
    splice(make<MatchCastNode>(checked, value, full));
    return checked;
  }
  void enter_function(const VarRef& var, const Function& f) override {
    // Closures may call themselves: their variables have types before any body is walked.
    if (!has_holes(var->declared)) return;
    Type t = op::function_type(f, open_);
    if (const Type result = open_ ? open_->parameter(var.get()) : Type())
      t = make<FuncType>(t.as<FuncType>()->params, result, false, f.type_params);
    if (var->declared && structural_equal(var->declared, t)) return;
    VarRef announced = graph::var(var->name, t);
    announced.edit()->origin = var->origin;
    replace(var, announced);
  }
  std::vector<Pattern> patterns(const Match& match, const Expr& value) override {
    op::Inference run;
    run.open = open_;
    run.within_memory = true;
    Type t = op::infer_type(run, value);
    if (!t || op::is_incomplete(t)) t = object_type();
    std::vector<Pattern> out;
    for (const MatchClause& c : match.clauses) {
      const Pattern p = op::typed_pattern(run, c->pattern, t, match.origin,
                                          [&](const VarRef& old, const VarRef& now) { replace(old, now); });
      out.push_back(p ? p : c->pattern);
    }
    for (const Diagnostic& d : run.problems.all()) problem(d, match.origin);
    return out;
  }
  /// What inference says, unless the value's own type says more.
  Expr typed(const Expr& given, bool) override {
    if (is_leaf(given)) return given;
    op::Inference run;
    run.open = open_;
    run.within_memory = true;
    Expr value = op::typed(run, given);
    for (const Diagnostic& d : run.problems.all()) problem(d, value->origin);
    if (!value->type) value.edit()->type = op::incomplete_type();
    if (const auto* f = value.as<Function>()) {
      const Type t = without_own_sizes(*f, value->type);
      if (!structural_equal(t, value->type)) value.edit()->type = t;
      const auto* type = t.as<FuncType>();
      if (!f->ret_type && type && !op::has_incomplete(t)) {
        Ref<Function> with_result = value.cast<Function>();
        with_result.edit()->ret_type = type->ret;
        value = with_result;
      }
    }
    if (given->type && op::knowledge(value->type) < op::knowledge(given->type))
      value.edit()->type = given->type;
    return value;
  }
  Type variable_type(const Expr& value, const VarRef& old, bool changed) override {
    const VarRef var = value.is<Function>() ? replaced(old).cast<Var>() : old;
    const Type& t = value->type;
    if (const auto* loop = value.as<While>()) check_loop(*loop, value->origin ? value->origin : old->origin);
    if (const auto* f = value.as<Function>(); f && open_)
      if (const Type result = open_->parameter(old.get()))
        if (const Type given = result_of(f->body)->type) open_->constrain(op::open_id(result), given);
    if (!t || op::is_incomplete(t)) return var->declared ? Type() : t;
    if (var->declared && op::conflict(var->declared, t, open_)) {
      refuse(value, var, t);
      return {};
    }
    const bool better = op::knowledge(t) > op::knowledge(var->declared);
    return better || (changed && !var->declared) ? t : Type();
  }

 private:
  void refuse(const Expr& value, const VarRef& var, const Type& t) {
    problem({"T1105",
             fmt::format("`{}` is declared as {} and its value has type {}", var->name, print(var->declared),
                         print(t)),
             {},
             {},
             {}},
            value->origin ? value->origin : var->origin);
  }
  void problem(Diagnostic d, const Origin& at) { add_problem(problems_, std::move(d), at); }
  /// Sizes that only the body of a closure names mean nothing to its callers.
  static Type without_own_sizes(const Function& f, const Type& type) {
    std::vector<tir::VarRef> inside, scope, result;
    for_each_binding(f.body, [&](const Binding& b) {
      if (const auto* cast = b.as<MatchCastNode>()) symbols_of(cast->type, inside);
    });
    const auto* t = type.as<FuncType>();
    if (inside.empty() || !t->ret) return type;
    for_each_use(f.body, [&](const VarRef& v) {
      if (std::ranges::none_of(inside, [&](const tir::VarRef& s) { return mentions(v, s); }))
        symbols_of(v->type, scope);
    });
    for (const Type& p : t->params) symbols_of(p, scope);
    symbols_of(t->ret, result);
    for (const tir::VarRef& s : result)
      if (std::ranges::none_of(inside, [&](const tir::VarRef& i) { return i.same_as(s); }))
        scope.push_back(s);
    return make<FuncType>(t->params, seen_outside(t->ret, scope), false, t->type_params);
  }
  static bool mentions(const VarRef& v, const tir::VarRef& s) {
    std::vector<tir::VarRef> symbols;
    symbols_of(v->type, symbols);
    return std::ranges::any_of(symbols, [&](const tir::VarRef& o) { return o.same_as(s); });
  }
  /// What a loop begins with and what its body gives are what its variables are declared to be.
  void check_loop(const While& loop, const Origin& at) {
    const Expr result = result_of(loop.body);
    const size_t count = loop.loop_vars.size();
    std::vector<Type> nexts;
    if (const auto* tuple = result.as<Tuple>())
      for (const Expr& e : tuple->items) nexts.push_back(e->type);
    else if (const auto* t = result->type.as<TupleType>())
      for (const Type& item : t->items) nexts.push_back(item);
    else
      nexts.resize(result->type.is<TensorType>() ? 1 : count);
    if (nexts.size() != count || (count == 1 && result->type.is<TensorType>())) {
      problem({"T1104",
               fmt::format("a loop over {} value{} has a body that gives {}", count, count == 1 ? "" : "s",
                           nexts.size()),
               {},
               "return a tuple of the next values",
               {}},
              at);
      return;
    }
    for (size_t i = 0; i < count; ++i) {
      const VarRef& v = loop.loop_vars[i];
      const Type first = loop.init[i]->type, next = nexts[i];
      for (const auto& [given, what] : {std::pair(first, "begins with"), std::pair(next, "goes on with")})
        if (v->declared && given && !op::has_incomplete(given) && op::conflict(v->declared, given, open_))
          problem({"T1105",
                   fmt::format("the loop's variable `{}` is declared as {} and {} a value of type {}",
                               v->name, print(v->declared), what, print(given)),
                   {},
                   {},
                   {}},
                  at);
    }
  }
  /// The text leaves types of the function open.
  static bool has_holes(const Type& declared) {
    const auto* t = declared.as<FuncType>();
    return !t || !t->ret || std::any_of(t->params.begin(), t->params.end(), [](const Type& p) { return !p; });
  }

  op::OpenTypes* open_;
  DiagnosticList& problems_;
};

/// Functions in the order of their calls, so that a result's type is there where it is needed. Functions that
/// call each other begin with unknown results and are inferred until nothing changes.
class ModuleInference {
 public:
  ModuleInference(IRModule module, op::OpenTypes* open) : module_(std::move(module)), open_(open) {}

  IRModule run() {
    collect();
    for (const std::vector<std::string>& group : groups()) infer(group);
    for (auto& [name, f] : functions_)
      if (out_.count(name) && !out_[name].same_as(f)) module_.set(name, out_[name]);
    return module_;
  }
  const DiagnosticList& problems() const { return problems_; }

 private:
  void collect() {
    for (auto [name, object] : module_.functions())
      if (Ref<Function> f = object.cast<Function>()) functions_.emplace_back(name, f);
    for (auto& [name, f] : functions_) {
      signatures_[name] = op::function_type(*f, open_);
      pre_order(f->body, [&, caller = name](const ObjectRef& n) {
        if (const auto* g = n.as<GlobalVar>()) callees_[caller].push_back(g->name);
        if (n.is<GlobalVar>() || n.is<Constructor>()) callers_.insert(caller);
        return !n.is<TypeNode>() && !n.is<tir::PrimExprNode>();
      });
    }
  }
  /// The function with types on the names of functions and on constructors that stand in it.
  Ref<Function> with_callee_types(const std::string& name, const Ref<Function>& f) const {
    if (!callers_.count(name)) return f;
    auto type_of = [&](const ObjectRef& n) -> Type {
      if (const auto* g = n.as<GlobalVar>())
        if (auto it = signatures_.find(g->name); it != signatures_.end()) return it->second;
      const auto* c = n.as<Constructor>();
      const AdtDef def = c && !c->type ? module_.find_type(c->data_type) : AdtDef();
      const bool there = def && c->tag >= 0 && size_t(c->tag) < def->constructors.size();
      return there ? op::constructor_type(def, size_t(c->tag)) : Type();
    };
    return rewrite_any(
               f,
               [&](const ObjectRef& n) -> ObjectRef {
                 const Type t = type_of(n);
                 Expr e = n.cast<ExprNode>();
                 if (!t || (e->type && structural_equal(e->type, t))) return {};
                 e.edit()->type = t;
                 return e;
               },
               [](const ObjectRef& n) {
                 return n.is<TypeNode>() || n.is<Op>() || n.is<Constant>() || n.is<tir::PrimExprNode>();
               })
        .cast<Function>();
  }

  /// Strongly connected groups of callers, callees first (Tarjan's algorithm with its own stack).
  std::vector<std::vector<std::string>> groups() {
    std::vector<std::vector<std::string>> out;
    std::map<std::string, int> index, low;
    std::vector<std::string> open;
    std::set<std::string> on_stack;
    struct Frame {
      std::string name;
      size_t next = 0;
    };
    for (auto& [root, f] : functions_) {
      if (index.count(root)) continue;
      std::vector<Frame> stack{{root, 0}};
      while (!stack.empty()) {
        Frame& frame = stack.back();
        const std::string name = frame.name;
        if (frame.next == 0) {
          const int n = int(index.size());
          index[name] = low[name] = n;
          open.push_back(name);
          on_stack.insert(name);
        }
        const std::vector<std::string>& callees = callees_[name];
        if (frame.next < callees.size()) {
          const std::string& callee = callees[frame.next++];
          if (!signatures_.count(callee)) continue;
          if (!index.count(callee))
            stack.push_back({callee, 0});
          else if (on_stack.count(callee))
            low[name] = std::min(low[name], index[callee]);
          continue;
        }
        if (frame.next++ == callees.size() && low[name] == index[name]) {
          std::vector<std::string> group;
          do {
            group.push_back(open.back());
            on_stack.erase(open.back());
            open.pop_back();
          } while (group.back() != name);
          out.push_back(std::move(group));
        }
        stack.pop_back();
        if (!stack.empty()) low[stack.back().name] = std::min(low[stack.back().name], low[name]);
      }
    }
    return out;
  }

  void infer(const std::vector<std::string>& group) {
    std::vector<std::string> open;  // results that are not declared
    for (const std::string& name : group) {
      const auto* t = signatures_[name].as<FuncType>();
      if (!t->ret) {
        open.push_back(name);
        signatures_[name] = make<FuncType>(t->params, op::incomplete_type(), false, t->type_params);
      }
    }
    constexpr int kMaxRounds = 8;
    const bool recursive = group.size() > 1 || std::ranges::count(callees_[group[0]], group[0]) > 0;
    for (int round = 0; round < kMaxRounds; ++round) {
      bool changed = false;
      for (const std::string& name : group) changed |= infer(name, round + 2 == kMaxRounds);
      if (!changed || open.empty() || !recursive) break;
    }
    // Functions that never return give nothing to infer from.
    bool unknown = false;
    for (const std::string& name : open) {
      const auto* t = signatures_[name].as<FuncType>();
      if (!op::is_incomplete(t->ret)) continue;
      signatures_[name] = make<FuncType>(t->params, object_type(), false, t->type_params);
      unknown = true;
    }
    if (unknown)
      for (const std::string& name : group) infer(name, true);
    for (const std::string& name : group) finish(name);
    if (recursive)  // those inferred first knew less of the others
      for (const std::string& name : group) out_[name] = with_callee_types(name, out_[name]);
  }

  /// One round for one function; true when its signature says something new. `last`: what is still unknown
  /// stays so.
  bool infer(const std::string& name, bool last) {
    const Ref<Function> f = with_callee_types(name, module_.find(name).cast<Function>());
    Ref<Function> out = InferTypes(symbols_, open_, problems_).run(f);
    Type result = result_of(out->body)->type;
    if (!result) {
      op::Inference run;
      run.open = open_;
      run.within_memory = true;
      result = op::infer_type(run, result_of(out->body));
      for (const Diagnostic& d : run.problems.all()) add_problem(problems_, d, f->origin);
    }
    if (!out->body->type && result) {
      Expr body = out->body;
      body.edit()->type = result;
      out.edit()->body = body;
    }
    out_[name] = out;
    if (f->ret_type && result && op::conflict(f->ret_type, result, open_)) {
      const Span span = f->origin ? f->origin->span : Span{};
      problems_.add("T1105",
                    fmt::format("function `{}` is declared to give {} and gives {}", name, print(f->ret_type),
                                print(result)),
                    span);
    }
    if (last && op::is_incomplete(result)) result = object_type();
    if (result) result = outside(*f, result);
    const auto* t = signatures_[name].as<FuncType>();
    if (f->ret_type || structural_equal(t->ret, result)) return false;
    signatures_[name] = make<FuncType>(t->params, result, false, t->type_params);
    return true;
  }
  void finish(const std::string& name) {
    Ref<Function>& out = out_[name];
    const Type result = signatures_[name].as<FuncType>()->ret, own = result_of(out->body)->type;
    const Type known = op::is_incomplete(result) ? object_type() : result;
    const Type shown = own ? outside(*out, own) : own;
    const Type best = shown && op::knowledge(shown) > op::knowledge(known) ? shown : known;
    if (op::knowledge(best) <= op::knowledge(out->ret_type)) return;
    out.edit()->ret_type = best;
    const auto* t = signatures_[name].as<FuncType>();
    signatures_[name] = make<FuncType>(t->params, best, false, t->type_params);  // callers know it, too
  }
  /// Sizes that the function names itself mean nothing to its callers.
  static Type outside(const Function& f, const Type& result) {
    std::vector<tir::VarRef> scope;
    for (const VarRef& p : f.params) symbols_of(p->declared ? p->declared : p->type, scope);
    return seen_outside(result, scope);
  }

  IRModule module_;
  op::OpenTypes* open_;
  std::vector<std::pair<std::string, Ref<Function>>> functions_;
  std::map<std::string, Type> signatures_;
  std::map<std::string, std::vector<std::string>> callees_;
  std::set<std::string> callers_;  ///< functions that name others, or constructors
  std::map<std::string, Ref<Function>> out_;
  DiagnosticList problems_;
  SizeSymbols symbols_;
};

}  // namespace
}  // namespace graph

static IRModule infer_types(IRModule module, PassContext&) {
  module = graph::with_parameter_types(std::move(module), [](IRModule& with_open, op::OpenTypes& open) {
    graph::ModuleInference inference(with_open, &open);
    with_open = inference.run();
    return inference.problems();
  });
  graph::ModuleInference inference(std::move(module), nullptr);
  module = inference.run();
  inference.problems().throw_if_any();
  return module;
}

const Pass& infer_types_pass = register_pass({
    .name = "infer_types",
    .run = infer_types,
    .level = 0,
    .summary = "types of all values, from the parameters on",
});

}  // namespace tenon
