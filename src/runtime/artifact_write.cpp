// SPDX-License-Identifier: Apache-2.0
// Writing artifact files: behind code generation, the last step of a compilation.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>

#include "runtime/artifact_format.h"

namespace tenon {
using namespace artifact_format;
namespace {

/// A file beside the wanted one; it disappears unless it is committed. A device or pipe is written to as it
/// is.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& path) : path_(path) {
    struct stat there;
    if (stat(path_.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
      fd_ = open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    } else {
      temporary_ = path_ + ".XXXXXX";
      fd_ = mkostemp(temporary_.data(), O_CLOEXEC);
    }
    if (fd_ < 0) fail_io("T3003", "cannot create a file beside `" + path_ + "`");
  }
  ~TemporaryFile() {
    if (fd_ < 0) return;
    close(fd_);
    if (!temporary_.empty()) unlink(temporary_.c_str());
  }
  void write(const void* data, size_t size) {
    const char* p = static_cast<const char*>(data);
    while (size > 0) {
      const ssize_t n = ::write(fd_, p, std::min<size_t>(size, size_t(1) << 30));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) fail_io("T3003", "cannot write `" + path_ + "`");
      p += n;
      size -= size_t(n);
      at += size_t(n);
    }
  }
  void pad_to(uint64_t offset) {
    static constexpr char zeros[256] = {};
    while (at < offset) write(zeros, size_t(std::min<uint64_t>(offset - at, sizeof zeros)));
  }
  void commit(bool sync) {
    const bool replaces = !temporary_.empty();
    if (sync && replaces && fsync(fd_) != 0) fail_io("T3003", "cannot write `" + path_ + "`");
    if (replaces) {
      const mode_t mask = umask(0);
      umask(mask);
      fchmod(fd_, 0666 & ~mask);
    }
    const int fd = std::exchange(fd_, -1);
    const bool closed = close(fd) == 0;  // a file system may report a full disk only now
    if (!closed || (replaces && rename(temporary_.c_str(), path_.c_str()) != 0)) {
      const int saved = errno;
      if (replaces) unlink(temporary_.c_str());
      errno = saved;
      fail_io("T3003", "cannot write `" + path_ + "`");
    }
  }
  uint64_t at = 0;

 private:
  [[noreturn]] static void fail_io(const char* code, const std::string& what) {
    const int error = errno;
    std::string hint;
    if (error == ENOSPC || error == EDQUOT) hint = "the disk is full: free some space, or write elsewhere";
    if (error == ENOENT || error == ENOTDIR) hint = "the folder does not exist: create it first";
    if (error == EACCES || error == EPERM || error == EROFS) hint = "choose a folder that you may write to";
    throw Error(ErrorKind::io, code, what + ": " + std::strerror(error), {}, hint);
  }
  std::string path_, temporary_;
  int fd_ = -1;
};

bool same_bytes(const NDArray& a, const NDArray& b) {
  return a.data() == b.data() || std::memcmp(a.data(), b.data(), a.byte_size()) == 0;
}

}  // namespace

std::string executable_tables(const Executable& executable) {
  check_executable(executable);
  std::vector<ConstantRecord> records;
  for (const NDArray& c : executable.constants)
    records.push_back({c.dtype(), c.shape(), 0, c.byte_size(), c.hash()});
  return encode_tables(executable, records);
}

void write_artifact(const std::string& path, const Executable& executable, std::string_view shared_object,
                    WriteOptions options) {
  check_executable(executable);
  const uint64_t code_bytes = elf_extent(shared_object, nullptr);
  CHECK(code_bytes != 0 && code_bytes <= shared_object.size(),
        "the code of an artifact must be an ELF shared object");

  std::vector<ConstantRecord> records;
  std::vector<size_t> order;  // constants that are stored, in order of their place
  std::multimap<uint64_t, size_t> by_hash;
  uint64_t constants_bytes = 0;
  for (size_t i = 0; i < executable.constants.size(); ++i) {
    const NDArray& c = executable.constants[i];
    ConstantRecord record{c.dtype(), c.shape(), 0, c.byte_size(), c.hash()};
    bool stored = false;
    for (auto [it, end] = by_hash.equal_range(record.hash); it != end && !stored; ++it)
      if (records[it->second].bytes == record.bytes && same_bytes(executable.constants[it->second], c)) {
        record.offset = records[it->second].offset;
        stored = true;
      }
    if (!stored) {
      record.offset = align_up(constants_bytes, kAlign);
      constants_bytes = record.offset + record.bytes;
      by_hash.emplace(record.hash, i);
      order.push_back(i);
    }
    records.push_back(std::move(record));
  }
  const std::string tables = encode_tables(executable, records);

  Header h{};
  std::memcpy(h.magic, kMagic, sizeof h.magic);
  h.format = kArtifactFormat;
  h.kernel_abi = TENON_KERNEL_ABI;
  h.code_bytes = code_bytes;
  h.code_hash = hash_bytes(shared_object.data(), code_bytes);
  const uint64_t header_at = align_up(code_bytes, kAlign);
  h.tables_at = header_at + sizeof h;
  h.tables_bytes = tables.size();
  h.tables_hash = hash_bytes(tables.data(), tables.size());
  h.constants_at = align_up(h.tables_at + h.tables_bytes, kPage);
  h.constants_bytes = constants_bytes;
  h.file_bytes = h.constants_at + constants_bytes;
  h.header_hash = hash_bytes(&h, offsetof(Header, header_hash));

  TemporaryFile file(path);
  file.write(shared_object.data(), code_bytes);
  file.pad_to(header_at);
  file.write(&h, sizeof h);
  file.write(tables.data(), tables.size());
  file.pad_to(h.constants_at);
  for (size_t i : order) {
    file.pad_to(h.constants_at + records[i].offset);
    file.write(executable.constants[i].data(), records[i].bytes);
  }
  CHECK(file.at == h.file_bytes, "the artifact's size was planned wrongly");
  file.commit(options.sync);
}

}  // namespace tenon
