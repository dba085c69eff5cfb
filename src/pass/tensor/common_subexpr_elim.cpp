// SPDX-License-Identifier: Apache-2.0
// common_subexpr_elim
//   before: B[(i * 7 + j) % 5] = A[(i * 7 + j) % 5 + 1]
//   after:  cse: T.int64 = (i * 7 + j) % 5; B[cse] = A[cse + 1]
// A scalar computation that is needed more than once is done once, at the innermost statement that holds all
// its uses. Only what reads no memory and cannot fail moves; equal ones are found by numbering values, in one
// walk.
// Needs: nothing. Keeps: every value.
#include <map>

#include "ir/intrinsic.h"
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;

namespace {

constexpr size_t lets_per_statement = 32;

class Common {
 public:
  Stmt run(const Stmt& body) {
    collect(body, -1);
    choose();
    return chosen_.empty() ? Stmt() : emit(body);
  }

 private:
  struct Value {
    PrimExpr expr;
    std::vector<int> below;
    int64_t uses = 0;   ///< by different values and statements
    int place = -1;     ///< innermost statement that holds all uses
    int64_t size = 1;   ///< operations below and including it
    bool free = false;  ///< may move
    bool placed = false;
  };
  struct Place {
    int parent, depth;
  };

  // ---- what there is
  void collect(const Stmt& s, int parent) {
    if (!s) return;
    const int here = int(places_.size());
    places_.push_back({parent, parent < 0 ? 0 : places_[size_t(parent)].depth + 1});
    numbers_.emplace(s.get(), here);
    for (const ObjectRef& c : children(s)) {
      if (c.is<StmtNode>())
        collect(c.cast<StmtNode>(), here);
      else if (c.is<PrimExprNode>())
        if (const int v = number(PrimExpr(c.cast<PrimExprNode>()), here); v >= 0) ++values_[size_t(v)].uses;
      // Buffers, regions and iterators keep their own expressions.
    }
  }

  int meet(int a, int b) const {
    while (a != b) {
      if (places_[size_t(a)].depth >= places_[size_t(b)].depth)
        a = places_[size_t(a)].parent;
      else
        b = places_[size_t(b)].parent;
    }
    return a;
  }

  int number(const PrimExpr& e, int place) {
    if (!e) return -1;
    // A shared node has been numbered; what is below must learn of this place all the same.
    if (auto it = known_.find(e.get()); it != known_.end()) {
      used_at(it->second, place);
      return it->second;
    }
    std::vector<int> below;
    bool free = true, whole = true;
    int64_t size = 1;
    if (e.is<Let>() || e.is<Reduce>() || e.is<tir::StringImm>()) {
      // Its variables live inside: neither it nor what is below moves.
      known_.emplace(e.get(), -1);
      return -1;
    }
    if (const auto* l = e.as<BufferLoad>()) {
      for (const PrimExpr& i : l->indices) below.push_back(number(i, place));
      if (l->predicate) below.push_back(number(l->predicate, place));
      free = false;
    } else if (const auto* c = e.as<Call>(); c && c->op == "tir.address_of") {
      free = false;
      below.push_back(number(c->args[0], place));
    } else {
      if (const auto* k = e.as<Call>()) {
        const Intrinsic* i = find_intrinsic(k->op);
        free = i && i->pure;
      }
      auto safe = [&](const PrimExpr& d) {
        const auto k = as_int(d);
        free = free && (d.dtype().is_float() || (k && *k != 0));
      };
      if (const auto* x = e.as<Div>()) safe(x->b);
      if (const auto* x = e.as<Mod>()) safe(x->b);
      if (const auto* x = e.as<FloorDiv>()) safe(x->b);
      if (const auto* x = e.as<FloorMod>()) safe(x->b);
      for (const ObjectRef& x : children(e))
        if (x.is<PrimExprNode>()) below.push_back(number(PrimExpr(x.cast<PrimExprNode>()), place));
    }
    for (int b : below) {
      whole = whole && b >= 0;
      if (b < 0) continue;
      free = free && values_[size_t(b)].free;
      size += values_[size_t(b)].size;
    }
    if (!whole) {
      known_.emplace(e.get(), -1);
      return -1;
    }
    std::string key = fmt::format("{}:{}", e->type_index, to_string(e.dtype()));
    for (int b : below) key += fmt::format(",{}", b);
    if (const auto* v = e.as<Var>()) key += fmt::format("v{}", static_cast<const void*>(v));
    if (const auto* v = e.as<IntImm>()) key += fmt::format("i{}", v->value);
    if (const auto* v = e.as<FloatImm>()) key += fmt::format("f{:a}", v->value);
    if (const auto* v = e.as<Call>()) key += v->op;
    if (const auto* v = e.as<Ramp>()) key += fmt::format("r{}", v->lanes);
    if (const auto* v = e.as<Broadcast>()) key += fmt::format("b{}", v->lanes);
    if (const auto* v = e.as<Shuffle>()) key += fmt::format("s{}", fmt::join(v->indices.vec(), ","));
    if (!free) key += fmt::format("!{}", values_.size());  // never equal to another
    auto [it, fresh] = table_.emplace(std::move(key), int(values_.size()));
    if (fresh) {
      for (int b : below) ++values_[size_t(b)].uses;
      values_.push_back({e, below, 0, place, size, free, false});
    } else {
      used_at(it->second, place);
    }
    known_.emplace(e.get(), it->second);
    return it->second;
  }
  /// Uses elsewhere lift the place, also of what is below.
  void used_at(int v, int place) {
    std::vector<int> todo{v};
    while (!todo.empty()) {
      const int k = todo.back();
      todo.pop_back();
      if (k < 0) continue;
      Value& x = values_[size_t(k)];
      const int m = meet(x.place, place);
      if (m == x.place) continue;
      x.place = m;
      todo.insert(todo.end(), x.below.begin(), x.below.end());
    }
  }

  // ---- what moves
  void choose() {
    std::unordered_map<int, size_t> count;
    for (size_t v = 0; v < values_.size(); ++v) {
      const Value& x = values_[v];
      const bool worth = x.size >= 4 || (x.expr.is<Call>() && x.size >= 2);
      if (!x.free || !worth || x.uses < 2 || x.expr.dtype().is_vector() || x.expr.dtype().is_handle())
        continue;
      if (count[x.place]++ >= lets_per_statement) continue;
      chosen_[int(v)] = var("cse", x.expr.dtype());
      at_[x.place].push_back(int(v));
    }
  }

  PrimExpr replaced(const PrimExpr& e, int self) {
    return PrimExpr(rewrite_top(e, self).cast<PrimExprNode>());
  }
  ObjectRef rewrite_top(const ObjectRef& o, int self) {
    if (!o.is<PrimExprNode>()) return o;
    const auto* n = o.get();
    if (auto it = known_.find(n); it != known_.end() && it->second != self)
      if (auto c = chosen_.find(it->second); c != chosen_.end() && values_[size_t(it->second)].placed)
        return c->second;
    if (o.is<Var>() || o.is<IntImm>() || o.is<FloatImm>()) return o;
    if (self < 0)
      if (auto it = done_.find(n); it != done_.end()) return it->second.second;
    ObjectRef r = map_children(o, [&](const ObjectRef& c) { return rewrite_top(c, -1); });
    if (self < 0) done_.emplace(n, std::pair{o, r});
    return r;
  }

  Stmt emit(const Stmt& s) {
    auto it = at_.find(numbers_.at(s.get()));
    std::vector<std::pair<VarRef, PrimExpr>> lets;
    if (it != at_.end()) {
      for (int v : it->second) {
        lets.emplace_back(chosen_.at(v), replaced(values_[size_t(v)].expr, v));
        values_[size_t(v)].placed = true;
      }
      done_.clear();
    }
    Stmt r = map_children(s, [&](const ObjectRef& c) -> ObjectRef {
               if (c.is<StmtNode>()) return emit(c.cast<StmtNode>());
               return rewrite_top(c, -1);
             }).cast<StmtNode>();
    for (size_t i = lets.size(); i-- > 0;) r = make<LetStmt>(lets[i].first, lets[i].second, r);
    if (it != at_.end()) {
      for (int v : it->second) values_[size_t(v)].placed = false;
      done_.clear();
    }
    return r;
  }

  std::vector<Value> values_;
  std::vector<Place> places_;
  std::unordered_map<const Object*, int> numbers_, known_;
  std::unordered_map<std::string, int> table_;
  std::map<int, VarRef> chosen_;
  std::unordered_map<int, std::vector<int>> at_;
  std::unordered_map<const Object*, std::pair<ObjectRef, ObjectRef>> done_;
};

}  // namespace

static IRModule common_subexpr_elim(IRModule module, PassContext&) {
  return tensor_detail::map_bodies(
      module, [](const std::string&, const PrimFunc& f) { return Common().run(f->body); });
}

const Pass& common_subexpr_elim_pass = register_pass({
    .name = "common_subexpr_elim",
    .run = common_subexpr_elim,
    .level = 2,
    .summary = "what is computed twice is computed once",
});

}  // namespace tenon
