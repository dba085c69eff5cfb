// SPDX-License-Identifier: Apache-2.0
// Nodes come from the instructions of `main`: what a kernel writes is known from the metadata
// "outputs.SYMBOL", what it reads from who wrote that place last.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>

#include "runtime/builtin.h"
#include "runtime/libraries/graph/graph.h"

namespace tenon::operator_graph {
namespace {

[[noreturn]] void refuse(const std::string& why, std::string hint = "run it by a session, as an artifact") {
  throw Error(ErrorKind::usage, "T0515", "the model is no graph with planned memory: it " + why, {},
              std::move(hint));
}
[[noreturn]] void refuse_sizes() {
  refuse("has sizes that only a run tells", "give symbolic dimensions their values (--dim)");
}

/// What a register holds: values (several: a tuple), or a tensor that nothing has been written to.
struct Slot {
  std::vector<Value> values;
  std::optional<Entry> fresh;
};

class Builder {
 public:
  Builder(const Executable& e, const VMFunction& f) : e_(e), f_(f), registers_(size_t(f.num_registers)) {}

  Graph build() {
    graph_.arena_bytes = e_.arena_bytes;
    for (int32_t i = 0; i < f_.num_params; ++i) add_input(i);
    for (const ValueInfo& r : f_.results) graph_.output_names.push_back(r.name);
    for (uint32_t k = 0; k < f_.num_instructions; ++k) {
      const Instruction& in = e_.code[f_.first_instruction + k];
      if (in.op == Opcode::Goto || in.op == Opcode::If) refuse("has branches or loops");
      if (in.op == Opcode::Ret) {
        const Slot& result = registers_[size_t(in.dst)];
        if (result.fresh) refuse("gives a tensor that nothing is written to");
        graph_.heads = result.values;
        break;
      }
      call(in, e_.callees[size_t(in.callee)]);
    }
    if (graph_.heads.size() != f_.results.size()) refuse("gives values that are no tensors");
    return std::move(graph_);
  }

 private:
  void add_input(int32_t i) {
    if (size_t(i) >= f_.params.size()) refuse("takes values that are no tensors");
    const ValueInfo& info = f_.params[size_t(i)];
    Entry entry{info.dtype, {}};
    if (!info.known_rank) refuse_sizes();
    for (const DimInfo& d : info.shape) {
      if (d.value < 0) refuse_sizes();
      entry.shape.push_back(d.value);
    }
    registers_[size_t(i)].values = {{i, 0}};
    graph_.nodes.push_back({.kind = NodeKind::input, .name = info.name, .outputs = {std::move(entry)}});
  }

  int32_t add(Node node) {
    graph_.nodes.push_back(std::move(node));
    return int32_t(graph_.nodes.size()) - 1;
  }
  Value add_view(std::vector<Value> of, Entry entry) {
    return {
        add({.kind = NodeKind::view, .name = "view", .inputs = std::move(of), .outputs = {std::move(entry)}}),
        0};
  }

  static std::pair<int64_t, int64_t> range(const Entry& t) {
    return {t.offset, t.offset + std::max<int64_t>(1, t.bytes())};
  }
  void write(const Entry& t, Value made) {
    const auto [begin, end] = range(t);
    std::erase_if(places_, [b = begin, n = end](const auto& p) { return p.first < n && b < p.second.end; });
    places_[begin] = {end, made};
  }

  Value constant(int64_t number) {
    auto [it, fresh] = constants_.emplace(number, Value{int32_t(graph_.nodes.size()), 0});
    if (fresh) {
      const NDArray& c = e_.constants[size_t(number)];
      add({.kind = NodeKind::constant,
           .name = "p" + std::to_string(number),
           .constant = number,
           .outputs = {{c.dtype(), {c.shape().begin(), c.shape().end()}}}});
    }
    return it->second;
  }
  Entry arena_entry(Arg a) const {
    const ArenaTensor& t = e_.arena_tensors[size_t(a.value())];
    return {t.dtype, t.shape, t.offset};
  }

  /// The tensor that an argument is.
  Value read(Arg a) {
    if (a.kind() == ArgKind::Constant) return constant(a.value());
    if (a.kind() == ArgKind::Register) {
      const Slot& slot = registers_[size_t(a.value())];
      if (slot.fresh || slot.values.size() != 1)
        refuse("reads what is no tensor, or one that nothing is written to");
      return slot.values[0];
    }
    if (a.kind() != ArgKind::Arena) refuse_sizes();
    // A concatenation whose parts were written in their place has several makers.
    const Entry whole = arena_entry(a);
    const auto [begin, end] = range(whole);
    std::vector<Value> makers;
    for (const auto& [at, place] : places_)
      if (at < end && begin < place.end) makers.push_back(place.by);
    if (makers.empty()) refuse("reads memory that nothing is written to");
    if (makers.size() == 1) {
      const Entry& made = graph_.entry(makers[0]);
      if (made.offset == whole.offset && made.bytes() >= whole.bytes() && made.dtype == whole.dtype)
        return makers[0];
    }
    return add_view(std::move(makers), whole);
  }

  void call(const Instruction& in, const Callee& c) {
    if (c.kind == CalleeKind::Function || c.kind == CalleeKind::Closure) refuse("calls functions");
    const std::span<const Arg> args(e_.args.data() + in.first_arg, in.num_args);
    if (c.kind == CalleeKind::Kernel)
      kernel(c, args);
    else
      builtin(c.name, args, in.dst);
  }

  void kernel(const Callee& c, std::span<const Arg> args) {
    const std::string* count = nullptr;
    for (const auto& [key, value] : e_.metadata)
      if (key == "outputs." + c.name) count = &value;
    const int outputs = std::min(count ? std::atoi(count->c_str()) : 1, c.num_buffers);
    Node node{.kind = NodeKind::operation, .name = c.name, .function = c.name};
    const size_t inputs = size_t(c.num_buffers - outputs);
    for (size_t i = 0; i < inputs; ++i) node.inputs.push_back(read(args[i]));
    for (const Arg a : args.subspan(size_t(c.num_buffers))) {
      if (a.kind() != ArgKind::Immediate) refuse_sizes();
      node.numbers.push_back(a.value());
    }
    const auto made = int32_t(graph_.nodes.size());
    std::vector<std::pair<Entry, Value>> written;
    for (int i = 0; i < outputs; ++i) {
      const Arg a = args[inputs + size_t(i)];
      if (a.kind() == ArgKind::Arena) {
        node.outputs.push_back(arena_entry(a));
        written.emplace_back(node.outputs.back(), Value{made, i});
      } else if (a.kind() == ArgKind::Register && registers_[size_t(a.value())].fresh) {
        Slot& slot = registers_[size_t(a.value())];
        node.outputs.push_back(*std::exchange(slot.fresh, {}));
        slot.values = {{made, i}};
      } else {
        refuse("writes a tensor more than once");
      }
    }
    add(std::move(node));
    for (const auto& [entry, value] : written) write(entry, value);
  }

  /// Shapes of builtins are numbers here.
  static std::vector<int64_t> dims(std::span<const Arg> args) {
    std::vector<int64_t> out;
    for (const Arg a : args) {
      if (a.kind() != ArgKind::Immediate) refuse_sizes();
      out.push_back(a.value());
    }
    return out;
  }

  void builtin(const std::string& name, std::span<const Arg> args, int32_t dst) {
    const std::optional<Builtin> what = builtin_of(name);
    Slot result;
    if (what == Builtin::alloc_tensor && args[0].kind() == ArgKind::Immediate) {
      result.fresh = Entry{dtype_of_word(args[0].value()), dims(args.subspan(1))};
    } else if (what == Builtin::reshape) {
      const Value of = read(args[0]);
      Entry entry = graph_.entry(of);
      entry.shape = dims(args.subspan(1));
      result.values = {add_view({of}, std::move(entry))};
    } else if (what == Builtin::move || what == Builtin::copy ||
               what == Builtin::check_tensor) {  // results are copied where somebody has them
      result.values = {read(args[0])};
    } else if (what == Builtin::tuple) {
      for (const Arg a : args) result.values.push_back(read(a));
    } else if (what == Builtin::tuple_get && args[0].kind() == ArgKind::Register) {
      const Slot& tuple = registers_[size_t(args[0].value())];
      if (args[1].kind() != ArgKind::Immediate || size_t(args[1].value()) >= tuple.values.size())
        refuse("takes a part of what is no tuple of tensors");
      result.values = {tuple.values[size_t(args[1].value())]};
    } else if (what == Builtin::match_shape || what == Builtin::compute_shape ||
               what == Builtin::make_shape || what == Builtin::shape_of || what == Builtin::alloc_tensor ||
               what == Builtin::shape_to_tensor || what == Builtin::tensor_to_shape ||
               what == Builtin::arena_tensor) {
      refuse_sizes();
    } else if (what != Builtin::none) {
      refuse("calls `" + name + "`, which is no kernel");
    }
    if (dst >= 0) registers_[size_t(dst)] = std::move(result);
  }

  struct Place {
    int64_t end;
    Value by;
  };
  const Executable& e_;
  const VMFunction& f_;
  Graph graph_;
  std::vector<Slot> registers_;
  std::map<int64_t, Value> constants_;
  std::map<int64_t, Place> places_;  // by offset in the arena
};

}  // namespace

Graph graph_of(const Executable& e) {
  const auto main = std::ranges::find(e.functions, "main", &VMFunction::name);
  return Builder(e, main == e.functions.end() ? e.functions.at(0) : *main).build();
}

}  // namespace tenon::operator_graph
