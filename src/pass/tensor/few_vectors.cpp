// SPDX-License-Identifier: Apache-2.0
// few_vectors
//   before: for y in h: for i in (w + 15) // 16: B[y * w + i * 16 + 0…15] = A[…]  where i * 16 + 0…15 < w
//   after:  if 0 < w and w <= 128:
//             …  if w <= 16: for y in h: B[y * w + 0…15] = A[…]  where 0…15 < w
//                else: for y in h: B[y * w + 0…15] = A[…]; B[y * w + 16 + 0…15] = …  where 16 + 0…15 < w  …
//           else: as it was
// Rows of an image of symbolic size are a few vectors each. A loop over so few costs as much as the vectors
// themselves: their number is asked once, outside the loops over rows, and what follows are the vectors
// alone, whose masks are known or do not change from row to row. Only small rows have versions. Needs: flat
// loops, vectors, simplified extents. Keeps: what runs, and its order.
#include <optional>

#include "ir/structural.h"
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;
using tensor_detail::imm;

namespace {

constexpr int64_t kMostVectors = 8;    ///< of a row: what an image of 128 columns has of floats
constexpr int64_t kLeastLanes = 4;     ///< of a vector
constexpr int64_t kVectorNodes = 200;  ///< of a vector's statements
constexpr int64_t kRowNodes = 400;  ///< of the loops over rows, each of whose versions is as large or larger

/// The number of vectors that a size has: size // lanes + more.
struct Count {
  PrimExpr size;
  int64_t lanes, more;
  PrimExpr at_most(int64_t k) const { return lt(size, imm((k - more + 1) * lanes)); }
  PrimExpr none() const { return at_most(0); }
};
std::optional<Count> count_of(const PrimExpr& extent) {
  const auto* sum = extent.as<Add>();
  const auto more = sum ? as_int(sum->b) : std::nullopt;
  const auto* q = (more ? sum->a : extent).as<FloorDiv>();
  const auto lanes = q ? as_int(q->b) : std::nullopt;
  if (!lanes || *lanes < kLeastLanes) return std::nullopt;
  return Count{q->a, *lanes, more.value_or(0)};
}

class FewVectors : public tensor_detail::Rewriter {
 public:
  explicit FewVectors(const PrimFunc& f) {
    for (const VarRef& v : tensor_detail::sizes_of(f)) sizes_.insert(v.get());
    for (const VarRef& p : f->params)
      if (p->dtype == i64) sizes_.insert(p.get());
  }
  Stmt stmt(const Stmt& s) override {
    const auto* n = s ? s.as<For>() : nullptr;
    if (!n) return s ? below(s) : s;
    if (n->kind == ForKind::serial)
      if (const Stmt r = versions(s)) return r;
    return below(s);
  }
  PrimExpr expr(const PrimExpr& e) override { return e; }

 private:
  bool is_row(const For& n) const {
    if (n.kind != ForKind::serial || !is_zero(n.min) || n.extent.dtype() != i64 || !n.annotations.empty() ||
        !count_of(n.extent) || !tensor_detail::is_plain(n.extent))
      return false;
    for (const VarRef& v : free_vars(n.extent))
      if (!sizes_.count(v.get())) return false;
    return tensor_detail::size_of(n.body, kVectorNodes) <= kVectorNodes &&
           tensor_detail::has_vectors(n.body) && !has_node<For, tir::While>(n.body);
  }

  /// With the vectors of its rows in line where they are few; null where they are no few.
  Stmt versions(const Stmt& s) const {
    if (tensor_detail::size_of(s, kRowNodes) > kRowNodes) return {};
    PrimExpr extent;
    pre_order(s, [&](const ObjectRef& x) {
      if (const auto* n = x.as<For>(); !extent && n && is_row(*n)) extent = n->extent;
      return x.is<StmtNode>() || x.is<ArrayObj>();
    });
    if (!extent) return {};
    const Count count = *count_of(extent);
    const Stmt few = by_number(s, extent, count, 1, kMostVectors);
    return make<IfThenElse>(simplify(logical_and(logical_not(count.none()), count.at_most(kMostVectors))),
                            few, s);
  }
  /// The one of `first` to `last` vectors that there are, found in halves.
  Stmt by_number(const Stmt& s, const PrimExpr& extent, const Count& count, int64_t first,
                 int64_t last) const {
    if (first == last) return rename_definitions(in_line(s, extent, first));
    const int64_t half = (first + last) / 2;
    return make<IfThenElse>(simplify(count.at_most(half)), by_number(s, extent, count, first, half),
                            by_number(s, extent, count, half + 1, last));
  }
  Stmt in_line(const Stmt& s, const PrimExpr& extent, int64_t vectors) const {
    return rewrite(s, [&](const For& n) -> Stmt {
      if (!is_row(n) || !structural_equal(n.extent, extent)) return {};
      Array<Stmt> all;
      for (int64_t i = 0; i < vectors; ++i)
        all.push_back(rename_definitions(substitute(n.body, {{n.loop_var.get(), imm(i)}})));
      return seq(all);
    });
  }

  std::unordered_set<const Var*> sizes_;
};

}  // namespace

static IRModule few_vectors(IRModule module, PassContext&) {
  return tensor_detail::map_bodies(module, [](const std::string&, const PrimFunc& f) {
    const Stmt body = FewVectors(f).stmt(f->body);
    if (body.same_as(f->body)) return body;
    return tensor_detail::unmasked(simplify(body, true, tensor_detail::sizes_of(f)));
  });
}

const Pass& few_vectors_pass = register_pass({
    .name = "few_vectors",
    .run = few_vectors,
    .level = 2,
    .summary = "rows of few vectors are straight code for each number of them",
    .needs = {"simplify_tir"},
});

}  // namespace tenon
