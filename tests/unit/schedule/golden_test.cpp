// SPDX-License-Identifier: Apache-2.0
// What derives from the records of the primitives: each sample runs, computes the same as before, and its
// program, trace and result are kept as text in tests/golden/schedule; docs/schedule.md and the README of the
// folder list the primitives; schedule.h declares them as the records say. TENON_UPDATE_GOLDEN=1 rewrites the
// texts.
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "steps.h"

namespace tenon::testing {
namespace {

const std::filesystem::path kSource = TENON_SOURCE_DIR;

std::string file_text(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}
std::string file_of(const Primitive& p) { return std::filesystem::path(p.where.file_name()).filename(); }
/// TVM's name for it; empty: it has none.
std::string reference_of(const Primitive& p) {
  if (p.reference) return std::string(*p.reference);
  std::string out;
  for (size_t i = 0; i < p.name.size(); ++i)
    if (p.name[i] != '_') out += i == 0 || p.name[i - 1] == '_' ? char(std::toupper(p.name[i])) : p.name[i];
  return out;
}
std::string module_text(const tir::PrimFunc& f) {
  IRModule module = IRModule::create();
  module.set("main", f);
  return print(module);
}

class ScheduleGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(ScheduleGolden, DoesWhatIsWritten) {
  const Primitive& primitive = *find_primitive(GetParam());
  const Program p = text_program("sample", std::string(primitive.sample.program), {{"m", 6}});
  const Schedule s = Schedule::replay(p.function, Trace::from_script(primitive.sample.steps));
  bool used = false;
  for (const TraceStep& t : s.trace().steps) used = used || t.primitive == &primitive;
  EXPECT_TRUE(used) << s.trace().to_script();
  if (primitive.kind == StepKind::change) {
    EXPECT_FALSE(structural_equal(s.function(), Schedule(p.function).function()))
        << "the program is as it was";
  }
  EXPECT_EQ(problems_of(s.function()), "");
  EXPECT_TRUE(same(run(p.function, p.sizes), run(reversed(s.function()), p.sizes)));
  for (const Trace& t : {Trace::from_json(s.trace().to_json()), Trace::from_script(s.trace().to_script())}) {
    const Schedule again = Schedule::replay(p.function, t);
    EXPECT_TRUE(structural_equal(again.function(), s.function()));
    EXPECT_EQ(again.trace().to_json(), s.trace().to_json());
    EXPECT_EQ(t.to_json(), s.trace().to_json());
    EXPECT_EQ(t.to_script(), s.trace().to_script());
  }
  const std::string text = "# BEFORE\n" + module_text(p.function) + "# STEPS\n" + s.trace().to_script() +
                           "# AFTER\n" + module_text(s.function());
  const auto path = kSource / "tests/golden/schedule" / (GetParam() + ".txt");
  if (std::getenv("TENON_UPDATE_GOLDEN")) std::ofstream(path) << text;
  EXPECT_EQ(file_text(path), text);
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const Primitive* p : primitives()) out.emplace_back(p->name);
  return out;
}
INSTANTIATE_TEST_SUITE_P(All, ScheduleGolden, ::testing::ValuesIn(names()),
                         [](const ::testing::TestParamInfo<std::string>& i) { return i.param; });

TEST(Records, SayWhatThereIsToSay) {
  std::set<std::string> references;
  for (const Primitive* p : primitives()) {
    EXPECT_FALSE(p->does.empty()) << p->name;
    EXPECT_FALSE(p->sample.program.empty() || p->sample.steps.empty()) << p->name;
    for (const Parameter& x : p->parameters) EXPECT_FALSE(x.name.empty() || x.doc.empty()) << p->name;
    const std::string reference = reference_of(*p);
    if (!reference.empty()) {
      EXPECT_TRUE(references.insert(reference).second) << reference;
    }
  }
  for (const auto& e : std::filesystem::directory_iterator(kSource / "tests/golden/schedule"))
    EXPECT_TRUE(find_primitive(e.path().stem().string())) << e.path() << " belongs to no primitive";
}

/// The part of a page between two marks is `text`, or becomes it.
void expect_part(const std::filesystem::path& path, const std::string& text) {
  const std::string begin = "<!-- primitives -->\n", end = "<!-- end -->\n";
  std::string page = file_text(path);
  const size_t from = page.find(begin), to = page.find(end);
  ASSERT_TRUE(from != page.npos && to != page.npos && from < to) << path;
  if (std::getenv("TENON_UPDATE_GOLDEN")) {
    page = page.substr(0, from + begin.size()) + text + page.substr(to);
    std::ofstream(path) << page;
  }
  EXPECT_EQ(page.substr(from + begin.size(), page.find(end) - from - begin.size()), text)
      << path << ": TENON_UPDATE_GOLDEN=1 rewrites it";
}

TEST(Records, ArePrintedInTheDocs) {
  static constexpr std::string_view headings[] = {"Queries", "Samplers", "Changes", "Markers"};
  std::string page, list = "| file | primitives |\n|---|---|\n", file;
  for (size_t kind = 0; kind < std::size(headings); ++kind) {
    page += "### " + std::string(headings[kind]) +
            "\n\n| primitive | what it does | TVM's name |\n|---|---|---|\n";
    for (const Primitive* p : primitives()) {
      if (size_t(p->kind) != kind) continue;
      const std::string name(p->name);
      page +=
          "| [`" + signature(*p) + "`](../tests/golden/schedule/" + name + ".txt) | " + std::string(p->does);
      for (const Parameter& x : p->parameters)
        page += "<br>`" + std::string(x.name) + "`: " + std::string(x.doc);
      if (!p->legal.empty()) page += "<br>*Accepted when* " + std::string(p->legal) + ".";
      page += " | " + reference_of(*p) + " |\n";
    }
    page += "\n";
  }
  for (const Primitive* p : primitives()) {
    if (file_of(*p) != file) {
      list += (file.empty() ? "| `" : " |\n| `") + file_of(*p) + "` | ";
      file = file_of(*p);
    } else {
      list += ", ";
    }
    list += p->name;
  }
  expect_part(kSource / "docs/schedule.md", page);
  expect_part(kSource / "src/schedule/README.md", list + " |\n");
}

/// Names and defaults of a declared method's parameters: {"offset", "0"}; no default: "".
std::vector<std::pair<std::string, std::string>> declared(const std::string& header,
                                                          const std::string& name) {
  const size_t open = header.find(" " + name + "(");
  if (open == header.npos || header.find(" " + name + "(", open + 1) != header.npos)
    return {{"none, or several", ""}};
  std::vector<std::string> parts(1);
  int depth = 0;
  for (size_t i = open + name.size() + 2; depth > 0 || header[i] != ')'; ++i) {
    const char c = header[i];
    depth += (c == '<' || c == '{' || c == '(') - (c == '>' || c == '}' || c == ')');
    if (c == ',' && depth == 0)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  std::vector<std::pair<std::string, std::string>> out;
  for (const std::string& part : parts) {
    const size_t equals = part.find(" = ");
    const std::string left = part.substr(0, equals);
    if (!left.empty())
      out.emplace_back(left.substr(left.find_last_of(" &") + 1),
                       equals == part.npos ? "" : part.substr(equals + 3));
  }
  return out;
}
TEST(Records, AreDeclaredOnce) {
  const std::string header = file_text(kSource / "src/schedule/schedule.h");
  for (const Primitive* p : primitives()) {
    std::vector<std::pair<std::string, std::string>> expected;
    for (const Parameter& x : p->parameters) {
      std::string value;
      if (x.fallback && x.fallback->is_none()) value = "{}";
      if (x.fallback && x.fallback->tag() == kBool) value = x.fallback->as<bool>() ? "true" : "false";
      if (x.fallback && x.fallback->tag() == kInt) value = std::to_string(x.fallback->as<int64_t>());
      expected.emplace_back(x.name, value);
    }
    EXPECT_EQ(declared(header, std::string(p->name)), expected) << p->name;
  }
}

}  // namespace
}  // namespace tenon::testing
