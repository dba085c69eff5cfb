// SPDX-License-Identifier: Apache-2.0
// The external code generator "default": our own pipeline compiles its regions, so what partitioning does can
// be seen and compared without any library. Its patterns are products with what follows them.
#include "base/function.h"
#include "ir/bodies.h"
#include "ir/dataflow_pattern.h"
#include "pass/graph/partition/outline.h"

namespace tenon::graph {
namespace {

/// The operator, then a sum and then a relu where there are.
dpl::DFPattern with_epilogue(const char* op) {
  using namespace dpl;
  const DFPattern product = dpl::is_op(op, {wildcard(), wildcard()});
  const DFPattern sum = make<OrPattern>(dpl::is_op("add", {product, wildcard()}), product);
  return make<OrPattern>(dpl::is_op("nn.relu", {sum}), sum);
}

Any patterns(Arguments) {
  Array<Any> out;
  for (const char* op : {"nn.dense", "matmul", "nn.conv2d"})
    out.push_back(Array<Any>{"default." + std::string(op), with_epilogue(op)});
  return out;
}

/// (regions, options) → the regions as they are.
Any generate(Arguments args) {
  const IRModule regions = args[0].as<IRModule>();
  AttrMap out;
  for (const auto& [name, f] : graph_functions(regions))
    if (f->attrs.contains(std::string(kCodegen))) out.set(name, regions);
  return out;
}

Any supports(Arguments args) {
  const Op* op = op_of(args[0].as<Expr>());
  return op && op->pure;
}

const bool default_registered = [] {
  registry::add("tenon.ext.default", tenon::Function(generate), false,
                "regions are compiled by Tenon itself");
  registry::add("tenon.ext.default.supports", tenon::Function(supports), false,
                "every operator without effects");
  registry::add("tenon.patterns.default", tenon::Function(patterns), false,
                "products with a sum and a relu behind them");
  return true;
}();

}  // namespace
}  // namespace tenon::graph
