// SPDX-License-Identifier: Apache-2.0
// The accesses in the values of a statement: each index proved, or a check made for it.
#include <algorithm>

#include "ir/find_node.h"
#include "ir/intrinsic.h"
#include "ir/text.h"
#include "pass/tensor/access_walk.h"

namespace tenon::tensor_detail {

using namespace tir;

namespace {

/// Lane `lane` of a vector; null when it has no such form.
PrimExpr lane_of(const PrimExpr& e, const PrimExpr& lane) {
  if (e.dtype().is_scalar()) return e;
  if (const auto* n = e.as<Ramp>()) return n->base + cast(n->base.dtype(), lane) * n->stride;
  if (const auto* n = e.as<Broadcast>()) return n->value;
  if (e.is<Var>() || e.is<Shuffle>() || e.is<Let>() || e.is<Reduce>()) return {};
  if (const auto* n = e.as<Cast>()) {
    const PrimExpr v = lane_of(n->value, lane);
    return v ? cast(n->dtype.element(), v) : v;
  }
  bool whole = true;
  auto part = [&](const ObjectRef& c) -> ObjectRef {
    if (!c.is<PrimExprNode>()) return c;
    const PrimExpr v = lane_of(PrimExpr(c.cast<PrimExprNode>()), lane);
    whole = whole && v;
    return v ? ObjectRef(v) : c;
  };
  if (const auto* n = e.as<BufferLoad>()) {
    if (n->buffer->dtype.is_vector()) return {};
    Array<PrimExpr> at;
    for (const PrimExpr& i : n->indices) {
      at.push_back(lane_of(i, lane));
      whole = whole && at.back();
    }
    const PrimExpr predicate = n->predicate ? lane_of(n->predicate, lane) : PrimExpr();
    if (!whole || (n->predicate && !predicate)) return {};
    return load(n->buffer, at, predicate);
  }
  if (const auto* n = e.as<tir::Call>()) {
    Array<PrimExpr> args;
    for (const PrimExpr& a : n->args) {
      args.push_back(lane_of(a, lane));
      whole = whole && args.back();
    }
    return whole && !n->op.starts_with("tir.vector_") && n->op != "tir.dot"
               ? PrimExpr(call(n->dtype.element(), n->op, args))
               : PrimExpr();
  }
  const ObjectRef r = map_children(e, part);
  return whole ? PrimExpr(r.cast<PrimExprNode>()) : PrimExpr();
}

/// Nodes of e written out as a tree, at most `limit`: what is shared counts each time.
int64_t written_out(const ObjectRef& e, int64_t limit) {
  int64_t n = 1;
  for (const ObjectRef& c : children(e))
    if (n < limit && c.is<PrimExprNode>()) n += written_out(c, limit - n);
  return n;
}

/// In a line.
std::string short_text(const PrimExpr& e) {
  constexpr int64_t kNodes = 60;
  if (written_out(e, kNodes) >= kNodes) return "an expression";
  std::string text = print(e);
  std::ranges::replace(text, '\n', ' ');
  return text;
}

}  // namespace

void AccessWalk::look(const PrimExpr& e) {
  if (!e || e.is<Var>() || e.is<IntImm>() || e.is<FloatImm>() || e.is<tir::StringImm>()) return;
  for (const auto& level : seen_)
    if (level.count(e.get())) return;
  look_below(e);
  seen_.back().insert(e.get());
}

void AccessWalk::look_if(const PrimExpr& condition, const PrimExpr& e) {
  if (inside_.never(condition)) return;
  path_.push_back({condition, {}, {}, {}});
  assuming(condition, Stmt(), [&] { look(e); });
  path_.pop_back();
}

void AccessWalk::look_below(const PrimExpr& e) {
  if (const auto* n = e.as<BufferLoad>()) {
    look(n->predicate);
    for (const PrimExpr& i : n->indices) look(i);
    return access(n->buffer, n->indices, n->predicate);
  }
  if (const auto* n = e.as<Let>()) {
    look(n->value);
    inside_.define(n->var, n->value);
    path_.push_back({{}, n->var, n->value, {}});
    look(n->body);
    path_.pop_back();
    return;
  }
  if (const auto* n = e.as<Reduce>()) return look_reduce(*n);
  const auto* c = e.as<tir::Call>();
  if (c && c->op == "tir.prefetch") return;
  if (c && c->op == "tir.access_ptr") return pointer(*c);
  const bool chosen = c && tir::chooses(*c);
  if (chosen && c->args[0].dtype().is_scalar()) {
    look(c->args[0]);
    look_if(c->args[0], c->args[1]);
    if (c->op == "tir.if_then_else") return look_if(logical_not(c->args[0]), c->args[2]);
    return look(c->args[2]);
  }
  for (const ObjectRef& x : children(e))
    if (x.is<PrimExprNode>()) look(PrimExpr(x.cast<PrimExprNode>()));
}

/// All that is reached through a pointer: offset and extent, counted from the buffer's first element.
void AccessWalk::pointer(const tir::Call& n) {
  look(n.args[1]);
  look(n.args[2]);
  const auto* l = n.args[0].as<BufferLoad>();
  const auto size = bits_.find(l->buffer->data.get());
  if (size == bits_.end()) return;  // a pointer of the caller's, or a match
  const PrimExpr width = imm(int64_t(l->buffer->dtype.bits) * l->buffer->dtype.lanes);
  PrimExpr room = floordiv(size->second, width);
  if (l->buffer->elem_offset) room = room - cast(i64, l->buffer->elem_offset);
  ++report_.accesses;
  const std::string what =
      fmt::format("the elements that `access_ptr` of buffer `{}` names", l->buffer->name);
  if (inside(n.args[2], room + 1, ProofKind::memory, what + ", their number"))
    inside(n.args[1], room - n.args[2] + 1, ProofKind::memory, what + ", from the first on");
  else
    check(logical_and(ge(n.args[1], imm(0)), le(n.args[1], room - n.args[2])),
          what + " are outside, " + where());
}

void AccessWalk::look_reduce(const Reduce& n) {
  for (const PrimExpr& e : n.init) look(e);
  const size_t depth = path_.size();
  for (const IterVar& v : n.axis) {
    inside_.define(v->var, v->dom);
    path_.push_back({{}, v->var, {}, v->dom});
  }
  if (n.condition) look(n.condition);
  for (const PrimExpr& e : n.source) n.condition ? look_if(n.condition, e) : look(e);
  path_.resize(depth);
}

// ---------------------------------------------------------------- one access
void AccessWalk::access(const Buffer& b, const Array<PrimExpr>& at, const PrimExpr& predicate) {
  int64_t count = 1;
  for (const PrimExpr& i : at) count = std::max<int64_t>(count, i.dtype().lanes);
  if (count > 1 || (predicate && predicate.dtype().is_vector()))
    return lanes(b, at, predicate, std::max<int64_t>(count, predicate ? predicate.dtype().lanes : 1));
  if (!predicate || is_one(predicate)) return scalar(b, at);
  path_.push_back({predicate, {}, {}, {}});
  assuming(predicate, Stmt(), [&] { scalar(b, at); });
  path_.pop_back();
}

/// Each lane is an access of its own: that of a loop over them.
void AccessWalk::lanes(const Buffer& b, const Array<PrimExpr>& at, const PrimExpr& predicate, int64_t count) {
  const VarRef lane = var("lane");
  Array<PrimExpr> one;
  bool whole = true;
  for (const PrimExpr& i : at) {
    one.push_back(lane_of(substitute(i, vectors_), lane));
    whole = whole && one.back();
  }
  const PrimExpr mask = predicate ? lane_of(substitute(predicate, vectors_), lane) : PrimExpr();
  if (!whole || (predicate && !mask))
    refuse("T0338", fmt::format("the lanes of an access to buffer `{}` cannot be told apart", b->name),
           at_ ? Stmt(Ref<StmtNode>(at_)) : Stmt(),
           "write the index as a ramp, a broadcast or a sum of them");
  inside_.define(lane, range(imm(0), imm(count)));
  path_.push_back({{}, lane, {}, range(imm(0), imm(count))});
  access(b, one, mask);
  path_.pop_back();
}

void AccessWalk::scalar(const Buffer& b, const Array<PrimExpr>& at) {
  if (at.size() != b->shape.size()) return;  // the verifier's business (T03xx)
  bool all = true;
  for (size_t i = 0; i < at.size(); ++i) {
    ++report_.accesses;
    const std::string what = fmt::format("index {} of buffer `{}`", i, b->name);
    all = inside(at[i], b->shape[i], ProofKind::access, what) && all;
  }
  if (auto it = matches_.find(b.get()); it != matches_.end()) {
    const BufferRegion& source = it->second->source;
    const size_t dropped = source->region.size() - at.size();
    Array<PrimExpr> there;
    for (size_t i = 0; i < source->region.size(); ++i) {
      const PrimExpr corner = cast(i64, source->region[i]->min);
      there.push_back(i < dropped ? corner : corner + cast(i64, at[i - dropped]));
    }
    return scalar(source->buffer, there);
  }
  memory(b, at);
}

/// Strides, an offset and views of another shape reach other elements than the shape says.
void AccessWalk::memory(const Buffer& b, const Array<PrimExpr>& at) {
  const auto size = bits_.find(b->data.get());
  if (size == bits_.end()) return;  // a pointer of the caller's, or a match
  const bool dense = b->strides.empty() && (!b->elem_offset || is_zero(b->elem_offset));
  PrimExpr elements = imm(1);
  for (const PrimExpr& d : b->shape) elements = elements * cast(i64, d);
  const int64_t width = int64_t(b->dtype.bits) * b->dtype.lanes;
  if (dense && fits_.count(b.get())) return;
  if (dense && inside_.at_most(elements * imm(width), size->second)) {
    fits_.insert(b.get());
    return;
  }
  PrimExpr flat = b->elem_offset ? cast(i64, b->elem_offset) : imm(0);
  PrimExpr stride = imm(1);
  for (size_t i = at.size(); i-- > 0;) {
    if (!b->strides.empty()) stride = cast(i64, b->strides[i]);
    flat = flat + cast(i64, at[i]) * stride;
    if (b->strides.empty()) stride = stride * cast(i64, b->shape[i]);
  }
  ++report_.accesses;
  inside(flat, floordiv(size->second, imm(width)), ProofKind::memory,
         fmt::format("an access through buffer `{}`", b->name));
}

// ---------------------------------------------------------------- one index
bool AccessWalk::proved(const PrimExpr& index, const PrimExpr& extent) {
  auto between = [&](const PrimExpr& i) {
    return inside_.at_most(imm(0), i) && inside_.at_most(i, cast(i64, extent) - 1);
  };
  if (between(index)) return true;
  if (values_.empty()) return false;
  // An iterator's value says more than its domain where a predicate speaks of loops.
  const PrimExpr outer = substitute(index, values_);
  return !outer.same_as(index) && between(outer);
}

/// In every iteration of the loops around, or in the first of each, or in the last of each.
bool AccessWalk::certainly_outside(const PrimExpr& index, const PrimExpr& extent) {
  if (!always_ || !path_.empty() || inside_.from_data(index) || inside_.from_data(extent)) return false;
  const PrimExpr outside = logical_or(lt(cast(i64, index), imm(0)), ge(cast(i64, index), cast(i64, extent)));
  const auto holds = [&](const PrimExpr& e) {
    const auto* either = e.as<Or>();
    return analyzer_.can_prove(e) ||
           (either && (analyzer_.can_prove(either->a) || analyzer_.can_prove(either->b)));
  };
  if (conditions_.empty() && holds(outside)) return true;
  const auto in_iteration = [&](bool last) {
    const auto there = [&](PrimExpr e) {
      e = substitute(e, values_);
      for (size_t k = loops_.size(); k-- > 0;) {
        const For& n = *loops_[k];
        const PrimExpr end = n.min + n.extent - cast(n.extent.dtype(), imm(1));
        e = substitute(e, {{n.loop_var.get(), last ? end : n.min}});
      }
      return e;
    };
    // Of a condition on symbolic sizes the present scope assumes the answer.
    const auto true_there = [&](const PrimExpr& c) {
      const PrimExpr e = there(c);
      return !any_node(e, [](const ObjectRef& n) { return n.is<Var>(); }) && holds(e);
    };
    return std::ranges::all_of(conditions_, true_there) && holds(there(outside));
  };
  return in_iteration(false) || in_iteration(true);
}

bool AccessWalk::inside(const PrimExpr& index, const PrimExpr& extent, ProofKind kind,
                        const std::string& what) {
  if (proved(index, extent)) return true;
  const std::string place = fmt::format("{}: {}", what, short_text(index)),
                    range = fmt::format("in [0, {})", short_text(extent)), said = place + " is not " + range;
  if (certainly_outside(index, extent)) {
    problems_.add(
        Diagnostic{"T0337", said, where(), "correct the index, or guard the access with a condition", {}});
    return false;
  }
  const PrimExpr i = cast(i64, index), low = inside_.missing(imm(0), i),
                 high = inside_.missing(i, cast(i64, extent) - 1);
  if (!low && !high) return true;
  if (!checks_accesses_ && kind != ProofKind::iterator) return false;
  const bool data = inside_.from_data(index) || inside_.from_data(extent);
  report_.open.push_back(
      {kind, data ? ProofEnd::guarded_data : ProofEnd::guarded_unknown, place + " " + range, where()});
  check(!low ? high : !high ? low : logical_and(low, high), said + ", " + where());
  return false;
}

/// An assertion under the conditions, definitions and loops inside of the statement, of whose line it is:
/// what it reads is looked at, too.
void AccessWalk::check(const PrimExpr& condition, const std::string& message) {
  const Origin origin = at_ ? at_->origin : Origin();
  Stmt s = with_origin(make<AssertStmt>(condition, message), origin);
  for (size_t k = path_.size(); k-- > 0;) {
    const Step& step = path_[k];
    if (step.condition) {
      s = with_origin(make<IfThenElse>(step.condition, s, Stmt()), origin);
    } else if (step.value) {
      const VarRef v = var(step.var->name, step.var->dtype);
      s = with_origin(make<LetStmt>(v, step.value, substitute(s, {{step.var.get(), v}})), origin);
    } else {
      const VarRef v = var(step.var->name, step.var->dtype);
      s = for_(v, step.range->min, step.range->extent, substitute(s, {{step.var.get(), v}}));
    }
  }
  checks_.add(s);
}

}  // namespace tenon::tensor_detail
