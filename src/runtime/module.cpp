// SPDX-License-Identifier: Apache-2.0
#include "runtime/module.h"

#include <algorithm>
#include <unordered_set>

#include "runtime/artifact_format.h"
#include "runtime/library.h"

namespace tenon {
namespace {

using artifact_format::import_key;

constexpr int kDeepestImport = 64;

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? std::string() : path.substr(0, slash + 1);
}

Module load_module(const std::string& path, std::vector<Module> imports, LoadOptions options, int depth) {
  if (depth > kDeepestImport)
    throw Error(
        ErrorKind::limit, "T0612",
        "imports are nested deeper than " + std::to_string(kDeepestImport) + " modules, or in a circle",
        path);
  // What was saved beside the file is known from its tables; it must be there before the artifact asks for
  // it.
  const bool file = path != "system" && !path.starts_with("system:");
  if (file) {
    const ArtifactFile head = read_artifact(path, {.copy = options.copy});
    for (size_t k = 0;; ++k) {
      const auto& all = head.executable.metadata;
      const auto it = std::ranges::find(all, import_key(k), &std::pair<std::string, std::string>::first);
      if (it == all.end()) break;
      if (it->second.empty() || it->second.find('/') != it->second.npos)
        throw Error(ErrorKind::model, "T0605", "an import's name leads out of the module's folder", path);
      imports.push_back(load_module(folder_of(path) + it->second, {}, options, depth + 1));
    }
  }
  const auto registered = options.find_function;
  options.find_function = [&](const std::string& name) {
    for (const Module& m : imports)
      if (Function f = m.function(name, true)) return f;
    return registered ? registered(name) : Function();
  };
  Module module(Artifact::load(path, options));
  for (const Module& m : imports) module.import(m);
  return module;
}

}  // namespace

std::unique_ptr<Session> ModuleObj::take() {
  {
    std::lock_guard lock(mutex);
    if (!idle.empty()) {
      auto session = std::move(idle.back());
      idle.pop_back();
      return session;
    }
  }
  return std::make_unique<Session>(artifact);
}
void ModuleObj::give_back(std::unique_ptr<Session> session) noexcept {
  try {
    std::lock_guard lock(mutex);
    idle.push_back(std::move(session));
  } catch (...) {  // no memory to remember it: it goes
  }
}

Module::Module(Artifact artifact) : Ref(make<ModuleObj>()) { mut()->artifact = std::move(artifact); }

Module Module::load(const std::string& path, std::vector<Module> imports, LoadOptions options) {
  return load_module(path, std::move(imports), std::move(options), 0);
}

namespace {
bool holds_function(const Any& v) {
  if (!v.is_object()) return false;
  if (is_type_index<ClosureObj>(v.tag())) return true;
  if (is_type_index<ArrayObj>(v.tag()))
    for (const Any& item : static_cast<const ArrayObj*>(v.object())->items)
      if (holds_function(item)) return true;
  return false;
}
}  // namespace

Function Module::function(std::string_view name, bool with_imports) const {
  const auto& functions = get()->artifact.executable().functions;
  const auto it = std::ranges::find(functions, name, &VMFunction::name);
  if (it != functions.end()) {
    const auto index = int32_t(it - functions.begin());
    return Function([self = *this, index](Arguments arguments) {
      struct Lease {
        ModuleObj* module;
        std::unique_ptr<Session> session;
        ~Lease() { module->give_back(std::move(session)); }
      } lease{self.mut(), self.mut()->take()};
      Any result = lease.session->call(index, arguments);
      return holds_function(result) ? find_function("tenon.function.callable")(self, std::move(result))
                                    : result;
    });
  }
  if (with_imports)
    for (const Module& m : imports())
      if (Function f = m.function(name, true)) return f;
  return {};
}

std::vector<std::string> Module::function_names() const {
  std::vector<std::string> out;
  for (const VMFunction& f : get()->artifact.executable().functions) out.push_back(f.name);
  return out;
}

bool Module::reaches(const ModuleObj* other) const {
  std::vector<Module> todo{*this};
  std::unordered_set<const ModuleObj*> seen;
  while (!todo.empty()) {
    const Module m = std::move(todo.back());
    todo.pop_back();
    if (m.get() == other) return true;
    if (!seen.insert(m.get()).second) continue;
    for (Module& i : m.imports()) todo.push_back(std::move(i));
  }
  return false;
}

void Module::import(const Module& module) const {
  // One at a time: two that import each other at once must not both pass the look for a circle.
  static std::mutex one;
  std::lock_guard order(one);
  if (!module.get()) throw Error(ErrorKind::usage, "T0514", "the imported module is null");
  if (module.reaches(get()))
    throw Error(ErrorKind::usage, "T0612", "modules would import one another in a circle", {},
                "import in one direction only");
  std::lock_guard lock(mut()->mutex);
  mut()->imports.push_back(module);
}

std::vector<Module> Module::imports() const {
  std::lock_guard lock(mut()->mutex);
  return mut()->imports;
}

void Module::save(const std::string& path) const { find_function("tenon.artifact.save")(*this, path); }

const Artifact& Module::artifact() const { return get()->artifact; }

}  // namespace tenon
