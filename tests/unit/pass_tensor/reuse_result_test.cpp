// SPDX-License-Identifier: Apache-2.0
// Which local tensors take the memory of a result, and that results keep their values where they do.
#include <fmt/format.h>

#include "programs.h"
#include "target/target.h"

namespace tenon {
namespace {

struct Case {
  const char* name;
  bool reused;
  std::string attributes, body;  ///< of a program from A and R to B, with the local tensor e
};

IRModule program(const Case& c) {
  return parse_module(fmt::format(R"(@I.ir_module
class Module:
    @T.prim_func
    def f(A: T.Buffer((6, 10), "float32"), B: T.Buffer((6, 10), "float32")):
        T.func_attr({{{}}})
{})",
                                  c.attributes, c.body));
}

constexpr const char* kApart = R"("tir.noalias": True)";

/// One row at a time: `fill` makes e of it, `last` B.
std::string rows(const std::string& fill, const std::string& last, const char* type = "float32") {
  return fmt::format(R"(        for i in range(6):
            with T.block("scratch"):
                e = T.alloc_buffer((6, 10), "{}")
                s = T.alloc_buffer((6,), "float32")
{}                s[i] = T.float32(0)
                for k1 in range(10):
                    s[i] = s[i] + T.Cast("float32", e[i, k1])
{})",
                     type, fill, last);
}
const std::string kFill = R"(                for k in range(10):
                    e[i, k] = A[i, k] * T.float32(0.5)
)";
const std::string kLast = R"(                for k2 in range(10):
                    B[i, k2] = e[i, k2] + s[i]
)";

std::vector<Case> cases() {
  return {
      {"rows", true, kApart, rows(kFill, kLast)},
      {"tiles that end at the tensor", true, kApart, rows(kFill, R"(                for t, k2 in T.grid(3, 4):
                    if t * 4 + k2 < 10:
                        B[i, t * 4 + k2] = e[i, t * 4 + k2] + s[i]
)")},
      {"the whole tensor at once", true, kApart, R"(        with T.block("whole"):
            e = T.alloc_buffer((6, 10), "float32")
            for i, k in T.grid(6, 10):
                e[i, k] = A[i, k] + T.float32(1)
            for i1, k1 in T.grid(6, 10):
                B[i1, k1] = e[i1, k1] * e[i1, k1]
)"},
      {"parameters that may share memory", false, R"("tir.noalias": False)", rows(kFill, kLast)},
      {"another type", false, kApart,
       rows(R"(                for k in range(10):
                    e[i, k] = T.Cast("float16", A[i, k])
)",
            R"(                for k2 in range(10):
                    B[i, k2] = T.Cast("float32", e[i, k2]) + s[i]
)",
            "float16")},
      {"an element that stores before it have reached", false, kApart,
       rows(kFill, R"(                for k2 in range(10):
                    B[i, k2] = e[i, 9 - k2] + s[i]
)")},
      {"tiles that meet", false, kApart, rows(kFill, R"(                for t, k2 in T.grid(3, 4):
                    B[i, T.min(t * 4, 6) + k2] = e[i, T.min(t * 4, 6) + k2] + s[i]
)")},
      {"half of a row", false, kApart, rows(kFill, R"(                for k2 in range(5):
                    B[i, k2] = e[i, k2] + s[i]
)")},
      {"rows of others", false, kApart, R"(        for i in range(6):
            with T.block("scratch"):
                e = T.alloc_buffer((6, 10), "float32")
                for r, k in T.grid(2, 10):
                    e[T.max(i - r, 0), k] = A[T.max(i - r, 0), k]
                for k2 in range(10):
                    B[i, k2] = e[i, k2] + T.float32(1)
)"},
      {"under a condition", false, kApart, rows(kFill, R"(                for k2 in range(10):
                    if A[i, k2] < T.float32(0):
                        B[i, k2] = e[i, k2] + s[i]
)")},
      {"a result that is read", false, kApart, rows(kFill, R"(                for k2 in range(10):
                    B[i, k2] = e[i, k2] + s[i]
                s[i] = B[i, 0]
)")},
      {"twice the same element", false, kApart, rows(kFill, R"(                for again, k2 in T.grid(2, 10):
                    B[i, k2] = e[i, k2] + s[i]
)")},
  };
}

size_t allocations(const IRModule& m) {
  size_t n = 0;
  pre_order(body_of(m)->body, [&](const ObjectRef& node) {
    if (const auto* b = node.as<tir::Block>()) n += b->alloc_buffers.size();
    return true;
  });
  return n;
}

TEST(ReuseResult, LocalTensorsLieInTheResultThatIsMadeOfThem) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const IRModule before = program(c);
    PassContext context;
    const IRModule after = run_pass("reuse_result_buffer", before, context);
    expect_valid(after, c.name);
    EXPECT_EQ(allocations(before) - allocations(after), c.reused ? 1U : 0U) << print(after);
    const std::vector<NDArray> args{random_array({6, 10}, f32, 7), NDArray::zeros({6, 10}, f32)};
    expect_same(run_on(body_of(before), args, 1), run_on(body_of(after), args, 1), c.name);
  }
}

TEST(ReuseResult, WhatTheFirstCacheHoldsStays) {
  for (const int64_t n : {16, 1 << 16}) {
    const IRModule before = parse_module(fmt::format(R"(@I.ir_module
class Module:
    @T.prim_func
    def f(A: T.Buffer((2, {0}), "float32"), B: T.Buffer((2, {0}), "float32")):
        T.func_attr({{"tir.noalias": True}})
        for i in range(2):
            with T.block("scratch"):
                e = T.alloc_buffer((2, {0}), "float32")
                for k in range({0}):
                    e[i, k] = A[i, k] * T.float32(0.5)
                for k1 in range({0}):
                    B[i, k1] = e[i, k1] + e[i, k1]
)",
                                                     n));
    PassContext context;
    context.target = parse_target("llvm -mcpu=znver4");
    const IRModule after = run_pass("reuse_result_buffer", before, context);
    EXPECT_EQ(allocations(after), n == 16 ? 1U : 0U);
  }
}

}  // namespace
}  // namespace tenon
