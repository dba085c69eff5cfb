// SPDX-License-Identifier: Apache-2.0
// lower_opaque_block
//   before: with T.block(): B = T.alloc_buffer((4,)); body
//   after:  B = T.allocate((4,)): body
// Loops of one iteration become their body, but for those over a matrix register. A block's
// "double_buffer_scope": i marks the allocation of what it writes as its i-th region. Needs: opaque blocks
// without matches. Keeps: loops and accesses.
#include <unordered_set>

#include "pass/tensor/lowering.h"
#include "target/matrix_registers.h"

namespace tenon {

using namespace tir;

namespace {

class Lower : public tensor_detail::Rewriter {
 public:
  explicit Lower(const Stmt& body) {
    pre_order(body, [&](const ObjectRef& n) {
      const auto* b = n.as<Block>();
      if (auto which = b ? b->annotations.find("double_buffer_scope") : std::nullopt)
        if (auto i = which->try_as<int64_t>(); i && *i >= 0 && size_t(*i) < b->writes.size())
          doubled_.insert(b->writes[size_t(*i)]->buffer->data.get());
      return n.is<StmtNode>() || n.is<ArrayObj>();
    });
  }
  Stmt stmt(const Stmt& s) override {
    if (!s) return s;
    if (const auto* n = s.as<BlockRealize>()) {
      if (!n->iter_values.empty())
        tensor_detail::refuse("T0805", fmt::format("block '{}' still has iterators", n->block->name), s,
                              "run convert_blocks_to_opaque first");
      Stmt body = stmt(n->block);
      if (n->predicate && !is_one(n->predicate)) body = make<IfThenElse>(n->predicate, body, Stmt());
      return body;
    }
    if (const auto* n = s.as<Block>()) {
      if (!n->match_buffers.empty())
        tensor_detail::refuse("T0805", fmt::format("block '{}' still has matched buffers", n->name), s,
                              "run lower_match_buffer first");
      Stmt body = stmt(n->body);
      if (!body->origin && n->origin) body.edit()->origin = n->origin;
      for (size_t i = n->alloc_buffers.size(); i-- > 0;) {
        AttrMap words;
        if (doubled_.count(n->alloc_buffers[i]->data.get())) words.set("double_buffer", Any(1));
        body = make<Allocate>(n->alloc_buffers[i], body, words);
      }
      return body;
    }
    if (const auto* n = s.as<For>()) {
      // One row of a matrix register is a register like others.
      if (is_one(n->extent) && n->kind != ForKind::thread_binding && !n->annotations.contains(kMatrixLoops))
        return stmt(substitute(n->body, {{n->loop_var.get(), n->min}}));
    }
    return below(s);
  }

 private:
  std::unordered_set<const Var*> doubled_;
};

}  // namespace

static IRModule lower_opaque_block(IRModule module, PassContext&) {
  return tensor_detail::map_bodies(
      module, [](const std::string&, const PrimFunc& f) { return Lower(f->body).stmt(f->body); });
}

const Pass& lower_opaque_block_pass = register_pass({
    .name = "lower_opaque_block",
    .run = lower_opaque_block,
    .level = 0,
    .summary = "blocks vanish, their buffers become allocations",
    .needs = {"lower_match_buffer"},
});

}  // namespace tenon
