// SPDX-License-Identifier: Apache-2.0
// Blocks of tensor programs: iterators, and what binds them to values.
#include <fmt/format.h>

#include "ir/parse_impl.h"

namespace tenon::script {
using namespace tir;

void Converter::axis(const Ast* target, const Ast* call, BlockParts* parts) {
  if (!parts || parts->function)
    fail("T0235", "a block's iterators are declared directly in the block", call);
  const std::string kind = path(call->items[0]).substr(7);
  auto add = [&](const Ast* name, Range dom, PrimExpr value, IterKind k, std::string tag) {
    if (name->kind != ExprKind::name) fail("T0225", "a variable's name was expected", name);
    VarRef v = var(name->text, dom->extent.dtype());
    bind(v->name, v);
    parts->iter_vars.push_back(make<IterVarNode>(dom, v, k, std::move(tag)));
    if (value) parts->iter_values.push_back(value);
  };
  if (kind == "remap") {
    only(call, 2, {"kinds", "bindings"});
    const std::string kinds = text_of(need(call, 0, "kinds"), "the kinds");
    const auto values = items_of(need(call, 1, "bindings"));
    const auto names = items_of(target);
    if (kinds.size() != names.size() || values.size() != names.size())
      fail("T0234",
           fmt::format("{} iterators are given {} kinds and {} values", names.size(), kinds.size(),
                       values.size()),
           call);
    for (size_t i = 0; i < names.size(); ++i) {
      if (kinds[i] != 'S' && kinds[i] != 'R')
        fail("T0234", fmt::format("`{}` is no kind of iterator: S (spatial) or R (reduce)", kinds[i]), call);
      VarRef loop = variable(values[i]);
      auto it = loop_ranges_.find(loop.get());
      if (it == loop_ranges_.end())
        fail("T0234", fmt::format("`{}` is no loop variable, so remap cannot know its domain", loop->name),
             values[i], "use T.axis.spatial(extent, value)");
      add(names[i], it->second, loop, kinds[i] == 'S' ? IterKind::spatial : IterKind::reduce, "");
    }
    return;
  }
  static constexpr std::pair<std::string_view, IterKind> kinds[] = {{"spatial", IterKind::spatial},
                                                                    {"S", IterKind::spatial},
                                                                    {"reduce", IterKind::reduce},
                                                                    {"R", IterKind::reduce},
                                                                    {"scan", IterKind::scan},
                                                                    {"opaque", IterKind::opaque},
                                                                    {"thread_index", IterKind::thread_index}};
  for (auto [name, k] : kinds) {
    if (name != kind) continue;
    only(call, 2, {"dom", "value", "binding", "thread", "dtype"});
    const Ast *value = argument(call, 1, "value") ? argument(call, 1, "value") : named(call, "binding"),
              *tag = named(call, "thread");
    Range dom = range(need(call, 0, "dom"));
    PrimExpr v = value ? expr_of(value, dom->extent.dtype()) : PrimExpr();
    // A bare extent takes the type of the value bound to it.
    if (v && dom->extent.is<IntImm>() && v.dtype() != dom->extent.dtype() && v.dtype().is_integer() &&
        is_zero(dom->min) && argument(call, 0, "dom")->kind == ExprKind::integer)
      dom = tir::range(PrimExpr::int_imm(0, v.dtype()), PrimExpr::int_imm(*as_int(dom->extent), v.dtype()));
    if (v && v.dtype() != dom->extent.dtype() && v.dtype().is_int() && dom->extent.dtype().is_int()) {
      if (v.dtype().bits < dom->extent.dtype().bits)
        v = cast(dom->extent.dtype(), v);
      else
        dom = tir::range(cast(v.dtype(), dom->min), cast(v.dtype(), dom->extent));
    }
    if (v && v.dtype() != dom->extent.dtype())
      fail("T0230",
           fmt::format("an iterator over {} is given a value of type {}", to_string(dom->extent.dtype()),
                       to_string(v.dtype())),
           call);
    return add(target, dom, v, k, tag ? text_of(tag, "a thread tag") : "");
  }
  fail("T0222", fmt::format("there is no `T.axis.{}`", kind), call, "spatial, reduce, scan, opaque or remap");
}

/// `with T.block("name"):`, and the older `with T.block([128, T.reduce_axis(0, 128)], "name") as [vi, vk]:`.
Stmt Converter::block_stmt(const AstStmt* s, const Ast* call, const Ast* as) {
  saw_block_ = true;
  Scope scope(*this);
  BlockParts parts;
  std::string name;
  only(call, 2, {"name_hint", "name", "no_realize"});
  const Ast* domains = nullptr;
  for (size_t i = 1; i < call->items.size(); ++i)
    if (call->items[i]->kind == ExprKind::string)
      name = call->items[i]->text;
    else
      domains = call->items[i];
  if (const Ast* n = named(call, "name_hint") ? named(call, "name_hint") : named(call, "name"))
    name = text_of(n, "a block's name");
  const Ast* bare = named(call, "no_realize");
  if (domains) {
    const auto list = items_of(domains);
    const auto names = as ? items_of(as) : std::vector<const Ast*>();
    if (names.size() != list.size())
      fail("T0234", fmt::format("the block has {} domains and {} names for them", list.size(), names.size()),
           call);
    for (size_t i = 0; i < list.size(); ++i) {
      IterKind kind = IterKind::spatial;
      Range dom;
      const std::string p = list[i]->kind == ExprKind::call ? path(list[i]->items[0]) : "";
      if (p == "T.reduce_axis" || p == "T.scan_axis" || p == "T.opaque_axis" || p == "reduce_axis") {
        kind = p == "T.scan_axis"     ? IterKind::scan
               : p == "T.opaque_axis" ? IterKind::opaque
                                      : IterKind::reduce;
        Value lo = value(need(list[i], 0, "begin")), hi = value(need(list[i], 1, "end"));
        unify(lo, hi, list[i]);
        dom = tir::range(lo.e, is_zero(lo.e) ? hi.e : hi.e - lo.e);
      } else {
        dom = range(list[i]);
      }
      VarRef v = var(names[i]->text, dom->extent.dtype());
      bind(v->name, v);
      parts.iter_vars.push_back(make<IterVarNode>(dom, v, kind, std::string()));
    }
    parts.iter_values.resize(list.size());
  }
  Stmt body = block_body(s->body, &parts);
  for (size_t i = 0; i < parts.iter_values.size(); ++i)
    if (!parts.iter_values[i])
      fail("T0234", fmt::format("iterator `{}` is never bound to a value", parts.iter_vars[i]->var->name),
           span(s), "write T.bind(iterator, value)");
  if (!bare && parts.iter_values.size() != parts.iter_vars.size())
    fail("T0234", "an iterator of the block is given no value", span(s),
         "write T.axis.spatial(extent, value)");
  Array<BufferRegion> reads, writes;
  const bool plain_root = name == "root" && parts.iter_vars.empty();
  if ((!parts.reads || !parts.writes) && !plain_root) infer_regions(parts, body, &reads, &writes);
  if (parts.reads) reads = *parts.reads;
  if (parts.writes) writes = *parts.writes;
  auto block = with_origin(make<Block>(parts.iter_vars, reads, writes, name, body, parts.init,
                                       parts.alloc_buffers, parts.match_buffers, parts.annotations),
                           origin(s));
  if (bare) return block;
  return with_origin(
      make<BlockRealize>(parts.iter_values, parts.predicate ? parts.predicate : true_(), block),
      block->origin);
}

}  // namespace tenon::script
