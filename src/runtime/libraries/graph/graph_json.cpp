// SPDX-License-Identifier: Apache-2.0
// A graph as text: one line for each node, and lists over all entries behind them.
#include <cstdio>
#include <span>

#include "runtime/libraries/graph/graph.h"

namespace tenon::operator_graph {
namespace {

std::string quoted(std::string_view s) {
  std::string out = "\"";
  for (const char c : s) {
    char escaped[8];
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 32) {
      std::snprintf(escaped, sizeof escaped, "\\u%04x", unsigned(c));
      out += escaped;
    } else {
      out += c;
    }
  }
  return out + "\"";
}
template <class List, class F>
std::string joined(const List& items, F text) {
  std::string out = "[";
  for (const auto& x : items) {
    if (out.size() > 1) out += ", ";
    out += text(x);
  }
  return out + "]";
}
std::string number(int64_t n) { return std::to_string(n); }
std::string value(Value v) { return "[" + number(v.node) + ", " + number(v.output) + ", 0]"; }
std::string shape(const Entry& e) { return joined(e.shape, number); }
std::string dtype(const Entry& e) { return quoted(to_string(e.dtype)); }

std::string node_text(const Node& n) {
  const bool argument = n.kind == NodeKind::input || n.kind == NodeKind::constant;
  std::string out = "{\"op\": " + std::string(argument ? "\"null\"" : "\"tenon_op\"") +
                    ", \"name\": " + quoted(n.name) + ", \"inputs\": " + joined(n.inputs, value);
  if (n.kind == NodeKind::constant) out += ", \"attrs\": {\"constant\": " + number(n.constant) + "}";
  if (!argument) {
    out += ", \"attrs\": {\"func_name\": " + quoted(n.kind == NodeKind::view ? "__nop" : n.function) +
           ", \"num_inputs\": " + number(int64_t(n.inputs.size())) +
           ", \"num_outputs\": " + number(int64_t(n.outputs.size()));
    if (!n.numbers.empty()) out += ", \"numbers\": " + joined(n.numbers, number);
    out += "}";
  }
  return out + "}";
}
std::string named(const std::string& name, const Entry& e) {
  return "{\"name\": " + quoted(name) + ", \"dtype\": " + dtype(e) + ", \"shape\": " + shape(e) + "}";
}

}  // namespace

std::string graph_json(const Graph& graph, const CodeFile& code) {
  std::vector<int64_t> arguments, rows{0};
  std::vector<Entry> entries;
  std::string nodes, inputs, outputs;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& n = graph.nodes[i];
    if (n.kind == NodeKind::input || n.kind == NodeKind::constant) arguments.push_back(int64_t(i));
    if (n.kind == NodeKind::input) inputs += (inputs.empty() ? "" : ", ") + named(n.name, n.outputs[0]);
    entries.insert(entries.end(), n.outputs.begin(), n.outputs.end());
    rows.push_back(int64_t(entries.size()));
    nodes += (i ? ",\n    " : "") + node_text(n);
  }
  for (size_t i = 0; i < graph.heads.size(); ++i)
    outputs += (i ? ", " : "") + named(graph.output_names[i], graph.entry(graph.heads[i]));
  char hash[20];
  std::snprintf(hash, sizeof hash, "%016llx", static_cast<unsigned long long>(code.hash));
  return "{\n  \"nodes\": [\n    " + nodes + "],\n  \"arg_nodes\": " + joined(arguments, number) +
         ",\n  \"heads\": " + joined(graph.heads, value) + ",\n  \"node_row_ptr\": " + joined(rows, number) +
         ",\n  \"attrs\": {\n    \"inputs\": [" + inputs + "],\n    \"outputs\": [" + outputs +
         "],\n    \"dltype\": " + joined(entries, dtype) + ",\n    \"shape\": " + joined(entries, shape) +
         ",\n    \"storage_offset\": " + joined(entries, [](const Entry& e) { return number(e.offset); }) +
         ",\n    \"storage_bytes\": " + number(graph.arena_bytes) +
         ",\n    \"code\": {\"file\": " + quoted(code.name) + ", \"hash\": \"" + hash + "\"}\n  }\n}\n";
}

}  // namespace tenon::operator_graph
