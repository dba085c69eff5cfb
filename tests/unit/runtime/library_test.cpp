// SPDX-License-Identifier: Apache-2.0
// Libraries beside the runtime: loaded when a model or program names what they have, and not before.
#include "runtime/library.h"

#include <gtest/gtest.h>

#include "program.h"

namespace tenon {
namespace {
using namespace test;

bool holds(const std::string& library) {
  std::ifstream maps("/proc/self/maps");
  std::stringstream text;
  text << maps.rdbuf();
  return text.str().find(library) != std::string::npos;
}

Artifact made(const Executable& e) { return Artifact::from_executable(e, resolve); }

TEST(Library, IsLoadedByTheFirstModelThatNeedsIt) {
  const NDArray a = floats(std::vector<float>(8, 1), {2, 4});
  Session plain(made(add_program()));
  EXPECT_EQ(values(plain.invoke({a, a})[0]), std::vector<float>(8, 2.5));
  EXPECT_FALSE(holds("libtenon_sequence"));
  EXPECT_FALSE(holds("libtenon_blas"));
  Session lists(made(list_program()));
  EXPECT_EQ(values(lists.invoke({floats({3, 4})})[0]), (std::vector<float>{3, 4, 3, 4}));
  EXPECT_TRUE(holds("libtenon_sequence"));
  EXPECT_FALSE(holds("libtenon_blas"));
}

TEST(Library, FunctionsAreFoundByNameOrNotAtAll) {
  EXPECT_FALSE(find_function("tenon.sequence.no_such_function"));
  EXPECT_FALSE(find_function("no.such.function"));
  EXPECT_TRUE(find_function("tenon.cblas.dense"));
  EXPECT_TRUE(holds("libtenon_blas"));
}

TEST(Library, AFunctionOfTheProgramStays) {
  registry::add("tenon.cblas.matmul", Function([](Arguments) { return Any(7); }), true);
  EXPECT_EQ(find_function("tenon.cblas.matmul")().as<int>(), 7);
  EXPECT_TRUE(find_function("tenon.cblas.dense"));  // loads the library, which has both
  EXPECT_EQ(find_function("tenon.cblas.matmul")().as<int>(), 7);
  registry::remove("tenon.cblas.matmul");
}

}  // namespace
}  // namespace tenon
