// SPDX-License-Identifier: Apache-2.0
// Script text: the examples that people write are read, what is printed is read back into the same module.
#include <gtest/gtest.h>

#include "ir/structural.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace tenon {
namespace {

/// Parses, verifies, and checks that printing and parsing again gives the same module.
IRModule round_trip(const std::string& text) {
  IRModule m;
  try {
    m = parse_module(text);
    verify_or_throw(m);
    ConstantTable constants;
    PrintOptions print_options;
    print_options.constants = &constants;
    const std::string printed = print(m, print_options);
    ParseOptions options;
    options.constants = &constants;
    options.name = "printed";
    try {
      IRModule again = parse_module(printed, options);
      EXPECT_EQ(first_difference(m, again), "") << printed;
      EXPECT_EQ(structural_hash(m), structural_hash(again));
      EXPECT_EQ(print(again, print_options), printed);
      ObjectRef json = from_json(to_json(m));
      EXPECT_EQ(first_difference(m, json), "") << to_json(m);
    } catch (const Error& e) {
      ADD_FAILURE() << e.what() << "\n" << printed;
    }
  } catch (const Error& e) {
    ADD_FAILURE() << e.what();
  }
  return m;
}

TEST(Script, MatmulRelu) {
  IRModule m = round_trip(R"(
@tvm.script.ir_module
class MyModule:
    @T.prim_func
    def mm_relu(A: T.Buffer[(128, 128), "float32"],
                B: T.Buffer[(128, 128), "float32"],
                C: T.Buffer[(128, 128), "float32"]):
        T.func_attr({"global_symbol": "mm_relu", "tir.noalias": True})
        Y = T.alloc_buffer((128, 128), dtype="float32")
        for i, j, k in T.grid(128, 128, 128):
            with T.block("Y"):
                vi = T.axis.spatial(128, i)
                vj = T.axis.spatial(128, j)
                vk = T.axis.reduce(128, k)
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(128, 128):
            with T.block("C"):
                vi = T.axis.spatial(128, i)
                vj = T.axis.spatial(128, j)
                C[vi, vj] = T.max(Y[vi, vj], T.float32(0))
)");
  ASSERT_TRUE(m.get());
  EXPECT_EQ(print(m), R"(@I.ir_module
class Module:
    @T.prim_func
    def mm_relu(A: T.Buffer((128, 128), "float32"), B: T.Buffer((128, 128), "float32"), C: T.Buffer((128, 128), "float32")):
        T.func_attr({"global_symbol": "mm_relu", "tir.noalias": True})
        # with T.block("root"):
        Y = T.alloc_buffer((128, 128), "float32")
        for i, j, k in T.grid(128, 128, 128):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                T.reads(A[vi, vk], B[vk, vj])
                T.writes(Y[vi, vj])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for i_1, j_1 in T.grid(128, 128):
            with T.block("C"):
                vi_1, vj_1 = T.axis.remap("SS", [i_1, j_1])
                T.reads(Y[vi_1, vj_1])
                T.writes(C[vi_1, vj_1])
                C[vi_1, vj_1] = T.max(Y[vi_1, vj_1], T.float32(0))
)");
}

}  // namespace
}  // namespace tenon
