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

TEST(Library, MultipliesByEachLibraryOfTheSystem) {
  int found = 0;
  for (const std::string library : {"cblas", "dnnl"}) {
    const NDArray a = floats({1, 2, 3, 4, 5, 6, 7, 8}, {2, 2, 2}), b = floats({1, 2, 3, 4, 5, 6}, {2, 3}),
                  turned = floats({1, 4, 2, 5, 3, 6}, {3, 2});
    const std::vector<float> product{9, 12, 15, 19, 26, 33, 29, 40, 51, 39, 54, 69};
    try {
      const NDArray c = NDArray::zeros({2, 2, 3}, DataType::float_(32)),
                    d = NDArray::zeros({2, 2, 3}, c.dtype());
      find_function("tenon." + library + ".matmul")(a, b, c);
      EXPECT_EQ(values(c), product) << library;
      find_function("tenon." + library + ".dense")(a, turned, d);
      EXPECT_EQ(values(d), product) << library;
      // A matrix of b for each of a.
      const NDArray e = NDArray::zeros({2, 2, 1}, c.dtype());
      find_function("tenon." + library + ".matmul")(a, floats({1, 2, 3, 4}, {2, 2, 1}), e);
      EXPECT_EQ(values(e), (std::vector<float>{5, 11, 39, 53})) << library;
      find_function("tenon." + library + ".dense")(a, floats({1, 2, 3, 4}, {2, 1, 2}), e);
      EXPECT_EQ(values(e), (std::vector<float>{5, 11, 39, 53})) << library;
      ++found;
    } catch (const Error& e) {
      EXPECT_EQ(e.code, "T3010") << e.what();
    }
    // Nothing is multiplied, and nothing is read, where a size is 0.
    find_function("tenon." + library + ".matmul")(NDArray::zeros({0, 2}, a.dtype()), b,
                                                  NDArray::zeros({0, 3}, a.dtype()));
    EXPECT_THROW(find_function("tenon." + library + ".matmul")(a, turned, b), Error);
    EXPECT_THROW(find_function("tenon." + library + ".matmul")(a, NDArray::zeros({3, 2, 1}, a.dtype()),
                                                               NDArray::zeros({2, 2, 1}, a.dtype())),
                 Error);
  }
  if (!found) GTEST_SKIP() << "neither a BLAS library nor oneDNN is installed";
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
