// SPDX-License-Identifier: Apache-2.0
// Bad model files: each must end in its own coded message that names what and where, quickly and without
// growing memory; and whatever bytes come, nothing but success or an error follows.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "hostile.h"

namespace tenon {
namespace {

using namespace test;
namespace fs = std::filesystem;

GraphParts with_node(Msg n, std::vector<Msg> initializers = {}) {
  return {{std::move(n)}, std::move(initializers), {value("x", FLOAT, {2, 3})}, {value("y", FLOAT, {2, 3})}};
}
GraphParts with_init(Msg t) { return with_node(node("Add", {"x", "w"}, {"y"}, {}, "add"), {std::move(t)}); }
std::string one(Msg n, std::vector<Msg> initializers = {}, int64_t version = 17) {
  return model(with_node(std::move(n), std::move(initializers)), version).bytes;
}
Msg tensor_with(int elem, std::vector<int64_t> dims) { return tensor_head("w", elem, dims); }
GraphParts conv(std::vector<Msg> attributes, std::vector<int64_t> weight = {4, 1, 3, 3}) {
  int64_t n = 1;
  for (int64_t d : weight) n *= d;
  return {{node("Conv", {"x", "w"}, {"y"}, attributes, "c")},
          {floats("w", weight, std::vector<float>(size_t(n), 0.5f))},
          {value("x", FLOAT, {1, 1, 8, 8})},
          {value("y", FLOAT, {})}};
}
Msg nested_if(int depth) {
  Msg g = onnx_graph({{node("Relu", {"x"}, {"t0"})}, {}, {}, {value("t0", FLOAT, {})}});
  for (int i = 1; i <= depth; ++i) {
    const std::string out = "t" + std::to_string(i);
    g = onnx_graph(
        {{node("If", {"c"}, {out},
               {attr_g("then_branch", g),
                attr_g("else_branch",
                       onnx_graph({{node("Neg", {"x"}, {"e"})}, {}, {}, {value("e", FLOAT, {})}}))})},
         {},
         {},
         {value(out, FLOAT, {})}});
  }
  return g;
}

std::vector<HostileFile> cases() {
  std::vector<HostileFile> c;
  const std::string good = model(relu_parts()).bytes;
  auto add = [&](std::string name, std::string code, std::string part, std::string bytes) {
    c.push_back({std::move(name), std::move(code), std::move(part), std::move(bytes)});
  };

  // --- the file
  add("empty", "T2001", "is empty", "");
  add("zip", "T2001", "ZIP archive", "PK\x03\x04" + std::string(60, 'x'));
  add("text", "T2001", "not an ONNX model", "hello, this is no model\n");
  add("html", "T2001", "web page", "<!DOCTYPE html><html></html>");
  add("lfs_pointer", "T2001", "Git LFS",
      "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
  add("hdf5", "T2001", "HDF5", "\x89HDF\r\n\x1a\n" + std::string(30, '\0'));
  add("gzip", "T2001", "compressed", "\x1f\x8b\x08" + std::string(30, '\0'));
  add("noise", "T2001", "not an ONNX model", "\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8\xf7\xf6\xf5");
  add("zeros", "T2001", "not an ONNX model", std::string(64, '\0'));
  add("no_graph", "T2001", "has no graph", Msg().i(1, 8).m(8, opset(17)).bytes);
  add("truncated_graph", "T2001", "not an ONNX model", good.substr(0, good.size() / 2));
  add("truncated_end", "T2002", "truncated", good.substr(0, good.size() - 1));
  add("length_beyond", "T2002", "announced where",
      Msg().i(1, 8).m(8, opset(17)).raw(std::string("\x3a\xff\x7f", 3) + "abc").bytes);
  add("inner_length", "T2002", "inside a node",
      model(onnx_graph({}).m(1, Msg().raw(std::string("\x0a\x50"
                                                      "abc",
                                                      5))))
          .bytes);
  add("bad_field_number", "T2002", "impossible number",
      Msg().m(8, opset(17)).raw(std::string("\x00\x00", 2)).bytes);
  add("bad_wire_type", "T2002", "unknown encoding", Msg().m(8, opset(17)).raw("\x3f\x01").bytes);
  add("endless_varint", "T2002", "ends early",
      Msg().m(8, opset(17)).raw("\x08" + std::string(12, '\xff')).bytes);
  {
    HostileFile k{"too_large", "T2003", "limit of 16 bytes", good};
    k.options.max_file_bytes = 16;
    c.push_back(k);
  }
  {
    Msg g = onnx_graph(relu_parts());
    std::string tiny;
    for (int i = 0; i < 400'000; ++i) tiny += std::string("\x0a\x00", 2);  // empty nodes: 2 bytes each
    add("tiny_parts", "T2004", "too many tiny parts", model(g.raw(tiny)).bytes);
  }
  {
    Msg deep;
    for (int i = 0; i < 1000; ++i) deep = Msg().m(1, Msg().m(5, Msg().s(1, "g").m(6, deep)));
    add("deep", "T2005", "deeper than", model(deep).bytes);
  }
  add("deep_types", "T2005", "deeper than", [&] {
    Msg t;
    for (int i = 0; i < 2000; ++i) t = Msg().m(4, Msg().m(1, t));
    return model(onnx_graph(relu_parts()).m(11, Msg().s(1, "z").m(2, t))).bytes;
  }());

  // --- versions
  add("no_ir_version", "T2006", "does not say which version",
      Msg().m(7, onnx_graph(relu_parts())).m(8, opset(17)).bytes);
  add("future_ir_version", "T2006", "version 1000", model(onnx_graph(relu_parts()), 17, 1000).bytes);
  add("no_opset", "T2007", "which operator set", Msg().i(1, 8).m(7, onnx_graph(relu_parts())).bytes);
  add("old_opset", "T2008", "Cast of operator set 5",
      model({{node("Cast", {"x"}, {"y"})}, {}, {value("x", FLOAT, {2})}, {value("y", FLOAT, {2})}}, 5).bytes);
  add("future_opset", "T2008", "operator set 99", model(relu_parts(), 99).bytes);
  add("negative_opset", "T2008", "operator set -3", model(relu_parts(), -3).bytes);
  add("foreign_domain", "T2101", "my.domain::Relu", one(node("Relu", {"x"}, {"y"}, {}, "r", "my.domain")));
  add("operator_of_later_set", "T2020", "does not exist in operator set 17", one(node("Gelu", {"x"}, {"y"})));

  // --- the graph
  add("no_outputs", "T2013", "no outputs",
      model({{node("Relu", {"x"}, {"y"})}, {}, {value("x", FLOAT, {2})}, {}}).bytes);
  add("undefined_output", "T2013", "'z' is not defined",
      model({{node("Relu", {"x"}, {"y"})}, {}, {value("x", FLOAT, {2})}, {value("z", FLOAT, {2})}}).bytes);
  add("undefined_input", "T2011", "'nowhere' is not defined",
      one(node("Add", {"x", "nowhere"}, {"y"}, {}, "a")));
  add("cycle", "T2012", "cycle",
      model({{node("Add", {"x", "b"}, {"a"}, {}, "n1"), node("Relu", {"a"}, {"b"}, {}, "n2")},
             {},
             {value("x", FLOAT, {2})},
             {value("b", FLOAT, {2})}})
          .bytes);
  add("self_cycle", "T2012", "'loop'",
      model({{node("Add", {"x", "y"}, {"y"}, {}, "loop")},
             {},
             {value("x", FLOAT, {2})},
             {value("y", FLOAT, {2})}})
          .bytes);
  add("output_twice", "T2010", "'y' is defined twice",
      model({{node("Relu", {"x"}, {"y"}), node("Neg", {"x"}, {"y"})},
             {},
             {value("x", FLOAT, {2})},
             {value("y", FLOAT, {2})}})
          .bytes);
  add("input_twice", "T2010", "'x' is defined twice",
      model({{node("Relu", {"x"}, {"y"})},
             {},
             {value("x", FLOAT, {2}), value("x", FLOAT, {2})},
             {value("y", FLOAT, {2})}})
          .bytes);
  add("initializer_twice", "T2010", "'w' is defined twice",
      model(with_node(node("Add", {"x", "w"}, {"y"}), {floats("w", {1}, {1}), floats("w", {1}, {2})})).bytes);
  add("node_hides_input", "T2010", "'x' is defined twice",
      model({{node("Neg", {"x"}, {"x"})}, {}, {value("x", FLOAT, {2})}, {value("x", FLOAT, {2})}}).bytes);
  add("nameless_input", "T2022", "no name",
      model({{node("Relu", {"x"}, {"y"})}, {}, {value("", FLOAT, {2})}, {value("y", FLOAT, {2})}}).bytes);
  add("input_without_type", "T2022", "has no type",
      model({{node("Relu", {"x"}, {"y"})}, {}, {Msg().s(1, "x")}, {value("y", FLOAT, {2})}}).bytes);
  add("input_without_elements", "T2022", "no element type",
      model({{node("Relu", {"x"}, {"y"})}, {}, {value("x", 0, {2})}, {value("y", FLOAT, {2})}}).bytes);
  add("sum_of_strings", "T2103", "the operator does not take",
      model({{node("Add", {"x", "x"}, {"y"})}, {}, {value("x", STRING, {2})}, {value("y", STRING, {2})}})
          .bytes);
  add("strings_and_numbers", "T2020", "elements of one type",
      model({{node("Concat", {"x", "z"}, {"y"}, {attr_i("axis", 0)})},
             {},
             {value("x", STRING, {2}), value("z", INT64, {2})},
             {value("y", STRING, {4})}})
          .bytes);
  add("unknown_type", "T2103", "type 77",
      model({{node("Identity", {"x"}, {"y"})}, {}, {value("x", 77, {2})}, {value("y", 77, {2})}}).bytes);
  const auto typed_input = [&](const Msg& type, const Msg& n) {
    return model({{n}, {}, {Msg().s(1, "x").m(2, type)}, {value("y", FLOAT, {})}}).bytes;
  };
  const Msg of_floats = Msg().m(1, Msg().i(1, FLOAT));
  add("map_of_bool_keys", "T2103", "a container of values whose type is not supported",
      typed_input(Msg().m(5, Msg().i(1, 9).m(2, of_floats)), node("Identity", {"x"}, {"y"})));
  add("sequence_of_complex", "T2103", "not supported",
      typed_input(Msg().m(4, Msg().m(1, Msg().m(1, Msg().i(1, COMPLEX64)))), node("Identity", {"x"}, {"y"})));
  add("sum_of_a_sequence", "T2103", "the operator does not take",
      typed_input(Msg().m(4, Msg().m(1, of_floats)), node("Relu", {"x"}, {"y"})));
  add("shape_of_a_sequence", "T2103", "not supported",
      typed_input(Msg().m(4, Msg().m(1, of_floats)), node("Shape", {"x"}, {"y"})));
  add("item_of_a_tensor", "T2020", "must be a sequence",
      model(with_node(node("SequenceAt", {"x", "x"}, {"y"}))).bytes);
  Msg nested = of_floats;
  for (int i = 0; i < 60; ++i) nested = Msg().m(4, Msg().m(1, nested));
  add("nested_sequences", "T2103", "not supported", typed_input(nested, node("Identity", {"x"}, {"y"})));
  add("negative_dimension", "T2014", "negative dimension -7",
      model({{node("Relu", {"x"}, {"y"})}, {}, {value("x", FLOAT, {-7})}, {value("y", FLOAT, {})}}).bytes);
  add("absurd_input", "T2015", "more elements than can be counted",
      model({{node("Relu", {"x"}, {"y"})},
             {},
             {value("x", FLOAT, {int64_t(1) << 40, int64_t(1) << 40})},
             {value("y", FLOAT, {})}})
          .bytes);
  add("large_input", "T2015", "larger than the limit",
      model({{node("Relu", {"x"}, {"y"})},
             {},
             {value("x", FLOAT, {int64_t(1) << 50})},
             {value("y", FLOAT, {})}})
          .bytes);

  // --- tensors
  add("raw_size", "T2014", "needs 24 bytes in raw_data, the file has 20",
      model(with_init(floats("w", {2, 3}, {1, 2, 3, 4, 5}))).bytes);
  add("float_data_count", "T2014", "needs 6 values in float_data, the file has 1",
      model(with_init(tensor_with(FLOAT, {2, 3}).f(4, 1.f))).bytes);
  add("no_data", "T2014", "needs 6 values in float_data, the file has 0",
      model(with_init(tensor_with(FLOAT, {2, 3}))).bytes);
  add("two_payloads", "T2014", "more than one field",
      model(with_init(floats("w", {1}, {1}).f(4, 1.f))).bytes);
  add("int4_count", "T2014", "needs 2 values in int32_data",
      model(with_init(tensor_with(INT4, {3}).i(5, 1))).bytes);
  add("tensor_without_type", "T2014", "no element type",
      model(with_init(tensor_with(0, {1}).f(4, 1.f))).bytes);
  add("number_of_strings", "T2014", "2 strings has 1",
      model(with_init(tensor_with(STRING, {2}).s(6, "a"))).bytes);
  add("tensor_of_complex", "T2103", "complex64",
      model(with_init(tensor_with(COMPLEX64, {1}).f(4, 1.f).f(4, 2.f))).bytes);
  add("negative_tensor_dimension", "T2014", "negative dimension -2",
      model(with_init(tensor_with(FLOAT, {-2, 3}))).bytes);
  add("overflowing_tensor", "T2015", "too large",
      model(with_init(tensor_with(FLOAT, {int64_t(1) << 40, int64_t(1) << 40}))).bytes);
  add("huge_tensor", "T2015", "limit", model(with_init(tensor_with(FLOAT, {int64_t(1) << 45}))).bytes);
  add("nameless_initializer", "T2014", "has no name", model(with_init(floats("", {1}, {1}))).bytes);
  add("many_dimensions", "T2014", "65 dimensions",
      model(with_init(tensor_with(FLOAT, std::vector<int64_t>(65, 1)).f(4, 1.f))).bytes);

  // --- external data
  auto outside = [&](std::string name, std::string code, std::string part,
                     std::vector<std::pair<std::string, std::string>> entries,
                     std::function<void(const Folder&)> prepare = {}) {
    c.push_back({std::move(name), std::move(code), std::move(part),
                 model(with_init(external("w", {2, 3}, entries))).bytes, std::move(prepare)});
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

  // --- nodes
  add("unknown_operator", "T2101", "'Frobnicate' is not supported (1 node: 'f')",
      one(node("Frobnicate", {"x"}, {"y"}, {}, "f")));
  add("loop", "T2020", "needs the graph 'body'", one(node("Loop", {"x"}, {"y"})));
  add("missing_input", "T2020", "needs input 1", one(node("Sub", {"x", ""}, {"y"}, {}, "s")));
  add("too_few_inputs", "T2020", "takes 2 inputs, 1 are given", one(node("Sub", {"x"}, {"y"})));
  add("attribute_kind", "T2020", "'axis' of Softmax must be an integer",
      one(node("Softmax", {"x"}, {"y"}, {attr_s("axis", "one")})));
  add("missing_attribute", "T2020", "needs the attribute 'axis'", one(node("Concat", {"x", "x"}, {"y"})));
  add("axis_outside", "T2020", "axis 5 of Softmax is outside of rank 2",
      one(node("Softmax", {"x"}, {"y"}, {attr_i("axis", 5)})));
  add("bad_permutation", "T2020", "no permutation",
      one(node("Transpose", {"x"}, {"y"}, {attr_ints("perm", {0, 0})})));
  add("reshape_two_rests", "T2020", "more than one -1",
      one(node("Reshape", {"x", "s"}, {"y"}, {}, "r"), {ints("s", {2}, {-1, -1})}));
  add("reshape_negative", "T2020", "negative",
      one(node("Reshape", {"x", "s"}, {"y"}, {}, "r"), {ints("s", {2}, {-5, 3})}));
  add("reshape_size", "T11", "", one(node("Reshape", {"x", "s"}, {"y"}, {}, "r"), {ints("s", {2}, {4, 5})}));
  add("broadcast", "T11", "",
      model({{node("Add", {"x", "w"}, {"y"}, {}, "a")},
             {floats("w", {4}, {1, 2, 3, 4})},
             {value("x", FLOAT, {2, 3})},
             {value("y", FLOAT, {})}})
          .bytes);
  add("mixed_types", "T11", "", one(node("Add", {"x", "w"}, {"y"}, {}, "a"), {ints("w", {1}, {1})}));
  add("constant_of_shape_huge", "T2015", "larger than the limit",
      model({{node("ConstantOfShape", {"s"}, {"y"}, {}, "k")},
             {ints("s", {2}, {int64_t(1) << 40, int64_t(1) << 40})},
             {value("x", FLOAT, {2})},
             {value("y", FLOAT, {})}})
          .bytes);
  add("constant_of_shape_negative", "T2020", "negative size",
      model({{node("ConstantOfShape", {"s"}, {"y"}, {}, "k")},
             {ints("s", {1}, {-4})},
             {value("x", FLOAT, {2})},
             {value("y", FLOAT, {})}})
          .bytes);
  add("conv_strides", "T2020", "impossible value 0", model(conv({attr_ints("strides", {0, 1})})).bytes);
  add("conv_pads", "T2020", "needs 4 values", model(conv({attr_ints("pads", {1, 1})})).bytes);
  add("conv_negative_pads", "T2020", "impossible value -1",
      model(conv({attr_ints("pads", {-1, 0, 0, 0})})).bytes);
  add("conv_kernel", "T2020", "does not agree with the weight",
      model(conv({attr_ints("kernel_shape", {5, 5})})).bytes);
  add("conv_auto_pad", "T2020", "'SAME' of Conv is not known",
      model(conv({attr_s("auto_pad", "SAME")})).bytes);
  add("conv_weight_rank", "T2020", "has rank 3", model(conv({}, {4, 1, 9})).bytes);
  add("conv_groups", "T2020", "0 groups", model(conv({attr_i("group", 0)})).bytes);
  add("pool_pads", "T2020", "lie in the padding",
      model({{node("MaxPool", {"x"}, {"y"},
                   {attr_ints("kernel_shape", {2, 2}), attr_ints("pads", {2, 2, 2, 2})})},
             {},
             {value("x", FLOAT, {1, 1, 8, 8})},
             {value("y", FLOAT, {})}})
          .bytes);
  add("resize_scales", "T2020", "needs 2 scales",
      one(node("Resize", {"x", "", "s"}, {"y"}), {floats("s", {1}, {2})}));
  add("resize_scale_zero", "T2020", "has the scale 0",
      one(node("Resize", {"x", "", "s"}, {"y"}), {floats("s", {2}, {1, 0})}));
  for (const float s : {1e30f, 1e-30f})
    add(s > 1 ? "resize_scale_large" : "resize_scale_small", "T2020", "from n with the scale",
        model({{node("Resize", {"x", "", "s"}, {"y"})},
               {floats("s", {2}, {s, 1})},
               {value("x", FLOAT, {"n", 2})},
               {value("y", FLOAT, {})}})
            .bytes);
  add("resize_sizes_policy", "T2020", "has the size",
      one(node("Resize", {"x", "", "", "s"}, {"y"}, {attr_s("keep_aspect_ratio_policy", "not_smaller")}),
          {ints("s", {2}, {INT64_MAX, 1})}));
  add("slice_step_zero", "T2020", "step of Slice is zero",
      one(node("Slice", {"x", "a", "b", "a", "z"}, {"y"}),
          {ints("a", {1}, {0}), ints("b", {1}, {1}), ints("z", {1}, {0})}));
  add("pad_absurd", "T2020", "absurd width",
      one(node("Pad", {"x", "p"}, {"y"}), {ints("p", {4}, {int64_t(1) << 60, 0, 0, 0})}));
  add("dynamic_rank", "T2102", "a number of values that only the run knows",
      model({{node("Reshape", {"x", "r"}, {"a"}), node("Reshape", {"a", "s"}, {"b"}),
              node("Reshape", {"b", "t"}, {"y"})},
             {},
             {value("x", FLOAT, {2, 3}), value("r", INT64, {"n"}), value("s", INT64, {"m"}),
              value("t", INT64, {"k"})},
             {value("y", FLOAT, {})}})
          .bytes);
  add("gather_outside", "T2020", "index 9 of Gather",
      model({{node("Shape", {"x"}, {"s"}), node("Gather", {"s", "i"}, {"y"}, {}, "g")},
             {ints("i", {}, {9})},
             {value("x", FLOAT, {2, 3})},
             {value("y", INT64, {})}})
          .bytes);
  add("constant_without_value", "T2020", "has no value",
      model({{node("Constant", {}, {"y"})}, {}, {value("x", FLOAT, {2})}, {value("y", FLOAT, {})}}).bytes);
  add("branch_outputs", "T2020", "branches of If have",
      model({{node("If", {"c"}, {"y"},
                   {attr_g("then_branch",
                           onnx_graph({{node("Relu", {"x"}, {"t"})}, {}, {}, {value("t", FLOAT, {})}})),
                    attr_g("else_branch", onnx_graph({}))})},
             {},
             {value("x", FLOAT, {2}), value("c", BOOL, {})},
             {value("y", FLOAT, {})}})
          .bytes);

  // --- absurd sizes that a few numbers of a node make
  const auto sized = [&](const std::string& op, std::vector<std::string> in, std::vector<Msg> given,
                         std::vector<Msg> attributes = {}) {
    add("absurd_" + op, "T2015", "'big' (" + op, one(node(op, in, {"y"}, attributes, "big"), given));
  };
  const int64_t big = int64_t(1) << 40;
  sized("Tile", {"x", "r"}, {ints("r", {2}, {big, big})});
  sized("Expand", {"x", "r"}, {ints("r", {4}, {big, 1 << 20, 2, 3})});
  sized("Range", {"a", "b", "d"},
        {ints("a", {}, {0}), ints("b", {}, {int64_t(1) << 62}), ints("d", {}, {1})});
  sized("RandomUniform", {}, {}, {attr_ints("shape", {big, big})});
  sized("DFT", {"d", "r"}, {floats("d", {1, 4, 1}, {1, 2, 3, 4}), ints("r", {}, {big})});
  add("absurd_CenterCropPad", "T2015", "CenterCropPad",
      one(node("CenterCropPad", {"x", "r"}, {"y"}), {ints("r", {2}, {big, big})}, 18));

  // --- parameters of bodies
  const auto body_of = [](std::vector<Msg> nodes, const std::vector<std::string>& in,
                          const std::vector<std::string>& out) {
    GraphParts p{std::move(nodes), {}, {}, {}};
    for (const auto& i : in) p.inputs.push_back(value(i, FLOAT, {}, false));
    for (const auto& o : out) p.outputs.push_back(value(o, FLOAT, {}, false));
    return attr_g("body", onnx_graph(p));
  };
  add("loop_binds_twice", "T2010", "parameter 'v' is defined twice",
      one(node("Loop", {"n", "", "x", "x"}, {"y", "z"},
               {body_of({node("Relu", {"v"}, {"r"}), node("Identity", {"b"}, {"c"})}, {"i", "b", "v", "v"},
                        {"c", "r", "r"})},
               "l"),
          {ints("n", {}, {3})}));
  add("scan_binds_twice", "T2010", "parameter 'v' is defined twice",
      one(node("Scan", {"x", "x"}, {"y"},
               {attr_i("num_scan_inputs", 2), body_of({node("Relu", {"v"}, {"r"})}, {"v", "v"}, {"r"})},
               "s")));
  add("scan_lengths", "T2020", "input 1 of Scan has another length",
      one(node("Scan", {"x", "w"}, {"y"},
               {attr_i("num_scan_inputs", 2), body_of({node("Add", {"v", "u"}, {"r"})}, {"v", "u"}, {"r"})},
               "s"),
          {floats("w", {1, 3}, {1, 2, 3})}));

  // --- functions
  auto function = [](const std::string& name, std::vector<Msg> nodes) {
    Msg f = Msg().s(1, name).s(4, "a").s(5, "b");
    for (const Msg& n : nodes) f.m(7, n);
    return f.m(9, opset(17)).m(9, opset(1, "f")).s(10, "f");
  };
  auto with_functions = [&](std::vector<Msg> functions, const std::string& first) {
    Msg m = model(with_node(node(first, {"x"}, {"y"}, {}, "call", "f"))).m(8, opset(1, "f"));
    for (const Msg& f : functions) m.m(25, f);
    return m.bytes;
  };
  add("function_calls_itself", "T2021", "calls itself",
      with_functions({function("F", {node("F", {"a"}, {"b"}, {}, "again", "f")})}, "F"));
  add("function_ring", "T2021", "calls itself",
      with_functions({function("F", {node("G", {"a"}, {"b"}, {}, "", "f")}),
                      function("G", {node("F", {"a"}, {"b"}, {}, "", "f")})},
                     "F"));
  add("function_twice", "T2010", "'F' is defined twice",
      with_functions(
          {function("F", {node("Relu", {"a"}, {"b"})}), function("F", {node("Relu", {"a"}, {"b"})})}, "F"));
  add("function_binds_twice", "T2010", "parameter 'a' is defined twice", [&] {
    Msg f = Msg().s(1, "F").s(4, "a").s(4, "a").s(5, "b").m(7, node("Relu", {"a"}, {"b"}));
    f.m(9, opset(17)).m(9, opset(1, "f")).s(10, "f");
    return model(with_node(node("F", {"x", "x"}, {"y"}, {}, "call", "f"))).m(8, opset(1, "f")).m(25, f).bytes;
  }());
  add("function_inputs", "T2020", "takes 1 inputs, 2 are given", [&] {
    Msg m = model(with_node(node("F", {"x", "x"}, {"y"}, {}, "call", "f"))).m(8, opset(1, "f"));
    return m.m(25, function("F", {node("Relu", {"a"}, {"b"})})).bytes;
  }());
  {
    // Every level calls the next twice: 2^40 nodes from a kilobyte.
    std::vector<Msg> functions;
    for (int i = 0; i < 40; ++i)
      functions.push_back(
          function("F" + std::to_string(i), {node("F" + std::to_string(i + 1), {"a"}, {"t"}, {}, "", "f"),
                                             node("F" + std::to_string(i + 1), {"t"}, {"b"}, {}, "", "f")}));
    functions.push_back(function("F40", {node("Relu", {"a"}, {"b"})}));
    add("function_explosion", "T2004", "expand to more than", with_functions(functions, "F0"));
  }
  return c;
}

class Hostile : public testing::TestWithParam<HostileFile> {};
TEST_P(Hostile, IsRefusedByName) { expect_refused(GetParam()); }
INSTANTIATE_TEST_SUITE_P(Onnx, Hostile, testing::ValuesIn(cases()),
                         [](const auto& i) { return i.param.name; });

TEST(HostileCount, AtLeastSixtyCases) { EXPECT_GE(cases().size(), 60u); }

TEST(Hostile, AllUnsupportedOperatorsAreReportedAtOnceAndGrouped) {
  GraphParts p{{node("Foo", {"x"}, {"a"}, {}, "f1"), node("Foo", {"a"}, {"b"}, {}, "f2"),
                node("Bar", {"b"}, {"c"}, {}, "b1"), node("Relu", {"c"}, {"y"})},
               {},
               {value("x", FLOAT, {2})},
               {value("y", FLOAT, {2})}};
  try {
    onnx::import_onnx_bytes(model(p).bytes, "m.onnx");
    FAIL();
  } catch (const DiagnosticError& e) {
    ASSERT_EQ(e.diagnostics.size(), 2u);
    EXPECT_EQ(e.diagnostics[0].message, "the operator 'Foo' is not supported (2 nodes: 'f1', 'f2')");
    EXPECT_EQ(e.diagnostics[0].location, "m.onnx, node 'f1' (Foo-17)");
    EXPECT_EQ(e.diagnostics[1].message, "the operator 'Bar' is not supported (1 node: 'b1')");
  }
}

TEST(Hostile, MistakesOfDifferentNodesAreReportedTogether) {
  GraphParts p{
      {node("Softmax", {"x"}, {"a"}, {attr_i("axis", 9)}, "s"),
       node("Transpose", {"x"}, {"b"}, {attr_ints("perm", {5})}, "t"), node("Add", {"a", "b"}, {"y"})},
      {},
      {value("x", FLOAT, {2, 2})},
      {value("y", FLOAT, {})}};
  try {
    onnx::import_onnx_bytes(model(p).bytes, "m.onnx");
    FAIL();
  } catch (const DiagnosticError& e) {
    ASSERT_EQ(e.diagnostics.size(), 2u);  // Add is not blamed for its inputs
    EXPECT_NE(e.diagnostics[0].location.find("node 's' (Softmax-13)"), std::string::npos) << e.what();
    EXPECT_NE(e.diagnostics[1].location.find("node 't'"), std::string::npos);
  }
}

TEST(Hostile, MissingFileIsAnInputError) {
  try {
    onnx::import_onnx("/nonexistent/model.onnx");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code, "T3001");
    EXPECT_EQ(e.kind, ErrorKind::io);
  }
}

TEST(Hostile, NestedIfWithinTheLimitIsAccepted) {
  GraphParts p{{node("Identity", {"x"}, {"z"})},
               {},
               {value("x", FLOAT, {2}), value("c", BOOL, {})},
               {value("t60", FLOAT, {})}};
  Msg inner = nested_if(59);
  p.nodes.push_back(node(
      "If", {"c"}, {"t60"},
      {attr_g("then_branch", inner),
       attr_g("else_branch", onnx_graph({{node("Neg", {"x"}, {"e"})}, {}, {}, {value("e", FLOAT, {})}}))}));
  EXPECT_TRUE(onnx::import_onnx_bytes(model(p).bytes, "m.onnx").find("main"));
}

// ---------------------------------------------------------------- whatever bytes come
/// A model with a bit of everything that the reader knows.
std::string sample() {
  GraphParts p;
  p.initializers = {floats("w", {2, 1, 3, 3}, std::vector<float>(18, 0.25f)), floats("b", {2}, {1, 2}),
                    ints("shape", {2}, {0, -1}), tensor_head("h", FLOAT16, {2}).i(5, 15360).i(5, 16384)};
  p.nodes = {
      node("Conv", {"x", "w", "b"}, {"c"},
           {attr_ints("pads", {1, 1, 1, 1}), attr_ints("kernel_shape", {3, 3})}, "conv"),
      node("Relu", {"c"}, {"r"}, {}, "relu"),
      node("MaxPool", {"r"}, {"p"}, {attr_ints("kernel_shape", {2, 2}), attr_ints("strides", {2, 2})},
           "pool"),
      node("Shape", {"p"}, {"s"}),
      node("Gather", {"s", "i"}, {"g"}),
      node("Constant", {}, {"i"}, {attr_t("value", ints("", {1}, {0}))}),
      node("Reshape", {"p", "shape"}, {"f"}, {}, "flat"),
      node("Softmax", {"f"}, {"y"}, {attr_i("axis", -1)}, "soft"),
      node("If", {"cond"}, {"z"},
           {attr_g("then_branch", onnx_graph({{node("Neg", {"f"}, {"t"})}, {}, {}, {value("t", FLOAT, {})}})),
            attr_g("else_branch",
                   onnx_graph({{node("Abs", {"f"}, {"e"})}, {}, {}, {value("e", FLOAT, {})}}))})};
  p.inputs = {value("x", FLOAT, {"n", 1, 4, 4}), value("cond", BOOL, {})};
  p.outputs = {value("y", FLOAT, {"n", 8}), value("z", FLOAT, {}), value("g", INT64, {1}),
               value("h", FLOAT16, {2})};
  return model(p).bytes;
}
/// Success or a user's error; an own bug (InternalError) fails the test.
bool survives(const std::string& bytes, std::string* why) {
  try {
    onnx::import_onnx_bytes(bytes, "m.onnx");
  } catch (const Error& e) {
    if (e.kind == ErrorKind::internal) *why = e.what();
  }
  try {
    onnx::read_onnx_info_bytes(bytes, "m.onnx");
  } catch (const Error& e) {
    if (e.kind == ErrorKind::internal) *why = e.what();
  }
  return why->empty();
}

TEST(Info, WindowsOfNumbersAtTheEndsOfTheirTypeHaveNoEstimate) {
  for (const char* name : {"strides", "dilations", "kernel_shape", "pads"})
    for (const int64_t end : {INT64_MIN, INT64_MAX}) {
      const std::vector<int64_t> given(std::string(name) == "pads" ? 4 : 2, end);
      const Msg m = model({{node("MaxPool", {"x"}, {"y"}, {attr_ints(name, given), attr_i("ceil_mode", 1)})},
                           {},
                           {value("x", FLOAT, {1, 1, 8, 8})},
                           {value("y", FLOAT, {"a", "b", "c", "d"})}});
      EXPECT_EQ(onnx::read_onnx_info_bytes(m.bytes, "m.onnx").nodes.at(0).flops, -1) << name << " " << end;
    }
}

TEST(Fuzz, TheSampleIsGood) { EXPECT_TRUE(onnx::import_onnx_bytes(sample(), "m.onnx").find("main")); }

TEST(Fuzz, EveryPrefix) {
  const std::string s = sample();
  for (size_t n = 0; n < s.size(); ++n) {
    std::string why;
    ASSERT_TRUE(survives(s.substr(0, n), &why)) << n << ": " << why;
  }
}

TEST(Fuzz, EveryBit) {
  const std::string s = sample();
  for (size_t i = 0; i < s.size() * 8; ++i) {
    std::string t = s, why;
    t[i / 8] = char(t[i / 8] ^ (1 << i % 8));
    ASSERT_TRUE(survives(t, &why)) << "bit " << i << ": " << why;
  }
}

TEST(Fuzz, RandomEdits) {
  const std::string s = sample();
  uint64_t state = 42;
  auto random = [&] {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state;
  };
  for (int round = 0; round < 3000; ++round) {
    std::string t = s, why;
    for (uint64_t k = 0; k < 1 + random() % 4; ++k) {
      const size_t at = random() % t.size();
      switch (random() % 4) {
        case 0:
          t[at] = char(random());
          break;
        case 1:
          t.erase(at, 1 + random() % 4);
          break;
        case 2:
          t.insert(at, 1 + random() % 4, char(random()));
          break;
        default: {
          const size_t n = std::min<size_t>(1 + random() % 32, t.size() - at);
          t.insert(random() % t.size(), t.substr(at, n));
        }
      }
      if (t.empty()) break;
    }
    ASSERT_TRUE(survives(t, &why)) << "round " << round << ": " << why;
  }
}

TEST(Hostile, MemoryStaysSmall) {
  // 600 MB announced in a kilobyte: nothing of it may be allocated.
  for (const HostileFile& c : cases()) {
    if (c.name.find("huge") == std::string::npos && c.name.find("overflow") == std::string::npos) continue;
    EXPECT_THROW(onnx::import_onnx_bytes(c.bytes, "m.onnx"), DiagnosticError);
  }
  EXPECT_LT(peak_kilobytes(), 700 * 1024);
}

}  // namespace
}  // namespace tenon
