// SPDX-License-Identifier: Apache-2.0
// Script text: entry, modules, names, attribute values and constants. Tensor programs are in print_tir.cpp,
// graph programs in print_graph.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ir/print_impl.h"
#include "ir/walk.h"

namespace tenon {
namespace print_detail {
namespace {

const std::unordered_set<std::string_view>& keywords() {
  static const std::unordered_set<std::string_view> words{
      "T",     "R",      "I",       "cls",   "range",  "True",     "False", "None",     "and",   "or",
      "not",   "if",     "else",    "elif",  "for",    "while",    "in",    "with",     "as",    "def",
      "class", "return", "assert",  "pass",  "lambda", "import",   "from",  "is",       "del",   "try",
      "tir",   "relax",  "tvm",     "float", "int",    "bool",     "break", "continue", "yield", "global",
      "raise", "except", "finally", "async", "await",  "nonlocal", "script"};
  return words;
}

std::string sanitized(std::string_view hint) {
  std::string s;
  for (char c : hint)
    s += (std::isalnum(static_cast<unsigned char>(c)) && static_cast<unsigned char>(c) < 128) || c == '_'
             ? c
             : '_';
  if (s.empty()) s = "v";
  if (s[0] >= '0' && s[0] <= '9') s = "v" + s;
  if (s == "_") s = "v_";
  return s;
}

}  // namespace

const std::string& Names::get(const Object* o, std::string_view hint) {
  auto [it, fresh] = names_.emplace(o, std::string());
  if (!fresh) return it->second;
  const std::string base = sanitized(hint);
  std::string name = base;
  if (keywords().count(name) || used_.count(name)) {
    int& next = next_[base];
    do name = base + "_" + std::to_string(++next);
    while (used_.count(name));
  }
  used_.insert(name);
  it->second = std::move(name);
  return it->second;
}

bool is_identifier(std::string_view s) { return !s.empty() && sanitized(s) == s && !keywords().count(s); }

void Printer::begins_here(const Object* node) {
  if (!lines_) return;
  line_ += int32_t(std::count(out_.begin() + std::ptrdiff_t(counted_), out_.end(), '\n'));
  counted_ = out_.size();
  lines_->emplace_back(node, line_);
}

std::string quoted(std::string_view s) {
  std::string out = "\"";
  for (char c : s) {
    if (c == '"' || c == '\\')
      (out += '\\') += c;
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (c == '\r')
      out += "\\r";
    else if (static_cast<unsigned char>(c) < 32 || c == 127)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return out + "\"";
}

std::string float_text(double v) {
  if (std::isnan(v)) return "float(\"nan\")";
  if (std::isinf(v)) return v > 0 ? "float(\"inf\")" : "float(\"-inf\")";
  std::string s = fmt::format("{}", v);
  if (s.find_first_of(".en") == s.npos) s += ".0";
  return s;
}

void Printer::map(const AttrMap& m) {
  out_ += '{';
  bool first = true;
  if (m.get())
    for (const auto& [k, v] : m.get()->items) {
      if (!first) out_ += ", ";
      first = false;
      any(k);
      out_ += ": ";
      any(v);
    }
  out_ += '}';
}

void Printer::any(const Any& value) {
  if (value.tag() == kBool) {
    out_ += value.as<bool>() ? "True" : "False";
    return;
  }
  if (value.tag() == kInt) {
    out_ += std::to_string(value.as<int64_t>());
    return;
  }
  if (value.tag() == kFloat) {
    out_ += float_text(value.as<double>());
    return;
  }
  if (value.tag() == kDataType) {
    out_ += fmt::format("I.dtype(\"{}\")", to_string(value.as<DataType>()));
    return;
  }
  if (!value.is_object()) {
    out_ += "None";
    return;
  }
  if (too_deep()) return;
  const ObjectRef o(value.object());
  if (const auto* s = o.as<StringObj>())
    out_ += quoted(s->value);
  else if (const auto* a = o.as<ArrayObj>()) {
    out_ += '[';
    list(a->items, [&](const Any& x) { any(x); });
    out_ += ']';
  } else if (o.is<MapObj>()) {
    map(AttrMap(o.cast<MapObj>()));
  } else if (const auto* i = o.as<tir::IntImm>(); i && (i->dtype == i64 || i->dtype.is_bool())) {
    out_ += i->dtype.is_bool() ? fmt::format("T.bool({})", i->value ? "True" : "False")
                               : fmt::format("T.int64({})", i->value);
  } else if (const auto* s = o.as<tir::StringImm>()) {
    out_ += "T.StringImm(" + quoted(s->value) + ")";
  } else if (o.is<tir::PrimExprNode>()) {
    expr(*reinterpret_cast<const PrimExpr*>(&o));  // same object, typed view
  } else if (o.is<tir::BufferNode>()) {
    out_ += buffer_name(o.cast<tir::BufferNode>());
  } else if (o.is<tir::IterVarNode>()) {
    iter_var(o.cast<tir::IterVarNode>());
  } else if (o.is<tir::RangeNode>()) {
    range(o.cast<tir::RangeNode>());
  } else if (o.is<tir::CommReducerNode>()) {
    comm_reducer(o.cast<tir::CommReducerNode>());
  } else if (o.is<tir::BufferRegionNode>()) {
    out_ += "T.region(";
    buffer_region(o.cast<tir::BufferRegionNode>());
    out_ += ')';
  } else if (o.is<graph::TypeNode>()) {
    type(o.cast<graph::TypeNode>());
  } else if (o.is<NDArrayObj>()) {
    ndarray(NDArray(o.cast<NDArrayObj>()), "I.ndarray", "I.ndarray_ref");
  } else if (o.is<graph::Op>()) {
    out_ += "R.Op(" + quoted(o.as<graph::Op>()->name) + ")";
  } else if (o.is<graph::ExprNode>() && !o.is<graph::Function>() && !o.is<graph::If>() &&
             !o.is<graph::While>() && !o.is<graph::SeqExpr>() && !o.is<graph::Match>()) {
    graph_expr(o.cast<graph::ExprNode>());
  } else if (!type_of(o)->fields.empty()) {
    out_ += "I.json(" + quoted(to_json(o)) + ")";
  } else {
    out_ += "I.opaque(" + quoted(type_key_of(o)) + ")";  // a run-time object: has no text
  }
  --depth_;
}

namespace {
bool has_odd_nan(const NDArray& a) {
  if (!a.dtype().is_float()) return false;
  for (int64_t i = 0, n = a.size(); i < n; ++i)
    if (std::isnan(a.element(i))) return true;
  return false;
}
void elements(const NDArray& a, size_t dim, int64_t& at, std::string& out) {
  if (dim == a.shape().size()) {
    const DataType t = a.dtype();
    if (t.is_bool())
      out += a.element_int(at) ? "True" : "False";
    else if (t.is_integer())
      out += std::to_string(a.element_int(at));
    else
      out += float_text(a.element(at));
    ++at;
    return;
  }
  out += '[';
  for (int64_t i = 0; i < a.shape()[dim]; ++i) {
    if (i) out += ", ";
    elements(a, dim + 1, at, out);
  }
  out += ']';
}
std::string shape_text(const NDArray& a) {
  std::string s = "(";
  for (const int64_t& d : a.shape())
    s += std::to_string(d) + (a.ndim() == 1 ? "," : &d == &a.shape().back() ? "" : ", ");
  return s + ")";
}
}  // namespace

// A NaN is printed by its bytes, because its payload counts in equality.
void Printer::ndarray(const NDArray& a, std::string_view inline_form, std::string_view reference_form) {
  if (!a) {
    out_ += "None";
    return;
  }
  const std::string dtype = to_string(a.dtype());
  if (a.size() > options_.inline_elements) {
    const uint64_t hash = a.hash();
    if (options_.constants) options_.constants->emplace(hash, a);
    out_ += fmt::format("{}(0x{:016x}, {}, \"{}\")", reference_form, hash, shape_text(a), dtype);
    return;
  }
  if (has_odd_nan(a)) {
    std::string hex;
    for (size_t i = 0; i < a.byte_size(); ++i) hex += fmt::format("{:02x}", a.as_ptr<unsigned char>()[i]);
    out_ += fmt::format("{}_bytes(\"{}\", {}, \"{}\")", inline_form, hex, shape_text(a), dtype);
    return;
  }
  out_ += inline_form;
  out_ += '(';
  int64_t at = 0;
  if (a.size() == 0)
    out_ += fmt::format("[], \"{}\", shape={})", dtype, shape_text(a));
  else {
    elements(a, 0, at, out_);
    out_ += fmt::format(", \"{}\")", dtype);
  }
}

void Printer::type_definition(const graph::AdtDefNode& d) {
  line();
  out_ += "@I.data_type";
  line();
  out_ += "class " + d.name;
  if (!d.params.empty()) {
    out_ += '[';
    list(d.params, [&](const std::string& x) { out_ += x; });
    out_ += ']';
  }
  out_ += ':';
  Indented in(*this);
  if (d.constructors.empty()) {  // its values come from elsewhere
    line();
    out_ += "pass";
  }
  for (const auto& c : d.constructors) {
    line();
    out_ += c->name + ": (";
    list(c->items, [&](const graph::Type& t) { type(t); });
    out_ += c->items.size() == 1 ? ",)" : ")";
  }
}

/// Type parameters keep their names, so no variable may take them.
void Printer::reserve_types(const graph::Function& f) {
  for (const std::string& name : f.type_params) names_.reserve(name);
  pre_order(f.body, [&](const ObjectRef& n) {
    if (const auto* inner = n.as<graph::Function>())
      for (const std::string& name : inner->type_params) names_.reserve(name);
    return !n.is<graph::TypeNode>() && !n.is<tir::PrimExprNode>();
  });
}

void Printer::module(const IRModuleNode& m) {
  out_ += "@I.ir_module\nclass Module:";
  Indented in(*this);
  if (!m.attrs.empty()) {
    line();
    out_ += "I.module_attrs(";
    map(m.attrs);
    out_ += ')';
  }
  bool first = m.attrs.empty();
  if (m.functions.empty() && m.types.empty() && first) {
    line();
    out_ += "pass";
  }
  for (const auto& [name, def] : m.types) {
    if (!first) out_ += '\n';
    first = false;
    type_definition(*def);
  }
  for (const auto& [name, function] : m.functions) {
    if (!first) out_ += '\n';
    first = false;
    line();
    names_ = {};
    for (const auto& [type_name, def] : m.types) {
      names_.reserve(type_name);
      for (const auto& c : def->constructors) names_.reserve(c->name);
    }
    if (const auto* f = function.as<graph::Function>()) reserve_types(*f);
    data_owner_.clear();
    loops_.clear();
    declared_.clear();
    const std::string& text = name;
    std::string label = text;
    if (!is_identifier(text)) {
      out_ += "@I.name(" + quoted(text) + ")";
      line();
      label = sanitized(text);
    }
    if (function.is<tir::PrimFuncNode>())
      prim_func(label, function.cast<tir::PrimFuncNode>());
    else if (const auto* f = function.as<graph::Function>())
      graph_function(label, *f, "@R.function");
    else if (const auto* e = function.as<graph::ExternFunc>())
      out_ += fmt::format("{} = R.ExternFunc({})", label, quoted(e->symbol));
    else {
      out_ += label + " = ";
      any(Any(function));
    }
  }
  out_ += '\n';
}

void Printer::node(const ObjectRef& o) {
  if (const auto* m = o.as<IRModuleNode>())
    module(*m);
  else if (o.is<tir::PrimFuncNode>())
    prim_func("main", o.cast<tir::PrimFuncNode>()), out_ += '\n';
  else if (const auto* f = o.as<graph::Function>())
    graph_function("main", *f, "@R.function"), out_ += '\n';
  else if (o.is<tir::StmtNode>()) {
    stmt(o.cast<tir::StmtNode>());
    out_ += '\n';
  } else if (const auto* s = o.as<graph::SeqExpr>()) {
    bindings(o.cast<graph::ExprNode>());
    line();
    graph_expr(s->body);
    out_ += '\n';
  } else if (o.is<graph::ExprNode>()) {
    graph_expr(o.cast<graph::ExprNode>());
  } else if (const auto* e = o.as<tir::PrimExprNode>()) {
    if (is_type_index<tir::Var>(e->type_index))
      variable(static_cast<const tir::Var*>(e));
    else {
      PrimExpr p;
      static_cast<Ref<tir::PrimExprNode>&>(p) = Ref<tir::PrimExprNode>(e);
      expr(p);
    }
  } else if (const auto* v = o.as<graph::VarBindingNode>()) {
    out_ += v->var ? v->var->name + " = " : "";
    graph_expr(v->value);
  } else {
    any(Any(o));
  }
}

}  // namespace print_detail

static std::string print_noting(const ObjectRef& node, const PrintOptions& options, NodeLines* lines) {
  if (!node) return "None";
  print_detail::Printer p(options, lines);
  p.node(node);
  std::string text = p.take();
  const size_t start = text.find_first_not_of('\n');
  if (lines && start != text.npos)
    for (auto& [object, line] : *lines) line -= int32_t(start);
  return start == text.npos ? text : text.substr(start);
}

std::string print(const ObjectRef& node, const PrintOptions& options) {
  return print_noting(node, options, nullptr);
}
std::string print_with_lines(const ObjectRef& node, NodeLines& lines) {
  return print_noting(node, {}, &lines);
}

}  // namespace tenon
