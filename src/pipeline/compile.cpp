// SPDX-License-Identifier: Apache-2.0
// compile(): module in, executable and code out.
#include "pipeline/compile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tenon/tenon.h>

#include <ctime>
#include <fstream>
#include <set>
#include <thread>

#include "analysis/kernel_work.h"
#include "base/clock.h"
#include "codegen/vm/result_types.h"
#include "codegen/vm/vm_codegen.h"
#include "ir/bodies.h"
#include "ir/origin.h"
#include "ir/parallel.h"
#include "ir/symbols.h"
#include "ir/verify.h"
#include "ir/walk.h"
#include "op/infer.h"
#include "pipeline/evaluator.h"

namespace tenon {
namespace {

using Clock = std::chrono::steady_clock;

/// Passes report to the caller's progress function; its steps are all passes, then three more.
struct Progress : PassInstrument {
  const std::function<void(std::string_view, int, int)>* report;
  int done = 0, total = 0;
  void before(const Pass& pass, const IRModule&) override { step(pass.name); }
  void step(std::string_view name) {
    if (*report) (*report)(name, done, total);
    ++done;
  }
};

IRModule only_programs(const IRModule& module) {
  IRModule out = IRModule::create();
  for (auto [name, f] : module.functions())
    if (const auto* p = f.as<tir::PrimFuncNode>(); p && !p->attrs.contains("tenon.memory_only"))
      out.set(name, f);
  return out;
}

std::string size_text(int64_t bytes) {
  if (bytes < 1 << 20) return fmt::format("{:.1f} KiB", double(bytes) / 1024);
  return fmt::format("{:.1f} MiB", double(bytes) / (1 << 20));
}

void check_options(const CompileOptions& o) {
  if (o.opt_level < 0 || o.opt_level > 3)
    fail("T0904", fmt::format("the optimisation level is {}, not 0 to 3", o.opt_level), {}, {},
         ErrorKind::usage);
  if (o.memory_limit < 0) fail("T0904", "the memory limit is negative", {}, {}, ErrorKind::usage);
}

void dump_text(const PassContext& context, const std::string& name, const std::string& text) {
  const std::string path = context.dump_dir + "/" + name;
  std::ofstream out(path);
  out << text;
  out.close();
  if (!out) throw Error(ErrorKind::io, "T3003", "cannot write " + path);
}
/// The stages behind the last pass: LLVM's program and assembly, or C.
void dump_code(const PassContext& context, const IRModule& lowered, const Target& target, int opt_level) {
  const size_t number = context.timings.size();
  if (target->kind == "c")
    return dump_text(context, fmt::format("{:02}_codegen.c", number), codegen::c_source(lowered, target));
  dump_text(context, fmt::format("{:02}_codegen.ll", number), codegen::llvm_ir(lowered, target, opt_level));
  dump_text(context, fmt::format("{:02}_llvm.s", number + 1),
            codegen::llvm_assembly(lowered, target, opt_level));
}

/// The largest tensor that a call makes, in words, and the node of the model that wants it.
std::pair<std::string, std::string> largest_tensor(const IRModule& module) {
  std::pair<std::string, std::string> out;
  int64_t most = -1;
  for (auto [name, object] : module.functions()) {
    const auto* f = object.as<graph::Function>();
    if (!f) continue;
    graph::for_each_binding(f->body, [&](const graph::Binding& binding) {
      const graph::Expr value = graph::binding_value(binding);
      const auto* call = value.as<graph::Call>();
      if (!call || !graph::is_op(value, "call_tir")) return;
      for (const graph::Type& type : call->type_args) {
        const auto shape = graph::known_shape(type);
        const auto* tensor = type.as<graph::TensorType>();
        if (!shape || !tensor || tensor->dtype.is_void()) continue;
        std::vector<int64_t> dims;
        for (const PrimExpr& d : *shape)
          if (const auto n = tir::as_int(d)) dims.push_back(*n);
        if (dims.size() != shape->size()) continue;
        const auto bytes = int64_t(storage_bytes(element_count(dims), tensor->dtype));
        if (bytes <= most) continue;
        most = bytes;
        out.first = fmt::format("{} is the largest, {} of {}, {}", graph::binding_var(binding)->name,
                                to_string(tensor->dtype), fmt::format("[{}]", fmt::join(dims, ", ")),
                                size_text(bytes));
        out.second = place(value->origin);
      }
    });
  }
  return out;
}

void check_memory(const CompileOptions& o, int64_t arena, const IRModule& module) {
  if (o.memory_limit == 0 || arena <= o.memory_limit) return;
  const auto [largest, where] = largest_tensor(module);
  fail("T0902",
       fmt::format("intermediate tensors need {}, more than the limit of {}{}", size_text(arena),
                   size_text(o.memory_limit), largest.empty() ? "" : "; " + largest),
       where, "give a larger limit, or smaller dimensions with --dim", ErrorKind::limit);
}

/// What each kernel has to do at least, for reports that compare it with the time it takes.
std::vector<std::pair<std::string, std::string>> work_of_kernels(const IRModule& module) {
  std::vector<std::pair<std::string, std::string>> out;
  for (auto [name, object] : module.functions()) {
    const tir::PrimFunc f = object.cast<tir::PrimFuncNode>();
    if (!f) continue;
    if (const auto work = kernel_work(f))
      out.emplace_back("work." + f->attrs.get_or("global_symbol", Any(name)).as<std::string>(),
                       fmt::format("{:.0f} {:.0f}", work->flop, work->bytes));
  }
  return out;
}

/// Messages of assertions travel beside the code, so that the runtime can say them.
void add_metadata(Executable& exe, const IRModule& planned, const IRModule& lowered, const Target& target,
                  const CompileOptions& o) {
  exe.metadata.emplace_back("compiler", fmt::format("tenon {}", tenon_version()));
  exe.metadata.emplace_back("target", to_string(target));
  exe.metadata.emplace_back("target.record", to_json(target));
  int64_t bound = 0;
  for (auto [name, object] : planned.functions())
    if (const auto* f = object.as<graph::Function>())
      if (auto bytes = f->attrs.find("arena_lower_bound")) bound = std::max(bound, bytes->as<int64_t>());
  exe.metadata.emplace_back("memory.lower_bound", std::to_string(bound));
  for (auto& entry : describe_result(planned)) exe.metadata.push_back(std::move(entry));
  exe.metadata.emplace_back("flags", fmt::format("-O{}{}", o.opt_level, o.schedule ? "" : " --no-schedule"));
  for (auto& [name, value] : o.dims) exe.metadata.emplace_back("dim." + name, std::to_string(value));
  for (auto [name, object] : lowered.functions()) {
    const auto* f = object.as<tir::PrimFuncNode>();
    auto asserts = f ? f->attrs.find("tenon.asserts") : std::nullopt;
    auto list = asserts ? asserts->try_as<Array<std::string>>() : std::nullopt;
    if (!list || list->empty()) continue;
    std::string text;
    for (const std::string& line : *list) text += (text.empty() ? "" : "\n") + line;
    exe.metadata.emplace_back("asserts." + f->attrs.get_or("global_symbol", Any(name)).as<std::string>(),
                              text);
  }
}

}  // namespace

namespace {
/// As the importer makes one of a file's name: what is no letter, digit or _ becomes one _.
std::string identifier(const std::string& name) {
  std::string out;
  for (const char c : name)
    if (c == '_' || std::isalnum(static_cast<unsigned char>(c)))
      out += c;
    else if (!out.empty() && out.back() != '_')
      out += '_';
  return out;
}

/// What comes before the first pass.
IRModule prepare_module(IRModule module, CompileOptions& o) {
  PassContext& context = o.context;
  if (!context.evaluate) context.evaluate = make_evaluator(context.target.cast<TargetNode>());
  if (!o.dims.empty() || o.specialize_missing_dims)
    module = specialize_dims(module, o.dims, o.specialize_missing_dims);
  if (!o.dim_bounds.empty()) {
    std::set<std::string> known;
    if (const auto main = module.find("main").cast<graph::Function>()) {
      std::vector<tir::VarRef> symbols;
      for (const graph::VarRef& p : main->params) graph::symbols_of(p->declared, symbols);
      for (const tir::VarRef& s : symbols) known.insert(s->name);
    }
    AttrMap bounds;
    for (const auto& [given, most] : o.dim_bounds) {
      // A file's names need not be identifiers; the importer makes some of them.
      const std::string name = known.count(given) ? given : identifier(given);
      if (o.dims.count(given) || o.dims.count(name)) continue;  // it has a value
      if (most < 0 || !known.count(name))
        fail("T0903",
             most < 0 ? fmt::format("the bound of dimension '{}' is {}", given, most)
                      : fmt::format("no input has a symbolic dimension named '{}'", given),
             {}, known.empty() ? "" : fmt::format("the model has: {}", fmt::join(known, ", ")),
             ErrorKind::usage);
      bounds.set(name, Any(most));
    }
    if (!bounds.empty()) context.config.set("plan_memory.bounds", Any(bounds));
  }
  verify_or_throw(module);
  return module;
}
}  // namespace

IRModule module_at_stage(IRModule module, CompileOptions o, const std::string& stage) {
  announce_all_passes();
  PassContext& context = o.context;
  context.target = o.target ? o.target : host_target();
  context.opt_level = o.opt_level;
  const std::span<const Pass> lists[] = {graph_passes(), schedule_passes(), tensor_passes()};
  int last_list = -1;
  size_t last = 0;
  for (int l = 0; l < 3; ++l)
    for (size_t i = 0; i < lists[l].size(); ++i)
      if (lists[l][i].name == stage) last_list = l, last = i;
  if (last_list < 0 && stage != "import") {
    std::set<std::string_view> names{"import"};
    for (const auto& list : lists)
      for (const Pass& p : list) names.insert(p.name);
    fail("T0931", fmt::format("a compilation has no stage `{}`", stage), {},
         fmt::format("its stages are {}", fmt::join(names, ", ")), ErrorKind::usage);
  }
  module = prepare_module(std::move(module), o);
  for (int l = 0; l <= last_list; ++l) {
    if (l == 2) module = only_programs(module);
    module = run_passes(std::move(module), l < last_list ? lists[l] : lists[l].first(last + 1), context);
  }
  return module;
}

Compiled compile(IRModule module, CompileOptions o) {
  const auto start = Clock::now();
  check_options(o);
  CHECK(module, "nothing to compile");
  Compiled out;
  const Target target = o.target ? o.target : host_target();
  const int threads = o.threads > 0 ? o.threads : int(std::max(1u, std::thread::hardware_concurrency()));
  announce_all_passes();
  PassContext& context = o.context;
  context.target = target;
  context.opt_level = o.opt_level;
  module = prepare_module(std::move(module), o);

  Progress progress;
  progress.report = &o.progress;
  progress.total =
      int(graph_passes().size() + (o.schedule ? schedule_passes().size() : 0) + tensor_passes().size()) + 3;
  context.instruments.insert(context.instruments.begin(), &progress);

  module = run_passes(std::move(module), graph_passes(), context);
  if (!o.symbol_prefix.empty())
    module = module.map_prim([&](const std::string& name, const tir::PrimFunc& f) -> ObjectRef {
      tir::PrimFunc out = f;
      const auto symbol = f->attrs.get_or("global_symbol", Any(name)).as<std::string>();
      out.edit()->attrs.set("global_symbol", Any(o.symbol_prefix + symbol));
      return out;
    });
  int64_t arena = 0;
  for (auto [name, object] : module.functions())
    if (const auto* f = object.as<graph::Function>())
      if (auto bytes = f->attrs.find("arena_bytes")) arena = std::max(arena, bytes->as<int64_t>());
  check_memory(o, arena, module);
  const auto work = work_of_kernels(module);
  if (o.schedule) {
    const ParallelPrograms parallel(threads);
    module = run_passes(std::move(module), schedule_passes(), context);
  }
  out.planned = module;

  auto timed = [&](std::string name, auto f) {
    progress.step(name);
    if (context.cancelled && context.cancelled())
      throw Error(ErrorKind::interrupted, "T1003", "compilation was cancelled");
    const std::clock_t begin = std::clock();  // processor time of all threads, as of the passes
    f();
    context.timings.push_back({std::move(name), 1e3 * double(std::clock() - begin) / CLOCKS_PER_SEC, true});
  };
  // First, because it refuses what nothing lowered before time is spent on machine code.
  timed("vm", [&] { out.executable = vm_codegen(module, target); });
  {
    const ParallelPrograms parallel(threads);
    out.lowered = run_passes(only_programs(module), tensor_passes(), context);
  }
  add_metadata(out.executable, out.planned, out.lowered, target, o);
  out.executable.metadata.insert(out.executable.metadata.end(), work.begin(), work.end());
  const bool native = target->kind == "llvm";
  timed("codegen", [&] {
    if (native) out.object = codegen::llvm_object(out.lowered, target, o.opt_level, threads);
  });
  if (native) {
    // LLVM's part of that time, as its part of the threads' time is.
    PassTiming& codegen = context.timings.back();
    const double llvm =
        out.object.llvm_ms / std::max(1e-9, out.object.llvm_ms + out.object.front_ms) * codegen.ms;
    codegen.ms -= llvm;
    context.timings.push_back({"llvm", llvm, true});
  }
  if (!context.dump_dir.empty()) dump_code(context, out.lowered, target, o.opt_level);
  if (native && o.keep_shared_object)
    timed("link", [&] { out.shared_object = codegen::link_shared(out.object, target); });
  out.timings = context.timings;
  out.compile_ms = ms_since(start);
  return out;
}

IRModule specialize_dims(IRModule module, const std::map<std::string, int64_t>& dims,
                         bool missing_become_one) {
  using namespace graph;
  std::set<std::string> known;
  IRModule out = module.map_graph([&](const std::string&, const Ref<Function>& f) -> ObjectRef {
    std::vector<tir::VarRef> symbols;
    for (const VarRef& p : f->params) symbols_of(p->declared, symbols);
    tir::VarMap map;
    for (const tir::VarRef& s : symbols) {
      known.insert(s->name);
      auto it = dims.find(s->name);
      if (it != dims.end())
        map[s.get()] = PrimExpr::int_imm(it->second, s->dtype);
      else if (missing_become_one)
        map[s.get()] = PrimExpr::int_imm(1, s->dtype);
    }
    return map.empty() ? ObjectRef() : ObjectRef(with_sizes(f, map));
  });
  for (auto& [name, value] : dims) {
    if (value < 0)
      fail("T0903", fmt::format("dimension '{}' is {}", name, value), {}, "dimensions are not negative",
           ErrorKind::usage);
    if (known.count(name)) continue;
    std::string list;
    for (const std::string& k : known) list += (list.empty() ? "" : ", ") + k;
    fail("T0903", fmt::format("no input has a dimension named '{}'", name), {},
         list.empty() ? "all dimensions of this model are numbers" : "the model has: " + list,
         ErrorKind::usage);
  }
  return out;
}

}  // namespace tenon
