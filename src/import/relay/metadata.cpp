// SPDX-License-Identifier: Apache-2.0
// The JSON is a table of objects that refer to one another by number; tensors stand beside it, in base64.
#include "import/relay/metadata.h"

#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/base64.h"

namespace tenon::relay {
namespace {

using Json = nlohmann::json;

constexpr const char* kConstant = "relay.Constant";
/// What a saved tensor begins with.
constexpr uint64_t kTensorMagic = 0xDD5E40F096B4A13F;
/// Dimensions of a tensor; DLPack's users have far fewer.
constexpr int32_t kMaxRank = 64;

/// Thrown with what is wrong; the section is one mistake.
struct Malformed {
  std::string message;
};

template <class T>
T take(std::string_view& bytes) {
  T value;
  if (bytes.size() < sizeof value) throw Malformed{"a tensor ends too early"};
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes.remove_prefix(sizeof value);
  return value;
}

/// An element type by DLPack's codes; a bool is one bit of an unsigned number.
DataType element_type(uint8_t code, uint8_t bits, uint16_t lanes) {
  enum { kInt = 0, kUInt = 1, kFloat = 2, kBFloat = 4 };
  if (lanes == 1) {
    if (code == kUInt && bits == 1) return boolean;
    if (code == kInt && (bits == 8 || bits == 16 || bits == 32 || bits == 64)) return DataType::int_(bits);
    if (code == kUInt && (bits == 8 || bits == 16 || bits == 32 || bits == 64)) return DataType::uint(bits);
    if (code == kFloat && (bits == 16 || bits == 32 || bits == 64)) return DataType::float_(bits);
    if (code == kBFloat && bits == 16) return DataType::bfloat16();
  }
  throw Malformed{fmt::format("a tensor has elements of kind {}, {} bits and {} lanes", code, bits, lanes)};
}

NDArray tensor(const std::string& text) {
  std::vector<uint8_t> raw;
  if (!unbase64(text, &raw)) throw Malformed{"a tensor is no base64"};
  std::string_view bytes(reinterpret_cast<const char*>(raw.data()), raw.size());
  if (take<uint64_t>(bytes) != kTensorMagic) throw Malformed{"a tensor does not begin with its mark"};
  take<uint64_t>(bytes);  // reserved
  take<int32_t>(bytes);   // device: saved tensors lie on the CPU
  take<int32_t>(bytes);
  const auto rank = take<int32_t>(bytes);
  const auto code = take<uint8_t>(bytes), bits = take<uint8_t>(bytes);
  const DataType type = element_type(code, bits, take<uint16_t>(bytes));
  if (rank < 0 || rank > kMaxRank) throw Malformed{fmt::format("a tensor has {} dimensions", rank)};
  std::vector<int64_t> shape;
  for (int32_t i = 0; i < rank; ++i) shape.push_back(take<int64_t>(bytes));
  const auto size = take<int64_t>(bytes);
  // The bytes are here: a shape of any other size claims too much.
  if (size < 0 || uint64_t(size) != bytes.size())
    throw Malformed{fmt::format("a tensor says that it has {} bytes and has {}", size, bytes.size())};
  try {
    NDArray out = NDArray::from_bytes(shape, type, bytes.data(), bytes.size());
    if (type == boolean)
      for (size_t i = 0; i < bytes.size(); ++i) out.as_ptr<uint8_t>()[i] = bytes[i] != 0;
    return out;
  } catch (const Error& e) {
    throw Malformed{fmt::format("a tensor's bytes do not fill its shape ({})", e.what())};
  }
}

/// A number of the table: plain, or as text in the attributes of an object.
size_t number(const Json& j) {
  if (j.is_number_unsigned()) return j.get<size_t>();
  if (j.is_string()) {
    const auto& s = j.get_ref<const std::string&>();
    constexpr size_t longest = 18;  // digits that fit
    if (!s.empty() && s.size() <= longest && s.find_first_not_of("0123456789") == s.npos)
      return size_t(std::stoull(s));
  }
  throw Malformed{"a reference is no number"};
}

const Json& member(const Json& j, const char* name) {
  const auto it = j.is_object() ? j.find(name) : j.end();
  if (!j.is_object() || it == j.end()) throw Malformed{fmt::format("`{}` is missing", name)};
  return *it;
}

const Json& item(const Json& list, const Json& at, const char* what) {
  const size_t i = number(at);
  if (!list.is_array() || i >= list.size()) throw Malformed{fmt::format("{} {} is missing", what, i)};
  return list[i];
}

std::string kind_of(const Json& node) {
  const Json& kind = member(node, "type_key");
  return kind.is_string() ? kind.get<std::string>() : std::string();
}

}  // namespace

Metadata::Metadata(const std::shared_ptr<const SourceText>& source, size_t begin, DiagnosticList& problems)
    : given_(true) {
  const std::string_view text = std::string_view(source->text).substr(begin);
  try {
    const Json doc = Json::parse(text.begin(), text.end(), nullptr, false);
    if (doc.is_discarded()) throw Malformed{"it is no JSON"};
    const Json &nodes = member(doc, "nodes"), &root = item(nodes, member(doc, "root"), "object");
    if (kind_of(root) != "Map") throw Malformed{"its root is no map"};
    const Json &keys = member(root, "keys"), &values = member(root, "data");
    if (!keys.is_array() || !values.is_array() || keys.size() != values.size())
      throw Malformed{"the keys of its root do not match the values"};
    for (size_t k = 0; k < keys.size(); ++k) {
      if (!keys[k].is_string()) throw Malformed{"a key of its root is no text"};
      const auto& kind = keys[k].get_ref<const std::string&>();
      const Json &group = item(nodes, values[k], "object"), &members = member(group, "data");
      if (kind_of(group) != "Array" || !members.is_array())
        throw Malformed{fmt::format("what it holds under `{}` is no list", kind)};
      if (kind != kConstant) {
        others_[kind] = members.size();
        continue;
      }
      for (const Json& m : members) {
        const Json& node = item(nodes, m, "object");
        if (kind_of(node) != kConstant) throw Malformed{"an object among the constants is none"};
        const Json& data = item(member(doc, "b64ndarrays"), member(member(node, "attrs"), "data"), "tensor");
        if (!data.is_string()) throw Malformed{"a tensor is no text"};
        constants_.push_back(tensor(data.get_ref<const std::string&>()));
      }
    }
  } catch (const Malformed& m) {
    problems.add("T0246", "the metadata is damaged: " + m.message,
                 Span{source, uint32_t(begin), uint32_t(std::min(begin + 1, source->text.size()))},
                 "take the text as it was printed, metadata and all");
  }
}

NDArray Metadata::constant(std::string_view kind, int64_t index, std::string& why) const {
  if (kind != kConstant) {
    why = others_.count(kind) ? fmt::format("an object of kind `{}` in the metadata is not read", kind)
                              : fmt::format("the metadata has no `{}`", kind);
    return {};
  }
  if (uint64_t(index) < constants_.size()) return constants_[size_t(index)];
  why = given_ ? fmt::format("the metadata has {} constants, and this is number {}", constants_.size(), index)
               : "the text has no section #[metadata]";
  return {};
}

}  // namespace tenon::relay
