// SPDX-License-Identifier: Apache-2.0
// Replay: the steps of a trace run on a schedule, handles mapped to those which the steps make anew. A number
// that a sampler picks is passed on to the steps that use it.
#include "schedule/replay.h"

#include <fmt/format.h>

#include <map>

#include "schedule/trace_impl.h"

namespace tenon::sched {

namespace {

using Ids = std::vector<int32_t>;

/// Variables of the program's sizes, by name.
std::map<std::string, tir::VarRef> size_variables(const tir::PrimFunc& f) {
  std::map<std::string, tir::VarRef> out;
  for (const tir::VarRef& p : f->params)
    if (p->dtype.is_integer()) out.emplace(p->name, p);
  for (auto [p, b] : f->buffer_map)
    for (const PrimExpr& d : b->shape)
      for (const tir::VarRef& v : tir::free_vars(d)) out.emplace(v->name, v);
  return out;
}

/// One step with its inputs as handles of the schedule that it runs on.
struct Step {
  Schedule& s;
  const TraceStep& t;
  std::string where;  ///< "step 3 (split)"
  Ids in;
  char first_kind = '?';
  std::map<int32_t, IntRV>& values;  ///< by the trace's handle

  BlockRV b(size_t i = 0) const { return {in[i]}; }
  LoopRV l(size_t i = 0) const { return {in[i]}; }
  std::optional<Any> find(const char* key) const { return t.attrs.find(key); }
  std::string text(const char* key) const {
    const std::optional<Any> v = find(key);
    auto x = v ? v->try_as<std::string>() : std::nullopt;
    if (!x) bad_trace(fmt::format("{} has no text '{}'", where, key));
    return *x;
  }
  int number(const char* key) const {
    const std::optional<Any> v = find(key);
    auto x = v ? v->try_as<int64_t>() : std::nullopt;
    if (!x || *x != int(*x)) bad_trace(fmt::format("{} has no number '{}'", where, key));
    return int(*x);
  }
  std::vector<LoopRV> loops() const {
    std::vector<LoopRV> out;
    for (int32_t i : in) out.push_back({i});
    return out;
  }
  const Array<Any> list(const char* key) const {
    const std::optional<Any> v = find(key);
    auto items = v ? v->try_as<Array<Any>>() : std::nullopt;
    if (!items) bad_trace(fmt::format("{} has no list '{}'", where, key));
    return *items;
  }
  std::vector<int64_t> numbers(const char* key) const {
    std::vector<int64_t> out;
    for (const Any& f : list(key)) {
      auto x = f.try_as<int64_t>();
      if (!x) bad_trace(fmt::format("{}: an item of '{}' is no number", where, key));
      out.push_back(*x);
    }
    return out;
  }
  std::vector<int> small_numbers(const char* key) const {
    std::vector<int> out;
    for (int64_t x : numbers(key)) out.push_back(int(x));
    return out;
  }
  std::vector<double> reals(const char* key) const {
    std::vector<double> out;
    for (const Any& f : list(key)) {
      auto x = f.try_as<double>();
      if (!x) bad_trace(fmt::format("{}: an item of '{}' is no number", where, key));
      out.push_back(*x);
    }
    return out;
  }
  Factors factors() const {
    std::vector<IntRV> out;
    for (const Any& f : list("factors")) {
      if (auto x = f.try_as<int64_t>()) {
        out.emplace_back(*x);
        continue;
      }
      auto name = f.try_as<std::string>();
      auto it = values.find(name ? handle_id(*name) : -1);
      if (it == values.end()) bad_trace(fmt::format("{}: a factor is no number and was not sampled", where));
      out.push_back(it->second);
    }
    return Factors(out);
  }
  DataType dtype(const char* key) const {
    const std::optional<Any> v = find(key);
    if (!v || v->tag() != kDataType) bad_trace(fmt::format("{} has no data type '{}'", where, key));
    return v->as<DataType>();
  }
  PrimExpr expr(const char* key) const {
    const std::optional<Any> v = find(key);
    if (!v || v->is_none()) return {};
    auto e = v->try_as<PrimExpr>();
    if (!e) bad_trace(fmt::format("{}: '{}' is no expression", where, key));
    return *e;
  }
  IndexMap index_map() const {
    const std::optional<Any> v = find("index_map");
    auto x = v ? v->try_as<IndexMap>() : std::nullopt;
    if (!x || !*x) bad_trace(fmt::format("{} has no index map", where));
    // Sizes of the program are known by name.
    tir::VarMap sizes;
    const auto known = size_variables(s.function());
    for (const tir::VarRef& free : tir::free_vars((*x)->outputs)) {
      bool input = false;
      for (const tir::VarRef& y : (*x)->inputs) input = input || y.same_as(free);
      if (input) continue;
      auto it = known.find(free->name);
      if (it == known.end())
        bad_trace(fmt::format("{} needs a size '{}' that the program does not have", where, free->name));
      sizes[free.get()] = it->second;
    }
    return sizes.empty() ? *x : make<IndexMapNode>((*x)->inputs, (*x)->outputs.map([&](const PrimExpr& e) {
      return tir::substitute(e, sizes);
    }));
  }
  Ids sampled(const std::vector<IntRV>& made) {
    Ids out;
    for (size_t i = 0; i < made.size(); ++i) {
      out.push_back(made[i].id);
      if (i < t.outputs.size()) values.insert_or_assign(t.outputs[i], made[i]);
    }
    return out;
  }
};

Ids of(BlockRV b) { return {b.id}; }
Ids of(LoopRV l) { return {l.id}; }
Ids of(const std::vector<LoopRV>& l) {
  Ids out;
  for (LoopRV x : l) out.push_back(x.id);
  return out;
}
Ids of(const std::vector<BlockRV>& l) {
  Ids out;
  for (BlockRV x : l) out.push_back(x.id);
  return out;
}

using Run = Ids (*)(Step&);
/// A step that makes handles, or none.
template <auto f>
Ids run(Step& x) {
  if constexpr (std::is_void_v<decltype(f(x))>) {
    f(x);
    return {};
  } else {
    return of(f(x));
  }
}

const std::map<std::string_view, Run>& runs() {
  static const std::map<std::string_view, Run> table{
      {"get_block", run<[](Step& x) { return x.s.get_block(x.text("name")); }>},
      {"get_loops", run<[](Step& x) { return x.s.get_loops(x.b()); }>},
      {"get_child_blocks", run<[](Step& x) { return x.s.get_child_blocks(x.l()); }>},
      {"get_producers", run<[](Step& x) { return x.s.get_producers(x.b()); }>},
      {"get_consumers", run<[](Step& x) { return x.s.get_consumers(x.b()); }>},
      {"get_output_blocks", run<[](Step& x) { return x.s.get_output_blocks(); }>},
      {"split", run<[](Step& x) { return x.s.split(x.l(), x.factors()); }>},
      {"fuse", run<[](Step& x) { return x.s.fuse(x.loops()); }>},
      {"merge", run<[](Step& x) { return x.s.merge(x.loops()); }>},
      {"loop_partition", run<[](Step& x) { return x.s.loop_partition(x.l(), x.numbers("sizes")); }>},
      {"reorder", run<[](Step& x) { x.s.reorder(x.loops()); }>},
      {"reorder_block_iter_var",
       run<[](Step& x) { x.s.reorder_block_iter_var(x.b(), x.small_numbers("order")); }>},
      {"add_unit_loop", run<[](Step& x) { return x.s.add_unit_loop(x.b()); }>},
      {"add_thread_loop", run<[](Step& x) {
         return x.s.add_thread_loop(x.b(), x.text("thread_axis"), x.number("extent"), x.number("which"));
       }>},
      {"parallel", run<[](Step& x) { x.s.parallel(x.l()); }>},
      {"vectorize", run<[](Step& x) { x.s.vectorize(x.l()); }>},
      {"unroll", run<[](Step& x) { x.s.unroll(x.l()); }>},
      {"bind", run<[](Step& x) { x.s.bind(x.l(), x.text("thread_axis")); }>},
      {"fuse_iterators",
       run<[](Step& x) { return x.s.fuse_iterators(x.b(), x.number("first"), x.number("count")); }>},
      {"pad_iteration", run<[](Step& x) {
         x.s.pad_iteration(x.b(), x.number("iterator"), x.number("multiple"), x.number("clamp") != 0);
       }>},
      {"compute_inline", run<[](Step& x) { x.s.compute_inline(x.b()); }>},
      {"reverse_compute_inline", run<[](Step& x) { x.s.reverse_compute_inline(x.b()); }>},
      {"compute_at", run<[](Step& x) { x.s.compute_at(x.b(), x.l(1)); }>},
      {"reverse_compute_at", run<[](Step& x) { x.s.reverse_compute_at(x.b(), x.l(1)); }>},
      {"decompose_reduction", run<[](Step& x) { return x.s.decompose_reduction(x.b(), x.l(1)); }>},
      {"rfactor", run<[](Step& x) { return x.s.rfactor(x.l(), x.number("factor_axis")); }>},
      {"cache_read", run<[](Step& x) {
         std::vector<BlockRV> others;
         for (size_t i = 1; i < x.in.size(); ++i) others.push_back(x.b(i));
         return x.s.cache_read(x.b(), x.number("read_index"), x.text("scope"), others);
       }>},
      {"cache_write",
       run<[](Step& x) { return x.s.cache_write(x.b(), x.number("write_index"), x.text("scope")); }>},
      {"reindex", run<[](Step& x) {
         return x.find("write_index") ? x.s.reindex(x.b(), x.number("write_index"), "write")
                                      : x.s.reindex(x.b(), x.number("read_index"));
       }>},
      {"reindex_cache_read", run<[](Step& x) {
         return x.s.reindex_cache_read(x.b(), x.number("read_index"), x.text("scope"), x.index_map());
       }>},
      {"reindex_cache_write", run<[](Step& x) {
         return x.s.reindex_cache_write(x.b(), x.number("write_index"), x.text("scope"), x.index_map());
       }>},
      {"cache_inplace",
       run<[](Step& x) { return x.s.cache_inplace(x.b(), x.number("read_index"), x.text("scope")); }>},
      {"cache_index",
       run<[](Step& x) { return x.s.cache_index(x.b(), x.text("scope"), x.number("threshold")); }>},
      {"read_at",
       run<[](Step& x) { return x.s.read_at(x.l(), x.b(1), x.number("read_index"), x.text("scope")); }>},
      {"write_at",
       run<[](Step& x) { return x.s.write_at(x.l(), x.b(1), x.number("write_index"), x.text("scope")); }>},
      {"fuse_reduction_epilogue", run<[](Step& x) { x.s.fuse_reduction_epilogue(x.b(), x.b(1)); }>},
      {"unsafe_hide_buffer_access", run<[](Step& x) {
         x.s.unsafe_hide_buffer_access(x.b(), x.text("buffer_index_type"), x.small_numbers("indices"));
       }>},
      {"annotate_buffer_access", run<[](Step& x) {
         x.s.annotate_buffer_access(x.b(), x.number("buffer_index"), x.text("buffer_index_type"),
                                    x.index_map());
       }>},
      {"enter_postproc", run<[](Step& x) { x.s.enter_postproc(); }>},
      {"sample_partitioned_tile",
       [](Step& x) {
         return x.sampled(x.s.sample_partitioned_tile(x.l(), x.number("n"), x.number("partition_pos"),
                                                      x.number("innerpart_factor"), x.numbers("decision"))
                              .items);
       }},
      {"set_scope", run<[](Step& x) { x.s.set_scope(x.b(), x.number("write_index"), x.text("scope")); }>},
      {"unsafe_set_dtype",
       run<[](Step& x) { x.s.unsafe_set_dtype(x.b(), x.number("write_index"), x.dtype("dtype")); }>},
      {"storage_align", run<[](Step& x) {
         x.s.storage_align(x.b(), x.number("write_index"), x.number("axis"), x.number("factor"),
                           x.number("offset"));
       }>},
      {"set_axis_separator", run<[](Step& x) {
         x.s.set_axis_separator(x.b(), x.number("buffer_index"), x.text("buffer_index_type"),
                                x.small_numbers("separators"));
       }>},
      {"rolling_buffer", run<[](Step& x) { x.s.rolling_buffer(x.b(), x.number("write_index")); }>},
      {"blockize", run<[](Step& x) { return x.s.blockize(x.l()); }>},
      {"tensorize", run<[](Step& x) { return x.s.tensorize(x.b(), x.text("tensor_intrin")); }>},
      {"transform_layout", run<[](Step& x) {
         x.s.transform_layout(x.b(), x.number("buffer_index"), x.text("buffer_index_type"), x.index_map(),
                              x.expr("pad_value"));
       }>},
      {"transform_block_layout", run<[](Step& x) { x.s.transform_block_layout(x.b(), x.index_map()); }>},
      {"pad_einsum", run<[](Step& x) { x.s.pad_einsum(x.b(), x.numbers("padding")); }>},
      {"decompose_padding", run<[](Step& x) { return x.s.decompose_padding(x.b(), x.l(1)); }>},
      {"sample_perfect_tile",
       [](Step& x) {
         return x.sampled(
             x.s.sample_perfect_tile(x.l(), x.number("n"), x.number("max_innermost"), x.numbers("decision"))
                 .items);
       }},
      {"sample_categorical",
       [](Step& x) {
         return x.sampled(
             {x.s.sample_categorical(x.numbers("candidates"), x.reals("probs"), x.number("decision"))});
       }},
      {"sample_compute_location",
       [](Step& x) { return Ids{x.s.sample_compute_location(x.b(), x.number("decision")).id}; }},
      {"annotate", run<[](Step& x) {
         const Any value = x.t.attrs.get_or("value", Any());
         if (x.first_kind == 'b')
           x.s.annotate(x.b(), x.text("key"), value);
         else
           x.s.annotate(x.l(), x.text("key"), value);
       }>},
      {"unannotate", run<[](Step& x) {
         if (x.first_kind == 'b')
           x.s.unannotate(x.b(), x.text("key"));
         else
           x.s.unannotate(x.l(), x.text("key"));
       }>},
  };
  return table;
}

}  // namespace

void replay_steps(Schedule& s, const Trace& trace) {
  std::map<int32_t, int32_t> made;
  std::map<int32_t, IntRV> values;
  const auto kinds = kinds_of(trace);
  for (size_t at = 0; at < trace.steps.size(); ++at) {
    const TraceStep& t = trace.steps[at];
    const PrimitiveInfo& sig = signature(t.name);
    Step step{s, t, fmt::format("step {} ({})", at + 1, t.name), {}, '?', values};
    for (const Any& a : t.inputs) {
      const int32_t id = a.try_as<int32_t>().value_or(-1);
      auto it = made.find(id);
      if (it == made.end())
        throw ScheduleError(ErrorKind::model, "T0791",
                            fmt::format("{} uses handle {} that no earlier step made", step.where, id));
      step.in.push_back(it->second);
      const char want = kind_of(sig.inputs, step.in.size() - 1), is = kinds.at(id);
      if ((want != 'e' && want != is) || is == 'v')
        bad_trace(fmt::format("input {} of {} is a {}", step.in.size(), step.where,
                              is == 'b'   ? "block"
                              : is == 'l' ? "loop"
                                          : "number"));
      if (step.in.size() == 1) step.first_kind = is;
    }
    if (!sig.inputs.ends_with('*') && step.in.size() != sig.inputs.size())
      bad_trace(fmt::format("{} has {} inputs", step.where, step.in.size()));
    const Ids out = runs().at(t.name)(step);
    // A sampler of an older trace names no numbers.
    if (out.size() != t.outputs.size() && !(sig.kind == StepKind::sample && t.outputs.empty()))
      bad_trace(fmt::format("{} made {} handles, the trace has {}: it was recorded on another program",
                            step.where, out.size(), t.outputs.size()));
    for (size_t i = 0; i < t.outputs.size(); ++i) made[t.outputs[i]] = out[i];
  }
}

}  // namespace tenon::sched
