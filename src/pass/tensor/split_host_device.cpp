// SPDX-License-Identifier: Apache-2.0
// split_host_device
//   before: def f(A, B): for b in blockIdx.x: for t in threadIdx.x: B[…] = A[…]
//   after:  def f(A, B): f_kernel(A.data, B.data)
//           def f_kernel(A: handle, B: handle): for b in blockIdx.x: …
// Each nest of GPU threads becomes a function of its own ("tenon.device", "tenon.internal"), called with the
// memory and the scalars that it uses; the number of threads stands on its loops.
// Needs: lifted loops, flat buffers. Keeps: the order of kernels and of the host's own work.
#include <unordered_set>

#include "ir/attr_keys.h"
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;

namespace {

class Split : public tensor_detail::Rewriter {
 public:
  Split(std::string name, const IRModule& module) : name_(std::move(name)), module_(module) {}
  std::vector<std::pair<std::string, PrimFunc>> kernels;

  Stmt stmt(const Stmt& s) override {
    const auto* n = s ? s.as<For>() : nullptr;
    const auto* a = s ? s.as<Allocate>() : nullptr;
    const bool device = (n && n->kind == ForKind::thread_binding) ||
                        (a && a->buffer->scope != "global" && tensor_detail::has_threads(s));
    return device ? kernel(s) : s ? below(s) : s;
  }
  PrimExpr expr(const PrimExpr& e) override { return e; }

 private:
  Stmt kernel(const Stmt& s) {
    // What comes from outside, in the order of its first use.
    std::unordered_set<const Var*> defined, seen;
    pre_order(s, [&](const ObjectRef& n) {
      if (const auto* x = n.as<For>()) defined.insert(x->loop_var.get());
      if (const auto* x = n.as<LetStmt>()) defined.insert(x->var.get());
      if (const auto* x = n.as<Let>()) defined.insert(x->var.get());
      if (const auto* x = n.as<Allocate>()) defined.insert(x->buffer->data.get());
      if (const auto* x = n.as<AllocateConst>()) defined.insert(x->buffer->data.get());
      return true;
    });
    std::vector<VarRef> outside;
    std::vector<Buffer> buffers;
    std::unordered_set<const BufferNode*> declared, known;
    pre_order(s, [&](const ObjectRef& n) {
      if (const auto* d = n.as<DeclBuffer>()) declared.insert(d->buffer.get());
      if (n.is<BufferNode>() && !defined.count(n.as<BufferNode>()->data.get()) &&
          known.insert(n.as<BufferNode>()).second)
        buffers.push_back(Buffer(Ref<BufferNode>(n.as<BufferNode>())));
      if (const auto* v = n.as<Var>(); v && !defined.count(v) && seen.insert(v).second)
        outside.push_back(VarRef(Ref<Var>(v)));
      return true;
    });
    std::stable_sort(outside.begin(), outside.end(), [](const VarRef& a, const VarRef& b) {
      return a->dtype.is_handle() > b->dtype.is_handle();
    });
    std::string name = name_ + "_kernel";
    // A number is given once: what was taken before need not be asked again for every kernel.
    while (module_.find(name) || taken_.count(name)) name = fmt::format("{}_kernel_{}", name_, ++number_);
    taken_.insert(name);
    Array<PrimExpr> args{make<tir::StringImm>(name)};
    Array<VarRef> params;
    for (const VarRef& v : outside) {
      args.push_back(v);
      params.push_back(v);
    }
    Stmt body = s;
    for (size_t i = buffers.size(); i-- > 0;)
      if (!declared.count(buffers[i].get())) body = make<DeclBuffer>(buffers[i], body);
    AttrMap attrs;
    attrs.set(kDeviceAttr, Any(true));
    attrs.set(kInternalAttr, Any(true));
    PrimFunc f = make<PrimFuncNode>(params, Map<VarRef, Buffer>(), body, DataType::void_(), attrs);
    kernels.emplace_back(name, rename_all(f));
    return make<tir::Evaluate>(call(DataType::void_(), "tir.call_prim_func", args));
  }

  std::string name_;
  const IRModule& module_;
  std::unordered_set<std::string> taken_;
  int number_ = 0;
};

}  // namespace

static IRModule split_host_device(IRModule module, PassContext&) {
  IRModule out = module;
  for (const auto& [name, o] : module.functions()) {
    const auto f = o.cast<PrimFuncNode>();
    if (!f || f->attrs.contains(kKernelAttr) || f->attrs.contains(kDeviceAttr) || !f->body ||
        !tensor_detail::has_threads(f->body))
      continue;
    Split split(name, out);
    PrimFunc host = f;
    host.edit()->body = split.stmt(f->body);
    out.set(name, host);
    for (auto& [kernel, k] : split.kernels) out.set(kernel, k);
  }
  return out;
}

const Pass& split_host_device_pass = register_pass({
    .name = "split_host_device",
    .run = split_host_device,
    .level = 0,
    .summary = "what runs on the device becomes functions of its own",
    .needs = {"lift_thread_binding", "flatten_buffer"},
});

}  // namespace tenon
