// SPDX-License-Identifier: Apache-2.0
// The compile cache: artifacts of models that were compiled before, in a folder, found by the content of
// everything they depend on: the model's bytes, its external data, this build of the compiler, the target
// record and the options that change the result.
//
// One entry is one artifact file. What it was made from stands in its metadata, and its own hashes are
// checked when it is read, so a damaged, truncated or foreign file is removed and compiled again. Entries
// appear by renaming a complete file, so processes share a folder without locks. Nothing here fails a
// compilation: a folder that cannot be used means that there is no cache.
#pragma once
#include "pipeline/compile.h"
#include "runtime/vm.h"

namespace tenon {

struct CacheOptions {
  std::string folder;                                 ///< made when it is not there
  int64_t limit_bytes = int64_t(2) << 30;             ///< oldest entries go when all together are larger
  std::function<void(const std::string&)> note = {};  ///< what happened, for people who ask (-v)
};

/// Metadata of an entry: times of the passes that made it, as JSON.
inline constexpr const char* kCachedPasses = "cache.passes";

/// $TENON_CACHE, or tenon below $XDG_CACHE_HOME or ~/.cache; empty when there is no home.
std::string default_cache_folder();
/// $TENON_CACHE_LIMIT in bytes ("512M"), or the default of CacheOptions. Error "T0911" when it is no size.
int64_t cache_limit();

/// One compilation as the cache sees it. Made before the model is read, so that a file that changes meanwhile
/// is noticed and not stored.
class CompileCache {
 public:
  CompileCache(CacheOptions cache, const std::string& model, const CompileOptions& options);

  /// The artifact of an earlier compilation, null when there is none.
  Artifact find();
  /// Links and stores what was compiled and gives it back from its file, whose constants are mapped. Null
  /// when that did not work: the caller still has `compiled`. `external_files` were read beside the model.
  Artifact store(const Compiled& compiled, const std::vector<std::string>& external_files);

  /// The entry written as a file of its own, without what only the cache needs; its bytes.
  int64_t copy_to(const std::string& path) const;

  const std::string& path() const { return path_; }  ///< of the entry; empty: there is no cache

 private:
  void note(const std::string& text) const {
    if (cache_.note) cache_.note(text);
  }
  bool open_folder();
  void trim() const;

  CacheOptions cache_;
  std::string model_, folder_of_model_, key_, path_;
  int64_t begun_ns_ = 0;  ///< before the model was looked at
};

}  // namespace tenon
