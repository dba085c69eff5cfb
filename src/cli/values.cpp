// SPDX-License-Identifier: Apache-2.0
// The grammar of input values.
#include "cli/values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <cstring>

#include "cli/console.h"
#include "cli/npy.h"
#include "runtime/string_tensor.h"

namespace tenon::cli {
namespace {

[[noreturn]] void bad_value(const std::string& text, const std::string& why) {
  throw Error(ErrorKind::usage, "T0906", fmt::format("`{}` is not a value: {}", text, why), {},
              "@file.npy, @file.pb, 2x3xf32=@file.bin, 2x3xf32=0.5, 2x3xf32 (random) or [1,2,3]");
}

struct TypePrefix {
  std::vector<int64_t> shape;
  DataType dtype;
};

/// `2x3xf32`, `f32`; nullopt when the text is something else.
std::optional<TypePrefix> parse_type(const std::string& text) {
  TypePrefix out;
  size_t at = 0;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
    size_t end = text.find('x', at);
    if (end == std::string::npos || end - at > 18) return std::nullopt;
    for (size_t i = at; i < end; ++i)
      if (text[i] < '0' || text[i] > '9') return std::nullopt;
    out.shape.push_back(std::strtoll(text.c_str() + at, nullptr, 10));
    at = end + 1;
  }
  const std::string rest = text.substr(at);
  if (rest == "i1") {
    out.dtype = boolean;
    return out;
  }
  if (DataType t; tenon::parse_dtype(rest, &t) && t.lanes == 1) {
    out.dtype = t;
    return out;
  }
  return std::nullopt;
}

struct Literal {
  std::vector<int64_t> shape;
  std::vector<double> values;
  std::vector<int64_t> integers;
  bool integral = true;
};

/// Nested lists of numbers, at most 8 deep and rectangular.
class LiteralParser {
 public:
  explicit LiteralParser(const std::string& text) : text_(text) {}
  Literal parse() {
    list(0);
    space();
    if (at_ != text_.size()) bad_value(text_, "text behind the list");
    return std::move(out_);
  }

 private:
  void space() {
    while (at_ < text_.size() && std::strchr(" \t\n", text_[at_])) ++at_;
  }
  void list(size_t depth) {
    if (depth >= 8) bad_value(text_, "lists nest deeper than 8");
    if (out_.shape.size() <= depth) out_.shape.push_back(-1);
    ++at_;  // '['
    int64_t count = 0;
    for (space(); at_ < text_.size() && text_[at_] != ']'; space()) {
      if (count > 0) {
        if (text_[at_] != ',') bad_value(text_, "a comma is missing");
        ++at_;
        space();
      }
      if (at_ < text_.size() && text_[at_] == '[')
        list(depth + 1);
      else
        number(depth);
      ++count;
    }
    if (at_ >= text_.size()) bad_value(text_, "`]` is missing");
    ++at_;
    if (out_.shape[depth] >= 0 && out_.shape[depth] != count) bad_value(text_, "its rows differ in length");
    out_.shape[depth] = count;
  }
  void number(size_t depth) {
    if (depth + 1 != out_.shape.size()) bad_value(text_, "numbers and lists are mixed");
    const char* begin = text_.c_str() + at_;
    char* end = nullptr;
    double v = 0;
    int64_t i = 0;
    if (text_.compare(at_, 4, "true") == 0 || text_.compare(at_, 5, "false") == 0) {
      i = text_[at_] == 't';
      v = double(i);
      end = const_cast<char*>(begin) + (i ? 4 : 5);
    } else {
      v = std::strtod(begin, &end);
      if (end == begin) bad_value(text_, fmt::format("`{}` is no number", text_.substr(at_, 12)));
      char* integer_end = nullptr;
      errno = 0;
      i = std::strtoll(begin, &integer_end, 10);
      out_.integral = out_.integral && integer_end == end && errno == 0;
    }
    out_.values.push_back(v);
    out_.integers.push_back(i);
    at_ += size_t(end - begin);
  }
  const std::string& text_;
  size_t at_ = 0;
  Literal out_;
};

/// A tensor of one number; `true` and `false` are 1 and 0.
NDArray filled(const TypePrefix& type, const std::string& number, const std::string& text) {
  const std::string digits = number == "true" ? "1" : number == "false" ? "0" : number;
  char* end = nullptr;
  const double v = std::strtod(digits.c_str(), &end);
  if (digits.empty() || *end) bad_value(text, fmt::format("`{}` is no number", number));
  NDArray a = NDArray::empty(type.shape, type.dtype);
  if (type.dtype.is_float()) {
    for (int64_t i = 0; i < a.size(); ++i) a.set_element(i, v);
    return a;
  }
  errno = 0;
  const int64_t whole = std::strtoll(digits.c_str(), &end, 10);
  if (*end || errno) bad_value(text, fmt::format("`{}` is no {}", number, to_string(type.dtype)));
  for (int64_t i = 0; i < a.size(); ++i) a.set_element_int(i, whole);
  if (a.size() && a.element_int(0) != whole)
    bad_value(text, fmt::format("{} does not fit {}", number, to_string(type.dtype)));
  return a;
}

uint64_t mix(uint64_t& state) {  // SplitMix64 (Steele, Lea, Flood 2014)
  uint64_t z = state += 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

}  // namespace

std::pair<std::string, std::string> split_assignment(const std::string& text, const char* option) {
  const size_t at = text.find('=');
  if (at == 0 || at == std::string::npos)
    throw Error(ErrorKind::usage, "T0905", fmt::format("{} takes NAME=VALUE, not `{}`", option, text));
  return {text.substr(0, at), text.substr(at + 1)};
}

DataType parse_dtype(const std::string& text) {
  DataType t;
  if (text == "i1") return boolean;
  if (tenon::parse_dtype(text, &t) && t.lanes == 1) return t;
  throw Error(ErrorKind::usage, "T0907", fmt::format("`{}` is no data type", text), {},
              "f32, f16, bf16, f64, i8 … i64, u8 … u64, i1 (bool)");
}

NDArray random_value(const std::vector<int64_t>& shape, DataType dtype, uint64_t seed) {
  NDArray a = NDArray::empty(shape, dtype);
  uint64_t state = seed * 0x2545f4914f6cdd1dull + 1;
  for (int64_t i = 0; i < a.size(); ++i) {
    const uint64_t r = mix(state);
    if (dtype.is_float())
      a.set_element(i, double(r >> 40) * 0x1p-24);
    else if (dtype.is_bool())
      a.set_element_int(i, int64_t(r & 1));
    else
      a.set_element_int(i, int64_t(r % (dtype.bits <= 8 ? 4 : 10)));
  }
  return a;
}

/// Texts in nested lists of JSON.
Any strings(const std::string& text) {
  const json list = json::parse(text, nullptr, false);
  auto out = make<StringTensorObj>();
  const std::function<void(const json&, size_t)> read = [&](const json& j, size_t depth) {
    if (j.is_string()) {
      if (depth != out->shape.size()) bad_value(text, "texts and lists are mixed");
      return out.mut()->items.push_back(j.get<std::string>());
    }
    if (!j.is_array() || depth >= 8) bad_value(text, "strings are given as nested lists of JSON");
    if (depth == out->shape.size()) out.mut()->shape.push_back(int64_t(j.size()));
    if (out->shape[depth] != int64_t(j.size())) bad_value(text, "its rows differ in length");
    for (const json& item : j) read(item, depth + 1);
  };
  read(list, 0);
  return Any(std::move(out));
}

Any parse_value(const std::string& text, const ValueInfo& info, uint64_t seed, const ReadProto& read_proto) {
  if (text.empty()) bad_value(text, "nothing stands behind `=`");
  if (text[0] == '@') {
    const std::string path = text.substr(1);
    if (path.size() > 3 && path.compare(path.size() - 3, 3, ".pb") == 0) return read_proto(path);
    return Any(read_npy(path));
  }
  if (info.dtype.code == TypeCode::String) return strings(text);
  if (text[0] == '[') {
    const Literal l = LiteralParser(text).parse();
    const DataType dtype = info.dtype.is_void() ? (l.integral ? i64 : f32) : info.dtype;
    if (!dtype.is_float() && !l.integral)
      bad_value(text, fmt::format("input `{}` is {}", info.name, to_string(dtype)));
    std::vector<int64_t> shape = l.shape;
    if (l.values.size() == 1 && info.known_rank && info.shape.empty()) shape.clear();
    NDArray a = NDArray::empty(shape, dtype);
    for (int64_t i = 0; i < a.size(); ++i) {
      if (dtype.is_float())
        a.set_element(i, l.values[size_t(i)]);
      else
        a.set_element_int(i, l.integers[size_t(i)]);
    }
    return Any(a);
  }
  const size_t equals = text.find('=');
  auto type = parse_type(text.substr(0, equals));
  if (!type) {
    char* end = nullptr;
    std::strtod(text.c_str(), &end);
    if ((*end == 0 || text == "true" || text == "false") && info.known_rank && info.shape.empty())
      return Any(filled({{}, info.dtype.is_void() ? f32 : info.dtype}, text, text));
    bad_value(text, "it begins with no type such as 2x3xf32");
  }
  if (equals == std::string::npos) return Any(random_value(type->shape, type->dtype, seed));
  const std::string rest = text.substr(equals + 1);
  if (rest.empty() || rest[0] != '@') return Any(filled(*type, rest, text));
  const size_t want = storage_bytes(element_count(type->shape), type->dtype);
  const std::string bytes = FileReader(rest.substr(1)).take(want + 1);
  if (bytes.size() != want)
    throw Error(ErrorKind::io, "T3005",
                fmt::format("{} needs {} bytes, the file has {}", text.substr(0, equals), want,
                            bytes.size() > want ? "more" : std::to_string(bytes.size())),
                rest.substr(1));
  return Any(NDArray::from_bytes(type->shape, type->dtype, bytes.data(), bytes.size()));
}

static std::string short_name(DataType t) {
  if (t.is_bool()) return "i1";
  if (t.code == TypeCode::BFloat) return "bf16";
  if (t.is_float() && t.bits >= 16) return fmt::format("f{}", t.bits);
  if (t.is_uint()) return fmt::format("u{}", t.bits);
  if (t.is_int()) return fmt::format("i{}", t.bits);
  return to_string(t);
}

std::string type_text(const ValueInfo& info) {
  if (!info.known_rank) return "?x" + short_name(info.dtype);
  std::string out;
  for (const DimInfo& d : info.shape)
    out += (d.value >= 0 ? std::to_string(d.value) : d.symbol.empty() ? "?" : d.symbol) + "x";
  return out + short_name(info.dtype);
}

std::string type_text(const NDArray& array) {
  std::string out;
  for (int64_t d : array.shape()) out += std::to_string(d) + "x";
  return out + short_name(array.dtype());
}

}  // namespace tenon::cli
