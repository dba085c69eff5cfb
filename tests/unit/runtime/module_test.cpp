// SPDX-License-Identifier: Apache-2.0
// Modules: functions by name, imports, saving; models that are linked in; files that change while in use.
#include "runtime/module.h"

#include <gtest/gtest.h>
#include <tenon/tenon.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "base/temporary_folder.h"
#include "program.h"
#include "runtime/artifact.h"
#include "runtime/dlpack.h"

namespace tenon {
namespace {
using namespace test;

class ModuleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ifstream in(TENON_TEST_KERNELS, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    code = text.str();
  }
  std::string write(const std::string& name, const Executable& e) {
    write_artifact(folder + "/" + name, e, code);
    return folder + "/" + name;
  }
  /// `double_it(x) = x + x`, and a `main` like it.
  static Executable library() {
    Builder b;
    for (const char* name : {"double_it", "main"}) {
      b.begin(name, 1, 2)
          .builtin(1, "alloc_tensor", {imm(dtype_word(f32)), imm(4)})
          .kernel("test_add", 3, {reg(0), reg(0), reg(1), imm(4)})
          .ret(1);
      b.e.functions.back().params = {{"x", f32, true, {{4, ""}}}};
      b.e.functions.back().results = {{"y", f32, true, {{4, ""}}}};
    }
    return b.e;
  }
  /// `main(x)` calls the packed function `double_it`, which this artifact does not have.
  static Executable user() {
    Builder b;
    b.begin("main", 1, 2).packed(1, "double_it", {reg(0)}).ret(1);
    b.e.functions.back().params = {{"x", f32, true, {{4, ""}}}};
    return b.e;
  }
  const TemporaryFolder temporary{"a test"};
  const std::string folder = temporary.path.string();
  std::string code;
};

TEST_F(ModuleTest, FunctionsByNameAndImports) {
  const std::string lib = write("lib.so", library()), use = write("use.so", user());
  const NDArray x = floats({1, 2, 3, 4});
  const Module module = Module::load(lib);
  EXPECT_EQ(module.function_names(), (std::vector<std::string>{"double_it", "main"}));
  const Function f = module.function("double_it");
  EXPECT_EQ(values(f(x).as<NDArray>()), (std::vector<float>{2, 4, 6, 8}));
  EXPECT_FALSE(module.function("absent"));
  // Wrong values are errors that leave the function usable.
  EXPECT_EQ(error_code([&] { f(floats({1, 2})); }), "T0505");
  EXPECT_EQ(error_code([&] { f(NDArray::zeros({4}, i32)); }), "T0504");
  EXPECT_EQ(error_code([&] { f(int64_t(3)); }), "T0506");
  EXPECT_EQ(error_code([&] { f(x, x); }), "T0502");
  EXPECT_EQ(values(f(x).as<NDArray>())[3], 8);
  // What an artifact calls comes from its imports.
  EXPECT_EQ(error_code([&] { Module::load(use); }), "T0609");
  Module user = Module::load(use, {module});
  EXPECT_EQ(values(user.function("main")(x).as<NDArray>())[1], 4);
  EXPECT_FALSE(user.function("double_it"));
  EXPECT_TRUE(user.function("double_it", true));
  EXPECT_EQ(error_code([&] { module.import(user); }), "T0612");
  EXPECT_EQ(error_code([&] { module.import(module); }), "T0612");
  // Saved with its import beside it, and loaded again without naming it.
  std::filesystem::create_directory(folder + "/saved");
  const std::string saved = folder + "/saved/model.so";
  user.save(saved);
  std::filesystem::remove(lib);
  user = Module();
  const Module again = Module::load(saved);
  EXPECT_EQ(again.imports().size(), 1u);
  EXPECT_EQ(values(again.function("main")(x).as<NDArray>()), (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(error_code([&] { Module(Artifact::from_executable(library(), resolve)).save(saved); }), "T0613");
}

TEST_F(ModuleTest, ImportsOnDiskInACircleAreRefused) {
  Executable e = library();
  e.metadata.emplace_back("import.0", "circle.so");
  EXPECT_EQ(error_code([&] { Module::load(write("circle.so", e)); }), "T0612");
  e.metadata.back().second = "../circle.so";
  EXPECT_EQ(error_code([&] { Module::load(write("outside.so", e)); }), "T0605");
}

TEST_F(ModuleTest, ManyThreadsCallOneFunction) {
  const Function f = Module::load(write("lib.so", library())).function("double_it");
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const NDArray y = f(floats(std::vector<float>(4, float(t * 1000 + i)))).as<NDArray>();
        wrong += values(y) != std::vector<float>(4, float(2 * (t * 1000 + i)));
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(ModuleTest, ByTheCInterface) {
  const std::string lib = write("lib.so", library()), use = write("use.so", user());
  TenonModule *library = nullptr, *user = nullptr, *import = nullptr;
  TenonFunction* f = nullptr;
  ASSERT_EQ(tenon_module_load(lib.c_str(), 0, nullptr, 0, &library), TENON_OK);
  ASSERT_EQ(tenon_module_load(use.c_str(), TENON_LOAD_COPY, &library, 1, &user), TENON_OK);
  EXPECT_EQ(tenon_module_num_imports(user), 1);
  EXPECT_EQ(tenon_module_num_functions(library), 2);
  EXPECT_STREQ(tenon_module_function_name(library, 0), "double_it");
  EXPECT_EQ(tenon_module_function_name(library, 2), nullptr);
  ASSERT_EQ(tenon_module_get_import(user, 0, &import), TENON_OK);
  EXPECT_EQ(tenon_module_import(import, user), TENON_ERROR_USAGE);
  EXPECT_STREQ(tenon_last_error()->code, "T0612");
  EXPECT_EQ(tenon_module_function(user, "nothing", 1, &f), TENON_ERROR_USAGE);
  ASSERT_EQ(tenon_module_function(user, "double_it", 1, &f), TENON_OK);
  tenon_module_release(library);
  tenon_module_release(import);
  const NDArray x = floats({1, 2, 3, 4});
  const DLTensor in = dlpack_view(x);
  DLManagedTensorVersioned* out = nullptr;
  int32_t count = 0;
  EXPECT_EQ(tenon_function_call(f, &in, 1, &out, &count), TENON_ERROR_USAGE);
  EXPECT_EQ(count, 1);
  ASSERT_EQ(tenon_function_call(f, &in, 1, &out, &count), TENON_OK);
  EXPECT_EQ(static_cast<float*>(out->dl_tensor.data)[2], 6);
  out->deleter(out);
  tenon_function_release(f);
  const std::string saved = folder + "/saved.so";
  EXPECT_EQ(tenon_module_save(user, saved.c_str()), TENON_OK);
  EXPECT_TRUE(std::filesystem::exists(saved + ".import0.so"));
  tenon_module_release(user);
}

TEST_F(ModuleTest, CopiedFilesMayChangeWhileTheyAreUsed) {
  const std::string path = write("model.so", add_program());
  Session session(Artifact::load(path, {.copy = true}));
  std::filesystem::resize_file(path, 100);  // mapped, this would end the process
  const NDArray a = floats(std::vector<float>(8, 1), {2, 4});
  EXPECT_EQ(values(session.invoke({a, a})[0]), std::vector<float>(8, 2.5));
}

TEST_F(ModuleTest, ConstantsAreMappedNotCopied) {
  Executable e = add_program();
  e.constants.push_back(NDArray::zeros({1 << 20}, f32));
  const std::string path = std::filesystem::canonical(write("model.so", e));
  const Artifact artifact = Artifact::load(path);
  Session session(artifact);
  const NDArray a = floats(std::vector<float>(8, 1), {2, 4});
  session.invoke({a, a});
  // Every constant lies in a read-only map of the file.
  std::ifstream maps("/proc/self/maps");
  std::vector<std::pair<uintptr_t, uintptr_t>> ranges;
  for (std::string line; std::getline(maps, line);) {
    if (!line.ends_with(path) || line.find(" r--p ") == line.npos) continue;
    char* end = nullptr;
    const uintptr_t from = std::strtoull(line.c_str(), &end, 16);
    ranges.emplace_back(from, std::strtoull(end + 1, nullptr, 16));
  }
  for (const NDArray& c : artifact.executable().constants) {
    const auto at = reinterpret_cast<uintptr_t>(c.data());
    bool mapped = false;
    for (auto [from, to] : ranges) mapped |= at >= from && at + c.byte_size() <= to;
    EXPECT_TRUE(mapped);
  }
}

/// As compilers write it into an object file.
TEST(SystemLibrary, IsFoundByName) {
  const Executable e = add_program();
  static const std::string tables = executable_tables(e);
  static const NDArray constant = e.constants[0];
  static const void* constants[] = {constant.data()};
  static const char* const names[] = {"test_add"};
  static void (*const kernels[])(void) = {reinterpret_cast<void (*)()>(resolve("test_add"))};
  static TenonSystemLibrary library{sizeof(TenonSystemLibrary),
                                    kArtifactFormat,
                                    TENON_KERNEL_ABI,
                                    "adder",
                                    tables.data(),
                                    tables.size(),
                                    constants,
                                    1,
                                    names,
                                    kernels,
                                    1};
  EXPECT_EQ(error_code([] { Artifact::load("system"); }), "T0611");
  ASSERT_EQ(tenon_system_register(&library), TENON_OK);
  ASSERT_EQ(tenon_system_register(&library), TENON_OK);
  static TenonSystemLibrary other = library;
  EXPECT_NE(tenon_system_register(&other), TENON_OK);
  for (const char* name : {"system", "system:adder"}) {
    const Artifact artifact = Artifact::load(name, {.check = true});
    EXPECT_EQ(artifact.executable().constants[0].data(), constant.data());  // where it is linked to
    Session session(artifact);
    const NDArray a = floats(std::vector<float>(8, 1), {2, 4});
    EXPECT_EQ(values(session.invoke({a, a})[0]), std::vector<float>(8, 2.5));
  }
  EXPECT_EQ(error_code([] { Artifact::load("system:other"); }), "T0611");
  const Module module = Module::load("system:adder");
  EXPECT_EQ(module.function_names(), std::vector<std::string>{"main"});
  library.num_kernels = 0;
  EXPECT_EQ(error_code([] { Artifact::load("system"); }), "T0608");
  library.num_kernels = 1;
}

TEST(VM, CallsOfKernelsCostLittle) {
  Builder b;
  b.e.arena_tensors = {{0, {4}, f32}, {64, {4}, f32}};
  b.e.arena_bytes = 128;
  constexpr int calls = 1000;
  b.begin("main", 1, 2).kernel("test_add", 3, {reg(0), reg(0), arena(0), imm(4)});
  for (int i = 1; i < calls; ++i) b.kernel("test_add", 3, {arena((i + 1) % 2), reg(0), arena(i % 2), imm(4)});
  b.builtin(1, "alloc_tensor", {imm(dtype_word(f32)), imm(4)})
      .kernel("test_add", 3, {reg(0), arena((calls - 1) % 2), reg(1), imm(4)})
      .ret(1);
  Session session(Artifact::from_executable(b.e, resolve), {.threads = 1});
  const NDArray x = floats({1, 2, 3, 4});
  EXPECT_EQ(values(session.invoke({x})[0])[1], 2 * (calls + 2));
  double best = 1e9;
  for (int round = 0; round < 50; ++round) {
    const auto start = std::chrono::steady_clock::now();
    session.invoke({x});
    best = std::min(
        best, std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count());
  }
  std::cout << best / (calls + 1) << " ns per call of a kernel, with the kernel\n";
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
  EXPECT_LT(best / (calls + 1), 150);
#endif
}

}  // namespace
}  // namespace tenon
