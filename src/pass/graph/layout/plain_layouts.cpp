// SPDX-License-Identifier: Apache-2.0
// plain_layouts: operators whose attributes name other layouts work in the plain ones, between
// transformations.
//
//   before   y = R.nn.conv2d(x, w, data_layout="NHWC", kernel_layout="HWIO")
//   after    lv = layout_transform(x, "NHWC" to "NCHW");  lv1 = layout_transform(w, "HWIO" to "OIHW")
//            lv2 = R.nn.conv2d(lv, lv1);  y = layout_transform(lv2, "NCHW" to "NHWC")
//
// Passes behind it see one layout, and convert_layout chooses the one that the machine computes in: weights
// that are constants are transformed while compiling. Layouts that an operator's own definition reads
// (channels in blocks side by side) stay. Needs: types; normal form. Keeps: values, up to the order of sums
// that the schedule of another layout has; types of all variables.
#include "op/body_rewriter.h"
#include "op/letters.h"

namespace tenon {
namespace graph {
namespace {

class PlainLayouts : public BodyRewriter {
 protected:
  Expr visit(const Expr& value, const VarRef& var) override {
    const Op* op = op_of(value);
    if (!op || !op::definition(*op).letters) return value;
    op::Inference run;
    op::InferContext ctx(run, *value.as<Call>());
    const Expr form = op::in_plain_layouts(ctx);
    if (!form || !run.problems.all().empty()) return value;
    return flat(form, value.as<Call>()->origin, var->name, true);
  }

 private:
  /// The formula, each call inside of it bound.
  Expr flat(const Expr& e, const Origin& origin, const std::string& name, bool outermost = false) {
    const auto* c = e.as<Call>();
    if (!c) return e;
    Expr call = op::op_call(op_of(e)->name, c->args.map([&](const Expr& a) { return flat(a, origin, name); }),
                            c->attrs, origin);
    return outermost ? call : emit(std::move(call), name);
  }
};

}  // namespace
}  // namespace graph

const Pass& plain_layouts_pass = register_pass({
    .name = "plain_layouts",
    .run = graph::each_function<graph::PlainLayouts>,
    .level = 1,
    .summary = "operators in layouts of any letters work in the plain ones, between transformations",
    .needs = {"infer_types"},
    .changes = Changes::sum_order,
});

}  // namespace tenon
