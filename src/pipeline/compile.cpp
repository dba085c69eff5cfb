// SPDX-License-Identifier: Apache-2.0
// compile(): module in, executable and code out.
#include "pipeline/compile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <ctime>
#include <fstream>
#include <set>
#include <thread>

#include "analysis/program_target.h"
#include "base/clock.h"
#include "base/time_limit.h"
#include "codegen/debug_source.h"
#include "codegen/vm/vm_codegen.h"
#include "ir/attr_keys.h"
#include "ir/function_symbols.h"
#include "ir/parallel.h"
#include "ir/tir.h"
#include "ir/verify.h"
#include "pipeline/bind_inputs.h"
#include "pipeline/dimensions.h"
#include "pipeline/evaluator.h"
#include "pipeline/measure_modules.h"
#include "pipeline/memory_limit.h"
#include "pipeline/metadata.h"
#include "runtime/artifact.h"
#include "target/narrow_float.h"
#include "target/target_kind.h"
#include "target/variants.h"

namespace tenon {
namespace {

using codegen::code_generator;
using codegen::CodeGenerator;

/// The type of contractions that the settings ask for; nullopt: they name none.
std::optional<DataType> contraction_type(const CompileSettings& s) {
  constexpr std::pair<std::string_view, DataType> named[] = {
      {"f32", f32}, {"bf16", DataType::bfloat16()}, {"f16", f16}};
  for (const auto& [name, type] : named)
    if (s.precision == name) return type;
  return std::nullopt;
}

void check_settings(const CompileSettings& s, DiagnosticList& problems) {
  if (s.opt_level < 0 || s.opt_level >= kOnRequest)
    problems.add("T0904", fmt::format("the optimisation level is {}, not 0 to 3", s.opt_level));
  if (s.threads < 0) problems.add("T0904", fmt::format("the number of threads is {}", s.threads));
  if (s.memory_limit < 0) problems.add("T0904", "the memory limit is negative");
  if (!contraction_type(s))
    problems.add("T0904", fmt::format("the precision is `{}`, not f32, bf16 or f16", s.precision));
  Array<std::string> printed;
  for (const std::string& pass : s.print_after)
    if (pass != "all") printed.push_back(pass);
  passes_named(printed, problems);
}

/// A program may name its target; one that this compilation makes no code for is refused: T0949.
void check_targets_of_programs(const IRModule& module, const Target& target) {
  DiagnosticList problems;
  for (const auto& [name, f] : module.functions()) {
    if (const auto* p = f.as<tir::PrimFuncNode>()) try {
        program_target(*p, target);
      } catch (const DiagnosticError& e) {
        Diagnostic problem = e.diagnostics[0];
        if (problem.location.empty()) problem.location = fmt::format("program `{}`", name);
        problems.add(problem);
      }
  }
  problems.throw_if_any();
}

/// What comes before the first pass: dimensions get their values and bounds, inputs theirs, and mistakes of
/// the module are found.
IRModule prepare_module(IRModule module, const CompileOptions& o, PassContext& context) {
  if (!o.dims.empty() || o.specialize_missing_dims)
    module = specialize_dims(module, sizes_of(o.dims), o.specialize_missing_dims);
  if (!o.bind.empty()) module = bind_inputs(std::move(module), o.bind);
  Map<std::string, int64_t> bounds;
  for (const auto& [name, most] : known_bounds(module, sizes_of(o.dim_bounds), sizes_of(o.dims)))
    bounds.set(name, most);
  if (!bounds.empty()) context.options.set("plan_memory.bounds", bounds);
  verify_or_throw(module);
  DiagnosticList problems;
  check_graph_symbols(module, problems);
  problems.throw_if_any();
  check_targets_of_programs(module, context.target.cast<TargetNode>());
  return module;
}

/// The tensor programs that become code. Concatenations whose parts plan_memory has written where they belong
/// are never called.
IRModule only_programs(const IRModule& module) {
  IRModule out = IRModule::create();
  for (auto [name, f] : module.functions())
    if (const auto* p = f.as<tir::PrimFuncNode>(); p && !p->attrs.contains(kMemoryOnlyAttr)) out.set(name, f);
  return out;
}

IRModule with_symbol_prefix(const IRModule& module, const std::string& prefix) {
  if (prefix.empty()) return module;
  return module.map_prim([&](const std::string& name, const tir::PrimFunc& f) -> ObjectRef {
    tir::PrimFunc out = f;
    const auto symbol = f->attrs.get_or("global_symbol", Any(name)).as<std::string>();
    out.edit()->attrs.set("global_symbol", Any(prefix + symbol));
    return out;
  });
}

/// The steps of a compilation as its caller sees them: passes and what is no pass, reported before each and
/// timed.
class Steps : public PassInstrument {
 public:
  Steps(const CompileOptions& o, PassContext& context) : progress_(o.progress), context_(context) {
    constexpr int kStepsBesidePasses = 3;  // vm, codegen, link
    total_ =
        int(graph_passes().size() + (o.schedule ? schedule_passes().size() : 0) + tensor_passes().size()) +
        kStepsBesidePasses;
    context.instruments.insert(context.instruments.begin(), this);
  }
  void before(const Pass& pass, const IRModule&) override { begin(pass.name); }

  /// A step that is no pass: `f` runs, and its processor time, of all threads, joins those of the passes.
  void run(const std::string& name, FunctionRef<void()> f) {
    begin(name);
    if (context_.cancelled && context_.cancelled())
      throw Error(ErrorKind::interrupted, "T1003", "compilation was cancelled");
    const AtWork at([&] { return fmt::format("the step `{}`", name); });
    TimeLimit::check();
    const std::clock_t start = std::clock();
    f();
    context_.timings.push_back({name, 1e3 * double(std::clock() - start) / CLOCKS_PER_SEC, true});
  }
  /// Counts `part` of the last step's time (0 … 1) as another step.
  void split_last(const std::string& name, double part) {
    PassTiming& last = context_.timings.back();
    const double ms = part * last.ms;
    last.ms -= ms;
    context_.timings.push_back({name, ms, true});
  }

 private:
  void begin(std::string_view name) {
    if (progress_) progress_(name, done_, total_);
    ++done_;
  }
  const std::function<void(std::string_view, int, int)>& progress_;
  PassContext& context_;
  int done_ = 0, total_ = 0;
};

void dump_text(const std::string& path, const std::string& text) {
  std::ofstream out(path);
  out << text;
  out.close();
  if (!out) throw Error(ErrorKind::io, "T3003", "cannot write " + path);
}
/// The stages behind the last pass as files: "NN_codegen.ll", and what the library makes of it, "NN_llvm.s".
void dump_code(const Compiled& compiled, const CodeGenerator& generator, const PassContext& context) {
  if (context.dump_dir.empty()) return;
  size_t number = context.timings.size();
  std::string_view step = "codegen";
  for (const codegen::CodeText& text : generator.texts) {
    dump_text(fmt::format("{}/{:02}_{}{}", context.dump_dir, number++, step, text.ending),
              text.kernels(compiled.lowered, compiled.target, compiled.opt_level, {}));
    step = generator.library;
  }
}

/// From the lowered programs to the code that was asked for.
void generate_code(Compiled& out, const CompileOptions& o, int threads, Steps& steps,
                   const PassContext& context) {
  const CodeGenerator& generator = code_generator(out.target);
  steps.run("codegen", [&] {
    if (o.code == CodeForm::none)
      generator.check(out.lowered, out.target);
    else
      out.object = generator.object(out.lowered, out.target, out.opt_level, threads);
  });
  if (const double all = out.object.front_ms + out.object.library_ms; !generator.library.empty() && all > 0)
    steps.split_last(generator.library, out.object.library_ms / all);
  dump_code(out, generator, context);
  if (o.code == CodeForm::shared)
    steps.run("link", [&] {
      out.shared_object =
          codegen::linker_for(out.target).link(out.object, out.target, codegen::LinkedAs::shared, nullptr);
    });
  out.executable.modules = out.object.modules;
  for (const std::string& feature : more_features(out.lowered, out.target))
    out.executable.needs.features.push_back(feature);
}

/// One after the other; times are of all.
Compiled compile_variants(const IRModule& module, CompileOptions o, const std::vector<Target>& targets) {
  if (targets.size() > kMostVariants)
    fail("T0901",
         fmt::format("an artifact has code for at most {} processors, not {}", kMostVariants, targets.size()),
         {}, {}, ErrorKind::usage);
  if (!o.debug_file.empty())
    fail("T0921", "lines of programs are of code for one processor", "-g", "name one with -mcpu",
         ErrorKind::usage);
  Compiled out;
  for (const Target& t : targets) {
    o.target = to_json(t);
    Compiled one = compile(module, o);
    if (!out.target) {
      out = std::move(one);
      continue;
    }
    out.compile_ms += one.compile_ms;
    out.timings.insert(out.timings.end(), one.timings.begin(), one.timings.end());
    out.variants.push_back(std::move(one));
  }
  return out;
}

}  // namespace

Target target_of(const ModelSettings& settings) {
  return settings.target.empty() ? host_target() : parse_target(settings.target);
}

std::string precision_fallback(const CompileSettings& settings, const Target& target) {
  if (contraction_type(settings) != DataType::bfloat16() || bf16_products_pay(target)) return {};
  for (const std::string& pass : settings.require_passes)
    if (pass == "to_mixed_precision") return {};
  return fmt::format(
      "precision bf16: {} multiplies float32 no slower, so contractions stay in float32 "
      "(--require-pass to_mixed_precision rounds them all the same)",
      target->cpu.empty() ? target->kind : target->cpu);
}

PassContext context_of(const CompileOptions& o) {
  DiagnosticList problems(ErrorKind::usage);
  PassContext context = context_of(o, problems);
  problems.throw_if_any();
  return context;
}

PassContext context_of(const CompileOptions& o, DiagnosticList& problems,
                       std::optional<std::span<const Pass>> named) {
  check_settings(o, problems);
  PassContext context = o.context;
  const Target target = target_of(o);
  context.target = target;
  context.opt_level = int(o.opt_level);
  const DataType contractions = contraction_type(o).value_or(f32);
  if (contractions != f32 && precision_fallback(o, target).empty()) {
    context.required.insert("to_mixed_precision");
    context.required.insert("div_to_mul");  // a rounding of float32 is far below that of 16 bits
    context.options.set_text("to_mixed_precision.dtype=" + to_string(contractions), problems);
    // Products take subnormal operands as 0 anyway, and a check of every rounding costs as much as it does.
    if (contractions == DataType::bfloat16())
      context.options.set_text("bf16_storage_legalize.drop_subnormals=true", problems);
  }
  for (const std::string& pass : o.require_passes) context.required.insert(pass);
  for (const std::string& pass : o.disable_passes) context.disabled.insert(pass);
  for (const std::string& text : o.pass_options) context.options.set_text(text, problems);
  if (!o.overrides.empty()) {
    context.required.insert("override_kernels");
    context.options.set("override_kernels.folders", Any(o.overrides));
  }
  check_pass_requests(context, problems, named);
  if (!o.dump.empty()) context.dump_dir = o.dump;
  for (const std::string& pass : o.print_after) context.print_after.insert(pass);
  if (!context.evaluate) context.evaluate = make_evaluator();
  if (!context.measure) context.measure = make_measure(o, target);
  return context;
}

Compiled compile(IRModule module, CompileOptions o) {
  // A target that names several processors: a file has code for each, this process takes that for its own.
  if (const std::vector<Target> targets = parse_targets(o.target);
      targets.size() > 1 && o.code != CodeForm::none) {
    if (o.code == CodeForm::shared) return compile_variants(module, std::move(o), targets);
    o.target = to_json(best_for_host(targets));
  }
  const auto start = std::chrono::steady_clock::now();
  const TimeLimit limit(o.compile_timeout);
  CHECK(module, "nothing to compile");
  const int threads = o.threads > 0 ? int(o.threads) : int(std::max(1u, std::thread::hardware_concurrency()));
  PassContext context = context_of(o);
  check_graph_targets(module, context.target.cast<TargetNode>());
  Steps steps(o, context);                                       // reports and times every pass below
  const ParallelPrograms parallel(threads, &context.cancelled);  // passes visit programs on these threads
  Compiled out;
  out.target = context.target.cast<TargetNode>();
  out.opt_level = context.opt_level;

  // Graph: operators become calls of tensor programs, and intermediate tensors get their memory.
  module = prepare_module(std::move(module), o, context);
  module = run_passes(std::move(module), graph_passes(), context);
  module = with_symbol_prefix(module, o.symbol_prefix);
  check_memory_limit(module, o.memory_limit);
  const Metadata work = work_of_kernels(module);  // before schedules add copies and padding to it

  // Schedules: each program's loops are placed for the target.
  if (o.schedule) module = run_passes(std::move(module), schedule_passes(), context);
  out.planned = module;

  // Bytecode that calls the programs. It refuses what no pass lowered, so it comes before the time that code
  // takes.
  steps.run("vm", [&] { out.executable = vm_codegen(module, out.target); });

  // Programs: blocks become loops over flat memory, then code. Graph functions are bytecode by now.
  out.lowered = run_passes(only_programs(module), tensor_passes(), context);
  if (!o.debug_file.empty()) out.lowered.edit()->attrs.set(codegen::kDebugFile, Any(o.debug_file));
  generate_code(out, o, threads, steps, context);

  Metadata& metadata = out.executable.metadata;
  for (const Metadata& entries : {describe_compilation(out, o), work})
    metadata.insert(metadata.end(), entries.begin(), entries.end());
  out.timings = std::move(context.timings);
  out.compile_ms = ms_since(start);
  return out;
}

namespace {
/// The lists of a compilation in their order.
auto pass_lists() { return std::array{graph_passes(), schedule_passes(), tensor_passes()}; }

/// The first passes of a compilation: those of `list` up to `count`, and all before them.
IRModule run_first(IRModule module, const CompileOptions& o, size_t list, size_t count) {
  PassContext context = context_of(o);
  const auto lists = pass_lists();
  module = prepare_module(std::move(module), o, context);
  for (size_t l = 0; l <= list; ++l) {
    if (lists[l].data() == tensor_passes().data()) module = only_programs(module);
    module = run_passes(std::move(module), l < list ? lists[l] : lists[l].first(count), context);
  }
  return module;
}
}  // namespace

IRModule module_in_front_of(IRModule module, CompileOptions o, const std::string& stage) {
  const auto lists = pass_lists();
  for (size_t l = 0; l < lists.size(); ++l)
    if (const auto at = std::ranges::find(lists[l], stage, &Pass::name); at != lists[l].end())
      return run_first(std::move(module), o, l, size_t(at - lists[l].begin()));
  throw InternalError("no compilation runs the pass " + stage);
}

IRModule module_at_stage(IRModule module, CompileOptions o, const std::string& stage) {
  const auto lists = pass_lists();
  // The last run of the pass: some run twice.
  std::optional<std::pair<size_t, size_t>> last;  // list, and how many passes of it
  std::set<std::string_view> names{"import"};
  for (size_t l = 0; l < lists.size(); ++l)
    for (size_t i = 0; i < lists[l].size(); ++i) {
      names.insert(lists[l][i].name);
      if (lists[l][i].name == stage) last = {l, i + 1};
    }
  if (!last && stage != "import")
    fail("T0931", fmt::format("a compilation has no stage `{}`", stage), {},
         fmt::format("its stages are {}", fmt::join(names, ", ")), ErrorKind::usage);
  return run_first(std::move(module), o, last ? last->first : 0, last ? last->second : 0);
}

}  // namespace tenon
