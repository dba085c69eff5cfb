// SPDX-License-Identifier: Apache-2.0
// The conversion's inside: values by name, scopes, and what a converter sees of one node. Converters live in
// convert_*.cpp by family, each registered with the opset versions in which its operator changed.
#pragma once
#include <fmt/format.h>

#include <set>
#include <unordered_map>

#include "import/onnx/small.h"
#include "import/onnx/tensor.h"
#include "op/attrs.h"
#include "op/build.h"

namespace tenon::onnx {

using graph::Expr;

/// What a name of the model stands for. One of `expr` and `small` (or both) is set; none: an optional input
/// or output left out.
struct Value {
  Expr expr;
  SmallRef small;
  bool poisoned = false;  ///< its node could not be converted; users are passed over silently
  Value() = default;
  Value(Expr e) : expr(std::move(e)) {}
  template <class T>
    requires std::is_base_of_v<graph::ExprNode, T>
  Value(const Ref<T>& e) : expr(e) {}
  Value(SmallRef s) : small(std::move(s)) {}
  bool present() const { return expr || small; }
};
using Values = std::vector<Value>;

/// Operator sets and attribute values that hold in a graph or inside of an inlined function.
struct Env {
  std::map<std::string, int64_t> opsets;
  std::map<std::string, const proto::AttributeProto*> attributes;  ///< of the function being inlined
  std::string prefix;                                              ///< of node names in messages
};

/// The node's name, or the first output that has one.
inline const std::string& name_of(const proto::NodeProto& n) {
  if (n.name().empty())
    for (const auto& o : n.output())
      if (!o.empty()) return o;
  return n.name();
}

struct Scope {
  std::unordered_map<std::string, Value> values;
  Scope* parent = nullptr;
  Value* find(const std::string& name);
};

class Importer;

/// One node while it is converted.
class NodeContext {
 public:
  NodeContext(Importer& importer, proto::NodeProto& node, Scope& scope, const Env& env, int64_t opset,
              int64_t since);

  Importer& importer;
  proto::NodeProto& node;
  Scope& scope;
  const Env& env;
  int64_t opset, since;  ///< of the model, and of the operator's version in it
  Origin origin;

  const std::string& op_type() const { return node.op_type(); }
  size_t inputs() const { return size_t(node.input_size()); }
  bool has(size_t i) const { return i < inputs() && !node.input(int(i)).empty(); }
  bool wants_output(size_t i) const { return i < size_t(node.output_size()) && !node.output(int(i)).empty(); }
  /// The input as an expression; T2020 when it is missing.
  Expr in(size_t i);
  Expr opt(size_t i) { return has(i) ? in(i) : Expr(); }
  /// The input's elements when they are known; null otherwise.
  SmallRef small(size_t i);
  /// Integers of an input that must be constant: T2102 otherwise.
  std::vector<int64_t> const_ints(size_t i, const char* what);
  std::vector<double> const_floats(size_t i, const char* what);
  /// Sizes from an input, maybe symbolic: T2102 when not known.
  Array<PrimExpr> sizes(size_t i, const char* what);

  const graph::TensorType& type(size_t i);
  DataType dtype(size_t i) { return type(i).dtype; }
  /// T2102 when the rank is not known.
  int64_t rank(size_t i);
  std::optional<Array<PrimExpr>> shape(size_t i);
  /// T2102 when the shape is not known (symbolic is fine).
  Array<PrimExpr> known_shape(size_t i);
  int64_t axis(int64_t axis, int64_t rank);

  const proto::AttributeProto* attr(const std::string& name);  ///< null: absent
  bool has_attr(const std::string& name) { return attr(name) != nullptr; }
  int64_t attr_int(const std::string& name, int64_t otherwise);
  double attr_float(const std::string& name, double otherwise);
  std::string attr_string(const std::string& name, const std::string& otherwise);
  std::vector<int64_t> attr_ints(const std::string& name);
  std::vector<double> attr_floats(const std::string& name);
  proto::TensorProto* attr_tensor(const std::string& name);
  proto::GraphProto* attr_graph(const std::string& name);
  int64_t need_int(const std::string& name);
  std::vector<int64_t> need_ints(const std::string& name);

  /// Emits a call, named after the node's first output.
  Expr op(std::string_view name, Array<Expr> args, ObjectRef attrs = {});
  Expr emit(Expr e);
  Expr item(const Expr& tuple, int64_t index) { return emit(op::get_item(tuple, index)); }
  Expr scalar(double v, DataType t) { return op::scalar(v, t); }
  Expr reshape(const Expr& x, Array<PrimExpr> shape) {
    return op("reshape", {x, graph::shape_expr(std::move(shape))});
  }
  Expr cast(const Expr& x, DataType t);
  Expr transpose(const Expr& x, std::vector<int64_t> axes);
  /// x of that shape: a check at run time where it is not known to have it.
  Expr checked(const Expr& x, const Array<PrimExpr>& shape);
  /// b such that its shape is known to broadcast against a's: where two symbolic sizes cannot be proven
  /// equal, a check at run time says that they are.
  Expr aligned(const Expr& a, const Expr& b);
  /// A call of two broadcast operands.
  Expr binary(std::string_view name, const Expr& a, const Expr& b) { return op(name, {a, aligned(a, b)}); }

  std::string where() const;
  /// T2020: the node is not what the operator's specification allows.
  [[noreturn]] void malformed(std::string message);
  /// T2102: the operator in this form is not supported.
  [[noreturn]] void unsupported(std::string message, std::string hint = {});
};

using ConvertFn = Values (*)(NodeContext&);
struct Converter {
  std::vector<int64_t> since;
  ConvertFn fn;
  std::string note;
};
/// Registers the converter of an operator. `since`: opset versions in which the operator appeared or changed.
struct RegisterConverter {
  RegisterConverter(const char* name, std::vector<int64_t> since, ConvertFn fn, const char* note = "");
};
const std::map<std::string, Converter, std::less<>>& converters();
/// Null when the operator is not supported (in this domain).
const Converter* find_converter(const std::string& domain, const std::string& name);
inline bool is_onnx_domain(const std::string& d) { return d.empty() || d == "ai.onnx"; }

/// What the standard operator of that name makes of these inputs, with the attributes of node n: for
/// operators of other domains that are a standard one and something around it.
Values convert_as(NodeContext& n, const char* op_type, const Array<Expr>& inputs, int64_t opset = 0);

/// Evaluates a node whose inputs are all small, or nullopt.
std::optional<Values> fold_node(NodeContext& n);

class Importer {
 public:
  Importer(ModelFile& file, const ImportOptions& options)
      : file(file), options(options), builder(op::make_builder()) {}
  IRModule run();

  ModelFile& file;
  const ImportOptions& options;
  graph::BlockBuilder builder;

  /// Converts the graph's nodes in order; its outputs' values.
  Values convert_graph(proto::GraphProto& g, Scope& scope, const Env& env, int depth);
  /// What `make` emits as a separate sequence (a branch, a loop's body), its values as one expression.
  struct Body {
    Expr expr;               ///< null when poisoned
    bool poisoned = false;   ///< some of it could not be converted
    std::string impossible;  ///< poisoned only because these shapes do not allow it: the first reason
    size_t first_problem = 0, problems = 0;  ///< what was reported meanwhile
  };
  Body convert_body(std::string_view what, FunctionRef<Values()> make);
  /// A body that ends the run with this message; its value would be of the type.
  Expr refusal(const std::string& message, const graph::Type& type);
  /// Branches whose outputs differ in rank: what follows the If in its graph is converted for each by itself.
  void fork(Expr condition) { fork_ = std::move(condition); }
  /// The If of two branches, of which one may be impossible; null when something is poisoned.
  Expr branches(const Expr& condition, Body yes, Body no, const Origin& origin, const std::string& where);
  /// The type as it is known outside of the sequence that is being emitted: sizes that only it knows go.
  graph::Type visible(const graph::Type& type) const;
  /// An expression for a value; makes a constant or a symbolic tensor from a small one, once.
  Expr expr_of(Value& v, const Origin& origin);
  /// The constant of a tensor in the file, read once.
  Expr constant_of(proto::TensorProto& t, const std::string& where);
  /// A unique name for a variable in text form.
  std::string identifier(std::string_view name);
  PrimExpr symbol(const std::string& name);
  int depth = 0;

 private:
  int branches_ = 0;
  Expr fork_;
  int64_t unsupported_nodes_ = 0;
  Values convert_from(proto::GraphProto& g, const std::vector<int>& order, size_t at, Scope& scope,
                      const Env& env);
  Values convert_forked(proto::GraphProto& g, const std::vector<int>& order, size_t at, Scope& scope,
                        const Env& env);
  void read_opsets();
  void convert_node(proto::NodeProto& node, Scope& scope, const Env& env);
  std::optional<Values> inline_function(proto::NodeProto& node, Scope& scope, const Env& env,
                                        const std::string& where);
  std::vector<int> order_of(const proto::GraphProto& g, const Scope& scope);
  graph::Type input_type(const proto::ValueInfoProto& info);
  void unsupported_operator(const proto::NodeProto& node, const Env& env, const std::string& where);
  void report(const DiagnosticError& e);

  struct Group {
    std::string op, first;
    std::vector<std::string> nodes;
    std::string hint;
  };
  Env main_env_;
  std::vector<Diagnostic> problems_;
  ErrorKind problem_kind_ = ErrorKind::model;
  std::map<std::string, size_t> group_index_;
  std::vector<Group> groups_;
  std::unordered_map<const proto::TensorProto*, Expr> constants_;
  std::set<std::string> dim_names_;  ///< symbolic dimensions of the inputs, by the model's names
  std::map<std::string, PrimExpr> symbols_;
  std::set<std::string> used_symbol_names_;
  std::map<std::string, const proto::FunctionProto*> functions_;
  std::vector<std::string> inlining_;
  int64_t converted_ = 0, max_converted_ = 0;
};

}  // namespace tenon::onnx
