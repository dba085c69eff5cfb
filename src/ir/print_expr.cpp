// SPDX-License-Identifier: Apache-2.0
// Script text of the expressions of tensor programs, and of ranges, iterators, regions and buffers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ir/intrinsic.h"
#include "ir/packed_call.h"
#include "ir/print_impl.h"
#include "ir/structural.h"
#include "ir/walk.h"

namespace tenon::print_detail {
using namespace tir;

void Printer::variable(const Var* v) {
  if (!names_.known(v)) {
    if (auto it = data_owner_.find(v); it != data_owner_.end()) {
      out_ += names_.get(it->second, it->second->name) + ".data";
      return;
    }
    const std::string& name = names_.get(v, v->name);
    if (implicit_ && v->dtype != i64) {
      out_ += fmt::format("T.Var(\"{}\", \"{}\")", name, to_string(v->dtype));
      return;
    }
    out_ += name;
    return;
  }
  out_ += names_.get(v, v->name);
}

const std::string& Printer::buffer_name(const Buffer& b) {
  if (b->data && !names_.known(b->data.get())) data_owner_.emplace(b->data.get(), b.get());
  return names_.get(b.get(), b->name.empty() ? "buffer" : b->name);
}

std::string Printer::producer_name(const DataProducer& p) {
  return p ? names_.get(p.get(), p->name.empty() ? "producer" : p->name) : "None";
}

void Printer::binary(const PrimExpr& a, const PrimExpr& b, std::string_view op, int level, int precedence,
                     bool compare) {
  if (level < precedence) out_ += '(';
  expr(a, compare ? level + 1 : level);
  out_ += op;
  expr(b, level + 1);
  if (level < precedence) out_ += ')';
}

void Printer::subscript(const Array<PrimExpr>& indices) {
  out_ += '[';
  if (indices.empty()) out_ += "()";
  exprs(indices);
  out_ += ']';
}

/// Lanes of a scalable vector are a multiple of vscale.
static std::string lanes_text(int64_t lanes) {
  return lanes < 0 ? fmt::format("T.vscale() * {}", -lanes) : std::to_string(lanes);
}

/// What a packed function is given of a buffer: all of it by its name.
bool Printer::view(const Call& c) {
  const auto v = tensor_view(PrimExpr(Ref<PrimExprNode>(&c)));
  if (!v) return false;
  const std::string how = std::string(v->access & 1 ? "r" : "") + (v->access & 2 ? "w" : "");
  const auto* pointer = v->pointer.as<Call>();
  const auto* first =
      pointer && pointer->op == "tir.access_ptr" ? pointer->args[0].as<BufferLoad>() : nullptr;
  if (first &&
      structural_equal(whole_tensor_view(first->buffer, v->access), PrimExpr(Ref<PrimExprNode>(&c)))) {
    const std::string name = buffer_name(first->buffer);
    out_ += v->access == 3 ? name : fmt::format("T.tensor_view({}, \"{}\")", name, how);
    return true;
  }
  auto sizes = [&](const Array<PrimExpr>& list) {
    out_ += ", (";
    exprs(list);
    out_ += list.size() == 1 ? ",)" : ")";
  };
  out_ += "T.tensor_view(";
  expr(v->pointer);
  out_ += fmt::format(", \"{}\"", v->dtype);
  sizes(v->shape);
  sizes(v->strides);
  out_ += fmt::format(", \"{}\")", how);
  return true;
}

void Printer::function_call(const Call& c) {
  const std::string_view op = c.op;
  const std::string_view base = op.starts_with("tir.") ? op.substr(4) : std::string_view();
  const Intrinsic* known = find_intrinsic(op);
  const bool counted = known && (known->arguments < 0 || size_t(known->arguments) == c.args.size());
  if ((base == "call_extern" || base == "call_prim_func") && !c.args.empty() && c.args[0].is<StringImm>()) {
    out_ += fmt::format("T.{}(\"{}\", ", base, to_string(c.dtype));
    exprs(c.args);
    out_ += ')';
    return;
  }
  if (const auto* first = counted && base == "access_ptr" ? c.args[0].as<BufferLoad>() : nullptr;
      first && !first->predicate && as_int(c.args[3]) &&
      std::all_of(first->indices.begin(), first->indices.end(),
                  [](const PrimExpr& i) { return is_zero(i); })) {
    const int64_t how = *as_int(c.args[3]);
    out_ += fmt::format("{}.access_ptr(\"{}{}\", offset=", buffer_name(first->buffer), how & 1 ? "r" : "",
                        how & 2 ? "w" : "");
    expr(c.args[1]);
    out_ += ", extent=";
    expr(c.args[2]);
    out_ += ')';
    return;
  }
  if (base == "call_packed" && !c.args.empty() && c.args[0].is<StringImm>()) {
    out_ += "T.call_packed(";
    exprs(c.args);
    out_ += c.dtype.is_void() ? ")" : fmt::format(", dtype=\"{}\")", to_string(c.dtype));
    return;
  }
  if (base == "tensor_view" && view(c)) return;
  if (counted && base == "reinterpret") {
    out_ += fmt::format("T.reinterpret(\"{}\", ", to_string(c.dtype));
    expr(c.args[0]);
    out_ += ')';
    return;
  }
  bool implied = counted && base == "vscale" && c.dtype == i64;
  if (counted && base != "prefetch" && !c.args.empty() && c.args[0]) {
    if (base == "isnan" || base == "isinf" || base == "isfinite")
      implied = c.dtype == boolean.with_lanes(c.args[0].dtype().lanes);
    else if (base == "if_then_else")
      implied = c.dtype == c.args[1].dtype();
    else if (base == "address_of")
      implied = c.dtype == DataType::handle();
    else if (base.starts_with("vector_reduce_"))
      implied = c.dtype == c.args[0].dtype().element();
    else if (known->vector)
      implied = c.dtype == c.args[0].dtype();
  }
  if (implied) {
    out_ += fmt::format("T.{}(", base);
    exprs(c.args);
    out_ += ')';
    return;
  }
  out_ += "T.call(" + quoted(op);
  for (const PrimExpr& a : c.args) {
    out_ += ", ";
    expr(a);
  }
  out_ += fmt::format(", dtype=\"{}\")", to_string(c.dtype));
}

void Printer::expr(const PrimExpr& e, int precedence) {
  if (!e) {
    out_ += "None";
    return;
  }
  if (too_deep()) return;
  auto call2 = [&](std::string_view f, const PrimExpr& a, const PrimExpr& b) {
    out_ += fmt::format("T.{}(", f);
    expr(a);
    out_ += ", ";
    expr(b);
    out_ += ')';
  };
  match(
      static_cast<const Ref<PrimExprNode>&>(e),
      [&](const IntImm& n) {
        if (n.dtype.is_bool())
          out_ += n.value ? "True" : "False";
        else if (n.dtype == i64)
          out_ += std::to_string(n.value);
        else
          out_ += fmt::format("T.{}({})", to_string(n.dtype), n.value);
      },
      [&](const FloatImm& n) {
        std::string text = std::isfinite(n.value) ? float_text(n.value)
                           : std::isnan(n.value)  ? "\"nan\""
                           : n.value > 0          ? "\"inf\""
                                                  : "\"-inf\"";
        if (text.ends_with(".0")) text.resize(text.size() - 2);
        if (n.value == 0 && std::signbit(n.value)) text = "-0.0";
        out_ += fmt::format("T.{}({})", to_string(n.dtype), text);
      },
      [&](const StringImm& n) { out_ += quoted(n.value); }, [&](const Var& n) { variable(&n); },
      [&](const Add& n) { binary(n.a, n.b, " + ", kAdd, precedence); },
      [&](const Sub& n) { binary(n.a, n.b, " - ", kAdd, precedence); },
      [&](const Mul& n) { binary(n.a, n.b, " * ", kMul, precedence); },
      [&](const Div& n) { binary(n.a, n.b, " / ", kMul, precedence); },
      [&](const Mod& n) { call2("truncmod", n.a, n.b); },
      [&](const FloorDiv& n) { binary(n.a, n.b, " // ", kMul, precedence); },
      [&](const FloorMod& n) { binary(n.a, n.b, " % ", kMul, precedence); },
      [&](const Min& n) { call2("min", n.a, n.b); }, [&](const Max& n) { call2("max", n.a, n.b); },
      [&](const EQ& n) { binary(n.a, n.b, " == ", kCompare, precedence, true); },
      [&](const NE& n) { binary(n.a, n.b, " != ", kCompare, precedence, true); },
      [&](const LT& n) { binary(n.a, n.b, " < ", kCompare, precedence, true); },
      [&](const LE& n) { binary(n.a, n.b, " <= ", kCompare, precedence, true); },
      [&](const GT& n) { binary(n.a, n.b, " > ", kCompare, precedence, true); },
      [&](const GE& n) { binary(n.a, n.b, " >= ", kCompare, precedence, true); },
      [&](const And& n) { binary(n.a, n.b, " and ", kAnd, precedence); },
      [&](const Or& n) { binary(n.a, n.b, " or ", kOr, precedence); },
      [&](const Not& n) {
        if (kNot < precedence) out_ += '(';
        out_ += "not ";
        expr(n.a, kNot);
        if (kNot < precedence) out_ += ')';
      },
      [&](const Select& n) {
        out_ += "T.Select(";
        expr(n.condition);
        out_ += ", ";
        expr(n.true_value);
        out_ += ", ";
        expr(n.false_value);
        out_ += ')';
      },
      [&](const Cast& n) {
        out_ += "T.cast(";
        expr(n.value);
        out_ += fmt::format(", \"{}\")", to_string(n.dtype));
      },
      [&](const BufferLoad& n) {
        out_ += buffer_name(n.buffer);
        if (!n.predicate) return subscript(n.indices);
        out_ += ".vload([";
        exprs(n.indices);
        out_ += "], predicate=";
        expr(n.predicate);
        out_ += ')';
      },
      [&](const ProducerLoad& n) {
        out_ += producer_name(n.producer);
        subscript(n.indices);
      },
      [&](const Ramp& n) {
        out_ += "T.Ramp(";
        expr(n.base);
        out_ += ", ";
        expr(n.stride);
        out_ += fmt::format(", {})", lanes_text(n.lanes));
      },
      [&](const Broadcast& n) {
        out_ += "T.Broadcast(";
        expr(n.value);
        out_ += fmt::format(", {})", lanes_text(n.lanes));
      },
      [&](const Shuffle& n) {
        out_ += "T.Shuffle([";
        exprs(n.vectors);
        out_ += "], [";
        list(n.indices, [&](int64_t i) { out_ += std::to_string(i); });
        out_ += "])";
      },
      [&](const Let& n) {
        std::string value;
        std::swap(value, out_);
        expr(n.value);  // before the variable gets its name, as it is read
        std::swap(value, out_);
        out_ += "T.Let(" + names_.get(n.var.get(), n.var->name) + ", " + value + ", ";
        expr(n.body);
        out_ += ')';
      },
      [&](const Call& n) { function_call(n); },
      [&](const Reduce& n) {
        out_ += "T.Reduce(";
        comm_reducer(n.combiner);
        out_ += ", axis=[";
        list(n.axis, [&](const IterVar& v) { iter_var(v); });
        out_ += "], source=[";
        exprs(n.source);
        out_ += ']';
        if (n.condition) {
          out_ += ", condition=";
          expr(n.condition);
        }
        if (!n.init.empty()) {
          out_ += ", init=[";
          exprs(n.init);
          out_ += ']';
        }
        if (n.value_index) out_ += fmt::format(", value_index={}", n.value_index);
        out_ += ')';
      });
  --depth_;
}

void Printer::comm_reducer(const CommReducer& c) {
  out_ += "T.comm_reducer(lambda ";
  for (const Array<VarRef>& side : {c->lhs, c->rhs})
    for (const VarRef& v : side)
      out_ += names_.get(v.get(), v->name) + (v.get() == c->rhs.back().get() ? "" : ", ");
  out_ += ": (";
  exprs(c->result);
  out_ += c->result.size() == 1 ? ",), [" : "), [";
  exprs(c->identity);
  out_ += "])";
}

void Printer::range(const Range& r) {
  out_ += "T.Range(";
  expr(r->min);
  out_ += ", ";
  expr(r->extent);
  out_ += ')';
}

void Printer::iter_var(const IterVar& v) {
  std::string dom;
  std::swap(dom, out_);
  if (v->dom)
    range(v->dom);
  else
    out_ += "None";
  std::swap(dom, out_);
  out_ += "T.IterVar(" + names_.get(v->var.get(), v->var->name) + ", " + dom + ", \"" +
          std::string(iter_kind_names[size_t(v->kind)]) + "\"";
  if (!v->thread_tag.empty()) out_ += ", " + quoted(v->thread_tag);
  if (!v->dom) out_ += fmt::format(", dtype=\"{}\"", to_string(v->var->dtype));
  out_ += ')';
}

void Printer::buffer_region(const BufferRegion& r) {
  out_ += buffer_name(r->buffer);
  out_ += '[';
  if (r->region.empty()) out_ += "()";
  list(r->region, [&](const Range& x) {
    const auto lo = as_int(x->min), n = as_int(x->extent);
    expr(x->min);
    if (n == 1) return;
    out_ += ':';
    if (x->min.dtype() != x->extent.dtype()) return expr(x->extent);
    if (lo && n)
      expr(PrimExpr::int_imm(*lo + *n, x->min.dtype()));
    else if (lo == 0)
      expr(x->extent);
    else
      expr(make<Add>(x->min, x->extent));
  });
  out_ += ']';
}

void Printer::shape_tuple(const Array<PrimExpr>& shape) {
  out_ += '(';
  exprs(shape);
  out_ += shape.size() == 1 ? ",)" : ")";
}

/// `(shape), "dtype", strides=…, …` as in every form that declares a buffer.
void Printer::buffer_attributes(const Buffer& b, bool with_data) {
  shape_tuple(b->shape);
  out_ += ", \"" + to_string(b->dtype) + "\"";
  if (with_data) {
    out_ += ", data=";
    variable(b->data.get());
  }
  if (!b->strides.empty()) {
    out_ += ", strides=[";
    exprs(b->strides);
    out_ += ']';
  }
  if (b->elem_offset) {
    out_ += ", elem_offset=";
    expr(b->elem_offset);
  }
  if (b->scope != "global") out_ += ", scope=" + quoted(b->scope);
  if (b->align != 64) out_ += ", align=" + std::to_string(b->align);
  if (!b->axis_separators.empty()) {
    out_ += ", axis_separators=[";
    list(b->axis_separators, [&](int64_t i) { out_ += std::to_string(i); });
    out_ += ']';
  }
}

/// Attributes of a buffer that is defined here; its pointer is named only when something else owns it.
void Printer::declare_buffer(const Buffer& b) {
  auto owner = data_owner_.find(b->data.get());
  const bool shared = names_.known(b->data.get()) || (owner != data_owner_.end() && owner->second != b.get());
  declared_.insert(b.get());
  buffer_attributes(b, shared);
}

}  // namespace tenon::print_detail
