// SPDX-License-Identifier: Apache-2.0
// carry_digits
//   before: for i in n: B[i] = A[(c + i) // d, (c + i) % d]
//   after:  for q in …: for r in …: B[q * d + r - c] = A[q, r]                      (innermost loops, steps
//   of 1)
//           q = c // d; r = c % d; for i in n: B[i] = A[q, r]; r += s; if r >= d: …   (others, steps of s)
// Digits to a size that is not known are divisions, an order of magnitude slower than what else an element
// costs. An innermost loop over one number is cut where its quotient changes: what is left inside are plain
// strides, which may become vectors. Otherwise, where the number moves by an equal step from one iteration of
// a serial loop to the next, quotient and remainder are counters that the loop carries, and so is a digit of
// the quotient. What stands in front of the loop may move in a loop around it and is carried there. Steps
// beyond the size divide as before. Needs: loops as they will run, flat buffers. Keeps: every value.
#include <optional>

#include "ir/structural.h"
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;
using tensor_detail::Division, tensor_detail::division_of, tensor_detail::imm;

namespace {

/// Iterations of a parallel loop that one does after the other, and what each of them may be, in nodes and in
/// iterations of its own: one that takes longer than its divisions is better alone.
constexpr int64_t kTogether = 16, kShortNodes = 300, kShortIterations = 8;
constexpr size_t kMostDigits = 8;  ///< of one loop: more would not stay in registers beside the body's values

/// One number of a loop, divided: its counters.
struct Digit {
  PrimExpr number, divisor;  ///< as they are written
  PrimExpr at_least_one;     ///< the divisor, where it is zero 1
  int parent = -1;           ///< the digit whose quotient the number is
  PrimExpr step;             ///< of a number that is no quotient
  bool needs_quotient = false;
  Buffer quotient, remainder;
};

/// The digits of one loop.
class LoopDigits {
 public:
  LoopDigits(const For& loop, Analyzer& analyzer) : loop_(loop), analyzer_(analyzer) {
    pre_order(loop.body, [&](const ObjectRef& n) {
      if (const auto* f = n.as<For>()) inner_.insert(f->loop_var.get());
      if (const auto* l = n.as<LetStmt>()) inner_.insert(l->var.get());
      if (const auto* l = n.as<Let>()) inner_.insert(l->var.get());
      return n.is<StmtNode>() || n.is<PrimExprNode>() || n.is<ArrayObj>();
    });
  }

  /// The loop without these divisions, `cut` where a single number is divided; null where it has none.
  Stmt carried(const Stmt& s, bool cut = true) {
    const Stmt body = with_counters(loop_.body);
    if (digits_.empty()) return {};
    const auto roots = std::ranges::count(digits_, -1, &Digit::parent);
    return cut && !has_node<For>(loop_.body, in_statements) && roots == 1 && is_one(digits_[0].step)
               ? runs()
               : counted(s, body);
  }

 private:
  /// One loop over the quotients, and in it one over the remainders of each.
  Stmt runs() {
    const Digit& d = digits_[0];
    const PrimExpr first = at_start(d);
    const VarRef whole = var("whole"), rest = var("rest"), run = var("run"), begin = var("begin"),
                 j = var("j");
    const VarRef v = loop_.loop_var;
    const PrimExpr size = d.at_least_one, passed = run * size - rest;
    const PrimExpr count = min(passed + size, loop_.extent) - begin;
    const Stmt body = rewrite(
        loop_.body, [&](const FloorDiv& n) -> PrimExpr { return is(d, n.a, n.b) ? whole + run : PrimExpr(); },
        [&](const FloorMod& n) -> PrimExpr { return is(d, n.a, n.b) ? j + (begin - passed) : PrimExpr(); });
    Stmt out = serial(j, count, substitute(body, {{v.get(), loop_.min + begin + j}}));
    out = serial(run, floordiv(rest + loop_.extent + (size - imm(1)), size),
                 make<LetStmt>(begin, max(passed, imm(0)), out));
    if (const Stmt s = LoopDigits(*out.as<For>(), analyzer_).carried(out)) out = s;  // digits of the quotient
    return make<LetStmt>(whole, analyzer_.simplify(floordiv(first, size)),
                         make<LetStmt>(rest, analyzer_.simplify(floormod(first, size)), out));
  }
  static Stmt serial(const VarRef& v, const PrimExpr& extent, const Stmt& body) {
    return make<For>(v, imm(0), extent, ForKind::serial, body, "", AttrMap());
  }
  static bool is(const Digit& d, const PrimExpr& number, const PrimExpr& divisor) {
    return structural_equal(number, d.number) && structural_equal(divisor, d.divisor);
  }
  PrimExpr at_start(const Digit& d) const {
    return analyzer_.simplify(substitute(d.number, {{loop_.loop_var.get(), loop_.min}}));
  }

  Stmt counted(const Stmt& s, const Stmt& body) const {
    std::vector<Stmt> before, after{body};
    for (const Digit& d : digits_) {
      const PrimExpr first = d.parent >= 0 ? quotient_of(digits_[size_t(d.parent)]) : at_start(d);
      const auto begin = [&](const Buffer& b, const PrimExpr& value) {
        before.push_back(store(b, analyzer_.simplify(value), {imm(0)}));
      };
      begin(d.remainder, floormod(first, d.at_least_one));
      if (d.needs_quotient) begin(d.quotient, floordiv(first, d.at_least_one));
    }
    for (size_t i = 0; i < digits_.size(); ++i)
      if (digits_[i].parent < 0) after.push_back(moved(i, digits_[i].step));
    before.push_back(tensor_detail::edited<For>(s, [&](For* m) { m->body = seq(Array<Stmt>(after)); }));
    Stmt out = seq(Array<Stmt>(before));
    for (const Digit& d : digits_) {
      out = make<Allocate>(d.remainder, out, AttrMap());
      if (d.needs_quotient) out = make<Allocate>(d.quotient, out, AttrMap());
    }
    return out;
  }
  static PrimExpr quotient_of(const Digit& d) { return load(d.quotient, {imm(0)}); }
  static PrimExpr remainder_of(const Digit& d) { return load(d.remainder, {imm(0)}); }

  Stmt with_counters(const Stmt& body) {
    class Replace : public tensor_detail::Rewriter {
     public:
      explicit Replace(LoopDigits& digits) : digits_(digits) {}
      PrimExpr expr(const PrimExpr& e) override {
        if (const auto d = e ? division_of(e) : std::nullopt)
          if (const int i = digits_.find(*d, d->is_quotient); i >= 0)
            return d->is_quotient ? quotient_of(digits_.digits_[size_t(i)])
                                  : remainder_of(digits_.digits_[size_t(i)]);
        return Rewriter::expr(e);
      }

     private:
      LoopDigits& digits_;
    };
    return Replace(*this).stmt(body);
  }

  /// The digit that divides so, made where there is none; -1 where it cannot be carried.
  int find(const Division& d, bool needs_quotient) {
    for (size_t i = 0; i < digits_.size(); ++i)
      if (is(digits_[i], d.number, d.divisor)) {
        digits_[i].needs_quotient = digits_[i].needs_quotient || needs_quotient;
        return int(i);
      }
    Digit fresh{.number = d.number, .divisor = d.divisor, .needs_quotient = needs_quotient};
    if (!stays(d.divisor) || analyzer_.bound(d.divisor).min < 0) return -1;
    fresh.at_least_one = analyzer_.can_prove_ge(d.divisor, 1) ? d.divisor : max(d.divisor, imm(1));
    if (const auto inner = division_of(d.number); inner && inner->is_quotient)
      fresh.parent = find(*inner, true);
    if (fresh.parent < 0 && !(fresh.step = step_of(d.number))) return -1;
    if (digits_.size() == kMostDigits) return -1;
    fresh.quotient = buffer("quotient", {imm(1)}, i64, "local");
    fresh.remainder = buffer("remainder", {imm(1)}, i64, "local");
    digits_.push_back(fresh);
    return int(digits_.size()) - 1;
  }

  /// Arithmetic of variables that have their values in front of the loop, or of the loop's.
  bool is_outer(const PrimExpr& e) const {
    return !any_node(e, [&](const ObjectRef& n) {
      return n.is<BufferLoad>() || n.is<Call>() || (n.is<Var>() && inner_.count(n.as<Var>()));
    });
  }
  bool stays(const PrimExpr& e) const {
    return is_outer(e) && !tensor_detail::mentions(e, loop_.loop_var.get());
  }
  /// What one iteration adds to the number; null where that is nothing, or not always the same.
  PrimExpr step_of(const PrimExpr& number) {
    const Var* v = loop_.loop_var.get();
    if (!is_outer(number) || !tensor_detail::mentions(number, v)) return {};
    const PrimExpr next = substitute(number, {{v, loop_.loop_var + imm(1)}});
    const PrimExpr step = analyzer_.simplify(next - number);
    return stays(step) && !is_zero(step) ? step : PrimExpr();
  }

  /// The digit's number `step` further on, and the digits of its quotient.
  Stmt moved(size_t i, const PrimExpr& step) const {
    const Digit& d = digits_[i];
    const PrimExpr r = remainder_of(d);
    const ConstBound by = analyzer_.bound(step);
    PrimExpr outside;
    if (by.max > 0) outside = ge(r, d.at_least_one);
    if (by.min < 0) outside = outside ? logical_or(outside, lt(r, imm(0))) : lt(r, imm(0));
    const bool single = is_one(step);
    const VarRef whole = var("whole");
    const PrimExpr over = single ? imm(1) : PrimExpr(whole);
    std::vector<Stmt> turn{store(d.remainder, single ? imm(0) : r - whole * d.at_least_one, {imm(0)})};
    if (d.needs_quotient) turn.push_back(store(d.quotient, quotient_of(d) + over, {imm(0)}));
    for (size_t k = i + 1; k < digits_.size(); ++k)
      if (digits_[k].parent == int(i)) turn.push_back(moved(k, over));
    Stmt turned = seq(Array<Stmt>(turn));
    if (!single) turned = make<LetStmt>(whole, floordiv(r, d.at_least_one), turned);
    return seq({store(d.remainder, r + step, {imm(0)}), make<IfThenElse>(outside, turned, Stmt())});
  }

  const For& loop_;
  Analyzer& analyzer_;
  std::unordered_set<const Var*> inner_;  ///< variables that the body defines
  std::vector<Digit> digits_;             ///< parents in front
};

class CarryDigits : public tensor_detail::Rewriter {
 public:
  explicit CarryDigits(const std::vector<VarRef>& sizes) {
    for (const VarRef& v : sizes) analyzer_.assume_size(v, 0);
  }
  Stmt stmt(const Stmt& s) override {
    const auto* n = s ? s.as<For>() : nullptr;
    if (!n) return Rewriter::stmt(s);
    analyzer_.bind(n->loop_var, range(n->min, n->extent), true);
    const bool counted = n->extent.dtype() == i64;
    Stmt r;
    {  // Inside only: counters begin in front of a loop that may not run.
      const Analyzer::Scope runs = analyzer_.assume(counted ? ge(n->extent, imm(1)) : true_());
      r = Rewriter::stmt(s);
    }
    if (!counted || !n->annotations.empty() || is_one(n->extent)) return r;
    if (n->kind == ForKind::parallel) return several_together(r);
    if (n->kind != ForKind::serial) return r;
    const Stmt carried = LoopDigits(*r.as<For>(), analyzer_).carried(r);
    return carried ? carried : r;
  }
  PrimExpr expr(const PrimExpr& e) override { return e; }

 private:
  /// A parallel loop whose iterations are short and divide: some of them in a serial loop, which carries.
  Stmt several_together(const Stmt& s) {
    const auto& n = *s.as<For>();
    if (!is_zero(n.min) || as_int(n.extent) || !is_short(n.body)) return s;
    const VarRef group = var(n.loop_var->name + "_group"), i = var(n.loop_var->name);
    const PrimExpr first = PrimExpr(group) * imm(kTogether);
    const PrimExpr count = min(n.extent - first, imm(kTogether));
    analyzer_.bind(group, range(imm(0), ceildiv(n.extent, imm(kTogether))), true);
    analyzer_.bind(i, range(imm(0), count), true);
    const Stmt serial = make<For>(i, imm(0), count, ForKind::serial,
                                  substitute(n.body, {{n.loop_var.get(), first + i}}), "", AttrMap());
    Stmt carried;
    {
      const Analyzer::Scope runs = analyzer_.assume(ge(n.extent, imm(1)));
      carried = LoopDigits(*serial.as<For>(), analyzer_).carried(serial, false);
    }
    if (!carried) return s;
    return tensor_detail::edited<For>(s, [&](For* m) {
      m->loop_var = group;
      m->extent = ceildiv(n.extent, imm(kTogether));
      m->body = carried;
    });
  }
  static bool is_short(const Stmt& body) {
    int64_t iterations = 1;
    pre_order(body, [&](const ObjectRef& x) {
      if (const auto* loop = x.as<For>())
        iterations *= std::min(as_int(loop->extent).value_or(kShortIterations + 1), kShortIterations + 1);
      if (x.is<tir::While>()) iterations = kShortIterations + 1;
      return (x.is<StmtNode>() || x.is<ArrayObj>()) && iterations <= kShortIterations;
    });
    return iterations <= kShortIterations && tensor_detail::size_of(body, kShortNodes) <= kShortNodes;
  }

  Analyzer analyzer_;
};

}  // namespace

static IRModule carry_digits(IRModule module, PassContext&) {
  return tensor_detail::map_bodies(module, [](const std::string&, const PrimFunc& f) {
    const std::vector<VarRef> sizes = tensor_detail::sizes_of(f);
    const Stmt body = CarryDigits(sizes).stmt(f->body);
    return body.same_as(f->body) ? body : simplify(body, false, sizes);
  });
}

const Pass& carry_digits_pass = register_pass({
    .name = "carry_digits",
    .run = carry_digits,
    .level = 2,
    .summary = "digits to sizes that are not known are counters of serial loops, not divisions",
});

}  // namespace tenon
