// SPDX-License-Identifier: Apache-2.0
// label_ops: calls of operators that come from nowhere get a name of their own.
//
//   before   lv = R.exp(x);  lv1 = R.exp(lv)                                   # no origin
//   after    lv = R.exp(x)  # node 'main.exp_0';  lv1 = R.exp(lv)  # node 'main.exp_1'
//
// Names number the calls of one operator in program order, nested bodies included, so the same module gets
// the same labels; reports and profiles lead back to them. Keeps: everything else.
#include <fmt/format.h>

#include "op/body_rewriter.h"

namespace tenon {
namespace graph {
namespace {

class LabelOps : public BodyRewriter {
 public:
  explicit LabelOps(std::string function) : function_(std::move(function)) {}

 protected:
  Expr visit(const Expr& value, const VarRef&) override {
    const Op* op = op_of(value);
    if (!op) return value;
    const auto dot = op->name.rfind('.');
    const std::string name = dot == op->name.npos ? op->name : op->name.substr(dot + 1);
    const int number = numbers_[name]++;
    if (value->origin) return value;
    const Call& c = *value.as<Call>();
    return with_type(call(c.op, c.args, c.attrs, c.type_args), value->type,
                     make<OriginObj>(fmt::format("{}.{}_{}", function_, name, number)));
  }

 private:
  std::string function_;
  std::map<std::string, int> numbers_;
};

}  // namespace
}  // namespace graph

static IRModule label_ops(IRModule module, PassContext&) {
  using namespace graph;
  return module.map_graph([](const std::string& name, const Ref<graph::Function>& f) -> ObjectRef {
    if (!f->body) return {};
    LabelOps rewriter(name);
    Ref<graph::Function> out = rewriter.run(f);
    return out.same_as(f) ? ObjectRef() : ObjectRef(out);
  });
}

const Pass& label_ops_pass = register_pass({
    .name = "label_ops",
    .run = label_ops,
    .summary = "calls of operators that come from nowhere get names",
});

}  // namespace tenon
