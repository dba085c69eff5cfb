// SPDX-License-Identifier: Apache-2.0
// Every tensor pass has a golden file of its name in tests/golden/tensor, which would fail if the pass did
// nothing.
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

/// Passes without a golden file: their tests compare values (`Legalize.*`).
const std::set<std::string_view> kWithout{"f16_storage_legalize"};

/// Runs the file without the pass; true when its expectation is then not met.
bool notices(const std::string& text, const Pass& pass) {
  std::smatch run;
  EXPECT_TRUE(std::regex_search(text, run, std::regex("# RUN:([^\n]*)\n")));
  const std::string list = run[1].str() + " ";
  EXPECT_NE(list.find(" " + pass.name + " "), std::string::npos) << "the file does not run it";
  PassContext context;
  IRModule m = parse_module(text.substr(0, text.find("# EXPECT")));
  std::istringstream names(list);
  for (std::string name; names >> name;)
    if (name != pass.name && find_pass(name)) m = find_pass(name)->run(m, context);
  const size_t expected = text.find("# EXPECT\n");
  if (expected != text.npos) return print(m) != text.substr(expected + 9);
  try {  // a file that expects a refusal
    pass.run(m, context);
    return false;
  } catch (const DiagnosticError&) {
    return true;
  }
}

TEST(TensorPasses, GoldenFilesNoticeAPassThatDoesNothing) {
  for (const Pass* p : all_passes())
    if (const Pass& pass = *p; pass.file.starts_with("src/pass/tensor/")) {
      SCOPED_TRACE(pass.name);
      EXPECT_FALSE(pass.summary.empty());
      const std::filesystem::path file =
          std::filesystem::path(TENON_SOURCE_DIR) / "tests/golden/tensor" / (pass.name + ".tir");
      EXPECT_EQ(std::filesystem::exists(file), !kWithout.count(pass.name)) << file;
      if (std::filesystem::exists(file)) {
        EXPECT_TRUE(notices(text_of(file), pass));
      }
    }
}

}  // namespace
}  // namespace tenon
