// SPDX-License-Identifier: Apache-2.0
// The sidecar of a script text: constants by content hash, in one binary file. Every entry is checked against
// its hash when it is read, and no size in the file is believed beyond the file's own length.
#include <fmt/format.h>

#include <cstring>
#include <fstream>

#include "ir/text.h"

namespace tenon {
namespace {

constexpr char kMagic[8] = {'T', 'E', 'N', 'O', 'N', 'C', '0', '1'};

struct Header {  // of one constant, before its dimensions and bytes; little-endian
  uint64_t hash, bytes;
  uint32_t dims;
  uint8_t code, bits;
  uint16_t lanes;
};
static_assert(sizeof(Header) == 24);

[[noreturn]] void corrupted(const std::string& path, const std::string& why) {
  fail("T0290", fmt::format("`{}` is no sound file of constants: {}", path, why), path,
       "print the program again", ErrorKind::io);
}

}  // namespace

void save_constants(const std::string& path, const ConstantTable& table) {
  std::ofstream out(path, std::ios::binary);
  const uint64_t count = table.size();
  out.write(kMagic, sizeof kMagic);
  out.write(reinterpret_cast<const char*>(&count), sizeof count);
  for (const auto& [hash, a] : table) {
    const Header h{hash,           a.byte_size(),  uint32_t(a.ndim()), uint8_t(a.dtype().code),
                   a.dtype().bits, a.dtype().lanes};
    out.write(reinterpret_cast<const char*>(&h), sizeof h);
    out.write(reinterpret_cast<const char*>(a.shape().data()),
              std::streamsize(a.shape().size() * sizeof(int64_t)));
    out.write(static_cast<const char*>(a.data()), std::streamsize(a.byte_size()));
  }
  out.close();
  if (!out) throw Error(ErrorKind::io, "T3003", "cannot write " + path);
}

ConstantTable load_constants(const std::string& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) throw Error(ErrorKind::io, "T3001", "cannot read " + path);
  uint64_t left = uint64_t(in.tellg());
  in.seekg(0);
  auto take = [&](void* to, uint64_t n) {
    if (n > left) corrupted(path, "it ends too early");
    in.read(static_cast<char*>(to), std::streamsize(n));
    if (!in) throw Error(ErrorKind::io, "T3001", "cannot read " + path);
    left -= n;
  };
  char magic[8];
  uint64_t count;
  take(magic, sizeof magic);
  if (std::memcmp(magic, kMagic, sizeof magic)) corrupted(path, "its first bytes say something else");
  take(&count, sizeof count);
  ConstantTable table;
  for (uint64_t i = 0; i < count; ++i) {
    Header h;
    take(&h, sizeof h);
    if (h.dims > 64 || uint64_t(h.dims) * 8 > left) corrupted(path, "a shape is damaged");
    std::vector<int64_t> shape(h.dims);
    take(shape.data(), uint64_t(h.dims) * 8);
    const DataType dtype{TypeCode(h.code), h.bits, h.lanes};
    DataType known;
    if (!parse_dtype(to_string(dtype), &known) || known != dtype) corrupted(path, "a data type is damaged");
    uint64_t expected = 0;
    try {
      expected = storage_bytes(element_count(shape), dtype);
    } catch (const Error&) {
      corrupted(path, "a shape is damaged");
    }
    if (expected != h.bytes || h.bytes > left) corrupted(path, "a size is damaged");
    NDArray a = NDArray::empty(shape, dtype);
    take(a.data(), h.bytes);
    if (a.hash() != h.hash)
      corrupted(path, fmt::format("constant {} of {} does not have its hash", i + 1, count));
    table.emplace(h.hash, a);
  }
  if (left) corrupted(path, "it goes on behind its end");
  return table;
}

}  // namespace tenon
