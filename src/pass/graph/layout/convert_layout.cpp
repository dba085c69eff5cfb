// SPDX-License-Identifier: Apache-2.0
// convert_layout: convolutions and what lies between them work on channels in blocks as wide as a vector.
//
//   before   lv = R.nn.conv2d(x, w);  lv1 = R.nn.relu(lv);  lv2 = R.nn.conv2d(lv1, w1)      # constant w, w1
//   after    lv = R.nn.conv2d(x, w', out_layout="NCHW16c");  lv1 = R.nn.relu(lv)
//            lv2 = R.nn.conv2d(lv1, w1', data_layout="NCHW16c", …);  layout_transform at the end
//
// A blocked tensor is (n, c / b, spatial…, b); b is the target's vector length or half of it, whichever
// divides the channels. Convolutions start an island; element-wise operators, pooling, nearest
// resizing, concatenation of channels and means over the image continue it. Moves are layout_transform, for
// data and weights alike: of weights fold_constant makes constants, moves back and forth meet in
// canonicalize, and eliminate_dead_code drops those that nobody needs. Where half a vector would be lost,
// channels are added up to a whole one; depthwise convolutions keep them, sums over channels meet zeros
// there. Weights of bytes lie in groups for the target's dot instructions ("OIHW16o4i"). Needs: types; normal
// form; weights constant. Keeps: values up to the order of sums, types of all variables.
#include <algorithm>

#include "analysis/cost/layout.h"
#include "op/body_rewriter.h"
#include "op/build.h"
#include "op/layout.h"
#include "schedule/dot_intrin.h"
#include "target/target.h"

namespace tenon {
namespace graph {
namespace {

using Dims = std::vector<PrimExpr>;

class ConvertLayout : public BodyRewriter {
 public:
  explicit ConvertLayout(Target target) : target_(std::move(target)) {}

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
    if (op->name == "image.resize1d" || op->name == "image.resize2d") return resize(call, value, *shape);
    if (op::definition(*op).fusion == FusionKind::comm_reduce || op->name.starts_with("nn.global_"))
      return image_mean(*op, call, value, var, *shape);
    if (op->name == "concat") return concat(call, value, *shape);
    if (op::definition(*op).fusion == FusionKind::element_wise ||
        op::definition(*op).fusion == FusionKind::broadcast)
      return pointwise(*op, call, value, *shape);
    return value;
  }

 private:
  /// Another form of a variable's value.
  struct Form {
    Expr tensor;
    int64_t block = 0;     ///< of the channels
    int64_t channels = 0;  ///< with those added to fill the last block, whose values mean nothing
    int64_t groups = 0;    ///< groups apart instead of blocks
    bool operator==(const Form& o) const {
      return block == o.block && channels == o.channels && groups == o.groups;
    }
  };

  // ---------------------------------------------------------------- moves
  const Form* form(const Expr& e) const {
    const auto* v = e.as<Var>();
    auto it = v ? forms_.find(v) : forms_.end();
    return it == forms_.end() ? nullptr : &it->second;
  }
  /// In blocks, no channel added.
  const Form* blocked(const Expr& e) const {
    const Form* f = form(e);
    return f && f->block && tir::is_const_int((*known_shape(e->type))[1], f->channels) ? f : nullptr;
  }
  Expr reshape(const Expr& x, const Dims& dims) {
    return emit_op("reshape", {x, shape_expr(Array<PrimExpr>(dims))});
  }
  /// The call that moves x, not bound.
  Expr moved(const Expr& x, const std::string& from, const std::string& to) const {
    return with_origin(
        op::op_call("layout_transform", {x}, op::make_attrs<op::LayoutTransformAttrs>(from, to)));
  }
  /// Every spatial axis is one element: the memory stays as it is.
  static bool is_point(const Array<PrimExpr>& shape) {
    bool point = true;
    for (size_t i = 2; i < shape.size(); ++i) point = point && tir::is_one(shape[i]);
    return point;
  }
  static std::optional<int64_t> channels(const Array<PrimExpr>& shape) { return tir::as_int(shape[1]); }
  /// The block for so many channels; 0: none fits.
  int64_t block_for(int64_t channels) const { return cost::channel_block(channels, target_); }
  /// (n, c, …) with zeros up to `channels` of them.
  Expr padded(const Expr& x, size_t rank, int64_t have, int64_t channels, int64_t axis = 1) {
    if (have == channels) return x;
    std::vector<int64_t> width(2 * rank, 0);
    width[size_t(2 * axis + 1)] = channels - have;
    return emit_op("pad", {x}, op::make_attrs<op::PadAttrs>([&](op::PadAttrs& a) { a.pad_width = width; }));
  }
  /// (n, c, …) as (n, c / b, …, b).
  Expr to_block(const Expr& x, const Array<PrimExpr>& shape, int64_t b) {
    if (const Form* have = blocked(x); have && have->block == b) return have->tensor;
    const int64_t c = *channels(shape);
    if (is_point(shape) && c % b == 0) {
      Dims whole(shape.begin(), shape.end());
      whole[1] = PrimExpr(c / b);
      whole.push_back(PrimExpr(b));
      return reshape(x, whole);
    }
    const size_t n = shape.size() - 2;
    return emit(moved(x, op::data_layout_name(n, 0), op::data_layout_name(n, b)));
  }
  /// Records the other form of the variable being visited; what that variable is bound to.
  Expr result(const Expr& y, const Array<PrimExpr>& shape, Form form) {
    form.tensor = y;
    forms_[current_->get()] = form;
    keep_.push_back(y);
    Dims whole(shape.begin(), shape.end());
    if (!form.groups) whole[1] = PrimExpr(form.channels);
    const size_t n = shape.size() - 2;
    const Expr back =
        form.groups || is_point(shape)
            ? with_origin(tenon::graph::call(get_op("reshape"), {y, shape_expr(Array<PrimExpr>(whole))}))
            : moved(y, op::data_layout_name(n, form.block), op::data_layout_name(n, 0));
    if (form.groups || tir::is_const_int(shape[1], form.channels)) return back;
    return without_added(emit(back), *tir::as_int(shape[1]));
  }
  /// The form's tensor with zeros in the channels that were added: a weight of 0 does not stop what is no
  /// number.
  Expr with_zeros(const Form& form, int64_t channels, size_t n) {
    std::vector<int64_t> dims(n + 3, 1);
    dims[1] = form.channels / form.block, dims.back() = form.block;
    const NDArray real = NDArray::zeros(dims, DataType::boolean());
    for (int64_t i = 0; i < channels; ++i) real.set_element_int(i, 1);
    return emit_op("where", {constant(real), form.tensor, constant(NDArray::scalar(0, f32))});
  }
  Expr without_added(const Expr& x, int64_t channels) const {
    ObjectRef cut = op::make_attrs<op::StridedSliceAttrs>([&](op::StridedSliceAttrs& a) {
      a.axes = {1};
      a.begin = {PrimExpr(0)};
      a.end = {PrimExpr(channels)};
    });
    return with_origin(tenon::graph::call(get_op("strided_slice"), {x}, cut));
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
    const auto* data = as_tensor(call.args[0]);
    if (!w || !in || !data || op::data_block(a.data_layout, n) != 0 || op::data_block(a.out_layout, n) != 0)
      return value;
    // The channels that a dot instruction takes at once, when there is one for these types; 0: plain floats.
    int64_t group = 0;
    if (const auto form = dot_form(target_, data->dtype, w->data.dtype(), i32);
        form && data->dtype.bits == 8 && as_tensor(value)->dtype == i32)
      group = form->group;
    if (group == 0 && (w->data.dtype() != f32 || data->dtype != f32 || call.args.size() != 2)) return value;
    auto inputs = channels(*in);
    const auto& ws = w->data.shape();
    const int64_t outputs = ws[0], per_group = ws[1];
    if (!inputs || outputs % a.groups) return value;
    const bool depthwise = per_group == 1 && a.groups == outputs && *inputs == outputs && a.groups > 1;
    // With channels that were added, which groups of several channels cannot have; or null.
    const Form* held = a.groups == 1 || depthwise ? form(call.args[0]) : nullptr;
    if (held && (!held->block || held->channels == *inputs)) held = nullptr;
    int64_t out_block = block_for(outputs), all = outputs;
    if (depthwise && held) {
      out_block = held->block, all = held->channels;
    } else if (a.groups == 1) {
      all = cost::filled_channels(outputs, !out_block && !group && is_point(shape), target_);
      out_block = block_for(all);
    }
    if (!out_block && a.groups == 1) return value;
    int64_t data_block = 0;
    if (depthwise) {
      data_block = out_block;
    } else if (group) {
      // Channels that were added meet weights of 0; a last block is filled up.
      const Form* have = form(call.args[0]);
      if (have && have->block && (a.groups == 1 || per_group % have->block == 0))
        data_block = have->block;
      else
        data_block = cost::grouped_channel_block(per_group, target_);
      if (a.groups > 1 && (per_group % data_block || !out_block || (outputs / a.groups) % out_block))
        return grouped(call, *in, ws, a, shape, n);
      if (data_block % group) return value;
    } else if (held) {
      data_block = held->block;
    } else {
      const int64_t best = block_for(per_group);
      if (const Form* have = blocked(call.args[0]); have && per_group % have->block == 0)
        data_block = have->block;
      else if (have || a.groups > 1 || (best && best < per_group))
        data_block = best;
      if (a.groups > 1 && (!data_block || !out_block || (outputs / a.groups) % out_block))
        return grouped(call, *in, ws, a, shape, n);
    }
    // A depthwise convolution of plain data alone is not worth two moves, unless its loads would have gaps.
    bool gaps = false;
    for (int64_t step : a.strides) gaps = gaps || step > 1;
    if (depthwise && !held && (!out_block || (!blocked(call.args[0]) && !gaps))) return value;
    const bool by_groups = group && !depthwise;
    const Form* have = by_groups ? form(call.args[0]) : held;
    Expr x = call.args[0];
    if (have && have->block == data_block)
      x = depthwise || by_groups ? have->tensor : with_zeros(*have, *inputs, n);
    else if (data_block)
      x = to_block(x, *in, data_block);
    const op::KernelBlocks kernel{depthwise || by_groups ? 0 : data_block, out_block, by_groups ? group : 0};
    Expr weight = padded(call.args[1], ws.size(), outputs, all, 0);
    if (!depthwise && data_block && a.groups == 1)
      weight = padded(weight, ws.size(), per_group, *channels(*known_shape(x->type)) * data_block);
    Expr packed = emit(moved(weight, op::kernel_layout_name(n, {}), op::kernel_layout_name(n, kernel)));
    if (by_groups) {  // the outputs of a block and their groups are one axis
      Array<PrimExpr> dims = *known_shape(packed->type);
      dims.pop_back();
      dims.set(dims.size() - 1, PrimExpr(out_block * group));
      packed = reshape(packed, Dims(dims.begin(), dims.end()));
    }
    ObjectRef attrs = op::make_attrs<op::ConvAttrs>([&](op::ConvAttrs& to) {
      to = a;
      to.data_layout = op::data_layout_name(n, data_block);
      to.kernel_layout = op::kernel_layout_name(n, kernel);
      to.out_layout = op::data_layout_name(n, out_block);
      if (depthwise) to.groups = all;
    });
    Array<Expr> args{x, packed};
    if (call.args.size() > 2) args.push_back(call.args[2]);
    return result(emit_named(*call.op.as<Op>(), args, attrs), shape, {{}, out_block, all});
  }

  /// Groups apart.
  Expr grouped(const Call& call, const Array<PrimExpr>& in, const std::vector<int64_t>& ws,
               const op::ConvAttrs& a, const Array<PrimExpr>& shape, size_t n) {
    Dims weight{PrimExpr(a.groups), PrimExpr(ws[0] / a.groups)};
    for (size_t i = 1; i < ws.size(); ++i) weight.push_back(PrimExpr(ws[i]));
    const Form apart{{}, 0, *channels(shape), a.groups};
    ObjectRef attrs = op::make_attrs<op::ConvAttrs>([&](op::ConvAttrs& to) {
      to = a;
      to.data_layout = to.out_layout = op::grouped_data_layout(n);
      to.kernel_layout = op::grouped_kernel_layout(n);
    });
    const Expr x = in_form(call.args[0], in, apart), w = reshape(call.args[1], weight);
    Array<Expr> args{x, w};
    if (call.args.size() > 2) args.push_back(call.args[2]);
    return result(emit_named(*call.op.as<Op>(), args, attrs), shape, apart);
  }
  /// x of the shape `from` as `to`, with axes of extent 1 more; a constant stays one.
  Expr of_rank(const Expr& x, const Array<PrimExpr>& from, const Array<PrimExpr>& to) {
    if (from.size() == to.size()) return x;
    const auto* c = x.as<Constant>();
    if (!c) return reshape(x, Dims(to.begin(), to.end()));
    std::vector<int64_t> dims;
    for (const PrimExpr& d : to) dims.push_back(*tir::as_int(d));
    return constant(c->data.reshape(dims));
  }
  /// An operand of the shape (n, c or 1, …) as the form has it; null when it cannot be without a copy of what
  /// is no constant.
  Expr in_form(const Expr& x, const Array<PrimExpr>& shape, const Form& form) {
    if (const Form* have = this->form(x); have && *have == form) return have->tensor;
    Dims dims(shape.begin(), shape.end());
    if (tir::is_one(shape[1])) {  // the same for all channels
      dims.insert(form.groups ? dims.begin() + 2 : dims.end(), PrimExpr(1));
      return reshape(x, dims);
    }
    const int64_t c = *channels(shape);
    if (form.groups) {
      dims[1] = PrimExpr(form.groups);
      dims.insert(dims.begin() + 2, PrimExpr(c / form.groups));
      return reshape(x, dims);
    }
    if (c == form.channels) return to_block(x, shape, form.block);
    if (!x.is<Constant>()) return {};
    dims[1] = PrimExpr(form.channels);
    return to_block(padded(x, dims.size(), c, form.channels), Array<PrimExpr>(dims), form.block);
  }

  Expr pool(const Op& op, const Call& call, const Expr& value, const Array<PrimExpr>& shape, size_t n) {
    const Form* x = form(call.args[0]);
    if (!x || !x->block) return value;
    ObjectRef attrs = op::make_attrs<op::PoolAttrs>([&](op::PoolAttrs& to) {
      to = op::attrs_of<op::PoolAttrs>(call);
      to.layout = op::data_layout_name(n, x->block);
    });
    const Form same = *x;
    return result(emit_named(op, {same.tensor}, attrs), shape, same);
  }

  /// Nearest elements: the block is one more spatial axis, which keeps its size.
  Expr resize(const Call& call, const Expr& value, const Array<PrimExpr>& shape) {
    const Form* x = form(call.args[0]);
    const auto& a = op::attrs_of<op::ResizeAttrs>(call);
    const auto* size = call.args[1].as<ShapeExpr>();
    const std::string& mode = a.coordinate_transformation_mode;
    if (!x || !x->block || !size || a.method != "nearest_neighbor" ||
        (mode != "asymmetric" && mode != "half_pixel" && mode != "align_corners"))
      return value;
    const Form same = *x;
    Array<PrimExpr> sizes = size->values;
    sizes.push_back(PrimExpr(same.block));
    ObjectRef attrs = op::make_attrs<op::ResizeAttrs>([&](op::ResizeAttrs& to) {
      to = a;
      if (!to.scales.empty()) to.scales.push_back(1.0);
    });
    const std::string name = shape.size() == 3 ? "image.resize2d" : "image.resize3d";
    return result(emit_named(*get_op(name).as<Op>(), {same.tensor, shape_expr(sizes)}, attrs), shape, same);
  }

  /// Pooling and means over exactly the spatial axes.
  Expr image_mean(const Op& op, const Call& call, const Expr& value, const VarRef& var,
                  const Array<PrimExpr>& shape) {
    const Form* x = call.args.empty() ? nullptr : form(call.args[0]);
    if (!x || !x->block) return value;
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
    const Form same = *x;
    const Expr y = emit_named(*get_op(name).as<Op>(), {same.tensor}, attrs);
    if (shape.size() != 2) return result(y, shape, same);
    if (tir::is_const_int(shape[1], same.channels))
      return with_origin(tenon::graph::call(get_op("reshape"), {y, shape_expr(shape)}));
    return without_added(reshape(y, {shape[0], PrimExpr(same.channels)}), *channels(shape));
  }

  Expr concat(const Call& call, const Expr& value, const Array<PrimExpr>& shape) {
    int64_t axis = op::attrs_of<op::AxisAttrs>(call).axis;
    if (axis < 0) axis += int64_t(shape.size());
    const auto* parts = parts_of(call.args[0]);
    if (axis != 1 || !parts) return value;
    int64_t block = 0;
    for (const Expr& p : *parts)
      if (const Form* b = blocked(p)) block = block ? std::min(block, b->block) : b->block;
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
    return result(emit_named(op, {call.args[0].is<Tuple>() ? tuple : emit(tuple)}, attrs), shape,
                  {{}, block, *channels(shape)});
  }
  const Array<Expr>* parts_of(const Expr& e) const {
    const Expr tuple = e.is<Tuple>() ? e : definition(e);
    const auto* t = tuple.as<Tuple>();
    return t ? &t->items : nullptr;
  }

  Expr pointwise(const Op& op, const Call& call, const Expr& value, const Array<PrimExpr>& shape) {
    auto c = channels(shape);
    if (!c || op.name == "nn.batch_norm") return value;
    Form out;
    for (const Expr& e : call.args)
      if (const Form* f = form(e)) {
        auto s = known_shape(e->type);
        if (!s || s->size() != shape.size() || !op::same_dim((*s)[1], shape[1])) continue;
        // Smaller blocks divide larger ones.
        if (!out.channels || (f->block && out.block && f->channels == *c && f->block < out.block)) out = *f;
      }
    if (!out.channels) return value;
    Array<Expr> args;
    for (size_t i = 0; i < call.args.size(); ++i) {
      const Expr& e = call.args[i];
      const auto* t = as_tensor(e);
      auto s = t ? known_shape(e->type) : std::nullopt;
      if (e->type.is<ShapeType>()) return value;  // it says sizes in this layout
      if (!t) {
        args.push_back(e);  // a scalar value
        continue;
      }
      if (!s || s->size() > shape.size()) return value;
      Array<PrimExpr> full;
      if (op.name == "nn.bias_add" && i == 1) {
        int64_t axis = op::attrs_of<op::AxisAttrs>(call).axis;
        if (axis < 0) axis += int64_t(shape.size());
        for (int64_t d = 0; d < int64_t(shape.size()); ++d) full.push_back(d == axis ? (*s)[0] : PrimExpr(1));
      } else {
        for (size_t d = s->size(); d < shape.size(); ++d) full.push_back(PrimExpr(1));
        for (const PrimExpr& d : *s) full.push_back(d);
      }
      bool ones = true;
      for (const PrimExpr& d : full) ones = ones && tir::is_one(d);
      if (ones && op.name != "nn.bias_add") {
        args.push_back(e);
        continue;
      }
      if (!tir::is_one(full[1]) && !op::same_dim(full[1], shape[1])) return value;
      Expr aligned = in_form(of_rank(e, *s, full), full, out);
      if (!aligned) return value;
      args.push_back(aligned);
    }
    const bool bias = op.name == "nn.bias_add";
    return result(emit_named(bias ? *get_op("add").as<Op>() : op, args, bias ? ObjectRef() : call.attrs),
                  shape, out);
  }

  Target target_;
  std::unordered_map<const Var*, Form> forms_;  ///< of variables of the new function
  std::vector<Expr> keep_;
  const VarRef* current_ = nullptr;
  Origin origin_;
};

}  // namespace
}  // namespace graph

static IRModule convert_layout(IRModule module, PassContext& context) {
  Target target = context.target.cast<TargetNode>();
  if (!target) return module;  // a blocked layout is a decision for a machine
  if (!cost::channel_block(target->lanes(f32), target)) return module;  // its vectors are too short
  return graph::rewrite_functions<graph::ConvertLayout>(std::move(module), target);
}

const Pass& convert_layout_pass = register_pass({
    .name = "convert_layout",
    .run = convert_layout,
    .level = 2,
    .summary = "channels of convolutions in blocks as wide as a vector",
    .needs = {"infer_types"},
    .keeps = Keeps::sums,
});

}  // namespace tenon
