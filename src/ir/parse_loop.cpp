// SPDX-License-Identifier: Apache-2.0
// Loops of tensor programs: what they run over, the names of their variables.
#include <fmt/format.h>

#include <algorithm>

#include "ir/parse_impl.h"

namespace tenon::script {
using namespace tir;

/// `*A.shape`, `*(4, 8)`: the values that stand for it.
Array<PrimExpr> Converter::starred(const Ast* star) {
  const Ast* list = star->items[0];
  if (list->kind == ExprKind::attribute && list->text == "shape" && is_buffer(list->items[0]))
    return buffer_of(list->items[0])->shape;
  if (list->kind != ExprKind::tuple && list->kind != ExprKind::list && items_of(list).size() == 1)
    fail("T0221", "behind a star stands the shape of a buffer, or a list", star);
  return exprs(list);
}

/// range(begin, end, step), T.parallel(begin, end, annotations=…), T.thread_binding(begin, end,
/// "threadIdx.x").
Converter::Loop Converter::loop_of(const Ast* iterable, const std::string& p) {
  static constexpr std::pair<std::string_view, ForKind> kinds[] = {
      {"range", ForKind::serial},
      {"T.serial", ForKind::serial},
      {"T.range", ForKind::serial},
      {"T.parallel", ForKind::parallel},
      {"T.vectorized", ForKind::vectorized},
      {"T.vectorize", ForKind::vectorized},
      {"T.unroll", ForKind::unrolled},
      {"T.unrolled", ForKind::unrolled},
      {"T.thread_binding", ForKind::thread_binding}};
  const auto* kind = std::find_if(std::begin(kinds), std::end(kinds), [&](auto& k) { return k.first == p; });
  if (kind == std::end(kinds))
    fail("T0236", fmt::format("`{}` is no kind of loop", p), iterable,
         "range, T.grid, T.serial, T.parallel, T.vectorized, T.unroll or T.thread_binding");
  const bool bound = kind->second == ForKind::thread_binding, by_place = p == "range";
  only(iterable, bound || by_place ? 3 : 2,
       {"begin", "start", "end", "stop", "extent", "thread", "annotations", "step"});
  const Ast *a = argument(iterable, 0, "begin"), *b = argument(iterable, 1, "end"),
            *n = named(iterable, "extent"),
            *thread = bound ? argument(iterable, 2, "thread") : named(iterable, "thread"),
            *notes = named(iterable, "annotations"),
            *step = by_place ? argument(iterable, 2, "step") : named(iterable, "step");
  if (b && b->kind == ExprKind::string && !thread) {
    thread = b;
    b = nullptr;
  }
  if (!b) b = named(iterable, "stop");
  if (!a && !n) fail("T0223", fmt::format("`{}` lacks its extent", p), iterable);
  Loop l{
      {}, kind->second, thread ? text_of(thread, "a thread tag") : "", notes ? dict(notes) : AttrMap(), {}};
  if (a && b) {
    Value lo = value(a), hi = value(b);
    unify(lo, hi, iterable);
    l.dom = tir::range(lo.e, is_zero(lo.e) ? hi.e : hi.e - lo.e);
  } else if (n) {
    Value extent = value(n), lo = a ? value(a) : Value{PrimExpr(0), true};
    unify(lo, extent, iterable);
    l.dom = tir::range(lo.e, extent.e);
  } else {
    l.dom = range(a);
  }
  if (step && !is_none(step)) {
    l.step = expr_of(step, l.dom->extent.dtype());
    const auto known = as_int(l.step);
    if (!known || *known < 1) fail("T0236", "the step of a loop is a positive number", step);
    if (*known == 1) l.step = {};
  }
  return l;
}

std::vector<Converter::Loop> Converter::loops_of(const Ast* iterable) {
  const std::string p = path(iterable->items[0]);
  if (p != "T.grid" && p != "grid") return {loop_of(iterable, p)};
  if (!iterable->named.empty()) fail("T0223", "T.grid takes extents only", iterable);
  std::vector<Loop> loops;
  auto add = [&](Range dom) { loops.push_back({std::move(dom), ForKind::serial, "", {}, {}}); };
  for (size_t i = 1; i < iterable->items.size(); ++i) {
    if (iterable->items[i]->kind != ExprKind::star) {
      add(range(iterable->items[i]));
      continue;
    }
    for (const PrimExpr& e : starred(iterable->items[i])) add(tir::range(PrimExpr::int_imm(0, e.dtype()), e));
  }
  return loops;
}

/// `for i in T.grid(4, 4)`: one name stands for the variables of all loops.
std::vector<const Ast*> Converter::numbered_names(const Ast* name, size_t count) {
  std::vector<const Ast*> out;
  for (size_t i = 0; i < count; ++i) {
    Ast one = *name;
    one.text += "_" + std::to_string(i);
    out.push_back(&made_.emplace_back(std::move(one)));
  }
  return out;
}

Stmt Converter::for_stmt(const AstStmt* s, const Ast* target, const Ast* iterable) {
  if (!iterable || iterable->kind != ExprKind::call)
    fail("T0236", "a loop runs over range(…), T.grid(…), T.serial(…), T.parallel(…), …",
         iterable ? span(iterable) : span(s));
  std::vector<Loop> loops;
  if (!attempt(s, false, [&] { loops = loops_of(iterable); })) {
    Scope scope(*this);
    poison_declared(s);
    block_body(s->body, nullptr);
    throw Failed();
  }
  std::vector<const Ast*> names = items_of(target);
  const bool one_for_all = names.size() == 1 && loops.size() > 1 && target->kind == ExprKind::name;
  if (one_for_all) names = numbered_names(target, loops.size());
  if (names.size() != loops.size())
    fail("T0236", fmt::format("the loop has {} variables over {} domains", names.size(), loops.size()),
         target);
  Scope scope(*this);
  std::vector<VarRef> vars;
  std::vector<std::pair<VarRef, PrimExpr>> positions;  // of loops by steps: the text's variable and its value
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i]->kind != ExprKind::name) fail("T0225", "a loop variable is a name", names[i]);
    const DataType type = loops[i].dom->extent.dtype();
    if (!type.is_integer()) fail("T0230", fmt::format("a loop over {}", to_string(type)), iterable);
    vars.push_back(var(names[i]->text, type));
    loop_ranges_[vars.back().get()] = loops[i].dom;
    if (!loops[i].step) {
      bind(names[i]->text, vars.back());
      continue;
    }
    const VarRef at = var(names[i]->text, type);
    positions.emplace_back(at, loops[i].dom->min + vars.back() * loops[i].step);
    bind(names[i]->text, at);
  }
  if (one_for_all) {
    auto all = make<NamesObj>();
    all.edit()->names = names;
    bind(target->text, all);
  }
  Stmt body = block_body(s->body, nullptr);
  for (size_t i = positions.size(); i-- > 0;)
    body = make<LetStmt>(positions[i].first, positions[i].second, body);
  for (size_t i = loops.size(); i-- > 0;) {
    const Loop& l = loops[i];
    const PrimExpr begin = l.step ? PrimExpr::int_imm(0, l.step.dtype()) : l.dom->min;
    const auto known = as_int(l.dom->extent);
    const PrimExpr count =
        !l.step ? l.dom->extent
        : known ? PrimExpr::int_imm((*known + *as_int(l.step) - 1) / *as_int(l.step), l.step.dtype())
                : ceildiv(l.dom->extent, l.step);
    body = with_origin(make<For>(vars[i], begin, count, l.kind, body, l.tag, l.annotations), origin(s));
  }
  return body;
}

}  // namespace tenon::script
