// SPDX-License-Identifier: Apache-2.0
// inline_transpose: a product of rows of symbolic number has two forms, and the sizes of a run choose: few
// rows read the second operand where it lies, as queries of one step of an attention read its keys, many read
// a transposed copy.
//
//   before   kt = R.call_tir(permute_dims, (k,), …);  s = R.call_tir(matmul, (q, kt), …)
//   after    if R.prim_value(n <= 2): s = R.call_tir(matmul_in_place, (q, k), …)
//            else: kt = …;  s = …
//
// Rows of known number are decided earlier (`fold_transpose_into_product`). Behind `fuse_rows`, which wants
// to see products in one body: a copy that branches alone read moves into them first. Needs: call_tir. Keeps:
// values up to the order of sums.
#include <algorithm>

#include "analysis/cost/products.h"
#include "analysis/simplify.h"
#include "ir/bodies.h"
#include "ir/op.h"
#include "ir/pass.h"
#include "pass/graph/fusion/programs.h"

namespace tenon {
namespace graph {
namespace {

using tir::BufferLoad, tir::BufferStore;

/// Rows of unknown number are summed up one by one, where known ones share what they read
/// (cost::kRowsReadInPlace). µs copied against read in place, 12 × rows × 64 × 512, one thread of Zen 5: 50
/// and 19 of one row, 51 and 38 of two, 53 and 80 of four.
constexpr int64_t kRowsInPlace = 2;

/// Is each index one of the block's iterators as it stands?
bool all_iterators(const Array<PrimExpr>& indices, const tir::Block& block) {
  return std::all_of(indices.begin(), indices.end(), [&](const PrimExpr& e) {
    return std::any_of(block.iter_vars.begin(), block.iter_vars.end(),
                       [&](const tir::IterVar& v) { return e.same_as(v->var); });
  });
}
bool contains(const Array<PrimExpr>& indices, const tir::VarRef& v) {
  return std::any_of(indices.begin(), indices.end(), [&](const PrimExpr& e) { return e.same_as(v); });
}

/// A program that copies its operand transposed: the axis of the copy that each axis of the operand is.
std::optional<std::vector<size_t>> transposed_axes(const tir::PrimFunc& f) {
  const auto p = staged(f);
  if (!p || p->params.size() != 2 || p->stages.size() != 1) return std::nullopt;
  Ref<tir::Block> block;
  pre_order(p->stages[0], [&](const ObjectRef& x) {
    if (const auto* r = x.as<tir::BlockRealize>()) block = r->block;
    return true;
  });
  const auto* store = block ? block->body.as<BufferStore>() : nullptr;
  const auto* load = store ? store->value.as<BufferLoad>() : nullptr;
  if (!load || !load->buffer.same_as(p->params[0]) || load->indices.size() != store->indices.size() ||
      !all_iterators(load->indices, *block) || !all_iterators(store->indices, *block))
    return std::nullopt;
  std::vector<size_t> out;
  for (const PrimExpr& e : load->indices) {
    const auto at = std::find_if(store->indices.begin(), store->indices.end(),
                                 [&](const PrimExpr& x) { return x.same_as(e); });
    if (at == store->indices.end()) return std::nullopt;
    out.push_back(size_t(at - store->indices.begin()));
  }
  return out.empty() || out.back() + 1 == out.size() ? std::nullopt : std::optional(out);
}

/// The call with the operand of a transposed copy in place of the copy, argument `at`.
ProgramCall read_in_place(ProgramCall call, size_t at, const Expr& operand, const std::vector<size_t>& axes) {
  StagedProgram p = *staged(tir::rename_all(call.program));
  const tir::Buffer copy = p.params[at];
  const auto permuted = [&](const auto& of_copy) {
    std::decay_t<decltype(of_copy)> out;
    for (const size_t axis : axes) out.push_back(of_copy[axis]);
    return out;
  };
  p.params[at] = tir::buffer(copy->name, permuted(copy->shape), copy->dtype);
  for (tir::Stmt& s : p.stages)
    s = rewrite_any(s, [&](const ObjectRef& x) -> ObjectRef {
          if (const auto* l = x.as<BufferLoad>(); l && l->buffer.same_as(copy))
            return make<BufferLoad>(p.params[at], permuted(l->indices), l->predicate);
          if (const auto* r = x.as<tir::BufferRegionNode>(); r && r->buffer.same_as(copy))
            return make<tir::BufferRegionNode>(p.params[at], permuted(r->region));
          return {};
        }).cast<tir::StmtNode>();
  call.name += "_in_place";
  call.program = program_of(p, call.name, int64_t(call.outputs.size()), call.program->attrs);
  call.args.set(at, operand);
  return call;
}

/// How many rows read argument `at` of a call, each of them all of it, where a product that sums up along its
/// `axis` is all that reads it, nothing else is summed up (`fuse_rows` joins for many rows), and the number
/// is symbolic; else null.
PrimExpr rows_of(const ProgramCall& call, size_t at, size_t axis) {
  const auto p = staged(call.program);
  if (!p || at >= p->params.size()) return {};
  const tir::Buffer operand = p->params[at];
  const BufferLoad* read = nullptr;
  Ref<tir::Block> product;
  int reads = 0, sums = 0;
  for (const tir::Stmt& stage : p->stages)
    pre_order(stage, [&](const ObjectRef& x) {
      if (const auto* r = x.as<tir::BlockRealize>(); r && r->block->init) product = r->block, ++sums;
      if (const auto* l = x.as<BufferLoad>(); l && l->buffer.same_as(operand)) read = l, ++reads;
      return true;
    });
  const auto* store = reads == 1 && sums == 1 ? product->body.as<BufferStore>() : nullptr;
  if (!store || !all_iterators(read->indices, *product) || !operand->dtype.is_float() ||
      store->buffer->dtype != operand->dtype)
    return {};
  PrimExpr rows = PrimExpr(1);
  for (const tir::IterVar& v : product->iter_vars) {
    const bool summed = v->kind == tir::IterKind::reduce;
    if (summed && (!read->indices[axis].same_as(v->var) ||
                   tir::as_int(v->dom->extent).value_or(cost::kSumReadInPlace) < cost::kSumReadInPlace))
      return {};
    if (!summed && !contains(read->indices, v->var)) rows = simplify(rows * v->dom->extent);
  }
  return tir::as_int(rows) ? PrimExpr() : rows;
}

/// Moves transposed copies that nothing but the branches of one `if` reads to where they are read.
class SinkCopies {
 public:
  SinkCopies(const IRModule& module, const Function& f) : module_(module), uses_(count_uses(f)) {}

  Expr body(const Expr& e) const {
    std::vector<Binding> bindings = bindings_of(e);
    bool changed = false;
    for (size_t i = bindings.size(); i-- > 0;) {
      changed |= map_bodies(bindings[i], [&](const Expr& x) { return body(x); });
      const Binding copy = bindings[i];
      const auto call = program_call(copy->value, module_);
      const auto uses = uses_.find(copy->var.get());
      if (!call || uses == uses_.end() || !transposed_axes(call->program)) continue;
      const auto reader = std::find_if(bindings.begin() + int64_t(i), bindings.end(), [&](const Binding& b) {
        if (!b.is<VarBindingNode>() || !b->value.is<If>()) return false;
        int reads = 0;
        for (const Expr& branch : bodies_of(b->value)) reads += reads_in(branch, copy->var);
        return reads == uses->second;
      });
      if (reader == bindings.end()) continue;
      map_bodies(*reader, [&](const Expr& x) { return with_copy(x, copy); });
      bindings.erase(bindings.begin() + int64_t(i));
      changed = true;
    }
    return changed ? make_body(bindings, result_of(e)) : e;
  }

 private:
  static int reads_in(const Expr& body, const VarRef& v) {
    int n = 0;
    for_each_use(body, [&](const VarRef& x) { n += x.same_as(v); });
    return n;
  }
  /// The body, and those inside, with another variable in a variable's place.
  static Expr renamed(const Expr& e, const VarRef& from, const VarRef& to) {
    std::vector<Binding> bindings = bindings_of(e);
    const std::function<Expr(const Expr&, bool)> part = [&](const Expr& x, bool is_body) -> Expr {
      if (is_body) return renamed(x, from, to);
      return x.same_as(from) ? Expr(to) : is_leaf(x) ? x : map_parts(x, part);
    };
    for (Binding& b : bindings) {
      const Expr value = is_leaf(b->value) ? part(b->value, false) : map_parts(b->value, part);
      if (value.same_as(b->value)) continue;
      const auto* cast = b.as<MatchCastNode>();
      b = cast ? Binding(make<MatchCastNode>(b->var, value, cast->type))
               : make<VarBindingNode>(b->var, value);
    }
    return make_body(bindings, part(result_of(e), false));
  }
  /// The body with a copy of its own in front, where it reads one.
  static Expr with_copy(const Expr& body, const Binding& copy) {
    if (reads_in(body, copy->var) == 0) return body;
    const VarRef own = with_origin(var(copy->var->name, copy->value->type), copy->value->origin);
    const Expr rest = renamed(body, copy->var, own);
    std::vector<Binding> bindings = bindings_of(rest);
    bindings.insert(bindings.begin(), make<VarBindingNode>(own, copy->value));
    return make_body(bindings, result_of(rest));
  }

  const IRModule& module_;
  const std::unordered_map<const Var*, int> uses_;
};

class InlineTranspose : public ProgramMerger {
 public:
  using ProgramMerger::ProgramMerger;

 private:
  bool merge(Binding& b) override {
    const auto call = program_call(b->value, module());
    if (!call || program_pattern(*call->program) != int64_t(FusionKind::out_element_wise_fusable))
      return false;
    for (size_t i = 0; i < call->args.size(); ++i) {
      const auto* v = call->args[i].as<Var>();
      const auto copy = v && uses(v) == 1 ? made_by(v) : std::nullopt;
      const auto axes = copy ? transposed_axes(copy->program) : std::nullopt;
      const PrimExpr rows = axes ? rows_of(*call, i, axes->back()) : PrimExpr();
      if (!rows) continue;
      replace(b, read_in_place(*call, i, copy->args[0], *axes), {v}, {copy->name, call->name},
              in_caller(le(rows, PrimExpr(kRowsInPlace)), *call));
      return true;
    }
    return false;
  }
};

}  // namespace
}  // namespace graph

static IRModule inline_transpose(IRModule module, PassContext&) {
  for (const auto& [name, f] : graph::graph_functions(module)) {
    const graph::Expr next = graph::SinkCopies(module, *f).body(f->body);
    if (!next.same_as(f->body)) module.set(name, graph::with_bodies(f, {next}));
  }
  return graph::InlineTranspose(std::move(module)).run();
}

const Pass& inline_transpose_pass = register_pass({
    .name = "inline_transpose",
    .run = inline_transpose,
    .level = 2,
    .summary = "few rows of symbolic number read a transposed operand where it lies, chosen at run time",
    .needs = {"lower_to_call_tir"},
    .changes = Changes::sum_order,
});

}  // namespace tenon
