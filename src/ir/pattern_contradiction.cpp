// SPDX-License-Identifier: Apache-2.0
// What a pattern says of one value twice, in ways that no value has.
#include <fmt/format.h>

#include "ir/dataflow_pattern.h"
#include "ir/structural.h"
#include "ir/text.h"
#include "ir/tir.h"

namespace tenon::dpl {
namespace {

using graph::TensorType;

/// What the parts of a conjunction ask of the value for which all of them stand.
class Asked {
 public:
  /// Why no value has all of it; empty: nothing speaks against it.
  std::string of(const DFPattern& pattern) {
    std::vector<DFPattern> work{pattern};
    std::set<const Object*> seen, rejected;
    while (!work.empty() && why_.empty()) {
      const DFPattern p = work.back();
      work.pop_back();
      if (!p || !seen.insert(p.get()).second) continue;
      if (const auto* x = p.as<AndPattern>()) work.insert(work.end(), {x->left, x->right});
      if (const auto* x = p.as<NotPattern>()) rejected.insert(x->reject.get());
      wrapped(p, work);
      kind(p);
      for (const Object* no : rejected)
        if (why_.empty() && seen.contains(no)) why_ = "it is something and not the same";
    }
    return why_;
  }

 private:
  void wrapped(const DFPattern& p, std::vector<DFPattern>& work) {
    if (const auto* x = p.as<AttrPattern>()) {
      work.push_back(x->pattern);
      for (const auto& [name, value] : x->attrs) attribute(name, value);
    } else if (const auto* x = p.as<DataTypePattern>()) {
      work.push_back(x->pattern);
      dtype(x->dtype);
    } else if (const auto* x = p.as<ShapePattern>()) {
      work.push_back(x->pattern);
      shape(x->shape);
    } else if (const auto* x = p.as<TypePattern>()) {
      work.push_back(x->pattern);
      type(x->type);
    } else if (const auto* x = p.as<SameShapePattern>()) {
      work.push_back(x->pattern);
    }
  }

  void attribute(const std::string& name, const Any& value) {
    const std::optional<Any> other = attrs_.find(name);
    const auto as_list = [](const Any& a) { return ObjectRef(Array<Any>{a}); };
    // Values of two kinds may be the same in the attribute's own type.
    if (other && std::string(other->kind_name()) == value.kind_name() &&
        !structural_equal(as_list(*other), as_list(value), true))
      why_ = fmt::format("its attribute `{}` has two values", name);
    attrs_.set(name, value);
  }
  void dtype(DataType t) {
    if (dtype_ && *dtype_ != t)
      why_ = fmt::format("it has elements of {} and of {}", to_string(*dtype_), to_string(t));
    dtype_ = t;
  }
  void shape(const Array<PrimExpr>& dims) {
    bool fits = !shape_ || shape_->size() == dims.size();
    for (size_t i = 0; fits && shape_ && i < dims.size(); ++i) {
      const auto a = tir::as_int((*shape_)[i]), b = tir::as_int(dims[i]);
      fits = !a || !b || *a == *b;
    }
    if (!fits) why_ = "it has two shapes";
    shape_ = dims;
  }
  void type(const graph::Type& t) {
    if (type_ && !structural_equal(type_, t, true))
      why_ = fmt::format("it has the types {} and {}", print(type_), print(t));
    type_ = t;
    const auto* tensor = t.as<TensorType>();
    if (!tensor) return;
    if (!tensor->dtype.is_void()) dtype(tensor->dtype);
    if (const auto dims = graph::known_shape(t)) shape(*dims);
  }

  /// What the value is itself: a variable may be bound to anything, the others not.
  void kind(const DFPattern& p) {
    const auto leaf = [&](std::string what) {
      if (!leaf_.empty() && leaf_ != what) why_ = fmt::format("it is {} and {}", leaf_, what);
      leaf_ = std::move(what);
    };
    const auto made = [&](std::string what) {
      if (!made_.empty() && made_ != what) why_ = fmt::format("it is {} and {}", made_, what);
      made_ = std::move(what);
    };
    if (p.is<ConstantPattern>()) leaf("a constant");
    if (p.is<VarPattern>()) leaf("a variable");
    if (p.is<GlobalVarPattern>()) leaf("a function of the module");
    if (p.is<ExternFuncPattern>()) leaf("a packed function");
    if (p.is<TuplePattern>()) made("a tuple");
    if (p.is<TupleGetItemPattern>()) made("an item of a tuple");
    if (p.is<PrimArrPattern>()) made("a shape");
    if (p.is<IfPattern>()) made("a choice");
    if (p.is<FunctionPattern>()) made("a function");
    if (const auto* call = p.as<CallPattern>()) {
      made("a call");
      const auto* named = call->op ? call->op.as<ExprPattern>() : nullptr;
      const auto* op = named && named->expr ? named->expr.as<graph::Op>() : nullptr;
      if (op && op_ && op != op_) why_ = fmt::format("it is a call of `{}` and of `{}`", op_->name, op->name);
      if (op) op_ = op;
    }
    const bool bound =
        leaf_ == "a variable" || (leaf_ == "a function of the module" && made_ == "a function");
    if (why_.empty() && !leaf_.empty() && !made_.empty() && !bound)
      why_ = fmt::format("it is {} and {}", leaf_, made_);
  }

  std::string why_, leaf_, made_;
  const graph::Op* op_ = nullptr;
  AttrMap attrs_;
  std::optional<DataType> dtype_;
  std::optional<Array<PrimExpr>> shape_;
  graph::Type type_;
};

}  // namespace

std::string contradiction(const DFPattern& pattern) {
  const bool conjunction = pattern.is<AndPattern>() || pattern.is<DataTypePattern>() ||
                           pattern.is<ShapePattern>() || pattern.is<TypePattern>() ||
                           pattern.is<AttrPattern>();
  return conjunction ? Asked().of(pattern) : std::string();
}

}  // namespace tenon::dpl
