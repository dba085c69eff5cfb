// SPDX-License-Identifier: Apache-2.0
// Options of passes: every type read from text and printed back, what is refused and what the refusal offers.
#include <gtest/gtest.h>

#include "ir/pass.h"
#include "ir/text.h"

namespace tenon {
namespace {

const Option<bool> kFlag("test_options.flag", true, "a flag");
const Option<int64_t> kCount("test_options.count", 3, "a number");
const Option<std::string> kWord("test_options.word", "plain", "a text");
const Option<Array<int64_t>> kSizes("test_options.sizes", {}, "numbers");
const Option<Array<std::string>> kNames("test_options.names", {}, "texts");
const Option<Map<std::string, int64_t>> kDims("test_options.dims", {}, "numbers by name");
const Option<Map<std::string, std::string>> kPrograms("test_options.programs", {}, "texts by name");
const Option<Map<std::string, NDArray>> kValues("test_options.values", {}, "tensors by name");
const Option<Map<std::string, graph::Type>> kTypes("test_options.types", {}, "types by name");
const Option<int64_t> kLevel("test_options.level", 1, "a number", {.least = 1});
const Option<Map<std::string, int64_t>> kLimits("test_options.limits", {}, "numbers by name", {.least = 0});
const Option<std::string> kOrder("test_options.order", "ascending", "a word",
                                 {.one_of = {"ascending", "descending"}});

const Pass& test_options_pass = register_pass({
    .name = "test_options",
    .run = [](IRModule m, PassContext&) { return m; },
    .summary = "has an option of every type",
    .options = {kFlag, kCount, kWord, kSizes, kNames, kDims, kPrograms, kValues, kTypes, kLevel, kLimits,
                kOrder},
});

std::string code(const std::function<void()>& f, std::string* text = nullptr) {
  try {
    f();
  } catch (const DiagnosticError& e) {
    if (text) *text = e.what();
    return e.diagnostics.at(0).code;
  }
  return {};
}

TEST(PassOption, DefaultsStandUntilSet) {
  PassOptions o;
  EXPECT_TRUE(o.get(kFlag));
  EXPECT_EQ(o.get(kCount), 3);
  EXPECT_EQ(o.get(kWord), "plain");
  EXPECT_TRUE(o.get(kSizes).empty());
  EXPECT_TRUE(o.get(kValues).empty());
  o.set("test_options.count", 7);
  o.set("test_options.flag", false);
  EXPECT_EQ(o.get(kCount), 7);
  EXPECT_FALSE(o.get(kFlag));
}

TEST(PassOption, TextOfEveryTypeIsReadAndPrintedBack) {
  for (const char* text :
       {"test_options.flag=false", "test_options.count=-12", "test_options.word=a=b, c",
        "test_options.sizes=1,8", "test_options.sizes=", "test_options.names=exp,tanh",
        "test_options.dims=n=2,m=3", "test_options.programs=add=mine",
        "test_options.values=w=float32[[1,2.5],[3,4]],b=int64[9007199254740993]",
        "test_options.values=s=float16[]", "test_options.types=x=R.Tensor((2, 3), \"float32\")"}) {
    PassOptions o;
    o.set_text(text);
    ASSERT_EQ(o.given().size(), 1u);
    for (const auto& [name, value] : o.given()) EXPECT_EQ(name + "=" + option_text(name, value), text);
  }
  PassOptions o;
  o.set_text("test_options.values=w=[[1, 2, 3], [4, 5, 6]]");
  const NDArray w = o.get(kValues).at("w");
  EXPECT_EQ(w.dtype(), f32);
  EXPECT_EQ(w.shape(), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(w.element(5), 6);
  o.set_text("test_options.types=x=R.Tensor((n, 4), \"float32\"),y=R.Shape([2])");
  EXPECT_EQ(print(o.get(kTypes).at("y")), "R.Shape([2])");
  EXPECT_EQ(graph::as_tensor(o.get(kTypes).at("x"))->ndim, 2);
}

TEST(PassOption, RefusalsNameTheNearest) {
  PassOptions o;
  std::string text;
  EXPECT_EQ(code([&] { o.set_text("test_optoins.count=1"); }, &text), "T0919");
  EXPECT_NE(text.find("did you mean `test_options`?"), text.npos) << text;
  EXPECT_EQ(code([&] { o.set("test_options.cuont", 1); }, &text), "T0943");
  EXPECT_NE(text.find("did you mean `test_options.count`?"), text.npos) << text;
  EXPECT_EQ(code([&] { o.set_text("count=1"); }), "T0919");
  for (const char* wrong :
       {"test_options.count", "test_options.count=", "test_options.count=3x", "test_options.flag=maybe",
        "test_options.sizes=1,,2", "test_options.dims=n", "test_options.dims==2", "test_options.dims=n=2.5",
        "test_options.values=w=[[1,2],[3]]", "test_options.values=w=[[1,2],3]", "test_options.values=w=[1",
        "test_options.values=w=int32[1.5]", "test_options.values=w=nothing[1]", "test_options.values=w="})
    EXPECT_EQ(code([&] { o.set_text(wrong); }), "T0944") << wrong;
  EXPECT_NE(code([&] { o.set_text("test_options.types=x=R.Tensor("); }), "");
  EXPECT_EQ(code([&] { o.set("test_options.count", "3"); }), "T0944");
  EXPECT_EQ(code([&] { o.set("test_options.flag", 1); }), "T0944");
  EXPECT_EQ(code([&] { o.set("test_options.dims", Any(AttrMap{{"n", Any("two")}})); }), "T0944");
  EXPECT_EQ(code([&] { o.set("test_options.names", Any(Array<int64_t>{1})); }), "T0944");
  // Values of the type that the option does not take.
  for (const char* wrong : {"test_options.level=0", "test_options.limits=n=2,m=-1", "test_options.order=up"})
    EXPECT_EQ(code([&] { o.set_text(wrong); }, &text), "T0944") << wrong;
  EXPECT_NE(text.find("text, ascending or descending"), text.npos) << text;
  EXPECT_EQ(code([&] { o.set("test_options.level", 0); }), "T0944");
  EXPECT_TRUE(o.given().empty());
}

TEST(PassOption, AllMistakesAtOnce) {
  PassOptions o;
  DiagnosticList problems;
  for (const char* text : {"test_options.cuont=1", "test_options.count=2", "test_options.flag=2", "count=1",
                           "test_options.types=x=R.Tensor(", "test_options.word=w"})
    o.set_text(text, problems);
  std::vector<std::string> codes;
  for (const Diagnostic& d : problems.all()) codes.push_back(d.code);
  EXPECT_EQ(codes, (std::vector<std::string>{"T0943", "T0944", "T0919", "T0205", "T0206"}));
  EXPECT_EQ(o.given().size(), 2u);  // what was right is set
}

TEST(PassOption, AreCalledLikeTheirPass) {
  EXPECT_THROW(register_pass({.name = "test_other", .run = nullptr, .options = {kCount}}), InternalError);
}

std::vector<std::string> ran;
const Pass& needed_pass = register_pass({.name = "test_needed", .run = [](IRModule m, PassContext&) {
                                           ran.push_back("needed");
                                           return m;
                                         }});
const Pass& needing_pass = register_pass({.name = "test_needing",
                                          .run =
                                              [](IRModule m, PassContext&) {
                                                ran.push_back("needing");
                                                return m;
                                              },
                                          .level = 0,
                                          .needs = {"test_needed"}});

TEST(PassRunner, WhatAPassNeedsOfItsListRuns) {
  PassContext context;
  auto run = [&](const std::vector<Pass>& list) {
    ran.clear();
    run_passes(IRModule::create(), list, context);
    return ran;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(run({needed_pass, needing_pass, needed_pass, needing_pass}),
            (Names{"needed", "needing", "needed", "needing"}));
  EXPECT_EQ(run({needed_pass}), Names{});
  EXPECT_EQ(run({needing_pass, needed_pass}), Names{"needing"});
  context.disabled.insert("test_needed");
  EXPECT_EQ(run({needing_pass}), Names{"needing"});
  std::string text;
  EXPECT_EQ(code([&] { run({needed_pass, needing_pass}); }, &text), "T1004");
  EXPECT_NE(text.find("`test_needing` needs `test_needed`"), text.npos) << text;
}

}  // namespace
}  // namespace tenon
