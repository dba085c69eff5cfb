// SPDX-License-Identifier: Apache-2.0
// convert_layout: convolutions and what lies between them work on channels in blocks as wide as a vector.
//
//   before   lv = R.nn.conv2d(x, w);  lv1 = R.nn.relu(lv);  lv2 = R.nn.conv2d(lv1, w1)        # w, w1
//   constants after    lv = R.nn.conv2d(x, w', out_layout="NCHW16c");  lv1 = R.nn.relu(lv)
//            lv2 = R.nn.conv2d(lv1, w1', data_layout="NCHW16c", …);  (permute_dims and reshape back at the
//            end)
//
// A blocked tensor is (n, c / b, spatial…, b); b is the target's vector length or half of it, whichever
// divides the channels. Convolutions start an island; element-wise operators, pooling, concatenation of
// channels and means over the image continue it. Moves are reshape and permute_dims, so that fold_constant
// packs the weights and eliminate_dead_code drops moves that nobody needs. Needs: types; normal form; weights
// constant. Keeps: values up to the order of sums, types of all variables.
#include <algorithm>

#include "op/build.h"
#include "op/layout.h"
#include "pass/graph/passes.h"
#include "pass/graph/rewriter.h"
#include "target/target.h"

namespace tenon {
namespace graph {
namespace {

using Dims = std::vector<PrimExpr>;

class ConvertLayout : public BodyRewriter {
 public:
  explicit ConvertLayout(int64_t lanes) : lanes_(lanes) {}

 protected:
  Expr visit(const Expr& value, const VarRef& var) override {
    const Op* op = op_of(value);
    if (!op || !op->pure) return value;
    const Call& call = *value.as<Call>();
    const Type type = var->declared ? var->declared : value->type;
    auto shape = known_shape(type);
    if (!shape || shape->size() < 3) {
      if (shape && shape->size() == 2) return image_mean(*op, call, value, var, *shape);
      return value;
    }
    current_ = &var;
    origin_ = value->origin;
    for (size_t n = 1; n <= 3; ++n) {
      const std::string digit = std::to_string(n) + "d";
      if (op->name == "nn.conv" + digit) return conv(call, value, *shape, n);
      if (op->name == "nn.max_pool" + digit || op->name == "nn.avg_pool" + digit ||
          op->name == "nn.lp_pool" + digit)
        return pool(*op, call, value, *shape, n);
    }
    if (op->name == "nn.global_avg_pool" || op->name == "nn.global_max_pool" || op->name == "mean")
      return image_mean(*op, call, value, var, *shape);
    if (op->name == "concat") return concat(call, value, *shape);
    if (op->fusion == FusionKind::element_wise || op->fusion == FusionKind::broadcast)
      return pointwise(*op, call, value, *shape);
    return value;
  }

 private:
  struct Blocked {
    Expr tensor;
    int64_t block;
  };

  // ---------------------------------------------------------------- moves
  const Blocked* blocked(const Expr& e) const {
    const auto* v = e.as<Var>();
    auto it = v ? blocked_.find(v) : blocked_.end();
    return it == blocked_.end() ? nullptr : &it->second;
  }
  Expr reshape(const Expr& x, const Dims& dims) {
    return emit_op("reshape", {x, shape_expr(Array<PrimExpr>(dims))});
  }
  Expr permute(const Expr& x, const std::vector<int64_t>& axes) {
    return emit_op("permute_dims", {x}, op::make_attrs<op::AxesAttrs>(Array<int64_t>(axes)));
  }
  static std::optional<int64_t> channels(const Array<PrimExpr>& shape) { return tir::as_int(shape[1]); }
  /// The block for so many channels; 0: none fits.
  int64_t block_for(int64_t channels) const {
    for (int64_t b : {lanes_, lanes_ / 2})
      if (b >= 4 && channels % b == 0) return b;
    return 0;
  }
  /// (n, c, …) as (n, c / b, …, b).
  Expr to_block(const Expr& x, const Array<PrimExpr>& shape, int64_t b) {
    if (const Blocked* have = blocked(x); have && have->block == b) return have->tensor;
    const int64_t c = *channels(shape);
    bool point = true;  // every spatial axis is one element: the memory stays as it is
    Dims split{shape[0], PrimExpr(c / b), PrimExpr(b)}, whole{shape[0], PrimExpr(c / b)};
    std::vector<int64_t> axes{0, 1};
    for (size_t i = 2; i < shape.size(); ++i) {
      point = point && tir::is_one(shape[i]);
      split.push_back(shape[i]);
      whole.push_back(shape[i]);
      axes.push_back(int64_t(i) + 1);
    }
    whole.push_back(PrimExpr(b));
    axes.push_back(2);
    if (point) return reshape(x, whole);
    return permute(reshape(x, split), axes);
  }
  /// Records the blocked value of the variable being visited; what that variable is bound to.
  Expr result(const Expr& y, const Array<PrimExpr>& shape, int64_t b) {
    blocked_[current_->get()] = {y, b};
    keep_.push_back(y);
    const size_t n = shape.size();
    bool point = true;
    std::vector<int64_t> axes{0, 1, int64_t(n)};
    for (size_t i = 2; i < n; ++i) {
      point = point && tir::is_one(shape[i]);
      axes.push_back(int64_t(i));
    }
    const Expr moved = point ? y : permute(y, axes);
    return with_origin(tenon::graph::call(get_op("reshape"), {moved, shape_expr(shape)}));
  }
  Expr with_origin(Expr e) const {
    e.mut()->origin = origin_;
    return e;
  }
  Expr emit_named(const Op& op, Array<Expr> args, ObjectRef attrs) {
    Expr e = with_origin(tenon::graph::call(get_op(op.name), std::move(args), std::move(attrs)));
    return emit(e, (*current_)->name);
  }

  // ---------------------------------------------------------------- operators
  Expr conv(const Call& call, const Expr& value, const Array<PrimExpr>& shape, size_t n) {
    const auto& a = op::attrs_of<op::ConvAttrs>(call);
    const auto* w = call.args[1].as<Constant>();
    auto in = known_shape(call.args[0]->type);
    if (!w || !in || w->data.dtype() != f32 || as_tensor(call.args[0])->dtype != f32 ||
        call.args.size() != 2 || op::data_block(a.data_layout, n) != 0 ||
        op::data_block(a.out_layout, n) != 0)
      return value;
    auto inputs = channels(*in);
    const auto& ws = w->data.shape();
    const int64_t outputs = ws[0], per_group = ws[1];
    if (!inputs || outputs % a.groups) return value;
    const int64_t out_block = block_for(outputs);
    if (!out_block) return value;
    const bool depthwise = per_group == 1 && a.groups == outputs && *inputs == outputs && a.groups > 1;
    int64_t data_block = 0;
    if (depthwise) {
      data_block = out_block;
    } else {
      const int64_t best = block_for(per_group);
      if (const Blocked* have = blocked(call.args[0]); have && per_group % have->block == 0)
        data_block = have->block;
      else if (have || a.groups > 1 || (best && best < per_group))
        data_block = best;
      if (a.groups > 1 && (!data_block || (outputs / a.groups) % out_block)) return value;
    }
    // A depthwise convolution of plain data alone is not worth two moves.
    if (depthwise && !blocked(call.args[0])) return value;
    const Expr x = data_block ? to_block(call.args[0], *in, data_block) : call.args[0];
    const op::KernelBlocks kernel{depthwise ? 0 : data_block, out_block};
    // (o, i, k…) → (o / ob, i / ib, k…, ib, ob)
    Dims split{PrimExpr(outputs / out_block), PrimExpr(out_block)};
    std::vector<int64_t> axes{0, 2};
    split.push_back(PrimExpr(kernel.in ? per_group / kernel.in : per_group));
    if (kernel.in) split.push_back(PrimExpr(kernel.in));
    for (size_t i = 0; i < n; ++i) {
      axes.push_back(int64_t(split.size()));
      split.push_back(PrimExpr(ws[i + 2]));
    }
    if (kernel.in) axes.push_back(3);
    axes.push_back(1);
    const Expr packed = permute(reshape(call.args[1], split), axes);
    ObjectRef attrs = op::make_attrs<op::ConvAttrs>([&](op::ConvAttrs& to) {
      to = a;
      to.data_layout = op::data_layout_name(n, data_block);
      to.kernel_layout = op::kernel_layout_name(n, kernel);
      to.out_layout = op::data_layout_name(n, out_block);
    });
    return result(emit_named(*call.op.as<Op>(), {x, packed}, attrs), shape, out_block);
  }

  Expr pool(const Op& op, const Call& call, const Expr& value, const Array<PrimExpr>& shape, size_t n) {
    const Blocked* x = blocked(call.args[0]);
    if (!x) return value;
    ObjectRef attrs = op::make_attrs<op::PoolAttrs>([&](op::PoolAttrs& to) {
      to = op::attrs_of<op::PoolAttrs>(call);
      to.layout = op::data_layout_name(n, x->block);
    });
    const int64_t block = x->block;
    return result(emit_named(op, {x->tensor}, attrs), shape, block);
  }

  /// Pooling and means over exactly the spatial axes.
  Expr image_mean(const Op& op, const Call& call, const Expr& value, const VarRef& var,
                  const Array<PrimExpr>& shape) {
    const Blocked* x = call.args.empty() ? nullptr : blocked(call.args[0]);
    if (!x) return value;
    const int64_t rank = as_tensor(call.args[0])->ndim;
    current_ = &var;
    origin_ = value->origin;
    std::vector<int64_t> spatial;
    for (int64_t i = 2; i < rank; ++i) spatial.push_back(i);
    std::string name;
    if (op.name == "nn.global_avg_pool" || op.name == "nn.global_max_pool") {
      name = op.name == "nn.global_avg_pool" ? "mean" : "max";
    } else if (op.name == "mean" || op.name == "max" || op.name == "sum") {
      const auto& a = op::attrs_of<op::ReduceAttrs>(call);
      std::vector<int64_t> axes;
      for (int64_t axis : a.axis) axes.push_back(axis < 0 ? axis + rank : axis);
      std::sort(axes.begin(), axes.end());
      if (axes != spatial) return value;
      name = op.name;
    } else {
      return value;
    }
    ObjectRef attrs = op::make_attrs<op::ReduceAttrs>([&](op::ReduceAttrs& to) {
      to.axis = Array<int64_t>(spatial);
      to.keepdims = true;
    });
    const int64_t block = x->block;
    const Expr y = emit_named(*get_op(name).as<Op>(), {x->tensor}, attrs);
    if (shape.size() == 2) return with_origin(tenon::graph::call(get_op("reshape"), {y, shape_expr(shape)}));
    return result(y, shape, block);
  }

  Expr concat(const Call& call, const Expr& value, const Array<PrimExpr>& shape) {
    int64_t axis = op::attrs_of<op::AxisAttrs>(call).axis;
    if (axis < 0) axis += int64_t(shape.size());
    const auto* parts = parts_of(call.args[0]);
    if (axis != 1 || !parts) return value;
    int64_t block = 0;
    for (const Expr& p : *parts)
      if (const Blocked* b = blocked(p)) block = block ? std::min(block, b->block) : b->block;
    if (!block) return value;
    for (const Expr& p : *parts) {
      auto s = known_shape(p->type);
      auto c = s && s->size() == shape.size() ? channels(*s) : std::nullopt;
      if (!c || *c % block || (!blocked(p) && !p.is<Constant>())) return value;
    }
    Array<Expr> items;
    for (const Expr& p : *parts) items.push_back(to_block(p, *known_shape(p->type), block));
    Expr tuple = make<Tuple>(items);
    ObjectRef attrs = op::make_attrs<op::AxisAttrs>([](op::AxisAttrs& to) { to.axis = 1; });
    const Op& op = *call.op.as<Op>();
    return result(emit_named(op, {call.args[0].is<Tuple>() ? tuple : emit(tuple)}, attrs), shape, block);
  }
  const Array<Expr>* parts_of(const Expr& e) const {
    const Expr tuple = e.is<Tuple>() ? e : definition(e);
    const auto* t = tuple.as<Tuple>();
    return t ? &t->items : nullptr;
  }

  Expr pointwise(const Op& op, const Call& call, const Expr& value, const Array<PrimExpr>& shape) {
    auto c = channels(shape);
    if (!c) return value;
    int64_t block = 0;
    for (const Expr& e : call.args)
      if (const Blocked* b = blocked(e)) {
        auto s = known_shape(e->type);
        if (s && s->size() == shape.size() && op::same_dim((*s)[1], shape[1]))
          block = block ? std::min(block, b->block) : b->block;
      }
    if (!block || *c % block) return value;
    if (op.name == "nn.batch_norm") return value;
    Array<Expr> args;
    if (op.name == "nn.bias_add") {
      int64_t axis = op::attrs_of<op::AxisAttrs>(call).axis;
      if (axis < 0) axis += int64_t(shape.size());
      if (axis != 1) return value;
      Dims bias{PrimExpr(1), PrimExpr(*c / block)};
      for (size_t i = 2; i < shape.size(); ++i) bias.push_back(PrimExpr(1));
      bias.push_back(PrimExpr(block));
      const Expr x = to_block(call.args[0], shape, block);
      return result(emit_named(*get_op("add").as<Op>(), {x, reshape(call.args[1], bias)}, {}), shape, block);
    }
    for (const Expr& e : call.args) {
      const auto* t = as_tensor(e);
      auto s = t ? known_shape(e->type) : std::nullopt;
      if (!t) {
        args.push_back(e);  // a shape or a scalar value
        continue;
      }
      if (!s || s->size() > shape.size()) return value;
      Array<PrimExpr> full;
      for (size_t i = s->size(); i < shape.size(); ++i) full.push_back(PrimExpr(1));
      for (const PrimExpr& d : *s) full.push_back(d);
      bool ones = true;
      for (const PrimExpr& d : full) ones = ones && tir::is_one(d);
      if (ones) {
        args.push_back(e);
      } else if (tir::is_one(full[1])) {  // the same for all channels: one more axis of extent 1
        Dims dims(full.begin(), full.end());
        dims.push_back(PrimExpr(1));
        args.push_back(reshape(e, dims));
      } else if (op::same_dim(full[1], shape[1])) {
        const Expr aligned = s->size() == shape.size() ? e : reshape(e, Dims(full.begin(), full.end()));
        args.push_back(to_block(aligned, full, block));
      } else {
        return value;
      }
    }
    return result(emit_named(op, args, call.attrs), shape, block);
  }

  int64_t lanes_;
  std::unordered_map<const Var*, Blocked> blocked_;  ///< variables of the new function
  std::vector<Expr> keep_;
  const VarRef* current_ = nullptr;
  Origin origin_;
};

}  // namespace
}  // namespace graph

IRModule convert_layout(IRModule module, PassContext& context) {
  Target target = context.target.cast<TargetNode>();
  if (!target) return module;  // a blocked layout is a decision for a machine
  const int64_t lanes = target->lanes(f32);
  if (lanes < 4) return module;
  return graph::rewrite_functions<graph::ConvertLayout>(std::move(module), lanes);
}

}  // namespace tenon
