// SPDX-License-Identifier: Apache-2.0
// Tensor programs drawn for Graphviz: the tree of loops and blocks, and what blocks read and write.
#include <map>
#include <set>

#include "ir/text.h"
#include "ir/walk.h"
#include "tools/dot_impl.h"

namespace tenon::dot {
namespace {

class ProgramDrawing {
 public:
  ProgramDrawing(const tir::PrimFunc& f, std::string prefix) : f_(f), prefix_(std::move(prefix)) {}

  std::string run(const std::string& name) {
    out_ = fmt::format("  subgraph cluster_{}f {{\n    {}; style=rounded; color=gray50;\n", prefix_,
                       attribute("label", wrapped(name, 60, 2)));
    for (const tir::VarRef& p : f_->params) {
      if (auto b = f_->buffer_map.find(p))
        buffer(*b);
      else
        node(p->name, "shape=ellipse, style=filled, fillcolor=lightblue");
    }
    statement(f_->body, -1);
    return out_ + "  }\n" + edges_;
  }

 private:
  int node(std::string_view label, std::string_view style) {
    out_ += fmt::format("    {}{} [{}, {}];\n", prefix_, next_, attribute("label", label), style);
    return next_++;
  }
  void edge(int from, int to, std::string_view style) {
    edges_ += fmt::format("  {}{} -> {}{} [{}];\n", prefix_, from, prefix_, to, style);
  }
  /// A node below `parent`.
  int child(int parent, std::string_view label, std::string_view style) {
    const int id = node(label, style);
    if (parent >= 0) edge(parent, id, "color=gray40");
    return id;
  }
  int buffer(const tir::Buffer& b) {
    if (auto it = buffers_.find(b->data.get()); it != buffers_.end()) return it->second;
    std::string label = b->name + "\n" + shape_words(b->shape, b->dtype);
    if (b->scope != "global") label += "\n" + b->scope;
    return buffers_[b->data.get()] = node(label, "shape=ellipse, style=filled, fillcolor=lightblue");
  }
  void access(int at, const tir::Buffer& b, bool write) {
    const int from = buffer(b);
    if (!seen_.insert({at, from, write}).second) return;
    if (write)
      edge(at, from, "color=firebrick, constraint=false");
    else
      edge(from, at, "color=steelblue, constraint=false");
  }

  /// Statements nest as deep as the verifier allows, not as long as a program is.
  void statement(const tir::Stmt& s, int parent) {
    if (!s) return;
    if (const auto* n = s.as<tir::SeqStmt>()) {
      for (const tir::Stmt& i : n->seq) statement(i, parent);
    } else if (const auto* n = s.as<tir::For>()) {
      static constexpr const char* kinds[] = {"", "parallel", "vectorized", "unrolled", "thread"};
      static constexpr const char* colors[] = {"white", "honeydew", "mistyrose", "lavender", "thistle"};
      const auto kind = size_t(n->kind);
      std::string label = fmt::format("for {} in {}", n->loop_var->name, wrapped(print(n->extent), 24, 1));
      if (kind) label += fmt::format("\n{} {}", kinds[kind], n->thread_tag);
      statement(n->body, child(parent, label, fmt::format("style=filled, fillcolor={}", colors[kind])));
    } else if (const auto* n = s.as<tir::BlockRealize>()) {
      const tir::Block& b = *n->block;
      if (b.iter_vars.empty() && b.name == "root") {
        for (const tir::Buffer& a : b.alloc_buffers) buffer(a);
        return statement(b.body, parent);
      }
      std::string label = "block " + b.name;
      for (const tir::IterVar& v : b.iter_vars)
        label += fmt::format("\n{} {}: {}",
                             v->kind == tir::IterKind::spatial  ? "spatial"
                             : v->kind == tir::IterKind::reduce ? "reduce"
                                                                : "iterator",
                             v->var->name, wrapped(print(v->dom->extent), 20, 1));
      const int at = child(parent, wrapped(label, 200, 8), "style=\"filled,bold\", fillcolor=lightyellow");
      for (const tir::BufferRegion& r : b.reads) access(at, r->buffer, false);
      for (const tir::BufferRegion& r : b.writes) access(at, r->buffer, true);
      for (const tir::Buffer& a : b.alloc_buffers) buffer(a);
      if (b.init) statement(b.init, child(at, "init", "shape=plaintext"));
      statement(b.body, at);
    } else if (const auto* n = s.as<tir::BufferStore>()) {
      if (parent >= 0 && !in_blocks()) {
        const int at = child(parent, "store " + n->buffer->name, "shape=plaintext");
        access(at, n->buffer, true);
        post_order(n->value, [&](const ObjectRef& e) {
          if (const auto* l = e.as<tir::BufferLoad>()) access(at, l->buffer, false);
        });
      }
    } else if (const auto* n = s.as<tir::IfThenElse>()) {
      const int at = child(parent, "if " + wrapped(print(n->condition), 30, 2), "shape=diamond");
      statement(n->then_case, at);
      if (n->else_case) statement(n->else_case, child(at, "else", "shape=plaintext"));
    } else if (const auto* n = s.as<tir::While>()) {
      statement(n->body, child(parent, "while " + wrapped(print(n->condition), 30, 2), "shape=diamond"));
    } else if (const auto* n = s.as<tir::LetStmt>()) {
      statement(n->body, parent);
    } else if (const auto* n = s.as<tir::Allocate>()) {
      buffer(n->buffer);
      statement(n->body, parent);
    } else if (const auto* n = s.as<tir::AllocateConst>()) {
      buffer(n->buffer);
      statement(n->body, parent);
    } else if (const auto* n = s.as<tir::DeclBuffer>()) {
      statement(n->body, parent);
    } else if (const auto* n = s.as<tir::BufferRealize>()) {
      buffer(n->buffer);
      statement(n->body, parent);
    } else if (const auto* n = s.as<tir::AttrStmt>()) {
      statement(n->body, parent);
    } else if (const auto* n = s.as<tir::Evaluate>()) {
      if (n->value.is<tir::Call>()) child(parent, wrapped(print(n->value), 30, 2), "shape=plaintext");
    }
  }
  /// The program still has blocks, which name their accesses themselves.
  bool in_blocks() {
    if (blocks_ < 0) {
      blocks_ = 0;
      post_order(f_->body, [&](const ObjectRef& n) {
        if (const auto* b = n.as<tir::Block>(); b && !b->iter_vars.empty()) blocks_ = 1;
      });
    }
    return blocks_ == 1;
  }

  const tir::PrimFunc& f_;
  std::string prefix_, out_, edges_;
  std::map<const tir::Var*, int> buffers_;
  std::set<std::tuple<int, int, bool>> seen_;
  int next_ = 0, blocks_ = -1;
};

}  // namespace

std::string draw_program(const std::string& name, const tir::PrimFunc& f, const std::string& prefix) {
  return ProgramDrawing(f, prefix).run(name);
}

}  // namespace tenon::dot
