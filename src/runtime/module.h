// SPDX-License-Identifier: Apache-2.0
// Module: an artifact whose functions are called by name as packed functions, with imports whose functions
// are found through it. A face of Artifact and Session for those who call functions rather than run a model.
#pragma once
#include <mutex>

#include "runtime/vm.h"

namespace tenon {

struct ModuleObj;

class Module : public Ref<ModuleObj> {
 public:
  Module() = default;
  explicit Module(Artifact artifact);
  /// A file, or "system:NAME". Functions that the artifact calls and does not have (`call_packed`) are looked
  /// for in `imports`, in order, then in the registry: once, here. The imports become the module's; those
  /// that `save` wrote beside the file come after them.
  static Module load(const std::string& path, std::vector<Module> imports = {}, LoadOptions options = {});

  /// A function of this module (of its imports too, depth first, with `imports`); null if there is none. It
  /// is looked up now, not when it is called. It takes and gives values as Session::call does, may be called
  /// by several threads at once, and keeps the module alive. Functions that it gives are called like it.
  Function function(std::string_view name, bool imports = false) const;
  std::vector<std::string> function_names() const;
  /// Error "T0612" when the imported module leads back to this one.
  void import(const Module& module) const;
  std::vector<Module> imports() const;
  /// The artifact as a file, and each import beside it as PATH.importK.so. Error "T0613" when this module, or
  /// an import, did not come from a file.
  void save(const std::string& path) const;
  const Artifact& artifact() const;

 private:
  explicit Module(Ref<ModuleObj> ref) : Ref(std::move(ref)) {}
  bool reaches(const ModuleObj* other) const;
};

struct ModuleObj : Object {
  static constexpr std::string_view type_key = "Module";
  ModuleObj() = default;
  ModuleObj(const ModuleObj&) = delete;
  /// A session that no other call uses; returned to the module when this ends.
  std::unique_ptr<Session> take();
  void give_back(std::unique_ptr<Session> session) noexcept;
  Artifact artifact;
  std::mutex mutex;  ///< of what follows
  std::vector<Module> imports;
  std::vector<std::unique_ptr<Session>> idle;
};

}  // namespace tenon
