// SPDX-License-Identifier: Apache-2.0
// instrument_bound_checkers
//   before: B[i] = T.if_then_else(i < n, A[i], 0.0)
//   after:  assert not i < n or (0 <= i and i < m), "index 0 of buffer A …"; B[i] = …
// Every access that is not provably inside its buffer is asserted before its statement; lazy choices and
// predicates guard the assertion. The condition of a while loop is asserted before each turn.
// Needs: no vectors yet (accesses of several lanes are checked where they are ramps). Keeps: the program.
#include "analysis/condition.h"
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;
using tensor_detail::edited;

namespace {

class Instrument : public tensor_detail::Rewriter {
 public:
  explicit Instrument(const PrimFunc& f) {
    for (const VarRef& v : tensor_detail::sizes_of(f)) analyzer_.assume_size(v, 0);
  }
  Stmt stmt(const Stmt& s) override {
    if (!s) return s;
    if (s.is<SeqStmt>()) {
      const Stmt r = below(s);  // a statement may have become several
      return r.same_as(s) ? s : seq(r.as<SeqStmt>()->seq);
    }
    std::vector<Stmt> checks;
    if (const auto* n = s.as<For>()) {
      look(n->min, PrimExpr(), checks);
      look(n->extent, PrimExpr(), checks);
      analyzer_.bind(n->loop_var, range(n->min, n->extent));
      return with(checks, below(s));
    }
    if (const auto* n = s.as<IfThenElse>()) {
      look(n->condition, PrimExpr(), checks);
      const auto sides = visit_branches(*n, analyzer_, [&](const Stmt& x) { return stmt(x); });
      return with(checks, edited<IfThenElse>(s, [&](IfThenElse* m) {
                    m->then_case = sides.first;
                    m->else_case = sides.second;
                  }));
    }
    if (const auto* n = s.as<tir::While>()) {
      look(n->condition, PrimExpr(), checks);
      Stmt body = stmt(n->body);
      if (!checks.empty()) {
        Array<Stmt> all{body};
        for (const Stmt& c : checks) all.push_back(c);
        body = seq(all);
      }
      return with(checks, edited<tir::While>(s, [&](tir::While* m) { m->body = body; }));
    }
    if (const auto* n = s.as<BufferStore>()) {
      for (const PrimExpr& i : n->indices) look(i, PrimExpr(), checks);
      look(n->value, PrimExpr(), checks);
      look(n->predicate, PrimExpr(), checks);
      access(n->buffer, n->indices, n->predicate, PrimExpr(), checks);
      return with(checks, s);
    }
    if (const auto* n = s.as<tir::Evaluate>()) {
      look(n->value, PrimExpr(), checks);
      return with(checks, s);
    }
    if (const auto* n = s.as<LetStmt>()) {
      look(n->value, PrimExpr(), checks);
      return with(checks, below(s));
    }
    return below(s);
  }
  PrimExpr expr(const PrimExpr& e) override { return e; }

 private:
  static Stmt with(const std::vector<Stmt>& checks, const Stmt& s) {
    if (checks.empty()) return s;
    Array<Stmt> all;
    for (const Stmt& c : checks) all.push_back(c);
    all.push_back(s);
    return seq(all);
  }
  void look(const PrimExpr& e, const PrimExpr& guard, std::vector<Stmt>& checks) {
    if (!e || e.is<Var>() || e.is<IntImm>() || e.is<FloatImm>()) return;
    if (const auto* l = e.as<BufferLoad>()) {
      for (const PrimExpr& i : l->indices) look(i, guard, checks);
      look(l->predicate, guard, checks);
      access(l->buffer, l->indices, l->predicate, guard, checks);
      return;
    }
    if (const auto* c = e.as<Call>()) {
      if (c->op == "tir.if_then_else" && c->args[0].dtype().is_scalar()) {
        look(c->args[0], guard, checks);
        auto both = [&](const PrimExpr& g) { return guard ? logical_and(guard, g) : g; };
        look(c->args[1], both(c->args[0]), checks);
        look(c->args[2], both(logical_not(c->args[0])), checks);
        return;
      }
      if (c->op == "tir.address_of") return;  // a place behind the end may be named
    }
    if (e.is<Let>()) return;  // its variable is known inside only
    for (const ObjectRef& x : children(e))
      if (x.is<PrimExprNode>()) look(PrimExpr(x.cast<PrimExprNode>()), guard, checks);
  }
  void access(const Buffer& b, const Array<PrimExpr>& at, const PrimExpr& predicate, PrimExpr guard,
              std::vector<Stmt>& checks) {
    if (predicate) {
      if (predicate.dtype().is_vector()) return;
      guard = guard ? logical_and(guard, predicate) : predicate;
    }
    for (size_t d = 0; d < at.size(); ++d) {
      PrimExpr low = at[d], high = at[d];
      if (const auto* r = at[d].as<Ramp>()) {
        const auto stride = as_int(r->stride);
        if (!stride) continue;
        const PrimExpr end = r->base + PrimExpr::int_imm(*stride * (r->lanes - 1), r->base.dtype());
        low = *stride < 0 ? end : r->base;
        high = *stride < 0 ? r->base : end;
      } else if (const auto* x = at[d].as<Broadcast>()) {
        low = high = x->value;
      } else if (at[d].dtype().is_vector()) {
        continue;
      }
      const PrimExpr size = cast(high.dtype(), b->shape[d]);
      PrimExpr inside = logical_and(ge(low, PrimExpr::int_imm(0, low.dtype())), lt(high, size));
      PrimExpr whole = guard ? logical_or(logical_not(guard), inside) : inside;
      if (is_one(analyzer_.simplify(whole))) continue;
      if (guard) {
        Analyzer::Scope in = analyzer_.assume(guard);
        if (is_one(analyzer_.simplify(inside))) continue;
        // The index itself may be computable under the guard only.
        if (!tensor_detail::is_plain(inside)) whole = if_then_else(guard, inside, true_());
      }
      checks.push_back(make<AssertStmt>(whole, fmt::format("index {} of buffer {} is outside", d, b->name)));
    }
  }

  Analyzer analyzer_;
};

}  // namespace

const Pass& instrument_bound_checkers_pass = register_pass({
    .name = "instrument_bound_checkers",
    .run = tensor_detail::each_body<Instrument>,
    .level = 0,
    .summary = "accesses are asserted to be inside their buffers",
});

}  // namespace tenon
