// SPDX-License-Identifier: Apache-2.0
// Script text of graph programs: functions, bindings, dataflow regions, types.
#include <fmt/format.h>

#include "ir/parse_spelling.h"
#include "ir/print_impl.h"
#include "ir/structural.h"

namespace tenon::print_detail {
using namespace graph;

// ---------------------------------------------------------------- types
void Printer::type(const Type& t) {
  if (!t) {
    out_ += "None";
    return;
  }
  if (too_deep()) return;
  match(
      t,
      [&](const TensorType& n) {
        out_ += "R.Tensor(";
        std::string separator;
        auto item = [&](std::string_view prefix) {
          out_ += separator;
          out_ += prefix;
          separator = ", ";
        };
        const auto* shape = n.shape.as<ShapeExpr>();
        if (shape) {
          item("");
          shape_tuple(shape->values);
        } else if (n.shape) {
          item("");
          graph_expr(n.shape);
        }
        if (!n.dtype.is_void()) {
          item(n.shape ? "" : "dtype=");
          out_ += quoted(to_string(n.dtype));
        }
        if (shape ? n.ndim != int64_t(shape->values.size()) : n.ndim != -1) {
          item("ndim=");
          out_ += std::to_string(n.ndim);
        }
        if (!n.device.empty()) {
          item("device=");
          out_ += quoted(n.device);
        }
        out_ += ')';
      },
      [&](const ShapeType& n) {
        if (n.known) {
          out_ += "R.Shape([";
          exprs(n.values);
          out_ += "])";
        } else {
          out_ += fmt::format("R.Shape(ndim={})", n.ndim);
        }
      },
      [&](const PrimType& n) {
        out_ += fmt::format("R.Prim(\"{}\"", to_string(n.dtype));
        if (n.value) {
          out_ += ", value=";
          expr(n.value);
        }
        out_ += ')';
      },
      [&](const TupleType& n) {
        out_ += "R.Tuple(";
        list(n.items, [&](const Type& x) { type(x); });
        out_ += ')';
      },
      [&](const FuncType& n) {
        out_ += "R.Callable(";
        if (n.opaque)
          out_ += "ret=";
        else {
          out_ += '(';
          list(n.params, [&](const Type& x) { type(x); });
          out_ += n.params.size() == 1 ? ",), " : "), ";
        }
        type(n.ret);
        if (!n.type_params.empty()) {
          out_ += ", type_params=[";
          list(n.type_params, [&](const std::string& x) { out_ += quoted(x); });
          out_ += ']';
        }
        out_ += n.opaque ? ", opaque=True)" : ")";
      },
      [&](const ObjectType&) { out_ += "R.Object"; },
      [&](const RefType& n) {
        out_ += "R.Ref(";
        type(n.value);
        out_ += ')';
      },
      [&](const AdtType& n) {
        out_ += "cls." + n.name;
        if (n.args.empty()) return;
        out_ += '[';
        list(n.args, [&](const Type& x) { type(x); });
        out_ += ']';
      },
      [&](const TypeVar& n) { out_ += n.name; },
      [&](const OpenType& n) { out_ += "?" + std::to_string(n.id); });
  --depth_;
}

// ---------------------------------------------------------------- expressions
void Printer::call_expr(const Call& c) {
  const auto* op = c.op.as<Op>();
  if (op)
    out_ += "R." + op->name;
  else
    graph_expr(c.op);
  out_ += '(';
  std::string separator;
  for (size_t i = 0; i < c.args.size(); ++i) {
    out_ += separator;
    separator = ", ";
    const auto* symbol = op && i == 0 ? c.args[i].as<ExternFunc>() : nullptr;
    if (op && i < op->arguments.size() && !script::is_read_by_place(op->name, i, op->arguments[i].name))
      out_ += op->arguments[i].name + "=";
    if (symbol)
      out_ += quoted(symbol->symbol);
    else
      graph_expr(c.args[i]);
  }
  if (c.attrs && op && op->attrs_type && type_of(c.attrs) == op->attrs_type) {
    for (const FieldInfo& f : op->attrs_type->fields) {
      out_ += separator;
      separator = ", ";
      out_ += std::string(f.name) + "=";
      const Any value = f.get(c.attrs.get());
      if (auto dtype = value.try_as<DataType>())
        out_ += quoted(to_string(*dtype));
      else
        any(value);
    }
  } else if (c.attrs) {
    out_ += separator + "attrs=I.json(" + quoted(to_json(c.attrs)) + ")";
    separator = ", ";
  } else if (op && op->attrs_type) {
    out_ += separator + "attrs=None";
    separator = ", ";
  }
  if (!c.type_args.empty()) {
    out_ += separator + (op && op->name.starts_with("call_") && op->name != "call_packed" &&
                                 op->name != "call_pure_packed"
                             ? "out_sinfo="
                             : "sinfo_args=");
    if (c.type_args.size() == 1)
      type(c.type_args[0]);
    else {
      out_ += '[';
      list(c.type_args, [&](const Type& t) { type(t); });
      out_ += ']';
    }
  }
  out_ += ')';
}

void Printer::graph_expr(const Expr& e) {
  if (!e) {
    out_ += "None";
    return;
  }
  if (too_deep()) return;
  match(
      e, [&](const graph::Var& n) { out_ += var_name(&n); },
      [&](const GlobalVar& n) {
        out_ += is_identifier(n.name) ? "cls." + n.name : "I.GlobalVar(" + quoted(n.name) + ")";
      },
      [&](const Constant& n) { ndarray(n.data, "R.const", "R.const_ref"); },
      [&](const Tuple& n) {
        if (n.items.empty()) {
          out_ += "R.tuple()";
          return;
        }
        out_ += '(';
        list(n.items, [&](const Expr& x) { graph_expr(x); });
        out_ += n.items.size() == 1 ? ",)" : ")";
      },
      [&](const TupleGetItem& n) {
        graph_expr(n.tuple);
        out_ += fmt::format("[{}]", n.index);
      },
      [&](const Call& n) { call_expr(n); }, [&](const Op& n) { out_ += "R.Op(" + quoted(n.name) + ")"; },
      [&](const ExternFunc& n) { out_ += "R.ExternFunc(" + quoted(n.symbol) + ")"; },
      [&](const ShapeExpr& n) {
        out_ += "R.shape([";
        exprs(n.values);
        out_ += "])";
      },
      [&](const PrimValue& n) {
        out_ += "R.prim_value(";
        expr(n.value);
        out_ += ')';
      },
      [&](const StringImm& n) { out_ += "R.str(" + quoted(n.value) + ")"; },
      [&](const DataTypeImm& n) { out_ += "R.dtype(" + quoted(to_string(n.value)) + ")"; },
      [&](const Constructor& n) { out_ += "cls." + n.data_type + "." + n.name; },
      [&](const ExprNode& n) { out_ += "I.json(" + quoted(to_json(ObjectRef(&n))) + ")"; });
  --depth_;
}

// ---------------------------------------------------------------- bindings
void Printer::annotation(const VarRef& v) {
  if (!options_.show_types || !v->declared) return;
  out_ += ": ";
  type(v->declared);
}

void Printer::params(const Array<VarRef>& vars) {
  list(vars, [&](const VarRef& v) {
    out_ += var_name(v.get());
    implicit_ = true;
    annotation(v);
    implicit_ = false;
  });
}

/// Bindings of one branch, then its result under the name of the variable that the `if` binds.
void Printer::branch_result(const Expr& branch, const VarRef& v) {
  Indented in(*this);
  bindings(branch);
  line();
  out_ += var_name(v.get());
  annotation(v);
  out_ += " = ";
  graph_expr(result_of(branch));
}

void Printer::pattern(const Pattern& p, bool outermost) {
  if (too_deep()) return;
  switch (p->kind) {
    case PatternKind::wildcard:
      out_ += '_';
      break;
    case PatternKind::variable: {
      const bool typed = options_.show_types && p->var->declared;
      if (typed && outermost) out_ += '(';
      out_ += var_name(p->var.get());
      implicit_ = true;
      annotation(p->var);
      implicit_ = false;
      if (typed && outermost) out_ += ')';
      break;
    }
    case PatternKind::constructor:
      graph_expr(p->constructor);
      out_ += '(';
      list(p->items, [&](const Pattern& x) { pattern(x, false); });
      out_ += ')';
      break;
    case PatternKind::tuple:
      out_ += '(';
      list(p->items, [&](const Pattern& x) { pattern(x, false); });
      out_ += p->items.size() == 1 ? ",)" : ")";
      break;
  }
  --depth_;
}

void Printer::binding(const Binding& b) {
  if (++depth_ > kPrintDepth) {
    line();
    out_ += "...";
    --depth_;
    return;
  }
  if (const auto* m = b.as<MatchCastNode>()) {
    line();
    std::string value;
    std::swap(value, out_);
    out_ += "R.match_cast(";
    graph_expr(m->value);
    out_ += ", ";
    implicit_ = true;
    type(m->type);
    implicit_ = false;
    out_ += ')';
    std::swap(value, out_);
    out_ += var_name(m->var.get());
    const bool same = m->var->declared && structural_equal(m->var->declared, m->type);
    if (!same && m->var->declared)
      annotation(m->var);
    else if (!m->var->declared)
      out_ += ": None";
    out_ += " = " + value;
    --depth_;
    return;
  }
  const VarRef& v = b->var;
  if (const auto* f = b->value.as<Function>()) {
    Array<Type> types;
    for (const VarRef& p : f->params) types.push_back(p->declared);
    const Type derived = make<FuncType>(types, f->ret_type, false, f->type_params);
    line();
    std::string decorator = "@R.function";
    if (!v->declared)
      decorator += "(declared=None)";
    else if (!structural_equal(v->declared, derived)) {
      std::string text;
      std::swap(text, out_);
      type(v->declared);
      std::swap(text, out_);
      decorator += "(declared=" + text + ")";
    }
    graph_function(var_name(v.get()), *f, decorator);
  } else if (const auto* i = b->value.as<If>()) {
    line();
    out_ += "if ";
    graph_expr(i->condition);
    out_ += ':';
    branch_result(i->true_branch, v);
    line();
    out_ += "else:";
    branch_result(i->false_branch, v);
  } else if (const auto* m = b->value.as<graph::Match>()) {
    line();
    out_ += "match ";
    graph_expr(m->value);
    out_ += ':';
    Indented cases(*this);
    for (const MatchClause& c : m->clauses) {
      line();
      out_ += "case ";
      pattern(c->pattern, true);
      out_ += ':';
      branch_result(c->body, v);
    }
  } else if (const auto* w = b->value.as<While>()) {
    line();
    out_ += "@R.loop(";
    list(w->init, [&](const Expr& x) { graph_expr(x); });
    out_ += ')';
    line();
    const std::string name = var_name(v.get());
    out_ += "def " + name + "(";
    params(w->loop_vars);
    out_ += ')';
    if (v->declared) {
      out_ += " -> ";
      type(v->declared);
    }
    out_ += ':';
    Indented in(*this);
    line();
    out_ += "with R.condition():";
    {
      Indented inner(*this);
      bindings(w->condition);
      line();
      out_ += "return ";
      graph_expr(result_of(w->condition));
    }
    bindings(w->body);
    line();
    out_ += "return ";
    graph_expr(result_of(w->body));
  } else {
    line();
    std::string value;
    std::swap(value, out_);
    graph_expr(b->value);
    std::swap(value, out_);
    out_ += var_name(v.get());
    annotation(v);
    out_ += " = " + value;
  }
  --depth_;
}

void Printer::bindings(const Expr& body) {
  const auto* s = body.as<SeqExpr>();
  if (!s) return;
  bool after_plain = false;  // two plain blocks in a row would be read back as one
  for (const BindingBlock& b : s->blocks) {
    const bool framed = b->dataflow || after_plain || b->bindings.empty();
    after_plain = !b->dataflow && !framed;
    if (!framed) {
      for (const Binding& x : b->bindings) binding(x);
      continue;
    }
    line();
    out_ += b->dataflow ? "with R.dataflow():" : "with R.block():";
    Indented in(*this);
    for (const Binding& x : b->bindings) binding(x);
    if (b->dataflow || !b->outputs.empty()) {
      line();
      out_ += "R.output(";
      list(b->outputs, [&](const VarRef& v) { out_ += var_name(v.get()); });
      out_ += ')';
    } else if (b->bindings.empty()) {
      line();
      out_ += "pass";
    }
  }
}

void Printer::memory_plan(const MemoryPlan& plan) {
  line();
  out_ += "R.memory_plan(";
  std::string separator;
  for (const FieldInfo& f : type_of(&plan)->fields) {
    const Any value = f.get(&plan);
    const auto list = value.try_as<Ref<ArrayObj>>();
    const auto map = value.try_as<Ref<MapObj>>();
    if (value.is_none() || (list && (*list)->items.empty()) || (map && (*map)->items.empty())) continue;
    out_ += separator + std::string(f.name) + "=";
    separator = ", ";
    any(value);
  }
  out_ += ')';
}

void Printer::graph_function(const std::string& name, const Function& f, const std::string& decorator) {
  out_ += decorator;
  line();
  out_ += "def " + name;
  if (!f.type_params.empty()) {
    out_ += '[';
    list(f.type_params, [&](const std::string& x) { out_ += x; });
    out_ += ']';
  }
  out_ += '(';
  params(f.params);
  out_ += ')';
  if (f.ret_type) {
    out_ += " -> ";
    implicit_ = true;
    type(f.ret_type);
    implicit_ = false;
  }
  out_ += ':';
  Indented in(*this);
  if (!f.attrs.empty()) {
    line();
    out_ += "R.func_attr(";
    map(f.attrs);
    out_ += ')';
  }
  if (f.plan) memory_plan(*f.plan);
  bindings(f.body);
  line();
  out_ += "return ";
  graph_expr(result_of(f.body));
}

}  // namespace tenon::print_detail
