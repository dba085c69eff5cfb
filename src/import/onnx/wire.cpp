// SPDX-License-Identifier: Apache-2.0
#include "import/onnx/wire.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/diagnostic.h"

namespace tenon::onnx {
namespace {

enum Kind : uint8_t {
  Leaf,
  Model,
  Graph,
  Function,
  Node,
  Attribute,
  Tensor,
  Sparse,
  ValueInfo,
  Type,
  TensorT,
  WrapT,
  MapT,
  Shape,
  Dim,
  Entry,
  Opset,
  Sequence,
  Optional
};
const char* const kind_names[] = {"",         "model",         "graph",
                                  "function", "node",          "attribute",
                                  "tensor",   "sparse tensor", "value description",
                                  "type",     "tensor type",   "outer type",
                                  "map type", "shape",         "dimension",
                                  "entry",    "operator set",  "sequence",
                                  "optional"};

struct Rule {
  Kind in;
  uint32_t field;
  Kind to;
};
// Which fields hold messages. What is not listed is data, skipped whole.
constexpr Rule rules[] = {
    {Model, 7, Graph},         {Model, 8, Opset},         {Model, 14, Entry},      {Model, 25, Function},
    {Graph, 1, Node},          {Graph, 5, Tensor},        {Graph, 11, ValueInfo},  {Graph, 12, ValueInfo},
    {Graph, 13, ValueInfo},    {Graph, 15, Sparse},       {Function, 7, Node},     {Function, 9, Opset},
    {Function, 11, Attribute}, {Function, 12, ValueInfo}, {Node, 5, Attribute},    {Attribute, 5, Tensor},
    {Attribute, 6, Graph},     {Attribute, 10, Tensor},   {Attribute, 11, Graph},  {Attribute, 14, Type},
    {Attribute, 15, Type},     {Attribute, 22, Sparse},   {Attribute, 23, Sparse}, {Tensor, 13, Entry},
    {Sparse, 1, Tensor},       {Sparse, 2, Tensor},       {ValueInfo, 2, Type},    {Type, 1, TensorT},
    {Type, 4, WrapT},          {Type, 5, MapT},           {Type, 8, TensorT},      {Type, 9, WrapT},
    {TensorT, 2, Shape},       {WrapT, 1, Type},          {MapT, 2, Type},         {Shape, 1, Dim},
    {Sequence, 3, Tensor},     {Sequence, 5, Sequence},   {Sequence, 7, Optional}, {Optional, 3, Tensor},
    {Optional, 5, Sequence},   {Optional, 7, Optional}};

Kind message_kind(Kind in, uint32_t field) {
  for (const Rule& r : rules)
    if (r.in == in && r.field == field) return r.to;
  return Leaf;
}

bool read_varint(std::string_view bytes, size_t end, size_t& at, uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (at >= end) return false;
    const uint8_t b = uint8_t(bytes[at++]);
    if (shift < 64) value |= uint64_t(b & 127) << shift;
    if (b < 128) return true;
  }
  return false;
}

/// Payloads from here on stay where they are.
constexpr uint64_t kLongPayload = 4096;
/// What stands for one: a tag and a number of at most five bytes each.
constexpr size_t kStandIn = 10;

/// In exactly `bytes` bytes.
void write_varint(std::string& out, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i, value >>= 7) out += char((value & 127) | (i + 1 < bytes ? 128 : 0));
}

std::string other_format(std::string_view b) {
  auto starts = [&](std::string_view s) { return b.substr(0, s.size()) == s; };
  if (starts("PK\x03\x04")) return "it is a ZIP archive (a TorchScript or PyTorch file, or a packed model)";
  if (starts("\x7f"
             "ELF"))
    return "it is an ELF file; `tenon run` takes artifacts too, if this is one";
  if (starts("\x89HDF")) return "it is an HDF5 file (a Keras model); export it to ONNX first";
  if (starts("version https://git-lfs"))
    return "it is a Git LFS pointer; fetch the real file with `git lfs pull`";
  if (starts("<!DOCTYPE") || starts("<html")) return "it is a web page; the download went wrong";
  if (starts("\x1f\x8b") ||
      starts("\xfd"
             "7zXZ") ||
      starts("BZh"))
    return "it is a compressed file; unpack it first";
  if (b.size() > 8 && b.substr(4, 4) == "TFL3")
    return "it is a TensorFlow Lite model; export it to ONNX first";
  return "export the model with torch.onnx.export or another ONNX exporter";
}

}  // namespace

void check_wire(std::string_view bytes, WireRoot root, const std::string& name, WirePayloads* payloads) {
  struct Frame {
    size_t end;
    Kind kind;
    size_t length_at = 0, begin = 0, left_out = 0;
  };
  const Kind top = root == WireRoot::model      ? Model
                   : root == WireRoot::sequence ? Sequence
                   : root == WireRoot::optional ? Optional
                                                : Tensor;
  std::vector<Frame> stack{{bytes.size(), top}};
  const char* what = kind_names[top];
  if (bytes.empty() && top != Sequence && top != Optional)
    fail("T2001", fmt::format("'{}' is empty", name), name,
         root == WireRoot::model ? other_format(bytes) : "");
  // A handful of bytes may become a message of a few hundred: the sum is what parsing would take.
  uint64_t memory = 0;
  const uint64_t budget = (uint64_t(64) << 20) + 24 * uint64_t(bytes.size());
  size_t at = 0, good_fields = 0;
  bool known_top = false;
  auto broken = [&](size_t where, const std::string& why) {
    if (stack.size() == 1 && !known_top)
      fail("T2001", fmt::format("'{}' is not an ONNX {}", name, what), name,
           root == WireRoot::model ? other_format(bytes) : "");
    fail("T2002",
         fmt::format("'{}' is truncated or corrupted: {} at byte {}, inside a {}", name, why, where,
                     kind_names[stack.back().kind]),
         name, "copy or download the file again");
  };
  while (!stack.empty()) {
    if (at == stack.back().end) {
      if (const Frame& f = stack.back(); f.left_out && stack.size() > 1)
        payloads->lengths.push_back({f.length_at, f.begin - f.length_at, f.end - f.begin - f.left_out});
      stack.pop_back();
      continue;
    }
    const size_t start = at, end = stack.back().end;
    const Kind in = stack.back().kind;
    uint64_t tag = 0, n = 0;
    if (!read_varint(bytes, end, at, tag)) broken(start, "a field ends early");
    const uint64_t field = tag >> 3;
    if (field == 0 || field >= kPayloadField) broken(start, "a field has an impossible number");
    // A tensor would pass for an empty container: containers have a number in field 2 alone, and eight
    // fields.
    if (stack.size() == 1 && (top == Sequence || top == Optional) &&
        (field > 8 || (field == 2) != ((tag & 7) == 0)))
      fail("T2001", fmt::format("'{}' is not an ONNX {}", name, what), name);
    switch (tag & 7) {
      case 0:
        if (!read_varint(bytes, end, at, n)) broken(start, "a number ends early");
        memory += 8;
        break;
      case 1:
        n = 8;
        [[fallthrough]];
      case 5:
        if ((tag & 7) == 5) n = 4;
        if (end - at < n) broken(start, "a number ends early");
        at += n;
        memory += 8;
        break;
      case 2: {
        const size_t length_at = at;
        if (!read_varint(bytes, end, at, n)) broken(start, "a length ends early");
        if (n > end - at)
          broken(start, fmt::format("a part of {} bytes is announced where {} are left", n, end - at));
        const Kind to = message_kind(in, uint32_t(field));
        if (to == Leaf) {
          if (payloads && in == Tensor && field == 9 && n >= kLongPayload) {
            payloads->payloads.push_back({start, at, at + size_t(n)});
            for (Frame& f : stack) f.left_out += at + size_t(n) - start - kStandIn;
          }
          at += n;
          memory += 48 + n;
          if (in == Tensor && field != 8 && field != 9)
            memory += 7 * n;  // packed numbers of one byte become eight
        } else {
          if (stack.size() >= size_t(kMaxWireDepth))
            fail("T2005",
                 fmt::format("'{}' nests graphs or types deeper than {} levels", name, kMaxWireDepth), name,
                 "", ErrorKind::limit);
          stack.push_back({at + n, to, length_at, at});
          memory +=
              to == Node || to == Tensor || to == Attribute || to == Graph || to == Function ? 320 : 112;
          if (stack.size() == 2 && (to == Graph || to == Opset)) known_top = true;
        }
        break;
      }
      default:
        broken(start, "a field has an unknown encoding");
    }
    if (++good_fields >= 2 && root != WireRoot::model) known_top = true;
    if (memory > budget)
      fail("T2004",
           fmt::format("'{}' would take far more memory than its {} bytes: it is made of too many tiny parts",
                       name, bytes.size()),
           name, "", ErrorKind::limit);
  }
}

std::string without_payloads(std::string_view bytes, WirePayloads p) {
  std::sort(p.lengths.begin(), p.lengths.end(), [](const auto& a, const auto& b) { return a.at < b.at; });
  std::string out;
  size_t at = 0, length = 0;
  auto copy_to = [&](size_t end) {
    out.append(bytes.substr(at, end - at));
    at = end;
  };
  for (size_t i = 0; i <= p.payloads.size(); ++i) {
    const size_t stop = i < p.payloads.size() ? p.payloads[i].field : bytes.size();
    for (; length < p.lengths.size() && p.lengths[length].at < stop; ++length) {
      const auto& l = p.lengths[length];
      copy_to(l.at);
      write_varint(out, l.value, l.bytes);
      at = l.at + l.bytes;
    }
    copy_to(stop);
    if (i == p.payloads.size()) break;
    write_varint(out, uint64_t(kPayloadField) << 3, 5);
    write_varint(out, i, 5);
    at = p.payloads[i].end;
  }
  return out;
}

}  // namespace tenon::onnx
