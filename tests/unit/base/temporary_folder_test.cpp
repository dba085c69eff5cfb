// SPDX-License-Identifier: Apache-2.0
#include "base/temporary_folder.h"

#include <gtest/gtest.h>

#include <fstream>
#include <memory>

namespace tenon {
namespace {
namespace fs = std::filesystem;

TEST(TemporaryFolder, GoesWithEverythingInIt) {
  fs::path first;
  {
    const TemporaryFolder a("a test"), b("a test");
    first = a.path;
    EXPECT_NE(a.path, b.path);
    fs::create_directory(a.path / "inner");
    std::ofstream(a.path / "inner" / "file") << "text";
    EXPECT_TRUE(fs::exists(a.path / "inner" / "file"));
  }
  EXPECT_FALSE(fs::exists(first));
}

TEST(TemporaryFolder, SaysWhereItCannotBe) {
  const char* before = std::getenv("TMPDIR");
  const std::string kept = before ? before : "";
  setenv("TMPDIR", "/no/such/folder", 1);
  std::string code, message;
  try {
    const TemporaryFolder a("a test");
  } catch (const Error& e) {
    code = e.code;
    message = e.message;
  }
  before ? setenv("TMPDIR", kept.c_str(), 1) : unsetenv("TMPDIR");
  EXPECT_EQ(code, "T3003");
  EXPECT_EQ(message, "no folder for a test in /no/such/folder");
}

}  // namespace
}  // namespace tenon
