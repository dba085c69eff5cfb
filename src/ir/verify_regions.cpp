// SPDX-License-Identifier: Apache-2.0
// Blocks that touch what they do not declare: schedules move, copy and shrink buffers by what a block's
// `T.reads` and `T.writes` say. Reported is an access that lies outside of its declared region wherever it is
// made, or in the first or last iterations of the loops that surely lead to it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <unordered_set>

#include "ir/attr_keys.h"
#include "ir/find_node.h"
#include "ir/jumps.h"
#include "ir/structural.h"
#include "ir/text.h"
#include "ir/verify_impl.h"
#include "ir/walk.h"

namespace tenon {
namespace {

using namespace tir;

/// Σ factors[i] · atoms[i] + constant. An atom is a variable, or what is no sum.
struct Sum {
  std::map<size_t, int64_t> factors;
  int64_t constant = 0;
};

/// Sums over one list of atoms. Empty where 64 bits do not hold a number.
class Sums {
 public:
  std::optional<Sum> of(const PrimExpr& e) {
    if (!e || !e.dtype().is_integer() || e.dtype().is_vector()) return {};
    if (const auto* n = e.as<IntImm>()) return Sum{{}, n->value};
    if (const auto* n = e.as<Add>()) return added(of(n->a), of(n->b), 1);
    if (const auto* n = e.as<Sub>()) return added(of(n->a), of(n->b), -1);
    if (const auto* n = e.as<Cast>(); n && n->value.dtype().is_integer()) return of(n->value);
    if (const auto* n = e.as<Mul>())
      if (const auto by = as_int(n->b) ? as_int(n->b) : as_int(n->a))
        return added(Sum{}, of(as_int(n->b) ? n->a : n->b), *by);
    if (const auto* v = e.as<Var>())
      if (auto it = values_.find(v); it != values_.end()) return it->second;
    return Sum{{{atom(e), 1}}, 0};
  }
  static std::optional<Sum> added(std::optional<Sum> a, const std::optional<Sum>& b, int64_t times) {
    if (!a || !b) return {};
    const auto add = [&](int64_t& to, int64_t x) {
      int64_t product = 0;
      return !__builtin_mul_overflow(x, times, &product) && !__builtin_add_overflow(to, product, &to);
    };
    if (!add(a->constant, b->constant)) return {};
    for (const auto& [i, factor] : b->factors)
      if (!add(a->factors[i], factor)) return {};
    std::erase_if(a->factors, [](const auto& f) { return f.second == 0; });
    return a;
  }
  /// The sum with another in the place of an atom.
  static std::optional<Sum> replaced(Sum s, size_t i, const std::optional<Sum>& by) {
    const int64_t factor = s.factors.at(i);
    s.factors.erase(i);
    return added(std::move(s), by, factor);
  }
  void define(const VarRef& v, const PrimExpr& value) {
    if (std::optional<Sum> s = of(value))
      values_.insert_or_assign(v.get(), std::move(*s));
    else
      values_.erase(v.get());
  }
  size_t atom(const PrimExpr& e) {
    for (size_t i = 0; i < atoms_.size(); ++i)
      if (structural_equal(atoms_[i], e)) return i;
    atoms_.push_back(e);
    return atoms_.size() - 1;
  }

 private:
  std::vector<PrimExpr> atoms_;
  std::unordered_map<const Var*, Sum> values_;
};

class Regions {
 public:
  Regions(const std::string& name, DiagnosticList& problems)
      : where_("function `" + name + "`"), problems_(problems) {}

  void run(const Stmt& body) {
    // What may end early need not come to its last iterations.
    surely_ = !find_jump(body) && !has_node<AssertStmt>(body, in_bodies);
    stmt(body);
  }

 private:
  struct Loop {
    size_t atom;
    std::optional<Sum> first, last;
  };
  /// A box of a buffer: the first element of each dimension, and the one behind the last.
  struct Box {
    const BufferRegionNode* region;
    std::vector<std::optional<Sum>> begin, end;
  };
  struct Open {
    const Block* block;
    std::vector<Box> reads, writes;
    std::unordered_set<const Var*> own;  ///< memory of the block itself
    std::unordered_set<const Object*> told;
  };
  static constexpr auto in_bodies = [](const ObjectRef& n) { return n.is<StmtNode>() || n.is<ArrayObj>(); };

  void stmt(const Stmt& s) {
    if (!s) return;
    const StmtNode* outer = at_;
    if (s->origin && !s->origin->span.to_string().empty()) at_ = s.get();
    if (const auto* n = s.as<For>())
      loop(*n);
    else if (const auto* n = s.as<IfThenElse>())
      value(n->condition), perhaps([&] { stmt(n->then_case), stmt(n->else_case); });
    else if (const auto* n = s.as<tir::While>())
      value(n->condition), perhaps([&] { stmt(n->body); });
    else if (const auto* n = s.as<LetStmt>())
      value(n->value), define(n->var, n->value), stmt(n->body);
    else if (const auto* n = s.as<BlockRealize>())
      realize(*n);
    else if (const auto* n = s.as<BufferStore>())
      store(*n);
    else
      rest(s);
    at_ = outer;
  }
  void define(const VarRef& v, const PrimExpr& value) {
    inside_.insert(v.get());
    sums_.define(v, value);
  }
  void rest(const Stmt& s) {
    if (const auto* n = s.as<Allocate>()) own(n->buffer);
    if (const auto* n = s.as<AllocateConst>()) own(n->buffer);
    if (const auto* n = s.as<BufferRealize>()) own(n->buffer);
    for (const ObjectRef& c : children(s)) {
      if (c.is<StmtNode>()) stmt(c.cast<StmtNode>());
      if (c.is<PrimExprNode>()) value(PrimExpr(c.cast<PrimExprNode>()));
    }
  }
  /// Runs f where it may be that nothing comes: only what is wrong in any iteration is.
  template <class F>
  void perhaps(F f) {
    const std::vector<Loop> loops = std::exchange(loops_, {});
    f();
    loops_ = loops;
  }
  void loop(const For& n) {
    value(n.min);
    value(n.extent);
    const auto count = as_int(n.extent);
    if (count && *count <= 0) return;
    inside_.insert(n.loop_var.get());
    // Where the number of iterations changes, there may be none in the first of those around.
    if (!count && mentions_any(n.extent, inside_)) return perhaps([&] { stmt(n.body); });
    const std::optional<Sum> min = sums_.of(n.min), extent = sums_.of(n.extent);
    loops_.push_back({sums_.atom(n.loop_var), min, Sums::added(Sums::added(min, extent, 1), Sum{{}, 1}, -1)});
    stmt(n.body);
    loops_.pop_back();
  }
  void realize(const BlockRealize& n) {
    for (size_t i = 0; i < n.iter_values.size() && i < n.block->iter_vars.size(); ++i) {
      value(n.iter_values[i]);
      define(n.block->iter_vars[i]->var, n.iter_values[i]);
    }
    value(n.predicate);
    if (n.predicate && is_one(n.predicate))
      block(*n.block);
    else
      perhaps([&] { block(*n.block); });
  }
  void block(const Block& b) {
    // A function's own block, and one that says nothing, leave it to what is inside.
    const bool says = (!b.reads.empty() || !b.writes.empty()) && !b.annotations.contains(kHidesAccessAttr);
    if (says) open_.push_back({&b, boxes(b.reads), boxes(b.writes), {}, {}});
    for (const Buffer& a : b.alloc_buffers) own(a);
    for (const MatchBufferRegion& m : b.match_buffers) own(m->buffer);
    stmt(b.init);
    stmt(b.body);
    if (says) open_.pop_back();
  }
  void own(const Buffer& b) {
    for (Open& o : open_) o.own.insert(b->data.get());
  }
  std::vector<Box> boxes(const Array<BufferRegion>& regions) {
    std::vector<Box> out;
    for (const BufferRegion& r : regions) {
      Box box{r.get(), {}, {}};
      for (const Range& x : r->region) {
        box.begin.push_back(sums_.of(x->min));
        box.end.push_back(Sums::added(box.begin.back(), sums_.of(x->extent), 1));
      }
      out.push_back(std::move(box));
    }
    return out;
  }

  void value(const PrimExpr& e) {
    if (!e) return;
    for_each_load(e, [&](const BufferLoad& n) { access(n.buffer, n.indices, false); });
  }
  void store(const BufferStore& n) {
    value(n.value);
    for (const PrimExpr& i : n.indices) value(i);
    if (!n.predicate) access(n.buffer, n.indices, true);
  }
  void access(const Buffer& b, const Array<PrimExpr>& indices, bool writes) {
    for (Open& o : open_) {
      if (o.own.contains(b->data.get()) || o.told.contains(b.get())) continue;
      std::vector<const Box*> declared;
      bool known = true;
      const auto look = [&](const std::vector<Box>& list) {
        for (const Box& box : list) {
          if (!box.region->buffer->data.same_as(b->data)) continue;
          known = known && box.region->buffer.same_as(b) && box.begin.size() == indices.size();
          declared.push_back(&box);
        }
      };
      look(o.writes);
      // What a block updates it may read: reductions do not name that.
      if (!writes) look(o.reads);
      if (known && outside_of_all(declared, indices) && !outside_of_buffer(b, indices))
        tell(o, b, indices, writes, declared);
    }
  }
  /// No region has what lies outside of the buffer; whether it runs, the checks of accesses know.
  bool outside_of_buffer(const Buffer& b, const Array<PrimExpr>& indices) {
    Box whole{nullptr, {}, {}};
    for (const PrimExpr& size : b->shape) {
      whole.begin.push_back(Sum{{}, 0});
      whole.end.push_back(sums_.of(size));
    }
    return whole.begin.size() == indices.size() && outside_of_all({&whole}, indices);
  }
  /// An iteration that is outside of one box may be inside of another: of several each has to be left in any.
  bool outside_of_all(const std::vector<const Box*>& boxes, const Array<PrimExpr>& indices) {
    const bool ends = surely_ && boxes.size() == 1;
    for (const Box* box : boxes) {
      bool leaves = false;
      for (size_t i = 0; i < indices.size(); ++i)
        leaves = leaves || below(first_of(indices[i]), box->begin[i], ends) ||
                 below(Sums::added(box->end[i], Sum{{}, 1}, -1), last_of(indices[i]), ends);
      if (!leaves) return false;
    }
    return true;
  }
  /// The least and the greatest of an index's lanes.
  std::optional<Sum> first_of(const PrimExpr& e) { return end_of(e, false); }
  std::optional<Sum> last_of(const PrimExpr& e) { return end_of(e, true); }
  std::optional<Sum> end_of(const PrimExpr& e, bool last) {
    if (const auto* n = e.as<Broadcast>()) return sums_.of(n->value);
    const auto* n = e.as<Ramp>();
    if (!n) return sums_.of(e);
    const auto stride = as_int(n->stride);
    if (!stride || n->lanes < 1) return {};
    const bool moves = (*stride > 0) == last;
    return Sums::added(sums_.of(n->base), Sum{{}, moves ? *stride : 0}, n->lanes - 1);
  }
  /// a < b, at the first or last iterations of loops where `ends`, else in all.
  bool below(const std::optional<Sum>& a, const std::optional<Sum>& b, bool ends) const {
    std::optional<Sum> d = Sums::added(b, a, -1);
    for (auto it = loops_.rbegin(); ends && d && it != loops_.rend(); ++it)
      if (const auto found = d->factors.find(it->atom); found != d->factors.end())
        d = Sums::replaced(*d, it->atom, found->second > 0 ? it->last : it->first);
    return d && d->factors.empty() && d->constant > 0;
  }
  void tell(Open& o, const Buffer& b, const Array<PrimExpr>& indices, bool writes,
            const std::vector<const Box*>& declared) {
    o.told.insert(b.get());
    std::vector<std::string> at, regions;
    for (const PrimExpr& i : indices) at.push_back(print(i));
    for (const Box* box : declared) regions.push_back(text_of(*box->region));
    problems_.add(Diagnostic{
        "T0319",
        fmt::format("block `{}` {} {}[{}], {}", o.block->name, writes ? "stores to" : "reads", b->name,
                    fmt::join(at, ", "),
                    regions.empty()
                        ? fmt::format("and declares no part of it as {}", writes ? "written" : "read")
                        : fmt::format("outside of what it declares: {}", fmt::join(regions, ", "))),
        at_ ? at_->origin->span.to_string() : where_,
        "declare all that the block touches, or leave T.reads and T.writes out: they follow from the body",
        {}});
  }
  static std::string text_of(const BufferRegionNode& r) {
    std::vector<std::string> parts;
    for (const Range& x : r.region)
      parts.push_back(is_one(x->extent) ? print(x->min)
                                        : fmt::format("{}:{}", print(x->min), print(x->min + x->extent)));
    return fmt::format("{}[{}]", r.buffer->name, fmt::join(parts, ", "));
  }

  std::string where_;
  DiagnosticList& problems_;
  Sums sums_;
  std::vector<Loop> loops_;                ///< that surely lead here, outer ones first
  std::vector<Open> open_;                 ///< blocks around
  std::unordered_set<const Var*> inside_;  ///< variables that the body defines
  bool surely_ = true;                     ///< loops come to their last iterations
  const StmtNode* at_ = nullptr;
};

}  // namespace

void verify_regions(const std::string& name, const Stmt& body, DiagnosticList& problems) {
  Regions(name, problems).run(body);
}

}  // namespace tenon
