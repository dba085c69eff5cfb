// SPDX-License-Identifier: Apache-2.0
// merge_shared_memory_allocations
//   before: for t in threadIdx.x: S = shared f32(32); …; H = shared f16(64); …
//   after:  shared = uint8(128); for t in threadIdx.x: S = view at 0; …; sync; H = view at 0; …
// All shared memory of a kernel is one allocation. Buffers whose uses do not overlap in time lie at one
// place, with a barrier between them; sizes and offsets are multiples of 16 bytes. Needs: flat buffers of
// constant size, lifted loops. Keeps: every value.
#include <map>
#include <unordered_set>

#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;
using tensor_detail::imm;

namespace {

bool is_sync(const Stmt& s) {
  const auto* e = s.as<tir::Evaluate>();
  const auto* c = e ? e->value.as<Call>() : nullptr;
  return c && c->op == "tir.storage_sync";
}

struct Item {
  Buffer buffer;
  int64_t bytes = 0, offset = 0;
  size_t first = 0, last = SIZE_MAX;  ///< steps of the kernel
};

class Merge : public tensor_detail::Rewriter {
 public:
  Stmt stmt(const Stmt& s) override {
    const auto* n = s ? s.as<For>() : nullptr;
    return n && tensor_detail::is_thread_loop(*n) ? kernel(s) : s ? below(s) : s;
  }
  PrimExpr expr(const PrimExpr& e) override { return e; }

 private:
  Stmt kernel(const Stmt& s) {
    std::vector<Item> items;
    pre_order(s, [&](const ObjectRef& n) {
      if (const auto* a = n.as<Allocate>(); a && a->buffer->scope.starts_with("shared")) {
        const auto size = a->buffer->shape.size() == 1 ? as_int(a->buffer->shape[0]) : std::nullopt;
        if (size && *size >= 0) {
          const int64_t bytes = (*size * a->buffer->dtype.bytes() + 15) / 16 * 16;
          items.push_back({a->buffer, bytes, 0, 0, SIZE_MAX});
        }
      }
      return n.is<StmtNode>() || n.is<ArrayObj>();
    });
    if (items.size() < 2) return s;
    // The steps: the first sequence below what only declares.
    Stmt at = s;
    for (;;) {
      if (const auto* f = at.as<For>(); f && f->kind == ForKind::thread_binding)
        at = f->body;
      else if (const auto* a = at.as<Allocate>())
        at = a->body;
      else if (const auto* d = at.as<DeclBuffer>())
        at = d->body;
      else if (const auto* a = at.as<AttrStmt>())
        at = a->body;
      else
        break;
    }
    const auto* steps = at.as<SeqStmt>();
    if (steps) {
      std::unordered_map<const Var*, size_t> of;
      for (size_t i = 0; i < items.size(); ++i) {
        of[items[i].buffer->data.get()] = i;
        items[i].first = SIZE_MAX;
        items[i].last = 0;
      }
      for (size_t k = 0; k < steps->seq.size(); ++k)
        pre_order(steps->seq[k], [&](const ObjectRef& n) {
          const BufferNode* b = n.as<BufferNode>();
          if (!b) return true;
          if (auto it = of.find(b->data.get()); it != of.end()) {
            items[it->second].first = std::min(items[it->second].first, k);
            items[it->second].last = std::max(items[it->second].last, k);
          }
          return false;
        });
    }
    // By first use, each at the lowest place that is free while it lives.
    std::vector<size_t> order(items.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return items[a].first < items[b].first; });
    int64_t total = 0;
    std::unordered_set<size_t> waits;  // steps before which memory changes hands
    std::vector<size_t> placed;
    for (size_t i : order) {
      Item& x = items[i];
      if (x.first > x.last) x.first = 0, x.last = SIZE_MAX;
      std::vector<std::pair<int64_t, int64_t>> taken;
      for (size_t j : placed)
        if (!(items[j].last < x.first || x.last < items[j].first))
          taken.emplace_back(items[j].offset, items[j].offset + items[j].bytes);
      std::sort(taken.begin(), taken.end());
      for (const auto& [from, to] : taken)
        if (x.offset + x.bytes > from && x.offset < to) x.offset = to;
      for (size_t j : placed)
        if (items[j].last < x.first && x.offset < items[j].offset + items[j].bytes &&
            items[j].offset < x.offset + x.bytes)
          waits.insert(x.first);
      placed.push_back(i);
      total = std::max(total, x.offset + x.bytes);
    }
    const Buffer all = buffer("shared_memory", {imm(total)}, u8, "shared.dyn");
    BufferMap views;
    for (const Item& x : items) {
      Buffer b = x.buffer;
      BufferNode* e = b.edit();
      e->data = all->data;
      e->scope = "shared.dyn";
      e->elem_offset = x.offset ? imm(x.offset / x.buffer->dtype.bytes()) : PrimExpr();
      views.emplace(x.buffer.get(), b);
    }
    Stmt r = rewrite_any(s, [&](const ObjectRef& n) -> ObjectRef {
               if (const auto* a = n.as<Allocate>(); a && views.count(a->buffer.get()))
                 return make<DeclBuffer>(a->buffer, a->body);
               return {};
             }).cast<StmtNode>();
    if (!waits.empty()) r = with_waits(r, waits);
    return make<Allocate>(all, replace_buffers(r, views), AttrMap());
  }

  /// The same way down as in `kernel`, where allocations are views by now.
  static Stmt with_waits(const Stmt& s, const std::unordered_set<size_t>& waits) {
    if (const auto* q = s.as<SeqStmt>()) {
      Array<Stmt> out;
      for (size_t k = 0; k < q->seq.size(); ++k) {
        if (waits.count(k) && !(k > 0 && is_sync(q->seq[k - 1])) && !is_sync(q->seq[k]))
          out.push_back(make<tir::Evaluate>(
              call(DataType::void_(), "tir.storage_sync", {make<tir::StringImm>(std::string("shared"))})));
        out.push_back(q->seq[k]);
      }
      return seq(out);
    }
    return map_children(s,
                        [&](const ObjectRef& c) -> ObjectRef {
                          return c.is<StmtNode>() ? ObjectRef(with_waits(c.cast<StmtNode>(), waits)) : c;
                        })
        .cast<StmtNode>();
  }
};

}  // namespace

const Pass& merge_shared_memory_allocations_pass = register_pass({
    .name = "merge_shared_memory_allocations",
    .run = tensor_detail::each_body_with_threads<Merge>,
    .level = 0,
    .summary = "shared memory of a kernel is one allocation",
    .needs = {"lift_thread_binding", "flatten_buffer"},
});

}  // namespace tenon
