// SPDX-License-Identifier: Apache-2.0
// Reading artifact files. Every field is checked before it is used, and the whole file before its code is
// opened.
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/artifact_format.h"
#include "runtime/dlpack.h"
#include "runtime/kernel_calls.h"
#include "runtime/library.h"
#include "runtime/open_code.h"
#include "runtime/words.h"

namespace tenon {
using namespace artifact_format;
namespace {

#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kMachine = EM_AARCH64;
#elif defined(__riscv)
constexpr uint16_t kMachine = EM_RISCV;
#else
constexpr uint16_t kMachine = EM_NONE;
#endif

[[noreturn]] void refuse(const char* code, const std::string& path, const std::string& what,
                         std::string hint = {}) {
  throw Error(ErrorKind::model, code, what, path, std::move(hint));
}
const char* const kAgain = "compile the model again, or copy the file again";

struct Map {
  ~Map() {
    if (data) munmap(const_cast<char*>(data), size);
    if (fd >= 0) close(fd);
  }
  const char* data = nullptr;
  size_t size = 0;
  int fd = -1;
};

/// Keeps a mapped file alive from the constants that are views of it.
struct MapOwner : Object {
  static constexpr std::string_view type_key = "ArtifactMap";
  std::shared_ptr<void> map;
};

Error system_error(const char* what, int error, const std::string& path) {
  return Error(ErrorKind::io, "T3001", joined({what, std::strerror(error)}), path);
}

/// The file in memory that nobody else can change.
int copied(int from, const std::string& path) {
  const int fd = memfd_create("tenon", MFD_CLOEXEC);
  off_t at = 0;
  for (;;) {
    char chunk[1 << 16];
    const ssize_t n = pread(from, chunk, sizeof chunk, at);
    if (n == 0 && fd >= 0) return fd;
    if (fd < 0 || n < 0 || pwrite(fd, chunk, size_t(n), at) != n) {
      const int error = errno;
      if (fd >= 0) close(fd);
      throw system_error("cannot copy the file: ", error, path);
    }
    at += n;
  }
}

std::shared_ptr<Map> map_file(const std::string& path, bool copy = false) {
  auto map = std::make_shared<Map>();
  map->fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (map->fd < 0) throw system_error("cannot open the file: ", errno, path);
  struct stat st;
  if (fstat(map->fd, &st) != 0) throw system_error("cannot read the file: ", errno, path);
  if (!S_ISREG(st.st_mode))
    refuse("T0601", path, "this is not a file but a folder or a device", "give the path of a compiled model");
  if (copy) {
    const int fd = copied(map->fd, path);
    close(std::exchange(map->fd, fd));
    if (fstat(fd, &st) != 0) st.st_size = 0;
  }
  map->size = size_t(st.st_size);
  if (map->size == 0) refuse("T0601", path, "this is not a Tenon artifact: the file is empty");
  void* data = mmap(nullptr, map->size, PROT_READ, MAP_PRIVATE, map->fd, 0);
  if (data == MAP_FAILED) throw system_error("cannot map the file: ", errno, path);
  map->data = static_cast<const char*>(data);
  return map;
}

/// The header, checked; `machine` is that of the code.
Header read_header(std::string_view file, const std::string& path, uint16_t* machine) {
  const uint64_t code = elf_extent(file, machine);
  if (code == 0)
    refuse("T0601", path, "this is not a Tenon artifact", "artifacts are written by `tenon compile`");
  if (code > file.size())
    refuse("T0604", path,
           joined({"the file is truncated: its code alone needs ", std::to_string(code), " bytes, ",
                   std::to_string(file.size()), " are there"}),
           kAgain);
  const uint64_t at = align_up(code, kAlign);
  if (file.size() <= at)
    refuse("T0601", path, "this is an ordinary shared library, not a Tenon artifact",
           "artifacts are written by `tenon compile`");
  Header h{};
  std::memcpy(&h, file.data() + at, size_t(std::min<uint64_t>(sizeof h, file.size() - at)));
  const size_t magic = size_t(std::min<uint64_t>(sizeof h.magic, file.size() - at));
  if (std::memcmp(h.magic, kMagic, magic) != 0)
    refuse("T0601", path, "this is not a Tenon artifact: no header stands behind the code");
  if (file.size() - at < sizeof h) refuse("T0604", path, "the file is truncated inside its header", kAgain);
  if (h.format != kArtifactFormat)
    refuse("T0602", path,
           joined({"the artifact has format version ", std::to_string(h.format),
                   ", this runtime reads version ", std::to_string(kArtifactFormat)}),
           "compile the model with the version of Tenon that runs it");
  if (h.kernel_abi != TENON_KERNEL_ABI)
    refuse("T0602", path,
           joined({"the artifact's kernels follow ABI version ", std::to_string(h.kernel_abi),
                   ", this runtime has version ", std::to_string(TENON_KERNEL_ABI)}),
           "compile the model with the version of Tenon that runs it");
  if (h.header_hash != hash_bytes(&h, offsetof(Header, header_hash)))
    refuse("T0605", path, "the header of the artifact is damaged", kAgain);
  if (h.file_bytes > file.size())
    refuse("T0604", path,
           joined({"the file is truncated: it should have ", std::to_string(h.file_bytes), " bytes and has ",
                   std::to_string(file.size())}),
           kAgain);
  auto inside = [&](uint64_t from, uint64_t bytes) {
    return from <= h.file_bytes && bytes <= h.file_bytes - from;
  };
  if (h.file_bytes != file.size() || h.code_bytes != code || h.tables_at != at + sizeof h ||
      !inside(h.tables_at, h.tables_bytes) || h.constants_at % kPage != 0 ||
      h.constants_at < h.tables_at + h.tables_bytes || !inside(h.constants_at, h.constants_bytes))
    refuse("T0605", path, "the parts of the artifact are not where its header says", kAgain);
  return h;
}

std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& w : words) text += (text.empty() ? "" : ", ") + w;
  return text;
}

/// A graph of operators as JSON, over the code of an artifact beside it.
ArtifactFile read_graph(std::string_view text, const std::string& path, const LoadOptions& options) {
  ArtifactFile out;
  find_function("tenon.graph.read")(Any(static_cast<void*>(&text)), path, options.check, options.copy,
                                    Any(static_cast<void*>(&out)));
  return out;
}

/// Code and tables for one processor: the header's, then those of its records.
struct Part {
  VariantRecord at{};
  Executable executable;
  std::vector<ConstantRecord> constants;
};

std::vector<Part> read_parts(std::string_view file, const Header& h, const std::string& path) {
  std::vector<Part> parts(1);
  parts[0].at = {0, h.code_bytes, h.code_hash, h.tables_at, h.tables_bytes, h.tables_hash};
  const uint64_t bytes = h.num_variants * sizeof(VariantRecord);
  auto inside = [&](uint64_t from, uint64_t n) { return from <= file.size() && n <= file.size() - from; };
  if (h.num_variants > kMostVariants || (bytes && !inside(h.variants_at, bytes)) ||
      (bytes && hash_bytes(file.data() + h.variants_at, bytes) != h.variants_hash))
    refuse("T0605", path, "the list of the artifact's variants is damaged", kAgain);
  for (uint64_t i = 0; i < h.num_variants; ++i) {
    Part& p = parts.emplace_back();
    std::memcpy(&p.at, file.data() + h.variants_at + i * sizeof p.at, sizeof p.at);
    if (!inside(p.at.code_at, p.at.code_bytes) || !inside(p.at.tables_at, p.at.tables_bytes))
      refuse("T0605", path, "the parts of the artifact are not where its header says", kAgain);
  }
  for (Part& p : parts) {
    if (hash_bytes(file.data() + p.at.tables_at, p.at.tables_bytes) != p.at.tables_hash)
      refuse("T0605", path, "the tables of the artifact are damaged", kAgain);
    decode_tables(file.substr(p.at.tables_at, p.at.tables_bytes), p.executable, p.constants);
  }
  return parts;
}

/// The part to run: what TENON_VARIANT names, else the one with the most features that this machine has, else
/// the one that lacks the least.
size_t choose_part(const std::vector<Part>& parts, std::vector<VariantInfo>& variants,
                   const std::string& path) {
  const char* wanted = std::getenv("TENON_VARIANT");
  std::string names;
  size_t best = parts.size();
  auto rank = [&](size_t k) {
    const size_t missing = variants[k].missing.size();
    return std::pair(-int64_t(missing), missing ? 0 : parts[k].executable.needs.features.size());
  };
  for (size_t k = 0; k < parts.size(); ++k) {
    const TargetNeeds& needs = parts[k].executable.needs;
    names += (k ? ", " : "") + needs.cpu;
    variants.push_back({needs.cpu, parts[k].at.code_bytes, missing_features(needs)});
    if (wanted && *wanted ? needs.cpu == wanted : best == parts.size() || rank(k) > rank(best)) best = k;
  }
  if (best == parts.size())
    refuse("T0621", path, joined({"TENON_VARIANT asks for `", wanted, "`, the artifact has ", names}),
           "name one of these, or leave the variable out");
  variants[best].chosen = true;
  return best;
}

ArtifactFile read_image(const std::shared_ptr<Map>& map, const std::string& path,
                        const LoadOptions& options) {
  const std::string_view file(map->data, map->size);
  uint16_t machine = 0;
  const Header h = read_header(file, path, &machine);
  std::vector<Part> parts = read_parts(file, h, path);
  ArtifactFile out;
  const size_t chosen = parts.size() > 1 ? choose_part(parts, out.variants, path) : 0;
  Part& part = parts[chosen];
  out.map = map;
  out.descriptor = map->fd;
  out.image = file.substr(part.at.code_at, part.at.code_bytes);
  if (hash_bytes(out.image.data(), out.image.size()) != part.at.code_hash)
    refuse("T0605", path, "the code of the artifact is damaged", kAgain);
  out.info = {h.format,          h.kernel_abi, h.file_bytes, part.at.code_bytes, part.at.tables_bytes,
              h.constants_bytes, h.header_hash};
  out.code_path = path;
  out.executable = std::move(part.executable);
  const std::vector<ConstantRecord>& records = part.constants;
  if (machine != kMachine)
    refuse("T0603", path,
           "the artifact was compiled for another kind of machine (" + out.executable.needs.triple + ")",
           "compile the model for this machine");

  auto owner = make<MapOwner>();
  owner.mut()->map = map;
  for (size_t i = 0; i < records.size(); ++i) {
    const ConstantRecord& r = records[i];
    const std::string name = "constant " + std::to_string(i);
    uint64_t bytes = 0;
    bool ok = r.dtype.bits != 0 && r.dtype.lanes >= 1 && !r.dtype.is_handle();
    try {
      if (ok) bytes = storage_bytes(element_count(r.shape), r.dtype);
    } catch (const Error&) {
      ok = false;
    }
    if (!ok || bytes != r.bytes || r.offset % kAlign != 0 || r.offset > h.constants_bytes ||
        r.bytes > h.constants_bytes - r.offset)
      refuse("T0605", path, joined({name, " lies outside the artifact"}), kAgain);
    NDArray c = NDArray::view(const_cast<char*>(file.data()) + h.constants_at + r.offset, r.shape, r.dtype,
                              Any(owner));
    make_read_only(c);
    if (options.check && c.hash() != r.hash)
      refuse("T0606", path, joined({name, " is damaged: its bytes do not match their hash"}), kAgain);
    out.executable.constants.push_back(std::move(c));
  }
  try {
    check_executable(out.executable);
  } catch (Error& e) {
    refuse("T0607", path, e.message + (e.location.empty() ? "" : " (" + e.location + ")"), kAgain);
  }
  return out;
}

/// A variant inside of its file gets one of its own, in memory, so that the dynamic loader finds it at the
/// begin.
void own_file(ArtifactFile& file, const std::string& path) {
  if (file.image.data() == static_cast<const Map*>(file.map.get())->data) return;
  auto alone = std::make_shared<Map>();
  alone->fd = memfd_create("tenon", MFD_CLOEXEC);
  for (size_t at = 0; at < file.image.size();) {
    const ssize_t n = alone->fd < 0 ? -1 : write(alone->fd, file.image.data() + at, file.image.size() - at);
    if (n <= 0) throw system_error("cannot copy the code: ", errno, path);
    at += size_t(n);
  }
  file.descriptor = alone->fd;
  file.map =
      std::make_shared<std::pair<std::shared_ptr<void>, std::shared_ptr<void>>>(file.map, std::move(alone));
}

}  // namespace

ArtifactFile read_artifact(const std::string& path, LoadOptions options) {
  const auto map = map_file(path, options.copy);
  return map->data[0] == '{' ? read_graph({map->data, map->size}, path, options)
                             : read_image(map, path, options);
}
ArtifactFile read_code_artifact(const std::string& path, LoadOptions options) {
  return read_image(map_file(path, options.copy), path, options);
}

Artifact Artifact::load(const std::string& path, LoadOptions options) {
  if (path == "system" || path.starts_with("system:"))
    return system_artifact(path.size() > 7 ? std::string_view(path).substr(7) : std::string_view(), options);
  ArtifactFile file = read_artifact(path, options);
  if (auto missing = missing_features(file.executable.needs); !missing.empty())
    refuse("T0603", path,
           joined({"this machine's CPU lacks what the artifact was compiled for: ", listed(missing)}),
           "compile the model for this machine, or for an older CPU with -mcpu");

  // Kernels call the mathematics library; when this runtime was itself loaded privately, it is not in sight.
  [[maybe_unused]] static void* const libm = dlopen("libm.so.6", RTLD_NOW | RTLD_GLOBAL);
  if (names_any(file.executable, kExternalsKey))
    find_function(kKernelExternals)(Any(static_cast<void*>(&file.executable)));
  own_file(file, path);
  const OpenCode code = open_code(file.descriptor, file.map, file.code_path);
  if (!code.handle) {
    const char* why = dlerror();
    refuse("T0610", path,
           joined({"the system cannot open the artifact's code: ", why ? why : "unknown reason"}), kAgain);
  }
  auto keep = std::make_shared<std::pair<std::shared_ptr<void>, std::shared_ptr<void>>>(code.keep, file.map);
  try {
    Artifact artifact = from_executable(
        std::move(file.executable),
        [handle = code.handle](const std::string& symbol) { return dlsym(handle, symbol.c_str()); }, keep,
        options);
    if (file.variants.empty()) artifact.mut()->image = file.image;  // the whole file's code
    return artifact;
  } catch (Error& e) {
    if (e.location.empty()) e.location = path;
    throw;
  }
}

}  // namespace tenon
