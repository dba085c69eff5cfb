// SPDX-License-Identifier: Apache-2.0
// A graph against the one that its code was compiled for: operators with the sizes that their kernels have,
// and a storage plan in which nothing is overwritten before it was read for the last time.
#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "runtime/libraries/graph/graph.h"

namespace tenon::operator_graph {
namespace {

std::string type_text(const Entry& e) {
  std::string out = to_string(e.dtype) + "(";
  for (size_t d = 0; d < e.shape.size(); ++d) out += (d ? ", " : "") + std::to_string(e.shape[d]);
  return out + ")";
}
bool same_size(const Entry& a, const Entry& b) { return a.dtype == b.dtype && a.bytes() == b.bytes(); }
int64_t end_of(const Entry& e) { return e.offset + std::max<int64_t>(1, e.bytes()); }

/// What the code's own graph shows of a kernel.
struct Operator {
  std::vector<Entry> inputs, outputs;
  std::set<std::vector<int64_t>> numbers;
  std::set<std::pair<size_t, size_t>> in_place;  ///< an input, and the output that may take its memory over
};

class Check {
 public:
  Check(const Graph& graph, const Graph& own, const std::string& path) : g_(graph), path_(path) {
    for (const Node& n : own.nodes) {
      if (n.kind != NodeKind::operation) continue;
      Operator& o = operators_[n.function];
      o.inputs.clear();
      for (const Value in : n.inputs) o.inputs.push_back(own.entry(in));
      o.outputs = n.outputs;
      o.numbers.insert(n.numbers);
      for (size_t i = 0; i < n.inputs.size(); ++i)
        for (size_t k = 0; k < n.outputs.size(); ++k)
          if (n.outputs[k].offset != kNoStorage && n.outputs[k].offset == own.entry(n.inputs[i]).offset)
            o.in_place.insert({i, k});
    }
  }

  void run() {
    for (const Node& n : g_.nodes) {
      if (n.kind == NodeKind::operation) operation(n);
      if (n.kind == NodeKind::view) view(n);
    }
    storage();
  }

 private:
  [[noreturn]] void refuse(const char* code, const Node& n, const std::string& what) const {
    throw Error(ErrorKind::model, code,
                "node " + std::to_string(&n - g_.nodes.data()) + ", `" + n.name + "`, " + what, path_,
                "write the graph again: tenon compile MODEL --emit json");
  }

  void operation(const Node& n) const {
    const auto found = operators_.find(n.function);
    if (found == operators_.end())
      refuse("T0617", n, "is the operator `" + n.function + "`, which the code has not");
    const Operator& o = found->second;
    if (n.inputs.size() != o.inputs.size() || n.outputs.size() != o.outputs.size())
      refuse("T0618", n,
             "takes " + std::to_string(o.inputs.size()) + " tensors and makes " +
                 std::to_string(o.outputs.size()) + ", not " + std::to_string(n.inputs.size()) + " and " +
                 std::to_string(n.outputs.size()));
    for (size_t i = 0; i < n.inputs.size(); ++i)
      if (const Entry& given = g_.entry(n.inputs[i]); !same_size(given, o.inputs[i]))
        refuse("T0618", n,
               "takes " + type_text(o.inputs[i]) + " as input " + std::to_string(i) + ", and is given " +
                   type_text(given));
    for (size_t i = 0; i < n.outputs.size(); ++i)
      if (!same_size(n.outputs[i], o.outputs[i]))
        refuse("T0618", n,
               "makes " + type_text(o.outputs[i]) + " as output " + std::to_string(i) + ", not " +
                   type_text(n.outputs[i]));
    if (!o.numbers.count(n.numbers)) refuse("T0618", n, "is given other numbers than its code was made for");
  }

  /// Who wrote the bytes of a value, through views.
  std::vector<Value> makers(Value v) const {
    const Node& n = g_.nodes[size_t(v.node)];
    return n.kind == NodeKind::view ? view_makers_.at(v.node) : std::vector<Value>{v};
  }

  void view(const Node& n) {
    const Entry& whole = n.outputs[0];
    std::vector<Value>& all = view_makers_[int32_t(&n - g_.nodes.data())];
    for (const Value in : n.inputs)
      for (const Value maker : makers(in)) {
        if ((g_.entry(maker).offset == kNoStorage) != (whole.offset == kNoStorage))
          refuse("T0618", n, "is a view of a tensor that lies elsewhere");
        all.push_back(maker);
      }
    if (whole.offset == kNoStorage) {
      if (all.size() != 1 || whole.bytes() != g_.entry(all[0]).bytes())
        refuse("T0618", n, "is a view of another size than its tensor");
      return;
    }
    // Each of its bytes was made by one of them.
    std::ranges::sort(all, {}, [&](Value v) { return g_.entry(v).offset; });
    int64_t covered = whole.offset;
    for (const Value maker : all)
      if (const Entry& e = g_.entry(maker); e.offset <= covered)
        covered = std::max(covered, e.offset + e.bytes());
    if (covered < whole.offset + whole.bytes()) refuse("T0618", n, "is a view of more than its tensors have");
  }

  /// The last node that reads each entry that an operation makes, views followed.
  std::vector<std::vector<int64_t>> last_reads() const {
    std::vector<std::vector<int64_t>> last(g_.nodes.size());
    for (size_t i = 0; i < g_.nodes.size(); ++i) last[i].assign(g_.nodes[i].outputs.size(), int64_t(i));
    auto read = [&](Value v, int64_t at) {
      for (const Value m : makers(v))
        last[size_t(m.node)][size_t(m.output)] = std::max(last[size_t(m.node)][size_t(m.output)], at);
    };
    for (size_t i = 0; i < g_.nodes.size(); ++i)
      for (const Value in : g_.nodes[i].inputs) read(in, int64_t(i));
    for (const Value head : g_.heads) read(head, std::numeric_limits<int64_t>::max());
    return last;
  }

  void storage() const {
    const auto last = last_reads();
    std::map<int64_t, Value> live;                   // by offset; they do not overlap
    std::map<int64_t, std::vector<int64_t>> ending;  // offsets, by the last node that reads them
    for (size_t i = 0; i < g_.nodes.size(); ++i) {
      const Node& n = g_.nodes[i];
      if (n.kind != NodeKind::operation) continue;
      for (; !ending.empty() && ending.begin()->first < int64_t(i); ending.erase(ending.begin()))
        for (const int64_t offset : ending.begin()->second) {
          const auto it = live.find(offset);
          if (it != live.end() &&
              last[size_t(it->second.node)][size_t(it->second.output)] == ending.begin()->first)
            live.erase(it);
        }
      for (size_t k = 0; k < n.outputs.size(); ++k) {
        const Entry& e = n.outputs[k];
        if (e.offset == kNoStorage) continue;
        make_room(live, last, n, k);
        live[e.offset] = {int32_t(i), int32_t(k)};
        ending[last[i][k]].push_back(e.offset);
      }
    }
  }

  /// Takes inputs away that the output is written over where the kernel may do so.
  void make_room(std::map<int64_t, Value>& live, const std::vector<std::vector<int64_t>>& last, const Node& n,
                 size_t output) const {
    const Entry& e = n.outputs[output];
    auto it = live.upper_bound(e.offset);
    if (it != live.begin()) --it;
    while (it != live.end() && it->first < end_of(e)) {
      const Value there = it->second;
      if (end_of(g_.entry(there)) <= e.offset) {
        ++it;
        continue;
      }
      const bool over = last[size_t(there.node)][size_t(there.output)] == &n - g_.nodes.data() &&
                        is_in_place(n, output, there);
      if (!over)
        refuse("T0619", n,
               "writes over what node " + std::to_string(there.node) + ", `" +
                   g_.nodes[size_t(there.node)].name + "`, made, which is still needed: bytes " +
                   std::to_string(std::max(e.offset, it->first)) + " to " +
                   std::to_string(std::min(end_of(e), end_of(g_.entry(there)))) + " of the storage");
      it = live.erase(it);
    }
  }
  bool is_in_place(const Node& n, size_t output, Value written_over) const {
    const Operator& o = operators_.at(n.function);
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      if (!o.in_place.count({i, output}) || g_.entry(n.inputs[i]).offset != n.outputs[output].offset)
        continue;
      for (const Value m : makers(n.inputs[i]))
        if (m.node == written_over.node && m.output == written_over.output) return true;
    }
    return false;
  }

  const Graph& g_;
  const std::string& path_;
  std::map<std::string, Operator> operators_;
  std::map<int32_t, std::vector<Value>> view_makers_;
};

}  // namespace

void check_graph(const Graph& graph, const Graph& own, const std::string& path) {
  Check(graph, own, path).run();
}

}  // namespace tenon::operator_graph
