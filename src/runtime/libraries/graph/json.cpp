// SPDX-License-Identifier: Apache-2.0
#include "runtime/libraries/graph/json.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace tenon::operator_graph {

void refuse_graph(const std::string& path, const std::string& what) {
  throw Error(ErrorKind::model, "T0616", "the graph cannot be read: " + what, path,
              "graphs are written by `tenon compile --emit json`");
}

const Json* Json::find(std::string_view key) const {
  for (size_t i = 0; i < keys.size(); ++i)
    if (keys[i] == key) return &items[i];
  return nullptr;
}

namespace {

constexpr int kDeepest = 16;             // a graph is five levels deep
constexpr size_t kMostValues = 1 << 20;  // about a hundred thousand operators

class Reader {
 public:
  Reader(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  Json document() {
    Json out = value(0);
    space();
    if (at_ != text_.size()) refuse("more stands behind its end");
    return out;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    refuse_graph(path_, at_ >= text_.size() ? "it ends early, at byte " + std::to_string(text_.size())
                                            : what + " at byte " + std::to_string(at_));
  }
  void space() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
  }
  bool take(char c) {
    space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void need(char c) {
    if (!take(c)) refuse(std::string("`") + c + "` is missing");
  }

  void once(std::vector<std::string> keys) const {
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    if (twice != keys.end()) refuse_graph(path_, "`" + *twice + "` stands twice in one object");
  }

  Json value(int depth) {
    space();
    if (++values_ > kMostValues) refuse("it has too many values");
    if (depth > kDeepest) refuse("it is nested too deeply");
    if (at_ >= text_.size()) refuse("");
    Json out;
    switch (text_[at_]) {
      case '{':
        out.kind = Json::object;
        ++at_;
        if (take('}')) return out;
        do {
          space();
          out.keys.push_back(text());
          need(':');
          out.items.push_back(value(depth + 1));
        } while (take(','));
        need('}');
        once(out.keys);
        return out;
      case '[':
        out.kind = Json::list;
        ++at_;
        if (take(']')) return out;
        do out.items.push_back(value(depth + 1));
        while (take(','));
        need(']');
        return out;
      case '"':
        out.kind = Json::text;
        out.string = text();
        return out;
      default:
        return word();
    }
  }

  Json word() {
    for (const auto& [name, kind, integer] :
         {Word{"null", Json::null, 0}, Word{"true", Json::boolean, 1}, Word{"false", Json::boolean, 0}})
      if (text_.substr(at_).starts_with(name)) {
        at_ += name.size();
        return {.kind = kind, .integer = integer, .string = {}, .items = {}, .keys = {}};
      }
    Json out{.kind = Json::number, .integer = 0, .string = {}, .items = {}, .keys = {}};
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), out.integer);
    if (error != std::errc()) refuse("no value stands");
    at_ = size_t(end - text_.data());
    if (at_ < text_.size() && (text_[at_] == '.' || text_[at_] == 'e' || text_[at_] == 'E'))
      refuse("a number is not whole");
    return out;
  }

  std::string text() {
    if (at_ >= text_.size() || text_[at_] != '"') refuse("a text is missing");
    std::string out;
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (static_cast<unsigned char>(text_[at_]) < 32) refuse("a text has a control character");
      if (text_[at_] != '\\') {
        out += text_[at_];
        continue;
      }
      if (++at_ >= text_.size()) break;
      out += escaped();
    }
    if (at_ >= text_.size()) refuse("");
    ++at_;
    return out;
  }
  std::string escaped() {
    constexpr std::string_view from = "\"\\/bfnrt", to = "\"\\/\b\f\n\r\t";
    if (const size_t k = from.find(text_[at_]); k != from.npos) return std::string(1, to[k]);
    unsigned code = 0;
    const char* begin = text_.data() + at_ + 1;
    if (text_[at_] != 'u' || at_ + 5 > text_.size() ||
        std::from_chars(begin, begin + 4, code, 16).ptr != begin + 4 || (code >= 0xd800 && code < 0xe000))
      refuse("an escape that is not known stands");
    at_ += 4;
    if (code < 0x80) return std::string(1, char(code));
    std::string out;
    if (code < 0x800) {
      out += char(0xc0 | code >> 6);
    } else {
      out += char(0xe0 | code >> 12);
      out += char(0x80 | (code >> 6 & 63));
    }
    return out + char(0x80 | (code & 63));
  }

  struct Word {
    std::string_view name;
    Json::Kind kind;
    int64_t integer;
  };
  std::string_view text_;
  const std::string& path_;
  size_t at_ = 0, values_ = 0;
};

}  // namespace

Json parse_json(std::string_view text, const std::string& path) { return Reader(text, path).document(); }

}  // namespace tenon::operator_graph
