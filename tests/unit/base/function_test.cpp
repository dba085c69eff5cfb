// SPDX-License-Identifier: Apache-2.0
#include "base/function.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/diagnostic.h"

namespace tenon {
namespace {

template <class F>
Error error_of(F f) {
  try {
    f();
  } catch (const Error& e) {
    return e;
  }
  ADD_FAILURE() << "no error";
  return Error(ErrorKind::internal, "", "");
}

TEST(Function, PackedCalls) {
  Function add([](Arguments a) { return Any(a[0].as<int64_t>() + a[1].as<int64_t>()); });
  EXPECT_EQ(add(2, 3).as<int64_t>(), 5);
  EXPECT_TRUE(Function([](Arguments a) { return Any(a.empty()); })().as<bool>());
}

TEST(Function, TypedFunctionsCheckCountAndKinds) {
  TypedFunction<std::string(int64_t, std::string)> repeat(
      [](int64_t n, std::string s) {
        std::string out;
        for (int64_t i = 0; i < n; ++i) out += s;
        return out;
      },
      "repeat");
  EXPECT_EQ(repeat(3, "ab"), "ababab");
  Error e = error_of([&] { repeat.packed()(3); });
  EXPECT_EQ(e.code, "T0101");
  EXPECT_EQ(e.message, "repeat takes 2 arguments, 1 were given");
  e = error_of([&] { repeat.packed()("x", "y"); });
  EXPECT_EQ(e.code, "T0102");
  EXPECT_EQ(e.message, "repeat: argument 0 has the wrong kind: String");
  EXPECT_EQ(e.kind, ErrorKind::usage);
  int called = 0;
  TypedFunction<void(double)> nothing([&](double d) { called += int(d); }, "nothing");
  nothing(2);
  EXPECT_TRUE(nothing.packed()(3).is_none());  // an int where a float is taken
  EXPECT_EQ(called, 5);
}

TEST(Registry, OverridesAndLocations) {
  Function one([](Arguments) { return Any(1); }), two([](Arguments) { return Any(2); });
  registry::add("test.base.f", one, false, "gives a number");
  const int line = __LINE__ - 1;
  auto entry = registry::entry("test.base.f");
  ASSERT_TRUE(entry);
  EXPECT_NE(entry->file.find("function_test.cpp"), std::string::npos);
  EXPECT_EQ(entry->line, line);
  EXPECT_EQ(entry->doc, "gives a number");
  Error e = error_of([&] { registry::add("test.base.f", two); });
  EXPECT_EQ(e.code, "T0103");
  EXPECT_NE(e.location.find("function_test.cpp:"), std::string::npos);
  EXPECT_NE(e.hint.find("function_test.cpp:" + std::to_string(line)), std::string::npos) << e.hint;
  EXPECT_EQ(registry::find("test.base.f")().as<int>(), 1);
  registry::add("test.base.f", two, true);
  EXPECT_EQ(registry::find("test.base.f")().as<int>(), 2);
  registry::add("test.base.e", one);
  EXPECT_EQ(registry::names("test.base."), (std::vector<std::string>{"test.base.e", "test.base.f"}));
  registry::remove("test.base.e");
  registry::remove("test.base.f");
  EXPECT_FALSE(registry::find("test.base.f"));
  EXPECT_FALSE(registry::entry("test.base.f"));
}

TEST(Registry, EightThreads) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0}, refused{0};
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const std::string mine = "test.threads." + std::to_string(t) + "." + std::to_string(i);
        registry::add(mine, Function([i](Arguments) { return Any(i); }));
        if (registry::find(mine)().as<int>() != i) ++wrong;
        try {
          registry::add("test.threads.common." + std::to_string(i),
                        Function([](Arguments) { return Any(); }));
        } catch (const Error&) {
          ++refused;
        }
        registry::names("test.threads." + std::to_string(t));
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(refused.load(), 7 * 200);  // each name is won once
  EXPECT_EQ(registry::names("test.threads.").size(), 8u * 200 + 200);
  for (const std::string& name : registry::names("test.threads.")) registry::remove(name);
}

TEST(Error, CheckNamesTheLocation) {
  Error e = error_of([] { CHECK(1 == 2, "numbers are off by " + std::to_string(1)); });
  EXPECT_EQ(e.kind, ErrorKind::internal);
  EXPECT_NE(std::string(e.what()).find("`1 == 2` failed at "), std::string::npos) << e.what();
  EXPECT_NE(std::string(e.what()).find("numbers are off by 1"), std::string::npos);
  EXPECT_NE(std::string(e.what()).find("report"), std::string::npos);
}

TEST(Diagnostic, ShowsTheLineWithAMark) {
  auto text = std::make_shared<SourceText>("model.py", "first\n  x = foo(1)\nlast");
  Diagnostic d{"T0201", "unknown name `foo`", "", "did you mean `for`?", Span{text, 12, 15}};
  EXPECT_EQ(render(d),
            "error[T0201]: unknown name `foo`\n  --> model.py:2:7\n   |   x = foo(1)\n   |       ^^^\n  = "
            "help: did you mean `for`?");
  EXPECT_EQ((Span{text, 0, 0}).to_string(), "model.py:1:1");
  EXPECT_EQ((Span{text, 9999, 9999}).to_string(), "model.py:3:5");  // behind the end: still a place
  EXPECT_EQ(Span().to_string(), "");
}

TEST(Diagnostic, AreCollectedAndThrownOnce) {
  DiagnosticList list;
  list.throw_if_any();
  for (int i = 0; i < 3; ++i) list.add("T0201", "mistake " + std::to_string(i));
  try {
    list.throw_if_any();
    FAIL();
  } catch (const DiagnosticError& e) {
    EXPECT_EQ(e.diagnostics.size(), 3u);
    EXPECT_EQ(e.code, "T0201");
    EXPECT_EQ(e.kind, ErrorKind::model);
    EXPECT_STREQ(e.what(), "error[T0201]: mistake 0\nerror[T0201]: mistake 1\nerror[T0201]: mistake 2");
  }
  for (size_t i = 0; i < 5000; ++i) list.add("T0201", "more");
  EXPECT_EQ(list.all().size(), DiagnosticList::limit);
  EXPECT_THROW(fail("T0900", "no", "here", "hint", ErrorKind::usage), DiagnosticError);
}

}  // namespace
}  // namespace tenon
