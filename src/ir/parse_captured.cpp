// SPDX-License-Identifier: Apache-2.0
// Values of the program around a text (ir/captured.h): they are written into the syntax tree before it is
// converted, so the other files see literals and objects.
#include "ir/captured.h"

#include <fmt/format.h>

#include "ir/bind_nested.h"
#include "ir/parse_impl.h"

namespace tenon::script {
namespace {

/// Writes a value in the place of an expression.
void write(Tree& tree, Ast* a, const Any& value) {
  const std::string shown =
      a->kind == ExprKind::name ? a->text : tree.source->text.substr(a->begin, a->end - a->begin);
  a->items.clear();
  a->named.clear();
  auto item = [&](const Any& x) {
    tree.exprs.emplace_back();
    Ast* n = &tree.exprs.back();
    n->begin = a->begin;
    n->end = a->end;
    write(tree, n, x);
    return n;
  };
  if (value.is_none() || value.tag() == kBool) {
    a->kind = ExprKind::name;
    a->text = value.is_none() ? "None" : value.as<bool>() ? "True" : "False";
  } else if (value.tag() == kInt) {
    a->kind = ExprKind::integer;
    a->integer = value.as<int64_t>();
  } else if (value.tag() == kFloat) {
    a->kind = ExprKind::number;
    a->number = value.as<double>();
  } else if (value.tag() == kDataType) {
    a->kind = ExprKind::string;
    a->text = to_string(value.as<DataType>());
  } else if (const auto text = value.try_as<std::string>()) {
    a->kind = ExprKind::string;
    a->text = *text;
  } else if (const auto list = value.try_as<Ref<ArrayObj>>()) {
    a->kind = ExprKind::tuple;
    for (const Any& x : (*list)->items) a->items.push_back(item(x));
  } else if (const auto map = value.try_as<Ref<MapObj>>()) {
    a->kind = ExprKind::dict;
    for (const auto& [key, x] : (*map)->items) {
      a->items.push_back(item(key));
      a->items.push_back(item(x));
    }
  } else {
    a->kind = ExprKind::object;
    a->text = shown;
    a->object = value.as<ObjectRef>();
  }
}

/// What must be known to say what an expression is.
enum class Needs : uint8_t { nothing, captured, text };

/// Names that the text defines, by scope: what a scope added goes with it.
class BoundNames {
 public:
  void add(const std::string& name) {
    if (names_.insert(name).second) added_.push_back(name);
  }
  void erase(const std::string& name) { names_.erase(name); }
  bool has(const std::string& name) const { return names_.count(name) != 0; }
  size_t mark() const { return added_.size(); }
  void back_to(size_t mark) {
    for (; added_.size() > mark; added_.pop_back()) names_.erase(added_.back());
  }

 private:
  std::unordered_set<std::string> names_;
  std::vector<std::string> added_;
};

class Capture {
 public:
  Capture(Tree& tree, const CapturedValues& values) : tree_(tree), values_(values) {
    for (const auto& [name, module] : values.aliases) bound_.add(name);
    for (const char* name : {"T", "R", "I", "cls", "tvm", "tenon", "script", "_"}) bound_.add(name);
    for (const AstStmt* s : tree.top) bind_members(s);
  }
  void run() {
    for (const AstStmt* s : tree_.top)
      if (s->kind == StmtKind::class_)
        for (const AstStmt* member : s->body) definition(member);
      else
        definition(s);
  }
  /// The statements of a macro: its parameters are given.
  void macro(const AstStmt* s, const std::map<std::string, Any>& arguments) {
    for (const AstStmt* x : s->body) bind_names(x);
    for (const auto& [name, value] : arguments) bound_.erase(name);
    arguments_ = &arguments;
    for (const AstStmt* x : s->body) statement(x);
  }
  void expression(const Ast* a) { whole(a); }

 private:
  // ---- names of the text
  void bind_pattern(const Ast* a) {
    if (!a) return;
    if (a->kind == ExprKind::name) bound_.add(a->text);
    if (a->kind == ExprKind::name || a->kind == ExprKind::tuple || a->kind == ExprKind::list ||
        a->kind == ExprKind::call)
      for (const Ast* x : a->items) bind_pattern(x);
  }
  void bind_members(const AstStmt* s) {
    if (!s->name.empty()) bound_.add(s->name);
    if (s->kind != StmtKind::class_) return;
    for (const AstStmt* member : s->body) {
      if (member->kind == StmtKind::assign) bind_pattern(member->target);
      bind_members(member);
    }
  }
  void bind_names(const AstStmt* s) {
    if (s->kind == StmtKind::def) bound_.add(s->name);
    for (const AstParam& p : s->params) bound_.add(p.name);
    for (const std::string& p : s->type_params) bound_.add(p);
    if (s->kind == StmtKind::assign || s->kind == StmtKind::for_) bind_pattern(s->target);
    if (s->kind == StmtKind::case_) bind_pattern(s->value);
    for (const Ast* t : s->targets) bind_pattern(t);
    for (const AstStmt* x : s->body) bind_names(x);
    for (const AstStmt* x : s->orelse) bind_names(x);
  }

  // ---- statements
  void definition(const AstStmt* s) {
    const size_t outer = bound_.mark();
    bind_names(s);
    statement(s);
    bound_.back_to(outer);
  }
  void statement(const AstStmt* s) {
    if (s->kind == StmtKind::import || s->kind == StmtKind::failed) return;
    for (const Ast* d : s->decorators)
      if (d->kind == ExprKind::call) arguments_of(d);
    for (const AstParam& p : s->params) whole(p.annotation);
    whole(s->annotation);
    if (s->kind != StmtKind::case_) whole(s->value);
    for (const Ast* c : s->contexts) whole(c);
    if (s->kind == StmtKind::assert_ || (s->target && s->target->kind == ExprKind::subscript))
      whole(s->target);
    for (const AstStmt* x : s->body) statement(x);
    for (const AstStmt* x : s->orelse) statement(x);
  }

  // ---- expressions
  /// The tree's own nodes are ours to change.
  static Ast* edit(const Ast* a) { return const_cast<Ast*>(a); }
  std::string source(const Ast* a) const { return tree_.source->text.substr(a->begin, a->end - a->begin); }
  Any evaluate(const Ast* a, const std::string& expression) const {
    return values_.evaluate(expression, Span{tree_.source, a->begin, a->end}.to_string());
  }
  void replace(const Ast* a) { write(tree_, edit(a), evaluate(a, source(a))); }
  void whole(const Ast* a) {
    if (a && look(a) == Needs::captured) replace(a);
  }
  Needs name(const Ast* a) {
    if (a->text == "True" || a->text == "False" || a->text == "None") return Needs::nothing;
    if (arguments_)
      if (const auto given = arguments_->find(a->text); given != arguments_->end()) {
        write(tree_, edit(a), given->second);
        return Needs::text;
      }
    return !bound_.has(a->text) && values_.has(a->text) ? Needs::captured : Needs::text;
  }
  /// Functions that Python has everywhere: of captured values they are called there.
  bool is_builtin(const Ast* a) {
    static const std::unordered_set<std::string> names = {"abs", "bool", "float", "int", "len", "list",
                                                          "max", "min",  "round", "str", "sum", "tuple"};
    return a->kind == ExprKind::name && names.count(a->text) && name(a) == Needs::text;
  }
  Needs look(const Ast* a) {
    switch (a->kind) {
      case ExprKind::name:
        return name(a);
      case ExprKind::integer:
      case ExprKind::number:
      case ExprKind::string:
        return Needs::nothing;
      case ExprKind::object:
        return Needs::text;
      case ExprKind::attribute:
        return look(a->items[0]) == Needs::captured ? Needs::captured : Needs::text;
      case ExprKind::lambda: {
        const size_t outer = bound_.mark();
        for (const std::string& p : a->params) bound_.add(p);
        whole(a->items[0]);
        bound_.back_to(outer);
        return Needs::text;
      }
      case ExprKind::call:
        return call(a);
      default:
        return together(a, 0, Needs::nothing);
    }
  }
  /// Of the operands from `first` on, beside what else is needed. Where the text is, captured ones are
  /// written.
  Needs together(const Ast* a, size_t first, Needs needs) {
    std::vector<const Ast*> captured;
    auto add = [&](const Ast* x) {
      if (!x) return;
      const Needs n = look(x);
      if (n == Needs::captured) captured.push_back(x);
      needs = std::max(needs, n);
    };
    for (size_t i = first; i < a->items.size(); ++i) add(a->items[i]);
    for (const auto& [n, x] : a->named) add(x);
    if (needs == Needs::text)
      for (const Ast* x : captured) replace(x);
    return needs;
  }
  void arguments_of(const Ast* call) { together(call, 1, Needs::text); }

  Needs call(const Ast* a) {
    const Ast* head = a->items[0];
    const Needs callee = is_builtin(head) ? Needs::nothing : look(head);
    if (callee != Needs::captured) {
      const Needs needs = together(a, 1, callee);
      return needs == Needs::nothing ? Needs::text : needs;
    }
    const Any f = evaluate(head, source(head));
    const bool of_programs = f.is_object() && !f.try_as<tenon::Function>();
    const std::string text = source(head);
    if (of_programs) {  // a macro, or a function of a program
      write(tree_, edit(head), f);
      arguments_of(a);
      return Needs::text;
    }
    if (together(a, 1, Needs::nothing) != Needs::text) return Needs::captured;
    call_later(edit(a), text, f);
    return Needs::text;
  }
  /// A call with operands of the text: they become positions, names stay with the function.
  void call_later(Ast* a, const std::string& head, const Any& f) {
    if (a->named.empty()) return write(tree_, edit(a->items[0]), f);
    std::string parameters, values;
    size_t n = 0;
    auto parameter = [&](const std::string& before) {
      const std::string p = fmt::format("_{}", n++);
      parameters += (n > 1 ? ", " : "") + p;
      values += (n > 1 ? ", " : "") + before + p;
    };
    for (size_t i = 1; i < a->items.size(); ++i) parameter("");
    for (const auto& [name, x] : a->named) parameter(name + "=");
    write(tree_, edit(a->items[0]),
          evaluate(a, fmt::format("lambda {}: ({})({})", parameters, head, values)));
    for (const auto& [name, x] : a->named) a->items.push_back(x);
    a->named.clear();
  }

  Tree& tree_;
  const CapturedValues& values_;
  const std::map<std::string, Any>* arguments_ = nullptr;
  BoundNames bound_;
};

constexpr int kMaxMacroDepth = 100;

}  // namespace

void capture(Tree& tree, const CapturedValues& values) { Capture(tree, values).run(); }
void capture_expression(Tree& tree, const CapturedValues& values) {
  Capture(tree, values).expression(tree.expression);
}

// ---------------------------------------------------------------- what the tree holds then
void Converter::no_use(const Ast* a, std::string_view wanted) {
  fail("T0225", fmt::format("`{}` is a {}, and {} is needed", a->text, type_key_of(a->object), wanted), a);
}

Value Converter::captured_value(const Ast* a) {
  if (const auto e = a->object.cast<tir::PrimExprNode>()) {
    PrimExpr out;
    static_cast<Ref<tir::PrimExprNode>&>(out) = e;
    return {out};
  }
  if (const auto* axis = a->object.as<tir::IterVarNode>()) return {axis->var};
  if (const auto* v = a->object.as<graph::PrimValue>()) return {v->value};
  no_use(a, "a number or an expression");
}

const Ast* Converter::captured_call(const Ast* a, FunctionRef<Any(const Ast*)> argument) {
  const Ast* head = a->items[0];
  const auto f = head->object.cast<FunctionObj>();
  if (!f) no_use(head, "a function");
  std::vector<Any> args;
  for (size_t i = 1; i < a->items.size(); ++i) args.push_back(argument(a->items[i]));
  const Any made = f->call(args);
  auto result = std::make_unique<Tree>();
  result->source = tree_->source;
  Ast* out = &result->exprs.emplace_back();
  out->begin = a->begin;
  out->end = a->end;
  write(*result, out, made);
  trees_.push_back(std::move(result));
  return out;
}

/// A function of a program that the text names: it joins the module under its name.
graph::Expr Converter::captured_function(const Ast* a) {
  auto [known, fresh] = captured_functions_.try_emplace(a->object.get());
  if (fresh) {
    const std::string base = a->text.substr(a->text.rfind('.') + 1);
    std::string name = base;
    for (int i = 1; !functions_.insert(name).second; ++i) name = fmt::format("{}_{}", base, i);
    known->second = name;
    captured_order_.emplace_back(name, a->object);
  }
  return graph::global(known->second);
}

graph::Expr Converter::captured_graph(const Ast* a, Sequence& seq) {
  if (a->object.is<tir::PrimFuncNode>() || a->object.is<graph::Function>()) return captured_function(a);
  if (const auto t = a->object.cast<NDArrayObj>()) return graph::constant(NDArray(t));
  if (a->object.is<tir::PrimExprNode>()) return make<graph::PrimValue>(expr(a));
  const auto e = a->object.cast<graph::ExprNode>();
  if (!e) no_use(a, "a graph value");
  return graph::bind_nested(graph::Expr(e), [&](graph::Expr part) { return normal(part, seq, a); });
}

// ---------------------------------------------------------------- macros
/// A macro, or a function that gives a statement.
void Converter::captured_statement(const Ast* a, BlockParts* parts, std::vector<Item>& out) {
  if (a->items[0]->object.is<MacroObj>()) return macro(a, parts, out);
  const Ast* made = captured_call(a, [&](const Ast* x) { return any(x); });
  if (made->kind == ExprKind::object && made->object.is<tir::StmtNode>())
    out.push_back({made->object.cast<tir::StmtNode>(), {}});
  else
    out.push_back({make<tir::Evaluate>(expr(made)), {}});
}

/// Reads a macro where it is called, with the arguments in place of its parameters; `body` gets its
/// definition.
void Converter::expand_macro(const Ast* a, FunctionRef<Any(const Ast*)> argument,
                             FunctionRef<void(const AstStmt*)> body) {
  const auto m = a->items[0]->object.cast<MacroObj>();
  if (macro_depth_ == kMaxMacroDepth)
    fail("T0209", fmt::format("macros call one another more than {} times", kMaxMacroDepth), a);
  std::unique_ptr<Tree> tree = parse_syntax(m->text, m->options.name, problems_);
  if (tree->top.size() != 1 || tree->top[0]->kind != StmtKind::def) throw Failed();
  const AstStmt* s = tree->top[0];
  std::vector<std::string_view> names;
  for (const AstParam& p : s->params) names.push_back(p.name);
  only(a, names.size(), names);
  std::map<std::string, Any> given;
  for (size_t i = 0; i < names.size(); ++i) given[s->params[i].name] = argument(need(a, i, names[i]));
  CapturedValues values = m->captured;
  if (!m->hygienic)
    values.has = [&](const std::string& name) { return !lookup(name) && m->captured.has(name); };
  Capture(*tree, values).macro(s, given);
  /// While it lives, the tree is the macro's; of a hygienic one the names of the text are out of sight.
  struct Inside {
    Inside(Converter& c, const Tree* tree, bool hide)
        : c(c), outer(std::exchange(c.tree_, tree)), hide(hide) {
      ++c.macro_depth_;
      if (hide) c.names_.swap(names);
    }
    ~Inside() {
      --c.macro_depth_;
      c.tree_ = outer;
      if (hide) c.names_.swap(names);
    }
    Converter& c;
    const Tree* outer;
    bool hide;
    decltype(names_) names;
  };
  const Tree* own = trees_.emplace_back(std::move(tree)).get();
  Inside inside(*this, own, m->hygienic);
  Scope scope(*this);
  body(s);
}

void Converter::macro(const Ast* a, BlockParts* parts, std::vector<Item>& out) {
  expand_macro(
      a, [&](const Ast* x) { return any(x); }, [&](const AstStmt* s) { statements(s->body, parts, out); });
}

graph::Expr Converter::graph_macro(const Ast* a, Sequence& seq) {
  graph::Expr result;
  const auto argument = [&](const Ast* x) {
    const bool word =
        x->kind == ExprKind::string || x->kind == ExprKind::integer || x->kind == ExprKind::number;
    return word ? any(x) : Any(leaf(x, seq));
  };
  expand_macro(a, argument, [&](const AstStmt* s) {
    for (const AstStmt* x : s->body)
      if (x->kind == StmtKind::return_ && x->value)
        result = graph_expr(x->value, seq);  // the caller binds it
      else
        graph_stmt(x, seq, &result);
  });
  if (!result) fail("T0241", "the macro gives no value", a, "end it with `return value`");
  return result;
}

ObjectRef Converter::any_value(const Ast* a) {
  ObjectRef out;
  attempt(span(a), [&] {
    const Any v = any(a);
    out = v.is_object() ? v.as<ObjectRef>() : ObjectRef(expr(a));
  });
  return out;
}

}  // namespace tenon::script
