// SPDX-License-Identifier: Apache-2.0
// One step of a schedule: arguments are checked, the state is copied where another schedule holds it, the
// primitive runs, and the trace records it. A refused step changes nothing.
#include "schedule/schedule.h"

#include <algorithm>

#include "ir/calls_out.h"
#include "ir/text.h"
#include "ir/walk.h"
#include "schedule/primitive.h"
#include "schedule/state.h"

namespace tenon {

struct Schedule::State : sched::State {
  State(tir::PrimFunc f, uint64_t seed) : sched::State(std::move(f), seed), calls_out(!calls().empty()) {}

  /// Calls of code that is not seen here, in program order, each behind the loops around it.
  std::vector<std::string> calls() const {
    std::vector<std::string> out;
    std::vector<std::string> around;
    collect(function->body, around, out);
    return out;
  }
  bool calls_out;  ///< the program has such calls: steps keep their order

 private:
  static void collect(const ObjectRef& root, std::vector<std::string>& around,
                      std::vector<std::string>& out) {
    pre_order(root, [&](const ObjectRef& n) {
      if (const auto* loop = n.as<tir::For>()) {
        around.push_back(fmt::format("{} {} {} {}", loop->loop_var->name, int(loop->kind), loop->thread_tag,
                                     print(loop->extent)));
        collect(loop->body, around, out);
        around.pop_back();
        return false;
      }
      if (const auto* c = n.as<tir::Call>(); c && tir::calls_out(c->op))
        out.push_back(
            fmt::format("{} in {}", print(PrimExpr(Ref<tir::PrimExprNode>(c))), fmt::join(around, ", ")));
      return !n.is<tir::BufferNode>();
    });
  }
};

namespace {

bool is_entry(const Handle& h) { return h.kind == HandleKind::block || h.kind == HandleKind::loop; }
const Primitive& known(std::string_view name) {
  const Primitive* p = find_primitive(name);
  CHECK(p, "a primitive that traces need is missing");
  return *p;
}

/// Blocks and loops that no step of the trace made get steps that find them, so that the trace stands alone:
/// the query that found them, or the block's name and its loops.
struct Introduction {
  const sched::State& s;
  std::unordered_set<int32_t> named;
  std::vector<TraceStep> steps;

  explicit Introduction(const sched::State& state) : s(state), named(state.named) {}

  void add(const std::vector<Handle>& handles, size_t queries) {
    for (const Handle& h : handles) {
      if (!is_entry(h) || named.count(h.id)) continue;
      size_t found = 0;
      while (found < queries && std::find(s.queries[found].results.begin(), s.queries[found].results.end(),
                                          h) == s.queries[found].results.end())
        ++found;
      if (found < queries) {
        const TraceStep& q = s.queries[found];
        add(handles_of(q.args), found);  // a query is asked about what was found before
        push(q);
      } else if (s.is_block(h.id)) {
        block(h.id);
      } else {
        const std::vector<int32_t> below = s.blocks_below(h.id);
        CHECK(!below.empty(), "a loop without a block below cannot be named in a trace");
        if (!named.count(below[0])) block(below[0]);
        std::vector<Handle> loops;
        for (int32_t l : s.loops_of(below[0])) loops.push_back({HandleKind::loop, l});
        push({&known("get_loops"), {to_any({HandleKind::block, below[0]})}, loops});
      }
    }
  }

 private:
  void block(int32_t id) {
    push({&known("get_block"), {Any(s.entries[size_t(id)].label)}, {{HandleKind::block, id}}});
  }
  void push(const TraceStep& step) {
    for (const Handle& h : step.results) named.insert(h.id);
    steps.push_back(step);
  }
};

/// Keeps what a query found about the program as it is. get_block and get_loops need no keeping: they are how
/// a handle is introduced anyway.
void remember(sched::State& s, const Primitive& p, const std::vector<Any>& args,
              const std::vector<Handle>& found) {
  if (!s.asked.same_as(s.function)) {
    s.asked = s.function;
    s.queries.clear();
  }
  if (p.name == "get_block" || p.name == "get_loops") return;
  if (std::all_of(found.begin(), found.end(), [&](const Handle& h) { return s.named.count(h.id); })) return;
  for (const TraceStep& old : s.queries)
    if (old.primitive == &p && old.results == found) return;
  s.queries.push_back({&p, args, found});
}

}  // namespace

std::optional<ScheduleError> refusal_of(FunctionRef<void()> f) {
  try {
    f();
    return {};
  } catch (const ScheduleError& e) {
    return e;
  }
}

Schedule::Schedule(tir::PrimFunc function, uint64_t seed)
    : state_(std::make_shared<State>(std::move(function), seed)) {}
Schedule::Schedule(const Schedule&) = default;
Schedule& Schedule::operator=(const Schedule&) = default;
Schedule::~Schedule() = default;
tir::PrimFunc Schedule::function() const { return state_->function; }
const Trace& Schedule::trace() const { return state_->trace; }
const std::vector<ParamLayout>& Schedule::param_layouts() const { return state_->param_layouts; }

GivenUpProofs& Schedule::given_up() const { return *state_->given_up; }

std::vector<BlockRV> Schedule::blocks() const {
  std::vector<BlockRV> out;
  for (int32_t id : state_->leaf_blocks()) out.push_back({id});
  return out;
}
Ref<tir::Block> Schedule::get(BlockRV block) const { return state_->block(block.id); }
Ref<tir::For> Schedule::get(LoopRV loop) const { return state_->loop(loop.id); }
Ref<tir::BlockRealize> Schedule::realize(BlockRV block) const { return state_->realize(block.id); }
int64_t Schedule::get(Handle number) const {
  state_->require(number);
  return state_->numbers.at(number.id);
}

std::vector<Handle> Schedule::apply(const Primitive& p, std::vector<Any> args) {
  complete_arguments(p, args, p.name);
  const bool query = p.kind == StepKind::query;
  if (!query && state_.use_count() > 1) {
    state_ = std::make_shared<State>(*state_);
    state_->facts = std::make_shared<sched::FactCache>(*state_->facts);
  }
  sched::State& s = *state_;
  s.step = p.name;
  const std::vector<Handle> handles = handles_of(args);
  for (const Handle& h : handles) s.require(h);
  if (query) {
    const std::vector<Handle> found = p.run(s, args);
    remember(s, p, args, found);
    return found;
  }
  Introduction introduced(s);
  introduced.add(handles, s.asked.same_as(s.function) ? s.queries.size() : 0);
  const bool guarded = state_->calls_out && p.kind == StepKind::change && p.calls != CallOrder::kept;
  const std::shared_ptr<State> before = guarded ? std::make_shared<State>(*state_) : nullptr;
  const std::vector<Handle> made = p.run(s, args);
  if (guarded && (p.calls == CallOrder::moved || before->calls() != state_->calls())) {
    state_ = before;
    throw ScheduleError(ErrorKind::model, "T0725",
                        fmt::format("{}: the program calls functions that are not seen here, whose order or "
                                    "memory would change",
                                    p.name),
                        {}, "schedule blocks without such calls, or put the call into a program of its own");
  }
  s.named = std::move(introduced.named);
  for (const Handle& h : made)
    if (is_entry(h)) s.named.insert(h.id);
  for (TraceStep& step : introduced.steps) s.trace.steps.push_back(std::move(step));
  s.trace.steps.push_back({&p, std::move(args), made});
  return made;
}

}  // namespace tenon
