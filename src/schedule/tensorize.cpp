// SPDX-License-Identifier: Apache-2.0
// tensorize: a block that computes what an intrinsic describes is replaced by the intrinsic's implementation.
// Both sides are compared as plain loops and stores: variables by where they are bound, buffers by how they
// are indexed, so that the tile may lie anywhere in buffers of any strides.
#include <fmt/format.h>

#include <cstring>
#include <map>
#include <mutex>
#include <numeric>
#include <set>

#include "ir/find_node.h"
#include "ir/text.h"
#include "schedule/define.h"
#include "schedule/dot_intrin.h"
#include "schedule/tensor_intrin.h"

namespace tenon {

using namespace tir;

namespace {
/// The dot products of processors are known from the start.
struct Registry {
  std::mutex lock;
  std::map<std::string, TensorIntrin> known;
  Registry() {
    for (TensorIntrin& i : dot_intrins()) known[i.name] = std::move(i);
  }
};
Registry& registry() {
  static Registry r;
  return r;
}

/// Loops and stores alone: iterators become their bindings, loops of one iteration their body.
Stmt plain(const Stmt& s, int depth = 0) {
  CHECK(depth < 1000, "statements nest too deeply");
  if (const auto* r = s.as<BlockRealize>()) {
    VarMap map;
    for (size_t i = 0; i < r->iter_values.size(); ++i)
      map[r->block->iter_vars[i]->var.get()] = r->iter_values[i];
    Stmt body = plain(substitute(r->block->body, map), depth + 1);
    return is_one(r->predicate) ? body : Stmt(make<IfThenElse>(r->predicate, body, Stmt()));
  }
  if (const auto* l = s.as<For>(); l && is_one(l->extent))
    return plain(substitute(l->body, {{l->loop_var.get(), l->min}}), depth + 1);
  return map_children(s,
                      [&](const ObjectRef& c) -> ObjectRef {
                        return c.is<StmtNode>() ? ObjectRef(plain(c.cast<StmtNode>(), depth + 1)) : c;
                      })
      .cast<StmtNode>();
}
/// The body of a description or implementation, without its root block.
Ref<Block> root_of(const PrimFunc& f) {
  if (const auto* r = f->body.as<BlockRealize>(); r && r->iter_values.empty()) return r->block;
  return make<Block>(Array<IterVar>(), Array<BufferRegion>(), Array<BufferRegion>(), std::string("root"),
                     f->body, Stmt(), Array<Buffer>(), Array<MatchBufferRegion>(), AttrMap());
}

/// Iterators whose multiples are cut into panels, (8 · v + i) // 32, as two digits: v = 4 · high + low. What
/// lies in one panel then shows.
struct Digits {
  VarMap apart, whole;  ///< the iterator as its digits, and the digits as parts of the iterator
  std::vector<std::pair<VarRef, Range>> ranges;
};
Digits digits_of(const sched::State& s, const Stmt& body, const Array<IterVar>& iters) {
  Digits out;
  Analyzer a = s.analyzer();
  for (const IterVar& v : iters) {
    const auto extent = as_int(v->dom->extent);
    if (!extent || !is_zero(v->dom->min)) continue;
    int64_t radix = 1;
    auto divided = [&](const auto* d) {
      const auto c = d ? as_int(d->b) : std::nullopt;
      if (!c || *c <= 1 || !sched::uses_any(d->a, {v->var.get()})) return;
      const auto form = affine_form(d->a, {v->var}, a);
      if (!form || sched::uses_any(form->base, {v->var.get()})) return;
      for (auto& [x, k] : form->terms)
        if (x.same_as(v->var) && k > 0 && *c % k == 0) radix = std::lcm(radix, *c / k);
    };
    pre_order(body, [&](const ObjectRef& n) {
      divided(n.as<FloorDiv>()), divided(n.as<FloorMod>());
      return true;
    });
    if (radix <= 1 || radix >= *extent || radix > (1 << 20)) continue;
    VarRef high = var(v->var->name + "_high"), low = var(v->var->name + "_low");
    out.apart[v->var.get()] = high * PrimExpr(radix) + low;
    out.whole[high.get()] = floordiv(v->var, PrimExpr(radix));
    out.whole[low.get()] = floormod(v->var, PrimExpr(radix));
    out.ranges.emplace_back(high, range(PrimExpr(0), PrimExpr((*extent + radix - 1) / radix)));
    out.ranges.emplace_back(low, range(PrimExpr(0), PrimExpr(radix)));
  }
  return out;
}

/// Compares a description with a program's statements.
class Comparison {
 public:
  explicit Comparison(const sched::State& s) : analyzer_(s.analyzer()) {}
  std::string difference;  ///< the first, for people
  struct Place {
    Buffer buffer;                 ///< the program's
    std::vector<PrimExpr> corner;  ///< one index for each of its dimensions
    std::vector<size_t> dims;      ///< the program's dimension for each of the description's
  };
  std::map<const BufferNode*, Place> places;

  /// Where the tile may lie.
  void bind(const VarRef& v, const Range& dom) { analyzer_.bind(v, dom, true); }
  bool stmt(const Stmt& d, const Stmt& p) {
    if (d->type_index != p->type_index)
      return differ(fmt::format("{} is described, the program has {}", type_key_of(d), type_key_of(p)));
    if (const auto* x = d.as<For>()) {
      const auto* y = p.as<For>();
      if (!is_zero(x->min) || !is_zero(y->min))
        return differ(fmt::format("loop '{}' does not start at 0", y->loop_var->name));
      if (!expr(x->extent, y->extent))
        return differ(fmt::format("loop '{}' runs {} times, the description's '{}' {} times",
                                  y->loop_var->name, print(y->extent), x->loop_var->name, print(x->extent)));
      vars_[x->loop_var.get()] = y->loop_var;
      inner_.insert(y->loop_var.get());
      analyzer_.bind(y->loop_var, range(y->min, y->extent), true);
      return stmt(x->body, y->body);
    }
    if (const auto* x = d.as<SeqStmt>()) {
      const auto* y = p.as<SeqStmt>();
      if (x->seq.size() != y->seq.size()) return differ("the number of statements differs");
      for (size_t i = 0; i < x->seq.size(); ++i)
        if (!stmt(x->seq[i], y->seq[i])) return false;
      return true;
    }
    if (const auto* x = d.as<BufferStore>()) {
      const auto* y = p.as<BufferStore>();
      if (bool(x->predicate) != bool(y->predicate) || (x->predicate && !expr(x->predicate, y->predicate)))
        return differ("a store's mask differs");
      written_.insert(x->buffer.get());
      if (!access(x->buffer, x->indices, y->buffer, y->indices)) return false;
      return expr(x->value, y->value) ||
             differ(fmt::format("{} is described, the program stores {}", print(x->value), print(y->value)));
    }
    if (const auto* x = d.as<IfThenElse>()) {
      const auto* y = p.as<IfThenElse>();
      if (bool(x->else_case) != bool(y->else_case) || !expr(x->condition, y->condition))
        return differ("a condition differs");
      return stmt(x->then_case, y->then_case) && (!x->else_case || stmt(x->else_case, y->else_case));
    }
    if (const auto* x = d.as<LetStmt>()) {
      const auto* y = p.as<LetStmt>();
      if (!expr(x->value, y->value)) return differ("a let differs");
      vars_[x->var.get()] = y->var;
      inner_.insert(y->var.get());
      return stmt(x->body, y->body);
    }
    return differ(fmt::format("{} cannot be described", type_key_of(d)));
  }
  /// Sizes of the description that are variables take what the program has.
  bool written_alone() {
    for (auto& [d, place] : places)
      for (auto& [e, other] : places)
        if (d != e && place.buffer.same_as(other.buffer) && written_.count(d)) return false;
    return true;
  }
  PrimExpr value_of(const PrimExpr& described) { return analyzer_.simplify(substitute(described, vars_)); }

 private:
  bool differ(std::string why) {
    if (difference.empty()) difference = std::move(why);
    return false;
  }
  bool access(const Buffer& d, const Array<PrimExpr>& at, const Buffer& p,
              const Array<PrimExpr>& in_program) {
    if (d->dtype != p->dtype)
      return differ(fmt::format("'{}' holds {}, the description's '{}' {}", p->name, to_string(p->dtype),
                                d->name, to_string(d->dtype)));
    if (in_program.size() < at.size())
      return differ(fmt::format("'{}' has fewer dimensions than the description's '{}'", p->name, d->name));
    // The description's dimensions are some of the program's, in their order: where known, those of another
    // access; else the last ones, or the last that fit.
    std::vector<PrimExpr> corner;
    std::vector<size_t> dims(at.size());
    auto known = places.find(d.get());
    if (known != places.end()) {
      dims = known->second.dims;
      if (known->second.buffer->shape.size() != in_program.size() || !corner_at(dims, at, in_program, corner))
        corner.clear();
    } else {
      for (size_t i = 0; i < dims.size(); ++i) dims[i] = in_program.size() - dims.size() + i;
      int tries = 0;
      while (!corner_at(dims, at, in_program, corner)) {
        corner.clear();
        if (!earlier(dims) || ++tries > 64) break;
      }
    }
    if (corner.size() != in_program.size())
      return differ(fmt::format("'{}' is not indexed as the description's '{}'", p->name, d->name));
    auto [it, first] = places.emplace(d.get(), Place{p, corner, dims});
    if (first) return true;
    if (!it->second.buffer.same_as(p))
      return differ(fmt::format("both '{}' and '{}' stand for the description's '{}'",
                                it->second.buffer->name, p->name, d->name));
    for (size_t i = 0; i < corner.size(); ++i)
      if (!analyzer_.can_prove_equal(corner[i], it->second.corner[i]))
        return differ(
            fmt::format("'{}' is accessed at two places, the description's '{}' at one", p->name, d->name));
    return true;
  }
  /// The next choice of rising positions, from the last ones towards the first ones; false behind the end.
  static bool earlier(std::vector<size_t>& dims) {
    for (size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] == (i == 0 ? 0 : dims[i - 1] + 1)) continue;
      --dims[i];
      for (size_t k = i; k-- > 0;) dims[k] = dims[k + 1] - 1;
      return true;
    }
    return false;
  }
  /// Where the tile lies when the description's dimensions are `dims`; false when loops inside drive others.
  bool corner_at(const std::vector<size_t>& dims, const Array<PrimExpr>& at,
                 const Array<PrimExpr>& in_program, std::vector<PrimExpr>& corner) {
    size_t next = 0;
    for (size_t i = 0; i < in_program.size(); ++i) {
      PrimExpr base = in_program[i];
      if (next < dims.size() && dims[next] == i) base = base - substitute(at[next++], vars_);
      base = analyzer_.simplify(base);
      if (uses_inner(base)) return false;
      corner.push_back(base);
    }
    return true;
  }
  bool uses_inner(const PrimExpr& e) { return sched::uses_any(e, inner_); }

  bool expr(const PrimExpr& d, const PrimExpr& p) {
    if (const auto* x = d.as<Var>()) {
      auto it = vars_.find(x);
      if (it != vars_.end()) return it->second.same_as(p) || analyzer_.can_prove_equal(it->second, p);
      if (uses_inner(p) || d.dtype() != p.dtype()) return false;
      vars_[x] = p;
      return true;
    }
    if (d->type_index != p->type_index || d.dtype() != p.dtype()) return false;
    if (const auto* x = d.as<IntImm>()) return x->value == p.as<IntImm>()->value;
    if (d.is<FloatImm>() || d.is<StringImm>()) return structural_same(d, p);
    if (const auto* x = d.as<BufferLoad>()) {
      const auto* y = p.as<BufferLoad>();
      if (bool(x->predicate) != bool(y->predicate) || (x->predicate && !expr(x->predicate, y->predicate)))
        return false;
      return access(x->buffer, x->indices, y->buffer, y->indices);
    }
    if (d.is<Reduce>() || d.is<Let>() || d.is<ProducerLoad>() || d.is<Shuffle>()) return false;
    if (const auto* x = d.as<Call>(); x && x->op != p.as<Call>()->op) return false;
    const std::vector<ObjectRef> a = children(d), b = children(p);
    if (a.size() != b.size()) return false;
    auto all = [&](bool swapped) {
      for (size_t i = 0; i < a.size(); ++i) {
        const ObjectRef& other = b[swapped ? b.size() - 1 - i : i];
        if (!a[i].is<PrimExprNode>() || !other.is<PrimExprNode>()) return false;
        if (!expr(PrimExpr(a[i].cast<PrimExprNode>()), PrimExpr(other.cast<PrimExprNode>()))) return false;
      }
      return true;
    };
    const auto places_before = places;
    const VarMap vars_before = vars_;
    const std::string difference_before = difference;
    if (all(false)) return true;
    if (!(d.is<Add>() || d.is<Mul>() || d.is<Min>() || d.is<Max>() || d.is<And>() || d.is<Or>()))
      return false;
    const std::string why = difference;
    places = places_before;
    vars_ = vars_before;
    difference = difference_before;
    if (all(true)) return true;
    difference = why;
    return false;
  }
  static bool structural_same(const PrimExpr& a, const PrimExpr& b) {
    if (const auto* x = a.as<FloatImm>()) {
      const double u = x->value, v = b.as<FloatImm>()->value;
      return std::memcmp(&u, &v, sizeof u) == 0;
    }
    return a.as<StringImm>()->value == b.as<StringImm>()->value;
  }

  VarMap vars_;  ///< the description's, as the program's
  std::unordered_set<const Var*> inner_;
  std::unordered_set<const BufferNode*> written_;
  Analyzer analyzer_;
};

[[noreturn]] void malformed(const std::string& name, const std::string& why) {
  throw ScheduleError(ErrorKind::model, "T0749",
                      fmt::format("the tensor intrinsic '{}' is refused: {}", name, why), {},
                      "description and implementation take the same tensors; src/schedule/tensor_intrin.h");
}

}  // namespace

void register_tensor_intrin(const std::string& name, PrimFunc description, PrimFunc implementation) {
  if (name.empty()) malformed(name, "it has no name");
  if (description->params.size() != implementation->params.size())
    malformed(name, fmt::format("the description takes {} tensors, the implementation {}",
                                description->params.size(), implementation->params.size()));
  for (size_t i = 0; i < description->params.size(); ++i) {
    auto d = description->buffer_map.find(description->params[i]);
    auto m = implementation->buffer_map.find(implementation->params[i]);
    if (!d || !m) malformed(name, fmt::format("parameter {} is no tensor", i));
    if ((*d)->dtype != (*m)->dtype || (*d)->shape.size() != (*m)->shape.size())
      malformed(name, fmt::format("the two differ in type or rank of parameter {}", i));
  }
  const bool has_init = any_node(description->body, [](const ObjectRef& n) {
    const auto* b = n.as<Block>();
    return b && b->init;
  });
  if (has_init)
    malformed(name, "the description has an init; it describes one update, inits stay in the program");
  if (!root_of(description)->alloc_buffers.empty()) malformed(name, "the description allocates");
  Registry& r = registry();
  std::lock_guard guard(r.lock);
  r.known[name] = {name, std::move(description), std::move(implementation)};
}
std::optional<TensorIntrin> find_tensor_intrin(const std::string& name) {
  Registry& r = registry();
  std::lock_guard guard(r.lock);
  auto it = r.known.find(name);
  return it == r.known.end() ? std::nullopt : std::optional(it->second);
}
std::vector<std::string> tensor_intrins() {
  Registry& r = registry();
  std::lock_guard guard(r.lock);
  std::vector<std::string> out;
  for (auto& [name, i] : r.known) out.push_back(name);
  return out;
}

namespace sched {

static int32_t tensorize(State& s, int32_t id, const std::string& name) {
  const auto intrin = find_tensor_intrin(name);
  if (!intrin) {
    std::string known;
    for (const std::string& n : tensor_intrins()) known += (known.empty() ? "" : ", ") + n;
    s.entry(id);
    s.refuse("T0747", id, fmt::format("there is no tensor intrinsic '{}'", name),
             known.empty() ? "register_tensor_intrin makes one known" : "known are " + known);
  }
  // A loop becomes a block first; on a copy, so that a refusal changes nothing.
  std::optional<State> trial;
  State* at = &s;
  int32_t block_id = id;
  if (!s.entry(id).is_block) {
    trial.emplace(s);
    trial->facts = std::make_shared<FactCache>();
    at = &*trial;
    block_id = blockize(*at, id);
  }
  at->scope_of(block_id);
  Ref<BlockRealize> realize = at->realize(block_id);
  Ref<Block> block = realize->block;
  auto no_match = [&](const std::string& why) {
    s.refuse(
        "T0748", id, fmt::format("it does not compute what '{}' describes: {}", name, why),
        "split and reorder until its loops are the description's, decompose_reduction keeps the init apart");
  };
  if (!block->match_buffers.empty()) no_match("it is tensorized already");
  Comparison c(s);
  for (const IterVar& v : block->iter_vars) c.bind(v->var, v->dom);
  Stmt own = plain(block->body);
  const Digits digits = digits_of(s, own, block->iter_vars);
  for (auto& [v, dom] : digits.ranges) c.bind(v, dom);
  if (!digits.ranges.empty()) own = substitute(own, digits.apart);
  if (!c.stmt(plain(root_of(intrin->description)->body), own)) no_match(c.difference);
  for (auto& [described, place] : c.places)
    for (PrimExpr& corner : place.corner)
      if (!digits.ranges.empty()) corner = c.value_of(substitute(corner, digits.whole));
  if (!c.written_alone()) no_match("what it writes is also another of its tensors");

  // Strides, offsets and sizes that the implementation names are found at each place anew.
  VarMap layout;
  for (auto [p, b] : intrin->implementation->buffer_map) {
    auto name_anew = [&](const PrimExpr& e) {
      if (const auto* v = e.as<Var>()) layout.emplace(v, var(v->name, v->dtype));
    };
    for (const PrimExpr& e : b->shape) name_anew(e);
    for (const PrimExpr& e : b->strides) name_anew(e);
    if (b->elem_offset) name_anew(b->elem_offset);
  }
  const PrimFunc fresh = rename_all(specialize(intrin->implementation, layout));
  Ref<Block> root = root_of(fresh);
  if (root->init || !root->match_buffers.empty())
    s.refuse("T0749", id, fmt::format("the implementation of '{}' begins with an init or a match", name));
  Array<MatchBufferRegion> matches;
  BufferMap scoped;
  /// Tiles inside dimensions other than the last: the matched buffer has dimensions of 1 between.
  struct Wide {
    Buffer buffer;
    std::vector<int> from;  ///< the implementation's dimension, or -1
  };
  std::map<const BufferNode*, Wide> wide;
  for (size_t i = 0; i < fresh->params.size(); ++i) {
    const Buffer described = *intrin->description->buffer_map.find(intrin->description->params[i]);
    Buffer inside = *fresh->buffer_map.find(fresh->params[i]);
    auto place = c.places.find(described.get());
    if (place == c.places.end())
      no_match(fmt::format("the description does not use its tensor '{}'", described->name));
    const Buffer& outer = place->second.buffer;
    if (inside->scope != outer->scope) {
      Buffer copy = inside;
      copy.edit()->scope = outer->scope;
      scoped[inside.get()] = copy;
      inside = copy;
    }
    Array<Range> region;
    const std::vector<size_t>& dims = place->second.dims;
    std::vector<int> from(outer->shape.size(), -1);
    for (size_t d = 0; d < dims.size(); ++d) from[dims[d]] = int(d);
    for (size_t d = 0; d < outer->shape.size(); ++d)
      region.push_back(range(place->second.corner[d],
                             from[d] < 0 ? PrimExpr(1) : c.value_of(described->shape[size_t(from[d])])));
    // Strides that are numbers are promises.
    PrimExpr stride = PrimExpr(1);
    Analyzer a = s.analyzer();
    for (size_t d = outer->shape.size(); d-- > 0;) {
      const PrimExpr real = outer->strides.empty() ? stride : outer->strides[d];
      if (from[d] >= 0 && !inside->strides.empty()) {
        const PrimExpr& asked = inside->strides[size_t(from[d])];
        if (!asked.is<Var>() && !a.can_prove_equal(asked, real))
          no_match(fmt::format("dimension {} of '{}' has the stride {}, the implementation needs {}", d,
                               outer->name, print(real), print(asked)));
      }
      stride = a.simplify(stride * outer->shape[d]);
    }
    if (!dims.empty() && dims[0] + dims.size() != outer->shape.size()) {
      Wide w{inside, std::vector<int>(from.begin() + std::ptrdiff_t(dims[0]), from.end())};
      Array<PrimExpr> shape, strides;
      for (int x : w.from) {
        shape.push_back(x < 0 ? PrimExpr(1) : inside->shape[size_t(x)]);
        if (!inside->strides.empty())
          strides.push_back(x < 0 ? PrimExpr(var("step")) : inside->strides[size_t(x)]);
      }
      BufferNode* e = w.buffer.edit();
      e->shape = shape;
      e->strides = strides;
      wide.emplace(inside.get(), w);
      inside = w.buffer;
    }
    matches.push_back(make<MatchBufferRegionNode>(inside, make<BufferRegionNode>(outer, region)));
  }
  Stmt body = root->body;
  if (!scoped.empty()) body = replace_buffers(body, scoped);
  if (!wide.empty())
    body = rewrite_any(
               body,
               [&](const ObjectRef& n) -> ObjectRef {
                 auto indices = [&](const Wide& w, const Array<PrimExpr>& at) {
                   Array<PrimExpr> out;
                   for (int x : w.from) out.push_back(x < 0 ? PrimExpr(0) : at[size_t(x)]);
                   return out;
                 };
                 if (const auto* l = n.as<BufferLoad>())
                   if (auto it = wide.find(l->buffer.get()); it != wide.end())
                     return load(it->second.buffer, indices(it->second, l->indices), l->predicate);
                 if (const auto* t = n.as<BufferStore>())
                   if (auto it = wide.find(t->buffer.get()); it != wide.end())
                     return store(it->second.buffer, t->value, indices(it->second, t->indices), t->predicate);
                 if (const auto* r = n.as<BufferRegionNode>())
                   if (auto it = wide.find(r->buffer.get()); it != wide.end()) {
                     Array<Range> at;
                     for (int x : it->second.from)
                       at.push_back(x < 0 ? range(PrimExpr(0), PrimExpr(1)) : r->region[size_t(x)]);
                     return make<BufferRegionNode>(it->second.buffer, at);
                   }
                 return {};
               },
               [](const ObjectRef& n) { return n.is<BufferNode>(); })
               .cast<StmtNode>();
  // Blocks of the implementation get names of their own.
  std::set<std::string> taken;
  body = rewrite_stmts(body, [&](const Stmt& n) -> Stmt {
    const auto* b = n.as<Block>();
    if (!b) return {};
    std::string fresh_name = at->fresh_block_name(b->name);
    for (int k = 1; !taken.insert(fresh_name).second; ++k)
      fresh_name = at->fresh_block_name(fmt::format("{}_{}", b->name, k));
    if (fresh_name == b->name) return {};
    Ref<Block> copy = n.cast<Block>();
    copy.edit()->name = fresh_name;
    return copy;
  });
  Ref<Block> next = block;
  {
    Block* e = next.edit();
    e->body = body;
    e->match_buffers = matches;
    for (const Buffer& b : root->alloc_buffers) e->alloc_buffers.push_back(b);
    for (auto [key, value] : root->annotations) e->annotations.set(key, value);
  }
  Ref<BlockRealize> made = realize;
  made.edit()->block = next;
  at->replace(block_id, made);
  if (trial) s = std::move(*trial);
  return block_id;
}

const Define<&Schedule::tensorize, tensorize> tensorize_record{
    {.name = "tensorize",
     .does = "a block becomes the implementation of an intrinsic that computes the same; the block",
     .legal = "its loops and its body are the intrinsic's description",
     .parameters = {{"block_or_loop", "a loop is blockized first"},
                    {"tensor_intrin", "its name: schedule/tensor_intrin.h"}},
     .sample = {R"(
@T.prim_func
def main(A: T.Buffer((8,), "uint8"), B: T.Buffer((2, 16), "int8"), C: T.Buffer((4,), "int32")):
    for k, l, q in T.grid(2, 4, 4):
        with T.block("C"):
            vl = T.axis.spatial(4, l)
            vk, vq = T.axis.remap("RR", [k, q])
            with T.init():
                C[vl] = 0
            C[vl] = C[vl] + T.Cast("int32", A[vk * 4 + vq]) * T.Cast("int32", B[vk, vl * 4 + vq])
)",
                R"(
c = sch.get_block("C")
k, l, q = sch.get_loops(c)
init = sch.decompose_reduction(c, k)
sch.tensorize(l, tensor_intrin="dot4.uint8_int8.x4")
)"}}};

}  // namespace sched

}  // namespace tenon
