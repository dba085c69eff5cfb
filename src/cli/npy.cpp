// SPDX-License-Identifier: Apache-2.0
// .npy files: a magic, a little header in Python's syntax, raw elements.
#include "cli/npy.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace tenon::cli {
namespace {

[[noreturn]] void malformed(const std::string& path, const std::string& what) {
  throw Error(ErrorKind::io, "T3002", "not a readable .npy file: " + what, path,
              "numpy.save writes such files");
}

constexpr size_t kMostHeader = 1 << 20;  // of some hundred bytes in any file that NumPy writes

struct Descr {
  const char* text;
  DataType dtype;
};
const Descr descrs[] = {{"f8", f64},
                        {"f4", f32},
                        {"f2", f16},
                        {"i8", i64},
                        {"i4", i32},
                        {"i2", DataType::int_(16)},
                        {"i1", DataType::int_(8)},
                        {"u8", DataType::uint(64)},
                        {"u4", DataType::uint(32)},
                        {"u2", DataType::uint(16)},
                        {"u1", u8},
                        {"b1", boolean}};

/// The text behind `'key':` up to the next comma that is not inside brackets.
std::string header_value(const std::string& header, const std::string& key, const std::string& path) {
  size_t at = header.find("'" + key + "'");
  if (at == std::string::npos) malformed(path, "its header has no '" + key + "'");
  at = header.find(':', at);
  if (at == std::string::npos) malformed(path, "its header is broken");
  size_t end = ++at;
  int depth = 0;
  while (end < header.size() && (depth > 0 || (header[end] != ',' && header[end] != '}'))) {
    if (header[end] == '(') ++depth;
    if (header[end] == ')') --depth;
    ++end;
  }
  std::string value = header.substr(at, end - at);
  value.erase(std::remove(value.begin(), value.end(), ' '), value.end());
  return value;
}

NDArray from_fortran_order(const NDArray& a) {
  NDArray out = NDArray::empty(a.shape(), a.dtype());
  const size_t item = size_t(a.dtype().bits) / 8;
  std::vector<int64_t> index(a.shape().size(), 0);
  for (int64_t i = 0; i < a.size(); ++i) {
    int64_t from = 0, stride = 1;
    for (size_t d = 0; d < index.size(); ++d) {
      from += index[d] * stride;
      stride *= a.shape()[d];
    }
    std::memcpy(out.as_ptr<char>() + size_t(i) * item, a.as_ptr<char>() + size_t(from) * item, item);
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < a.shape()[d]) break;
      index[d] = 0;
    }
  }
  return out;
}

}  // namespace

FileReader::FileReader(const std::string& path)
    : path_(path), file_(std::fopen(path.c_str(), "rb"), &std::fclose) {
  if (!file_)
    throw Error(ErrorKind::io, "T3001", std::string("cannot be read: ") + std::strerror(errno), path_);
}

std::string FileReader::take(size_t count) {
  std::string bytes;
  // At its full size from the start: a string that doubles takes three times the file at its height.
  if (struct stat st; fstat(fileno(file_.get()), &st) == 0 && S_ISREG(st.st_mode))
    bytes.reserve(std::min(size_t(st.st_size), count));
  char chunk[1 << 16];
  while (count > bytes.size()) {
    const size_t n = std::fread(chunk, 1, std::min(sizeof chunk, count - bytes.size()), file_.get());
    if (n == 0) break;
    bytes.append(chunk, n);
  }
  if (std::ferror(file_.get()))
    throw Error(ErrorKind::io, "T3001", std::string("cannot be read: ") + std::strerror(errno), path_);
  return bytes;
}

std::string read_file(const std::string& path) { return FileReader(path).take(SIZE_MAX); }

void write_file(const std::string& path, std::string_view bytes) {
  FILE* file = std::fopen(path.c_str(), "wb");
  bool ok = file && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  if (file) ok = (std::fclose(file) == 0) && ok;
  if (!ok)
    throw Error(ErrorKind::io, "T3003", std::string("cannot be written: ") + std::strerror(errno), path);
}

NDArray read_npy(const std::string& path) {
  FileReader file(path);
  std::string head = file.take(10);
  if (head.size() < 10 || head.compare(0, 6, "\x93NUMPY") != 0) malformed(path, "the magic is missing");
  const auto byte = [&](size_t i) { return size_t(static_cast<unsigned char>(head[i])); };
  const size_t version = byte(6);
  if (version > 1) head += file.take(2);
  if (version < 1 || version > 3 || (version > 1 && head.size() < 12))
    malformed(path, fmt::format("format version {}", version));
  const size_t length =
      version == 1 ? byte(8) | byte(9) << 8 : byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24;
  if (length > kMostHeader)
    throw Error(ErrorKind::limit, "T3004",
                fmt::format("its header has {} bytes, at most {} are read", length, kMostHeader), path);
  const std::string header = file.take(length);
  if (header.size() < length) malformed(path, "the file ends inside its header");

  std::string descr = header_value(header, "descr", path);
  if (descr.size() < 4 || descr.front() != '\'' || descr.back() != '\'')
    malformed(path, "element type " + descr + " (only plain numbers and booleans)");
  const char order = descr[1];
  const std::string kind = descr.substr(2, descr.size() - 3);
  const auto* d =
      std::find_if(std::begin(descrs), std::end(descrs), [&](const Descr& x) { return kind == x.text; });
  if (d == std::end(descrs) || !std::strchr("<>|=", order))
    malformed(path, "element type " + descr + " (only plain numbers and booleans)");

  std::string dims = header_value(header, "shape", path);
  std::vector<int64_t> shape;
  if (dims.size() < 2 || dims.front() != '(' || dims.back() != ')') malformed(path, "shape " + dims);
  for (size_t i = 1; i + 1 < dims.size();) {
    size_t end = dims.find_first_of(",)", i);
    int64_t n = 0;
    for (size_t k = i; k < end; ++k) {
      if (dims[k] < '0' || dims[k] > '9' || n > INT64_MAX / 20) malformed(path, "shape " + dims);
      n = n * 10 + (dims[k] - '0');
    }
    if (end > i) shape.push_back(n);
    i = end + 1;
  }
  int64_t count = 0;
  size_t want = 0;
  try {
    count = element_count(shape);
    want = storage_bytes(count, d->dtype);
  } catch (const Error& e) {
    malformed(path, e.message);
  }
  const std::string bytes = file.take(want);
  if (bytes.size() < want)
    malformed(path,
              fmt::format("shape {} of {} needs {} bytes, {} are there", dims, kind, want, bytes.size()));
  NDArray a = NDArray::from_bytes(shape, d->dtype, bytes.data(), want);
  if (order == '>') {
    const size_t item = size_t(d->dtype.bits) / 8;
    for (int64_t i = 0; i < count; ++i)
      std::reverse(a.as_ptr<char>() + size_t(i) * item, a.as_ptr<char>() + size_t(i + 1) * item);
  }
  return header_value(header, "fortran_order", path) == "True" ? from_fortran_order(a) : a;
}

void write_npy(const std::string& path, const NDArray& given) {
  NDArray array = given;
  auto find = [&] {
    return std::find_if(std::begin(descrs), std::end(descrs),
                        [&](const Descr& x) { return array.dtype() == x.dtype; });
  };
  if (find() == std::end(descrs)) {
    array = NDArray::empty(given.shape(), f32);
    for (int64_t i = 0; i < given.size(); ++i) array.set_element(i, given.element(i));
  }
  const std::string kind = find()->text;
  std::string dims;
  for (int64_t n : array.shape()) dims += fmt::format("{}, ", n);
  if (array.ndim() > 1)
    dims.resize(dims.size() - 2);
  else if (array.ndim() == 1)
    dims.pop_back();
  std::string header = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
                                   kind.back() == '1' ? '|' : '<', kind, dims);
  header.append(63 - (header.size() + 10) % 64, ' ');
  header += '\n';
  std::string bytes = "\x93NUMPY";
  bytes += {'\x01', '\x00', char(header.size() & 255), char(header.size() >> 8)};
  bytes += header;
  bytes.append(array.as_ptr<char>(), array.byte_size());
  write_file(path, bytes);
}

}  // namespace tenon::cli
