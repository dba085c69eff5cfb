// SPDX-License-Identifier: Apache-2.0
// Programs on which several primitives show what they do (Primitive::sample).
#pragma once
#include <string_view>

namespace tenon::sched::samples {

/// D = A · B + bias
inline constexpr std::string_view matmul = R"(
@T.prim_func
def main(A: T.Buffer((6, 5), "float32"), B: T.Buffer((5, 8), "float32"), bias: T.Buffer((8,), "float32"), D: T.Buffer((6, 8), "float32")):
    C = T.alloc_buffer((6, 8), "float32")
    for i, j, k in T.grid(6, 8, 5):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(6, 8):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] + bias[vj]
)";

/// C = A · B, E = C + 1, D = E · F
inline constexpr std::string_view two_products = R"(
@T.prim_func
def main(A: T.Buffer((6, 5), "float32"), B: T.Buffer((5, 8), "float32"), F: T.Buffer((8, 3), "float32"), D: T.Buffer((6, 3), "float32")):
    C = T.alloc_buffer((6, 8), "float32")
    E = T.alloc_buffer((6, 8), "float32")
    for i, j, k in T.grid(6, 8, 5):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(6, 8):
        with T.block("E"):
            vi, vj = T.axis.remap("SS", [i, j])
            E[vi, vj] = C[vi, vj] + T.float32(1)
    for i, j, k in T.grid(6, 3, 8):
        with T.block("D"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                D[vi, vj] = T.float32(0)
            D[vi, vj] = D[vi, vj] + E[vi, vk] * F[vk, vj]
)";

/// C = Aᵀ, D = C + 1
inline constexpr std::string_view transpose = R"(
@T.prim_func
def main(A: T.Buffer((6, 4), "float32"), D: T.Buffer((4, 6), "float32")):
    C = T.alloc_buffer((4, 6), "float32")
    for i, j in T.grid(4, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vj, vi]
    for i, j in T.grid(4, 6):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] + T.float32(1)
)";

/// P = A with a row of 0 above and below, D[i] = P[i] + P[i + 1] + P[i + 2]
inline constexpr std::string_view windows = R"(
@T.prim_func
def main(A: T.Buffer((6, 4), "float32"), D: T.Buffer((6, 4), "float32")):
    P = T.alloc_buffer((8, 4), "float32")
    for i, j in T.grid(8, 4):
        with T.block("P"):
            vi, vj = T.axis.remap("SS", [i, j])
            P[vi, vj] = T.if_then_else(1 <= vi and vi < 7, A[vi - 1, vj], T.float32(0))
    for i, j, y in T.grid(6, 4, 3):
        with T.block("D"):
            vi, vj, vy = T.axis.remap("SSR", [i, j, y])
            with T.init():
                D[vi, vj] = T.float32(0)
            D[vi, vj] = D[vi, vj] + P[vi + vy, vj]
)";

}  // namespace tenon::sched::samples
