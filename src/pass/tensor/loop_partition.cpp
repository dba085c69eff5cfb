// SPDX-License-Identifier: Apache-2.0
// loop_partition
//   before: for i in n: if 1 <= i and i < 9: B[i] = A[i - 1] else: B[i] = 0
//   after:  for i in [0, 1): …;  for i in [1, 9): B[i] = A[i - 1];  for i in [9, n): …
// Innermost serial loops, and before them small ones around others (rows of a padded image), are cut where
// their conditions (also predicates of vector accesses and lazy selections) change; in the middle part the
// conditions are known to hold and vanish, and behind it the loop ends where no lane stores anything any
// more. The first iteration of a reduction is split from the others. Loops beyond a size limit stay whole,
// unless they carry "pragma_loop_partition_hint", which also cuts large loops that hold others. Needs: flat
// loops, simplified conditions. Keeps: the order of iterations.
#include <algorithm>

#include "analysis/condition.h"
#include "ir/structural.h"
#include "pass/tensor/lowering.h"
#include "pass/tensor/pragmas.h"

namespace tenon {

using namespace tir;
using tensor_detail::imm;

namespace {

constexpr int64_t kPartitionNodes = 600;
constexpr int64_t kAroundNodes = 300;    ///< of a loop around others, which stands there three times then
constexpr int64_t kHintedNodes = 40000;  ///< as much as unroll_loop makes at most

class Partition : public tensor_detail::Rewriter {
 public:
  Partition(const PrimFunc& f, bool only_scalar, GivenUpProofs& given_up)
      : analyzer_(given_up, "loop_partition"), only_scalar_(only_scalar) {
    for (const VarRef& v : tensor_detail::sizes_of(f)) analyzer_.assume_size(v, 0);
  }
  Stmt stmt(const Stmt& s) override {
    if (!s) return s;
    if (const Stmt cut = around_others(s)) return cut;
    const Stmt r = inside(s);
    const auto* n = r.as<For>();
    if (!n || n->kind != ForKind::serial || n->loop_var->dtype != i64) return r;
    if (as_int(n->extent) && *as_int(n->extent) < 2) return r;
    const int64_t most = hinted(*n) ? kHintedNodes : kPartitionNodes;
    if (tensor_detail::size_of(r, most) > most) return r;
    if (Stmt peeled = only_scalar_ ? Stmt() : first_iteration(r)) return peeled;
    return middle(r);
  }
  PrimExpr expr(const PrimExpr& e) override { return e; }

 private:
  /// Statements in a loop know that it runs.
  Stmt inside(const Stmt& s) {
    const auto* n = s.as<For>();
    if (!n || n->extent.dtype() != i64 || n->loop_var->dtype != i64) return below(s);
    analyzer_.bind(n->loop_var, range(n->min, n->extent), true);
    const Analyzer::Scope runs = analyzer_.assume(ge(n->extent, imm(1)));
    return below(s);
  }
  /// A small loop around others is cut first, while these are whole; null where it is none.
  Stmt around_others(const Stmt& s) {
    const auto* n = s.as<For>();
    if (!n || n->kind != ForKind::serial || n->loop_var->dtype != i64) return {};
    const int64_t most = hinted(*n) ? kHintedNodes : kAroundNodes;
    if (tensor_detail::size_of(s, most) > most || !has_node<For>(n->body)) return {};
    const Stmt cut = middle(s);
    if (cut.same_as(s)) return {};
    const auto* parts = cut.as<SeqStmt>();
    if (!parts) return inside(cut);
    std::vector<Stmt> out;
    for (const Stmt& part : parts->seq) out.push_back(inside(part));
    return seq(Array<Stmt>(out));
  }
  static bool hinted(const For& n) { return n.annotations.contains(tensor_detail::kPartitionHint); }
  static Stmt part(const For& n, const PrimExpr& min, const PrimExpr& extent, const Stmt& body, bool fresh) {
    VarRef v = fresh ? var(n.loop_var->name) : n.loop_var;
    Stmt b = body;
    if (fresh) b = rename_definitions(substitute(b, {{n.loop_var.get(), v}}));
    Ref<For> f(&n);
    For* m = f.edit();
    m->loop_var = v;
    m->min = min;
    m->extent = extent;
    m->body = b;
    return f;
  }
  /// Does the body do nothing where this condition does not hold (of any lane)?
  static bool needs(const Stmt& body, const PrimExpr& condition) {
    auto asks = [&](const PrimExpr& e) {
      return std::ranges::any_of(conjuncts(e),
                                 [&](const PrimExpr& c) { return structural_equal(c, condition); });
    };
    if (const auto* q = body.as<SeqStmt>())
      return std::all_of(q->seq.begin(), q->seq.end(), [&](const Stmt& s) { return needs(s, condition); });
    if (const auto* b = body.as<IfThenElse>())
      return !b->else_case && (asks(b->condition) || needs(b->then_case, condition));
    const auto* store = body.as<BufferStore>();
    return store && asks(store->predicate);
  }
  /// One iteration at most is no loop: code generators would unroll it.
  Stmt last_part(const For& n, const PrimExpr& min, const PrimExpr& extent) {
    if (as_int(extent) || !analyzer_.can_prove_lt(extent, 2)) return part(n, min, extent, n.body, true);
    const Stmt once = rename_definitions(substitute(n.body, {{n.loop_var.get(), min}}));
    return make<IfThenElse>(analyzer_.simplify(ge(extent, imm(1))), once, Stmt());
  }
  /// Conditions replaced by what they are known to be.
  static Stmt decided(const Stmt& s, const std::vector<PrimExpr>& conditions, bool value) {
    return rewrite_any(s,
                       [&](const ObjectRef& n) -> ObjectRef {
                         for (const PrimExpr& c : conditions)
                           if (n.get() == c.get()) return PrimExpr::int_imm(value, c.dtype());
                         return {};
                       })
        .cast<StmtNode>();
  }

  /// if v == min: init  –  the first iteration stands alone.
  Stmt first_iteration(const Stmt& s) {
    const auto& n = *s.as<For>();
    std::vector<PrimExpr> found;
    pre_order(n.body, [&](const ObjectRef& x) {
      if (const auto* b = x.as<IfThenElse>())
        for (const PrimExpr& c : conjuncts(b->condition)) {
          const auto* e = c.as<EQ>();
          if (e && e->a.same_as(n.loop_var) && analyzer_.can_prove_equal(e->b, n.min)) found.push_back(c);
        }
      return !x.is<BufferNode>();
    });
    if (found.empty()) return {};
    const Stmt first = substitute(decided(n.body, found, true), {{n.loop_var.get(), n.min}});
    const PrimExpr rest = analyzer_.simplify(max(n.extent - 1, imm(0)));
    Stmt others = part(n, analyzer_.simplify(n.min + 1), rest, decided(n.body, found, false), true);
    Stmt lead = first;
    if (!as_int(n.extent)) lead = make<IfThenElse>(analyzer_.simplify(ge(n.extent, imm(1))), first, Stmt());
    return seq({lead, others});
  }

  Stmt middle(const Stmt& s) {
    const auto& n = *s.as<For>();
    if (only_scalar_ && tensor_detail::has_vectors(n.body)) return s;
    bool innermost = true;
    std::vector<PrimExpr> conditions;
    std::unordered_map<const Var*, bool> defined;  // inside the loop
    pre_order(n.body, [&](const ObjectRef& x) {
      auto take = [&](const PrimExpr& c) {
        for (const PrimExpr& part : conjuncts(c)) {
          const auto* all = part.as<Broadcast>();  // a condition of all lanes together
          const std::vector<PrimExpr> inner = all ? conjuncts(all->value) : std::vector{part};
          conditions.insert(conditions.end(), inner.begin(), inner.end());
        }
      };
      if (x.is<For>() || x.is<tir::While>()) innermost = false;
      if (const auto* l = x.as<For>()) defined[l->loop_var.get()] = true;
      if (const auto* l = x.as<LetStmt>()) defined[l->var.get()] = true;
      if (const auto* l = x.as<Let>()) defined[l->var.get()] = true;
      if (const auto* b = x.as<IfThenElse>()) take(b->condition);
      if (const auto* b = x.as<BufferStore>()) take(b->predicate);
      if (const auto* b = x.as<BufferLoad>()) take(b->predicate);
      if (const auto* b = x.as<Call>(); b && b->op == "tir.if_then_else") take(b->args[0]);
      if (const auto* b = x.as<Select>(); b && b->condition.dtype().is_vector()) take(b->condition);
      return !x.is<BufferNode>();
    });
    if (!innermost && !hinted(n) && tensor_detail::size_of(s, kAroundNodes) > kAroundNodes) return s;
    if (conditions.empty()) return s;
    const PrimExpr end = n.min + n.extent;
    PrimExpr low = n.min, high = end, last = end;  // from `last` on, nothing is stored
    std::vector<PrimExpr> decided_;
    for (const PrimExpr& c : conditions) {
      // Scalar a·v + r < 0, or vectors base + [0, lanes)·stride < bound: the lane that decides.
      PrimExpr below_;  // must be negative
      auto side = [&](const PrimExpr& e, bool largest) -> PrimExpr {
        if (e.dtype().is_scalar()) return e;
        if (const auto* b = e.as<Broadcast>()) return b->value;
        const auto* r = e.as<Ramp>();
        const auto stride = r ? as_int(r->stride) : std::nullopt;
        if (!stride) return {};
        return (*stride > 0) == largest ? r->base + imm(*stride * (r->lanes - 1)) : r->base;
      };
      PrimExpr a, b;
      bool or_equal = false;
      if (const auto* x = c.as<LT>())
        a = x->a, b = x->b;
      else if (const auto* y = c.as<LE>())
        a = y->a, b = y->b, or_equal = true;
      else
        continue;
      if (a.dtype().element() != i64) continue;
      // The first lane to hold is the last one that does not.
      const PrimExpr first = side(a, false), bound = side(b, true);
      a = side(a, true);
      b = side(b, false);
      if (!a || !b) continue;
      below_ = a - b - imm(or_equal ? 1 : 0);
      const auto form = affine_form(below_, {n.loop_var}, analyzer_);
      if (!form || form->terms.size() != 1 || form->terms[0].second == 0) continue;
      bool outside = true;
      for (const VarRef& v : free_vars(form->base))
        outside = outside && !defined.count(v.get()) && !v.same_as(n.loop_var);
      pre_order(form->base, [&](const ObjectRef& x) {
        outside = outside && !x.is<BufferLoad>() && !x.is<Call>();
        return outside;
      });
      if (!outside) continue;
      const int64_t k = form->terms[0].second;
      if (k > 0) {
        // k·v < -base: v < ceil(-base / k)
        high = min(high, floordiv(imm(0) - form->base + imm(k - 1), imm(k)));
        const auto apart =
            first && bound ? as_int(analyzer_.simplify(a - b - (first - bound))) : std::nullopt;
        if (apart && needs(n.body, c)) last = min(last, floordiv(imm(*apart + k - 1) - form->base, imm(k)));
      } else {
        // |k|·v > base: v ≥ floor(base / |k|) + 1
        low = max(low, floordiv(form->base, imm(-k)) + imm(1));
      }
      decided_.push_back(c);
    }
    if (decided_.empty()) return s;
    low = low.same_as(n.min) ? low : analyzer_.simplify(min(low, end));
    high = analyzer_.simplify(min(high, end));
    if (!analyzer_.can_prove(le(low, high))) high = analyzer_.simplify(max(high, low));
    last = last.same_as(end) ? end : analyzer_.simplify(max(min(last, end), high));
    const PrimExpr n_low = analyzer_.simplify(low - n.min), n_mid = analyzer_.simplify(high - low),
                   n_high = analyzer_.simplify(last - high);
    if (auto m = as_int(n_mid); m && *m <= 0) return s;
    Array<Stmt> out;
    if (!is_zero(n_low)) out.push_back(part(n, n.min, n_low, n.body, true));
    out.push_back(part(n, low, n_mid, tensor_detail::unmasked(decided(n.body, decided_, true)), false));
    if (!is_zero(n_high)) out.push_back(last_part(n, high, n_high));
    return seq(out);
  }

  Analyzer analyzer_;
  bool only_scalar_;
};

Stmt partitioned(const PrimFunc& f, bool only_scalar, GivenUpProofs& given_up) {
  const Stmt r = Partition(f, only_scalar, given_up).stmt(f->body);
  return r.same_as(f->body) ? r : simplify(r, true, tensor_detail::sizes_of(f));
}

}  // namespace

Stmt tensor_detail::cut_scalar_loops(const PrimFunc& f, GivenUpProofs& given_up) {
  return partitioned(f, true, given_up);
}

static IRModule loop_partition(IRModule module, PassContext& context) {
  return tensor_detail::map_bodies(module, context,
                                   [](const std::string&, const PrimFunc& f, GivenUpProofs& given_up) {
                                     return partitioned(f, false, given_up);
                                   });
}

const Pass& loop_partition_pass = register_pass({
    .name = "loop_partition",
    .run = loop_partition,
    .level = 2,
    .summary = "conditions on loop variables split loops",
    .needs = {"simplify_tir"},
});

}  // namespace tenon
