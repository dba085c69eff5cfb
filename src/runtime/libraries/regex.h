// SPDX-License-Identifier: Apache-2.0
// Regular expressions without back references, as RE2 writes them: whether one matches a whole text, or where
// in it, in time proportional to the text and the expression. All states that the expression may be in are
// followed at once (Thompson 1968), so that no text makes it slow.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

class Regex {
 public:
  explicit Regex(std::u32string pattern) : p_(std::move(pattern)) {
    const Part all = alternatives(0);
    if (at_ < p_.size()) bad("a `)` too many");
    start_ = all.first;
    patch(all.open, add({State::end}));
    p_.clear();
  }

  /// What is wrong with the pattern; empty: nothing.
  const std::string& problem() const { return problem_; }

  /// Of a pattern without a problem.
  bool matches(const std::u32string& text) const {
    std::vector<int> now, next;
    std::vector<size_t> seen(states_.size(), size_t(-1));
    follow(start_, text, 0, now, seen);
    for (size_t i = 0; i < text.size(); ++i) {
      next.clear();
      for (const int s : now)
        if (takes(states_[size_t(s)], text[i])) follow(states_[size_t(s)].to, text, i + 1, next, seen);
      std::swap(now, next);
      if (now.empty()) return false;
    }
    for (const int s : now)
      if (states_[size_t(s)].kind == State::end) return true;
    return false;
  }

  struct Match {
    size_t begin, end;
  };
  /// The first place from `from` on that is matched, the longest match there. Of a pattern without a problem.
  std::optional<Match> find(const std::u32string& text, size_t from) const {
    // Threads in the order of where they began: of those in one state only the first counts.
    std::vector<Thread> now, next;
    std::vector<int> reached;
    std::vector<size_t> seen(states_.size(), size_t(-1));
    std::optional<Match> best;
    const auto enter = [&](int state, size_t begin, size_t at) {
      reached.clear();
      follow(state, text, at, reached, seen);
      for (const int s : reached) {
        if (states_[size_t(s)].kind == State::end)
          best = Match{begin, at};
        else
          next.push_back({s, begin});
      }
    };
    for (size_t at = from;; ++at) {
      next.clear();
      for (const Thread& t : now) {
        if (best && t.begin > best->begin) break;
        if (takes(states_[size_t(t.state)], text[at - 1])) enter(states_[size_t(t.state)].to, t.begin, at);
      }
      if (!best) enter(start_, at, at);
      std::swap(now, next);
      if (at == text.size() || (best && now.empty())) return best;
    }
  }

 private:
  struct Thread {
    int state;
    size_t begin;
  };
  struct Range {
    char32_t low, high;
  };
  struct State {
    enum Kind { end, character, split, begin_text, end_text, boundary, no_boundary } kind;
    int to = -1, other = -1;
    std::vector<Range> ranges = {};
    bool negated = false;
  };
  /// A piece of the expression: where it begins, and the transitions that leave it (state, second one).
  struct Part {
    int first;
    std::vector<std::pair<int, bool>> open;
  };
  static constexpr size_t kMaxStates = 20000, kMaxNesting = 200;
  static constexpr long kMaxRepeat = 1000;

  /// The rest of the pattern is not read any more.
  void bad(std::string why) {
    if (problem_.empty()) problem_ = std::move(why);
    at_ = p_.size();
  }
  int add(State s) {
    if (states_.size() >= kMaxStates) bad("the expression is too large");
    if (problem_.empty() || states_.empty()) states_.push_back(std::move(s));
    return int(states_.size()) - 1;
  }
  void patch(const std::vector<std::pair<int, bool>>& open, int to) {
    for (const auto& [s, second] : open) (second ? states_[size_t(s)].other : states_[size_t(s)].to) = to;
  }
  bool more() const { return at_ < p_.size(); }
  bool accept(char32_t c) {
    if (!more() || p_[at_] != c) return false;
    ++at_;
    return true;
  }

  Part alternatives(size_t nesting) {
    if (nesting > kMaxNesting) {
      bad("groups nest too deeply");
      return nothing();
    }
    Part left = sequence(nesting);
    while (accept('|')) {
      const Part right = sequence(nesting);
      const int s = add({State::split, left.first, right.first});
      left.first = s;
      left.open.insert(left.open.end(), right.open.begin(), right.open.end());
    }
    return left;
  }
  Part sequence(size_t nesting) {
    Part all = nothing();
    while (more() && p_[at_] != '|' && p_[at_] != ')') {
      const Part next = repeated(nesting);
      patch(all.open, next.first);
      all.open = next.open;
    }
    return all;
  }
  /// A part that takes no character.
  Part nothing() {
    const int s = add({State::split});
    return {s, {{s, false}}};
  }
  Part repeated(size_t nesting) {
    const size_t from = at_;
    Part part = atom(nesting);
    while (more()) {
      long low, high;  // high < 0: no limit
      if (accept('*'))
        low = 0, high = -1;
      else if (accept('+'))
        low = 1, high = -1;
      else if (accept('?'))
        low = 0, high = 1;
      else if (!counts(low, high))
        break;
      accept('?');  // what is preferred makes no difference to a match of the whole text
      const size_t behind = at_;
      Part all = nothing();
      const auto again = [&] {
        at_ = from;
        return atom(nesting);
      };
      for (long k = 0; k < low; ++k) {
        const Part p = k == 0 ? part : again();
        patch(all.open, p.first);
        all.open = p.open;
      }
      if (high < 0) {
        const Part p = low == 0 ? part : again();
        const int loop = add({State::split, p.first});
        patch(p.open, loop);
        patch(all.open, loop);
        all.open = {{loop, true}};
      }
      for (long k = low; k < high; ++k) {
        const Part p = k == 0 ? part : again();
        const int s = add({State::split, p.first});
        patch(all.open, s);
        all.open = p.open;
        all.open.push_back({s, true});
      }
      at_ = behind;
      part = all;
      if (more() && (p_[at_] == '*' || p_[at_] == '+' || p_[at_] == '?'))
        bad("a repetition of a repetition; put it in a group");
    }
    return part;
  }
  /// `{2}`, `{2,}`, `{2,5}`; a brace that is none of them is a character.
  bool counts(long& low, long& high) {
    const size_t from = at_;
    const auto number = [&](long& n) {
      const size_t digits = at_;
      for (n = 0; more() && p_[at_] >= '0' && p_[at_] <= '9' && at_ - digits < 6; ++at_)
        n = n * 10 + long(p_[at_] - '0');
      return at_ > digits;
    };
    if (!accept('{') || !number(low)) {
      at_ = from;
      return false;
    }
    high = low;
    if (accept(',') && !number(high)) high = -1;
    if (!accept('}')) {
      at_ = from;
      return false;
    }
    if (low > kMaxRepeat || high > kMaxRepeat || (high >= 0 && high < low)) bad("a repetition out of range");
    return true;
  }

  Part atom(size_t nesting) {
    if (!more()) return nothing();  // only behind a problem
    const char32_t c = p_[at_++];
    if (c == '(') {
      if (accept('?') && !accept(':')) bad("a group of this kind is not supported");
      const Part inner = alternatives(nesting + 1);
      if (!accept(')')) bad("a `)` is missing");
      return inner;
    }
    if (c == '*' || c == '+' || c == '?') bad("nothing to repeat");
    State s{State::character};
    if (c == '[')
      set(s);
    else if (c == '.')
      s.ranges = {{'\n', '\n'}}, s.negated = true;
    else if (c == '^')
      s.kind = State::begin_text;
    else if (c == '$')
      s.kind = State::end_text;
    else if (c == '\\')
      escape(s);
    else
      s.ranges = {{c, c}};
    const int at = add(std::move(s));
    return {at, {{at, false}}};
  }
  /// `\d`, `\s`, `\w` as ranges; false: none of them.
  static bool class_of(char32_t c, std::vector<Range>& out) {
    if (c == 'd') out = {{'0', '9'}};
    if (c == 's') out = {{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}};
    if (c == 'w') out = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    return !out.empty();
  }
  char32_t literal() {
    const char32_t c = more() ? p_[at_++] : U'\0';
    if (c == 0) bad("a `\\` at the end");
    constexpr std::u32string_view names = U"nrtfva", values = U"\n\r\t\f\v\a";
    if (const size_t k = names.find(c); k != names.npos) return values[k];
    if (c < 128 && ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')))
      bad("the escape `\\" + std::string(1, char(c)) + "` is not supported");
    return c;
  }
  void escape(State& s) {
    const char32_t c = more() ? p_[at_] : U'\0';
    std::vector<Range> ranges;
    if (c == 'b' || c == 'B' || c == 'A' || c == 'z') {
      ++at_;
      s.kind = c == 'b'   ? State::boundary
               : c == 'B' ? State::no_boundary
               : c == 'A' ? State::begin_text
                          : State::end_text;
    } else if (class_of(c, s.ranges)) {
      ++at_;
    } else if (c < 128 && class_of(c | 0x20, ranges) && c != (c | 0x20)) {
      ++at_;
      s.ranges = ranges, s.negated = true;
    } else {
      const char32_t v = literal();
      s.ranges = {{v, v}};
    }
  }
  /// `:alpha:]` and the like, behind a `[` in a set.
  bool named_class(std::vector<Range>& out) {
    const size_t end = p_.find(U":]", at_ + 1);
    if (end == p_.npos) return false;
    std::u32string name = p_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 2;
    const std::vector<Range> upper{{'A', 'Z'}}, lower{{'a', 'z'}}, digit{{'0', '9'}},
        punct{{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}};
    std::vector<Range> ranges;
    const auto with = [&](const std::vector<Range>& r) { ranges.insert(ranges.end(), r.begin(), r.end()); };
    if (name == U"upper" || name == U"alpha" || name == U"alnum" || name == U"word") with(upper);
    if (name == U"lower" || name == U"alpha" || name == U"alnum" || name == U"word") with(lower);
    if (name == U"digit" || name == U"alnum" || name == U"word" || name == U"xdigit") with(digit);
    if (name == U"word") with({{'_', '_'}});
    if (name == U"xdigit") with({{'A', 'F'}, {'a', 'f'}});
    if (name == U"punct") with(punct);
    if (name == U"space") with({{'\t', '\r'}, {' ', ' '}});
    if (name == U"blank") with({{'\t', '\t'}, {' ', ' '}});
    if (name == U"cntrl") with({{0, 0x1f}, {0x7f, 0x7f}});
    if (name == U"graph") with({{'!', '~'}});
    if (name == U"print") with({{' ', '~'}});
    if (name == U"ascii") with({{0, 0x7f}});
    out.insert(out.end(), ranges.begin(), ranges.end());
    return !ranges.empty();
  }
  void set(State& s) {
    s.negated = accept('^');
    for (bool first = true; first || !accept(']'); first = false) {
      if (!more()) return bad("a `]` is missing");
      char32_t low = p_[at_++];
      std::vector<Range> ranges;
      if (low == '[' && more() && p_[at_] == ':') {
        if (!named_class(s.ranges)) return bad("a class of this name is not known");
        continue;
      }
      if (low == '\\') {
        const char32_t c = more() ? p_[at_] : U'\0';
        if (class_of(c, ranges)) {
          ++at_;
          s.ranges.insert(s.ranges.end(), ranges.begin(), ranges.end());
          continue;
        }
        if (c < 128 && c != (c | 0x20) && class_of(c | 0x20, ranges)) {
          ++at_;
          char32_t from = 0;  // what lies between the ranges, which rise
          for (const Range& r : ranges) {
            if (r.low > from) s.ranges.push_back({from, r.low - 1});
            from = r.high + 1;
          }
          s.ranges.push_back({from, 0x10ffff});
          continue;
        }
        low = literal();
      }
      char32_t high = low;
      if (more() && p_[at_] == '-' && at_ + 1 < p_.size() && p_[at_ + 1] != ']') {
        ++at_;
        high = p_[at_++];
        if (high == '\\') high = literal();
        if (high < low) bad("a range of characters is backward");
      }
      s.ranges.push_back({low, high});
    }
  }

  static bool takes(const State& s, char32_t c) {
    if (s.kind != State::character) return false;
    bool inside = false;
    for (const Range& r : s.ranges) inside = inside || (c >= r.low && c <= r.high);
    return inside != s.negated;
  }
  static bool is_word(char32_t c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= 'a' && c <= 'z');
  }
  /// The states that are reached without a character, at a position of the text.
  void follow(int first, const std::u32string& text, size_t at, std::vector<int>& out,
              std::vector<size_t>& seen) const {
    std::vector<int> todo{first};
    while (!todo.empty()) {
      const int s = todo.back();
      todo.pop_back();
      if (s < 0 || seen[size_t(s)] == at) continue;
      seen[size_t(s)] = at;
      const State& state = states_[size_t(s)];
      const bool border = (at > 0 && is_word(text[at - 1])) != (at < text.size() && is_word(text[at]));
      switch (state.kind) {
        case State::end:
        case State::character:
          out.push_back(s);
          break;
        case State::split:
          todo.push_back(state.to), todo.push_back(state.other);
          break;
        case State::begin_text:
          if (at == 0) todo.push_back(state.to);
          break;
        case State::end_text:
          if (at == text.size()) todo.push_back(state.to);
          break;
        case State::boundary:
        case State::no_boundary:
          if (border == (state.kind == State::boundary)) todo.push_back(state.to);
          break;
      }
    }
  }

  std::u32string p_;
  std::string problem_;
  size_t at_ = 0;
  int start_ = 0;
  std::vector<State> states_;
};

}  // namespace tenon
