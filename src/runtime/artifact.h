// SPDX-License-Identifier: Apache-2.0
// The artifact file: one compiled model. A loader reads it front to back:
//
//   ELF shared object     the kernels; the file as a whole can be given to dlopen, nm, objdump, perf
//   header                128 bytes, at the first multiple of 64 behind the ELF image
//   tables                the Executable without its constants' bytes, in this machine's byte order
//   variants              code and tables for other processors, where there are several
//   constants             on a page boundary; mapped, never copied; each at a multiple of 64
//
// Everything is checked before code is opened: hashes find damage, not malice (code from a stranger is code
// from a stranger). Refusals, each an Error with its own code:
//   T0601 not an artifact                       T0602 another format or kernel ABI version
//   T0603 CPU features missing, other machine   T0604 truncated
//   T0605 header, code or tables damaged        T0606 a constant damaged (option `check`)
//   T0607 tables inconsistent                   T0608 kernel missing
//   T0609 function not registered               T0610 the system cannot open the code
//   T0611 no such model is linked in            T0612 imports in a circle
//   T0613 nothing to save                       T0614 no loader for a module
//   T0615 no library for a function
//   T0616 to T0620 a graph (libraries/graph) that cannot be read or does not fit its code
//   T0621 no variant of that name
//   T3001 cannot be read                        T3003 cannot be written
#pragma once
#include <memory>
#include <string_view>

#include "runtime/vm.h"

namespace tenon {

inline constexpr uint32_t kArtifactFormat = 2;
inline constexpr uint64_t kMostVariants = 16;  ///< processors that an artifact has code for

struct ArtifactInfo {
  uint32_t format = 0, kernel_abi = 0;
  uint64_t file_bytes = 0, code_bytes = 0, table_bytes = 0, constant_bytes = 0;
  uint64_t hash = 0;  ///< of the header, which has those of all parts
};

/// Code for one of the processors of an artifact.
struct VariantInfo {
  std::string cpu;
  uint64_t code_bytes = 0;
  std::vector<std::string> missing;  ///< features that this machine lacks
  bool chosen = false;
};

/// An artifact file read and checked, its code not opened: what `inspect` shows. Constants are views of the
/// map.
struct ArtifactFile {
  Executable executable;
  ArtifactInfo info;
  std::shared_ptr<void> map;
  int descriptor = -1;     ///< open as long as `map` lives
  std::string_view image;  ///< the ELF image, in the map
  std::vector<VariantInfo>
      variants;           ///< where there are several; `executable` and `image` are the chosen one's
  std::string code_path;  ///< the file of the image: a graph's is another than its own
};
ArtifactFile read_artifact(const std::string& path, LoadOptions options = {});
/// The same of a file that is one itself: not of a graph over one (libraries/graph).
ArtifactFile read_code_artifact(const std::string& path, LoadOptions options = {});

/// The tables and constants of a model that is linked into this program, and its kernels.
Artifact system_artifact(std::string_view name, const LoadOptions& options = {});

/// The tables of an executable without the bytes of its constants, as an artifact or a system library holds
/// them.
std::string executable_tables(const Executable& executable);

struct WriteOptions {
  bool sync = false;  ///< on disk before it has its name, so that a crash leaves no damaged file behind
};
/// Writes beside `path` and renames, so that a reader never sees half a file. Equal constants are stored
/// once. Returns its ArtifactInfo::hash.
uint64_t write_artifact(const std::string& path, const Executable& executable, std::string_view shared_object,
                        WriteOptions options = {});
/// The same with code for several processors, of which the loader takes the one with the most features that
/// its machine has (TENON_VARIANT names another one).
struct Variant {
  const Executable* executable;
  std::string_view shared_object;
};
uint64_t write_artifact(const std::string& path, const std::vector<Variant>& variants,
                        WriteOptions options = {});

/// The features of `needs` that this machine lacks, as /proc/cpuinfo spells them.
std::vector<std::string> missing_features(const TargetNeeds& needs);

}  // namespace tenon
