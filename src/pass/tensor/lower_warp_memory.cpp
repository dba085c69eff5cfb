// SPDX-License-Identifier: Apache-2.0
// lower_warp_memory
//   before: W = warp(32); W[t] = A[t]; sync; B[t] = W[31 - t]
//   after:  W = local(1); W[0] = A[t]; B[t] = T.warp_shuffle(W[0], 31 - t)
// Memory of a warp lies in the registers of its 32 threads, element e at thread e % 32: each thread writes
// its own, and reads others' by exchange. Needs: flat buffers of a constant multiple of 32 elements, lifted
// loops, threads along x in whole warps. Keeps: every value.
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;
using tensor_detail::imm;

namespace {

constexpr int64_t warp = 32;

class Warp : public tensor_detail::Rewriter {
 public:
  Stmt stmt(const Stmt& s) override {
    if (!s) return s;
    if (const auto* n = s.as<For>()) {
      analyzer_.bind(n->loop_var, range(n->min, n->extent));
      if (n->thread_tag == "threadIdx.x" && n->kind == ForKind::thread_binding) {
        const For* outer = x_;
        x_ = n;
        const Stmt r = below(s);
        x_ = outer;
        return r;
      }
      return below(s);
    }
    if (const auto* n = s.as<Allocate>(); n && n->buffer->scope == "warp") {
      const auto size = n->buffer->shape.size() == 1 ? as_int(n->buffer->shape[0]) : std::nullopt;
      const auto threads = x_ ? as_int(x_->extent) : std::nullopt;
      if (!size || *size % warp || !threads || *threads % warp)
        tensor_detail::refuse(
            "T0815",
            fmt::format("buffer '{}' of a warp has no constant multiple of {} elements, or its "
                        "threads are no whole warps",
                        n->buffer->name, warp),
            s);
      Buffer b = n->buffer;
      BufferNode* e = b.edit();
      e->shape = {imm(*size / warp)};
      e->scope = "local";
      e->data = var(n->buffer->data->name, n->buffer->data->dtype);
      own_.emplace(n->buffer.get(), b);
      const Stmt body = stmt(n->body);
      return tensor_detail::edited<Allocate>(s, [&](Allocate* m) {
        m->buffer = b;
        m->body = body;
      });
    }
    if (const auto* n = s.as<BufferStore>())
      if (auto it = own_.find(n->buffer.get()); it != own_.end()) {
        const PrimExpr value = expr(n->value), at = expr(n->indices[0]);
        if (!is_zero(analyzer_.simplify(floormod(at - lane(), imm(warp)))))
          tensor_detail::refuse("T0815",
                                fmt::format("a thread stores to an element of '{}' that another thread holds",
                                            it->second->name),
                                s, "let thread t of the warp store the elements t, t + 32, …");
        return tensor_detail::edited<BufferStore>(s, [&](BufferStore* m) {
          m->buffer = it->second;
          m->value = value;
          m->indices = {analyzer_.simplify(floordiv(at, imm(warp)))};
        });
      }
    return below(s);
  }
  PrimExpr expr(const PrimExpr& e) override {
    const auto* n = e ? e.as<BufferLoad>() : nullptr;
    auto it = n ? own_.find(n->buffer.get()) : own_.end();
    if (it == own_.end()) return e ? below(e) : e;
    const PrimExpr at = expr(n->indices[0]);
    const PrimExpr place = analyzer_.simplify(floordiv(at, imm(warp))),
                   from = analyzer_.simplify(floormod(at, imm(warp)));
    const PrimExpr value = load(it->second, {place});
    if (is_zero(analyzer_.simplify(floormod(at - lane(), imm(warp))))) return value;
    if (tensor_detail::mentions(place, x_->loop_var.get()))
      fail("T0815", fmt::format("threads of a warp read different rows of '{}'", it->second->name), {},
           "give the row by what is the same for the warp");
    return call(n->dtype, "tir.warp_shuffle", {value, from});
  }

 private:
  PrimExpr lane() const {
    return floormod(cast(i64, PrimExpr(x_->loop_var)) - cast(i64, x_->min), imm(warp));
  }
  const For* x_ = nullptr;
  Analyzer analyzer_;
  BufferMap own_;
};

}  // namespace

const Pass& lower_warp_memory_pass = register_pass({
    .name = "lower_warp_memory",
    .run = tensor_detail::each_body_with_threads<Warp>,
    .level = 0,
    .summary = "memory of a warp lies in the registers of its threads",
    .needs = {"lift_thread_binding", "flatten_buffer"},
});

}  // namespace tenon
