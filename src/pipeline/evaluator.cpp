// SPDX-License-Identifier: Apache-2.0
#include "pipeline/evaluator.h"

#include <fmt/format.h>

#include <map>
#include <mutex>

#include "analysis/region.h"
#include "codegen/codegen.h"
#include "codegen/vm/vm_codegen.h"
#include "interpret/interpret.h"
#include "ir/attr_keys.h"
#include "ir/find_node.h"
#include "ir/program_results.h"
#include "ir/structural.h"
#include "pipeline/compile.h"
#include "runtime/vm.h"

namespace tenon {
namespace {

/// Interpreting so many operations costs about as much as compiling a program; reading a number is one, too.
constexpr double kInterpretWork = 20000, kBytesPerOperation = 4;

class Evaluator {
 public:
  explicit Evaluator(Target target) : target_(std::move(target)) {}

  std::vector<NDArray> run(const IRModule& module, const std::string& function,
                           const std::vector<NDArray>& args) {
    ObjectRef f = module.find(function);
    if (auto p = f.cast<tir::PrimFuncNode>()) return run_program(module, p, args);
    CHECK(f.is<graph::Function>(), "no function to evaluate: " + function);
    return run_graph(module, function, args);
  }

 private:
  std::vector<NDArray> run_program(const IRModule& module, const tir::PrimFunc& f,
                                   const std::vector<NDArray>& args) {
    if (auto small = interpreted(module, f, args)) return *small;
    // A graph function around the program: the VM makes the outputs and knows how to call it.
    Array<graph::VarRef> params;
    Array<graph::Expr> values;
    Array<graph::Type> outputs;
    for (size_t i = 0; i < args.size(); ++i) {
      Array<PrimExpr> shape;
      for (int64_t d : args[i].shape()) shape.push_back(d);
      params.push_back(graph::var(fmt::format("x{}", i), graph::tensor_type(shape, args[i].dtype())));
      values.push_back(params.back());
    }
    for (int64_t i = 0; i < num_outputs(f); ++i) {
      const tir::Buffer& b = f->buffer_map.at(f->params[args.size() + size_t(i)]);
      outputs.push_back(graph::tensor_type(b->shape, b->dtype));
    }
    graph::BlockBuilder builder;
    graph::Expr result = builder.emit(graph::call_tir(graph::global("program"), values, outputs));
    IRModule whole = IRModule::create();
    graph::Expr body = builder.finish(result);
    whole.set("main", make<graph::Function>(params, body, body->type, AttrMap()));
    tir::PrimFunc program = f;
    program.edit()->attrs.set("global_symbol", Any("program"));
    whole.set("program", program);
    return execute(whole, args);
  }

  static bool calls_packed(const tir::PrimFunc& f) {
    return any_node(f->body, [&](const ObjectRef& n) {
      const auto* c = n.as<tir::Call>();
      return c && c->op == "tir.call_packed";
    });
  }

  std::optional<std::vector<NDArray>> interpreted(const IRModule& module, const tir::PrimFunc& f,
                                                  const std::vector<NDArray>& args) {
    // What the program calls in this process is called once, in its order.
    const bool calls = calls_packed(f);
    const WorkEstimate work = estimate_work(f->body);
    if (!calls && work.flop + work.bytes / kBytesPerOperation > kInterpretWork) return std::nullopt;
    std::vector<NDArray> all = args, outputs;
    for (size_t i = args.size(); i < f->params.size(); ++i) {
      auto b = f->buffer_map.find(f->params[i]);
      if (!b) return std::nullopt;
      std::vector<int64_t> shape;
      for (const PrimExpr& d : (*b)->shape) {
        auto n = tir::as_int(d);
        if (!n) return std::nullopt;
        shape.push_back(*n);
      }
      outputs.push_back(NDArray::zeros(shape, (*b)->dtype));
      all.push_back(outputs.back());
    }
    interpret_prim_func(f, all, module);
    return outputs;
  }

  std::vector<NDArray> run_graph(const IRModule& module, const std::string& function,
                                 const std::vector<NDArray>& args) {
    PassContext context;
    context.target = target_;
    IRModule m = run_pass("infer_types", module, context);
    // What kernels take for granted is checked, as in every compilation: a size may come from the data.
    m = run_pass("check_types", std::move(m), context);
    m = run_pass("lambda_lift", std::move(m),
                 context);  // the VM calls closures through functions of the module
    m = run_pass("check_sizes", std::move(m), context);
    m = run_pass("lower_to_call_tir", std::move(m), context);
    if (function != "main") {
      ObjectRef f = m.find(function);
      m.erase(function);
      m.set("main", f);
    }
    m = run_pass("remove_unused_functions", std::move(m), context);
    return execute(m, args);
  }

  std::vector<NDArray> execute(const IRModule& m, const std::vector<NDArray>& args) {
    Executable exe = vm_codegen(m, {});
    std::vector<std::shared_ptr<void>> keep;
    auto resolve = [&](const std::string& symbol) -> void* {
      for (auto [name, f] : m.functions()) {
        auto p = f.template cast<tir::PrimFuncNode>();
        if (p && p->attrs.get_or("global_symbol", Any(name)).template as<std::string>() == symbol)
          return kernel(p);
      }
      return nullptr;
    };
    Session session(Artifact::from_executable(std::move(exe), resolve));
    return session.invoke(std::span(args.data(), args.size()));
  }

  /// Machine code of one program, under a name of its own.
  void* kernel(tir::PrimFunc f) {
    std::lock_guard lock(mutex_);
    AttrMap attrs = f->attrs;
    // Run here, whatever processor it is for.
    for (const char* key : {"global_symbol", kSourceAttr, kTraceAttr, "target"}) attrs.erase(key);
    f.edit()->attrs = attrs;
    auto& same = cache_[structural_hash(f)];
    for (auto& [known, code] : same)
      if (structural_equal(known, f)) return code;
    const tir::PrimFunc key = f;
    const std::string symbol = fmt::format("program_{}", count_++);
    f.edit()->attrs.set("global_symbol", Any(symbol));
    IRModule m = IRModule::create();
    m.set(symbol, f);
    PassContext context;
    context.target = target_;
    context.opt_level = 1;
    m = run_passes(std::move(m), tensor_passes(), context);
    const codegen::LoadedCode loaded =
        codegen::linker_for(target_).load(codegen::code_generator(target_).object(m, target_, 1, 1), target_);
    void* code = loaded.find(symbol);
    CHECK(code, "the evaluator's program has no code");
    loaded_.push_back(loaded.keep);
    same.emplace_back(key, code);
    return code;
  }

  Target target_;
  std::mutex mutex_;
  int count_ = 0;
  std::map<uint64_t, std::vector<std::pair<tir::PrimFunc, void*>>> cache_;
  std::vector<std::shared_ptr<void>> loaded_;
};

}  // namespace

Evaluate make_evaluator() {
  // For this machine, whatever the target: code for another one is not run here.
  auto evaluator = std::make_shared<Evaluator>(host_target());
  return [evaluator](const IRModule& module, const std::string& function, const std::vector<NDArray>& args) {
    return evaluator->run(module, function, args);
  };
}

}  // namespace tenon
