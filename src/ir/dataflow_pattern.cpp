// SPDX-License-Identifier: Apache-2.0
#include "ir/dataflow_pattern.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/define_type.h"
#include "ir/tir.h"
#include "ir/verify.h"
#include "ir/walk.h"

namespace tenon::dpl {

DFPattern wildcard() { return make<WildcardPattern>(); }

DFPattern is_op(std::string_view op, Array<DFPattern> args) {
  const Ref<graph::Op> found = graph::find_op(op);
  if (!found) fail("T0222", fmt::format("there is no operator `{}`", op), {}, {}, ErrorKind::usage);
  return make<CallPattern>(make<ExprPattern>(found), std::move(args));
}

DFPattern in_sequence(const DFPattern& left, const DFPattern& right, bool only, int64_t argument) {
  auto as_sequence = [](const DFPattern& p) {
    const auto* s = p ? p.as<PatternSequence>() : nullptr;
    return s ? Ref<PatternSequence>(s)
             : make<PatternSequence>(Array<DFPattern>{p}, Array<int64_t>(), Array<int64_t>());
  };
  Ref<PatternSequence> out = as_sequence(left);
  const Ref<PatternSequence> behind = as_sequence(right);
  PatternSequence* s = out.edit();
  auto link = [&](bool is_only, int64_t of_argument) {
    while (s->argument.size() < s->only_used_by.size()) s->argument.push_back(-1);
    s->only_used_by.push_back(is_only);
    s->argument.push_back(of_argument);
  };
  link(only, argument);
  for (size_t i = 0; i < behind->patterns.size(); ++i) {
    s->patterns.push_back(behind->patterns[i]);
    if (i < behind->only_used_by.size())
      link(behind->only_used_by[i] != 0, i < behind->argument.size() ? behind->argument[i] : -1);
  }
  return out;
}

std::vector<DFPattern> direct_parts(const DFPattern& pattern) {
  std::vector<DFPattern> out;
  auto add = [&](const ObjectRef& part) {
    if (part && part.is<DFPatternNode>()) out.push_back(part.cast<DFPatternNode>());
  };
  for (const FieldInfo& f : type_of(pattern)->fields) {
    if (!f.is_ref) continue;
    const ObjectRef value = *f.ref(pattern.get());
    const auto* list = value ? value.as<ArrayObj>() : nullptr;
    if (!list) add(value);
    for (const Any& item : list ? list->items : std::vector<Any>())
      if (item.is_object()) add(item.as<ObjectRef>());
  }
  return out;
}

namespace {
/// A call of the operator with these arguments first.
DFPattern call_from(std::string_view op, Array<DFPattern> first) {
  return make<CallPattern>(make<ExprPattern>(graph::find_op(op)), std::move(first), true);
}
}  // namespace

DFPattern is_call_tir(const std::string& name, const DFPattern& args) {
  return call_from("call_tir", {make<GlobalVarPattern>(name), args ? args : wildcard()});
}
DFPattern is_call_dps_packed(const std::string& name, const DFPattern& args) {
  return call_from("call_dps_packed", {make<ExternFuncPattern>(name), args ? args : wildcard()});
}
DFPattern is_call_packed(const std::string& name, const std::optional<Array<DFPattern>>& args) {
  Array<DFPattern> all{make<ExternFuncPattern>(name)};
  for (const DFPattern& a : args.value_or(Array<DFPattern>())) all.push_back(a);
  return args ? is_op("call_packed", all) : call_from("call_packed", all);
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
    if (!op) return {};
    const auto least = std::ranges::count_if(op->arguments, [](const auto& a) { return !a.optional; });
    if (!op->variadic && call->args.size() > op->arguments.size())
      return fmt::format("`{}` takes {} arguments, the pattern has {}", op->name, op->arguments.size(),
                         call->args.size());
    if (!op->variadic && !call->any_args && int64_t(call->args.size()) < least)
      return fmt::format("`{}` takes at least {} arguments, the pattern has {}", op->name, least,
                         call->args.size());
  }
  if (const auto* with = node.as<AttrPattern>())
    if (const graph::Op* op = operator_of(with->pattern))
      for (const auto& [name, value] : with->attrs) {
        auto has = [&](const FieldInfo& f) { return f.name == name; };
        const auto fields = op->attrs_type ? op->attrs_type->fields : std::span<const FieldInfo>();
        const auto field = std::ranges::find_if(fields, has);
        if (field == fields.end()) return fmt::format("`{}` has no attribute `{}`", op->name, name);
        if (Any fit; !field->coerce(value, &fit))
          return fmt::format("the attribute `{}` of `{}` holds no value of this kind", name, op->name);
      }
  if (const auto* with = node.as<AttrPattern>())
    if (const auto* named = with->pattern ? with->pattern.as<ExprPattern>() : nullptr)
      if (const auto* op = named->expr ? named->expr.as<graph::Op>() : nullptr)
        for (const auto& [name, value] : with->attrs)
          if (!op->rules || op->rules->property(name).is_none())
            return fmt::format("the operator `{}` itself has no `{}`, its calls may have", op->name, name);
  if (const auto* with = node.as<ShapePattern>())
    for (const PrimExpr& size : with->shape)
      if (const auto n = tir::as_int(size); n && *n < 0) return fmt::format("no tensor has the size {}", *n);
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
    for (size_t i = 0; i < sequence->argument.size(); ++i)
      if (const graph::Op* op =
              i + 1 < sequence->patterns.size() ? operator_of(sequence->patterns[i + 1]) : nullptr;
          op && !op->variadic && sequence->argument[i] >= int64_t(op->arguments.size()))
        return fmt::format("`{}` has no argument {}", op->name, sequence->argument[i]);
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

/// The parts that stand for values where the pattern matches: not those of which only the shape counts.
std::set<const Object*> parts_of(const DFPattern& pattern) {
  std::set<const Object*> out;
  std::vector<DFPattern> work{pattern};
  while (!work.empty()) {
    const DFPattern part = work.back();
    work.pop_back();
    if (!part || !out.insert(part.get()).second) continue;
    if (const auto* same = part.as<SameShapePattern>())
      work.push_back(same->pattern);
    else
      for (const DFPattern& p : direct_parts(part)) work.push_back(p);
  }
  return out;
}

}  // namespace

void check_pattern(const DFPattern& pattern) {
  auto refuse = [](const std::string& why) {
    fail("T1150", "the pattern matches nothing: " + why, {}, {}, ErrorKind::usage);
  };
  if (!pattern) refuse("a part of it is missing");
  std::unordered_map<const Object*, int> depth;
  const std::set<const Object*> parts = parts_of(pattern);
  post_order(pattern, [&](const ObjectRef& node) {
    if (!node.is<DFPatternNode>()) return;
    int& own = depth[node.get()];
    for (const ObjectRef& child : children(node))
      if (child.is<DFPatternNode>()) own = std::max(own, depth[child.get()] + 1);
    if (own > kMaxNesting) refuse(fmt::format("it nests deeper than {}", kMaxNesting));
    if (has_missing_part(node)) refuse("a part of it is missing");
    if (const std::string why = mistake(node); !why.empty()) refuse(why);
    if (const std::string why = contradiction(node.cast<DFPatternNode>()); !why.empty()) refuse(why);
    if (const auto* same = node.as<SameShapePattern>(); same && !parts.contains(same->other.get()))
      refuse("it compares the shape of what it does not hold");
    if (const auto* let = node.as<LetPattern>(); let && !parts_of(let->body).contains(let->var.get()))
      refuse("the body of is_let does not use the variable");
  });
}

}  // namespace tenon::dpl

template struct tenon::DefineTypes<
    tenon::dpl::WildcardPattern, tenon::dpl::ExprPattern, tenon::dpl::ConstantPattern,
    tenon::dpl::CallPattern, tenon::dpl::AttrPattern, tenon::dpl::TypePattern, tenon::dpl::ShapePattern,
    tenon::dpl::DataTypePattern, tenon::dpl::OrPattern, tenon::dpl::AndPattern, tenon::dpl::NotPattern,
    tenon::dpl::DominatorPattern, tenon::dpl::TuplePattern, tenon::dpl::TupleGetItemPattern,
    tenon::dpl::FunctionPattern, tenon::dpl::PatternSequence, tenon::dpl::PatternTable,
    tenon::dpl::VarPattern, tenon::dpl::GlobalVarPattern, tenon::dpl::ExternFuncPattern,
    tenon::dpl::SameShapePattern, tenon::dpl::PrimArrPattern, tenon::dpl::IfPattern, tenon::dpl::LetPattern>;
