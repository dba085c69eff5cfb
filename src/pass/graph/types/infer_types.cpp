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
#include "pass/graph/passes.h"
#include "pass/graph/types/name_sizes.h"
#include "pass/graph/types/open_types.h"

namespace tenon {
namespace graph {
namespace {

class InferTypes : public SizeNaming {
 public:
  using SizeNaming::SizeNaming;
  DiagnosticList* problems = nullptr;  ///< where mistakes go; what follows from one has an incomplete type

  /// The function with the types of all values.
  Ref<Function> infer(const Ref<Function>& f) {
    Ref<Function> out = run(f);
    for (auto& [value, type] : inferred_) value.mut()->type = type;
    return out;
  }

 protected:
  Expr visit(const Expr& old, const VarRef& var) override {
    Expr value = with_named_sizes(old, var);
    if (!value->type) type(value);
    if (const auto* loop = value.as<While>()) check_turns(*loop, value->origin ? value->origin : var->origin);
    const Type declared = var->declared;
    if (!declared || value.is<Function>()) return value;
    if (value.same_as(old)) {
      keep_declared(value, var);
      return value;
    }
    if (is_declared_as(value, var)) return value;
    // What is declared of sizes that the run tells is checked then.
    if (known_shape(declared) && known_shape(value->type)) {
      const VarRef checked = graph::var(var->name, declared);
      const Expr made = emit(value, var->name + "_made");
      splice(make<MatchCastNode>(checked, made, declared));
      return checked;
    }
    if (op::knowledge(declared) > op::knowledge(value->type)) value.mut()->type = declared;
    return value;
  }
  /// A variable whose value now stands over others keeps what it is declared as, as one does whose value
  /// stays what it was: check_types compares the two. Until the function is done the value goes by that type.
  void keep_declared(const Expr& value, const VarRef& var) {
    const Type declared = var->declared;
    if (!(declared.is<TensorType>() || declared.is<TupleType>()) || is_declared_as(value, var) ||
        op::conflict(declared, value->type) || op::knowledge(declared) < op::knowledge(value->type))
      return;
    inferred_.emplace_back(value, value->type);
    value.mut()->type = declared;
  }
  bool is_declared_as(const Expr& value, const VarRef& var) {
    if (op::conflict(var->declared, value->type)) {
      refuse(value, var, value->type);
      return true;
    }
    return structural_equal(var->declared, value->type, false);
  }
  Type retype(const Expr& value, const VarRef& var) override {
    Type t = type(value);
    if (op::OpenTypes* open = op::OpenTypes::current(); open && value.is<Function>())
      if (auto it = open->results.find(var.get()); it != open->results.end())
        if (const Type result = result_of(value.as<Function>()->body)->type) open->note(it->second, result);
    if (op::is_incomplete(t)) return var->declared ? Type() : t;
    if (t && var->declared && op::conflict(var->declared, t)) {
      refuse(value, var, t);
      return {};
    }
    return t && op::knowledge(t) > op::knowledge(var->declared) ? t : Type();
  }
  void enter_match(const Match& match, const Expr& value) override {
    const Type t = infer_value(value);
    try {
      for (const MatchClause& c : match.clauses)
        op::infer_pattern(c->pattern, op::is_incomplete(t) ? object_type() : t, place(match.origin));
    } catch (const DiagnosticError& e) {
      for (const Diagnostic& d : e.diagnostics) problem(d, match.origin);
    }
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
  /// Notes a mistake, with the line of the text where that is its place.
  void problem(Diagnostic d, const Origin& at) {
    if (d.location.empty()) d.location = place(at);
    if (at && at->span && d.location == at->span.to_string()) d.span = at->span;
    for (const Diagnostic& told : problems->all())  // the rounds of a recursive function meet it again
      if (told.code == d.code && told.location == d.location && told.message == d.message) return;
    problems->add(std::move(d));
  }
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
  void check_turns(const While& loop, const Origin& at) {
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
        if (v->declared && given && !op::has_incomplete(given) && op::conflict(v->declared, given))
          problem({"T1105",
                   fmt::format("the loop's variable `{}` is declared as {} and {} a value of type {}",
                               v->name, print(v->declared), what, print(given)),
                   {},
                   {},
                   {}},
                  at);
    }
  }
  Type type(const Expr& value) {
    if (const auto* call = value.as<Call>())
      for (const Expr& a : call->args)
        if (a.is<Tuple>() && !a->type) Expr(a).mut()->type = infer_value(a);
    op::Inference run;
    Type t = op::infer_type(run, value);
    for (const Diagnostic& d : run.problems.all()) problem(d, value->origin);
    if (!t) t = op::incomplete_type();
    if (const auto* f = value.as<Function>(); f && t.is<FuncType>()) t = without_own_sizes(*f, t);
    if (t && op::knowledge(t) >= op::knowledge(value->type)) value.mut()->type = t;
    if (const auto* f = value.as<Function>(); f && !f->ret_type && t.is<FuncType>() && !op::has_incomplete(t))
      value.cast<Function>().mut()->ret_type = t.as<FuncType>()->ret;
    return value->type;
  }

  std::vector<std::pair<Expr, Type>> inferred_;  ///< values that go by their variables' types
};

/// The text leaves types of the function open.
bool has_holes(const Type& declared) {
  const auto* t = declared.as<FuncType>();
  return !t || !t->ret || std::any_of(t->params.begin(), t->params.end(), [](const Type& p) { return !p; });
}

/// Closures may call themselves, and those before them: their variables have types before any body is walked.
void announce_closures(const Expr& body) {
  for_each_binding(body, [](const Binding& b) {
    const auto* f = binding_value(b).as<Function>();
    const VarRef v = binding_var(b);
    if (!f || !has_holes(v->declared)) return;
    Type t = op::function_type(*f);
    if (const op::OpenTypes* open = op::OpenTypes::current())
      if (auto it = open->results.find(v.get()); it != open->results.end())
        t = make<FuncType>(t.as<FuncType>()->params, make<TypeVar>(it->second), false, f->type_params);
    if (v->declared && structural_equal(v->declared, t)) return;
    VarRef(v).mut()->declared = VarRef(v).mut()->type = t;
  });
}

/// Types are facts beside the nodes: sequences and functions get theirs in place.
void finish(const Expr& body) {
  auto* s = body.as<SeqExpr>();
  if (s && !body->type) body.mut()->type = s->body->type;
}

/// Functions in the order of their calls, so that a result's type is there where it is needed. Functions that
/// call each other begin with unknown results and are inferred until nothing changes.
class ModuleInference {
 public:
  /// `lenient`: a mistake ends the inference of its function only; the first is kept.
  explicit ModuleInference(IRModule module, bool lenient = false)
      : module_(std::move(module)), lenient_(lenient) {}

  std::exception_ptr mistake;

  IRModule run() {
    collect();
    for (const std::vector<std::string>& group : groups()) infer(group);
    for (auto& [name, f] : functions_)
      if (out_.count(name) && !out_[name].same_as(f)) module_.set(name, out_[name]);
    problems_.throw_if_any();
    return module_;
  }

 private:
  void collect() {
    for (auto [name, object] : module_.functions())
      if (Ref<Function> f = object.cast<Function>()) functions_.emplace_back(name, f);
    for (auto& [name, f] : functions_) {
      signatures_[name] = op::function_type(*f);
      pre_order(f->body, [&, caller = name](const ObjectRef& n) {
        if (n.is<GlobalVar>()) {
          uses_[n.as<GlobalVar>()->name].push_back(n.cast<ExprNode>());
          callees_[caller].push_back(n.as<GlobalVar>()->name);
        }
        if (const auto* c = n.as<Constructor>(); c && !c->type)
          if (const AdtDef def = module_.find_type(c->data_type);
              def && c->tag >= 0 && size_t(c->tag) < def->constructors.size())
            n.cast<ExprNode>().mut()->type = op::constructor_type(def, size_t(c->tag));
        return !n.is<TypeNode>() && !n.is<tir::PrimExprNode>();
      });
    }
    for (auto& [name, f] : functions_) tell(name);
  }
  /// Every use of the function by name knows its type.
  void tell(const std::string& name) {
    for (const Expr& g : uses_[name]) Expr(g).mut()->type = signatures_[name];
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
        tell(name);
      }
    }
    constexpr int kMaxRounds = 8;
    for (int round = 0; round < kMaxRounds; ++round) {
      bool changed = false;
      for (const std::string& name : group) changed |= infer(name, round + 2 == kMaxRounds);
      const bool recursive = group.size() > 1 || std::ranges::count(callees_[name_of(group)], group[0]) > 0;
      if (!changed || open.empty() || !recursive) break;
    }
    // Functions that never return give nothing to infer from.
    bool unknown = false;
    for (const std::string& name : open) {
      const auto* t = signatures_[name].as<FuncType>();
      if (!op::is_incomplete(t->ret)) continue;
      signatures_[name] = make<FuncType>(t->params, object_type(), false, t->type_params);
      tell(name);
      unknown = true;
    }
    if (unknown)
      for (const std::string& name : group) infer(name, true);
    for (const std::string& name : group) finish(name);
  }
  static const std::string& name_of(const std::vector<std::string>& group) { return group[0]; }

  /// One round for one function; true when its signature says something new. `last`: what is still unknown
  /// stays so.
  bool infer(const std::string& name, bool last) {
    const Ref<Function> f = function(name);
    InferTypes rewriter(symbols_);
    rewriter.problems = &problems_;
    Ref<Function> out;
    announce_closures(f->body);
    try {
      out = rewriter.infer(f);
    } catch (const DiagnosticError&) {
      if (!lenient_) throw;
      if (!mistake) mistake = std::current_exception();
      out_[name] = f;
      return false;
    }
    tenon::graph::finish(out->body);
    out_[name] = out;
    Type result = result_of(out->body)->type;
    if (!result) result = infer_value(result_of(out->body));
    if (f->ret_type && result && op::conflict(f->ret_type, result)) {
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
    tell(name);
    return true;
  }
  void finish(const std::string& name) {
    Ref<Function>& out = out_[name];
    const Type result = signatures_[name].as<FuncType>()->ret, own = result_of(out->body)->type;
    const Type known = op::is_incomplete(result) ? object_type() : result;
    const Type shown = own ? outside(*out, own) : own;
    const Type best = shown && op::knowledge(shown) > op::knowledge(known) ? shown : known;
    if (op::knowledge(best) > op::knowledge(out->ret_type)) out.edit()->ret_type = best;
  }
  /// Sizes that the function names itself mean nothing to its callers.
  static Type outside(const Function& f, const Type& result) {
    std::vector<tir::VarRef> scope;
    for (const VarRef& p : f.params) symbols_of(p->declared ? p->declared : p->type, scope);
    return seen_outside(result, scope);
  }
  Ref<Function> function(const std::string& name) const { return module_.find(name).cast<Function>(); }

  IRModule module_;
  std::vector<std::pair<std::string, Ref<Function>>> functions_;
  std::map<std::string, Type> signatures_;
  std::map<std::string, std::vector<Expr>> uses_;
  std::map<std::string, std::vector<std::string>> callees_;
  std::map<std::string, Ref<Function>> out_;
  DiagnosticList problems_;
  SizeSymbols symbols_;
  bool lenient_ = false;
};

}  // namespace
}  // namespace graph

IRModule infer_types(IRModule module, PassContext&) {
  module = graph::with_parameter_types(std::move(module), [](const IRModule& open) {
    graph::ModuleInference inference(open, true);
    try {
      inference.run();
    } catch (const DiagnosticError&) {
      if (!inference.mistake) inference.mistake = std::current_exception();
    }
    return inference.mistake;
  });
  return graph::ModuleInference(std::move(module)).run();
}

}  // namespace tenon
