// SPDX-License-Identifier: Apache-2.0
// libtenon_artifact_write: artifact files, which are the last step of a compilation, and modules saved as
// such.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>

#include "runtime/artifact_format.h"
#include "runtime/libraries/register.h"
#include "runtime/module.h"

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

class Writer {
 public:
  template <class T>
  void number(T v) {
    out.append(reinterpret_cast<const char*>(&v), sizeof v);
  }
  void text(std::string_view s) {
    number(uint32_t(s.size()));
    out.append(s);
  }
  void type(DataType t) { number(uint32_t(dtype_word(t))); }
  template <class C, class F>
  void list(const C& items, F each) {
    number(uint32_t(items.size()));
    for (const auto& item : items) each(item);
  }
  void numbers(const std::vector<int64_t>& dims) {
    list(dims, [&](int64_t d) { number(d); });
  }
  void value(const ValueInfo& v) {
    text(v.name);
    type(v.dtype);
    number(uint8_t(v.known_rank));
    list(v.shape, [&](const DimInfo& d) {
      number(d.value);
      text(d.symbol);
    });
  }
  std::string out;
};

/// What decode_tables reads.
std::string encode_tables(const Executable& e, const std::vector<ConstantRecord>& constants) {
  Writer w;
  w.text(e.needs.triple);
  w.text(e.needs.cpu);
  w.list(e.needs.features, [&](const std::string& f) { w.text(f); });
  w.list(e.metadata, [&](const auto& m) {
    w.text(m.first);
    w.text(m.second);
  });
  w.list(e.functions, [&](const VMFunction& f) {
    w.text(f.name);
    w.number(f.num_params);
    w.number(f.num_registers);
    w.number(f.heap_size);
    w.number(f.first_instruction);
    w.number(f.num_instructions);
    w.list(f.params, [&](const ValueInfo& v) { w.value(v); });
    w.list(f.results, [&](const ValueInfo& v) { w.value(v); });
  });
  w.list(e.code, [&](const Instruction& i) {
    w.number(uint8_t(i.op));
    w.number(i.dst);
    w.number(i.callee);
    w.number(i.offset);
    w.number(i.first_arg);
    w.number(i.num_args);
  });
  w.list(e.args, [&](Arg a) { w.number(a.word); });
  w.list(e.callees, [&](const Callee& c) {
    w.number(uint8_t(c.kind));
    w.text(c.name);
    w.number(c.index);
    w.number(c.num_buffers);
    w.numbers(c.buffer_bytes);
  });
  w.number(e.arena_bytes);
  w.list(e.arena_tensors, [&](const ArenaTensor& t) {
    w.number(t.offset);
    w.type(t.dtype);
    w.numbers(t.shape);
  });
  w.list(e.modules, [&](const CodeModule& m) {
    w.text(m.loader);
    w.text(m.bytes);
  });
  w.list(constants, [&](const ConstantRecord& c) {
    w.type(c.dtype);
    w.numbers(c.shape);
    w.number(c.offset);
    w.number(c.bytes);
    w.number(c.hash);
  });
  return std::move(w.out);
}

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

namespace {

/// The constants of all variants, equal ones once, in the order of their places.
struct Constants {
  struct Stored {
    NDArray value;
    uint64_t offset;
  };
  std::vector<Stored> stored;
  std::multimap<uint64_t, size_t> by_hash;
  uint64_t bytes = 0;

  std::vector<ConstantRecord> add(const Executable& e) {
    std::vector<ConstantRecord> records;
    for (const NDArray& c : e.constants) {
      ConstantRecord record{c.dtype(), c.shape(), 0, c.byte_size(), c.hash()};
      record.offset = place(c, record.hash);
      records.push_back(std::move(record));
    }
    return records;
  }

 private:
  uint64_t place(const NDArray& c, uint64_t hash) {
    for (auto [it, end] = by_hash.equal_range(hash); it != end; ++it)
      if (const Stored& s = stored[it->second];
          s.value.byte_size() == c.byte_size() && same_bytes(s.value, c))
        return s.offset;
    by_hash.emplace(hash, stored.size());
    stored.push_back({c, align_up(bytes, kAlign)});
    bytes = stored.back().offset + c.byte_size();
    return stored.back().offset;
  }
};

}  // namespace

uint64_t write_artifact(const std::string& path, const Executable& executable, std::string_view shared_object,
                        WriteOptions options) {
  return write_artifact(path, {{&executable, shared_object}}, options);
}

uint64_t write_artifact(const std::string& path, const std::vector<Variant>& variants, WriteOptions options) {
  CHECK(!variants.empty() && variants.size() <= kMostVariants, "an artifact has 1 to 16 variants");
  Constants constants;
  std::vector<std::string> tables;
  for (const Variant& v : variants) {
    check_executable(*v.executable);
    CHECK(elf_extent(v.shared_object, nullptr) - 1 < v.shared_object.size(),
          "the code of an artifact must be an ELF shared object");
    tables.push_back(encode_tables(*v.executable, constants.add(*v.executable)));
  }

  Header h{};
  std::memcpy(h.magic, kMagic, sizeof h.magic);
  h.format = kArtifactFormat;
  h.kernel_abi = TENON_KERNEL_ABI;
  h.code_bytes = elf_extent(variants[0].shared_object, nullptr);
  h.code_hash = hash_bytes(variants[0].shared_object.data(), h.code_bytes);
  const uint64_t header_at = align_up(h.code_bytes, kAlign);
  h.tables_at = header_at + sizeof h;
  h.tables_bytes = tables[0].size();
  h.tables_hash = hash_bytes(tables[0].data(), tables[0].size());
  uint64_t end = h.tables_at + h.tables_bytes;
  std::vector<VariantRecord> records(variants.size() - 1);
  if (!records.empty())
    h.variants_at = align_up(end, kAlign), end = h.variants_at + records.size() * sizeof records[0];
  for (size_t k = 1; k < variants.size(); ++k) {
    const std::string_view code =
        variants[k].shared_object.substr(0, elf_extent(variants[k].shared_object, nullptr));
    const uint64_t code_at = align_up(end, kAlign), tables_at = align_up(code_at + code.size(), kAlign);
    records[k - 1] = {code_at,   code.size(),      hash_bytes(code.data(), code.size()),
                      tables_at, tables[k].size(), hash_bytes(tables[k].data(), tables[k].size())};
    end = tables_at + tables[k].size();
  }
  h.num_variants = records.size();
  h.variants_hash = records.empty() ? 0 : hash_bytes(records.data(), records.size() * sizeof records[0]);
  h.constants_at = align_up(end, kPage);
  h.constants_bytes = constants.bytes;
  h.file_bytes = h.constants_at + constants.bytes;
  h.header_hash = hash_bytes(&h, offsetof(Header, header_hash));

  TemporaryFile file(path);
  file.write(variants[0].shared_object.data(), h.code_bytes);
  file.pad_to(header_at);
  file.write(&h, sizeof h);
  file.write(tables[0].data(), tables[0].size());
  if (!records.empty()) {
    file.pad_to(h.variants_at);
    file.write(records.data(), records.size() * sizeof records[0]);
  }
  for (size_t k = 0; k < records.size(); ++k) {
    file.pad_to(records[k].code_at);
    file.write(variants[k + 1].shared_object.data(), records[k].code_bytes);
    file.pad_to(records[k].tables_at);
    file.write(tables[k + 1].data(), tables[k + 1].size());
  }
  file.pad_to(h.constants_at);
  for (const Constants::Stored& s : constants.stored) {
    file.pad_to(h.constants_at + s.offset);
    file.write(s.value.data(), s.value.byte_size());
  }
  CHECK(file.at == h.file_bytes, "the artifact's size was planned wrongly");
  file.commit(options.sync);
  return h.header_hash;
}

namespace {

/// What Module::save calls.
void save(const Module& module, const std::string& path) {
  const ArtifactObj& o = *module.artifact().get();
  if (o.image.empty())
    throw Error(ErrorKind::usage, "T0613", "the module did not come from a file: its code cannot be saved",
                {}, "write it with `tenon compile -o`");
  Executable e = o.executable;
  std::erase_if(e.metadata, [](const auto& m) { return m.first.starts_with(kImport); });
  const std::vector<Module> all = module.imports();
  for (size_t k = 0; k < all.size(); ++k) {
    const std::string beside = path + ".import" + std::to_string(k) + ".so";
    save(all[k], beside);
    e.metadata.emplace_back(import_key(k), beside.substr(beside.rfind('/') + 1));
  }
  write_artifact(path, e, o.image);
}

[[maybe_unused]] const bool registered = [] {
  register_unless_taken("tenon.artifact.save", [](Arguments a) {
    save(a[0].as<Module>(), a[1].as<std::string>());
    return Any();
  });
  return true;
}();

}  // namespace
}  // namespace tenon
