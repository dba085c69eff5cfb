// SPDX-License-Identifier: Apache-2.0
// docs/lowering.md against the registry and the tests: every row has a test that exists, every tensor pass
// has a row, and a golden test of each pass would fail if the pass did nothing.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "pipeline/compile.h"
#include "programs.h"

namespace tenon {
namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::stringstream s;
  s << in.rdbuf();
  return s.str();
}
std::filesystem::path source() { return TENON_SOURCE_DIR; }

struct Row {
  std::string theirs, ours, test;
};
std::vector<Row> rows() {
  std::vector<Row> out;
  std::istringstream in(text_of(source() / "docs/lowering.md"));
  std::string line;
  while (std::getline(in, line)) {
    if (!line.starts_with("| ") || line.starts_with("| theirs")) continue;
    std::vector<std::string> cells;
    std::stringstream parts(line.substr(1));
    for (std::string cell; std::getline(parts, cell, '|');) {
      const size_t a = cell.find_first_not_of(' '), b = cell.find_last_not_of(' ');
      cells.push_back(a == std::string::npos ? "" : cell.substr(a, b - a + 1));
    }
    EXPECT_EQ(cells.size(), 3u) << line;
    cells.resize(3);
    out.push_back({cells[0], cells[1], cells[2]});
  }
  return out;
}

TEST(LoweringTable, EveryRowHasATestThatExists) {
  std::string tests;
  for (const auto& e : std::filesystem::recursive_directory_iterator(source() / "tests/unit"))
    if (e.path().extension() == ".cpp") tests += text_of(e.path());
  const std::vector<Row> all = rows();
  EXPECT_GT(all.size(), 80u);
  for (const Row& r : all) {
    EXPECT_FALSE(r.theirs.empty() || r.ours.empty() || r.test.empty()) << r.theirs;
    if (r.test.ends_with(".tir")) {
      EXPECT_TRUE(std::filesystem::exists(source() / "tests/golden/tensor" / r.test)) << r.test;
      continue;
    }
    const size_t dot = r.test.find('.');
    ASSERT_NE(dot, std::string::npos) << r.test;
    const std::string name = "(" + r.test.substr(0, dot) + ", " + r.test.substr(dot + 1) + ")";
    EXPECT_NE(tests.find(name), std::string::npos) << r.theirs << ": no test " << r.test;
  }
}

TEST(LoweringTable, EveryPassHasARow) {
  announce_all_passes();
  std::set<std::string> named;
  for (const Row& r : rows())
    if (std::smatch m; std::regex_search(r.ours, m, std::regex("^`([a-z0-9_]+)`"))) named.insert(m[1]);
  auto check = [&](std::span<const Pass> list) {
    for (const Pass& p : list) {
      EXPECT_TRUE(named.count(std::string(p.name))) << p.name << " has no row in docs/lowering.md";
      EXPECT_TRUE(find_pass(p.name)) << p.name << " is not registered";
      EXPECT_FALSE(p.summary.empty()) << p.name;
    }
  };
  check(tensor_pipeline());
  check(device_pipeline());
  check(optional_tensor_passes());
}

// A pass replaced by the identity: does its golden test notice?
TEST(LoweringTable, GoldenTestsNoticeAPassThatDoesNothing) {
  announce_all_passes();
  size_t seen = 0;
  for (const Row& r : rows()) {
    if (!r.test.ends_with(".tir") || !r.ours.starts_with("`")) continue;
    const std::string pass = r.ours.substr(1, r.ours.find('`', 1) - 1);
    if (!find_pass(pass)) continue;
    const std::string text = text_of(source() / "tests/golden/tensor" / r.test);
    std::smatch run;
    ASSERT_TRUE(std::regex_search(text, run, std::regex("# RUN:([^\n]*)\n"))) << r.test;
    const std::string list = run[1].str() + " ";
    EXPECT_NE(list.find(" " + pass + " "), std::string::npos) << r.test << " does not run " << pass;
    ++seen;
    PassContext context;
    IRModule m = parse_module(text.substr(0, text.find("# EXPECT")));
    std::istringstream names(list);
    bool refused = false;
    for (std::string name; names >> name;) {
      if (name == pass || !find_pass(name)) continue;
      m = find_pass(name)->run(m, context);
    }
    if (text.find("# ERROR") != std::string::npos) {
      try {
        find_pass(pass)->run(m, context);
      } catch (const DiagnosticError&) {
        refused = true;
      }
      EXPECT_TRUE(refused) << r.test;
      continue;
    }
    EXPECT_NE(print(m), text.substr(text.find("# EXPECT\n") + 9)) << pass << " may do nothing in " << r.test;
  }
  EXPECT_GT(seen, 35u);
}

}  // namespace
}  // namespace tenon
