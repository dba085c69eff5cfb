// SPDX-License-Identifier: Apache-2.0
// bind_params: parameters become constants.
//
//   before   main(x, w): lv = R.matmul(x, w)             bind_params.values: w=<tensor>
//   after    main(x): lv = R.matmul(x, const)
//
// A name that no parameter has, or a tensor of another type, is refused (T1031). Symbolic sizes that only a
// bound parameter shows must not be used elsewhere. Keeps: values for these parameters.
#include <fmt/format.h>

#include "base/diagnostic.h"
#include "ir/text.h"
#include "op/body_rewriter.h"

namespace tenon {
namespace graph {
namespace {

class BindParams : public BodyRewriter {
 public:
  BindParams(std::string function, Map<std::string, NDArray> values)
      : name_(std::move(function)), values_(std::move(values)) {}

  Ref<Function> bind(const Ref<Function>& f) {
    Array<VarRef> kept;
    int64_t fewer = 0;
    auto inputs = f->attrs.find("num_inputs");
    const int64_t num_inputs = inputs ? inputs->as<int64_t>() : -1;
    Array<std::string> names;
    auto old_names = f->attrs.find("input_names");
    for (size_t i = 0; i < f->params.size(); ++i) {
      const VarRef& p = f->params[i];
      auto value = values_.find(p->name);
      if (!value) {
        kept.push_back(p);
        if (old_names) {
          const auto all = old_names->as<Array<std::string>>();
          if (i < all.size()) names.push_back(all[i]);
        }
        continue;
      }
      bound_.push_back({p, tensor(*p, *value)});
      if (int64_t(i) < num_inputs) ++fewer;
      used_.insert(p->name);
    }
    std::string all;
    for (const VarRef& p : f->params) all += (all.empty() ? "" : ", ") + p->name;
    for (auto [name, value] : values_)
      if (!used_.count(name))
        fail("T1031", fmt::format("`{}` has no parameter `{}`", name_, name), {}, "it has: " + all,
             ErrorKind::usage);
    Ref<Function> out = f;
    out.edit()->params = kept;
    if (num_inputs >= 0) out.edit()->attrs.set("num_inputs", Any(num_inputs - fewer));
    if (old_names) out.edit()->attrs.set("input_names", Any(names));
    return run(out);
  }

 protected:
  void enter_scope() override {
    for (const auto& [var, value] : bound_) replace(var, value);
  }

 private:
  Expr tensor(const Var& p, const NDArray& array) const {
    const auto* want = as_tensor(p.declared);
    bool fits = want && (want->dtype.is_void() || want->dtype == array.dtype());
    if (auto shape = known_shape(p.declared); fits && shape) {
      fits = int64_t(shape->size()) == array.ndim();
      for (size_t i = 0; fits && i < shape->size(); ++i)
        if (auto n = tir::as_int((*shape)[i])) fits = *n == array.shape()[i];
    }
    if (!fits)
      fail("T1031",
           fmt::format("parameter `{}` is {} and cannot be bound to this value", p.name, print(p.declared)),
           {}, "give a tensor of its type", ErrorKind::usage);
    return constant(array);
  }

  std::string name_;
  Map<std::string, NDArray> values_;
  std::vector<std::pair<VarRef, Expr>> bound_;
  std::set<std::string> used_;
};

}  // namespace
}  // namespace graph

static const Option<Map<std::string, NDArray>> kValues("bind_params.values", {}, "tensors for parameters");
static const Option<std::string> kFunction("bind_params.function", "main",
                                           "the function whose parameters they are");

static IRModule bind_params(IRModule module, PassContext& context) {
  using namespace graph;
  const Map<std::string, NDArray> values = context.options.get(kValues);
  if (values.empty()) return module;
  const std::string name = context.options.get(kFunction);
  const auto f = module.find(name).cast<graph::Function>();
  if (!f) fail("T1031", fmt::format("the module has no graph function `{}`", name), {}, {}, ErrorKind::usage);
  module.set(name, BindParams(name, values).bind(f));
  return module;
}

const Pass& bind_params_pass = register_pass({
    .name = "bind_params",
    .run = bind_params,
    .summary = "parameters become constants",
    .options = {kValues, kFunction},
});

}  // namespace tenon
