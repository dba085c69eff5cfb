// SPDX-License-Identifier: Apache-2.0
// Object code into this process: ORC links it against a short list of C functions and nothing else.
#include <llvm/ExecutionEngine/Orc/ExecutionUtils.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/Support/MemoryBuffer.h>

#include "base/matrix_permission.h"
#include "codegen/calls.h"
#include "codegen/elf.h"
#include "codegen/llvm/processors.h"
#include "codegen/lowered.h"
#include "ir/imported_code.h"

namespace tenon::codegen {
namespace {

[[noreturn]] void cannot_load(llvm::Error e) {
  fail("T0804", "machine code cannot be loaded: " + llvm::toString(std::move(e)), {},
       "a kernel may need a processor feature or function that this machine does not have",
       ErrorKind::internal);
}
template <class T>
T loaded(llvm::Expected<T> v) {
  if (!v) cannot_load(v.takeError());
  return std::move(*v);
}

/// Mathematics, and what compilers put in place of loops that move memory.
bool visible(llvm::StringRef name) {
  return tir::is_mathematics(std::string_view(name)) || name == "memcpy" || name == "memset" ||
         name == "memmove";
}

}  // namespace

LoadedCode load_elf(const ObjectCode& code, const Target& target) {
  initialize_processors();
  if (target->has("amx_tile") && !may_use_matrix_registers())
    fail("T0804", "machine code cannot be loaded: the system lets this process use no matrix registers", {},
         "a target without amx_tile does without them");
  std::shared_ptr<llvm::orc::LLJIT> jit = loaded(llvm::orc::LLJITBuilder().create());
  auto& library = jit->getMainJITDylib();
  library.addGenerator(loaded(llvm::orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(
      jit->getDataLayout().getGlobalPrefix(),
      [externals = externals_of(code)](const llvm::orc::SymbolStringPtr& name) {
        return visible(*name) || externals.count((*name).str()) != 0;
      })));
  for (const std::string& bytes : code.objects)
    if (llvm::Error e = jit->addObjectFile(llvm::MemoryBuffer::getMemBufferCopy(bytes, "kernels")))
      cannot_load(std::move(e));
  // Everything is linked now, so that `find` cannot fail later for a reason other than the name.
  for (const std::string& symbol : code.symbols) (void)loaded(jit->lookup(symbol));
  auto find = [jit](const std::string& symbol) -> void* {
    auto at = jit->lookup(symbol);
    if (!at) {
      llvm::consumeError(at.takeError());
      return nullptr;
    }
    return at->toPtr<void*>();
  };
  return {jit, find};
}

}  // namespace tenon::codegen
