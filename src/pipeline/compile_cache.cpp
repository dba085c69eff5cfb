// SPDX-License-Identifier: Apache-2.0
// Keys, entries, and the care for the folder.
#include "pipeline/compile_cache.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <tenon/tenon.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>

#include "base/function.h"
#include "codegen/codegen.h"
#include "codegen/digest.h"
#include "pass/graph/lowering/override_kernels.h"
#include "pipeline/dimensions.h"
#include "pipeline/emit.h"
#include "runtime/artifact.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".tenon.so";
constexpr const char* kKeyName = "cache.key";
constexpr std::string_view kFilePrefix = "cache.file.";

int64_t nanoseconds(const timespec& t) { return int64_t(t.tv_sec) * 1'000'000'000 + t.tv_nsec; }

/// Of a file's content; empty when it cannot be read.
std::string digest_of_file(const std::string& path) {
  struct Fd {
    int fd;
    ~Fd() {
      if (fd >= 0) close(fd);
    }
  } file{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat st;
  if (file.fd < 0 || fstat(file.fd, &st) != 0 || !S_ISREG(st.st_mode)) return {};
  codegen::Digest digest;
  std::vector<char> buffer(size_t(1) << 20);
  for (;;) {
    const ssize_t n = read(file.fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return {};
    if (n == 0) break;
    digest.add({buffer.data(), size_t(n)});
  }
  return digest.hex();
}

/// Of a library of this process, whose file is taken not to change.
const std::string& digest_of_library(const std::string& path) {
  static std::mutex mutex;
  static auto* known = new std::map<std::string, std::string>;
  std::lock_guard lock(mutex);
  const auto [it, fresh] = known->try_emplace(path);
  if (fresh) it->second = digest_of_file(path);
  return it->second;
}

/// Identifies the code that compiles: the content of this library, of the runtime and of those that code
/// generators come from, and the versions of the libraries that these use. Empty when it cannot be known.
std::string build_id() {
  const auto library_of = [](const void* address) -> std::string {
    Dl_info info;
    return dladdr(address, &info) && info.dli_fname ? info.dli_fname : "";
  };
  std::string text = tenon_version();
  std::set<std::string> own{library_of(reinterpret_cast<const void*>(&build_id)),
                            library_of(reinterpret_cast<const void*>(&tenon_version))};
  for (const codegen::CodeGenerator* g : codegen::code_generators()) {
    own.insert(library_of(reinterpret_cast<const void*>(g->check)));
    if (g->library_version) text += fmt::format(" {} {}", g->library, g->library_version());
  }
  for (const std::string& file : own) {
    const std::string& digest = digest_of_library(file);
    if (digest.empty()) return {};  // who compiles is not known: nothing may be reused
    text += " " + digest;
  }
  return text;
}

/// Functions that this process registered take part, so that another one would compile something else.
bool of_this_process(const CompileOptions& o) {
  return has_inserted_passes() || !codegen::code_generator(target_of(o)).cached ||
         !registry::names("schedule.rule.").empty() || !registry::names("onnx.converter.").empty() ||
         !registry::names("onnx.type.").empty();
}

/// What a compilation depends on besides external data; empty when it cannot be known.
std::string key_of(const std::string& model, const CompileOptions& o) {
  std::string content;
  if (model == "-") {
    codegen::Digest digest;
    digest.add(standard_input());
    content = digest.hex();
  } else {
    content = digest_of_file(model);
  }
  const std::string build = build_id();
  if (content.empty() || build.empty() || of_this_process(o)) return {};
  std::string text = fmt::format("tenon compile cache 1\n{}\nformat {} {}\n{}\n-O{} schedule={} limit={}\n",
                                 build, kArtifactFormat, TENON_KERNEL_ABI, to_json(target_of(o)), o.opt_level,
                                 o.schedule, o.memory_limit);
  text += fmt::format("missing dims become 1: {}\n", o.specialize_missing_dims);
  for (const auto& [name, value] : sizes_of(o.dims))
    text += fmt::format("dim {}:{}={}\n", name.size(), name, value);
  for (const auto& [name, value] : sizes_of(o.dim_bounds))
    text += fmt::format("bound {}:{}={}\n", name.size(), name, value);
  std::map<std::string, NDArray> bound;
  for (const auto& [name, value] : o.bind) bound.emplace(name, value);
  for (const auto& [name, value] : bound) {
    codegen::Digest elements;
    elements.add({static_cast<const char*>(value.data()), value.byte_size()});
    text += fmt::format("bound {}:{}={} {} {}\n", name.size(), name, to_string(value.dtype()),
                        fmt::join(value.shape(), "x"), elements.hex());
  }
  for (const std::string& folder : o.overrides)
    for (const auto& file : graph::override_files(folder))
      for (const auto& part : {file, fs::path(file).replace_extension(".constants")})
        text += fmt::format("override {} {}\n", part.filename().string(), digest_of_file(part.string()));
  const PassContext passes = context_of(o);
  for (const auto& [name, value] : passes.options.given()) {
    const std::string words = option_text(name, value);
    text += fmt::format("option {}={}:{}\n", name, words.size(), words);
  }
  for (const std::string& name : passes.required) text += fmt::format("required {}\n", name);
  for (const std::string& name : passes.disabled) text += fmt::format("disabled {}\n", name);
  text += "model " + content + "\n";
  // Script text has its large constants beside it.
  if (const auto dot = model.rfind('.'); dot != model.npos)
    if (const std::string beside = digest_of_file(model.substr(0, dot) + ".constants"); !beside.empty())
      text += "constants " + beside + "\n";
  codegen::Digest digest;
  digest.add(text);
  return digest.hex();
}

/// Newest change of a file in nanoseconds; the largest number when it is not there.
int64_t changed_at(const std::string& path) {
  struct stat st;
  if (stat(path.c_str(), &st) != 0) return INT64_MAX;
  return std::max(nanoseconds(st.st_mtim), nanoseconds(st.st_ctim));
}

}  // namespace

std::string default_cache_folder() {
  if (const char* given = std::getenv("TENON_CACHE"); given && *given) return given;
  if (const char* base = std::getenv("XDG_CACHE_HOME"); base && *base == '/')
    return std::string(base) + "/tenon";
  const char* home = std::getenv("HOME");
  return home && *home == '/' ? std::string(home) + "/.cache/tenon" : std::string();
}

int64_t cache_limit() {
  const char* text = std::getenv("TENON_CACHE_LIMIT");
  if (!text || !*text) return CacheOptions().limit_bytes;
  char* end = nullptr;
  errno = 0;
  const long long n = std::strtoll(text, &end, 10);
  const std::string_view unit(end);
  const int shift = unit.empty() || unit == "B" ? 0
                    : unit == "K"               ? 10
                    : unit == "M"               ? 20
                    : unit == "G"               ? 30
                                                : -1;
  if (end == text || errno || n < 0 || shift < 0 || n > (INT64_MAX >> std::max(shift, 0)))
    fail("T0911", fmt::format("TENON_CACHE_LIMIT is no size: `{}`", text), {}, "such as 512M or 4G",
         ErrorKind::usage);
  return int64_t(n) << shift;
}

CompileCache::CompileCache(CacheOptions cache, const std::string& model, const CompileOptions& options)
    : cache_(std::move(cache)), model_(model) {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  begun_ns_ = nanoseconds(now);
  if (cache_.folder.empty() || cache_.limit_bytes <= 0) return;
  if (!open_folder()) return;
  key_ = key_of(model, options);
  if (key_.empty()) return;
  const auto slash = model.rfind('/');
  folder_of_model_ = slash == model.npos ? "." : model.substr(0, slash);
  path_ = fmt::format("{}/{}{}", cache_.folder, key_, kEnding);
}

/// Entries are code that this process runs: nobody else may be able to write them.
bool CompileCache::open_folder() {
  std::error_code ec;
  if (const fs::path parent = fs::path(cache_.folder).parent_path(); !parent.empty())
    fs::create_directories(parent, ec);
  if (mkdir(cache_.folder.c_str(), 0700) != 0 && errno != EEXIST) {
    note(fmt::format("no compile cache: {} cannot be made ({})", cache_.folder, std::strerror(errno)));
    return false;
  }
  struct stat st;
  if (stat(cache_.folder.c_str(), &st) != 0 || !S_ISDIR(st.st_mode)) {
    note(fmt::format("no compile cache: {} is no folder", cache_.folder));
    return false;
  }
  if ((st.st_uid != geteuid() && st.st_uid != 0) || (st.st_mode & 022) != 0) {
    note(fmt::format("no compile cache: others may write to {}", cache_.folder));
    return false;
  }
  return true;
}

Artifact CompileCache::find() {
  if (path_.empty()) return {};
  if (access(path_.c_str(), F_OK) != 0) {
    note("not in the compile cache");
    return {};
  }
  std::string wrong;
  try {
    Artifact artifact = Artifact::load(path_, {.check = true});
    const std::string* key = artifact.metadata(kKeyName);
    if (!key || *key != key_) wrong = "it belongs to another compilation";
    bool current = true;
    for (const auto& [name, value] : artifact.executable().metadata)
      if (name.starts_with(kFilePrefix))
        current =
            current && digest_of_file(folder_of_model_ + "/" + name.substr(kFilePrefix.size())) == value;
    if (wrong.empty() && current) {
      utimensat(AT_FDCWD, path_.c_str(), nullptr, 0);  // it was used now
      note("from the compile cache: " + path_);
      return artifact;
    }
    if (wrong.empty()) {
      note("the model's external data changed since it was compiled");
      return {};  // the new result takes the entry's place
    }
  } catch (const Error& e) {
    if (access(path_.c_str(), R_OK) != 0) return {};  // removed meanwhile, or not ours to read
    wrong = e.message;
  }
  unlink(path_.c_str());
  note(fmt::format("removed a bad entry of the compile cache ({}): {}", wrong, path_));
  return {};
}

Artifact CompileCache::store(const Compiled& compiled, const std::vector<std::string>& external_files) {
  if (path_.empty()) return {};
  try {
    Executable executable = compiled.executable;
    executable.metadata.emplace_back(kKeyName, key_);
    std::string passes;
    for (const PassTiming& t : compiled.timings)
      passes += fmt::format(R"({}{{"name": "{}", "ms": {:.6f}, "changed": {}}})", passes.empty() ? "" : ", ",
                            t.name, t.ms, t.changed);
    executable.metadata.emplace_back(kCachedPasses, "[" + passes + "]");
    const std::set<std::string> files(external_files.begin(), external_files.end());
    // Files' clocks are coarse: what changed just before counts as changed meanwhile.
    constexpr int64_t coarse = 20'000'000;
    bool changed = model_ != "-" && changed_at(model_) > begun_ns_ - coarse;
    for (const std::string& file : files) {
      const std::string path = folder_of_model_ + "/" + file;
      executable.metadata.emplace_back(std::string(kFilePrefix) + file, digest_of_file(path));
      changed = changed || executable.metadata.back().second.empty() || changed_at(path) > begun_ns_ - coarse;
    }
    if (changed) {
      note("not stored in the compile cache: the model was changed a moment ago");
      return {};
    }
    int64_t constants = 0;
    for (const NDArray& c : executable.constants) constants += int64_t(c.byte_size());
    if (constants > cache_.limit_bytes) {
      note("not stored in the compile cache: larger than the cache may be");
      return {};
    }
    const std::string code = shared_code(compiled);
    if (!missing_features(executable.needs).empty()) return {};  // code for another machine is not run here
    write_artifact(path_, executable, code, {.sync = true});
    Artifact artifact = Artifact::load(path_);
    trim();
    note("stored in the compile cache: " + path_);
    return artifact;
  } catch (const Error& e) {
    note(fmt::format("not stored in the compile cache: {}", e.message));
  }
  return {};
}

int64_t CompileCache::copy_to(const std::string& path) const {
  ArtifactFile file = read_artifact(path_);
  std::erase_if(file.executable.metadata, [](const auto& m) { return m.first.starts_with("cache."); });
  write_artifact(path, file.executable, file.image);
  std::error_code device;  // has no size
  const auto bytes = fs::file_size(path, device);
  return device ? 0 : int64_t(bytes);
}

/// Least recently used entries go until the rest fits; what a killed process left behind goes too.
void CompileCache::trim() const {
  struct Entry {
    std::string path;
    int64_t used = 0, bytes = 0;
  };
  std::vector<Entry> entries;
  int64_t total = 0;
  DIR* folder = opendir(cache_.folder.c_str());
  if (!folder) return;
  while (const dirent* item = readdir(folder)) {
    const std::string_view name(item->d_name);
    const size_t ending = name.find(kEnding);
    if (ending != key_.size() || name.find_first_not_of("0123456789abcdef") != ending) continue;
    Entry e{fmt::format("{}/{}", cache_.folder, name)};
    struct stat st;
    if (lstat(e.path.c_str(), &st) != 0 || !S_ISREG(st.st_mode)) continue;
    e.used = nanoseconds(st.st_mtim);
    e.bytes = int64_t(st.st_size);
    if (name.size() > ending + kEnding.size()) {  // a temporary file
      if (e.used < begun_ns_ - int64_t(3600) * 1'000'000'000) unlink(e.path.c_str());
      continue;
    }
    total += e.bytes;
    if (e.path != path_) entries.push_back(std::move(e));
  }
  closedir(folder);
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.used, a.path) < std::tie(b.used, b.path);
  });
  for (const Entry& e : entries) {
    if (total <= cache_.limit_bytes) break;
    if (unlink(e.path.c_str()) == 0) {
      total -= e.bytes;
      note("removed from the compile cache, unused for longest: " + e.path);
    }
  }
}

}  // namespace tenon
