// SPDX-License-Identifier: Apache-2.0
// The parser's entry, modules, and names. Expressions and statements are in parse_tir*.cpp, graph functions
// in parse_graph.cpp, attribute values in parse_value.cpp.
#include <fmt/format.h>

#include <algorithm>

#include "ir/parse_impl.h"

namespace tenon::script {

void Converter::fail(std::string code, std::string message, Span where, std::string hint) {
  const bool counts = !judged_ || ((code == "T0222" || code == "T0220") && where.begin == judged_->begin);
  if (counts && problems_.all().size() < DiagnosticList::limit)
    problems_.add(std::move(code), std::move(message), std::move(where), std::move(hint));
  throw Failed();
}

void Converter::note(const DiagnosticError& e, Span where) {
  if (judged_) return;
  for (Diagnostic d : e.diagnostics) {
    if (!d.span) {
      d.span = where;
      d.location = where.to_string();
    }
    problems_.add(std::move(d));
  }
}

// ---------------------------------------------------------------- names
void Converter::bind(const std::string& name, ObjectRef what) {
  auto& stack = names_[name];
  const int level = int(levels_.size()) - 1;
  if (!stack.empty() && stack.back().first == level)
    stack.back().second = std::move(what);
  else {
    stack.emplace_back(level, std::move(what));
    levels_.back().push_back(name);
  }
}
const ObjectRef* Converter::lookup(const std::string& name) const {
  auto it = names_.find(name);
  return it == names_.end() || it->second.empty() ? nullptr : &it->second.back().second;
}
ObjectRef Converter::name_of(const Ast* a) {
  if (const ObjectRef* o = lookup(a->text)) {
    if (o->is<PoisonObj>()) throw Failed();
    return *o;
  }
  if (implicit_level_ >= 0 && a->text != "_" && a->text != "...") {
    tir::VarRef v = tir::var(a->text, i64);
    auto& stack = names_[a->text];
    stack.emplace_back(implicit_level_, v);
    levels_[size_t(implicit_level_)].push_back(a->text);
    return v;
  }
  fail("T0220", fmt::format("nothing is named `{}` here", a->text), a, suggestion(a->text));
}
std::string Converter::suggestion(const std::string& name) const {
  std::string best;
  if (name.size() < 2) return best;  // any other letter would be near
  size_t least = std::max<size_t>(2, name.size() / 3 + 1);
  std::vector<std::string> known(functions_.begin(), functions_.end());
  for (auto& [n, stack] : names_)
    if (!stack.empty()) known.push_back(n);
  std::sort(known.begin(), known.end());
  for (const std::string& n : known) {
    if (n.size() > name.size() + 2 || name.size() > n.size() + 2 || n.size() > 60) continue;
    std::vector<size_t> row(n.size() + 1);
    for (size_t j = 0; j <= n.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= name.size(); ++i) {
      size_t diagonal = row[0];
      row[0] = i;
      for (size_t j = 1; j <= n.size(); ++j) {
        const size_t up = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (name[i - 1] != n[j - 1])});
        diagonal = up;
      }
    }
    if (row.back() < least) {
      least = row.back();
      best = n;
    }
  }
  return best.empty() ? "" : fmt::format("is `{}` meant?", best);
}
void Converter::poison(const Ast* target) {
  if (!target) return;
  if (target->kind == ExprKind::name) {
    if (!lookup(target->text)) bind(target->text, make<PoisonObj>());
  } else if (target->kind == ExprKind::tuple || target->kind == ExprKind::list) {
    for (const Ast* t : target->items) poison(t);
  }
}

std::string Converter::path(const Ast* a) const {
  std::vector<const std::string*> parts;
  for (; a->kind == ExprKind::attribute; a = a->items[0]) parts.push_back(&a->text);
  if (a->kind != ExprKind::name) return {};
  std::string p = a->text;
  for (size_t i = parts.size(); i-- > 0;) (p += '.') += *parts[i];
  static constexpr std::pair<std::string_view, std::string_view> prefixes[] = {{"tvm.script.tir.", "T."},
                                                                               {"tvm.script.relax.", "R."},
                                                                               {"tvm.script.ir.", "I."},
                                                                               {"tvm.tir.", "T."},
                                                                               {"tvm.relax.", "R."},
                                                                               {"tenon.script.tir.", "T."},
                                                                               {"tenon.script.graph.", "R."},
                                                                               {"tvm.script.", "I."},
                                                                               {"tenon.script.", "I."},
                                                                               {"script.tir.", "T."},
                                                                               {"script.relax.", "R."},
                                                                               {"script.ir.", "I."},
                                                                               {"script.", "I."},
                                                                               {"tir.", "T."},
                                                                               {"relax.", "R."}};
  if (parts.empty()) return p;
  if (auto it = aliases_.find(a->text); it != aliases_.end() && !it->second.empty())
    return it->second + p.substr(a->text.size());
  if (lookup(a->text)) return p;
  for (auto [from, to] : prefixes)
    if (p.starts_with(from)) return std::string(to) + p.substr(from.size());
  return p == "T.buffer" ? "T.Buffer" : p;
}

// ---------------------------------------------------------------- arguments
const Ast* Converter::named(const Ast* call, std::string_view name) const {
  for (const auto& [n, v] : call->named)
    if (n == name) return v;
  return nullptr;
}
const Ast* Converter::argument(const Ast* call, size_t position, std::string_view name) const {
  if (position + 1 < call->items.size()) return call->items[position + 1];
  return named(call, name);
}
const Ast* Converter::need(const Ast* call, size_t position, std::string_view name) {
  if (const Ast* a = argument(call, position, name)) return a;
  fail("T0223", fmt::format("`{}` lacks its argument `{}`", path(call->items[0]), name), call);
}
void Converter::only(const Ast* call, size_t positional, const std::vector<std::string_view>& names) {
  if (call->items.size() - 1 > positional)
    fail("T0223",
         fmt::format("`{}` takes {} arguments and is given {}", path(call->items[0]), positional,
                     call->items.size() - 1),
         call->items[positional + 1]);
  for (const auto& [n, v] : call->named)
    if (std::find(names.begin(), names.end(), n) == names.end())
      fail("T0223", fmt::format("`{}` has no argument `{}`", path(call->items[0]), n), v);
}
std::string Converter::text_of(const Ast* a, std::string_view what) {
  if (a->kind != ExprKind::string) fail("T0224", fmt::format("{} must be text in quotes", what), a);
  return a->text;
}
int64_t Converter::integer_of(const Ast* a, std::string_view what) {
  if (a->kind == ExprKind::integer) return a->integer;
  if (a->kind == ExprKind::unary && a->text == "-" && a->items[0]->kind == ExprKind::integer)
    return int64_t(0 - uint64_t(a->items[0]->integer));
  fail("T0224", fmt::format("{} must be an integer", what), a);
}
DataType Converter::dtype_of(const Ast* a) {
  std::string text;
  if (a->kind == ExprKind::string)
    text = a->text;
  else if (const std::string p = path(a); p.starts_with("T."))
    text = p.substr(2);
  DataType t;
  if (a->kind == ExprKind::string && text.empty()) return t;  // of a call without a result
  if (text.empty() || !parse_dtype(text, &t))
    fail("T0224",
         a->kind == ExprKind::string ? fmt::format("`{}` is no data type", a->text)
                                     : "a data type such as \"float32\" was expected",
         a);
  return t;
}
std::string Converter::member_of_module(const Ast* a) const {
  if (a->kind != ExprKind::attribute || a->items[0]->kind != ExprKind::name) return {};
  const std::string& base = a->items[0]->text;
  return names_module(base) && !lookup(base) ? a->text : std::string();
}
std::optional<DataType> Converter::declared_size(const Ast* a) const {
  if (!a || a->kind != ExprKind::call) return std::nullopt;
  for (const auto& [name, value] : a->named)
    if (name != "is_size_var") return std::nullopt;
  const std::string p = path(a->items[0]);
  if (DataType d; p == "T.Var" && a->items.size() == 3 && a->items[2]->kind == ExprKind::string &&
                  parse_dtype(a->items[2]->text, &d))  // n = T.Var("n", "int64")
    return d;
  if (a->items.size() != 1) return std::nullopt;
  DataType d;
  if (!p.starts_with("T.") || !parse_dtype(p.substr(2), &d)) return std::nullopt;
  return d;
}
void Converter::declare_size(const std::string& name, DataType type, int level) {
  const auto it = names_.find(name);
  if (it != names_.end() && !it->second.empty() && it->second.back().first >= level) {
    const auto* known = it->second.back().second.as<tir::Var>();
    if (known && known->dtype == type) return;
  }
  bind(name, tir::var(name, type));
}
bool Converter::declares_sizes(const AstStmt* s) const {
  if (!s->target || !s->value || s->target->kind != ExprKind::tuple || s->value->kind != ExprKind::tuple ||
      s->target->items.size() != s->value->items.size())
    return false;
  for (size_t i = 0; i < s->target->items.size(); ++i)
    if (s->target->items[i]->kind != ExprKind::name || !declared_size(s->value->items[i])) return false;
  return true;
}
std::vector<const Ast*> Converter::items_of(const Ast* a) const {
  if (a->kind == ExprKind::tuple || a->kind == ExprKind::list) return a->items;
  if (const ObjectRef* o = a->kind == ExprKind::name ? lookup(a->text) : nullptr)
    if (const auto* several = o->as<NamesObj>()) return several->names;
  return {a};
}

// ---------------------------------------------------------------- modules
void Converter::import(const AstStmt* s) {
  for (const Ast* t : s->targets) {
    const std::string alias = t->params.empty() ? t->text : t->params[0];
    const std::string last = t->text.substr(t->text.rfind('.') + 1);
    if (last == "tir")
      aliases_[alias] = "T";
    else if (last == "relax" || last == "graph")
      aliases_[alias] = "R";
    else if (last == "ir")
      aliases_[alias] = "I";
  }
}

ObjectRef Converter::definition(const AstStmt* s) {
  for (const Ast* d : s->decorators) {
    const std::string p = path(d->kind == ExprKind::call ? d->items[0] : d);
    if (p == "T.prim_func" || p == "prim_func") return prim_func(s);
    if (p == "R.function") return graph_function(s);
    if (p != "I.name" && p != "staticmethod")
      fail("T0211", fmt::format("the decorator `{}` has no meaning here", p), d,
           "functions are marked @T.prim_func or @R.function");
  }
  fail("T0211", fmt::format("function `{}` has no decorator", s->name), span(s),
       "mark it @T.prim_func or @R.function");
}

IRModule Converter::module() {
  IRModule out = IRModule::create();
  std::vector<const AstStmt*> members;
  bool in_class = false;
  for (const AstStmt* s : tree_->top) {
    attempt(span(s), [&] {
      if (s->kind == StmtKind::import) return import(s);
      if (is_docstring(s) || s->kind == StmtKind::failed || s->kind == StmtKind::pass) return;
      if (s->kind == StmtKind::def) {
        members.push_back(s);
        return;
      }
      if (is_type_definition(s)) {
        members.push_back(s);
        return;
      }
      if (s->kind != StmtKind::class_)
        fail("T0210", "outside a module only imports, classes and functions have a meaning", span(s));
      for (const Ast* d : s->decorators) {
        const std::string p = path(d->kind == ExprKind::call ? d->items[0] : d);
        if (p != "I.ir_module" && p != "ir_module")
          fail("T0211", fmt::format("the decorator `{}` has no meaning here", p), d,
               "modules are marked @I.ir_module");
      }
      if (s->decorators.empty())
        fail("T0211", fmt::format("class `{}` has no decorator", s->name), span(s), "mark it @I.ir_module");
      if (in_class) fail("T0210", "a text holds one module", span(s));
      in_class = true;
      module_names_.insert(s->name);
      members.insert(members.end(), s->body.begin(), s->body.end());
    });
  }
  std::vector<std::string> labels;
  for (const AstStmt* m : members) {
    if (is_type_definition(m)) {
      labels.emplace_back();
      continue;
    }
    std::string name = m->name;
    if (m->kind == StmtKind::assign && m->target->kind == ExprKind::name) name = m->target->text;
    for (const Ast* d : m->decorators)
      attempt(span(d), [&] {
        if (is_call(d, "I.name")) name = text_of(need(d, 0, "name"), "a name");
      });
    labels.push_back(name);
    if (name.empty()) continue;
    members_.emplace(name, m);
    if (!functions_.insert(name).second)
      problems_.add("T0212", fmt::format("function `{}` is defined twice", name), span(m));
    if (m->kind == StmtKind::failed) bind(name, make<PoisonObj>());
  }
  for (const AstStmt* m : members)
    if (is_type_definition(m)) attempt(span(m), [&] { declare_type(m); });
  for (const AstStmt* m : members)
    if (is_type_definition(m)) attempt(span(m), [&] { define_type(m); });
  if (!types_.empty()) out.edit()->types = types_;
  for (size_t i = 0; i < members.size(); ++i) {
    const AstStmt* m = members[i];
    if (is_type_definition(m)) continue;
    attempt(span(m), [&] {
      if (m->kind == StmtKind::def) {
        Scope scope(*this);
        implicit_level_ = -1;
        out.set(labels[i], definition(m));
      } else if (m->kind == StmtKind::assign && m->value && m->target->kind == ExprKind::name) {
        if (is_none(m->value)) return;  // `__tvm_meta__ = None` of older printers
        if (is_call(m->value, "R.ExternFunc"))
          out.set(labels[i], make<graph::ExternFunc>(text_of(need(m->value, 0, "symbol"), "a symbol")));
        else
          fail("T0210", "in a module a name stands for R.ExternFunc(…)", m->value);
      } else if (m->kind == StmtKind::expr &&
                 (is_call(m->value, "I.module_attrs") || is_call(m->value, "I.module_global_infos"))) {
        if (is_call(m->value, "I.module_attrs")) out.edit()->attrs = dict(need(m->value, 0, "attrs"));
      } else if (m->kind == StmtKind::import) {
        import(m);
      } else if (m->kind != StmtKind::pass && m->kind != StmtKind::failed && !is_docstring(m)) {
        fail("T0210", "in a module only functions have a meaning", span(m));
      }
    });
    implicit_level_ = -1;
  }
  for (const auto& [name, f] : captured_order_) out.set(name, f);
  return out;
}

PrimExpr prim_expr(const Tree& tree, const Ast* a, const std::map<std::string, tir::VarRef>& variables,
                   DiagnosticList& problems) {
  const ParseOptions options;
  Converter converter(tree, options, problems);
  for (const auto& [name, v] : variables) converter.define(name, v);
  try {
    return converter.expr(a);
  } catch (const Failed&) {
    return {};
  }
}

IRModule module_of(std::string_view text, const ParseOptions& options, DiagnosticList& problems,
                   const CapturedValues* captured) {
  const std::unique_ptr<Tree> tree = parse_syntax(text, options.name, problems);
  if (tree->gave_up) return {};
  Converter converter(*tree, options, problems);
  if (captured) {
    capture(*tree, *captured);
    converter.set_aliases(captured->aliases);
  }
  IRModule module = converter.module();
  return problems.empty() ? module : IRModule();
}

}  // namespace tenon::script

namespace tenon {

namespace {
IRModule module_of(std::string_view text, const ParseOptions& options, const CapturedValues* captured) {
  if (text.size() > (size_t(1) << 31)) fail("T0200", "the text is larger than 2 GiB", options.name);
  // Two older text forms look alike and are refused by name.
  const size_t start = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  if (text.substr(start, 7) == "primfn(")
    fail("T0213", "this is the older `primfn` form of tensor programs, which is not read", options.name,
         "write it as @T.prim_func def main(…)");
  if (text.substr(start, 9) == "#[version" || text.substr(start, 5) == "def @")
    fail("T0213", "this is Relay text, and only script text is taken here", options.name,
         "let `tenon opt FILE` print it as script text");
  DiagnosticList problems;
  IRModule module = script::module_of(text, options, problems, captured);
  problems.throw_if_any();
  return module;
}
}  // namespace

IRModule parse_module(std::string_view text, const ParseOptions& options) {
  return module_of(text, options, nullptr);
}
IRModule parse_module(std::string_view text, const ParseOptions& options, const CapturedValues& captured) {
  return module_of(text, options, &captured);
}
ObjectRef parse_value(std::string_view text, const CapturedValues& captured) {
  DiagnosticList problems;
  std::unique_ptr<script::Tree> tree = script::parse_expression(text, "<expression>", problems);
  problems.throw_if_any();
  script::capture_expression(*tree, captured);
  const ParseOptions options;
  script::Converter converter(*tree, options, problems);
  ObjectRef value = converter.any_value(tree->expression);
  problems.throw_if_any();
  return value;
}

}  // namespace tenon
