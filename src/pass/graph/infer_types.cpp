// SPDX-License-Identifier: Apache-2.0
// infer_types: every binding's variable gets the type that follows from its value.
//
//   before   lv = R.matmul(x, w)
//   after    lv: R.Tensor((n, 128), dtype="float32") = R.matmul(x, w)
//
// Needs: normal form; parameters with types. Keeps: values; a declared type stays where it says more than
// inference. A user's type error is a DiagnosticError of the operator (T1101) at the model's place.
#include "ir/structural.h"
#include "op/infer.h"
#include "pass/graph/passes.h"
#include "pass/graph/rewriter.h"

namespace tenon {
namespace graph {
namespace {

/// How much a type tells: unknown < element type < rank < shape.
int knowledge(const Type& t) {
  if (!t || t.is<ObjectType>()) return 0;
  if (const auto* x = t.as<TensorType>())
    return 1 + !x->dtype.is_void() + (x->ndim >= 0) + 2 * known_shape(t).has_value();
  if (const auto* x = t.as<ShapeType>()) return 1 + (x->ndim >= 0) + x->known;
  if (const auto* x = t.as<TupleType>()) {
    int sum = 1;
    for (const Type& i : x->items) sum += knowledge(i);
    return sum;
  }
  return 2;
}

class InferTypes : public BodyRewriter {
 protected:
  Expr visit(const Expr& value, const VarRef&) override {
    if (!value->type) type(value);
    return value;
  }
  Type retype(const Expr& value, const VarRef& var) override {
    Type t = type(value);
    return t && knowledge(t) > knowledge(var->declared) ? t : Type();
  }

 private:
  static Type type(const Expr& value) {
    Type t = infer_value(value);
    if (t && knowledge(t) >= knowledge(value->type)) value.mut()->type = t;
    return value->type;
  }
};

/// Types are facts beside the nodes: sequences and functions get theirs in place.
void finish(const Expr& body) {
  auto* s = body.as<SeqExpr>();
  if (s && !body->type) body.mut()->type = s->body->type;
}

}  // namespace
}  // namespace graph

IRModule infer_types(IRModule module, PassContext&) {
  using namespace graph;
  return module.map_graph([&](const std::string&, const Ref<Function>& f) -> ObjectRef {
    InferTypes rewriter;
    Ref<Function> out = rewriter.run(f);
    finish(out->body);
    Type result = result_of(out->body)->type;
    if (result && knowledge(result) > knowledge(out->ret_type)) out.edit()->ret_type = result;
    return out.same_as(f) ? ObjectRef() : ObjectRef(out);
  });
}

}  // namespace tenon
