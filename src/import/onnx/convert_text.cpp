// SPDX-License-Identifier: Apache-2.0
// Converters: strings. The program holds a string as its number in the table of the run; what reads texts is
// a function of libtenon_string.
#include "import/onnx/text.h"
#include "ir/structural.h"
#include "op/attrs_check.h"

namespace tenon::onnx {

Value strings_value(const Expr& e) { return {e, element_form(kString)}; }
Expr list_constant(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& t : texts) all += std::to_string(t.size()) + ":" + t;
  return bytes_constant(all);
}
Value strings_constant(NodeContext& n, const std::vector<std::string>& texts) {
  proto::TensorProto t;
  t.set_data_type(8);
  for (const std::string& s : texts) t.add_string_data(s);
  t.add_dims(t.string_data_size());
  return n.importer.tensor_value(t, n.where());
}
Value strings_of_numbers(NodeContext& n, const Expr& x, bool fixed) {
  return strings_value(
      n.packed("tenon.string.of_numbers", {n.importer.strings(), x, n.number(int64_t(fixed))}, like(x, i64)));
}
Expr numbers_of_strings(NodeContext& n, const Expr& x, DataType t) {
  // Narrow types are those of the wide ones.
  const DataType wide = t.is_float() ? (t == f64 ? f64 : f32) : t.is_int() ? i64 : DataType::uint(64);
  return n.cast(
      n.packed("tenon.string.to_numbers",
               {n.importer.strings(), x, graph::constant(NDArray::zeros({0}, wide))}, like(x, wide)),
      t);
}
Expr strings_input(NodeContext& n, size_t i) {
  const Expr e = n.in(i);
  if (!n.form(i) || n.form(i)->kind != Form::strings)
    n.malformed(fmt::format("input {} of {} must be strings", i, n.op_type()));
  return e;
}
graph::Type like(const Expr& e, DataType t) {
  const auto shape = graph::known_shape(e);
  return shape ? graph::tensor_type(*shape, t) : graph::tensor_type_unknown(graph::as_tensor(e)->ndim, t);
}

namespace {

constexpr int64_t kMostColumns = int64_t(1) << 24;  // of TfIdfVectorizer, and of what its n-grams leave out

using namespace op;
using N = NodeContext;
using R = RegisterConverter;

Values string_concat(N& n) {
  const Expr x = strings_input(n, 0), y = strings_input(n, 1);
  const auto a = graph::known_shape(x), b = graph::known_shape(y);
  const int64_t rank = std::max(n.rank(0), n.rank(1));
  for (size_t i = 1; a && b && i <= std::min(a->size(), b->size()); ++i) {
    const auto p = tir::as_int((*a)[a->size() - i]), q = tir::as_int((*b)[b->size() - i]);
    if (p && q && *p != *q && *p != 1 && *q != 1)
      n.malformed(fmt::format("StringConcat of sizes {} and {}", *p, *q));
  }
  const bool same_shape = a && b && structural_equal(graph::shape_expr(*a), graph::shape_expr(*b));
  const graph::Type type = same_shape ? like(x, i64) : graph::tensor_type_unknown(rank, i64);
  return {strings_value(n.with_sizes(n.packed("tenon.string.concat", {n.importer.strings(), x, y}, type)))};
}
Values string_split(N& n) {
  const Expr x = strings_input(n, 0);
  const int64_t rank = n.rank(0);
  const Expr both = n.packed("tenon.string.split",
                             {n.importer.strings(), x, bytes_constant(n.attr_string("delimiter", "")),
                              n.number(n.attr_int("maxsplit", -1))},
                             graph::tuple_type({graph::tensor_type_unknown(rank + 1, i64), like(x, i64)}));
  return {strings_value(n.with_sizes(n.item(both, 0))), n.item(both, 1)};
}
Values string_normalizer(N& n) {
  const Expr x = strings_input(n, 0);
  const std::string action = n.attr_string("case_change_action", "NONE");
  if (action != "NONE" && action != "LOWER" && action != "UPPER")
    n.malformed(fmt::format("'case_change_action' of StringNormalizer is {}", in_quotes(action)));
  if (n.rank(0) < 1 || n.rank(0) > 2) n.malformed("StringNormalizer takes a vector, or a matrix of one row");
  return {strings_value(n.with_sizes(n.packed(
      "tenon.string.normalize",
      {n.importer.strings(), x,
       n.number(action == "NONE"    ? 0
                : action == "LOWER" ? 1
                                    : 2),
       n.number(n.attr_int("is_case_sensitive", 0) != 0), list_constant(n.attr_strings("stopwords"))},
      graph::tensor_type_unknown(n.rank(0), i64))))};
}
Values regex_full_match(N& n) {
  const Expr x = strings_input(n, 0);
  if (!n.has_attr("pattern")) n.malformed("RegexFullMatch needs the attribute 'pattern'");
  return {n.packed("tenon.string.full_match",
                   {n.importer.strings(), x, bytes_constant(n.attr_string("pattern", ""))},
                   like(x, boolean))};
}

/// Texts cut at separators, or into what an expression matches, or into characters.
Values tokenizer(N& n) {
  enum Mode { separated, matched, characters };  // those of libtenon_string
  const Expr x = strings_input(n, 0);
  const int64_t rank = n.rank(0), least = n.need_int("mincharnum");
  if (rank < 1 || rank > 2) n.malformed("Tokenizer takes a vector or a matrix");
  if (least < 1) n.malformed(fmt::format("'mincharnum' of Tokenizer is {}", least));
  const std::string expression = n.attr_string("tokenexp", "");
  std::vector<std::string> patterns = n.attr_strings("separators");
  Mode mode = separated;
  if ((patterns.size() == 1 && patterns[0].empty()) || expression == ".")
    mode = characters, patterns.clear();
  else if (patterns.empty())
    mode = matched, patterns = {expression};
  if (mode == matched && expression.empty())
    n.malformed("Tokenizer needs the attribute 'separators' or 'tokenexp'");
  if (mode == characters && least > 1) n.malformed("characters are no tokens of several characters");
  const auto rows = graph::known_shape(x);
  const Expr tokens =
      n.packed("tenon.string.tokenize",
               {n.importer.strings(), x, n.number(int64_t(mode)), list_constant(patterns), n.number(least),
                n.number(n.attr_int("mark", 0) != 0), bytes_constant(n.attr_string("pad_value", ""))},
               graph::tensor_type_unknown(rank + 1, i64));
  return {strings_value(n.with_sizes(tokens, rows ? *rows : Array<PrimExpr>{}))};
}

Values tf_idf(N& n) {
  const bool texts = n.has_attr("pool_strings");
  const Expr x = texts ? strings_input(n, 0) : n.in(0);
  if (!texts && (n.form(0) || !n.dtype(0).is_integer()))
    n.malformed("TfIdfVectorizer has a pool of integers");
  const auto integers = [](const std::vector<int64_t>& v) {
    return graph::constant(
        NDArray::from_bytes({int64_t(v.size())}, i64, v.data(), v.size() * sizeof(int64_t)));
  };
  const Expr pool =
      texts ? strings_constant(n, n.attr_strings("pool_strings")).expr : integers(n.need_ints("pool_int64s"));
  const std::vector<int64_t> begins = n.need_ints("ngram_counts"), columns = n.need_ints("ngram_indexes");
  const int64_t entries = tir::as_int((*graph::known_shape(pool))[0]).value_or(0);
  int64_t before = 0, width = 0;
  for (const int64_t b : begins) {
    if (b < before || b > entries)
      n.malformed("'ngram_counts' of TfIdfVectorizer are no rising positions in its pool");
    before = b;
  }
  int64_t grams = 0;
  for (size_t k = 0; k < begins.size(); ++k)
    grams += ((k + 1 < begins.size() ? begins[k + 1] : entries) - begins[k]) / int64_t(k + 1);
  if (grams != int64_t(columns.size()))
    n.malformed(fmt::format("TfIdfVectorizer has {} n-grams and {} columns for them", grams, columns.size()));
  for (const int64_t c : columns) {
    if (c < 0 || c >= kMostColumns) n.malformed(fmt::format("TfIdfVectorizer has the column {}", c));
    width = std::max(width, c + 1);
  }
  const int64_t shortest = n.need_int("min_gram_length"), longest = n.need_int("max_gram_length"),
                skipped = n.need_int("max_skip_count");
  if (shortest < 1 || longest < shortest || skipped < 0 || skipped > kMostColumns)
    n.malformed("the lengths of the n-grams of TfIdfVectorizer are no range");
  const int64_t rank = n.rank(0);
  if (rank < 1 || rank > 2) n.malformed("TfIdfVectorizer takes a vector or a matrix");
  Array<PrimExpr> shape;
  if (rank == 2) shape.push_back(n.known_shape(0)[0]);
  shape.push_back(width);
  const Expr count = n.packed("tenon.string.ngrams",
                              {x, pool, integers(begins), integers(columns), n.number(shortest),
                               n.number(longest), n.number(skipped), n.number(width)},
                              graph::tensor_type(shape, f32));
  const std::string mode = n.attr_string("mode", "");
  if (mode == "TF") return {count};
  if (mode != "IDF" && mode != "TFIDF")
    n.malformed(fmt::format("'mode' of TfIdfVectorizer is {}", in_quotes(mode)));
  NDArray weights = NDArray::empty({width}, f32);
  const std::vector<double> given = n.attr_floats("weights");
  for (int64_t i = 0; i < width; ++i)
    weights.set_element(i, i < int64_t(given.size()) ? given[size_t(i)] : 1);
  const Expr w = graph::constant(weights);
  if (mode == "TFIDF") return {n.op("multiply", {count, w})};
  return {n.op("where", {n.op("greater", {count, n.scalar(0, f32)}), w, n.scalar(0, f32)})};
}

const R t1("StringConcat", {20}, string_concat, "", Forms::any),
    t2("StringSplit", {20}, string_split, "", Forms::any),
    t3("StringNormalizer", {10}, string_normalizer, "", Forms::any),
    t4("RegexFullMatch", {20}, regex_full_match, "no back references", Forms::any),
    t5("TfIdfVectorizer", {9}, tf_idf, "", Forms::any),
    t6("com.microsoft::Tokenizer", {1}, tokenizer, "no back references", Forms::any);

}  // namespace
}  // namespace tenon::onnx
