// SPDX-License-Identifier: Apache-2.0
// storage_flatten
//   before: realize B[i:i + 4]: B[i + 1] = …
//   after:  B = T.allocate((4,)): B[1] = …
// Regions that a tensor expression realizes become allocations of their own size.
// Needs: conditions that hold always. Keeps: every value.
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;

namespace {

class StorageFlatten : public tensor_detail::Rewriter {
 public:
  Stmt stmt(const Stmt& s) override {
    if (!s) return s;
    if (const auto* n = s.as<BufferRealize>()) {
      if (!is_one(n->condition))
        tensor_detail::refuse("T0801",
                              fmt::format("buffer '{}' is realized under a condition", n->buffer->name), s,
                              "put the realize into an if");
      Place p{n->buffer, {}};
      Array<PrimExpr> shape;
      for (const Range& r : n->bounds) {
        p.mins.push_back(expr(r->min));
        shape.push_back(expr(r->extent));
      }
      BufferNode* b = p.buffer.edit();
      b->shape = shape;
      b->data = var(n->buffer->data->name, n->buffer->data->dtype);
      places_[n->buffer.get()] = p;
      forget();
      return make<Allocate>(p.buffer, stmt(n->body), AttrMap());
    }
    if (const auto* n = s.as<BufferStore>())
      if (auto it = places_.find(n->buffer.get()); it != places_.end()) {
        const PrimExpr value = expr(n->value), predicate = expr(n->predicate);
        return tensor_detail::edited<BufferStore>(s, [&](BufferStore* m) {
          m->buffer = it->second.buffer;
          m->value = value;
          m->indices = moved(it->second, n->indices);
          m->predicate = predicate;
        });
      }
    return below(s);
  }
  PrimExpr expr(const PrimExpr& e) override {
    if (!e) return e;
    if (const auto* n = e.as<BufferLoad>())
      if (auto it = places_.find(n->buffer.get()); it != places_.end())
        return load(it->second.buffer, moved(it->second, n->indices), expr(n->predicate));
    return below(e);
  }

 private:
  struct Place {
    Buffer buffer;
    std::vector<PrimExpr> mins;
  };
  Array<PrimExpr> moved(const Place& p, const Array<PrimExpr>& at) {
    Array<PrimExpr> out;
    for (size_t i = 0; i < at.size(); ++i) out.push_back(simplify(expr(at[i]) - p.mins[i]));
    return out;
  }
  std::unordered_map<const BufferNode*, Place> places_;
};

}  // namespace

static IRModule storage_flatten(IRModule module, PassContext&) {
  return tensor_detail::map_bodies(module, [](const std::string&, const PrimFunc& f) {
    return tensor_detail::has_statement<BufferRealize>(f->body) ? StorageFlatten().stmt(f->body) : Stmt();
  });
}

const Pass& storage_flatten_pass = register_pass({
    .name = "storage_flatten",
    .run = storage_flatten,
    .level = 0,
    .summary = "realized regions become allocations",
});

}  // namespace tenon
