// SPDX-License-Identifier: Apache-2.0
#include "pass/tensor/lowering.h"

#include "ir/find_node.h"

namespace tenon::tensor_detail {

bool mentions(const ObjectRef& e, const tir::Var* v) { return tenon::mentions(e, v, not_in_buffers); }

int64_t size_of(const tir::Stmt& s, int64_t limit) {
  int64_t n = 0;
  pre_order(s, [&](const ObjectRef& node) { return !node.is<tir::BufferNode>() && ++n <= limit; });
  return n;
}

bool has_vectors(const Stmt& s) {
  return any_node(s, [](const ObjectRef& n) {
    const auto* e = n.as<PrimExprNode>();
    return e && e->dtype.is_vector();
  });
}
bool is_plain(const PrimExpr& e) {
  using namespace tir;
  bool ok = true;
  pre_order(e, [&](const ObjectRef& n) {
    if (n.is<BufferLoad>() || n.is<Call>()) ok = false;
    auto constant = [](const PrimExpr& d) { return as_int(d) && *as_int(d) != 0; };
    if (const auto* d = n.as<FloorDiv>()) ok = ok && constant(d->b);
    if (const auto* d = n.as<FloorMod>()) ok = ok && constant(d->b);
    if (const auto* d = n.as<Div>()) ok = ok && constant(d->b);
    if (const auto* d = n.as<Mod>()) ok = ok && constant(d->b);
    return ok;
  });
  return ok;
}

bool has_threads(const tir::Stmt& s) {
  return any_node(s, in_statements, [&](const ObjectRef& n) {
    const auto* f = n.as<tir::For>();
    return f && f->kind == tir::ForKind::thread_binding &&
           (f->thread_tag.starts_with("threadIdx.") || f->thread_tag.starts_with("blockIdx."));
  });
}

tir::Stmt moved(const tir::Stmt& s, const tir::Buffer& from, const tir::Buffer& to, const PrimExpr& place) {
  auto shifted = [&](const Array<PrimExpr>& at) {
    return Array<PrimExpr>{simplify(at[0] + tir::cast(at[0].dtype().element(), place))};
  };
  return rewrite(
      s,
      [&](const tir::BufferLoad& n) -> PrimExpr {
        return n.buffer.same_as(from) ? tir::load(to, shifted(n.indices), n.predicate) : PrimExpr();
      },
      [&](const tir::BufferStore& n) -> tir::Stmt {
        return n.buffer.same_as(from) ? tir::store(to, n.value, shifted(n.indices), n.predicate)
                                      : tir::Stmt();
      });
}
std::vector<tir::VarRef> sizes_of(const tir::PrimFunc& f) {
  std::vector<tir::VarRef> out;
  for (const auto& [p, b] : f->buffer_map)
    for (const PrimExpr& d : b->shape)
      if (const auto* v = d.as<tir::Var>(); v && v->dtype == i64)
        out.push_back(tir::VarRef(Ref<tir::Var>(v)));
  return out;
}

void refuse(std::string code, std::string message, const tir::Stmt& at, std::string hint) {
  std::string where;
  if (at && at->origin) where = at->origin->text.empty() ? at->origin->span.to_string() : at->origin->text;
  fail(std::move(code), std::move(message), where, std::move(hint));
}

}  // namespace tenon::tensor_detail
