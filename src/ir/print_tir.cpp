// SPDX-License-Identifier: Apache-2.0
// Script text of the statements and blocks of tensor programs (expressions: print_expr.cpp). Every form is
// read back by parse_tir*.cpp into the same nodes, so nothing is simplified here: a data type that the text
// does not imply is written out.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ir/find_node.h"
#include "ir/intrinsic.h"
#include "ir/packed_call.h"
#include "ir/print_impl.h"
#include "ir/structural.h"
#include "ir/walk.h"

namespace tenon::print_detail {
using namespace tir;

namespace {
bool is_scope(const Stmt& s) {
  return s.is<LetStmt>() || s.is<Allocate>() || s.is<AllocateConst>() || s.is<DeclBuffer>() ||
         s.is<BufferRealize>() || s.is<AttrStmt>();
}
const Stmt& scope_body(const Stmt& s) {
  if (const auto* n = s.as<LetStmt>()) return n->body;
  if (const auto* n = s.as<Allocate>()) return n->body;
  if (const auto* n = s.as<AllocateConst>()) return n->body;
  if (const auto* n = s.as<DeclBuffer>()) return n->body;
  if (const auto* n = s.as<BufferRealize>()) return n->body;
  return s.as<AttrStmt>()->body;
}
bool same_extent(const PrimExpr& a, const PrimExpr& b) {
  return a.same_as(b) || (a && b && a.dtype() == b.dtype() && structural_equal(a, b));
}
}  // namespace

// ---------------------------------------------------------------- statements
void Printer::stmt_body(const Stmt& s) {
  Indented in(*this);
  if (++depth_ > kPrintDepth) {
    line();
    out_ += "...";
  } else
    sequence(s);
  --depth_;
}

void Printer::sequence(const Stmt& first) {
  Stmt s = first;
  for (;;) {
    if (late_attrs_ && !(s && is_scope(s))) function_attrs(*std::exchange(late_attrs_, nullptr));
    if (const auto* list = s.as<SeqStmt>()) {
      const size_t n = list->seq.size();
      if (n == 0) {
        line();
        out_ += "pass";
        return;
      }
      for (size_t i = 0; i + 1 < n; ++i) {
        if (!is_scope(list->seq[i])) {
          leaf_stmt(list->seq[i]);
          continue;
        }
        scope_head(list->seq[i], false);
        stmt_body(scope_body(list->seq[i]));
      }
      s = Stmt(list->seq[n - 1]);
    } else if (s && is_scope(s)) {
      scope_head(s, true);
      s = Stmt(scope_body(s));
    } else {
      return leaf_stmt(s);
    }
  }
}

/// First line of a statement that holds over its body: `x: T.int64 = v` (the rest of the sequence is the
/// body) or `with T.LetStmt(v) as x:`.
bool Printer::scope_head(const Stmt& s, bool flat) {
  line();
  begins_here(s.get());
  auto head = [&](const std::string& name, auto form) {
    if (flat) {
      out_ += name + " = ";
      form();
      return;
    }
    out_ += "with ";
    form();
    out_ += " as " + name + ":";
  };
  if (const auto* n = s.as<LetStmt>()) {
    std::string value;
    std::swap(value, out_);
    expr(n->value);
    std::swap(value, out_);
    const std::string& name = names_.get(n->var.get(), n->var->name);
    if (flat)
      out_ += fmt::format("{}: T.{} = {}", name, to_string(n->var->dtype), value);
    else
      out_ += fmt::format("with T.LetStmt({}, dtype=\"{}\") as {}:", value, to_string(n->var->dtype), name);
  } else if (const auto* n = s.as<Allocate>()) {
    const std::string name = buffer_name(n->buffer);
    head(name, [&] {
      out_ += "T.allocate(";
      declare_buffer(n->buffer);
      if (!n->annotations.empty()) {
        out_ += ", annotations=";
        map(n->annotations);
      }
      out_ += ')';
    });
  } else if (const auto* n = s.as<AllocateConst>()) {
    const std::string name = buffer_name(n->buffer);
    head(name, [&] {
      out_ += "T.allocate_const(";
      ndarray(n->data, "I.ndarray", "I.ndarray_ref");
      out_ += ", ";
      declare_buffer(n->buffer);
      out_ += ')';
    });
  } else if (const auto* n = s.as<DeclBuffer>()) {
    if (declared_.count(n->buffer.get())) {
      out_ +=
          (flat ? "T.decl_buffer(" : "with T.decl_buffer(") + buffer_name(n->buffer) + (flat ? ")" : "):");
      return true;
    }
    std::string attributes;
    std::swap(attributes, out_);
    buffer_attributes(n->buffer, true);  // the pointer exists already
    std::swap(attributes, out_);
    const std::string name = buffer_name(n->buffer);
    declared_.insert(n->buffer.get());
    head(name, [&] { out_ += "T.decl_buffer(" + attributes + ")"; });
  } else if (const auto* n = s.as<BufferRealize>()) {
    const std::string name = buffer_name(n->buffer);
    head(name, [&] {
      out_ += "T.realize(";
      declare_buffer(n->buffer);
      out_ += ", bounds=[";
      list(n->bounds, [&](const Range& r) { range(r); });
      out_ += "], condition=";
      expr(n->condition);
      out_ += ')';
    });
  } else if (const auto* n = s.as<AttrStmt>()) {
    out_ += flat ? "T.attr(" : "with T.attr(";
    any(Any(n->node));
    out_ += ", " + quoted(n->key) + ", ";
    expr(n->value);
    out_ += flat ? ")" : "):";
  }
  return true;
}

void Printer::stmt(const Stmt& s) { sequence(s); }

void Printer::for_loops(const For* f) {
  auto plain = [](const For* x) {
    return x->kind == ForKind::serial && x->thread_tag.empty() && x->annotations.empty() && is_zero(x->min) &&
           x->min.dtype() == x->loop_var->dtype && x->extent.dtype() == x->loop_var->dtype;
  };
  std::vector<const For*> nest{f};
  if (plain(f)) {
    while (const auto* inner = nest.back()->body.as<For>()) {
      if (!plain(inner)) break;
      bool depends = false;
      if (!inner->extent.is<IntImm>())
        for (const For* outer : nest) depends = depends || mentions(inner->extent, outer->loop_var.get());
      if (depends) break;
      nest.push_back(inner);
    }
  }
  line();
  for (const For* x : nest) begins_here(x);
  std::string extents;
  std::swap(extents, out_);
  if (plain(f)) {
    out_ += nest.size() > 1 ? "T.grid(" : "range(";
    list(nest, [&](const For* x) { expr(x->extent); });
  } else {
    constexpr std::string_view names[] = {"serial", "parallel", "vectorized", "unroll", "thread_binding"};
    out_ += fmt::format("T.{}(", names[size_t(f->kind)]);
    const auto lo = as_int(f->min), n = as_int(f->extent);
    if (!is_zero(f->min) || f->min.dtype() != f->extent.dtype()) {
      expr(f->min);
      if (lo && n && f->min.dtype() == f->extent.dtype()) {
        out_ += ", ";
        expr(PrimExpr::int_imm(*lo + *n, f->min.dtype()));
      } else {
        out_ += ", extent=";
        expr(f->extent);
      }
    } else {
      expr(f->extent);
    }
    if (!f->thread_tag.empty() || f->kind == ForKind::thread_binding)
      out_ += ", thread=" + quoted(f->thread_tag);
    if (!f->annotations.empty()) {
      out_ += ", annotations=";
      map(f->annotations);
    }
    out_ += ')';
  }
  if (plain(f)) out_ += ')';
  std::swap(extents, out_);
  out_ += "for ";
  list(nest, [&](const For* x) {
    loops_[x->loop_var.get()] = x;
    out_ += names_.get(x->loop_var.get(), x->loop_var->name);
  });
  out_ += " in " + extents + ":";
  stmt_body(nest.back()->body);
}

void Printer::if_chain(const IfThenElse* s) {
  line();
  begins_here(s);
  out_ += "if ";
  for (;;) {
    expr(s->condition);
    out_ += ':';
    stmt_body(s->then_case);
    if (!s->else_case) return;
    line();
    if (const auto* next = s->else_case.as<IfThenElse>()) {
      out_ += "elif ";
      s = next;
      begins_here(s);
      continue;
    }
    out_ += "else:";
    return stmt_body(s->else_case);
  }
}

void Printer::leaf_stmt(const Stmt& s) {
  if (!s) {
    line();
    out_ += "pass";
    return;
  }
  if (const auto* n = s.as<For>()) return for_loops(n);
  if (const auto* n = s.as<IfThenElse>()) return if_chain(n);
  if (const auto* n = s.as<SeqStmt>()) {
    if (n->seq.empty()) return;
    return sequence(s);
  }
  if (const auto* n = s.as<BlockRealize>()) return block(*n->block, n);
  if (const auto* n = s.as<Block>()) return block(*n, nullptr);
  line();
  begins_here(s.get());
  if (const auto* n = s.as<While>()) {
    out_ += "while ";
    expr(n->condition);
    out_ += ':';
    stmt_body(n->body);
  } else if (const auto* n = s.as<BufferStore>()) {
    out_ += buffer_name(n->buffer);
    if (n->predicate) {
      out_ += ".vstore([";
      exprs(n->indices);
      out_ += "], ";
      expr(n->value);
      out_ += ", predicate=";
      expr(n->predicate);
      out_ += ')';
    } else {
      subscript(n->indices);
      out_ += " = ";
      expr(n->value);
    }
  } else if (const auto* n = s.as<Prefetch>()) {
    out_ += "T.prefetch(";
    buffer_region(make<BufferRegionNode>(n->buffer, n->bounds));
    out_ += ')';
  } else if (const auto* n = s.as<ProducerStore>()) {
    out_ += producer_name(n->producer);
    subscript(n->indices);
    out_ += " = ";
    expr(n->value);
  } else if (const auto* n = s.as<AssertStmt>()) {
    out_ += "assert ";
    expr(n->condition);
    out_ += ", " + quoted(n->message);
  } else if (const Jump jump = jump_of(s); jump != Jump::none && s.as<Evaluate>()->value.dtype().is_void()) {
    jump_stmt(jump, *s.as<Evaluate>()->value.as<Call>());
  } else if (const auto* n = s.as<Evaluate>()) {
    out_ += "T.evaluate(";
    expr(n->value);
    out_ += ')';
  }
}

void Printer::jump_stmt(Jump jump, const Call& c) {
  if (jump != Jump::end_of_program) {
    out_ += jump == Jump::end_of_loop ? "break" : "continue";
    return;
  }
  out_ += "return";
  if (const auto* n = c.args[0].as<IntImm>(); n && n->value == 0 && n->dtype == i32) return;
  out_ += ' ';
  expr(c.args[0]);
}

// ---------------------------------------------------------------- blocks
void Printer::block_axes(const Block& b, const BlockRealize* realize) {
  auto value = [&](size_t i) {
    return realize && i < realize->iter_values.size() ? realize->iter_values[i] : PrimExpr();
  };
  // `vi, vj = T.axis.remap("SR", [i, j])` when each iterator is a loop variable over the same domain.
  auto remaps = [&](size_t i) {
    const IterVar& v = b.iter_vars[i];
    if (v->kind > IterKind::reduce || !v->thread_tag.empty() || !v->dom) return false;
    const PrimExpr x = value(i);
    const auto* loop = x.as<Var>();
    auto it = loop ? loops_.find(loop) : loops_.end();
    return it != loops_.end() && v->var->dtype == loop->dtype && same_extent(it->second->min, v->dom->min) &&
           same_extent(it->second->extent, v->dom->extent);
  };
  for (size_t i = 0; i < b.iter_vars.size();) {
    size_t end = i;
    while (end < b.iter_vars.size() && remaps(end)) ++end;
    line();
    if (end - i >= 2) {
      std::string kinds, values;
      std::swap(values, out_);
      for (size_t k = i; k < end; ++k) {
        kinds += b.iter_vars[k]->kind == IterKind::spatial ? 'S' : 'R';
        if (k > i) out_ += ", ";
        expr(value(k));
      }
      std::swap(values, out_);
      for (size_t k = i; k < end; ++k)
        out_ += (k > i ? ", " : "") + names_.get(b.iter_vars[k]->var.get(), b.iter_vars[k]->var->name);
      out_ += fmt::format(" = T.axis.remap(\"{}\", [{}])", kinds, values);
      i = end;
      continue;
    }
    const IterVar& v = b.iter_vars[i];
    std::string rest;
    std::swap(rest, out_);
    if (v->dom && is_zero(v->dom->min) && v->dom->min.dtype() == v->dom->extent.dtype())
      expr(v->dom->extent);
    else if (v->dom)
      range(v->dom);
    if (const PrimExpr x = value(i)) {
      out_ += ", ";
      expr(x);
    }
    if (!v->thread_tag.empty()) out_ += ", thread=" + quoted(v->thread_tag);
    std::swap(rest, out_);
    out_ += fmt::format("{} = T.axis.{}({})", names_.get(v->var.get(), v->var->name),
                        iter_kind_names[size_t(v->kind)], rest);
    ++i;
  }
}

void Printer::block(const Block& b, const BlockRealize* realize) {
  line();
  begins_here(realize ? static_cast<const Object*>(realize) : &b);
  out_ += "with T.block(" + quoted(b.name) + (realize ? "):" : ", no_realize=True):");
  Indented in(*this);
  if (++depth_ > kPrintDepth) {
    line();
    out_ += "...";
    --depth_;
    return;
  }
  block_axes(b, realize);
  if (realize && !(is_one(realize->predicate) && realize->predicate.dtype().is_bool())) {
    line();
    out_ += "T.where(";
    expr(realize->predicate);
    out_ += ')';
  }
  for (bool write : {false, true}) {
    line();
    out_ += write ? "T.writes(" : "T.reads(";
    list(write ? b.writes : b.reads, [&](const BufferRegion& r) { buffer_region(r); });
    out_ += ')';
  }
  if (!b.annotations.empty()) {
    line();
    out_ += "T.block_attr(";
    map(b.annotations);
    out_ += ')';
  }
  for (const Buffer& a : b.alloc_buffers) {
    line();
    out_ += buffer_name(a) + " = T.alloc_buffer(";
    declare_buffer(a);
    out_ += ')';
  }
  for (const MatchBufferRegion& m : b.match_buffers) {
    line();
    out_ += buffer_name(m->buffer) + " = T.match_buffer(";
    buffer_region(m->source);
    out_ += ", ";
    implicit_ = true;
    declare_buffer(m->buffer);
    implicit_ = false;
    out_ += ')';
  }
  if (b.init) {
    line();
    out_ += "with T.init():";
    stmt_body(b.init);
  }
  sequence(b.body);
  --depth_;
}

}  // namespace tenon::print_detail
