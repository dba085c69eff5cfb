// SPDX-License-Identifier: Apache-2.0
// break, continue and return in tensor programs: interpreted, compiled and lowered alike; what they may not
// leave; and that nothing that does not know them touches a program that jumps.
#include <random>

#include "alike.h"
#include "base/diagnostic.h"
#include "ir/jumps.h"
#include "ir/verify.h"
#include "schedule/schedule.h"

namespace tenon::testing_programs {
namespace {

using Ints = std::vector<int64_t>;

std::string program(const std::string& body,
                    const std::string& params = R"(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"))") {
  return "@T.prim_func\ndef main(" + params + "):\n" + body;
}
const Ints kValues{3, 1, 4, 1, 5, 9, 2, 6};

Ints run(const std::string& text) { return values(run_alike(text, {ints(kValues)}).at(0)); }

TEST(Jumps, BreakEndsTheLoop) {
  EXPECT_EQ(run(program(R"(
    for i in range(8):
        B[i] = 0
    for i in range(8):
        if A[i] == 5:
            break
        B[i] = A[i]
)")),
            (Ints{3, 1, 4, 1, 0, 0, 0, 0}));
}

TEST(Jumps, ContinueEndsTheIteration) {
  EXPECT_EQ(run(program(R"(
    for i in range(8):
        B[i] = 0
        if A[i] == 1:
            T.evaluate(T.continue_loop())
        B[i] = A[i]
)")),
            (Ints{3, 0, 4, 0, 5, 9, 2, 6}));
}

TEST(Jumps, ReturnEndsTheProgram) {
  EXPECT_EQ(run(program(R"(
    for i in range(8):
        B[i] = 7
    for i in range(8):
        for j in range(8):
            if A[i] + A[j] == 13:
                B[0] = T.int32(i)
                B[1] = T.int32(j)
                return
        B[2] = T.int32(i)
    B[3] = 0
)")),
            (Ints{2, 5, 1, 7, 7, 7, 7, 7}));
}

TEST(Jumps, EachLeavesItsOwnLoop) {
  EXPECT_EQ(run(program(R"(
    for i in range(8):
        B[i] = 0
    for i in range(8):
        if A[i] == 9:
            continue
        for j in range(8):
            if j == A[i]:
                break
            if j == 2:
                continue
            B[i] = B[i] + 1
        B[i] = B[i] + 10
        if i == 6:
            T.break_loop()
)")),
            (Ints{12, 11, 13, 11, 14, 0, 12, 0}));
}

TEST(Jumps, WhileLoops) {
  EXPECT_EQ(run(program(R"(
    k = T.allocate((1,), "int32")
    for i in range(8):
        B[i] = -1
    k[0] = 0
    while A[k[0]] < 10:
        k[0] = k[0] + 1
        if k[0] == 8:
            break
        if A[k[0]] == 1:
            continue
        B[k[0]] = A[k[0]]
    B[0] = k[0]
)")),
            (Ints{8, -1, 4, -1, 5, 9, 2, 6}));
}

TEST(Jumps, InsideOfLoopsWhoseIterationsAreIndependent) {
  for (const char* kind : {"T.parallel", "T.vectorized", "T.unroll", "T.serial"})
    EXPECT_EQ(run(program(std::string(R"(
    for i in )") + kind + R"((8):
        B[i] = 100
        for j in range(8):
            if A[j] > A[i]:
                B[i] = T.int32(j)
                break
)")),
              (Ints{2, 0, 4, 0, 5, 100, 0, 5}))
        << kind;
}

TEST(Jumps, UnrolledLoopsAndBlocks) {
  EXPECT_EQ(run(program(R"(
    for i in range(8):
        with T.block("b"):
            v = T.axis.spatial(8, i)
            B[v] = 0
            for j in T.unroll(8):
                if A[j] == 5:
                    break
                if A[j] == A[v]:
                    continue
                B[v] = B[v] + A[j]
)")),
            (Ints{6, 7, 5, 7, 9, 9, 9, 9}));
}

TEST(Jumps, WhatIsNotReachedMayLieOutside) {
  EXPECT_EQ(run(program(R"(
    for i in range(100):
        if i >= 8:
            break
        B[i] = A[i] + 1
)")),
            (Ints{4, 2, 5, 2, 6, 10, 3, 7}));
}

TEST(Jumps, LongSequencesNestNoDeeper) {
  std::string body = "    for i in range(8):\n        B[i] = 0\n";
  for (int k = 0; k < 3000; ++k)
    body += "        if A[i] == " + std::to_string(3000 - k) +
            ":\n            continue\n        B[i] = B[i] + 1\n";
  const IRModule module = parse_module(program(body));
  PassContext context;
  const IRModule lowered = run_pass("lower_jumps", module, context);
  verify_or_throw(lowered);
  const std::vector<NDArray> inputs{ints(kValues)}, want = interpreted(module, inputs);
  EXPECT_EQ(want[0].element_int(0), 2997);
  expect_same_bits(want, interpreted(lowered, inputs), "lowered");
}

TEST(Jumps, TextComesBack) {
  const std::string text = print(parse_module(program(R"(
    for i in range(8):
        if A[i] == 1:
            continue
        if A[i] == 9:
            break
        if A[i] == 7:
            return
        B[i] = A[i]
)")));
  for (const char* word :
       {"\n                continue\n", "\n                break\n", "\n                return\n"})
    EXPECT_NE(text.find(word), text.npos) << text;
  EXPECT_EQ(print(parse_module(text)), text);
}

TEST(Jumps, WhatTheyMayNotLeaveIsRefusedWhereItStands) {
  const auto starts = [](const std::string& body, const std::string& code, const std::string& words) {
    const std::string got = refusal(program(body));
    EXPECT_TRUE(got.starts_with(code) && got.find(words) != got.npos) << got;
  };
  starts("    for i in T.parallel(8):\n        B[i] = 1\n        if A[i] == 1:\n            break\n", "T0339",
         "would leave the parallel loop `i`");
  starts("    for i in T.parallel(8):\n        B[i] = 1\n        if A[i] == 1:\n            break\n", "T0339",
         ":6:13");
  starts("    for i in T.vectorized(8):\n        B[i] = 1\n        continue\n", "T0339",
         "the vectorised loop `i`");
  starts(
      "    for i in T.parallel(8):\n        for j in range(8):\n            B[i] = 1\n            return\n",
      "T0339", "`return` would leave the parallel loop `i`");
  starts("    B[0] = 1\n    break\n", "T0339", "stands in no loop");
  starts(
      "    for i in range(8):\n        with T.block(\"b\"):\n            v = T.axis.spatial(8, i)\n"
      "            B[v] = 1\n            break\n",
      "T0339", "stands in no loop of block `b`");
  starts(
      "    for i in range(8):\n        with T.block(\"b\"):\n            v = T.axis.spatial(8, i)\n"
      "            B[v] = 1\n            return\n",
      "T0339", "would leave block `b`");
  starts("    for i in range(8):\n        B[i] = 1\n        return A[i]\n", "T0809", "returns a value");
  starts("    for i in range(8):\n        B[i] = 1 + T.call(\"tir.ret\", 0, dtype=\"int32\")\n", "T0339",
         "inside of an expression");
}

TEST(Jumps, SchedulesAreRefused) {
  const auto f = parse_module(program("    for i in range(8):\n        B[i] = 1\n        break\n"))
                     .find("main")
                     .cast<tir::PrimFuncNode>();
  try {
    Schedule schedule(f);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code, "T0798");
    EXPECT_NE(e.location.find(":5:9"), std::string::npos) << e.location;
  }
}

/// Loops, branches and jumps at random over an index that no loop lets leave the buffer.
class Generator {
 public:
  explicit Generator(uint64_t seed, bool parallel = false) : random_(seed), parallel_(parallel) {}
  std::string text() {
    std::string body = "    for i in range(8):\n        B[i] = 0\n";
    for (int k = 0; k < 3; ++k) statement(1, 0, body);
    return program(body);
  }

 private:
  int draw(int n) { return int(random_() % uint64_t(n)); }
  std::string index(int loops) { return loops ? "v" + std::to_string(draw(loops)) : std::to_string(draw(8)); }
  std::string condition(int loops) {
    return "A[" + index(loops) + "] " + (draw(2) ? "==" : ">") + " A[" + index(loops) + "]";
  }
  void statement(int depth, int loops, std::string& out) {
    const std::string pad(size_t(4 * depth), ' ');
    const int kind = depth > 5 ? 5 + draw(4) : draw(9);
    if (kind < 3) {
      const char* kind = parallel_ && loops == 0 ? "T.parallel" : draw(4) ? "range" : "T.unroll";
      out +=
          pad + "for v" + std::to_string(loops) + " in " + kind + "(" + std::to_string(1 + draw(5)) + "):\n";
      body(depth + 1, loops + 1, out);
    } else if (kind < 5) {
      out += pad + "if " + condition(loops) + ":\n";
      body(depth + 1, loops, out);
      if (draw(2)) {
        out += pad + "else:\n";
        body(depth + 1, loops, out);
      }
    } else if (kind < 7 || loops == 0) {
      out +=
          pad + "B[" + index(loops) + "] = B[" + index(loops) + "] * 3 + " + std::to_string(draw(9)) + "\n";
    } else {
      const char* words[] = {"break", "continue", "return"};
      out += pad + words[parallel_ ? draw(2) : draw(5) % 3] + "\n";
    }
  }
  void body(int depth, int loops, std::string& out) {
    for (int k = 1 + draw(3); k > 0; --k) statement(depth, loops, out);
  }
  std::mt19937_64 random_;
  bool parallel_;
};

/// Programs that jump, by the interpreter, are the same behind lower_jumps and all passes that follow; and no
/// pass that runs by name changes what one does that still jumps.
TEST(Jumps, RandomProgramsKeepTheirMeaning) {
  int jumping = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const std::string text = Generator(seed).text();
    SCOPED_TRACE(text);
    const IRModule module = parse_module(text);
    verify_or_throw(module);
    if (!tir::find_jump(module.find("main").cast<tir::PrimFuncNode>()->body)) continue;
    ++jumping;
    const std::vector<NDArray> inputs{ints(kValues)}, want = interpreted(module, inputs);
    PassContext context;
    IRModule lowered = module;
    for (const Pass& pass : tensor_passes()) {
      if (pass.name == "make_packed_api") break;
      lowered = pass.run(lowered, context);
      verify_or_throw(lowered);
    }
    EXPECT_FALSE(tir::find_jump(lowered.find("main").cast<tir::PrimFuncNode>()->body));
    expect_same_bits(want, interpreted(lowered, inputs), "lowered");
    const auto& passes = all_passes();
    const Pass& alone = *passes[seed % passes.size()];
    if (alone.file.starts_with("src/pass/tensor/") && alone.name != "make_packed_api")
      expect_same_bits(want, interpreted(alone.run(module, context), inputs), std::string(alone.name));
    if (jumping % 60 == 0) run_alike(text, inputs);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(jumping, 200);
}

/// Parallel loops around jumps: what is certainly a race, or would leave such a loop, is refused at once, and
/// the rest keeps its meaning on every way.
TEST(Jumps, RandomParallelProgramsAreRightOrRefused) {
  int refused = 0, run = 0;
  for (uint64_t seed = 0; seed < 1200; ++seed) {
    const std::string text = Generator(seed, true).text();
    SCOPED_TRACE(text);
    const IRModule module = parse_module(text);
    if (!tir::find_jump(module.find("main").cast<tir::PrimFuncNode>()->body)) continue;
    DiagnosticList problems;
    verify(module, problems);
    for (const Diagnostic& d : problems.all()) EXPECT_TRUE(d.code == "T0335" || d.code == "T0339") << d.code;
    if (!problems.all().empty()) {
      ++refused;
      continue;
    }
    ++run;
    CompileOptions options;
    options.opt_level = int(seed % 3);
    options.code = CodeForm::objects;
    Session session(jit_artifact(compile(with_entry(module), options)));
    const std::vector<NDArray> inputs{ints(kValues)};
    expect_same_bits(interpreted(module, inputs), session.invoke(inputs), "compiled");
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(refused, 50);
  EXPECT_GT(run, 50);
}

}  // namespace
}  // namespace tenon::testing_programs
