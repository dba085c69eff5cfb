// SPDX-License-Identifier: Apache-2.0
// libtenon_function: functions among the results of a module, as what its callers call.
#include "runtime/libraries/register.h"
#include "runtime/module.h"

namespace tenon {
namespace {

constexpr int kDeepest = 100;  // levels of tuples

/// A function of the VM, and those in tuples; what they give is such a value, too.
Any callable(const Module& module, Any value, int nesting) {
  if (const auto closure = value.try_as<Closure>(); closure && *closure)
    return Any(Function([module, closure = *closure](Arguments arguments) {
      std::vector<Any> all = closure->captured;
      all.insert(all.end(), arguments.begin(), arguments.end());
      struct Lease {
        ModuleObj* module;
        std::unique_ptr<Session> session;
        ~Lease() { module->give_back(std::move(session)); }
      } lease{module.mut(), module.mut()->take()};
      return callable(module, lease.session->call(closure->function, all), 0);
    }));
  auto tuple = value.try_as<Ref<ArrayObj>>();
  if (!tuple || !*tuple || nesting == kDeepest) return value;
  value = Any();
  for (Any& item : tuple->edit()->items) item = callable(module, std::move(item), nesting + 1);
  return Any(*tuple);
}

[[maybe_unused]] const bool registered = [] {
  register_unless_taken(
      "tenon.function.callable", [](Arguments a) { return callable(Module(a[0].as<Module>()), a[1], 0); },
      "what a module gives, its functions as packed functions");
  return true;
}();

}  // namespace
}  // namespace tenon
