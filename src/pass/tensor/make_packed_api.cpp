// SPDX-License-Identifier: Apache-2.0
// make_packed_api
//   before: def f(A: T.Buffer((n, 4), "float32"), k: T.int32): body
//   after:  def f(buffers: handle, scalars: handle, context: handle):
//             A = T.kernel_buffer(buffers, 0); k = T.Cast("int32", T.kernel_scalar(scalars, 0))
//             n = T.kernel_size(scalars, 1); body
// The kernel's calling convention (runtime/kernel.h). Attributes: "tenon.kernel", "global_symbol" (the
// module's name for it when it has none), "tenon.asserts" (messages of the assertions in program order).
// `tir.call_prim_func` names the callee's symbol from here on; callees are kernels too.
// Needs: flat buffers. Keeps: the body.
#include <algorithm>
#include <map>
#include <set>

#include "ir/attr_keys.h"
#include "ir/symbols.h"
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;

namespace {

PrimExpr scalar(const VarRef& scalars, int64_t k, DataType t) {
  const PrimExpr bits = call(i64, "tir.kernel_scalar", {scalars, tensor_detail::imm(k)});
  if (t == i64) return bits;
  if (t.is_float()) {
    const PrimExpr image = call(f64, "tir.reinterpret", {bits});
    return t.bits < 32 ? cast(t, cast(f32, image)) : cast(t, image);
  }
  return cast(t, bits);
}

PrimFunc packed(const std::string& name, const PrimFunc& f) {
  if (!f->ret_type.is_void())
    fail("T0809", fmt::format("function '{}' returns a value, kernels write their results to buffers", name),
         {}, "give it an output parameter");
  std::unordered_set<const BufferNode*> used;
  Array<std::string> messages;
  pre_order(f->body, [&](const ObjectRef& n) {
    if (const auto* a = n.as<AssertStmt>()) messages.push_back(a->message);
    if (n.is<Block>() || n.is<BlockRealize>())
      fail("T0805", fmt::format("function '{}' still has blocks", name), {},
           "run the passes before make_packed_api");
    if (const auto* l = n.as<For>(); l && l->kind == ForKind::thread_binding)
      tensor_detail::refuse("T0807",
                            fmt::format("loop '{}' is bound to '{}', which this target does not have",
                                        l->loop_var->name, l->thread_tag),
                            Stmt(Ref<For>(l)), "use parallel instead");
    if (const auto* a = n.as<AttrStmt>(); a && a->key == "thread_extent" && a->node.is<IterVarNode>())
      tensor_detail::refuse(
          "T0807",
          fmt::format("'{}' is a thread of '{}', which this target does not have",
                      a->node.as<IterVarNode>()->var->name, a->node.as<IterVarNode>()->thread_tag),
          Stmt(Ref<AttrStmt>(a)), "use a parallel loop instead");
    const Buffer* b = nullptr;
    if (const auto* l = n.as<BufferLoad>())
      b = &l->buffer;
    else if (const auto* s = n.as<BufferStore>())
      b = &s->buffer;
    if (b) used.insert(b->get());
    if (b && (*b)->shape.size() != 1)
      fail("T0805", fmt::format("buffer '{}' of function '{}' is not flat", (*b)->name, name), {},
           "run flatten_buffer first");
    return !n.is<BufferNode>();
  });
  VarRef buffers = var("buffers", DataType::handle()), scalars = var("scalars", DataType::handle()),
         context = var("context", DataType::handle());
  struct Binding {
    VarRef var;
    PrimExpr value;
  };
  std::vector<Binding> bindings;
  int64_t k = 0;
  for (const VarRef& p : f->params) {
    auto b = f->buffer_map.find(p);
    if (!b && !p->dtype.is_handle()) continue;
    bindings.push_back({b ? (*b)->data : p,
                        call(DataType::handle(), "tir.kernel_buffer", {buffers, tensor_detail::imm(k++)})});
  }
  k = 0;
  const std::vector<VarRef> sizes = tensor_detail::sizes_of(f);
  for (const VarRef& v : kernel_scalars(f)) {
    const bool is_size = std::ranges::find(sizes, v.get(), &VarRef::get) != sizes.end();
    bindings.push_back({v, is_size ? call(i64, "tir.kernel_size", {scalars, tensor_detail::imm(k)})
                                   : scalar(scalars, k, v->dtype)});
    ++k;
  }
  Stmt body = f->body;
  // A parameter that is accessed by itself (it had one dimension already) is declared like the others.
  for (size_t i = f->params.size(); i-- > 0;)
    if (auto b = f->buffer_map.find(f->params[i]); b && used.count(b->get()))
      body = make<DeclBuffer>(*b, body);
  for (size_t i = bindings.size(); i-- > 0;) body = make<LetStmt>(bindings[i].var, bindings[i].value, body);
  PrimFunc out = f;
  PrimFuncNode* n = out.edit();
  n->params = {buffers, scalars, context};
  n->buffer_map = Map<VarRef, Buffer>();
  n->body = body;
  n->attrs.set(kKernelAttr, Any(true));
  if (!n->attrs.contains("global_symbol")) n->attrs.set("global_symbol", Any(name));
  if (!messages.empty()) n->attrs.set(kAssertsAttr, Any(messages));
  return out;
}

/// A caller passes what stands in the callee's parameter list, so a symbolic dimension must be there.
void check_callee(const std::string& name, const PrimFunc& f) {
  size_t given = 0;
  for (const VarRef& p : f->params) given += !f->buffer_map.contains(p) && !p->dtype.is_handle();
  if (kernel_scalars(f).size() != given)
    fail("T0809",
         fmt::format("function '{}' is called by another and has a symbolic dimension that is no parameter",
                     name),
         {}, "pass the dimension as a scalar");
}

std::string symbol_of(const std::string& name, const PrimFunc& f) {
  auto s = f->attrs.find("global_symbol");
  return s ? s->as<std::string>() : name;
}

}  // namespace

static IRModule make_packed_api(IRModule module, PassContext&) {
  std::set<std::string> called;
  for (const auto& [name, f] : module.functions())
    if (const auto* p = f.as<PrimFuncNode>())
      pre_order(p->body, [&](const ObjectRef& n) {
        if (const auto* c = n.as<Call>(); c && c->op == "tir.call_prim_func" && !c->args.empty())
          if (const auto* s = c->args[0].as<StringImm>()) called.insert(s->value);
        return !n.is<BufferNode>();
      });
  std::map<std::string, std::string> symbols;
  for (const std::string& name : called)
    if (auto f = module.find(name).cast<PrimFuncNode>()) {
      if (!f->attrs.contains(kKernelAttr)) check_callee(name, f);
      symbols[name] = symbol_of(name, f);
    }
  const bool renamed =
      std::any_of(symbols.begin(), symbols.end(), [](const auto& s) { return s.first != s.second; });
  return module.map_prim([&](const std::string& name, const PrimFunc& f) -> ObjectRef {
    if (f->attrs.contains(kKernelAttr) || !f->body) return {};
    PrimFunc out = f;
    // Calls name symbols from here on.
    if (renamed)
      out.edit()->body = rewrite(f->body, [&](const Call& n) -> PrimExpr {
        if (n.op != "tir.call_prim_func" || n.args.empty() || !n.args[0].is<StringImm>()) return {};
        auto it = symbols.find(n.args[0].as<StringImm>()->value);
        if (it == symbols.end() || it->first == it->second) return {};
        Array<PrimExpr> args = n.args;
        args.set(0, make<StringImm>(it->second));
        return call(n.dtype, n.op, args);
      });
    return packed(name, out);
  });
}

const Pass& make_packed_api_pass = register_pass({
    .name = "make_packed_api",
    .run = make_packed_api,
    .level = 0,
    .summary = "the kernel's calling convention",
    .needs = {"flatten_buffer"},
});

}  // namespace tenon
