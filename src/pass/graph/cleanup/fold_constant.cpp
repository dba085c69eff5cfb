// SPDX-License-Identifier: Apache-2.0
// fold_constant: a pure operator whose arguments are constants becomes its value.
//
//   before   lv = R.multiply(const, const_1)
//   after    (uses of lv are a constant)
//
// Needs: types; PassContext::evaluate (without it nothing folds by evaluation). Keeps: values; what grows
// beyond the limit stays: "fold_constant.max_bytes" (64 MiB) per result, unless it is hardly larger than its
// arguments. shape_of a known shape and shape arithmetic fold to shape expressions without evaluation. Sizes
// that a match binds to numbers become these everywhere, which may make more constants:
//
//   before   sizes = R.match_cast(R.tensor_to_shape([4]), R.Shape([n]));  lv = R.arange(0, n, 1)
//   after    (uses of lv are the constant [0, 1, 2, 3])
#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "ir/spilled.h"
#include "ir/structural.h"
#include "ir/symbols.h"
#include "ir/tir.h"
#include "op/body_rewriter.h"
#include "op/build.h"
#include "op/layout.h"
#include "pass/graph/lowering/lower_function.h"

namespace tenon {
namespace graph {
namespace {

// A result beyond the limit that is at most an eighth larger than its arguments is folded: blocks of a layout
// may be filled up.
constexpr int64_t kFilledUp = 8;

class FoldConstant : public BodyRewriter {
 public:
  /// Sizes that the function's parameters show (`given`) are not the body's to bind.
  FoldConstant(PassContext& context, int64_t max_bytes, const std::vector<tir::VarRef>& given)
      : context_(context), max_bytes_(max_bytes) {
    for (const tir::VarRef& s : given) bound_.insert(s.get());
  }

  /// What matches bind to numbers.
  const tir::VarMap& sizes() const { return sizes_; }

 protected:
  bool forward_copies() const override { return true; }

  Expr visit(const Expr& value, const VarRef& var) override {
    if (const auto* item = value.as<TupleGetItem>()) {
      Expr tuple = item->tuple.is<Tuple>() ? item->tuple : definition(item->tuple);
      if (const auto* t = tuple.as<Tuple>();
          t && size_t(item->index) < t->items.size() && t->items[size_t(item->index)].is<Constant>())
        return t->items[size_t(item->index)];
      return value;
    }
    const Op* op = op_of(value);
    if (!op || !op->pure) return value;
    const Call& call = *value.as<Call>();
    if (op->name == "shape_of")
      if (auto shape = known_shape(call.args[0]->type)) return shape_expr(*shape);
    if (!context_.evaluate || !can_fold(call)) return value;
    return fold(call, value, var);
  }

  Expr visit_match_cast(const Expr& value, const Type& type, const VarRef& var) override {
    const auto have = known_shape(value->type), pattern = known_shape(type);
    for (size_t i = 0; have && pattern && have->size() == pattern->size() && i < have->size(); ++i) {
      const auto* size = (*pattern)[i].as<tir::Var>();
      const auto number = tir::as_int((*have)[i]);
      if (size && number && *number >= 0 && !bound_.contains(size)) sizes_[size] = (*have)[i];
    }
    std::vector<tir::VarRef> named;
    symbols_of(type, named);
    for (const tir::VarRef& s : named) bound_.insert(s.get());
    return without_known_cast(value, type, var);
  }

 private:
  static bool constant_leaf(const Expr& e) {
    if (!e || e.is<Constant>() || e.is<StringImm>() || e.is<DataTypeImm>()) return true;
    if (const auto* t = e.as<Tuple>()) {
      for (const Expr& i : t->items)
        if (!constant_leaf(i)) return false;
      return true;
    }
    if (const auto* s = e.as<ShapeExpr>()) {
      for (const PrimExpr& d : s->values)
        if (!tir::as_int(d)) return false;
      return true;
    }
    if (const auto* p = e.as<PrimValue>()) return p->value.is<tir::IntImm>() || p->value.is<tir::FloatImm>();
    return false;
  }

  /// Tuples that were bound to a variable count as their items.
  Expr seen_through(const Expr& e) const {
    Expr d = e ? definition(e) : Expr();
    return d && d.is<Tuple>() ? d : e;
  }

  bool can_fold(const Call& call) const {
    for (const Expr& a : call.args)
      if (!constant_leaf(seen_through(a))) return false;
    std::vector<tir::VarRef> sizes;  // begins and ends of slices may name some
    symbols_of(call.attrs, sizes);
    return sizes.empty();
  }

  static int64_t bytes_of(const Type& t) {
    if (const auto* tuple = t.as<TupleType>()) {
      int64_t sum = 0;
      for (const Type& i : tuple->items) {
        const int64_t b = bytes_of(i);
        if (b < 0) return -1;
        sum += b;
      }
      return sum;
    }
    auto shape = static_shape(t);
    if (!shape || !as_tensor(t)) return -1;
    return int64_t(storage_bytes(element_count(*shape), as_tensor(t)->dtype));
  }

  Expr fold(const Call& call, const Expr& value, const VarRef& var) {
    Array<Expr> args = call.args.map([&](const Expr& a) { return seen_through(a); });
    Ref<Call> whole = make<Call>(call.op, args, call.attrs, call.type_args);
    Type type = var->declared ? var->declared : value->type;
    whole.edit()->type = type && bytes_of(type) >= 0 ? type : infer_value(whole);
    type = whole->type;
    const int64_t bytes = bytes_of(type);
    if (bytes < 0 || !can_lower(whole)) return value;
    std::vector<NDArray> inputs;
    int64_t input_bytes = 0;
    collect(args, inputs, input_bytes);
    if (bytes > max_bytes_ && bytes > input_bytes + input_bytes / kFilledUp) return value;
    std::vector<NDArray> outputs;
    if (std::optional<NDArray> moved = rearrange(*whole, inputs, type))
      outputs = {*moved};
    else
      outputs = evaluate(*whole, inputs);
    if (outputs.empty()) return value;
    if (!type.is<TupleType>()) return constant(outputs[0]);
    Array<Expr> items;
    for (const NDArray& o : outputs) items.push_back(constant(o));
    return with_type(make<Tuple>(items), type);
  }

  static void collect(const Array<Expr>& args, std::vector<NDArray>& out, int64_t& bytes) {
    for (const Expr& a : args) {
      if (const auto* c = a.as<Constant>()) {
        out.push_back(c->data);
        bytes += int64_t(c->data.byte_size());
      } else if (const auto* t = a.as<Tuple>()) {
        collect(t->items, out, bytes);
      }
    }
  }

  /// What only moves elements needs no program: weights are large, and compiling one takes time.
  static std::optional<NDArray> rearrange(const Call& call, const std::vector<NDArray>& inputs,
                                          const Type& type) {
    const std::string& name = call.op.as<Op>()->name;
    if (inputs.size() != 1) return std::nullopt;
    const NDArray& x = inputs[0];
    if (name == "reshape" || name == "flatten" || name == "expand_dims" || name == "squeeze")
      return x.reshape(*static_shape(type));
    if (name == "layout_transform") {
      const auto* l = call.attrs.as<op::LayoutTransformAttrs>();
      return l ? laid_out(x, l->src_layout, l->dst_layout, *static_shape(type)) : std::nullopt;
    }
    if (name != "permute_dims" || x.dtype().bits % 8 != 0 || x.dtype().lanes != 1) return std::nullopt;
    const auto* a = call.attrs.as<op::AxesAttrs>();
    const int64_t n = x.ndim();
    std::vector<int64_t> extent(size_t(n), 1), step(size_t(n), 1), stride(size_t(n), 1), at(size_t(n), 0);
    for (int64_t i = n - 2; i >= 0; --i) stride[size_t(i)] = stride[size_t(i + 1)] * x.shape()[size_t(i + 1)];
    for (int64_t i = 0; i < n; ++i) {
      int64_t axis = a && !a->axes.empty() ? a->axes[size_t(i)] : n - 1 - i;
      if (axis < 0) axis += n;
      extent[size_t(i)] = x.shape()[size_t(axis)];
      step[size_t(i)] = stride[size_t(axis)];
    }
    SpilledTensor out(extent, x.dtype());
    const size_t bytes = size_t(x.dtype().bytes());
    const char* from = x.as_ptr<char>();
    char* to = out.tensor().as_ptr<char>();
    int64_t source = 0;
    for (int64_t k = 0, size = x.size(); k < size; ++k, to += bytes) {
      out.written_until(to);
      std::memcpy(to, from + size_t(source) * bytes, bytes);
      for (int64_t i = n - 1; i >= 0; --i) {
        source += step[size_t(i)];
        if (++at[size_t(i)] < extent[size_t(i)]) break;
        source -= step[size_t(i)] * extent[size_t(i)];
        at[size_t(i)] = 0;
      }
    }
    return out.tensor();
  }

  /// A tensor of plain axes in another order and in blocks; what fills up the last block is 0.
  static std::optional<NDArray> laid_out(const NDArray& x, const std::string& from, const std::string& to,
                                         const std::vector<int64_t>& shape) {
    const auto source = op::Layout::parse(from), target = op::Layout::parse(to);
    if (x.dtype().bits % 8 != 0 || x.dtype().lanes != 1 || !source || !target || source->has_blocks() ||
        source->axes.size() != size_t(x.ndim()) || target->axes.size() != shape.size())
      return std::nullopt;
    std::vector<int64_t> stride(from.size(), 1);
    for (size_t i = from.size() - 1; i-- > 0;) stride[i] = stride[i + 1] * x.shape()[i + 1];
    std::vector<Axis> axes;
    const std::vector<int64_t> steps = target->steps();
    for (size_t i = 0; i < shape.size(); ++i)
      axes.push_back({from.find(target->axes[i].letter), steps[i], shape[i]});
    SpilledTensor out(shape, x.dtype());
    switch (x.dtype().bytes()) {
      case 1:
        copy_axes<uint8_t>(x, out, axes, stride);
        break;
      case 2:
        copy_axes<uint16_t>(x, out, axes, stride);
        break;
      case 4:
        copy_axes<uint32_t>(x, out, axes, stride);
        break;
      case 8:
        copy_axes<uint64_t>(x, out, axes, stride);
        break;
      default:
        return std::nullopt;
    }
    return out.tensor();
  }
  /// An axis of a tensor in another layout.
  struct Axis {
    size_t letter;          ///< the axis of the plain tensor
    int64_t block, extent;  ///< logical elements per step, steps
  };
  /// Element by element in the order of the result, whose last two axes are the inner loops; `stride` is that
  /// of the plain axes. What lies outside of x stays.
  template <class T>
  static void copy_axes(const NDArray& x, SpilledTensor& out, const std::vector<Axis>& axes,
                        const std::vector<int64_t>& stride) {
    const T* const source = x.as_ptr<T>();
    T* target = out.tensor().as_ptr<T>();
    const Axis last = axes.back(), next = axes.size() > 1 ? axes[axes.size() - 2] : Axis{0, 0, 1};
    const int64_t size = x.shape()[last.letter], step = stride[last.letter] * last.block;
    const size_t outer = axes.size() - std::min<size_t>(axes.size(), 2);
    std::vector<int64_t> index(axes.size(), 0), at(stride.size(), 0);
    for (int64_t blocks = out.tensor().size() / std::max<int64_t>(1, last.extent * next.extent); blocks > 0;
         --blocks) {
      out.written_until(target);
      bool inside = true;
      int64_t offset = 0;
      for (size_t i = 0; i < at.size(); ++i) {
        inside = inside && at[i] < x.shape()[i];
        offset += at[i] * stride[i];
      }
      for (int64_t j = 0; j < next.extent; ++j, target += last.extent) {
        const int64_t moved = j * next.block,
                      first = at[last.letter] + (next.letter == last.letter ? moved : 0);
        if (!inside || at[next.letter] + moved >= x.shape()[next.letter]) continue;
        const int64_t count = std::min((size - first + last.block - 1) / last.block, last.extent);
        const T* p = source + offset + moved * stride[next.letter];
        for (int64_t k = 0; k < count; ++k) target[k] = p[k * step];
      }
      for (size_t i = outer; i-- > 0;) {
        at[axes[i].letter] += axes[i].block;
        if (++index[i] < axes[i].extent) break;
        at[axes[i].letter] -= axes[i].block * axes[i].extent;
        index[i] = 0;
      }
    }
  }

  std::vector<NDArray> evaluate(const Call& call, const std::vector<NDArray>& inputs) {
    tir::PrimFunc f = op::lower_call(call);
    f.edit()->attrs.set("global_symbol", Any("fold"));
    IRModule module = IRModule::create();
    module.set("fold", f);
    return context_.evaluate(module, "fold", inputs);
  }

  PassContext& context_;
  int64_t max_bytes_;
  tir::VarMap sizes_;
  std::unordered_set<const tir::Var*> bound_;  ///< sizes that came before
};

Ref<Function> fold_all(Ref<Function> f, PassContext& context, int64_t max_bytes) {
  std::vector<tir::VarRef> given;
  for (const VarRef& p : f->params) symbols_of(p->declared, given);
  std::unordered_set<const tir::Var*> known;  // every round adds one
  for (;;) {
    FoldConstant folding(context, max_bytes, given);
    f = folding.run(std::move(f));
    bool more = false;
    for (const auto& [size, number] : folding.sizes()) more |= known.insert(size).second;
    if (!more) return f;
    f = with_sizes(f, folding.sizes());
  }
}

}  // namespace
}  // namespace graph

static const Option<int64_t> kMaxBytes(
    "fold_constant.max_bytes", 64 << 20,
    "larger results are not folded, unless hardly larger than the arguments", {.least = 0});

static IRModule fold_constant(IRModule module, PassContext& context) {
  using Function = Ref<graph::Function>;
  return graph::consume_functions(std::move(module), [&](Function f) -> Function {
    return graph::fold_all(std::move(f), context, context.options.get(kMaxBytes));
  });
}

const Pass& fold_constant_pass = register_pass({
    .name = "fold_constant",
    .run = fold_constant,
    .level = 1,
    .summary = "operators on constants become constants",
    .needs = {"infer_types"},
    .options = {kMaxBytes},
});

}  // namespace tenon
