// SPDX-License-Identifier: Apache-2.0
// Patterns written from their texts.
#include "random_patterns.h"

#include <map>

#include "ir/text.h"
#include "pattern_texts.h"
#include "pipeline/pass_lists.h"

namespace tenon::testing_trust {
namespace {

class PatternWriter {
 public:
  explicit PatternWriter(const std::function<uint64_t(uint64_t)>& below, int instance)
      : below_(below), instance_(instance) {}

  std::string write(const PatternText& p) {
    std::string out = "@I.ir_module\nclass Module:";
    out += *p.types ? p.types : "\n";
    std::string body = types(values(alternatives(p.text)));
    // Functions at the first level are functions of the module.
    size_t at = 0;
    while (at < body.size()) {
      const size_t end = body.find('\n', at);
      const std::string line = body.substr(at, end - at);
      const size_t indent = line.find_first_not_of(' ');
      if (indent != std::string::npos && line.compare(indent, 4, "def ") == 0) {
        const size_t last = out.find_last_not_of("\n ");
        if (out.compare(last - 9, 10, "R.function") != 0) out += std::string(indent, ' ') + "@R.function\n";
      }
      out += line + "\n";
      at = end + 1;
    }
    return out;
  }

 private:
  std::string alternatives(std::string s) {
    for (size_t at; (at = s.find("{{")) != std::string::npos;) {
      const size_t end = s.find("}}", at);
      std::vector<std::string> parts{""};
      for (size_t i = at + 2; i < end; ++i) {
        if (s[i] == '|')
          parts.push_back("");
        else
          parts.back() += s[i];
      }
      s.replace(at, end + 2 - at, parts[below_(parts.size())]);
    }
    return s;
  }
  int64_t size(char c) {
    static constexpr int64_t sizes[] = {1, 2, 3, 4, 5, 8};
    auto [it, fresh] = sizes_.emplace(c, 0);
    if (fresh) it->second = sizes[below_(std::size(sizes))];
    return it->second;
  }
  std::string values(const std::string& s) {
    static const char* const unary[] = {"tanh", "nn.relu",  "sin",     "sigmoid", "abs",
                                        "cos",  "negative", "nn.silu", "erf",     "atan"};
    static const char* const binary[] = {"add", "subtract", "multiply", "maximum", "minimum"};
    std::string out;
    for (size_t i = 0; i < s.size(); ++i) {
      if (s[i] != '$') {
        out += s[i];
        continue;
      }
      const char c = s[++i];
      if (c == 'U') {
        out += unary[below_(std::size(unary))];
      } else if (c == 'B') {
        out += binary[below_(std::size(binary))];
      } else if (c == 'I') {
        out += std::to_string(instance_);
      } else if (c == '{') {  // ${a*2}
        const char op = s[i + 2], other = s[i + 3];
        const int64_t a = size(s[i + 1]), b = other >= '0' && other <= '9' ? other - '0' : size(other);
        out += std::to_string(op == '*' ? a * b : op == '+' ? a + b : a - b);
        i += 4;
      } else {
        out += std::to_string(size(c));
      }
    }
    return out;
  }
  static std::string types(const std::string& s) {
    std::string out;
    for (size_t i = 0; i < s.size(); ++i) {
      const bool type = s[i] == 'F' && i + 1 < s.size() && s[i + 1] == '(' &&
                        (s[i - 1] == ' ' || s[i - 1] == '(' || s[i - 1] == '[');
      if (!type) {
        out += s[i];
        continue;
      }
      const size_t end = s.find(')', i);
      const std::string dims = s.substr(i + 2, end - i - 2);
      out += "R.Tensor((" + dims + (dims.find(',') == std::string::npos ? "," : "") + "), \"float32\")";
      i = end;
    }
    return out;
  }

  const std::function<uint64_t(uint64_t)>& below_;
  int instance_;
  std::map<char, int64_t> sizes_;
};

}  // namespace

RandomPattern random_pattern(const std::function<uint64_t(uint64_t)>& below, int instance) {
  return random_pattern(below, instance, below(texts_for_passes().size() + texts_of_language().size()));
}
RandomPattern random_pattern(const std::function<uint64_t(uint64_t)>& below, int instance, size_t index) {
  const auto first = texts_for_passes(), rest = texts_of_language();
  if (index >= first.size() + rest.size()) return {};
  const PatternText& p = index < first.size() ? first[index] : rest[index - first.size()];
  PassContext context;
  ParseOptions options;
  options.name = p.name;
  const IRModule parsed = parse_module(PatternWriter(below, instance).write(p), options);
  return {p.name, run_pass("infer_types", parsed, context)};
}

}  // namespace tenon::testing_trust
