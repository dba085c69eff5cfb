// SPDX-License-Identifier: Apache-2.0
// lower_to_call_tir: calls of primitive functions and of operators become call_tir of tensor programs.
//
//   before   lv2 = fused_add_relu(x, b)          # a function with "primitive" = 1;  lv3 = R.reshape(lv2, (4,
//   n)) after    lv2 = R.call_tir(fused_add_relu, (x, b), out_sinfo=…, tir_vars=R.shape([n]))
//            lv3 = R.call_pure_packed("vm.builtin.reshape", lv2, 4, n)          # a view: no kernel
//
// Needs: types inferred, shapes known; sizes checked, as programs assume what their operators take for
// granted. What an operator computes is the implementation that its strategy chooses for the target
// (op/strategy.h). Keeps: normal form, variables and their types; operators without a tensor definition (or
// whose shapes are not known) stay calls of operators. Equal programs stand in the module once;
// "tenon.source" lists the model's nodes that a program computes.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/attr_keys.h"
#include "ir/structural.h"
#include "ir/symbols.h"
#include "ir/tir.h"
#include "op/attrs.h"
#include "op/body_rewriter.h"
#include "op/build.h"
#include "pass/graph/fusion/group.h"
#include "pass/graph/fusion/programs.h"
#include "pass/graph/lowering/lower_function.h"

namespace tenon {
namespace graph {
namespace {

constexpr size_t kMaxSources = 32;

std::string origin_text(const Origin& o) {
  if (!o) return {};
  return o->span ? o->span.to_string() : o->text;
}

/// Of a function that only puts its parameters behind one another, in their order; -1: it does more.
int64_t concat_axis(const Function& f) {
  const Call* concat = nullptr;
  for (const Binding& b : bindings_of(f.body)) {
    const Expr value = b->value;
    if (value.is<Tuple>()) continue;
    if (concat || !value.is<Call>() || !is_op(value, "concat") || !b->var.same_as(result_of(f.body)))
      return -1;
    concat = value.as<Call>();
  }
  if (!concat) return -1;
  Expr parts = concat->args[0];
  for (const Binding& b : bindings_of(f.body))
    if (b->var.same_as(parts)) parts = b->value;
  const auto* result = as_tensor(concat->type ? concat->type : f.ret_type);
  if (!result || result->ndim < 1) return -1;
  if (const auto* items = parts.as<Tuple>()) {
    if (items->items.size() != f.params.size()) return -1;
    for (size_t i = 0; i < f.params.size(); ++i)
      if (!items->items[i].same_as(f.params[i])) return -1;
  } else if (f.params.size() != 1 || !parts.same_as(f.params[0])) {
    return -1;
  }
  const int64_t axis = op::attrs_of<op::AxisAttrs>(*concat).axis;
  return axis < 0 ? axis + result->ndim : axis;
}

class Lowering {
 public:
  Lowering(IRModule module, Target target, Map<std::string, std::string> implementations)
      : module_(std::move(module)),
        target_(std::move(target)),
        implementations_(std::move(implementations)) {}

  IRModule run() {
    std::vector<std::pair<std::string, Ref<Function>>> functions;
    for (auto [name, object] : module_.functions())
      if (Ref<Function> f = object.cast<Function>()) functions.emplace_back(name, f);
    // Names of primitive functions are free for the tensor programs made of them.
    std::set<std::string> names;
    for (auto& [name, f] : functions)
      if (is_primitive(*f)) {
        primitives_[name] = f;
        names.insert(name);
      }
    erase_functions(module_, names);
    for (auto& [name, f] : functions) {
      if (is_primitive(*f)) continue;
      Rewriter rewriter(*this);
      Ref<Function> out = rewriter.run(f);
      if (!out.same_as(f)) module_.set(name, out);
    }
    for (auto& [name, entry] : programs_) {
      Array<std::string> sources(entry.sources.begin(), entry.sources.end());
      tir::PrimFunc f = entry.program;
      if (!sources.empty()) f.edit()->attrs.set(kSourceAttr, Any(sources));
      module_.set(name, f);
    }
    return module_;
  }

 private:
  struct Rewriter : BodyRewriter {
    explicit Rewriter(Lowering& owner) : owner(owner) {}
    Lowering& owner;
    Expr visit(const Expr& value, const VarRef& var) override {
      const auto* call = value.as<Call>();
      if (!call) return value;
      if (const auto* g = call->op.as<GlobalVar>()) {
        auto it = owner.primitives_.find(g->name);
        if (it == owner.primitives_.end()) return value;
        return lowered(it->second, call->args, g->name, value, var);
      }
      const Op* op = call->op.as<Op>();
      if (!op) return value;
      if (Expr view = as_view(*op, *call, var)) return view;
      if (!op->pure || !can_lower(value)) return value;
      // Typed as the variable is: inference of operators reads it.
      Expr typed = value;
      if (!typed->type) typed.edit()->type = var->declared;
      Binding binding = make<VarBindingNode>(var, typed);
      Group group = make_group({binding}, var);
      return lowered(group.function, group.args, kernel_name("op", {binding}), value, var);
    }

    Expr lowered(const Ref<Function>& f, const Array<Expr>& args, const std::string& hint, const Expr& value,
                 const VarRef& var) {
      std::vector<SymbolValue> symbols = match_symbols(*f, args);
      const std::string name = owner.program(f, symbols, hint, value->origin);
      Array<Expr> tensors;
      for (const Expr& a : args) {
        if (a.is<ShapeExpr>() || (a->type && (a->type.is<ShapeType>() || a->type.is<PrimType>()))) continue;
        const auto* tuple = a->type.as<TupleType>();
        if (!tuple) {
          tensors.push_back(a);
          continue;
        }
        for (size_t i = 0; i < tuple->items.size(); ++i) {
          Expr item = with_type(make<TupleGetItem>(a, int64_t(i)), tuple->items[i]);
          tensors.push_back(emit(item, var->name + "_item"));
        }
      }
      Array<PrimExpr> sizes;
      for (const SymbolValue& s : symbols) sizes.push_back(s.value);
      Type type = var->declared ? var->declared : value->type;
      Array<Type> outputs{type};
      if (const auto* t = type.as<TupleType>()) outputs = t->items;
      // A call of one result is that tensor: a tuple of one is made of it.
      const Type result = outputs.size() == 1 ? outputs[0] : type;
      const Expr made = with_type(call_tir(global(name), tensors, outputs, sizes), result,
                                  value->origin ? value->origin : var->origin);
      if (!type.is<TupleType>() || outputs.size() != 1) return made;
      return with_type(make<Tuple>(Array<Expr>{emit(made, var->name + "_item")}), type);
    }

    /// The shape (-1).
    static bool puts_in_one_dimension(const Expr& shape) {
      const auto* s = shape.as<ShapeExpr>();
      return s && s->values.size() == 1 && tir::is_const_int(s->values[0], -1);
    }
    /// Operators that only say the shape anew share the memory of their argument.
    Expr as_view(const Op& op, const Call& call, const VarRef& var) {
      if (!op::definition(op).view || call.args.empty() || !call.args[0].is<Var>()) return {};
      auto shape = known_shape(var->declared);
      if (!as_tensor(call.args[0])) return {};
      Array<Expr> args{Expr(make<ExternFunc>("vm.builtin.reshape")), call.args[0]};
      if (shape)
        for (const PrimExpr& d : *shape) args.push_back(make<PrimValue>(d));
      else if (op.name == "reshape" && call.args[1].is<Var>() && call.args[1]->type.is<ShapeType>())
        args.push_back(call.args[1]);  // as many sizes as it has when the program runs
      else if (op.name == "reshape" && puts_in_one_dimension(call.args[1]))
        args.push_back(make<PrimValue>(PrimExpr(-1)));
      else
        return {};
      return with_type(make<Call>(get_op("call_pure_packed"), args, ObjectRef(), Array<Type>{var->declared}),
                       var->declared, call.origin);
    }
  };

  std::string program(const Ref<Function>& f, const std::vector<SymbolValue>& symbols,
                      const std::string& hint, const Origin& call_origin) {
    auto& same = known_[structural_hash(f)];
    const std::string* name = nullptr;
    for (auto& [other, known] : same)
      if (structural_equal(other, f)) name = &known;
    if (!name) {
      std::vector<tir::VarRef> order;
      for (const SymbolValue& s : symbols) order.push_back(s.symbol);
      tir::PrimFunc program = lower_function(f, order, target_, implementations_);
      std::string fresh = fresh_name(hint);
      program.edit()->attrs.set("global_symbol", Any(fresh));
      int64_t kind = 0;
      for (const Binding& b : bindings_of(f->body))
        if (const Op* op = op_of(b->value)) kind = std::max(kind, int64_t(op::definition(*op).fusion));
      program.edit()->attrs.set(kPatternAttr, Any(kind));
      if (const int64_t axis = concat_axis(*f); axis >= 0)
        program.edit()->attrs.set(kConcatAxisAttr, Any(axis));
      programs_.emplace_back(fresh, Entry{program, {}});
      index_[fresh] = programs_.size() - 1;
      same.emplace_back(f, fresh);
      name = &same.back().second;
    }
    auto& sources = programs_[index_[*name]].second.sources;
    auto add = [&](const Origin& o) {
      if (sources.size() >= kMaxSources) return;
      std::string text = origin_text(o);
      if (!text.empty() && std::find(sources.begin(), sources.end(), text) == sources.end())
        sources.push_back(text);
    };
    add(call_origin);
    for (const Binding& b : bindings_of(f->body)) add(b->value->origin);
    return *name;
  }

  /// Names are symbols of the code too: the prefixes keep an `exp` apart from the C library's.
  std::string fresh_name(std::string hint) {
    for (char& c : hint)
      if (!isalnum(static_cast<unsigned char>(c)) && c != '_') c = '_';
    if (hint.empty() || isdigit(static_cast<unsigned char>(hint[0]))) hint = "kernel_" + hint;
    std::string name = hint;
    for (int& n = counts_[hint]; index_.count(name) || module_.functions().contains(name);)
      name = fmt::format("{}_{}", hint, ++n);
    return name;
  }

  struct Entry {
    tir::PrimFunc program;
    std::vector<std::string> sources;
  };
  IRModule module_;
  Target target_;
  Map<std::string, std::string> implementations_;  ///< that the user names, by operator
  std::map<std::string, Ref<Function>> primitives_;
  std::vector<std::pair<std::string, Entry>> programs_;
  std::map<std::string, size_t> index_;
  std::map<std::string, int> counts_;
  std::unordered_map<uint64_t, std::vector<std::pair<Ref<Function>, std::string>>> known_;
};

}  // namespace
}  // namespace graph

static const Option<Map<std::string, std::string>> kImplementations(
    "lower_to_call_tir.implementations", {},
    "the implementation that an operator gets, nn.conv2d=conv2d.im2col, whatever its priority");

static IRModule lower_to_call_tir(IRModule module, PassContext& context) {
  const auto implementations = context.options.get(kImplementations);
  for (const auto& [op, name] : implementations)
    if (!graph::find_op(op))
      fail("T1108", fmt::format("there is no operator `{}` for the implementation `{}`", op, name), {},
           "`tenon ops NAME` lists the implementations of an operator");
  return graph::Lowering(std::move(module), context.target.cast<TargetNode>(), implementations).run();
}

const Pass& lower_to_call_tir_pass = register_pass({
    .name = "lower_to_call_tir",
    .run = lower_to_call_tir,
    .level = 0,
    .summary = "operators and fused functions become tensor programs",
    .needs = {"infer_types", "check_sizes"},
    .options = {kImplementations},
});

}  // namespace tenon
