// SPDX-License-Identifier: Apache-2.0
// storage_rewrite
//   before: A = allocate(64); B = allocate(64); (f(A), g(A, out), h(B))
//   after:  A = allocate(64); (f(A), g(A, out), h(A))
// Allocations side by side whose uses do not overlap in time share memory when type, scope and constant size
// allow it; unused ones go. Large ones inside of a serial loop are made once, in front of it: each would be
// pages that the system clears anew.
// Needs: flat buffers. Keeps: every value that is read; a buffer whose address escapes keeps its own memory.
#include <map>
#include <unordered_set>

#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;

namespace {

/// Allocators of most systems map allocations from this size on, and unmap them when they are released
/// (M_MMAP_THRESHOLD of glibc).
constexpr int64_t kLargeBytes = 128 << 10;

using Set = std::unordered_set<const Var*>;

/// Data variables that s uses; `escaping` ones also as pointers.
void used(const Stmt& s, Set& data, Set& escaping) {
  pre_order(s, [&](const ObjectRef& n) {
    if (const auto* l = n.as<BufferLoad>()) data.insert(l->buffer->data.get());
    if (const auto* l = n.as<BufferStore>()) data.insert(l->buffer->data.get());
    if (const auto* l = n.as<DeclBuffer>())
      escaping.insert(l->buffer->data.get()), data.insert(l->buffer->data.get());
    if (const auto* v = n.as<Var>(); v && v->dtype.is_handle()) escaping.insert(v), data.insert(v);
    if (const auto* c = n.as<Call>(); c && c->op == "tir.address_of")
      if (const auto* l = c->args[0].as<BufferLoad>()) escaping.insert(l->buffer->data.get());
    return !n.is<BufferNode>();
  });
}

class StorageRewriter : public tensor_detail::Rewriter {
 public:
  Stmt stmt(const Stmt& s) override {
    if (s && s.is<For>()) return in_front(below(s));
    if (!s || !s.is<Allocate>()) return s ? below(s) : s;
    // The chain of allocations, and the statements in order behind it.
    std::vector<Ref<Allocate>> chain;
    Stmt body = s;
    while (const auto* a = body.as<Allocate>()) {
      chain.push_back(body.cast<Allocate>());
      body = a->body;
    }
    body = stmt(body);
    std::vector<Stmt> steps;
    if (const auto* q = body.as<SeqStmt>())
      steps = q->seq.vec();
    else
      steps = {body};
    struct Life {
      size_t first = SIZE_MAX, last = 0;
    };
    std::unordered_map<const Var*, Life> life;
    Set escaping;
    for (size_t i = 0; i < steps.size(); ++i) {
      Set now;
      used(steps[i], now, escaping);
      for (const Var* v : now) {
        Life& l = life[v];
        l.first = std::min(l.first, i);
        l.last = i;
      }
    }
    // Largest first into each free place: a place keeps the size of its first buffer.
    struct Place {
      Buffer buffer;
      size_t free_from;
    };
    std::vector<Place> places;
    std::vector<Ref<Allocate>> keep;
    BufferMap moved;
    std::vector<std::pair<size_t, size_t>> order;  // first use, index
    for (size_t i = 0; i < chain.size(); ++i) {
      auto it = life.find(chain[i]->buffer->data.get());
      if (it != life.end()) order.emplace_back(it->second.first, i);
    }
    std::sort(order.begin(), order.end());
    for (auto [first, i] : order) {
      const Buffer& b = chain[i]->buffer;
      const auto size = as_int(b->shape[0]);
      const bool free = size && !escaping.count(b->data.get()) && chain[i]->annotations.empty();
      Place* best = nullptr;
      if (free)
        for (Place& p : places)
          if (p.free_from <= first && p.buffer->dtype == b->dtype && p.buffer->scope == b->scope &&
              *as_int(p.buffer->shape[0]) >= *size && *as_int(p.buffer->shape[0]) <= 4 * *size + 64 &&
              (!best || *as_int(p.buffer->shape[0]) < *as_int(best->buffer->shape[0])))
            best = &p;
      const size_t end = life.at(b->data.get()).last + 1;
      if (best) {
        moved.emplace(b.get(), best->buffer);
        best->free_from = end;
        continue;
      }
      keep.push_back(chain[i]);
      if (free) places.push_back({b, end});
    }
    if (!moved.empty()) body = replace_buffers(body, moved);
    if (keep.size() == chain.size() && body.same_as(chain.back()->body)) return s;
    for (size_t i = keep.size(); i-- > 0;) {
      Ref<Allocate> a = keep[i];
      a.edit()->body = body;
      body = a;
    }
    return body;
  }
  PrimExpr expr(const PrimExpr& e) override { return e; }

 private:
  static bool is_large(const Allocate& a) {
    const auto size = as_int(a.buffer->shape[0]);
    return size && a.annotations.empty() && a.buffer->scope == "global" &&
           *size * a.buffer->dtype.bytes() >= kLargeBytes;
  }
  /// The loop with the large allocations at the beginning of its body in front of it.
  static Stmt in_front(const Stmt& s) {
    const auto* loop = s.as<For>();
    if (!loop || loop->kind != ForKind::serial) return s;
    std::vector<Ref<Allocate>> large, small;
    Stmt body = loop->body;
    while (const auto* a = body.as<Allocate>()) {
      (is_large(*a) ? large : small).push_back(body.cast<Allocate>());
      body = a->body;
    }
    if (large.empty()) return s;
    auto put = [](const std::vector<Ref<Allocate>>& allocations, Stmt around) {
      for (size_t i = allocations.size(); i-- > 0;) {
        Ref<Allocate> a = allocations[i];
        a.edit()->body = around;
        around = a;
      }
      return around;
    };
    Ref<For> next = s.cast<For>();
    next.edit()->body = put(small, body);
    return put(large, next);
  }
};

}  // namespace

const Pass& storage_rewrite_pass = register_pass({
    .name = "storage_rewrite",
    .run = tensor_detail::each_body<StorageRewriter>,
    .level = 1,
    .summary = "allocations share memory",
    .needs = {"flatten_buffer"},
});

}  // namespace tenon
