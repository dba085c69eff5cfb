// SPDX-License-Identifier: Apache-2.0
// lower_producer
//   before: T.producer_store(X, x, i); y = T.producer_load(X, i)
//   after:  X = T.allocate(…): X[i] = x; y = X[i]
// Tensors that never were given a buffer get one for the whole function.
// Needs: shapes over the function's own sizes (the verifier holds to it). Keeps: every value.
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;

static IRModule lower_producer(IRModule module, PassContext&) {
  return tensor_detail::map_bodies(module, [](const std::string&, const PrimFunc& f) -> Stmt {
    if (!tensor_detail::has_statement<ProducerStore>(f->body)) return {};
    std::unordered_map<const DataProducerNode*, Buffer> buffers;
    std::vector<Buffer> order;
    auto of = [&](const DataProducer& p) {
      auto [it, fresh] = buffers.emplace(p.get(), Buffer());
      if (fresh)
        order.push_back(it->second = buffer(p->name.empty() ? "tensor" : p->name, p->shape, p->dtype));
      return it->second;
    };
    Stmt body = rewrite(
        f->body, [&](const ProducerLoad& n) -> PrimExpr { return load(of(n.producer), n.indices); },
        [&](const ProducerStore& n) -> Stmt { return store(of(n.producer), n.value, n.indices); });
    for (size_t i = order.size(); i-- > 0;) body = make<Allocate>(order[i], body, AttrMap());
    return body;
  });
}

const Pass& lower_producer_pass = register_pass({
    .name = "lower_producer",
    .run = lower_producer,
    .level = 0,
    .summary = "tensors without a buffer get one",
});

}  // namespace tenon
