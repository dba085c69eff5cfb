// SPDX-License-Identifier: Apache-2.0
// Statements with every index and condition simplified under the ranges of the loops around them.
#include "analysis/analyzer_impl.h"
#include "analysis/condition.h"
#include "analysis/simplify.h"
#include "ir/find_node.h"
#include "ir/tir.h"

namespace tenon {

using namespace tir;

namespace {

Stmt nothing() { return make<Evaluate>(PrimExpr::int_imm(0, i32)); }
bool is_nothing(const Stmt& s) {
  if (!s) return true;
  if (const auto* e = s.as<Evaluate>()) {
    const auto* c = e->value.as<tir::Call>();
    return e->value.is<IntImm>() || e->value.is<Var>() || (c && c->op == "tir.assume" && is_one(c->args[0]));
  }
  if (const auto* q = s.as<SeqStmt>()) {
    for (const Stmt& t : q->seq)
      if (!is_nothing(t)) return false;
    return true;
  }
  return false;
}

PrimExpr assumed(const Stmt& s) {
  const auto* e = s.as<Evaluate>();
  const auto* c = e ? e->value.as<tir::Call>() : nullptr;
  return c && c->op == "tir.assume" ? c->args[0] : PrimExpr();
}

class StmtSimplifier {
 public:
  StmtSimplifier(bool unit_loops, const std::vector<VarRef>& sizes) : unit_loops_(unit_loops) {
    for (const VarRef& v : sizes) analyzer_.assume_size(v, 0);
  }

  Stmt run(const Stmt& s) {
    Stmt r = match<Stmt>(
        s, [&](const For& n) { return loop(s, n); }, [&](const IfThenElse& n) { return branch(s, n); },
        [&](const LetStmt& n) -> Stmt {
          const PrimExpr value = analyzer_.simplify(n.value);
          if (value.is<IntImm>() || value.is<FloatImm>() || (value.is<Var>() && !value.dtype().is_handle()))
            return run(substitute(n.body, {{n.var.get(), value}}));
          // Only what is known of the value is taken over: the variable stays.
          AnalyzerAccess::Impl& impl = AnalyzerAccess::of(analyzer_);
          AnalyzerAccess::Impl::VarInfo info;
          info.var = n.var;
          info.bound = impl.bound(value);
          info.modular = impl.modular(value);
          info.wild = analysis_detail::is_index(value) && !impl.tame(value);
          impl.id_of(n.var.get());
          impl.set_var(n.var.get(), std::move(info));
          return rebuilt(s, [&](LetStmt* m) {
            m->value = value;
            m->body = run(n.body);
          });
        },
        [&](const AttrStmt& n) {
          return rebuilt(s, [&](AttrStmt* m) {
            if (n.value) m->value = analyzer_.simplify(n.value);
            m->body = run(n.body);
          });
        },
        [&](const SeqStmt& n) -> Stmt {
          Array<Stmt> out;
          bool changed = false;
          std::vector<std::unique_ptr<Analyzer::Scope>> known;  // what the program assumes, from there on
          for (const Stmt& t : n.seq) {
            Stmt x = run(t);
            if (const PrimExpr c = assumed(x))
              known.push_back(std::make_unique<Analyzer::Scope>(analyzer_.assume(lasting_part(c))));
            changed = changed || !x.same_as(t);
            if (!is_nothing(x)) out.push_back(x);
          }
          while (!known.empty()) known.pop_back();
          if (!changed && out.size() == n.seq.size()) return s;
          return out.empty() ? nothing() : with_origin(seq(out), s);
        },
        [&](const BlockRealize& n) { return realize(s, n); },
        [&](const Block& n) -> Stmt { return block(Ref<Block>(&n)); },
        [&](const StmtNode&) { return generic(s); });
    return r;
  }

 private:
  template <class F>
  Stmt rebuilt(const Stmt& s, F change) {
    using Node = std::remove_pointer_t<typename argument<decltype(&F::operator())>::type>;
    Ref<Node> r = s.cast<Node>();
    change(r.edit());
    return r;
  }
  template <class T>
  struct argument;
  template <class C, class A>
  struct argument<void (C::*)(A) const> {
    using type = A;
  };

  static Stmt with_origin(Stmt s, const Stmt& from) {
    if (s && !s->origin && from->origin) s.edit()->origin = from->origin;
    return s;
  }

  PrimExpr integer(const PrimExpr& e) { return e ? analyzer_.simplify(e) : e; }

  Stmt loop(const Stmt& s, const For& n) {
    const PrimExpr min = integer(n.min), extent = integer(n.extent);
    if (extent.dtype() == i64 && analyzer_.can_prove_lt(extent, 1) && !starts_reduction(n)) return nothing();
    const bool plain = n.annotations.empty() && n.kind != ForKind::thread_binding;
    if (unit_loops_ && plain && is_one(extent)) return run(substitute(n.body, {{n.loop_var.get(), min}}));
    analyzer_.bind(n.loop_var, range(min, extent));
    Stmt body;
    {
      // Inside, the loop runs at least once.
      Analyzer::Scope in = analyzer_.assume(extent.dtype() == i64 ? ge(extent, 1) : true_());
      // A loop of one iteration keeps its variable unless it is asked to go.
      body = run(n.body);
    }
    if (is_nothing(body)) return nothing();
    return rebuilt(s, [&](For* m) {
      m->min = min;
      m->extent = extent;
      m->body = body;
    });
  }

  /// A reduction over nothing gives its identity: the loop must stay until its init stands outside.
  static bool starts_reduction(const For& n) {
    return any_node(n.body, in_statements, [&](const ObjectRef& x) {
      const auto* b = x.as<Block>();
      return b && b->init;
    });
  }

  Stmt branch(const Stmt& s, const IfThenElse& n) {
    PrimExpr c = integer(n.condition);
    if (auto v = as_int(c)) {
      if (*v) return run(n.then_case);
      return n.else_case ? run(n.else_case) : nothing();
    }
    Stmt yes, no;
    {
      Analyzer::Scope in = analyzer_.assume(lasting_part(c));
      yes = run(n.then_case);
    }
    if (n.else_case) {
      Analyzer::Scope in = analyzer_.assume(lasting_part(logical_not(c)));
      no = run(n.else_case);
      if (is_nothing(no)) no = Stmt();
    }
    if (is_nothing(yes) && !no) return nothing();
    if (is_nothing(yes)) {
      c = analyzer_.simplify(logical_not(c));
      yes = no;
      no = Stmt();
    }
    return rebuilt(s, [&](IfThenElse* m) {
      m->condition = c;
      m->then_case = yes;
      m->else_case = no;
    });
  }

  Stmt realize(const Stmt& s, const BlockRealize& n) {
    Array<PrimExpr> values = n.iter_values.map([&](const PrimExpr& e) { return integer(e); });
    const PrimExpr predicate = integer(n.predicate);
    if (predicate && is_zero(predicate)) return nothing();
    Ref<Block> b;
    {
      Analyzer::Scope in = analyzer_.assume(lasting_part(predicate ? predicate : true_()));
      b = block(n.block).cast<Block>();
    }
    return rebuilt(s, [&](BlockRealize* m) {
      m->iter_values = values;
      m->predicate = predicate;
      m->block = b;
    });
  }

  Stmt block(const Ref<Block>& n) {
    for (const IterVar& v : n->iter_vars) {
      // An iterator of one value stays an iterator: its binding names it.
      if (is_one(analyzer_.simplify(v->dom->extent)))
        analyzer_.assume_size(v->var, ConstBound::neg_inf);
      else
        analyzer_.bind(v->var, v->dom);
    }
    auto regions = [&](const Array<BufferRegion>& a) {
      return a.map([&](const BufferRegion& r) {
        return make<BufferRegionNode>(r->buffer, r->region.map([&](const Range& x) {
          return range(integer(x->min), integer(x->extent));
        }));
      });
    };
    Ref<Block> out = n;
    Block* m = out.edit();
    m->reads = regions(n->reads);
    m->writes = regions(n->writes);
    if (n->init) m->init = run(n->init);
    m->body = run(n->body);
    return out;
  }

  /// Everything else: expressions simplified, statements below run, buffers kept.
  Stmt generic(const Stmt& s) {
    ObjectRef r = map_children(s, [&](const ObjectRef& c) -> ObjectRef {
      if (c.is<PrimExprNode>()) return analyzer_.simplify(PrimExpr(c.cast<PrimExprNode>()));
      if (c.is<StmtNode>()) return run(c.cast<StmtNode>());
      return c;
    });
    return r.cast<StmtNode>();
  }

  bool unit_loops_;
  Analyzer analyzer_;
};

}  // namespace

tir::Stmt simplify(const tir::Stmt& s, bool unit_loops, const std::vector<tir::VarRef>& sizes) {
  return StmtSimplifier(unit_loops, sizes).run(s);
}
tir::Stmt simplify(const tir::Stmt& s, bool unit_loops) { return simplify(s, unit_loops, {}); }

}  // namespace tenon
