// SPDX-License-Identifier: Apache-2.0
// What the passes of this folder share: a rewriting walk over statements that never touches buffers, and the
// loop over a module's functions.
#pragma once
#include <fmt/format.h>

#include <mutex>
#include <optional>

#include "analysis/given_up.h"
#include "analysis/region.h"
#include "analysis/simplify.h"
#include "ir/attr_keys.h"
#include "ir/find_node.h"
#include "ir/jumps.h"
#include "ir/pass.h"

namespace tenon::tensor_detail {

/// Rewrites statements and expressions top-down; the default keeps a node and rewrites what is below.
/// Buffers, regions and iterators are kept. Statements nest as deep as the verifier allows (kMaxNesting).
class Rewriter {
 public:
  virtual ~Rewriter() = default;
  virtual tir::Stmt stmt(const tir::Stmt& s) { return s ? below(s) : s; }
  virtual PrimExpr expr(const PrimExpr& e) { return e ? below(e) : e; }

 protected:
  tir::Stmt below(const tir::Stmt& s) { return map_children(s, visitor()).cast<tir::StmtNode>(); }
  PrimExpr below(const PrimExpr& e) {
    if (e.is<tir::Var>() || e.is<tir::IntImm>() || e.is<tir::FloatImm>()) return e;
    // Shared expressions are rewritten once: a fused program's value is a graph, not a tree.
    if (auto it = memo_.find(e.get()); it != memo_.end()) return it->second.second;
    PrimExpr r(map_children(e, visitor()).cast<tir::PrimExprNode>());
    memo_.emplace(e.get(), std::pair{e, r});
    return r;
  }
  /// To be called when `expr` would answer differently from now on.
  void forget() { memo_.clear(); }

 private:
  struct Visit {
    Rewriter* self;
    ObjectRef operator()(const ObjectRef& c) const {
      if (c.is<tir::StmtNode>()) return self->stmt(c.cast<tir::StmtNode>());
      if (c.is<tir::PrimExprNode>()) return self->expr(PrimExpr(c.cast<tir::PrimExprNode>()));
      return c;
    }
  };
  const Visit& visitor() { return visit_; }
  Visit visit_{this};
  std::unordered_map<const Object*, std::pair<PrimExpr, PrimExpr>> memo_;
};

inline tir::Stmt no_op() { return make<tir::Evaluate>(PrimExpr::int_imm(0, i32)); }
inline bool is_no_op(const tir::Stmt& s) {
  const auto* e = s.as<tir::Evaluate>();
  return !s || (e && e->value.is<tir::IntImm>());
}
inline PrimExpr imm(int64_t v) { return PrimExpr::int_imm(v, i64); }

/// The operands of a division to a floor of 64-bit integers by what is no constant.
struct Division {
  PrimExpr number, divisor;
  bool is_quotient;
};
inline std::optional<Division> division_of(const PrimExpr& e) {
  if (e.dtype() != i64) return std::nullopt;
  if (const auto* q = e.as<tir::FloorDiv>(); q && !tir::as_int(q->b)) return Division{q->a, q->b, true};
  if (const auto* r = e.as<tir::FloorMod>(); r && !tir::as_int(r->b)) return Division{r->a, r->b, false};
  return std::nullopt;
}

/// `s` with its fields changed by f, a function of `Node*`.
template <class Node, class F>
tir::Stmt edited(const tir::Stmt& s, F f) {
  Ref<Node> r = s.cast<Node>();
  f(r.edit());
  return r;
}

/// Simplified, and a predicate that is true on all lanes is none.
inline tir::Stmt unmasked(const tir::Stmt& s) {
  auto all = [](const PrimExpr& p) {
    const auto* b = p ? p.as<tir::Broadcast>() : nullptr;
    return p && (tir::is_one(p) || (b && tir::is_one(b->value)));
  };
  return rewrite(
      simplify(s),
      [&](const tir::BufferStore& n) -> tir::Stmt {
        return all(n.predicate) ? tir::store(n.buffer, n.value, n.indices) : tir::Stmt();
      },
      [&](const tir::BufferLoad& n) -> PrimExpr {
        return all(n.predicate) ? tir::load(n.buffer, n.indices) : PrimExpr();
      },
      [&](const tir::Select& n) -> PrimExpr { return all(n.condition) ? n.true_value : PrimExpr(); });
}

/// Does a loop below s have GPU threads?
bool has_threads(const tir::Stmt& s);

/// Each tensor program that is not yet a kernel, its body mapped; null or the same body: unchanged. Programs
/// that jump are left alone until `lower_jumps` ran.
template <class F>
IRModule map_bodies(const IRModule& module, F f) {
  return module.map_prim([&](const std::string& name, const tir::PrimFunc& func) -> ObjectRef {
    if (func->attrs.contains(kKernelAttr) || !func->body || tir::find_jump(func->body)) return {};
    tir::Stmt body = f(name, func);
    if (!body || body.same_as(func->body)) return {};
    tir::PrimFunc out = func;
    out.edit()->body = body;
    return out;
  });
}
/// The same for an `f` that also takes where proofs are entered that are given up; they are reported.
template <class F>
IRModule map_bodies(const IRModule& module, const PassContext& context, F f) {
  std::mutex mutex;
  GivenUpProofs all;
  IRModule out = map_bodies(module, [&](const std::string& name, const tir::PrimFunc& func) {
    GivenUpProofs own;
    tir::Stmt body = f(name, func, own);
    std::lock_guard lock(mutex);
    all.insert(all.end(), own.begin(), own.end());
    return body;
  });
  report_given_up(context, all);
  return out;
}

/// A pass that rewrites every body by `Rewriter(function)`, or `Rewriter()` where it asks nothing of the
/// function.
template <class Rewriter>
tir::Stmt rewritten_body(const tir::PrimFunc& f) {
  if constexpr (std::is_constructible_v<Rewriter, tir::PrimFunc>)
    return Rewriter(f).stmt(f->body);
  else
    return Rewriter().stmt(f->body);
}
template <class Rewriter>
IRModule each_body(IRModule module, PassContext&) {
  return map_bodies(module,
                    [](const std::string&, const tir::PrimFunc& f) { return rewritten_body<Rewriter>(f); });
}
/// The same for bodies of GPU threads alone.
template <class Rewriter>
IRModule each_body_with_threads(IRModule module, PassContext&) {
  return map_bodies(module, [](const std::string&, const tir::PrimFunc& f) {
    return has_threads(f->body) ? rewritten_body<Rewriter>(f) : tir::Stmt();
  });
}

/// Is there a statement of this kind? Expressions are not looked at.
template <class T>
bool has_statement(const tir::Stmt& s) {
  return has_node<T>(s, in_statements);
}
/// Does e mention v (buffers' shapes not counted)?
bool mentions(const ObjectRef& e, const tir::Var* v);
/// Number of nodes below and including s, counted up to `limit`.
int64_t size_of(const tir::Stmt& s, int64_t limit);
/// No access of memory, no call, and no division that may be by zero: e may be evaluated anywhere.
bool is_plain(const PrimExpr& e);
bool has_vectors(const tir::Stmt& s);
/// The body with its scalar loops cut where their conditions change (loop_partition).
tir::Stmt cut_scalar_loops(const tir::PrimFunc& f, GivenUpProofs& given_up);
/// The symbolic dimensions of the function's buffers: each is at least 0.
std::vector<tir::VarRef> sizes_of(const tir::PrimFunc& f);
/// "threadIdx.x", "blockIdx.y", …
inline bool is_thread_loop(const tir::For& n) {
  return n.kind == tir::ForKind::thread_binding && n.thread_tag.starts_with("threadIdx.");
}
/// s with every access to `from`, a flat buffer, made to `to` at `place` elements further on.
tir::Stmt moved(const tir::Stmt& s, const tir::Buffer& from, const tir::Buffer& to, const PrimExpr& place);
/// A located refusal of a program that cannot be lowered.
[[noreturn]] void refuse(std::string code, std::string message, const tir::Stmt& at, std::string hint = {});

}  // namespace tenon::tensor_detail
