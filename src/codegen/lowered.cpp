// SPDX-License-Identifier: Apache-2.0
// The lowered form, checked and taken apart for the code generators.
#include "codegen/lowered.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <exception>
#include <set>

#include "codegen/calls.h"
#include "ir/attr_keys.h"
#include "ir/function_symbols.h"
#include "ir/imported_code.h"
#include "ir/intrinsic_table.h"
#include "ir/memory_scope.h"
#include "ir/structural.h"

namespace tenon::codegen {
namespace {

using namespace tir;

bool stored_type(DataType t) {
  if (t.is_bool() || t.is_float()) return true;
  return t.is_integer() && (t.bits == 8 || t.bits == 16 || t.bits == 32 || t.bits == 64);
}

bool rank_fits(const Buffer& b, const Array<PrimExpr>& indices) {
  return indices.size() == b->shape.size() || (b->shape.empty() && indices.size() == 1);
}

/// Nodes that no lowered program holds, whatever their fields.
struct RefusedNode {
  bool (*is)(const ObjectRef&);
  std::string_view name, why;
};
template <class T>
constexpr RefusedNode refused(std::string_view name, std::string_view why) {
  return {[](const ObjectRef& n) { return n.is<T>(); }, name, why};
}
constexpr RefusedNode kRefusedNodes[] = {
    refused<Block>("Block", "lower_opaque_block removes it"),
    refused<BlockRealize>("BlockRealize", "lower_opaque_block removes it"),
    refused<BufferRealize>("BufferRealize", "use Allocate"),
    refused<Prefetch>("Prefetch", "use the intrinsic tir.prefetch"),
    refused<ProducerStore>("ProducerStore", "its tensor has no buffer"),
    refused<ProducerLoad>("ProducerLoad", "its tensor has no buffer"),
    refused<Reduce>("Reduce", "create_prim_func makes loops of tensor expressions"),
};

bool narrow_float(const PrimExpr& e) {
  const DataType t = e ? e.dtype() : DataType();
  return t.is_float() && t.bits < 32;
}

/// Floats of 8 and 16 bits are only moved here, and converted by instructions.
bool computes_narrow(const ObjectRef& node) {
  const bool binary = node.is<Add>() || node.is<Sub>() || node.is<Mul>() || node.is<Div>() ||
                      node.is<Mod>() || node.is<FloorDiv>() || node.is<FloorMod>() || node.is<tir::Min>() ||
                      node.is<tir::Max>() || node.is<EQ>() || node.is<NE>() || node.is<LT>() ||
                      node.is<LE>() || node.is<GT>() || node.is<GE>();
  const auto* call = node.as<tir::Call>();
  if (!binary && !call) return false;
  if (call) {
    const Intrinsic* known = find_intrinsic(call->op);
    static constexpr std::string_view moves[] = {"tir.exact", "tir.ordered_term", "tir.likely",
                                                 "tir.reinterpret", "tir.undef"};
    const bool operation = known && (known->vector || call->op.starts_with("tir.vector_reduce_") ||
                                     group_of(*known) == IntrinsicGroup::atomic);
    if (!operation || std::find(std::begin(moves), std::end(moves), call->op) != std::end(moves))
      return false;
  }
  for (const ObjectRef& c : children(node))
    if (c.is<PrimExprNode>() && narrow_float(PrimExpr(c.cast<PrimExprNode>()))) return true;
  return call && narrow_float(PrimExpr(Ref<PrimExprNode>(call)));
}

/// Why a node is refused, or "".
std::string refusal(const ObjectRef& node) {
  for (const RefusedNode& r : kRefusedNodes)
    if (r.is(node)) return fmt::format("{}: {}", r.name, r.why);
  if (const auto* n = node.as<For>()) {
    if (n->kind == ForKind::vectorized)
      return "a vectorized loop: vectorize_loop turns it into vector expressions";
    if (n->kind == ForKind::thread_binding) return "a loop bound to a GPU thread (" + n->thread_tag + ")";
    if (!n->loop_var->dtype.is_integer() || !n->loop_var->dtype.is_scalar())
      return "a loop variable that is no integer";
  }
  if (const auto* n = node.as<BufferNode>()) {
    if (n->dtype.is_vector())
      return fmt::format("buffer {} with vector elements ({})", n->name, to_string(n->dtype));
    if (!stored_type(n->dtype)) return fmt::format("buffer {} of type {}", n->name, to_string(n->dtype));
    if (is_device_memory(n->scope))
      return fmt::format("buffer {} in memory of a device ({})", n->name, n->scope);
  }
  if (const auto* n = node.as<BufferLoad>()) {
    if (!rank_fits(n->buffer, n->indices))
      return fmt::format("an access to {} with {} indices", n->buffer->name, n->indices.size());
  }
  if (const auto* n = node.as<BufferStore>()) {
    if (!rank_fits(n->buffer, n->indices))
      return fmt::format("an access to {} with {} indices", n->buffer->name, n->indices.size());
  }
  if (const auto* n = node.as<tir::Call>()) {
    if (n->op == "tir.kernel_buffer" || n->op == "tir.kernel_scalar" || n->op == "tir.kernel_size") return {};
    const Intrinsic* known = find_intrinsic(n->op);
    if (!known) return fmt::format("the unknown intrinsic `{}`", n->op);
    if (group_of(*known) == IntrinsicGroup::foreign)
      return fmt::format("`{}`: it is of a machine or run time without a code generator here", n->op);
    if (group_of(*known) > IntrinsicGroup::atomic)
      return fmt::format("`{}`: it needs the threads of a GPU", n->op);
    if (group_of(*known) == IntrinsicGroup::atomic) {
      const DataType t = n->args[1].dtype();
      const bool of_bits = n->op == "tir.atomic_and" || n->op == "tir.atomic_or" || n->op == "tir.atomic_xor";
      if (t.is_vector() || t.is_handle() || (t.is_float() && of_bits))
        return fmt::format("`{}` of {}", n->op, to_string(t));
    }
    if (n->op == "tir.access_ptr") return "`tir.access_ptr`: flatten_buffer makes an address of it";
    if (n->op == "tir.ret" || n->op == "tir.break_loop" || n->op == "tir.continue_loop")
      return fmt::format("`{}`: lower_jumps makes conditions of it", n->op);
  }
  if (computes_narrow(node))
    return fmt::format(
        "an operation on floats of 8 or 16 bits ({}): the passes *_compute_legalize replace it",
        node.as<tir::Call>() ? node.as<tir::Call>()->op : std::string(type_of(node.get())->key));
  if (const auto* n = node.as<PrimExprNode>()) {
    const DataType t = n->dtype;
    if (t.is_integer() && t.bits != 8 && t.bits != 16 && t.bits != 32 && t.bits != 64)
      return fmt::format("a value of type {}", to_string(t));
    if (t.is_vector() && t.is_handle()) return "a vector of pointers";
  }
  return {};
}

bool is_kernel(const PrimFunc& f) {
  return f && f->attrs.contains("global_symbol") && !f->attrs.contains(kInternalAttr);
}

/// A function that only kernels call (its parameters are data pointers and scalars) as a kernel of its module
/// name.
PrimFunc as_kernel(const std::string& name, const PrimFunc& f) {
  const VarRef buffers = var("buffers", DataType::handle()), scalars = var("scalars", DataType::handle()),
               context = var("context", DataType::handle());
  std::vector<std::pair<VarRef, PrimExpr>> bindings;
  int64_t pointer = 0, number = 0;
  for (const VarRef& p : f->params) {
    const DataType t = p->dtype;
    if (t.is_handle()) {
      bindings.emplace_back(p, call(t, "tir.kernel_buffer", {buffers, PrimExpr(pointer++)}));
      continue;
    }
    const PrimExpr bits = call(i64, "tir.kernel_scalar", {scalars, PrimExpr(number++)});
    bindings.emplace_back(p, t == i64       ? bits
                             : t.is_float() ? cast(t, call(f64, "tir.reinterpret", {bits}))
                                            : cast(t, bits));
  }
  Stmt body = f->body;
  for (size_t k = bindings.size(); k-- > 0;)
    body = make<LetStmt>(bindings[k].first, bindings[k].second, body);
  PrimFunc out = f;
  PrimFuncNode* n = out.edit();
  n->params = {buffers, scalars, context};
  n->body = body;
  n->attrs.set("global_symbol", Any(name));
  n->attrs.set("tir.noalias", Any(false));  // its arguments come from one kernel's memory
  return out;
}

void check(const std::string& name, const PrimFunc& f, DiagnosticList* problems) {
  const std::string where = fmt::format("kernel {}", name);
  if (f->params.size() != 3 || !f->params[0]->dtype.is_handle() || !f->params[1]->dtype.is_handle() ||
      !f->params[2]->dtype.is_handle() || !f->buffer_map.empty()) {
    problems->add(Diagnostic{"T0801",
                             "the function does not have the kernel signature (buffers, scalars, context)",
                             where,
                             "run make_packed_api before code generation",
                             {}});
    return;
  }
  std::set<std::string> seen;
  pre_order(f->body, [&](const ObjectRef& node) {
    if (!node) return false;
    std::string why = refusal(node);
    if (!why.empty() && seen.insert(why).second)
      problems->add(Diagnostic{"T0801", "code generation cannot express " + why, where, {}, {}});
    return true;
  });
}

/// What distinguishes code: everything but the names and notes, such as what assertions say, which stands in
/// the attribute "tenon.asserts" and not in the code.
PrimFunc anonymous(const PrimFunc& f) {
  PrimFunc copy = f;
  PrimFuncNode* n = copy.edit();
  AttrMap kept;
  std::set<std::string> telling{"tir.noalias", "target"};
  for (const auto language : kImportLanguages) telling.insert(import_attribute(language));
  for (auto [key, value] : f->attrs)
    if (telling.count(key)) kept.set(key, value);
  n->attrs = kept;
  const ObjectRef silent = rewrite_any(
      n->body,
      [](const ObjectRef& node) -> ObjectRef {
        const auto* a = node.as<AssertStmt>();
        return a ? ObjectRef(make<AssertStmt>(a->condition, std::string())) : ObjectRef();
      },
      [](const ObjectRef& node) { return node.is<PrimExprNode>(); });
  n->body = silent.cast<StmtNode>();
  return copy;
}

constexpr __int128 kWide = __int128(1) << 100;
/// No tensor of memory has more elements, of half a byte each. (Where another size is 0, so that there are
/// none, a size may be larger, but nothing is accessed by it.)
constexpr int64_t kMostSize = int64_t(1) << 48;

Bounds clamp(Bounds b) { return {std::max(b.min, -kWide), std::min(b.max, kWide)}; }
Bounds of_type(DataType t) {
  if (t.is_bool()) return {0, 1};
  if (t.is_uint()) return {0, (__int128(1) << t.bits) - 1};
  if (t.is_int()) return {-(__int128(1) << (t.bits - 1)), (__int128(1) << (t.bits - 1)) - 1};
  return {-kWide, kWide};
}
/// A result that may wrap has only its type's bounds.
Bounds fit(Bounds b, DataType t) {
  const Bounds all = of_type(t);
  return b.min < all.min || b.max > all.max ? all : b;
}

}  // namespace

std::vector<std::string> unsupported_nodes() {
  std::vector<std::string> out;
  for (const RefusedNode& r : kRefusedNodes) out.push_back(fmt::format("{} ({})", r.name, r.why));
  for (const char* other :
       {"For of kind vectorized (vectorize_loop removes them) and thread_binding",
        "buffers with vector elements", "buffers of sub-byte, handle or string elements",
        "tir.access_ptr (flatten_buffer makes an address of it), and tir.call_llvm_intrin in C text",
        "buffers in scope shared, warp or wmma",
        "tir.ret, tir.break_loop and tir.continue_loop (lower_jumps removes them)",
        "intrinsics of the groups sync, async copy and matrix fragment",
        "operations on floats of 8 and 16 bits (*_compute_legalize and *_storage_legalize replace them)",
        "tir.call_packed in parallel loops", "integers of widths other than 8, 16, 32, 64",
        "vectors of pointers", "functions without the kernel signature (buffers, scalars, context)"})
    out.push_back(other);
  return out;
}

std::vector<std::string> kernel_symbols(const IRModule& module) {
  std::vector<std::string> out;
  for (auto [name, object] : module.functions())
    if (PrimFunc f = object.cast<PrimFuncNode>(); is_kernel(f))
      out.push_back(f->attrs.at("global_symbol").as<std::string>());
  return out;
}

std::vector<Kernel> collect_kernels(const IRModule& module) {
  std::vector<Kernel> kernels;
  std::unordered_map<uint64_t, std::vector<size_t>> by_hash;
  std::vector<PrimFunc> bodies;
  std::unordered_map<std::string, std::string> symbols;  // and the function
  DiagnosticList problems;
  for (auto [name, object] : module.functions()) {
    PrimFunc f = object.cast<PrimFuncNode>();
    if (f && f->attrs.contains(kInternalAttr))
      f = as_kernel(name, f);
    else if (!is_kernel(f))
      continue;
    const std::string symbol = f->attrs.at("global_symbol").as<std::string>();
    if (const auto [first, fresh] = symbols.emplace(symbol, name); !fresh)
      problems.add(two_of_symbol(symbol, first->second, name, f));
    const PrimFunc body = anonymous(f);
    std::vector<size_t>& same = by_hash[structural_hash(body)];
    auto twin =
        std::find_if(same.begin(), same.end(), [&](size_t i) { return structural_equal(bodies[i], body); });
    if (twin != same.end()) {
      kernels[*twin].aliases.push_back(symbol);
      continue;
    }
    check(name, f, &problems);
    same.push_back(kernels.size());
    size_t nodes = 0;
    post_order(f->body, [&](const ObjectRef&) { ++nodes; });
    kernels.push_back({f, symbol, {}, nodes});
    bodies.push_back(body);
  }
  check_calls(module, &problems);
  problems.throw_if_any();
  return kernels;
}

std::vector<std::string> imported_functions(const IRModule& module) {
  std::vector<std::string> out;
  for (const auto& [name, object] : module.functions()) {
    const auto* f = object.as<PrimFuncNode>();
    if (!f || imported_code(*f).empty()) continue;
    pre_order(f->body, [&](const ObjectRef& n) {
      const auto* c = n.as<tir::Call>();
      const auto* symbol = c && c->op == "tir.call_extern" ? c->args[0].as<StringImm>() : nullptr;
      if (symbol && !tir::is_mathematics(symbol->value) &&
          std::find(out.begin(), out.end(), symbol->value) == out.end())
        out.push_back(symbol->value);
      return true;
    });
  }
  return out;
}

std::unordered_map<const Object*, int32_t> number_asserts(const PrimFunc& f) {
  std::unordered_map<const Object*, int32_t> out;
  pre_order(f->body, [&](const ObjectRef& node) {
    if (node.is<AssertStmt>()) out.emplace(node.get(), int32_t(out.size()));
    return !node.is<PrimExprNode>();
  });
  return out;
}

const IfThenElse* leaves_early(const For& loop) {
  const auto* n = loop.body.as<IfThenElse>();
  if (!n || n->else_case || loop.kind == ForKind::parallel) return nullptr;
  bool may_hold_later = false, reads = false;
  pre_order(n->condition, [&](const ObjectRef& o) {
    const auto* c = o.as<tir::Call>();
    may_hold_later = may_hold_later || o.get() == loop.loop_var.get() || c;
    reads = reads || o.is<BufferLoad>();
    return !may_hold_later && !o.is<BufferNode>();
  });
  return reads && !may_hold_later ? n : nullptr;
}

std::unordered_map<const Object*, int32_t> number_loops(const PrimFunc& f) {
  std::unordered_map<const Object*, int32_t> out;
  pre_order(f->body, [&](const ObjectRef& node) {
    if (node.is<For>() || node.is<tir::While>()) out.emplace(node.get(), int32_t(out.size()));
    return !node.is<PrimExprNode>();
  });
  return out;
}

std::vector<const tir::Var*> used_vars(const Stmt& s) {
  std::vector<const tir::Var*> seen;
  std::set<const tir::Var*> defined;
  pre_order(s, [&](const ObjectRef& node) {
    if (const auto* v = node.as<tir::Var>())
      seen.push_back(v);
    else if (const auto* n = node.as<For>())
      defined.insert(n->loop_var.get());
    else if (const auto* n = node.as<LetStmt>())
      defined.insert(n->var.get());
    else if (const auto* n = node.as<Let>())
      defined.insert(n->var.get());
    else if (const auto* n = node.as<Allocate>())
      defined.insert(n->buffer->data.get());
    else if (const auto* n = node.as<AllocateConst>())
      defined.insert(n->buffer->data.get());
    return true;
  });
  std::vector<const tir::Var*> out;
  for (const tir::Var* v : seen)
    if (!defined.count(v)) out.push_back(v);
  return out;
}

void BoundsOf::set_loop(const For& loop) {
  constexpr __int128 kMostIterations = __int128(1) << 56;  // they take years
  const Bounds first = (*this)(loop.min), extent = (*this)(loop.extent);
  const __int128 count = std::min(extent.max, kMostIterations);
  set(loop.loop_var.get(), clamp({first.min, std::max(first.min, first.max + count - 1)}));
}

Bounds BoundsOf::operator()(const PrimExpr& e, int depth) const {
  const DataType t = e.dtype();
  const Bounds any = of_type(t.element());
  if (depth > 24 || !(t.is_integer() || t.is_bool())) return any;
  auto of = [&](const PrimExpr& x) { return (*this)(x, depth + 1); };
  if (const auto* n = e.as<IntImm>()) return t.is_uint() && n->value < 0 ? any : Bounds{n->value, n->value};
  if (const auto* n = e.as<tir::Var>()) {
    auto it = vars_.find(n);
    return it == vars_.end() ? any : fit(it->second, t);
  }
  if (const auto* n = e.as<Add>()) {
    auto a = of(n->a), b = of(n->b);
    return fit(clamp({a.min + b.min, a.max + b.max}), t.element());
  }
  if (const auto* n = e.as<Sub>()) {
    auto a = of(n->a), b = of(n->b);
    return fit(clamp({a.min - b.max, a.max - b.min}), t.element());
  }
  if (const auto* n = e.as<Mul>()) {
    auto a = of(n->a), b = of(n->b);
    const __int128 limit = __int128(1) << 62;
    for (__int128 v : {a.min, a.max, b.min, b.max})
      if (v > limit || v < -limit) return a.min >= 0 && b.min >= 0 && t.is_uint() ? any : any;
    const __int128 p[] = {a.min * b.min, a.min * b.max, a.max * b.min, a.max * b.max};
    return fit(clamp({*std::min_element(p, p + 4), *std::max_element(p, p + 4)}), t.element());
  }
  if (const auto* n = e.as<FloorDiv>()) {
    auto a = of(n->a), b = of(n->b);
    if (a.min >= 0 && b.min >= 1) return {a.min / b.max, a.max / b.min};
    return any;
  }
  if (const auto* n = e.as<Div>()) {
    auto a = of(n->a), b = of(n->b);
    if (a.min >= 0 && b.min >= 1) return {a.min / b.max, a.max / b.min};
    return any;
  }
  if (const auto* n = e.as<FloorMod>()) {
    auto a = of(n->a), b = of(n->b);
    if (b.min >= 1) return {0, a.min >= 0 ? std::min(a.max, b.max - 1) : b.max - 1};
    return any;
  }
  if (const auto* n = e.as<Mod>()) {
    auto a = of(n->a), b = of(n->b);
    if (a.min >= 0 && b.min >= 1) return {0, std::min(a.max, b.max - 1)};
    return any;
  }
  if (const auto* n = e.as<Min>()) {
    auto a = of(n->a), b = of(n->b);
    return {std::min(a.min, b.min), std::min(a.max, b.max)};
  }
  if (const auto* n = e.as<Max>()) {
    auto a = of(n->a), b = of(n->b);
    return {std::max(a.min, b.min), std::max(a.max, b.max)};
  }
  if (const auto* n = e.as<Select>()) {
    auto a = of(n->true_value), b = of(n->false_value);
    return {std::min(a.min, b.min), std::max(a.max, b.max)};
  }
  if (const auto* n = e.as<tir::Call>(); n && n->op == "tir.kernel_size") return {0, kMostSize};
  if (const auto* n = e.as<Broadcast>()) return of(n->value);
  if (const auto* n = e.as<Ramp>()) {
    auto a = of(n->base), s = of(n->stride);
    if (s.min < -(__int128(1) << 62) || s.max > (__int128(1) << 62)) return any;
    const __int128 last = n->lanes - 1;
    return fit(
        clamp({a.min + std::min<__int128>(0, s.min * last), a.max + std::max<__int128>(0, s.max * last)}),
        t.element());
  }
  if (const auto* n = e.as<Cast>()) {
    if (n->value.dtype().is_integer() || n->value.dtype().is_bool()) return fit(of(n->value), t.element());
    return any;
  }
  return any;
}

std::optional<Affine> as_affine(const PrimExpr& e) {
  if (const auto* n = e.as<Ramp>()) return Affine{n->base, n->stride};
  const PrimExpr zero = PrimExpr::int_imm(0, e.dtype().element());
  if (const auto* n = e.as<Broadcast>()) return Affine{n->value, zero};
  if (!e.dtype().is_integer()) return std::nullopt;
  if (const auto* n = e.as<Add>()) {
    auto a = as_affine(n->a), b = as_affine(n->b);
    if (a && b) return Affine{a->base + b->base, a->stride + b->stride};
  }
  if (const auto* n = e.as<Sub>()) {
    auto a = as_affine(n->a), b = as_affine(n->b);
    if (a && b) return Affine{a->base - b->base, a->stride - b->stride};
  }
  if (const auto* n = e.as<Mul>()) {
    auto a = as_affine(n->a), b = as_affine(n->b);
    if (a && b && is_zero(b->stride)) return Affine{a->base * b->base, a->stride * b->base};
    if (a && b && is_zero(a->stride)) return Affine{b->base * a->base, b->stride * a->base};
  }
  return std::nullopt;
}

PrimExpr flat_index(const Buffer& b, const Array<PrimExpr>& indices) {
  PrimExpr index;
  for (size_t i = 0; i < indices.size(); ++i) {
    PrimExpr at = indices[i];
    if (i < b->strides.size()) {
      if (!is_one(b->strides[i])) at = at * cast(at.dtype().element(), b->strides[i]);
      index = index ? index + at : at;
    } else {
      index = index ? index * cast(index.dtype().element(), b->shape[i]) + at : at;
    }
  }
  if (!index) index = PrimExpr::int_imm(0, i64);
  if (b->elem_offset && !is_zero(b->elem_offset))
    index = index + cast(index.dtype().element(), b->elem_offset);
  return index;
}

std::optional<int64_t> constant_size(const Buffer& buffer) {
  int64_t count = 1;
  for (const PrimExpr& d : buffer->shape) {
    const auto n = as_int(d);
    if (!n || *n < 0 || (*n > 0 && count > (int64_t(1) << 40) / *n)) return std::nullopt;
    count *= *n;
  }
  return count;
}

int64_t loop_cost(const For& loop) {
  if (auto v = loop.annotations.find(kCostAttr)) {
    if (auto d = v->try_as<double>()) return std::clamp<int64_t>(int64_t(*d), 1, int64_t(1) << 40);
    if (auto e = v->try_as<PrimExpr>(); e && *e)
      if (auto n = as_int(*e)) return std::max<int64_t>(1, *n);
  }
  return 1000;
}

void with_deep_stack(FunctionRef<void()> f) {
  struct Work {
    FunctionRef<void()> f;
    std::exception_ptr error;
  } work{f, nullptr};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, size_t(512) << 20);  // address space only; pages appear when touched
  pthread_t thread;
  const int failed = pthread_create(
      &thread, &attributes,
      [](void* p) -> void* {
        auto* w = static_cast<Work*>(p);
        try {
          w->f();
        } catch (...) {
          w->error = std::current_exception();
        }
        return nullptr;
      },
      &work);
  pthread_attr_destroy(&attributes);
  if (failed) {
    f();
    return;
  }
  pthread_join(thread, nullptr);
  if (work.error) std::rethrow_exception(work.error);
}

}  // namespace tenon::codegen
