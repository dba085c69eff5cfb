// SPDX-License-Identifier: Apache-2.0
// The syntax tree of Relay text, before it means anything.
#pragma once
#include <deque>
#include <optional>

#include "import/relay/lexer.h"
#include "runtime/ndarray.h"

namespace tenon::relay {

/// A place in the text.
struct Placed {
  uint32_t begin = 0, end = 0;
};

enum class TypeKind : uint8_t { tensor, tuple, function, named, unknown };
struct TypeAst : Placed {
  TypeKind kind = TypeKind::unknown;
  std::string text;                          ///< of a named one
  DataType dtype;                            ///< of a tensor
  std::vector<std::optional<int64_t>> dims;  ///< of a tensor; nullopt: `?`
  std::vector<const TypeAst*> items;         ///< of a tuple; parameters; arguments of a named one
  const TypeAst* result = nullptr;           ///< of a function
};

enum class PatternAstKind : uint8_t { wildcard, variable, constructor, tuple };
struct PatternAst : Placed {
  PatternAstKind kind = PatternAstKind::wildcard;
  std::string text;
  const TypeAst* type = nullptr;  ///< of a variable
  std::vector<const PatternAst*> items;
};

struct ExprAst;
enum class AttrKind : uint8_t { none, boolean, integer, number, string, list, expression };
struct AttrAst : Placed {
  AttrKind kind = AttrKind::none;
  int64_t integer = 0;
  double number = 0;
  std::string text;
  std::vector<const AttrAst*> items;
  const ExprAst* expression = nullptr;
};
struct NamedAttr : Placed {
  std::string name;
  const AttrAst* value = nullptr;
};

struct ParamAst : Placed {
  std::string name;
  const TypeAst* type = nullptr;  ///< null: left out
};
struct FunctionAst : Placed {
  std::vector<std::string> type_params;
  std::vector<ParamAst> params;
  std::vector<NamedAttr> attrs;
  const TypeAst* result = nullptr;
  const ExprAst* body = nullptr;
};

enum class StepKind : uint8_t { let, graph, value, failed };
struct StepAst : Placed {
  StepKind kind = StepKind::value;
  std::string name;               ///< of let
  int64_t number = 0;             ///< of graph
  const TypeAst* type = nullptr;  ///< of let; null: left out
  const ExprAst* value = nullptr;
};
struct ClauseAst {
  const PatternAst* pattern = nullptr;
  const ExprAst* body = nullptr;
};

enum class ExprKind : uint8_t {
  literal,   ///< value
  local,     ///< text
  graph,     ///< index
  global,    ///< text
  name,      ///< text: an operator or a constructor
  meta,      ///< text, index
  tuple,     ///< items
  item,      ///< items[0], index
  call,      ///< items[0] with the others, and attributes
  infix,     ///< text: the operator's name; two items
  function,  ///< function
  if_,       ///< condition, then, else
  match,     ///< items[0], clauses; index 1: `match?`, whose clauses may leave values out
  block,     ///< steps, then items[0]
  failed
};
struct ExprAst : Placed {
  ExprKind kind = ExprKind::failed;
  int depth = 1;  ///< levels of expressions, this one included
  std::string text;
  int64_t index = 0;
  NDArray value;
  std::vector<const ExprAst*> items;
  std::vector<NamedAttr> attrs;
  std::vector<StepAst> steps;
  std::vector<ClauseAst> clauses;
  const FunctionAst* function = nullptr;
};

struct ConstructorAst : Placed {
  std::string name;
  std::vector<const TypeAst*> items;
};
struct TypeDefAst : Placed {
  std::string name;
  std::vector<std::string> params;
  std::vector<ConstructorAst> constructors;
};
struct DefinitionAst : Placed {
  std::string name;
  const FunctionAst* function = nullptr;  ///< null: it has mistakes
};

struct Tree {
  std::shared_ptr<const SourceText> source;
  std::deque<ExprAst> exprs;
  std::deque<TypeAst> types;
  std::deque<PatternAst> patterns;
  std::deque<AttrAst> attrs;
  std::deque<FunctionAst> functions;
  std::vector<TypeDefAst> type_defs;
  std::vector<DefinitionAst> definitions;
  std::vector<ParamAst> free_vars;           ///< of the text's expression, in order
  const ExprAst* expression = nullptr;       ///< null: the text is a module
  size_t metadata = std::string_view::npos;  ///< where the text behind #[metadata] begins
  bool gave_up = false;                      ///< nested too deep: the rest is not read
};

/// Collects mistakes (T0206, T0209, T0212, T0229) and goes on behind the next `;` or with the next
/// definition.
std::unique_ptr<Tree> parse_syntax(std::string_view text, const std::string& name, DiagnosticList& problems);

}  // namespace tenon::relay
