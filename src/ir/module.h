// SPDX-License-Identifier: Apache-2.0
// IRModule: global names → functions of both levels, with attributes.
#pragma once
#include "ir/op.h"

namespace tenon {

struct IRModuleNode : Object {
  static constexpr std::string_view type_key = "ir.IRModule";
  Map<std::string, ObjectRef> functions;  ///< graph::Function, tir::PrimFunc or graph::ExternFunc, in order
  AttrMap attrs;
  Map<std::string, graph::AdtDef> types;  ///< algebraic data types, in order
  static void fields(auto& f) {
    f.add("types", &IRModuleNode::types)
        .add("functions", &IRModuleNode::functions)
        .add("attrs", &IRModuleNode::attrs);
  }
};

class IRModule : public Ref<IRModuleNode> {
 public:
  IRModule() = default;
  explicit IRModule(Ref<IRModuleNode> r) : Ref(std::move(r)) {}
  static IRModule create() { return IRModule(make<IRModuleNode>()); }
  const Map<std::string, ObjectRef>& functions() const { return get()->functions; }
  ObjectRef find(const std::string& name) const { return get()->functions.get_or(name, ObjectRef()); }
  graph::AdtDef find_type(const std::string& name) const {
    return get()->types.get_or(name, graph::AdtDef());
  }
  /// Adds or replaces (copy on write).
  void set(const std::string& name, ObjectRef function) { edit()->functions.set(name, std::move(function)); }
  void erase(const std::string& name) { edit()->functions.erase(name); }
  /// A name not yet in the module: `hint`, `hint_1`, ….
  std::string fresh_name(const std::string& hint) const;
  /// The same module with every graph function (PrimFunc) mapped; null from `f` leaves it unchanged.
  IRModule map_graph(FunctionRef<ObjectRef(const std::string&, const Ref<graph::Function>&)> f) const;
  IRModule map_prim(FunctionRef<ObjectRef(const std::string&, const tir::PrimFunc&)> f) const;
};

}  // namespace tenon
