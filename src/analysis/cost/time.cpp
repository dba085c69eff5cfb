// SPDX-License-Identifier: Apache-2.0
#include "analysis/cost/time.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

#include "analysis/program_target.h"
#include "ir/calls_out.h"
#include "ir/walk.h"

namespace tenon::cost {

using namespace tir;

namespace {

// Fitted to the kernels of convolutional networks on a current core (two vector operations and two accesses a
// cycle at 4 GHz, data mostly in its caches); an older one takes two or three times as long. That costs
// little: the runtime's threshold stands where threads begin to pay, and on slow cores they begin to pay
// sooner.
constexpr double kOperationNs = 0.03, kAccessNs = 0.04, kGatherNs = 0.12, kByteNs = 0.015;
/// Of exp and its kin, in operations: some 20 steps each of which waits for the one before, and no accesses
/// beside them (rows of softmax of 10³ to 10⁵ elements, Zen 4).
constexpr double kFunction = 60;
constexpr double kUnknownTrips = 32;  ///< of a loop whose extent only the call knows

/// What an expression or statement does each time it runs.
class Cost {
 public:
  Cost(const IRModule& module, int64_t vector_bits) : module_(module), vector_bits_(vector_bits) {}

  double nanoseconds(const Stmt& root) {
    statement(root);
    double bytes = 0;
    for (const auto& [data, use] : buffers_) bytes += std::min(use.accessed, use.size);
    return std::max(time_, bytes * kByteNs);
  }

 private:
  struct Use {
    double accessed = 0, size = 0;  ///< bytes; the size is infinite when it is not known
  };

  void statement(const Stmt& root) {
    std::vector<std::pair<Stmt, double>> stack{{root, times_}};
    const double outside = times_;
    while (!stack.empty()) {
      auto [s, times] = stack.back();
      stack.pop_back();
      if (!s) continue;
      times_ = times;
      if (const auto* loop = s.as<For>()) {
        const auto n = as_int(loop->extent);
        const double trips = n ? double(std::max<int64_t>(*n, 0)) : kUnknownTrips;
        time_ += times * trips * kOperationNs;
        stack.emplace_back(loop->body, times * trips);
      } else if (const auto* choice = s.as<IfThenElse>()) {
        value(choice->condition);
        // Usually the second part is the edge.
        stack.emplace_back(choice->then_case, times);
        stack.emplace_back(choice->else_case, times / 4);
      } else if (const auto* store = s.as<BufferStore>()) {
        value(store->value);
        access(store->buffer, store->indices, store->value.dtype());
      } else {
        for (const ObjectRef& c : children(s)) {
          if (c.is<StmtNode>())
            stack.emplace_back(c.cast<StmtNode>(), times);
          else if (c.is<PrimExprNode>())
            value(PrimExpr(c.cast<PrimExprNode>()));
        }
      }
    }
    times_ = outside;
  }

  /// Vector instructions that `t` takes.
  double parts(DataType t) const {
    return std::max(1.0, double(t.lanes) * t.bits / double(std::max<int64_t>(vector_bits_, 128)));
  }

  void access(const Buffer& b, const Array<PrimExpr>& indices, DataType t) {
    bool gathers = false;
    for (const PrimExpr& i : indices) {
      if (i.dtype().lanes > 1) {
        const auto* ramp = i.as<Ramp>();
        gathers = !(ramp && as_int(ramp->stride) == 1);
      }
      value(i, /*inside_index=*/true);
    }
    time_ += times_ * (gathers ? t.lanes * kGatherNs : parts(t) * kAccessNs);
    Use& use = buffers_[b->data.get()];
    use.accessed += times_ * double(t.lanes) * t.bits / 8;
    double elements = 1;
    for (const PrimExpr& d : b->shape) {
      const auto n = as_int(d);
      elements *= n ? double(*n) : INFINITY;
    }
    // A local buffer stays in the first-level cache: its accesses are counted, its bytes are not.
    use.size = std::max(use.size, b->scope == "local" ? 0 : elements * b->dtype.bits * b->dtype.lanes / 8);
  }

  /// Scalar arithmetic on indices is mostly done once, outside of loops: only what is read there counts.
  void value(const PrimExpr& root, bool inside_index = false) {
    std::unordered_map<const Object*, bool> seen;
    std::vector<PrimExpr> stack{root};
    while (!stack.empty()) {
      const PrimExpr e = stack.back();
      stack.pop_back();
      if (!e || e.is<tir::Var>() || e.is<IntImm>() || e.is<FloatImm>() || !seen.emplace(e.get(), true).second)
        continue;
      if (const auto* load = e.as<BufferLoad>()) {
        access(load->buffer, load->indices, e.dtype());
        continue;
      }
      const bool counts = !inside_index || e.dtype().lanes > 1;
      if (const auto* call = e.as<Call>()) {
        if (tir::calls_out(call->op))
          time_ += times_ * called(*call);
        else if (counts)
          time_ += times_ * parts(e.dtype()) * kOperationNs * intrinsic(call->op);
      } else if (e.is<Div>() || e.is<Mod>() || e.is<FloorDiv>() || e.is<FloorMod>()) {
        if (counts) time_ += times_ * parts(e.dtype()) * kOperationNs * 8;
      } else if (counts && !e.is<Broadcast>() && !e.is<Ramp>() && !e.is<Let>()) {
        time_ += times_ * parts(e.dtype()) * kOperationNs;
      }
      for (const ObjectRef& c : children(e))
        if (c.is<PrimExprNode>()) stack.push_back(PrimExpr(c.cast<PrimExprNode>()));
    }
  }

  static double intrinsic(std::string_view op) {
    if (op.starts_with("tir.kernel_") || op == "tir.reinterpret" || op == "tir.likely" ||
        op == "tir.ordered_term" || op == "tir.address_of" || op == "tir.undef")
      return 0;
    if (op == "tir.fma" || op == "tir.if_then_else" || op == "tir.abs" || op == "tir.floor" ||
        op == "tir.ceil" || op == "tir.round" || op == "tir.trunc" || op.starts_with("tir.bitwise") ||
        op.starts_with("tir.shift") || op.starts_with("tir.is"))
      return 1;
    if (op == "tir.sqrt" || op == "tir.rsqrt" || op == "tir.ldexp") return 8;
    return kFunction;
  }

  /// Time of a program of the module; of C functions some tens of nanoseconds.
  double called(const Call& call) {
    const auto* name = call.args.empty() ? nullptr : call.args[0].as<StringImm>();
    const auto f = name && call.op == "tir.call_prim_func" ? module_.find(name->value).cast<PrimFuncNode>()
                                                           : tir::PrimFunc();
    if (!f || depth_ >= 3) return 30;
    auto [known, fresh] = callees_.emplace(name->value, 0.0);
    if (fresh) {
      Cost callee(module_, vector_bits_);
      callee.depth_ = depth_ + 1;
      known->second = callee.nanoseconds(f->body);
    }
    return known->second;
  }

  const IRModule& module_;
  int64_t vector_bits_;
  int depth_ = 0;
  double times_ = 1, time_ = 0;
  std::unordered_map<const tir::Var*, Use> buffers_;
  std::map<std::string, double> callees_;
};

}  // namespace

double nanoseconds(const Stmt& statement, const IRModule& module, int64_t vector_bits) {
  return Cost(module, vector_bits).nanoseconds(statement);
}

double trips_of(const For& loop) {
  const auto n = as_int(loop.extent);
  return n ? double(std::max<int64_t>(*n, 1)) : kUnknownTrips;
}

int64_t usual_vector_bits(const PrimFuncNode& f, const Target& target) {
  constexpr int64_t kUsualBits = 256;
  const bool any = !target && !f.attrs.contains("target");
  return any ? kUsualBits : program_target(f, target)->vector_bits;
}

}  // namespace tenon::cost
