// SPDX-License-Identifier: Apache-2.0
// A small model for every converter, with the values that ONNX's reference evaluator gives (samples.json,
// written by make_samples.py): run by the interpreter and as compiled code. What is refused today stands
// there with its code.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/diagnostic.h"
#include "import/onnx/load.h"
#include "interpret/interpret.h"
#include "judge.h"
#include "pipeline/emit.h"
#include "writer.h"

namespace tenon {
namespace {

using namespace test;
using json = nlohmann::ordered_json;

const json& samples() {
  static const json all = json::parse(std::ifstream(TENON_SOURCE_DIR "/tests/unit/import/samples.json"));
  return all;
}

/// ONNX's number of an element type.
int element_type(const std::string& name) {
  static const std::map<std::string, int> types{
      {"float32", FLOAT}, {"uint8", UINT8},   {"int8", INT8},    {"uint16", 4},        {"int16", 5},
      {"int32", INT32},   {"int64", INT64},   {"bool", BOOL},    {"float16", FLOAT16}, {"float64", DOUBLE},
      {"uint32", 12},     {"uint64", UINT64}, {"string", STRING}};
  return types.at(name);
}

/// [type, shape, values]; zeros where the values are left out.
NDArray tensor_of(const json& j) {
  DataType type;
  CHECK(parse_dtype(j.at(0).get<std::string>(), &type), "a sample's type");
  NDArray a = NDArray::zeros(j.at(1), type);
  if (j.size() < 3) return a;
  for (int64_t i = 0; i < a.size(); ++i) {
    const json& x = j.at(2).at(size_t(i));
    if (x.is_number_integer() && !a.dtype().is_float())
      a.set_element_int(i, x);
    else
      a.set_element(i, x.is_string() ? std::stod(x.get<std::string>()) : x.get<double>());
  }
  return a;
}

/// The same for texts, too.
Any value_of(const json& j) {
  if (j.at(0) != "string") return Any(tensor_of(j));
  auto t = make<StringTensorObj>();
  t.mut()->shape = j.at(1).get<std::vector<int64_t>>();
  if (j.size() > 2) t.mut()->items = j.at(2).get<std::vector<std::string>>();
  return Any(std::move(t));
}

Msg value_of(const std::string& name, const json& j) {
  std::vector<Dim> dims;
  for (const json& d : j.at(1))
    d.is_string() ? dims.emplace_back(d.get<std::string>()) : dims.emplace_back(d.get<int64_t>());
  return value(name, element_type(j.at(0)), dims);
}
Msg constant_of(const std::string& name, const json& j) {
  if (j.at(0) == "string") {
    Msg texts = tensor_head(name, STRING, j.at(1));
    for (const json& text : j.at(2)) texts.s(6, text);
    return texts;
  }
  const NDArray a = tensor_of(j);
  return tensor_head(name, element_type(j.at(0)), a.shape())
      .s(9, std::string(static_cast<const char*>(a.data()), size_t(a.byte_size())));
}

Msg graph_of(const json& g);

Msg attribute_of(const std::string& name, const json& v) {
  if (v.is_string()) return attr_s(name, v);
  if (v.is_number_integer()) return attr_i(name, v);
  if (v.is_number()) return attr_f(name, v);
  if (v.is_object())
    return v.contains("graph") ? attr_g(name, graph_of(v.at("graph")))
                               : attr_t(name, constant_of("", v.at("tensor")));
  if (v.empty() || v[0].is_number_integer()) return attr_ints(name, v);
  Msg list = Msg().s(1, name);
  for (const json& x : v) x.is_string() ? list.s(9, x) : list.f(7, x);
  return list.i(20, v[0].is_string() ? 8 : 6);
}

/// The object `key` of `j`; empty where there is none.
const json& object_of(const json& j, const char* key) {
  static const json none = json::object();
  const auto found = j.find(key);
  return found == j.end() ? none : *found;
}

Msg graph_of(const json& g) {
  GraphParts parts;
  for (const json& n : g.at("nodes")) {
    std::vector<Msg> attributes;
    for (const auto& [name, v] : object_of(n, "attributes").items())
      attributes.push_back(attribute_of(name, v));
    parts.nodes.push_back(
        node(n.at("op"), n.at("inputs"), n.at("outputs"), attributes, "", n.value("domain", std::string())));
  }
  for (const auto& [name, v] : object_of(g, "constants").items())
    parts.initializers.push_back(constant_of(name, v));
  for (const auto& [name, v] : g.at("inputs").items()) parts.inputs.push_back(value_of(name, v));
  for (const auto& [name, v] : g.at("outputs").items()) parts.outputs.push_back(value_of(name, v));
  return onnx_graph(parts);
}

std::string model_of(const json& sample) {
  Msg m = model(graph_of(sample), sample.at("opset"), 10);
  for (const auto& [domain, version] : object_of(sample, "domains").items()) m.m(8, opset(version, domain));
  return m.bytes;
}

std::vector<Any> values(const json& named) {
  std::vector<Any> out;
  for (const auto& [name, j] : named.items()) out.push_back(value_of(j));
  return out;
}

using RunModel = std::function<std::vector<Any>(const std::vector<Any>&)>;

/// The code with which one run of a sample ends; empty: it gave what is expected.
std::string judge_run(const RunModel& run, const json& given, bool random) {
  try {
    const std::vector<Any> got = run(values(given.at("inputs")));
    if (given.contains("refused")) return {};
    const std::vector<Any> want = values(given.at("outputs"));
    EXPECT_EQ(got.size(), want.size());
    for (size_t i = 0; i < std::min(got.size(), want.size()); ++i)
      EXPECT_EQ(difference(got[i], want[i], random), "") << "output " << i;
  } catch (const Error& e) {
    if (!given.contains("refused")) ADD_FAILURE() << e.what();
    return e.code;
  }
  return {};
}

/// Runs every sample that imports, and holds what is refused against what should be. `prepare` makes a module
/// ready to run; `codes`: a refused run ends with the code of compiled programs.
void judge(const std::function<RunModel(const IRModule&)>& prepare, bool codes) {
  const char* only = std::getenv("TENON_SAMPLE");
  for (const json& sample : samples()) {
    const std::string name = sample.at("name"), refused = sample.value("refused", std::string());
    if (only && name != only) continue;
    SCOPED_TRACE(name);
    std::string code;
    try {
      const RunModel run = prepare(onnx::import_onnx_bytes(model_of(sample), name));
      if (!sample.contains("runs")) code = judge_run(run, sample, sample.contains("random"));
      for (const json& given : object_of(sample, "runs")) {
        const std::string got = judge_run(run, given, false), wanted = given.value("refused", std::string());
        if (codes || got.empty() || wanted.empty()) {
          EXPECT_EQ(got, wanted) << given.at("inputs");
        }
      }
    } catch (const Error& e) {
      code = e.code;
      if (refused.empty()) ADD_FAILURE() << e.what();
    }
    EXPECT_EQ(code, refused);
  }
}

/// No sample gives a single sequence.
std::vector<Any> results_of(const Any& result) {
  const auto tuple = result.try_as<Array<Any>>();
  return tuple && *tuple ? tuple->vec() : std::vector<Any>{result};
}
/// All inputs and outputs are tensors of numbers.
bool is_plain(const IRModule& module) {
  const auto main = module.find("main").as<graph::Function>();
  const graph::Type result = graph::result_of(main->body)->type;
  bool plain = !result.is<graph::ObjectType>();
  if (const auto* t = result.as<graph::TupleType>())
    for (const graph::Type& i : t->items) plain = plain && graph::as_tensor(i);
  for (const auto& p : main->params) plain = plain && graph::as_tensor(p->declared);
  return plain;
}

TEST(Samples, EveryConverterHasOne) {
  std::set<std::string> used;
  for (const json& sample : samples())
    if (!sample.contains("refused"))
      for (const json& n : sample.at("nodes"))
        used.insert((n.contains("domain") ? n.at("domain").get<std::string>() + "::" : "") +
                    n.at("op").get<std::string>());
  for (const onnx::OnnxCoverage& op : onnx::onnx_coverage())
    EXPECT_TRUE(used.count(op.name)) << op.name << " has no case in make_samples.py that imports";
}

TEST(Samples, InterpretedModelsGiveTheExpectedValues) {
  judge(
      [](const IRModule& module) -> RunModel {
        return [module](const std::vector<Any>& inputs) {
          return results_of(interpret(module, "main", inputs));
        };
      },
      false);
}

RunModel compiled(const IRModule& module, int level) {
  CompileOptions options;
  options.opt_level = level;
  const auto session = std::make_shared<Session>(jit_artifact(compile(module, options)));
  return [session, plain = is_plain(module)](const std::vector<Any>& inputs) {
    if (!plain) return results_of(session->call("main", inputs));
    std::vector<NDArray> tensors;
    for (const Any& v : inputs) tensors.push_back(v.as<NDArray>());
    const std::vector<NDArray> got = session->invoke(tensors);
    return std::vector<Any>(got.begin(), got.end());
  };
}
TEST(Samples, CompiledModelsGiveTheExpectedValues) {
  judge([](const IRModule& module) { return compiled(module, 2); }, true);
}
TEST(Samples, ModelsCompiledWithoutOptimisationGiveTheExpectedValues) {
  judge([](const IRModule& module) { return compiled(module, 0); }, true);
}

}  // namespace
}  // namespace tenon
