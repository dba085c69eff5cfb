// SPDX-License-Identifier: Apache-2.0
// Patterns of match: what they bind, and whether clauses cover every value (the verifier asks).
#include <fmt/format.h>

#include <set>

#include "ir/walk.h"

namespace tenon::graph {

void variables_of(const Pattern& pattern, std::vector<VarRef>& out) {
  std::vector<Pattern> stack{pattern};
  while (!stack.empty()) {
    const Pattern p = stack.back();
    stack.pop_back();
    if (!p) continue;
    if (p->var) out.push_back(p->var);
    for (size_t i = p->items.size(); i-- > 0;) stack.push_back(p->items[i]);
  }
}

Type substitute_types(const Type& type, const std::map<std::string, Type>& map) {
  if (!type || map.empty()) return type;
  return rewrite_any(type,
                     [&](const ObjectRef& n) -> ObjectRef {
                       const auto* v = n.as<TypeVar>();
                       if (!v) return {};
                       auto it = map.find(v->name);
                       return it == map.end() ? ObjectRef() : ObjectRef(it->second);
                     })
      .cast<TypeNode>();
}

namespace {

using Row = std::vector<Pattern>;
using Find = FunctionRef<AdtDef(const std::string&)>;

/// Looks for a value that no row takes, column by column: a value's head is one of its type's constructors,
/// the rows that accept this head are asked about what is below it.
class Coverage {
 public:
  explicit Coverage(Find find) : find_(find) {}

  /// One pattern in words for each type, or nullopt when the rows take everything.
  std::optional<std::vector<std::string>> missing(const std::vector<Row>& rows, std::vector<Type> types,
                                                  int depth = 0) {
    if (rows.empty()) return std::vector<std::string>(types.size(), "_");
    if (types.empty()) return std::nullopt;
    if (depth > kMaxDepth || ++steps_ > kMaxSteps) {
      gave_up_ = true;
      return std::vector<std::string>(types.size(), "_");
    }
    const Type type = types[0];
    types.erase(types.begin());
    size_t width = 0;
    bool tuple = type && type.is<TupleType>();
    if (tuple) width = type.as<TupleType>()->items.size();
    const auto* adt = type ? type.as<AdtType>() : nullptr;
    AdtDef def = adt ? find_(adt->name) : AdtDef();
    std::set<int64_t> heads;
    for (const Row& r : rows) {
      if (r[0]->kind == PatternKind::tuple) tuple = true, width = r[0]->items.size();
      if (r[0]->kind != PatternKind::constructor) continue;
      heads.insert(r[0]->constructor->tag);
      if (!def) def = find_(r[0]->constructor->data_type);
    }
    if (tuple) {
      const bool known = type && type.is<TupleType>();
      std::vector<Type> below;
      for (size_t i = 0; i < width; ++i) below.push_back(known ? type.as<TupleType>()->items[i] : Type());
      return wrap(rows, "", -1, below, types, depth);
    }
    if (def && !heads.empty() && heads.size() == def->constructors.size()) {
      std::map<std::string, Type> map;
      for (size_t i = 0; adt && i < def->params.size() && i < adt->args.size(); ++i)
        map[def->params[i]] = adt->args[i];
      for (size_t tag = 0; tag < def->constructors.size(); ++tag) {
        std::vector<Type> below;
        for (const Type& t : def->constructors[tag]->items) below.push_back(substitute_types(t, map));
        if (auto found = wrap(rows, def->constructors[tag]->name, int64_t(tag), below, types, depth))
          return found;
      }
      return std::nullopt;
    }
    // Some head is in no row: only rows that take any head help.
    std::vector<Row> rest;
    for (const Row& r : rows)
      if (!r[0]->constructor && r[0]->kind != PatternKind::tuple) rest.emplace_back(r.begin() + 1, r.end());
    auto found = missing(rest, types, depth + 1);
    if (!found) return std::nullopt;
    std::string head = "_";
    if (def && !heads.empty())
      for (size_t tag = 0; tag < def->constructors.size(); ++tag)
        if (!heads.count(int64_t(tag))) {
          const auto& c = def->constructors[tag];
          head = words(c->name, std::vector<std::string>(c->items.size(), "_"));
          break;
        }
    found->insert(found->begin(), head);
    return found;
  }
  bool gave_up() const { return gave_up_; }

 private:
  static constexpr int kMaxDepth = 1000, kMaxSteps = 20000;

  static std::string words(const std::string& name, const std::vector<std::string>& items) {
    std::string text = name + "(";
    for (size_t i = 0; i < items.size(); ++i) text += (i ? ", " : "") + items[i];
    return text + ")";
  }
  /// Values with this head: its parts become columns. Tag -1: a tuple.
  std::optional<std::vector<std::string>> wrap(const std::vector<Row>& rows, const std::string& name,
                                               int64_t tag, const std::vector<Type>& below,
                                               const std::vector<Type>& rest, int depth) {
    static const Pattern any = make<PatternNode>();
    std::vector<Row> next;
    for (const Row& r : rows) {
      const PatternNode& p = *r[0];
      const bool has_head = p.kind == PatternKind::constructor || p.kind == PatternKind::tuple;
      if (has_head && (tag >= 0 ? p.kind != PatternKind::constructor || p.constructor->tag != tag
                                : p.kind != PatternKind::tuple))
        continue;
      Row row;
      for (size_t i = 0; i < below.size(); ++i)
        row.push_back(has_head && i < p.items.size() ? p.items[i] : any);
      row.insert(row.end(), r.begin() + 1, r.end());
      next.push_back(std::move(row));
    }
    std::vector<Type> types = below;
    types.insert(types.end(), rest.begin(), rest.end());
    auto found = missing(next, types, depth + 1);
    if (!found) return std::nullopt;
    std::vector<std::string> out{words(name, {found->begin(), found->begin() + int64_t(below.size())})};
    out.insert(out.end(), found->begin() + int64_t(below.size()), found->end());
    return out;
  }

  Find find_;
  int steps_ = 0;
  bool gave_up_ = false;
};

}  // namespace

std::optional<std::string> missing_case(const Match& match, const Type& type, Find find) {
  std::vector<Row> rows;
  for (const MatchClause& c : match.clauses) rows.push_back({c->pattern});
  Coverage coverage(find);
  auto found = coverage.missing(rows, {type});
  if (coverage.gave_up()) return "more cases than are looked at";
  if (!found) return std::nullopt;
  return (*found)[0];
}

}  // namespace tenon::graph
