// SPDX-License-Identifier: Apache-2.0
// infer_types: every binding's variable gets the type that follows from its value.
//
//   before   lv = R.matmul(x, w)
//   after    lv: R.Tensor((n, 128), dtype="float32") = R.matmul(x, w)
//
// Needs: normal form; parameters with types. Keeps: values; a declared type stays where it says more than
// inference. A user's type errors (T1101 of operators, T1105) are told all at once, each at its place.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/structural.h"
#include "ir/text.h"
#include "op/infer.h"
#include "op/unify.h"
#include "pass/graph/passes.h"
#include "pass/graph/rewriter.h"

namespace tenon {
namespace graph {
namespace {

class InferTypes : public BodyRewriter {
 public:
  DiagnosticList* problems = nullptr;  ///< where mistakes go; what follows from one has an incomplete type

 protected:
  Expr visit(const Expr& value, const VarRef&) override {
    if (!value->type) type(value);
    return value;
  }
  Type retype(const Expr& value, const VarRef& var) override {
    Type t = type(value);
    if (op::is_incomplete(t)) return var->declared ? Type() : t;
    if (t && var->declared && op::conflict(var->declared, t)) {
      problem({"T1105",
               fmt::format("`{}` is declared as {} and its value has type {}", var->name,
                           print(var->declared), print(t)),
               {},
               {},
               {}},
              value->origin ? value->origin : var->origin);
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
  static std::string place(const Origin& o) { return !o ? "" : o->span ? o->span.to_string() : o->text; }
  /// Notes a mistake, with the line of the text where that is its place.
  void problem(Diagnostic d, const Origin& at) {
    if (d.location.empty()) d.location = place(at);
    if (at && at->span && d.location == at->span.to_string()) d.span = at->span;
    for (const Diagnostic& told : problems->all())  // the rounds of a recursive function meet it again
      if (told.code == d.code && told.location == d.location && told.message == d.message) return;
    problems->add(std::move(d));
  }
  Type type(const Expr& value) {
    Type t;
    try {
      t = infer_value(value);
    } catch (const DiagnosticError& e) {
      for (const Diagnostic& d : e.diagnostics) problem(d, value->origin);
      t = op::incomplete_type();
    }
    if (t && op::knowledge(t) >= op::knowledge(value->type)) value.mut()->type = t;
    if (const auto* f = value.as<Function>(); f && !f->ret_type && t.is<FuncType>())
      value.cast<Function>().mut()->ret_type = t.as<FuncType>()->ret;
    return value->type;
  }
};

/// Types are facts beside the nodes: sequences and functions get theirs in place.
void finish(const Expr& body) {
  auto* s = body.as<SeqExpr>();
  if (s && !body->type) body.mut()->type = s->body->type;
}

/// Functions in the order of their calls, so that a result's type is there where it is needed. Functions that
/// call each other begin with unknown results and are inferred until nothing changes.
class ModuleInference {
 public:
  explicit ModuleInference(IRModule module) : module_(std::move(module)) {}

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
    InferTypes rewriter;
    rewriter.problems = &problems_;
    Ref<Function> out = rewriter.run(f);
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
    const Type best = own && op::knowledge(own) > op::knowledge(known) ? own : known;
    if (op::knowledge(best) > op::knowledge(out->ret_type)) out.edit()->ret_type = best;
  }
  Ref<Function> function(const std::string& name) const { return module_.find(name).cast<Function>(); }

  IRModule module_;
  std::vector<std::pair<std::string, Ref<Function>>> functions_;
  std::map<std::string, Type> signatures_;
  std::map<std::string, std::vector<Expr>> uses_;
  std::map<std::string, std::vector<std::string>> callees_;
  std::map<std::string, Ref<Function>> out_;
  DiagnosticList problems_;
};

}  // namespace
}  // namespace graph

IRModule infer_types(IRModule module, PassContext&) {
  return graph::ModuleInference(std::move(module)).run();
}

}  // namespace tenon
