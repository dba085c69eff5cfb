// SPDX-License-Identifier: Apache-2.0
// verify_memory
//   before: a program of which a part runs on a GPU
//   after:  the same, or T0821 for each access of the device's memory that no thread of it makes
// Programs with loops over GPU threads are looked at, and all programs when the target is a GPU. Kernels
// taken out by split_host_device run on the device as a whole. Needs: nothing. Keeps: everything.
#include "ir/attr_keys.h"
#include "pass/tensor/lowering.h"
#include "target/target_kind.h"

namespace tenon {

using namespace tir;

namespace {

void look(const std::string& name, const Stmt& s, const PrimFunc& f, DiagnosticList& problems) {
  std::unordered_map<const Var*, bool> device;
  for (const auto& [p, b] : f->buffer_map) device[b->data.get()] = true;
  pre_order(s, [&](const ObjectRef& n) {
    const auto* l = n.as<For>();
    if (l && l->kind == ForKind::thread_binding) return false;
    if (const auto* d = n.as<Allocate>()) device[d->buffer->data.get()] = true;
    const Buffer* b = nullptr;
    if (const auto* x = n.as<BufferStore>()) b = &x->buffer;
    if (const auto* x = n.as<BufferLoad>()) b = &x->buffer;
    if (b && (*b)->scope == "global" && device.count((*b)->data.get()))
      problems.add(Diagnostic{"T0821",
                              fmt::format("buffer `{}` of the device is accessed by the host", (*b)->name),
                              fmt::format("function `{}`", name),
                              "bind a loop around the access to blockIdx.x or threadIdx.x",
                              {}});
    return !n.is<BufferNode>();
  });
}

}  // namespace

static IRModule verify_memory(IRModule module, PassContext& context) {
  const Target target = context.target.cast<TargetNode>();
  const bool gpu = device_of(target) == DeviceKind::gpu;
  DiagnosticList problems;
  for (const auto& [name, o] : module.functions()) {
    const auto f = o.cast<PrimFuncNode>();
    if (f && f->body && !f->attrs.contains(kDeviceAttr) && (gpu || tensor_detail::has_threads(f->body)))
      look(name, f->body, f, problems);
  }
  problems.throw_if_any();
  return module;
}

const Pass& verify_memory_pass = register_pass({
    .name = "verify_memory",
    .run = verify_memory,
    .level = 0,
    .summary = "the device's memory is accessed by its threads only",
});

}  // namespace tenon
