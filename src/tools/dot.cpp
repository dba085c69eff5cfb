// SPDX-License-Identifier: Apache-2.0
// Graph functions drawn for Graphviz. Tuples are no nodes: an edge goes from what made a tensor to what uses
// it.
#include "tools/dot.h"

#include <algorithm>
#include <map>

#include "ir/attr_keys.h"
#include "ir/bodies.h"
#include "ir/text.h"
#include "ir/walk.h"
#include "tools/dot_impl.h"

namespace tenon {
namespace dot {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out;
}

std::string wrapped(std::string_view text, size_t width, size_t lines) {
  std::string out;
  for (size_t line = 0; !text.empty(); ++line) {
    if (line + 1 == lines && text.size() > width) {
      // Whole characters of UTF-8 only.
      size_t end = width - 1;
      while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
      return out + std::string(text.substr(0, end)) + "…";
    }
    size_t end = text.size();
    if (end > width) {
      end = text.substr(0, width).find_last_of("_, ");
      end = end == text.npos || end < width / 3 ? width : end + 1;
      while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) ++end;
    }
    out += (out.empty() ? "" : "\n") + std::string(text.substr(0, end));
    text.remove_prefix(end);
  }
  return out;
}

std::string shape_words(const Array<PrimExpr>& shape, DataType dtype) {
  std::string out = dtype == f32 || dtype.is_void() ? "" : to_string(dtype);
  if (shape.empty()) return out.empty() ? "scalar" : out;
  if (!out.empty()) out += " ";
  for (size_t i = 0; i < shape.size(); ++i) {
    const std::string d = print(shape[i]);
    out += (i ? "×" : "") + (d.find(' ') == d.npos ? d : "(" + d + ")");
  }
  return out;
}

}  // namespace dot

namespace {
using namespace graph;
using dot::attribute;

/// Where a tensor comes from: a node and, where a node makes several, which of them.
struct DotSource {
  int node = -1;
  int output = 0, outputs = 1;
  Type type;
  std::vector<DotSource> items;  ///< of a tuple whose parts are known apart
  std::string text;              ///< instead of a node: written on the user
};

std::string type_words(const Type& type) {
  if (!type) return "";
  if (const auto* t = as_tensor(type)) {
    if (const auto shape = known_shape(type)) return dot::shape_words(*shape, t->dtype);
    return (t->dtype == f32 || t->dtype.is_void() ? "" : to_string(t->dtype) + " ") +
           (t->ndim < 0 ? "?" : fmt::format("{}-d", t->ndim));
  }
  if (type.is<TupleType>()) return fmt::format("tuple of {}", type.as<TupleType>()->items.size());
  return dot::wrapped(print(type), 32, 1);
}

class GraphDrawing {
 public:
  explicit GraphDrawing(const IRModule& module) : module_(module) {}

  void function(const std::string& name, const Ref<Function>& f) {
    open(name, "style=rounded, color=gray50");
    for (const VarRef& p : f->params) values_[p.get()] = input(p);
    const DotSource result = body(f->body);
    const int out = node("result", "shape=ellipse, style=filled, fillcolor=gray92");
    edges(result, out);
    close();
  }
  std::string take() { return std::move(out_) + std::move(edges_); }

 private:
  void open(std::string_view label, std::string_view style) {
    line(fmt::format("subgraph cluster_{} {{", clusters_++));
    ++depth_;
    line(fmt::format("graph [{}, {}];", attribute("label", label), style));
  }
  void close() {
    --depth_;
    line("}");
  }
  void line(std::string_view text) {
    out_.append(size_t(depth_) * 2, ' ');
    out_ += text;
    out_ += '\n';
  }
  int node(std::string_view label, std::string_view style, std::string_view tooltip = {}) {
    std::string text = fmt::format("n{} [{}", next_, attribute("label", label));
    if (!style.empty()) text += fmt::format(", {}", style);
    if (!tooltip.empty()) text += ", " + attribute("tooltip", tooltip);
    line(text + "];");
    return next_++;
  }
  DotSource input(const VarRef& p) {
    DotSource s;
    s.node = node(p->name, "shape=ellipse, style=filled, fillcolor=lightblue");
    s.type = p->declared ? p->declared : p->type;
    return s;
  }
  void edge(const DotSource& from, int to, std::string_view style = {}) {
    std::string label = type_words(from.type);
    if (from.outputs > 1) label += fmt::format(" [{}]", from.output);
    edges_ += fmt::format("  n{} -> n{} [{}{}{}];\n", from.node, to, attribute("label", label),
                          style.empty() ? "" : ", ", style);
  }
  /// Edges from everything that a value is made of.
  void edges(const DotSource& from, int to, std::string_view style = {}) {
    if (!from.items.empty()) {
      for (const DotSource& i : from.items) edges(i, to, style);
    } else if (from.node >= 0) {
      edge(from, to, style);
    }
  }

  /// A constant is a few words on whatever uses it.
  static std::string constant_words(const NDArray& a) {
    if (a.size() == 1 && a.dtype().is_float()) return fmt::format("{:.4g}", a.element(0));
    if (a.size() == 1) return std::to_string(a.element_int(0));
    Array<PrimExpr> shape;
    for (int64_t d : a.shape()) shape.push_back(d);
    return dot::shape_words(shape, a.dtype());
  }
  DotSource of(const Expr& e) {
    DotSource out;
    out.type = e->type;
    if (const auto* v = e.as<Var>()) {
      const auto it = values_.find(v);
      return it == values_.end() ? out : it->second;
    }
    if (const auto* t = e.as<Tuple>()) {
      for (const Expr& i : t->items) out.items.push_back(of(i));
    } else if (const auto* c = e.as<Constant>()) {
      out.text = constant_words(c->data);
    } else if (const auto* g = e.as<GlobalVar>()) {
      out.text = "@" + g->name;
    } else if (const auto* s = e.as<ShapeExpr>()) {
      out.text = "(";
      for (size_t i = 0; i < s->values.size(); ++i) out.text += (i ? ", " : "") + print(s->values[i]);
      out.text += ")";
    } else if (const auto* p = e.as<PrimValue>()) {
      out.text = print(p->value);
    } else if (const auto* s = e.as<StringImm>()) {
      out.text = s->value;
    } else if (const auto* d = e.as<DataTypeImm>()) {
      out.text = to_string(d->value);
    } else if (e.is<SeqExpr>()) {
      return body(e);
    }
    return out;
  }
  static void words_of(const DotSource& s, std::vector<std::string>& out) {
    if (!s.text.empty()) out.push_back(s.text);
    for (const DotSource& i : s.items) words_of(i, out);
  }

  DotSource body(const Expr& e) {
    for (const Binding& b : bindings_of(e)) values_[b->var.get()] = bind(b);
    return of(result_of(e));
  }
  DotSource bind(const Binding& b) {
    const VarRef var = b->var;
    const Expr value = b->value;
    const Type type = var->declared ? var->declared : value->type;
    if (const auto* item = value.as<TupleGetItem>()) {
      const DotSource from = of(item->tuple);
      if (size_t(item->index) < from.items.size()) return from.items[size_t(item->index)];
      DotSource out = from;
      out.type = type;
      if (const auto* t = from.type.as<TupleType>())
        out.output = int(item->index), out.outputs = int(t->items.size());
      return out;
    }
    if (const auto* c = value.as<Call>()) return call(*c, type);
    if (const auto* n = value.as<If>()) {
      open("if", "style=\"rounded,dashed\", color=gray40");
      const int question = node("if", "shape=diamond");
      edges(of(n->condition), question);
      const DotSource t = way("then", n->true_branch), f = way("else", n->false_branch);
      const DotSource out = merged("either", type, {t, f});
      close();
      return out;
    }
    if (const auto* n = value.as<graph::Match>()) {
      open("match", "style=\"rounded,dashed\", color=gray40");
      const int question = node("match", "shape=diamond");
      edges(of(n->value), question);
      std::vector<DotSource> ways;
      for (const MatchClause& c : n->clauses) {
        std::vector<VarRef> vars;
        variables_of(c->pattern, vars);
        for (const VarRef& v : vars) {
          DotSource part;
          part.node = question;
          part.type = v->declared;
          values_[v.get()] = part;
        }
        ways.push_back(way(c->pattern->constructor ? c->pattern->constructor->name : "case", c->body));
      }
      const DotSource out = merged("either", type, ways);
      close();
      return out;
    }
    if (const auto* n = value.as<While>()) return loop(*n, type);
    if (const auto* f = value.as<Function>()) {
      open(var->name, "style=\"rounded,dotted\", color=gray40");
      for (const VarRef& p : f->params) values_[p.get()] = input(p);
      const DotSource result = body(f->body);
      DotSource out;
      out.node = node("closure", "shape=component");
      out.type = type;
      edges(result, out.node, "style=dotted");
      close();
      return out;
    }
    DotSource out = of(value);
    if (b.is<MatchCastNode>() && out.items.empty()) out.type = type;
    return out;
  }
  DotSource way(std::string_view label, const Expr& e) {
    open(label, "style=rounded, color=gray70");
    const DotSource made = body(e);
    close();
    return made;
  }
  DotSource merged(const char* label, const Type& type, const std::vector<DotSource>& ways) {
    DotSource out;
    out.node = node(label, "shape=circle, fontsize=8");
    out.type = type;
    for (const DotSource& w : ways) edges(w, out.node);
    return out;
  }
  DotSource loop(const While& n, const Type& type) {
    open("while", "style=\"rounded,dashed\", color=gray40");
    DotSource out;
    out.type = type;
    for (size_t i = 0; i < n.loop_vars.size(); ++i) {
      DotSource state = input(n.loop_vars[i]);
      const DotSource init = of(n.init[i]);
      edges(init, state.node);
      values_[n.loop_vars[i].get()] = state;
      out.items.push_back(state);
    }
    const DotSource go = way("condition", n.condition);
    const int question = node("again?", "shape=diamond");
    edges(go, question);
    const DotSource next = way("turn", n.body);
    for (size_t i = 0; i < next.items.size() && i < out.items.size(); ++i)
      edges(next.items[i], out.items[i].node, "style=dashed, constraint=false");
    close();
    return out;
  }

  DotSource call(const Call& c, const Type& type) {
    std::string label = "call", tooltip;
    std::string style = "style=\"filled,rounded\", fillcolor=white";
    Array<Expr> args = c.args;
    size_t outputs = 1;
    if (const auto* t = type.as<TupleType>()) outputs = t->items.size();
    if (const auto* op = c.op.as<Op>()) {
      label = op->name;
      const auto* g = args.empty() ? nullptr : args[0].as<GlobalVar>();
      const auto* e = args.empty() ? nullptr : args[0].as<ExternFunc>();
      if (op->name.starts_with("call_tir") && g) {
        label = g->name;
        style = "style=\"filled,rounded\", fillcolor=lightyellow";
        if (const auto* f = module_.find(g->name).as<tir::PrimFuncNode>())
          if (auto sources = f->attrs.get_or(kSourceAttr, Any()).try_as<Array<std::string>>();
              sources && *sources)
            for (const std::string& s : *sources) tooltip += (tooltip.empty() ? "" : "\n") + s;
        args = args.size() > 1 ? Array<Expr>{args[1]} : Array<Expr>();
      } else if (e) {
        label = e->symbol.starts_with("vm.builtin.") ? e->symbol.substr(11) : e->symbol;
        style = "style=\"filled,rounded\", fillcolor=gray96";
        args.erase(0);
      }
    } else if (const auto* g = c.op.as<GlobalVar>()) {
      const auto f = module_.find(g->name).cast<Function>();
      if (f && is_primitive(*f) && f->params.size() == args.size()) return fused(g->name, f, args, type);
      label = g->name;
      style = "shape=box, peripheries=2";
    } else if (const auto* made = c.op.as<Constructor>()) {
      label = made->name;
      style = "shape=house";
    }
    std::vector<DotSource> from;
    std::vector<std::string> words;
    for (const Expr& a : args) {
      from.push_back(of(a));
      words_of(from.back(), words);
    }
    label = dot::wrapped(label, 26, 3);
    std::string beside;
    for (const std::string& w : words) beside += (beside.empty() ? "" : ", ") + w;
    if (!beside.empty()) label += "\n" + dot::wrapped(beside, 30, 2);
    DotSource out;
    out.node = node(label, style, tooltip);
    out.type = type;
    for (const DotSource& s : from) edges(s, out.node);
    if (const auto* t = type.as<TupleType>(); t && outputs > 0)
      for (size_t i = 0; i < outputs; ++i) {
        DotSource item;
        item.node = out.node;
        item.output = int(i), item.outputs = int(outputs);
        item.type = t->items[i];
        out.items.push_back(item);
      }
    return out;
  }
  /// What becomes one kernel, drawn where it is called.
  DotSource fused(const std::string& name, const Ref<Function>& f, const Array<Expr>& args,
                  const Type& type) {
    std::vector<DotSource> given;
    for (const Expr& a : args) given.push_back(of(a));
    open(dot::wrapped(name, 40, 2), "style=\"filled,rounded\", fillcolor=lightyellow, color=goldenrod");
    // One program may be called from several places: its variables have other values in each.
    auto outer = values_;
    for (size_t i = 0; i < given.size(); ++i) values_[f->params[i].get()] = given[i];
    DotSource out = body(f->body);
    values_ = std::move(outer);
    close();
    if (out.items.empty()) out.type = type;
    return out;
  }

  const IRModule& module_;
  std::unordered_map<const Var*, DotSource> values_;
  std::string out_, edges_;
  int next_ = 0, clusters_ = 0, depth_ = 1;
};

}  // namespace

std::string to_dot(const IRModule& module, const DotOptions& options) {
  std::string body;
  bool any = false, graphs = false;
  GraphDrawing drawing(module);
  for (const auto& [name, object] : module.functions()) {
    const auto f = object.cast<graph::Function>();
    if (!f || (options.function.empty() ? graph::is_primitive(*f) : options.function != name)) continue;
    drawing.function(name, f);
    any = graphs = true;
  }
  body += drawing.take();
  int programs = 0;
  for (const auto& [name, object] : module.functions()) {
    const auto f = object.cast<tir::PrimFuncNode>();
    if (!f || (options.function.empty() ? graphs : options.function != name)) continue;
    body += dot::draw_program(name, f, fmt::format("p{}_", programs++));
    any = true;
  }
  if (!any && !options.function.empty()) {
    std::string names;
    for (const auto& [name, object] : module.functions()) names += (names.empty() ? "" : ", ") + name;
    fail("T0926", fmt::format("the module has no function `{}`", options.function), {},
         "its functions are " + dot::wrapped(names, 400, 1), ErrorKind::usage);
  }
  return "digraph tenon {\n  rankdir=TB; compound=true; nodesep=0.25; ranksep=0.3;\n"
         "  graph [fontname=\"sans-serif\", fontsize=11];\n"
         "  node [shape=box, fontname=\"sans-serif\", fontsize=10, margin=\"0.08,0.04\", height=0.3];\n"
         "  edge [fontname=\"sans-serif\", fontsize=8, arrowsize=0.6];\n" +
         body + "}\n";
}

}  // namespace tenon
