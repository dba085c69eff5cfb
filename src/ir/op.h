// SPDX-License-Identifier: Apache-2.0
// Op: an operator as the language sees it: its name, arguments and attributes. Entries are made once, in
// src/op, and live for ever.
#pragma once
#include "ir/graph.h"

namespace tenon::graph {

/// How an operator may be fused (post-dominator fusion), in rising order.
enum class FusionKind : int64_t {
  element_wise = 0,
  broadcast = 1,
  injective = 2,
  comm_reduce = 3,
  out_element_wise_fusable = 4,
  tuple = 7,
  opaque = 8
};
std::string_view to_string(FusionKind kind);

/// Base of attribute nodes: `struct ConvAttrs : Attrs<ConvAttrs> { Array<int64_t> strides; …; fields }`.
struct AttrsNode : Object {
  static constexpr std::string_view type_key = "ir.Attrs";
  static constexpr uint32_t child_slots = 0;
};
template <class T>
struct Attrs : AttrsNode {
  using parent_type = AttrsNode;
};

struct OpArgument {
  std::string name, type, doc;
  bool optional = false;
};

/// What the stages above the IR know of an operator: op::OpDef (op/op_def.h).
struct OpRules {
  virtual ~OpRules() = default;
  /// What patterns ask of the operator by a name (dpl::AttrPattern); none: it has nothing of that name.
  virtual Any property(std::string_view) const { return {}; }
  /// Its two operands may change places.
  virtual bool commutes() const { return false; }
};

struct Op : GraphNode<Op> {
  std::string name;  ///< "nn.conv2d"
  static constexpr std::string_view type_key = "graph.Op";
  static void fields(auto& f) { f.add("name", &Op::name); }
  std::string doc;
  std::vector<OpArgument> arguments;
  bool variadic = false;                 ///< the last argument repeats
  const TypeInfo* attrs_type = nullptr;  ///< attribute node type, null: none
  ObjectRef default_attrs;               ///< of calls that give none
  bool pure = true;
  std::string file;
  int line = 0;  ///< where it was registered
  std::shared_ptr<const OpRules> rules;
};

/// Enters an operator into the table; CHECK when the name is taken.
void add_op(const Ref<Op>& op);
/// The operator of that name; null if there is none.
Ref<Op> find_op(std::string_view name);
/// The operator of that name; CHECK if there is none.
Ref<Op> get_op(std::string_view name);
std::vector<Ref<Op>> all_ops();  ///< sorted by name
/// `call->op` is the operator of that name.
bool is_op(const Expr& call_or_op, std::string_view name);
const Op* op_of(const Expr& call);  ///< null when the callee is no Op

// Calls that join the levels are ordinary operators (op/calls.cpp), for example
//   call_tir(GlobalVar, Tuple args[, ShapeExpr symbolic scalars]) with type_args = output types.
Expr call_tir(const Expr& function, Array<Expr> args, Array<Type> outputs, Array<PrimExpr> symbolic = {});

}  // namespace tenon::graph
