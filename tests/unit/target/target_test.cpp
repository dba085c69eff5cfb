// SPDX-License-Identifier: Apache-2.0
// Target records: what is detected, written, read and refused.
#include "target/target.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/diagnostic.h"

namespace tenon {
namespace {

std::string refusal(const std::string& json) {
  try {
    target_from_json(json);
  } catch (const DiagnosticError& e) {
    EXPECT_EQ(e.code, "T0901");
    EXPECT_EQ(e.kind, ErrorKind::usage);
    return e.what();
  }
  return {};
}

TEST(Target, TheHostIsOneThatCanBe) {
  const Target host = host_target();
  EXPECT_EQ(refusal(to_json(host)), "");
  EXPECT_GE(host->cores, 1);
  EXPECT_EQ(host->has("avx512f") && host->has("avx512vl"), host->vector_bits == 512);
}

TEST(Target, RecordsRoundTrip) {
  for (const char* text :
       {"llvm", "c", "llvm -mcpu=x86-64", "llvm -mcpu=x86-64-v3", "llvm -mcpu=sapphirerapids"}) {
    const Target t = parse_target(text);
    EXPECT_EQ(to_json(target_from_json(to_json(t))), to_json(t)) << text;
  }
}

TEST(Target, FilesAreRead) {
  const auto path =
      std::filesystem::temp_directory_path() / ("tenon-target-" + std::to_string(getpid()) + ".json");
  Target t = parse_target("llvm -mcpu=x86-64-v3");
  t.edit()->l2_bytes = 3 << 20;
  std::ofstream(path) << to_json(t);
  EXPECT_EQ(to_json(parse_target(path.string())), to_json(t));
  EXPECT_EQ(to_json(parse_target("@" + path.string())), to_json(t));
  std::ofstream(path) << "{\"vector_bits\": 1}";
  try {
    parse_target(path.string());
    FAIL();
  } catch (const DiagnosticError& e) {
    EXPECT_NE(std::string(e.what()).find(path.string()), std::string::npos) << e.what();
  }
  std::filesystem::remove(path);
  try {
    parse_target(path.string());
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code, "T3001");
    EXPECT_EQ(e.kind, ErrorKind::io);
  }
}

TEST(Target, RecordsThatCannotBeAreRefused) {
  EXPECT_EQ(refusal("{}"), "");
  for (const char* json : {"",
                           "[]",
                           "7",
                           "{",
                           "{\"vector_bits\": \"wide\"}",
                           "{\"speed\": 9}",
                           "{\"vector_bits\": -512}",
                           "{\"vector_bits\": 0}",
                           "{\"vector_bits\": 1000000}",
                           "{\"vector_bits\": 512}",
                           "{\"vector_bits\": 1e99}",
                           "{\"vector_registers\": 5}",
                           "{\"vector_registers\": 32}",
                           "{\"cores\": 0}",
                           "{\"cores\": 99999999}",
                           "{\"l1d_bytes\": 0}",
                           "{\"l2_bytes\": 1}",
                           "{\"line_bytes\": 48}",
                           "{\"fma\": true}",
                           "{\"fma\": 1}",
                           "{\"features\": [\"avx1024\"]}",
                           "{\"features\": [1]}",
                           "{\"features\": \"avx2\"}",
                           "{\"kind\": \"toaster\"}",
                           "{\"triple\": \"riscv64-linux\"}",
                           "{\"cpu\": \"x; rm\"}",
                           "{\"l3_bytes\": 9223372036854775807}"})
    EXPECT_NE(refusal(json), "") << json;
  const std::string both = refusal("{\"cores\": 0, \"line_bytes\": 48}");
  EXPECT_NE(both.find("cores"), std::string::npos);
  EXPECT_NE(both.find("line_bytes"), std::string::npos) << "all mistakes at once";
}

}  // namespace
}  // namespace tenon
