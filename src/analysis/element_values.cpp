// SPDX-License-Identifier: Apache-2.0
// How it is proved. Each buffer is stored to in one place (or filled and then added to), so that an element
// has one value, however often it is computed: the stored expression, whose iterators are told by the
// element's place. What a load sees is that value when, at the same iterations of the loops around both, the
// store has run for this place before, and with every value of its other iterators exactly once where it adds
// up: their loops as functions of the load's place are written down (`IterMap::invert`) and proved to lie
// inside of the loops.
#include "analysis/element_values.h"

#include <algorithm>
#include <map>
#include <set>

#include "analysis/iter_map.h"
#include "analysis/program_writes.h"
#include "analysis/value_form.h"
#include "ir/find_node.h"
#include "ir/program_results.h"
#include "ir/structural.h"

namespace tenon {

using namespace tir;

namespace {

using Loops = std::vector<ProgramLoop>;

struct Definition {
  const ProgramWrite* write = nullptr;  ///< the last one
  const ProgramWrite* fill = nullptr;   ///< in front of one that adds up without an init of its own
  std::optional<Combine> op;            ///< adds up
  PrimExpr step;                        ///< what is added, over iterators
  std::vector<bool> spatial;            ///< of its iterators: the element's place tells them
  std::vector<VarRef> at;
  PrimExpr value;  ///< over `at` and the inputs
};

/// A load: where it stands, what holds there, what it reads.
struct Reader {
  Loops loops;
  Array<PrimExpr> conditions;
  Array<PrimExpr> at;  ///< over loops
};

bool stands_in(const VarRef& v, const Array<PrimExpr>& values) {
  for (const PrimExpr& e : values)
    for (const VarRef& u : free_vars(e))
      if (u.same_as(v)) return true;
  return false;
}
bool stands_in(const VarRef& v, const PrimExpr& e) { return stands_in(v, Array<PrimExpr>{e}); }

/// Digits of one number are put together again before the two are taken from each other.
bool equal(const PrimExpr& a, const PrimExpr& b, Analyzer& analyzer) {
  return analyzer.can_prove_equal(analyzer.simplify(a), analyzer.simplify(b));
}

bool in_order(ForKind kind) { return kind == ForKind::serial || kind == ForKind::unrolled; }

class Program {
 public:
  Program(const PrimFunc& f, const std::vector<VarRef>& sizes, size_t results) : sizes_(sizes) {
    std::vector<Buffer> tensors;
    for (const VarRef& p : f->params)
      if (const auto b = f->buffer_map.find(p)) tensors.push_back(*b);
    results = std::min(results, tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i)
      i + results < tensors.size() ? (void)inputs_.insert(tensors[i].get()) : results_.push_back(tensors[i]);
  }

  /// Every load of every store is proved to see the value of what it reads.
  bool define(const Stmt& body) {
    auto writes = program_writes(body);
    if (!writes) return false;
    writes_ = std::move(*writes);
    for (size_t i = 0; i < writes_.size(); ++i)
      if (!enter(i)) return false;
    for (const ProgramWrite* w : order_) {
      if (!loads_are_known(*w) || !close(definitions_.at(w->buffer.get()))) return false;
    }
    for (const Buffer& b : results_)
      if (!whole(b)) return false;
    return true;
  }
  const Definition& result(size_t i) const { return definitions_.at(results_[i].get()); }
  const std::vector<Buffer>& results() const { return results_; }

 private:
  void know_sizes(Analyzer& analyzer) const {
    for (const VarRef& s : sizes_) analyzer.assume_size(s);
  }

  // ------------------------------------------------------------ what a store does
  /// One more store: the first of its buffer, or the one that adds up behind it.
  bool enter(size_t place) {
    const ProgramWrite& w = writes_[place];
    if (inputs_.count(w.buffer.get())) return false;
    Definition& d = definitions_[w.buffer.get()];
    if (d.op) return false;
    const bool second = d.write != nullptr;
    if (second) d.fill = d.write;
    d.write = &w;
    d.spatial = spatial_of(w);
    if (!adds_up(w, d)) return false;
    if (second != (d.op && !w.init) || (!d.op && w.init)) return false;
    if (d.op && !(steps_in_order(d) && (d.fill ? refilled(d) : starts_once(d)))) return false;
    if (second) std::erase(order_, d.fill);
    order_.push_back(&w);
    return true;
  }
  static std::vector<bool> spatial_of(const ProgramWrite& w) {
    std::vector<bool> out;
    for (const WriteIter& i : w.iters) out.push_back(stands_in(i.var, w.at));
    return out;
  }
  /// `b[at] = b[at] + step`, or a value without b.
  static bool adds_up(const ProgramWrite& w, Definition& d) {
    const auto reads = [&](const PrimExpr& e) {
      return any_node(e, [&](const ObjectRef& o) {
        const auto* l = o.as<BufferLoad>();
        return l && l->buffer.same_as(w.buffer);
      });
    };
    if (!reads(w.value)) return true;
    const auto c = combination_of(w.value);
    if (!c) return false;
    const bool left = reads(c->a);
    const auto* l = (left ? c->a : c->b).as<BufferLoad>();
    d.op = c->op, d.step = left ? c->b : c->a;
    if (!l || reads(d.step)) return false;
    for (size_t k = 0; k < w.at.size(); ++k)
      if (!structural_equal(l->indices[k], w.at[k], false)) return false;
    return true;
  }

  /// Steps run one after the other, each inside of its iterators' domains, in loops of their own.
  bool steps_in_order(const Definition& d) const {
    const ProgramWrite& w = *d.write;
    Analyzer analyzer;
    know_sizes(analyzer);
    for (const ProgramLoop& l : w.loops) analyzer.bind(l.var, range(l.min, l.extent), true);
    std::vector<Analyzer::Scope> held;
    for (const PrimExpr& c : w.conditions) held.push_back(analyzer.assume(c));
    for (size_t i = 0; i < w.iters.size(); ++i) {
      const WriteIter& v = w.iters[i];
      if (d.spatial[i]) continue;
      if (!analyzer.can_prove(ge(v.binding, v.min)) || !analyzer.can_prove(lt(v.binding, v.min + v.extent)))
        return false;
      for (const ProgramLoop& l : w.loops)
        if (!in_order(l.kind) && stands_in(l.var, v.binding)) return false;
    }
    return true;
  }
  /// The block's init runs in front of the other steps of an element: at the first value of every loop that
  /// the element's place does not tell.
  bool starts_once(const Definition& d) const {
    const ProgramWrite& w = *d.write;
    for (size_t i = 0; i < w.iters.size(); ++i)
      if (w.iters[i].reduces == d.spatial[i]) return false;
    VarMap first;
    for (const ProgramLoop& l : w.loops) {
      bool places = false, steps = false;
      for (size_t i = 0; i < w.iters.size(); ++i)
        if (stands_in(l.var, w.iters[i].binding)) (d.spatial[i] ? places : steps) = true;
      if (places && steps && !is_one(l.extent)) return false;
      if (steps) first[l.var.get()] = l.min;
    }
    Analyzer analyzer;
    know_sizes(analyzer);
    for (size_t i = 0; i < w.iters.size(); ++i)
      if (!d.spatial[i] && !equal(substitute(w.iters[i].binding, first), w.iters[i].min, analyzer))
        return false;
    return true;
  }
  /// What is filled at some iterations of the loops around both is added to at the same ones, and all of it.
  bool refilled(Definition& d) {
    Definition fill;
    fill.write = d.fill, fill.spatial = spatial_of(*d.fill);
    return seen_by(fill, reader_of(*d.write, d.write->at)) && seen_by(d, reader_of(*d.fill, d.fill->at));
  }

  // ------------------------------------------------------------ what a load sees
  static Reader reader_of(const ProgramWrite& w, const Array<PrimExpr>& at) {
    Reader r{w.loops, w.conditions, {}};
    for (const PrimExpr& i : at) r.at.push_back(over_loops(w, i));
    return r;
  }
  bool loads_are_known(const ProgramWrite& w) const {
    const Definition& d = definitions_.at(w.buffer.get());
    if (d.fill && !loads_in(d.fill->value, *d.fill, {})) return false;
    if (w.init && !loads_in(w.init, w, {})) return false;
    return loads_in(d.op ? d.step : w.value, w, {});
  }
  bool loads_in(const PrimExpr& e, const ProgramWrite& w, const Array<PrimExpr>& under) const {
    if (const auto* c = e.as<Call>(); c && c->op == "tir.if_then_else") {
      const PrimExpr condition = over_loops(w, c->args[0]);
      Array<PrimExpr> yes = under, no = under;
      yes.push_back(condition), no.push_back(logical_not(condition));
      return loads_in(c->args[0], w, under) && loads_in(c->args[1], w, yes) && loads_in(c->args[2], w, no);
    }
    if (const auto* l = e.as<BufferLoad>(); l && !inputs_.count(l->buffer.get())) {
      const auto it = definitions_.find(l->buffer.get());
      // `writes_` are in the order of the text.
      if (it == definitions_.end() || it->second.write >= &w || !it->second.value) return false;
      if (l->dtype.is_float() && l->dtype.bits < f32.bits) return false;  // the store rounds
      Reader reader = reader_of(w, l->indices);
      for (const PrimExpr& c : under) reader.conditions.push_back(c);
      if (!seen_by(it->second, reader)) return false;
    }
    for (const ObjectRef& part : children(e))
      if (const auto p = part.cast<PrimExprNode>(); p && !loads_in(PrimExpr(p), w, under)) return false;
    return true;
  }

  /// The iterators of a definition's store that `at` tells, in order; null where it cannot tell them.
  std::optional<std::vector<PrimExpr>> told(const Definition& d, const Array<PrimExpr>& at,
                                            Analyzer& analyzer) const {
    IterMap map(analyzer);
    size_t n = 0;
    for (size_t i = 0; i < d.spatial.size(); ++i)
      if (d.spatial[i]) map.add(d.write->iters[i].var, d.write->iters[i].min, d.write->iters[i].extent), ++n;
    std::vector<PrimExpr> out(d.spatial.size());
    if (!n) return out;
    const auto values = map.invert(d.write->at, at);
    if (!values) return std::nullopt;
    for (size_t i = 0, k = 0; i < out.size(); ++i)
      if (d.spatial[i]) out[i] = (*values)[k++];
    return out;
  }

  /// At the reader's iteration of the loops around both, the store has run for the place with each value of
  /// its other iterators, once.
  bool seen_by(const Definition& d, const Reader& reader) const {
    const ProgramWrite& w = *d.write;
    Analyzer analyzer;
    know_sizes(analyzer);
    for (const ProgramLoop& l : reader.loops) analyzer.bind(l.var, range(l.min, l.extent), true);
    std::vector<Analyzer::Scope> held;
    for (const PrimExpr& c : reader.conditions) held.push_back(analyzer.assume(c));
    size_t shared = 0;
    while (shared < std::min(w.loops.size(), reader.loops.size()) &&
           w.loops[shared].id == reader.loops[shared].id)
      ++shared;
    const auto targets = told(d, reader.at, analyzer);
    if (!targets) return false;
    VarMap at_place;
    Array<PrimExpr> bindings, wanted;
    for (size_t i = 0; i < w.iters.size(); ++i) {
      const WriteIter& v = w.iters[i];
      PrimExpr target = (*targets)[i];
      if (!target) {
        const VarRef any = var("step");
        analyzer.bind(any, range(v.min, v.extent), true);
        target = any;
      }
      at_place[v.var.get()] = target;
      bindings.push_back(v.binding), wanted.push_back(target);
    }
    for (size_t k = 0; k < w.at.size(); ++k)
      if (!equal(substitute(w.at[k], at_place), reader.at[k], analyzer)) return false;
    return runs_at(w, shared, bindings, wanted, analyzer);
  }
  /// Some iteration of the store's own loops, and one only, gives its iterators these values.
  static bool runs_at(const ProgramWrite& w, size_t shared, const Array<PrimExpr>& bindings,
                      const Array<PrimExpr>& wanted, Analyzer& analyzer) {
    IterMap map(analyzer);
    for (size_t l = shared; l < w.loops.size(); ++l)
      map.add(w.loops[l].var, w.loops[l].min, w.loops[l].extent);
    VarMap iteration;
    if (shared < w.loops.size()) {
      const auto loops = map.invert(bindings, wanted);
      if (!loops) return false;
      for (size_t l = shared; l < w.loops.size(); ++l) iteration[w.loops[l].var.get()] = (*loops)[l - shared];
    }
    for (size_t l = shared; l < w.loops.size(); ++l) {
      const PrimExpr at = iteration.at(w.loops[l].var.get());
      const PrimExpr min = substitute(w.loops[l].min, iteration),
                     extent = substitute(w.loops[l].extent, iteration);
      if (!analyzer.can_prove(ge(at, min)) || !analyzer.can_prove(lt(at, min + extent))) return false;
    }
    for (size_t i = 0; i < bindings.size(); ++i)
      if (!equal(substitute(bindings[i], iteration), wanted[i], analyzer)) return false;
    for (const PrimExpr& c : w.conditions)
      if (!analyzer.can_prove(substitute(c, iteration))) return false;
    return true;
  }
  /// Every element of a result has its value at the end.
  bool whole(const Buffer& b) const {
    const auto it = definitions_.find(b.get());
    if (it == definitions_.end()) return false;
    Reader reader;
    for (const PrimExpr& extent : b->shape) {
      const VarRef v = var("x");
      reader.loops.push_back({-1, v, PrimExpr(0), extent, ForKind::serial});
      reader.at.push_back(v);
    }
    return seen_by(it->second, reader);
  }

  // ------------------------------------------------------------ values
  /// The value of an element over its place and the inputs alone.
  bool close(Definition& d) const {
    Analyzer analyzer;
    know_sizes(analyzer);
    Array<PrimExpr> at;
    for (const PrimExpr& extent : d.write->buffer->shape) {
      d.at.push_back(var("x" + std::to_string(d.at.size())));
      at.push_back(d.at.back());
      analyzer.bind(d.at.back(), range(PrimExpr(0), extent), true);
    }
    const auto places = told(d, at, analyzer);
    if (!places) return false;
    VarMap names;
    Array<IterVar> axes;
    for (size_t i = 0; i < places->size(); ++i) {
      const WriteIter& v = d.write->iters[i];
      if ((*places)[i]) {
        names[v.var.get()] = (*places)[i];
        continue;
      }
      const IterVar axis = iter_var(range(v.min, v.extent), v.var->name, IterKind::reduce);
      names[v.var.get()] = axis->var;
      analyzer.bind(axis->var, axis->dom, true);
      axes.push_back(axis);
    }
    const PrimExpr value = substitute(inlined(d.op ? d.step : d.write->value), names);
    if (!d.op) {
      d.value = analyzer.simplify(value);
      for (const IterVar& a : axes)  // its place does not tell the value
        if (stands_in(a->var, d.value)) return false;
    } else {
      const PrimExpr init = d.fill ? filled(d, at, analyzer) : substitute(inlined(d.write->init), names);
      if (!init) return false;
      for (const IterVar& a : axes)
        if (stands_in(a->var, init)) return false;
      d.value = reduction(*d.op, init, value, axes);
    }
    return nodes_of(d.value) <= kMostNodes;
  }
  PrimExpr filled(const Definition& d, const Array<PrimExpr>& at, Analyzer& analyzer) const {
    Definition fill;
    fill.write = d.fill, fill.spatial = spatial_of(*d.fill);
    const auto places = told(fill, at, analyzer);
    if (!places) return {};
    VarMap names;
    for (size_t i = 0; i < places->size(); ++i)
      if ((*places)[i])
        names[d.fill->iters[i].var.get()] = (*places)[i];
      else if (stands_in(d.fill->iters[i].var, d.fill->value))
        return {};
    return substitute(inlined(d.fill->value), names);
  }
  /// Loads of what the program computes replaced by values.
  PrimExpr inlined(const PrimExpr& e) const {
    return rewrite(e, [&](const BufferLoad& l) -> PrimExpr {
      const auto it = definitions_.find(l.buffer.get());
      if (it == definitions_.end()) return {};
      VarMap names;
      for (size_t k = 0; k < l.indices.size(); ++k) names[it->second.at[k].get()] = l.indices[k];
      return substitute(it->second.value, names);
    });
  }

  std::vector<VarRef> sizes_;
  std::set<const BufferNode*> inputs_;
  std::vector<Buffer> results_;
  std::vector<ProgramWrite> writes_;
  std::vector<const ProgramWrite*> order_;  ///< those that make values whole
  std::map<const BufferNode*, Definition> definitions_;
};

/// Loads by the number of what they read: two buffers of one shape are of one structure.
PrimExpr by_number(const PrimExpr& e, const PrimFunc& f) {
  std::map<const BufferNode*, PrimExpr> numbers;
  for (size_t i = 0; i < f->params.size(); ++i)
    if (const auto b = f->buffer_map.find(f->params[i])) numbers[(*b).get()] = PrimExpr(int64_t(i));
  return rewrite(e, [&](const BufferLoad& l) -> PrimExpr {
    Array<PrimExpr> args{numbers.at(l.buffer.get())};
    for (const PrimExpr& i : l.indices) args.push_back(i);
    return call(l.dtype, "load", args);
  });
}

/// The body of `f` over the parameters of `as`, which has the same signature.
Stmt body_over_params(const PrimFunc& f, const PrimFunc& as) {
  VarMap names;
  BufferMap buffers;
  const auto pair = [&](const PrimExpr& from, const PrimExpr& to) {
    if (const auto* v = from.as<Var>()) names[v] = to;
  };
  for (size_t i = 0; i < f->params.size(); ++i) {
    pair(f->params[i], as->params[i]);
    const auto from = f->buffer_map.find(f->params[i]), to = as->buffer_map.find(as->params[i]);
    if (!from || !to) continue;
    buffers[(*from).get()] = *to;
    for (size_t d = 0; d < (*from)->shape.size(); ++d) pair((*from)->shape[d], (*to)->shape[d]);
  }
  return substitute(replace_buffers(f->body, buffers), names);
}

}  // namespace

bool same_element_values(const PrimFunc& a, const PrimFunc& b) {
  std::vector<VarRef> sizes;
  for (const VarRef& p : a->params) {
    const auto tensor = a->buffer_map.find(p);
    for (const PrimExpr& d : tensor ? (*tensor)->shape : Array<PrimExpr>())
      for (const VarRef& v : free_vars(d)) sizes.push_back(v);
  }
  const auto results = size_t(num_outputs(a));
  Program first(a, sizes, results), second(a, sizes, results);
  if (!first.define(a->body) || !second.define(body_over_params(b, a))) return false;
  Analyzer analyzer;
  for (const VarRef& s : sizes) analyzer.assume_size(s);
  ValueForms forms(analyzer);
  for (size_t i = 0; i < first.results().size(); ++i) {
    const Definition &x = first.result(i), &y = second.result(i);
    VarMap names;
    for (size_t d = 0; d < x.at.size(); ++d) {
      names[y.at[d].get()] = x.at[d];
      analyzer.bind(x.at[d], range(PrimExpr(0), first.results()[i]->shape[d]), true);
    }
    const PrimExpr one = forms.of(x.value), other = forms.of(substitute(y.value, names));
    if (!structural_equal(by_number(one, a), by_number(other, a))) return false;
  }
  return true;
}

}  // namespace tenon
