// SPDX-License-Identifier: Apache-2.0
// chain_digits
//   before: for t in n: for k in m: … A[t * 2 // d * w + k] …; … A[(t * 2 + 1) // d * w + k] …
//   after:  for t in n: q = t * 2 // d; r = t * 2 - q * d; o = q * w; o1 = o + (w if r + 1 == d else 0)
//           for k in m: … A[o + k] …; … A[o1 + k] …
// Straight code has the digits of numbers side by side: the rows of a tile that runs across rows of an image.
// Only the first divides; the digits of the next ones are those of the one before, moved by one, and so are
// the multiples of both in an index, which is one pointer for each number then. Each branch of a loop's body
// divides for itself. Needs: unrolled tiles, flat buffers. Keeps: every value.
#include <algorithm>
#include <map>
#include <optional>

#include "ir/structural.h"
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;
using tensor_detail::Division, tensor_detail::division_of, tensor_detail::imm;

namespace {

/// Steps from one number to the next that take as long as a division.
constexpr int64_t kStepsOfDivision = 4;
constexpr int64_t kMostSteps = 32;  ///< from the first number to the last: more than a tile has rows

std::optional<Division> of_expression(const ObjectRef& n) {
  return n.is<PrimExprNode>() ? division_of(PrimExpr(n.cast<PrimExprNode>())) : std::nullopt;
}

using Vars = std::unordered_set<const Var*>;
Vars defined_in(const Stmt& s) {
  Vars out;
  pre_order(s, [&](const ObjectRef& n) {
    if (const auto* f = n.as<For>()) out.insert(f->loop_var.get());
    if (const auto* l = n.as<LetStmt>()) out.insert(l->var.get());
    if (const auto* l = n.as<Let>()) out.insert(l->var.get());
    return !n.is<BufferNode>();
  });
  return out;
}
/// Arithmetic of variables that have their values in front of what defines `inner`.
bool is_known(const PrimExpr& e, const Vars& inner) {
  return !any_node(e, [&](const ObjectRef& n) {
    return n.is<BufferLoad>() || n.is<Call>() || (n.is<Var>() && inner.count(n.as<Var>()));
  });
}

/// Numbers over one divisor that differ by constants.
struct Run {
  PrimExpr number, divisor;  ///< of the one at 0
  std::map<int64_t, std::vector<PrimExpr>> at;
  int64_t steps() const { return at.rbegin()->first - at.begin()->first; }
  std::optional<int64_t> find(const Division& d) const {
    if (structural_equal(d.divisor, divisor))
      for (const auto& [place, same] : at)
        for (const PrimExpr& e : same)
          if (structural_equal(e, d.number)) return place;
    return std::nullopt;
  }
};

/// Multiples of both digits in an index: their sum for each number.
struct Offsets {
  PrimExpr per_whole, per_rest;
  std::vector<VarRef> at;
};

/// The digits of one run in a statement.
class Chain {
 public:
  Chain(const Run& run, const Vars& inner, Analyzer& analyzer)
      : run_(run), inner_(inner), analyzer_(analyzer), size_(run.divisor) {
    if (!analyzer.can_prove_ge(size_, 1)) size_ = max(size_, imm(1));
    const PrimExpr first = run.number + imm(run.at.begin()->first);
    for (int64_t i = 0; i <= run.steps(); ++i) {
      whole_.push_back(var("whole")), rest_.push_back(var("rest"));
      place_[whole_.back().get()] = place_[rest_.back().get()] = size_t(i);
      bind(whole_, floordiv(first, size_), imm(1), imm(0));
      bind(rest_, first - whole_[0] * size_, imm(1) - size_, imm(1));
    }
  }

  /// The statement behind the values of its digits.
  Stmt carried(const Stmt& s) {
    const int64_t first = run_.at.begin()->first;
    Stmt out = rewrite_any(s, [&](const ObjectRef& n) -> ObjectRef {
                 const auto d = of_expression(n);
                 const auto at = d ? run_.find(*d) : std::nullopt;
                 return at ? ObjectRef((d->is_quotient ? whole_ : rest_)[size_t(*at - first)]) : ObjectRef();
               }).cast<StmtNode>();
    const auto index = [&](const PrimExpr& e) {
      const auto* ramp = e.as<Ramp>();
      const PrimExpr moved = with_offset(ramp ? ramp->base : e);
      return !moved ? e : ramp ? PrimExpr(make<Ramp>(moved, ramp->stride, ramp->lanes)) : moved;
    };
    out = rewrite(
        out,
        [&](const BufferLoad& n) -> PrimExpr { return load(n.buffer, n.indices.map(index), n.predicate); },
        [&](const BufferStore& n) -> Stmt {
          return store(n.buffer, n.value, n.indices.map(index), n.predicate);
        });
    for (size_t i = values_.size(); i-- > 0;) out = make<LetStmt>(values_[i].first, values_[i].second, out);
    return out;
  }

 private:
  /// The last of `list`: `first`, or the one before moved by `turn` where the number steps into the next row,
  /// else by `step`.
  void bind(const std::vector<VarRef>& list, const PrimExpr& first, const PrimExpr& turn,
            const PrimExpr& step) {
    const size_t i = list.size() - 1;
    values_.emplace_back(list[i],
                         i == 0 ? first : list[i - 1] + select(eq(rest_[i - 1] + imm(1), size_), turn, step));
  }

  void digits_in(const PrimExpr& e, FunctionRef<void(size_t)> f) const {
    pre_order(e, [&](const ObjectRef& n) {
      if (const auto it = place_.find(n.as<Var>()); it != place_.end()) f(it->second);
      return true;
    });
  }

  /// The index where it is linear in the digits of one number; else null.
  PrimExpr with_offset(const PrimExpr& e) {
    if (e.is<Var>()) return {};
    std::optional<size_t> at;
    bool one = e.dtype() == i64;
    digits_in(e, [&](size_t i) { one = one && at.value_or(i) == i, at = i; });
    if (!at || !one) return {};
    const VarRef &whole = whole_[*at], &rest = rest_[*at];
    const auto multiple = [&](const VarRef& v) {
      return analyzer_.simplify(substitute(e, {{v.get(), v + imm(1)}}) - e);
    };
    const PrimExpr per_whole = multiple(whole), per_rest = multiple(rest);
    bool linear = true;
    digits_in(per_whole + per_rest, [&](size_t) { linear = false; });
    if (!linear || !is_known(per_whole, inner_) || !is_known(per_rest, inner_)) return {};
    const PrimExpr others = analyzer_.simplify(substitute(e, {{whole.get(), imm(0)}, {rest.get(), imm(0)}}));
    return others + offset(per_whole, per_rest, *at);
  }

  VarRef offset(const PrimExpr& per_whole, const PrimExpr& per_rest, size_t at) {
    for (const Offsets& o : offsets_)
      if (structural_equal(o.per_whole, per_whole) && structural_equal(o.per_rest, per_rest)) return o.at[at];
    Offsets o{per_whole, per_rest, {}};
    for (size_t i = 0; i < whole_.size(); ++i) {
      o.at.push_back(var("offset"));
      bind(o.at, per_whole * whole_[0] + per_rest * rest_[0],
           analyzer_.simplify(per_whole - per_rest * (size_ - imm(1))), per_rest);
    }
    offsets_.push_back(o);
    return o.at[at];
  }

  const Run& run_;
  const Vars& inner_;  ///< what the statement defines

  Analyzer& analyzer_;
  PrimExpr size_;
  std::vector<VarRef> whole_, rest_;
  std::unordered_map<const Var*, size_t> place_;
  std::vector<Offsets> offsets_;
  std::vector<std::pair<VarRef, PrimExpr>> values_;
};

class ChainDigits : public tensor_detail::Rewriter {
 public:
  explicit ChainDigits(const std::vector<VarRef>& sizes) {
    for (const VarRef& v : sizes) analyzer_.assume_size(v, 0);
  }
  Stmt stmt(const Stmt& s) override {
    const auto* n = s ? s.as<For>() : nullptr;
    if (!n || n->loop_var->dtype != i64) return Rewriter::stmt(s);
    analyzer_.bind(n->loop_var, range(n->min, n->extent), true);
    const Analyzer::Scope runs = analyzer_.assume(ge(n->extent, imm(1)));
    const Stmt body = in_branches(stmt(n->body), n->loop_var);
    return body.same_as(n->body) ? s : tensor_detail::edited<For>(s, [&](For* f) { f->body = body; });
  }
  PrimExpr expr(const PrimExpr& e) override { return e; }

 private:
  Stmt in_branches(const Stmt& s, const VarRef& loop) {
    const auto* n = s.as<IfThenElse>();
    if (!n) return chained(s, loop);
    return make<IfThenElse>(n->condition, in_branches(n->then_case, loop),
                            n->else_case ? in_branches(n->else_case, loop) : Stmt());
  }

  /// With the digits of what the loop's variable moves.
  Stmt chained(const Stmt& s, const VarRef& loop) {
    Vars inner = defined_in(s);
    std::vector<Run> runs;
    pre_order(s, [&](const ObjectRef& n) {
      if (const auto d = of_expression(n); d && tensor_detail::mentions(d->number, loop.get()) &&
                                           is_known(d->number, inner) && is_known(d->divisor, inner) &&
                                           analyzer_.bound(d->divisor).min >= 0)
        add(runs, *d);
      return !n.is<BufferNode>();
    });
    Stmt out = s;
    for (const Run& r : runs) {
      if (r.at.size() == 1 || r.steps() > kStepsOfDivision * int64_t(r.at.size() - 1)) continue;
      out = Chain(r, inner, analyzer_).carried(out);
      inner = defined_in(out);
    }
    return out;
  }

  void add(std::vector<Run>& runs, const Division& d) {
    for (Run& r : runs) {
      if (!structural_equal(r.divisor, d.divisor)) continue;
      const auto at = as_int(analyzer_.simplify(d.number - r.number));
      if (!at || *at - r.at.begin()->first > kMostSteps || r.at.rbegin()->first - *at > kMostSteps) continue;
      r.at[*at].push_back(d.number);
      return;
    }
    runs.push_back({d.number, d.divisor, {{0, {d.number}}}});
  }

  Analyzer analyzer_;
};

}  // namespace

static IRModule chain_digits(IRModule module, PassContext&) {
  return tensor_detail::map_bodies(module, [](const std::string&, const PrimFunc& f) {
    const std::vector<VarRef> sizes = tensor_detail::sizes_of(f);
    const Stmt body = ChainDigits(sizes).stmt(f->body);
    return body.same_as(f->body) ? body : simplify(body, false, sizes);
  });
}

const Pass& chain_digits_pass = register_pass({
    .name = "chain_digits",
    .run = chain_digits,
    .level = 2,
    .summary = "digits of numbers side by side are found one from the other, not by divisions",
});

}  // namespace tenon
