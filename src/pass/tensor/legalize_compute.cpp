// SPDX-License-Identifier: Apache-2.0
// Operations on narrow floats through float32 (see legalize.h).
#include "ir/find_node.h"
#include "ir/intrinsic.h"
#include "ir/node_groups.h"
#include "pass/tensor/legalize.h"
#include "pass/tensor/math_expansion.h"

namespace tenon::tensor_detail {

using namespace tir;

namespace {

class Compute : public Rewriter {
 public:
  Compute(NarrowTypes narrow, Target target) : narrow_(narrow), target_(std::move(target)) {}

  PrimExpr expr(const PrimExpr& e) override {
    if (!e) return e;
    if (auto it = done_.find(e.get()); it != done_.end()) return it->second.second;
    const PrimExpr r = below(e), out = legal(r);
    done_.emplace(e.get(), std::pair{e, out});
    return out;
  }

 private:
  bool narrow(const PrimExpr& e) const { return narrow_(e.dtype().element()); }
  static PrimExpr wide(const PrimExpr& e) { return cast(f32.with_lanes(e.dtype().lanes), e); }

  template <class T>
  PrimExpr operation(const PrimExpr& e, const T& n) const {
    if (!narrow(n.a)) return e;
    const PrimExpr r = make<T>(wide(n.a), wide(n.b));
    return r.dtype().is_bool() ? r : cast(n.a.dtype(), r);
  }

  /// Lanes i and i + n/2 are combined until one is left, each sum rounded: the order is part of the meaning.
  static PrimExpr reduced(const std::string& op, PrimExpr v) {
    const DataType t = v.dtype().element();
    auto part = [](const PrimExpr& e, int from, int n) -> PrimExpr {
      Array<int64_t> order;
      for (int k = 0; k < n; ++k) order.push_back(from + k);
      return make<Shuffle>(Array<PrimExpr>{e}, order);
    };
    std::vector<std::pair<VarRef, PrimExpr>> named;
    for (int lanes = v.dtype().lanes; lanes > 1; lanes = lanes / 2 + lanes % 2) {
      named.emplace_back(var("t", v.dtype()), v);
      const PrimExpr whole = named.back().first;
      const int half = lanes / 2;
      const PrimExpr a = wide(part(whole, 0, half)), b = wide(part(whole, half, half));
      const PrimExpr sum = op == "tir.vector_reduce_add"   ? PrimExpr(make<Add>(a, b))
                           : op == "tir.vector_reduce_max" ? PrimExpr(make<Max>(a, b))
                                                           : PrimExpr(make<Min>(a, b));
      v = cast(t.with_lanes(half), sum);
      if (lanes % 2) {
        Array<int64_t> order;
        for (int k = 0; k <= half; ++k) order.push_back(k);
        v = make<Shuffle>(Array<PrimExpr>{v, part(whole, lanes - 1, 1)}, order);
      }
    }
    for (size_t k = named.size(); k-- > 0;) v = make<Let>(named[k].first, named[k].second, v);
    return v;
  }

  /// Lane l of the sums plus the products of its neighbours, one after the other, as the intrinsic says.
  PrimExpr dot(const PrimExpr& e, const tir::Call& n) const {
    const int64_t group = dot_group(n.args[0], n.args[1], n.args[2]), lanes = n.dtype.lanes;
    if (group == 0) return e;
    if (n.args[1].dtype().element() == DataType::bfloat16() && multiplies_bf16(target_, lanes)) return e;
    const VarRef a = var("a", n.args[1].dtype()), b = var("b", n.args[2].dtype());
    auto part = [&](const VarRef& v, int64_t q) {
      const bool serves_all = v->dtype.lanes == group;
      Array<int64_t> order;
      for (int64_t l = 0; l < (serves_all ? 1 : lanes); ++l) order.push_back(l * group + q);
      const PrimExpr own = cast(f32.with_lanes(int(order.size())),
                                PrimExpr(make<Shuffle>(Array<PrimExpr>{PrimExpr(v)}, order)));
      return serves_all && lanes > 1 ? PrimExpr(make<Broadcast>(own, lanes)) : own;
    };
    PrimExpr sum = n.args[0];
    for (int64_t q = 0; q < group; ++q) sum = make<Add>(sum, PrimExpr(make<Mul>(part(a, q), part(b, q))));
    return make<Let>(a, n.args[1], PrimExpr(make<Let>(b, n.args[2], sum)));
  }

  PrimExpr legal(const PrimExpr& e) const {
    return match<PrimExpr>(
        e, [&](const ArithmeticNode auto& n) { return operation(e, n); },
        [&](const ComparisonNode auto& n) { return operation(e, n); },
        [&](const Cast& n) {
          const bool from = narrow(n.value), to = narrow(e);
          if (!from && !to) return e;
          if ((from && e.dtype().element() == f32) || (to && n.value.dtype().element() == f32)) return e;
          const PrimExpr middle = wide(n.value);
          return to && from && n.value.dtype() == e.dtype() ? n.value : cast(e.dtype(), middle);
        },
        [&](const tir::Call& n) {
          static constexpr std::string_view moves[] = {
              "tir.if_then_else", "tir.select_rare", "tir.exact",      "tir.ordered_term", "tir.likely",
              "tir.reinterpret",  "tir.undef",       "tir.address_of", "tir.prefetch",     "tir.nextafter"};
          const Intrinsic* known = find_intrinsic(n.op);
          if (!known || std::find(std::begin(moves), std::end(moves), n.op) != std::end(moves)) return e;
          if (n.op.starts_with("tir.vector_reduce_"))
            return narrow(n.args[0]) && n.args[0].dtype().is_vector() ? reduced(n.op, n.args[0]) : e;
          if (n.op == "tir.dot") return narrow(n.args[1]) ? dot(e, n) : e;
          if (!known->vector) return e;
          bool any = false;
          Array<PrimExpr> args;
          for (const PrimExpr& a : n.args) {
            any = any || narrow(a);
            args.push_back(narrow(a) ? wide(a) : a);
          }
          if (!any) return e;
          const DataType t = n.dtype;
          return narrow_(t.element()) ? cast(t, call(f32.with_lanes(t.lanes), n.op, args))
                                      : call(t, n.op, args);
        },
        [&](const PrimExprNode&) { return e; });
  }

  NarrowTypes narrow_;
  Target target_;
  std::unordered_map<const Object*, std::pair<PrimExpr, PrimExpr>> done_;
};

}  // namespace

bool has_narrow(const PrimFunc& f, NarrowTypes narrow) {
  return any_node(f->body, [&](const ObjectRef& n) {
    const auto* e = n.as<PrimExprNode>();
    const auto* b = n.as<BufferNode>();
    return (e && narrow(e->dtype.element())) || (b && narrow(b->dtype));
  });
}

IRModule legalize_compute(IRModule module, NarrowTypes narrow, const PassContext& context) {
  return module.map_prim([&](const std::string&, const PrimFunc& f) -> ObjectRef {
    if (!has_narrow(f, narrow)) return {};
    const Stmt body = Compute(narrow, program_target(*f, context.target.cast<TargetNode>())).stmt(f->body);
    if (body.same_as(f->body)) return {};
    PrimFunc out = f;
    out.edit()->body = body;
    return out;
  });
}

}  // namespace tenon::tensor_detail
