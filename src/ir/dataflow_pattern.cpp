// SPDX-License-Identifier: Apache-2.0
#include "ir/dataflow_pattern.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/define_type.h"
#include "ir/verify.h"
#include "ir/walk.h"

namespace tenon::dpl {

DFPattern wildcard() { return make<WildcardPattern>(); }

DFPattern is_op(std::string_view op, Array<DFPattern> args) {
  const Ref<graph::Op> found = graph::find_op(op);
  if (!found) fail("T0222", fmt::format("there is no operator `{}`", op), {}, {}, ErrorKind::usage);
  return make<CallPattern>(make<ExprPattern>(found), std::move(args));
}

namespace {

const graph::Op* operator_of(const DFPattern& pattern) {
  const auto* call = pattern.as<CallPattern>();
  const auto* named = call && call->op ? call->op.as<ExprPattern>() : nullptr;
  return named && named->expr ? named->expr.as<graph::Op>() : nullptr;
}

/// What is wrong with the one node; its parts are looked at for themselves.
std::string mistake(const ObjectRef& node) {
  if (const auto* call = node.as<CallPattern>()) {
    const graph::Op* op = operator_of(DFPattern(call));
    if (!op || call->any_args) return {};
    const auto least = std::ranges::count_if(op->arguments, [](const auto& a) { return !a.optional; });
    if (!op->variadic && call->args.size() > op->arguments.size())
      return fmt::format("`{}` takes {} arguments, the pattern has {}", op->name, op->arguments.size(),
                         call->args.size());
    if (!op->variadic && int64_t(call->args.size()) < least)
      return fmt::format("`{}` takes at least {} arguments, the pattern has {}", op->name, least,
                         call->args.size());
  }
  if (const auto* with = node.as<AttrPattern>())
    if (const graph::Op* op = operator_of(with->pattern))
      for (const auto& [name, value] : with->attrs) {
        auto has = [&](const FieldInfo& f) { return f.name == name; };
        if (!op->attrs_type || std::ranges::none_of(op->attrs_type->fields, has))
          return fmt::format("`{}` has no attribute `{}`", op->name, name);
      }
  if (const auto* no = node.as<NotPattern>(); no && no->reject.is<WildcardPattern>())
    return "it is the opposite of everything";
  if (const auto* item = node.as<TupleGetItemPattern>()) {
    const auto* tuple = item->tuple.as<TuplePattern>();
    if (item->index < -1 || (tuple && !tuple->any_items && item->index >= int64_t(tuple->items.size())))
      return fmt::format("the tuple has no item {}", item->index);
  }
  if (const auto* sequence = node.as<PatternSequence>()) {
    if (sequence->patterns.empty()) return "the sequence is empty";
    if (sequence->only_used_by.size() + 1 != sequence->patterns.size())
      return "a sequence says of each value but the last whether only the next one uses it";
  }
  return {};
}

/// Null patterns among the fields.
bool has_missing_part(const ObjectRef& node) {
  for (const FieldInfo& f : type_of(node)->fields) {
    if (!f.is_ref) continue;
    const std::string type = f.type->name();
    if (type != DFPatternNode::type_key && type != "graph.Expr" && type != "ir.Type") {
      if (type != "Array[dpl.DFPattern]") continue;
      for (const Any& item : f.get(node.get()).as<Array<Any>>())
        if (item.is_none()) return true;
      continue;
    }
    if (!*f.ref(node.get())) return true;
  }
  return false;
}

}  // namespace

void check_pattern(const DFPattern& pattern) {
  auto refuse = [](const std::string& why) {
    fail("T1150", "the pattern matches nothing: " + why, {}, {}, ErrorKind::usage);
  };
  if (!pattern) refuse("a part of it is missing");
  std::unordered_map<const Object*, int> depth;
  post_order(pattern, [&](const ObjectRef& node) {
    if (!node.is<DFPatternNode>()) return;
    int& own = depth[node.get()];
    for (const ObjectRef& child : children(node))
      if (child.is<DFPatternNode>()) own = std::max(own, depth[child.get()] + 1);
    if (own > kMaxNesting) refuse(fmt::format("it nests deeper than {}", kMaxNesting));
    if (has_missing_part(node)) refuse("a part of it is missing");
    if (const std::string why = mistake(node); !why.empty()) refuse(why);
  });
}

}  // namespace tenon::dpl

template struct tenon::DefineTypes<
    tenon::dpl::WildcardPattern, tenon::dpl::ExprPattern, tenon::dpl::ConstantPattern,
    tenon::dpl::CallPattern, tenon::dpl::AttrPattern, tenon::dpl::TypePattern, tenon::dpl::ShapePattern,
    tenon::dpl::DataTypePattern, tenon::dpl::OrPattern, tenon::dpl::AndPattern, tenon::dpl::NotPattern,
    tenon::dpl::DominatorPattern, tenon::dpl::TuplePattern, tenon::dpl::TupleGetItemPattern,
    tenon::dpl::FunctionPattern, tenon::dpl::PatternSequence, tenon::dpl::PatternTable>;
