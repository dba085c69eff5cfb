// SPDX-License-Identifier: Apache-2.0
// From kernels to machine code: the target machine, the pass pipeline, and parts compiled in parallel.
#include <fmt/format.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/PassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Triple.h>

#include <algorithm>
#include <ctime>

#include "analysis/program_target.h"
#include "base/time_limit.h"
#include "codegen/calls.h"
#include "codegen/llvm/emitter.h"
#include "codegen/llvm/listing.h"
#include "codegen/llvm/processors.h"
#include "ir/parallel.h"

namespace tenon::codegen {
std::unique_ptr<llvm::TargetMachine> machine_for(const Target& target, int opt_level) {
  initialize_processors();
  const llvm::Triple triple(target->triple.empty() ? "x86_64-unknown-linux-gnu" : target->triple);
  std::string error;
  const llvm::Target* found = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!found)
    fail("T0802", fmt::format("LLVM has no code generator for `{}`: {}", triple.str(), error), {}, {},
         ErrorKind::usage);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;  // fuse where the instructions allow it
  options.NoTrappingFPMath = true;
  if (is_riscv(target)) options.MCOptions.ABIName = "lp64d";  // floats in registers, as Linux has it
  const auto level = opt_level <= 0   ? llvm::CodeGenOptLevel::None
                     : opt_level == 1 ? llvm::CodeGenOptLevel::Less
                     : opt_level == 2 ? llvm::CodeGenOptLevel::Default
                                      : llvm::CodeGenOptLevel::Aggressive;
  std::unique_ptr<llvm::TargetMachine> machine(found->createTargetMachine(
      triple, base_cpu(target), llvm_features(target), options, llvm::Reloc::PIC_, std::nullopt, level));
  CHECK(machine, "LLVM made no target machine");
  return machine;
}

bool gathers_fast(const Target& target) {
  const llvm::Triple triple(target->triple.empty() ? "x86_64-unknown-linux-gnu" : target->triple);
  std::string error;
  const llvm::Target* found = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!found || target->cpu.empty()) return false;
  const std::unique_ptr<llvm::MCSubtargetInfo> info(found->createMCSubtargetInfo(triple, target->cpu, ""));
  return info && info->checkFeatures("+fast-gather");
}

namespace {

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

/// The lane of a mask of which one lane alone is known to be set; -1: there are others.
int single_lane(const llvm::Value* mask) {
  const auto* lanes = llvm::dyn_cast<llvm::FixedVectorType>(mask->getType());
  const auto* constant = llvm::dyn_cast<llvm::Constant>(mask);
  int found = -1;
  for (unsigned i = 0; lanes && constant && i < lanes->getNumElements(); ++i) {
    const llvm::Constant* lane = constant->getAggregateElement(i);
    if (lane && lane->isNullValue()) continue;
    if (!lane || !lane->isOneValue() || found >= 0) return -1;
    found = int(i);
  }
  return found;
}

/// Masked stores of one lane become stores of its element. (For x86, LLVM 22 stores 32 bits where the lane is
/// a part of them: values of i32 or float that were truncated to bytes or 16 bits.)
void store_single_lanes(llvm::Module& module) {
  std::vector<llvm::IntrinsicInst*> found;
  for (llvm::Function& f : module)
    for (llvm::Instruction& i : llvm::instructions(f))
      if (auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&i);
          call && call->getIntrinsicID() == llvm::Intrinsic::masked_store &&
          single_lane(call->getArgOperand(call->arg_size() - 1)) >= 0)
        found.push_back(call);
  for (llvm::IntrinsicInst* call : found) {
    llvm::IRBuilder<> b(call);
    llvm::Value *value = call->getArgOperand(0), *pointer = call->getArgOperand(1);
    const auto lane = uint64_t(single_lane(call->getArgOperand(call->arg_size() - 1)));
    llvm::Type* element = value->getType()->getScalarType();
    auto* store = b.CreateAlignedStore(b.CreateExtractElement(value, lane),
                                       b.CreateConstGEP1_64(element, pointer, lane), llvm::Align(1));
    store->copyMetadata(*call);
    call->eraseFromParent();
  }
}

/// Quotients and remainders by numbers that are not known stay where they are: loop strength reduction would
/// take them for parts of an address and divide in each iteration, as it does not know that the divisor is
/// not zero. What is behind a freeze it does not look into.
void freeze_divisions(llvm::Module& module) {
  std::vector<llvm::BinaryOperator*> found;
  for (llvm::Function& f : module)
    for (llvm::Instruction& i : llvm::instructions(f))
      if (i.isIntDivRem() && !i.getType()->isVectorTy() && !llvm::isa<llvm::Constant>(i.getOperand(1)))
        found.push_back(llvm::cast<llvm::BinaryOperator>(&i));
  for (llvm::BinaryOperator* division : found) {
    auto* frozen = new llvm::FreezeInst(division, "", std::next(division->getIterator()));
    division->replaceUsesWithIf(frozen, [&](const llvm::Use& u) { return u.getUser() != frozen; });
  }
}

/// LLVM's vectoriser makes no gathers and scatters on AMD's processors while this lives: they do them lane by
/// lane, and LLVM believes that all with AVX-512 are fast at it. (15 exports of 0.6 to 25 µs, Zen 5: 0.96 of
/// the time at known sizes, 0.98 at free ones, by the geometric mean.) Gathers that a program asks for stay
/// one instruction.
class NoGathersOfItsOwn {
 public:
  explicit NoGathersOfItsOwn(llvm::Module& module) {
    for (llvm::Function& f : module) {
      if (!f.getFnAttribute("tune-cpu").getValueAsString().starts_with("znver")) continue;
      const std::string features = f.getFnAttribute("target-features").getValueAsString().str();
      kept_.emplace_back(&f, features);
      f.addFnAttr("target-features", features + ",+prefer-no-gather,+prefer-no-scatter");
    }
  }
  ~NoGathersOfItsOwn() {
    for (const auto& [f, features] : kept_) f->addFnAttr("target-features", features);
  }

 private:
  std::vector<std::pair<llvm::Function*, std::string>> kept_;
};

}  // namespace

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
  const NoGathersOfItsOwn meanwhile(module);
  passes.run(module, modules);
  store_single_lanes(module);
  freeze_divisions(module);
}

std::string machine_code(llvm::Module& module, llvm::TargetMachine& machine, llvm::CodeGenFileType kind) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out(bytes);
  llvm::legacy::PassManager backend;
  if (machine.addPassesToEmitFile(backend, out, nullptr, kind))
    throw InternalError("LLVM cannot emit this kind of file");
  backend.run(module);
  return std::string(bytes.begin(), bytes.end());
}

namespace {

struct Part {
  Target target;  ///< of all its kernels
  std::vector<const Kernel*> kernels;
  size_t nodes = 0;
};

bool same(const Target& a, const Target& b) { return a.same_as(b) || to_json(a) == to_json(b); }

/// Kernels in order, in parts of some thousand nodes, each for one processor: what a part holds depends on
/// the module only.
std::vector<Part> split(const std::vector<Kernel>& kernels, const Target& whole) {
  constexpr size_t enough = 3000;
  std::vector<Part> parts;
  for (const Kernel& k : kernels) {
    const Target target = program_target(*k.function, whole);
    if (parts.empty() || parts.back().nodes + k.nodes > enough || !same(parts.back().target, target))
      parts.push_back({target, {}, 0});
    parts.back().kernels.push_back(&k);
    parts.back().nodes += k.nodes;
  }
  return parts;
}

enum class Output { object, assembly, listing, ir };

/// What a part became, and the processor time that it took.
struct PartResult {
  std::string text;
  double front_ms = 0, llvm_ms = 0;
};

double thread_ms() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return double(now.tv_sec) * 1e3 + double(now.tv_nsec) * 1e-6;
}

PartResult compile_part(const Part& part, int opt_level, Output output, const DebugSource* source) {
  const Target& target = part.target;
  const double start = thread_ms();
  llvm::LLVMContext context;
  llvm::Module module("tenon", context);
  auto machine = machine_for(target, opt_level);
  module.setTargetTriple(machine->getTargetTriple());
  module.setDataLayout(machine->createDataLayout());
  module.setPICLevel(llvm::PICLevel::BigPIC);
  if (is_riscv(target))
    module.addModuleFlag(llvm::Module::Error, "target-abi", llvm::MDString::get(context, "lp64d"));
  const double ready = thread_ms();
  Emitter emitter(module, target);
  if (output == Output::listing)
    emitter.mark_loops();
  else if (source)
    emitter.mark_lines(*source);
  for (const Kernel* k : part.kernels) emitter.emit(*k);
  if (output == Output::listing || source) emitter.finish_marks();
  PartResult result;
  const double emitted = thread_ms();
  result.front_ms = emitted - ready;
  std::string& text = result.text;
  llvm::raw_string_ostream words(text);
  if (llvm::verifyModule(module, &words))
    throw InternalError("the LLVM module is not well-formed: " + words.str());
  optimise(module, *machine, opt_level);
  if (output == Output::ir) {
    text.clear();
    module.print(words, nullptr);
  } else {
    if (output == Output::listing) machine->Options.MCOptions.AsmVerbose = true;
    text = machine_code(
        module, *machine,
        output == Output::object ? llvm::CodeGenFileType::ObjectFile : llvm::CodeGenFileType::AssemblyFile);
  }
  result.llvm_ms = thread_ms() - emitted + (ready - start);
  return result;
}

std::vector<PartResult> compile_parts(const std::vector<Kernel>& kernels, const Target& target, int opt_level,
                                      int threads, Output output, const DebugSource* source = nullptr) {
  const std::vector<Part> parts = split(kernels, target);
  std::vector<PartResult> results(parts.size());
  for_each_parallel(parts.size(), threads, [&](size_t k) {
    const Kernel& first = *parts[k].kernels.front();
    const AtWork at([&] { return words_of(first.symbol, first.function); });
    TimeLimit::check();
    with_deep_stack([&] { results[k] = compile_part(parts[k], opt_level, output, source); });
  });
  return results;
}

std::string joined(const IRModule& lowered, const Target& target, int opt_level, Output output) {
  std::string out;
  const auto source = debug_source(lowered);
  for (const PartResult& p :
       compile_parts(collect_kernels(lowered), target, opt_level, 1, output, source ? &*source : nullptr))
    out += p.text;
  return out;
}

}  // namespace

ObjectCode llvm_object(const IRModule& lowered, const Target& target, int opt_level, int threads) {
  const double start = thread_ms();
  const std::vector<Kernel> kernels = collect_kernels(lowered);
  ObjectCode code;
  code.symbols = kernel_symbols(lowered);
  code.externals = external_functions(lowered);
  code.front_ms = thread_ms() - start;
  const auto source = debug_source(lowered);
  for (PartResult& p :
       compile_parts(kernels, target, opt_level, threads, Output::object, source ? &*source : nullptr)) {
    code.objects.push_back(std::move(p.text));
    code.front_ms += p.front_ms;
    code.library_ms += p.llvm_ms;
  }
  for (std::string& object : imported_objects(lowered, target, opt_level))
    code.objects.push_back(std::move(object));
  return code;
}
std::string llvm_ir(const IRModule& lowered, const Target& target, int opt_level) {
  return joined(lowered, target, opt_level, Output::ir);
}
std::string llvm_assembly(const IRModule& lowered, const Target& target, int opt_level) {
  return joined(lowered, target, opt_level, Output::assembly);
}
std::vector<MachineFunction> llvm_listing(const IRModule& lowered, const Target& target, int opt_level) {
  const std::vector<Kernel> kernels = collect_kernels(lowered);
  std::vector<MachineFunction> out;
  for (const PartResult& p : compile_parts(kernels, target, opt_level, 1, Output::listing))
    read_listing(p.text, kernels, out);
  return out;
}

}  // namespace tenon::codegen
