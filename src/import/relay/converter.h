// SPDX-License-Identifier: Apache-2.0
// From the syntax tree of Relay text to graph functions in normal form. Private to the folder.
#pragma once
#include <fmt/format.h>

#include <span>
#include <unordered_map>
#include <unordered_set>

#include "import/relay/metadata.h"
#include "import/relay/syntax.h"
#include "op/build.h"

namespace tenon::relay {

using graph::Expr;
using graph::Type;
using graph::VarRef;

/// Thrown after a mistake was noted; caught per step, so that the next one is looked at too.
struct Failed {};

class Converter {
 public:
  Converter(const Tree& tree, const Metadata& metadata, DiagnosticList& problems)
      : tree_(tree), metadata_(metadata), problems_(problems) {}
  IRModule module();

  // ---- for operators (operators.h)
  [[noreturn]] void fail(std::string code, std::string message, const Placed& at, std::string hint = {});
  void note(std::string code, std::string message, const Placed& at, std::string hint = {});
  Origin origin(const Placed& at) const;
  /// Binds the value to a name of its own, with its type as far as that is known; a leaf is what it is.
  Expr bind(Expr value, const Origin& at, const std::string& name = "lv");
  /// A parameter of the function whose type the text leaves open.
  bool is_open(const Expr& e) const;
  /// The parameter with the type that a call says, under its name from here on.
  VarRef learned(const VarRef& parameter, const Type& type, const Origin& by);

 private:
  /// What a name stands for; without a value it follows from a mistake that was told.
  struct Value {
    Expr expr;
  };
  /// Names of one block, function or clause.
  struct Scope {
    std::unordered_map<std::string, Value> locals;
    std::unordered_map<int64_t, Value> graph;
  };
  struct ScopeGuard {
    Converter& c;
    explicit ScopeGuard(Converter& c) : c(c) { c.scopes_.emplace_back(); }
    ~ScopeGuard() { c.scopes_.pop_back(); }
  };
  struct Constructor {
    std::string type;
    int64_t tag = 0;
    size_t arity = 0;
    Placed at;
  };
  enum class Unknown { fresh, rank };  ///< what `?` becomes: a symbolic size, or a shape of known rank only

  // ---- convert_module.cpp
  void declare_types();
  void define_types();
  void declare_functions();
  void add_main(IRModule& out);
  Array<std::string> type_params(const std::vector<std::string>& names, const Placed& at);
  /// Null for `_` and for none.
  Type type(const TypeAst* t, Unknown unknown, const std::string& name = {});
  Type tensor_type(const TypeAst& t, Unknown unknown, const std::string& name);
  Type named_type(const TypeAst& t);
  /// `self`, if there is one, becomes the variable that the function is bound to, which its body may call.
  Ref<graph::Function> function(const FunctionAst& f, VarRef* self = nullptr, const std::string& name = {},
                                const Type& declared = {});
  bool parameters(const FunctionAst& f, Array<VarRef>& params);
  /// Parameters whose types calls said, in the list and in the body.
  void replace_learned(Array<VarRef>& params, Expr& body) const;
  AttrMap attributes(const FunctionAst& f);

  // ---- convert_expr.cpp
  Span span(const Placed& p) const { return {tree_.source, p.begin, p.end}; }
  void define(const std::string& name, Expr value) { scopes_.back().locals[name] = {std::move(value)}; }
  /// A mistake is noted; false: there was one.
  template <class F>
  bool attempt(const Placed& where, F f);
  Expr expr(const ExprAst& e);
  Expr leaf(const ExprAst& e) { return bind(expr(e), origin(e)); }
  Array<Expr> leaves(std::span<const ExprAst* const> values);
  /// The expression as a body of its own: its steps, then its value.
  Expr body(const ExprAst& e);
  Expr local(const ExprAst& e);
  Expr graph_value(const ExprAst& e);
  Expr global(const std::string& name, const Placed& at);
  Expr named(const ExprAst& e);
  Expr constructor(const Constructor& c, const std::string& name) const;
  Expr call(const ExprAst& e);
  Expr reference(const ExprAst& e);
  Expr if_expr(const ExprAst& e);
  Expr match(const ExprAst& e);
  /// The clause of `match?` for what the others leave out: it ends the run.
  graph::MatchClause no_case(const Array<graph::MatchClause>& clauses, const ExprAst& e);
  graph::Pattern pattern(const PatternAst& p, const Type& type);
  void constructor_pattern(const PatternAst& p, const Type& type, graph::PatternNode& out);
  Expr block(const ExprAst& e);
  void step(const StepAst& s);
  void let(const StepAst& s);
  /// What inference says of the value where the types of its parts are known, else null.
  Type type_of(const Expr& value) const;
  std::string suggestion(const std::string& name) const;

  const Tree& tree_;
  const Metadata& metadata_;
  DiagnosticList& problems_;
  Map<std::string, graph::AdtDef> types_;
  std::unordered_map<std::string, Constructor> constructors_;
  std::unordered_map<std::string, Type> functions_;  ///< their types; null while the result is not known
  std::vector<Scope> scopes_;
  /// Parameters of open type; with the type that a call says, as soon as one does.
  std::unordered_map<const graph::Var*, VarRef> open_;
  std::vector<std::vector<std::string>> type_scopes_;
  std::unordered_map<int64_t, const ExprAst*>
      graph_;                              ///< definitions of %0, %1, …, whatever the scope; null: a mistake
  std::unordered_set<int64_t> computing_;  ///< those whose value is being converted
  Array<graph::Binding>* bindings_ = nullptr;  ///< of the body that is being converted
};

template <class F>
bool Converter::attempt(const Placed& where, F f) {
  try {
    f();
    return true;
  } catch (const Failed&) {
    return false;
  } catch (const DiagnosticError& e) {
    for (Diagnostic d : e.diagnostics) {
      if (d.location.empty()) {
        d.span = span(where);
        d.location = d.span.to_string();
      }
      problems_.add(std::move(d));
    }
    return false;
  }
}

}  // namespace tenon::relay
