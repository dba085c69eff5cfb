// SPDX-License-Identifier: Apache-2.0
// Op: what the graph level knows of one operator. Entries are made once, in src/op, and live for ever.
#pragma once
#include <any>
#include <map>
#include <source_location>

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

/// Type inference of one call: argument types are set; returns the result's type. A user's mistake is a
/// DiagnosticError made by `infer_error` (names operator, arguments with types, and the call's origin).
using InferType = std::function<Type(const Call& call)>;
[[noreturn]] void infer_error(const Call& call, std::string message, std::string hint = {});

struct OpArgument {
  std::string name, type, doc;
  bool optional = false;
};

struct Op : GraphNode<Op> {
  std::string name;  ///< "nn.conv2d"
  static constexpr std::string_view type_key = "graph.Op";
  static void fields(auto& f) { f.add("name", &Op::name); }
  std::string doc;
  std::vector<OpArgument> arguments;
  bool variadic = false;                 ///< the last argument repeats
  const TypeInfo* attrs_type = nullptr;  ///< attribute node type, null: none
  InferType infer;
  FusionKind fusion = FusionKind::opaque;
  bool pure = true;
  std::string file;
  int line = 0;                           ///< where it was registered
  std::map<std::string, std::any> extra;  ///< further typed attributes, see set_attr
  template <class T>
  const T* attr(const std::string& key) const {
    auto it = extra.find(key);
    return it == extra.end() ? nullptr : std::any_cast<T>(&it->second);
  }
};

/// Registration: `register_op("nn.relu", "max(x, 0)").argument(…).infer(…).fusion(…)`, at namespace scope.
class OpRegistration {
 public:
  OpRegistration(std::string name, std::string doc, std::source_location where);
  OpRegistration& argument(std::string name, std::string type, std::string doc, bool optional = false);
  OpRegistration& variadic() {
    op_->variadic = true;
    return *this;
  }
  template <class T>
  OpRegistration& attrs() {
    op_->attrs_type = type_info<T>();
    return *this;
  }
  OpRegistration& infer(InferType f) {
    op_->infer = std::move(f);
    return *this;
  }
  OpRegistration& fusion(FusionKind k) {
    op_->fusion = k;
    return *this;
  }
  OpRegistration& impure() {
    op_->pure = false;
    return *this;
  }
  template <class T>
  OpRegistration& set_attr(const std::string& key, T value) {
    op_->extra.insert_or_assign(key, std::any(std::move(value)));
    return *this;
  }
  const Op* op() const { return op_; }

 private:
  Op* op_;
};
OpRegistration register_op(std::string name, std::string doc,
                           std::source_location where = std::source_location::current());

/// The operator of that name; null if there is none.
Ref<Op> find_op(std::string_view name);
/// The operator of that name; CHECK if there is none.
Ref<Op> get_op(std::string_view name);
std::vector<Ref<Op>> all_ops();  ///< sorted by name
/// `call->op` is the operator of that name.
bool is_op(const Expr& call_or_op, std::string_view name);
const Op* op_of(const Expr& call);  ///< null when the callee is no Op

// Calls that join the levels; they are ordinary operators:
//   call_tir(GlobalVar, Tuple args[, ShapeExpr scalars]): destination passing, type_args = output types
//   call_tir_inplace, call_dps_packed(ExternFunc, Tuple), call_packed(ExternFunc args…): see op.cpp
Expr call_tir(const Expr& function, Array<Expr> args, Array<Type> outputs, Array<PrimExpr> symbolic = {});

}  // namespace tenon::graph
