// SPDX-License-Identifier: Apache-2.0
// bind_symbolic_vars: symbolic sizes become numbers, and types follow.
//
//   before   main(x: R.Tensor((n, 4))): lv = R.exp(x)            bind_symbolic_vars.values: n=2
//   after    main(x: R.Tensor((2, 4))): lv = R.exp(x)
//
// A name that no parameter has is refused (T0903). Keeps: values for these sizes. `--dim` does the same
// before all passes.
#include <fmt/format.h>

#include "base/diagnostic.h"
#include "ir/pass.h"
#include "ir/symbols.h"

namespace tenon {

static const Option<Map<std::string, int64_t>> kNumbers("bind_symbolic_vars.values", {},
                                                        "numbers for symbolic sizes", {.least = 0});

static IRModule bind_symbolic_vars(IRModule module, PassContext& context) {
  using namespace graph;
  const Map<std::string, int64_t> values = context.options.get(kNumbers);
  if (values.empty()) return module;
  std::set<std::string> known;
  IRModule out = module.map_graph([&](const std::string&, const Ref<graph::Function>& f) -> ObjectRef {
    std::vector<tir::VarRef> symbols;
    for (const VarRef& p : f->params) symbols_of(p->declared, symbols);
    tir::VarMap map;
    for (const tir::VarRef& s : symbols) {
      known.insert(s->name);
      if (auto value = values.find(s->name)) map[s.get()] = PrimExpr::int_imm(*value, s->dtype);
    }
    return map.empty() ? ObjectRef() : ObjectRef(with_sizes(f, map));
  });
  for (auto [name, value] : values)
    if (!known.count(name))
      fail("T0903", fmt::format("no input has a dimension named '{}'", name), {}, {}, ErrorKind::usage);
  return out;
}

const Pass& bind_symbolic_vars_pass = register_pass({
    .name = "bind_symbolic_vars",
    .run = bind_symbolic_vars,
    .summary = "symbolic sizes become numbers",
    .options = {kNumbers},
});

}  // namespace tenon
