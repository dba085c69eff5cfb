// SPDX-License-Identifier: Apache-2.0
// The least a program must do, whatever its schedule: arithmetic on its values, and each byte of its
// parameters once. Reports compare a kernel's time with it.
#include "analysis/kernel_work.h"

#include <cmath>
#include <unordered_set>

#include "ir/walk.h"

namespace tenon {

using namespace tir;

namespace {

struct Scan {
  std::unordered_map<const tir::Var*, double> accesses;  ///< by the data pointer
  double flop = 0;
  double times = 1;  ///< how often the current statement runs

  /// Arithmetic of a stored value; what only computes positions (indices, conditions) is not counted.
  void value(const PrimExpr& root) {
    std::unordered_set<const Object*> seen;
    std::vector<PrimExpr> stack{root};
    while (!stack.empty()) {
      const PrimExpr e = stack.back();
      stack.pop_back();
      if (!e || !seen.insert(e.get()).second) continue;
      if (const auto* load = e.as<BufferLoad>()) {
        accesses[load->buffer->data.get()] += times * e.dtype().lanes;
        for (const PrimExpr& index : load->indices)
          pre_order(index, [&](const ObjectRef& node) {
            if (const auto* inner = node.as<BufferLoad>())
              accesses[inner->buffer->data.get()] += times * inner->dtype.lanes;
            return true;
          });
        continue;
      }
      if (const auto* select = e.as<Select>()) {
        stack.insert(stack.end(), {select->true_value, select->false_value});
        continue;
      }
      if (const auto* call = e.as<Call>()) {
        const bool choice = call->op == "tir.if_then_else" && call->args.size() == 3;
        if (!choice && call->op != "tir.likely" && call->op != "tir.reinterpret")
          flop += times * e.dtype().lanes * (call->op == "tir.fma" ? 2 : 1);
        for (size_t i = choice ? 1 : 0; i < call->args.size(); ++i) stack.push_back(call->args[i]);
        continue;
      }
      if (e.is<Add>() || e.is<Sub>() || e.is<Mul>() || e.is<Div>() || e.is<Mod>() || e.is<FloorDiv>() ||
          e.is<FloorMod>() || e.is<tir::Min>() || e.is<tir::Max>())
        flop += times * e.dtype().lanes;
      for (const ObjectRef& c : children(e))
        if (c.is<PrimExprNode>()) stack.push_back(PrimExpr(c.cast<PrimExprNode>()));
    }
  }
};

}  // namespace

std::optional<WorkEstimate> kernel_work(const PrimFunc& f) {
  Scan scan;
  std::vector<std::pair<Stmt, double>> stack{{f->body, 1.0}};
  while (!stack.empty()) {
    auto [s, times] = stack.back();
    stack.pop_back();
    if (!s) continue;
    scan.times = times;
    if (const auto* loop = s.as<For>()) {
      const auto trips = as_int(loop->extent);
      if (!trips) return std::nullopt;
      stack.emplace_back(loop->body, times * double(std::max<int64_t>(*trips, 0)));
    } else if (s.is<While>()) {
      return std::nullopt;
    } else if (const auto* realize = s.as<BlockRealize>()) {
      stack.emplace_back(realize->block->body, times);  // the first value of a sum costs nothing
    } else if (const auto* store = s.as<BufferStore>()) {
      scan.value(store->value);
      scan.accesses[store->buffer->data.get()] += times * store->value.dtype().lanes;
    } else {
      for (const ObjectRef& c : children(s)) {
        if (c.is<StmtNode>())
          stack.emplace_back(Stmt(c.cast<StmtNode>()), times);
        else if (c.is<PrimExprNode>() && !s.is<IfThenElse>())
          scan.value(PrimExpr(c.cast<PrimExprNode>()));
      }
    }
  }
  WorkEstimate out{scan.flop, 0};
  for (const VarRef& p : f->params) {
    const std::optional<Buffer> b = f->buffer_map.find(p);
    if (!b) continue;
    auto used = scan.accesses.find((*b)->data.get());
    if (used == scan.accesses.end()) continue;
    double elements = 1;
    for (const PrimExpr& d : (*b)->shape) {
      const auto n = as_int(d);
      if (!n) return std::nullopt;
      elements *= double(*n);
    }
    const int bits = (*b)->dtype.bits * (*b)->dtype.lanes;
    out.bytes += std::ceil(std::min(elements, used->second) * bits / 8);
  }
  return out;
}

}  // namespace tenon
