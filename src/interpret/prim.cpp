// SPDX-License-Identifier: Apache-2.0
// Entries to the interpreter of tensor programs.
#include "interpret/prim_impl.h"

namespace tenon {

using namespace prim_interpreter;

interpret_detail::Lanes interpret_detail::evaluate(const PrimExpr& e, const Symbols& symbols) {
  const InterpretOptions options;
  return Interpreter({}, options, 0).value(e, symbols);
}

void interpret_prim_func(const tir::PrimFunc& function, const std::vector<NDArray>& args,
                         const IRModule& module, const InterpretOptions& options) {
  const tir::PrimFunc f = uses_vscale(function) ? fix_vscale(function, options.vscale) : function;
  if (args.size() != f->params.size())
    error("T0353",
          fmt::format("the function takes {} arguments, {} were given", f->params.size(), args.size()));
  std::vector<Storage> storages;
  std::vector<Lanes> scalars;
  for (size_t i = 0; i < args.size(); ++i) {
    const VarRef& p = f->params[i];
    if (auto b = f->buffer_map.find(p)) {
      const DataType want = options.float64 && (*b)->dtype.is_float() ? f64 : (*b)->dtype;
      if (args[i].dtype() != want)
        error("T0353", fmt::format("argument {} has type {}, buffer {} has {}", i, to_string(args[i].dtype()),
                                   (*b)->name, to_string(want)));
      storages.push_back({args[i], 0, {}, {}});
    } else if (p->dtype.is_handle()) {
      storages.push_back({args[i], 0, {}, {}});
    } else {
      Lanes v(p->dtype);
      if (p->dtype.is_float())
        v[0].d = args[i].element(0);
      else
        v[0].i = args[i].element_int(0);
      scalars.push_back(v);
    }
  }
  Interpreter(module, options, 0).run(f, storages, scalars);
}

}  // namespace tenon
