// SPDX-License-Identifier: Apache-2.0
// Sparse tensors of the file, which become dense: operators read them so.
#include <fmt/ranges.h>

#include "import/onnx/importer.h"

namespace tenon::onnx {
namespace {

/// Of all dense tensors that sparse ones of a model become: their bytes are not in the file.
constexpr int64_t kMostDenseBytes = int64_t(1) << 27;

/// The position in row-major order of entry `at`, from positions (entries) or coordinates (entries, rank).
int64_t position(const NDArray& indices, int64_t at, const std::vector<int64_t>& shape, int64_t size,
                 const std::string& where) {
  const auto check = [&](int64_t i, int64_t end) {
    if (i < 0 || i >= end)
      fail("T2014",
           fmt::format("the index {} of entry {} is outside of the sparse tensor ({})", i, at,
                       fmt::join(shape, ", ")),
           where);
    return i;
  };
  if (indices.ndim() == 1) return check(indices.element_int(at), size);
  const auto rank = int64_t(shape.size());
  int64_t out = 0;
  for (int64_t k = 0; k < rank; ++k)
    out = out * shape[size_t(k)] + check(indices.element_int(at * rank + k), shape[size_t(k)]);
  return out;
}

}  // namespace

Expr Importer::dense_of(proto::SparseTensorProto& sparse, const std::string& where) {
  proto::TensorProto& t = *sparse.mutable_values();
  if (const auto known = constants_.find(&t); known != constants_.end()) return known->second;
  if (element_form(t.data_type()))
    fail("T2103",
         fmt::format("the sparse tensor has elements of {}, which is not supported",
                     onnx_type_name(t.data_type())),
         where);
  const bool again = !inlining_.empty();  // a function's body is a copy that goes away
  const NDArray values = read_tensor(t, file, options, where, again),
                indices = read_tensor(*sparse.mutable_indices(), file, options, where, again);
  proto::TensorProto dense;
  dense.set_name(t.name());
  for (const int64_t d : sparse.dims()) dense.add_dims(d);
  const int64_t size = checked_elements(dense, values.dtype(), options, where);
  const std::vector<int64_t> shape(sparse.dims().begin(), sparse.dims().end());
  dense_bytes_ += int64_t(storage_bytes(size, values.dtype()));
  if (dense_bytes_ > kMostDenseBytes)
    fail("T2015",
         fmt::format("sparse tensors of the model have more than {} bytes as dense ones", kMostDenseBytes),
         where, "store the tensor densely", ErrorKind::limit);
  const auto rank = int64_t(shape.size());
  const bool fits = indices.dtype() == i64 && values.ndim() == 1 &&
                    (indices.ndim() == 1 || (indices.ndim() == 2 && indices.shape()[1] == rank)) &&
                    indices.shape()[0] == values.size();
  if (!fits)
    fail("T2014",
         fmt::format("the sparse tensor has values ({}) and indices ({}) that do not belong together",
                     fmt::join(values.shape(), ", "), fmt::join(indices.shape(), ", ")),
         where);
  const NDArray out = NDArray::zeros(shape, values.dtype());
  for (int64_t i = 0, last = -1; i < values.size(); ++i) {
    const int64_t at = position(indices, i, shape, size, where);
    if (at <= last)
      fail("T2014", fmt::format("the indices of the sparse tensor do not rise at entry {}", i), where);
    last = at;
    values.dtype().is_float() ? out.set_element(at, values.element(i))
                              : out.set_element_int(at, values.element_int(i));
  }
  const Expr c = graph::constant(out);
  if (!again) constants_.emplace(&t, c);
  return c;
}

}  // namespace tenon::onnx
