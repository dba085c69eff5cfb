// SPDX-License-Identifier: Apache-2.0
// Certain races of parallel and vectorised loops: a store that every iteration makes to the same element, and
// two iterations of which one stores to what the other reads or stores to. The second are found by following
// the first iterations with numbers: what has no number, as an index from memory, is left out.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>

#include "ir/find_node.h"
#include "ir/jumps.h"
#include "ir/structural.h"
#include "ir/text.h"
#include "ir/verify_impl.h"
#include "ir/walk.h"

namespace tenon {

using namespace tir;

bool jumps_out(const Stmt& s, bool next, bool in_loop) {
  if (!s) return false;
  const Jump jump = jump_of(s);
  if (jump == Jump::end_of_program) return true;
  if (jump != Jump::none) return !in_loop && (next || jump == Jump::end_of_loop);
  const bool inside = in_loop || s.is<For>() || s.is<tir::While>();
  bool found = false;
  for (const ObjectRef& c : children(s))
    found = found || (c.is<StmtNode>() && jumps_out(c.cast<StmtNode>(), next, inside));
  return found;
}

void for_each_load(const PrimExpr& e, FunctionRef<void(const BufferLoad&)> f) {
  for_each_computed(e, [&](const ObjectRef& n) {
    if (const auto* load = n.as<BufferLoad>(); load && !load->predicate) f(*load);
  });
}

void for_each_computed(const PrimExpr& e, FunctionRef<void(const ObjectRef&)> f) {
  if (!e) return;
  pre_order(e, [&](const ObjectRef& n) {
    f(n);
    // One operand of these may be there because the other says that it is not needed; an address may be
    // that of the end.
    const auto* call = n.as<tir::Call>();
    const bool partly = call && (call->op == "tir.if_then_else" || call->op == "tir.address_of" ||
                                 call->op == "tir.access_ptr" || call->op.starts_with("tir.prefetch"));
    return !partly && !n.is<Select>() && !n.is<And>() && !n.is<Or>() && !n.is<Reduce>();
  });
}

namespace {

std::string_view kind_of(const For& loop) {
  return loop.kind == ForKind::vectorized ? "vectorised" : "parallel";
}

/// A store to one element by all iterations: which values differ between these.
class SameElement {
 public:
  SameElement(const For& loop, std::unordered_set<const Var*> own) : differs_(std::move(own)) {
    differs_.insert(loop.loop_var.get());
  }
  const BufferStore* found = nullptr;

  void stmt(const Stmt& s) {
    if (!s || found) return;
    if (const auto* n = s.as<For>()) {
      if (differ(n->min) || differ(n->extent)) return;  // some iterations may not come here
      stmt(n->body);
    } else if (const auto* n = s.as<IfThenElse>()) {
      if (differ(n->condition)) return;
      stmt(n->then_case);
      stmt(n->else_case);
    } else if (const auto* n = s.as<tir::While>()) {
      if (!differ(n->condition)) stmt(n->body);
    } else if (const auto* n = s.as<LetStmt>()) {
      if (differ(n->value)) differs_.insert(n->var.get());
      stmt(n->body);
    } else if (const auto* n = s.as<BlockRealize>()) {
      if (n->predicate && differ(n->predicate)) return;
      for (size_t i = 0; i < n->iter_values.size() && i < n->block->iter_vars.size(); ++i)
        if (n->iter_values[i] && differ(n->iter_values[i]))
          differs_.insert(n->block->iter_vars[i]->var.get());
      stmt(n->block);
    } else if (const auto* n = s.as<Block>()) {
      for (const Buffer& b : n->alloc_buffers) differs_.insert(b->data.get());
      for (const MatchBufferRegion& m : n->match_buffers) {
        bool own = differs_.count(m->source->buffer->data.get()) > 0;
        for (const Range& r : m->source->region) own = own || differ(r->min);
        if (own) differs_.insert(m->buffer->data.get());
      }
      stmt(n->body);
    } else if (const auto* n = s.as<Allocate>()) {
      differs_.insert(n->buffer->data.get());
      stmt(n->body);
    } else if (const auto* n = s.as<BufferRealize>()) {
      differs_.insert(n->buffer->data.get());
      stmt(n->body);
    } else if (const auto* n = s.as<BufferStore>()) {
      bool own = differs_.count(n->buffer->data.get()) > 0 || (n->predicate && differ(n->predicate)) ||
                 (n->buffer->elem_offset && differ(n->buffer->elem_offset));
      for (const PrimExpr& i : n->indices) own = own || !i || differ(i);
      if (!own) found = n;
    } else if (const auto* n = s.as<SeqStmt>()) {
      for (const Stmt& c : n->seq) {
        stmt(c);
        if (jumps_out(c, /*next=*/true)) return;  // some iterations may not come to what follows
      }
    } else {
      for (const ObjectRef& c : children(s))
        if (c.is<StmtNode>()) stmt(c.cast<StmtNode>());
    }
  }

 private:
  /// What memory holds may differ, too.
  bool differ(const PrimExpr& e) const {
    return any_node(e, [&](const ObjectRef& n) {
      return n.is<BufferLoad>() || n.is<ProducerLoad>() || n.is<tir::Call>() ||
             (n.is<Var>() && differs_.count(n.as<Var>()));
    });
  }
  std::unordered_set<const Var*> differs_;
};

/// The value of an expression over variables with values; empty: not known, or it leaves its type.
class Values {
 public:
  std::unordered_map<const Var*, int64_t> of;

  std::optional<int64_t> operator()(const PrimExpr& e) const {
    if (!e || !(e.dtype().is_integer() || e.dtype().is_bool()) || e.dtype().is_vector()) return {};
    const auto value = compute(e);
    constexpr int kWord = 64;
    const DataType t = e.dtype();
    if (!value || t.is_bool() || t.bits >= kWord) return value;
    const int64_t least = t.is_uint() ? 0 : -(int64_t(1) << (t.bits - 1)),
                  most = (int64_t(1) << (t.is_uint() ? t.bits : t.bits - 1)) - 1;
    return *value >= least && *value <= most ? value : std::nullopt;
  }

 private:
  using Value = std::optional<int64_t>;
  Value compute(const PrimExpr& e) const {
    if (const auto* n = e.as<IntImm>()) return n->value;
    if (const auto* n = e.as<Var>()) {
      const auto it = of.find(n);
      return it == of.end() ? Value() : Value(it->second);
    }
    auto both = [&](const auto* n, auto f) -> Value {
      const Value x = (*this)(n->a), y = x ? (*this)(n->b) : Value();
      return y ? f(*x, *y) : Value();
    };
    auto checked = [&](const auto* n, auto overflows) {
      return both(n, [&](int64_t x, int64_t y) {
        int64_t r = 0;
        return overflows(x, y, &r) ? Value() : Value(r);
      });
    };
    auto divided = [&](const auto* n, auto f) {
      return both(n, [&](int64_t x, int64_t y) { return y > 0 ? Value(f(x, y)) : Value(); });
    };
    auto truth = [&](const auto* n, auto f) {
      return both(n, [&](int64_t x, int64_t y) { return Value(f(x, y) ? 1 : 0); });
    };
    if (const auto* n = e.as<Add>())
      return checked(n, [](int64_t x, int64_t y, int64_t* r) { return __builtin_add_overflow(x, y, r); });
    if (const auto* n = e.as<Sub>())
      return checked(n, [](int64_t x, int64_t y, int64_t* r) { return __builtin_sub_overflow(x, y, r); });
    if (const auto* n = e.as<Mul>())
      return checked(n, [](int64_t x, int64_t y, int64_t* r) { return __builtin_mul_overflow(x, y, r); });
    if (const auto* n = e.as<FloorDiv>())
      return divided(n, [](int64_t x, int64_t y) { return x / y - (x % y < 0); });
    if (const auto* n = e.as<FloorMod>())
      return divided(n, [](int64_t x, int64_t y) { return x % y + (x % y < 0 ? y : 0); });
    if (const auto* n = e.as<tir::Div>()) return divided(n, std::divides<int64_t>());
    if (const auto* n = e.as<tir::Mod>()) return divided(n, std::modulus<int64_t>());
    if (const auto* n = e.as<tir::Min>())
      return both(n, [](int64_t x, int64_t y) { return Value(std::min(x, y)); });
    if (const auto* n = e.as<tir::Max>())
      return both(n, [](int64_t x, int64_t y) { return Value(std::max(x, y)); });
    if (const auto* n = e.as<EQ>()) return truth(n, std::equal_to<int64_t>());
    if (const auto* n = e.as<NE>()) return truth(n, std::not_equal_to<int64_t>());
    if (const auto* n = e.as<LT>()) return truth(n, std::less<int64_t>());
    if (const auto* n = e.as<LE>()) return truth(n, std::less_equal<int64_t>());
    if (const auto* n = e.as<GT>()) return truth(n, std::greater<int64_t>());
    if (const auto* n = e.as<GE>()) return truth(n, std::greater_equal<int64_t>());
    if (const auto* n = e.as<And>()) return truth(n, std::logical_and<int64_t>());
    if (const auto* n = e.as<Or>()) return truth(n, std::logical_or<int64_t>());
    if (const auto* n = e.as<Not>()) {
      const Value x = (*this)(n->a);
      return x ? Value(!*x) : x;
    }
    if (const auto* n = e.as<Cast>()) return (*this)(n->value);
    return {};
  }
};

/// Follows iterations with numbers, and remembers which touched an element first.
class Collisions {
 public:
  Collisions(const For& loop, std::unordered_set<const Var*> own, Values around, size_t width)
      : loop_(loop), own_(std::move(own)), values_(std::move(around)), width_(width) {}

  /// What two iterations do; empty: nothing is found.
  std::string run() {
    const auto min = values_(loop_.min), extent = values_(loop_.extent);
    // Of a symbolic number there are taken to be two, as the loop is parallel.
    const int64_t count = std::min<int64_t>(extent.value_or(2), kIterations);
    if (!min) return {};
    inside_.insert(loop_.loop_var.get());
    for (now_ = *min; now_ < *min + count && found_.empty() && steps_ < kSteps; ++now_) {
      values_.of[loop_.loop_var.get()] = now_;
      jump_ = Jump::none;
      uncertain_ = false;
      stmt(loop_.body);
    }
    return found_;
  }

 private:
  static constexpr int64_t kIterations = 64;  ///< of the parallel loop
  static constexpr size_t kSteps = 8192;      ///< accesses in all

  void stmt(const Stmt& s) {
    if (!s || !found_.empty() || steps_ >= kSteps || jump_ != Jump::none || uncertain_) return;
    if (jump_ = jump_of(s); jump_ != Jump::none) return;
    if (const auto* n = s.as<For>()) {
      read(n->min);
      read(n->extent);
      return repeat(*n);
    }
    if (const auto* n = s.as<IfThenElse>()) {
      read(n->condition);
      const auto holds = values_(n->condition);
      return holds ? stmt(*holds ? n->then_case : n->else_case) : skip(s);
    }
    if (s.is<tir::While>()) return skip(s);
    if (const auto* n = s.as<LetStmt>()) {
      read(n->value);
      define(n->var, n->value);
      return stmt(n->body);
    }
    if (const auto* n = s.as<BlockRealize>()) return realize(*n);
    if (const auto* n = s.as<Allocate>()) own_.insert(n->buffer->data.get());
    if (const auto* n = s.as<BufferRealize>()) own_.insert(n->buffer->data.get());
    if (const auto* n = s.as<BufferStore>()) {
      read(n->value);
      for (const PrimExpr& i : n->indices) read(i);
      if (!n->predicate) touch(n->buffer, n->indices, true);
      return;
    }
    for (const ObjectRef& c : children(s)) {
      if (c.is<StmtNode>()) stmt(c.cast<StmtNode>());
      if (c.is<PrimExprNode>()) read(PrimExpr(c.cast<PrimExprNode>()));
    }
  }
  /// What is not followed may jump: then what comes behind it need not.
  void skip(const Stmt& s) { uncertain_ = uncertain_ || find_jump(s); }
  void define(const VarRef& v, const PrimExpr& e) {
    inside_.insert(v.get());
    if (const auto value = values_(e))
      values_.of[v.get()] = *value;
    else
      values_.of.erase(v.get());
  }
  /// The first iterations and the last one; of a symbolic number the first one. Where one may jump, those
  /// behind the first ones need not come.
  void repeat(const For& n) {
    const auto min = values_(n.min), extent = values_(n.extent);
    if (!min || (!extent && differs(n.extent))) return skip(n.body);
    const bool jumps = bool(find_jump(n.body));
    const int64_t whole = extent.value_or(1), count = jumps ? std::min(whole, int64_t(width_)) : whole;
    inside_.insert(n.loop_var.get());
    for (int64_t i = 0; i < count && jump_ == Jump::none && !uncertain_;
         i = i + 1 < int64_t(width_) ? i + 1 : std::max(i + 1, count - 1)) {
      values_.of[n.loop_var.get()] = *min + i;
      stmt(n.body);
      if (jump_ == Jump::next_iteration) jump_ = Jump::none;
    }
    if (jump_ == Jump::end_of_loop)
      jump_ = Jump::none;
    else
      uncertain_ = uncertain_ || (jumps && (count < whole || !extent));
  }
  void realize(const BlockRealize& n) {
    for (size_t i = 0; i < n.iter_values.size() && i < n.block->iter_vars.size(); ++i) {
      read(n.iter_values[i]);
      define(n.block->iter_vars[i]->var, n.iter_values[i]);
    }
    if (const auto runs = n.predicate ? values_(n.predicate) : std::optional<int64_t>(1); !runs || !*runs)
      return runs ? void() : skip(n.block);
    for (const Buffer& b : n.block->alloc_buffers) own_.insert(b->data.get());
    for (const MatchBufferRegion& m : n.block->match_buffers) own_.insert(m->buffer->data.get());
    stmt(n.block->body);
  }
  void read(const PrimExpr& e) {
    for_each_load(e, [&](const BufferLoad& n) { touch(n.buffer, n.indices, false); });
  }
  /// May its value differ between iterations, or between two times that one computes it?
  bool differs(const PrimExpr& e) const {
    bool found = false;
    pre_order(e, [&](const ObjectRef& n) {
      found = found || n.is<BufferLoad>() || n.is<ProducerLoad>() || n.is<tir::Call>() ||
              (n.is<Var>() && inside_.count(n.as<Var>()));
      return !found;
    });
    return found;
  }
  using Index = std::pair<bool, int64_t>;  ///< a number, or one of symbolic_
  std::optional<Index> index(const PrimExpr& e) {
    if (!e) return {};
    if (const auto value = values_(e)) return Index{false, *value};
    if (e.dtype().is_vector() || differs(e)) return {};
    for (size_t i = 0; i < symbolic_.size(); ++i)
      if (structural_equal(symbolic_[i], e)) return Index{true, int64_t(i)};
    symbolic_.push_back(e);
    return Index{true, int64_t(symbolic_.size() - 1)};
  }
  void touch(const Buffer& b, const Array<PrimExpr>& indices, bool writes) {
    ++steps_;
    if (!found_.empty() || !b || own_.count(b->data.get())) return;
    std::vector<Index> at;
    for (const PrimExpr& i : indices) {
      const auto one = index(i);
      if (!one) return;
      at.push_back(*one);
    }
    Touched& t = touched_[{b.get(), at}];
    if (t.written && *t.written != now_)
      found_ = told(b, at, *t.written, true, writes);
    else if (writes && t.read && *t.read != now_)
      found_ = told(b, at, *t.read, false, true);
    std::optional<int64_t>& first = writes ? t.written : t.read;
    if (!first) first = now_;
  }
  std::string told(const Buffer& b, const std::vector<Index>& at, int64_t before, bool wrote, bool writes) {
    std::vector<std::string> text;
    for (const auto& [symbolic, i] : at)
      text.push_back(symbolic ? print(symbolic_[size_t(i)]) : std::to_string(i));
    const std::string element = fmt::format("{}[{}]", b->name, fmt::join(text, ", "));
    const std::string& name = loop_.loop_var->name;
    if (wrote && writes)
      return fmt::format("iterations {} and {} of the {} loop `{}` both store to {}", before, now_,
                         kind_of(loop_), name, element);
    return fmt::format("iteration {} of the {} loop `{}` reads {}, which iteration {} stores to",
                       wrote ? now_ : before, kind_of(loop_), name, element, wrote ? before : now_);
  }

  struct Touched {
    std::optional<int64_t> read, written;  ///< the first iteration that does
  };
  const For& loop_;
  std::unordered_set<const Var*>
      own_;  ///< memory that iterations do not share, or whose elements are not known
  std::unordered_set<const Var*> inside_;  ///< defined by the loop and in it
  Values values_;
  size_t width_;  ///< how many iterations of inner loops are followed
  std::map<std::pair<const BufferNode*, std::vector<Index>>, Touched> touched_;
  std::vector<PrimExpr> symbolic_;
  int64_t now_ = 0;
  Jump jump_ = Jump::none;  ///< taken, and where it leads is not reached yet
  bool uncertain_ = false;  ///< whether this iteration goes on
  size_t steps_ = 0;
  std::string found_;
};

}  // namespace

std::string certain_race(const For& loop, const std::unordered_set<const Var*>& own,
                         const std::unordered_map<const Var*, int64_t>& around, bool of_two) {
  SameElement same(loop, own);
  same.stmt(loop.body);
  if (same.found)
    return fmt::format("every iteration of the {} loop `{}` stores to the same element of buffer `{}`",
                       kind_of(loop), loop.loop_var->name, same.found->buffer->name);
  if (!of_two) return {};
  // Few iterations of inner loops first: neighbours collide more often than what is far apart.
  constexpr size_t widths[] = {1, 4, 16};
  for (const size_t width : widths) {
    std::string found = Collisions(loop, own, {around}, width).run();
    if (!found.empty()) return found;
  }
  return {};
}

}  // namespace tenon
