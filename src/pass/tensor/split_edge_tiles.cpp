// SPDX-License-Identifier: Apache-2.0
// split_edge_tiles
//   before: for t in parallel((m + 5) // 6): … A[min(t * 6 + 5, m - 1)] …; if t * 6 + 5 < m: B[t * 6 + 5] = …
//   after:  for t: if 0 <= m - t * 6 - 6: … A[t * 6 + 5] …; B[t * 6 + 5] = …   else: as it was
// Tiles over a symbolic size run on to its next multiple: their rows are clamped when they are read and
// masked when they are written. A tile that lies inside needs neither, and one comparison tells. Only loops
// around other loops are cut, where more than one clamp or mask goes; the edge keeps the old body, and beside
// it one of three quarters of the rows, of half of them and of a single row (a batch is often 1) where those
// are enough, and one of half the vectors. A tile that is unrolled as a whole gets the half ones only. A row
// outside is skipped by a branch: a masked store without lanes costs a processor hundreds of cycles where no
// memory stands behind it. Needs: flat loops, unrolled tiles, simplified conditions. Keeps: what runs, and
// its order.
#include <algorithm>
#include <map>
#include <set>

#include "ir/find_node.h"
#include "ir/structural.h"
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;
using tensor_detail::imm;

namespace {

constexpr int64_t most_nodes = 6000;
constexpr size_t most_groups = 2;
constexpr int64_t least_rows = 4;
constexpr int64_t least_tile_nodes = 400;  ///< of a body without loops; a smaller one is over before it pays

/// Stores whose mask holds for all lanes or none stand behind a branch.
class SkipRows : public tensor_detail::Rewriter {
 public:
  Stmt stmt(const Stmt& s) override {
    if (!s) return s;
    const Stmt r = below(s);
    if (const auto* n = r.as<BufferStore>()) return branch(*n, r);
    if (const auto* n = r.as<SeqStmt>()) return merged(*n, r);
    return r;
  }
  PrimExpr expr(const PrimExpr& e) override { return e; }

 private:
  using List = std::vector<PrimExpr>;

  /// The conditions that `mask` consists of: of all lanes together, and of each.
  static void parts_of(const PrimExpr& mask, List& together, List& each) {
    List open{mask};
    while (!open.empty()) {
      const PrimExpr e = open.back();
      open.pop_back();
      const auto* splat = e.as<Broadcast>();
      const PrimExpr inner = splat ? splat->value : e;
      if (const auto* both = inner.as<And>()) {
        auto part = [&](const PrimExpr& p) {
          return splat ? PrimExpr(make<Broadcast>(p, int64_t(splat->dtype.lanes))) : p;
        };
        open.push_back(part(both->b)), open.push_back(part(both->a));
      } else if (inner.dtype().is_scalar()) {
        together.push_back(inner);
      } else {
        each.push_back(e);
      }
    }
  }
  static PrimExpr all_of(const List& conditions) {
    PrimExpr out;
    for (const PrimExpr& c : conditions) out = out ? logical_and(out, c) : c;
    return out;
  }

  static Stmt branch(const BufferStore& n, const Stmt& s) {
    if (!n.predicate || n.predicate.dtype().is_scalar()) return s;
    List together, each;
    parts_of(n.predicate, together, each);
    if (together.empty()) return s;
    if (std::any_of(together.begin(), together.end(), [](const PrimExpr& c) { return is_zero(c); }))
      return tensor_detail::no_op();
    // What a load asks for besides is known behind the branch.
    auto known = [&](const PrimExpr& c) {
      return std::any_of(together.begin(), together.end(),
                         [&](const PrimExpr& k) { return structural_equal(k, c); });
    };
    const PrimExpr value = rewrite(n.value, [&](const BufferLoad& l) -> PrimExpr {
      if (!l.predicate || l.predicate.dtype().is_scalar()) return {};
      List same, other;
      parts_of(l.predicate, same, other);
      const size_t before = same.size();
      std::erase_if(same, known);
      if (same.size() == before) return {};
      for (const PrimExpr& c : same) other.push_back(make<Broadcast>(c, int64_t(l.predicate.dtype().lanes)));
      return load(l.buffer, l.indices, all_of(other));
    });
    return make<IfThenElse>(all_of(together), store(n.buffer, value, n.indices, all_of(each)), Stmt());
  }

  static bool reads(const PrimExpr& e) { return has_node<BufferLoad, Call>(e); }

  /// Neighbours behind the same condition stand behind it together.
  static Stmt merged(const SeqStmt& n, const Stmt& s) {
    std::vector<Stmt> out;
    for (const Stmt& next : n.seq) {
      const auto* b = next.as<IfThenElse>();
      const auto* a = out.empty() ? nullptr : out.back().as<IfThenElse>();
      if (a && b && !a->else_case && !b->else_case && !reads(b->condition) &&
          structural_equal(a->condition, b->condition))
        out.back() = make<IfThenElse>(a->condition, seq({a->then_case, b->then_case}), Stmt());
      else
        out.push_back(next);
    }
    return out.size() == n.seq.size() ? s : seq(Array<Stmt>(out));
  }
};

/// Sums that only they themselves read: those of rows that are never stored.
class Unread {
 public:
  static Stmt removed(const Stmt& body) {
    Unread u;
    pre_order(body, [&](const ObjectRef& n) {
      if (const auto* a = n.as<Allocate>()) u.sums_[a->buffer.get()];
      return n.is<StmtNode>() || n.is<ArrayObj>();
    });
    u.look(body);
    return rewrite(body, [&](const BufferStore& n) -> Stmt {
      auto it = u.sums_.find(n.buffer.get());
      if (it == u.sums_.end() || it->second.other) return {};
      return it->second.read.count(*place(n.indices)) ? Stmt() : tensor_detail::no_op();
    });
  }

 private:
  struct Sums {
    std::set<std::pair<int64_t, int64_t>> read;  ///< places (first, lanes) that others read
    bool other = false;                          ///< an access of another kind
  };

  static std::optional<std::pair<int64_t, int64_t>> place(const Array<PrimExpr>& indices) {
    if (indices.size() != 1) return std::nullopt;
    if (const auto at = as_int(indices[0])) return std::pair{*at, int64_t(1)};
    const auto* r = indices[0].as<Ramp>();
    const auto first = r ? as_int(r->base) : std::nullopt;
    if (!first || !is_one(r->stride) || *first % r->lanes != 0) return std::nullopt;
    return std::pair{*first, int64_t(r->lanes)};
  }

  void look(const Stmt& body) {
    pre_order(body, [&](const ObjectRef& n) {
      if (const auto* st = n.as<BufferStore>()) {
        auto it = sums_.find(st->buffer.get());
        const auto own = it == sums_.end() ? std::nullopt : place(st->indices);
        if (it != sums_.end()) known(it->second, own);
        for (const PrimExpr& e : {st->value, st->predicate}) {
          if (!e) continue;
          pre_order(e, [&](const ObjectRef& x) {
            if (const auto* l = x.as<BufferLoad>()) read(*l, st->buffer.get(), own);
            return !x.is<BufferNode>();
          });
        }
        return false;
      }
      if (const auto* l = n.as<BufferLoad>()) read(*l, nullptr, std::nullopt);
      if (const auto* v = n.as<Var>())  // an address that is taken
        for (auto& [buffer, sums] : sums_) sums.other = sums.other || buffer->data.get() == v;
      return !n.is<BufferNode>();
    });
  }
  void read(const BufferLoad& l, const BufferNode* into,
            const std::optional<std::pair<int64_t, int64_t>>& own) {
    auto it = sums_.find(l.buffer.get());
    if (it == sums_.end()) return;
    const auto at = place(l.indices);
    known(it->second, at);
    if (at && !(l.buffer.get() == into && own == at)) it->second.read.insert(*at);
  }
  /// Places of one width do not overlap.
  void known(Sums& s, const std::optional<std::pair<int64_t, int64_t>>& at) {
    if (!at || (lanes_.count(&s) && lanes_[&s] != at->second)) s.other = true;
    if (at) lanes_[&s] = at->second;
  }

  std::map<const BufferNode*, Sums> sums_;  // only looked up
  std::map<const Sums*, int64_t> lanes_;
};

class EdgeTiles : public tensor_detail::Rewriter {
 public:
  EdgeTiles(const PrimFunc& f, GivenUpProofs& given_up) : analyzer_(given_up, "split_edge_tiles") {
    for (const VarRef& v : tensor_detail::sizes_of(f)) analyzer_.assume_size(v, 0), sizes_[v.get()] = true;
    for (const VarRef& p : f->params)
      if (p->dtype == i64) sizes_[p.get()] = true;
  }
  Stmt stmt(const Stmt& s) override {
    const auto* n = s ? s.as<For>() : nullptr;
    if (n && (n->kind == ForKind::serial || n->kind == ForKind::parallel) && n->loop_var->dtype == i64)
      if (Stmt r = split(*n)) return r;
    return s ? below(s) : s;
  }
  PrimExpr expr(const PrimExpr& e) override { return e; }

 private:
  /// `node` becomes `value` where `room` is not negative.
  struct Clamp {
    PrimExpr node, value, room;
    int64_t more = 0;  ///< room beyond that of its group's first
  };

  static PrimExpr lane(const PrimExpr& e, bool largest) {
    if (e.dtype().is_scalar()) return e;
    if (const auto* b = e.as<Broadcast>()) return b->value;
    const auto* r = e.as<Ramp>();
    const auto stride = r ? as_int(r->stride) : std::nullopt;
    if (!stride || r->base.dtype() != i64) return {};
    return (*stride > 0) == largest ? r->base + imm(*stride * (r->lanes - 1)) : r->base;
  }

  Stmt split(const For& n) {
    if (tensor_detail::size_of(n.body, most_nodes) > most_nodes) return {};
    std::vector<Clamp> found;
    std::unordered_map<const Var*, bool> inside;
    std::unordered_map<const Object*, bool> met;
    bool loops = false;
    pre_order(n.body, [&](const ObjectRef& x) {
      if (const auto* l = x.as<For>()) inside[l->loop_var.get()] = loops = true;
      if (const auto* l = x.as<LetStmt>()) inside[l->var.get()] = true;
      if (const auto* l = x.as<Let>()) inside[l->var.get()] = true;
      return !x.is<BufferNode>();
    });
    if (!loops && tensor_detail::size_of(n.body, least_tile_nodes) <= least_tile_nodes) return {};
    auto mentions_loop = [&](const PrimExpr& e) { return tensor_detail::mentions(e, n.loop_var.get()); };
    pre_order(n.body, [&](const ObjectRef& x) {
      if (!x.is<PrimExprNode>() || !met.emplace(x.get(), true).second) return !x.is<BufferNode>();
      const PrimExpr e(x.cast<PrimExprNode>());
      if (const auto* m = e.as<Min>(); m && m->dtype == i64) {
        const bool a = mentions_loop(m->a), b = mentions_loop(m->b);
        if (a != b) found.push_back({e, a ? m->a : m->b, a ? m->b - m->a : m->a - m->b});
      } else if (const auto* l = e.as<LT>(); l && l->a.dtype().element() == i64) {
        const PrimExpr a = lane(l->a, true), b = lane(l->b, false);
        if (a && b) found.push_back({e, PrimExpr(), b - a - imm(1)});
      } else if (const auto* q = e.as<LE>(); q && q->a.dtype().element() == i64) {
        const PrimExpr a = lane(q->a, true), b = lane(q->b, false);
        if (a && b) found.push_back({e, PrimExpr(), b - a});
      }
      return true;
    });
    // Rooms that differ by a number are one group.
    std::vector<std::vector<Clamp>> groups;
    for (Clamp& c : found) {
      if (!usable(c.room, n.loop_var.get(), inside)) continue;
      c.room = analyzer_.simplify(c.room);
      bool placed = false;
      for (auto& g : groups)
        if (const auto more = as_int(analyzer_.simplify(c.room - g[0].room))) {
          c.more = *more;
          g.push_back(c);
          placed = true;
          break;
        }
      if (!placed) groups.push_back({c});
    }
    std::erase_if(groups, [](const auto& g) { return g.size() < 2; });
    if (groups.empty()) return {};
    std::stable_sort(groups.begin(), groups.end(),
                     [](const auto& a, const auto& b) { return a.size() > b.size(); });
    if (groups.size() > most_groups) groups.resize(most_groups);
    Ref<For> out(&n);
    if (!loops) {
      // Such a tile is over soon: what it asks costs less than the code that does not.
      const Stmt body = few_vectors(n.body, groups, few_rows(n.body, groups, false));
      if (body.same_as(n.body)) return {};
      out.edit()->body = body;
      return out;
    }
    PrimExpr whole;
    std::unordered_map<const Object*, PrimExpr> values;
    for (const auto& g : groups) {
      const Clamp* least = &g[0];
      for (const Clamp& c : g) {
        if (c.more < least->more) least = &c;
        values[c.node.get()] = c.value ? c.value : const_of_lanes(c.node, true);
      }
      const PrimExpr holds = le(imm(0), least->room);
      whole = whole ? logical_and(whole, holds) : holds;
    }
    Stmt fast = rewrite_any(n.body, [&](const ObjectRef& x) -> ObjectRef {
                  auto it = values.find(x.get());
                  return it == values.end() ? ObjectRef() : ObjectRef(it->second);
                }).cast<StmtNode>();
    fast = stmt(tensor_detail::unmasked(rename_definitions(fast)));
    const Stmt edge = few_vectors(n.body, groups, few_rows(n.body, groups, true));
    out.edit()->body = make<IfThenElse>(whole, fast, edge);
    return out;
  }

  /// The edge with half the vectors, where the others lie outside with all of their lanes, before `edge`.
  Stmt few_vectors(const Stmt& body, const std::vector<std::vector<Clamp>>& groups, const Stmt& edge) {
    for (const auto& g : groups) {
      std::set<int64_t> rooms;
      int64_t lanes = 0;
      bool regular = true;
      for (const Clamp& c : g) {
        const int64_t n = lanes_in_row(c.node);
        if (n == 1) continue;
        regular = regular && n > 1 && (lanes == 0 || lanes == n);
        lanes = n;
        rooms.insert(c.more);
      }
      const auto vectors = int64_t(rooms.size());
      if (!regular || vectors < 2 || *rooms.rbegin() - *rooms.begin() != (vectors - 1) * lanes) continue;
      const int64_t outside = *rooms.rbegin() - (vectors + 1) / 2 * lanes;  // room of the first one behind
      const Stmt few = without(body, g, outside, [](const Clamp& c) { return lanes_in_row(c.node) > 1; });
      return make<IfThenElse>(lt(g[0].room + imm(outside + lanes - 1), imm(0)), stmt(few), edge);
    }
    return edge;
  }
  /// Lanes of a mask of neighbours; 1: a condition of all lanes together; 0: a mask of another kind.
  static int64_t lanes_in_row(const PrimExpr& node) {
    const auto* l = node.as<LT>();
    if (node.dtype().is_scalar() || !l) return node.dtype().is_scalar();
    const auto* r = l->a.as<Ramp>();
    return r && is_one(r->stride) && l->b.is<Broadcast>() ? int64_t(r->lanes) : 0;
  }

  /// The edge with half the rows, and maybe with three quarters and with one, where those inside are no more,
  /// before the edge with all of them.
  static Stmt few_rows(const Stmt& body, const std::vector<std::vector<Clamp>>& groups, bool single) {
    for (const auto& g : groups) {
      // Rows are masked one by one; the first has the most room, or no mask where a tile has one row at
      // least.
      std::set<int64_t> rooms;
      for (const Clamp& c : g)
        if (!c.value && c.node.dtype().is_scalar()) rooms.insert(c.more);
      const auto masked = int64_t(rooms.size());
      if (masked + 1 < least_rows || *rooms.rbegin() - *rooms.begin() != masked - 1) continue;
      const int64_t top = *rooms.rbegin(), unmasked = writes(first_rows(body, g, top)),
                    rows = masked + unmasked;
      if (rows < least_rows) continue;
      Stmt out = body;
      const int64_t half = (rows + 1) / 2;
      for (const int64_t kept : {(rows * 3 + 3) / 4, half, int64_t(1)}) {
        if (kept != half && !single) continue;
        const int64_t outside = top - (kept - unmasked);  // room of the first row behind
        out = make<IfThenElse>(lt(g[0].room + imm(outside), imm(0)), first_rows(body, g, outside), out);
      }
      return out;
    }
    return body;
  }

  /// Does it store to memory that is not its own?
  static bool writes(const Stmt& body) {
    std::set<const BufferNode*> own;
    bool found = false;
    pre_order(body, [&](const ObjectRef& n) {
      if (const auto* a = n.as<Allocate>()) own.insert(a->buffer.get());
      if (const auto* st = n.as<BufferStore>()) found = found || !own.count(st->buffer.get());
      return !found && !n.is<PrimExprNode>();
    });
    return found;
  }

  /// The body without the rows that have at most so much room.
  static Stmt first_rows(const Stmt& body, const std::vector<Clamp>& group, int64_t room) {
    return without(body, group, room, [](const Clamp& c) { return !c.value && c.node.dtype().is_scalar(); });
  }

  /// The body without what conditions of a kind mask that have at most so much room.
  static Stmt without(const Stmt& body, const std::vector<Clamp>& group, int64_t room,
                      bool (*kind)(const Clamp&)) {
    std::unordered_map<const Object*, PrimExpr> values;
    for (const Clamp& c : group)
      if (kind(c) && c.more <= room) values[c.node.get()] = const_of_lanes(c.node, false);
    const Stmt few = rewrite_any(body, [&](const ObjectRef& x) -> ObjectRef {
                       auto it = values.find(x.get());
                       return it == values.end() ? ObjectRef() : ObjectRef(it->second);
                     }).cast<StmtNode>();
    return Unread::removed(SkipRows().stmt(simplify(rename_definitions(few))));
  }

  static PrimExpr const_of_lanes(const PrimExpr& condition, bool value) {
    const int lanes = condition.dtype().lanes;
    const PrimExpr one = PrimExpr::int_imm(value, boolean);
    return lanes > 1 ? PrimExpr(make<Broadcast>(one, int64_t(lanes))) : one;
  }

  /// Made of the loop's variable, sizes and what stands around, without memory.
  bool usable(const PrimExpr& room, const Var* loop,
              const std::unordered_map<const Var*, bool>& inside) const {
    bool has_loop = false, symbolic = false, ok = true;
    pre_order(room, [&](const ObjectRef& x) {
      if (x.is<BufferLoad>() || x.is<Call>() || x.is<Let>()) ok = false;
      if (const auto* v = x.as<Var>()) {
        has_loop |= v == loop;
        symbolic |= sizes_.count(v) != 0;
        ok = ok && !inside.count(v);
      }
      return ok;
    });
    return ok && has_loop && symbolic;
  }

  Analyzer analyzer_;
  std::unordered_map<const Var*, bool> sizes_;
};

}  // namespace

static IRModule split_edge_tiles(IRModule module, PassContext& context) {
  return tensor_detail::map_bodies(
      module, context, [](const std::string&, const PrimFunc& f, GivenUpProofs& given_up) -> Stmt {
        const Stmt r = SkipRows().stmt(EdgeTiles(f, given_up).stmt(f->body));
        return r.same_as(f->body) ? r : simplify(r, true, tensor_detail::sizes_of(f));
      });
}

const Pass& split_edge_tiles_pass = register_pass({
    .name = "split_edge_tiles",
    .run = split_edge_tiles,
    .level = 2,
    .summary = "tiles inside of a symbolic size lose clamps and masks",
    .needs = {"simplify_tir"},
});

}  // namespace tenon
