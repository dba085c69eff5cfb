// SPDX-License-Identifier: Apache-2.0
#include "import/onnx/value_inputs.h"

#include <unordered_map>
#include <unordered_set>

#include "import/onnx/importer.h"

namespace tenon::onnx {
namespace {

/// Operators by which models compute shapes of shapes and of numbers.
bool is_shape_arithmetic(const proto::NodeProto& n) {
  static const std::set<std::string_view> names{
      "Abs",       "Add",        "And",       "Cast",    "Ceil",      "Clip",      "Concat", "Div",
      "Equal",     "Expand",     "Floor",     "Gather",  "Greater",   "Identity",  "Less",   "Max",
      "Min",       "Mod",        "Mul",       "Neg",     "Not",       "Or",        "Range",  "ReduceMax",
      "ReduceMin", "ReduceProd", "ReduceSum", "Reshape", "Round",     "ScatterND", "Sign",   "Slice",
      "Split",     "Squeeze",    "Sub",       "Tile",    "Unsqueeze", "Where"};
  return is_onnx_domain(n.domain()) && names.count(n.op_type());
}

/// Names that are values in a graph or a function's body, followed through shape arithmetic to names that no
/// node there makes.
class Reader {
 public:
  explicit Reader(const proto::ModelProto& model) {
    for (const auto& f : model.functions()) functions_.emplace(key_of(f.domain(), f.name()), &f);
  }

  template <class Graph>
  std::set<std::string> outer_values(const Graph& g) {
    std::unordered_map<std::string_view, const proto::NodeProto*> producer;
    std::vector<std::string_view> todo;
    std::set<std::string> found;
    for (const auto& n : g.node()) {
      for (const auto& o : n.output()) producer.emplace(o, &n);
      for (int i = 0; i < n.input_size(); ++i)
        if (is_value(n, i)) todo.push_back(n.input(i));
      const auto nested = [&](const proto::GraphProto& inner) {
        for (const std::string& name : outer_values(inner)) todo.push_back(*names_.insert(name).first);
      };
      for (const auto& a : n.attribute()) {
        if (a.has_g()) nested(a.g());
        for (const auto& inner : a.graphs()) nested(inner);
      }
    }
    follow(producer, std::move(todo), found);
    return found;
  }

  static void follow(const std::unordered_map<std::string_view, const proto::NodeProto*>& producer,
                     std::vector<std::string_view> todo, std::set<std::string>& found) {
    std::unordered_set<std::string_view> seen;
    while (!todo.empty()) {
      const std::string_view name = todo.back();
      todo.pop_back();
      if (name.empty() || !seen.insert(name).second) continue;
      const auto made = producer.find(name);
      if (made == producer.end())
        found.emplace(name);
      else if (is_shape_arithmetic(*made->second))
        for (const auto& i : made->second->input()) todo.push_back(i);
    }
  }

 private:
  static std::string key_of(const std::string& domain, const std::string& name) {
    return (is_onnx_domain(domain) ? "" : domain) + "::" + name;
  }
  bool is_value(const proto::NodeProto& n, int i) {
    if (reads_as_value(n.domain(), n.op_type(), i)) return true;
    const auto f = functions_.find(key_of(n.domain(), n.op_type()));
    if (f == functions_.end() || i >= f->second->input_size()) return false;
    const auto [values, fresh] = of_function_.try_emplace(f->second);
    if (fresh) of_function_[f->second] = outer_values(*f->second);  // one that calls itself: none of its own
    return of_function_[f->second].count(f->second->input(i)) > 0;
  }

  std::map<std::string, const proto::FunctionProto*> functions_;
  std::map<const proto::FunctionProto*, std::set<std::string>> of_function_;
  std::set<std::string> names_;  ///< of nested graphs
};

std::set<std::string> only_inputs(const proto::GraphProto& g, const std::set<std::string>& names) {
  std::set<std::string> initializers, out;
  for (const auto& t : g.initializer()) initializers.insert(t.name());
  for (const auto& s : g.sparse_initializer()) initializers.insert(s.values().name());
  for (const auto& i : g.input())
    if (names.count(i.name()) && !initializers.count(i.name())) out.insert(i.name());
  return out;
}

}  // namespace

bool reads_as_value(const std::string& domain, const std::string& op_type, int i) {
  const Converter* converter = find_converter(domain, op_type);
  return converter && converter->facts.values.count(i);
}

std::set<std::string> value_inputs(const proto::ModelProto& model) {
  return only_inputs(model.graph(), Reader(model).outer_values(model.graph()));
}

std::set<std::string> value_inputs_behind(const proto::GraphProto& graph, const proto::NodeProto& node) {
  std::unordered_map<std::string_view, const proto::NodeProto*> producer;
  for (const auto& n : graph.node())
    for (const auto& o : n.output()) producer.emplace(o, &n);
  std::vector<const proto::NodeProto*> todo{&node};
  std::unordered_set<const proto::NodeProto*> seen{&node};
  std::set<std::string> found;
  while (!todo.empty()) {
    const proto::NodeProto* n = todo.back();
    todo.pop_back();
    std::vector<std::string_view> values;
    for (int i = 0; i < n->input_size(); ++i) {
      if (reads_as_value(n->domain(), n->op_type(), i)) values.push_back(n->input(i));
      if (const auto made = producer.find(n->input(i));
          made != producer.end() && seen.insert(made->second).second)
        todo.push_back(made->second);
    }
    Reader::follow(producer, std::move(values), found);
  }
  return only_inputs(graph, found);
}

}  // namespace tenon::onnx
