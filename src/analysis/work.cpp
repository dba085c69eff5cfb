// SPDX-License-Identifier: Apache-2.0
// A rough count of what a statement does: floating operations and bytes moved.
#include "analysis/region.h"

namespace tenon {

using namespace tir;

namespace {

/// Cost of intrinsics in floating operations, as polynomial kernels take.
double intrinsic_cost(std::string_view op) {
  if (op == "tir.sqrt" || op == "tir.rsqrt") return 6;
  if (op == "tir.pow" || op == "tir.atan2" || op == "tir.fmod") return 40;
  if (op == "tir.fma" || op == "tir.dot") return 2;  // of a dot product: in time
  if (op == "tir.floor" || op == "tir.ceil" || op == "tir.round" || op == "tir.trunc" || op == "tir.abs" ||
      op == "tir.if_then_else" || op == "tir.likely" || op.starts_with("tir.bitwise") ||
      op.starts_with("tir.shift") || op.starts_with("tir.is"))
    return 1;
  if (op.starts_with("tir.kernel_") || op == "tir.reinterpret" || op == "tir.undef" || op == "tir.address_of")
    return 0;
  return 16;
}

struct Counter {
  std::unordered_map<const Object*, WorkEstimate> memo;  ///< shared expressions count at each use

  WorkEstimate expr(const PrimExpr& e) {
    if (!e || e.is<IntImm>() || e.is<FloatImm>() || e.is<Var>()) return {};
    if (auto it = memo.find(e.get()); it != memo.end()) return it->second;
    WorkEstimate w;
    for (const ObjectRef& c : children(e)) {
      if (!c.is<PrimExprNode>()) continue;
      const WorkEstimate x = expr(PrimExpr(c.cast<PrimExprNode>()));
      w.flop += x.flop;
      w.bytes += x.bytes;
    }
    const double lanes = e.dtype().lanes;
    if (e.is<BufferLoad>()) {
      w.bytes += e.dtype().bytes();
      w.flop += 0;
    } else if (const auto* c = e.as<Call>()) {
      w.flop += lanes * intrinsic_cost(c->op);
    } else if (e.is<Div>()) {
      w.flop += lanes * (e.dtype().is_float() ? 4 : 8);
    } else if (!e.is<Broadcast>() && !e.is<Ramp>() && !e.is<Let>() && e.dtype().is_float()) {
      w.flop += lanes;
    } else if (e.is<FloorDiv>() || e.is<FloorMod>()) {
      w.flop += 2 * lanes;
    } else if (e.dtype().is_bool() || e.dtype().is_integer()) {
      w.flop += 0.25 * lanes;
    }
    memo.emplace(e.get(), w);
    return w;
  }

  static void add(WorkEstimate& to, const WorkEstimate& w, double times = 1) {
    to.flop += w.flop * times;
    to.bytes += w.bytes * times;
  }

  WorkEstimate stmt(const Stmt& s) {
    WorkEstimate w;
    if (!s) return w;
    match<void>(
        s,
        [&](const For& n) {
          // A symbolic extent counts by its constant upper bound when it has a small one, else once.
          double trips = 1;
          if (auto v = as_int(n.extent)) {
            trips = double(std::max<int64_t>(*v, 0));
          } else {
            const ConstBound b = analyzer.bound(n.extent);
            if (b.max != ConstBound::pos_inf) trips = double(std::max<int64_t>(b.max, 0));
          }
          analyzer.bind(n.loop_var, range(n.min, n.extent));
          add(w, stmt(n.body), trips);
        },
        [&](const IfThenElse& n) {
          add(w, expr(n.condition));
          const WorkEstimate a = stmt(n.then_case), b = stmt(n.else_case);
          add(w, {std::max(a.flop, b.flop), std::max(a.bytes, b.bytes)});
        },
        [&](const BlockRealize& n) {
          for (const PrimExpr& v : n.iter_values) add(w, expr(v));
          add(w, stmt(n.block));
        },
        [&](const Block& n) { add(w, stmt(n.body)); },
        [&](const BufferStore& n) {
          add(w, expr(n.value));
          for (const PrimExpr& i : n.indices) add(w, expr(i));
          w.bytes += n.value.dtype().bytes();
        },
        [&](const StmtNode&) {
          for (const ObjectRef& c : children(s)) {
            if (c.is<PrimExprNode>())
              add(w, expr(PrimExpr(c.cast<PrimExprNode>())));
            else if (c.is<StmtNode>())
              add(w, stmt(c.cast<StmtNode>()));
          }
        });
    return w;
  }
  Analyzer analyzer;
};

}  // namespace

WorkEstimate estimate_work(const tir::Stmt& s) { return Counter().stmt(s); }

}  // namespace tenon
