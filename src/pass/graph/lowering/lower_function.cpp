// SPDX-License-Identifier: Apache-2.0
#include "pass/graph/lowering/lower_function.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "analysis/analyzer.h"
#include "ir/attr_keys.h"
#include "ir/calls_out.h"
#include "ir/structural.h"
#include "ir/text.h"
#include "ir/tir.h"
#include "op/build.h"
#include "op/infer.h"
#include "op/strategy.h"

namespace tenon::graph {

bool has_tensor_def(const Op& op) { return bool(op::definition(op).tensor_def); }

bool can_lower(const Expr& value) {
  const Op* op = op_of(value);
  return op && has_tensor_def(*op) && op::can_lower(*value.as<Call>());
}

namespace {

/// A constant of one element as an immediate.
PrimExpr immediate(const NDArray& a) {
  const DataType t = a.dtype();
  if (t.is_float()) return PrimExpr::float_imm(a.element(0), t);
  return PrimExpr::int_imm(a.element_int(0), t);
}

std::vector<PrimExpr> factors_of(const PrimExpr& e) {
  std::vector<PrimExpr> out, todo{e};
  while (!todo.empty()) {
    const PrimExpr x = todo.back();
    todo.pop_back();
    if (const auto* n = x.as<tir::Mul>())
      todo.insert(todo.end(), {n->a, n->b});
    else
      out.push_back(x);
  }
  return out;
}

PrimExpr product(const std::vector<PrimExpr>& factors) {
  PrimExpr out(1);
  for (const PrimExpr& f : factors) out = out * f;
  return out;
}

/// Equal products: one of the factors that they share is 0, or the rest is equal.
PrimExpr equal_products(const PrimExpr& a, const PrimExpr& b) {
  std::vector<PrimExpr> left = factors_of(a), right = factors_of(b), shared;
  for (size_t i = left.size(); i-- > 0;)
    for (size_t k = 0; k < right.size(); ++k)
      if (!tir::as_int(left[i]) && structural_equal(left[i], right[k])) {
        shared.push_back(left[i]);
        left.erase(left.begin() + int64_t(i));
        right.erase(right.begin() + int64_t(k));
        break;
      }
  if (shared.empty()) return tir::eq(a, b);
  return tir::logical_or(tir::eq(product(shared), PrimExpr(0)), tir::eq(product(left), product(right)));
}

/// What an operator takes for granted, as a condition.
PrimExpr condition_of(const op::SizeFact& fact) {
  if (fact.or_one) return tir::logical_or(tir::eq(fact.have, PrimExpr(1)), tir::eq(fact.have, fact.want));
  // What is picked of an axis of n elements, times max(1 - n, 0), is 0 (InferContext::expect_elements).
  std::vector<PrimExpr> picked = factors_of(fact.have);
  const auto empty = std::ranges::find_if(picked, [](const PrimExpr& f) {
    const auto* m = f.as<tir::Max>();
    return m && tir::is_zero(m->b);
  });
  if (tir::is_zero(fact.want) && empty != picked.end()) {
    const PrimExpr n = simplify(PrimExpr(1) - empty->as<tir::Max>()->a);
    picked.erase(empty);
    return tir::logical_or(tir::ge(n, PrimExpr(1)), tir::eq(product(picked), PrimExpr(0)));
  }
  return equal_products(fact.have, fact.want);
}

class FunctionLowering {
 public:
  FunctionLowering(const Target& target, const Map<std::string, std::string>& implementations)
      : target_(target), implementations_(implementations) {}

  tir::PrimFunc run(const Ref<Function>& function, const std::vector<tir::VarRef>& symbols) {
    Array<te::Tensor> args;
    for (const VarRef& p : function->params) {
      if (p->declared.is<ShapeType>() || p->declared.is<PrimType>()) continue;  // their sizes are scalars
      add_parameter(p, p->declared, args);
    }
    const size_t num_inputs = args.size();
    for (const Binding& b : bindings_of(function->body)) bind(b->var, b->value);
    std::set<std::pair<const te::OperationNode*, int64_t>> given;
    for (const te::Tensor& t : args) given.insert({t->op.get(), t->index});
    for (te::Tensor t : tensors(result_of(function->body))) {
      // An output that is an input, or an output twice, is a copy: every parameter is its own memory.
      if (!given.insert({t->op.get(), t->index}).second) {
        t = te::compute(
            t.shape(), [&](const Array<tir::VarRef>& i) { return t(Array<PrimExpr>(i.begin(), i.end())); },
            "copy");
        given.insert({t->op.get(), t->index});
      }
      args.push_back(t);
    }
    tir::PrimFunc f = te::create_prim_func(args, symbols);
    f = with_all_scalars(f, args, num_inputs, symbols);
    assume_facts(f);
    if (!rule_.empty()) f.edit()->attrs.set(kScheduleRuleAttr, Any(rule_));
    return f;
  }

 private:
  void add_parameter(const VarRef& p, const Type& type, Array<te::Tensor>& args) {
    std::vector<te::Tensor>& out = values_[p.get()];
    auto add = [&](const Type& t) {
      auto shape = known_shape(t);
      CHECK(as_tensor(t) && shape, "a kernel's parameter must be a tensor of known shape: " + print(t));
      te::Tensor placeholder = te::placeholder(*shape, as_tensor(t)->dtype, p->name);
      out.push_back(placeholder);
      args.push_back(placeholder);
    };
    if (const auto* tuple = type.as<TupleType>()) {
      for (const Type& t : tuple->items) add(t);
    } else {
      add(type);
    }
  }

  std::vector<te::Tensor> tensors(const Expr& e) {
    if (const auto* v = e.as<Var>()) {
      auto it = values_.find(v);
      return it == values_.end() ? std::vector<te::Tensor>() : it->second;
    }
    if (const auto* c = e.as<Constant>()) {
      auto it = values_.find(c);
      if (it != values_.end()) return it->second;
      CHECK(c->data.size() == 1, "a large constant inside a kernel");
      PrimExpr value = immediate(c->data);
      te::Tensor t =
          te::compute(*known_shape(e->type), [&](const Array<tir::VarRef>&) { return value; }, "const");
      return values_[c] = {t};
    }
    if (const auto* t = e.as<Tuple>()) {
      std::vector<te::Tensor> out;
      for (const Expr& i : t->items)
        for (const te::Tensor& x : tensors(i)) out.push_back(x);
      return out;
    }
    return {};
  }

  void bind(const VarRef& var, const Expr& value) {
    std::vector<te::Tensor> out;
    if (const auto* item = value.as<TupleGetItem>()) {
      std::vector<te::Tensor> all = tensors(item->tuple);
      CHECK(size_t(item->index) < all.size(), "an item that the tuple does not have");
      out = {all[size_t(item->index)]};
    } else if (const Op* op = op_of(value)) {
      const Call& call = *value.as<Call>();
      op::infer_type(inference_, value);
      const op::OpImpl impl = op::lowering_of(call, target_, implementations_.get_or(op->name, {}));
      CHECK(impl.define, "no tensor definition of " + op->name);
      if (impl.schedule != "default") rule_ = impl.schedule;
      std::vector<te::Tensor> inputs;
      for (const Expr& a : call.args)
        for (const te::Tensor& t : tensors(a)) inputs.push_back(t);
      out = impl.define(call, inputs);
    } else {
      out = tensors(value);
    }
    values_[var.get()] = out;
  }

  /// Kernels see bare memory, so sizes that inputs' shapes show are passed as scalars too.
  tir::PrimFunc with_all_scalars(tir::PrimFunc f, const Array<te::Tensor>& args, size_t num_inputs,
                                 const std::vector<tir::VarRef>& symbols) {
    if (symbols.empty()) return f;
    std::unordered_map<const tir::Var*, tir::VarRef> own;  // caller's symbol → variable of f
    for (size_t i = 0; i < num_inputs; ++i) {
      const Array<PrimExpr>& formal = args[i].shape();
      const Array<PrimExpr>& actual = f->buffer_map.at(f->params[i])->shape;
      for (size_t d = 0; d < formal.size(); ++d)
        if (formal[d].is<tir::Var>()) own.try_emplace(formal[d].as<tir::Var>(), actual[d].cast<tir::Var>());
    }
    size_t next = args.size();
    for (const tir::VarRef& s : symbols)
      if (!own.count(s.get())) {
        CHECK(next < f->params.size(), "a size has no parameter");
        own.emplace(s.get(), f->params[next++]);
      }
    Array<tir::VarRef> params;
    for (size_t i = 0; i < args.size(); ++i) params.push_back(f->params[i]);
    for (const tir::VarRef& s : symbols) params.push_back(own.at(s.get()));
    f.edit()->params = params;
    for (const auto& [symbol, v] : own) own_[symbol] = v;
    return f;
  }

  /// What its operators take for granted of symbolic sizes is checked before the program runs (check_sizes):
  /// its accesses are proved by it.
  void assume_facts(tir::PrimFunc& f) const {
    Analyzer analyzer;
    for (const tir::VarRef& p : f->params)  // in this order the analyzer writes them down
      if (!p->dtype.is_handle()) analyzer.assume_size(p);
    Array<tir::Stmt> stmts;
    for (const op::SizeFact& fact : inference_.facts) {
      if (stmts.size() == kMostFacts) break;
      const PrimExpr c = analyzer.simplify(tir::substitute(condition_of(fact), own_));
      if (tir::is_one(c) || analyzer.can_prove(c)) continue;
      const tir::Stmt s = make<tir::Evaluate>(tir::call(DataType::void_(), "tir.assume", {c}));
      const bool known =
          std::any_of(stmts.begin(), stmts.end(), [&](const tir::Stmt& t) { return structural_equal(s, t); });
      if (!known) stmts.push_back(s);
    }
    if (stmts.empty()) return;
    const auto* root = f->body.as<tir::BlockRealize>();
    stmts.push_back(root->block->body);
    Ref<tir::Block> block = root->block;
    block.edit()->body = tir::seq(stmts);
    f.edit()->body = make<tir::BlockRealize>(root->iter_values, root->predicate, block);
  }

  /// Of the facts about sizes that one program relies on; proofs get slower with each.
  static constexpr size_t kMostFacts = 32;

  std::unordered_map<const Object*, std::vector<te::Tensor>> values_;
  op::Inference inference_;
  tir::VarMap own_;  ///< symbols of the graph function as variables of the program
  const Target& target_;
  const Map<std::string, std::string>& implementations_;
  std::string rule_;
};

}  // namespace

tir::PrimFunc lower_function(const Ref<Function>& function, const std::vector<tir::VarRef>& symbols,
                             const Target& target, const Map<std::string, std::string>& implementations) {
  return FunctionLowering(target, implementations).run(function, symbols);
}

// ---------------------------------------------------------------- in place

bool may_write_in_place(const tir::PrimFunc& f, size_t input, size_t output) {
  const tir::Buffer in = f->buffer_map.get_or(f->params[input], {}),
                    out = f->buffer_map.get_or(f->params[output], {});
  if (!in || !out || in->dtype.bits != out->dtype.bits || !structural_equal(in->shape, out->shape))
    return false;
  const auto* root = f->body.as<tir::BlockRealize>();
  if (!root || f->attrs.contains(kNotInPlaceAttr)) return false;
  std::vector<Ref<tir::Block>> blocks;
  pre_order(root->block->body, [&](const ObjectRef& n) {
    if (n.is<tir::Block>()) blocks.push_back(n.cast<tir::Block>());
    return true;
  });
  std::set<const tir::BufferNode*> derived{
      in.get()};  // the input, and tensors that may be computed again from it
  bool written = false;
  for (const Ref<tir::Block>& block : blocks) {
    std::vector<const tir::BufferStore*> stores;
    std::vector<const tir::BufferLoad*> loads;
    bool opaque = false;
    post_order(block->body, [&](const ObjectRef& n) {
      if (auto* s = n.as<tir::BufferStore>()) stores.push_back(s);
      if (auto* l = n.as<tir::BufferLoad>(); l && derived.count(l->buffer.get())) loads.push_back(l);
      if (auto* c = n.as<tir::Call>();
          c && (c->op == "tir.address_of" || c->op == "tir.access_ptr" || tir::calls_out(c->op)))
        opaque = true;
      if (n.is<tir::For>() || n.is<tir::While>() || n.is<tir::Block>()) opaque = true;
    });
    // A derived tensor is also whatever the regions name: memory reached otherwise is never shared.
    for (const tir::BufferRegion& r : block->reads)
      if (opaque && derived.count(r->buffer.get())) return false;
    const bool writes_out =
        std::any_of(stores.begin(), stores.end(), [&](auto* s) { return s->buffer.same_as(out); });
    if (loads.empty()) {
      if (writes_out) written = true;
      continue;
    }
    if (written || opaque || block->init || stores.size() != 1) return false;
    for (const tir::IterVar& v : block->iter_vars)
      if (v->kind != tir::IterKind::spatial) return false;
    const tir::BufferStore& store = *stores[0];
    if (!structural_equal(store.buffer->shape, in->shape)) return false;
    for (const PrimExpr& i : store.indices)
      if (!i.is<tir::Var>() && !(tir::is_zero(i))) return false;
    for (const tir::BufferLoad* l : loads) {
      if (l->indices.size() != store.indices.size()) return false;
      for (size_t d = 0; d < l->indices.size(); ++d)
        if (!l->indices[d].same_as(store.indices[d]) &&
            !(tir::is_one(in->shape[d]) && tir::is_zero(l->indices[d])))
          return false;
    }
    if (writes_out)
      written = true;
    else
      derived.insert(store.buffer.get());
  }
  return written;
}

}  // namespace tenon::graph
