// SPDX-License-Identifier: Apache-2.0
// Models whose meaning depends on sizes or ranks that only the run knows: from the node that asks on, the
// graph is converted once for each case, and the run takes the branch that holds.
#include <fmt/format.h>

#include "analysis/analyzer.h"
#include "import/onnx/importer.h"
#include "op/infer.h"

namespace tenon::onnx {

std::optional<bool> Importer::sizes_equal(const PrimExpr& a, const PrimExpr& b) const {
  const auto same = [](const PrimExpr& x, const PrimExpr& y) {
    return x.same_as(y) || tir::is_zero(simplify(x - y));
  };
  if (same(a, b)) return true;
  for (const KnownSizes& k : sizes_)
    if ((same(a, k.a) && same(b, k.b)) || (same(a, k.b) && same(b, k.a))) return k.equal;
  return std::nullopt;
}

std::optional<int64_t> Importer::known_size(const PrimExpr& size) const {
  if (const auto n = tir::as_int(size)) return n;
  for (const KnownSizes& k : sizes_)
    if (k.equal && tir::as_int(k.b) && (k.a.same_as(size) || tir::is_zero(simplify(k.a - size))))
      return tir::as_int(k.b);
  return std::nullopt;
}

Expr Importer::ranked(const Expr& x) const {
  for (const Ranked& r : ranked_)
    if (r.unknown.same_as(x)) return r.known;
  return x;
}

bool Importer::fork_on_rank(NodeContext& n, const PrimExpr& size) {
  return fork_on_ranks(n, size,
                       [this, size](int64_t rank) { sizes_.push_back({size, PrimExpr(rank), true}); });
}

bool Importer::fork_on_unknown_rank(NodeContext& n, const Expr& x) {
  if (fork_) return true;
  const DataType dtype = graph::as_tensor(x)->dtype;
  const Expr sizes = n.with_sizes(n.op("shape_to_tensor", {n.op("shape_of", {x})}));
  return fork_on_ranks(n, (*graph::known_shape(sizes))[0], [this, x, dtype](int64_t rank) {
    Array<PrimExpr> shape;
    for (int64_t i = 0; i < rank; ++i) shape.push_back(tir::var(builder.fresh_name("n"), i64));
    ranked_.push_back({x, builder.emit_match_cast(x, graph::tensor_type(shape, dtype), "ranked")});
  });
}

bool Importer::fork_on_ranks(NodeContext& n, const PrimExpr& size, std::function<void(int64_t)> known) {
  if (fork_) return true;  // of the same node: its variants ask again
  constexpr size_t ranks = size_t(kMaxRank + 1);
  if (rank_variants_ + ranks > kMaxRankVariants || rank_nodes_ + ranks * following_ > kMaxRankNodes)
    return false;
  rank_variants_ += ranks;
  rank_nodes_ += ranks * following_;
  Fork f;
  f.opset = n.opset, f.since = n.since;
  for (int64_t rank = 0; rank <= kMaxRank; ++rank)
    f.conditions.push_back(make<graph::PrimValue>(tir::eq(size, PrimExpr(rank))));
  f.convert = [this, known = std::move(known), &node = *converting_, &env = n.env, where = n.where()](
                  size_t variant, Scope& outputs) {
    if (variant < ranks) {
      known(int64_t(variant));
      return convert_node(node, outputs, env);
    }
    problems_.push_back(
        {kTooManyDimensions,
         fmt::format("a tensor of more than {} dimensions, which only the run knows", kMaxRank),
         where,
         "",
         {}});
    for (const std::string& name : node.output()) outputs.values[name].poisoned = true;
  };
  fork_ = std::move(f);
  return true;
}

bool Importer::fork_on_sizes(NodeContext& n, const std::vector<KnownSizes>& equal,
                             std::optional<KnownSizes> last) {
  if (fork_) return true;  // of the same node: its variants ask again
  const size_t copies = equal.size() * following_;
  if (variants_ + equal.size() > kMaxVariants || variant_nodes_ + copies > kMaxVariantNodes) return false;
  variants_ += equal.size();
  variant_nodes_ += copies;
  Fork f;
  f.opset = n.opset, f.since = n.since;
  for (const KnownSizes& k : equal) f.conditions.push_back(make<graph::PrimValue>(tir::eq(k.a, k.b)));
  f.convert = [this, equal, last, opset = n.opset, since = n.since, &node = *converting_, &env = n.env](
                  size_t variant, Scope& outputs) {
    for (size_t i = 0; i < equal.size() && i <= variant; ++i)
      sizes_.push_back({equal[i].a, equal[i].b, i == variant});
    if (variant == equal.size() && last) {  // no condition has asked for it
      NodeContext(*this, node, outputs, env, opset, since).require_equal(last->a, last->b);
      sizes_.push_back(*last);
    }
    convert_node(node, outputs, env);
  };
  fork_ = std::move(f);
  return true;
}

Values Importer::convert_forked(proto::GraphProto& g, const std::vector<int>& order, size_t at, Scope& scope,
                                const Env& env) {
  const Fork fork = *std::exchange(fork_, std::nullopt);
  proto::NodeProto& node = *g.mutable_node(order[at]);
  NodeContext n(*this, node, scope, env, fork.opset, fork.since);
  const auto variant = [&](size_t i) {
    const size_t outer = sizes_.size(), ranked = ranked_.size();
    Scope rest;
    rest.parent = &scope;
    fork.convert(i, rest);
    Values out = fork_ ? convert_forked(g, order, at, rest, env) : convert_from(g, order, at + 1, rest, env);
    sizes_.resize(outer);
    ranked_.resize(ranked);
    return out;
  };
  const std::function<Values(size_t)> from = [&](size_t i) {
    if (i == fork.conditions.size()) return variant(i);
    Body yes = convert_body("variant", [&] { return variant(i); });
    Body no = convert_body("variant", [&] { return from(i + 1); });
    const std::vector<FormRef> forms = joined(yes, no, n.where());
    const std::vector<Array<PrimExpr>> sizes = agreed_sizes(yes, no);
    const size_t count = size_t(g.output_size());
    const Expr both = branches(fork.conditions[i], std::move(yes), std::move(no), n.origin, n.where());
    Values out(count);
    if (!both) {
      for (Value& v : out) v.poisoned = true;
      return out;
    }
    const Expr result = builder.emit(both, "forked");
    for (size_t k = 0; k < count; ++k) {
      const Expr value = count == 1 ? result : Expr(builder.emit(op::get_item(result, int64_t(k)), "output"));
      out[k] = {n.with_sizes(value, sizes[k]), forms[k]};
    }
    return out;
  };
  return from(0);
}

}  // namespace tenon::onnx
