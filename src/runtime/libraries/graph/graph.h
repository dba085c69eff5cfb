// SPDX-License-Identifier: Apache-2.0
// The graph of a straight-line model: operators in order, what each reads and makes, and where in the arena
// that lies. It is made of an artifact's bytecode, written as JSON, and read back into bytecode over the same
// code. Everything here is static: sizes are numbers, and memory is planned.
#pragma once
#include <string>
#include <vector>

#include "runtime/executable.h"

namespace tenon::operator_graph {

/// A tensor that a node makes. `offset`: of its bytes in the arena; kNoStorage for inputs, constants and
/// tensors that leave the model.
inline constexpr int64_t kNoStorage = -1;
struct Entry {
  DataType dtype;
  std::vector<int64_t> shape;
  int64_t offset = kNoStorage;
  int64_t bytes() const { return int64_t(storage_bytes(element_count(shape), dtype)); }
};
/// The entry `output` of the node `node`.
struct Value {
  int32_t node = 0, output = 0;
};

enum class NodeKind : uint8_t {
  input,
  constant,
  operation,  ///< a kernel of the code
  view,       ///< the same bytes under another shape, or tensors that lie side by side as one; no work
};
struct Node {
  NodeKind kind = NodeKind::operation;
  std::string name;
  std::string function = {};  ///< of an operation
  int64_t constant = -1;      ///< number in Executable::constants
  std::vector<Value> inputs = {};
  std::vector<int64_t> numbers = {};  ///< that an operation takes behind its tensors
  std::vector<Entry> outputs = {};
};
struct Graph {
  std::vector<Node> nodes;  ///< each behind those that it reads
  std::vector<Value> heads;
  std::vector<std::string> output_names;
  int64_t arena_bytes = 0;
  const Entry& entry(Value v) const { return nodes[size_t(v.node)].outputs[size_t(v.output)]; }
};
/// The artifact that a graph's operators and constants are of: a file beside it, and its ArtifactInfo::hash.
struct CodeFile {
  std::string name;
  uint64_t hash = 0;
};

/// Error "T0515" when `main` has branches, loops, calls of functions, or sizes that only a run tells.
Graph graph_of(const Executable& executable);

/// nodes, arg_nodes, heads, node_row_ptr and attrs: types, shapes and storage of every entry, inputs and
/// outputs by name, the code.
std::string graph_json(const Graph& graph, const CodeFile& code);
/// Reads what graph_json writes. Error "T0616": it is cut short, or says too little or something impossible.
Graph parse_graph(std::string_view text, const std::string& path, CodeFile& code);

/// Holds a graph that was read against that of the artifact whose code it uses. Errors "T0617" (an operator
/// that the code has not), "T0618" (sizes that do not fit), "T0619" (tensors that share memory while both are
/// needed).
void check_graph(const Graph& graph, const Graph& own, const std::string& path);
/// Bytecode that runs the graph; callees, constants and metadata are those of `code`.
Executable executable_of(const Graph& graph, const Executable& code);

}  // namespace tenon::operator_graph
