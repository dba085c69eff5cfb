// SPDX-License-Identifier: Apache-2.0
// inject_prefetch
//   before: T.prefetch(A[i : i + 1, 0:64])
//   after:  for p in range(4): T.prefetch(T.address_of(A[i, p * 16]))
// A region that is announced becomes one hint for each cache line. A loop's annotation "prefetch_A": 2
// announces, in each iteration, what the one two later reads of A; where there is nothing to announce the
// annotation becomes "prefetch_refused" with the reason. "stream_A": n says that this loop and those around
// it read A once from its first element to its last, however often a part is read again meanwhile: each
// iteration announces its share of A, n elements further on. "stream_A": [n, m, k, i, r] says the same of
// loops that tiles of any number read a part of A in, r values of the block's iterator i each: the second
// tile announces what lies n elements behind what an iteration reads, the next one m elements further, k of
// them. Needs: buffers with their shapes. Keeps: everything else.
#include "analysis/program_target.h"
#include "ir/find_node.h"
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;
using tensor_detail::imm;

namespace {

constexpr std::string_view kPrefix = "prefetch_", kStream = "stream_", kRefused = "prefetch_refused";

bool announces(std::string_view key) {
  return (key.starts_with(kPrefix) || key.starts_with(kStream)) && key != kRefused;
}

/// The element of a flat position. A hint is no access, so that it may stand in the last index alone.
PrimExpr address(const Buffer& b, const PrimExpr& flat) {
  std::vector<PrimExpr> at(b->shape.size(), tensor_detail::imm(0));
  at.back() = flat;
  return call(DataType::handle(), "tir.address_of", {load(b, Array<PrimExpr>(at))});
}

Stmt hint(const PrimExpr& address) {
  return make<tir::Evaluate>(call(DataType::void_(), "tir.prefetch", {address}));
}

Stmt hints(const Prefetch& n, int64_t line_bytes) {
  std::vector<VarRef> vars;
  std::vector<PrimExpr> extents;
  Array<PrimExpr> at;
  for (size_t d = 0; d < n.bounds.size(); ++d) {
    const DataType t = n.bounds[d]->min.dtype();
    const bool last = d + 1 == n.bounds.size();
    const int64_t step = last ? std::max<int64_t>(1, line_bytes / n.buffer->dtype.bytes()) : 1;
    const PrimExpr lines = simplify(ceildiv(n.bounds[d]->extent, PrimExpr::int_imm(step, t)));
    const VarRef v = var("line", t);
    vars.push_back(v);
    extents.push_back(lines);
    at.push_back(simplify(n.bounds[d]->min + PrimExpr(v) * PrimExpr::int_imm(step, t)));
  }
  Stmt s = hint(call(DataType::handle(), "tir.address_of", {load(n.buffer, at)}));
  for (size_t d = vars.size(); d-- > 0;) {
    if (is_one(extents[d]))
      s = substitute(s, {{vars[d].get(), PrimExpr::int_imm(0, vars[d]->dtype)}});
    else
      s = for_(vars[d], PrimExpr::int_imm(0, vars[d]->dtype), extents[d], s);
  }
  return simplify(s);
}

/// Loops that announce what later iterations read get statements that do.
class Announce : public tensor_detail::Rewriter {
 public:
  explicit Announce(int64_t line_bytes) : line_bytes_(line_bytes) {}
  Stmt stmt(const Stmt& s) override {
    if (!s) return s;
    if (const auto* n = s.as<Block>())
      for (const IterVar& v : n->iter_vars) analyzer_.bind(v->var, v->dom);
    const auto* n = s.as<For>();
    if (!n) return below(s);
    analyzer_.bind(n->loop_var, range(n->min, n->extent));
    around_.push_back(n);
    const Stmt r = announced(below(s));
    around_.pop_back();
    return r;
  }
  PrimExpr expr(const PrimExpr& e) override { return e; }

 private:
  Stmt announced(const Stmt& loop) {
    const For* n = loop.as<For>();
    AttrMap kept;
    Array<Stmt> steps;
    std::string refused;
    bool found = false;
    for (const auto& [key, value] : n->annotations) {
      if (!announces(key)) {
        kept.set(key, value);
        continue;
      }
      found = true;
      const int64_t ahead = value.try_as<int64_t>().value_or(0);
      const auto turns = value.try_as<Array<int64_t>>();
      const std::string why = !key.starts_with(kStream)
                                  ? announce(*n, key.substr(kPrefix.size()), ahead, steps)
                              : turns ? by_turns(*n, key.substr(kStream.size()), *turns, steps)
                                      : stream(*n, key.substr(kStream.size()), ahead, steps);
      if (!why.empty()) refused += (refused.empty() ? "" : "; ") + why;
    }
    if (!found) return loop;
    if (!refused.empty()) kept.set(std::string(kRefused), Any(refused));
    return tensor_detail::edited<For>(loop, [&](For* m) {
      m->annotations = kept;
      if (steps.empty()) return;
      steps.push_back(n->body);
      m->body = seq(steps);
    });
  }
  /// Why not, or empty.
  std::string announce(const For& n, const std::string& name, int64_t offset, Array<Stmt>& steps) {
    if (offset < 1) return fmt::format("'{}' is to be fetched no iteration ahead", name);
    if (n.kind == ForKind::vectorized) return "the loop's iterations are lanes of one vector";
    const auto block =
        make<Block>(Array<IterVar>(), Array<BufferRegion>(), Array<BufferRegion>(), std::string("body"),
                    n.body, Stmt(), Array<Buffer>(), Array<MatchBufferRegion>(), AttrMap());
    bool read = false, moves = false;
    for (const BufferRegion& region : detect_access_regions(block, analyzer_).reads) {
      if (region->buffer->name != name) continue;
      read = true;
      bool here = false;
      Array<Range> bounds;
      for (size_t d = 0; d < region->region.size(); ++d) {
        const PrimExpr size = region->buffer->shape[d];
        PrimExpr low = region->region[d]->min;
        here = here || tensor_detail::mentions(low, n.loop_var.get());
        // An iteration that a predicate leaves out may point behind the end.
        if (!analyzer_.can_prove(lt(low, size))) low = tir::min(low, size - 1);
        bounds.push_back(range(low, region->region[d]->extent));
      }
      if (!here) continue;
      moves = true;
      const PrimExpr next = n.loop_var + PrimExpr::int_imm(offset, n.loop_var->dtype);
      const Stmt ahead = substitute(make<Prefetch>(region->buffer, bounds), {{n.loop_var.get(), next}});
      steps.push_back(make<IfThenElse>(lt(next, n.min + n.extent), ahead, Stmt()));
    }
    if (!read) return fmt::format("no iteration reads '{}'", name);
    return moves ? "" : fmt::format("every iteration reads the same part of '{}'", name);
  }

  /// Why not, or empty.
  std::string stream(const For& n, const std::string& name, int64_t ahead, Array<Stmt>& steps) {
    const Buffer b = buffer_read(n.body, name);
    if (!b) return fmt::format("no iteration reads '{}'", name);
    if (n.kind == ForKind::vectorized) return "the loop's iterations are lanes of one vector";
    int64_t size = 1, iterations = 1, share = 0;
    for (const PrimExpr& d : b->shape) size *= as_int(d).value_or(0);
    if (size < 1 || !b->strides.empty()) return fmt::format("the size of '{}' is not known", name);
    PrimExpr begin = tensor_detail::imm(ahead);
    for (const For* l : around_) {
      const bool known = as_int(l->extent).has_value(), outermost = l == around_.front();
      // Outermost a batch of any size, which walks A again in each turn.
      const int64_t turn = known ? *as_int(l->extent) : outermost ? analyzer_.modular(l->extent).coeff : 0;
      if (turn < 1 || !is_zero(l->min)) return "a loop around has a symbolic size";
      share = (size + iterations * turn - 1) / (iterations * turn);
      iterations *= turn;
      if (l == around_.back()) continue;
      const PrimExpr at = known ? PrimExpr(l->loop_var) : floormod(l->loop_var, tensor_detail::imm(turn));
      begin = begin + at * tensor_detail::imm(share);
    }
    // The last ones announce the end again.
    const int64_t last = size - *as_int(n.extent) * share;
    if (last < 0) return fmt::format("'{}' is smaller than one turn of the loop announces", name);
    begin = tir::min(begin, tensor_detail::imm(last)) + PrimExpr(n.loop_var) * tensor_detail::imm(share);
    const int64_t line = std::max<int64_t>(1, line_bytes_ / b->dtype.bytes());
    for (int64_t at = 0; at < share; at += line)
      steps.push_back(hint(address(b, begin + tensor_detail::imm(at))));
    return "";
  }
  /// Why not, or empty.
  std::string by_turns(const For& n, const std::string& name, const Array<int64_t>& turns,
                       Array<Stmt>& steps) {
    VarMap first;  // where the loops inside begin
    const BlockRealize* block = nullptr;
    const BufferLoad* read = nullptr;
    pre_order(n.body, [&](const ObjectRef& o) {
      if (const auto* inner = o.as<For>()) first[inner->loop_var.get()] = inner->min;
      if (const auto* r = o.as<BlockRealize>(); r && !read) block = r;
      if (const auto* l = o.as<BufferLoad>(); l && !read && l->buffer->name == name) read = l;
      return !o.is<BufferNode>();
    });
    if (!read || !block) return fmt::format("no iteration reads '{}'", name);
    const auto& iterators = block->block->iter_vars;
    if (turns.size() != 5 || turns[3] < 0 || turns[3] >= int64_t(iterators.size()) || turns[4] < 1)
      return "turns are [elements, elements, number, iterator, values]";
    VarMap values;
    for (size_t i = 0; i < iterators.size(); ++i)
      values[iterators[i]->var.get()] = substitute(block->iter_values[i], first);
    PrimExpr flat = tensor_detail::imm(0);
    int64_t size = 1;
    for (size_t d = read->buffer->shape.size(); d-- > 0;) {
      flat = flat + substitute(read->indices[d], values) * tensor_detail::imm(size);
      size *= as_int(read->buffer->shape[d]).value_or(0);
    }
    auto from = [&](const PrimExpr& at) { return substitute(flat, {{n.loop_var.get(), at}}); };
    const PrimExpr begin = from(n.min);
    const auto length = as_int(analyzer_.simplify(from(n.min + n.extent) - begin));
    if (size < 1 || !length || *length > size) return fmt::format("'{}' is read in no straight line", name);
    const PrimExpr tile = floordiv(values[iterators[size_t(turns[3])]->var.get()], turns[4]);
    const PrimExpr ahead = turns[0] + (tir::min(tile, PrimExpr(turns[2])) - 1) * turns[1];
    // The first tile, which may be the only one, announces what it reads, and the last ones the end again.
    const PrimExpr next =
        tir::min(begin + tir::select(tir::gt(tile, PrimExpr(0)), ahead, tensor_detail::imm(0)),
                 tensor_detail::imm(size - *length));
    steps.push_back(hint(address(read->buffer, analyzer_.simplify(next) + analyzer_.simplify(flat - begin))));
    return "";
  }
  static Buffer buffer_read(const Stmt& body, const std::string& name) {
    Buffer found;
    pre_order(body, [&](const ObjectRef& o) {
      const auto* l = o.as<BufferLoad>();
      const auto* m = o.as<MatchBufferRegionNode>();
      if (l && l->buffer->name == name) found = l->buffer;
      if (m && m->source->buffer->name == name) found = m->source->buffer;
      return !found && !o.is<BufferNode>();
    });
    return found;
  }

  int64_t line_bytes_;
  std::vector<const For*> around_;
  Analyzer analyzer_;
};

bool has_announcements(const Stmt& s) {
  return any_node(s, in_statements, [](const ObjectRef& n) {
    bool found = false;
    if (const auto* l = n.as<For>())
      for (const auto& [key, value] : l->annotations) found = found || announces(key);
    return found;
  });
}

}  // namespace

static IRModule inject_prefetch(IRModule module, PassContext& context) {
  return tensor_detail::map_bodies(module, [&](const std::string&, const PrimFunc& f) -> Stmt {
    const int64_t line = program_target(*f, context.target.cast<TargetNode>())->line_bytes;
    Stmt body = has_announcements(f->body) ? Announce(line).stmt(f->body) : f->body;
    if (!tensor_detail::has_statement<Prefetch>(body)) return body;
    return rewrite(body, [&](const Prefetch& n) -> Stmt { return hints(n, line); });
  });
}

const Pass& inject_prefetch_pass = register_pass({
    .name = "inject_prefetch",
    .run = inject_prefetch,
    .level = 0,
    .summary = "announced regions become hints for each cache line",
});

}  // namespace tenon
