// SPDX-License-Identifier: Apache-2.0
// lower_jumps
//   before: for i in range(n):                after:  jump[0] = 0
//             if A[i] > 9: break                      for i in range(n):
//             B[i] = A[i]                               if jump[0] == 0:
//                                                         if A[i] > 9: jump[0] = 2
//                                                         if jump[0] == 0: B[i] = A[i]
//                                                     jump[0] = 0
// What a program jumps over stands under conditions, so that no analysis has to know jumps. One variable for
// each part that runs in order (the program, a block, an iteration of a parallel loop) says whether a jump is
// under way: 1 to the next iteration, 2 out of the loop, 3 out of the program. A code generator leaves a loop
// whose body's condition fails (`leaves_early` in codegen/lowered.h).
// Needs: nothing. Keeps: what runs.
#include "ir/jumps.h"
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;

namespace {

class LowerJumps {
 public:
  /// A part of which no jump leads out.
  Stmt part(const Stmt& s) {
    if (!find_jump(s)) return s;
    const Buffer outer = std::exchange(state_, buffer("jump", {tensor_detail::imm(1)}, i32));
    const bool outer_used = std::exchange(used_, false);
    Exits exits;
    Stmt body = stmt(s, exits);
    if (used_) body = make<Allocate>(state_, seq({set(Jump::none), body}), AttrMap());
    state_ = outer;
    used_ = outer_used;
    return body;
  }

 private:
  /// Jumps that a statement may have under way when it ends.
  struct Exits {
    bool any = false, next = false, loop = false, program = false;
    void add(Jump j) {
      any = true;
      next = next || j == Jump::next_iteration;
      loop = loop || j == Jump::end_of_loop;
      program = program || j == Jump::end_of_program;
    }
    void add(const Exits& o) {
      any = any || o.any;
      next = next || o.next;
      loop = loop || o.loop;
      program = program || o.program;
    }
  };

  Stmt stmt(const Stmt& s, Exits& exits) {
    if (const Jump jump = jump_of(s); jump != Jump::none) {
      check_value(s, jump);
      exits.add(jump);
      return with_origin(set(jump).cast<BufferStore>(), s->origin);
    }
    if (!find_jump(s)) return s;
    if (const auto* n = s.as<SeqStmt>()) return sequence(*n, exits);
    if (const auto* n = s.as<For>()) return loop(s, *n, exits);
    if (const auto* n = s.as<tir::While>()) return loop(s, *n, exits);
    const bool block = s.is<Block>();
    return map_children(s,
                        [&](const ObjectRef& c) -> ObjectRef {
                          if (!c.is<StmtNode>()) return c;
                          return block ? part(c.cast<StmtNode>()) : stmt(c.cast<StmtNode>(), exits);
                        })
        .cast<StmtNode>();
  }

  /// What stands behind a statement that may jump runs when it did not: in groups beside each other, so that
  /// a long sequence nests no deeper.
  Stmt sequence(const SeqStmt& n, Exits& exits) {
    Array<Stmt> out, group;
    bool may_have_jumped = false;
    auto close = [&] {
      if (group.empty()) return;
      const Stmt all = seq(group);
      out.push_back(may_have_jumped ? Stmt(make<IfThenElse>(going_on(), all, Stmt())) : all);
      group = Array<Stmt>();
    };
    for (const Stmt& t : n.seq) {
      Exits own;
      group.push_back(stmt(t, own));
      if (!own.any) continue;
      exits.add(own);
      close();
      may_have_jumped = true;
      if (jump_of(t) != Jump::none) break;  // nothing behind it runs
    }
    close();
    return seq(out);
  }

  /// The iterations of a loop, and what a jump out of them leaves behind.
  Stmt body(const Stmt& s, Exits& inner) {
    Stmt out = stmt(s, inner);
    if (!inner.next) return out;
    const Stmt arrived = set(Jump::none);
    return seq({out, inner.loop || inner.program
                         ? Stmt(make<IfThenElse>(is(Jump::next_iteration), arrived, Stmt()))
                         : arrived});
  }
  Stmt behind(const Stmt& loop, const Exits& inner, Exits& exits) {
    if (inner.program) exits.add(Jump::end_of_program);
    if (!inner.loop) return loop;
    const Stmt arrived = set(Jump::none);
    return seq(
        {loop, inner.program ? Stmt(make<IfThenElse>(is(Jump::end_of_loop), arrived, Stmt())) : arrived});
  }
  Stmt loop(const Stmt& s, const For& n, Exits& exits) {
    if (n.kind != ForKind::serial && n.kind != ForKind::unrolled)
      return tensor_detail::edited<For>(s, [&](For* m) { m->body = part(n.body); });
    Exits inner;
    Stmt each = body(n.body, inner);
    if (inner.loop || inner.program) each = make<IfThenElse>(going_on(), each, Stmt());
    return behind(tensor_detail::edited<For>(s, [&](For* m) { m->body = each; }), inner, exits);
  }
  Stmt loop(const Stmt& s, const tir::While& n, Exits& exits) {
    Exits inner;
    const Stmt each = body(n.body, inner);
    // The condition is not asked again behind a jump: it may read what is there no more.
    const PrimExpr condition =
        inner.loop || inner.program
            ? call(boolean, "tir.if_then_else", {going_on(), n.condition, PrimExpr::int_imm(0, boolean)})
            : n.condition;
    return behind(tensor_detail::edited<tir::While>(s,
                                                    [&](tir::While* m) {
                                                      m->condition = condition;
                                                      m->body = each;
                                                    }),
                  inner, exits);
  }

  Stmt set(Jump jump) {
    used_ = true;
    return store(state_, PrimExpr::int_imm(int64_t(jump), i32), {tensor_detail::imm(0)});
  }
  PrimExpr is(Jump jump) const {
    return eq(load(state_, {tensor_detail::imm(0)}), PrimExpr::int_imm(int64_t(jump), i32));
  }
  PrimExpr going_on() const { return is(Jump::none); }

  static void check_value(const Stmt& s, Jump jump) {
    if (jump != Jump::end_of_program) return;
    const PrimExpr value = s.as<tir::Evaluate>()->value.as<Call>()->args[0];
    if (!is_zero(value))
      tensor_detail::refuse("T0809",
                            "the program returns a value, and programs write their results to buffers", s,
                            "return nothing, and store the value to an output parameter");
  }

  Buffer state_;
  bool used_ = false;  ///< does the present part jump?
};

}  // namespace

static IRModule lower_jumps(IRModule module, PassContext&) {
  return module.map_prim([](const std::string&, const PrimFunc& f) -> ObjectRef {
    // A function with a value is no kernel: make_packed_api refuses it.
    if (!f->body || !f->ret_type.is_void() || !find_jump(f->body)) return {};
    PrimFunc out = f;
    out.edit()->body = LowerJumps().part(f->body);
    return out;
  });
}

const Pass& lower_jumps_pass = register_pass({
    .name = "lower_jumps",
    .run = lower_jumps,
    .level = 0,
    .summary = "break, continue and return become conditions",
});

}  // namespace tenon
