// SPDX-License-Identifier: Apache-2.0
// From JSON to a graph whose numbers are inside their bounds: every edge leads to a node before it, every
// entry has a type, a shape that can be counted, and a place inside of the storage.
#include <algorithm>
#include <charconv>

#include "runtime/libraries/graph/graph.h"
#include "runtime/libraries/graph/json.h"

namespace tenon::operator_graph {
namespace {

constexpr int64_t kMostStorage = int64_t(1) << 46;  // as check_executable bounds an arena
constexpr size_t kMostDimensions = 64;

struct Parser {
  const std::string& path;

  [[noreturn]] void refuse(const std::string& what) const { refuse_graph(path, what); }
  const Json& member(const Json& of, const std::string& where, const char* key, Json::Kind kind) const {
    const Json* found = of.find(key);
    if (!found || found->kind != kind)
      refuse(where + " has no " +
             (kind == Json::list     ? "list"
              : kind == Json::text   ? "text"
              : kind == Json::number ? "number"
                                     : "object") +
             " `" + key + "`");
    return *found;
  }
  int64_t number(const Json& j, const std::string& where, int64_t low, int64_t high) const {
    if (j.kind != Json::number || j.integer < low || j.integer > high)
      refuse(where + " is no number between " + std::to_string(low) + " and " + std::to_string(high));
    return j.integer;
  }
  /// An entry of one of the first `before` nodes.
  Value value(const Graph& graph, const Json& j, const std::string& where, size_t before) const {
    if (j.kind != Json::list || j.items.size() < 2) refuse(where + " is no pair of a node and an output");
    if (before == 0) refuse(where + " leads to no node before it");
    Value out;
    out.node = int32_t(number(j.items[0], where + ", its node,", 0, int64_t(before) - 1));
    const auto outputs = int64_t(graph.nodes[size_t(out.node)].outputs.size());
    out.output = int32_t(number(j.items[1], where + ", its output,", 0, outputs - 1));
    return out;
  }

  Node node(const Graph& graph, const Json& j, const std::string& where) const {
    if (j.kind != Json::object) refuse(where + " is no object");
    const std::string& op = member(j, where, "op", Json::text).string;
    Node out{.kind = NodeKind::input, .name = member(j, where, "name", Json::text).string};
    int64_t outputs = 1;
    if (op == "null") {
      if (const Json* attrs = j.find("attrs")) {
        out.kind = NodeKind::constant;
        out.constant =
            number(member(*attrs, where, "constant", Json::number), where + ", its constant,", 0, INT32_MAX);
      }
    } else if (op == "tenon_op") {
      const Json& attrs = member(j, where, "attrs", Json::object);
      out.function = member(attrs, where, "func_name", Json::text).string;
      out.kind = out.function == "__nop" ? NodeKind::view : NodeKind::operation;
      outputs =
          number(member(attrs, where, "num_outputs", Json::number), where + ", num_outputs,", 1, 1 << 16);
      if (const Json* numbers = attrs.find("numbers"))
        for (const Json& n : numbers->items)
          out.numbers.push_back(number(n, where + ", numbers,", INT64_MIN, INT64_MAX));
    } else {
      throw Error(ErrorKind::model, "T0617", where + " is a `" + op + "`: there are `null` and `tenon_op`",
                  path, "write the graph again: tenon compile MODEL --emit json");
    }
    for (const Json& in : member(j, where, "inputs", Json::list).items)
      out.inputs.push_back(value(graph, in, where + ", an input", graph.nodes.size()));
    const Json* attrs = j.find("attrs");
    const Json* said = attrs ? attrs->find("num_inputs") : nullptr;
    if (said && (said->kind != Json::number || said->integer != int64_t(out.inputs.size())))
      refuse(where + " has another number of inputs than its num_inputs says");
    if (out.kind == NodeKind::view && (outputs != 1 || out.inputs.empty()))
      refuse(where + " is a view of nothing");
    if (out.kind < NodeKind::operation && !out.inputs.empty())
      refuse(where + " is an argument, and has inputs");
    out.outputs.resize(size_t(outputs));
    return out;
  }

  void entries(Graph& graph, const Json& attrs) const {
    const Json& types = member(attrs, "attrs", "dltype", Json::list);
    const Json& shapes = member(attrs, "attrs", "shape", Json::list);
    const Json& offsets = member(attrs, "attrs", "storage_offset", Json::list);
    graph.arena_bytes =
        number(member(attrs, "attrs", "storage_bytes", Json::number), "storage_bytes", 0, kMostStorage);
    size_t count = 0, at = 0;
    for (const Node& n : graph.nodes) count += n.outputs.size();
    for (const Json* list : {&types, &shapes, &offsets})
      if (list->items.size() != count)
        refuse("the nodes make " + std::to_string(count) + " tensors, and attrs describe " +
               std::to_string(list->items.size()));
    for (Node& n : graph.nodes)
      for (Entry& e : n.outputs) {
        entry(graph, e, n, types.items[at], shapes.items[at], offsets.items[at]);
        ++at;
      }
  }
  void entry(const Graph& graph, Entry& e, const Node& n, const Json& type, const Json& shape,
             const Json& offset) const {
    const std::string where = "what `" + n.name + "` makes";
    if (type.kind != Json::text || !parse_dtype(type.string, &e.dtype) || e.dtype.bits == 0 ||
        e.dtype.lanes != 1 || e.dtype.is_handle() || e.dtype.is_void())
      refuse(where + " has no data type that tensors have");
    if (shape.kind != Json::list || shape.items.size() > kMostDimensions) refuse(where + " has no shape");
    for (const Json& d : shape.items) e.shape.push_back(number(d, where + ", a size,", 0, INT64_MAX));
    int64_t bytes = 0;
    try {
      bytes = e.bytes();
    } catch (const Error& error) {
      refuse(where + " is too large: " + error.message);
    }
    e.offset = number(offset, where + ", its offset,", kNoStorage, kMostStorage);
    if (e.offset == kNoStorage) return;
    if (n.kind < NodeKind::operation) refuse(where + " is an argument, and has a place in the storage");
    if (e.offset % 64 != 0 || e.offset > graph.arena_bytes || bytes > graph.arena_bytes - e.offset)
      throw Error(ErrorKind::model, "T0618",
                  where + " lies outside of the storage: " + std::to_string(bytes) + " bytes at " +
                      std::to_string(e.offset) + " of " + std::to_string(graph.arena_bytes),
                  path, "offsets are multiples of 64 inside of storage_bytes");
  }

  /// arg_nodes and node_row_ptr, which say again what the nodes do.
  void indices(const Graph& graph, const Json& document) const {
    std::vector<int64_t> arguments, rows{0};
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      if (graph.nodes[i].kind < NodeKind::operation) arguments.push_back(int64_t(i));
      rows.push_back(rows.back() + int64_t(graph.nodes[i].outputs.size()));
    }
    for (const auto& [key, want] : {std::pair("arg_nodes", &arguments), std::pair("node_row_ptr", &rows)}) {
      const auto& items = member(document, "it", key, Json::list).items;
      if (!std::ranges::equal(items, *want, {}, &Json::integer))
        refuse(std::string(key) + " does not fit the nodes");
    }
  }

  /// A list of names, types and shapes that says again what entries say.
  void named(const Graph& graph, const Json& list, const std::vector<Value>& values, const char* what,
             std::vector<std::string>* names) const {
    if (list.items.size() != values.size())
      refuse(std::string("attrs describe ") + std::to_string(list.items.size()) + " " + what + "s of " +
             std::to_string(values.size()));
    for (size_t i = 0; i < values.size(); ++i) {
      const std::string where = what + (" " + std::to_string(i));
      const Json& j = list.items[i];
      const Entry& e = graph.entry(values[i]);
      const Json& shape = member(j, where, "shape", Json::list);
      bool same = member(j, where, "dtype", Json::text).string == to_string(e.dtype) &&
                  shape.items.size() == e.shape.size();
      for (size_t d = 0; same && d < e.shape.size(); ++d)
        same = shape.items[d].kind == Json::number && shape.items[d].integer == e.shape[d];
      const std::string& name = member(j, where, "name", Json::text).string;
      if (!same || (!names && name != graph.nodes[size_t(values[i].node)].name))
        throw Error(ErrorKind::model, "T0618", "the " + where + " is not the tensor that the graph has there",
                    path, "write the graph again: tenon compile MODEL --emit json");
      if (names) names->push_back(name);
    }
  }
};

}  // namespace

Graph parse_graph(std::string_view text, const std::string& path, CodeFile& code) {
  const Parser parser{path};
  const Json document = parse_json(text, path);
  if (document.kind != Json::object) parser.refuse("it is no object");
  Graph graph;
  for (const Json& j : parser.member(document, "it", "nodes", Json::list).items) {
    Node node = parser.node(graph, j, "node " + std::to_string(graph.nodes.size()));
    graph.nodes.push_back(std::move(node));
  }
  const Json& attrs = parser.member(document, "it", "attrs", Json::object);
  parser.entries(graph, attrs);
  for (const Json& j : parser.member(document, "it", "heads", Json::list).items)
    graph.heads.push_back(parser.value(graph, j, "a head", graph.nodes.size()));
  std::vector<Value> inputs;
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    if (graph.nodes[i].kind == NodeKind::input) inputs.push_back({int32_t(i), 0});
  parser.named(graph, parser.member(attrs, "attrs", "inputs", Json::list), inputs, "input", nullptr);
  parser.named(graph, parser.member(attrs, "attrs", "outputs", Json::list), graph.heads, "output",
               &graph.output_names);

  parser.indices(graph, document);

  const Json& file = parser.member(attrs, "attrs", "code", Json::object);
  code.name = parser.member(file, "code", "file", Json::text).string;
  const std::string& hash = parser.member(file, "code", "hash", Json::text).string;
  const auto end = std::from_chars(hash.data(), hash.data() + hash.size(), code.hash, 16).ptr;
  if (hash.empty() || end != hash.data() + hash.size()) parser.refuse("the hash of its code is no number");
  return graph;
}

}  // namespace tenon::operator_graph
