// SPDX-License-Identifier: Apache-2.0
// Bindings of a body that become one call of a function of their own.
#pragma once
#include "ir/module.h"

namespace tenon::graph {

/// The bindings of one body as units that are computed at once: each binding is one at first.
class RegionGraph {
 public:
  /// `module` tells which functions that the body calls are regions themselves.
  RegionGraph(const Expr& body, const IRModule& module);
  /// The binding may lie in a region: a pure operator, a tuple or an item of one, a call of a region.
  bool can_outline(size_t binding) const { return pure_[binding]; }
  const Binding& binding(size_t i) const { return bindings_[i]; }
  size_t size() const { return bindings_.size(); }
  size_t unit_of(size_t binding) const;
  /// The bindings whose values this one needs, or that must run before it.
  const std::vector<size_t>& needs(size_t binding) const { return needs_[binding]; }
  const std::vector<size_t>& members(size_t unit) const { return members_[unit]; }
  /// One unit of two, if no value between them needs the one and is needed by the other.
  bool merge(size_t a, size_t b);
  /// Every unit behind those that it needs, else in the order of their last bindings.
  std::vector<size_t> order() const;

 private:
  bool reaches_through_others(size_t from, size_t to) const;
  std::vector<Binding> bindings_;
  std::vector<char> pure_;
  std::vector<std::vector<size_t>> needs_, members_;
  std::vector<size_t> parent_;  // of the union of units
};

struct Region {
  std::vector<VarRef> members;
  std::string name;  ///< of its function, made fresh
  AttrMap attrs;     ///< of its function
};
/// The function that a region becomes: what it takes, and its results (a tuple when several are seen
/// outside). Constants of more than one element are parameters.
Ref<Function> region_function(const Expr& body, const Region& region, Array<Expr>* args = nullptr);
/// The body with each region as a call of its function, which joins the module. Regions share no binding and
/// need each other in one direction only.
Expr outline(const Expr& body, const std::vector<Region>& regions, IRModule& module);

/// `f` of every body of the module's graph functions, inner ones first: it gives the body that stands in its
/// place. Functions of these attributes are left alone.
IRModule map_bodies(IRModule module, const std::vector<std::string>& without_attrs,
                    FunctionRef<Expr(const Expr& body, IRModule& module)> f);

/// The constants among the function's arguments at its only call become part of it.
IRModule bind_constants(IRModule module, const std::string& function);

inline constexpr std::string_view kComposite = "Composite";  ///< attribute: the name of the matched pattern
inline constexpr std::string_view kCodegen = "Codegen";      ///< attribute: who makes the region's code

}  // namespace tenon::graph
