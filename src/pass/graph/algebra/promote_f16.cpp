// SPDX-License-Identifier: Apache-2.0
// promote_f16: operators on float16 compute on float32, where the target only converts float16.
//
//   before   lv = R.nn.conv2d(x, w);  lv1 = R.nn.relu(lv)                             # all float16
//   after    lv2 = R.nn.conv2d(R.cast(x, "float32"), w');  lv3 = R.nn.relu(lv2)       # w' = w as float32
//            lv1 = R.cast(lv3, "float16")
//
// Contractions get what those of float32 have: blocks, panels and register tiles without a conversion for
// each factor. What lies between operators stays float32: a model of float16 takes no longer than its twin of
// float32, and is closer to it. Values are rounded where the model shows them: results, arguments of
// functions and of operators that are no tensor programs. Needs: types; normal form. Keeps: values up to the
// rounding of float16, of which there are fewer.
#include <algorithm>

#include "op/body_rewriter.h"
#include "op/build.h"
#include "target/narrow_float.h"

namespace tenon {
namespace graph {
namespace {

bool is_f16(const Expr& e) {
  const auto* t = as_tensor(e);
  return t && t->dtype == f16;
}

class PromoteF16 : public BodyRewriter {
 protected:
  Expr visit(const Expr& value, const VarRef& var) override {
    const Op* op = op_of(value);
    if (!op || !op->pure || !op::definition(*op).tensor_def) return value;
    if (op::definition(*op).precision == op::Precision::bytes) return value;
    const Call& call = *value.as<Call>();
    const auto args = promoted(call.args, op::definition(*op).moves || op->name == "cast");
    const auto* type = as_tensor(var->declared ? var->declared : value->type);
    if (!args || !type || (type->dtype == f32 && has_f32(call.args))) return value;
    if (op->name == "cast" && type->dtype == f32) return (*args)[0];
    const Expr y = op::op_call(op->name, *args, call.attrs, call.origin);
    const auto* result = as_tensor(y);
    if (!result || !same_shape(*result, *type)) return value;
    if (result->dtype == type->dtype) return y;
    if (result->dtype != f32 || type->dtype != f16) return value;
    const Expr wide = emit(y, var->name);
    const Expr narrow = emit(cast(wide, f16), var->name);
    wide_[narrow.get()] = wide;
    keep_.push_back(narrow);
    return narrow;
  }
  /// Casts of one scope are not seen in its neighbours.
  void enter_scope() override { scopes_.push_back(wide_); }
  void leave_scope() override {
    wide_ = std::move(scopes_.back());
    scopes_.pop_back();
  }

 private:
  static bool same_shape(const TensorType& a, const TensorType& b) {
    const auto x = op::shape_of(a), y = op::shape_of(b);
    if (!x || !y || x->size() != y->size()) return false;
    for (size_t i = 0; i < x->size(); ++i)
      if (!op::same_dim((*x)[i], (*y)[i])) return false;
    return true;
  }
  /// Beside an operand of float32 and for such a result, an operator widens what it reads itself.
  static bool has_f32(const Array<Expr>& args) {
    return std::any_of(args.begin(), args.end(), [](const Expr& a) {
      const auto* t = a ? as_tensor(a) : nullptr;
      return t && t->dtype == f32;
    });
  }
  static Expr cast(const Expr& x, DataType to) {
    return op::op_call("cast", {x}, op::make_attrs<op::CastAttrs>(to));
  }
  /// The arguments with float32 for float16; nullopt where none has it, or where `known_only` and one is not
  /// there as float32.
  std::optional<Array<Expr>> promoted(const Array<Expr>& args, bool known_only) {
    bool any = false;
    Array<Expr> out;
    for (const Expr& a : args) {
      const Expr whole = a && a.is<Var>() && a->type.is<TupleType>() ? definition(a) : a;
      const auto* tuple = whole ? whole.as<Tuple>() : nullptr;
      if (a && a->type && a->type.is<TupleType>() && !tuple) return std::nullopt;
      if (!tuple) {
        if (a && is_f16(a) && known_only && !wide_.contains(a.get())) return std::nullopt;
        any = any || (a && is_f16(a));
        out.push_back(a && is_f16(a) ? wide(a) : a);
        continue;
      }
      const auto items = promoted(tuple->items, known_only);
      any = any || items;
      out.push_back(items ? op::tuple(*items) : a);
    }
    return any ? std::optional(out) : std::nullopt;
  }
  Expr wide(const Expr& x) {
    if (auto it = wide_.find(x.get()); it != wide_.end()) return it->second;
    Expr out;
    if (const auto* c = x.as<Constant>()) {
      const NDArray data = NDArray::empty(c->data.shape(), f32);
      const auto* from = c->data.as_ptr<uint16_t>();
      for (int64_t i = 0, n = data.size(); i < n; ++i) data.as_ptr<float>()[i] = f16_to_float(from[i]);
      out = constant(data);
    } else {
      out = emit(cast(x, f32));
    }
    keep_.push_back(x);
    return wide_[x.get()] = out;
  }

  std::unordered_map<const Object*, Expr> wide_;  ///< values of float16 that are there as float32, too
  std::vector<std::unordered_map<const Object*, Expr>> scopes_;
  std::vector<Expr> keep_;  // keys of the map stay alive
};

}  // namespace
}  // namespace graph

static IRModule promote_f16(IRModule module, PassContext& context) {
  const Target target = context.target.cast<TargetNode>();
  if (!target || !converts_f16(target)) return module;
  return graph::consume_functions(std::move(module), [](Ref<graph::Function> f) {
    graph::PromoteF16 rewriter;
    return rewriter.run(std::move(f));
  });
}

const Pass& promote_f16_pass = register_pass({
    .name = "promote_f16",
    .run = promote_f16,
    .level = 2,
    .summary = "operators on float16 compute on float32",
    .needs = {"infer_types"},
    .changes = Changes::rounding,
    .rounds = 0x1p-11,
});

}  // namespace tenon
