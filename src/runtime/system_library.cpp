// SPDX-License-Identifier: Apache-2.0
// Models that are linked into this program. Registering only takes a note, because it happens before `main`;
// what a library holds is decoded and checked when it is asked for by name.
#include <tenon/tenon.h>

#include <algorithm>
#include <mutex>

#include "runtime/artifact_format.h"
#include "runtime/c_guard.h"
#include "runtime/dlpack.h"
#include "runtime/words.h"

namespace tenon {
namespace {

struct SystemLibraries {
  std::mutex mutex;
  std::vector<const TenonSystemLibrary*> all;
};
SystemLibraries& libraries() {
  static SystemLibraries* all = new SystemLibraries;  // for as long as anything of the process may ask
  return *all;
}

const TenonSystemLibrary& find_library(std::string_view name) {
  SystemLibraries& l = libraries();
  std::lock_guard lock(l.mutex);
  const TenonSystemLibrary* found = nullptr;
  std::string names;
  for (const TenonSystemLibrary* s : l.all) {
    names = joined({names, names.empty() ? "" : ", ", s->name});
    if (s->name == name || (name.empty() && l.all.size() == 1)) found = s;
  }
  if (!found)
    throw Error(ErrorKind::usage, "T0611",
                name.empty() ? joined({std::to_string(l.all.size()), " models are linked into this program"})
                             : joined({"no model `", name, "` is linked into this program"}),
                {},
                names.empty() ? "link one that `tenon compile --emit obj --system-lib NAME` wrote"
                              : joined({"there are: ", names, " (as system:NAME)"}));
  return *found;
}

}  // namespace

Artifact system_artifact(std::string_view name, const LoadOptions& options) {
  const TenonSystemLibrary& library = find_library(name);
  const std::string where = joined({"system:", library.name});
  auto refuse = [&](const char* code, std::string what) {
    throw Error(ErrorKind::model, code, std::move(what), where, "compile the model again");
  };
  if (library.format != kArtifactFormat || library.kernel_abi != TENON_KERNEL_ABI)
    refuse("T0602", "the model was compiled for another version of the runtime");
  Executable e;
  std::vector<artifact_format::ConstantRecord> records;
  artifact_format::decode_tables({static_cast<const char*>(library.tables), size_t(library.tables_bytes)}, e,
                                 records);
  if (records.size() != library.num_constants) refuse("T0605", "the constants are not those of the tables");
  for (size_t i = 0; i < records.size(); ++i) {
    NDArray c = NDArray::view(const_cast<void*>(library.constants[i]), records[i].shape, records[i].dtype);
    make_read_only(c);
    if (options.check && c.hash() != records[i].hash)
      refuse("T0606",
             joined({"constant ", std::to_string(i), " is damaged: its bytes do not match their hash"}));
    e.constants.push_back(std::move(c));
  }
  if (auto missing = missing_features(e.needs); !missing.empty())
    refuse("T0603", joined({"this machine's CPU lacks what the model was compiled for: ", missing[0]}));
  return Artifact::from_executable(
      std::move(e),
      [&](const std::string& symbol) -> void* {
        for (uint64_t k = 0; k < library.num_kernels; ++k)
          if (symbol == library.kernel_names[k]) return reinterpret_cast<void*>(library.kernels[k]);
        return nullptr;
      },
      {}, options);
}

}  // namespace tenon

extern "C" TenonStatus tenon_system_register(const TenonSystemLibrary* library) {
  return tenon::c_api::guard([&] {
    tenon::c_api::require(library && library->size >= sizeof *library && library->name && library->tables,
                          "tenon_system_register: an incomplete library");
    auto& l = tenon::libraries();
    std::lock_guard lock(l.mutex);
    for (const TenonSystemLibrary* s : l.all) {
      if (s == library) return;
      if (std::string_view(s->name) == library->name)
        throw tenon::Error(
            tenon::ErrorKind::usage, "T0611",
            tenon::joined({"two models of the name `", library->name, "` are linked into this program"}), {},
            "give them different names with --system-lib NAME");
    }
    l.all.push_back(library);
  });
}
