// SPDX-License-Identifier: Apache-2.0
// The memory plan, judged by a simulation that knows nothing of how it was made: programs run one after the
// other over bytes, and a tensor that is read must still hold what its program wrote.
#include "pass/graph/lowering/plan_memory.h"

#include "ir/bodies.h"
#include "support.h"

namespace tenon::graph::testing_graph {
namespace {

std::vector<int64_t> offsets_of(const Function& f) {
  std::vector<int64_t> out;
  for (const Array<int64_t>& call : f.plan->calls)
    for (const int64_t offset : call) out.push_back(offset);
  return out;
}

/// Owner of each byte: the position of the tensor that wrote it last.
class Simulation {
 public:
  Simulation(const Ref<Function>& f) : function_(f), offsets_(offsets_of(*f)) {
    owner_.assign(size_t(f->plan->arena_bytes), -1);
    int position = 0, number = 0;
    for (const auto& [var, call] : planned_bindings(*f).calls) {
      positions_[var.get()] = position;
      if (std::count(f->plan->joined.begin(), f->plan->joined.end(), number++)) joins.insert(position);
      position += int(call->type_args.size());
    }
  }
  /// Straight-line functions of call_tir and views.
  void run() {
    for (const Binding& b : bindings_of(function_->body)) {
      const Expr value = b->value;
      const auto* c = value.as<Call>();
      if (const auto* item = value.as<TupleGetItem>()) {
        tensors_[b->var.get()] = {tensors_[item->tuple.as<Var>()].at(size_t(item->index))};
        continue;
      }
      ASSERT_TRUE(c);
      if (is_op(value, "call_pure_packed")) {
        tensors_[b->var.get()] = tensors_[c->args[1].as<Var>()];
        read(c->args[1]);
        continue;
      }
      ASSERT_TRUE(is_op(value, "call_tir"));
      for (const Expr& a : c->args[1].as<Tuple>()->items) read(a);
      const int first = positions_.at(b->var.get());
      for (size_t i = 0; i < c->type_args.size(); ++i) {
        const int id = first + int(i);
        tensors_[b->var.get()].push_back(id);
        const int64_t at = offsets_.at(size_t(id)), bytes = size_of(c->type_args[i]);
        bytes_[id] = bytes;
        if (at < 0) continue;
        EXPECT_EQ(at % 64, 0);
        if (joins.count(id)) {
          // Nothing is written: the parts must lie there, one behind the other.
          int64_t end = at;
          for (const Expr& a : c->args[1].as<Tuple>()->items) {
            const int part = tensors_.at(a.as<Var>()).at(0);
            EXPECT_EQ(offsets_.at(size_t(part)), end);
            end += bytes_.at(part);
            parts_[id].push_back(part);
          }
          EXPECT_EQ(end, at + bytes);
          continue;
        }
        ASSERT_LE(at + bytes, int64_t(owner_.size()));
        for (int64_t k = at; k < at + bytes; ++k) owner_[size_t(k)] = id;
        ++in_arena;
      }
      // Outputs of one program must not share.
      for (size_t i = 0; i < c->type_args.size(); ++i) check(first + int(i));
    }
    for_each_use(result_of(function_->body), [&](const VarRef& v) {
      for (int id : tensors_[v.get()]) EXPECT_LT(offsets_.at(size_t(id)), 0) << "a result in the arena";
    });
  }
  int in_arena = 0;
  std::set<int> joins;

 private:
  static int64_t size_of(const Type& t) {
    return int64_t(storage_bytes(element_count(*static_shape(t)), as_tensor(t)->dtype));
  }
  void read(const Expr& e) {
    if (const auto* v = e.as<Var>())
      for (int id : tensors_[v]) check(id);
  }
  void check(int id) {
    if (auto made_of = parts_.find(id); made_of != parts_.end()) {
      for (int part : made_of->second) check(part);
      return;
    }
    const int64_t at = offsets_.at(size_t(id));
    for (int64_t k = at; at >= 0 && k < at + bytes_[id]; ++k)
      ASSERT_EQ(owner_[size_t(k)], id) << "tensor " << id << " was overwritten while it was needed";
  }
  Ref<Function> function_;
  std::vector<int64_t> offsets_;
  std::unordered_map<const Var*, int> positions_;
  std::unordered_map<const Var*, std::vector<int>> tensors_;
  std::map<int, int64_t> bytes_;
  std::map<int, std::vector<int>> parts_;
  std::vector<int> owner_;
};

IRModule planned(const IRModule& m, bool in_place = true, bool reorder = true) {
  PassContext context = make_context();
  context.options.set("plan_memory.in_place", in_place);
  context.options.set("plan_memory.reorder", reorder);
  IRModule out = run_pass("plan_memory", run_pass("lower_to_call_tir", m, context), context);
  expect_valid(out);
  return out;
}

TEST(PlanMemory, ChainNeedsTwoSlotsOrOneInPlace) {
  Model m;
  Expr x = m.param("x", {16});
  for (int i = 0; i < 6; ++i) x = m.op("exp", {x});
  IRModule in = m.done(x);
  IRModule two = planned(in, false), one = planned(in, true);
  EXPECT_EQ(main_of(two)->plan->arena_bytes, 128);
  EXPECT_EQ(main_of(one)->plan->arena_bytes, 64);
  Simulation(main_of(two)).run();
  EXPECT_FALSE(one.find("op_exp").as<tir::PrimFuncNode>()->attrs.at("tir.noalias").as<bool>());
  EXPECT_TRUE(two.find("op_exp").as<tir::PrimFuncNode>()->attrs.at("tir.noalias").as<bool>());
}

TEST(PlanMemory, ResidualsStayAlive) {
  Model m;
  Expr x = m.param("x", {32});
  Expr a = m.op("exp", {x});
  Expr b = m.op("sin", {a}), c = m.op("cos", {b});
  Expr d = m.op("add", {c, a});
  Expr y = m.op("tanh", {d});
  IRModule out = planned(m.done(y), false);
  Simulation s(main_of(out));
  s.run();
  EXPECT_EQ(s.in_arena, 4);
}

TEST(PlanMemory, RandomGraphsNeverOverlapAndStayCloseToTheBound) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    std::mt19937_64 random(seed);
    Model m;
    std::vector<Expr> values{m.param("x", {64})};
    for (int i = 0; i < 40; ++i) {
      const Expr& a = values[random() % values.size()];
      const int64_t n = static_shape(a->type)->at(0);
      switch (random() % 4) {
        case 0:
          values.push_back(m.op("exp", {a}));
          break;
        case 1:
          values.push_back(m.op("concat", {op::tuple({a, a})}, op::make_attrs<op::AxisAttrs>(0)));
          break;
        case 2:
          values.push_back(m.op("reshape", {a, op::shape({n, 1})}));
          values.back() = m.op("reshape", {values.back(), op::shape({n})});
          break;
        default:
          values.push_back(m.op("multiply", {a, a}));
      }
      if (static_shape(values.back()->type)->at(0) > 4096) values.pop_back();
    }
    IRModule in = m.done(m.op("concat", {op::tuple({values.back(), values[values.size() / 2]})},
                              op::make_attrs<op::AxisAttrs>(0)));
    PassContext context = make_context();
    in = run_pass("eliminate_dead_code", in, context);
    IRModule out = planned(in, false);
    Simulation(main_of(out)).run();
    PlannedMemory plan = plan_function(*main_of(planned(in, true)), planned(in, true));
    EXPECT_GE(plan.arena_bytes, plan.lower_bound);
    EXPECT_LE(plan.arena_bytes, plan.lower_bound * 3 / 2) << "seed " << seed;
  }
}

Expr sum_of_rows(Model& m, const Expr& x) {
  return m.op("sum", {x}, op::make_attrs<op::ReduceAttrs>([](auto& a) { a.axis = Array<int64_t>{1}; }));
}

/// Sums of wide tensors, as many, every wide one made before the first sum.
IRModule sums_of_wide_tensors(int count) {
  Model m;
  const Expr column = m.param("column", {16, 1}), row = m.param("row", {1, 64});
  std::vector<Expr> wide, sums;
  for (int i = 0; i < count; ++i)
    wide.push_back(m.op(i % 2 ? "multiply" : "add", {i ? m.op("tanh", {wide.back()}) : column, row}));
  for (const Expr& w : wide) sums.push_back(sum_of_rows(m, w));
  return m.done(m.op("concat", {op::tuple(Array<Expr>(sums))}, op::make_attrs<op::AxisAttrs>(0)));
}

TEST(PlanMemory, BindingsStandInTheOrderThatNeedsTheSmallerArena) {
  const IRModule in = sums_of_wide_tensors(8);
  const IRModule as_written = planned(in, true, false), reordered = planned(in);
  Simulation(main_of(as_written)).run();
  Simulation(main_of(reordered)).run();
  const int64_t wide = 16 * 64 * 4;
  EXPECT_GE(main_of(as_written)->plan->arena_bytes, 8 * wide);
  EXPECT_LE(main_of(reordered)->plan->arena_bytes, 3 * wide);
  const std::vector<NDArray> inputs{random_array({16, 1}), random_array({1, 64})};
  expect_close(run(in, inputs), run(reordered, inputs), 1e-6);
}

TEST(PlanMemory, NoOrderNeedsMoreThanTheOneThatWasThere) {
  int smaller = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    std::mt19937_64 random(seed);
    Model m;
    std::vector<Expr> values{m.param("x", {64})};
    for (int i = 0; i < 30; ++i) {
      const Expr& a = values[random() % values.size()];
      const int64_t n = static_shape(a->type)->at(0);
      if (n < 4 || (random() % 2 && n <= 512))
        values.push_back(
            m.op("concat", {op::tuple({a, m.op("exp", {a})})}, op::make_attrs<op::AxisAttrs>(0)));
      else
        values.push_back(sum_of_rows(m, m.op("reshape", {a, op::shape({n / 2, 2})})));
    }
    const IRModule in =
        m.done(m.op("concat", {op::tuple(Array<Expr>(values))}, op::make_attrs<op::AxisAttrs>(0)));
    const IRModule as_written = planned(in, true, false), reordered = planned(in);
    Simulation(main_of(reordered)).run();
    const int64_t before = main_of(as_written)->plan->arena_bytes,
                  after = main_of(reordered)->plan->arena_bytes;
    EXPECT_LE(after, before) << "seed " << seed;
    smaller += after < before;
  }
  EXPECT_GT(smaller, 0);
}

TEST(PlanMemory, PartsOfConcatenationsAreWrittenInPlace) {
  const auto concat = [](Model& m, std::vector<Expr> parts, int64_t axis) {
    return m.op("concat", {op::tuple(Array<Expr>(parts))}, op::make_attrs<op::AxisAttrs>(axis));
  };
  {
    // The growing concatenations of a dense block are one piece of memory.
    Model m;
    Expr x = m.param("x", {1, 2, 16});
    Expr all = m.op("exp", {x});
    for (int i = 0; i < 3; ++i) {
      Expr more = m.op("sin", {m.op("sum", {all}, op::make_attrs<op::ReduceAttrs>([](auto& a) {
                                      a.axis = Array<int64_t>{1};
                                      a.keepdims = true;
                                    }))});
      all = concat(m, {all, more}, 1);
    }
    IRModule out = planned(m.done(m.op("tanh", {all})));
    Simulation s(main_of(out));
    s.run();
    EXPECT_EQ(s.joins.size(), 3u);
    int unused = 0;
    for (auto [name, f] : out.functions())
      if (const auto* p = f.as<tir::PrimFuncNode>()) unused += p->attrs.contains("tenon.memory_only");
    EXPECT_EQ(unused, 3);
  }
  struct Case {
    const char* what;
    std::vector<int64_t> shape;
    int64_t axis;
    size_t joins;
  };
  for (const Case& c :
       {Case{"leading axis of one", {1, 3, 32}, 1, 1}, Case{"first axis", {3, 32}, 0, 1},
        Case{"parts interleave", {2, 3, 32}, 1, 0}, Case{"parts off 64 bytes", {1, 3, 5}, 1, 0}}) {
    Model m;
    Expr x = m.param("x", Array<PrimExpr>(c.shape.begin(), c.shape.end()));
    Expr y = concat(m, {m.op("exp", {x}), m.op("sin", {x})}, c.axis);
    Simulation s(main_of(planned(m.done(m.op("tanh", {y})))));
    s.run();
    EXPECT_EQ(s.joins.size(), c.joins) << c.what;
  }
  // Not where a part is a parameter, a result, or there twice.
  for (int which = 0; which < 3; ++which) {
    Model m;
    Expr x = m.param("x", {1, 3, 32}), a = m.op("exp", {x});
    Expr y = m.op("tanh", {concat(m, {which == 0 ? x : a, which == 2 ? a : m.op("sin", {x})}, 1)});
    Simulation s(main_of(planned(m.done(which == 1 ? op::tuple({y, a}) : y))));
    s.run();
    EXPECT_EQ(s.joins.size(), 0u) << which;
  }
  // What is read later than the whole, or the whole later than it, is overwritten by nobody.
  size_t joins = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    std::mt19937_64 random(seed);
    Model m;
    std::vector<Expr> values{m.op("exp", {m.param("x", {16})})};
    for (int i = 0; i < 30; ++i) {
      const Expr& a = values[random() % values.size()];
      const Expr& b = values[random() % values.size()];
      if (random() % 3 == 0)
        values.push_back(concat(m, {a, b}, 0));
      else
        values.push_back(m.op(random() % 2 ? "exp" : "tanh", {a}));
      if (static_shape(values.back()->type)->at(0) > 2048) values.pop_back();
    }
    IRModule in = m.done(m.op("exp", {concat(m, {values.back(), values[values.size() / 2]}, 0)}));
    PassContext context = make_context();
    in = run_pass("eliminate_dead_code", in, context);
    for (bool in_place : {false, true}) {
      IRModule out = planned(in, in_place);
      Simulation s(main_of(out));
      s.run();
      joins += s.joins.size();
    }
  }
  EXPECT_GT(joins, 100u);
}

TEST(PlanMemory, SymbolicSizesComeFromThePool) {
  // The second size went through int32 on its way: that it is at most 2147483647 is no bound to plan for.
  const PrimExpr n = tir::var("n");
  for (const PrimExpr& size : {n, tir::min(n, PrimExpr(int64_t(2147483647)))}) {
    Model m;
    Expr x = m.param("x", {size});
    Expr y = m.op("sin", {m.op("exp", {x})});
    IRModule out = planned(m.done(y));
    for (int64_t o : offsets_of(*main_of(out))) EXPECT_EQ(o, -1);
    EXPECT_EQ(main_of(out)->plan->arena_bytes, 0);
  }
}

TEST(PlanMemory, LoopsKeepWhatEveryIterationReads) {
  Model m;
  auto x = m.param("x", {16});
  Expr outside = m.op("exp", {x});
  auto s = var("s", x->type), i = var("i", tensor_type({}, i64));
  BlockBuilder cond = op::make_builder(), body = op::make_builder();
  Expr condition = cond.finish(cond.emit(op::op_call("less", {i, op::scalar(3, i64)}), "go"));
  Expr t = body.emit(op::op_call("sin", {s}), "t");
  Expr u = body.emit(op::op_call("add", {t, outside}), "u");  // read in every iteration
  Expr v = body.emit(op::op_call("cos", {u}), "v");
  Expr w = body.emit(op::op_call("tanh", {v}), "w");
  Expr next = body.emit(op::op_call("add", {i, op::scalar(1, i64)}), "next");
  Expr loop = make<While>(Array<VarRef>{i, s}, Array<Expr>{op::scalar(0, i64), x}, condition,
                          body.finish(op::tuple({next, w})));
  loop.edit()->type = op::infer_type(loop);
  Expr all = m.builder.emit(loop);
  Expr y = m.op("exp", {m.builder.emit(op::get_item(all, 1))});
  IRModule out = planned(m.done(y), true);
  PlannedMemory plan = plan_function(*main_of(out), out);
  const PlannedTensor* kept = nullptr;
  for (const PlannedTensor& p : plan.tensors)
    if (p.name == bindings_of(main_of(out)->body)[0]->var->name) kept = &p;
  ASSERT_TRUE(kept);
  ASSERT_GE(kept->offset, 0);
  for (const PlannedTensor& p : plan.tensors) {
    if ((p.name == "t" || p.name == "u" || p.name == "v") && p.offset >= 0) {
      EXPECT_TRUE(p.offset >= kept->offset + kept->bytes || p.offset + p.bytes <= kept->offset)
          << p.name << " overwrites a value of the next iteration";
    }
  }
}

TEST(PlanMemory, CalledFunctionsLieBehindTheirCallers) {
  Model m;
  auto x = m.param("x", {8});
  BlockBuilder b = op::make_builder();
  auto q = var("q", x->type);
  Expr r = b.emit(op::op_call("sin", {b.emit(op::op_call("exp", {q}), "e")}), "s");
  Expr c = call(global("helper"), {x});
  c.edit()->type = x->type;
  IRModule in = m.done(m.op("cos", {m.builder.emit(c)}));
  in.set("helper", make<Function>(Array<VarRef>{q}, b.finish(r), x->type, AttrMap()));
  IRModule out = planned(in);
  const auto begin = main_of(out)->plan->arena_bytes;
  const std::vector<int64_t> offsets = offsets_of(*out.find("helper").as<Function>());
  EXPECT_GE(offsets.at(0), begin);  // what main holds while it calls stays whole
  EXPECT_EQ(offsets.at(1), -1);     // its result is the caller's
}

TEST(PlanMemory, BranchesShareTheirMemory) {
  // What either branch gives lies at one place: only one of them runs.
  auto branch = [](const Expr& x, const char* name) {
    BlockBuilder b = op::make_builder();
    Expr inner = b.emit(op::op_call(name, {x}), "inner");
    return b.finish(b.emit(op::op_call("nn.softmax", {inner}, op::make_attrs<op::AxisAttrs>(0)), "made"));
  };
  Model m;
  auto c = m.param("c", {}, boolean);
  auto x = m.param("x", {1024});
  Expr e = make<If>(c, branch(x, "exp"), branch(x, "sin"));
  e.edit()->type = x->type;
  Expr y = m.op("nn.softmax", {m.builder.emit(e)}, op::make_attrs<op::AxisAttrs>(0));
  IRModule out = planned(m.done(y), false);
  PlannedMemory plan = plan_function(*main_of(out), out);
  std::map<std::string, std::set<int64_t>> places;
  for (const PlannedTensor& t : plan.tensors)
    if (t.offset >= 0) places[t.name.substr(0, 4)].insert(t.offset);
  EXPECT_EQ(places["made"].size(), 1u);
  EXPECT_EQ(places.size(), 2u) << "only the result of main comes from the pool";
  EXPECT_EQ(plan.lower_bound, 2 * 4096);
  EXPECT_EQ(main_of(out)->plan->arena_bytes, 2 * 4096);
}

TEST(PlanMemory, BoundsOfSymbolicSizesArePlanned) {
  Model m;
  Expr x = m.param("x", {PrimExpr(tir::var("n")), PrimExpr(8)});
  Expr e = m.op("exp", {x});
  Expr y = m.op("nn.softmax", {m.op("concat", {op::tuple({e, x})}, op::make_attrs<op::AxisAttrs>(0))},
                op::make_attrs<op::AxisAttrs>(0));
  PassContext context = make_context();
  context.options.set("plan_memory.bounds", Map<std::string, int64_t>{{"n", 16}});
  IRModule out = run_pass("plan_memory", run_pass("lower_to_call_tir", m.done(y), context), context);
  const std::vector<int64_t> offsets = offsets_of(*main_of(out));
  ASSERT_EQ(offsets.size(), 3u);
  EXPECT_GE(offsets[0], 0);
  EXPECT_GE(offsets[1], 0);
  EXPECT_EQ(offsets[2], -1);
  EXPECT_EQ(main_of(out)->plan->arena_bytes, 16 * 8 * 4 + 32 * 8 * 4);
}

TEST(PlanMemory, APlanIsTextAndIsVerified) {
  Model m;
  auto x = m.param("x", {16});
  const IRModule out = planned(m.done(m.op("cos", {m.op("sin", {m.op("exp", {x})})})));
  const std::string text = print(out);
  ASSERT_NE(text.find("R.memory_plan(calls=[[0], [0], [-1]], arena_bytes=64, lower_bound=64)"), text.npos)
      << text;
  EXPECT_TRUE(structural_equal(parse_module(text), out));
  auto with = [&](const std::string& plan) {
    const size_t begin = text.find("R.memory_plan("), end = text.find('\n', begin);
    return text.substr(0, begin) + plan + text.substr(end);
  };
  auto problem = [&](const std::string& plan) -> std::string {
    try {
      verify_or_throw(parse_module(with(plan)));
    } catch (const DiagnosticError& e) {
      return e.what();
    }
    return {};
  };
  EXPECT_EQ(problem("R.memory_plan(calls=[[0], [64], [-1]], arena_bytes=128, lower_bound=64)"), "");
  for (const auto& [plan, words] :
       {std::pair{"R.memory_plan(calls=[[0], [0]], arena_bytes=64)", "it is for 2 calls of programs"},
        {"R.memory_plan(arena_bytes=64)", "it is for 0 calls of programs"},
        {"R.memory_plan(calls=[[0], [0, 0], [-1]], arena_bytes=64)", "2 offsets for the 1 tensors"},
        {"R.memory_plan(calls=[[0], [0], [64]], arena_bytes=64)", "do not lie in an arena of 64"},
        {"R.memory_plan(calls=[[0], [32], [-1]], arena_bytes=128)", "do not lie in an arena"},
        {"R.memory_plan(calls=[[0], [-64], [-1]], arena_bytes=128)", "do not lie in an arena"},
        {"R.memory_plan(calls=[[0], [0], [-1]], joined=[3], arena_bytes=64)", "a call 3 that there is not"},
        {"R.memory_plan(calls=[[0], [0], [-1]], loops=[[0]], arena_bytes=64)", "it is for 1 loops"},
        {"R.memory_plan(calls=\"none\")", "cannot hold this value"},
        {"R.memory_plan(places=[0])", "has no argument `places`"}}) {
    const std::string said = problem(plan);
    EXPECT_NE(said.find(words), std::string::npos) << plan << ": " << said;
  }
}

TEST(PlanMemory, AnotherBodyHasNoPlan) {
  Model m;
  auto x = m.param("x", {16});
  const IRModule out = planned(m.done(m.op("cos", {m.op("exp", {x})})));
  PassContext context = make_context();
  const IRModule again = run_pass("convert_to_dataflow", out, context);
  ASSERT_FALSE(main_of(again)->body.same_as(main_of(out)->body));
  EXPECT_FALSE(main_of(again)->plan);
  EXPECT_TRUE(main_of(out)->plan);
  expect_valid(again);
}

TEST(PlanMemory, LongProgramsAreFast) {
  Model m;
  Expr x = m.param("x", {16});
  Expr first = m.op("exp", {x});
  Expr y = first;
  for (int i = 0; i < 10000; ++i) y = m.op(i % 2 ? "sin" : "cos", {y});
  IRModule out = planned(m.done(m.op("add", {y, first})), false);
  EXPECT_EQ(main_of(out)->plan->arena_bytes, 192);
}

TEST(PlanMemory, TheMostOfASizeCountsWhatIsTakenAway) {
  const tir::VarRef n = tir::var("n", i64), free = tir::var("k", i64);
  const auto most = [&](const PrimExpr& size) {
    return most_bytes(tensor_type({size}, DataType::int_(8)), {{"n", 20}});
  };
  // A slice from position 7 back to the begin: what is taken away may be -1.
  EXPECT_EQ(most(tir::min(n - 1, PrimExpr(7)) - tir::max(n - 9, PrimExpr(-1))), 8);
  EXPECT_EQ(most(n - 1), 19);
  EXPECT_EQ(most(PrimExpr(100) - n), 100);
  EXPECT_EQ(most(tir::floordiv(n + 3, PrimExpr(4))), 5);
  EXPECT_EQ(most(tir::select(tir::eq(n, PrimExpr(1)), PrimExpr(30), n)), 30);
  EXPECT_EQ(most((PrimExpr(5) - n) * PrimExpr(-2)), 30);
  EXPECT_EQ(most(n - 100), 0);
  EXPECT_EQ(most(n - free), -1);  // a position, which may be negative
  EXPECT_EQ(most(tir::min(free, n)), 20);
}

}  // namespace
}  // namespace tenon::graph::testing_graph
