// SPDX-License-Identifier: Apache-2.0
// From kernels to machine code: the target machine, the pass pipeline, and parts compiled in parallel.
#include <fmt/format.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/PassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Triple.h>

#include <algorithm>
#include "codegen/llvm/emitter.h"
#include "ir/parallel.h"

namespace tenon::codegen {
namespace {

std::unique_ptr<llvm::TargetMachine> machine_for(const Target& target, int opt_level) {
  static const bool ready = [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    llvm::InitializeNativeTargetAsmParser();
    return true;
  }();
  (void)ready;
  if (!target->triple.empty() && !target->triple.starts_with("x86_64-")) {
    static const bool others = [] {
      llvm::InitializeAllTargetInfos();
      llvm::InitializeAllTargets();
      llvm::InitializeAllTargetMCs();
      llvm::InitializeAllAsmPrinters();
      return true;
    }();
    (void)others;
  }
  const llvm::Triple triple(target->triple.empty() ? "x86_64-unknown-linux-gnu" : target->triple);
  std::string error;
  const llvm::Target* found = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!found)
    fail("T0802", fmt::format("LLVM has no code generator for `{}`: {}", triple.str(), error), {}, {},
         ErrorKind::usage);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;  // fuse where the instructions allow it
  options.NoTrappingFPMath = true;
  const auto level = opt_level <= 0   ? llvm::CodeGenOptLevel::None
                     : opt_level == 1 ? llvm::CodeGenOptLevel::Less
                     : opt_level == 2 ? llvm::CodeGenOptLevel::Default
                                      : llvm::CodeGenOptLevel::Aggressive;
  std::unique_ptr<llvm::TargetMachine> machine(found->createTargetMachine(
      triple, base_cpu(target), llvm_features(target), options, llvm::Reloc::PIC_, std::nullopt, level));
  CHECK(machine, "LLVM made no target machine");
  return machine;
}

/// Loops arrive tiled and vectorised, so the list is short: registers for memory, invariants out of loops,
/// common values once, small loops unrolled; LLVM's vectoriser only for loops that are still scalar.
constexpr const char* kPipeline1 =
    "function(sroa<modify-cfg>,early-cse<memssa>,simplifycfg,instcombine<max-iterations=1;no-verify-fixpoint>"
    ","
    "loop-mssa(licm<allowspeculation>),early-cse,simplifycfg)";
constexpr const char* kPipeline2 =
    "function(sroa<modify-cfg>,early-cse<memssa>,simplifycfg,instcombine<max-iterations=1;no-verify-fixpoint>"
    ",loop-mssa(loop-rotate,licm<allowspeculation>),"
    "loop(indvars,loop-deletion,loop-unroll-full),sroa<modify-cfg>,early-cse<memssa>,instcombine<max-"
    "iterations=1;no-verify-fixpoint>,"
    "gvn,dse,loop-mssa(licm<allowspeculation>),loop-vectorize<no-interleave-forced-only;no-vectorize-forced-"
    "only>,"
    "instcombine<max-iterations=1;no-verify-fixpoint>,simplifycfg,loop-mssa(licm<allowspeculation>),"
    "loop-unroll<O2;partial;runtime>,sroa<modify-cfg>,instcombine<max-iterations=1;no-verify-fixpoint>,early-"
    "cse<memssa>,div-rem-pairs,adce,simplifycfg)";

void optimise(llvm::Module& module, llvm::TargetMachine& machine, int opt_level) {
  if (opt_level <= 0) return;
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graph;
  llvm::ModuleAnalysisManager modules;
  llvm::PipelineTuningOptions tuning;
  llvm::PassBuilder builder(&machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graph);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graph, modules);
  llvm::ModulePassManager passes;
  if (llvm::Error e = builder.parsePassPipeline(passes, opt_level == 1 ? kPipeline1 : kPipeline2))
    throw InternalError("pass pipeline: " + llvm::toString(std::move(e)));
  passes.run(module, modules);
}

struct Part {
  std::vector<const Kernel*> kernels;
  size_t nodes = 0;
};

/// Kernels in order, in parts of some thousand nodes: what a part holds depends on the module only.
std::vector<Part> split(const std::vector<Kernel>& kernels) {
  constexpr size_t enough = 3000;
  std::vector<Part> parts;
  for (const Kernel& k : kernels) {
    if (parts.empty() || parts.back().nodes + k.nodes > enough) parts.emplace_back();
    parts.back().kernels.push_back(&k);
    parts.back().nodes += k.nodes;
  }
  return parts;
}

enum class Output { object, assembly, ir };

std::string compile_part(const Part& part, const Target& target, int opt_level, Output output) {
  llvm::LLVMContext context;
  llvm::Module module("tenon", context);
  auto machine = machine_for(target, opt_level);
  module.setTargetTriple(machine->getTargetTriple());
  module.setDataLayout(machine->createDataLayout());
  module.setPICLevel(llvm::PICLevel::BigPIC);
  Emitter emitter(module, target);
  for (const Kernel* k : part.kernels) emitter.emit(*k);
  std::string text;
  llvm::raw_string_ostream words(text);
  if (llvm::verifyModule(module, &words))
    throw InternalError("the LLVM module is not well-formed: " + words.str());
  optimise(module, *machine, opt_level);
  if (output == Output::ir) {
    text.clear();
    module.print(words, nullptr);
    return words.str();
  }
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out(bytes);
  llvm::legacy::PassManager backend;
  const auto kind =
      output == Output::assembly ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile;
  if (machine->addPassesToEmitFile(backend, out, nullptr, kind))
    throw InternalError("LLVM cannot emit this kind of file");
  backend.run(module);
  return std::string(bytes.begin(), bytes.end());
}

std::vector<std::string> compile_parts(const IRModule& lowered, const Target& target, int opt_level,
                                       int threads, Output output) {
  const std::vector<Kernel> kernels = collect_kernels(lowered);
  const std::vector<Part> parts = split(kernels);
  std::vector<std::string> results(parts.size());
  for_each_parallel(parts.size(), threads, [&](size_t k) {
    with_deep_stack([&] { results[k] = compile_part(parts[k], target, opt_level, output); });
  });
  return results;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& p : parts) out += p;
  return out;
}

}  // namespace

ObjectCode llvm_object(const IRModule& lowered, const Target& target, int opt_level, int threads) {
  return {compile_parts(lowered, target, opt_level, threads, Output::object), kernel_symbols(lowered)};
}
std::string llvm_ir(const IRModule& lowered, const Target& target, int opt_level) {
  return joined(compile_parts(lowered, target, opt_level, 1, Output::ir));
}
std::string llvm_assembly(const IRModule& lowered, const Target& target, int opt_level) {
  return joined(compile_parts(lowered, target, opt_level, 1, Output::assembly));
}

}  // namespace tenon::codegen
