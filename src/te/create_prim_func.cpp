// SPDX-License-Identifier: Apache-2.0
// From tensor expressions to a tensor program: one block per operation, in an order where producers come
// first.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include "analysis/region.h"
#include "ir/text.h"
#include "te/packed.h"

namespace tenon::te {
namespace {

using tir::Buffer;
using tir::BufferRegion;
using tir::Stmt;

/// Names as given, made unique by a number.
class Names {
 public:
  std::string fresh(const std::string& hint) {
    const std::string base = hint.empty() ? "t" : hint;
    std::string name = base;
    while (!used_.insert(name).second) name = fmt::format("{}_{}", base, ++count_[base]);
    return name;
  }

 private:
  std::set<std::string> used_;
  std::map<std::string, int> count_;
};

using Key = std::pair<const OperationNode*, int64_t>;
Key key(const Tensor& t) { return {t->op.get(), t->index}; }

/// Operations that `args` need, producers first; tensors that are `given` need none. Keeps its own stack: a
/// chain may be long.
std::vector<Operation> operations_of(const Array<Tensor>& args, const std::set<Key>& given) {
  std::vector<Operation> order;
  std::unordered_map<const OperationNode*, int> state;  // 1: on the stack, 2: done
  std::vector<std::pair<Operation, size_t>> stack;
  auto push = [&](const Operation& op) {
    int& s = state[op.get()];
    if (s == 0) {
      s = 1;
      stack.emplace_back(op, 0);
    }
  };
  for (const Tensor& t : args) {
    if (!given.count(key(t))) push(t->op);
    while (!stack.empty()) {
      auto& [op, next] = stack.back();
      if (next < op->inputs.size()) {
        const Tensor input = op->inputs[next++];
        if (!given.count(key(input))) push(input->op);
        continue;
      }
      state[op.get()] = 2;
      order.push_back(op);
      stack.pop_back();
    }
  }
  // What needs no sum comes in front of the sums: their readers can then be computed in their loops.
  std::unordered_set<const OperationNode*> sums;
  for (const Operation& op : order) {
    const bool plain = op->kind == OperationKind::placeholder ||
                       (op->kind == OperationKind::compute && !op->body[0].is<tir::Reduce>());
    const auto is_sum = [&](const Tensor& t) { return sums.count(t->op.get()) > 0; };
    if (!plain || std::any_of(op->inputs.begin(), op->inputs.end(), is_sum)) sums.insert(op.get());
  }
  std::ranges::stable_partition(order, [&](const Operation& op) { return !sums.count(op.get()); });
  return order;
}

class Builder {
 public:
  explicit Builder(std::set<Key> given = {}) : given_(std::move(given)) {}
  Program build(const Array<Tensor>& args, const Array<tir::VarRef>& symbolic) {
    const std::vector<Operation> order = operations_of(args, given_);
    find_scans(order, args);
    bind_args(args, symbolic);
    for (const Operation& op : order)
      if (!step_of_.count(op.get())) add(op);
    auto root = make<tir::Block>(Array<tir::IterVar>(), Array<BufferRegion>(), Array<BufferRegion>(),
                                 std::string("root"), tir::seq(stages_), Stmt(), allocs_,
                                 Array<tir::MatchBufferRegion>(), AttrMap());
    Stmt body = make<tir::BlockRealize>(Array<PrimExpr>(), tir::true_(), root);
    AttrMap attrs;
    attrs.set("tir.noalias", Any(true));
    attrs.set("num_outputs", Any(outputs_));
    auto f = make<tir::PrimFuncNode>(params_, buffer_map_, body, DataType::void_(), attrs);
    check_symbols(f);
    return {f, blocks_};
  }

 private:
  void bind_args(const Array<Tensor>& args, const Array<tir::VarRef>& symbolic) {
    std::set<Key> seen;
    std::set<const tir::Var*> bound;  // by an input's shape
    for (const Tensor& t : args) {
      if (!seen.insert({t->op.get(), t->index}).second)
        fail("T0340", fmt::format("tensor '{}' is given twice as a parameter", t->name), {},
             "give each tensor once");
      const std::string name = names_.fresh(t->name);
      Buffer b = tir::buffer(name, sizes(t.shape()), t.dtype());
      tir::VarRef param = tir::var("var_" + name, DataType::handle());
      params_.push_back(param);
      buffer_map_.set(param, b);
      buffers_[{t->op.get(), t->index}] = b;
      if (t->op->kind != OperationKind::placeholder && !given_.count(key(t))) {
        ++outputs_;
        continue;
      }
      for (const PrimExpr& d : t.shape())
        if (const auto* v = d.as<tir::Var>()) bound.insert(v);
    }
    for (const tir::VarRef& v : symbolic) {
      if (bound.count(v.get())) continue;
      params_.push_back(symbol(v));
    }
  }

  /// The function's own variable for a symbolic size: a variable has one definition in a module.
  tir::VarRef symbol(const tir::VarRef& v) {
    auto it = symbols_.find(v.get());
    if (it == symbols_.end()) {
      it = symbols_.emplace(v.get(), tir::var(names_.fresh(v->name), v->dtype)).first;
      symbol_order_.push_back(it->second.cast<tir::Var>());
    }
    return it->second.cast<tir::Var>();
  }
  PrimExpr size(const PrimExpr& e) {
    if (e.is<tir::IntImm>()) return e;
    for (const tir::VarRef& v : tir::free_vars(e)) symbol(v);
    return simplify(tir::substitute(e, symbols_));
  }
  Array<PrimExpr> sizes(const Array<PrimExpr>& a) {
    return a.map([&](const PrimExpr& e) { return size(e); });
  }

  /// Which operations run inside a scan, and which tensors live in its result.
  void find_scans(const std::vector<Operation>& order, const Array<Tensor>& args) {
    std::map<Key, int> uses;
    for (const Tensor& t : args) ++uses[key(t)];
    for (const Operation& op : order)
      for (const Tensor& t : op->inputs) ++uses[key(t)];
    for (const Operation& scan : order) {
      if (scan->kind != OperationKind::scan) continue;
      const std::string where = fmt::format("te.scan '{}'", scan->name);
      std::vector<Tensor> outputs = scan->outputs();
      std::set<const OperationNode*> inside;
      for (size_t i = 0; i < outputs.size(); ++i) {
        home_.emplace(key(scan->state[i]), outputs[i]);
        home_.emplace(key(scan->update[i]), outputs[i]);
        const Tensor& init = scan->init[i];
        // An init that nobody else reads is computed in place.
        if (init->op->kind == OperationKind::compute && uses[key(init)] == 1 && init->op->body.size() == 1)
          home_.emplace(key(init), outputs[i]);
        inside.insert(scan->state[i]->op.get());
        inside.insert(scan->update[i]->op.get());
      }
      std::vector<Operation>& steps = steps_[scan.get()];
      for (const Operation& op : order) {
        if (op.same_as(scan)) break;
        bool step = inside.count(op.get()) && op->kind != OperationKind::placeholder;
        for (const Tensor& t : op->inputs) step = step || inside.count(t->op.get());
        if (!step) continue;
        if (op->kind != OperationKind::compute || step_of_.count(op.get()))
          fail("T0345",
               fmt::format("'{}' between state and update is no compute of this scan alone", op->name), where,
               "scans do not nest; only computes run inside a step");
        inside.insert(op.get());
        step_of_.emplace(op.get(), scan);
        steps.push_back(op);
      }
      for (const Operation& op : order)
        for (const Tensor& t : op->inputs)
          if (inside.count(t->op.get()) && !inside.count(op.get()) && !op.same_as(scan))
            fail("T0345", fmt::format("'{}' reads '{}', which lives inside a step", op->name, t->name), where,
                 "read the result of the scan instead");
      for (const Tensor& t : args)
        if (inside.count(t->op.get()))
          fail("T0345", fmt::format("'{}' lives inside a step and cannot be a parameter", t->name), where,
               "give the result of the scan instead");
    }
  }
  Buffer buffer_of(const Tensor& t) {
    if (auto home = home_.find(key(t)); home != home_.end()) return buffer_of(home->second);
    auto [it, made] = buffers_.try_emplace({t->op.get(), t->index});
    if (made) {
      if (t->op->kind == OperationKind::placeholder)
        fail("T0341", fmt::format("placeholder '{}' is read but is not among the parameters", t->name), {},
             "add it to the list of arguments");
      it->second = tir::buffer(names_.fresh(t->name), sizes(t.shape()), t.dtype());
      allocs_.push_back(it->second);
    }
    return it->second;
  }

  void add(const Operation& op) {
    switch (op->kind) {
      case OperationKind::placeholder:
        return;
      case OperationKind::compute:
        add_compute(op);
        return;
      case OperationKind::external:
        add_external(op);
        return;
      case OperationKind::scan:
        add_scan(op);
        return;
    }
  }

  void add_scan(const Operation& op) {
    const std::vector<Tensor> outputs = op->outputs();
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Tensor& init = op->init[i];
      if (home_.count(key(init))) continue;
      Nest n;
      Array<PrimExpr> at;
      for (size_t d = 0; d < init.ndim(); ++d) {
        tir::Range dom = tir::range(PrimExpr(0), size(init.shape()[d]));
        n.iters.push_back(tir::iter_var(dom, fmt::format("v_i{}", d)));
        n.loops.push_back(tir::var(fmt::format("i{}", d)));
        n.values.push_back(n.loops.back());
        n.domains.push_back(dom);
        at.push_back(n.iters.back()->var);
      }
      emit(n, make_block(op, n, tir::store(buffer_of(outputs[i]), tir::load(buffer_of(init), at), at), Stmt(),
                         op->name + "_init"));
    }
    Array<Stmt> before = std::move(stages_);
    stages_ = {};
    tir::VarRef t = tir::var("t");
    tir::Range dom = tir::range(size(op->scan_axis->dom->min), size(op->scan_axis->dom->extent));
    for (const Operation& step : steps_.at(op.get())) {
      check_step(op, step);
      step_ = {t, dom};
      add(step);
      step_ = {};
    }
    Stmt loop = tir::for_(t, dom->min, dom->extent, tir::seq(stages_));
    stages_ = std::move(before);
    stages_.push_back(loop);
  }

  /// Inside a step, what other steps made is read from the state only, and only from earlier rows.
  void check_step(const Operation& scan, const Operation& step) {
    const std::string where = fmt::format("te.scan '{}'", scan->name);
    Analyzer a;
    for (const PrimExpr& d : scan->state[0].shape())
      if (d.is<tir::Var>()) a.assume_size(d.cast<tir::Var>(), 1);
    if (step->axis.empty() || !a.can_prove_equal(step->shape[0], scan->state[0].shape()[0]))
      fail("T0345", fmt::format("dimension 0 of '{}' is not the step", step->name), where,
           "what runs inside a scan has the state's dimension 0");
    const tir::VarRef t = step->axis[0]->var;
    a.bind(t, scan->scan_axis->dom, true);
    for (const PrimExpr& e : step->body)
      post_order(e, [&](const ObjectRef& n) {
        const auto* load = n.as<tir::ProducerLoad>();
        const auto* from = load ? load->producer.as<TensorNode>() : nullptr;
        if (!from) return;
        bool is_state = false;
        for (const Tensor& s : scan->state) is_state = is_state || s->op.same_as(from->op);
        if (is_state) {
          if (!a.can_prove(tir::lt(load->indices[0], t)) ||
              !a.can_prove(tir::ge(load->indices[0], PrimExpr(0))))
            fail("T0346",
                 fmt::format("'{}' reads the state '{}' at step {}, which is not provably an earlier one",
                             step->name, from->name, print(load->indices[0])),
                 where, "read rows before the step, as many back as the init has at most");
        } else if (step_of_.count(from->op.get()) && !a.can_prove_equal(load->indices[0], t)) {
          fail("T0346",
               fmt::format("'{}' reads '{}' at step {}, but only the state lives longer than a step",
                           step->name, from->name, print(load->indices[0])),
               where, "make it a state too");
        }
      });
  }

  /// Loads of tensors become loads of their buffers, in terms of the block's iterators.
  PrimExpr lower(const PrimExpr& e, const tir::VarMap& vars) {
    PrimExpr r = rewrite(e, [&](const tir::ProducerLoad& p) -> PrimExpr {
      const auto* t = p.producer.as<TensorNode>();
      CHECK(t, "a tensor expression reads something that is no tensor");
      return tir::load(buffer_of(Tensor(Ref<TensorNode>(t))), p.indices);
    });
    // Symbols that no shape mentions are met here for the first time.
    tir::VarMap map = vars;
    for (const tir::VarRef& v : tir::free_vars(r)) {
      if (map.count(v.get()) || v->dtype.is_handle() || is_symbol_of_function(v)) continue;
      map.emplace(v.get(), symbol(v));
    }
    return tir::substitute(r, map);
  }
  bool is_symbol_of_function(const tir::VarRef& v) const {
    for (const tir::VarRef& s : symbol_order_)
      if (s.same_as(v)) return true;
    return false;
  }

  struct Nest {
    tir::VarMap vars;  // axis variable → block iterator
    Array<tir::IterVar> iters;
    Array<PrimExpr> values;
    std::vector<tir::VarRef> loops;
    std::vector<tir::Range> domains;
  };
  Nest nest_of(const Operation& op, bool reduce = true) {
    Nest n;
    auto add_axis = [&](const tir::IterVar& axis) {
      tir::Range dom = tir::range(size(axis->dom->min), size(axis->dom->extent));
      tir::IterVar iter = tir::iter_var(dom, "v_" + axis->var->name, axis->kind);
      n.vars.emplace(axis->var.get(), iter->var);
      n.iters.push_back(iter);
      n.loops.push_back(tir::var(axis->var->name));
      n.values.push_back(n.loops.back());
      n.domains.push_back(dom);
    };
    for (size_t i = 0; i < op->axis.size(); ++i) {
      if (i > 0 || !step_.first) {
        add_axis(op->axis[i]);
        continue;
      }
      // Dimension 0 of what runs inside a scan is the scan's own loop.
      tir::IterVar iter = tir::iter_var(step_.second, "v_t", tir::IterKind::scan);
      n.vars.emplace(op->axis[0]->var.get(), iter->var);
      n.iters.push_back(iter);
      n.values.push_back(step_.first);
    }
    if (reduce)
      for (const tir::IterVar& axis : op->reduce_axis) add_axis(axis);
    return n;
  }

  void emit(const Nest& n, Ref<tir::Block> block) {
    complete_regions(block);
    Stmt s = make<tir::BlockRealize>(n.values, tir::true_(), block);
    for (size_t i = n.loops.size(); i-- > 0;)
      s = tir::for_(n.loops[i], n.domains[i]->min, n.domains[i]->extent, s);
    stages_.push_back(s);
  }

  static void complete_regions(Ref<tir::Block>& block) {
    AccessRegions access = detect_access_regions(block);
    tir::Block* node = block.edit();
    node->writes = access.writes;
    node->reads = Array<BufferRegion>();
    for (const BufferRegion& r : access.reads) {
      // A reduction's own accumulator is not an input of the block.
      bool written = false;
      if (node->init)
        for (const BufferRegion& w : access.writes) written = written || w->buffer.same_as(r->buffer);
      if (!written) node->reads.push_back(r);
    }
  }

  Ref<tir::Block> make_block(const Operation& op, const Nest& n, Stmt body, Stmt init,
                             const std::string& hint = {}) {
    return make<tir::Block>(n.iters, Array<BufferRegion>(), Array<BufferRegion>(),
                            block_name(op, hint.empty() ? op->name : hint), body, init, Array<Buffer>(),
                            Array<tir::MatchBufferRegion>(), op->attrs);
  }
  std::string block_name(const Operation& op, const std::string& hint) {
    blocks_.emplace_back(op, block_names_.fresh(hint));
    return blocks_.back().second;
  }

  void add_compute(const Operation& op) {
    std::vector<Tensor> outputs = op->outputs();
    if (op->body[0].is<tir::Reduce>()) {
      add_reduction(op, outputs);
      return;
    }
    Nest n = nest_of(op);
    Array<Stmt> body;
    for (size_t i = 0; i < outputs.size(); ++i)
      body.push_back(tir::store(buffer_of(outputs[i]), lower(op->body[i], n.vars), spatial_indices(op, n)));
    emit(n, make_block(op, n, tir::seq(body), Stmt()));
  }

  static Array<PrimExpr> spatial_indices(const Operation& op, const Nest& n) {
    Array<PrimExpr> indices;
    for (size_t i = 0; i < op->axis.size(); ++i) indices.push_back(n.iters[i]->var);
    return indices;
  }

  void add_reduction(const Operation& op, const std::vector<Tensor>& outputs) {
    const auto& reduce = *op->body[0].as<tir::Reduce>();
    const tir::CommReducer& combiner = reduce.combiner;
    bool nothing = false;
    for (const tir::IterVar& axis : op->reduce_axis)
      nothing = nothing || tir::is_zero(size(axis->dom->extent));
    if (nothing) {
      add_identity(op, reduce, outputs);
      return;
    }
    Nest n = nest_of(op);
    Array<PrimExpr> indices = spatial_indices(op, n);
    tir::VarMap values;
    Array<Stmt> init;
    std::vector<Buffer> targets(outputs.size());
    // A compute may keep only some values of a tuple reduction; the others live in a buffer of their own.
    std::vector<Buffer> accumulators(reduce.source.size());
    for (size_t i = 0; i < outputs.size(); ++i)
      accumulators[size_t(op->body[i].as<tir::Reduce>()->value_index)] = buffer_of(outputs[i]);
    for (size_t i = 0; i < accumulators.size(); ++i) {
      if (!accumulators[i]) {
        accumulators[i] = tir::buffer(names_.fresh(op->name), sizes(op->shape), reduce.source[i].dtype());
        allocs_.push_back(accumulators[i]);
      }
      PrimExpr source = lower(reduce.source[i], n.vars), identity = combiner->identity[i];
      if (reduce.condition) source = tir::if_then_else(lower(reduce.condition, n.vars), source, identity);
      values.emplace(combiner->lhs[i].get(), tir::load(accumulators[i], indices));
      values.emplace(combiner->rhs[i].get(), source);
      PrimExpr start = reduce.init.empty() ? identity : lower(reduce.init[i], n.vars);
      init.push_back(tir::store(accumulators[i], start, indices));
    }
    Stmt body;
    if (accumulators.size() == 1) {
      body = tir::store(accumulators[0], tir::substitute(combiner->result[0], values), indices);
    } else {
      // All new values are computed before the first is stored.
      std::vector<tir::VarRef> lets;
      Array<Stmt> stores;
      for (size_t i = 0; i < accumulators.size(); ++i) {
        lets.push_back(tir::var("v_" + accumulators[i]->name, accumulators[i]->dtype));
        stores.push_back(tir::store(accumulators[i], lets[i], indices));
      }
      body = tir::seq(stores);
      for (size_t i = lets.size(); i-- > 0;)
        body = make<tir::LetStmt>(lets[i], tir::substitute(combiner->result[i], values), body);
    }
    emit(n, make_block(op, n, body, tir::seq(init)));
  }

  /// A reduction over no elements: its loops would never run, so the start value is the whole block.
  void add_identity(const Operation& op, const tir::Reduce& reduce, const std::vector<Tensor>& outputs) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      const auto k = size_t(op->body[i].as<tir::Reduce>()->value_index);
      Nest n = nest_of(op, false);
      PrimExpr start = reduce.init.empty() ? reduce.combiner->identity[k] : lower(reduce.init[k], n.vars);
      Stmt body = tir::store(buffer_of(outputs[i]), start, spatial_indices(op, n));
      emit(n, make_block(op, n, body, Stmt()));
    }
  }

  static BufferRegion whole(const Buffer& b) {
    Array<tir::Range> region;
    for (const PrimExpr& d : b->shape) region.push_back(tir::range(PrimExpr(0), d));
    return make<tir::BufferRegionNode>(b, region);
  }

  void add_external(const Operation& op) {
    if (auto packed = op->attrs.find("packed"))
      fail("T0348",
           fmt::format("'{}' calls the function '{}', which no tensor program can", op->name,
                       packed->as<std::string>()),
           {}, "te::build puts such calls between programs");
    tir::BufferMap map;
    Array<BufferRegion> reads, writes;
    for (size_t i = 0; i < op->inputs.size(); ++i) {
      Buffer b = buffer_of(op->inputs[i]);
      map.emplace(op->input_buffers[i].get(), b);
      reads.push_back(whole(b));
    }
    std::vector<Tensor> outputs = op->outputs();
    for (size_t i = 0; i < outputs.size(); ++i) {
      Buffer b = buffer_of(outputs[i]);
      map.emplace(op->output_buffers[i].get(), b);
      writes.push_back(whole(b));
    }
    // One operation may be built into several functions: every definition inside is made new.
    Stmt body = tir::replace_buffers(tir::rename_definitions(op->statement), map);
    tir::VarMap vars;
    for (const tir::VarRef& v : tir::free_vars(body))
      if (!v->dtype.is_handle() && !is_symbol_of_function(v)) vars.emplace(v.get(), symbol(v));
    body = tir::substitute(body, vars);
    auto block = make<tir::Block>(Array<tir::IterVar>(), reads, writes, block_name(op, op->name), body,
                                  Stmt(), Array<Buffer>(), Array<tir::MatchBufferRegion>(), op->attrs);
    stages_.push_back(make<tir::BlockRealize>(Array<PrimExpr>(), tir::true_(), block));
  }

  /// Every symbolic size must come from somewhere: a shape that names it alone, or a scalar parameter.
  void check_symbols(const tir::PrimFunc& f) {
    std::set<const Object*> known;
    for (const tir::VarRef& p : f->params) {
      known.insert(p.get());
      auto b = f->buffer_map.find(p);
      if (!b) continue;
      for (const PrimExpr& d : (*b)->shape)
        if (d.is<tir::Var>()) known.insert(d.get());
    }
    for (const tir::VarRef& s : symbol_order_)
      if (!known.count(s.get()))
        fail("T0342", fmt::format("the size '{}' is not a dimension of any parameter", s->name), {},
             "list it in `symbolic`, to pass it as a scalar");
  }

  const std::set<Key> given_;
  Names names_, block_names_;
  std::map<Key, Tensor> home_;  ///< tensors that live in the result of a scan
  std::map<const OperationNode*, std::vector<Operation>>
      steps_;  ///< of a scan: what runs in a step, in order
  std::map<const OperationNode*, Operation> step_of_;
  std::pair<tir::VarRef, tir::Range> step_;  ///< while a step is built: the scan's loop
  std::vector<std::pair<Operation, std::string>> blocks_;
  tir::VarMap symbols_;
  std::vector<tir::VarRef> symbol_order_;
  std::map<Key, Buffer> buffers_;
  Array<Buffer> allocs_;
  Array<Stmt> stages_;
  Array<tir::VarRef> params_;
  Map<tir::VarRef, Buffer> buffer_map_;
  int64_t outputs_ = 0;
};

}  // namespace

tir::PrimFunc create_prim_func(Array<Tensor> args, Array<tir::VarRef> symbolic) {
  return create_program(args, symbolic).function;
}
Program create_program(const Array<Tensor>& args, const Array<tir::VarRef>& symbolic) {
  return Builder().build(args, symbolic);
}

Program create_program(const Array<Tensor>& inputs, const Array<Tensor>& outputs,
                       const Array<tir::VarRef>& symbolic) {
  std::set<Key> given;
  Array<Tensor> args;
  for (const Tensor& t : inputs) given.insert(key(t)), args.push_back(t);
  for (const Tensor& t : outputs) args.push_back(t);
  return Builder(given).build(args, symbolic);
}

std::vector<Tensor> external_packed(Array<Array<PrimExpr>> shapes, std::vector<DataType> dtypes,
                                    Array<Tensor> inputs, const std::string& function, std::string name) {
  auto nothing = [](const Array<Buffer>&, const Array<Buffer>&) { return tir::seq({}); };
  return external(std::move(shapes), std::move(dtypes), std::move(inputs), nothing, std::move(name),
                  {{"packed", Any(function)}});
}

}  // namespace tenon::te
