// SPDX-License-Identifier: Apache-2.0
// Carries out the requests of a schedule of tensor expressions on the tensor program: blocks are made and
// inlined first; then each stage, consumers before producers, takes its place and its loops their shape;
// kinds of loops, the inits of reductions and intrinsics come last.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/attr_keys.h"
#include "schedule/te/data.h"
#include "te/packed.h"

namespace tenon::te {
namespace {

using tir::IterVar;
using Sch = tenon::Schedule;

/// An axis that runs once has no loop where its stage was moved to.
constexpr LoopRV kNoLoop{-1};

class Applier {
 public:
  Applier(const ScheduleData& d, Array<Tensor> args, Program program)
      : d_(d), args_(std::move(args)), program_(std::move(program)), s_(program_.function) {
    for (const auto& [op, name] : program_.blocks) {
      auto it = d_.of.find(op.get());
      if (it == d_.of.end())
        refuse_request(fmt::format("argument '{}' needs '{}', which the schedule does not know",
                                   args_[0]->name, op->name),
                       "apply", "create the schedule from all outputs");
      if (op->kind != OperationKind::scan) block_[it->second] = name;
    }
    for (int i : d_.order) {
      const StageData& st = d_.stages[size_t(i)];
      if (st.op->kind == OperationKind::scan)
        for (const Tensor& t : st.op->update)
          if (int step = d_.of.at(t->op.get()); has_block(step)) block_[i] = block_.at(step);
    }
  }

  /// The program is not all that the schedule knows.
  void part() { whole_ = false; }
  Sch run() {
    for (const Change& c : d_.changes)
      if (whole_ || has_block(c.stage)) change(c);
    for (int i : d_.order)
      if (stage(i).attach == Attach::inlined && (whole_ || has_block(i))) s_.compute_inline(block(i));
    for (size_t k = d_.order.size(); k-- > 0;) place(d_.order[k]);
    for (int i : d_.order) finish(i);
    return s_;
  }

 private:
  const StageData& stage(int i) const { return d_.stages[size_t(i)]; }
  bool has_block(int i) const { return block_.count(i) != 0; }
  BlockRV block(int i) {
    auto it = block_.find(i);
    if (it == block_.end())
      refuse_request("no argument needs it", fmt::format("stage '{}'", stage(i).name),
                     "give what is computed from it as an argument");
    return s_.get_block(it->second);
  }
  /// The buffer that holds a tensor.
  tir::Buffer buffer(const Tensor& t) {
    for (size_t i = 0; i < args_.size(); ++i)
      if (args_[i]->op.same_as(t->op) && args_[i]->index == t->index)
        return s_.function()->buffer_map.at(s_.function()->params[i]);
    const Ref<tir::Block> b = s_.get(block(d_.of.at(t->op.get())));
    return b->writes[size_t(t->index)]->buffer;
  }

  void change(const Change& c) {
    if (c.kind == ChangeKind::cache_read) {
      const BlockRV reader = block(c.stage);
      const tir::Buffer from = buffer(c.tensor);
      const auto reads = s_.get(reader)->reads;
      int index = -1;
      for (size_t i = 0; i < reads.size(); ++i)
        if (reads[i]->buffer.same_as(from)) index = int(i);
      if (index < 0)
        refuse_request(fmt::format("it does not read '{}'", c.tensor->name),
                       fmt::format("stage '{}'", stage(c.stage).name), "name a stage that does");
      std::vector<BlockRV> others;
      for (int i : c.others) others.push_back(block(i));
      block_[c.made] = s_.get(s_.cache_read(reader, index, c.scope, others))->name;
    } else if (c.kind == ChangeKind::cache_write) {
      const std::string computes = block_.at(c.stage);
      block_[c.stage] = s_.get(s_.cache_write(block(c.stage), c.results > 1 ? -1 : 0, c.scope))->name;
      block_[c.made] = computes;
    } else if (c.kind == ChangeKind::rfactor) {
      const BlockRV b = block(c.stage);
      std::map<const Object*, LoopRV> loops;
      const std::vector<LoopRV> all = s_.get_loops(b);
      // Axes of the reduction are the innermost loops, in order.
      for (size_t i = 0; i < c.reduce.size(); ++i)
        loops[c.reduce[i].get()] = all[all.size() - c.reduce.size() + i];
      for (const Relation& r : c.relations) relate(loops, r);
      block_[c.made] = s_.get(s_.rfactor(loops.at(c.axis.get()), c.factor_axis))->name;
    } else {
      s_.transform_layout(block(c.stage), 0, BufferIndexType::write, c.buffer_map);
      s_.transform_block_layout(block(c.stage), c.block_map);
    }
  }
  /// The loops of the stage's axes where it stands now.
  void root_loops(int i) {
    const StageData& st = stage(i);
    const BlockRV b = block(i);
    std::vector<LoopRV> all = s_.get_loops(b);
    std::set<const Object*> outside;  // loops of whom it was moved into
    if (st.attach == Attach::at)
      for (LoopRV l : around_) outside.insert(s_.get(l)->loop_var.get());
    const Ref<tir::BlockRealize> r = s_.realize(b);
    auto& loops = loops_[i];
    std::vector<LoopRV> in_order;
    for (size_t k = 0; k < st.roots.size(); ++k) {
      LoopRV found = kNoLoop;
      if (k < r->iter_values.size())
        for (LoopRV l : all) {
          const tir::Var* v = s_.get(l)->loop_var.get();
          if (outside.count(v) || s_.get_child_blocks(l).size() != 1) continue;
          for (const tir::VarRef& x : tir::free_vars(r->iter_values[k]))
            if (x.get() == v) found = l;
        }
      loops[st.roots[k].get()] = found;
    }
    // The caller's order of axes, where the program's is another.
    std::vector<IterVar> first = st.leaves;
    if (!st.relations.empty()) first = original_leaves(st);
    std::vector<LoopRV> wanted, have;
    for (const IterVar& v : first)
      if (auto it = loops.find(v.get()); it != loops.end() && it->second.id >= 0)
        wanted.push_back(it->second);
    for (LoopRV l : all)
      if (std::find(wanted.begin(), wanted.end(), l) != wanted.end()) have.push_back(l);
    if (wanted != have) s_.reorder(wanted);
  }
  static std::vector<IterVar> original_leaves(const StageData& st) {
    std::vector<IterVar> out;
    for (const IterVar& v : st.op->axis) out.push_back(v);
    for (const IterVar& v : st.op->reduce_axis) out.push_back(v);
    return out;
  }

  void relate(std::map<const Object*, LoopRV>& loops, const Relation& r) {
    if (r.kind == RelationKind::split) {
      const LoopRV l = loops.at(r.in[0].get());
      std::vector<LoopRV> made{kNoLoop, kNoLoop};
      if (l.id >= 0)
        made = s_.split(l, r.parts ? std::vector<int64_t>{r.factor, -1} : std::vector<int64_t>{-1, r.factor});
      loops[r.out[0].get()] = made[0];
      loops[r.out[1].get()] = made[1];
      return;
    }
    std::vector<LoopRV> some;
    for (const IterVar& v : r.in)
      if (LoopRV l = loops.at(v.get()); l.id >= 0) some.push_back(l);
    if (r.kind == RelationKind::reorder) {
      if (some.size() > 1) s_.reorder(some);
    } else {
      loops[r.out[0].get()] = some.empty() ? kNoLoop : some.size() == 1 ? some[0] : s_.fuse(some);
    }
  }

  void place(int i) {
    const StageData& st = stage(i);
    if (st.attach == Attach::inlined || st.op->kind == OperationKind::placeholder || !has_block(i)) return;
    if (st.op->kind == OperationKind::scan) {
      // The steps' loop: the outermost around any of them.
      loops_[i][st.op->scan_axis.get()] = s_.get_loops(block(i)).at(0);
      for (const Relation& r : st.relations) relate(loops_[i], r);
      return;
    }
    around_.clear();
    if (st.attach == Attach::at) {
      auto parent = loops_.find(st.at_stage);
      if (parent == loops_.end())
        refuse_request(
            fmt::format("it is to be computed at stage '{}', which is no consumer of it, or inlined",
                        stage(st.at_stage).name),
            fmt::format("stage '{}'", st.name), "choose a stage that needs it and stays");
      const LoopRV loop = target(st.at_stage, st.at_axis);
      if (loop.id >= 0) {
        s_.compute_at(block(i), loop);
        for (LoopRV l : s_.get_loops(block(i))) {
          around_.push_back(l);
          if (l == loop) break;
        }
      }
    }
    if (st.op->kind == OperationKind::external) return;
    root_loops(i);
    for (const Relation& r : st.relations) relate(loops_[i], r);
  }
  /// The loop of an axis of a stage; an axis without one lies directly inside the next loop further out.
  LoopRV target(int i, const IterVar& axis) {
    const StageData& st = stage(i);
    LoopRV best = kNoLoop;
    for (const IterVar& v : st.leaves) {
      if (auto it = loops_.at(i).find(v.get()); it != loops_.at(i).end() && it->second.id >= 0)
        best = it->second;
      if (v.same_as(axis)) break;
    }
    if (best.id >= 0) return best;
    // All of them run once: the place is the loop that holds the stage.
    if (st.attach == Attach::at) return target(st.at_stage, st.at_axis);
    return {s_.add_unit_loop(block(i)).id};
  }

  void finish(int i) {
    const StageData& st = stage(i);
    if (st.attach == Attach::inlined || st.op->kind == OperationKind::placeholder || !has_block(i)) return;
    for (const BlockRequest& r : st.block) storage_request(i, r);
    if (st.op->kind == OperationKind::external) return;
    auto& loops = loops_.at(i);
    for (const auto& [axis, intrin] : st.tensorize) {
      const LoopRV l = loops.at(axis.get());
      block_[i] = s_.get(l.id < 0 ? s_.tensorize(block(i), intrin) : s_.tensorize(l, intrin))->name;
    }
    for (const LoopRequest& r : st.loops) {
      LoopRV l = loops.at(r.axis.get());
      if (l.id < 0) {
        if (r.kind != LoopRequestKind::bind) continue;  // what runs once needs no kind
        l = loops[r.axis.get()] = s_.add_unit_loop(block(i));
      }
      switch (r.kind) {
        case LoopRequestKind::parallel:
          s_.parallel(l);
          break;
        case LoopRequestKind::vectorize:
          s_.vectorize(l);
          break;
        case LoopRequestKind::unroll:
          s_.unroll(l);
          break;
        case LoopRequestKind::bind:
          s_.bind(l, r.thread->thread_tag);
          break;
        case LoopRequestKind::annotate:
          s_.annotate(l, r.tensor ? "prefetch_" + buffer(r.tensor)->name : r.key, r.value);
      }
    }
    for (const auto& [thread, which] : st.guards) guard(i, thread, which);
    if (st.op->kind == OperationKind::compute && !st.op->reduce_axis.empty()) separate_init(i);
    for (const IterVar& t : st.env) check_env(i, t);
  }

  void storage_request(int i, const BlockRequest& r) {
    switch (r.kind) {
      case BlockRequestKind::set_scope:
        return s_.set_scope(block(i), 0, r.scope);
      case BlockRequestKind::storage_align:
        return s_.storage_align(block(i), 0, int(r.numbers[0]), r.numbers[1], r.numbers[2]);
      case BlockRequestKind::double_buffer:
        return s_.annotate(block(i), "double_buffer_scope", Any(0));
      case BlockRequestKind::rolling_buffer:
        return s_.rolling_buffer(block(i), 0);
      case BlockRequestKind::set_axis_separators:
        return s_.set_axis_separator(block(i), 0, BufferIndexType::write,
                                     std::vector<int>(r.numbers.begin(), r.numbers.end()));
    }
  }

  /// Threads that would compute the same value again: one more loop over them, of which one stores.
  void guard(int i, const IterVar& thread, int64_t which) {
    const StageData& st = stage(i);
    for (const LoopRequest& r : st.loops)
      if (r.thread && r.thread->thread_tag == thread->thread_tag) {
        for (const IterVar& v : st.op->reduce_axis)
          if (comes_from(st, r.axis, v)) return;  // the reduction over threads stores once
        refuse_request(fmt::format("each thread of '{}' stores elements of its own", thread->thread_tag),
                       fmt::format("stage '{}'", st.name), "the predicate would leave elements unwritten");
      }
    const auto extent = tir::as_int(thread->dom->extent);
    if (!extent || *extent < 1)
      refuse_request(fmt::format("how many threads '{}' has is not known", thread->thread_tag),
                     fmt::format("stage '{}'", st.name), "give thread_axis an extent");
    s_.add_thread_loop(block(i), thread->thread_tag, *extent, which);
  }
  static bool comes_from(const StageData& st, const IterVar& axis, const IterVar& root) {
    std::set<const Object*> set{root.get()};
    for (const Relation& r : st.relations)
      for (const IterVar& v : r.in)
        if (r.kind != RelationKind::reorder && set.count(v.get()))
          for (const IterVar& o : r.out) set.insert(o.get());
    return set.count(axis.get()) != 0;
  }

  /// Every step of a scan must say what each of the threads around it does.
  void check_env(int i, const IterVar& thread) {
    for (const Tensor& t : stage(i).op->update) {
      const StageData& step = stage(d_.of.at(t->op.get()));
      bool bound = false;
      for (const LoopRequest& r : step.loops)
        bound = bound || (r.thread && r.thread->thread_tag == thread->thread_tag);
      if (!bound)
        refuse_request(fmt::format("its step '{}' would be repeated by every thread of '{}'", step.name,
                                   thread->thread_tag),
                       fmt::format("stage '{}'", stage(i).name), "bind one of the step's axes to it");
    }
  }

  /// The init of a reduction runs before its outermost loop; where that would be wrong or impossible it stays
  /// at the first iteration.
  void separate_init(int i) {
    const BlockRV b = block(i);
    if (!s_.get(b)->init) return;
    const Ref<tir::BlockRealize> r = s_.realize(b);
    std::vector<LoopRV> reduce;
    for (LoopRV l : s_.get_loops(b)) {
      bool uses = false;
      for (size_t k = 0; k < r->iter_values.size(); ++k)
        if (r->block->iter_vars[k]->kind == tir::IterKind::reduce)
          for (const tir::VarRef& v : tir::free_vars(r->iter_values[k]))
            uses = uses || v.same_as(s_.get(l)->loop_var);
      if (uses) reduce.push_back(l);
    }
    for (LoopRV l : reduce)  // threads that reduce together do with the init what they need
      if (s_.get(l)->kind == tir::ForKind::thread_binding) return;
    if (reduce.empty()) return;
    refusal_of([&] { s_.decompose_reduction(b, reduce[0]); });  // refused, it stays
  }

  const ScheduleData& d_;
  bool whole_ = true;
  const Array<Tensor> args_;
  Program program_;
  Sch s_;
  std::map<int, std::string> block_;                      // by stage
  std::map<int, std::map<const Object*, LoopRV>> loops_;  // by stage and axis
  std::vector<LoopRV> around_;                            // of the stage being placed
};

}  // namespace

tenon::Schedule Schedule::apply(const Array<Tensor>& args, const Array<tir::VarRef>& symbolic) const {
  return Applier(*data_, args, create_program(args, symbolic)).run();
}
tenon::Schedule Schedule::apply_part(const Array<Tensor>& inputs, const Array<Tensor>& outputs) const {
  Array<Tensor> args = inputs;
  for (const Tensor& t : outputs) args.push_back(t);
  Applier applier(*data_, args, create_program(inputs, outputs, {}));
  applier.part();
  return applier.run();
}

IRModule lower(const Schedule& schedule, const Array<Tensor>& args, const std::string& name,
               const Array<tir::VarRef>& symbolic) {
  const tenon::Schedule s = schedule.apply(args, symbolic);
  tir::PrimFunc f = s.function();
  f.edit()->attrs.set("global_symbol", Any(name));
  f.edit()->attrs.set(kTraceAttr, Any(s.trace().to_json()));
  IRModule m = IRModule::create();
  m.set(name, f);
  return m;
}

}  // namespace tenon::te
