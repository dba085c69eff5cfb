// SPDX-License-Identifier: Apache-2.0
// inject_double_buffer
//   before: for k in n: S = allocate(8, double_buffer); S[…] = A[k, …]; B[k] = f(S)
//   after:  S = allocate(16); S[first half] = A[0, …]
//           for k in n: if k + 1 < n: S[half (k + 1) % 2] = A[k + 1, …]; B[k] = f(S[half k % 2])
// The next iteration's data is brought while this one's is used. The statements that fill the buffer must
// come first and read nothing that the others write; otherwise the annotation becomes
// "double_buffer_refused". Needs: flat buffers, the annotation "double_buffer" of an allocation. Keeps: every
// value.
#include <unordered_set>

#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;
using tensor_detail::imm;

namespace {

using Pointers = std::unordered_set<const Var*>;

void accesses(const Stmt& s, Pointers& reads, Pointers& writes, bool& effects) {
  pre_order(s, [&](const ObjectRef& n) {
    if (const auto* l = n.as<BufferLoad>()) reads.insert(l->buffer->data.get());
    if (const auto* l = n.as<BufferStore>()) writes.insert(l->buffer->data.get());
    if (const auto* c = n.as<Call>(); c && (c->op == "tir.address_of" || c->op.starts_with("tir.call_")))
      effects = true;
    return !n.is<BufferNode>();
  });
}
bool meet(const Pointers& a, const Pointers& b) {
  for (const Var* v : a)
    if (b.count(v)) return true;
  return false;
}

class Double : public tensor_detail::Rewriter {
 public:
  Stmt stmt(const Stmt& s) override {
    if (!s) return s;
    const Stmt r = below(s);
    const auto* n = r.as<For>();
    std::vector<const Allocate*> all;  // directly in the loop, outermost first
    bool asked = false;
    for (Stmt t = n ? n->body : Stmt(); t && t.is<Allocate>(); t = all.back()->body) {
      all.push_back(t.as<Allocate>());
      asked = asked || all.back()->annotations.contains(kWord);
    }
    if (!asked) return r;
    if (n->kind != ForKind::serial && n->kind != ForKind::unrolled)
      return refused(r, all, "the loop is not serial");
    return doubled(r, *n, all);
  }
  PrimExpr expr(const PrimExpr& e) override { return e; }

 private:
  static constexpr const char* kWord = "double_buffer";

  static Stmt refused(const Stmt& loop, const std::vector<const Allocate*>& all, const std::string& why) {
    Stmt body = all.back()->body;
    for (size_t i = all.size(); i-- > 0;) {
      AttrMap words = all[i]->annotations;
      if (words.contains(kWord)) {
        words.erase(kWord);
        words.set("double_buffer_refused", Any(why));
      }
      body = make<Allocate>(all[i]->buffer, body, words);
    }
    return tensor_detail::edited<For>(loop, [&](For* m) { m->body = body; });
  }

  Stmt doubled(const Stmt& loop, const For& n, const std::vector<const Allocate*>& all) const {
    const auto* steps = all.back()->body.as<SeqStmt>();
    const std::string none = "there is no step that fills the buffer before one that uses it";
    if (!steps) return refused(loop, all, none);
    Pointers own;  // the buffers that are doubled
    for (const Allocate* a : all)
      if (a->annotations.contains(kWord)) own.insert(a->buffer->data.get());
    // The leading statements up to the last that writes one of them.
    size_t fills = 0;
    for (size_t i = 0; i < steps->seq.size(); ++i) {
      Pointers reads, writes;
      bool effects = false;
      accesses(steps->seq[i], reads, writes, effects);
      if (meet(own, writes)) fills = i + 1;
    }
    Pointers read, written, used, changed;
    bool effects = false;
    Array<Stmt> produce, consume;
    for (size_t i = 0; i < steps->seq.size(); ++i) {
      accesses(steps->seq[i], i < fills ? read : used, i < fills ? written : changed, effects);
      (i < fills ? produce : consume).push_back(steps->seq[i]);
    }
    if (fills == 0 || consume.empty()) return refused(loop, all, none);
    for (const Var* v : own) written.erase(v);
    if (effects || !written.empty() || meet(read, changed))
      return refused(loop, all, "what fills the buffer depends on what uses it");

    const PrimExpr k = n.loop_var, one = PrimExpr::int_imm(1, k.dtype()),
                   two = PrimExpr::int_imm(2, k.dtype());
    auto half = [&](const PrimExpr& at, const PrimExpr& size) {
      return cast(size.dtype(), floormod(at - n.min, two)) * size;
    };
    Stmt fill = seq(produce), use = seq(consume);
    std::vector<Buffer> twice;
    for (const Allocate* a : all) {
      if (!a->annotations.contains(kWord)) continue;
      const PrimExpr size = a->buffer->shape[0];
      Buffer b = a->buffer;
      BufferNode* e = b.edit();
      e->shape = {simplify(size * PrimExpr::int_imm(2, size.dtype()))};
      e->data = var(a->buffer->data->name, a->buffer->data->dtype);
      fill = tensor_detail::moved(fill, a->buffer, b, half(k, size));
      use = tensor_detail::moved(use, a->buffer, b, half(k, size));
      twice.push_back(b);
    }
    auto filled = [&](const PrimExpr& at) {
      return rename_definitions(substitute(fill, {{n.loop_var.get(), at}}));
    };
    const Stmt next = make<IfThenElse>(lt(k + one, n.min + n.extent), filled(k + one), Stmt());
    Stmt body = seq({next, use});
    for (size_t i = all.size(); i-- > 0;)  // the others stay inside
      if (!all[i]->annotations.contains(kWord))
        body = make<Allocate>(all[i]->buffer, body, all[i]->annotations);
    Stmt first = filled(n.min);
    if (const auto extent = as_int(n.extent); !extent || *extent < 1)
      first = make<IfThenElse>(gt(n.extent, PrimExpr::int_imm(0, n.extent.dtype())), first, Stmt());
    Stmt out = seq({first, tensor_detail::edited<For>(loop, [&](For* m) { m->body = body; })});
    size_t which = twice.size();
    for (size_t i = all.size(); i-- > 0;) {
      if (!all[i]->annotations.contains(kWord)) continue;
      AttrMap annotations = all[i]->annotations;
      annotations.erase(kWord);
      out = make<Allocate>(twice[--which], out, annotations);
    }
    return out;
  }
};

}  // namespace

static IRModule inject_double_buffer(IRModule module, PassContext&) {
  return tensor_detail::map_bodies(module, [](const std::string&, const PrimFunc& f) {
    const Stmt r = Double().stmt(f->body);
    return r.same_as(f->body) ? r : simplify(r, false, tensor_detail::sizes_of(f));
  });
}

const Pass& inject_double_buffer_pass = register_pass({
    .name = "inject_double_buffer",
    .run = inject_double_buffer,
    .level = 0,
    .summary = "the next iteration's data comes while this one's is used",
    .needs = {"flatten_buffer"},
});

}  // namespace tenon
