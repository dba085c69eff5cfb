// SPDX-License-Identifier: Apache-2.0
// libtenon_string: the operators of strings. A program holds strings as their numbers in the table of its
// run, so that what only moves or compares elements is done by kernels; equal strings have equal numbers, ""
// has 0. Each function's first argument is the place of its node (values.h), the second the table where it
// needs one.
#include <locale.h>
#include <wctype.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <deque>
#include <map>
#include <set>
#include <unordered_map>

#include "runtime/libraries/register.h"
#include "runtime/libraries/tokens.h"
#include "runtime/libraries/utf8.h"
#include "runtime/libraries/values.h"

namespace tenon {
namespace {

struct StringTableObj : Object {
  static constexpr std::string_view type_key = "StringTable";
  StringTableObj() { number(""); }
  StringTableObj(const StringTableObj&) = delete;
  int64_t number(std::string_view text) {
    if (const auto known = numbers.find(text); known != numbers.end()) return known->second;
    const std::string& kept = texts.emplace_back(text);
    numbers.emplace(kept, int64_t(texts.size()) - 1);
    return int64_t(texts.size()) - 1;
  }
  std::deque<std::string> texts;  // which do not move
  std::unordered_map<std::string_view, int64_t> numbers;
};

Any table(Arguments) { return Any(make<StringTableObj>()); }

/// The operands behind the table, and the table.
struct Texts : Operands {
  explicit Texts(Arguments a) : Operands(a) {
    auto t = (*this)[0].try_as<Ref<StringTableObj>>();
    if (!t || !*t) fail("the table of strings is missing");
    table = t->mut();
    hold = *t;
  }
  const std::string& text(const NDArray& numbers, int64_t i) const {
    return text(numbers.as_ptr<int64_t>()[i]);
  }
  const std::string& text(int64_t n) const {
    if (n < 0 || n >= int64_t(table->texts.size())) fail("a string that the table does not have");
    return table->texts[size_t(n)];
  }
  NDArray numbers(size_t i) const {
    NDArray x = tensor(i);
    if (x.dtype() != i64) fail("strings are needed, not " + to_string(x.dtype()));
    return x;
  }
  StringTableObj* table = nullptr;
  Ref<StringTableObj> hold;
};

std::string_view bytes(const NDArray& a) { return {a.as_ptr<char>(), size_t(a.byte_size())}; }
std::u32string readable(const Operands& o, const std::string& text) {
  auto points = code_points(text);
  if (!points) o.fail("a string is not UTF-8");
  return *std::move(points);
}

/// (table, list, sizes…) → a constant
Any constant(Arguments a) {
  const Texts o(a);
  std::vector<int64_t> shape;
  for (size_t i = 2; i < o.size(); ++i) shape.push_back(o.integer(i));
  const auto list = o.texts(1);
  const NDArray out = NDArray::empty(shape, i64);
  if (int64_t(list.size()) != out.size()) o.fail("a list of strings is damaged");
  for (size_t i = 0; i < list.size(); ++i) out.as_ptr<int64_t>()[i] = o.table->number(list[i]);
  return Any(out);
}

// ---------------------------------------------------------------- into a program and out of it
/// The map with what becomes of its values.
template <class F>
Any mapped(const Ref<MapObj>& map, const F& value) {
  auto out = make<MapObj>();
  for (const auto& [key, v] : map->items) map_detail::set(out.mut(), key, value(v));
  return Any(std::move(out));
}
Any entered(const Texts& o, const Any& v, int nesting) {
  if (nesting > 100) o.fail("an input is nested deeper than 100 levels");
  if (v.is_none()) return v;
  if (const auto list = v.try_as<Ref<ArrayObj>>()) {
    std::vector<Any> items;
    for (const Any& item : (*list)->items) items.push_back(entered(o, item, nesting + 1));
    return sequence_of(std::move(items));
  }
  if (const auto map = v.try_as<Ref<MapObj>>(); map && *map)
    return mapped(*map, [&](const Any& value) { return entered(o, value, nesting + 1); });
  if (const auto text = v.try_as<std::string>()) return Any(o.table->number(*text));
  const auto t = v.try_as<StringTensor>();
  if (!t) o.fail("strings are needed, not " + v.kind_name());
  const NDArray out = NDArray::empty((*t)->shape, i64);
  if (out.size() != int64_t((*t)->items.size()))
    o.fail("a tensor of strings has another number of them than its shape");
  for (size_t i = 0; i < (*t)->items.size(); ++i) out.as_ptr<int64_t>()[i] = o.table->number((*t)->items[i]);
  return Any(out);
}
Any enter(Arguments a) {
  const Texts o(a);
  return entered(o, o[1], 0);
}
Any left(const Texts& o, const Any& v, int nesting) {
  if (nesting > 100) o.fail("an output is nested deeper than 100 levels");
  if (v.is_none()) return v;
  if (const auto list = v.try_as<Ref<ArrayObj>>()) {
    std::vector<Any> items;
    for (const Any& item : (*list)->items) items.push_back(left(o, item, nesting + 1));
    return sequence_of(std::move(items));
  }
  if (const auto map = v.try_as<Ref<MapObj>>(); map && *map)
    return mapped(*map, [&](const Any& value) { return left(o, value, nesting + 1); });
  if (const auto number = v.try_as<int64_t>()) return Any(o.text(*number));
  const auto x = v.try_as<NDArray>();
  if (!x || !x->get() || x->dtype() != i64) o.fail("strings are needed, not " + v.kind_name());
  auto t = make<StringTensorObj>();
  t.mut()->shape = x->shape();
  for (int64_t i = 0; i < x->size(); ++i) t.mut()->items.push_back(o.text(*x, i));
  return Any(std::move(t));
}
Any leave(Arguments a) {
  const Texts o(a);
  return left(o, o[1], 0);
}

// ---------------------------------------------------------------- operators
/// (table, x, y) → x and y behind one another, broadcast
Any concat(Arguments a) {
  const Texts o(a);
  const NDArray x = o.numbers(1), y = o.numbers(2);
  const size_t rank = std::max(x.shape().size(), y.shape().size());
  std::vector<int64_t> shape(rank), step_x(rank), step_y(rank);
  int64_t size_x = 1, size_y = 1;
  for (size_t i = 1; i <= rank; ++i) {
    const auto extent = [&](const NDArray& t) {
      return i <= t.shape().size() ? t.shape()[t.shape().size() - i] : 1;
    };
    const int64_t dx = extent(x), dy = extent(y);
    if (dx != dy && dx != 1 && dy != 1) o.fail("strings of these shapes cannot be broadcast together");
    shape[rank - i] = dx == 1 ? dy : dx;
    step_x[rank - i] = dx == 1 ? 0 : size_x;
    step_y[rank - i] = dy == 1 ? 0 : size_y;
    size_x *= dx, size_y *= dy;
  }
  const NDArray out = NDArray::empty(shape, i64);
  std::vector<int64_t> at(rank);
  for (int64_t i = 0; i < out.size(); ++i) {
    int64_t ix = 0, iy = 0;
    for (size_t d = 0; d < rank; ++d) ix += at[d] * step_x[d], iy += at[d] * step_y[d];
    out.as_ptr<int64_t>()[i] = o.table->number(o.text(x, ix) + o.text(y, iy));
    for (size_t d = rank; d-- > 0 && ++at[d] == shape[d];) at[d] = 0;
  }
  return Any(out);
}

/// Pieces between delimiters, at most `most` cuts (< 0: all); an empty delimiter is white space in any
/// amount.
std::vector<std::string_view> pieces(std::string_view text, std::string_view delimiter, int64_t most) {
  std::vector<std::string_view> out;
  if (delimiter.empty()) {
    constexpr std::string_view kSpace = " \t\n\r\f\v";
    for (;;) {
      const size_t from = text.find_first_not_of(kSpace);
      if (from == text.npos) return out;
      text.remove_prefix(from);
      const size_t end = int64_t(out.size()) == most ? text.npos : text.find_first_of(kSpace);
      out.push_back(text.substr(0, end));
      if (end == text.npos) return out;
      text.remove_prefix(end);
    }
  }
  for (;;) {
    const size_t end = int64_t(out.size()) == most ? text.npos : text.find(delimiter);
    out.push_back(text.substr(0, end));
    if (end == text.npos) return out;
    text.remove_prefix(end + delimiter.size());
  }
}
/// (table, x, delimiter, most cuts) → (pieces on a new last axis, filled up with "", how many)
Any split(Arguments a) {
  const Texts o(a);
  const NDArray x = o.numbers(1), delimiter = o.tensor(2), counts = NDArray::empty(x.shape(), i64);
  const int64_t most = o.integer(3);
  std::vector<std::vector<std::string_view>> all;
  size_t widest = 0;
  for (int64_t i = 0; i < x.size(); ++i) {
    all.push_back(pieces(o.text(x, i), bytes(delimiter), most));
    counts.as_ptr<int64_t>()[i] = int64_t(all.back().size());
    widest = std::max(widest, all.back().size());
  }
  std::vector<int64_t> shape = x.shape();
  shape.push_back(int64_t(widest));
  const NDArray out = NDArray::zeros(shape, i64);
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t k = 0; k < all[i].size(); ++k)
      out.as_ptr<int64_t>()[i * widest + k] = o.table->number(all[i][k]);
  return sequence_of({Any(out), Any(counts)});
}

std::u32string in_case(std::u32string text, bool upper) {
  static const locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", locale_t(nullptr));
  for (char32_t& c : text) {
    if (locale)
      c = char32_t(upper ? towupper_l(wint_t(c), locale) : towlower_l(wint_t(c), locale));
    else if (c < 128)
      c = char32_t(upper ? toupper(int(c)) : tolower(int(c)));
  }
  return text;
}
/// (table, x, case: 0 as it is, 1 lower, 2 upper, whether stop words differ by case, list of stop words) → x
/// of shape (C) or (1, C) without stop words; one "" where nothing is left
Any normalize(Arguments a) {
  const Texts o(a);
  const NDArray x = o.numbers(1);
  const int64_t change = o.integer(2);
  const bool exact = o.integer(3) != 0;
  if (x.ndim() < 1 || x.ndim() > 2 || (x.ndim() == 2 && x.shape()[0] != 1))
    o.fail("StringNormalizer takes a vector, or a matrix of one row");
  std::set<std::u32string> stop;
  const auto key = [&](const std::string& text) {
    std::u32string points = readable(o, text);
    return exact ? points : in_case(std::move(points), false);
  };
  for (const std::string_view word : o.texts(4)) stop.insert(key(std::string(word)));
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < x.size(); ++i) {
    const std::string& text = o.text(x, i);
    if (!stop.empty() && stop.count(key(text))) continue;
    kept.push_back(change == 0 ? x.as_ptr<int64_t>()[i]
                               : o.table->number(utf8(in_case(readable(o, text), change == 2))));
  }
  if (kept.empty()) kept.push_back(0);
  std::vector<int64_t> shape{int64_t(kept.size())};
  if (x.ndim() == 2) shape.insert(shape.begin(), 1);
  return Any(NDArray::from_bytes(shape, i64, kept.data(), kept.size() * sizeof(int64_t)));
}

Regex expression(const Operands& o, const std::string& pattern) {
  Regex regex(readable(o, pattern));
  if (!regex.problem().empty()) o.fail("`" + pattern + "` is no regular expression: " + regex.problem());
  return regex;
}
/// (table, x, pattern) → whether each string is matched as a whole
Any full_match(Arguments a) {
  const Texts o(a);
  const NDArray x = o.numbers(1), out = NDArray::empty(x.shape(), boolean), given = o.tensor(2);
  const Regex regex = expression(o, std::string(bytes(given)));
  for (int64_t i = 0; i < x.size(); ++i) out.as_ptr<uint8_t>()[i] = regex.matches(readable(o, o.text(x, i)));
  return Any(out);
}
/// (table, x, mode, list of patterns, least characters of a token, whether each text begins and ends with a
/// mark, what fills up) → tokens on a new last axis, which has no elements where no text has a token
Any tokenize(Arguments a) {
  const Texts o(a);
  const NDArray x = o.numbers(1), filling = o.tensor(6);
  Tokens tokens{Tokens::Mode(o.integer(2)), {}, size_t(std::max<int64_t>(o.integer(4), 1))};
  for (const std::string_view pattern : o.texts(3))
    tokens.patterns.push_back(expression(o, std::string(pattern)));
  const bool mark = o.integer(5) != 0;
  std::vector<std::vector<std::u32string>> all;
  size_t widest = 0;
  for (int64_t i = 0; i < x.size(); ++i) {
    all.push_back(tokens.of(readable(o, o.text(x, i))));
    widest = std::max(widest, all.back().size());
  }
  const size_t width = mark && widest > 0 ? widest + 2 : widest;
  std::vector<int64_t> shape = x.shape();
  shape.push_back(int64_t(width));
  const NDArray out = NDArray::empty(shape, i64);
  const int64_t begin = o.table->number("\x02"), end = o.table->number("\x03"),
                fill = o.table->number(bytes(filling));
  for (size_t i = 0; width > 0 && i < all.size(); ++i) {
    int64_t* row = out.as_ptr<int64_t>() + i * width;
    std::fill(row, row + width, fill);
    if (mark) *row++ = begin;
    for (const std::u32string& token : all[i]) *row++ = o.table->number(utf8(token));
    if (mark) *row++ = end;
  }
  return Any(out);
}

/// A number as text: whole ones as they are, others in as many digits as tell two of their type apart, or
/// with six behind the point.
std::string text_of(const NDArray& x, int64_t i, bool fixed) {
  constexpr int kFloatDigits = 8, kDoubleDigits = 17, kFixedDigits = 6;
  if (!x.dtype().is_float())
    return x.dtype().is_int() || x.dtype().bits < 64 ? std::to_string(x.element_int(i))
                                                     : std::to_string(uint64_t(x.element_int(i)));
  const double v = x.element(i);
  if (v != v) return fixed ? "nan" : "NaN";
  if (std::isinf(v)) return std::string(v < 0 ? "-" : "") + (fixed ? "inf" : "INF");
  std::array<char, 400> buffer;
  const auto [end, error] =
      fixed ? std::to_chars(buffer.begin(), buffer.end(), v, std::chars_format::fixed, kFixedDigits)
            : std::to_chars(buffer.begin(), buffer.end(), v, std::chars_format::general,
                            x.dtype().bits == 64 ? kDoubleDigits : kFloatDigits);
  return std::string(buffer.begin(), end);
}
/// (table, numbers, whether six digits follow the point) → their texts
Any of_numbers(Arguments a) {
  const Texts o(a);
  const NDArray x = o.tensor(1), out = NDArray::empty(x.shape(), i64);
  for (int64_t i = 0; i < x.size(); ++i)
    out.as_ptr<int64_t>()[i] = o.table->number(text_of(x, i, o.integer(2) != 0));
  return Any(out);
}
/// (table, texts, like) → their numbers, of the type of `like`; a fraction in front of an integer type is cut
/// off.
Any to_numbers(Arguments a) {
  const Texts o(a);
  const NDArray x = o.numbers(1), out = NDArray::empty(x.shape(), o.tensor(2).dtype());
  const DataType t = out.dtype();
  for (int64_t i = 0; i < x.size(); ++i) {
    const std::string& whole = o.text(x, i);
    std::string_view text = whole;
    const size_t from = text.find_first_not_of(" \t\n\r\f\v");
    text.remove_prefix(from == text.npos ? text.size() : from);
    text = text.substr(0, text.find_last_not_of(" \t\n\r\f\v") + 1);
    if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
    const auto read = [&](auto& value) {
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      return error == std::errc() && end == text.data() + text.size();
    };
    int64_t number = 0;
    uint64_t large = 0;
    double real = 0;
    if (!t.is_float() && read(number))
      out.set_element_int(i, number);
    else if (!t.is_float() && !t.is_int() && read(large))
      out.set_element_int(i, int64_t(large));
    else if (read(real) && (t.is_float() || std::fabs(real) < 0x1p63))
      t.is_float() ? out.set_element(i, real) : out.set_element_int(i, int64_t(real));
    else
      o.fail("`" + whole + "` is no number of " + to_string(t));
  }
  return Any(out);
}

/// (x, keys) → the position of each element among the keys, their number where it is none of them. Elements
/// are numbers of strings, integers, or floating numbers, of which all NaNs are equal.
Any find(Arguments a) {
  const Operands o(a);
  const NDArray x = o.tensor(0), keys = o.tensor(1), out = NDArray::empty(x.shape(), i64);
  if (x.dtype() != keys.dtype())
    o.fail("keys of " + to_string(x.dtype()) + " are needed, not " + to_string(keys.dtype()));
  const auto key = [&](const NDArray& t, int64_t i) {
    if (!t.dtype().is_float()) return t.element_int(i);
    const double v = t.element(i) == 0 ? 0.0 : t.element(i);
    int64_t word = -1;
    if (v == v) std::memcpy(&word, &v, sizeof v);
    return word;
  };
  std::unordered_map<int64_t, int64_t> at;
  for (int64_t i = 0; i < keys.size(); ++i) at.emplace(key(keys, i), i);
  for (int64_t i = 0; i < x.size(); ++i) {
    const auto found = at.find(key(x, i));
    out.as_ptr<int64_t>()[i] = found == at.end() ? keys.size() : found->second;
  }
  return Any(out);
}

/// (x, n-grams, where the n-grams of each length begin, columns, shortest, longest, most skipped, width) →
/// how often each n-gram of elements of a row occurs, elements of one n-gram 1 to 1 + skipped apart
Any ngrams(Arguments a) {
  const Operands o(a);
  const NDArray x = o.tensor(0), pool = o.tensor(1), begins = o.tensor(2), columns = o.tensor(3);
  const int64_t shortest = o.integer(4), longest = o.integer(5), skipped = o.integer(6), width = o.integer(7);
  if (x.ndim() < 1 || x.ndim() > 2) o.fail("n-grams are counted in a vector or a matrix");
  std::map<std::vector<int64_t>, int64_t> column;
  int64_t gram = 0;
  for (int64_t length = 1; length <= begins.size(); ++length) {
    const int64_t end = length < begins.size() ? begins.element_int(length) : pool.size();
    for (int64_t i = begins.element_int(length - 1); i + length <= end; i += length, ++gram) {
      std::vector<int64_t> items;
      for (int64_t k = 0; k < length; ++k) items.push_back(pool.element_int(i + k));
      if (gram < columns.size()) column.emplace(std::move(items), columns.element_int(gram));
    }
  }
  const int64_t rows = x.ndim() == 2 ? x.shape()[0] : 1, length = x.shape().back();
  std::vector<int64_t> shape{width};
  if (x.ndim() == 2) shape.insert(shape.begin(), rows);
  const NDArray out = NDArray::zeros(shape, f32);
  std::vector<int64_t> items;
  const int64_t most = std::min({longest, length, begins.size()});  // the pool has no longer ones
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t n = shortest; n <= most; ++n)
      for (int64_t step = 1; step <= (n == 1 ? 1 : skipped + 1); ++step) {
        if ((n - 1) > (length - 1) / step) break;
        for (int64_t i = 0; i + (n - 1) * step < length; ++i) {
          items.clear();
          for (int64_t k = 0; k < n; ++k) items.push_back(x.element_int(r * length + i + k * step));
          const auto c = column.find(items);
          if (c != column.end() && c->second >= 0 && c->second < width)
            out.as_ptr<float>()[r * width + c->second] += 1;
        }
      }
  return Any(out);
}

// ---------------------------------------------------------------- for other languages
/// (shape, texts) → StringTensor, and its parts
Any make_tensor(Arguments a) {
  auto t = make<StringTensorObj>();
  const auto shape = a.size() == 2 ? a[0].try_as<Array<int64_t>>() : std::nullopt;
  const auto items = a.size() == 2 ? a[1].try_as<Array<std::string>>() : std::nullopt;
  if (!shape || !items)
    throw Error(ErrorKind::usage, "T0101", "tenon.string.tensor takes a list of sizes and one of texts");
  t.mut()->shape = shape->vec();
  t.mut()->items = items->vec();
  if (element_count(t->shape) != int64_t(t->items.size()))
    throw Error(ErrorKind::usage, "T0402", "a tensor of strings has another number of them than its shape");
  return Any(std::move(t));
}
const StringTensorObj& tensor_arg(Arguments a) {
  const auto t = a.size() == 1 ? a[0].try_as<StringTensor>() : std::nullopt;
  if (!t || !*t) throw Error(ErrorKind::usage, "T0101", "a StringTensor is needed");
  return *t->get();
}
Any shape_of(Arguments a) { return Any(Array<int64_t>(tensor_arg(a).shape)); }
Any texts_of(Arguments a) { return Any(Array<std::string>(tensor_arg(a).items)); }

[[maybe_unused]] const bool registered = [] {
  register_unless_taken("tenon.string.table", table);
  register_unless_taken("tenon.string.constant", constant);
  register_unless_taken("tenon.string.enter", enter);
  register_unless_taken("tenon.string.leave", leave);
  register_unless_taken("tenon.string.concat", concat);
  register_unless_taken("tenon.string.split", split);
  register_unless_taken("tenon.string.normalize", normalize);
  register_unless_taken("tenon.string.full_match", full_match);
  register_unless_taken("tenon.string.tokenize", tokenize);
  register_unless_taken("tenon.string.find", find);
  register_unless_taken("tenon.string.of_numbers", of_numbers);
  register_unless_taken("tenon.string.to_numbers", to_numbers);
  register_unless_taken("tenon.string.ngrams", ngrams);
  register_unless_taken("tenon.string.tensor", make_tensor, "a tensor of strings of a shape and its texts");
  register_unless_taken("tenon.string.shape", shape_of, "the sizes of a tensor of strings");
  register_unless_taken("tenon.string.texts", texts_of, "the texts of a tensor of strings, row by row");
  return true;
}();

}  // namespace
}  // namespace tenon
