// SPDX-License-Identifier: Apache-2.0
// block_wide_sums
//   before: for k in range(n): S[0] = S[0] + T.wide_term(A[k])        (S: float64, n not known)
//   after:  for b in range((n + 63) // 64):
//             P[0] = 0.0                                              (P: float32)
//             for k in range(min(64, n - b * 64)): P[0] = P[0] + A[b * 64 + k]
//             S[0] = S[0] + T.cast(P[0], "float64")
//   before: S[0] = S[0] + T.wide_term(A[0]); S[0] = S[0] + T.wide_term(A[1])
//   after:  S[0] = S[0] + T.cast(A[0] + A[1], "float64")
// A sum of unknown length has float64 results, so that its error does not grow with the length; its terms are
// added up in float32 a block at a time, twice as many at once (blocked summation: Higham, Accuracy and
// Stability of Numerical Algorithms, section 4.2).
// Needs: loops as they will run (vectors, results of tiles written out). Keeps: the bound of
// docs/numerics.md.
#include "ir/structural.h"
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;
using tensor_detail::imm;

namespace {

/// Terms of a block, each of which may add a rounding error; putting blocks together is lost in them.
constexpr int64_t kBlock = 64;
/// Fewer steps do not pay for putting their block with the others.
constexpr int64_t kLeastSteps = 4;

/// `S[i] = S[i] + term`, of a loop that does not change the place.
struct Sum {
  const BufferStore* store;
  PrimExpr term;       ///< in float32
  Array<PrimExpr> at;  ///< its lanes of the block's sums
};

PrimExpr zero(int lanes) {
  const PrimExpr one = PrimExpr::float_imm(0, f32);
  return lanes == 1 ? one : PrimExpr(make<Broadcast>(one, int64_t(lanes)));
}

/// The value of a sum's terms in float32: each is a `wide_term`, or 0 where a condition leaves it out. Null
/// for anything else.
PrimExpr narrow(const PrimExpr& e) {
  if (const auto* c = e.as<Call>(); c && c->op == "tir.wide_term") return c->args[0];
  if (const auto* b = e.as<Broadcast>()) {
    const PrimExpr value = narrow(b->value);
    return value ? PrimExpr(make<Broadcast>(value, b->lanes)) : value;
  }
  if (const auto* f = e.as<FloatImm>(); f && f->value == 0) return zero(1);
  const auto* s = e.as<Select>();
  const PrimExpr yes = s ? narrow(s->true_value) : PrimExpr(), no = yes ? narrow(s->false_value) : PrimExpr();
  return no ? select(s->condition, yes, no) : PrimExpr();
}

/// `loop`: null outside of loops.
std::optional<Sum> sum_of(const BufferStore& n, const Var* loop) {
  const auto* add = n.value.as<Add>();
  const auto* so_far = add ? add->a.as<BufferLoad>() : nullptr;
  if (!so_far || n.buffer->dtype != f64 || n.predicate || so_far->predicate ||
      !so_far->buffer.same_as(n.buffer) || !structural_equal(so_far->indices, n.indices))
    return std::nullopt;
  for (const PrimExpr& i : n.indices)
    if (loop && tensor_detail::mentions(i, loop)) return std::nullopt;
  const PrimExpr term = narrow(add->b);
  return term ? std::optional(Sum{&n, term, {}}) : std::nullopt;
}

/// Does a term read one of the sums?
bool reads_one(const std::vector<Sum>& sums) {
  auto is_sum = [&](const ObjectRef& n) {
    const auto* l = n.as<BufferLoad>();
    return l && std::ranges::any_of(sums, [&](const Sum& s) { return s.store->buffer.same_as(l->buffer); });
  };
  return std::ranges::any_of(sums, [&](const Sum& s) { return any_node(s.term, is_sum); });
}

/// The sums that a loop's body consists of; none: it does something else.
std::vector<Sum> sums_of(const For& loop) {
  const auto* all = loop.body.as<SeqStmt>();
  const Array<Stmt> stores = all ? all->seq : Array<Stmt>{loop.body};
  std::vector<Sum> out;
  int64_t lanes = 0;
  for (const Stmt& s : stores) {
    const auto* n = s.as<BufferStore>();
    auto sum = n ? sum_of(*n, loop.loop_var.get()) : std::nullopt;
    if (!sum) return {};
    const int width = sum->term.dtype().lanes;
    sum->at = {width == 1 ? imm(lanes) : PrimExpr(make<Ramp>(imm(lanes), imm(1), int64_t(width)))};
    lanes += width;
    out.push_back(*std::move(sum));
  }
  return reads_one(out) ? std::vector<Sum>() : out;
}

/// The sums that a sequence has one behind the other, from its `first` statement on.
std::vector<Sum> sums_from(const SeqStmt& all, size_t first) {
  std::vector<Sum> out;
  for (size_t i = first; i < all.seq.size() && out.size() < size_t(kBlock); ++i) {
    const auto* n = all.seq[i].as<BufferStore>();
    auto sum = n ? sum_of(*n, nullptr) : std::nullopt;
    if (!sum) break;
    out.push_back(*std::move(sum));
  }
  return reads_one(out) ? std::vector<Sum>() : out;
}

/// Those of one place are one block.
void in_line(const std::vector<Sum>& sums, std::vector<Stmt>& out) {
  std::vector<Sum> places;
  for (const Sum& s : sums) {
    const auto same = std::ranges::find_if(places, [&](const Sum& p) {
      return p.store->buffer.same_as(s.store->buffer) && structural_equal(p.store->indices, s.store->indices);
    });
    if (same == places.end())
      places.push_back(s);
    else
      same->term = same->term + s.term;
  }
  for (const Sum& p : places)
    out.push_back(store(p.store->buffer, p.store->value.as<Add>()->a + cast(p.store->value.dtype(), p.term),
                        p.store->indices));
}

/// A loop over steps, and over blocks of them where they may be more than one.
Stmt in_blocks(const For& loop, const std::vector<Sum>& sums) {
  int64_t lanes = 0;
  for (const Sum& s : sums) lanes += s.term.dtype().lanes;
  const Buffer part = buffer("block_sum", {imm(lanes)}, f32, "local");
  std::vector<Stmt> first, steps, last;
  for (const Sum& s : sums) {
    const BufferStore& n = *s.store;
    const PrimExpr so_far = load(part, s.at);
    first.push_back(store(part, zero(so_far.dtype().lanes), s.at));
    steps.push_back(store(part, so_far + s.term, s.at));
    last.push_back(store(n.buffer, load(n.buffer, n.indices) + cast(n.value.dtype(), so_far), n.indices));
  }
  const std::optional<int64_t> known = as_int(loop.extent);
  const bool one = known && *known <= kBlock;
  const VarRef block = var("block"), step = var("k");
  const PrimExpr begin = one ? imm(0) : block * imm(kBlock),
                 count = one ? loop.extent : min(imm(kBlock), loop.extent - begin);
  const Stmt body = substitute(seq(Array<Stmt>(steps)), {{loop.loop_var.get(), loop.min + begin + step}});
  first.push_back(make<For>(step, imm(0), count, ForKind::serial, body, "", AttrMap()));
  first.insert(first.end(), last.begin(), last.end());
  Stmt out = make<Allocate>(part, seq(Array<Stmt>(first)), AttrMap());
  if (!one)
    out = make<For>(block, imm(0), floordiv(loop.extent + imm(kBlock - 1), imm(kBlock)), ForKind::serial, out,
                    "", AttrMap());
  return out;
}

class BlockWideSums : public tensor_detail::Rewriter {
 public:
  Stmt stmt(const Stmt& s) override {
    if (const auto* all = s ? s.as<SeqStmt>() : nullptr)
      if (const Stmt blocks = sequence(*all)) return blocks;
    // One term alone is chosen in float32.
    if (const auto* one = s ? s.as<BufferStore>() : nullptr)
      if (auto sum = sum_of(*one, nullptr)) {
        std::vector<Stmt> out;
        in_line({*std::move(sum)}, out);
        return out[0];
      }
    if (const auto* loop = s ? s.as<For>() : nullptr)
      if (const Stmt blocks = blocked(*loop)) return blocks;
    return Rewriter::stmt(s);
  }
  PrimExpr expr(const PrimExpr& e) override { return e; }

 private:
  /// Null: it has no sums.
  Stmt sequence(const SeqStmt& all) {
    std::vector<Stmt> out;
    bool any = false;
    for (size_t i = 0; i < all.seq.size();) {
      const std::vector<Sum> sums = sums_from(all, i);
      any = any || !sums.empty();
      if (sums.empty())
        out.push_back(stmt(all.seq[i++]));
      else
        in_line(sums, out), i += sums.size();
    }
    return any ? seq(Array<Stmt>(out)) : Stmt();
  }
  static Stmt blocked(const For& n) {
    const std::optional<int64_t> known = as_int(n.extent);
    if (n.kind != ForKind::serial || !n.annotations.empty() || n.extent.dtype() != i64 ||
        (known && *known < kLeastSteps))
      return {};
    const std::vector<Sum> sums = sums_of(n);
    return sums.empty() ? Stmt() : in_blocks(n, sums);
  }
};

}  // namespace

static IRModule block_wide_sums(IRModule module, PassContext&) {
  return tensor_detail::map_bodies(module, [](const std::string&, const PrimFunc& f) {
    const Stmt body = BlockWideSums().stmt(f->body);
    return body.same_as(f->body) ? body : simplify(body, false, tensor_detail::sizes_of(f));
  });
}

const Pass& block_wide_sums_pass = register_pass({
    .name = "block_wide_sums",
    .run = block_wide_sums,
    .level = 1,
    .summary = "sums of unknown length add up float32 a block at a time",
    .changes = Changes::sum_order,
});

}  // namespace tenon
