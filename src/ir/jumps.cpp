// SPDX-License-Identifier: Apache-2.0
#include "ir/jumps.h"

#include <fmt/format.h>

#include "ir/origin.h"
#include "ir/verify_impl.h"
#include "ir/walk.h"

namespace tenon {

using namespace tir;

namespace {

Jump jump_of_call(const ObjectRef& o) {
  const auto* c = o.as<tir::Call>();
  if (!c) return Jump::none;
  return c->op == "tir.ret"             ? Jump::end_of_program
         : c->op == "tir.break_loop"    ? Jump::end_of_loop
         : c->op == "tir.continue_loop" ? Jump::next_iteration
                                        : Jump::none;
}

std::string_view word(Jump jump) {
  return jump == Jump::end_of_program ? "return" : jump == Jump::end_of_loop ? "break" : "continue";
}

/// Where each jump of a function leads: out of serial loops and branches only.
class Jumps {
 public:
  Jumps(std::string where, DiagnosticList& problems) : where_(std::move(where)), problems_(problems) {}

  /// `loop`: what a break would leave; `wall`: what a return cannot leave, in words.
  void stmt(const Stmt& s, const Stmt& loop, const std::string& wall) {
    if (!s) return;
    if (const Jump jump = jump_of(s); jump != Jump::none) return jumps(s, jump, loop, wall);
    values(s);
    outermost_ = outermost_ && (s.is<BlockRealize>() || is_scope(s));
    if (const auto* n = s.as<For>()) {
      const bool ordered = n->kind == ForKind::serial || n->kind == ForKind::unrolled;
      const std::string inner = ordered ? wall : fmt::format("the {} loop `{}`", kind(*n), n->loop_var->name);
      return stmt(n->body, s, inner);
    }
    if (const auto* n = s.as<tir::While>()) return stmt(n->body, s, wall);
    if (const auto* n = s.as<BlockRealize>()) return block(*n->block, n->iter_values.empty() && outermost_);
    for (const ObjectRef& c : children(s))
      if (c.is<StmtNode>()) stmt(c.cast<StmtNode>(), loop, wall);
  }

 private:
  static bool is_scope(const Stmt& s) {
    return s.is<LetStmt>() || s.is<Allocate>() || s.is<AllocateConst>() || s.is<DeclBuffer>() ||
           s.is<AttrStmt>();
  }
  static std::string_view kind(const For& n) {
    return n.kind == ForKind::parallel     ? "parallel"
           : n.kind == ForKind::vectorized ? "vectorised"
                                           : "thread-bound";
  }
  /// The root block holds what the program allocates: a return leaves it.
  void block(const Block& b, bool root) {
    outermost_ = false;
    const std::string wall = root ? std::string() : fmt::format("block `{}`", b.name);
    stmt(b.init, Stmt(), fmt::format("the init of block `{}`", b.name));
    stmt(b.body, Stmt(), wall);
  }
  void jumps(const Stmt& s, Jump jump, const Stmt& loop, const std::string& wall) {
    if (jump == Jump::end_of_program) {
      if (!wall.empty()) refuse(s, jump, wall);
      return;
    }
    if (!loop)
      add(s, fmt::format("`{}` stands in no loop{}", word(jump), wall.empty() ? "" : " of " + wall));
    else if (const auto* n = loop.as<For>(); n && n->kind != ForKind::serial && n->kind != ForKind::unrolled)
      refuse(s, jump, wall);
  }
  void refuse(const Stmt& s, Jump jump, const std::string& wall) {
    add(s, fmt::format("`{}` would leave {}", word(jump), wall));
  }
  /// A jump has no value.
  void values(const Stmt& s) {
    for (const ObjectRef& c : children(s))
      if (c.is<PrimExprNode>())
        pre_order(c, [&](const ObjectRef& o) {
          if (const Jump jump = jump_of_call(o); jump != Jump::none)
            add(s, fmt::format("`{}` stands inside of an expression", word(jump)));
          return !o.is<BufferNode>();
        });
  }
  void add(const Stmt& s, std::string message) {
    const std::string at = place(s->origin);
    problems_.add(Diagnostic{"T0339",
                             std::move(message),
                             at.empty() ? where_ : at,
                             "jumps are statements that leave branches, serial loops and while loops",
                             {}});
  }

  std::string where_;
  DiagnosticList& problems_;
  bool outermost_ = true;  ///< nothing but scopes stands around the statement
};

}  // namespace

Jump tir::jump_of(const Stmt& s) {
  const auto* e = s.as<tir::Evaluate>();
  return e ? jump_of_call(e->value) : Jump::none;
}

Stmt tir::find_jump(const Stmt& s) {
  Stmt found;
  if (s)
    pre_order(s, [&](const ObjectRef& o) {
      if (o.is<tir::Evaluate>() && !found && jump_of(o.cast<StmtNode>()) != Jump::none)
        found = o.cast<StmtNode>();
      return !found && (o.is<StmtNode>() || o.is<ArrayObj>());
    });
  return found;
}

void verify_jumps(const std::string& name, const Stmt& body, DiagnosticList& problems) {
  Jumps("function `" + name + "`", problems).stmt(body, Stmt(), {});
}

}  // namespace tenon
