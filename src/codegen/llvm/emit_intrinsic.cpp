// SPDX-License-Identifier: Apache-2.0
// Intrinsics of LLVM that programs call by name. LLVM ends the process over an instruction that a machine
// lacks, so that only those are accepted of which it is known that the target has them.
#include <fmt/format.h>
#include <llvm/IR/Intrinsics.h>

#include <algorithm>

#include "codegen/llvm/emitter.h"
#include "ir/llvm_intrinsic.h"

namespace tenon::codegen {

using V = llvm::Value*;

namespace {

/// Of every machine: arithmetic on scalars and vectors.
constexpr std::string_view kEverywhere[] = {
    "abs",    "smax",   "smin",      "umax",         "umin",     "fma",    "fmuladd", "sqrt",
    "maxnum", "minnum", "maximum",   "minimum",      "copysign", "floor",  "ceil",    "trunc",
    "round",  "rint",   "nearbyint", "roundeven",    "ctpop",    "ctlz",   "cttz",    "bitreverse",
    "bswap",  "fshl",   "fshr",      "sadd",         "uadd",     "ssub",   "usub",    "sshl",
    "ushl",   "fabs",   "is",        "canonicalize", "fptosi",   "fptoui", "vector",  "ldexp"};

/// Instructions of x86 by the word behind "llvm.x86.": what the target must have.
struct X86Group {
  std::string_view word;
  std::vector<std::string_view> features;
};
const X86Group kX86[] = {
    {"sse", {}},
    {"sse2", {}},
    {"sse3", {"sse3"}},
    {"ssse3", {"ssse3"}},
    {"sse41", {"sse4_1"}},
    {"sse42", {"sse4_2"}},
    {"avx", {"avx"}},
    {"avx2", {"avx2"}},
    {"fma", {"fma"}},
    {"avx512.vpdpbusd", {"avx512_vnni", "avx512vl"}},
    {"avx512.vpdpbusds", {"avx512_vnni", "avx512vl"}},
    {"avx512.vpdpwssd", {"avx512_vnni", "avx512vl"}},
    {"avx512.vpdpwssds", {"avx512_vnni", "avx512vl"}},
};
/// Of these groups, but of another feature, or with an effect on the whole thread.
constexpr std::string_view kNotX86[] = {"crc32", "mxcsr", "monitor", "mwait"};

bool has_word(std::string_view name, std::string_view word) {
  return name.starts_with(word) && (name.size() == word.size() || name[word.size()] == '.');
}

/// Why the target cannot run it, or "".
std::string lacking(std::string_view name, const Target& target) {
  name.remove_prefix(std::string_view("llvm.").size());
  if (name.starts_with("x86.")) {
    name.remove_prefix(std::string_view("x86.").size());
    if (!target->triple.empty() && !target->triple.starts_with("x86_64")) return "the target is no x86-64";
    for (const std::string_view word : kNotX86)
      if (name.find(word) != name.npos) return "it is not known what the instruction needs";
    for (const X86Group& group : kX86)
      if (has_word(name, group.word)) {
        for (const std::string_view feature : group.features)
          if (!target->has(feature)) return fmt::format("the target lacks {}", feature);
        return {};
      }
    return "it is not known what the instruction needs";
  }
  for (const std::string_view word : kEverywhere)
    if (has_word(name, word)) return {};
  return "it is none of the arithmetic ones, nor of x86";
}

}  // namespace

V Emitter::call_llvm(const tir::Call& n) {
  const std::string& name = n.args[0].as<tir::StringImm>()->value;
  auto refuse = [&](const std::string& why) {
    fail("T0801", fmt::format("the LLVM intrinsic `{}` cannot be called: {}", name, why), "kernel " + symbol_,
         "docs/script.md says which are known");
  };
  const llvm::Intrinsic::ID id = llvm::Intrinsic::lookupIntrinsicID(name);
  if (!name.starts_with("llvm.") || id == llvm::Intrinsic::not_intrinsic)
    refuse("LLVM has none of this name");
  if (const std::string why = lacking(name, target_); !why.empty()) refuse(why);
  std::vector<V> args;
  std::vector<llvm::Type*> types;
  for (const PrimExpr& a : tir::llvm_arguments(n.args)) {
    args.push_back(expr(a));
    types.push_back(args.back()->getType());
  }
  llvm::Type* result = n.dtype.is_void() ? b_.getVoidTy() : type(n.dtype);
  llvm::SmallVector<llvm::Type*, 4> overloaded;
  if (!llvm::Intrinsic::getIntrinsicSignature(id, llvm::FunctionType::get(result, types, false), overloaded))
    refuse("its arguments or its result are of other types");
  llvm::Function* f = llvm::Intrinsic::getOrInsertDeclaration(&module_, id, overloaded);
  for (size_t k = 0; k < args.size(); ++k)
    if (f->hasParamAttribute(unsigned(k), llvm::Attribute::ImmArg) && !llvm::isa<llvm::Constant>(args[k]))
      refuse(fmt::format("argument {} has to be a number", k));
  const V value = b_.CreateCall(f, args);
  return n.dtype.is_void() ? b_.getInt32(0) : value;
}

}  // namespace tenon::codegen
