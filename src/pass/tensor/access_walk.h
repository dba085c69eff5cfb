// SPDX-License-Identifier: Apache-2.0
// The walk that proves the accesses of a program and places checks where it cannot.
#pragma once
#include <memory>

#include "analysis/inside.h"
#include "analysis/proof_report.h"
#include "pass/tensor/access_checks.h"

namespace tenon::tensor_detail {

enum class Proving : uint8_t {
  given,      ///< the program as it came: iterators of blocks, loops, what is certainly outside
  scheduled,  ///< the program before it is flattened: every access
};

/// All programs of the module that are no kernels yet. `checks_assumptions`: they become assertions.
IRModule prove_accesses(const IRModule& module, const PassContext& context, Proving proving,
                        bool checks_assumptions = false);

class AccessWalk {
 public:
  AccessWalk(const tir::PrimFunc& f, Proving proving, bool checks_assumptions, ProofReport& report,
             DiagnosticList& problems);
  /// The body with its checks.
  tir::Stmt run(const std::string& name);

 private:
  using Stmt = tir::Stmt;
  // ---- statements; checks of what they hold wait in checks_
  Stmt stmt(const Stmt& s);
  Stmt ordered(const Stmt& s, const tir::For& n);
  Stmt loop(const Stmt& given, const tir::For& n);
  Stmt repeat(const Stmt& s, const tir::While& n);
  Stmt branch(const Stmt& s, const tir::IfThenElse& n);
  Stmt let(const Stmt& s, const tir::LetStmt& n);
  Stmt sequence(const Stmt& s, const tir::SeqStmt& n);
  Stmt realize(const Stmt& s, const tir::BlockRealize& n);
  Ref<tir::Block> block(const tir::BlockRealize& n, bool fixed);
  void iterators(const tir::BlockRealize& n);
  void region(const tir::MatchBufferRegion& m);
  /// The body of what defines a buffer; checks that read it stay inside.
  Stmt below_buffer(const Stmt& body, const tir::Buffer& b);
  Stmt under(const PrimExpr& condition, const Stmt& body);
  /// Runs f for what runs where the condition holds.
  template <class F>
  void where_holds(const PrimExpr& condition, const Stmt& body, F f) {
    const bool known = !inside_.from_data(condition), always = std::exchange(always_, always_ && known);
    conditions_.push_back(condition);
    assuming(condition, body, f);
    conditions_.pop_back();
    always_ = always;
  }
  Stmt attributed(const tir::AttrStmt& n);
  PrimExpr around();

  // ---- values
  /// A condition, definition or loop inside of a statement that an access stands under.
  struct Step {
    PrimExpr condition;
    tir::VarRef var;
    PrimExpr value;
    tir::Range range;
  };
  void look(const PrimExpr& e);
  void look_below(const PrimExpr& e);
  void look_if(const PrimExpr& condition, const PrimExpr& e);
  void look_reduce(const tir::Reduce& n);
  void pointer(const tir::Call& n);
  void access(const tir::Buffer& b, const Array<PrimExpr>& at, const PrimExpr& predicate);
  void lanes(const tir::Buffer& b, const Array<PrimExpr>& at, const PrimExpr& predicate, int64_t count);
  void scalar(const tir::Buffer& b, const Array<PrimExpr>& at);
  void memory(const tir::Buffer& b, const Array<PrimExpr>& at);
  /// Is 0 ≤ index < extent? Otherwise a check.
  bool inside(const PrimExpr& index, const PrimExpr& extent, ProofKind kind, const std::string& what);
  bool proved(const PrimExpr& index, const PrimExpr& extent);
  bool certainly_outside(const PrimExpr& index, const PrimExpr& extent);
  void check(const PrimExpr& condition, const std::string& message);
  std::string where() const;

  /// Runs f while `condition` holds.
  template <class F>
  void assuming(const PrimExpr& condition, const Stmt& body, F f) {
    const Inside::Scope in = inside_.assume(condition, known_writes(condition, body));
    seen_.emplace_back();
    f();
    seen_.pop_back();
  }
  std::unordered_set<const tir::Var*> known_writes(const PrimExpr& condition, const Stmt& body);
  const Written& writes(const Stmt& s);
  /// What a statement lets those behind it rely on: the condition of an assertion or assumption, or null.
  static PrimExpr ensured(const Stmt& s);
  Stmt assumption(const Stmt& s, const PrimExpr& condition);

  const tir::PrimFunc& function_;
  const Proving proving_;
  const bool checks_accesses_;
  const bool checks_assumptions_;  ///< they become assertions
  ProofReport& report_;
  DiagnosticList& problems_;
  GivenUpProofs given_up_;
  Analyzer analyzer_;
  Inside inside_;
  Checks checks_;
  std::string place_;                   ///< of the function
  const tir::StmtNode* at_ = nullptr;   ///< the innermost statement that knows where it was written
  bool always_ = true;                  ///< the present statement runs whenever conditions_ hold
  std::vector<PrimExpr> conditions_;    ///< around the present statement, which no data decide
  std::vector<const tir::For*> loops_;  ///< around the present statement
  std::vector<Step> path_;
  std::vector<std::unordered_set<const Object*>> seen_;  ///< values of the present statement, by condition
  tir::VarMap values_;                                   ///< of the iterators of blocks around
  tir::VarMap vectors_;                                  ///< of variables that are vectors and no data decide
  std::unordered_map<const tir::Var*, PrimExpr> bits_;   ///< of memory whose size is known
  std::unordered_map<const tir::BufferNode*, tir::MatchBufferRegion> matches_;  ///< not proved inside
  std::unordered_set<const tir::BufferNode*> fits_;  ///< views that lie inside of their memory
  std::unordered_map<const Object*, Written> written_;
};

}  // namespace tenon::tensor_detail
