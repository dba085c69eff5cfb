// SPDX-License-Identifier: Apache-2.0
// convert_layout: convolutions and what lies between them work on channels in blocks as wide as a vector.
//
//   before   lv = R.nn.conv2d(x, w);  lv1 = R.nn.relu(lv);  lv2 = R.nn.conv2d(lv1, w1)      # constant w, w1
//   after    lv_1 = R.nn.conv2d(x, layout_transform(w), out_layout="NCHW16c");  lv = layout_transform(lv_1)
//            lv1_1 = R.nn.relu(lv_1);  lv1 = layout_transform(lv1_1)
//            lv2_1 = R.nn.conv2d(lv1_1, layout_transform(w1), data_layout="NCHW16c", …)
//            lv2 = layout_transform(lv2_1)
//
// Where slices of channels begin (channel_cuts), convolutions let blocks begin, too, so that slices are whole
// blocks; parts that were filled up stay so when they are joined.
//
// Each operator's definition has the rule that decides (OpDef::layout, op/layout_rule.h). Rules of
// convolutions choose blocks; those of element-wise operators, pooling, nearest resizing, concatenation and
// folds over the image take the layout in which their operands are there. This pass calls the rules in the
// order of the program: it keeps, for each variable, its value in the other layout, binds what the rule made,
// and behind it the value in the program's layout again. Nothing else changes, so a rule may refuse any call.
// The transformations that nobody needs then go: those of weights become constants in fold_constant, those
// that undo one another meet in canonicalize, eliminate_dead_code drops the others.
//
// With layouts that a user names by operator (convert_layout.desired) these operators work in them, and what
// lies between follows; other contractions stay in the program's layout. Where channels fill no whole blocks
// of a named layout, a call stays.
//
// Needs: types; normal form; weights constant (of the machine's own choice). Keeps: values up to the order of
// sums, types of all variables.
#include <fmt/format.h>

#include <map>

#include "analysis/cost/layout.h"
#include "base/diagnostic.h"
#include "ir/pass.h"
#include "op/body_rewriter.h"
#include "op/letters.h"
#include "pass/graph/layout/channel_cuts.h"
#include "schedule/dot_intrin.h"

namespace tenon {
namespace graph {
namespace {

/// Layouts of data and weight by operator.
using Desired = std::map<std::string, op::LayoutNames>;

class ConvertLayout : public BodyRewriter {
 public:
  ConvertLayout(Target target, const Desired& desired, std::unordered_map<const Var*, std::set<int64_t>> cuts)
      : target_(std::move(target)), desired_(desired), cuts_(std::move(cuts)) {}

 protected:
  Expr visit(const Expr& value, const VarRef& var) override {
    const Expr part = part_of_split(value);
    return part ? in_layouts(part, var).value_or(value) : in_layouts(value, var).value_or(value);
  }

 private:
  /// What to bind in place of `value`; nullopt: it stays.
  std::optional<Expr> in_layouts(const Expr& value, const VarRef& var) {
    const Op* op = op_of(value);
    if (!op || !op->pure) return std::nullopt;
    const Type type = var->declared ? var->declared : value->type;
    const auto shape = known_shape(type);
    if (!shape || !as_tensor(type)) return std::nullopt;
    const auto cuts = cuts_.find(var.get());
    Context context(*this, *value.as<Call>(), *shape, as_tensor(type)->dtype);
    if (cuts != cuts_.end()) context.cuts = cuts->second;
    auto result = in_another_layout(context, *op);
    if (!result) return std::nullopt;
    op::Inference inference;
    result->tensor = op::typed(inference, result->tensor);
    if (!result->tensor->type) return std::nullopt;  // the operator does not compute in that layout
    result->tensor = emit(result->tensor, var->name);
    // Later calls may read this value as it lies, by the letters of its axes, where its rank has letters.
    if (op::program_layout(shape->size())) laid_out_[var.get()] = *result;
    return context.back(*result);
  }
  /// A part of a tensor that is split along its channels, as a slice; null: `value` is none, or the tensor is
  /// in no other layout.
  Expr part_of_split(const Expr& value) const {
    const auto* item = value.as<TupleGetItem>();
    const Call* split = item ? definition_call(item->tuple, "split") : nullptr;
    const auto* whole = split ? split->args[0].as<Var>() : nullptr;
    const auto* parts = item && item->tuple->type ? item->tuple->type.as<TupleType>() : nullptr;
    if (!whole || !parts || !laid_out_.contains(whole)) return {};
    const auto axis =
        op::normal_axis(op::attrs_of<op::SplitAttrs>(*split).axis, as_tensor(split->args[0])->ndim);
    PrimExpr begin = 0, end = 0;
    for (size_t i = 0; i <= size_t(item->index); ++i) {
      const auto shape = known_shape(parts->items[i]);
      if (!shape) return {};
      begin = end, end = tenon::simplify(end + (*shape)[size_t(axis)]);
    }
    return op::op_call("strided_slice", {split->args[0]},
                       op::make_attrs<op::StridedSliceAttrs>([&](op::StridedSliceAttrs& a) {
                         a.axes = {axis}, a.begin = {begin}, a.end = {end};
                       }),
                       split->origin);
  }

  class Context : public op::LayoutContext {
   public:
    Context(ConvertLayout& pass, const Call& call, op::Shape shape, DataType dtype)
        : LayoutContext(call, std::move(shape), dtype, pass.target_), pass_(pass) {}
    Expr emit(const Expr& value) override { return pass_.emit(value); }
    const op::LaidOut* laid_out(const Expr& variable) const override {
      const auto* v = variable.as<Var>();
      const auto it = v ? pass_.laid_out_.find(v) : pass_.laid_out_.end();
      return it == pass_.laid_out_.end() ? nullptr : &it->second;
    }
    Expr definition(const Expr& variable) const override { return pass_.definition(variable); }
    int64_t dot_group(DataType data, DataType weight, DataType sum) const override {
      const auto form = dot_form(target, data, weight, sum);
      return form ? form->group : 0;
    }

   private:
    ConvertLayout& pass_;
  };

  /// The call in the layout that the user names for its operator, else in the one that the operator's rule
  /// chooses; nullopt: it stays. Beside named layouts no other contraction chooses one of its own.
  std::optional<op::LaidOut> in_another_layout(Context& context, const Op& op) {
    const op::OpDef& def = op::definition(op);
    if (const auto wish = desired_.find(op.name); wish != desired_.end())
      return as_desired(context, wish->second);
    const op::LayoutRule rule = op::layout_rule(def);
    if (!rule || (!desired_.empty() && def.contraction)) return std::nullopt;
    return rule(context);
  }

  /// The call in the layouts that the user names for its operator.
  static std::optional<op::LaidOut> as_desired(Context& ctx, const op::LayoutNames& names) {
    const Call& call = ctx.call;
    const op::OpDef& def = op::definition(*call.op.as<Op>());
    const op::LetterRule& rule = *def.letters;
    const op::LayoutNames plain = rule.plain(call);
    const auto program = op::program_layout(ctx.shape.size()), wanted = op::Layout::parse(names.data);
    if (!op::in_plain_layouts(call) || !program || wanted->letters() != program->letters() ||
        plain.data != program->name())
      return std::nullopt;
    Array<Expr> args = call.args;
    for (const size_t i : rule.data) {
      const auto shape = known_shape(call.args[i]->type);
      if (!shape || shape->size() != ctx.shape.size() || !fills_blocks(*shape, *wanted, *program))
        return std::nullopt;
      args.set(i, ctx.arranged(call.args[i], *shape, *wanted));
    }
    if (!plain.kernel.empty() && names.kernel != plain.kernel)
      args.set(rule.kernel, ctx.emit_transform(args[rule.kernel], plain.kernel, names.kernel));
    const auto channels = tir::as_int(ctx.shape[1]);
    if (!channels || !fills_blocks(ctx.shape, *wanted, *program)) return std::nullopt;
    const op::LayoutNames all{names.data, names.kernel, names.data};
    return op::LaidOut{ctx.make(call.op.as<Op>()->name, args, rule.with(call, all)), *wanted, *channels};
  }
  /// Each size is a multiple of its block in the layout, so that no element is added to fill one.
  static bool fills_blocks(const op::Shape& shape, const op::Layout& layout, const op::Layout& program) {
    for (const op::Layout::Axis& a : program.axes) {
      const auto size = tir::as_int(program.size(a.letter, shape));
      if (layout.block(a.letter) != 1 && (!size || *size % layout.block(a.letter))) return false;
    }
    return true;
  }

  Target target_;
  const Desired& desired_;
  const std::unordered_map<const Var*, std::set<int64_t>> cuts_;  ///< of variables of the function as it was
  std::unordered_map<const Var*, op::LaidOut> laid_out_;          ///< of variables that the function keeps
};

/// "HWIO" for "NHWC": the weight's spatial axes where the data has them, channels of the result last where
/// the data's channels are. Nullopt: not of these letters.
std::optional<std::string> kernel_for(const std::string& data, const std::string& plain) {
  const auto layout = op::Layout::parse(data);
  if (!layout || layout->has_blocks()) return std::nullopt;
  std::string spatial;
  for (const char c : data)
    if (c != 'N' && c != 'C') spatial += c;
  if (data.ends_with("C")) return spatial + "IO";
  if (data.starts_with("NC")) return plain.substr(0, 2) + spatial;
  return std::nullopt;
}

/// A mistake in what the user names, and what would help.
using Refuse = FunctionRef<void(const std::string& why, const std::string& hint)>;

/// The layouts that `text` ("NHWC", "NHWC:HWIO") names for an operator whose own are `plain`; nullopt:
/// refused.
std::optional<op::LayoutNames> layouts_named(const std::string& text, const op::LayoutNames& plain,
                                             Refuse refuse) {
  const size_t colon = text.find(':');
  op::LayoutNames names{text.substr(0, colon), colon == text.npos ? "default" : text.substr(colon + 1), ""};
  const auto data = op::Layout::parse(names.data);
  if (!data || data->letters().find('C') == std::string::npos) {
    refuse("the layout of the data names no axes", "for example NHWC, or NHWC:HWIO with that of the weight");
    return {};
  }
  const bool weight = !plain.kernel.empty();
  if (weight && names.kernel == "default") {
    const auto kernel = kernel_for(names.data, plain.kernel);
    if (!kernel) {
      refuse("no layout of the weight goes with it",
             fmt::format("name one: {}:{}", names.data, plain.kernel));
      return {};
    }
    names.kernel = *kernel;
  }
  auto same_letters = [](const std::string& a, const std::string& b) {
    const auto l = op::Layout::parse(a), m = op::Layout::parse(b);
    return l && m && l->letters() == m->letters();
  };
  if (!weight && names.kernel != "default")
    refuse("the operator has no weight", fmt::format("write {}", names.data));
  else if (!plain.data.empty() && !same_letters(names.data, plain.data))
    refuse(fmt::format("the data has the axes of {}", plain.data), "each letter once, blocks as in NCHW4c");
  else if (weight && !same_letters(names.kernel, plain.kernel))
    refuse(fmt::format("the weight has the axes of {}", plain.kernel), "each letter once");
  else
    return names;
  return {};
}

Desired desired_layouts(const Map<std::string, std::string>& given) {
  Desired out;
  DiagnosticList problems(ErrorKind::usage);
  for (const auto& [name, text] : given) {
    auto refuse = [&](const std::string& why, const std::string& hint) {
      problems.add({.code = "T1107",
                    .message = fmt::format("convert_layout.desired: `{}={}`: {}", name, text, why),
                    .hint = hint});
    };
    const Ref<Op> op = find_op(name);
    const auto letters = op ? op::definition(*op).letters : nullptr;
    if (!letters) {
      refuse(op ? "the operator takes no layout" : "there is no such operator",
             "`tenon ops NAME` shows the attributes of an operator; a layout is one of them");
      continue;
    }
    // An operator of any number of axes has no letters to compare with: the name of its data's is empty.
    const auto call = make<Call>(Expr(op), Array<Expr>{var("x", tensor_type_unknown(-1, f32))});
    if (const auto names = layouts_named(text, letters->plain(*call), refuse)) out[name] = *names;
  }
  problems.throw_if_any();
  return out;
}

}  // namespace
}  // namespace graph

static const Option<Map<std::string, std::string>> kDesired(
    "convert_layout.desired", {},
    "layouts of data and weight by operator, nn.conv2d=NHWC:HWIO, in place of the machine's; NHWC or "
    "NHWC:default: the usual weight");

static IRModule convert_layout(IRModule module, PassContext& context) {
  Target target = context.target.cast<TargetNode>();
  const graph::Desired desired = graph::desired_layouts(context.options.get(kDesired));
  // A blocked layout is a decision for a machine: a block has as many channels as a vector has lanes, and no
  // layout has one where vectors are too short.
  if (desired.empty() && (!target || !cost::channel_block(target->lanes(f32), f32, target))) return module;
  return module.map_graph([&](const std::string&, const Ref<graph::Function>& f) -> ObjectRef {
    graph::ConvertLayout rewriter(target, desired, graph::channel_cuts(*f));
    const Ref<graph::Function> out = rewriter.run(f);
    return out.same_as(f) ? ObjectRef() : ObjectRef(out);
  });
}

const Pass& convert_layout_pass = register_pass({
    .name = "convert_layout",
    .run = convert_layout,
    .level = 2,
    .summary = "channels of convolutions in blocks as wide as a vector, or the layouts that a user names",
    .needs = {"infer_types"},
    .changes = Changes::sum_order,
    .options = {kDesired},
});

}  // namespace tenon
