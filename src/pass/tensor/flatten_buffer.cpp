// SPDX-License-Identifier: Apache-2.0
// flatten_buffer
//   before: A: T.Buffer((n, 16)); A[i, j]
//   after:  A_flat = T.decl_buffer((n * 16,), data=A.data); A_flat[i * 16 + j]
// Row-major order; strides and element offsets go into the index. Axis separators say that memory has several
// axes: no target here has such memory, and they are refused (T0801). Parameters keep their buffers (shapes
// are checked against them), and the body gets flat views of their memory. Needs: no blocks. Keeps: loops.
// Leaves indices simplified.
#include "pass/tensor/lowering.h"
#include "target/target.h"

namespace tenon {

using namespace tir;

namespace {

class Flatten : public tensor_detail::Rewriter {
 public:
  Flatten(const PrimFunc& f, std::string program, std::string target)
      : program_(std::move(program)), target_(std::move(target)) {
    for (const auto& [p, b] : f->buffer_map) {
      parameters_[b.get()] = Buffer();
      for (const PrimExpr& d : b->shape)
        if (const auto* v = d.as<Var>()) known_[v] = true;
    }
    for (const VarRef& p : f->params) known_[p.get()] = true;
  }

  Stmt run(const PrimFunc& f) {
    for (const auto& [p, b] : f->buffer_map) check_parameter(b);
    Stmt body = stmt(f->body);
    std::vector<Buffer> order;
    for (const auto& [p, b] : f->buffer_map)
      if (Buffer flat = parameters_.at(b.get())) order.push_back(flat);
    for (size_t i = order.size(); i-- > 0;) body = make<DeclBuffer>(order[i], body);
    return body;
  }

  Stmt stmt(const Stmt& s) override {
    if (!s) return s;
    if (const auto* n = s.as<Allocate>()) {
      const Buffer flat = flattened(n->buffer);
      if (n->buffer->elem_offset)
        tensor_detail::refuse("T0808", fmt::format("allocated buffer '{}' has an offset", n->buffer->name),
                              s);
      return tensor_detail::edited<Allocate>(s, [&](Allocate* m) {
        m->buffer = flat;
        m->body = stmt(n->body);
      });
    }
    if (const auto* n = s.as<AllocateConst>()) {
      const Buffer flat = flattened(n->buffer);
      return tensor_detail::edited<AllocateConst>(s, [&](AllocateConst* m) {
        m->buffer = flat;
        m->data = n->data.reshape({n->data.size()});
        m->body = stmt(n->body);
      });
    }
    if (const auto* n = s.as<DeclBuffer>()) {
      const Buffer flat = flattened(n->buffer);
      return tensor_detail::edited<DeclBuffer>(s, [&](DeclBuffer* m) {
        m->buffer = flat;
        m->body = stmt(n->body);
      });
    }
    if (const auto* n = s.as<BufferStore>()) {
      const PrimExpr value = expr(n->value), at = index(n->buffer, n->indices),
                     predicate = expr(n->predicate);
      return tensor_detail::edited<BufferStore>(s, [&](BufferStore* m) {
        m->buffer = flattened(n->buffer);
        m->value = value;
        m->indices = {at};
        m->predicate = predicate;
      });
    }
    if (s.is<Block>() || s.is<BlockRealize>())
      tensor_detail::refuse("T0805", "a block is left", s, "run lower_opaque_block first");
    if (s.is<BufferRealize>())
      tensor_detail::refuse("T0801",
                            "code generation cannot express BufferRealize: run storage_flatten first", s);
    if (s.is<Prefetch>()) return tensor_detail::no_op();
    return below(s);
  }

  PrimExpr expr(const PrimExpr& e) override {
    if (!e) return e;
    if (const auto* n = e.as<BufferLoad>()) {
      if (auto it = loads_.find(n); it != loads_.end()) return it->second.second;
      PrimExpr r = load(flattened(n->buffer), {index(n->buffer, n->indices)}, expr(n->predicate));
      loads_.emplace(n, std::pair{e, r});
      return r;
    }
    if (const auto* n = e.as<Call>(); n && n->op == "tir.access_ptr") {
      const auto* l = n->args[0].as<BufferLoad>();
      const PrimExpr at = index(l->buffer, l->indices) + expr(n->args[1]);
      return call(DataType::handle(), "tir.address_of", {load(flattened(l->buffer), {at})});
    }
    return below(e);
  }

 private:
  /// What a parameter's layout is made of must be known in the function.
  void check_parameter(const Buffer& b) {
    auto check = [&](const PrimExpr& e) {
      if (!e) return;
      for (const VarRef& v : free_vars(e))
        if (!known_.count(v.get()))
          fail("T0808",
               fmt::format("the layout of parameter '{}' depends on '{}', which is no parameter", b->name,
                           v->name),
               {}, "pass it as a scalar");
    };
    for (const PrimExpr& e : b->strides) check(e);
    check(b->elem_offset);
    for (const PrimExpr& e : b->shape) check(e);
  }

  static PrimExpr wide(const PrimExpr& e) {
    if (e.dtype().element() == i64) return e;
    return cast(i64.with_lanes(e.dtype().lanes), e);
  }

  Buffer flattened(const Buffer& b) {
    auto p = parameters_.find(b.get());
    auto it = flat_.find(b.get());
    if (it != flat_.end()) return it->second.second;
    if (!b->axis_separators.empty())
      fail("T0801",
           fmt::format("buffer `{}` has axis separators, and the memory of target `{}` has one axis", b->name,
                       target_),
           "program " + program_, "leave axis_separators out; the interpreter runs such programs");
    PrimExpr size;
    if (b->strides.empty()) {
      size = tensor_detail::imm(1);
      for (const PrimExpr& d : b->shape) size = size * wide(d);
    } else {
      // The last element's index, plus one; nothing when a dimension is empty.
      size = tensor_detail::imm(1);
      PrimExpr some = true_();
      for (size_t i = 0; i < b->shape.size(); ++i) {
        size = size + (wide(b->shape[i]) - 1) * wide(b->strides[i]);
        some = logical_and(some, gt(wide(b->shape[i]), tensor_detail::imm(0)));
      }
      size = simplify(select(some, size, tensor_detail::imm(0)));
    }
    if (b->elem_offset) size = size + wide(b->elem_offset);
    Buffer flat = b;
    BufferNode* n = flat.edit();
    n->shape = {simplify(size)};
    n->strides = Array<PrimExpr>();
    n->elem_offset = PrimExpr();
    n->axis_separators = Array<int64_t>();
    flat_.emplace(b.get(), std::pair{b, flat});
    if (p != parameters_.end()) p->second = flat;
    return flat;
  }

  PrimExpr index(const Buffer& b, const Array<PrimExpr>& at) {
    if (at.size() != b->shape.size())
      fail("T0808", fmt::format("buffer '{}' has {} dimensions and is accessed with {} indices", b->name,
                                b->shape.size(), at.size()));
    PrimExpr r = tensor_detail::imm(0);
    if (b->strides.empty()) {
      PrimExpr stride = tensor_detail::imm(1);
      for (size_t i = at.size(); i-- > 0;) {
        r = wide(expr(at[i])) * stride + r;
        stride = simplify(stride * wide(b->shape[i]));
      }
    } else {
      for (size_t i = 0; i < at.size(); ++i) r = r + wide(expr(at[i])) * wide(b->strides[i]);
    }
    if (b->elem_offset) r = r + wide(b->elem_offset);
    return r;
  }

  std::unordered_map<const BufferNode*, Buffer> parameters_;  ///< their flat view once used
  std::unordered_map<const BufferNode*, std::pair<Buffer, Buffer>> flat_;
  std::unordered_map<const Object*, std::pair<PrimExpr, PrimExpr>> loads_;
  std::unordered_map<const Var*, bool> known_;
  std::string program_, target_;
};

}  // namespace

static IRModule flatten_buffer(IRModule module, PassContext& context) {
  const Target target = context.target.cast<TargetNode>();
  return tensor_detail::map_bodies(module, [&](const std::string& name, const PrimFunc& f) {
    return simplify(Flatten(f, name, target ? target->kind : "llvm").run(f), false,
                    tensor_detail::sizes_of(f));
  });
}

const Pass& flatten_buffer_pass = register_pass({
    .name = "flatten_buffer",
    .run = flatten_buffer,
    .level = 0,
    .summary = "all buffers have one dimension",
    .needs = {"lower_opaque_block"},
});

}  // namespace tenon
