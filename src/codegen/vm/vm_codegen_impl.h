// SPDX-License-Identifier: Apache-2.0
// Shared by the files of vm_codegen: the tables that a module's functions fill, and what needs no function.
#pragma once
#include <cstring>
#include <map>
#include <set>

#include "ir/module.h"
#include "ir/origin.h"
#include "ir/tir.h"
#include "runtime/builtin.h"
#include "runtime/executable.h"
#include "target/target.h"

namespace tenon {

class ModuleCodegen {
 public:
  ModuleCodegen(const IRModule& module, const Target& target) : module_(module) {
    if (target) {
      exe.needs.triple = target->triple;
      exe.needs.cpu = target->cpu;
      exe.needs.features = target->features.vec();
    }
  }

  Executable exe;
  DiagnosticList problems{ErrorKind::model};
  std::map<std::string, int> function_index;
  std::set<std::string> told;     ///< kernels whose number of outputs is in the metadata
  std::set<std::string> checked;  ///< functions that may be called with values of other types than they take

  int callee(CalleeKind kind, const std::string& name, int index = -1,
             const std::vector<int64_t>& buffer_bytes = {}) {
    const int num_buffers = int(buffer_bytes.size());
    auto key = std::tuple{int(kind), name, index, num_buffers};
    auto [it, fresh] = callees_.emplace(key, int(exe.callees.size()));
    if (fresh) exe.callees.push_back({kind, name, index, num_buffers, buffer_bytes});
    return it->second;
  }
  int64_t constant(const NDArray& a) {
    auto& same = constants_[a.hash()];
    for (int64_t i : same) {
      const NDArray& o = exe.constants[size_t(i)];
      if (o.same_as(a) || (o.dtype() == a.dtype() && o.shape() == a.shape() &&
                           std::memcmp(o.data(), a.data(), a.byte_size()) == 0))
        return i;
    }
    exe.constants.push_back(a);
    same.push_back(int64_t(exe.constants.size()) - 1);
    return same.back();
  }
  int64_t arena(int64_t offset, const std::vector<int64_t>& shape, DataType dtype) {
    auto key = std::tuple{offset, shape, dtype};
    auto [it, fresh] = arena_.emplace(key, int64_t(exe.arena_tensors.size()));
    if (fresh) exe.arena_tensors.push_back({offset, shape, dtype});
    return it->second;
  }
  /// The symbol of a kernel, null when the module has no such program.
  tir::PrimFunc program(const std::string& name) const {
    return module_.find(name).cast<tir::PrimFuncNode>();
  }
  const IRModule& module() const { return module_; }

 private:
  IRModule module_;
  std::map<std::tuple<int, std::string, int, int>, int> callees_;
  std::unordered_map<uint64_t, std::vector<int64_t>> constants_;
  std::map<std::tuple<int64_t, std::vector<int64_t>, DataType>, int64_t> arena_;
};

struct Operand {
  Arg arg;
  bool is_tuple = false;
  bool borrowed = false;  ///< memory of an argument or a constant: a result of the model must not be it
  std::vector<Operand> items;
};

bool any_borrowed(const Operand& o);
void set_borrowed(Operand& o, bool borrowed);
/// Symbolic dimensions that are no parameters of the called program, behind its first `given` scalars: read
/// off the shapes of what it is given. T0812 for one that no shape tells.
std::vector<PrimExpr> implied_sizes(const graph::Call& c, const tir::PrimFunc& f, size_t given);
/// Bytes that a program may touch of each of the `count` tensors that it is called with, -1 where its sizes
/// are not constant.
std::vector<int64_t> buffer_bytes(const tir::PrimFunc& f, size_t count);
/// Why an operator was not lowered, in words.
std::string why_not(const graph::Call& c);
/// The name of the packed function that a call names.
std::string symbol_of(const graph::Call& c);
/// The pattern takes every value.
bool always(const graph::PatternNode& p);
/// Registers of the function whose code begins at `first`, shared where lives do not meet; how many remain.
int32_t share_registers(Executable& exe, size_t first, int32_t fixed, int32_t registers);
/// The builtin that computes an operator on shapes, or on references, in the VM itself; nullopt: none does.
std::optional<Builtin> shape_builtin(std::string_view op);
std::optional<Builtin> reference_builtin(std::string_view op);
/// The program of compute_shape for an expression of sizes; `slot` gives the heap slot of a symbol, and of a
/// part that has one.
void shape_postfix(const PrimExpr& e, const std::string& function, std::vector<Arg>& out,
                   FunctionRef<std::optional<int64_t>(const PrimExpr&)> slot);
/// Names that an attribute of the function lists.
void name_values(const graph::Function& function, std::vector<ValueInfo>& values,
                 const std::string& attribute);
ValueInfo value_info(const std::string& name, const graph::Type& type);
/// The same of an input of the model, where shapes and integers are tensors, too.
ValueInfo input_info(const std::string& name, const graph::Type& type);
/// T0820 for references in a result of the model, and for functions inside of data types: who calls it has no
/// use for them.
void refuse_functions(DiagnosticList& problems, const graph::Function& main, const graph::Expr& result,
                      const graph::Type& type);
/// What the i-th variable of a loop begins with and what each turn gives it have its declared type for
/// certain.
bool keeps_type(const graph::While& loop, size_t i);
/// Notes the functions that `f` may call with values of other types than they take.
void find_checked(ModuleCodegen& module, const Ref<graph::Function>& f);

}  // namespace tenon
