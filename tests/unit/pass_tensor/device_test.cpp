// SPDX-License-Identifier: Apache-2.0
// Programs with GPU threads through the whole device pipeline: simulated threads, run from the first and from
// the last, give what the program gave before.
#include "programs.h"

namespace tenon {
namespace {

IRModule read(const std::string& body) {
  return parse_module("@I.ir_module\nclass Module:\n    @T.prim_func\n" + body);
}

std::vector<NDArray> run_threads(const IRModule& m, const std::vector<NDArray>& args, bool reverse) {
  std::vector<NDArray> copy;
  for (const NDArray& a : args) copy.push_back(a.copy());
  InterpretOptions options;
  options.reverse_threads = reverse;
  interpret_prim_func(body_of(m), copy, m, options);
  return copy;
}

void expect_close(const std::vector<NDArray>& want, const std::vector<NDArray>& got,
                  const std::string& what) {
  for (size_t k = 0; k < want.size(); ++k)
    for (int64_t i = 0; i < want[k].size(); ++i)
      ASSERT_NEAR(want[k].element(i), got[k].element(i), 1e-4 * (1 + std::fabs(want[k].element(i))))
          << what << ": element " << i << " of argument " << k;
}

/// Runs the device pipeline; returns the module behind it.
IRModule check_device(IRModule m, const std::vector<NDArray>& args) {
  const std::vector<NDArray> want = run_threads(m, args, false);
  expect_valid(m, "input");
  PassContext context;
  bool barriers = true, lifted = false;
  for (const Pass& pass : device_passes()) {
    m = pass.run(m, context);
    expect_valid(m, std::string(pass.name));
    if (testing::Test::HasFatalFailure()) return m;
    if (pass.name == "lift_thread_binding") barriers = false, lifted = true;
    if (pass.name == "thread_sync") barriers = true;
    if (!barriers) continue;
    try {
      expect_close(want, run_threads(m, args, false), std::string(pass.name));
      if (lifted) expect_close(want, run_threads(m, args, true), std::string(pass.name) + ", reversed");
    } catch (const Error& e) {
      ADD_FAILURE() << pass.name << ": " << e.what();
    }
    if (testing::Test::HasFailure()) {
      ADD_FAILURE() << print(m);
      return m;
    }
  }
  return m;
}
bool has(const IRModule& m, const std::string& text) { return print(m).find(text) != std::string::npos; }

TEST(Device, TiledMatmulThroughSharedMemory) {
  const IRModule out = check_device(
      read(R"(
    def f(A: T.Buffer((32, 24), "float32"), B: T.Buffer((24, 16), "float32"), C: T.Buffer((32, 16), "float32")):
        for by in T.thread_binding(4, thread="blockIdx.y"):
            for bx in T.thread_binding(2, thread="blockIdx.x"):
                S = T.allocate((8, 8), "float32", scope="shared")
                R = T.allocate((8, 8), "float32", scope="shared")
                for y in T.thread_binding(8, thread="threadIdx.y"):
                    for x in T.thread_binding(8, thread="threadIdx.x"):
                        C[by * 8 + y, bx * 8 + x] = T.float32(0)
                for k in range(3):
                    for y in T.thread_binding(8, thread="threadIdx.y"):
                        for x in T.thread_binding(8, thread="threadIdx.x"):
                            S[y, x] = A[by * 8 + y, k * 8 + x]
                            R[y, x] = B[k * 8 + y, bx * 8 + x]
                    for y in T.thread_binding(8, thread="threadIdx.y"):
                        for x in T.thread_binding(8, thread="threadIdx.x"):
                            for j in range(8):
                                C[by * 8 + y, bx * 8 + x] = C[by * 8 + y, bx * 8 + x] + S[y, j] * R[j, x]
)"),
      {random_array({32, 24}, f32, 1), random_array({24, 16}, f32, 2), NDArray::zeros({32, 16}, f32)});
  EXPECT_TRUE(has(out, "def f_kernel"));
  EXPECT_TRUE(has(out, "shared_memory"));
  EXPECT_TRUE(has(out, "storage_sync"));
}

TEST(Device, RowSumsOverThreads) {
  for (int64_t threads : {32, 24, 64}) {
    const std::string n = std::to_string(threads);
    const IRModule out = check_device(
        read(R"(
    def f(A: T.Buffer((6, 192), "float32"), B: T.Buffer((6,), "float32"), C: T.Buffer((6, 192), "float32")):
        for i in T.thread_binding(6, thread="blockIdx.x"):
            with T.block("root"):
                S = T.alloc_buffer((6,), "float32", scope="shared")
                for t in T.thread_binding()" +
             n + R"(, thread="threadIdx.x"):
                    for k in range(192 // )" +
             n + R"():
                        with T.block("sum"):
                            vi = T.axis.spatial(6, i)
                            vk = T.axis.reduce(192, k * )" +
             n + R"( + t)
                            with T.init():
                                S[vi] = T.float32(0)
                            S[vi] = S[vi] + A[vi, vk]
                for t in T.thread_binding()" +
             n + R"(, thread="threadIdx.x"):
                    for k in range(192 // )" +
             n + R"():
                        with T.block("scale"):
                            vi = T.axis.spatial(6, i)
                            vj = T.axis.spatial(192, k * )" +
             n + R"( + t)
                            C[vi, vj] = A[vi, vj] / (S[vi] + T.float32(1000))
                B[i] = S[i]
)"),
        {random_array({6, 192}, f32, 1), NDArray::zeros({6}, f32), NDArray::zeros({6, 192}, f32)});
    EXPECT_FALSE(has(out, "thread_allreduce"));
    EXPECT_EQ(has(out, "warp_shuffle_xor"), threads == 32);
  }
}

// Place and value of the largest of each row, and the first of equals: values that are chosen together.
TEST(Device, ArgmaxOverThreads) {
  for (auto [threads, rows] : std::vector<std::pair<int64_t, int64_t>>{{32, 1}, {24, 1}, {8, 4}, {1, 2}}) {
    const std::string n = std::to_string(threads), y = std::to_string(rows);
    const IRModule m = read(R"(
    def f(A: T.Buffer((8, 96), "float32"), at: T.Buffer((8,), "int64"), most: T.Buffer((8,), "float32")):
        for i in T.thread_binding(8 // )" +
                            y +
                            R"(, thread="blockIdx.x"):
            for y in T.thread_binding()" +
                            y + R"(, thread="threadIdx.y"):
                for k in range(96 // )" +
                            n + R"():
                    for t in T.thread_binding()" +
                            n + R"(, thread="threadIdx.x"):
                        with T.block("argmax"):
                            vi = T.axis.spatial(8, i * )" +
                            y + R"( + y)
                            vk = T.axis.reduce(96, k * )" +
                            n + R"( + t)
                            with T.init():
                                at[vi] = T.int64(-1)
                                most[vi] = T.float32(-1000000)
                            v_at: T.int64 = T.Select(most[vi] > A[vi, vk] or (most[vi] == A[vi, vk] and at[vi] < vk), at[vi], vk)
                            v_most: T.float32 = T.Select(most[vi] > A[vi, vk] or (most[vi] == A[vi, vk] and at[vi] < vk), most[vi], A[vi, vk])
                            at[vi] = v_at
                            most[vi] = v_most
)");
    NDArray a = random_array({8, 96}, f32, 4);
    for (int64_t r = 0; r < 8; ++r)
      for (int64_t k : {7, 50, 90}) a.set_element(r * 96 + k, 100);
    const IRModule out = check_device(m, {a, NDArray::zeros({8}, i64), NDArray::zeros({8}, f32)});
    if (HasFailure()) return;
    EXPECT_TRUE(has(out, "storage_sync") && has(out, "def f_kernel"));
    const auto got = run_threads(out, {a, NDArray::zeros({8}, i64), NDArray::zeros({8}, f32)}, true);
    for (int64_t r = 0; r < 8; ++r) {
      EXPECT_EQ(got[1].element_int(r), 7);
      EXPECT_EQ(got[2].element(r), 100);
    }
  }
}

TEST(Device, VirtualThreadsShareABarrier) {
  const IRModule out = check_device(read(R"(
    def f(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for b in T.thread_binding(2, thread="blockIdx.x"):
            for t in T.thread_binding(8, thread="threadIdx.x"):
                S = T.allocate((32,), "float32", scope="shared")
                for v in T.thread_binding(2, thread="vthread.x"):
                    for i in range(2):
                        S[v * 16 + t * 2 + i] = A[b * 32 + v * 16 + t * 2 + i]
                    T.storage_sync("shared")
                    for i in range(2):
                        B[b * 32 + v * 16 + t * 2 + i] = S[15 + v * 16 - t * 2 - i]
)"),
                                    {random_array({64}, f32, 1), NDArray::zeros({64}, f32)});
  EXPECT_FALSE(has(out, "vthread"));
}

TEST(Device, PipelinedLoadsOfTiles) {
  check_device(read(R"(
    def f(A: T.Buffer((5, 16), "float32"), B: T.Buffer((5, 16), "float32")):
        for t in T.thread_binding(16, thread="threadIdx.x"):
            for k in T.serial(5, annotations={"software_pipeline_stage": [0, 1], "software_pipeline_order": [0, 1]}):
                S = T.allocate((16,), "float32", scope="shared")
                S[t] = A[k, t]
                B[k, t] = S[t] * T.float32(2)
)"),
               {random_array({5, 16}, f32, 1), NDArray::zeros({5, 16}, f32)});
}

TEST(Device, RaggedBlocksAndSymbolicSizes) {
  for (int64_t n : {1, 31, 32, 70})
    check_device(read(R"(
    def f(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32")):
        for b in T.thread_binding((n + 31) // 32, thread="blockIdx.x"):
            for t in T.thread_binding(32, thread="threadIdx.x"):
                if b * 32 + t < n:
                    B[b * 32 + t] = A[b * 32 + t] + T.float32(1)
)"),
                 {random_array({n}, f32, 1), NDArray::zeros({n}, f32)});
}

// ---------------------------------------------------------------- what the simulation finds
std::string error_of(const std::string& body, std::vector<NDArray> args) {
  try {
    run_threads(read(body), args, false);
  } catch (const Error& e) {
    return e.code;
  }
  return "";
}

TEST(Threads, BarrierThatSomeDoNotReach) {
  EXPECT_EQ(error_of(R"(
    def f(A: T.Buffer((8,), "float32")):
        for t in T.thread_binding(8, thread="threadIdx.x"):
            if t < 4:
                T.storage_sync("shared")
            A[t] = T.float32(1)
)",
                     {NDArray::zeros({8}, f32)}),
            "T0361");
}

TEST(Threads, MissingBarrierShowsInOneOrder) {
  const char* text = R"(
    def f(A: T.Buffer((8,), "float32")):
        for t in T.thread_binding(8, thread="threadIdx.x"):
            S = T.allocate((8,), "float32", scope="shared")
            S[t] = T.float32(1)
            if t > 0:
                A[t] = S[t - 1]
)";
  const std::vector<NDArray> args{NDArray::zeros({8}, f32)};
  EXPECT_EQ(run_threads(read(text), args, false)[0].element(7), 1);
  EXPECT_TRUE(std::isnan(run_threads(read(text), args, true)[0].element(7)));
}

TEST(Threads, AnErrorInOneThreadEndsAll) {
  EXPECT_EQ(error_of(R"(
    def f(A: T.Buffer((8,), "float32")):
        for t in T.thread_binding(9, thread="threadIdx.x"):
            T.storage_sync("shared")
            A[t] = T.float32(1)
)",
                     {NDArray::zeros({8}, f32)}),
            "T0355");
}

TEST(Threads, AtomicsCountEveryThread) {
  const std::vector<NDArray> out = run_threads(read(R"(
    def f(A: T.Buffer((3,), "int32")):
        for b in T.thread_binding(4, thread="blockIdx.x"):
            for t in T.thread_binding(32, thread="threadIdx.x"):
                T.evaluate(T.call("tir.atomic_add", T.address_of(A[0]), T.int32(2), dtype="int32"))
                T.evaluate(T.call("tir.atomic_max", T.address_of(A[1]), T.cast(t, "int32"), dtype="int32"))
                T.evaluate(T.call("tir.atomic_compare_exchange", T.address_of(A[2]), T.int32(0), T.cast(t + 5, "int32"), dtype="int32"))
)"),
                                               {NDArray::zeros({3}, DataType::int_(32))}, true);
  EXPECT_EQ(out[0].element_int(0), 256);
  EXPECT_EQ(out[0].element_int(1), 31);
  EXPECT_EQ(out[0].element_int(2), 36);  // the last thread came first
}

TEST(Threads, AsyncCopiesArriveWhenWaitedFor) {
  const char* text = R"(
    def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        S = T.allocate((8,), "float32", scope="shared")
        T.evaluate(T.call("tir.async_copy", T.address_of(S[0]), T.address_of(A[0]), 8, dtype="void"))
        T.evaluate(T.call("tir.async_commit", dtype="void"))
        B[0] = S[3]
        T.evaluate(T.call("tir.async_wait", 0, dtype="void"))
        C[0] = S[3]
)";
  const auto out = run_threads(
      read(text), {random_array({8}, f32, 3), NDArray::zeros({8}, f32), NDArray::zeros({8}, f32)}, false);
  EXPECT_TRUE(std::isnan(out[1].element(0)));
  EXPECT_EQ(out[2].element(0), out[0].element(3));
}

TEST(Threads, MatrixFragments) {
  const auto out = run_threads(
      read(R"(
    def f(A: T.Buffer((4, 4), "float16"), B: T.Buffer((4, 4), "float16"), C: T.Buffer((4, 4), "float32")):
        for t in T.thread_binding(32, thread="threadIdx.x"):
            a = T.allocate((16,), "float16", scope="wmma.matrix_a")
            b = T.allocate((16,), "float16", scope="wmma.matrix_b")
            c = T.allocate((16,), "float32", scope="wmma.accumulator")
            T.evaluate(T.call("tir.mma_fill", T.address_of(c[0]), 16, T.float32(1), dtype="void"))
            T.evaluate(T.call("tir.mma_load", T.address_of(a[0]), 4, 4, T.address_of(A[0, 0]), 4, "row", dtype="void"))
            T.evaluate(T.call("tir.mma_load", T.address_of(b[0]), 4, 4, T.address_of(B[0, 0]), 4, "col", dtype="void"))
            T.evaluate(T.call("tir.mma_sync", T.address_of(c[0]), T.address_of(a[0]), T.address_of(b[0]), T.address_of(c[0]), 4, 4, 4, dtype="void"))
            T.evaluate(T.call("tir.mma_store", T.address_of(C[0, 0]), 4, "row", T.address_of(c[0]), 4, 4, dtype="void"))
)"),
      {random_array({4, 4}, f16, 1), random_array({4, 4}, f16, 2), NDArray::zeros({4, 4}, f32)}, false);
  for (int64_t i = 0; i < 4; ++i)
    for (int64_t j = 0; j < 4; ++j) {
      double want = 1;
      for (int64_t k = 0; k < 4; ++k) want += out[0].element(i * 4 + k) * out[1].element(j * 4 + k);
      EXPECT_NEAR(out[2].element(i * 4 + j), want, 1e-3 * (1 + std::fabs(want)));
    }
}

}  // namespace
}  // namespace tenon
