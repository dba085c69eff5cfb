// SPDX-License-Identifier: Apache-2.0
#include "runtime/artifact.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <numeric>
#include <random>
#include <set>

#include "base/temporary_folder.h"
#include "program.h"
#include "runtime/artifact_format.h"

namespace tenon {
namespace {
using namespace test;
using artifact_format::Header;

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}
void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

class ArtifactTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path = folder + "/model.tenon";
    write_artifact(path, add_program(), read_file(TENON_TEST_KERNELS));
    bytes = read_file(path);
    header_at = artifact_format::align_up(artifact_format::elf_extent(bytes, nullptr), 64);
    std::memcpy(&header, bytes.data() + header_at, sizeof header);
  }
  /// Code of the error on loading these bytes.
  std::string load_error(const std::string& changed, std::string* message = nullptr, bool check = false) {
    const std::string other = folder + "/changed.tenon";
    write_file(other, changed);
    return error_code([&] { Artifact::load(other, {.check = check}); }, message);
  }
  /// The file with another header, its hash made right again.
  std::string with_header(Header h) {
    h.header_hash = hash_bytes(&h, offsetof(Header, header_hash));
    std::string changed = bytes;
    std::memcpy(changed.data() + header_at, &h, sizeof h);
    return changed;
  }
  std::string with_tables(const std::string& tables) {
    Header h = header;
    std::string changed = bytes.substr(0, h.tables_at) + tables;
    h.tables_bytes = tables.size();
    h.tables_hash = hash_bytes(tables.data(), tables.size());
    h.constants_at = artifact_format::align_up(changed.size(), 4096);
    changed.resize(h.constants_at);
    changed += bytes.substr(header.constants_at);
    h.file_bytes = changed.size();
    h.header_hash = hash_bytes(&h, offsetof(Header, header_hash));
    std::memcpy(changed.data() + header_at, &h, sizeof h);
    return changed;
  }
  const TemporaryFolder temporary{"a test"};
  const std::string folder = temporary.path.string();
  std::string path, bytes;
  uint64_t header_at = 0;
  Header header;
};

TEST_F(ArtifactTest, RoundTrip) {
  Artifact artifact = Artifact::load(path, {.check = true});
  EXPECT_EQ(artifact.inputs().size(), 2u);
  EXPECT_EQ(artifact.inputs()[1].name, "b");
  EXPECT_EQ(artifact.outputs()[0].name, "sum");
  EXPECT_EQ(*artifact.metadata("compiler"), "test");
  Session session(artifact);
  NDArray a = floats({1, 2, 3, 4, 5, 6, 7, 8}, {2, 4});
  EXPECT_EQ(values(session.invoke({a, a})[0]),
            (std::vector<float>{2.5, 4.5, 6.5, 8.5, 10.5, 12.5, 14.5, 16.5}));
  // Constants are mapped, on their places.
  EXPECT_EQ(reinterpret_cast<uintptr_t>(artifact.executable().constants[0].data()) % 64, 0u);
}

TEST_F(ArtifactTest, TwoArtifactsOfOnePathDoNotMix) {
  Artifact first = Artifact::load(path);
  Executable e = add_program();
  e.constants[0] = floats(std::vector<float>(8, 100), {2, 4});
  write_artifact(path, e, read_file(TENON_TEST_KERNELS));
  Artifact second = Artifact::load(path);
  NDArray a = floats(std::vector<float>(8, 1), {2, 4});
  EXPECT_EQ(values(Session(first).invoke({a, a})[0])[0], 2.5f);
  EXPECT_EQ(values(Session(second).invoke({a, a})[0])[0], 102.0f);
}

TEST_F(ArtifactTest, EveryTableFieldRoundTrips) {
  Executable e = add_program();
  e.needs = {"x86_64-unknown-linux-gnu", "x86-64", {}};
  e.functions[0].params[0].known_rank = false;
  e.functions[0].params[1].shape[0] = {-1, "batch"};
  e.functions[0].heap_size = 3;
  e.callees[0].buffer_bytes = {32, -1, 32};
  e.modules = {{"text", std::string("add\0b", 5)}, {"other", ""}};
  e.constants.push_back(NDArray::zeros({3}, DataType::int_(4)));
  e.constants.push_back(NDArray::zeros({0, 7}, f64));
  e.constants.push_back(floats(std::vector<float>(8, 0.5f), {2, 4}));  // equal to the first: stored once
  write_artifact(path, e, read_file(TENON_TEST_KERNELS));
  const ArtifactFile file = read_artifact(path, {.check = true});
  const Executable& r = file.executable;
  EXPECT_EQ(r.needs.triple, e.needs.triple);
  EXPECT_EQ(r.needs.cpu, "x86-64");
  EXPECT_FALSE(r.functions[0].params[0].known_rank);
  EXPECT_EQ(r.functions[0].params[1].shape[0].symbol, "batch");
  EXPECT_EQ(r.functions[0].heap_size, 3);
  EXPECT_EQ(r.callees[0].buffer_bytes, e.callees[0].buffer_bytes);
  ASSERT_EQ(r.modules.size(), 2u);
  EXPECT_EQ(r.modules[0].loader, "text");
  EXPECT_EQ(r.modules[0].bytes, e.modules[0].bytes);
  EXPECT_EQ(r.modules[1].loader, "other");
  EXPECT_EQ(r.metadata, e.metadata);
  EXPECT_EQ(r.constants[1].dtype(), DataType::int_(4));
  EXPECT_EQ(r.constants[2].shape(), (std::vector<int64_t>{0, 7}));
  EXPECT_EQ(r.constants[3].data(), r.constants[0].data());
  EXPECT_EQ(r.constants[0].hash(), e.constants[0].hash());
  ASSERT_EQ(r.code.size(), e.code.size());
  for (size_t i = 0; i < r.code.size(); ++i)
    EXPECT_EQ(std::memcmp(&r.code[i].dst, &e.code[i].dst, sizeof(Instruction) - 4), 0);
}

TEST_F(ArtifactTest, WrongFiles) {
  std::string text;
  EXPECT_EQ(error_code([&] { Artifact::load(folder + "/none"); }), "T3001");
  EXPECT_EQ(error_code([&] { Artifact::load(folder); }), "T0601");
  EXPECT_EQ(load_error(""), "T0601");
  EXPECT_EQ(load_error("x"), "T0601");
  EXPECT_EQ(load_error(std::string(5000, 'x')), "T0601");
  EXPECT_EQ(load_error(read_file(TENON_TEST_KERNELS), &text), "T0601");
  EXPECT_NE(text.find("ordinary shared library"), text.npos) << text;
  EXPECT_EQ(load_error(read_file(TENON_TEST_KERNELS) + std::string(4096, 'y')), "T0601");
}

TEST_F(ArtifactTest, Versions) {
  std::string text;
  Header h = header;
  h.format = 99;
  EXPECT_EQ(load_error(with_header(h), &text), "T0602");
  EXPECT_NE(text.find("format version 99"), text.npos);
  h = header;
  h.kernel_abi = 7;
  EXPECT_EQ(load_error(with_header(h), &text), "T0602");
  EXPECT_NE(text.find("ABI version 7"), text.npos);
}

TEST_F(ArtifactTest, MissingFeaturesAreNamed) {
  Executable e = add_program();
  e.needs = {"x86_64-unknown-linux-gnu", "future", {"warpdrive", "flux_capacitor"}};
  write_artifact(path, e, read_file(TENON_TEST_KERNELS));
  std::string text;
  EXPECT_EQ(error_code([&] { Artifact::load(path); }, &text), "T0603");
  EXPECT_NE(text.find("warpdrive, flux_capacitor"), text.npos) << text;
  EXPECT_EQ(read_artifact(path).executable.needs.cpu, "future");  // still readable for inspect
  std::string other = bytes;
  other[18] = char(0xF3);  // e_machine: RISC-V; the hash is of the code, so make it right
  Header h = header;
  h.code_hash = hash_bytes(other.data(), header.code_bytes);
  h.header_hash = hash_bytes(&h, offsetof(Header, header_hash));
  std::memcpy(other.data() + header_at, &h, sizeof h);
  EXPECT_EQ(load_error(other), "T0603");
}

TEST_F(ArtifactTest, TruncatedAnywhere) {
  for (size_t n : {size_t(64), size_t(100), size_t(1000), size_t(header_at) - 100, size_t(header_at) + 4,
                   size_t(header_at) + 20, size_t(header_at) + 127, size_t(header.tables_at) + 5,
                   size_t(header.constants_at) - 1, bytes.size() - 1})
    EXPECT_EQ(load_error(bytes.substr(0, n)), "T0604") << n;
  std::set<std::string> codes;
  for (size_t n = 1; n < bytes.size(); n += 97) codes.insert(load_error(bytes.substr(0, n)));
  for (const std::string& c : codes) EXPECT_TRUE(c == "T0601" || c == "T0604") << c;
}

TEST_F(ArtifactTest, DamageIsFound) {
  auto flip = [&](size_t at) {
    std::string changed = bytes;
    changed[at] = char(changed[at] ^ 0x10);
    return changed;
  };
  EXPECT_EQ(load_error(flip(header_at + 2)), "T0601");          // magic
  EXPECT_EQ(load_error(flip(header_at + 17)), "T0605");         // header
  EXPECT_EQ(load_error(flip(header_at + 127)), "T0605");        // its hash
  EXPECT_EQ(load_error(flip(header.code_bytes / 2)), "T0605");  // code
  EXPECT_EQ(load_error(flip(header.tables_at + 20)), "T0605");  // tables
  EXPECT_EQ(load_error(bytes + "more"), "T0605");               // something behind
  EXPECT_EQ(load_error(flip(header.constants_at + 3)), "");     // weights: only on request
  std::string text;
  EXPECT_EQ(load_error(flip(header.constants_at + 3), &text, true), "T0606");
  EXPECT_NE(text.find("constant 0"), text.npos);
}

TEST_F(ArtifactTest, LyingHeaders) {
  const uint64_t evil[] = {
      0, 1, header.file_bytes, header.file_bytes + 1, uint64_t(1) << 63, ~uint64_t(0), ~uint64_t(0) - 4095};
  auto expect_refused = [&](uint64_t Header::* field, uint64_t value) {
    Header h = header;
    if (h.*field == value) return;
    h.*field = value;
    EXPECT_NE(load_error(with_header(h)), "") << value;
  };
  for (uint64_t v : evil) {
    for (auto field : {&Header::file_bytes, &Header::code_bytes, &Header::tables_at, &Header::tables_bytes,
                       &Header::constants_at})
      expect_refused(field, v);
    if (v > header.constants_bytes) expect_refused(&Header::constants_bytes, v);
  }
}

TEST_F(ArtifactTest, LyingTablesDoNotGrowMemory) {
  const std::string tables = bytes.substr(header.tables_at, header.tables_bytes);
  ASSERT_EQ(load_error(with_tables(tables)), "");
  rusage before;
  getrusage(RUSAGE_SELF, &before);
  // Every 32-bit field in turn says "a great many", every byte in turn is wrong, hashes made right.
  std::mt19937 random(5);
  for (size_t i = 0; i < tables.size(); i += 3) {
    std::string changed = tables;
    if (i + 4 <= tables.size()) {
      std::memset(changed.data() + i, 0xff, 4);
      load_error(with_tables(changed));
      std::memset(changed.data() + i, 0x7f, 4);
      load_error(with_tables(changed));
    }
    changed = tables;
    changed[i] = char(random());
    load_error(with_tables(changed));  // must not crash; may be harmless
    EXPECT_NE(load_error(with_tables(tables.substr(0, i))), "");
  }
  rusage after;
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 64 * 1024);
}

TEST_F(ArtifactTest, RandomDamageNeverCrashes) {
  std::mt19937 random(11);
  for (int i = 0; i < 500; ++i) {
    std::string changed = bytes;
    for (int k = 0; k < 4; ++k) changed[random() % changed.size()] = char(random());
    load_error(changed, nullptr, true);
  }
}

TEST_F(ArtifactTest, WritingIsAllOrNothing) {
  EXPECT_EQ(error_code([&] {
              write_artifact(folder + "/none/model", add_program(), read_file(TENON_TEST_KERNELS));
            }),
            "T3003");
  // A full disk, by way of the file size limit.
  rlimit old;
  getrlimit(RLIMIT_FSIZE, &old);
  auto* handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small{8192, old.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string code =
      error_code([&] { write_artifact(path, add_program(), read_file(TENON_TEST_KERNELS)); });
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(code, "T3003");
  EXPECT_EQ(read_file(path), bytes);  // the old file is untouched
  size_t files = 0;
  for ([[maybe_unused]] auto& f : std::filesystem::directory_iterator(folder)) ++files;
  EXPECT_EQ(files, 1u);  // and nothing is left beside it
}

TEST_F(ArtifactTest, LoadsFourteenMegabytesQuickly) {
  Executable e = add_program();
  std::vector<float> weights(3'500'000);
  std::iota(weights.begin(), weights.end(), 0.0f);
  e.constants.push_back(floats(weights));
  write_artifact(path, e, read_file(TENON_TEST_KERNELS));
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    Artifact artifact = Artifact::load(path);
    best = std::min(
        best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  EXPECT_LT(best, 30) << "milliseconds";
}

}  // namespace
}  // namespace tenon
