// SPDX-License-Identifier: Apache-2.0
// Nodes of tensor programs that mean something else, one kind at a time (scripts/mutate): what the
// interpreter or the code generators are given has each node of the kind broken, so that a test that executes
// such a node fails. TENON_IDENTITY is "node:KIND@interpret" or "node:KIND@code"; KIND is a node (Add), a
// kind of loop (For.parallel) or iterator (IterVar.reduce), or a group of intrinsics (Call.math).
#include <algorithm>

#include "codegen/lowered.h"
#include "identity.h"
#include "interpret/interpret.h"
#include "ir/intrinsic_table.h"

namespace tenon {

using namespace tir;

namespace {

/// KIND where the environment names a node at this stage; "" otherwise.
std::string kind_at(std::string_view stage) {
  const char* name = std::getenv("TENON_IDENTITY");
  const std::string_view what = name ? name : "";
  const size_t at = what.find('@');
  if (!what.starts_with("node:") || at == what.npos || what.substr(at + 1) != stage) return {};
  return std::string(what.substr(5, at - 5));
}

bool has_iterator(const Block& b, std::string_view kind) {
  constexpr std::string_view names[] = {"spatial", "reduce", "scan", "opaque", "thread_index"};
  for (const IterVar& v : b.iter_vars)
    if (names[size_t(v->kind)] == kind) return true;
  return false;
}

bool is_of(const ObjectRef& n, std::string_view kind) {
  constexpr std::string_view loops[] = {"serial", "parallel", "vectorized", "unrolled", "thread_binding"};
  const size_t dot = kind.find('.');
  const std::string_view node = kind.substr(0, dot), more = dot == kind.npos ? "" : kind.substr(dot + 1);
  if (node == "IterVar") return n.as<Block>() && has_iterator(*n.as<Block>(), more);
  if (type_key_of(n) != "tir." + std::string(node)) return false;
  if (more.empty()) return true;
  if (const auto* f = n.as<For>()) return loops[size_t(f->kind)] == more;
  const auto* call = n.as<Call>();
  const Intrinsic* intrinsic = call ? find_intrinsic(call->op) : nullptr;
  if (!intrinsic) return false;
  std::string group(to_string(group_of(*intrinsic)));
  std::ranges::replace(group, ' ', '_');
  return group == more;
}

PrimExpr one(DataType t) {
  DataType element = t;
  element.lanes = 1;
  const PrimExpr value = t.is_float() ? PrimExpr::float_imm(1, element) : PrimExpr::int_imm(1, element);
  return t.lanes == 1 ? value : PrimExpr(make<Broadcast>(value, int64_t(t.lanes)));
}

/// The node with another meaning; null where it cannot have one.
ObjectRef broken(const ObjectRef& n) {
  if (Ref<Block> b = n.cast<Block>()) {
    b.edit()->body = make<Evaluate>(PrimExpr(0));
    b.edit()->init = {};
    return b;
  }
  if (n.is<StmtNode>()) return make<Evaluate>(PrimExpr(0));
  const PrimExpr e = n.cast<PrimExprNode>();
  if (!e || e->dtype.is_handle() || e->dtype.is_void()) return {};
  return e->dtype.is_bool() ? PrimExpr(make<Not>(e)) : PrimExpr(make<Add>(e, one(e->dtype)));
}

PrimFunc broken(const PrimFunc& f, const std::string& kind) {
  PrimFunc out = f;
  if (kind == "Var") {  // its uses; definitions are left
    VarMap other;
    pre_order(f->body, [&](const ObjectRef& n) {
      if (const VarRef v = n.cast<Var>(); v && !v->dtype.is_handle())
        other[v.get()] = make<Add>(v, one(v->dtype));
      return true;
    });
    out.edit()->body = substitute(f->body, other);
    return out;
  }
  out.edit()->body = rewrite_any(f->body, [&](const ObjectRef& n) {
                       return is_of(n, kind) ? broken(n) : ObjectRef();
                     }).cast<StmtNode>();
  return out;
}

}  // namespace

void interpret_prim_func(const PrimFunc& f, const std::vector<NDArray>& args, const IRModule& module,
                         const InterpretOptions& options) {
  const std::string kind = kind_at("interpret");
  mutate::next(&interpret_prim_func, kind.empty() ? f : broken(f, kind), args, module, options);
}

namespace codegen {
std::vector<Kernel> collect_kernels(const IRModule& module) {
  std::vector<Kernel> kernels = mutate::next(&collect_kernels, module);
  if (const std::string kind = kind_at("code"); !kind.empty())
    for (Kernel& k : kernels) k.function = broken(k.function, kind);
  return kernels;
}
}  // namespace codegen

}  // namespace tenon
