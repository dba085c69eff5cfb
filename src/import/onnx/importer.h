// SPDX-License-Identifier: Apache-2.0
// The conversion's inside: values by name, scopes, and what a converter sees of one node. Converters live in
// convert_*.cpp by family, each registered with the opset versions in which its operator changed.
#pragma once
#include <fmt/format.h>

#include <functional>
#include <optional>
#include <set>
#include <unordered_map>

#include "import/onnx/form.h"
#include "import/onnx/small.h"
#include "import/onnx/tensor.h"
#include "op/attrs.h"
#include "op/build.h"

namespace tenon::onnx {

/// Copies of what follows a node, one for each case of sizes that only the run knows; the artifact holds them
/// all.
constexpr size_t kMaxVariants = 16;
/// Nodes that are copied for that, at most: large models are compiled once, for sizes that are equal.
constexpr size_t kMaxVariantNodes = 500;
/// Tensors whose rank only the run knows have a variant for each rank up to this one; the run refuses others.
constexpr int64_t kMaxRank = 6;
constexpr const char* kTooManyDimensions = "T2104";
/// Variants for ranks, and nodes copied for them, at most: those of two such tensors.
constexpr size_t kMaxRankVariants = size_t(kMaxRank + 1) * size_t(kMaxRank + 2);
constexpr size_t kMaxRankNodes = 5000;

using graph::Expr;

/// What a name of the model stands for. One of `expr` and `small` (or both) is set; none: an optional input
/// or output left out.
struct Value {
  Expr expr;
  SmallRef small;
  FormRef form;           ///< null: a tensor of numbers
  bool poisoned = false;  ///< its node could not be converted; users are passed over silently
  Value() = default;
  Value(Expr e) : expr(std::move(e)) {}
  template <class T>
    requires std::is_base_of_v<graph::ExprNode, T>
  Value(const Ref<T>& e) : expr(e) {}
  Value(SmallRef s) : small(std::move(s)) {}
  Value(Expr e, FormRef f) : expr(std::move(e)), form(std::move(f)) {}
  bool present() const { return expr || small; }
};
using Values = std::vector<Value>;

/// Operator sets and attribute values that hold in a graph or inside of an inlined function.
struct Env {
  std::map<std::string, int64_t> opsets;
  std::map<std::string, const proto::AttributeProto*>
      attributes;      ///< of the function being inlined; null: left out
  std::string prefix;  ///< of node names in messages
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
  /// A parameter of a body or a function; T2010 where it has that name already.
  void define(const std::string& name, Value value, const std::string& where);
};

class Importer;

/// A vector of bytes.
Expr bytes_constant(const std::string& text);

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
  /// These inputs, where they are given, have one data type; T2020.
  void expect_one_dtype(std::initializer_list<size_t> inputs);
  /// The input is a tensor of integers, and nothing that the program holds as one; T2020.
  void expect_integers(size_t i, const char* what);
  /// These inputs hold quantised numbers: integers of at most 16 bits; T2020.
  void expect_quantised(std::initializer_list<size_t> inputs);
  /// Whether the expression is one of the inputs.
  bool is_input(const Expr& e);
  Expr opt(size_t i) { return has(i) ? in(i) : Expr(); }
  /// The input's elements when they are known; null otherwise.
  SmallRef small(size_t i);
  /// Integers of an input that must be constant: T2102 otherwise.
  std::vector<int64_t> const_ints(size_t i, const char* what);
  std::vector<double> const_floats(size_t i, const char* what);
  /// Sizes from an input, maybe symbolic: T2102 when not known.
  Array<PrimExpr> sizes(size_t i, const char* what);

  /// What the input is beyond a tensor of numbers; null for one.
  FormRef form(size_t i);
  /// The form of an item that a container takes in: of any value that is present.
  FormRef item_form(const Value& v);
  /// A tensor or container that is an item of an object: sizes that are not known become symbols.
  Value item_value(const Expr& object, const FormRef& form);
  Value& value(size_t i);

  const graph::TensorType& type(size_t i);
  DataType dtype(size_t i) { return type(i).dtype; }
  /// T2102 when the rank is not known.
  int64_t rank(size_t i);
  std::optional<Array<PrimExpr>> shape(size_t i);
  /// T2102 when the shape is not known (symbolic is fine).
  Array<PrimExpr> known_shape(size_t i);
  /// T2020, too, where it has fewer than `least` dimensions, or more than `most`.
  Array<PrimExpr> known_shape(size_t i, size_t least, size_t most = SIZE_MAX);
  int64_t axis(int64_t axis, int64_t rank);

  void check_references();  ///< T2020: an attribute refers to one that no function around the node has
  const proto::AttributeProto* attr(const std::string& name);  ///< null: absent
  bool has_attr(const std::string& name) { return attr(name) != nullptr; }
  int64_t attr_int(const std::string& name, int64_t otherwise);
  double attr_float(const std::string& name, double otherwise);
  std::string attr_string(const std::string& name, const std::string& otherwise);
  std::vector<int64_t> attr_ints(const std::string& name);
  std::vector<double> attr_floats(const std::string& name);
  std::vector<std::string> attr_strings(const std::string& name);
  proto::TensorProto* attr_tensor(const std::string& name);
  proto::GraphProto* attr_graph(const std::string& name);
  int64_t need_int(const std::string& name);
  std::vector<int64_t> need_ints(const std::string& name);

  /// Emits a call, named after the node's first output.
  Expr op(std::string_view name, Array<Expr> args, ObjectRef attrs = {});
  Expr emit(Expr e);
  /// Calls a function of the runtime's libraries by name; its first argument is this node's place.
  Expr packed(const char* function, const Array<Expr>& args, const graph::Type& type = graph::object_type());
  Expr number(int64_t v) { return make<graph::PrimValue>(PrimExpr(v)); }
  Expr item(const Expr& tuple, int64_t index) { return emit(op::get_item(tuple, index)); }
  Expr scalar(double v, DataType t) { return op::scalar(v, t); }
  Expr reshape(const Expr& x, Array<PrimExpr> shape) {
    return op("reshape", {x, graph::shape_expr(std::move(shape))});
  }
  Expr cast(const Expr& x, DataType t);
  Expr transpose(const Expr& x, std::vector<int64_t> axes);
  Expr slice(const Expr& x, int64_t axis, const PrimExpr& begin, const PrimExpr& end, int64_t step = 1);
  Expr concat(const Array<Expr>& parts, int64_t axis);
  /// That value everywhere.
  Expr full(Array<PrimExpr> shape, double value, DataType t);
  /// T2102 when the shape of the expression is not known (symbolic is fine).
  Array<PrimExpr> shape_of(const Expr& e);
  /// x of that shape: a check at run time where it is not known to have it.
  Expr checked(const Expr& x, const Array<PrimExpr>& shape);
  /// `e` with a symbol of its own for each size that is not known. `known`: sizes of its first axes that its
  /// type does not say; null where they are not known either.
  Expr with_sizes(const Expr& e, const Array<PrimExpr>& known = {});
  /// T2015 where a tensor would be larger than the limit, T2020 where a size is negative.
  void check_size(const Array<PrimExpr>& shape, DataType t);
  /// The run ends where two sizes are not equal.
  void require_equal(const PrimExpr& a, const PrimExpr& b);
  /// Size a is at most b: T2020 with this message, or the end of the run, where it is not.
  void require_at_most(const PrimExpr& a, const PrimExpr& b, const char* message);
  /// A size that a model took through 32 bits is the size itself, which must fit them when the model runs.
  PrimExpr size_of(const PrimExpr& e);
  /// Indices that are inside of an axis of that size, or T2020; those that the run gives are checked there
  /// (T0509). `sizes`: one, or one for each position along the last axis of the indices. `from_end`: negative
  /// ones count from the end; else they are outside.
  Expr checked_indices(const Expr& at, const Array<PrimExpr>& sizes, bool from_end = true);
  /// Sizes x and y of operands that are broadcast together, as they are in the variant that is being
  /// converted: each as it was, 1, or equal to the other. Symbolic ones ask for variants (Importer::fork):
  /// for equal sizes and for either being 1; `one_way`: x is not stretched. nullopt beyond the limit of
  /// variants: the run stretches the operands.
  std::optional<std::pair<PrimExpr, PrimExpr>> broadcast_sizes(const PrimExpr& x, const PrimExpr& y,
                                                               bool one_way = false);
  /// Makes it known how a and b broadcast, but for their last `inner` dimensions.
  void align(Expr& a, Expr& b, bool one_way = false, size_t inner = 0);
  /// A call of two broadcast operands.
  Expr binary(std::string_view name, Expr a, Expr b) {
    align(a, b);
    return op(name, {a, b});
  }

  /// Input i, a vector as long as the last axis of input `of`: T2020, or the end of the run, for others.
  Expr along_last(size_t i, size_t of);
  /// A call of x and y, which is stretched to the shape of x; T2020, or the end of the run, where it does not
  /// fit.
  Expr onto(std::string_view name, Expr x, Expr y);

  std::string where() const;
  /// T2020: the node is not what the operator's specification allows.
  [[noreturn]] void malformed(std::string message);
  /// T2102: the operator in this form is not supported.
  [[noreturn]] void unsupported(std::string message, std::string hint = {});
  /// The same of what is not known at import: the hint names the inputs of the model to bind, if any.
  [[noreturn]] void not_known(const std::string& message, std::string otherwise = {});
};

using ConvertFn = Values (*)(NodeContext&);
/// Whether a converter looks at what its inputs are beyond tensors of numbers (NodeContext::form).
enum class Forms { numbers, any };
/// What is known of an operator beside its conversion.
struct ConverterFacts {
  double operations = -1;     ///< floating ones for an element of the result; 0: elements move; -1: not said
  std::set<int> values = {};  ///< positions of inputs that the converter reads as values: axes, sizes, pads
  const char* note = "";      ///< for lists of operators
  Forms forms = Forms::numbers;
  /// Older sets mean what 6 does: it took away 'consumed_inputs', which says nothing of values, or added
  /// types.
  bool as_in_six = false;
};
struct Converter {
  std::vector<int64_t> since;
  ConvertFn fn;
  ConverterFacts facts;
};
/// Registers the converter of an operator. `since`: opset versions in which the operator appeared or changed.
struct RegisterConverter {
  RegisterConverter(const char* name, std::vector<int64_t> since, ConvertFn fn, const char* note = "",
                    Forms forms = Forms::numbers);
  RegisterConverter(const char* name, std::vector<int64_t> since, ConvertFn fn, ConverterFacts facts);
};
const std::map<std::string, Converter, std::less<>>& converters();
/// Null when the operator is not supported (in this domain).
const Converter* find_converter(const std::string& domain, const std::string& name);
inline bool is_onnx_domain(const std::string& d) { return d.empty() || d == "ai.onnx"; }

/// Lists of integers that a node does not have as attributes.
using GivenAttributes = std::map<std::string, std::vector<int64_t>>;
/// What the standard operator of that name makes of these inputs, with the attributes of node n and those
/// `given`: for operators of other domains that are a standard one and something around it.
Values convert_as(NodeContext& n, const char* op_type, const Array<Expr>& inputs, int64_t opset = 0,
                  const GivenAttributes& given = {});

/// Whether two sizes of one symbol are equal unless it is 0, where none of them is 1: neither is stretched.
bool equal_but_at_zero(const PrimExpr& x, const PrimExpr& y);

/// Evaluates a node whose inputs are all small, or nullopt.
std::optional<Values> fold_node(NodeContext& n);

class Importer {
 public:
  Importer(ModelFile& file, const ImportOptions& options)
      : file(file), options(options), builder(op::make_builder()) {}
  IRModule run();

  ModelFile& file;
  ImportOptions options;
  graph::BlockBuilder builder;

  /// Converts the graph's nodes in order; its outputs' values.
  Values convert_graph(proto::GraphProto& g, Scope& scope, const Env& env, int depth);
  /// What `make` emits as a separate sequence (a branch, a loop's body), its values as one expression.
  struct Body {
    Expr expr;                   ///< null when poisoned
    std::vector<FormRef> forms;  ///< of its values
    bool poisoned = false;       ///< some of it could not be converted
    std::string impossible;      ///< poisoned only because these shapes do not allow it: the first reason
    size_t first_problem = 0, problems = 0;  ///< what was reported meanwhile
  };
  Body convert_body(std::string_view what, FunctionRef<Values()> make);
  /// A body that ends the run with this message; its value would be of the type.
  Expr refusal(const std::string& message, const graph::Type& type);
  /// What follows a node in its graph is converted by itself for each variant of the node: variant i is taken
  /// where condition i is the first that holds, the last one where none does. `convert` sets the node's
  /// outputs.
  struct Fork {
    std::vector<Expr> conditions;
    std::function<void(size_t variant, Scope& outputs)> convert;
    int64_t opset = 0, since = 0;  ///< of the node, as messages say them
  };
  void fork(Fork f) { fork_ = std::move(f); }
  bool forks() const { return fork_.has_value(); }
  /// Two sizes that are equal, or are not, in the variant that is being converted.
  struct KnownSizes {
    PrimExpr a, b;
    bool equal = true;
  };
  /// A node whose meaning depends on which sizes are equal: in variant i the two of entry i are the first
  /// that are, in the last one none are, and `last` holds. False: there would be too many variants.
  bool fork_on_sizes(NodeContext& n, const std::vector<KnownSizes>& equal,
                     std::optional<KnownSizes> last = {});
  /// The number that a size is in the variant that is being converted.
  std::optional<int64_t> known_size(const PrimExpr& size) const;
  /// A node whose results' ranks depend on a size, the length of a vector of values: known_size knows it in
  /// each variant. False: there would be too many.
  bool fork_on_rank(NodeContext& n, const PrimExpr& size);
  /// The same for a tensor of unknown rank, which `ranked` replaces in each variant.
  bool fork_on_unknown_rank(NodeContext& n, const Expr& x);
  /// A tensor of unknown rank as it is in the variant that is being converted; any other as it is.
  Expr ranked(const Expr& x) const;
  /// Sizes that two others broadcast to, bound in the sequence that is being emitted or around it.
  struct Stretched {
    PrimExpr a, b, size;
  };
  std::vector<Stretched> stretched_;
  /// Indices of which the run has shown, there too, that they are inside of an axis: so many, and its size.
  struct Picked {
    PrimExpr indices, size;
  };
  std::vector<Picked> picked_;
  /// Symbols of which the run has shown, there too, that they are not 0.
  std::vector<tir::VarRef> not_zero_;
  bool is_not_zero(const tir::VarRef& size) const;
  /// The run finds two sizes to be equal: symbols that are not 0 then.
  void note_equal(const PrimExpr& a, const PrimExpr& b);
  /// A size, and a tensor with its sizes, where what is known not to be 0 decides cases of them.
  PrimExpr settled(const PrimExpr& size) const;
  Expr settled(const Expr& x);
  /// Whether two sizes are equal, as far as it is known.
  std::optional<bool> sizes_equal(const PrimExpr& a, const PrimExpr& b) const;
  /// The If of two branches, of which one may be impossible; null when something is poisoned.
  Expr branches(const Expr& condition, Body yes, Body no, const Origin& origin, const std::string& where);
  /// The forms of values that are those of one branch or of the other: T2020 where they do not agree.
  std::vector<FormRef> joined(const Body& yes, const Body& no, const std::string& where);
  /// The sizes that each of the values has in both branches, or in the one that is possible: null for one
  /// that differs.
  std::vector<Array<PrimExpr>> agreed_sizes(const Body& yes, const Body& no) const;
  /// The type as it is known outside of the sequence that is being emitted: sizes that only it knows go.
  graph::Type visible(const graph::Type& type) const;
  /// Whether a size is known there.
  bool visible(const PrimExpr& size) const;
  /// Those sizes of a tensor, null for the others; none where its shape is not known.
  Array<PrimExpr> visible_sizes(const graph::Type& type) const;
  /// An expression for a value; makes a constant or a symbolic tensor from a small one, once.
  Expr expr_of(Value& v, const Origin& origin);
  /// A tensor in the file, whatever its elements are.
  Value tensor_value(proto::TensorProto& t, const std::string& where);
  /// The table of strings of a run.
  Expr strings();
  /// A call of a function of the runtime's libraries, which names the place where it fails.
  Expr packed(const char* function, const Array<Expr>& args, const graph::Type& type, const Origin& origin,
              const std::string& place);
  /// The constant of a tensor in the file, read once.
  Expr constant_of(proto::TensorProto& t, const std::string& where);
  /// The dense constant of a sparse tensor in the file: T2014 for indices that are outside, or do not rise.
  Expr dense_of(proto::SparseTensorProto& sparse, const std::string& where);
  /// A unique name for a variable in text form.
  std::string identifier(std::string_view name);
  PrimExpr symbol(const std::string& name);
  int depth = 0;

 private:
  /// Takes the overridden initialisers out: what remains of each is the input.
  void free_initializers(proto::GraphProto& g) const;
  /// Sizes that bound values show of named dimensions join `options.dims`; what cannot be bound is refused.
  void read_bound(const proto::GraphProto& g);
  void read_inputs(const proto::GraphProto& g, Scope& scope);
  Value bound_value(const proto::ValueInfoProto& info, const NDArray& value) const;
  IRModule finish(const proto::GraphProto& g, const Values& outputs);
  /// "T2023" where an output is certainly not what the model declares it to be.
  void check_declared(const proto::ValueInfoProto& info, const Value& v, const char* what = "output") const;
  /// The same of values inside of a graph that its value_info speaks of, as problems.
  void check_value_info(const proto::GraphProto& g, const Scope& scope);
  Value enter(const graph::VarRef& param, const proto::ValueInfoProto& info, const graph::Type& type);
  Expr leave(const Value& v, const std::string& name);
  struct Inputs {
    Array<graph::VarRef> params;
    Array<std::string> names;
    std::vector<FormRef> forms;
  } inputs_;
  int64_t dense_bytes_ = 0;  ///< of sparse tensors
  std::set<std::string> value_inputs_;
  graph::VarRef strings_;  ///< null: the model has none
  int branches_ = 0;
  std::optional<Fork> fork_;
  proto::NodeProto* converting_ = nullptr;  ///< of the model: what a fork converts again
  std::vector<KnownSizes> sizes_;           ///< of the variant that is being converted
  struct Ranked {
    Expr unknown, known;
  };
  std::vector<Ranked> ranked_;  ///< what the run has shown of tensors, or the variant says
  size_t rank_variants_ = 0, rank_nodes_ = 0;
  size_t variants_ = 1;       ///< of the whole model that sizes have asked for
  size_t variant_nodes_ = 0;  ///< copies of nodes in them
  size_t following_ = 0;      ///< nodes of the graph from the one that is being converted on
  int64_t unsupported_nodes_ = 0;
  Values convert_from(proto::GraphProto& g, const std::vector<int>& order, size_t at, Scope& scope,
                      const Env& env);
  /// `known` makes a rank known in its variant.
  bool fork_on_ranks(NodeContext& n, const PrimExpr& size, std::function<void(int64_t)> known);
  Values convert_forked(proto::GraphProto& g, const std::vector<int>& order, size_t at, Scope& scope,
                        const Env& env);
  void read_opsets();
  void convert_node(proto::NodeProto& node, Scope& scope, const Env& env);
  std::optional<Values> inline_function(proto::NodeProto& node, Scope& scope, const Env& env,
                                        const std::string& where);
  std::vector<int> order_of(const proto::GraphProto& g, const Scope& scope);
  /// Of the value in the program, and what it is beyond a tensor of numbers.
  std::pair<graph::Type, FormRef> input_type(const proto::ValueInfoProto& info);
  void unsupported_operator(const proto::NodeProto& node, const Env& env, const std::string& where);
  /// Keeps what is wrong for the end; `where`: of what says no place itself.
  void report(const DiagnosticError& e, const std::string& where);

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
