// SPDX-License-Identifier: Apache-2.0
// The object beside the kernels of a model that is linked into a program: its tables, its constants, and a
// function that registers both with the runtime.
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/Utils/ModuleUtils.h>

#include "codegen/llvm/emitter.h"

namespace tenon::codegen {
namespace {

class SystemObject {
 public:
  SystemObject(const SystemLibrary& library, const Target& target)
      : library_(library), machine_(machine_for(target, 0)), module_("tenon-system", context_), b_(context_) {
    module_.setTargetTriple(machine_->getTargetTriple());
    module_.setDataLayout(machine_->createDataLayout());
    module_.setPICLevel(llvm::PICLevel::BigPIC);
  }

  std::string run(bool own_program) {
    llvm::Type *word = b_.getInt64Ty(), *pointer = b_.getPtrTy();
    std::vector<llvm::Constant*> constants, names, kernels;
    for (const std::string_view bytes : library_.constants) constants.push_back(data(bytes, 64));
    for (const std::string& k : library_.kernels) {
      names.push_back(text(k));
      kernels.push_back(llvm::cast<llvm::Constant>(
          module_.getOrInsertFunction(k, llvm::FunctionType::get(b_.getInt32Ty(), false)).getCallee()));
    }
    // As TenonSystemLibrary.
    llvm::Constant* fields[] = {nullptr,
                                b_.getInt32(library_.format),
                                b_.getInt32(library_.kernel_abi),
                                text(library_.name),
                                data(library_.tables, 16),
                                b_.getInt64(library_.tables.size()),
                                list(constants),
                                b_.getInt64(constants.size()),
                                list(names),
                                list(kernels),
                                b_.getInt64(kernels.size())};
    std::vector<llvm::Type*> types{word};
    for (size_t i = 1; i < std::size(fields); ++i) types.push_back(fields[i]->getType());
    auto* type = llvm::StructType::get(context_, types);
    fields[0] = b_.getInt64(module_.getDataLayout().getTypeAllocSize(type));
    auto* value = llvm::ConstantStruct::get(type, fields);
    auto* record = new llvm::GlobalVariable(module_, type, true, llvm::GlobalValue::PrivateLinkage, value,
                                            "tenon_system_library");
    if (own_program) {
      new llvm::GlobalVariable(module_, pointer, true, llvm::GlobalValue::ExternalLinkage, record,
                               "tenon_native_model");
    } else {
      auto* status = llvm::FunctionType::get(b_.getInt32Ty(), {pointer}, false);
      auto* registered = llvm::Function::Create(llvm::FunctionType::get(b_.getInt32Ty(), false),
                                                llvm::GlobalValue::ExternalLinkage,
                                                "tenon_register_" + library_.name, module_);
      b_.SetInsertPoint(llvm::BasicBlock::Create(context_, "", registered));
      b_.CreateRet(b_.CreateCall(module_.getOrInsertFunction("tenon_system_register", status), {record}));
      auto* before_main = llvm::Function::Create(llvm::FunctionType::get(b_.getVoidTy(), false),
                                                 llvm::GlobalValue::InternalLinkage, "", module_);
      b_.SetInsertPoint(llvm::BasicBlock::Create(context_, "", before_main));
      b_.CreateCall(registered);
      b_.CreateRetVoid();
      llvm::appendToGlobalCtors(module_, before_main, 65535);
    }
    std::string words;
    llvm::raw_string_ostream said(words);
    if (llvm::verifyModule(module_, &said))
      throw InternalError("the system library's module is not well-formed: " + words);
    llvm::SmallVector<char, 0> bytes;
    llvm::raw_svector_ostream out(bytes);
    llvm::legacy::PassManager backend;
    if (machine_->addPassesToEmitFile(backend, out, nullptr, llvm::CodeGenFileType::ObjectFile))
      throw InternalError("LLVM cannot emit object files for this target");
    backend.run(module_);
    return std::string(bytes.begin(), bytes.end());
  }

 private:
  llvm::GlobalVariable* global(llvm::Constant* value, unsigned alignment) {
    auto* g = new llvm::GlobalVariable(module_, value->getType(), true, llvm::GlobalValue::PrivateLinkage,
                                       value, "");
    g->setAlignment(llvm::Align(alignment));
    return g;
  }
  /// Bytes in read-only memory; an empty one has an address too.
  llvm::Constant* data(std::string_view bytes, unsigned alignment) {
    if (bytes.empty()) bytes = std::string_view("\0", 1);
    return global(llvm::ConstantDataArray::getRaw(llvm::StringRef(bytes.data(), bytes.size()), bytes.size(),
                                                  b_.getInt8Ty()),
                  alignment);
  }
  llvm::Constant* text(const std::string& s) {
    return global(llvm::ConstantDataArray::getString(context_, s), 1);
  }
  llvm::Constant* list(const std::vector<llvm::Constant*>& items) {
    auto* type = llvm::ArrayType::get(b_.getPtrTy(), items.size());
    return global(llvm::ConstantArray::get(type, items), 8);
  }

  const SystemLibrary& library_;
  std::unique_ptr<llvm::TargetMachine> machine_;
  llvm::LLVMContext context_;
  llvm::Module module_;
  llvm::IRBuilder<> b_;
};

}  // namespace

std::string system_object(const SystemLibrary& library, const Target& target, bool own_program) {
  return SystemObject(library, target).run(own_program);
}

}  // namespace tenon::codegen
