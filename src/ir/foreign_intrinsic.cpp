// SPDX-License-Identifier: Apache-2.0
// Calls of the reference compiler's programs for machines and run times that no code generator here is for:
// read, kept and printed by name, refused by the interpreter (T0350) and by every code generator (T0801).
#include "ir/intrinsic_table.h"

namespace tenon::tir {
namespace {

constexpr Intrinsic foreign(std::string_view name, std::string_view doc) {
  return {name, -1, false, false, doc, nullptr};
}

constexpr Intrinsic table[] = {
    // Matrix units.
    foreign("tir.tvm_fill_fragment", "fills a matrix fragment"),
    foreign("tir.tvm_load_matrix_sync", "loads a matrix fragment"),
    foreign("tir.tvm_store_matrix_sync", "stores a matrix fragment"),
    foreign("tir.tvm_mma_sync", "multiplies matrix fragments"),
    foreign("tir.tvm_bmma_sync", "multiplies matrix fragments of bits"),
    foreign("tir.ptx_mma", "multiplies matrix fragments in registers"),
    foreign("tir.ptx_mma_sp", "multiplies sparse matrix fragments in registers"),
    foreign("tir.ptx_ldmatrix", "loads matrix fragments into registers"),
    foreign("tir.mma_store_fragment", "stores matrix fragments from registers"),
    foreign("tir.mma_fill_fragment", "fills matrix fragments in registers"),
    foreign("tir.make_filled_simdgroup_matrix", "fills a matrix of a SIMD group"),
    foreign("tir.simdgroup_load", "loads a matrix of a SIMD group"),
    foreign("tir.simdgroup_store", "stores a matrix of a SIMD group"),
    foreign("tir.simdgroup_multiply_accumulate", "multiplies matrices of a SIMD group"),
    foreign("tir.tvm_tuple", "several values as one"),
    // Copies and barriers.
    foreign("tir.ptx_cp_async", "begins a copy to shared memory"),
    foreign("tir.ptx_cp_async_bulk", "begins a large copy to shared memory"),
    foreign("tir.ptx_cp_async_barrier", "a barrier hears of copies"),
    foreign("tir.ptx_commit_group", "closes a group of copies"),
    foreign("tir.ptx_wait_group", "waits for groups of copies"),
    foreign("tir.create_barriers", "makes barriers"),
    foreign("tir.ptx_init_barrier_thread_count", "how many threads a barrier waits for"),
    foreign("tir.ptx_arrive_barrier", "a thread arrives at a barrier"),
    foreign("tir.ptx_arrive_barrier_expect_tx", "a thread arrives at a barrier that counts bytes"),
    foreign("tir.ptx_wait_barrier", "waits at a barrier"),
    foreign("tir.tvm_storage_sync", "threads wait for each other"),
    // Threads of a group.
    foreign("tir.tvm_thread_allreduce", "combines values of threads"),
    foreign("tir.tvm_thread_invariant", "the same value in all threads"),
    foreign("tir.tvm_warp_shuffle", "the value of another thread"),
    foreign("tir.tvm_warp_shuffle_up", "the value of a thread before"),
    foreign("tir.tvm_warp_shuffle_down", "the value of a thread behind"),
    foreign("tir.tvm_warp_activemask", "which threads run"),
    // Calls by the conventions of that run time.
    foreign("tir.tvm_call_packed", "calls a packed function by name"),
    foreign("tir.tvm_call_cpacked", "calls a packed function by symbol"),
    foreign("tir.tvm_call_packed_lowered", "calls a packed function with a stack of arguments"),
    foreign("tir.tvm_call_cpacked_lowered", "calls a packed symbol with a stack of arguments"),
    foreign("tir.tvm_check_return", "compares the result of a call"),
    foreign("tir.tvm_throw_last_error", "passes an error on"),
    foreign("tir.tvm_stack_alloca", "memory of the stack"),
    foreign("tir.tvm_stack_make_array", "an array object on the stack"),
    foreign("tir.tvm_stack_make_shape", "a shape on the stack"),
    foreign("tir.tvm_struct_get", "a field of an object"),
    foreign("tir.tvm_struct_set", "sets a field of an object"),
    foreign("tir.anylist_getitem", "a register of the virtual machine"),
    foreign("tir.anylist_resetitem", "empties a register of the virtual machine"),
    foreign("tir.anylist_setitem_call_packed", "a call whose result goes to a register"),
    foreign("tir.anylist_setitem_call_cpacked", "a call by symbol whose result goes to a register"),
    foreign("tir.lookup_param", "a parameter by name"),
    foreign("tir.isnullptr", "is a null pointer"),
    foreign("tir.TVMBackendAllocWorkspace", "memory of the run time"),
    foreign("tir.TVMBackendFreeWorkspace", "gives memory of the run time back"),
    foreign("tir.start_profile_intrinsic", "a measurement begins"),
    foreign("tir.end_profile_intrinsic", "a measurement ends"),
    // Pointers and instructions of other compilers.
    foreign("tir.tvm_access_ptr", "pointer to a range of a buffer, and how it is used"),
    foreign("tir.type_annotation", "a data type as an argument"),
    foreign("tir.llvm_lookup_intrinsic_id", "the number of an instruction of LLVM"),
    foreign("tir.get_active_lane_mask", "lanes below a limit"),
    foreign("tir.ignore_loop_partition", "a condition that loops are not split by"),
};

}  // namespace

const Intrinsic* find_foreign_intrinsic(std::string_view name) {
  for (const Intrinsic& i : table)
    if (i.name == name) return &i;
  return nullptr;
}
bool is_foreign(const Intrinsic& intrinsic) {
  return std::begin(table) <= &intrinsic && &intrinsic < std::end(table);
}

DataType foreign_type(std::string_view name, const Array<PrimExpr>& args) {
  auto type = [&](size_t i) { return i < args.size() ? args[i].dtype() : DataType(); };
  if (name == "tir.tvm_thread_invariant" || name == "tir.ignore_loop_partition") return type(0);
  if (name.starts_with("tir.tvm_warp_shuffle")) return type(1);
  if (name == "tir.tvm_warp_activemask") return DataType::uint(32);
  if (name == "tir.isnullptr") return boolean;
  if (name == "tir.llvm_lookup_intrinsic_id") return DataType::uint(32);
  if (name.starts_with("tir.tvm_call_") || name.starts_with("tir.anylist_setitem") ||
      name == "tir.tvm_check_return")
    return i32;
  return DataType::handle();
}

}  // namespace tenon::tir
