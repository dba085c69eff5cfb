// SPDX-License-Identifier: Apache-2.0
#include "import/onnx/external.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cstring>
#include <filesystem>

#include "import/onnx/wire.h"
#include "runtime/string_tensor.h"

namespace tenon::onnx {
namespace {

namespace fs = std::filesystem;

struct File {
  int fd = -1;
  explicit File(const std::string& path) : fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~File() {
    if (fd >= 0) ::close(fd);
  }
  File(const File&) = delete;
};

bool read_exactly(int fd, char* out, size_t n, int64_t offset) {
  while (n > 0) {
    const ssize_t got = ::pread(fd, out, std::min(n, size_t(1) << 30), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    out += got, n -= size_t(got), offset += got;
  }
  return true;
}

}  // namespace

NDArray read_external(const proto::TensorProto& t, const ModelFile& file, const std::vector<int64_t>& shape,
                      DataType dtype, const std::string& where) {
  std::string location;
  int64_t offset = 0, length = -1;
  for (const auto& e : t.external_data()) {
    if (e.key() == "location") location = e.value();
    if (e.key() != "offset" && e.key() != "length") continue;
    int64_t v = 0;
    const char* end = e.value().data() + e.value().size();
    const auto r = std::from_chars(e.value().data(), end, v);
    if (r.ec != std::errc() || r.ptr != end || v < 0)
      fail("T2018",
           fmt::format("tensor {} has an impossible {} of external data: {}", in_quotes(t.name()), e.key(),
                       in_quotes(e.value())),
           where);
    (e.key() == "offset" ? offset : length) = v;
  }
  const std::string name = in_quotes(t.name());
  auto refuse = [&](const char* why) {
    fail("T2016",
         fmt::format("external data of tensor {} at {} is refused: {}", name, in_quotes(location), why),
         where, "external data must lie in the model's folder or below it");
  };
  if (location.empty()) refuse("it names no file");
  if (location.find('\0') != std::string::npos) refuse("the name contains a zero byte");
  if (file.folder.empty()) refuse("a model without a folder cannot have external data");
  const fs::path relative(location);
  if (relative.is_absolute() || location[0] == '\\' || (location.size() > 1 && location[1] == ':'))
    refuse("the path is absolute");
  for (const fs::path& part : relative)
    if (part == "..") refuse("the path leaves the model's folder");
  std::error_code ec;
  const fs::path root = fs::canonical(file.folder, ec);
  if (ec)
    fail("T2017",
         fmt::format("the model's folder {} cannot be read: {}", in_quotes(file.folder), ec.message()), where,
         "", ErrorKind::io);
  const fs::path full = fs::canonical(root / relative, ec);
  if (ec)
    fail("T2017",
         fmt::format("external data of tensor {} is missing: {} ({})", name,
                     in_quotes((fs::path(file.folder) / relative).string()), ec.message()),
         where, "put the data file beside the model", ErrorKind::io);
  if (std::mismatch(root.begin(), root.end(), full.begin(), full.end()).first != root.end())
    refuse("the path leads out of the model's folder");
  File f(full.string());
  struct stat st{};
  if (f.fd < 0 || ::fstat(f.fd, &st) != 0)
    fail("T2017",
         fmt::format("external data of tensor {} cannot be read: {} ({})", name, in_quotes(full.string()),
                     std::strerror(errno)),
         where, "", ErrorKind::io);
  if (!S_ISREG(st.st_mode)) refuse("it is not a regular file");
  const int64_t bytes = int64_t(storage_bytes(element_count(shape), dtype));  // checked by the caller
  if (length >= 0 && length != bytes)
    fail("T2014", fmt::format("tensor {} needs {} bytes, its external data has {}", name, bytes, length),
         where);
  if (offset > st.st_size || bytes > st.st_size - offset)
    fail("T2018",
         fmt::format("tensor {} needs bytes {} to {} of {}, which has {}", name, offset,
                     uint64_t(offset) + uint64_t(bytes), in_quotes(location), st.st_size),
         where, "the data file is truncated or belongs to another model");
  NDArray a = NDArray::empty(shape, dtype);
  if (!read_exactly(f.fd, static_cast<char*>(a.data()), size_t(bytes), offset))
    fail("T2017",
         fmt::format("external data of tensor {} cannot be read: {}", name, in_quotes(full.string())), where,
         "", ErrorKind::io);
  return a;
}

FileBytes::FileBytes(size_t size) : size_(size) {
  if (size == 0) return;
  void* pages = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED)
    fail("T0401", fmt::format("no memory for a file of {} bytes", size), {}, {}, ErrorKind::limit);
  pages_ = static_cast<char*>(pages);
}
FileBytes::FileBytes(std::string text) : text_(std::move(text)) {}
FileBytes::~FileBytes() {
  if (pages_) ::munmap(pages_, size_);
}
void FileBytes::release(std::string_view part) {
  const auto page = uintptr_t(::sysconf(_SC_PAGESIZE));
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(part.data()) + page - 1) / page * page;
  const uintptr_t end = reinterpret_cast<uintptr_t>(part.data() + part.size()) / page * page;
  if (pages_ && begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

std::shared_ptr<FileBytes> read_file(const std::string& path, int64_t limit) {
  File f(path);
  struct stat st{};
  if (f.fd < 0 || ::fstat(f.fd, &st) != 0)
    fail("T3001", fmt::format("cannot read {}: {}", in_quotes(path), std::strerror(errno)), {}, {},
         ErrorKind::io);
  if (S_ISDIR(st.st_mode))
    fail("T3001", fmt::format("cannot read {}: it is a folder", in_quotes(path)), {}, {}, ErrorKind::io);
  auto too_large = [&] {
    fail("T2003", fmt::format("{} is larger than the limit of {} bytes", in_quotes(path), limit), path,
         "store the weights as external data beside the model", ErrorKind::limit);
  };
  if (st.st_size > limit) too_large();
  if (S_ISREG(st.st_mode)) {
    auto bytes = std::make_shared<FileBytes>(size_t(st.st_size));
    if (!read_exactly(f.fd, bytes->data(), bytes->view().size(), 0))
      fail("T3001", fmt::format("cannot read {}: it ended early", in_quotes(path)), {}, {}, ErrorKind::io);
    return bytes;
  }
  std::string text;
  // A pipe: non-blocking mode served opening only.
  ::fcntl(f.fd, F_SETFL, ::fcntl(f.fd, F_GETFL) & ~O_NONBLOCK);
  char buffer[1 << 16];
  for (;;) {
    const ssize_t got = ::read(f.fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      fail("T3001", fmt::format("cannot read {}: {}", in_quotes(path), std::strerror(errno)), {}, {},
           ErrorKind::io);
    if (got == 0) return std::make_shared<FileBytes>(std::move(text));
    text.append(buffer, size_t(got));
    if (int64_t(text.size()) > limit) too_large();
  }
}

namespace {
template <class Message>
void parse_message(Message& m, std::string_view bytes, const std::string& name) {
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()),
                                            int(bytes.size()));
  in.SetRecursionLimit(kMaxWireDepth + 8);
  if (!m.ParseFromCodedStream(&in) || !in.ConsumedEntireMessage())
    fail("T2002", fmt::format("'{}' is truncated or corrupted", name), name,
         "copy or download the file again");
}
}  // namespace

ModelFile parse_model(std::string_view bytes, const std::string& name, const std::string& folder,
                      const ImportOptions& options) {
  if (int64_t(bytes.size()) > std::min<int64_t>(options.max_file_bytes, INT32_MAX))
    fail("T2003",
         fmt::format("'{}' has {} bytes; the limit is {}", name, bytes.size(), options.max_file_bytes), name,
         "", ErrorKind::limit);
  WirePayloads payloads;
  check_wire(bytes, WireRoot::model, name, &payloads);
  ModelFile file;
  file.name = name;
  file.folder = folder;
  for (const auto& p : payloads.payloads) file.payloads.push_back(bytes.substr(p.begin, p.end - p.begin));
  if (payloads.payloads.empty())
    parse_message(file.model, bytes, name);
  else
    parse_message(file.model, without_payloads(bytes, std::move(payloads)), name);
  if (!file.model.has_graph())
    fail("T2001", fmt::format("'{}' is not an ONNX model: it has no graph", name), name,
         "export the model with torch.onnx.export or another ONNX exporter");
  return file;
}

ModelFile open_model(const std::string& path, const ImportOptions& options) {
  auto bytes = read_file(path, options.max_file_bytes);
  const fs::path p(path);
  ModelFile file = parse_model(bytes->view(), p.filename().string(),
                               p.has_parent_path() ? p.parent_path().string() : ".", options);
  if (!file.payloads.empty()) file.bytes = std::move(bytes);
  return file;
}

NDArray read_tensor_proto(const std::string& path, std::string* tensor_name) {
  ImportOptions options;
  ModelFile file;
  file.name = fs::path(path).filename().string();
  const auto whole = read_file(path, options.max_file_bytes);
  const std::string_view bytes = whole->view();
  // A tensor of rank 0 without a name and with zero in it may be a few bytes, but never none.
  check_wire(bytes, WireRoot::tensor, file.name);
  proto::TensorProto t;
  parse_message(t, bytes, file.name);
  if (tensor_name) *tensor_name = t.name();
  return read_tensor(t, file, options, file.name);
}

namespace {

/// Parts of containers, each with what the file is.
struct ValueReader {
  ModelFile file;
  ImportOptions options;

  Any tensor(proto::TensorProto& t) {
    if (t.data_type() != 8) return Any(read_tensor(t, file, options, file.name));
    const int64_t n = checked_elements(t, i64, options, file.name);
    if (t.string_data_size() != n)
      fail("T2014", fmt::format("a tensor of {} strings has {} of them", n, t.string_data_size()), file.name);
    auto s = make<StringTensorObj>();
    s.mut()->shape.assign(t.dims().begin(), t.dims().end());
    s.mut()->items.assign(t.string_data().begin(), t.string_data().end());
    return Any(std::move(s));
  }
  // Nesting is bounded by check_wire.
  Any sequence(proto::SequenceProto& s) {
    auto items = make<ArrayObj>();
    for (auto& t : *s.mutable_tensor_values()) items.mut()->items.push_back(tensor(t));
    for (auto& i : *s.mutable_sequence_values()) items.mut()->items.push_back(sequence(i));
    for (auto& i : *s.mutable_optional_values()) items.mut()->items.push_back(optional(i));
    return Any(std::move(items));
  }
  Any optional(proto::OptionalProto& o) {
    if (o.has_tensor_value()) return tensor(*o.mutable_tensor_value());
    if (o.has_sequence_value()) return sequence(*o.mutable_sequence_value());
    if (o.has_optional_value()) return optional(*o.mutable_optional_value());
    return {};
  }
};

}  // namespace

Any read_value_proto(const std::string& path, const std::string& type) {
  ValueReader reader;
  reader.file.name = fs::path(path).filename().string();
  const auto whole = read_file(path, reader.options.max_file_bytes);
  const std::string_view bytes = whole->view();
  const auto parsed = [&](auto message, WireRoot root) {
    check_wire(bytes, root, reader.file.name);
    parse_message(message, bytes, reader.file.name);
    return message;
  };
  if (type.starts_with("sequence")) {
    auto s = parsed(proto::SequenceProto(), WireRoot::sequence);
    return reader.sequence(s);
  }
  if (type.starts_with("optional")) {
    auto o = parsed(proto::OptionalProto(), WireRoot::optional);
    return reader.optional(o);
  }
  auto t = parsed(proto::TensorProto(), WireRoot::tensor);
  return reader.tensor(t);
}

bool looks_like_onnx(std::string_view head) {
  // Script text has no control characters; anything else is for the importer, whose refusals know other
  // formats.
  for (unsigned char c : head)
    if ((c < 32 && c != '\n' && c != '\r' && c != '\t' && c != '\f') || c == 127) return true;
  return false;
}

}  // namespace tenon::onnx
