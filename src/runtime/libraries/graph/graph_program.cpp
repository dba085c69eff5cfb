// SPDX-License-Identifier: Apache-2.0
// A checked graph becomes bytecode over the code's kernels, so that everything that runs artifacts runs it.
#include <algorithm>
#include <map>

#include "runtime/builtin.h"
#include "runtime/libraries/graph/graph.h"

namespace tenon::operator_graph {
namespace {

ValueInfo info_of(const std::string& name, const Entry& e) {
  ValueInfo out{name, e.dtype, true, {}};
  for (const int64_t d : e.shape) out.shape.push_back({d, {}});
  return out;
}

class Program {
 public:
  Program(const Graph& graph, const Executable& code) : g_(graph) {
    e_.callees = code.callees;
    e_.constants = code.constants;
    e_.modules = code.modules;
    e_.needs = code.needs;
    e_.arena_bytes = graph.arena_bytes;
    e_.metadata = code.metadata;
    std::erase_if(e_.callees, [](const Callee& c) { return c.kind != CalleeKind::Kernel; });
    for (size_t i = 0; i < e_.callees.size(); ++i) callees_[e_.callees[i].name] = int32_t(i);
  }

  Executable build() {
    VMFunction main{.name = "main"};
    places_.resize(g_.nodes.size());
    for (size_t i = 0; i < g_.nodes.size(); ++i)
      if (const Node& n = g_.nodes[i]; n.kind == NodeKind::input) {
        main.params.push_back(info_of(n.name, n.outputs[0]));
        places_[i] = {Arg::of(ArgKind::Register, registers_++)};
      }
    main.num_params = int32_t(main.params.size());
    for (size_t i = 0; i < g_.nodes.size(); ++i) node(g_.nodes[i], places_[i]);
    for (size_t i = 0; i < g_.heads.size(); ++i)
      main.results.push_back(info_of(g_.output_names[i], g_.entry(g_.heads[i])));
    e_.code.push_back({.op = Opcode::Ret, .dst = result()});
    main.num_registers = registers_;
    main.num_instructions = uint32_t(e_.code.size());
    e_.functions.push_back(std::move(main));
    return std::move(e_);
  }

 private:
  Arg place(Value v) const { return places_[size_t(v.node)][size_t(v.output)]; }

  void call(int32_t callee, int32_t dst, const std::vector<Arg>& args) {
    e_.code.push_back({.op = Opcode::Call,
                       .dst = dst,
                       .callee = callee,
                       .first_arg = uint32_t(e_.args.size()),
                       .num_args = uint32_t(args.size())});
    e_.args.insert(e_.args.end(), args.begin(), args.end());
  }
  /// The register that a builtin's result is in.
  Arg builtin(Builtin b, std::vector<Arg> args, const std::vector<int64_t>& numbers = {}) {
    for (const int64_t n : numbers) args.push_back(Arg::of(ArgKind::Immediate, n));
    const auto [it, fresh] = callees_.emplace(name_of(b), int32_t(e_.callees.size()));
    if (fresh) e_.callees.push_back({.kind = CalleeKind::Builtin, .name = it->first});
    call(it->second, registers_, args);
    return Arg::of(ArgKind::Register, registers_++);
  }
  Arg in_arena(const Entry& e) {
    e_.arena_tensors.push_back({e.offset, e.shape, e.dtype});
    return Arg::of(ArgKind::Arena, int64_t(e_.arena_tensors.size()) - 1);
  }

  void node(const Node& n, std::vector<Arg>& places) {
    switch (n.kind) {
      case NodeKind::input:
        return;
      case NodeKind::constant:
        places = {Arg::of(ArgKind::Constant, n.constant)};
        return;
      case NodeKind::view: {
        const Entry& e = n.outputs[0];
        places = {e.offset != kNoStorage ? in_arena(e)
                                         : builtin(Builtin::reshape, {place(n.inputs[0])}, e.shape)};
        return;
      }
      case NodeKind::operation:
        break;
    }
    std::vector<Arg> args;
    for (const Value in : n.inputs) args.push_back(place(in));
    for (const Entry& e : n.outputs) {
      places.push_back(
          e.offset != kNoStorage
              ? in_arena(e)
              : builtin(Builtin::alloc_tensor, {Arg::of(ArgKind::Immediate, dtype_word(e.dtype))}, e.shape));
      args.push_back(places.back());
    }
    for (const int64_t v : n.numbers) args.push_back(Arg::of(ArgKind::Immediate, v));
    call(callees_.at(n.function), -1, args);
  }

  /// The register of the result: a tensor, or a tuple of several.
  int32_t result() {
    std::vector<Arg> heads;
    for (const Value head : g_.heads) {
      const Entry& e = g_.entry(head);
      const Arg at = place(head);
      heads.push_back(at.kind() == ArgKind::Register ? at
                      : at.kind() == ArgKind::Arena  ? builtin(Builtin::reshape, {at}, e.shape)
                                                     : builtin(Builtin::move, {at}));
    }
    return int32_t((heads.size() == 1 ? heads[0] : builtin(Builtin::tuple, heads)).value());
  }

  const Graph& g_;
  Executable e_;
  std::map<std::string, int32_t> callees_;
  std::vector<std::vector<Arg>> places_;  ///< of each node's entries
  int32_t registers_ = 0;
};

}  // namespace

Executable executable_of(const Graph& graph, const Executable& code) { return Program(graph, code).build(); }

}  // namespace tenon::operator_graph
