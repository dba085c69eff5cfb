// SPDX-License-Identifier: Apache-2.0
// C text and LLVM IR that programs import: objects beside those of the kernels, which call their functions.
#include <fmt/format.h>
#include <llvm/AsmParser/Parser.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Object/ObjectFile.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/Triple.h>

#include <set>

#include "codegen/c_compiler.h"
#include "codegen/llvm/emitter.h"
#include "ir/imported_code.h"

namespace tenon::codegen {
namespace {

using tir::ImportedCode;

[[noreturn]] void refuse(std::string message, std::string help = {}) {
  fail("T0822", std::move(message), {}, std::move(help), ErrorKind::usage);
}

/// This machine's C compiler makes code for this machine's kind of processor, unless another one is named.
void check_compiler(const Target& target) {
  const llvm::Triple here(llvm::sys::getDefaultTargetTriple()), there(target->triple);
  if (target->triple.empty() || here.getArch() == there.getArch() || std::getenv("TENON_CC")) return;
  fail("T0819", fmt::format("this machine's C compiler makes no code for {}", target->triple), {},
       "name a compiler for it with TENON_CC", ErrorKind::usage);
}

std::string llvm_text_object(const std::string& text, const Target& target, int opt_level) {
  llvm::LLVMContext context;
  llvm::SMDiagnostic problem;
  const auto module = llvm::parseAssemblyString(text, problem, context);
  if (!module) {
    std::string words;
    llvm::raw_string_ostream out(words);
    problem.print("import_llvm", out, false);
    refuse("LLVM refuses imported IR: " + words);
  }
  const auto machine = machine_for(target, opt_level);
  module->setTargetTriple(machine->getTargetTriple());
  module->setDataLayout(machine->createDataLayout());
  module->setPICLevel(llvm::PICLevel::BigPIC);
  std::string words;
  llvm::raw_string_ostream out(words);
  if (llvm::verifyModule(*module, &out)) refuse("imported LLVM IR is not well-formed: " + words);
  optimise(*module, *machine, opt_level);
  return machine_code(*module, *machine, llvm::CodeGenFileType::ObjectFile);
}

/// Adds the functions and data that an object shows to others; each may have one object only.
void add_defined(const std::string& object, std::set<std::string>& defined) {
  auto file = llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(object, "imported"));
  if (!file) refuse("the object of imported code cannot be read: " + llvm::toString(file.takeError()));
  for (const llvm::object::SymbolRef& symbol : (*file)->symbols()) {
    using Symbol = llvm::object::SymbolRef;
    const uint32_t flags = llvm::cantFail(symbol.getFlags());
    if (!(flags & Symbol::SF_Global) || (flags & (Symbol::SF_Undefined | Symbol::SF_Weak))) continue;
    const std::string name = llvm::cantFail(symbol.getName()).str();
    if (!defined.insert(name).second)
      refuse(fmt::format("two imported texts define `{}`", name),
             "make it static in both, or import one text");
  }
}

}  // namespace

std::vector<std::string> imported_objects(const IRModule& lowered, const Target& target, int opt_level) {
  std::vector<std::string> objects;
  std::set<std::string> defined;
  for (const ImportedCode& code : tir::imported_code(lowered)) {
    if (code.language == ImportedCode::Language::c) check_compiler(target);
    objects.push_back(code.language == ImportedCode::Language::c
                          ? compile_c(code.text, target, "imported C text", {"T0822", ErrorKind::usage})
                          : llvm_text_object(code.text, target, opt_level));
    add_defined(objects.back(), defined);
  }
  for (const std::string& symbol : imported_functions(lowered))
    if (!defined.count(symbol))
      refuse(fmt::format("no imported text defines `{}`, which a program calls", symbol),
             "define it there, with external linkage");
  return objects;
}

}  // namespace tenon::codegen
