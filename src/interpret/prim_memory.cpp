// SPDX-License-Identifier: Apache-2.0
// Memory of tensor programs: which array a buffer means, where an element lies in it, reading and writing.
#include "interpret/prim_impl.h"

namespace tenon::prim_interpreter {

void Interpreter::bind_sizes(const Buffer& b, const Storage& s) {
  for (size_t i = 0; i < b->shape.size() && s.array.shape().size() == b->shape.size(); ++i)
    if (const auto* v = b->shape[i].as<Var>(); v && !vars_.count(v))
      vars_[v] = Lanes(b->shape[i].dtype(), s.array.shape()[i]);
}

void Interpreter::check_shape(const Buffer& b, const Storage& s) {
  if (s.array.shape().size() != b->shape.size()) {
    // A pointer passed to an internal function carries no shape: only its size is checked, on access.
    if (s.offset || s.array.ndim() == 1) return;
    error("T0353", fmt::format("buffer {} has {} dimensions, the argument has {}", b->name, b->shape.size(),
                               s.array.ndim()));
  }
  for (size_t i = 0; i < b->shape.size(); ++i) {
    const int64_t actual = s.array.shape()[i], wanted = integer(b->shape[i]);
    if (wanted != actual && s.offset == 0)
      error("T0353",
            fmt::format("dimension {} of buffer {} is {}, the argument has {}", i, b->name, wanted, actual));
  }
}

Storage& Interpreter::memory_of(const Buffer& b) {
  auto it = memory_.find(b->data.get());
  if (it == memory_.end()) error("T0350", fmt::format("buffer {} is not allocated here", b->name));
  return it->second.array.dtype().bits == stored(b->dtype).bits || options_.float64 ? it->second
                                                                                    : view(it->second, b);
}

Storage& Interpreter::view(const Storage& s, const Buffer& b) {
  auto [it, fresh] = views_.try_emplace({s.array.data(), b->dtype}, Storage());
  if (fresh) {
    const int64_t bytes = int64_t(s.array.byte_size()), each = stored(b->dtype).bytes();
    it->second = {NDArray::view(s.array.data(), {bytes / each}, stored(b->dtype), Any(s.array)), 0, {}, {}};
  }
  return it->second;
}

int64_t Interpreter::flat(const std::vector<int64_t>& shape, const std::vector<int64_t>& at,
                          const std::string& name) {
  int64_t index = 0;
  if (at.size() != shape.size())
    error("T0350", fmt::format("buffer {} has another number of dimensions than the memory behind it", name));
  for (size_t i = 0; i < shape.size(); ++i) {
    if (at[i] < 0 || at[i] >= shape[i])
      error("T0355", fmt::format("index {} of dimension {} is outside buffer {} with shape ({})", at[i], i,
                                 name, fmt::join(shape, ", ")));
    index = multiply_add(index, shape[i], at[i], name);
  }
  return index;
}

int64_t Interpreter::offset(const Buffer& b, const std::vector<int64_t>& at, const Storage& s) {
  std::vector<int64_t> shape;
  for (const PrimExpr& d : b->shape) shape.push_back(integer(d));
  int64_t index;
  if (!s.mins.empty())
    index = flat(s.array.shape(), at, b->name);
  else if (b->strides.empty() && s.strides.empty())
    index = flat(shape, at, b->name);
  else {
    flat(shape, at, b->name);
    if (b->strides.empty() && s.strides.size() != at.size())
      error("T0350",
            fmt::format("buffer {} has another number of dimensions than the matched region behind it",
                        b->name));
    index = 0;
    for (size_t i = 0; i < at.size(); ++i)
      index = multiply_add(at[i], b->strides.empty() ? s.strides[i] : integer(b->strides[i]), index, b->name);
  }
  index = multiply_add(1, index, s.offset, b->name);
  if (b->elem_offset) index = multiply_add(1, index, integer(b->elem_offset), b->name);
  const int64_t size = s.array.size() / b->dtype.lanes;  // a vector is one element
  if (index < 0 || index >= size)
    error("T0355", fmt::format("element {} is outside the {} elements of the memory behind buffer {}", index,
                               size, b->name));
  return index;
}

void Interpreter::position(const std::vector<Lanes>& indices, size_t lane, const Storage& s,
                           std::vector<int64_t>& at, const Buffer& b) {
  if (!s.mins.empty() && s.mins.size() != indices.size())
    error("T0350",
          fmt::format("buffer {} has another number of dimensions than the memory behind it", b->name));
  at.resize(indices.size());
  for (size_t i = 0; i < at.size(); ++i)
    at[i] = int64_t(uint64_t(indices[i][indices[i].size() == 1 ? 0 : lane].i) -
                    uint64_t(s.mins.empty() ? 0 : s.mins[i]));
}

Lanes Interpreter::read(const NDArray& array, int64_t index, DataType type) {
  if (is_view(array, type)) {
    const NDArray one = NDArray::empty({}, type.element());
    const size_t bytes = size_t(type.element().bytes());
    std::memcpy(one.data(), static_cast<const char*>(array.data()) + size_t(index) * bytes, bytes);
    return read(one, 0, type);
  }
  Lanes out(type.element());
  if (type.is_float())
    out[0].d = array.element(index);
  else
    out[0].i = array.element_int(index);
  return out;
}

Lanes Interpreter::load(const BufferLoad& n) {
  Storage& s = memory_of(n.buffer);
  Lanes out(n.dtype);
  Lanes mask = n.predicate ? eval(n.predicate) : Lanes();
  std::vector<Lanes> indices;
  for (const PrimExpr& i : n.indices) indices.push_back(eval(i));
  std::vector<int64_t> at;
  const size_t width = n.buffer->dtype.lanes;  // of one element
  for (size_t lane = 0; lane < out.size(); ++lane) {
    if (n.predicate && !mask[mask.size() == 1 ? 0 : lane].i) continue;  // a lane that is off gives 0
    position(indices, lane / width, s, at, n.buffer);
    out[lane] = read(s.array, offset(n.buffer, at, s) * int64_t(width) + int64_t(lane % width), n.dtype)[0];
  }
  return out;
}

void Interpreter::write(const NDArray& array, int64_t index, const Lane& v, DataType type) {
  if (is_read_only(array)) error("T0406", "the program writes to an argument that may only be read");
  if (is_view(array, type)) {
    const NDArray one = NDArray::empty({}, type.element());
    const size_t bytes = size_t(type.element().bytes());
    write(one, 0, v, type);
    std::memcpy(static_cast<char*>(array.data()) + size_t(index) * bytes, one.data(), bytes);
    return;
  }
  if (type.is_float())
    array.set_element(index, v.d);
  else
    array.set_element_int(index, v.i);
}

Storage Interpreter::allocate(const Array<PrimExpr>& shape, DataType dtype) {
  std::vector<int64_t> dims;
  for (const PrimExpr& d : shape) dims.push_back(std::max<int64_t>(0, integer(d)));
  if (dtype.lanes > 1) {  // vectors lie one behind the other
    if (dims.empty()) dims.push_back(1);
    dims.back() = multiply_add(dims.back(), dtype.lanes, 0, "of vectors");
  }
  int64_t bytes = stored(dtype).bytes();
  for (int64_t d : dims)
    if (__builtin_mul_overflow(bytes, d, &bytes)) bytes = INT64_MAX;
  if (bytes > options_.max_bytes)
    error("T0351", fmt::format("an allocation of more than {} bytes", options_.max_bytes));
  NDArray a = NDArray::empty(dims, stored(dtype));
  // Undefined memory is filled with a value that shows when it is read.
  const int64_t n = a.size();
  for (int64_t i = 0; i < n; ++i) {
    if (a.dtype().is_float())
      a.set_element(i, std::nan(""));
    else
      a.set_element_int(i, -0x35014542);
  }
  return {a, 0, {}, {}};
}

Interpreter::Produced& Interpreter::produced(const DataProducer& p) {
  auto it = producers_.find(p.get());
  if (it == producers_.end()) {
    const NDArray array = allocate(p->shape, p->dtype).array;
    it = producers_.emplace(p.get(), Produced{array, std::vector<bool>(size_t(array.size()))}).first;
  }
  return it->second;
}

void Interpreter::match_buffer(const MatchBufferRegion& m) {
  const Buffer& source = m->source->buffer;
  Storage& s = memory_of(source);
  std::vector<int64_t> corner;
  for (const Range& r : m->source->region) corner.push_back(integer(r->min));
  std::vector<int64_t> from = corner;
  if (!s.mins.empty() && s.mins.size() != corner.size())
    error("T0350",
          fmt::format("buffer {} has another number of dimensions than the memory behind it", source->name));
  for (size_t i = 0; i < s.mins.size(); ++i) from[i] = int64_t(uint64_t(from[i]) - uint64_t(s.mins[i]));
  const int64_t start = s.array.size() == 0 ? 0 : offset(source, from, s);
  std::vector<int64_t> strides(source->shape.size(), 1);
  for (size_t i = source->shape.size(); i-- > 0;)
    strides[i] = !source->strides.empty()  ? integer(source->strides[i])
                 : !s.strides.empty()      ? s.strides[i]
                 : i + 1 == strides.size() ? 1
                                           : strides[i + 1] * integer(source->shape[i + 1]);
  const size_t dropped = strides.size() - m->buffer->shape.size();
  for (size_t i = 0; i < m->buffer->shape.size(); ++i) {
    bind_or_check(m->buffer->shape[i], integer(m->source->region[i + dropped]->extent), m->buffer->name);
    if (!m->buffer->strides.empty())
      bind_or_check(m->buffer->strides[i], strides[i + dropped], m->buffer->name);
  }
  Storage view = s;
  view.mins.clear();
  view.strides.assign(strides.begin() + std::ptrdiff_t(dropped), strides.end());
  if (m->buffer->elem_offset && m->buffer->elem_offset.is<Var>()) {
    bind_or_check(m->buffer->elem_offset, start, m->buffer->name);
    view.offset = 0;
  } else
    view.offset = start;
  memory_[m->buffer->data.get()] = view;
}

void Interpreter::bind_or_check(const PrimExpr& e, int64_t value, const std::string& name) {
  if (const auto* v = e.as<Var>())
    vars_[v] = Lanes(e.dtype(), value);
  else if (integer(e) != value)
    error("T0353", fmt::format("match_buffer {}: {} where the region has {}", name, integer(e), value));
}

}  // namespace tenon::prim_interpreter
