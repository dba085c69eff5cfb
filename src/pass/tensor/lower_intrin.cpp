// SPDX-License-Identifier: Apache-2.0
// lower_intrin
//   before: B[i] = T.exp(A[i])
//   after:  B[i] = T.Let(x, A[i], T.exact(T.Let(t, T.fma(x, …), …)))
// Mathematical functions become arithmetic, for one lane and for many alike: the same bits from every code
// generator and from the interpreter. Narrow floats are computed in float32. Over float64 what remains is a
// call of the C library; sigmoid, rsqrt and exp10 are put together from such.
// Needs: nothing; kernels are lowered too. Reads the target (fused multiply-add or not, scaling by powers of
// 2). Keeps: the values within the bounds of docs/numerics.md; a second run changes nothing.
#include "analysis/program_target.h"
#include "ir/find_node.h"
#include "ir/intrinsic.h"
#include "pass/tensor/lowering.h"
#include "pass/tensor/math_expansion.h"
#include "target/target_kind.h"

namespace tenon {

using namespace tir;
using namespace tensor_detail;

namespace {

PrimExpr lanes(const PrimExpr& e, int n) {
  return e.dtype().lanes == n ? e : PrimExpr(make<Broadcast>(e, int64_t(n)));
}
bool is_constant(const PrimExpr& e) {
  if (const auto* b = e.as<Broadcast>()) return is_constant(b->value);
  return e.is<FloatImm>();
}

/// x · 2ⁿ is an instruction, of vectors of any length.
bool scales_floats(const Target& t) { return t->has("avx512f") && t->has("avx512vl"); }

class LowerIntrin : public Rewriter {
 public:
  LowerIntrin(bool fma, bool scales) : math_(fma, scales) {}
  PrimExpr expr(const PrimExpr& e) override {
    if (!e) return e;
    const PrimExpr r = below(e);
    const auto* n = r.as<tir::Call>();
    if (!n || n->args.empty() || !n->args[0].dtype().is_float() || !n->dtype.is_float()) return r;
    if (auto it = done_.find(e.get()); it != done_.end()) return it->second.second;
    const PrimExpr lowered = lower(*n), out = lowered ? lowered : r;
    done_.emplace(e.get(), std::pair{e, out});
    return out;
  }

 private:
  PrimExpr lower(const tir::Call& n) const {
    if (n.op == "tir.wide_term") return cast(n.dtype, n.args[0]);
    if (n.op == "tir.ordered_term") return n.args[0];
    const Intrinsic* known = find_intrinsic(n.op);
    if (!known || !known->vector || n.args.size() > 2) return {};
    const std::string_view name = std::string_view(n.op).substr(4);
    const DataType t = n.dtype;
    const bool wide = t.bits == 64, next = name == "nextafter";
    if (next && t.bits < 32) return {};  // the neighbour in the narrow type
    std::vector<PrimExpr> args;
    std::vector<std::pair<VarRef, PrimExpr>> named;
    for (const PrimExpr& a : n.args) {
      if (!a.dtype().is_float()) return {};
      const DataType type = (wide ? f64 : f32).with_lanes(t.lanes);
      PrimExpr v = lanes(a, t.lanes);
      v = cast(type, v);
      if (!v.is<Var>() && !is_constant(v)) {
        named.emplace_back(var(args.empty() ? "x" : "y", type), v);
        v = named.back().first;
      }
      args.push_back(v);
    }
    PrimExpr r = next                ? math_.nextafter(args[0], args[1])
                 : wide              ? double_precision(name, args)
                 : args.size() == 1u ? math_.unary(name, args[0])
                                     : math_.binary(name, args[0], args[1]);
    if (!r) return {};
    // A plain product may become part of a fused multiply-add, an expansion may not.
    r = r.is<Mul>() && name == "pow" ? share(r) : call(r.dtype(), "tir.exact", {share(r)});
    for (size_t k = named.size(); k-- > 0;) r = make<Let>(named[k].first, named[k].second, r);
    return cast(t, r);
  }
  PrimExpr double_precision(std::string_view name, const std::vector<PrimExpr>& args) const {
    const PrimExpr& x = args[0];
    if (name == "fmod") return math_.fmod(x, args[1]);
    const PrimExpr one = const_of(x.dtype(), 1);
    if (name == "rsqrt") return quotient(one, intrin("tir.sqrt", x));
    if (name == "sigmoid") return quotient(one, add(one, intrin("tir.exp", minus(x))));
    if (name == "exp10") return intrin("tir.pow", const_of(x.dtype(), 10), x);
    return {};
  }

  MathExpansion math_;
  std::unordered_map<const Object*, std::pair<PrimExpr, PrimExpr>> done_;
};

}  // namespace

static IRModule lower_intrin(IRModule module, PassContext& context) {
  return module.map_prim([&](const std::string&, const PrimFunc& f) -> ObjectRef {
    const bool any = any_node(f->body, [&](const ObjectRef& n) {
      const auto* c = n.as<tir::Call>();
      return c && c->dtype.is_float();
    });
    if (!any) return {};
    const Target target = program_target(*f, context.target.cast<TargetNode>());
    // In C text fmaf is a slow call unless the compiler is told of the machine.
    const bool chooses = selects_instructions(target);
    const Stmt body = LowerIntrin(target->fma && chooses, chooses && scales_floats(target)).stmt(f->body);
    if (body.same_as(f->body)) return {};
    PrimFunc out = f;
    out.edit()->body = body;
    return out;
  });
}

const Pass& lower_intrin_pass = register_pass({
    .name = "lower_intrin",
    .run = lower_intrin,
    .level = 0,
    .summary = "mathematical functions become polynomials",
    .changes = Changes::rounding,
});

}  // namespace tenon
