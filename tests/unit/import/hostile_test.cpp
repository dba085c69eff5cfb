// SPDX-License-Identifier: Apache-2.0
// Bad model files: each must end in its own coded message that names what and where, quickly and without
// growing memory. Here what is wrong with a file, its versions, names, tensors and data beside it.
#include <filesystem>

#include "hostile_models.h"

namespace tenon {
namespace {

using namespace test;
namespace fs = std::filesystem;

GraphParts with_init(Msg t) { return with_node(node("Add", {"x", "w"}, {"y"}, {}, "add"), {std::move(t)}); }
Msg tensor_with(int elem, std::vector<int64_t> dims) { return tensor_head("w", elem, dims); }

std::vector<HostileFile> files() {
  Cases c;
  const std::string good = model(relu_parts()).bytes;
  c.add("empty", "T2001", "is empty", "");
  c.add("zip", "T2001", "ZIP archive", "PK\x03\x04" + std::string(60, 'x'));
  c.add("text", "T2001", "not an ONNX model", "hello, this is no model\n");
  c.add("html", "T2001", "web page", "<!DOCTYPE html><html></html>");
  c.add("lfs_pointer", "T2001", "Git LFS",
        "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
  c.add("hdf5", "T2001", "HDF5", "\x89HDF\r\n\x1a\n" + std::string(30, '\0'));
  c.add("gzip", "T2001", "compressed", "\x1f\x8b\x08" + std::string(30, '\0'));
  c.add("noise", "T2001", "not an ONNX model", "\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8\xf7\xf6\xf5");
  c.add("zeros", "T2001", "not an ONNX model", std::string(64, '\0'));
  c.add("no_graph", "T2001", "has no graph", Msg().i(1, 8).m(8, opset(17)).bytes);
  c.add("truncated_graph", "T2001", "not an ONNX model", good.substr(0, good.size() / 2));
  c.add("truncated_end", "T2002", "truncated", good.substr(0, good.size() - 1));
  c.add("length_beyond", "T2002", "announced where",
        Msg().i(1, 8).m(8, opset(17)).raw(std::string("\x3a\xff\x7f", 3) + "abc").bytes);
  c.add("inner_length", "T2002", "inside a node",
        model(onnx_graph({}).m(1, Msg().raw(std::string("\x0a\x50"
                                                        "abc",
                                                        5))))
            .bytes);
  c.add("bad_field_number", "T2002", "impossible number",
        Msg().m(8, opset(17)).raw(std::string("\x00\x00", 2)).bytes);
  c.add("bad_wire_type", "T2002", "unknown encoding", Msg().m(8, opset(17)).raw("\x3f\x01").bytes);
  c.add("endless_varint", "T2002", "ends early",
        Msg().m(8, opset(17)).raw("\x08" + std::string(12, '\xff')).bytes);
  {
    HostileFile k{"too_large", "T2003", "limit of 16 bytes", good};
    k.options.max_file_bytes = 16;
    c.all.push_back(k);
  }
  {
    Msg g = onnx_graph(relu_parts());
    std::string tiny;
    for (int i = 0; i < 400'000; ++i) tiny += std::string("\x0a\x00", 2);  // empty nodes: 2 bytes each
    c.add("tiny_parts", "T2004", "too many tiny parts", model(g.raw(tiny)).bytes);
  }
  {
    Msg deep;
    for (int i = 0; i < 1000; ++i) deep = Msg().m(1, Msg().m(5, Msg().s(1, "g").m(6, deep)));
    c.add("deep", "T2005", "deeper than", model(deep).bytes);
  }
  c.add("deep_types", "T2005", "deeper than", [&] {
    Msg t;
    for (int i = 0; i < 2000; ++i) t = Msg().m(4, Msg().m(1, t));
    return model(onnx_graph(relu_parts()).m(11, Msg().s(1, "z").m(2, t))).bytes;
  }());
  return c.all;
}

std::vector<HostileFile> versions() {
  Cases c;
  c.add("no_ir_version", "T2006", "does not say which version",
        Msg().m(7, onnx_graph(relu_parts())).m(8, opset(17)).bytes);
  c.add("future_ir_version", "T2006", "version 1000", model(onnx_graph(relu_parts()), 17, 1000).bytes);
  c.add("no_opset", "T2007", "which operator set", Msg().i(1, 8).m(7, onnx_graph(relu_parts())).bytes);
  c.add(
      "old_opset", "T2008", "Cast of operator set 5",
      model({{node("Cast", {"x"}, {"y"})}, {}, {value("x", FLOAT, {2})}, {value("y", FLOAT, {2})}}, 5).bytes);
  c.add("future_opset", "T2008", "operator set 99", model(relu_parts(), 99).bytes);
  c.add("negative_opset", "T2008", "operator set -3", model(relu_parts(), -3).bytes);
  c.add("foreign_domain", "T2101", "my.domain::Relu", one(node("Relu", {"x"}, {"y"}, {}, "r", "my.domain")));
  c.add("operator_of_later_set", "T2020", "does not exist in operator set 17",
        one(node("Gelu", {"x"}, {"y"})));
  return c.all;
}

std::vector<HostileFile> graphs() {
  Cases c;
  c.add("no_outputs", "T2013", "no outputs",
        model({{node("Relu", {"x"}, {"y"})}, {}, {value("x", FLOAT, {2})}, {}}).bytes);
  c.add("undefined_output", "T2013", "'z' is not defined",
        model({{node("Relu", {"x"}, {"y"})}, {}, {value("x", FLOAT, {2})}, {value("z", FLOAT, {2})}}).bytes);
  c.add("undefined_input", "T2011", "'nowhere' is not defined",
        one(node("Add", {"x", "nowhere"}, {"y"}, {}, "a")));
  c.add("cycle", "T2012", "cycle",
        model({{node("Add", {"x", "b"}, {"a"}, {}, "n1"), node("Relu", {"a"}, {"b"}, {}, "n2")},
               {},
               {value("x", FLOAT, {2})},
               {value("b", FLOAT, {2})}})
            .bytes);
  c.add("self_cycle", "T2012", "'loop'",
        model({{node("Add", {"x", "y"}, {"y"}, {}, "loop")},
               {},
               {value("x", FLOAT, {2})},
               {value("y", FLOAT, {2})}})
            .bytes);
  c.add("output_twice", "T2010", "'y' is defined twice",
        model({{node("Relu", {"x"}, {"y"}), node("Neg", {"x"}, {"y"})},
               {},
               {value("x", FLOAT, {2})},
               {value("y", FLOAT, {2})}})
            .bytes);
  c.add("input_twice", "T2010", "'x' is defined twice",
        model({{node("Relu", {"x"}, {"y"})},
               {},
               {value("x", FLOAT, {2}), value("x", FLOAT, {2})},
               {value("y", FLOAT, {2})}})
            .bytes);
  c.add(
      "initializer_twice", "T2010", "'w' is defined twice",
      model(with_node(node("Add", {"x", "w"}, {"y"}), {floats("w", {1}, {1}), floats("w", {1}, {2})})).bytes);
  c.add("node_hides_input", "T2010", "'x' is defined twice",
        model({{node("Neg", {"x"}, {"x"})}, {}, {value("x", FLOAT, {2})}, {value("x", FLOAT, {2})}}).bytes);
  c.add("nameless_input", "T2022", "no name",
        model({{node("Relu", {"x"}, {"y"})}, {}, {value("", FLOAT, {2})}, {value("y", FLOAT, {2})}}).bytes);
  c.add("input_without_type", "T2022", "has no type",
        model({{node("Relu", {"x"}, {"y"})}, {}, {Msg().s(1, "x")}, {value("y", FLOAT, {2})}}).bytes);
  c.add("input_without_elements", "T2022", "no element type",
        model({{node("Relu", {"x"}, {"y"})}, {}, {value("x", 0, {2})}, {value("y", FLOAT, {2})}}).bytes);
  const auto declares = [&](const std::string& name, const std::string& part, const Msg& output) {
    c.add("output_declared_" + name, "T2023", part,
          model({{node("Relu", {"x"}, {"y"})}, {}, {value("x", FLOAT, {2, 3})}, {output}}).bytes);
  };
  declares("of_integers", "as tensor(int64), and its node makes tensor(float32)", value("y", INT64, {2, 3}));
  declares("of_texts", "as tensor(string)", value("y", STRING, {2, 3}));
  c.add("sum_of_strings", "T2103", "the operator does not take",
        model({{node("Add", {"x", "x"}, {"y"})}, {}, {value("x", STRING, {2})}, {value("y", STRING, {2})}})
            .bytes);
  c.add("strings_and_numbers", "T2020", "elements of one type",
        model({{node("Concat", {"x", "z"}, {"y"}, {attr_i("axis", 0)})},
               {},
               {value("x", STRING, {2}), value("z", INT64, {2})},
               {value("y", STRING, {4})}})
            .bytes);
  c.add("unknown_type", "T2103", "type 77",
        model({{node("Identity", {"x"}, {"y"})}, {}, {value("x", 77, {2})}, {value("y", 77, {2})}}).bytes);
  const auto typed_input = [&](const Msg& type, const Msg& n) {
    return model({{n}, {}, {Msg().s(1, "x").m(2, type)}, {value("y", FLOAT, {})}}).bytes;
  };
  const Msg of_floats = Msg().m(1, Msg().i(1, FLOAT));
  c.add("map_of_bool_keys", "T2103", "a container of values whose type is not supported",
        typed_input(Msg().m(5, Msg().i(1, 9).m(2, of_floats)), node("Identity", {"x"}, {"y"})));
  c.add(
      "sequence_of_complex", "T2103", "not supported",
      typed_input(Msg().m(4, Msg().m(1, Msg().m(1, Msg().i(1, COMPLEX64)))), node("Identity", {"x"}, {"y"})));
  c.add("sum_of_a_sequence", "T2103", "the operator does not take",
        typed_input(Msg().m(4, Msg().m(1, of_floats)), node("Relu", {"x"}, {"y"})));
  c.add("shape_of_a_sequence", "T2103", "not supported",
        typed_input(Msg().m(4, Msg().m(1, of_floats)), node("Shape", {"x"}, {"y"})));
  c.add("item_of_a_tensor", "T2020", "must be a sequence",
        model(with_node(node("SequenceAt", {"x", "x"}, {"y"}))).bytes);
  Msg nested = of_floats;
  for (int i = 0; i < 60; ++i) nested = Msg().m(4, Msg().m(1, nested));
  c.add("nested_sequences", "T2103", "not supported", typed_input(nested, node("Identity", {"x"}, {"y"})));
  c.add("negative_dimension", "T2014", "negative dimension -7",
        model({{node("Relu", {"x"}, {"y"})}, {}, {value("x", FLOAT, {-7})}, {value("y", FLOAT, {})}}).bytes);
  c.add("absurd_input", "T2015", "more elements than can be counted",
        model({{node("Relu", {"x"}, {"y"})},
               {},
               {value("x", FLOAT, {int64_t(1) << 40, int64_t(1) << 40})},
               {value("y", FLOAT, {})}})
            .bytes);
  c.add("large_input", "T2015", "larger than the limit",
        model({{node("Relu", {"x"}, {"y"})},
               {},
               {value("x", FLOAT, {int64_t(1) << 50})},
               {value("y", FLOAT, {})}})
            .bytes);
  return c.all;
}

std::vector<HostileFile> tensors() {
  Cases c;
  c.add("raw_size", "T2014", "needs 24 bytes in raw_data, the file has 20",
        model(with_init(floats("w", {2, 3}, {1, 2, 3, 4, 5}))).bytes);
  c.add("float_data_count", "T2014", "needs 6 values in float_data, the file has 1",
        model(with_init(tensor_with(FLOAT, {2, 3}).f(4, 1.f))).bytes);
  c.add("no_data", "T2014", "needs 6 values in float_data, the file has 0",
        model(with_init(tensor_with(FLOAT, {2, 3}))).bytes);
  c.add("two_payloads", "T2014", "more than one field",
        model(with_init(floats("w", {1}, {1}).f(4, 1.f))).bytes);
  c.add("int4_count", "T2014", "needs 2 values in int32_data",
        model(with_init(tensor_with(INT4, {3}).i(5, 1))).bytes);
  c.add("tensor_without_type", "T2014", "no element type",
        model(with_init(tensor_with(0, {1}).f(4, 1.f))).bytes);
  c.add("number_of_strings", "T2014", "2 strings has 1",
        model(with_init(tensor_with(STRING, {2}).s(6, "a"))).bytes);
  c.add("tensor_of_complex", "T2103", "complex64",
        model(with_init(tensor_with(COMPLEX64, {1}).f(4, 1.f).f(4, 2.f))).bytes);
  c.add("negative_tensor_dimension", "T2014", "negative dimension -2",
        model(with_init(tensor_with(FLOAT, {-2, 3}))).bytes);
  c.add("overflowing_tensor", "T2015", "too large",
        model(with_init(tensor_with(FLOAT, {int64_t(1) << 40, int64_t(1) << 40}))).bytes);
  c.add("huge_tensor", "T2015", "limit", model(with_init(tensor_with(FLOAT, {int64_t(1) << 45}))).bytes);
  c.add("nameless_initializer", "T2014", "has no name", model(with_init(floats("", {1}, {1}))).bytes);
  c.add("many_dimensions", "T2014", "65 dimensions",
        model(with_init(tensor_with(FLOAT, std::vector<int64_t>(65, 1)).f(4, 1.f))).bytes);
  return c.all;
}

std::vector<HostileFile> external_data() {
  Cases c;
  auto outside = [&](std::string name, std::string code, std::string part,
                     std::vector<std::pair<std::string, std::string>> entries,
                     std::function<void(const Folder&)> prepare = {}) {
    c.add(std::move(name), std::move(code), std::move(part),
          model(with_init(external("w", {2, 3}, entries))).bytes, std::move(prepare));
  };
  auto data = [](const Folder& f) { f.write("w.bin", std::string(24, 'a')); };
  outside("external_missing", "T2017", "is missing", {{"location", "absent.bin"}});
  outside("external_parent", "T2016", "leaves the model's folder", {{"location", "../secret.bin"}});
  outside("external_hidden_parent", "T2016", "leaves the model's folder",
          {{"location", "a/../../secret.bin"}});
  outside("external_absolute", "T2016", "absolute", {{"location", "/etc/passwd"}});
  outside("external_drive", "T2016", "absolute", {{"location", "C:\\weights.bin"}});
  outside("external_no_location", "T2016", "names no file", {{"offset", "0"}});
  outside("external_zero_byte", "T2016", "zero byte", {{"location", std::string("w.bin\0x", 7)}}, data);
  outside("external_symlink", "T2016", "leads out of", {{"location", "link.bin"}},
          [](const Folder& f) { fs::create_symlink("/etc/hostname", f.path + "/link.bin"); });
  outside("external_folder_symlink", "T2016", "leads out of", {{"location", "sub/passwd"}},
          [](const Folder& f) { fs::create_directory_symlink("/etc", f.path + "/sub"); });
  outside("external_fifo", "T2016", "not a regular file", {{"location", "pipe"}},
          [](const Folder& f) { mkfifo((f.path + "/pipe").c_str(), 0600); });
  outside("external_folder", "T2016", "not a regular file", {{"location", "sub"}},
          [](const Folder& f) { fs::create_directory(f.path + "/sub"); });
  outside("external_short", "T2018", "which has 24", {{"location", "w.bin"}, {"offset", "8"}}, data);
  outside("external_far_offset", "T2018", "which has 24",
          {{"location", "w.bin"}, {"offset", "9223372036854775807"}}, data);
  outside("external_bad_offset", "T2018", "impossible offset", {{"location", "w.bin"}, {"offset", "-8"}},
          data);
  outside("external_text_offset", "T2018", "impossible offset", {{"location", "w.bin"}, {"offset", "8x"}},
          data);
  outside("external_bad_length", "T2014", "its external data has 20",
          {{"location", "w.bin"}, {"length", "20"}}, data);
  return c.all;
}

class Hostile : public testing::TestWithParam<HostileFile> {};
TEST_P(Hostile, AreRefusedByName) { expect_refused(GetParam()); }
TENON_HOSTILE(Hostile, Files, files);
TENON_HOSTILE(Hostile, Versions, versions);
TENON_HOSTILE(Hostile, Graphs, graphs);
TENON_HOSTILE(Hostile, Tensors, tensors);
TENON_HOSTILE(Hostile, ExternalData, external_data);

TEST(Hostile, MissingFileIsAnInputError) {
  try {
    onnx::import_onnx("/nonexistent/model.onnx");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code, "T3001");
    EXPECT_EQ(e.kind, ErrorKind::io);
  }
}

TEST(Hostile, MemoryStaysSmall) {
  // 600 MB announced in a kilobyte: nothing of it may be allocated.
  for (const auto& list : {files(), versions(), graphs(), tensors(), external_data()})
    for (const HostileFile& c : list) {
      if (c.name.find("huge") == std::string::npos && c.name.find("overflow") == std::string::npos) continue;
      EXPECT_THROW(onnx::import_onnx_bytes(c.bytes, "m.onnx"), DiagnosticError);
    }
  EXPECT_LT(peak_kilobytes(), 700 * 1024);
}

}  // namespace
}  // namespace tenon
