// SPDX-License-Identifier: Apache-2.0
// What the verifier says about loops and what they feed: races of parallel loops, block iterators that leave
// their domain, and accesses outside of their buffer. Only what is certain is reported.
#include <fmt/format.h>

#include <unordered_set>
#include <utility>

#include "ir/jumps.h"
#include "ir/verify_impl.h"
#include "ir/walk.h"

namespace tenon {
namespace {

using namespace tir;

struct Interval {
  int64_t min = 0, max = 0;
};
using Intervals = std::unordered_map<const Var*, Interval>;
constexpr int64_t large = int64_t(1) << 40;
/// Sums of such values, and products by less than 2²⁰, fit 64 bits.
bool within_large(Interval x) { return x.min >= -large && x.max <= large; }

/// Values that e takes, both ends included; empty: not known. Each variable may stand once, so that the ends
/// are met.
std::optional<Interval> values_of(const PrimExpr& e, const Intervals& vars,
                                  std::unordered_set<const Var*>& seen) {
  if (const auto v = as_int(e)) return Interval{*v, *v};
  if (const auto* v = e.as<Var>()) {
    auto it = vars.find(v);
    return it != vars.end() && seen.insert(v).second ? std::optional(it->second) : std::nullopt;
  }
  auto both = [&](const PrimExpr& a, const PrimExpr& b, auto f) -> std::optional<Interval> {
    const auto x = values_of(a, vars, seen), y = x ? values_of(b, vars, seen) : std::nullopt;
    if (!x || !y || !within_large(*x) || !within_large(*y)) return std::nullopt;
    const Interval r = f(*x, *y);
    return within_large(r) ? std::optional(r) : std::nullopt;
  };
  if (const auto* n = e.as<Add>())
    return both(n->a, n->b, [](Interval x, Interval y) { return Interval{x.min + y.min, x.max + y.max}; });
  if (const auto* n = e.as<Sub>())
    return both(n->a, n->b, [](Interval x, Interval y) { return Interval{x.min - y.max, x.max - y.min}; });
  if (const auto* n = e.as<Mul>();
      n && as_int(n->b) && *as_int(n->b) >= 0 && *as_int(n->b) < (int64_t(1) << 20))
    return both(n->a, n->b, [](Interval x, Interval y) { return Interval{x.min * y.min, x.max * y.max}; });
  if (const auto* n = e.as<Broadcast>()) return values_of(n->value, vars, seen);
  const auto* ramp = e.as<Ramp>();
  const auto stride = ramp ? as_int(ramp->stride) : std::nullopt;
  if (!stride || ramp->lanes < 1 || !within_large({*stride, *stride})) return std::nullopt;
  const int64_t last = *stride * (ramp->lanes - 1);
  const auto base = values_of(ramp->base, vars, seen);
  if (!base || !within_large(*base)) return std::nullopt;
  const Interval r{base->min + std::min<int64_t>(0, last), base->max + std::max<int64_t>(0, last)};
  return within_large(r) ? std::optional(r) : std::nullopt;
}

struct Domain {
  int64_t begin = 0, end = 0;  ///< the end is not a part of it
};
/// Of numbers whose end fits 64 bits; empty for any other.
std::optional<Domain> domain_of(const Range& r) {
  const auto min = r ? as_int(r->min) : std::nullopt, extent = r ? as_int(r->extent) : std::nullopt;
  Domain out;
  if (!min || !extent || __builtin_add_overflow(*min, *extent, &out.end)) return std::nullopt;
  out.begin = *min;
  return out;
}
bool leaves(Interval values, Domain d) { return values.min < d.begin || values.max >= d.end; }

class Loops {
 public:
  Loops(std::string where, DiagnosticList& problems, bool given)
      : where_(std::move(where)), problems_(problems), given_(given) {}

  void stmt(const Stmt& s, bool always) {
    if (!s) return;
    if (always) accesses(s);
    if (always && given_) certain_ends(s);
    if (const auto* n = s.as<For>()) {
      const auto min = n->min ? as_int(n->min) : std::nullopt,
                 extent = n->extent ? as_int(n->extent) : std::nullopt;
      // Under a condition a pass may say one index for all that the condition leaves, at most one iteration
      // too.
      const bool as_written = given_ || conditions_ == 0;
      // Lanes of what a pass made are its own business: it proves them apart.
      const bool at_once = n->kind == ForKind::parallel || (given_ && n->kind == ForKind::vectorized);
      if (at_once && n->extent && as_written && may_repeat(n->extent)) race(*n, always);
      const bool known = min && extent && *extent > 0 && *extent < large && *min > -large && *min < large;
      if (known) vars_[n->loop_var.get()] = {*min, *min + *extent - 1};
      // A loop that may be left need not come to its last iterations.
      stmt(n->body, always && known && !jumps_out(n->body, /*next=*/false));
    } else if (const auto* n = s.as<BlockRealize>()) {
      const bool runs = always && n->block && n->predicate && is_one(n->predicate);
      if (runs) iterators(*n);
      Intervals outer = runs ? std::exchange(vars_, iterator_values(*n)) : vars_;
      stmt(n->block, runs);
      vars_ = std::move(outer);
    } else if (const auto* n = s.as<tir::Evaluate>()) {
      const auto* c = n->value.as<tir::Call>();
      if (c && c->op == "tir.assume" && c->args.size() == 1) learn(c->args[0]);
    } else if (const auto* n = s.as<SeqStmt>()) {
      // An assertion or a jump may end the program before what follows.
      for (const Stmt& c : n->seq) {
        stmt(c, always);
        always = always && !may_end(c);
      }
    } else {
      // Where a block's buffers lie is planned later: inside the loop when each iteration fills them anew.
      if (const auto* n = s.as<Block>())
        for (const Buffer& b : n->alloc_buffers) of_blocks_.insert(b->data.get());
      const bool plain = s.is<Block>() || s.is<Allocate>() || s.is<DeclBuffer>() || s.is<AttrStmt>() ||
                         s.is<AllocateConst>() || s.is<LetStmt>();
      conditions_ += s.is<IfThenElse>();
      for (const ObjectRef& c : children(s))
        if (c.is<StmtNode>()) stmt(c.cast<StmtNode>(), always && plain);
      conditions_ -= s.is<IfThenElse>();
    }
  }

 private:
  /// Sizes that an assumption in front leaves at most 1.
  void learn(const PrimExpr& assumed) {
    if (const auto* n = assumed.as<And>()) return learn(n->a), learn(n->b);
    const auto one = [&](const PrimExpr& size, const PrimExpr& bound, int64_t most) {
      if (const auto b = as_int(bound); b && *b <= most && size.is<Var>())
        at_most_one_.insert(size.as<Var>());
    };
    if (const auto* n = assumed.as<LT>()) one(n->a, n->b, 2);
    if (const auto* n = assumed.as<LE>()) one(n->a, n->b, 1);
    if (const auto* n = assumed.as<EQ>()) one(n->a, n->b, 1);
  }
  /// Whether a loop may be meant to run more than once: an extent such as min(n, 1) may be known not to.
  bool may_repeat(const PrimExpr& extent) const {
    if (const auto n = as_int(extent)) return *n > 1;
    if (const auto* n = extent.as<Add>()) return may_repeat(n->a) || may_repeat(n->b);
    if (const auto* n = extent.as<Mul>()) return may_repeat(n->a) || may_repeat(n->b);
    return extent.is<Var>() && !at_most_one_.contains(extent.as<Var>());
  }
  static bool may_end(const Stmt& s) {
    bool found = jumps_out(s, /*next=*/true);
    pre_order(s, [&](const ObjectRef& o) {
      found = found || o.is<AssertStmt>();
      return !found && (o.is<StmtNode>() || o.is<ArrayObj>());
    });
    return found;
  }
  /// `always`: the loops around come to it with the first of their values.
  void race(const For& n, bool always) {
    std::unordered_map<const Var*, int64_t> around;
    if (always)
      for (const auto& [v, values] : vars_) around.emplace(v, values.min);
    if (std::string race = certain_race(n, of_blocks_, around, given_); !race.empty())
      problems_.add(Diagnostic{"T0335",
                               std::move(race),
                               where(&n),
                               "make the loop serial, or give each iteration an element of its own",
                               {}});
  }
  void iterators(const BlockRealize& n) {
    for (size_t i = 0; i < n.iter_values.size() && i < n.block->iter_vars.size(); ++i) {
      const IterVar& v = n.block->iter_vars[i];
      const auto domain = n.iter_values[i] ? domain_of(v->dom) : std::nullopt;
      std::unordered_set<const Var*> seen;
      const auto values = domain ? values_of(n.iter_values[i], vars_, seen) : std::nullopt;
      if (values && leaves(*values, *domain))
        problems_.add(Diagnostic{
            "T0336",
            fmt::format("iterator `{}` of block `{}` takes values in [{}, {}], its domain is [{}, {})",
                        v->var->name, n.block->name, values->min, values->max, domain->begin, domain->end),
            where(&n),
            "give the block a predicate, or bind its iterator to fewer values",
            {}});
    }
  }
  /// What a block's iterators are when it runs; those that depend on a common loop are left out, as are the
  /// loops themselves, so that all that stay are independent.
  Intervals iterator_values(const BlockRealize& n) const {
    Intervals out;
    std::unordered_set<const Var*> seen;
    for (size_t i = 0; i < n.iter_values.size() && i < n.block->iter_vars.size(); ++i)
      if (const auto values = n.iter_values[i] ? values_of(n.iter_values[i], vars_, seen) : std::nullopt) {
        // One that leaves its domain is reported as such (T0336), and not again where it is used.
        const auto domain = domain_of(n.block->iter_vars[i]->dom);
        if (domain && leaves(*values, *domain)) continue;
        out[n.block->iter_vars[i]->var.get()] = *values;
      }
    return out;
  }
  /// Loads and stores that a statement makes whenever it runs, itself and not what is nested in it.
  void accesses(const Stmt& s) {
    if (const auto* n = s.as<BufferStore>(); n && !n->predicate) access(n->buffer, n->indices, s.get());
    for (const ObjectRef& c : children(s))
      if (c.is<PrimExprNode>())
        for_each_load(PrimExpr(c.cast<PrimExprNode>()),
                      [&](const BufferLoad& load) { access(load.buffer, load.indices, s.get()); });
  }
  /// What a statement that is made does whatever it is given: it divides by zero, or never ends.
  void certain_ends(const Stmt& s) {
    const auto add = [&](const char* code, std::string sentence, const char* hint) {
      problems_.add(Diagnostic{code, std::move(sentence), where(s.get()), hint, {}});
    };
    for (const ObjectRef& c : children(s))
      if (c.is<PrimExprNode>() && divides_by_zero(PrimExpr(c.cast<PrimExprNode>())))
        add("T0360", "an integer is divided by zero", "correct the divisor, or guard the division");
    for (const ObjectRef& c : children(s))
      if (c.is<PrimExprNode>() && shifts_too_far(PrimExpr(c.cast<PrimExprNode>())))
        add("T0349", "the count of a shift is a constant that leaves no bit",
            "shift by no less than 0 and less than the bits of the number");
    if (const auto* n = s.as<tir::While>(); n && is_one(n->condition) && !may_end(n->body))
      add("T0333", "the loop never ends: its condition is always true, and nothing leaves it",
          "write a condition that becomes false, or leave it by break or return");
  }
  /// Does computing e divide an integer by the number 0 in any case?
  static bool divides_by_zero(const PrimExpr& e) {
    bool found = false;
    for_each_computed(e, [&](const ObjectRef& n) {
      const auto by = [&](const auto* d) {
        found = found || (d && d->b && d->b.dtype().is_integer() && is_zero(d->b));
      };
      by(n.as<Div>()), by(n.as<Mod>()), by(n.as<FloorDiv>()), by(n.as<FloorMod>());
    });
    return found;
  }
  /// Does computing e shift by a constant that is below 0 or no less than the width in any case?
  static bool shifts_too_far(const PrimExpr& e) {
    bool found = false;
    for_each_computed(e, [&](const ObjectRef& n) {
      const auto* call = n.as<tir::Call>();
      if (!call || (call->op != "tir.shift_left" && call->op != "tir.shift_right")) return;
      const auto* lanes = call->args[1].as<Broadcast>();
      const auto count = as_int(lanes ? lanes->value : call->args[1]);
      found = found || (count && (*count < 0 || *count >= call->dtype.bits));
    });
    return found;
  }
  void access(const Buffer& b, const Array<PrimExpr>& indices, const StmtNode* at) {
    for (size_t i = 0; b && i < indices.size() && i < b->shape.size(); ++i) {
      std::unordered_set<const Var*> seen;
      const auto values = indices[i] ? values_of(indices[i], vars_, seen) : std::nullopt;
      const auto extent = b->shape[i] ? as_int(b->shape[i]) : std::nullopt;
      if (!values || (values->min >= 0 && !(extent && values->max >= *extent))) continue;
      problems_.add(Diagnostic{
          "T0337",
          fmt::format("index {} of buffer `{}` takes values in [{}, {}], outside of {}", i, b->name,
                      values->min, values->max, extent ? fmt::format("[0, {})", *extent) : "its dimension"),
          where(at),
          "correct the index, or guard the access with a condition",
          {}});
    }
  }
  std::string where(const StmtNode* s) const {
    return s->origin && !s->origin->span.to_string().empty() ? s->origin->span.to_string() : where_;
  }

  std::string where_;
  DiagnosticList& problems_;
  bool given_;
  int conditions_ = 0;  ///< around the statement
  Intervals vars_;
  std::unordered_set<const Var*> at_most_one_;  ///< sizes, as assumptions in front say
  std::unordered_set<const Var*> of_blocks_;    ///< memory that enclosing blocks allocate
};

}  // namespace

void verify_loops(const std::string& name, const Stmt& body, DiagnosticList& problems, bool given) {
  Loops("function `" + name + "`", problems, given).stmt(body, true);
}

}  // namespace tenon
