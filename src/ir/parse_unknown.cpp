// SPDX-License-Identifier: Apache-2.0
// A statement ends at its first mistake. What else it names that nothing defines is said, too, so that one
// run tells all: names, functions of the module, operators and intrinsics.
#include <fmt/format.h>

#include <algorithm>

#include "ir/parse_impl.h"

namespace tenon::script {

/// The expressions of one statement, its bodies left out.
struct Converter::Unknown {
  Converter& c;
  bool graph;                          ///< a graph function's statement, or one of a tensor program
  std::vector<const Ast*> found = {};  ///< names, in the order of the text
  std::unordered_set<std::string> said = {};

  void run(const AstStmt* s) {
    if (s->kind == StmtKind::def) {  // @R.loop(x, y): the other decorators name no values
      for (const Ast* d : s->decorators) arguments(d, false);
      return report();
    }
    if (s->target && s->target->kind == ExprKind::subscript) expression(s->target, true);
    for (const Ast* context : s->contexts) root(context, false);
    // A call that is a statement, a loop's domain or the value of a name has forms of its own.
    const bool form = s->kind == StmtKind::for_ || s->kind == StmtKind::expr ||
                      (s->kind == StmtKind::assign && s->target && s->target->kind == ExprKind::name);
    root(s->value, !form);
    report();
  }

 private:
  /// `judged`: whether the outermost call is of a function like any other.
  void root(const Ast* a, bool judged) {
    if (!a) return;
    if (judged || a->kind != ExprKind::call) return expression(a, true);
    arguments(a, false);
  }
  /// `is_value`: stands where a value is wanted, so that a call is that of an operator or intrinsic.
  void expression(const Ast* a, bool is_value) {
    if (!a) return;
    switch (a->kind) {
      case ExprKind::name:
        return name(a);
      case ExprKind::attribute:  // A.data; R.add and Module.f are no names of values
        if (c.path(a).empty()) expression(a->items[0], is_value);
        return;
      case ExprKind::call:
        head(a, is_value);
        return arguments(a, is_value);
      case ExprKind::lambda:  // binds names of its own
      case ExprKind::object:
        return;
      default:
        for (const Ast* item : a->items) expression(item, is_value);
    }
  }
  void arguments(const Ast* call, bool is_value) {
    if (call->kind != ExprKind::call) return;
    const std::string p = c.path(call->items[0]);
    if (p == "T.Let") return;  // binds a name of its own
    // Sizes in the declared type are defined by it.
    const bool defines = p == "T.match_buffer" || p == "R.match_cast" || p == "R.match_shape";
    for (size_t i = 1; i < call->items.size(); ++i)
      if (i == 1 || !defines) expression(call->items[i], is_value || graph || p.starts_with("T.axis."));
    for (const auto& [key, value] : call->named)
      if (!defines) expression(value, false);
  }
  void head(const Ast* call, bool is_value) {
    const Ast* h = call->items[0];
    if (h->kind == ExprKind::call) return expression(h, is_value);
    if (h->kind == ExprKind::attribute && c.path(h).empty()) return expression(h->items[0], is_value);
    if (const std::string f = c.member_of_module(h); !f.empty()) {
      if (!c.functions_.count(f)) c.judge_head(call, graph);
      return;
    }
    const std::string p = c.path(h);
    const bool of_kind = p.starts_with(graph ? "R." : "T.");
    // Types begin with a capital letter.
    if (of_kind && p.size() > 2 && is_value && std::islower(uint8_t(p[2]))) c.judge_head(call, graph);
  }
  void name(const Ast* a) {
    const std::string& n = a->text;
    if (n == "None" || n == "True" || n == "False" || n == "_" || n == "...") return;
    if (c.lookup(n) || c.aliases_.count(n) || c.names_module(n)) return;
    if (graph && (c.functions_.count(n) || c.constructor(a))) return;
    if (c.is_said("T0220", a))
      said.insert(n);
    else
      found.push_back(a);
  }
  void report() {
    for (const Ast* a : found)
      if (said.insert(a->text).second)
        c.problems_.add("T0220", fmt::format("nothing is named `{}` here", a->text), c.span(a),
                        c.suggestion(a->text));
  }
};

bool Converter::is_said(std::string_view code, const Ast* a) const {
  return std::any_of(problems_.all().begin(), problems_.all().end(), [&](const Diagnostic& d) {
    return d.code == code && d.span.source == tree_->source && d.span.begin == a->begin;
  });
}

/// Says whether a call's function is unknown, and nothing of what the call lacks otherwise.
void Converter::judge_head(const Ast* call, bool graph) {
  const Ast* head = call->items[0];
  if (is_said("T0222", head) || is_said("T0220", head)) return;
  Ast bare = *call;
  bare.items = {head};
  bare.named.clear();
  judged_ = head;
  try {
    Sequence seq;
    if (graph)
      graph_call(&bare, seq, nullptr);
    else
      this->call(&bare);
  } catch (const Failed&) {
  } catch (const DiagnosticError&) {  // of an operator that is given nothing
  }
  judged_ = nullptr;
}

void Converter::other_unknown(const AstStmt* s, bool graph) { Unknown{*this, graph}.run(s); }

void Converter::poison_declared(const AstStmt* s) {
  poison(s->target);
  for (const Ast* t : s->targets) poison(t);
  if (s->kind == StmtKind::def && !lookup(s->name)) bind(s->name, make<PoisonObj>());
  // The last statement of a branch or a case assigns what the whole binds.
  if ((s->kind == StmtKind::if_ || s->kind == StmtKind::match_ || s->kind == StmtKind::case_) &&
      !s->body.empty())
    poison_declared(s->body.back());
  if (!s->value || !(is_call(s->value, "R.match_cast") || is_call(s->value, "R.match_shape"))) return;
  // The sizes of the type that it would have defined.
  std::vector<const Ast*> rest;
  for (size_t i = 2; i < s->value->items.size(); ++i) rest.push_back(s->value->items[i]);
  for (const auto& [key, value] : s->value->named) rest.push_back(value);
  while (!rest.empty()) {
    const Ast* a = rest.back();
    rest.pop_back();
    if (!a) continue;
    if (a->kind == ExprKind::name && a->text != "None") poison(a);
    if (a->kind != ExprKind::attribute) rest.insert(rest.end(), a->items.begin(), a->items.end());
  }
}

}  // namespace tenon::script
