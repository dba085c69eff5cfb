// SPDX-License-Identifier: Apache-2.0
// parallelize_branches: calls of independent programs become one call, whose program runs them side by side.
//
//   before   a = R.call_tir(conv, (x, v), …);  b = R.call_tir(pool, (x,), …)
//   after    t = R.call_tir(conv_beside_pool, (x, v), out_sinfo=[…, …]);  a = t[0];  b = t[1]
//
// Joins what can be computed where the first of the calls stands, where the model of the machine says that
// the cores are done earlier so: work that is too little to wake threads for, or one piece, beside other
// work. The program holds the stages of all; fuse_parallel_loops makes a loop of them, and decides again once
// their loops are known. As the results are those of one call, they have memory of their own.
//
// Needs: call_tir, constant shapes. Programs that say more of themselves than lowering does (a schedule, a
// processor), call functions or find places in data, where accesses are checked before they are made, stay
// alone. Keeps: values; programs that nothing calls any more go. Reports each group and why.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "analysis/cost/branches.h"
#include "analysis/cost/time.h"
#include "ir/attr_keys.h"
#include "ir/bodies.h"
#include "ir/calls_out.h"
#include "ir/pass.h"
#include "ir/structural.h"
#include "ir/tir.h"
#include "pass/graph/fusion/places.h"
#include "pass/graph/fusion/programs.h"

namespace tenon {
namespace graph {
namespace {

/// Calls that one may be joined with, and calls of a group, which its schedule and the compiler of its code
/// see at once.
constexpr size_t kReach = 64, kMostBranches = 8;
/// A loop that is worth threads alone is cut in as many parts, as far as is known before it has a schedule.
constexpr int64_t kParts = 64;

struct Candidate {
  size_t place = 0;
  ProgramCall call;
  cost::Branch work;
};

class BranchParallelizer {
 public:
  BranchParallelizer(IRModule module, bool always, PassContext& context)
      : module_(std::move(module)),
        target_(context.target.cast<TargetNode>()),
        always_(always),
        context_(context) {}

  IRModule run() {
    for (const auto& [name, f] : graph_functions(module_)) {
      if (is_primitive(*f)) continue;
      const Expr next = body(f->body);
      if (!next.same_as(f->body)) module_.set(name, with_bodies(f, {next}));
    }
    erase_uncalled(module_, joined_);
    return module_;
  }

 private:
  Expr body(const Expr& e) {
    std::vector<Binding> bindings = bindings_of(e);
    bool changed = false;
    for (Binding& b : bindings) changed |= map_bodies(b, [&](const Expr& x) { return body(x); });
    Places places(bindings);
    for (size_t i = 0; i < bindings.size(); ++i) changed |= !places.moved[i] && join_at(i, places);
    if (!changed) return e;
    return places.body(result_of(e));
  }

  /// The call at the place, and those behind it that could stand there, where that is worth it.
  bool join_at(size_t place, Places& places) {
    auto first = candidate(places, place);
    if (!first) return false;
    std::vector<Candidate> members{std::move(*first)};
    for (size_t k = place + 1, seen = 0;
         k < places.bindings.size() && seen < kReach && members.size() < kMostBranches; ++k) {
      if (places.moved[k] || !is_call_tir(places.bindings[k]->value)) continue;
      ++seen;
      std::vector<size_t> with;
      auto next = candidate(places, k);
      if (next && places.known_before(place, places.bindings[k]->value, with))
        members.push_back(std::move(*next));
    }
    if (members.size() < 2) return false;
    if (!always_) leave_out(members);
    // Without the first, the others are joined where the first of them stands.
    if (members.front().place != place) return false;
    report(places, members);
    if (members.size() < 2 || !(always_ || gain(members) > 0)) return false;
    replace(place, members, places);
    return true;
  }

  std::optional<Candidate> candidate(const Places& places, size_t place) {
    const Binding& b = places.bindings[place];
    if (!b.is<VarBindingNode>()) return std::nullopt;
    auto call = program_call(b->value, module_);
    if (!call || call->outputs.size() != 1 || !call->scalars.empty() || !as_tensor(b->var->declared))
      return std::nullopt;
    auto [known, fresh] = work_.try_emplace(call->name);
    if (fresh) known->second = work_of(call->program);
    if (!known->second) return std::nullopt;
    return Candidate{place, std::move(*call), *known->second};
  }

  /// As lowering makes it, and nothing in it needs an order that its accesses do not tell.
  static bool is_plain(const tir::PrimFunc& f) {
    static const std::set<std::string_view> known{"tir.noalias", "num_outputs", "global_symbol", kPatternAttr,
                                                  kSourceAttr};
    for (const auto& [key, value] : f->attrs)
      if (!known.count(key)) return false;
    if (!staged(f) || !f->attrs.get_or("tir.noalias", Any(false)).try_as<bool>().value_or(false))
      return false;
    bool plain = true;
    const auto direct = [&](const Array<PrimExpr>& indices) {
      for (const PrimExpr& i : indices)
        post_order(i, [&](const ObjectRef& n) { plain = plain && !n.is<tir::BufferLoad>(); });
    };
    pre_order(f->body, [&](const ObjectRef& n) {
      const auto* c = n.as<tir::Call>();
      plain = plain && !n.is<tir::While>() && !n.is<tir::AssertStmt>() && !(c && tir::calls_out(c->op));
      if (const auto* l = n.as<tir::BufferLoad>()) direct(l->indices);
      if (const auto* s = n.as<tir::BufferStore>()) direct(s->indices);
      return plain;
    });
    return plain;
  }

  /// Of a program without a schedule, as if its loops were vectors.
  std::optional<cost::Branch> work_of(const tir::PrimFunc& f) const {
    if (!is_plain(f)) return std::nullopt;
    int64_t bits = 8;
    for (const auto& [param, buffer] : f->buffer_map)
      bits = std::max<int64_t>(bits, buffer->dtype.bits * buffer->dtype.lanes);
    const int64_t vector_bits = cost::usual_vector_bits(*f, target_);
    cost::Branch out;
    out.ns =
        cost::nanoseconds(f->body, module_, vector_bits) / double(std::max<int64_t>(1, vector_bits / bits));
    if (out.ns > double(target_->fork_ns)) out.parts = kParts;
    return out;
  }

  double gain(const std::vector<Candidate>& members, size_t without = SIZE_MAX) const {
    std::vector<cost::Branch> work;
    for (size_t i = 0; i < members.size(); ++i)
      if (i != without) work.push_back(members[i].work);
    const auto together = cost::side_by_side(work, target_);
    return together ? cost::time_apart(work, target_) - together->ns : 0;
  }
  /// Those without which as much is gained.
  void leave_out(std::vector<Candidate>& members) const {
    for (size_t i = members.size(); i-- > 0 && members.size() > 1;)
      if (gain(members, i) >= gain(members)) members.erase(members.begin() + int64_t(i));
  }

  void report(const Places& places, const std::vector<Candidate>& members) const {
    if (!context_.report || members.size() < 2) return;
    std::vector<cost::Branch> work;
    std::string names;
    for (const Candidate& c : members) {
      work.push_back(c.work);
      names +=
          (names.empty() ? "" : ", ") + fmt::format("{} ({}, {:.1f} µs)", places.bindings[c.place]->var->name,
                                                    c.call.name, c.work.ns / 1e3);
    }
    const auto together = cost::side_by_side(work, target_, always_);
    context_.report(
        "parallelize_branches",
        Any(fmt::format("{}: {}; {:.1f} µs apart{}", together ? "side by side" : "not side by side", names,
                        cost::time_apart(work, target_) / 1e3,
                        together ? fmt::format(", {:.1f} µs together", together->ns / 1e3) : "")));
  }

  /// One call in the place of the first, behind the views that it reads; the variables are its items.
  void replace(size_t place, const std::vector<Candidate>& members, Places& places) {
    std::vector<size_t> views;
    for (const Candidate& c : members) places.known_before(place, places.bindings[c.place]->value, views);
    std::vector<Binding>& out = places.instead_of[place];
    for (size_t v : views) {
      out.push_back(places.bindings[v]);
      places.take_away(v, place);
    }
    Array<Expr> args;
    Array<Type> types;
    const std::string name = joined(members, args);
    for (const Candidate& c : members) types.push_back(c.call.outputs[0]);
    const Binding& first = places.bindings[place];
    const VarRef whole = var(first->var->name + "_beside", tuple_type(types));
    out.push_back(make<VarBindingNode>(
        whole, with_type(call_tir(global(name), args, types), whole->declared, first->value->origin)));
    for (size_t i = 0; i < members.size(); ++i) {
      const VarRef v = places.bindings[members[i].place]->var;
      out.push_back(make<VarBindingNode>(v, with_type(make<TupleGetItem>(whole, int64_t(i)), v->declared)));
      places.take_away(members[i].place, place);
    }
  }

  /// The program of all; a tensor that several read is one parameter.
  std::string joined(const std::vector<Candidate>& members, Array<Expr>& args) {
    StagedProgram all;
    std::vector<tir::Buffer> results;
    Array<std::string> sources;
    std::string name;
    for (const Candidate& c : members) {
      const auto own = staged(tir::rename_all(c.call.program));
      tir::BufferMap same;
      for (size_t i = 0; i < c.call.args.size(); ++i) {
        size_t known = 0;
        while (known < args.size() &&
               !(args[known].same_as(c.call.args[i]) && alike(all.params[known], own->params[i])))
          ++known;
        if (known < args.size()) {
          same[own->params[i].get()] = all.params[known];
          continue;
        }
        args.push_back(c.call.args[i]);
        all.params.push_back(own->params[i]);
      }
      results.push_back(own->params.back());
      all.allocated.insert(all.allocated.end(), own->allocated.begin(), own->allocated.end());
      for (const tir::Stmt& s : own->stages) all.stages.push_back(tir::replace_buffers(s, same));
      if (const auto list = c.call.program->attrs.find(kSourceAttr))
        for (const std::string& s : list->as<Array<std::string>>())
          if (std::find(sources.begin(), sources.end(), s) == sources.end()) sources.push_back(s);
      name += (name.empty() ? "" : "_beside_") + c.call.name;
      joined_.insert(c.call.name);
    }
    all.params.insert(all.params.end(), results.begin(), results.end());
    return added(all, name, int64_t(members.size()), sources);
  }
  static bool alike(const tir::Buffer& a, const tir::Buffer& b) {
    return a->dtype == b->dtype && structural_equal(a->shape, b->shape);
  }
  /// Equal programs stand in the module once.
  std::string added(const StagedProgram& p, std::string name, int64_t results,
                    const Array<std::string>& sources) {
    constexpr size_t kLongestName = 72, kBegin = 60;
    if (name.size() > kLongestName)
      name = fmt::format("{}_{:08x}", name.substr(0, kBegin), uint32_t(hash_bytes(name.data(), name.size())));
    AttrMap attrs;
    attrs.set("tir.noalias", Any(true));
    attrs.set(kPatternAttr, Any(int64_t(FusionKind::opaque)));
    // One branch may read what the other would write over.
    attrs.set(kNotInPlaceAttr, Any(true));
    tir::PrimFunc f = program_of(p, name, results, attrs);
    auto& same = known_[structural_hash(f)];
    for (auto& [program, known] : same)
      if (structural_equal(program, f)) {
        name_sources(known, sources);
        return known;
      }
    const std::string fresh = module_.fresh_name(name);
    same.emplace_back(f, fresh);
    f.edit()->attrs.set("global_symbol", Any(fresh));
    module_.set(fresh, f);
    name_sources(fresh, sources);
    return fresh;
  }
  void name_sources(const std::string& name, const Array<std::string>& sources) {
    if (sources.empty()) return;
    tir::PrimFunc f = module_.find(name).cast<tir::PrimFuncNode>();
    Array<std::string> all = f->attrs.get_or(kSourceAttr, Any(Array<std::string>())).as<Array<std::string>>();
    for (const std::string& s : sources)
      if (std::find(all.begin(), all.end(), s) == all.end()) all.push_back(s);
    f.edit()->attrs.set(kSourceAttr, Any(all));
    module_.set(name, f);
  }

  IRModule module_;
  Target target_;
  bool always_;  ///< whatever the model says
  PassContext& context_;
  std::map<std::string, std::optional<cost::Branch>> work_;  ///< by program
  std::unordered_map<uint64_t, std::vector<std::pair<tir::PrimFunc, std::string>>> known_;
  std::set<std::string> joined_;
};

}  // namespace
}  // namespace graph

static const Option<bool> kAlways("parallelize_branches.always", false,
                                  "also where the model of the machine sees no gain");

static IRModule parallelize_branches(IRModule module, PassContext& context) {
  const Target target = context.target.cast<TargetNode>();
  const bool always = context.options.get(kAlways);
  if (!target || (!always && target->cores < 2)) return module;
  return graph::BranchParallelizer(std::move(module), always, context).run();
}

const Pass& parallelize_branches_pass = register_pass({
    .name = "parallelize_branches",
    .run = parallelize_branches,
    .level = 2,
    .summary = "independent programs run side by side where that is faster",
    .needs = {"lower_to_call_tir"},
    .options = {kAlways},
});

}  // namespace tenon
