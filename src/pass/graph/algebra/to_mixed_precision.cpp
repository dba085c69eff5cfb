// SPDX-License-Identifier: Apache-2.0
// to_mixed_precision: contractions compute on 16-bit floats, and what lies between them stays there.
//
//   before   lv = R.nn.conv2d(x, w);  lv1 = R.nn.relu(lv);  lv2 = R.nn.softmax(lv1)
//   after    lv = R.cast(x, "bfloat16");  lv1 = R.nn.conv2d(lv, w', out_dtype="float32")
//            lv2 = R.nn.relu(lv1)
//            lv3 = R.cast(lv2, "bfloat16");  lv4 = R.cast(lv3, "float32");  lv5 = R.nn.softmax(lv4)
//                                                                            # w' = w rounded
//
// Contractions take 16 bits, but for groups of channels that fill no vectors (depthwise ones): those read 16
// bits where they pad their data, and the padded copy widens it (or holds pairs of taps for a dot
// instruction, which the layout of the convolution decides). Moves of elements follow when all their operands
// have changed, also into several parts (split). So do the constant weights of steps of recurrent layers, and
// with them the results, where an instruction multiplies such weights (OpDef::grouped_weight). Sums and
// normalisations stay in float32. Sums inside a
// contraction are float32, and so is what element-wise operators make of them within a kernel: values are
// rounded where one kernel gives them to others; for bfloat16 what has an approximation
// (OpRegistration::approximates: sigmoid, erf, a softmax of a kernel's sums) is computed to a few digits more
// than that. The types of parameters and results stay. Needs: types; normal form. Keeps: types of all
// variables; values up to the rounding of 16-bit floats.
#include "analysis/cost/layout.h"
#include "op/body_rewriter.h"
#include "op/build.h"
#include "target/narrow_float.h"

namespace tenon {
namespace graph {
namespace {

class ToMixedPrecision : public BodyRewriter {
 public:
  ToMixedPrecision(DataType low, const Target& target, const Function& f)
      : low_(low),
        target_(target),
        lanes_(target ? target->lanes(f32) : 1),
        known_alone_(target && low == DataType::bfloat16() && multiplies_matrices(target, low, low) &&
                     !bf16_dots_pay(target)) {
    for (const auto& [v, n] : count_uses(f)) uses_[v].all = n;
    for_each_binding(f.body, [&](const Binding& b) {
      const Expr value = b->value;
      const Op* op = op_of(value);
      const bool wide = op && (stays_in_kernel(*op) || for_bfloat16(*op) ||
                               (stays_wide(*op, *value.as<Call>()) && !widens(*value.as<Call>())));
      for_each_use(value, [&](const VarRef& v) {
        Uses& u = uses_[v.get()];
        ++u.in_bindings;
        u.wide += wide;
      });
    });
  }

 protected:
  Expr visit(const Expr& value, const VarRef& var) override {
    if (const auto* t = value.as<Tuple>()) {
      // Its changed form is for the concatenation that takes it.
      if (Expr form = low_tuple(*t)) low_form_[var.get()] = emit(form, var->name);
      return value;
    }
    if (const auto* part = value.as<TupleGetItem>()) return part_of(*part, value, var);
    const Op* op = op_of(value);
    if (op && op::definition(*op).grouped_weight) return with_low_weight(value, var);
    if (op && op->pure && value->type && value->type.is<TupleType>()) {
      if (Expr parts = low_parts(*op, *value.as<Call>())) low_parts_[var.get()] = emit(parts, var->name);
      return value;
    }
    const auto* type = as_tensor(var->declared ? var->declared : value->type);
    if (!op || !op->pure || !type || type->dtype != f32) return value;
    const Call& call = *value.as<Call>();
    const op::Precision precision = precision_of(op::definition(*op));
    const bool always = precision == op::Precision::narrow;
    if (stays_wide(*op, call)) {
      const Expr form = widens(call) ? known(call.args[0]) : Expr();
      const ObjectRef attrs = form ? with_wide_result(call.attrs) : ObjectRef();
      return attrs ? rounded(op::op_call(op->name, {form, call.args[1]}, attrs, call.origin), var) : value;
    }
    if (op->name == "cast") {  // from 16 bits and back again
      const auto* from = as_tensor(call.args[0]);
      if (from && from->dtype == low_) low_form_[var.get()] = call.args[0];
      return value;
    }
    if (stays_in_kernel(*op)) return follows(call) ? rounded(cheaper(value, var), var) : value;
    if (for_bfloat16(*op) && follows(call)) return cheaper(value, var);
    if (precision == op::Precision::wide || precision == op::Precision::bytes) return value;
    bool changed = always;
    Array<Expr> args = call.args;
    for (size_t i = 0; i < args.size(); ++i) {
      const auto* tensor = as_tensor(args[i]);
      if (Expr form = known(args[i])) {
        args.set(i, form);
        changed = true;
      } else if (tensor && tensor->dtype == f32) {
        if (!always && !args[i].is<Constant>()) return value;
      } else if (tensor && tensor->dtype.is_float()) {
        return value;  // the model mixes types itself
      } else if (const auto* t = args[i].as<Tuple>()) {
        Expr form = low_tuple(*t);
        if (!form) return value;
        args.set(i, form);
        changed = true;
      } else if (args[i]->type && args[i]->type.is<TupleType>()) {
        return value;
      }
    }
    if (!changed) return value;
    for (size_t i = 0; i < args.size(); ++i)
      if (const auto* tensor = as_tensor(args[i]); tensor && tensor->dtype == f32)
        args.set(i, cast(args[i], low_));
    if (always)
      if (const ObjectRef attrs = with_wide_result(call.attrs))
        return rounded(op::op_call(op->name, args, attrs, call.origin), var);
    const Expr y = op::op_call(op->name, args, call.attrs, call.origin);
    const auto* result = as_tensor(y);
    if (!result || (result->dtype != low_ && result->dtype != f32)) return value;
    if (result->dtype == f32) return y;  // an operator that was told its result's type
    return low_form_[var.get()] = emit(y, var->name), cast_call(low_form_[var.get()], f32);
  }

 private:
  /// What a kernel computes, in float32, from values that it has in registers.
  static bool stays_in_kernel(const Op& op) {
    const op::OpDef& def = op::definition(op);
    return def.precision != op::Precision::wide && def.precision != op::Precision::bytes && def.tensor_def &&
           (def.fusion == FusionKind::element_wise || def.fusion == FusionKind::broadcast);
  }
  static const Op* for_bfloat16(const Op& op) {
    return op::approximation_of(op, op::Approximation::bfloat16);
  }
  /// The function of a value in registers, to a few digits more than bfloat16 has; a result keeps float32's.
  Expr cheaper(const Expr& value, const VarRef& var) const {
    const Op* approximation = low_ == DataType::bfloat16() ? for_bfloat16(*op_of(value)) : nullptr;
    if (!approximation) return value;
    const auto uses = uses_.find(var.get());
    if (uses == uses_.end() || uses->second.in_bindings == 0) return value;
    const Call& call = *value.as<Call>();
    return op::op_call(approximation->name, call.args, call.attrs, call.origin);
  }
  /// Contractions of groups of channels that are no whole vectors, depthwise ones among them, and cannot be
  /// joined to whole ones: they multiply channel by channel, where 16 bits save no multiplication and
  /// conversions come on top. Those of symbolic sizes, where 16 bits pay in matrix registers alone.
  bool stays_wide(const Op& op, const Call& call) const {
    const auto sum = op::definition(op).contraction ? op::definition(op).contraction(call) : std::nullopt;
    if (sum && known_alone_ && !known_sizes(call)) return true;
    const auto shape = sum && sum->groups > 1 ? static_shape(call.args[1]->type) : std::nullopt;
    if (!shape) return false;
    const int64_t in = (*shape)[size_t(sum->weight_in)],
                  out = (*shape)[size_t(sum->weight_out)] / sum->groups;
    if (in % lanes_ == 0 && out % lanes_ == 0) return false;
    return !target_ || in == 1 || cost::joined_groups({sum->groups, in, out, low_, 0}, target_) == 1;
  }
  /// Matrix registers take rows and sums of known size, whatever the batch, and rows of any number by one
  /// matrix.
  static bool known_sizes(const Call& call) {
    const auto data = known_shape(call.args[0]), weight = known_shape(call.args[1]);
    if (!data || !weight) return false;
    auto known = [](const Array<PrimExpr>& shape, size_t from) {
      return std::all_of(shape.begin() + std::ptrdiff_t(from), shape.end(),
                         [](const PrimExpr& d) { return tir::as_int(d).has_value(); });
    };
    auto matrix = [&](const Array<PrimExpr>& s) { return s.size() < 2 || known(s, s.size() - 2); };
    if (call.attrs.as<op::ConvAttrs>() || call.attrs.as<op::ConvTransposeAttrs>())
      return known(*weight, 0) && data->size() > 1 && known(*data, 1);
    return (weight->size() == 2 && known(*weight, 0)) || (matrix(*data) && matrix(*weight));
  }
  /// A convolution that pads its data: the copy can as well be made of 16 bits, which it widens.
  static bool widens(const Call& call) {
    const auto* a = call.attrs.as<op::ConvAttrs>();
    return a && call.args.size() == 2 &&
           std::any_of(a->padding.begin(), a->padding.end(), [](int64_t n) { return n > 0; });
  }
  /// All operands have changed, or are constants beside one that has.
  bool follows(const Call& call) const {
    bool any = false;
    for (const Expr& a : call.args) {
      const auto* tensor = as_tensor(a);
      const auto* v = a.as<Var>();
      const bool changed = v && (low_form_.contains(v) || in_registers_.contains(v));
      if (tensor && tensor->dtype.is_float() && !changed && !a.is<Constant>()) return false;
      any = any || changed;
    }
    return any;
  }
  /// The value y of float32 with the rounding of 16 bits, unless only the kernel that made it wants it.
  Expr rounded(const Expr& y, const VarRef& var) {
    const auto it = uses_.find(var.get());
    const Uses uses = it == uses_.end() ? Uses() : it->second;
    if (uses.all == 1 && uses.in_bindings == 0) return y;
    if (uses.all > 0 && uses.wide == uses.all) {
      in_registers_.insert(var.get());
      return y;
    }
    low_form_[var.get()] = emit(cast_call(emit(y, var->name), low_), var->name);
    return cast_call(low_form_[var.get()], f32);
  }
  /// Attributes with which a contraction gives float32; null: it cannot be told.
  static ObjectRef with_wide_result(const ObjectRef& attrs) {
    auto set = [&]<class T>(const T* a) -> ObjectRef {
      if (!a->out_dtype.is_void()) return {};
      return op::make_attrs<T>([&](T& to) { to = *a, to.out_dtype = f32; });
    };
    if (const auto* a = attrs.as<op::ConvAttrs>()) return set(a);
    if (const auto* a = attrs.as<op::ConvTransposeAttrs>()) return set(a);
    if (const auto* a = attrs.as<op::MatmulAttrs>()) return set(a);
    return {};
  }
  static op::Precision precision_of(const op::OpDef& def) {
    if (def.precision != op::Precision::by_kind) return def.precision;
    return def.fusion == FusionKind::injective ? op::Precision::follows : op::Precision::wide;
  }
  Expr known(const Expr& e) {
    const auto* v = e.as<Var>();
    if (v && in_registers_.erase(v)) low_form_[v] = emit(cast_call(e, low_), v->name);
    auto it = v ? low_form_.find(v) : low_form_.end();
    return it == low_form_.end() ? Expr() : it->second;
  }
  static Expr cast_call(const Expr& x, DataType to) {
    return op::op_call("cast", {x}, op::make_attrs<op::CastAttrs>(to));
  }
  Expr cast(const Expr& x, DataType to) {
    auto [it, first] = casts_.try_emplace(x.get());
    if (first || !x.is<Var>()) it->second = emit(cast_call(x, to));
    keep_.push_back(x);
    return it->second;
  }
  /// The tuple of the items' changed forms; null when one has none.
  Expr low_tuple(const Tuple& t) {
    Array<Expr> items;
    for (const Expr& item : t.items) {
      Expr form = known(item);
      if (!form) return {};
      items.push_back(form);
    }
    return items.empty() ? Expr() : op::tuple(items);
  }
  /// Parts of changed operands, as a tuple; null: the operator does more than move elements, or a float among
  /// its operands, or all of them, has not changed.
  Expr low_parts(const Op& op, const Call& call) {
    if (precision_of(op::definition(op)) != op::Precision::follows) return {};
    Array<Expr> args = call.args;
    bool any = false;
    for (size_t i = 0; i < args.size(); ++i) {
      const auto* tensor = as_tensor(args[i]);
      if (!tensor && args[i]->type && args[i]->type.is<TupleType>()) return {};
      if (!tensor || !tensor->dtype.is_float()) continue;
      const Expr form = tensor->dtype == f32 ? known(args[i]) : Expr();
      if (!form) return {};
      args.set(i, form);
      any = true;
    }
    return any ? op::op_call(op.name, args, call.attrs, call.origin) : Expr();
  }
  /// Steps that multiply by constant weights, where an instruction takes both operands in 16 bits: the
  /// weights change, and with them the results.
  Expr with_low_weight(const Expr& value, const VarRef& var) {
    const Call& call = *value.as<Call>();
    const size_t at = op::definition(*op_of(value)).grouped_weight->argument;
    const auto* weight = as_tensor(call.args[at]);
    const auto shape = static_shape(call.args[at]->type);
    if (!call.args[at].is<Constant>() || !shape || weight->dtype != f32 || low_ != DataType::bfloat16())
      return value;
    const bool rows = (*shape)[shape->size() - 2] % (kMatrixRowBytes / low_.bytes()) == 0;
    if (target_ && !bf16_dots_pay(target_) && !(rows && multiplies_matrices(target_, low_, low_)))
      return value;
    Array<Expr> args = call.args;
    args.set(at, cast(args[at], low_));
    low_parts_[var.get()] = emit(op::op_call(op_of(value)->name, args, call.attrs, call.origin), var->name);
    return value;
  }
  /// A part follows the tuple that it comes from.
  Expr part_of(const TupleGetItem& part, const Expr& value, const VarRef& var) {
    const auto* whole = part.tuple.as<Var>();
    const auto parts = whole ? low_parts_.find(whole) : low_parts_.end();
    if (parts == low_parts_.end()) return value;
    const Expr low = make<TupleGetItem>(parts->second, part.index);
    return low_form_[var.get()] = emit(low, var->name), cast_call(low_form_[var.get()], f32);
  }
  /// Casts of one scope are not seen in its neighbours.
  void enter_scope() override { scopes_.push_back(casts_); }
  void leave_scope() override {
    casts_ = scopes_.back();
    scopes_.pop_back();
  }

  /// Of a variable, in the function as it was; `wide`: by what takes it as float32.
  struct Uses {
    int all = 0, in_bindings = 0, wide = 0;
  };
  DataType low_;
  Target target_;     ///< null: any machine
  int64_t lanes_;     ///< of float32 in a vector
  bool known_alone_;  ///< 16 bits pay where sizes are known
  std::unordered_map<const Var*, Uses> uses_;
  std::unordered_set<const Object*> in_registers_;                ///< changed, and not rounded
  std::unordered_map<const Object*, Expr> low_form_, low_parts_;  ///< of tensors, and of tuples of parts
  std::unordered_map<const Object*, Expr> casts_;
  std::vector<std::unordered_map<const Object*, Expr>> scopes_;
  std::vector<Expr> keep_;  // keys of the maps stay alive
};

}  // namespace
}  // namespace graph

static const Option<std::string> kDtype("to_mixed_precision.dtype", "bfloat16", "the type of the operands",
                                        {.one_of = {"bf16", "f16", "bfloat16", "float16"}});

static IRModule to_mixed_precision(IRModule module, PassContext& context) {
  DataType low;
  CHECK(parse_dtype(context.options.get(kDtype), &low), "the option takes names of types only");
  const Target target = context.target.cast<TargetNode>();
  return graph::consume_functions(std::move(module), [&](Ref<graph::Function> f) {
    graph::ToMixedPrecision rewriter(low, target, *f);
    return rewriter.run(std::move(f));
  });
}

const Pass& to_mixed_precision_pass = register_pass({
    .name = "to_mixed_precision",
    .run = to_mixed_precision,
    .summary = "contractions compute on 16-bit floats (--precision)",
    .needs = {"infer_types"},
    .changes = Changes::rounding,
    .rounds = 0x1p-8,
    .options = {kDtype},
});

}  // namespace tenon
