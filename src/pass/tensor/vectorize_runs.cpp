// SPDX-License-Identifier: Apache-2.0
// vectorize_runs
//   before: for i in n: B[i + p] = A[i + q]
//   after:  for i in T.vectorized(n): B[i + p] = A[i + q]
// Loops over scalars are cut where their conditions change (as loop_partition does with all, later on), and
// what is left of them, or of copies whose digits became loops of their own, walks along memory: rows inside
// of an image's border, copies side by side. Each element is stored once, beside that of the iteration
// before, and what it is made of lies in other memory, side by side, too. Behind it vectorize_loop makes
// whole vectors and one with a mask. Elements of less than 32 bits, which not every processor has masks for,
// and fewer than half a vector of them stay as they are. Needs: flat buffers, loops as they will run. Keeps:
// every value.
#include "analysis/region.h"
#include "ir/find_node.h"
#include "ir/intrinsic.h"
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;

namespace {

constexpr int64_t kLeastRun = 8;    ///< iterations, where their number is known
constexpr int kLeastBits = 32;      ///< of an element
constexpr int64_t kRunNodes = 200;  ///< of a body; it stands there twice then

class Runs : public tensor_detail::Rewriter {
 public:
  explicit Runs(const PrimFunc& f, GivenUpProofs& given_up) : analyzer_(given_up, "vectorize_runs") {
    for (const VarRef& v : tensor_detail::sizes_of(f)) analyzer_.assume_size(v, 0);
  }
  Stmt stmt(const Stmt& s) override {
    const auto* n = s ? s.as<For>() : nullptr;
    if (!n) return s ? below(s) : s;
    // An annotation says how the loops inside are to run, too.
    if (n->kind == ForKind::serial && !n->annotations.empty()) return s;
    if (!is_run(*n)) return below(s);
    return tensor_detail::edited<For>(s, [](For* m) { m->kind = ForKind::vectorized; });
  }
  PrimExpr expr(const PrimExpr& e) override { return e; }

 private:
  bool is_run(const For& n) {
    const auto* store = n.body.as<BufferStore>();
    if (!store || store->predicate || n.kind != ForKind::serial || n.loop_var->dtype != i64 ||
        as_int(n.extent).value_or(kLeastRun) < kLeastRun ||
        tensor_detail::size_of(n.body, kRunNodes) > kRunNodes || step(*store, n.loop_var) != 1)
      return false;
    return !any_node(n.body, not_in_buffers, [&](const ObjectRef& x) {
      if (const auto* c = x.as<Call>()) return chooses(*c);
      const auto* l = x.as<BufferLoad>();
      if (!l) return false;
      const auto by = step(*l, n.loop_var);
      return l->predicate || l->buffer->data.same_as(store->buffer->data) || (by != 0 && by != 1);
    });
  }
  /// Elements from one iteration to the next; null: not the same number everywhere, or no wide ones.
  std::optional<int64_t> step(const auto& access, const VarRef& v) {
    if (access.indices.size() != 1 || access.buffer->dtype.bits < kLeastBits) return std::nullopt;
    const auto form = affine_form(access.indices[0], {v}, analyzer_);
    if (!form || tensor_detail::mentions(form->base, v.get())) return std::nullopt;
    return form->terms.empty() ? 0 : form->terms[0].second;
  }

  Analyzer analyzer_;
};

}  // namespace

static IRModule vectorize_runs(IRModule module, PassContext& context) {
  return tensor_detail::map_bodies(
      module, context, [](const std::string&, const PrimFunc& f, GivenUpProofs& given_up) -> Stmt {
        if (!f->attrs.get_or("tir.noalias", Any(true)).try_as<bool>().value_or(false)) return {};
        return Runs(f, given_up).stmt(tensor_detail::cut_scalar_loops(f, given_up));
      });
}

const Pass& vectorize_runs_pass = register_pass({
    .name = "vectorize_runs",
    .run = vectorize_runs,
    .level = 2,
    .summary = "what is left of loops that were cut, and walks along memory, is vectors",
    .needs = {"flatten_buffer"},
});

}  // namespace tenon
