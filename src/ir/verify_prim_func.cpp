// SPDX-License-Identifier: Apache-2.0
// The verifier of tensor programs. Every problem is collected, with the function and the innermost named
// block it was met in.
#include "ir/verify.h"

#include <fmt/format.h>

#include <unordered_set>

#include "ir/intrinsic_table.h"
#include "ir/memory_plan.h"
#include "ir/memory_scope.h"
#include "ir/scalable.h"
#include "ir/text.h"
#include "ir/tir.h"
#include "ir/verify_impl.h"
#include "ir/walk.h"

namespace tenon {

namespace {
using namespace tir;

class PrimFuncVerifier {
 public:
  PrimFuncVerifier(const std::string& name, DiagnosticList& problems) : name_(name), problems_(problems) {}

  void run(const PrimFunc& f) {
    if (!f->body) return add("T0315", "the function has no body");
    if (const int n = nesting_of(f->body); n > kMaxNesting)
      return add("T0310", fmt::format("statements and expressions are nested {} deep; the limit is {}", n,
                                      kMaxNesting));
    for (const VarRef& p : f->params) {
      if (!p) {
        add("T0315", "a parameter is null");
        continue;
      }
      define(p);
    }
    for (auto [p, b] : f->buffer_map) {
      bool found = false;
      for (const VarRef& q : f->params) found = found || q.get() == p.get();
      if (!found)
        add("T0312", fmt::format("buffer `{}` belongs to `{}`, which is no parameter", b->name, p->name));
      if (!p->dtype.is_handle())
        add("T0312",
            fmt::format("buffer parameter `{}` has type {}, not handle", p->name, to_string(p->dtype)));
      define_symbolic(b);
    }
    std::unordered_map<const Var*, std::string> owners;
    for (auto [p, b] : f->buffer_map) {
      if (b && b->data)
        if (const auto [owner, alone] = owners.emplace(b->data.get(), b->name); !alone)
          add("T0312", fmt::format("buffers `{}` and `{}` of two parameters have one pointer", owner->second,
                                   b->name));
      define_buffer(b, true);
    }
    function_vars_ = vars_;
    stmt(f->body);
  }

 private:
  void add(std::string code, std::string message, std::string hint = {}) {
    std::string where = "function `" + name_ + "`";
    if (!blocks_.empty()) where += ", block `" + blocks_.back() + "`";
    problems_.add(Diagnostic{std::move(code), std::move(message), std::move(where), std::move(hint), {}});
  }
  void define(const VarRef& v) {
    if (!v) return add("T0315", "a definition has no variable");
    if (!ever_.insert(v.get()).second) add("T0311", fmt::format("variable `{}` is defined twice", v->name));
    vars_.insert(v.get());
  }
  /// Variables that stand alone in a shape, stride or offset of a parameter are defined by it.
  void define_symbolic(const Buffer& b) {
    auto one = [&](const PrimExpr& e) {
      const auto* v = e.as<Var>();
      if (v && v->dtype.is_integer()) {
        ever_.insert(v);
        vars_.insert(v);
      }
    };
    for (const PrimExpr& e : b->shape) one(e);
    for (const PrimExpr& e : b->strides) one(e);
    if (b->elem_offset) one(b->elem_offset);
  }
  void define_buffer(const Buffer& b, bool alias_allowed = false) {
    if (!b || !b->data) return add("T0315", "a buffer, or its pointer, is null");
    if (!ever_.insert(b.get()).second) add("T0312", fmt::format("buffer `{}` is defined twice", b->name));
    buffers_.insert(b.get());
    if (!vars_.count(b->data.get())) {
      if (!ever_.insert(b->data.get()).second)
        add("T0311", fmt::format("pointer `{}` is defined twice", b->data->name));
      vars_.insert(b->data.get());
    } else if (!alias_allowed) {
      add("T0311", fmt::format("the pointer of buffer `{}` is defined already", b->name));
    }
    buffer_parts(b);
  }
  void buffer_parts(const Buffer& b) {
    for (const PrimExpr& e : b->shape) integer(e, "a dimension of buffer `" + b->name + "`");
    for (const PrimExpr& e : b->strides) integer(e, "a stride of buffer `" + b->name + "`");
    if (!b->strides.empty() && b->strides.size() != b->shape.size())
      add("T0305", fmt::format("buffer `{}` has {} dimensions and {} strides", b->name, b->shape.size(),
                               b->strides.size()));
    if (b->elem_offset) integer(b->elem_offset, "the offset of buffer `" + b->name + "`");
    if (b->dtype.is_void()) add("T0307", fmt::format("buffer `{}` has no data type", b->name));
    if (is_scalable(b->dtype))
      add("T0307",
          fmt::format("buffer `{}` holds {}, whose size is not known", b->name, to_string(b->dtype)));
    if (!known_memory_scope(b->scope))
      add("T0320", fmt::format("buffer `{}` lies in \"{}\", which is no memory", b->name, b->scope),
          known_memories());
    if (graph::beyond_memory(b->shape, b->dtype))
      add("T0401", fmt::format("buffer `{}` takes more than 2^62 bytes, or a size is below 0", b->name));
    int64_t last = 0;
    for (int64_t a : b->axis_separators) {
      if (a <= last || a >= int64_t(b->shape.size()))
        add("T0305", fmt::format("buffer `{}` of {} dimensions has an axis separator at {}", b->name,
                                 b->shape.size(), a));
      last = a;
    }
  }
  void use_buffer(const Buffer& b, size_t indices) {
    if (!b) return add("T0315", "an access has no buffer");
    if (!buffers_.count(b.get()))
      add("T0304", fmt::format("buffer `{}` is used before it is defined", b->name));
    if (indices != b->shape.size())
      add("T0305", fmt::format("buffer `{}` has {} dimensions and is indexed with {}", b->name,
                               b->shape.size(), indices));
  }
  void integer(const PrimExpr& e, const std::string& what) {
    expr(e);
    if (e && (!e.dtype().is_integer() || e.dtype().is_vector()))
      add("T0306", fmt::format("{} has type {}, not an integer", what, to_string(e.dtype())));
  }
  void condition(const PrimExpr& e, std::string_view what) {
    expr(e);
    if (e && e.dtype() != boolean)
      add("T0302", fmt::format("{} has type {}, not bool", what, to_string(e.dtype())));
  }
  int index_lanes(const Array<PrimExpr>& indices) {
    int lanes = 1;
    for (const PrimExpr& i : indices)
      if (i) lanes = std::max<int>(lanes, i.dtype().lanes);
    return lanes;
  }
  void access(const Buffer& b, const Array<PrimExpr>& indices, const PrimExpr& predicate) {
    use_buffer(b, indices.size());
    if (!b) return;
    for (const PrimExpr& i : indices) {
      expr_below(i);
      if (i && !i.dtype().is_integer())
        add("T0306", fmt::format("an index of buffer `{}` has type {}, not an integer", b->name,
                                 to_string(i.dtype())));
      if (i && i.dtype().is_vector() && i.dtype().lanes != index_lanes(indices))
        add("T0308", fmt::format("indices of buffer `{}` have different numbers of lanes", b->name));
    }
    if (!predicate) return;
    expr_below(predicate);
    if (!predicate.dtype().is_bool() || predicate.dtype().lanes != index_lanes(indices) * b->dtype.lanes)
      add("T0308", fmt::format("the predicate of an access to `{}` has type {}, and {} lanes are accessed",
                               b->name, to_string(predicate.dtype()), index_lanes(indices) * b->dtype.lanes));
  }

  void reduction(const Reduce& n) {
    if (!n.combiner) return add("T0315", "a Reduce has no combiner");
    const CommReducerNode& c = *n.combiner;
    const size_t count = c.result.size();
    if (count == 0 || c.lhs.size() != count || c.rhs.size() != count || c.identity.size() != count ||
        n.source.size() != count || (!n.init.empty() && n.init.size() != count) || n.value_index < 0 ||
        size_t(n.value_index) >= count)
      return add("T0316",
                 fmt::format("a Reduce of {} values has {} sources, {} identities and takes value {}", count,
                             n.source.size(), c.identity.size(), n.value_index));
    std::vector<const Object*> defined;
    auto inside = [&](const VarRef& v) {
      if (v && vars_.insert(v.get()).second) defined.push_back(v.get());
    };
    for (const PrimExpr& e : c.identity) expr_below(e);
    for (const PrimExpr& e : n.init) expr_below(e);
    for (size_t i = 0; i < count; ++i) {
      inside(c.lhs[i]);
      inside(c.rhs[i]);
    }
    for (const PrimExpr& e : c.result) expr_below(e);
    for (size_t i = 0; i < count; ++i)
      for (const PrimExpr& e :
           {c.result[i], c.identity[i], n.source[i], PrimExpr(c.lhs[i]), PrimExpr(c.rhs[i])})
        if (e && n.source[i] && e.dtype() != n.source[i].dtype())
          add("T0316", fmt::format("value {} of a Reduce has the types {} and {}", i, to_string(e.dtype()),
                                   to_string(n.source[i].dtype())));
    for (const IterVar& v : n.axis) {
      if (v->dom) {
        expr_below(v->dom->min);
        expr_below(v->dom->extent);
      } else {
        add("T0309", fmt::format("iterator `{}` has no domain", v->var->name));
      }
      inside(v->var);
    }
    for (const PrimExpr& e : n.source) expr_below(e);
    if (n.condition) {
      expr_below(n.condition);
      if (n.condition.dtype() != boolean)
        add("T0302",
            fmt::format("the condition of a Reduce has type {}, not bool", to_string(n.condition.dtype())));
    }
    for (const Object* v : defined) vars_.erase(v);
  }

  /// An element of a tensor without a buffer. Its shape holds over the whole function, so it may only use
  /// what the signature defines.
  void element(const DataProducer& p, const Array<PrimExpr>& indices) {
    if (!p) return add("T0315", "an access has no tensor");
    if (producers_.insert(p.get()).second) {
      if (p->dtype.is_void() || p->dtype.is_handle())
        add("T0307", fmt::format("tensor `{}` holds {}", p->name, to_string(p->dtype)));
      for (const PrimExpr& d : p->shape) {
        if (!d || !d.dtype().is_integer() || d.dtype().is_vector()) {
          add("T0306", fmt::format("a dimension of tensor `{}` is no integer", p->name));
          continue;
        }
        for (const VarRef& v : free_vars(d))
          if (!function_vars_.count(v.get()))
            add("T0303",
                fmt::format("the shape of tensor `{}` uses `{}`, which the signature does not define",
                            p->name, v->name));
      }
    }
    if (indices.size() != p->shape.size())
      add("T0305", fmt::format("tensor `{}` has {} dimensions and is indexed with {}", p->name,
                               p->shape.size(), indices.size()));
    for (const PrimExpr& i : indices) {
      expr_below(i);
      if (i && (!i.dtype().is_integer() || i.dtype().is_vector()))
        add("T0306", fmt::format("an index of tensor `{}` has type {}, not an integer", p->name,
                                 to_string(i.dtype())));
    }
  }

  // ---- expressions: a node shared inside one expression is looked at once
  void expr(const PrimExpr& e) {
    seen_.clear();
    expr_below(e);
  }
  void pair(const PrimExpr& a, const PrimExpr& b, std::string_view what) {
    expr_below(a);
    expr_below(b);
    if (a && b && a.dtype() != b.dtype())
      add("T0301", fmt::format("operands of {} have types {} and {}", what, to_string(a.dtype()),
                               to_string(b.dtype())));
  }
  void expr_below(const PrimExpr& e) {
    if (!e) return add("T0315", "an expression is null");
    if (const auto* v = e.as<Var>()) {
      if (!vars_.count(v)) add("T0303", fmt::format("variable `{}` is used before it is defined", v->name));
      return;
    }
    if (!seen_.insert(e.get()).second) return;
    match(
        static_cast<const Ref<PrimExprNode>&>(e), [&](const Add& n) { pair(n.a, n.b, "+"); },
        [&](const Sub& n) { pair(n.a, n.b, "-"); }, [&](const Mul& n) { pair(n.a, n.b, "*"); },
        [&](const Div& n) { pair(n.a, n.b, "/"); }, [&](const Mod& n) { pair(n.a, n.b, "truncmod"); },
        [&](const FloorDiv& n) { pair(n.a, n.b, "//"); }, [&](const FloorMod& n) { pair(n.a, n.b, "%"); },
        [&](const Min& n) { pair(n.a, n.b, "min"); }, [&](const Max& n) { pair(n.a, n.b, "max"); },
        [&](const EQ& n) { pair(n.a, n.b, "=="); }, [&](const NE& n) { pair(n.a, n.b, "!="); },
        [&](const LT& n) { pair(n.a, n.b, "<"); }, [&](const LE& n) { pair(n.a, n.b, "<="); },
        [&](const GT& n) { pair(n.a, n.b, ">"); }, [&](const GE& n) { pair(n.a, n.b, ">="); },
        [&](const And& n) { pair(n.a, n.b, "and"); }, [&](const Or& n) { pair(n.a, n.b, "or"); },
        [&](const BufferLoad& n) { access(n.buffer, n.indices, n.predicate); },
        [&](const Let& n) {
          expr_below(n.value);
          if (n.value && n.var->dtype != n.value.dtype())
            add("T0307", fmt::format("`{}` of type {} is given a value of type {}", n.var->name,
                                     to_string(n.var->dtype), to_string(n.value.dtype())));
          const bool outer = !vars_.insert(n.var.get()).second;
          expr_below(n.body);
          if (!outer) vars_.erase(n.var.get());
        },
        [&](const tir::Call& n) {
          if (const std::string problem = call_problem(n); !problem.empty())
            add("T0314", fmt::format("`{}` {}", n.op, problem));
          else if (std::string type = type_problem(*find_intrinsic(n.op), n); !type.empty())
            add("T0314", std::move(type));
          for (const PrimExpr& a : n.args) expr_below(a);
        },
        [&](const Cast& n) {
          expr_below(n.value);
          if (n.value && n.value.dtype().lanes != n.dtype.lanes)
            add("T0301", fmt::format("a cast of {} to {} changes the number of lanes",
                                     to_string(n.value.dtype()), to_string(n.dtype)));
        },
        [&](const Ramp& n) {
          pair(n.base, n.stride, "a ramp");
          lanes(n.lanes, n.base, "a ramp");
        },
        [&](const Broadcast& n) {
          expr_below(n.value);
          lanes(n.lanes, n.value, "a broadcast");
        },
        [&](const Shuffle& n) {
          int64_t count = 0;
          for (const PrimExpr& v : n.vectors) {
            expr_below(v);
            if (v) count += v.dtype().lanes;
            if (v && is_scalable(v.dtype()))
              add("T0308", fmt::format("a shuffle takes lanes of {}, which has no known number of them",
                                       to_string(v.dtype())));
            if (v && n.vectors[0] && v.dtype().element() != n.vectors[0].dtype().element())
              add("T0301", fmt::format("a shuffle takes vectors of {} and {}",
                                       to_string(n.vectors[0].dtype()), to_string(v.dtype())));
          }
          for (int64_t i : n.indices)
            if (i < 0 || i >= count)
              add("T0308", fmt::format("lane {} is taken from a shuffle of {} lanes", i, count));
        },
        [&](const Reduce& n) { reduction(n); },
        [&](const ProducerLoad& n) { element(n.producer, n.indices); },
        [&](const PrimExprNode& n) {
          for (const ObjectRef& c : children(ObjectRef(&n)))
            if (c.is<PrimExprNode>()) expr_below(typed(c));
        });
  }
  void lanes(int64_t n, const PrimExpr& of, std::string_view what) {
    if (n < -1024 || n == 0 || n > 32767 || (of && of.dtype().is_vector()))
      add("T0308", fmt::format("{} has {} lanes of {}", what, n, of ? to_string(of.dtype()) : "nothing"));
  }
  static PrimExpr typed(const ObjectRef& o) {
    PrimExpr e;
    static_cast<Ref<PrimExprNode>&>(e) = o.cast<PrimExprNode>();
    return e;
  }

  // ---- statements
  struct Scope {  // what a body sees is forgotten behind it
    Scope(PrimFuncVerifier& v, std::vector<const Object*> defined) : v(v), defined(std::move(defined)) {}
    ~Scope() {
      for (const Object* o : defined) {
        v.vars_.erase(o);
        v.buffers_.erase(o);
      }
    }
    PrimFuncVerifier& v;
    std::vector<const Object*> defined;
  };
  void domain(const PrimExpr& min, const PrimExpr& extent, const VarRef& v, std::string_view what) {
    expr(min);
    expr(extent);
    if (!v || !min || !extent) return;
    if (!v->dtype.is_integer() || v->dtype.is_vector() || min.dtype() != v->dtype ||
        extent.dtype() != v->dtype)
      add("T0309", fmt::format("{} `{}` of type {} runs from {} over {}", what, v->name, to_string(v->dtype),
                               to_string(min.dtype()), to_string(extent.dtype())));
  }
  void regions(const Array<BufferRegion>& list) {
    for (const BufferRegion& r : list) {
      use_buffer(r->buffer, r->region.size());
      for (const Range& x : r->region) {
        integer(x->min, "a region's start");
        integer(x->extent, "a region's extent");
      }
    }
  }
  void stmt(const Stmt& first) {
    Stmt s = first;
    std::vector<std::unique_ptr<Scope>> open;  // chains of LetStmt, Allocate, … stay in this frame
    while (s) {
      Stmt next;
      if (const auto* n = s.as<LetStmt>()) {
        expr(n->value);
        if (n->value && n->var->dtype != n->value.dtype())
          add("T0307", fmt::format("`{}` of type {} is given a value of type {}", n->var->name,
                                   to_string(n->var->dtype), to_string(n->value.dtype())));
        define(n->var);
        open.push_back(std::make_unique<Scope>(*this, std::vector<const Object*>{n->var.get()}));
        next = n->body;
      } else if (const auto* n = s.as<Allocate>()) {
        define_buffer(n->buffer);
        open.push_back(std::make_unique<Scope>(
            *this, std::vector<const Object*>{n->buffer.get(), n->buffer->data.get()}));
        next = n->body;
      } else if (const auto* n = s.as<AllocateConst>()) {
        if (!n->data) add("T0315", "a constant allocation has no data");
        define_buffer(n->buffer);
        open.push_back(std::make_unique<Scope>(
            *this, std::vector<const Object*>{n->buffer.get(), n->buffer->data.get()}));
        next = n->body;
      } else if (const auto* n = s.as<BufferRealize>()) {
        for (const Range& r : n->bounds) {
          integer(r->min, "a bound");
          integer(r->extent, "a bound");
        }
        condition(n->condition, "the condition of a realize");
        define_buffer(n->buffer);
        open.push_back(std::make_unique<Scope>(
            *this, std::vector<const Object*>{n->buffer.get(), n->buffer->data.get()}));
        next = n->body;
      } else if (const auto* n = s.as<DeclBuffer>()) {
        if (!vars_.count(n->buffer->data.get()))
          add("T0303", fmt::format("the pointer `{}` of buffer `{}` is used before it is defined",
                                   n->buffer->data->name, n->buffer->name));
        if (buffers_.insert(n->buffer.get()).second) {
          ever_.insert(n->buffer.get());
          buffer_parts(n->buffer);
          open.push_back(std::make_unique<Scope>(*this, std::vector<const Object*>{n->buffer.get()}));
        }
        next = n->body;
      } else if (const auto* n = s.as<AttrStmt>()) {
        if (const auto extent = n->value ? as_int(n->value) : std::nullopt;
            n->key == "thread_extent" && extent && *extent <= 0)
          add("T0309", fmt::format("{} threads are launched", *extent), "launch at least one");
        if (const auto* v = n->node.as<IterVarNode>(); v && !vars_.count(v->var.get())) {
          vars_.insert(v->var.get());
          open.push_back(std::make_unique<Scope>(*this, std::vector<const Object*>{v->var.get()}));
        }
        expr(n->value);
        next = n->body;
      } else {
        leaf(s);
        break;
      }
      if (!next) add("T0315", fmt::format("{} has no body", type_key_of(s)));
      s = next;
    }
    while (!open.empty()) open.pop_back();
  }
  void body(const Stmt& s, std::string_view what) {
    if (!s) return add("T0315", fmt::format("{} has no body", what));
    stmt(s);
  }
  void leaf(const Stmt& s) {
    match(
        s,
        [&](const SeqStmt& n) {
          for (const Stmt& x : n.seq) {
            if (!x)
              add("T0315", "a statement is null");
            else
              stmt(x);
          }
        },
        [&](const For& n) {
          domain(n.min, n.extent, n.loop_var, "loop");
          define(n.loop_var);
          Scope scope(*this, {n.loop_var.get()});
          body(n.body, "a loop");
        },
        [&](const tir::While& n) {
          condition(n.condition, "a while condition");
          body(n.body, "a while loop");
        },
        [&](const IfThenElse& n) {
          condition(n.condition, "an if condition");
          body(n.then_case, "an if");
          if (n.else_case) stmt(n.else_case);
        },
        [&](const BufferStore& n) {
          seen_.clear();
          access(n.buffer, n.indices, n.predicate);
          expr(n.value);
          if (!n.buffer || !n.value) return;
          const DataType wanted = n.buffer->dtype.with_lanes(n.buffer->dtype.lanes * index_lanes(n.indices));
          if (n.value.dtype() != wanted)
            add("T0307", fmt::format("a value of type {} is stored to buffer `{}` where {} is held",
                                     to_string(n.value.dtype()), n.buffer->name, to_string(wanted)));
        },
        [&](const Prefetch& n) {
          use_buffer(n.buffer, n.bounds.size());
          for (const Range& r : n.bounds) {
            integer(r->min, "a bound");
            integer(r->extent, "a bound");
          }
        },
        [&](const ProducerStore& n) {
          seen_.clear();
          element(n.producer, n.indices);
          expr(n.value);
          if (n.producer && n.value && n.value.dtype() != n.producer->dtype)
            add("T0307",
                fmt::format("a value of type {} is stored to tensor `{}` where {} is held",
                            to_string(n.value.dtype()), n.producer->name, to_string(n.producer->dtype)));
        },
        [&](const AssertStmt& n) { condition(n.condition, "an asserted condition"); },
        [&](const Evaluate& n) { expr(n.value); }, [&](const BlockRealize& n) { realize(n); },
        [&](const Block& n) { block(n); }, [&](const StmtNode&) {});
  }
  void realize(const BlockRealize& n) {
    if (!n.block) return add("T0315", "a block realization has no block");
    if (n.iter_values.size() != n.block->iter_vars.size())
      add("T0313", fmt::format("block `{}` has {} iterators and {} values for them", n.block->name,
                               n.block->iter_vars.size(), n.iter_values.size()));
    for (size_t i = 0; i < n.iter_values.size(); ++i) {
      expr(n.iter_values[i]);
      if (i < n.block->iter_vars.size() && n.iter_values[i] &&
          n.iter_values[i].dtype() != n.block->iter_vars[i]->var->dtype)
        add("T0313",
            fmt::format("iterator `{}` of type {} is given a value of type {}",
                        n.block->iter_vars[i]->var->name, to_string(n.block->iter_vars[i]->var->dtype),
                        to_string(n.iter_values[i].dtype())));
    }
    condition(n.predicate, "a block predicate");
    block(*n.block);
  }
  /// An init runs once for all values of the reduction's iterators.
  void init_of(const Block& b) {
    for (const VarRef& v : free_vars(b.init))
      for (const IterVar& i : b.iter_vars)
        if (i->kind == IterKind::reduce && i->var.get() == v.get())
          add("T0334",
              fmt::format("the init of block `{}` uses `{}`, an iterator of the reduction", b.name, v->name));
  }
  void block(const Block& b) {
    blocks_.push_back(b.name);
    std::vector<const Object*> defined;
    for (const IterVar& v : b.iter_vars) {
      if (!v->dom)
        add("T0309", fmt::format("iterator `{}` has no domain", v->var->name));
      else
        domain(v->dom->min, v->dom->extent, v->var, "iterator");
    }
    for (const IterVar& v : b.iter_vars) {
      define(v->var);
      defined.push_back(v->var.get());
    }
    for (const Buffer& a : b.alloc_buffers) {
      define_buffer(a);
      defined.insert(defined.end(), {a.get(), a->data.get()});
    }
    for (const MatchBufferRegion& m : b.match_buffers) {
      regions({m->source});
      const Buffer& from = m->source->buffer;
      if (from && m->buffer && m->buffer->shape.size() > from->shape.size())
        add("T0305", fmt::format("match_buffer `{}` has {} dimensions, its source `{}` {}", m->buffer->name,
                                 m->buffer->shape.size(), from->name, from->shape.size()));
      if (from && m->buffer && m->buffer->dtype != from->dtype)
        add("T0307", fmt::format("match_buffer `{}` holds {}, its source `{}` {}", m->buffer->name,
                                 to_string(m->buffer->dtype), from->name, to_string(from->dtype)));
      define_symbolic(m->buffer);
      define_buffer(m->buffer, true);
      defined.insert(defined.end(), {m->buffer.get(), m->buffer->data.get()});
    }
    Scope scope(*this, std::move(defined));
    regions(b.reads);
    regions(b.writes);
    if (b.init) stmt(b.init), init_of(b);
    body(b.body, "a block");
    blocks_.pop_back();
  }

  const std::string& name_;
  DiagnosticList& problems_;
  std::unordered_set<const Object*> vars_, buffers_, ever_, seen_, function_vars_, producers_;
  std::vector<std::string> blocks_;
};

}  // namespace

void verify_prim_func(const std::string& name, const tir::PrimFunc& f, DiagnosticList& problems, bool given) {
  const size_t before = problems.all().size();
  PrimFuncVerifier(name, problems).run(f);
  if (problems.all().size() != before) return;
  verify_jumps(name, f->body, problems);
  verify_loops(name, f->body, problems, given);
  if (given) verify_regions(name, f->body, problems);
}

}  // namespace tenon
