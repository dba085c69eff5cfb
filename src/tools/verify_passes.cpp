// SPDX-License-Identifier: Apache-2.0
#include "tools/verify_passes.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <random>

#include "interpret/interpret.h"
#include "interpret/memo.h"
#include "ir/attr_keys.h"
#include "ir/structural.h"
#include "ir/text.h"
#include "ir/tir.h"
#include "ir/walk.h"
#include "pipeline/program_entry.h"
#include "runtime/executable.h"
#include "tools/verify_bounds.h"

namespace tenon {
namespace {

using namespace graph;

NDArray random_array(std::mt19937_64& random, const std::vector<int64_t>& shape, DataType t) {
  NDArray a = NDArray::empty(shape, t);
  for (int64_t i = 0, n = a.size(); i < n; ++i) {
    const double u = double(random() >> 11) * 0x1p-53;
    if (t.is_float())
      a.set_element(i, u * 2 - 1);
    else
      a.set_element_int(i, t.is_bool() ? int64_t(u * 2) : int64_t(u * 4));
  }
  return a;
}

class Inputs {
 public:
  Inputs(uint64_t seed, int64_t size) : random_(seed), size_(size) {}
  Any of(const Type& type) {
    if (const auto* t = type.as<TensorType>()) {
      std::vector<int64_t> dims(size_t(std::max<int64_t>(0, t->ndim)), size_);
      if (auto shape = known_shape(type)) {
        dims.clear();
        for (const PrimExpr& d : *shape) dims.push_back(value(d));
      }
      return Any(random_array(random_, dims, t->dtype.is_void() ? f32 : t->dtype));
    }
    if (const auto* t = type.as<ShapeType>()) {
      Shape s = make<ShapeObj>();
      for (const PrimExpr& d : t->values) s.edit()->dims.push_back(value(d));
      return Any(s);
    }
    if (const auto* t = type.as<TupleType>()) {
      Array<Any> items;
      for (const Type& i : t->items) items.push_back(of(i));
      return Any(items);
    }
    if (const auto* t = type.as<PrimType>()) return t->value ? Any(value(t->value)) : Any(size_);
    return Any();
  }

 private:
  int64_t value(const PrimExpr& e) {
    if (auto n = tir::as_int(e)) return *n;
    tir::VarMap map;
    for (const tir::VarRef& v : tir::free_vars(e)) map[v.get()] = PrimExpr::int_imm(size_, v->dtype);
    return tir::as_int(simplify_sizes(tir::substitute(e, map))).value_or(size_);
  }
  /// The builders fold constants, so rebuilding an expression of numbers gives a number.
  static PrimExpr simplify_sizes(const PrimExpr& e) {
    return rewrite(
        e, [](const tir::Add& n) -> PrimExpr { return n.a + n.b; },
        [](const tir::Sub& n) -> PrimExpr { return n.a - n.b; },
        [](const tir::Mul& n) -> PrimExpr { return n.a * n.b; },
        [](const tir::FloorDiv& n) -> PrimExpr { return tir::floordiv(n.a, n.b); },
        [](const tir::FloorMod& n) -> PrimExpr { return tir::floormod(n.a, n.b); });
  }
  std::mt19937_64 random_;
  int64_t size_;
};

void flatten(const Any& v, std::vector<NDArray>& out) {
  if (auto a = v.try_as<NDArray>(); a && *a) {
    out.push_back(*a);
    return;
  }
  if (auto items = v.try_as<Array<Any>>(); items && *items)
    for (const Any& i : *items) flatten(i, out);
}

/// Elements of results that may be anything.
using Marks = std::vector<std::vector<bool>>;

/// "" when equal within the tolerances; `slack` is added to that of each result, and `marked` elements are
/// not compared.
std::string difference(const std::vector<NDArray>& want, const std::vector<NDArray>& got,
                       const VerifyPassesOptions& o, const std::vector<double>& slack = {},
                       const Marks& marked = {}) {
  if (want.size() != got.size()) return fmt::format("{} results became {}", want.size(), got.size());
  for (size_t k = 0; k < want.size(); ++k) {
    const NDArray &a = want[k], &b = got[k];
    if (a.shape() != b.shape() || a.dtype() != b.dtype()) return fmt::format("result {} changed its type", k);
    int64_t wrong = 0, first = -1;
    const double more = k < slack.size() ? slack[k] : 0;
    for (int64_t i = 0; i < a.size(); ++i) {
      const double x = a.element(i), y = b.element(i);
      const bool same =
          std::isinf(more) || (k < marked.size() && marked[k][size_t(i)]) ||
          (a.dtype().is_float()
               ? (std::isnan(x) ? std::isnan(y)
                                : x == y || std::abs(x - y) <= o.absolute + o.relative * std::abs(x) + more)
               : a.element_int(i) == b.element_int(i) || std::abs(x - y) <= more);
      if (!same && wrong++ == 0) first = i;
    }
    if (wrong)
      return fmt::format("result {}: {} of {} elements differ; element {} was {}, is {}", k, wrong, a.size(),
                         first, a.element(first), b.element(first));
  }
  return {};
}

/// Before and after a pass, most of a module is the same.
InterpretOptions remembering() {
  InterpretOptions options;
  options.memo = std::make_shared<InterpretMemo>(size_t(64) << 20);
  return options;
}

[[noreturn]] void tell_difference(const Pass& pass, const std::string& function, const std::string& what) {
  throw Error(
      ErrorKind::comparison, "T1010",
      fmt::format("pass `{}` changed a result of `{}`: {}", pass.name, function, what), {},
      fmt::format("this is a bug in Tenon: `tenon reduce MODEL` writes a small case on which `{}` does it",
                  pass.name));
}

/// Tensor programs that no graph function calls, each on tensors drawn for its parameters. What a program
/// stores to is compared, and what it reads, too: nobody may change that.
class VerifyPrograms {
 public:
  explicit VerifyPrograms(const VerifyPassesOptions& options) : options_(options) {}

  void begin(const IRModule& module) {
    Inputs inputs(options_.seed, options_.symbolic_size);
    for (const auto& [name, object] : module.functions()) {
      const auto f = object.cast<tir::PrimFuncNode>();
      if (!f || f->attrs.contains(kKernelAttr)) continue;
      Program p;
      bool known = true;
      for (const tir::VarRef& v : f->params) {
        const auto b = f->buffer_map.find(v);
        known = known && (b ? !(*b)->dtype.is_void() && (*b)->strides.empty() && (*b)->dtype.lanes == 1
                            : !v->dtype.is_void() && !v->dtype.is_handle());
        if (!known) break;
        p.given.push_back(b ? inputs.of(tensor_type((*b)->shape, (*b)->dtype)).as<NDArray>()
                            : scalar(v->dtype));
      }
      if (!known) continue;
      if (auto want = run(module, f, p)) {
        p.want = std::move(*want);
        programs_.emplace(name, std::move(p));
      }
    }
  }
  void after(const Pass& pass, const IRModule& module) {
    for (const auto& [name, p] : programs_) {
      const auto f = module.find(name).cast<tir::PrimFuncNode>();
      if (!f || f->attrs.contains(kKernelAttr)) continue;
      const auto got = run(module, f, p);
      if (!got) continue;
      if (const std::string text = difference(p.want, *got, options_); !text.empty())
        tell_difference(pass, name, text);
    }
  }

 private:
  struct Program {
    std::vector<NDArray> given, want;
  };
  NDArray scalar(DataType t) const {
    NDArray a = NDArray::empty({}, t);
    if (t.is_float())
      a.set_element(0, double(options_.symbolic_size));
    else
      a.set_element_int(0, options_.symbolic_size);
    return a;
  }
  /// All tensors behind a run; nullopt when the parameters are no longer those.
  static std::optional<std::vector<NDArray>> run(const IRModule& module, const tir::PrimFunc& f,
                                                 const Program& p) {
    if (f->params.size() != p.given.size()) return std::nullopt;
    std::vector<NDArray> out, args;
    for (size_t i = 0; i < p.given.size(); ++i) {
      out.push_back(p.given[i].copy());
      args.push_back(out.back());
      const auto b = f->buffer_map.find(f->params[i]);
      if (!b || int64_t((*b)->shape.size()) == args.back().ndim()) continue;
      // A flat view. Sizes that only a product tells cannot be bound from it.
      if ((*b)->shape.size() != 1 || !tir::as_int((*b)->shape[0])) return std::nullopt;
      if (*tir::as_int((*b)->shape[0]) != args.back().size()) return std::nullopt;
      args.back() = args.back().reshape({args.back().size()});
    }
    try {
      interpret_prim_func(f, args, module);
    } catch (const Error& e) {
      if (e.code == "T0350") return std::nullopt;  // something that only machine code has
      throw;
    }
    return out;
  }

  const VerifyPassesOptions& options_;
  std::map<std::string, Program> programs_;
};

class VerifyPasses : public PassInstrument {
 public:
  VerifyPasses(Evaluate evaluate, VerifyPassesOptions options)
      : evaluate_(std::move(evaluate)), options_(std::move(options)) {}

  void before(const Pass& pass, const IRModule& module) override {
    before_ = module;
    begin(module);
    if (const double by = pass.rounds; by > 0 && reference_ && runnable(module)) {
      if (!unrounded_) {
        unrounded_ = module;
        unrounded_values_ = arguments(module);
      }
      rounding_ += by;
      slack_.clear();
    }
    // Machine code contracts as the program around it lets it, whatever the pass declares.
    if (!may_step_ && (pass.changes != Changes::nothing || evaluate_)) {
      may_step_ = true;
      slack_.clear();
    }
    may_regroup_ = may_regroup_ || pass.changes != Changes::nothing;
  }
  /// The results that later modules are compared with; null when the function cannot be run.
  const std::vector<NDArray>* begin(const IRModule& module) {
    if (!started_) {
      started_ = true;
      if (!module.find(options_.function)) options_.function = entry_name(module);
      auto f = module.find(options_.function).cast<Function>();
      if (!f) {
        programs_.begin(module);
        return nullptr;
      }
      inputs_ = options_.inputs.size() == f->params.size()
                    ? options_.inputs
                    : seeded_inputs(f, options_.seed, options_.symbolic_size);
      for (size_t i = 0; i < inputs_.size(); ++i) by_name_[f->params[i]->name] = inputs_[i];
      given_ = inputs_;
      if (runnable(module)) reference_ = first_run(module, inputs_.size() == options_.inputs.size());
      if (reference_ && quantizes(module)) {
        quantised_ = module;
        quantised_values_ = arguments(module);
      }
      if (reference_ && multiplies_matrices(module)) {
        multiplied_ = module;
        multiplied_values_ = arguments(module);
      }
    }
    return reference_ ? &*reference_ : nullptr;
  }
  /// What differs from the first module's results once products may be grouped in another way: not where an
  /// operand of one is infinite.
  std::string regrouped_difference(const std::vector<NDArray>& got, const std::vector<double>& slack = {}) {
    if (multiplied_ && infinite_.empty()) {
      const auto run_with = [&](const IRModule& module, const std::vector<Any>& values) {
        return run(module, values);
      };
      infinite_ = what_infinities_do({multiplied_, multiplied_values_, *reference_, options_.seed, run_with});
    }
    return difference(*reference_, got, options_, slack, infinite_);
  }

  void after(const Pass& pass, const IRModule& module) override {
    if (module.same_as(before_) || structural_equal(before_, module)) return;
    if (!reference_) return programs_.after(pass, module);
    if (!runnable(module)) return;
    const std::vector<NDArray> got = run(module);
    std::string text = difference(*reference_, got, options_);
    if (!text.empty() && (unrounded_ || (may_step_ && quantised_)))
      text = difference(*reference_, got, options_, slack());
    if (!text.empty() && may_regroup_) text = regrouped_difference(got, slack_);
    if (!text.empty()) tell_difference(pass, options_.function, text);
  }

 private:
  /// Programs behind the packed ABI are no longer programs of tensors.
  bool runnable(const IRModule& module) const {
    if (!module.find(options_.function).is<Function>()) return false;
    for (auto [name, object] : module.functions())
      if (const auto* f = object.as<tir::PrimFuncNode>(); f && f->attrs.contains(kKernelAttr)) return false;
    return true;
  }

  /// How far each result may be off once values are rounded, and once quantised values are a step away.
  const std::vector<double>& slack() {
    if (!slack_.empty()) return slack_;
    auto run_with = [&](const IRModule& module, const std::vector<Any>& values) {
      return run(module, values);
    };
    slack_.assign(reference_->size(), 0);
    auto add = [&](const std::vector<double>& more) {
      for (size_t k = 0; k < slack_.size(); ++k) slack_[k] += more[k];
    };
    if (unrounded_)
      add(what_rounding_does({unrounded_, unrounded_values_, *reference_, options_.seed, run_with},
                             rounding_));
    if (may_step_ && quantised_)
      add(what_steps_do({quantised_, quantised_values_, *reference_, options_.seed, run_with}));
    return slack_;
  }

  std::vector<NDArray> first_run(const IRModule& module, bool given) {
    try {
      return run(module);
    } catch (const Error& e) {
      if (given || inputs_.empty()) throw;
      const std::string where =
          fmt::format("`{}` cannot be run on the inputs drawn to verify passes, with {} for symbolic sizes: ",
                      options_.function, options_.symbolic_size);
      throw Error(e.kind, e.code, where + e.message, e.location,
                  "`tenon run MODEL --verify -i INPUT=…` verifies on inputs that suit the model, "
                  "--dim NAME=N sets a size");
    }
  }
  std::vector<NDArray> run(const IRModule& module) { return run(module, arguments(module)); }
  std::vector<NDArray> run(const IRModule& module, const std::vector<Any>& values) {
    std::vector<NDArray> arrays, out;
    for (const Any& a : values)
      if (auto x = a.try_as<NDArray>(); x && *x) arrays.push_back(*x);
    if (evaluate_ && arrays.size() == values.size()) return evaluate_(module, options_.function, arrays);
    flatten(interpret(module, options_.function, values, interpreting_), out);
    return out;
  }

  /// A tuple for a type of tuples, as deep as it is; a value that is none for any other type.
  static bool fits(const Any& value, const Type& type) {
    const auto items = value.try_as<Array<Any>>();
    const auto* t = type.as<TupleType>();
    if (!t || !items || !*items) return !t && !(items && *items);
    if (items->size() != t->items.size()) return false;
    for (size_t i = 0; i < items->size(); ++i)
      if (!fits((*items)[i], t->items[i])) return false;
    return true;
  }

  /// Some passes change the parameters: they bind some, compute others once from the weights, or make one
  /// tuple of them.
  std::vector<Any> arguments(const IRModule& module) {
    const auto f = module.find(options_.function).cast<Function>();
    const std::string name = options_.function + "_transform_params";
    const auto transform = module.find(name).cast<Function>();
    const auto kind =
        transform ? transform->attrs.get_or("transform_params", Any(int64_t(0))).as<int64_t>() : 0;
    if (kind == 1 && transformed_ != kind) {
      transformed_ = kind;
      weights_.clear();
      for (const VarRef& p : transform->params) weights_.push_back(by_name_[p->name]);
      // The results are the last parameters of main.
      const Array<Any> results = interpret(module, name, weights_, interpreting_).as<Array<Any>>();
      given_.clear();
      for (size_t i = 0; i + results.size() < f->params.size(); ++i)
        given_.push_back(by_name_[f->params[i]->name]);
      for (const Any& a : results) given_.push_back(a);
    }
    const bool given_as_tuple = given_.size() == f->params.size() && !given_.empty() &&
                                fits(given_.back(), f->params.back()->declared);
    const bool tuple = !bundled_ && !given_as_tuple && !f->params.empty() &&
                       f->params.back()->declared.is<TupleType>() && !by_name_.count(f->params.back()->name);
    if (tuple) {
      const auto first = given_.begin() + std::ptrdiff_t(f->params.size() - 1);
      const Any weights(Array<Any>(std::vector<Any>(first, given_.end())));
      given_.erase(first, given_.end());
      given_.push_back(weights);
      bundled_ = true;
    } else if (f->params.size() < given_.size()) {
      given_.clear();
      for (const VarRef& p : f->params) given_.push_back(by_name_[p->name]);
    }
    return given_;
  }

  Evaluate evaluate_;
  VerifyPassesOptions options_;
  bool started_ = false;
  IRModule before_, unrounded_;  ///< unrounded_: as it was before the first pass that rounds
  IRModule quantised_;           ///< as it was at first, where it quantises
  IRModule multiplied_;          ///< as it was at first, where it multiplies matrices
  std::vector<Any> unrounded_values_, quantised_values_, multiplied_values_;
  Marks infinite_;            ///< elements that hang on an infinite operand of a product
  bool may_regroup_ = false;  ///< products may have been grouped in another way
  double rounding_ = 0;
  bool may_step_ = false;  ///< a number in front of a quantisation may have been rounded elsewhere
  std::vector<double> slack_;
  std::vector<Any> inputs_, given_, weights_;
  std::map<std::string, Any> by_name_;
  int64_t transformed_ = 0;
  bool bundled_ = false;
  InterpretOptions interpreting_ = remembering();
  VerifyPrograms programs_{options_};
  std::optional<std::vector<NDArray>> reference_;
};

}  // namespace

std::vector<Any> seeded_inputs(const Ref<graph::Function>& f, uint64_t seed, int64_t symbolic_size) {
  Inputs inputs(seed, symbolic_size);
  std::vector<Any> out;
  for (const VarRef& p : f->params) out.push_back(inputs.of(p->declared));
  return out;
}

std::string result_difference(const IRModule& module, const std::vector<NDArray>& got,
                              const VerifyPassesOptions& options, const Evaluate& evaluate) {
  VerifyPasses checker(evaluate, options);
  const std::vector<NDArray>* want = checker.begin(module);
  if (!want) return "the module cannot be run";
  const std::string text = difference(*want, got, options);
  return text.empty() ? text : checker.regrouped_difference(got);
}

std::unique_ptr<PassInstrument> verify_passes(Evaluate evaluate, VerifyPassesOptions options) {
  return std::make_unique<VerifyPasses>(std::move(evaluate), std::move(options));
}

}  // namespace tenon
