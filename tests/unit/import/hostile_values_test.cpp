// SPDX-License-Identifier: Apache-2.0
// Bad files of values that are no tensors of numbers (sequences, optionals, maps, strings, sparse tensors),
// and of data beside the model.
#include <filesystem>

#include "hostile.h"

namespace tenon {
namespace {

using namespace test;
namespace fs = std::filesystem;

constexpr int64_t kBig = int64_t(1) << 40;

/// A model of inputs of any types that gives y.
std::string of(std::vector<Msg> nodes, std::vector<Msg> inputs, std::vector<Msg> initializers = {},
               int64_t version = 20) {
  const Msg result = typed("y", kFloats);
  Msg m = model({std::move(nodes), std::move(initializers), std::move(inputs), {result}}, version);
  return m.m(8, opset(3, "ai.onnx.ml")).bytes;
}
Msg ml(const std::string& op, const std::vector<std::string>& in, const std::vector<Msg>& attributes) {
  return node(op, in, {"y"}, attributes, "here", "ai.onnx.ml");
}
Msg here(const std::string& op, const std::vector<std::string>& in, const std::vector<Msg>& attributes = {}) {
  return node(op, in, {"y"}, attributes, "here");
}
Msg attr_strings(const std::string& name, const std::vector<std::string>& v) {
  Msg a = Msg().s(1, name);
  for (const auto& x : v) a.s(9, x);
  return a.i(20, 8);
}
Msg attr_type(const std::string& name, const Msg& type) { return Msg().s(1, name).m(14, type).i(20, 13); }
Msg texts(const std::string& name, const std::vector<int64_t>& dims, const std::vector<std::string>& v) {
  Msg t = tensor_head(name, STRING, dims);
  for (const auto& x : v) t.s(6, x);
  return t;
}

/// Every operator of tensors, given every container.
std::vector<HostileFile> containers_for_tensors() {
  Cases c;
  const std::pair<const char*, Msg> kinds[] = {{"sequence", sequence_of(kFloats)},
                                               {"optional", optional_of(kFloats)},
                                               {"nested", sequence_of(sequence_of(kFloats))},
                                               {"optionals", sequence_of(optional_of(kFloats))},
                                               {"map", map_of(INT64, kFloats)}};
  const std::pair<const char*, std::vector<std::string>> operators[] = {
      {"Relu", {"x"}},        {"Add", {"x", "x"}},        {"MatMul", {"t", "x"}}, {"Reshape", {"x", "i"}},
      {"Gather", {"t", "x"}}, {"Where", {"x", "t", "t"}}, {"Concat", {"t", "x"}}, {"Size", {"x"}},
      {"Cast", {"x"}},        {"ReduceSum", {"x"}},       {"NonZero", {"x"}},     {"Resize", {"t", "", "x"}}};
  const auto attributes = [](const std::string& op) {
    if (op == "Cast") return std::vector<Msg>{attr_i("to", 1)};
    return op == "Concat" || op == "Gather" ? std::vector<Msg>{attr_i("axis", 0)} : std::vector<Msg>();
  };
  for (const auto& [kind, type] : kinds)
    for (const auto& [op, in] : operators)
      c.add(std::string(op) + "_of_" + kind, "T2103", "'here' (",
            of({here(op, in, attributes(op))},
               {typed("x", type), value("t", FLOAT, {2, 2}), value("i", INT64, {2})}));
  return c.all;
}

std::vector<HostileFile> containers() {
  Cases c;
  const Msg list = typed("x", sequence_of(kFloats)), maybe = typed("x", optional_of(kFloats)),
            lists = typed("x", sequence_of(sequence_of(kFloats))), tensor = value("x", FLOAT, {2, 2}),
            map = typed("x", map_of(INT64, kFloats)), at = value("i", INT64, {}),
            half = value("f", FLOAT, {});
  // What is no sequence.
  for (const auto& [op, in] :
       std::vector<std::pair<std::string, std::vector<std::string>>>{{"SequenceAt", {"x", "i"}},
                                                                     {"SequenceLength", {"x"}},
                                                                     {"SequenceErase", {"x", "i"}},
                                                                     {"SequenceInsert", {"x", "f"}},
                                                                     {"ConcatFromSequence", {"x"}}})
    for (const auto& [kind, x] :
         std::vector<std::pair<std::string, Msg>>{{"tensor", tensor}, {"optional", maybe}, {"map", map}})
      c.add(op + "_of_a_" + kind, "T2020", "must be a sequence",
            of({here(op, in,
                     op == "ConcatFromSequence" ? std::vector<Msg>{attr_i("axis", 0)} : std::vector<Msg>())},
               {x, at, half}));
  // What does not go into a sequence, or out of it.
  c.add("position_is_a_float", "T2020", "holds no integers",
        of({here("SequenceAt", {"x", "f"})}, {list, half}));
  c.add("insert_at_a_float", "T2020", "holds no integers",
        of({here("SequenceInsert", {"x", "f", "f"})}, {list, half}));
  c.add("erase_at_a_float", "T2020", "holds no integers",
        of({here("SequenceErase", {"x", "f"})}, {list, half}));
  c.add("position_is_a_sequence", "T2020", "holds no integers", of({here("SequenceAt", {"x", "x"})}, {list}));
  c.add("insert_of_integers", "T2020", "joins a tensor(float32) and a tensor(int64)",
        of({here("SequenceInsert", {"x", "i"})}, {list, at}));
  c.add("insert_of_itself", "T2020", "takes tensors", of({here("SequenceInsert", {"x", "x"})}, {list}));
  c.add("insert_of_strings", "T2020", "joins",
        of({here("SequenceInsert", {"x", "s"})}, {list, value("s", STRING, {})}));
  c.add("sequence_of_nothing", "T2020", "needs", of({here("SequenceConstruct", {})}, {list}));
  c.add("sequence_of_two_types", "T2020", "joins", of({here("SequenceConstruct", {"f", "i"})}, {half, at}));
  c.add("sequence_of_a_sequence", "T2020", "takes tensors", of({here("SequenceConstruct", {"x"})}, {list}));
  c.add("sequence_of_a_map", "T2020", "takes tensors", of({here("SequenceConstruct", {"x"})}, {map}));
  for (const int64_t type : {int64_t(0), int64_t(-1), int64_t(14), int64_t(77), INT64_MAX})
    c.add(fmt::format("empty_sequence_of_{}", type < 0 ? "minus_one" : std::to_string(type)), "T2102",
          "sequences of",
          of({node("SequenceEmpty", {}, {"e"}, {attr_i("dtype", type)}, "here"),
              node("SequenceLength", {"e"}, {"y"})},
             {half}));
  c.add("empty_sequence_of_text", "T2020", "must be an integer",
        of({node("SequenceEmpty", {}, {"y"}, {attr_s("dtype", "float")}, "here")}, {half}));
  for (const int64_t axis : {int64_t(2), int64_t(-3), INT64_MAX, INT64_MIN}) {
    const std::string name = axis == INT64_MAX   ? "largest"
                             : axis == INT64_MIN ? "least"
                             : axis < 0          ? "before"
                                                 : "behind";
    const Msg matrices = typed(
        "x", sequence_of(Msg().m(1, Msg().i(1, FLOAT).m(2, Msg().m(1, Msg().i(1, 2)).m(1, Msg().i(1, 2))))));
    c.add("concat_axis_" + name, "T2020", "outside of rank 2",
          of({here("ConcatFromSequence", {"x"}, {attr_i("axis", axis)})}, {matrices}));
    c.add("split_axis_" + name, "T2020", "outside of rank 2",
          of({here("SplitToSequence", {"x"}, {attr_i("axis", axis)})}, {tensor}));
  }
  c.add("concat_without_axis", "T2020", "needs the attribute 'axis'",
        of({here("ConcatFromSequence", {"x"})}, {list}));
  c.add("concat_of_sequences", "T2020", "takes a sequence of tensors",
        of({here("ConcatFromSequence", {"x"}, {attr_i("axis", 0)})}, {lists}));
  c.add("split_of_a_sequence", "T2020", "takes a tensor", of({here("SplitToSequence", {"x"})}, {list}));
  c.add("split_by_floats", "T2020", "holds no integers",
        of({here("SplitToSequence", {"x", "f"})}, {tensor, half}));
  c.add("split_by_a_sequence", "T2020", "holds no integers",
        of({here("SplitToSequence", {"x", "s"})}, {tensor, typed("s", sequence_of(kFloats))}));
  c.add("split_of_strings_by_strings", "T2020", "holds no integers",
        of({here("SplitToSequence", {"s", "s"})}, {value("s", STRING, {2})}));
  // Optionals.
  c.add("optional_of_an_optional", "T2020", "an Optional of an optional",
        of({here("Optional", {"x"})}, {maybe}));
  c.add("optional_without_type", "T2020", "needs the attribute 'type'", of({here("Optional", {})}, {half}));
  c.add("optional_of_sparse", "T2102", "of this type",
        of({here("Optional", {}, {attr_type("type", Msg().m(8, Msg().i(1, FLOAT)))})}, {half}));
  c.add("optional_of_complex", "T2102", "of this type",
        of({here("Optional", {}, {attr_type("type", optional_of(elements_of(COMPLEX64)))})}, {half}));
  c.add("optional_of_nothing", "T2102", "of this type",
        of({here("Optional", {}, {attr_type("type", Msg())})}, {half}));
  c.add("optional_type_is_a_number", "T2020", "needs the attribute 'type'",
        of({here("Optional", {}, {attr_i("type", 1)})}, {half}));
  c.add("optional_is_added", "T2103", "does not take",
        of({node("Optional", {"f"}, {"o"}), here("Add", {"o", "f"})}, {half}));
  c.add("optional_of_unknown_value", "T2011", "not defined", of({here("Optional", {"nowhere"})}, {half}));
  // Maps.
  c.add("zip_of_integers", "T2020", "floating",
        of({ml("ZipMap", {"i"}, {attr_ints("classlabels_int64s", {1})})}, {value("i", INT64, {1})}));
  c.add("zip_without_labels", "T2020", "classlabels_int64s",
        of({ml("ZipMap", {"f"}, {})}, {value("f", FLOAT, {1})}));
  c.add("zip_of_a_sequence", "T2020", "floating",
        of({ml("ZipMap", {"x"}, {attr_ints("classlabels_int64s", {1})})}, {list}));
  c.add("vector_of_a_tensor", "T2020", "takes a map",
        of({ml("DictVectorizer", {"x"}, {attr_ints("int64_vocabulary", {1})})}, {tensor}));
  c.add("vector_of_other_keys", "T2020", "another type",
        of({ml("DictVectorizer", {"x"}, {attr_strings("string_vocabulary", {"a"})})}, {map}));
  c.add("vector_without_words", "T2020", "int64_vocabulary", of({ml("DictVectorizer", {"x"}, {})}, {map}));
  c.add("vector_of_a_sequence", "T2020", "takes a map",
        of({ml("DictVectorizer", {"x"}, {attr_ints("int64_vocabulary", {1})})}, {list}));
  c.add("vector_with_keys_twice", "T2020", "a key twice",
        of({ml("DictVectorizer", {"x"}, {attr_ints("int64_vocabulary", {4, 4})})}, {map}));
  c.add("zip_with_keys_twice", "T2020", "a key twice",
        of({node("ZipMap", {"f"}, {"z"}, {attr_ints("classlabels_int64s", {1, 1})}, "here", "ai.onnx.ml"),
            node("SequenceLength", {"z"}, {"y"})},
           {value("f", FLOAT, {1, 2})}));
  c.add("cast_of_a_tensor", "T2020", "takes a map", of({ml("CastMap", {"x"}, {})}, {tensor}));
  c.add("cast_of_words", "T2020", "map of integers",
        of({ml("CastMap", {"x"}, {})}, {typed("x", map_of(STRING, kFloats))}));
  c.add("cast_to_nothing", "T2020", "'cast_to'",
        of({ml("CastMap", {"x"}, {attr_s("cast_to", "TO_\xff")})}, {map}));
  for (const int64_t columns :
       {int64_t(0), int64_t(-1), int64_t(1) << 24, (int64_t(1) << 24) + 1, kBig, INT64_MAX})
    c.add(fmt::format("cast_to_{}_columns", columns < 0 ? "negative" : std::to_string(columns)), "T2020",
          "columns",
          of({ml("CastMap", {"x"}, {attr_s("map_form", "SPARSE"), attr_i("max_map", columns)})}, {map}));
  return c.all;
}

std::vector<HostileFile> declared_types() {
  Cases c;
  const auto input = [&](const std::string& name, const std::string& part, const Msg& type) {
    c.add("input_" + name, "T2", part, of({node("Identity", {"x"}, {"y"})}, {typed("x", type)}));
  };
  input("map_of_float_keys", "not supported", map_of(FLOAT, kFloats));
  input("map_of_complex_keys", "not supported", map_of(COMPLEX64, kFloats));
  input("map_of_unknown_keys", "not supported", map_of(77, kFloats));
  input("map_without_value", "not supported", Msg().m(5, Msg().i(1, INT64)));
  input("map_without_anything", "not supported", Msg().m(5, Msg()));
  input("map_of_sequences", "not supported", map_of(INT64, sequence_of(kFloats)));
  input("map_of_maps", "not supported", map_of(INT64, map_of(INT64, kFloats)));
  input("map_of_strings", "not supported", map_of(INT64, elements_of(STRING)));
  input("sequence_of_nothing", "not supported", Msg().m(4, Msg()));
  input("sequence_of_untyped", "not supported", sequence_of(Msg()));
  input("sequence_of_no_elements", "not supported", sequence_of(elements_of(0)));
  input("sequence_of_unknown", "not supported", sequence_of(elements_of(-5)));
  input("optional_of_nothing", "not supported", Msg().m(9, Msg()));
  input("optional_of_sparse", "not supported", optional_of(Msg().m(8, Msg().i(1, FLOAT))));
  input("sparse", "sparse tensor", Msg().m(8, Msg().i(1, FLOAT)));
  input("opaque", "no type", Msg().m(7, Msg().s(1, "d").s(2, "n")));
  input("of_two_types", "", Msg().m(1, Msg().i(1, FLOAT)).m(4, Msg().m(1, elements_of(COMPLEX64))));
  Msg deep = kFloats, shape;
  for (int i = 0; i < 40; ++i) deep = i % 2 ? sequence_of(deep) : optional_of(deep);
  input("nested_forty_times", "not supported", deep);
  for (int i = 0; i < 65; ++i) shape.m(1, Msg().i(1, 1));
  input("sequence_of_65_dimensions", "not supported", sequence_of(Msg().m(1, Msg().i(1, FLOAT).m(2, shape))));
  return c.all;
}

std::vector<HostileFile> strings() {
  Cases c;
  const Msg x = value("x", STRING, {2});
  const auto constant = [&](const std::string& name, const std::string& code, const std::string& part,
                            const Msg& t) {
    c.add("strings_" + name, code, part, of({here("Equal", {"x", "w"})}, {x}, {t}));
  };
  constant("in_raw_data", "T2014", "another field", tensor_head("w", STRING, {2}).s(9, "ab"));
  constant("and_raw_data", "T2014", "another field", texts("w", {2}, {"a", "b"}).s(9, "ab"));
  constant("too_many", "T2014", "of them", texts("w", {2}, {"a", "b", "c"}));
  constant("none", "T2014", "of them", texts("w", {2}, {}));
  constant("of_negative_size", "T2014", "negative dimension", texts("w", {-1}, {"a"}));
  constant("of_huge_size", "T2015", "", texts("w", {kBig}, {"a"}));
  constant("of_overflowing_size", "T2015", "", texts("w", {kBig, kBig}, {"a"}));
  constant("of_65_dimensions", "T2014", "65 dimensions", texts("w", std::vector<int64_t>(65, 1), {"a"}));
  constant("outside", "T2014", "another field",
           tensor_head("w", STRING, {2}).m(13, Msg().s(1, "location").s(2, "w.bin")).i(14, 1));
  constant("as_floats", "T2014", "", tensor_head("w", STRING, {2}).f(4, 1).f(4, 2));
  const std::string bytes("\xff\xfe\0\x80", 4);
  c.add("operator_of_bytes", "T2101", "not supported", of({node(bytes, {"x"}, {"y"}, {}, bytes)}, {x}));
  c.add("domain_of_bytes", "T2101", "not supported", of({node("Relu", {"x"}, {"y"}, {}, "n", bytes)}, {x}));
  c.add("value_of_bytes", "T2011", "not defined", of({here("Relu", {bytes})}, {x}));
  c.add("equation_of_bytes", "T1101", "here",
        of({here("Einsum", {"f"}, {attr_s("equation", bytes)})}, {value("f", FLOAT, {2})}));
  c.add("mode_of_bytes", "T2", "here",
        of({here("Pad", {"f", "p"}, {attr_s("mode", bytes)})},
           {value("f", FLOAT, {2}), value("p", INT64, {2})}));
  c.add("direction_of_bytes", "T2", "here",
        of({here("LSTM", {"f", "f", "f"}, {attr_s("direction", bytes)})}, {value("f", FLOAT, {1, 4, 1})}));
  c.add("case_of_bytes", "T2020", "case_change_action",
        of({here("StringNormalizer", {"x"}, {attr_s("case_change_action", bytes)})}, {x}));
  c.add("normaliser_of_rank_3", "T2020", "StringNormalizer takes",
        of({here("StringNormalizer", {"x"})}, {value("x", STRING, {1, 1, 2})}));
  c.add("normaliser_of_numbers", "T2020", "must be strings",
        of({here("StringNormalizer", {"f"})}, {value("f", FLOAT, {2})}));
  c.add("normaliser_of_a_sequence", "T2", "here",
        of({here("StringNormalizer", {"q"})}, {typed("q", sequence_of(elements_of(STRING)))}));
  c.add("joined_with_numbers", "T2020", "must be strings",
        of({here("StringConcat", {"x", "f"})}, {x, value("f", FLOAT, {2})}));
  c.add("joined_sizes", "T2020", "sizes 2 and 3",
        of({here("StringConcat", {"x", "z"})}, {x, value("z", STRING, {3})}));
  c.add("split_of_numbers", "T2020", "must be strings",
        of({here("StringSplit", {"f"})}, {value("f", FLOAT, {2})}));
  c.add("match_without_pattern", "T2020", "'pattern'", of({here("RegexFullMatch", {"x"})}, {x}));
  c.add("match_of_numbers", "T2020", "must be strings",
        of({here("RegexFullMatch", {"f"}, {attr_s("pattern", "a")})}, {value("f", FLOAT, {2})}));
  c.add("pattern_is_a_number", "T2020", "must be a string",
        of({here("RegexFullMatch", {"x"}, {attr_i("pattern", 1)})}, {x}));
  const auto tokens = [&](std::vector<Msg> attributes, int64_t least = 1) {
    attributes.push_back(attr_i("mincharnum", least));
    return of({node("Tokenizer", {"x"}, {"y"}, attributes, "here", "com.microsoft")}, {x}) +
           Msg().m(8, opset(1, "com.microsoft")).bytes;
  };
  c.add("tokens_of_no_kind", "T2020", "'separators' or 'tokenexp'", tokens({}));
  c.add("tokens_of_no_characters", "T2020", "'mincharnum' of Tokenizer is 0",
        tokens({attr_s("tokenexp", "a")}, 0));
  c.add("characters_of_two_characters", "T2020", "no tokens of several",
        tokens({attr_s("tokenexp", ".")}, 2));
  c.add("image_of_strings", "T2", "here", of({here("ImageDecoder", {"x"})}, {x}));
  c.add("image_in_no_colours", "T2", "here",
        of({here("ImageDecoder", {"u"}, {attr_s("pixel_format", bytes)})}, {value("u", UINT8, {9})}));
  const auto words = [&](const std::string& name, const std::string& part, const std::vector<int64_t>& counts,
                         const std::vector<int64_t>& columns, int64_t least, int64_t most,
                         const std::string& mode = "TF", int64_t gaps = 0) {
    c.add("words_" + name, "T2", part,
          of({here("TfIdfVectorizer", {"x"},
                   {attr_ints("ngram_counts", counts), attr_ints("ngram_indexes", columns),
                    attr_strings("pool_strings", {"a", "b"}), attr_i("min_gram_length", least),
                    attr_i("max_gram_length", most), attr_i("max_skip_count", gaps), attr_s("mode", mode)})},
             {x}));
  };
  words("falling", "rising", {1, 0}, {0, 1}, 1, 1);
  words("outside_of_the_pool", "rising", {9}, {0, 1}, 1, 1);
  words("negative", "rising", {-1}, {0, 1}, 1, 1);
  words("negative_column", "column", {0}, {0, -1}, 1, 1);
  words("huge_column", "column", {0}, {0, kBig}, 1, 1);
  words("no_range", "range", {0}, {0, 1}, 3, 1);
  words("negative_length", "range", {0}, {0, 1}, -4, 1);
  words("huge_gaps", "range", {0}, {0, 1}, 1, 1, "TF", INT64_MAX);
  words("unknown_mode", "'mode'", {0}, {0, 1}, 1, 1, "TFX");
  words("too_few_columns", "2 n-grams and 1 columns", {0}, {0}, 1, 1);
  c.add("labels_of_two_lengths", "T2020", "keys and",
        of({ml("LabelEncoder", {"x"},
               {attr_strings("keys_strings", {"a", "b"}), attr_ints("values_int64s", {1})})},
           {x}));
  c.add(
      "labels_of_another_type", "T2020", "another type",
      of({ml("LabelEncoder", {"x"}, {attr_ints("keys_int64s", {1}), attr_ints("values_int64s", {1})})}, {x}));
  c.add("labels_without_keys", "T2020", "needs keys", of({ml("LabelEncoder", {"x"}, {})}, {x}));
  return c.all;
}

Msg sparse(const Msg& values, const Msg& indices, const std::vector<int64_t>& dims) {
  Msg s = Msg().m(1, values).m(2, indices);
  for (int64_t d : dims) s.i(3, d);
  return s;
}

std::vector<HostileFile> sparse_tensors() {
  Cases c;
  const Msg two = floats("w", {2}, {5, 7}), x = value("x", FLOAT, {2, 3});
  const auto add = [&](const std::string& name, const std::string& code, const std::string& part,
                       const Msg& tensor) {
    for (const bool constant : {false, true}) {
      GraphParts p{{here("Add", {"x", "w"})}, {}, {x}, {value("y", FLOAT, {})}};
      if (constant)
        p.nodes.insert(p.nodes.begin(), node("Constant", {}, {"w"},
                                             {Msg().s(1, "sparse_value").m(22, tensor).i(20, 11)}, "c"));
      Msg g = onnx_graph(p);
      if (!constant) g.m(15, tensor);
      c.add("sparse_" + name + (constant ? "_constant" : ""), code, part, model(g).bytes);
    }
  };
  add("least_index", "T2014", "is outside", sparse(two, ints("", {2}, {INT64_MIN, 5}), {2, 3}));
  add("largest_index", "T2014", "is outside", sparse(two, ints("", {2}, {0, INT64_MAX}), {2, 3}));
  add("negative_coordinate", "T2014", "is outside", sparse(two, ints("", {2, 2}, {0, -1, 1, 1}), {2, 3}));
  add("largest_coordinate", "T2014", "is outside",
      sparse(two, ints("", {2, 2}, {0, 0, INT64_MAX, 1}), {2, 3}));
  add("falling", "T2014", "do not rise", sparse(two, ints("", {2}, {5, 1}), {2, 3}));
  add("falling_coordinates", "T2014", "do not rise", sparse(two, ints("", {2, 2}, {1, 0, 0, 2}), {2, 3}));
  add("same_coordinates", "T2014", "do not rise", sparse(two, ints("", {2, 2}, {1, 0, 1, 0}), {2, 3}));
  add("entry_of_nothing", "T2014", "", sparse(two, ints("", {2}, {0, 1}), {0, 3}));
  add("indices_of_rank_3", "T2014", "do not belong", sparse(two, ints("", {2, 1, 1}, {0, 1}), {2, 3}));
  add("indices_of_rank_0", "T2014", "do not belong", sparse(two, ints("", {}, {0}), {2, 3}));
  add("indices_of_bytes", "T2014", "do not belong",
      sparse(two, tensor_head("", INT8, {2}).s(9, std::string("\0\1", 2)), {2, 3}));
  add("indices_of_strings", "T2", "", sparse(two, texts("", {2}, {"0", "1"}), {2, 3}));
  add("indices_cut", "T2014", "",
      sparse(two, tensor_head("", INT64, {2}).s(9, std::string(9, '\0')), {2, 3}));
  add("values_of_rank_2", "T2014", "do not belong",
      sparse(floats("w", {1, 2}, {5, 7}), ints("", {2}, {0, 1}), {2, 3}));
  add("values_cut", "T2014", "",
      sparse(tensor_head("w", FLOAT, {2}).s(9, "abc"), ints("", {2}, {0, 1}), {2, 3}));
  add("values_huge", "T2015", "",
      sparse(tensor_head("w", FLOAT, {kBig, kBig}), ints("", {2}, {0, 1}), {2, 3}));
  add("values_of_complex", "T2103", "complex64",
      sparse(tensor_head("w", COMPLEX64, {1}), ints("", {1}, {0}), {2}));
  add("without_values", "T2", "", sparse(Msg().s(8, "w"), ints("", {2}, {0, 1}), {2, 3}));
  add("without_indices", "T2", "", sparse(two, Msg(), {2, 3}));
  add("of_65_dimensions", "T2014", "65 dimensions",
      sparse(two, ints("", {2}, {0, 1}), std::vector<int64_t>(65, 1)));
  add("of_overflowing_size", "T2015", "tensor 'w' of 9223372036854775807",
      sparse(two, ints("", {2}, {0, 1}), {INT64_MAX, INT64_MAX}));
  add("larger_than_memory", "T2015", "tensor 'w' of 2147483648×1048576 elements is larger",
      sparse(two, ints("", {2}, {0, 1}), {1ll << 31, 1 << 20}));
  add("outside_of_the_folder", "T2016", "leaves",
      sparse(external("w", {2}, {{"location", "../w.bin"}}), ints("", {2}, {0, 1}), {2, 3}));
  // 20 tensors of 16 MB as dense ones, from a kilobyte.
  Msg g = onnx_graph({{here("Add", {"x", "w0"})}, {}, {x}, {value("y", FLOAT, {})}});
  std::vector<Msg> reading;
  for (int i = 0; i < 20; ++i) {
    const std::string name = "w" + std::to_string(i);
    g.m(15, sparse(floats(name, {1}, {1}), ints("", {1}, {0}), {1 << 11, 1 << 11}));
    g.m(1, node("Relu", {name}, {"r" + std::to_string(i)}));
  }
  c.add("sparse_many", "T2015", "as dense ones", model(g).bytes);
  g = onnx_graph(
      {{here("Add", {"x", "w"})}, {floats("w", {2, 3}, {1, 2, 3, 4, 5, 6})}, {x}, {value("y", FLOAT, {})}});
  c.add("sparse_and_dense", "T2010", "defined twice",
        model(g.m(15, sparse(two, ints("", {2}, {0, 1}), {2, 3}))).bytes);
  g = onnx_graph({{here("Add", {"x", "w"})}, {}, {x}, {value("y", FLOAT, {})}});
  const Msg good = sparse(two, ints("", {2}, {0, 1}), {2, 3});
  c.add("sparse_twice", "T2010", "defined twice", model(g.m(15, good).m(15, good)).bytes);
  g = onnx_graph({{here("Relu", {"x"})}, {}, {x}, {value("y", FLOAT, {})}});
  c.add("sparse_nameless", "T2014", "has no name",
        model(g.m(15, sparse(floats("", {1}, {5}), ints("", {1}, {0}), {2, 3}))).bytes);
  c.add("sparse_and_value", "T2020", "more than one value",
        of({node("Constant", {}, {"w"},
                 {Msg().s(1, "sparse_value").m(22, good).i(20, 11), attr_f("value_float", 1)}, "c"),
            here("Add", {"x", "w"})},
           {x}));
  return c.all;
}

std::vector<HostileFile> external_data() {
  Cases c;
  const Msg x = value("x", FLOAT, {2, 3});
  using Entries = std::vector<std::pair<std::string, std::string>>;
  const auto data = [](const Folder& f) { f.write("w.bin", std::string(24, 'a')); };
  const auto add = [&](const std::string& name, const std::string& code, const std::string& part,
                       const Msg& t, std::function<void(const Folder&)> prepare = {}) {
    c.add("data_" + name, code, part, of({here("Add", {"x", "w"})}, {x}, {t}), prepare);
  };
  const auto at = [&](const std::string& name, const std::string& code, const std::string& part,
                      const Entries& e, std::function<void(const Folder&)> prepare = {}) {
    add(name, code, part, external("w", {2, 3}, e), prepare);
  };
  at("in_dots", "T2016", "leaves", {{"location", ".."}});
  at("in_the_folder_itself", "T2016", "not a regular file", {{"location", "."}});
  at("behind_folders", "T2016", "leaves", {{"location", "./a/b/../../../w.bin"}});
  at("behind_slashes", "T2016", "leaves", {{"location", "a//..//..//w.bin"}});
  at("on_a_share", "T2016", "absolute", {{"location", "\\\\server\\w.bin"}});
  at("in_backslashes", "T2", "", {{"location", "..\\w.bin"}});
  at("at_an_address", "T2", "", {{"location", "file:///etc/passwd"}});
  at("in_escapes", "T2017", "is missing", {{"location", "%2e%2e/w.bin"}});
  at("in_a_long_name", "T2017", "", {{"location", std::string(100'000, 'a')}});
  at("in_a_ring_of_links", "T2017", "", {{"location", "a"}}, [](const Folder& f) {
    fs::create_symlink("b", f.path + "/a");
    fs::create_symlink("a", f.path + "/b");
  });
  at("on_a_device", "T2016", "leads out of", {{"location", "zero"}},
     [](const Folder& f) { fs::create_symlink("/dev/zero", f.path + "/zero"); });
  at("offset_overflows", "T2018", "impossible offset",
     {{"location", "w.bin"}, {"offset", "18446744073709551616"}}, data);
  at("length_overflows", "T2018", "impossible length",
     {{"location", "w.bin"}, {"length", "99999999999999999999"}}, data);
  at("length_is_negative", "T2018", "impossible length", {{"location", "w.bin"}, {"length", "-24"}}, data);
  at("length_is_empty", "T2018", "impossible length", {{"location", "w.bin"}, {"length", ""}}, data);
  at("offset_is_hexadecimal", "T2018", "impossible offset", {{"location", "w.bin"}, {"offset", "0x0"}}, data);
  at("length_beyond_the_file", "T2014", "its external data has",
     {{"location", "w.bin"}, {"length", "9223372036854775807"}}, data);
  at("last_location", "T2016", "leaves", {{"location", "w.bin"}, {"location", "../w.bin"}}, data);
  add("of_overflowing_size", "T2015", "", external("w", {kBig, kBig}, {{"location", "w.bin"}}), data);
  add("of_huge_size", "T2015", "", external("w", {int64_t(1) << 45}, {{"location", "w.bin"}}), data);
  add("of_more_than_the_file", "T2018", "which has 24", external("w", {1 << 28}, {{"location", "w.bin"}}),
      data);
  add("of_nothing_overflowing", "T2017", "is missing",
      external("w", {kBig, kBig, 0}, {{"location", "w.bin"}}));
  add("of_no_type", "T2014", "no element type",
      Msg().i(1, 2).s(8, "w").m(13, Msg().s(1, "location").s(2, "w.bin")).i(14, 1), data);
  add("without_entries", "T2016", "names no file", tensor_head("w", FLOAT, {2, 3}).i(14, 1));
  add("at_another_place", "T2014", "unknown place 7", floats("w", {2, 3}, {1, 2, 3, 4, 5, 6}).i(14, 7));
  const Msg inside = attr_t("value", external("", {2, 3}, {{"location", "../w.bin"}}));
  c.add("data_of_a_constant", "T2016", "leaves",
        of({node("Constant", {}, {"w"}, {inside}), here("Add", {"x", "w"})}, {x}));
  const Msg branch = onnx_graph({{node("Constant", {}, {"t"}, {inside})}, {}, {}, {value("t", FLOAT, {})}});
  c.add("data_in_a_branch", "T2016", "leaves",
        of({here("If", {"b"}, {attr_g("then_branch", branch), attr_g("else_branch", branch)})},
           {value("b", BOOL, {})}));
  Msg f = Msg().s(1, "F").s(5, "o").m(7, node("Constant", {}, {"o"}, {inside})).m(9, opset(20)).s(10, "f");
  c.add("data_in_a_function", "T2016", "leaves",
        model({{node("F", {}, {"y"}, {}, "here", "f")}, {}, {x}, {value("y", FLOAT, {})}})
            .m(8, opset(1, "f"))
            .m(25, f)
            .bytes);
  return c.all;
}

class HostileValues : public testing::TestWithParam<HostileFile> {};
TEST_P(HostileValues, AreRefusedByName) { expect_refused(GetParam()); }
TENON_HOSTILE(HostileValues, Containers, containers);
TENON_HOSTILE(HostileValues, ForTensors, containers_for_tensors);
TENON_HOSTILE(HostileValues, DeclaredTypes, declared_types);
TENON_HOSTILE(HostileValues, Strings, strings);
TENON_HOSTILE(HostileValues, Sparse, sparse_tensors);
TENON_HOSTILE(HostileValues, ExternalData, external_data);

}  // namespace
}  // namespace tenon
