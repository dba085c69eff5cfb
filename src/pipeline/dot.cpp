// SPDX-License-Identifier: Apache-2.0
// Graph functions drawn for Graphviz.
#include <fmt/format.h>

#include "ir/text.h"
#include "ir/walk.h"
#include "pipeline/emit.h"

namespace tenon {
namespace {

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text.substr(0, 120)) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out;
}

class DotWriter {
 public:
  void function(const std::string& name, const graph::Function& f) {
    out_ += fmt::format("  subgraph \"cluster_{}\" {{\n    label=\"{}\";\n", escaped(name), escaped(name));
    for (const auto& p : f.params) node(p.get(), p->name, p->type, "ellipse");
    body(f.body);
    out_ += "  }\n" + edges_;
    edges_.clear();
  }
  std::string take() {
    return "digraph tenon {\n  rankdir=TB;\n  node [fontname=\"sans-serif\", fontsize=10];\n  edge "
           "[fontname=\"sans-serif\", fontsize=8];\n" +
           out_ + "}\n";
  }

 private:
  int id(const Object* o) { return ids_.try_emplace(o, int(ids_.size())).first->second; }
  void node(const Object* o, const std::string& label, const graph::Type& type, const char* shape) {
    out_ += fmt::format("    n{} [label=\"{}\\n{}\", shape={}];\n", id(o), escaped(label),
                        type ? escaped(print(type)) : "", shape);
  }
  void edge(const graph::Expr& from, const Object* to) {
    if (from.is<graph::Var>()) {
      edges_ += fmt::format("  n{} -> n{};\n", id(from.get()), id(to));
    } else if (const auto* c = from.as<graph::Constant>()) {
      if (c->data.size() > 1) {
        node(c, "constant", from->type, "note");
        edges_ += fmt::format("  n{} -> n{};\n", id(c), id(to));
      }
    } else if (const auto* t = from.as<graph::Tuple>()) {
      for (const graph::Expr& item : t->items) edge(item, to);
    }
  }
  void body(const graph::Expr& e) {
    const auto* seq = e.as<graph::SeqExpr>();
    if (!seq) return;
    for (const graph::BindingBlock& block : seq->blocks)
      for (const graph::Binding& b : block->bindings) bind(graph::binding_var(b), graph::binding_value(b));
  }
  void bind(const graph::VarRef& var, const graph::Expr& value) {
    std::string label = "value";
    if (const auto* call = value.as<graph::Call>()) {
      if (const auto* op = call->op.as<graph::Op>()) {
        label = op->name;
        if (!call->args.empty())
          if (const auto* g = call->args[0].as<graph::GlobalVar>()) label = g->name;
      } else if (const auto* g = call->op.as<graph::GlobalVar>()) {
        label = g->name;
      } else {
        label = "call";
      }
      node(var.get(), label, var->type, "box");
      for (const graph::Expr& a : call->args) edge(a, var.get());
    } else if (const auto* item = value.as<graph::TupleGetItem>()) {
      node(var.get(), fmt::format("item {}", item->index), var->type, "box");
      edge(item->tuple, var.get());
    } else if (const auto* choice = value.as<graph::If>()) {
      node(var.get(), "if", var->type, "diamond");
      edge(choice->condition, var.get());
      body(choice->true_branch);
      body(choice->false_branch);
    } else if (const auto* loop = value.as<graph::While>()) {
      node(var.get(), "while", var->type, "diamond");
      for (const graph::Expr& i : loop->init) edge(i, var.get());
      body(loop->body);
    } else {
      node(var.get(), value.is<graph::Tuple>() ? "tuple" : std::string(type_key_of(value)), var->type, "box");
      edge(value, var.get());
    }
  }

  std::unordered_map<const Object*, int> ids_;
  std::string out_, edges_;
};

}  // namespace

std::string to_dot(const IRModule& module) {
  DotWriter writer;
  for (const auto& [name, f] : module.functions())
    if (const auto* function = f.as<graph::Function>()) writer.function(name, *function);
  return writer.take();
}

}  // namespace tenon
