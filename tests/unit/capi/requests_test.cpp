// SPDX-License-Identifier: Apache-2.0
// Named values to typed requests and back; what does not fit is refused by name, all of it at once.
#include "capi/requests.h"

#include <gtest/gtest.h>

#include "base/named_values.h"

namespace tenon {
namespace {

TEST(Requests, TravelAsNamedValues) {
  CompileRequest r;
  r.target = "llvm -mcpu=x86-64-v3";
  r.opt_level = 3;
  r.dims = {{"n", 4}, {"m", 0}};
  r.bind = {{"axes", NDArray::zeros({2}, i64)}};
  r.print_after = {"fuse_ops", "all"};
  r.model = "model.onnx";
  r.verify = true;
  r.verify_inputs = {NDArray::zeros({2}, f32)};
  r.note = Function([](Arguments) { return Any(int64_t(7)); });
  const auto back = from_named_values<CompileRequest>(to_named_values(r), "compile");
  EXPECT_EQ(back.target, r.target);
  EXPECT_EQ(back.opt_level, 3);
  EXPECT_EQ(back.dims.at("n"), 4);
  EXPECT_EQ(back.dims.size(), 2u);
  EXPECT_EQ(back.bind.at("axes").shape(), (std::vector<int64_t>{2}));
  EXPECT_EQ(back.print_after[1], "all");
  EXPECT_EQ(back.model, "model.onnx");
  EXPECT_TRUE(back.verify);
  EXPECT_EQ(back.verify_inputs[0].as<NDArray>().shape(), (std::vector<int64_t>{2}));
  EXPECT_EQ(back.note().as<int64_t>(), 7);
  EXPECT_FALSE(back.progress);
  EXPECT_EQ(back.emit, "artifact");
}

TEST(Requests, WhatIsLeftOutKeepsItsDefault) {
  const auto r = from_named_values<CompileRequest>({{"model", "m"}, {"output", Any()}}, "compile");
  EXPECT_EQ(r.model, "m");
  EXPECT_EQ(r.opt_level, 2);
  EXPECT_EQ(r.precision, "f32");
  EXPECT_EQ(r.output, "");
}

TEST(Requests, UnknownNamesAndWrongKindsAreRefused) {
  try {
    from_named_values<CompileRequest>({{"model", "m"},
                                       {"opt_lvel", 3},
                                       {"wobble", true},
                                       {"threads", "four"},
                                       {"dims", Any(AttrMap{{"n", "many"}})},
                                       {"print_after", "fuse_ops"}},
                                      "compile");
    FAIL();
  } catch (const DiagnosticError& e) {
    EXPECT_EQ(e.code, "T0942");
    EXPECT_EQ(e.kind, ErrorKind::usage);
    EXPECT_EQ(e.diagnostics.size(), 5u);
    const std::string text = e.what();
    for (const char* words : {"compile takes no `opt_lvel`", "did you mean `opt_level`?",
                              "compile takes no `wobble`", "it takes: target, opt_level",
                              "`threads` cannot be", "`dims` cannot be", "`print_after` cannot be"})
      EXPECT_NE(text.find(words), std::string::npos) << words << "\n" << text;
  }
}

TEST(Requests, TheCompilersFunctionsTakeThem) {
  const Function target = registry::find("compiler.target");
  ASSERT_TRUE(target);
  EXPECT_NE(target(AttrMap{{"target", "c"}}).as<AttrMap>().at("json").as<std::string>().find("\"c\""),
            std::string::npos);
  try {
    target(AttrMap{{"targte", "c"}});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code, "T0942");
    EXPECT_NE(std::string(e.what()).find("did you mean `target`?"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace tenon
