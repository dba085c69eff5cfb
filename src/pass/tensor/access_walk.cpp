// SPDX-License-Identifier: Apache-2.0
// The statements of a program around its accesses: what holds there, and how far checks may leave.
#include "pass/tensor/access_walk.h"

#include "analysis/races.h"
#include "ir/attr_keys.h"
#include "ir/find_node.h"
#include "ir/jumps.h"
#include "ir/origin.h"
#include "ir/scalable.h"

namespace tenon::tensor_detail {

using namespace tir;

namespace {

PrimExpr elements(const Array<PrimExpr>& shape) {
  PrimExpr n = imm(1);
  for (const PrimExpr& d : shape) n = n * cast(i64, d);
  return n;
}

PrimExpr bits_of(const Buffer& b) {
  return elements(b->shape) * imm(int64_t(b->dtype.bits) * b->dtype.lanes);
}

template <class T>
Stmt with_body(const Stmt& s, const Stmt& body) {
  return body.same_as(s.as<T>()->body) ? s : edited<T>(s, [&](T* m) { m->body = body; });
}

bool fixed_block(const BlockRealize& n) {
  return n.iter_values.empty() && (!n.predicate || is_one(n.predicate));
}

/// Schedules move and remove blocks: what is checked of such a program is what it says itself.
bool has_blocks(const Stmt& s) {
  return any_node(s, in_statements, [](const ObjectRef& n) {
    const auto* b = n.as<Block>();
    return b && !b->iter_vars.empty();
  });
}

}  // namespace

AccessWalk::AccessWalk(const PrimFunc& f, Proving proving, bool checks_assumptions, ProofReport& report,
                       DiagnosticList& problems)
    : function_(f),
      proving_(proving),
      checks_accesses_(proving == Proving::scheduled || has_blocks(f->body)),
      checks_assumptions_(checks_assumptions),
      report_(report),
      problems_(problems),
      analyzer_(given_up_, "guard_accesses"),
      inside_(analyzer_) {
  seen_.emplace_back();
  for (const auto& [p, b] : f->buffer_map) {
    for (const PrimExpr& d : b->shape)
      if (const auto* v = d.as<Var>()) analyzer_.assume_size(VarRef(Ref<Var>(v)), 0);
    bits_[b->data.get()] = bits_of(b);
  }
}

Stmt AccessWalk::run(const std::string& name) {
  place_ = fmt::format("function `{}`", name);
  PrimExpr sizes = true_();
  for (const auto& [p, b] : function_->buffer_map)
    for (const PrimExpr& d : b->shape)
      if (!d.is<Var>() && !as_int(d) && d.dtype() == i64) sizes = logical_and(sizes, ge(d, 0));
  const Inside::Scope known = inside_.assume(sizes, {});
  const Stmt s = stmt(function_->body);
  return checks_.place_all(0, s);
}

std::string AccessWalk::where() const {
  const std::string text = at_ && at_->origin ? place(at_->origin) : std::string();
  return text.empty() ? place_ : text;
}

const Written& AccessWalk::writes(const Stmt& s) {
  auto [it, fresh] = written_.try_emplace(s.get());
  if (fresh) it->second = written_in(s);
  return it->second;
}

std::unordered_set<const Var*> AccessWalk::known_writes(const PrimExpr& condition, const Stmt& body) {
  std::unordered_set<const Var*> out;
  if (!body || !reads_memory(condition)) return out;
  const Written& w = writes(body);
  if (!w.unknown) return w.data;
  pre_order(condition, [&](const ObjectRef& o) {
    if (const auto* l = o.as<BufferLoad>()) out.insert(l->buffer->data.get());
    return !o.is<BufferNode>();
  });
  return out;
}

Stmt AccessWalk::stmt(const Stmt& s) {
  if (!s) return s;
  const StmtNode* outer = at_;
  if (s->origin) at_ = s.get();
  auto seen = std::exchange(seen_, {});
  seen_.emplace_back();
  Stmt out = tenon::match<Stmt>(
      s, [&](const For& n) { return loop(s, n); }, [&](const tir::While& n) { return repeat(s, n); },
      [&](const IfThenElse& n) { return branch(s, n); }, [&](const LetStmt& n) { return let(s, n); },
      [&](const SeqStmt& n) { return sequence(s, n); }, [&](const BlockRealize& n) { return realize(s, n); },
      [&](const Allocate& n) -> Stmt {
        for (const PrimExpr& d : n.buffer->shape) look(d);
        bits_[n.buffer->data.get()] = bits_of(n.buffer);
        const Stmt body = below_buffer(n.body, n.buffer);
        return with_body<Allocate>(s, body);
      },
      [&](const AllocateConst& n) -> Stmt {
        bits_[n.buffer->data.get()] = imm(int64_t(n.data.size()) * n.buffer->dtype.bits);
        const Stmt body = below_buffer(n.body, n.buffer);
        return with_body<AllocateConst>(s, body);
      },
      [&](const DeclBuffer& n) -> Stmt {
        const Stmt body = below_buffer(n.body, n.buffer);
        return with_body<DeclBuffer>(s, body);
      },
      [&](const BufferRealize& n) -> Stmt {
        const Stmt body = below_buffer(n.body, n.buffer);
        return with_body<BufferRealize>(s, body);
      },
      [&](const AttrStmt& n) -> Stmt { return with_body<AttrStmt>(s, attributed(n)); },
      [&](const BufferStore& n) -> Stmt {
        look(n.value);
        look(n.predicate);
        for (const PrimExpr& i : n.indices) look(i);
        access(n.buffer, n.indices, n.predicate);
        return s;
      },
      [&](const ProducerStore& n) -> Stmt {
        look(n.value);
        for (const PrimExpr& i : n.indices) look(i);
        return s;
      },
      [&](const AssertStmt& n) -> Stmt {
        look(n.condition);
        return s;
      },
      [&](const tir::Evaluate& n) -> Stmt {
        look(n.value);
        const PrimExpr condition = ensured(s);
        return condition ? assumption(s, condition) : s;
      },
      [&](const StmtNode&) -> Stmt { return s; });
  at_ = outer;
  seen_ = std::move(seen);
  return out;
}

Stmt AccessWalk::below_buffer(const Stmt& body, const Buffer& b) {
  const size_t mark = checks_.mark();
  const Stmt out = stmt(body);
  const Written own{{b->data.get()}, false};
  return checks_.place(mark, out, [&](const Stmt& c) { return reads(c, own); });
}

/// The body below an attribute; where that launches threads, checks stay inside.
Stmt AccessWalk::attributed(const AttrStmt& n) {
  const auto* thread = n.node.as<IterVarNode>();
  if (!thread) return stmt(n.body);
  const size_t mark = checks_.mark();
  look(n.value);
  if (thread->dom) inside_.define(thread->var, thread->dom);
  const Stmt body = stmt(n.body);
  return checks_.place_all(mark, body);
}

/// The body of a branch; its checks leave under the condition.
Stmt AccessWalk::under(const PrimExpr& condition, const Stmt& body) {
  if (inside_.never(condition)) return body;
  const size_t mark = checks_.mark();
  Stmt out;
  where_holds(condition, body, [&] { out = stmt(body); });
  checks_.wrap(mark, [&](const Stmt& c) -> Stmt { return make<IfThenElse>(condition, c, Stmt()); });
  return out;
}

/// A loop whose iterations are not proved to be independent runs in order.
Stmt AccessWalk::ordered(const Stmt& s, const For& n) {
  if (proving_ != Proving::given || (n.kind != ForKind::parallel && n.kind != ForKind::vectorized)) return s;
  ++report_.loops;
  const std::string why = shared_by_iterations(n, analyzer_);
  if (why.empty()) return s;
  const std::string_view kind = n.kind == ForKind::parallel ? "parallel" : "vectorised";
  report_.open.push_back({ProofKind::loop, ProofEnd::serial,
                          fmt::format("the {} loop `{}` runs in order: {}", kind, n.loop_var->name, why),
                          where()});
  return edited<For>(s, [](For* m) { m->kind = ForKind::serial; });
}

Stmt AccessWalk::loop(const Stmt& given, const For& n) {
  const Stmt s = ordered(given, n);
  look(n.min);
  look(n.extent);
  const size_t mark = checks_.mark();
  const bool runs = inside_.at_most(PrimExpr(1), n.extent);
  inside_.define(n.loop_var, range(n.min, n.extent));
  const bool always = std::exchange(always_, always_ && runs);
  loops_.push_back(&n);
  Stmt body;
  assuming(inside_.runs(n.extent), n.body, [&] {
    if (const PrimExpr more = around())
      assuming(more, n.body, [&] { body = stmt(n.body); });
    else
      body = stmt(n.body);
  });
  loops_.pop_back();
  always_ = always;
  if (checks_.mark() > mark) {
    const Written& written = writes(n.body);
    const bool threads = n.kind == ForKind::thread_binding;
    body = checks_.place(mark, body,
                         [&](const Stmt& c) { return threads || written.unknown || reads(c, written); });
    checks_.wrap(mark, [&](const Stmt& c) { return Checks::leave(c, n, runs); });
  }
  return with_body<For>(s, body);
}

/// What follows for the variables of the loops around once a loop is known to run.
PrimExpr AccessWalk::around() {
  PrimExpr out;
  for (const For* l : loops_)
    if (const PrimExpr c = is_zero(l->min) ? inside_.within(l->loop_var, l->extent) : PrimExpr())
      out = out ? logical_and(out, c) : c;
  return out;
}

Stmt AccessWalk::repeat(const Stmt& s, const tir::While& n) {
  const size_t mark = checks_.mark();
  look(n.condition);
  const Array<Stmt> each = checks_.take(mark);
  for (const Stmt& c : each) checks_.add(c);
  // The condition is checked before each turn, the first included.
  const size_t inner = checks_.mark();
  const bool always = std::exchange(always_, false);
  Stmt body;
  assuming(n.condition, n.body, [&] { body = stmt(n.body); });
  always_ = always;
  body = checks_.place_all(inner, body);
  if (!each.empty()) {
    Array<Stmt> all{body};
    for (const Stmt& c : each) all.push_back(rename_definitions(c));
    body = seq(all);
  }
  return with_body<tir::While>(s, body);
}

Stmt AccessWalk::branch(const Stmt& s, const IfThenElse& n) {
  look(n.condition);
  const Stmt yes = under(n.condition, n.then_case);
  const Stmt no = n.else_case ? under(logical_not(n.condition), n.else_case) : n.else_case;
  if (yes.same_as(n.then_case) && no.same_as(n.else_case)) return s;
  return edited<IfThenElse>(s, [&](IfThenElse* m) {
    m->then_case = yes;
    m->else_case = no;
  });
}

Stmt AccessWalk::let(const Stmt& s, const LetStmt& n) {
  look(n.value);
  const size_t mark = checks_.mark();
  const bool pointer = n.var->dtype.is_handle();
  if (!pointer) inside_.define(n.var, n.value);
  if (n.var->dtype.is_vector())
    if (const PrimExpr value = substitute(n.value, vectors_); !inside_.from_data(value))
      vectors_[n.var.get()] = value;
  Stmt body = stmt(n.body);
  if (pointer)
    body = checks_.place_all(mark, body);
  else
    checks_.wrap(mark, [&](const Stmt& c) { return Checks::leave(c, n); });
  return with_body<LetStmt>(s, body);
}

PrimExpr AccessWalk::ensured(const Stmt& s) {
  if (const auto* a = s.as<AssertStmt>()) return a->condition;
  const auto* e = s.as<tir::Evaluate>();
  const auto* c = e ? e->value.as<tir::Call>() : nullptr;
  return c && c->op == "tir.assume" ? c->args[0] : PrimExpr();
}

/// What the program promises: refused where it is certainly wrong, asserted where it is asked for.
Stmt AccessWalk::assumption(const Stmt& s, const PrimExpr& condition) {
  if (always_ && conditions_.empty() && !reads_memory(condition) &&
      analyzer_.can_prove(logical_not(condition)))
    problems_.add(Diagnostic{"T0824",
                             "what the program assumes is never true",
                             where(),
                             "correct the condition, or leave the assumption out",
                             {}});
  return checks_assumptions_ ? Stmt(make<AssertStmt>(condition, "an assumption does not hold, " + where()))
                             : s;
}

Stmt AccessWalk::sequence(const Stmt& s, const SeqStmt& n) {
  Array<Stmt> out;
  Written written;
  bool asserted = false;
  std::vector<std::unique_ptr<Inside::Scope>> known;
  const bool always = always_;
  bool changed = false;
  for (size_t i = 0; i < n.seq.size(); ++i) {
    const Stmt& t = n.seq[i];
    const size_t mark = checks_.mark();
    Stmt x = stmt(t);
    x = checks_.place(mark, x, [&](const Stmt& c) {
      return i > 0 && (written.unknown || reads(c, written) || (asserted && reads_memory(c)));
    });
    changed = changed || !x.same_as(t);
    out.push_back(x);
    const Written& more = writes(t);
    written.data.insert(more.data.begin(), more.data.end());
    written.unknown = written.unknown || more.unknown;
    const PrimExpr holds = ensured(t);
    asserted = asserted || t.is<AssertStmt>();
    if (t.is<AssertStmt>()) always_ = false;
    if (!holds) continue;
    // Until something behind it writes what it reads.
    std::unordered_set<const Var*> changed_behind;
    if (reads_memory(holds))
      for (size_t k = i + 1; k < n.seq.size(); ++k) changed_behind.merge(known_writes(holds, n.seq[k]));
    known.emplace_back(new Inside::Scope(inside_.assume(holds, changed_behind)));
  }
  while (!known.empty()) known.pop_back();
  always_ = always;
  return changed ? seq(out) : s;
}

// ---------------------------------------------------------------- blocks
Stmt AccessWalk::realize(const Stmt& s, const BlockRealize& n) {
  for (const PrimExpr& v : n.iter_values) look(v);
  look(n.predicate);
  const size_t mark = checks_.mark();
  const bool fixed = fixed_block(n);
  const PrimExpr predicate = n.predicate ? n.predicate : true_();
  Ref<Block> b;
  where_holds(predicate, n.block->body, [&] {
    iterators(n);
    PrimExpr more = true_();
    for (const IterVar& v : n.block->iter_vars)
      if (const PrimExpr c = is_zero(v->dom->min) ? inside_.within(v->var, v->dom->extent) : PrimExpr())
        more = logical_and(more, c);
    assuming(more, n.block->body, [&] { b = block(n, fixed); });
  });
  if (!fixed) checks_.wrap(mark, [&](const Stmt& c) { return Checks::leave(c, n); });
  if (b.same_as(n.block)) return s;
  return edited<BlockRealize>(s, [&](BlockRealize* m) { m->block = b; });
}

/// What the iterators are: in their domain, by proof or by a check of the given program.
void AccessWalk::iterators(const BlockRealize& n) {
  for (size_t i = 0; i < n.iter_values.size(); ++i) {
    const IterVar& v = n.block->iter_vars[i];
    const PrimExpr& value = n.iter_values[i];
    const PrimExpr offset = cast(i64, value) - cast(i64, v->dom->min);
    bool known = proved(offset, v->dom->extent);
    if (proving_ == Proving::given) {
      ++report_.iterators;
      if (!known)
        inside(offset, v->dom->extent, ProofKind::iterator,
               fmt::format("iterator `{}` of block `{}`", v->var->name, n.block->name));
      known = true;
    }
    if (known)
      inside_.define(v->var, v->dom);
    else
      inside_.define(v->var, value);
    values_[v->var.get()] = substitute(value, values_);
  }
}

Ref<Block> AccessWalk::block(const BlockRealize& n, bool fixed) {
  const Block& b = *n.block;
  for (const Buffer& a : b.alloc_buffers) bits_[a->data.get()] = bits_of(a);
  for (const MatchBufferRegion& m : b.match_buffers) region(m);
  Stmt init;
  if (b.init) {
    const size_t own = checks_.mark();
    const bool always = std::exchange(always_, false);
    init = checks_.place_all(own, stmt(b.init));
    always_ = always;
  }
  const size_t mark = checks_.mark();
  Stmt body = stmt(b.body);
  Written own;
  for (const Buffer& a : b.alloc_buffers) own.data.insert(a->data.get());
  for (const MatchBufferRegion& m : b.match_buffers) own.data.insert(m->buffer->data.get());
  body = checks_.place(mark, body, [&](const Stmt& c) { return fixed || reads(c, own); });
  if (init.same_as(b.init) && body.same_as(b.body)) return n.block;
  return edited<Block>(n.block,
                       [&](Block* m) {
                         m->init = init;
                         m->body = body;
                       })
      .cast<Block>();
}

void AccessWalk::region(const MatchBufferRegion& m) {
  const Array<Range>& region = m->source->region;
  const size_t dropped = region.size() - m->buffer->shape.size();
  bool inside = true;
  for (size_t i = 0; i < region.size(); ++i) {
    // Sizes that the match itself defines are what the region has.
    if (i >= dropped)
      if (const auto* v = m->buffer->shape[i - dropped].as<Var>(); v)
        inside_.define(VarRef(Ref<Var>(v)), region[i]->extent);
    const PrimExpr room = cast(i64, m->source->buffer->shape[i]) - cast(i64, region[i]->extent) + 1;
    inside = inside && proved(cast(i64, region[i]->min), room);
  }
  // Then each access through the match is looked at in its source, too.
  if (!inside) matches_[m->buffer.get()] = m;
}

// ---------------------------------------------------------------- programs
IRModule prove_accesses(const IRModule& module, const PassContext& context, Proving proving,
                        bool checks_assumptions) {
  std::mutex mutex;
  std::map<std::string, Ref<ProofReport>> reports;
  DiagnosticList problems;
  IRModule out = module.map_prim([&](const std::string& name, const PrimFunc& f) -> ObjectRef {
    if (f->attrs.contains(kKernelAttr) || !f->body || uses_vscale(f) || find_jump(f->body)) return {};
    Ref<ProofReport> report = make<ProofReport>();
    report.mut()->function = name;
    DiagnosticList own;
    const Stmt body = AccessWalk(f, proving, checks_assumptions, *report.mut(), own).run(name);
    {
      std::lock_guard lock(mutex);
      for (const Diagnostic& d : own.all()) problems.add(d);
      reports[name] = report;
    }
    if (body.same_as(f->body)) return {};
    PrimFunc changed = f;
    changed.edit()->body = body;
    return changed;
  });
  problems.throw_if_any();
  if (context.report)
    for (const auto& [name, report] : reports)
      context.report(proving == Proving::given ? "prove_programs" : "guard_accesses", report);
  return out;
}

}  // namespace tenon::tensor_detail
