// SPDX-License-Identifier: Apache-2.0
// The compile cache: hits give the same results, everything that changes a result changes the key, and
// whatever happened to an entry, a wrong one is never used.
#include "pipeline/compile_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/temporary_folder.h"
#include "runtime/vm.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

const char* const kModel = R"(
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 3), "float32"), y: R.Tensor(("n", 3), "float32")) -> R.Tensor(("n", 3), "float32"):
        z = R.OPERATOR(x, y)
        return z
)";

std::string model_of(const std::string& op) {
  std::string text = kModel;
  return text.replace(text.find("OPERATOR"), 8, op);
}

struct CompileCacheTest : testing::Test {
  void SetUp() override {
    cache.folder = (root / "cache").string();
    cache.note = [this](const std::string& text) { notes += text + "\n"; };
    write("model.tir", model_of("add"));
    options.dims = {{"n", 2}};
  }
  void write(const std::string& name, const std::string& bytes) {
    std::ofstream(root / name, std::ios::binary) << bytes;
    // The cache does not store what changed a moment ago.
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  }
  std::string model(const std::string& name = "model.tir") const { return (root / name).string(); }
  CompileCache open(const std::string& name = "model.tir") { return {cache, model(name), options}; }

  /// Compiles and stores, unless the cache has it; says which.
  bool hit(const std::string& name = "model.tir", const std::vector<std::string>& external = {}) {
    CompileCache entry = open(name);
    artifact = entry.find();
    if (artifact) return true;
    CompileOptions o = options;
    o.code = CodeForm::objects;
    Compiled compiled = compile(load_model(model(name)), o);
    artifact = entry.store(compiled, external);
    path = entry.path();
    return false;
  }
  /// Of x = 2, y = 3.
  float value() {
    NDArray x = NDArray::empty({2, 3}, f32), y = NDArray::empty({2, 3}, f32);
    for (int64_t i = 0; i < 6; ++i) x.set_element(i, 2), y.set_element(i, 3);
    return float(Session(artifact).invoke({x, y})[0].element(5));
  }
  size_t entries() const {
    size_t n = 0;
    for (const auto& e : fs::directory_iterator(cache.folder)) n += e.is_regular_file();
    return n;
  }

  const TemporaryFolder temporary{"a test"};
  const fs::path root = temporary.path;
  CacheOptions cache;
  CompileOptions options;
  Artifact artifact;
  std::string notes, path;
};

TEST_F(CompileCacheTest, TheSecondTimeNothingIsCompiled) {
  EXPECT_FALSE(hit());
  ASSERT_TRUE(artifact);
  EXPECT_EQ(value(), 5);
  EXPECT_TRUE(hit());
  EXPECT_EQ(value(), 5);
  EXPECT_EQ(entries(), 1u);
  struct stat st;
  ASSERT_EQ(stat(cache.folder.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 077, 0u) << "entries are code: the folder is its owner's alone";
}

TEST_F(CompileCacheTest, EverythingThatChangesAResultChangesTheKey) {
  const std::string same = open().path();
  EXPECT_EQ(open().path(), same);
  options.threads = 1;
  EXPECT_EQ(open().path(), same) << "threads never change a result";
  write("copy.tir", model_of("add"));
  EXPECT_EQ(open("copy.tir").path(), same) << "content counts, not its place";

  std::set<std::string> keys{same};
  auto differs = [&](const char* what) { EXPECT_TRUE(keys.insert(open().path()).second) << what; };
  options.dims.set("n", 3);
  differs("dims");
  options.dims = {{"n", 2}, {"m", 2}};
  differs("more dims");
  options.dims = {{"n", 2}};
  options.bind.set("x", NDArray::scalar(1, f32));
  differs("a bound value");
  options.bind.set("x", NDArray::scalar(2, f32));
  differs("another bound value");
  options.bind = {{"y", NDArray::scalar(2, f32)}};
  differs("the value of another input");
  options.bind = {};
  options.opt_level = 1;
  differs("opt_level");
  options.opt_level = 2;
  options.memory_limit = 1 << 20;
  differs("memory limit");
  options.memory_limit = 0;
  options.schedule = false;
  differs("schedule");
  options.schedule = true;
  Target target = parse_target("llvm -mcpu=x86-64-v2");
  options.target = "llvm -mcpu=x86-64-v2";
  differs("target");
  target.edit()->l2_bytes *= 2;
  options.target = to_json(target);
  differs("a cache size of the target");
  options.target = {};
  options.specialize_missing_dims = true;
  differs("missing dims");
  options.specialize_missing_dims = false;
  write("model.constants", "something");
  differs("constants beside the text");
  fs::remove(root / "model.constants");
  EXPECT_EQ(open().path(), same);
  write("model.tir", model_of("multiply"));
  differs("the model");
}

TEST_F(CompileCacheTest, DamagedEntriesAreRemovedAndCompiledAgain) {
  EXPECT_FALSE(hit());
  const std::string entry = path;
  std::ostringstream content;
  content << std::ifstream(entry, std::ios::binary).rdbuf();
  const std::string whole = content.str();
  artifact = {};
  std::vector<std::string> bad{"",
                               "x",
                               "not an artifact at all",
                               whole.substr(0, whole.size() / 2),
                               whole.substr(0, whole.size() - 1),
                               whole + "more"};
  for (size_t at = 0; at < whole.size(); at += whole.size() / 23) {
    bad.push_back(whole);
    bad.back()[at] = char(bad.back()[at] ^ 0x10);
  }
  int removed = 0;
  for (size_t i = 0; i < bad.size(); ++i) {
    SCOPED_TRACE(i);
    fs::remove(entry);
    std::ofstream(entry, std::ios::binary) << bad[i];
    notes.clear();
    const bool found = hit();
    // Padding between the parts carries no meaning: such an entry may still be used.
    if (!found) {
      EXPECT_NE(notes.find("removed a bad entry"), std::string::npos) << notes;
      ++removed;
    }
    ASSERT_TRUE(artifact);
    EXPECT_EQ(value(), 5);
    artifact = {};
  }
  EXPECT_GE(removed, 20);
  EXPECT_TRUE(hit());
}

TEST_F(CompileCacheTest, AnEntryOfAnotherCompilationIsNotUsed) {
  EXPECT_FALSE(hit());
  const std::string sum = path;
  write("product.tir", model_of("multiply"));
  EXPECT_FALSE(hit("product.tir"));
  EXPECT_EQ(value(), 6);
  artifact = {};
  fs::copy_file(sum, path, fs::copy_options::overwrite_existing);
  EXPECT_FALSE(hit("product.tir"));
  EXPECT_NE(notes.find("another compilation"), std::string::npos) << notes;
  EXPECT_EQ(value(), 6);
}

TEST_F(CompileCacheTest, ExternalDataBelongToTheKey) {
  write("weights.bin", "one");
  EXPECT_FALSE(hit("model.tir", {"weights.bin"}));
  ASSERT_TRUE(artifact);
  EXPECT_TRUE(hit("model.tir", {"weights.bin"}));
  write("weights.bin", "two");
  EXPECT_FALSE(hit("model.tir", {"weights.bin"}));
  EXPECT_TRUE(hit("model.tir", {"weights.bin"}));
  fs::remove(root / "weights.bin");
  EXPECT_FALSE(bool(open().find()));
}

TEST_F(CompileCacheTest, AModelThatChangesMeanwhileIsNotStored) {
  CompileCache entry = open();
  const Compiled compiled = compile(load_model(model()), options);
  write("model.tir", model_of("multiply"));
  EXPECT_FALSE(bool(entry.store(compiled, {})));
  EXPECT_EQ(entries(), 0u);
}

TEST_F(CompileCacheTest, WhatWasUsedLastStays) {
  const char* const ops[] = {"add", "subtract", "multiply"};
  std::vector<std::string> paths;
  for (const char* op : ops) {
    write(std::string(op) + ".tir", model_of(op));
    EXPECT_FALSE(hit(std::string(op) + ".tir"));
    paths.push_back(path);
  }
  const auto size = int64_t(fs::file_size(paths[0]));
  EXPECT_TRUE(hit("add.tir"));  // now the second is the oldest
  cache.limit_bytes = size * 7 / 2;
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  write("maximum.tir", model_of("maximum"));
  EXPECT_FALSE(hit("maximum.tir"));
  EXPECT_TRUE(fs::exists(paths[0]));
  EXPECT_FALSE(fs::exists(paths[1]));
  EXPECT_TRUE(fs::exists(path));
  EXPECT_LE(entries(), 3u);
}

TEST_F(CompileCacheTest, WithoutAUsableFolderThereIsNoCache) {
  auto unusable = [&] {
    artifact = {};
    CompileCache entry = open();
    EXPECT_EQ(entry.path(), "");
    EXPECT_FALSE(bool(entry.find()));
    EXPECT_FALSE(hit());
    EXPECT_FALSE(bool(artifact));
    EXPECT_NE(notes.find("no compile cache"), std::string::npos) << notes;
    notes.clear();
  };
  write("cache", "a file where the folder should be");
  unusable();
  cache.folder = (root / "cache" / "below").string();
  unusable();
  cache.folder = (root / "shared").string();
  fs::create_directory(cache.folder);
  fs::permissions(cache.folder, fs::perms::all);
  unusable();
}

TEST_F(CompileCacheTest, ManyThreadsShareAFolder) {
  std::vector<std::thread> threads;
  std::vector<int> good(4);
  for (size_t t = 0; t < good.size(); ++t)
    threads.emplace_back([&, t] {
      CacheOptions own = cache;
      own.note = {};
      for (int i = 0; i < 3; ++i) {
        CompileCache entry(own, model(), options);
        Artifact a = entry.find();
        if (!a) a = entry.store(compile(load_model(model()), options), {});
        if (!a) continue;
        NDArray x = NDArray::empty({2, 3}, f32);
        for (int64_t k = 0; k < 6; ++k) x.set_element(k, 4);
        good[t] += Session(a).invoke({x, x})[0].element(0) == 8;
        if (i == 1) unlink(entry.path().c_str());  // as trimming in another process does
      }
    });
  for (std::thread& t : threads) t.join();
  for (int n : good) EXPECT_GE(n, 2);
}

TEST(CompileCacheLimit, IsReadFromTheEnvironment) {
  auto with = [](const char* text) {
    setenv("TENON_CACHE_LIMIT", text, 1);
    return cache_limit();
  };
  EXPECT_EQ(with("4096"), 4096);
  EXPECT_EQ(with("512M"), int64_t(512) << 20);
  EXPECT_EQ(with("3G"), int64_t(3) << 30);
  for (const char* bad : {"many", "-1", "5X", "99999999999G"}) EXPECT_THROW(with(bad), Error) << bad;
  unsetenv("TENON_CACHE_LIMIT");
  EXPECT_EQ(cache_limit(), CacheOptions().limit_bytes);
}

}  // namespace
}  // namespace tenon
