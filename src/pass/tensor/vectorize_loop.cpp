// SPDX-License-Identifier: Apache-2.0
// vectorize_loop
//   before: for v in T.vectorized(8): if i * 8 + v < n: B[i * 8 + v] = A[i * 8 + v]
//   after:  m = T.Ramp(i * 8, 1, 8) < n
//           T.store(B, T.Ramp(i * 8, 1, 8), T.load(A, …, predicate=m), predicate=m)
// Conditions that differ between lanes become predicates of the accesses; an access that is provably inside
// its buffer is read without one. A loop that cannot become vectors is serial afterwards, with the annotation
// "vectorize_refused" that says why. What lanes store by turns from two or four rows (pairs of two rows) is
// each row's vector, shuffled. Loops of more than 64 iterations are cut into vectors first. Needs: flat
// buffers. Keeps: every element's value; the iterations are independent by contract.
#include <unordered_set>

#include "analysis/condition.h"
#include "ir/find_node.h"
#include "ir/intrinsic.h"
#include "ir/node_groups.h"
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;
using tensor_detail::imm;

namespace {

constexpr int64_t max_lanes = 64;
constexpr int64_t kLeastRow = 4;  ///< neighbours in a row; fewer are not worth shuffling rows

/// One loop's body, lane by lane. After a refusal the result is not used.
class Lanes {
 public:
  Lanes(VarRef v, PrimExpr min, int64_t lanes, Analyzer& analyzer) : lanes_(int(lanes)), analyzer_(analyzer) {
    values_[v.get()] = make<Ramp>(min, PrimExpr::int_imm(1, min.dtype()), lanes);
  }
  std::string refused;

  PrimExpr expr(const PrimExpr& e) {
    if (!e || !refused.empty() || e.is<IntImm>() || e.is<FloatImm>() || e.is<StringImm>()) return e;
    if (const auto* v = e.as<Var>()) {
      auto it = values_.find(v);
      return it == values_.end() ? e : it->second;
    }
    if (auto it = memo_.find(e.get()); it != memo_.end()) return it->second.second;
    PrimExpr r = node(e);
    memo_[e.get()] = {e, r};
    return r;
  }
  Stmt stmt(const Stmt& s) {
    if (!s || !refused.empty()) return s;
    return match<Stmt>(
        s, [&](const SeqStmt& n) -> Stmt { return seq(n.seq.map([&](const Stmt& t) { return stmt(t); })); },
        [&](const BufferStore& n) { return store_(s, n); }, [&](const IfThenElse& n) { return branch(s, n); },
        [&](const For& n) -> Stmt {
          const PrimExpr min = expr(n.min), extent = expr(n.extent);
          if (min.dtype().is_vector() || extent.dtype().is_vector())
            return no(s, "a loop inside has bounds that differ between lanes");
          if (n.kind == ForKind::parallel) return no(s, "a parallel loop is inside");
          analyzer_.bind(n.loop_var, range(min, extent));
          const Stmt body = stmt(n.body);
          return tensor_detail::edited<For>(s, [&](For* m) {
            m->min = min;
            m->extent = extent;
            m->body = body;
          });
        },
        [&](const LetStmt& n) -> Stmt {
          const PrimExpr value = expr(n.value);
          VarRef v = n.var;
          if (value.dtype().is_vector()) {
            v = var(n.var->name, value.dtype());
            values_[n.var.get()] = v;
          }
          const Stmt body = stmt(n.body);
          return make<LetStmt>(v, value, body);
        },
        [&](const Allocate& n) -> Stmt {
          // Private memory of an iteration: one copy for each lane, lanes side by side.
          Buffer b = n.buffer;
          b.edit()->shape = {simplify(n.buffer->shape[0] * imm(lanes_))};
          private_.emplace(n.buffer.get(), b);
          private_data_.insert(n.buffer->data.get());
          const Stmt body = stmt(n.body);
          return tensor_detail::edited<Allocate>(s, [&](Allocate* m) {
            m->buffer = b;
            m->body = body;
          });
        },
        [&](const DeclBuffer& n) -> Stmt {
          if (private_data_.count(n.buffer->data.get()))
            return no(s, "a second view of memory that is private to an iteration");
          const Stmt body = stmt(n.body);
          return tensor_detail::edited<DeclBuffer>(s, [&](DeclBuffer* m) { m->body = body; });
        },
        [&](const AttrStmt& n) -> Stmt {
          const Stmt body = stmt(n.body);
          return tensor_detail::edited<AttrStmt>(s, [&](AttrStmt* m) { m->body = body; });
        },
        [&](const AssertStmt& n) -> Stmt {
          const PrimExpr c = expr(n.condition);
          return c.dtype().is_vector() || mask_ ? no(s, "an assertion differs between lanes") : s;
        },
        [&](const tir::Evaluate& n) -> Stmt {
          if (n.value.is<IntImm>()) return s;
          return no(s, "a call for its effect has no lanes");
        },
        [&](const StmtNode&) -> Stmt {
          return no(s, fmt::format("a statement '{}' has no lanes", type_key_of(s)));
        });
  }

 private:
  Stmt no(const Stmt& s, std::string why) {
    if (refused.empty()) refused = std::move(why);
    return s;
  }
  PrimExpr no(const PrimExpr& e, std::string why) {
    if (refused.empty()) refused = std::move(why);
    return e;
  }
  PrimExpr spread(const PrimExpr& e) {
    return e.dtype().is_vector() ? e : PrimExpr(make<Broadcast>(e, int64_t(lanes_)));
  }
  PrimExpr both(const PrimExpr& a, const PrimExpr& b) {
    if (!a) return b;
    if (!b) return a;
    if (a.dtype().is_scalar() && b.dtype().is_scalar()) return logical_and(a, b);
    return make<And>(spread(a), spread(b));
  }

  /// What is evaluated under another mask is remembered apart.
  template <class F>
  auto under(const PrimExpr& mask, F f) {
    auto kept = std::move(memo_);
    memo_.clear();
    const PrimExpr outer = mask_;
    mask_ = analyzer_.simplify(both(outer, mask));
    if (const auto* b = mask_.as<Broadcast>(); b && is_one(b->value)) mask_ = PrimExpr();
    auto r = f();
    mask_ = outer;
    memo_ = std::move(kept);
    return r;
  }

 public:
  /// The value of lanes that the condition holds for.
  PrimExpr value_under(const PrimExpr& condition, const PrimExpr& value) {
    return under(spread(expr(condition)), [&] { return expr(value); });
  }

 private:
  Stmt branch(const Stmt& s, const IfThenElse& n) {
    PrimExpr c = analyzer_.simplify(expr(n.condition));
    if (const auto* b = c.as<Broadcast>()) c = b->value;
    if (auto v = as_int(c))
      return *v ? stmt(n.then_case) : n.else_case ? stmt(n.else_case) : tensor_detail::no_op();
    if (c.dtype().is_scalar()) {
      Stmt yes, other;
      auto kept = memo_;
      {
        Analyzer::Scope in = analyzer_.assume(lasting_part(c));
        yes = stmt(n.then_case);
      }
      memo_ = kept;
      if (n.else_case) {
        Analyzer::Scope in = analyzer_.assume(lasting_part(logical_not(c)));
        other = stmt(n.else_case);
      }
      memo_ = std::move(kept);
      return tensor_detail::edited<IfThenElse>(s, [&](IfThenElse* m) {
        m->condition = c;
        m->then_case = yes;
        m->else_case = other;
      });
    }
    // A condition that reads memory is taken before either side changes it.
    const bool reads = has_node<BufferLoad>(c);
    PrimExpr m = c;
    VarRef held;
    if (reads) m = held = var("mask", c.dtype());
    Stmt out = under(m, [&] { return stmt(n.then_case); });
    if (n.else_case) out = seq({out, under(make<Not>(m), [&] { return stmt(n.else_case); })});
    return reads ? Stmt(make<LetStmt>(held, c, out)) : out;
  }

  Stmt store_(const Stmt& s, const BufferStore& n) {
    if (n.indices.size() != 1) return no(s, fmt::format("buffer '{}' is not flat", n.buffer->name));
    PrimExpr value = expr(n.value), at = expr(n.indices[0]),
             predicate = n.predicate ? expr(n.predicate) : PrimExpr();
    Buffer b = n.buffer;
    if (auto it = private_.find(b.get()); it != private_.end()) {
      at = lane_of(at);
      b = it->second;
    }
    at = analyzer_.simplify(at);
    predicate = both(predicate, mask_);
    if (predicate) predicate = analyzer_.simplify(predicate);
    if (at.dtype().is_scalar()) {
      if (value.dtype().is_vector())
        return no(s, fmt::format("all lanes store to one element of '{}'", b->name));
      if (predicate && predicate.dtype().is_vector())
        return no(s, fmt::format("lanes decide whether one element of '{}' is stored", b->name));
    } else {
      value = spread(value);
      if (predicate) predicate = spread(predicate);
    }
    return tensor_detail::edited<BufferStore>(s, [&](BufferStore* m) {
      m->buffer = b;
      m->value = value;
      m->indices = {at};
      m->predicate = predicate;
    });
  }
  PrimExpr lane_of(const PrimExpr& at) {
    return spread(at) * spread(PrimExpr::int_imm(lanes_, at.dtype().element())) +
           PrimExpr(make<Ramp>(PrimExpr::int_imm(0, at.dtype().element()),
                               PrimExpr::int_imm(1, at.dtype().element()), int64_t(lanes_)));
  }

  /// Every lane's index is provably inside the buffer.
  bool inside(const PrimExpr& at, const Buffer& b) {
    const PrimExpr& size = b->shape[0];
    auto fits = [&](const PrimExpr& i) {
      return analyzer_.can_prove_ge(i, 0) && analyzer_.can_prove(lt(i, size));
    };
    if (at.dtype().is_scalar()) return fits(at);
    if (const auto* r = at.as<Ramp>(); r && as_int(r->stride))
      return fits(r->base) && fits(r->base + imm(*as_int(r->stride) * (r->lanes - 1)));
    if (const auto* r = at.as<Broadcast>()) return fits(r->value);
    const ConstBound range = analyzer_.bound(at);
    const auto n = as_int(size);
    return n && range.min >= 0 && range.max < *n;
  }

  template <class T>
  PrimExpr binary(const PrimExpr& e, const T& n) {
    PrimExpr a = expr(n.a), b = expr(n.b);
    constexpr bool divides = std::is_same_v<T, Div> || std::is_same_v<T, Mod> ||
                             std::is_same_v<T, FloorDiv> || std::is_same_v<T, FloorMod>;
    if (divides && mask_ && !e.dtype().is_float()) {
      // Lanes that are off must not divide by zero. A divisor that all lanes share is looked at once, so that
      // what is the same in all lanes (the digits of a row) stays one number and its loads side by side.
      const auto* c = b.as<Broadcast>();
      const PrimExpr d = c ? c->value : b;
      if (d.dtype().is_scalar()) {
        if (!(as_int(d) && *as_int(d) != 0) && !analyzer_.can_prove_ge(d, 1))
          b = make<Select>(eq(d, PrimExpr::int_imm(0, d.dtype())), PrimExpr::int_imm(1, d.dtype()), d);
      } else {
        b = make<Select>(spread(mask_), b, spread(PrimExpr::int_imm(1, b.dtype().element())));
      }
    }
    if (a.same_as(n.a) && b.same_as(n.b)) return e;
    if (a.dtype().is_vector() || b.dtype().is_vector()) a = spread(a), b = spread(b);
    return make<T>(a, b);
  }

  PrimExpr node(const PrimExpr& e) {
    if (e.dtype().is_vector()) return no(e, "there are vectors already");
    return match<PrimExpr>(
        e, [&](const BinaryNode auto& n) { return binary(e, n); },
        [&](const Not& n) -> PrimExpr { return make<Not>(expr(n.a)); },
        [&](const Select& n) -> PrimExpr {
          PrimExpr c = expr(n.condition), t = expr(n.true_value), f = expr(n.false_value);
          if (c.dtype().is_vector() || t.dtype().is_vector() || f.dtype().is_vector())
            t = spread(t), f = spread(f);
          return make<Select>(c, t, f);
        },
        [&](const Cast& n) -> PrimExpr {
          const PrimExpr v = expr(n.value);
          return v.same_as(n.value) ? e : cast(e.dtype().with_lanes(v.dtype().lanes), v);
        },
        [&](const BufferLoad& n) { return load_(e, n); },
        [&](const Let& n) -> PrimExpr {
          const PrimExpr value = expr(n.value);
          VarRef v = n.var;
          auto kept = memo_;  // copies of a Let may share their body
          if (value.dtype().is_vector()) {
            v = var(n.var->name, value.dtype());
            values_[n.var.get()] = v;
          } else {
            values_.erase(n.var.get());
          }
          const PrimExpr body = expr(n.body);
          memo_ = std::move(kept);
          return make<Let>(v, value, body);
        },
        [&](const tir::Call& n) { return call_(e, n); },
        [&](const PrimExprNode&) {
          return no(e, fmt::format("an expression '{}' has no lanes", type_key_of(e)));
        });
  }

  PrimExpr load_(const PrimExpr& e, const BufferLoad& n) {
    if (n.indices.size() != 1) return no(e, fmt::format("buffer '{}' is not flat", n.buffer->name));
    PrimExpr at = expr(n.indices[0]), predicate = n.predicate ? expr(n.predicate) : PrimExpr();
    Buffer b = n.buffer;
    const bool own = private_.count(b.get()) > 0;
    if (own) {
      at = lane_of(at);
      b = private_.at(b.get());
    }
    at = analyzer_.simplify(at);
    if (mask_ && !own && !inside(at, b)) predicate = both(predicate, mask_);
    if (predicate) predicate = analyzer_.simplify(predicate);
    if (predicate && (predicate.dtype().is_vector() || at.dtype().is_vector())) {
      at = spread(at);
      predicate = spread(predicate);
    }
    return tir::load(b, {at}, predicate);
  }

  PrimExpr call_(const PrimExpr& e, const tir::Call& n) {
    if (n.op == "tir.if_then_else") {
      PrimExpr c = analyzer_.simplify(expr(n.args[0]));
      if (const auto* b = c.as<Broadcast>()) c = b->value;
      if (auto v = as_int(c)) return expr(n.args[*v ? 1 : 2]);
      if (c.dtype().is_scalar()) {
        PrimExpr t, f;
        auto kept = memo_;  // what is proven inside holds there only
        {
          Analyzer::Scope in = analyzer_.assume(c);
          t = expr(n.args[1]);
        }
        memo_ = kept;
        {
          Analyzer::Scope in = analyzer_.assume(logical_not(c));
          f = expr(n.args[2]);
        }
        memo_ = std::move(kept);
        if (t.dtype().is_vector() || f.dtype().is_vector()) t = spread(t), f = spread(f);
        return call(t.dtype(), n.op, {c, t, f});
      }
      const PrimExpr t = under(c, [&] { return expr(n.args[1]); }),
                     f = under(make<Not>(c), [&] { return expr(n.args[2]); });
      return make<Select>(c, spread(t), spread(f));
    }
    const Intrinsic* intrinsic = find_intrinsic(n.op);
    Array<PrimExpr> args;
    bool vector = false, changed = false;
    for (const PrimExpr& a : n.args) {
      args.push_back(expr(a));
      vector = vector || args.back().dtype().is_vector();
      changed = changed || !args.back().same_as(a);
    }
    if (!intrinsic || !intrinsic->pure) return no(e, fmt::format("`{}` has no lanes", n.op));
    if (!vector) return changed ? call(e.dtype(), n.op, args) : e;
    if (!intrinsic->vector) return no(e, fmt::format("`{}` has no lanes", n.op));
    if (n.op == "tir.lookup")
      return call(e.dtype().with_lanes(lanes_), n.op, args);  // one table for all lanes
    return call(e.dtype().with_lanes(lanes_), n.op, args.map([&](const PrimExpr& a) { return spread(a); }));
  }

  int lanes_;
  Analyzer& analyzer_;
  PrimExpr mask_;
  std::unordered_map<const Var*, PrimExpr> values_;
  std::unordered_map<const BufferNode*, Buffer> private_;
  std::unordered_set<const Var*> private_data_;
  std::unordered_map<const Object*, std::pair<PrimExpr, PrimExpr>> memo_;
};

class Vectorize : public tensor_detail::Rewriter {
 public:
  explicit Vectorize(const PrimFunc& f) {
    for (const VarRef& v : tensor_detail::sizes_of(f)) analyzer_.assume_size(v, 0);
  }
  Stmt stmt(const Stmt& s) override {
    if (!s) return s;
    if (const auto* n = s.as<For>()) {
      analyzer_.bind(n->loop_var, range(n->min, n->extent));
      const Stmt r = below(s);
      return n->kind == ForKind::vectorized ? loop(r) : r;
    }
    if (const auto* n = s.as<IfThenElse>()) {
      const auto sides = visit_branches(*n, analyzer_, [&](const Stmt& x) { return stmt(x); });
      return tensor_detail::edited<IfThenElse>(s, [&](IfThenElse* m) {
        m->then_case = sides.first;
        m->else_case = sides.second;
      });
    }
    return below(s);
  }
  PrimExpr expr(const PrimExpr& e) override { return e; }

 private:
  static Stmt serial(const Stmt& s, const std::string& why) {
    return tensor_detail::edited<For>(s, [&](For* m) {
      m->kind = ForKind::serial;
      m->annotations.set("vectorize_refused", Any(why));
    });
  }

  Stmt loop(const Stmt& s) {
    const auto* n = s.as<For>();
    const auto extent = as_int(n->extent);
    if (!extent) return symbolic(s);
    if (*extent <= 0) return tensor_detail::no_op();
    if (*extent == 1) return substitute(n->body, {{n->loop_var.get(), n->min}});
    if (*extent <= max_lanes) return vectors(s, n->loop_var, n->min, *extent, n->body);
    // Too many for one vector: whole vectors, then what is left.
    int64_t lanes = max_lanes;
    while (lanes >= 4 && *extent % lanes) --lanes;
    if (lanes < 4) lanes = 16;
    VarRef outer = var(n->loop_var->name + "_o"), inner = var(n->loop_var->name + "_v");
    const PrimExpr base = n->min + PrimExpr(outer) * imm(lanes);
    const Stmt body = substitute(n->body, {{n->loop_var.get(), base + inner}});
    analyzer_.bind(outer, range(imm(0), imm(*extent / lanes)));
    const Stmt whole =
        for_(outer, imm(0), imm(*extent / lanes),
             vectors(for_(inner, imm(0), imm(lanes), body, ForKind::vectorized), inner, imm(0), lanes, body));
    if (*extent % lanes == 0) return whole;
    VarRef rest = var(n->loop_var->name + "_t");
    const PrimExpr start = n->min + imm(*extent / lanes * lanes);
    const Stmt tail = rename_definitions(substitute(n->body, {{n->loop_var.get(), start + rest}}));
    const int64_t left = *extent % lanes;
    return seq(
        {whole, vectors(for_(rest, imm(0), imm(left), tail, ForKind::vectorized), rest, imm(0), left, tail)});
  }

  /// A number of iterations that is known when the program runs: whole vectors, then one with a mask.
  Stmt symbolic(const Stmt& s) {
    const auto* n = s.as<For>();
    constexpr int64_t lanes = 16;
    if (n->loop_var->dtype != i64) return serial(s, "the number of iterations is not constant");
    const VarRef outer = var(n->loop_var->name + "_o"), inner = var(n->loop_var->name + "_v");
    const PrimExpr count = analyzer_.simplify(floordiv(n->extent, imm(lanes)));
    const Stmt body =
        substitute(n->body, {{n->loop_var.get(), n->min + PrimExpr(outer) * imm(lanes) + PrimExpr(inner)}});
    analyzer_.bind(outer, range(imm(0), count));
    Lanes whole(inner, imm(0), lanes, analyzer_);
    const Stmt full = whole.stmt(body);
    if (!whole.refused.empty()) return serial(s, whole.refused);
    const VarRef rest = var(n->loop_var->name + "_t");
    const PrimExpr start = n->min + count * imm(lanes), left = n->extent - count * imm(lanes);
    const Stmt masked = make<IfThenElse>(
        lt(rest, left),
        rename_definitions(substitute(n->body, {{n->loop_var.get(), start + PrimExpr(rest)}})), Stmt());
    Lanes tail(rest, imm(0), lanes, analyzer_);
    const Stmt last = tail.stmt(masked);
    if (!tail.refused.empty()) return serial(s, tail.refused);
    return seq({for_(outer, imm(0), count, full),
                make<IfThenElse>(analyzer_.simplify(gt(left, imm(0))), last, Stmt())});
  }

  Stmt vectors(const Stmt& loop, const VarRef& v, const PrimExpr& min, int64_t lanes, const Stmt& body) {
    if (lanes == 1) return substitute(body, {{v.get(), min}});
    Lanes work(v, min, lanes, analyzer_);
    Stmt r = work.stmt(body);
    if (work.refused.empty())
      if (const Stmt rows = by_turns(r, v, min, lanes, body)) r = rows;
    return work.refused.empty() ? r : serial(loop, work.refused);
  }

  /// Lane l of the one store in `body` takes its value from row l % rows, whose own lanes are neighbours: the
  /// rows as vectors of their own, and those shuffled. Null: lanes are neighbours already, or rows' are not.
  Stmt by_turns(const Stmt& made, const VarRef& v, const PrimExpr& min, int64_t lanes, const Stmt& body) {
    // Lanes at an edge are stored under a condition, which each row's vector is read under.
    const auto* edge = body.as<IfThenElse>();
    const auto* store = edge && !edge->else_case ? edge->then_case.as<BufferStore>() : body.as<BufferStore>();
    const auto* whole = made.as<BufferStore>();
    if (!store || store->predicate || !whole || bool(edge) != bool(whole->predicate) ||
        !scattered(whole->value))
      return Stmt();
    for (const int64_t rows : {2, 4}) {
      const int64_t length = lanes / rows;
      if (lanes % rows || length < kLeastRow) continue;
      auto of = [&](int64_t n) { return PrimExpr::int_imm(n, v->dtype); };
      const VarRef i = var(v->name + "_row", v->dtype);
      analyzer_.bind(i, range(of(0), of(length)));
      const PrimExpr first = analyzer_.simplify(substitute(store->indices[0], {{v.get(), min}}));
      std::vector<PrimExpr> parts;
      for (int64_t q = 0; q < rows; ++q) {
        const PrimExpr lane = of(q) + of(rows) * PrimExpr(i);
        auto at = [&](const PrimExpr& e) { return substitute(e, {{v.get(), min + lane}}); };
        if (!is_zero(analyzer_.simplify(at(store->indices[0]) - first - lane))) break;  // stored side by side
        Lanes work(i, of(0), length, analyzer_);
        const PrimExpr value = analyzer_.simplify(at(store->value));
        const PrimExpr part =
            edge ? work.value_under(analyzer_.simplify(at(edge->condition)), value) : work.expr(value);
        if (!work.refused.empty() || part.dtype().lanes != length || scattered(part)) break;
        parts.push_back(part);
      }
      if (int64_t(parts.size()) != rows) continue;
      const PrimExpr value =
          rows == 2 ? turns(parts[0], parts[1]) : turns(turns(parts[0], parts[2]), turns(parts[1], parts[3]));
      return tensor_detail::edited<BufferStore>(made, [&](BufferStore* m) {
        m->value = value;
        m->indices = {make<Ramp>(first, of(1), lanes)};
      });
    }
    return Stmt();
  }
  /// A load whose lanes are no neighbours.
  static bool scattered(const PrimExpr& e) {
    return any_node(e, not_in_buffers, [&](const ObjectRef& n) {
      const auto* l = n.as<BufferLoad>();
      const auto* r = l ? l->indices[0].as<Ramp>() : nullptr;
      return l && l->indices[0].dtype().is_vector() && !l->indices[0].is<Broadcast>() &&
             !(r && is_one(r->stride));
    });
  }
  /// The lanes of two vectors by turns.
  static PrimExpr turns(const PrimExpr& a, const PrimExpr& b) {
    const int64_t length = a.dtype().lanes;
    std::vector<int64_t> order;
    for (int64_t l = 0; l < 2 * length; ++l) order.push_back(l % 2 * length + l / 2);
    return make<Shuffle>(Array<PrimExpr>{a, b}, Array<int64_t>(order));
  }

  Analyzer analyzer_;
};

}  // namespace

const Pass& vectorize_loop_pass = register_pass({
    .name = "vectorize_loop",
    .run = tensor_detail::each_body<Vectorize>,
    .level = 0,
    .summary = "vector loops become vector operations",
    .needs = {"flatten_buffer"},
});

}  // namespace tenon
