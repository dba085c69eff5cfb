// SPDX-License-Identifier: Apache-2.0
// Running an Executable whose kernels are interpreted tensor programs: judges the VM's program without any
// code generator.
#pragma once
#include "../pass_graph/support.h"
#include "codegen/vm/vm_codegen.h"
#include "ir/tir.h"
#include "pipeline/compile.h"
#include "runtime/vm.h"

namespace tenon::graph::testing_graph {

/// Programs by slot; a kernel is a plain function, so each slot has its own.
struct KernelSlot {
  tir::PrimFunc program;
  IRModule module;
};
inline std::array<KernelSlot, 64>& kernel_slots() {
  static std::array<KernelSlot, 64> slots;
  return slots;
}

inline int32_t run_slot(size_t k, void* const* buffers, const int64_t* scalars) {
  const KernelSlot& slot = kernel_slots()[k];
  tir::VarMap values;
  size_t next = 0;
  for (const tir::VarRef& p : slot.program->params)
    if (!slot.program->buffer_map.contains(p)) values[p.get()] = PrimExpr::int_imm(scalars[next++], p->dtype);
  std::vector<NDArray> args;
  size_t buffer = 0;
  next = 0;
  for (const tir::VarRef& p : slot.program->params) {
    if (auto b = slot.program->buffer_map.find(p)) {
      std::vector<int64_t> shape;
      for (const PrimExpr& d : (*b)->shape)
        shape.push_back(*tir::as_int(simplify(tir::substitute(d, values))));
      args.push_back(NDArray::view(buffers[buffer++], shape, (*b)->dtype));
    } else {
      NDArray s = NDArray::empty({}, p->dtype);
      s.set_element_int(0, scalars[next++]);
      args.push_back(s);
    }
  }
  interpret_prim_func(slot.program, args, slot.module);
  return 0;
}
template <size_t k>
int32_t slot_kernel(void* const* buffers, const int64_t* scalars, const TenonKernelContext*) {
  return run_slot(k, buffers, scalars);
}
template <size_t... k>
inline TenonKernel slot_function(size_t i, std::index_sequence<k...>) {
  static constexpr TenonKernel table[] = {slot_kernel<k>...};
  return table[i];
}

/// All graph passes, then the VM's program over interpreted kernels.
inline Artifact build(const IRModule& m, IRModule* planned = nullptr,
                      std::function<void(PassContext&)> change = {}) {
  PassContext context = make_context();
  context.verify = true;
  if (change) change(context);
  IRModule lowered = run_passes(m, graph_passes(), context);
  if (planned) *planned = lowered;
  Executable exe = vm_codegen(lowered, {});
  size_t used = 0;
  auto resolve = [&](const std::string& symbol) -> void* {
    for (auto [name, f] : lowered.functions()) {
      const auto* p = f.as<tir::PrimFuncNode>();
      if (!p || p->attrs.get_or("global_symbol", Any(name)).as<std::string>() != symbol) continue;
      kernel_slots().at(used) = {tir::PrimFunc(p), lowered};
      return reinterpret_cast<void*>(slot_function(used++, std::make_index_sequence<64>()));
    }
    return nullptr;
  };
  return Artifact::from_executable(exe, resolve);
}

/// Through the VM and by the interpreter of graph programs: the same. Twice, for what a call leaves behind.
inline std::vector<NDArray> expect_vm_agrees(const IRModule& m, const std::vector<NDArray>& inputs,
                                             double tolerance = 1e-5) {
  std::vector<NDArray> want = run(m, inputs);
  Session session(build(m));
  std::vector<NDArray> got = session.invoke(inputs);
  expect_close(want, got, tolerance);
  std::vector<NDArray> again = session.invoke(inputs);
  expect_close(want, again, tolerance);
  expect_close(want, got, tolerance);  // the first results are not memory of the second call
  return got;
}

}  // namespace tenon::graph::testing_graph
