// SPDX-License-Identifier: Apache-2.0
// bind_symbolic_vars: symbolic sizes become numbers, and types follow.
//
//   before   main(x: R.Tensor((n, 4))): lv = R.exp(x)            config "bind_symbolic_vars": {"n": 2}
//   after    main(x: R.Tensor((2, 4))): lv = R.exp(x)
//
// Configuration: "bind_symbolic_vars", a map from names to numbers. A name that no parameter has is refused
// (T0903). Keeps: values for these sizes. `--dim` does the same before all passes.
#include <fmt/format.h>

#include "base/diagnostic.h"
#include "ir/symbols.h"
#include "pass/graph/passes.h"

namespace tenon {
IRModule bind_symbolic_vars(IRModule module, PassContext& context) {
  using namespace graph;
  const AttrMap values = config_or<AttrMap>(context, "bind_symbolic_vars", {});
  if (values.empty()) return module;
  std::set<std::string> known;
  IRModule out = module.map_graph([&](const std::string&, const Ref<graph::Function>& f) -> ObjectRef {
    std::vector<tir::VarRef> symbols;
    for (const VarRef& p : f->params) symbols_of(p->declared, symbols);
    tir::VarMap map;
    for (const tir::VarRef& s : symbols) {
      known.insert(s->name);
      if (auto value = values.find(s->name)) map[s.get()] = PrimExpr::int_imm(value->as<int64_t>(), s->dtype);
    }
    return map.empty() ? ObjectRef() : ObjectRef(with_sizes(f, map));
  });
  for (auto [name, value] : values)
    if (!known.count(name))
      fail("T0903", fmt::format("no input has a dimension named '{}'", name), {}, {}, ErrorKind::usage);
  return out;
}

}  // namespace tenon
