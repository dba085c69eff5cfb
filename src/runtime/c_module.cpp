// SPDX-License-Identifier: Apache-2.0
// Modules and their functions in the C interface. Exceptions end here.
#include "runtime/c_guard.h"
#include "runtime/dlpack.h"
#include "runtime/module.h"

using tenon::Any;
using tenon::Error;
using tenon::ErrorKind;
using tenon::NDArray;
using tenon::c_api::guard;
using tenon::c_api::require;

struct TenonModule {
  tenon::Module module;
};
struct TenonFunction {
  tenon::Function function;
};

namespace {
/// Tensors of a result, tuples flattened.
void collect(const Any& value, std::vector<NDArray>& out, int nesting = 0) {
  if (auto tensor = value.try_as<NDArray>(); tensor && tensor->get()) return out.push_back(*tensor);
  const auto tuple = value.try_as<tenon::Ref<tenon::ArrayObj>>();
  if (!tuple || !*tuple || nesting > 100)
    throw Error(ErrorKind::model, "T0518", "a result is not a tensor but " + value.kind_name());
  for (const Any& item : (*tuple)->items) collect(item, out, nesting + 1);
}
}  // namespace

extern "C" {

TenonStatus tenon_module_load(const char* path, uint32_t flags, TenonModule* const* imports,
                              int32_t num_imports, TenonModule** module) {
  return guard([&] {
    require(path && module && num_imports >= 0 && (imports || num_imports == 0),
            "tenon_module_load: a null argument");
    *module = nullptr;
    require((flags & ~uint32_t(TENON_LOAD_CHECK | TENON_LOAD_COPY)) == 0, "tenon_module_load: unknown flags");
    std::vector<tenon::Module> all;
    for (int32_t i = 0; i < num_imports; ++i) {
      require(imports[i], "tenon_module_load: a null import");
      all.push_back(imports[i]->module);
    }
    tenon::LoadOptions options;
    options.check = (flags & TENON_LOAD_CHECK) != 0;
    options.copy = (flags & TENON_LOAD_COPY) != 0;
    *module = new TenonModule{tenon::Module::load(path, std::move(all), options)};
  });
}
void tenon_module_release(TenonModule* module) { delete module; }

TenonStatus tenon_module_import(TenonModule* module, TenonModule* imported) {
  return guard([&] {
    require(module && imported, "tenon_module_import: a null argument");
    module->module.import(imported->module);
  });
}
int32_t tenon_module_num_imports(const TenonModule* module) {
  return module ? int32_t(module->module.imports().size()) : 0;
}
TenonStatus tenon_module_get_import(const TenonModule* module, int32_t index, TenonModule** import) {
  return guard([&] {
    require(module && import, "tenon_module_get_import: a null argument");
    *import = nullptr;
    const auto all = module->module.imports();
    require(index >= 0 && size_t(index) < all.size(), "tenon_module_get_import: there is no such import");
    *import = new TenonModule{all[size_t(index)]};
  });
}
int32_t tenon_module_num_functions(const TenonModule* module) {
  return module ? int32_t(module->module.artifact().executable().functions.size()) : 0;
}
const char* tenon_module_function_name(const TenonModule* module, int32_t index) {
  if (index < 0 || index >= tenon_module_num_functions(module)) return nullptr;
  return module->module.artifact().executable().functions[size_t(index)].name.c_str();
}
TenonStatus tenon_module_save(const TenonModule* module, const char* path) {
  return guard([&] {
    require(module && path, "tenon_module_save: a null argument");
    module->module.save(path);
  });
}

TenonStatus tenon_module_function(TenonModule* module, const char* name, int32_t imports,
                                  TenonFunction** function) {
  return guard([&] {
    require(module && name && function, "tenon_module_function: a null argument");
    *function = nullptr;
    tenon::Function f = module->module.function(name, imports != 0);
    if (!f) throw Error(ErrorKind::usage, "T0503", std::string("the module has no function `") + name + "`");
    *function = new TenonFunction{std::move(f)};
  });
}
void tenon_function_release(TenonFunction* function) { delete function; }

TenonStatus tenon_function_call(TenonFunction* function, const DLTensor* inputs, int32_t num_inputs,
                                DLManagedTensorVersioned** outputs, int32_t* num_outputs) {
  return guard([&] {
    require(function && num_inputs >= 0 && (inputs || num_inputs == 0) && num_outputs,
            "tenon_function_call: a null argument");
    std::vector<Any> arguments;
    for (int32_t i = 0; i < num_inputs; ++i) arguments.emplace_back(tenon::view_of(inputs[i]));
    std::vector<NDArray> results;
    collect(function->function.call_packed(arguments), results);
    const int32_t capacity = *num_outputs;
    *num_outputs = int32_t(results.size());
    if (capacity < *num_outputs || !outputs)
      throw Error(ErrorKind::usage, "T0502",
                  "the function gives " + std::to_string(results.size()) + " tensors, there is room for " +
                      std::to_string(capacity));
    int32_t done = 0;
    try {
      for (const NDArray& a : results) outputs[done++] = tenon::to_dlpack(a);
    } catch (...) {
      while (--done > 0) outputs[done - 1]->deleter(outputs[done - 1]);
      throw;
    }
  });
}

}  // extern "C"
