// SPDX-License-Identifier: Apache-2.0
// Definitions of Relay text: data types, functions, and the types in them.
#include <algorithm>

#include "import/relay/converter.h"
#include "import/relay/load.h"
#include "import/relay/operators.h"

namespace tenon::relay {
using namespace graph;

namespace {

/// Attributes of functions whose names are others here. The rest is kept as it stands.
constexpr std::pair<std::string_view, std::string_view> kAttributes[] = {{"Compiler", "Codegen"}};

/// A name that a symbolic size may have.
std::string as_identifier(std::string name) {
  for (char& c : name)
    if (!isalnum(static_cast<unsigned char>(c))) c = '_';
  return name.empty() || isdigit(static_cast<unsigned char>(name[0])) ? "_" + name : name;
}

}  // namespace

IRModule Converter::module() {
  IRModule out = IRModule::create();
  declare_types();
  define_types();
  if (!types_.empty()) out.edit()->types = types_;
  declare_functions();
  for (const DefinitionAst& d : tree_.definitions) {
    if (!d.function) continue;
    attempt(d, [&] {
      graph_.clear();
      Ref<graph::Function> f = function(*d.function);
      // Callers behind it know what it gives.
      if (Type& known = functions_[d.name]; !known) known = type_of(f);
      out.set(d.name, std::move(f));
    });
  }
  if (tree_.expression) attempt(*tree_.expression, [&] { add_main(out); });
  return out;
}

// ---------------------------------------------------------------- data types
void Converter::declare_types() {
  for (const TypeDefAst& t : tree_.type_defs) {
    if (types_.contains(t.name)) {
      note("T0212", fmt::format("type `{}` is defined twice", t.name), t);
      continue;
    }
    Array<Ref<ConstructorDefNode>> list;
    for (const ConstructorAst& c : t.constructors) {
      const auto [at, fresh] =
          constructors_.emplace(c.name, Constructor{t.name, int64_t(list.size()), c.items.size(), c});
      if (!fresh) note("T0212", fmt::format("constructor `{}` is defined twice", c.name), c);
      list.push_back(
          make<ConstructorDefNode>(c.name, Array<Type>(std::vector<Type>(c.items.size(), object_type()))));
    }
    types_.set(t.name, make<AdtDefNode>(t.name, Array<std::string>(t.params.begin(), t.params.end()), list));
  }
}

void Converter::define_types() {
  for (const TypeDefAst& t : tree_.type_defs) {
    AdtDef def = types_.at(t.name);
    if (def->constructors.size() != t.constructors.size()) continue;  // another one of that name
    type_scopes_.push_back(t.params);
    for (size_t i = 0; i < t.constructors.size(); ++i)
      attempt(t.constructors[i], [&] {
        Array<Type> items;
        for (const TypeAst* item : t.constructors[i].items) {
          const Type known = type(item, Unknown::rank);
          items.push_back(known ? known : object_type());
        }
        def.edit()->constructors.set(i, make<ConstructorDefNode>(t.constructors[i].name, items));
      });
    type_scopes_.pop_back();
    types_.set(t.name, def);
  }
}

Type Converter::type(const TypeAst* t, Unknown unknown, const std::string& name) {
  if (!t) return {};
  switch (t->kind) {
    case TypeKind::unknown:
      return {};
    case TypeKind::tensor:
      return tensor_type(*t, unknown, name);
    case TypeKind::named:
      return named_type(*t);
    case TypeKind::tuple: {
      Array<Type> items;
      for (size_t i = 0; i < t->items.size(); ++i) {
        const Type item = type(t->items[i], unknown, fmt::format("{}_{}", name, i));
        if (!item) return {};
        items.push_back(item);
      }
      return tuple_type(items);
    }
    case TypeKind::function: {
      Array<Type> params;
      for (const TypeAst* p : t->items) params.push_back(type(p, Unknown::rank));
      for (const Type& p : params)
        if (!p) return {};
      return make<FuncType>(params, type(t->result, Unknown::rank), false, Array<std::string>());
    }
  }
  return {};
}

/// Each `?` of a parameter is a size of its own; elsewhere the shape is found by inference.
Type Converter::tensor_type(const TypeAst& t, Unknown unknown, const std::string& name) {
  if (t.dtype.is_vector()) fail("T0229", "elements of tensors are no vectors", t);
  const bool open = std::any_of(t.dims.begin(), t.dims.end(), [](auto& d) { return !d; });
  if (open && unknown == Unknown::rank) return tensor_type_unknown(int64_t(t.dims.size()), t.dtype);
  Array<PrimExpr> shape;
  for (size_t i = 0; i < t.dims.size(); ++i)
    shape.push_back(t.dims[i] ? PrimExpr(*t.dims[i])
                              : PrimExpr(tir::var(as_identifier(fmt::format("{}_{}", name, i)), i64)));
  return graph::tensor_type(shape, t.dtype);
}

Type Converter::named_type(const TypeAst& t) {
  for (const auto& scope : type_scopes_)
    if (std::find(scope.begin(), scope.end(), t.text) != scope.end()) {
      if (!t.items.empty()) fail("T0242", fmt::format("the type parameter `{}` takes no types", t.text), t);
      return make<TypeVar>(t.text);
    }
  if (!types_.contains(t.text)) fail("T0220", fmt::format("there is no type `{}`", t.text), t);
  const AdtDef def = types_.at(t.text);
  if (t.items.size() != def->params.size())
    fail("T0242",
         fmt::format("type `{}` has {} parameters and is given {}", t.text, def->params.size(),
                     t.items.size()),
         t);
  Array<Type> args;
  for (const TypeAst* x : t.items) {
    const Type arg = type(x, Unknown::rank);
    args.push_back(arg ? arg : object_type());
  }
  return make<AdtType>(t.text, args);
}

Array<std::string> Converter::type_params(const std::vector<std::string>& names, const Placed& at) {
  for (size_t i = 0; i < names.size(); ++i)
    if (std::find(names.begin(), names.begin() + std::ptrdiff_t(i), names[i]) !=
        names.begin() + std::ptrdiff_t(i))
      note("T0212", fmt::format("type parameter `{}` is defined twice", names[i]), at);
  return {names.begin(), names.end()};
}

// ---------------------------------------------------------------- functions
void Converter::declare_functions() {
  for (const DefinitionAst& d : tree_.definitions) {
    Type known;
    const auto [at, fresh] = functions_.emplace(d.name, Type());
    if (!fresh) {
      note("T0212", fmt::format("function `{}` is defined twice", d.name), d);
      continue;
    }
    if (!d.function) continue;
    const FunctionAst& f = *d.function;
    // Mistakes in types are told where the function is converted.
    DiagnosticList quiet;
    Converter signature(tree_, metadata_, quiet);
    signature.types_ = types_;
    signature.type_scopes_.push_back(f.type_params);
    signature.attempt(d, [&] {
      Array<Type> params;
      for (const ParamAst& p : f.params) params.push_back(signature.type(p.type, Unknown::rank));
      const Type result = signature.type(f.result, Unknown::rank);
      if (result && std::all_of(params.begin(), params.end(), [](const Type& p) { return bool(p); }))
        known = make<FuncType>(params, result, false,
                               Array<std::string>(f.type_params.begin(), f.type_params.end()));
    });
    at->second = known;
  }
}

bool Converter::parameters(const FunctionAst& f, Array<VarRef>& params) {
  bool ok = true;
  for (const ParamAst& p : f.params) {
    if (scopes_.back().locals.count(p.name)) {
      note("T0212", fmt::format("parameter `{}` is defined twice", p.name), p);
      ok = false;
    }
    Type declared;
    if (!attempt(p, [&] { declared = type(p.type, Unknown::fresh, p.name); })) {
      define(p.name, {});
      ok = false;
      continue;
    }
    const VarRef v = with_origin(graph::var(p.name, declared), origin(p));
    define(p.name, v);
    params.push_back(v);
    if (!declared) open_[v.get()] = {};
  }
  return ok;
}

void Converter::replace_learned(Array<VarRef>& params, Expr& body) const {
  std::unordered_map<const graph::Var*, VarRef> known;
  for (size_t i = 0; i < params.size(); ++i)
    if (const auto it = open_.find(params[i].get()); it != open_.end() && it->second) {
      known.insert(*it);
      params.set(i, it->second);
    }
  if (known.empty()) return;
  body = rewrite_any(
             body,
             [&](const ObjectRef& n) -> ObjectRef {
               const auto it = known.find(n.as<graph::Var>());
               return it == known.end() ? ObjectRef() : ObjectRef(it->second);
             },
             [](const ObjectRef& n) { return n.is<Op>() || n.is<Constant>() || n.is<TypeNode>(); })
             .cast<ExprNode>();
}

AttrMap Converter::attributes(const FunctionAst& f) {
  AttrMap out;
  for (const NamedAttr& a : f.attrs) {
    std::string name = a.name;
    for (auto [theirs, ours] : kAttributes)
      if (name == theirs) name = ours;
    if (a.value->kind == AttrKind::expression)
      note("T0227", fmt::format("attribute `{}` of a function is a number, a text or a list of them", a.name),
           a, "what stands in the metadata is read as a constant only");
    else
      out.set(name, value_of(*a.value));
  }
  return out;
}

Ref<graph::Function> Converter::function(const FunctionAst& f, VarRef* self, const std::string& name,
                                         const Type& declared) {
  const ScopeGuard scope(*this);
  const Array<std::string> generic = type_params(f.type_params, f);
  type_scopes_.push_back(f.type_params);
  struct Restore {
    Converter& c;
    Array<Binding>* bindings;
    ~Restore() {
      c.type_scopes_.pop_back();
      c.bindings_ = bindings;
    }
  } restore{*this, bindings_};
  Array<VarRef> params;
  Type result;
  bool ok = parameters(f, params);
  ok = attempt(f, [&] { result = type(f.result, Unknown::rank); }) && ok;
  if (self) {
    Array<Type> types;
    for (const VarRef& v : params) types.push_back(v->declared);
    *self = with_origin(graph::var(name, declared ? declared : make<FuncType>(types, result, false, generic)),
                        origin(f));
    if (!scopes_.back().locals.count(name)) define(name, *self);
  }
  const AttrMap attrs = attributes(f);
  Expr inside;
  ok = attempt(f, [&] { inside = body(*f.body); }) && ok;
  if (!ok) throw Failed();
  replace_learned(params, inside);
  return with_origin(make<graph::Function>(params, inside, result, attrs, generic, Ref<MemoryPlan>()),
                     origin(f));
}

/// The text is one expression: a function, or the value of its free variables.
void Converter::add_main(IRModule& out) {
  const ExprAst& e = *tree_.expression;
  if (functions_.count("main"))
    fail("T0212", "the text defines `@main` and is an expression, too", e, "leave one of them out");
  graph_.clear();
  if (e.kind == ExprKind::function && tree_.free_vars.empty()) return out.set("main", function(*e.function));
  FunctionAst f;
  f.begin = e.begin;
  f.end = e.end;
  f.params = tree_.free_vars;
  f.body = &e;
  out.set("main", function(f));
}

// ---------------------------------------------------------------- the folder's interface
bool looks_like_relay(std::string_view text) {
  auto skip = [&](size_t n) { text.remove_prefix(std::min(n, text.size())); };
  auto blanks = [&] { skip(text.find_first_not_of(" \t\r\n")); };
  if (text.starts_with("\xEF\xBB\xBF")) skip(3);
  for (blanks();; blanks()) {
    if (text.starts_with("//"))
      skip(text.find('\n'));
    else if (text.starts_with("/*"))
      skip(text.find("*/") == text.npos ? text.size() : text.find("*/") + 2);
    else
      break;
  }
  if (text.starts_with("#[version") || text.starts_with("def @") || text.starts_with("free_var %") ||
      text.starts_with("let %") || text.starts_with("extern type ") || text.starts_with("fn (") ||
      text.starts_with("fn(") || text.starts_with("%0 ="))
    return true;
  if (!text.starts_with("type ")) return false;
  const size_t sign = text.find_first_of("[{=\n");
  return sign != text.npos && (text[sign] == '[' || text[sign] == '{');
}

IRModule import_relay(std::string_view text, const std::string& name) {
  if (text.size() > kMaxTextBytes) tenon::fail("T0200", "the text is larger than 2 GiB", name);
  DiagnosticList problems;
  const std::unique_ptr<Tree> tree = parse_syntax(text, name, problems);
  if (!tree->gave_up) {
    const Metadata metadata =
        tree->metadata == text.npos ? Metadata() : Metadata(tree->source, tree->metadata, problems);
    IRModule module = Converter(*tree, metadata, problems).module();
    if (problems.empty()) return module;
  }
  problems.throw_if_any();
  return {};
}

}  // namespace tenon::relay
