// SPDX-License-Identifier: Apache-2.0
// lower_thread_allreduce
//   before: r = T.thread_allreduce("add", x, "threadIdx.x")
//   after:  red[t] = x; sync; if t < 16: red[t] = red[t] + red[t + 16]; sync; …; r = red[0]; sync
// Values of threads are combined in shared memory, half with half; along one warp by exchange between its
// threads.
// Needs: constant numbers of threads, lifted loops. Keeps: the value, up to the order of the combination.
#include <map>

#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;
using tensor_detail::imm;

namespace {

PrimExpr combine(const std::string& op, const PrimExpr& a, const PrimExpr& b) {
  if (op == "add") return make<Add>(a, b);
  if (op == "mul") return make<Mul>(a, b);
  if (op == "min") return make<Min>(a, b);
  if (op == "max") return make<Max>(a, b);
  if (op == "and") return make<And>(a, b);
  return make<Or>(a, b);
}
Stmt sync() {
  return make<tir::Evaluate>(
      call(DataType::void_(), "tir.storage_sync", {make<tir::StringImm>(std::string("shared"))}));
}

class LowerAllreduce : public tensor_detail::Rewriter {
 public:
  Stmt stmt(const Stmt& s) override {
    if (!s) return s;
    if (const auto* n = s.as<For>(); n && tensor_detail::is_thread_loop(*n)) {
      const bool fresh = axes_.emplace(n->thread_tag, n).second;
      const Stmt r = below(s);
      if (fresh) axes_.erase(n->thread_tag);
      return r;
    }
    if (s.is<SeqStmt>()) {
      const Stmt r = below(s);  // a statement may have become several
      return r.same_as(s) ? s : seq(r.as<SeqStmt>()->seq);
    }
    Stmt r = s;
    std::vector<Work> work;
    auto value = [&](const PrimExpr& e) { return taken(e, s, work); };
    if (const auto* n = s.as<LetStmt>()) {
      const PrimExpr v = value(n->value);
      const Stmt body = stmt(n->body);
      r = tensor_detail::edited<LetStmt>(s, [&](LetStmt* m) {
        m->value = v;
        m->body = body;
      });
    } else if (const auto* n = s.as<BufferStore>()) {
      const PrimExpr v = value(n->value);
      r = tensor_detail::edited<BufferStore>(s, [&](BufferStore* m) { m->value = v; });
    } else if (const auto* n = s.as<tir::Evaluate>()) {
      const PrimExpr v = value(n->value);
      r = tensor_detail::edited<tir::Evaluate>(s, [&](tir::Evaluate* m) { m->value = v; });
    } else {
      return below(s);
    }
    for (size_t i = work.size(); i-- > 0;) {
      r = seq({work[i].steps, r});
      for (const Buffer& b : work[i].buffers) r = make<Allocate>(b, r, AttrMap());
    }
    return r;
  }
  PrimExpr expr(const PrimExpr& e) override { return e; }

 private:
  struct Work {
    Stmt steps;
    std::vector<Buffer> buffers;
  };

  PrimExpr taken(const PrimExpr& e, const Stmt& at, std::vector<Work>& work) {
    return rewrite(e, [&](const Call& n) -> PrimExpr {
      return n.op == "tir.thread_allreduce" ? reduced(n, at, work) : PrimExpr();
    });
  }
  PrimExpr reduced(const Call& n, const Stmt& at, std::vector<Work>& work) {
    const std::string op = n.args[0].as<tir::StringImm>()->value;
    PrimExpr place = imm(0), other = imm(0);
    int64_t count = 1, others = 1;
    std::vector<std::string> over;
    for (size_t i = 2; i < n.args.size(); ++i) over.push_back(n.args[i].as<tir::StringImm>()->value);
    for (const std::string& tag : over)
      if (!axes_.count(tag))
        tensor_detail::refuse("T0815", fmt::format("there are no threads along '{}' here", tag), at);
    for (const auto& [tag, loop] : axes_) {
      const auto extent = as_int(loop->extent);
      if (!extent)
        tensor_detail::refuse("T0815", fmt::format("the number of threads along '{}' is not constant", tag),
                              at);
      const PrimExpr index = cast(i64, PrimExpr(loop->loop_var)) - cast(i64, loop->min);
      if (std::find(over.begin(), over.end(), tag) != over.end()) {
        place = place + index * imm(count);
        count *= *extent;
      } else {
        other = other + index * imm(others);
        others *= *extent;
      }
    }
    place = simplify(place);
    const Buffer result = buffer("reduced", {imm(1)}, n.dtype, "local");
    Work w;
    w.buffers.push_back(result);
    Array<Stmt> steps;
    if (over.size() == 1 && over[0] == "threadIdx.x" && count == 32) {
      steps.push_back(store(result, n.args[1], {imm(0)}));
      for (int64_t d = 16; d > 0; d /= 2) {
        const PrimExpr own = load(result, {imm(0)});
        steps.push_back(store(
            result, combine(op, own, call(n.dtype, "tir.warp_shuffle_xor", {own, PrimExpr::int_imm(d, i32)})),
            {imm(0)}));
      }
    } else {
      const Buffer red = buffer("red", {imm(count * others)}, n.dtype, "shared");
      w.buffers.push_back(red);
      const PrimExpr base = simplify(other * imm(count)), mine = simplify(base + place);
      steps.push_back(store(red, n.args[1], {mine}));
      steps.push_back(sync());
      int64_t half = 1;
      while (half * 2 < count) half *= 2;
      for (; half >= 1 && count > 1; half /= 2) {
        PrimExpr active = lt(place, imm(std::min(half, count - half)));
        steps.push_back(make<IfThenElse>(
            active,
            store(red, combine(op, load(red, {mine}), load(red, {simplify(mine + imm(half))})), {mine}),
            Stmt()));
        steps.push_back(sync());
        count = half;
      }
      steps.push_back(store(result, load(red, {base}), {imm(0)}));
      steps.push_back(sync());
    }
    w.steps = seq(steps);
    work.push_back(w);
    return load(result, {imm(0)});
  }

  std::map<std::string, const For*> axes_;
};

}  // namespace

const Pass& lower_thread_allreduce_pass = register_pass({
    .name = "lower_thread_allreduce",
    .run = tensor_detail::each_body_with_threads<LowerAllreduce>,
    .level = 0,
    .summary = "threads combine their values in shared memory",
    .needs = {"lift_thread_binding", "flatten_buffer"},
    .changes = Changes::sum_order,
});

}  // namespace tenon
