// SPDX-License-Identifier: Apache-2.0
// split_args: concatenations of very many tensors are made in steps.
//
//   before   lv = R.concat((x0, …, x299), axis=0)                        # more than "split_args.max" (128)
//   after    lv_0 = R.concat((x0, …, x127), axis=0);  …;  lv = R.concat((lv_0, lv_1, lv_2), axis=0)
//
// For targets whose kernels take a bounded number of operands. Needs: types. Keeps: values bit by bit.
#include "op/body_rewriter.h"
#include "op/build.h"

namespace tenon {
namespace graph {
namespace {

class SplitArgs : public BodyRewriter {
 public:
  explicit SplitArgs(size_t most) : most_(most) {}

 protected:
  Expr visit(const Expr& value, const VarRef& var) override {
    if (!value.is<Call>() || !is_op(value, "concat")) return value;
    const Call& call = *value.as<Call>();
    const Expr made = call.args[0].is<Tuple>() ? call.args[0] : definition(call.args[0]);
    const auto* tuple = made ? made.as<Tuple>() : nullptr;
    if (!tuple || tuple->items.size() <= most_) return value;
    std::vector<Expr> parts(tuple->items.begin(), tuple->items.end());
    while (parts.size() > most_) {
      std::vector<Expr> next;
      for (size_t i = 0; i < parts.size(); i += most_) {
        const size_t end = std::min(parts.size(), i + most_);
        if (end == i + 1) {
          next.push_back(parts[i]);
          continue;
        }
        next.push_back(emit(
            concat(call, Array<Expr>(parts.begin() + std::ptrdiff_t(i), parts.begin() + std::ptrdiff_t(end))),
            var->name + "_part"));
      }
      parts = std::move(next);
    }
    return concat(call, Array<Expr>(parts.begin(), parts.end()));
  }

 private:
  static Expr concat(const Call& call, const Array<Expr>& items) {
    return op::op_call("concat", {op::tuple(items)}, call.attrs, call.origin);
  }
  size_t most_;
};

}  // namespace
}  // namespace graph

static const Option<int64_t> kSplitArgsMax("split_args.max", 128, "tensors of one concatenation at most",
                                           {.least = 2});

static IRModule split_args(IRModule module, PassContext& context) {
  const int64_t most = context.options.get(kSplitArgsMax);
  return graph::rewrite_functions<graph::SplitArgs>(std::move(module), size_t(most));
}

const Pass& split_args_pass = register_pass({
    .name = "split_args",
    .run = split_args,
    .summary = "concatenations of very many tensors are made in steps",
    .needs = {"infer_types"},
    .options = {kSplitArgsMax},
});

}  // namespace tenon
