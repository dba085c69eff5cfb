// SPDX-License-Identifier: Apache-2.0
// Random modules of both levels: what is printed is read back, JSON too, and renaming keeps equality and
// hash.
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <set>

#include "ir/intrinsic.h"
#include "ir/structural.h"
#include "ir/text.h"
#include "ir/tir.h"
#include "ir/verify.h"
#include "ir/walk.h"

namespace tenon {
namespace {

/// Correct random tensor programs: every value drawn is in scope and of the right type.
class Generator {
 public:
  explicit Generator(unsigned seed) : rng_(seed) {}

  tir::PrimFunc prim_func() {
    vars_.clear();
    buffers_.clear();
    producers_.clear();
    Array<tir::VarRef> params;
    Map<tir::VarRef, tir::Buffer> map;
    tir::VarRef n = tir::var("n"), h;
    const bool symbolic = below(2);
    for (size_t i = 0; i <= below(3); ++i) {
      DataType t = dtype();
      Array<PrimExpr> shape;
      for (size_t k = below(4); k > 0; --k)
        shape.push_back(symbolic && below(3) == 0 ? PrimExpr(n) : PrimExpr(int64_t(1 + below(64))));
      if (symbolic && i == 0) shape.push_back(n);
      tir::Buffer b = tir::buffer(name(), shape, t, below(4) ? "global" : "local");
      if (below(5) == 0) b.edit()->align = 128;
      if (below(5) == 0) b.edit()->elem_offset = PrimExpr(int64_t(below(9)));
      tir::VarRef p = tir::var(name(), DataType::handle());
      params.push_back(p);
      map.set(p, b);
      buffers_.push_back(b);
    }
    if (symbolic) vars_.push_back(n);
    for (size_t i = below(3); i > 0; --i) {
      tir::VarRef v = tir::var(name(), dtype());
      params.push_back(v);
      vars_.push_back(v);
    }
    if (symbolic && below(2)) params.push_back(n);
    for (size_t i = below(3); i > 0; --i) {
      Array<PrimExpr> shape;
      for (size_t k = below(3); k > 0; --k)
        shape.push_back(symbolic && below(2) ? PrimExpr(n) : PrimExpr(int64_t(1 + below(64))));
      producers_.push_back(make<tir::DataProducerNode>(shape, dtype(), name()));
    }
    AttrMap attrs;
    if (below(2)) attrs.set("global_symbol", Any("f"));
    if (below(3) == 0) attrs.set("list", Any(Array<int64_t>{1, 2, -3}));
    if (below(3) == 0) attrs.set("value", Any(PrimExpr(int64_t(3))));
    tir::Stmt body = sequence(4);
    if (below(2)) {
      tir::Buffer local = tir::buffer(name(), {16}, f32);
      auto root = make<tir::Block>(Array<tir::IterVar>(), Array<tir::BufferRegion>(),
                                   Array<tir::BufferRegion>(), std::string("root"), body, tir::Stmt(),
                                   below(2) ? Array<tir::Buffer>{local} : Array<tir::Buffer>(),
                                   Array<tir::MatchBufferRegion>(), AttrMap());
      body = make<tir::BlockRealize>(Array<PrimExpr>(), tir::true_(), root);
    }
    return make<tir::PrimFuncNode>(params, map, body, DataType(), attrs);
  }

  Ref<graph::Function> graph_function() {
    gvars_.clear();
    tir::VarRef n = tir::var("n");
    symbol_ = n;
    Array<graph::VarRef> params;
    for (size_t i = 0; i <= below(3); ++i) {
      graph::VarRef v = graph::var(name(), i == 0 ? graph::tensor_type({n, 4}, f32) : type());
      params.push_back(v);
      gvars_.push_back(v);
    }
    graph::Expr body = graph_body(2, int(below(4)) + 1);
    AttrMap attrs;
    if (below(2)) attrs.set("num_inputs", Any(int64_t(1)));
    return make<graph::Function>(params, body, below(2) ? type() : graph::Type(), attrs);
  }

 private:
  size_t below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(rng_); }
  std::string name() {
    static const char* names[] = {"x", "A", "i", "for", "T", "n", "a/b:c", "", "x_1", "lv", "class", "größe"};
    return names[below(12)];
  }
  DataType dtype() {
    static const DataType types[] = {i64,
                                     i64,
                                     i32,
                                     f32,
                                     f32,
                                     f16,
                                     f64,
                                     u8,
                                     boolean,
                                     DataType::bfloat16(),
                                     DataType::uint(64),
                                     DataType::int_(8)};
    return types[below(12)];
  }
  PrimExpr immediate(DataType t) {
    if (t.is_bool()) return PrimExpr::int_imm(int64_t(below(2)), t);
    if (t.is_integer())
      return PrimExpr::int_imm(t.is_uint() ? int64_t(below(200)) : int64_t(below(200)) - 100, t);
    static const double values[] = {0.0,
                                    -0.0,
                                    1.0,
                                    0.1,
                                    -2.5e-7,
                                    1e30,
                                    3.0,
                                    1e5,
                                    std::numeric_limits<double>::infinity(),
                                    std::numeric_limits<double>::quiet_NaN()};
    return PrimExpr::float_imm(values[below(10)], t);
  }
  PrimExpr expr(DataType t, int depth) {
    if (depth == 0 || below(5) == 0) {
      for (size_t tries = 0; tries < 4 && !vars_.empty(); ++tries)
        if (const tir::VarRef& v = vars_[below(vars_.size())]; v->dtype == t) return v;
      return immediate(t);
    }
    auto sub = [&] { return expr(t, depth - 1); };
    if (below(6) == 0)
      for (const tir::Buffer& b : buffers_)
        if (b->dtype == t) return tir::load(b, indices(b->shape.size(), depth - 1));
    if (below(8) == 0)
      for (const tir::DataProducer& p : producers_)
        if (p->dtype == t) return make<tir::ProducerLoad>(p, indices(p->shape.size(), depth - 1));
    if (t.is_bool()) {
      const DataType u = dtype();
      switch (below(8)) {
        case 0: {
          PrimExpr a = sub();
          return make<tir::And>(a, sub());
        }
        case 1: {
          PrimExpr a = sub();
          return make<tir::Or>(a, sub());
        }
        case 2:
          return make<tir::Not>(sub());
        case 3: {
          PrimExpr a = expr(u, depth - 1);
          return make<tir::LT>(a, expr(u, depth - 1));
        }
        case 4: {
          PrimExpr a = expr(u, depth - 1);
          return make<tir::EQ>(a, expr(u, depth - 1));
        }
        case 5: {
          PrimExpr a = expr(u, depth - 1);
          return make<tir::GE>(a, expr(u, depth - 1));
        }
        case 6:
          return tir::call(boolean, "tir.isnan", {expr(f32, depth - 1)});
        default: {
          PrimExpr a = expr(u, depth - 1);
          return make<tir::NE>(a, expr(u, depth - 1));
        }
      }
    }
    switch (below(14)) {
      case 0: {
        PrimExpr a = sub();
        return make<tir::Add>(a, sub());
      }
      case 1: {
        PrimExpr a = sub();
        return make<tir::Sub>(a, sub());
      }
      case 2: {
        PrimExpr a = sub();
        return make<tir::Mul>(a, sub());
      }
      case 3: {
        PrimExpr a = sub();
        return make<tir::Div>(a, sub());
      }
      case 4: {
        PrimExpr a = sub();
        return make<tir::Min>(a, sub());
      }
      case 5: {
        PrimExpr a = sub();
        return make<tir::Max>(a, sub());
      }
      case 6:
        if (t.is_integer()) {
          PrimExpr a = sub();
          return make<tir::FloorDiv>(a, sub());
        }
        return tir::exp(sub());
      case 7:
        if (t.is_integer()) {
          PrimExpr a = sub();
          return make<tir::FloorMod>(a, sub());
        }
        return tir::call(t, "tir.pow", {sub(), sub()});
      case 8:
        if (t.is_integer()) {
          PrimExpr a = sub();
          return make<tir::Mod>(a, sub());
        }
        return tir::tanh(sub());
      case 9: {
        PrimExpr c = expr(boolean, depth - 1), a = sub();
        return make<tir::Select>(c, a, sub());
      }
      case 10: {
        PrimExpr c = expr(boolean, depth - 1), a = sub();
        return tir::call(t, "tir.if_then_else", {c, a, sub()});
      }
      case 11: {
        auto node = make<tir::Cast>(expr(dtype(), depth - 1));
        node.edit()->dtype = t;
        return node;
      }
      case 12: {
        const DataType u = dtype();
        tir::VarRef v = tir::var(name(), u);
        PrimExpr value = expr(u, depth - 1);
        vars_.push_back(v);
        PrimExpr body = sub();
        vars_.pop_back();
        return make<tir::Let>(v, value, body);
      }
      default:
        return tir::call(t, "tir.reinterpret", {sub()});
    }
  }
  Array<PrimExpr> indices(size_t rank, int depth) {
    Array<PrimExpr> out;
    for (size_t i = 0; i < rank; ++i) out.push_back(expr(below(4) ? i64 : i32, depth < 0 ? 0 : depth));
    return out;
  }
  tir::Stmt sequence(int depth) {
    Array<tir::Stmt> list;
    for (size_t i = 0; i <= below(3); ++i) list.push_back(stmt(depth));
    return tir::seq(list);
  }
  tir::Stmt within(const tir::VarRef& v, int depth) {
    vars_.push_back(v);
    tir::Stmt s = sequence(depth);
    vars_.pop_back();
    return s;
  }
  tir::Stmt stmt(int depth) {
    if (depth == 0 || below(3) == 0) {
      if (below(6) == 0) return make<tir::AssertStmt>(expr(boolean, 2), std::string("a \"message\"\n"));
      if (below(6) == 0) return make<tir::Evaluate>(expr(dtype(), 2));
      if (!producers_.empty() && below(5) == 0) {
        const tir::DataProducer p = producers_[below(producers_.size())];
        PrimExpr value = expr(p->dtype, 3);
        return make<tir::ProducerStore>(p, value, indices(p->shape.size(), 2));
      }
      const tir::Buffer& b = buffers_[below(buffers_.size())];
      return tir::store(b, expr(b->dtype, 3), indices(b->shape.size(), 2));
    }
    switch (below(9)) {
      case 0:
      case 1: {
        const DataType t = below(3) ? i64 : i32;
        tir::VarRef v = tir::var(name(), t);
        PrimExpr min = below(3) ? PrimExpr::int_imm(0, t) : expr(t, 1),
                 extent = below(2) ? PrimExpr::int_imm(int64_t(1 + below(9)), t) : expr(t, 1);
        AttrMap notes;
        if (below(4) == 0) notes.set("pragma", Any(int64_t(1)));
        const auto kind = tir::ForKind(below(5));
        // What is stored where is left to chance: only one iteration has no race.
        if (kind == tir::ForKind::parallel) extent = PrimExpr::int_imm(1, t);
        tir::Stmt body = within(v, depth - 1);
        return make<tir::For>(v, min, extent, kind, body,
                              std::string(kind == tir::ForKind::thread_binding ? "threadIdx.x" : ""), notes);
      }
      case 2: {
        PrimExpr c = expr(boolean, 2);
        tir::Stmt a = sequence(depth - 1);
        return make<tir::IfThenElse>(c, a, below(2) ? sequence(depth - 1) : tir::Stmt());
      }
      case 3: {
        const DataType t = dtype();
        tir::VarRef v = tir::var(name(), t);
        PrimExpr value = expr(t, 2);
        return make<tir::LetStmt>(v, value, within(v, depth - 1));
      }
      case 4:
        return make<tir::While>(expr(boolean, 2), sequence(depth - 1));
      case 5: {
        tir::Buffer b = tir::buffer(name(), {PrimExpr(int64_t(4))}, dtype());
        buffers_.push_back(b);
        tir::Stmt body = sequence(depth - 1);
        if (below(2)) body = make<tir::DeclBuffer>(b, body);
        buffers_.pop_back();
        return make<tir::Allocate>(b, body, AttrMap());
      }
      case 6: {
        const tir::Buffer& of = buffers_[below(buffers_.size())];
        tir::Buffer b =
            make<tir::BufferNode>(of->data, dtype(), Array<PrimExpr>{PrimExpr(int64_t(7))}, Array<PrimExpr>(),
                                  PrimExpr(), name(), std::string("global"), int64_t(64), Array<int64_t>());
        buffers_.push_back(b);
        tir::Stmt body = sequence(depth - 1);
        buffers_.pop_back();
        return make<tir::DeclBuffer>(b, body);
      }
      case 7:
        return make<tir::AttrStmt>(below(2) ? ObjectRef() : ObjectRef(buffers_[0]), std::string("key"),
                                   expr(i64, 1), sequence(depth - 1));
      default: {
        Array<tir::IterVar> iters;
        Array<PrimExpr> values;
        for (size_t i = below(3); i > 0; --i) {
          PrimExpr min = below(3) ? PrimExpr(int64_t(0)) : PrimExpr(int64_t(below(5)));
          iters.push_back(tir::iter_var(tir::range(min, expr(i64, 1)), name(), tir::IterKind(below(4))));
          values.push_back(expr(i64, 2));
        }
        PrimExpr predicate = below(2) ? tir::true_() : expr(boolean, 2);
        for (const tir::IterVar& v : iters) vars_.push_back(v->var);
        Array<tir::BufferRegion> regions;
        for (size_t i = below(3); i > 0; --i) {
          const tir::Buffer& b = buffers_[below(buffers_.size())];
          Array<tir::Range> box;
          for (size_t k = 0; k < b->shape.size(); ++k) {
            PrimExpr lo = below(2) ? PrimExpr(int64_t(below(4))) : expr(i64, 2);
            box.push_back(tir::range(lo, below(2) ? PrimExpr(int64_t(1 + below(3))) : expr(i64, 1)));
          }
          regions.push_back(make<tir::BufferRegionNode>(b, box));
        }
        tir::Stmt body = sequence(depth - 1), init = below(3) ? tir::Stmt() : sequence(0);
        for (size_t i = 0; i < iters.size(); ++i) vars_.pop_back();
        auto block = make<tir::Block>(iters, regions, Array<tir::BufferRegion>(), name(), body, init,
                                      Array<tir::Buffer>(), Array<tir::MatchBufferRegion>(), AttrMap());
        return make<tir::BlockRealize>(values, predicate, block);
      }
    }
  }

  graph::Type type() {
    switch (below(6)) {
      case 0:
        return graph::tensor_type({PrimExpr(symbol_), PrimExpr(int64_t(below(9)))}, f32);
      case 1:
        return graph::tensor_type_unknown(int64_t(below(3)), i64);
      case 2:
        return graph::object_type();
      case 3:
        return graph::tuple_type({type(), graph::object_type()});
      case 4:
        return make<graph::ShapeType>(Array<PrimExpr>(), int64_t(below(3)), false);
      default:
        return graph::tensor_type({PrimExpr(int64_t(2))}, f16);
    }
  }
  graph::Expr leaf() {
    if (below(4)) return gvars_[below(gvars_.size())];
    switch (below(5)) {
      case 0:
        return graph::constant(NDArray::zeros({int64_t(below(3)), 2}, below(2) ? f32 : i64));
      case 1:
        return graph::shape_expr({PrimExpr(symbol_), PrimExpr(int64_t(3))});
      case 2:
        return make<graph::PrimValue>(PrimExpr(symbol_) + PrimExpr(int64_t(1)));
      case 3:
        return make<graph::StringImm>("s");
      default:
        return make<graph::Tuple>(Array<graph::Expr>{gvars_[0], gvars_[below(gvars_.size())]});
    }
  }
  graph::Expr call() {
    Array<graph::Expr> args{make<graph::ExternFunc>("f")};
    for (size_t i = below(3); i > 0; --i) args.push_back(leaf());
    return graph::call(graph::get_op("call_packed"), args, {},
                       below(2) ? Array<graph::Type>{type()} : Array<graph::Type>());
  }
  graph::Expr graph_body(int depth, int count) {
    const size_t outer = gvars_.size();
    Array<graph::BindingBlock> blocks;
    for (size_t k = below(3); k < 3; ++k) {
      Array<graph::Binding> bindings;
      Array<graph::VarRef> outputs;
      const bool dataflow = below(2);
      for (int i = 0; i < count; ++i) {
        graph::VarRef v = graph::var(name(), below(2) ? type() : graph::Type());
        graph::Expr value;
        switch (below(8)) {
          case 0:
            value = make<graph::TupleGetItem>(gvars_[below(gvars_.size())], int64_t(below(2)));
            break;
          case 1:
            if (depth > 0) {
              const graph::VarRef condition = gvars_[0];  // the vector grows below
              graph::Expr t = graph_body(depth - 1, 2), f = graph_body(depth - 1, 1);
              value = make<graph::If>(condition, t, f);
              break;
            }
            [[fallthrough]];
          case 2:
            if (depth > 0) {
              graph::VarRef p = graph::var(name(), type());
              Array<graph::Expr> init{leaf()};
              gvars_.push_back(p);
              graph::Expr c = graph_body(0, 1), b = graph_body(depth - 1, 1);
              gvars_.pop_back();
              if (below(2)) {  // the next values of the loop's variables are a tuple
                const auto* s = b.as<graph::SeqExpr>();
                b = make<graph::SeqExpr>(s->blocks, make<graph::Tuple>(Array<graph::Expr>{s->body}));
                value = make<graph::While>(Array<graph::VarRef>{p}, init, c, b);
              } else {
                value = make<graph::Function>(Array<graph::VarRef>{p}, b, graph::Type(), AttrMap());
              }
              break;
            }
            [[fallthrough]];
          case 3:
            if (below(2)) {
              bindings.push_back(make<graph::MatchCastNode>(v, leaf(), type()));
              gvars_.push_back(v);
              if (dataflow) outputs.push_back(v);
              continue;
            }
            [[fallthrough]];
          case 4:
            value = leaf();
            break;
          default:
            value = call();
        }
        bindings.push_back(make<graph::VarBindingNode>(v, value));
        gvars_.push_back(v);
        if (dataflow && below(2)) outputs.push_back(v);
      }
      blocks.push_back(make<graph::BindingBlockNode>(bindings, dataflow, outputs));
    }
    graph::Expr result = leaf();
    gvars_.resize(outer);
    return make<graph::SeqExpr>(blocks, result);
  }

  std::mt19937 rng_;
  std::vector<tir::VarRef> vars_;
  std::vector<tir::Buffer> buffers_;
  std::vector<tir::DataProducer> producers_;
  std::vector<graph::VarRef> gvars_;
  tir::VarRef symbol_;
};

class RandomModule : public testing::TestWithParam<int> {};

TEST_P(RandomModule, RoundTrips) {
  for (unsigned k = 0; k < 25; ++k) {
    Generator g(unsigned(GetParam()) * 1000 + k);
    IRModule m = IRModule::create();
    m.set("f", g.prim_func());
    m.set("main", g.graph_function());
    if (k % 3 == 0) m.set("g", g.prim_func());
    DiagnosticList problems;
    verify(m, problems);
    // Values are drawn without regard to domains, buffers, divisors, and whether a loop ends.
    const std::set<std::string> drawn{"T0319", "T0333", "T0334", "T0335", "T0336", "T0337", "T0349", "T0360"};
    for (const Diagnostic& d : problems.all())
      ASSERT_TRUE(drawn.contains(d.code)) << render(d) << "\n" << print(m);
    const std::string text = print(m);
    try {
      IRModule again = parse_module(text);
      ASSERT_EQ(first_difference(m, again), "") << text;
      ASSERT_EQ(structural_hash(m), structural_hash(again)) << text;
      ASSERT_EQ(print(again), text);
      ASSERT_EQ(first_difference(m, from_json(to_json(m))), "") << text;
      tir::PrimFunc f = m.find("f").cast<tir::PrimFuncNode>(), renamed = tir::rename_all(f);
      ASSERT_EQ(first_difference(f, renamed), "") << print(f);
      ASSERT_EQ(structural_hash(f), structural_hash(renamed));
    } catch (const Error& e) {
      FAIL() << e.what() << "\n" << text;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomModule, testing::Range(0, 12));

}  // namespace
}  // namespace tenon
