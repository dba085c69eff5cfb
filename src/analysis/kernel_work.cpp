// SPDX-License-Identifier: Apache-2.0
// The least a program must do, whatever its schedule: arithmetic on its values, and each byte of its
// parameters once. Reports compare a kernel's time with it.
#include "analysis/kernel_work.h"

#include <fmt/format.h>

#include <cmath>
#include <unordered_set>

#include "ir/intrinsic.h"
#include "ir/walk.h"

namespace tenon {

using namespace tir;

namespace {

/// The type that a factor is read as, before it is widened; padding aside.
DataType read_type(const PrimExpr& e) {
  if (const auto* c = e.as<Cast>()) return read_type(c->value);
  if (const auto* s = e.as<Select>()) return read_type(s->true_value);
  const auto* call = e.as<Call>();
  if (call && call->op == "tir.if_then_else") return read_type(call->args[1]);
  return e.dtype();
}
enum class Factors { any, bytes, bf16 };
Factors factors_of(const DataType& a, const DataType& b) {
  const auto byte = [](const DataType& t) { return t.is_integer() && t.bits == 8; };
  if (byte(a) && byte(b)) return Factors::bytes;
  return a.code == TypeCode::BFloat && b.code == TypeCode::BFloat ? Factors::bf16 : Factors::any;
}
/// Factors of a product, or of one that is added to something.
Factors factors_of(const PrimExpr& e) {
  if (const auto* m = e.as<Mul>()) return factors_of(read_type(m->a), read_type(m->b));
  const auto* sum = e.as<Add>();
  if (!sum) return Factors::any;
  return sum->a.is<Mul>() ? factors_of(sum->a) : sum->b.is<Mul>() ? factors_of(sum->b) : Factors::any;
}

struct Scan {
  std::unordered_map<const tir::Var*, double> accesses;  ///< by the data pointer
  KernelWork work;
  double times = 1;  ///< how often the current statement runs

  void count(double operations, Factors factors) {
    work.flop += operations;
    if (factors == Factors::bytes) work.dot_bytes += operations;
    if (factors == Factors::bf16) work.dot_bf16 += operations;
  }
  void count(const tir::Call& call) {
    const double lanes = times * call.dtype.lanes;
    if (call.op != "tir.dot") return count(lanes * (call.op == "tir.fma" ? 2 : 1), Factors::any);
    count(lanes * 2 * double(dot_group(call.args[0], call.args[1], call.args[2])),
          factors_of(call.args[1].dtype().element(), call.args[2].dtype().element()));
  }
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
        if (!choice && call->op != "tir.likely" && call->op != "tir.reinterpret") count(*call);
        for (size_t i = choice ? 1 : 0; i < call->args.size(); ++i) stack.push_back(call->args[i]);
        continue;
      }
      if (e.is<Add>() || e.is<Sub>() || e.is<Mul>() || e.is<Div>() || e.is<Mod>() || e.is<FloorDiv>() ||
          e.is<FloorMod>() || e.is<tir::Min>() || e.is<tir::Max>())
        count(times * e.dtype().lanes, factors_of(e));
      for (const ObjectRef& c : children(e))
        if (c.is<PrimExprNode>()) stack.push_back(PrimExpr(c.cast<PrimExprNode>()));
    }
  }
};

}  // namespace

std::optional<KernelWork> kernel_work(const PrimFunc& f) {
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
  KernelWork out = scan.work;
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

std::string work_text(const KernelWork& work) {
  return fmt::format("{:.0f} {:.0f} {:.0f} {:.0f}", work.flop, work.bytes, work.dot_bytes, work.dot_bf16);
}

}  // namespace tenon
