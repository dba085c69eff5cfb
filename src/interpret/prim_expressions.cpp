// SPDX-License-Identifier: Apache-2.0
// What expressions of tensor programs mean: a value for each lane.
#include "interpret/prim_impl.h"
#include "ir/node_groups.h"

namespace tenon::prim_interpreter {

Lanes Interpreter::eval(const PrimExpr& e) {
  return match<Lanes>(
      e, [&](const IntImm& n) { return Lanes(n.dtype, n.value); },
      [&](const FloatImm& n) { return Lanes(n.dtype, n.value); },
      [&](const tir::StringImm&) -> Lanes { error("T0350", "a string has no value in a tensor program"); },
      [&](const Var& n) -> Lanes {
        auto it = vars_.find(&n);
        if (it == vars_.end()) error("T0350", fmt::format("variable {} has no value here", n.name));
        return it->second;
      },
      [&](const BinaryNode auto& n) {
        return arithmetic_.binary(n.type_index, eval(n.a), eval(n.b), n.dtype);
      },
      [&](const Not& n) {
        Lanes v = eval(n.a);
        for (size_t i = 0; i < v.size(); ++i) v[i].i = !v[i].i;
        return v;
      },
      [&](const Select& n) {
        const Lanes c = eval(n.condition), t = eval(n.true_value), f = eval(n.false_value);
        Lanes out(n.dtype);
        for (size_t i = 0; i < out.size(); ++i) out[i] = c[c.size() == 1 ? 0 : i].i ? t[i] : f[i];
        return out;
      },
      [&](const Cast& n) { return arithmetic_.cast(eval(n.value), n.dtype); },
      [&](const BufferLoad& n) { return load(n); },
      [&](const ProducerLoad& n) {
        const std::vector<int64_t> at = integers(n.indices);
        const Produced& p = produced(n.producer);
        const int64_t index = flat(p.array.shape(), at, n.producer->name);
        if (!p.stored[size_t(index)])
          error("T0359", fmt::format("element [{}] of tensor {} is read before it is stored",
                                     fmt::join(at, ", "), n.producer->name));
        return read(p.array, index, n.dtype);
      },
      [&](const Ramp& n) {
        const int64_t base = integer(n.base), stride = integer(n.stride);
        Lanes out(n.dtype);
        for (size_t i = 0; i < out.size(); ++i)
          out[i].i = interpret_detail::wrap(int64_t(uint64_t(base) + i * uint64_t(stride)), n.dtype);
        return out;
      },
      [&](const Broadcast& n) {
        const Lanes v = eval(n.value);
        Lanes out(n.dtype);
        for (size_t i = 0; i < out.size(); ++i) out[i] = v[0];
        return out;
      },
      [&](const Shuffle& n) {
        std::vector<Lane> all;
        for (const PrimExpr& v : n.vectors) {
          const Lanes x = eval(v);
          for (size_t i = 0; i < x.size(); ++i) all.push_back(x[i]);
        }
        Lanes out(n.dtype);
        for (size_t i = 0; i < out.size(); ++i) out[i] = all.at(size_t(n.indices[i]));
        return out;
      },
      [&](const Let& n) {
        vars_[n.var.get()] = eval(n.value);
        return eval(n.body);
      },
      [&](const tir::Call& n) { return call(n); }, [&](const Reduce& n) { return reduce(n); });
}

Lanes Interpreter::reduce(const Reduce& n) {
  const CommReducerNode& c = *n.combiner;
  std::vector<Lanes> total;
  for (size_t i = 0; i < c.identity.size(); ++i)
    total.push_back(eval(n.init.empty() ? c.identity[i] : n.init[i]));
  std::vector<int64_t> at, first, extent;
  for (const IterVar& v : n.axis) {
    first.push_back(integer(v->dom->min));
    extent.push_back(integer(v->dom->extent));
  }
  for (int64_t e : extent)
    if (e <= 0) return total[size_t(n.value_index)];
  at.assign(extent.size(), 0);
  for (;;) {
    for (size_t i = 0; i < at.size(); ++i)
      vars_[n.axis[i]->var.get()] = Lanes(n.axis[i]->var->dtype, later(first[i], at[i]));
    if (!n.condition || integer(n.condition)) {
      for (size_t i = 0; i < total.size(); ++i) {
        vars_[c.rhs[i].get()] = eval(n.source[i]);
        vars_[c.lhs[i].get()] = total[i];
      }
      std::vector<Lanes> next;
      for (const PrimExpr& r : c.result) next.push_back(eval(r));
      total = std::move(next);
    }
    count_step();
    size_t d = at.size();
    while (d > 0 && ++at[d - 1] == extent[d - 1]) at[--d] = 0;
    if (d == 0) return total[size_t(n.value_index)];
  }
}

Lanes Interpreter::call(const tir::Call& n) {
  if (n.op == "tir.if_then_else") return eval(integer(n.args[0]) ? n.args[1] : n.args[2]);
  if (n.op == "tir.likely") return eval(n.args[0]);
  if (n.op == "tir.select_rare") {
    const Lanes condition = eval(n.args[0]);
    Lanes out = eval(n.args[2]), rare;
    bool known = false;
    for (size_t i = 0; i < out.size(); ++i) {
      if (!condition[condition.size() == 1 ? 0 : i].i) continue;
      if (!known) rare = eval(n.args[1]);
      known = true;
      out[i] = rare[i];
    }
    return out;
  }
  if (n.op == "tir.prefetch") return Lanes(n.dtype);
  if (n.op == "tir.assume") {
    if (!integer(n.args[0])) error("T0354", "an assumption does not hold");
    return Lanes(n.dtype);
  }
  if (n.op == "tir.ret") {
    const Lanes result = eval(n.args[0]);
    jump_ = Jump::end_of_program;
    return result;
  }
  if (n.op == "tir.break_loop" || n.op == "tir.continue_loop") {
    jump_ = n.op == "tir.break_loop" ? Jump::end_of_loop : Jump::next_iteration;
    return Lanes(n.dtype);
  }
  if (n.op == "tir.call_prim_func") {
    call_prim_func(n);
    return Lanes(n.dtype);
  }
  if (n.op == "tir.call_packed") return call_packed(n);
  if (n.op == "tir.call_extern") return call_extern(n);
  if (n.op.starts_with("tir.atomic_")) return atomic(n);
  if (n.op.starts_with("tir.mma_")) return fragment(n);
  if (n.op.starts_with("tir.async_")) return async(n);
  if (n.op == "tir.storage_sync") {
    team_.barrier(&n);
    return Lanes(n.dtype);
  }
  if (n.op == "tir.thread_allreduce" || n.op.starts_with("tir.warp_shuffle")) return collective(n);
  if (n.op == "tir.dot")
    return arithmetic_.dot(eval(n.args[0]), eval(n.args[1]), eval(n.args[2]),
                           dot_group(n.args[0], n.args[1], n.args[2]));
  if (n.op.starts_with("tir.vector_reduce_")) return arithmetic_.reduce_lanes(n.op, eval(n.args[0]));
  const Intrinsic* intrinsic = find_intrinsic(n.op);
  if (!intrinsic || !intrinsic->vector) error("T0350", fmt::format("the interpreter cannot run `{}`", n.op));
  std::vector<Lanes> args;
  for (const PrimExpr& a : n.args) args.push_back(eval(a));
  return arithmetic_.intrinsic(*intrinsic, args, n.dtype);
}

}  // namespace tenon::prim_interpreter
