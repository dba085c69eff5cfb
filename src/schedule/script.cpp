// SPDX-License-Identifier: Apache-2.0
// Traces as a script: the calls that a person would write, printed and read by the records of the primitives.
//
//   c = sch.get_block("C")
//   i, j, k = sch.get_loops(c)
//   sch.reorder([k, j])
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "ir/parse_syntax.h"
#include "ir/text.h"
#include "schedule/trace_text.h"

namespace tenon {

using sched::handle_text;
using sched::read_handle;
using script::Ast;
using script::ExprKind;

namespace {

std::string value_text(const Any& v) {
  if (auto h = to_handle(v)) return handle_text(*h);
  if (auto s = v.try_as<std::string>()) return nlohmann::json(*s).dump();
  if (v.tag() == kBool) return v.as<bool>() ? "True" : "False";
  if (v.tag() == kInt) return fmt::format("{}", v.as<int64_t>());
  if (v.tag() == kFloat) return nlohmann::json(v.as<double>()).dump();
  if (v.tag() == kDataType) return nlohmann::json(to_string(v.as<DataType>())).dump();
  if (auto a = v.try_as<Array<Any>>()) {
    std::string out;
    for (const Any& x : *a) out += (out.empty() ? "" : ", ") + value_text(x);
    return "[" + out + "]";
  }
  if (auto map = v.try_as<IndexMap>()) return tenon::to_text(*map);
  if (auto e = v.try_as<PrimExpr>()) return print(*e);
  sched::bad_trace("a " + v.kind_name() + " has no text");
}

/// Reads the steps of a script; mistakes are collected.
class Reader {
 public:
  Reader(const script::Tree& tree, DiagnosticList& problems) : tree_(tree), problems_(problems) {}

  Trace run() {
    for (const script::AstStmt* s : tree_.top)  // names like b3 keep their number
      for (const Ast* name : targets(s))
        if (const auto h = read_handle(name->text)) next_ = std::max(next_, h->id + 1);
    Trace trace;
    for (const script::AstStmt* s : tree_.top) {
      if (s->kind == script::StmtKind::failed || s->kind == script::StmtKind::pass) continue;
      const bool plain = s->kind == script::StmtKind::expr;
      const bool assigned =
          s->kind == script::StmtKind::assign && s->value && !s->annotation && s->name.empty();
      const Ast* call = s->value;
      if ((!plain && !assigned) || call->kind != ExprKind::call ||
          call->items[0]->kind != ExprKind::attribute || call->items[0]->items[0]->kind != ExprKind::name) {
        fail("this is no step", {tree_.source, s->begin, s->end},
             "a step is written NAMES = sch.PRIMITIVE(ARGUMENTS)");
        continue;
      }
      if (auto step = this->step(call)) {
        const std::vector<const Ast*> names = targets(s);
        if (!step->primitive->result && !names.empty())
          fail(fmt::format("{} makes nothing that has a name", step->primitive->name), span(names[0]));
        else if (step->primitive->result_list && s->target && s->target->kind == ExprKind::name)
          fail(fmt::format("{} makes a list", step->primitive->name), span(s->target),
               "name each item: a, b = …, or a, = … for one");
        else
          for (const Ast* name : names) {
            if (name->kind != ExprKind::name) fail("this is no name", span(name));
            step->results.push_back(define(name->text, *step->primitive->result));
          }
        trace.steps.push_back(std::move(*step));
      }
    }
    return trace;
  }

 private:
  Span span(const Ast* a) const { return {tree_.source, a->begin, a->end}; }
  void fail(std::string why, Span where, std::string hint = {}) {
    problems_.add("T0790", std::move(why), std::move(where), std::move(hint));
  }
  static std::vector<const Ast*> targets(const script::AstStmt* s) {
    if (s->kind != script::StmtKind::assign || !s->target) return {};
    if (s->target->kind == ExprKind::tuple || s->target->kind == ExprKind::list) return s->target->items;
    return {s->target};
  }
  Handle define(const std::string& name, HandleKind kind) {
    const auto own = read_handle(name);
    const Handle h = own && own->kind == kind ? *own : Handle{kind, next_++};
    names_[name] = h;
    return h;
  }

  std::optional<TraceStep> step(const Ast* call) {
    TraceStep s;
    s.primitive = find_primitive(call->items[0]->text);
    if (!s.primitive) {
      fail(fmt::format("there is no primitive '{}'", call->items[0]->text), span(call->items[0]));
      return {};
    }
    const std::vector<Parameter>& parameters = s.primitive->parameters;
    s.args.resize(parameters.size());
    std::vector<bool> given(parameters.size());
    auto take = [&](size_t i, const Ast* a) {
      if (given[i]) fail(fmt::format("'{}' is given twice", parameters[i].name), span(a));
      given[i] = true;
      s.args[i] = value(a, parameters[i].type);
    };
    for (size_t i = 1; i < call->items.size(); ++i) {
      if (i > parameters.size()) {
        fail(fmt::format("{} takes {} arguments", s.primitive->name, parameters.size()), span(call->items[i]),
             signature(*s.primitive));
        break;
      }
      take(i - 1, call->items[i]);
    }
    for (const auto& [name, a] : call->named) {
      size_t i = 0;
      while (i < parameters.size() && parameters[i].name != name) ++i;
      if (i == parameters.size())
        fail(fmt::format("{} has no parameter '{}'", s.primitive->name, name), span(a),
             signature(*s.primitive));
      else
        take(i, a);
    }
    return s;
  }

  Any value(const Ast* a, ParameterType type) {
    switch (a->kind) {
      case ExprKind::list:
      case ExprKind::tuple: {
        Array<Any> out;
        for (const Ast* x : a->items) out.push_back(value(x, type));
        return Any(out);
      }
      case ExprKind::name:
        if (a->text == "None") return {};
        if (a->text == "True" || a->text == "False") return Any(a->text == "True");
        if (auto it = names_.find(a->text); it != names_.end()) return to_any(it->second);
        break;
      case ExprKind::string: {
        DataType t;
        if (type != ParameterType::dtype) return Any(a->text);
        if (parse_dtype(a->text, &t)) return Any(t);
        fail(fmt::format("'{}' is no data type", a->text), span(a));
        return {};
      }
      case ExprKind::integer:
        if (type != ParameterType::expression) return Any(a->integer);
        break;
      case ExprKind::number:
        if (type != ParameterType::expression) return Any(a->number);
        break;
      case ExprKind::unary:
        if (type == ParameterType::expression || a->text != "-") break;
        if (a->items[0]->kind == ExprKind::integer) return Any(int64_t(-uint64_t(a->items[0]->integer)));
        if (a->items[0]->kind == ExprKind::number) return Any(-a->items[0]->number);
        break;
      case ExprKind::lambda: {
        std::map<std::string, tir::VarRef> known;
        Array<tir::VarRef> inputs;
        Array<PrimExpr> outputs;
        for (const std::string& name : a->params) {
          inputs.push_back(tir::var(name));
          known[name] = inputs.back();
        }
        sizes(a->items[0], known);
        const bool several = a->items[0]->kind == ExprKind::tuple || a->items[0]->kind == ExprKind::list;
        for (const Ast* x : several ? a->items[0]->items : std::vector<const Ast*>{a->items[0]})
          outputs.push_back(script::prim_expr(tree_, x, known, problems_));
        return Any(make<IndexMapNode>(inputs, outputs));
      }
      default:
        break;
    }
    if (a->kind == ExprKind::name) {
      fail(fmt::format("nothing is named '{}' here", a->text), span(a));
      return {};
    }
    std::map<std::string, tir::VarRef> known;
    sizes(a, known);
    return Any(script::prim_expr(tree_, a, known, problems_));
  }
  /// Names that are neither defined nor a namespace stand for sizes of the program.
  void sizes(const Ast* a, std::map<std::string, tir::VarRef>& known) {
    if (!a || a->kind == ExprKind::attribute) return;
    if (a->kind == ExprKind::name && a->text != "True" && a->text != "False")
      if (auto& v = known[a->text]; !v) v = tir::var(a->text);
    for (const Ast* x : a->items) sizes(x, known);
    for (const auto& [name, x] : a->named) sizes(x, known);
  }
  const script::Tree& tree_;
  DiagnosticList& problems_;
  std::map<std::string, Handle> names_;
  int32_t next_ = 0;
};

}  // namespace

std::string signature(const Primitive& p) {
  std::string out;
  for (const Parameter& x : p.parameters) {
    out += (out.empty() ? "" : ", ") + std::string(x.name);
    if (x.fallback) out += "=" + (!x.fallback->is_none() ? value_text(*x.fallback) : x.list ? "[]" : "None");
  }
  return fmt::format("{}({})", p.name, out);
}

std::string Trace::to_script() const {
  std::string out;
  for (const TraceStep& s : steps) {
    const Primitive& p = *s.primitive;
    for (size_t i = 0; i < s.results.size(); ++i) out += (i ? ", " : "") + handle_text(s.results[i]);
    if (!s.results.empty()) out += s.results.size() == 1 && p.result_list ? ", = " : " = ";
    // Names and handles come first and need no keyword.
    std::string args;
    bool positional = true;
    for (size_t i = 0; i < s.args.size(); ++i) {
      positional = positional && (is_handle(p.parameters[i].type) || p.kind == StepKind::query);
      const bool empty_list = p.parameters[i].list && !p.parameters[i].fallback;
      if (s.args[i].is_none() && !empty_list) continue;
      args += args.empty() ? "" : ", ";
      if (!positional) args += std::string(p.parameters[i].name) + "=";
      args += s.args[i].is_none() ? "[]" : value_text(s.args[i]);
    }
    out += fmt::format("sch.{}({})\n", p.name, args);
  }
  return out;
}

Trace Trace::from_script(std::string_view text) {
  DiagnosticList problems;
  const std::unique_ptr<script::Tree> tree = script::parse_syntax(text, "<schedule>", problems);
  Trace trace = Reader(*tree, problems).run();
  problems.throw_if_any();
  return trace;
}

}  // namespace tenon
