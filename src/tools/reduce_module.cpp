// SPDX-License-Identifier: Apache-2.0
#include <unordered_set>

#include "tools/reduce_module.h"

#include <fmt/format.h>

#include "base/diagnostic.h"
#include "ir/regions.h"
#include "ir/structural.h"
#include "ir/tir.h"
#include "ir/verify.h"
#include "op/body_rewriter.h"
#include "op/build.h"
#include "pipeline/compile.h"
#include "pipeline/runner.h"

namespace tenon {
namespace {

using namespace graph;

/// Remembers which pass was begun last.
struct LastPass : PassInstrument {
  std::string name;
  void before(const Pass& pass, const IRModule&) override { name = pass.name; }
};

/// Verifies what a pass changed: functions that it left alone were verified before, and programs stand for
/// themselves.
struct VerifyChanged : PassInstrument {
  IRModule before_;
  void before(const Pass&, const IRModule& module) override { before_ = module; }
  void after(const Pass& pass, const IRModule& module) override {
    if (module.same_as(before_)) return;
    std::unordered_set<const Object*> known;
    for (const auto& [name, f] : before_.functions()) known.insert(f.get());
    bool graph =
        !module->types.same_as(before_->types) || module.functions().size() != before_.functions().size();
    for (const auto& [name, f] : module.functions()) graph = graph || !known.count(f.get());
    if (!graph) return;
    DiagnosticList problems;
    for (const auto& [name, f] : module.functions()) {
      if (auto p = f.cast<tir::PrimFuncNode>(); p && !known.count(p.get()))
        verify_prim_func(name, p, problems);
      else if (auto g = f.cast<tenon::graph::Function>())
        verify_graph_function(name, g, module, problems, false);
    }
    std::string text;
    for (const Diagnostic& d : problems.all()) text += "\n" + render(d);
    if (!text.empty())
      throw InternalError(
          fmt::format("pass `{}` left a module that the verifier refuses:{}", pass.name, text));
  }
};

/// A function in pieces, as the steps below change it.
struct Pieces {
  explicit Pieces(const tenon::graph::Function& f)
      : params(f.params), body(f.body), bindings(bindings_of(f.body)), result(result_of(f.body)) {}
  Array<VarRef> params;
  Expr body;                      ///< as it was, for its dataflow regions
  std::vector<Binding> bindings;  ///< in its order; null: left out
  Expr result;
};

/// Puts a leaf, or the body of a branch, in place of chosen values.
class Substitute : public BodyRewriter {
 public:
  std::unordered_map<const Var*, Expr> by;       ///< the variable's value becomes this leaf
  std::unordered_map<const Object*, Expr> leaf;  ///< an argument of calls and tuples becomes this one
  const Var* branch_of = nullptr;                ///< the `If` bound here becomes one of its branches
  bool taken = true;

 protected:
  Expr visit(const Expr& value, const VarRef& var) override {
    if (auto it = by.find(var.get()); it != by.end()) return replaced(it->second);
    if (const auto* i = value.as<If>(); i && branch_of == var.get()) {
      const Expr& branch = taken ? i->true_branch : i->false_branch;
      for (const Binding& b : bindings_of(branch)) splice(b);
      return replaced(result_of(branch));
    }
    if (leaf.empty()) return value;
    auto exchange = [&](const Array<Expr>& list) {
      Array<Expr> out = list;
      for (size_t i = 0; i < list.size(); ++i)
        if (auto it = leaf.find(list[i].get()); it != leaf.end()) out.set(i, it->second);
      return out;
    };
    if (const auto* c = value.as<Call>())
      return with_args(value, make<Call>(c->op, exchange(c->args), c->attrs, c->type_args));
    if (const auto* t = value.as<Tuple>()) return with_args(value, make<Tuple>(exchange(t->items)));
    return value;
  }

 private:
  static Expr with_args(const Expr& old, Expr now) {
    return structural_equal(old, now) ? old : with_type(std::move(now), old->type, old->origin);
  }
};

class Reducer {
 public:
  Reducer(IRModule module, const std::function<bool(const IRModule&)>& fails, const ReduceOptions& options)
      : best_(std::move(module)), fails_(fails), options_(options) {}

  IRModule run() {
    if (!best_.find(options_.function).is<tenon::graph::Function>()) return best_;
    bool smaller = true;
    while (smaller && tries_ < options_.max_tries) {
      smaller = single_result();
      smaller = earlier_result() || smaller;
      smaller = cut_inputs() || smaller;
      smaller = leave_out() || smaller;
      smaller = take_branches() || smaller;
      smaller = free_constants() || smaller;
    }
    leave_out_functions();
    return best_;
  }

 private:
  using Function = tenon::graph::Function;
  Ref<Function> function() const { return best_.find(options_.function).cast<Function>(); }
  Pieces pieces() const { return Pieces(*function()); }

  /// Leaves out what the result does not need and keeps the smaller module when it fails the same way.
  bool attempt(Pieces p) {
    if (tries_ >= options_.max_tries) return false;
    std::unordered_set<const Var*> used;
    for_each_use(p.result, [&](const VarRef& v) { used.insert(v.get()); });
    size_t kept = 0;
    for (size_t i = p.bindings.size(); i-- > 0;) {
      Binding& b = p.bindings[i];
      if (b && !used.count(b->var.get())) b = Binding();
      if (!b) continue;
      for_each_use(b->value, [&](const VarRef& v) { used.insert(v.get()); });
      ++kept;
    }
    Array<VarRef> params;
    for (const VarRef& v : p.params)  // a parameter may bind the sizes that others are written in
      if (used.count(v.get()) || !static_shape(v->declared)) params.push_back(v);
    if (p.result.is<Tuple>()) {
      p.result = op::tuple(p.result.as<Tuple>()->items);
      p.result.edit()->type = op::infer_type(p.result);
    }
    AttrMap attrs;
    attrs.set("global_symbol", Any(options_.function));
    const Ref<Function> f =
        make<Function>(params, in_regions(p.body, p.bindings, p.result), p.result->type, attrs);
    return keep(f, kept + params.size());
  }
  bool keep(const Ref<Function>& f, size_t size) {
    ++tries_;
    IRModule candidate = best_;
    candidate.set(options_.function, f);
    DiagnosticList problems;
    verify(candidate, problems, true);
    if (!problems.empty() || !fails_(candidate)) return false;
    best_ = std::move(candidate);
    if (options_.progress) options_.progress(tries_, size);
    return true;
  }
  /// Functions that nothing calls any more.
  void leave_out_functions() {
    PassContext context;
    IRModule candidate = run_pass("remove_unused_functions", best_, context);
    if (candidate.functions().size() < best_.functions().size() && fails_(candidate))
      best_ = std::move(candidate);
  }
  static Pieces with_result(Pieces p, const Expr& result) {
    p.result = result;
    return p;
  }
  bool attempt_with(Substitute& rewriter) { return attempt(Pieces(*rewriter.run(function()))); }

  bool single_result() {
    const Pieces p = pieces();
    const auto* t = p.result.as<Tuple>();
    if (!t) return false;
    for (const Expr& item : t->items)
      if (attempt(with_result(p, item))) return true;
    return false;
  }
  /// The first binding whose value shows the failure, by halving.
  bool earlier_result() {
    const Pieces p = pieces();
    size_t low = 0, high = p.bindings.size();
    bool any = false;
    while (low < high && tries_ < options_.max_tries) {
      const size_t middle = (low + high) / 2;
      const VarRef v = p.bindings[middle]->var;
      const bool smaller = !p.result.same_as(v) && attempt(with_result(p, v));
      any = any || smaller;
      (smaller ? high : low) = smaller ? middle : middle + 1;
    }
    return any;
  }
  /// Values become parameters, many at once, then fewer.
  bool cut_inputs() {
    bool any = false;
    for (size_t chunk = std::max<size_t>(1, pieces().bindings.size() / 2);; chunk /= 2) {
      for (size_t start = 0;;) {
        Pieces p = pieces();
        if (start >= p.bindings.size() || tries_ >= options_.max_tries) break;
        const size_t before = p.params.size();
        for (size_t i = start; i < std::min(start + chunk, p.bindings.size()); ++i) {
          Binding& b = p.bindings[i];
          if (!known_shape(b->var->declared)) continue;
          p.params.push_back(b->var);
          b = Binding();
        }
        if (p.params.size() > before && attempt(p))
          any = true;
        else
          start += chunk;
      }
      if (chunk <= 1) return any;
    }
  }
  /// A value is replaced by an operand of the same type.
  bool leave_out() {
    bool any = false;
    for (size_t i = 0; i < pieces().bindings.size(); ++i) {
      const Binding binding = pieces().bindings[i];
      const auto* c = binding->value.as<Call>();
      const VarRef v = binding->var;
      if (!c || !v->declared) continue;
      for (const Expr& arg : c->args) {
        if (!arg || !arg->type || !arg.is<Var>() || !structural_equal(arg->type, v->declared)) continue;
        Substitute rewriter;
        rewriter.by[v.get()] = arg;
        if (!attempt_with(rewriter)) continue;
        any = true;
        --i;
        break;
      }
      if (i == size_t(-1)) i = 0;
      if (tries_ >= options_.max_tries) break;
    }
    return any;
  }
  bool take_branches() {
    bool any = false;
    for (const Binding& binding : pieces().bindings) {
      if (!binding->value.is<If>()) continue;
      for (bool taken : {true, false}) {
        Substitute rewriter;
        rewriter.branch_of = binding->var.get();
        rewriter.taken = taken;
        if (!attempt_with(rewriter)) continue;
        any = true;
        break;
      }
    }
    return any;
  }
  bool free_constants() {
    bool any = false;
    std::vector<Expr> constants;
    for (const Binding& binding : pieces().bindings) {
      const Expr value = binding->value;
      auto see = [&](const Array<Expr>& list) {
        for (const Expr& e : list)
          if (e.is<Constant>() && e.as<Constant>()->data.size() > 1) constants.push_back(e);
      };
      if (const auto* c = value.as<Call>()) see(c->args);
      if (const auto* t = value.as<Tuple>()) see(t->items);
    }
    for (const Expr& c : constants) {
      Substitute rewriter;
      const VarRef v = var(fmt::format("c{}", ++freed_), c->type);
      rewriter.leaf[c.get()] = v;
      Pieces p(*rewriter.run(function()));
      p.params.push_back(v);
      any = attempt(p) || any;
    }
    return any;
  }

  IRModule best_;
  const std::function<bool(const IRModule&)>& fails_;
  const ReduceOptions& options_;
  int tries_ = 0, freed_ = 0;
};

}  // namespace

std::optional<PassFailure> find_failure(const IRModule& module, std::span<const Pass> passes,
                                        const PassContext& context, const VerifyPassesOptions& options,
                                        bool compile, const Evaluate& evaluate) {
  const auto checker = verify_passes(evaluate, options);
  LastPass last;
  PassContext own = context;
  VerifyChanged well_formed;
  own.verify = false;
  own.instruments.insert(own.instruments.end(), {&last, &well_formed, checker.get()});
  own.print_after.clear();
  own.dump_dir.clear();
  auto failure = [&](std::string code, std::string message) -> std::optional<PassFailure> {
    if (last.name.empty()) return {};  // it did not run to begin with
    return PassFailure{last.name, std::move(code), std::move(message)};
  };
  try {
    // What does not run before the first pass says nothing of the passes.
    static const Pass begin{"begin", [](IRModule m, PassContext&) { return m; }, 0, ""};
    checker->before(begin, module);
    run_passes(module, passes, own);
    if (!compile) return {};
    last.name = "codegen";
    const auto f = module.find(options.function).cast<tenon::graph::Function>();
    std::vector<NDArray> inputs;
    for (const Any& a : seeded_inputs(f, options.seed, options.symbolic_size)) {
      auto array = a.try_as<NDArray>();
      if (!array) return {};
      inputs.push_back(*array);
    }
    CompileOptions compile_options;
    if (const auto target = own.target.cast<TargetNode>()) compile_options.target = to_json(target);
    compile_options.opt_level = own.opt_level;
    compile_options.context.required = own.required;
    compile_options.context.disabled = own.disabled;
    compile_options.context.options = own.options;
    Runner runner(module, compile_options);
    const std::string text = result_difference(module, runner.run(inputs), options, evaluate);
    return text.empty() ? std::nullopt : failure("T1010", text);
  } catch (const Error& e) {
    return failure(e.code, e.message);
  } catch (const std::exception& e) {
    return failure("internal", e.what());
  }
}

IRModule reduce_module(IRModule module, const std::function<bool(const IRModule&)>& fails,
                       const ReduceOptions& options) {
  return Reducer(std::move(module), fails, options).run();
}

}  // namespace tenon
