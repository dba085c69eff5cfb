// SPDX-License-Identifier: Apache-2.0
// fuse_ops_by_pattern: parts of a graph that match named patterns become functions (MergeComposite).
//
//   before   lv = R.nn.dense(x, w)                     # pattern "cutlass.dense": is_op("nn.dense")(_, _)
//   after    lv = cutlass_dense(x, w)                  with cutlass_dense: R.func_attr({"Composite":
//   "cutlass.dense"})
//
// Needs: types. Keeps: values. What is not partitioned later on is compiled as any other function.
#include "pass/graph/partition/fuse_ops_by_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "ir/bind_nested.h"
#include "ir/pattern_text.h"
#include "ir/text.h"
#include "op/body_rewriter.h"
#include "pass/graph/partition/outline.h"

namespace tenon::graph {

std::vector<NamedPattern> named_patterns(const Array<Any>& entries) {
  std::vector<NamedPattern> out;
  auto refuse = [&](const std::string& why) {
    fail("T1152", fmt::format("pattern {} of the table: {}", out.size(), why), {},
         "give (name, pattern) or (name, pattern, check)", ErrorKind::usage);
  };
  for (const Any& entry : entries) {
    const auto parts = entry.try_as<Array<Any>>();
    if (!parts || parts->size() < 2 || parts->size() > 3) refuse("it is no list of two or three");
    const auto name = (*parts)[0].try_as<std::string>();
    const auto pattern = (*parts)[1].try_as<dpl::DFPattern>();
    if (!name || name->empty()) refuse("its name is no text");
    if (!pattern || !*pattern) refuse("the second part is no pattern");
    tenon::Function check;
    if (parts->size() == 3 && !(*parts)[2].is_none()) {
      const auto given = (*parts)[2].try_as<tenon::Function>();
      if (!given) refuse("the check is no function");
      check = *given;
    }
    dpl::check_pattern(*pattern);
    out.push_back({*name, *pattern, check});
  }
  return out;
}

std::vector<NamedPattern> pattern_table(const std::string& name) {
  const tenon::Function table = registry::find("tenon.patterns." + name);
  if (!table)
    fail("T1152", fmt::format("there is no table of patterns `{}`", name), {},
         fmt::format("register a function \"tenon.patterns.{}\" that gives it", name), ErrorKind::usage);
  const auto entries = table().try_as<Array<Any>>();
  if (!entries)
    fail("T1152", fmt::format("the table of patterns `{}` is no list", name), {}, {}, ErrorKind::usage);
  return named_patterns(*entries);
}

namespace {

/// It says nothing of a value: a wildcard, or an alternative or a conjunction of such.
bool matches_anything(const dpl::DFPattern& p) {
  if (const auto* x = p.as<dpl::OrPattern>()) return matches_anything(x->left) || matches_anything(x->right);
  if (const auto* x = p.as<dpl::AndPattern>()) return matches_anything(x->left) && matches_anything(x->right);
  return p.is<dpl::WildcardPattern>();
}
/// What every value matches is of use only where a check looks at it.
void require_something(const NamedPattern& named) {
  if (!named.check && matches_anything(named.pattern))
    fail("T1152",
         fmt::format("the pattern `{}` matches any value: every operator would be a composite", named.name),
         {}, "name an operator, or give a check", ErrorKind::usage);
}

/// "cutlass.dense" → "cutlass_dense"
std::string function_name(std::string composite) {
  for (char& c : composite)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return std::isdigit(static_cast<unsigned char>(composite[0])) ? "_" + composite : composite;
}

class PatternFuser {
 public:
  PatternFuser(const Expr& body, const IRModule& module)
      : body_(body), module_(module), graph_(body, module), view_(body, module) {
    for (size_t i = 0; i < graph_.size(); ++i) at_[graph_.binding(i)->var.get()] = i;
  }

  std::vector<Region> regions(const NamedPattern& named) {
    std::vector<Region> out;
    for (size_t i = graph_.size(); i-- > 0;) {
      if (!graph_.can_outline(i) || taken_.contains(i)) continue;
      const auto found = dpl::match_pattern(named.pattern, graph_.binding(i)->var, view_);
      if (!found) continue;
      std::vector<size_t> members;
      for (const VarRef& v : found->inside)
        if (const auto it = at_.find(v.get()); it != at_.end()) members.push_back(it->second);
      std::ranges::sort(members);
      if (!is_closed(members, i)) continue;
      Region region = region_of(named, members);
      if (named.check && !accepted(named, region)) continue;
      taken_.insert(members.begin(), members.end());
      out.push_back(std::move(region));
    }
    return out;
  }

 private:
  /// Only the root is seen outside, and nothing in it is taken.
  bool is_closed(const std::vector<size_t>& members, size_t root) const {
    auto inside = [&](size_t i) { return std::ranges::binary_search(members, i); };
    if (!inside(root)) return false;
    for (size_t m : members) {
      if (!graph_.can_outline(m) || taken_.contains(m)) return false;
      const VarRef v = graph_.binding(m)->var;
      if (m == root) continue;
      if (view_.is_result(v)) return false;
      for (const VarRef& user : view_.users(v))
        if (!inside(at_.at(user.get()))) return false;
    }
    return true;
  }

  Region region_of(const NamedPattern& named, const std::vector<size_t>& members) const {
    Region out;
    std::string operators;
    for (size_t m : members) {
      const Expr value = graph_.binding(m)->value;
      out.members.push_back(graph_.binding(m)->var);
      if (const Op* op = op_of(value)) operators += op->name + "_";
      if (value.is<Tuple>()) operators += "Tuple_";
      if (value.is<TupleGetItem>()) operators += "TupleGetItem_";
    }
    out.name = function_name(named.name);
    out.attrs.set(std::string(kComposite), Any(named.name));
    out.attrs.set("PartitionedFromPattern", Any(operators));
    return out;
  }

  bool accepted(const NamedPattern& named, const Region& region) const {
    const auto yes = named.check(region_function(body_, region)).try_as<bool>();
    if (!yes)
      fail("T1152", fmt::format("the check of pattern `{}` gives neither true nor false", named.name), {}, {},
           ErrorKind::usage);
    return *yes;
  }

  Expr body_;
  IRModule module_;
  RegionGraph graph_;
  dpl::DataflowView view_;
  std::unordered_map<const Object*, size_t> at_;
  std::set<size_t> taken_;
};

class PatternRewriter : public BodyRewriter {
 public:
  PatternRewriter(const dpl::DFPattern& pattern, const Expr& body,
                  FunctionRef<Expr(const VarRef&, const dpl::PatternMatch&)> callback)
      : pattern_(pattern), view_(body), callback_(callback) {}

 protected:
  Expr visit(const Expr& value, const VarRef& var) override {
    const auto found = dpl::match_pattern(pattern_, var, view_);
    if (!found) return value;
    const Expr made = callback_(var, *found);
    if (!made) return value;
    const Expr bound = bind_nested(made, [&](Expr part) { return emit(replace_leaves(std::move(part))); });
    return replace_leaves(bound);
  }

 private:
  /// What the callback took from the match may stand for something else by now.
  Expr replace_leaves(Expr e) const {
    if (is_leaf(e)) return replaced(e);
    return map_parts(e, [&](const Expr& part, bool body) { return body ? part : replaced(part); });
  }
  const dpl::DFPattern& pattern_;
  dpl::DataflowView view_;
  FunctionRef<Expr(const VarRef&, const dpl::PatternMatch&)> callback_;
};

}  // namespace

Ref<Function> rewrite_matches(const dpl::DFPattern& pattern, const Ref<Function>& function,
                              FunctionRef<Expr(const VarRef&, const dpl::PatternMatch&)> callback) {
  return PatternRewriter(pattern, function->body, callback).run(function);
}

IRModule fuse_ops_by_pattern(IRModule module, const std::vector<NamedPattern>& patterns, bool bind) {
  for (const NamedPattern& named : patterns) require_something(named);
  const auto before = module.functions();
  for (const NamedPattern& named : patterns)
    module = map_bodies(std::move(module), {std::string(kComposite), std::string(kCodegen)},
                        [&](const Expr& body, IRModule& m) {
                          return outline(body, PatternFuser(body, m).regions(named), m);
                        });
  if (!bind) return module;
  for (const auto& [name, f] : graph_functions(module))
    if (!before.contains(name)) module = bind_constants(std::move(module), name);
  return module;
}

}  // namespace tenon::graph

namespace tenon {
namespace {

const Option<Array<std::string>> kTables{
    "fuse_ops_by_pattern.tables", {}, "tables of patterns, registered as \"tenon.patterns.NAME\""};
const Option<std::string> kFile{"fuse_ops_by_pattern.file", "",
                                "a file with a table of patterns, as text or JSON, which goes first"};
const Option<std::string> kPatterns{
    "fuse_ops_by_pattern.patterns", "",
    "a table of patterns as text, such as [(\"lib.relu\", is_op(\"nn.relu\")())]"};
const Option<bool> kBindConstants{"fuse_ops_by_pattern.bind_constants", false,
                                  "constants belong to the functions and are no arguments"};

std::vector<graph::NamedPattern> named(const Ref<dpl::PatternTable>& table) {
  Array<Any> entries;
  for (const auto& [name, pattern] : table->patterns) entries.push_back(Any(Array<Any>{name, pattern}));
  return graph::named_patterns(entries);
}

std::vector<graph::NamedPattern> patterns_from(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf()))
    throw Error(ErrorKind::io, "T3001", "cannot read the table of patterns `" + path + "`");
  const size_t first = text.str().find_first_not_of(" \t\r\n");
  if (first == std::string::npos || text.str()[first] != '{')
    return named(dpl::parse_patterns(text.str(), path));
  const auto table = from_json(text.str()).cast<dpl::PatternTable>();
  if (!table) fail("T1152", "`" + path + "` holds no dpl.PatternTable", path, {}, ErrorKind::usage);
  return named(table);
}

IRModule run(IRModule module, PassContext& context) {
  std::vector<graph::NamedPattern> patterns;
  if (const std::string file = context.options.get(kFile); !file.empty()) patterns = patterns_from(file);
  if (const std::string text = context.options.get(kPatterns); !text.empty())
    for (graph::NamedPattern& p : named(dpl::parse_patterns(text))) patterns.push_back(std::move(p));
  for (const std::string& name : context.options.get(kTables))
    for (graph::NamedPattern& p : graph::pattern_table(name)) patterns.push_back(std::move(p));
  return graph::fuse_ops_by_pattern(std::move(module), patterns, context.options.get(kBindConstants));
}

}  // namespace

const Pass& fuse_ops_by_pattern_pass = register_pass({
    .name = "fuse_ops_by_pattern",
    .run = run,
    .summary = "parts that match named patterns become functions with the attribute Composite",
    .needs = {"infer_types"},
    .options = {kTables, kFile, kPatterns, kBindConstants},
});

}  // namespace tenon
