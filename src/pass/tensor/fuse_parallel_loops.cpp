// SPDX-License-Identifier: Apache-2.0
// fuse_parallel_loops
//   before: for i in T.parallel(8): A[i] = …       # 12 µs
//           for j in range(9): B[j] = …            # 10 µs; touches nothing that the first writes
//   after:  for t in T.parallel(16):               # 8 units each
//             if t < 8: (if t == 0: for j in range(9): B[j] = …)
//             else: i = t - 8; A[i] = …
// Statements of a program that need nothing of each other run on the cores at the same time, where the model
// of the machine says that this is clearly faster (analysis/cost/branches.h): work that is too little for
// threads alone, or one piece, shares them; one wake-up serves all. Units take about as long each, as the
// runtime splits a loop by their count.
// Needs: vectors made, flat buffers that do not overlap ("tir.noalias"). Keeps: every value. Either what
// stands at the same distance from the end of its chain becomes one loop, or each chain a piece of one.
// Reports what was fused, in a sentence for each program.
#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "analysis/cost/branches.h"
#include "analysis/cost/time.h"
#include "ir/attr_keys.h"
#include "ir/intrinsic.h"
#include "pass/tensor/lowering.h"

namespace tenon {

using namespace tir;
using tensor_detail::imm;

namespace {

using Memory = std::set<const tir::Var*>;

/// One statement of a program, with the memory that it touches.
struct Step {
  Stmt stmt;
  Memory reads, writes;
  cost::Branch branch;
};

bool meet(const Memory& a, const Memory& b) {
  return std::ranges::any_of(a, [&](const tir::Var* v) { return b.count(v) != 0; });
}
bool depend(const Step& a, const Step& b) {
  return meet(a.writes, b.reads) || meet(a.reads, b.writes) || meet(a.writes, b.writes);
}

const For* parallel_loop(const Stmt& s) {
  const auto* loop = s.as<For>();
  return loop && loop->kind == ForKind::parallel && as_int(loop->extent).value_or(0) > 0 ? loop : nullptr;
}

/// What the program is: declarations and memory around steps in a row. Null when it is more than that.
class Steps {
 public:
  std::vector<Stmt> around;  ///< DeclBuffer, Allocate, AllocateConst, from the outside in
  std::vector<Step> steps;

  static std::optional<Steps> of(const Stmt& body) {
    Steps out;
    out.unpack(body);
    for (Step& s : out.steps)
      if (!out.find_memory(s)) return std::nullopt;
    return out;
  }

 private:
  void unpack(const Stmt& s) {
    if (const auto* seq = s.as<SeqStmt>()) {
      for (const Stmt& one : seq->seq) unpack(one);
    } else if (const Stmt inside = inside_of(s); inside && (steps.empty() || inside.is<SeqStmt>())) {
      around.push_back(s);
      unpack(inside);
    } else if (!tensor_detail::is_no_op(s)) {
      steps.push_back({s, {}, {}, {}});
    }
  }
  static Stmt inside_of(const Stmt& s) {
    if (const auto* n = s.as<Allocate>()) return n->body;
    if (const auto* n = s.as<AllocateConst>()) return n->body;
    if (const auto* n = s.as<DeclBuffer>()) return n->body;
    return {};
  }
  /// False where memory may be touched that no access names, or an assertion guards what comes behind it.
  static bool find_memory(Step& step) {
    bool known = true;
    pre_order(step.stmt, [&](const ObjectRef& n) {
      if (const auto* l = n.as<BufferLoad>()) step.reads.insert(l->buffer->data.get());
      if (const auto* s = n.as<BufferStore>()) step.writes.insert(s->buffer->data.get());
      const auto* call = n.as<tir::Call>();
      // What a loop says of itself would be lost.
      const auto* loop = n.as<For>();
      known = known && !n.is<While>() && !n.is<AssertStmt>() && !(call && has_effect(call->op)) &&
              !(loop && loop->kind == ForKind::parallel && !loop->annotations.empty()) &&
              !(loop && loop->kind == ForKind::thread_binding);
      return known && !n.is<BufferNode>();
    });
    return known;
  }
  /// Of memory or order, so that a look at the accesses does not tell what a step does.
  static bool has_effect(const std::string& op) {
    const Intrinsic* known = find_intrinsic(op);
    return !known || !known->pure;
  }
};

/// Steps that run in order as one branch.
using Chain = std::vector<size_t>;
/// Branches that are one loop, or one branch that stays as it is.
struct Stage {
  std::vector<Chain> chains;
  std::optional<cost::SideBySide> loop;
};
struct Plan {
  std::vector<Stage> stages;
  double ns = 0;
  bool fuses() const {
    return std::ranges::any_of(stages, [](const Stage& s) { return s.loop.has_value(); });
  }
};

cost::Branch branch_of(const std::vector<Step>& steps, const Chain& chain) {
  if (chain.size() == 1) return steps[chain[0]].branch;
  cost::Branch out;
  for (size_t i : chain) out.ns += steps[i].branch.ns;
  return out;
}

/// What is asked of the model.
struct Machine {
  Target target;
  bool always = false;  ///< whatever the model says
};

/// One stage of the chains if that is worth it, else a stage for each step.
void add_stage(Plan& plan, const std::vector<Step>& steps, std::vector<Chain> chains,
               const Machine& machine) {
  std::vector<cost::Branch> branches;
  for (const Chain& c : chains) branches.push_back(branch_of(steps, c));
  if (auto loop = cost::side_by_side(branches, machine.target, machine.always)) {
    plan.ns += loop->ns;
    plan.stages.push_back({std::move(chains), std::move(loop)});
    return;
  }
  for (const Chain& c : chains)
    for (size_t i : c) {
      plan.ns += cost::time_apart(std::span(&steps[i].branch, 1), machine.target);
      plan.stages.push_back({{{i}}, {}});
    }
}

/// By the distance of a step from the end of its chain: what has the same is independent.
Plan by_levels(const std::vector<Step>& steps, const Machine& machine) {
  std::vector<size_t> level(steps.size(), 0);
  size_t most = 0;
  for (size_t i = steps.size(); i-- > 0; most = std::max(most, level[i]))
    for (size_t k = i + 1; k < steps.size(); ++k)
      if (depend(steps[i], steps[k])) level[i] = std::max(level[i], level[k] + 1);
  Plan plan;
  for (size_t l = most + 1; l-- > 0;) {
    std::vector<Chain> chains;
    for (size_t i = 0; i < steps.size(); ++i)
      if (level[i] == l) chains.push_back({i});
    add_stage(plan, steps, std::move(chains), machine);
  }
  return plan;
}

/// Whole chains: the steps that hang together, in order.
Plan by_chains(const std::vector<Step>& steps, const Machine& machine) {
  std::vector<Chain> chains;
  for (size_t i = 0; i < steps.size(); ++i) {
    Chain mine{i};
    std::erase_if(chains, [&](const Chain& c) {
      const bool mine_too = std::ranges::any_of(c, [&](size_t k) { return depend(steps[k], steps[i]); });
      if (mine_too) mine.insert(mine.end(), c.begin(), c.end());
      return mine_too;
    });
    std::ranges::sort(mine);
    chains.push_back(std::move(mine));
  }
  Plan plan;
  add_stage(plan, steps, std::move(chains), machine);
  return plan;
}

// ---------------------------------------------------------------- the loops
/// What one task does alone runs on its thread.
Stmt serial(const Stmt& s) {
  return rewrite(s, [](const For& n) -> Stmt {
    if (n.kind != ForKind::parallel) return {};
    Ref<For> out(&n);
    out.edit()->kind = ForKind::serial;
    return out;
  });
}

/// The unit number `unit` of a branch that has `units`.
Stmt unit_of(const Stmt& s, const cost::Branch& branch, const PrimExpr& unit, int64_t units) {
  const int64_t parts = branch.parts;
  const int64_t step = std::max<int64_t>(1, units / parts), count = std::max<int64_t>(1, parts / units);
  Stmt body;
  if (parts == 1) {
    body = serial(s);
  } else {
    const For& loop = *s.as<For>();
    const PrimExpr first = tir::floordiv(unit, imm(step));
    if (count == 1) {
      body = make<LetStmt>(loop.loop_var, cast(loop.loop_var->dtype, loop.min + first), serial(loop.body));
    } else {
      const VarRef inner = var(loop.loop_var->name + "_part", i64);
      const PrimExpr place = loop.min + first * imm(count) + inner;
      body = make<For>(inner, imm(0), imm(count), ForKind::serial,
                       make<LetStmt>(loop.loop_var, cast(loop.loop_var->dtype, place), serial(loop.body)), "",
                       AttrMap());
    }
  }
  if (step == 1) return body;
  return make<IfThenElse>(tir::eq(tir::floormod(unit, imm(step)), imm(0)), body, Stmt());
}

/// Who alone uses memory of the program: a branch of a stage.
struct Owner {
  size_t stage = 0, chain = 0;
  bool operator==(const Owner&) const = default;
};

class Rebuilding {
 public:
  Rebuilding(const Steps& program, const Plan& plan) : program_(program), plan_(plan) {
    for (const Stmt& s : program.around) place(s);
  }

  Stmt body() const {
    Array<Stmt> stages;
    for (size_t s = 0; s < plan_.stages.size(); ++s)
      stages.push_back(plan_.stages[s].loop ? loop(s) : branch({s, 0}));
    return inside(around_, tir::seq(stages));
  }
  std::string in_words() const {
    std::string out;
    for (const Stage& stage : plan_.stages) {
      if (!stage.loop) continue;
      std::string parts;
      for (const cost::Share& share : stage.loop->shares) {
        const cost::Branch b = branch_of(program_.steps, stage.chains[share.branch]);
        parts += fmt::format("{}{:.1f} µs in {}", parts.empty() ? "" : ", ", b.ns / 1e3, b.parts);
      }
      out += fmt::format("{}{} units of one loop: {}; {:.1f} µs", out.empty() ? "" : "; ",
                         stage.loop->units(), parts, stage.loop->ns / 1e3);
    }
    return out;
  }

 private:
  /// Memory that one piece alone uses is its own; the rest and declarations stay around all.
  void place(const Stmt& s) {
    const auto* a = s.as<Allocate>();
    const tir::Var* data = a ? a->buffer->data.get() : nullptr;
    std::optional<Owner> owner;
    bool one = data && std::ranges::none_of(program_.around, [&](const Stmt& other) {
                 const auto* d = other.as<DeclBuffer>();
                 return d && d->buffer->data.get() == data;
               });
    for (size_t i = 0; one && i < plan_.stages.size(); ++i)
      for (size_t k = 0; k < plan_.stages[i].chains.size(); ++k)
        for (size_t step : plan_.stages[i].chains[k]) {
          const Step& uses = program_.steps[step];
          if (!uses.reads.count(data) && !uses.writes.count(data)) continue;
          one = one && (!owner || *owner == Owner{i, k});
          owner = Owner{i, k};
        }
    // A loop that is cut would have it once for each of its units.
    one =
        one && owner && branch_of(program_.steps, plan_.stages[owner->stage].chains[owner->chain]).parts == 1;
    if (one)
      own_.emplace_back(*owner, s);
    else
      around_.push_back(s);
  }
  static Stmt inside(const std::vector<Stmt>& around, Stmt body) {
    for (size_t i = around.size(); i-- > 0;) {
      const auto put = [&](auto* n) { n->body = body; };
      const Stmt& s = around[i];
      body = s.is<Allocate>()        ? tensor_detail::edited<Allocate>(s, put)
             : s.is<AllocateConst>() ? tensor_detail::edited<AllocateConst>(s, put)
                                     : tensor_detail::edited<DeclBuffer>(s, put);
    }
    return body;
  }
  /// The steps of a branch, in its own memory.
  Stmt branch(Owner which) const {
    Array<Stmt> steps;
    for (size_t i : plan_.stages[which.stage].chains[which.chain]) steps.push_back(program_.steps[i].stmt);
    std::vector<Stmt> own;
    for (const auto& [owner, s] : own_)
      if (owner == which) own.push_back(s);
    return inside(own, tir::seq(steps));
  }
  Stmt loop(size_t number) const {
    const Stage& stage = plan_.stages[number];
    const VarRef unit = var("unit", i64);
    const int64_t all = stage.loop->units();
    double ns = 0;
    Stmt body;
    int64_t end = all;
    for (size_t k = stage.loop->shares.size(); k-- > 0;) {
      const cost::Share& share = stage.loop->shares[k];
      const cost::Branch work = branch_of(program_.steps, stage.chains[share.branch]);
      ns += work.ns;
      const PrimExpr own = simplify(unit - imm(end - share.units));
      const Stmt one = unit_of(branch({number, share.branch}), work, own, share.units);
      body = body ? make<IfThenElse>(tir::lt(unit, imm(end)), one, body) : one;
      end -= share.units;
    }
    AttrMap annotations;
    annotations.set(kCostAttr, Any(int64_t(std::max(1.0, ns / double(all)))));
    return make<For>(unit, imm(0), imm(all), ForKind::parallel, body, "", annotations);
  }

  const Steps& program_;
  const Plan& plan_;
  std::vector<Stmt> around_;
  std::vector<std::pair<Owner, Stmt>> own_;
};

}  // namespace

static const Option<bool> kAlways("fuse_parallel_loops.always", false,
                                  "also where the model of the machine sees no gain");

static IRModule fuse_parallel_loops(IRModule module, PassContext& context) {
  const Machine machine{context.target.cast<TargetNode>(), context.options.get(kAlways)};
  if (!machine.target || (!machine.always && machine.target->cores < 2)) return module;
  std::mutex mutex;  // programs are looked at side by side
  std::map<std::string, std::string> reports;
  IRModule out = tensor_detail::map_bodies(module, [&](const std::string& name, const PrimFunc& f) -> Stmt {
    if (!f->attrs.get_or("tir.noalias", Any(true)).try_as<bool>().value_or(false)) return {};
    auto program = Steps::of(f->body);
    if (!program || program->steps.size() < 2) return {};
    const int64_t vector_bits = cost::usual_vector_bits(*f, machine.target);
    for (Step& s : program->steps) {
      s.branch.ns = cost::nanoseconds(s.stmt, module, vector_bits);
      if (const For* loop = parallel_loop(s.stmt)) s.branch.parts = *as_int(loop->extent);
    }
    const Plan levels = by_levels(program->steps, machine), chains = by_chains(program->steps, machine);
    const Plan& plan = chains.fuses() && chains.ns < levels.ns ? chains : levels;
    if (!plan.fuses()) return {};
    const Rebuilding rebuilding(*program, plan);
    if (context.report) {
      std::lock_guard lock(mutex);
      reports[name] = rebuilding.in_words();
    }
    return rebuilding.body();
  });
  for (const auto& [name, words] : reports) context.report("fuse_parallel_loops", Any(name + ": " + words));
  return out;
}

const Pass& fuse_parallel_loops_pass = register_pass({
    .name = "fuse_parallel_loops",
    .run = fuse_parallel_loops,
    .level = 2,
    .summary = "independent statements of a program share one parallel loop",
    .needs = {"vectorize_loop"},
    .options = {kAlways},
});

}  // namespace tenon
