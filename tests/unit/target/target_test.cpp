// SPDX-License-Identifier: Apache-2.0
// Target records: what is detected, written, read and refused.
#include "target/target.h"
#include "target/narrow_float.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/diagnostic.h"
#include "target/target_kind.h"
#include "target/variants.h"

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
                           "{\"fma_ports\": 0}",
                           "{\"bf16_dots\": 0}",
                           "{\"memory_bandwidth\": 0}",
                           "{\"l3_bandwidth\": 0}",
                           "{\"l2_bandwidth\": \"fast\"}",
                           "{\"fma\": true}",
                           "{\"fma\": 1}",
                           "{\"features\": [\"avx1024\"]}",
                           "{\"features\": [1]}",
                           "{\"features\": \"avx2\"}",
                           "{\"kind\": \"toaster\"}",
                           "{\"libs\": [\"cblast\"]}",
                           "{\"triple\": \"mips64-linux\"}",
                           "{\"cpu\": \"x; rm\"}",
                           "{\"l3_bytes\": 9223372036854775807}"})
    EXPECT_NE(refusal(json), "") << json;
  const std::string both = refusal("{\"cores\": 0, \"line_bytes\": 48}");
  EXPECT_NE(both.find("cores"), std::string::npos);
  EXPECT_NE(both.find("line_bytes"), std::string::npos) << "all mistakes at once";
}

TEST(Target, DotProductsOfBfloat16PayByTheirNumberInACycle) {
  EXPECT_FALSE(bf16_dots_pay(parse_target("llvm -mcpu=sapphirerapids")));
  EXPECT_FALSE(bf16_dots_pay(parse_target("llvm -mcpu=icelake-server"))) << "it has none";
  Target t = parse_target("llvm -mcpu=znver4");
  EXPECT_TRUE(bf16_dots_pay(t));
  t.edit()->bf16_dots = 1;
  EXPECT_FALSE(bf16_dots_pay(t)) << "two products in each, and two multiply-adds in a cycle";
  t.edit()->fma_ports = 1;
  EXPECT_TRUE(bf16_dots_pay(t));
}

/// What is said of a target's text, and what helps.
std::string refused_text(const std::string& text) {
  try {
    parse_target(text);
  } catch (const DiagnosticError& e) {
    EXPECT_EQ(e.code, "T0901");
    EXPECT_EQ(e.kind, ErrorKind::usage);
    return e.what();
  }
  return {};
}

TEST(Target, MisspeltWordsAreRefusedWithTheNearestOne) {
  for (const auto& [text, wrong, meant] :
       {std::tuple{"lvm", "`lvm`", "did you mean `llvm`?"},
        {"toaster", "`toaster`", "targets: c, llvm"},
        {"llvm -mcpuu=native", "`-mcpuu=native`", "did you mean `-mcpu=`?"},
        {"llvm -mcpu", "`-mcpu`", "did you mean `-mcpu=`?"},
        {"llvm mcpu=native", "`mcpu=native`", "did you mean `-mcpu=`?"},
        {"c -wide=yes", "`-wide=yes`", "its options are -mtriple=, -mcpu=, -mattr=, -libs="},
        {"llvm -mcpu=znver9", "`znver9`", "did you mean `znver2`?"},
        {"llvm -mcpu=pentium", "`pentium`", "known: native, x86-64"},
        {"llvm -libs=cblast", "`cblast`", "did you mean `cblas`?"},
        {"llvm -libs=cblas,mkl", "`mkl`", "libraries: cblas"},
        {"llvm -libs=", "`-libs=`", "leave it out"},
        {"llvm -mcpu=haswell -mcpu=znver4", "`-mcpu=` is given twice", "give one list"},
        {"llvm -mattr=+avx2 -mattr=-avx2", "`-mattr=` is given twice", "give one list"}}) {
    const std::string said = refused_text(text);
    EXPECT_NE(said.find(wrong), std::string::npos) << text << ": " << said;
    EXPECT_NE(said.find(meant), std::string::npos) << text << ": " << said;
  }
}

TEST(Target, FeaturesComeAndGoWithWhatTheyAreBuiltUpon) {
  const Target narrow = parse_target("llvm -mcpu=x86-64-v4 -mattr=-avx512f");
  for (const char* f : {"avx512f", "avx512bw", "avx512vl"}) EXPECT_FALSE(narrow->has(f)) << f;
  EXPECT_TRUE(narrow->has("avx2"));
  EXPECT_EQ(narrow->vector_bits, 256);
  EXPECT_EQ(narrow->vector_registers, 16);
  const Target plain = parse_target("llvm -mcpu=x86-64-v3 -mattr=-avx");
  EXPECT_FALSE(plain->has("fma") || plain->has("avx2"));
  EXPECT_EQ(plain->vector_bits, 128);
  const Target wide = parse_target("llvm -mcpu=x86-64-v2 -mattr=+avx512vl");
  for (const char* f : {"avx", "avx2", "avx512f", "avx512vl"}) EXPECT_TRUE(wide->has(f)) << f;
  EXPECT_EQ(wide->vector_bits, 512);
}

TEST(Target, TextsNameSeveralProcessors) {
  EXPECT_EQ(parse_targets("llvm -mcpu=x86-64-v3").size(), 1u);
  EXPECT_EQ(parse_targets("").size(), 1u);
  EXPECT_EQ(parse_targets(to_json(host_target())).size(), 1u);
  const std::vector<Target> all = parse_targets("llvm -mcpu=x86-64,x86-64-v3,x86-64-v2 -libs=cblas");
  ASSERT_EQ(all.size(), 3u);
  for (const Target& t : all) EXPECT_TRUE(t->has_library("cblas"));
  EXPECT_EQ(all[1]->cpu, "x86-64-v3");
  EXPECT_TRUE(all[1]->has("avx2") && !all[2]->has("avx2"));
  const Target host = host_target();
  EXPECT_EQ(best_for_host(all)->cpu, host->has("avx2")     ? "x86-64-v3"
                                     : host->has("popcnt") ? "x86-64-v2"
                                                           : "x86-64");
  // Of none that fits, and of another kind of processor: the first.
  EXPECT_EQ(best_for_host(parse_targets("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76,cortex-a72"))->cpu,
            "cortex-a76");
  for (const char* wrong :
       {"llvm -mcpu=x86-64,", "llvm -mcpu=,x86-64", "llvm -mcpu=x86-64,x86-64", "llvm -mcpu=x86-64,haswel",
        // Of two with the same features no machine takes the second.
        "llvm -mcpu=haswell,x86-64,znver3", "llvm -mcpu=znver4,znver5 -mattr=-avx_vnni"}) {
    try {
      parse_targets(wrong);
      ADD_FAILURE() << wrong;
    } catch (const DiagnosticError& e) {
      EXPECT_EQ(e.code, "T0901");
    }
  }
  EXPECT_THROW(parse_target("llvm -mcpu=x86-64,x86-64-v2"), DiagnosticError);
}

TEST(Target, AKindHasOneOwner) {
  for (const TargetKind* k : target_kinds()) {
    EXPECT_EQ(find_target_kind(k->name), k);
    EXPECT_FALSE(k->doc.empty());
    try {
      register_target_kind({.name = k->name, .doc = "another"});
      FAIL() << k->name;
    } catch (const DiagnosticError& e) {
      EXPECT_EQ(e.code, "T0940");
      EXPECT_EQ(e.kind, ErrorKind::usage);
    }
    EXPECT_NE(find_target_kind(k->name)->doc, "another");
  }
  EXPECT_EQ(find_target_kind("toaster"), nullptr);
}

}  // namespace
}  // namespace tenon
