// SPDX-License-Identifier: Apache-2.0
// Nodes come from the instructions of `main`: what a kernel writes is known from the metadata
// "outputs.SYMBOL", what it reads from who wrote that place last.
#include "codegen/vm/graph_json.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <span>

namespace tenon {
namespace {

std::string quoted(std::string_view s) {
  std::string out = "\"";
  for (const char c : s) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 32) {
      out += ' ';
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

[[noreturn]] void not_straight() {
  throw Error(ErrorKind::usage, "T0515", "the model has branches, loops or calls: it is no one graph");
}

struct Input {
  int node = 0, output = 0;
};
struct Node {
  std::string op;    ///< "null" for inputs and constants, else "tenon_op"
  std::string name;  ///< input, or symbol of the kernel
  std::vector<Input> inputs;
  int num_outputs = 1;
};
struct Graph {
  std::vector<Node> nodes;
  std::vector<Input> heads;
  void build(const Executable& e, const VMFunction& f);
};

void Graph::build(const Executable& e, const VMFunction& f) {
  for (int32_t i = 0; i < f.num_params; ++i)
    nodes.push_back({"null", size_t(i) < f.params.size() ? f.params[size_t(i)].name : "", {}, 1});
  std::map<int64_t, Input> constants;
  struct Written {
    int64_t end;
    Input by;
  };
  std::map<int64_t, Written> places;  // by offset in the arena
  auto range = [&](Arg a) {
    const ArenaTensor& t = e.arena_tensors[size_t(a.value())];
    return std::pair(t.offset,
                     t.offset + std::max<int64_t>(1, storage_bytes(element_count(t.shape), t.dtype)));
  };
  auto write = [&](Arg a, Input made) {
    const auto [begin, end] = range(a);
    std::erase_if(places, [&, b = begin, n = end](const auto& p) { return p.first < n && b < p.second.end; });
    places[begin] = {end, made};
  };
  std::vector<std::vector<Input>> registers(size_t(f.num_registers));
  for (int32_t i = 0; i < f.num_params; ++i) registers[size_t(i)] = {{i, 0}};
  auto read = [&](Arg a) -> std::vector<Input> {
    if (a.kind() == ArgKind::Register) return registers[size_t(a.value())];
    if (a.kind() == ArgKind::Arena) {
      // A concatenation whose parts were written in their place has several makers.
      const auto [begin, end] = range(a);
      std::vector<Input> makers;
      for (const auto& [at, p] : places)
        if (at < end && begin < p.end) makers.push_back(p.by);
      return makers;
    }
    if (a.kind() != ArgKind::Constant) return {};
    auto [it, fresh] = constants.emplace(a.value(), Input{int(nodes.size()), 0});
    if (fresh) nodes.push_back({"null", "p" + std::to_string(a.value()), {}, 1});
    return {it->second};
  };
  for (uint32_t k = 0; k < f.num_instructions; ++k) {
    const Instruction& in = e.code[f.first_instruction + k];
    if (in.op == Opcode::Goto || in.op == Opcode::If) not_straight();
    if (in.op == Opcode::Ret) {
      heads = registers[size_t(in.dst)];
      break;
    }
    const Callee& c = e.callees[size_t(in.callee)];
    if (c.kind == CalleeKind::Function || c.kind == CalleeKind::Closure) not_straight();
    const Arg* args = e.args.data() + in.first_arg;
    if (c.kind == CalleeKind::Builtin) {
      // Allocations, views and tuples pass on what their arguments are.
      std::vector<Input> all;
      const bool item = c.name == "vm.builtin.tuple_get" && in.num_args == 2;
      for (uint32_t i = 0; i < in.num_args; ++i)
        for (const Input& x : read(args[i])) all.push_back(x);
      if (item && size_t(args[1].value()) < all.size()) all = {all[size_t(args[1].value())]};
      if (!c.name.starts_with("vm.builtin.")) {
        nodes.push_back({"tenon_op", c.name, all, 1});
        all = {{int(nodes.size()) - 1, 0}};
      }
      if (in.dst >= 0) registers[size_t(in.dst)] = all;
      continue;
    }
    const std::string* count = nullptr;
    for (const auto& [key, value] : e.metadata)
      if (key == "outputs." + c.name) count = &value;
    const int outputs = std::min(count ? std::atoi(count->c_str()) : 1, c.num_buffers);
    const int node_inputs = c.num_buffers - outputs;
    Node node{"tenon_op", c.name, {}, outputs};
    for (int i = 0; i < node_inputs; ++i)
      for (const Input& x : read(args[i])) node.inputs.push_back(x);
    nodes.push_back(node);
    for (int i = 0; i < outputs; ++i) {
      const Arg a = args[node_inputs + i];
      const Input made{int(nodes.size()) - 1, i};
      if (a.kind() == ArgKind::Register) registers[size_t(a.value())] = {made};
      if (a.kind() == ArgKind::Arena) write(a, made);
    }
  }
}

}  // namespace

std::string graph_json(const Executable& e) {
  const VMFunction* main = &e.functions.at(0);
  for (const VMFunction& f : e.functions)
    if (f.name == "main") main = &f;
  Graph graph;
  graph.build(e, *main);
  auto input = [](const Input& x) {
    return "[" + std::to_string(x.node) + ", " + std::to_string(x.output) + ", 0]";
  };
  std::vector<int> args, rows{0};
  std::string text;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& n = graph.nodes[i];
    if (n.op == "null") args.push_back(int(i));
    rows.push_back(rows.back() + n.num_outputs);
    text += std::string(i ? ",\n    " : "") + "{\"op\": " + quoted(n.op) + ", \"name\": " + quoted(n.name) +
            ", \"inputs\": " + joined(n.inputs, input);
    if (n.op != "null")
      text += ", \"attrs\": {\"func_name\": " + quoted(n.name) +
              ", \"num_inputs\": " + std::to_string(n.inputs.size()) +
              ", \"num_outputs\": " + std::to_string(n.num_outputs) + "}";
    text += "}";
  }
  auto values = [](std::span<const ValueInfo> infos) {
    return joined(infos, [](const ValueInfo& v) {
      return "{\"name\": " + quoted(v.name) + ", \"dtype\": " + quoted(to_string(v.dtype)) + ", \"shape\": " +
             joined(v.shape,
                    [](const DimInfo& d) {
                      return d.symbol.empty() ? std::to_string(d.value) : quoted(d.symbol);
                    }) +
             "}";
    });
  };
  auto number = [](int n) { return std::to_string(n); };
  return "{\n  \"nodes\": [\n    " + text + "],\n  \"arg_nodes\": " + joined(args, number) +
         ",\n  \"heads\": " + joined(graph.heads, input) + ",\n  \"node_row_ptr\": " + joined(rows, number) +
         ",\n  \"attrs\": {\"inputs\": " + values(main->params) + ", \"outputs\": " + values(main->results) +
         "}\n}\n";
}

}  // namespace tenon
