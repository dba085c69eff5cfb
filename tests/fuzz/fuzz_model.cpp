// SPDX-License-Identifier: Apache-2.0
// The bytes are decisions that change the model of a converter (tests/unit/import/samples.json): attributes,
// types, shapes and names of inputs, constants, nodes. What imports is run with small inputs by the
// interpreter and as compiled code; both give the same, or both end with a coded error. With
// TENON_FUZZ_SHOW=1 the model is printed.
#include <fmt/format.h>
#include <cmath>
#include <limits>

#include <set>

#include "../unit/import/samples.h"
#include "decisions.h"
#include "import/onnx/load.h"
#include "interpret/interpret.h"
#include "pipeline/emit.h"

namespace tenon::testing {
namespace {

using test::json;

/// A model, and the values that it is run with.
struct Case {
  json model, inputs;
};

// ---------------------------------------------------------------- changes
const int64_t kNumbers[] = {0,         1,         2,        3, -1, -2, 4, 5, 7, 100, int64_t(1) << 20,
                            INT32_MAX, INT64_MAX, INT64_MIN};
const double kReals[] = {0, 1, -1, 0.5, 2, 1e-6, 1e12, INFINITY, NAN};  ///< products of a few stay finite
const char* const kTypes[] = {"float32", "float64", "float16", "int64",  "int32",  "int8",
                              "uint8",   "bool",    "int16",   "uint32", "uint64", "uint16"};
const char* const kSymbols[] = {"n", "m", "k"};

json any_number(Decisions& d) { return d.one_of(kNumbers); }

json any_value(Decisions& d) {
  switch (d.below(5)) {
    case 0:
      return any_number(d);
    case 1:
      return d.one_of(kReals);
    case 2: {
      json list = json::array();
      for (int i = d.below(5); i > 0; --i) list.push_back(any_number(d));
      return list;
    }
    case 3:
      return d.below(2) ? "linear" : "SAME_UPPER";
    default:
      return d.below(3) - 1;
  }
}

/// The value of some attribute of some model, so that words are those that operators know.
json attribute_elsewhere(Decisions& d) {
  const json& sample = d.one_of(test::samples());
  for (const json& n : sample.at("nodes"))
    for (const auto& [name, v] : test::object_of(n, "attributes").items())
      if (!v.is_object() && d.below(2)) return v;
  return any_value(d);
}

void change_attribute(json& node, Decisions& d) {
  json& attributes = node["attributes"];
  if (!attributes.is_object()) attributes = json::object();
  std::vector<std::string> names;
  for (const auto& [name, v] : attributes.items()) names.push_back(name);
  static const char* const others[] = {"axis", "axes",     "keepdims", "perm",  "strides",     "pads",
                                       "mode", "auto_pad", "alpha",    "group", "kernel_shape"};
  const std::string name = names.empty() || d.below(4) == 0 ? std::string(d.one_of(others)) : d.one_of(names);
  json& v = attributes[name];
  if (v.is_array() && !v.empty() && d.below(2)) {
    v[size_t(d.below(v.size()))] = v[0].is_number_integer() ? any_number(d) : v[0];
    return;
  }
  switch (d.below(4)) {
    case 0:
      attributes.erase(name);
      break;
    case 1:
      v = attribute_elsewhere(d);
      break;
    default:
      v = v.is_number_integer() ? any_number(d) : any_value(d);
  }
}

json any_dim(Decisions& d) {
  if (d.below(3) == 0) return d.one_of(kSymbols);
  return d.below(5);
}

void change_shape(json& shape, Decisions& d, bool symbols) {
  switch (shape.empty() ? 1 : d.below(4)) {
    case 0:
      shape.erase(size_t(d.below(shape.size())));
      break;
    case 1:
      shape.insert(shape.begin() + d.below(shape.size() + 1), symbols ? any_dim(d) : json(d.below(4)));
      break;
    default:
      shape[size_t(d.below(shape.size()))] = symbols ? any_dim(d) : json(d.below(5));
  }
}

/// Values of a tensor: halves, so that sums are exact whatever their order.
json drawn_values(const std::string& type, const json& shape, Decisions& d, bool corners) {
  int64_t count = 1;
  for (const json& n : shape) count *= n.get<int64_t>();
  json data = json::array();
  uint32_t state = uint32_t(d.below(256)) * 2654435761u + 1;
  const bool real = type.find("float") != std::string::npos;
  for (int64_t i = 0; i < std::min<int64_t>(count, 4096); ++i) {
    state = state * 1664525u + 1013904223u;
    const int64_t v = int64_t(state >> 16) % 9 - (type[0] == 'u' || type == "bool" ? 0 : 4);
    if (corners && (state >> 28) == 0)
      data.push_back(real ? json(std::to_string(d.one_of(kReals))) : json(v * 30));
    else if (real)
      data.push_back(double(v) / 2);
    else
      data.push_back(type == "bool" ? v & 1 : v);
  }
  return data;
}

void change_constant(json& constant, Decisions& d) {
  const std::string type = constant.at(0);
  if (type == "string") return;
  const bool real = type.find("float") != std::string::npos;
  json& shape = constant.at(1);
  switch (d.below(3)) {
    case 0:
      if (constant.size() > 2 && !constant.at(2).empty()) {
        json& element = constant.at(2)[size_t(d.below(constant.at(2).size()))];
        element = real ? json(std::to_string(d.one_of(kReals))) : json(int8_t(d.one_of(kNumbers)));
        if (!real && (type == "int64" || type == "int32") && d.below(2))
          element = int32_t(d.one_of(kNumbers));
        if (type[0] == 'u' || type == "bool") element = element.get<int64_t>() & (type == "bool" ? 1 : 127);
      }
      break;
    case 1:
      constant[0] = d.one_of(kTypes);
      constant = {constant[0], shape, drawn_values(constant[0], shape, d, false)};
      break;
    default:
      change_shape(shape, d, false);
      constant = {type, shape, drawn_values(type, shape, d, false)};
  }
}

/// Operators whose results jump, or turn often, with their operand: a last digit is enough.
bool is_sensitive(const std::string& op) {
  static const std::set<std::string> names{"Sin",   "Cos",     "Tan",    "Mod",    "Floor", "Ceil",  "Round",
                                           "Equal", "Hardmax", "ArgMax", "ArgMin", "TopK",  "IsNaN", "IsInf"};
  return names.count(op) > 0;
}

/// A node reads another value, drops one, or becomes another operator of the samples.
void change_node(json& model, Decisions& d) {
  json& nodes = model.at("nodes");
  if (nodes.empty()) return;
  json& node = nodes[size_t(d.below(nodes.size()))];
  std::vector<std::string> names{""};
  for (const char* part : {"inputs", "constants"})
    for (const auto& [name, v] : test::object_of(model, part).items()) names.push_back(name);
  json& inputs = node.at("inputs");
  switch (d.below(6)) {
    case 0:
      if (!inputs.empty()) inputs[size_t(d.below(inputs.size()))] = d.one_of(names);
      break;
    case 1:
      inputs.push_back(d.one_of(names));
      break;
    case 2:
      if (!inputs.empty()) inputs.erase(inputs.size() - 1);
      break;
    case 3: {
      const json& other = d.one_of(d.one_of(test::samples()).at("nodes"));
      if (nodes.size() > 1 && is_sensitive(other.at("op"))) break;
      node["op"] = other.at("op");
      if (other.contains("domain")) node["domain"] = other.at("domain");
      if (d.below(2) && other.contains("attributes")) node["attributes"] = other.at("attributes");
      break;
    }
    case 4:
      model["opset"] = 6 + d.below(19);
      break;
    default: {  // an operator of one operand behind an output of the model
      static const char* const unary[] = {"Relu",    "Neg",  "Shape",   "Transpose", "Squeeze", "Identity",
                                          "Flatten", "Size", "NonZero", "Sigmoid",   "Abs",     "Softmax"};
      json& outputs = model.at("outputs");
      if (outputs.empty()) break;
      const std::string last = outputs.begin().key();
      nodes.push_back({{"op", d.one_of(unary)}, {"inputs", {last}}, {"outputs", {last + "_next"}}});
      json renamed = json::object();
      for (const auto& [name, v] : outputs.items()) renamed[name == last ? last + "_next" : name] = v;
      outputs = std::move(renamed);
    }
  }
}

// ---------------------------------------------------------------- the same model in other words
json typeless() { return json{"float32", json::array()}; }

/// A node in both branches of an If whose condition is an input.
void into_branches(Case& c, json& node) {
  if (node.at("outputs").empty()) return;
  const auto graph = [&](const std::string& mark) {
    json inner = node, outputs = json::object();
    for (json& name : inner["outputs"])
      if (!name.get<std::string>().empty()) {
        name = name.get<std::string>() + mark;
        outputs[name.get<std::string>()] = typeless();
      }
    return json{{"nodes", json::array({inner})}, {"inputs", json::object()}, {"outputs", outputs}};
  };
  json outer = json::array();
  for (const json& name : node.at("outputs"))
    if (!name.get<std::string>().empty()) outer.push_back(name);
  c.model["inputs"]["chosen_branch"] = {"bool", json::array()};
  c.inputs["chosen_branch"] = {"bool", json::array(), {1}};
  node = {{"op", "If"},
          {"inputs", {"chosen_branch"}},
          {"outputs", outer},
          {"attributes",
           {{"then_branch", {{"graph", graph("_then")}}}, {"else_branch", {{"graph", graph("_else")}}}}}};
}

/// A node as the body of a function.
void into_function(json& model, json& node) {
  json inputs = json::array();
  for (const json& name : node.at("inputs"))
    if (!name.get<std::string>().empty() && std::find(inputs.begin(), inputs.end(), name) == inputs.end())
      inputs.push_back(name);
  const std::string name = fmt::format("Made{}", test::object_of(model, "functions").size());
  model["functions"][name] = {{"domain", "made.here"},
                              {"inputs", inputs},
                              {"outputs", node.at("outputs")},
                              {"nodes", json::array({node})}};
  model["domains"]["made.here"] = 1;
  node = {{"op", name}, {"domain", "made.here"}, {"inputs", inputs}, {"outputs", node.at("outputs")}};
}

/// What a node reads goes through a sequence, or an optional.
void through_container(json& nodes, size_t at, Decisions& d) {
  json& inputs = nodes[at].at("inputs");
  if (inputs.empty()) return;
  json& read = inputs[size_t(d.below(inputs.size()))];
  const std::string name = read, next = fmt::format("{}_{}", name, nodes.size());
  if (name.empty()) return;
  read = next + "_item";
  json more = json::array();
  if (d.below(2)) {
    more = {{{"op", "Optional"}, {"inputs", {name}}, {"outputs", {next + "_in"}}},
            {{"op", "OptionalGetElement"}, {"inputs", {next + "_in"}}, {"outputs", {next + "_item"}}}};
  } else {
    more = {{{"op", "SequenceConstruct"}, {"inputs", {name, name}}, {"outputs", {next + "_in"}}},
            {{"op", "Constant"},
             {"inputs", json::array()},
             {"outputs", {next + "_at"}},
             {"attributes", {{"value_int", d.below(4) - 2}}}},
            {{"op", "SequenceAt"}, {"inputs", {next + "_in", next + "_at"}}, {"outputs", {next + "_item"}}}};
  }
  nodes.insert(nodes.begin() + std::ptrdiff_t(at), more.begin(), more.end());
}

/// A constant is stored without its zeros.
void into_sparse(json& model, Decisions& d) {
  const json& constants = model.at("constants");
  if (constants.empty()) return;
  const auto at = std::next(constants.begin(), d.below(constants.size()));
  const std::string name = at.key();
  const json constant = at.value();
  if (constant.at(0) == "string" || constant.size() < 3) return;
  model["sparse"][name] = constant;
  model.at("constants").erase(name);
}

void reword(Case& c, Decisions& d) {
  // A new entry copies the others: none is made while they are referred to.
  for (const char* part : {"functions", "domains", "sparse", "constants"})
    if (!c.model.contains(part)) c.model[part] = json::object();
  json& nodes = c.model.at("nodes");
  if (nodes.empty()) return;
  const size_t at = size_t(d.below(nodes.size()));
  switch (d.below(4)) {
    case 0:
      return into_branches(c, nodes[at]);
    case 1:
      return into_function(c.model, nodes[at]);
    case 2:
      return through_container(nodes, at, d);
    default:
      return into_sparse(c.model, d);
  }
}

void change(Case& c, Decisions& d) {
  json& nodes = c.model.at("nodes");
  json& inputs = c.model.at("inputs");
  switch (d.below(7)) {
    case 6:
      return reword(c, d);
    case 0:
    case 1:
      if (!nodes.empty()) change_attribute(nodes[size_t(d.below(nodes.size()))], d);
      break;
    case 2:
      if (!inputs.empty()) {
        json& input = std::next(inputs.begin(), d.below(inputs.size())).value();
        if (d.below(4) == 0)
          input[0] = d.one_of(kTypes);
        else if (input.size() > 1)
          change_shape(input[1], d, true);
      }
      break;
    case 3:
    case 4:
      if (c.model.contains("constants") && !c.model.at("constants").empty()) {
        json& constants = c.model.at("constants");
        change_constant(std::next(constants.begin(), d.below(constants.size())).value(), d);
        break;
      }
      [[fallthrough]];
    default:
      change_node(c.model, d);
  }
}

/// Inputs that the changed model takes: sizes of its symbols, values where those of the sample do not fit.
void fit_inputs(Case& c, Decisions& d) {
  std::map<std::string, int64_t> sizes;
  json fitting = json::object();
  for (const auto& [name, declared] : c.model.at("inputs").items()) {
    const std::string type = declared.at(0);
    const json given = c.inputs.value(name, json());
    if (type == "sequence" || type == "optional" || type == "string" || declared.size() < 2) {
      fitting[name] = given;
      continue;
    }
    json shape = json::array();
    for (size_t i = 0; i < declared.at(1).size(); ++i) {
      const json& n = declared.at(1)[i];
      if (!n.is_string()) {
        shape.push_back(n);
        continue;
      }
      int64_t size = d.below(5);
      if (given.is_array() && given.size() > 1 && given.at(1).size() == declared.at(1).size() && d.below(2))
        size = given.at(1)[i];
      shape.push_back(sizes.emplace(n, size).first->second);
    }
    const bool fits = given.is_array() && given.size() > 2 && given.at(0) == type && given.at(1) == shape;
    fitting[name] =
        fits && d.below(2) ? given : json{type, shape, drawn_values(type, shape, d, d.below(4) == 0)};
  }
  c.inputs = std::move(fitting);
}

// ---------------------------------------------------------------- runs
constexpr int64_t kMostBytes = 1 << 22;
constexpr int64_t kMostSteps = 5'000'000;
const std::set<std::string> kIndexRefusals{"T0354", "T0355", "T0509", "T0521"};

/// What two ways of computing may give.
struct Tolerance {
  bool neighbours = false;  ///< of bytes that were rounded behind scales
  bool jumps = false;       ///< a few elements are taken from another place, which rounding decides
  bool inverses = false;    ///< of matrices that may be singular but for rounding, which has any result
};
/// Whether inverses have elements so large, or none, that rounding of the elimination alone changes them by
/// more than `relative`: where a pivot is 0, a fused product leaves a part of its rounding instead.
bool is_ill_conditioned(const NDArray& a, const NDArray& b, double relative) {
  const double most = relative / std::numeric_limits<float>::epsilon();
  for (int64_t i = 0; i < b.size(); ++i)
    if (!(std::abs(a.element(i)) <= most && std::abs(b.element(i)) <= most)) return true;
  return false;
}
/// Results are the same but for sums in another order, and for what is tolerated.
bool close(const NDArray& a, const NDArray& b, const Tolerance& allowed) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  if (!b.dtype().is_float()) {
    if (!allowed.neighbours || b.dtype().bits > 8) return test::difference(a, b).empty();
    for (int64_t i = 0; i < b.size(); ++i)
      if (std::abs(a.element_int(i) - b.element_int(i)) > 1) return false;
    return true;
  }
  double largest = 0;
  for (int64_t i = 0; i < b.size(); ++i)
    if (std::isfinite(b.element(i))) largest = std::max(largest, std::abs(b.element(i)));
  const double relative = b.dtype().bits <= 16 ? 2e-2 : 1e-3;
  if (allowed.inverses && is_ill_conditioned(a, b, relative)) return true;
  int64_t may_differ = allowed.jumps ? b.size() / 8 + 1 : 0;
  for (int64_t i = 0; i < b.size(); ++i) {
    const double x = a.element(i), y = b.element(i);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    if (!(std::abs(x - y) <= relative * std::abs(y) + relative * 0.1 * largest + 1e-5) && --may_differ < 0)
      return false;
  }
  return true;
}
bool close(const Any& a, const Any& b, const Tolerance& allowed) {
  const auto x = a.try_as<NDArray>(), y = b.try_as<NDArray>();
  return x && y && *x && *y ? close(*x, *y, allowed) : test::difference(a, b).empty();
}

std::vector<Any> results_of(const Any& result) {
  const auto tuple = result.try_as<Array<Any>>();
  return tuple && *tuple ? tuple->vec() : std::vector<Any>{result};
}

/// The nodes of a model, those of bodies and functions included.
std::vector<const json*> all_nodes(const json& model) {
  std::vector<const json*> todo{&model}, out;
  while (!todo.empty()) {
    const json* at = todo.back();
    todo.pop_back();
    if (at->is_object() && at->contains("op") && at->contains("outputs")) out.push_back(at);
    if (at->is_structured())
      for (const auto& [key, v] : at->items()) todo.push_back(&v);
  }
  return out;
}

/// Operators whose results are drawn, or left open by the standard.
bool is_random(const json& model) {
  static const std::set<std::string> names{
      "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
      "Multinomial",  "Bernoulli",        "Dropout"};
  for (const json* n : all_nodes(model))
    if (names.count(n->at("op").get<std::string>())) return true;
  return false;
}

/// By operators that round what they compute with scales, those that compute the places that they read, and
/// inverses.
Tolerance tolerance_of(const json& model) {
  static const std::set<std::string> places{"CropAndResize", "Resize", "Upsample", "GridSample", "RoiAlign"};
  Tolerance out;
  for (const json* n : all_nodes(model)) {
    const std::string op = n->at("op");
    out.neighbours |= op.find('Q') != std::string::npos;
    out.jumps |= places.count(op) > 0;
    out.inverses |= op == "Inverse";
  }
  return out;
}
/// Whether some result of a node is not read, or its sizes alone are: what is computed for it, checks of
/// indices too, is left out.
bool leaves_values(const json& model) {
  std::set<std::string> read;
  for (const auto& [name, v] : model.at("outputs").items()) read.insert(name);
  for (const json* n : all_nodes(model)) {
    for (const json& name : n->at("inputs"))
      if (n->at("op") != "Shape" && n->at("op") != "Size") read.insert(name.get<std::string>());
    for (const auto& [key, v] : test::object_of(*n, "attributes").items())
      if (v.is_object() && v.contains("graph"))
        for (const auto& [name, type] : v.at("graph").at("outputs").items()) read.insert(name);
  }
  return std::any_of(model.at("nodes").begin(), model.at("nodes").end(), [&](const json& n) {
    const json& made = n.at("outputs");
    return std::any_of(made.begin(), made.end(),
                       [&](const json& name) { return name != "" && read.count(name) == 0; });
  });
}

struct Outcome {
  std::vector<Any> values;
  std::string refused;  ///< the code
};
template <class Run>
Outcome outcome(const std::string& shown, const Run& run) {
  try {
    return {run(), {}};
  } catch (const Error& e) {
    judge(e, shown);
    return {{}, e.code};
  }
}

void run_case(Decisions& d) {
  const json& sample = d.one_of(test::samples());
  Case c{sample, sample.contains("runs") ? d.one_of(sample.at("runs")).at("inputs") : sample.at("inputs")};
  for (int k = 1 + d.below(4); k > 0; --k) change(c, d);
  fit_inputs(c, d);
  const int level = d.below(4);
  c.model.erase("runs");
  const std::string shown = c.model.dump() + "\ninputs " + c.inputs.dump() + fmt::format("\nlevel {}", level);
  if (std::getenv("TENON_FUZZ_SHOW")) std::fprintf(stderr, "%s\n", shown.c_str());
  IRModule module;
  try {
    onnx::ImportOptions options;
    options.max_tensor_bytes = kMostBytes;
    module = onnx::import_onnx_bytes(test::model_of(c.model), "m.onnx", options);
  } catch (const Error& e) {
    return judge(e, shown);
  }
  const std::vector<Any> inputs = test::values(c.inputs);
  InterpretOptions limits;
  limits.max_steps = kMostSteps;
  limits.max_bytes = kMostBytes;
  const Outcome want = outcome(shown, [&] { return results_of(interpret(module, "main", inputs, limits)); });
  if (want.refused == "T0351") return;  // too long: the compiled program would take its time, too
  CompileOptions options;
  options.opt_level = level;
  options.code = CodeForm::objects;
  std::shared_ptr<Session> session;
  try {
    session = std::make_shared<Session>(jit_artifact(compile(module, options)));
  } catch (const Error& e) {
    return judge(e, shown);
  }
  const Outcome got = outcome(shown, [&] { return results_of(session->call("main", inputs)); });
  if (got.refused.empty() && kIndexRefusals.count(want.refused) && leaves_values(c.model)) return;
  if (got.refused.empty() != want.refused.empty())
    finding("interpreted: " + (want.refused.empty() ? "a result" : want.refused) +
                ", compiled: " + (got.refused.empty() ? "a result" : got.refused),
            shown);
  if (!got.refused.empty() || is_random(c.model)) return;
  if (got.values.size() != want.values.size()) finding("another number of results", shown);
  for (size_t i = 0; i < got.values.size(); ++i)
    if (!close(got.values[i], want.values[i], tolerance_of(c.model)))
      finding(fmt::format("result {} differs: {}", i, test::difference(got.values[i], want.values[i])),
              shown);
}

}  // namespace
}  // namespace tenon::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tenon::testing::Decisions d(data, size);
  tenon::testing::run_case(d);
  return 0;
}
