// SPDX-License-Identifier: Apache-2.0
#include "import/onnx/tensor.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cstring>

#include "base/printable.h"
#include "base/stored_types.h"

#include "import/onnx/external.h"

namespace tenon::onnx {
namespace {

struct TypeRow {
  int code;
  const char* name;
  DataType dtype;
};
const TypeRow type_rows[] = {
    {1, "float", f32},
    {2, "uint8", u8},
    {3, "int8", DataType::int_(8)},
    {4, "uint16", DataType::uint(16)},
    {5, "int16", DataType::int_(16)},
    {6, "int32", i32},
    {7, "int64", i64},
    {8, "string", DataType::void_()},
    {9, "bool", boolean},
    {10, "float16", f16},
    {11, "double", f64},
    {12, "uint32", DataType::uint(32)},
    {13, "uint64", DataType::uint(64)},
    {14, "complex64", DataType::void_()},
    {15, "complex128", DataType::void_()},
    {16, "bfloat16", DataType::bfloat16()},
    {17, "float8e4m3fn", {TypeCode::Float8_e4m3fn, 8, 1}},
    {18, "float8e4m3fnuz", {TypeCode::Float8_e4m3fnuz, 8, 1}},
    {19, "float8e5m2", {TypeCode::Float8_e5m2, 8, 1}},
    {20, "float8e5m2fnuz", {TypeCode::Float8_e5m2fnuz, 8, 1}},
    {21, "uint4", DataType::uint(4)},
    {22, "int4", DataType::int_(4)},
    {23, "float4e2m1", f4_e2m1fn},
    {24, "float8e8m0", f8_e8m0fnu},
    {25, "uint2", DataType::uint(2)},
    {26, "int2", DataType::int_(2)},
    {27, "float6e2m3", DataType::void_()},
    {28, "float6e3m2", DataType::void_()},
};

static_assert(std::endian::native == std::endian::little, "raw_data is little-endian");

std::string dims_text(const proto::TensorProto& t) {
  std::string s;
  for (int i = 0; i < t.dims_size() && i < 16; ++i) s += (i ? "×" : "") + std::to_string(t.dims(i));
  return t.dims_size() > 16 ? s + "×…" : s.empty() ? "scalar" : s;
}

template <class T, class Field>
void copy_as(const Field& from, NDArray& to) {
  T* out = to.as_ptr<T>();
  for (int i = 0; i < from.size(); ++i) out[i] = static_cast<T>(from.Get(i));
}

}  // namespace

std::string in_quotes(std::string_view text, size_t limit) {
  std::string out = "'";
  for (char c : text) {
    if (out.size() > limit) {
      out += "…";
      break;
    }
    if (c == '\n' || c == '\t')
      out += fmt::format("\\x{:02x}", c);
    else
      out += c;
  }
  return printable(out) + "'";
}

std::string onnx_type_name(int type) {
  for (const TypeRow& r : type_rows)
    if (r.code == type) return r.name;
  return fmt::format("type {}", type);
}

DataType element_type(int type) {
  const DataType t = stored_type(type);
  return is_stored_only(t) ? DataType::void_() : t;
}
DataType stored_type(int type) {
  for (const TypeRow& r : type_rows)
    if (r.code == type) return r.dtype;
  return DataType::void_();
}

/// One of a node's attributes may have no name; its node is where the error is.
static std::string words_of(const proto::TensorProto& t) {
  return t.name().empty() ? "the tensor" : "tensor " + in_quotes(t.name());
}

int64_t checked_elements(const proto::TensorProto& t, DataType dtype, const ImportOptions& options,
                         const std::string& where) {
  if (t.dims_size() > 64)
    fail("T2014", fmt::format("{} has {} dimensions; at most 64 are accepted", words_of(t), t.dims_size()),
         where);
  int64_t n = 1;
  bool zero = false;
  for (int64_t d : t.dims()) {
    if (d < 0) fail("T2014", fmt::format("{} has a negative dimension {}", words_of(t), d), where);
    zero |= d == 0;
  }
  if (zero) return 0;
  for (int64_t d : t.dims())
    if (__builtin_mul_overflow(n, d, &n))
      fail("T2015", fmt::format("{} of {} elements is too large", words_of(t), dims_text(t)), where, "",
           ErrorKind::limit);
  const int64_t bits = std::max(1, int(dtype.bits));
  if (n > options.max_tensor_bytes / bits * 8)
    fail("T2015",
         fmt::format("{} of {} elements is larger than the limit of {} bytes", words_of(t), dims_text(t),
                     options.max_tensor_bytes),
         where, "", ErrorKind::limit);
  return n;
}

NDArray read_tensor(proto::TensorProto& t, const ModelFile& file, const ImportOptions& options,
                    const std::string& where, bool again) {
  const DataType dtype = stored_type(t.data_type());
  if (dtype.is_void()) {
    if (t.data_type() == 0)
      fail("T2014", fmt::format("tensor {} has no element type", in_quotes(t.name())), where);
    fail("T2103",
         fmt::format("tensor {} has elements of {}, which is not supported", in_quotes(t.name()),
                     onnx_type_name(t.data_type())),
         where);
  }
  const int64_t n = checked_elements(t, dtype, options, where);
  std::vector<int64_t> shape(t.dims().begin(), t.dims().end());
  const size_t bytes = storage_bytes(n, dtype);
  if (t.data_location() != 0 && t.data_location() != 1)
    fail(
        "T2014",
        fmt::format("tensor {} has its data at the unknown place {}", in_quotes(t.name()), t.data_location()),
        where);
  if (t.data_location() == 1) {
    if (options.external_files)
      for (const auto& e : t.external_data())
        if (e.key() == "location") options.external_files->push_back(e.value());
    NDArray a = read_external(t, file, shape, dtype, where);
    t.clear_external_data();
    return a;
  }
  auto wrong = [&](const char* field, int64_t have, int64_t want, const char* unit) {
    fail("T2014",
         fmt::format("tensor {} of {} elements needs {} {} in {}, the file has {}", in_quotes(t.name()),
                     dims_text(t), want, unit, field, have),
         where);
  };
  const int typed = (t.float_data_size() > 0) + (t.int32_data_size() > 0) + (t.int64_data_size() > 0) +
                    (t.double_data_size() > 0) + (t.uint64_data_size() > 0) + (t.string_data_size() > 0);
  if (typed + int(t.has_raw_data() && !t.raw_data().empty()) + int(t.has_payload()) > 1)
    fail("T2014", fmt::format("tensor {} holds its data in more than one field", in_quotes(t.name())), where);
  if (t.has_payload()) {
    CHECK(t.payload() < file.payloads.size(), "a payload that the file does not have");
    const std::string_view payload = file.payloads[t.payload()];
    if (payload.size() != bytes) wrong("raw_data", int64_t(payload.size()), int64_t(bytes), "bytes");
    NDArray a = NDArray::from_bytes(shape, dtype, payload.data(), payload.size());
    if (!again) {
      t.clear_payload();
      if (file.bytes) file.bytes->release(payload);
    }
    return a;
  }
  if (t.has_raw_data() && typed == 0) {
    if (t.raw_data().size() != bytes)
      wrong("raw_data", int64_t(t.raw_data().size()), int64_t(bytes), "bytes");
    NDArray a = NDArray::from_bytes(shape, dtype, t.raw_data().data(), t.raw_data().size());
    t.mutable_raw_data()->clear();
    t.mutable_raw_data()->shrink_to_fit();
    return a;
  }
  auto expect = [&](const char* field, int64_t have, int64_t want) {
    if (have != want) wrong(field, have, want, "values");
  };
  // The count is checked before storage is made, so that a lie about the shape costs nothing.
  if (dtype == f32)
    expect("float_data", t.float_data_size(), n);
  else if (dtype == f64)
    expect("double_data", t.double_data_size(), n);
  else if (dtype == i64)
    expect("int64_data", t.int64_data_size(), n);
  else if (dtype == DataType::uint(64) || dtype == DataType::uint(32))
    expect("uint64_data", t.uint64_data_size(), n);
  else
    expect("int32_data", t.int32_data_size(), dtype.bits < 8 ? int64_t(bytes) : n);
  NDArray a = NDArray::empty(shape, dtype);
  if (dtype == f32) {
    copy_as<float>(t.float_data(), a);
    t.mutable_float_data()->Clear();
  } else if (dtype == f64) {
    copy_as<double>(t.double_data(), a);
    t.mutable_double_data()->Clear();
  } else if (dtype == i64) {
    copy_as<int64_t>(t.int64_data(), a);
    t.mutable_int64_data()->Clear();
  } else if (dtype == DataType::uint(64))
    copy_as<uint64_t>(t.uint64_data(), a);
  else if (dtype == DataType::uint(32))
    copy_as<uint32_t>(t.uint64_data(), a);
  else if (dtype == boolean) {
    uint8_t* p = a.as_ptr<uint8_t>();
    for (int i = 0; i < t.int32_data_size(); ++i) p[i] = t.int32_data(i) != 0;
  } else if (dtype.bits == 32)
    copy_as<int32_t>(t.int32_data(), a);
  else if (dtype.bits == 16)
    copy_as<uint16_t>(t.int32_data(), a);
  else
    copy_as<uint8_t>(t.int32_data(), a);
  t.mutable_int32_data()->Clear();
  t.mutable_uint64_data()->Clear();
  return a;
}

}  // namespace tenon::onnx
