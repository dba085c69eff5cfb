// SPDX-License-Identifier: Apache-2.0
// Every sentence with which a primitive refuses is provoked: the sentences are read from the sources of the
// engine, and each must be said to one of the cases below, to another test of this folder, or to a random
// sequence.
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "refusal_cases.h"

namespace tenon::testing {
namespace {

/// A place of the engine that refuses: its code and what it says, `{}` for what is filled in.
struct Site {
  std::string file;
  int line = 0;
  std::string code;
  std::vector<std::string> sentences;  ///< several where the place chooses
};

std::string text_of_file(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}
/// Arguments of the call whose parenthesis opens before `at`, at top level.
std::vector<std::string> arguments_at(const std::string& text, size_t at) {
  std::vector<std::string> out(1);
  int depth = 1;
  bool quoted = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (quoted) {
      out.back() += c;
      if (c == '\\') out.back() += text[++at];
      if (c == '"') quoted = false;
      continue;
    }
    quoted = c == '"';
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}')
      if (--depth == 0) break;
    if (c == ',' && depth == 1)
      out.emplace_back();
    else
      out.back() += c;
  }
  return out;
}
/// String literals of an expression, neighbouring ones put together.
std::vector<std::string> literals_of(const std::string& e) {
  static const std::regex run("(\"(\\\\.|[^\"\\\\])*\"\\s*)+"), one("\"((\\\\.|[^\"\\\\])*)\"");
  std::vector<std::string> out;
  for (std::sregex_iterator r(e.begin(), e.end(), run), end; r != end; ++r) {
    const std::string all = r->str();
    std::string whole;
    for (std::sregex_iterator p(all.begin(), all.end(), one); p != end; ++p) whole += (*p)[1].str();
    out.push_back(whole);
  }
  return out;
}
std::vector<Site> sites() {
  std::vector<Site> out;
  const std::filesystem::path folder = std::filesystem::path(TENON_SOURCE_DIR) / "src/schedule";
  std::vector<std::filesystem::path> files;
  for (const auto& e : std::filesystem::directory_iterator(folder))
    if (e.path().extension() == ".cpp") files.push_back(e.path());
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    const std::string text = text_of_file(file);
    for (const std::string& call : {std::string("refuse("), std::string("ScheduleError(ErrorKind::model, ")})
      for (size_t at = text.find(call); at != text.npos; at = text.find(call, at + 1)) {
        const std::vector<std::string> args = arguments_at(text, at + call.size());
        const std::vector<std::string> code = literals_of(args[0]);
        if (code.size() != 1 || !code[0].starts_with("T07")) continue;  // what passes codes on
        const size_t why = call == "refuse(" ? 2 : 1;
        if (args.size() <= why) continue;
        Site s{file.filename(), 1 + int(std::count(text.begin(), text.begin() + std::ptrdiff_t(at), '\n')),
               code[0], literals_of(args[why])};
        // A choice between words inside a sentence is filled in like any value.
        if (!s.sentences.empty() && args[why].find("fmt::format") != std::string::npos) s.sentences.resize(1);
        out.push_back(s);
      }
  }
  return out;
}
/// Does the text contain the parts of the sentence around what is filled in, in order?
bool says(const std::string& text, const std::string& sentence) {
  size_t at = 0;
  for (size_t i = 0; i <= sentence.size();) {
    const size_t open = std::min(sentence.find('{', i), sentence.size());
    const std::string part = sentence.substr(i, open - i);
    const size_t found = text.find(part, at);
    if (found == text.npos) return false;
    at = found + part.size();
    i = open == sentence.size() ? open + 1 : sentence.find('}', open) + 1;
  }
  return true;
}
/// The words of a test are part of the sentence; those that stand for what is filled in may be anything.
bool means(const std::string& words, const std::string& sentence) {
  if (sentence.find(words) != sentence.npos) return words.size() >= 4;
  static const std::regex fill("\\{[^}]*\\}"), special("[.^$|()\\[\\]*+?{}\\\\]");
  // Any stretch of the sentence with values filled in: try each beginning.
  size_t known = 0;
  std::istringstream list(words);
  for (std::string w; list >> w;) {
    if (w.find_first_of("'0123456789") != w.npos || w.size() < 4) continue;
    if (sentence.find(w) == sentence.npos) return false;
    known += w.size();
  }
  return known >= 6;
}

TEST(Refusals, EverySentenceIsProvoked) {
  register_test_intrins();
  Said said;
  Refuser refuse{said};
  refuse_moves(refuse);
  refuse_loops(refuse);
  refuse_buffers(refuse);
  Counts counts;
  counts.keep_sentences = true;
  const std::vector<Program> all = all_programs();
  for (int seed = 0; seed < 700; ++seed)
    random_schedule(all[size_t(seed) % all.size()], uint64_t(seed), 8, 80, counts);
  said.insert(counts.sentences.begin(), counts.sentences.end());
  // What other tests of the engine expect: refused(s, "T0710", "words", …).
  Said expected;
  static const std::regex call(
      "refused(_te)?\\((\\w+, )?\"(T07\\d\\d)\",\\s*((\"(\\\\.|[^\"\\\\])*\"\\s*)+)");
  for (const char* folder : {"tests/unit/schedule", "tests/unit/te"})
    for (const auto& e :
         std::filesystem::directory_iterator(std::filesystem::path(TENON_SOURCE_DIR) / folder)) {
      const std::string text = text_of_file(e.path());
      for (std::sregex_iterator m(text.begin(), text.end(), call), end; m != end; ++m)
        expected.emplace((*m)[3].str(), literals_of((*m)[4].str()).at(0));
    }
  size_t count = 0, random = 0;
  for (const Site& s : sites())
    for (const std::string& sentence : s.sentences.empty() ? std::vector<std::string>{""} : s.sentences) {
      ++count;
      bool found = false;
      for (const auto& [code, message] : said) found = found || (code == s.code && says(message, sentence));
      random += found;
      for (const auto& [code, words] : expected) found = found || (code == s.code && means(words, sentence));
      EXPECT_TRUE(found) << s.file << ":" << s.line << ": no test provokes " << s.code << " \"" << sentence
                         << '"';
    }
  EXPECT_GT(count, 300u);
  RecordProperty("sentences", int(count));
  std::printf("%zu sentences, %zu of them said to the cases here or to random sequences\n", count, random);
}

}  // namespace
}  // namespace tenon::testing
