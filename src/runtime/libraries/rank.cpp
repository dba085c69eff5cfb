// SPDX-License-Identifier: Apache-2.0
// libtenon_rank: shapes and movements of tensors whose number of dimensions only the run knows.
#include <algorithm>
#include <cstring>

#include "runtime/executable.h"
#include "runtime/libraries/register.h"
#include "runtime/ndarray.h"

namespace tenon {
namespace {

using Dims = std::vector<int64_t>;

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorKind::model, "T0526", what); }

const Dims& dims_of(const Any& a) {
  if (const auto t = a.try_as<NDArray>(); t && *t) return (*t)->shape;
  return a.as<Shape>()->dims;
}
Any shape(Dims dims) {
  Shape s = make<ShapeObj>();
  s.edit()->dims = std::move(dims);
  return Any(std::move(s));
}
size_t axis_of(const Any& a, const Dims& dims) {
  const int64_t axis = a.as<int64_t>(), rank = int64_t(dims.size());
  if (axis < -rank || axis >= rank)
    refuse("a tensor of " + std::to_string(rank) + " dimensions has no axis " + std::to_string(axis));
  return size_t(axis < 0 ? axis + rank : axis);
}
int64_t product(Dims::const_iterator begin, Dims::const_iterator end) { return element_count({begin, end}); }

/// (shape, axis) → (what is before it, the axis, what is behind it).
Any around(Arguments a) {
  const Dims& d = dims_of(a[0]);
  const auto at = d.begin() + std::ptrdiff_t(axis_of(a[1], d));
  return shape({product(d.begin(), at), *at, product(at + 1, d.end())});
}
/// shape → (all but the last axis, the last axis).
Any rows(Arguments a) {
  const Dims& d = dims_of(a[0]);
  if (d.empty()) refuse("a tensor without dimensions has no rows");
  return shape({product(d.begin(), d.end() - 1), d.back()});
}
/// (shape, axis, sizes) → the shape with the sizes in place of the axis.
Any replaced(Arguments a) {
  Dims d = dims_of(a[0]);
  const auto at = d.begin() + std::ptrdiff_t(axis_of(a[1], d));
  const Dims& by = dims_of(a[2]);
  d.insert(d.erase(at), by.begin(), by.end());
  return shape(std::move(d));
}
/// shape → as many ones.
Any ones(Arguments a) { return shape(Dims(dims_of(a[0]).size(), 1)); }

/// A new tensor whose elements lie in `from` at steps of `strides` elements.
NDArray gathered(const NDArray& from, const Dims& dims, const Dims& strides) {
  const NDArray out = NDArray::empty(dims, from.dtype());
  const size_t bytes = size_t(from.dtype().bytes());
  char* at = static_cast<char*>(out.data());
  Dims index(dims.size(), 0);
  int64_t offset = 0;
  for (int64_t left = out.size(); left > 0; --left, at += bytes) {
    std::memcpy(at, static_cast<const char*>(from.data()) + offset * int64_t(bytes), bytes);
    for (size_t i = dims.size(); i-- > 0;) {
      offset += strides[i];
      if (++index[i] < dims[i]) break;
      offset -= index[i] * strides[i];
      index[i] = 0;
    }
  }
  return out;
}
NDArray whole_bytes(const Any& a) {
  const NDArray x = a.as<NDArray>();
  if (x.dtype().bits < 8 && !x.dtype().is_bool())
    refuse("tensors of " + to_string(x.dtype()) + " are moved only where their rank is known");
  return x;
}
Dims steps(const Dims& dims) {
  Dims out(dims.size());
  int64_t step = 1;
  for (size_t i = dims.size(); i-- > 0; step *= dims[i]) out[i] = step;
  return out;
}

std::string text_of(const Dims& dims) {
  std::string out;
  for (const int64_t d : dims) out += (out.empty() ? "" : ", ") + std::to_string(d);
  return "(" + out + ")";
}
/// shapes → that of what is computed of all, element by element.
Any together(Arguments a) {
  Dims all;
  for (const Any& one : a) {
    const Dims& d = dims_of(one);
    if (d.size() > all.size()) all.insert(all.begin(), d.size() - all.size(), 1);
    for (size_t i = 0; i < d.size(); ++i) {
      int64_t& size = all[all.size() - d.size() + i];
      if (size != d[i] && size != 1 && d[i] != 1)
        refuse("shapes " + text_of(all) + " and " + text_of(d) + " do not fit element by element");
      if (size == 1) size = d[i];
    }
  }
  return shape(std::move(all));
}
/// (tensor, shape) → the elements of the shape in one dimension, those of the tensor for all where it has
/// one.
Any spread(Arguments a) {
  const NDArray x = whole_bytes(a[0]);
  const Dims &own = x.shape(), &dims = dims_of(a[1]);
  Dims strides(dims.size(), 0);
  const Dims given = steps(own);
  for (size_t i = 0; i < own.size(); ++i)
    if (own[i] != 1) strides[dims.size() - own.size() + i] = given[i];
  return Any(gathered(x, dims, strides).reshape({element_count(dims)}));
}

/// The axes in the opposite order.
Any reversed(Arguments a) {
  const NDArray x = whole_bytes(a[0]);
  Dims dims = x.shape(), strides = steps(dims);
  std::ranges::reverse(dims);
  std::ranges::reverse(strides);
  return Any(gathered(x, dims, strides));
}
/// (axis, tensors…) → one behind the other.
Any joined(Arguments a) {
  const NDArray first = whole_bytes(a[1]);
  Dims dims = first.shape();
  const size_t axis = axis_of(a[0], dims);
  dims[axis] = 0;
  for (const Any& one : a.subspan(1)) {
    const Dims& d = dims_of(one);
    for (size_t i = 0; i < std::max(d.size(), dims.size()); ++i)
      if (d.size() != dims.size() || (i != axis && d[i] != dims[i]))
        refuse("tensors that are joined differ outside of the axis");
    dims[axis] += d[axis];
  }
  const NDArray out = NDArray::empty(dims, first.dtype());
  const auto at = dims.begin() + std::ptrdiff_t(axis);
  const int64_t before = product(dims.begin(), at),
                inner = product(at + 1, dims.end()) * first.dtype().bytes();
  char* to = static_cast<char*>(out.data());
  for (int64_t row = 0; row < before; ++row)
    for (const Any& one : a.subspan(1)) {
      const NDArray x = one.as<NDArray>();
      const int64_t bytes = x.shape()[axis] * inner;
      if (bytes) std::memcpy(to, static_cast<const char*>(x.data()) + row * bytes, size_t(bytes));
      to += bytes;
    }
  return Any(out);
}

[[maybe_unused]] const bool registered = [] {
  register_unless_taken("tenon.rank.around", around, "sizes before an axis, of it and behind it");
  register_unless_taken("tenon.rank.rows", rows, "how many rows, and the last size");
  register_unless_taken("tenon.rank.replaced", replaced, "a shape with other sizes in place of an axis");
  register_unless_taken("tenon.rank.ones", ones, "ones, as many as a shape has sizes");
  register_unless_taken("tenon.rank.reversed", reversed, "a tensor with its axes in the opposite order");
  register_unless_taken("tenon.rank.together", together, "the shape of what is computed element by element");
  register_unless_taken("tenon.rank.spread", spread, "a tensor's elements as a larger shape has them");
  register_unless_taken("tenon.rank.joined", joined, "tensors one behind the other along an axis");
  return true;
}();

}  // namespace
}  // namespace tenon
