// SPDX-License-Identifier: Apache-2.0
#include "analysis/program_writes.h"

#include "analysis/analyzer.h"
#include "analysis/races.h"
#include "ir/find_node.h"
#include "ir/intrinsic_table.h"

namespace tenon {

using namespace tir;

namespace {

/// Depends on its arguments and on memory only, and names no address.
bool is_plain(const PrimExpr& e) {
  bool plain = !e || e.dtype().is_scalar();
  if (e)
    pre_order(e, [&](const ObjectRef& o) {
      if (const auto* c = o.as<Call>()) {
        const Intrinsic* known = find_intrinsic(c->op);
        plain = plain && known && known->pure && c->op != "tir.address_of" && c->op != "tir.undef";
      }
      if (const auto* l = o.as<BufferLoad>()) plain = plain && !l->predicate && l->dtype.is_scalar();
      plain = plain && !o.is<ProducerLoad>() && !o.is<Let>() && !o.is<Ramp>() && !o.is<Reduce>();
      return plain && !o.is<BufferNode>();
    });
  return plain;
}
bool reads_memory(const PrimExpr& e) { return has_node<BufferLoad>(e); }

// Programs of more stores are written out loops, about which nothing is proved one by one.
constexpr size_t kMostWrites = 64;

class Writes {
 public:
  std::vector<ProgramWrite> found;
  bool whole = true;  ///< everything that the program does is in `found`

  void stmt(const Stmt& s) {
    if (!whole) return;
    if (const auto* n = s.as<SeqStmt>()) {
      for (const Stmt& part : n->seq) stmt(part);
    } else if (const auto* n = s.as<For>()) {
      loop(*n);
    } else if (const auto* n = s.as<BlockRealize>()) {
      realize(*n);
    } else if (const auto* n = s.as<BufferStore>()) {
      bare_store(*n);
    } else if (const auto* n = s.as<IfThenElse>()) {
      under(n->condition, [&] { stmt(n->then_case); });
      if (n->else_case) under(logical_not(n->condition), [&] { stmt(n->else_case); });
    } else if (const auto* n = s.as<Allocate>()) {
      stmt(n->body);
    } else {
      const auto* nothing = s.as<Evaluate>();
      whole = nothing && as_int(nothing->value);
    }
  }

 private:
  PrimExpr known(const PrimExpr& e) const { return substitute(e, names_); }

  void loop(const For& n) {
    const bool any_order = n.kind == ForKind::parallel || n.kind == ForKind::vectorized;
    whole = n.kind != ForKind::thread_binding && n.loop_var->dtype == i64 && is_size(n.min) &&
            is_size(n.extent) && (!any_order || may_run_in_any_order(n));
    if (!whole) return;
    const VarRef fresh = var(n.loop_var->name);
    loops_.push_back({next_++, fresh, known(n.min), known(n.extent), n.kind});
    around_.emplace_back(n.loop_var, range(n.min, n.extent));
    names_[n.loop_var.get()] = fresh;
    stmt(n.body);
    names_.erase(n.loop_var.get());
    around_.pop_back();
    loops_.pop_back();
  }
  /// The same in every iteration of the loops around.
  bool is_size(const PrimExpr& e) const {
    if (!is_plain(e) || reads_memory(e)) return false;
    for (const VarRef& v : free_vars(e))
      for (const auto& [outer, r] : around_)
        if (v.same_as(outer)) return false;
    return true;
  }
  bool may_run_in_any_order(const For& n) const {
    Analyzer analyzer;
    for (const auto& [v, r] : around_) analyzer.bind(v, r, true);
    return shared_by_iterations(n, analyzer).empty();
  }
  void under(const PrimExpr& condition, FunctionRef<void()> body) {
    whole = whole && is_plain(condition) && !reads_memory(condition);
    if (!whole) return;
    conditions_.push_back(known(condition));
    body();
    conditions_.pop_back();
  }

  void realize(const BlockRealize& n) {
    const Block& block = *n.block;
    whole = block.match_buffers.empty();
    for (size_t i = 0; i < block.iter_vars.size(); ++i) {
      const IterVar& v = block.iter_vars[i];
      whole = whole && (v->kind == IterKind::spatial || v->kind == IterKind::reduce) &&
              is_plain(n.iter_values[i]) && !reads_memory(n.iter_values[i]) && v->var->dtype == i64;
    }
    if (!whole) return;
    if (!n.predicate || is_one(n.predicate))
      block_body(n);
    else
      under(n.predicate, [&] { block_body(n); });
  }
  void block_body(const BlockRealize& n) {
    const Block& block = *n.block;
    if (const auto* s = block.body.as<BufferStore>()) return block_store(n, *s);
    whole = !block.init;
    VarMap outer = names_;
    for (size_t i = 0; i < block.iter_vars.size(); ++i) {
      outer[block.iter_vars[i]->var.get()] = known(n.iter_values[i]);
      around_.emplace_back(block.iter_vars[i]->var, block.iter_vars[i]->dom);
    }
    std::swap(names_, outer);
    stmt(block.body);
    std::swap(names_, outer);
    for (size_t i = 0; i < block.iter_vars.size(); ++i) around_.pop_back();
  }

  void block_store(const BlockRealize& n, const BufferStore& s) {
    ProgramWrite write;
    VarMap names = names_;
    for (size_t i = 0; i < n.block->iter_vars.size(); ++i) {
      const IterVar& v = n.block->iter_vars[i];
      const VarRef fresh = var(v->var->name);
      write.iters.push_back({fresh, known(v->dom->min), known(v->dom->extent), known(n.iter_values[i]),
                             v->kind == IterKind::reduce});
      names[v->var.get()] = fresh;
    }
    if (n.block->init) {
      const auto* init = n.block->init.as<BufferStore>();
      whole = init && init->buffer.same_as(s.buffer) && init->indices.size() == s.indices.size() &&
              is_plain(init->value) && !init->predicate;
      for (size_t d = 0; whole && d < s.indices.size(); ++d)
        whole = init->indices[d].same_as(s.indices[d]) || same(init->indices[d], s.indices[d]);
      if (!whole) return;
      write.init = substitute(init->value, names);
    }
    add(std::move(write), s, names);
  }
  static bool same(const PrimExpr& a, const PrimExpr& b) {
    return a.get() == b.get() || is_zero(simplify(a - b));
  }
  void bare_store(const BufferStore& s) {
    ProgramWrite write;
    for (const ProgramLoop& l : loops_) write.iters.push_back({l.var, l.min, l.extent, PrimExpr(l.var)});
    add(std::move(write), s, names_);
  }
  void add(ProgramWrite write, const BufferStore& s, const VarMap& names) {
    whole = is_plain(s.value) && !s.predicate && found.size() < kMostWrites;
    for (const PrimExpr& i : s.indices) whole = whole && is_plain(i) && !reads_memory(i) && i.dtype() == i64;
    if (!whole) return;
    write.buffer = s.buffer;
    write.value = substitute(s.value, names);
    for (const PrimExpr& i : s.indices) write.at.push_back(substitute(i, names));
    write.loops = loops_;
    write.conditions = conditions_;
    found.push_back(std::move(write));
  }

  std::vector<ProgramLoop> loops_;
  std::vector<std::pair<VarRef, Range>> around_;  ///< loops and iterators, as the program names them
  Array<PrimExpr> conditions_;
  VarMap names_;  ///< variables of the program as values over `loops_`
  int next_ = 0;
};

}  // namespace

std::optional<std::vector<ProgramWrite>> program_writes(const Stmt& body) {
  Writes writes;
  writes.stmt(body);
  if (!writes.whole) return std::nullopt;
  return std::move(writes.found);
}

PrimExpr over_loops(const ProgramWrite& write, const PrimExpr& e) {
  VarMap bindings;
  for (const WriteIter& i : write.iters) bindings[i.var.get()] = i.binding;
  return substitute(e, bindings);
}

}  // namespace tenon
