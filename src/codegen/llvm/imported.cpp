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

#include <map>
#include <set>

#include "codegen/c_compiler.h"
#include "codegen/llvm/emitter.h"
#include "ir/imported_code.h"
#include "ir/walk.h"

namespace tenon::codegen {
namespace {

using tir::ImportedCode;

const CRefusal kRefusal{"T0822", ErrorKind::usage};

[[noreturn]] void refuse(std::string message, std::string help = {}) {
  fail(kRefusal.code, std::move(message), {}, std::move(help), kRefusal.kind);
}

/// This machine's C compiler makes code for this machine's kind of processor, unless another one is named.
void check_compiler(const Target& target) {
  const llvm::Triple here(llvm::sys::getDefaultTargetTriple()), there(target->triple);
  if (target->triple.empty() || here.getArch() == there.getArch() || std::getenv("TENON_CC")) return;
  fail("T0819", fmt::format("this machine's C compiler makes no code for {}", target->triple), {},
       "name a compiler for it with TENON_CC", ErrorKind::usage);
}

/// What programs give to a C function and take from it.
struct CallForm {
  DataType result;
  std::vector<DataType> arguments;
  bool operator==(const CallForm&) const = default;
};
using CallForms = std::map<std::string, CallForm>;  ///< by symbol

std::string to_text(const CallForm& form) {
  std::vector<std::string> types;
  for (const DataType t : form.arguments) types.push_back(to_string(t));
  return fmt::format("({}) -> {}", fmt::join(types, ", "), to_string(form.result));
}

/// How programs call the functions of imported texts: each in one way.
CallForms call_forms(const IRModule& lowered) {
  CallForms out;
  const std::vector<std::string> imported = imported_functions(lowered);
  for (const auto& [name, object] : lowered.functions()) {
    const auto* f = object.as<tir::PrimFuncNode>();
    if (!f || !f->body) continue;
    pre_order(f->body, [&](const ObjectRef& n) {
      const auto* c = n.as<tir::Call>();
      const auto* symbol = c && c->op == "tir.call_extern" ? c->args[0].as<tir::StringImm>() : nullptr;
      if (!symbol || std::ranges::find(imported, symbol->value) == imported.end()) return true;
      CallForm form{c->dtype, {}};
      for (size_t k = 1; k < c->args.size(); ++k) form.arguments.push_back(c->args[k].dtype());
      const auto [at, first] = out.emplace(symbol->value, form);
      if (!first && !(at->second == form))
        refuse(fmt::format("programs call `{}` as {} and as {}", symbol->value, to_text(at->second),
                           to_text(form)),
               "cast the arguments to the types that it is declared with");
      return true;
    });
  }
  return out;
}

/// A type that the compiler knows without a header.
std::string c_type(DataType t) {
  if (t.is_void()) return "void";
  if (t.is_handle()) return "void*";
  if (t.is_float()) return t.bits == 64 ? "double" : "float";
  return fmt::format("__{}INT{}_TYPE__", t.is_uint() ? "U" : "", t.bits);
}

/// The text with its function under another name, and one for programs, which calls it with what they give:
/// the C compiler converts numbers to wider types, and refuses other arguments than those it is declared
/// with.
std::string called_with(const std::string& text, const std::string& symbol, const CallForm& form) {
  std::vector<std::string> parameters, names;
  for (const DataType t : form.arguments) {
    names.push_back(fmt::format("a{}", names.size()));
    parameters.push_back(c_type(t) + " " + names.back());
  }
  return fmt::format(R"(#define {0} tenon_imported_{0}
{1}
#undef {0}
#pragma GCC diagnostic error "-Wconversion"
#pragma GCC diagnostic error "-Wint-conversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
{2} {0}({3}) {{ {4}tenon_imported_{0}({5}); }}
)",
                     symbol, text, c_type(form.result),
                     names.empty() ? "void" : fmt::format("{}", fmt::join(parameters, ", ")),
                     form.result.is_void() ? "" : "return ", fmt::join(names, ", "));
}

/// The functions and data that an object shows to others.
std::set<std::string> defined_in(const std::string& object) {
  std::set<std::string> out;
  auto file = llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(object, "imported"));
  if (!file) refuse("the object of imported code cannot be read: " + llvm::toString(file.takeError()));
  for (const llvm::object::SymbolRef& symbol : (*file)->symbols()) {
    using Symbol = llvm::object::SymbolRef;
    const uint32_t flags = llvm::cantFail(symbol.getFlags());
    if ((flags & Symbol::SF_Global) && !(flags & (Symbol::SF_Undefined | Symbol::SF_Weak)))
      out.insert(llvm::cantFail(symbol.getName()).str());
  }
  return out;
}

/// The object of C text, of which `defined` is what the text defines, as programs call it.
std::string object_as_called(std::string text, const Target& target, const std::set<std::string>& defined,
                             const CallForms& forms) {
  std::vector<std::string> calls;
  for (const auto& [symbol, form] : forms) {
    if (!defined.contains(symbol)) continue;
    text = called_with(text, symbol, form);
    calls.push_back(fmt::format("`{}` as {}", symbol, to_text(form)));
  }
  return compile_c(text, target,
                   fmt::format("imported C text whose programs call {}", fmt::join(calls, ", ")), kRefusal,
                   true);
}

/// Refuses functions that programs call with other types.
void check_forms(const llvm::Module& module, const CallForms& forms) {
  const auto is = [](const llvm::Type& type, DataType t) {
    if (t.is_void()) return type.isVoidTy();
    if (t.is_handle()) return type.isPointerTy();
    if (t.is_float()) return t.bits == 64 ? type.isDoubleTy() : type.isFloatTy();
    return type.isIntegerTy(unsigned(t.bits));
  };
  for (const auto& [symbol, form] : forms) {
    const llvm::Function* f = module.getFunction(symbol);
    if (!f || f->isDeclaration()) continue;
    bool same =
        f->isVarArg() ? f->arg_size() <= form.arguments.size() : f->arg_size() == form.arguments.size();
    same = same && (form.result.is_void() || is(*f->getReturnType(), form.result));
    for (size_t k = 0; same && k < f->arg_size(); ++k)
      same = is(*f->getArg(unsigned(k))->getType(), form.arguments[k]);
    if (same) continue;
    std::string type;
    llvm::raw_string_ostream(type) << *f->getFunctionType();
    refuse(fmt::format("programs call `{}` as {}; imported LLVM IR defines it as {}", symbol, to_text(form),
                       type),
           "cast the arguments to the types that it is declared with");
  }
}

std::string llvm_text_object(const std::string& text, const Target& target, int opt_level,
                             const CallForms& forms) {
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
  check_forms(*module, forms);
  optimise(*module, *machine, opt_level);
  return machine_code(*module, *machine, llvm::CodeGenFileType::ObjectFile);
}

}  // namespace

std::vector<std::string> imported_objects(const IRModule& lowered, const Target& target, int opt_level) {
  std::vector<std::string> objects;
  std::set<std::string> defined;
  const CallForms forms = call_forms(lowered);
  for (const ImportedCode& code : tir::imported_code(lowered)) {
    const bool c = code.language == ImportedCode::Language::c;
    if (c) check_compiler(target);
    std::string object = c ? compile_c(code.text, target, "imported C text", kRefusal)
                           : llvm_text_object(code.text, target, opt_level, forms);
    const std::set<std::string> own = defined_in(object);
    for (const std::string& name : own)  // each may have one object only
      if (!defined.insert(name).second)
        refuse(fmt::format("two imported texts define `{}`", name),
               "make it static in both, or import one text");
    objects.push_back(c ? object_as_called(code.text, target, own, forms) : std::move(object));
  }
  for (const auto& [symbol, form] : forms)
    if (!defined.count(symbol))
      refuse(fmt::format("no imported text defines `{}`, which a program calls", symbol),
             "define it there, with external linkage");
  return objects;
}

}  // namespace tenon::codegen
