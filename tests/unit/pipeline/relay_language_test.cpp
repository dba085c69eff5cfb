// SPDX-License-Identifier: Apache-2.0
// The language of Relay text: every program runs by the interpreter, by the VM's code and as machine code,
// and its results are also written down here.
#include "relay.h"

namespace tenon::graph::testing_graph {
namespace {

std::string with_list(const std::string& rest) { return std::string(kVersion) + kList + rest; }

TEST(RelayLanguage, Literals) {
  expect_numbers(R"(
def @main(%x: float32) {
  (%x + 1.5f, 2i64, -3, 1e-2f64, True, False, --4, 2147483648, -2147483648, (3f16,).0)
})",
                 {scalar(1)}, {2.5, 2, -3, 0.01, 1, 0, 4, 2147483648.0, -2147483648.0, 3});
}

TEST(RelayLanguage, InfixOperatorsByStrength) {
  expect_numbers(R"(
def @main(%a: int32, %b: int32) {
  (%a + %b * 2, (%a + %b) * 2, %a - %b - 1, %b / 2 * 3, %a < %b == True, %a + 1 <= %b, %a != %b, %a >= %b, %a > %b)
})",
                 {scalar(3, i32), scalar(5, i32)}, {13, 16, -3, 6, 1, 1, 1, 0, 0});
}

TEST(RelayLanguage, LetShadowsAndSequencesDropValues) {
  expect_numbers(R"(
def @main(%x: int32) -> int32 {
  let %a = %x + 1;
  let %a = %a * 10;
  ();
  %a + 7;
  { let %a = 5; %a };
  let %b: int32 = { let %a = %a + 1; %a };
  %b
})",
                 {scalar(2, i32)}, {31});
}

TEST(RelayLanguage, GraphBindingsAndTuples) {
  expect_numbers(R"(
def @main(%x: Tensor[(2), float32]) {
  %0 = (%x, add(%x, 1f), (%x,));
  %1 = %0.1;
  %2 = multiply(%1, %0.2.0);
  (%2, %0.0)
})",
                 {array({2}, {2, 3})}, {6, 12, 2, 3});
}

/// The numbered values of a text are nodes of a graph: another branch may name one that the first one shows.
TEST(RelayLanguage, BranchesShareNumberedValues) {
  expect_numbers(R"(
def @main(%c: bool, %x: float32) -> float32 {
  if (%c) {
    %0 = exp(%x);
    %1 = add(%0, 1f);
    %1
  } else {
    subtract(%1, %0)
  }
})",
                 {scalar(0, boolean), scalar(0)}, {1});
}

TEST(RelayLanguage, IfIsAValue) {
  const std::string text = R"(
def @main(%n: int32) -> int32 {
  %0 = if (%n < 10) { %n * 2 } else { if (%n == 10) { 100 } else { 0 - %n } };
  %0 + 1
})";
  expect_numbers(text, {scalar(3, i32)}, {7});
  expect_numbers(text, {scalar(10, i32)}, {101});
  expect_numbers(text, {scalar(12, i32)}, {-11});
}

TEST(RelayLanguage, FunctionsCallOneAnother) {
  expect_numbers(R"(
def @even(%n: int32) -> bool { if (%n == 0) { True } else { @odd(%n - 1) } }
def @main(%n: int32) -> (bool, bool) { (@even(%n), @odd(%n)) }
def @odd(%n: int32) -> bool { if (%n == 0) { False } else { @even(%n - 1) } }
)",
                 {scalar(7, i32)}, {0, 1});
}

TEST(RelayLanguage, LocalRecursionAndCurriedFunctions) {
  expect_numbers(R"(
def @main(%n: int32) {
  let %factorial = fn (%i: int32) -> int32 {
    if (%i <= 1) { 1 } else { %i * %factorial(%i - 1) }
  };
  let %plus = fn (%a: int32) -> fn (int32) -> int32 { fn (%b: int32) -> int32 { %a + %b } };
  (%factorial(%n), %plus(%n)(4), (fn (%v: int32) -> int32 { %v * %v })(%n))
})",
                 {scalar(5, i32)}, {120, 9, 25});
}

TEST(RelayLanguage, ClosuresKeepWhatTheySaw) {
  expect_numbers(R"(
def @main(%x: float32) {
  let %k = 2f;
  let %f = fn (%v: float32) -> float32 { %v * %k };
  let %k = 100f;
  let %twice = fn (%g: fn (float32) -> float32, %v: float32) -> float32 { %g(%g(%v)) };
  %twice(%f, %x) + %k
})",
                 {scalar(3)}, {112});
}

TEST(RelayLanguage, ACounterHoldsAReference) {
  expect_numbers(R"(
def @counter(%start: int32) {
  let %now = ref(%start);
  fn (%by: int32) -> int32 {
    let %old = ref_read(%now);
    ref_write(%now, %old + %by);
    %old
  }
}
def @main(%start: int32) {
  let %tick = @counter(%start);
  let %a = %tick(1);
  let %b = %tick(10);
  let %other = @counter(0);
  let %c = %other(5);
  (%a, %b, %tick(0), %c, %other(0))
})",
                 {scalar(7, i32)}, {7, 8, 18, 0, 5});
}

TEST(RelayLanguage, APolymorphicIdentity) {
  expect_numbers(R"(
def @id[A](%x: A) -> A { %x }
def @compose[A, B, C](%f: fn (B) -> C, %g: fn (A) -> B) -> fn (A) -> C {
  fn (%x: A) -> C { %f(%g(%x)) }
}
def @main(%x: Tensor[(2), float32], %n: int32) {
  let %f = @compose(fn (%v: int32) -> int32 { %v + 1 }, fn (%v: int32) -> int32 { %v * 3 });
  (@id(%x), @id(%n), @id((%n, %x)).0, %f(%n))
})",
                 {array({2}, {1, 2}), scalar(4, i32)}, {1, 2, 4, 4, 13});
}

TEST(RelayLanguage, FoldMapAndLengthOfLists) {
  expect_numbers(with_list(R"(
def @map[A, B](%f: fn (A) -> B, %xs: List[A]) -> List[B] {
  match (%xs) {
    Cons(%x, %rest) => Cons(%f(%x), @map(%f, %rest)),
    Nil => Nil,
  }
}
def @foldl[A, B](%f: fn (A, B) -> A, %acc: A, %xs: List[B]) -> A {
  match (%xs) {
    Cons(%x, %rest) => @foldl(%f, %f(%acc, %x), %rest),
    Nil => %acc,
  }
}
def @length[A](%xs: List[A]) -> int32 {
  match (%xs) {
    Cons(_, %rest : List[A]) => {
      ();
      1 + @length(%rest)
    },
    Nil => 0,
  }
}
def @main(%a: float32, %b: float32) {
  let %xs = Cons(%a, Cons(%b, Cons(7f, Nil)));
  let %sum = fn (%acc: float32, %x: float32) -> float32 { %acc * 10f + %x };
  let %ys = @map(fn (%v: float32) -> float32 { %v + 1f }, %xs);
  (@foldl(%sum, 0f, %ys), @length(%ys), @foldl(add, 0f, %xs))
})"),
                 {scalar(1), scalar(2)}, {238, 3, 10});
}

/// A recurrent cell over a list of inputs, state by state.
TEST(RelayLanguage, ARecurrentNetworkOverAList) {
  const NDArray x0 = random_array({1, 4}, f32, 1), x1 = random_array({1, 4}, f32, 2),
                w = random_array({12, 4}, f32, 3), u = random_array({12, 3}, f32, 4),
                h = random_array({1, 3}, f32, 5);
  const std::string cell = R"(
    @R.function
    def step(x: R.Tensor((1, 4), "float32"), h: R.Tensor((1, 3), "float32"), c: R.Tensor((1, 3), "float32"), w: R.Tensor((12, 4), "float32"), u: R.Tensor((12, 3), "float32")) -> R.Tuple(R.Tensor((1, 3), "float32"), R.Tensor((1, 3), "float32")):
        g = R.split(R.add(R.nn.dense(x, w), R.nn.dense(h, u)), sections=4, axis=1)
        c1 = R.add(R.multiply(R.sigmoid(g[1]), c), R.multiply(R.sigmoid(g[0]), R.tanh(g[2])))
        h1 = R.multiply(R.sigmoid(g[3]), R.tanh(c1))
        return (h1, c1)
    @R.function
    def main(x0: R.Tensor((1, 4), "float32"), x1: R.Tensor((1, 4), "float32"), w: R.Tensor((12, 4), "float32"), u: R.Tensor((12, 3), "float32"), h: R.Tensor((1, 3), "float32")):
        s = cls.step(x1, h, h, w, u)
        t = cls.step(x0, s[0], s[1], w, u)
        return t[0]
)";
  expect_same_as("@I.ir_module\nclass Module:\n" + cell, with_list(R"(
def @lstm(%xs: List[Tensor[(1, 4), float32]], %h: Tensor[(1, 3), float32], %w: Tensor[(12, 4), float32], %u: Tensor[(12, 3), float32]) -> (Tensor[(1, 3), float32], Tensor[(1, 3), float32]) {
  match (%xs) {
    Nil => (%h, %h),
    Cons(%x, %rest) => {
      let %state = @lstm(%rest, %h, %w, %u);
      %0 = nn.dense(%x, %w, units=12);
      %1 = nn.dense(%state.0, %u, units=12);
      %2 = split(add(%0, %1), indices_or_sections=4, axis=1);
      %3 = add(multiply(sigmoid(%2.1), %state.1), multiply(sigmoid(%2.0), tanh(%2.2)));
      (multiply(sigmoid(%2.3), tanh(%3)), %3)
    },
  }
}
def @main(%x0: Tensor[(1, 4), float32], %x1: Tensor[(1, 4), float32], %w: Tensor[(12, 4), float32], %u: Tensor[(12, 3), float32], %h: Tensor[(1, 3), float32]) -> Tensor[(1, 3), float32] {
  let %r = @lstm(Cons(%x0, Cons(%x1, Nil)), %h, %w, %u);
  %r.0
})"),
                 {x0, x1, w, u, h});
}

TEST(RelayLanguage, TreesOptionsAndNestedPatterns) {
  expect_numbers(with_list(R"(
type Option[A] {
  Some(A),
  None,
}
type Tree[A] {
  Rose(A, List[Tree[A]]),
}
type nat {
  zero,
  succ(nat),
}
def @total(%t: Tree[int32]) -> int32 {
  match (%t) { Rose(%v, %below) => %v + @all(%below) }
}
def @all(%ts: List[Tree[int32]]) -> int32 {
  match (%ts) { Nil => 0, Cons(%t, %rest) => @total(%t) + @all(%rest) }
}
def @second[A](%xs: List[A]) -> Option[A] {
  match (%xs) { Cons(_, Cons(%x, _)) => Some(%x), _ => None }
}
def @or(%o: Option[int32], %other: int32) -> int32 {
  match (%o) { Some(%x) => %x, None => %other }
}
def @number(%n: nat) -> int32 { match %n { zero => 0, succ(%m) => 1 + @number(%m) } }
def @main(%x: int32) {
  let %leaf = Rose(%x, Nil);
  let %xs: List[int32] = Cons(%x, Cons(8, Nil));
  let %pair = match ((@second(%xs), @second(Cons(1, Nil)))) {
    (Some(%a), None) => %a,
    (_, _) => 0,
  };
  (@total(Rose(10, Cons(%leaf, Cons(%leaf, Nil)))), @or(@second(%xs), -1), @or(@second(Cons(%x, Nil)), -1), %pair, @number(succ(succ(zero))))
})"),
                 {scalar(3, i32)}, {16, 8, -1, 8, 2});
}

/// What the cases of `match?` leave out ends the run; an external type has no constructor at all.
TEST(RelayLanguage, PartialMatchesEndTheRun) {
  const std::string text = with_list(R"(
extern type Storage
def @hd[A](%xs: List[A]) -> A { match? (%xs) { Cons(%x, _) => %x } }
def @main(%n: int32) -> int32 {
  let %xs: List[int32] = if (%n == 0) { Nil } else { Cons(%n, Nil) };
  let %all = match? (%xs) { Nil => 0, Cons(_, _) => 100 };
  @hd(%xs) + %all
})");
  expect_numbers(text, {scalar(7, i32)}, {107});
  const IRModule m = relay::import_relay(text);
  Session session(build(m));
  for (const bool interpreted : {true, false}) {
    try {
      interpreted ? run(m, {scalar(0, i32)}) : session.invoke({scalar(0, i32)});
      ADD_FAILURE() << "it ran";
    } catch (const Error& e) {
      EXPECT_EQ(e.code, "T0520") << e.what();
    }
  }
}

TEST(RelayLanguage, ConstructorsAndFunctionsAreValues) {
  expect_numbers(with_list(R"(
def @foldr[A, B](%f: fn (A, B) -> B, %acc: B, %xs: List[A]) -> B {
  match (%xs) {
    Cons(%x, %rest) => %f(%x, @foldr(%f, %acc, %rest)),
    Nil => %acc,
  }
}
def @join[A](%xs: List[A], %ys: List[A]) -> List[A] { @foldr(Cons, %ys, %xs) }
def @main(%x: int32) -> int32 {
  let %digits = fn (%d: int32, %n: int32) -> int32 { %d + 10 * %n };
  @foldr(%digits, 0, @join(Cons(1, Cons(%x, Nil)), Cons(3, Nil)))
})"),
                 {scalar(2, i32)}, {321});
}

TEST(RelayLanguage, ExpressionsAndFreeVariables) {
  expect_numbers(R"(
free_var %x: Tensor[(2), float32];
%0 = nn.relu(%x);
free_var %y: Tensor[(2), float32];
add(%0, %y)
)",
                 {array({2}, {-1, 2}), array({2}, {10, 20})}, {10, 22});
  expect_numbers("fn (%x: int32) -> int32 { %x * %x }", {scalar(6, i32)}, {36});
  expect_numbers("let %f = fn (%x: int32) -> int32 { %x + 1 }; %f(%f(1))", {}, {3});
}

TEST(RelayLanguage, SizesThatOnlyTheRunKnows) {
  const std::string text = R"(
def @main(%x: Tensor[(?, 3), float32], %y: Tensor[(Any, 3), float32]) -> Tensor[(?, ?), float32] {
  let %both: Tensor[(?, 3), float32] = concatenate((%x, nn.relu(%y)), axis=0);
  mean(%both, axis=[0], exclude=True, keepdims=True)
})";
  for (const int64_t n : {1, 4}) {
    const NDArray x = random_array({n, 3}, f32, 1), y = array({1, 3}, {-3, 6, 3});
    std::vector<double> want;
    for (int64_t i = 0; i < n; ++i)
      want.push_back((x.element(3 * i) + x.element(3 * i + 1) + x.element(3 * i + 2)) / 3);
    want.push_back(3);
    expect_numbers(text, {x, y}, want);
  }
}

TEST(RelayLanguage, TypesThatTheTextLeavesOut) {
  expect_numbers(R"(
def @scaled(%x, %k) { multiply(%x, %k) }
def @main(%x: Tensor[(2), float32]) {
  let %id = fn (%v) { %v };
  let %y: _ = @scaled(%x, 3f);
  %id(%y)
})",
                 {array({2}, {1, 2})}, {3, 6});
}

TEST(RelayLanguage, ConstantsOfTheMetadata) {
  // A float32 of shape (2, 2), as the reference saves tensors.
  const std::string text = R"(
def @main(%x: Tensor[(2, 2), float32]) {
  add(%x, meta[relay.Constant][0])
}
#[metadata]
{
  "root": 1,
  "nodes": [
    {"type_key": ""},
    {"type_key": "Map", "keys": ["relay.Constant"], "data": [2]},
    {"type_key": "Array", "data": [3]},
    {"type_key": "relay.Constant", "attrs": {"_checked_type_": "0", "data": "0", "span": "0"}}
  ],
  "b64ndarrays": ["P6G0lvBAXt0AAAAAAAAAAAEAAAAAAAAAAgAAAAIgAQACAAAAAAAAAAIAAAAAAAAAEAAAAAAAAAAAAIA/AAAAQAAAQEAAAIBA"],
  "attrs": {"tvm_version": "0.11.0"}
})";
  expect_numbers(text, {array({2, 2}, {10, 20, 30, 40})}, {11, 22, 33, 44});
}

TEST(RelayLanguage, AttributesOfFunctionsAreKept) {
  const IRModule m = relay::import_relay(R"(
def @region(%x: Tensor[(2), float32], Inline=1, Compiler="mine", global_symbol="mine_0", Primitive=1) { nn.relu(%x) }
def @main(%x: Tensor[(2), float32]) { @region(%x) }
)");
  const AttrMap attrs = m.find("region").as<graph::Function>()->attrs;
  EXPECT_EQ(attrs.at("Codegen").as<std::string>(), "mine");
  EXPECT_EQ(attrs.at("global_symbol").as<std::string>(), "mine_0");
  EXPECT_EQ(attrs.at("Primitive").as<int64_t>(), 1);
}

/// As deep as the verifier admits; a chain is as deep as it is long.
TEST(RelayLanguage, LongAndDeepTexts) {
  std::string chain = "fn (%x: int32) -> int32 { %x",
              steps = "def @main(%x: int32) -> int32 {\n  %0 = %x + 1;\n";
  for (int i = 0; i < 200; ++i) chain += " + 1";
  expect_numbers(chain + " }", {scalar(1, i32)}, {201});
  for (int i = 1; i < 300; ++i)
    steps += "  %" + std::to_string(i) + " = %" + std::to_string(i - 1) + " + 1;\n";
  expect_numbers(steps + "  %299\n}", {scalar(0, i32)}, {300});
}

}  // namespace
}  // namespace tenon::graph::testing_graph
